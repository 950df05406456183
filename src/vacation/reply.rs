//! What a reply looks like (RFC 3834 §3, RFC 5230 §5, RFC 8621 §8).

use crate::message::auto::Facts;
use crate::message::compose::{Draft, build, one_line};
use crate::model::{Address, EmailAddress, Identity, UtcMillis, VacationResponse};

/// A finished reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// To whom: the original's envelope sender (RFC 3834 §4).
    pub recipient: Address,
    /// Its Message-ID.
    pub message_id: String,
    /// Its octets.
    pub message: Vec<u8>,
}

/// References that a reply names: the first and the last of longer lists.
const REFERENCES: usize = 20;
/// Characters of the original subject that are repeated, each time.
const SUBJECT: usize = 200;
/// The text where the owner set none (RFC 8621 §8).
const DEFAULT_TEXT: &str = "I am away at the moment and will read your message when I am back.\n";

/// Composes the reply to a message.
#[must_use]
pub fn reply(
    response: &VacationResponse,
    identity: &Identity,
    facts: &Facts,
    sender: &Address,
    now: UtcMillis,
    secret: &[u8; 32],
    nonce: u64,
) -> Reply {
    let from = response.from.clone().unwrap_or_else(|| own_address(identity, facts));
    let domain =
        Address::parse(&from.email).map_or_else(|_| identity.primary.domain().to_owned(), |a| a.domain().to_owned());
    let message_id = own_id(nonce, crate::model::address::fold_domain(&domain).as_str(), secret);
    let subject = facts.subject.as_deref().map(one_line).unwrap_or_default();
    let subject: String = subject.chars().take(SUBJECT).collect();
    let until = response.to_date.map(|at| at.last_day(identity.zone.as_deref()));
    let values = [("subject", Some(subject.clone())), ("from", Some(sender.to_string())), ("until", until)];
    let placed = |text: &str| fill(text, &values, str::to_owned);
    let html = response.html_body.as_deref().map(|html| fill(html, &values, as_html));
    let text = match (&response.text_body, &response.html_body) {
        (Some(text), _) => placed(text),
        (None, Some(_)) => as_text(html.as_deref().unwrap_or_default()),
        (None, None) => DEFAULT_TEXT.to_owned(),
    };
    let known_as = facts
        .from
        .iter()
        .find(|person| Address::parse(&person.email).is_ok_and(|address| address.folded() == sender.folded()));
    let draft = Draft {
        from,
        to: EmailAddress {
            name: known_as.and_then(|person| person.name.clone()),
            email: sender.travelling().to_string(),
        },
        reply_to: response.reply_to.clone(),
        subject: response.subject.as_deref().map_or_else(|| subject_for(&subject), placed),
        date: now,
        message_id: message_id.clone(),
        in_reply_to: facts.message_id.iter().cloned().collect(),
        references: references(facts),
        fields: vec![
            ("Auto-Submitted", "auto-replied (vacation)"),
            ("X-Auto-Response-Suppress", "All"),
            ("Precedence", "bulk"),
        ],
        text,
        html,
    };
    Reply { recipient: sender.clone(), message_id, message: build(&draft) }
}

/// The own address that the sender used, else the account's.
fn own_address(identity: &Identity, facts: &Facts) -> EmailAddress {
    let used = facts.destinations.iter().find(|address| identity.is_me(address));
    let address = used.unwrap_or(&identity.primary);
    EmailAddress { name: identity.name.clone(), email: address.to_string() }
}

fn subject_for(original: &str) -> String {
    if original.is_empty() {
        return "Automated reply".into();
    }
    let repeated = original.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("auto:"));
    if repeated { original.to_owned() } else { format!("Auto: {original}") }
}

/// RFC 5322 §3.6.4: the original's References, else its only In-Reply-To, and then its own id.
fn references(facts: &Facts) -> Vec<String> {
    let Some(own) = &facts.message_id else { return Vec::new() };
    let mut all = match (facts.references.is_empty(), facts.in_reply_to.as_slice()) {
        (true, [only]) => vec![only.clone()],
        _ => facts.references.clone(),
    };
    if all.len() >= REFERENCES {
        all.drain(1..=all.len() + 1 - REFERENCES);
    }
    all.retain(|id| id != own);
    all.push(own.clone());
    all
}

/// The owner's text with its placeholders filled in: `{subject}`, `{from}`, and `{until}`, the last day of the vacation. What
/// is put there is data: `quoted` makes it harmless, and it is not looked at again. Unknown braces, and `{until}` where there
/// is no end, stay as they are.
fn fill(text: &str, values: &[(&str, Option<String>)], quoted: fn(&str) -> String) -> String {
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

fn as_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

fn as_text(html: &str) -> String {
    let raw = format!("Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n{html}");
    crate::message::Message::parse(raw.as_bytes()).texts(raw.len()).join("\n")
}

/// An id by which our own replies are known again without a look-up: a nonce and its keyed hash.
fn own_id(nonce: u64, domain: &str, secret: &[u8; 32]) -> String {
    let nonce = format!("{nonce:016x}");
    format!("r.{nonce}.{}@{domain}", mac(&nonce, secret))
}

fn mac(nonce: &str, secret: &[u8; 32]) -> String {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(b"reply id\0");
    hasher.update(nonce.as_bytes());
    hasher.finalize().to_hex().chars().take(16).collect()
}

/// Whether a message id is one that we gave a reply.
#[must_use]
pub fn is_own_id(id: &str, secret: &[u8; 32]) -> bool {
    let parts = id.split_once('@').map(|(local, _)| local).and_then(|local| local.strip_prefix("r."));
    parts
        .and_then(|parts| parts.split_once('.'))
        .is_some_and(|(nonce, given)| nonce.len() == 16 && mac(nonce, secret) == given)
}
