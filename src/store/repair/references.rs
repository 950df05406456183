//! Tells whether the object that a reference or a wake-up names exists.
//!
//! If the object's row cannot be read, the reference counts as right, so that a repair keeps it.
//! Shares are an exception (`shares_of`). A reference whose own key cannot be read names nothing.

use std::collections::BTreeSet;

use crate::model::{AccountId, ActionId, BlobHash, EmailId, Mailbox};
use crate::store::engine::RowReader;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{RowFormat as _, wake_condition};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{
    ActionBlobKey, ActionKey, DueKey, EmailKey, UploadBlobKey, UploadKey,
};
use crate::store::table::{
    EmailMetadata, Mailboxes, Outbox, OutboxBlobs, Table as _, UploadBlobs, Uploads, decode_key,
};

/// Whether an email, or its tombstone, has the message `blob`.
pub(in crate::store) fn is_email_blob(
    read: &dyn RowReader,
    account: AccountId,
    email: EmailId,
    blob: &BlobHash,
) -> Result<bool, Error> {
    let found = read.row_if_any::<EmailMetadata>(&EmailKey { account, email })?;
    Ok(found.is_some_and(|found| found.map_or(true, |email| email.blob == *blob)))
}

/// Whether an action is queued, and `wakeup` is the key of its row in `outbox_due`.
pub(in crate::store) fn is_wakeup(
    read: &dyn RowReader,
    account: AccountId,
    action: ActionId,
    wakeup: &[u8],
) -> Result<bool, Error> {
    let Some(found) = read.row_if_any::<Outbox>(&ActionKey { account, action })? else {
        return Ok(false);
    };
    let is_equal = |wake| DueKey { wake, account, action }.encode() == wakeup;
    Ok(found.map_or(true, |found| wake_condition(&found).is_some_and(is_equal)))
}

/// Whether the action that a key of `outbox_blobs` names is queued, and sends that message.
pub(in crate::store) fn is_action_blob(read: &dyn RowReader, hold: &[u8]) -> Result<bool, Error> {
    let Ok(ActionBlobKey { account, action, blob }) = decode_key::<OutboxBlobs>(hold) else {
        return Ok(false);
    };
    let found = read.row_if_any::<Outbox>(&ActionKey { account, action })?;
    Ok(found.is_some_and(|found| found.map_or(true, |found| found.blob == Some(blob))))
}

/// Whether the upload that a key of `upload_blobs` names exists.
pub(in crate::store) fn is_upload_blob(read: &dyn RowReader, hold: &[u8]) -> Result<bool, Error> {
    let Ok(UploadBlobKey { account, user, blob }) = decode_key::<UploadBlobs>(hold) else {
        return Ok(false);
    };
    Ok(read.bytes::<Uploads>(&UploadKey { account, user, blob })?.is_some())
}

/// Returns the users with whom an account shares mailboxes. Mailboxes that cannot be read are left
/// out.
pub(in crate::store) fn shares_of(
    read: &dyn RowReader,
    owner: AccountId,
) -> Result<BTreeSet<AccountId>, Error> {
    let mut with = BTreeSet::new();
    let range = KeyRange::<Mailboxes>::under(&(owner,));
    read.raw_rows(&range, |key, value| {
        if let Ok(row) = Mailbox::from_bytes(Mailboxes::ID, key, value)
            && !row.destroyed
        {
            with.extend(row.shares.keys().copied());
        }
        Ok(true)
    })?;
    Ok(with)
}
