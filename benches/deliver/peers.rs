//! The table of peers: in each round every program is measured once, for a few seconds (a cell), so
//! that a change of the machine's speed affects all of them. Each round begins with another
//! program, because what one leaves to be written to the disk can slow the next. Prints medians and
//! the spread.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::load::Load;
use crate::service::{Peer, Service};

/// The shapes of the load: bytes of a message, recipients, sessions.
const SHAPES: [(usize, usize, usize); 5] =
    [(4096, 1, 20), (4096, 1, 1), (4096, 10, 20), (50 << 10, 1, 20), (1 << 20, 1, 20)];

#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The sink, and then the programs that are compared with it.
    pub(crate) peers: Vec<Peer>,
    pub(crate) rounds: usize,
    /// The length of a cell.
    pub(crate) time: Duration,
    /// Where the programs store mail. It is deleted before each cell.
    pub(crate) dir: PathBuf,
    /// Only shapes with messages of this size, if given.
    pub(crate) size: Option<usize>,
}

/// The figures of one cell: `rate` in deliveries per second, `p50` and `p99` (quantiles of the
/// latencies) in milliseconds, `resident` (memory of the program) in MB.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    rate: f64,
    /// CPU seconds of the program for 1,000 deliveries.
    cpu: f64,
    p50: f64,
    p99: f64,
    /// Bytes written for each delivery, by the program. The kernel counts a folio as a whole if a
    /// part of it was changed.
    written: f64,
    /// Bytes written for each delivery and flushes, by the block device: also for the metadata of
    /// the file system, and for other programs.
    disk: f64,
    flushes: f64,
    resident: f64,
}

pub(crate) fn run(options: &Options) {
    println!(
        "{} rounds of {:?} a cell, in {}",
        options.rounds,
        options.time,
        options.dir.display()
    );
    for (size, recipients, sessions) in SHAPES {
        if options.size.is_some_and(|only| only != size) {
            continue;
        }
        let load = Load { sessions, size, recipients, time: options.time, count: None, rate: None };
        let mut cells: Vec<Vec<Cell>> = vec![Vec::new(); options.peers.len()];
        for round in 0..options.rounds {
            let mut turns: Vec<_> = options.peers.iter().zip(&mut cells).collect();
            let first = round % turns.len().max(1);
            turns.rotate_left(first);
            for (peer, cells) in turns {
                cells.push(measure(peer, &load, &options.dir));
            }
        }
        println!("\n{size} bytes × {recipients} recipients, {sessions} sessions");
        let sink = cells.first().map_or(0.0, |cells| median(cells, |cell| cell.rate));
        for (peer, cells) in options.peers.iter().zip(&cells) {
            let rates: Vec<f64> = cells.iter().map(|cell| cell.rate).collect();
            let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
            let most = rates.iter().copied().fold(0.0, f64::max);
            let of = |figure: fn(&Cell) -> f64| median(cells, figure);
            println!(
                "{:>10}: {:>8.0}/s ({least:.0}–{most:.0})  {:.3} of the sink  \
                 {:.3} CPU s per 1,000  p50 {:.2} ms  p99 {:.2} ms  \
                 {:.1} KB written  {:.1} KB to the disk  {:.2} flushes  resident {:.0} MB",
                peer.name,
                of(|cell| cell.rate),
                of(|cell| cell.rate) / sink.max(1.0),
                of(|cell| cell.cpu),
                of(|cell| cell.p50),
                of(|cell| cell.p99),
                of(|cell| cell.written) / 1000.0,
                of(|cell| cell.disk) / 1000.0,
                of(|cell| cell.flushes),
                of(|cell| cell.resident),
            );
        }
    }
}

fn measure(peer: &Peer, load: &Load, dir: &Path) -> Cell {
    let service = Service::start(peer, dir, load.sessions * load.recipients.max(1), false);
    // Warms up connections, caches and the first memtable, with numbers that the measured run does
    // not reach.
    Load { time: Duration::from_secs(1), ..load.clone() }.run(&service, 1 << 40);
    let (before, disk) = (service.usage(), Disk::of(dir));
    let measured = load.run(&service, 0);
    let (used, disk_after) = (service.usage().since(&before), Disk::of(dir));
    service.stop();
    let n = measured.deliveries.max(1) as f64;
    assert_eq!(measured.refused, 0, "{} refused mail", peer.name);
    Cell {
        rate: measured.rate(),
        cpu: used.cpu_seconds / n * 1000.0,
        p50: measured.quantile(0.5),
        p99: measured.quantile(0.99),
        written: used.written as f64 / n,
        disk: disk_after.written_bytes.saturating_sub(disk.written_bytes) as f64 / n,
        flushes: disk_after.flushes.saturating_sub(disk.flushes) as f64 / n,
        resident: used.resident as f64 / 1e6,
    }
}

/// What a block device has done since the system was started. Zeros if the kernel does not say.
struct Disk {
    written_bytes: u64,
    flushes: u64,
}

impl Disk {
    /// The device with this directory.
    fn of(dir: &Path) -> Self {
        use std::os::linux::fs::MetadataExt as _;
        let device = std::fs::metadata(dir).map_or(0, |found| found.st_dev());
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let stat = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat"));
        let stat = stat.unwrap_or_default();
        let field = |number: usize| {
            stat.split_whitespace().nth(number - 1).and_then(|text| text.parse().ok()).unwrap_or(0)
        };
        // Field 7 has sectors of 512 bytes, and field 16 the flushes (Documentation/block/stat.rst
        // of the kernel).
        Self { written_bytes: field(7) * 512, flushes: field(16) }
    }
}

/// The median of a figure over all rounds; of an even number of rounds the upper one of the two in
/// the middle.
fn median(cells: &[Cell], figure: fn(&Cell) -> f64) -> f64 {
    let mut all: Vec<f64> = cells.iter().map(figure).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}
