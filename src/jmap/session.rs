//! Makes the Session resource (RFC 8620 §2, RFC 8621 §1.3).
//!
//! The state of a session is a digest of what can differ between callers or change over time, so it
//! can be returned with every response without making a session. If a new member of the session
//! depends on anything that `state_of` does not cover, add that there.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::blob;
use super::context::{Account, Context};
use super::uploads::UploadSettings;
use crate::filter;
use crate::model::{AccountId, AccountRow, Address, MailboxCounts, UtcMillis, limits};
use crate::query::Collation;
use crate::store::{Error, Snapshot};
use crate::wire::jmap::session::{Capability, SessionAccount, SessionObject, SessionState, path};
use crate::wire::jmap::{
    ADMIN, BLOB, CORE, MAIL, MDN, MethodError, PRINCIPALS, PRINCIPALS_OWNER, QUOTA, SIEVE,
    SUBMISSION, VACATION, WEBSOCKET,
};
use crate::wire::managesieve::IMPLEMENTATION;

pub const CAPABILITIES: &[&str] =
    &[CORE, MAIL, SUBMISSION, VACATION, MDN, QUOTA, BLOB, SIEVE, PRINCIPALS, WEBSOCKET, ADMIN];

/// The settings of the site that capabilities of accounts name.
#[derive(Debug, Clone, Default)]
pub(super) struct CapabilitySettings {
    uploads: Arc<UploadSettings>,
    filter: Arc<filter::Settings>,
}

impl From<&Context> for CapabilitySettings {
    fn from(context: &Context) -> Self {
        let (uploads, filter) = (Arc::clone(&context.uploads), Arc::clone(&context.filter));
        Self { uploads, filter }
    }
}

pub fn session(context: &Context) -> Result<SessionObject, MethodError> {
    let accounts = context.accessible_accounts()?;
    Ok(SessionObject {
        capabilities: server_capabilities(&context.base_url, &context.uploads),
        username: username(context, &accounts).to_owned(),
        base: context.base_url.to_string(),
        state: state_of(context, &accounts),
        accounts: accounts
            .iter()
            .map(|account| entry_with_unread(context, account))
            .collect::<Result<_, _>>()?,
    })
}

/// Returns the state of the caller's session, without making the session.
pub(super) fn session_state(context: &Context) -> Result<SessionState, MethodError> {
    Ok(state_of(context, &context.accessible_accounts()?))
}

/// Returns a number that changes whenever the session changes, except if only the unread totals of
/// inboxes do. A restart alone, without a new version or other settings, does not change the
/// number.
fn state_of(context: &Context, accounts: &[Account]) -> SessionState {
    let mut digest = blake3::Hasher::new();
    digest.update(&*CONSTANT_PART).update(&context.uploads.max.to_be_bytes());
    let mut add_text = |text: &str| {
        digest.update(&(text.len() as u64).to_be_bytes()).update(text.as_bytes());
    };
    add_text(&context.base_url);
    let filter = &context.filter;
    add_text(&filter.extension_names());
    for limit in [filter.max_script_bytes, filter.max_scripts, filter.max_redirects.into()] {
        add_text(&limit.to_string());
    }
    add_text(username(context, accounts));
    for account in accounts {
        add_text(&account.id.to_string());
        add_text(&account.guest.map(|user| user.to_string()).unwrap_or_default());
        add_text(&account.row.name);
    }
    let mut number = [0; 8];
    digest.finalize_xof().fill(&mut number);
    SessionState(u64::from_be_bytes(number))
}

/// A digest of what is the same in all sessions while the program runs: the digest of a session
/// with an account of the caller and a shared one, in which everything else is empty.
static CONSTANT_PART: LazyLock<[u8; 32]> = LazyLock::new(|| {
    let uploads = UploadSettings { max: 0, ..UploadSettings::default() };
    let settings = CapabilitySettings { uploads: Arc::new(uploads), filter: Arc::default() };
    let row = AccountRow::new(String::new(), Address::from_parts("", ""), UtcMillis(0));
    let own = Account { id: AccountId(1), row, guest: None };
    let shared = Account { id: AccountId(2), guest: Some(own.id), ..own.clone() };
    let session = SessionObject {
        capabilities: server_capabilities("", &settings.uploads),
        username: String::new(),
        base: String::new(),
        state: SessionState(0),
        accounts: [own, shared].iter().map(|account| entry(account, &settings)).collect(),
    };
    *blake3::hash(session.json().to_string().as_bytes()).as_bytes()
});

/// Returns the name of the account that logged in, or of the Unix user; empty if neither is known.
fn username<'a>(context: &'a Context, accounts: &'a [Account]) -> &'a str {
    match (&context.caller.account, &context.caller.user) {
        // The first account that `accessible_accounts` returns is the one that logged in.
        (Some(_), _) => accounts.first().map(|account| account.row.name.as_str()),
        (None, user) => user.as_deref(),
    }
    .unwrap_or_default()
}

/// Returns the entry of an account, with the unread totals of the inbox if the account is the
/// caller's own.
fn entry_with_unread(context: &Context, account: &Account) -> Result<SessionAccount, MethodError> {
    let mut entry = entry(account, &context.into());
    if account.guest.is_none() {
        let unread = unread(&context.store.snapshot(), account.id)?;
        entry.volatile = Some((ADMIN, unread));
    }
    Ok(entry)
}

/// Returns the unread totals of an account's inbox.
fn unread(snapshot: &Snapshot<'_>, account: AccountId) -> Result<Value, Error> {
    let counts = inbox_counts(snapshot, account)?;
    Ok(json!({
        "inboxUnreadEmails": counts.unread_emails,
        "inboxUnreadThreads": counts.unread_threads,
    }))
}

/// Returns the counts of an account's inbox; zeros if its row is lost.
pub(super) fn inbox_counts(
    snapshot: &Snapshot<'_>,
    account: AccountId,
) -> Result<MailboxCounts, Error> {
    let inbox = snapshot.account_state(account)?.inbox;
    Ok(snapshot.mailbox(account, inbox)?.unwrap_or_default().counts)
}

/// Returns the entry of an account, without unread totals. A shared account is not read-only,
/// because guests may choose their subscriptions.
pub(super) fn entry(account: &Account, settings: &CapabilitySettings) -> SessionAccount {
    SessionAccount {
        id: account.id.to_string(),
        name: account.row.name.clone(),
        is_personal: account.guest.is_none(),
        is_read_only: false,
        capabilities: ACCOUNT_CAPABILITIES
            .iter()
            .filter_map(|name| account_capability(name, account, settings))
            .collect(),
        volatile: None,
    }
}

fn server_capabilities(base: &str, uploads: &UploadSettings) -> Vec<Capability> {
    CAPABILITIES.iter().map(|name| (*name, server_capability(name, base, uploads))).collect()
}

fn server_capability(name: &str, base: &str, uploads: &UploadSettings) -> Value {
    match name {
        CORE => json!({
            "maxSizeUpload": uploads.max,
            "maxConcurrentUpload": limits::MAX_CONCURRENT_UPLOADS,
            "maxSizeRequest": limits::MAX_REQUEST_BYTES,
            "maxConcurrentRequests": limits::MAX_CONCURRENT_REQUESTS,
            "maxCallsInRequest": limits::MAX_REQUEST_CALLS,
            "maxObjectsInGet": limits::MAX_OBJECTS_IN_GET,
            "maxObjectsInSet": limits::MAX_OBJECTS_IN_SET,
            "collationAlgorithms": Collation::ALL.map(Collation::name),
        }),
        WEBSOCKET => {
            let base =
                base.strip_prefix("http").map_or_else(|| base.into(), |rest| format!("ws{rest}"));
            json!({"url": format!("{base}{}", path::SOCKET), "supportsPush": true})
        }
        SIEVE => json!({"implementation": IMPLEMENTATION}),
        _ => json!({}),
    }
}

/// The properties by which Email/query sorts (RFC 8621 §4.4.2).
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

static ACCOUNT_CAPABILITIES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| CAPABILITIES.iter().copied().chain([PRINCIPALS_OWNER]).collect());
/// The capabilities of an account that is shared with the caller.
const GUEST_CAPABILITIES: [&str; 3] = [MAIL, BLOB, PRINCIPALS_OWNER];

/// Returns `None` if the account does not have the capability.
fn account_capability(
    name: &'static str,
    account: &Account,
    settings: &CapabilitySettings,
) -> Option<Capability> {
    let user = account.guest.unwrap_or(account.id);
    let value: Value = match name {
        CORE | WEBSOCKET => return None,
        _ if account.guest.is_some() && !GUEST_CAPABILITIES.contains(&name) => return None,
        // RFC 9670 §1.5: each user finds all principals in their own account.
        PRINCIPALS => json!({"currentUserPrincipalId": account.id.to_string()}),
        PRINCIPALS_OWNER => {
            json!({
                "accountIdForPrincipal": user.to_string(),
                "principalId": account.id.to_string(),
            })
        }
        MAIL => json!({
            "maxMailboxesPerEmail": null,
            "maxMailboxDepth": limits::MAX_MAILBOX_DEPTH,
            "maxSizeMailboxName": limits::MAX_MAILBOX_NAME_BYTES,
            "maxSizeAttachmentsPerEmail": limits::MAX_ATTACHMENTS_BYTES,
            "emailQuerySortOptions": SORT_OPTIONS,
            "mayCreateTopLevelMailbox": account.guest.is_none(),
        }),
        SUBMISSION => json!({
            "maxDelayedSend": limits::MAX_DELAYED_SEND.as_secs(),
            // DSN is RFC 3461. FUTURERELEASE says for how many seconds a submission may be held
            // (RFC 4865 §4).
            "submissionExtensions": {
                "DSN": [],
                "FUTURERELEASE": [limits::MAX_DELAYED_SEND.as_secs().to_string()],
            },
        }),
        BLOB => json!({
            "maxSizeBlobSet": blob::max_blob_set(settings.uploads.max),
            "maxDataSources": blob::MAX_DATA_SOURCES,
            "supportedTypeNames": blob::LOOKUP_TYPES,
            "supportedDigestAlgorithms": blob::digest_algorithms(),
        }),
        SIEVE => script_capability(&settings.filter),
        _ => json!({}),
    };
    Some((name, value))
}

/// Returns the capability of an account for Sieve scripts (RFC 9661 §1.2.1).
fn script_capability(settings: &filter::Settings) -> Value {
    let words = |text: String| text.split(' ').map(Value::from).collect::<Value>();
    json!({
        // In bytes: a character has up to four. RFC 9661 requires at least 512, for the names of
        // 128 characters that ManageSieve allows.
        "maxSizeScriptName": limits::MAX_SCRIPT_NAME_CHARS * 4,
        "maxSizeScript": settings.max_script_bytes,
        "maxNumberScripts": settings.max_scripts,
        "maxNumberRedirects": settings.max_redirects,
        "sieveExtensions": words(settings.extension_names()),
        "notificationMethods": settings.notification_schemes().map(words),
        // No site offers `extlists`.
        "externalLists": null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jmap::email::search::sort::parse_sort;

    #[test]
    fn every_advertised_sort_property_is_accepted() {
        for property in SORT_OPTIONS {
            for collation in Collation::ALL.map(Collation::name) {
                let mut comparator = json!({"property": property, "collation": collation});
                if property.ends_with("Keyword") {
                    comparator["keyword"] = "$seen".into();
                }
                assert!(parse_sort(&json!([comparator])).is_ok(), "{property} {collation}");
            }
        }
    }
}
