//! L2: who really sent it.
//!
//! What a trusted server in front of us found and wrote down (`results`, RFC 8601) is believed; `judge` says by the policy
//! whether that makes the envelope sender a forger, for it is where a reply would go.

mod domain;
mod judge;
mod results;

pub use judge::Policy;

use crate::model::Address;

/// Whose results are believed, and what they must say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The authserv-ids; none: nothing is believed, and nobody is taken for a forger.
    pub authserv_ids: Vec<String>,
    /// What they must say.
    pub policy: Policy,
}

/// Why the envelope sender is taken for forged by what trusted servers wrote, if it is.
#[must_use]
pub fn forged(raw: &[u8], sender: Option<&Address>, settings: &Settings) -> Option<String> {
    let sender = sender?;
    if settings.authserv_ids.is_empty() || settings.policy == Policy::Off {
        return None;
    }
    judge::judge(&results::trusted(raw, &settings.authserv_ids), sender, settings.policy)
}
