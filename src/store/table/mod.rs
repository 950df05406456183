//! The tables of the store, each declared once.
//!
//! - The number and the name of a table never change and are never used for another table. The name
//!   is that of RocksDB's column family.
//! - `home`: to whom a row belongs (`Txn::assert_at_home`).
//! - `erased`: whether the rows whose keys begin with an account are deleted with the account.
//! - `seen_by_clients`: whether the states of clients depend on the rows, so that the repair of a
//!   row must refuse those states. Some checks decide this for each fault instead (`report_fault`).
//! - `repair`: how a repair corrects the rows.
//! - `tuning`: how the rows are written and read, for the options of the engine.

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
    BlobRefKey, DecisionKey, DeliveryKey, DeliveryTimeKey, DueKey, DuplicateKey, DuplicateTimeKey,
    EmailKey, HistoryKey, ListingEmailKey, ListingHistoryKey, MailboxKey, ModSeqKey, ObjectKey,
    ObjectModSeqKey, PurgeKey, RankKey, SameActionKey, ScriptHitsKey, ScriptKey, SharedKey,
    SiteKey, SubscriptionKey, SweepKey, ThreadEmailKey, ThreadIdKey, ThreadIndexKey, ThreadRefKey,
    ToldTimeKey, UploadBlobKey, UploadKey, VacationToldKey,
};

use super::error::Error;
use super::row::{
    AccountStateRow, DeliveryRow, Destination, DuplicateRow, HistoryRow, RankCount, RowError,
    SameAction, ScriptErrorsRow, ScriptSource, SweepRow, Thread, ThreadRefRow, ToldRow, UploadRow,
};
use crate::model::{
    AccountRow, Action, AddressRow, Decision, EmailId, EmailMetadata as EmailMetadataRow, Mailbox,
    ModSeq, ObjectId, RuleHits, ThreadId, VacationResponse,
};

/// A table as a type, so that keys and rows of another table do not compile.
pub(crate) trait Table {
    const ID: TableId;

    type Key: Key;

    type Row;
}

/// The row type of tables whose rows are encoded and decoded by functions.
#[derive(Debug)]
pub(crate) enum Encoded {}

/// A row that is the version byte alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Present;

macro_rules! table {
    ($(
        $(#[$doc:meta])*
        $name:ident = $number:literal $text:literal {
            key: $key:ty, row: $row:ty, home: $home:ident, erased: $erased:literal,
            seen_by_clients: $seen:literal,
            repair: $repair:ident $(($stray:ident))?,
            tuning: [$($tuning:ident $(($ordered:literal))?),*]
        }
    )*) => {
        /// The number of a table. Outside of this module its name is `store::engine::Table`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum TableId {
            $($(#[$doc])* $name = $number),*
        }

        impl TableId {
            /// In the order of the numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            pub(crate) const fn home(self) -> Home {
                match self { $(Self::$name => Home::$home),* }
            }

            pub(crate) const fn is_erased(self) -> bool {
                match self { $(Self::$name => $erased),* }
            }

            pub(crate) const fn is_seen_by_clients(self) -> bool {
                match self { $(Self::$name => $seen),* }
            }

            pub(crate) const fn repair(self) -> RepairMethod {
                match self { $(Self::$name => RepairMethod::$repair $((StrayKind::$stray))?),* }
            }

            #[cfg_attr(
                not(feature = "rocksdb"),
                expect(dead_code, reason = "only RocksDB is tuned")
            )]
            pub(crate) fn has_tuning(self, tuning: Tuning) -> bool {
                self.tunings().contains(&tuning)
            }

            pub(crate) fn tunings(self) -> &'static [Tuning] {
                match self { $(Self::$name => &[$(Tuning::$tuning $(($ordered))?),*]),* }
            }

            /// Decodes a key, which must use all bytes, and drops it.
            ///
            /// # Errors
            /// `Corrupt` if the bytes are not a key of the table.
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
    /// Name, addresses, quota, passwords, tokens.
    Accounts = 2 "accounts" {
        key: AccountKey, row: AccountRow, home: Account, erased: false, seen_by_clients: false,
        repair: Directory, tuning: []
    }
    /// Where an address, a catch-all or an alias domain leads.
    Addresses = 3 "addresses" {
        key: AddressKey, row: AddressRow, home: Site, erased: false, seen_by_clients: false,
        repair: Directory, tuning: []
    }
    /// The newest ids, the marks and the totals of an account.
    AccountState = 4 "account_state" {
        key: AccountKey, row: AccountStateRow, home: Account, erased: false, seen_by_clients: false,
        repair: State, tuning: [OrderedAfter(4)]
    }
    /// The changeable part of an email: mailboxes, keywords, thread, marks.
    EmailMetadata = 5 "email_metadata" {
        key: EmailKey, row: EmailMetadataRow, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: [NewestFirst, OftenMissing, ByKey, OrderedAfter(4)]
    }
    EmailByModseq = 6 "email_by_modseq" {
        key: ModSeqKey, row: EmailId, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: [SeldomScanned, OrderedAfter(4)]
    }
    EmailByThread = 7 "email_by_thread" {
        key: ThreadEmailKey, row: Present, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: [OrderedAfter(4)]
    }
    /// The parts of an email that lists show, and the trace prefix of its delivery.
    EmailContent = 8 "email_content" {
        key: EmailKey, row: Encoded, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: [SeldomScanned, OrderedAfter(4)]
    }
    /// The search tokens of an email that is in no fold yet.
    EmailTokens = 9 "email_tokens" {
        key: EmailKey, row: Encoded, home: Account, erased: true, seen_by_clients: false,
        repair: SearchIndex, tuning: [Incompressible, MostBytes, SeldomScanned, OrderedAfter(4)]
    }
    /// The search tokens of many emails, by token.
    SearchFolds = 10 "search_folds" {
        key: FoldKey, row: Encoded, home: Account, erased: true, seen_by_clients: false,
        repair: SearchIndex, tuning: []
    }
    /// The changes by which each email came to a listing and left it.
    MailboxEmailList = 11 "mailbox_email_list" {
        key: ListingHistoryKey, row: (EmailId, ThreadId), home: Account, erased: true,
        seen_by_clients: true,
        repair: Rows, tuning: [OrderedAfter(18)]
    }
    /// The emails of each listing, newest first.
    MailboxEmailIndex = 12 "mailbox_email_index" {
        key: ListingEmailKey, row: (ModSeq, ThreadId), home: Account, erased: true,
        seen_by_clients: true,
        repair: Rows, tuning: [NewestFirst, OrderedAfter(10)]
    }
    /// Counts of the sections of long listings, by which positions are found.
    MailboxRank = 13 "mailbox_rank" {
        key: RankKey, row: RankCount, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [OrderedAfter(8)]
    }
    /// The emails that a listing of a filter on emails has, by thread, newest first in each. For
    /// the listing of every email of all mail, `EmailByThread` is used instead.
    MailboxThreadIndex = 14 "mailbox_thread_index" {
        key: ThreadIndexKey, row: Present, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: [NewestFirst, OrderedAfter(9)]
    }
    /// The counters of a thread.
    Threads = 15 "threads" {
        key: ThreadIdKey, row: Thread, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: [SeldomScanned, OrderedAfter(4)]
    }
    ThreadByModseq = 16 "thread_by_modseq" {
        key: ModSeqKey, row: ThreadId, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: [SeldomScanned, OrderedAfter(4)]
    }
    /// The mailboxes of an account, with their counts and maintained listings.
    Mailboxes = 17 "mailboxes" {
        key: MailboxKey, row: Mailbox, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [OrderedAfter(8)]
    }
    /// The users other than the owner who are subscribed to a mailbox.
    Subscriptions = 18 "subscriptions" {
        key: SubscriptionKey, row: Present, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// The threads to which a Message-ID leads.
    ThreadRefs = 19 "thread_refs" {
        key: ThreadRefKey, row: ThreadRefRow, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [OftenMissing, SeldomScanned]
    }
    /// Messages as received, or where their bytes are.
    Blobs = 20 "blobs" {
        key: BlobKey, row: Encoded, home: Message, erased: false, seen_by_clients: false,
        repair: Never, tuning: [OftenMissing, ByKey, LargeValues, Messages, SeldomScanned]
    }
    /// The bytes of long messages, in frames.
    BlobFrames = 21 "blob_frames" {
        key: BlobFrameKey, row: Encoded, home: Message, erased: false, seen_by_clients: false,
        repair: Never, tuning: [Messages]
    }
    /// The emails and tombstones that refer to a message.
    BlobRefs = 22 "blob_refs" {
        key: BlobRefKey, row: Present, home: Message, erased: false, seen_by_clients: false,
        repair: Strays(EmailBlob), tuning: [SeldomScanned]
    }
    /// The LMTP transactions that were served.
    Deliveries = 23 "deliveries" {
        key: DeliveryKey, row: DeliveryRow, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [OftenMissing, SeldomScanned]
    }
    /// The LMTP transactions that were served, by time.
    DeliveryByTime = 24 "delivery_by_time" {
        key: DeliveryTimeKey, row: Present, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [Queue, SeldomScanned, OrderedAfter(4)]
    }
    Vacation = 25 "vacation" {
        key: AccountKey, row: VacationResponse, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// The senders who were sent a reply.
    VacationTold = 26 "vacation_told" {
        key: VacationToldKey, row: ToldRow, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// The senders who were sent a reply, by time.
    ToldByTime = 27 "told_by_time" {
        key: ToldTimeKey, row: Present, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [Queue, OrderedAfter(4)]
    }
    /// What the vacation responder and scripts decided on each message, newest first.
    Decisions = 28 "decisions" {
        key: DecisionKey, row: Decision, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [Queue, SeldomScanned, OrderedAfter(4)]
    }
    /// Destroyed emails, by the time they were destroyed.
    EmailPurge = 29 "email_purge" {
        key: PurgeKey, row: Present, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [Queue]
    }
    /// Queued actions, without the bytes that are sent.
    Outbox = 30 "outbox" {
        key: ActionKey, row: Action, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [Queue, OrderedAfter(4)]
    }
    /// The own bytes of an action, which it sends before its message in `blobs`, if it names one.
    OutboxMessages = 31 "outbox_messages" {
        key: ActionKey, row: Encoded, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [Queue, OrderedAfter(4)]
    }
    /// The wake-ups of the queued actions of all accounts.
    OutboxDue = 32 "outbox_due" {
        key: DueKey, row: Destination, home: Hint, erased: false, seen_by_clients: false,
        repair: Strays(WakeUp), tuning: [Queue]
    }
    /// The open action with a `duplicate_key`.
    OutboxSame = 33 "outbox_same" {
        key: SameActionKey, row: SameAction, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// The actions that send a message in `blobs`.
    OutboxBlobs = 34 "outbox_blobs" {
        key: ActionBlobKey, row: Present, home: Message, erased: false, seen_by_clients: false,
        repair: Strays(ActionBlob), tuning: []
    }
    /// Messages that may have had no reference since a time.
    BlobPurge = 35 "blob_purge" {
        key: BlobPurgeKey, row: Present, home: Hint, erased: false, seen_by_clients: false,
        repair: Never, tuning: [Queue]
    }
    /// Notes of how far the changes of an account had come at a time.
    History = 36 "history" {
        key: HistoryKey, row: HistoryRow, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// The progress of sweeps (`txn::sweep`).
    Sweeps = 37 "sweeps" {
        key: SweepKey, row: SweepRow, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// The uploads of each user to an account, without their bytes.
    Uploads = 38 "uploads" {
        key: UploadKey, row: UploadRow, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// The uploads that refer to bytes in `blobs`.
    UploadBlobs = 39 "upload_blobs" {
        key: UploadBlobKey, row: Present, home: Message, erased: false, seen_by_clients: false,
        repair: Strays(UploadBlob), tuning: []
    }
    /// Identities, submissions, push subscriptions, share notifications, Sieve scripts.
    Objects = 40 "objects" {
        key: ObjectKey, row: Encoded, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: []
    }
    /// The small objects whose kind has a state, by their last change.
    ObjectByModseq = 41 "object_by_modseq" {
        key: ObjectModSeqKey, row: ObjectId, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: []
    }
    /// The accounts that share a mailbox with a user.
    Shared = 42 "shared" {
        key: SharedKey, row: Present, home: Hint, erased: true, seen_by_clients: false,
        repair: Strays(Share), tuning: []
    }
    /// The sources of Sieve scripts, whose other properties are in `objects`.
    ScriptSources = 43 "script_sources" {
        key: ScriptKey, row: ScriptSource, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// The active script of an account.
    ActiveScript = 44 "active_script" {
        key: AccountKey, row: ObjectId, home: Account, erased: true, seen_by_clients: true,
        repair: Rows, tuning: [OftenMissing]
    }
    /// The newest errors of scripts that ran for an account.
    ScriptErrors = 45 "script_errors" {
        key: AccountKey, row: ScriptErrorsRow, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
    /// The messages that the `duplicate` test of scripts remembers.
    Duplicates = 46 "duplicates" {
        key: DuplicateKey, row: DuplicateRow, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [OftenMissing]
    }
    /// The messages that the `duplicate` test remembers, by the time when they are forgotten.
    DuplicateByTime = 47 "duplicate_by_time" {
        key: DuplicateTimeKey, row: Present, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: [Queue, OrderedAfter(4)]
    }
    /// How often each rule of a script fired. A rule that never fired has no row.
    ScriptHits = 48 "script_hits" {
        key: ScriptHitsKey, row: RuleHits, home: Account, erased: true, seen_by_clients: false,
        repair: Rows, tuning: []
    }
}

/// Decodes a key of the table `T`, which must use all bytes.
///
/// # Errors
/// `Corrupt` if the bytes are not a key of the table.
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
