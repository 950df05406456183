//! Ids of many emails with the same time, such as imported mail without a date.

use super::super::engine::watched::CountingEngine;
use super::*;

/// Uses all ids of a millisecond. Only the keys of the rows matter.
fn fill(engine: &CountingEngine, at: i64) {
    let row =
        |unique| EmailKey { account: ACCOUNT, email: EmailId::new(UtcMillis(at), unique) }.encode();
    let mut puts: Vec<Put> = (0..=u16::MAX)
        .map(|n| Put { table: Table::EmailMetadata, key: row(n), value: Some(vec![1]) })
        .collect();
    puts.sort_by(|one, other| one.key.cmp(&other.key));
    engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
}

#[test]
fn an_email_of_a_full_millisecond_gets_the_next_one_at_little_cost() {
    let engine = Arc::new(CountingEngine::default());
    let store = store_over(engine.clone());
    deliver_to(&store, ACCOUNT, 1, &[], 5).unwrap();
    engine.read();
    assert_eq!(deliver_to(&store, ACCOUNT, 2, &[], 5).unwrap().received_at(), UtcMillis(5));
    let usual = engine.read();
    for at in 5..8 {
        fill(&engine, at);
    }
    engine.read();
    assert_eq!(deliver_to(&store, ACCOUNT, 3, &[], 5).unwrap().received_at(), UtcMillis(8));
    let asked = engine.read();
    // The three milliseconds have 196,608 rows.
    assert!(asked < usual + 300, "{asked} rows, and {usual} where there is room");
}

#[test]
fn an_email_is_refused_if_the_last_millisecond_is_full() {
    let engine = Arc::new(CountingEngine::default());
    let store = store_over(engine.clone());
    // Ids descend with time.
    let last = EmailId(0).received_at().0;
    assert_eq!(
        deliver_to(&store, ACCOUNT, 1, &[], i64::MAX).unwrap().received_at(),
        UtcMillis(last)
    );
    fill(&engine, last);
    assert!(matches!(deliver_to(&store, ACCOUNT, 2, &[], i64::MAX), Err(Error::Conflict(_))));
    deliver_to(&store, ACCOUNT, 3, &[], last - 1).unwrap();
}
