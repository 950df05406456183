//! Blobs: octets that a client may read, by an id (RFC 8620 §6), and those that it puts here.
//!
//! A blob id says where the octets are (`model::BlobId`); here they are found, counted and read, a
//! piece at a time, so that an attachment of any size needs little memory. A part is read straight
//! from its place in the message. To find that place within an upload, or in a message within a
//! message, the message is parsed once; nothing of it is held while a client takes the part
//! (`blob_room` says what is held meanwhile).
//!
//! What a method reads is charged to its request (`budget`) before it is read.
//!
//! What must hold: a blob is found only through an account that holds it, by who may read an email
//! that holds it there; an upload only by its uploader.

mod copy;
mod management;

use std::ops::Range;

pub(super) use copy::BlobCopy;
pub(super) use management::{BlobGet, BlobLookup, BlobUpload};
pub(super) use management::{LOOKUP_TYPES, MAX_DATA_SOURCES, digests, max_blob_set};

use crate::message::Message;
use crate::message::decode::Decoder;
use crate::model::{AccountId, BlobBase, BlobHash, BlobId, EmailId, PartOffsets, limits};
use crate::store::{Error, Store};

use super::context::{Account, Context};
use super::rights::Rights;
use super::uploads::UploadRateExceeded;
use crate::wire::jmap::MethodError;

/// Octets that are read from the store at once: one frame of a message.
const READ_CHUNK: u64 = 128 * 1024;

/// A blob that was found.
#[derive(Debug, Clone)]
pub struct Blob {
    octets: BlobLocation,
    /// Of an upload, as its uploader said.
    media_type: Option<String>,
}

#[derive(Debug, Clone)]
enum BlobLocation {
    /// These of the store.
    Stored { account: AccountId, at: BlobSource, window: Range<u64>, encoding: u8 },
    /// Those that lie in a window of what another blob holds.
    Within { outer: Box<Blob>, window: Range<u64>, encoding: u8 },
}

#[derive(Debug, Clone, Copy)]
enum BlobSource {
    Email(EmailId),
    Upload(AccountId, BlobHash),
}

impl Context {
    /// By whom uploads to an account are held: who logged in; of who came by the control socket,
    /// the account itself.
    #[must_use]
    pub fn uploader(&self, account: AccountId) -> AccountId {
        self.caller.account.unwrap_or(account)
    }

    /// Counts one more upload to an account, which an administrator may make at any rate.
    ///
    /// # Errors
    /// Who uploads must wait first.
    pub fn begin_upload(&self, account: AccountId) -> Result<(), UploadRateExceeded> {
        if self.caller.admin {
            Ok(())
        } else {
            self.upload_rates.begin(self.uploader(account), &self.uploads)
        }
    }

    /// Counts the bytes of an upload that came.
    pub fn count_uploaded_bytes(&self, account: AccountId, bytes: usize) {
        if !self.caller.admin {
            self.upload_rates.add_bytes(self.uploader(account), bytes as u64, &self.uploads);
        }
    }

    /// Finds a blob in an account that the caller may read. `None` where there is none. What must
    /// be read to find it is charged to the request.
    ///
    /// # Errors
    /// Those of reading; `requestTooLarge` where the request may not read so much.
    pub fn blob(&self, account: &Account, id: &BlobId) -> Result<Option<Blob>, MethodError> {
        Blob::find(self, account, id)
    }

    /// How many bytes of memory it takes to find a blob: the largest message that is parsed for it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn blob_room(&self, account: &Account, id: &BlobId) -> Result<u64, MethodError> {
        let base = Blob::base(self, account, &id.base, &id.parts)?;
        Ok(base
            .filter(|(_, rest)| !rest.is_empty())
            .map_or(0, |(found, _)| found.cost(&(0..u64::MAX))))
    }

    /// All octets of a blob, of `most` at most. `None` where there is none, or it is larger.
    ///
    /// # Errors
    /// As `blob`.
    pub fn blob_octets(
        &self,
        account: &Account,
        id: &BlobId,
        most: u64,
    ) -> Result<Option<Vec<u8>>, MethodError> {
        match self.blob(account, id)? {
            Some(blob) => {
                self.budget.charge_read(blob.cost(&(0..u64::MAX)).min(most))?;
                Ok(blob.whole(&self.store, most)?)
            }
            None => Ok(None),
        }
    }

    /// All octets of the blob whose id a client wrote. `None` where there is no such blob for the
    /// caller.
    ///
    /// # Errors
    /// As `blob`.
    pub(super) fn bytes_by_id(
        &self,
        account: &Account,
        id: &str,
    ) -> Result<Option<Vec<u8>>, MethodError> {
        match id.parse::<BlobId>() {
            // How large it may be is said where it is put to use.
            Ok(id) => self.blob_octets(account, &id, u64::MAX),
            Err(_) => Ok(None),
        }
    }

    /// Whether there is a blob for the caller with the id that a client wrote.
    ///
    /// # Errors
    /// As `blob`.
    pub(super) fn has_blob(&self, account: &Account, id: &str) -> Result<bool, MethodError> {
        match id.parse::<BlobId>() {
            Ok(id) => self.blob(account, &id).map(|blob| blob.is_some()),
            Err(_) => Ok(false),
        }
    }

    /// The octets of a blob that lie in a range, charged to the request.
    ///
    /// # Errors
    /// As `blob`.
    pub(super) fn blob_range(
        &self,
        blob: Blob,
        wanted: Range<u64>,
    ) -> Result<Vec<u8>, MethodError> {
        self.budget.charge_read(blob.cost(&wanted))?;
        let (mut reader, mut octets) = (blob.reader(wanted), Vec::new());
        while let Some(piece) = reader.next(&self.store)? {
            octets.extend_from_slice(&piece);
        }
        Ok(octets)
    }

    /// How many octets a blob has; counting those of an encoded part is charged to the request.
    ///
    /// # Errors
    /// As `blob`.
    pub(super) fn blob_size(&self, blob: &Blob) -> Result<u64, MethodError> {
        if blob.is_encoded() {
            self.budget.charge_read(blob.cost(&(0..u64::MAX)))?;
        }
        Ok(blob.size(&self.store)?)
    }

    /// Keeps octets as an upload; the ticket is waited for. Not for an asynchronous task.
    ///
    /// # Errors
    /// `Quota` where they are more than a user may have uploaded; those of the store.
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
    fn find(context: &Context, of: &Account, id: &BlobId) -> Result<Option<Self>, MethodError> {
        let steps = id.parts.as_slice();
        let Some((found, rest)) = Self::base(context, of, &id.base, steps)? else {
            return Ok(None);
        };
        found.within(context, rest)
    }

    /// The blob that an id begins with, and the steps that lead on from it into parts.
    fn base<'s>(
        context: &Context,
        of: &Account,
        base: &BlobBase,
        steps: &'s [u32],
    ) -> Result<Option<(Self, &'s [u32])>, Error> {
        let (snapshot, account) = (context.store.snapshot(), of.id);
        match *base {
            BlobBase::Email(email) => {
                let row = snapshot.email(account, email)?;
                let rights = Rights::of(&snapshot, of)?;
                let Some(row) = row.filter(|row| rights.may_read_email(row)) else {
                    return Ok(None);
                };
                let at = BlobSource::Email(email);
                let Some((first, rest)) = steps.split_first() else {
                    return Ok(Some((Self::stored(account, at, 0..row.size, 0), steps)));
                };
                let Some((prefix, content)) = snapshot.content(account, email)? else {
                    return Ok(None);
                };
                let found =
                    usize::try_from(*first).ok().and_then(|number| content.parts.get(number));
                let Some(part) = found else { return Ok(None) };
                // Offsets count from the message as received; ours stands before it.
                let window = within_window(&(prefix.len() as u64..row.size), part);
                Ok(Some((Self::stored(account, at, window, part.encoding), rest)))
            }
            BlobBase::Upload(hash) => {
                let user = context.uploader(account);
                let Some(row) = snapshot.upload(account, user, &hash)? else { return Ok(None) };
                let blob = Self::stored(account, BlobSource::Upload(user, hash), 0..row.size, 0);
                Ok(Some((Self { media_type: Some(row.media_type), ..blob }, steps)))
            }
        }
    }

    fn stored(account: AccountId, at: BlobSource, window: Range<u64>, encoding: u8) -> Self {
        Self { octets: BlobLocation::Stored { account, at, window, encoding }, media_type: None }
    }

    /// The part that these steps lead to, of a message. Each message on the way is read and parsed,
    /// and not held: a part is read from where it is stored, decoded on the way if need be.
    fn within(self, context: &Context, steps: &[u32]) -> Result<Option<Self>, MethodError> {
        let mut blob = self;
        for step in steps {
            context.budget.charge_read(blob.cost(&(0..u64::MAX)))?;
            let raw = blob.whole(&context.store, limits::MAX_MESSAGE_BYTES)?;
            let Some(raw) = raw else { return Ok(None) };
            let parts = Message::parse(&raw).parts();
            let Some(part) = usize::try_from(*step).ok().and_then(|step| parts.get(step)) else {
                return Ok(None);
            };
            blob = match &blob.octets {
                BlobLocation::Stored { account, at, window, encoding: 0 } => {
                    Self::stored(*account, *at, within_window(window, part), part.encoding)
                }
                _ => {
                    let window = within_window(&(0..raw.len() as u64), part);
                    let octets = BlobLocation::Within {
                        outer: Box::new(blob),
                        window,
                        encoding: part.encoding,
                    };
                    Self { octets, media_type: None }
                }
            };
        }
        Ok(Some(blob))
    }

    /// Octets that are read for a range of it.
    fn cost(&self, wanted: &Range<u64>) -> u64 {
        match &self.octets {
            BlobLocation::Within { outer, .. } => outer.cost(&(0..u64::MAX)),
            BlobLocation::Stored { window, encoding: 0, .. } => {
                wanted.end.min(window.end.saturating_sub(window.start)).saturating_sub(wanted.start)
            }
            BlobLocation::Stored { window, .. } => window.end.saturating_sub(window.start),
        }
    }

    fn is_encoded(&self) -> bool {
        match &self.octets {
            BlobLocation::Stored { encoding, .. } | BlobLocation::Within { encoding, .. } => {
                *encoding != 0
            }
        }
    }

    /// What its uploader said it is.
    #[must_use]
    pub fn media_type(&self) -> Option<&str> {
        self.media_type.as_deref()
    }

    /// How many octets it has. Of an encoded part they are counted, which reads it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn size(&self, store: &Store) -> Result<u64, Error> {
        match &self.octets {
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

    /// All of it, where it is no more than `most`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn whole(&self, store: &Store, most: u64) -> Result<Option<Vec<u8>>, Error> {
        let (mut reader, mut all) = (self.clone().reader(0..u64::MAX), Vec::new());
        while let Some(piece) = reader.next(store)? {
            all.extend_from_slice(&piece);
            if all.len() as u64 > most {
                return Ok(None);
            }
        }
        Ok(Some(all))
    }

    /// Reads it, or the octets of it that are wanted.
    #[must_use]
    pub fn reader(self, wanted: Range<u64>) -> BlobReader {
        let left = wanted.end.saturating_sub(wanted.start);
        // What is not encoded need not be read from its beginning.
        let from = |window: &Range<u64>, encoding: u8| {
            let skip = if encoding == 0 { 0 } else { wanted.start };
            let at = if encoding == 0 {
                window.start.saturating_add(wanted.start)
            } else {
                window.start
            };
            (at, skip)
        };
        let (source, encoding, skip) = match self.octets {
            BlobLocation::Stored { account, at: stored, window, encoding } => {
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

/// Where the content of a part lies whose message lies in this window.
fn within_window(message: &Range<u64>, part: &PartOffsets) -> Range<u64> {
    let at = |offset: u32| message.start.saturating_add(offset.into()).min(message.end);
    at(part.body)..at(part.end)
}

/// Reads a blob a piece at a time; each time anew from the store, so that nothing is held while a
/// client is slow.
#[derive(Debug)]
pub struct BlobReader {
    source: ReaderSource,
    decoder: Option<Decoder>,
    skip: u64,
    left: u64,
}

/// Where the pieces come from, before they are decoded.
#[derive(Debug)]
enum ReaderSource {
    /// From the store: what lies between `at` and `end`.
    Stored { account: AccountId, stored: BlobSource, at: u64, end: u64, whole_pieces: bool },
    /// From what another reader decodes.
    Within(Box<BlobReader>),
}

impl BlobReader {
    /// The next piece, never empty; `None` at the end. For a thread that may wait.
    ///
    /// # Errors
    /// `NotFound` where it was destroyed meanwhile; those of reading.
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
        let gone = || Error::NotFound("blob");
        match &mut self.source {
            ReaderSource::Within(outer) => outer.next(store),
            ReaderSource::Stored { account, stored, at, end, whole_pieces } => {
                let most = if *whole_pieces { READ_CHUNK } else { self.left.min(READ_CHUNK) };
                let range = *at..at.saturating_add(most).min(*end);
                if range.is_empty() {
                    return Ok(None);
                }
                let snapshot = store.snapshot();
                let piece = match stored {
                    BlobSource::Email(id) => snapshot.message_part(*account, *id, range)?,
                    BlobSource::Upload(user, hash) => {
                        snapshot.upload_part(*account, *user, hash, range)?
                    }
                };
                let piece = piece.ok_or_else(gone)?;
                *at += piece.len() as u64;
                if piece.is_empty() { Err(gone()) } else { Ok(Some(piece)) }
            }
        }
    }
}

#[cfg(test)]
mod tests;
