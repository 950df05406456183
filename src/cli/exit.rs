//! Failures of commands, and their exit codes: those of `sysexits.h`, by which Postfix's pipe(8)
//! decides whether mail is tried again or returned.

use std::fmt;

/// The arguments are wrong, or the user did not confirm.
pub const USAGE: u8 = 64;
/// The input is malformed or too large; what was checked, repaired, imported or restored has
/// faults; a trial run of a script failed; or where an export must write, there is something that
/// no export wrote.
pub const DATA: u8 = 65;
/// A file, a store or another input is missing or cannot be read, or a file cannot be written.
pub const NO_INPUT: u8 = 66;
/// There is no such account, address or other object. `deliver`: no such address, for all
/// recipients.
pub const NO_USER: u8 = 67;
/// No service answers; or `serve` or `demo` cannot listen, or the service cannot create a
/// directory. `deliver`: refused for good for all recipients, and not only because of unknown
/// addresses.
pub const UNAVAILABLE: u8 = 69;
/// An internal error.
pub const SOFTWARE: u8 = 70;
/// A temporary failure, or the user interrupted the command: try again later.
pub const TEMPORARY: u8 = 75;
/// The caller may not do this.
pub const NO_PERMISSION: u8 = 77;
/// The configuration is wrong, or a part of the service cannot start.
pub const CONFIG: u8 = 78;

/// The text of a failure that does not say which account is missing.
const NO_SUCH_ACCOUNT: &str = "no such account: see `restante account list`";

/// Why a command failed, for people to read, and its exit code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    pub code: u8,
    /// What is wrong and, if known, what to do about it.
    pub message: String,
}

impl Failure {
    #[must_use]
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Converts a JMAP method error (RFC 8620 §3.6.2) or a `SetError` (§5.3) to a failure. `kind`
    /// is its type; an unknown type is an internal error.
    #[must_use]
    pub fn from_jmap_error(kind: &str, description: &str) -> Self {
        let code = match kind {
            "accountNotFound" | "notFound" | "noSuchUser" => NO_USER,
            "invalidArguments" | "invalidProperties" | "invalidPatch" | "unknownMethod"
            | "conflict" | "unsupportedFilter" | "unsupportedSort" | "anchorNotFound" => USAGE,
            "forbidden" | "accountReadOnly" => NO_PERMISSION,
            "serverUnavailable" | "rateLimit" | "overQuota" | "stateMismatch" => TEMPORARY,
            _ => SOFTWARE,
        };
        let message = match (description, kind) {
            ("", "accountNotFound") => NO_SUCH_ACCOUNT,
            ("", kind) => kind,
            (description, _) => description,
        };
        Self::new(code, message)
    }

    /// Adds the name of the account to a failure that says that there is no such account.
    #[must_use]
    pub fn naming_account(self, name: &str) -> Self {
        if self.message != NO_SUCH_ACCOUNT || name.is_empty() {
            return self;
        }
        let text = format!("there is no account {name}: see `restante account list`");
        Self::new(self.code, text)
    }

    /// Writes an option in place of the property at the beginning of the text.
    #[must_use]
    pub fn naming_option(self, property: &str, option: &str) -> Self {
        let rest = self.message.strip_prefix(property).and_then(|rest| rest.strip_prefix(": "));
        match rest {
            Some(rest) => Self::new(self.code, format!("{option}: {rest}")),
            None => self,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_names_the_account_and_the_option() {
        let missing = Failure::from_jmap_error("accountNotFound", "");
        let named = missing.clone().naming_account("ann");
        assert_eq!((named.code, missing.clone().naming_account("")), (NO_USER, missing));
        assert!(named.message.starts_with("there is no account ann: "), "{named}");
        let other = Failure::new(USAGE, "reason: there is no reason x");
        assert_eq!(other.clone().naming_account("ann"), other);
        let renamed = other.clone().naming_option("reason", "--reason");
        assert_eq!(renamed.message, "--reason: there is no reason x");
        assert_eq!(other.clone().naming_option("sender", "--sender"), other);
    }
}
