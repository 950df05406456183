//! What a test needs and a machine may lack: programs, rights, the corpus of real mail.
//!
//! - Where `CI` is set, what is lacking is a failure: `.ci/setup test` installs all that it can.
//! - Elsewhere the test passes without having proved anything and says so. Runners hide what a
//!   passing test prints, so the line is also appended to the file that `RESTANTE_NOT_RUN` names;
//!   `.ci/check` prints it at its end.
//!
//! The unit tests of the library include this file, too.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Reports that the calling test proves nothing here, for lack of `what`.
///
/// # Panics
/// Where `CI` is set.
pub(crate) fn lacking(what: &str) {
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

/// The folder of the corpus: `RESTANTE_CORPUS`, else `../shared/corpus` beside the checkout.
pub(crate) fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("RESTANTE_CORPUS").map(PathBuf::from);
    let folder =
        folder.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus"));
    if folder.join("expect.tsv").is_file() {
        return Some(folder);
    }
    lacking(&format!("a corpus in {}; RESTANTE_CORPUS names another place", folder.display()));
    None
}
