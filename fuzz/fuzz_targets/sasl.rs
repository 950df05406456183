//! The libFuzzer target of the fuzz body `restante::fuzzing::sasl`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    restante::fuzzing::sasl(data);
});
