//! Filters and comparators of /query (RFC 8620 §5.5) for types of which an account has few objects.

use std::cmp::Ordering;

use serde_json::Value;

use super::value::{text, wanted};
use crate::model::limits;
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
    /// Reads a filter; without one everything matches. A condition holds where all its properties
    /// do; `condition` gives none for a property that counts as left out.
    ///
    /// # Errors
    /// `invalidArguments`; `unsupportedFilter` for what is not known here or beyond the bounds of a
    /// filter.
    pub(in crate::jmap) fn of(
        given: Option<&Value>,
        condition: impl Fn(&str, &Value) -> Result<Option<C>, MethodError>,
    ) -> Result<Self, MethodError> {
        let mut room = limits::MAX_FILTER_CONDITIONS;
        match given {
            None => Ok(Self::And(Vec::new())),
            Some(value) => Self::node(value, limits::MAX_FILTER_DEPTH, &mut room, &condition),
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
            return Err(MethodError::InvalidArguments(
                "filter: a property beside an operator".into(),
            ));
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
        parts
            .iter()
            .map(|part| Self::node(part, depth, room, condition))
            .collect::<Result<_, _>>()
            .map(of)
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
