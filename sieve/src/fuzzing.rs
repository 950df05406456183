//! The fuzz bodies: functions that take any bytes and panic if the engine breaks its contract.
//!
//! - A body is deterministic, and reads no clock.
//! - The targets in `fuzz/fuzz_targets` (libFuzzer, nightly) only call a body. `tests/fuzz.rs` runs
//!   the bodies on stable Rust, over the seeds of `fuzz/corpus` and mutations of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a body reports errors by panicking"
)]

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::address_list::{AddressEntry, parse_address_list};
use crate::diagnostic::{Diagnostic, json, managesieve};
use crate::host::{
    DeliverByParameter, DsnParameters, Envelope, HostError, Identity, Input, MailboxRef,
    MailboxSelector, Scan, World,
};
use crate::ir::{DeliverByMode, Location, Script};
use crate::message::MessageView;
use crate::options::{Checked, CompileLimits, CompileOptions, MissingRequire, RunLimits};
use crate::outcome::{Outcome, Place, Trace, Warning};
use crate::plain::{PlainMessage, PlainWorld};
use crate::plan::{Action, DupKey, HeaderField, MessageEdits, Plan, Target};
use crate::{AddressSpec, LineIndex, check as check_script, format, run as run_script};

/// Takes an input of any bytes, and panics if the engine breaks its contract.
pub type FuzzBody = fn(&[u8]);

/// Every body, with the name of its target in `fuzz/fuzz_targets`.
pub const BODIES: &[(&str, FuzzBody)] = &[
    ("sieve_addresses", addresses),
    ("sieve_check", check),
    ("sieve_edits", edits),
    ("sieve_run", run),
];

/// Bodies ignore the bytes of an input after this many: longer inputs find no other errors.
const MAX_INPUT_BYTES: usize = 64 * 1024;

/// The fuel of a run, a tenth of the default, so that an input takes milliseconds.
const FUEL: u64 = 200_000;

/// The message for an input that has only a script.
const MESSAGE: &[u8] = b"From: \"A, B\" <a+b@example.com>\r\nTo: me@example.org\r\n\
    Subject: Hello\r\nDate: Tue, 13 Jan 2026 12:00:00 +0000\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nText\r\n--b\r\n\
    Content-Type: text/html\r\n\r\n<p>x</p>\r\n--b--\r\n";

/// Checks any bytes as a script, with the default options and with narrow limits. Then formats
/// them. What must hold:
///
/// - Diagnostics are in order and inside the source. No line end of the source gets into a
///   rendered line.
/// - Formatting a second time changes nothing, and formatting does not change whether there is a
///   script, which extensions it has and what it uses.
pub fn check(data: &[u8]) {
    let data = bounded(data);
    let checked = check_script(data, &CompileOptions::default());
    check_diagnostics(data, &checked);
    let narrow = CompileOptions {
        limits: CompileLimits {
            string: 16,
            nesting: 4,
            commands: 8,
            variables: 2,
            diagnostics: 3,
            ..CompileLimits::default()
        },
        missing_require: MissingRequire::Warning,
        environment_namespace: true,
        ..CompileOptions::default()
    };
    let few = check_script(data, &narrow);
    // Three, and one that says that there are more.
    assert!(few.diagnostics.len() <= 4, "the limit of diagnostics");
    check_diagnostics(data, &few);
    let Ok(text) = format(data) else { return };
    assert_eq!(format(text.as_bytes()).as_ref(), Ok(&text), "formatting is stable");
    let again = check_script(text.as_bytes(), &CompileOptions::default());
    assert_eq!(checked.script.is_some(), again.script.is_some(), "{text}");
    if let (Some(before), Some(after)) = (&checked.script, &again.script) {
        assert_eq!(before.extensions(), after.extensions(), "{text}");
        assert_eq!(before.uses(), after.uses(), "{text}");
    }
}

fn check_diagnostics(source: &[u8], checked: &Checked) {
    let Checked { script, diagnostics } = checked;
    assert_eq!(script.is_none(), diagnostics.iter().any(Diagnostic::is_error));
    let index = LineIndex::new(source);
    for one in diagnostics {
        assert!(one.span.start <= one.span.end && one.span.end as usize <= source.len());
        assert!(!one.line(&index).contains(['\r', '\n']), "{}", one.line(&index));
        assert!(one.text(&index, "script").ends_with('\n'));
    }
    assert!(diagnostics.is_sorted_by_key(|one| one.span.start), "{diagnostics:?}");
    assert!(json(diagnostics, &index).ends_with(']'));
    assert!(managesieve(diagnostics, &index).lines().count() <= diagnostics.len());
}

/// Runs the script of an input on its message, which stands after a line `===`. What must hold: two
/// runs agree, they keep within their fuel and number of actions, the plan breaks no law, and a run
/// that fails only keeps the message.
pub fn run(data: &[u8]) {
    let (script, raw) = split(bounded(data));
    if let Some(script) = compiled(script) {
        outcome(&script, &PlainMessage::new(raw));
    }
}

/// Runs an input as [`run`] does, with commands before its script that edit the header. Lines of
/// the script that begin with `require` are left out. What must hold beside the laws of [`run`]:
/// tests see the edits, and the versions of the plan delete only fields that exist and add only
/// fields with valid names and values.
pub fn edits(data: &[u8]) {
    let (source, raw) = split(bounded(data));
    let message = PlainMessage::new(raw);
    let head = b"require [\"editheader\", \"variables\", \"fileinto\", \"mailbox\", \"enclose\", \
        \"replace\", \"foreverypart\"];\naddheader \"X-First\" \"1\";\n\
        addheader :last \"X-Last\" \"2\";\ndeleteheader :index 1 \"X-First\";\n\
        if anyof (exists \"X-First\", not header :is \"X-Last\" \"2\")\n\
        { fileinto :create \"edits are not seen\"; }\n";
    let is_require = |line: &&[u8]| line.trim_ascii_start().starts_with(b"require");
    let rest = source.split_inclusive(|byte| *byte == b'\n').filter(|line| !is_require(line));
    let edited = [&head[..], &rest.collect::<Vec<_>>().concat()].concat();
    let Some(script) = compiled(&edited) else { return };
    let Outcome { plan, .. } = outcome(&script, &message);
    // `deleteheader` removes only the `X-First` that was added before, not one of the message.
    let has_own = message.fields(crate::PartId::ROOT).iter().any(|field| {
        let name = raw.get(field.name.clone()).unwrap_or_default();
        name.eq_ignore_ascii_case(b"X-First")
    });
    let is_wrong = |action: &Action| match action {
        Action::Store { to: Target::Create { name, .. }, .. } => name == "edits are not seen",
        _ => false,
    };
    assert!(has_own || !plan.actions.iter().any(is_wrong), "{plan:?}");
    let fields = message.fields(crate::PartId::ROOT).len();
    for version in &plan.versions {
        check_version(version, fields);
    }
}

/// Panics if the positions of deleted fields do not ascend or are not below `fields`, or if an
/// added field has a bad name or a value of several lines.
fn check_version(version: &MessageEdits, fields: usize) {
    let MessageEdits { header, enclosure, .. } = version;
    assert!(header.deleted.is_sorted_by(|a, b| a < b), "{header:?}");
    assert!(header.deleted.iter().all(|index| (*index as usize) < fields), "{header:?}");
    for HeaderField { name, value } in header.prepended.iter().chain(&header.appended) {
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()), "{name}");
        assert!(!value.contains(['\r', '\n', '\0']), "{value}");
    }
    if let Some(enclosure) = enclosure {
        // The new message has no fields that could be deleted.
        check_version(&enclosure.then, 0);
    }
}

/// Reads any bytes as one address, and as a list of addresses. What must hold: an address that was
/// read is written as a text that is read as the same address.
pub fn addresses(data: &[u8]) {
    let data = bounded(data);
    let text = String::from_utf8_lossy(data);
    if let Some(address) = AddressSpec::parse(&text) {
        assert_eq!(AddressSpec::parse(&address.to_string()), Some(address.clone()));
        assert_eq!(AddressSpec::parse_mailbox(&text), Some(address));
    }
    for entry in parse_address_list(data) {
        let members = match entry {
            AddressEntry::Mailbox(mailbox) => vec![mailbox],
            AddressEntry::Group(members) => members,
        };
        for member in members {
            let text = member.to_string();
            let again = parse_address_list(text.as_bytes());
            assert_eq!(again, [AddressEntry::Mailbox(member)], "{text}");
        }
    }
}

fn bounded(data: &[u8]) -> &[u8] {
    data.get(..MAX_INPUT_BYTES).unwrap_or(data)
}

/// Splits an input at a line `===` into a script and a message. Without such a line the input is
/// the script, and the message is [`MESSAGE`].
fn split(data: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memmem::find(data, b"\n===\n") {
        Some(at) => (data.get(..=at).unwrap_or_default(), data.get(at + 5..).unwrap_or_default()),
        None => (data, MESSAGE),
    }
}

/// Checks a script, which need not have `require`. `None` if it has errors.
fn compiled(source: &[u8]) -> Option<Script> {
    let options = CompileOptions {
        missing_require: MissingRequire::Warning,
        environment_namespace: true,
        ..CompileOptions::default()
    };
    check_script(source, &options).script
}

/// Runs a script twice, the second time with a trace, and panics if a law of the outcome is broken.
fn outcome(script: &Script, message: &PlainMessage) -> Outcome {
    let world = FuzzWorld {
        plain: PlainWorld { now: Timestamp::UNIX_EPOCH, mailboxes: vec!["Work".to_owned()] },
        script: Arc::new(script.clone()),
    };
    let envelope = Envelope {
        from: "sender@example.com",
        to: "me+x@example.org",
        auth: Some("me@example.org"),
        dsn: DsnParameters {
            notify: Some("SUCCESS,DELAY"),
            original_recipient: Some("rfc822;me@example.org"),
            ret: Some("HDRS"),
            envelope_id: Some("id"),
        },
        deliver_by: Some(DeliverByParameter {
            seconds: -60,
            mode: DeliverByMode::Return,
            trace: true,
        }),
    };
    let addresses = [AddressSpec::new("me", "example.org")];
    let identity = Identity { addresses: &addresses, display_name: None, separators: "+" };
    let input = Input { message, envelope: &envelope, identity: &identity };
    let limits = RunLimits { fuel: FUEL, ..RunLimits::default() };
    let outcome = run_script(script, &input, &world, &limits, None);
    let broken = outcome.plan.violations();
    assert!(broken.is_empty(), "{broken:?}: {:?}", outcome.plan);
    assert!(outcome.fuel_used <= FUEL, "{}", outcome.fuel_used);
    assert!(outcome.plan.actions.len() <= usize::from(limits.actions));
    if outcome.error.is_some() {
        assert_eq!(outcome.plan, Plan::keep_only());
    }
    let mut trace = CountingTrace::default();
    let again = run_script(script, &input, &world, &limits, Some(&mut trace));
    assert_eq!(again, outcome, "two runs differ");
    outcome
}

/// A trace, to see that observing a run does not change it.
#[derive(Default)]
struct CountingTrace {
    events: usize,
}

impl Trace for CountingTrace {
    fn assignment(&mut self, _: &Place, _: &str, _: &str) {
        self.events += 1;
    }

    fn action(&mut self, _: &Place, _: &Action) {
        self.events += 1;
    }

    fn warning(&mut self, _: &Warning) {
        self.events += 1;
    }
}

/// The script that every name but `missing` and `self` includes.
const INCLUDED: &[u8] = b"global \"g\"; set \"l\" \"x\";
    if header :matches \"subject\" \"*e*\" { set \"g\" \"${1}${l}\"; }
    foreverypart { if header :mime :type \"content-type\" \"text\" { addflag \"$text\"; break; } }
    if body :contains \"stop\" { stop; }
    if string \"${g}\" \"\" { return; }
    fileinto \"Work\"; addheader \"X-Included\" \"${g}\";";

/// A host with nearly every feature. Its answers follow arbitrary rules, so that scripts meet each
/// kind of answer but errors. There is no script `missing`, and the script `self` is the one that
/// runs, which must not include itself.
struct FuzzWorld {
    plain: PlainWorld,
    script: Arc<Script>,
}

impl World for FuzzWorld {
    fn now(&self) -> Timestamp {
        self.plain.now()
    }

    fn zone(&self) -> TimeZone {
        TimeZone::fixed(jiff::tz::offset(-7))
    }

    fn mailbox(&self, selector: MailboxSelector<'_>) -> Result<Option<MailboxRef>, HostError> {
        self.plain.mailbox(selector)
    }

    fn metadata(&self, _: Option<&MailboxRef>, entry: &str) -> Result<Option<String>, HostError> {
        Ok((entry.len() > 12).then(|| entry.to_owned()))
    }

    fn has_list(&self, list: &str) -> Result<bool, HostError> {
        Ok(list.len() > 5)
    }

    fn in_list(&self, list: &str, value: &str) -> Result<bool, HostError> {
        Ok(list.contains(value))
    }

    fn duplicate_seen(&self, key: &DupKey) -> Result<bool, HostError> {
        Ok(key.as_str().starts_with('0'))
    }

    fn script(&self, _: Location, name: &str) -> Result<Option<Arc<Script>>, HostError> {
        static SCRIPT: OnceLock<Option<Arc<Script>>> = OnceLock::new();
        Ok(match name {
            "missing" => None,
            "self" => Some(Arc::clone(&self.script)),
            _ => SCRIPT.get_or_init(|| compiled(INCLUDED).map(Arc::new)).clone(),
        })
    }

    fn environment(&self, item: &str) -> Option<String> {
        (item != "vnd.none").then(|| item.to_owned())
    }

    fn scan(&self) -> Scan {
        Scan { spam_percent: Some(55), virus: Some(2) }
    }

    fn can_notify(&self, uri: &str) -> bool {
        self.plain.can_notify(uri)
    }

    fn has_notify_scheme(&self, scheme: &str) -> bool {
        self.plain.has_notify_scheme(scheme)
    }

    fn notify_capability(&self, _: &str, capability: &str) -> Option<String> {
        (capability == "online").then(|| "maybe".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_included_script_has_no_errors() {
        assert!(compiled(INCLUDED).is_some());
    }
}
