//! Keys sort as what they are made of does.

use super::*;
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
fn the_numbers_of_a_key_read_back_from_its_end() {
    let key = blob_ref(&BlobHash([9; 32]), AccountId(5), EmailId(6));
    let mut parts = KeySuffix::of(Table::BlobRefs, &key);
    assert_eq!((parts.u64(), parts.u32(), parts.take()), (Ok(6), Ok(5), Ok([9; 32])));
    assert!(parts.u32().is_err());
}
