//! What is said, and what is understood of what is answered, octet by octet.

use proptest::prelude::*;
use tokio::io::AsyncWriteExt as _;

use super::*;

/// What is understood of these octets, as so many answers; cut in two.
fn understood(octets: &[u8], cut: usize, many: usize) -> (Vec<RelayAnswer>, Result<(), String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let (first, second) = octets.split_at(cut.min(octets.len()));
        let (first, second) = (first.to_vec(), second.to_vec());
        let write = tokio::spawn(async move {
            far.write_all(&first).await.unwrap();
            tokio::task::yield_now().await;
            // Who has heard enough hangs up.
            drop(far.write_all(&second).await);
        });
        let mut stream: Box<dyn RelayStream> = Box::new(near);
        let mut answers = Vec::new();
        let done = read(&mut stream, many, &mut answers).await;
        drop(stream);
        write.await.unwrap();
        (answers, done)
    })
}

#[test]
fn answers_are_read_at_any_split() {
    let text = b"250-2.1.0 one\r\n250 2.1.0 two\r\n550 5.1.1 no such user\r\n";
    for cut in 0..text.len() {
        let (answers, done) = understood(text, cut, 2);
        assert_eq!(done, Ok(()), "{cut}");
        assert_eq!(
            answers.iter().map(|one| (one.code, one.status)).collect::<Vec<_>>(),
            [(250, [2, 1, 0]), (550, [5, 1, 1])]
        );
        // RFC 8621 §7: lines are joined, without what begins each of them.
        assert_eq!(answers[0].line(), "250 2.1.0 one two");
        assert!(answers[1].text.contains("no such user"));
    }
    let (answers, done) = understood(text, 0, 3);
    assert!(answers.len() == 2 && done.is_err());
    assert!(understood(b"250 a\r\n250 b\r\n", 0, 1).1.is_err(), "more than it was asked");
}

proptest! {
    /// Whatever comes is answers or an error, and never more of them than were asked for.
    #[test]
    fn any_octets_are_answers_or_an_error(
        octets in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            "([245][0-9]{2}[- ]([245]\\.[0-9]\\.[0-9]{1,4} )?[a-z<>\r\n]{0,9}\r\n){0,6}".prop_map(String::into_bytes),
            Just(b"250-".repeat(5000)),
        ],
        cut in 0usize..300,
        many in 1usize..4,
    ) {
        let (answers, done) = understood(&octets, cut, many);
        prop_assert!(answers.len() <= many && (done.is_err() || answers.len() == many));
    }

    /// RFC 3461 §4: nothing of a value ends the command that it stands in.
    #[test]
    fn a_value_stays_a_word(value in any::<String>()) {
        let word = xtext(&value);
        prop_assert!(word.bytes().all(|octet| octet.is_ascii_graphic() && octet != b'='));
    }
}

#[test]
fn commands_say_what_the_relay_can_hear() {
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
        rcpt(&target, all),
        "RCPT TO:<bob@xn--bcher-kva.example> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;a+2Bb@x\r\n"
    );
    assert_eq!(
        rcpt(&target, RelayExtensions::default()),
        "RCPT TO:<bob@xn--bcher-kva.example>\r\n"
    );
    assert_eq!(notify_words(&DsnNotify { never: true, ..DsnNotify::default() }), " NOTIFY=NEVER");
}
