//! What the vacation leaves in the store: copies of replies, who counts as known, days that come
//! again, reports on return.

use super::*;
use crate::message::{header, rows};
use crate::model::{Audience, EmailId, EmailMetadata, OriginalRecipient, keyword};

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Fixture {
    fn respond(&self, edit: impl Fn(&mut VacationResponse)) {
        let done = self.store.commit(self.ann, |txn| {
            let mut response = txn.snapshot().vacation(self.ann)?;
            edit(&mut response);
            txn.set_vacation(&response)
        });
        done.unwrap().1.wait_blocking().unwrap();
    }

    /// A message that Ann wrote herself, filed in that mailbox.
    fn wrote(&self, mailbox: &str, to: &str, id: &str, keywords: &[&str]) {
        let raw = format!(
            "From: ann@example.org\r\nTo: {to}\r\nSubject: x\r\nMessage-ID: <{id}>\r\n\r\nhi\r\n"
        );
        let encoded = EncodedMessage::new(&rows(raw.as_bytes(), self.store.secrets()));
        let (uid, _) = self.store.snapshot().find_mailbox(self.ann, mailbox).unwrap().unwrap();
        let (made, ticket) =
            self.store.commit_message(&[self.ann], &encoded, raw.as_bytes(), |txn| {
                let keywords = keywords.iter().map(|word| (*word).to_owned()).collect();
                let (mailboxes, received_at) = ([uid].into(), txn.now());
                txn.create_email(&NewEmail {
                    message: &encoded,
                    prefix: b"",
                    mailboxes,
                    keywords,
                    received_at,
                })
            });
        made.into_iter().next().unwrap().1.unwrap();
        ticket.wait_blocking().unwrap();
    }

    fn in_mailbox(&self, name: &str) -> Vec<(EmailId, EmailMetadata)> {
        let snapshot = self.store.snapshot();
        let (uid, _) = snapshot.find_mailbox(self.ann, name).unwrap().unwrap();
        let all = snapshot.emails(self.ann, None, 999).unwrap();
        all.into_iter().filter(|(_, email)| email.mailboxes.contains(&uid)).collect()
    }

    fn subject(&self, id: EmailId) -> String {
        self.store.snapshot().content(self.ann, id).unwrap().unwrap().1.subject.unwrap_or_default()
    }

    fn ask(&self, sender: &str, n: u32) -> String {
        // So that the newest decision is this one.
        self.clock.advance(Duration::from_millis(1));
        let message = format!(
            "From: {sender}\nTo: ann@example.org\nSubject: Hello\nMessage-ID: <{n}@example.net>\n\nHi\n"
        );
        assert!(self.send(sender, &["ann@example.org"], &message)[0].starts_with("250"));
        self.last_reason()
    }

    fn deeply_clean(&self) {
        let remake = |raw: &[u8]| crate::message::rows_or_bare(raw, self.store.secrets());
        assert_eq!(self.store.check_deep(Some(&remake), &mut |_| true).unwrap().breaches, []);
    }
}

#[test]
fn a_copy_of_each_reply_is_filed_in_sent_beside_what_it_answers() {
    let bed = bed();
    bed.respond(|response| {
        (response.enabled, response.copies, response.subject) = (true, true, Some("Away".into()))
    });
    assert_eq!(bed.ask("bob@example.net", 1), "answered");
    let (copy, about) = bed.in_mailbox("Sent").pop().unwrap();
    let (_, original) = bed.in_mailbox("Inbox").pop().unwrap();
    assert_eq!(about.thread, original.thread, "whatever its subject");
    assert!(about.has(keyword::SEEN) && bed.subject(copy) == "Away");
    let queued = bed.store.snapshot().outbox(bed.ann).unwrap().pop().unwrap();
    assert_eq!(bed.store.snapshot().message(bed.ann, copy).unwrap().unwrap(), bed.sent(&queued));
    assert_eq!(bed.ask("bob@example.net", 2), "already-told");
    assert_eq!(bed.in_mailbox("Sent").len(), 1);
    bed.deeply_clean();
    // Without room for it, or without a mailbox for it, the reply goes out all the same.
    bed.directory.update(bed.ann, |row| row.quota_emails = Some(4)).unwrap();
    assert_eq!(bed.ask("eve@example.net", 3), "answered");
    assert_eq!(
        (bed.in_mailbox("Sent").len(), bed.store.snapshot().outbox(bed.ann).unwrap().len()),
        (1, 2)
    );
    bed.directory.update(bed.ann, |row| row.quota_emails = None).unwrap();
    let (sent, _) = bed.store.snapshot().find_mailbox(bed.ann, "Sent").unwrap().unwrap();
    let gone = bed.store.commit(bed.ann, |txn| {
        txn.empty_mailbox(sent, 99)?;
        txn.destroy_mailbox(sent)
    });
    gone.unwrap().1.wait_blocking().unwrap();
    assert_eq!(bed.ask("zoe@example.net", 4), "answered");
    bed.deeply_clean();
}

#[test]
fn a_scripts_copy_goes_where_it_says() {
    use crate::vacation::{Fcc, VacationReply};
    let bed = bed();
    let raw = b"Subject: Away\r\nMessage-ID: <r@example.org>\r\n\r\nAway\r\n".to_vec();
    let (recipient, message_id) =
        (Address::from_parts("bob", "example.net"), "r@example.org".to_owned());
    let reply =
        VacationReply { recipient, message_id, message: raw.clone(), fcc: None, until: None };
    let encoded = EncodedMessage::new(&rows(&raw, bed.store.secrets()));
    let file = |mailbox: &str, special_use: Option<&str>, create| {
        let (mailbox, special_use) = (mailbox.to_owned(), special_use.map(str::to_owned));
        let fcc =
            Fcc { mailbox, special_use, create, keywords: vec!["$Seen".into(), "a b".into()] };
        let done = bed.store.commit(bed.ann, |txn| copy::file(txn, &reply, &fcc, &encoded));
        done.unwrap().1.wait_blocking().unwrap();
        let (_, newest) = bed.store.snapshot().emails(bed.ann, None, 1).unwrap().pop().unwrap();
        assert_eq!(newest.keywords.iter().map(String::as_str).collect::<Vec<_>>(), [keyword::SEEN]);
        let names = bed.store.snapshot().mailboxes(bed.ann).unwrap();
        let uid = *newest.mailboxes.iter().next().unwrap();
        bed.clock.advance(Duration::from_millis(1));
        names.into_iter().find(|(known, _)| *known == uid).unwrap().1.name
    };
    assert_eq!(file("Drafts", None, false), "Drafts");
    assert_eq!(file("Drafts", Some("\\Archive"), false), "Archive");
    assert_eq!(file("Answers", Some("\\Important"), false), "Sent", "gone, and not to be made");
    assert_eq!(file("Work/Answers", None, true), "Answers");
    assert_eq!(file("work/answers", None, false), "Answers");
    assert_eq!(file("Work//x", None, true), "Sent", "no name is none");
    assert!(bed.store.snapshot().find_mailbox(bed.ann, "Work/Answers").unwrap().is_some());
    bed.deeply_clean();
}

#[test]
fn known_is_whom_the_owner_has_written_to() {
    let bed = bed();
    bed.respond(|response| (response.enabled, response.audience) = (true, Audience::Known));
    assert_eq!(bed.ask("bob@example.net", 1), "not-in-audience");
    // What others write makes nobody known, whoever they say that they are; nor do drafts.
    bed.send(
        "eve@example.net",
        &["ann@example.org"],
        "From: ann@example.org\nTo: eve@example.net\n\nx\n",
    );
    bed.wrote("Drafts", "zoe@example.net", "d@example.org", &[keyword::DRAFT]);
    assert_eq!(bed.ask("eve@example.net", 2), "not-in-audience");
    assert_eq!(bed.ask("zoe@example.net", 3), "not-in-audience");
    bed.wrote("Sent", "Bob <BOB@Example.net>", "s@example.org", &[]);
    bed.wrote("Archive", "max@example.net", "a@example.org", &[]);
    assert_eq!(
        bed.ask("max@example.net", 4),
        "answered",
        "from an address of hers, wherever it lies"
    );
    assert_eq!(bed.ask("prvs=0123456789=bob@example.net", 5), "answered");
    assert_eq!(bed.ask("bob@example.net", 6), "already-told");
    // Whoever sends writes what stands within a tag of another domain.
    assert_eq!(bed.ask("SRS0=ab12=XY=example.net=bob@attacker.example", 10), "not-in-audience");
    assert_eq!(bed.ask("SRS0=ab12=XY=example.net=zoe@example.net", 11), "not-in-audience");
    // The copy of a reply makes nobody known.
    bed.respond(|response| (response.audience, response.copies) = (Audience::Everyone, true));
    assert_eq!(bed.ask("new@example.net", 7), "answered");
    bed.respond(|response| {
        (response.audience, response.text_body) = (Audience::Known, Some("Still away".into()));
    });
    assert_eq!(bed.ask("new@example.net", 8), "not-in-audience");
    assert_eq!(bed.ask("bob@example.net", 9), "answered");
    bed.clean();
}

#[test]
fn on_days_that_come_again_everybody_is_told_once_each_time() {
    let bed = bed();
    // It is Saturday, 09:00 in UTC.
    bed.directory.update(bed.ann, |row| row.zone = Some("UTC".into())).unwrap();
    bed.respond(|response| {
        (response.enabled, response.days) =
            (true, vec!["sat".parse().unwrap(), "sun".parse().unwrap()]);
    });
    assert_eq!(bed.ask("bob@example.net", 1), "answered");
    bed.clock.advance(DAY);
    assert_eq!(bed.ask("bob@example.net", 2), "already-told");
    bed.clock.advance(DAY);
    assert_eq!(bed.ask("bob@example.net", 3), "outside-window");
    bed.clock.advance(5 * DAY);
    assert_eq!(bed.ask("bob@example.net", 4), "answered");
    assert_eq!(bed.ask("bob@example.net", 5), "already-told");
    bed.clean();
}

#[test]
fn the_address_that_the_sender_knew_is_the_replys_from_only_if_it_is_ours() {
    let bed = bed();
    bed.respond(|response| {
        (response.enabled, response.addresses) =
            (true, vec![Address::parse("team@example.net").unwrap()]);
    });
    bed.directory.add_catch_all(bed.ann, "shop.example").unwrap();
    for (n, original, from) in [
        (1, "old@shop.example", "<old@shop.example>"),
        (2, "boss@example.net", "<ann@example.org>"),
        (3, "no address", "<ann@example.org>"),
    ] {
        let sender = Address::from_parts(format!("bob{n}"), "example.net");
        let mut envelope =
            Envelope { sender: Some(sender), lhlo: "mx".into(), ..Envelope::default() };
        let original = OriginalRecipient { kind: "rfc822".into(), address: original.into() };
        let recipient = Recipient {
            original: Some(original),
            ..Recipient::plain(Address::parse("ann@example.org").unwrap())
        };
        let mut session = DeliveryTransaction::default();
        assert!(bed.deliver.admit(&mut session, &envelope, &recipient).is_positive());
        envelope.recipients.push(recipient);
        let body = format!("To: team@example.net\r\nSubject: {n}\r\n\r\nx\r\n").into_bytes();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(Arc::clone(&bed.deliver).deliver(
            session,
            envelope,
            IncomingMessage::new(body),
        ));
        let reply = bed.sent(&bed.store.snapshot().outbox(bed.ann).unwrap().pop().unwrap());
        assert!(header::first(&reply, "From").unwrap().unfolded().ends_with(from), "{from}");
    }
}

#[test]
fn a_report_is_filed_once_when_the_response_is_over() {
    let bed = bed();
    let reports = || {
        let inbox = bed.in_mailbox("Inbox").into_iter();
        inbox
            .map(|(id, _)| bed.subject(id))
            .filter(|subject| subject.starts_with("While"))
            .collect::<Vec<_>>()
    };
    let end = bed.clock.now().after(2 * DAY);
    bed.respond(|response| {
        (response.enabled, response.report, response.to_date) = (true, true, Some(end))
    });
    bed.clock.advance(Duration::from_secs(60));
    bed.ask("bob@example.net", 1);
    bed.ask("bob@example.net", 2);
    bed.send("", &["ann@example.org"], "To: ann@example.org\nSubject: bounce\n\nx\n");
    assert_eq!(bed.deliver.file_reports(), Ok(Some(end)));
    assert!(reports().is_empty());
    // A correction of the text is the same absence.
    bed.respond(|response| response.text_body = Some("Back on Monday".into()));
    bed.clock.set(end);
    assert_eq!(bed.deliver.file_reports(), Ok(None));
    assert_eq!(reports(), ["While you were away: 3 messages, 1 person wrote"]);
    assert_eq!(bed.deliver.file_reports(), Ok(None));
    // Neither a re-save nor switching it off after its end makes another.
    bed.respond(|response| response.enabled = true);
    bed.respond(|response| response.enabled = false);
    assert_eq!(bed.deliver.file_reports(), Ok(None));
    assert_eq!(reports().len(), 1);
    bed.deeply_clean();
    // The next absence has its own, by the owner's hand; one without it has none.
    bed.respond(|response| (response.enabled, response.to_date) = (true, None));
    bed.clock.advance(DAY);
    bed.ask("zoe@example.net", 9);
    bed.clock.advance(DAY);
    bed.respond(|response| response.enabled = false);
    bed.clock.advance(Duration::from_secs(1));
    assert_eq!(bed.deliver.file_reports(), Ok(None));
    assert_eq!(reports().len(), 2);
    assert!(
        reports().contains(&"While you were away: 1 message, 1 person wrote".to_owned()),
        "{:?}",
        reports()
    );
    bed.respond(|response| (response.enabled, response.report) = (true, false));
    bed.clock.advance(DAY);
    bed.respond(|response| response.enabled = false);
    bed.clock.advance(DAY);
    assert_eq!(bed.deliver.file_reports(), Ok(None));
    assert_eq!(reports().len(), 2);
    bed.deeply_clean();
}
