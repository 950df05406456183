//! Checks `docs/conformance.md`: the cases and tests that its tables name exist, and the list of
//! each RFC names exactly the sections that have cases.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The beginning of the line that lists the sections of an RFC that have cases.
const SECTIONS: &str = "Sections with cases: ";

/// The names of the cases of each folder, without `.txt`.
type Cases = BTreeMap<String, BTreeSet<String>>;

/// Returns the paths of all files and folders right in a folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Returns the name of a file without its folder and extension.
fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Returns all cases of the package.
fn cases() -> Cases {
    let folders = entries(&Path::new(ROOT).join("tests/cases"));
    let folders = folders.into_iter().filter(|path| path.is_dir());
    folders
        .map(|path| (name(&path), entries(&path).iter().map(|file| name(file)).collect()))
        .collect()
}

/// Adds the names of the test functions in the Rust files of a folder and of those in it.
fn add_tests(folder: &Path, tests: &mut BTreeSet<String>) {
    for path in entries(folder) {
        if path.is_dir() {
            add_tests(&path, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                let start = line.find("fn ").filter(|_| !line.starts_with("//"));
                if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                    is_test = true;
                } else if let Some(start) = start.filter(|_| is_test) {
                    let rest = &line[start + 3..];
                    let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
                    tests.insert(rest[..end.unwrap_or(rest.len())].to_owned());
                    is_test = false;
                }
            }
        }
    }
}

/// Returns the names of the test functions in folders, which are given from the package.
fn tests(folders: &[&str]) -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for folder in folders {
        add_tests(&Path::new(ROOT).join(folder), &mut tests);
    }
    tests
}

/// Returns what stands between backticks in a text.
fn references(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the folder that a heading is about: `rfc5228` for `RFC 5228: the base language`.
fn folder(heading: &str) -> String {
    let name = heading.split(':').next().unwrap_or_default();
    name.to_ascii_lowercase().replace(' ', "")
}

/// Returns the section that a case is about: `2.4.2` for `2.4.2-empty-text`.
fn section(case: &str) -> &str {
    case.split('-').next().unwrap_or_default()
}

/// The cases and tests to which the names in a table refer.
struct Known {
    cases: Cases,
    /// The tests of the package.
    tests: BTreeSet<String>,
    /// The tests of the program that runs the scripts. `None` if the package stands without it;
    /// then every name with `host::` counts as known.
    host: Option<BTreeSet<String>>,
}

impl Known {
    fn new() -> Self {
        let is_there = Path::new(ROOT).join("../src/filter").is_dir();
        let host = is_there.then(|| tests(&["../src", "../tests"]));
        Self { cases: cases(), tests: tests(&["src", "tests"]), host }
    }

    /// Returns whether a name is a test of the host (`host::name`), a test of the package
    /// (`name_of_it`), a case of another folder (`folder/case`) or a case of `folder`.
    fn has(&self, folder: &str, name: &str) -> bool {
        if let Some(test) = name.strip_prefix("host::") {
            return self.host.as_ref().is_none_or(|tests| tests.contains(test));
        }
        let (folder, case) = name.split_once('/').unwrap_or((folder, name));
        self.tests.contains(name) || self.cases.get(folder).is_some_and(|all| all.contains(case))
    }

    /// Returns what is wrong with a row of a table, `None` if nothing is.
    fn check_row(&self, folder: &str, row: &str) -> Option<String> {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [_, _, level, shown] = cells[..] else {
            return Some("a row has four columns".to_owned());
        };
        if !["MUST", "SHOULD", "-"].contains(&level) {
            return Some(format!("the level {level}"));
        }
        let names: Vec<&str> = references(shown).collect();
        if let Some(name) = names.iter().find(|name| !self.has(folder, name)) {
            return Some(format!("there is no case or test {name}"));
        }
        let is_shown = !names.is_empty() || shown.starts_with("no test: ");
        (!is_shown).then(|| "neither a case nor \"no test:\" and a reason".to_owned())
    }
}

#[test]
fn every_case_and_test_of_the_tables_exists() {
    let text = fs::read_to_string(Path::new(ROOT).join("docs/conformance.md")).unwrap();
    let known = Known::new();
    let mut wrong = Vec::new();
    let mut current = String::new();
    let mut rows = 0;
    for (number, line) in text.lines().enumerate() {
        if let Some(heading) = line.strip_prefix("## ") {
            current = folder(heading);
        }
        let is_row = line.starts_with("| ") && !line.starts_with("| § ");
        rows += usize::from(is_row);
        if let Some(error) = known.check_row(&current, line).filter(|_| is_row) {
            wrong.push(format!("line {}: {error}", number + 1));
        }
    }
    // The number shows that the rows were found.
    assert!(wrong.is_empty() && rows > 200, "{rows} rows\n{}", wrong.join("\n"));
}

#[test]
fn every_section_with_cases_is_listed() {
    let text = fs::read_to_string(Path::new(ROOT).join("docs/conformance.md")).unwrap();
    let mut listed: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            current = folder(heading);
        } else if let Some(list) = line.strip_prefix(SECTIONS) {
            let sections = list.split(", ").collect();
            assert!(listed.insert(current.clone(), sections).is_none(), "{current} twice");
        }
    }
    let cases = cases();
    // The cases of `clients` belong to no RFC.
    let found: BTreeMap<String, BTreeSet<&str>> = cases
        .iter()
        .filter(|(folder, _)| *folder != "clients")
        .map(|(folder, all)| (folder.clone(), all.iter().map(|case| section(case)).collect()))
        .collect();
    assert_eq!(listed, found);
}
