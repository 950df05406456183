//! Reads the arguments of a method call into the type that declares them.
//!
//! - A member that the type does not declare is an error of [`read`]: a client that misspells
//!   `ifInState` must not overwrite the changes of another. [`MethodArguments::take`] leaves such a
//!   member, because another type may declare it ([`With`]).
//! - Null has the same meaning as a member that is left out, except in [`Nullable`] and in maps.
//! - The error names the invalid argument.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Error as _, IntoDeserializer as _, MapAccess, Visitor,
};
use serde::{Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::error::MethodError;

/// Arguments of a method: any type that serde reads, also as [`Nullable`], or [`With`] of two.
pub trait MethodArguments: Sized {
    /// Removes and reads the members that the type declares.
    ///
    /// # Errors
    /// `invalidArguments`.
    fn take(members: &mut Map<String, Value>) -> Result<Self, MethodError>;
}

/// Arguments of two types, whose members are in one JSON object. No member is declared by both.
#[derive(Debug, Clone, PartialEq)]
pub struct With<A, B>(pub A, pub B);

/// Arguments in which null is a value of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Nullable<T>(pub T);

/// Reads the arguments, and refuses any others. `method` is the name of the method, for the error.
///
/// # Errors
/// `invalidArguments`. An unknown argument is named first.
pub fn read<A: MethodArguments>(
    method: &str,
    mut members: Map<String, Value>,
) -> Result<A, MethodError> {
    let arguments = A::take(&mut members);
    match members.keys().next() {
        Some(unknown) => {
            Err(MethodError::InvalidArguments(format!("{method} has no argument {unknown}")))
        }
        None => arguments,
    }
}

impl<T: DeserializeOwned> MethodArguments for T {
    fn take(members: &mut Map<String, Value>) -> Result<Self, MethodError> {
        let reader = ArgumentReader { members, nulls: false };
        T::deserialize(reader).map_err(|error| MethodError::InvalidArguments(error.0))
    }
}

impl<T: DeserializeOwned> MethodArguments for Nullable<T> {
    fn take(members: &mut Map<String, Value>) -> Result<Self, MethodError> {
        let reader = ArgumentReader { members, nulls: true };
        T::deserialize(reader).map(Self).map_err(|error| MethodError::InvalidArguments(error.0))
    }
}

impl<A: Serialize, B: Serialize> Serialize for With<A, B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Members<'a, A, B> {
            #[serde(flatten)]
            first: &'a A,
            #[serde(flatten)]
            second: &'a B,
        }
        Members { first: &self.0, second: &self.1 }.serialize(serializer)
    }
}

impl<A: MethodArguments, B: MethodArguments> MethodArguments for With<A, B> {
    fn take(members: &mut Map<String, Value>) -> Result<Self, MethodError> {
        // Both remove their members before an error returns, so that the rest is unknown to both.
        let (first, second) = (A::take(members), B::take(members));
        Ok(Self(first?, second?))
    }
}

/// Returns at most the first 128 bytes, for an error.
#[must_use]
pub fn short(text: &str) -> &str {
    text.get(..text.floor_char_boundary(128)).unwrap_or_default()
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ArgumentError(String);

impl serde::de::Error for ArgumentError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        Self(format!("{field} is required"))
    }
}

/// Deserializes a struct from the members that it declares, and a map from all members.
struct ArgumentReader<'m> {
    members: &'m mut Map<String, Value>,
    /// Whether null is a value of its own.
    nulls: bool,
}

impl<'de> Deserializer<'de> for ArgumentReader<'_> {
    type Error = ArgumentError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ArgumentError> {
        let members = std::mem::take(self.members);
        members.into_deserializer().deserialize_any(visitor).map_err(ArgumentError::custom)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ArgumentError> {
        let mut present = Vec::with_capacity(fields.len());
        for name in fields {
            let value = self.members.remove(*name).filter(|value| self.nulls || !value.is_null());
            present.extend(value.map(|value| (*name, value)));
        }
        visitor.visit_map(PresentArguments { rest: present.into_iter(), value: None })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The members of a struct that are present, as serde reads them: a name, then its value.
struct PresentArguments {
    rest: std::vec::IntoIter<(&'static str, Value)>,
    /// The member whose name was read last.
    value: Option<(&'static str, Value)>,
}

impl<'de> MapAccess<'de> for PresentArguments {
    type Error = ArgumentError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ArgumentError> {
        self.value = self.rest.next();
        let Some((name, _)) = &self.value else { return Ok(None) };
        let name: StrDeserializer<'_, ArgumentError> = (*name).into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ArgumentError> {
        let (name, value) = self.value.take().unwrap_or_default();
        seed.deserialize(value)
            .map_err(|error| ArgumentError(format!("{name}: {}", short(&error.to_string()))))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::wire::jmap::json::members;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Standard {
        account_id: String,
        limit: Option<u64>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Additional {
        #[serde(default)]
        as_tree: bool,
    }

    #[test]
    fn arguments_are_read_and_errors_name_them() {
        let read = |arguments: Value| {
            read::<With<Standard, Additional>>("Type/query", members(arguments))
                .map_err(|error| error.description())
        };
        let expected = |limit, as_tree| {
            Ok(With(Standard { account_id: "a".into(), limit }, Additional { as_tree }))
        };
        assert_eq!(
            read(json!({"accountId": "a", "limit": 3, "asTree": true})),
            expected(Some(3), true)
        );
        assert_eq!(
            read(json!({"accountId": "a", "limit": null, "asTree": null})),
            expected(None, false)
        );
        for (arguments, error) in [
            (json!({"limit": 3}), "accountId is required"),
            (json!({"accountId": null}), "accountId is required"),
            (json!({"accountId": 1}), "accountId: invalid type: integer `1`, expected a string"),
            (
                json!({"accountId": "a", "limit": -1}),
                "limit: invalid value: integer `-1`, expected u64",
            ),
            (
                json!({"accountId": "a", "asTree": "x"}),
                "asTree: invalid type: string \"x\", expected a boolean",
            ),
            (json!({"limit": "x", "colour": 1}), "Type/query has no argument colour"),
        ] {
            assert_eq!(read(arguments), Err(error.to_owned()));
        }
    }

    #[test]
    fn map_takes_all_members() {
        let echoed = members(json!({"a": null, "b": [1]}));
        assert_eq!(read::<Map<String, Value>>("Core/echo", echoed.clone()), Ok(echoed));
    }
}
