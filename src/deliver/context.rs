//! `DeliveryContext`: what the jobs of all accounts of one transaction share.

use std::cell::OnceCell;

use super::{DeliveryTransaction, Settings};
use crate::message::header::Header;
use crate::message::{auto::AutoReplyFacts, catch_parser_panic};
use crate::model::{AccountId, Envelope, MonotonicMillis, ReturnedReport, ThreadKey, UtcMillis};

/// What the jobs of all accounts of one transaction share.
pub(super) struct DeliveryContext<'a> {
    pub(super) settings: &'a Settings,
    pub(super) session: &'a DeliveryTransaction,
    pub(super) envelope: &'a Envelope,
    /// The message, from where its header begins.
    pub(super) header: &'a Header<'a>,
    /// Filled when an account with a response needs it.
    pub(super) facts: OnceCell<AutoReplyFacts>,
    pub(super) thread_keys: &'a [ThreadKey],
    pub(super) hash: &'a [u8; 32],
    pub(super) now: UtcMillis,
    /// The same time as `now` on the monotonic clock, for rate limits.
    pub(super) steady: MonotonicMillis,
    /// If the message is a report about a message that was sent from here: what it says.
    pub(super) returned: Option<ReturnedReport>,
}

impl DeliveryContext<'_> {
    pub(super) fn facts(&self) -> &AutoReplyFacts {
        self.facts.get_or_init(|| {
            let unreadable = || AutoReplyFacts {
                suppress: Some("its header cannot be read".into()),
                ..AutoReplyFacts::default()
            };
            catch_parser_panic("a header", || AutoReplyFacts::of_header(self.header))
                .unwrap_or_else(unreadable)
        })
    }
}

/// A number for the reply to one account. A retry of the transaction gets the same number.
pub(super) fn nonce(hash: &[u8; 32], account: AccountId) -> u64 {
    let mut hasher = blake3::Hasher::new_keyed(hash);
    hasher.update(&account.0.to_be_bytes());
    let mut bytes = [0u8; 8];
    hasher.finalize_xof().fill(&mut bytes);
    u64::from_be_bytes(bytes)
}
