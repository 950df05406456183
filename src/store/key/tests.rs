//! Keys sort as what they are made of does.

use super::*;
use crate::model::Shape;
use crate::store::engine::Table;

proptest::proptest! {
    #[test]
    fn blocks_of_a_fold_sort_as_their_postings_do(
        mut all in proptest::collection::vec((posting(), proptest::num::u32::ANY, 0u32..3), 2..20),
    ) {
        let id = FoldId { level: 1, number: 7 };
        let key = |(token, ordinal, at): &(Token, u32, u32)| fold_block(AccountId(1), id, token, *ordinal, *at);
        all.sort();
        let keys: Vec<Vec<u8>> = all.iter().map(key).collect();
        proptest::prop_assert!(keys.is_sorted());
        for (row, key) in all.iter().zip(&keys) {
            proptest::prop_assert!(key.starts_with(&fold_token(AccountId(1), id, &row.0)));
            proptest::prop_assert!(key.starts_with(&fold(AccountId(1), id)));
            proptest::prop_assert!(*key > fold_ids(AccountId(1), id, u32::MAX));
        }
    }
}

fn posting() -> impl proptest::strategy::Strategy<Value = Token> {
    use proptest::strategy::Strategy as _;
    proptest::prop_oneof![(0u32..9).prop_map(Token::Word), "[a-b\\x00\u{e9}]{0,4}".prop_map(Token::Text),]
}

#[test]
fn folds_run_newest_first_in_their_level() {
    let at = |level, number| fold(AccountId(1), FoldId { level, number });
    assert!(account(AccountId(1)) < at(0, 9) && at(0, 9) < at(0, 8) && at(0, 0) < at(1, 9));
    assert!(at(9, 0) < account(AccountId(2)));
}

#[test]
fn keys_sort_as_their_parts_do_and_read_back() {
    let account_7 = AccountId(7);
    let of = |uid, view, shape| Listing { uid: MailboxUid(uid), view, shape };
    let mut listings = [
        index(account_7, of(1, View::Every, Shape::Emails), EmailId(9)),
        index(account_7, of(1, View::Every, Shape::Threads), EmailId(1)),
        index(account_7, of(1, View::Flagged, Shape::Emails), EmailId(1)),
        index(account_7, of(256, View::Every, Shape::Emails), EmailId(0)),
        index(AccountId(8), of(0, View::Every, Shape::Emails), EmailId(0)),
    ];
    let ordered = listings.clone();
    listings.reverse();
    listings.sort();
    assert_eq!(listings, ordered);
    let key = due(Wake::Urgent(UtcMillis(77)), AccountId(5), ActionId(6));
    let mut parts = Parts::of(Table::OutboxDue, &key);
    assert_eq!((parts.u64(), parts.u32(), parts.u64(), parts.take()), (Ok(6), Ok(5), Ok(77), Ok([1])));
    assert!(parts.u32().is_err());
    let wakes = [Wake::Attempting(UtcMillis(9)), Wake::Urgent(UtcMillis(8)), Wake::Due(UtcMillis(7))];
    let wakes = wakes.into_iter().chain([Wake::After(ActionId(6)), Wake::Forget(UtcMillis(5))]);
    let keys: Vec<Vec<u8>> = wakes.clone().map(|wake| due(wake, AccountId(1), ActionId(1))).collect();
    assert!(keys.is_sorted() && wakes.clone().all(|wake| Wake::of(wake.place().0, wake.place().1) == Some(wake)));
    assert!(wakes.zip(&keys).all(|(wake, key)| *key < wakes_end(wake)) && Wake::of(5, 0).is_none());
    let (new, old) = (UtcMillis(2000), UtcMillis(1000));
    assert!(decision(account_7, new, EmailId(1)) < decision(account_7, old, EmailId(0)));
}
