//! Told rows, served transactions, queued actions, and what is kept of decisions.

use super::rows::Pair;
use super::{Checker, Fault, Hear, Mend, Pace};
use crate::model::{AccountId, Action, ActionId, DataType, Decision, ModSeq, ToldKey, VacationResponse, Verdict};
use crate::store::commit::is_reference;
use crate::store::engine::{Read, Table};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Delivery, Row, Told};

impl Checker<'_> {
    pub(super) fn deeds(&mut self) -> Result<(), Error> {
        self.told()?;
        self.deliveries()?;
        let mut refs = self.rows(Table::ThreadRefs, &key::account(self.account));
        while let Some((key, value)) = refs.next()? {
            if key.len() != 36 || !is_reference(&value) {
                let what = "cannot be read: an answer to this message begins a thread of its own";
                self.say(Table::ThreadRefs, &key, what, Mend::Delete)?;
            }
        }
        let mut decisions = self.rows(Table::Decisions, &key::account(self.account));
        while let Some((key, value)) = decisions.next()? {
            match Decision::decode(&key, &value) {
                Ok(Decision { verdict: Verdict::Answered(action), .. }) => self.note_action(action),
                Ok(_) => {}
                Err(error) => self.say(Table::Decisions, &key, error.to_string(), Mend::Delete)?,
            }
        }
        self.actions()
    }

    fn told(&mut self) -> Result<(), Error> {
        let (account, own) = (self.account, key::account(self.account));
        let response = match self.read.get(Table::Vacation, &own)?.map(|row| VacationResponse::decode(&own, &row)) {
            None => Some(VacationResponse::default()),
            Some(Ok(response)) => Some(response),
            Some(Err(error)) => {
                let what = format!("{error}: set the response anew");
                self.say(Table::Vacation, &own, what, Mend::Nothing)?;
                None
            }
        };
        let mut by_time: Vec<Pair> = Vec::new();
        let mut rows = self.rows(Table::VacationTold, &own);
        while let Some((key, value)) = rows.next()? {
            let who = Parts::of(Table::VacationTold, &key).take().ok().filter(|_| key.len() == 36);
            let (Some(who), Ok(told)) = (who, Told::decode(&key, &value)) else {
                self.say(Table::VacationTold, &key, "cannot be read: who it was is forgotten", Mend::Delete)?;
                continue;
            };
            if response.as_ref().is_some_and(|response| told.generation.is_some_and(|of| of != response.generation)) {
                let what = "told in another generation of the response";
                self.say(Table::VacationTold, &key, what, Mend::Delete)?;
                continue;
            }
            by_time.push((key::told_by_time(account, told.at, &ToldKey(who)), vec![1]));
        }
        self.census.told = by_time.len() as u64;
        by_time.sort_unstable();
        self.compare(Table::ToldByTime, by_time.into_iter())
    }

    fn deliveries(&mut self) -> Result<(), Error> {
        let account = self.account;
        let mut by_time: Vec<Pair> = Vec::new();
        let mut rows = self.rows(Table::Deliveries, &key::account(account));
        while let Some((key, value)) = rows.next()? {
            let hash = Parts::of(Table::Deliveries, &key).take().ok().filter(|_| key.len() == 36);
            let (Some(hash), Ok(delivery)) = (hash, Delivery::decode(&key, &value)) else {
                let what = "cannot be read: a retry of it would be filed again";
                self.say(Table::Deliveries, &key, what, Mend::Delete)?;
                continue;
            };
            by_time.push((key::delivery_by_time(account, delivery.at, &hash), vec![1]));
            // Of what was purged the deliveries stay for their time, so that a retry is still answered.
            let purged = self.found.as_ref().is_none_or(|state| state.purged(DataType::Email) > ModSeq(0));
            if delivery.email.is_some_and(|email| !purged && !self.census.knows(email)) {
                self.say(Table::Deliveries, &key, "made an email that is not there", Mend::Nothing)?;
            }
        }
        by_time.sort_unstable();
        self.compare(Table::DeliveryByTime, by_time.into_iter())
    }

    fn actions(&mut self) -> Result<(), Error> {
        let account = self.account;
        let mut rows = self.rows(Table::Outbox, &key::account(account));
        while let Some((key, value)) = rows.next()? {
            let id = Parts::of(Table::Outbox, &key).u64().ok().filter(|_| key.len() == 12).map(ActionId);
            let (Some(id), Ok(action)) = (id, Action::decode(&key, &value)) else {
                self.say(Table::Outbox, &key, "cannot be read: what it said is in a backup alone", Mend::Nothing)?;
                continue;
            };
            self.note_action(id);
            let hint = key::due(action.due, account, id);
            let found = self.read.get(Table::OutboxDue, &hint)?;
            self.expect(Table::OutboxDue, &hint, found.as_deref(), vec![1])?;
        }
        Ok(())
    }

    fn note_action(&mut self, action: ActionId) {
        self.census.last_action = self.census.last_action.max(action.0);
    }
}

/// Every wake-up hint is of an action that is due then.
pub(super) fn hints(read: &dyn Read, run: &dyn Pace, hear: &mut Hear<'_>) -> Result<(), Error> {
    read.scan(Table::OutboxDue, &[], &[0xff; 21], false, &mut |key, _| {
        run.step(Table::OutboxDue)?;
        let (account, due) = match whose(key) {
            Some((account, action)) => (account, is_due(read, account, action, key)?),
            None => (AccountId::SITE, false),
        };
        if !due {
            let what = "no action is due then".into();
            let (table, key, mend) = (Table::OutboxDue, key.to_vec(), Mend::Delete);
            hear(Fault { account, table, key, what, mend, history: false })?;
        }
        Ok(true)
    })
}

/// Whose hint it is, and of which action.
pub(in crate::store) fn whose(hint: &[u8]) -> Option<(AccountId, ActionId)> {
    let mut parts = Parts::of(Table::OutboxDue, hint);
    let (action, account) = (parts.u64().ok()?, parts.u32().ok()?);
    (hint.len() == 20).then_some((AccountId(account), ActionId(action)))
}

/// Whether an action is due when a hint says. One that cannot be read may be.
pub(in crate::store) fn is_due(
    read: &dyn Read,
    account: AccountId,
    action: ActionId,
    hint: &[u8],
) -> Result<bool, Error> {
    let row = key::action(account, action);
    let found = read.get(Table::Outbox, &row)?;
    Ok(found.is_some_and(|value| {
        Action::decode(&row, &value).map_or(true, |found| key::due(found.due, account, action) == hint)
    }))
}
