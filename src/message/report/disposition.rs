//! Parses and writes disposition notifications (RFC 8098 §3).

use super::{Field, MAX_VALUE_BYTES, address, groups, value};
use crate::message::line::{one_line, without_controls};
use crate::message::refs::message_ids;
use crate::model::{DeliveryState, ReturnedKind, ReturnedRecipient, ReturnedReport};

/// The most extension fields, and the most error texts, that are read.
const MAX_VALUES: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispositionReport {
    pub reporting_ua: Option<String>,
    pub gateway: Option<String>,
    /// The type, a semicolon, the address.
    pub original_recipient: Option<String>,
    /// In the same form as `original_recipient`.
    pub final_recipient: String,
    /// As the field has it, with its angle brackets if there are any.
    pub original_message_id: Option<String>,
    pub action: ActionMode,
    pub sending: SendingMode,
    pub kind: DispositionType,
    /// The texts of the Error fields.
    pub errors: Vec<String>,
    /// Fields that RFC 8098 does not define, each name once.
    pub extensions: Vec<(String, String)>,
}

/// RFC 8098 §3.2.6.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionMode {
    Manual,
    Automatic,
}

/// RFC 8098 §3.2.6.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendingMode {
    Manual,
    Automatic,
}

/// RFC 8098 §3.2.6.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispositionType {
    Deleted,
    Dispatched,
    Displayed,
    Processed,
}

impl ActionMode {
    pub const ALL: [Self; 2] = [Self::Manual, Self::Automatic];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Manual => "manual-action",
            Self::Automatic => "automatic-action",
        }
    }
}

impl SendingMode {
    pub const ALL: [Self; 2] = [Self::Manual, Self::Automatic];

    /// Returns the name in JMAP (RFC 9007 §2). `modes` finds it in any letter case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Manual => "mdn-sent-manually",
            Self::Automatic => "mdn-sent-automatically",
        }
    }

    /// Returns the name as RFC 8098 §3.2.6.1 writes it.
    fn written_name(self) -> &'static str {
        match self {
            Self::Manual => "MDN-sent-manually",
            Self::Automatic => "MDN-sent-automatically",
        }
    }
}

impl DispositionType {
    pub const ALL: [Self; 4] = [Self::Deleted, Self::Dispatched, Self::Displayed, Self::Processed];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Dispatched => "dispatched",
            Self::Displayed => "displayed",
            Self::Processed => "processed",
        }
    }
}

/// The fields that RFC 8098 §3.1 defines, except Error.
const DEFINED_FIELDS: [&str; 6] = [
    "Reporting-UA",
    "MDN-Gateway",
    "Original-Recipient",
    "Final-Recipient",
    "Original-Message-ID",
    "Disposition",
];

/// Whether a field of this name can be an extension (RFC 8098 §3.3): the name is not a defined one,
/// and fits with `: ` into a line of 78 characters (RFC 5322 §2.1.1).
#[must_use]
pub fn is_extension(name: &str) -> bool {
    let is_name = (1..=76).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    is_name
        && !name.eq_ignore_ascii_case("Error")
        && !DEFINED_FIELDS.iter().any(|defined| defined.eq_ignore_ascii_case(name))
}

/// Parses the `message/disposition-notification` part of a report. `None` if a required field is
/// missing or has a value that RFC 8098 does not define.
pub(super) fn parse(bytes: &[u8]) -> Option<DispositionReport> {
    let group = groups(bytes).into_iter().next()?;
    let field_value = |name: &str| super::first_field(&group, name).map(Field::without_comments);
    let text =
        |name: &str| super::first_field(&group, name).and_then(|field| value(&field.unfolded()));
    let (action, sending, kind) = modes(&field_value("Disposition")?)?;
    let errors =
        group.iter().filter(|field| field.is("Error")).filter_map(|field| value(&field.unfolded()));
    let mut extensions: Vec<(String, String)> = Vec::new();
    for field in &group {
        let name = String::from_utf8_lossy(field.name).into_owned();
        let is_repeated = extensions.iter().any(|(read, _)| read.eq_ignore_ascii_case(&name));
        if extensions.len() < MAX_VALUES && is_extension(&name) && !is_repeated {
            extensions.push((name, value(&field.unfolded()).unwrap_or_default()));
        }
    }
    Some(DispositionReport {
        reporting_ua: text("Reporting-UA"),
        gateway: text("MDN-Gateway"),
        original_recipient: field_value("Original-Recipient")
            .and_then(|value| typed_address(&value)),
        final_recipient: field_value("Final-Recipient").and_then(|value| typed_address(&value))?,
        original_message_id: text("Original-Message-ID"),
        action,
        sending,
        kind,
        errors: errors.take(MAX_VALUES).collect(),
        extensions,
    })
}

/// Returns `type; address` in one form, or `None` if either is missing.
fn typed_address(text: &str) -> Option<String> {
    let (kind, address) = text.split_once(';')?;
    let (kind, address) = (value(kind)?, value(address)?);
    value(&format!("{kind}; {address}"))
}

/// Parses `action-mode/sending-mode; type/modifier,...`, in any letter case (RFC 8098 §3.2.6).
fn modes(text: &str) -> Option<(ActionMode, SendingMode, DispositionType)> {
    let (mode, kind) = text.split_once(';')?;
    let (action, sending) = mode.split_once('/')?;
    let kind = kind.split('/').next()?;
    let is = |text: &str, name: &str| text.trim().eq_ignore_ascii_case(name);
    Some((
        ActionMode::ALL.into_iter().find(|one| is(action, one.name()))?,
        SendingMode::ALL.into_iter().find(|one| is(sending, one.name()))?,
        DispositionType::ALL.into_iter().find(|one| is(kind, one.name()))?,
    ))
}

impl DispositionReport {
    /// Returns the fields in CRLF lines; each value is one line, cut to `MAX_VALUE_BYTES`.
    /// Extensions whose name `is_extension` refuses are left out.
    #[must_use]
    pub fn write(&self) -> String {
        let mut out = String::new();
        let mut field = |name: &str, text: &str| {
            // Every blank of an address counts.
            let is_address = name.ends_with("-Recipient");
            let text = if is_address { without_controls(text) } else { one_line(text) };
            let cut = text.get(..text.floor_char_boundary(MAX_VALUE_BYTES)).unwrap_or_default();
            out.push_str(&format!("{name}: {cut}\r\n"));
        };
        let modifier = if self.errors.is_empty() { "" } else { "/error" };
        let mode = format!("{}/{}", self.action.name(), self.sending.written_name());
        for (name, text) in [
            ("Reporting-UA", self.reporting_ua.as_deref()),
            ("MDN-Gateway", self.gateway.as_deref()),
            ("Original-Recipient", self.original_recipient.as_deref()),
            ("Final-Recipient", Some(self.final_recipient.as_str())),
            ("Original-Message-ID", self.original_message_id.as_deref()),
            ("Disposition", Some(&format!("{mode}; {}{modifier}", self.kind.name()))),
        ] {
            if let Some(text) = text {
                field(name, text);
            }
        }
        self.errors.iter().for_each(|error| field("Error", error));
        for (name, text) in self.extensions.iter().filter(|(name, _)| is_extension(name)) {
            field(name, text);
        }
        out
    }

    /// `original_id` is the id of the returned message; it counts if Original-Message-ID has none.
    pub(super) fn to_returned_report(&self, original_id: Option<String>) -> ReturnedReport {
        let message_id = self
            .original_message_id
            .as_deref()
            .and_then(|id| message_ids(id.as_bytes()).into_iter().next());
        let recipients = [self.original_recipient.as_deref(), Some(self.final_recipient.as_str())];
        ReturnedReport {
            kind: ReturnedKind::Disposition,
            message_id: message_id.or(original_id),
            envid: None,
            recipients: vec![ReturnedRecipient {
                addresses: recipients.into_iter().flatten().filter_map(address).collect(),
                delivered: None::<(DeliveryState, String)>,
                displayed: self.kind == DispositionType::Displayed,
            }],
        }
    }
}
