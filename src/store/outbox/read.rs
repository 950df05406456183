//! The queue: what waits, what wakes it, and whether it is all there.

use std::collections::BTreeMap;

use crate::model::{AccountId, Action, ActionId, ActionKind, ActionState};
use crate::store::blob::read::{append, length};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::{Error, hex};
use crate::store::row::{
    AccountStateRow, Destination, Digest, QueueMark, RowFormat as _, decode_kind_and_state,
    decode_outbox_message,
};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{ActionKey, DueKey, SiteKey, WakeClass, WakeCondition};
use crate::store::table::{AccountState, Outbox, OutboxDue, OutboxMessages, Site, Table as _};
use crate::store::txn::snapshot::Snapshot;

/// A wake-up: which action, and what it has in common with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wakeup {
    /// What wakes it.
    pub wake: WakeCondition,
    /// Whose.
    pub account: AccountId,
    /// Which.
    pub action: ActionId,
    /// Digest of the account and the recipient: one after the other.
    pub lane: Digest,
    /// Digest of the recipient's domain.
    pub domain: Digest,
}

/// Whether the queue is what the store says that it should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueAudit {
    /// What is not as it should be, in words; empty: all is.
    pub wrong: Vec<String>,
    /// Actions that there are.
    pub actions: u64,
}

impl Snapshot<'_> {
    /// How many actions of each kind are in each state, over all accounts. Reads the head of every
    /// one.
    ///
    /// # Errors
    /// Those of reading.
    pub fn queue_counts(&self) -> Result<BTreeMap<(ActionKind, ActionState), u64>, Error> {
        let mut counts = BTreeMap::new();
        self.read.keys::<Outbox>(&KeyRange::under(&()), |key, row| {
            // What cannot be read is the check's to say.
            if let Ok(of) = decode_kind_and_state(&key.encode(), row) {
                *counts.entry(of).or_default() += 1;
            }
            Ok(true)
        })?;
        Ok(counts)
    }

    /// Up to `limit` of them, behind one.
    ///
    /// # Errors
    /// Those of reading.
    pub fn actions(
        &self,
        account: AccountId,
        behind: Option<ActionId>,
        limit: usize,
    ) -> Result<Vec<Action>, Error> {
        let mut out = Vec::new();
        let range = match behind {
            Some(action) => KeyRange::behind(&(account,), &ActionKey { account, action }),
            None => KeyRange::under(&(account,)),
        };
        if limit > 0 {
            self.read.rows::<Outbox>(&range, |_, action| {
                out.push(action);
                Ok(out.len() < limit)
            })?;
        }
        Ok(out)
    }

    /// One queued action.
    ///
    /// # Errors
    /// Those of reading.
    pub fn action(&self, account: AccountId, action: ActionId) -> Result<Option<Action>, Error> {
        self.read.row::<Outbox>(&ActionKey { account, action })
    }

    /// The octets of what an action sends: its own, and those of the message that it names.
    ///
    /// # Errors
    /// `Corrupt` where they are not there; those of reading.
    pub fn action_message(&self, account: AccountId, action: &Action) -> Result<Vec<u8>, Error> {
        let key = ActionKey { account, action: action.id };
        let lost = || Error::Corrupt {
            table: OutboxMessages::ID.name(),
            key: hex(&key.encode()),
            what: "the octets of an action are missing".into(),
        };
        let mut octets = Vec::new();
        if action.own_bytes > 0 {
            let row = self.read.bytes::<OutboxMessages>(&key)?.ok_or_else(lost)?;
            octets.extend_from_slice(decode_outbox_message(&key.encode(), &row)?);
        }
        if octets.len() as u64 != action.own_bytes {
            return Err(lost());
        }
        if let Some(blob) = &action.blob
            && !append(&*self.read, blob, 0..u64::MAX, &mut octets)?
        {
            return Err(lost());
        }
        Ok(octets)
    }

    /// How many bytes `action_message` gives.
    ///
    /// # Errors
    /// Those of reading.
    pub fn action_size(&self, action: &Action) -> Result<u64, Error> {
        let named = action.blob.as_ref().map(|blob| length(&*self.read, blob)).transpose()?;
        Ok(action.own_bytes.saturating_add(named.flatten().unwrap_or(0)))
    }

    /// What wakes actions of a class over all accounts, from a time or an action on: up to `limit`
    /// of them.
    ///
    /// # Errors
    /// Those of reading.
    pub fn wakeups(&self, from: WakeCondition, limit: usize) -> Result<Vec<Wakeup>, Error> {
        let mut out = Vec::new();
        if limit == 0 {
            return Ok(out);
        }
        let range = KeyRange::<OutboxDue>::from(&WakeClass(from), &(from,));
        self.read.rows(
            &range,
            |DueKey { wake, account, action }, Destination { lane, domain }| {
                out.push(Wakeup { wake, account, action, lane, domain });
                Ok(out.len() < limit)
            },
        )?;
        Ok(out)
    }

    /// Which line of history the queue is of, and why nothing is sent, if so; `None` where it was
    /// never said.
    ///
    /// # Errors
    /// Those of reading.
    pub fn queue_mark(&self) -> Result<Option<QueueMark>, Error> {
        self.read.row_with::<Site, _>(&SiteKey::Queue, QueueMark::decode)
    }

    /// Compares the queue with what the store says that it should hold: each account's count, and
    /// that whatever waits is woken. Reads each head once and keeps none. Of accounts that are
    /// being repaired nothing is said: it would be of a state that is half written.
    ///
    /// # Errors
    /// Those of reading.
    pub fn audit_queue(&self, repaired: &[AccountId]) -> Result<QueueAudit, Error> {
        let mut audit = QueueAudit::default();
        let mut should_wake = 0u64;
        let mut said: Vec<(AccountId, u64)> = Vec::new();
        self.read.keys::<AccountState>(&KeyRange::under(&()), |key, value| {
            if !repaired.contains(&key.account) {
                let state = AccountStateRow::from_bytes(AccountState::ID, &key.encode(), value)?;
                said.push((key.account, state.queued));
            }
            Ok(true)
        })?;
        let mut found: Vec<(AccountId, u64)> = Vec::new();
        self.read.keys::<Outbox>(&KeyRange::under(&()), |key, value| {
            let account = key.account;
            if repaired.contains(&account) {
                return Ok(true);
            }
            match found.last_mut() {
                Some((last, count)) if *last == account => *count += 1,
                _ => found.push((account, 1)),
            }
            audit.actions += 1;
            match Action::from_bytes(Outbox::ID, &key.encode(), value) {
                Ok(action) => {
                    should_wake +=
                        u64::from(!matches!(action.state, ActionState::Held | ActionState::Failed));
                }
                Err(error) => note(&mut audit.wrong, error.to_string()),
            }
            Ok(true)
        })?;
        let mut woken = 0u64;
        self.read.keys::<OutboxDue>(&KeyRange::under(&()), |key, _| {
            woken += u64::from(!repaired.contains(&key.account));
            Ok(true)
        })?;
        let count = |all: &[(AccountId, u64)], account: AccountId| {
            all.binary_search_by_key(&account, |(id, _)| *id)
                .ok()
                .and_then(|at| all.get(at))
                .map_or(0, |(_, n)| *n)
        };
        let mut accounts: Vec<AccountId> =
            said.iter().chain(&found).map(|(account, _)| *account).collect();
        accounts.sort_unstable();
        accounts.dedup();
        for account in accounts {
            let (should, are) = (count(&said, account), count(&found, account));
            if should != are {
                note(
                    &mut audit.wrong,
                    format!("account {account} should have {should} actions, and has {are}"),
                );
            }
        }
        if should_wake != woken {
            let what =
                format!("{should_wake} actions wait, and {woken} are woken: run `restante repair`");
            note(&mut audit.wrong, what);
        }
        Ok(audit)
    }
}

/// Of what is wrong the first is told: a table that is lost is wrong for everyone.
fn note(wrong: &mut Vec<String>, what: String) {
    const MAX_NAMED_ROWS: usize = 20;
    if wrong.len() < MAX_NAMED_ROWS {
        wrong.push(what);
    }
}
