//! Reads and writes fields of HTTP (RFC 9110).
//!
//! A reader takes any bytes: a malformed field is no error, but read as if it were missing.

mod coding;
mod credentials;
mod disposition;
mod forwarded;
mod range;

pub use coding::prefers;
pub use credentials::{Credentials, credentials};
pub use disposition::{attachment, media_type};
pub use forwarded::{Network, authority, client, forwarded, x_forwarded_for};
pub use range::{RangeSelection, range, same_tag};
