use std::time::Duration;

use super::*;
use crate::account::{Directory, NewAccount, Settings as Addresses};
use crate::deliver::Deliverer;
use crate::message::header::walks;
use crate::model::clock::FixedClock;
use crate::model::{Address, LiveValue, Recipient, UtcMillis, VacationResponse, Verdict};
use crate::store::engine::memory::MemoryEngine;
use crate::store::{Options, Store};

/// The beginning of the message. `walks` counts how often the header that begins so is parsed.
const TOP: &str = "X-First: 1\r\n";
const REST: &str = "Received: from a by b id c\r\nFrom: Bob <bob@example.net>\r\n\
    Subject: lunch\r\nMessage-ID: <1@x>\r\n";
const REPORT: &str = "Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\
    \r\n--b\r\n\r\nlost\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\n\
    Reporting-MTA: dns; x\r\n\r\n\
    Final-Recipient: rfc822; x@y.example\r\nAction: failed\r\nStatus: 5.0.0\r\n--b--\r\n";

/// Delivers a message from bob to ann. Returns the vacation decision, and how often the header of
/// the message was parsed.
fn deliver_counted(is_away: bool, settings: &proof::Settings, message: &str) -> (String, usize) {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_795_251_600_000)));
    let store =
        Store::open_engine(Arc::new(MemoryEngine::new()), &Options::small(), clock).unwrap();
    let directory = Directory::new(store.clone(), Addresses::default());
    let ann = Address::parse("ann@example.org").unwrap();
    let account = directory.add(&NewAccount::at(ann.clone())).unwrap();
    let response = VacationResponse {
        enabled: is_away,
        text_body: Some("I am away".into()),
        ..VacationResponse::default()
    };
    let (_, ticket) = store.commit(account, |txn| txn.set_vacation(&response)).unwrap();
    ticket.wait_blocking().unwrap();
    let service = Arc::new(Deliverer::new(store.clone(), directory, LiveValue::default()));
    let mut envelope = Envelope {
        sender: Address::parse("bob@example.net").ok(),
        lhlo: "mx".into(),
        ..Envelope::default()
    };
    let mut transaction = Default::default();
    let recipient = Recipient::plain(ann);
    assert!(service.admit(&mut transaction, &envelope, &recipient).is_positive());
    envelope.recipients.push(recipient);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bytes = message.as_bytes().to_vec();
    let (replies, walks) = walks::count(TOP.as_bytes(), || {
        runtime.block_on(deliver(&service, transaction, envelope, bytes, None, settings))
    });
    assert!(replies.len() == 1 && replies[0].is_positive(), "{replies:?}");
    let decision = store.snapshot().decisions(account, 1).unwrap().pop().unwrap();
    let outcome = match decision.verdict {
        Verdict::Answered(_) => "answered".to_owned(),
        Verdict::Silent { reason, .. } => reason,
    };
    (outcome, walks)
}

#[test]
fn parses_the_header_of_a_delivered_message_once() {
    let silent_server = proof::VerifySettings {
        nameservers: vec!["127.0.0.1:9".parse().unwrap()],
        timeout: Duration::from_millis(100),
        cache: 1,
        sealers: Vec::new(),
        hostname: "mx.example.org".into(),
    };
    let plain = proof::Settings::default();
    let proving = proof::Settings {
        authserv_ids: vec!["mx.example.org".into()],
        verifier: Some(Arc::new(proof::Verifier::new(silent_server))),
        ..proof::Settings::default()
    };
    let to = "To: ann@example.org\r\n";
    let attached = "Content-Type: multipart/mixed; boundary=b\r\nMIME-Version: 1.0\r\n\r\n\
        --b\r\n\r\nhello\r\n--b\r\nContent-Type: image/png; name=a.png\r\n\
        Content-Disposition: attachment\r\n\r\nx\r\n--b--\r\n";
    for (is_away, settings, rest, expected) in [
        (false, &plain, "\r\nAt noon?\r\n", "disabled"),
        (false, &plain, attached, "disabled"),
        (false, &plain, REPORT, "disabled"),
        (true, &plain, "List-Id: <a.b>\r\n\r\nAt noon?\r\n", "list"),
        (true, &plain, &format!("{to}\r\nAt noon?\r\n"), "answered"),
        (true, &proving, &format!("{to}\r\nAt noon?\r\n"), "answered"),
        // Bytes outside ASCII in the header cause no second parse, either.
        (true, &proving, &format!("{to}X-Raw: \u{e9}\r\n{REPORT}"), "report"),
    ] {
        let message = format!("{TOP}{REST}{rest}");
        let (outcome, walks) = deliver_counted(is_away, settings, &message);
        assert_eq!((outcome.as_str(), walks), (expected, 1), "{message}");
    }
}
