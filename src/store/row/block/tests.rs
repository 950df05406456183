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

/// Reads all postings of a block without their positions, and then the positions.
fn read_encoded(block: &[u8]) -> Result<Vec<Posting>, Error> {
    let (mut reader, mut all) = (BlockReader::new(b"key", block)?, Vec::new());
    while let Some(posting) = reader.next_encoded(b"key", |_, _| Some(true))? {
        let mut input = FieldReader(&posting.encoded_positions);
        let positions = input.ascending().unwrap();
        assert!(input.0.is_empty());
        assert_eq!(positions.first().copied().unwrap_or(0), posting.first_position);
        let EncodedPosting { token, ordinal, fields, .. } = posting;
        all.push(Posting { token, ordinal, fields, positions });
    }
    Ok(all)
}

/// Copies the postings of blocks to blocks of another size.
fn copy(blocks: &[Block], max_bytes: usize) -> Vec<Block> {
    let mut out = BlockWriter::new(max_bytes);
    for block in blocks {
        let mut reader = BlockReader::new(b"key", &block.value).unwrap();
        while let Some(posting) = reader.next_encoded(b"key", |_, _| Some(true)).unwrap() {
            out.push_encoded(&posting);
        }
    }
    out.finish()
}

proptest! {
    #[test]
    fn postings_are_copied_to_blocks_of_another_size(
        postings in postings(),
        max_bytes in 1usize..400,
        other in 1usize..400,
    ) {
        let mut blocks = BlockWriter::new(max_bytes);
        for one in &postings {
            blocks.push(&one.token, one.ordinal, one.fields, &one.positions);
        }
        let blocks = blocks.finish();
        prop_assert_eq!(&copy(&blocks, max_bytes), &blocks);
        let copied = copy(&blocks, other);
        prop_assert_eq!(read_all(&copied), postings);
        // Only a block of one posting may be larger.
        for block in copied.iter().filter(|block| block.value.len() > other) {
            prop_assert_eq!(read_encoded(&block.value).unwrap().len(), 1);
        }
    }

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
        let mut decoded = Vec::new();
        if read_block(b"key", &bytes, |_, _| Some(true), |one| decoded.push(one)).is_ok() {
            prop_assert_eq!(read_encoded(&bytes).unwrap(), decoded);
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

#[test]
fn damaged_positions_are_copied_and_found_by_a_reader() {
    // The differences 4294967295 and 1 add up to more than a position may be.
    let block = [&[1, 1, 5, 0, 1, 2][..], &[0xff, 0xff, 0xff, 0xff, 0x0f, 1]].concat();
    let mut reader = BlockReader::new(b"key", &block).unwrap();
    let posting = reader.next_encoded(b"key", |_, _| Some(true)).unwrap().unwrap();
    assert_eq!(
        (posting.first_position, reader.next_encoded(b"key", |_, _| None)),
        (u32::MAX, Ok(None))
    );
    let mut copied = BlockWriter::new(100);
    copied.push_encoded(&posting);
    let copied = copied.finish().pop().unwrap().value;
    assert_eq!(copied, block);
    assert!(read_block(b"key", &copied, |_, _| Some(true), drop).is_err());
}
