//! Told rows, served transactions, queued actions.

use std::collections::BTreeMap;

use super::{Breach, Checker};
use crate::model::{AccountId, Action, ActionId, DataType, ModSeq, ToldKey, VacationResponse};
use crate::store::engine::{Read, Table};
use crate::store::error::{Error, hex};
use crate::store::key::{self, Parts};
use crate::store::row::{Delivery, Row, Told};

impl Checker<'_> {
    pub(super) fn deeds(&mut self) -> Result<(), Error> {
        let account = self.account;
        let own = key::account(account);
        let response = self.read.get(Table::Vacation, &own)?;
        let response = response.map(|row| VacationResponse::decode(&own, &row)).transpose()?.unwrap_or_default();
        let mut by_time = BTreeMap::new();
        for (key, value) in self.rows(Table::VacationTold)? {
            let told = Told::decode(&key, &value)?;
            if told.generation != response.generation {
                self.say(Table::VacationTold, &key, "told in another generation of the response");
            }
            let who = ToldKey(Parts::of(Table::VacationTold, &key).take()?);
            by_time.insert(key::told_by_time(account, told.at, &who), vec![1]);
        }
        if self.state.told != by_time.len() as u64 {
            self.say(Table::AccountState, &own, format!("{} told rows, says {}", by_time.len(), self.state.told));
        }
        self.compare(Table::ToldByTime, &by_time)?;
        let mut by_time = BTreeMap::new();
        for (key, value) in self.rows(Table::Deliveries)? {
            let delivery = Delivery::decode(&key, &value)?;
            let hash = Parts::of(Table::Deliveries, &key).take()?;
            by_time.insert(key::delivery_by_time(account, delivery.at, &hash), vec![1]);
            // Of what was purged the deliveries stay for their time, so that a retry is still answered.
            let purged = self.state.purged(DataType::Email) > ModSeq(0);
            if delivery.email.is_some_and(|email| !purged && !self.emails.contains_key(&email)) {
                self.say(Table::Deliveries, &key, "made an email that is not there");
            }
        }
        self.compare(Table::DeliveryByTime, &by_time)?;
        for (key, value) in self.rows(Table::Outbox)? {
            let action = Action::decode(&key, &value)?;
            let hint = key::due(action.due, account, action.id);
            if self.read.get(Table::OutboxDue, &hint)?.is_none() {
                self.say(Table::OutboxDue, &hint, "the row is missing");
            }
        }
        Ok(())
    }
}

/// Every wake-up hint is of an action that is due then.
pub(super) fn hints(read: &dyn Read, breaches: &mut Vec<Breach>) -> Result<(), Error> {
    read.scan(Table::OutboxDue, &[], &[0xff; 21], false, &mut |key, _| {
        let mut parts = Parts::of(Table::OutboxDue, key);
        let (action, account) = (ActionId(parts.u64()?), AccountId(parts.u32()?));
        let row = key::action(account, action);
        let due = match read.get(Table::Outbox, &row)? {
            Some(value) => Action::decode(&row, &value).is_ok_and(|found| key::due(found.due, account, action) == key),
            None => false,
        };
        if !due {
            let what = "no action is due then".into();
            breaches.push(Breach { account, table: Table::OutboxDue.name(), key: hex(key), what });
        }
        Ok(true)
    })
}
