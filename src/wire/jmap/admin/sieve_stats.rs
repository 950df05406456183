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
    /// Sorted by name.
    pub list: Vec<ScriptStatistics>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScriptStatistics {
    pub name: String,
    pub is_active: bool,
    /// When this source was stored. How often its rules fire is counted since then.
    pub since: String,
    /// Whether the script has no errors now.
    pub is_valid: bool,
    /// In the order of the source. Empty if the script has errors.
    pub rules: Vec<RuleStatistics>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleStatistics {
    /// The line in which the rule begins, from 1.
    pub line: u32,
    /// The name in the comment `# rule:[name]` before the rule; `None` without such a comment.
    pub name: Option<String>,
    /// The text of this line from the beginning of the rule on, cut if it is long.
    pub text: String,
    /// How many messages the rule fired for.
    pub hits: u64,
    /// When the rule fired last; `None` if it never did.
    pub last: Option<String>,
}
