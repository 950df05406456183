//! What a session tells its driver, and what it is told at the start.

/// What the driver must do next. Replies gather in the session's output meanwhile; the driver writes them whenever it
/// waits: before reading, and before it answers a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Read more.
    NeedInput,
    /// A transaction begins: forget what is left of the last one.
    Begin,
    /// The transaction is over without a message.
    Reset,
    /// Say by `rcpt_verdict` whether `recipient()` is taken.
    Rcpt,
    /// Take `chunk()`, the next octets of the message; or refuse the message by `refuse_body`.
    Body,
    /// The message is complete: deliver it to the recipients of `envelope()`, and answer by `delivered`.
    End,
    /// Write the output, then begin TLS and a new session.
    StartTls,
    /// Write the output, then hang up.
    Close,
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
            max_message: limits::MESSAGE_OCTETS,
            max_recipients: limits::RECIPIENTS,
            trusted: false,
            starttls: false,
            tls: false,
            max_commands: limits::COMMANDS,
            max_errors: limits::ERRORS,
        }
    }
}
