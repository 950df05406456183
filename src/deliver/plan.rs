//! Plans the reply for one account: whether a message is answered, and how.
//!
//! Everything is read here before the commit and without its lock. The commit must check again what
//! may have changed meanwhile.

use super::Deliverer;
use super::context::{DeliveryContext, RecipientContext, nonce};
use crate::account::{AccountSnapshot, OwnAddresses};
use crate::filter::EditedMessage;
use crate::message::rows_of_any;
use crate::model::{Address, OriginalRecipient, ThreadKey, VacationResponse};
use crate::store::{EncodedMessage, Error};
use crate::vacation::{
    self, DueReply, Input, NoReplyReason, Notice, RateCharge, ReplyDecision, Silence, consider,
};

/// A reply that is sent if the commit finds the response and the told row unchanged.
#[derive(Debug, Clone)]
pub(super) struct PlannedReply {
    pub(super) due: DueReply,
    /// What was charged to the rate. It must be refunded if the reply is not queued.
    pub(super) charge: RateCharge,
    /// The rows of the copy of the reply; `None` if no copy is filed. The copy joins the thread of
    /// the message that is answered, whatever its subject.
    pub(super) copy: Option<EncodedMessage>,
}

/// What answers a message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Notifier<'a> {
    /// The response of the account, which is on.
    Response(&'a VacationResponse),
    /// The `vacation` action of a script. It answers an edited version of the message, if there is
    /// one here.
    Script(&'a vacation::Script, Option<&'a EditedMessage>),
}

impl Deliverer {
    /// Decides whether an account answers, and composes the reply, which is charged to the rate.
    /// `junk` says whether the message is filed in Junk.
    pub(super) fn plan_reply(
        &self,
        context: &DeliveryContext<'_>,
        owner: RecipientContext<'_>,
        notifier: Notifier<'_>,
        junk: bool,
    ) -> Result<ReplyDecision<Box<PlannedReply>>, Error> {
        let RecipientContext { snapshot, recipient, identity, .. } = owner;
        let (secrets, account) = (self.store.secrets(), owner.target.account);
        let (sender, limits) = (context.envelope.sender.as_ref(), &context.settings.vacation.rate);
        let own = self.directory.own_addresses(account)?;
        let known_as = known_as(recipient.original.as_ref(), &own);
        let edited = match notifier {
            Notifier::Script(_, Some(message)) => Some(context.edited_facts(message)),
            _ => None,
        };
        let facts = edited.as_ref().unwrap_or_else(|| context.facts());
        let notice = match notifier {
            Notifier::Response(response) => {
                Notice::of_response(response, identity, sender, facts, context.now)
            }
            Notifier::Script(script, _) => Notice::of_script(script),
        };
        let input = Input {
            now: context.now,
            sender,
            recipient: &recipient.address,
            known_as: known_as.as_ref(),
            identity,
            notice: &notice,
            facts,
            forged: context.envelope.forged.as_deref(),
            junk,
            secret: &secrets.told,
            settings: &context.settings.vacation,
            nonce: nonce(context.hash, account, &recipient.address),
        };
        let lookup = AccountSnapshot {
            snapshot,
            account,
            identity,
            own: &own,
            now: context.now,
            secret: &secrets.told,
        };
        let due = match consider(&input, &lookup)? {
            ReplyDecision::Reply(due) => *due,
            ReplyDecision::Silent(silence) => return Ok(ReplyDecision::Silent(silence)),
        };
        // Cannot be: `consider` answers no message without a sender.
        let Some(sender) = sender else {
            let silence = Silence::new(NoReplyReason::NullSender, "");
            return Ok(ReplyDecision::Silent(silence));
        };
        let charged = self.rates.lock().replies.charge(
            context.monotonic_now,
            account,
            sender.domain(),
            limits,
        );
        let charge = match charged {
            Ok(charge) => charge,
            Err(detail) => {
                return Ok(ReplyDecision::Silent(Silence::new(NoReplyReason::RateLimit, detail)));
            }
        };
        let copy = due
            .reply
            .fcc
            .as_ref()
            .map(|_| self.encode_copy(&due.reply.message, context.thread_keys));
        Ok(ReplyDecision::Reply(Box::new(PlannedReply { due, charge, copy })))
    }

    /// Returns the encoded rows for the copy of a message that is sent. `original` are the thread
    /// keys of the message for which it is sent: the copy gets them, too.
    pub(super) fn encode_copy(&self, message: &[u8], original: &[ThreadKey]) -> EncodedMessage {
        let mut rows = rows_of_any(message, self.store.secrets());
        for key in original {
            if !rows.thread_keys.contains(key) {
                rows.thread_keys.push(*key);
            }
        }
        EncodedMessage::new(&rows)
    }
}

/// Returns the address to which the sender wrote (RFC 3461 §4.2). `None` if it is not known, or the
/// directory does not resolve it to this account: the client could claim any address.
fn known_as(original: Option<&OriginalRecipient>, own: &OwnAddresses) -> Option<Address> {
    let mail_address =
        original.filter(|original| ["rfc822", "utf-8"].contains(&original.kind.as_str()))?;
    Address::parse(&mail_address.address).ok().filter(|address| own.has(address).unwrap_or(false))
}
