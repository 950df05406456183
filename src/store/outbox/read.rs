//! Reads queued actions and their wake-ups, and audits the queue.

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
use crate::store::table::keys::{ActionKey, DueKey, SiteKey, WakeClassPrefix, WakeCondition};
use crate::store::table::{AccountState, Outbox, OutboxDue, OutboxMessages, Site, Table as _};
use crate::store::txn::snapshot::Snapshot;

/// A wake-up of an action, with the digests of its next recipient: the first that still waits, or
/// the first of all if none waits (`row::Destination`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wakeup {
    pub wake: WakeCondition,
    pub account: AccountId,
    pub action: ActionId,
    pub lane: Digest,
    pub domain: Digest,
}

/// What `Snapshot::audit_queue` found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueAudit {
    /// The first problems that were found, at most 20. Empty if the queue is whole.
    pub problems: Vec<String>,
    /// The number of actions in all accounts, except those in repair.
    pub actions: u64,
}

impl Snapshot<'_> {
    /// Counts the actions of each kind and state, over all accounts. Leaves out those whose key,
    /// kind or state cannot be read.
    pub fn queue_counts(&self) -> Result<BTreeMap<(ActionKind, ActionState), u64>, Error> {
        let mut counts = BTreeMap::new();
        self.read.keys_or_damage::<Outbox>(&KeyRange::under(&()), |key, row| {
            if let Ok(kind) = key.and_then(|key| decode_kind_and_state(&key.encode(), row)) {
                *counts.entry(kind).or_default() += 1;
            }
            Ok(true)
        })?;
        Ok(counts)
    }

    /// Returns up to `limit` actions of an account, by id, behind `behind` or from the first.
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

    pub fn action(&self, account: AccountId, action: ActionId) -> Result<Option<Action>, Error> {
        self.read.row::<Outbox>(&ActionKey { account, action })
    }

    /// Returns the bytes that an action sends: its own, then the message that it names.
    ///
    /// # Errors
    /// `Corrupt` if the message is missing, or if the action's own bytes are not `own_bytes` many.
    pub fn action_message(&self, account: AccountId, action: &Action) -> Result<Vec<u8>, Error> {
        let key = ActionKey { account, action: action.id };
        let missing = || Error::Corrupt {
            table: OutboxMessages::ID.name(),
            key: hex(&key.encode()),
            what: "the bytes of an action are missing".into(),
        };
        let mut bytes = Vec::new();
        if action.own_bytes > 0 {
            let row = self.read.bytes::<OutboxMessages>(&key)?.ok_or_else(missing)?;
            bytes.extend_from_slice(decode_outbox_message(&key.encode(), &row)?);
        }
        if bytes.len() as u64 != action.own_bytes {
            return Err(missing());
        }
        if let Some(blob) = &action.blob
            && !append(&*self.read, blob, 0..u64::MAX, &mut bytes)?
        {
            return Err(missing());
        }
        Ok(bytes)
    }

    /// Returns how many bytes `action_message` returns, without reading them. A missing message,
    /// for which `action_message` fails, counts as empty.
    pub fn action_size(&self, action: &Action) -> Result<u64, Error> {
        let message = action.blob.as_ref().map(|blob| length(&*self.read, blob)).transpose()?;
        Ok(action.own_bytes.saturating_add(message.flatten().unwrap_or(0)))
    }

    /// Returns up to `limit` wake-ups of all accounts, whose conditions are of the class of `from`
    /// and not before it. Leaves out damaged ones, which a check reports.
    pub fn wakeups(&self, from: WakeCondition, limit: usize) -> Result<Vec<Wakeup>, Error> {
        let mut out = Vec::new();
        if limit == 0 {
            return Ok(out);
        }
        let range = KeyRange::<OutboxDue>::from(&WakeClassPrefix(from), &(from,));
        self.read.keys_or_damage(&range, |key, row| {
            let wakeup = key.and_then(|key| {
                let DueKey { wake, account, action } = key;
                let row = Destination::from_bytes(OutboxDue::ID, &key.encode(), row);
                row.map(|Destination { lane, domain }| Wakeup {
                    wake,
                    account,
                    action,
                    lane,
                    domain,
                })
            });
            out.extend(wakeup.ok());
            Ok(out.len() < limit)
        })?;
        Ok(out)
    }

    /// Returns the queue's mark. `None` if it was never written.
    pub fn queue_mark(&self) -> Result<Option<QueueMark>, Error> {
        self.read.row_with::<Site, _>(&SiteKey::Queue, QueueMark::decode)
    }

    /// Compares the number of actions with each account's count, and the number of those that
    /// should wake with the number of wake-ups. Reports damaged rows of actions, too. Leaves out
    /// the accounts `in_repair`, whose rows may be half written.
    ///
    /// # Errors
    /// `Corrupt` if the state of an account cannot be read.
    pub fn audit_queue(&self, in_repair: &[AccountId]) -> Result<QueueAudit, Error> {
        let mut audit = QueueAudit::default();
        let mut should_wake = 0u64;
        let mut expected: Vec<(AccountId, u64)> = Vec::new();
        self.read.keys_or_damage::<AccountState>(&KeyRange::under(&()), |key, value| {
            // If the key of a state is damaged, its account counts as one that should have no
            // actions, and those that it has are reported below.
            if let Ok(key) = key
                && !in_repair.contains(&key.account)
            {
                let state = AccountStateRow::from_bytes(AccountState::ID, &key.encode(), value)?;
                expected.push((key.account, state.queued));
            }
            Ok(true)
        })?;
        let mut found: Vec<(AccountId, u64)> = Vec::new();
        self.read.keys_or_damage::<Outbox>(&KeyRange::under(&()), |key, value| {
            let key = match key {
                Ok(key) => key,
                Err(damage) => {
                    audit.actions += 1;
                    add_problem(&mut audit.problems, damage.to_string());
                    return Ok(true);
                }
            };
            let account = key.account;
            if in_repair.contains(&account) {
                return Ok(true);
            }
            match found.last_mut() {
                Some((last, count)) if *last == account => *count += 1,
                _ => found.push((account, 1)),
            }
            audit.actions += 1;
            match Action::from_bytes(Outbox::ID, &key.encode(), value) {
                Ok(action) => {
                    // As `wake_condition` says.
                    should_wake +=
                        u64::from(!matches!(action.state, ActionState::Held | ActionState::Failed));
                }
                Err(error) => add_problem(&mut audit.problems, error.to_string()),
            }
            Ok(true)
        })?;
        let mut wakeups = 0u64;
        self.read.keys_or_damage::<OutboxDue>(&KeyRange::under(&()), |key, _| {
            wakeups += u64::from(key.is_ok_and(|key| !in_repair.contains(&key.account)));
            Ok(true)
        })?;
        let count = |all: &[(AccountId, u64)], account: AccountId| {
            all.binary_search_by_key(&account, |(id, _)| *id)
                .ok()
                .and_then(|at| all.get(at))
                .map_or(0, |(_, n)| *n)
        };
        let mut accounts: Vec<AccountId> =
            expected.iter().chain(&found).map(|(account, _)| *account).collect();
        accounts.sort_unstable();
        accounts.dedup();
        for account in accounts {
            let (expected, stored) = (count(&expected, account), count(&found, account));
            if expected != stored {
                add_problem(
                    &mut audit.problems,
                    format!("account {account} should have {expected} actions, and has {stored}"),
                );
            }
        }
        if should_wake != wakeups {
            let what = format!(
                "{should_wake} actions wait, and {wakeups} are woken: run `restante repair`"
            );
            add_problem(&mut audit.problems, what);
        }
        Ok(audit)
    }
}

/// Adds a problem, unless there are many already: if a table is lost, every account has a problem.
fn add_problem(problems: &mut Vec<String>, what: String) {
    const MAX_PROBLEMS: usize = 20;
    if problems.len() < MAX_PROBLEMS {
        problems.push(what);
    }
}
