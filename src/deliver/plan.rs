//! The plan for one account: whether a message is answered, and how. All that it reads it reads
//! here, before the commit; the commit looks again at what may have changed meanwhile.

use super::Deliverer;
use super::context::{DeliveryContext, nonce};
use crate::account::{AccountSnapshot, OwnAddresses, ResolvedAddress};
use crate::message::rows_or_bare;
use crate::model::{Address, OriginalRecipient, Recipient, ThreadKey, VacationResponse};
use crate::store::{EncodedMessage, Error};
use crate::vacation::{
    DueReply, Input, Notice, RateCharge, Reason, ReplyDecision, Silence, VacationReply, consider,
};

/// A reply that is owed, if by the time of the commit that still holds.
#[derive(Debug, Clone)]
pub(super) struct PlannedReply {
    pub(super) due: DueReply,
    /// What it took of the rate; nothing where it was sent before.
    pub(super) counted: Option<RateCharge>,
    /// The rows of the reply's copy, where one is filed; it joins the original's thread whatever
    /// its subject.
    pub(super) copy: Option<EncodedMessage>,
}

impl Deliverer {
    /// Whether an account whose response is on answers.
    pub(super) fn plan_reply(
        &self,
        whole: &DeliveryContext<'_>,
        (recipient, target): (&Recipient, &ResolvedAddress),
        response: &VacationResponse,
        junk: bool,
    ) -> Result<ReplyDecision<Box<PlannedReply>>, Error> {
        let (snapshot, secrets, account) =
            (self.store.snapshot(), self.store.secrets(), target.account);
        let identity = self.directory.identity(account)?;
        let (sender, limits) = (whole.envelope.sender.as_ref(), &whole.settings.vacation.rate);
        let own = self.directory.own_addresses(account)?;
        let known_as = known_as(recipient.original.as_ref(), &own);
        let notice = Notice::of_response(response, &identity, sender, whole.facts(), whole.now);
        let input = Input {
            now: whole.now,
            sender,
            recipient: &recipient.address,
            known_as: known_as.as_ref(),
            identity: &identity,
            notice: &notice,
            facts: whole.facts(),
            forged: whole.envelope.forged.as_deref(),
            junk,
            secret: &secrets.told,
            settings: &whole.settings.vacation,
            nonce: nonce(whole.hash, account),
        };
        let world = AccountSnapshot {
            snapshot: &snapshot,
            account,
            identity: &identity,
            own: &own,
            now: whole.now,
            secret: &secrets.told,
        };
        let due = match consider(&input, &world)? {
            ReplyDecision::Reply(due) => *due,
            ReplyDecision::Silent(silence) => return Ok(ReplyDecision::Silent(silence)),
        };
        // A retry is answered as it was; it takes nothing of the rate.
        let is_new = snapshot.delivery(account, whole.hash)?.is_none();
        let counted = match sender.filter(|_| is_new) {
            Some(sender) => match self.rates.lock().replies.charge(
                whole.steady,
                account,
                sender.domain(),
                limits,
            ) {
                Ok(counted) => Some(counted),
                Err(detail) => {
                    return Ok(ReplyDecision::Silent(Silence::new(Reason::RateLimit, detail)));
                }
            },
            None => None,
        };
        let copy = due.reply.fcc.as_ref().map(|_| self.encode_copy(&due.reply, whole.thread_keys));
        Ok(ReplyDecision::Reply(Box::new(PlannedReply { due, counted, copy })))
    }

    fn encode_copy(&self, reply: &VacationReply, original: &[ThreadKey]) -> EncodedMessage {
        let mut rows = rows_or_bare(&reply.message, self.store.secrets());
        for key in original {
            if !rows.thread_keys.contains(key) {
                rows.thread_keys.push(*key);
            }
        }
        EncodedMessage::new(&rows)
    }
}

/// The address to which the sender wrote (RFC 3461 §4.2), if the directory gives it to this
/// account: the client that says so may be anybody's. An address of which the directory cannot
/// tell whose it is counts as none.
fn known_as(original: Option<&OriginalRecipient>, own: &OwnAddresses) -> Option<Address> {
    let usual =
        original.filter(|original| ["rfc822", "utf-8"].contains(&original.kind.as_str()))?;
    Address::parse(&usual.address).ok().filter(|address| own.has(address).unwrap_or(false))
}
