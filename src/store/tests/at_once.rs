//! Many commits at the same time on disk: listeners hear of them in order, and nothing is built on
//! rows that the tables refuse.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use crate::model::{DataType, ModSeq};
use crate::store::engine::rocks::RocksEngine;
use crate::store::engine::rocks::image::copy_store;

const OTHER: AccountId = AccountId(2);
const WRITERS: u32 = 8;
const MESSAGES: u32 = 40;
const ALL_MESSAGES: usize = WRITERS as usize * MESSAGES as usize;

fn open(dir: &Path, hold: Duration) -> (Arc<RocksEngine>, Store) {
    let options = Options { writes_alone: true, hold, ..Options::small() };
    let engine = Arc::new(RocksEngine::open(dir, &options).unwrap());
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let store =
        Store::open_engine(Arc::clone(&engine) as Arc<dyn Engine>, &options, clock).unwrap();
    (engine, store)
}

/// Delivers from several threads at the same time to two accounts, and returns the emails that were
/// acknowledged.
fn deliver_at_once(store: &Store) -> BTreeSet<(AccountId, EmailId)> {
    let acknowledged = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let acknowledged = &acknowledged;
            scope.spawn(move || {
                for n in 0..MESSAGES {
                    let account = if (writer + n) % 2 == 0 { ACCOUNT } else { OTHER };
                    match deliver_to(store, account, writer * 1000 + n, &[(n % 3) as u8], 5) {
                        Ok(id) => assert!(acknowledged.lock().insert((account, id))),
                        Err(error) => {
                            assert!(matches!(error, Error::Full | Error::Overtaken(_)), "{error}");
                        }
                    }
                }
            });
        }
    });
    acknowledged.into_inner()
}

fn emails(store: &Store) -> BTreeSet<(AccountId, EmailId)> {
    let of = |account| {
        let emails = store.snapshot().emails(account, None, 1000).unwrap();
        emails.into_iter().map(move |(id, _)| (account, id))
    };
    of(ACCOUNT).chain(of(OTHER)).collect()
}

#[test]
fn listeners_hear_of_the_changes_of_an_account_in_their_order() {
    for hold in [Duration::ZERO, Duration::from_micros(300)] {
        let dir = tempfile::tempdir().unwrap();
        let (_, store) = open(dir.path(), hold);
        make_account(&store, ACCOUNT);
        make_account(&store, OTHER);
        let heard: Arc<Mutex<Vec<(AccountId, ModSeq)>>> = Arc::default();
        let noted = Arc::clone(&heard);
        store.on_change(move |change| {
            let email = change.types.iter().find(|(data, _)| *data == DataType::Email);
            noted.lock().extend(email.map(|(_, modseq)| (change.account, *modseq)));
        });
        let acknowledged = deliver_at_once(&store);
        assert_eq!(acknowledged.len(), ALL_MESSAGES);
        assert_eq!(emails(&store), acknowledged);
        let heard = heard.lock();
        assert_eq!(heard.len(), acknowledged.len());
        for account in [ACCOUNT, OTHER] {
            let own: Vec<_> = heard.iter().filter(|(of, _)| *of == account).collect();
            assert!(own.is_sorted(), "{own:?}");
        }
        assert_clean(&store);
    }
}

#[test]
fn what_the_tables_refuse_is_not_acknowledged_and_nothing_is_built_on_it() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (engine, store) = open(dir.path(), Duration::ZERO);
    make_account(&store, ACCOUNT);
    make_account(&store, OTHER);
    let is_done = AtomicBool::new(false);
    let acknowledged = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                engine.refuse_next(Error::Full);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let acknowledged = deliver_at_once(&store);
        is_done.store(true, Ordering::Relaxed);
        acknowledged
    });
    assert!(acknowledged.len() < ALL_MESSAGES, "nothing was refused");
    assert!(acknowledged.len() > 10, "nearly everything was refused: {}", acknowledged.len());
    assert_eq!(emails(&store), acknowledged);
    assert_clean(&store);
    copy_store(dir.path(), copy.path());
    drop((store, engine));
    for dir in [&dir, &copy] {
        let (_, store) = open(dir.path(), Duration::ZERO);
        assert_eq!(emails(&store), acknowledged);
        assert_clean(&store);
    }
}
