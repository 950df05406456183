//! The octets of messages: whole, or the part that is asked for.

use std::ops::Range;

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
    /// The octets of an email: its trace prefix and the message as received.
    ///
    /// # Errors
    /// Those of reading; so for every function here.
    pub fn message(&self, account: AccountId, id: EmailId) -> Result<Option<Vec<u8>>, Error> {
        self.message_part(account, id, 0..u64::MAX)
    }

    /// Those of its octets that lie in a range; of what lies behind its end there are none. Only
    /// the frames that the range touches are read.
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
        let mut octets = part(&prefix, &range).to_vec();
        let rest = range.start.saturating_sub(length)..range.end.saturating_sub(length);
        if rest.is_empty() {
            return Ok(Some(octets));
        }
        let found = append(&*self.read, &email.blob, rest, &mut octets)?;
        Ok(found.then_some(octets))
    }

    /// A message as it was received, without any email's trace prefix.
    ///
    /// # Errors
    /// Those of reading.
    pub fn raw_message(&self, blob: &BlobHash) -> Result<Option<Vec<u8>>, Error> {
        let mut octets = Vec::new();
        Ok(append(&*self.read, blob, 0..u64::MAX, &mut octets)?.then_some(octets))
    }

    /// The beginning of a message as it was received: a long one is read frame by frame until
    /// `is_enough` says so of what was read.
    ///
    /// # Errors
    /// Those of reading.
    pub fn raw_message_until(
        &self,
        blob: &BlobHash,
        is_enough: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut octets = Vec::new();
        loop {
            let before = octets.len();
            let frame = before as u64..(before as u64).saturating_add(FRAME_BYTES as u64);
            if !append(&*self.read, blob, frame, &mut octets)? {
                return Ok(None);
            }
            if octets.len() == before || is_enough(&octets) {
                return Ok(Some(octets));
            }
        }
    }

    /// What a user uploaded to an account; nobody else has it.
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

    /// Those of its octets that lie in a range, as of `message_part`.
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
        let mut octets = Vec::new();
        let found = self.upload(account, user, hash)?.is_some()
            && append(&*self.read, hash, range, &mut octets)?;
        Ok(found.then_some(octets))
    }
}

/// Appends the octets of a blob that lie in a range; says whether there is such a blob.
pub(in crate::store) fn append(
    read: &dyn RowReader,
    hash: &BlobHash,
    range: Range<u64>,
    out: &mut Vec<u8>,
) -> Result<bool, Error> {
    let Some(row) = read.bytes::<Blobs>(&BlobKey { blob: *hash })? else { return Ok(false) };
    octets_of(read, hash, &row, range, out)?;
    Ok(true)
}

/// How many bytes a blob has; `None` where there is no such blob.
pub(in crate::store) fn length(
    read: &dyn RowReader,
    hash: &BlobHash,
) -> Result<Option<u64>, Error> {
    read.row_with::<Blobs, _>(&BlobKey { blob: *hash }, |key, row| {
        Ok(BlobRow::decode(key, row)?.bytes.len())
    })
}

/// The octets of a blob, by its row.
pub(in crate::store) fn whole(
    read: &dyn RowReader,
    hash: &BlobHash,
    row: &[u8],
) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    octets_of(read, hash, row, 0..u64::MAX, &mut out)?;
    Ok(out)
}

/// Appends the octets of a blob, by its row, that lie in a range.
fn octets_of(
    read: &dyn RowReader,
    hash: &BlobHash,
    row: &[u8],
    range: Range<u64>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let length = match BlobRow::decode(&BlobKey { blob: *hash }.encode(), row)?.bytes {
        BlobBytes::Inline(raw) => {
            out.extend_from_slice(part(raw, &range));
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
        let broken = |what: &str| Error::Corrupt {
            table: Table::BlobFrames.name(),
            key: hex(&key.encode()),
            what: what.to_owned(),
        };
        let row = read
            .bytes::<BlobFrames>(&key)?
            .ok_or_else(|| broken("a frame of a message is missing"))?;
        let frame = decode_frame(&key.encode(), &row)?;
        if frame.len() as u64 != (length - begin).min(FRAME_BYTES as u64) {
            return Err(broken("a frame of a message is too short or too long"));
        }
        out.extend_from_slice(part(frame, &(at - begin..end - begin)));
        at = begin + FRAME_BYTES as u64;
    }
    Ok(())
}

fn part<'a>(octets: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let within = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(octets.len());
    octets.get(within(range.start)..within(range.end)).unwrap_or_default()
}
