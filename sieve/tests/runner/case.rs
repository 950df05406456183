//! Reads the files of cases, whose format `cases/README.md` describes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use restante_sieve::ir::Location;

use super::words::Line;

/// The message of a case without one.
const DEFAULT_MESSAGE: &str = "\
From: Sender <sender@example.com>\r
To: Me <me@example.org>\r
Subject: Hello\r
Date: Tue, 13 Jan 2026 12:00:00 +0000\r
Message-ID: <1@example.com>\r
\r
Text.\r
";

/// A case: its sections, and the runs that it asks for. A section that is missing is `None` or
/// empty. A case has either a script, or tests that run after `setup`.
#[derive(Debug, Default)]
pub struct Case {
    pub script: Option<Vec<u8>>,
    /// Scripts to include: place, name and source.
    pub includes: Vec<(Location, String, Vec<u8>)>,
    pub setup: Option<Vec<u8>>,
    pub check: Option<Vec<Line>>,
    pub options: Vec<Line>,
    /// The `version` sections by their names.
    pub versions: BTreeMap<String, VersionText>,
    /// In the order of the file.
    pub runs: Vec<CaseRun>,
}

/// A run of the script of a case.
#[derive(Debug)]
pub struct CaseRun {
    /// The line in the file, from 1, of its `expect` section or of its test.
    pub line: usize,
    pub message: Vec<u8>,
    pub envelope: Vec<Line>,
    pub world: Vec<Line>,
    pub goal: Goal,
}

/// What must come of a run.
#[derive(Debug)]
pub enum Goal {
    /// The lines of an `expect` section.
    Expect(Vec<Line>),
    /// A test, which runs in a script of its own, and the result that it must have.
    Test(Vec<u8>, bool),
}

/// A `version` section: the fields of the header, and after an empty line the other edits.
#[derive(Debug, Default)]
pub struct VersionText {
    pub header: Vec<String>,
    pub edits: Vec<Line>,
}

impl Case {
    /// Reads the file of a case. An error says what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut case = Self::default();
        // What holds for the runs from here on: a later section takes the place of an earlier one.
        let mut message = DEFAULT_MESSAGE.as_bytes().to_vec();
        let (mut envelope, mut world) = (Vec::new(), Vec::new());
        for section in sections(text) {
            let title = Line::parse(section.line, section.title)?;
            let is_escaped = title.arguments.last().is_some_and(|word| word == "escaped");
            let bytes = |is_message| section.bytes(is_escaped, is_message);
            let case_run = |goal, line| CaseRun {
                line,
                message: message.clone(),
                envelope: envelope.clone(),
                world: world.clone(),
                goal,
            };
            match title.head.as_str() {
                "script" => match title.argument(0) {
                    Ok("personal") => {
                        let name = title.argument(1)?.to_owned();
                        case.includes.push((Location::Personal, name, bytes(false)?));
                    }
                    Ok("global") => {
                        let name = title.argument(1)?.to_owned();
                        case.includes.push((Location::Global, name, bytes(false)?));
                    }
                    _ if case.script.is_some() => return Err("two scripts".into()),
                    _ => case.script = Some(bytes(false)?),
                },
                "setup" => case.setup = Some(bytes(false)?),
                "message" => message = bytes(true)?,
                "envelope" => envelope = section.lines()?,
                "world" => world = section.lines()?,
                "options" => case.options = section.lines()?,
                "check" => case.check = Some(section.lines()?),
                "expect" => {
                    let goal = Goal::Expect(section.lines()?);
                    case.runs.push(case_run(goal, section.line));
                }
                "true" | "false" => {
                    for (line, test) in section.tests() {
                        let goal = Goal::Test(test.into_bytes(), title.head == "true");
                        case.runs.push(case_run(goal, line));
                    }
                }
                "version" => {
                    let name = title.argument(0)?.to_owned();
                    case.versions.insert(name, section.version()?);
                }
                _ => return Err(title.unknown()),
            }
        }
        case.complete()
    }

    /// Checks that the sections fit together.
    fn complete(self) -> Result<Self, String> {
        let is_test = |case_run: &CaseRun| matches!(case_run.goal, Goal::Test(..));
        if self.script.is_some() && self.setup.is_some() {
            return Err("both `script` and `setup`".into());
        }
        if self.script.is_some() && self.runs.iter().any(is_test) {
            return Err("tests beside a script".into());
        }
        if self.script.is_none() && (self.runs.is_empty() || !self.runs.iter().all(is_test)) {
            return Err("a script is missing".into());
        }
        if self.runs.is_empty() && self.check.is_none() {
            return Err("nothing is expected".into());
        }
        Ok(self)
    }
}

struct Section<'a> {
    /// What follows `===` on its first line.
    title: &'a str,
    /// The number in the file of its first line, from 1.
    line: usize,
    /// The lines after the first.
    lines: Vec<&'a str>,
}

/// Splits a file into sections. What stands before the first one is left out.
fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for (index, line) in text.split_terminator('\n').enumerate() {
        if let Some(title) = line.strip_prefix("===") {
            sections.push(Section { title: title.trim(), line: index + 1, lines: Vec::new() });
        } else if let Some(section) = sections.last_mut() {
            section.lines.push(line);
        }
    }
    sections
}

impl Section<'_> {
    /// Returns the content, with LF as line ends, or CR LF in a message.
    fn bytes(&self, is_escaped: bool, is_message: bool) -> Result<Vec<u8>, String> {
        let end = if is_message { "\r\n" } else { "\n" };
        let mut bytes = Vec::new();
        for line in &self.lines {
            if is_escaped {
                unescape(line, &mut bytes)
                    .ok_or_else(|| format!("section at line {}: bad escape", self.line))?;
            } else {
                bytes.extend_from_slice(line.as_bytes());
            }
            bytes.extend_from_slice(end.as_bytes());
        }
        Ok(bytes)
    }

    /// Returns the lines with their numbers in the file.
    fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines.iter().enumerate().map(|(index, line)| (self.line + index + 1, *line))
    }

    /// Parses the lines that are not blank.
    fn lines(&self) -> Result<Vec<Line>, String> {
        let lines = self.numbered().filter(|(_, line)| !line.trim().is_empty());
        lines.map(|(number, line)| Line::parse(number, line)).collect()
    }

    /// Returns the tests with the numbers of their first lines. A line that begins with a blank
    /// goes on with the test before.
    fn tests(&self) -> Vec<(usize, String)> {
        let mut tests: Vec<(usize, String)> = Vec::new();
        for (number, line) in self.numbered() {
            match tests.last_mut() {
                Some((_, test)) if line.starts_with(' ') => {
                    test.push('\n');
                    test.push_str(line);
                }
                _ if line.is_empty() => {}
                _ => tests.push((number, line.to_owned())),
            }
        }
        tests
    }

    /// Parses a `version` section.
    fn version(&self) -> Result<VersionText, String> {
        let mut version = VersionText::default();
        let mut is_header = true;
        for (number, line) in self.numbered() {
            if line.is_empty() {
                is_header = false;
            } else if is_header {
                version.header.push(line.to_owned());
            } else {
                version.edits.push(Line::parse(number, line)?);
            }
        }
        Ok(version)
    }
}

/// Appends a line with its escapes processed. `\"` stays as it is, for strings of scripts. `None`
/// for an unknown escape.
fn unescape(line: &str, bytes: &mut Vec<u8>) -> Option<()> {
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        rest = after.get(1..)?;
        match after.chars().next()? {
            'r' => bytes.push(b'\r'),
            'n' => bytes.push(b'\n'),
            't' => bytes.push(b'\t'),
            '\\' => bytes.push(b'\\'),
            '"' => bytes.extend_from_slice(b"\\\""),
            'x' => {
                bytes.push(u8::from_str_radix(rest.get(..2)?, 16).ok()?);
                rest = rest.get(2..)?;
            }
            '{' => {
                let (inner, after) = rest.split_once('}')?;
                let (count, text) = inner.split_once(' ')?;
                bytes.extend_from_slice(text.repeat(count.parse().ok()?).as_bytes());
                rest = after;
            }
            _ => return None,
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(())
}

/// Returns the files of cases in a folder, sorted by path. Empty if the folder cannot be read.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    paths
}
