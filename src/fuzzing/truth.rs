//! Fuzz bodies of the whole store: changes in any order, compared with a model, and damaged rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Choices, bounded};
use crate::model::clock::FixedClock;
use crate::model::{
    AccountId, AccountRow, Action, ActionId, ActionKind, ActionState, Address, BlobHash, Decision,
    EmailId, Listing, ListingFilter, MailboxUid, MessageRows, Role, Shape, Target, ThreadKey,
    ToldKey, ToldLifetime, UtcMillis, VacationResponse, Verdict,
};
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine, Put, Table};
use crate::store::{
    DeliveredEmail, EncodedMessage, Error, NewEmail, NewMailbox, Options, RecipientOutcome, Store,
    Txn,
};

const ACCOUNT: AccountId = AccountId(1);
/// An account that may subscribe to mailboxes of the first.
const BOB: AccountId = AccountId(2);
/// The time of the clock at the start, in milliseconds: 2026-11-21, 09:00 UTC.
const START: i64 = 1_795_251_600_000;
/// The most changes that an input makes. Its further bytes are not used.
const MAX_CHANGES: usize = 48;

/// Makes changes in any order. The store contains what the model says, and passes its check, also
/// after it is opened again.
pub fn store(data: &[u8]) {
    let mut choices = Choices(data);
    let mut model = ModelStore::new();
    for n in 0..MAX_CHANGES {
        if choices.is_empty() {
            break;
        }
        model.change(&mut choices, n);
    }
    model.finish();
}

/// Replaces any row, except those in the table of the site, by any bytes. Reading, checking and
/// changing the store may return errors, but must not panic.
pub fn damage(data: &[u8]) {
    let mut choices = Choices(bounded(data));
    let mut model = ModelStore::new();
    for n in 0..3 {
        // Delivers an email, and queues an action.
        model.change(&mut Choices(&[0, 1, 0, 3]), n);
        model.change(&mut Choices(&[6, 1]), n);
    }
    // The first table is that of the site, without whose rows the store cannot be opened.
    let table =
        Table::ALL.get(1 + choices.below(Table::ALL.len() - 1)).copied().unwrap_or(Table::Accounts);
    let rows = model.engine.rows(table);
    let Some((key, _)) = rows.get(choices.below(rows.len())) else { return };
    let puts = vec![Put { table, key: key.clone(), value: Some(choices.0.to_vec()) }];
    model.engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
    let _found = model.store.check();
    let snapshot = model.store.snapshot();
    for (id, _) in snapshot.emails(ACCOUNT, None, 10).unwrap_or_default() {
        let _read = (
            snapshot.content(ACCOUNT, id),
            snapshot.tokens(ACCOUNT, id),
            snapshot.message(ACCOUNT, id),
        );
    }
    let _read = (
        snapshot.accounts(),
        snapshot.addresses(),
        snapshot.mailboxes(ACCOUNT),
        snapshot.outbox(ACCOUNT),
        snapshot.audit_queue(&[]),
    );
    let _read = (
        snapshot.decisions(ACCOUNT, 9),
        snapshot.vacation(ACCOUNT),
        snapshot.account_state(ACCOUNT),
    );
    let listing =
        Listing { uid: MailboxUid(1), filter: ListingFilter::Every, shape: Shape::Emails };
    let _read = snapshot.listing(ACCOUNT, listing, None, 10);
    drop(snapshot);
    for id in model.live.clone() {
        let _changed = model.store.commit(ACCOUNT, |txn| txn.destroy_email(id));
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct MailboxPreferences {
    attributes: BTreeMap<String, String>,
    /// The accounts that are subscribed to the mailbox.
    subscribed: BTreeSet<AccountId>,
}

/// A store, and the model with which it is compared.
struct ModelStore {
    engine: Arc<MemoryEngine>,
    clock: Arc<FixedClock>,
    store: Store,
    mailboxes: Vec<MailboxUid>,
    preferences: BTreeMap<MailboxUid, MailboxPreferences>,
    /// The emails that are not destroyed.
    live: Vec<EmailId>,
    /// The actions of the outbox.
    queued: Vec<ActionId>,
}

impl ModelStore {
    /// Creates a store with two accounts, of which the first has three mailboxes.
    fn new() -> Self {
        let engine = Arc::new(MemoryEngine::new());
        let clock = Arc::new(FixedClock::at(UtcMillis(START)));
        let store = Store::open_engine(engine.clone(), &Options::small(), clock.clone()).unwrap();
        let (mailboxes, preferences, live, queued) =
            (Vec::new(), BTreeMap::new(), Vec::new(), Vec::new());
        let mut model = Self { engine, clock, store, mailboxes, preferences, live, queued };
        let row = AccountRow {
            quota_emails: Some(20),
            ..AccountRow::new("ann", Address::from_parts("ann", "example.org"), UtcMillis(START))
        };
        model.mailboxes = model.commit(|txn| {
            txn.register(&row);
            let wanted = [
                ("Inbox", Some(Role::Inbox)),
                ("Trash", Some(Role::Trash)),
                ("Archive", Some(Role::Archive)),
            ];
            let made = wanted.into_iter().map(|(name, role)| {
                txn.create_mailbox(&NewMailbox {
                    name: name.into(),
                    parent: None,
                    role,
                    sort_order: 0,
                })
            });
            made.collect::<Result<Vec<_>, Error>>()
        });
        let bob = AccountRow {
            name: "bob".into(),
            primary: Address::from_parts("bob", "example.org"),
            ..row
        };
        let made = model.store.commit(BOB, |txn| {
            txn.register(&bob);
            Ok(())
        });
        made.unwrap().1.wait_blocking().unwrap();
        // The owner is subscribed to new mailboxes.
        let first =
            MailboxPreferences { subscribed: [ACCOUNT].into(), ..MailboxPreferences::default() };
        model.preferences = model.mailboxes.iter().map(|uid| (*uid, first.clone())).collect();
        model
    }

    fn commit<T>(&self, change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>) -> T {
        let (result, ticket) = self.store.commit(ACCOUNT, change).unwrap();
        ticket.wait_blocking().unwrap();
        result
    }

    /// Makes one change, which the choices decide, in the store and in the model. `n` makes each
    /// message unique.
    fn change(&mut self, choices: &mut Choices<'_>, n: usize) {
        // Some changes happen in the same millisecond as the one before.
        self.clock.advance(std::time::Duration::from_millis(choices.0.len() as u64 % 3));
        match choices.below(9) {
            0..=2 => self.deliver(choices, n),
            3 | 4 => self.update(choices),
            5 if !self.live.is_empty() => {
                let id = self.live.swap_remove(choices.below(self.live.len()));
                self.commit(|txn| txn.destroy_email(id));
            }
            6 => self.change_actions(choices),
            7 => self.set_vacation(choices),
            8 => self.set_preference(choices),
            _ => {}
        }
    }

    /// Delivers an email. It is refused if the account has as many as its quota allows (20).
    fn deliver(&mut self, choices: &mut Choices<'_>, n: usize) {
        let keys = choices.byte();
        let raw = format!("Subject: {n}\r\n\r\n{keys}\r\n").into_bytes();
        let rows = MessageRows {
            blob: BlobHash(*blake3::hash(&raw).as_bytes()),
            size: raw.len() as u64,
            thread_keys: (0u8..5)
                .filter(|bit| keys >> bit & 1 == 1)
                .map(|key| ThreadKey([key; 32]))
                .collect(),
            ..MessageRows::default()
        };
        let encoded = EncodedMessage::new(&rows);
        let (mailboxes, keywords) = (self.some_mailboxes(choices.byte()), keywords(choices.byte()));
        let hash = *blake3::hash(&raw).as_bytes();
        let (mut results, ticket) = self.store.commit_message(&[ACCOUNT], &encoded, &raw, |txn| {
            let new = NewEmail {
                message: &encoded,
                prefix: b"Delivered-To: ann@example.org\r\n",
                mailboxes: mailboxes.clone(),
                keywords: keywords.clone(),
                received_at: txn.now(),
            };
            let (id, thread) = txn.create_email(&new)?;
            let ann = Address::from_parts("ann", "example.org");
            let filed = DeliveredEmail::received(id);
            txn.remember_delivery(&hash, &[filed], [(&ann, RecipientOutcome::Accepted)])?;
            Ok((id, thread))
        });
        ticket.wait_blocking().unwrap();
        match results.pop().unwrap().1 {
            Ok((id, thread)) => {
                assert!(
                    self.store.snapshot().thread_emails(ACCOUNT, thread).unwrap().contains(&id)
                );
                self.live.push(id);
            }
            Err(Error::Quota) => assert_eq!(self.live.len(), 20, "over quota"),
            Err(other) => panic!("{other}"),
        }
    }

    /// Changes the mailboxes and the keywords of one email, if there is one.
    fn update(&self, choices: &mut Choices<'_>) {
        let Some(id) = self.live.get(choices.below(self.live.len())).copied() else { return };
        let (mailboxes, keywords) = (self.some_mailboxes(choices.byte()), keywords(choices.byte()));
        self.commit(|txn| txn.update_email(id, mailboxes.clone(), keywords.clone()));
        let email = self.store.snapshot().email(ACCOUNT, id).unwrap().unwrap();
        assert_eq!((email.mailboxes, email.keywords), (mailboxes, keywords));
    }

    /// Queues an action, with a told row and a decision; or holds the action that was queued last,
    /// removes it in half of the cases, and removes a told row.
    fn change_actions(&mut self, choices: &mut Choices<'_>) {
        let what = choices.byte();
        let email = self.live.first().copied();
        let who = ToldKey([what % 4; 32]);
        if what & 4 == 0 {
            let due = UtcMillis(START + i64::from(what));
            let queued = self.commit(|txn| {
                let generation = txn.snapshot().vacation(ACCOUNT)?.generation;
                txn.remember_told(
                    &who,
                    &Address::from_parts("bob", "example.net"),
                    &ToldLifetime::of(generation),
                )?;
                let id = txn.queue_action(action(due, email, who), b"Subject: x\r\n\r\n")?;
                txn.add_decision(&Decision {
                    at: txn.now(),
                    email,
                    sender: None,
                    recipient: Address::from_parts("ann", "example.org"),
                    verdict: Verdict::Answered(id),
                    steps: Vec::new(),
                })?;
                Ok(id)
            });
            self.queued.push(queued);
        } else if let Some(id) = self.queued.pop() {
            self.commit(|txn| {
                let read = txn.action(id)?;
                txn.update_action(
                    &read,
                    &Action { state: ActionState::Held, due: UtcMillis(START), ..read.clone() },
                )?;
                if what & 8 == 0 {
                    txn.remove_action(id)?;
                }
                txn.remove_told(&who).map(drop)
            });
            if what & 8 != 0 {
                self.queued.push(id);
            }
        }
    }

    fn set_vacation(&self, choices: &mut Choices<'_>) {
        let what = choices.byte();
        let response = VacationResponse {
            enabled: what & 1 == 1,
            text_body: Some(format!("{}", what >> 4)),
            ..VacationResponse::default()
        };
        self.commit(|txn| txn.set_vacation(&response));
    }

    /// Changes an attribute of a mailbox, or a subscription. A valid change takes one modseq if it
    /// changes anything; an invalid one is refused.
    fn set_preference(&mut self, choices: &mut Choices<'_>) {
        let (what, uid) = (choices.byte(), self.mailboxes[choices.below(self.mailboxes.len())]);
        let mut wanted = self.preferences[&uid].clone();
        let before = self.store.snapshot().account_state(ACCOUNT).unwrap().modseq;
        let changed = if what & 1 == 0 {
            let names = ["color", "note", "of-the-owner", "Bad"];
            let values = ["#1e90ff", "#FF8800", "blue", "two words", "", "line\nend"];
            let (name, value) =
                (names[choices.below(names.len())], values[choices.below(values.len())]);
            if value.is_empty() {
                wanted.attributes.remove(name);
            } else {
                wanted.attributes.insert(name.to_owned(), value.to_owned());
            }
            let attributes = wanted.attributes.clone();
            let done = self.store.commit(ACCOUNT, |txn| {
                txn.update_mailbox(uid, |row| row.attributes.clone_from(&attributes))
            });
            // The rule of `check_attribute` for these names and values.
            let is_valid = value.is_empty()
                || name != "Bad"
                    && !value.contains('\n')
                    && (name != "color" || value.starts_with('#'));
            assert_eq!(is_valid, done.is_ok(), "{name}={value}");
            done
        } else {
            let (who, on) = (if what & 2 == 0 { ACCOUNT } else { BOB }, what & 4 == 0);
            if on {
                wanted.subscribed.insert(who);
            } else {
                wanted.subscribed.remove(&who);
            }
            self.store.commit(ACCOUNT, |txn| txn.subscribe(uid, who, on))
        };
        let Ok((changed, ticket)) = changed else { return };
        ticket.wait_blocking().unwrap();
        let after = self.store.snapshot().account_state(ACCOUNT).unwrap().modseq;
        assert_eq!(
            (changed, after.0),
            (wanted != self.preferences[&uid], before.0 + u64::from(changed))
        );
        self.preferences.insert(uid, wanted);
    }

    /// Returns the mailboxes that the bits choose, or else the first one.
    fn some_mailboxes(&self, bits: u8) -> BTreeSet<MailboxUid> {
        let chosen = self.mailboxes.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
        let chosen: BTreeSet<MailboxUid> = chosen.map(|(_, uid)| *uid).collect();
        if chosen.is_empty() { self.mailboxes.iter().copied().take(1).collect() } else { chosen }
    }

    /// Compares the store with the model, now and after it is opened again.
    fn finish(mut self) {
        self.live.sort_unstable();
        self.queued.sort_unstable();
        let Self { engine, clock, store, preferences, live, queued, .. } = self;
        let check = |store: &Store| {
            check_contents(store, &live, &queued);
            assert_eq!(read_preferences(store), preferences);
        };
        check(&store);
        drop(store);
        check(&Store::open_engine(engine, &Options::small(), clock).unwrap());
    }
}

fn check_contents(store: &Store, live: &[EmailId], queued: &[ActionId]) {
    let breaches = store.check().unwrap();
    assert!(
        breaches.is_empty(),
        "{}",
        breaches.iter().map(|breach| format!("{breach}\n")).collect::<String>()
    );
    let snapshot = store.snapshot();
    let emails: Vec<EmailId> =
        snapshot.emails(ACCOUNT, None, 1000).unwrap().into_iter().map(|(id, _)| id).collect();
    assert_eq!(emails, live, "the emails are listed in the order of their ids");
    let actions: Vec<ActionId> =
        snapshot.outbox(ACCOUNT).unwrap().into_iter().map(|action| action.id).collect();
    assert_eq!(actions, queued);
}

fn read_preferences(store: &Store) -> BTreeMap<MailboxUid, MailboxPreferences> {
    let snapshot = store.snapshot();
    let subscribed_by = |user| snapshot.subscribed_mailboxes(ACCOUNT, user).unwrap();
    let (own, bobs) = (subscribed_by(ACCOUNT), subscribed_by(BOB));
    let one = |(uid, mailbox): (MailboxUid, crate::model::Mailbox)| {
        let mut subscribed: BTreeSet<AccountId> =
            own.contains(&uid).then_some(ACCOUNT).into_iter().collect();
        // All subscribers but the owner: BOB, or nobody.
        subscribed.extend(snapshot.subscribers(ACCOUNT, uid, AccountId(0), 9).unwrap());
        assert_eq!(subscribed.contains(&BOB), bobs.contains(&uid));
        (uid, MailboxPreferences { attributes: mailbox.attributes, subscribed })
    };
    snapshot.mailboxes(ACCOUNT).unwrap().into_iter().map(one).collect()
}

/// Returns the keywords that the bits choose.
fn keywords(bits: u8) -> BTreeSet<String> {
    let words = ["$seen", "$flagged", "$draft", "$junk", "own"].iter().enumerate();
    words.filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, word)| (*word).to_owned()).collect()
}

fn action(due: UtcMillis, email: Option<EmailId>, told: ToldKey) -> Action {
    Action {
        id: ActionId(0),
        kind: ActionKind::Reply,
        state: ActionState::Waiting,
        urgent: false,
        created: UtcMillis(START),
        due,
        expires: UtcMillis(START),
        attempts: 0,
        last_error: None,
        sender: None,
        ret: None,
        envid: None,
        recipients: vec![Target::without_reports(Address::from_parts("bob", "example.net"))],
        email,
        told: Some(told),
        after: None,
        duplicate_key: None,
        seven_bit: false,
        message_id: "r1@example.org".into(),
        own_bytes: 0,
        blob: None,
        submission: None,
    }
}
