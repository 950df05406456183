//! Measures operations on all accounts, and prints the medians and the use of the disk.

use std::path::Path;
use std::time::{Duration, Instant};

use restante::internals::store::{Store, Usage};

use crate::Options;
use crate::grow::Account;

/// Prints the heads of the columns: the sizes of the accounts.
pub(crate) fn head(sizes: &[u64]) {
    print!("{:<46}", "microseconds (median), emails:");
    for size in sizes {
        print!("{size:>12}");
    }
    println!("{:>10}", "ratio");
}

/// Runs an operation on each account in turn, and prints the median of each account. Ends after
/// `Options::rounds` measured rounds, or after about 30 seconds if at least four rounds were
/// measured.
pub(crate) fn measure(
    options: &Options,
    accounts: &[Account],
    name: &str,
    mut ask: impl FnMut(&Account, u64),
) {
    measure_after(options, accounts, name, |_, _| (), |account, round, ()| ask(account, round));
}

/// Does the same as [`measure`], with an unmeasured preparation before each operation.
pub(crate) fn measure_after<P>(
    options: &Options,
    accounts: &[Account],
    name: &str,
    mut before: impl FnMut(&Account, u64) -> P,
    mut ask: impl FnMut(&Account, u64, P),
) {
    if options.wants(name) {
        let medians = medians(options, accounts, |account, round| {
            let prepared = before(account, round);
            let start = Instant::now();
            ask(account, round, prepared);
            [start.elapsed()]
        });
        line(name, &medians.concat());
    }
}

/// Does the same as [`measure`], and also prints the ratio to another operation, which runs before
/// each: a temporary slowness of the machine affects both.
pub(crate) fn measure_against(
    options: &Options,
    accounts: &[Account],
    (name, other): (&str, &str),
    mut ask_other: impl FnMut(&Account),
    mut ask: impl FnMut(&Account),
) {
    if options.wants(name) {
        let medians = medians(options, accounts, |account, _| {
            let start = Instant::now();
            ask_other(account);
            let between = Instant::now();
            ask(account);
            [between.duration_since(start), between.elapsed()]
        });
        let each = |of: fn(&[f64; 2]) -> f64| medians.iter().map(of).collect::<Vec<f64>>();
        line(name, &each(|[_, taken]| *taken));
        line(&format!("  times {other}"), &each(|[base, taken]| taken / base));
    }
}

/// The medians of the times that `ask` returns, in microseconds, by account.
fn medians<const N: usize>(
    options: &Options,
    accounts: &[Account],
    mut ask: impl FnMut(&Account, u64) -> [Duration; N],
) -> Vec<[f64; N]> {
    let mut times: Vec<[Vec<Duration>; N]> =
        accounts.iter().map(|_| std::array::from_fn(|_| Vec::new())).collect();
    let budget = Duration::from_secs(30);
    let begun = Instant::now();
    // The first two rounds warm the caches, and do not count.
    for round in 0..options.rounds as u64 + 2 {
        for (times, account) in times.iter_mut().zip(accounts) {
            let taken = ask(account, round);
            if round >= 2 {
                times.iter_mut().zip(taken).for_each(|(times, taken)| times.push(taken));
            }
        }
        if begun.elapsed() > budget && round >= 5 {
            break;
        }
    }
    times.into_iter().map(|times| times.map(|mut times| median(&mut times))).collect()
}

/// Prints the figures of the accounts, and the last one divided by the first.
pub(crate) fn line(name: &str, numbers: &[f64]) {
    print!("{name:<46}");
    for number in numbers {
        print!("{number:>12.1}");
    }
    match numbers {
        [first, .., last] => println!("{:>10.2}", last / first),
        _ => println!(),
    }
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

/// The bytes of all files of a directory, and of the directories in it: the files of RocksDB, and
/// those of the messages in `segments`.
fn bytes_of(dir: &Path) -> u64 {
    let bytes = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() { bytes_of(&entry.path()) } else { metadata.len() }
    };
    std::fs::read_dir(dir).unwrap().map(bytes).sum()
}

/// Prints the bytes on disk per message, in the tables and in the segments, and for each table the
/// rows and bytes per message. The last column is the bytes that flushes and compactions wrote,
/// divided by those of the flushes.
pub(crate) fn disk(store: &Store, dir: &Path) {
    let emails: u64 = {
        let snapshot = store.snapshot();
        let all = snapshot.accounts().unwrap();
        all.iter().map(|(id, _)| snapshot.account_state(*id).unwrap().emails).sum()
    };
    let (all, segments) = (bytes_of(dir), bytes_of(&dir.join("segments")));
    println!(
        "{:.0} bytes on disk per message of {} bytes, {:.0} of them in segments",
        all as f64 / emails as f64,
        crate::grow::SIZE,
        segments as f64 / emails as f64
    );
    println!(
        "{:<24}{:>14}{:>16}{:>16}{:>8}",
        "table", "rows/message", "bytes/message", "written/message", "times"
    );
    let each = |number: u64| number as f64 / emails as f64;
    let print = |name: &str, usage: &Usage| {
        let times =
            if usage.flushed == 0 { 0.0 } else { usage.written as f64 / usage.flushed as f64 };
        println!(
            "{name:<24}{:>14.2}{:>16.1}{:>16.1}{times:>8.1}",
            each(usage.rows),
            each(usage.bytes),
            each(usage.written)
        );
    };
    let mut all = Usage::default();
    for (table, usage) in store.usage() {
        if usage.rows > 0 || usage.written > 0 {
            print(table, &usage);
        }
        all.rows += usage.rows;
        all.bytes += usage.bytes;
        all.flushed += usage.flushed;
        all.written += usage.written;
    }
    print("all", &all);
}
