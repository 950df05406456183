//! The parts that delivery and disposition reports share (RFC 3464, RFC 8098).

use super::kind::{NewAction, NoticeAction};
use crate::message::compose::{ReportDraft, report};
use crate::message::header;
use crate::message::line::{one_line, without_controls};
use crate::model::{ActionKind, Address, EmailId, OriginalRecipient, UtcMillis};

/// The most bytes of the original message's header that a report returns.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Which server reports, with which Message-ID and when.
#[derive(Debug, Clone, Copy)]
pub struct Reporter<'a> {
    pub hostname: &'a str,
    /// Without angle brackets.
    pub message_id: &'a str,
    pub now: UtcMillis,
}

/// Returns the header of the original message, with the empty line, cut to `MAX_HEADER_BYTES`. What
/// stands before the header (`header::start`) is left out.
pub(super) fn returned_header(raw: &[u8]) -> &[u8] {
    let raw = header::trimmed(raw);
    raw.get(..header::body_offset(raw).min(MAX_HEADER_BYTES)).unwrap_or_default()
}

/// The value of Original-Recipient (RFC 3464 §2.3.1).
pub(super) fn original_recipient(original: &OriginalRecipient) -> String {
    format!("{}; {}", one_line(&original.kind), without_controls(&original.address))
}

/// The value of Final-Recipient (RFC 3464 §2.3.2, RFC 6533 §3).
#[must_use]
pub fn address_with_type(address: &Address) -> String {
    let address = without_controls(&address.to_string());
    let kind = if address.is_ascii() { "rfc822" } else { "utf-8" };
    format!("{kind}; {address}")
}

/// Composes a report, and returns the action that sends it to `to`. `email` is the email that it is
/// about.
pub(super) fn report_action(
    kind: ActionKind,
    to: &Address,
    email: Option<EmailId>,
    reporter: &Reporter<'_>,
    draft: &ReportDraft,
) -> NewAction {
    let notice = NoticeAction {
        kind,
        recipient: to.clone(),
        email,
        message_id: reporter.message_id.to_owned(),
        message: report(draft),
        about: None,
    };
    notice.into_action(reporter.now)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn report_names_recipients_unchanged(local in "[ -~]{1,60}", kind in "[a-z0-9]{1,8}") {
            let address = Address::from_parts(local, "example.org");
            let value = address_with_type(&address);
            let parsed = value.strip_prefix("rfc822; ").map(Address::parse);
            prop_assert_eq!(parsed, Some(Ok(address.clone())));
            let first = OriginalRecipient { kind: kind.clone(), address: address.to_string() };
            prop_assert_eq!(original_recipient(&first), format!("{kind}; {address}"));
        }
    }
}
