//! Answers the engine's questions about an account from a snapshot of the store.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use restante_sieve::ir::Location;
use restante_sieve::{
    AddressSpec, DupKey, HostError, MailboxRef, MailboxSelector, PatternCache, Scan, Script, World,
};

use super::cache::{CompiledScript, ScriptCache};
use super::convert::envelope_address;
use super::mailto;
use super::request::FilterRequest;
use super::settings::is_delivery_field;
use crate::model::hex::hex_byte;
use crate::model::mailbox::Right;
use crate::model::{BlobHash, Identity, Mailbox, MailboxUid, ObjectId, Role, UtcMillis, clock};
use crate::store::Error;

/// The mailboxes of an account, by uid.
pub(super) type MailboxesByUid = BTreeMap<MailboxUid, Mailbox>;

/// The mailboxes of an account, by uid and by path.
pub(super) struct AccountMailboxes {
    by_uid: MailboxesByUid,
    /// By path: the names of the mailbox and of those above it, with `/` between them. A mailbox
    /// below the Inbox has a second path, with `INBOX` in place of the Inbox's name, unless that is
    /// the first path of another mailbox.
    by_path: HashMap<String, MailboxUid>,
}

impl AccountMailboxes {
    pub(super) fn new(by_uid: MailboxesByUid) -> Self {
        let mut by_path = HashMap::new();
        for (uid, mailbox) in &by_uid {
            let (path, top) = path(&by_uid, mailbox);
            if top.role == Some(Role::Inbox) && top != mailbox {
                let below = path.get(top.name.len()..).unwrap_or_default();
                by_path.entry(format!("INBOX{below}")).or_insert(*uid);
            }
            by_path.insert(path, *uid);
        }
        Self { by_uid, by_path }
    }

    fn of_role(&self, role: Role) -> Option<(MailboxUid, &Mailbox)> {
        self.by_uid.iter().find(|(_, one)| one.role == Some(role)).map(|(uid, one)| (*uid, one))
    }

    /// Finds a mailbox by its name in a script: `INBOX`, in any case of its letters, or a path.
    pub(super) fn named(&self, name: &str) -> Option<(MailboxUid, &Mailbox)> {
        if name.eq_ignore_ascii_case("inbox") {
            return self.of_role(Role::Inbox);
        }
        let inside = name.get(..6).filter(|start| start.eq_ignore_ascii_case("inbox/"));
        let inside = inside.and_then(|_| name.get(6..)).map(|rest| format!("INBOX/{rest}"));
        let uid = self.by_path.get(name).or_else(|| self.by_path.get(&inside?));
        uid.and_then(|uid| self.get(*uid))
    }

    fn get(&self, uid: MailboxUid) -> Option<(MailboxUid, &Mailbox)> {
        self.by_uid.get(&uid).map(|mailbox| (uid, mailbox))
    }
}

/// The scripts of an account, by name.
type ScriptsByName = HashMap<String, (ObjectId, BlobHash)>;

/// What one run of a script may ask about the account, the message and the host.
pub(super) struct AccountWorld<'a> {
    request: &'a FilterRequest<'a>,
    cache: &'a ScriptCache,
    scan: Scan,
    /// Read when the script first asks for a mailbox.
    mailboxes: OnceCell<AccountMailboxes>,
    /// Read when the script first includes another one.
    scripts: OnceCell<ScriptsByName>,
    /// By name, the scripts of the account that were included so far. Their lines and rules are
    /// looked up here after the run.
    pub(super) included: RefCell<BTreeMap<String, IncludedScript>>,
}

pub(super) struct IncludedScript {
    pub(super) id: ObjectId,
    /// The hash of its source.
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
            scripts: OnceCell::new(),
            included: RefCell::default(),
        }
    }

    /// Returns the source of a script by its name; `None` if the run did not include it.
    pub(super) fn included_source(&self, name: &str) -> Option<Arc<[u8]>> {
        self.included.borrow().get(name).map(|script| Arc::clone(&script.compiled.source))
    }

    /// Returns how many mailboxes the run has read: all of the account, or 0 if it asked for none.
    pub(super) fn mailboxes_read(&self) -> usize {
        self.mailboxes.get().map_or(0, |all| all.by_uid.len())
    }

    fn mailboxes(&self) -> Result<&AccountMailboxes, HostError> {
        if let Some(known) = self.mailboxes.get() {
            return Ok(known);
        }
        let request = self.request;
        let read = request.snapshot.mailboxes(request.account).map_err(|error| failure(&error))?;
        Ok(self.mailboxes.get_or_init(|| AccountMailboxes::new(read.into_iter().collect())))
    }

    fn scripts(&self) -> Result<&ScriptsByName, HostError> {
        if let Some(known) = self.scripts.get() {
            return Ok(known);
        }
        let request = self.request;
        let read = request.snapshot.scripts(request.account).map_err(|error| failure(&error))?;
        let named = read.into_iter().map(|(id, row)| (row.name, (id, row.hash)));
        Ok(self.scripts.get_or_init(|| named.collect()))
    }
}

/// Returns the path of a mailbox (its name and those of the mailboxes above it, with `/` between
/// them) and the topmost of these mailboxes. In a damaged store a mailbox may be above itself: the
/// path ends where a parent would come a second time.
fn path<'a>(all: &'a MailboxesByUid, mailbox: &'a Mailbox) -> (String, &'a Mailbox) {
    let mut names = vec![mailbox.name.as_str()];
    let (mut top, mut seen) = (mailbox, BTreeSet::new());
    while let Some(parent) =
        top.parent.filter(|uid| seen.insert(*uid)).and_then(|uid| all.get(&uid))
    {
        names.push(&parent.name);
        top = parent;
    }
    names.reverse();
    (names.join("/"), top)
}

/// Returns a time for the engine; one that it cannot express becomes the beginning of 1970.
pub(super) fn timestamp(at: UtcMillis) -> Timestamp {
    Timestamp::from_millisecond(at.0).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns the zone of an account, or that of the machine if the account has none, or one that is
/// not known.
pub(super) fn zone_of(identity: &Identity) -> TimeZone {
    identity.zone.as_deref().and_then(clock::zone).unwrap_or_else(TimeZone::system)
}

/// Returns an item of the environment (RFC 5183 §4.1) that is the same for all messages that
/// arrive; `None` if there is no such item. `host` is the name of this server.
pub(super) fn environment_of_host(item: &str, host: &str) -> Option<String> {
    Some(match item {
        "domain" => host.split_once('.').map_or(host, |(_, domain)| domain).to_owned(),
        "host" => host.to_owned(),
        "location" => "MDA".to_owned(),
        "name" => "Restante".to_owned(),
        "phase" => "during".to_owned(),
        "version" => env!("CARGO_PKG_VERSION").to_owned(),
        _ => return None,
    })
}

fn failure(error: &Error) -> HostError {
    HostError { message: format!("the store cannot be read: {error}") }
}

impl World for AccountWorld<'_> {
    fn now(&self) -> Timestamp {
        timestamp(self.request.now)
    }

    fn zone(&self) -> TimeZone {
        zone_of(self.request.identity)
    }

    fn mailbox(&self, selector: MailboxSelector<'_>) -> Result<Option<MailboxRef>, HostError> {
        let all = self.mailboxes()?;
        let is_inbox = |mailbox: &Mailbox| mailbox.role == Some(Role::Inbox);
        let found = match selector {
            MailboxSelector::Name(name) => all.named(name),
            MailboxSelector::Id(id) => id.parse::<MailboxUid>().ok().and_then(|uid| all.get(uid)),
            MailboxSelector::SpecialUse(attribute) => {
                let role = attribute.strip_prefix('\\').map(str::to_ascii_lowercase);
                let role = role.and_then(|name| Role::from_name(&name));
                role.and_then(|role| all.of_role(role))
            }
        };
        Ok(found.map(|(uid, mailbox)| MailboxRef {
            id: uid.to_string(),
            name: if is_inbox(mailbox) { "INBOX".into() } else { path(&all.by_uid, mailbox).0 },
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
        let Some((id, hash)) = self.scripts()?.get(name).copied() else { return Ok(None) };
        let source = || Ok(snapshot.script_source(account, id)?.map(Arc::from));
        let compiled = self
            .cache
            .script(self.request.settings, hash, source)
            .map_err(|error: Error| failure(&error))?;
        // The script exists, so the run fails: with `None`, `include :optional` would go on.
        let unusable = |why: &str| HostError { message: format!("the script `{name}`: {why}") };
        let compiled = compiled.ok_or_else(|| unusable("its source is lost"))?;
        let script = compiled.script.as_ref().map(Arc::clone).map_err(|why| unusable(why))?;
        let included = IncludedScript { id, source: hash, compiled };
        self.included.borrow_mut().insert(name.to_owned(), included);
        Ok(Some(script))
    }

    fn is_protected_field(&self, name: &str) -> bool {
        is_delivery_field(name)
    }

    fn patterns(&self) -> Option<&PatternCache> {
        Some(&self.cache.patterns)
    }

    fn environment(&self, item: &str) -> Option<String> {
        let client = &self.request.envelope.client;
        match item {
            // RFC 5183 §4.1: the message store.
            "location" if self.request.is_stored => Some("MS".to_owned()),
            "phase" if self.request.is_stored => Some("post".to_owned()),
            "remote-host" => client.name.clone(),
            "remote-ip" => client.addr.clone(),
            _ => environment_of_host(item, self.request.hostname),
        }
    }

    fn scan(&self) -> Scan {
        self.scan
    }

    fn can_redirect(&self, to: &AddressSpec) -> bool {
        envelope_address(to).is_some()
    }

    fn can_notify(&self, uri: &str) -> bool {
        mailto::parse(uri).is_some()
    }

    fn has_notify_scheme(&self, scheme: &str) -> bool {
        scheme == mailto::SCHEME
    }

    fn notify_capability(&self, _uri: &str, capability: &str) -> Option<String> {
        mailto::capability(capability)
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

/// Returns the hash under which the store remembers a key of the `duplicate` test. `None` if the
/// key is not 64 hexadecimal digits. The engine makes no such key; for one the test is false, and
/// nothing is remembered.
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
