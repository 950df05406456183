//! The Session resource (RFC 8620 §2), as JSON; what stands in it is `jmap::session`'s to say.

use serde_json::{Map, Value, json};

/// A capability and what is said of it.
pub type Capability = (&'static str, Value);

/// Where each thing of the service is, below the base URL. Variables of a URI template (RFC 6570, level 1) in braces.
pub mod path {
    /// The session, where clients look for it (RFC 8620 §2.2).
    pub const WELL_KNOWN: &str = "/.well-known/jmap";
    /// The session.
    pub const SESSION: &str = "/jmap/session";
    /// Requests (RFC 8620 §3.1).
    pub const API: &str = "/jmap";
    /// Uploads (RFC 8620 §6.1).
    pub const UPLOAD: &str = "/jmap/upload/{accountId}/";
    /// Downloads (RFC 8620 §6.2).
    pub const DOWNLOAD: &str = "/jmap/download/{accountId}/{blobId}/{name}";
    /// The same where a client has no name for the file.
    pub const DOWNLOAD_UNNAMED: &str = "/jmap/download/{accountId}/{blobId}/";
    /// Events (RFC 8620 §7.3).
    pub const EVENTS: &str = "/jmap/events";
    /// The WebSocket (RFC 8887).
    pub const SOCKET: &str = "/jmap/ws";
}

/// An account in a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionAccount {
    /// Its id.
    pub id: String,
    /// What its owner calls it.
    pub name: String,
    /// Whether it is the user's own.
    pub is_personal: bool,
    /// Whether nothing in it can be changed.
    pub is_read_only: bool,
    /// What can be done with it.
    pub capabilities: Vec<Capability>,
    /// More members of one of its capabilities, which change as mail comes: they are as they were when the session was
    /// asked for, and no part of its state.
    pub passing: Option<Capability>,
}

impl SessionAccount {
    /// As JSON (RFC 8620 §2 `Account`).
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

/// A session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionObject {
    /// What the server can do.
    pub capabilities: Vec<Capability>,
    /// The accounts that the user may use, his own first.
    pub accounts: Vec<SessionAccount>,
    /// By which name he logged in; may be empty.
    pub username: String,
    /// What the URLs begin with: scheme, host and perhaps a path, no slash at the end.
    pub base: String,
}

impl SessionObject {
    /// All but `state`.
    fn rest(&self) -> Map<String, Value> {
        let accounts = self.accounts.iter().map(|account| (account.id.clone(), account.json()));
        let mut primary = Map::new();
        for account in self.accounts.iter().filter(|account| account.is_personal) {
            for (name, _) in &account.capabilities {
                primary.entry(*name).or_insert_with(|| account.id.clone().into());
            }
        }
        let at = |path: &str| Value::from(format!("{}{path}", self.base));
        Map::from_iter([
            ("capabilities".to_owned(), Value::Object(objects(&self.capabilities))),
            ("accounts".to_owned(), accounts.collect::<Map<String, Value>>().into()),
            ("primaryAccounts".to_owned(), primary.into()),
            ("username".to_owned(), self.username.clone().into()),
            ("apiUrl".to_owned(), at(path::API)),
            ("downloadUrl".to_owned(), at(&format!("{}?accept={{type}}", path::DOWNLOAD))),
            ("uploadUrl".to_owned(), at(path::UPLOAD)),
            (
                "eventSourceUrl".to_owned(),
                at(&format!("{}?types={{types}}&closeafter={{closeafter}}&ping={{ping}}", path::EVENTS)),
            ),
        ])
    }

    /// The state: another whenever anything else of it is.
    #[must_use]
    pub fn state(&self) -> String {
        state_of(&self.rest())
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut whole = self.rest();
        let state = state_of(&whole);
        whole.insert("state".into(), state.into());
        for account in &self.accounts {
            let Some((name, Value::Object(passing))) = &account.passing else { continue };
            let known = whole.get_mut("accounts").and_then(|accounts| accounts.get_mut(&account.id));
            let known = known.and_then(|account| account.get_mut("accountCapabilities")?.get_mut(*name));
            if let Some(Value::Object(members)) = known {
                members.extend(passing.clone());
            }
        }
        Value::Object(whole)
    }
}

fn state_of(rest: &Map<String, Value>) -> String {
    let digest = blake3::hash(Value::Object(rest.clone()).to_string().as_bytes());
    digest.to_hex().chars().take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_properties_of_rfc_8620_and_a_state_of_them() {
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
            accounts: vec![account("b", true, "urn:x"), account("a", true, "urn:x"), account("c", false, "urn:y")],
            username: "ann@example.org".into(),
            base: "https://mail.example.org".into(),
        };
        let whole = session.json();
        for name in ["capabilities", "accounts", "primaryAccounts", "username", "apiUrl", "downloadUrl", "uploadUrl"] {
            assert!(whole.get(name).is_some(), "{name}");
        }
        // The first that is his own; none for what only others' accounts can (RFC 8620 §2).
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
        assert_eq!(whole["state"], session.state());
        let other = SessionObject { username: "bob".into(), ..session.clone() };
        assert_ne!(other.state(), session.state());
        // What passes is told, of the capability that it belongs to, and changes no state.
        let mut counted = session.clone();
        counted.accounts[1].passing = Some(("urn:x", json!({"unread": 2})));
        counted.accounts[2].passing = Some(("urn:x", json!({"unread": 2})));
        let told = counted.json();
        assert_eq!(told["accounts"]["a"]["accountCapabilities"], json!({"urn:x": {"a": 1, "unread": 2}}));
        assert_eq!(
            (&told["accounts"]["b"], &told["accounts"]["c"]),
            (&whole["accounts"]["b"], &whole["accounts"]["c"])
        );
        assert_eq!(told["state"], whole["state"]);
    }
}
