//! Parses delivery status notifications (RFC 3464 §2).

use super::{Field, address, groups, value};
use crate::model::{Address, DeliveryState, ReturnedKind, ReturnedRecipient, ReturnedReport};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryReport {
    pub envid: Option<String>,
    /// At least one.
    pub recipients: Vec<DeliveryRecipient>,
}

/// RFC 3464 §2.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRecipient {
    /// Original-Recipient, if it is a mail address.
    pub original: Option<Address>,
    /// Final-Recipient, if it is a mail address.
    pub last: Option<Address>,
    pub action: DeliveryAction,
    /// The enhanced status code (RFC 3463): the class (2, 4 or 5), the subject, the detail.
    pub status: [u16; 3],
    /// The text of a Diagnostic-Code of type `smtp`, usually the reply of a server.
    pub smtp: Option<String>,
}

/// RFC 3464 §2.3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryAction {
    /// Delivery failed for good.
    Failed,
    Delayed,
    Delivered,
    /// The message went to a system that sends no such reports.
    Relayed,
    /// The message went to several addresses.
    Expanded,
}

impl DeliveryAction {
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

/// Parses the `message/delivery-status` part of a report. Recipients without a Final-Recipient, or
/// without a valid Action and Status, are left out; `None` if no recipient is left.
pub(super) fn parse(bytes: &[u8]) -> Option<DeliveryReport> {
    let mut groups = groups(bytes).into_iter();
    let message = groups.next()?;
    let envid = super::first_field(&message, "Original-Envelope-Id")
        .and_then(|field| value(&field.unfolded()));
    let recipients: Vec<DeliveryRecipient> = groups.filter_map(|group| recipient(&group)).collect();
    (!recipients.is_empty()).then_some(DeliveryReport { envid, recipients })
}

fn recipient(group: &[Field<'_>]) -> Option<DeliveryRecipient> {
    let field_value = |name: &str| super::first_field(group, name).map(Field::without_comments);
    let action = field_value("Action")?;
    let action = DeliveryAction::ALL
        .into_iter()
        .find(|one| action.trim().eq_ignore_ascii_case(one.name()))?;
    let smtp = super::first_field(group, "Diagnostic-Code").map(Field::unfolded);
    let smtp = smtp.as_deref().and_then(|value| value.split_once(';'));
    let smtp = smtp
        .filter(|(kind, _)| kind.trim().eq_ignore_ascii_case("smtp"))
        .and_then(|(_, text)| value(text));
    Some(DeliveryRecipient {
        original: field_value("Original-Recipient").and_then(|value| address(&value)),
        last: address(&field_value("Final-Recipient")?),
        action,
        status: status(&field_value("Status")?)?,
        smtp,
    })
}

fn status(value: &str) -> Option<[u16; 3]> {
    let mut parts = value.split_whitespace().next()?.split('.');
    let mut next = |max_digits: usize| {
        let part = parts.next().filter(|part| (1..=max_digits).contains(&part.len()))?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let status = [next(1)?, next(3)?, next(3)?];
    (parts.next().is_none() && matches!(status, [2 | 4 | 5, ..])).then_some(status)
}

impl DeliveryRecipient {
    /// Returns whether the message was delivered or failed, with the SMTP reply that says so (RFC
    /// 8621 §7). If `smtp` does not begin with the three digits of a reply, one is made of the
    /// status: 451 if that is of class 4, else 250 or 550. `None` for other actions.
    fn delivery_state(&self) -> Option<(DeliveryState, String)> {
        let (state, code) = match self.action {
            DeliveryAction::Delivered => (DeliveryState::Yes, 250),
            DeliveryAction::Failed => (DeliveryState::No, 550),
            DeliveryAction::Delayed | DeliveryAction::Relayed | DeliveryAction::Expanded => {
                return None;
            }
        };
        let [class, subject, detail] = self.status;
        let code = if class == 4 { 451 } else { code };
        // Exactly three digits begin a reply.
        let is_reply = |text: &&String| {
            let first = text.get(..3).unwrap_or_default();
            first.bytes().filter(u8::is_ascii_digit).count() == 3
                && !text.as_bytes().get(3).is_some_and(u8::is_ascii_digit)
        };
        let reply = self.smtp.as_ref().filter(is_reply).cloned();
        let made_reply = || {
            format!(
                "{code} {class}.{subject}.{detail} {}",
                self.smtp.as_deref().unwrap_or(self.action.name())
            )
        };
        Some((state, reply.unwrap_or_else(made_reply)))
    }
}

impl DeliveryReport {
    pub(super) fn to_returned_report(&self, original_id: Option<String>) -> ReturnedReport {
        let recipients = self.recipients.iter().map(|recipient| ReturnedRecipient {
            addresses: recipient.original.iter().chain(&recipient.last).cloned().collect(),
            delivered: recipient.delivery_state(),
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
