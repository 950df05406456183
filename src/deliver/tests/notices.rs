//! Notifications of success (RFC 3461 §4.1), and what counts against the rates.

use super::*;

#[test]
fn a_success_notice_is_queued_once_where_it_was_asked_for() {
    let bed = bed();
    let mut envelope = Envelope {
        sender: Address::parse("bob@example.net").ok(),
        lhlo: "mx".into(),
        ..Envelope::default()
    };
    let notify = crate::model::DsnNotify { success: true, ..crate::model::DsnNotify::default() };
    for (recipient, notify) in
        [("ann@example.org", notify), ("lee@example.org", crate::model::DsnNotify::default())]
    {
        let recipient =
            Recipient { notify, ..Recipient::plain(Address::parse(recipient).unwrap()) };
        envelope.recipients.push(recipient);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for _ in 0..2 {
        let mut session = DeliveryTransaction::default();
        for recipient in &envelope.recipients {
            assert!(bed.deliver.admit(&mut session, &envelope, recipient).is_positive());
        }
        let body = HELLO.replace('\n', "\r\n").into_bytes();
        assert_eq!(
            runtime
                .block_on(Arc::clone(&bed.deliver).deliver(
                    session,
                    envelope.clone(),
                    IncomingMessage::new(body)
                ))
                .len(),
            2
        );
    }
    let actions = bed.store.snapshot().outbox(bed.ann).unwrap();
    assert_eq!((actions.len(), actions[0].kind), (1, crate::model::ActionKind::Report));
    let text =
        String::from_utf8(bed.store.snapshot().action_message(bed.ann, &actions[0]).unwrap())
            .unwrap();
    assert!(
        text.contains("Final-Recipient: rfc822; ann@example.org") && !text.contains("lee@"),
        "{text}"
    );
    bed.clean();
}

impl Fixture {
    /// Delivers a message whose sender wants to be told of it.
    fn ask_for_notice(&self, sender: &str, forged: Option<&str>, body: &str) -> Vec<Reply> {
        let mut envelope = Envelope {
            sender: Address::parse(sender).ok(),
            lhlo: "mx".into(),
            forged: forged.map(str::to_owned),
            ..Envelope::default()
        };
        let notify =
            crate::model::DsnNotify { success: true, ..crate::model::DsnNotify::default() };
        let recipient =
            Recipient { notify, ..Recipient::plain(Address::parse("ann@example.org").unwrap()) };
        let mut session = DeliveryTransaction::default();
        assert!(self.deliver.admit(&mut session, &envelope, &recipient).is_positive());
        envelope.recipients.push(recipient);
        let body = body.replace('\n', "\r\n").into_bytes();
        assert!(
            self.deliver.may_answer(&session, &envelope, &IncomingMessage::new(body.clone())),
            "who sent it must be found out first"
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(Arc::clone(&self.deliver).deliver(
            session,
            envelope,
            IncomingMessage::new(body),
        ))
    }

    /// To whom actions of ann's go.
    fn queued(&self) -> Vec<String> {
        self.store
            .snapshot()
            .outbox(self.ann)
            .unwrap()
            .iter()
            .map(crate::model::Action::recipient_summary)
            .collect()
    }

    fn limit(&self, account: u32) {
        let mut settings = (*self.settings.get()).clone();
        settings.vacation.rate.account = account;
        self.settings.set(settings);
    }
}

#[test]
fn a_success_notice_goes_to_no_forged_sender_and_not_to_more_than_get_replies() {
    let bed = bed();
    bed.limit(2);
    // Also where the header is one of a machine: it is the notification that is asked for.
    let message = |n: u32| format!("Auto-Submitted: auto-generated\n{HELLO}{n}\n");
    let forged = bed.ask_for_notice("eve@example.net", Some("spf=fail"), &message(0));
    assert_eq!((forged[0].code, bed.queued()), (250, Vec::<String>::new()));
    // What is refused was not sent: it is not counted.
    bed.directory.update(bed.ann, |row| row.quota_bytes = Some(400)).unwrap();
    for n in 1..5 {
        let long = message(n) + &"x".repeat(4000);
        assert_eq!(bed.ask_for_notice("zoe@example.net", None, &long)[0].code, 452);
    }
    bed.directory.update(bed.ann, |row| row.quota_bytes = None).unwrap();
    for n in 10..14 {
        let again = message(n);
        for _ in 0..2 {
            assert_eq!(
                bed.ask_for_notice(&format!("bob{n}@example.net"), None, &again)[0].code,
                250
            );
        }
    }
    assert_eq!(bed.queued(), ["bob10@example.net", "bob11@example.net"]);
    // Replies have a count of their own.
    bed.away("Away");
    bed.send("max@example.net", &["ann@example.org"], HELLO);
    assert_eq!(bed.queued().last().map(String::as_str), Some("max@example.net"));
    bed.clock.advance(Duration::from_secs(2 * 3600));
    bed.ask_for_notice("tom@example.net", None, &message(20));
    assert_eq!(bed.queued().len(), 4);
    bed.clean();
}

#[test]
fn a_delivery_that_is_refused_takes_nothing_of_the_rate() {
    let bed = bed();
    bed.limit(2);
    bed.away("Away");
    bed.directory.update(bed.ann, |row| row.quota_bytes = Some(400)).unwrap();
    let long = format!("{HELLO}{}", "x".repeat(4000));
    for n in 0..5 {
        let sender = format!("zoe{n}@example.net");
        assert_eq!(bed.send(&sender, &["ann@example.org"], &long), ["452 the mailbox is full"]);
    }
    bed.directory.update(bed.ann, |row| row.quota_bytes = None).unwrap();
    let mut reasons = Vec::new();
    for n in 0..3 {
        bed.clock.advance(Duration::from_millis(1));
        bed.send(&format!("bob{n}@example.net"), &["ann@example.org"], HELLO);
        reasons.push(bed.last_reason());
    }
    assert_eq!(reasons, ["answered", "answered", "rate-limit"]);
    bed.clean();
}

#[test]
fn a_commit_that_is_not_durable_takes_nothing_of_the_rate() {
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let bed = bed_over(engine.clone());
    bed.limit(1);
    bed.away("Away");
    engine.fail_after(0, Error::Full);
    for n in 0..3 {
        let replies = bed.ask_for_notice(&format!("zoe{n}@example.net"), None, HELLO);
        assert!((400..500).contains(&replies[0].code), "{}", replies[0].code);
    }
    engine.heal();
    assert_eq!(bed.ask_for_notice("bob@example.net", None, HELLO)[0].code, 250);
    assert_eq!(bed.last_reason(), "answered");
    assert_eq!(
        bed.queued(),
        ["bob@example.net", "bob@example.net"],
        "the notification and the reply"
    );
    bed.clean();
}
