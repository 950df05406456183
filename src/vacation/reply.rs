//! What a reply looks like (RFC 3834 §3, RFC 5230 §5, RFC 8621 §8).
//!
//! It goes to the envelope sender, from an own address that the sender knows, with an id by which
//! our replies are known again. The original's body is never repeated (RFC 3834 §3.2), and what is
//! repeated of its header is data: see `message::compose`.

use super::decide::Input;
use super::notice::{Fcc, ReplyBody};
use super::own_id::own_id;
use super::sender::plain_in_domain;
use crate::message::auto::AutoReplyFacts;
use crate::message::compose::{Draft, build};
use crate::message::line::one_line;
use crate::model::{Address, EmailAddress, UtcMillis};

/// A finished reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VacationReply {
    /// To whom: the original's envelope sender (RFC 3834 §4).
    pub recipient: Address,
    /// Its Message-ID.
    pub message_id: String,
    /// Its octets.
    pub message: Vec<u8>,
    /// Where a copy of it is filed.
    pub fcc: Option<Fcc>,
    /// After this it is not sent any more.
    pub until: Option<UtcMillis>,
}

/// References that a reply names: the first and the last of longer lists.
const MAX_REFERENCES: usize = 20;
/// Octets of an id that is named: with its field's name it fits into a line (RFC 5322 §2.1.1).
const MAX_ID_BYTES: usize = 980;
/// Characters of the original subject that are repeated, each time.
const MAX_SUBJECT_CHARS: usize = 200;
/// The text where the owner set none (RFC 8621 §8).
const DEFAULT_TEXT: &str = "I am away at the moment and will read your message when I am back.\n";

/// Composes the reply to a message, to its envelope sender. `is_own` says whether the directory
/// leads an address to the account: no other is the reply's From.
#[must_use]
pub fn reply(
    input: &Input<'_>,
    sender: &Address,
    is_own: impl Fn(&Address) -> bool,
) -> VacationReply {
    let Input { notice, identity, facts, now, secret, nonce, .. } = *input;
    let from = from(input, &is_own);
    let domain = Address::parse(&from.email)
        .map_or_else(|_| identity.primary.domain().to_owned(), |a| a.domain().to_owned());
    let message_id = own_id(nonce, crate::model::address::fold_domain(&domain).as_str(), secret);
    let subject = facts.subject.as_deref().map(one_line).unwrap_or_default();
    let subject: String = subject.chars().take(MAX_SUBJECT_CHARS).collect();
    let until = notice.until.map(|at| at.last_day(identity.zone.as_deref()));
    let values =
        [("subject", Some(subject.clone())), ("from", Some(sender.to_string())), ("until", until)];
    // A script has variables of its own (RFC 5229): what it says is said as it is.
    let values: &[_] = if notice.terms.is_some() { &values } else { &[] };
    let placed = |text: &str| fill_placeholders(text, values, str::to_owned);
    let (text, html, entity) = match notice.body {
        ReplyBody::Words { text, html } => {
            let html = html.map(|html| fill_placeholders(html, values, as_html));
            let text = match (text, &html) {
                (Some(text), _) => placed(text),
                (None, Some(html)) => as_text(html),
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
        subject: notice.subject.map_or_else(|| subject_for(&subject), placed),
        date: now,
        message_id: message_id.clone(),
        in_reply_to: usable_message_id(facts).cloned().into_iter().collect(),
        references: references(facts),
        fields: vec![
            ("Auto-Submitted", "auto-replied (vacation)"),
            ("X-Auto-Response-Suppress", "All"),
            ("Precedence", "bulk"),
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

/// The reply's From: what the owner or the script set (RFC 3834 §3.1.1, RFC 5230 §5.1), where the
/// directory still leads that to the account; else an own address.
fn from(input: &Input<'_>, is_own: &impl Fn(&Address) -> bool) -> EmailAddress {
    let is_ours =
        |from: &&EmailAddress| Address::parse(&from.email).is_ok_and(|address| is_own(&address));
    input
        .notice
        .from
        .as_ref()
        .filter(is_ours)
        .cloned()
        .unwrap_or_else(|| own_address(input, is_own))
}

/// The own address that the sender used: the first in To, Cc or their kin, else the one by which
/// the sender knew the account where that is proven, else the account's. The directory says which
/// are its own: a stranger must not choose our From.
fn own_address(input: &Input<'_>, is_own: &impl Fn(&Address) -> bool) -> EmailAddress {
    let Input { identity, facts, recipient, known_as, .. } = *input;
    let canonical = |address: &Address| identity.canonical(address);
    let meant: Vec<Address> = [recipient].into_iter().chain(known_as).map(canonical).collect();
    let is_used =
        |to: &&Address| (identity.is_me(to) || meant.contains(&canonical(to))) && is_own(to);
    let used = facts.destinations.iter().find(is_used);
    let address = used.or(known_as).unwrap_or(&identity.primary);
    EmailAddress { name: identity.name.clone(), email: address.to_string() }
}

/// The sender's name, where From has the sender's address.
fn name_of(sender: &Address, facts: &AutoReplyFacts) -> Option<String> {
    let same_as = [sender.folded(), plain_in_domain(sender)];
    let same = |person: &&EmailAddress| {
        Address::parse(&person.email).is_ok_and(|one| same_as.contains(&one.folded()))
    };
    facts.from.iter().find(same).and_then(|person| person.name.clone())
}

fn subject_for(original: &str) -> String {
    if original.is_empty() {
        return "Automated reply".into();
    }
    let repeated = original.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("auto:"));
    if repeated { original.to_owned() } else { format!("Auto: {original}") }
}

/// RFC 5322 §3.6.4: the original's References, else its only In-Reply-To, and then its own id.
fn references(facts: &AutoReplyFacts) -> Vec<String> {
    let Some(own) = usable_message_id(facts) else { return Vec::new() };
    let mut all = match (facts.references.is_empty(), facts.in_reply_to.as_slice()) {
        (true, [only]) => vec![only.clone()],
        _ => facts.references.clone(),
    };
    all.retain(|id| id.len() <= MAX_ID_BYTES);
    if all.len() >= MAX_REFERENCES {
        all.drain(1..=all.len() + 1 - MAX_REFERENCES);
    }
    all.retain(|id| id != own);
    all.push(own.clone());
    all
}

/// The original's id, if it can be named.
fn usable_message_id(facts: &AutoReplyFacts) -> Option<&String> {
    facts.message_id.as_ref().filter(|id| id.len() <= MAX_ID_BYTES)
}

/// The owner's text with its placeholders filled in: `{subject}`, `{from}`, and `{until}`, the last
/// day of the vacation. What is put there is data: `quoted` makes it harmless, and it is not looked
/// at again. Unknown braces, and `{until}` where there is no end, stay as they are.
fn fill_placeholders(
    text: &str,
    values: &[(&str, Option<String>)],
    quoted: fn(&str) -> String,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let found = after.split_once('}').and_then(|(word, after)| {
            let (_, value) = values.iter().find(|(known, _)| *known == word)?;
            value.as_ref().map(|value| (value, after))
        });
        if let Some((value, after)) = found {
            out.push_str(&quoted(value));
            rest = after;
        } else {
            out.push('{');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

pub(super) fn as_html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

fn as_text(html: &str) -> String {
    let raw = format!(
        "Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n{html}"
    );
    crate::message::Message::parse(raw.as_bytes()).texts(raw.len()).join("\n")
}
