//! Numbers in LEB128, without a branch for each byte: it cannot be predicted how many bytes a
//! number takes.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::little_endian_bytes,
    reason = "shifts of less than 64 bits, and lengths of at most eight bytes"
)]

/// Numbers from this one on take more than eight bytes.
pub(super) const LONG: u64 = 1 << 56;
/// The bits of eight bytes that say that the number goes on.
const FLAGS: u64 = 0x8080_8080_8080_8080;

/// Encodes a number below `LONG`. Returns its bytes, behind which there may be zeros, and how many
/// they are.
#[inline]
pub(super) fn encode(value: u64) -> ([u8; 8], usize) {
    // Spreads the number: groups of 28 bits to 4 bytes each, those of 14 to 2, and those of 7 to 1.
    let spread = (value & 0x0fff_ffff) | (value & 0x00ff_ffff_f000_0000) << 4;
    let spread = (spread & 0x0000_3fff_0000_3fff) | (spread & 0x0fff_c000_0fff_c000) << 2;
    let spread = (spread & 0x007f_007f_007f_007f) | (spread & 0x3f80_3f80_3f80_3f80) << 1;
    let followed = (spread | 1).ilog2() / 8;
    let flags = FLAGS & !(u64::MAX << (8 * followed));
    ((spread | flags).to_le_bytes(), followed as usize + 1)
}

/// Decodes the number with which these bytes begin. Returns it, and how many bytes it takes; `None`
/// if it does not end in them.
#[inline]
pub(super) fn decode(bytes: [u8; 8]) -> Option<(u64, usize)> {
    let length = length(bytes)?;
    let groups = u64::from_le_bytes(bytes) & !FLAGS & (u64::MAX >> (64 - 8 * length));
    let joined = (groups & 0x007f_007f_007f_007f) | (groups & 0x7f00_7f00_7f00_7f00) >> 1;
    let joined = (joined & 0x0000_3fff_0000_3fff) | (joined & 0x3fff_0000_3fff_0000) >> 2;
    Some(((joined & 0x0fff_ffff) | (joined & 0x0fff_ffff_0000_0000) >> 4, length))
}

/// Returns how many bytes the number takes with which these begin; `None` if it does not end in
/// them.
#[inline]
pub(super) fn length(bytes: [u8; 8]) -> Option<usize> {
    end_of(!u64::from_le_bytes(bytes) & FLAGS)
}

/// As `length`, for the first two numbers together.
#[inline]
pub(super) fn length_of_two(bytes: [u8; 8]) -> Option<usize> {
    let ends = !u64::from_le_bytes(bytes) & FLAGS;
    end_of(ends & ends.wrapping_sub(1))
}

/// Returns the number of bytes up to the lowest flag; `None` if there is none.
#[inline]
fn end_of(ends: u64) -> Option<usize> {
    (ends != 0).then(|| ends.trailing_zeros() as usize / 8 + 1)
}
