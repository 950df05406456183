//! Tests of refusals by scripts: in the protocol, by a report, and where no report can be sent.

use super::*;

#[test]
fn refused_recipient_gets_550_again_and_another_gets_the_message() {
    let fixture = fixture();
    fixture.directory.add(&NewAccount::at(Address::parse("cy@example.org").unwrap())).unwrap();
    for (command, reason) in [("reject", "Go away, please."), ("ereject", "No.")] {
        fixture.activate(&format!("require \"{command}\";\n{command} \"{reason}\";"));
        let sender = format!("{command}@example.net");
        for _ in 0..2 {
            let replies = fixture.send(&sender, &[ANN, "cy@example.org"], LETTER);
            assert_eq!(replies[0], format!("550 {reason}"));
            assert!(replies[1].starts_with("250"), "{replies:?}");
        }
        assert_eq!(fixture.last_steps(), ["main:2 reject"]);
    }
    assert_eq!((fixture.stored(), fixture.queued()), (vec![], vec![]));
    fixture.assert_clean();
}

#[test]
fn refusal_beside_a_stored_copy_or_not_in_ascii_is_a_report() {
    let fixture = fixture();
    fixture.set_filter(FilterSettings {
        before: vec![SiteScript::new(
            "before",
            &b"require [\"fileinto\", \"copy\"]; fileinto :copy \"Archive\";"[..],
        )],
        ..FilterSettings::default()
    });
    fixture.activate("require \"ereject\"; ereject \"No.\";");
    assert!(fixture.deliver_letter().starts_with("250 filed"));
    assert_eq!(fixture.stored(), ["Archive"]);
    let report = fixture.queued().remove(0);
    assert_eq!((report.kind, report.sender.clone()), (ActionKind::Report, None));
    fixture.set_filter(FilterSettings::default());
    fixture.activate("require \"reject\"; reject \"Nö.\";");
    assert_eq!(fixture.send("eve@example.net", &[ANN], LETTER), ["250 delivered"]);
    let rejection = fixture.queued().pop().unwrap();
    assert_eq!(rejection.kind, ActionKind::Reject);
    assert_eq!(rejection.recipients[0].address.to_string(), "eve@example.net");
    assert_eq!(fixture.queued().len(), 2);
    fixture.assert_clean();
}

const UNREADABLE: &str = "550 the recipient refuses this message";

/// If the message is stored nowhere and no report can be sent, the refusal must be in the protocol:
/// the client tells the sender.
#[test]
fn refusal_without_a_report_is_in_the_protocol() {
    let fixture = fixture();
    fixture.activate("require \"reject\"; reject \"Nö.\";");
    assert_eq!(fixture.send("<>", &[ANN], LETTER), [UNREADABLE]);
    let forged = |envelope: &mut Envelope| envelope.forged = Some("SPF fails".into());
    assert_eq!(fixture.send_with(BOB, &[ANN], LETTER, forged), [UNREADABLE]);
    assert_eq!(fixture.send_with(BOB, &[ANN], LETTER, forged), [UNREADABLE], "a retry");
    assert_eq!((fixture.stored(), fixture.queued()), (vec![], vec![]));
    // One report in an hour is allowed.
    let mut settings = (*fixture.settings.get()).clone();
    settings.vacation.rate.account = 1;
    fixture.settings.set(settings);
    assert_eq!(fixture.send("one@example.net", &[ANN], LETTER), ["250 delivered"]);
    assert_eq!(fixture.send("two@example.net", &[ANN], LETTER), [UNREADABLE]);
    assert_eq!((fixture.stored(), fixture.queued().len()), (vec![], 1));
    fixture.assert_clean();
}

#[test]
fn reason_of_several_lines_is_a_reply_of_several_lines() {
    let fixture = fixture();
    fixture.activate("require \"reject\"; reject text:\nNot here.\nAsk Bob.\n.\n;");
    for _ in 0..2 {
        assert_eq!(fixture.deliver_letter(), "550 Not here.\nAsk Bob.");
    }
    // A reply has at most 2000 bytes of a reason, in lines of 400 (`MAX_REFUSAL_BYTES`). A longer
    // one of `reject` goes into a report. One of `ereject` is cut.
    let line = "A line of the reason.";
    let reason = format!("{line}\n").repeat(200);
    fixture.activate(&format!("require \"reject\"; reject \"{reason}\";"));
    assert_eq!(fixture.send("long@example.net", &[ANN], LETTER), ["250 delivered"]);
    let report = fixture.queued().remove(0);
    assert_eq!(report.kind, ActionKind::Reject);
    let text = String::from_utf8(fixture.action_message(&report)).unwrap();
    assert!(text.matches(line).count() >= 200, "{text}");
    fixture.activate(&format!("require \"ereject\"; ereject \"{reason}\";"));
    let reply = fixture.send("cut@example.net", &[ANN], LETTER).remove(0);
    assert!(reply.starts_with("550 A line") && reply.len() > 1900, "{reply}");
    assert!(reply.len() < 2100 && reply.lines().all(|line| line.len() < 450), "{reply}");
    assert_eq!(fixture.queued().len(), 1);
    fixture.assert_clean();
}

/// If a script may refuse the message, the sender is verified whatever the header says, since a
/// refusal may become a report to the sender. No vacation response answers a list.
#[test]
fn sender_is_verified_where_a_script_may_refuse_or_answer() {
    let list = format!("List-Id: <l.example.net>\nPrecedence: bulk\n{LETTER}");
    for (source, for_person, for_list) in [
        ("keep;", false, false),
        ("require \"reject\"; if not true { reject \"no\"; }", true, true),
        ("require \"ereject\"; ereject \"no\";", true, true),
        ("require \"include\"; include :optional \"x\";", true, true),
        ("require \"vacation\"; vacation \"away\";", true, false),
        ("require \"enotify\"; notify \"mailto:eve@example.com\";", false, false),
    ] {
        let fixture = fixture();
        fixture.activate(source);
        for (message, expected) in [(LETTER, for_person), (list.as_str(), for_list)] {
            let mut envelope = Envelope { sender: Address::parse(BOB).ok(), ..Envelope::default() };
            let mut session = DeliveryTransaction::default();
            let recipient = Recipient::plain(Address::parse(ANN).unwrap());
            assert!(fixture.deliver.admit(&mut session, &envelope, &recipient).is_positive());
            envelope.recipients.push(recipient);
            let message = IncomingMessage::new(message.replace('\n', "\r\n").into_bytes());
            let may_answer = fixture.deliver.may_answer(&mut session, &envelope, &message);
            assert_eq!(may_answer, expected, "{source}");
            envelope.sender = None;
            assert!(!fixture.deliver.may_answer(&mut session, &envelope, &message), "{source}");
        }
    }
}

/// A reply has no blank lines: `reject` sends its exact text in a report, and `ereject` replies
/// with the lines that are not blank.
#[test]
fn reason_with_blank_lines_is_a_report_or_loses_them() {
    let fixture = fixture();
    let reason = "text:\nNot here.\n\nAsk Bob.\n.\n;";
    fixture.activate(&format!("require \"ereject\"; ereject {reason}"));
    assert_eq!(fixture.deliver_letter(), "550 Not here.\nAsk Bob.");
    assert_eq!(fixture.queued(), []);
    fixture.activate(&format!("require \"reject\"; reject {reason}"));
    assert_eq!(fixture.send("eve@example.net", &[ANN], LETTER), ["250 delivered"]);
    let report = fixture.queued().remove(0);
    let text = String::from_utf8(fixture.action_message(&report)).unwrap();
    assert!(text.contains("Not here.\r\n\r\nAsk Bob."), "{text}");
    fixture.assert_clean();
}
