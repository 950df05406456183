//! Message disposition notifications (RFC 8098): what a recipient, or a program in the recipient's
//! place, did with a message.
//!
//! They go from `<>`, and so never to `<>`. `MdnRequest` is what the sender of a message asked for,
//! and whether it may be answered; `notification` writes one that the owner lets go (RFC 9007).
//! `rejected` is the refusal that a person reads: one of "deleted", as Sieve's `reject` sends it
//! where the message was taken already (RFC 5429 §2.2).

use super::kind::NewAction;
use super::report::{Reporter, head, original, queued, typed};
use crate::message::auto::AutoReplyFacts;
use crate::message::compose::{Original, ReportDraft, ReportKind, report};
use crate::message::header::{Field, fields};
use crate::message::line::{one_line, without_controls};
use crate::message::parse::addresses;
use crate::message::report::{ActionMode, DispositionReport, DispositionType, SendingMode};
use crate::model::address::fold_domain;
use crate::model::{ActionKind, Address, EmailAddress, EmailId, Envelope, Recipient};

/// People who are told of one message; more were not asked for by who wants to know.
const MAX_NOTIFIED: usize = 10;

/// What a message asks for (RFC 8098 §2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdnRequest {
    /// Disposition-Notification-To: who wants to hear, each once; at least one.
    pub to: Vec<EmailAddress>,
    /// Original-Recipient: type, semicolon, address.
    pub original_recipient: Option<String>,
    /// Message-ID, in its angle brackets.
    pub message_id: Option<String>,
    /// Subject, decoded.
    pub subject: Option<String>,
    /// Every Return-Path; `None` is `<>`, or none that can be read.
    return_paths: Vec<Option<Address>>,
    /// What must be understood, and is not: attributes of Disposition-Notification-Options.
    required: Vec<String>,
    facts: AutoReplyFacts,
}

impl MdnRequest {
    /// What the header of a message asks for, its trace fields included. `None` where it asks for
    /// nothing, or names nobody who can be told.
    #[must_use]
    pub fn of(raw: &[u8]) -> Option<Self> {
        let all = |name: &'static str| fields(raw).filter(move |field| field.is(name));
        let mut to: Vec<EmailAddress> = Vec::new();
        let mut known: Vec<Address> = Vec::new();
        for person in all("Disposition-Notification-To")
            .flat_map(|field| addresses(field.readable().as_bytes()))
        {
            let Ok(address) = Address::parse(&person.email) else { continue };
            if known.len() <= MAX_NOTIFIED
                && !known.iter().any(|one| is_same_address(one, &address))
            {
                known.push(address);
                to.push(person);
            }
        }
        if to.is_empty() {
            return None;
        }
        let facts = AutoReplyFacts::of(raw);
        Some(Self {
            to,
            original_recipient: all("Original-Recipient")
                .next()
                .and_then(|field| recipient(&field)),
            message_id: facts.message_id.as_ref().map(|id| format!("<{id}>")),
            subject: facts.subject.clone(),
            return_paths: all("Return-Path").map(|field| path_address(&field)).collect(),
            required: all("Disposition-Notification-Options")
                .flat_map(|field| required_attributes(&field))
                .collect(),
            facts,
        })
    }

    /// To whom the message says that it goes.
    #[must_use]
    pub fn destinations(&self) -> &[Address] {
        &self.facts.destinations
    }

    /// Why it is not answered; `sending` says whether the owner was asked.
    ///
    /// A report is never answered, nor a request that wants what is not understood (RFC 8098 §2.1,
    /// §2.2). Where the owner was not asked, only who is the envelope's sender is told, and nobody
    /// else; and mail of lists and machines is not answered, as with any other automatic answer
    /// (RFC 3834 §2).
    #[must_use]
    pub fn reason_not_to_send(&self, sending: SendingMode) -> Option<String> {
        if self.facts.report.is_some() {
            return Some("a report is not answered (RFC 8098 §2.1)".into());
        }
        if let Some(attribute) = self.required.first() {
            return Some(format!("it wants {attribute}, which is not known here (RFC 8098 §2.2)"));
        }
        if self.to.len() > MAX_NOTIFIED {
            return Some(format!("more than {MAX_NOTIFIED} people are to be told"));
        }
        if sending == SendingMode::Manual {
            return None;
        }
        if self.facts.is_automatic() {
            return Some("mail of lists and machines is not answered unasked (RFC 3834 §2)".into());
        }
        let told = |to: &EmailAddress, path: &Address| {
            Address::parse(&to.email).is_ok_and(|to| is_same_address(&to, path))
        };
        match (self.return_paths.as_slice(), self.to.as_slice()) {
            ([Some(path)], [to]) if told(to, path) => None,
            _ => Some(
                "who is to be told is not who sent it: the owner must be asked (RFC 8098 §2.1)"
                    .into(),
            ),
        }
    }
}

/// RFC 8098 §2.1: the case of the local part counts.
fn is_same_address(one: &Address, other: &Address) -> bool {
    one.local() == other.local() && fold_domain(one.domain()) == fold_domain(other.domain())
}

fn path_address(field: &Field<'_>) -> Option<Address> {
    let path = field.without_comments();
    let path = path.strip_prefix('<').and_then(|path| path.strip_suffix('>')).unwrap_or(&path);
    Address::parse(path).ok()
}

/// RFC 8098 §2.3.
fn recipient(field: &Field<'_>) -> Option<String> {
    let said = one_line(&field.without_comments());
    let (kind, address) = said.split_once(';')?;
    let (kind, address) = (kind.trim(), address.trim());
    (!kind.is_empty() && !address.is_empty()).then(|| format!("{kind}; {address}"))
}

/// The attributes that say `required`: `attribute = importance, value, ...; ...` (RFC 8098 §2.2).
fn required_attributes(field: &Field<'_>) -> Vec<String> {
    let said = one_line(&field.without_comments());
    let parameters = said.split(';').filter_map(|parameter| parameter.split_once('='));
    let wanted = parameters.filter(|(_, value)| {
        value
            .split(',')
            .next()
            .is_some_and(|importance| importance.trim().eq_ignore_ascii_case("required"))
    });
    wanted.map(|(attribute, _)| attribute.trim().chars().take(80).collect()).collect()
}

/// A notification that the owner lets go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdnDraft {
    /// Whose it is.
    pub from: EmailAddress,
    /// Who wants to hear.
    pub to: Vec<EmailAddress>,
    pub subject: String,
    /// What people read.
    pub text: String,
    /// What programs read.
    pub disposition: DispositionReport,
    /// The original, if it goes back with it.
    pub original: Option<Vec<u8>>,
}

/// Its octets.
#[must_use]
pub fn notification(made: MdnDraft, reporter: &Reporter<'_>) -> Vec<u8> {
    report(&ReportDraft {
        from: made.from,
        to: made.to,
        subject: made.subject,
        date: reporter.now,
        message_id: reporter.message_id.to_owned(),
        text: made.text,
        kind: ReportKind::Disposition,
        status: made.disposition.write(),
        original: made.original.map_or(Original::Nothing, Original::Whole),
    })
}

/// The refusal of a message for one recipient; `own` is the address by which the sender knew the
/// recipient.
#[cfg_attr(not(test), expect(dead_code, reason = "filtering by Sieve will use it"))]
#[must_use]
pub fn rejected(
    envelope: &Envelope,
    recipient: &Recipient,
    own: &Address,
    reason: &str,
    raw: &[u8],
    email: Option<EmailId>,
    reporter: &Reporter<'_>,
) -> Option<NewAction> {
    let to = envelope.sender.as_ref()?;
    let head = head(raw);
    let status = DispositionReport {
        reporting_ua: Some(format!("{}; Restante", one_line(reporter.hostname))),
        gateway: None,
        original_recipient: recipient.original.as_ref().map(original),
        final_recipient: typed(&recipient.address),
        original_message_id: fields(head)
            .find(|field| field.is("Message-ID"))
            .map(|field| field.unfolded()),
        action: ActionMode::Automatic,
        sending: SendingMode::Automatic,
        kind: DispositionType::Deleted,
        errors: Vec::new(),
        extensions: Vec::new(),
    };
    let made = ReportDraft {
        from: EmailAddress { name: None, email: own.to_string() },
        to: vec![EmailAddress { name: None, email: to.to_string() }],
        subject: "Rejected: your message was not taken".into(),
        date: reporter.now,
        message_id: reporter.message_id.to_owned(),
        text: format!(
            "Your message was refused by {}:\n\n{reason}\n",
            without_controls(&recipient.address.to_string())
        ),
        kind: ReportKind::Disposition,
        status: status.write(),
        original: Original::Header(String::from_utf8_lossy(head).into_owned()),
    };
    Some(queued(ActionKind::Reject, to, email, reporter, &made))
}

#[cfg(test)]
mod tests;
