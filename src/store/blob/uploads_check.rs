//! Checks uploads: the row of each one's bytes exists and has the size that the upload says, each
//! refers to its bytes (`upload_blobs`), and each such reference belongs to an upload. The bytes
//! themselves are checked with the messages (`check_messages`).

use crate::model::{AccountId, BlobHash};
use crate::store::engine::typed::TypedRead as _;
use crate::store::engine::{RowReader, Table};
use crate::store::error::Error;
use crate::store::repair::check::rows::{Found, RowCursor};
use crate::store::repair::check::{CheckObserver, Checker, FaultFn, RowFault, RowFix};
use crate::store::repair::references::is_upload_blob;
use crate::store::row::{BlobRow, RowFormat as _, UploadRow};
use crate::store::table::keys::{BlobKey, UploadBlobKey, UploadKey};
use crate::store::table::{Blobs, Present, UploadBlobs, Uploads, decode_key};

impl Checker<'_> {
    /// Checks the uploads of the account. A repair deletes an upload if its row is damaged, or the
    /// row of its bytes in `blobs` is missing or damaged: the client must upload it again. It
    /// corrects a wrong size and writes a missing reference.
    pub(in crate::store) fn check_uploads(&self) -> Result<(), Error> {
        let mut rows = self.rows::<Uploads>();
        while let Some(found) = rows.next()? {
            let key = found.key.as_slice();
            let (Some(UploadKey { account, user, blob }), Ok(upload)) = (found.id(), found.row())
            else {
                self.report(
                    Table::Uploads,
                    key,
                    "cannot be read: it must be uploaded again",
                    RowFix::Delete,
                )?;
                continue;
            };
            let size = self.read.row_with::<Blobs, _>(&BlobKey { blob }, |key, row| {
                Ok(BlobRow::decode(key, row).map(|blob| blob.bytes.len()))
            })?;
            let Some(Ok(size)) = size else {
                let what = "its bytes are missing or cannot be read: it must be uploaded again";
                self.report(Table::Uploads, key, what, RowFix::Delete)?;
                continue;
            };
            if size != upload.size {
                let fix = RowFix::Put(UploadRow { size, ..upload.clone() }.to_bytes());
                self.report(
                    Table::Uploads,
                    key,
                    format!("says {} bytes, has {size}", upload.size),
                    fix,
                )?;
            }
            self.expect_row::<UploadBlobs>(&UploadBlobKey { blob, account, user }, &Present)?;
        }
        Ok(())
    }
}

/// Decodes the key of a reference into account, user and hash.
fn uploaded_by(key: &[u8]) -> Option<(AccountId, AccountId, BlobHash)> {
    decode_key::<UploadBlobs>(key).ok().map(|key| (key.account, key.user, key.blob))
}

/// Checks that every reference to uploaded bytes, of all accounts, belongs to an existing upload. A
/// repair deletes the others.
pub(in crate::store) fn check_upload_blobs(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    on_fault: &mut FaultFn<'_>,
) -> Result<(), Error> {
    let mut references = RowCursor::<UploadBlobs>::of_table(read, run);
    while let Some(Found { key, .. }) = references.next()? {
        if !is_upload_blob(read, &key)? {
            let account = uploaded_by(&key).map_or(AccountId::SITE, |(account, ..)| account);
            let what = "refers to bytes for an upload that does not exist".into();
            on_fault(RowFault {
                account,
                table: Table::UploadBlobs,
                key,
                what,
                fix: RowFix::Delete,
                seen_by_clients: false,
            })?;
        }
    }
    Ok(())
}
