//! What reports have in common (RFC 3464, RFC 8098): who reports, how recipients are named, how
//! much of the original comes back, and that each is queued from `<>` to one person.

use super::kind::{NewAction, NoticeAction};
use crate::message::compose::{ReportDraft, report};
use crate::message::header;
use crate::message::line::{one_line, without_controls};
use crate::model::{ActionKind, Address, EmailId, OriginalRecipient, UtcMillis};

/// Octets of the original's header that are returned.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Who reports, when, and under which Message-ID (without angle brackets).
#[derive(Debug, Clone, Copy)]
pub struct Reporter<'a> {
    pub hostname: &'a str,
    /// The Message-ID of the report.
    pub message_id: &'a str,
    pub now: UtcMillis,
}

/// As much of the original's header as is returned.
pub(super) fn head(raw: &[u8]) -> &[u8] {
    let raw = header::trimmed(raw);
    raw.get(..header::body_offset(raw).min(MAX_HEADER_BYTES)).unwrap_or_default()
}

/// A recipient by the address that the sender wrote: type and address (RFC 3464 §2.3.1).
pub(super) fn original(original: &OriginalRecipient) -> String {
    format!("{}; {}", one_line(&original.kind), without_controls(&original.address))
}

/// A recipient by the address that we have, with its type (RFC 3464 §2.3.2, RFC 6533 §3).
#[must_use]
pub fn typed(address: &Address) -> String {
    let address = without_controls(&address.to_string());
    let kind = if address.is_ascii() { "rfc822" } else { "utf-8" };
    format!("{kind}; {address}")
}

/// A report on its way.
pub(super) fn queued(
    kind: ActionKind,
    to: &Address,
    email: Option<EmailId>,
    reporter: &Reporter<'_>,
    made: &ReportDraft,
) -> NewAction {
    let notice = NoticeAction {
        kind,
        recipient: to.clone(),
        email,
        message_id: reporter.message_id.to_owned(),
        message: report(made),
        about: None,
    };
    notice.queue(reporter.now)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_recipient_is_named_unchanged(local in "[ -~]{1,60}", kind in "[a-z0-9]{1,8}") {
            let address = Address::from_parts(local, "example.org");
            let named = typed(&address);
            prop_assert_eq!(named.strip_prefix("rfc822; ").map(Address::parse), Some(Ok(address.clone())));
            let first = OriginalRecipient { kind: kind.clone(), address: address.to_string() };
            prop_assert_eq!(original(&first), format!("{kind}; {address}"));
        }
    }
}
