//! Checks and runs a case, and lists what is not as expected.

use std::collections::BTreeMap;
use std::sync::Arc;

use restante_sieve::{
    AddressSpec, CompileOptions, Diagnostic, Identity, Input, LineIndex, MessageEdits, MessageView,
    Outcome, Plan, Position, RunLimits, Script, Severity, Version, check, run,
};

use super::case::{Case, CaseRun, Goal, VersionText};
use super::plan::{PlanLine, is_equal, lines, normalise};
use super::version;
use super::words::Line;
use super::world::{CaseWorld, envelope, options};
use crate::support::TestMessage;

/// Returns what is not as the case expects, or what is wrong with the case. Empty if it passes.
pub fn failures(case: &Case) -> Vec<String> {
    match Runner::new(case) {
        Ok(mut runner) => runner.failures(),
        Err(error) => vec![error],
    }
}

struct Runner<'a> {
    case: &'a Case,
    compile: CompileOptions,
    limits: RunLimits,
    /// The handles by the labels of `:tracked`.
    tracked: BTreeMap<String, String>,
}

impl<'a> Runner<'a> {
    fn new(case: &'a Case) -> Result<Self, String> {
        let (compile, limits) = options(&case.options)?;
        Ok(Self { case, compile, limits, tracked: BTreeMap::new() })
    }

    fn failures(&mut self) -> Vec<String> {
        let mut failures = Vec::new();
        let Some(source) = &self.case.script else {
            for case_run in &self.case.runs {
                failures.extend(self.test(case_run).err());
            }
            return failures;
        };
        let checked = check(source, &self.compile);
        let index = LineIndex::new(source);
        let may_fail = self.case.runs.iter().any(may_fail);
        if let Some(expected) = &self.case.check {
            failures.extend(compare_diagnostics(expected, &checked.diagnostics, &index));
        } else if checked.script.is_none() && !may_fail {
            failures.push(format!("errors: {}", errors(&checked.diagnostics, &index)));
        }
        let Some(script) = checked.script else {
            if self.case.check.is_some() && !self.case.runs.is_empty() && failures.is_empty() {
                failures.push("the script has errors and cannot run".into());
            }
            return failures;
        };
        for case_run in &self.case.runs {
            let result = self.expect(case_run, &script, &index);
            failures.extend(result.err().map(|error| format!("line {}: {error}", case_run.line)));
        }
        failures
    }

    /// Runs a test in a script of its own, which discards the message if the test is true. An error
    /// says that the result is not the expected one, or why there is none.
    fn test(&self, case_run: &CaseRun) -> Result<(), String> {
        let Goal::Test(test, expected) = &case_run.goal else { return Ok(()) };
        let mut source = self.case.setup.clone().unwrap_or_default();
        source.extend_from_slice(b"if ");
        source.extend_from_slice(test);
        source.extend_from_slice(b" { discard; }\n");
        let at = |what: String| {
            format!("line {}: {}: {what}", case_run.line, String::from_utf8_lossy(test))
        };
        let checked = check(&source, &self.compile);
        let index = LineIndex::new(&source);
        let Some(script) = checked.script else {
            return Err(at(format!("errors: {}", errors(&checked.diagnostics, &index))));
        };
        let (outcome, _) = self.run(case_run, &script).map_err(at)?;
        if let Some(error) = &outcome.error {
            return Err(at(format!("the run fails: {error}")));
        }
        let actual = outcome.plan.implicit_keep.is_none();
        if actual == *expected { Ok(()) } else { Err(at(format!("is {actual}"))) }
    }

    /// Runs a script in the world of a case. An error says that the outcome breaks a law, or what
    /// is wrong with the sections of the case.
    fn run(&self, case_run: &CaseRun, script: &Script) -> Result<(Outcome, TestMessage), String> {
        let CaseWorld { mut host, separators } = CaseWorld::parse(&case_run.world)?;
        host.protected_fields.clone_from(&self.compile.protected_fields);
        // Scripts to include that have errors are left out, and so are missing.
        for (location, name, source) in &self.case.includes {
            if let Some(script) = check(source, &self.compile).script {
                host.scripts.insert((*location, name.clone()), Arc::new(script));
            }
        }
        let message = TestMessage::new(case_run.message.as_slice());
        let envelope = envelope(&case_run.envelope)?;
        let identity = Identity {
            addresses: &[AddressSpec::new("me", "example.org")],
            display_name: Some("Me"),
            separators: &separators,
        };
        let input = Input { message: &message, envelope: &envelope, identity: &identity };
        let outcome = run(script, &input, &host, &self.limits, None);
        let broken = outcome.plan.violations();
        if !broken.is_empty() {
            return Err(format!("the plan breaks laws: {}", broken.join(", ")));
        }
        if outcome.error.is_some() && outcome.plan != Plan::keep_only() {
            return Err("a failed run has a plan".into());
        }
        Ok((outcome, message))
    }

    /// Runs the script of the case, and compares the outcome with an `expect` section.
    fn expect(
        &mut self,
        case_run: &CaseRun,
        script: &Script,
        index: &LineIndex<'_>,
    ) -> Result<(), String> {
        let Goal::Expect(expected) = &case_run.goal else { return Ok(()) };
        let (outcome, message) = self.run(case_run, script)?;
        let (warnings, expected): (Vec<Line>, Vec<Line>) =
            expected.iter().cloned().partition(|line| line.head == "warns");
        for line in &warnings {
            let kind = line.argument(0)?;
            if !outcome.warnings.iter().any(|own| kebab(&format!("{:?}", own.kind)) == kind) {
                return Err(format!("no warning {kind}, but {:?}", outcome.warnings));
            }
        }
        if let Some(line) = expected.iter().find(|line| line.head == "error") {
            return compare_error(line, &outcome, index);
        }
        if expected.iter().any(|line| line.head == "fails") {
            let is_failed = outcome.error.is_some();
            let succeeds = || format!("the run succeeds: {}", text(&lines(&outcome.plan)));
            return if is_failed { Ok(()) } else { Err(succeeds()) };
        }
        if let Some(error) = &outcome.error {
            return Err(format!("the run fails: {error} ({:?})", error.place));
        }
        let expected = normalise(expected);
        let actual = lines(&outcome.plan);
        let is_same = expected.len() == actual.len()
            && expected.iter().zip(&actual).all(|(expected, actual)| is_equal(expected, actual));
        if !is_same {
            return Err(format!("the plan is {}", text(&actual)));
        }
        for (expected, actual) in expected.iter().zip(&actual) {
            self.compare_version(expected, actual, &outcome.plan, &message)?;
            self.compare_handle(expected, actual)?;
        }
        Ok(())
    }

    /// Compares the version that an action uses with the `version` section that the expected line
    /// names. Without a name it must be the message as received; `*` allows any.
    fn compare_version(
        &self,
        expected: &Line,
        actual: &PlanLine,
        plan: &Plan,
        message: &dyn MessageView,
    ) -> Result<(), String> {
        let Some(version) = actual.version else { return Ok(()) };
        let unchanged = MessageEdits::default();
        let edits = match version {
            Version::Original => &unchanged,
            Version::Edited(index) => {
                plan.versions.get(usize::from(index)).ok_or("a version is missing")?
            }
        };
        let wanted: &VersionText = match expected.value("version") {
            Some("*") => return Ok(()),
            Some(name) => self.case.versions.get(name).ok_or("no such `version` section")?,
            None => &version::describe(message, &unchanged),
        };
        let found = version::describe(message, edits);
        if version::is_equal(wanted, &found) {
            return Ok(());
        }
        let edits: Vec<String> = found.edits.iter().map(ToString::to_string).collect();
        let (header, edits) = (found.header.join(" | "), edits.join(" | "));
        Err(format!("`{expected}` has the message [{header}] [{edits}]"))
    }

    /// Checks that lines with the same label of `:tracked` have the same handle, and lines with
    /// different labels different handles.
    fn compare_handle(&mut self, expected: &Line, actual: &PlanLine) -> Result<(), String> {
        let (Some(label), Some(hash)) = (expected.value("tracked"), &actual.hash) else {
            return Ok(());
        };
        let known = self.tracked.insert(label.to_owned(), hash.clone());
        if known.is_some_and(|known| known != *hash) {
            return Err(format!("the handle differs from the others of {label:?}"));
        }
        let is_other = |own: &(&String, &String)| own.0 != label && own.1 == hash;
        match self.tracked.iter().find(is_other) {
            Some((other, _)) => Err(format!("the handle of {label:?} is that of {other:?}")),
            None => Ok(()),
        }
    }
}

/// Returns whether a run is expected to fail. Then the script may have errors, too.
fn may_fail(case_run: &CaseRun) -> bool {
    matches!(&case_run.goal, Goal::Expect(lines) if lines.iter().any(|line| line.head == "fails"))
}

/// Compares the error of a run with an expected one, whose kind and place may be left out. An
/// expected place is in the main script.
fn compare_error(line: &Line, outcome: &Outcome, index: &LineIndex<'_>) -> Result<(), String> {
    let Some(error) = &outcome.error else {
        return Err(format!("the run succeeds: {}", text(&lines(&outcome.plan))));
    };
    let found = kebab(&format!("{:?}", error.kind));
    let (kinds, place): (Vec<&String>, Vec<&String>) =
        line.arguments.iter().partition(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
    let is_kind = kinds.first().is_none_or(|kind| **kind == found);
    let position = index.position(error.place.span.start);
    let is_place =
        place.first().is_none_or(|place| error.place.script.is_none() && is_at(place, position));
    let Position { line, column } = position;
    let wrong = || format!("the error is {found} at {line}:{column}: {error}");
    if is_kind && is_place { Ok(()) } else { Err(wrong()) }
}

/// Returns the name of the variant that a debug text shows, in lower case with hyphens.
fn kebab(debug: &str) -> String {
    let name = debug.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let mut kebab = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(c.to_ascii_lowercase());
    }
    kebab
}

/// Returns whether a position is the one that `LINE` or `LINE:COLUMN` means.
fn is_at(text: &str, position: Position) -> bool {
    match text.split_once(':') {
        Some((line, column)) => {
            line == position.line.to_string() && column == position.column.to_string()
        }
        None => text == position.line.to_string(),
    }
}

/// Compares diagnostics with the lines of a `check` section, which `cases/README.md` describes.
/// Returns what is reported if it is not as expected.
fn compare_diagnostics(
    expected: &[Line],
    diagnostics: &[Diagnostic],
    index: &LineIndex<'_>,
) -> Option<String> {
    let is_meant = |line: &Line, diagnostic: &Diagnostic| {
        line.arguments.iter().all(|word| {
            if word.starts_with('S') {
                word.split('/').any(|code| code == diagnostic.code.as_str())
            } else {
                is_at(word, index.position(diagnostic.span.start))
            }
        })
    };
    let of = |severity: Severity| diagnostics.iter().filter(move |own| own.severity == severity);
    let heads = |head: &'static str| expected.iter().filter(move |line| line.head == head);
    let found: Vec<&Diagnostic> = of(Severity::Error).collect();
    let wanted: Vec<&Line> = heads("error").collect();
    let has_any = heads("any").next().is_some();
    let is_same = if has_any {
        heads("any").all(|line| found.iter().any(|diagnostic| is_meant(line, diagnostic)))
    } else {
        found.len() == wanted.len()
            && wanted.iter().zip(&found).all(|(line, diagnostic)| is_meant(line, diagnostic))
    };
    let has_warnings =
        heads("warning").all(|line| of(Severity::Warning).any(|own| is_meant(line, own)));
    let has_refused = heads("no").any(|line| {
        // The first argument is the word `warning`.
        let rest =
            Line { arguments: line.arguments.iter().skip(1).cloned().collect(), ..line.clone() };
        of(Severity::Warning).any(|own| is_meant(&rest, own))
    });
    let is_right = is_same && has_warnings && !has_refused;
    (!is_right).then(|| format!("the check reports {}", texts(diagnostics.iter(), index)))
}

/// Writes the errors among diagnostics for a message.
fn errors(diagnostics: &[Diagnostic], index: &LineIndex<'_>) -> String {
    texts(diagnostics.iter().filter(|diagnostic| diagnostic.is_error()), index)
}

fn texts<'a>(diagnostics: impl Iterator<Item = &'a Diagnostic>, index: &LineIndex<'_>) -> String {
    let text = |own: &Diagnostic| {
        let Position { line, column } = index.position(own.span.start);
        format!("{} {} {line}:{column} ({})", own.severity, own.code, own.message)
    };
    let texts: Vec<String> = diagnostics.map(text).collect();
    if texts.is_empty() { "nothing".into() } else { texts.join("; ") }
}

fn text(lines: &[PlanLine]) -> String {
    let texts: Vec<String> = lines.iter().map(|line| line.line.to_string()).collect();
    if texts.is_empty() { "empty".into() } else { texts.join("; ") }
}
