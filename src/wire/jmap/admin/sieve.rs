//! The arguments and answers of the vendor methods for the Sieve scripts of an account.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AccountRef, OfAccount, vendor_methods};

vendor_methods! {
    SievePut = "Sieve/put"(OfAccount<SievePutArguments>) -> SievePutAnswer;
    SieveGet = "Sieve/get"(OfAccount<SieveNameArguments>) -> SieveGetAnswer;
    SieveList = "Sieve/list"(AccountRef) -> SieveListAnswer;
    SieveActivate = "Sieve/activate"(OfAccount<SieveActivateArguments>) -> SieveActivateAnswer;
    SieveRemove = "Sieve/remove"(OfAccount<SieveNameArguments>) -> SieveRemoveAnswer;
    SieveTest = "Sieve/test"(OfAccount<SieveTestArguments>) -> SieveTestAnswer;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SieveNameArguments {
    pub name: String,
}

/// A script to store. A script of the same name is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SievePutArguments {
    pub name: String,
    /// The script in base64.
    pub source: String,
    /// Whether to make the script the active one. Otherwise the script that is active stays active.
    #[serde(default)]
    pub activate: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SievePutAnswer {
    /// False if the script has errors.
    pub is_stored: bool,
    /// False if a script of the same name was replaced, or nothing was stored.
    pub is_new: bool,
    /// Whether the stored script is the active one. False if nothing was stored.
    pub is_active: bool,
    #[serde(flatten)]
    pub check: CheckFacts,
}

/// All that is wrong with a script: errors, with which it is not stored, and warnings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckFacts {
    /// The diagnostics for people, with the lines of the script to which they belong. Empty if
    /// nothing is wrong.
    pub text: String,
    pub diagnostics: Vec<DiagnosticFacts>,
}

impl CheckFacts {
    /// Makes the facts from a text for people and from diagnostics in JSON.
    ///
    /// # Errors
    /// The JSON is not that of diagnostics.
    pub fn read(text: String, diagnostics: &str) -> serde_json::Result<Self> {
        Ok(Self { text, diagnostics: serde_json::from_str(diagnostics)? })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiagnosticFacts {
    /// Such as `S0301`.
    pub code: String,
    /// `error` or `warning`.
    pub severity: String,
    pub message: String,
    /// What may be done about it, if the engine has advice.
    pub help: Option<String>,
    #[serde(flatten)]
    pub place: PlaceFacts,
    pub related: Vec<RelatedFacts>,
}

/// Another place that explains a diagnostic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelatedFacts {
    pub message: String,
    #[serde(flatten)]
    pub place: PlaceFacts,
}

/// A part of the source of a script. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaceFacts {
    /// The offset of the first byte, from 0.
    pub start: u32,
    /// The offset of the first byte after the part.
    pub end: u32,
    /// The line and the column of `start`.
    pub line: u32,
    pub column: u32,
    /// The line and the column of `end`.
    pub end_line: u32,
    pub end_column: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SieveGetAnswer {
    #[serde(flatten)]
    pub script: ScriptFacts,
    /// The script in base64.
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SieveListAnswer {
    /// In the order of their creation.
    pub list: Vec<ScriptFacts>,
    /// The last errors of scripts in deliveries to the account, newest first; also of scripts of
    /// the site.
    pub errors: Vec<ScriptErrorFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScriptFacts {
    pub name: String,
    pub is_active: bool,
    /// The bytes of the source.
    pub size: u64,
    pub created: String,
    /// When the source was last stored.
    pub stored: String,
}

/// A run of a script that failed, or something that a run decided and that was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScriptErrorFacts {
    pub at: String,
    /// The name of a script of the account, or `site:` and the path of a script of the site.
    pub script: String,
    /// From 1; 0 if the error has no place in the script.
    pub line: u32,
    pub message: String,
    /// The email of the message; null if none was stored.
    pub email_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SieveActivateArguments {
    /// Null, or left out: no script shall be active.
    pub name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SieveActivateAnswer {
    /// The script that is active now, by the name in the arguments; null if none is.
    pub active: Option<String>,
    /// False if `active` was the same before.
    pub changed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SieveRemoveAnswer {
    /// The name of the script that was removed.
    pub removed: String,
}

/// A script to run over a message, as if that came for the account now. Nothing is delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SieveTestArguments {
    /// How diagnostics name the script.
    pub name: String,
    /// The script in base64.
    pub source: String,
    /// The message in base64.
    pub message: String,
    /// The sender of the envelope; "" for the null path. If it is left out, the address in
    /// Return-Path, or if that field is missing, in From.
    pub sender: Option<String>,
    /// The recipient of the envelope. If it is left out, the first address in the header that is
    /// one of the account, or the account's primary address.
    pub recipient: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SieveTestAnswer {
    #[serde(flatten)]
    pub check: CheckFacts,
    /// Null if the script has errors.
    pub outcome: Option<TrialFacts>,
}

/// What a script would do with a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialFacts {
    /// The sender of the envelope; "" for the null path.
    pub sender: String,
    /// The recipient of the envelope.
    pub recipient: String,
    /// The actions, each as a text. If the run failed: that the message is kept.
    pub actions: Vec<String>,
    /// The plan of the engine as JSON.
    pub plan: Value,
    /// Why the run failed; null if it did not.
    pub error: Option<TrialErrorFacts>,
    /// What the run did, in order: each test that it came to, each command but `if`, and what came
    /// of them.
    pub trace: Vec<TraceLineFacts>,
    /// Whether the run went on after the last line of `trace`.
    pub is_trace_cut: bool,
    /// Questions of the script that the trial could not answer, as texts.
    pub unknown: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialErrorFacts {
    /// The included script; null for the script itself.
    pub script: Option<String>,
    /// From 1; 0 if it is not known.
    pub line: u32,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceLineFacts {
    /// As in `TrialErrorFacts`.
    pub script: Option<String>,
    /// As in `TrialErrorFacts`.
    pub line: u32,
    /// `command`, `test`, `assignment`, `action` or `warning`.
    pub event: String,
    /// The result of a test; null for other events.
    pub result: Option<bool>,
    /// A part of the script; of an assignment, an action or a warning: what was done.
    pub text: String,
}
