//! The keys of all tables, except those of the search index.
//!
//! Rows sort by the fields of their key, in the order of the declaration. A key of a table whose
//! home is an account begins with the account.

use std::cmp::Reverse;

use super::codec::{Key, KeyPart, KeyTime, Prefix, key};
use crate::model::{
    AccountId, ActionId, BlobHash, EmailId, Listing, ListingFilter, MailboxUid, ModSeq, ObjectId,
    ObjectKind, ThreadId, ThreadKey, ToldKey, UtcMillis,
};
use crate::store::row::RowError;

key! {
    /// An account, in tables with one row for each account.
    AccountKey { account: AccountId }

    /// An email of an account, newest first.
    EmailKey { account: AccountId, email: EmailId }

    /// A change of an account. Each changed email or thread has a change number of its own.
    ModSeqKey { account: AccountId, modseq: ModSeq }

    /// An email of a thread, newest first.
    ThreadEmailKey { account: AccountId, thread: ThreadId, email: EmailId }

    /// An interval in which a listing showed an email. `removed` is 0 while the listing shows it.
    ListingHistoryKey { account: AccountId, listing: Listing, removed: ModSeq, added: ModSeq }

    /// An email in a listing, newest first.
    ListingEmailKey { account: AccountId, listing: Listing, email: EmailId }

    /// The first email of a section of a listing whose emails are counted.
    RankKey { account: AccountId, listing: Listing, level: u8, boundary: EmailId }

    /// An email of a thread that matches a listing filter in a mailbox, newest first.
    ThreadIndexKey {
        account: AccountId,
        mailbox: MailboxUid,
        filter: ListingFilter,
        thread: ThreadId,
        email: EmailId,
    }

    /// A thread of an account, oldest first.
    ThreadIdKey { account: AccountId, thread: ThreadId }

    /// A mailbox of an account.
    MailboxKey { account: AccountId, mailbox: MailboxUid }

    /// A mailbox and a user who is subscribed to it.
    SubscriptionKey { account: AccountId, mailbox: MailboxUid, subscriber: AccountId }

    /// A Message-ID with a base subject, which leads to a thread.
    ThreadRefKey { account: AccountId, key: ThreadKey }

    /// A message as received.
    BlobKey { blob: BlobHash }

    /// A frame of a long message.
    BlobFrameKey { blob: BlobHash, number: u32 }

    /// An email that holds a message.
    BlobRefKey { blob: BlobHash, account: AccountId, email: EmailId }

    /// An LMTP transaction, by the hash of sender and message.
    DeliveryKey { account: AccountId, hash: [u8; 32] }

    /// An LMTP transaction, by the time when it was served.
    DeliveryTimeKey { account: AccountId, at: KeyTime, hash: [u8; 32] }

    /// A sender who was sent a reply.
    VacationToldKey { account: AccountId, told: ToldKey }

    /// A sender who was sent a reply, by the time of the reply.
    ToldTimeKey { account: AccountId, at: KeyTime, told: ToldKey }

    /// A decision of the vacation responder about an email, newest first.
    DecisionKey { account: AccountId, at: Reverse<KeyTime>, email: EmailId }

    /// A destroyed email, by the time it was destroyed.
    PurgeKey { account: AccountId, at: KeyTime, email: EmailId }

    /// A queued action.
    ActionKey { account: AccountId, action: ActionId }

    /// A wake-up of a queued action, the next one first.
    DueKey { wake: WakeCondition, account: AccountId, action: ActionId }

    /// The hash of the cause of a queued action.
    ActionCauseKey { account: AccountId, hash: [u8; 16] }

    /// A queued action that sends a message in `blobs`.
    ActionBlobKey { blob: BlobHash, account: AccountId, action: ActionId }

    /// A message that lost a reference, by the time.
    BlobPurgeKey { at: KeyTime, blob: BlobHash }

    /// The time of a note of how far the changes of an account had come.
    HistoryKey { account: AccountId, at: KeyTime }

    /// A sweep over one of an account's tables.
    SweepKey { account: AccountId, number: u8 }

    /// Bytes that a user uploaded to an account.
    UploadKey { account: AccountId, user: AccountId, blob: BlobHash }

    /// An upload, by the hash of its bytes.
    UploadBlobKey { blob: BlobHash, account: AccountId, user: AccountId }

    /// A small object of an account.
    ObjectKey { account: AccountId, kind: ObjectKind, object: ObjectId }

    /// The last change of a small object.
    ObjectModSeqKey { account: AccountId, kind: ObjectKind, modseq: ModSeq }

    /// A user and an account that shares a mailbox with that user.
    SharedKey { user: AccountId, account: AccountId }
}

/// Implements the prefixes for all listings of a mailbox, and for those with one listing filter.
macro_rules! listings {
    ($($key:ty),*) => {$(
        impl Prefix<$key> for (AccountId, MailboxUid) {
            fn encode(&self) -> Vec<u8> {
                Prefix::<ThreadIndexKey>::encode(self)
            }
        }

        impl Prefix<$key> for (AccountId, MailboxUid, ListingFilter) {
            fn encode(&self) -> Vec<u8> {
                Prefix::<ThreadIndexKey>::encode(self)
            }
        }
    )*};
}

listings!(ListingEmailKey, ListingHistoryKey, RankKey);

/// An address, `@domain` for a catch-all, `@@domain` for an alias domain, or `=name` for the name
/// of an account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AddressKey(pub(crate) String);

impl KeyPart for AddressKey {
    const WIDTH: usize = 0;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }

    fn read(input: &mut &[u8]) -> Result<Self, RowError> {
        let text = std::str::from_utf8(std::mem::take(input))
            .map_err(|_| RowError("the key is not UTF-8"))?;
        Ok(Self(text.to_owned()))
    }
}

impl Key for AddressKey {}

/// A row about the store itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SiteKey {
    /// Whether the queue may send.
    Queue,
    /// An unfinished repair of an account.
    Repair(AccountId),
    /// Format, epoch and secrets.
    Store,
}

impl SiteKey {
    const QUEUE: &[u8] = b"queue";
    const REPAIR: &[u8] = b"repair:";
    const STORE: &[u8] = b"store";

    /// Whether the key is that of the account's repair, the only row of the site that commits of
    /// the account write.
    pub(crate) fn is_repair_of(key: &[u8], account: AccountId) -> bool {
        key == Prefix::<Self>::encode(&Self::Repair(account))
    }
}

impl KeyPart for SiteKey {
    const WIDTH: usize = 0;

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Queue => out.extend_from_slice(Self::QUEUE),
            Self::Repair(account) => {
                out.extend_from_slice(Self::REPAIR);
                account.write(out);
            }
            Self::Store => out.extend_from_slice(Self::STORE),
        }
    }

    fn read(input: &mut &[u8]) -> Result<Self, RowError> {
        let whole = *input;
        if let Some(rest) = whole.strip_prefix(Self::REPAIR) {
            *input = rest;
            return AccountId::read(input).map(Self::Repair);
        }
        *input = &[];
        match whole {
            Self::QUEUE => Ok(Self::Queue),
            Self::STORE => Ok(Self::Store),
            _ => Err(RowError("the key names an unknown row of the site")),
        }
    }
}

impl Key for SiteKey {}

/// The prefix of all unfinished repairs.
pub(crate) struct RepairsPrefix;

impl Prefix<SiteKey> for RepairsPrefix {
    fn encode(&self) -> Vec<u8> {
        SiteKey::REPAIR.to_vec()
    }
}

/// The condition that wakes a queued action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WakeCondition {
    /// An attempt that began at this time has not ended.
    Attempting(UtcMillis),
    /// The action is due at this time, and a person waits for it.
    Urgent(UtcMillis),
    /// The action is due at this time.
    Due(UtcMillis),
    /// Another action of the account must end first.
    After(ActionId),
    /// The action is done, and is deleted at this time.
    Forget(UtcMillis),
}

impl WakeCondition {
    /// The class of the condition, and the number by which it sorts within the class.
    pub(crate) fn class_and_order(self) -> (u8, u64) {
        let millis = |at: UtcMillis| u64::from(KeyTime::from(at));
        match self {
            Self::Attempting(at) => (0, millis(at)),
            Self::Urgent(at) => (1, millis(at)),
            Self::Due(at) => (2, millis(at)),
            Self::After(action) => (3, action.0),
            Self::Forget(at) => (4, millis(at)),
        }
    }
}

impl KeyPart for WakeCondition {
    const WIDTH: usize = 9;

    fn write(&self, out: &mut Vec<u8>) {
        let (class, rank) = self.class_and_order();
        class.write(out);
        rank.write(out);
    }

    fn read(input: &mut &[u8]) -> Result<Self, RowError> {
        let (class, rank) = (u8::read(input)?, u64::read(input)?);
        let at = UtcMillis::from(KeyTime::from(rank));
        match class {
            0 => Ok(Self::Attempting(at)),
            1 => Ok(Self::Urgent(at)),
            2 => Ok(Self::Due(at)),
            3 => Ok(Self::After(ActionId(rank))),
            4 => Ok(Self::Forget(at)),
            _ => Err(RowError("the key names an unknown class of wake-ups")),
        }
    }
}

/// The prefix of all wake-ups of the same class as this one.
pub(crate) struct WakeClassPrefix(pub(crate) WakeCondition);

impl Prefix<DueKey> for WakeClassPrefix {
    fn encode(&self) -> Vec<u8> {
        vec![self.0.class_and_order().0]
    }
}
