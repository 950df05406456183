//! `consider`: the responder's entry point, which decides about one message and composes the reply.
//! It writes nothing.

use super::decide::{AccountLookup, AnsweredSender, Input, ReplyDecision, decide};
use super::reply::{VacationReply, reply};
use crate::model::{Address, ToldKey, ToldLifetime};

/// A reply that is to be sent. The commit that queues it also stores `told` for `memory`, so that
/// the sender is not answered again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueReply {
    pub reply: VacationReply,
    pub told: ToldKey,
    pub memory: ToldLifetime,
}

/// Decides whether a message is answered, and composes the reply if it is.
///
/// # Errors
/// Those of `decide`.
pub fn consider<L: AccountLookup>(
    input: &Input<'_>,
    lookup: &L,
) -> Result<ReplyDecision<Box<DueReply>>, L::Error> {
    Ok(match decide(input, lookup)? {
        ReplyDecision::Reply(AnsweredSender { sender, told }) => {
            // An address whose look-up fails does not count as the owner's.
            let is_own = |address: &Address| lookup.is_own(address).unwrap_or(false);
            let reply = reply(input, sender, is_own);
            ReplyDecision::Reply(Box::new(DueReply { reply, told, memory: input.notice.memory }))
        }
        ReplyDecision::Silent(silence) => ReplyDecision::Silent(silence),
    })
}
