//! The rows of a message as received. The row of a message says where its bytes are: in a segment,
//! in the row itself if they are few, or in rows of their own, the frames. Only earlier versions,
//! and engines without segments, write frames and long rows.

use super::{FieldReader, FieldWriter, RowError, decode_with};
use crate::model::{BlobHash, UtcMillis};
use crate::store::engine::Table;
use crate::store::engine::segments::Extent;
use crate::store::error::Error;
use crate::store::table::keys::BlobFrameKey;

/// The codecs of a row of `blobs`: where the bytes of the message are.
const INLINE: u8 = 0;
const FRAMED: u8 = 1;
const LOCATED: u8 = 2;
const PACKED: u8 = 3;
/// Bytes of a frame; the last one may have fewer. A message in rows that has no more bytes than
/// this has no frames. Only messages in segments that have no more bytes than this are compressed.
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
    /// The bytes are in a segment.
    Located(Extent),
    /// The bytes are in a segment, compressed, where they are no longer than the message.
    Packed {
        extent: Extent,
        /// The number of bytes of the message, at most `FRAME_BYTES`.
        length: u64,
    },
    /// The bytes are in frames. This is the number of bytes.
    Framed(u64),
}

impl BlobBytes<'_> {
    /// The number of bytes.
    #[must_use]
    pub fn len(self) -> u64 {
        match self {
            Self::Inline(raw) => raw.len() as u64,
            Self::Located(extent) => extent.length,
            Self::Framed(length) | Self::Packed { length, .. } => length,
        }
    }

    /// The place in a segment, if the bytes are in one.
    #[must_use]
    pub fn extent(self) -> Option<Extent> {
        match self {
            Self::Located(extent) | Self::Packed { extent, .. } => Some(extent),
            Self::Inline(_) | Self::Framed(_) => None,
        }
    }

    /// The keys of the frames of the message with this hash.
    pub(in crate::store) fn frame_keys(self, blob: BlobHash) -> impl Iterator<Item = BlobFrameKey> {
        let numbers = (0..self.frames()).filter_map(|number| u32::try_from(number).ok());
        numbers.map(move |number| BlobFrameKey { blob, number })
    }

    /// The number of frames.
    #[must_use]
    pub fn frames(self) -> u64 {
        match self {
            Self::Inline(_) | Self::Located(_) | Self::Packed { .. } => 0,
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
        let (at, elsewhere) = decode_with(Table::Blobs, key, bytes, 1, |input, _| {
            let codec = input.byte()?;
            let at = UtcMillis(input.signed()?);
            let elsewhere = match codec {
                INLINE => {
                    input.bytes()?;
                    None
                }
                FRAMED => Some(BlobBytes::Framed(input.num()?)),
                LOCATED => Some(BlobBytes::Located(read_extent(input)?)),
                PACKED => {
                    let (length, extent) = (input.num()?, read_extent(input)?);
                    if length > FRAME_BYTES as u64 || extent.length > length {
                        return Err(RowError("a compressed message is too long"));
                    }
                    Some(BlobBytes::Packed { extent, length })
                }
                _ => return Err(RowError("unknown codec")),
            };
            Ok((at, elsewhere))
        })?;
        if let Some(bytes) = elsewhere {
            return Ok(Self { at, bytes });
        }
        // `decode_with` cannot return borrowed bytes, so they are read again.
        let mut rest = FieldReader(bytes.get(2..).unwrap_or_default());
        let raw = rest.signed().and_then(|_| rest.bytes());
        let raw = raw.map_err(|bad| bad.of(Table::Blobs, key))?;
        Ok(Self { at, bytes: BlobBytes::Inline(raw) })
    }

    /// Encodes the row.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (codec, capacity) = match self.bytes {
            BlobBytes::Inline(raw) => (INLINE, raw.len().saturating_add(16)),
            BlobBytes::Framed(_) => (FRAMED, 16),
            BlobBytes::Located(_) => (LOCATED, 24),
            BlobBytes::Packed { .. } => (PACKED, 24),
        };
        let mut out = FieldWriter(Vec::with_capacity(capacity));
        out.fixed(&[1, codec]);
        out.signed(self.at.0);
        match self.bytes {
            BlobBytes::Inline(raw) => out.bytes(raw),
            BlobBytes::Framed(length) => out.num(length),
            BlobBytes::Located(extent) => write_extent(&mut out, extent),
            BlobBytes::Packed { extent, length } => {
                out.num(length);
                write_extent(&mut out, extent);
            }
        }
        out.0
    }
}

fn read_extent(input: &mut FieldReader<'_>) -> Result<Extent, RowError> {
    let length = input.num()?;
    let segment =
        u32::try_from(input.num()?).map_err(|_| RowError("a segment has no such number"))?;
    Ok(Extent { segment, offset: input.num()?, length })
}

fn write_extent(out: &mut FieldWriter, Extent { segment, offset, length }: Extent) {
    out.num(length);
    out.num(u64::from(segment));
    out.num(offset);
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
