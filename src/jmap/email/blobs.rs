//! The octets of a blob whose id a client wrote: what an email is made of, imported or parsed from.

use crate::jmap::context::{Account, Context};
use crate::model::BlobId;
use crate::wire::jmap::MethodError;

/// The octets; `None` where there is no such blob for the caller.
///
/// # Errors
/// Those of reading; `requestTooLarge` where the request may not read so much.
pub(super) fn octets(context: &Context, account: &Account, id: &str) -> Result<Option<Vec<u8>>, MethodError> {
    match id.parse::<BlobId>() {
        // How large it may be is said where it is put to use.
        Ok(id) => context.blob_octets(account, &id, u64::MAX),
        Err(_) => Ok(None),
    }
}

/// Whether there is such a blob for the caller.
///
/// # Errors
/// Those of reading.
pub(super) fn is_there(context: &Context, account: &Account, id: &str) -> Result<bool, MethodError> {
    match id.parse::<BlobId>() {
        Ok(id) => context.blob(account, &id).map(|blob| blob.is_some()),
        Err(_) => Ok(false),
    }
}
