//! The steps that a session asks of its driver, and the settings of a session.

use crate::model::{Envelope, Recipient};
use crate::wire::smtp::Reply;

/// What the driver must do next. The driver writes the output before it reads more input and before
/// it ends or encrypts the connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'s> {
    /// Call `Session::step` again with the input that was not consumed, and with more input if
    /// nothing was consumed.
    NeedInput,
    /// A transaction has begun: discard what is left of the one before.
    Begin,
    /// The transaction, if there was one, ended without a message to deliver: discard it.
    Reset,
    /// Decide on a recipient with `RcptQuestion::answer`.
    Rcpt(RcptQuestion<'s>),
    /// Keep these bytes of the message, or refuse the message with `Session::refuse_body`. There is
    /// at least one byte.
    Body(&'s [u8]),
    /// Deliver the message, and pass the replies to `Session::delivered` before the next call of
    /// `Session::step`.
    End(Box<Envelope>),
    /// Discard all unread input, and begin TLS and a new session (`Session::after_starttls`).
    StartTls,
    /// Close the connection.
    Close,
}

/// A recipient whose RCPT command has not been answered yet.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the client waits for a reply"]
pub struct RcptQuestion<'s> {
    pub(super) envelope: &'s mut Envelope,
    pub(super) recipient: Recipient,
    pub(super) out: &'s mut Vec<u8>,
}

impl RcptQuestion<'_> {
    /// Returns the envelope with the recipients that were accepted before.
    #[must_use]
    pub fn envelope(&self) -> &Envelope {
        self.envelope
    }

    #[must_use]
    pub fn recipient(&self) -> &Recipient {
        &self.recipient
    }

    /// Answers the RCPT command. A positive reply accepts the recipient. A refusal does not count
    /// as an error of the client.
    pub fn answer(self, reply: &Reply) {
        if reply.is_positive() {
            self.envelope.recipients.push(self.recipient);
        }
        reply.write(self.out);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The name in the greeting and in the reply to LHLO.
    pub hostname: String,
    /// The largest message, in bytes.
    pub max_message: u64,
    /// More recipients of a transaction get 452 4.5.3.
    pub max_recipients: usize,
    /// Whether the client may use XFORWARD and XCLIENT.
    pub trusted: bool,
    /// Whether STARTTLS is offered.
    pub starttls: bool,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// How many commands a session may have. The next one gets 421.
    pub max_commands: u32,
    /// How many commands a session may refuse. The next refusal is followed by 421. Refusals of
    /// the driver do not count, nor do 452 and the refusal of a message that is too large.
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
