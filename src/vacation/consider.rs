//! One message and one notice, to a reply or a reason for none: the whole of the engine in one call, for deliveries, for
//! scripts, and for trying a message out. What is remembered is asked of a `AccountLookup`; nothing is written here.

use super::decide::{Input, ReplyDecision, Settings, decide_asking};
use super::notice::Notice;
use super::reason::Reason;
use super::reply::{ReplyContext, VacationReply, reply};
use super::sender::{is_from_self, told_key};
use crate::message::auto::AutoReplyFacts;
use crate::model::{Address, Identity, ToldKey, ToldLifetime, UtcMillis};

/// What is remembered of an account, as far as it bears on this.
pub trait AccountLookup {
    /// Why it could not be read.
    type Error;

    /// Whether the directory leads mail for an address to this account.
    ///
    /// # Errors
    /// Those of a directory that cannot tell.
    fn is_own(&self, address: &Address) -> Result<bool, Self::Error>;

    /// When a sender was told, if that still counts.
    ///
    /// # Errors
    /// Those of reading.
    fn told(&self, who: &ToldKey, memory: &ToldLifetime) -> Result<Option<UtcMillis>, Self::Error>;

    /// Whether the owner has written to a sender.
    ///
    /// # Errors
    /// Those of reading.
    fn knows(&self, sender: &Address) -> Result<bool, Self::Error>;
}

/// A message, and who got it.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedMessage<'a> {
    /// Now.
    pub now: UtcMillis,
    /// The envelope sender.
    pub sender: Option<&'a Address>,
    /// The envelope recipient as given; it led to the account.
    pub recipient: &'a Address,
    /// By which address the sender knew the account, where the directory gives it to the account.
    pub known_as: Option<&'a Address>,
    /// Who the account is.
    pub identity: &'a Identity,
    /// What the header says.
    pub facts: &'a AutoReplyFacts,
    /// Why the sender is taken for forged, if it is.
    pub forged: Option<&'a str>,
    /// Whether it is filed in Junk, where that bears on it.
    pub junk: bool,
    /// The key of our own ids, and of who was told.
    pub secret: &'a [u8; 32],
    /// What the site sets.
    pub settings: &'a Settings,
    /// A number of this reply's own.
    pub nonce: u64,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyOutcome {
    /// A reply is owed; when it is given, who got it is remembered so.
    Reply {
        /// The reply.
        reply: Box<VacationReply>,
        /// Under which key.
        told: ToldKey,
        /// For how long.
        memory: ToldLifetime,
    },
    /// None is, and why: the rule and what gave rise to it.
    Silent(Reason, String),
}

/// Decides, and composes the reply where one is owed.
///
/// # Errors
/// Those of the world.
pub fn consider<W: AccountLookup>(
    case: &ReceivedMessage<'_>,
    notice: &Notice<'_>,
    world: &W,
) -> Result<ReplyOutcome, W::Error> {
    let ReceivedMessage { now, recipient, known_as, identity, facts, secret, .. } = *case;
    let key = case.sender.map(|sender| told_key(secret, &notice.handle, sender));
    let told = match &key {
        Some(key) => world.told(key, &notice.memory)?,
        None => None,
    };
    // Where the directory cannot tell, silence is the safe answer, and no such address is the reply's From.
    let may_be_own = |address: &Address| world.is_own(address).unwrap_or(true);
    let is_own = |address: &Address| world.is_own(address).unwrap_or(false);
    let input = Input {
        sender: case.sender,
        recipient,
        known_as,
        from_self: case.sender.is_some_and(|sender| is_from_self(sender, may_be_own)),
        identity,
        notice,
        facts,
        forged: case.forged,
        junk: case.junk,
        told,
        known: false,
        secret,
        settings: case.settings,
    };
    let outcome = decide_asking(&input, || case.sender.map_or(Ok(false), |sender| world.knows(sender)))?;
    Ok(match (outcome, case.sender, key) {
        (ReplyDecision::Answer, Some(sender), Some(told)) => {
            let occasion =
                ReplyContext { notice, identity, facts, sender, recipient, known_as, now, secret, nonce: case.nonce };
            let reply = Box::new(reply(&occasion, is_own));
            ReplyOutcome::Reply { reply, told, memory: notice.memory }
        }
        (ReplyDecision::Silent(reason, detail), ..) => ReplyOutcome::Silent(reason, detail),
        (ReplyDecision::Answer, ..) => ReplyOutcome::Silent(Reason::NullSender, String::new()),
    })
}
