//! The rows of a message as received. A short message is one row. A long one is a head row and
//! frames, so that a part of it can be read without the rest, and no row is so large that its write
//! delays all others.

use super::{FieldReader, FieldWriter, RowError, decode_with};
use crate::model::{BlobHash, UtcMillis};
use crate::store::engine::{Put, Table};
use crate::store::error::Error;
use crate::store::table::keys::{BlobFrameKey, BlobKey};
use crate::store::table::{BlobFrames, Blobs};

/// Bytes of a frame. A message of at most this size is one row.
pub const FRAME_BYTES: usize = 128 << 10;

/// A row of `blobs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobRow<'a> {
    /// When the message was last stored, or held by an upload (`Txn::hold_upload`).
    pub at: UtcMillis,
    pub bytes: BlobBytes<'a>,
}

/// Where the bytes of a message are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobBytes<'a> {
    /// The bytes are in this row.
    Inline(&'a [u8]),
    /// The bytes are in frames. This is the number of bytes.
    Framed(u64),
}

impl BlobBytes<'_> {
    /// The number of bytes.
    #[must_use]
    pub fn len(self) -> u64 {
        match self {
            Self::Inline(raw) => raw.len() as u64,
            Self::Framed(length) => length,
        }
    }

    /// The number of frames.
    #[must_use]
    pub fn frames(self) -> u64 {
        match self {
            Self::Inline(_) => 0,
            Self::Framed(length) => length.div_ceil(FRAME_BYTES as u64),
        }
    }
}

impl<'a> BlobRow<'a> {
    /// Decodes a row of `blobs`.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn decode(key: &[u8], bytes: &'a [u8]) -> Result<Self, Error> {
        let mut inline: &'a [u8] = &[];
        let (at, framed) = decode_with(Table::Blobs, key, bytes, 1, |input, _| {
            let codec = input.byte()?;
            let at = UtcMillis(input.signed()?);
            match codec {
                0 => input.bytes().map(|_| (at, None)),
                1 => Ok((at, Some(input.num()?))),
                _ => Err(RowError("unknown codec")),
            }
        })?;
        if framed.is_none() {
            // `decode_with` cannot return borrowed bytes, so they are read again, after version,
            // codec and time.
            let mut rest = FieldReader(bytes.get(2..).unwrap_or_default());
            let raw = rest.signed().and_then(|_| rest.bytes());
            inline = raw.map_err(|bad| bad.of(Table::Blobs, key))?;
        }
        Ok(Self { at, bytes: framed.map_or(BlobBytes::Inline(inline), BlobBytes::Framed) })
    }

    /// Encodes the row.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self.bytes {
            BlobBytes::Inline(raw) => {
                let mut out = FieldWriter(Vec::with_capacity(raw.len().saturating_add(16)));
                out.fixed(&[1, 0]);
                out.signed(self.at.0);
                out.bytes(raw);
                out.0
            }
            BlobBytes::Framed(length) => {
                let mut out = FieldWriter(Vec::with_capacity(16));
                out.fixed(&[1, 1]);
                out.signed(self.at.0);
                out.num(length);
                out.0
            }
        }
    }
}

/// Returns all rows of a message, in the order of tables and keys.
#[must_use]
pub fn blob_rows(hash: &BlobHash, raw: &[u8], at: UtcMillis) -> Vec<Put> {
    let head = Put::bytes::<Blobs>(&BlobKey { blob: *hash }, blob_head(raw, at));
    let frames = blob_frames(hash, raw).map(|(key, value)| Put::bytes::<BlobFrames>(&key, value));
    std::iter::once(head).chain(frames).collect()
}

/// Encodes the `blobs` row of a message that is stored at this time: with its bytes if it is short,
/// else with their number.
pub(in crate::store) fn blob_head(raw: &[u8], at: UtcMillis) -> Vec<u8> {
    let bytes = if raw.len() > FRAME_BYTES {
        BlobBytes::Framed(raw.len() as u64)
    } else {
        BlobBytes::Inline(raw)
    };
    BlobRow { at, bytes }.encode()
}

/// Returns the `blob_frames` rows of a message; a short message has none.
pub(in crate::store) fn blob_frames(
    hash: &BlobHash,
    raw: &[u8],
) -> impl Iterator<Item = (BlobFrameKey, Vec<u8>)> {
    let framed = if raw.len() > FRAME_BYTES { raw } else { &[] };
    framed.chunks(FRAME_BYTES).zip(0u32..).map(|(frame, number)| {
        let mut value = Vec::with_capacity(frame.len().saturating_add(1));
        value.push(1);
        value.extend_from_slice(frame);
        (BlobFrameKey { blob: *hash, number }, value)
    })
}

/// Returns the bytes of a frame.
///
/// # Errors
/// `Corrupt`.
pub fn decode_frame<'a>(key: &[u8], value: &'a [u8]) -> Result<&'a [u8], Error> {
    let frame =
        value.split_first().filter(|(version, frame)| **version == 1 && frame.len() <= FRAME_BYTES);
    let what = || "not a frame of a message".to_owned();
    let corrupt = || Error::Corrupt {
        table: Table::BlobFrames.name(),
        key: crate::store::error::hex(key),
        what: what(),
    };
    frame.map(|(_, frame)| frame).ok_or_else(corrupt)
}
