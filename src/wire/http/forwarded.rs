//! Finds the address of a client behind proxies, from `X-Forwarded-For` or `Forwarded` (RFC 7239),
//! and checks `Host`.
//!
//! The list is read from its end, up to the first address that is not a trusted proxy: the client
//! may have written the entries before it.

use std::net::IpAddr;
use std::str::FromStr;

/// The most bytes of all fields of one name.
const MAX_FIELD_BYTES: usize = 4096;
/// The most entries that are used, from the end.
const MAX_HOPS: usize = 32;

/// The addresses whose first `bits` bits are those of `address`: for a single address, all bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an address or a network")]
pub struct BadNetwork;

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| BadNetwork)?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(max), str::parse::<u8>).map_err(|_| BadNetwork)?;
        if bits > max { Err(BadNetwork) } else { Ok(Self { address, bits }) }
    }
}

impl Network {
    /// Whether an address is in the network. An IPv4-mapped IPv6 address counts as IPv4, here and
    /// in the network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let bits =
                    if self.address.is_ipv6() { self.bits.saturating_sub(96) } else { self.bits };
                let shift = 32_u32.saturating_sub(u32::from(bits));
                // With 0 bits, both sides are `None`: every address is in the network.
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

/// Returns the address of the client: the last hop that is not in `trusted`. If that hop is
/// unknown, returns the proxy that reported it. If all hops are trusted, returns the first; without
/// hops, `peer`.
///
/// `peer` is the trusted proxy at the other end of the connection; `None` on a Unix socket.
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
                nearest = Some(*address);
            }
            Some(address) => return Some(*address),
        }
    }
    nearest
}

/// Returns the hops, the nearest last; `None` for an unknown address. There are none if the fields
/// are too long or not UTF-8.
#[must_use]
pub fn x_forwarded_for<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Vec<Option<IpAddr>> {
    let Some(text) = join(fields) else { return Vec::new() };
    last_hops(text.split(',').map(|hop| node(hop.trim())).collect())
}

/// Returns the hops (RFC 7239 §4), the nearest last; `None` for an unknown address. There are none
/// if the fields are too long or not UTF-8, or if a quoted string is not closed, because then the
/// entries cannot be told apart.
#[must_use]
pub fn forwarded<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Vec<Option<IpAddr>> {
    let hops = join(fields).and_then(|text| elements(&text));
    last_hops(hops.unwrap_or_default())
}

/// Joins fields with commas. `None` if there are none, or they are too long or not UTF-8.
fn join<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let mut text = String::new();
    for field in fields {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(std::str::from_utf8(field).ok()?);
        if text.len() > MAX_FIELD_BYTES {
            return None;
        }
    }
    (!text.is_empty()).then_some(text)
}

fn last_hops(mut hops: Vec<Option<IpAddr>>) -> Vec<Option<IpAddr>> {
    hops.split_off(hops.len().saturating_sub(MAX_HOPS))
}

/// Reads the `for` parameter of each element. Returns `None` if a quoted string is not closed.
///
/// ```abnf
/// Forwarded         = 1#forwarded-element
/// forwarded-element = [ forwarded-pair ] *( ";" [ forwarded-pair ] )
/// forwarded-pair    = token "=" ( token / quoted-string )
/// ```
fn elements(text: &str) -> Option<Vec<Option<IpAddr>>> {
    let mut hops = Vec::new();
    let (mut pair, mut hop, mut quoted, mut escaped) = (String::new(), None, false, false);
    let end_pair = |pair: &mut String, hop: &mut Option<IpAddr>| {
        let text = std::mem::take(pair);
        if let Some((name, value)) = text.trim().split_once('=')
            && name.eq_ignore_ascii_case("for")
        {
            *hop = node(value);
        }
    };
    for char in text.chars() {
        match char {
            _ if escaped => {
                escaped = false;
                pair.push(char);
            }
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ';' if !quoted => end_pair(&mut pair, &mut hop),
            ',' if !quoted => {
                end_pair(&mut pair, &mut hop);
                hops.push(hop.take());
            }
            _ => pair.push(char),
        }
    }
    end_pair(&mut pair, &mut hop);
    hops.push(hop);
    (!quoted).then_some(hops)
}

/// Reads a `node` (RFC 7239 §6): an address, and an optional port. An IPv6 address may have
/// brackets, and must have them before a port.
fn node(text: &str) -> Option<IpAddr> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let is_port = port.is_empty()
            || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
        return address.parse::<IpAddr>().ok().filter(|address| is_port && address.is_ipv6());
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

/// Returns the value of a `Host` field (RFC 9110 §7.2) if it is valid in a URL:
/// `uri-host [ ":" port ]`.
#[must_use]
pub fn authority(field: &[u8]) -> Option<&str> {
    // A host of 255 bytes, a colon and a port of 5 digits.
    let text = std::str::from_utf8(field).ok().filter(|text| text.len() <= 261)?;
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            ("", port)
        }
        None => text.find(':').map_or((text, ""), |colon| text.split_at(colon)),
    };
    let is_host = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let is_port =
        port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    (is_host && is_port && (text.starts_with('[') || !host.is_empty())).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn network_contains_addresses_with_the_same_first_bits() {
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
    fn client_is_the_last_hop_that_is_not_a_trusted_proxy() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let client_of = |field: &str| {
            let hops = x_forwarded_for([field.as_bytes()].into_iter());
            client(Some(ip("10.0.0.1")), &hops, &trusted).unwrap().to_string()
        };
        assert_eq!(client_of("203.0.113.5"), "203.0.113.5");
        assert_eq!(client_of("127.0.0.1, 203.0.113.5"), "203.0.113.5");
        assert_eq!(client_of("198.51.100.1, 203.0.113.5:4711 , 10.0.0.2"), "203.0.113.5");
        assert_eq!(client_of("[2001:db8::7]:80"), "2001:db8::7");
        assert_eq!(client_of("203.0.113.5, unknown"), "10.0.0.1");
        assert_eq!(client_of("203.0.113.5, unknown, 10.0.0.9"), "10.0.0.9");
        assert_eq!(client_of("10.0.0.3"), "10.0.0.3");
        assert_eq!(client_of(""), "10.0.0.1");
        assert_eq!(client(None, &[], &trusted), None);
    }

    #[test]
    fn reads_forwarded_fields_of_rfc_7239() {
        let hops = |fields: &[&str]| forwarded(fields.iter().map(|field| field.as_bytes()));
        assert_eq!(hops(&["for=\"_gazonk\""]), [None]);
        assert_eq!(hops(&["For=\"[2001:db8:cafe::17]:4711\""]), [Some(ip("2001:db8:cafe::17"))]);
        assert_eq!(hops(&["for=192.0.2.60;proto=http;by=203.0.113.43"]), [Some(ip("192.0.2.60"))]);
        let two = [Some(ip("192.0.2.43")), Some(ip("198.51.100.17"))];
        assert_eq!(hops(&["for=192.0.2.43, for=198.51.100.17"]), two);
        assert_eq!(hops(&["for=192.0.2.43", " by=\"a,b;for=x\" ; for=198.51.100.17"]), two);
        assert_eq!(hops(&["for=unknown;host=\"a\\\"b\""]), [None]);
        assert_eq!(hops(&["for=\"192.0.2.1", "for=198.51.100.17"]), []);
        assert_eq!(hops(&[]), []);
    }

    #[test]
    fn accepts_hosts_that_are_valid_in_a_url() {
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
        fn any_bytes_are_read_without_panic(
            field in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            drop(forwarded([&*field].into_iter()));
            drop(x_forwarded_for([&*field].into_iter()));
            let _ = authority(&field);
        }
    }
}
