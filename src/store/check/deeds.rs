//! Told rows, served transactions, and what is kept of decisions.

use super::rows::Pair;
use super::{Checker, Mend};
use crate::model::{ActionId, DataType, Decision, ModSeq, ToldKey, VacationResponse, Verdict};
use crate::store::engine::Table;
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Delivery, Row, ThreadRefs, Told};

impl Checker<'_> {
    pub(super) fn deeds(&mut self) -> Result<(), Error> {
        self.told()?;
        self.deliveries()?;
        let mut refs = self.rows(Table::ThreadRefs, &key::account(self.account));
        while let Some((key, value)) = refs.next()? {
            if key.len() != 36 || ThreadRefs::decode(&value).is_none() {
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

    pub(super) fn note_action(&mut self, action: ActionId) {
        self.census.last_action = self.census.last_action.max(action.0);
    }
}
