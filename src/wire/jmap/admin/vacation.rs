//! The vendor methods for the vacation of an account: the properties of `VacationResponse`
//! (RFC 8621 §8) and further settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use super::mail::NamedAddress;
use super::{OfAccount, even_null, vendor_methods};
use crate::wire::jmap::standard::{JsonObject, SetAnswer};
use crate::wire::jmap::{json, properties};

vendor_methods! {
    VacationGet = "Vacation/get"(OfAccount<VacationGetArguments>) -> VacationGetAnswer;
    VacationSet = "Vacation/set"(OfAccount<VacationSetArguments>) -> SetAnswer;
}

properties! {
    /// The first seven are those of RFC 8621 §8. `docs/admin-api.md` describes the others.
    pub enum VacationProperty {
        Id = "id",
        IsEnabled = "isEnabled",
        FromDate = "fromDate",
        ToDate = "toDate",
        Subject = "subject",
        TextBody = "textBody",
        HtmlBody = "htmlBody",
        From = "from",
        ReplyTo = "replyTo",
        Addresses = "addresses",
        Except = "except",
        Audience = "audience",
        Organisation = "organisation",
        Language = "language",
        Variants = "variants",
        Days = "days",
        Copies = "copies",
        Report = "report",
        Began = "began",
        Ended = "ended",
        Reported = "reported",
    }
}

impl Serialize for VacationProperty {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

/// The arguments of a /get method (RFC 8620 §5.1) without the account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacationGetArguments {
    pub ids: Option<Vec<String>>,
    pub properties: Option<Vec<VacationProperty>>,
}

/// The answer of a /get method (RFC 8620 §5.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VacationGetAnswer {
    pub account_id: String,
    pub state: String,
    pub list: Vec<VacationFacts>,
    pub not_found: Vec<String>,
}

/// The arguments of a /set method (RFC 8620 §5.3) without the account.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VacationSetArguments {
    pub if_in_state: Option<String>,
    /// No object can be created: each is refused.
    #[serde(default)]
    pub create: BTreeMap<String, JsonObject>,
    /// Patches by id.
    #[serde(default)]
    pub update: BTreeMap<String, JsonObject>,
    #[serde(default)]
    pub destroy: Vec<String>,
}

impl VacationSetArguments {
    /// Returns the arguments that set the properties in `changes`.
    ///
    /// # Errors
    /// A property cannot be written as JSON.
    pub fn update(changes: &VacationFacts) -> serde_json::Result<Self> {
        let patch = json::members(serde_json::to_value(changes)?);
        Ok(Self { update: [(SINGLETON.to_owned(), patch)].into(), ..Self::default() })
    }
}

/// The id of the only vacation of an account (RFC 8621 §8).
pub const SINGLETON: &str = "singleton";

/// Some properties of a vacation. One that is left out is `None`; one whose value is null is
/// `Some(None)`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VacationFacts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_enabled: Option<bool>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub from_date: Option<Option<String>>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub to_date: Option<Option<String>>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub subject: Option<Option<String>>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub text_body: Option<Option<String>>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub html_body: Option<Option<String>>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub from: Option<Option<NamedAddress>>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Option<NamedAddress>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub except: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organisation: Option<Vec<String>>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub language: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variants: Option<Vec<VariantFacts>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<bool>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub began: Option<Option<String>>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub ended: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<bool>,
}

/// A text that replaces the text of the response for some senders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VariantFacts {
    /// The language of the text (RFC 5646). With `None` it is not said.
    pub language: Option<String>,
    /// Which senders get the text: `organisation`, `outside`, or with `None` those whose circle has
    /// no variant of its own.
    pub circle: Option<String>,
    pub subject: Option<String>,
    pub text_body: Option<String>,
    pub html_body: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::VacationFacts;

    #[test]
    fn null_differs_from_a_member_that_is_left_out() {
        let facts = VacationFacts {
            is_enabled: Some(true),
            to_date: Some(None),
            ..VacationFacts::default()
        };
        let written = json!({"isEnabled": true, "toDate": null});
        assert_eq!(serde_json::to_value(&facts).unwrap(), written);
        assert_eq!(serde_json::from_value::<VacationFacts>(written).unwrap(), facts);
    }
}
