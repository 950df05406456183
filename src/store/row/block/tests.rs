//! Blocks of any size round trip, and any bytes are a block or an error.

use proptest::prelude::*;

use super::*;

fn postings() -> impl Strategy<Value = Vec<Posting>> {
    let word = (0u32..20).prop_map(|n| (Token::Word(n.saturating_mul(7)), true));
    let text = "[a-c\\x00é]{0,6}".prop_map(|text| (Token::Text(text), false));
    let token = prop_oneof![word, text];
    let positions = proptest::collection::btree_set(any::<u32>(), 1..9);
    let one = ((token, 0u32..40), (any::<u16>(), positions));
    proptest::collection::vec(one, 0..60).prop_map(|all| {
        let all: std::collections::BTreeMap<_, _> = all.into_iter().collect();
        let all = all.into_iter().map(|(((token, is_word), ordinal), (fields, positions))| {
            let positions =
                if is_word { positions.into_iter().collect() } else { Positions::new() };
            Posting { token, ordinal, fields, positions }
        });
        all.collect()
    })
}

fn read_all(blocks: &[Block]) -> Vec<Posting> {
    let mut out: Vec<Posting> = Vec::new();
    for block in blocks {
        let mut first = true;
        read_block(
            b"key",
            &block.value,
            |_, _| Some(true),
            |posting| {
                if std::mem::take(&mut first) {
                    assert_eq!(posting.sort_key(), (&block.token, block.ordinal, block.position));
                }
                match out.last_mut() {
                    Some(last)
                        if (&last.token, last.ordinal) == (&posting.token, posting.ordinal) =>
                    {
                        last.positions.extend(posting.positions);
                    }
                    _ => out.push(posting),
                }
            },
        )
        .unwrap();
    }
    out
}

proptest! {
    #[test]
    fn postings_round_trip_in_blocks_of_any_size(postings in postings(), max_bytes in 1usize..400) {
        let mut blocks = BlockWriter::new(max_bytes);
        for one in &postings {
            blocks.push(&one.token, one.ordinal, one.fields, &one.positions);
        }
        let byte_len = blocks.byte_len();
        let blocks = blocks.finish();
        prop_assert_eq!(blocks.iter().map(|block| block.value.len()).sum::<usize>(), byte_len);
        prop_assert_eq!(read_all(&blocks), postings);
    }

    #[test]
    fn any_bytes_are_a_block_or_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..99),
        kind in 0u8..4,
    ) {
        let bytes = [&[1, kind], bytes.as_slice()].concat();
        let mut last: Option<(Token, u32)> = None;
        let all = read_block(b"key", &bytes, |_, ordinal| Some(ordinal % 2 == 0), |posting| {
            let order = (posting.token, posting.ordinal);
            assert!(last.as_ref().is_none_or(|last| *last <= order));
            last = Some(order);
        });
        // Damage that is found while postings are passed over is also found if none is.
        if all.is_err() {
            prop_assert!(read_block(b"key", &bytes, |_, _| Some(true), drop).is_err());
        }
    }
}

#[test]
fn posting_with_very_many_positions_is_split_over_blocks() {
    let positions: Vec<u32> = (0..50_000u32).map(|n| n.saturating_mul(70_000)).collect();
    let mut blocks = BlockWriter::new(8192);
    blocks.push(&Token::Word(5), 3, 64, &positions);
    let blocks = blocks.finish();
    assert!(blocks.len() > 10 && blocks.iter().all(|block| block.value.len() <= 8192));
    let one =
        Posting { token: Token::Word(5), ordinal: 3, fields: 64, positions: positions.into() };
    assert_eq!(read_all(&blocks), [one]);
}
