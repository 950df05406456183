//! Writes the Session resource (RFC 8620 §2) as JSON. `jmap::session` determines its contents.

use std::fmt;

use serde_json::{Map, Value, json};

/// The name of a capability and its JSON object.
pub type Capability = (&'static str, Value);

/// The paths of the service below the base URL. Variables of a URI template (RFC 6570, level 1) are
/// in braces.
pub mod path {
    /// The session at its well-known path (RFC 8620 §2.2).
    pub const WELL_KNOWN: &str = "/.well-known/jmap";
    pub const SESSION: &str = "/jmap/session";
    /// Requests (RFC 8620 §3.1).
    pub const API: &str = "/jmap";
    /// Uploads (RFC 8620 §6.1).
    pub const UPLOAD: &str = "/jmap/upload/{accountId}/";
    /// Downloads (RFC 8620 §6.2).
    pub const DOWNLOAD: &str = "/jmap/download/{accountId}/{blobId}/{name}";
    /// Downloads without a file name.
    pub const DOWNLOAD_UNNAMED: &str = "/jmap/download/{accountId}/{blobId}/";
    /// Events (RFC 8620 §7.3).
    pub const EVENTS: &str = "/jmap/events";
    /// The WebSocket (RFC 8887).
    pub const SOCKET: &str = "/jmap/ws";
}

/// An account in a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionAccount {
    pub id: String,
    /// The name that the user sees.
    pub name: String,
    /// Whether the account is the user's own.
    pub is_personal: bool,
    /// Whether the user cannot change anything in the account.
    pub is_read_only: bool,
    pub capabilities: Vec<Capability>,
    /// More members of one capability, such as counts, which are not part of the session's state
    /// because they change with every message.
    pub passing: Option<Capability>,
}

impl SessionAccount {
    /// Returns the `Account` object (RFC 8620 §2).
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "name": self.name, "isPersonal": self.is_personal, "isReadOnly": self.is_read_only,
            "accountCapabilities": objects(&self.capabilities),
        })
    }
}

fn objects(all: &[Capability]) -> Map<String, Value> {
    all.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// The state of a session (RFC 8620 §2 `state`, §3.4 `sessionState`), shown as 16 hexadecimal
/// digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionState(pub u64);

impl fmt::Display for SessionState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct SessionObject {
    /// The capabilities of the server.
    pub capabilities: Vec<Capability>,
    /// The accounts that the user may use, the user's own first.
    pub accounts: Vec<SessionAccount>,
    /// The name by which the user logged in; may be empty.
    pub username: String,
    pub state: SessionState,
    /// The base of all URLs: scheme, host and perhaps a path, without a slash at the end.
    pub base: String,
}

impl SessionObject {
    /// Returns the session as JSON (RFC 8620 §2).
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
        let mut whole = json!({
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
            let Some((name, Value::Object(passing))) = &account.passing else { continue };
            let known =
                whole.get_mut("accounts").and_then(|accounts| accounts.get_mut(&account.id));
            let known =
                known.and_then(|account| account.get_mut("accountCapabilities")?.get_mut(*name));
            if let Some(Value::Object(members)) = known {
                members.extend(passing.clone());
            }
        }
        whole
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
            passing: None,
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
        let whole = session.json();
        for name in [
            "capabilities",
            "accounts",
            "primaryAccounts",
            "username",
            "apiUrl",
            "downloadUrl",
            "uploadUrl",
        ] {
            assert!(whole.get(name).is_some(), "{name}");
        }
        // The first of the user's own accounts; none for what only others' accounts can (RFC 8620
        // §2).
        assert_eq!(whole["primaryAccounts"], json!({"urn:x": "b"}));
        assert_eq!(whole["accounts"]["c"]["isPersonal"], false);
        let contains = |url: &str, names: &[&str]| {
            let url = whole[url].as_str().unwrap();
            url.starts_with("https://mail.example.org/")
                && names.iter().all(|name| url.contains(&format!("{{{name}}}")))
        };
        assert!(contains("downloadUrl", &["accountId", "blobId", "type", "name"]));
        assert!(contains("uploadUrl", &["accountId"]));
        assert!(contains("eventSourceUrl", &["types", "closeafter", "ping"]));
        assert_eq!(whole["state"], "000000000000001f");
        // Members of `passing` are added to the capability that they belong to.
        let mut counted = session.clone();
        counted.accounts[1].passing = Some(("urn:x", json!({"unread": 2})));
        counted.accounts[2].passing = Some(("urn:x", json!({"unread": 2})));
        let told = counted.json();
        assert_eq!(
            told["accounts"]["a"]["accountCapabilities"],
            json!({"urn:x": {"a": 1, "unread": 2}})
        );
        assert_eq!(
            (&told["accounts"]["b"], &told["accounts"]["c"]),
            (&whole["accounts"]["b"], &whole["accounts"]["c"])
        );
    }
}
