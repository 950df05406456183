//! The searchable fields of a message. Each has a bit, and a field whose words are indexed also has
//! a band of word positions. Of ids, media types and addresses of delivery no words are indexed,
//! only whole values.
//!
//! - Bits and bands are stored in the search index, so they never change.
//! - A position is the band of a field in the upper bits, and the number of the word within the
//!   field in the lower `BAND_BITS`. So a phrase matches within one field only.
//! - The body, which has most words, has band 0, because small numbers take less space.

pub const FROM: u16 = 1;
pub const TO: u16 = 2;
pub const CC: u16 = 4;
pub const BCC: u16 = 8;
/// Delivered-To fields of the message as received, from earlier hops.
pub const DELIVERED_TO: u16 = 16;
pub const SUBJECT: u16 = 32;
pub const BODY: u16 = 64;
/// File names of attachments.
pub const ATTACHMENT_NAME: u16 = 128;
/// Media types of attachments.
pub const ATTACHMENT_TYPE: u16 = 256;
pub const LIST_ID: u16 = 512;
/// Message-ID, In-Reply-To, References.
pub const MESSAGE_ID: u16 = 1024;
/// Names of header fields, except those that nearly every message has.
pub const HEADER: u16 = 2048;
/// Delivered-To of the trace prefix, from the delivery by this service (`model::delivered_to`).
pub const DELIVERED_HERE: u16 = 4096;

/// Bits of a word number within a band. `limits::MAX_INDEXED_WORDS` (50,000) fit, with gaps between
/// the values of a field, so that no phrase reaches from one into the next. If a field has
/// thousands of values, the last words all have the largest number.
pub const BAND_BITS: u32 = 17;

/// Returns the band of a field, which must be one of the bits above.
#[must_use]
pub fn band_of(field: u16) -> u32 {
    if field == BODY { 0 } else { field.trailing_zeros().saturating_add(1) }
}

/// Returns the field of a position; 0 if the band is above 16, which no field has.
#[must_use]
pub fn field_at(position: u32) -> u16 {
    match position >> BAND_BITS {
        0 => BODY,
        band => 1u16.checked_shl(band.saturating_sub(1)).unwrap_or(0),
    }
}
