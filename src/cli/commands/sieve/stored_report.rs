//! What `sieve dry-run` and `sieve apply` print.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use serde::Serialize;

use crate::cli::commands::mail;
use crate::cli::terminal::output::{self, local, short};
use crate::wire::jmap::admin::sieve_stored::{EnvelopeOrigin, FilterOutcome, FilteredEmail};

/// What holds for every run over stored mail, so every report ends with it.
const NOT_KNOWN: &str = "of the envelope only sender and recipient are known: not who the client \
                         was, nor its DSN parameters";

/// How many different warnings are printed at most.
const MAX_WARNINGS: usize = 20;

/// Numbers of messages. Each message counts in `examined`, and in exactly one field of those from
/// `moved` to `not_done`.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredCounts {
    pub(super) examined: u64,
    moved: u64,
    copied: u64,
    flagged: u64,
    discarded: u64,
    unchanged: u64,
    failed: u64,
    /// Messages that somebody else changed while the command ran, or for which no mailbox exists
    /// or can be created. 0 for `sieve dry-run`.
    not_done: u64,
    /// How often each command, such as `redirect`, was left out because mail is stored already.
    left_out: BTreeMap<String, u64>,
    /// For how many messages a run got each warning, such as that a mailbox does not exist.
    warnings: BTreeMap<String, u64>,
    /// How many warnings are not in `warnings`, which has at most `MAX_WARNINGS`.
    other_warnings: u64,
    /// Messages whose sender is known only from the field Return-Path.
    envelope_from_header: u64,
    /// Messages whose sender is not known.
    envelope_unknown: u64,
}

impl StoredCounts {
    fn add(&mut self, email: &FilteredEmail) {
        self.examined += 1;
        let count = match email.outcome {
            _ if email.is_done == Some(false) => &mut self.not_done,
            FilterOutcome::None => &mut self.unchanged,
            FilterOutcome::Move => &mut self.moved,
            FilterOutcome::Copy => &mut self.copied,
            FilterOutcome::Flag => &mut self.flagged,
            FilterOutcome::Discard => &mut self.discarded,
            FilterOutcome::Failed => &mut self.failed,
        };
        *count += 1;
        for name in &email.left_out {
            *self.left_out.entry(name.clone()).or_default() += 1;
        }
        let warnings = email.steps.iter().filter_map(|step| {
            let warning = step.action.strip_prefix("warning: ")?;
            let script = if step.script.is_empty() { "" } else { &format!("{}, ", step.script) };
            Some(format!("{script}line {}: {warning}", step.line))
        });
        for warning in warnings.collect::<BTreeSet<String>>() {
            if self.warnings.len() < MAX_WARNINGS || self.warnings.contains_key(&warning) {
                *self.warnings.entry(warning).or_default() += 1;
            } else {
                self.other_warnings += 1;
            }
        }
        match email.envelope {
            EnvelopeOrigin::Delivery => {}
            EnvelopeOrigin::Header => self.envelope_from_header += 1,
            EnvelopeOrigin::Unknown => self.envelope_unknown += 1,
        }
    }

    /// Says what was changed; if `has_changed` is false, what would be changed.
    pub(super) fn changes(&self, has_changed: bool) -> String {
        let would = if has_changed { "" } else { "would be " };
        let Self { moved, copied, flagged, discarded, .. } = self;
        format!(
            "{would}moved: {moved}, copied: {copied}, flagged: {flagged}, \
                 discarded: {discarded}"
        )
    }

    fn lines(&self, has_changed: bool) -> Vec<String> {
        let Self { examined, unchanged, failed, .. } = self;
        let mut lines = vec![format!(
            "{examined} messages; {}; unchanged: {unchanged}",
            self.changes(has_changed)
        )];
        if *failed > 0 {
            lines.push(format!("the script failed for {failed} messages, which stay"));
        }
        if self.not_done > 0 {
            lines.push(format!(
                "left alone: {} that were changed meanwhile, or whose mailbox cannot be created",
                self.not_done
            ));
        }
        if !self.left_out.is_empty() {
            let each: Vec<String> =
                self.left_out.iter().map(|(name, count)| format!("{name}: {count}")).collect();
            lines.push(format!("never done for stored mail: {}", each.join(", ")));
        }
        let mut warnings: Vec<(&String, &u64)> = self.warnings.iter().collect();
        warnings.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        lines.extend(warnings.into_iter().map(|(warning, count)| {
            format!("{warning} ({})", output::counted(*count, "message", "messages"))
        }));
        if self.other_warnings > 0 {
            lines.push(format!("other warnings: {}; --json has all", self.other_warnings));
        }
        let (header, unknown) = (self.envelope_from_header, self.envelope_unknown);
        if header + unknown > 0 {
            lines.push(format!(
                "the sender was taken from Return-Path for {header} messages, and is not known of \
                 {unknown}"
            ));
        }
        lines.push(NOT_KNOWN.to_owned());
        lines
    }
}

/// The emails that the script ran over, and their counts.
pub(super) struct StoredReport {
    /// Whether the command was `sieve apply`, and not `sieve dry-run`.
    has_changed: bool,
    script: String,
    mailbox: String,
    pub(super) counts: StoredCounts,
    emails: Vec<FilteredEmail>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct StoredReportFacts<'a> {
    script: &'a str,
    mailbox: &'a str,
    counts: &'a StoredCounts,
    messages: &'a [FilteredEmail],
    notes: Vec<&'static str>,
}

impl StoredReport {
    /// `has_changed` is true for `sieve apply`, and false for `sieve dry-run`, which only says what
    /// would be changed.
    pub(super) fn new(has_changed: bool, script: String, mailbox: String) -> Self {
        let (counts, emails) = (StoredCounts::default(), Vec::new());
        Self { has_changed, script, mailbox, counts, emails }
    }

    pub(super) fn add(&mut self, emails: Vec<FilteredEmail>) {
        emails.iter().for_each(|email| self.counts.add(email));
        self.emails.extend(emails);
    }

    pub(super) fn print(&self, as_json: bool, zone: &TimeZone) {
        let Self { script, mailbox, counts, emails, .. } = self;
        if as_json {
            let notes = vec![NOT_KNOWN];
            output::json(&StoredReportFacts { script, mailbox, counts, messages: emails, notes });
            return;
        }
        let shown = emails
            .iter()
            .filter(|email| email.outcome != FilterOutcome::None || !email.left_out.is_empty());
        let rows: Vec<Vec<String>> = shown.map(|email| row(email, zone)).collect();
        if !rows.is_empty() {
            output::table(&["ID", "RECEIVED", "FROM", "SUBJECT", "WHAT", "LINE"], rows);
        }
        output::line(&format!("{script}, mailbox {mailbox}:"));
        counts.lines(self.has_changed).iter().for_each(|line| output::line(line));
    }
}

fn row(email: &FilteredEmail, zone: &TimeZone) -> Vec<String> {
    let lines = email.steps.iter().map(|step| step.line);
    let lines = lines.chain(email.error.iter().map(|error| error.line));
    // 0 is no line.
    let mut lines: Vec<String> =
        lines.filter(|line| *line > 0).map(|line| line.to_string()).collect();
    lines.dedup();
    vec![
        email.id.clone(),
        local(&email.received_at, zone),
        short(mail::from(&email.from), 24),
        short(email.subject.as_deref().unwrap_or_default(), 32),
        what(email),
        lines.join(", "),
    ]
}

/// Says what becomes of an email: `move to Lists/rust, add $seen, no redirect`.
fn what(email: &FilteredEmail) -> String {
    let mailboxes = email.mailboxes.join(", ");
    let mut what = match email.outcome {
        FilterOutcome::None | FilterOutcome::Flag => Vec::new(),
        FilterOutcome::Move => vec![format!("move to {mailboxes}")],
        FilterOutcome::Copy => vec![format!("copy to {mailboxes}")],
        FilterOutcome::Discard => vec!["discard".to_owned()],
        FilterOutcome::Failed => {
            let error = email.error.as_ref().map(|error| error.message.as_str());
            vec![format!("failed: {}", error.unwrap_or_default())]
        }
    };
    what.extend(email.keywords.iter().map(|keyword| format!("add {keyword}")));
    what.extend(email.left_out.iter().map(|name| format!("no {name}")));
    if email.is_done == Some(false) {
        what.push("left alone".to_owned());
    }
    what.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::jmap::admin::decisions::FilterStepFacts;
    use crate::wire::jmap::admin::sieve_stored::FilterFailure;

    fn email(outcome: FilterOutcome) -> FilteredEmail {
        FilteredEmail {
            id: "e1".into(),
            received_at: "2026-11-21T09:00:00Z".into(),
            from: Vec::new(),
            subject: None,
            outcome,
            mailboxes: vec!["Lists/rust".into(), "Archive".into()],
            keywords: ["$seen".to_owned()].into(),
            left_out: vec!["redirect".into()],
            steps: Vec::new(),
            error: None,
            sender: None,
            recipient: "ann@example.org".into(),
            envelope: EnvelopeOrigin::Header,
            is_done: None,
        }
    }

    #[test]
    fn what_becomes_of_an_email_is_said_in_words() {
        let moved = email(FilterOutcome::Move);
        assert_eq!(what(&moved), "move to Lists/rust, Archive, add $seen, no redirect");
        let left = FilteredEmail { is_done: Some(false), ..email(FilterOutcome::Discard) };
        assert_eq!(what(&left), "discard, add $seen, no redirect, left alone");
    }

    #[test]
    fn error_without_a_place_has_no_line() {
        let lines = |line: u32| {
            let error = Some(FilterFailure { line, message: "no".into() });
            let failed = FilteredEmail { error, ..email(FilterOutcome::Failed) };
            row(&failed, &TimeZone::UTC).pop().unwrap()
        };
        assert_eq!((lines(0).as_str(), lines(3).as_str()), ("", "3"));
    }

    #[test]
    fn each_warning_is_printed_once_with_the_number_of_messages() {
        let mut counts = StoredCounts::default();
        let warning = |line, text: &str| {
            let action = format!("warning: {text}");
            let steps = vec![FilterStepFacts { script: String::new(), line, action }];
            FilteredEmail { steps, ..email(FilterOutcome::None) }
        };
        for number in 0..25 {
            counts.add(&warning(3, &format!("there is no mailbox `{number:02}`")));
            counts.add(&warning(2, "there is no mailbox `A`"));
        }
        let lines = counts.lines(true);
        assert!(lines.contains(&"line 3: there is no mailbox `18` (1 message)".to_owned()));
        assert!(lines.contains(&"other warnings: 6; --json has all".to_owned()), "{lines:?}");
        let places = ["line 2: there is no mailbox `A` (25 messages)", "line 3: there is no"];
        let [many, one] =
            places.map(|wanted| lines.iter().position(|line| line.starts_with(wanted)).unwrap());
        assert!(many < one, "{lines:?}");
    }

    #[test]
    fn counts_say_what_was_not_done() {
        let mut counts = StoredCounts::default();
        for outcome in [FilterOutcome::Move, FilterOutcome::Move, FilterOutcome::None] {
            counts.add(&email(outcome));
        }
        counts.add(&FilteredEmail { is_done: Some(false), ..email(FilterOutcome::Move) });
        let lines = counts.lines(false);
        assert_eq!(
            lines[0],
            "4 messages; would be moved: 2, copied: 0, flagged: 0, discarded: 0; unchanged: 1"
        );
        assert!(lines.contains(&"never done for stored mail: redirect: 4".to_owned()), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("left alone: 1 ")), "{lines:?}");
        assert!(counts.changes(true).starts_with("moved: 2"));
    }
}
