//! Who handed the message to the site: the address that SPF is asked about (RFC 7208 §2.4), and
//! what it said in HELO.
//!
//! Believed is, in this order:
//! 1. what a trusted peer says by XFORWARD or XCLIENT: Postfix tells so the client of its own
//!    smtpd;
//! 2. the topmost Received field, which the server that hands over wrote itself, and those below it
//!    whose `by` the site trusts. Postfix writes `from HELO (name [address]) by ...` and lets no
//!    blank, bracket or comment into HELO.
//!
//! An address of the site's inside (loopback, private, link-local) says that the message went
//! through a filter or a relay of the site: it is passed over, and the next of the list is asked.
//! What no trusted server wrote is never asked; a message that began here has no client, and SPF
//! has nothing to say about it.

use std::net::IpAddr;

use super::results::own_fields;
use crate::message::header::{Field, Header};
use crate::model::Envelope;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpfClient {
    pub(super) address: IpAddr,
    /// `unknown` where it is not known.
    pub(super) helo: String,
}

/// The client of a message that came with this envelope; `ids` are the names that the site's
/// servers write behind `by`.
pub(super) fn client(
    header: &Header<'_>,
    envelope: &Envelope,
    ids: &[String],
) -> Option<SpfClient> {
    let said =
        envelope.client.addr.as_deref().and_then(address).filter(|address| is_outside(*address));
    if let Some(address) = said {
        let helo = envelope.client.helo.clone().unwrap_or_else(|| "unknown".into());
        return Some(SpfClient { address, helo });
    }
    let clients = own_fields(header, ids)
        .filter(|field| field.is("Received"))
        .map(|field| received_from(&field));
    clients.map_while(|client| client).find(|client| is_outside(client.address))
}

/// `from HELO (name [address])`.
fn received_from(field: &Field<'_>) -> Option<SpfClient> {
    let text = field.unfolded();
    let (from, rest) = text.split_once([' ', '\t'])?;
    let (helo, rest) = rest.trim_start().split_once([' ', '\t'])?;
    let (inner, _) = rest.trim_start().strip_prefix('(')?.split_once(')')?;
    let (_, literal) = inner.rsplit_once('[')?;
    let address = address(literal.split(']').next()?)?;
    from.eq_ignore_ascii_case("from").then(|| SpfClient { address, helo: helo.to_owned() })
}

/// An address with or without `IPv6:` before it (RFC 5321 §4.1.3); one of IPv4 in the clothes of
/// IPv6 is one of IPv4.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text
        .get(..5)
        .filter(|tag| tag.eq_ignore_ascii_case("ipv6:"))
        .and_then(|_| text.get(5..))
        .unwrap_or(text);
    bare.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

fn is_outside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            !(v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_unspecified()
                || v4.is_multicast())
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unique_local()
                || v6.is_unicast_link_local())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(addr: Option<&str>, header: &str) -> Option<(String, String)> {
        let mut envelope = Envelope::default();
        envelope.client.addr = addr.map(str::to_owned);
        envelope.client.helo = addr.map(|_| "said.example".into());
        let found = client(
            &Header::split(format!("{header}\r\n\r\nx").as_bytes()),
            &envelope,
            &["mx.example.org".into()],
        )?;
        Some((found.address.to_string(), found.helo))
    }

    #[test]
    fn who_is_believed() {
        let top = |literal: &str| {
            format!(
                "Received: from h.example (rdns.example [{literal}])\r\n\tby mx.example.org (Postfix) id x"
            )
        };
        let outside = Some(("192.0.2.7".to_owned(), "h.example".to_owned()));
        let said = Some(("198.51.100.1".to_owned(), "said.example".to_owned()));
        // XFORWARD before Received.
        assert_eq!(of(Some("198.51.100.1"), &top("192.0.2.7")), said);
        assert_eq!(of(Some("IPv6:2001:db8::1"), "").unwrap().0, "2001:db8::1");
        assert_eq!(of(Some("::ffff:198.51.100.1"), ""), said);
        // Missing, of the inside, or no address.
        for addr in [
            None,
            Some("127.0.0.1"),
            Some("10.1.2.3"),
            Some("::1"),
            Some("fe80::1"),
            Some("fd00::1"),
            Some("x"),
        ] {
            assert_eq!(of(addr, &top("192.0.2.7")), outside, "{addr:?}");
        }
        assert_eq!(of(None, &top("IPv6:2001:db8::7")).unwrap().0, "2001:db8::7");
        // Through a filter of ours.
        let through = format!("{}\r\n{}", top("127.0.0.1"), top("192.0.2.7"));
        assert_eq!(of(None, &through), outside);
        // The field below was written by a stranger, or by a server that the site does not name.
        let strange = format!(
            "{}\r\n{}",
            top("127.0.0.1"),
            top("192.0.2.7").replace("mx.example.org", "mx.evil.example")
        );
        assert_eq!(of(None, &strange), None);
        // It began here.
        let local = "Received: by mx.example.org (Postfix, from userid 0)\r\n\tid x";
        assert_eq!(of(None, local), None);
        assert_eq!(of(None, &format!("{local}\r\n{}", top("192.0.2.7"))), None);
    }

    #[test]
    fn received_near_misses() {
        for (value, found) in [
            ("from h (r [192.0.2.7]) by mx", true),
            ("FROM\th\t(r [192.0.2.7])\r\n\tby mx", true),
            ("from h (a [192.0.2.9] [192.0.2.7]) by mx", true),
            ("from h by mx (r [192.0.2.7])", false),
            ("from [192.0.2.7] by mx", false),
            ("from h (192.0.2.7) by mx", false),
            ("from h (r [192.0.2.7] by mx", false),
            ("frog h (r [192.0.2.7]) by mx", false),
            ("from h", false),
            ("", false),
        ] {
            let client = of(None, &format!("Received: {value}"));
            assert_eq!(
                client.map(|client| client.0),
                found.then(|| "192.0.2.7".to_owned()),
                "{value}"
            );
        }
    }
}
