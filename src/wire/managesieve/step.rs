//! What a session needs to know, and what it asks its driver to do. The driver is the code that
//! moves bytes between the socket and the session.

use super::response::Code;
use crate::model::limits;
use crate::wire::sasl::{ChannelBinding, Question};

#[derive(Debug, Clone)]
pub struct Settings {
    /// The Sieve extensions that scripts may require, separated by spaces.
    pub extensions: String,
    /// The most `redirect` actions of one run. With `None` the capability is left out.
    pub max_redirects: Option<u32>,
    /// The URI schemes of notifications, separated by spaces; `None` without `enotify` in
    /// `extensions`.
    pub notify: Option<String>,
    /// The largest script, in bytes. The session refuses a larger literal. It does not compare a
    /// quoted string, which has up to 1024 bytes: the driver must check the size, too.
    pub max_script: usize,
    /// Whether STARTTLS is offered.
    pub starttls: bool,
    /// Whether clients may log in. The driver allows it only if the connection is encrypted or does
    /// not leave the machine.
    pub login: bool,
    /// The channel binding of the TLS connection. Without one, `None`: SCRAM-SHA-256-PLUS is not
    /// offered.
    pub binding: Option<ChannelBinding>,
    /// How many commands the session refuses. The next one that it would refuse closes it. A login
    /// that the client cancels counts; a failed one and `Answer::Refused` do not. A client that is
    /// not logged in may also send only so many commands and blank lines, of any kind.
    pub max_errors: u32,
    /// The failed login with this number closes the session.
    pub max_failed_logins: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            extensions: String::new(),
            max_redirects: None,
            notify: None,
            max_script: limits::MAX_SCRIPT_BYTES,
            starttls: false,
            login: false,
            binding: None,
            max_errors: limits::MAX_MANAGESIEVE_ERRORS,
            max_failed_logins: limits::MAX_FAILED_LOGINS_PER_CONNECTION,
        }
    }
}

/// What the driver does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends the output, and gives the session more input: it has consumed all that it was given.
    NeedInput,
    /// Sends the output before it calls the session again, even if there is more input.
    Flush,
    /// Answers a question of a login before it calls `Session::step` again: `Question::Keys` by
    /// `Session::found_keys`, another one by `accept`, and any of them by `reject`.
    Ask(Question),
    /// Carries out the request for the account of the client, and answers it by `Session::done`
    /// before it calls `Session::step` again.
    Do(Request),
    /// Sends the output and discards all unread input. Then begins TLS, and a new session by
    /// `Session::after_starttls`.
    StartTls,
    /// Sends the output, and closes the connection.
    Close,
}

/// A command about scripts. Names are in NFC, and RFC 5804 §1.6 allows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Whether a script of `size` bytes could be stored under this name. The size is within
    /// `Settings::max_script`.
    HaveSpace {
        name: String,
        size: u64,
    },
    /// Checks and stores a script, byte for byte. It is not empty.
    Put {
        name: String,
        script: Vec<u8>,
    },
    List,
    /// `None`: no script is active.
    SetActive(Option<String>),
    Get(String),
    Delete(String),
    Rename {
        from: String,
        to: String,
    },
    /// Checks a script, and stores nothing.
    Check(Vec<u8>),
}

/// The answer to a `Request`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Any request but `List` and `Get` succeeded.
    Done,
    /// `Put` or `Check` succeeded: the script is valid, with these warnings.
    Warnings(String),
    /// To `List`: the names, and whether each is the active script.
    Scripts(Vec<(String, bool)>),
    /// To `Get`: the source of the script.
    Script(Vec<u8>),
    /// NO, with a text for the user, which may have several lines.
    Refused(Option<Code>, String),
}

/// Why a login is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// The credentials are wrong, or do not allow what the client asked for.
    Credentials,
    /// The credentials were not checked. The text says why.
    NotChecked(String),
}
