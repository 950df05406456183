//! L2: who really sent it. For now by what a trusted server in front of us found and wrote down (RFC 8601); verifying and
//! signing ourselves join with the responder's own issue.

mod results;

pub use results::{Policy, Settings, forged};
