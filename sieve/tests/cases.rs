//! Conformance cases, in `cases/`, one file a case.

mod runner;
mod support;

use std::path::Path;

use runner::case::{Case, files};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");

#[test]
fn every_case_can_be_read() {
    let mut broken = Vec::new();
    for entry in std::fs::read_dir(FOLDER).unwrap().flatten() {
        for path in files(&entry.path()) {
            if let Err(error) = Case::read(&path) {
                broken.push(format!("{}: {error}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(Path::new(FOLDER).join("README.md").exists());
}
