//! At RCPT: is there such an address, does its account take mail, and is there room for what SIZE announces and what the
//! same transaction has reserved already?

use std::sync::Arc;

use super::{Deliver, Session, outcome};
use crate::model::{Envelope, Recipient};
use crate::wire::smtp::Reply;

impl Deliver {
    pub(super) fn admit_one(&self, session: &mut Session, envelope: &Envelope, recipient: &Recipient) -> Reply {
        let settings = Arc::clone(session.settings.get_or_insert_with(|| self.settings.get()));
        let found = match self.directory.resolve(&recipient.address) {
            Ok(Some(found)) => found,
            Ok(None) => return Reply::new(550, [5, 1, 1], "nobody here has that address"),
            Err(error) => return outcome::refused(&error, &settings),
        };
        if !found.row.active {
            return Reply::new(550, [5, 2, 1], "that mailbox takes no mail at present");
        }
        let account = found.account;
        // A second recipient of the same account costs nothing: the message is filed once.
        let mine = session.targets.iter().any(|target| target.account == account);
        let reserved = if mine { 0 } else { envelope.size.unwrap_or(0) };
        if found.row.quota_octets.is_some() || found.row.quota_emails.is_some() {
            let state = match self.store.view().account_state(account) {
                Ok(state) => state,
                Err(error) => return outcome::refused(&error, &settings),
            };
            let wanted = session.reserved.get(&account).copied().unwrap_or(0).max(reserved);
            let octets = found.row.quota_octets.is_some_and(|most| state.octets.saturating_add(wanted.max(1)) > most);
            let emails = found.row.quota_emails.is_some_and(|most| state.emails >= most);
            if octets || emails {
                return outcome::over_quota(&settings);
            }
        }
        *session.reserved.entry(account).or_default() += reserved;
        session.targets.push(found);
        Reply::new(250, [2, 1, 5], "recipient noted")
    }
}
