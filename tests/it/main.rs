//! The one integration binary: the real program, real sockets, a real Postfix where there is one.
//!
//! One binary, because each further one links RocksDB again. Tests that need what a machine may
//! lack report it by
//! [`needs::lacking`].
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    let_underscore_drop,
    reason = "test code"
)]

mod backup;
#[cfg_attr(not(feature = "rocksdb"), allow(dead_code, reason = "the crash test wants RocksDB"))]
mod bed;
mod blobs;
mod bounds;
mod check;
mod cli;
mod clients;
mod corpus;
mod crash;
mod delivery;
#[allow(dead_code, reason = "the tests of `proof` in the library ask it for more")]
mod dns;
#[cfg(feature = "rocksdb")]
mod full;
mod http;
mod import;
mod life;
mod loops;
mod mail;
mod metrics;
mod modes;
mod mta;
mod needs;
mod owner;
mod postfix;
mod proof;
mod push;
mod query;
mod queue;
mod quota;
mod reload;
mod replay;
mod sieve;
#[cfg_attr(not(feature = "rocksdb"), allow(dead_code, reason = "the crash test wants RocksDB"))]
mod sink;
mod starttls;
mod systemd;
mod vacation;
mod webpush;

use std::path::{Path, PathBuf};

use needs::lacking;

/// The checkout.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program of that name in `PATH`, or where Debian keeps those of the administrator.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin"])
        .map(|folder| Path::new(folder).join(name))
        .find(|file| file.is_file())
}
