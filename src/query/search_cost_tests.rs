//! What a search reads, in rows: what it finds, and not what there is.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::plan::{Way, explain};
use super::search_tests::{ask, file, prepare, step};
use super::{Condition, Filter, Results};
use crate::model::clock::Fixed;
use crate::model::{AccountId, Listing, MailboxUid, Shape, UtcMillis, View};
use crate::store::engine::memory::Memory;
use crate::store::engine::{Batch, Each, Engine, Read, Statistics, Table, Usage};
use crate::store::{Error, FoldSizes, NewMailbox, Options, Store};

/// Counts the rows that are read.
#[derive(Debug, Default)]
struct Counted {
    inner: Memory,
    rows: AtomicUsize,
}

struct Counting<'a> {
    inner: Box<dyn Read + 'a>,
    rows: &'a AtomicUsize,
}

impl Read for Counting<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.rows.fetch_add(1, Ordering::Relaxed);
        self.inner.get(table, key)
    }

    fn scan(&self, table: Table, from: &[u8], to: &[u8], reverse: bool, each: &mut Each<'_>) -> Result<(), Error> {
        self.inner.scan(table, from, to, reverse, &mut |key, value| {
            self.rows.fetch_add(1, Ordering::Relaxed);
            each(key, value)
        })
    }
}

impl Read for Counted {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.inner.get(table, key)
    }

    fn scan(&self, table: Table, from: &[u8], to: &[u8], reverse: bool, each: &mut Each<'_>) -> Result<(), Error> {
        self.inner.scan(table, from, to, reverse, each)
    }
}

impl Engine for Counted {
    fn snapshot(&self) -> Box<dyn Read + '_> {
        Box::new(Counting { inner: self.inner.snapshot(), rows: &self.rows })
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

const SIZES: FoldSizes =
    FoldSizes { rows: 32, row_octets: 1 << 20, block: 1024, fan: 4, piece: 8 << 10, last_level: 2 };

/// So many emails, folded: each has "lunch" and "dinner", each 400th "rare" before "dinner".
fn bed(emails: i64) -> (Arc<Counted>, Store) {
    let engine = Arc::new(Counted::default());
    let store = Store::over(engine.clone(), &Options::small(), Arc::new(Fixed::at(UtcMillis(0)))).unwrap();
    prepare(&store);
    for n in 0..emails {
        let rare = if n % 400 == 200 { "rare" } else { "usual" };
        file(&store, format!("Subject: s\r\n\r\nlunch w{n} {rare} dinner\r\n").as_bytes(), n);
        if n % 32 == 31 {
            while step(&store, &SIZES).unwrap() {}
        }
    }
    (engine, store)
}

fn body(text: &str) -> Filter {
    Filter::Is(Condition::Body(text.into()))
}

#[test]
fn a_search_reads_what_it_finds_and_a_phrase_what_its_rarest_word_leaves() {
    let read = |emails: i64| {
        let (engine, store) = bed(emails);
        let rows = |filter: Filter, limit, wanted: i64| {
            engine.rows.store(0, Ordering::Relaxed);
            assert_eq!(i64::try_from(ask(&store, filter, limit).len()).unwrap(), wanted);
            engine.rows.load(Ordering::Relaxed)
        };
        let newest = rows(body("lunch"), Some(5), 5);
        let none = rows(body("nowhere"), None, 0);
        let rare = rows(body("'rare dinner'"), None, emails / 400);
        let two = rows(Filter::And(vec![body("dinner"), body("rare")]), None, emails / 400);
        [newest, none, rare, two]
    };
    let (few, many) = (read(400), read(1600));
    assert!(many[0] <= few[0] + 8, "newest: {few:?} {many:?}");
    // A block or two a fold, and for each that is found its message and where it stands.
    for (few, many) in few.iter().zip(&many).skip(1) {
        assert!(*many < 120 && *many <= few * 6, "{few:?} {many:?}");
    }
}

#[test]
fn a_text_is_sought_by_the_index_and_within_a_small_mailbox() {
    let (engine, store) = bed(100);
    let made = store.commit(AccountId(1), |txn| {
        let small = NewMailbox { name: "Small".into(), parent: None, role: None, sort_order: 0 };
        let uid = txn.create_mailbox(&small)?;
        let newest = txn.view().emails(AccountId(1), None, 3)?;
        for (id, email) in newest {
            txn.update_email(id, [uid].into(), email.keywords)?;
        }
        Ok(uid)
    });
    let (small, ticket) = made.unwrap();
    ticket.wait_blocking().unwrap();
    let plan = |filter: &Filter| {
        let results = Results { account: AccountId(1), filter: filter.clone(), ..Results::default() };
        explain(&store.view(), &results).unwrap()
    };
    let within = |uid: MailboxUid, filter| Filter::And(vec![Filter::Is(Condition::InMailbox(uid)), filter]);
    assert_eq!(plan(&body("lunch")).way, Way::Search(None));
    assert!(plan(&body("lunch")).to_string().starts_with("search: what the index leaves of 100 emails"));
    let listing = Listing { uid: small, view: View::Every, shape: Shape::Emails };
    let sought = within(small, body("lunch"));
    assert_eq!(plan(&sought).way, Way::Search(Some(listing)));
    engine.rows.store(0, Ordering::Relaxed);
    assert_eq!(ask(&store, sought, None).len(), 3);
    assert!(engine.rows.load(Ordering::Relaxed) < 60, "{engine:?}");
    for filter in
        [Filter::Not(vec![body("lunch")]), body("--"), Filter::Or(vec![body("lunch"), within(small, body(""))])]
    {
        let plan = plan(&filter);
        assert!(!matches!(plan.way, Way::Search(_)), "{plan}");
        assert!(plan.to_string().contains("not search: the filter has no text"), "{plan}");
    }
}
