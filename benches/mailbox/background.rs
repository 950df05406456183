//! Measures how background work (filling a listing, folding, purging) slows deliveries: once as the
//! upkeep of the service does it, which yields to writers, and once without pauses ("flat out").

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use restante::internals::model::{AccountId, ListingFilter, ListingStage, LiveValue, UtcMillis};
use restante::internals::store::Store;
use restante::internals::upkeep::{self, Settings, Upkeep};

use crate::Options;
use crate::grow::{Account, EVERY, INBOX, deliver, extend_listing, make, message, received_at};
use crate::words::Words;

/// The number of threads that deliver, each one message after the other.
const SESSIONS: usize = 8;
/// How long each run takes.
const SECONDS: u64 = 5;
/// The number of rounds in which each kind of work is measured. The median counts.
const ROUNDS: usize = 5;
/// The account that gets the deliveries.
const BUSY: AccountId = AccountId(4);
/// The number of emails that are destroyed before each purge.
const DESTROYED: usize = 10_000;
/// The listing that is filled.
const FILTER: ListingFilter = ListingFilter::Flagged;
const LISTED: &str = "emails looked at";
const FOLDED: &str = "emails folded";
const PURGED: &str = "emails purged";

/// Folds the unfolded emails of an account, but for a rest that is too small for a fold.
pub(crate) fn fold_all(store: &Store, account: AccountId) {
    while upkeep::fold_index(store, account).unwrap() {}
}

/// Background work whose effect on deliveries is measured.
struct BackgroundWork<'a> {
    name: &'a str,
    /// Prepares the work, before the time is measured.
    before: &'a dyn Fn(),
    /// Does the work until the flag is set, or until there is none left.
    run: &'a (dyn Fn(&AtomicBool) + Sync),
    /// A count that grows with the work, in `unit`.
    done: &'a dyn Fn() -> i64,
    unit: &'a str,
}

/// The result of a run.
#[derive(Clone, Copy)]
struct Run {
    /// The 99th percentile of the latencies, in milliseconds.
    p99: f64,
    delivered: usize,
    /// By how much the count of the work grew.
    done: i64,
}

pub(crate) fn measure_all(store: &Store, accounts: &[Account], options: &Options) {
    let Some(largest) = accounts.last() else { return };
    // The account whose listing is filled. A run is long enough to fill one of 100,000 emails. If
    // all accounts have more, it is the largest.
    let large = accounts.iter().rfind(|account| account.size <= 100_000).unwrap_or(largest);
    if store.snapshot().account(BUSY).unwrap().is_none() {
        make(store, BUSY);
    }
    let idle = || ();
    // Without the listing, upkeep has none to fill, so only the other work is measured.
    let drop_list =
        || while store.commit(large.id, |txn| txn.drop_listing(INBOX, FILTER, 2_000)).unwrap().0 {};
    let begin_list = || {
        drop_list();
        extend_listing(store, large.id, INBOX, FILTER, 1);
    };
    let destroy = || {
        drop_list();
        let ids = store.snapshot().emails(largest.id, None, DESTROYED).unwrap();
        for part in ids.chunks(500) {
            let destroyed = store.commit(largest.id, |txn| {
                part.iter().try_for_each(|(id, _)| txn.destroy_email(*id))
            });
            destroyed.unwrap().1.wait_blocking().unwrap();
        }
    };
    let looked = || looked(store, large);
    let folded = || {
        let state = store.snapshot().account_state(BUSY).unwrap();
        i64::try_from(state.emails).unwrap() - i64::try_from(state.unfolded).unwrap()
    };
    // Grows as the number of emails that are still to be purged falls.
    let purged = || {
        -i64::try_from(
            store.snapshot().destroyed_emails(largest.id, UtcMillis(0), usize::MAX).unwrap().len(),
        )
        .unwrap()
    };
    let lists = AtomicI64::new(0);
    let served = |settings: Settings, stop: &AtomicBool| {
        let running = Upkeep::new(store.clone(), LiveValue::new(settings)).start().unwrap();
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        running.stop();
    };
    let hard_list = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            while !extend_listing(store, large.id, INBOX, FILTER, 256)
                && !stop.load(Ordering::Relaxed)
            {}
            lists.fetch_add(1, Ordering::Relaxed);
            drop_list();
        }
    };
    let hard_fold = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            if !upkeep::fold_index(store, BUSY).unwrap() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    let hard_purge = |stop: &AtomicBool| {
        let mut left = true;
        while left && !stop.load(Ordering::Relaxed) {
            let (done, ticket) =
                store.commit(largest.id, |txn| txn.purge_emails(txn.now(), 64)).unwrap();
            ticket.wait_blocking().unwrap();
            left = done.has_more;
        }
    };
    let serve = |stop: &AtomicBool| served(Settings::default(), stop);
    let purge = |stop: &AtomicBool| {
        served(Settings { destroyed_emails: Duration::ZERO, ..Settings::default() }, stop);
    };
    let made = || lists.load(Ordering::Relaxed);
    let all = [
        BackgroundWork {
            name: "p99 ms of deliveries alone",
            before: &idle,
            run: &|_| (),
            done: &|| 0,
            unit: "",
        },
        BackgroundWork {
            name: "p99 ms while the service makes a list",
            before: &begin_list,
            run: &serve,
            done: &looked,
            unit: LISTED,
        },
        BackgroundWork {
            name: "p99 ms while the service folds texts",
            before: &drop_list,
            run: &serve,
            done: &folded,
            unit: FOLDED,
        },
        BackgroundWork {
            name: "p99 ms while the service purges",
            before: &destroy,
            run: &purge,
            done: &purged,
            unit: PURGED,
        },
        BackgroundWork {
            name: "flat out: lists made and dropped",
            before: &drop_list,
            run: &hard_list,
            done: &made,
            unit: "lists",
        },
        BackgroundWork {
            name: "flat out: texts folded",
            before: &drop_list,
            run: &hard_fold,
            done: &folded,
            unit: FOLDED,
        },
        BackgroundWork {
            name: "flat out: emails purged",
            before: &destroy,
            run: &hard_purge,
            done: &purged,
            unit: PURGED,
        },
    ];
    report(store, options, &all);
}

/// The number of emails that the filling of a listing has passed.
///
/// A listing is filled from the newest email back to its frontier, whose id tells when that email
/// was received. `grow` receives an email every `EVERY` milliseconds, so the time between the
/// newest of these emails and the frontier tells how many were passed. Emails that were destroyed
/// since count, too, so only the difference of two calls says what was done between them. The few
/// emails that `change` delivers are newer, and are not counted.
fn looked(store: &Store, account: &Account) -> i64 {
    let snapshot = store.snapshot();
    let listings = snapshot.mailbox(account.id, INBOX).unwrap().unwrap().listings;
    match listings.iter().find(|listing| listing.filter == FILTER).map(|listing| listing.stage) {
        Some(ListingStage::Filling(upto)) if upto.0 > 0 => {
            ((received_at(account.size).0 - upto.received_at().0) / EVERY).max(0)
        }
        Some(ListingStage::Complete) => i64::try_from(account.size).unwrap(),
        _ => 0,
    }
}

fn report(store: &Store, options: &Options, all: &[BackgroundWork<'_>]) {
    let selected: Vec<&BackgroundWork<'_>> =
        all.iter().filter(|work| options.wants(work.name)).collect();
    let mut runs = vec![Vec::new(); selected.len()];
    for round in 0..ROUNDS {
        for (at, (work, runs)) in selected.iter().zip(&mut runs).enumerate() {
            (work.before)();
            fold_all(store, BUSY);
            let before = (work.done)();
            let (p99, delivered) = deliveries(store, (round * all.len() + at) as u64, work.run);
            runs.push(Run { p99, delivered, done: (work.done)() - before });
        }
    }
    // The 99th percentile of the first work that was selected: usually of deliveries alone.
    let mut first = None;
    for (BackgroundWork { name, unit, .. }, mut runs) in selected.into_iter().zip(runs) {
        runs.sort_by(|one, other| one.p99.total_cmp(&other.p99));
        let Run { p99, delivered, done } = runs[ROUNDS / 2];
        let times = p99 / *first.get_or_insert(p99);
        println!(
            "{name:<46}{p99:>12.2}{times:>10.2}{:>10} deliveries/s {done:>8} {unit}",
            delivered as u64 / SECONDS
        );
    }
}

/// Delivers to a small account while `work` runs. Returns the 99th percentile of the latencies of
/// durable deliveries in milliseconds, and their number. Every run delivers other messages.
fn deliveries(store: &Store, run: u64, work: &(dyn Fn(&AtomicBool) + Sync)) -> (f64, usize) {
    let stop = AtomicBool::new(false);
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        scope.spawn(|| work(&stop));
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|session| {
                let stop = &stop;
                scope.spawn(move || {
                    // Each process, run and session has numbers of its own, 2^22 for a session.
                    let begin = (u64::from(std::process::id()) << 32)
                        | (run << 26)
                        | ((session as u64) << 22);
                    let mut words = Words::new(begin);
                    let mut times = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let number = begin + times.len() as u64;
                        let raw = message(&mut words, number);
                        let start = Instant::now();
                        let at = UtcMillis(1_900_000_000_000 + i64::try_from(times.len()).unwrap());
                        deliver(store, BUSY, &raw, at, number).1.wait_blocking().unwrap();
                        times.push(start.elapsed());
                    }
                    times
                })
            })
            .collect();
        std::thread::sleep(Duration::from_secs(SECONDS));
        stop.store(true, Ordering::Relaxed);
        sessions.into_iter().flat_map(|session| session.join().unwrap()).collect()
    });
    times.sort_unstable();
    (times.get(times.len() * 99 / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3), times.len())
}
