//! Checks the vacation response and what deliveries leave besides emails.

use crate::model::{ActionId, DataType, Decision, ModSeq, VacationResponse, Verdict};
use crate::store::engine::Table;
use crate::store::engine::typed::TypedRead as _;
use crate::store::error::Error;
use crate::store::repair::check::{Checker, RowFix};
use crate::store::row::{DeliveredEmail, RowFormat as _};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{AccountKey, DeliveryTimeKey, ToldTimeKey};
use crate::store::table::{
    Decisions, Deliveries, DeliveryByTime, Present, Table as _, ThreadRefs, ToldByTime, Vacation,
    VacationTold,
};

impl Checker<'_> {
    /// Checks the vacation response, told rows, the records of transactions, `thread_refs`, the
    /// decisions, and the queued actions. Also notes the actions that decisions name.
    pub(in crate::store) fn check_delivery_records(&mut self) -> Result<(), Error> {
        self.check_told_rows()?;
        self.check_deliveries()?;
        let mut refs = self.rows::<ThreadRefs>();
        while let Some(found) = refs.next()? {
            if found.id().is_none() || found.row().is_err() {
                let what = "cannot be read: an answer to this message begins a thread of its own";
                self.report(Table::ThreadRefs, &found.key, what, RowFix::Delete)?;
            }
        }
        let mut decisions = self.rows::<Decisions>();
        while let Some(found) = decisions.next()? {
            match found.row() {
                _ if found.id().is_none() => self.report_extra(Table::Decisions, &found.key)?,
                Ok(Decision { verdict: Verdict::Answered(action), .. }) => self.note_action(action),
                Ok(_) => {}
                Err(error) => {
                    self.report(Table::Decisions, &found.key, error.to_string(), RowFix::Delete)?;
                }
            }
        }
        self.check_actions()
    }

    fn check_told_rows(&mut self) -> Result<(), Error> {
        let account = self.account;
        let (own, found) = (
            AccountKey { account }.encode(),
            self.read.bytes::<Vacation>(&AccountKey { account })?,
        );
        let response = match found.map(|row| VacationResponse::from_bytes(Vacation::ID, &own, &row))
        {
            None => Some(VacationResponse::default()),
            Some(Ok(response)) => Some(response),
            Some(Err(error)) => {
                let what = format!("{error}: set the response anew");
                self.report(Table::Vacation, &own, what, RowFix::Nothing)?;
                // Without a response, the generations of told rows are not compared.
                None
            }
        };
        let mut by_time = Vec::new();
        let mut rows = self.rows::<VacationTold>();
        while let Some(found) = rows.next()? {
            let (Some(key), Ok(told)) = (found.id(), found.row()) else {
                self.report(
                    Table::VacationTold,
                    &found.key,
                    "cannot be read: the sender it names may be answered again",
                    RowFix::Delete,
                )?;
                continue;
            };
            if response.as_ref().is_some_and(|response| {
                told.generation.is_some_and(|told| told != response.generation)
            }) {
                let what = "belongs to another generation of the response";
                self.report(Table::VacationTold, &found.key, what, RowFix::Delete)?;
                continue;
            }
            by_time.push(ToldTimeKey { account, at: told.at.into(), told: key.told });
        }
        self.census.told = by_time.len() as u64;
        by_time.sort_unstable();
        self.expect_rows::<ToldByTime>(by_time.into_iter().map(|key| (key, Present)))
    }

    fn check_deliveries(&mut self) -> Result<(), Error> {
        let account = self.account;
        let mut by_time = Vec::new();
        let mut rows = self.rows::<Deliveries>();
        while let Some(found) = rows.next()? {
            let (Some(key), Ok(delivery)) = (found.id(), found.row()) else {
                let what = "cannot be read: a retry of this transaction would be filed again";
                self.report(Table::Deliveries, &found.key, what, RowFix::Delete)?;
                continue;
            };
            by_time.push(DeliveryTimeKey { account, at: delivery.at.into(), hash: key.hash });
            // The record of a delivery may stay longer than its email, so that a retry is still
            // answered. So a missing email is a fault only if no email was purged so far. A state
            // that cannot be read does not tell.
            let has_purged = self
                .found_state
                .as_ref()
                .is_none_or(|state| state.low_mark(DataType::Email) > ModSeq(0));
            let is_missing =
                |filed: &DeliveredEmail| !has_purged && !self.census.has_email(filed.email);
            if delivery.emails.iter().any(is_missing) {
                self.report(
                    Table::Deliveries,
                    &found.key,
                    "names an email that does not exist",
                    RowFix::Nothing,
                )?;
            }
        }
        by_time.sort_unstable();
        self.expect_rows::<DeliveryByTime>(by_time.into_iter().map(|key| (key, Present)))
    }

    /// Notes that a row names this action, so that its id is not used again.
    pub(in crate::store) fn note_action(&mut self, action: ActionId) {
        self.census.last_action = self.census.last_action.max(action.0);
    }
}
