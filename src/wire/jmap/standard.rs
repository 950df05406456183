//! Arguments and answers of the standard methods (RFC 8620 §5), for every object type.
//!
//! - Ids are strings: a string that cannot be an id of the type is reported as not found, not as an
//!   invalid argument.
//! - Objects are maps of properties, because the client selects the properties.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::text::ResponseArguments;

pub type JsonObject = Map<String, Value>;

/// The answer of a method as a type. Serde writes it, unless a type does so faster itself.
pub trait Answer: Serialize + Sized {
    /// # Errors
    /// A part of the answer cannot be written as JSON.
    fn into_value(self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

/// What a method returns: an `Answer`, or `ResponseArguments`, of which a part is text already.
pub trait IntoArguments {
    /// # Errors
    /// A part of the answer cannot be written as JSON.
    fn into_arguments(self) -> serde_json::Result<ResponseArguments>;
}

impl<A: Answer> IntoArguments for A {
    fn into_arguments(self) -> serde_json::Result<ResponseArguments> {
        self.into_value().map(ResponseArguments::from)
    }
}

impl IntoArguments for ResponseArguments {
    fn into_arguments(self) -> serde_json::Result<ResponseArguments> {
        Ok(self)
    }
}

impl Answer for Value {
    fn into_value(self) -> serde_json::Result<Value> {
        Ok(self)
    }
}

impl Answer for JsonObject {
    fn into_value(self) -> serde_json::Result<Value> {
        Ok(Value::Object(self))
    }
}

/// RFC 8620 §5.1.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetArgs<P> {
    pub account_id: String,
    /// `None` is all objects.
    pub ids: Option<Vec<String>>,
    /// `None` is the default of the type.
    pub properties: Option<Vec<P>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GetAnswer {
    pub account_id: String,
    pub state: String,
    /// In the order of `ids`, if these were given.
    pub list: Vec<Value>,
    pub not_found: Vec<String>,
}

impl Answer for GetAnswer {
    /// Moves the list, which is most of the answer.
    fn into_value(self) -> serde_json::Result<Value> {
        let mut answer = JsonObject::new();
        answer.insert("accountId".into(), self.account_id.into());
        answer.insert("state".into(), self.state.into());
        answer.insert("list".into(), self.list.into());
        answer.insert("notFound".into(), self.not_found.into());
        Ok(Value::Object(answer))
    }
}

/// RFC 8620 §5.2.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangesArgs {
    pub account_id: String,
    pub since_state: String,
    pub max_changes: Option<std::num::NonZeroU64>,
}

/// Which properties of the updated objects changed (RFC 8621 §2.2, RFC 9425 §4.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum UpdatedProperties {
    /// The type does not report changed properties.
    NotReported,
    /// Any property may have changed. This is written as null.
    Any(()),
    Only(Vec<String>),
}

impl UpdatedProperties {
    fn is_not_reported(&self) -> bool {
        *self == Self::NotReported
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangesAnswer {
    pub account_id: String,
    pub old_state: String,
    pub new_state: String,
    pub has_more_changes: bool,
    pub created: Vec<String>,
    pub updated: Vec<String>,
    pub destroyed: Vec<String>,
    #[serde(skip_serializing_if = "UpdatedProperties::is_not_reported")]
    pub updated_properties: UpdatedProperties,
}

impl Answer for ChangesAnswer {}

/// RFC 8620 §5.3.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetArgs {
    pub account_id: String,
    pub if_in_state: Option<String>,
    /// Objects by creation id.
    #[serde(default)]
    pub create: BTreeMap<String, JsonObject>,
    /// Patches by id.
    #[serde(default)]
    pub update: BTreeMap<String, JsonObject>,
    #[serde(default)]
    pub destroy: Vec<String>,
}

/// A member without objects is null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetAnswer {
    pub account_id: String,
    pub old_state: String,
    /// The newest state up to which the answer reports all changes since `old_state`.
    pub new_state: String,
    /// Properties that the client does not know, by creation id.
    pub created: Option<JsonObject>,
    /// Changed properties that the client did not set, by id.
    pub updated: Option<JsonObject>,
    pub destroyed: Option<Vec<String>>,
    /// Errors by creation id.
    pub not_created: Option<JsonObject>,
    /// Errors by id.
    pub not_updated: Option<JsonObject>,
    /// Errors by id.
    pub not_destroyed: Option<JsonObject>,
}

impl Answer for SetAnswer {}

/// RFC 8620 §5.4.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyArgs {
    pub from_account_id: String,
    pub if_from_in_state: Option<String>,
    pub account_id: String,
    pub if_in_state: Option<String>,
    /// By creation id, the id of the original with the properties that differ in the copy.
    pub create: BTreeMap<String, JsonObject>,
    /// Whether a /set that follows destroys the copied originals.
    #[serde(default)]
    pub on_success_destroy_original: bool,
    /// `ifInState` of that /set.
    pub destroy_from_if_in_state: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyAnswer {
    pub from_account_id: String,
    pub account_id: String,
    pub old_state: String,
    pub new_state: String,
    /// Properties that the client does not know, by creation id.
    pub created: Option<JsonObject>,
    /// Errors by creation id.
    pub not_created: Option<JsonObject>,
}

impl Answer for CopyAnswer {}

/// RFC 8620 §5.5.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct SortComparator {
    /// May be left out only for emails, if there is a keyword.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub property: Option<String>,
    /// `None` is ascending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_ascending: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collation: Option<String>,
    /// RFC 8621 §4.4.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyword: Option<String>,
}

impl Serialize for SortComparator {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // The inherent function that the derive writes because of `remote`.
        Self::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for SortComparator {
    /// The derived implementation would also accept an array of the values.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;

        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = SortComparator;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<SortComparator, A::Error> {
                SortComparator::deserialize(MapAccessDeserializer::new(members))
            }
        }

        from.deserialize_map(ObjectVisitor)
    }
}

/// RFC 8620 §5.5.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryArgs {
    pub account_id: String,
    /// `None` selects all objects.
    pub filter: Option<Value>,
    pub sort: Option<Vec<SortComparator>>,
    /// From the end if negative.
    #[serde(default)]
    pub position: i64,
    pub anchor: Option<String>,
    #[serde(default)]
    pub anchor_offset: i64,
    /// `None` is the limit of the server.
    pub limit: Option<u64>,
    #[serde(default)]
    pub calculate_total: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryResponse {
    pub account_id: String,
    pub query_state: String,
    /// Whether /queryChanges can report changes since `query_state`.
    pub can_calculate_changes: bool,
    pub position: u64,
    pub ids: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The number of all results, if `calculate_total` is set.
    pub total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The limit that was applied, if it is not the client's.
    pub limit: Option<u64>,
}

impl Answer for QueryResponse {
    /// Moves the ids, which are most of the answer.
    fn into_value(self) -> serde_json::Result<Value> {
        let mut answer = JsonObject::new();
        answer.insert("accountId".into(), self.account_id.into());
        answer.insert("queryState".into(), self.query_state.into());
        answer.insert("canCalculateChanges".into(), self.can_calculate_changes.into());
        answer.insert("position".into(), self.position.into());
        answer.insert("ids".into(), self.ids.into());
        answer.extend(self.total.map(|total| ("total".to_owned(), total.into())));
        answer.extend(self.limit.map(|limit| ("limit".to_owned(), limit.into())));
        Ok(Value::Object(answer))
    }
}

/// RFC 8620 §5.6. `filter` and `sort` are those of the query.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryChangesArgs {
    pub account_id: String,
    pub filter: Option<Value>,
    pub sort: Option<Vec<SortComparator>>,
    pub since_query_state: String,
    /// With more changes than this, the method fails, and the client must query again.
    pub max_changes: Option<u64>,
    /// Changes after this object need not be reported.
    pub up_to_id: Option<String>,
    #[serde(default)]
    pub calculate_total: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryChangesResponse {
    pub account_id: String,
    pub old_query_state: String,
    pub new_query_state: String,
    /// Ids that may have left the results or moved. Some may never have been in the results.
    pub removed: Vec<String>,
    /// Ids that are new in the results, and those in `removed` that are still in them, by ascending
    /// index.
    pub added: Vec<AddedItem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The number of all results, if `calculate_total` is set.
    pub total: Option<u64>,
}

impl Answer for QueryChangesResponse {}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AddedItem {
    pub id: String,
    /// The index in the new results.
    pub index: u64,
}
