//! L3: Email/query and Email/queryChanges (RFC 8621 §4.4 and §4.5, RFC 8620 §5.5 and §5.6): mail semantics over the
//! store's walks.
//!
//! - Every answer is made on one view, and every way to it gives the same answer; `plan` chooses. The way that always
//!   serves is `generic`: a walk over all emails, newest first, that keeps of each match what it is sorted by and no more.
//!   A query that a kept listing answers costs its own length (`listing`), and one with a text what the search index leaves.
//! - A state is the account's newest change of an email. From any state since the last purge, `changes` tells what a
//!   client must take out and put in; it may name more than changed, never less.
//! - Bounds of filter and sort stand in `model::limits` and are checked before anything is read.
//!
//! JSON, ids on the wire and how many results a client may have at once are not known here.

mod allowance;
mod changes;
mod collation;
mod conjuncts;
mod filter;
mod generic;
mod listing;
mod matching;
mod plan;
mod scope;
mod search;
mod search_walk;
mod sort;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use allowance::Allowance;
pub use collation::Collation;
pub use filter::{Condition, Filter};
pub use plan::{AccessPath, QueryPlan};
pub use scope::{Scope, ScopedChanges, UnreadThreads};
pub use search::snippet::Finder;
#[cfg(any(test, feature = "internals"))]
pub use search::term::{SearchTerm, WORD_FIELDS};
pub use sort::{Comparator, SortProperty};

use crate::model::{self, AccountId, EmailId, MailboxUid, ModSeq, Secrets, limits};
use crate::store::{self, Snapshot};
use listing::parts::ResultParts;
use matching::evaluate::Matcher;

/// An answer, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerWithPlan<T> {
    /// The answer.
    pub answer: T,
    /// How; and what, if it were kept, would find it faster.
    pub plan: QueryPlan,
}

/// Answers Email/query (RFC 8620 §5.5, RFC 8621 §4.4).
///
/// # Errors
/// `Unsupported`, `AnchorNotFound`, and those of reading.
pub fn query(snapshot: &Snapshot<'_>, secrets: &Secrets, query: &Query) -> Result<AnswerWithPlan<QueryAnswer>, Error> {
    query.results.validate()?;
    let query = &*query.within_scope();
    let matcher = Matcher::new(&query.results.filter, secrets);
    let mut plan = plan::plan(snapshot, &query.results, &matcher)?;
    if plan.way == AccessPath::AllMail && query.window.is_deep() && plan.length > MIN_RANKED_POSITION {
        plan.wants = Some((MailboxUid::ALL, model::ListingFilter::Every));
    }
    let answer = query_by(snapshot, &matcher, query, &plan)?;
    Ok(AnswerWithPlan { answer, plan })
}

/// Answers Email/queryChanges (RFC 8620 §5.6, RFC 8621 §4.5).
///
/// # Errors
/// `Unsupported`, `CannotCalculateChanges`, `TooManyChanges`, and those of reading.
///
/// Of results within a scope it is the caller's to ask whether the scope was the same at the state.
pub fn changes(
    snapshot: &Snapshot<'_>,
    secrets: &Secrets,
    asked: &QueryChanges,
) -> Result<AnswerWithPlan<QueryChangesAnswer>, Error> {
    asked.results.validate()?;
    let asked = &*asked.within_scope();
    let matcher = Matcher::new(&asked.results.filter, secrets);
    let plan = plan::plan(snapshot, &asked.results, &matcher)?;
    changes_by(snapshot, &matcher, asked, plan, limits::QUERY_EVENTS)
}

/// Says how a query would be answered.
///
/// # Errors
/// `Unsupported`, and those of reading.
pub fn explain(snapshot: &Snapshot<'_>, results: &QuerySpec) -> Result<QueryPlan, Error> {
    results.validate()?;
    let results = results.within_scope();
    // Which way is taken hangs on no secret.
    plan::plan(snapshot, &results, &Matcher::new(&results.filter, &Secrets::default()))
}

fn query_by(snapshot: &Snapshot<'_>, matcher: &Matcher, query: &Query, plan: &QueryPlan) -> Result<QueryAnswer, Error> {
    let account = query.results.account;
    match (plan.way, ResultParts::of(snapshot, account, plan, query.results.collapse)) {
        (_, Some(parts)) => listing::answer::query(snapshot, query, &parts),
        (AccessPath::AllMail, _) => listing::answer::all_mail(snapshot, query, plan.direction),
        _ => generic::query(snapshot, matcher, query, plan.walk(snapshot, account)),
    }
}

/// `most` is how many events of a listing are looked at.
fn changes_by(
    snapshot: &Snapshot<'_>,
    matcher: &Matcher,
    asked: &QueryChanges,
    mut plan: QueryPlan,
    most: usize,
) -> Result<AnswerWithPlan<QueryChangesAnswer>, Error> {
    let account = asked.results.account;
    match (plan.way, ResultParts::of(snapshot, account, &plan, asked.results.collapse)) {
        (_, Some(parts)) => match listing::answer::changes(snapshot, asked, &plan, &parts, most)? {
            Some(answer) => return Ok(AnswerWithPlan { answer, plan }),
            None => plan = plan.with_each_email_decided("the state is older than its history"),
        },
        (AccessPath::AllMail, _) => {
            let answer = listing::answer::all_mail_changes(snapshot, asked, plan.direction)?;
            return Ok(AnswerWithPlan { answer, plan });
        }
        _ => {}
    }
    // The query reads what the first page needs, and may have said that changes can be calculated.
    // These need every match: where too much must be read for it, RFC 8620 §5.6 has this word.
    let answer =
        changes::changes(snapshot, matcher, asked, plan.walk(snapshot, account)).map_err(|error| match error {
            Error::TooMuchRead => Error::CannotCalculateChanges,
            error => error,
        })?;
    Ok(AnswerWithPlan { answer, plan })
}

/// Emails of all mail from which on a position is worth ranks.
const MIN_RANKED_POSITION: u64 = 4096;

/// Which emails, in which order: what a query and its changes have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuerySpec {
    /// Whose.
    pub account: AccountId,
    /// Which.
    pub filter: Filter,
    /// In which order; newest first where there is none.
    pub sort: Vec<Comparator>,
    /// `collapseThreads`: only the first of each thread (RFC 8621 §4.4.3).
    pub collapse: bool,
    /// What of the account may be seen; `None` is all of it.
    pub scope: Option<Scope>,
    /// What may be read to find them.
    pub reads: Allowance,
}

impl QuerySpec {
    /// With a filter that finds nothing outside the scope.
    fn within_scope(&self) -> Cow<'_, Self> {
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
    fn within_scope(&self) -> Cow<'_, Self> {
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

impl Window {
    /// Whether it may begin far from the newest.
    fn is_deep(self) -> bool {
        match self.start {
            Start::Position(at) => at < 0 || at.unsigned_abs() > MIN_RANKED_POSITION,
            Start::Anchor { .. } => true,
        }
    }
}

/// Where a section begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At this index; a negative one counts from the end.
    Position(i64),
    /// At this email, or so many behind it (before it, where negative).
    Anchor {
        /// The email.
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
    /// The section.
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
    fn within_scope(&self) -> Cow<'_, Self> {
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
    /// Reading failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}
