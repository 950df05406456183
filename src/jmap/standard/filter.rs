//! Reads the filters and sorts of /query (RFC 8620 §5.5) into Rust enums.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer as _,
    VariantAccess, Visitor,
};
use serde_json::Value;

use super::query::{FilterTree, PropertyComparator};
use super::value::expected;
use crate::model::limits;
use crate::query::Collation;
use crate::wire::jmap::MethodError;
use crate::wire::jmap::arguments::short;
use crate::wire::jmap::standard::SortComparator;

/// Reads a filter over conditions of a type. `C` is an enum: each variant is a property of the
/// `FilterCondition`, with its value.
///
/// # Errors
/// Those of `FilterTree::read`.
pub(super) fn filter<C: DeserializeOwned>(
    given: Option<&Value>,
) -> Result<FilterTree<C>, MethodError> {
    FilterTree::read(given, |name, value| condition(name, value).map(Some))
}

/// Reads a condition of a filter: the property `name` with its value.
///
/// # Errors
/// `UnsupportedFilter` if the type has no condition of this name; `InvalidArguments` for an invalid
/// value.
pub(in crate::jmap) fn condition<C: DeserializeOwned>(
    name: &str,
    value: &Value,
) -> Result<C, MethodError> {
    C::deserialize(ConditionReader { name, value }).map_err(|error| match error {
        ConditionError::Unknown => {
            MethodError::UnsupportedFilter(format!("there is no condition {}", short(name)))
        }
        ConditionError::Value(error) => {
            MethodError::InvalidArguments(format!("{name}: {}", short(&error)))
        }
    })
}

/// Reads a sort. `P` is an enum of the properties by which the type can be sorted.
///
/// # Errors
/// `UnsupportedSort` for a property that `P` does not have, an unknown collation, or too many
/// comparators; `InvalidArguments` for a comparator without a property.
pub(in crate::jmap) fn sort_by<P: DeserializeOwned>(
    given: Option<Vec<SortComparator>>,
) -> Result<Vec<PropertyComparator<P>>, MethodError> {
    let unsupported = |what: &str| MethodError::UnsupportedSort(what.to_owned());
    let given = given.unwrap_or_default();
    if given.len() > limits::MAX_SORT_COMPARATORS {
        return Err(unsupported("the sort has too many comparators"));
    }
    let read = |comparator: SortComparator| {
        let name = comparator.property.ok_or_else(|| expected("property", "a text"))?;
        let name: StrDeserializer<'_, ConditionError> = name.as_str().into_deserializer();
        let property =
            P::deserialize(name).map_err(|_| unsupported("no such property to sort by"))?;
        let collation = match comparator.collation {
            None => Collation::default(),
            Some(name) => {
                Collation::from_name(&name).ok_or_else(|| unsupported("no such collation"))?
            }
        };
        let ascending = comparator.is_ascending.unwrap_or(true);
        Ok(PropertyComparator { property, ascending, collation, keyword: comparator.keyword })
    };
    given.into_iter().map(read).collect()
}

#[derive(Debug, thiserror::Error)]
enum ConditionError {
    #[error("no such condition")]
    Unknown,
    #[error("{0}")]
    Value(String),
}

impl serde::de::Error for ConditionError {
    fn custom<T: std::fmt::Display>(what: T) -> Self {
        Self::Value(what.to_string())
    }

    fn unknown_variant(_: &str, _: &'static [&'static str]) -> Self {
        Self::Unknown
    }
}

/// Deserializes one property of a `FilterCondition` as an enum variant with its value.
#[derive(Clone, Copy)]
struct ConditionReader<'v> {
    name: &'v str,
    value: &'v Value,
}

impl<'de> Deserializer<'de> for ConditionReader<'_> {
    type Error = ConditionError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConditionError> {
        visitor.visit_enum(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

impl<'de> EnumAccess<'de> for ConditionReader<'_> {
    type Error = ConditionError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), ConditionError> {
        let name: StrDeserializer<'_, ConditionError> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for ConditionReader<'_> {
    type Error = ConditionError;

    fn unit_variant(self) -> Result<(), ConditionError> {
        Err(ConditionError::Unknown)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, ConditionError> {
        seed.deserialize(self.value.clone()).map_err(ConditionError::custom)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, ConditionError> {
        Err(ConditionError::Unknown)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, ConditionError> {
        Err(ConditionError::Unknown)
    }
}
