//! Whether an email matches a filter (RFC 8621 §4.4.1): cheapest conditions first, and nothing fetched twice.
//!
//! A condition is true, false or not known. Of a live email every condition is known. Of the past only those are that
//! never change: what is false by them alone cannot have been in the results at any time (`Moment::Ever`).

use super::Error;
use super::email::Candidate;
use super::filter::{Condition, Filter};
use super::text::{Needle, WORDS, pieces};
use super::threads::Share;
use crate::message::header::fields;
use crate::message::tokens;
use crate::model::Secrets;

/// When an email should match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// On the view.
    Now,
    /// At any time of its life.
    Ever,
}

/// A filter made ready.
#[derive(Debug)]
pub(super) struct Matcher(Node);

#[derive(Debug)]
enum Node {
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Vec<Self>),
    Is(Condition),
    Text(Needle),
    Header { name: String, pieces: Vec<String> },
}

impl Matcher {
    /// Of a filter that was validated.
    pub(super) fn new(filter: &Filter, secrets: &Secrets) -> Self {
        Self(Node::of(filter, secrets))
    }

    /// Whether the email matches, or (`Moment::Ever`) may have matched once.
    pub(super) fn matches(&self, email: &mut Candidate<'_, '_>, moment: Moment) -> Result<bool, Error> {
        let known = self.0.decide(email, moment)?;
        Ok(known.unwrap_or(moment == Moment::Ever))
    }
}

impl Node {
    fn of(filter: &Filter, secrets: &Secrets) -> Self {
        let all = |parts: &[Filter]| {
            let mut nodes: Vec<Self> = parts.iter().map(|part| Self::of(part, secrets)).collect();
            nodes.sort_by_key(Self::cost);
            nodes
        };
        let text = |text: &str, fields| Self::Text(Needle::new(text, fields, secrets));
        match filter {
            Filter::And(parts) => Self::And(all(parts)),
            Filter::Or(parts) => Self::Or(all(parts)),
            Filter::Not(parts) => Self::Not(all(parts)),
            Filter::Is(condition) => match condition {
                Condition::Text(what) => text(what, WORDS),
                Condition::From(what) => text(what, tokens::FROM),
                Condition::To(what) => text(what, tokens::TO),
                Condition::Cc(what) => text(what, tokens::CC),
                Condition::Bcc(what) => text(what, tokens::BCC),
                Condition::Subject(what) => text(what, tokens::SUBJECT),
                Condition::Body(what) => text(what, tokens::BODY),
                Condition::Header { name, text } => {
                    let sought = pieces(text.as_deref().unwrap_or_default());
                    Self::Header { name: name.clone(), pieces: sought.iter().map(|piece| fold(piece)).collect() }
                }
                other => Self::Is(other.clone()),
            },
        }
    }

    /// By what must be fetched: nothing, the thread, the content, the tokens, the message.
    fn cost(&self) -> u8 {
        match self {
            Self::And(parts) | Self::Or(parts) | Self::Not(parts) => parts.iter().map(Self::cost).max().unwrap_or(0),
            Self::Is(
                Condition::AllInThreadHaveKeyword(_)
                | Condition::SomeInThreadHaveKeyword(_)
                | Condition::NoneInThreadHaveKeyword(_),
            ) => 1,
            Self::Is(Condition::HasAttachment(_)) => 2,
            Self::Is(_) => 0,
            Self::Text(_) => 3,
            Self::Header { .. } => 4,
        }
    }

    fn decide(&self, email: &mut Candidate<'_, '_>, moment: Moment) -> Result<Option<bool>, Error> {
        match self {
            Self::And(parts) => all(parts, true, email, moment),
            // Any of these: not all of them false. None of these: all of them false.
            Self::Or(parts) => Ok(all(parts, false, email, moment)?.map(|none| !none)),
            Self::Not(parts) => all(parts, false, email, moment),
            Self::Is(condition) => is(condition, email, moment),
            Self::Text(needle) => has_text(needle, email),
            Self::Header { name, pieces } => Ok(email.message()?.map(|raw| has_header(raw, name, pieces))),
        }
    }
}

/// Whether all of these are `wanted`.
fn all(parts: &[Node], wanted: bool, email: &mut Candidate<'_, '_>, moment: Moment) -> Result<Option<bool>, Error> {
    let mut known = Some(true);
    for part in parts {
        match part.decide(email, moment)? {
            Some(is) if is == wanted => {}
            Some(_) => return Ok(Some(false)),
            None => known = None,
        }
    }
    Ok(known)
}

fn is(condition: &Condition, email: &mut Candidate<'_, '_>, moment: Moment) -> Result<Option<bool>, Error> {
    let facts = email.metadata;
    let mutable = |holds: bool| (moment == Moment::Now).then_some(holds);
    let mut share = |word: &str, holds: fn(Share) -> bool| match moment {
        Moment::Now => email.thread_share(word).map(|share| Some(holds(share))),
        Moment::Ever => Ok(None),
    };
    Ok(match condition {
        Condition::InMailbox(uid) => mutable(facts.mailboxes.contains(uid)),
        Condition::InMailboxOtherThan(uids) => mutable(facts.mailboxes.iter().any(|uid| !uids.contains(uid))),
        Condition::Before(at) => Some(facts.received_at < *at),
        Condition::After(at) => Some(facts.received_at >= *at),
        Condition::MinSize(octets) => Some(facts.size >= *octets),
        Condition::MaxSize(octets) => Some(facts.size < *octets),
        Condition::AllInThreadHaveKeyword(word) => share(word, |share| share == Share::All)?,
        Condition::SomeInThreadHaveKeyword(word) => share(word, |share| share != Share::None)?,
        Condition::NoneInThreadHaveKeyword(word) => share(word, |share| share == Share::None)?,
        Condition::HasKeyword(word) => mutable(facts.has(word)),
        Condition::NotKeyword(word) => mutable(!facts.has(word)),
        Condition::HasAttachment(wanted) => email.content()?.map(|content| content.has_attachment == *wanted),
        // Made into nodes of their own.
        Condition::Text(_)
        | Condition::From(_)
        | Condition::To(_)
        | Condition::Cc(_)
        | Condition::Bcc(_)
        | Condition::Subject(_)
        | Condition::Body(_)
        | Condition::Header { .. } => None,
    })
}

/// By the tokens, which are hashes, and then by the message itself.
fn has_text(needle: &Needle, email: &mut Candidate<'_, '_>) -> Result<Option<bool>, Error> {
    if needle.is_empty() {
        return Ok(Some(true));
    }
    match email.tokens()?.map(|tokens| needle.matches(tokens)) {
        Some(true) => Ok(email.message()?.map(|raw| needle.confirms(raw))),
        other => Ok(other),
    }
}

/// Every piece must stand in the value of one field of that name.
fn has_header(raw: &[u8], name: &str, pieces: &[String]) -> bool {
    fields(raw).filter(|field| field.is(name)).any(|field| {
        pieces.is_empty() || {
            let value = fold(&field.decoded());
            pieces.iter().all(|piece| value.contains(piece.as_str()))
        }
    })
}

/// Without case, in one form, with single spaces.
fn fold(text: &str) -> String {
    use unicode_normalization::UnicodeNormalization;
    let folded: String = caseless::default_case_fold_str(&text.nfkc().collect::<String>()).nfkc().collect();
    folded.split_whitespace().collect::<Vec<_>>().join(" ")
}
