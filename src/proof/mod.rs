//! Decides whether the envelope sender of a message is forged, and signs what this server sends.
//!
//! - Results of a trusted server before this one (RFC 8601) are believed.
//! - If there are none, and the site wants it, the message is verified here.
//! - The envelope sender is judged, and not the From field, since a reply goes to the envelope
//!   sender.

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

#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The servers whose Authentication-Results fields are trusted, by their authserv-ids (RFC 8601
    /// §2.5).
    pub authserv_ids: Vec<String>,
    pub policy: Policy,
    /// Verifies messages that have no result of SPF, DKIM or DMARC by a trusted server. `None`:
    /// nothing is verified here.
    pub verifier: Option<Arc<Verifier>>,
}

/// Returns why the envelope sender is forged according to the results of trusted servers. `None` if
/// it is not, if there is no envelope sender or no trusted server, and with `Policy::Off`. Received
/// mail goes through `examine`, which may also verify; this part of it is public for the fuzzer.
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

/// Returns why the envelope sender counts as forged, or `None` if it does not, if there is none, or
/// with `Policy::Off`. If trusted servers say nothing about SPF, DKIM or DMARC,
/// `Settings::verifier`, if there is one, asks name servers, for at most `VerifySettings::timeout`.
/// Without a verifier, does the same as `forgery_reason`.
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
    let trusted = results::trusted_results(header, &settings.authserv_ids);
    if trusted.iter().any(|one| ["spf", "dkim", "dmarc"].contains(&one.method.as_str())) {
        return judge::judge(&trusted, sender, settings.policy);
    }
    let spf_client = client::client(header, envelope, &settings.authserv_ids);
    verifier.forgery_reason(header, sender, spf_client.as_ref(), settings.policy).await
}

#[cfg(test)]
mod tests;
