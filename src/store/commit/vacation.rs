//! The vacation response, who was told, and what was decided.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Txn;
use crate::model::{
    Absence, Action, ActionKind, Address, DataType, Decision, Recall, ToldKey, UtcMillis, VacationResponse, Verdict,
    limits,
};
use crate::store::engine::{Read, Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Row as _, Told};

impl Txn<'_> {
    /// Sets the response. A change of what it says or when, and switching it on again, begins a new generation: who was
    /// told before is forgotten. Says whether anything changed.
    ///
    /// # Errors
    /// Those of reading.
    pub fn set_vacation(&mut self, response: &VacationResponse) -> Result<bool, Error> {
        let key = key::account(self.account);
        let old = self.row::<VacationResponse>(&key)?.unwrap_or_default();
        let anew = response.differs_from(&old);
        let generation = if anew { old.generation.wrapping_add(1) } else { old.generation };
        let absence = self.absence(&old, response, anew);
        let row = VacationResponse { generation, absence, ..response.clone() };
        if row == old {
            return Ok(false);
        }
        self.next_modseq();
        self.put_row(key, &row);
        if anew {
            self.forget_told()?;
        }
        self.touch(DataType::VacationResponse);
        Ok(true)
    }

    /// A correction while it is on goes on with the same absence; so does a mere re-save after its end.
    fn absence(&self, old: &VacationResponse, new: &VacationResponse, anew: bool) -> Absence {
        let was_on = old.enabled && !old.is_over(self.now);
        match (was_on, new.enabled) {
            (false, true) if anew => Absence { began: Some(self.now), ended: None, reported: false },
            (true, false) => Absence { ended: Some(self.now), ..old.absence },
            _ => old.absence,
        }
    }

    /// Remembers that the report of the response's last absence was filed; false where there is nothing to report any more,
    /// for it was, or another absence began.
    ///
    /// # Errors
    /// Those of reading.
    pub fn absence_reported(&mut self, of: &VacationResponse) -> Result<bool, Error> {
        let key = key::account(self.account);
        let known = self.row::<VacationResponse>(&key)?.unwrap_or_default();
        if known != *of || known.absence.reported || !known.report || !known.is_over(self.now) {
            return Ok(false);
        }
        let absence = Absence { reported: true, ..known.absence };
        self.put_row(key, &VacationResponse { absence, ..known });
        Ok(true)
    }

    /// Forgets everyone who was told by the response; what scripts told stays.
    ///
    /// # Errors
    /// Those of reading.
    pub fn forget_told(&mut self) -> Result<(), Error> {
        let prefix = key::account(self.account);
        let (mut kept, mut gone) = (BTreeSet::new(), Vec::new());
        self.scan(Table::VacationTold, &prefix, &after(&prefix), false, &mut |key, value| {
            // What cannot be read is forgotten, too.
            match Told::decode(key, value).is_ok_and(|told| told.generation.is_none()) {
                true => drop(kept.insert(Parts::of(Table::VacationTold, key).take::<32>()?)),
                false => gone.push((Table::VacationTold, key.to_vec())),
            }
            Ok(true)
        })?;
        self.scan(Table::ToldByTime, &prefix, &after(&prefix), false, &mut |key, _| {
            if !kept.contains(&Parts::of(Table::ToldByTime, key).take::<32>()?) {
                gone.push((Table::ToldByTime, key.to_vec()));
            }
            Ok(true)
        })?;
        gone.into_iter().for_each(|(table, key)| self.delete(table, key));
        self.state.told = kept.len() as u64;
        Ok(())
    }

    /// Remembers that a sender, whose key is `who`, was told; beyond `limits::TOLD` the oldest is forgotten.
    ///
    /// # Errors
    /// Those of reading.
    pub fn remember_told(&mut self, who: &ToldKey, sender: &Address, memory: &Recall) -> Result<(), Error> {
        let (account, at) = (self.account, self.now);
        let (generation, until) = match memory {
            Recall::Response { generation, .. } => (Some(*generation), None),
            Recall::For(Duration::ZERO) => return Ok(()),
            Recall::For(time) => (None, Some(at.after(*time))),
        };
        self.remove_told(who)?;
        if self.state.told >= limits::TOLD as u64 {
            let prefix = key::account(account);
            let mut oldest = None;
            self.scan(Table::ToldByTime, &prefix, &after(&prefix), false, &mut |key, _| {
                oldest = Some(ToldKey(Parts::of(Table::ToldByTime, key).take()?));
                Ok(false)
            })?;
            if let Some(oldest) = oldest {
                self.remove_told(&oldest)?;
            }
        }
        self.put_row(key::told(account, who), &Told { generation, at, sender: sender.clone(), until });
        self.put(Table::ToldByTime, key::told_by_time(account, at, who), vec![1]);
        self.state.told += 1;
        Ok(())
    }

    /// Forgets one sender; says whether he was told.
    ///
    /// # Errors
    /// Those of reading.
    pub fn remove_told(&mut self, who: &ToldKey) -> Result<bool, Error> {
        let key = key::told(self.account, who);
        let told = self.row::<Told>(&key)?;
        if let Some(told) = &told {
            self.delete(Table::VacationTold, key);
            self.delete(Table::ToldByTime, key::told_by_time(self.account, told.at, who));
            self.state.told = self.state.told.saturating_sub(1);
        }
        Ok(told.is_some())
    }

    /// Forgets up to `most` of those who need not be remembered any more: whom a script told, once its time is over; whom
    /// the response told at `upto` or before, once it is off or over: until then they are not told again however long it
    /// lasts, and a new beginning forgets them anyway. Says whether more may be left.
    ///
    /// # Errors
    /// Those of reading.
    pub fn expire_told(&mut self, upto: UtcMillis, most: usize) -> Result<bool, Error> {
        let (own, now) = (key::account(self.account), self.now);
        let response = self.row::<VacationResponse>(&own)?.unwrap_or_default();
        let over = !response.enabled || response.to_date.is_some_and(|end| now >= end);
        let mut gone = Vec::new();
        self.scan(Table::ToldByTime, &own, &after(&own), false, &mut |key, _| {
            let who = ToldKey(Parts::of(Table::ToldByTime, key).take()?);
            let told = self.row::<Told>(&key::told(self.account, &who))?;
            let expired = |told: &Told| match told.until {
                Some(until) => until <= now,
                None => over && told.at <= upto,
            };
            if told.is_some_and(|told| expired(&told)) {
                gone.push(who);
            }
            Ok(gone.len() < most)
        })?;
        for who in &gone {
            self.remove_told(who)?;
        }
        Ok(gone.len() >= most)
    }

    /// Writes down what was decided for a message.
    pub fn add_decision(&mut self, decision: &Decision) {
        self.put_row(key::decision(self.account, decision.at, decision.email), decision);
    }

    /// Puts right what was decided for a message: the reply that was queued for it did not go out, and why. Nothing
    /// happens where the action is no reply, or the decision is kept no more.
    ///
    /// # Errors
    /// Those of reading.
    pub fn take_back_answer(&mut self, action: &Action, reason: &str, detail: &str) -> Result<(), Error> {
        // The decision was made in the commit that queued the reply, at its time.
        let Some(email) = action.email.filter(|_| action.kind == ActionKind::Reply) else { return Ok(()) };
        let key = key::decision(self.account, action.created, email);
        if let Some(decision) = self.row::<Decision>(&key)?
            && decision.verdict == Verdict::Answered(action.id)
        {
            let verdict = Verdict::Silent { reason: reason.into(), detail: detail.into() };
            self.put_row(key, &Decision { verdict, ..decision });
        }
        Ok(())
    }
}
