//! What a client is told of changes (RFC 8620 §7): which types of which account have another state,
//! and which.
//!
//! All types of an account share one order of changes, so that a client's knowledge of an account
//! is one number: what changed since is told at once, however many changes there were.
//! `EmailDelivery` is one of the types (RFC 8621 §1.5), and `Quota` is told of with the emails that
//! use it (RFC 9425 §5).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::context::Account;
use super::guest::newest_change;
use super::quota;
use super::standard::state;
use crate::model::{AccountId, DataType, ModSeq};
use crate::store::{Error, Store};

/// The types that a client may be told of.
const MAX_TYPES: [(&str, DataType); 8] = [
    ("Email", DataType::Email),
    ("EmailDelivery", DataType::EmailDelivery),
    ("Thread", DataType::Thread),
    ("Mailbox", DataType::Mailbox),
    ("VacationResponse", DataType::VacationResponse),
    ("Identity", DataType::Identity),
    ("EmailSubmission", DataType::EmailSubmission),
    ("ShareNotification", DataType::ShareNotification),
];

/// The types of which a guest is notified in a shared account. A guest is notified of changes in
/// any mailbox of the account, since the account has one sequence of changes, but sees only what
/// was shared.
const GUEST_TYPES: [DataType; 3] = [DataType::Email, DataType::Thread, DataType::Mailbox];

/// An account whose changes are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObservedAccount {
    /// Which.
    pub account: AccountId,
    /// Whether by a guest.
    pub shared: bool,
}

impl ObservedAccount {
    /// By its owner.
    #[must_use]
    pub fn own(account: AccountId) -> Self {
        Self { account, shared: false }
    }
}

impl From<&Account> for ObservedAccount {
    fn from(account: &Account) -> Self {
        Self { account: account.id, shared: account.guest.is_some() }
    }
}

/// What a client knows: of each account the newest change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushState {
    epoch: u64,
    marks: BTreeMap<ObservedAccount, ModSeq>,
}

impl PushState {
    /// All that there is now in these accounts.
    ///
    /// # Errors
    /// Those of reading.
    pub fn now(store: &Store, accounts: &[ObservedAccount]) -> Result<Self, Error> {
        let snapshot = store.snapshot();
        let mark = |one: &ObservedAccount| {
            snapshot.account_state(one.account).map(|state| (*one, state.modseq))
        };
        Ok(Self {
            epoch: store.epoch(),
            marks: accounts.iter().map(mark).collect::<Result<_, Error>>()?,
        })
    }

    /// What a client said that it knows (`text`), of these accounts. Of one that it does not name,
    /// and where it is from another store or another time of it: nothing.
    #[must_use]
    pub fn of(text: &str, store: &Store, accounts: &[ObservedAccount]) -> Option<Self> {
        let mut parts = text.split('.');
        let epoch = u64::from_str_radix(parts.next()?, 16).ok()?;
        let mut said = BTreeMap::new();
        for part in parts {
            let (account, mark) = part.split_once('-')?;
            said.insert(
                account.parse::<AccountId>().ok()?,
                ModSeq(u64::from_str_radix(mark, 16).ok()?),
            );
        }
        let known = |one: &ObservedAccount| {
            let mark = said.get(&one.account).copied().filter(|_| epoch == store.epoch());
            (*one, mark.unwrap_or_default())
        };
        Some(Self { epoch: store.epoch(), marks: accounts.iter().map(known).collect() })
    }

    /// From now on of these accounts. Of one that was not among them nothing is known: its states
    /// are told.
    pub fn follow(&mut self, accounts: &[ObservedAccount]) {
        let mark = |one: &ObservedAccount| (*one, self.marks.get(one).copied().unwrap_or_default());
        self.marks = accounts.iter().map(mark).collect();
    }

    /// Forgets a change of an account, and what came after it.
    pub fn forget_from(&mut self, account: AccountId, change: ModSeq) {
        for (_, mark) in self.marks.iter_mut().filter(|(one, _)| one.account == account) {
            *mark = ModSeq(change.0.saturating_sub(1)).min(*mark);
        }
    }

    /// As a text, for `Last-Event-ID` and `pushState`.
    #[must_use]
    pub fn text(&self) -> String {
        let marks = self.marks.iter().map(|(one, mark)| format!(".{}-{:x}", one.account, mark.0));
        format!("{:x}{}", self.epoch, marks.collect::<String>())
    }

    /// What changed since, and now is known: a `StateChange`; of these types alone, if any are
    /// named. `None` where nothing of them did.
    ///
    /// # Errors
    /// Those of reading.
    pub fn catch_up(
        &mut self,
        store: &Store,
        types: Option<&[String]>,
    ) -> Result<Option<Value>, Error> {
        let snapshot = store.snapshot();
        let mut changed = Map::new();
        for (ObservedAccount { account, shared }, mark) in &mut self.marks {
            let now = snapshot.account_state(*account)?;
            // Of a store that was restored: what it knows never happened.
            let since = if *mark > now.modseq { ModSeq(0) } else { *mark };
            let wanted =
                |name: &str| types.is_none_or(|types| types.iter().any(|known| known == name));
            let told = |data: DataType| !shared || GUEST_TYPES.contains(&data);
            let of = |data| newest_change(&now, *shared, data);
            let newer = MAX_TYPES
                .iter()
                .filter(|(name, data)| of(*data) > since && wanted(name) && told(*data));
            let states =
                newer.map(|(name, data)| ((*name).to_owned(), state(store, of(*data)).into()));
            let mut states: Map<String, Value> = states.collect();
            if !*shared && now.state(DataType::Email) > since && wanted("Quota") {
                let full = snapshot.account(*account)?.and_then(|row| quota::state(&now, &row));
                states.extend(full.map(|state| ("Quota".to_owned(), state.into())));
            }
            if !states.is_empty() {
                changed.insert(account.to_string(), states.into());
            }
            *mark = now.modseq;
        }
        Ok((!changed.is_empty()).then(|| json!({"@type": "StateChange", "changed": changed})))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jmap::tests::{call, context, letters};

    #[test]
    fn what_changed_is_told_once_with_the_states_that_get_gives() {
        let context = context();
        let ann: AccountId = letters(&context, 1).parse().unwrap();
        let store = &context.store;
        let mut known = PushState::now(store, &[ObservedAccount::own(ann)]).unwrap();
        assert_eq!(known.catch_up(store, None).unwrap(), None);
        let before = known.text();
        letters(&context, 1);
        let change = known.catch_up(store, None).unwrap().unwrap();
        let states = &change["changed"][ann.to_string()];
        for (name, method) in [("Mailbox", "Mailbox/get"), ("Thread", "Thread/get")] {
            let (_, answer) =
                call(&context, method, &json!({"accountId": ann.to_string(), "ids": []}));
            assert_eq!(states[name], answer["state"], "{change}");
        }
        assert!(
            states.get("EmailDelivery").is_some() && states.get("VacationResponse").is_none(),
            "{change}"
        );
        assert_eq!(known.catch_up(store, None).unwrap(), None);
        // A client that returns with its earlier states is told the same change, and nothing of
        // other types.
        let mut back = PushState::of(&before, store, &[ObservedAccount::own(ann)]).unwrap();
        assert_eq!(back.catch_up(store, None).unwrap(), Some(change));
        let mut back = PushState::of(&before, store, &[ObservedAccount::own(ann)]).unwrap();
        assert_eq!(back.catch_up(store, Some(&["VacationResponse".into()])).unwrap(), None);
    }

    #[test]
    fn what_is_not_ours_is_not_known() {
        let context = context();
        let ann: AccountId = letters(&context, 1).parse().unwrap();
        let store = &context.store;
        for text in ["", "x", "1.", "1.a", "1.zz-1", "1.a-", "-1"] {
            assert_eq!(PushState::of(text, store, &[ObservedAccount::own(ann)]), None, "{text}");
        }
        // From another store, or from a time that never was: everything is new.
        for text in [
            format!("{:x}.{ann}-ff", store.epoch() ^ 1),
            format!("{:x}.{ann}-ffffff", store.epoch()),
        ] {
            let mut known = PushState::of(&text, store, &[ObservedAccount::own(ann)]).unwrap();
            assert!(known.catch_up(store, None).unwrap().is_some(), "{text}");
        }
    }
}
