//! The fuzz bodies: functions that take any bytes and panic if code of a room breaks its contract.
//!
//! - No result depends on a clock. Apart from the zone data of the machine, a body does no I/O.
//! - A body is deterministic: its random numbers come from a hash of the input (`InputRng`).
//!   Exceptions are the random keys of a new store, and the account that all inputs of `draft`
//!   share.
//! - The targets in `fuzz/fuzz_targets` (libFuzzer, nightly) only call a body. The ordinary tests
//!   run the bodies on stable Rust, over the seeds of `fuzz/corpus` and mutations of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a body reports errors by panicking"
)]

mod bodies;
mod emails;
mod filter_host;
mod http;
mod mail;
mod managesieve;
mod protocols;
mod questions;
mod requests;
mod rows;
mod sasl;
mod text;
mod transfer;
mod truth;

pub use bodies::{decode, report};
pub use emails::{draft, structure};
pub use filter_host::{adapt, view};
pub use http::http;
pub use mail::{message, reply, results, search, sign};
pub use managesieve::managesieve;
pub use protocols::{address, command, dot, jmap, lmtp};
pub use questions::filter;
pub use requests::request;
pub use rows::{fold, key, row};
pub use sasl::sasl;
pub use text::{config, date};
pub use transfer::{folder, mbox};
pub use truth::{damage, store};

pub type FuzzBody = fn(&[u8]);

/// All bodies of this crate, with the names of their targets. The targets `sieve_*` have bodies of
/// the crate `restante_sieve`.
pub const BODIES: &[(&str, FuzzBody)] = &[
    ("adapt", adapt),
    ("address", address),
    ("command", command),
    ("config", config),
    ("damage", damage),
    ("date", date),
    ("decode", decode),
    ("dot", dot),
    ("draft", draft),
    ("filter", filter),
    ("fold", fold),
    ("folder", folder),
    ("http", http),
    ("jmap", jmap),
    ("key", key),
    ("lmtp", lmtp),
    ("managesieve", managesieve),
    ("mbox", mbox),
    ("message", message),
    ("reply", reply),
    ("report", report),
    ("request", request),
    ("results", results),
    ("row", row),
    ("sasl", sasl),
    ("search", search),
    ("sign", sign),
    ("store", store),
    ("structure", structure),
    ("view", view),
];

/// The length to which most bodies cut their input (`bounded`): longer inputs find no other errors,
/// and slow a body down.
const MAX_INPUT_BYTES: usize = 64 * 1024;

fn bounded(data: &[u8]) -> &[u8] {
    data.get(..MAX_INPUT_BYTES).unwrap_or(data)
}

/// A xorshift generator: the same input gives the same numbers.
struct InputRng(u64);

impl InputRng {
    fn of(data: &[u8]) -> Self {
        // FNV-1a. The generator's state must not be 0.
        let seed = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed | 1)
    }

    fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number from 0 to `max`, inclusive.
    fn upto(&mut self, max: usize) -> usize {
        usize::try_from(self.number() % (max as u64 + 1)).unwrap_or(0)
    }

    /// Splits `data` into pieces of random length, of `about` bytes on average. `about` must not be
    /// 0. Some pieces may be empty.
    fn pieces<'a>(&mut self, data: &'a [u8], about: usize) -> Vec<&'a [u8]> {
        let mut rest = data;
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(self.upto(about * 2).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces
    }
}

/// Reads an input as a sequence of choices, all 0 after its end.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn fixed<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.fixed())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.fixed())
    }

    /// Returns a number below `end`, or 0 if `end` is 0. It is always below 256.
    fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }
}

#[cfg(test)]
mod tests;
