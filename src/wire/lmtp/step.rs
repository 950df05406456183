//! What a session tells its driver, and what it is told at the start.

use crate::model::{Envelope, Recipient};
use crate::wire::smtp::Reply;

/// What the driver must do next. Replies gather in the session's output meanwhile; the driver
/// writes them whenever it waits: before reading, and before it answers a step.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'s> {
    NeedInput,
    /// A transaction begins: forget what is left of the last one.
    Begin,
    /// The transaction is over without a message.
    Reset,
    /// Say whether this recipient is accepted.
    Rcpt(RcptQuestion<'s>),
    /// Take these bytes of the message, at least one; or refuse the message by `refuse_body`.
    Body(&'s [u8]),
    /// The message is complete: deliver it to the recipients of this envelope, and answer by
    /// `delivered` before the next step.
    End(Box<Envelope>),
    /// Write the output, then begin TLS and a new session.
    StartTls,
    /// Write the output, then hang up.
    Close,
}

/// A recipient that the client named, and that is neither accepted nor refused yet.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the client waits for a reply"]
pub struct RcptQuestion<'s> {
    pub(super) envelope: &'s mut Envelope,
    pub(super) recipient: Recipient,
    pub(super) out: &'s mut Vec<u8>,
}

impl RcptQuestion<'_> {
    /// The sender and the recipients that were accepted before.
    #[must_use]
    pub fn envelope(&self) -> &Envelope {
        self.envelope
    }

    #[must_use]
    pub fn recipient(&self) -> &Recipient {
        &self.recipient
    }

    /// Answers the client; a positive reply accepts the recipient. A refusal does not count as an
    /// error: a sender's typing mistake is not the peer's.
    pub fn answer(self, reply: &Reply) {
        if reply.is_positive() {
            self.envelope.recipients.push(self.recipient);
        }
        reply.write(self.out);
    }
}

/// What a session must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The name in the greeting.
    pub hostname: String,
    /// Octets of the largest message.
    pub max_message: u64,
    /// Accepted recipients a transaction; beyond it 452 4.5.3.
    pub max_recipients: usize,
    /// Whether XFORWARD and XCLIENT are believed.
    pub trusted: bool,
    /// Whether STARTTLS can be had.
    pub starttls: bool,
    /// Whether the session is encrypted.
    pub tls: bool,
    /// Commands before the session is ended.
    pub max_commands: u32,
    /// Refused commands before the session is ended.
    pub max_errors: u32,
}

impl Default for Settings {
    fn default() -> Self {
        use crate::model::limits;
        Self {
            hostname: "localhost".into(),
            max_message: limits::MAX_MESSAGE_BYTES,
            max_recipients: limits::MAX_RECIPIENTS,
            trusted: false,
            starttls: false,
            tls: false,
            max_commands: limits::MAX_LMTP_COMMANDS,
            max_errors: limits::MAX_LMTP_ERRORS,
        }
    }
}
