//! The arguments and answers of Email/query and Email/queryChanges (RFC 8620 §5.5 and §5.6).

use std::borrow::Cow;

use super::{Allowance, Comparator, Error, Filter, QueryOptions, Scope, sort};
use crate::model::{AccountId, EmailId, ModSeq};

/// What Email/query and Email/queryChanges have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuerySpec {
    pub account: AccountId,
    pub filter: Filter,
    /// Without comparators, the order is newest first.
    pub sort: Vec<Comparator>,
    /// `collapseThreads`: only the first email of each thread (RFC 8621 §4.4.3).
    pub collapse: bool,
    /// The mailboxes whose emails may be seen; `None` for the whole account.
    pub scope: Option<Scope>,
    /// How many rows and bytes the query may still read. Other searches of the request use up the
    /// same allowance.
    pub reads: Allowance,
    pub options: QueryOptions,
}

impl QuerySpec {
    /// Returns the spec with a filter that matches no email outside the scope.
    pub(super) fn within_scope(&self) -> Cow<'_, Self> {
        match &self.scope {
            Some(scope) => Cow::Owned(Self { filter: scope.limit(&self.filter), ..self.clone() }),
            None => Cow::Borrowed(self),
        }
    }

    /// Checks the bounds of filter and sort, and their keywords.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn validate(&self) -> Result<(), Error> {
        self.filter.validate()?;
        sort::validate(&self.sort)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    pub spec: QuerySpec,
    pub window: Window,
    /// `calculateTotal`: whether to count the results.
    pub total: bool,
}

impl Query {
    /// Returns the query within its scope, as `QuerySpec::within_scope` does.
    pub(super) fn within_scope(&self) -> Cow<'_, Self> {
        match self.spec.within_scope() {
            Cow::Owned(spec) => Cow::Owned(Self { spec, ..*self }),
            Cow::Borrowed(_) => Cow::Borrowed(self),
        }
    }
}

/// A section of the results (RFC 8620 §5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    pub start: Start,
    /// The highest number of ids; `None` for no bound.
    pub limit: Option<usize>,
}

/// Where a section begins. A beginning before the first result means the first result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// An index. If it is negative, it counts from the end: -1 is the last result.
    Position(i64),
    /// `offset` results (`anchorOffset`) after the email `id`, or before it if negative.
    Anchor { id: EmailId, offset: i64 },
}

impl Default for Start {
    fn default() -> Self {
        Self::Position(0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryAnswer {
    pub ids: Vec<EmailId>,
    /// The index in all results at which the section begins, also if `ids` is empty, and even if it
    /// is beyond the last result.
    pub position: usize,
    /// `None` if the total was not wanted.
    pub total: Option<usize>,
    pub state: ModSeq,
    /// `canCalculateChanges`. queryChanges itself refuses a state about which too little is known.
    pub can_calculate: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryChanges {
    pub spec: QuerySpec,
    /// `sinceQueryState`: the state that the client has.
    pub since: ModSeq,
    /// `upToId`: the last email that the client has. It is ignored, and so more changes are
    /// reported, if the order of the emails can change, and by some access paths also with other
    /// sorts.
    pub up_to: Option<EmailId>,
    /// `maxChanges`: the most `removed` and `added` together.
    pub max_changes: Option<usize>,
    /// `calculateTotal`: whether to count the results.
    pub total: bool,
}

impl QueryChanges {
    pub(super) fn within_scope(&self) -> Cow<'_, Self> {
        match self.spec.within_scope() {
            Cow::Owned(spec) => Cow::Owned(Self { spec, ..*self }),
            Cow::Borrowed(_) => Cow::Borrowed(self),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryChangesAnswer {
    pub state: ModSeq,
    /// To be removed from the old results, newest first. Some may not have been in them.
    pub removed: Vec<EmailId>,
    /// To be inserted after the removals, each with its index in the new results, lowest first.
    pub added: Vec<(usize, EmailId)>,
    /// `None` if the total was not wanted.
    pub total: Option<usize>,
}
