//! Tests that reports update the submission that they are about (RFC 8621 §7).

use super::*;
use crate::model::{
    Action, BlobHash, Change, DataType, DeliveryState, EmailId, EmailSubmission, EnvelopeAddress,
    ObjectId, RecipientState, SubmissionRecipient, Target, limits,
};
use crate::outbox::submission::parse_envelope;
use crate::outbox::{NewAction, Reporter, dsn};

const SENT: &[u8] =
    b"From: ann@example.org\r\nMessage-ID: <s1@example.org>\r\nSubject: lunch\r\n\r\nAt noon?\r\n";

impl Fixture {
    /// Submits a message to these recipients, and marks it as sent to all of them.
    fn create_sent_submission(&self, to: &[&str]) -> ObjectId {
        let path = |email: &str| EnvelopeAddress { email: email.into(), parameters: None };
        let (from, rcpt_to) =
            (path("ann@example.org"), to.iter().map(|to| path(to)).collect::<Vec<_>>());
        let now = self.clock.now();
        let order =
            parse_envelope(&from, &rcpt_to, now, limits::MAX_RECIPIENTS, limits::MAX_DELAYED_SEND)
                .unwrap();
        let hash = BlobHash(*blake3::hash(SENT).as_bytes());
        let NewAction { action, bytes } =
            order.into_action(Default::default(), hash, "s1@example.org".into(), now);
        assert_eq!(action.envid.as_deref(), Some("s1@example.org"));
        let rcpt_to = rcpt_to
            .into_iter()
            .map(|path| SubmissionRecipient { path, ..SubmissionRecipient::default() });
        let (message_id, rcpt_to) = ("s1@example.org".to_owned(), rcpt_to.collect());
        let submission =
            EmailSubmission { mail_from: from, rcpt_to, message_id, ..EmailSubmission::default() };
        self.commit(|txn| {
            let (id, action) =
                txn.submit(&submission, action.clone(), &bytes, Some((&hash, SENT)))?;
            let read = txn.action(action)?;
            let mut action = read.clone();
            for target in &mut action.recipients {
                target.state = RecipientState::Sent("250 2.0.0 queued as 4X".into());
            }
            txn.update_action(&read, &action)?;
            Ok(id)
        })
    }

    fn commit<T>(&self, change: impl FnMut(&mut store::Txn<'_>) -> Result<T, Error>) -> T {
        let (result, ticket) = self.store.commit(self.ann, change).unwrap();
        ticket.wait_blocking().unwrap();
        result
    }

    fn submission(&self, id: ObjectId) -> EmailSubmission {
        self.store.snapshot().object(self.ann, id).unwrap().unwrap()
    }

    /// Returns for each recipient whether the message was delivered, and whether it was displayed.
    fn delivery_status(&self, id: ObjectId) -> Vec<(DeliveryState, bool)> {
        let status = |to: SubmissionRecipient| (to.status.delivered, to.status.displayed);
        self.submission(id).rcpt_to.into_iter().map(status).collect()
    }

    /// Delivers a report to Ann, and returns the reply of the server.
    fn send_report(&self, text: &str) -> String {
        self.clock.advance(Duration::from_secs(1));
        self.send("", &["ann@example.org"], text).remove(0)
    }

    fn newest(&self) -> EmailId {
        self.store.snapshot().emails(self.ann, None, 1).unwrap()[0].0
    }
}

/// Returns a report with the fields of its machine-readable part, and `original` as its last part.
fn report(kind: &str, fields: &str, original: &str) -> String {
    format!(
        "From: mx@example.net\nTo: ann@example.org\nSubject: report\n\
         Content-Type: multipart/report; report-type={kind}; boundary=b\n\n\
         --b\n\nread this\n--b\nContent-Type: message/{kind}\n\n{fields}\n--b\n{original}--b--\n"
    )
}

const HEADERS: &str = "Content-Type: text/rfc822-headers\n\nMessage-ID: <s1@example.org>\n\n";

#[test]
fn submission_shows_what_reports_say() {
    let fixture = fixture();
    let id = fixture.create_sent_submission(&["bob@example.net", "cy@example.net"]);
    let unknown = (DeliveryState::Unknown, false);
    assert_eq!(fixture.delivery_status(id), [unknown, unknown]);
    let changes = Arc::new(Mutex::new(Vec::new()));
    let listener_changes = Arc::clone(&changes);
    fixture.store.on_change(move |change: &Change| {
        listener_changes.lock().extend(
            change
                .types
                .iter()
                .map(|(data, _)| *data)
                .filter(|data| *data == DataType::EmailSubmission),
        );
    });
    // RFC 3464 §2.3.3: every report is listed, but only "failed" and "delivered" change the status.
    let dsn = |to: &str, action: &str, status: &str| {
        let fields = format!(
            "Reporting-MTA: dns; mx\n\n\
             Final-Recipient: rfc822; {to}\nAction: {action}\nStatus: {status}\n"
        );
        fixture.send_report(&report("delivery-status", &fields, HEADERS))
    };
    assert!(dsn("bob@example.net", "delayed", "4.4.1").starts_with("250 filed as"));
    assert_eq!(
        (fixture.delivery_status(id), fixture.submission(id).dsn.as_slice()),
        (vec![unknown, unknown], [fixture.newest()].as_slice())
    );
    dsn("BOB@example.net", "failed", "5.1.1");
    dsn("cy@example.net", "delivered", "2.0.0");
    assert_eq!(
        fixture.delivery_status(id),
        [(DeliveryState::No, false), (DeliveryState::Yes, false)]
    );
    assert_eq!(fixture.submission(id).rcpt_to[0].status.smtp_reply, "550 5.1.1 failed");
    let mdn = |id: &str, what: &str| {
        let fields = format!(
            "Final-Recipient: rfc822; cy@example.net\nOriginal-Message-ID: <{id}>\n\
             Disposition: manual-action/MDN-sent-manually; {what}\n"
        );
        fixture.send_report(&report("disposition-notification", &fields, ""))
    };
    mdn("s1@example.org", "deleted");
    assert_eq!(fixture.delivery_status(id)[1], (DeliveryState::Yes, false));
    mdn("s1@example.org", "displayed");
    assert_eq!(fixture.delivery_status(id)[1], (DeliveryState::Yes, true));
    let updated = fixture.submission(id);
    assert_eq!((updated.dsn.len(), updated.mdn.len(), updated.mdn[1]), (3, 2, fixture.newest()));
    assert!(updated.mdn[0].received_at() < updated.mdn[1].received_at(), "the oldest first");
    assert_eq!(changes.lock().len(), 5, "a change for each report is pushed");

    // Reports that change nothing: on another message, on another recipient, on no recipient.
    mdn("s2@example.org", "displayed");
    dsn("eve@example.net", "failed", "5.0.0");
    fixture.send_report(&report("delivery-status", "Action: failed\n", HEADERS));
    assert_eq!(fixture.submission(id), updated);
    // What becomes of the action afterwards does not change the status back.
    let action = updated.action.unwrap();
    fixture.commit(|txn| {
        let action = txn.action(action)?;
        txn.update_action(
            &action,
            &Action { state: crate::model::ActionState::Sent, ..action.clone() },
        )
    });
    fixture.commit(|txn| txn.remove_action(action));
    assert_eq!(
        fixture.delivery_status(id),
        [(DeliveryState::No, false), (DeliveryState::Yes, true)]
    );
    // After the submission is destroyed, reports are mail like any other.
    fixture.commit(|txn| txn.destroy_object::<EmailSubmission>(id));
    assert!(dsn("cy@example.net", "failed", "5.2.2").starts_with("250 filed as"));
    fixture.assert_clean();
}

/// A report that returns nothing of the message names it by its envelope id (RFC 3461 §4.4).
#[test]
fn own_reports_and_reports_with_only_an_envelope_id_are_understood() {
    let fixture = fixture();
    let id = fixture.create_sent_submission(&["bob@example.net"]);
    let fields = "Original-Envelope-Id: s1@example.org\n\n\
                  Original-Recipient: rfc822;bob@example.net\n\
                  Final-Recipient: rfc822; robert@inside.example.net\n\
                  Action: delivered\nStatus: 2.0.0\n";
    fixture.send_report(&report("delivery-status", fields, ""));
    assert_eq!(fixture.delivery_status(id), [(DeliveryState::Yes, false)]);
    let failed =
        RecipientState::Failed { status: [5, 1, 1], text: "550 5.1.1 no such user".into() };
    let bob = Target { state: failed, ..Target::plain(Address::parse("bob@example.net").unwrap()) };
    let action = fixture
        .store
        .snapshot()
        .action(fixture.ann, fixture.submission(id).action.unwrap())
        .unwrap()
        .unwrap();
    let reporter = Reporter {
        hostname: "mx.example.org",
        message_id: "d1@mx.example.org",
        now: fixture.clock.now(),
    };
    let own_report = dsn::compose_failed(&action, &[bob], SENT, &reporter).unwrap();
    let text = String::from_utf8(own_report.bytes).unwrap().replace("\r\n", "\n");
    fixture.send_report(&text);
    assert_eq!(fixture.delivery_status(id), [(DeliveryState::No, false)]);
    assert_eq!(fixture.submission(id).rcpt_to[0].status.smtp_reply, "550 5.1.1 no such user");
    assert_eq!(fixture.submission(id).dsn.len(), 2);
    fixture.assert_clean();
}

#[test]
fn report_that_a_script_discards_still_updates_its_submission() {
    let fixture = fixture();
    fixture.activate("discard;");
    let id = fixture.create_sent_submission(&["bob@example.net"]);
    let fields = "Reporting-MTA: dns; mx\n\n\
                  Final-Recipient: rfc822; bob@example.net\nAction: failed\nStatus: 5.1.1\n";
    let reply = fixture.send_report(&report("delivery-status", fields, HEADERS));
    assert_eq!(reply, "250 delivered");
    assert_eq!(fixture.delivery_status(id), [(DeliveryState::No, false)]);
    assert!(fixture.submission(id).dsn.is_empty());
    fixture.assert_clean();
}

#[test]
fn report_about_many_recipients_with_long_replies_is_delivered() {
    let fixture = fixture();
    let to: Vec<String> =
        (0..limits::MAX_RECIPIENTS).map(|n| format!("customer.{n:04}@example.net")).collect();
    let id = fixture.create_sent_submission(&to.iter().map(String::as_str).collect::<Vec<_>>());
    for some in to.chunks(400) {
        let mut fields = "Reporting-MTA: dns; mx\n".to_owned();
        for to in some {
            let reply = format!("550 5.1.1 {}", "x".repeat(900));
            fields.push_str(&format!(
                "\nFinal-Recipient: rfc822; {to}\nAction: failed\nStatus: 5.1.1\n\
                 Diagnostic-Code: smtp; {reply}\n"
            ));
        }
        let reply = fixture.send_report(&report("delivery-status", &fields, HEADERS));
        assert!(reply.starts_with("250 filed as"), "{reply}");
    }
    assert!(fixture.delivery_status(id).iter().all(|status| *status == (DeliveryState::No, false)));
    assert_eq!(fixture.submission(id).dsn.len(), 3);
    fixture.assert_clean();
}
