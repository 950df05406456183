//! Limits of checking and running, and what a site offers.
//!
//! [`check`](crate::check()) takes [`CompileOptions`]; a run takes [`RunLimits`].

use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::extension::ExtensionSet;
use crate::ir::Script;

/// Header fields that no script may add or delete: `Received` is the trace of the message, and
/// `Auto-Submitted` ends loops of automatic mail (RFC 5293 §6). The check and the run warn of an
/// edit of one, and the run ignores it.
pub const PROTECTED_FIELDS: [&str; 2] = ["Received", "Auto-Submitted"];

/// The default of [`CompileLimits::redirects`] and of [`RunLimits::redirects`].
pub const MAX_REDIRECTS: u16 = 4;

/// The result of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// `None` if the source has an error.
    pub script: Option<Script>,
    /// Errors and warnings in the order of their spans. If some are left out because of
    /// [`CompileLimits::diagnostics`], one more at the end says so.
    pub diagnostics: Vec<Diagnostic>,
}

/// How scripts are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileOptions {
    /// The extensions that scripts may require. `ihave` is false for all others. The comparators
    /// `i;octet` and `i;ascii-casemap` are always allowed.
    pub allowed: ExtensionSet,
    pub limits: CompileLimits,
    /// Whether the use of an extension without `require` is an error or a warning. RFC 5228
    /// §2.10.5 demands an error; the warning is for scripts that are imported from other servers.
    pub missing_require: MissingRequire,
    /// Whether `${env.item}` reads the environment, which no standard defines.
    pub environment_namespace: bool,
    /// The schemes of URIs that `notify` may use, in lower case.
    pub notify_schemes: Vec<String>,
    /// More header fields, beside [`PROTECTED_FIELDS`], that no script may add or delete.
    pub protected_fields: Vec<String>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            allowed: ExtensionSet::all(),
            limits: CompileLimits::default(),
            missing_require: MissingRequire::Error,
            environment_namespace: false,
            notify_schemes: vec!["mailto".to_owned()],
            protected_fields: Vec::new(),
        }
    }
}

/// What the check makes of the use of an extension without `require`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingRequire {
    #[default]
    Error,
    Warning,
}

/// Limits of a script, each the most that the check accepts. What exceeds one is an error, but for
/// `diagnostics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileLimits {
    /// Bytes of the source.
    pub script: u32,
    /// Bytes of a string after escapes are processed.
    pub string: u32,
    /// Bytes of the reason of `vacation` after escapes are processed, in place of `string`: the
    /// reason is a whole message.
    pub vacation_reason: u32,
    /// Blocks and tests inside one another, both together.
    pub nesting: u8,
    /// Loops of `foreverypart` inside one another. RFC 5703 §3 demands at least 2: one loop inside
    /// another.
    pub loops: u8,
    /// Commands and tests together.
    pub commands: u32,
    /// Variables that the script names: local and global ones, and those of the environment.
    pub variables: u16,
    /// The highest number of a match variable. RFC 5229 §6 demands 9.
    pub capture: u16,
    /// Redirects that one run executes. The check counts only those that certainly run before a
    /// place of the script is reached; [`RunLimits::redirects`] bounds what a run really executes.
    /// A host sets both to its one number, which is also the `MAXREDIRECTS` of `ManageSieve` (RFC
    /// 5804 §1.7) and `maxNumberRedirects` of JMAP (RFC 9661 §1.3).
    pub redirects: u16,
    /// Bytes of the program of a compiled regular expression. A class of Unicode, such as `\w`,
    /// takes 49 KiB each time that it occurs or is repeated.
    pub regex_program: usize,
    /// Diagnostics that are reported. Further ones are left out, warnings first.
    pub diagnostics: u16,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self {
            script: 1 << 20,
            string: 64 << 10,
            vacation_reason: 1 << 20,
            nesting: 32,
            loops: 4,
            commands: 10_000,
            variables: 128,
            capture: 99,
            redirects: MAX_REDIRECTS,
            regex_program: 1 << 20,
            diagnostics: 100,
        }
    }
}

/// Limits of a run. A run that exceeds one fails, and its plan is only to keep the message
/// ([`Plan::keep_only`](crate::Plan::keep_only)). `variable` and `received` are exceptions, as they
/// say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Units of work. A command, a test, a part in a loop, a regular expression, or a look into the
    /// host's store costs one. One more is due for every 32 bytes that are examined one by one, for
    /// every 64 that are decoded or searched for a regular expression, and for every 256 that are
    /// copied or searched for a fixed text.
    /// The default suffices for one test of a body of 50 MiB, or for several tests of a body of 20
    /// MiB. The count depends on nothing but script, message and answers of the host.
    pub fuel: u64,
    /// Actions of the plan.
    pub actions: u16,
    /// Redirects of the plan. A host sets [`CompileLimits::redirects`] to the same number.
    pub redirects: u16,
    /// Notifications of the plan.
    pub notifies: u16,
    /// Messages that the plan sends: redirects, notifications, and a vacation response.
    pub sent_messages: u16,
    /// Bytes of a variable. A longer value is cut after the last character that fits, with a
    /// warning. RFC 5229 §6 demands 4,000 characters.
    pub variable: u32,
    /// Variables that exist at one time: those of the scripts that run, and global ones.
    pub variables: u16,
    /// Included scripts inside one another. The script that was run first does not count.
    pub include_depth: u8,
    /// Executed `include` commands. One that `:once` skips does not count; one whose script does
    /// not exist does.
    pub includes: u16,
    /// Bytes of all header fields that the run adds.
    pub added_header: u32,
    /// Bytes of all texts that `replace` and `enclose` put into the message.
    pub replaced_body: u32,
    /// Edited versions of the message that actions and the implicit keep use; one that only
    /// `vacation` or `notify` uses does not count. It also bounds the `enclose` commands.
    pub versions: u16,
    /// Parts over which loops run, all loops together. A part counts each time.
    pub parts: u32,
    /// Bytes of the program of a compiled regular expression, also of a constant one.
    pub regex_program: usize,
    /// `Received` fields of a message that is redirected. A message with more has probably gone
    /// round in a loop: it is kept instead, with a warning.
    pub received: u16,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            fuel: 2_000_000,
            actions: 32,
            redirects: MAX_REDIRECTS,
            notifies: 4,
            sent_messages: 8,
            variable: 16 << 10,
            variables: 128,
            include_depth: 10,
            includes: 255,
            added_header: 64 << 10,
            replaced_body: 1 << 20,
            versions: 16,
            parts: 1000,
            regex_program: 1 << 20,
            received: 50,
        }
    }
}
