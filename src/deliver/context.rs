//! What the deliveries of one LMTP transaction share.

use std::cell::OnceCell;

use super::version::EditedVersions;
use super::{LoadedScripts, Settings};
use crate::account::ResolvedAddress;
use crate::filter::EditedMessage;
use crate::message::header::Header;
use crate::message::{auto::AutoReplyFacts, catch_parser_panic};
use crate::model::{
    AccountId, Address, BlobHash, Envelope, Identity, MonotonicMillis, Recipient, ReturnedReport,
    ThreadKey, UtcMillis,
};
use crate::store::Snapshot;

pub(super) struct DeliveryContext<'a> {
    pub(super) settings: &'a Settings,
    pub(super) envelope: &'a Envelope,
    /// `Header::raw` is the message from where its header begins.
    pub(super) header: &'a Header<'a>,
    pub(super) facts: OnceCell<AutoReplyFacts>,
    pub(super) thread_keys: &'a [ThreadKey],
    /// The hash of the message's bytes.
    pub(super) blob: BlobHash,
    /// The hash by which a retry of the transaction is recognised.
    pub(super) hash: &'a [u8; 32],
    pub(super) now: UtcMillis,
    /// The same time as `now`, for rate limits.
    pub(super) monotonic_now: MonotonicMillis,
    /// What the message says, if it is a report that can be read.
    pub(super) returned_report: Option<ReturnedReport>,
    pub(super) scripts: &'a LoadedScripts,
    /// The versions that scripts made, for all recipients.
    pub(super) versions: EditedVersions,
}

/// One recipient, and what is known of its account.
#[derive(Clone, Copy)]
pub(super) struct RecipientContext<'a> {
    pub(super) snapshot: &'a Snapshot<'a>,
    pub(super) recipient: &'a Recipient,
    pub(super) target: &'a ResolvedAddress,
    pub(super) identity: &'a Identity,
    /// The trace fields of the delivery to this recipient; empty where a notice is only considered.
    pub(super) prefix: &'a [u8],
}

impl DeliveryContext<'_> {
    /// Returns the facts in the header that decide about an answer. A message whose header cannot
    /// be parsed is not answered.
    pub(super) fn facts(&self) -> &AutoReplyFacts {
        self.facts.get_or_init(|| read_facts(self.header))
    }

    /// Returns the facts in the header that a script has edited, with what speaks against an answer
    /// in the header as received: an edit may silence an answer, and cannot bring one about.
    pub(super) fn edited_facts(&self, message: &EditedMessage) -> AutoReplyFacts {
        read_facts(&Header::split(&message.0)).with_findings_of(self.facts())
    }
}

fn read_facts(header: &Header<'_>) -> AutoReplyFacts {
    let unreadable = || AutoReplyFacts {
        suppress: Some("the header of the message cannot be read".into()),
        ..AutoReplyFacts::default()
    };
    catch_parser_panic("a header", || AutoReplyFacts::of_header(header)).unwrap_or_else(unreadable)
}

/// Returns a number for the Message-ID of what a transaction makes an account send for a recipient.
/// A retry of the transaction gets the same number.
pub(super) fn nonce(hash: &[u8; 32], account: AccountId, recipient: &Address) -> u64 {
    let mut hasher = blake3::Hasher::new_keyed(hash);
    hasher.update(&account.0.to_be_bytes());
    hasher.update(recipient.to_string().as_bytes());
    let mut bytes = [0u8; 8];
    hasher.finalize_xof().fill(&mut bytes);
    u64::from_be_bytes(bytes)
}
