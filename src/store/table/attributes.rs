//! Attributes of tables.

/// To whom a row belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// To the account with which the key begins.
    Account,
    /// To account 0.
    Site,
    /// To the message with whose hash the key begins. Several accounts may refer to it.
    Message,
    /// To nobody. What the row names is looked up before it is used.
    Hint,
}

/// How a repair corrects the rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepairMethod {
    /// Row by row. Reads of the account in the table are refused meanwhile (`RepairGuard`).
    Rows,
    /// Row by row, as changes of the directory. The rows can be read meanwhile.
    Directory,
    /// Field by field of the account's state row, which can be read meanwhile.
    State,
    /// The search index as a whole. Reads of the account in the table are refused meanwhile.
    SearchIndex,
    /// A row that names something that does not exist is deleted by an ordinary commit of its
    /// account. The rows of an account are spread over the table, so one pass serves all accounts.
    Strays(StrayKind),
    Never,
}

/// What the rows of a table with `RepairMethod::Strays` name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StrayKind {
    /// An email or a tombstone that has a message.
    EmailBlob,
    /// An action that sends a message.
    ActionBlob,
    /// An upload that has bytes in `blobs`.
    UploadBlob,
    /// An action that is to be woken.
    WakeUp,
    /// An account that shares a mailbox with a user.
    Share,
}

impl RepairMethod {
    /// Whether reads of an account in such a table are refused while the account is repaired.
    pub(crate) const fn closes_account(self) -> bool {
        matches!(self, Self::Rows | Self::SearchIndex)
    }
}

/// How the rows of a table are written and read. A table may have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tuning {
    /// Rows are deleted in about the order in which they were added, and readers look for the
    /// first.
    Queue,
    /// Readers begin at the newest email, so deleted rows lie before the first page.
    NewestFirst,
    /// Lookups often find no row, for instance in every delivery.
    OftenMissing,
    /// Rows are looked up by whole keys, many at a time.
    ByKey,
    /// Values may be long, and are read one at a time.
    LargeValues,
    /// Values may be messages, as earlier versions stored them: large, and written once.
    Messages,
    Incompressible,
    /// More bytes are written to it than to any other table.
    MostBytes,
    /// Rows are looked up by whole keys, or a request has one scan at most, which may look into
    /// more files.
    SeldomScanned,
    /// Among rows whose keys have this many first bytes in common, new rows come in the order of
    /// their keys, or in the opposite order.
    OrderedAfter(usize),
}
