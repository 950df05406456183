//! What a site sets of sending.

use std::sync::Arc;
use std::time::Duration;

use super::relay::Relay;
use crate::outbox::RetrySchedule;
use crate::proof::Signer;

/// What a site sets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The way out.
    pub relay: Relay,
    /// Actions under way at once.
    pub concurrency: usize,
    /// First wait after the relay was found out of order; it doubles up to 64 times this.
    pub relay_pause: Duration,
    /// How long is waited between attempts at one action.
    pub pace: RetrySchedule,
    /// Signs what goes out.
    pub signer: Option<Arc<Signer>>,
}
