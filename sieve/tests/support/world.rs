//! A host that answers from lists, and the input of a run, for tests.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use restante_sieve::ir::Location;
use restante_sieve::{
    AddressSpec, DupKey, Envelope, HostError, Identity, Input, MailboxRef, MailboxSelector,
    Outcome, RunLimits, Scan, Script, Trace, World, run,
};

use super::TestMessage;

/// A host with what a test gives it. By default: noon of 24 December 2026, UTC, an Inbox, and
/// nothing else.
#[derive(Debug, Clone)]
pub struct TestWorld {
    pub now: Timestamp,
    pub zone: TimeZone,
    pub mailboxes: Vec<MailboxRef>,
    /// Values by the name of the mailbox, empty for the server, and the name of the entry.
    pub metadata: HashMap<(String, String), String>,
    /// The values of each list, in lower case, by its name.
    pub lists: HashMap<String, Vec<String>>,
    pub seen: Vec<DupKey>,
    pub scripts: HashMap<(Location, String), Arc<Script>>,
    pub environment: HashMap<String, String>,
    pub scan: Scan,
    pub protected_fields: Vec<String>,
    /// Values by the URI of the method and the name of the capability in lower case. If there is
    /// none for `online` and a valid URI, it is `maybe`.
    pub notify_capabilities: HashMap<(String, String), String>,
    /// Whether every question fails that can fail.
    pub is_broken: bool,
}

impl Default for TestWorld {
    fn default() -> Self {
        let mut world = Self {
            now: "2026-12-24T12:00:00Z".parse().unwrap(),
            zone: TimeZone::UTC,
            mailboxes: Vec::new(),
            metadata: HashMap::new(),
            lists: HashMap::new(),
            seen: Vec::new(),
            scripts: HashMap::new(),
            environment: HashMap::new(),
            scan: Scan::default(),
            protected_fields: Vec::new(),
            notify_capabilities: HashMap::new(),
            is_broken: false,
        };
        world.add_mailbox("INBOX").is_inbox = true;
        world
    }
}

impl TestWorld {
    /// Adds a mailbox that accepts mail, and whose id is `id-` and its name.
    pub fn add_mailbox(&mut self, name: &str) -> &mut MailboxRef {
        self.mailboxes.push(MailboxRef {
            id: format!("id-{name}"),
            name: name.to_owned(),
            is_inbox: false,
            accepts_mail: true,
            special_uses: Vec::new(),
        });
        self.mailboxes.last_mut().unwrap()
    }

    /// Returns the default world with these mailboxes beside the Inbox.
    pub fn with_mailboxes(names: &[&str]) -> Self {
        let mut world = Self::default();
        for name in names {
            world.add_mailbox(name);
        }
        world
    }

    /// Fails if the store is broken.
    fn check(&self) -> Result<(), HostError> {
        match self.is_broken {
            true => Err(HostError { message: "the store is down".to_owned() }),
            false => Ok(()),
        }
    }
}

impl World for TestWorld {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn zone(&self) -> TimeZone {
        self.zone.clone()
    }

    fn mailbox(&self, selector: MailboxSelector<'_>) -> Result<Option<MailboxRef>, HostError> {
        self.check()?;
        let is_one = |mailbox: &&MailboxRef| match selector {
            MailboxSelector::Name(name) if mailbox.is_inbox => name.eq_ignore_ascii_case("INBOX"),
            MailboxSelector::Name(name) => mailbox.name == name,
            MailboxSelector::Id(id) => mailbox.id == id,
            MailboxSelector::SpecialUse(attribute) => {
                mailbox.special_uses.iter().any(|own| own.eq_ignore_ascii_case(attribute))
            }
        };
        Ok(self.mailboxes.iter().find(is_one).cloned())
    }

    fn metadata(
        &self,
        mailbox: Option<&MailboxRef>,
        entry: &str,
    ) -> Result<Option<String>, HostError> {
        self.check()?;
        let name = mailbox.map(|mailbox| mailbox.name.clone()).unwrap_or_default();
        Ok(self.metadata.get(&(name, entry.to_owned())).cloned())
    }

    fn is_protected_field(&self, name: &str) -> bool {
        self.protected_fields.iter().any(|one| one.eq_ignore_ascii_case(name))
    }

    fn has_list(&self, list: &str) -> Result<bool, HostError> {
        self.check()?;
        Ok(self.lists.contains_key(list))
    }

    fn in_list(&self, list: &str, value: &str) -> Result<bool, HostError> {
        self.check()?;
        let values = self.lists.get(list);
        Ok(values.is_some_and(|values| values.contains(&value.to_lowercase())))
    }

    fn duplicate_seen(&self, key: &DupKey) -> Result<bool, HostError> {
        self.check()?;
        Ok(self.seen.contains(key))
    }

    fn script(&self, location: Location, name: &str) -> Result<Option<Arc<Script>>, HostError> {
        self.check()?;
        Ok(self.scripts.get(&(location, name.to_owned())).cloned())
    }

    fn environment(&self, item: &str) -> Option<String> {
        self.environment.get(item).cloned()
    }

    fn scan(&self) -> Scan {
        self.scan
    }

    fn can_notify(&self, uri: &str) -> bool {
        let parts = uri.split_once(':');
        parts.is_some_and(|(scheme, rest)| scheme.eq_ignore_ascii_case("mailto") && is_mailto(rest))
    }

    fn has_notify_scheme(&self, scheme: &str) -> bool {
        scheme == "mailto"
    }

    fn notify_capability(&self, uri: &str, capability: &str) -> Option<String> {
        let capability = capability.to_lowercase();
        let is_default = self.can_notify(uri) && capability == "online";
        let known = self.notify_capabilities.get(&(uri.to_owned(), capability)).cloned();
        known.or_else(|| is_default.then(|| "maybe".to_owned()))
    }
}

/// Returns whether what follows `mailto:` in a URI is well-formed and names a recipient, in the
/// path or in a field `to` (RFC 6068 §2).
fn is_mailto(rest: &str) -> bool {
    let is_character = |c: char| c.is_ascii_graphic() && !"\"<>[\\]^`{|}#".contains(c);
    let is_escape = |after: &str| {
        after.len() >= 2 && after.bytes().take(2).all(|byte| byte.is_ascii_hexdigit())
    };
    let is_address =
        |text: &str| matches!(text.split_once('@'), Some((l, d)) if !l.is_empty() && !d.is_empty());
    let (to, query) = rest.split_once('?').unwrap_or((rest, ""));
    let has_recipient = match to {
        "" => query.split('&').any(|field| field.to_lowercase().starts_with("to=")),
        _ => to.split(',').all(is_address),
    };
    has_recipient && rest.chars().all(is_character) && rest.split('%').skip(1).all(is_escape)
}

/// A message with its envelope, the addresses and separators of the owner, and the limits of a run.
#[derive(Debug, Clone)]
pub struct TestInput {
    pub message: TestMessage,
    pub envelope: Envelope<'static>,
    pub addresses: Vec<AddressSpec>,
    pub separators: &'static str,
    pub limits: RunLimits,
}

impl TestInput {
    /// Makes the input for a message from `you@example.com` to `me@example.org`, with the default
    /// limits.
    pub fn new(message: impl Into<Vec<u8>>) -> Self {
        Self {
            message: TestMessage::new(message),
            envelope: Envelope {
                from: "you@example.com",
                to: "me@example.org",
                ..Envelope::default()
            },
            addresses: vec![AddressSpec::new("me", "example.org")],
            separators: "+",
            limits: RunLimits::default(),
        }
    }

    pub fn run(&self, script: &Script, world: &TestWorld) -> Outcome {
        self.run_traced(script, world, None)
    }

    pub fn run_traced(
        &self,
        script: &Script,
        world: &TestWorld,
        trace: Option<&mut dyn Trace>,
    ) -> Outcome {
        let identity = Identity {
            addresses: &self.addresses,
            display_name: Some("Me"),
            separators: self.separators,
        };
        let input = Input { message: &self.message, envelope: &self.envelope, identity: &identity };
        run(script, &input, world, &self.limits, trace)
    }
}
