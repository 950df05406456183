//! What is remembered of an account's dealings with a sender, for the vacation's engine: whether
//! the sender was told, and whether the owner has written to the sender.
//!
//! The second is answered by the search tokens of the owner's mail, so that nothing is kept for it.
//! Mail counts that the owner made: it was never delivered (it has no trace prefix), is no draft,
//! and lies in Sent or is from an address of the owner. So no sender becomes known by sending mail,
//! under whatever name; nor by the replies that were given in the owner's name. Of the mail that
//! names an address at most `MAX_EMAILS_EXAMINED` emails are looked at.

use super::OwnAddresses;
use crate::model::{
    AccountId, Address, EmailAddress, Identity, Role, ToldKey, ToldLifetime, UtcMillis, field,
    keyword,
};
use crate::store::{Error, Snapshot};
use crate::vacation::{AccountLookup, is_own_id, plain_in_domain};

/// Emails that name an address and are looked at.
const MAX_EMAILS_EXAMINED: usize = 1000;

/// One account at one time.
#[derive(Debug, Clone, Copy)]
pub struct AccountSnapshot<'a> {
    /// The state that is read.
    pub snapshot: &'a Snapshot<'a>,
    pub account: AccountId,
    /// Who that is.
    pub identity: &'a Identity,
    /// The addresses that the directory leads to it.
    pub own: &'a OwnAddresses,
    pub now: UtcMillis,
    /// The key of our own ids.
    pub secret: &'a [u8; 32],
}

impl AccountLookup for AccountSnapshot<'_> {
    type Error = Error;

    fn is_own(&self, address: &Address) -> Result<bool, Error> {
        self.own.has(address)
    }

    fn told(&self, who: &ToldKey, memory: &ToldLifetime) -> Result<Option<UtcMillis>, Error> {
        self.snapshot.last_told(self.account, who, memory, self.now)
    }

    /// A tag that leaves the sender its domain (BATV, VERP) does not hide whom the owner knows. An
    /// address that stands within one in another domain (SRS) was written by whoever sends, and
    /// makes nobody known.
    fn knows(&self, sender: &Address) -> Result<bool, Error> {
        let (folded, plain) = (sender.folded(), plain_in_domain(sender));
        Ok(self.has_written_to(&plain)? || (folded != plain && self.has_written_to(&folded)?))
    }
}

impl AccountSnapshot<'_> {
    /// Whether the owner has written to somebody, by that address as it stands.
    fn has_written_to(&self, who: &Address) -> Result<bool, Error> {
        let (snapshot, account) = (self.snapshot, self.account);
        let sent = snapshot
            .mailboxes(account)?
            .into_iter()
            .find(|(_, mailbox)| mailbox.role == Some(Role::Sent));
        let sent = sent.map(|(uid, _)| uid);
        let own = |person: &EmailAddress| {
            Address::parse(&person.email).is_ok_and(|address| self.identity.is_me(&address))
        };
        let (mut found, mut left) = (false, MAX_EMAILS_EXAMINED);
        snapshot.scan_emails_with_text(
            account,
            &who.reversed_domain(),
            field::TO | field::CC | field::BCC,
            |id| {
                left = left.saturating_sub(1);
                if let (Some(email), Some((prefix, content))) =
                    (snapshot.email(account, id)?, snapshot.content(account, id)?)
                {
                    let made = prefix.is_empty() && !email.has(keyword::DRAFT);
                    let is_own_mail = sent.is_some_and(|uid| email.mailboxes.contains(&uid))
                        || content.from.iter().any(own);
                    found = made
                        && is_own_mail
                        && !content.message_id.iter().any(|id| is_own_id(id, self.secret));
                }
                Ok(!found && left > 0)
            },
        )?;
        Ok(found)
    }
}
