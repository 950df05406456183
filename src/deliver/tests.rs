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
    let store = Store::over(engine, &Options::small(), clock.clone()).unwrap();
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
        let response = VacationResponse { enabled: true, text_body: Some(text.into()), ..VacationResponse::default() };
        self.store.commit(self.ann, |txn| txn.set_vacation(&response)).unwrap().1.wait_blocking().unwrap();
    }

    fn send(&self, sender: &str, recipients: &[&str], message: &str) -> Vec<String> {
        let mut envelope = Envelope { sender: Address::parse(sender).ok(), lhlo: "mx".into(), ..Envelope::default() };
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
        let replies =
            runtime.block_on(Arc::clone(&self.deliver).deliver(session, envelope, IncomingMessage::new(body)));
        said.extend(replies.iter().map(|reply| format!("{} {}", reply.code, reply.text)));
        said
    }

    fn last_reason(&self) -> String {
        match self.store.view().decisions(self.ann, 1).unwrap().pop().unwrap().verdict {
            Verdict::Answered(_) => "answered".into(),
            Verdict::Silent { reason, .. } => reason,
        }
    }

    /// The octets that an action of ann's sends.
    fn sent(&self, action: &crate::model::Action) -> Vec<u8> {
        self.store.view().action_message(self.ann, action).unwrap()
    }

    fn clean(&self) {
        let breaches = self.store.check().unwrap();
        assert!(breaches.is_empty(), "{breaches:?}");
    }
}

/// Mail for somebody whose row is damaged or lost waits, and nobody else's does.
#[test]
fn a_damaged_row_of_the_directory_bounces_nothing() {
    let later = "451 trouble with the mail store: try again later";
    for (table, key) in [(Table::Addresses, &b"lee@example.org"[..]), (Table::Accounts, &[0, 0, 0, 1])] {
        for damaged in [None, Some(vec![99])] {
            let engine = Arc::new(MemoryEngine::new());
            let bed = bed_over(engine.clone());
            let eve = bed.directory.add(&NewAccount::at(Address::parse("eve@example.org").unwrap())).unwrap();
            let sent = |to: &str| bed.send("bob@example.net", &[to], HELLO)[0].clone();
            let puts = vec![Put { table, key: key.to_vec(), value: damaged }];
            engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
            // First as the directory in memory has it, then as it is read anew.
            if table == Table::Accounts {
                assert_eq!(sent("lee@example.org"), later);
            }
            bed.directory.update(eve, |row| row.active = true).unwrap();
            assert_eq!((sent("lee@example.org"), sent("lee+x@example.org")), (later.to_owned(), later.to_owned()));
            assert_eq!(sent("nobody@example.org"), "550 nobody here has that address");
            assert!(sent("eve@example.org").starts_with("250 filed as"));
            assert_eq!(sent("ann@example.org") == later, table == Table::Accounts);
        }
    }
}

/// Nobody is answered who may be the account itself, and the mail is filed.
#[test]
fn mail_from_an_address_whose_row_is_damaged_is_filed_and_not_answered() {
    for damaged in [None, Some(vec![99])] {
        let engine = Arc::new(MemoryEngine::new());
        let bed = bed_over(engine.clone());
        bed.away("Away");
        let puts = vec![Put { table: Table::Addresses, key: b"lee@example.org".to_vec(), value: damaged }];
        engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
        bed.directory.add(&NewAccount::at(Address::parse("eve@example.org").unwrap())).unwrap();
        assert!(bed.send("lee@example.org", &["ann@example.org"], HELLO)[0].starts_with("250 filed as"));
        assert_eq!(bed.last_reason(), "own-address");
        bed.clock.advance(Duration::from_millis(1));
        assert!(bed.send("bob@example.net", &["ann@example.org"], HELLO)[0].starts_with("250 filed as"));
        assert_eq!(bed.last_reason(), "answered");
    }
}

const HELLO: &str =
    "From: Bob <bob@example.net>\nTo: ann@example.org\nSubject: Hello\nMessage-ID: <1@example.net>\n\nHi\n";

#[test]
fn a_retry_gets_the_same_id_and_adds_nothing() {
    let bed = bed();
    let first = bed.send("bob@example.net", &["ann@example.org"], HELLO);
    let id = first[0].rsplit(' ').next().unwrap().to_owned();
    let again = bed.send("bob@example.net", &["ann@example.org"], HELLO);
    assert_eq!(again, [format!("250 filed already as {id}")]);
    // Another envelope sender, or other octets, is another message, whatever its Message-ID says.
    assert!(bed.send("eve@example.net", &["ann@example.org"], HELLO)[0].starts_with("250 filed as"));
    assert!(
        bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}more\n"))[0].starts_with("250 filed as")
    );
    assert_eq!(bed.store.view().emails(bed.ann, None, 99).unwrap().len(), 3);
    bed.clean();
}

/// Behind our trace fields what stood before the header ended it, or lost its first field: whoever reads the whole message
/// saw the rest of the header as text.
#[test]
fn what_stands_before_the_header_is_not_kept_behind_the_trace_fields() {
    for before in ["\n", " \t\n\n", "\u{feff}", "From bob Sat Jan  1 00:00:00 2026\n", "\u{feff}\n>From bob\n"] {
        let bed = bed();
        assert!(bed.send("bob@example.net", &["ann@example.org"], &format!("{before}{HELLO}"))[0].starts_with("250"));
        let (id, email) = bed.store.view().emails(bed.ann, None, 9).unwrap().pop().unwrap();
        let whole = String::from_utf8(bed.store.view().message(bed.ann, id).unwrap().unwrap()).unwrap();
        let (header, text) = whole.split_once("\r\n\r\n").unwrap();
        assert_eq!(text, "Hi\r\n", "{before:?}");
        let names: Vec<&str> = header.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
        let own = ["From", "To", "Subject", "Message-ID"];
        assert_eq!(names, [&["Return-Path", "Delivered-To", "Received"][..], &own].concat(), "{before:?}");
        assert_eq!(email.size, whole.len() as u64, "{before:?}");
        let again = bed.send("bob@example.net", &["ann@example.org"], &format!("{before}{HELLO}"));
        assert_eq!(again, [format!("250 filed already as {id}")]);
        bed.clean();
    }
    // A text that looks like no header is kept as it came.
    let bed = bed();
    bed.send("bob@example.net", &["ann@example.org"], "\nA text.\n");
    let (id, _) = bed.store.view().emails(bed.ann, None, 9).unwrap().pop().unwrap();
    assert!(bed.store.view().message(bed.ann, id).unwrap().unwrap().ends_with(b"\r\n\r\nA text.\r\n"));
}

#[test]
fn what_was_served_long_ago_is_no_retry_and_what_is_kept_for_a_time_goes() {
    let bed = bed();
    for n in 0..60 {
        bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}{n}\n"));
    }
    let kept = || (bed.store.view().deliveries(bed.ann).unwrap(), bed.store.view().decisions(bed.ann, 999).unwrap());
    assert_eq!((kept().0.len(), kept().1.len()), (60, 60));
    bed.clock.advance(Duration::from_secs(13 * 24 * 3600));
    assert!(bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}1\n"))[0].contains("filed already"));
    bed.clock.advance(Duration::from_secs(2 * 24 * 3600));
    assert!(bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}1\n"))[0].contains("filed as"));
    bed.clock.advance(Duration::from_secs(90 * 24 * 3600));
    let now = bed.clock.now();
    for n in 100..200 {
        bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}{n}\n"));
    }
    assert!(kept().0.len() == 100 && kept().0.iter().all(|served| served.at >= now), "{}", kept().0.len());
    assert!(kept().1.len() == 100 && kept().1.iter().all(|decision| decision.at >= now), "{}", kept().1.len());
    bed.clean();
}

#[test]
fn two_aliases_of_one_person_get_one_copy_and_two_answers() {
    let bed = bed();
    let said = bed.send("bob@example.net", &["ann@example.org", "lee@example.org", "ann+x@example.org"], HELLO);
    assert_eq!(said.len(), 3);
    assert!(said.iter().all(|reply| *reply == said[0] && reply.starts_with("250 filed as")), "{said:?}");
    assert_eq!(bed.store.view().emails(bed.ann, None, 99).unwrap().len(), 1);
    assert_eq!(bed.send("bob@example.net", &["nobody@example.org"], HELLO), ["550 nobody here has that address"]);
    bed.clean();
}

#[test]
fn a_vacation_answers_once_and_says_why_not_the_next_time() {
    let bed = bed();
    assert!(bed.send("bob@example.net", &["ann@example.org"], HELLO)[0].starts_with("250"));
    assert_eq!(bed.last_reason(), "disabled");
    bed.away("Away");
    bed.clock.advance(Duration::from_secs(60));
    bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}2\n"));
    assert_eq!(bed.last_reason(), "answered");
    let actions = bed.store.view().outbox(bed.ann).unwrap();
    assert_eq!((actions.len(), actions[0].to_line(), &actions[0].sender), (1, "bob@example.net".into(), &None));
    bed.clock.advance(Duration::from_secs(60));
    bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}3\n"));
    assert_eq!(bed.last_reason(), "already-told");
    // The same octets once more: the retry of a message that was answered answers nothing.
    bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}2\n"));
    assert_eq!(bed.store.view().outbox(bed.ann).unwrap().len(), 1);
    bed.away("Away until Monday");
    bed.clock.advance(Duration::from_secs(60));
    bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}4\n"));
    assert_eq!(bed.last_reason(), "answered");
    bed.clean();
}

#[test]
fn a_detail_files_where_the_owner_allows_it() {
    let bed = bed();
    let counts = |bed: &Fixture, name: &str| {
        bed.store.view().find_mailbox(bed.ann, name).unwrap().unwrap().1.counts.total_emails
    };
    bed.send("bob@example.net", &["ann+archive@example.org"], HELLO);
    assert_eq!((counts(&bed, "inbox"), counts(&bed, "archive")), (1, 0));
    bed.directory.update(bed.ann, |row| row.detail_files = true).unwrap();
    bed.send("bob@example.net", &["ann+archive@example.org"], &format!("{HELLO}2\n"));
    bed.send("bob@example.net", &["ann+no.such@example.org"], &format!("{HELLO}3\n"));
    assert_eq!((counts(&bed, "inbox"), counts(&bed, "archive")), (2, 1));
    // A dot leads down.
    let made = bed.store.commit(bed.ann, |txn| {
        let new = |name: &str, parent| NewMailbox { name: name.into(), parent, role: None, sort_order: 0 };
        let lists = txn.create_mailbox(&new("Lists", None))?;
        txn.create_mailbox(&new("rust", Some(lists)))
    });
    made.unwrap().1.wait_blocking().unwrap();
    bed.send("bob@example.net", &["ann+Lists.Rust@example.org"], &format!("{HELLO}4\n"));
    assert_eq!((counts(&bed, "Lists/rust"), counts(&bed, "inbox")), (1, 2));
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
fn where_nobody_has_an_account_mail_waits_instead_of_bouncing() {
    let bed = bed();
    assert!(bed.send("bob@example.net", &["nobody@example.org"], HELLO)[0].starts_with("550"));
    bed.directory.remove(bed.ann).unwrap();
    assert!(bed.send("bob@example.net", &["ann@example.org"], HELLO)[0].starts_with("451"));
}

#[test]
fn room_is_asked_for_when_the_size_is_announced() {
    let bed = bed();
    bed.directory.update(bed.ann, |row| row.quota_octets = Some(1000)).unwrap();
    let ask = |size| {
        let envelope = Envelope { size, ..Envelope::default() };
        let mut session = DeliveryTransaction::default();
        let admit = |session: &mut DeliveryTransaction, who: &str| {
            bed.deliver.admit(session, &envelope, &Recipient::plain(Address::parse(who).unwrap())).code
        };
        (admit(&mut session, "ann@example.org"), admit(&mut session, "lee@example.org"))
    };
    // The message is filed once, whichever of the two is asked.
    assert_eq!((ask(None), ask(Some(900)), ask(Some(1001))), ((250, 250), (250, 250), (452, 452)));
}

#[test]
fn mail_whose_parser_panics_is_filed_unread_and_not_answered() {
    assert!(guarded("a test", || panic!("on purpose")).is_none());
    let bed = bed();
    let raw = b"Subject: x\r\n\r\nbody\r\n";
    let encoded = EncodedMessage::new(&bare_rows(raw));
    let (_, ticket) = bed.store.commit_message(&[bed.ann], &encoded, raw, |txn| {
        let (mailboxes, received_at) = ([txn.state().inbox].into(), txn.now());
        let new = NewEmail { message: &encoded, prefix: b"", mailboxes, keywords: [].into(), received_at };
        txn.create_email(&new)
    });
    ticket.wait_blocking().unwrap();
    let (id, _) = bed.store.view().emails(bed.ann, None, 1).unwrap().pop().unwrap();
    assert_eq!(bed.store.view().message(bed.ann, id).unwrap().unwrap(), raw);
    bed.clean();
}

#[test]
fn mail_to_an_account_that_is_repaired_waits_and_mail_to_others_does_not() {
    let bed = bed();
    bed.directory.add(&NewAccount::at(Address::parse("ben@example.org").unwrap())).unwrap();
    bed.away("Away");
    bed.send("bob@example.net", &["ann@example.org"], HELLO);
    let remake = |raw: &[u8]| crate::message::rows_or_bare(raw, bed.store.secrets());
    let mut n = 0;
    let mut heard = Vec::new();
    let done = bed.store.repair(store::repair::RepairScope::Rebuild, Some(&[bed.ann]), &remake, &mut |_| {
        if !bed.store.unfinished().unwrap().is_empty() && n < 3 {
            n += 1;
            heard.push(bed.send("eve@example.net", &["ann@example.org", "ben@example.org"], &format!("{HELLO}{n}\n")));
        }
        true
    });
    assert_eq!((done.unwrap().renewed, heard.len()), (vec![bed.ann], 3));
    for replies in heard {
        assert!(replies[0].starts_with("451 ") && replies[1].starts_with("250 "), "{replies:?}");
    }
    // Postfix tries again, and each is filed once and answered once.
    for n in 1..=3 {
        let message = format!("{HELLO}{n}\n");
        let replies = bed.send("eve@example.net", &["ann@example.org", "ben@example.org"], &message);
        assert!(replies[0].starts_with("250 filed as") && replies[1].starts_with("250 filed already"), "{replies:?}");
    }
    assert_eq!(bed.store.view().outbox(bed.ann).unwrap().len(), 2, "bob and eve");
    let found = bed.store.check_deep(Some(&remake), &mut |_| true).unwrap();
    assert_eq!(found.breaches, []);
}

#[test]
fn quota_and_inactive_accounts_and_loops() {
    let bed = bed();
    bed.directory.update(bed.ann, |row| row.quota_emails = Some(1)).unwrap();
    assert!(bed.send("bob@example.net", &["ann@example.org"], HELLO)[0].starts_with("250"));
    assert_eq!(bed.send("bob@example.net", &["ann@example.org"], "x: y\n\n"), ["452 the mailbox is full"]);
    bed.directory.update(bed.ann, |row| row.active = false).unwrap();
    assert!(bed.send("bob@example.net", &["ann@example.org"], HELLO)[0].starts_with("550 that mailbox"));
    bed.directory.update(bed.ann, |row| (row.active, row.quota_emails) = (true, None)).unwrap();
    let loops = "Received: x\n".repeat(100) + HELLO;
    assert!(bed.send("bob@example.net", &["ann@example.org"], &loops)[0].starts_with("554"));
    bed.clean();
}

#[test]
fn a_success_notice_is_queued_once_where_it_was_asked_for() {
    let bed = bed();
    let mut envelope =
        Envelope { sender: Address::parse("bob@example.net").ok(), lhlo: "mx".into(), ..Envelope::default() };
    let notify = crate::model::DsnNotify { success: true, ..crate::model::DsnNotify::default() };
    for (recipient, notify) in [("ann@example.org", notify), ("lee@example.org", crate::model::DsnNotify::default())] {
        let recipient = Recipient { notify, ..Recipient::plain(Address::parse(recipient).unwrap()) };
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
                .block_on(Arc::clone(&bed.deliver).deliver(session, envelope.clone(), IncomingMessage::new(body)))
                .len(),
            2
        );
    }
    let actions = bed.store.view().outbox(bed.ann).unwrap();
    assert_eq!((actions.len(), actions[0].kind), (1, crate::model::ActionKind::Report));
    let text = String::from_utf8(bed.store.view().action_message(bed.ann, &actions[0]).unwrap()).unwrap();
    assert!(text.contains("Final-Recipient: rfc822; ann@example.org") && !text.contains("lee@"), "{text}");
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
        let notify = crate::model::DsnNotify { success: true, ..crate::model::DsnNotify::default() };
        let recipient = Recipient { notify, ..Recipient::plain(Address::parse("ann@example.org").unwrap()) };
        let mut session = DeliveryTransaction::default();
        assert!(self.deliver.admit(&mut session, &envelope, &recipient).is_positive());
        envelope.recipients.push(recipient);
        let body = body.replace('\n', "\r\n").into_bytes();
        assert!(
            self.deliver.may_answer(&session, &envelope, &IncomingMessage::new(body.clone())),
            "who sent it must be found out first"
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(Arc::clone(&self.deliver).deliver(session, envelope, IncomingMessage::new(body)))
    }

    /// To whom actions of ann's go.
    fn queued(&self) -> Vec<String> {
        self.store.view().outbox(self.ann).unwrap().iter().map(crate::model::Action::to_line).collect()
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
    bed.directory.update(bed.ann, |row| row.quota_octets = Some(400)).unwrap();
    for n in 1..5 {
        let long = message(n) + &"x".repeat(4000);
        assert_eq!(bed.ask_for_notice("zoe@example.net", None, &long)[0].code, 452);
    }
    bed.directory.update(bed.ann, |row| row.quota_octets = None).unwrap();
    for n in 10..14 {
        let again = message(n);
        for _ in 0..2 {
            assert_eq!(bed.ask_for_notice(&format!("bob{n}@example.net"), None, &again)[0].code, 250);
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
    bed.directory.update(bed.ann, |row| row.quota_octets = Some(400)).unwrap();
    let long = format!("{HELLO}{}", "x".repeat(4000));
    for n in 0..5 {
        let sender = format!("zoe{n}@example.net");
        assert_eq!(bed.send(&sender, &["ann@example.org"], &long), ["452 the mailbox is full"]);
    }
    bed.directory.update(bed.ann, |row| row.quota_octets = None).unwrap();
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
    assert_eq!(bed.queued(), ["bob@example.net", "bob@example.net"], "the notification and the reply");
    bed.clean();
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
        let reply = bed.sent(bed.store.view().outbox(bed.ann).unwrap().last().unwrap());
        crate::message::header::first(&reply, "From").unwrap().unfolded()
    };
    bed.away("Away");
    assert_eq!(from("a@example.net", "Subject: x"), "<ann@example.org>");
    let message = "From: b@example.net\nTo: ann+bob@example.org\nBcc: ann@example.org\n\nHi\n";
    bed.send("b@example.net", &["ann@example.org"], message);
    let reply = bed.sent(bed.store.view().outbox(bed.ann).unwrap().last().unwrap());
    assert!(String::from_utf8(reply).unwrap().contains("\r\nFrom: <ann@example.org>\r\n"));
    // What the owner set holds until the directory gives it to somebody else.
    let response = VacationResponse {
        enabled: true,
        from: Some(crate::model::EmailAddress { name: None, email: "boss@shop.example".into() }),
        ..VacationResponse::default()
    };
    bed.store.commit(bed.ann, |txn| txn.set_vacation(&response)).unwrap().1.wait_blocking().unwrap();
    assert_eq!(from("c@example.net", "Subject: x"), "<boss@shop.example>");
    bed.directory.add_alias(bob, &address("boss@shop.example")).unwrap();
    assert_eq!(from("d@example.net", "Subject: x"), "<ann@example.org>");
    // Mail from any address that leads to the account is its own; mail from one that does not is
    // not.
    for (sender, reason) in [("any@shop.example", "own-address"), ("boss@shop.example", "answered")] {
        bed.clock.advance(Duration::from_millis(1));
        bed.send(sender, &["ann@example.org"], HELLO);
        assert_eq!(bed.last_reason(), reason, "{sender}");
    }
    bed.clean();
}

#[test]
fn broken_mail_is_filed_as_it_came() {
    let bed = bed();
    let broken = "\u{0}\u{1}no header\n\nContent-Type: multipart/mixed; boundary=x\n--x";
    assert!(bed.send("", &["ann@example.org"], broken)[0].starts_with("250"));
    let (id, _) = bed.store.view().emails(bed.ann, None, 1).unwrap().pop().unwrap();
    let message = bed.store.view().message(bed.ann, id).unwrap().unwrap();
    assert!(message.starts_with(b"Return-Path: <>\r\n") && message.ends_with(broken.replace('\n', "\r\n").as_bytes()));
    bed.clean();
}
