//! Looks up for the vacation responder whether an address is the owner's, whether a sender was
//! told, and whether the owner has written to the sender.
//!
//! Whether the owner has written is found by the search tokens of the owner's mail; nothing is
//! stored for it. An email counts as written by the owner if it was not delivered (it has no trace
//! prefix), is not a draft or a reply of the responder, and is in Sent or from an address of the
//! owner.

use super::OwnAddresses;
use crate::model::{
    AccountId, Address, EmailAddress, Identity, Role, ToldKey, ToldLifetime, UtcMillis, field,
    keyword,
};
use crate::store::{Error, Snapshot};
use crate::vacation::{AccountLookup, is_own_id, plain_in_domain};

/// How many emails that name the sender are examined for each form of the sender's address: with
/// and without its tag.
const MAX_EMAILS_EXAMINED: usize = 1000;

/// What the vacation responder asks about one account, answered from one snapshot.
#[derive(Debug, Clone, Copy)]
pub struct AccountSnapshot<'a> {
    pub snapshot: &'a Snapshot<'a>,
    pub account: AccountId,
    pub identity: &'a Identity,
    pub own: &'a OwnAddresses,
    pub now: UtcMillis,
    /// The key by which the Message-IDs of replies are recognised.
    pub secret: &'a [u8; 32],
}

impl AccountLookup for AccountSnapshot<'_> {
    type Error = Error;

    fn is_own(&self, address: &Address) -> Result<bool, Error> {
        self.own.has(address)
    }

    /// Returns when the sender with this key was last told, as far as that still counts.
    fn told(&self, key: &ToldKey, memory: &ToldLifetime) -> Result<Option<UtcMillis>, Error> {
        self.snapshot.last_told(self.account, key, memory, self.now)
    }

    /// Whether the owner has written to the sender, with or without a tag in the local part (BATV,
    /// VERP), as far as `has_written_to` looks. An address that is encoded in the local part of
    /// another domain (SRS) is only a claim of the sender, and does not count.
    fn knows(&self, sender: &Address) -> Result<bool, Error> {
        let (folded, plain) = (sender.folded(), plain_in_domain(sender));
        Ok(self.has_written_to(&plain)? || (folded != plain && self.has_written_to(&folded)?))
    }
}

impl AccountSnapshot<'_> {
    /// Whether the owner has written one of the emails with exactly this address in To, Cc or Bcc.
    /// Only the first `MAX_EMAILS_EXAMINED` of them, in the order of `scan_emails_with_text`, are
    /// examined.
    fn has_written_to(&self, address: &Address) -> Result<bool, Error> {
        let (snapshot, account) = (self.snapshot, self.account);
        let sent = snapshot
            .mailboxes(account)?
            .into_iter()
            .find(|(_, mailbox)| mailbox.role == Some(Role::Sent));
        let sent = sent.map(|(uid, _)| uid);
        let is_owner = |person: &EmailAddress| {
            Address::parse(&person.email).is_ok_and(|from| self.identity.is_me(&from))
        };
        let (mut has_written, mut emails_left) = (false, MAX_EMAILS_EXAMINED);
        snapshot.scan_emails_with_text(
            account,
            &address.reversed_domain(),
            field::TO | field::CC | field::BCC,
            |id| {
                emails_left = emails_left.saturating_sub(1);
                if let (Some(email), Some((prefix, content))) =
                    (snapshot.email(account, id)?, snapshot.content(account, id)?)
                {
                    let may_be_sent = prefix.is_empty() && !email.has(keyword::DRAFT);
                    let is_own_mail = sent.is_some_and(|uid| email.mailboxes.contains(&uid))
                        || content.from.iter().any(is_owner);
                    has_written = may_be_sent
                        && is_own_mail
                        && !content.message_id.iter().any(|id| is_own_id(id, self.secret));
                }
                Ok(!has_written && emails_left > 0)
            },
        )?;
        Ok(has_written)
    }
}
