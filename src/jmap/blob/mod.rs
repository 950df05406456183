//! Finds, reads and stores blobs: bytes with an id (RFC 8620 §6).
//!
//! - The blobs of an email are found by callers who may read the email, an upload only by its
//!   uploader, the source of a Sieve script by everyone who is no guest.
//! - A blob id says where the bytes are: in an email or an upload, and by which steps its parts are
//!   reached (`model::BlobId`). The bytes are read in pieces.
//! - To find a part of an upload, or of a message within a message, the whole message is read and
//!   parsed.
//! - Bytes that a method reads are charged to the request (`budget`) before they are read: the
//!   functions of `Context` do that, the public ones of `Blob` do not. For a download
//!   (`net::http`), only what must be read to find the blob is charged.

mod copy;
mod management;

use std::ops::Range;

pub(super) use copy::BlobCopy;
pub(super) use management::{BlobGet, BlobLookup, BlobUpload};
pub(super) use management::{LOOKUP_TYPES, MAX_DATA_SOURCES, digest_algorithms, max_blob_set};

use crate::message::Message;
use crate::message::decode::Decoder;
use crate::model::{AccountId, BlobBase, BlobHash, BlobId, EmailId, ObjectId, PartOffsets, limits};
use crate::store::{Error, Store};

use super::context::{Account, Context};
use super::rights::Rights;
use super::uploads::UploadRateExceeded;
use crate::wire::jmap::MethodError;

/// The media type of Sieve scripts (RFC 5228 §6).
const SCRIPT_MEDIA_TYPE: &str = "application/sieve";
/// How many bytes are read from the store at once: as many as have one checksum in a segment.
const READ_CHUNK: u64 = 128 * 1024;

#[derive(Debug, Clone)]
pub struct Blob {
    location: BlobLocation,
    /// Known of an upload and of a script; `None` for emails and all parts.
    media_type: Option<String>,
}

/// Where the bytes of a blob are. `window` counts bytes before they are decoded. `encoding` is that
/// of `PartOffsets`; 0 is none.
#[derive(Debug, Clone)]
enum BlobLocation {
    /// The bytes of `window` in an email, an upload or a script.
    Stored { account: AccountId, source: BlobSource, window: Range<u64>, encoding: u8 },
    /// The bytes of `window` in the decoded content of another blob.
    Within { outer: Box<Blob>, window: Range<u64>, encoding: u8 },
}

#[derive(Debug, Clone, Copy)]
enum BlobSource {
    Email(EmailId),
    /// The user who made the upload, and the hash of its bytes.
    Upload(AccountId, BlobHash),
    /// The source of a Sieve script, and its hash.
    Script(ObjectId, BlobHash),
}

impl Context {
    /// Returns the user to whom uploads into an account belong: the account that logged in or,
    /// without one, the account itself.
    #[must_use]
    pub fn uploader(&self, account: AccountId) -> AccountId {
        self.caller.account.unwrap_or(account)
    }

    /// Counts an upload into an account, except by an administrator.
    ///
    /// # Errors
    /// `UploadRateExceeded` if the uploader must wait first.
    pub fn begin_upload(&self, account: AccountId) -> Result<(), UploadRateExceeded> {
        if self.caller.admin {
            Ok(())
        } else {
            self.upload_rates.begin(self.uploader(account), &self.uploads)
        }
    }

    /// Counts the bytes of an upload, except by an administrator.
    pub fn count_uploaded_bytes(&self, account: AccountId, bytes: usize) {
        if !self.caller.admin {
            self.upload_rates.add_bytes(self.uploader(account), bytes as u64, &self.uploads);
        }
    }

    /// Finds a blob in an account; `None` if there is none for the caller. Charges what must be
    /// read for that.
    ///
    /// # Errors
    /// `RequestTooLarge` if the request may not read so much; those of reading.
    pub fn blob(&self, account: &Account, id: &BlobId) -> Result<Option<Blob>, MethodError> {
        Blob::find(self, account, id)
    }

    /// Returns a bound for the bytes of a message that must be parsed to find a blob: 0 if no
    /// message must be parsed, or if the email, upload or script at the beginning of the id is not
    /// found.
    ///
    /// # Errors
    /// Those of reading.
    pub fn memory_to_find_blob(&self, account: &Account, id: &BlobId) -> Result<u64, MethodError> {
        let base = Blob::base(self, account, &id.base, &id.parts)?;
        Ok(base
            .filter(|(_, rest)| !rest.is_empty())
            .map_or(0, |(found, _)| found.cost(&(0..u64::MAX))))
    }

    /// Reads all bytes of a blob; `None` if there is no such blob, or it is larger than `max`.
    ///
    /// # Errors
    /// As `blob`.
    pub fn blob_bytes(
        &self,
        account: &Account,
        id: &BlobId,
        max: u64,
    ) -> Result<Option<Vec<u8>>, MethodError> {
        match self.blob(account, id)? {
            Some(blob) => {
                self.budget.charge_read(blob.cost(&(0..u64::MAX)).min(max))?;
                Ok(blob.read_all(&self.store, max)?)
            }
            None => Ok(None),
        }
    }

    /// Reads the blob with the id that a client wrote; `None` if there is none for the caller.
    pub(super) fn bytes_by_id(
        &self,
        account: &Account,
        id: &str,
    ) -> Result<Option<Vec<u8>>, MethodError> {
        match id.parse::<BlobId>() {
            Ok(id) => self.blob_bytes(account, &id, u64::MAX),
            Err(_) => Ok(None),
        }
    }

    pub(super) fn has_blob(&self, account: &Account, id: &str) -> Result<bool, MethodError> {
        match id.parse::<BlobId>() {
            Ok(id) => self.blob(account, &id).map(|blob| blob.is_some()),
            Err(_) => Ok(false),
        }
    }

    /// Reads a range of a blob, as far as the blob goes. Charges what must be read for that.
    pub(super) fn blob_range(&self, blob: Blob, range: Range<u64>) -> Result<Vec<u8>, MethodError> {
        self.budget.charge_read(blob.cost(&range))?;
        let (mut reader, mut bytes) = (blob.reader(range), Vec::new());
        while let Some(piece) = reader.next(&self.store)? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    /// Returns the size of a blob in bytes. An encoded part is read for that.
    pub(super) fn blob_size(&self, blob: &Blob) -> Result<u64, MethodError> {
        if blob.is_encoded() {
            self.budget.charge_read(blob.cost(&(0..u64::MAX)))?;
        }
        Ok(blob.size(&self.store)?)
    }

    /// Stores bytes as an upload, and waits until it is durable. Deletes older uploads of the user
    /// to make room.
    ///
    /// # Errors
    /// `Quota` if `raw` alone is more than a user may have uploaded; `Conflict` if the media type
    /// is malformed; those of the store.
    pub fn keep_upload(
        &self,
        account: AccountId,
        raw: &[u8],
        media_type: &str,
    ) -> Result<BlobId, Error> {
        let hash = BlobHash(*blake3::hash(raw).as_bytes());
        let user = self.uploader(account);
        let (_, ticket) = self.store.commit(account, |txn| {
            txn.put_upload(user, &hash, raw, media_type, limits::MAX_UPLOADED_BYTES)
        })?;
        ticket.wait_blocking()?;
        Ok(BlobId::upload(hash))
    }
}

impl Blob {
    fn find(context: &Context, owner: &Account, id: &BlobId) -> Result<Option<Self>, MethodError> {
        let steps = id.parts.as_slice();
        let Some((found, rest)) = Self::base(context, owner, &id.base, steps)? else {
            return Ok(None);
        };
        found.within(context, rest)
    }

    /// Finds the email, the direct part of an email, the upload, or the script with which an id
    /// begins; `None` if there is none for the caller. Also returns the remaining steps, which lead
    /// into nested parts.
    fn base<'s>(
        context: &Context,
        owner: &Account,
        base: &BlobBase,
        steps: &'s [u32],
    ) -> Result<Option<(Self, &'s [u32])>, Error> {
        let (snapshot, account) = (context.store.snapshot(), owner.id);
        match *base {
            BlobBase::Email(email) => {
                let row = snapshot.email(account, email)?;
                let rights = Rights::in_account(&snapshot, owner)?;
                let Some(row) = row.filter(|row| rights.may_read_email(row)) else {
                    return Ok(None);
                };
                let source = BlobSource::Email(email);
                let Some((first, rest)) = steps.split_first() else {
                    return Ok(Some((Self::stored(account, source, 0..row.size, 0), steps)));
                };
                let Some((prefix, content)) = snapshot.content(account, email)? else {
                    return Ok(None);
                };
                let found =
                    usize::try_from(*first).ok().and_then(|number| content.parts.get(number));
                let Some(part) = found else { return Ok(None) };
                // Offsets count from the raw message, after the trace prefix.
                let window = within_window(&(prefix.len() as u64..row.size), part);
                Ok(Some((Self::stored(account, source, window, part.encoding), rest)))
            }
            BlobBase::Upload(hash) => {
                let user = context.uploader(account);
                if let Some(row) = snapshot.upload(account, user, &hash)? {
                    let source = BlobSource::Upload(user, hash);
                    let blob = Self::stored(account, source, 0..row.size, 0);
                    return Ok(Some((Self { media_type: Some(row.media_type), ..blob }, steps)));
                }
                // A script has the blob id that an upload of the same bytes has.
                if owner.guest.is_some() {
                    return Ok(None);
                }
                let script = snapshot.script_by_hash(account, &hash)?;
                Ok(script.map(|(id, script)| {
                    let source = BlobSource::Script(id, hash);
                    let blob = Self::stored(account, source, 0..script.size, 0);
                    (Self { media_type: Some(SCRIPT_MEDIA_TYPE.to_owned()), ..blob }, steps)
                }))
            }
        }
    }

    fn stored(account: AccountId, source: BlobSource, window: Range<u64>, encoding: u8) -> Self {
        Self {
            location: BlobLocation::Stored { account, source, window, encoding },
            media_type: None,
        }
    }

    /// Finds the part of a message to which the steps lead. Parses each message on the way. `None`
    /// if there is no such part, or a message on the way is larger than `MAX_MESSAGE_BYTES`.
    fn within(self, context: &Context, steps: &[u32]) -> Result<Option<Self>, MethodError> {
        let mut blob = self;
        for step in steps {
            context.budget.charge_read(blob.cost(&(0..u64::MAX)))?;
            let raw = blob.read_all(&context.store, limits::MAX_MESSAGE_BYTES)?;
            let Some(raw) = raw else { return Ok(None) };
            let parts = Message::parse(&raw).parts();
            let Some(part) = usize::try_from(*step).ok().and_then(|step| parts.get(step)) else {
                return Ok(None);
            };
            blob = match &blob.location {
                BlobLocation::Stored { account, source, window, encoding: 0 } => {
                    Self::stored(*account, *source, within_window(window, part), part.encoding)
                }
                _ => {
                    let window = within_window(&(0..raw.len() as u64), part);
                    let location = BlobLocation::Within {
                        outer: Box::new(blob),
                        window,
                        encoding: part.encoding,
                    };
                    Self { location, media_type: None }
                }
            };
        }
        Ok(Some(blob))
    }

    /// Returns how many bytes at most are read from the store for a range of the blob.
    fn cost(&self, range: &Range<u64>) -> u64 {
        match &self.location {
            BlobLocation::Within { outer, .. } => outer.cost(&(0..u64::MAX)),
            BlobLocation::Stored { window, encoding: 0, .. } => {
                range.end.min(window.end.saturating_sub(window.start)).saturating_sub(range.start)
            }
            BlobLocation::Stored { window, .. } => window.end.saturating_sub(window.start),
        }
    }

    fn is_encoded(&self) -> bool {
        match &self.location {
            BlobLocation::Stored { encoding, .. } | BlobLocation::Within { encoding, .. } => {
                *encoding != 0
            }
        }
    }

    fn is_upload(&self) -> bool {
        let source = match &self.location {
            BlobLocation::Stored { source, .. } => Some(source),
            BlobLocation::Within { .. } => None,
        };
        matches!(source, Some(BlobSource::Upload(..)))
    }

    #[must_use]
    pub fn media_type(&self) -> Option<&str> {
        self.media_type.as_deref()
    }

    /// Returns the number of bytes of the decoded blob. For an encoded part, reads and decodes all
    /// of it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn size(&self, store: &Store) -> Result<u64, Error> {
        match &self.location {
            BlobLocation::Stored { window, encoding: 0, .. }
            | BlobLocation::Within { window, encoding: 0, .. } => {
                Ok(window.end.saturating_sub(window.start))
            }
            BlobLocation::Stored { .. } | BlobLocation::Within { .. } => {
                let (mut reader, mut size) = (self.clone().reader(0..u64::MAX), 0);
                while let Some(piece) = reader.next(store)? {
                    size += piece.len() as u64;
                }
                Ok(size)
            }
        }
    }

    /// Reads the whole blob; `None` if it is larger than `max`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_all(&self, store: &Store, max: u64) -> Result<Option<Vec<u8>>, Error> {
        let (mut reader, mut all) = (self.clone().reader(0..u64::MAX), Vec::new());
        while let Some(piece) = reader.next(store)? {
            all.extend_from_slice(&piece);
            if all.len() as u64 > max {
                return Ok(None);
            }
        }
        Ok(Some(all))
    }

    /// Returns a reader for a range of the blob, as far as the blob goes.
    #[must_use]
    pub fn reader(self, range: Range<u64>) -> BlobReader {
        let left = range.end.saturating_sub(range.start);
        // Returns where to begin to read, and how many decoded bytes to skip. Where a range begins
        // in encoded bytes is not known, so these are decoded from the beginning of the window.
        let from = |window: &Range<u64>, encoding: u8| {
            let skip = if encoding == 0 { 0 } else { range.start };
            let at =
                if encoding == 0 { window.start.saturating_add(range.start) } else { window.start };
            (at, skip)
        };
        let (source, encoding, skip) = match self.location {
            BlobLocation::Stored { account, source: stored, window, encoding } => {
                let (at, skip) = from(&window, encoding);
                let whole_pieces = encoding != 0;
                (
                    ReaderSource::Stored { account, stored, at, end: window.end, whole_pieces },
                    encoding,
                    skip,
                )
            }
            BlobLocation::Within { outer, window, encoding } => {
                let (at, skip) = from(&window, encoding);
                (
                    ReaderSource::Within(Box::new(outer.reader(at.min(window.end)..window.end))),
                    encoding,
                    skip,
                )
            }
        };
        BlobReader { source, decoder: Some(Decoder::new(encoding)), skip, left }
    }
}

/// Returns the range of the content of a part, given the range of its message.
fn within_window(message: &Range<u64>, part: &PartOffsets) -> Range<u64> {
    let at = |offset: u32| message.start.saturating_add(offset.into()).min(message.end);
    at(part.body)..at(part.end)
}

/// Reads a blob in pieces, each from a new snapshot, so that a slow client keeps none open.
#[derive(Debug)]
pub struct BlobReader {
    source: ReaderSource,
    /// `None` once the source has ended or failed.
    decoder: Option<Decoder>,
    /// How many decoded bytes are dropped before the first one that is returned.
    skip: u64,
    /// How many decoded bytes are still to be returned.
    left: u64,
}

#[derive(Debug)]
enum ReaderSource {
    /// The bytes between `at` and `end` of an email, an upload or a script. With `whole_pieces`,
    /// each read is of [`READ_CHUNK`] bytes, because `left` does not count encoded bytes.
    Stored { account: AccountId, stored: BlobSource, at: u64, end: u64, whole_pieces: bool },
    /// The decoded bytes of another reader.
    Within(Box<BlobReader>),
}

impl BlobReader {
    /// Returns the next piece, which is not empty; `None` at the end, and after an error. May wait
    /// for the disk.
    ///
    /// # Errors
    /// `NotFound` if the blob was destroyed meanwhile; those of reading.
    pub fn next(&mut self, store: &Store) -> Result<Option<Vec<u8>>, Error> {
        while self.left > 0 {
            let Some(mut decoder) = self.decoder.take() else { return Ok(None) };
            let mut out = Vec::new();
            match self.read(store)? {
                Some(piece) => {
                    decoder.feed(&piece, &mut out);
                    self.decoder = Some(decoder);
                }
                None => {
                    decoder.finish(&mut out);
                }
            }
            let skipped = self.skip.min(out.len() as u64);
            self.skip -= skipped;
            out.drain(..usize::try_from(skipped).unwrap_or(out.len()));
            out.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= out.len() as u64;
            if !out.is_empty() {
                return Ok(Some(out));
            }
        }
        Ok(None)
    }

    fn read(&mut self, store: &Store) -> Result<Option<Vec<u8>>, Error> {
        let destroyed = || Error::NotFound("blob");
        match &mut self.source {
            ReaderSource::Within(outer) => outer.next(store),
            ReaderSource::Stored { account, stored, at, end, whole_pieces } => {
                let count = if *whole_pieces { READ_CHUNK } else { self.left.min(READ_CHUNK) };
                let range = *at..at.saturating_add(count).min(*end);
                if range.is_empty() {
                    return Ok(None);
                }
                let snapshot = store.snapshot();
                let piece = match stored {
                    BlobSource::Email(id) => snapshot.message_part(*account, *id, range)?,
                    BlobSource::Upload(user, hash) => {
                        snapshot.upload_part(*account, *user, hash, range)?
                    }
                    BlobSource::Script(id, hash) => {
                        snapshot.script_part(*account, *id, hash, range)?
                    }
                };
                let piece = piece.ok_or_else(destroyed)?;
                *at += piece.len() as u64;
                // After an empty piece, the reader would ask for the same range forever.
                if piece.is_empty() { Err(destroyed()) } else { Ok(Some(piece)) }
            }
        }
    }
}

#[cfg(test)]
mod tests;
