//! Rows round trip, any bytes are a row or an error, and newer versions are refused.

use proptest::prelude::*;

use super::*;
use crate::model::{
    Absence, AccountRow, Action, Address, AddressRow, Audience, Circle, Days, Decision,
    EmailMetadata, EmailSubmission, ExcludedSender, Mailbox, MessageRows, PartOffsets,
    PushSubscription, SenderIdentity, SentAt, Tokens, UtcMillis, VacationResponse, Variant,
    WantedTokens,
};
use crate::store::engine::segments::Extent;

/// The highest version that any row has (`AccountRow`, `email_content`).
const NEWEST_VERSION: u8 = 3;

fn any_bytes_never_panic<R: Row>(bytes: &[u8]) {
    drop(R::decode(b"key", bytes));
}

/// The tokens that are wanted, by decoding all of them.
fn only(all: &Tokens, wanted: &WantedTokens) -> Tokens {
    let mut found = Tokens::default();
    for word in all.words.iter().filter(|word| wanted.words.contains(&word.hash)) {
        found.words.push_word(word.hash, word.positions.iter().copied());
    }
    if wanted.texts {
        found.texts.clone_from(&all.texts);
    }
    found
}

#[test]
fn numbers_are_leb128() {
    for (value, bytes) in [
        (0u64, &[0][..]),
        (127, &[0x7f]),
        (128, &[0x80, 1]),
        (16_383, &[0xff, 0x7f]),
        (16_384, &[0x80, 0x80, 1]),
        ((1 << 56) - 1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        (1 << 56, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1]),
        (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
    ] {
        let mut out = FieldWriter(Vec::new());
        out.num(value);
        assert_eq!(out.0, bytes, "{value}");
    }
}

proptest! {
    #[test]
    fn numbers_round_trip(value: u64, bits in 0u32..64, signed: i64) {
        let value = value >> bits;
        let mut out = FieldWriter(Vec::new());
        out.num(value);
        let bits = (value | 1).ilog2().saturating_add(1);
        prop_assert_eq!(out.0.len(), bits.div_ceil(7) as usize);
        out.signed(signed);
        // With many bytes behind the numbers, and with none.
        for behind in [&[0xff; 16][..], &[]] {
            let bytes = [&out.0, behind].concat();
            let mut input = FieldReader(&bytes);
            let mut passed = input;
            prop_assert_eq!(input.num(), Ok(value));
            prop_assert_eq!(passed.skip_num(), Ok(()));
            prop_assert_eq!(passed.0, input.0);
            prop_assert_eq!(input.signed(), Ok(signed));
            prop_assert_eq!(input.0, behind);
        }
    }

    #[test]
    fn ascending_numbers_are_a_list_of_differences(
        steps in proptest::collection::vec((any::<u32>(), 0u32..32), 0..100),
    ) {
        let mut last = 0u32;
        let values: Vec<u32> = steps
            .into_iter()
            .map_while(|(step, bits)| {
                last = last.checked_add(step >> bits)?;
                Some(last)
            })
            .collect();
        let mut out = FieldWriter(Vec::new());
        out.ascending(&values);
        let (mut one_by_one, mut before) = (FieldWriter(Vec::new()), 0);
        one_by_one.list(values.iter(), |out, value| {
            out.num(value.saturating_sub(before));
            before = *value;
        });
        prop_assert_eq!(out.0, one_by_one.0);
    }

    #[test]
    fn any_bytes_are_a_row_or_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        version in 0u8..=NEWEST_VERSION + 1,
    ) {
        let bytes = [&[version], bytes.as_slice()].concat();
        any_bytes_never_panic::<AccountRow>(&bytes);
        any_bytes_never_panic::<AddressRow>(&bytes);
        any_bytes_never_panic::<AccountStateRow>(&bytes);
        any_bytes_never_panic::<EmailMetadata>(&bytes);
        any_bytes_never_panic::<Thread>(&bytes);
        any_bytes_never_panic::<Mailbox>(&bytes);
        any_bytes_never_panic::<VacationResponse>(&bytes);
        any_bytes_never_panic::<ToldRow>(&bytes);
        any_bytes_never_panic::<DeliveryRow>(&bytes);
        any_bytes_never_panic::<Decision>(&bytes);
        any_bytes_never_panic::<Action>(&bytes);
        any_bytes_never_panic::<UploadRow>(&bytes);
        any_bytes_never_panic::<ObjectRow<SenderIdentity>>(&bytes);
        any_bytes_never_panic::<ObjectRow<EmailSubmission>>(&bytes);
        any_bytes_never_panic::<ObjectRow<PushSubscription>>(&bytes);
        drop(decode_content(b"key", &bytes));
        let wanted = WantedTokens { words: vec![1, 7, 1 << 27], texts: version % 2 == 0 };
        let found = decode_wanted_tokens(b"key", &bytes, &wanted);
        if let Ok(all) = decode_tokens(b"key", &bytes) {
            prop_assert_eq!(found, Ok(only(&all, &wanted)));
        }
        drop(BlobRow::decode(b"key", &bytes));
        drop(decode_frame(b"key", &bytes));
    }

    #[test]
    fn message_rows_round_trip(
        subject in proptest::option::of(".*"),
        prefix in proptest::collection::vec(any::<u8>(), 0..50),
        hashes in proptest::collection::btree_map(
            0u32..1 << 28,
            proptest::collection::btree_set(any::<u32>(), 0..4),
            0..200,
        ),
        raw in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut rows = MessageRows::default();
        rows.content.subject = subject;
        rows.content.sent_at = Some(SentAt { at: UtcMillis(-77), offset_minutes: -330 });
        rows.content.parts = vec![PartOffsets { header: 3, body: 9, end: 9, encoding: 2 }];
        for (hash, at) in hashes {
            rows.tokens.words.push_word(hash, at);
        }
        rows.tokens.texts = vec![("org.example@ann".into(), 1)];
        let encoded = EncodedMessage::new(&rows);
        let value = encode_content(&prefix, &encoded.content);
        prop_assert_eq!(decode_content(b"key", &value), Ok((prefix, rows.content)));
        let value = encode_tokens(b"", &encoded.tokens);
        let every_second = rows.tokens.words.iter().step_by(2).map(|word| word.hash);
        let words: Vec<u32> = every_second.chain([1 << 28]).collect();
        for texts in [false, true] {
            let wanted = WantedTokens { words: words.clone(), texts };
            let found = decode_wanted_tokens(b"key", &value, &wanted);
            prop_assert_eq!(found, Ok(only(&rows.tokens, &wanted)));
        }
        prop_assert_eq!(decode_tokens(b"key", &value), Ok(rows.tokens));
        let (length, offset) = (raw.len() as u64, raw.first().copied().unwrap_or_default());
        let extent = Extent { segment: u32::from(offset), offset: u64::from(offset), length };
        for bytes in [
            BlobBytes::Inline(&raw),
            BlobBytes::Framed(length),
            BlobBytes::Located(extent),
            BlobBytes::Packed { extent, length: length.saturating_add(9) },
        ] {
            let blob = BlobRow { at: UtcMillis(5), bytes };
            let row = blob.encode();
            prop_assert_eq!(BlobRow::decode(b"key", &row), Ok(blob));
        }
    }
}

#[test]
fn rows_of_messages_in_segments_have_these_bytes() {
    let extent = Extent { segment: 7, offset: 300, length: 200 };
    let row = |bytes| BlobRow { at: UtcMillis(5), bytes }.encode();
    // Version, codec, time; length, segment, offset.
    assert_eq!(row(BlobBytes::Located(extent)), [1, 2, 10, 200, 1, 7, 172, 2]);
    let packed = row(BlobBytes::Packed { extent, length: 400 });
    assert_eq!(packed, [1, 3, 10, 144, 3, 200, 1, 7, 172, 2]);
    let too_long = row(BlobBytes::Packed { extent, length: 199 });
    assert!(BlobRow::decode(b"k", &too_long).is_err());
}

#[test]
fn each_word_is_found_at_the_ends_of_runs_and_no_other_is() {
    for count in [0, 1, 31, 32, 33, 63, 64, 65, 200] {
        let mut rows = MessageRows::default();
        (0..count).for_each(|n| rows.tokens.words.push_word(n * 5, (0..n % 3).map(|at| at + n)));
        rows.tokens.texts = vec![("org.example@ann".into(), 1)];
        let row = encode_tokens(b"", &EncodedMessage::new(&rows).tokens);
        let all: Vec<u32> = (0..=count * 5 + 1).collect();
        let each = all.iter().map(|hash| vec![*hash]);
        for words in each.chain([all.clone(), all.iter().copied().step_by(35).collect()]) {
            let wanted = WantedTokens { words, texts: count % 2 == 0 };
            let found = decode_wanted_tokens(b"k", &row, &wanted);
            assert_eq!(found, Ok(only(&rows.tokens, &wanted)), "{count} words, {wanted:?}");
        }
    }
}

#[test]
fn words_are_read_from_rows_before_the_index() {
    // Version, no address, two words: hash 5 at position 7, and hash 9 at 2 and 3. No texts.
    let row = [2, 0, 2, 5 << 1, 7, (4 << 1) | 1, 2, 2, 1, 0];
    let mut tokens = Tokens::default();
    tokens.words.push_word(5, [7]);
    tokens.words.push_word(9, [2, 3]);
    assert_eq!(decode_tokens(b"k", &row), Ok(tokens.clone()));
    let wanted = WantedTokens { words: vec![6, 9], texts: false };
    assert_eq!(decode_wanted_tokens(b"k", &row, &wanted), Ok(only(&tokens, &wanted)));
}

/// A search would pass over words if the index were wrong.
#[test]
fn index_that_does_not_match_the_words_is_damage() {
    let mut rows = MessageRows::default();
    (1..=66).for_each(|n| rows.tokens.words.push_word(n * 5, [n]));
    let row = encode_tokens(b"", &EncodedMessage::new(&rows).tokens);
    assert_eq!(decode_tokens(b"k", &row), Ok(rows.tokens));
    // Version, no address, the count in one byte; three entries.
    for at in 3..3 + 3 * 8 {
        let mut damaged = row.clone();
        damaged[at] ^= 1;
        let error = decode_tokens(b"k", &damaged).unwrap_err().to_string();
        assert!(error.contains("index does not match"), "byte {at}: {error}");
    }
}

#[test]
fn newer_version_and_bytes_after_the_last_field_are_refused() {
    let sender = Address::from_parts("bob", "example.net");
    let told =
        ToldRow { generation: Some(3), at: UtcMillis(9), sender, until: Some(UtcMillis(99)) };
    let mut row = told.encode();
    assert_eq!(ToldRow::decode(b"k", &row), Ok(told));
    row.push(0);
    assert!(ToldRow::decode(b"k", &row).is_err());
    row.pop();
    row[0] = ToldRow::VERSION + 1;
    assert!(ToldRow::decode(b"k", &row).unwrap_err().to_string().contains("newer version"));
    // Versions count from 1.
    row[0] = 0;
    assert!(ToldRow::decode(b"k", &row).unwrap_err().to_string().contains("version 0"));
    assert!(Present::from_bytes(Table::Shared, b"k", &[0]).is_err());
    let blob = BlobRow { at: UtcMillis(5), bytes: BlobBytes::Inline(b"x") };
    let mut row = blob.encode();
    row[0] = 0;
    assert!(BlobRow::decode(b"k", &row).is_err());
    let mut tokens = encode_tokens(b"", &EncodedMessage::new(&MessageRows::default()).tokens);
    tokens[0] = 0;
    assert!(decode_tokens(b"k", &tokens).is_err());
}

#[test]
fn vacation_response_round_trips() {
    let full = VacationResponse {
        enabled: true,
        from_date: Some(UtcMillis(-5)),
        subject: Some("hi".into()),
        text_body: Some("Away".into()),
        except: vec!["bob@example.net".parse().unwrap(), "example.com".parse().unwrap()],
        audience: Audience::Known,
        organisation: vec!["example.com".into()],
        language: Some("en".into()),
        variants: vec![
            Variant {
                language: Some("de".into()),
                circle: Some(Circle::Outside),
                ..Variant::default()
            },
            Variant {
                text_body: Some("x".into()),
                circle: Some(Circle::Organisation),
                ..Variant::default()
            },
        ],
        days: vec![Days::Weekday(5), Days::Monthdays(24, 31)],
        copies: true,
        report: true,
        absence: Absence { began: Some(UtcMillis(1)), ended: Some(UtcMillis(2)), reported: true },
        generation: 7,
        ..VacationResponse::default()
    };
    // An earlier version stored addresses that folding had made too long to be given.
    let long = Address::from_parts("x y".repeat(99), format!("{}example", "xn--tda.".repeat(36)));
    let earlier = VacationResponse { except: vec![ExcludedSender::Address(long)], ..full.clone() };
    for response in [full, earlier, VacationResponse::default()] {
        assert_eq!(VacationResponse::decode(b"k", &response.encode()), Ok(response));
    }
}
