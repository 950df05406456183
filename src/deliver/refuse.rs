//! Refuses a message for one recipient, as a script says (RFC 5429).
//!
//! - In the protocol, if nothing else became of the message and the protocol can carry the reason.
//! - Otherwise by a report to the sender. If none can be sent and nothing else became of the
//!   message, it is refused in the protocol with what can be carried of the reason, so that it is
//!   never lost without a word.

use super::job::ScriptWrites;
use super::scripts::Planner;
use crate::outbox::Reporter;
use crate::outbox::dsn::compose_rejected;
use crate::outbox::mdn::compose_rejection;

/// The longest text of a refusal in the protocol. The row of the delivery keeps it.
const MAX_REFUSAL_BYTES: usize = 2000;
/// The longest line of it. A line of a reply has at most 512 bytes (RFC 5321 §4.5.3.1.5).
const MAX_REFUSAL_LINE_BYTES: usize = 400;
const UNREADABLE_REASON: &str = "the recipient refuses this message";

impl Planner<'_> {
    /// A report is written for a person by `reject`, and for servers by `ereject` (RFC 5429 §2.1,
    /// §2.2).
    pub(super) fn reject(&self, in_protocol: bool, reason: &str, writes: &mut ScriptWrites) {
        let is_first = self.emails.is_empty() && !writes.has_redirect();
        if is_first {
            let exact = exact_text(reason);
            if exact.is_some() || in_protocol {
                writes.refusal = exact.or_else(|| Some(shortened_text(reason)));
                return;
            }
        }
        let Err(why) = self.report_refusal(in_protocol, reason, writes) else { return };
        let account = self.owner.target.account;
        tracing::info!(%account, why, "no report that a script refused the message");
        if is_first {
            writes.refusal = Some(shortened_text(reason));
        }
    }

    /// Plans a report to the sender. The error says why there can be none.
    fn report_refusal(
        &self,
        in_protocol: bool,
        reason: &str,
        writes: &mut ScriptWrites,
    ) -> Result<(), String> {
        let (context, recipient) = (self.context, self.owner.recipient);
        let envelope = context.envelope;
        let Some(sender) = &envelope.sender else {
            return Err("the message has no sender".into());
        };
        if let Some(why) = &envelope.forged {
            return Err(format!("the sender is forged: {why}"));
        }
        if !self.charge(sender, writes) {
            return Err("too many in an hour".into());
        }
        let id = self.own_id('j', writes);
        let hostname = &context.settings.hostname;
        let reporter = Reporter { hostname, message_id: &id, now: context.now };
        let raw = context.header.raw();
        let report = if in_protocol {
            compose_rejected(envelope, recipient, reason, raw, None, &reporter)
        } else {
            let own = &recipient.address;
            compose_rejection(envelope, recipient, own, reason, raw, None, &reporter)
        };
        writes.actions.push(report.ok_or("the sender wants none")?);
        Ok(())
    }
}

/// Returns a reason as lines of ASCII; `None` if the protocol cannot carry it as it is.
fn exact_text(reason: &str) -> Option<String> {
    let lines: Vec<&str> = reason.lines().map(str::trim_end).collect();
    let text = lines.join("\n");
    let text = text.trim_matches('\n');
    let is_short = lines.iter().all(|line| line.len() <= MAX_REFUSAL_LINE_BYTES);
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n'));
    let fits = is_short && is_plain && !text.trim().is_empty() && text.len() <= MAX_REFUSAL_BYTES;
    fits.then(|| text.to_owned())
}

/// Returns what the protocol can carry of a reason, in lines.
fn shortened_text(reason: &str) -> String {
    if !reason.is_ascii() {
        return UNREADABLE_REASON.to_owned();
    }
    let mut text = String::new();
    let mut line_length = 0;
    for word in reason.split(|c: char| c.is_ascii_whitespace() || c.is_ascii_control()) {
        let word = word.get(..MAX_REFUSAL_LINE_BYTES).unwrap_or(word);
        let is_break = line_length + word.len() >= MAX_REFUSAL_LINE_BYTES;
        if word.is_empty() {
            continue;
        }
        if text.len() + word.len() >= MAX_REFUSAL_BYTES {
            break;
        }
        if !text.is_empty() {
            text.push(if is_break { '\n' } else { ' ' });
        }
        text.push_str(word);
        line_length = if is_break { word.len() } else { line_length + 1 + word.len() };
    }
    if text.is_empty() { UNREADABLE_REASON.to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_sent_exactly_or_not() {
        assert_eq!(exact_text("No.\r\n\r\n250 ok \r\n").as_deref(), Some("No.\n\n250 ok"));
        for reason in ["\u{fc}", "", " \r\n", "a\tb", "a\u{1b}b"] {
            assert_eq!(exact_text(reason), None, "{reason:?}");
        }
        let line = "x".repeat(MAX_REFUSAL_LINE_BYTES);
        assert_eq!(exact_text(&line), Some(line.clone()));
        assert_eq!(exact_text(&format!("{line}x")), None);
        assert_eq!(exact_text(&[line.as_str(); 5].join("\n")), None);
    }

    #[test]
    fn shortened_reason_has_lines_within_the_limits() {
        assert_eq!(shortened_text("\u{fc}"), UNREADABLE_REASON);
        assert_eq!(shortened_text("\r\n"), UNREADABLE_REASON);
        assert_eq!(shortened_text("a\tb\r\nc"), "a b c");
        let text = shortened_text(&"word and ".repeat(999));
        assert!(text.len() <= MAX_REFUSAL_BYTES && text.len() > MAX_REFUSAL_BYTES - 9);
        assert!(text.lines().all(|line| line.len() <= MAX_REFUSAL_LINE_BYTES), "{text}");
        assert!(text.lines().count() >= 5);
        assert_eq!(shortened_text(&"x".repeat(9999)).len(), MAX_REFUSAL_LINE_BYTES);
    }
}
