//! The arguments and answers of Email/query and Email/queryChanges (RFC 8620 §5.5 and §5.6).

use std::borrow::Cow;

use super::{Allowance, Comparator, Error, Filter, QueryOptions, Scope, sort};
use crate::model::{AccountId, EmailId, ModSeq};

/// Which emails a query is about, and in which order: what Email/query and Email/queryChanges have
/// in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuerySpec {
    pub account: AccountId,
    pub filter: Filter,
    /// The comparators; without any, the order is newest first.
    pub sort: Vec<Comparator>,
    /// `collapseThreads`: only the first email of each thread (RFC 8621 §4.4.3).
    pub collapse: bool,
    /// The mailboxes whose emails may be seen; `None` for the whole account.
    pub scope: Option<Scope>,
    /// How much the query may read.
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

    /// Checks the bounds of filter and sort.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn validate(&self) -> Result<(), Error> {
        self.filter.validate()?;
        sort::validate(&self.sort)
    }
}

/// The arguments of Email/query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    pub spec: QuerySpec,
    /// The section of the results that is returned.
    pub window: Window,
    /// Whether to count the results (`calculateTotal`).
    pub total: bool,
}

impl Query {
    /// Returns the query with a filter that matches no email outside the scope.
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
    /// The highest number of ids; `None` for all from `start` on.
    pub limit: Option<usize>,
}

/// Where a section begins. A beginning before the first result means the first result; one beyond
/// the last result gives an empty section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At this index. A negative index counts from the end.
    Position(i64),
    /// `offset` emails (`anchorOffset`) after the email `id`, or before it if negative.
    Anchor { id: EmailId, offset: i64 },
}

impl Default for Start {
    fn default() -> Self {
        Self::Position(0)
    }
}

/// The answer of Email/query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryAnswer {
    pub ids: Vec<EmailId>,
    /// The index in all results at which the section begins, also if `ids` is empty. A negative
    /// index or an anchor is resolved.
    pub position: usize,
    /// The number of all results, if it was requested.
    pub total: Option<usize>,
    /// The state of the query (`queryState`).
    pub state: ModSeq,
    /// Whether queryChanges may be asked about this state (`canCalculateChanges`). Always `true`:
    /// queryChanges itself refuses a state about which too little is known.
    pub can_calculate: bool,
}

/// The arguments of Email/queryChanges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryChanges {
    pub spec: QuerySpec,
    /// The state that the client has (`sinceQueryState`).
    pub since: ModSeq,
    /// The last email that the client has (`upToId`). It is honoured only if the sort is by
    /// immutable properties.
    pub up_to: Option<EmailId>,
    /// The highest number of `removed` and `added` together (`maxChanges`); `None` for no bound.
    pub max_changes: Option<usize>,
    /// Whether to count the results (`calculateTotal`).
    pub total: bool,
}

impl QueryChanges {
    /// Returns the request with a filter that matches no email outside the scope.
    pub(super) fn within_scope(&self) -> Cow<'_, Self> {
        match self.spec.within_scope() {
            Cow::Owned(spec) => Cow::Owned(Self { spec, ..*self }),
            Cow::Borrowed(_) => Cow::Borrowed(self),
        }
    }
}

/// The answer of Email/queryChanges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryChangesAnswer {
    /// The new state of the query (`newQueryState`).
    pub state: ModSeq,
    /// The emails to remove from the old results, newest first. Some may not have been in them.
    pub removed: Vec<EmailId>,
    /// The emails to insert after that, with their index in the new results, lowest first.
    pub added: Vec<(usize, EmailId)>,
    /// The number of new results, if it was requested.
    pub total: Option<usize>,
}
