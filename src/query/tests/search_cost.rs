//! Tests how many rows a search reads: in proportion to its hits, not to the mail of the account.

use std::sync::Arc;

use crate::message::tokens::WordHash;
use crate::model::clock::FixedClock;
use crate::model::{
    AccountId, EmailId, Listing, ListingFilter, MailboxUid, Shape, Token, UtcMillis,
};
use crate::query::plan::AccessPath;
use crate::query::tests::search::{create_account, file, fold_step, search};
use crate::query::tests::small_batches;
use crate::query::{Condition, Filter, QuerySpec, explain};
use crate::store::engine::watched::CountingEngine;
use crate::store::{FoldSizes, NewMailbox, Options, Store};

const SIZES: FoldSizes =
    FoldSizes { rows: 32, row_bytes: 1 << 20, block: 1024, fan: 4, piece: 8 << 10, last_level: 2 };

/// Returns a store with `emails` emails, of which at most the last 31 are not folded. Each has
/// "lunch" and "dinner", and one in 400 has "rare" before "dinner".
fn folded_store(emails: i64, sizes: &FoldSizes) -> (Arc<CountingEngine>, Store) {
    let engine = Arc::new(CountingEngine::default());
    let store = Store::open_engine(
        engine.clone(),
        &Options::small(),
        Arc::new(FixedClock::at(UtcMillis(0))),
    )
    .unwrap();
    create_account(&store);
    for n in 0..emails {
        let rare = if n % 400 == 200 { "rare" } else { "usual" };
        file(&store, format!("Subject: s\r\n\r\nlunch w{n} {rare} dinner\r\n").as_bytes(), n);
        if n % 32 == 31 {
            while fold_step(&store, sizes).unwrap() {}
        }
    }
    (engine, store)
}

fn body(text: &str) -> Filter {
    Filter::Is(Condition::Body(text.into()))
}

#[test]
fn search_reads_rows_in_proportion_to_its_hits() {
    let read = |emails: i64| {
        let (engine, store) = folded_store(emails, &SIZES);
        let rows = |filter: Filter, limit, expected: i64| {
            engine.read();
            assert_eq!(i64::try_from(search(&store, filter, limit).len()).unwrap(), expected);
            engine.read()
        };
        let newest = rows(body("lunch"), Some(5), 5);
        let none = rows(body("nowhere"), None, 0);
        let rare = rows(body("'rare dinner'"), None, emails / 400);
        let two = rows(Filter::And(vec![body("dinner"), body("rare")]), None, emails / 400);
        let inbox = Filter::Is(Condition::InMailbox(MailboxUid(1)));
        let within = rows(Filter::And(vec![inbox, body("rare")]), None, emails / 400);
        [newest, none, rare, two, within]
    };
    let (few, many) = (read(400), read(1600));
    assert!(many[0] <= few[0] + 8, "newest: {few:?} {many:?}");
    // With four times the emails there are four times the hits. A search reads one or two blocks of
    // each fold, and for each hit the rows of its message and position.
    for (few, many) in few.iter().zip(&many).skip(1) {
        assert!(*many < 120 && *many <= few * 6, "{few:?} {many:?}");
    }
}

#[test]
fn or_of_two_ands_reads_little_more_than_one_word() {
    let (engine, store) = folded_store(400, &SIZES);
    let rows = |filter: Filter| {
        engine.read();
        assert_eq!(search(&store, filter, None).len(), 400);
        engine.read()
    };
    let one = Filter::And(vec![body("dinner"), body("rare")]);
    let other = Filter::And(vec![body("lunch"), body("usual")]);
    let (one_word, either) = (rows(body("lunch")), rows(Filter::Or(vec![one, other])));
    assert!(either < one_word + one_word / 2, "{either} rows, {one_word} of one word");
}

#[test]
fn ordinal_of_an_email_in_a_fold_is_found_in_few_rows() {
    // A row of the fold has eight emails.
    let (engine, store) = folded_store(1600, &FoldSizes { block: 64, ..SIZES });
    let snapshot = store.snapshot();
    let fold =
        *snapshot.folds(AccountId(1)).unwrap().live.iter().max_by_key(|fold| fold.emails).unwrap();
    let ids = snapshot.fold_emails(AccountId(1), fold.id).unwrap();
    let (next, rows) = (|id: EmailId| EmailId(id.0 + 1), ids.len() / 8);
    assert!(rows >= 50 && ids.is_sorted());
    for at in 0..ids.len() {
        let index = |id| {
            u32::try_from(ids.partition_point(|other| *other < id))
                .ok()
                .filter(|at| *at < fold.emails)
        };
        let mut fresh = snapshot.fold_ordinals(AccountId(1), fold);
        engine.read();
        // `seek` only goes forward, so the last id is sought only after a later one.
        let later = ids.get(at + 5).copied();
        for id in [ids[at], next(ids[at])]
            .into_iter()
            .chain(later)
            .chain(ids.last().copied().filter(|_| later.is_some()))
        {
            assert_eq!(fresh.seek(id).unwrap(), index(id), "{at}");
        }
        let read = engine.read();
        assert!(read < 30, "{read} rows of {rows}");
        assert_eq!(fresh.seek(EmailId(u64::MAX)).unwrap(), None);
    }
}

#[test]
fn seeking_in_postings_reads_no_block_in_between() {
    let (engine, store) = folded_store(600, &FoldSizes { block: 64, ..SIZES });
    let (snapshot, hash) = (store.snapshot(), WordHash::new(store.secrets()).of("dinner"));
    let folds = snapshot.folds(AccountId(1)).unwrap();
    let fold = folds.live.iter().max_by_key(|fold| fold.emails).unwrap();
    let postings = || snapshot.postings(AccountId(1), fold.id, Token::Word(hash));
    let last = fold.emails - 1;
    engine.read();
    let mut all = postings();
    for ordinal in 0..fold.emails {
        assert_eq!(all.seek(ordinal).unwrap().unwrap().ordinal, ordinal);
    }
    assert!(all.seek(fold.emails).unwrap().is_none());
    let blocks = engine.read();
    let mut few = postings();
    for ordinal in [0, last / 2, last] {
        assert_eq!(few.seek(ordinal).unwrap().unwrap().ordinal, ordinal);
    }
    assert!(few.seek(fold.emails).unwrap().is_none());
    let read = engine.read();
    // For each ordinal its block is read, and the next one, in which the posting may continue.
    assert!(blocks > 20 && read <= 6, "{read} rows of {blocks}");
}

#[test]
fn text_search_uses_the_index_and_a_small_mailbox() {
    let (engine, store) = folded_store(100, &SIZES);
    let commit = store.commit(AccountId(1), |txn| {
        let small = NewMailbox { name: "Small".into(), parent: None, role: None, sort_order: 0 };
        let uid = txn.create_mailbox(&small)?;
        let newest = txn.snapshot().emails(AccountId(1), None, 3)?;
        for (id, email) in newest {
            txn.update_email(id, [uid].into(), email.keywords)?;
        }
        Ok(uid)
    });
    let (small, ticket) = commit.unwrap();
    ticket.wait_blocking().unwrap();
    let plan = |filter: &Filter| {
        let spec = QuerySpec { account: AccountId(1), filter: filter.clone(), ..small_batches() };
        explain(&store.snapshot(), &spec).unwrap()
    };
    let within =
        |uid: MailboxUid, filter| Filter::And(vec![Filter::Is(Condition::InMailbox(uid)), filter]);
    assert_eq!(plan(&body("lunch")).path, AccessPath::Search(None));
    assert!(
        plan(&body("lunch"))
            .to_string()
            .starts_with("search: the filter decides the index hits among 100 emails")
    );
    let listing = Listing { uid: small, filter: ListingFilter::Every, shape: Shape::Emails };
    let filter = within(small, body("lunch"));
    assert_eq!(plan(&filter).path, AccessPath::Search(Some(listing)));
    engine.read();
    assert_eq!(search(&store, filter, None).len(), 3);
    let read = engine.read();
    assert!(read < 60, "{read} rows");
    for filter in [
        Filter::Not(vec![body("lunch")]),
        body("--"),
        Filter::Or(vec![body("lunch"), within(small, body(""))]),
    ] {
        let plan = plan(&filter);
        assert!(!matches!(plan.path, AccessPath::Search(_)), "{plan}");
        assert!(plan.to_string().contains("not search: the filter has no text"), "{plan}");
    }
}
