//! L2: who really sent it; and, for what we send ourselves, who we are.
//!
//! What a trusted server in front of us found and wrote down (`results`, RFC 8601) is believed;
//! where none wrote anything, and the site wants it, we look ourselves (`verify`). `judge` says by
//! the policy whether what was found makes the envelope sender a forger, for it is where a reply
//! would go. `sign` puts our own signatures on what we send. This room alone names mail-auth.

mod client;
mod domain;
mod judge;
mod results;
mod sign;
mod verify;

pub use judge::Policy;
pub use sign::{Algorithm, Signer, SigningKey, generate};
pub use verify::{Verifier, VerifySettings};

use std::sync::Arc;

use crate::message::header::Header;
use crate::model::{Address, Envelope};

/// Whose results are believed, and what they must say.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub authserv_ids: Vec<String>,
    /// What they must say.
    pub policy: Policy,
    /// Looks where no trusted server wrote anything. Without one, and without authserv-ids, nobody
    /// is taken for a forger.
    pub verifier: Option<Arc<Verifier>>,
}

/// Why the envelope sender is taken for forged by what trusted servers wrote, if it is.
#[must_use]
pub fn forgery_reason(
    header: &Header<'_>,
    sender: Option<&Address>,
    settings: &Settings,
) -> Option<String> {
    let sender = sender?;
    if settings.authserv_ids.is_empty() || settings.policy == Policy::Off {
        return None;
    }
    judge::judge(&results::trusted_results(header, &settings.authserv_ids), sender, settings.policy)
}

/// Why the envelope sender is taken for forged, if it is: by what trusted servers wrote; where they
/// wrote nothing about SPF, DKIM or DMARC, by own verification, within its time-out.
pub async fn examine(
    header: &Header<'_>,
    envelope: &Envelope,
    settings: &Settings,
) -> Option<String> {
    let (Some(verifier), Some(sender)) = (&settings.verifier, &envelope.sender) else {
        return forgery_reason(header, envelope.sender.as_ref(), settings);
    };
    if settings.policy == Policy::Off {
        return None;
    }
    let written = results::trusted_results(header, &settings.authserv_ids);
    if written.iter().any(|one| ["spf", "dkim", "dmarc"].contains(&one.method.as_str())) {
        return judge::judge(&written, sender, settings.policy);
    }
    let client = client::client(header, envelope, &settings.authserv_ids);
    verifier.forgery_reason(header, sender, client.as_ref(), settings.policy).await
}

#[cfg(test)]
mod tests;
