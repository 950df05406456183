//! Filters and comparators of /query (RFC 8620 §5.5) over any type.

use std::cmp::Ordering;

use serde_json::Value;

use super::value::{expected, text};
use crate::model::limits;
use crate::query::Collation;
use crate::wire::jmap::MethodError;

/// A filter (RFC 8620 §5.5). `C` is a condition of the type.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::jmap) enum FilterTree<C> {
    And(Vec<FilterTree<C>>),
    Or(Vec<FilterTree<C>>),
    /// Matches what none of the filters matches.
    Not(Vec<FilterTree<C>>),
    Is(C),
}

impl<C> FilterTree<C> {
    /// Reads a filter; `None` matches everything. An object matches a `FilterCondition` if it
    /// matches all its properties. `condition` reads one property, and returns `None` to ignore it.
    ///
    /// # Errors
    /// `InvalidArguments` for a malformed filter; `UnsupportedFilter` for an unknown condition, or
    /// for a filter beyond the bounds.
    pub(in crate::jmap) fn read(
        given: Option<&Value>,
        condition: impl Fn(&str, &Value) -> Result<Option<C>, MethodError>,
    ) -> Result<Self, MethodError> {
        let mut room = limits::MAX_FILTER_CONDITIONS;
        match given {
            None => Ok(Self::And(Vec::new())),
            Some(value) => Self::node(value, limits::MAX_FILTER_DEPTH, &mut room, &condition),
        }
    }

    /// Reads an operator or a `FilterCondition`. `depth` is how deep operators may still be nested,
    /// and `room` how many conditions the filter may still have.
    fn node(
        value: &Value,
        depth: usize,
        room: &mut usize,
        condition: &impl Fn(&str, &Value) -> Result<Option<C>, MethodError>,
    ) -> Result<Self, MethodError> {
        let too_large = |what: &str| MethodError::UnsupportedFilter(format!("the filter {what}"));
        let take = |room: &mut usize| -> Result<(), MethodError> {
            *room = room.checked_sub(1).ok_or_else(|| too_large("has too many conditions"))?;
            Ok(())
        };
        let members = value.as_object().ok_or_else(|| expected("filter", "an object"))?;
        let Some(operator) = members.get("operator") else {
            let mut all = Vec::new();
            for (name, value) in members {
                if let Some(one) = condition(name, value)? {
                    take(room)?;
                    all.push(Self::Is(one));
                }
            }
            // A `FilterCondition` without properties, which every object matches, counts as one
            // condition.
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
                "filter: an object with an operator has no property but conditions".into(),
            ));
        }
        let combine = match text("operator", operator)? {
            "AND" => Self::And,
            "OR" => Self::Or,
            "NOT" => Self::Not,
            _ => return Err(expected("operator", "AND, OR or NOT")),
        };
        let parts = members.get("conditions").and_then(Value::as_array);
        let parts = parts.ok_or_else(|| expected("conditions", "an array"))?;
        let depth = depth.checked_sub(1).ok_or_else(|| too_large("is too deep"))?;
        // An operator without conditions counts as one condition, so that operators are bounded,
        // too.
        if parts.is_empty() {
            take(room)?;
        }
        parts
            .iter()
            .map(|part| Self::node(part, depth, room, condition))
            .collect::<Result<_, _>>()
            .map(combine)
    }

    /// Whether an object matches; `matches` decides for one condition.
    pub(in crate::jmap) fn holds(&self, matches: &impl Fn(&C) -> bool) -> bool {
        match self {
            Self::And(parts) => parts.iter().all(|part| part.holds(matches)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(matches)),
            Self::Not(parts) => !parts.iter().any(|part| part.holds(matches)),
            Self::Is(condition) => matches(condition),
        }
    }
}

/// A comparator of a sort (RFC 8620 §5.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::jmap) struct PropertyComparator<P> {
    pub(in crate::jmap) property: P,
    pub(in crate::jmap) ascending: bool,
    pub(in crate::jmap) collation: Collation,
    /// The keyword, for a property that compares by one (RFC 8621 §4.4.2); `None` if the client
    /// gave none.
    pub(in crate::jmap) keyword: Option<String>,
}

impl<P> PropertyComparator<P> {
    /// Compares two objects; `compare` compares them in ascending order by a property.
    pub(in crate::jmap) fn compare(
        &self,
        compare: impl FnOnce(&P, Collation) -> Ordering,
    ) -> Ordering {
        let order = compare(&self.property, self.collation);
        if self.ascending { order } else { order.reverse() }
    }
}
