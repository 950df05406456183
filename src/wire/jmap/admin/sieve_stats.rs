//! The vendor method that says how often each rule of a Sieve script fired.

use serde::{Deserialize, Serialize};

use super::{OfAccount, vendor_methods};

vendor_methods! {
    SieveStats = "Sieve/stats"(OfAccount<SieveStatsArguments>) -> SieveStatsAnswer;
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SieveStatsArguments {
    /// The script; all scripts of the account if it is missing.
    pub name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SieveStatsAnswer {
    pub list: Vec<ScriptStatistics>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScriptStatistics {
    pub name: String,
    pub is_active: bool,
    /// When the source was stored, from which on the rules are counted.
    pub since: String,
    /// Whether the script can be read. One that has errors has no rules.
    pub is_valid: bool,
    /// In the order of the source.
    pub rules: Vec<RuleStatistics>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleStatistics {
    /// The line in which the rule begins, from 1.
    pub line: u32,
    /// The name in the comment `# rule:[name]` before the rule.
    pub name: Option<String>,
    /// The line of the script in which the rule begins, from there on.
    pub text: String,
    pub hits: u64,
    /// When it fired last; `None` if it never did.
    pub last: Option<String>,
}
