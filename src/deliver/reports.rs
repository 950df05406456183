//! Files absence reports: when a vacation response that asks for one is over, a message in the
//! owner's Inbox lists what arrived during the absence.
//!
//! Each report is filed exactly once: one commit stores the report and the mark that it was filed,
//! and only if the response has not changed.

use std::collections::BTreeSet;

use super::Deliverer;
use crate::account::arrivals;
use crate::message::rows_of_any;
use crate::model::{AccountId, UtcMillis, VacationResponse};
use crate::store::{EncodedMessage, Error, NewEmail};

impl Deliverer {
    /// Files every report that is due. Returns when the next one will be due; `None` if no response
    /// that asks for a report ends later. `net::reports` calls this again and again.
    ///
    /// A failure to file a report is logged, and the next call tries again. May wait for the disk,
    /// so an asynchronous task must not call this.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn file_reports(&self) -> Result<Option<UtcMillis>, Error> {
        let now = self.store.clock().now();
        let mut next: Option<UtcMillis> = None;
        let pending = self.store.snapshot().pending_absence_reports()?;
        for (account, response) in pending {
            if !response.is_over(now) {
                let (_, end) = response.span();
                next = next.into_iter().chain(end.filter(|end| *end > now)).min();
                continue;
            }
            match self.file_report(account, &response, now) {
                Ok(true) => tracing::info!(%account, "absence report filed"),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%account, %error, "absence report not filed: will try again");
                }
            }
        }
        Ok(next)
    }

    /// Files the report of a response that is over. Returns false, and files nothing, if the
    /// response has changed or its report was filed since `response` was read.
    fn file_report(
        &self,
        account: AccountId,
        response: &VacationResponse,
        now: UtcMillis,
    ) -> Result<bool, Error> {
        let (identity, secrets) = (self.directory.identity(account)?, self.store.secrets());
        let report = arrivals::report(&self.store.snapshot(), account, response.span())?;
        // A part of the Message-ID, which differs between the absences of an owner.
        let id =
            format!("{:x}.{:x}", response.generation, response.absence.began.unwrap_or_default().0);
        let message = report.message(&identity, now, &id);
        let encoded = EncodedMessage::new(&rows_of_any(&message, secrets));
        let (filed, ticket) = self.store.commit(account, |txn| {
            if !txn.mark_absence_reported(response)? {
                return Ok(false);
            }
            txn.create_email(&NewEmail {
                message: &encoded,
                prefix: b"",
                mailboxes: BTreeSet::from([txn.state().inbox]),
                keywords: BTreeSet::new(),
                received_at: txn.now(),
            })?;
            txn.put_message(&encoded, &message)?;
            Ok(true)
        })?;
        ticket.wait_blocking()?;
        Ok(filed)
    }
}
