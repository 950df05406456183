//! What Email/query and Email/queryChanges ask, and what they answer (RFC 8620 §5.5 and §5.6).

use std::borrow::Cow;

use super::{Allowance, Comparator, Error, Filter, QueryOptions, Scope, sort};
use crate::model::{AccountId, EmailId, ModSeq};

/// Which emails, in which order: what a query and its changes have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuerySpec {
    pub account: AccountId,
    pub filter: Filter,
    /// In which order; newest first where there is none.
    pub sort: Vec<Comparator>,
    /// `collapseThreads`: only the first of each thread (RFC 8621 §4.4.3).
    pub collapse: bool,
    /// What of the account may be seen; `None` is all of it.
    pub scope: Option<Scope>,
    /// What may be read to find them.
    pub reads: Allowance,
    pub options: QueryOptions,
}

impl QuerySpec {
    /// With a filter that finds nothing outside the scope.
    pub(super) fn within_scope(&self) -> Cow<'_, Self> {
        match &self.scope {
            Some(scope) => Cow::Owned(Self { filter: scope.limit(&self.filter), ..self.clone() }),
            None => Cow::Borrowed(self),
        }
    }

    /// Whether filter and sort keep their bounds.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn validate(&self) -> Result<(), Error> {
        self.filter.validate()?;
        sort::validate(&self.sort)
    }
}

/// Email/query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// The complete list.
    pub results: QuerySpec,
    /// Which section of it.
    pub window: Window,
    /// `calculateTotal`.
    pub total: bool,
}

impl Query {
    /// With a filter that finds nothing outside the scope.
    pub(super) fn within_scope(&self) -> Cow<'_, Self> {
        match self.results.within_scope() {
            Cow::Owned(results) => Cow::Owned(Self { results, ..*self }),
            Cow::Borrowed(_) => Cow::Borrowed(self),
        }
    }
}

/// A section of the results (RFC 8620 §5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Where it begins.
    pub start: Start,
    /// How many at most.
    pub limit: Option<usize>,
}

/// Where a section begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At this index; a negative one counts from the end.
    Position(i64),
    /// At this email, or `offset` emails behind it (before it, where negative).
    Anchor {
        id: EmailId,
        /// `anchorOffset`.
        offset: i64,
    },
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
    /// The index of its first in the complete list; the one asked for where the section is empty.
    pub position: usize,
    /// How many the complete list has, where that was asked.
    pub total: Option<usize>,
    /// `queryState`.
    pub state: ModSeq,
    /// `canCalculateChanges`.
    pub can_calculate: bool,
}

/// Email/queryChanges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryChanges {
    /// The complete list.
    pub results: QuerySpec,
    /// `sinceQueryState`.
    pub since: ModSeq,
    /// `upToId`: the last that the client has. Honoured where the sort is by what never changes.
    pub up_to: Option<EmailId>,
    /// `maxChanges`, of `removed` and `added` together.
    pub max_changes: Option<usize>,
    /// `calculateTotal`.
    pub total: bool,
}

impl QueryChanges {
    /// With a filter that finds nothing outside the scope.
    pub(super) fn within_scope(&self) -> Cow<'_, Self> {
        match self.results.within_scope() {
            Cow::Owned(results) => Cow::Owned(Self { results, ..*self }),
            Cow::Borrowed(_) => Cow::Borrowed(self),
        }
    }
}

/// The answer of Email/queryChanges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryChangesAnswer {
    /// `newQueryState`.
    pub state: ModSeq,
    /// What may have been in the old results and must be taken out, newest first.
    pub removed: Vec<EmailId>,
    /// What must then be put in, with its index in the new results, lowest first.
    pub added: Vec<(usize, EmailId)>,
    /// How many the new results are, where that was asked.
    pub total: Option<usize>,
}
