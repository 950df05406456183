//! What became of a message on its way (RFC 3464 §2): read.

use super::{Field, address, groups, value};
use crate::model::{Address, DeliveryState, ReturnedKind, ReturnedRecipient, ReturnedReport};

/// The part of a delivery status notification that programs read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryReport {
    /// Original-Envelope-Id.
    pub envid: Option<String>,
    /// One at least.
    pub recipients: Vec<DeliveryRecipient>,
}

/// A recipient of it (RFC 3464 §2.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRecipient {
    /// Original-Recipient, where it is a mail address.
    pub original: Option<Address>,
    /// Final-Recipient, likewise.
    pub last: Option<Address>,
    /// What was done.
    pub action: DeliveryAction,
    /// The enhanced status code (RFC 3463).
    pub status: [u16; 3],
    /// What a server said in SMTP.
    pub smtp: Option<String>,
}

/// What was done (RFC 3464 §2.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryAction {
    /// It could not be delivered.
    Failed,
    /// It could not yet.
    Delayed,
    Delivered,
    /// It went on to where there are no such reports.
    Relayed,
    /// It went on to several.
    Expanded,
}

impl DeliveryAction {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Failed, Self::Delayed, Self::Delivered, Self::Relayed, Self::Expanded];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Delayed => "delayed",
            Self::Delivered => "delivered",
            Self::Relayed => "relayed",
            Self::Expanded => "expanded",
        }
    }
}

/// Reads it. Nothing where no recipient can be read.
pub(super) fn read(bytes: &[u8]) -> Option<DeliveryReport> {
    let mut groups = groups(bytes).into_iter();
    let message = groups.next()?;
    let envid =
        super::named(&message, "Original-Envelope-Id").and_then(|field| value(&field.unfolded()));
    let recipients: Vec<DeliveryRecipient> = groups.filter_map(|group| recipient(&group)).collect();
    (!recipients.is_empty()).then_some(DeliveryReport { envid, recipients })
}

fn recipient(group: &[Field<'_>]) -> Option<DeliveryRecipient> {
    let said = |name: &str| super::named(group, name).map(Field::without_comments);
    let action = said("Action")?;
    let action = DeliveryAction::ALL
        .into_iter()
        .find(|one| action.trim().eq_ignore_ascii_case(one.name()))?;
    let smtp = super::named(group, "Diagnostic-Code").map(Field::unfolded);
    let smtp = smtp.as_deref().and_then(|said| said.split_once(';'));
    let smtp = smtp
        .filter(|(kind, _)| kind.trim().eq_ignore_ascii_case("smtp"))
        .and_then(|(_, text)| value(text));
    Some(DeliveryRecipient {
        original: said("Original-Recipient").and_then(|typed| address(&typed)),
        last: address(&said("Final-Recipient")?),
        action,
        status: status(&said("Status")?)?,
        smtp,
    })
}

/// RFC 3463 §2.
fn status(said: &str) -> Option<[u16; 3]> {
    let mut parts = said.split_whitespace().next()?.split('.');
    let mut next = |most: usize| {
        let part = parts.next().filter(|part| (1..=most).contains(&part.len()))?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let status = [next(1)?, next(3)?, next(3)?];
    (parts.next().is_none() && matches!(status, [2 | 4 | 5, ..])).then_some(status)
}

impl DeliveryRecipient {
    /// What it says of the delivery (RFC 8621 §7): that it is done, or will not be, with the reply
    /// that says so. All else says nothing of either.
    fn delivered(&self) -> Option<(DeliveryState, String)> {
        let (delivered, code) = match self.action {
            DeliveryAction::Delivered => (DeliveryState::Yes, 250),
            DeliveryAction::Failed => (DeliveryState::No, 550),
            DeliveryAction::Delayed | DeliveryAction::Relayed | DeliveryAction::Expanded => {
                return None;
            }
        };
        let [class, subject, detail] = self.status;
        let code = if class == 4 { 451 } else { code };
        let is_reply = |text: &&String| {
            let first = text.get(..3).unwrap_or_default();
            first.bytes().filter(u8::is_ascii_digit).count() == 3
                && !text.as_bytes().get(3).is_some_and(u8::is_ascii_digit)
        };
        let said = self.smtp.as_ref().filter(is_reply).cloned();
        let made = || {
            format!(
                "{code} {class}.{subject}.{detail} {}",
                self.smtp.as_deref().unwrap_or(self.action.name())
            )
        };
        Some((delivered, said.unwrap_or_else(made)))
    }
}

impl DeliveryReport {
    /// What it says to the submission that it is about.
    pub(super) fn to_returned_report(&self, original_id: Option<String>) -> ReturnedReport {
        let recipients = self.recipients.iter().map(|recipient| ReturnedRecipient {
            addresses: recipient.original.iter().chain(&recipient.last).cloned().collect(),
            delivered: recipient.delivered(),
            displayed: false,
        });
        ReturnedReport {
            kind: ReturnedKind::Delivery,
            message_id: original_id,
            envid: self.envid.clone(),
            recipients: recipients.collect(),
        }
    }
}
