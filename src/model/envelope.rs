//! The envelope of a message in SMTP and LMTP (RFC 5321 §2.3.1, RFC 2033).

use super::address::Address;

/// The envelope of one transaction, as the LMTP session collected it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The envelope sender; `None` is the null path `<>` (RFC 5321 §4.5.5).
    pub sender: Option<Address>,
    /// The accepted recipients, in the order of their RCPT commands.
    pub recipients: Vec<Recipient>,
    /// BODY= of RFC 6152 and 3030.
    pub body: BodyType,
    /// SMTPUTF8 of RFC 6531.
    pub smtputf8: bool,
    /// SIZE= of RFC 1870, in bytes, as the client declared it.
    pub size: Option<u64>,
    /// RET= of RFC 3461 §4.3.
    pub ret: Option<DsnReturn>,
    /// ENVID= of RFC 3461 §4.4, xtext decoded.
    pub envid: Option<String>,
    /// The name that the client gave in LHLO.
    pub lhlo: String,
    /// Whether the session was encrypted.
    pub tls: bool,
    /// Why the sender counts as forged (`proof::examine`). `None` if the sender does not, and also
    /// if that was not examined, because the message is not answered anyway.
    pub forged: Option<String>,
    /// The original client, as a trusted peer described it by XFORWARD or XCLIENT.
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

/// One accepted recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// The forward path.
    pub address: Address,
    /// ORCPT= of RFC 3461 §4.2.
    pub original: Option<OriginalRecipient>,
    /// NOTIFY= of RFC 3461 §4.1.
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
    /// The address, xtext or utf-8-addr decoded.
    pub address: String,
}

/// The events of which the sender wants reports: NOTIFY= of RFC 3461 §4.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DsnNotify {
    pub never: bool,
    pub success: bool,
    pub failure: bool,
    pub delay: bool,
}

impl DsnNotify {
    /// Parses a value of NOTIFY, in any letter case: NEVER, or any of the others. `None` if it is
    /// neither.
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
    /// BODY=8BITMIME of RFC 6152.
    EightBit,
    /// BODY=BINARYMIME of RFC 3030, with BDAT only.
    Binary,
}

/// RET= of RFC 3461 §4.3: how much of the message a report returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DsnReturn {
    /// The whole message.
    Full,
    /// The header of the message only.
    Headers,
}

/// The original client as a trusted peer described it (Postfix XFORWARD / XCLIENT).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientInfo {
    pub name: Option<String>,
    pub addr: Option<String>,
    pub port: Option<u16>,
    /// The name that the client gave in HELO.
    pub helo: Option<String>,
    /// The protocol, `SMTP` or `ESMTP`.
    pub proto: Option<String>,
    /// The peer's id of the message: the queue id of Postfix.
    pub ident: Option<String>,
    /// `LOCAL` or `REMOTE`.
    pub source: Option<String>,
    /// The login name of the authenticated client, from XCLIENT.
    pub login: Option<String>,
}
