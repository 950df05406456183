//! The libFuzzer target of the fuzz body `restante::fuzzing::sign`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    restante::fuzzing::sign(data);
});
