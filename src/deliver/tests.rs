use std::time::Duration;

use super::*;
use crate::account::{NewAccount, Settings as Addresses};
use crate::message::bare_rows;
use crate::message::header::IncomingMessage;
use crate::model::clock::FixedClock;
use crate::model::{AccountId, Address, Clock as _, UtcMillis, VacationResponse, Verdict};
use crate::store::engine::fault::FaultyEngine;
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine, Put, Table};
use crate::store::{self, EncodedMessage, Error, NewEmail, NewMailbox, Options};

mod admission;
mod filing;
mod notices;
mod reports;
mod vacation;

struct Fixture {
    clock: Arc<FixedClock>,
    settings: LiveValue<Settings>,
    store: Store,
    directory: Directory,
    deliver: Arc<Deliverer>,
    ann: AccountId,
}

fn bed() -> Fixture {
    bed_over(Arc::new(MemoryEngine::new()))
}

fn bed_over(engine: Arc<dyn Engine>) -> Fixture {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_795_251_600_000)));
    let store = Store::open_engine(engine, &Options::small(), clock.clone()).unwrap();
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
    fn away(&self, text: &str) {
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

    fn send(&self, sender: &str, recipients: &[&str], message: &str) -> Vec<String> {
        let mut envelope = Envelope {
            sender: Address::parse(sender).ok(),
            lhlo: "mx".into(),
            ..Envelope::default()
        };
        let mut session = DeliveryTransaction::default();
        let mut said = Vec::new();
        for recipient in recipients {
            let recipient = Recipient::plain(Address::parse(recipient).unwrap());
            let reply = self.deliver.admit(&mut session, &envelope, &recipient);
            if reply.is_positive() {
                envelope.recipients.push(recipient);
            } else {
                said.push(format!("{} {}", reply.code, reply.text));
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = message.replace('\n', "\r\n").into_bytes();
        let replies = runtime.block_on(Arc::clone(&self.deliver).deliver(
            session,
            envelope,
            IncomingMessage::new(body),
        ));
        said.extend(replies.iter().map(|reply| format!("{} {}", reply.code, reply.text)));
        said
    }

    fn last_reason(&self) -> String {
        match self.store.snapshot().decisions(self.ann, 1).unwrap().pop().unwrap().verdict {
            Verdict::Answered(_) => "answered".into(),
            Verdict::Silent { reason, .. } => reason,
        }
    }

    /// The octets that an action of ann's sends.
    fn sent(&self, action: &crate::model::Action) -> Vec<u8> {
        self.store.snapshot().action_message(self.ann, action).unwrap()
    }

    fn clean(&self) {
        let breaches = self.store.check().unwrap();
        assert!(breaches.is_empty(), "{breaches:?}");
    }
}

/// Nobody is answered who may be the account itself, and the mail is filed.
#[test]
fn mail_from_an_address_whose_row_is_damaged_is_filed_and_not_answered() {
    for damaged in [None, Some(vec![99])] {
        let engine = Arc::new(MemoryEngine::new());
        let bed = bed_over(engine.clone());
        bed.away("Away");
        let puts =
            vec![Put { table: Table::Addresses, key: b"lee@example.org".to_vec(), value: damaged }];
        engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
        bed.directory.add(&NewAccount::at(Address::parse("eve@example.org").unwrap())).unwrap();
        assert!(
            bed.send("lee@example.org", &["ann@example.org"], HELLO)[0].starts_with("250 filed as")
        );
        assert_eq!(bed.last_reason(), "own-address");
        bed.clock.advance(Duration::from_millis(1));
        assert!(
            bed.send("bob@example.net", &["ann@example.org"], HELLO)[0].starts_with("250 filed as")
        );
        assert_eq!(bed.last_reason(), "answered");
    }
}

const HELLO: &str = "From: Bob <bob@example.net>\nTo: ann@example.org\nSubject: Hello\nMessage-ID: <1@example.net>\n\nHi\n";

#[test]
fn a_vacation_answers_once_and_says_why_not_the_next_time() {
    let bed = bed();
    assert!(bed.send("bob@example.net", &["ann@example.org"], HELLO)[0].starts_with("250"));
    assert_eq!(bed.last_reason(), "disabled");
    bed.away("Away");
    bed.clock.advance(Duration::from_secs(60));
    bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}2\n"));
    assert_eq!(bed.last_reason(), "answered");
    let actions = bed.store.snapshot().outbox(bed.ann).unwrap();
    assert_eq!(
        (actions.len(), actions[0].recipient_summary(), &actions[0].sender),
        (1, "bob@example.net".into(), &None)
    );
    bed.clock.advance(Duration::from_secs(60));
    bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}3\n"));
    assert_eq!(bed.last_reason(), "already-told");
    // The same octets once more: the retry of a message that was answered answers nothing.
    bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}2\n"));
    assert_eq!(bed.store.snapshot().outbox(bed.ann).unwrap().len(), 1);
    bed.away("Away until Monday");
    bed.clock.advance(Duration::from_secs(60));
    bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}4\n"));
    assert_eq!(bed.last_reason(), "answered");
    bed.clean();
}

#[test]
fn what_is_filed_in_junk_is_not_answered() {
    let bed = bed();
    bed.directory.update(bed.ann, |row| row.detail_files = true).unwrap();
    bed.away("Away");
    let message = HELLO.replace("To: ann@", "To: ann+junk@");
    bed.send("bob@example.net", &["ann+junk@example.org"], &message);
    assert_eq!(bed.last_reason(), "spam");
    bed.clock.advance(Duration::from_secs(60));
    bed.send("bob@example.net", &["ann@example.org"], HELLO);
    assert_eq!(bed.last_reason(), "answered");
}

#[test]
fn a_reply_is_from_no_address_that_the_directory_gives_to_somebody_else() {
    let bed = bed();
    let address = |text: &str| Address::parse(text).unwrap();
    bed.directory.add_catch_all(bed.ann, "shop.example").unwrap();
    let bob = bed.directory.add(&NewAccount::at(address("bob@example.org"))).unwrap();
    bed.directory.add_alias(bob, &address("ann+bob@example.org")).unwrap();
    let from = |sender: &str, header: &str| {
        bed.clock.advance(Duration::from_millis(1));
        let message = format!("From: {sender}\nTo: ann@example.org\n{header}\n\nHi\n");
        bed.send(sender, &["ann@example.org"], &message);
        let reply = bed.sent(bed.store.snapshot().outbox(bed.ann).unwrap().last().unwrap());
        crate::message::header::first(&reply, "From").unwrap().unfolded()
    };
    bed.away("Away");
    assert_eq!(from("a@example.net", "Subject: x"), "<ann@example.org>");
    let message = "From: b@example.net\nTo: ann+bob@example.org\nBcc: ann@example.org\n\nHi\n";
    bed.send("b@example.net", &["ann@example.org"], message);
    let reply = bed.sent(bed.store.snapshot().outbox(bed.ann).unwrap().last().unwrap());
    assert!(String::from_utf8(reply).unwrap().contains("\r\nFrom: <ann@example.org>\r\n"));
    // What the owner set holds until the directory gives it to somebody else.
    let response = VacationResponse {
        enabled: true,
        from: Some(crate::model::EmailAddress { name: None, email: "boss@shop.example".into() }),
        ..VacationResponse::default()
    };
    bed.store
        .commit(bed.ann, |txn| txn.set_vacation(&response))
        .unwrap()
        .1
        .wait_blocking()
        .unwrap();
    assert_eq!(from("c@example.net", "Subject: x"), "<boss@shop.example>");
    bed.directory.add_alias(bob, &address("boss@shop.example")).unwrap();
    assert_eq!(from("d@example.net", "Subject: x"), "<ann@example.org>");
    // Mail from any address that leads to the account is its own; mail from one that does not is
    // not.
    for (sender, reason) in [("any@shop.example", "own-address"), ("boss@shop.example", "answered")]
    {
        bed.clock.advance(Duration::from_millis(1));
        bed.send(sender, &["ann@example.org"], HELLO);
        assert_eq!(bed.last_reason(), reason, "{sender}");
    }
    bed.clean();
}
