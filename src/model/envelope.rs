//! The envelope of a message in SMTP and LMTP (RFC 5321 §2.3.1, RFC 2033), and what a trusted peer
//! says of the original client.

use super::address::Address;

/// The envelope of one transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// `None` is the null path `<>` (RFC 5321 §4.5.5).
    pub sender: Option<Address>,
    /// In the order of their RCPT commands.
    pub recipients: Vec<Recipient>,
    /// BODY= of RFC 6152 and 3030.
    pub body: BodyType,
    /// SMTPUTF8 of RFC 6531.
    pub smtputf8: bool,
    /// SIZE= of RFC 1870, in bytes, as the client declared it.
    pub size: Option<u64>,
    /// RET= of RFC 3461 §4.3.
    pub ret: Option<DsnReturn>,
    /// ENVID= of RFC 3461 §4.4, decoded.
    pub envid: Option<String>,
    /// The name that the client gave in LHLO.
    pub lhlo: String,
    /// Whether the session is encrypted.
    pub tls: bool,
    /// Why the sender counts as forged (`proof::examine`). `None` if the sender does not count as
    /// forged, or if that was not examined.
    pub forged: Option<String>,
    pub client: ClientInfo,
}

impl Envelope {
    /// Returns the `with` protocol of the Received field (RFC 3848, RFC 6531 §4.3).
    #[must_use]
    pub fn protocol(&self) -> &'static str {
        match (self.smtputf8, self.tls) {
            (false, false) => "LMTP",
            (false, true) => "LMTPS",
            (true, false) => "UTF8LMTP",
            (true, true) => "UTF8LMTPS",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    pub address: Address,
    /// `None` if the sender gave no ORCPT.
    pub original: Option<OriginalRecipient>,
    pub notify: DsnNotify,
}

impl Recipient {
    /// Returns a recipient without parameters.
    #[must_use]
    pub fn plain(address: Address) -> Self {
        Self { address, original: None, notify: DsnNotify::default() }
    }
}

/// ORCPT: address type and address, decoded (RFC 3461 §4.2, RFC 6533 §3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginalRecipient {
    /// `rfc822` or `utf-8`, in lower case; others are kept as given.
    pub kind: String,
    pub address: String,
}

/// The events of which the sender wants reports: NOTIFY= of RFC 3461 §4.1. All are false if the
/// sender gave no NOTIFY.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DsnNotify {
    pub never: bool,
    pub success: bool,
    pub failure: bool,
    pub delay: bool,
}

impl DsnNotify {
    /// Parses a value of NOTIFY, in any letter case. `None` if a word is unknown, or NEVER is not
    /// alone.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let mut notify = Self::default();
        for word in value.split(',') {
            match word.to_ascii_uppercase().as_str() {
                "NEVER" => notify.never = true,
                "SUCCESS" => notify.success = true,
                "FAILURE" => notify.failure = true,
                "DELAY" => notify.delay = true,
                _ => return None,
            }
        }
        // NEVER may not be combined with the others.
        (!(notify.never && (notify.success || notify.failure || notify.delay))).then_some(notify)
    }
}

/// BODY= of RFC 6152 and RFC 3030.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyType {
    /// 7BIT, or no BODY parameter.
    #[default]
    SevenBit,
    EightBit,
    /// With BDAT only.
    Binary,
}

/// RET= of RFC 3461 §4.3: how much of the message a report returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DsnReturn {
    Full,
    Headers,
}

/// The original client, as a trusted peer described it by XFORWARD or XCLIENT of Postfix. What the
/// peer did not say is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientInfo {
    pub name: Option<String>,
    pub addr: Option<String>,
    pub port: Option<u16>,
    pub helo: Option<String>,
    pub proto: Option<String>,
    /// The peer's id of the message: the queue id of Postfix.
    pub ident: Option<String>,
    /// `LOCAL` or `REMOTE`.
    pub source: Option<String>,
    /// Of the authenticated client, from XCLIENT.
    pub login: Option<String>,
}
