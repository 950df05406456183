//! Decides whether the envelope sender of a message is forged, and signs what this server sends.
//!
//! - `results` reads what a trusted server before this one found (RFC 8601). That is believed.
//! - `verify` verifies the message here, if no trusted server wrote results and the site wants it.
//! - `judge` decides by the policy of the site whether the results make the envelope sender a
//!   forger. The envelope sender is judged since a reply goes there.
//! - `sign` makes DKIM signatures.
//!
//! Only this room uses the mail-auth library.

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

/// Whose results are trusted, and what makes a sender a forger.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub authserv_ids: Vec<String>,
    pub policy: Policy,
    /// Verifies messages without results of a trusted server. Without a verifier and without
    /// authserv-ids, no sender counts as forged.
    pub verifier: Option<Arc<Verifier>>,
}

/// Returns why the results of trusted servers make the envelope sender a forger, or `None` if they
/// do not.
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

/// Returns why the envelope sender counts as forged, or `None` if it does not. Results of trusted
/// servers decide; if they say nothing about SPF, DKIM or DMARC, the message is verified here,
/// within the time-out.
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
