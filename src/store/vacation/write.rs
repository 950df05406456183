//! Writes the vacation response, told rows and decisions.
//!
//! - A change of what the replies say or when they are sent begins a new generation
//!   (`VacationResponse::differs_from`); so does switching the response on or off. The told rows of
//!   the response are deleted then.
//! - Told rows of Sieve scripts have no generation, so they stay.
//! - An account has at most `limits::MAX_TOLD_SENDERS` told rows, both kinds together. A further
//!   one replaces the oldest.

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
use crate::store::table::codec::{KeyTime, Prefix as _};
use crate::store::table::keys::{DecisionKey, ToldTimeKey, VacationToldKey};
use crate::store::table::{
    Decisions, EmailTokens, Present, Table as _, ToldByTime, Vacation, VacationTold, decode_key,
};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Sets the response. Returns whether anything changed. The generation and the absence that
    /// `response` has are ignored: they follow from the stored response. A stored response that is
    /// damaged is replaced, and a new generation begins.
    pub fn set_vacation(&mut self, response: &VacationResponse) -> Result<bool, Error> {
        let key = self.account_key();
        let (old, is_damaged) = match self.row_if_any::<Vacation>(&key)? {
            Some(Ok(old)) => (old, false),
            None => (VacationResponse::default(), false),
            Some(Err(_)) => (VacationResponse::default(), true),
        };
        let is_new_generation = is_damaged || response.differs_from(&old);
        let generation =
            if is_new_generation { old.generation.wrapping_add(1) } else { old.generation };
        let absence = self.absence(&old, response, is_new_generation);
        let row = VacationResponse { generation, absence, ..response.clone() };
        if row == old {
            return Ok(false);
        }
        self.next_modseq();
        self.put::<Vacation>(&key, &row);
        if is_new_generation {
            self.forget_told()?;
        }
        self.touch(DataType::VacationResponse);
        Ok(true)
    }

    /// Returns the absence after a change of the response.
    ///
    /// - An absence begins when the response is switched on, or when a response that is over
    ///   (`is_over`) begins a new generation.
    /// - An absence ends when the response is switched off before it is over.
    /// - Otherwise it stays as it is, for instance if a text is corrected while the response is on.
    fn absence(
        &self,
        old: &VacationResponse,
        new: &VacationResponse,
        is_new_generation: bool,
    ) -> Absence {
        let was_on = old.enabled && !old.is_over(self.now);
        match (was_on, new.enabled) {
            (false, true) if is_new_generation => {
                Absence { began: Some(self.now), ended: None, reported: false }
            }
            (true, false) => Absence { ended: Some(self.now), ..old.absence },
            _ => old.absence,
        }
    }

    /// Notes that the report of the response's last absence was filed. Returns `false`, and notes
    /// nothing, if the stored response is not `expected` any more, or if no report is due: it was
    /// filed before or is not wanted, or the response is not over.
    pub fn mark_absence_reported(&mut self, expected: &VacationResponse) -> Result<bool, Error> {
        let key = self.account_key();
        let stored = self.row::<Vacation>(&key)?.unwrap_or_default();
        if stored != *expected
            || stored.absence.reported
            || !stored.report
            || !stored.is_over(self.now)
        {
            return Ok(false);
        }
        let absence = Absence { reported: true, ..stored.absence };
        self.put::<Vacation>(&key, &VacationResponse { absence, ..stored });
        Ok(true)
    }

    /// Deletes the told rows of the response, not those of scripts. Returns how many there were.
    pub fn forget_told(&mut self) -> Result<u64, Error> {
        let (mut of_scripts, mut rows, mut times) = (BTreeSet::new(), Vec::new(), Vec::new());
        self.raw_rows(&KeyRange::<VacationTold>::under(&(self.account,)), |key, row| {
            // Rows that cannot be read are deleted, too, and those whose keys are damaged.
            match (decode_key::<VacationTold>(key), ToldRow::decode(key, row)) {
                (Ok(key), Ok(told)) if told.generation.is_none() => {
                    of_scripts.insert(key.told);
                }
                _ => rows.push(key.to_vec()),
            }
            Ok(true)
        })?;
        self.raw_rows(&KeyRange::<ToldByTime>::under(&(self.account,)), |key, _| {
            if !decode_key::<ToldByTime>(key).is_ok_and(|key| of_scripts.contains(&key.told)) {
                times.push(key.to_vec());
            }
            Ok(true)
        })?;
        let count = rows.len() as u64;
        rows.into_iter().for_each(|key| self.stage_row(VacationTold::ID, key, None));
        times.into_iter().for_each(|key| self.stage_row(ToldByTime::ID, key, None));
        self.state.told = of_scripts.len() as u64;
        Ok(count)
    }

    /// Writes the told row of a sender, whose key is `who`, in place of an earlier one. If the
    /// account has `limits::MAX_TOLD_SENDERS` others, deletes the oldest. Does nothing at all if
    /// the lifetime is zero.
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
            self.remove_oldest_told()?;
        }
        let row = ToldRow { generation, at, sender: sender.clone(), until };
        self.put::<VacationTold>(&VacationToldKey { account, told: *who }, &row);
        self.put::<ToldByTime>(&ToldTimeKey { account, at: at.into(), told: *who }, &Present);
        self.state.told += 1;
        Ok(())
    }

    /// Deletes the told row with this key, also if it is damaged. Returns whether there was one.
    pub fn remove_told(&mut self, who: &ToldKey) -> Result<bool, Error> {
        let account = self.account;
        let key = VacationToldKey { account, told: *who };
        let Some(told) = self.row_if_any::<VacationTold>(&key)? else { return Ok(false) };
        self.delete::<VacationTold>(&key);
        self.state.told = self.state.told.saturating_sub(1);
        if let Ok(told) = told {
            self.delete::<ToldByTime>(&ToldTimeKey { account, at: told.at.into(), told: *who });
            return Ok(true);
        }
        // The row does not tell its time.
        let mut times = Vec::new();
        self.keys_or_damage(&KeyRange::<ToldByTime>::under(&(account,)), |key, _| {
            times.extend(key.ok().filter(|key| key.told == *who));
            Ok(true)
        })?;
        times.iter().for_each(|key| self.delete::<ToldByTime>(key));
        Ok(true)
    }

    /// Deletes the oldest told row, or what damage has left of it.
    fn remove_oldest_told(&mut self) -> Result<(), Error> {
        let mut oldest = None;
        self.raw_rows(&KeyRange::<ToldByTime>::under(&(self.account,)), |key, _| {
            oldest = Some(key.to_vec());
            Ok(false)
        })?;
        let Some(key) = oldest else { return Ok(()) };
        if let Ok(ToldTimeKey { told, .. }) = decode_key::<ToldByTime>(&key) {
            self.remove_told(&told)?;
        }
        self.stage_row(ToldByTime::ID, key, None);
        Ok(())
    }

    /// Deletes up to `limit` expired told rows; `limit` is at least 1. Returns whether more may be
    /// left.
    ///
    /// - A told row of the response is expired if it was written at `upto` or before, and the
    ///   response is off or past its `to_date`.
    /// - A told row of a script is expired from its `until` on.
    /// - A damaged one is expired if it was written at `upto` or before: it tells nothing else.
    pub fn expire_told(&mut self, upto: UtcMillis, limit: usize) -> Result<bool, Error> {
        let (account, now) = (self.account, self.now);
        // While the response cannot be read, it counts as on.
        let is_off = match self.row_if_any::<Vacation>(&self.account_key())? {
            Some(Ok(response)) => {
                !response.enabled || response.to_date.is_some_and(|end| now >= end)
            }
            Some(Err(_)) => false,
            None => true,
        };
        let mut senders = Vec::new();
        self.keys_or_damage(&KeyRange::<ToldByTime>::under(&(account,)), |key, _| {
            // A repair deletes a damaged key.
            let Ok(ToldTimeKey { told: who, at, .. }) = key else { return Ok(true) };
            let told = self.row_if_any::<VacationTold>(&VacationToldKey { account, told: who })?;
            let is_expired = told.is_some_and(|told| match told {
                Ok(ToldRow { until: Some(until), .. }) => until <= now,
                Ok(told) => is_off && told.at <= upto,
                Err(_) => UtcMillis::from(at) <= upto,
            });
            if is_expired {
                senders.push(who);
            }
            Ok(senders.len() < limit)
        })?;
        for who in &senders {
            self.remove_told(who)?;
        }
        Ok(senders.len() >= limit)
    }

    /// Writes what was decided of a message. If the message was not stored, the decision has no
    /// email id: it gets the first key of its time that is free, counted from id 0. So does a later
    /// decision on an email that was filed before, if the email's own key is taken.
    pub fn add_decision(&mut self, decision: &Decision) -> Result<(), Error> {
        let mut key = self.decision_key(decision.at, decision.email.unwrap_or_default());
        // Nothing was decided before of an email that this commit creates.
        let is_new = decision.email.is_some_and(|email| self.creates_email(email));
        if !is_new && self.bytes::<Decisions>(&key)?.is_some() {
            key.email = EmailId::default();
            while self.bytes::<Decisions>(&key)?.is_some() {
                key.email.0 += 1;
            }
        }
        self.put::<Decisions>(&key, decision);
        Ok(())
    }

    fn creates_email(&self, email: EmailId) -> bool {
        let tokens = (EmailTokens::ID, self.email_key(email).encode());
        self.stage.get(&tokens).is_some_and(Option::is_some)
    }

    fn decision_key(&self, at: UtcMillis, email: EmailId) -> DecisionKey {
        DecisionKey { account: self.account, at: Reverse(at.into()), email }
    }

    /// Corrects the decision on a message whose queued reply, the `action`, was not sent: the
    /// decision becomes `Silent`. Does nothing if the action is not a reply, or no stored decision
    /// names it.
    pub fn take_back_answer(
        &mut self,
        action: &Action,
        reason: &str,
        detail: &str,
    ) -> Result<(), Error> {
        if action.kind != ActionKind::Reply {
            return Ok(());
        }
        // The commit that queued the reply stored the decision, with the time of the action or with
        // that of the email that the commit created.
        let times = [Some(action.created), action.email.map(EmailId::received_at)];
        let mut found = None;
        for at in times.into_iter().flatten() {
            let range = KeyRange::<Decisions>::under(&(self.account, Reverse(KeyTime::from(at))));
            self.raw_rows(&range, |key, row| {
                // A damaged decision is not this one, or is lost anyway.
                if let (Ok(id), Ok(decision)) =
                    (decode_key::<Decisions>(key), Decision::decode(key, row))
                    && decision.verdict == Verdict::Answered(action.id)
                {
                    found = Some((id, decision));
                }
                Ok(found.is_none())
            })?;
        }
        if let Some((key, decision)) = found {
            let verdict = Verdict::Silent { reason: reason.into(), detail: detail.into() };
            self.put::<Decisions>(&key, &Decision { verdict, ..decision });
        }
        Ok(())
    }
}
