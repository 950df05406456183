//! What a user is told first: what the server can do, with its limits as they are enforced, and which accounts are his
//! (RFC 8620 §2, RFC 8621 §1.3).
//!
//! Every capability of `dispatch` stands in it; one of which there is nothing more to say is an empty object.

use serde_json::{Value, json};

use super::blob;
use super::context::{Context, fail};
use super::dispatch::CAPABILITIES;
use crate::model::{AccountId, AccountRow, limits};
use crate::query::Collation;
use crate::wire::jmap::session::{Capability, Session, SessionAccount, path};
use crate::wire::jmap::{BLOB, CORE, MAIL, MethodError, SUBMISSION, WEBSOCKET};

/// How the service is reached, and what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached<'a> {
    /// What the session's URLs begin with.
    pub base: &'a str,
    /// The largest upload.
    pub max_upload: u64,
}

/// The session of who asks.
///
/// # Errors
/// Those of reading.
pub fn session(context: &Context, reached: Reached<'_>) -> Result<Session, MethodError> {
    let accounts = context.accounts()?;
    let username = match (&context.caller.account, &context.caller.user) {
        (Some(_), _) => accounts.first().map(|(_, row)| row.name.clone()).unwrap_or_default(),
        (None, user) => user.clone().unwrap_or_default(),
    };
    let accounts = accounts.into_iter().map(|(id, row)| SessionAccount {
        id: id.to_string(),
        name: row.name,
        is_personal: true,
        is_read_only: false,
        capabilities: CAPABILITIES.iter().filter_map(|name| of_account(name)).collect(),
    });
    Ok(Session {
        accounts: accounts.collect(),
        capabilities: CAPABILITIES.iter().map(|name| of_server(name, reached)).collect(),
        username,
        base: reached.base.to_owned(),
    })
}

impl Context {
    /// The accounts that are the caller's own.
    ///
    /// # Errors
    /// Those of reading.
    pub fn accounts(&self) -> Result<Vec<(AccountId, AccountRow)>, MethodError> {
        let found = match (&self.caller.account, &self.caller.user) {
            (Some(id), _) => self.directory.find(&id.to_string()).map(|found| found.into_iter().collect()),
            (None, Some(user)) => self.directory.of_unix_user(user),
            (None, None) => Ok(Vec::new()),
        };
        let mut found: Vec<_> = found.map_err(|error| fail(&error))?;
        found.sort_by_key(|(id, _)| *id);
        Ok(found)
    }
}

/// What is said of a capability for all accounts together.
fn of_server(name: &'static str, reached: Reached<'_>) -> Capability {
    let value = match name {
        CORE => json!({
            "maxSizeUpload": reached.max_upload,
            "maxConcurrentUpload": limits::CONCURRENT_UPLOADS,
            "maxSizeRequest": limits::REQUEST_OCTETS,
            "maxConcurrentRequests": limits::CONCURRENT_REQUESTS,
            "maxCallsInRequest": limits::REQUEST_CALLS,
            "maxObjectsInGet": limits::OBJECTS_IN_GET,
            "maxObjectsInSet": limits::OBJECTS_IN_SET,
            "collationAlgorithms": Collation::ALL.map(Collation::name),
        }),
        WEBSOCKET => {
            let base =
                reached.base.strip_prefix("http").map_or_else(|| reached.base.into(), |rest| format!("ws{rest}"));
            json!({"url": format!("{base}{}", path::SOCKET), "supportsPush": true})
        }
        _ => json!({}),
    };
    (name, value)
}

/// What Email/query can sort by (RFC 8621 §4.4.2).
const SORT_OPTIONS: [&str; 9] = [
    "receivedAt",
    "sentAt",
    "size",
    "from",
    "to",
    "subject",
    "hasKeyword",
    "allInThreadHaveKeyword",
    "someInThreadHaveKeyword",
];

/// What is said of a capability for one account; none for what is not of accounts.
fn of_account(name: &'static str) -> Option<Capability> {
    let value: Value = match name {
        CORE | WEBSOCKET => return None,
        MAIL => json!({
            "maxMailboxesPerEmail": null,
            "maxMailboxDepth": limits::MAILBOX_DEPTH,
            "maxSizeMailboxName": limits::MAILBOX_NAME_OCTETS,
            "maxSizeAttachmentsPerEmail": limits::ATTACHMENTS_OCTETS,
            "emailQuerySortOptions": SORT_OPTIONS,
            "mayCreateTopLevelMailbox": true,
        }),
        SUBMISSION => json!({
            "maxDelayedSend": limits::DELAYED_SEND.as_secs(),
            // RFC 3461; RFC 4865 §4: the longest that a submission may be held.
            "submissionExtensions": {"DSN": [], "FUTURERELEASE": [limits::DELAYED_SEND.as_secs().to_string()]},
        }),
        BLOB => json!({
            "maxSizeBlobSet": limits::UPLOAD_OCTETS,
            "maxDataSources": blob::DATA_SOURCES,
            "supportedTypeNames": blob::LOOKED_UP,
            "supportedDigestAlgorithms": blob::DIGESTS,
        }),
        _ => json!({}),
    };
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jmap::email::sort::sort;

    #[test]
    fn what_is_advertised_can_be_sorted_by() {
        for property in SORT_OPTIONS {
            for collation in Collation::ALL.map(Collation::name) {
                let mut comparator = json!({"property": property, "collation": collation});
                if property.ends_with("Keyword") {
                    comparator["keyword"] = "$seen".into();
                }
                assert!(sort(&json!([comparator])).is_ok(), "{property} {collation}");
            }
        }
    }
}
