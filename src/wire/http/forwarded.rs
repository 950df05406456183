//! Whom a proxy speaks for: `X-Forwarded-For`, and `Forwarded` (RFC 7239). And `Host`.
//!
//! Each proxy adds to the end. So the list is read from its end, and what stands before the first
//! address that is not a proxy of ours is the stranger's own tale.

use std::net::IpAddr;
use std::str::FromStr;

/// Octets of all such fields that are read, and addresses.
const MAX_FIELD_BYTES: usize = 4096;
const MAX_HOPS: usize = 32;

/// An address, or all whose first bits are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// A text that is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an address or a network")]
pub struct BadNetwork;

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| BadNetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse::<u8>).map_err(|_| BadNetwork)?;
        if bits > most { Err(BadNetwork) } else { Ok(Self { address, bits }) }
    }
}

impl Network {
    /// Whether an address is in it. One of IPv4 is the same in the clothes of IPv6.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let bits =
                    if self.address.is_ipv6() { self.bits.saturating_sub(96) } else { self.bits };
                let shift = 32_u32.saturating_sub(u32::from(bits));
                own.to_bits().checked_shr(shift) == other.to_bits().checked_shr(shift)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128_u32.saturating_sub(u32::from(self.bits));
                own.to_bits().checked_shr(shift) == other.to_bits().checked_shr(shift)
            }
            _ => false,
        }
    }
}

/// The client: the last hop that is not one of `trusted`. Where a hop is not known it is the one
/// that named it. `peer` is who is connected, and trusted; `None` on a Unix socket.
#[must_use]
pub fn client(
    peer: Option<IpAddr>,
    hops: &[Option<IpAddr>],
    trusted: &[Network],
) -> Option<IpAddr> {
    let mut nearest = peer;
    for hop in hops.iter().rev() {
        match hop {
            None => return nearest,
            Some(address) if trusted.iter().any(|network| network.contains(*address)) => {
                nearest = Some(*address)
            }
            Some(address) => return Some(*address),
        }
    }
    nearest
}

/// The hops of `X-Forwarded-For` fields, the nearest last; `None` for one that is no address.
#[must_use]
pub fn x_forwarded_for<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Vec<Option<IpAddr>> {
    let Some(whole) = joined(fields) else { return Vec::new() };
    last(whole.split(',').map(|hop| node(hop.trim())).collect())
}

/// The hops of `Forwarded` fields (RFC 7239 §4), the nearest last. Fields that are not well-formed
/// have none: of such the end cannot be told.
#[must_use]
pub fn forwarded<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Vec<Option<IpAddr>> {
    let hops = joined(fields).and_then(|whole| elements(&whole));
    last(hops.unwrap_or_default())
}

fn joined<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let mut whole = String::new();
    for field in fields {
        if !whole.is_empty() {
            whole.push(',');
        }
        whole.push_str(std::str::from_utf8(field).ok()?);
        if whole.len() > MAX_FIELD_BYTES {
            return None;
        }
    }
    (!whole.is_empty()).then_some(whole)
}

fn last(mut hops: Vec<Option<IpAddr>>) -> Vec<Option<IpAddr>> {
    hops.split_off(hops.len().saturating_sub(MAX_HOPS))
}

/// ```abnf
/// Forwarded         = 1#forwarded-element
/// forwarded-element = [ forwarded-pair ] *( ";" [ forwarded-pair ] )
/// forwarded-pair    = token "=" ( token / quoted-string )
/// ```
fn elements(whole: &str) -> Option<Vec<Option<IpAddr>>> {
    let mut hops = Vec::new();
    let (mut pair, mut hop, mut quoted, mut escaped) = (String::new(), None, false, false);
    let take = |pair: &mut String, hop: &mut Option<IpAddr>| {
        let text = std::mem::take(pair);
        if let Some((name, value)) = text.trim().split_once('=')
            && name.eq_ignore_ascii_case("for")
        {
            *hop = node(value);
        }
    };
    for letter in whole.chars() {
        match letter {
            _ if escaped => {
                escaped = false;
                pair.push(letter);
            }
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ';' if !quoted => take(&mut pair, &mut hop),
            ',' if !quoted => {
                take(&mut pair, &mut hop);
                hops.push(hop.take());
            }
            _ => pair.push(letter),
        }
    }
    take(&mut pair, &mut hop);
    hops.push(hop);
    (!quoted).then_some(hops)
}

/// `node` of RFC 7239 §6: an address, of IPv6 in brackets, with or without a port. `unknown` and
/// `_hidden` are none.
fn node(text: &str) -> Option<IpAddr> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let good = port.is_empty()
            || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
        return address.parse::<IpAddr>().ok().filter(|address| good && address.is_ipv6());
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    let (address, port) = text.split_once(':')?;
    address
        .parse::<IpAddr>()
        .ok()
        .filter(|address| address.is_ipv4() && port.parse::<u16>().is_ok())
}

/// `Host` (RFC 9110 §7.2), where it is one that a URL can be made of: `uri-host [ ":" port ]`.
#[must_use]
pub fn authority(field: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(field).ok().filter(|text| text.len() <= 261)?;
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            ("", port)
        }
        None => text.find(':').map_or((text, ""), |at| text.split_at(at)),
    };
    let named = host.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"-._".contains(&octet));
    let ported =
        port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    (named && ported && (text.starts_with('[') || !host.is_empty())).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn networks() {
        let within = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(ip(address))
        };
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("192.0.2.128/25", "::ffff:192.0.2.129", "192.0.2.127"),
            ("::ffff:10.0.0.0/104", "10.1.2.3", "11.1.2.3"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::1", "::1", "::2"),
        ] {
            assert!(within(network, inside) && !within(network, outside), "{network}");
        }
        assert!(
            within("0.0.0.0/0", "192.0.2.1")
                && !within("0.0.0.0/0", "::1")
                && within("::/0", "::1")
        );
        for text in
            ["", "localhost", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8/8"]
        {
            assert_eq!(text.parse::<Network>(), Err(BadNetwork), "{text}");
        }
    }

    #[test]
    fn the_client_is_the_last_that_is_no_proxy_of_ours() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let of = |field: &str| {
            let hops = x_forwarded_for([field.as_bytes()].into_iter());
            client(Some(ip("10.0.0.1")), &hops, &trusted).unwrap().to_string()
        };
        assert_eq!(of("203.0.113.5"), "203.0.113.5");
        // What the stranger wrote himself stands before.
        assert_eq!(of("127.0.0.1, 203.0.113.5"), "203.0.113.5");
        assert_eq!(of("198.51.100.1, 203.0.113.5:4711 , 10.0.0.2"), "203.0.113.5");
        assert_eq!(of("[2001:db8::7]:80"), "2001:db8::7");
        assert_eq!(of("203.0.113.5, unknown"), "10.0.0.1");
        assert_eq!(of("203.0.113.5, unknown, 10.0.0.9"), "10.0.0.9");
        assert_eq!(of("10.0.0.3"), "10.0.0.3");
        assert_eq!(of(""), "10.0.0.1");
        assert_eq!(client(None, &[], &trusted), None);
    }

    #[test]
    fn forwarded_of_rfc_7239() {
        let of = |fields: &[&str]| forwarded(fields.iter().map(|field| field.as_bytes()));
        assert_eq!(of(&["for=\"_gazonk\""]), [None]);
        assert_eq!(of(&["For=\"[2001:db8:cafe::17]:4711\""]), [Some(ip("2001:db8:cafe::17"))]);
        assert_eq!(of(&["for=192.0.2.60;proto=http;by=203.0.113.43"]), [Some(ip("192.0.2.60"))]);
        let two = [Some(ip("192.0.2.43")), Some(ip("198.51.100.17"))];
        assert_eq!(of(&["for=192.0.2.43, for=198.51.100.17"]), two);
        assert_eq!(of(&["for=192.0.2.43", " by=\"a,b;for=x\" ; for=198.51.100.17"]), two);
        assert_eq!(of(&["for=unknown;host=\"a\\\"b\""]), [None]);
        // A quote that the stranger left open swallows what the proxy added: nobody is named.
        assert_eq!(of(&["for=\"192.0.2.1", "for=198.51.100.17"]), []);
        assert_eq!(of(&[]), []);
    }

    #[test]
    fn hosts_that_a_url_can_be_made_of() {
        for text in [
            "example.org",
            "example.org:8443",
            "192.0.2.1",
            "[::1]:80",
            "[2001:db8::1]",
            "a_b.example",
        ] {
            assert_eq!(authority(text.as_bytes()), Some(text));
        }
        for text in [
            "",
            ":80",
            "a b",
            "a/b",
            "a:b",
            "a:99999",
            "[::1",
            "[x]:1",
            "::1",
            "a@b",
            "a\"",
            "é.example",
        ] {
            assert_eq!(authority(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_read(field in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop((forwarded([&*field].into_iter()), x_forwarded_for([&*field].into_iter()), authority(&field)));
        }
    }
}
