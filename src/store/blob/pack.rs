//! Compresses messages in segments, with zstd, and restores them.
//!
//! A delivery writes a message as it is. Upkeep compresses it when it moves it to another segment
//! (`reclaim`), and copies the compressed bytes when it moves it again.

use std::cell::RefCell;

use zstd_safe::{CCtx, DCtx};

use crate::store::engine::segments::{Extent, Segments};
use crate::store::row::FRAME_BYTES;

/// Higher levels take more than twice the time for a fortieth less space.
const LEVEL: i32 = 3;
/// A message is only compressed if that saves at least 1/`LEAST_SAVED_PART` of its bytes.
const LEAST_SAVED_PART: usize = 8;

/// Compresses one message after another.
pub(super) struct Packer(CCtx<'static>);

impl Packer {
    /// Returns `None` if there is no memory for it.
    pub(super) fn new() -> Option<Self> {
        CCtx::try_create().map(Self)
    }

    /// Compresses a message. `None` if that saves too little, if the message is longer than
    /// `FRAME_BYTES`, since a read of a part restores the whole message, or if the message cannot
    /// be restored from the result.
    pub(super) fn pack(&mut self, raw: &[u8]) -> Option<Vec<u8>> {
        if raw.len() > FRAME_BYTES {
            return None;
        }
        let mut packed = vec![0; zstd_safe::compress_bound(raw.len())];
        let length = self.0.compress(packed.as_mut_slice(), raw, LEVEL).ok()?;
        packed.truncate(length);
        let saves_enough = packed.len() <= raw.len() - raw.len().div_ceil(LEAST_SAVED_PART);
        let is_restored = || unpack(&packed, raw.len() as u64).is_ok_and(|found| found == raw);
        (saves_enough && is_restored()).then_some(packed)
    }
}

/// Reads and restores a message of `length` bytes.
///
/// # Errors
/// Those of `Segments::read`; if the bytes are not those of a message of this length.
pub(super) fn read_packed(
    segments: &Segments,
    extent: &Extent,
    length: u64,
) -> Result<Vec<u8>, String> {
    unpack(&read_compressed(segments, extent)?, length)
}

/// Reads the compressed bytes of a message.
///
/// # Errors
/// Those of `Segments::read`.
pub(super) fn read_compressed(segments: &Segments, extent: &Extent) -> Result<Vec<u8>, String> {
    let mut packed = Vec::new();
    segments.read(extent, &(0..extent.length), &mut packed)?;
    Ok(packed)
}

/// Restores a message of `length` bytes.
///
/// # Errors
/// If the bytes are not those of a message of this length.
pub(super) fn unpack(packed: &[u8], length: u64) -> Result<Vec<u8>, String> {
    thread_local! {
        static CONTEXT: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
    }
    let length = usize::try_from(length).ok().filter(|length| *length <= FRAME_BYTES);
    let length = length.ok_or("it is too long to be compressed")?;
    let mut raw = vec![0; length];
    let result = CONTEXT.with_borrow_mut(|context| {
        context.decompress(raw.as_mut_slice(), packed).map_err(zstd_safe::get_error_name)
    });
    match result {
        Ok(found) if found == length => Ok(raw),
        Ok(_) => Err("its compressed bytes are those of another message".to_owned()),
        Err(error) => Err(format!("its compressed bytes are damaged: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(raw: &[u8]) -> Option<Vec<u8>> {
        Packer::new().unwrap().pack(raw)
    }

    #[test]
    fn messages_are_restored() {
        let mut packer = Packer::new().unwrap();
        for length in [64, 1000, FRAME_BYTES] {
            let raw: Vec<u8> = b"Some words of a letter.\r\n".repeat(length)[..length].to_vec();
            let packed = packer.pack(&raw).unwrap();
            assert!(packed.len() < raw.len() / 2 + 32, "{length}: {}", packed.len());
            assert_eq!(unpack(&packed, length as u64), Ok(raw));
        }
    }

    #[test]
    fn what_saves_little_or_is_too_long_is_not_compressed() {
        let mut noise = vec![0; 4096];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        assert_eq!(packed(&noise), None);
        assert_eq!(packed(b""), None);
        assert!(packed(&vec![b'x'; FRAME_BYTES]).is_some());
        assert_eq!(packed(&vec![b'x'; FRAME_BYTES + 1]), None);
    }

    #[test]
    fn damaged_bytes_and_wrong_lengths_are_errors() {
        let raw = b"Some words of a letter.\r\n".repeat(40);
        let packed = packed(&raw).unwrap();
        let length = raw.len() as u64;
        for wrong in [0, length - 1, length + 1, u64::MAX] {
            assert!(unpack(&packed, wrong).is_err(), "{wrong}");
        }
        assert!(unpack(&packed[..packed.len() - 1], length).is_err());
        assert!(unpack(b"", length).is_err());
        assert!(unpack(&raw, length).is_err());
        // The context is still usable after an error.
        assert_eq!(unpack(&packed, length), Ok(raw));
    }
}
