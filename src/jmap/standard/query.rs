//! /query and /queryChanges (RFC 8620 §5.5, §5.6) of types of which an account has few objects: all are read, those that
//! match are put in order, and a section is given. (Emails are many: room `query`.)

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::value::{flag, int, text, unsigned, wanted};
use crate::jmap::context::Args;
use crate::model::{AccountId, limits};
use crate::query::Collation;
use crate::wire::jmap::MethodError;

/// A filter over conditions of a type.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::jmap) enum Tree<C> {
    And(Vec<Tree<C>>),
    Or(Vec<Tree<C>>),
    Not(Vec<Tree<C>>),
    Is(C),
}

impl<C> Tree<C> {
    /// Reads the argument `filter`; without one everything matches. A condition holds where all its properties do.
    ///
    /// # Errors
    /// `invalidArguments`; `unsupportedFilter` for what is not known here or beyond the bounds of a filter.
    pub(in crate::jmap) fn read(
        arguments: &Args<'_>,
        condition: impl Fn(&str, &Value) -> Result<C, MethodError>,
    ) -> Result<Self, MethodError> {
        Self::of(arguments.get("filter"), |name, value| condition(name, value).map(Some))
    }

    /// The same of a value; `condition` gives none for a property that counts as left out.
    ///
    /// # Errors
    /// As `read`.
    pub(in crate::jmap) fn of(
        given: Option<&Value>,
        condition: impl Fn(&str, &Value) -> Result<Option<C>, MethodError>,
    ) -> Result<Self, MethodError> {
        let mut room = limits::FILTER_CONDITIONS;
        match given {
            None => Ok(Self::And(Vec::new())),
            Some(value) => Self::node(value, limits::FILTER_DEPTH, &mut room, &condition),
        }
    }

    fn node(
        value: &Value,
        depth: usize,
        room: &mut usize,
        condition: &impl Fn(&str, &Value) -> Result<Option<C>, MethodError>,
    ) -> Result<Self, MethodError> {
        let beyond = |what: &str| MethodError::UnsupportedFilter(format!("the filter {what}"));
        let take = |room: &mut usize| -> Result<(), MethodError> {
            *room = room.checked_sub(1).ok_or_else(|| beyond("has too many conditions"))?;
            Ok(())
        };
        let members = value.as_object().ok_or_else(|| wanted("filter", "an object"))?;
        let Some(operator) = members.get("operator") else {
            let mut all = Vec::new();
            for (name, value) in members {
                if let Some(one) = condition(name, value)? {
                    take(room)?;
                    all.push(Self::Is(one));
                }
            }
            if all.is_empty() {
                take(room)?;
            }
            return Ok(match <[Self; 1]>::try_from(all) {
                Ok([one]) => one,
                Err(all) => Self::And(all),
            });
        };
        if members.keys().any(|name| !matches!(name.as_str(), "operator" | "conditions")) {
            return Err(MethodError::InvalidArguments("filter: a property beside an operator".into()));
        }
        let of = match text("operator", operator)? {
            "AND" => Self::And,
            "OR" => Self::Or,
            "NOT" => Self::Not,
            // There are no others (RFC 8620 §5.5).
            _ => return Err(wanted("operator", "AND, OR or NOT")),
        };
        let parts = members.get("conditions").and_then(Value::as_array);
        let parts = parts.ok_or_else(|| wanted("conditions", "an array"))?;
        let depth = depth.checked_sub(1).ok_or_else(|| beyond("is too deep"))?;
        // What has no conditions weighs as one, so that the room bounds the operators, too.
        if parts.is_empty() {
            take(room)?;
        }
        parts.iter().map(|part| Self::node(part, depth, room, condition)).collect::<Result<_, _>>().map(of)
    }

    /// Whether it holds, where `is` says which conditions do.
    pub(in crate::jmap) fn holds(&self, is: &impl Fn(&C) -> bool) -> bool {
        match self {
            Self::And(parts) => parts.iter().all(|part| part.holds(is)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(is)),
            Self::Not(parts) => !parts.iter().any(|part| part.holds(is)),
            Self::Is(condition) => is(condition),
        }
    }
}

/// A comparator (RFC 8620 §5.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::jmap) struct PropertyComparator<P> {
    pub(in crate::jmap) property: P,
    pub(in crate::jmap) ascending: bool,
    pub(in crate::jmap) collation: Collation,
    /// Of a property that is about one keyword (RFC 8621 §4.4.2).
    pub(in crate::jmap) keyword: Option<String>,
}

impl<P> PropertyComparator<P> {
    /// Compares two objects by it.
    pub(in crate::jmap) fn compare(&self, by: impl FnOnce(&P, Collation) -> Ordering) -> Ordering {
        let order = by(&self.property, self.collation);
        if self.ascending { order } else { order.reverse() }
    }
}

/// Reads the argument `sort`.
///
/// # Errors
/// `invalidArguments`; `unsupportedSort` for what is not known here or beyond the bounds of a sort.
pub(in crate::jmap) fn sort<P>(
    arguments: &Args<'_>,
    known: impl Fn(&str) -> Option<P>,
) -> Result<Vec<PropertyComparator<P>>, MethodError> {
    let unsupported = |what: &str| MethodError::UnsupportedSort(what.to_owned());
    let Some(value) = arguments.get("sort") else { return Ok(Vec::new()) };
    let all = value.as_array().ok_or_else(|| wanted("sort", "an array"))?;
    if all.len() > limits::SORT_COMPARATORS {
        return Err(unsupported("the sort has too many comparators"));
    }
    let one = |value: &Value| {
        let members = value.as_object().ok_or_else(|| wanted("sort", "an array of comparators"))?;
        let name = members.get("property").ok_or_else(|| wanted("property", "a text"))?;
        let property = known(text("property", name)?).ok_or_else(|| unsupported("no such property to sort by"))?;
        // meli writes null for what it leaves to the server.
        let said = |name: &str| members.get(name).filter(|value| !value.is_null());
        let ascending = said("isAscending").map_or(Ok(true), |value| flag("isAscending", value))?;
        let collation = match said("collation") {
            None => Collation::default(),
            Some(name) => {
                Collation::from_name(text("collation", name)?).ok_or_else(|| unsupported("no such collation"))?
            }
        };
        Ok(PropertyComparator { property, ascending, collation, keyword: None })
    };
    all.iter().map(one).collect()
}

/// The answer of /query over all results: the section that is asked for.
///
/// # Errors
/// `invalidArguments`, `anchorNotFound`.
pub(in crate::jmap) fn section(
    arguments: &Args<'_>,
    account: AccountId,
    state: &str,
    results: &[String],
) -> Result<Value, MethodError> {
    let number = |name: &str| arguments.get(name).map_or(Ok(0), |value| int(name, value));
    let (position, offset) = (number("position")?, number("anchorOffset")?);
    let asked = arguments.get("limit").map(|value| unsigned("limit", value)).transpose()?;
    let total = i64::try_from(results.len()).unwrap_or(i64::MAX);
    let start = match arguments.get("anchor") {
        None if position < 0 => total.saturating_add(position).max(0),
        None => position,
        Some(anchor) => {
            let anchor = text("anchor", anchor)?;
            let at = results.iter().position(|id| id == anchor).ok_or(MethodError::AnchorNotFound)?;
            i64::try_from(at).unwrap_or(i64::MAX).saturating_add(offset).max(0)
        }
    };
    let from = usize::try_from(start).unwrap_or(usize::MAX);
    let limit = asked.map_or(limits::RESULTS, |asked| {
        usize::try_from(asked).map_or(limits::RESULTS, |asked| asked.min(limits::RESULTS))
    });
    let ids: Vec<&String> = results.iter().skip(from).take(limit).collect();
    let mut answer = json!({
        "accountId": account.to_string(), "queryState": state, "canCalculateChanges": true, "position": from, "ids": ids,
    });
    let extra = answer.as_object_mut();
    if let Some(members) = extra {
        if arguments.flag("calculateTotal")? {
            members.insert("total".into(), results.len().into());
        }
        // The client's own is not said again.
        if asked.is_none_or(|asked| asked > limits::RESULTS as u64) {
            members.insert("limit".into(), limit.into());
        }
    }
    Ok(answer)
}

/// The answer of /queryChanges: `moved` is all that may have entered, left or moved in the results since.
///
/// # Errors
/// `invalidArguments`, `tooManyChanges`.
pub(in crate::jmap) fn query_changes(
    arguments: &Args<'_>,
    account: AccountId,
    state: &str,
    results: &[String],
    moved: &BTreeSet<String>,
) -> Result<Value, MethodError> {
    let most = arguments.number("maxChanges")?;
    let added: Vec<Value> = results
        .iter()
        .enumerate()
        .filter(|(_, id)| moved.contains(*id))
        .map(|(index, id)| json!({"id": id, "index": index}))
        .collect();
    if most.is_some_and(|most| (added.len() + moved.len()) as u64 > most) {
        return Err(MethodError::TooManyChanges);
    }
    let mut answer = Map::new();
    answer.insert("accountId".into(), account.to_string().into());
    answer.insert("oldQueryState".into(), arguments.text("sinceQueryState")?.into());
    answer.insert("newQueryState".into(), state.into());
    answer.insert("removed".into(), moved.iter().cloned().collect());
    answer.insert("added".into(), Value::Array(added));
    if arguments.flag("calculateTotal")? {
        answer.insert("total".into(), results.len().into());
    }
    Ok(Value::Object(answer))
}
