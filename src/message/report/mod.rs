//! Parses reports about a message (RFC 6522, RFC 6533): about its delivery (RFC 3464), or about
//! what a recipient did with it (RFC 8098).
//!
//! - Anybody can write a report. Lists and texts are bounded, and values are one line without
//!   controls.
//! - A disposition that lacks a required field, or has an unknown keyword in one, is no report. A
//!   recipient of a delivery report is left out for such a fault, and a delivery report that has no
//!   recipient left is no report.

mod delivery;
mod disposition;

pub use delivery::DeliveryReport;
pub use disposition::{ActionMode, DispositionReport, DispositionType, SendingMode, is_extension};

use std::borrow::Cow;

use super::decode::Decoder;
use super::header::{Field, Header, fields, first};
use super::line::one_line;
use super::parse::{Message, Part};
use super::refs::message_ids;
use crate::model::{Address, ReturnedReport, limits};

const MAX_TEXT_BYTES: usize = 64 * 1024;
/// The longest value on one line. The name of its field fits into the line too (RFC 5322 §2.1.1).
pub const MAX_VALUE_BYTES: usize = 900;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The text for people, at most 64 KiB.
    pub text: Option<String>,
    /// Whether the whole original was returned, and not only its header.
    pub has_original: bool,
    /// The Message-ID of the returned original, without angle brackets.
    pub original_id: Option<String>,
    pub content: ReportContent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportContent {
    /// About the delivery of a message (RFC 3464).
    Delivery(DeliveryReport),
    /// About what a recipient did with a message (RFC 8098).
    Disposition(DispositionReport),
}

/// Whether Content-Type is `multipart/report`. Whether it is a report, `report` finds out.
#[must_use]
pub fn claims_to_be_report(header: &Header<'_>) -> bool {
    let content_type =
        header.first("Content-Type").map(|field| field.without_comments().to_ascii_lowercase());
    content_type.is_some_and(|value| {
        value.split(';').next().is_some_and(|kind| kind.trim() == "multipart/report")
    })
}

/// Parses a message as a report. `None` if it is none, as the module says.
#[must_use]
pub fn report(message: &Message<'_>) -> Option<Report> {
    if !claims_to_be_report(message.header()) {
        return None;
    }
    let structure = message.structure();
    let root = &structure.root;
    if !root.is_multipart || root.media_type != "multipart/report" {
        return None;
    }
    let content = |part: &Part<'_>, max: usize| content(message, part, max);
    let parsed = root.children.iter().find_map(|part| match part.media_type.as_str() {
        "message/delivery-status" | "message/global-delivery-status" => {
            delivery::parse(&content(part, limits::MAX_REPORT_STATUS_BYTES))
                .map(ReportContent::Delivery)
        }
        "message/disposition-notification" | "message/global-disposition-notification" => {
            disposition::parse(&content(part, limits::MAX_REPORT_STATUS_BYTES))
                .map(ReportContent::Disposition)
        }
        _ => None,
    })?;
    let original = root.children.iter().skip(1).find_map(|part| match part.media_type.as_str() {
        "message/rfc822" | "message/global" => Some((part, true)),
        "text/rfc822-headers" | "message/rfc822-headers" | "message/global-headers" => {
            Some((part, false))
        }
        _ => None,
    });
    let header = original.map(|(part, _)| content(part, limits::MAX_REPORT_ORIGINAL_BYTES));
    let id = header.as_deref().and_then(|header| first(header, "Message-ID"));
    Some(Report {
        text: root.children.first().and_then(|part| text(message, &structure.text, part)),
        has_original: original.is_some_and(|(_, whole)| whole),
        original_id: id.and_then(|field| message_ids(field.value).into_iter().next()),
        content: parsed,
    })
}

impl Report {
    /// Returns what the report tells the submission of its original message (RFC 8621 §7).
    #[must_use]
    pub fn to_returned_report(&self) -> ReturnedReport {
        let id = self.original_id.clone();
        match &self.content {
            ReportContent::Delivery(delivery) => delivery.to_returned_report(id),
            ReportContent::Disposition(disposition) => disposition.to_returned_report(id),
        }
    }
}

/// Decodes the first `max` encoded bytes of a part.
fn content(message: &Message<'_>, part: &Part<'_>, max: usize) -> Vec<u8> {
    let offset = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
    let parts = message.parts();
    let offsets = usize::try_from(part.number).ok().and_then(|number| parts.get(number));
    let Some(offsets) = offsets else { return Vec::new() };
    let bytes = message.raw().get(offset(offsets.body)..offset(offsets.end)).unwrap_or_default();
    let (mut decoder, mut out) = (Decoder::new(offsets.encoding), Vec::new());
    decoder.feed(bytes.get(..max).unwrap_or(bytes), &mut out);
    decoder.finish(&mut out);
    out
}

/// Returns the text for people in a part: its plain text, or else the text of its HTML. The HTML
/// counts only if the text of the message begins with it: `shown` are the numbers of the parts that
/// are this text.
fn text(message: &Message<'_>, shown: &[u32], part: &Part<'_>) -> Option<String> {
    let descendants = part.flat();
    if let Some(plain) = descendants.iter().find(|part| part.media_type == "text/plain") {
        return message.body_value(plain.number, MAX_TEXT_BYTES).map(|body| body.value);
    }
    let is_shown =
        shown.first().is_some_and(|first| descendants.iter().any(|part| part.number == *first));
    let text = message.texts(MAX_TEXT_BYTES).into_iter().next().filter(|_| is_shown);
    text.map(Cow::into_owned)
}

/// The groups of fields, which empty lines separate (RFC 3464 §2.1), and the first
/// `limits::MAX_REPORT_GROUP_FIELDS` of each.
fn groups(bytes: &[u8]) -> Vec<Vec<Field<'_>>> {
    let (mut groups, mut rest, mut start) = (Vec::new(), bytes, bytes);
    loop {
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at.saturating_add(1));
        let (line, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        if line.trim_ascii().is_empty() {
            let group = start.get(..start.len().saturating_sub(rest.len())).unwrap_or_default();
            let found: Vec<Field<'_>> =
                fields(group).take(limits::MAX_REPORT_GROUP_FIELDS).collect();
            if !found.is_empty() {
                groups.push(found);
            }
            start = after;
        }
        // One group for the message, and one for each recipient.
        if rest.is_empty() || groups.len() > limits::MAX_RECIPIENTS {
            return groups;
        }
        rest = after;
    }
}

fn first_field<'g, 'a>(group: &'g [Field<'a>], name: &str) -> Option<&'g Field<'a>> {
    group.iter().find(|field| field.is(name))
}

/// Returns a value on one line, cut to `MAX_VALUE_BYTES`; `None` if it is empty.
fn value(text: &str) -> Option<String> {
    let line = one_line(text);
    let cut = line.get(..line.floor_char_boundary(MAX_VALUE_BYTES)).unwrap_or_default().trim_end();
    (!cut.is_empty()).then(|| cut.to_owned())
}

/// Returns the address in `type; address`, with or without angle brackets, if the type is one of
/// mail (RFC 3464 §2.3.1, RFC 6533 §3) and the address is valid.
#[must_use]
pub fn address(text: &str) -> Option<Address> {
    let (kind, address) = text.split_once(';')?;
    let address = address.trim();
    let address =
        address.strip_prefix('<').and_then(|inner| inner.strip_suffix('>')).unwrap_or(address);
    match kind.trim().to_ascii_lowercase().as_str() {
        "rfc822" => Address::parse(address).ok(),
        "utf-8" => Address::parse(&unitext(address)?).ok(),
        _ => None,
    }
}

/// Decodes `\x{3A9}` (RFC 6533 §3, utf-8-addr-unitext). `None` if such an escape is invalid.
fn unitext(text: &str) -> Option<String> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once("\\x{") {
        let (digits, behind) = after.split_once('}')?;
        let number = (digits.len() <= 6).then(|| u32::from_str_radix(digits, 16).ok()).flatten()?;
        out.push_str(before);
        out.push(char::from_u32(number)?);
        rest = behind;
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests;
