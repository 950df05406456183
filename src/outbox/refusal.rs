//! Classifies the answers of the relay (RFC 5321 §4.2, enhanced codes of RFC 3463).
//!
//! A refusal is temporary, permanent, or avoidable by another form of the message or fewer
//! recipients. A temporary one concerns the relay, the destination, the recipient or the message.

use super::schedule::{AttemptOutcome, RefusalScope};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpStage {
    /// The command MAIL.
    Sender,
    /// RCPT, with the number of recipients of the same message that were accepted before.
    Recipient(usize),
    Data,
    /// The end of the message, after its bytes.
    End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayAnswer {
    pub code: u16,
    /// The enhanced code; zeros if the answer has none.
    pub status: [u8; 3],
    /// What follows the codes; several lines are joined.
    pub text: String,
}

/// The most characters of the text in `RelayAnswer::line`.
const MAX_TEXT_CHARS: usize = 200;

impl RelayAnswer {
    /// Returns codes and text as one line of bounded length, without control characters.
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

    /// The enhanced code, or else the general one for the reply code.
    fn status_or_default(&self) -> [u8; 3] {
        match self.status {
            [0, ..] => [if self.code >= 500 { 5 } else { 4 }, 0, 0],
            status => status,
        }
    }
}

/// Returns what an answer means for the recipients that it is about: `Sent` for each positive one,
/// whatever the stage. Answers outside of 2xx, 4xx and 5xx make no sense, and are temporary. 354,
/// the expected answer to DATA, would be one, so the caller handles it before.
#[must_use]
pub fn classify(stage: SmtpStage, answer: &RelayAnswer) -> AttemptOutcome {
    let (text, [_, subject, detail]) = (answer.line(), answer.status);
    if (200..300).contains(&answer.code) {
        return AttemptOutcome::Sent(text);
    }
    if concerns_relay(stage, answer) {
        return AttemptOutcome::Temporary { text, scope: RefusalScope::Relay };
    }
    // RFC 6531 §3.5: the relay permits no non-ASCII addresses.
    if matches!(answer.code, 550 | 553 | 554) && (subject, detail) == (6, 7) {
        return AttemptOutcome::NoSmtpUtf8;
    }
    if let SmtpStage::Recipient(accepted) = stage
        && is_too_many(answer, accepted)
    {
        return AttemptOutcome::TooMany;
    }
    match answer.code {
        // RFC 3463 §3.7. A RCPT can be refused so, too: MAIL said BODY=8BITMIME (RFC 6152 §3), and
        // the next hop may lack it.
        500..600 if matches!((subject, detail), (6, 1 | 3)) => AttemptOutcome::EightBit(text),
        500..600 => AttemptOutcome::Permanent { status: answer.status_or_default(), text },
        400..500 => AttemptOutcome::Temporary { text, scope: scope(stage, answer.status) },
        _ => AttemptOutcome::Temporary {
            text: format!("the answer makes no sense: {text}"),
            scope: RefusalScope::Message,
        },
    }
}

/// Whether an answer concerns every message alike: the relay closes the connection, or refuses for
/// want of TLS or authentication (RFC 3207 §4, RFC 4954 §6). In the answer to MAIL, servers ask for
/// either with status 5.7.0 too, whatever the code. At the later stages that status is about a
/// recipient or the message: it stands for any matter of security (RFC 3463 §3.8).
fn concerns_relay(stage: SmtpStage, answer: &RelayAnswer) -> bool {
    matches!(answer.code, 421 | 432 | 454 | 530 | 534 | 535 | 538)
        || (stage == SmtpStage::Sender && answer.status == [5, 7, 0])
}

/// Whether an answer says "too many recipients" by its enhanced code (RFC 3463 §3.6), or has none
/// and says it by 452, or by 552 in its place (RFC 5321 §4.5.3.1.10). If no recipient was accepted,
/// their number cannot be the reason.
fn is_too_many(answer: &RelayAnswer, accepted: usize) -> bool {
    let has_status = matches!(answer.status, [4 | 5, 5, 3]);
    let [class, ..] = answer.status;
    accepted > 0 && (has_status || (class == 0 && matches!(answer.code, 452 | 552)))
}

fn scope(stage: SmtpStage, status: [u8; 3]) -> RefusalScope {
    match (stage, status) {
        // RFC 3463 §3.4: the relay's own system, for example `4.3.1`, full.
        (SmtpStage::Sender, [_, 3, _]) => RefusalScope::Relay,
        // RFC 3463 §3.4, §3.5, §3.2: the destination's system or the network to it fails, or the
        // relay cannot look up its domain or that of the sender.
        (SmtpStage::Recipient(_), [_, 3 | 4, _] | [_, 1, 2 | 8]) => RefusalScope::Destination,
        (SmtpStage::Recipient(_), _) => RefusalScope::Recipient,
        _ => RefusalScope::Message,
    }
}
