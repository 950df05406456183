//! Sockets, tasks and timeouts of the LMTP server, the HTTP server, the ManageSieve server and push
//! delivery; and the task that files absence reports.
//!
//! `wire` has the grammars of the protocols: the code here moves bytes and does what `wire` says.

pub mod ceiling;
pub mod collect;
mod concurrency;
pub mod http;
pub mod listen;
pub mod lmtp;
pub mod managesieve;
mod output;
pub mod passwords;
pub mod push;
mod receive;
pub mod reports;
pub mod stop;
