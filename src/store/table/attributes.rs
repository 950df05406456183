//! Attributes of tables: to whom rows belong, how they are repaired, how they are accessed.

/// To whom a row belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// To the account with which the key begins.
    Account,
    /// To the site, which is account 0.
    Site,
    /// To the message with whose hash the key begins. Several accounts may refer to it.
    Message,
    /// To nobody. The row only says where to look: what it names is looked up before it is used.
    Hint,
}

/// How a repair corrects the rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepairMethod {
    /// Row by row. Nobody else can read these rows of the account meanwhile (`RepairGuard`).
    Rows,
    /// Row by row, as changes of the directory. The rows can be read meanwhile, so that accounts
    /// are still found.
    Directory,
    /// Field by field of the account's state row, which can be read meanwhile.
    State,
    /// The search index as a whole, because one row is about many emails. Nobody else can read
    /// these rows of the account meanwhile.
    SearchIndex,
    /// A row that names something that does not exist is deleted by an ordinary commit of its
    /// account. The rows of an account are spread over the table, so one pass finds them for all
    /// accounts.
    Strays(StrayKind),
    /// Not at all: the check only reports what is wrong.
    Never,
}

/// What the rows of a table with `RepairMethod::Strays` name. `Txn::drop_strays` deletes those that
/// name something that does not exist, by a function for each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StrayKind {
    /// An email that holds a message.
    EmailBlob,
    /// A queued action that holds a message.
    ActionBlob,
    /// An upload that holds bytes.
    UploadBlob,
    /// A wake-up of a queued action.
    WakeUp,
    /// An account that shares something with a user.
    Share,
}

impl RepairMethod {
    /// Whether nobody else may read these rows of an account under repair.
    pub(crate) const fn closes_account(self) -> bool {
        matches!(self, Self::Rows | Self::SearchIndex)
    }
}

/// How the rows of a table are written and read.
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
    /// Values have some kilobytes, and are read one at a time.
    LargeValues,
    /// Values are large and written once, so the engine stores them apart from the keys.
    Messages,
    /// Values that do not compress.
    Incompressible,
    /// New rows come in the order of their keys, or against it, among those that have the first so
    /// many bytes of the key in common.
    OrderedAfter(usize),
}
