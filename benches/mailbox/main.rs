//! Measures how the cost of operations grows with a mailbox: accounts of several sizes in one store
//! get each operation in turn, so that other load of the machine affects all alike. The last column
//! is the figure of the largest account divided by that of the smallest. Some lines have columns of
//! their own: deliveries (the first account is empty), deliveries beside background work, the disk.
//!
//! `cargo bench --ignore-rust-version --bench mailbox -- OPTIONS`:
//! - `--sizes 1000,10000,100000 --rounds 200` sets the sizes and the rounds. These are the
//!   defaults. A size below 1,000 may have too few unseen emails for full pages: the bench panics.
//! - `--keep` uses the store of an earlier run with `--keep`, if there is one, fills only what is
//!   missing, and does not remove the store afterwards.
//! - `--only WORD,WORD` measures only the operations whose name contains one of the words.
//!
//! The store is in the folder `mailbox` of `RESTANTE_BENCH_DIR`, or of Cargo's temporary directory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a bench"
)]

mod ask;
mod background;
mod change;
mod grow;
mod report;
#[path = "../words.rs"]
mod words;

use std::path::Path;

use restante::internals::model::clock::SystemClock;
use restante::internals::store::{Options as StoreOptions, Store};

#[derive(Debug, Clone)]
struct Options {
    sizes: Vec<u64>,
    rounds: usize,
    keep: bool,
    only: Vec<String>,
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| name.contains(word.as_str()))
    }
}

fn options() -> Options {
    let mut options =
        Options { sizes: vec![1_000, 10_000, 100_000], rounds: 200, keep: false, only: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--sizes" => {
                options.sizes =
                    value().split(',').map(|size| size.parse().expect("a number")).collect();
            }
            "--rounds" => options.rounds = value().parse().expect("a number"),
            "--only" => options.only = value().split(',').map(str::to_owned).collect(),
            "--keep" => options.keep = true,
            // Cargo adds this option.
            "--bench" => {}
            other => panic!("unknown option {other}"),
        }
    }
    options.sizes.sort_unstable();
    options
}

fn main() {
    let options = options();
    let dir = std::env::var_os("RESTANTE_BENCH_DIR").map_or_else(
        || Path::new(env!("CARGO_TARGET_TMPDIR")).join("mailbox"),
        |named| Path::new(&named).join("mailbox"),
    );
    if !options.keep {
        drop(std::fs::remove_dir_all(&dir));
    }
    std::fs::create_dir_all(&dir).expect("a directory for the store");
    let store = Store::open(&dir, &StoreOptions::default(), std::sync::Arc::new(SystemClock))
        .expect("the store");
    let accounts: Vec<grow::Account> =
        options.sizes.iter().map(|size| grow::account(&store, *size)).collect();
    report::head(&options.sizes);
    ask::all(&store, &accounts, &options);
    change::all(&store, &accounts, &options);
    background::measure_all(&store, &accounts, &options);
    ask::again(&store, &accounts, &options);
    report::disk(&store, &dir);
    drop(store);
    if !options.keep {
        drop(std::fs::remove_dir_all(&dir));
    }
}
