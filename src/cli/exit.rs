//! How a command ends: the codes of `sysexits.h`, which pipe(8) of Postfix reads too.

use std::fmt;

/// Wrong words on the command line.
pub const USAGE: u8 = 64;
/// The input is not what it should be.
pub const DATA: u8 = 65;
/// An input file is missing.
pub const NO_INPUT: u8 = 66;
/// No such account or address.
pub const NO_USER: u8 = 67;
/// The service does not run.
pub const UNAVAILABLE: u8 = 69;
/// A fault of ours.
pub const SOFTWARE: u8 = 70;
/// Try again later.
pub const TEMPORARY: u8 = 75;
/// Not allowed.
pub const NO_PERMISSION: u8 = 77;
/// The configuration is wrong.
pub const CONFIG: u8 = 78;

/// Why a command failed, in words for people, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Failure {
    /// A failure with this code.
    #[must_use]
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The code of a method error of JMAP (RFC 8620 §3.6.2) or of a `SetError` (§5.3).
    #[must_use]
    pub fn of_method(kind: &str, description: &str) -> Self {
        let code = match kind {
            "accountNotFound" | "notFound" | "noSuchUser" => NO_USER,
            "invalidArguments" | "invalidProperties" | "invalidPatch" | "unknownMethod"
            | "conflict" | "unsupportedFilter" | "unsupportedSort" | "anchorNotFound" => USAGE,
            "forbidden" | "accountReadOnly" => NO_PERMISSION,
            "serverUnavailable" | "rateLimit" | "overQuota" => TEMPORARY,
            _ => SOFTWARE,
        };
        let words = match (description, kind) {
            ("", "accountNotFound") => "no such account: see `restante account list`",
            ("", kind) => kind,
            (description, _) => description,
        };
        Self::new(code, words)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}
