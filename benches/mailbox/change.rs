//! Measures durable writes: a keyword, a move, a destruction, moves of up to ten thousand emails,
//! deliveries. The times include the sync of the disk.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use restante::internals::model::{AccountId, EmailId, ListingFilter, MailboxUid, UtcMillis};
use restante::internals::store::{Store, Ticket};

use crate::Options;
use crate::grow::{
    ARCHIVE, Account, INBOX, TRASH, deliver, extend_listing, make, message, received_at,
};
use crate::report::{line, measure, measure_after};
use crate::words::Words;

/// Turns a keyword on or off.
pub(crate) fn flag(store: &Store, account: &Account, id: EmailId, word: &str) {
    let old = store.snapshot().email(account.id, id).unwrap().unwrap();
    let mut keywords = old.keywords.clone();
    if !keywords.remove(word) {
        keywords.insert(word.to_owned());
    }
    let (_, ticket) = store
        .commit(account.id, |txn| txn.update_email(id, old.mailboxes.clone(), keywords.clone()))
        .unwrap();
    ticket.wait_blocking().unwrap();
}

fn move_to(store: &Store, account: AccountId, id: EmailId, to: MailboxUid) -> Ticket {
    let old = store.snapshot().email(account, id).unwrap().unwrap();
    store
        .commit(account, |txn| txn.update_email(id, BTreeSet::from([to]), old.keywords.clone()))
        .unwrap()
        .1
}

/// Returns the first email of the Inbox behind a place in the account. Each of 1,000 rounds has
/// another place; the places are spread over all emails of `grow`. If none of the 100 emails behind
/// the place is in the Inbox any more, returns the newest email of the account.
///
/// Ids ascend from the newest email to the oldest, with the time in the bits from 16 on. The emails
/// are 60,000 milliseconds apart (`grow::EVERY`).
fn some(store: &Store, account: &Account, round: u64) -> EmailId {
    let snapshot = store.snapshot();
    let newest = snapshot.emails(account.id, None, 1).unwrap()[0].0;
    // A kept store has newer emails, of an earlier run of `deliveries`.
    let first = EmailId::new(received_at(account.size), 0);
    let last = EmailId(first.0 + (account.size << 16) * 60_000);
    // A thousand places, the last of them some steps before the oldest email.
    let step = (last.0 - first.0) / 1009;
    // 467 and 1,000 have no common divisor, so each of 1,000 rounds has a place of its own.
    let from = EmailId(first.0 + step * (round * 467 % 1000));
    let mut found = snapshot.emails(account.id, Some(from), 100).unwrap();
    found.retain(|(_, email)| email.mailboxes.contains(&INBOX));
    found.first().map_or(newest, |(id, _)| *id)
}

pub(crate) fn all(store: &Store, accounts: &[Account], options: &Options) {
    measure_after(
        options,
        accounts,
        "a flag changed",
        |account, round| some(store, account, round),
        |account, _, id| flag(store, account, id, "$flagged"),
    );
    measure_after(
        options,
        accounts,
        "one email moved",
        |account, round| some(store, account, round),
        |account, _, id| move_to(store, account.id, id, ARCHIVE).wait_blocking().unwrap(),
    );
    measure_after(
        options,
        accounts,
        "one email destroyed",
        |account, round| some(store, account, round),
        |account, _, id| {
            store
                .commit(account.id, |txn| txn.destroy_email(id))
                .unwrap()
                .1
                .wait_blocking()
                .unwrap();
        },
    );
    deliveries(store, accounts, options);
    moves(store, accounts, options);
}

/// Deliveries into each account and into one that begins empty. Many are pending at a time, so that
/// the CPU time shows.
fn deliveries(store: &Store, accounts: &[Account], options: &Options) {
    const ROUND: u64 = 200;
    let name = "200 deliveries (first: an empty account)";
    if !options.wants(name) {
        return;
    }
    let empty = Account { id: AccountId(3), size: 0 };
    if store.snapshot().account(empty.id).unwrap().is_none() {
        make(store, empty.id);
        // The other accounts have this listing.
        while !extend_listing(store, empty.id, INBOX, ListingFilter::Unseen, 2_000) {}
    }
    let all: Vec<Account> = std::iter::once(empty).chain(accounts.iter().cloned()).collect();
    let mut words = Words::new(99);
    measure(options, &all, name, |account, round| {
        let mut pending = VecDeque::new();
        for n in 0..ROUND {
            // Above the numbers and the times of the emails with which accounts are filled.
            let number = 10_000_000 + round * ROUND + n;
            let at = UtcMillis(1_900_000_000_000 + i64::try_from(number).unwrap());
            pending
                .push_back(deliver(store, account.id, &message(&mut words, number), at, number).1);
            if pending.len() > 32 {
                pending.pop_front().unwrap().wait_blocking().unwrap();
            }
        }
        pending.into_iter().for_each(|ticket| ticket.wait_blocking().unwrap());
    });
}

/// Moves emails to the Trash and back, a thousand in each commit: of the newest 10,000 emails of
/// each account those that are in the Inbox. The time is that of one email and one way.
fn moves(store: &Store, accounts: &[Account], options: &Options) {
    let name = "10,000 emails moved and back, each";
    if !options.wants(name) {
        return;
    }
    let mut times = Vec::new();
    for account in accounts {
        let ids: Vec<EmailId> = {
            let snapshot = store.snapshot();
            let mut ids = snapshot.emails(account.id, None, 10_000).unwrap();
            ids.retain(|(_, email)| email.mailboxes.contains(&INBOX));
            ids.into_iter().map(|(id, _)| id).collect()
        };
        let start = Instant::now();
        for to in [TRASH, INBOX] {
            for part in ids.chunks(1000) {
                let (_, ticket) = store
                    .commit(account.id, |txn| {
                        for id in part {
                            let old =
                                txn.snapshot().email(account.id, *id)?.map(|email| email.keywords);
                            txn.update_email(*id, BTreeSet::from([to]), old.unwrap_or_default())?;
                        }
                        Ok(())
                    })
                    .unwrap();
                ticket.wait_blocking().unwrap();
            }
        }
        times.push(start.elapsed().as_secs_f64() * 1e6 / (2 * ids.len()) as f64);
    }
    line(name, &times);
}
