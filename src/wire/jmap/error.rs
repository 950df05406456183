//! The errors of JMAP: of a request (RFC 8620 §3.6.1), of a method call (§3.6.2), and of one object
//! in a /set (§5.3).

use serde_json::{Map, Value, json};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    NotJson(String),
    NotRequest(String),
    UnknownCapability(String),
    /// The name of the exceeded limit.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MethodError {
    /// Also if the capability of the method is not in `using`.
    UnknownMethod,
    InvalidArguments(String),
    InvalidResultReference(String),
    Forbidden(String),
    AccountNotFound,
    /// RFC 8620 §3.6.2.
    AccountNotSupportedByMethod,
    /// RFC 8620 §5.4.
    FromAccountNotFound,
    /// The name of the exceeded limit (RFC 8620 §5.1, §5.3), or what would be too much.
    RequestTooLarge(&'static str),
    /// Only in vendor methods, for downloads, and if a blob is destroyed while it is read.
    NotFound(String),
    /// Only in vendor methods.
    Conflict(String),
    /// RFC 8620 §5.3.
    StateMismatch,
    /// RFC 8620 §5.5.
    UnsupportedFilter(String),
    /// RFC 8620 §5.5.
    UnsupportedSort(String),
    /// RFC 8620 §5.5.
    AnchorNotFound,
    /// RFC 8620 §5.2, §5.6.
    CannotCalculateChanges,
    /// RFC 8620 §5.6.
    TooManyChanges,
    /// RFC 9404 §4.3.
    UnknownDataType(String),
    ServerUnavailable(String),
    ServerFail(String),
}

impl MethodError {
    /// Returns the arguments of the `error` response: its type, and a description if there is one.
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
    /// Returns the description, or the type if there is none.
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
    /// The properties, and a description.
    InvalidProperties(Vec<String>, String),
    InvalidPatch(String),
    NotFound,
    Singleton,
    Forbidden(String),
    OverQuota(String),
    TooLarge(String),
    /// Too many objects were created recently, or the request reads or stores too much.
    RateLimit(String),
    WillDestroy,
    /// With the id of the equal object.
    AlreadyExists(String),
    /// With the ids of the missing blobs.
    BlobNotFound(Vec<String>),
    /// The type, and the further properties of the error.
    Other(&'static str, Map<String, Value>),
    /// The server failed, or the change may succeed later.
    ServerFail(String),
}

impl SetError {
    /// Makes an `invalidProperties` error for one property.
    #[must_use]
    pub fn property(name: &str, description: impl Into<String>) -> Self {
        Self::InvalidProperties(vec![name.to_owned()], description.into())
    }

    /// Makes an error of another type that has only a description.
    #[must_use]
    pub fn other(kind: &'static str, description: &str) -> Self {
        let mut more = Map::new();
        more.insert("description".into(), description.into());
        Self::Other(kind, more)
    }

    /// Returns the `SetError` object as JSON.
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
