//! Decides at RCPT whether the address exists, its account accepts mail, and there is room for the
//! announced size.

use std::sync::Arc;

use super::{Deliverer, DeliveryTransaction, outcome};
use crate::model::{Envelope, Recipient};
use crate::wire::smtp::Reply;

impl Deliverer {
    /// Answers the RCPT command of one recipient. Quotas are only compared here: the commit checks
    /// them again.
    pub(super) fn admit_one(
        &self,
        session: &mut DeliveryTransaction,
        envelope: &Envelope,
        recipient: &Recipient,
    ) -> Reply {
        let settings = Arc::clone(session.settings.get_or_insert_with(|| self.settings.get()));
        let target = match self.directory.resolve(&recipient.address) {
            Ok(Some(target)) => target,
            // A store without any account is new, or its disk was not mounted: its mail must not
            // bounce. Nor may it if the store cannot be read.
            Ok(None) if self.directory.is_empty().unwrap_or(true) => {
                return Reply::new(
                    451,
                    [4, 3, 0],
                    "this server has no accounts yet: try again later",
                );
            }
            Ok(None) => return Reply::new(550, [5, 1, 1], "no account has this address"),
            Err(error) => return outcome::refusal(&error, &settings),
        };
        if !target.row.active {
            return Reply::new(550, [5, 2, 1], "this account is inactive and accepts no mail");
        }
        let account = target.account;
        if target.row.quota_bytes.is_some() || target.row.quota_emails.is_some() {
            let state = match self.store.snapshot().account_state(account) {
                Ok(state) => state,
                Err(error) => return outcome::refusal(&error, &settings),
            };
            // A message whose size was not announced has at least one byte. Unless scripts edit it,
            // it is filed once for an account, so its size counts once, even if several recipients
            // belong to the account.
            let size = envelope.size.unwrap_or(0).max(1);
            let lacks_bytes = target
                .row
                .quota_bytes
                .is_some_and(|quota| state.bytes.saturating_add(size) > quota);
            let lacks_emails = target.row.quota_emails.is_some_and(|quota| state.emails >= quota);
            if lacks_bytes || lacks_emails {
                return outcome::over_quota(&settings);
            }
        }
        session.targets.push(target);
        Reply::new(250, [2, 1, 5], "recipient accepted")
    }
}
