//! Reports what a test needs and this machine lacks: a program, a right, or the corpus of real
//! mail.
//!
//! - If `CI` is set, the test fails: `.ci/setup test` installs what can be installed.
//! - Otherwise the test passes without having tested anything, and a line says so. Test runners
//!   hide the output of passing tests, so the line is also appended to the file that
//!   `RESTANTE_NOT_RUN` names, which `.ci/check` prints at its end.
//!
//! The unit tests of the library include this file, too.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Reports that the calling test was not run because `what` is missing.
///
/// # Panics
/// If `CI` is set.
pub(crate) fn report_missing(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "lacking here: {what}");
    let line =
        format!("NOT RUN: {}: lacking {what}", std::thread::current().name().unwrap_or("a test"));
    eprintln!("{line}");
    if let Some(file) = std::env::var_os("RESTANTE_NOT_RUN") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
        file.and_then(|mut file| writeln!(file, "{line}"))
            .expect("the file that RESTANTE_NOT_RUN names");
    }
}

/// Returns the folder of the corpus: `RESTANTE_CORPUS`, or `../shared/corpus` beside the checkout.
/// If it has no corpus, this is reported as `report_missing` does, and `None` is returned.
pub(crate) fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("RESTANTE_CORPUS").map(PathBuf::from);
    let folder =
        folder.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus"));
    if folder.join("expect.tsv").is_file() {
        return Some(folder);
    }
    report_missing(&format!(
        "a corpus in {}; RESTANTE_CORPUS names another place",
        folder.display()
    ));
    None
}
