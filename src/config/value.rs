//! Parses the values that have a notation of their own: sizes, durations, listeners, name servers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// A size in bytes: `"50 MiB"` or `52428800`. `KB` is 1,000 bytes; `KiB`, also written `K`, is
/// 1,024; and so on for M and G. The case of a unit does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ByteSize(pub u64);

/// A duration, such as `"30s"`. It always needs a unit, in upper or lower case; `m` is minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct DurationValue(pub Duration);

/// Where to listen: `unix:PATH`, `tcp:HOST:PORT` or `fd:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenValue {
    /// The path begins with `/` or `./`.
    Unix(PathBuf),
    Tcp {
        /// Without brackets, if it is an address.
        host: String,
        /// 0 lets the system choose.
        port: u16,
    },
    /// A socket that systemd passes, by its name.
    Fd(String),
}

/// An address, with port 53 if none is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameServer(pub SocketAddr);

/// Splits `"50 MiB"` into its number and its unit.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    Some((digits.parse().ok()?, unit.trim()))
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "`{text}` is not a size: \
                 write a whole number and B, KB, MB, GB, KiB, MiB or GiB, as in \"50 MiB\""
            )
        };
        let (number, unit) = number_and_unit(text).ok_or_else(invalid)?;
        let factor: u64 = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "kib" | "k" => 1 << 10,
            "mib" | "m" => 1 << 20,
            "gib" | "g" => 1 << 30,
            _ => return Err(invalid()),
        };
        number.checked_mul(factor).map(Self).ok_or_else(invalid)
    }
}

impl FromStr for DurationValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "`{text}` is not a duration: \
                 write a whole number and ms, s, m, h, d or w, as in \"30s\""
            )
        };
        let (number, unit) = number_and_unit(text).ok_or_else(invalid)?;
        let millis: u64 = match unit.to_ascii_lowercase().as_str() {
            "ms" => 1,
            "s" | "sec" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            _ => return Err(invalid()),
        };
        number.checked_mul(millis).map(|all| Self(Duration::from_millis(all))).ok_or_else(invalid)
    }
}

impl FromStr for ListenValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = |reason: &str| {
            format!(
                "`{text}` is not a listener ({reason}): \
                 write unix:PATH, tcp:HOST:PORT or fd:NAME"
            )
        };
        match text.split_once(':') {
            Some(("unix", path)) if path.starts_with('/') || path.starts_with("./") => {
                Ok(Self::Unix(path.into()))
            }
            Some(("unix", _)) => Err(invalid("the path must begin with / or ./")),
            Some(("fd", name)) if !name.is_empty() => Ok(Self::Fd(name.into())),
            Some(("tcp", address)) => {
                let (host, port) = address.rsplit_once(':').ok_or_else(|| invalid("no port"))?;
                let port =
                    port.parse().map_err(|_| invalid("the port must be a number up to 65535"))?;
                let unbracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                if host.is_empty() || (unbracketed.is_none() && host.contains(':')) {
                    return Err(invalid("a host is needed, and an IPv6 address needs brackets"));
                }
                Ok(Self::Tcp { host: unbracketed.unwrap_or(host).into(), port })
            }
            _ => Err(invalid("unknown kind")),
        }
    }
}

impl FromStr for NameServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let without_port = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53));
        without_port.or_else(|_| text.parse()).map(Self).map_err(|_| {
            format!(
                "`{text}` is not a name server: write an address, \
                 such as 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:5353"
            )
        })
    }
}

impl fmt::Display for ListenValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(out, "tcp:[{host}]:{port}"),
            Self::Tcp { host, port } => write!(out, "tcp:{host}:{port}"),
            Self::Fd(name) => write!(out, "fd:{name}"),
        }
    }
}

/// Reads a value from a string, or from an integer that is not negative if `from_number` is set.
struct TextVisitor<T> {
    expected: &'static str,
    from_number: Option<fn(u64) -> T>,
}

impl<T: FromStr<Err = String>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        match (self.from_number, u64::try_from(number)) {
            (Some(make), Ok(number)) => Ok(make(number)),
            _ => Err(E::invalid_type(de::Unexpected::Signed(number), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TextVisitor {
            expected: "a size such as \"50 MiB\"",
            from_number: Some(ByteSize),
        })
    }
}

impl<'de> Deserialize<'de> for DurationValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TextVisitor {
            expected: "a duration such as \"30s\"",
            from_number: None,
        })
    }
}

impl<'de> Deserialize<'de> for NameServer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TextVisitor {
            expected: "a name server such as \"127.0.0.1:53\"",
            from_number: None,
        })
    }
}

impl<'de> Deserialize<'de> for ListenValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TextVisitor {
            expected: "a listener such as \"unix:/run/lmtp\"",
            from_number: None,
        })
    }
}
