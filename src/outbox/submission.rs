//! Reads the envelope that a JMAP client gives, or derives it from the message (RFC 8621 §7, §7.5).
//!
//! - The parameters are those of DSN (RFC 3461), FUTURERELEASE (RFC 4865), 8BITMIME, SIZE and
//!   SMTPUTF8. The last three are checked and ignored: the queue sets them by what the message is.
//! - Values are not encoded as xtext.
//! - Without an ENVID, the Message-ID is used if it can be one, so that a report without any part
//!   of the message still names it (`model::EmailSubmission::matches_report`).
//! - Whether the account may send as the sender is not checked here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::kind::{NewAction, SubmissionAction};
use crate::model::{
    Address, BlobHash, DsnNotify, DsnReturn, EmailAddress, EmailContent, EmailId, EnvelopeAddress,
    OriginalRecipient, Target, UtcMillis, limits,
};

/// The most digits of HOLDFOR (RFC 4865 §4.2).
const MAX_HOLDFOR_DIGITS: usize = 9;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmissionOrder {
    /// `None` is `<>`.
    pub sender: Option<Address>,
    /// At least one, each folded address once.
    pub recipients: Vec<Target>,
    /// RET= (RFC 3461 §4.3).
    pub ret: Option<DsnReturn>,
    /// ENVID= (RFC 3461 §4.4).
    pub envid: Option<String>,
    /// The message is not sent before this time, which is not in the past.
    pub send_at: UtcMillis,
}

/// Why an envelope is refused, by the errors of JMAP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadEnvelope {
    /// `invalidProperties`: the path of the property, and why it is invalid.
    Property(String, String),
    NoRecipients,
    /// `tooManyRecipients`: the limit.
    TooMany(usize),
    /// `invalidRecipients`: the addresses that cannot be parsed.
    Recipients(Vec<String>),
}

/// Checks an envelope, with at most `max_recipients` recipients and a delay of at most `max_delay`
/// (`maxDelayedSend`). Of two recipients with the same folded address, the first is kept.
///
/// # Errors
/// `NoRecipients` or `TooMany` if there are no recipients or too many; `Property` for an invalid
/// sender or parameter; else `Recipients` if addresses of recipients are invalid.
pub fn parse_envelope(
    mail_from: &EnvelopeAddress,
    rcpt_to: &[EnvelopeAddress],
    now: UtcMillis,
    max_recipients: usize,
    max_delay: Duration,
) -> Result<SubmissionOrder, BadEnvelope> {
    let sender = match mail_from.email.as_str() {
        "" => None,
        text => {
            let bad = |error: crate::model::AddressError| {
                bad_property("envelope/mailFrom/email", error.to_string())
            };
            Some(Address::parse(text).map_err(bad)?)
        }
    };
    if rcpt_to.is_empty() {
        return Err(BadEnvelope::NoRecipients);
    }
    if rcpt_to.len() > max_recipients {
        return Err(BadEnvelope::TooMany(max_recipients));
    }
    let mut order =
        SubmissionOrder { sender, recipients: Vec::new(), ret: None, envid: None, send_at: now };
    order.apply_sender_parameters(mail_from, now, max_delay)?;
    let (mut invalid, mut known) = (Vec::new(), BTreeSet::new());
    for (index, to) in rcpt_to.iter().enumerate() {
        match Address::parse(&to.email) {
            Ok(address) => {
                let target = parse_recipient(address, to, index)?;
                if known.insert(target.address.folded()) {
                    order.recipients.push(target);
                }
            }
            Err(_) => invalid.push(to.email.clone()),
        }
    }
    if invalid.is_empty() { Ok(order) } else { Err(BadEnvelope::Recipients(invalid)) }
}

/// Derives the envelope from the header (RFC 8621 §7): from Sender, else From, to each of
/// `recipients` once, which are all addresses in To, Cc and Bcc. There may be no recipient, and
/// addresses may be invalid: `parse_envelope` must check the result. Of more than
/// `limits::MAX_RECIPIENTS` recipients, one too many is returned.
///
/// # Errors
/// `Property` if Sender (or From) is not exactly one address.
pub fn derive_envelope(
    content: &EmailContent,
    recipients: &[EmailAddress],
) -> Result<(EnvelopeAddress, Vec<EnvelopeAddress>), BadEnvelope> {
    let without_parameters =
        |email: &str| EnvelopeAddress { email: email.to_owned(), parameters: None };
    let from = if content.sender.is_empty() { &content.from } else { &content.sender };
    let [from] = from.as_slice() else {
        return Err(bad_property(
            "emailId",
            "its From or Sender field is not one address: give an envelope".into(),
        ));
    };
    let mut known = BTreeSet::new();
    let to = recipients
        .iter()
        .map(|person| person.email.as_str())
        // What is no address is compared as it is.
        .filter(|text| {
            known.insert(Address::parse(text).map(|address| address.folded()).map_err(|_| *text))
        })
        .take(limits::MAX_RECIPIENTS.saturating_add(1))
        .map(without_parameters)
        .collect();
    Ok((without_parameters(&from.email), to))
}

impl SubmissionOrder {
    /// `message` is the hash of the message without Bcc, and `message_id` its id, without angle
    /// brackets.
    #[must_use]
    pub fn into_action(
        self,
        email: EmailId,
        message: BlobHash,
        message_id: String,
        now: UtcMillis,
    ) -> NewAction {
        let Self { sender, recipients, ret, envid, send_at } = self;
        let can_be_envid =
            is_printable(&message_id) && (1..=limits::MAX_ENVID_BYTES).contains(&message_id.len());
        let envid = envid.or_else(|| can_be_envid.then(|| message_id.clone()));
        let submission = SubmissionAction {
            sender,
            recipients,
            ret,
            envid,
            email,
            not_before: Some(send_at),
            after: None,
            message_id,
            prefix: Vec::new(),
            blob: message,
        };
        submission.into_action(now)
    }

    fn apply_sender_parameters(
        &mut self,
        from: &EnvelopeAddress,
        now: UtcMillis,
        max_delay: Duration,
    ) -> Result<(), BadEnvelope> {
        let mut is_held = false;
        for (name, (path, value)) in parameters(from, "mailFrom")? {
            let invalid = |why: &str| bad_property(&path, why.to_owned());
            match (name.as_str(), value) {
                ("RET", Some(value)) if value.eq_ignore_ascii_case("FULL") => {
                    self.ret = Some(DsnReturn::Full);
                }
                ("RET", Some(value)) if value.eq_ignore_ascii_case("HDRS") => {
                    self.ret = Some(DsnReturn::Headers);
                }
                ("ENVID", Some(value))
                    if is_printable(value)
                        && (1..=limits::MAX_ENVID_BYTES).contains(&value.len()) =>
                {
                    self.envid = Some(value.to_owned());
                }
                ("HOLDFOR" | "HOLDUNTIL", _) if is_held => {
                    return Err(invalid("HOLDFOR and HOLDUNTIL exclude one another (RFC 4865 §4)"));
                }
                ("HOLDFOR", Some(value)) => {
                    let is_number = (1..=MAX_HOLDFOR_DIGITS).contains(&value.len())
                        && value.bytes().all(|b| b.is_ascii_digit());
                    let seconds = value
                        .parse()
                        .ok()
                        .filter(|_| is_number)
                        .ok_or_else(|| invalid("not a number of seconds of up to 9 digits"))?;
                    self.hold_until(now.after(Duration::from_secs(seconds)), now, max_delay)
                        .ok_or_else(|| invalid(TOO_LATE))?;
                    is_held = true;
                }
                ("HOLDUNTIL", Some(value)) => {
                    let at = UtcMillis::parse_rfc3339(value)
                        .ok_or_else(|| invalid("not a date and time of RFC 3339"))?;
                    self.hold_until(at, now, max_delay).ok_or_else(|| invalid(TOO_LATE))?;
                    is_held = true;
                }
                ("BODY", Some(value))
                    if ["7BIT", "8BITMIME"].iter().any(|body| value.eq_ignore_ascii_case(body)) => {
                }
                // RFC 1870 §4.
                ("SIZE", Some(value))
                    if value.len() <= 20 && value.bytes().all(|b| b.is_ascii_digit()) => {}
                ("SMTPUTF8", None) => {}
                ("RET" | "ENVID" | "HOLDFOR" | "HOLDUNTIL" | "BODY" | "SIZE" | "SMTPUTF8", _) => {
                    return Err(invalid("invalid or missing value"));
                }
                _ => return Err(invalid("no such parameter")),
            }
        }
        Ok(())
    }

    /// Returns `None` if the time is too far ahead. A time in the past means now.
    fn hold_until(&mut self, at: UtcMillis, now: UtcMillis, max_delay: Duration) -> Option<()> {
        self.send_at = at.max(now);
        (at <= now.after(max_delay)).then_some(())
    }
}

const TOO_LATE: &str = "nothing is held for so long";

fn parse_recipient(
    address: Address,
    to: &EnvelopeAddress,
    index: usize,
) -> Result<Target, BadEnvelope> {
    let mut target = Target::plain(address);
    for (name, (path, value)) in parameters(to, &format!("rcptTo/{index}"))? {
        let invalid = |why: &str| bad_property(&path, why.to_owned());
        match (name.as_str(), value) {
            ("NOTIFY", Some(value)) => {
                target.notify = Some(
                    DsnNotify::parse(value)
                        .ok_or_else(|| invalid("not NEVER, or some of SUCCESS, FAILURE, DELAY"))?,
                );
            }
            ("ORCPT", Some(value)) => {
                let parts = value.split_once(';').filter(|(kind, address)| {
                    let is_word = !kind.is_empty()
                        && kind.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
                    is_word
                        && !address.is_empty()
                        && value.len() <= limits::MAX_ORCPT_BYTES
                        && !value.chars().any(char::is_control)
                });
                let (kind, address) =
                    parts.ok_or_else(|| invalid("not a type and an address, or too long"))?;
                let (kind, address) = (kind.to_ascii_lowercase(), address.to_owned());
                target.original = Some(OriginalRecipient { kind, address });
            }
            ("NOTIFY" | "ORCPT", None) => return Err(invalid("it needs a value")),
            _ => return Err(invalid("no such parameter")),
        }
    }
    Ok(target)
}

/// Parameters by name in capitals: the path within the submission, as a JSON pointer without the
/// first `/`, and the value.
type EnvelopeParameters<'a> = BTreeMap<String, (String, Option<&'a str>)>;

/// `property` is the path of the address in the envelope.
fn parameters<'a>(
    address: &'a EnvelopeAddress,
    property: &str,
) -> Result<EnvelopeParameters<'a>, BadEnvelope> {
    let mut parameters = EnvelopeParameters::new();
    for (name, value) in address.parameters.iter().flatten() {
        let name_in_path = name.replace('~', "~0").replace('/', "~1");
        let path = format!("envelope/{property}/parameters/{name_in_path}");
        let entry = (path.clone(), value.as_deref());
        if parameters.insert(name.to_ascii_uppercase(), entry).is_some() {
            return Err(bad_property(&path, "it is there twice".into()));
        }
    }
    Ok(parameters)
}

fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| (32..127).contains(&byte))
}

fn bad_property(path: &str, why: String) -> BadEnvelope {
    BadEnvelope::Property(path.to_owned(), why)
}

#[cfg(test)]
mod tests;
