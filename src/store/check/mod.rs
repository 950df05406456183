//! Proves the invariants of the store by recounting everything from scratch; writes nothing.
//!
//! 1. Each kept listing holds exactly the emails that match it, collapsed or not: one live list row and one index row that
//!    point at each other; its total and its ranks equal a recount. 2. `email_by_modseq` has one row for each email, `email_by_thread` one for each live one, and the
//!    `threads` rows equal a recount. 3. Counts equal a recount. 4. Every live email has content, and a token row or is
//!    in exactly one fold; folds are in order, and every row of them is of one that there is. 5. Every live
//!    email has its blob and its reference to it. 6. No change number is above the account's. 7. Told rows belong to the
//!    current generation. 8. Queued actions and wake-up hints point at each other. 9. Quota equals the sum of sizes.
//!    10. A tombstone holds what restoring it needs, or nothing; a dead thread's row goes with the email that was its last;
//!    nothing is kept of emails that are not there. 11. Every message is held by an email, or is to be looked at by the
//!    collection. 12. No low mark is above the newest change.

mod deeds;
mod emails;
mod lists;
mod remains;
mod search;

use std::collections::BTreeMap;
use std::fmt;

pub(super) use search::tokens;

use super::commit::rank::Ranking;
use super::engine::{Read, Table, after};
use super::error::{Error, hex};
use super::key::{self, Parts};
use super::row::{Row, State};
use crate::model::{AccountId, EmailId, EmailMetadata, Mailbox, MailboxUid};

/// One breach of an invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// Whose rows.
    pub account: AccountId,
    /// In which table.
    pub table: &'static str,
    /// Under which key, in hex; empty where it is about several.
    pub key: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {}: {}", self.account, self.table, self.key, self.what)
    }
}

/// What is known of an account while it is checked.
struct Checker<'a> {
    read: &'a dyn Read,
    account: AccountId,
    ranking: Ranking,
    state: State,
    emails: BTreeMap<EmailId, EmailMetadata>,
    mailboxes: BTreeMap<MailboxUid, Mailbox>,
    breaches: Vec<Breach>,
}

/// Checks the whole store on one state of it.
pub(super) fn run(read: &dyn Read, ranking: Ranking) -> Result<Vec<Breach>, Error> {
    let mut accounts = Vec::new();
    read.scan(Table::AccountState, &[], &[0xff; 8], false, &mut |key, value| {
        let account = AccountId(Parts::of(Table::AccountState, key).u32()?);
        accounts.push((account, State::decode(key, value)?));
        Ok(true)
    })?;
    let mut breaches = Vec::new();
    for (account, state) in accounts.into_iter().filter(|(account, _)| *account != AccountId::SITE) {
        let mut checker = Checker {
            read,
            account,
            ranking,
            state,
            emails: BTreeMap::new(),
            mailboxes: BTreeMap::new(),
            breaches: Vec::new(),
        };
        checker.emails()?;
        checker.remains()?;
        checker.threads()?;
        checker.listings()?;
        checker.deeds()?;
        checker.search()?;
        breaches.append(&mut checker.breaches);
    }
    deeds::hints(read, &mut breaches)?;
    emails::blob_refs(read, &mut breaches)?;
    remains::unheld(read, &mut breaches)?;
    emails::blob_frames(read, &mut breaches)?;
    Ok(breaches)
}

impl Checker<'_> {
    fn say(&mut self, table: Table, key: &[u8], what: impl Into<String>) {
        self.breaches.push(Breach { account: self.account, table: table.name(), key: hex(key), what: what.into() });
    }

    fn live(&self) -> impl Iterator<Item = (&EmailId, &EmailMetadata)> {
        self.emails.iter().filter(|(_, email)| email.deleted.is_none())
    }

    /// All rows of the account in a table.
    fn rows(&self, table: Table) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
        let prefix = key::account(self.account);
        let mut rows = BTreeMap::new();
        self.read.scan(table, &prefix, &after(&prefix), false, &mut |key, value| {
            rows.insert(key.to_vec(), value.to_vec());
            Ok(true)
        })?;
        Ok(rows)
    }

    /// The rows of a derived table must be exactly these.
    fn compare(&mut self, table: Table, wanted: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), Error> {
        let found = self.rows(table)?;
        self.differences(table, &found, wanted);
        Ok(())
    }

    fn differences(&mut self, table: Table, found: &BTreeMap<Vec<u8>, Vec<u8>>, wanted: &BTreeMap<Vec<u8>, Vec<u8>>) {
        for (key, value) in wanted {
            match found.get(key) {
                None => self.say(table, key, "the row is missing"),
                Some(other) if other != value => {
                    self.say(table, key, format!("reads {}, should read {}", hex(other), hex(value)));
                }
                Some(_) => {}
            }
        }
        for key in found.keys().filter(|key| !wanted.contains_key(*key)) {
            self.say(table, key, "the row should not be there");
        }
    }
}
