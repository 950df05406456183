//! The envelope with which a stored message was delivered, as far as it is known.
//!
//! Only sender and recipient are looked for. The name and the address of the client are not, nor
//! are the parameters of RFC 3461.

use crate::message::header::Header;
use crate::model::{Address, Decision, Envelope, Identity, Recipient};
use crate::wire::jmap::admin::sieve_stored::EnvelopeOrigin;

pub(super) struct StoredEnvelope {
    /// Has no sender if the message came with `<>`, and also if the sender is not known. `origin`
    /// is `Unknown` only in the second case.
    pub(super) envelope: Envelope,
    pub(super) recipient: Recipient,
    pub(super) origin: EnvelopeOrigin,
}

impl StoredEnvelope {
    /// Finds the envelope of an email.
    ///
    /// - If the delivery logged a decision, sender and recipient are those of the decision.
    /// - Without a decision, the sender is the address in Return-Path. There is no sender if the
    ///   field is `<>` or empty. The sender is unknown if the field is missing, or is no address.
    /// - Without a decision, the recipient is the address in Delivered-To if it is the owner's, or
    ///   else the address in X-Original-To if it is the owner's, or else the primary address.
    ///
    /// `prefix` is the trace prefix, which the delivery wrote, and `header` the header of the raw
    /// message. A field is read in `header` only if it is not in `prefix`.
    pub(super) fn of(
        decision: Option<&Decision>,
        prefix: &[u8],
        header: &Header<'_>,
        identity: &Identity,
    ) -> Self {
        if let Some(decision) = decision {
            let sender = decision.sender.clone();
            return Self::new(sender, decision.recipient.clone(), EnvelopeOrigin::Delivery);
        }
        let prefix = Header::split(prefix);
        let value = |name: &str| {
            let field = prefix.first(name).or_else(|| header.first(name));
            field.map(|field| field.unfolded().trim().to_owned())
        };
        let path = value("Return-Path").map(|path| path.trim_matches(['<', '>']).to_owned());
        let sender = path.as_deref().and_then(|path| Address::parse(path).ok());
        // With `<>` it is known that there is no sender.
        let is_known = sender.is_some() || path.as_deref() == Some("");
        let own = ["Delivered-To", "X-Original-To"].into_iter().find_map(|name| {
            let address = Address::parse(value(name)?.trim_matches(['<', '>'])).ok()?;
            identity.is_me(&address).then_some(address)
        });
        let origin = if is_known { EnvelopeOrigin::Header } else { EnvelopeOrigin::Unknown };
        Self::new(sender, own.unwrap_or_else(|| identity.primary.clone()), origin)
    }

    fn new(sender: Option<Address>, recipient: Address, origin: EnvelopeOrigin) -> Self {
        let envelope = Envelope { sender, ..Envelope::default() };
        Self { envelope, recipient: Recipient::plain(recipient), origin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{UtcMillis, Verdict};

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    /// Returns the origin and the sender, in one text, and the recipient.
    fn found(decision: Option<&Decision>, prefix: &str, raw: &str) -> (String, String) {
        let identity = Identity {
            primary: address("ann@example.org"),
            name: None,
            addresses: vec![address("ann@example.org"), address("shop@example.org")],
            alias_domains: Vec::new(),
            delimiter: Some('+'),
            zone: None,
        };
        let header = Header::split(raw.as_bytes());
        let found = StoredEnvelope::of(decision, prefix.as_bytes(), &header, &identity);
        let sender = found.envelope.sender.map(|sender| sender.to_string());
        let sender = format!("{:?} {}", found.origin, sender.unwrap_or_default());
        (sender, found.recipient.address.to_string())
    }

    #[test]
    fn envelope_is_that_of_the_decision_or_of_the_prefix_or_of_the_message() {
        let prefix = "Return-Path: <bob@example.net>\r\nDelivered-To: ann@example.org\r\n";
        let raw = "Return-Path: <eve@example.net>\r\nDelivered-To: eve@example.net\r\n\
                   X-Original-To: shop+a@example.org\r\nFrom: x@example.net\r\n\r\n";
        let decision = Decision {
            at: UtcMillis(0),
            email: None,
            sender: None,
            recipient: address("shop@example.org"),
            verdict: Verdict::Silent { reason: "disabled".into(), detail: String::new() },
            steps: Vec::new(),
        };
        let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
        assert_eq!(found(Some(&decision), prefix, raw), pair("Delivery ", "shop@example.org"));
        assert_eq!(found(None, prefix, raw), pair("Header bob@example.net", "ann@example.org"));
        assert_eq!(found(None, "", raw), pair("Header eve@example.net", "shop+a@example.org"));
        let null = "Return-Path: <>\r\n\r\n";
        assert_eq!(found(None, "", null), pair("Header ", "ann@example.org"));
        let none = "From: x@example.net\r\n\r\n";
        assert_eq!(found(None, "", none), pair("Unknown ", "ann@example.org"));
    }
}
