//! What an answer of the next hop means (RFC 5321 §4.2, enhanced codes of RFC 3463): the one place
//! that tells temporary, permanent and mendable refusals apart, and whom each concerns.

use super::schedule::{AttemptOutcome, RefusalScope};

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpStage {
    /// MAIL.
    Sender,
    /// RCPT, with the number of recipients of the same message that were accepted before.
    Recipient(usize),
    Data,
    /// The message, after its final dot.
    End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayAnswer {
    /// The three digits.
    pub code: u16,
    /// The enhanced code; zeros where there was none.
    pub status: [u8; 3],
    /// What it says.
    pub text: String,
}

/// Characters of an answer that are kept.
const MAX_TEXT_CHARS: usize = 200;

impl RelayAnswer {
    /// On one line, bounded, without controls.
    #[must_use]
    pub fn line(&self) -> String {
        let text: String = self
            .text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(MAX_TEXT_CHARS)
            .collect();
        let text = text.trim();
        match self.status {
            [0, ..] => format!("{} {text}", self.code),
            [class, subject, detail] => format!("{} {class}.{subject}.{detail} {text}", self.code),
        }
    }

    /// The enhanced code, or what stands for the digit where there was none.
    fn status_or_plain(&self) -> [u8; 3] {
        match self.status {
            [0, ..] => [if self.code >= 500 { 5 } else { 4 }, 0, 0],
            status => status,
        }
    }
}

/// What an answer means for the recipients that it is about.
#[must_use]
pub fn classify(stage: SmtpStage, answer: &RelayAnswer) -> AttemptOutcome {
    let (text, [_, subject, detail]) = (answer.line(), answer.status);
    if (200..300).contains(&answer.code) {
        return AttemptOutcome::Sent(text);
    }
    if is_ours(answer) {
        return AttemptOutcome::Temporary { text, scope: RefusalScope::Relay };
    }
    // RFC 6531 §3.5 and RFC 3463's registry: non-ASCII addresses are not permitted here.
    if matches!(answer.code, 550 | 553 | 554) && (subject, detail) == (6, 7) {
        return AttemptOutcome::NoSmtpUtf8;
    }
    if let SmtpStage::Recipient(taken) = stage
        && is_too_many(answer, taken)
    {
        return AttemptOutcome::TooMany;
    }
    match answer.code {
        // "Conversion required but not supported", "media not supported" (RFC 3463 §3.7).
        500..600 if matches!((subject, detail), (6, 1 | 3)) && stage != SmtpStage::Recipient(0) => {
            AttemptOutcome::EightBit(text)
        }
        500..600 => AttemptOutcome::Permanent { status: answer.status_or_plain(), text },
        400..500 => AttemptOutcome::Temporary { text, scope: scope(stage, answer.status) },
        _ => AttemptOutcome::Temporary {
            text: format!("no sense in this answer: {text}"),
            scope: RefusalScope::Message,
        },
    }
}

/// Closing the channel (421), and all that is about TLS and authentication (RFC 3207 §4, RFC 4954
/// §6): that concerns us, whatever its digit, and other messages fare alike.
fn is_ours(answer: &RelayAnswer) -> bool {
    matches!(answer.code, 421 | 432 | 454 | 530 | 534 | 535 | 538) || answer.status == [5, 7, 0]
}

/// "Too many recipients" (RFC 3463 §3.6), and 552 in its place (RFC 5321 §4.5.3.1.10): those that
/// were taken go now, the others with the next. Where none was taken it is no matter of number.
fn is_too_many(answer: &RelayAnswer, taken: usize) -> bool {
    let named = matches!(answer.status, [4 | 5, 5, 3]);
    let [class, ..] = answer.status;
    taken > 0 && (named || (class == 0 && matches!(answer.code, 452 | 552)))
}

/// Whom a temporary refusal concerns.
fn scope(stage: SmtpStage, status: [u8; 3]) -> RefusalScope {
    match (stage, status) {
        // The next hop itself has no room, or no time.
        (SmtpStage::Sender, [_, 3, _]) => RefusalScope::Relay,
        // The destination's system, or the way to it; its name is not known (RFC 3463 §3.2, 3.4,
        // 3.5).
        (SmtpStage::Recipient(_), [_, 3 | 4, _] | [_, 1, 2 | 8]) => RefusalScope::Destination,
        (SmtpStage::Recipient(_), _) => RefusalScope::Recipient,
        _ => RefusalScope::Message,
    }
}
