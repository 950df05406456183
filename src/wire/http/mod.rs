//! Fields of HTTP (RFC 9110) as octets: read and written here, without sockets.
//!
//! Everything read comes from strangers: each reader is bounded, takes any octets, and what it
//! cannot read is `None` or means nothing, as the paragraph beside it says.

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
