//! Files absence reports into the Inbox when a response that asks for one is over.
//!
//! Each report is filed exactly once: the report and the mark that it was filed are one commit,
//! made only if the response has not changed. If the process dies before, the report is filed the
//! next time.

use std::collections::BTreeSet;

use super::Deliverer;
use crate::account::arrivals;
use crate::message::rows_or_bare;
use crate::model::{AccountId, UtcMillis, VacationResponse};
use crate::store::{EncodedMessage, Error, NewEmail};

impl Deliverer {
    /// Files every report that is due. Returns when the next one will be due, as far as is known.
    ///
    /// A report that cannot be filed is logged, and tried again by the next call. This may wait for
    /// the disk, so an asynchronous task must not call it.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn file_reports(&self) -> Result<Option<UtcMillis>, Error> {
        let now = self.store.clock().now();
        let mut next: Option<UtcMillis> = None;
        let pending = self.store.snapshot().pending_absence_reports()?;
        for (account, response) in pending {
            if !response.is_over(now) {
                let (_, ended) = response.span();
                next = next.into_iter().chain(ended.filter(|ended| *ended > now)).min();
                continue;
            }
            match self.file_report(account, &response, now) {
                Ok(true) => tracing::info!(%account, "report of the absence filed"),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%account, %error, "absence report not filed; tried again");
                }
            }
        }
        Ok(next)
    }

    fn file_report(
        &self,
        account: AccountId,
        response: &VacationResponse,
        now: UtcMillis,
    ) -> Result<bool, Error> {
        let (identity, secrets) = (self.directory.identity(account)?, self.store.secrets());
        let report = arrivals::report(&self.store.snapshot(), account, response.span())?;
        let id =
            format!("{:x}.{:x}", response.generation, response.absence.began.unwrap_or_default().0);
        let message = report.message(&identity, now, &id);
        let encoded = EncodedMessage::new(&rows_or_bare(&message, secrets));
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
            txn.put_message(&encoded, &message);
            Ok(true)
        })?;
        ticket.wait_blocking()?;
        Ok(filed)
    }
}
