//! The decision: facts, settings and what was told, to an answer or a reason for none.
//!
//! The rules stand in the order in which they are asked; the first that applies is the one that is recorded. First whether
//! there is a vacation at all, then who sent it, then what kind of mail it is, then whether it was for this person, and last
//! whether the owner wants this sender answered, and whether he knows already. The rate is the caller's to ask, after this, for asking counts.

use super::notice::Notice;
use super::reason::Reason;
use super::reply::is_own_id;
use super::sender::{layers, system_sender};
use crate::message::auto::AutoReplyFacts;
use crate::model::{Address, Audience, Circle, Identity, UtcMillis};

/// What a site sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// More local parts that are machines, lower case.
    pub system_senders: Vec<String>,
    /// Replies an hour.
    pub rate: super::RateLimits,
    /// Whether what a spam filter wrote into the header is believed.
    pub trust_spam_fields: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { system_senders: Vec::new(), rate: super::RateLimits::default(), trust_spam_fields: true }
    }
}

/// All that bears on the decision.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The envelope sender.
    pub sender: Option<&'a Address>,
    /// The envelope recipient as given.
    pub recipient: &'a Address,
    /// By which address the sender knew the account, where that is proven.
    pub known_as: Option<&'a Address>,
    /// Whether the directory leads the sender's address to this account.
    pub from_self: bool,
    /// Who the account is.
    pub identity: &'a Identity,
    /// What is to be told, and when.
    pub notice: &'a Notice<'a>,
    /// What the header says.
    pub facts: &'a AutoReplyFacts,
    /// Why the sender is taken for forged, if it is.
    pub forged: Option<&'a str>,
    /// Whether it is filed in Junk. A script that files it there and answers nevertheless is obeyed (RFC 5230 §4.7).
    pub junk: bool,
    /// When the same sender was told, if that is remembered.
    pub told: Option<UtcMillis>,
    /// Whether the owner has written to the sender; asked only where he answers nobody else.
    pub known: bool,
    /// The key of our own reply ids.
    pub secret: &'a [u8; 32],
    /// What the site sets.
    pub settings: &'a Settings,
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyDecision {
    /// A reply is owed.
    Answer,
    /// None is, and why: the rule and what gave rise to it.
    Silent(Reason, String),
}

/// Decides.
#[must_use]
pub fn decide(input: &Input<'_>) -> ReplyDecision {
    let rules = [window, sender, kind, standing, addressed, audience, told];
    rules
        .iter()
        .find_map(|rule| rule(input))
        .map_or(ReplyDecision::Answer, |(reason, detail)| ReplyDecision::Silent(reason, detail))
}

/// Decides where it must be looked up whether the owner knows the sender: `knows` is asked only where all else is for a
/// reply, and it depends on that.
///
/// # Errors
/// Those of the look-up.
pub fn decide_asking<E>(input: &Input<'_>, knows: impl FnOnce() -> Result<bool, E>) -> Result<ReplyDecision, E> {
    let hoped = decide(&Input { known: true, ..*input });
    let asks = input.notice.terms.as_ref().is_some_and(|terms| terms.audience == Audience::Known);
    if hoped == ReplyDecision::Answer && asks { Ok(decide(&Input { known: knows()?, ..*input })) } else { Ok(hoped) }
}

type Objection = Option<(Reason, String)>;

fn window(input: &Input<'_>) -> Objection {
    input.notice.terms.as_ref().and_then(|terms| terms.away.clone().err())
}

fn sender(input: &Input<'_>) -> Objection {
    let Some(sender) = input.sender else { return Some((Reason::NullSender, String::new())) };
    if sender.domain().is_empty() || Address::parse(&sender.to_string()).is_err() {
        return Some((Reason::BadSender, sender.to_string()));
    }
    // What stands within a tag was written by whoever sends, and is heeded only here, where it
    // silences the reply to them.
    let all: Vec<Address> = layers(sender).collect();
    let (identity, own) = (input.identity, [Some(input.recipient), input.known_as]);
    let is_recipient =
        |one: &Address| own.iter().flatten().any(|own| identity.canonical(own) == identity.canonical(one));
    let is_named = |one: &Address| input.notice.names(identity, one);
    if input.from_self || all.iter().any(|one| is_recipient(one) || is_named(one)) {
        return Some((Reason::OwnAddress, sender.to_string()));
    }
    let system = all.iter().find_map(|one| system_sender(one, &input.settings.system_senders));
    system.map(|why| (Reason::SystemSender, why))
}

fn kind(input: &Input<'_>) -> Objection {
    let facts = input.facts;
    let said = [
        (Reason::AutoSubmitted, &facts.auto_submitted),
        (Reason::List, &facts.list),
        (Reason::Precedence, &facts.precedence),
        (Reason::SuppressAsked, &facts.suppress),
        (Reason::Report, &facts.report),
    ];
    let said = said.into_iter().find_map(|(reason, evidence)| evidence.clone().map(|evidence| (reason, evidence)));
    let ours = facts.in_reply_to.iter().chain(&facts.references).find(|id| is_own_id(id, input.secret));
    said.or_else(|| ours.map(|id| (Reason::OurOwnReply, id.clone())))
}

fn standing(input: &Input<'_>) -> Objection {
    let spam = input.facts.spam.clone().filter(|_| input.settings.trust_spam_fields);
    let junk = input.junk.then(|| "filed in Junk".to_owned());
    spam.or(junk)
        .map(|evidence| (Reason::Spam, evidence))
        .or_else(|| input.forged.map(|why| (Reason::Unauthenticated, why.to_owned())))
}

fn addressed(input: &Input<'_>) -> Objection {
    let canonical = |address: &Address| input.identity.canonical(address);
    let meant: Vec<Address> = [input.recipient].into_iter().chain(input.known_as).map(canonical).collect();
    let is_meant = |to: &Address| input.notice.is_me(input.identity, to) || meant.contains(&canonical(to));
    let named = input.facts.destinations.iter().any(is_meant);
    (!named).then(|| (Reason::NotAddressed, format!("{} is not among the addressees", input.recipient)))
}

fn audience(input: &Input<'_>) -> Objection {
    let (sender, terms) = (input.sender?, input.notice.terms.as_ref()?);
    let covered = |address: Address| terms.except.iter().find(|except| except.covers(&address));
    if let Some(except) = layers(sender).find_map(covered) {
        return Some((Reason::NotInAudience, format!("excepted: {except}")));
    }
    let why = match terms.audience {
        Audience::Known if !input.known => "only people whom the owner has written to are answered",
        Audience::Organisation if terms.circle == Circle::Outside => "only people of the organisation are answered",
        Audience::Everyone | Audience::Known | Audience::Organisation => return None,
    };
    Some((Reason::NotInAudience, why.to_owned()))
}

fn told(input: &Input<'_>) -> Objection {
    input.told.map(|at| (Reason::AlreadyTold, format!("told {at}")))
}
