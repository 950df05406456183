//! /query and /queryChanges (RFC 8620 §5.5, §5.6) for types of which an account has few objects:
//! all of them are read, those that match are sorted, and a section of them is returned.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::filter::{filter, sort_by};
use super::object_type::ObjectType;
use super::query::{FilterTree, PropertyComparator};
use crate::jmap::method::{Call, Method};
use crate::model::limits;
use crate::query::Collation;
use crate::wire::jmap::standard::{
    AddedItem, QueryArgs, QueryChangesArgs, QueryChangesResponse, QueryResponse, SortComparator,
};
use crate::wire::jmap::{MethodArguments, MethodError, With};

/// A type that has /query, and may have /queryChanges.
pub(in crate::jmap) trait QueryObjects: ObjectType {
    /// An enum with a variant for each property of a `FilterCondition`.
    type Condition: DeserializeOwned;
    /// The properties by which the type can be sorted.
    type Sort: DeserializeOwned;
    /// The arguments besides the standard ones; [`NoArguments`] if there are none.
    type ExtraArgs: MethodArguments;

    /// What /query answers as `canCalculateChanges`. If it is false, `changed_ids` returns `None`.
    const CAN_CALCULATE_CHANGES: bool = true;

    /// Returns the ids of all objects that match, sorted. /queryChanges requires that objects which
    /// did not change keep their order among each other, so objects that are equal by the sort need
    /// a fixed order.
    fn results(
        reader: &Self::Reader<'_>,
        query: &ObjectQuery<Self>,
    ) -> Result<Vec<String>, MethodError>;

    /// Returns at least the ids of all objects that may have entered the results since a state,
    /// left them, or moved within them; `None` if that cannot be calculated.
    fn changed_ids(
        reader: &Self::Reader<'_>,
        since: &str,
    ) -> Result<Option<BTreeSet<String>>, MethodError>;
}

/// The filter, the sort and the extra arguments of a /query or /queryChanges.
pub(in crate::jmap) struct ObjectQuery<T: QueryObjects + ?Sized> {
    pub(in crate::jmap) filter: FilterTree<T::Condition>,
    pub(in crate::jmap) sort: Vec<PropertyComparator<T::Sort>>,
    pub(in crate::jmap) extra_args: T::ExtraArgs,
}

impl<T: QueryObjects> ObjectQuery<T> {
    fn read(
        given: Option<&Value>,
        sort: Option<Vec<SortComparator>>,
        extra_args: T::ExtraArgs,
    ) -> Result<Self, MethodError> {
        Ok(Self { filter: filter(given)?, sort: sort_by(sort)?, extra_args })
    }

    /// Compares two objects by the sort; `compare` compares them by one property.
    pub(in crate::jmap) fn compare(
        &self,
        compare: impl Fn(&T::Sort, Collation) -> Ordering,
    ) -> Ordering {
        let mut orders = self.sort.iter().map(|comparator| comparator.compare(&compare));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

#[derive(Debug, serde::Deserialize)]
pub(in crate::jmap) struct NoArguments {}

/// The method /query of the type `T`.
pub(in crate::jmap) struct QueryMethod<T>(PhantomData<T>);

impl<T: QueryObjects> Method for QueryMethod<T> {
    type Args = With<QueryArgs, T::ExtraArgs>;
    type Answer = QueryResponse;

    fn call(
        call: &Call<'_>,
        With(args, extra_args): Self::Args,
    ) -> Result<QueryResponse, MethodError> {
        let account = T::account(call, &args.account_id)?;
        let query = ObjectQuery::<T>::read(args.filter.as_ref(), args.sort, extra_args)?;
        let reader = T::reader(call, &account)?;
        let results = T::results(&reader, &query)?;
        let length = i64::try_from(results.len()).unwrap_or(i64::MAX);
        let start = match &args.anchor {
            None if args.position < 0 => length.saturating_add(args.position).max(0),
            None => args.position,
            Some(anchor) => {
                let at = results
                    .iter()
                    .position(|id| id == anchor)
                    .ok_or(MethodError::AnchorNotFound)?;
                i64::try_from(at).unwrap_or(i64::MAX).saturating_add(args.anchor_offset).max(0)
            }
        };
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let max = limits::MAX_QUERY_RESULTS as u64;
        let limit = args.limit.unwrap_or(max).min(max);
        let total = args.calculate_total.then_some(results.len() as u64);
        let count = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(QueryResponse {
            account_id: account.id.to_string(),
            query_state: T::state(&reader)?,
            can_calculate_changes: T::CAN_CALCULATE_CHANGES,
            position: start as u64,
            ids: results.into_iter().skip(start).take(count).collect(),
            total,
            // Only a limit that the server chose is returned (RFC 8620 §5.5).
            limit: args.limit.is_none_or(|requested| requested > max).then_some(limit),
        })
    }
}

/// The method /queryChanges of the type `T`.
pub(in crate::jmap) struct QueryChangesMethod<T>(PhantomData<T>);

impl<T: QueryObjects> Method for QueryChangesMethod<T> {
    type Args = With<QueryChangesArgs, T::ExtraArgs>;
    type Answer = QueryChangesResponse;

    fn call(
        call: &Call<'_>,
        With(args, extra_args): Self::Args,
    ) -> Result<QueryChangesResponse, MethodError> {
        let account = T::account(call, &args.account_id)?;
        let query = ObjectQuery::<T>::read(args.filter.as_ref(), args.sort, extra_args)?;
        let reader = T::reader(call, &account)?;
        let changed = T::changed_ids(&reader, &args.since_query_state)?;
        let changed = changed.ok_or(MethodError::CannotCalculateChanges)?;
        let results = T::results(&reader, &query)?;
        let added: Vec<AddedItem> = results
            .iter()
            .enumerate()
            .filter(|(_, id)| changed.contains(*id))
            .map(|(index, id)| AddedItem { id: id.clone(), index: index as u64 })
            .collect();
        if args.max_changes.is_some_and(|max| (added.len() + changed.len()) as u64 > max) {
            return Err(MethodError::TooManyChanges);
        }
        Ok(QueryChangesResponse {
            account_id: account.id.to_string(),
            old_query_state: args.since_query_state,
            new_query_state: T::state(&reader)?,
            // Ids that were not in the results may be among them (RFC 8620 §5.6).
            removed: changed.into_iter().collect(),
            added,
            total: args.calculate_total.then_some(results.len() as u64),
        })
    }
}
