//! The errors of queries.

use crate::store;

/// Why a query is not answered. The comments name the JMAP error types.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `unsupportedFilter` or `unsupportedSort`: the filter or sort exceeds a bound.
    #[error("{0}")]
    Unsupported(&'static str),
    /// `unsupportedFilter`: the search would read more messages than the allowance permits.
    /// `changes` returns `CannotCalculateChanges` instead.
    #[error("the search would read too many messages: narrow it")]
    TooMuchRead,
    /// `requestTooLarge`: the searches that share the allowance have read so many emails that no
    /// further search begins.
    #[error("the request reads too many emails: ask for less at a time")]
    TooMuchWalked,
    /// `anchorNotFound`: the anchor is not in the results.
    #[error("the anchor is not in the results")]
    AnchorNotFound,
    /// `cannotCalculateChanges`: the state is newer than the newest change, below the low mark, or
    /// more than `limits::MAX_QUERY_EVENTS` changes back; or the search would read too many
    /// messages.
    #[error("the changes since that state are not known")]
    CannotCalculateChanges,
    /// `tooManyChanges`: there are more changes than `maxChanges`.
    #[error("there are more changes than asked for")]
    TooManyChanges,
    #[error(transparent)]
    Store(#[from] store::Error),
}
