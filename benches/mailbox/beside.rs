//! What goes on beside deliveries, and what they notice of it: the making of a listing, folding, purging.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use restante::model::{AccountId, UtcMillis, View};
use restante::store::Store;
use restante::upkeep;

use crate::Options;
use crate::grow::{Account, INBOX, deliver, keep, make, message};
use crate::words::Words;

/// Threads that deliver, each one message after the other.
const SESSIONS: usize = 8;
const SECONDS: u64 = 5;

/// Folds what there is to fold of an account.
pub(crate) fn settle(store: &Store, account: AccountId) {
    while upkeep::fold::step(store, account).unwrap() {}
}

pub(crate) fn all(store: &Store, accounts: &[Account], options: &Options) {
    let Some(large) = accounts.last() else { return };
    let report = |name: &str, beside: &(dyn Fn(&AtomicBool) + Sync)| {
        if options.wants(name) {
            println!("{name:<46}{:>12.2}", p99(store, beside));
        }
    };
    report("p99 ms of deliveries alone", &|_| ());
    report("p99 ms while lists are made and dropped", &|stop| {
        while !stop.load(Ordering::Relaxed) {
            while !keep(store, large.id, INBOX, View::Flagged, 256) && !stop.load(Ordering::Relaxed) {}
            let drop = || {
                let (left, ticket) = store.commit(large.id, |txn| txn.drop_view(INBOX, View::Flagged, 256)).unwrap();
                ticket.wait_blocking().unwrap();
                left
            };
            while drop() && !stop.load(Ordering::Relaxed) {}
        }
    });
    report("p99 ms while their texts are folded", &|stop| {
        while !stop.load(Ordering::Relaxed) {
            if !upkeep::fold::step(store, AccountId(4)).unwrap() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    report("p99 ms while 10,000 are destroyed and purged", &|stop| {
        let ids: Vec<_> = store.view().emails(large.id, None, 10_000).unwrap().into_iter().map(|(id, _)| id).collect();
        for part in ids.chunks(64) {
            let (_, ticket) =
                store.commit(large.id, |txn| part.iter().try_for_each(|id| txn.destroy_email(*id))).unwrap();
            ticket.wait_blocking().unwrap();
            let (_, ticket) = store.commit(large.id, |txn| txn.purge_emails(txn.now(), 64)).unwrap();
            ticket.wait_blocking().unwrap();
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
    });
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
