//! Writes the trace fields that a final delivery puts before a message (RFC 5321 §4.4), and reads
//! those that a message has.

use super::header::Header;
use super::line::without_controls;
use crate::model::{Address, Envelope, Recipient, UtcMillis};

/// Returns the trace prefix for one recipient: Return-Path, Delivered-To and Received. `id` is what
/// Received gives as this server's id of the delivery. Delivered-To has `delivered_to`, the address
/// of the account that matched; Received has the one that the client gave for the recipient.
///
/// No value that the client sent can begin another field: control characters are dropped. Long
/// values are cut: names to 255 characters, the client's address and `id` to 64, mail addresses to
/// `MAX_ADDRESS_BYTES`.
#[must_use]
pub fn prefix(
    envelope: &Envelope,
    recipient: &Recipient,
    delivered_to: &Address,
    hostname: &str,
    id: &str,
    at: UtcMillis,
) -> Vec<u8> {
    let sender = envelope.sender.as_ref().map(ToString::to_string).unwrap_or_default();
    let client = &envelope.client;
    let mut from = word(&envelope.lhlo, 255);
    if client.helo.is_some() || client.addr.is_some() {
        let helo = client.helo.as_deref().map_or_else(|| "unknown".into(), |helo| word(helo, 255));
        let name = client.name.as_deref().map_or_else(|| "unknown".into(), |name| word(name, 255));
        let addr = client
            .addr
            .as_deref()
            .map_or_else(String::new, |addr| format!(" [{}]", word(addr, 64)));
        from = format!("{from} (client {helo} {name}{addr})");
    }
    format!(
        "Return-Path: <{}>\r\nDelivered-To: {}\r\nReceived: from {from}\r\n\
         \tby {} with {} id {}\r\n\tfor <{}>; {}\r\n",
        address_text(&sender),
        address_text(&delivered_to.to_string()),
        word(hostname, 255),
        envelope.protocol(),
        word(id, 64),
        address_text(&recipient.address.to_string()),
        at.rfc5322()
    )
    .into_bytes()
}

/// The longest address in a field: enough for the longest local part with every character quoted,
/// and short enough for one line (RFC 5322 §2.1.1).
const MAX_ADDRESS_BYTES: usize = 900;

fn address_text(value: &str) -> String {
    let text = without_controls(value);
    text.get(..text.floor_char_boundary(MAX_ADDRESS_BYTES)).unwrap_or_default().to_owned()
}

/// Returns a value as one word of at most `max` characters, without the characters that have a
/// meaning in Received; `unknown` if nothing is left.
fn word(value: &str, max: usize) -> String {
    let mut word = String::with_capacity(value.len());
    let kept = value.chars().filter(|c| {
        let is_special = matches!(c, '(' | ')' | '<' | '>' | ';' | '\\' | '"');
        !is_special && !c.is_control() && !c.is_whitespace()
    });
    word.extend(kept.take(max));
    if word.is_empty() { "unknown".into() } else { word }
}

/// Returns the number of Received fields: how many servers the message passed (RFC 5321 §6.3).
#[must_use]
pub fn received_count(header: &Header<'_>) -> usize {
    header.fields().filter(|field| field.is("Received")).count()
}

/// Returns the queue id of the sending server, cut to 64 characters: IDENT of XFORWARD, or else the
/// `id` of the topmost Received field. `None` if there is neither. In Received (RFC 5321 §4.4) the
/// name after `from` and the address after `for` do not count, which others choose.
#[must_use]
pub fn queue_id(header: &Header<'_>, envelope: &Envelope) -> Option<String> {
    if let Some(ident) = &envelope.client.ident {
        return Some(word(ident, 64));
    }
    let received = header.first("Received")?.without_comments();
    let words: Vec<&str> =
        received.split([' ', '\t', ';']).filter(|word| !word.is_empty()).collect();
    let is = |word: &&str, keyword: &str| word.eq_ignore_ascii_case(keyword);
    let start = if words.first().is_some_and(|word| is(word, "from")) { 2 } else { 0 };
    let end = words.iter().rposition(|word| is(word, "for")).unwrap_or(words.len());
    let clauses = words.get(start..end)?;
    // A name of several words may have an `id`, too.
    let at = clauses.iter().rposition(|word| is(word, "id"))?;
    clauses.get(at.checked_add(1)?).map(|id| word(id, 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::header::fields;

    #[test]
    fn values_of_the_client_cannot_begin_another_field() {
        let mut envelope = Envelope { lhlo: "evil\r\nX-Evil: 1".into(), ..Envelope::default() };
        envelope.client.helo = Some("h\r\nX-Evil: 2".into());
        envelope.client.addr = Some("192.0.2.1]\r\nX-Evil: 3".into());
        let recipient = Recipient::plain(Address::from_parts("a\r\nX-Evil: 4", "b.example"));
        let written =
            prefix(&envelope, &recipient, &recipient.address, "mx.example", "i", UtcMillis(0));
        let names: Vec<String> = fields(&written)
            .map(|field| String::from_utf8_lossy(field.name).into_owned())
            .collect();
        assert_eq!(names, ["Return-Path", "Delivered-To", "Received"]);
    }

    #[test]
    fn long_and_quoted_addresses_are_written_whole() {
        for local in ["a  b".to_owned(), "\"".repeat(256), "x".repeat(256)] {
            let address = Address::from_parts(
                local,
                format!("{}.example", "y.".repeat(120).trim_end_matches('.')),
            );
            let envelope = Envelope { sender: Some(address.clone()), ..Envelope::default() };
            let written = prefix(
                &envelope,
                &Recipient::plain(address.clone()),
                &address,
                "mx",
                "i",
                UtcMillis(0),
            );
            let value =
                |name: &str| fields(&written).find(|field| field.is(name)).unwrap().unfolded();
            assert_eq!(value("Delivered-To"), address.to_string());
            assert_eq!(value("Return-Path"), format!("<{address}>"));
            // The 998 bytes of RFC 5322 §2.1.1, and the CR.
            assert!(written.split(|byte| *byte == b'\n').all(|line| line.len() <= 999));
        }
    }

    #[test]
    fn trace_fields_are_written_and_read() {
        let recipient = Recipient::plain(Address::from_parts("ann+x", "example.org"));
        let envelope = Envelope {
            sender: Some(Address::from_parts("bob", "example.net")),
            lhlo: "mail.example.org".into(),
            smtputf8: true,
            ..Envelope::default()
        };
        let written = prefix(
            &envelope,
            &recipient,
            &Address::from_parts("ann", "example.org"),
            "mx.example",
            "e1",
            UtcMillis(0),
        );
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "Return-Path: <bob@example.net>\r\nDelivered-To: ann@example.org\r\n\
             Received: from mail.example.org\r\n\tby mx.example with UTF8LMTP id e1\r\n\
             \tfor <ann+x@example.org>; Thu, 01 Jan 1970 00:00:00 +0000\r\n"
        );
        let raw =
            b"Received: from a (b id c) by d\r\n\twith ESMTP id 4F1AB; Sat\r\nReceived: x\r\n\r\n";
        let header = Header::split(raw);
        assert_eq!(queue_id(&header, &Envelope::default()).as_deref(), Some("4F1AB"));
        assert_eq!(received_count(&header), 2);
        for (value, wanted) in [
            (
                "from id (unknown [192.0.2.1]) by d (Postfix) with ESMTP id 4F1AB; Sat",
                Some("4F1AB"),
            ),
            ("from x id evil (unknown) by d with ESMTP id 4F1AB for <a@x>; Sat", Some("4F1AB")),
            ("by d with ESMTP id 4F1AB for <\"a id evil\"@x>; Sat", Some("4F1AB")),
            ("from id by d; Sat", None),
            ("from id", None),
            ("by d with ESMTP id", None),
            ("for id", None),
        ] {
            let raw = format!("Received: {value}\r\n\r\n");
            let found = queue_id(&Header::split(raw.as_bytes()), &Envelope::default());
            assert_eq!(found.as_deref(), wanted, "{value}");
        }
    }
}
