//! Fills accounts to a given size. Every third email has a References field, nine in ten are seen,
//! and one in fifty is flagged. No two subjects are equal, so each email is a thread of its own.

use std::collections::BTreeSet;
use std::collections::VecDeque;

use restante::internals::message::rows;
use restante::internals::model::{
    AccountId, AccountRow, Address, EmailId, ListingFilter, MailboxUid, Role, UtcMillis,
};
use restante::internals::store::{EncodedMessage, NewEmail, NewMailbox, Store, Ticket};

use crate::words::Words;

/// About the size of a message in bytes.
pub(crate) const SIZE: usize = 800;
pub(crate) const INBOX: MailboxUid = MailboxUid(1);
pub(crate) const ARCHIVE: MailboxUid = MailboxUid(2);
pub(crate) const TRASH: MailboxUid = MailboxUid(3);
/// A word in every thousandth message.
pub(crate) const RARE: &str = "quicksilver";
/// `RARE` and the word that always follows it.
pub(crate) const PHRASE: &str = "'quicksilver lantern'";
/// When the first email was received, in milliseconds.
const BEGIN: i64 = 1_700_000_000_000;
/// The time between two emails in milliseconds. `change::some` knows this number.
pub(crate) const EVERY: i64 = 60_000;
/// How many commits may be pending when the next one begins.
const MAX_PENDING: usize = 64;

#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) id: AccountId,
    /// How many emails [`account`] puts into its Inbox.
    pub(crate) size: u64,
}

/// Returns when email `number` of an account was received.
pub(crate) fn received_at(number: u64) -> UtcMillis {
    UtcMillis(BEGIN + i64::try_from(number).unwrap() * EVERY)
}

/// Returns the account for a size, filled to at least that many emails. The size is also the
/// account's id.
pub(crate) fn account(store: &Store, size: u64) -> Account {
    let account = Account { id: AccountId(u32::try_from(size).expect("a size below 2^32")), size };
    if store.snapshot().account(account.id).unwrap().is_none() {
        make(store, account.id);
    }
    let there = store.snapshot().account_state(account.id).unwrap().emails;
    let start = std::time::Instant::now();
    let mut pending: VecDeque<Ticket> = VecDeque::new();
    let mut words = Words::new(size + there);
    for number in there..size {
        let (raw, at) = (message(&mut words, number), received_at(number));
        pending.push_back(deliver(store, account.id, &raw, at, number).1);
        if pending.len() > MAX_PENDING {
            pending.pop_front().unwrap().wait_blocking().unwrap();
        }
        // The service also folds regularly.
        if number % 5_000 == 4_999 {
            crate::background::fold_all(store, account.id);
        }
    }
    pending.into_iter().for_each(|ticket| ticket.wait_blocking().unwrap());
    if there < size {
        println!(
            "filled {} with {} emails in {:.0} s",
            account.id,
            size - there,
            start.elapsed().as_secs_f64()
        );
    }
    crate::background::fold_all(store, account.id);
    while !extend_listing(store, account.id, INBOX, ListingFilter::Unseen, 2_000) {}
    account
}

/// Fills a listing by one step of at most `most` emails. Returns whether it is complete.
pub(crate) fn extend_listing(
    store: &Store,
    account: AccountId,
    uid: MailboxUid,
    filter: ListingFilter,
    most: usize,
) -> bool {
    let (whole, ticket) =
        store.commit(account, |txn| txn.extend_listing(uid, filter, most)).unwrap();
    ticket.wait_blocking().unwrap();
    whole
}

/// Creates an empty account.
pub(crate) fn make(store: &Store, id: AccountId) {
    let row = AccountRow::new(
        format!("size-{id}"),
        Address::from_parts(format!("size-{id}"), "bench.example"),
        UtcMillis(BEGIN),
    );
    let (_, ticket) = store
        .commit(id, |txn| {
            txn.register(&row);
            for (name, role) in
                [("Inbox", Role::Inbox), ("Archive", Role::Archive), ("Trash", Role::Trash)]
            {
                txn.create_mailbox(&NewMailbox {
                    name: name.into(),
                    parent: None,
                    role: Some(role),
                    sort_order: 0,
                })?;
            }
            Ok(())
        })
        .unwrap();
    ticket.wait_blocking().unwrap();
}

/// Message `number` of an account.
pub(crate) fn message(words: &mut Words, number: u64) -> Vec<u8> {
    let mut raw = words.message(number, "reader@bench.example", SIZE);
    if number % 3 == 2 {
        // No email has this id, since Message-IDs have a random part. Three emails refer to it.
        let head = format!("References: <thread-{}@bench.example>\r\n", number / 9);
        raw.splice(0..0, head.into_bytes());
    }
    if number % 1000 == 7 {
        raw.truncate(raw.len() - 2);
        raw.extend_from_slice(format!("\r\n{RARE} lantern\r\n").as_bytes());
    }
    raw
}

/// Stores a message in the Inbox. The caller waits for the ticket.
pub(crate) fn deliver(
    store: &Store,
    account: AccountId,
    raw: &[u8],
    at: UtcMillis,
    number: u64,
) -> (EmailId, Ticket) {
    let message = EncodedMessage::new(&rows(raw, store.secrets()));
    let mut keywords = BTreeSet::new();
    if !number.is_multiple_of(10) {
        keywords.insert("$seen".to_owned());
    }
    if number.is_multiple_of(50) {
        keywords.insert("$flagged".to_owned());
    }
    let (mut results, ticket) = store.commit_message(&[account], &message, raw, |txn| {
        txn.create_email(&NewEmail {
            message: &message,
            prefix: b"Return-Path: <sender@example.net>\r\n",
            mailboxes: BTreeSet::from([INBOX]),
            keywords: keywords.clone(),
            received_at: at,
        })
    });
    (results.pop().unwrap().1.unwrap().0, ticket)
}
