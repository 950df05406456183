//! Tests of writing mbox files, and of reading them and those of other programs.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::model::{EmailId, UtcMillis};

const MAX_BYTES: usize = 1 << 20;

fn set(words: &str) -> BTreeSet<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

fn all(file: &[u8]) -> Vec<MboxEntry> {
    let mut reader = MboxReader::new(file, MAX_BYTES);
    std::iter::from_fn(|| reader.read().unwrap()).collect()
}

fn mails(file: &[u8]) -> Vec<MboxMessage> {
    let mail = |entry| match entry {
        MboxEntry::Mail(mail) => *mail,
        other => panic!("{other:?}"),
    };
    all(file).into_iter().map(mail).collect()
}

fn written(messages: &[(EmailId, BTreeSet<String>, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    messages
        .iter()
        .for_each(|(id, keywords, bytes)| write(&mut file, *id, keywords, bytes).unwrap());
    file
}

fn id(at: i64) -> EmailId {
    EmailId::new(UtcMillis(at), 3)
}

#[test]
fn a_message_is_written_as_mail_programs_expect_it() {
    let bytes = b"Return-Path: <ann@example.org>\r\nSubject: x\r\n\r\nFrom here\r\n>From there\r\n"
        .to_vec();
    let id = id(1_795_251_600_123);
    let file = written(&[(id, set("$seen $flagged work"), bytes.clone())]);
    let expected = format!(
        "From ann@example.org Sat Nov 21 09:00:00 2026\n\
         Status: RO\nX-Status: F\nX-Keywords: work\nX-Restante: 1 {id} {} crlf\n\
         Return-Path: <ann@example.org>\nSubject: x\n\n>From here\n>>From there\n\n",
        bytes.len()
    );
    assert_eq!(String::from_utf8_lossy(&file), expected);
    let mail = mails(&file).remove(0);
    assert_eq!(
        (mail.bytes, mail.flags.keywords, mail.id),
        (bytes, set("$seen $flagged work"), Some(id))
    );
    assert!(mail.whole && mail.from_date == Some(UtcMillis(1_795_251_600_000)));
}

#[test]
fn files_of_other_programs_are_read() {
    let file = b"\nFrom - Mon Jan  1 00:00:00 2001\n\
                 Status: R\nX-Mozilla-Status: 0004\nSubject: a\n\n\
                 From the desk of:\n>From x\n\nFrom nobody at all\n\n\
                 From ann@example.org Sat, 21 Nov 2026 09:00:00 +0000 remote from uucp\r\n\
                 Subject: b\r\n\r\nlast";
    let entries = all(file);
    let [MboxEntry::Mail(first), MboxEntry::Mail(last)] = entries.as_slice() else {
        panic!("{entries:?}")
    };
    let expected = "Status: R\r\nX-Mozilla-Status: 0004\r\nSubject: a\r\n\r\n\
                    From the desk of:\r\nFrom x\r\n\r\nFrom nobody at all\r\n";
    assert_eq!(String::from_utf8_lossy(&first.bytes), expected);
    assert_eq!(first.flags.keywords, set("$seen $flagged"));
    assert_eq!(first.from_date.map(UtcMillis::rfc3339).as_deref(), Some("2001-01-01T00:00:00Z"));
    assert_eq!(last.bytes, b"Subject: b\r\n\r\nlast");
    assert!(!last.whole && !last.begun);
    assert_eq!(last.from_date.map(UtcMillis::rfc3339).as_deref(), Some("2026-11-21T09:00:00Z"));

    assert!(all(b"").is_empty() && all(b"\n\r\n").is_empty());
    let error = MboxReader::new(&b"Subject: x\n\n"[..], MAX_BYTES).read().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
}

/// What a mail program wrote for itself is recognised only as the first message of a file. Anywhere
/// else the same text is mail.
#[test]
fn internal_data_of_a_mail_program_is_told_from_mail_with_its_subject() {
    let subject = "Subject: DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA\n";
    let from = "From MAILER-DAEMON Fri Jul  8 12:08:34 2011\n";
    let mail = format!("{from}{subject}\nPlease do not.\n\n");
    for field in ["X-IMAP: 1310119714 0000000002\n", "X-IMAPbase: 1310119714 0000000002\n"] {
        let data = format!("{from}{subject}{field}Status: RO\n\nThis text is not mail.\n\n");
        let file = format!("{data}{mail}{data}");
        let entries = all(file.as_bytes());
        let [MboxEntry::Internal, MboxEntry::Mail(first), MboxEntry::Mail(last)] =
            entries.as_slice()
        else {
            panic!("{entries:?}")
        };
        assert!(first.bytes.ends_with(b"Please do not.\r\n"));
        assert!(last.bytes.ends_with(b"This text is not mail.\r\n"));
    }
    assert!(matches!(all(mail.as_bytes()).as_slice(), [MboxEntry::Mail(_)]));
    // The first message of an ordinary folder may have such a field, too.
    let other = format!("{from}X-IMAPbase: 1 2\nSubject: hello\n\nx\n\n");
    assert!(matches!(all(other.as_bytes()).as_slice(), [MboxEntry::Mail(_)]));
    // So may the first message of an export.
    let bytes = format!("{subject}X-IMAP: 1 2\n\nx\n").replace('\n', "\r\n").into_bytes();
    assert_eq!(mails(&written(&[(id(1000), set("a"), bytes.clone())]))[0].bytes, bytes);
}

#[test]
fn truncated_messages_are_recognised() {
    let file = written(&[
        (id(1000), set("a"), b"Subject: 1\r\n\r\n".to_vec()),
        (id(2000), set("b"), b"x".to_vec()),
    ]);
    let second = mails(&file)[1].at;
    // The file is cut at every byte.
    for end in 1..file.len() {
        let mut reader = MboxReader::new(&file[..end], MAX_BYTES);
        let Ok(first) = reader.read() else {
            // Less than `From ` is no mbox file.
            assert!(end < 5);
            continue;
        };
        let Some(MboxEntry::Mail(first)) = first else { panic!("{end}: {first:?}") };
        match reader.read().unwrap() {
            Some(MboxEntry::Mail(next)) => {
                assert!(first.whole && next.at == second && !next.whole, "{end}");
                assert!(next.id.is_some() || next.begun, "{end}: {next:?}");
            }
            _ => {
                assert!(end as u64 <= second, "{end}: {first:?}");
                assert_eq!(first.whole, end as u64 == second, "{end}: {first:?}");
            }
        }
        assert!(first.id.is_some() || first.begun, "{end}: {first:?}");
        assert_eq!(first.short, !first.begun && (end as u64) < second, "{end}: {first:?}");
    }
    // The last line of a message that no export wrote.
    let foreign = b"From x Mon Jan  1 00:00:00 2001\nSubject: x\n\n\nFrom";
    let read = mails(foreign);
    assert!(read.len() == 1 && read[0].bytes.ends_with(b"\r\nFrom"), "{read:?}");
}

#[test]
fn too_large_messages_are_skipped() {
    let large = b"x".repeat(3 * MAX_BYTES);
    let mut lines = b"Subject: y\n\n".to_vec();
    lines.extend(b"a line\n".repeat(MAX_BYTES / 2));
    let mut file =
        written(&[(id(1000), set(""), large), (id(2000), set(""), b"Subject: x\r\n\r\n".to_vec())]);
    file.extend_from_slice(b"From x Mon Jan  1 00:00:00 2001\n");
    file.extend_from_slice(&lines);
    let entries = all(&file);
    assert!(
        matches!(
            &entries[..],
            [MboxEntry::TooLarge(0), MboxEntry::Mail(_), MboxEntry::TooLarge(_)]
        ),
        "{}",
        entries.len()
    );
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("\r\n"),
        Just("\n"),
        Just("\r"),
        Just("From "),
        Just(">From "),
        Just(">"),
        Just("From ann@example.org Sat Nov 21 09:00:00 2026"),
        Just("Status: RO"),
        Just("X-Restante: 1 e0000000000000 5 open"),
        Just(" "),
        Just("\0\u{fc}"),
        Just("Subject: x"),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn every_message_is_written_and_read_again(
        messages in proptest::collection::vec(
            (message(), 0..4_000_000_000_000i64, "[a-z$]{0,3}"),
            0..5,
        ),
    ) {
        let messages: Vec<_> =
            messages.into_iter().map(|(bytes, at, words)| (id(at), set(&words), bytes)).collect();
        let file = written(&messages);
        let read: Vec<_> = mails(&file).into_iter().inspect(|mail| assert!(mail.whole)).collect();
        let ends: Vec<u64> = read.iter().map(|mail| mail.end).collect();
        let starts = read.iter().map(|mail| mail.at).skip(1);
        let starts: Vec<u64> = starts.chain([file.len() as u64]).collect();
        prop_assert!(read.is_empty() || ends == starts);
        let read = read.into_iter();
        let read: Vec<_> =
            read.map(|mail| (mail.id.unwrap(), mail.flags.keywords, mail.bytes)).collect();
        prop_assert_eq!(read, messages);
    }

    #[test]
    fn any_file_gives_messages_within_the_limit(
        file in proptest::collection::vec(any::<u8>(), 0..200),
        messages in message(),
    ) {
        let from = b"From x Mon Jan  1 00:00:00 2001\n".to_vec();
        for file in [file.clone(), [from, file, messages].concat()] {
            let mut reader = MboxReader::new(file.as_slice(), 50);
            while let Ok(Some(entry)) = reader.read() {
                if let MboxEntry::Mail(mail) = entry {
                    prop_assert!(mail.bytes.len() <= 50 && mail.at < mail.end);
                }
            }
        }
    }
}
