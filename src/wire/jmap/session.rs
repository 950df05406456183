//! Writes the Session resource (RFC 8620 §2) as JSON, and names the paths of its URLs.
//! `jmap::session` determines its contents.

use std::fmt;

use serde_json::{Map, Value, json};

pub type Capability = (&'static str, Value);

/// The paths of the service below the base URL. Variables of a URI template (RFC 6570, level 1) are
/// in braces.
pub mod path {
    /// RFC 8620 §2.2.
    pub const WELL_KNOWN: &str = "/.well-known/jmap";
    pub const SESSION: &str = "/jmap/session";
    /// RFC 8620 §3.1.
    pub const API: &str = "/jmap";
    /// RFC 8620 §6.1.
    pub const UPLOAD: &str = "/jmap/upload/{accountId}/";
    /// RFC 8620 §6.2.
    pub const DOWNLOAD: &str = "/jmap/download/{accountId}/{blobId}/{name}";
    /// Without a file name.
    pub const DOWNLOAD_UNNAMED: &str = "/jmap/download/{accountId}/{blobId}/";
    /// RFC 8620 §7.3.
    pub const EVENTS: &str = "/jmap/events";
    /// The URL of the WebSocket capability (RFC 8887).
    pub const SOCKET: &str = "/jmap/ws";
}

#[derive(Debug, Clone, PartialEq)]
pub struct SessionAccount {
    pub id: String,
    pub name: String,
    pub is_personal: bool,
    pub is_read_only: bool,
    pub capabilities: Vec<Capability>,
    /// More members of one capability, such as counts; ignored if the account does not have that
    /// capability. They are not part of the session's state, because they change with every
    /// message.
    pub volatile: Option<Capability>,
}

impl SessionAccount {
    /// Returns the account object without the members in `volatile`.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "name": self.name, "isPersonal": self.is_personal, "isReadOnly": self.is_read_only,
            "accountCapabilities": objects(&self.capabilities),
        })
    }
}

fn objects(capabilities: &[Capability]) -> Map<String, Value> {
    capabilities.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// RFC 8620 §2 `state`, §3.4 `sessionState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionState(pub u64);

impl fmt::Display for SessionState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct SessionObject {
    pub capabilities: Vec<Capability>,
    /// The user's own first.
    pub accounts: Vec<SessionAccount>,
    /// The account that logged in, or the Unix user; may be empty.
    pub username: String,
    pub state: SessionState,
    /// Scheme, host and perhaps a path, without a slash at the end.
    pub base: String,
}

impl SessionObject {
    /// Returns the whole Session object, with the members in `volatile` of each account.
    #[must_use]
    pub fn json(&self) -> Value {
        let accounts = self.accounts.iter().map(|account| (account.id.clone(), account.json()));
        let mut primary = Map::new();
        for account in self.accounts.iter().filter(|account| account.is_personal) {
            for (name, _) in &account.capabilities {
                primary.entry(*name).or_insert_with(|| account.id.clone().into());
            }
        }
        let at = |path: &str| Value::from(format!("{}{path}", self.base));
        let mut session = json!({
            "capabilities": objects(&self.capabilities),
            "accounts": accounts.collect::<Map<String, Value>>(),
            "primaryAccounts": primary,
            "username": self.username,
            "apiUrl": at(path::API),
            "downloadUrl": at(&format!("{}?accept={{type}}", path::DOWNLOAD)),
            "uploadUrl": at(path::UPLOAD),
            "eventSourceUrl": at(&format!(
                "{}?types={{types}}&closeafter={{closeafter}}&ping={{ping}}",
                path::EVENTS
            )),
            "state": self.state.to_string(),
        });
        for account in &self.accounts {
            let Some((name, Value::Object(volatile))) = &account.volatile else { continue };
            let object =
                session.get_mut("accounts").and_then(|accounts| accounts.get_mut(&account.id));
            let capability =
                object.and_then(|account| account.get_mut("accountCapabilities")?.get_mut(*name));
            if let Some(Value::Object(members)) = capability {
                members.extend(volatile.clone());
            }
        }
        session
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_all_properties_of_rfc_8620() {
        let account = |id: &str, is_personal, name: &'static str| SessionAccount {
            id: id.into(),
            name: id.to_uppercase(),
            is_personal,
            is_read_only: false,
            capabilities: vec![(name, json!({"a": 1}))],
            volatile: None,
        };
        let session = SessionObject {
            capabilities: vec![("urn:x", json!({"most": 3}))],
            accounts: vec![
                account("b", true, "urn:x"),
                account("a", true, "urn:x"),
                account("c", false, "urn:y"),
            ],
            username: "ann@example.org".into(),
            base: "https://mail.example.org".into(),
            state: SessionState(0x1f),
        };
        let written = session.json();
        for name in [
            "capabilities",
            "accounts",
            "primaryAccounts",
            "username",
            "apiUrl",
            "downloadUrl",
            "uploadUrl",
        ] {
            assert!(written.get(name).is_some(), "{name}");
        }
        // The primary account is the first of the user's own. A capability that only other accounts
        // have gets none (RFC 8620 §2).
        assert_eq!(written["primaryAccounts"], json!({"urn:x": "b"}));
        assert_eq!(written["accounts"]["c"]["isPersonal"], false);
        let contains = |url: &str, names: &[&str]| {
            let url = written[url].as_str().unwrap();
            url.starts_with("https://mail.example.org/")
                && names.iter().all(|name| url.contains(&format!("{{{name}}}")))
        };
        assert!(contains("downloadUrl", &["accountId", "blobId", "type", "name"]));
        assert!(contains("uploadUrl", &["accountId"]));
        assert!(contains("eventSourceUrl", &["types", "closeafter", "ping"]));
        assert_eq!(written["state"], "000000000000001f");
        let mut counted = session.clone();
        counted.accounts[1].volatile = Some(("urn:x", json!({"unread": 2})));
        counted.accounts[2].volatile = Some(("urn:x", json!({"unread": 2})));
        let with_counts = counted.json();
        assert_eq!(
            with_counts["accounts"]["a"]["accountCapabilities"],
            json!({"urn:x": {"a": 1, "unread": 2}})
        );
        assert_eq!(
            (&with_counts["accounts"]["b"], &with_counts["accounts"]["c"]),
            (&written["accounts"]["b"], &written["accounts"]["c"])
        );
    }
}
