//! Tests windows at the ends of the results, and requests that are refused.

use super::*;
use crate::query::tests::driver::Op;
use crate::query::tests::naive::NaiveDraft;

#[test]
fn future_state_and_invalid_sort_are_refused() {
    let driver = TestDriver::new();
    let (snapshot, secrets) = (driver.store.snapshot(), driver.store.secrets());
    let spec = QuerySpec { account: ACCOUNT, ..small_batches() };
    let future =
        QueryChanges { spec: spec.clone(), since: ModSeq(1_000), ..QueryChanges::default() };
    assert_eq!(changes(&snapshot, secrets, &future), Err(Error::CannotCalculateChanges));
    let keyword = SortProperty::HasKeyword("$Seen".into());
    let sort = vec![Comparator { property: keyword, ascending: true, collation: Collation::Octet }];
    let invalid = Query { spec: QuerySpec { sort, ..spec.clone() }, ..Query::default() };
    assert!(matches!(query(&snapshot, secrets, &invalid), Err(Error::Unsupported(_))));
    let by_size =
        Comparator { property: SortProperty::Size, ascending: true, collation: Collation::Octet };
    let sort = vec![by_size; limits::MAX_SORT_COMPARATORS + 1];
    let invalid = QueryChanges { spec: QuerySpec { sort, ..spec }, ..QueryChanges::default() };
    assert!(matches!(changes(&snapshot, secrets, &invalid), Err(Error::Unsupported(_))));
}

#[test]
fn windows_at_and_beyond_both_ends_of_the_results_are_answered() {
    let mut driver = TestDriver::new();
    // More than `walk::scan::MAX_READ_BATCH` (256), so that the generic path reads several batches
    // of emails. `small_batches` concerns only batches of index hits.
    for n in 0..270 {
        let mailboxes = [MailboxUid(1)].into();
        driver.apply(&Op::Create {
            draft: NaiveDraft::default(),
            mailboxes,
            keywords: [].into(),
            at: UtcMillis(EPOCH + n),
        });
    }
    let spec = QuerySpec { account: ACCOUNT, ..small_batches() };
    for position in [0, 1, 255, 256, 257, 269, 270, 271, -1, -270, -271, i64::MAX, i64::MIN] {
        for limit in [None, Some(0), Some(1), Some(256), Some(usize::MAX)] {
            for total in [false, true] {
                // The extreme positions need only be answered.
                if position != i64::MAX && position != i64::MIN {
                    check_query(&driver, &spec, &(Begin::Position(position), limit), total);
                }
                let window = Window { start: Start::Position(position), limit };
                let request = Query { spec: spec.clone(), window, total };
                assert!(query(&driver.store.snapshot(), driver.store.secrets(), &request).is_ok());
            }
        }
    }
    let anchor = Start::Anchor { id: driver.ids[0], offset: i64::MIN };
    let request = Query { spec, window: Window { start: anchor, limit: Some(1) }, total: false };
    assert_eq!(
        query(&driver.store.snapshot(), driver.store.secrets(), &request).unwrap().answer.position,
        0
    );
}
