//! A message as it goes out: with our DKIM signatures on top, where the domain of its From has keys.

use crate::model::{Action, ActionKind};
use crate::proof::Signer;

/// The octets to send of an action whose message is `message`. Only what was composed here is signed: what is sent on for
/// somebody else may bear our domain in its From without being ours. Where a key fails it goes unsigned, with a warning: a
/// reply that waits for an administrator is no reply any more, and an unsigned one is what every site without keys sends.
pub(super) fn signed(signer: Option<&Signer>, action: &Action, message: Vec<u8>) -> Vec<u8> {
    let signer = signer.filter(|_| action.kind != ActionKind::Redirect);
    match signer.map(|signer| signer.sign(&message)) {
        Some(Ok(Some(signatures))) => [&signatures[..], &message].concat(),
        Some(Err(error)) => {
            tracing::warn!(action = %action.id, %error, "not signed: it goes without a signature");
            message
        }
        Some(Ok(None)) | None => message,
    }
}
