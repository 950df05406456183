//! Limits of checking and running, and what a site offers.
//!
//! [`check`](crate::check()) takes [`CompileOptions`]; a run takes [`RunLimits`].

use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::extension::ExtensionSet;
use crate::ir::Script;

/// Header fields that no script may add or delete: the trace of the message, and the mark that ends
/// loops of automatic mail (RFC 5293 §6). An edit of one is ignored, with a warning.
pub const PROTECTED_FIELDS: [&str; 2] = ["Received", "Auto-Submitted"];

/// The redirects of one message by default, for the check and for the run.
pub const MAX_REDIRECTS: u16 = 4;

/// The result of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    pub script: Option<Script>,
    pub diagnostics: Vec<Diagnostic>,
}

/// How scripts are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileOptions {
    /// The extensions that scripts may require. `ihave` is false for all others.
    pub allowed: ExtensionSet,
    pub limits: CompileLimits,
    /// What an extension without `require` is. A warning serves only for scripts that are
    /// imported: RFC 5228 §2.10.5 demands an error.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingRequire {
    #[default]
    Error,
    Warning,
}

/// Limits of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileLimits {
    /// Bytes of the source.
    pub script: u32,
    /// Bytes of a string after escapes are processed.
    pub string: u32,
    /// The same for the reason of `vacation`.
    pub vacation_reason: u32,
    /// Levels of blocks and tests together.
    pub nesting: u8,
    /// Levels of `foreverypart` (RFC 5703 §3 demands no more than a few).
    pub loops: u8,
    /// Commands and tests together.
    pub commands: u32,
    /// Local and global variables together.
    pub variables: u16,
    /// The highest number of a match variable. RFC 5229 §3.2 demands 9.
    pub capture: u16,
    /// Redirects that one way through the script may reach. The check finds those that every run
    /// executes; [`RunLimits::redirects`] bounds the others. A host sets both to its one number,
    /// which is also the `MAXREDIRECTS` of `ManageSieve` (RFC 5804 §1.7) and `maxNumberRedirects`
    /// of JMAP (RFC 9661 §1.3); the default of both is [`MAX_REDIRECTS`].
    pub redirects: u16,
    /// Bytes of the program of a compiled regular expression. A class of Unicode, such as `\w`,
    /// takes 49 KiB wherever it is repeated.
    pub regex_program: usize,
    /// Diagnostics that are reported.
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

/// Limits of a run. A run that exceeds one fails, and its plan is only to keep the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Units of work: a command or a test costs one, and one more for every 32 bytes that it
    /// examines, for every 64 that it decodes or searches for a regular expression, or for every
    /// 256 that it copies or searches for a fixed text. The default suffices for a test of a body
    /// of 50 MiB, or for several of one of 20 MiB. The count depends on nothing but script, message
    /// and answers of the host.
    pub fuel: u64,
    /// Actions of the plan.
    pub actions: u16,
    /// Redirects of the plan: [`CompileLimits::redirects`] has the same number.
    pub redirects: u16,
    pub notifies: u16,
    /// Messages that the plan sends: redirects, notifications, and a vacation response.
    pub sent_messages: u16,
    /// Bytes of a variable. A longer value is cut at a character. RFC 5229 §6 demands 4,000
    /// characters.
    pub variable: u32,
    /// Variables of all scripts of the run together, local and global.
    pub variables: u16,
    /// Scripts that include one another.
    pub include_depth: u8,
    /// Includes that are executed.
    pub includes: u16,
    /// Bytes of header fields that are added.
    pub added_header: u32,
    /// Bytes of texts that `replace` and `enclose` put into a message.
    pub replaced_body: u32,
    /// Edited versions of the message.
    pub versions: u16,
    /// Parts over which loops run, all loops together.
    pub parts: u32,
    /// Bytes of a compiled regular expression that is made at run time.
    pub regex_program: usize,
    /// `Received` fields of a message that is still redirected. With more, it is kept instead.
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
