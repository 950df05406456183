//! Fills accounts to a given size. Every third email has a References field, and nine in ten are
//! seen. No two subjects of an account are equal, so each email is a thread of its own.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use restante::internals::account::{Directory, NewAccount, Settings, hash_password};
use restante::internals::message::rows;
use restante::internals::model::clock::SystemClock;
use restante::internals::model::{Address, UtcMillis};
use restante::internals::store::{EncodedMessage, NewEmail, Options, Store, Ticket};

use crate::words::Words;

pub(crate) const USERS: [&str; 2] = ["reader@bench.example", "other@bench.example"];
pub(crate) const PASSWORD: &str = "a password of the bench";
/// About the size of a message in bytes.
const SIZE: usize = 2000;
/// A word in few emails.
pub(crate) const RARE: &str = "zanzibar";
/// About how many emails of an account have `RARE`.
const RARE_EMAILS: u64 = 60;
/// When the first email was received, in milliseconds.
const BEGIN: i64 = 1_700_000_000_000;
/// How many commits may be pending when the next one begins.
const MAX_PENDING: usize = 64;

/// Creates the missing accounts, and fills each to at least `size` emails.
pub(crate) fn accounts(dir: &Path, size: u64) {
    let store = Store::open(dir, &Options::default(), Arc::new(SystemClock)).expect("the store");
    USERS.iter().for_each(|user| account(&store, user, size));
}

fn account(store: &Store, user: &str, size: u64) {
    let directory = Directory::new(store.clone(), Settings::default());
    let id = match directory.find_account(user).expect("the directory") {
        Some((id, _)) => id,
        None => {
            let id = directory
                .add(&NewAccount::at(Address::parse(user).expect("an address")))
                .expect("an account");
            let phc = hash_password(PASSWORD).expect("a password");
            directory
                .update(id, |row| row.passwords.push(("bench".into(), phc.clone())))
                .expect("a password");
            id
        }
    };
    let there = store.snapshot().account_state(id).expect("the account").emails;
    // The seed differs when an account is filled up further, so that other words come.
    let (begin, mut words) = (Instant::now(), Words::new(size + there));
    let mut pending: VecDeque<Ticket> = VecDeque::new();
    for number in there..size {
        let mut raw = words.message(number, user, SIZE);
        if number % 3 == 2 {
            // No email has this id. Three emails refer to it.
            let head = format!("References: <thread-{}@bench.example>\r\n", number / 9);
            raw.splice(0..0, head.into_bytes());
        }
        if number.is_multiple_of((size / RARE_EMAILS).max(1)) {
            raw.extend_from_slice(RARE.as_bytes());
        }
        let message = EncodedMessage::new(&rows(&raw, store.secrets()));
        let keywords: BTreeSet<String> = if number.is_multiple_of(10) {
            BTreeSet::new()
        } else {
            BTreeSet::from(["$seen".to_owned()])
        };
        let (_, ticket) = store.commit_message(&[id], &message, &raw, |txn| {
            txn.create_email(&NewEmail {
                message: &message,
                prefix: b"Return-Path: <sender@example.net>\r\n",
                mailboxes: BTreeSet::from([txn.state().inbox]),
                keywords: keywords.clone(),
                received_at: UtcMillis(BEGIN + i64::try_from(number).expect("a number") * 60_000),
            })
        });
        pending.push_back(ticket);
        if pending.len() > MAX_PENDING {
            pending.pop_front().expect("a ticket").wait_blocking().expect("an email");
        }
    }
    pending.into_iter().for_each(|ticket| ticket.wait_blocking().expect("an email"));
    if there < size {
        println!("filled with {} emails in {:.0} s", size - there, begin.elapsed().as_secs_f64());
    }
}
