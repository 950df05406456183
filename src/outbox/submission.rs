//! From the envelope that a client gives to what is sent (RFC 8621 §7, §7.5).
//!
//! Parameters are those of the extensions that we speak: DSN (RFC 3461), FUTURERELEASE (RFC 4865),
//! 8BITMIME, SIZE and SMTPUTF8, the last three of which the way out sees to by itself. Names are
//! alike in any case; values come without xtext. Whose address the sender is, and what may be sent
//! as whom, is not asked here.
//!
//! Where the client gave no ENVID, the Message-ID is it: a report that brings nothing of the
//! message back still says which one it is about (`model::EmailSubmission::matches_report`).

use std::collections::BTreeMap;
use std::time::Duration;

use super::kind::{NewAction, SubmissionAction};
use crate::model::{
    Address, BlobHash, DsnNotify, DsnReturn, EmailContent, EmailId, EnvelopeAddress,
    OriginalRecipient, Target, UtcMillis, limits,
};

/// Digits of HOLDFOR (RFC 4865 §4.2).
const MAX_HOLDFOR_DIGITS: usize = 9;

/// What is sent to whom, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmissionOrder {
    /// MAIL FROM; `None` is `<>`.
    pub sender: Option<Address>,
    /// RCPT TO, each once.
    pub recipients: Vec<Target>,
    /// RET= (RFC 3461 §4.3).
    pub ret: Option<DsnReturn>,
    /// ENVID= (RFC 3461 §4.4).
    pub envid: Option<String>,
    /// Not before.
    pub send_at: UtcMillis,
}

/// Why an envelope cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadEnvelope {
    /// This property of it, and why (`invalidProperties`).
    Property(String, String),
    /// `noRecipients`.
    NoRecipients,
    /// `tooManyRecipients`: more than this number.
    TooMany(usize),
    /// `invalidRecipients`: these.
    Recipients(Vec<String>),
}

/// Reads an envelope as an order to send, within the bounds on recipients and delay
/// (`maxDelayedSend`).
///
/// # Errors
/// What is wrong with it.
pub fn order(
    mail_from: &EnvelopeAddress,
    rcpt_to: &[EnvelopeAddress],
    now: UtcMillis,
    most: usize,
    delay: Duration,
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
    if rcpt_to.len() > most {
        return Err(BadEnvelope::TooMany(most));
    }
    let mut order =
        SubmissionOrder { sender, recipients: Vec::new(), ret: None, envid: None, send_at: now };
    order.sender_parameters(mail_from, now, delay)?;
    let mut wrong = Vec::new();
    for (at, to) in rcpt_to.iter().enumerate() {
        match Address::parse(&to.email) {
            Ok(address) => {
                let target = recipient(address, to, at)?;
                if !order
                    .recipients
                    .iter()
                    .any(|known| known.address.folded() == target.address.folded())
                {
                    order.recipients.push(target);
                }
            }
            Err(_) => wrong.push(to.email.clone()),
        }
    }
    if wrong.is_empty() { Ok(order) } else { Err(BadEnvelope::Recipients(wrong)) }
}

/// The envelope of a message for which none was given (RFC 8621 §7): from its Sender, else its
/// From, to everyone in To, Cc and Bcc, once.
///
/// # Errors
/// `Property` where it is not one address that it is from.
pub fn derive_envelope(
    content: &EmailContent,
) -> Result<(EnvelopeAddress, Vec<EnvelopeAddress>), BadEnvelope> {
    let plain = |email: &str| EnvelopeAddress { email: email.to_owned(), parameters: None };
    let from = if content.sender.is_empty() { &content.from } else { &content.sender };
    let [from] = from.as_slice() else {
        return Err(bad_property(
            "emailId",
            "its From or Sender field is not one address: give an envelope".into(),
        ));
    };
    let mut to: Vec<EnvelopeAddress> = Vec::new();
    for person in content.to.iter().chain(&content.cc).chain(&content.bcc) {
        let folded = |text: &str| Address::parse(text).map(|address| address.folded());
        if !to.iter().any(|known| {
            known.email == person.email
                || folded(&known.email).is_ok_and(|one| Ok(one) == folded(&person.email))
        }) {
            to.push(plain(&person.email));
        }
    }
    Ok((plain(&from.email), to))
}

impl SubmissionOrder {
    /// As it is queued, with the message that goes out: `message` names its octets, which have no
    /// Bcc any more (`message::header::without_fields`).
    #[must_use]
    pub fn queue(
        self,
        email: EmailId,
        message: BlobHash,
        message_id: String,
        now: UtcMillis,
    ) -> NewAction {
        let Self { sender, recipients, ret, envid, send_at } = self;
        let fits =
            is_printable(&message_id) && (1..=limits::MAX_ENVID_BYTES).contains(&message_id.len());
        let envid = envid.or_else(|| fits.then(|| message_id.clone()));
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
        submission.queue(now)
    }

    fn sender_parameters(
        &mut self,
        from: &EnvelopeAddress,
        now: UtcMillis,
        delay: Duration,
    ) -> Result<(), BadEnvelope> {
        let mut held = false;
        for (name, (path, value)) in parameters(from, "mailFrom")? {
            let wrong = |why: &str| bad_property(&path, why.to_owned());
            match (name.as_str(), value) {
                ("RET", Some(value)) if value.eq_ignore_ascii_case("FULL") => {
                    self.ret = Some(DsnReturn::Full)
                }
                ("RET", Some(value)) if value.eq_ignore_ascii_case("HDRS") => {
                    self.ret = Some(DsnReturn::Headers)
                }
                ("ENVID", Some(value))
                    if is_printable(value)
                        && (1..=limits::MAX_ENVID_BYTES).contains(&value.len()) =>
                {
                    self.envid = Some(value.to_owned());
                }
                ("HOLDFOR" | "HOLDUNTIL", _) if held => {
                    return Err(wrong("HOLDFOR and HOLDUNTIL exclude one another (RFC 4865 §4)"));
                }
                ("HOLDFOR", Some(value)) => {
                    let is_number = (1..=MAX_HOLDFOR_DIGITS).contains(&value.len())
                        && value.bytes().all(|b| b.is_ascii_digit());
                    let seconds = value
                        .parse()
                        .ok()
                        .filter(|_| is_number)
                        .ok_or_else(|| wrong("not a number of seconds"))?;
                    self.hold_until(now.after(Duration::from_secs(seconds)), now, delay)
                        .ok_or_else(|| wrong(TOO_LATE))?;
                    held = true;
                }
                ("HOLDUNTIL", Some(value)) => {
                    let at = UtcMillis::parse_rfc3339(value)
                        .ok_or_else(|| wrong("not a date and time of RFC 3339"))?;
                    self.hold_until(at, now, delay).ok_or_else(|| wrong(TOO_LATE))?;
                    held = true;
                }
                // The way out sees to these by itself, by what the message is.
                ("BODY", Some(value))
                    if ["7BIT", "8BITMIME"]
                        .iter()
                        .any(|known| value.eq_ignore_ascii_case(known)) => {}
                ("SIZE", Some(value))
                    if value.len() <= 20 && value.bytes().all(|b| b.is_ascii_digit()) => {}
                ("SMTPUTF8", None) => {}
                ("RET" | "ENVID" | "HOLDFOR" | "HOLDUNTIL" | "BODY" | "SIZE" | "SMTPUTF8", _) => {
                    return Err(wrong("no such value"));
                }
                _ => return Err(wrong("no such parameter")),
            }
        }
        Ok(())
    }

    /// What is due already goes at once.
    fn hold_until(&mut self, at: UtcMillis, now: UtcMillis, delay: Duration) -> Option<()> {
        self.send_at = at.max(now);
        (at <= now.after(delay)).then_some(())
    }
}

const TOO_LATE: &str = "nothing is held for so long";

fn recipient(address: Address, to: &EnvelopeAddress, at: usize) -> Result<Target, BadEnvelope> {
    let mut target = Target::plain(address);
    for (name, (path, value)) in parameters(to, &format!("rcptTo/{at}"))? {
        let wrong = |why: &str| bad_property(&path, why.to_owned());
        match (name.as_str(), value) {
            ("NOTIFY", Some(value)) => {
                target.notify = Some(
                    DsnNotify::parse(value)
                        .ok_or_else(|| wrong("not NEVER, or some of SUCCESS, FAILURE, DELAY"))?,
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
                let (kind, address) = parts.ok_or_else(|| wrong("not a type and an address"))?;
                let (kind, address) = (kind.to_ascii_lowercase(), address.to_owned());
                target.original = Some(OriginalRecipient { kind, address });
            }
            ("NOTIFY" | "ORCPT", None) => return Err(wrong("it needs a value")),
            _ => return Err(wrong("no such parameter")),
        }
    }
    Ok(target)
}

type EnvelopeParameters<'a> = BTreeMap<String, (String, Option<&'a str>)>;

/// By name in capitals: where each stands in the envelope, and its value.
fn parameters<'a>(
    address: &'a EnvelopeAddress,
    place: &str,
) -> Result<EnvelopeParameters<'a>, BadEnvelope> {
    let mut all = EnvelopeParameters::new();
    for (name, value) in address.parameters.iter().flatten() {
        let path =
            format!("envelope/{place}/parameters/{}", name.replace('~', "~0").replace('/', "~1"));
        if all.insert(name.to_ascii_uppercase(), (path.clone(), value.as_deref())).is_some() {
            return Err(bad_property(&path, "it is there twice".into()));
        }
    }
    Ok(all)
}

fn is_printable(text: &str) -> bool {
    text.bytes().all(|octet| (32..127).contains(&octet))
}

fn bad_property(path: &str, why: String) -> BadEnvelope {
    BadEnvelope::Property(path.to_owned(), why)
}

#[cfg(test)]
mod tests;
