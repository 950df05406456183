//! The formats of JMAP (RFC 8620): requests, responses, arguments, errors, the session, the
//! messages of a WebSocket, and the vendor methods. What the methods do is in `jmap`.

pub mod admin;
pub mod arguments;
pub mod error;
pub mod json;
pub mod patch;
pub mod primitive;
mod property;
pub mod reference;
pub mod request;
pub mod session;
pub mod socket;
pub mod standard;
pub mod text;

pub use arguments::{MethodArguments, With};
pub use error::{MethodError, RequestError, SetError};
pub use patch::Patch;
pub use property::Property;
pub(crate) use property::{names, properties};
pub use request::{Invocation, Request, Response, parse};
pub use standard::{Answer, IntoArguments, JsonObject};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// RFC 8620 §9.4.
pub const CORE: &str = "urn:ietf:params:jmap:core";
/// RFC 8621 §1.3.1.
pub const MAIL: &str = "urn:ietf:params:jmap:mail";
/// RFC 8621 §1.3.2.
pub const SUBMISSION: &str = "urn:ietf:params:jmap:submission";
/// RFC 8621 §1.3.3.
pub const VACATION: &str = "urn:ietf:params:jmap:vacationresponse";
/// RFC 9007 §1.3.
pub const MDN: &str = "urn:ietf:params:jmap:mdn";
/// RFC 9425 §2.
pub const QUOTA: &str = "urn:ietf:params:jmap:quota";
/// Blob management (RFC 9404).
pub const BLOB: &str = "urn:ietf:params:jmap:blob";
/// RFC 9661 §1.2.1.
pub const SIEVE: &str = "urn:ietf:params:jmap:sieve";
pub const WEBSOCKET: &str = "urn:ietf:params:jmap:websocket";
/// RFC 9670 §1.5.1.
pub const PRINCIPALS: &str = "urn:ietf:params:jmap:principals";
/// A capability of accounts only (RFC 9670 §1.5.2).
pub const PRINCIPALS_OWNER: &str = "urn:ietf:params:jmap:principals:owner";
pub const ADMIN: &str = "urn:restante:jmap:admin";

/// Encodes bytes in base64 (RFC 4648 §4).
#[must_use]
pub fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes base64 (RFC 4648 §4).
///
/// # Errors
/// `invalidArguments`: the text is not base64, lacks padding, or has blanks.
pub fn from_base64(text: &str) -> Result<Vec<u8>, MethodError> {
    STANDARD
        .decode(text)
        .map_err(|_| MethodError::InvalidArguments("the text is not base64".into()))
}
