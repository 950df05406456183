//! Checks how the code and its documents are written.
//!
//! - No line of Rust, or of the scripts, manifests, units and filters in [`SCRIPTS`], has more than
//!   100 columns.
//! - No doc comment has only one or two words: the name of the item says as much.
//! - No comment, text or document calls a client or a user "he" or "she": they name the client,
//!   the owner, the guest or the sender.
#![allow(clippy::panic, clippy::expect_used, reason = "test code")]

#[path = "layering/scanner.rs"]
#[allow(dead_code, reason = "it also finds which module names which")]
mod scanner;

use std::fs;
use std::path::{Path, PathBuf};

use scanner::{root, sources};

/// The most columns of a line, counted in characters.
const MAX_COLUMNS: usize = 100;

/// The fewest words of a doc comment.
const MIN_DOC_WORDS: usize = 3;

/// Folders with Rust files.
const CODE: [&str; 6] =
    ["src", "tests", "benches", "fuzz/fuzz_targets", "sieve/src", "sieve/tests"];

/// Files and folders of scripts, manifests, units and filters.
const SCRIPTS: [&str; 11] = [
    ".cargo",
    ".ci/check",
    ".ci/env",
    ".ci/jmap-conformance",
    ".ci/mutations",
    ".ci/rfc-xref",
    ".ci/setup",
    "Cargo.toml",
    "sieve/Cargo.toml",
    "sieve/scripts",
    "systemd",
];

/// Files and folders that people read.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "docs", "sieve/README.md"];

const PRONOUNS: [&str; 8] = ["he", "his", "him", "himself", "she", "her", "hers", "herself"];

/// Files that may have such a pronoun, and the reason.
const QUOTED: [(&str, &str); 3] = [
    ("tests/words.rs", "it lists the pronouns"),
    ("benches/words.rs", "its words are the most frequent ones of English"),
    ("src/message/report/tests.rs", "it quotes the example of RFC 3464"),
];

/// A text file: its path below the root, and its text.
struct File {
    path: String,
    text: String,
}

fn code() -> Vec<File> {
    let files = CODE.into_iter().flat_map(sources);
    files
        .map(|source| File { path: source.path.display().to_string(), text: source.text })
        .collect()
}

/// The files of a list of files and folders.
fn files(list: &[&str]) -> Vec<File> {
    let mut found = Vec::new();
    let mut paths: Vec<PathBuf> = list.iter().map(|path| root().join(path)).collect();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder that can be read");
            paths.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else {
            let text = fs::read_to_string(&path).expect("a file of UTF-8");
            found.push(File { path: name(&path), text });
        }
    }
    found
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).expect("a path below the root").display().to_string()
}

/// The lines that `complaint` finds fault with, each as `FILE:LINE: what`.
fn faults(files: &[File], complaint: impl Fn(&File, &str) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        for (at, line) in file.text.lines().enumerate() {
            if let Some(what) = complaint(file, line) {
                found.push(format!("{}:{}: {what}", file.path, at + 1));
            }
        }
    }
    found
}

#[test]
fn lines_have_at_most_100_columns() {
    let mut files = files(&SCRIPTS);
    files.extend(code());
    assert!(files.len() > 500, "only {} files were found", files.len());
    let found = faults(&files, |_, line| {
        let columns = line.chars().count();
        (columns > MAX_COLUMNS).then(|| format!("{columns} columns"))
    });
    assert!(found.is_empty(), "{} lines are too long:\n{}", found.len(), found.join("\n"));
}

#[test]
fn doc_comments_have_more_than_two_words() {
    let files = code();
    let mut seen = 0;
    let mut found = Vec::new();
    for file in &files {
        for (line, comment) in doc_comments(&file.text) {
            seen += 1;
            if comment.split_whitespace().count() < MIN_DOC_WORDS {
                found.push(format!("{}:{line}: {}", file.path, comment.trim()));
            }
        }
    }
    assert!(seen > 3000, "only {seen} doc comments were found");
    let explained = "doc comments that say no more than a name; write a sentence or none";
    assert!(found.is_empty(), "{explained}:\n{}", found.join("\n"));
}

#[test]
fn doc_comments_are_found() {
    let text = "//! A module.\n//! It has two lines.\n\n\
                /// Never.\nfn a() {}\n    /// A\n    /// field.\n";
    let found: Vec<(usize, String)> = doc_comments(text);
    let expected = [(1, " A module. It has two lines."), (4, " Never."), (6, " A field.")];
    assert_eq!(found, expected.map(|(line, comment)| (line, comment.to_owned())));
}

/// The doc comments of a Rust file, each with the number of its first line.
fn doc_comments(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut mark_before = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let mark = ["///", "//!"].into_iter().find(|mark| line.starts_with(mark));
        if let Some(mark) = mark {
            let words = line.trim_start_matches(mark);
            match found.last_mut().filter(|_| mark_before == Some(mark)) {
                Some((_, comment)) => comment.push_str(words),
                None => found.push((at + 1, words.to_owned())),
            }
        }
        mark_before = mark;
    }
    found
}

#[test]
fn nobody_is_called_he_or_she() {
    let mut files = files(&SCRIPTS);
    files.extend(self::files(&DOCUMENTS));
    files.extend(code());
    let found = faults(&files, |file, line| {
        let quoted = QUOTED.iter().any(|(path, _)| *path == file.path);
        let pronoun = words(line).find(|word| PRONOUNS.contains(&word.as_str()));
        pronoun.filter(|_| !quoted)
    });
    assert!(found.is_empty(), "name the person instead:\n{}", found.join("\n"));
}

/// The words of a line in lower case. An identifier is one word.
fn words(line: &str) -> impl Iterator<Item = String> {
    let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}
