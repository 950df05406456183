//! Tests of notifications of success (RFC 3461 §4.1), and of what counts against the rates.

use std::sync::mpsc;

use super::*;
use crate::model::ActionKind;

#[test]
fn success_notification_is_queued_once_for_the_recipients_that_asked_for_it() {
    let fixture = fixture();
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
            assert!(fixture.deliver.admit(&mut session, &envelope, recipient).is_positive());
        }
        let body = HELLO.replace('\n', "\r\n").into_bytes();
        assert_eq!(
            runtime
                .block_on(Arc::clone(&fixture.deliver).deliver(
                    session,
                    envelope.clone(),
                    IncomingMessage::new(body),
                    None,
                ))
                .len(),
            2
        );
    }
    let actions = fixture.store.snapshot().outbox(fixture.ann).unwrap();
    assert_eq!((actions.len(), actions[0].kind), (1, ActionKind::Report));
    let text = String::from_utf8(
        fixture.store.snapshot().action_message(fixture.ann, &actions[0]).unwrap(),
    )
    .unwrap();
    assert!(
        text.contains("Final-Recipient: rfc822; ann@example.org") && !text.contains("lee@"),
        "{text}"
    );
    fixture.assert_clean();
}

impl Fixture {
    /// Delivers a message to Ann whose sender asks for a notification of success. With `forged`,
    /// the sender was found to be forged, for this reason.
    fn send_with_notify(&self, sender: &str, forged: Option<&str>, body: &str) -> Vec<Reply> {
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
            self.deliver.may_answer(&mut session, &envelope, &IncomingMessage::new(body.clone())),
            "the sender must be verified first"
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(Arc::clone(&self.deliver).deliver(
            session,
            envelope,
            IncomingMessage::new(body),
            None,
        ))
    }

    fn action_recipients(&self) -> Vec<String> {
        self.store
            .snapshot()
            .outbox(self.ann)
            .unwrap()
            .iter()
            .map(crate::model::Action::recipient_summary)
            .collect()
    }

    /// Stops the committer after a change of this account, until the returned sender is used.
    fn hold_committer(&self, account: AccountId) -> mpsc::Sender<()> {
        let ((release, wait), (reached, here)) = (mpsc::channel(), mpsc::channel());
        let wait = Mutex::new(Some(wait));
        self.store.on_change(move |_| {
            if let Some(wait) = wait.lock().take() {
                reached.send(()).unwrap();
                wait.recv().unwrap();
            }
        });
        let response = VacationResponse { enabled: true, ..VacationResponse::default() };
        drop(self.store.commit(account, |txn| txn.set_vacation(&response)).unwrap());
        here.recv().unwrap();
        release
    }

    /// Queues the commits of a delivery.
    fn apply(&self, sender: &str, recipients: &[&str], message: &str) -> apply::PendingDelivery {
        let mut envelope = Envelope {
            sender: Address::parse(sender).ok(),
            lhlo: "mx".into(),
            ..Envelope::default()
        };
        let mut session = DeliveryTransaction::default();
        for recipient in recipients {
            let recipient = Recipient::plain(Address::parse(recipient).unwrap());
            assert!(self.deliver.admit(&mut session, &envelope, &recipient).is_positive());
            envelope.recipients.push(recipient);
        }
        let message = IncomingMessage::new(message.replace('\n', "\r\n").into_bytes());
        let (scripts, body) = (LoadedScripts::new(), LargeBody::default());
        self.deliver.apply(&session, &scripts, &envelope, &message, body)
    }

    /// Limits what the account sends in an hour: this many replies, and as many notifications.
    fn limit(&self, account: u32) {
        let mut settings = (*self.settings.get()).clone();
        settings.vacation.rate.account = account;
        self.settings.set(settings);
    }
}

#[test]
fn success_notifications_are_limited_and_a_forged_sender_gets_none() {
    let fixture = fixture();
    fixture.limit(2);
    // The response does not answer these messages. Notifications of success go out all the same.
    let message = |n: u32| format!("Auto-Submitted: auto-generated\n{HELLO}{n}\n");
    let forged = fixture.send_with_notify("eve@example.net", Some("spf=fail"), &message(0));
    assert_eq!((forged[0].code, fixture.action_recipients()), (250, Vec::<String>::new()));
    // What is refused for the quota is not charged.
    fixture.directory.update(fixture.ann, |row| row.quota_bytes = Some(400)).unwrap();
    for n in 1..5 {
        let long = message(n) + &"x".repeat(4000);
        assert_eq!(fixture.send_with_notify("zoe@example.net", None, &long)[0].code, 452);
    }
    fixture.directory.update(fixture.ann, |row| row.quota_bytes = None).unwrap();
    // Four messages, each with a retry: the first two get the two notifications of this hour.
    for n in 10..14 {
        let again = message(n);
        for _ in 0..2 {
            assert_eq!(
                fixture.send_with_notify(&format!("bob{n}@example.net"), None, &again)[0].code,
                250
            );
        }
    }
    assert_eq!(fixture.action_recipients(), ["bob10@example.net", "bob11@example.net"]);
    // Replies are counted apart from notifications.
    fixture.enable_response("Away");
    fixture.send("max@example.net", &["ann@example.org"], HELLO);
    assert_eq!(fixture.action_recipients().last().map(String::as_str), Some("max@example.net"));
    // In another hour, a fourth action joins the two notifications and the reply.
    fixture.clock.advance(Duration::from_secs(2 * 3600));
    fixture.send_with_notify("tom@example.net", None, &message(20));
    assert_eq!(fixture.action_recipients().len(), 4);
    fixture.assert_clean();
}

#[test]
fn refused_delivery_is_not_charged_to_the_rate() {
    let fixture = fixture();
    fixture.limit(2);
    fixture.enable_response("Away");
    fixture.directory.update(fixture.ann, |row| row.quota_bytes = Some(400)).unwrap();
    let long = format!("{HELLO}{}", "x".repeat(4000));
    for n in 0..5 {
        let sender = format!("zoe{n}@example.net");
        assert_eq!(fixture.send(&sender, &["ann@example.org"], &long), ["452 the mailbox is full"]);
    }
    fixture.directory.update(fixture.ann, |row| row.quota_bytes = None).unwrap();
    let mut reasons = Vec::new();
    for n in 0..3 {
        fixture.clock.advance(Duration::from_millis(1));
        fixture.send(&format!("bob{n}@example.net"), &["ann@example.org"], HELLO);
        reasons.push(fixture.last_reason());
    }
    assert_eq!(reasons, ["answered", "answered", "rate-limit"]);
    fixture.assert_clean();
}

#[test]
fn failed_commit_is_not_charged_to_the_rate() {
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let fixture = fixture_over(engine.clone());
    fixture.limit(1);
    fixture.enable_response("Away");
    engine.fail_after(0, Error::Full);
    for n in 0..3 {
        let replies = fixture.send_with_notify(&format!("zoe{n}@example.net"), None, HELLO);
        assert!((400..500).contains(&replies[0].code), "{}", replies[0].code);
    }
    engine.heal();
    assert_eq!(fixture.send_with_notify("bob@example.net", None, HELLO)[0].code, 250);
    assert_eq!(fixture.last_reason(), "answered");
    assert_eq!(
        fixture.action_recipients(),
        ["bob@example.net", "bob@example.net"],
        "the notification and the reply"
    );
    fixture.assert_clean();
}

/// The accounts of the delivery have commits of their own, of which one is overtaken.
#[test]
fn overtaken_commit_is_not_charged_to_the_rate() {
    let engine = Arc::new(MemoryEngine::new());
    let fixture = fixture_over(engine.clone());
    fixture.limit(1);
    fixture.enable_response("Away");
    let eve = NewAccount::at(Address::parse("eve@example.org").unwrap());
    let eve = fixture.directory.add(&eve).unwrap();
    let release = fixture.hold_committer(eve);
    let pending = fixture.apply("bob@example.net", &["ann@example.org", "eve@example.org"], HELLO);
    // As another writer would do in a store over several machines.
    let key = fixture.ann.0.to_be_bytes();
    let rows = engine.rows(Table::AccountState);
    let (_, state) = rows.into_iter().find(|(found, _)| *found == key).unwrap();
    let write = |value: Vec<u8>| {
        let put = Put { table: Table::AccountState, key: key.to_vec(), value: Some(value) };
        engine.write(&[Arc::new(Batch::of(vec![put]))]).unwrap();
    };
    write([&state[..], &[0]].concat());
    release.send(()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let codes: Vec<u16> =
        runtime.block_on(fixture.deliver.replies(pending)).iter().map(|reply| reply.code).collect();
    assert_eq!(codes, [451, 250]);
    write(state);
    fixture.send("bob@example.net", &["ann@example.org"], HELLO);
    assert_eq!(fixture.last_reason(), "answered");
    fixture.clock.advance(Duration::from_millis(1));
    fixture.send("zoe@example.net", &["ann@example.org"], HELLO);
    assert_eq!(fixture.last_reason(), "rate-limit");
    fixture.assert_clean();
}

#[test]
fn success_is_reported_only_of_what_scripts_store_or_send_on() {
    let fixture = fixture();
    for (source, kinds) in [
        ("keep;", vec![ActionKind::Report]),
        ("redirect \"eve@example.com\";", vec![ActionKind::Report, ActionKind::Redirect]),
        ("discard;", vec![]),
        ("require \"reject\"; reject \"No.\";", vec![]),
        ("require \"reject\"; reject \"Nö.\";", vec![ActionKind::Reject]),
    ] {
        let before = fixture.store.snapshot().outbox(fixture.ann).unwrap().len();
        fixture.activate(source);
        let sender = format!("bob{}@example.net", source.len());
        fixture.send_with_notify(&sender, None, HELLO);
        let queued = fixture.store.snapshot().outbox(fixture.ann).unwrap();
        let new: Vec<ActionKind> = queued[before..].iter().map(|action| action.kind).collect();
        assert_eq!(new, kinds, "{source}");
    }
    fixture.assert_clean();
}
