//! Medians of one question over all sizes, side by side.

use std::path::Path;
use std::time::{Duration, Instant};

use restante::store::Store;

use crate::Options;
use crate::grow::Account;

pub(crate) fn head(sizes: &[u64]) {
    print!("{:<46}", "microseconds (median), emails:");
    for size in sizes {
        print!("{size:>12}");
    }
    println!("{:>10}", "ratio");
}

/// Puts a question to each account in turn, so many rounds, and prints the median of each.
pub(crate) fn measure(options: &Options, accounts: &[Account], name: &str, mut ask: impl FnMut(&Account, u64)) {
    measure_after(options, accounts, name, |_, _| (), |account, round, ()| ask(account, round));
}

/// The same, with something done before each question whose time does not count.
pub(crate) fn measure_after<P>(
    options: &Options,
    accounts: &[Account],
    name: &str,
    mut before: impl FnMut(&Account, u64) -> P,
    mut ask: impl FnMut(&Account, u64, P),
) {
    if !options.wants(name) {
        return;
    }
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); accounts.len()];
    let budget = Duration::from_secs(30);
    let begun = Instant::now();
    // The first two rounds warm what is cached.
    for round in 0..options.rounds as u64 + 2 {
        for (at, account) in accounts.iter().enumerate() {
            let prepared = before(account, round);
            let start = Instant::now();
            ask(account, round, prepared);
            if round >= 2 {
                times[at].push(start.elapsed());
            }
        }
        if begun.elapsed() > budget && round >= 5 {
            break;
        }
    }
    let medians: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
    line(name, &medians);
}

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

/// Octets on disk a message, and by table what a delivery costs.
pub(crate) fn disk(store: &Store, dir: &Path) {
    let emails: u64 = {
        let view = store.view();
        let all = view.accounts().unwrap();
        all.iter().map(|(id, _)| view.account_state(*id).unwrap().emails).sum()
    };
    let octets: u64 = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    println!("{:.0} octets on disk a message of {} octets", octets as f64 / emails as f64, crate::grow::SIZE);
    println!("{:<24}{:>14}{:>16}{:>16}{:>8}", "table", "rows/message", "octets/message", "written/message", "times");
    for (table, usage) in store.usage() {
        let (rows, live, written) = (usage.rows as f64, usage.octets as f64, usage.written as f64);
        let each = |number: f64| number / emails as f64;
        if usage.rows > 0 || usage.written > 0 {
            let times = if usage.flushed == 0 { 0.0 } else { written / usage.flushed as f64 };
            println!("{table:<24}{:>14.2}{:>16.1}{:>16.1}{times:>8.1}", each(rows), each(live), each(written));
        }
    }
}
