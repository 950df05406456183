//! The tables of the store, each declared once: number, name, key, row, and what is true of its
//! rows.
//!
//! - The number and the name of a table never change and are never used again; the name is the
//!   column family of RocksDB. Batches are written in the order of the numbers.
//! - `key` and `row` are what [`Txn::put`](super::Txn) takes and what typed reads give.
//! - `home` says whose partition a row is in. The commit of an account writes only rows of its own
//!   home, and hints.
//! - `erased`: the rows that begin with an account go when the account is erased.
//! - `seen_by_clients`: clients know of the rows by their states, so that a repair of one must
//!   refuse those states.
//! - `repair`: how a repair puts the rows right.
//! - `tuning`: how the rows are written and asked for, as far as an engine can profit from knowing
//!   it.
//!
//! [`keys`] and [`folds`] have the keys, [`codec`] how they become bytes, `store::row` the rows.

pub(crate) mod attributes;
pub(crate) mod codec;
pub(crate) mod folds;
pub(crate) mod keys;
#[cfg(test)]
mod tests;

use std::fmt;

pub(crate) use attributes::{Home, RepairMethod, StrayKind, Tuning};
use codec::{Key, KeyPart as _};
use folds::FoldKey;
use keys::{
    AccountKey, ActionBlobKey, ActionKey, AddressKey, BlobFrameKey, BlobKey, BlobPurgeKey,
    BlobRefKey, DecisionKey, DeliveryKey, DeliveryTimeKey, DueKey, EmailKey, HistoryKey, IndexKey,
    ListKey, MailboxKey, ModSeqKey, ObjectKey, ObjectModSeqKey, PurgeKey, RankKey, SameKey,
    SharedKey, SiteKey, SubscriptionKey, SweepKey, ThreadEmailKey, ThreadIdKey, ThreadIndexKey,
    ThreadRefKey, ToldTimeKey, UploadBlobKey, UploadKey, VacationToldKey,
};

use super::error::Error;
use super::row::{
    AccountStateRow, DeliveryRow, Destination, HistoryRow, RankCount, RowError, SameAction,
    SweepRow, Thread, ThreadRefRow, ToldRow, UploadRow,
};
use crate::model::{
    AccountRow, Action, AddressRow, Decision, EmailId, EmailMetadata as EmailMetadataRow, Mailbox,
    ModSeq, ObjectId, ThreadId, VacationResponse,
};

/// A table: what the compiler needs to know so that a key or a row of another table does not fit.
pub(crate) trait Table {
    /// Its identity for engines.
    const ID: TableId;

    /// What its rows are found by.
    type Key: Key;

    /// What a row holds.
    type Row;
}

/// Bytes with a format of their own, which functions of `store::row` write and read in parts.
#[derive(Debug)]
pub(crate) enum Encoded {}

/// A row that says nothing but that it is there: the version byte alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Present;

macro_rules! table {
    ($(
        $(#[$doc:meta])*
        $name:ident = $number:literal $text:literal {
            key: $key:ty, row: $row:ty, home: $home:ident, erased: $erased:literal, seen_by_clients: $seen:literal,
            repair: $repair:ident $(($stray:ident))?, tuning: [$($tuning:ident),*]
        }
    )*) => {
        /// The identity of a table, and what is true of its rows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum TableId {
            $($(#[$doc])* $name = $number),*
        }

        impl TableId {
            /// Every table, in the order of the numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name on disk.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// Whose partition its rows are in.
            pub(crate) const fn home(self) -> Home {
                match self { $(Self::$name => Home::$home),* }
            }

            /// Whether the rows that begin with an account go with the account.
            pub(crate) const fn is_erased(self) -> bool {
                match self { $(Self::$name => $erased),* }
            }

            /// Whether clients know of its rows by their states.
            pub(crate) const fn is_seen_by_clients(self) -> bool {
                match self { $(Self::$name => $seen),* }
            }

            /// How a repair puts its rows right.
            pub(crate) const fn repair(self) -> RepairMethod {
                match self { $(Self::$name => RepairMethod::$repair $((StrayKind::$stray))?),* }
            }

            /// Whether its rows are written or asked for so.
            #[cfg_attr(not(feature = "rocksdb"), expect(dead_code, reason = "only RocksDB is tuned"))]
            pub(crate) fn has_tuning(self, tuning: Tuning) -> bool {
                let all: &[Tuning] = match self { $(Self::$name => &[$(Tuning::$tuning),*]),* };
                all.contains(&tuning)
            }

            /// Whether the bytes are a key of the table.
            ///
            /// # Errors
            /// `Corrupt`, where they are none.
            pub(crate) fn check_key(self, key: &[u8]) -> Result<(), Error> {
                match self { $(Self::$name => decode_key::<$name>(key).map(drop)),* }
            }
        }

        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub(crate) enum $name {}

            impl Table for $name {
                const ID: TableId = TableId::$name;
                type Key = $key;
                type Row = $row;
            }
        )*
    };
}

table! {
    /// Format, epoch and secrets of the store; the repairs that have not ended; whether the queue
    /// may send.
    Site = 1 "site" {
        key: SiteKey, row: Encoded, home: Site, erased: false, seen_by_clients: false,
        repair: Never, tuning: []
    }
    /// Accounts.
    Accounts = 2 "accounts" {
        key: AccountKey, row: AccountRow, home: Account, erased: false, seen_by_clients: false,
        repair: Directory, tuning: []
    }
    /// Where addresses, catch-alls, alias domains and account names lead.
    Addresses = 3 "addresses" {
        key: AddressKey, row: AddressRow, home: Site, erased: false, seen_by_clients: false,
        repair: Directory, tuning: []
    }
    /// Next ids, marks and totals of an account.
    AccountState = 4 "account_state" {
        key: AccountKey, row: AccountStateRow, home: Account, erased: false, seen_by_clients: false,
        repair: State, tuning: []
    }
    /// What changes of an email: its mailboxes, keywords, thread and marks.
    EmailMetadata = 5 "email_metadata" {
        key: EmailKey, row: EmailMetadataRow, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: [NewestFirst, OftenMissing, ByKey]
    }
    /// Emails by their last change.
    EmailByModseq = 6 "email_by_modseq" {
        key: ModSeqKey, row: EmailId, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: []
    }
    /// The emails of each thread.
    EmailByThread = 7 "email_by_thread" {
        key: ThreadEmailKey, row: Present, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: []
    }
    /// What a list shows of an email, and the trace fields of its delivery.
    EmailContent = 8 "email_content" {
        key: EmailKey, row: Encoded, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: []
    }
    /// The search tokens of an email that is in no fold yet.
    EmailTokens = 9 "email_tokens" {
        key: EmailKey, row: Encoded, home: Account, erased: true, seen_by_clients: false,
        repair: SearchIndex, tuning: [Queue, Incompressible]
    }
    /// The search tokens of many emails, by token.
    SearchFolds = 10 "search_folds" {
        key: FoldKey, row: Encoded, home: Account, erased: true, seen_by_clients: false,
        repair: SearchIndex, tuning: []
    }
    /// When each email came to a listing and left it.
    MailboxEmailList = 11 "mailbox_email_list" {
        key: ListKey, row: (EmailId, ThreadId), home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: []
    }
    /// The emails of each listing, newest first.
    MailboxEmailIndex = 12 "mailbox_email_index" {
        key: IndexKey, row: (ModSeq, ThreadId), home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: [NewestFirst]
    }
    /// Counts by which positions in long listings are found.
    MailboxRank = 13 "mailbox_rank" {
        key: RankKey, row: RankCount, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// The emails of each thread in each mailbox, newest first.
    MailboxThreadIndex = 14 "mailbox_thread_index" {
        key: ThreadIndexKey, row: Present, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: [NewestFirst]
    }
    /// What is counted of a thread.
    Threads = 15 "threads" {
        key: ThreadIdKey, row: Thread, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: []
    }
    /// Threads by their last change.
    ThreadByModseq = 16 "thread_by_modseq" {
        key: ModSeqKey, row: ThreadId, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: []
    }
    /// Mailboxes.
    Mailboxes = 17 "mailboxes" {
        key: MailboxKey, row: Mailbox, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// Who but the owner is subscribed to a mailbox.
    Subscriptions = 18 "subscriptions" {
        key: SubscriptionKey, row: Present, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// By which messages find their thread.
    ThreadRefs = 19 "thread_refs" {
        key: ThreadRefKey, row: ThreadRefRow, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [OftenMissing]
    }
    /// Messages as received, the long ones without their bytes.
    Blobs = 20 "blobs" {
        key: BlobKey, row: Encoded, home: Message, erased: false, seen_by_clients: false,
        repair: Never, tuning: [OftenMissing, ByKey, LargeValues, Messages]
    }
    /// The bytes of long messages, in frames.
    BlobFrames = 21 "blob_frames" {
        key: BlobFrameKey, row: Encoded, home: Message, erased: false, seen_by_clients: false,
        repair: Never, tuning: [Messages]
    }
    /// Which emails hold a message.
    BlobRefs = 22 "blob_refs" {
        key: BlobRefKey, row: Present, home: Message, erased: false, seen_by_clients: false,
        repair: Strays(EmailBlob), tuning: []
    }
    /// The LMTP transactions that were served, so that a retry is answered and not repeated.
    Deliveries = 23 "deliveries" {
        key: DeliveryKey, row: DeliveryRow, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [OftenMissing]
    }
    /// The same by time.
    DeliveryByTime = 24 "delivery_by_time" {
        key: DeliveryTimeKey, row: Present, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [Queue]
    }
    /// The vacation response.
    Vacation = 25 "vacation" {
        key: AccountKey, row: VacationResponse, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// Whom the vacation response answered.
    VacationTold = 26 "vacation_told" {
        key: VacationToldKey, row: ToldRow, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// The same by time.
    ToldByTime = 27 "told_by_time" {
        key: ToldTimeKey, row: Present, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [Queue]
    }
    /// What the vacation decided about each email, newest first.
    Decisions = 28 "decisions" {
        key: DecisionKey, row: Decision, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [Queue]
    }
    /// Destroyed emails, by the time they were destroyed.
    EmailPurge = 29 "email_purge" {
        key: PurgeKey, row: Present, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [Queue]
    }
    /// Queued actions, without the bytes that are sent.
    Outbox = 30 "outbox" {
        key: ActionKey, row: Action, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [Queue]
    }
    /// The bytes that an action sends, where no message of the store has them.
    OutboxMessages = 31 "outbox_messages" {
        key: ActionKey, row: Encoded, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [Queue]
    }
    /// What wakes which action, over all accounts.
    OutboxDue = 32 "outbox_due" {
        key: DueKey, row: Destination, home: Hint, erased: false, seen_by_clients: false,
        repair: Strays(WakeUp), tuning: [Queue]
    }
    /// Which action has which cause, so that no second one is queued for it.
    OutboxSame = 33 "outbox_same" {
        key: SameKey, row: SameAction, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// Which actions send a message of the store.
    OutboxBlobs = 34 "outbox_blobs" {
        key: ActionBlobKey, row: Present, home: Message, erased: false, seen_by_clients: false,
        repair: Strays(ActionBlob), tuning: []
    }
    /// Messages that lost a reference, by when: nobody may hold them any more.
    BlobPurge = 35 "blob_purge" {
        key: BlobPurgeKey, row: Present, home: Hint, erased: false, seen_by_clients: false,
        repair: Never, tuning: [Queue]
    }
    /// How far the changes of an account had come at a time.
    History = 36 "history" {
        key: HistoryKey, row: HistoryRow, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// How far the slow rounds over whole tables have come.
    Sweeps = 37 "sweeps" {
        key: SweepKey, row: SweepRow, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// What was uploaded and is no email yet, without its bytes.
    Uploads = 38 "uploads" {
        key: UploadKey, row: UploadRow, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// Which uploads hold which bytes.
    UploadBlobs = 39 "upload_blobs" {
        key: UploadBlobKey, row: Present, home: Message, erased: false, seen_by_clients: false,
        repair: Strays(UploadBlob), tuning: []
    }
    /// Identities, submissions, push subscriptions, share notifications.
    Objects = 40 "objects" {
        key: ObjectKey, row: Encoded, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: []
    }
    /// Those with a state, by their last change.
    ObjectByModseq = 41 "object_by_modseq" {
        key: ObjectModSeqKey, row: ObjectId, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: []
    }
    /// Which accounts share something with a user.
    Shared = 42 "shared" {
        key: SharedKey, row: Present, home: Hint, erased: true, seen_by_clients: false,
        repair: Strays(Share), tuning: []
    }
}

/// The key that `bytes` are in table `T`.
///
/// # Errors
/// `Corrupt`, where they are none.
pub(crate) fn decode_key<T: Table>(bytes: &[u8]) -> Result<T::Key, Error> {
    let mut input = bytes;
    let corrupt = |bad: RowError| bad.of(T::ID, bytes);
    let key = T::Key::read(&mut input).map_err(corrupt)?;
    if input.is_empty() { Ok(key) } else { Err(corrupt(RowError("the key is too long"))) }
}

impl fmt::Display for TableId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
