//! Tests of what the vacation responder reads and writes in the store: copies of replies, known
//! correspondents, recurring days, own addresses, absence reports, a damaged response.

use super::*;
use crate::message::{header, rows};
use crate::model::{Audience, EmailId, EmailMetadata, OriginalRecipient, keyword};

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Fixture {
    /// Changes Ann's response. Some changes, as of its text, begin another generation: senders are
    /// answered anew.
    fn edit_response(&self, edit: impl Fn(&mut VacationResponse)) {
        let committed = self.store.commit(self.ann, |txn| {
            let mut response = txn.snapshot().vacation(self.ann)?;
            edit(&mut response);
            txn.set_vacation(&response)
        });
        committed.unwrap().1.wait_blocking().unwrap();
    }

    /// Files a message from Ann in a mailbox.
    fn file_own_message(&self, mailbox: &str, to: &str, id: &str, keywords: &[&str]) {
        let raw = format!(
            "From: ann@example.org\r\nTo: {to}\r\nSubject: x\r\nMessage-ID: <{id}>\r\n\r\nhi\r\n"
        );
        let encoded = EncodedMessage::new(&rows(raw.as_bytes(), self.store.secrets()));
        let (uid, _) = self.store.snapshot().find_mailbox(self.ann, mailbox).unwrap().unwrap();
        let (created, ticket) =
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
        created.into_iter().next().unwrap().1.unwrap();
        ticket.wait_blocking().unwrap();
    }

    fn emails_in(&self, name: &str) -> Vec<(EmailId, EmailMetadata)> {
        let snapshot = self.store.snapshot();
        let (uid, _) = snapshot.find_mailbox(self.ann, name).unwrap().unwrap();
        let emails = snapshot.emails(self.ann, None, 999).unwrap();
        emails.into_iter().filter(|(_, email)| email.mailboxes.contains(&uid)).collect()
    }

    fn subject(&self, id: EmailId) -> String {
        self.store.snapshot().content(self.ann, id).unwrap().unwrap().1.subject.unwrap_or_default()
    }

    /// Delivers message `n` of a sender, and returns why it is not answered, or `answered`.
    fn decide(&self, sender: &str, n: u32) -> String {
        // So that the decision is newer than the last one.
        self.clock.advance(Duration::from_millis(1));
        let message = format!(
            "From: {sender}\nTo: ann@example.org\nSubject: Hello\n\
                 Message-ID: <{n}@example.net>\n\nHi\n"
        );
        assert!(self.send(sender, &["ann@example.org"], &message)[0].starts_with("250"));
        self.last_reason()
    }

    fn assert_deeply_clean(&self) {
        let make_rows = |raw: &[u8]| crate::message::rows_of_any(raw, self.store.secrets());
        assert_eq!(self.store.check_deep(Some(&make_rows), &mut |_| true).unwrap().breaches, []);
    }
}

#[test]
fn copy_of_each_reply_is_filed_in_sent_in_the_thread_of_the_original() {
    let fixture = fixture();
    fixture.edit_response(|response| {
        (response.enabled, response.copies, response.subject) = (true, true, Some("Away".into()));
    });
    assert_eq!(fixture.decide("bob@example.net", 1), "answered");
    let (copy, metadata) = fixture.emails_in("Sent").pop().unwrap();
    let (_, original) = fixture.emails_in("Inbox").pop().unwrap();
    assert_eq!(metadata.thread, original.thread, "whatever its subject");
    assert!(metadata.has(keyword::SEEN) && fixture.subject(copy) == "Away");
    let queued = fixture.store.snapshot().outbox(fixture.ann).unwrap().pop().unwrap();
    assert_eq!(
        fixture.store.snapshot().message(fixture.ann, copy).unwrap().unwrap(),
        fixture.action_message(&queued)
    );
    assert_eq!(fixture.decide("bob@example.net", 2), "already-told");
    assert_eq!(fixture.emails_in("Sent").len(), 1);
    fixture.assert_deeply_clean();
    // Of 4 emails, 2 messages and a copy are there: there is room for a message, not for a copy.
    fixture.directory.update(fixture.ann, |row| row.quota_emails = Some(4)).unwrap();
    assert_eq!(fixture.decide("eve@example.net", 3), "answered");
    assert_eq!(
        (
            fixture.emails_in("Sent").len(),
            fixture.store.snapshot().outbox(fixture.ann).unwrap().len()
        ),
        (1, 2)
    );
    // Nor is a copy filed if there is no Sent.
    fixture.directory.update(fixture.ann, |row| row.quota_emails = None).unwrap();
    let (sent, _) = fixture.store.snapshot().find_mailbox(fixture.ann, "Sent").unwrap().unwrap();
    let committed = fixture.store.commit(fixture.ann, |txn| {
        txn.empty_mailbox(sent, 99)?;
        txn.destroy_mailbox(sent)
    });
    committed.unwrap().1.wait_blocking().unwrap();
    assert_eq!(fixture.decide("zoe@example.net", 4), "answered");
    assert_eq!(fixture.store.snapshot().emails(fixture.ann, None, 99).unwrap().len(), 4);
    fixture.assert_deeply_clean();
}

#[test]
fn copy_of_a_reply_goes_to_the_mailbox_that_the_script_names() {
    use crate::vacation::Fcc;
    let fixture = fixture();
    let raw = b"Subject: Away\r\nMessage-ID: <r@example.org>\r\n\r\nAway\r\n".to_vec();
    let encoded = EncodedMessage::new(&rows(&raw, fixture.store.secrets()));
    // Files a copy, and returns the name of the mailbox in which it is.
    let file = |mailbox: &str, special_use: Option<&str>, create| {
        let (mailbox, special_use) = (mailbox.to_owned(), special_use.map(str::to_owned));
        let fcc =
            Fcc { mailbox, special_use, create, keywords: vec!["$Seen".into(), "a b".into()] };
        let committed =
            fixture.store.commit(fixture.ann, |txn| copy::file_copy(txn, &raw, &fcc, &encoded));
        committed.unwrap().1.wait_blocking().unwrap();
        let (_, newest) =
            fixture.store.snapshot().emails(fixture.ann, None, 1).unwrap().pop().unwrap();
        // `a b` is no keyword.
        assert_eq!(newest.keywords.iter().map(String::as_str).collect::<Vec<_>>(), [keyword::SEEN]);
        let mailboxes = fixture.store.snapshot().mailboxes(fixture.ann).unwrap();
        let uid = *newest.mailboxes.iter().next().unwrap();
        fixture.clock.advance(Duration::from_millis(1));
        mailboxes.into_iter().find(|(other, _)| *other == uid).unwrap().1.name
    };
    assert_eq!(file("Drafts", None, false), "Drafts");
    assert_eq!(file("Drafts", Some("\\Archive"), false), "Archive");
    assert_eq!(file("Answers", Some("\\Important"), false), "Sent", "missing, and not created");
    assert_eq!(file("Work/Answers", None, true), "Answers");
    assert_eq!(file("work/answers", None, false), "Answers", "in any case of letters");
    assert_eq!(file("Work//x", None, true), "Sent", "a mailbox cannot have an empty name");
    assert!(fixture.store.snapshot().find_mailbox(fixture.ann, "Work/Answers").unwrap().is_some());
    // RFC 8579 §4.1: a mailbox that is created gets the special use.
    assert_eq!(file("Starred", Some("\\Flagged"), true), "Starred");
    let starred = fixture.store.snapshot().find_mailbox(fixture.ann, "Starred").unwrap().unwrap().1;
    assert_eq!(starred.role, Some(crate::model::Role::Flagged));
    fixture.assert_deeply_clean();
}

#[test]
fn known_correspondents_are_those_whom_the_owner_has_written_to() {
    let fixture = fixture();
    fixture
        .edit_response(|response| (response.enabled, response.audience) = (true, Audience::Known));
    assert_eq!(fixture.decide("bob@example.net", 1), "not-in-audience");
    // Mail of others makes nobody known, even if it claims to be from the owner; nor do drafts.
    fixture.send(
        "eve@example.net",
        &["ann@example.org"],
        "From: ann@example.org\nTo: eve@example.net\n\nx\n",
    );
    fixture.file_own_message("Drafts", "zoe@example.net", "d@example.org", &[keyword::DRAFT]);
    assert_eq!(fixture.decide("eve@example.net", 2), "not-in-audience");
    assert_eq!(fixture.decide("zoe@example.net", 3), "not-in-audience");
    fixture.file_own_message("Sent", "Bob <BOB@Example.net>", "s@example.org", &[]);
    fixture.file_own_message("Archive", "max@example.net", "a@example.org", &[]);
    assert_eq!(
        fixture.decide("max@example.net", 4),
        "answered",
        "a message from an own address counts in any mailbox"
    );
    assert_eq!(fixture.decide("prvs=0123456789=bob@example.net", 5), "answered");
    assert_eq!(fixture.decide("bob@example.net", 6), "already-told");
    // That another domain has rewritten an address of Bob's (SRS) is only the sender's claim.
    assert_eq!(
        fixture.decide("SRS0=ab12=XY=example.net=bob@attacker.example", 10),
        "not-in-audience"
    );
    // An address that its own domain has rewritten counts, but the owner has not written to Zoe:
    // the draft does not count.
    assert_eq!(fixture.decide("SRS0=ab12=XY=example.net=zoe@example.net", 11), "not-in-audience");
    fixture.edit_response(|response| {
        (response.audience, response.copies) = (Audience::Everyone, true);
    });
    assert_eq!(fixture.decide("new@example.net", 7), "answered");
    // That reply, and its copy in Sent, make nobody known.
    fixture.edit_response(|response| {
        (response.audience, response.text_body) = (Audience::Known, Some("Still away".into()));
    });
    assert_eq!(fixture.decide("new@example.net", 8), "not-in-audience");
    assert_eq!(fixture.decide("bob@example.net", 9), "answered");
    fixture.assert_clean();
}

#[test]
fn with_recurring_days_each_sender_is_told_once_per_absence() {
    // The clock begins on a Saturday.
    let fixture = fixture();
    fixture.directory.update(fixture.ann, |row| row.zone = Some("UTC".into())).unwrap();
    fixture.edit_response(|response| {
        (response.enabled, response.days) =
            (true, vec!["sat".parse().unwrap(), "sun".parse().unwrap()]);
    });
    assert_eq!(fixture.decide("bob@example.net", 1), "answered");
    fixture.clock.advance(DAY);
    assert_eq!(fixture.decide("bob@example.net", 2), "already-told");
    fixture.clock.advance(DAY);
    assert_eq!(fixture.decide("bob@example.net", 3), "outside-window");
    fixture.clock.advance(5 * DAY);
    assert_eq!(fixture.decide("bob@example.net", 4), "answered");
    assert_eq!(fixture.decide("bob@example.net", 5), "already-told");
    fixture.assert_clean();
}

#[test]
fn original_recipient_is_the_from_of_the_reply_only_if_it_is_an_own_address() {
    let fixture = fixture();
    fixture.edit_response(|response| {
        (response.enabled, response.addresses) =
            (true, vec![Address::parse("team@example.net").unwrap()]);
    });
    fixture.directory.add_catch_all(fixture.ann, "shop.example").unwrap();
    // To names only an address of `addresses`: so the message is answered, but does not say from
    // which own address.
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
        assert!(fixture.deliver.admit(&mut session, &envelope, &recipient).is_positive());
        envelope.recipients.push(recipient);
        let body = format!("To: team@example.net\r\nSubject: {n}\r\n\r\nx\r\n").into_bytes();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(Arc::clone(&fixture.deliver).deliver(
            session,
            envelope,
            IncomingMessage::new(body),
            None,
        ));
        let reply = fixture
            .action_message(&fixture.store.snapshot().outbox(fixture.ann).unwrap().pop().unwrap());
        assert!(header::first(&reply, "From").unwrap().unfolded().ends_with(from), "{from}");
    }
}

#[test]
fn absence_report_is_filed_once_when_the_response_is_over() {
    let fixture = fixture();
    let reports = || {
        let inbox = fixture.emails_in("Inbox").into_iter();
        inbox
            .map(|(id, _)| fixture.subject(id))
            .filter(|subject| subject.starts_with("While"))
            .collect::<Vec<_>>()
    };
    let end = fixture.clock.now().after(2 * DAY);
    fixture.edit_response(|response| {
        (response.enabled, response.report, response.to_date) = (true, true, Some(end));
    });
    fixture.clock.advance(Duration::from_secs(60));
    // Three messages. The sender `<>` of the last one is nobody.
    fixture.decide("bob@example.net", 1);
    fixture.decide("bob@example.net", 2);
    fixture.send("", &["ann@example.org"], "To: ann@example.org\nSubject: bounce\n\nx\n");
    assert_eq!(fixture.deliver.file_reports(), Ok(Some(end)));
    assert!(reports().is_empty());
    fixture.edit_response(|response| response.text_body = Some("Back on Monday".into()));
    fixture.clock.set(end);
    assert_eq!(fixture.deliver.file_reports(), Ok(None));
    assert_eq!(reports(), ["While you were away: 3 messages, 1 person wrote"]);
    assert_eq!(fixture.deliver.file_reports(), Ok(None));
    // Saving the response again, or disabling it after its end, makes no other report.
    fixture.edit_response(|response| response.enabled = true);
    fixture.edit_response(|response| response.enabled = false);
    assert_eq!(fixture.deliver.file_reports(), Ok(None));
    assert_eq!(reports().len(), 1);
    fixture.assert_deeply_clean();
    // The next absence, which the owner ends, has its own report; one without `report` has none.
    fixture.edit_response(|response| (response.enabled, response.to_date) = (true, None));
    fixture.clock.advance(DAY);
    fixture.decide("zoe@example.net", 9);
    fixture.clock.advance(DAY);
    fixture.edit_response(|response| response.enabled = false);
    fixture.clock.advance(Duration::from_secs(1));
    assert_eq!(fixture.deliver.file_reports(), Ok(None));
    assert_eq!(reports().len(), 2);
    assert!(
        reports().contains(&"While you were away: 1 message, 1 person wrote".to_owned()),
        "{:?}",
        reports()
    );
    fixture.edit_response(|response| (response.enabled, response.report) = (true, false));
    fixture.clock.advance(DAY);
    fixture.edit_response(|response| response.enabled = false);
    fixture.clock.advance(DAY);
    assert_eq!(fixture.deliver.file_reports(), Ok(None));
    assert_eq!(reports().len(), 2);
    fixture.assert_deeply_clean();
}

/// No repair brings the response back, so mail would wait for its owner.
#[test]
fn damaged_response_answers_nobody_and_delays_no_mail() {
    let engine = Arc::new(MemoryEngine::new());
    let fixture = fixture_over(engine.clone());
    fixture.enable_response("Away");
    let key = fixture.ann.0.to_be_bytes().to_vec();
    let put = Put { table: Table::Vacation, key, value: Some(vec![99]) };
    engine.write(&[Arc::new(Batch::of(vec![put]))]).unwrap();
    let reply = fixture.send("bob@example.net", &["ann@example.org"], HELLO).remove(0);
    assert!(reply.starts_with("250 filed as"), "{reply}");
    assert_eq!(fixture.last_reason(), "disabled");
    fixture.enable_response("Away again");
    fixture.clock.advance(Duration::from_millis(1));
    fixture.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}2\n"));
    assert_eq!(fixture.last_reason(), "answered");
    fixture.assert_clean();
}
