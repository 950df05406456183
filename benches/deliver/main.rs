//! LMTP under load, over real sockets: the service in a process of its own, and next to it, in the
//! same run, a plain sink that only appends to one file and syncs for all who wait. What the second
//! can do is what the disk allows.
//!
//! `cargo bench --ignore-rust-version --bench deliver -- --sessions 20 --seconds 30 --size 4096
//! --recipients 1` `cargo bench --ignore-rust-version --bench deliver -- --count 30000`: until that
//! many are in, then each is looked up. `--only service|sink` runs one of them; `--no-trace` leaves
//! out the short run under strace that counts syncs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a bench"
)]

mod load;
mod service;
mod sink;
#[path = "../words.rs"]
mod words;

use std::path::Path;
use std::time::Duration;

use load::{Load, Measured};
use service::Service;

#[derive(Debug, Clone)]
struct Options {
    sessions: usize,
    seconds: u64,
    size: usize,
    recipients: usize,
    count: Option<u64>,
    only: Option<String>,
    trace: bool,
}

fn options() -> Options {
    let mut options = Options {
        sessions: 20,
        seconds: 30,
        size: 4096,
        recipients: 1,
        count: None,
        only: None,
        trace: true,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} wants a value"));
        match word.as_str() {
            "--sessions" => options.sessions = value().parse().expect("a number"),
            "--seconds" => options.seconds = value().parse().expect("a number"),
            "--size" => options.size = value().parse().expect("a number"),
            "--recipients" => options.recipients = value().parse().expect("a number"),
            "--count" => options.count = Some(value().parse().expect("a number")),
            "--only" => options.only = Some(value()),
            "--no-trace" => options.trace = false,
            // Cargo's own.
            "--bench" => {}
            other => panic!("what is {other}?"),
        }
    }
    options
}

fn main() {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some("sink") {
        let (socket, file) = (words.next().expect("a socket"), words.next().expect("a file"));
        sink::serve(Path::new(&socket), Path::new(&file));
        return;
    }
    let options = options();
    let dir = std::env::var_os("RESTANTE_BENCH_DIR").map_or_else(
        || Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench"),
        |named| Path::new(&named).to_path_buf(),
    );
    println!(
        "{} sessions, {} octets, {} recipients, in {}; durable commits",
        options.sessions,
        options.size,
        options.recipients,
        dir.display()
    );
    let load = Load {
        sessions: options.sessions,
        size: options.size,
        recipients: options.recipients,
        time: Duration::from_secs(options.seconds),
        count: options.count,
    };
    let mut rates = Vec::new();
    for kind in ["sink", "service"] {
        if options.only.as_deref().is_some_and(|only| only != kind)
            || (kind == "sink" && options.count.is_some())
        {
            continue;
        }
        let service =
            Service::start(kind, &dir, options.sessions * options.recipients.max(1), false);
        // A warm start for both: connections, caches, the first memtable.
        if options.count.is_none() {
            Load { time: Duration::from_secs(2), count: None, ..load.clone() }
                .run(&service, 1 << 40);
        }
        let before = service.usage();
        let measured = load.run(&service, 0);
        let used = service.usage().since(&before);
        report(kind, &measured, &used);
        if options.count.is_some() {
            service.look_up(&measured);
        }
        rates.push((kind, measured.rate()));
        service.stop();
    }
    if let [(_, sink), (_, service)] = rates[..] {
        println!("service / sink: {:.3}", service / sink);
    }
    if options.trace && options.count.is_none() && options.only.as_deref() != Some("sink") {
        count_syncs(&load, &dir, &options);
    }
}

fn report(kind: &str, measured: &Measured, used: &service::Usage) {
    let n = measured.deliveries.max(1) as f64;
    println!(
        "{kind:>8}: {:>8.0} deliveries/s  p50 {:>6.2} ms  p99 {:>6.2} ms  {:>5.3} CPU s per 1,000  {:>6.1} KB written a \
         delivery  resident {:.0} MB  refused {}",
        measured.rate(),
        measured.quantile(0.50),
        measured.quantile(0.99),
        used.cpu_seconds / n * 1000.0,
        used.written as f64 / n / 1000.0,
        used.resident as f64 / 1e6,
        measured.refused,
    );
}

/// A short run under strace, for the one number that the kernel does not count by process.
fn count_syncs(load: &Load, dir: &Path, options: &Options) {
    let service =
        Service::start("service", dir, options.sessions * options.recipients.max(1), true);
    if !service.traced() {
        println!("syncs a delivery: not counted, strace is lacking");
        return service.stop();
    }
    let measured =
        Load { time: Duration::from_secs(5), count: None, ..load.clone() }.run(&service, 0);
    let syncs = service.stop_and_count();
    println!(
        "syncs: {syncs} for {} deliveries under strace, {:.3} a delivery",
        measured.deliveries,
        syncs as f64 / measured.deliveries.max(1) as f64
    );
}
