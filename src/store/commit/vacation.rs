//! The vacation response, who was told, and what was decided.

use super::Txn;
use crate::model::{
    Action, ActionKind, Address, DataType, Decision, ToldKey, UtcMillis, VacationResponse, Verdict, limits,
};
use crate::store::engine::{Read, Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::Told;

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
        let row = VacationResponse { generation, ..response.clone() };
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

    /// Forgets everyone who was told.
    ///
    /// # Errors
    /// Those of reading.
    pub fn forget_told(&mut self) -> Result<(), Error> {
        let prefix = key::account(self.account);
        for table in [Table::VacationTold, Table::ToldByTime] {
            let mut keys = Vec::new();
            self.scan(table, &prefix, &after(&prefix), false, &mut |key, _| {
                keys.push(key.to_vec());
                Ok(true)
            })?;
            keys.into_iter().for_each(|key| self.delete(table, key));
        }
        self.state.told = 0;
        Ok(())
    }

    /// Remembers that a sender, whose key is `who`, was told; beyond `limits::TOLD` the oldest is forgotten.
    ///
    /// # Errors
    /// Those of reading.
    pub fn remember_told(&mut self, who: &ToldKey, sender: &Address, generation: u32) -> Result<(), Error> {
        self.remove_told(who)?;
        let (account, at) = (self.account, self.now);
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
        self.put_row(key::told(account, who), &Told { generation, at, sender: Some(sender.clone()) });
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

    /// Forgets up to `most` of those who were told at `upto` or before, once the response is off or over: until then they
    /// are not told again however long it lasts, and a new beginning forgets them anyway. Says whether more may be left.
    ///
    /// # Errors
    /// Those of reading.
    pub fn expire_told(&mut self, upto: UtcMillis, most: usize) -> Result<bool, Error> {
        let account = self.account;
        let response = self.row::<VacationResponse>(&key::account(account))?.unwrap_or_default();
        if response.enabled && response.to_date.is_none_or(|end| self.now < end) {
            return Ok(false);
        }
        let over = UtcMillis(upto.0.saturating_add(1));
        let (from, to) = (key::account(account), key::told_by_time(account, over, &ToldKey([0; 32])));
        let mut told = Vec::new();
        self.scan(Table::ToldByTime, &from, &to, false, &mut |key, _| {
            told.push(ToldKey(Parts::of(Table::ToldByTime, key).take()?));
            Ok(told.len() < most)
        })?;
        for who in &told {
            self.remove_told(who)?;
        }
        Ok(told.len() >= most)
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
