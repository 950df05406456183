//! Measures LMTP delivery under load, over real sockets, by the service and by a sink that only
//! appends to one file and syncs it. The rate of the sink is the limit that the disk sets.
//!
//! `cargo bench --ignore-rust-version --bench deliver -- OPTIONS`:
//! - `--sessions 20 --seconds 30 --size 4096 --recipients 1` are the defaults. The size is that of
//!   a message, in bytes, and the recipients are those of each message.
//! - `--count 30000` delivers 30,000 messages to the service alone, and checks that each of them
//!   that it accepted is stored once.
//! - `--rate 1000` begins at most 1,000 messages in a second.
//! - `--only service` or `--only sink` runs one of them.
//! - `--no-trace` leaves out the short run under strace that counts syncs.
//! - `--peers` measures the sink and the service in turns, in five shapes of load (`peers`).
//!   `--rounds 3 --seconds 8` are the defaults, `--size` selects the shapes of that size,
//!   `--program NAME=PATH` adds another build of the service, and `--script FILE` adds the service
//!   with that Sieve script as the active one of each account.
//!
//! The programs store mail in the folder `deliver` of `RESTANTE_BENCH_DIR`, or of Cargo's temporary
//! directory. That folder is deleted with all that is in it before each program starts.
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
mod peers;
mod service;
mod sink;
#[path = "../words.rs"]
mod words;

use std::path::Path;
use std::time::Duration;

use load::{Load, Measured};
use service::{Peer, Service};

#[derive(Debug, Clone)]
struct Options {
    sessions: usize,
    seconds: u64,
    size: usize,
    recipients: usize,
    /// `None` to send for `seconds` instead.
    count: Option<u64>,
    rate: Option<u32>,
    only: Option<String>,
    trace: bool,
    peers: bool,
    rounds: usize,
    programs: Vec<Peer>,
    /// The words of the command line that are not values of options.
    given: Vec<String>,
}

fn options() -> Options {
    let mut options = Options {
        sessions: 20,
        seconds: 30,
        size: 4096,
        recipients: 1,
        count: None,
        rate: None,
        only: None,
        trace: true,
        peers: false,
        rounds: 3,
        programs: Vec::new(),
        given: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        options.given.push(word.clone());
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--sessions" => options.sessions = value().parse().expect("a number"),
            "--seconds" => options.seconds = value().parse().expect("a number"),
            "--size" => options.size = value().parse().expect("a number"),
            "--recipients" => options.recipients = value().parse().expect("a number"),
            "--count" => options.count = Some(value().parse().expect("a number")),
            "--rate" => options.rate = Some(value().parse().expect("a number")),
            "--only" => options.only = Some(value()),
            "--no-trace" => options.trace = false,
            "--peers" => options.peers = true,
            "--rounds" => options.rounds = value().parse().expect("a number"),
            "--program" => {
                let value = value();
                let (name, path) = value.split_once('=').expect("NAME=PATH");
                let program = Some(path.into());
                options.programs.push(Peer { name: name.to_owned(), program, script: None });
            }
            "--script" => options.programs.push(Peer::filtered(&value())),
            // Cargo adds this option.
            "--bench" => {}
            other => panic!("unknown option {other}"),
        }
    }
    options
}

fn main() {
    // `Service::start` runs this program as the sink.
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some("sink") {
        let (socket, file) = (words.next().expect("a socket"), words.next().expect("a file"));
        sink::serve(Path::new(&socket), Path::new(&file));
        return;
    }
    let options = options();
    let dir = std::env::var_os("RESTANTE_BENCH_DIR").map_or_else(
        || Path::new(env!("CARGO_TARGET_TMPDIR")).join("deliver"),
        |named| Path::new(&named).join("deliver"),
    );
    let is_given = |name: &str| options.given.iter().any(|given| given == name);
    if options.peers {
        let mut peers = vec![Peer::sink(), Peer::service()];
        peers.extend(options.programs.iter().cloned());
        return peers::run(&peers::Options {
            peers,
            rounds: options.rounds,
            time: Duration::from_secs(if is_given("--seconds") { options.seconds } else { 8 }),
            dir,
            size: is_given("--size").then_some(options.size),
        });
    }
    println!(
        "{} sessions, {} bytes, {} recipients, in {}; durable commits",
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
        rate: options.rate,
    };
    let mut rates = Vec::new();
    for kind in ["sink", "service"] {
        if options.only.as_deref().is_some_and(|only| only != kind)
            || (kind == "sink" && options.count.is_some())
        {
            continue;
        }
        let peer = if kind == "sink" { Peer::sink() } else { Peer::service() };
        let service =
            Service::start(&peer, &dir, options.sessions * options.recipients.max(1), false);
        // Warms up connections, caches and the first memtable, with numbers that the measured run
        // does not reach.
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
        "{kind:>8}: {:>8.0} deliveries/s  p50 {:>6.2} ms  p99 {:>6.2} ms  \
         {:>5.3} CPU s per 1,000  {:>6.1} KB written per delivery  resident {:.0} MB  refused {}",
        measured.rate(),
        measured.quantile(0.50),
        measured.quantile(0.99),
        used.cpu_seconds / n * 1000.0,
        used.written as f64 / n / 1000.0,
        used.resident as f64 / 1e6,
        measured.refused,
    );
}

/// Counts syncs in a short run under strace, because the kernel does not count them by process.
fn count_syncs(load: &Load, dir: &Path, options: &Options) {
    let service =
        Service::start(&Peer::service(), dir, options.sessions * options.recipients.max(1), true);
    if !service.traced() {
        println!("syncs per delivery: not counted, strace is missing");
        return service.stop();
    }
    let measured =
        Load { time: Duration::from_secs(5), count: None, ..load.clone() }.run(&service, 0);
    let syncs = service.stop_and_count();
    println!(
        "syncs: {syncs} for {} deliveries under strace, {:.3} per delivery",
        measured.deliveries,
        syncs as f64 / measured.deliveries.max(1) as f64
    );
}
