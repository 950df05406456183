//! The decision: facts, settings and what is remembered, to a reply or a reason for none.
//!
//! The rules stand in the order in which they are asked; the first that applies is the one that is
//! recorded. First whether there is a vacation at all, then who sent it, then what kind of mail it
//! is, then whether it was for this person, and last whether the owner wants this sender answered,
//! and whether the sender was told already. The rate is the caller's to ask, after this, for asking
//! counts.

use super::notice::Notice;
use super::own_id::is_own_id;
use super::reason::Reason;

use super::sender::{is_from_self, layers, system_sender};
use super::told::told_key;
use crate::message::auto::AutoReplyFacts;
use crate::model::{Address, Audience, Circle, Identity, ToldKey, ToldLifetime, UtcMillis};

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
        Self {
            system_senders: Vec::new(),
            rate: super::RateLimits::default(),
            trust_spam_fields: true,
        }
    }
}

/// One message, who got it, and what is to be told: all of which a reply is decided and made.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    pub now: UtcMillis,
    /// The envelope sender.
    pub sender: Option<&'a Address>,
    /// The envelope recipient as given; it led to the account.
    pub recipient: &'a Address,
    /// By which address the sender knew the account, where the directory gives it to the account.
    pub known_as: Option<&'a Address>,
    /// Who the account is.
    pub identity: &'a Identity,
    /// What is to be told, and when.
    pub notice: &'a Notice<'a>,
    /// What the header says.
    pub facts: &'a AutoReplyFacts,
    /// Why the sender is taken for forged, if it is.
    pub forged: Option<&'a str>,
    /// Whether it is filed in Junk. A script that files it there and answers nevertheless is obeyed
    /// (RFC 5230 §4.7).
    pub junk: bool,
    /// The key of our own ids, and of who was told.
    pub secret: &'a [u8; 32],
    /// What the site sets.
    pub settings: &'a Settings,
    /// A number of this reply's own.
    pub nonce: u64,
}

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

/// The decision about a reply, from the rules to the log: `R` is what is known of the reply so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyDecision<R> {
    /// A reply is owed.
    Reply(R),
    Silent(Silence),
}

/// Why no reply is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    pub reason: Reason,
    /// What gave rise to it.
    pub detail: String,
}

impl<R> ReplyDecision<R> {
    /// Whether a reply is owed.
    #[must_use]
    pub fn is_reply(&self) -> bool {
        matches!(self, Self::Reply(_))
    }

    /// Its name in the log and among the counts: `answered`, or the code of the reason.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Reply(_) => "answered",
            Self::Silent(silence) => silence.reason.code(),
        }
    }
}

impl Silence {
    /// By a rule, for what gave rise to it.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// To whom a reply is owed, and under which key it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressee<'a> {
    /// The envelope sender.
    pub sender: &'a Address,
    pub told: ToldKey,
}

/// Decides.
///
/// # Errors
/// Those of the look-ups.
pub fn decide<'a, L: AccountLookup>(
    input: &Input<'a>,
    lookup: &L,
) -> Result<ReplyDecision<Addressee<'a>>, L::Error> {
    let Some(sender) = input.sender else {
        let null_sender = || Silence::new(Reason::NullSender, "");
        return Ok(ReplyDecision::Silent(silence_by_window(input).unwrap_or_else(null_sender)));
    };
    let key = told_key(input.secret, &input.notice.handle, sender);
    let told = lookup.told(&key, &input.notice.memory)?;
    // Where the directory cannot tell, silence is the safe answer.
    let may_be_own = |address: &Address| lookup.is_own(address).unwrap_or(true);
    let silence = silence_by_window(input)
        .or_else(|| silence_by_sender(input, sender, may_be_own))
        .or_else(|| silence_by_automation(input))
        .or_else(|| silence_by_junk(input))
        .or_else(|| silence_by_addressees(input))
        .or_else(|| silence_by_audience(input, sender))
        .or_else(|| told.map(|at| Silence::new(Reason::AlreadyTold, format!("told {at}"))));
    if let Some(silence) = silence {
        return Ok(ReplyDecision::Silent(silence));
    }
    // Asked last, and only where it decides: it looks through the owner's mail.
    let only_known =
        input.notice.terms.as_ref().is_some_and(|terms| terms.audience == Audience::Known);
    Ok(if only_known && !lookup.knows(sender)? {
        let why = "only people whom the owner has written to are answered";
        ReplyDecision::Silent(Silence::new(Reason::NotInAudience, why))
    } else {
        ReplyDecision::Reply(Addressee { sender, told: key })
    })
}

fn silence_by_window(input: &Input<'_>) -> Option<Silence> {
    let (reason, detail) = input.notice.terms.as_ref()?.away.clone().err()?;
    Some(Silence { reason, detail })
}

fn silence_by_sender(
    input: &Input<'_>,
    sender: &Address,
    may_be_own: impl Fn(&Address) -> bool,
) -> Option<Silence> {
    if sender.domain().is_empty() || Address::parse(&sender.to_string()).is_err() {
        return Some(Silence::new(Reason::BadSender, sender.to_string()));
    }
    // What stands within a tag was written by whoever sends, and is heeded only here, where it
    // silences the reply to them.
    let all: Vec<Address> = layers(sender).collect();
    let (identity, own) = (input.identity, [Some(input.recipient), input.known_as]);
    let is_recipient = |one: &Address| {
        own.iter().flatten().any(|own| identity.canonical(own) == identity.canonical(one))
    };
    let is_named = |one: &Address| input.notice.names(identity, one);
    if is_from_self(sender, may_be_own) || all.iter().any(|one| is_recipient(one) || is_named(one))
    {
        return Some(Silence::new(Reason::OwnAddress, sender.to_string()));
    }
    let system = all.iter().find_map(|one| system_sender(one, &input.settings.system_senders));
    system.map(|why| Silence::new(Reason::SystemSender, why))
}

fn silence_by_automation(input: &Input<'_>) -> Option<Silence> {
    let facts = input.facts;
    let said = [
        (Reason::AutoSubmitted, &facts.auto_submitted),
        (Reason::List, &facts.list),
        (Reason::Precedence, &facts.precedence),
        (Reason::SuppressAsked, &facts.suppress),
        (Reason::Report, &facts.report),
    ];
    let said = said.into_iter().find_map(|(reason, evidence)| {
        evidence.clone().map(|evidence| Silence::new(reason, evidence))
    });
    let ours =
        facts.in_reply_to.iter().chain(&facts.references).find(|id| is_own_id(id, input.secret));
    said.or_else(|| ours.map(|id| Silence::new(Reason::OurOwnReply, id.clone())))
}

fn silence_by_junk(input: &Input<'_>) -> Option<Silence> {
    let spam = input.facts.spam.clone().filter(|_| input.settings.trust_spam_fields);
    let junk = input.junk.then(|| "filed in Junk".to_owned());
    spam.or(junk)
        .map(|evidence| Silence::new(Reason::Spam, evidence))
        .or_else(|| input.forged.map(|why| Silence::new(Reason::Unauthenticated, why)))
}

fn silence_by_addressees(input: &Input<'_>) -> Option<Silence> {
    let canonical = |address: &Address| input.identity.canonical(address);
    let meant: Vec<Address> =
        [input.recipient].into_iter().chain(input.known_as).map(canonical).collect();
    let is_meant =
        |to: &Address| input.notice.is_me(input.identity, to) || meant.contains(&canonical(to));
    let named = input.facts.destinations.iter().any(is_meant);
    (!named).then(|| {
        Silence::new(
            Reason::NotAddressed,
            format!("{} is not among the addressees", input.recipient),
        )
    })
}

fn silence_by_audience(input: &Input<'_>, sender: &Address) -> Option<Silence> {
    let terms = input.notice.terms.as_ref()?;
    let covered = |address: Address| terms.except.iter().find(|except| except.covers(&address));
    if let Some(except) = layers(sender).find_map(covered) {
        return Some(Silence::new(Reason::NotInAudience, format!("excepted: {except}")));
    }
    let is_stranger = terms.audience == Audience::Organisation && terms.circle == Circle::Outside;
    is_stranger.then(|| {
        Silence::new(Reason::NotInAudience, "only people of the organisation are answered")
    })
}
