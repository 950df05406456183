//! Arguments and answers of the standard methods (RFC 8620 §5), for every object type.
//!
//! Ids are texts here: what no object of the type can be called is an id that is not found, and
//! no wrong argument. Objects are maps of their properties, for a client chooses which it is given.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// An object, or those of its properties that are told.
pub type JsonObject = Map<String, Value>;

/// What a method answers.
pub trait Answer: Serialize + Sized {
    /// The arguments of the response.
    ///
    /// # Errors
    /// Where a part of it has no form in JSON.
    fn into_value(self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
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

/// The arguments of /get (RFC 8620 §5.1).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetArgs<P> {
    pub account_id: String,
    /// The ids; none is all there are.
    pub ids: Option<Vec<String>>,
    /// The properties; none is the usual.
    pub properties: Option<Vec<P>>,
}

/// The answer of /get.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GetAnswer {
    pub account_id: String,
    /// The state of the type.
    pub state: String,
    /// The objects that are there, in the order asked.
    pub list: Vec<Value>,
    /// The ids of those that are not.
    pub not_found: Vec<String>,
}

impl Answer for GetAnswer {
    /// Moves the list: it is most of the answer.
    fn into_value(self) -> serde_json::Result<Value> {
        let mut answer = JsonObject::new();
        answer.insert("accountId".into(), self.account_id.into());
        answer.insert("state".into(), self.state.into());
        answer.insert("list".into(), self.list.into());
        answer.insert("notFound".into(), self.not_found.into());
        Ok(Value::Object(answer))
    }
}

/// The arguments of /changes (RFC 8620 §5.2).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangesArgs {
    pub account_id: String,
    /// From which state on.
    pub since_state: String,
    /// How many ids at most.
    pub max_changes: Option<std::num::NonZeroU64>,
}

/// Which properties of the updated objects changed (RFC 8621 §2.2, RFC 9425 §4.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum UpdatedProperties {
    /// The type does not tell.
    Untold,
    /// Any may have.
    Any(()),
    Only(Vec<String>),
}

impl UpdatedProperties {
    fn is_untold(&self) -> bool {
        *self == Self::Untold
    }
}

/// The answer of /changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangesAnswer {
    pub account_id: String,
    /// As the client wrote it.
    pub old_state: String,
    /// To which state this leads.
    pub new_state: String,
    /// Whether the client must ask again from there.
    pub has_more_changes: bool,
    pub created: Vec<String>,
    pub updated: Vec<String>,
    pub destroyed: Vec<String>,
    #[serde(skip_serializing_if = "UpdatedProperties::is_untold")]
    /// Of the types that tell it.
    pub updated_properties: UpdatedProperties,
}

impl Answer for ChangesAnswer {}

/// The arguments of /set (RFC 8620 §5.3).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetArgs {
    pub account_id: String,
    /// The state that the changes are made for.
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

/// The answer of /set. What nothing became of is null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetAnswer {
    pub account_id: String,
    /// The state before.
    pub old_state: String,
    /// The state after, as far as the answer tells all that lies between.
    pub new_state: String,
    /// What the client does not know of the new objects, by creation id.
    pub created: Option<JsonObject>,
    /// What changed beside what was asked, by id.
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

/// The arguments of /copy (RFC 8620 §5.4).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyArgs {
    /// The account to copy from.
    pub from_account_id: String,
    /// The state of that account that the copies are made for.
    pub if_from_in_state: Option<String>,
    /// The account to copy to.
    pub account_id: String,
    /// The state of this account that the copies are made for.
    pub if_in_state: Option<String>,
    /// Objects by creation id: the id of each original, and what is to be other than there.
    pub create: BTreeMap<String, JsonObject>,
    /// Whether originals are destroyed once they are copied, by a /set that follows.
    #[serde(default)]
    pub on_success_destroy_original: bool,
    /// `ifInState` of that /set.
    pub destroy_from_if_in_state: Option<String>,
}

/// The answer of /copy.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyAnswer {
    /// The account copied from.
    pub from_account_id: String,
    /// The account copied to.
    pub account_id: String,
    /// The state before.
    pub old_state: String,
    /// The state after.
    pub new_state: String,
    /// What the client does not know of the copies, by creation id.
    pub created: Option<JsonObject>,
    /// Errors by creation id.
    pub not_created: Option<JsonObject>,
}

impl Answer for CopyAnswer {}

/// A comparator as the client writes it (RFC 8620 §5.5).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct SortComparator {
    /// By what; a client that asks for a keyword leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub property: Option<String>,
    /// Ascending where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_ascending: Option<bool>,
    /// The name of a collation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collation: Option<String>,
    /// Of the properties of emails that are about one keyword (RFC 8621 §4.4.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyword: Option<String>,
}

impl Serialize for SortComparator {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // What the derive makes for `remote`.
        Self::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for SortComparator {
    /// Reads an object: serde by itself would take an array of the values as well.
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

/// The arguments of /query (RFC 8620 §5.5).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryArgs {
    pub account_id: String,
    /// Which objects; none is all.
    pub filter: Option<Value>,
    /// In which order.
    pub sort: Option<Vec<SortComparator>>,
    /// The index of the first; from the end where it is negative.
    #[serde(default)]
    pub position: i64,
    /// The object from which on, in the place of `position`.
    pub anchor: Option<String>,
    /// How far from it.
    #[serde(default)]
    pub anchor_offset: i64,
    /// How many at most.
    pub limit: Option<u64>,
    /// Whether to tell how many there are.
    #[serde(default)]
    pub calculate_total: bool,
}

/// The answer of /query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryResponse {
    pub account_id: String,
    /// The state of the results.
    pub query_state: String,
    /// Whether /queryChanges can tell what changed since.
    pub can_calculate_changes: bool,
    /// The index of the first id.
    pub position: u64,
    pub ids: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// How many there are, where it was asked.
    pub total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The limit, where it is not the client's own.
    pub limit: Option<u64>,
}

impl Answer for QueryResponse {
    /// Moves the ids: they are most of the answer.
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

/// The arguments of /queryChanges (RFC 8620 §5.6).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryChangesArgs {
    pub account_id: String,
    /// As in /query.
    pub filter: Option<Value>,
    /// As in /query.
    pub sort: Option<Vec<SortComparator>>,
    /// From which state on.
    pub since_query_state: String,
    /// How many changes at most.
    pub max_changes: Option<u64>,
    /// Changes after this object need not be told.
    pub up_to_id: Option<String>,
    /// Whether to tell how many there are.
    #[serde(default)]
    pub calculate_total: bool,
}

/// The answer of /queryChanges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryChangesResponse {
    pub account_id: String,
    /// As the client wrote it.
    pub old_query_state: String,
    /// To which state this leads.
    pub new_query_state: String,
    /// Ids that are no longer in the results, or are elsewhere.
    pub removed: Vec<String>,
    /// Ids that are in the results now, with their indices.
    pub added: Vec<AddedItem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// How many there are, where it was asked.
    pub total: Option<u64>,
}

impl Answer for QueryChangesResponse {}

/// An id that came into the results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AddedItem {
    pub id: String,
    /// Its index in the results.
    pub index: u64,
}
