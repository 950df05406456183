//! Composes the reply of the responder (RFC 3834 §3, RFC 5230 §5, RFC 8621 §8).
//!
//! The body of the original is not repeated (RFC 3834 §3.2). Values of its header are repeated, and
//! `message::compose` writes them so that none can begin a field of the reply.

use super::decide::Input;
use super::notice::{Fcc, ReplyBody};
use super::own_id::own_id;
use super::sender::plain_in_domain;
use crate::message::auto::AutoReplyFacts;
use crate::message::compose::{Draft, build};
use crate::message::line::one_line;
use crate::model::{Address, EmailAddress, UtcMillis};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VacationReply {
    /// The envelope sender of the original (RFC 3834 §4).
    pub recipient: Address,
    /// Without angle brackets.
    pub message_id: String,
    pub message: Vec<u8>,
    pub fcc: Option<Fcc>,
    /// From this time on the reply is not sent any more; `None`: it may be sent at any time.
    pub until: Option<UtcMillis>,
}

/// The most ids in References. Of a longer list, the first one and the last ones are kept.
const MAX_REFERENCES: usize = 20;
/// The longest id that fits into one line with the name of its field (RFC 5322 §2.1.1).
const MAX_ID_BYTES: usize = 980;
/// The most characters of the original subject that are repeated.
const MAX_SUBJECT_CHARS: usize = 200;
/// The text of the reply if the owner set none (RFC 8621 §8).
const DEFAULT_TEXT: &str = "I am away at the moment and will read your message when I am back.\n";

/// Composes the reply to a message with the envelope sender `sender`. `is_own` says whether the
/// directory resolves an address to the account.
#[must_use]
pub fn reply(
    input: &Input<'_>,
    sender: &Address,
    is_own: impl Fn(&Address) -> bool,
) -> VacationReply {
    let Input { notice, identity, facts, now, secret, nonce, .. } = *input;
    let from = choose_from(input, &is_own);
    let domain = Address::parse(&from.email)
        .map_or_else(|_| identity.primary.domain().to_owned(), |a| a.domain().to_owned());
    let message_id = own_id(nonce, crate::model::address::fold_domain(&domain).as_str(), secret);
    let subject = facts.subject.as_deref().map(one_line).unwrap_or_default();
    let subject: String = subject.chars().take(MAX_SUBJECT_CHARS).collect();
    let until = notice.until.map(|at| at.last_day(identity.zone.as_deref()));
    let values =
        [("subject", Some(subject.clone())), ("from", Some(sender.to_string())), ("until", until)];
    // A script has variables of its own (RFC 5229), so braces in its text stay as they are.
    let values: &[_] = if notice.terms.is_some() { &values } else { &[] };
    let filled = |text: &str| fill_placeholders(text, values, str::to_owned);
    let (text, html, entity) = match notice.body {
        ReplyBody::Alternatives { text, html } => {
            let html = html.map(|html| fill_placeholders(html, values, escape_html));
            let text = match (text, &html) {
                (Some(text), _) => filled(text),
                (None, Some(html)) => html_to_text(html),
                (None, None) => DEFAULT_TEXT.to_owned(),
            };
            (text, html, None)
        }
        ReplyBody::Entity(entity) => (String::new(), None, Some(entity.to_owned())),
    };
    let draft = Draft {
        from,
        to: EmailAddress { name: name_of(sender, facts), email: sender.wire_form().to_string() },
        reply_to: notice.reply_to.clone(),
        subject: notice.subject.map_or_else(|| default_subject(&subject), filled),
        date: now,
        message_id: message_id.clone(),
        in_reply_to: usable_message_id(facts).cloned().into_iter().collect(),
        references: references(facts),
        fields: vec![
            ("Auto-Submitted", "auto-replied (vacation)".into()),
            ("X-Auto-Response-Suppress", "All".into()),
            ("Precedence", "bulk".into()),
        ],
        language: notice.language.map(str::to_owned),
        text,
        html,
        entity,
    };
    let message = build(&draft);
    VacationReply {
        recipient: sender.clone(),
        message_id,
        message,
        fcc: notice.fcc.clone(),
        until: notice.until,
    }
}

/// The address that the owner or the script set (RFC 3834 §3.1.1, RFC 5230 §4.3) if it is an own
/// address, else another own address.
fn choose_from(input: &Input<'_>, is_own: &impl Fn(&Address) -> bool) -> EmailAddress {
    let is_allowed =
        |from: &&EmailAddress| Address::parse(&from.email).is_ok_and(|address| is_own(&address));
    input
        .notice
        .from
        .as_ref()
        .filter(is_allowed)
        .cloned()
        .unwrap_or_else(|| own_address(input, is_own))
}

/// The own address that the sender used: the first in `destinations`, else `known_as`, else the
/// primary address. `is_own` is asked about those in `destinations`, because a stranger must not
/// choose the From of a reply; the others are own addresses in any case.
fn own_address(input: &Input<'_>, is_own: &impl Fn(&Address) -> bool) -> EmailAddress {
    let Input { identity, facts, recipient, known_as, .. } = *input;
    let canonical = |address: &Address| identity.canonical(address);
    let recipients: Vec<Address> = [recipient].into_iter().chain(known_as).map(canonical).collect();
    let is_used =
        |to: &&Address| (identity.is_me(to) || recipients.contains(&canonical(to))) && is_own(to);
    let used = facts.destinations.iter().find(is_used);
    let address = used.or(known_as).unwrap_or(&identity.primary);
    EmailAddress { name: identity.name.clone(), email: address.to_string() }
}

/// The sender's name in the From field, if From has the sender's address, with its tags or without
/// (`plain_in_domain`).
fn name_of(sender: &Address, facts: &AutoReplyFacts) -> Option<String> {
    let forms = [sender.folded(), plain_in_domain(sender)];
    let is_sender = |person: &&EmailAddress| {
        Address::parse(&person.email).is_ok_and(|address| forms.contains(&address.folded()))
    };
    facts.from.iter().find(is_sender).and_then(|person| person.name.clone())
}

fn default_subject(original: &str) -> String {
    if original.is_empty() {
        return "Automated reply".into();
    }
    let is_marked = original.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("auto:"));
    if is_marked { original.to_owned() } else { format!("Auto: {original}") }
}

/// The References of the reply (RFC 5322 §3.6.4): those of the original (if it has none, the id in
/// its In-Reply-To, if that is only one), and then the Message-ID of the original. Empty if the
/// original has no usable Message-ID.
fn references(facts: &AutoReplyFacts) -> Vec<String> {
    let Some(original) = usable_message_id(facts) else { return Vec::new() };
    let mut ids = match (facts.references.is_empty(), facts.in_reply_to.as_slice()) {
        (true, [only]) => vec![only.clone()],
        _ => facts.references.clone(),
    };
    ids.retain(|id| id.len() <= MAX_ID_BYTES);
    // The first and the last ids stay, and one place is left for the original.
    if ids.len() >= MAX_REFERENCES {
        ids.drain(1..=ids.len() + 1 - MAX_REFERENCES);
    }
    ids.retain(|id| id != original);
    ids.push(original.clone());
    ids
}

/// The Message-ID of the original, unless it is too long for a line.
fn usable_message_id(facts: &AutoReplyFacts) -> Option<&String> {
    facts.message_id.as_ref().filter(|id| id.len() <= MAX_ID_BYTES)
}

/// Fills in the placeholders of the owner's text.
///
/// Values go through `escape`, and placeholders in them are not filled in. Unknown placeholders,
/// and those without a value, such as `{until}` of a vacation without an end, stay as they are.
fn fill_placeholders(
    text: &str,
    values: &[(&str, Option<String>)],
    escape: fn(&str) -> String,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let placeholder = after.split_once('}').and_then(|(name, after)| {
            let (_, value) = values.iter().find(|(key, _)| *key == name)?;
            value.as_ref().map(|value| (value, after))
        });
        if let Some((value, after)) = placeholder {
            out.push_str(&escape(value));
            rest = after;
        } else {
            out.push('{');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

pub(super) fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

fn html_to_text(html: &str) -> String {
    let raw = format!(
        "Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n{html}"
    );
    crate::message::Message::parse(raw.as_bytes()).texts(raw.len()).join("\n")
}
