//! The libFuzzer target of the fuzz body `restante::fuzzing::managesieve`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    restante::fuzzing::managesieve(data);
});
