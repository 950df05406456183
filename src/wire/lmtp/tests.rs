//! Runs the dialogs of `tests/dialogs`, and checks the envelopes, and that the split of the bytes
//! does not matter.

use proptest::prelude::*;

use super::*;
use crate::model::{ClientInfo, Envelope};
use crate::wire::smtp::Reply;

/// Runs a session with a driver that refuses the recipient `unknown@`, and answers "over quota" to
/// a message for `full@`. Returns the output, and the messages with their envelopes.
fn drive(pieces: &[&[u8]], settings: Settings) -> (String, Vec<(Envelope, Vec<u8>)>) {
    let mut session = Session::new(settings);
    let (mut input, mut output, mut messages, mut body) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    'all: for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let (consumed, step) = session.step(&input);
            input.drain(..consumed);
            match step {
                Step::NeedInput if consumed == 0 => {
                    output.append(session.output());
                    break;
                }
                Step::NeedInput => {}
                Step::Begin | Step::Reset => body.clear(),
                Step::Rcpt(question) => {
                    let exists = question.recipient().address.local() != "unknown";
                    question.answer(&if exists {
                        Reply::new(250, [2, 1, 5], "recipient accepted")
                    } else {
                        Reply::new(550, [5, 1, 1], "no account has this address")
                    });
                }
                Step::Body(bytes) => body.extend_from_slice(bytes),
                Step::End(envelope) => {
                    let replies: Vec<Reply> = envelope
                        .recipients
                        .iter()
                        .map(|recipient| match recipient.address.local() {
                            "full" => Reply::new(452, [4, 2, 2], "over quota"),
                            _ => Reply::new(250, [2, 0, 0], "filed"),
                        })
                        .collect();
                    session.delivered(&replies);
                    messages.push((*envelope, std::mem::take(&mut body)));
                }
                Step::StartTls | Step::Close => {
                    output.append(session.output());
                    break 'all;
                }
            }
            output.append(session.output());
        }
    }
    (String::from_utf8(output).unwrap(), messages)
}

fn small() -> Settings {
    Settings {
        hostname: "mx.example".into(),
        max_message: 200,
        max_recipients: 3,
        max_errors: 5,
        ..Settings::default()
    }
}

/// Runs the dialogs. The lines of a file mean:
///
/// - `C: `: the client sends the line with CRLF; `C:` alone, an empty line.
/// - `c: `: the client sends the line without CRLF, with the escapes `\r`, `\n` and `\0`.
/// - `S: `: the next line of the server must begin with this text. The server must send no other
///   lines.
/// - `!trusted`, `!starttls`: switches a setting on.
/// - An empty line, or one that begins with `#`, is ignored.
#[test]
fn dialogs_get_the_expected_replies() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialogs");
    let mut files: Vec<_> =
        std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 20, "the dialogs are missing");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let (mut client, mut expected, mut settings) = (Vec::new(), Vec::new(), small());
        for line in text.lines() {
            match line.split_at_checked(3) {
                Some(("C: ", line)) => client.extend_from_slice(format!("{line}\r\n").as_bytes()),
                Some(("c: ", text)) => {
                    let text = text.replace("\\r", "\r").replace("\\n", "\n").replace("\\0", "\0");
                    client.extend_from_slice(text.as_bytes());
                }
                Some(("S: ", line)) => expected.push(line.to_owned()),
                _ if line == "C:" => client.extend_from_slice(b"\r\n"),
                _ if line == "!trusted" => settings.trusted = true,
                _ if line == "!starttls" => settings.starttls = true,
                _ => {
                    assert!(line.is_empty() || line.starts_with('#'), "{}: {line}", file.display());
                }
            }
        }
        let (output, _) = drive(&[&client], settings);
        let output: Vec<&str> = output.lines().collect();
        let agrees = output.len() == expected.len()
            && output.iter().zip(&expected).all(|(line, start)| line.starts_with(start));
        assert!(
            agrees,
            "{}\n--- expected\n{}\n--- output\n{}",
            file.display(),
            expected.join("\n"),
            output.join("\n")
        );
    }
}

#[test]
fn envelope_has_the_parameters_that_the_client_sent() {
    let settings = Settings { trusted: true, ..small() };
    let dialog = b"LHLO mta.example\r\n\
        XFORWARD NAME=spike.example ADDR=192.0.2.7 IDENT=4F1 PROTO=ESMTP\r\n\
        MAIL FROM:<a@b.example> SIZE=9 BODY=8BITMIME RET=HDRS ENVID=q+2B1 SMTPUTF8\r\n\
        RCPT TO:<x@y.example> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;old+2Bx@y.example\r\n\
        DATA\r\nhi\r\n.\r\n\
        MAIL FROM:<>\r\nRCPT TO:<x@y.example>\r\nDATA\r\n.\r\n";
    let (_, messages) = drive(&[dialog], settings);
    let (envelope, body) = &messages[0];
    assert_eq!(body, b"hi\r\n");
    assert_eq!(
        (envelope.size, envelope.smtputf8, envelope.envid.as_deref()),
        (Some(9), true, Some("q+1"))
    );
    assert_eq!(
        (envelope.client.ident.as_deref(), envelope.client.addr.as_deref()),
        (Some("4F1"), Some("192.0.2.7"))
    );
    assert_eq!(envelope.protocol(), "UTF8LMTP");
    let recipient = &envelope.recipients[0];
    assert!(recipient.notify.success && recipient.notify.delay && !recipient.notify.failure);
    assert_eq!(recipient.original.as_ref().unwrap().address, "old+x@y.example");
    assert_eq!(messages[1].1, b"");
}

#[test]
fn xclient_drops_the_attributes_of_xforward_and_keeps_those_of_xclient() {
    let settings = Settings { trusted: true, ..small() };
    let dialog = b"XCLIENT NAME=first.example LOGIN=ann\r\nLHLO mta.example\r\n\
        XFORWARD ADDR=192.0.2.7 IDENT=4F1 HELO=spike.example\r\n\
        XCLIENT NAME=second.example\r\nLHLO mta.example\r\n\
        MAIL FROM:<>\r\nRCPT TO:<x@y.example>\r\nDATA\r\n.\r\n";
    let (_, messages) = drive(&[dialog], settings);
    let expected = ClientInfo {
        name: Some("second.example".into()),
        login: Some("ann".into()),
        ..ClientInfo::default()
    };
    assert_eq!(messages[0].0.client, expected);
}

#[test]
fn attributes_of_xforward_are_for_one_transaction() {
    let next = "MAIL FROM:<>\r\nRCPT TO:<x@y.example>\r\nDATA\r\n.\r\n";
    for first in [
        next,
        "MAIL FROM:<>\r\nRCPT TO:<x@y.example>\r\nRSET\r\n",
        "MAIL FROM:<>\r\nRCPT TO:<x@y.example>\r\nBDAT 3 LAST\r\nabc",
        "MAIL FROM:<>\r\nRCPT TO:<unknown@y.example>\r\nBDAT 3 LAST\r\nabc",
    ] {
        let dialog = format!("LHLO m\r\nXFORWARD IDENT=4F1 ADDR=192.0.2.7\r\n{first}{next}");
        let (_, messages) = drive(&[dialog.as_bytes()], Settings { trusted: true, ..small() });
        let (envelope, _) = messages.last().unwrap();
        assert_eq!(envelope.client, ClientInfo::default(), "{first}");
    }
}

const DIALOG: &[u8] = b"LHLO m\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<x@y.example>\r\n\
    RCPT TO:<unknown@y.example>\r\nDATA\r\n\
    ..a\r\n.b\n.\r\nc\r\n.\r\nMAIL FROM:<>\r\nRCPT TO:<full@y.example>\r\nRCPT TO:<x@y.example>\r\n\
    BDAT 4\r\nab\r\nBDAT 3 LAST\r\nxyz\
    FROB\r\nNOOP x\r\nRSET\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<x@y.example>\r\nBDAT 300\r\n";

proptest! {
    #[test]
    fn any_split_gives_the_same_session(cuts in proptest::collection::vec(0usize..420, 0..12)) {
        // The cuts are in the commands of `DIALOG`, or in the chunk of 300 bytes after it.
        let mut dialog = DIALOG.to_vec();
        dialog.extend_from_slice(&[b'z'; 300]);
        dialog.extend_from_slice(b"BDAT 2 LAST\r\nzzQUIT\r\n");
        let unsplit = drive(&[&dialog], small());
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(dialog.len())).collect();
        cuts.sort_unstable();
        cuts.push(dialog.len());
        let mut from = 0;
        let mut pieces: Vec<&[u8]> = Vec::new();
        for cut in cuts {
            pieces.push(&dialog[from..cut]);
            from = cut;
        }
        prop_assert_eq!(drive(&pieces, small()), unsplit);
    }

    #[test]
    fn any_bytes_are_answered_without_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        drive(&[&bytes, b"\r\nQUIT\r\n"], small());
    }
}
