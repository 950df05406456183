//! The integration tests: they run the real program with real sockets and, where it is installed,
//! a real Postfix.
//!
//! - All tests are in one binary, because every further binary links RocksDB again.
//! - A test whose program or right is missing on this machine calls [`needs::report_missing`].
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

mod accounts;
mod backup;
#[cfg_attr(not(feature = "rocksdb"), allow(dead_code, reason = "the crash test needs RocksDB"))]
mod bed;
mod blobs;
mod bounds;
mod check;
mod cli;
mod clients;
mod corpus;
mod crash;
mod delivery;
#[allow(dead_code, reason = "the tests of `proof` in the library use more of it")]
mod dns;
#[cfg(feature = "rocksdb")]
mod full;
mod http;
mod import;
mod jmap_sieve;
mod life;
mod loops;
mod mail;
mod managesieve;
mod metrics;
mod modes;
mod mta;
mod needs;
mod origins;
mod owner;
mod postfix;
mod proof;
mod push;
mod query;
mod queue;
mod quota;
mod reload;
mod replay;
mod scripts_cli;
mod sieve;
mod sieve_clients;
mod sieve_scripts;
mod sieve_stored;
#[cfg_attr(not(feature = "rocksdb"), allow(dead_code, reason = "the crash test needs RocksDB"))]
mod sink;
mod starttls;
mod systemd;
mod vacation;
mod webpush;

use std::path::{Path, PathBuf};

use needs::report_missing;

/// The root directory of the checkout.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Finds a program in `PATH`, `/usr/sbin` or `/sbin`.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin"])
        .map(|folder| Path::new(folder).join(name))
        .find(|file| file.is_file())
}
