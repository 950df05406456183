//! Reads the bytes of messages and uploads, whole or in part.
//!
//! - Ranges count bytes from 0, and their end is exclusive. What lies behind the last byte is left
//!   out: a range that is wholly behind it has no bytes, and is no error.
//! - `None` means that the email, its content, the upload, or the row of the bytes in `blobs` does
//!   not exist. If this row is damaged, or bytes that it names are missing or damaged, or cannot be
//!   read from a segment, the error is `Corrupt`.

use std::ops::Range;

use super::pack::read_packed;
use crate::model::{AccountId, BlobHash, EmailId};
use crate::store::engine::typed::TypedRead as _;
use crate::store::engine::{RowReader, Table};
use crate::store::error::{Error, hex};
use crate::store::row::{BlobBytes, BlobRow, FRAME_BYTES, UploadRow, decode_frame};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{BlobFrameKey, BlobKey, UploadKey};
use crate::store::table::{BlobFrames, Blobs, Uploads};
use crate::store::txn::snapshot::Snapshot;

impl Snapshot<'_> {
    /// Returns the bytes of an email: its trace prefix, then the message as received. `None` if the
    /// email is destroyed or does not exist, or if its content or its message is missing.
    ///
    /// # Errors
    /// Those of reading.
    pub fn message(&self, account: AccountId, id: EmailId) -> Result<Option<Vec<u8>>, Error> {
        self.message_part(account, id, 0..u64::MAX)
    }

    /// Returns the bytes of an email in a range, which counts from the beginning of the trace
    /// prefix; `None` as `message` does. Of a message of more than 128 KiB, reads only the parts
    /// of 128 KiB that the range touches. If the range ends in the trace prefix, the message is not
    /// read, and may be missing.
    ///
    /// # Errors
    /// Those of reading.
    pub fn message_part(
        &self,
        account: AccountId,
        id: EmailId,
        range: Range<u64>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let Some(email) = self.email(account, id)? else { return Ok(None) };
        let Some((prefix, _)) = self.content(account, id)? else { return Ok(None) };
        let length = prefix.len() as u64;
        let mut bytes = part(&prefix, &range).to_vec();
        let rest = range.start.saturating_sub(length)..range.end.saturating_sub(length);
        if rest.is_empty() {
            return Ok(Some(bytes));
        }
        let found = append(&*self.read, &email.blob, rest, &mut bytes)?;
        Ok(found.then_some(bytes))
    }

    /// Returns a message as it was received, without the trace prefix of an email.
    ///
    /// # Errors
    /// Those of reading.
    pub fn raw_message(&self, blob: &BlobHash) -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = Vec::new();
        Ok(append(&*self.read, blob, 0..u64::MAX, &mut bytes)?.then_some(bytes))
    }

    /// Returns the beginning of a message as it was received. Reads `FRAME_BYTES` (128 KiB) at a
    /// time, gives all bytes read so far to `is_enough`, and stops when that returns `true`, or at
    /// the end. So a message of at most `FRAME_BYTES` is returned whole.
    ///
    /// # Errors
    /// Those of reading.
    pub fn raw_message_until(
        &self,
        blob: &BlobHash,
        is_enough: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = Vec::new();
        loop {
            let before = bytes.len();
            let frame = before as u64..(before as u64).saturating_add(FRAME_BYTES as u64);
            if !append(&*self.read, blob, frame, &mut bytes)? {
                return Ok(None);
            }
            if bytes.len() == before || is_enough(&bytes) {
                return Ok(Some(bytes));
            }
        }
    }

    /// Returns the row of an upload; `None` if `user` did not upload these bytes to `account`, or
    /// if the upload was deleted: to make room, by `expire_uploads`, or by a repair.
    ///
    /// # Errors
    /// Those of reading.
    pub fn upload(
        &self,
        account: AccountId,
        user: AccountId,
        hash: &BlobHash,
    ) -> Result<Option<UploadRow>, Error> {
        self.read.row::<Uploads>(&UploadKey { account, user, blob: *hash })
    }

    /// Returns the bytes of an upload in a range; `None` if `upload` returns none, or if `blobs`
    /// has no row of the bytes.
    ///
    /// # Errors
    /// Those of reading.
    pub fn upload_part(
        &self,
        account: AccountId,
        user: AccountId,
        hash: &BlobHash,
        range: Range<u64>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = Vec::new();
        let found = self.upload(account, user, hash)?.is_some()
            && append(&*self.read, hash, range, &mut bytes)?;
        Ok(found.then_some(bytes))
    }
}

/// Appends the bytes of a blob in a range to `out`, and returns whether the blob exists. After an
/// error, `out` may have some of them.
pub(in crate::store) fn append(
    read: &dyn RowReader,
    hash: &BlobHash,
    range: Range<u64>,
    out: &mut Vec<u8>,
) -> Result<bool, Error> {
    let Some(row) = read.bytes::<Blobs>(&BlobKey { blob: *hash })? else { return Ok(false) };
    append_from_row(read, hash, &row, range, out)?;
    Ok(true)
}

/// Returns the number of bytes of a blob; `None` if it does not exist.
pub(in crate::store) fn length(
    read: &dyn RowReader,
    hash: &BlobHash,
) -> Result<Option<u64>, Error> {
    read.row_with::<Blobs, _>(&BlobKey { blob: *hash }, |key, row| {
        Ok(BlobRow::decode(key, row)?.bytes.len())
    })
}

/// Returns the bytes of a blob whose `blobs` row was read.
pub(in crate::store) fn whole(
    read: &dyn RowReader,
    hash: &BlobHash,
    row: &[u8],
) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    append_from_row(read, hash, row, 0..u64::MAX, &mut out)?;
    Ok(out)
}

/// Appends the bytes in a range of a blob whose `blobs` row was read.
fn append_from_row(
    read: &dyn RowReader,
    hash: &BlobHash,
    row: &[u8],
    range: Range<u64>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let segments = || {
        let none = || Error::Io("a message is in a segment, and this engine has none".into());
        read.segments().ok_or_else(none)
    };
    let corrupt = |what| Error::Corrupt { table: Table::Blobs.name(), key: hex(&hash.0), what };
    let length = match BlobRow::decode(&BlobKey { blob: *hash }.encode(), row)?.bytes {
        BlobBytes::Inline(raw) => {
            out.extend_from_slice(part(raw, &range));
            return Ok(());
        }
        BlobBytes::Located(extent) => {
            return segments()?.read(&extent, &range, out).map_err(corrupt);
        }
        BlobBytes::Packed { length, .. } if range.start >= range.end.min(length) => return Ok(()),
        BlobBytes::Packed { extent, length } => {
            let raw = read_packed(segments()?, &extent, length).map_err(corrupt)?;
            out.extend_from_slice(part(&raw, &range));
            return Ok(());
        }
        BlobBytes::Framed(length) => length,
    };
    let end = range.end.min(length);
    let mut at = range.start;
    while at < end {
        let number = at / FRAME_BYTES as u64;
        let begin = number * FRAME_BYTES as u64;
        let key = BlobFrameKey { blob: *hash, number: u32::try_from(number).unwrap_or(u32::MAX) };
        let corrupt = |what: &str| Error::Corrupt {
            table: Table::BlobFrames.name(),
            key: hex(&key.encode()),
            what: what.to_owned(),
        };
        let row = read
            .bytes::<BlobFrames>(&key)?
            .ok_or_else(|| corrupt("a frame of a message is missing"))?;
        let frame = decode_frame(&key.encode(), &row)?;
        if frame.len() as u64 != (length - begin).min(FRAME_BYTES as u64) {
            return Err(corrupt("a frame of a message is too short or too long"));
        }
        out.extend_from_slice(part(frame, &(at - begin..end - begin)));
        at = begin + FRAME_BYTES as u64;
    }
    Ok(())
}

/// Returns the bytes in a range, as far as there are any.
pub(in crate::store) fn part<'a>(bytes: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    bytes.get(clamp(range.start)..clamp(range.end)).unwrap_or_default()
}
