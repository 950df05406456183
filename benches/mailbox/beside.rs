//! What goes on beside deliveries, and what they notice of it: the making of a listing, folding, purging.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use restante::model::{AccountId, UtcMillis, View};
use restante::store::Store;
use restante::upkeep::fold;

use crate::Options;
use crate::grow::{Account, INBOX, deliver, keep, make, message};
use crate::words::Words;

/// Threads that deliver, each one message after the other.
const SESSIONS: usize = 8;
const SECONDS: u64 = 5;

/// Does what upkeep there is to do for an account.
pub(crate) fn settle(store: &Store, account: AccountId) {
    while fold::step(store, account).unwrap() {}
}

pub(crate) fn all(store: &Store, accounts: &[Account], options: &Options) {
    let Some(large) = accounts.last() else { return };
    let quiet = "p99 ms of deliveries alone";
    let making = "p99 ms while a listing is made";
    if options.wants(quiet) || options.wants(making) {
        println!("{quiet:<46}{:>12.2}", p99(store, |_| ()));
        let p99 = p99(store, |stop| {
            while !stop.load(Ordering::Relaxed) {
                while !keep(store, large.id, INBOX, View::Flagged, 500) {}
                let drop = |store: &Store| {
                    let (left, ticket) =
                        store.commit(large.id, |txn| txn.drop_view(INBOX, View::Flagged, 500)).unwrap();
                    ticket.wait_blocking().unwrap();
                    left
                };
                while drop(store) {}
            }
        });
        println!("{making:<46}{p99:>12.2}");
    }
}

/// The ninety-ninth of a hundred latencies of durable deliveries to a small account, while something runs beside them.
fn p99(store: &Store, beside: impl Fn(&AtomicBool) + Sync) -> f64 {
    let account = AccountId(4);
    if store.view().account(account).unwrap().is_none() {
        make(store, account);
    }
    let stop = AtomicBool::new(false);
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        scope.spawn(|| beside(&stop));
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|session| {
                let stop = &stop;
                scope.spawn(move || {
                    let begin = u64::from(std::process::id()) << 32 | (session as u64) << 24;
                    let mut words = Words::new(begin);
                    let mut times = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let number = begin + times.len() as u64;
                        let raw = message(&mut words, number);
                        let start = Instant::now();
                        let at = UtcMillis(1_900_000_000_000 + i64::try_from(times.len()).unwrap());
                        deliver(store, account, &raw, at, number).1.wait_blocking().unwrap();
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
    times.get(times.len() * 99 / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}
