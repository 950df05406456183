//! Runs one script over a message without delivering it, and records each command, test, assigned
//! variable and action. `restante sieve test` shows this, for a file or a script of an account.
//!
//! - With an account, mailboxes, included scripts and what `duplicate` remembers are those of the
//!   account. Without one, each mailbox that a script names by its path counts as one that exists;
//!   no included script exists, and nothing was remembered.
//! - Questions of the run that had no true answer are listed in the result.
//! - It writes nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use restante_sieve::ir::{Command, CommandKind, Location, Test};
use restante_sieve::{
    Action, AddressSpec, DupKey, FlagSet, HostError, LineIndex, MailboxRef, MailboxSelector, Place,
    Plan, Scan, Script, Target, Trace, Version, Warning, World,
};
use serde_json::Value;

use super::cache::ScriptCache;
use super::check::ScriptCheck;
use super::convert::envelope_address;
use super::input::EngineInput;
use super::request::FilterRequest;
use super::settings::{Settings, is_delivery_field};
use super::view::View;
use super::world::{AccountWorld, environment_of_host, timestamp, zone_of};
use super::{mailto, steps};
use crate::message::header::Header;
use crate::model::{AccountId, Envelope, Identity, Recipient, UtcMillis};
use crate::store::Snapshot;

/// The most lines of a trace.
const MAX_TRACE_LINES: usize = 10_000;
/// The most characters of a text of the trace, the actions, or a name in `unknown`.
const MAX_TEXT_CHARS: usize = 160;
/// The most entries of `TrialResult::unknown`. Further ones are left out.
const MAX_UNKNOWN: usize = 32;

#[derive(Debug, Clone, Copy)]
pub struct TrialRequest<'a> {
    pub settings: &'a Settings,
    pub message: &'a [u8],
    pub envelope: &'a Envelope,
    pub recipient: &'a Recipient,
    pub identity: &'a Identity,
    /// The name of this server, for the `environment` test.
    pub hostname: &'a str,
    /// The time at which the message counts as delivered.
    pub now: UtcMillis,
    /// The account from which questions are answered; `None` for a script of no account.
    pub account: Option<TrialAccount<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub struct TrialAccount<'a> {
    pub snapshot: &'a Snapshot<'a>,
    pub id: AccountId,
}

/// What a script would do.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialResult {
    /// The actions, each as a text, and the implicit keep. If the run failed, only the keep.
    pub actions: Vec<String>,
    /// The plan of the engine as JSON.
    pub plan: Value,
    pub error: Option<TrialError>,
    /// The first `MAX_TRACE_LINES` events of the run, in their order.
    pub trace: Vec<TraceLine>,
    /// Whether there were more events than `trace` has.
    pub is_trace_cut: bool,
    /// What the run asked for and the trial could not know: "whether there is a mailbox `Work`".
    pub unknown: Vec<String>,
}

/// Why the run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialError {
    /// The name of the included script; `None` for the script that was tried.
    pub script: Option<String>,
    /// From 1; 0 if the source of the included script is not known.
    pub line: u32,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceLine {
    /// As in `TrialError`.
    pub script: Option<String>,
    /// As in `TrialError`.
    pub line: u32,
    pub event: TraceEvent,
    /// Of a command or test, its source. Of an assignment, action or warning, what happened.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceEvent {
    /// A command other than `if` ran.
    Command,
    /// A test with its result.
    Test(bool),
    /// A variable got a value.
    Assignment,
    Action,
    Warning,
}

impl ScriptCheck<'_> {
    /// Tries the script on a message. `None` if the script has errors.
    #[must_use]
    pub fn run(&self, request: &TrialRequest<'_>) -> Option<TrialResult> {
        let script = self.script.as_ref()?;
        let header = Header::split(request.message);
        let view = View::new(request.message);
        let cache = ScriptCache::default();
        let of_account = request.account.as_ref().map(|account| FilterRequest {
            settings: request.settings,
            snapshot: account.snapshot,
            account: account.id,
            identity: request.identity,
            header: &header,
            envelope: request.envelope,
            recipient: request.recipient,
            hostname: request.hostname,
            now: request.now,
            is_stored: false,
            max_versions: u16::MAX,
        });
        let spam = request.settings.spam.as_ref();
        let world = TrialWorld {
            request,
            scan: Scan { spam_percent: spam.and_then(|spam| spam.percent(&header)), virus: None },
            account: of_account.as_ref().map(|request| AccountWorld::new(request, &cache)),
            unknown: RefCell::default(),
        };
        let input = EngineInput::new(request.envelope, request.recipient, request.identity);
        let mut events = Events::default();
        let limits = request.settings.run_limits();
        let outcome = input.run(script, &view, &world, &limits, &mut events);

        let places = events.list.iter().map(|(place, ..)| place);
        let places = places.chain(outcome.error.as_ref().map(|error| &error.place));
        let included = world.sources(places);
        let sources = Sources {
            own: LineIndex::new(self.source),
            included: (included.iter())
                .map(|(name, source)| (name.as_str(), LineIndex::new(source)))
                .collect(),
        };
        let trace = events.list.into_iter().map(|(place, event, text)| {
            let line = sources.line(&place);
            let text = text.unwrap_or_else(|| sources.text(&place));
            TraceLine { script: place.script, line, event, text }
        });
        let trace = trace.collect();
        let error = outcome.error.map(|error| TrialError {
            line: sources.line(&error.place),
            message: error.to_string(),
            script: error.place.script,
        });
        if outcome.plan.actions.iter().any(|action| matches!(action, Action::Vacation(_))) {
            world
                .note("whether the sender was answered already, and may be answered at all".into());
        }
        Some(TrialResult {
            actions: action_texts(&outcome.plan),
            plan: serde_json::to_value(&outcome.plan).unwrap_or_default(),
            error,
            trace,
            is_trace_cut: events.is_cut,
            unknown: world.unknown.into_inner().into_iter().collect(),
        })
    }
}

/// The events of a run, at most `MAX_TRACE_LINES`.
#[derive(Debug, Default)]
struct Events {
    /// Each with the place of its command or test. `None`: the source at the place is its text.
    list: Vec<(Place, TraceEvent, Option<String>)>,
    is_cut: bool,
}

impl Events {
    fn push(&mut self, place: &Place, event: TraceEvent, text: Option<String>) {
        if self.list.len() < MAX_TRACE_LINES {
            self.list.push((place.clone(), event, text));
        } else {
            self.is_cut = true;
        }
    }
}

impl Trace for Events {
    fn command(&mut self, place: &Place, command: &Command) {
        // In place of an `if`, its tests are listed.
        if !matches!(command.kind, CommandKind::If(_)) {
            self.push(place, TraceEvent::Command, None);
        }
    }

    fn test(&mut self, place: &Place, test: &Test, result: bool) {
        let place = Place { script: place.script.clone(), span: test.span };
        self.push(&place, TraceEvent::Test(result), None);
    }

    fn assignment(&mut self, place: &Place, name: &str, value: &str) {
        self.push(place, TraceEvent::Assignment, Some(shorten(&format!("{name} = {value:?}"))));
    }

    fn action(&mut self, place: &Place, action: &Action) {
        self.push(place, TraceEvent::Action, Some(action_text(action)));
    }

    fn warning(&mut self, warning: &Warning) {
        self.push(&warning.place, TraceEvent::Warning, Some(shorten(&warning.kind.to_string())));
    }
}

/// Answers the questions of a run from an account, or from nothing but the request.
struct TrialWorld<'a> {
    request: &'a TrialRequest<'a>,
    scan: Scan,
    account: Option<AccountWorld<'a>>,
    /// As in `TrialResult`.
    unknown: RefCell<BTreeSet<String>>,
}

impl TrialWorld<'_> {
    /// Adds a question without a true answer to `unknown`.
    fn note(&self, unknown: String) {
        let mut all = self.unknown.borrow_mut();
        if all.len() < MAX_UNKNOWN {
            all.insert(unknown);
        }
    }

    /// Returns the sources of the included scripts that the places name, by name. A script that was
    /// not found is left out.
    fn sources<'p>(&self, places: impl Iterator<Item = &'p Place>) -> BTreeMap<String, Arc<[u8]>> {
        let mut sources = BTreeMap::new();
        for name in places.filter_map(|place| place.script.as_ref()) {
            let source = || self.account.as_ref()?.included_source(name);
            if !sources.contains_key(name)
                && let Some(source) = source()
            {
                sources.insert(name.clone(), source);
            }
        }
        sources
    }
}

/// The sources of the script that is tried and of those that it included, to find the lines and
/// texts of places.
struct Sources<'a> {
    own: LineIndex<'a>,
    included: BTreeMap<&'a str, LineIndex<'a>>,
}

impl Sources<'_> {
    fn index(&self, place: &Place) -> Option<&LineIndex<'_>> {
        match &place.script {
            None => Some(&self.own),
            Some(name) => self.included.get(name.as_str()),
        }
    }

    /// Returns the line of a place, 0 if its script is not known.
    fn line(&self, place: &Place) -> u32 {
        self.index(place).map_or(0, |index| index.position(place.span.start).line)
    }

    /// Returns the beginning of the source at a place.
    fn text(&self, place: &Place) -> String {
        let source = self.index(place).map(|index| place.span.of(index.source()));
        let source = source.unwrap_or_default();
        // `shorten` would read all of a long list. A character has at most 4 bytes, and the other
        // half is for blanks that `shorten` drops.
        let start = source.get(..MAX_TEXT_CHARS * 8).unwrap_or(source);
        shorten(&String::from_utf8_lossy(start))
    }
}

impl World for TrialWorld<'_> {
    fn now(&self) -> Timestamp {
        timestamp(self.request.now)
    }

    fn zone(&self) -> TimeZone {
        zone_of(self.request.identity)
    }

    fn mailbox(&self, selector: MailboxSelector<'_>) -> Result<Option<MailboxRef>, HostError> {
        if let Some(account) = &self.account {
            return account.mailbox(selector);
        }
        Ok(match selector {
            MailboxSelector::Name(name) => {
                let is_inbox = name.eq_ignore_ascii_case("inbox");
                if !is_inbox {
                    self.note(format!("whether there is a mailbox `{}`", shorten(name)));
                }
                Some(MailboxRef {
                    id: name.to_owned(),
                    name: if is_inbox { "INBOX".into() } else { name.to_owned() },
                    is_inbox,
                    accepts_mail: true,
                    special_uses: Vec::new(),
                })
            }
            MailboxSelector::Id(id) => {
                self.note(format!("which mailbox has the id `{}`", shorten(id)));
                None
            }
            MailboxSelector::SpecialUse(attribute) => {
                self.note(format!("which mailbox has the special use `{}`", shorten(attribute)));
                None
            }
        })
    }

    fn duplicate_seen(&self, key: &DupKey) -> Result<bool, HostError> {
        if let Some(account) = &self.account {
            return account.duplicate_seen(key);
        }
        self.note("whether the message came before, for `duplicate`".to_owned());
        Ok(false)
    }

    fn script(&self, location: Location, name: &str) -> Result<Option<Arc<Script>>, HostError> {
        if let Some(account) = &self.account {
            return account.script(location, name);
        }
        self.note(format!("the script `{}`, which is included", shorten(name)));
        Ok(None)
    }

    fn environment(&self, item: &str) -> Option<String> {
        let known = environment_of_host(item, self.request.hostname);
        if known.is_none() {
            self.note(format!("`{}` of the environment", shorten(item)));
        }
        known
    }

    fn is_protected_field(&self, name: &str) -> bool {
        is_delivery_field(name)
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

/// Returns the actions of a plan and its implicit keep, each as a text.
fn action_texts(plan: &Plan) -> Vec<String> {
    let mut texts: Vec<String> = plan.actions.iter().map(action_text).collect();
    if let Some(keep) = &plan.implicit_keep {
        let text = with_version(with_flags("keep".into(), &keep.flags), keep.message);
        texts.push(shorten(&format!("{text} (implicit)")));
    }
    texts
}

fn action_text(action: &Action) -> String {
    let name = steps::describe(action).unwrap_or_else(|| "remember for `duplicate`".to_owned());
    let text = match action {
        Action::Store { to, flags, message } => {
            let text = with_version(with_flags(name, flags), *message);
            match to {
                Target::Create { .. } => format!("{text} (a new mailbox)"),
                Target::Inbox | Target::Mailbox { .. } => text,
            }
        }
        Action::Redirect(redirect) => with_version(name, redirect.message),
        Action::Reject { reason, .. } => format!("{name}: {reason}"),
        Action::MarkDuplicate { until, .. } => format!("{name} until {until}"),
        Action::Discard | Action::Vacation(_) | Action::Notify(_) => name,
    };
    shorten(&text)
}

fn with_flags(text: String, flags: &FlagSet) -> String {
    let flags: Vec<&str> = flags.iter().collect();
    if flags.is_empty() { text } else { format!("{text} [{}]", flags.join(" ")) }
}

fn with_version(text: String, version: Version) -> String {
    match version {
        Version::Original => text,
        Version::Edited(_) => format!("{text}, the edited message"),
    }
}

/// Returns a text as one line of at most `MAX_TEXT_CHARS` characters; `…` marks that it was cut.
fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MAX_TEXT_CHARS {
        return line;
    }
    line.chars().take(MAX_TEXT_CHARS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
