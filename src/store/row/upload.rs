//! The rows of uploads (RFC 8620 §6.1). Their bytes are stored with the messages.

use super::{FieldReader, FieldWriter, Row, RowError};
use crate::model::UtcMillis;
use crate::store::engine::Table;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UploadRow {
    /// The number of bytes.
    pub size: u64,
    /// The media type that was given with the last upload of these bytes. At most
    /// `limits::MAX_MEDIA_TYPE_BYTES`, without control characters.
    pub media_type: String,
    /// When the bytes were last uploaded, or copied to this account.
    pub at: UtcMillis,
}

impl Row for UploadRow {
    const TABLE: Table = Table::Uploads;

    fn write(&self, out: &mut FieldWriter) {
        out.num(self.size);
        out.text(&self.media_type);
        out.signed(self.at.0);
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        Ok(Self { size: input.num()?, media_type: input.text()?, at: UtcMillis(input.signed()?) })
    }
}
