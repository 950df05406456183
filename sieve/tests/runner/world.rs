//! Reads the `world`, `envelope` and `options` sections of a case.

use restante_sieve::ir::DeliverByMode;
use restante_sieve::{
    CompileOptions, DeliverByParameter, DsnParameters, DupKey, Envelope, Extension, MissingRequire,
    RunLimits,
};

use jiff::tz::TimeZone;

use super::words::Line;
use crate::support::TestWorld;

/// The time of a run, unless the case says another.
const NOW: &str = "2026-01-15T10:20:30Z";

/// A host, and the characters that separate user and detail in addresses of the owner.
#[derive(Debug)]
pub struct CaseWorld {
    pub host: TestWorld,
    pub separators: String,
}

impl CaseWorld {
    /// Reads a `world` section, whose lines change a world with the mailboxes of every case.
    pub fn parse(lines: &[Line]) -> Result<Self, String> {
        let mut world = Self { host: TestWorld::default(), separators: "+".into() };
        world.host.now = NOW.parse().map_err(|error| format!("{error}"))?;
        for (name, attribute) in
            [("Work", ""), ("Archive", "\\Archive"), ("Junk", "\\Junk"), ("Sent", "\\Sent")]
        {
            let mailbox = world.host.add_mailbox(name);
            mailbox.id = name.to_lowercase();
            mailbox.special_uses.extend((!attribute.is_empty()).then(|| attribute.to_owned()));
        }
        lines.iter().try_for_each(|line| world.add(line))?;
        Ok(world)
    }

    fn add(&mut self, line: &Line) -> Result<(), String> {
        let text = |index| line.argument(index).map(str::to_owned);
        let host = &mut self.host;
        match line.head.as_str() {
            "mailbox" => {
                let mailbox = host.add_mailbox(line.argument(0)?);
                mailbox.id = line.value("id").map_or(mailbox.name.to_lowercase(), str::to_owned);
                mailbox.accepts_mail = !line.tags.contains_key("refuses");
                mailbox.special_uses = line.tags.get("use").cloned().unwrap_or_default();
            }
            "no-mailbox" => {
                let name = text(0)?;
                host.mailboxes.retain(|mailbox| mailbox.name != name);
            }
            "now" => host.now = text(0)?.parse().map_err(|error| format!("{error}"))?,
            "zone" => host.zone = TimeZone::get(&text(0)?).map_err(|error| error.to_string())?,
            "env" => drop(host.environment.insert(text(0)?, text(1)?)),
            "spam" => host.scan.spam_percent = Some(small(line)?),
            "virus" => host.scan.virus = Some(small(line)?),
            "seen" => host.seen.push(DupKey::new(line.value("handle"), line.argument(0)?)),
            "list" => {
                let values = line.arguments.iter().skip(1).map(|value| value.to_lowercase());
                host.lists.insert(text(0)?, values.collect());
            }
            "metadata" => drop(host.metadata.insert((text(0)?, text(1)?), text(2)?)),
            "server-metadata" => {
                host.metadata.insert((String::new(), text(0)?), text(1)?);
            }
            "notify-capability" => {
                host.notify_capabilities.insert((text(0)?, text(1)?.to_lowercase()), text(2)?);
            }
            "separators" => self.separators = text(0)?,
            "broken" => host.is_broken = true,
            _ => return Err(line.unknown()),
        }
        Ok(())
    }
}

/// Returns the argument of a line as a number below 256.
fn small(line: &Line) -> Result<u8, String> {
    u8::try_from(line.number_at(0)?).map_err(|error| error.to_string())
}

/// Reads an `envelope` section. What it does not say is as in the default envelope.
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

/// Reads an `options` section: the options of the check and the limits of the run.
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

/// Returns the extensions that the arguments of a line name.
fn extensions(line: &Line) -> Result<impl Iterator<Item = Extension>, String> {
    let find = |name: &String| Extension::from_name(name).ok_or(format!("no extension {name}"));
    let found: Result<Vec<Extension>, String> = line.arguments.iter().map(find).collect();
    Ok(found?.into_iter())
}

/// Returns limits with one change: the line has the name of a limit, as serde has it, and a number.
fn limit<T>(limits: &T, line: &Line) -> Result<T, String>
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let mut value = serde_json::to_value(limits).map_err(|error| error.to_string())?;
    let field = value.get_mut(line.argument(0)?).ok_or_else(|| line.unknown())?;
    *field = line.number_at(1)?.into();
    serde_json::from_value(value).map_err(|error| error.to_string())
}
