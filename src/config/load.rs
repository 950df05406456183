//! Text to `Config`, and what is wrong with the text: file, line, remedy.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{Config, check};

/// Where the file is when nobody says otherwise.
pub const DEFAULT_PATH: &str = "/etc/restante/restante.toml";

/// The largest file that is read.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    pub file: PathBuf,
    /// The line, from 1; `None` when it is about the whole file.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(out, "{line}:")?;
        }
        write!(out, " {}", self.problem)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(out, "\n  {}", self.remedy) }
    }
}

/// All that is wrong with a file: never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigProblems(pub Vec<ConfigProblem>);

impl fmt::Display for ConfigProblems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.0.iter().enumerate() {
            if at > 0 {
                out.write_str("\n")?;
            }
            write!(out, "{fault}")?;
        }
        Ok(())
    }
}

/// Reads the file at `path`; without one, the file at the usual place, and the defaults when none
/// is there.
///
/// # Errors
/// All that is wrong with it.
pub fn load(path: Option<&Path>) -> Result<Config, ConfigProblems> {
    let file = path.unwrap_or(Path::new(DEFAULT_PATH));
    let fault = |problem: String, remedy: &str| {
        ConfigProblems(vec![ConfigProblem {
            file: file.to_owned(),
            line: None,
            problem,
            remedy: remedy.to_owned(),
        }])
    };
    match std::fs::metadata(file) {
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound && file == Path::new(DEFAULT_PATH) =>
        {
            return Ok(Config::default());
        }
        Ok(meta) if meta.len() > MAX_CONFIG_BYTES => {
            return Err(fault(
                "larger than 1 MiB".into(),
                "a configuration file is text of a few kilobytes: is this the right file?",
            ));
        }
        _ => {}
    }
    let bytes = std::fs::read(file).map_err(|error| {
        fault(
            format!("cannot be read: {error}"),
            "name a readable file with --config or RESTANTE_CONFIG",
        )
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(before).filter(|byte| **byte == b'\n').count() + 1;
        ConfigProblems(vec![ConfigProblem {
            file: file.to_owned(),
            line: Some(line),
            problem: "not UTF-8".into(),
            remedy: "save the file as UTF-8".into(),
        }])
    })?;
    let config = parse(&text, file)?;
    let faults = check(&config, &text, file);
    if faults.is_empty() { Ok(config) } else { Err(ConfigProblems(faults)) }
}

/// Reads text that came from `file`, without looking at what the values mean together (see
/// [`check()`]).
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(text: &str, file: &Path) -> Result<Config, ConfigProblems> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| line_at(text, span.start));
        let (problem, remedy) = explain(error.message());
        ConfigProblems(vec![ConfigProblem { file: file.to_owned(), line, problem, remedy }])
    })
}

fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// The parser's message in our words: what is wrong, and what to do.
fn explain(message: &str) -> (String, String) {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        let what = if message.starts_with("unknown field") { "key" } else { "value" };
        let wrong = quoted.next().unwrap_or_default();
        let known: Vec<&str> = quoted.collect();
        let remedy = match nearest(wrong, &known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known here: {}", known.join(", ")),
        };
        return (format!("unknown {what} `{wrong}`"), remedy);
    }
    // Our own values say problem and remedy in one sentence.
    if let Some((problem, remedy)) = message.split_once(": write ") {
        return (problem.to_owned(), format!("write {remedy}"));
    }
    (message.lines().collect::<Vec<_>>().join(" "), "see `restante config example`".into())
}

/// The known name that differs least, if it is near enough to be meant.
fn nearest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    let (distance, name) = known.iter().map(|name| (distance(wrong, name), *name)).min()?;
    (distance <= 1 + wrong.chars().count() / 3).then_some(name)
}

/// Edits between two words (Levenshtein), without regard to case, `_` and `-`.
fn distance(one: &str, other: &str) -> usize {
    let plain = |word: &str| -> Vec<char> {
        word.chars()
            .take(64)
            .map(|at| if at == '_' { '-' } else { at.to_ascii_lowercase() })
            .collect()
    };
    let (one, other) = (plain(one), plain(other));
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, left) in one.iter().enumerate() {
        let mut diagonal = i;
        let mut before = i + 1;
        for (cell, right) in row.iter_mut().skip(1).zip(&other) {
            let best = (diagonal + usize::from(left != right)).min(before + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = best;
            before = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
