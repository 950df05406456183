//! Tests of deliveries into a store: replies and their From, and mail loops. More are in `tests/`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::account::{NewAccount, Settings as Addresses};
use crate::message::header::IncomingMessage;
use crate::message::rows_without_content;
use crate::model::clock::{FixedClock, MonotonicMillis};
use crate::model::{AccountId, Address, Clock, UtcMillis, VacationResponse, Verdict};
use crate::store::engine::fault::FaultyEngine;
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine, Put, Table};
use crate::store::{self, EncodedMessage, Error, NewEmail, NewMailbox, Options};

mod admission;
mod filing;
mod notices;
mod returned_reports;
mod scripts;
mod scripts_host;
mod vacation;

struct Fixture {
    clock: Arc<FixedClock>,
    settings: LiveValue<Settings>,
    store: Store,
    directory: Directory,
    deliver: Arc<Deliverer>,
    ann: AccountId,
}

fn fixture() -> Fixture {
    fixture_over(Arc::new(MemoryEngine::new()))
}

fn fixture_over(engine: Arc<dyn Engine>) -> Fixture {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_795_251_600_000)));
    fixture_with(engine, clock.clone(), clock)
}

/// `store_clock` is the clock of the store, which shows the time of `clock`.
fn fixture_with(
    engine: Arc<dyn Engine>,
    store_clock: Arc<dyn Clock>,
    clock: Arc<FixedClock>,
) -> Fixture {
    let store = Store::open_engine(engine, &Options::small(), store_clock).unwrap();
    let directory = Directory::new(store.clone(), Addresses::default());
    let ann = directory
        .add(&NewAccount {
            aliases: vec![Address::parse("lee@example.org").unwrap()],
            ..NewAccount::at(Address::parse("ann@example.org").unwrap())
        })
        .unwrap();
    let settings: LiveValue<Settings> = LiveValue::default();
    let deliver = Arc::new(Deliverer::new(store.clone(), directory.clone(), settings.clone()));
    Fixture { clock, settings, store, directory, deliver, ann }
}

impl Fixture {
    fn enable_response(&self, text: &str) {
        let response = VacationResponse {
            enabled: true,
            text_body: Some(text.into()),
            ..VacationResponse::default()
        };
        self.store
            .commit(self.ann, |txn| txn.set_vacation(&response))
            .unwrap()
            .1
            .wait_blocking()
            .unwrap();
    }

    /// Delivers a message. Returns the reply for each recipient, first those refused at RCPT.
    fn send(&self, sender: &str, recipients: &[&str], message: &str) -> Vec<String> {
        self.send_with(sender, recipients, message, |_| {})
    }

    /// Delivers a message with an envelope that `change` has changed after the last RCPT.
    fn send_with(
        &self,
        sender: &str,
        recipients: &[&str],
        message: &str,
        change: impl Fn(&mut Envelope),
    ) -> Vec<String> {
        let mut envelope = Envelope {
            sender: Address::parse(sender).ok(),
            lhlo: "mx".into(),
            ..Envelope::default()
        };
        let mut session = DeliveryTransaction::default();
        let mut answers = Vec::new();
        for recipient in recipients {
            let recipient = Recipient::plain(Address::parse(recipient).unwrap());
            let reply = self.deliver.admit(&mut session, &envelope, &recipient);
            if reply.is_positive() {
                envelope.recipients.push(recipient);
            } else {
                answers.push(format!("{} {}", reply.code, reply.text));
            }
        }
        change(&mut envelope);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = message.replace('\n', "\r\n").into_bytes();
        let replies = runtime.block_on(Arc::clone(&self.deliver).deliver(
            session,
            envelope,
            IncomingMessage::new(body),
            None,
        ));
        answers.extend(replies.iter().map(|reply| format!("{} {}", reply.code, reply.text)));
        answers
    }

    fn last_reason(&self) -> String {
        match self.store.snapshot().decisions(self.ann, 1).unwrap().pop().unwrap().verdict {
            Verdict::Answered(_) => "answered".into(),
            Verdict::Silent { reason, .. } => reason,
        }
    }

    fn action_message(&self, action: &crate::model::Action) -> Vec<u8> {
        self.store.snapshot().action_message(self.ann, action).unwrap()
    }

    fn assert_clean(&self) {
        let breaches = self.store.check().unwrap();
        assert!(breaches.is_empty(), "{breaches:?}");
    }
}

/// The mail is not answered, because its sender's address, whose row is lost or damaged, may belong
/// to the account itself.
#[test]
fn mail_from_an_address_whose_row_is_damaged_is_filed_and_not_answered() {
    for damaged in [None, Some(vec![99])] {
        let engine = Arc::new(MemoryEngine::new());
        let fixture = fixture_over(engine.clone());
        fixture.enable_response("Away");
        let puts =
            vec![Put { table: Table::Addresses, key: b"lee@example.org".to_vec(), value: damaged }];
        engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
        // A change makes the directory read its rows anew.
        fixture.directory.add(&NewAccount::at(Address::parse("eve@example.org").unwrap())).unwrap();
        assert!(
            fixture.send("lee@example.org", &["ann@example.org"], HELLO)[0]
                .starts_with("250 filed as")
        );
        assert_eq!(fixture.last_reason(), "own-address");
        fixture.clock.advance(Duration::from_millis(1));
        assert!(
            fixture.send("bob@example.net", &["ann@example.org"], HELLO)[0]
                .starts_with("250 filed as")
        );
        assert_eq!(fixture.last_reason(), "answered");
    }
}

const HELLO: &str = "From: Bob <bob@example.net>\nTo: ann@example.org\nSubject: Hello\n\
                     Message-ID: <1@example.net>\n\nHi\n";

#[test]
fn sender_is_answered_once_until_the_response_changes() {
    let fixture = fixture();
    assert!(fixture.send("bob@example.net", &["ann@example.org"], HELLO)[0].starts_with("250"));
    assert_eq!(fixture.last_reason(), "disabled");
    fixture.enable_response("Away");
    fixture.clock.advance(Duration::from_secs(60));
    fixture.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}2\n"));
    assert_eq!(fixture.last_reason(), "answered");
    let actions = fixture.store.snapshot().outbox(fixture.ann).unwrap();
    assert_eq!(
        (actions.len(), actions[0].recipient_summary(), &actions[0].sender),
        (1, "bob@example.net".into(), &None)
    );
    fixture.clock.advance(Duration::from_secs(60));
    fixture.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}3\n"));
    assert_eq!(fixture.last_reason(), "already-told");
    // A retry of the message that was answered.
    fixture.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}2\n"));
    assert_eq!(fixture.store.snapshot().outbox(fixture.ann).unwrap().len(), 1);
    fixture.enable_response("Away until Monday");
    fixture.clock.advance(Duration::from_secs(60));
    fixture.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}4\n"));
    assert_eq!(fixture.last_reason(), "answered");
    fixture.assert_clean();
}

/// Returns how many deliveries the metric counts with this result.
fn counted(result: &str) -> u64 {
    let text = crate::trace::metrics::openmetrics_text();
    let name = format!("deliveries_total{{result=\"{result}\"}}");
    let line = text.lines().find(|line| line.contains(&name));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap()
}

#[test]
fn recipients_of_a_mail_loop_are_counted_as_refused() {
    let fixture = fixture();
    let before = counted("refused");
    // `limits::MAX_RECEIVED_FIELDS`
    let looping = format!("{}{HELLO}", "Received: x\n".repeat(100));
    let answers =
        fixture.send("bob@example.net", &["ann@example.org", "lee@example.org"], &looping);
    assert!(answers.iter().all(|answer| answer.starts_with("554 mail loop")), "{answers:?}");
    // Tests that run at the same time count, too.
    assert!(counted("refused") >= before + 2, "{before} {}", counted("refused"));
}

/// Panics once, while `is_armed`, on a thread that Tokio started: one for blocking work.
#[derive(Debug)]
struct PanickingClock {
    inner: Arc<FixedClock>,
    is_armed: AtomicBool,
}

impl Clock for PanickingClock {
    fn now(&self) -> UtcMillis {
        let is_blocking =
            std::thread::current().name().is_some_and(|name| name.starts_with("tokio-"));
        assert!(!(is_blocking && self.is_armed.swap(false, Ordering::SeqCst)), "on purpose");
        self.inner.now()
    }

    fn steady(&self) -> MonotonicMillis {
        self.inner.steady()
    }
}

#[test]
fn recipients_of_a_delivery_that_panicked_are_counted_as_deferred() {
    let inner = Arc::new(FixedClock::at(UtcMillis(1_795_251_600_000)));
    let clock = Arc::new(PanickingClock { inner: inner.clone(), is_armed: AtomicBool::new(false) });
    let fixture = fixture_with(Arc::new(MemoryEngine::new()), clock.clone(), inner);
    // A large message is applied on a thread for blocking work.
    let large = format!("{HELLO}{}", "x\n".repeat(crate::model::limits::MAX_BODY_BYTES_IN_MEMORY));
    let before = counted("deferred");
    clock.is_armed.store(true, Ordering::SeqCst);
    let recipients = ["ann@example.org", "lee@example.org"];
    let answers = fixture.send("bob@example.net", &recipients, &large);
    assert!(answers.iter().all(|answer| answer.starts_with("451 ")), "{answers:?}");
    assert_eq!((answers.len(), clock.is_armed.load(Ordering::SeqCst)), (2, false));
    // Tests that run at the same time count, too.
    assert!(counted("deferred") >= before + 2, "{before} {}", counted("deferred"));
    let answers = fixture.send("bob@example.net", &recipients, &large);
    assert!(answers.iter().all(|answer| answer.starts_with("250 ")), "{answers:?}");
}

#[test]
fn mail_filed_in_junk_is_not_answered() {
    let fixture = fixture();
    fixture.directory.update(fixture.ann, |row| row.detail_files = true).unwrap();
    fixture.enable_response("Away");
    let message = HELLO.replace("To: ann@", "To: ann+junk@");
    fixture.send("bob@example.net", &["ann+junk@example.org"], &message);
    assert_eq!(fixture.last_reason(), "spam");
    fixture.clock.advance(Duration::from_secs(60));
    fixture.send("bob@example.net", &["ann@example.org"], HELLO);
    assert_eq!(fixture.last_reason(), "answered");
}

#[test]
fn reply_is_never_from_an_address_of_another_account() {
    let fixture = fixture();
    let address = |text: &str| Address::parse(text).unwrap();
    fixture.directory.add_catch_all(fixture.ann, "shop.example").unwrap();
    let bob = fixture.directory.add(&NewAccount::at(address("bob@example.org"))).unwrap();
    fixture.directory.add_alias(bob, &address("ann+bob@example.org")).unwrap();
    let from = |sender: &str, header: &str| {
        fixture.clock.advance(Duration::from_millis(1));
        let message = format!("From: {sender}\nTo: ann@example.org\n{header}\n\nHi\n");
        fixture.send(sender, &["ann@example.org"], &message);
        let reply = fixture
            .action_message(fixture.store.snapshot().outbox(fixture.ann).unwrap().last().unwrap());
        crate::message::header::first(&reply, "From").unwrap().unfolded()
    };
    fixture.enable_response("Away");
    assert_eq!(from("a@example.net", "Subject: x"), "<ann@example.org>");
    // `ann+bob` would be a sub-address of Ann, but it is an alias of Bob's account. Bcc names Ann,
    // because mail that names no address of Ann is not answered.
    let message = "From: b@example.net\nTo: ann+bob@example.org\nBcc: ann@example.org\n\nHi\n";
    fixture.send("b@example.net", &["ann@example.org"], message);
    let reply = fixture
        .action_message(fixture.store.snapshot().outbox(fixture.ann).unwrap().last().unwrap());
    assert!(String::from_utf8(reply).unwrap().contains("\r\nFrom: <ann@example.org>\r\n"));
    // The From that the owner set is used until the directory resolves it to another account.
    let response = VacationResponse {
        enabled: true,
        from: Some(crate::model::EmailAddress { name: None, email: "boss@shop.example".into() }),
        ..VacationResponse::default()
    };
    fixture
        .store
        .commit(fixture.ann, |txn| txn.set_vacation(&response))
        .unwrap()
        .1
        .wait_blocking()
        .unwrap();
    assert_eq!(from("c@example.net", "Subject: x"), "<boss@shop.example>");
    fixture.directory.add_alias(bob, &address("boss@shop.example")).unwrap();
    assert_eq!(from("d@example.net", "Subject: x"), "<ann@example.org>");
    // The catch-all of the domain is Ann's; the alias in it is Bob's now.
    for (sender, reason) in [("any@shop.example", "own-address"), ("boss@shop.example", "answered")]
    {
        fixture.clock.advance(Duration::from_millis(1));
        fixture.send(sender, &["ann@example.org"], HELLO);
        assert_eq!(fixture.last_reason(), reason, "{sender}");
    }
    fixture.assert_clean();
}
