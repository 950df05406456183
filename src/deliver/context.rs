//! One transaction, as the jobs of all its accounts see it.

use std::cell::OnceCell;

use super::{DeliveryTransaction, Settings};
use crate::message::header::Header;
use crate::message::{auto::AutoReplyFacts, catch_parser_panic};
use crate::model::{AccountId, Envelope, MonotonicMillis, ReturnedReport, ThreadKey, UtcMillis};

/// A transaction as every account's job sees it.
pub(super) struct DeliveryContext<'a> {
    pub(super) settings: &'a Settings,
    pub(super) session: &'a DeliveryTransaction,
    pub(super) envelope: &'a Envelope,
    /// From where the header begins.
    pub(super) header: &'a Header<'a>,
    /// Read only where a response is on.
    pub(super) facts: OnceCell<AutoReplyFacts>,
    pub(super) thread_keys: &'a [ThreadKey],
    pub(super) hash: &'a [u8; 32],
    pub(super) now: UtcMillis,
    /// The same moment, for limits.
    pub(super) steady: MonotonicMillis,
    /// What it says of something that was sent from here, if it is a report.
    pub(super) returned: Option<ReturnedReport>,
}

impl DeliveryContext<'_> {
    pub(super) fn facts(&self) -> &AutoReplyFacts {
        self.facts.get_or_init(|| {
            let unread = || AutoReplyFacts {
                suppress: Some("its header cannot be read".into()),
                ..AutoReplyFacts::default()
            };
            catch_parser_panic("a header", || AutoReplyFacts::of_header(self.header))
                .unwrap_or_else(unread)
        })
    }
}

/// A number of this reply's own, the same if the transaction is tried again.
pub(super) fn nonce(hash: &[u8; 32], account: AccountId) -> u64 {
    let mut hasher = blake3::Hasher::new_keyed(hash);
    hasher.update(&account.0.to_be_bytes());
    let mut octets = [0u8; 8];
    hasher.finalize_xof().fill(&mut octets);
    u64::from_be_bytes(octets)
}
