//! At RCPT: is there such an address, does its account take mail, and is there room for what SIZE
//! announces?

use std::sync::Arc;

use super::{Deliverer, DeliveryTransaction, outcome};
use crate::model::{Envelope, Recipient};
use crate::wire::smtp::Reply;

impl Deliverer {
    pub(super) fn admit_one(
        &self,
        session: &mut DeliveryTransaction,
        envelope: &Envelope,
        recipient: &Recipient,
    ) -> Reply {
        let settings = Arc::clone(session.settings.get_or_insert_with(|| self.settings.get()));
        let found = match self.directory.resolve(&recipient.address) {
            Ok(Some(found)) => found,
            // Where nobody has any, the store is new, or not the one that it should be: a disk that
            // was not mounted must not have all mail bounce.
            Ok(None) if self.directory.is_empty().unwrap_or(true) => {
                return Reply::new(451, [4, 3, 0], "no account has been made here yet");
            }
            Ok(None) => return Reply::new(550, [5, 1, 1], "nobody here has that address"),
            Err(error) => return outcome::refusal(&error, &settings),
        };
        if !found.row.active {
            return Reply::new(550, [5, 2, 1], "that mailbox takes no mail at present");
        }
        let account = found.account;
        if found.row.quota_bytes.is_some() || found.row.quota_emails.is_some() {
            let state = match self.store.snapshot().account_state(account) {
                Ok(state) => state,
                Err(error) => return outcome::refusal(&error, &settings),
            };
            // However many recipients of a transaction are this account's, the message is filed
            // once.
            let wanted = envelope.size.unwrap_or(0).max(1);
            let octets =
                found.row.quota_bytes.is_some_and(|most| state.bytes.saturating_add(wanted) > most);
            let emails = found.row.quota_emails.is_some_and(|most| state.emails >= most);
            if octets || emails {
                return outcome::over_quota(&settings);
            }
        }
        session.targets.push(found);
        Reply::new(250, [2, 1, 5], "recipient noted")
    }
}
