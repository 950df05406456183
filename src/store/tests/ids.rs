//! Ids where many emails have one time: as imported mail without any date has.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::engine::{Each, Read, Statistics, Usage};
use super::*;

/// Counts what is asked of it.
#[derive(Debug, Default)]
struct Counted {
    inner: Memory,
    asked: AtomicUsize,
}

impl Read for Counted {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.inner.get(table, key)
    }

    fn scan(&self, table: Table, from: &[u8], to: &[u8], reverse: bool, each: &mut Each<'_>) -> Result<(), Error> {
        self.inner.scan(table, from, to, reverse, each)
    }
}

impl Engine for Counted {
    fn snapshot(&self) -> Box<dyn Read + '_> {
        self.inner.snapshot()
    }

    fn write(&self, batches: &[Arc<Batch>]) -> Result<(), Error> {
        self.inner.write(batches)
    }

    fn checkpoint(&self, dir: &Path) -> Result<(), Error> {
        self.inner.checkpoint(dir)
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    fn usage(&self, table: Table) -> Usage {
        self.inner.usage(table)
    }
}

/// Takes all ids of a time.
fn fill(engine: &Counted, at: i64) {
    let row = |unique| key::email(ACCOUNT, EmailId::new(UtcMillis(at), unique));
    let mut puts: Vec<Put> =
        (0..=u16::MAX).map(|n| Put { table: Table::EmailMetadata, key: row(n), value: Some(vec![1]) }).collect();
    puts.sort_by(|one, other| one.key.cmp(&other.key));
    engine.write(&[Arc::new(Batch { puts, asserts: Vec::new() })]).unwrap();
}

#[test]
fn a_time_that_is_full_costs_next_to_nothing_and_moves_on() {
    let engine = Arc::new(Counted::default());
    let store = store_over(engine.clone());
    deliver_to(&store, ACCOUNT, 1, &[], 5).unwrap();
    engine.asked.store(0, Ordering::Relaxed);
    assert_eq!(deliver_to(&store, ACCOUNT, 2, &[], 5).unwrap().received_at(), UtcMillis(5));
    let usual = engine.asked.load(Ordering::Relaxed);
    for at in 5..8 {
        fill(&engine, at);
    }
    engine.asked.store(0, Ordering::Relaxed);
    assert_eq!(deliver_to(&store, ACCOUNT, 3, &[], 5).unwrap().received_at(), UtcMillis(8));
    let asked = engine.asked.load(Ordering::Relaxed);
    assert!(asked < usual + 300, "{asked} look-ups, and {usual} where there is room");
}

#[test]
fn where_time_itself_ends_an_email_is_refused() {
    let engine = Arc::new(Counted::default());
    let store = store_over(engine.clone());
    let last = EmailId(0).received_at().0;
    assert_eq!(deliver_to(&store, ACCOUNT, 1, &[], i64::MAX).unwrap().received_at(), UtcMillis(last));
    fill(&engine, last);
    assert!(matches!(deliver_to(&store, ACCOUNT, 2, &[], i64::MAX), Err(Error::Conflict(_))));
    deliver_to(&store, ACCOUNT, 3, &[], last - 1).unwrap();
}
