//! The bodies of the fuzz targets: each takes any octets and panics where a promise of a room does
//! not hold.
//!
//! They name every room and no room names them. They are always compiled, so that
//! `fuzz/fuzz_targets` (libFuzzer, nightly) has nothing in it but a call, and so that the ordinary
//! tests replay the seeds of `fuzz/corpus` and mutations of them on stable. A body does no I/O,
//! reads no clock, and gives the same verdict for the same octets each time; what looks random in
//! it is thrown with dice whose seed is the input.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a body speaks by panicking"
)]

mod bodies;
mod emails;
mod http;
mod mail;
mod protocols;
mod questions;
mod requests;
mod rows;
mod text;
mod transfer;
mod truth;

pub use bodies::{decode, report};
pub use emails::{draft, structure};
pub use http::http;
pub use mail::{message, reply, results, search, sign};
pub use protocols::{address, command, dot, jmap, lmtp};
pub use questions::filter;
pub use requests::request;
pub use rows::{fold, key, row};
pub use text::{config, date};
pub use transfer::{folder, mbox};
pub use truth::{damage, store};

/// A body.
pub type FuzzBody = fn(&[u8]);

/// Every body by the name of its target.
pub const BODIES: &[(&str, FuzzBody)] = &[
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
    ("mbox", mbox),
    ("message", message),
    ("reply", reply),
    ("report", report),
    ("request", request),
    ("results", results),
    ("row", row),
    ("search", search),
    ("sign", sign),
    ("store", store),
    ("structure", structure),
];

/// Octets of an input that are looked at: more finds nothing else, and a slow body finds little.
const MAX_INPUT_BYTES: usize = 64 * 1024;

fn bounded(data: &[u8]) -> &[u8] {
    data.get(..MAX_INPUT_BYTES).unwrap_or(data)
}

/// Dice: the same throws for the same input.
struct InputRng(u64);

impl InputRng {
    fn of(data: &[u8]) -> Self {
        let seed = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
            (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed | 1)
    }

    fn throw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From 0 to `most`, `most` included.
    fn upto(&mut self, most: usize) -> usize {
        usize::try_from(self.throw() % (most as u64 + 1)).unwrap_or(0)
    }

    /// The input in pieces of random length, `about` octets each.
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

/// Reads an input as a row of choices; when it is used up every choice is 0.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn octet(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn fixed<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.octet())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.fixed())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.fixed())
    }

    fn below(&mut self, most: usize) -> usize {
        usize::from(self.octet()) % most.max(1)
    }
}

#[cfg(test)]
mod tests;
