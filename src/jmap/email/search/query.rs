//! Email/query and Email/queryChanges (RFC 8621 §4.4, §4.5), over the room `query`.

use serde::Deserialize;
use serde_json::Value;

use super::{filter, sort};
use crate::jmap::context::Account;
use crate::jmap::method::{Call, Method};
use crate::jmap::rights::{Rights, same_access_since};
use crate::jmap::standard::value::expected;
use crate::jmap::standard::{parse_state, state};
use crate::model::limits;
use crate::query::{self, Query, QueryChanges, QueryOptions, QuerySpec, Start, Window};
use crate::wire::jmap::json::MAX_SAFE_INTEGER;
use crate::wire::jmap::primitive::is_id;
use crate::wire::jmap::standard::{
    AddedItem, QueryArgs, QueryChangesArgs, QueryChangesResponse, QueryResponse, SortComparator,
};
use crate::wire::jmap::{MethodError, With};

/// The further argument of Email/query and Email/queryChanges (RFC 8621 §4.4.3).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct CollapseArgs {
    #[serde(default)]
    collapse_threads: bool,
}

fn query_spec(
    call: &Call<'_>,
    (account, rights): (&Account, &Rights),
    filter: Option<&Value>,
    sort: Option<Vec<SortComparator>>,
    extra: &CollapseArgs,
) -> Result<QuerySpec, MethodError> {
    Ok(QuerySpec {
        account: account.id,
        filter: filter::parse_filter_of_call(call, filter)?,
        sort: sort::comparators(sort)?,
        collapse: extra.collapse_threads,
        scope: rights.scope(),
        reads: call.context.budget.search_allowance(),
        options: QueryOptions::default(),
    })
}

/// The arguments that select a section of the results (RFC 8620 §5.5). With an anchor, `position`
/// is ignored.
#[derive(Debug, Clone, Copy, Default)]
pub struct SectionArgs<'a> {
    pub position: i64,
    pub anchor: Option<&'a str>,
    pub anchor_offset: i64,
    pub limit: Option<u64>,
}

impl<'a> SectionArgs<'a> {
    pub fn from_query(args: &'a QueryArgs) -> Self {
        let QueryArgs { position, anchor_offset, limit, .. } = *args;
        Self { position, anchor: args.anchor.as_deref(), anchor_offset, limit }
    }

    /// Returns the section. It has at most `max_results` results, also if `limit` is larger or
    /// missing.
    ///
    /// # Errors
    /// `invalidArguments` for a number beyond 2^53 - 1 and for an anchor that cannot be an id;
    /// `anchorNotFound` for an anchor that cannot be the id of an email.
    pub fn window(self, max_results: usize) -> Result<Window, MethodError> {
        for (name, number) in [("position", self.position), ("anchorOffset", self.anchor_offset)] {
            if number.unsigned_abs() > MAX_SAFE_INTEGER {
                return Err(expected(name, "a whole number"));
            }
        }
        let start = match self.anchor {
            None => Start::Position(self.position),
            Some(anchor) if is_id(anchor) => {
                let id = anchor.parse().map_err(|_| MethodError::AnchorNotFound)?;
                Start::Anchor { id, offset: self.anchor_offset }
            }
            Some(_) => return Err(expected("anchor", "an id")),
        };
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
        Ok(Window { start, limit: Some(limit.map_or(max_results, |limit| limit.min(max_results))) })
    }
}

pub(in crate::jmap) struct EmailQuery;

impl Method for EmailQuery {
    type Args = With<QueryArgs, CollapseArgs>;
    type Answer = QueryResponse;

    fn call(call: &Call<'_>, With(args, extra): Self::Args) -> Result<QueryResponse, MethodError> {
        let (context, account) = (call.context, call.account(&args.account_id)?);
        let snapshot = context.store.snapshot();
        let rights = Rights::in_account(&snapshot, &account)?;
        let window = SectionArgs::from_query(&args).window(limits::MAX_QUERY_RESULTS)?;
        let spec = query_spec(call, (&account, &rights), args.filter.as_ref(), args.sort, &extra)?;
        let query = Query { spec, window, total: args.calculate_total };
        let result = query::query(&snapshot, context.store.secrets(), &query)?;
        context.request_listings(account.id, |now| result.plan.listing_requests(now));
        let answer = result.answer;
        let max_results = limits::MAX_QUERY_RESULTS as u64;
        Ok(QueryResponse {
            account_id: account.id.to_string(),
            query_state: state(&context.store, answer.state),
            can_calculate_changes: answer.can_calculate,
            position: answer.position as u64,
            ids: answer.ids.iter().map(ToString::to_string).collect(),
            total: answer.total.map(|total| total as u64),
            // Only a limit that the server set is returned (RFC 8620 §5.5).
            limit: args.limit.is_none_or(|limit| limit > max_results).then_some(max_results),
        })
    }
}

pub(in crate::jmap) struct EmailQueryChanges;

impl Method for EmailQueryChanges {
    type Args = With<QueryChangesArgs, CollapseArgs>;
    type Answer = QueryChangesResponse;

    fn call(
        call: &Call<'_>,
        With(args, extra): Self::Args,
    ) -> Result<QueryChangesResponse, MethodError> {
        let (context, account) = (call.context, call.account(&args.account_id)?);
        let snapshot = context.store.snapshot();
        let rights = Rights::in_account(&snapshot, &account)?;
        let spec = query_spec(call, (&account, &rights), args.filter.as_ref(), args.sort, &extra)?;
        let query = QueryChanges {
            spec,
            since: parse_state(&context.store, &args.since_query_state)?.mark,
            // An id that is not that of an email is not in the results, so it is no bound.
            up_to: args.up_to_id.and_then(|id| id.parse().ok()),
            max_changes: args.max_changes.map(|max| usize::try_from(max).unwrap_or(usize::MAX)),
            total: args.calculate_total,
        };
        if !same_access_since(&snapshot, &account, query.since)? {
            return Err(MethodError::CannotCalculateChanges);
        }
        let result = query::changes(&snapshot, context.store.secrets(), &query)?;
        context.request_listings(account.id, |now| result.plan.listing_requests(now));
        let answer = result.answer;
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
