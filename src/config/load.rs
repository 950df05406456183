//! Reads the configuration file.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{Config, check};

pub const DEFAULT_PATH: &str = "/etc/restante/restante.toml";

const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    pub file: PathBuf,
    /// From 1; `None` if the problem concerns the whole file, or its line is not known.
    pub line: Option<usize>,
    pub problem: String,
    /// What the administrator can do; may be empty.
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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigProblems(pub Vec<ConfigProblem>);

impl fmt::Display for ConfigProblems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str("\n")?;
            }
            write!(out, "{problem}")?;
        }
        Ok(())
    }
}

/// Reads and checks the file at `path`, or at [`DEFAULT_PATH`] without one. If there is no file at
/// [`DEFAULT_PATH`], returns the defaults; if there is none at another `path`, that is an error.
///
/// # Errors
/// One problem if the file cannot be read, is larger than `MAX_CONFIG_BYTES`, is not UTF-8 or
/// cannot be parsed; otherwise every problem that [`check()`] finds.
pub fn load(path: Option<&Path>) -> Result<Config, ConfigProblems> {
    let file = path.unwrap_or(Path::new(DEFAULT_PATH));
    let file_problem = |problem: String, remedy: &str| {
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
            return Err(file_problem(
                "larger than 1 MiB".into(),
                "a configuration file is text of a few kilobytes: is this the right file?",
            ));
        }
        _ => {}
    }
    let bytes = std::fs::read(file).map_err(|error| {
        file_problem(
            format!("cannot be read: {error}"),
            "name a readable file with --config or RESTANTE_CONFIG",
        )
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(valid).filter(|byte| **byte == b'\n').count() + 1;
        ConfigProblems(vec![ConfigProblem {
            file: file.to_owned(),
            line: Some(line),
            problem: "not UTF-8".into(),
            remedy: "save the file as UTF-8".into(),
        }])
    })?;
    let config = parse(&text, file)?;
    let problems = check(&config, &text, file);
    if problems.is_empty() { Ok(config) } else { Err(ConfigProblems(problems)) }
}

/// Parses the `text` of `file`, without the rules of [`check()`].
///
/// # Errors
/// The first problem that the parser finds.
pub fn parse(text: &str, file: &Path) -> Result<Config, ConfigProblems> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| line_at(text, span.start));
        let (problem, remedy) = explain(error.message());
        ConfigProblems(vec![ConfigProblem { file: file.to_owned(), line, problem, remedy }])
    })
}

/// Returns the number of the line, from 1, that contains the byte at `offset`.
fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// Returns the problem and the remedy for a message of the parser.
fn explain(message: &str) -> (String, String) {
    let mut quoted = message.split('`').skip(1).step_by(2);
    // Such a message quotes the unknown word first, and then the valid ones.
    if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        let what = if message.starts_with("unknown field") { "key" } else { "value" };
        let unknown = quoted.next().unwrap_or_default();
        let valid: Vec<&str> = quoted.collect();
        let remedy = match nearest(unknown, &valid) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("valid here: {}", valid.join(", ")),
        };
        return (format!("unknown {what} `{unknown}`"), remedy);
    }
    // The errors of `config::value` have the problem and the remedy in one sentence.
    if let Some((problem, remedy)) = message.split_once(": write ") {
        return (problem.to_owned(), format!("write {remedy}"));
    }
    (message.lines().collect::<Vec<_>>().join(" "), "see `restante config example`".into())
}

/// Returns the valid name that is most similar to `unknown`; `None` if even its edit distance is
/// more than 1 plus a third of the number of characters of `unknown`.
fn nearest<'a>(unknown: &str, valid: &[&'a str]) -> Option<&'a str> {
    let (distance, name) = valid.iter().map(|name| (edit_distance(unknown, name), *name)).min()?;
    (distance <= 1 + unknown.chars().count() / 3).then_some(name)
}

/// The Levenshtein distance of the first 64 characters, ignoring case and the difference between
/// `_` and `-`.
fn edit_distance(one: &str, other: &str) -> usize {
    let normalized = |word: &str| -> Vec<char> {
        word.chars()
            .take(64)
            .map(|char| if char == '_' { '-' } else { char.to_ascii_lowercase() })
            .collect()
    };
    let (one, other) = (normalized(one), normalized(other));
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, left) in one.iter().enumerate() {
        let mut diagonal = i;
        let mut previous = i + 1;
        for (cell, right) in row.iter_mut().skip(1).zip(&other) {
            let best = (diagonal + usize::from(left != right)).min(previous + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = best;
            previous = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
