//! Runs the conformance cases in `cases/`, one file for each case.
//!
//! - With `SIEVE_CASES` in the environment, only cases run whose path contains its value.
//! - `cases/open.txt` lists the cases that are known to fail. A test fails if one of them passes:
//!   its line must be removed.

mod runner;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;
use std::path::Path;

use restante_sieve::{CompileOptions, check};
use runner::case::{Case, files};
use runner::laws::{cases, check_beginnings, format_twice, run_twice, scripts};
use runner::run::failures;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");

/// Runs the cases of a folder, and panics with a list of those that fail.
fn run_folder(name: &str) {
    let filter = std::env::var("SIEVE_CASES").unwrap_or_default();
    let open = std::fs::read_to_string(Path::new(FOLDER).join("open.txt")).unwrap_or_default();
    let mut broken = Vec::new();
    let mut count = 0;
    for path in files(&Path::new(FOLDER).join(name)) {
        let file = format!("{name}/{}", path.file_name().unwrap_or_default().to_string_lossy());
        if !file.contains(&filter) {
            continue;
        }
        count += 1;
        let result = Case::read(&path).map(|case| catch_unwind(|| failures(&case)));
        let failures = match result {
            Ok(Ok(failures)) => failures,
            Ok(Err(_)) => vec!["a panic".to_owned()],
            Err(error) => vec![error],
        };
        match (failures.is_empty(), open.lines().any(|line| line == file)) {
            (true, true) => broken.push(format!("{file}: passes, but stands in open.txt")),
            (true, false) | (false, true) => {}
            (false, false) => broken.push(format!("{file}:\n    {}", failures.join("\n    "))),
        }
    }
    assert!(broken.is_empty(), "{} of {count} cases:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn every_open_case_exists() {
    let open = std::fs::read_to_string(Path::new(FOLDER).join("open.txt")).unwrap_or_default();
    for file in open.lines() {
        assert!(Path::new(FOLDER).join(file).exists(), "{file}");
    }
}

#[test]
fn the_beginnings_of_scripts_are_checked() {
    let scripts: BTreeSet<Vec<u8>> = cases(Path::new(FOLDER)).iter().flat_map(scripts).collect();
    let wrong: Vec<String> = scripts.iter().filter_map(|own| check_beginnings(own)).collect();
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong[..wrong.len().min(20)].join("\n---\n"));
}

#[test]
fn formatted_scripts_mean_the_same() {
    let scripts: BTreeSet<Vec<u8>> = cases(Path::new(FOLDER)).iter().flat_map(scripts).collect();
    let wrong: Vec<String> = scripts.iter().filter_map(|own| format_twice(own)).collect();
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong[..wrong.len().min(20)].join("\n---\n"));
}

#[test]
fn scripts_run_on_messages_of_other_cases() {
    let cases = cases(Path::new(FOLDER));
    let runs = cases.iter().flat_map(|case| &case.runs);
    let messages: BTreeSet<&[u8]> = runs.map(|run| run.message.as_slice()).collect();
    let messages: Vec<&[u8]> = messages.into_iter().filter(|raw| raw.len() < 5000).collect();
    let sources: BTreeSet<Vec<u8>> = cases.iter().flat_map(scripts).collect();
    let mut wrong = BTreeMap::new();
    for (number, source) in sources.iter().enumerate() {
        let Some(script) = check(source, &CompileOptions::default()).script else { continue };
        // Each script meets every ninth message, and neighbours meet different ones.
        for raw in messages.iter().skip(number % 9).step_by(9) {
            if let Some(error) = run_twice(&script, raw) {
                wrong.insert(String::from_utf8_lossy(source), error);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

macro_rules! folders {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                run_folder(stringify!($name));
            }
        )*

        #[test]
        fn every_folder_has_a_test() {
            let entries = std::fs::read_dir(FOLDER).unwrap().flatten();
            let folders: BTreeSet<String> = entries
                .filter(|entry| entry.path().is_dir())
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect();
            let tests = [$(stringify!($name)),*];
            assert_eq!(folders, tests.map(str::to_owned).into_iter().collect());
        }
    };
}

folders! {
    clients regex rfc3894 rfc4790 rfc5051 rfc5173 rfc5183 rfc5228 rfc5229 rfc5230 rfc5231 rfc5232
    rfc5233 rfc5235 rfc5260 rfc5293 rfc5429 rfc5435 rfc5436 rfc5463 rfc5490 rfc5703 rfc6009 rfc6131
    rfc6134 rfc6609 rfc7352 rfc8579 rfc8580 rfc9042
}
