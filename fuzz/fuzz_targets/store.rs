//! The libFuzzer target of the fuzz body `restante::fuzzing::store`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    restante::fuzzing::store(data);
});
