//! What a session needs to know, and what it asks its driver to do.

use super::response::Code;
use crate::model::limits;
use crate::wire::sasl::{ChannelBinding, Question};

#[derive(Debug, Clone)]
pub struct Settings {
    /// The Sieve extensions that scripts may require, separated by spaces.
    pub extensions: String,
    /// The most `redirect` actions of one run.
    pub max_redirects: Option<u32>,
    /// The URI schemes of notifications, separated by spaces; needed with `enotify`.
    pub notify: Option<String>,
    /// The largest script, in bytes.
    pub max_script: usize,
    /// Whether STARTTLS is offered.
    pub starttls: bool,
    /// Whether clients may log in: the connection is encrypted, or does not leave the machine.
    pub login: bool,
    /// That of the TLS connection, if it has one.
    pub binding: Option<ChannelBinding>,
    /// After more refused commands the connection is closed, and before a login after more
    /// commands of any kind.
    pub max_errors: u32,
    /// After so many failed logins the connection is closed.
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
    /// Gives the session more input, if it consumed nothing.
    NeedInput,
    /// Sends the output before it calls the session again, even if there is more input.
    Flush,
    /// Answers a question of a login, by `Session::found_keys`, `accept` or `reject`.
    Ask(Question),
    /// Does it for the account of the client, and answers by `Session::done`.
    Do(Request),
    /// Sends the output and discards all unread input. Then begins TLS, and a new session by
    /// `Session::after_starttls`.
    StartTls,
    /// Sends the output, and closes the connection.
    Close,
}

/// A command about scripts. Names are in NFC, and are those of RFC 5804 §1.6.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Whether a script of `size` bytes could be stored under this name.
    HaveSpace {
        name: String,
        size: u64,
    },
    /// Checks and stores a script, byte for byte.
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
    Done,
    /// The script is valid, with these warnings.
    Warnings(String),
    /// The names, and whether each is the active script.
    Scripts(Vec<(String, bool)>),
    Script(Vec<u8>),
    /// NO, with a text for the user, which may have several lines.
    Refused(Option<Code>, String),
}

/// Why a login is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    Credentials,
    /// They were not checked. The text says why.
    NotChecked(String),
}
