//! Why a query has no answer.

use crate::store;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `unsupportedFilter` or `unsupportedSort`: out of bounds, with what is wrong.
    #[error("{0}")]
    Unsupported(&'static str),
    /// `unsupportedFilter`: more messages must be read for it than the allowance lets it read. Of
    /// changes it is `CannotCalculateChanges` instead.
    #[error("too many messages must be read for it: narrow the search")]
    TooMuchRead,
    /// `requestTooLarge`: the searches that share the allowance walked over so many emails that no
    /// further one begins.
    #[error("the request looks through too many emails: ask less at a time")]
    TooMuchWalked,
    /// `anchorNotFound`.
    #[error("the anchor is not in the results")]
    AnchorNotFound,
    /// `cannotCalculateChanges`: the state is of the future, or what changed since was purged.
    #[error("the changes since that state are not known")]
    CannotCalculateChanges,
    /// `tooManyChanges`.
    #[error("there are more changes than asked for")]
    TooManyChanges,
    #[error(transparent)]
    Store(#[from] store::Error),
}
