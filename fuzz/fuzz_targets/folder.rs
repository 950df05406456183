//! The libFuzzer target of the fuzz body `restante::fuzzing::folder`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    restante::fuzzing::folder(data);
});
