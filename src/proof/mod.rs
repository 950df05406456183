//! Decides whether the envelope sender of a message is forged, and signs what this server sends.
//!
//! - `results` reads what a trusted server before this one found (RFC 8601). That is believed.
//! - `verify` verifies the message here, if no trusted server wrote results and the site wants it.
//! - `judge` decides by the policy of the site whether the results show that the envelope sender is
//!   forged. The envelope sender is judged, and not the From field, since a reply goes there.
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

/// Whose results are trusted, and which results show that a sender is forged.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The servers whose Authentication-Results fields are trusted, by their authserv-ids (RFC 8601
    /// §2.5). Empty: no such field is trusted.
    pub authserv_ids: Vec<String>,
    pub policy: Policy,
    /// Verifies each message that has no result of SPF, DKIM or DMARC by a trusted server. `None`:
    /// nothing is verified here, and if there is no authserv-id either, no sender counts as forged.
    pub verifier: Option<Arc<Verifier>>,
}

/// Returns why the envelope sender is forged according to the results of trusted servers in the
/// header, or `None` if it is not. Also `None` without an envelope sender, with `Policy::Off`, and
/// if no server is trusted. Nothing is verified here: `examine` does that, too.
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
/// with `Policy::Off`. Results of trusted servers decide. If they say nothing about SPF, DKIM or
/// DMARC, the verifier asks name servers, for at most `VerifySettings::timeout`.
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
