//! Tests the allowance of searches, and that a search that would read more is refused.

use super::*;
use crate::query::{Allowance, Error as Refused, QueryChanges, changes};

#[test]
fn searches_share_an_allowance_of_bytes_to_read() {
    let store = open(&Arc::new(FaultyEngine::new(MemoryEngine::new())));
    create_account(&store);
    for n in 0..20 {
        file(
            &store,
            format!("Subject: s\r\nX-A: b\r\n\r\n{}lunch\r\n", "x ".repeat(100)).as_bytes(),
            n,
        );
    }
    let snapshot = store.snapshot();
    let header = Condition::Header { name: "X-A".into(), text: Some("b".into()) };
    // Of a condition on the header, the header alone is charged.
    for (condition, bytes) in [(Condition::Body("lunch".into()), 20_000), (header, 2000)] {
        let reads = Allowance::new(bytes, u64::MAX);
        let results =
            QuerySpec { account: ACCOUNT, filter: Filter::Is(condition), reads, ..small_batches() };
        let request = Query { results, ..Query::default() };
        let ask =
            || query(&snapshot, store.secrets(), &request).map(|found| found.answer.ids.len());
        assert_eq!(ask(), Ok(20), "{request:?}");
        let refused = (0..10).map(|_| ask()).find(Result::is_err);
        assert!(matches!(refused, Some(Err(Refused::TooMuchRead))), "{request:?}");
    }
}

/// A long message is read by frames; a condition on its header is charged the header alone, and one
/// on its body the message.
#[test]
fn header_of_a_long_message_is_charged_without_its_body() {
    let store = open(&Arc::new(FaultyEngine::new(MemoryEngine::new())));
    create_account(&store);
    let long =
        |n: i64| format!("Subject: s\r\nX-A: b{n}\r\n\r\nlunch {}\r\n", "x ".repeat(100_000));
    for n in 0..20 {
        file(&store, long(n).as_bytes(), n);
    }
    let snapshot = store.snapshot();
    let request = |condition: Condition, bytes: u64, rows: u64| {
        let reads = Allowance::new(bytes, rows);
        let results =
            QuerySpec { account: ACCOUNT, filter: Filter::Is(condition), reads, ..small_batches() };
        Query { results, ..Query::default() }
    };
    let header = || Condition::Header { name: "X-A".into(), text: Some("b7".into()) };
    let ask = |request: &Query| {
        query(&snapshot, store.secrets(), request).map(|found| found.answer.ids.len())
    };
    // 20 headers are some 500 bytes, the first frames of the messages 2.6 MB.
    let rich = request(header(), 2000, 1000);
    assert_eq!(
        (ask(&rich), ask(&request(header(), 200, 1000))),
        (Ok(1), Err(Refused::TooMuchRead))
    );
    assert_eq!(
        ask(&request(Condition::Body("lunch".into()), 2000, 1000)),
        Err(Refused::TooMuchRead)
    );
    // That much was read all the same: it counts as rows, and no further walk begins.
    assert_eq!(ask(&rich), Err(Refused::TooMuchWalked));
}

/// The first page of a query ends early, and says that changes can be calculated; its changes look
/// at every hit.
#[test]
fn changes_that_read_too_much_cannot_be_calculated() {
    let store = open(&Arc::new(FaultyEngine::new(MemoryEngine::new())));
    create_account(&store);
    let put = |n: i64| {
        file(&store, format!("Subject: s\r\n\r\n{}lunch\r\n", "x ".repeat(100)).as_bytes(), n)
    };
    for n in 0..20 {
        put(n);
    }
    let filter = Filter::Is(Condition::Body("lunch".into()));
    let of = |bytes: u64| QuerySpec {
        account: ACCOUNT,
        filter: filter.clone(),
        reads: Allowance::new(bytes, u64::MAX),
        ..small_batches()
    };
    let request = Query {
        results: of(2000),
        window: Window { limit: Some(1), ..Window::default() },
        total: false,
    };
    let page = query(&store.snapshot(), store.secrets(), &request).unwrap().answer;
    assert_eq!((page.ids.len(), page.can_calculate), (1, true));
    let new = put(20);
    let ask = |bytes: u64| {
        let results = of(bytes);
        let request = QueryChanges {
            results,
            since: page.state,
            up_to: None,
            max_changes: None,
            total: false,
        };
        changes(&store.snapshot(), store.secrets(), &request).map(|found| found.answer.added)
    };
    assert_eq!(ask(2000), Err(Refused::CannotCalculateChanges));
    assert_eq!(ask(1_000_000), Ok(vec![(0, new)]));
}
