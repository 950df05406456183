//! Email/query and Email/queryChanges (RFC 8621 §4.4 and §4.5, RFC 8620 §5.5 and §5.6).
//!
//! - Each answer is made on one snapshot. `plan` chooses the cheapest of several access paths,
//!   which give the same answer.
//! - The state of a query is the account's newest change of an email. `changes` may report more
//!   than what changed, never less.
//! - The bounds of filter and sort are checked before anything is read.
//!
//! JSON, the text form of ids, and the limits on the number of results are handled in `jmap`.

mod allowance;
mod collation;
mod error;
mod filter;
mod generic;
mod id_range;
mod listing;
mod matching;
mod options;
mod plan;
mod request;
mod scope;
mod search;
mod sort;
mod unread_threads;
mod walk;

#[cfg(test)]
mod tests;

pub use allowance::Allowance;
pub use collation::Collation;
pub use error::Error;
pub use filter::{Condition, Filter};
pub use options::QueryOptions;
pub use plan::{AccessPath, QueryPlan};
pub use request::{Query, QueryAnswer, QueryChanges, QueryChangesAnswer, QuerySpec, Start, Window};
pub use scope::{Scope, ScopedChanges};
pub use search::snippet::Finder;
#[cfg(any(test, feature = "internals"))]
pub use search::term::{SearchTerm, WORD_FIELDS};
pub use sort::{Comparator, SortProperty};
pub use unread_threads::UnreadThreads;

use crate::model::{self, MailboxUid, Secrets, limits};
use crate::store::Snapshot;
use listing::parts::ResultParts;
use matching::evaluate::Matcher;
use walk::EmailWalk;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerWithPlan<T> {
    pub answer: T,
    pub plan: QueryPlan,
}

/// Answers Email/query (RFC 8620 §5.5, RFC 8621 §4.4).
///
/// # Errors
/// `Unsupported`, `TooMuchRead`, `TooMuchWalked`, `AnchorNotFound`, and errors of reading.
pub fn query(
    snapshot: &Snapshot<'_>,
    secrets: &Secrets,
    query: &Query,
) -> Result<AnswerWithPlan<QueryAnswer>, Error> {
    query.spec.validate()?;
    let query = &*query.within_scope();
    let matcher = Matcher::new(&query.spec.filter, secrets);
    let mut plan = plan::plan(snapshot, &query.spec, &matcher)?;
    if plan.path == AccessPath::AllMail
        && query.window.is_deep()
        && plan.length > MIN_RANKED_POSITION
    {
        plan.wanted_listing = Some((MailboxUid::ALL, model::ListingFilter::Every));
    }
    let answer = query_by(snapshot, &matcher, query, &plan)?;
    Ok(AnswerWithPlan { answer, plan })
}

/// Answers Email/queryChanges (RFC 8620 §5.6, RFC 8621 §4.5).
///
/// For results within a scope, the caller must check that the scope was the same at the old state
/// (`Snapshot::is_sharing_unchanged_since`).
///
/// # Errors
/// `Unsupported`, `TooMuchWalked`, `CannotCalculateChanges`, `TooManyChanges`, and errors of
/// reading.
pub fn changes(
    snapshot: &Snapshot<'_>,
    secrets: &Secrets,
    request: &QueryChanges,
) -> Result<AnswerWithPlan<QueryChangesAnswer>, Error> {
    request.spec.validate()?;
    let request = &*request.within_scope();
    let matcher = Matcher::new(&request.spec.filter, secrets);
    let plan = plan::plan(snapshot, &request.spec, &matcher)?;
    changes_by(snapshot, &matcher, request, plan, limits::MAX_QUERY_EVENTS)
}

/// Returns how a query would be answered. The plan may lack the listing that `query` wants because
/// of a window far from the first result.
///
/// # Errors
/// `Unsupported`, and errors of reading.
pub fn explain(snapshot: &Snapshot<'_>, spec: &QuerySpec) -> Result<QueryPlan, Error> {
    spec.validate()?;
    let spec = spec.within_scope();
    // The plan does not depend on the secrets.
    plan::plan(snapshot, &spec, &Matcher::new(&spec.filter, &Secrets::default()))
}

fn query_by(
    snapshot: &Snapshot<'_>,
    matcher: &Matcher,
    query: &Query,
    plan: &QueryPlan,
) -> Result<QueryAnswer, Error> {
    let account = query.spec.account;
    match (plan.path, ResultParts::of(snapshot, account, plan, query.spec.collapse)) {
        (_, Some(parts)) => listing::answer::query(snapshot, query, &parts),
        (AccessPath::AllMail, _) => listing::answer::all_mail(snapshot, query, plan.direction),
        _ => generic::query(snapshot, matcher, query, EmailWalk::of(plan, snapshot, &query.spec)),
    }
}

fn changes_by(
    snapshot: &Snapshot<'_>,
    matcher: &Matcher,
    request: &QueryChanges,
    mut plan: QueryPlan,
    max_events: usize,
) -> Result<AnswerWithPlan<QueryChangesAnswer>, Error> {
    let account = request.spec.account;
    match (plan.path, ResultParts::of(snapshot, account, &plan, request.spec.collapse)) {
        (_, Some(parts)) => {
            match listing::answer::changes(snapshot, request, &plan, &parts, max_events)? {
                Some(answer) => return Ok(AnswerWithPlan { answer, plan }),
                None => plan = plan.with_each_email_decided("the state is older than its history"),
            }
        }
        (AccessPath::AllMail, _) => {
            let answer = listing::answer::all_mail_changes(snapshot, request, plan.direction)?;
            return Ok(AnswerWithPlan { answer, plan });
        }
        _ => {}
    }
    // A first page may need few messages, but the changes need every match. If the allowance has
    // too few bytes for that, the error is cannotCalculateChanges (RFC 8620 §5.6).
    let answer =
        generic::changes(snapshot, matcher, request, EmailWalk::of(&plan, snapshot, &request.spec))
            .map_err(|error| match error {
                Error::TooMuchRead => Error::CannotCalculateChanges,
                error => error,
            })?;
    Ok(AnswerWithPlan { answer, plan })
}

/// In an account with more emails than this, a window that may begin beyond this position makes the
/// listing of all mail, which has ranks, worth maintaining.
const MIN_RANKED_POSITION: u64 = 4096;

impl Window {
    /// Whether the window begins beyond `MIN_RANKED_POSITION`, or may do so: at a position from the
    /// end or at an anchor.
    fn is_deep(self) -> bool {
        match self.start {
            Start::Position(at) => at < 0 || at.unsigned_abs() > MIN_RANKED_POSITION,
            Start::Anchor { .. } => true,
        }
    }
}
