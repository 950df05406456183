//! One message and one notice, to a reply or a reason for none: the whole of the engine in one
//! call, for deliveries, for scripts, and for trying a message out. What is remembered is asked of
//! an `AccountLookup`; nothing is written here.

use super::decide::{AccountLookup, Addressee, Input, ReplyDecision, decide};
use super::reply::{VacationReply, reply};
use crate::model::{Address, ToldKey, ToldLifetime};

/// A reply that is owed. Once it is queued, `told` is stored for `memory`, so that the sender is
/// not answered again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueReply {
    pub reply: VacationReply,
    /// Under which key it is remembered.
    pub told: ToldKey,
    /// For how long.
    pub memory: ToldLifetime,
}

/// Decides, and composes the reply where one is owed.
///
/// # Errors
/// Those of the look-ups.
pub fn consider<L: AccountLookup>(
    input: &Input<'_>,
    lookup: &L,
) -> Result<ReplyDecision<Box<DueReply>>, L::Error> {
    Ok(match decide(input, lookup)? {
        ReplyDecision::Reply(Addressee { sender, told }) => {
            // Where the directory cannot tell whose an address is, it is no reply's From.
            let is_own = |address: &Address| lookup.is_own(address).unwrap_or(false);
            let reply = reply(input, sender, is_own);
            ReplyDecision::Reply(Box::new(DueReply { reply, told, memory: input.notice.memory }))
        }
        ReplyDecision::Silent(silence) => ReplyDecision::Silent(silence),
    })
}
