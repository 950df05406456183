//! What was uploaded and is no email's yet (RFC 8620 §6.1); the octets stand with the messages.

use super::{FieldReader, FieldWriter, Row, RowError};
use crate::model::UtcMillis;
use crate::store::engine::Table;

/// `uploads`: octets that a user put into an account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UploadRow {
    /// Octets.
    pub size: u64,
    /// Media type, as it was given with the last upload of them.
    pub media_type: String,
    /// When they were last uploaded, or used.
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
