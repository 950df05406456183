//! `decide`: whether one message is answered, or by which rule it is not.
//!
//! - The rules are checked in a fixed order, and the first that applies is recorded. Whether the
//!   owner knows the sender is looked up last, because it is expensive.
//! - How many replies may be sent in a time is not checked here but by the delivery, after the
//!   reply is composed: `RateLimiter` checks that and counts the reply in one step.

use super::notice::Notice;
use super::own_id::is_own_id;
use super::reason::NoReplyReason;
use super::sender::{is_from_self, layers, system_sender};
use super::told::told_key;
use crate::message::auto::AutoReplyFacts;
use crate::model::{Address, Audience, Circle, Identity, ToldKey, ToldLifetime, UtcMillis};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Further local parts of senders that count as machines, in lower case.
    pub system_senders: Vec<String>,
    /// Not used by `decide`: see the head of this file.
    pub rate: super::RateLimits,
    /// Whether the header fields of spam filters are believed.
    pub trust_spam_fields: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            system_senders: Vec::new(),
            rate: super::RateLimits::default(),
            trust_spam_fields: true,
        }
    }
}

/// The facts about one message for `decide` and `reply`, besides what `AccountLookup` finds.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    pub now: UtcMillis,
    /// The envelope sender; `None` is `<>`.
    pub sender: Option<&'a Address>,
    /// The envelope recipient as given, which the directory resolved to the account.
    pub recipient: &'a Address,
    /// The original recipient (ORCPT, RFC 3461 §4.2), if the directory resolves that to the
    /// account, too.
    pub known_as: Option<&'a Address>,
    pub identity: &'a Identity,
    pub notice: &'a Notice<'a>,
    pub facts: &'a AutoReplyFacts,
    /// Why the sender is considered forged, if so.
    pub forged: Option<&'a str>,
    /// Whether the message is filed in Junk, and so not answered. The caller leaves this false for
    /// a script that files and answers a message (RFC 5230 §4.7).
    pub junk: bool,
    /// The key of the hashes from which the Message-IDs of replies and the told keys are made.
    pub secret: &'a [u8; 32],
    pub settings: &'a Settings,
    /// A number for the Message-ID, unique in the account except for a retry of the same delivery.
    pub nonce: u64,
}

pub trait AccountLookup {
    type Error;

    /// Whether the directory resolves an address to this account.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn is_own(&self, address: &Address) -> Result<bool, Self::Error>;

    /// When a sender was told; `None` if there is no told row, or it no longer counts by `memory`.
    ///
    /// # Errors
    /// If the account cannot be read.
    fn told(&self, key: &ToldKey, memory: &ToldLifetime) -> Result<Option<UtcMillis>, Self::Error>;

    /// Whether the owner has written to a sender. The answer may read many emails.
    ///
    /// # Errors
    /// If the account cannot be read.
    fn knows(&self, sender: &Address) -> Result<bool, Self::Error>;
}

/// Whether a message is answered. `R` is the data of the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyDecision<R> {
    Reply(R),
    Silent(Silence),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    pub reason: NoReplyReason,
    /// The evidence, for people; may be empty.
    pub detail: String,
}

impl<R> ReplyDecision<R> {
    #[must_use]
    pub fn is_reply(&self) -> bool {
        matches!(self, Self::Reply(_))
    }

    /// The name of the decision in the log and the metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Reply(_) => "answered",
            Self::Silent(silence) => silence.reason.code(),
        }
    }
}

impl Silence {
    pub fn new(reason: NoReplyReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// The sender to answer, and the key under which the answer is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredSender<'a> {
    pub sender: &'a Address,
    pub told: ToldKey,
}

/// Decides whether a message is answered, by the rules in their order.
///
/// # Errors
/// Returns the errors of `lookup.told` and `lookup.knows`. If `lookup.is_own` fails, the address
/// counts as the owner's, and the message is not answered: this can only prevent a reply.
pub fn decide<'a, L: AccountLookup>(
    input: &Input<'a>,
    lookup: &L,
) -> Result<ReplyDecision<AnsweredSender<'a>>, L::Error> {
    let Some(sender) = input.sender else {
        let null_sender = || Silence::new(NoReplyReason::NullSender, "");
        return Ok(ReplyDecision::Silent(silence_by_window(input).unwrap_or_else(null_sender)));
    };
    let key = told_key(input.secret, &input.notice.handle, sender);
    // Reading one row is cheap, so it is read even if an earlier rule applies.
    let told = lookup.told(&key, &input.notice.memory)?;
    let may_be_own = |address: &Address| lookup.is_own(address).unwrap_or(true);
    let silence = silence_by_window(input)
        .or_else(|| silence_by_sender(input, sender, may_be_own))
        .or_else(|| silence_by_automation(input))
        .or_else(|| silence_by_spam_or_forgery(input))
        .or_else(|| silence_by_addressees(input))
        .or_else(|| silence_by_audience(input, sender))
        .or_else(|| told.map(|at| Silence::new(NoReplyReason::AlreadyTold, format!("told {at}"))));
    if let Some(silence) = silence {
        return Ok(ReplyDecision::Silent(silence));
    }
    // `knows` is asked only if all other rules allow a reply, because it searches the owner's mail.
    let only_known =
        input.notice.terms.as_ref().is_some_and(|terms| terms.audience == Audience::Known);
    Ok(if only_known && !lookup.knows(sender)? {
        let detail = "only people whom the owner has written to are answered";
        ReplyDecision::Silent(Silence::new(NoReplyReason::NotInAudience, detail))
    } else {
        ReplyDecision::Reply(AnsweredSender { sender, told: key })
    })
}

fn silence_by_window(input: &Input<'_>) -> Option<Silence> {
    let (reason, detail) = input.notice.terms.as_ref()?.absence.clone().err()?;
    Some(Silence { reason, detail })
}

fn silence_by_sender(
    input: &Input<'_>,
    sender: &Address,
    may_be_own: impl Fn(&Address) -> bool,
) -> Option<Silence> {
    if sender.domain().is_empty() || Address::parse(&sender.to_string()).is_err() {
        return Some(Silence::new(NoReplyReason::BadSender, sender.to_string()));
    }
    // An address within a tag is not proven, but here it can only prevent a reply.
    let addresses: Vec<Address> = layers(sender).collect();
    let (identity, own) = (input.identity, [Some(input.recipient), input.known_as]);
    let is_recipient = |address: &Address| {
        own.iter().flatten().any(|own| identity.canonical(own) == identity.canonical(address))
    };
    let is_listed = |address: &Address| input.notice.lists_address(identity, address);
    if is_from_self(sender, may_be_own)
        || addresses.iter().any(|address| is_recipient(address) || is_listed(address))
    {
        return Some(Silence::new(NoReplyReason::OwnAddress, sender.to_string()));
    }
    let site_names = &input.settings.system_senders;
    let rule = addresses.iter().find_map(|address| system_sender(address, site_names));
    rule.map(|rule| Silence::new(NoReplyReason::SystemSender, rule))
}

fn silence_by_automation(input: &Input<'_>) -> Option<Silence> {
    let facts = input.facts;
    let header_evidence = [
        (NoReplyReason::AutoSubmitted, &facts.auto_submitted),
        (NoReplyReason::List, &facts.list),
        (NoReplyReason::Precedence, &facts.precedence),
        (NoReplyReason::SuppressAsked, &facts.suppress),
        (NoReplyReason::Report, &facts.report),
    ];
    let by_header = header_evidence.into_iter().find_map(|(reason, evidence)| {
        evidence.clone().map(|evidence| Silence::new(reason, evidence))
    });
    let mut answered = facts.in_reply_to.iter().chain(&facts.references).chain(&facts.received_ids);
    let own_reply = answered.find(|id| is_own_id(id, input.secret));
    by_header.or_else(|| own_reply.map(|id| Silence::new(NoReplyReason::OurOwnReply, id.clone())))
}

fn silence_by_spam_or_forgery(input: &Input<'_>) -> Option<Silence> {
    let spam = input.facts.spam.clone().filter(|_| input.settings.trust_spam_fields);
    let junk = input.junk.then(|| "filed in Junk".to_owned());
    spam.or(junk)
        .map(|evidence| Silence::new(NoReplyReason::Spam, evidence))
        .or_else(|| input.forged.map(|why| Silence::new(NoReplyReason::Unauthenticated, why)))
}

fn silence_by_addressees(input: &Input<'_>) -> Option<Silence> {
    let canonical = |address: &Address| input.identity.canonical(address);
    let recipients: Vec<Address> =
        [input.recipient].into_iter().chain(input.known_as).map(canonical).collect();
    let is_owner = |to: &Address| {
        input.notice.is_me(input.identity, to) || recipients.contains(&canonical(to))
    };
    let is_addressed = input.facts.destinations.iter().any(is_owner);
    (!is_addressed).then(|| {
        Silence::new(
            NoReplyReason::NotAddressed,
            format!("{} is not among the addressees", input.recipient),
        )
    })
}

fn silence_by_audience(input: &Input<'_>, sender: &Address) -> Option<Silence> {
    let terms = input.notice.terms.as_ref()?;
    let exception = |address: Address| terms.except.iter().find(|except| except.covers(&address));
    if let Some(except) = layers(sender).find_map(exception) {
        return Some(Silence::new(NoReplyReason::NotInAudience, format!("excepted: {except}")));
    }
    let is_stranger = terms.audience == Audience::Organisation && terms.circle == Circle::Outside;
    is_stranger.then(|| {
        Silence::new(NoReplyReason::NotInAudience, "only people of the organisation are answered")
    })
}
