//! Refuses a message for one recipient, as a script says (RFC 5429).
//!
//! - If scripts neither store nor redirect the message, it is refused in the protocol: by `reject`
//!   only if the protocol can carry the reason exactly, by `ereject` with what it can carry.
//! - Otherwise a report to the sender is planned. If none can be sent, a message that is neither
//!   stored nor redirected is refused in the protocol with what can be carried of the reason, so
//!   that it is never lost without a word. If a message that is stored or redirected can have no
//!   report, its sender does not learn of the refusal.

use super::job::ScriptWrites;
use super::scripts::Planner;
use crate::outbox::Reporter;
use crate::outbox::dsn::compose_rejected;
use crate::outbox::mdn::compose_rejection;

/// The longest text of a refusal in the protocol. The record of the delivery stores the text.
const MAX_REFUSAL_BYTES: usize = 2000;
/// The longest line of such a text. A line of a reply has at most 512 bytes, with the codes before
/// the text (RFC 5321 §4.5.3.1.5).
const MAX_REFUSAL_LINE_BYTES: usize = 400;
/// The text of a refusal whose reason the protocol cannot carry.
const UNREADABLE_REASON: &str = "the recipient refuses this message";

impl Planner<'_> {
    /// Plans the refusal, after all other actions of the scripts. `in_protocol` is true for
    /// `ereject` and false for `reject`.
    pub(super) fn reject(&self, in_protocol: bool, reason: &str, writes: &mut ScriptWrites) {
        let is_only_refused = self.emails.is_empty() && !writes.has_redirect();
        if is_only_refused {
            let exact = exact_text(reason);
            if exact.is_some() || in_protocol {
                writes.refusal = exact.or_else(|| Some(shortened_text(reason)));
                return;
            }
        }
        let Err(why) = self.report_refusal(in_protocol, reason, writes) else { return };
        let account = self.owner.target.account;
        tracing::info!(%account, why, "no report that a script refused the message");
        if is_only_refused {
            writes.refusal = Some(shortened_text(reason));
        }
    }

    /// Plans a report to the sender: for `ereject` a delivery status notification, for `reject` a
    /// disposition notification (RFC 5429 §2.1, §2.2). The error says why there can be none.
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
        // Cannot fail: a report is missing only if there is no sender.
        writes.add_action(report.ok_or("the message has no sender")?, None);
        Ok(())
    }
}

/// Returns a reason as lines of printable ASCII with `\n` between them. `None` if the protocol
/// cannot carry all of it, or it is empty, or longer than `MAX_REFUSAL_BYTES`.
///
/// A reply has no blank lines, and no CR within a line (`Reply::write`). Line ends around the
/// reason and blanks at the ends of its lines are left out, and do not count as a part of it. Long
/// lines are broken, as RFC 5429 §2.5 allows.
fn exact_text(reason: &str) -> Option<String> {
    let text = reason.trim_start_matches(['\r', '\n']).trim_end_matches([' ', '\r', '\n']);
    let lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches(' ')).collect();
    let is_exact =
        |line: &&str| !line.is_empty() && line.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !lines.iter().all(is_exact) {
        return None;
    }
    let text = lines.into_iter().flat_map(pieces).collect::<Vec<_>>().join("\n");
    (!text.is_empty() && text.len() <= MAX_REFUSAL_BYTES).then_some(text)
}

/// Returns what the protocol can carry of a reason: its beginning without blank lines, and with
/// blanks in place of controls. Of a reason that is not ASCII, or has no text, that is
/// `UNREADABLE_REASON`.
fn shortened_text(reason: &str) -> String {
    let plain = |c: char| match c {
        '\n' | ' '..='~' => c,
        _ => ' ',
    };
    // 10 bytes are left for the line ends that `pieces` adds.
    let text: String = reason.chars().map(plain).take(MAX_REFUSAL_BYTES - 10).collect();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = if reason.is_ascii() { exact_text(&text) } else { None };
    text.unwrap_or_else(|| UNREADABLE_REASON.to_owned())
}

/// Breaks a line of ASCII into lines of at most `MAX_REFUSAL_LINE_BYTES`, at blanks if there are
/// any.
fn pieces(line: &str) -> Vec<&str> {
    let (mut rest, mut out) = (line.trim_end(), Vec::new());
    while let Some((head, tail)) = rest.split_at_checked(MAX_REFUSAL_LINE_BYTES + 1) {
        let (piece, after) = match head.rsplit_once(' ') {
            Some((piece, _)) if !piece.trim().is_empty() => {
                (piece, rest.get(piece.len()..).unwrap_or(tail))
            }
            _ => rest.split_at(MAX_REFUSAL_LINE_BYTES),
        };
        out.push(piece.trim_end());
        rest = after.trim_start();
    }
    out.push(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_text_is_the_whole_reason_or_none() {
        assert_eq!(exact_text("\r\nNo.\r\n250 ok \r\n").as_deref(), Some("No.\n250 ok"));
        for reason in ["\u{fc}", "", " \r\n", "a\tb", "a\u{1b}b", "a\rb", "a\n\nb", "a\n \nb"] {
            assert_eq!(exact_text(reason), None, "{reason:?}");
        }
        let line = "x".repeat(MAX_REFUSAL_LINE_BYTES);
        assert_eq!(exact_text(&line), Some(line.clone()));
        assert_eq!(exact_text(&format!("{line}x")), Some(format!("{line}\nx")));
        assert_eq!(exact_text(&format!("{line} x")), Some(format!("{line}\nx")));
        assert_eq!(exact_text(&format!("a {line}")), Some(format!("a\n{line}")));
        // 5 lines of 400 bytes and 4 line ends are too long.
        assert_eq!(exact_text(&[line.as_str(); 5].join("\n")), None);
    }

    #[test]
    fn shortened_reason_has_lines_within_the_limits() {
        assert_eq!(shortened_text("\u{fc}"), UNREADABLE_REASON);
        assert_eq!(shortened_text("\r\n"), UNREADABLE_REASON);
        assert_eq!(shortened_text("a\tb\r\nc"), "a b\nc");
        assert_eq!(shortened_text("\r\na\n\n \nb\rc"), "a\nb c");
        for reason in ["word and ".repeat(999), "x".repeat(9999)] {
            let text = shortened_text(&reason);
            assert!((1900..=MAX_REFUSAL_BYTES).contains(&text.len()), "{text}");
            assert!(text.lines().all(|line| line.len() <= MAX_REFUSAL_LINE_BYTES), "{text}");
        }
    }
}
