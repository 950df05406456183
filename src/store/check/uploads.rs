//! Uploads: each holds its octets, and these are there.

use super::rows::Rows;
use super::{Checker, Fault, Hear, Mend, Pace};
use crate::model::{AccountId, BlobHash};
use crate::store::engine::{Read, Table};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Blob, Row, Upload};

impl Checker<'_> {
    /// One that cannot be read or whose octets are gone says nothing any more: who uploaded it does so again.
    pub(super) fn uploads(&self) -> Result<(), Error> {
        let mut rows = self.rows(Table::Uploads, &key::account(self.account));
        while let Some((key, value)) = rows.next()? {
            let (Some((user, hash)), Ok(upload)) = (whose(&key), Upload::decode(&key, &value)) else {
                self.say(Table::Uploads, &key, "cannot be read: it must be uploaded again", Mend::Delete)?;
                continue;
            };
            let blob = key::blob(&hash);
            let row = self.read.get(Table::Blobs, &blob)?;
            let Some(Ok(size)) = row.map(|row| Blob::decode(&blob, &row).map(|blob| blob.octets.len())) else {
                let what = "its octets are missing or cannot be read: it must be uploaded again";
                self.say(Table::Uploads, &key, what, Mend::Delete)?;
                continue;
            };
            if size != upload.size {
                let mend = Mend::Put(Upload { size, ..upload.clone() }.encode());
                self.say(Table::Uploads, &key, format!("says {} octets, has {size}", upload.size), mend)?;
            }
            let hold = key::upload_blob(&hash, self.account, user);
            let found = self.read.get(Table::UploadBlobs, &hold)?;
            self.expect(Table::UploadBlobs, &hold, found.as_deref(), vec![1])?;
        }
        Ok(())
    }
}

fn whose(key: &[u8]) -> Option<(AccountId, BlobHash)> {
    let mut parts = Parts::of(Table::Uploads, key);
    let (hash, user) = (parts.take().ok()?, parts.u32().ok()?);
    (key.len() == 40).then_some((AccountId(user), BlobHash(hash)))
}

/// Whose hold it is: account, user, octets.
pub(in crate::store) fn uploaded_by(hold: &[u8]) -> Option<(AccountId, AccountId, BlobHash)> {
    let mut parts = Parts::of(Table::UploadBlobs, hold);
    let (user, account, hash) = (parts.u32().ok()?, parts.u32().ok()?, parts.take().ok()?);
    (hold.len() == 40).then_some((AccountId(account), AccountId(user), BlobHash(hash)))
}

/// Whether there is the upload that a hold is of.
pub(in crate::store) fn is_upload(read: &dyn Read, hold: &[u8]) -> Result<bool, Error> {
    let Some((account, user, hash)) = uploaded_by(hold) else { return Ok(false) };
    Ok(read.get(Table::Uploads, &key::upload(account, user, &hash))?.is_some())
}

/// Every hold is of an upload that there is.
pub(super) fn holds(read: &dyn Read, run: &dyn Pace, hear: &mut Hear<'_>) -> Result<(), Error> {
    let mut holds = Rows::new(read, run, Table::UploadBlobs, &[]);
    while let Some((key, _)) = holds.next()? {
        if !is_upload(read, &key)? {
            let account = uploaded_by(&key).map_or(AccountId::SITE, |(account, ..)| account);
            let what = "holds octets for an upload that there is not".into();
            hear(Fault { account, table: Table::UploadBlobs, key, what, mend: Mend::Delete, history: false })?;
        }
    }
    Ok(())
}
