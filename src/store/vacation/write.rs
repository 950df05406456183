//! The vacation response, who was told, and what was decided.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::model::{
    Absence, Action, ActionKind, Address, DataType, Decision, EmailId, ToldKey, ToldLifetime,
    UtcMillis, VacationResponse, Verdict, limits,
};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{Row as _, ToldRow};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{DecisionKey, ToldTimeKey, VacationToldKey};
use crate::store::table::{Decisions, Present, ToldByTime, Vacation, VacationTold};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Sets the response. A change of what it says or when, and switching it on again, begins a new
    /// generation: who was told before is forgotten. Says whether anything changed.
    ///
    /// # Errors
    /// Those of reading.
    pub fn set_vacation(&mut self, response: &VacationResponse) -> Result<bool, Error> {
        let key = self.account_key();
        let old = self.row::<Vacation>(&key)?.unwrap_or_default();
        let anew = response.differs_from(&old);
        let generation = if anew { old.generation.wrapping_add(1) } else { old.generation };
        let absence = self.absence(&old, response, anew);
        let row = VacationResponse { generation, absence, ..response.clone() };
        if row == old {
            return Ok(false);
        }
        self.next_modseq();
        self.put::<Vacation>(&key, &row);
        if anew {
            self.forget_told()?;
        }
        self.touch(DataType::VacationResponse);
        Ok(true)
    }

    /// A correction while it is on goes on with the same absence; so does a mere re-save after its
    /// end.
    fn absence(&self, old: &VacationResponse, new: &VacationResponse, anew: bool) -> Absence {
        let was_on = old.enabled && !old.is_over(self.now);
        match (was_on, new.enabled) {
            (false, true) if anew => {
                Absence { began: Some(self.now), ended: None, reported: false }
            }
            (true, false) => Absence { ended: Some(self.now), ..old.absence },
            _ => old.absence,
        }
    }

    /// Remembers that the report of the response's last absence was filed; false where there is
    /// nothing to report any more, for it was, or another absence began.
    ///
    /// # Errors
    /// Those of reading.
    pub fn mark_absence_reported(&mut self, of: &VacationResponse) -> Result<bool, Error> {
        let key = self.account_key();
        let known = self.row::<Vacation>(&key)?.unwrap_or_default();
        if known != *of || known.absence.reported || !known.report || !known.is_over(self.now) {
            return Ok(false);
        }
        let absence = Absence { reported: true, ..known.absence };
        self.put::<Vacation>(&key, &VacationResponse { absence, ..known });
        Ok(true)
    }

    /// Forgets everyone who was told by the response; what scripts told stays.
    ///
    /// # Errors
    /// Those of reading.
    pub fn forget_told(&mut self) -> Result<(), Error> {
        let (mut kept, mut gone, mut gone_times) = (BTreeSet::new(), Vec::new(), Vec::new());
        self.keys(&KeyRange::<VacationTold>::under(&(self.account,)), |key, row| {
            // What cannot be read is forgotten, too.
            match ToldRow::decode(&key.encode(), row).is_ok_and(|told| told.generation.is_none()) {
                true => drop(kept.insert(key.told)),
                false => gone.push(key),
            }
            Ok(true)
        })?;
        self.keys(&KeyRange::<ToldByTime>::under(&(self.account,)), |key, _| {
            if !kept.contains(&key.told) {
                gone_times.push(key);
            }
            Ok(true)
        })?;
        gone.iter().for_each(|key| self.delete::<VacationTold>(key));
        gone_times.iter().for_each(|key| self.delete::<ToldByTime>(key));
        self.state.told = kept.len() as u64;
        Ok(())
    }

    /// Remembers that a sender, whose key is `who`, was told; beyond `limits::MAX_TOLD_SENDERS` the
    /// oldest is forgotten.
    ///
    /// # Errors
    /// Those of reading.
    pub fn remember_told(
        &mut self,
        who: &ToldKey,
        sender: &Address,
        memory: &ToldLifetime,
    ) -> Result<(), Error> {
        let (account, at) = (self.account, self.now);
        let (generation, until) = match memory {
            ToldLifetime::Response { generation, .. } => (Some(*generation), None),
            ToldLifetime::For(Duration::ZERO) => return Ok(()),
            ToldLifetime::For(time) => (None, Some(at.after(*time))),
        };
        self.remove_told(who)?;
        if self.state.told >= limits::MAX_TOLD_SENDERS as u64 {
            let oldest = self.first_key(&KeyRange::<ToldByTime>::under(&(account,)))?;
            if let Some(oldest) = oldest {
                self.remove_told(&oldest.told)?;
            }
        }
        let row = ToldRow { generation, at, sender: sender.clone(), until };
        self.put::<VacationTold>(&VacationToldKey { account, told: *who }, &row);
        self.put::<ToldByTime>(&ToldTimeKey { account, at: at.into(), told: *who }, &Present);
        self.state.told += 1;
        Ok(())
    }

    /// Forgets one sender. Says whether there was a told row.
    ///
    /// # Errors
    /// Those of reading.
    pub fn remove_told(&mut self, who: &ToldKey) -> Result<bool, Error> {
        let account = self.account;
        let key = VacationToldKey { account, told: *who };
        let told = self.row::<VacationTold>(&key)?;
        if let Some(told) = &told {
            self.delete::<VacationTold>(&key);
            self.delete::<ToldByTime>(&ToldTimeKey { account, at: told.at.into(), told: *who });
            self.state.told = self.state.told.saturating_sub(1);
        }
        Ok(told.is_some())
    }

    /// Forgets up to `most` of those who need not be remembered any more: whom a script told, once
    /// its time is over; whom the response told at `upto` or before, once it is off or over: until
    /// then they are not told again however long it lasts, and a new beginning forgets them anyway.
    /// Says whether more may be left.
    ///
    /// # Errors
    /// Those of reading.
    pub fn expire_told(&mut self, upto: UtcMillis, most: usize) -> Result<bool, Error> {
        let (account, now) = (self.account, self.now);
        let response = self.row::<Vacation>(&self.account_key())?.unwrap_or_default();
        let over = !response.enabled || response.to_date.is_some_and(|end| now >= end);
        let mut gone = Vec::new();
        self.keys(
            &KeyRange::<ToldByTime>::under(&(account,)),
            |ToldTimeKey { told: who, .. }, _| {
                let told = self.row::<VacationTold>(&VacationToldKey { account, told: who })?;
                let expired = |told: &ToldRow| match told.until {
                    Some(until) => until <= now,
                    None => over && told.at <= upto,
                };
                if told.is_some_and(|told| expired(&told)) {
                    gone.push(who);
                }
                Ok(gone.len() < most)
            },
        )?;
        for who in &gone {
            self.remove_told(who)?;
        }
        Ok(gone.len() >= most)
    }

    /// Writes down what was decided for a message.
    pub fn add_decision(&mut self, decision: &Decision) {
        self.put::<Decisions>(&self.decision_key(decision.at, decision.email), decision);
    }

    fn decision_key(&self, at: UtcMillis, email: EmailId) -> DecisionKey {
        DecisionKey { account: self.account, at: Reverse(at.into()), email }
    }

    /// Puts right what was decided for a message: the reply that was queued for it did not go out,
    /// and why. Nothing happens where the action is no reply, or the decision is kept no more.
    ///
    /// # Errors
    /// Those of reading.
    pub fn take_back_answer(
        &mut self,
        action: &Action,
        reason: &str,
        detail: &str,
    ) -> Result<(), Error> {
        // The decision was made in the commit that queued the reply, at its time.
        let Some(email) = action.email.filter(|_| action.kind == ActionKind::Reply) else {
            return Ok(());
        };
        let key = self.decision_key(action.created, email);
        if let Some(decision) = self.row::<Decisions>(&key)?
            && decision.verdict == Verdict::Answered(action.id)
        {
            let verdict = Verdict::Silent { reason: reason.into(), detail: detail.into() };
            self.put::<Decisions>(&key, &Decision { verdict, ..decision });
        }
        Ok(())
    }
}
