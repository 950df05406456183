//! Tests that searches share an allowance, and that one which would read more is refused.

use super::*;
use crate::query::{Allowance, Error as QueryError, QueryChanges, changes};

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
    // A query for the body reads about 5,200 bytes of messages, one for the header 440 bytes of
    // headers. So each allowance is enough for the first query, and not for ten more.
    for (condition, bytes) in [(Condition::Body("lunch".into()), 20_000), (header, 2000)] {
        let reads = Allowance::new(bytes, u64::MAX);
        let spec =
            QuerySpec { account: ACCOUNT, filter: Filter::Is(condition), reads, ..small_batches() };
        let request = Query { spec, ..Query::default() };
        let run =
            || query(&snapshot, store.secrets(), &request).map(|found| found.answer.ids.len());
        assert_eq!(run(), Ok(20), "{request:?}");
        let refused = (0..10).map(|_| run()).find(Result::is_err);
        assert!(matches!(refused, Some(Err(QueryError::TooMuchRead))), "{request:?}");
    }
}

/// A long message is read in frames. A condition on its header is charged for the header, one on
/// its body for the message.
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
        let spec =
            QuerySpec { account: ACCOUNT, filter: Filter::Is(condition), reads, ..small_batches() };
        Query { spec, ..Query::default() }
    };
    let header = || Condition::Header { name: "X-A".into(), text: Some("b7".into()) };
    let run = |request: &Query| {
        query(&snapshot, store.secrets(), request).map(|found| found.answer.ids.len())
    };
    // The 20 headers have about 470 bytes, and a message 200,000.
    let affordable = request(header(), 2000, 1000);
    assert_eq!(
        (run(&affordable), run(&request(header(), 200, 1000))),
        (Ok(1), Err(QueryError::TooMuchRead))
    );
    assert_eq!(
        run(&request(Condition::Body("lunch".into()), 2000, 1000)),
        Err(QueryError::TooMuchRead)
    );
    // A long message is read in large steps until its header is whole, and each KiB that was read
    // counts as a row: for 20 messages more than 1,000 rows. So no further walk may begin.
    assert_eq!(run(&affordable), Err(QueryError::TooMuchWalked));
}

/// The first page of a query reads few emails, but the changes must read every hit.
#[test]
fn changes_that_read_too_much_cannot_be_calculated() {
    let store = open(&Arc::new(FaultyEngine::new(MemoryEngine::new())));
    create_account(&store);
    let file_nth = |n: i64| {
        file(&store, format!("Subject: s\r\n\r\n{}lunch\r\n", "x ".repeat(100)).as_bytes(), n)
    };
    for n in 0..20 {
        file_nth(n);
    }
    let filter = Filter::Is(Condition::Body("lunch".into()));
    let spec = |bytes: u64| QuerySpec {
        account: ACCOUNT,
        filter: filter.clone(),
        reads: Allowance::new(bytes, u64::MAX),
        ..small_batches()
    };
    let request = Query {
        spec: spec(2000),
        window: Window { limit: Some(1), ..Window::default() },
        total: false,
    };
    let page = query(&store.snapshot(), store.secrets(), &request).unwrap().answer;
    assert_eq!((page.ids.len(), page.can_calculate), (1, true));
    let new = file_nth(20);
    let changes_with = |bytes: u64| {
        let request = QueryChanges {
            spec: spec(bytes),
            since: page.state,
            up_to: None,
            max_changes: None,
            total: false,
        };
        changes(&store.snapshot(), store.secrets(), &request).map(|found| found.answer.added)
    };
    // The 21 messages have about 5,300 bytes.
    assert_eq!(changes_with(2000), Err(QueryError::CannotCalculateChanges));
    assert_eq!(changes_with(1_000_000), Ok(vec![(0, new)]));
}
