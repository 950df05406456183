//! The keys of all tables.
//!
//! The fields stand in the order in which they are written, which is the order of the rows. A key
//! of an account's own table begins with the account.

use std::cmp::Reverse;

use super::codec::{Key, KeyPart, KeyTime, Prefix, key};
use crate::model::{
    AccountId, ActionId, BlobHash, EmailId, Listing, ListingFilter, MailboxUid, ModSeq, ObjectId,
    ObjectKind, ThreadId, ThreadKey, ToldKey, UtcMillis,
};
use crate::store::row::RowError;

key! {
    /// What an account has one row of.
    AccountKey { account: AccountId }

    /// An email of an account, newest first.
    EmailKey { account: AccountId, email: EmailId }

    /// A change of an account; each changed email and each changed thread has one of its own.
    ModSeqKey { account: AccountId, modseq: ModSeq }

    /// An email of a thread, newest first.
    ThreadEmailKey { account: AccountId, thread: ThreadId, email: EmailId }

    /// An email's stay in a listing; `removed` is 0 while the listing shows the email.
    ListKey { account: AccountId, listing: Listing, removed: ModSeq, added: ModSeq }

    /// An email in a listing, newest first.
    IndexKey { account: AccountId, listing: Listing, email: EmailId }

    /// The first email of a counted stretch of a listing.
    RankKey { account: AccountId, listing: Listing, level: u8, boundary: EmailId }

    /// An email of a thread in a mailbox, as far as the view shows it, newest first.
    ThreadIndexKey { account: AccountId, mailbox: MailboxUid, filter: ListingFilter, thread: ThreadId, email: EmailId }

    /// A thread of an account.
    ThreadIdKey { account: AccountId, thread: ThreadId }

    /// A mailbox of an account.
    MailboxKey { account: AccountId, mailbox: MailboxUid }

    /// A mailbox and a user who is subscribed to it.
    SubscriptionKey { account: AccountId, mailbox: MailboxUid, subscriber: AccountId }

    /// What messages of one thread have in common.
    ThreadRefKey { account: AccountId, key: ThreadKey }

    /// A message as received.
    BlobKey { blob: BlobHash }

    /// A frame of a long message.
    BlobFrameKey { blob: BlobHash, number: u32 }

    /// An email that holds a message.
    BlobRefKey { blob: BlobHash, account: AccountId, email: EmailId }

    /// An LMTP transaction, by the hash of sender and message.
    DeliveryKey { account: AccountId, hash: [u8; 32] }

    /// The same by time.
    DeliveryTimeKey { account: AccountId, at: KeyTime, hash: [u8; 32] }

    /// A sender whom a vacation response answered.
    VacationToldKey { account: AccountId, told: ToldKey }

    /// The same by time.
    ToldTimeKey { account: AccountId, at: KeyTime, told: ToldKey }

    /// A decision of the vacation about an email, newest first.
    DecisionKey { account: AccountId, at: Reverse<KeyTime>, email: EmailId }

    /// A destroyed email, by the time it was destroyed.
    PurgeKey { account: AccountId, at: KeyTime, email: EmailId }

    /// A queued action.
    ActionKey { account: AccountId, action: ActionId }

    /// What wakes a queued action.
    DueKey { wake: WakeCondition, account: AccountId, action: ActionId }

    /// The cause of a queued action.
    SameKey { account: AccountId, hash: [u8; 16] }

    /// A queued action that sends a message of the store.
    ActionBlobKey { blob: BlobHash, account: AccountId, action: ActionId }

    /// A message that lost a reference, by when.
    BlobPurgeKey { at: KeyTime, blob: BlobHash }

    /// How far the changes of an account had come at a time.
    HistoryKey { account: AccountId, at: KeyTime }

    /// A slow round over one of an account's tables.
    SweepKey { account: AccountId, round: u8 }

    /// Bytes that a user uploaded to an account.
    UploadKey { account: AccountId, user: AccountId, blob: BlobHash }

    /// The same by the bytes.
    UploadBlobKey { blob: BlobHash, account: AccountId, user: AccountId }

    /// A small object of an account.
    ObjectKey { account: AccountId, kind: ObjectKind, object: ObjectId }

    /// The last change of a small object.
    ObjectModSeqKey { account: AccountId, kind: ObjectKind, modseq: ModSeq }

    /// A user and an account that shares a mailbox with that user.
    SharedKey { with: AccountId, account: AccountId }
}

/// All listings of a mailbox, or of one of its views.
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

listings!(IndexKey, ListKey, RankKey);

/// An address, `@domain` of a catch-all, `@@domain` of an alias domain, or `=name` of an account.
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
    /// A repair of an account that has not ended.
    Repair(AccountId),
    /// Format, epoch and secrets.
    Store,
}

impl SiteKey {
    const QUEUE: &[u8] = b"queue";
    const REPAIR: &[u8] = b"repair:";
    const STORE: &[u8] = b"store";

    /// Whether the key is that of an account's own repair, the one row of the site that the
    /// account's commits write.
    pub(crate) fn is_of(key: &[u8], account: AccountId) -> bool {
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

/// All unfinished repairs.
pub(crate) struct Repairs;

impl Prefix<SiteKey> for Repairs {
    fn encode(&self) -> Vec<u8> {
        SiteKey::REPAIR.to_vec()
    }
}

/// What wakes a queued action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WakeCondition {
    /// An attempt that began at this time has not ended.
    Attempting(UtcMillis),
    /// This time; a person waits for it.
    Urgent(UtcMillis),
    /// This time.
    Due(UtcMillis),
    /// The end of another action of the account.
    After(ActionId),
    /// This time: the action is over and is forgotten then.
    Forget(UtcMillis),
}

impl WakeCondition {
    /// Its class, and its place in the class.
    pub(crate) fn class_and_rank(self) -> (u8, u64) {
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
        let (class, place) = self.class_and_rank();
        class.write(out);
        place.write(out);
    }

    fn read(input: &mut &[u8]) -> Result<Self, RowError> {
        let (class, place) = (u8::read(input)?, u64::read(input)?);
        let at = UtcMillis::from(KeyTime::from(place));
        match class {
            0 => Ok(Self::Attempting(at)),
            1 => Ok(Self::Urgent(at)),
            2 => Ok(Self::Due(at)),
            3 => Ok(Self::After(ActionId(place))),
            4 => Ok(Self::Forget(at)),
            _ => Err(RowError("the key names an unknown class of wake-ups")),
        }
    }
}

/// All wake-ups of the class of this one.
pub(crate) struct WakeClass(pub(crate) WakeCondition);

impl Prefix<DueKey> for WakeClass {
    fn encode(&self) -> Vec<u8> {
        vec![self.0.class_and_rank().0]
    }
}
