//! What a recipient, or a program in the recipient's place, did with a message (RFC 8098 §3): read,
//! and written.

use super::{Field, MAX_VALUE_BYTES, address, groups, value};
use crate::message::line::{one_line, without_controls};
use crate::message::refs::message_ids;
use crate::model::{DeliveryState, ReturnedKind, ReturnedRecipient, ReturnedReport};

/// Extension fields, and texts of errors, that are kept.
const MAX_KEPT_VALUES: usize = 50;

/// The part of a disposition notification that programs read (RFC 8098 §3.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispositionReport {
    /// Reporting-UA.
    pub reporting_ua: Option<String>,
    /// MDN-Gateway.
    pub gateway: Option<String>,
    /// Original-Recipient: type, semicolon, address.
    pub original_recipient: Option<String>,
    /// Final-Recipient, likewise.
    pub final_recipient: String,
    /// Original-Message-ID, in its angle brackets.
    pub original_message_id: Option<String>,
    pub action: ActionMode,
    /// Who said that it be told.
    pub sending: SendingMode,
    /// What was done.
    pub kind: DispositionType,
    /// Error, one text a field; they are told with the modifier `error`.
    pub errors: Vec<String>,
    /// Fields that RFC 8098 does not define, each name once.
    pub extensions: Vec<(String, String)>,
}

/// Who acted (RFC 8098 §3.2.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionMode {
    /// The user did it.
    Manual,
    /// It was done without the owner.
    Automatic,
}

/// Who said that it be told (RFC 8098 §3.2.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendingMode {
    /// The user allowed this one.
    Manual,
    /// The owner was not asked.
    Automatic,
}

/// What was done (RFC 8098 §3.2.6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispositionType {
    /// Deleted; whether it was seen is not said.
    Deleted,
    /// Sent somewhere else.
    Dispatched,
    /// Shown to someone who reads the recipient's mail.
    Displayed,
    /// Dealt with in some manner without being shown.
    Processed,
}

impl ActionMode {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Manual, Self::Automatic];

    /// Its name, in lower case (RFC 9007 §2).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Manual => "manual-action",
            Self::Automatic => "automatic-action",
        }
    }
}

impl SendingMode {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Manual, Self::Automatic];

    /// Its name, in lower case (RFC 9007 §2).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Manual => "mdn-sent-manually",
            Self::Automatic => "mdn-sent-automatically",
        }
    }

    fn written(self) -> &'static str {
        match self {
            Self::Manual => "MDN-sent-manually",
            Self::Automatic => "MDN-sent-automatically",
        }
    }
}

impl DispositionType {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Deleted, Self::Dispatched, Self::Displayed, Self::Processed];

    /// Its name, in lower case (RFC 9007 §2).
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

/// The fields that RFC 8098 §3.1 defines, but for the errors.
const DEFINED: [&str; 6] = [
    "Reporting-UA",
    "MDN-Gateway",
    "Original-Recipient",
    "Final-Recipient",
    "Original-Message-ID",
    "Disposition",
];

/// Whether a field of that name can be an extension (RFC 8098 §3.3): a name of a field (RFC 5322
/// §3.6.8) that it does not define.
#[must_use]
pub fn is_extension(name: &str) -> bool {
    let is_name = (1..=76).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    is_name
        && !name.eq_ignore_ascii_case("Error")
        && !DEFINED.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Reads it. Nothing where a field that must be there is not, or says what RFC 8098 does not have.
pub(super) fn read(bytes: &[u8]) -> Option<DispositionReport> {
    let group = groups(bytes).into_iter().next()?;
    let said = |name: &str| super::named(&group, name).map(Field::without_comments);
    let text = |name: &str| super::named(&group, name).and_then(|field| value(&field.unfolded()));
    let (action, sending, kind) = modes(&said("Disposition")?)?;
    let errors =
        group.iter().filter(|field| field.is("Error")).filter_map(|field| value(&field.unfolded()));
    let mut extensions: Vec<(String, String)> = Vec::new();
    for field in &group {
        let name = String::from_utf8_lossy(field.name).into_owned();
        let is_known = extensions.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name));
        if extensions.len() < MAX_KEPT_VALUES && is_extension(&name) && !is_known {
            extensions.push((name, value(&field.unfolded()).unwrap_or_default()));
        }
    }
    Some(DispositionReport {
        reporting_ua: text("Reporting-UA"),
        gateway: text("MDN-Gateway"),
        original_recipient: said("Original-Recipient").and_then(|said| typed(&said)),
        final_recipient: said("Final-Recipient").and_then(|said| typed(&said))?,
        original_message_id: text("Original-Message-ID"),
        action,
        sending,
        kind,
        errors: errors.take(MAX_KEPT_VALUES).collect(),
        extensions,
    })
}

/// `type; address`, with one space between them.
fn typed(said: &str) -> Option<String> {
    let (kind, address) = said.split_once(';')?;
    let (kind, address) = (value(kind)?, value(address)?);
    value(&format!("{kind}; {address}"))
}

/// `action-mode/sending-mode; type/modifier,...`, in any case (RFC 8098 §3.2.6).
fn modes(said: &str) -> Option<(ActionMode, SendingMode, DispositionType)> {
    let (mode, kind) = said.split_once(';')?;
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
    /// The fields as they are written, CRLF lines; each value is one line.
    #[must_use]
    pub fn write(&self) -> String {
        let mut out = String::new();
        let mut field = |name: &str, text: &str| {
            // In an address every blank counts.
            let is_address = name.ends_with("-Recipient");
            let text = if is_address { without_controls(text) } else { one_line(text) };
            let kept = text.get(..text.floor_char_boundary(MAX_VALUE_BYTES)).unwrap_or_default();
            out.push_str(&format!("{name}: {kept}\r\n"));
        };
        let modifier = if self.errors.is_empty() { "" } else { "/error" };
        let mode = format!("{}/{}", self.action.name(), self.sending.written());
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

    /// What it says to the submission that it is about.
    pub(super) fn to_returned_report(&self, original_id: Option<String>) -> ReturnedReport {
        let said = self
            .original_message_id
            .as_deref()
            .and_then(|id| message_ids(id.as_bytes()).into_iter().next());
        let typed = [self.original_recipient.as_deref(), Some(self.final_recipient.as_str())];
        ReturnedReport {
            kind: ReturnedKind::Disposition,
            message_id: said.or(original_id),
            envid: None,
            recipients: vec![ReturnedRecipient {
                addresses: typed.into_iter().flatten().filter_map(address).collect(),
                delivered: None::<(DeliveryState, String)>,
                displayed: self.kind == DispositionType::Displayed,
            }],
        }
    }
}
