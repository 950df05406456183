//! What a case says of the host: its answers, the envelope, and the options.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use restante_sieve::ir::{DeliverByMode, Location};
use restante_sieve::{
    AddressSpec, CompileOptions, DeliverByParameter, DsnParameters, DupKey, Envelope, Extension,
    HostError, MailboxRef, MailboxSelector, MissingRequire, RunLimits, Scan, Script, World,
};

use super::words::Line;

const NOW: &str = "2026-01-15T10:20:30Z";

/// The answers of a host that knows what a case says.
#[derive(Debug)]
pub struct CaseWorld {
    pub identity: Vec<AddressSpec>,
    pub separators: String,
    pub scripts: Vec<(Location, String, Arc<Script>)>,
    pub notify_schemes: Vec<String>,
    pub protected: Vec<String>,
    now: Timestamp,
    zone: TimeZone,
    mailboxes: Vec<MailboxRef>,
    seen: Vec<DupKey>,
    lists: Vec<(String, Vec<String>)>,
    environment: Vec<(String, String)>,
    metadata: Vec<([String; 2], String)>,
    server_metadata: Vec<(String, String)>,
    capabilities: Vec<([String; 2], String)>,
    scan: Scan,
    is_broken: bool,
}

impl CaseWorld {
    pub fn parse(lines: &[Line]) -> Result<Self, String> {
        let address = |text: &str| AddressSpec::parse(text).ok_or(format!("`{text}`: no address"));
        let mut world = Self {
            identity: vec![address("me@example.org")?],
            separators: "+".into(),
            scripts: Vec::new(),
            notify_schemes: Vec::new(),
            protected: Vec::new(),
            now: NOW.parse().map_err(|error| format!("{error}"))?,
            zone: TimeZone::UTC,
            mailboxes: vec![
                mailbox("INBOX", "inbox", &[]),
                mailbox("Work", "work", &[]),
                mailbox("Archive", "archive", &["\\Archive".into()]),
                mailbox("Junk", "junk", &["\\Junk".into()]),
                mailbox("Sent", "sent", &["\\Sent".into()]),
            ],
            seen: Vec::new(),
            lists: Vec::new(),
            environment: Vec::new(),
            metadata: Vec::new(),
            server_metadata: Vec::new(),
            capabilities: Vec::new(),
            scan: Scan::default(),
            is_broken: false,
        };
        lines.iter().try_for_each(|line| world.add(line))?;
        Ok(world)
    }

    fn add(&mut self, line: &Line) -> Result<(), String> {
        let text = |index| line.argument(index).map(str::to_owned);
        match line.head.as_str() {
            "mailbox" => {
                let name = text(0)?;
                let id = line.value("id").map_or_else(|| name.to_lowercase(), str::to_owned);
                let uses = line.tags.get("use").map(Vec::as_slice).unwrap_or_default();
                let mut mailbox = mailbox(&name, &id, uses);
                mailbox.accepts_mail = !line.tags.contains_key("refuses");
                self.mailboxes.push(mailbox);
            }
            "no-mailbox" => {
                let name = text(0)?;
                self.mailboxes.retain(|mailbox| mailbox.name != name);
            }
            "now" => self.now = text(0)?.parse().map_err(|error| format!("{error}"))?,
            "zone" => self.zone = TimeZone::get(&text(0)?).map_err(|error| error.to_string())?,
            "env" => self.environment.push((text(0)?, text(1)?)),
            "spam" => self.scan.spam_percent = Some(small(line)?),
            "virus" => self.scan.virus = Some(small(line)?),
            "seen" => self.seen.push(DupKey::new(line.value("handle"), line.argument(0)?)),
            "list" => {
                self.lists.push((text(0)?, line.arguments.iter().skip(1).cloned().collect()));
            }
            "metadata" => self.metadata.push(([text(0)?, text(1)?], text(2)?)),
            "server-metadata" => self.server_metadata.push((text(0)?, text(1)?)),
            "notify-capability" => self.capabilities.push(([text(0)?, text(1)?], text(2)?)),
            "separators" => self.separators = text(0)?,
            "broken" => self.is_broken = true,
            _ => return Err(line.unknown()),
        }
        Ok(())
    }

    /// Fails if the host is broken.
    fn answer<T>(&self, answer: T) -> Result<T, HostError> {
        if self.is_broken { Err(HostError { message: "broken".into() }) } else { Ok(answer) }
    }
}

fn mailbox(name: &str, id: &str, uses: &[String]) -> MailboxRef {
    MailboxRef {
        id: id.to_owned(),
        name: name.to_owned(),
        is_inbox: name.eq_ignore_ascii_case("INBOX"),
        accepts_mail: true,
        special_uses: uses.to_vec(),
    }
}

fn small(line: &Line) -> Result<u8, String> {
    u8::try_from(line.number_at(0)?).map_err(|error| error.to_string())
}

fn is_inbox(name: &str) -> bool {
    name.eq_ignore_ascii_case("INBOX")
}

impl World for CaseWorld {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn zone(&self) -> TimeZone {
        self.zone.clone()
    }

    fn mailbox(&self, selector: MailboxSelector<'_>) -> Result<Option<MailboxRef>, HostError> {
        let is_meant = |mailbox: &&MailboxRef| match selector {
            MailboxSelector::Name(name) if is_inbox(name) => mailbox.is_inbox,
            MailboxSelector::Name(name) => mailbox.name == name,
            MailboxSelector::Id(id) => mailbox.id == id,
            MailboxSelector::SpecialUse(attribute) => {
                mailbox.special_uses.iter().any(|own| own.eq_ignore_ascii_case(attribute))
            }
        };
        self.answer(self.mailboxes.iter().find(is_meant).cloned())
    }

    fn metadata(
        &self,
        mailbox: Option<&MailboxRef>,
        entry: &str,
    ) -> Result<Option<String>, HostError> {
        let value = match mailbox {
            Some(mailbox) => self.metadata.iter().find_map(|([name, own], value)| {
                let is_meant = *name == mailbox.name || (mailbox.is_inbox && is_inbox(name));
                (is_meant && own == entry).then_some(value)
            }),
            None => {
                let found = self.server_metadata.iter().find(|(own, _)| own == entry);
                found.map(|(_, value)| value)
            }
        };
        self.answer(value.cloned())
    }

    fn is_protected_field(&self, name: &str) -> bool {
        self.protected.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    fn has_list(&self, list: &str) -> Result<bool, HostError> {
        self.answer(self.lists.iter().any(|(name, _)| name == list))
    }

    fn in_list(&self, list: &str, value: &str) -> Result<bool, HostError> {
        let contains = |values: &[String]| values.iter().any(|own| own == value);
        self.answer(self.lists.iter().any(|(name, values)| name == list && contains(values)))
    }

    fn duplicate_seen(&self, key: &DupKey) -> Result<bool, HostError> {
        self.answer(self.seen.contains(key))
    }

    fn script(&self, location: Location, name: &str) -> Result<Option<Arc<Script>>, HostError> {
        let is_meant = |own: &&(Location, String, Arc<Script>)| own.0 == location && own.1 == name;
        self.answer(self.scripts.iter().find(is_meant).map(|found| Arc::clone(&found.2)))
    }

    fn environment(&self, item: &str) -> Option<String> {
        let found = self.environment.iter().find(|(name, _)| name == item);
        found.map(|(_, value)| value.clone())
    }

    fn scan(&self) -> Scan {
        self.scan
    }

    fn can_notify(&self, uri: &str) -> bool {
        let Some((scheme, rest)) = uri.split_once(':') else { return false };
        let is_known = self.notify_schemes.iter().any(|own| own.eq_ignore_ascii_case(scheme));
        is_known && (!scheme.eq_ignore_ascii_case("mailto") || is_mailto(rest))
    }

    fn notify_capability(&self, uri: &str, capability: &str) -> Option<String> {
        let is_meant = |own: &&([String; 2], String)| {
            own.0[0] == uri && own.0[1].eq_ignore_ascii_case(capability)
        };
        self.capabilities.iter().find(is_meant).map(|found| found.1.clone())
    }
}

/// Whether the rest of a mailto URI (RFC 6068 §2) is well formed and names a recipient.
fn is_mailto(rest: &str) -> bool {
    let is_character = |c: char| c.is_ascii_graphic() && !"\"<>[\\]^`{|}#".contains(c);
    let are_escapes_whole = rest.split('%').skip(1).all(|after| {
        after.len() >= 2 && after.bytes().take(2).all(|byte| byte.is_ascii_hexdigit())
    });
    let (to, query) = rest.split_once('?').unwrap_or((rest, ""));
    let fields = query.split('&').filter_map(|field| field.split_once('='));
    let mut more = fields.filter(|(name, _)| name.eq_ignore_ascii_case("to"));
    let is_address = |text: &str| text.split_once('@').is_some_and(|(l, d)| l != "" && d != "");
    rest.chars().all(is_character)
        && are_escapes_whole
        && (if to.is_empty() { more.next().is_some() } else { to.split(',').all(is_address) })
}

/// Reads an `envelope` section.
pub fn envelope(lines: &[Line]) -> Result<Envelope<'_>, String> {
    let mut envelope =
        Envelope { from: "sender@example.com", to: "me@example.org", ..Envelope::default() };
    let mut dsn = DsnParameters::default();
    for line in lines {
        let value = line.arguments.first().map_or("", String::as_str);
        match line.head.as_str() {
            "from" => envelope.from = value,
            "to" => envelope.to = value,
            "auth" => envelope.auth = Some(value),
            "notify" => dsn.notify = Some(value),
            "orcpt" => dsn.original_recipient = Some(value),
            "ret" => dsn.ret = Some(value),
            "envid" => dsn.envelope_id = Some(value),
            "by" => {
                let mode = line.argument(1)?;
                envelope.deliver_by = Some(DeliverByParameter {
                    seconds: value.parse().map_err(|error| format!("{error}"))?,
                    mode: DeliverByMode::parse(mode).ok_or_else(|| line.unknown())?,
                    trace: line.arguments.get(2).is_some_and(|word| word == "trace"),
                });
            }
            _ => return Err(line.unknown()),
        }
    }
    envelope.dsn = dsn;
    Ok(envelope)
}

/// Reads an `options` section.
pub fn options(lines: &[Line]) -> Result<(CompileOptions, RunLimits), String> {
    let mut compile = CompileOptions::default();
    let mut run = RunLimits::default();
    for line in lines {
        match line.head.as_str() {
            "only" => compile.allowed = extensions(line)?.collect(),
            "without" => {
                for extension in extensions(line)? {
                    compile.allowed = compile.allowed.without(extension);
                }
            }
            "notify-scheme" => compile.notify_schemes.push(line.argument(0)?.to_owned()),
            "protected" => compile.protected_fields.push(line.argument(0)?.to_owned()),
            "lenient" => compile.missing_require = MissingRequire::Warning,
            "compile" => compile.limits = limit(&compile.limits, line)?,
            "run" => run = limit(&run, line)?,
            _ => return Err(line.unknown()),
        }
    }
    Ok((compile, run))
}

fn extensions(line: &Line) -> Result<impl Iterator<Item = Extension>, String> {
    let find = |name: &String| Extension::from_name(name).ok_or(format!("no extension {name}"));
    let found: Result<Vec<Extension>, String> = line.arguments.iter().map(find).collect();
    Ok(found?.into_iter())
}

/// Returns limits of which the one that the line names is changed.
fn limit<T>(limits: &T, line: &Line) -> Result<T, String>
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let mut value = serde_json::to_value(limits).map_err(|error| error.to_string())?;
    let field = value.get_mut(line.argument(0)?).ok_or_else(|| line.unknown())?;
    *field = line.number_at(1)?.into();
    serde_json::from_value(value).map_err(|error| error.to_string())
}
