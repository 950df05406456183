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

/// A script of the same name is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SievePutArguments {
    pub name: String,
    /// The script in base64.
    pub source: String,
    #[serde(default)]
    pub activate: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SievePutAnswer {
    /// False if the script has errors.
    pub is_stored: bool,
    /// False if a script of the same name was replaced.
    pub is_new: bool,
    pub is_active: bool,
    #[serde(flatten)]
    pub check: CheckFacts,
}

/// All that is wrong with a script.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckFacts {
    /// The diagnostics with lines of the script, for people; empty without any.
    pub text: String,
    pub diagnostics: Vec<DiagnosticFacts>,
}

impl CheckFacts {
    /// Makes the facts of a text for people and of diagnostics as JSON.
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

/// Lines and columns count from 1, bytes from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaceFacts {
    pub start: u32,
    pub end: u32,
    pub line: u32,
    pub column: u32,
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
    /// The last failed runs, newest first; also those of scripts of the site.
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

/// A run of a script that failed. The message was kept in the Inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScriptErrorFacts {
    pub at: String,
    /// The name of a script of the account, or `site:` and the path of a script of the site.
    pub script: String,
    /// From 1; 0 if the error has no place in the script.
    pub line: u32,
    pub message: String,
    pub email_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SieveActivateArguments {
    /// Null: no script shall be active.
    pub name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SieveActivateAnswer {
    /// The script that is active now.
    pub active: Option<String>,
    /// False if it was active before.
    pub changed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SieveRemoveAnswer {
    pub removed: String,
}

/// A script to run over a message, which is not delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SieveTestArguments {
    /// How diagnostics name the script.
    pub name: String,
    /// The script in base64.
    pub source: String,
    /// The message in base64.
    pub message: String,
    /// The sender of the envelope; "" for the null path. If it is left out, that of the message.
    pub sender: Option<String>,
    /// The recipient of the envelope. If it is left out, that of the message, or the account.
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
    pub sender: String,
    pub recipient: String,
    /// The actions, each as a text.
    pub actions: Vec<String>,
    /// The plan of the engine.
    pub plan: Value,
    /// Why the run failed. The message is kept then.
    pub error: Option<TrialErrorFacts>,
    pub trace: Vec<TraceLineFacts>,
    /// Whether the trace goes on after `trace`.
    pub is_trace_cut: bool,
    /// What the run asked for and could not be told.
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
    /// Of a test.
    pub result: Option<bool>,
    pub text: String,
}
