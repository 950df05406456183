use proptest::prelude::*;

use super::*;
use crate::model::{
    AccountRow, Action, Address, AddressRow, Decision, EmailMetadata, Except, Mailbox, MessageRows, PartOffsets,
    SentAt, UtcMillis, VacationResponse, Word,
};

fn any_bytes_never_panic<R: Row>(bytes: &[u8]) {
    drop(R::decode(b"key", bytes));
}

proptest! {
    #[test]
    fn numbers_round_trip(value: u64, signed: i64) {
        let mut out = Writer(Vec::new());
        out.num(value);
        out.signed(signed);
        let mut input = Reader(&out.0);
        prop_assert_eq!(input.num(), Ok(value));
        prop_assert_eq!(input.signed(), Ok(signed));
        prop_assert!(input.0.is_empty());
    }

    #[test]
    fn any_bytes_are_a_row_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), version in 0u8..3) {
        let bytes = [&[version], bytes.as_slice()].concat();
        any_bytes_never_panic::<AccountRow>(&bytes);
        any_bytes_never_panic::<AddressRow>(&bytes);
        any_bytes_never_panic::<State>(&bytes);
        any_bytes_never_panic::<EmailMetadata>(&bytes);
        any_bytes_never_panic::<Thread>(&bytes);
        any_bytes_never_panic::<Mailbox>(&bytes);
        any_bytes_never_panic::<VacationResponse>(&bytes);
        any_bytes_never_panic::<Told>(&bytes);
        any_bytes_never_panic::<Delivery>(&bytes);
        any_bytes_never_panic::<Decision>(&bytes);
        any_bytes_never_panic::<Action>(&bytes);
        drop(decode_content(b"key", &bytes));
        drop(decode_tokens(b"key", &bytes));
        drop(Blob::decode(b"key", &bytes));
        drop(decode_frame(b"key", &bytes));
    }

    #[test]
    fn message_rows_round_trip(
        subject in proptest::option::of(".*"),
        prefix in proptest::collection::vec(any::<u8>(), 0..50),
        hashes in proptest::collection::btree_map(0u32..1 << 28, proptest::collection::btree_set(any::<u32>(), 0..4), 0..20),
        raw in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut rows = MessageRows::default();
        rows.content.subject = subject;
        rows.content.sent_at = Some(SentAt { at: UtcMillis(-77), offset_minutes: -330 });
        rows.content.parts = vec![PartOffsets { header: 3, body: 9, end: 9, encoding: 2 }];
        rows.tokens.words = hashes
            .into_iter()
            .map(|(hash, at)| Word { hash, positions: at.into_iter().collect() })
            .collect();
        rows.tokens.texts = vec![("org.example@ann".into(), 1)];
        let encoded = EncodedMessage::new(&rows);
        let value = content_value(&prefix, &encoded.content);
        prop_assert_eq!(decode_content(b"key", &value), Ok((prefix, rows.content)));
        prop_assert_eq!(decode_tokens(b"key", &encoded.tokens), Ok(rows.tokens));
        for octets in [Octets::Here(&raw), Octets::Framed(raw.len() as u64)] {
            let blob = Blob { at: UtcMillis(5), octets };
            let row = blob.encode();
            prop_assert_eq!(Blob::decode(b"key", &row), Ok(blob));
        }
    }
}

#[test]
fn a_newer_version_is_refused_and_so_is_what_follows_the_row() {
    let told = Told { generation: 3, at: UtcMillis(9), sender: Some(Address::from_parts("bob", "example.net")) };
    let mut row = told.encode();
    assert_eq!(Told::decode(b"k", &row), Ok(told));
    row.push(0);
    assert!(Told::decode(b"k", &row).is_err());
    row.pop();
    row[0] = 3;
    assert!(Told::decode(b"k", &row).unwrap_err().to_string().contains("newer version"));
}

/// Rows as version 1 wrote them, octet for octet.
#[test]
fn rows_of_the_first_version_are_still_read() {
    let told = Told::decode(b"k", &[1, 3, 18]).unwrap();
    assert_eq!(told, Told { generation: 3, at: UtcMillis(9), sender: None });
    let old = [&[1u8, 1, 0, 0, 1, 2][..], b"hi", &[1, 4], b"Away", &[0, 0, 0, 0, 7]].concat();
    let response = VacationResponse {
        enabled: true,
        subject: Some("hi".into()),
        text_body: Some("Away".into()),
        generation: 7,
        ..VacationResponse::default()
    };
    assert_eq!(VacationResponse::decode(b"k", &old), Ok(response.clone()));
    let except = vec!["bob@example.net".parse().unwrap(), "example.com".parse().unwrap()];
    assert!(matches!(&except[..], [Except::Address(_), Except::Domain(_)]));
    let new = VacationResponse { except, ..response };
    assert_eq!(VacationResponse::decode(b"k", &new.encode()), Ok(new));
}
