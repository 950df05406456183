//! Message disposition notifications (RFC 8098): they report what a recipient, or a program for the
//! recipient, did with a message.
//!
//! They are sent from `<>`, and never to `<>`.

use super::kind::NewAction;
use super::report::{
    Reporter, address_with_type, original_recipient, report_action, returned_header,
};
use crate::message::auto::AutoReplyFacts;
use crate::message::compose::{Original, ReportDraft, ReportKind, report};
use crate::message::header::{Field, fields};
use crate::message::line::{one_line, without_controls};
use crate::message::parse::addresses;
use crate::message::report::{ActionMode, DispositionReport, DispositionType, SendingMode};
use crate::model::address::fold_domain;
use crate::model::{ActionKind, Address, EmailAddress, EmailId, Envelope, Recipient};

/// A request that names more addresses than this is not answered.
const MAX_NOTIFIED: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdnRequest {
    /// Disposition-Notification-To: at least one address, without duplicates; at most one more than
    /// `MAX_NOTIFIED`, which shows that there are too many.
    pub to: Vec<EmailAddress>,
    /// Original-Recipient: type, semicolon, address; `None` if it is missing or has another form.
    pub original_recipient: Option<String>,
    /// With angle brackets.
    pub message_id: Option<String>,
    /// The decoded subject.
    pub subject: Option<String>,
    /// Every Return-Path; `None` for `<>` and for one that cannot be parsed.
    return_paths: Vec<Option<Address>>,
    /// The attributes of Disposition-Notification-Options that must be understood. None of them is
    /// understood here.
    required: Vec<String>,
    facts: AutoReplyFacts,
}

impl MdnRequest {
    /// Reads the request from the header of a message with its trace fields. `None` if the message
    /// asks for nothing, or names no valid address.
    #[must_use]
    pub fn of(raw: &[u8]) -> Option<Self> {
        let all = |name: &'static str| fields(raw).filter(move |field| field.is(name));
        let mut to: Vec<EmailAddress> = Vec::new();
        let mut addresses_seen: Vec<Address> = Vec::new();
        for person in all("Disposition-Notification-To")
            .flat_map(|field| addresses(field.readable().as_bytes()))
        {
            let Ok(address) = Address::parse(&person.email) else { continue };
            if addresses_seen.len() <= MAX_NOTIFIED
                && !addresses_seen.iter().any(|seen| is_same_address(seen, &address))
            {
                addresses_seen.push(address);
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
                .and_then(|field| parse_recipient(&field)),
            message_id: facts.message_id.as_ref().map(|id| format!("<{id}>")),
            subject: facts.subject.clone(),
            return_paths: all("Return-Path").map(|field| path_address(&field)).collect(),
            required: all("Disposition-Notification-Options")
                .flat_map(|field| required_attributes(&field))
                .collect(),
            facts,
        })
    }

    /// The recipients in the header.
    #[must_use]
    pub fn destinations(&self) -> &[Address] {
        &self.facts.destinations
    }

    /// Says why the request must not be answered (RFC 8098 §2.1, §2.2); `None` if it may be.
    /// `sending` says whether the owner was asked (`Manual`) or not (`Automatic`).
    ///
    /// A report is never answered, nor a request that requires an attribute or names more than
    /// `MAX_NOTIFIED` addresses. Without asking the owner, only a request for one address that is
    /// the envelope sender is answered, and none in mail of lists and machines (RFC 3834 §2).
    #[must_use]
    pub fn reason_not_to_send(&self, sending: SendingMode) -> Option<String> {
        if self.facts.report.is_some() {
            return Some("a report is not answered (RFC 8098 §2.1)".into());
        }
        if let Some(attribute) = self.required.first() {
            return Some(format!("it wants {attribute}, which is not known here (RFC 8098 §2.2)"));
        }
        if self.to.len() > MAX_NOTIFIED {
            return Some(format!("more than {MAX_NOTIFIED} people are to be notified"));
        }
        if sending == SendingMode::Manual {
            return None;
        }
        if self.facts.is_automatic() {
            return Some("mail of lists and machines is not answered unasked (RFC 3834 §2)".into());
        }
        let is_sender = |to: &EmailAddress, path: &Address| {
            Address::parse(&to.email).is_ok_and(|to| is_same_address(&to, path))
        };
        match (self.return_paths.as_slice(), self.to.as_slice()) {
            ([Some(path)], [to]) if is_sender(to, path) => None,
            _ => Some(
                "not only the envelope sender would be notified: the owner must be asked (RFC 8098 \
                 §2.1)"
                    .into(),
            ),
        }
    }
}

/// The case of the local part counts (RFC 8098 §2.1).
fn is_same_address(one: &Address, other: &Address) -> bool {
    one.local() == other.local() && fold_domain(one.domain()) == fold_domain(other.domain())
}

/// The address of a Return-Path; `None` for `<>` and for one that cannot be parsed.
fn path_address(field: &Field<'_>) -> Option<Address> {
    let path = field.without_comments();
    let path = path.strip_prefix('<').and_then(|path| path.strip_suffix('>')).unwrap_or(&path);
    Address::parse(path).ok()
}

/// Parses Original-Recipient (RFC 8098 §2.3).
fn parse_recipient(field: &Field<'_>) -> Option<String> {
    let value = one_line(&field.without_comments());
    let (kind, address) = value.split_once(';')?;
    let (kind, address) = (kind.trim(), address.trim());
    (!kind.is_empty() && !address.is_empty()).then(|| format!("{kind}; {address}"))
}

/// The names of the attributes that say `required` (RFC 8098 §2.2), each cut to 80 characters.
fn required_attributes(field: &Field<'_>) -> Vec<String> {
    let options = one_line(&field.without_comments());
    let parameters = options.split(';').filter_map(|parameter| parameter.split_once('='));
    let required = parameters.filter(|(_, value)| {
        value
            .split(',')
            .next()
            .is_some_and(|importance| importance.trim().eq_ignore_ascii_case("required"))
    });
    required.map(|(attribute, _)| attribute.trim().chars().take(80).collect()).collect()
}

/// A notification that a client of the owner sends (RFC 9007).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdnDraft {
    pub from: EmailAddress,
    pub to: Vec<EmailAddress>,
    pub subject: String,
    pub text: String,
    pub disposition: DispositionReport,
    /// The whole original message, if it is returned.
    pub original: Option<Vec<u8>>,
}

/// Composes the message of a notification. Of `reporter`, the id and the time are used, and not the
/// host: `draft.disposition` names the program that reports.
#[must_use]
pub fn compose_notification(draft: MdnDraft, reporter: &Reporter<'_>) -> Vec<u8> {
    report(&ReportDraft {
        from: draft.from,
        to: draft.to,
        subject: draft.subject,
        date: reporter.now,
        message_id: reporter.message_id.to_owned(),
        text: draft.text,
        kind: ReportKind::Disposition,
        status: draft.disposition.write(),
        original: draft.original.map_or(Original::Nothing, Original::Whole),
    })
}

/// Composes the notification that Sieve's `reject` sends for a message that is accepted (RFC 5429
/// §2.2; `deliver::refuse` says when); `None` if there is no envelope sender. `own` is its From.
#[must_use]
pub fn compose_rejection(
    envelope: &Envelope,
    recipient: &Recipient,
    own: &Address,
    reason: &str,
    raw: &[u8],
    email: Option<EmailId>,
    reporter: &Reporter<'_>,
) -> Option<NewAction> {
    let to = envelope.sender.as_ref()?;
    let header = returned_header(raw);
    let status = DispositionReport {
        reporting_ua: Some(format!("{}; Restante", one_line(reporter.hostname))),
        gateway: None,
        original_recipient: recipient.original.as_ref().map(original_recipient),
        final_recipient: address_with_type(&recipient.address),
        original_message_id: fields(header)
            .find(|field| field.is("Message-ID"))
            .map(|field| field.unfolded()),
        action: ActionMode::Automatic,
        sending: SendingMode::Automatic,
        kind: DispositionType::Deleted,
        errors: Vec::new(),
        extensions: Vec::new(),
    };
    let draft = ReportDraft {
        from: EmailAddress { name: None, email: own.to_string() },
        to: vec![EmailAddress { name: None, email: to.to_string() }],
        subject: "Rejected: your message was not taken".into(),
        date: reporter.now,
        message_id: reporter.message_id.to_owned(),
        text: format!(
            "Your message was refused by a mail filter of {}:\n\n{reason}\n",
            without_controls(&recipient.address.to_string())
        ),
        kind: ReportKind::Disposition,
        status: status.write(),
        original: Original::Header(String::from_utf8_lossy(header).into_owned()),
    };
    Some(report_action(ActionKind::Reject, to, email, reporter, &draft))
}

#[cfg(test)]
mod tests;
