//! `Notice`: what senders are told, to whom it applies, and how often. It is made of the account's
//! own response, or of a `vacation` action of a Sieve script (RFC 5230, RFC 6131, RFC 8580).

use std::borrow::Cow;
use std::time::Duration;

use super::reason::NoReplyReason;
use super::reply_text::{ReplyText, circle, reply_text};
use super::told::Handle;
use super::window::{CurrentAbsence, current_absence};
use crate::message::auto::AutoReplyFacts;
use crate::message::parse;
use crate::model::{
    Address, Audience, Circle, EmailAddress, ExcludedSender, Identity, ToldLifetime, UtcMillis,
    VacationResponse, keyword,
};

/// The days between two replies if the script does not say (RFC 5230 §4.1).
const DEFAULT_DAYS: u64 = 7;
/// The most days between two replies (RFC 5230 §4.1).
const MAX_DAYS: u64 = 365;
const DAY_SECONDS: u64 = 24 * 3600;
/// The most texts in the `:addresses` of one `vacation` action that are read.
const MAX_ADDRESSES: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice<'a> {
    pub handle: Handle<'a>,
    /// How long a sender who got the reply counts as told.
    pub memory: ToldLifetime,
    /// More addresses that count as the owner's (RFC 5230 §4.5).
    pub addresses: Cow<'a, [Address]>,
    /// The reply's From, if the directory resolves it to the account. Otherwise `reply` chooses
    /// one.
    pub from: Option<EmailAddress>,
    pub reply_to: Option<EmailAddress>,
    /// `None`: the subject is made from that of the answered message.
    pub subject: Option<&'a str>,
    pub body: ReplyBody<'a>,
    /// The language of `body`, if it is known.
    pub language: Option<&'a str>,
    /// Where a copy of the reply is filed (RFC 8580); `None`: nowhere.
    pub fcc: Option<Fcc>,
    /// From this time on the reply is not sent any more; `None`: it may be sent at any time.
    pub until: Option<UtcMillis>,
    /// Further conditions of the account's response. `None` for a script.
    pub terms: Option<Terms<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyBody<'a> {
    /// The text part is made from the HTML if only that is given; without either, it is a default
    /// text.
    Alternatives { text: Option<&'a str>, html: Option<&'a str> },
    /// A MIME entity: header fields, an empty line, and content (RFC 5230 §4.4).
    Entity(&'a str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms<'a> {
    /// The absence, or the reason why there is none, with a detail.
    pub absence: Result<CurrentAbsence, (NoReplyReason, String)>,
    pub except: &'a [ExcludedSender],
    pub audience: Audience,
    /// The circle of the sender; `Outside` for `<>`.
    pub circle: Circle,
}

/// Where a copy of a reply is filed (RFC 8580). If there is no such mailbox and none is created,
/// `deliver::copy` takes Sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fcc {
    pub mailbox: String,
    /// A special use, such as `\Sent`. If a mailbox has it, the copy is filed there instead (RFC
    /// 8579).
    pub special_use: Option<String>,
    /// Whether a missing mailbox is created (RFC 5490).
    pub create: bool,
    /// The copy's keywords (RFC 5232).
    pub keywords: Vec<String>,
}

/// The arguments of a `vacation` action.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    pub handle: Option<String>,
    /// `:days` or `:seconds`.
    pub period: Period,
    /// A text that is not an address is ignored, here and in `from`.
    pub addresses: Vec<String>,
    pub from: Option<String>,
    pub subject: Option<String>,
    /// `:mime`: the reason is a MIME entity.
    pub mime: bool,
    pub reason: String,
    pub fcc: Option<Fcc>,
    /// `from`, `subject` and `reason` as written, before variables are expanded. Two actions
    /// without a handle are the same if these and `mime` are equal (RFC 5230 §4.2).
    pub unexpanded: ScriptArguments,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScriptArguments {
    pub from: Option<String>,
    pub subject: Option<String>,
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Period {
    /// The script gives no period: it is `DEFAULT_DAYS`.
    #[default]
    Unset,
    /// `:days`. 0 counts as 1, and more than `MAX_DAYS` as `MAX_DAYS`.
    Days(u64),
    /// `:seconds` (RFC 6131 §2), at most `MAX_DAYS`. With 0, every message is answered.
    Seconds(u64),
}

impl Period {
    fn duration(self) -> Duration {
        Duration::from_secs(match self {
            Self::Unset => DEFAULT_DAYS * DAY_SECONDS,
            Self::Days(days) => days.clamp(1, MAX_DAYS) * DAY_SECONDS,
            Self::Seconds(seconds) => seconds.min(MAX_DAYS * DAY_SECONDS),
        })
    }
}

impl<'a> Notice<'a> {
    /// Makes the notice of an account's own response for a sender (`None` is `<>`). There is one
    /// also if the owner is not away (`Terms::absence`).
    #[must_use]
    pub fn of_response(
        response: &'a VacationResponse,
        identity: &Identity,
        sender: Option<&Address>,
        facts: &AutoReplyFacts,
        now: UtcMillis,
    ) -> Self {
        let absence = current_absence(response, identity.zone.as_deref(), now);
        let circle = sender.map_or(Circle::Outside, |sender| circle(sender, identity, response));
        let ReplyText { language, subject, text, html } =
            reply_text(response, circle, &facts.languages);
        let CurrentAbsence { since, until } = absence.clone().unwrap_or_default();
        // With recurring days, one generation of the response has several absences, and a sender is
        // told again in each. Without them, it has one.
        let since = since.filter(|_| !response.days.is_empty());
        Self {
            handle: Handle::Response,
            memory: ToldLifetime::Response { generation: response.generation, since },
            addresses: Cow::Borrowed(&response.addresses),
            from: response.from.clone(),
            reply_to: response.reply_to.clone(),
            subject,
            body: ReplyBody::Alternatives { text, html },
            language,
            fcc: response.copies.then(Fcc::to_sent),
            until,
            terms: Some(Terms {
                absence,
                except: &response.except,
                audience: response.audience,
                circle,
            }),
        }
    }

    /// Makes the notice of a script. A text in `addresses` that is no address is left out, and
    /// `from` has the first address of its text, if any.
    #[must_use]
    pub fn of_script(script: &'a Script) -> Self {
        let handle = script
            .handle
            .as_deref()
            .map_or_else(|| Handle::Arguments(script.hash_arguments()), Handle::Named);
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
                false => ReplyBody::Alternatives { text: Some(&script.reason), html: None },
            },
            language: None,
            fcc: script.fcc.clone(),
            until: None,
            terms: None,
        }
    }

    /// Whether an address belongs to the account or is one of `addresses`.
    #[must_use]
    pub fn is_me(&self, identity: &Identity, address: &Address) -> bool {
        identity.is_me(address) || self.lists_address(identity, address)
    }

    /// Whether an address is one of `addresses`.
    #[must_use]
    pub fn lists_address(&self, identity: &Identity, address: &Address) -> bool {
        let canonical = identity.canonical(address);
        self.addresses.iter().any(|own| identity.canonical(own) == canonical)
    }
}

impl Fcc {
    fn to_sent() -> Self {
        Self {
            mailbox: "Sent".into(),
            special_use: Some("\\Sent".into()),
            create: false,
            keywords: vec![keyword::SEEN.into()],
        }
    }
}

impl Script {
    fn hash_arguments(&self) -> [u8; 32] {
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
