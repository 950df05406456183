//! Checks what must hold for every script and message of the cases, whatever the cases expect.

use std::path::Path;

use restante_sieve::{
    AddressSpec, Checked, Code, CompileOptions, Envelope, Identity, Input, RunLimits, Script,
    check, format, run,
};

use super::case::{Case, Goal, files};
use crate::support::{TestMessage, TestWorld};

/// Bytes between two places where a script is cut, so that not every beginning is checked.
const CUT_STEP: usize = 7;

/// Returns the cases of every folder in `folder`. Files that are no case are left out.
pub fn cases(folder: &Path) -> Vec<Case> {
    let folders = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = folders.flat_map(|entry| files(&entry.path()));
    paths.filter_map(|path| Case::read(&path).ok()).collect()
}

/// Returns the scripts of a case: its script, those to include, and one for each test.
pub fn scripts(case: &Case) -> Vec<Vec<u8>> {
    let mut scripts: Vec<Vec<u8>> = case.script.iter().cloned().collect();
    scripts.extend(case.includes.iter().map(|(_, _, source)| source.clone()));
    for case_run in &case.runs {
        if let Goal::Test(test, _) = &case_run.goal {
            let setup = case.setup.as_deref().unwrap_or_default();
            scripts.push([setup, b"if ", test, b" { discard; }"].concat());
        }
    }
    scripts
}

/// Checks beginnings of a script: each has a script or errors, and diagnostics in order and inside
/// the source. Returns the first that is wrong, `None` if none is.
pub fn check_beginnings(source: &[u8]) -> Option<String> {
    let options = CompileOptions::default();
    // Long scripts test limits, and their beginnings are all alike.
    let end = source.len().min(2000);
    let wrong = (0..=end).step_by(CUT_STEP).find(|&cut| {
        let checked = check(&source[..cut], &options);
        let has_errors = checked.diagnostics.iter().any(restante_sieve::Diagnostic::is_error);
        let are_ordered = checked.diagnostics.is_sorted_by_key(|own| own.span.start);
        let are_inside = checked.diagnostics.iter().all(|own| own.span.end as usize <= cut);
        checked.script.is_some() == has_errors || !are_ordered || !are_inside
    });
    wrong.map(|cut| format!("cut at {cut}: {}", String::from_utf8_lossy(&source[..cut])))
}

/// Formats a script. It must mean the same then, and formatting it once more must change nothing.
/// Returns what is wrong, `None` if nothing is, or if the script has errors of grammar.
pub fn format_twice(source: &[u8]) -> Option<String> {
    let text = format(source).ok()?;
    let options = CompileOptions::default();
    let (before, after) = (check(source, &options), check(text.as_bytes(), &options));
    let codes = |checked: &Checked| checked.diagnostics.iter().map(|own| own.code).collect();
    let (codes_before, codes_after): (Vec<Code>, Vec<Code>) = (codes(&before), codes(&after));
    if codes_before != codes_after {
        return Some(format!("{codes_before:?} became {codes_after:?} in {text}"));
    }
    if before.script.map(meaning) != after.script.map(meaning) {
        return Some(format!("the meaning changed in {text}"));
    }
    let again = format(text.as_bytes()).unwrap_or_default();
    (again != text).then(|| format!("{text} became {again}"))
}

/// Returns a script as JSON without places and the hash of its source.
fn meaning(script: Script) -> serde_json::Value {
    let mut value = serde_json::to_value(script).unwrap_or_default();
    remove_places(&mut value);
    value
}

/// Removes the fields `span` and `source_hash` at any depth.
fn remove_places(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            fields.remove("span");
            fields.remove("source_hash");
            fields.values_mut().for_each(remove_places);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(remove_places),
        _ => {}
    }
}

/// Runs a script on a message twice. Both runs must be equal, keep the laws of a plan, and keep
/// within their fuel. Returns what is wrong, `None` if nothing is.
pub fn run_twice(script: &Script, raw: &[u8]) -> Option<String> {
    let message = TestMessage::new(raw);
    let envelope =
        Envelope { from: "sender@example.com", to: "me@example.org", ..Envelope::default() };
    let addresses = [AddressSpec::new("me", "example.org")];
    let identity = Identity { addresses: &addresses, display_name: None, separators: "+" };
    let input = Input { message: &message, envelope: &envelope, identity: &identity };
    let world = TestWorld::with_mailboxes(&["Work", "Junk"]);
    let limits = RunLimits::default();
    let first = run(script, &input, &world, &limits, None);
    let broken = first.plan.violations();
    if !broken.is_empty() {
        return Some(broken.join(", "));
    }
    if first.fuel_used > limits.fuel {
        return Some(format!("{} units of work", first.fuel_used));
    }
    let second = run(script, &input, &world, &limits, None);
    (first != second).then(|| "two runs differ".to_owned())
}
