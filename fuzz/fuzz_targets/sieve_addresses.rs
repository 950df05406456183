//! The libFuzzer target of the fuzz body `restante_sieve::fuzzing::addresses`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    restante_sieve::fuzzing::addresses(data);
});
