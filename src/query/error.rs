//! The errors of queries.

use crate::store;

/// Why a query is not answered. The comments name the JMAP error types.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `unsupportedFilter`: a bound is exceeded, or a keyword is not well-formed. If that is so in
    /// the sort, `jmap` refuses it before, with `unsupportedSort`.
    #[error("{0}")]
    Unsupported(&'static str),
    /// `unsupportedFilter`: the search would read more bytes of messages than the allowance has.
    #[error("the search would read too many messages: narrow it")]
    TooMuchRead,
    /// `requestTooLarge`: the searches that share the allowance have read too many rows.
    #[error("the request reads too many emails: ask for less at a time")]
    TooMuchWalked,
    /// `anchorNotFound`, of Email/query.
    #[error("the anchor is not in the results")]
    AnchorNotFound,
    /// `cannotCalculateChanges`, for one of these reasons:
    ///
    /// - The state is newer than the newest change, below the low mark, or too many changes back.
    /// - A mailbox of the scope has no history that far back.
    /// - A changed email has neither a row nor a tombstone.
    /// - The search would read too many messages.
    #[error("the changes since that state are not known")]
    CannotCalculateChanges,
    /// `tooManyChanges`: there are more changes than `maxChanges`.
    #[error("there are more changes than asked for")]
    TooManyChanges,
    /// Reading the store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}
