//! What a user is told first: what the server can do, with its limits as they are enforced, and which accounts are his
//! (RFC 8620 §2, RFC 8621 §1.3).
//!
//! Every capability of `dispatch` stands in it; one of which there is nothing more to say is an empty object.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::blob::{self, UploadSettings};
use super::context::{Account, Context};
use super::dispatch::CAPABILITIES;
use crate::model::{AccountId, MailboxCounts, limits};
use crate::query::Collation;
use crate::store::{Error, Snapshot};
use crate::wire::jmap::session::{Capability, SessionAccount, SessionObject, path};
use crate::wire::jmap::{ADMIN, BLOB, CORE, MAIL, MethodError, PRINCIPALS, PRINCIPALS_OWNER, SUBMISSION, WEBSOCKET};

/// How the service is reached, and what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceEndpoint<'a> {
    /// What the session's URLs begin with.
    pub base: &'a str,
    /// The largest upload.
    pub max_upload: u64,
}

/// The session of who asks.
///
/// # Errors
/// Those of reading.
pub fn session(context: &Context, reached: ServiceEndpoint<'_>) -> Result<SessionObject, MethodError> {
    let accounts = context.reachable()?;
    let username = match (&context.caller.account, &context.caller.user) {
        (Some(_), _) => accounts.first().map(|account| account.row.name.clone()).unwrap_or_default(),
        (None, user) => user.clone().unwrap_or_default(),
    };
    Ok(SessionObject {
        accounts: accounts.iter().map(|account| counted(context, account)).collect::<Result<_, _>>()?,
        capabilities: CAPABILITIES.iter().map(|name| of_server(name, reached)).collect(),
        username,
        base: reached.base.to_owned(),
    })
}

/// An account with the unread totals of its inbox, where it is the caller's own.
fn counted(context: &Context, account: &Account) -> Result<SessionAccount, MethodError> {
    let mut entry = entry(account, &context.uploads);
    if account.guest.is_none() {
        let unread = unread(&context.store.snapshot(), account.id)?;
        entry.passing = Some((ADMIN, unread));
    }
    Ok(entry)
}

/// How much is unread in the inbox of an account: what a client shows beside the account's name.
///
/// # Errors
/// Those of reading.
fn unread(snapshot: &Snapshot<'_>, account: AccountId) -> Result<Value, Error> {
    let counts = inbox_counts(snapshot, account)?;
    Ok(json!({"inboxUnreadEmails": counts.unread_emails, "inboxUnreadThreads": counts.unread_threads}))
}

/// The counts of an account's inbox.
pub(super) fn inbox_counts(snapshot: &Snapshot<'_>, account: AccountId) -> Result<MailboxCounts, Error> {
    let inbox = snapshot.account_state(account)?.inbox;
    Ok(snapshot.mailbox(account, inbox)?.unwrap_or_default().counts)
}

/// An account as the session has it. In one that is shared, a guest may always choose what he is subscribed to, so it is not
/// read-only; what else he may not do in it is said of each mailbox.
pub(super) fn entry(account: &Account, uploads: &UploadSettings) -> SessionAccount {
    SessionAccount {
        id: account.id.to_string(),
        name: account.row.name.clone(),
        is_personal: account.guest.is_none(),
        is_read_only: false,
        capabilities: ACCOUNT_CAPABILITIES.iter().filter_map(|name| of_account(name, account, uploads)).collect(),
        passing: None,
    }
}

/// What is said of a capability for all accounts together.
fn of_server(name: &'static str, reached: ServiceEndpoint<'_>) -> Capability {
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

/// What accounts can have: what the server can, and whose they are.
static ACCOUNT_CAPABILITIES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| CAPABILITIES.iter().copied().chain([PRINCIPALS_OWNER]).collect());
/// What a guest may use in an account.
const SHARED: [&str; 3] = [MAIL, BLOB, PRINCIPALS_OWNER];

/// What is said of a capability for one account; none for what is not of accounts.
fn of_account(name: &'static str, account: &Account, uploads: &UploadSettings) -> Option<Capability> {
    let user = account.guest.unwrap_or(account.id);
    let value: Value = match name {
        CORE | WEBSOCKET => return None,
        // To a guest there is nothing else in an account than mail.
        _ if account.guest.is_some() && !SHARED.contains(&name) => return None,
        // RFC 9670 §1.5: whom there is stands in each user's own account.
        PRINCIPALS => json!({"currentUserPrincipalId": account.id.to_string()}),
        PRINCIPALS_OWNER => json!({"accountIdForPrincipal": user.to_string(), "principalId": account.id.to_string()}),
        MAIL => json!({
            "maxMailboxesPerEmail": null,
            "maxMailboxDepth": limits::MAILBOX_DEPTH,
            "maxSizeMailboxName": limits::MAILBOX_NAME_OCTETS,
            "maxSizeAttachmentsPerEmail": limits::ATTACHMENTS_OCTETS,
            "emailQuerySortOptions": SORT_OPTIONS,
            "mayCreateTopLevelMailbox": account.guest.is_none(),
        }),
        SUBMISSION => json!({
            "maxDelayedSend": limits::DELAYED_SEND.as_secs(),
            // RFC 3461; RFC 4865 §4: the longest that a submission may be held.
            "submissionExtensions": {"DSN": [], "FUTURERELEASE": [limits::DELAYED_SEND.as_secs().to_string()]},
        }),
        BLOB => json!({
            "maxSizeBlobSet": blob::max_blob_set(uploads.max),
            "maxDataSources": blob::DATA_SOURCES,
            "supportedTypeNames": blob::LOOKED_UP,
            "supportedDigestAlgorithms": blob::digests(),
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
