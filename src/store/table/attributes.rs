//! What a table's declaration says of its rows, beside their keys and types.

/// Whose partition a row is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// The account with which its key begins.
    Account,
    /// The site, which is account 0.
    Site,
    /// The message with whose hash its key begins: it may belong to several accounts.
    Message,
    /// Nobody's: it only says where to look, and what it names is looked up before it is believed.
    Hint,
}

/// How a repair puts the rows of a table right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepairMethod {
    /// Each row by itself. Nobody else reads the account meanwhile.
    Rows,
    /// Each row by itself, which is a change of the directory. It can be read meanwhile: who has an
    /// account stays known.
    Directory,
    /// By the fields of the account's state. It can be read meanwhile.
    State,
    /// The search index as a whole, for a row of it is of many emails. Nobody else reads the
    /// account meanwhile.
    SearchIndex,
    /// Rows that name nothing are deleted by an ordinary commit of their account. They are spread
    /// over the table, so they are looked for once for all accounts.
    Strays(StrayKind),
    /// Not at all: the check names what is wrong.
    Never,
}

/// What a row is of that may name nothing: `Txn::drop_strays` has a function for each.
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
    /// Whether nobody else may read the rows of an account that is being repaired.
    pub(crate) const fn closes_account(self) -> bool {
        matches!(self, Self::Rows | Self::SearchIndex)
    }
}

/// How the rows of a table are written and asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tuning {
    /// Rows go in about the order in which they came, and readers look for the first.
    Queue,
    /// Read from the newest email on, so that what was destroyed lies before the first page.
    NewestFirst,
    /// Often asked for rows that are not there.
    OftenMissing,
    /// Asked for by whole keys, many at a time.
    ByKey,
    /// Values of some kilobytes, read one at a time.
    LargeValues,
    /// Values that are written once and are large: they lie beside the rows.
    Messages,
    /// Values that do not compress.
    Incompressible,
}
