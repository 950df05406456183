//! Makes the `StateChange` objects that are pushed to clients (RFC 8620 §7).
//!
//! - The types of an account share one sequence of changes, so one modseq says which changes of an
//!   account a client knows.
//! - `EmailDelivery` is one of the types (RFC 8621 §1.5). `Quota` is reported when emails change,
//!   since they may use more or less of it then (RFC 9425 §5).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::context::Account;
use super::guest::newest_change;
use super::quota;
use super::standard::state;
use crate::model::{AccountId, DataType, ModSeq};
use crate::store::{Error, Store};

/// The types whose changes are pushed, apart from `Quota`.
const PUSHED_TYPES: [(&str, DataType); 9] = [
    ("Email", DataType::Email),
    ("EmailDelivery", DataType::EmailDelivery),
    ("Thread", DataType::Thread),
    ("Mailbox", DataType::Mailbox),
    ("VacationResponse", DataType::VacationResponse),
    ("Identity", DataType::Identity),
    ("EmailSubmission", DataType::EmailSubmission),
    ("ShareNotification", DataType::ShareNotification),
    ("SieveScript", DataType::SieveScript),
];

/// The types of which a guest is notified, whichever mailbox of the account changed.
const GUEST_TYPES: [DataType; 3] = [DataType::Email, DataType::Thread, DataType::Mailbox];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObservedAccount {
    pub account: AccountId,
    /// Whether the client is a guest of this account.
    pub shared: bool,
}

impl ObservedAccount {
    #[must_use]
    pub fn of_owner(account: AccountId) -> Self {
        Self { account, shared: false }
    }
}

impl From<&Account> for ObservedAccount {
    fn from(account: &Account) -> Self {
        Self { account: account.id, shared: account.guest.is_some() }
    }
}

/// For each account, the newest change that a client knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushState {
    epoch: u64,
    marks: BTreeMap<ObservedAccount, ModSeq>,
}

impl PushState {
    /// Returns the state of a client that knows all changes up to now.
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

    /// Parses the text that `text` returned for a client; `None` if it is malformed. An account
    /// that the text does not name starts at 0, and so do all if the text has another epoch.
    #[must_use]
    pub fn parse(text: &str, store: &Store, accounts: &[ObservedAccount]) -> Option<Self> {
        let mut parts = text.split('.');
        let epoch = u64::from_str_radix(parts.next()?, 16).ok()?;
        let mut given = BTreeMap::new();
        for part in parts {
            let (account, mark) = part.split_once('-')?;
            given.insert(
                account.parse::<AccountId>().ok()?,
                ModSeq(u64::from_str_radix(mark, 16).ok()?),
            );
        }
        let known_mark = |one: &ObservedAccount| {
            let mark = given.get(&one.account).copied().filter(|_| epoch == store.epoch());
            (*one, mark.unwrap_or_default())
        };
        Some(Self { epoch: store.epoch(), marks: accounts.iter().map(known_mark).collect() })
    }

    /// Replaces the accounts. An added one starts at 0, so that `catch_up` reports its states.
    pub fn set_accounts(&mut self, accounts: &[ObservedAccount]) {
        let mark = |one: &ObservedAccount| (*one, self.marks.get(one).copied().unwrap_or_default());
        self.marks = accounts.iter().map(mark).collect();
    }

    /// Forgets a change of an account and all later ones, so that they are reported again.
    pub fn forget_from(&mut self, account: AccountId, change: ModSeq) {
        for (_, mark) in self.marks.iter_mut().filter(|(one, _)| one.account == account) {
            *mark = ModSeq(change.0.saturating_sub(1)).min(*mark);
        }
    }

    /// The text form, for `Last-Event-ID` and `pushState`.
    #[must_use]
    pub fn text(&self) -> String {
        let marks = self.marks.iter().map(|(one, mark)| format!(".{}-{:x}", one.account, mark.0));
        format!("{:x}{}", self.epoch, marks.collect::<String>())
    }

    /// Returns the changes after the marks as a `StateChange`, or `None` if there is nothing to
    /// report. Moves the marks to the newest changes. With `types`, changes of other types are
    /// skipped for good.
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
            // After a restore of the store, the client may know changes that the store does not
            // have.
            let since = if *mark > now.modseq { ModSeq(0) } else { *mark };
            let is_requested =
                |name: &str| types.is_none_or(|types| types.iter().any(|one| one == name));
            let is_pushed = |data: DataType| !shared || GUEST_TYPES.contains(&data);
            let mark_of = |data| newest_change(&now, *shared, data);
            let newer = PUSHED_TYPES.iter().filter(|(name, data)| {
                mark_of(*data) > since && is_requested(name) && is_pushed(*data)
            });
            let states =
                newer.map(|(name, data)| ((*name).to_owned(), state(store, mark_of(*data)).into()));
            let mut states: Map<String, Value> = states.collect();
            if !*shared && now.high_mark(DataType::Email) > since && is_requested("Quota") {
                let quota = snapshot.account(*account)?.and_then(|row| quota::state(&now, &row));
                states.extend(quota.map(|state| ("Quota".to_owned(), state.into())));
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
    fn change_is_pushed_once_with_the_states_of_get() {
        let context = context();
        let ann: AccountId = letters(&context, 1).parse().unwrap();
        let store = &context.store;
        let mut known = PushState::now(store, &[ObservedAccount::of_owner(ann)]).unwrap();
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
        // A client that returns with its earlier states gets the same change, and none of types
        // that it did not ask for.
        let mut back = PushState::parse(&before, store, &[ObservedAccount::of_owner(ann)]).unwrap();
        assert_eq!(back.catch_up(store, None).unwrap(), Some(change));
        let mut back = PushState::parse(&before, store, &[ObservedAccount::of_owner(ann)]).unwrap();
        assert_eq!(back.catch_up(store, Some(&["VacationResponse".into()])).unwrap(), None);
    }

    #[test]
    fn push_state_that_is_malformed_or_not_of_this_store_is_not_trusted() {
        let context = context();
        let ann: AccountId = letters(&context, 1).parse().unwrap();
        let store = &context.store;
        // Malformed texts are refused.
        for text in ["", "x", "1.", "1.a", "1.zz-1", "1.a-", "-1"] {
            assert_eq!(
                PushState::parse(text, store, &[ObservedAccount::of_owner(ann)]),
                None,
                "{text}"
            );
        }
        // After a text of another epoch, or with changes that the store does not have, there are
        // changes to report.
        for text in [
            format!("{:x}.{ann}-ff", store.epoch() ^ 1),
            format!("{:x}.{ann}-ffffff", store.epoch()),
        ] {
            let mut known =
                PushState::parse(&text, store, &[ObservedAccount::of_owner(ann)]).unwrap();
            assert!(known.catch_up(store, None).unwrap().is_some(), "{text}");
        }
    }
}
