//! Tests of how a message is filed and recorded, and that a retry files it once.

use super::*;
use crate::store::engine::watched::CountingEngine;

#[test]
fn retry_gets_the_same_id_and_adds_nothing() {
    let fixture = fixture();
    let first = fixture.send("bob@example.net", &["ann@example.org"], HELLO);
    let id = first[0].rsplit(' ').next().unwrap().to_owned();
    let again = fixture.send("bob@example.net", &["ann@example.org"], HELLO);
    assert_eq!(again, [format!("250 already filed as {id}")]);
    // With another envelope sender or other bytes it is another message, also with the same
    // Message-ID.
    assert!(
        fixture.send("eve@example.net", &["ann@example.org"], HELLO)[0].starts_with("250 filed as")
    );
    assert!(
        fixture.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}more\n"))[0]
            .starts_with("250 filed as")
    );
    assert_eq!(fixture.store.snapshot().emails(fixture.ann, None, 99).unwrap().len(), 3);
    fixture.assert_clean();
}

/// Trace fields are put before the message. After them, a blank line before the header would end
/// the header, and any other line would become a part of a field.
#[test]
fn bytes_before_the_header_are_not_kept_behind_the_trace_fields() {
    for before in [
        "\n",
        " \t\n\n",
        "\u{feff}",
        "From bob Sat Jan  1 00:00:00 2026\n",
        "\u{feff}\n>From bob\n",
    ] {
        let fixture = fixture();
        assert!(
            fixture.send("bob@example.net", &["ann@example.org"], &format!("{before}{HELLO}"))[0]
                .starts_with("250")
        );
        let (id, email) =
            fixture.store.snapshot().emails(fixture.ann, None, 9).unwrap().pop().unwrap();
        let whole =
            String::from_utf8(fixture.store.snapshot().message(fixture.ann, id).unwrap().unwrap())
                .unwrap();
        let (header, text) = whole.split_once("\r\n\r\n").unwrap();
        assert_eq!(text, "Hi\r\n", "{before:?}");
        let names: Vec<&str> =
            header.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
        let own = ["From", "To", "Subject", "Message-ID"];
        assert_eq!(
            names,
            [&["Return-Path", "Delivered-To", "Received"][..], &own].concat(),
            "{before:?}"
        );
        assert_eq!(email.size, whole.len() as u64, "{before:?}");
        let again =
            fixture.send("bob@example.net", &["ann@example.org"], &format!("{before}{HELLO}"));
        assert_eq!(again, [format!("250 already filed as {id}")]);
        fixture.assert_clean();
    }
    // A text without a header is kept as it came.
    let fixture = fixture();
    fixture.send("bob@example.net", &["ann@example.org"], "\nA text.\n");
    let (id, _) = fixture.store.snapshot().emails(fixture.ann, None, 9).unwrap().pop().unwrap();
    assert!(
        fixture
            .store
            .snapshot()
            .message(fixture.ann, id)
            .unwrap()
            .unwrap()
            .ends_with(b"\r\n\r\nA text.\r\n")
    );
}

#[test]
fn deliveries_and_decisions_are_forgotten_after_their_time() {
    let fixture = fixture();
    for n in 0..60 {
        fixture.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}{n}\n"));
    }
    let remembered = || {
        (
            fixture.store.snapshot().deliveries(fixture.ann).unwrap(),
            fixture.store.snapshot().decisions(fixture.ann, 999).unwrap(),
        )
    };
    assert_eq!((remembered().0.len(), remembered().1.len()), (60, 60));
    // Deliveries are remembered for 14 days (`limits::DELIVERY_RETENTION`).
    fixture.clock.advance(Duration::from_secs(13 * 24 * 3600));
    assert!(
        fixture.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}1\n"))[0]
            .contains("already filed")
    );
    fixture.clock.advance(Duration::from_secs(2 * 24 * 3600));
    assert!(
        fixture.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}1\n"))[0]
            .starts_with("250 filed as")
    );
    // Decisions are kept for 90 days (`limits::DECISION_RETENTION`). Each delivery removes some
    // expired rows.
    fixture.clock.advance(Duration::from_secs(90 * 24 * 3600));
    let now = fixture.clock.now();
    for n in 100..200 {
        fixture.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}{n}\n"));
    }
    assert!(
        remembered().0.len() == 100 && remembered().0.iter().all(|served| served.at >= now),
        "{}",
        remembered().0.len()
    );
    assert!(
        remembered().1.len() == 100 && remembered().1.iter().all(|decision| decision.at >= now),
        "{}",
        remembered().1.len()
    );
    fixture.assert_clean();
}

#[test]
fn several_recipients_of_one_account_get_one_email_and_an_lmtp_reply_each() {
    let fixture = fixture();
    let answers = fixture.send(
        "bob@example.net",
        &["ann@example.org", "lee@example.org", "ann+x@example.org"],
        HELLO,
    );
    assert_eq!(answers.len(), 3);
    assert!(
        answers.iter().all(|reply| *reply == answers[0] && reply.starts_with("250 filed as")),
        "{answers:?}"
    );
    assert_eq!(fixture.store.snapshot().emails(fixture.ann, None, 99).unwrap().len(), 1);
    assert_eq!(
        fixture.send("bob@example.net", &["nobody@example.org"], HELLO),
        ["550 no account has this address"]
    );
    fixture.assert_clean();
}

#[test]
fn detail_names_the_mailbox_if_the_owner_allows_it() {
    let fixture = fixture();
    let counts = |fixture: &Fixture, name: &str| {
        fixture
            .store
            .snapshot()
            .find_mailbox(fixture.ann, name)
            .unwrap()
            .unwrap()
            .1
            .counts
            .total_emails
    };
    fixture.send("bob@example.net", &["ann+archive@example.org"], HELLO);
    assert_eq!((counts(&fixture, "inbox"), counts(&fixture, "archive")), (1, 0));
    fixture.directory.update(fixture.ann, |row| row.detail_files = true).unwrap();
    fixture.send("bob@example.net", &["ann+archive@example.org"], &format!("{HELLO}2\n"));
    fixture.send("bob@example.net", &["ann+no.such@example.org"], &format!("{HELLO}3\n"));
    assert_eq!((counts(&fixture, "inbox"), counts(&fixture, "archive")), (2, 1));
    let committed = fixture.store.commit(fixture.ann, |txn| {
        let new = |name: &str, parent| NewMailbox {
            name: name.into(),
            parent,
            role: None,
            sort_order: 0,
        };
        let lists = txn.create_mailbox(&new("Lists", None))?;
        txn.create_mailbox(&new("rust", Some(lists)))
    });
    committed.unwrap().1.wait_blocking().unwrap();
    fixture.send("bob@example.net", &["ann+Lists.Rust@example.org"], &format!("{HELLO}4\n"));
    assert_eq!((counts(&fixture, "Lists/rust"), counts(&fixture, "inbox")), (1, 2));
}

/// A script discarded the message for the first recipient, and is off when it comes for both.
#[test]
fn recipient_that_was_served_before_does_not_decide_where_the_message_goes() {
    let fixture = fixture();
    fixture.directory.update(fixture.ann, |row| row.detail_files = true).unwrap();
    fixture.activate("discard;");
    fixture.send("bob@example.net", &["ann+archive@example.org"], HELLO);
    let committed = fixture.store.commit(fixture.ann, |txn| txn.activate_script(None));
    committed.unwrap().1.wait_blocking().unwrap();
    let both = ["ann+archive@example.org", "ann+junk@example.org"];
    let answers = fixture.send("bob@example.net", &both, HELLO);
    assert!(answers.iter().all(|answer| answer.starts_with("250 ")), "{answers:?}");
    let snapshot = fixture.store.snapshot();
    let junk = snapshot.find_mailbox(fixture.ann, "junk").unwrap().unwrap().0;
    let emails = snapshot.emails(fixture.ann, None, 9).unwrap();
    assert_eq!(
        emails.iter().map(|(_, email)| &email.mailboxes).collect::<Vec<_>>(),
        [&[junk].into()]
    );
    fixture.assert_clean();
}

#[test]
fn a_parser_panic_is_caught_and_mail_without_content_is_filed_with_its_bytes() {
    assert!(catch_parser_panic("a test", || panic!("on purpose")).is_none());
    let fixture = fixture();
    let raw = b"Subject: x\r\n\r\nbody\r\n";
    let encoded = EncodedMessage::new(&rows_without_content(raw));
    let (_, ticket) = fixture.store.commit_message(&[fixture.ann], &encoded, raw, |txn| {
        let (mailboxes, received_at) = ([txn.state().inbox].into(), txn.now());
        let new = NewEmail {
            message: &encoded,
            prefix: b"",
            mailboxes,
            keywords: [].into(),
            received_at,
        };
        txn.create_email(&new)
    });
    ticket.wait_blocking().unwrap();
    let (id, _) = fixture.store.snapshot().emails(fixture.ann, None, 1).unwrap().pop().unwrap();
    assert_eq!(fixture.store.snapshot().message(fixture.ann, id).unwrap().unwrap(), raw);
    fixture.assert_clean();
}

#[test]
fn broken_mail_is_filed_as_it_came() {
    let fixture = fixture();
    let broken = "\u{0}\u{1}no header\n\nContent-Type: multipart/mixed; boundary=x\n--x";
    assert!(fixture.send("", &["ann@example.org"], broken)[0].starts_with("250"));
    let (id, _) = fixture.store.snapshot().emails(fixture.ann, None, 1).unwrap().pop().unwrap();
    let message = fixture.store.snapshot().message(fixture.ann, id).unwrap().unwrap();
    assert!(
        message.starts_with(b"Return-Path: <>\r\n")
            && message.ends_with(broken.replace('\n', "\r\n").as_bytes())
    );
    fixture.assert_clean();
}

#[test]
fn decision_is_found_by_its_email_if_all_ids_of_the_millisecond_are_taken() {
    let engine = Arc::new(MemoryEngine::new());
    let fixture = fixture_over(engine.clone());
    let now = fixture.clock.now();
    let row = |unique: u16| Put {
        table: Table::EmailMetadata,
        key: [
            &fixture.ann.0.to_be_bytes()[..],
            &crate::model::EmailId::new(now, unique).0.to_be_bytes(),
        ]
        .concat(),
        value: Some(vec![99]),
    };
    engine.write(&[Arc::new(Batch::of((0..1000).map(row).collect()))]).unwrap();
    fixture.enable_response("Away");
    let reply = fixture.send("bob@example.net", &["ann@example.org"], HELLO).remove(0);
    let id = reply.strip_prefix("250 filed as ").unwrap().parse::<crate::model::EmailId>().unwrap();
    assert_eq!(id.received_at(), now.after(Duration::from_millis(1)));
    let snapshot = fixture.store.snapshot();
    let decision = snapshot.decision(fixture.ann, id).unwrap().unwrap();
    let Verdict::Answered(action) = decision.verdict else { panic!("{decision:?}") };
    drop(snapshot);
    // It is found, too, when the reply is taken back.
    let committed = fixture.store.commit(fixture.ann, |txn| {
        let action = txn.action(action)?;
        txn.take_back_answer(&action, "not-sent", "removed by hand")
    });
    committed.unwrap().1.wait_blocking().unwrap();
    assert_eq!(fixture.last_reason(), "not-sent");
}

/// A delivery spends about a hundredth of its processor time on each look-up.
#[test]
fn a_delivery_looks_up_each_row_once() {
    let engine = Arc::new(CountingEngine::default());
    let fixture = fixture_over(engine.clone());
    let send = |number: usize| {
        let text = format!("Message-ID: <{number}@example.net>\n{HELLO}");
        engine.read();
        fixture.send("bob@example.net", &["ann@example.org"], &text);
        engine.read()
    };
    send(0);
    send(1);
    // The account's script, response, row and state, the record of the delivery, the Inbox, the id
    // of the email, two references to threads, the thread, and the message.
    assert_eq!([send(2), send(3), send(4)], [11, 11, 11]);
    // If there is a response, the plan looks for the record, too, and for whom it told. This
    // message has one reference.
    fixture.enable_response("Away");
    let list = format!("List-Id: <list.example.net>\n{HELLO}");
    engine.read();
    fixture.send("bob@example.net", &["ann@example.org"], &list);
    assert_eq!(engine.read(), 12);
    fixture.assert_clean();
}
