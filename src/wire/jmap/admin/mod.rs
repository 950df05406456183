//! Arguments and answers of the vendor methods, under `urn:restante:jmap:admin`.
//!
//! - The service and the command line share these types.
//! - Dates (RFC 3339), bytes (base64), and ids except those of jobs and backups are strings.
//! - `docs/admin-api.md` describes each method.

pub mod accounts;
pub mod decisions;
pub mod mail;
pub mod mailboxes;
pub mod queue;
pub mod service;
pub mod sieve;
pub mod sieve_stats;
pub mod sieve_stored;
pub mod store;
pub mod vacation;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::arguments::{MethodArguments, With};
use super::error::{MethodError, SetError};

/// A vendor method: its name and the types of its arguments and its answer. `vendor_methods!`
/// implements it. The service runs the methods (`jmap::admin`), and the command line calls them.
pub trait VendorMethod {
    const NAME: &'static str;
    type Args: MethodArguments + Serialize;
    type Answer: Serialize + DeserializeOwned;
}

/// Declares methods, each as an empty type that is a `VendorMethod`:
/// `Type = "Name"(Arguments) -> Answer;`.
macro_rules! vendor_methods {
    ($($method:ident = $name:literal($args:ty) -> $answer:ty;)+) => {$(
        #[derive(Debug)]
        pub enum $method {}

        impl $crate::wire::jmap::admin::VendorMethod for $method {
            const NAME: &'static str = $name;
            type Args = $args;
            type Answer = $answer;
        }
    )+};
}
use vendor_methods;

/// Names an account by its id, or by its name or an address (`account`); both together are refused.
/// With neither, the caller's only account is meant; but Queue/list, and the Queue methods with
/// `all`, then apply to all accounts, for which the caller must be an administrator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountRef {
    pub account_id: Option<String>,
    pub account: Option<String>,
}

impl AccountRef {
    #[must_use]
    pub fn by_id(id: &str) -> Self {
        Self { account_id: Some(id.to_owned()), account: None }
    }

    #[must_use]
    pub fn by_name(name: &str) -> Self {
        Self { account_id: None, account: Some(name.to_owned()) }
    }

    /// Whether an account is named in one of the two ways, or in both.
    pub fn is_named(&self) -> bool {
        self.account_id.is_some() || self.account.is_some()
    }
}

/// The arguments `A` and those of an `AccountRef`, in one JSON object.
pub type OfAccount<A> = With<AccountRef, A>;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyArguments {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyAnswer {}

/// Why one object is refused: a `SetError` (RFC 8620 §5.3), or the error of a method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectError {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<String>,
}

impl ObjectError {
    /// Reads the JSON of an error. Members that only one type of error has are ignored. What cannot
    /// be read becomes a `serverFail` that says why.
    #[must_use]
    pub fn read(object: Value) -> Self {
        serde_json::from_value(object).unwrap_or_else(|error| Self {
            kind: "serverFail".into(),
            description: Some(error.to_string()),
            properties: Vec::new(),
        })
    }
}

impl From<MethodError> for ObjectError {
    fn from(error: MethodError) -> Self {
        Self::read(error.arguments())
    }
}

impl From<SetError> for ObjectError {
    fn from(error: SetError) -> Self {
        Self::read(error.object())
    }
}

/// Reads a member that is present, also if it is null: then `T` is `None`, so that the result is
/// `Some(None)`. It is used for fields of the type `Option<Option<_>>`.
fn even_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
