//! Reports that come back reach the submission that they are about (RFC 8621 §7).

use super::*;
use crate::model::{
    Action, BlobHash, Change, DataType, DeliveryState, EmailId, EmailSubmission, EnvelopeAddress,
    ObjectId, RecipientState, SubmissionRecipient, Target, limits,
};
use crate::outbox::submission::order;
use crate::outbox::{NewAction, Reporter, dsn};

const SENT: &[u8] =
    b"From: ann@example.org\r\nMessage-ID: <s1@example.org>\r\nSubject: lunch\r\n\r\nAt noon?\r\n";

impl Fixture {
    /// Ann sends this to these, and the relay has it.
    fn submitted(&self, to: &[&str]) -> ObjectId {
        let path = |email: &str| EnvelopeAddress { email: email.into(), parameters: None };
        let (from, rcpt_to) =
            (path("ann@example.org"), to.iter().map(|to| path(to)).collect::<Vec<_>>());
        let now = self.clock.now();
        let order =
            order(&from, &rcpt_to, now, limits::MAX_RECIPIENTS, limits::MAX_DELAYED_SEND).unwrap();
        let hash = BlobHash(*blake3::hash(SENT).as_bytes());
        let NewAction { action, octets } =
            order.queue(Default::default(), hash, "s1@example.org".into(), now);
        assert_eq!(action.envid.as_deref(), Some("s1@example.org"));
        let rcpt_to = rcpt_to
            .into_iter()
            .map(|path| SubmissionRecipient { path, ..SubmissionRecipient::default() });
        let (message_id, rcpt_to) = ("s1@example.org".to_owned(), rcpt_to.collect());
        let submission =
            EmailSubmission { mail_from: from, rcpt_to, message_id, ..EmailSubmission::default() };
        self.done(|txn| {
            let (id, action) =
                txn.submit(&submission, action.clone(), &octets, Some((&hash, SENT)))?;
            let read = txn.action(action)?;
            let mut action = read.clone();
            for target in &mut action.recipients {
                target.state = RecipientState::Sent("250 2.0.0 queued as 4X".into());
            }
            txn.update_action(&read, &action)?;
            Ok(id)
        })
    }

    fn done<T>(&self, change: impl FnMut(&mut store::Txn<'_>) -> Result<T, Error>) -> T {
        let (made, ticket) = self.store.commit(self.ann, change).unwrap();
        ticket.wait_blocking().unwrap();
        made
    }

    fn submission(&self, id: ObjectId) -> EmailSubmission {
        self.store.snapshot().object(self.ann, id).unwrap().unwrap()
    }

    fn said(&self, id: ObjectId) -> Vec<(DeliveryState, bool)> {
        let status = |to: SubmissionRecipient| (to.status.delivered, to.status.displayed);
        self.submission(id).rcpt_to.into_iter().map(status).collect()
    }

    /// A report comes, a while after the last one.
    fn report(&self, text: &str) -> String {
        self.clock.advance(Duration::from_secs(1));
        self.send("", &["ann@example.org"], text).remove(0)
    }

    fn newest(&self) -> EmailId {
        self.store.snapshot().emails(self.ann, None, 1).unwrap()[0].0
    }
}

/// A report about that message, as another site writes it.
fn report(kind: &str, fields: &str, original: &str) -> String {
    format!(
        "From: mx@example.net\nTo: ann@example.org\nSubject: report\n\
         Content-Type: multipart/report; report-type={kind}; boundary=b\n\n\
         --b\n\nread this\n--b\nContent-Type: message/{kind}\n\n{fields}\n--b\n{original}--b--\n"
    )
}

const HEADERS: &str = "Content-Type: text/rfc822-headers\n\nMessage-ID: <s1@example.org>\n\n";

#[test]
fn what_comes_back_is_told_by_the_submission() {
    let bed = bed();
    let id = bed.submitted(&["bob@example.net", "cy@example.net"]);
    let unknown = (DeliveryState::Unknown, false);
    assert_eq!(bed.said(id), [unknown, unknown]);
    let moved = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&moved);
    bed.store.on_change(move |change: &Change| {
        seen.lock().extend(
            change
                .types
                .iter()
                .map(|(data, _)| *data)
                .filter(|data| *data == DataType::EmailSubmission),
        );
    });
    // RFC 3464 §2.3.3: delayed says nothing, failed and delivered do.
    let dsn = |to: &str, action: &str, status: &str| {
        let fields = format!(
            "Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; {to}\nAction: {action}\nStatus: {status}\n"
        );
        bed.report(&report("delivery-status", &fields, HEADERS))
    };
    assert!(dsn("bob@example.net", "delayed", "4.4.1").starts_with("250 filed as"));
    assert_eq!(
        (bed.said(id), bed.submission(id).dsn.as_slice()),
        (vec![unknown, unknown], [bed.newest()].as_slice())
    );
    dsn("BOB@example.net", "failed", "5.1.1");
    dsn("cy@example.net", "delivered", "2.0.0");
    assert_eq!(bed.said(id), [(DeliveryState::No, false), (DeliveryState::Yes, false)]);
    assert_eq!(bed.submission(id).rcpt_to[0].status.smtp_reply, "550 5.1.1 failed");
    let mdn = |id: &str, what: &str| {
        let fields = format!(
            "Final-Recipient: rfc822; cy@example.net\nOriginal-Message-ID: <{id}>\n\
             Disposition: manual-action/MDN-sent-manually; {what}\n"
        );
        bed.report(&report("disposition-notification", &fields, ""))
    };
    mdn("s1@example.org", "deleted");
    assert_eq!(bed.said(id)[1], (DeliveryState::Yes, false));
    mdn("s1@example.org", "displayed");
    assert_eq!(bed.said(id)[1], (DeliveryState::Yes, true));
    let now = bed.submission(id);
    assert_eq!((now.dsn.len(), now.mdn.len(), now.mdn[1]), (3, 2, bed.newest()));
    assert!(now.mdn[0].received_at() < now.mdn[1].received_at(), "the oldest first");
    assert_eq!(moved.lock().len(), 5, "each is a change that is pushed");

    // Of another message, of nobody whom it went to, and no report at all.
    mdn("s2@example.org", "displayed");
    dsn("eve@example.net", "failed", "5.0.0");
    bed.report(&report("delivery-status", "Action: failed\n", HEADERS));
    assert_eq!(bed.submission(id), now);
    // What becomes of the action afterwards takes nothing of it back.
    let action = now.action.unwrap();
    bed.done(|txn| {
        let action = txn.action(action)?;
        txn.update_action(
            &action,
            &Action { state: crate::model::ActionState::Sent, ..action.clone() },
        )
    });
    bed.done(|txn| txn.remove_action(action));
    assert_eq!(bed.said(id), [(DeliveryState::No, false), (DeliveryState::Yes, true)]);
    // It was destroyed: reports are mail like any other.
    bed.done(|txn| txn.destroy_object::<EmailSubmission>(id));
    assert!(dsn("cy@example.net", "failed", "5.2.2").starts_with("250 filed as"));
    bed.clean();
}

/// A report that brings nothing of the message back names it by the envelope id that we gave it
/// (RFC 3461 §4.4).
#[test]
fn our_own_reports_are_understood_and_the_envelope_id_is_enough() {
    let bed = bed();
    let id = bed.submitted(&["bob@example.net"]);
    let fields = "Original-Envelope-Id: s1@example.org\n\nOriginal-Recipient: rfc822;bob@example.net\n\
                  Final-Recipient: rfc822; robert@inside.example.net\nAction: delivered\nStatus: 2.0.0\n";
    bed.report(&report("delivery-status", fields, ""));
    assert_eq!(bed.said(id), [(DeliveryState::Yes, false)]);
    let failed =
        RecipientState::Failed { status: [5, 1, 1], text: "550 5.1.1 no such user".into() };
    let bob = Target { state: failed, ..Target::plain(Address::parse("bob@example.net").unwrap()) };
    let action =
        bed.store.snapshot().action(bed.ann, bed.submission(id).action.unwrap()).unwrap().unwrap();
    let reporter = Reporter {
        hostname: "mx.example.org",
        message_id: "d1@mx.example.org",
        now: bed.clock.now(),
    };
    let told = dsn::compose_failed(&action, &[bob], SENT, &reporter).unwrap();
    let text = String::from_utf8(told.octets).unwrap().replace("\r\n", "\n");
    bed.report(&text);
    assert_eq!(bed.said(id), [(DeliveryState::No, false)]);
    assert_eq!(bed.submission(id).rcpt_to[0].status.smtp_reply, "550 5.1.1 no such user");
    assert_eq!(bed.submission(id).dsn.len(), 2);
    bed.clean();
}
