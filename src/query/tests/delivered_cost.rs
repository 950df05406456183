//! Tests what a search for Delivered-To reads: rows of the hits, each address that it compares, and
//! headers only of forwarded mail.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::message::rows;
use crate::model::clock::FixedClock;
use crate::model::{AccountId, EmailId, UtcMillis};
use crate::query::tests::search::{create_account, fold_step};
use crate::query::tests::small_batches;
use crate::query::{Allowance, Condition, Error, Filter, Query, QuerySpec, Start, Window, query};
use crate::store::engine::watched::CountingEngine;
use crate::store::{EncodedMessage, FoldSizes, NewEmail, Options, Store};

const ACCOUNT: AccountId = AccountId(1);
const SIZES: FoldSizes =
    FoldSizes { rows: 64, row_bytes: 1 << 20, block: 512, fan: 4, piece: 8 << 10, last_level: 2 };
const SHOP: &str = "Shop@example.org";

/// `hop` are header fields of an earlier hop.
fn deliver(store: &Store, alias: &str, hop: &str, at: i64) -> EmailId {
    let raw = format!("{hop}Subject: {at}\r\n\r\ntext {at}\r\n");
    let prefix =
        format!("Return-Path: <>\r\nDelivered-To: {alias}\r\nReceived: from x\r\n\tby y; now\r\n");
    let message = EncodedMessage::new(&rows(raw.as_bytes(), store.secrets()));
    let (mut results, ticket) = store.commit_message(&[ACCOUNT], &message, raw.as_bytes(), |txn| {
        txn.create_email(&NewEmail {
            message: &message,
            prefix: prefix.as_bytes(),
            mailboxes: BTreeSet::from([txn.state().inbox]),
            keywords: BTreeSet::new(),
            received_at: UtcMillis(at),
        })
    });
    let (id, _) = results.pop().unwrap().1.unwrap();
    ticket.wait_blocking().unwrap();
    id
}

/// Returns a store with `emails` emails, folded as far as `SIZES` allows, and the ids of the eight
/// that are to the shop's alias. All others are to one other address.
fn folded_store(emails: i64) -> (Arc<CountingEngine>, Store, Vec<EmailId>) {
    folded_store_with(emails, |_| "ann@example.org".to_owned())
}

/// Returns a store like `folded_store`, in which `other` gives the address of each other email.
fn folded_store_with(
    emails: i64,
    other: impl Fn(i64) -> String,
) -> (Arc<CountingEngine>, Store, Vec<EmailId>) {
    let engine = Arc::new(CountingEngine::default());
    let store = Store::open_engine(
        engine.clone(),
        &Options::small(),
        Arc::new(FixedClock::at(UtcMillis(0))),
    )
    .unwrap();
    create_account(&store);
    let mut shop = Vec::new();
    for n in 0..emails {
        let is_shop = n % (emails / 8) == 5;
        let alias = if is_shop { SHOP.to_owned() } else { other(n) };
        let id = deliver(&store, &alias, "", n);
        shop.extend(is_shop.then_some(id));
    }
    while fold_step(&store, &SIZES).unwrap() {}
    shop.sort();
    (engine, store, shop)
}

/// Returns the emails that match. Fails with `TooMuchRead` if a byte of a message must be read.
fn search_without_reading(store: &Store, filter: Filter) -> Result<Vec<EmailId>, Error> {
    let spec = QuerySpec {
        account: ACCOUNT,
        filter,
        reads: Allowance::new(0, u64::MAX),
        ..small_batches()
    };
    let request =
        Query { spec, window: Window { start: Start::default(), limit: None }, total: true };
    query(&store.snapshot(), store.secrets(), &request).map(|found| found.answer.ids)
}

fn delivered(text: Option<&str>) -> Filter {
    Filter::Is(Condition::Header { name: "delivered-to".into(), text: text.map(str::to_owned) })
}

#[test]
fn alias_search_reads_the_rows_of_its_hits_and_no_header() {
    let rows_read = |emails: i64| {
        let (engine, store, shop) = folded_store(emails);
        assert!(store.snapshot().account_state(ACCOUNT).unwrap().unfolded < 64);
        engine.read();
        assert_eq!(
            search_without_reading(&store, delivered(Some("shop@EXAMPLE.org"))).as_ref(),
            Ok(&shop)
        );
        engine.read()
    };
    // Both stores have eight hits. More mail has more and larger folds, but no more hits.
    let (few, many) = (rows_read(600), rows_read(3000));
    assert!(many < few + 100 && many < 240, "{few} rows of 600 emails, {many} of 3000");
}

#[test]
fn only_forwarded_mail_makes_delivered_to_conditions_read_headers() {
    let (_, store, shop) = folded_store(400);
    let with_shop = |found: Vec<EmailId>| found.len() + shop.len();
    assert_eq!(search_without_reading(&store, delivered(None)).map(|found| found.len()), Ok(400));
    assert_eq!(
        search_without_reading(&store, delivered(Some("example 'org'"))).map(|found| found.len()),
        Ok(400)
    );
    assert_eq!(search_without_reading(&store, delivered(Some("nobody"))), Ok(Vec::new()));
    assert_eq!(
        search_without_reading(&store, Filter::Not(vec![delivered(Some("shop"))])).map(with_shop),
        Ok(400)
    );
    // The address of an earlier hop is not indexed, so the header must be read, unless the address
    // of this service's own delivery matches.
    let forwarded = deliver(&store, "ann@example.org", "Delivered-To: shop@b.example\r\n", 10_000);
    assert_eq!(search_without_reading(&store, delivered(Some("shop"))), Err(Error::TooMuchRead));
    assert!(search_without_reading(&store, delivered(Some("ann@"))).unwrap().contains(&forwarded));
}

/// A catch-all address, for which strangers invent local parts, has as many texts as emails. A
/// search compares each of them. With an allowance of 300 rows, the first search is finished, but
/// no second one begins after more than 300 texts were compared.
#[test]
fn compared_addresses_count_as_rows_walked() {
    let (_, one, _) = folded_store(400);
    let (_, many, _) = folded_store_with(400, |n| format!("made-up-{n}@example.org"));
    let search_twice = |store: &Store| {
        let (filter, reads) = (delivered(Some("zz")), Allowance::new(0, 300));
        let spec = QuerySpec { account: ACCOUNT, filter, reads, ..small_batches() };
        let request = Query { spec, ..Query::default() };
        let search =
            || query(&store.snapshot(), store.secrets(), &request).map(|found| found.answer.ids);
        [search(), search()]
    };
    assert_eq!(search_twice(&one), [Ok(Vec::new()), Ok(Vec::new())]);
    assert_eq!(search_twice(&many), [Ok(Vec::new()), Err(Error::TooMuchWalked)]);
}
