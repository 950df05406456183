//! The errors of queries.

use crate::store;

/// Why a query is not answered. The comments name the JMAP error types.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `unsupportedFilter` or `unsupportedSort`: a bound is exceeded, or a keyword is not
    /// well-formed.
    #[error("{0}")]
    Unsupported(&'static str),
    /// `unsupportedFilter`: the search would read more bytes of messages than the allowance has.
    #[error("the search would read too many messages: narrow it")]
    TooMuchRead,
    /// `requestTooLarge`: the searches that share the allowance have read too many rows.
    #[error("the request reads too many emails: ask for less at a time")]
    TooMuchWalked,
    #[error("the anchor is not in the results")]
    AnchorNotFound,
    /// `cannotCalculateChanges`: the state is newer than the newest change, below the low mark, or
    /// too many changes back; a mailbox of the scope has no history that far back; or the search
    /// would read too many messages.
    #[error("the changes since that state are not known")]
    CannotCalculateChanges,
    /// `tooManyChanges`: there are more changes than `maxChanges`.
    #[error("there are more changes than asked for")]
    TooManyChanges,
    #[error(transparent)]
    Store(#[from] store::Error),
}
