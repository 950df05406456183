//! Errors of the three levels: of a request (RFC 8620 §3.6.1), of a method (§3.6.2), of one object
//! of a /set (§5.3).

use serde_json::{Map, Value, json};

/// The whole request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// Not I-JSON.
    NotJson(String),
    /// JSON, but no request.
    NotRequest(String),
    /// A capability that is not known here.
    UnknownCapability(String),
    /// Beyond a limit, which is named.
    Limit(&'static str),
}

impl RequestError {
    /// The problem details (RFC 7807) that are answered with status 400.
    #[must_use]
    pub fn problem(&self) -> Value {
        let (kind, detail, limit) = match self {
            Self::NotJson(detail) => ("notJSON", detail.clone(), None),
            Self::NotRequest(detail) => ("notRequest", detail.clone(), None),
            Self::UnknownCapability(which) => {
                ("unknownCapability", format!("{which} is not known here"), None)
            }
            Self::Limit(which) => ("limit", format!("beyond {which}"), Some(*which)),
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

/// One method call is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MethodError {
    /// No such method, or its capability is not in `using`.
    UnknownMethod,
    InvalidArguments(String),
    /// A result reference leads nowhere.
    InvalidResultReference(String),
    /// The caller may not.
    Forbidden(String),
    /// No such account.
    AccountNotFound,
    /// The method cannot be used with this account (RFC 8620 §3.6.2).
    AccountNotSupportedByMethod,
    /// Of a /copy: no such account to copy from (RFC 8620 §5.4).
    FromAccountNotFound,
    /// More objects than one call may name; the limit's name (RFC 8620 §5.1, §5.3).
    RequestTooLarge(&'static str),
    /// No such object (of the methods of ours that name one).
    NotFound(String),
    /// It cannot be, for the reason given.
    Conflict(String),
    /// The state is not the one that the change was made for (RFC 8620 §5.3).
    StateMismatch,
    /// A filter that is well-formed, and not one that can be answered (RFC 8620 §5.5).
    UnsupportedFilter(String),
    /// A sort that is well-formed, and not one that can be answered (RFC 8620 §5.5).
    UnsupportedSort(String),
    /// The anchor is not in the results (RFC 8620 §5.5).
    AnchorNotFound,
    /// What changed since a state is not known (RFC 8620 §5.2, §5.6).
    CannotCalculateChanges,
    /// There are more changes than `maxChanges` (RFC 8620 §5.6).
    TooManyChanges,
    /// No such type of objects (RFC 9404 §4.3).
    UnknownDataType(String),
    /// Try again later.
    ServerUnavailable(String),
    /// Our fault.
    ServerFail(String),
}

impl MethodError {
    /// The arguments of the `error` response.
    #[must_use]
    pub fn arguments(&self) -> Value {
        let (kind, description) = match self {
            Self::UnknownMethod => ("unknownMethod", None),
            Self::InvalidArguments(what) => ("invalidArguments", Some(what)),
            Self::InvalidResultReference(what) => ("invalidResultReference", Some(what)),
            Self::Forbidden(what) => ("forbidden", Some(what)),
            Self::AccountNotFound => ("accountNotFound", None),
            Self::AccountNotSupportedByMethod => ("accountNotSupportedByMethod", None),
            Self::FromAccountNotFound => ("fromAccountNotFound", None),
            Self::RequestTooLarge(limit) => {
                return json!({"type": "requestTooLarge", "description": limit});
            }
            Self::NotFound(what) => ("notFound", Some(what)),
            Self::Conflict(what) => ("conflict", Some(what)),
            Self::StateMismatch => ("stateMismatch", None),
            Self::UnsupportedFilter(what) => ("unsupportedFilter", Some(what)),
            Self::UnsupportedSort(what) => ("unsupportedSort", Some(what)),
            Self::AnchorNotFound => ("anchorNotFound", None),
            Self::CannotCalculateChanges => ("cannotCalculateChanges", None),
            Self::TooManyChanges => ("tooManyChanges", None),
            Self::UnknownDataType(what) => ("unknownDataType", Some(what)),
            Self::ServerUnavailable(what) => ("serverUnavailable", Some(what)),
            Self::ServerFail(what) => ("serverFail", Some(what)),
        };
        match description {
            Some(description) => json!({"type": kind, "description": description}),
            None => json!({"type": kind}),
        }
    }
}

impl MethodError {
    /// What is said of it; where that is nothing, its type.
    #[must_use]
    pub fn description(&self) -> String {
        let said = self.arguments();
        let text = said.get("description").or_else(|| said.get("type")).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    }
}

/// One object of a /set is refused (RFC 8620 §5.3, §5.4; RFC 8621).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetError {
    /// These properties are wrong.
    InvalidProperties(Vec<String>, String),
    /// The patch is none.
    InvalidPatch(String),
    /// It is not there.
    NotFound,
    /// There is one already, and only one can be.
    Singleton,
    /// The caller may not.
    Forbidden(String),
    /// The account would hold more than it may.
    OverQuota(String),
    /// It is larger than it may be.
    TooLarge(String),
    /// Too many of these in a time.
    RateLimit(String),
    /// It is changed and destroyed in one call.
    WillDestroy,
    /// There is one like it; its id.
    AlreadyExists(String),
    /// These blobs are not there.
    BlobNotFound(Vec<String>),
    /// Any other of its own kind, with what more its definition says.
    Of(&'static str, Map<String, Value>),
    /// Not done for a fault of ours, or for now.
    ServerFail(String),
}

impl SetError {
    /// One property is wrong.
    #[must_use]
    pub fn property(name: &str, description: impl Into<String>) -> Self {
        Self::InvalidProperties(vec![name.to_owned()], description.into())
    }

    /// One of its own kind.
    #[must_use]
    pub fn of(kind: &'static str, description: &str) -> Self {
        let mut more = Map::new();
        more.insert("description".into(), description.into());
        Self::Of(kind, more)
    }

    /// The `SetError` object.
    #[must_use]
    pub fn object(&self) -> Value {
        let said =
            |kind: &str, description: &str| json!({"type": kind, "description": description});
        match self {
            Self::InvalidProperties(properties, description) => {
                json!({"type": "invalidProperties", "properties": properties, "description": description})
            }
            Self::InvalidPatch(description) => said("invalidPatch", description),
            Self::NotFound => json!({"type": "notFound"}),
            Self::Singleton => json!({"type": "singleton"}),
            Self::Forbidden(description) => said("forbidden", description),
            Self::OverQuota(description) => said("overQuota", description),
            Self::TooLarge(description) => said("tooLarge", description),
            Self::RateLimit(description) => said("rateLimit", description),
            Self::WillDestroy => json!({"type": "willDestroy"}),
            Self::AlreadyExists(id) => json!({"type": "alreadyExists", "existingId": id}),
            Self::BlobNotFound(blobs) => json!({"type": "blobNotFound", "notFound": blobs}),
            Self::Of(kind, more) => {
                let mut object = more.clone();
                object.insert("type".into(), (*kind).into());
                Value::Object(object)
            }
            Self::ServerFail(description) => said("serverFail", description),
        }
    }
}
