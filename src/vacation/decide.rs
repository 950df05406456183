//! The decision: facts, settings and what was told, to an answer or a reason for none.
//!
//! The rules stand in the order in which they are asked; the first that applies is the one that is recorded. First whether
//! there is a vacation at all, then who sent it, then what kind of mail it is, then whether it was for this person, and last
//! whether the owner wants this sender answered, and whether he knows already. The rate is the caller's to ask, after this, for asking counts.

use super::reason::Reason;
use super::reply::is_own_id;
use super::sender::{sender_key, system_sender};
use crate::message::auto::Facts;
use crate::model::{Address, Identity, UtcMillis, VacationResponse};

/// What a site sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// More local parts that are machines, lower case.
    pub system_senders: Vec<String>,
    /// Replies an hour.
    pub rate: super::Limits,
    /// Whether what a spam filter wrote into the header is believed.
    pub trust_spam_fields: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { system_senders: Vec::new(), rate: super::Limits::default(), trust_spam_fields: true }
    }
}

/// All that bears on the decision.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// Now.
    pub now: UtcMillis,
    /// The envelope sender.
    pub sender: Option<&'a Address>,
    /// The envelope recipient as given.
    pub recipient: &'a Address,
    /// Who the account is.
    pub identity: &'a Identity,
    /// Its response.
    pub response: &'a VacationResponse,
    /// What the header says.
    pub facts: &'a Facts,
    /// Why the sender is taken for forged, if it is.
    pub forged: Option<&'a str>,
    /// Whether it is filed in Junk.
    pub junk: bool,
    /// When the same sender was told in this generation of the response.
    pub told: Option<UtcMillis>,
    /// The key of our own reply ids.
    pub secret: &'a [u8; 32],
    /// What the site sets.
    pub settings: &'a Settings,
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A reply is owed.
    Answer,
    /// None is, and why: the rule and what gave rise to it.
    Silent(Reason, String),
}

/// Decides.
#[must_use]
pub fn decide(input: &Input<'_>) -> Outcome {
    let rules = [window, sender, kind, standing, addressed, audience, told];
    rules
        .iter()
        .find_map(|rule| rule(input))
        .map_or(Outcome::Answer, |(reason, detail)| Outcome::Silent(reason, detail))
}

type Objection = Option<(Reason, String)>;

fn window(input: &Input<'_>) -> Objection {
    let response = input.response;
    if !response.enabled {
        return Some((Reason::Disabled, String::new()));
    }
    let early = response.from_date.filter(|from| input.now < *from);
    let late = response.to_date.filter(|to| input.now >= *to);
    early
        .map(|from| (Reason::OutsideWindow, format!("begins {from}")))
        .or_else(|| late.map(|to| (Reason::OutsideWindow, format!("ended {to}"))))
}

fn sender(input: &Input<'_>) -> Objection {
    let Some(sender) = input.sender else { return Some((Reason::NullSender, String::new())) };
    if sender.domain().is_empty() || Address::parse(&sender.to_string()).is_err() {
        return Some((Reason::BadSender, sender.to_string()));
    }
    // Under a daily tag it is who it is without.
    let plain = Address::parse(&sender_key(sender)).ok();
    let both = || std::iter::once(sender).chain(&plain);
    if both().any(|sender| is_me(input, sender)) {
        return Some((Reason::OwnAddress, sender.to_string()));
    }
    let system = both().find_map(|sender| system_sender(sender.local(), &input.settings.system_senders));
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
    let recipient = input.identity.canonical(input.recipient);
    let named = input.facts.destinations.iter().any(|to| is_me(input, to) || input.identity.canonical(to) == recipient);
    (!named).then(|| (Reason::NotAddressed, format!("{} is not among the addressees", input.recipient)))
}

fn audience(input: &Input<'_>) -> Objection {
    let sender = input.sender?;
    let plain = Address::parse(&sender_key(sender)).ok();
    let covered = |address: &Address| input.response.except.iter().find(|except| except.covers(address));
    let except = covered(sender).or_else(|| plain.as_ref().and_then(covered))?;
    Some((Reason::NotInAudience, format!("excepted: {except}")))
}

fn told(input: &Input<'_>) -> Objection {
    input.told.map(|at| (Reason::AlreadyTold, format!("told {at}")))
}

fn is_me(input: &Input<'_>, address: &Address) -> bool {
    let folded = input.identity.canonical(address);
    input.identity.is_me(address) || input.response.addresses.iter().any(|own| own.folded() == folded)
}
