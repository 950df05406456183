//! Tests of the commands that are sent, and of reading answers at any split of the bytes.

use proptest::prelude::*;
use tokio::io::AsyncWriteExt as _;

use super::*;

/// Reads `count` answers from bytes that come in two pieces, split at `cut`.
fn read_split(bytes: &[u8], cut: usize, count: usize) -> (Vec<RelayAnswer>, Result<(), String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let (first, second) = bytes.split_at(cut.min(bytes.len()));
        let (first, second) = (first.to_vec(), second.to_vec());
        let write = tokio::spawn(async move {
            far.write_all(&first).await.unwrap();
            tokio::task::yield_now().await;
            // Fails if the reader has enough and hung up.
            drop(far.write_all(&second).await);
        });
        let mut stream: Box<dyn RelayStream> = Box::new(near);
        let mut answers = Vec::new();
        let result = read_answers(&mut stream, count, &mut answers).await;
        drop(stream);
        write.await.unwrap();
        (answers, result)
    })
}

#[test]
fn answers_are_read_at_any_split() {
    let text = b"250-2.1.0 one\r\n250 2.1.0 two\r\n550 5.1.1 no such user\r\n";
    for cut in 0..text.len() {
        let (answers, result) = read_split(text, cut, 2);
        assert_eq!(result, Ok(()), "{cut}");
        assert_eq!(
            answers.iter().map(|answer| (answer.code, answer.status)).collect::<Vec<_>>(),
            [(250, [2, 1, 0]), (550, [5, 1, 1])]
        );
        // RFC 8621 §7: lines are joined. Only the codes of the first line stay.
        assert_eq!(answers[0].line(), "250 2.1.0 one two");
        assert!(answers[1].text.contains("no such user"));
    }
    let (answers, result) = read_split(text, 0, 3);
    assert!(answers.len() == 2 && result.is_err());
    assert!(read_split(b"250 a\r\n250 b\r\n", 0, 1).1.is_err(), "one answer more than wanted");
}

proptest! {
    #[test]
    fn any_bytes_give_the_wanted_number_of_answers_or_an_error(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            "([245][0-9]{2}[- ]([245]\\.[0-9]\\.[0-9]{1,4} )?[a-z<>\r\n]{0,9}\r\n){0,6}"
                .prop_map(String::into_bytes),
            Just(b"250-".repeat(5000)),
        ],
        cut in 0usize..300,
        count in 1usize..4,
    ) {
        let (answers, result) = read_split(&bytes, cut, count);
        prop_assert!(answers.len() <= count && (result.is_err() || answers.len() == count));
    }

    /// RFC 3461 §4: no value can end the command that it is in.
    #[test]
    fn encoded_value_has_no_blank_or_control_character(value in any::<String>()) {
        let encoded = xtext(&value);
        prop_assert!(encoded.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'='));
    }
}

#[test]
fn rcpt_has_only_parameters_that_the_relay_offers() {
    let all =
        RelayExtensions { dsn: true, utf8: true, eight_bit: true, pipelining: true, size: true };
    let target = Target {
        notify: Some(DsnNotify { success: true, failure: true, ..DsnNotify::default() }),
        original: Some(crate::model::OriginalRecipient {
            kind: "rfc822".into(),
            address: "a+b@x".into(),
        }),
        ..Target::plain(Address::from_parts("bob", "bücher.example"))
    };
    assert_eq!(
        rcpt_command(&target, all),
        "RCPT TO:<bob@xn--bcher-kva.example> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;a+2Bb@x\r\n"
    );
    assert_eq!(
        rcpt_command(&target, RelayExtensions::default()),
        "RCPT TO:<bob@xn--bcher-kva.example>\r\n"
    );
    assert_eq!(
        notify_parameter(&DsnNotify { never: true, ..DsnNotify::default() }),
        " NOTIFY=NEVER"
    );
}
