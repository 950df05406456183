//! Answers the engine's questions about an account from a snapshot of the store.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use restante_sieve::ir::Location;
use restante_sieve::{DupKey, HostError, MailboxRef, MailboxSelector, Scan, Script, World};

use super::cache::{CompiledScript, ScriptCache};
use super::mailto;
use super::request::FilterRequest;
use crate::model::hex::hex_byte;
use crate::model::mailbox::Right;
use crate::model::{BlobHash, Mailbox, MailboxUid, ObjectId, Role, clock};
use crate::store::Error;

/// The mailboxes of an account, by uid.
type AccountMailboxes = BTreeMap<MailboxUid, Mailbox>;

pub(super) struct AccountWorld<'a> {
    request: &'a FilterRequest<'a>,
    cache: &'a ScriptCache,
    scan: Scan,
    mailboxes: OnceCell<AccountMailboxes>,
    /// The scripts of the account that were included, for their lines and their rules.
    pub(super) included: RefCell<BTreeMap<String, IncludedScript>>,
}

pub(super) struct IncludedScript {
    pub(super) id: ObjectId,
    pub(super) source: BlobHash,
    pub(super) compiled: Arc<CompiledScript>,
}

impl<'a> AccountWorld<'a> {
    pub(super) fn new(request: &'a FilterRequest<'a>, cache: &'a ScriptCache) -> Self {
        let spam_percent =
            request.settings.spam.as_ref().and_then(|spam| spam.percent(request.header));
        Self {
            request,
            cache,
            scan: Scan { spam_percent, virus: None },
            mailboxes: OnceCell::new(),
            included: RefCell::default(),
        }
    }

    fn mailboxes(&self) -> Result<&AccountMailboxes, HostError> {
        if let Some(known) = self.mailboxes.get() {
            return Ok(known);
        }
        let request = self.request;
        let read = request.snapshot.mailboxes(request.account).map_err(|error| failure(&error))?;
        Ok(self.mailboxes.get_or_init(|| read.into_iter().collect()))
    }
}

/// Returns the names of a mailbox and of those above it, with `/` between them.
fn path(all: &AccountMailboxes, mailbox: &Mailbox) -> String {
    let mut names = vec![mailbox.name.as_str()];
    let (mut above, mut seen) = (mailbox.parent, BTreeSet::new());
    while let Some(parent) = above.filter(|uid| seen.insert(*uid)).and_then(|uid| all.get(&uid)) {
        names.push(&parent.name);
        above = parent.parent;
    }
    names.reverse();
    names.join("/")
}

fn failure(error: &Error) -> HostError {
    HostError { message: format!("the store cannot be read: {error}") }
}

impl World for AccountWorld<'_> {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.request.now.0).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn zone(&self) -> TimeZone {
        let name = self.request.identity.zone.as_deref();
        name.and_then(clock::zone).unwrap_or_else(TimeZone::system)
    }

    fn mailbox(&self, selector: MailboxSelector<'_>) -> Result<Option<MailboxRef>, HostError> {
        let all = self.mailboxes()?;
        let is_inbox = |mailbox: &Mailbox| mailbox.role == Some(Role::Inbox);
        let found = match selector {
            MailboxSelector::Name(name) if name.eq_ignore_ascii_case("inbox") => {
                all.iter().find(|(_, mailbox)| is_inbox(mailbox))
            }
            MailboxSelector::Name(name) => {
                all.iter().find(|(_, mailbox)| path(all, mailbox) == name)
            }
            MailboxSelector::Id(id) => {
                let uid = id.parse::<MailboxUid>().ok();
                uid.and_then(|uid| all.get_key_value(&uid))
            }
            MailboxSelector::SpecialUse(attribute) => {
                let role = attribute.strip_prefix('\\').map(str::to_ascii_lowercase);
                let role = role.and_then(|name| Role::from_name(&name));
                role.and_then(|role| all.iter().find(|(_, one)| one.role == Some(role)))
            }
        };
        Ok(found.map(|(uid, mailbox)| MailboxRef {
            id: uid.to_string(),
            name: if is_inbox(mailbox) { "INBOX".into() } else { path(all, mailbox) },
            is_inbox: is_inbox(mailbox),
            accepts_mail: mailbox.rights & Right::AddItems.bit() != 0,
            special_uses: mailbox.role.iter().map(|role| special_use(*role)).collect(),
        }))
    }

    fn duplicate_seen(&self, key: &DupKey) -> Result<bool, HostError> {
        let request = self.request;
        let Some(hash) = duplicate_hash(key).filter(|_| !request.is_stored) else {
            return Ok(false);
        };
        request
            .snapshot
            .is_duplicate(request.account, &hash, request.now)
            .map_err(|error| failure(&error))
    }

    fn script(&self, location: Location, name: &str) -> Result<Option<Arc<Script>>, HostError> {
        if location == Location::Global {
            return Ok(None);
        }
        let (snapshot, account) = (self.request.snapshot, self.request.account);
        let found = snapshot.script_by_name(account, name).map_err(|error| failure(&error))?;
        let Some((id, row)) = found else { return Ok(None) };
        let source = || Ok(snapshot.script_source(account, id)?.map(Arc::from));
        let compiled = self
            .cache
            .script(self.request.settings, row.hash, source)
            .map_err(|error: Error| failure(&error))?;
        let Some(compiled) = compiled else { return Ok(None) };
        let script = compiled.script.as_ref().ok().map(Arc::clone);
        let included = IncludedScript { id, source: row.hash, compiled };
        self.included.borrow_mut().insert(name.to_owned(), included);
        Ok(script)
    }

    fn environment(&self, item: &str) -> Option<String> {
        let client = &self.request.envelope.client;
        let host = self.request.hostname;
        match item {
            "domain" => Some(host.split_once('.').map_or(host, |(_, domain)| domain).to_owned()),
            "host" => Some(host.to_owned()),
            // RFC 5183 §4.1: the delivery agent, or the message store.
            "location" => Some(if self.request.is_stored { "MS" } else { "MDA" }.to_owned()),
            "name" => Some("Restante".to_owned()),
            "phase" => Some(if self.request.is_stored { "post" } else { "during" }.to_owned()),
            "remote-host" => client.name.clone(),
            "remote-ip" => client.addr.clone(),
            "version" => Some(env!("CARGO_PKG_VERSION").to_owned()),
            _ => None,
        }
    }

    fn scan(&self) -> Scan {
        self.scan
    }

    fn can_notify(&self, uri: &str) -> bool {
        mailto::parse(uri).is_some()
    }
}

/// Returns the special use of a role, such as `\Junk` (RFC 6154 §2).
fn special_use(role: Role) -> String {
    let name = role.name();
    let first = name.chars().next().map(|first| first.to_ascii_uppercase());
    first.into_iter().fold(String::from("\\"), |mut out, first| {
        out.push(first);
        out + name.get(1..).unwrap_or_default()
    })
}

/// Returns the hash of a key of the `duplicate` test, under which the store remembers it.
pub(super) fn duplicate_hash(key: &DupKey) -> Option<[u8; 32]> {
    let digits = key.as_str().as_bytes();
    let mut hash = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
        *byte = hex_byte(pair.try_into().ok()?)?;
    }
    Some(hash)
}
