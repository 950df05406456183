//! Finds the client that SPF is checked for: the address that handed the message to the site (RFC
//! 7208 §2.4), and its HELO.
//!
//! These sources are used, in this order:
//! 1. XFORWARD or XCLIENT of a trusted peer. If it has no HELO, the HELO is `unknown`.
//! 2. The topmost Received field, whatever its `by` says: the server that delivers to this one
//!    wrote it. Then the fields below it, up to the first whose `by` is no configured authserv-id.
//!    Postfix writes `from HELO (name [address]) by ...`, and replaces blanks and parentheses in
//!    HELO.
//!
//! An internal address (loopback, private, link-local, unspecified or multicast) means that the
//! message passed a filter or relay of the site: the next source is used. A Received field without
//! a client, as that of a local program (`sendmail`), ends the search: the message has none.

use std::net::IpAddr;

use super::results::own_fields;
use crate::message::header::{Field, Header};
use crate::model::Envelope;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpfClient {
    pub(super) address: IpAddr,
    pub(super) helo: String,
}

/// Returns the client of a message, or `None` if the search ends without an outside address. `ids`
/// are the configured authserv-ids, which the servers of the site write after `by`.
pub(super) fn client(
    header: &Header<'_>,
    envelope: &Envelope,
    ids: &[String],
) -> Option<SpfClient> {
    let forwarded =
        envelope.client.addr.as_deref().and_then(address).filter(|address| is_outside(*address));
    if let Some(address) = forwarded {
        let helo = envelope.client.helo.clone().unwrap_or_else(|| "unknown".into());
        return Some(SpfClient { address, helo });
    }
    let clients = own_fields(header, ids)
        .filter(|field| field.is("Received"))
        .map(|field| received_from(&field));
    // A field without a client ends the search: a local program submitted the message there, or the
    // field cannot be read.
    clients.map_while(|client| client).find(|client| is_outside(client.address))
}

/// Parses `from HELO (name [address])`; `None` for any other form. Of several addresses in
/// brackets, the last one counts.
fn received_from(field: &Field<'_>) -> Option<SpfClient> {
    let text = field.unfolded();
    let (from, rest) = text.split_once([' ', '\t'])?;
    let (helo, rest) = rest.trim_start().split_once([' ', '\t'])?;
    let (inner, _) = rest.trim_start().strip_prefix('(')?.split_once(')')?;
    let (_, literal) = inner.rsplit_once('[')?;
    let address = address(literal.split(']').next()?)?;
    from.eq_ignore_ascii_case("from").then(|| SpfClient { address, helo: helo.to_owned() })
}

/// Parses an address with or without `IPv6:` (RFC 5321 §4.1.3). An IPv4-mapped address becomes
/// IPv4.
fn address(text: &str) -> Option<IpAddr> {
    let untagged = text
        .get(..5)
        .filter(|tag| tag.eq_ignore_ascii_case("ipv6:"))
        .and_then(|_| text.get(5..))
        .unwrap_or(text);
    untagged.parse::<IpAddr>().ok().map(|address| address.to_canonical())
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

    fn client_of(addr: Option<&str>, header: &str) -> Option<(String, String)> {
        let mut envelope = Envelope::default();
        envelope.client.addr = addr.map(str::to_owned);
        envelope.client.helo = addr.map(|_| "forwarded.example".into());
        let found = client(
            &Header::split(format!("{header}\r\n\r\nx").as_bytes()),
            &envelope,
            &["mx.example.org".into()],
        )?;
        Some((found.address.to_string(), found.helo))
    }

    #[test]
    fn spf_client_is_read_from_trusted_sources() {
        let top = |literal: &str| {
            format!(
                "Received: from h.example (rdns.example [{literal}])\r\n\t\
                 by mx.example.org (Postfix) id x"
            )
        };
        let outside = Some(("192.0.2.7".to_owned(), "h.example".to_owned()));
        let forwarded = Some(("198.51.100.1".to_owned(), "forwarded.example".to_owned()));
        // XFORWARD comes before Received.
        assert_eq!(client_of(Some("198.51.100.1"), &top("192.0.2.7")), forwarded);
        assert_eq!(client_of(Some("IPv6:2001:db8::1"), "").unwrap().0, "2001:db8::1");
        assert_eq!(client_of(Some("::ffff:198.51.100.1"), ""), forwarded);
        // Received is used if the address of XFORWARD is missing, internal or invalid.
        for addr in [
            None,
            Some("127.0.0.1"),
            Some("10.1.2.3"),
            Some("::1"),
            Some("fe80::1"),
            Some("fd00::1"),
            Some("x"),
        ] {
            assert_eq!(client_of(addr, &top("192.0.2.7")), outside, "{addr:?}");
        }
        assert_eq!(client_of(None, &top("IPv6:2001:db8::7")).unwrap().0, "2001:db8::7");
        let through = format!("{}\r\n{}", top("127.0.0.1"), top("192.0.2.7"));
        assert_eq!(client_of(None, &through), outside);
        let strange = format!(
            "{}\r\n{}",
            top("127.0.0.1"),
            top("192.0.2.7").replace("mx.example.org", "mx.evil.example")
        );
        assert_eq!(client_of(None, &strange), None);
        // A local program submitted the message.
        let local = "Received: by mx.example.org (Postfix, from userid 0)\r\n\tid x";
        assert_eq!(client_of(None, local), None);
        assert_eq!(client_of(None, &format!("{local}\r\n{}", top("192.0.2.7"))), None);
    }

    #[test]
    fn malformed_received_fields_name_no_client() {
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
            let client = client_of(None, &format!("Received: {value}"));
            assert_eq!(
                client.map(|client| client.0),
                found.then(|| "192.0.2.7".to_owned()),
                "{value}"
            );
        }
    }
}
