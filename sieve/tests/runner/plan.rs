//! Writes a plan as lines of the form that an `expect` section has, and compares a line with an
//! expected one.

use std::collections::BTreeMap;

use restante_sieve::ir::{DeliverByMode, DsnNotify, DsnReturn, Importance, RejectKind};
use restante_sieve::{
    Action, DupKey, FccIntent, FlagSet, NotifyIntent, Period, Plan, RedirectIntent, RedirectTarget,
    Target, VacationBody, VacationIntent, Version,
};

use super::words::Line;

/// A line of a plan, with what an action has beside the text of the line.
#[derive(Debug)]
pub struct PlanLine {
    pub line: Line,
    /// The version of the message that the action uses. `None` if it uses none.
    pub version: Option<Version>,
    /// The handle of a response, or the key of a record. `None` for other actions.
    pub hash: Option<String>,
}

impl PlanLine {
    fn new(line: Line, version: Option<Version>) -> Self {
        Self { line, version, hash: None }
    }
}

/// Writes a plan: the actions in their order, then the implicit keep, then the records of the
/// `duplicate` test. A `discard` without an effect is left out.
pub fn lines(plan: &Plan) -> Vec<PlanLine> {
    let mut lines: Vec<PlanLine> = plan.actions.iter().map(action).collect();
    if let Some(keep) = &plan.implicit_keep {
        let mut line = Line::new("implicit-keep", &[]);
        add_flags(&mut line, "flags", &keep.flags);
        lines.push(PlanLine::new(line, Some(keep.message)));
    }
    lines.sort_by_key(|line| order(&line.line));
    drop_discard(&mut lines, |line| &line.line);
    lines
}

/// Puts expected lines in the order of [`lines`], and leaves out what [`lines`] leaves out.
pub fn normalise(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by_key(order);
    drop_discard(&mut lines, |line| line);
    lines
}

/// Returns the place of a line among others: the lowest comes first. As `inbox` has the place of
/// the implicit keep, it stands for an explicit keep only if that is the last action.
fn order(line: &Line) -> u8 {
    match line.head.as_str() {
        "implicit-keep" | "inbox" => 1,
        "mark-duplicate" => 2,
        _ => 0,
    }
}

/// Drops every `discard` beside an action that stores, sends on or refuses the message, where it
/// has no effect. Without such an action, it drops all but the first `discard`.
fn drop_discard<T>(lines: &mut Vec<T>, line: impl Fn(&T) -> &Line) {
    const DELIVERIES: [&str; 8] =
        ["keep", "inbox", "fileinto", "create", "redirect", "redirect-list", "reject", "ereject"];
    let mut has_no_effect = lines.iter().any(|own| DELIVERIES.contains(&line(own).head.as_str()));
    lines.retain(|own| line(own).head != "discard" || !std::mem::replace(&mut has_no_effect, true));
}

fn action(action: &Action) -> PlanLine {
    match action {
        Action::Store { to, flags, message } => {
            let mut line = target(to);
            add_flags(&mut line, "flags", flags);
            PlanLine::new(line, Some(*message))
        }
        Action::Redirect(intent) => PlanLine::new(redirect(intent), Some(intent.message)),
        Action::Reject { kind: RejectKind::Reject, reason } => {
            PlanLine::new(Line::new("reject", &[reason]), None)
        }
        Action::Reject { kind: RejectKind::EReject, reason } => {
            PlanLine::new(Line::new("ereject", &[reason]), None)
        }
        Action::Discard => PlanLine::new(Line::new("discard", &[]), None),
        Action::Vacation(intent) => {
            let hash = Some(intent.handle.to_string());
            PlanLine { line: vacation(intent), version: Some(intent.message), hash }
        }
        Action::Notify(intent) => PlanLine::new(notify(intent), Some(intent.version)),
        Action::MarkDuplicate { key, until } => {
            let mut line = Line::new("mark-duplicate", &[]);
            line.tag("until", [until.to_string()]);
            PlanLine { line, version: None, hash: Some(key.as_str().to_owned()) }
        }
    }
}

fn target(to: &Target) -> Line {
    match to {
        Target::Inbox => Line::new("keep", &[]),
        Target::Mailbox { name, .. } => Line::new("fileinto", &[name]),
        Target::Create { name, special_use } => {
            let mut line = Line::new("create", &[name]);
            if let Some(special_use) = special_use {
                line.tag("use", [special_use.as_str()]);
            }
            line
        }
    }
}

fn add_flags(line: &mut Line, tag: &str, flags: &FlagSet) {
    if !flags.is_empty() {
        line.tag(tag, flags.iter());
    }
}

fn redirect(intent: &RedirectIntent) -> Line {
    let mut line = match &intent.to {
        RedirectTarget::Address(address) => Line::new("redirect", &[&address.to_string()]),
        RedirectTarget::List(list) => Line::new("redirect-list", &[list]),
    };
    if intent.copy {
        line.tag("copy", [""; 0]);
    }
    match intent.notify {
        Some(DsnNotify::Never) => line.tag("notify", ["never"]),
        Some(DsnNotify::When { success, failure, delay }) => {
            let words = [(success, "success"), (failure, "failure"), (delay, "delay")];
            let words: Vec<&str> = words.iter().filter(|word| word.0).map(|word| word.1).collect();
            line.tag("notify", [words.join(",")]);
        }
        None => {}
    }
    match intent.ret {
        Some(DsnReturn::Full) => line.tag("ret", ["full"]),
        Some(DsnReturn::Headers) => line.tag("ret", ["headers"]),
        None => {}
    }
    if let Some(by) = intent.deliver_by {
        let mode = match by.mode {
            DeliverByMode::Notify => "notify",
            DeliverByMode::Return => "return",
        };
        let mut words = vec![by.deadline.to_string(), mode.to_owned()];
        words.extend(by.trace.then(|| "trace".to_owned()));
        line.tag("by", words);
    }
    line
}

fn vacation(intent: &VacationIntent) -> Line {
    let (text, is_mime) = match &intent.body {
        VacationBody::Text(text) => (text, false),
        VacationBody::Mime(text) => (text, true),
    };
    let mut line = Line::new("vacation", &[text]);
    if is_mime {
        line.tag("mime", [""; 0]);
    }
    match intent.period {
        Period::Unset => {}
        Period::Days(days) => line.tag("days", [days.to_string()]),
        Period::Seconds(seconds) => line.tag("seconds", [seconds.to_string()]),
    }
    add_text(&mut line, "subject", intent.subject.as_deref());
    add_text(&mut line, "from", intent.from.as_deref());
    add_text(&mut line, "handle", intent.handle_name.as_deref());
    if !intent.addresses.is_empty() {
        line.tag("addresses", intent.addresses.iter().map(String::as_str));
    }
    add_fcc(&mut line, intent.fcc.as_ref());
    line
}

fn notify(intent: &NotifyIntent) -> Line {
    let mut line = Line::new("notify", &[&intent.method]);
    add_text(&mut line, "from", intent.from.as_deref());
    add_text(&mut line, "message", intent.message.as_deref());
    let importance = match intent.importance {
        Importance::High => "1",
        Importance::Normal => "2",
        Importance::Low => "3",
    };
    line.tag("importance", [importance]);
    if !intent.options.is_empty() {
        line.tag("options", intent.options.iter().map(|(name, value)| format!("{name}={value}")));
    }
    add_fcc(&mut line, intent.fcc.as_ref());
    line
}

fn add_text(line: &mut Line, tag: &str, text: Option<&str>) {
    if let Some(text) = text {
        line.tag(tag, [text]);
    }
}

fn add_fcc(line: &mut Line, fcc: Option<&FccIntent>) {
    let Some(fcc) = fcc else { return };
    match &fcc.to {
        Target::Inbox => line.tag("fcc", ["INBOX"]),
        Target::Mailbox { name, .. } => line.tag("fcc", [name.as_str()]),
        Target::Create { name, .. } => line.tag("fcc-create", [name.as_str()]),
    }
    add_flags(line, "fcc-flags", &fcc.flags);
}

/// Returns whether a line is the expected one. Versions and `:tracked` are not compared, and the
/// importance only if it is expected. An expected `inbox` stands for an explicit or implicit keep.
/// Of `mark-duplicate` the key is compared, and `:until` only if it is expected.
pub fn is_equal(expected: &Line, actual: &PlanLine) -> bool {
    let is_inbox =
        expected.head == "inbox" && matches!(actual.line.head.as_str(), "keep" | "implicit-keep");
    if expected.head == "mark-duplicate" {
        let Ok(value) = expected.argument(0) else { return false };
        let key = DupKey::new(expected.value("handle"), value);
        let until = expected.value("until");
        return actual.hash.as_deref() == Some(key.as_str())
            && (until.is_none() || until == actual.line.value("until"));
    }
    (is_inbox || expected.head == actual.line.head)
        && expected.arguments == actual.line.arguments
        && tags(expected) == {
            let mut tags = tags(&actual.line);
            if !expected.tags.contains_key("importance") {
                tags.remove("importance");
            }
            tags
        }
}

/// Returns the tags that are compared as text; flags are sorted and in lower case.
fn tags(line: &Line) -> BTreeMap<&str, Vec<String>> {
    let tags = line.tags.iter().filter(|(tag, _)| !matches!(tag.as_str(), "version" | "tracked"));
    tags.map(|(tag, values)| {
        let mut values = values.clone();
        if tag.ends_with("flags") {
            values.iter_mut().for_each(|flag| flag.make_ascii_lowercase());
            values.sort();
        }
        (tag.as_str(), values)
    })
    .collect()
}
