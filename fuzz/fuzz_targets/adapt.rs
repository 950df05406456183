//! The libFuzzer target of the fuzz body `restante::fuzzing::adapt`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    restante::fuzzing::adapt(data);
});
