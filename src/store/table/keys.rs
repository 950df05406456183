//! The keys of all tables, except those of the search index (`folds`).
//!
//! - Rows sort by the fields of the key, in the order of the declaration.
//! - Ascending order of `EmailId` is newest first. `ThreadId`, `ActionId` and `ModSeq` ascend with
//!   time.

use std::cmp::Reverse;

use super::codec::{Key, KeyPart, KeyTime, Prefix, key};
use crate::model::{
    AccountId, ActionId, BlobHash, EmailId, Listing, ListingFilter, MailboxUid, ModSeq, ObjectId,
    ObjectKind, ThreadId, ThreadKey, ToldKey, UtcMillis,
};
use crate::store::row::RowError;

key! {
    /// The key of tables with one row for each account.
    AccountKey { account: AccountId }

    /// An email of an account, newest first.
    EmailKey { account: AccountId, email: EmailId }

    /// The number of the last change of an email, or of a thread. The row names the email or the
    /// thread.
    ModSeqKey { account: AccountId, modseq: ModSeq }

    ThreadEmailKey { account: AccountId, thread: ThreadId, email: EmailId }

    /// An interval in which a listing showed an email: from the change `added` to the change
    /// `removed`, which is 0 while the listing still shows the email.
    ListingHistoryKey { account: AccountId, listing: Listing, removed: ModSeq, added: ModSeq }

    /// An email that a listing shows now, newest first.
    ListingEmailKey { account: AccountId, listing: Listing, email: EmailId }

    /// A section of a long listing, which begins with the email `boundary`. The row counts the
    /// emails of the section.
    RankKey { account: AccountId, listing: Listing, level: u8, boundary: EmailId }

    /// An email that is in a mailbox and matches a listing filter on emails, under its thread,
    /// newest first.
    ThreadIndexKey {
        account: AccountId,
        mailbox: MailboxUid,
        filter: ListingFilter,
        thread: ThreadId,
        email: EmailId,
    }

    /// A thread of an account, oldest first.
    ThreadIdKey { account: AccountId, thread: ThreadId }

    MailboxKey { account: AccountId, mailbox: MailboxUid }

    SubscriptionKey { account: AccountId, mailbox: MailboxUid, subscriber: AccountId }

    /// The hash of a Message-ID and a base subject, by which later messages find their thread.
    ThreadRefKey { account: AccountId, key: ThreadKey }

    BlobKey { blob: BlobHash }

    /// A part of the bytes of a long message. Frames are numbered from 0.
    BlobFrameKey { blob: BlobHash, number: u32 }

    /// An email, or the tombstone of one, that refers to the bytes of a message.
    BlobRefKey { blob: BlobHash, account: AccountId, email: EmailId }

    /// An LMTP transaction, by the hash of envelope sender and message.
    DeliveryKey { account: AccountId, hash: [u8; 32] }

    /// An LMTP transaction, by the time when it was first served, oldest first.
    DeliveryTimeKey { account: AccountId, at: KeyTime, hash: [u8; 32] }

    VacationToldKey { account: AccountId, told: ToldKey }

    /// A sender who was sent a reply, oldest reply first.
    ToldTimeKey { account: AccountId, at: KeyTime, told: ToldKey }

    /// A decision on a message, newest first. If the message was not stored, or was decided on
    /// before at this time, `email` is a number that is free (`Txn::add_decision`).
    DecisionKey { account: AccountId, at: Reverse<KeyTime>, email: EmailId }

    /// A destroyed email, by the time when it was destroyed, oldest first.
    PurgeKey { account: AccountId, at: KeyTime, email: EmailId }

    ActionKey { account: AccountId, action: ActionId }

    /// A wake-up of a queued action, of any account. Rows sort by the class of the condition, and
    /// within a class the next wake-up comes first.
    DueKey { wake: WakeCondition, account: AccountId, action: ActionId }

    /// The `duplicate_key` of an open action. While the action is open, no equal one is queued.
    SameActionKey { account: AccountId, hash: [u8; 16] }

    ActionBlobKey { blob: BlobHash, account: AccountId, action: ActionId }

    /// A message that may have had no reference since `at`, oldest first.
    BlobPurgeKey { at: KeyTime, blob: BlobHash }

    /// A time at which the newest change number of an account was noted.
    HistoryKey { account: AccountId, at: KeyTime }

    /// A sweep over a table, or over the rows of the account in it. `number` tells which sweep
    /// (`txn::sweep`).
    SweepKey { account: AccountId, number: u8 }

    UploadKey { account: AccountId, user: AccountId, blob: BlobHash }

    UploadBlobKey { blob: BlobHash, account: AccountId, user: AccountId }

    /// A small object of an account (`ObjectKind`).
    ObjectKey { account: AccountId, kind: ObjectKind, object: ObjectId }

    /// The number of the last change of a small object.
    ObjectModSeqKey { account: AccountId, kind: ObjectKind, modseq: ModSeq }

    ScriptKey { account: AccountId, script: ObjectId }

    /// A rule of a script, by the byte of the source at which it begins.
    ScriptHitsKey { account: AccountId, script: ObjectId, rule: u32 }

    /// A message that the `duplicate` test of scripts remembers, by the hash of handle and value.
    DuplicateKey { account: AccountId, hash: [u8; 32] }

    /// A message that the `duplicate` test remembers, by the time when it is forgotten.
    DuplicateTimeKey { account: AccountId, until: KeyTime, hash: [u8; 32] }

    /// A user and an account that shares a mailbox with that user.
    SharedKey { user: AccountId, account: AccountId }
}

/// Implements the prefixes of keys that have a `Listing`: all listings of a mailbox, and those of
/// them with one listing filter. They encode like those of `ThreadIndexKey`.
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

/// The key of an address row: the address in its stored form, `@domain` for a catch-all, or
/// `@@domain` for an alias domain.
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

/// The keys of the rows of the site.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SiteKey {
    /// Says whether the queue may send.
    Queue,
    /// Marks an account whose repair is unfinished.
    Repair(AccountId),
    /// Has the format of the store, its epoch and its secrets.
    Store,
}

impl SiteKey {
    const QUEUE: &[u8] = b"queue";
    const REPAIR: &[u8] = b"repair:";
    const STORE: &[u8] = b"store";

    /// Whether these bytes are the key of the account's `Repair` row.
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

/// The prefix of all `SiteKey::Repair`.
pub(crate) struct RepairsPrefix;

impl Prefix<SiteKey> for RepairsPrefix {
    fn encode(&self) -> Vec<u8> {
        SiteKey::REPAIR.to_vec()
    }
}

/// The condition that wakes a queued action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WakeCondition {
    /// An attempt began, and no result is recorded yet. The action was due at this time.
    Attempting(UtcMillis),
    /// The action is due at this time, and goes before others because a person waits for it.
    Urgent(UtcMillis),
    /// The action is due at this time.
    Due(UtcMillis),
    /// Another action of the account must end first.
    After(ActionId),
    /// The action is done. Its rows are deleted at this time.
    Forget(UtcMillis),
}

impl WakeCondition {
    /// Returns the class of the condition, and the number by which conditions of the class sort: a
    /// time in milliseconds, or for `After` an action.
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
        let (class, order) = self.class_and_order();
        class.write(out);
        order.write(out);
    }

    fn read(input: &mut &[u8]) -> Result<Self, RowError> {
        let (class, order) = (u8::read(input)?, u64::read(input)?);
        let at = UtcMillis::from(KeyTime::from(order));
        match class {
            0 => Ok(Self::Attempting(at)),
            1 => Ok(Self::Urgent(at)),
            2 => Ok(Self::Due(at)),
            3 => Ok(Self::After(ActionId(order))),
            4 => Ok(Self::Forget(at)),
            _ => Err(RowError("the key names an unknown class of wake-ups")),
        }
    }
}

/// The prefix of all wake-ups whose condition has the same class as this one.
pub(crate) struct WakeClassPrefix(pub(crate) WakeCondition);

impl Prefix<DueKey> for WakeClassPrefix {
    fn encode(&self) -> Vec<u8> {
        vec![self.0.class_and_order().0]
    }
}
