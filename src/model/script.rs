//! The Sieve scripts of an account, without their source, and what their runs leave.

use super::clock::UtcMillis;
use super::id::{BlobHash, EmailId};
use super::limits;

/// A script of an account (RFC 5804, RFC 9661). Its source is stored apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SieveScript {
    /// Unique in the account (`is_script_name`).
    pub name: String,
    /// Bytes of the source.
    pub size: u64,
    /// The BLAKE3 hash of the source.
    pub hash: BlobHash,
    pub created: UtcMillis,
    /// When the source was last stored.
    pub stored: UtcMillis,
}

/// A run of a script that failed (`filter` says what becomes of the message), or something that a
/// run decided and that was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    pub at: UtcMillis,
    /// The script, written as in `FilterStep::script`.
    pub script: String,
    /// From 1; 0 if the error has no place in the script.
    pub line: u32,
    /// At most `limits::MAX_SCRIPT_ERROR_BYTES`.
    pub message: String,
    /// The email of the message; `None` if none was stored.
    pub email: Option<EmailId>,
}

/// How often a rule of a script fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleHits {
    /// The number of messages.
    pub hits: u64,
    /// When the last of them was delivered.
    pub last: UtcMillis,
}

/// An action that a script took for a message, or a warning of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterStep {
    /// The name of a script of the account, or `site:` and the path of a script of the site.
    pub script: String,
    /// The line of the command, from 1; 0 if the step has no command, as the implicit keep.
    pub line: u32,
    /// The action and its target, such as `fileinto Lists/rust`, or the warning.
    pub action: String,
}

/// Whether an account may have a script of this name (RFC 5804 §1.6): 1 to 128 characters, no
/// control characters or separators of lines.
#[must_use]
pub fn is_script_name(name: &str) -> bool {
    let is_refused = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    (1..=limits::MAX_SCRIPT_NAME_CHARS).contains(&name.chars().count())
        && !name.chars().any(is_refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_scripts_are_those_of_managesieve() {
        for name in ["a", " ", "Büro/2026", &"x".repeat(128)] {
            assert!(is_script_name(name), "{name}");
        }
        for name in ["", "a\nb", "\u{7f}", "\u{85}", "\u{2028}", "a\u{2029}", &"ü".repeat(129)] {
            assert!(!is_script_name(name), "{name:?}");
        }
    }
}
