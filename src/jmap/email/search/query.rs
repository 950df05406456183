//! Email/query and Email/queryChanges (RFC 8621 §4.4, §4.5) over room `query`.

use serde::Deserialize;
use serde_json::Value;

use super::{filter, sort};
use crate::jmap::context::Account;
use crate::jmap::method::{Call, Method};
use crate::jmap::rights::{Rights, same_access_since};
use crate::jmap::standard::value::expected;
use crate::jmap::standard::{client_state, state};
use crate::model::limits;
use crate::query::{
    self as questions, Query, QueryChanges, QueryOptions, QuerySpec, Start, Window,
};
use crate::wire::jmap::json::MAX_SAFE_INTEGER;
use crate::wire::jmap::primitive::is_id;
use crate::wire::jmap::standard::{
    AddedItem, QueryArgs, QueryChangesArgs, QueryChangesResponse, QueryResponse, SortComparator,
};
use crate::wire::jmap::{MethodError, With};

/// The argument beside the standard's (RFC 8621 §4.4.3).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct CollapseArgs {
    #[serde(default)]
    collapse_threads: bool,
}

fn spec(
    call: &Call<'_>,
    (account, rights): (&Account, &Rights),
    given: Option<&Value>,
    sort: Option<Vec<SortComparator>>,
    beside: &CollapseArgs,
) -> Result<QuerySpec, MethodError> {
    Ok(QuerySpec {
        account: account.id,
        filter: filter::of(call, given)?,
        sort: sort::of(sort)?,
        collapse: beside.collapse_threads,
        scope: rights.scope(),
        reads: call.context.budget.search_allowance(),
        options: QueryOptions::default(),
    })
}

/// Which section of the results is wanted (RFC 8620 §5.5), as a client says it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SectionArgs<'a> {
    pub position: i64,
    pub anchor: Option<&'a str>,
    pub anchor_offset: i64,
    pub limit: Option<u64>,
}

impl<'a> SectionArgs<'a> {
    pub fn of(args: &'a QueryArgs) -> Self {
        let QueryArgs { position, anchor_offset, limit, .. } = *args;
        Self { position, anchor: args.anchor.as_deref(), anchor_offset, limit }
    }

    /// The section, of `most` results at once.
    ///
    /// # Errors
    /// `invalidArguments`; `anchorNotFound` for an anchor that can be no email's id.
    pub fn window(self, most: usize) -> Result<Window, MethodError> {
        for (name, number) in [("position", self.position), ("anchorOffset", self.anchor_offset)] {
            if number.unsigned_abs() > MAX_SAFE_INTEGER {
                return Err(expected(name, "a whole number"));
            }
        }
        // With an anchor the position is ignored.
        let start = match self.anchor {
            None => Start::Position(self.position),
            Some(anchor) if is_id(anchor) => {
                let id = anchor.parse().map_err(|_| MethodError::AnchorNotFound)?;
                Start::Anchor { id, offset: self.anchor_offset }
            }
            Some(_) => return Err(expected("anchor", "an id")),
        };
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
        Ok(Window { start, limit: Some(limit.map_or(most, |limit| limit.min(most))) })
    }
}

pub(in crate::jmap) struct EmailQuery;

impl Method for EmailQuery {
    type Args = With<QueryArgs, CollapseArgs>;
    type Answer = QueryResponse;

    fn call(call: &Call<'_>, With(args, beside): Self::Args) -> Result<QueryResponse, MethodError> {
        let (context, account) = (call.context, call.open(&args.account_id, true)?);
        let snapshot = context.store.snapshot();
        let rights = Rights::of(&snapshot, &account)?;
        let window = SectionArgs::of(&args).window(limits::MAX_QUERY_RESULTS)?;
        let results = spec(call, (&account, &rights), args.filter.as_ref(), args.sort, &beside)?;
        let asked = Query { results, window, total: args.calculate_total };
        let found = questions::query(&snapshot, context.store.secrets(), &asked)?;
        context.request_listings(account.id, |now| found.plan.listing_requests(now));
        let answer = found.answer;
        let most = limits::MAX_QUERY_RESULTS as u64;
        Ok(QueryResponse {
            account_id: account.id.to_string(),
            query_state: state(&context.store, answer.state),
            can_calculate_changes: answer.can_calculate,
            position: answer.position as u64,
            ids: answer.ids.iter().map(ToString::to_string).collect(),
            total: answer.total.map(|total| total as u64),
            // The client's own is not said again (RFC 8620 §5.5).
            limit: args.limit.is_none_or(|asked| asked > most).then_some(most),
        })
    }
}

pub(in crate::jmap) struct EmailQueryChanges;

impl Method for EmailQueryChanges {
    type Args = With<QueryChangesArgs, CollapseArgs>;
    type Answer = QueryChangesResponse;

    fn call(
        call: &Call<'_>,
        With(args, beside): Self::Args,
    ) -> Result<QueryChangesResponse, MethodError> {
        let (context, account) = (call.context, call.open(&args.account_id, true)?);
        let snapshot = context.store.snapshot();
        let rights = Rights::of(&snapshot, &account)?;
        let asked = QueryChanges {
            results: spec(call, (&account, &rights), args.filter.as_ref(), args.sort, &beside)?,
            since: client_state(&context.store, &args.since_query_state)?.mark,
            // An id that can be no email's is not in the results: it bounds nothing.
            up_to: args.up_to_id.and_then(|id| id.parse().ok()),
            max_changes: args.max_changes.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
            total: args.calculate_total,
        };
        if !same_access_since(&snapshot, &account, asked.since)? {
            return Err(MethodError::CannotCalculateChanges);
        }
        let found = questions::changes(&snapshot, context.store.secrets(), &asked)?;
        context.request_listings(account.id, |now| found.plan.listing_requests(now));
        let answer = found.answer;
        let added = answer
            .added
            .iter()
            .map(|(index, id)| AddedItem { id: id.to_string(), index: *index as u64 });
        Ok(QueryChangesResponse {
            account_id: account.id.to_string(),
            old_query_state: args.since_query_state,
            new_query_state: state(&context.store, answer.state),
            removed: answer.removed.iter().map(ToString::to_string).collect(),
            added: added.collect(),
            total: answer.total.map(|total| total as u64),
        })
    }
}
