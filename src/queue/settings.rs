//! The settings of the queue.

use std::sync::Arc;
use std::time::Duration;

use super::relay::Relay;
use crate::outbox::RetrySchedule;
use crate::proof::Signer;

#[derive(Debug, Clone)]
pub struct Settings {
    pub relay: Relay,
    /// How many actions may be under way at once; 0 counts as 1.
    pub concurrency: usize,
    /// The first wait after the relay failed. Each further failure doubles it, at most to 64 times
    /// the first.
    pub relay_pause: Duration,
    /// The waits between attempts at one action, and how long a sent submission is kept.
    pub retry: RetrySchedule,
    /// Signs outgoing messages with DKIM; `None`: they go unsigned.
    pub signer: Option<Arc<Signer>>,
}
