//! What senders are told, and how often, as data: the one thing that the engine works by. The
//! account's own response is one instance of it (`of_response`), each `vacation` of a Sieve script
//! another (`of_script`; RFC 5230, RFC 6131, RFC 8580).
//!
//! The script's engine hands over its arguments expanded, and beside them as they stand in the
//! script, for by these two actions are the same where no handle says so (RFC 5230 §4.2). It runs
//! nothing twice and knows nothing of what was told.

use std::borrow::Cow;
use std::time::Duration;

use super::audience::{ReplyText, circle, words};
use super::reason::Reason;
use super::told::Handle;
use super::window::{CurrentAbsence, away};
use crate::message::auto::AutoReplyFacts;
use crate::message::parse;
use crate::model::{
    Address, Audience, Circle, EmailAddress, ExcludedSender, Identity, ToldLifetime, UtcMillis,
    VacationResponse, keyword,
};

/// Days between two answers to one sender where a script says nothing (RFC 5230 §4.1).
const DEFAULT_DAYS: u64 = 7;
/// Days at most; RFC 5230 §4.1 lets a site bound them, to no less than 7.
const MAX_DAYS: u64 = 365;
const DAY: u64 = 24 * 3600;
/// Addresses of one action that are looked at.
const MAX_ADDRESSES: usize = 1000;

/// What one sender is told, and under which conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice<'a> {
    /// Under what it is remembered who was told.
    pub handle: Handle<'a>,
    pub memory: ToldLifetime,
    /// More addresses that count as the owner's (RFC 5230 §4.5).
    pub addresses: Cow<'a, [Address]>,
    /// The reply's From.
    pub from: Option<EmailAddress>,
    /// Its Reply-To.
    pub reply_to: Option<EmailAddress>,
    pub subject: Option<&'a str>,
    /// What it says.
    pub body: ReplyBody<'a>,
    /// The language of that, where it is known.
    pub language: Option<&'a str>,
    /// Where a copy of the reply is filed (RFC 8580).
    pub fcc: Option<Fcc>,
    /// After this the reply is not sent any more.
    pub until: Option<UtcMillis>,
    /// What the owner said besides; a script says all that by its own tests.
    pub terms: Option<Terms<'a>>,
}

/// What a reply says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyBody<'a> {
    /// Text and HTML, as far as there is either.
    Words { text: Option<&'a str>, html: Option<&'a str> },
    /// A MIME entity: header fields, an empty line, and content (RFC 5230 §4.8).
    Entity(&'a str),
}

/// The conditions of the account's own response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms<'a> {
    /// Whether the owner is away now, and if not, why.
    pub away: Result<CurrentAbsence, (Reason, String)>,
    /// Who is never answered.
    pub except: &'a [ExcludedSender],
    /// Who is answered.
    pub audience: Audience,
    /// Where the sender stands.
    pub circle: Circle,
}

/// Where a copy of a reply is filed (RFC 8580).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fcc {
    pub mailbox: String,
    /// The mailbox with this use instead, where there is one (RFC 8579): `\Sent`.
    pub special_use: Option<String>,
    /// Whether the mailbox is made where it is not there (RFC 5490).
    pub create: bool,
    /// The copy's keywords (RFC 5232).
    pub keywords: Vec<String>,
}

/// A `vacation` action of a Sieve script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// `:handle`.
    pub handle: Option<String>,
    /// `:days` or `:seconds`.
    pub period: Period,
    /// `:addresses`.
    pub addresses: Vec<String>,
    /// `:from`.
    pub from: Option<String>,
    /// `:subject`.
    pub subject: Option<String>,
    /// `:mime`: the reason is a MIME entity.
    pub mime: bool,
    pub reason: String,
    /// `:fcc`, with its `:flags`, `:create` and `:specialuse`.
    pub fcc: Option<Fcc>,
    /// Subject, from and reason as they stand in the script, no variable expanded (RFC 5230 §4.2).
    pub unexpanded: ScriptArguments,
}

/// Arguments as they stand in the script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScriptArguments {
    /// `:from`.
    pub from: Option<String>,
    /// `:subject`.
    pub subject: Option<String>,
    pub reason: String,
}

/// How long somebody who was told is not told again.
#[cfg_attr(not(test), expect(dead_code, reason = "filtering by Sieve will use it"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Period {
    /// As long as the site has it.
    #[default]
    Usual,
    /// `:days`: at least one.
    Days(u64),
    /// `:seconds` (RFC 6131 §2); 0 remembers nobody.
    Seconds(u64),
}

impl Period {
    fn duration(self) -> Duration {
        Duration::from_secs(match self {
            Self::Usual => DEFAULT_DAYS * DAY,
            Self::Days(days) => days.clamp(1, MAX_DAYS) * DAY,
            Self::Seconds(seconds) => seconds.min(MAX_DAYS * DAY),
        })
    }
}

impl<'a> Notice<'a> {
    /// What an account's own response has for a sender, now.
    #[must_use]
    pub fn of_response(
        response: &'a VacationResponse,
        identity: &Identity,
        sender: Option<&Address>,
        facts: &AutoReplyFacts,
        now: UtcMillis,
    ) -> Self {
        let away = away(response, identity.zone.as_deref(), now);
        let circle = sender.map_or(Circle::Outside, |sender| circle(sender, identity, response));
        let ReplyText { language, subject, text, html } = words(response, circle, &facts.languages);
        let CurrentAbsence { since, until } = away.clone().unwrap_or_default();
        // Only where its days come again do those who were told before it began count as not told.
        let since = since.filter(|_| !response.days.is_empty());
        Self {
            handle: Handle::Response,
            memory: ToldLifetime::Response { generation: response.generation, since },
            addresses: Cow::Borrowed(&response.addresses),
            from: response.from.clone(),
            reply_to: response.reply_to.clone(),
            subject,
            body: ReplyBody::Words { text, html },
            language,
            fcc: response.copies.then(Fcc::sent),
            until,
            terms: Some(Terms {
                away,
                except: &response.except,
                audience: response.audience,
                circle,
            }),
        }
    }

    /// What an action of a script has.
    #[cfg_attr(
        not(any(test, feature = "internals")),
        expect(dead_code, reason = "filtering by Sieve will use it")
    )]
    #[must_use]
    pub fn of_script(script: &'a Script) -> Self {
        let handle = script
            .handle
            .as_deref()
            .map_or_else(|| Handle::Arguments(script.arguments()), Handle::Named);
        let addresses = script
            .addresses
            .iter()
            .take(MAX_ADDRESSES)
            .filter_map(|text| Address::parse(text).ok());
        let from = script
            .from
            .as_deref()
            .and_then(|from| parse::addresses(from.as_bytes()).into_iter().next());
        Self {
            handle,
            memory: ToldLifetime::For(script.period.duration()),
            addresses: Cow::Owned(addresses.collect()),
            from,
            reply_to: None,
            subject: script.subject.as_deref(),
            body: match script.mime {
                true => ReplyBody::Entity(&script.reason),
                false => ReplyBody::Words { text: Some(&script.reason), html: None },
            },
            language: None,
            fcc: script.fcc.clone(),
            until: None,
            terms: None,
        }
    }

    /// Whether an address is the owner's: one of the account's, or one that the owner named.
    #[must_use]
    pub fn is_me(&self, identity: &Identity, address: &Address) -> bool {
        identity.is_me(address) || self.names(identity, address)
    }

    /// Whether an address is one that the owner named beside those of the account. Mail to it is
    /// for the owner, but the directory does not know it: no reply is from it.
    #[must_use]
    pub fn names(&self, identity: &Identity, address: &Address) -> bool {
        let folded = identity.canonical(address);
        self.addresses.iter().any(|own| own.folded() == folded)
    }
}

impl Fcc {
    /// Into Sent, seen.
    fn sent() -> Self {
        Self {
            mailbox: "Sent".into(),
            special_use: Some("\\Sent".into()),
            create: false,
            keywords: vec![keyword::SEEN.into()],
        }
    }
}

impl Script {
    /// What makes two actions without a handle the same; every part has its length before it.
    fn arguments(&self) -> [u8; 32] {
        let mut hasher =
            blake3::Hasher::new_derive_key("restante 2026-11 vacation: arguments of an action");
        let ScriptArguments { from, subject, reason } = &self.unexpanded;
        for part in [from.as_deref(), subject.as_deref(), Some(reason)] {
            hasher.update(&[u8::from(part.is_some())]);
            hasher.update(&(part.unwrap_or_default().len() as u64).to_be_bytes());
            hasher.update(part.unwrap_or_default().as_bytes());
        }
        hasher.update(&[u8::from(self.mime)]);
        *hasher.finalize().as_bytes()
    }
}
