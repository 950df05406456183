//! Answers queries by a walk over emails, for all access paths but `Listing`, `Pinned` and
//! `AllMail`. The filter decides each email that is not known to match. Then the results are
//! sorted, collapsed and truncated.
//!
//! - If the section is given by a position from the beginning and a limit, the results after its
//!   end are not needed. If moreover the walk is in the order of the query and no total is wanted,
//!   the walk stops at the end of the section. Otherwise it visits all its emails.
//! - A walk in another order holds more results than there are up to the end of the section: at
//!   most twice as many, or `QueryOptions::sort_slack` more if that is more.
//! - For a section of another kind all results are held.

mod changes;
mod list;
mod sort_entry;

pub(super) use changes::changes;

use super::matching::evaluate::Matcher;
use super::walk::EmailWalk;
use super::{Error, Query, QueryAnswer, Start, Window};
use crate::model::{DataType, EmailId};
use crate::store::Snapshot;
use list::{ListRequest, list};

/// Answers Email/query by any walk.
///
/// # Errors
/// `TooMuchWalked`, `TooMuchRead`, `AnchorNotFound`, and errors of reading.
pub(super) fn query(
    snapshot: &Snapshot<'_>,
    matcher: &Matcher,
    query: &Query,
    walk: EmailWalk<'_>,
) -> Result<QueryAnswer, Error> {
    let wanted = ListRequest {
        limit: query.window.prefix_length().unwrap_or(usize::MAX),
        total: query.total,
    };
    let found = list(snapshot, matcher, &query.spec, walk, wanted)?;
    let ids: Vec<EmailId> = found.entries.iter().map(|entry| entry.id).collect();
    let (position, section) = query.window.section(&ids).ok_or(Error::AnchorNotFound)?;
    Ok(QueryAnswer {
        ids: section.to_vec(),
        position,
        total: query.total.then_some(found.total),
        state: snapshot.state(query.spec.account, DataType::Email)?,
        can_calculate: true,
    })
}

impl Window {
    /// Returns how many first results contain the section; `None` if all may be needed.
    fn prefix_length(self) -> Option<usize> {
        match self.start {
            Start::Position(position) => usize::try_from(position).ok()?.checked_add(self.limit?),
            Start::Anchor { .. } => None,
        }
    }

    /// Returns the index where the section begins, and its ids. The index may be beyond `ids`; then
    /// the section is empty. `None` if the anchor is not in `ids`, the results from the first on.
    pub(super) fn section(self, ids: &[EmailId]) -> Option<(usize, &[EmailId])> {
        let moved = |from: usize, by: i64| {
            let steps = usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX);
            if by < 0 { from.saturating_sub(steps) } else { from.saturating_add(steps) }
        };
        let start = match self.start {
            Start::Position(position) if position < 0 => moved(ids.len(), position),
            Start::Position(position) => moved(0, position),
            Start::Anchor { id, offset } => {
                moved(ids.iter().position(|other| *other == id)?, offset)
            }
        };
        let rest = ids.get(start..).unwrap_or_default();
        Some((start, rest.get(..self.limit.unwrap_or(rest.len())).unwrap_or(rest)))
    }
}
