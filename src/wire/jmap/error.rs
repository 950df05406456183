//! The errors of JMAP: of a request (RFC 8620 §3.6.1), of a method call (§3.6.2), and of one object
//! in a /set (§5.3).

use serde_json::{Map, Value, json};

/// Why a whole request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// The body is not I-JSON.
    NotJson(String),
    /// The body is JSON but not a request.
    NotRequest(String),
    /// The request uses a capability that this server does not have.
    UnknownCapability(String),
    /// The request exceeds the limit with this name.
    Limit(&'static str),
}

impl RequestError {
    /// Returns the problem details (RFC 7807), for a response with status 400.
    #[must_use]
    pub fn problem(&self) -> Value {
        let (kind, detail, limit) = match self {
            Self::NotJson(detail) => ("notJSON", detail.clone(), None),
            Self::NotRequest(detail) => ("notRequest", detail.clone(), None),
            Self::UnknownCapability(name) => {
                ("unknownCapability", format!("{name} is not supported by this server"), None)
            }
            Self::Limit(name) => ("limit", format!("more than {name} allows"), Some(*name)),
        };
        let mut problem = json!({
            "type": format!("urn:ietf:params:jmap:error:{kind}"), "status": 400, "detail": detail,
        });
        if let (Some(limit), Some(members)) = (limit, problem.as_object_mut()) {
            members.insert("limit".into(), limit.into());
        }
        problem
    }
}

/// Why a method call is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MethodError {
    /// There is no such method, or its capability is not in `using`.
    UnknownMethod,
    InvalidArguments(String),
    /// A result reference cannot be resolved.
    InvalidResultReference(String),
    /// The caller may not do this.
    Forbidden(String),
    AccountNotFound,
    /// The method cannot be used with this account (RFC 8620 §3.6.2).
    AccountNotSupportedByMethod,
    /// The account to copy from does not exist (RFC 8620 §5.4).
    FromAccountNotFound,
    /// The call names more objects than the limit with this name allows (RFC 8620 §5.1, §5.3); or
    /// it would read or answer too much, for the reason in this text.
    RequestTooLarge(&'static str),
    /// There is no such object. Only in vendor methods, and if a blob is destroyed while it is
    /// read.
    NotFound(String),
    /// The change contradicts existing data; only in vendor methods.
    Conflict(String),
    /// The state is not that of `ifInState` (RFC 8620 §5.3).
    StateMismatch,
    /// The filter is well-formed but not supported (RFC 8620 §5.5).
    UnsupportedFilter(String),
    /// The sort is well-formed but not supported (RFC 8620 §5.5).
    UnsupportedSort(String),
    /// The anchor is not in the results (RFC 8620 §5.5).
    AnchorNotFound,
    /// The changes since the given state are not known (RFC 8620 §5.2, §5.6).
    CannotCalculateChanges,
    /// There are more changes than `maxChanges` (RFC 8620 §5.6).
    TooManyChanges,
    /// There is no such object type (RFC 9404 §4.3).
    UnknownDataType(String),
    /// The call may succeed later.
    ServerUnavailable(String),
    /// The server failed.
    ServerFail(String),
}

impl MethodError {
    /// Returns the arguments of the `error` response.
    #[must_use]
    pub fn arguments(&self) -> Value {
        let (kind, description) = match self {
            Self::UnknownMethod => ("unknownMethod", None),
            Self::InvalidArguments(description) => ("invalidArguments", Some(description)),
            Self::InvalidResultReference(description) => {
                ("invalidResultReference", Some(description))
            }
            Self::Forbidden(description) => ("forbidden", Some(description)),
            Self::AccountNotFound => ("accountNotFound", None),
            Self::AccountNotSupportedByMethod => ("accountNotSupportedByMethod", None),
            Self::FromAccountNotFound => ("fromAccountNotFound", None),
            Self::RequestTooLarge(limit) => {
                return json!({"type": "requestTooLarge", "description": limit});
            }
            Self::NotFound(description) => ("notFound", Some(description)),
            Self::Conflict(description) => ("conflict", Some(description)),
            Self::StateMismatch => ("stateMismatch", None),
            Self::UnsupportedFilter(description) => ("unsupportedFilter", Some(description)),
            Self::UnsupportedSort(description) => ("unsupportedSort", Some(description)),
            Self::AnchorNotFound => ("anchorNotFound", None),
            Self::CannotCalculateChanges => ("cannotCalculateChanges", None),
            Self::TooManyChanges => ("tooManyChanges", None),
            Self::UnknownDataType(description) => ("unknownDataType", Some(description)),
            Self::ServerUnavailable(description) => ("serverUnavailable", Some(description)),
            Self::ServerFail(description) => ("serverFail", Some(description)),
        };
        match description {
            Some(description) => json!({"type": kind, "description": description}),
            None => json!({"type": kind}),
        }
    }
}

impl MethodError {
    /// Returns the description of the error, or its type if it has none.
    #[must_use]
    pub fn description(&self) -> String {
        let arguments = self.arguments();
        let text =
            arguments.get("description").or_else(|| arguments.get("type")).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    }
}

/// Why one object of a /set is refused (RFC 8620 §5.3, §5.4; RFC 8621).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetError {
    /// These properties are invalid; with a description.
    InvalidProperties(Vec<String>, String),
    InvalidPatch(String),
    NotFound,
    /// The object type has exactly one object, which can be neither created nor destroyed.
    Singleton,
    /// The caller may not do this.
    Forbidden(String),
    /// The account would exceed its quota.
    OverQuota(String),
    TooLarge(String),
    /// Too many of these objects were created recently, or the request reads or stores too much.
    RateLimit(String),
    /// The object is updated and destroyed in one call.
    WillDestroy,
    /// An equal object exists; with its id.
    AlreadyExists(String),
    /// These blobs do not exist.
    BlobNotFound(Vec<String>),
    /// Another type of error, with its further properties but without `type`.
    Other(&'static str, Map<String, Value>),
    /// The server failed, or the change may succeed later.
    ServerFail(String),
}

impl SetError {
    /// An error for one invalid property.
    #[must_use]
    pub fn property(name: &str, description: impl Into<String>) -> Self {
        Self::InvalidProperties(vec![name.to_owned()], description.into())
    }

    /// An error of another type, with a description.
    #[must_use]
    pub fn other(kind: &'static str, description: &str) -> Self {
        let mut more = Map::new();
        more.insert("description".into(), description.into());
        Self::Other(kind, more)
    }

    /// Returns the `SetError` object.
    #[must_use]
    pub fn object(&self) -> Value {
        let described =
            |kind: &str, description: &str| json!({"type": kind, "description": description});
        match self {
            Self::InvalidProperties(properties, description) => {
                json!({
                    "type": "invalidProperties",
                    "properties": properties,
                    "description": description,
                })
            }
            Self::InvalidPatch(description) => described("invalidPatch", description),
            Self::NotFound => json!({"type": "notFound"}),
            Self::Singleton => json!({"type": "singleton"}),
            Self::Forbidden(description) => described("forbidden", description),
            Self::OverQuota(description) => described("overQuota", description),
            Self::TooLarge(description) => described("tooLarge", description),
            Self::RateLimit(description) => described("rateLimit", description),
            Self::WillDestroy => json!({"type": "willDestroy"}),
            Self::AlreadyExists(id) => json!({"type": "alreadyExists", "existingId": id}),
            Self::BlobNotFound(blobs) => json!({"type": "blobNotFound", "notFound": blobs}),
            Self::Other(kind, more) => {
                let mut object = more.clone();
                object.insert("type".into(), (*kind).into());
                Value::Object(object)
            }
            Self::ServerFail(description) => described("serverFail", description),
        }
    }
}
