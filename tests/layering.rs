//! The house as a test: which room may name which, who owns each foreign crate, and how long a file may be.
//!
//! It reads the text of `src/` with comments and literals taken out; links in documentation may point anywhere. A new
//! room needs a row in [`ROOMS`] first, and a row that lets a room look up the stairs is a change of the design.
#![allow(clippy::panic, clippy::expect_used, reason = "test code")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Each room, its storey, and the rooms that it may name beside `trace`. `*` is every lower storey.
const ROOMS: &[(&str, u8, &[&str])] = &[
    ("model", 0, &[]),
    ("trace", 0, &[]),
    ("wire", 1, &["model"]),
    ("message", 1, &["model"]),
    ("store", 2, &["model"]),
    ("vacation", 2, &["model", "message"]),
    ("outbox", 2, &["model", "message"]),
    ("proof", 2, &["model", "message"]),
    ("account", 3, &["model", "vacation", "store"]),
    ("query", 3, &["model", "message", "store"]),
    ("upkeep", 3, &["model", "message", "store"]),
    ("deliver", 4, &["model", "wire", "message", "vacation", "outbox", "store", "account"]),
    ("queue", 4, &["model", "message", "outbox", "proof", "store", "account"]),
    ("jmap", 4, &["model", "wire", "message", "vacation", "outbox", "store", "account", "query"]),
    ("transfer", 4, &["model", "message", "store"]),
    ("net", 5, &["*"]),
    ("config", 6, &["*"]),
    ("cli", 7, &["*"]),
    // Bodies of fuzz targets: nothing stands above them, so that nothing may name them.
    ("fuzzing", 8, &["*"]),
];

/// Foreign crates with an owner: the modules (and what is under them) that may name the crate.
const OWNERS: &[(&str, &[&str])] = &[
    ("mail_parser", &["message::parse"]),
    ("mail_builder", &["message::compose"]),
    ("mail_send", &["queue::send"]),
    ("mail_auth", &["proof"]),
    ("aws_lc_rs", &["proof::sign", "jmap::blob::management", "net::push::encrypt"]),
    ("psl", &["proof::domain"]),
    ("encodify", &["message::decode", "model::hex"]),
    ("rocksdb", &["store::engine::rocks"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("comfy_table", &["cli"]),
    ("indicatif", &["cli"]),
    ("jiff", &["model::clock", "cli"]),
    ("axum", &["net"]),
    ("tower_http", &["net"]),
    ("zstd_safe", &["net"]),
    ("rustls_native_certs", &["net::push"]),
    ("tokio_tungstenite", &["net::http::websocket"]),
    ("hyper", &["net", "cli"]),
    ("hyper_util", &["net", "cli"]),
    ("toml", &["config"]),
    // The committer's ticket is the one thing inside that the edges await; `deliver` lends a long parse to other threads.
    ("prometheus_client", &["trace::count"]),
    ("tokio", &["net", "queue", "cli", "deliver", "store::commit::committer", "proof::verify", "proof::sign::tests"]),
];

/// Lines a file may have; files of unit tests (`tests.rs`, `*_tests.rs`) are exempt.
const WALL: usize = 500;

#[test]
fn rooms_name_only_rooms_below() {
    let mut wrong = Vec::new();
    for source in sources("src") {
        let Some(room) = source.module.first() else { continue };
        let Some((_, storey, allowed)) = ROOMS.iter().find(|(name, ..)| name == room) else {
            wrong.push(format!("{}: the room `{room}` is not in the table", source.path.display()));
            continue;
        };
        for (named, line) in source.rooms_named() {
            let Some((_, other, _)) = ROOMS.iter().find(|(name, ..)| *name == named) else { continue };
            let fine = named == *room
                || (named == "trace" && *storey > 0)
                || allowed.contains(&named.as_str())
                || (allowed.contains(&"*") && other < storey);
            if !fine {
                wrong.push(format!("{}:{line}: `{room}` names `{named}`", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "against the table of storeys:\n{}", wrong.join("\n"));
}

#[test]
fn the_program_is_only_a_door() {
    let main = fs::read_to_string(root().join("src/main.rs")).expect("src/main.rs");
    assert!(main.lines().count() < 60, "src/main.rs: arguments in, exit code out, nothing else");
}

#[test]
fn each_foreign_crate_has_one_owner() {
    let mut wrong = Vec::new();
    for source in sources("src") {
        if source.module.is_empty() {
            continue;
        }
        let module = source.module.join("::");
        for (name, line) in source.crates_named() {
            let Some((_, owners)) = OWNERS.iter().find(|(owned, _)| *owned == name) else { continue };
            if !owners.iter().any(|owner| module == *owner || module.starts_with(&format!("{owner}::"))) {
                let owners = owners.join("`, `");
                wrong.push(format!("{}:{line}: `{name}` belongs to `{owners}`", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "foreign crates out of their rooms:\n{}", wrong.join("\n"));
}

#[test]
fn every_room_stands_in_the_library_and_is_private() {
    let library = fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs");
    for (room, ..) in ROOMS {
        // The fuzz targets are crates of their own.
        let reach = if *room == "fuzzing" { "pub" } else { "pub(crate)" };
        let line = format!("\n{reach} mod {room};\n");
        assert!(library.contains(&line), "src/lib.rs lacks `{}`", line.trim());
    }
}

#[test]
fn files_stay_short() {
    let mut wrong = Vec::new();
    for folder in ["src", "tests", "benches"] {
        for source in sources(folder) {
            let name = source.path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
            let lines = source.text.lines().count();
            if lines > WALL && name != "tests.rs" && !name.ends_with("_tests.rs") {
                wrong.push(format!("{}: {lines} lines", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "longer than {WALL} lines:\n{}", wrong.join("\n"));
}

/// Type names that several rooms may define: each room has its own, and names it with the room.
const SHARED_NAMES: &[&str] = &["Settings", "Error", "Inner", "Command"];

/// A type name has one meaning in the whole crate (docs/glossary.md). Names that tests define for themselves, and the
/// tables of the store, which `table!` names as they are called on disk, are not looked at.
#[test]
fn no_type_name_is_defined_in_two_rooms() {
    let mut rooms: BTreeMap<String, BTreeMap<String, PathBuf>> = BTreeMap::new();
    for source in sources("src") {
        let Some(room) = source.module.first() else { continue };
        if source.module.iter().any(|part| part == "tests" || part.ends_with("_tests")) {
            continue;
        }
        for line in source.text.lines() {
            let rest = line.strip_prefix("pub").map_or(line, |rest| match rest.split_once(") ") {
                Some((scope, rest)) if scope.starts_with('(') => rest,
                _ => rest.trim_start(),
            });
            let mut words = rest.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            let (Some("struct" | "enum" | "trait" | "type" | "union"), Some(name)) = (words.next(), words.next())
            else {
                continue;
            };
            rooms.entry(name.to_owned()).or_default().insert(room.clone(), source.path.clone());
        }
    }
    assert!(rooms.len() > 500, "only {} types were found", rooms.len());
    rooms.retain(|name, rooms| rooms.len() > 1 && !SHARED_NAMES.contains(&name.as_str()));
    assert!(rooms.is_empty(), "defined in several rooms: {rooms:#?}");
}

#[test]
fn the_scanner_sees_what_it_should() {
    let text = r##"
        //! `crate::net` in a comment is no name. /* crate::net */
        use crate::{model::{Address, id::EmailId}, store::{self}, /* crate::cli */ wire};
        fn f<'a>(x: &'a str) -> char { let _ = "crate::cli"; let _ = r#"crate::net " "#; '"' }
        pub(crate) fn g() { crate::message::parse(super::super::outbox::X); }
        mod inner { use super::super::super::proof; use super::own; }
        fn h() { clap::Parser::parse(); my::clap::x(); }
    "##;
    let source = Source {
        path: PathBuf::from("src/deliver/plan.rs"),
        module: vec!["deliver".into(), "plan".into()],
        text: text.into(),
    };
    let named: Vec<String> = source.rooms_named().into_iter().map(|(name, _)| name).collect();
    assert_eq!(named, ["model", "store", "wire", "message", "outbox", "proof", "deliver"]);
    let crates: Vec<String> = source.crates_named().into_iter().map(|(name, _)| name).collect();
    assert_eq!(crates.iter().filter(|name| *name == "clap").count(), 1);
}

/// A file of Rust, and the module that it is.
struct Source {
    path: PathBuf,
    module: Vec<String>,
    text: String,
}

impl Source {
    /// First segments of the paths that begin at the crate's root, with their lines.
    fn rooms_named(&self) -> Vec<(String, usize)> {
        let words = words(&self.text);
        let word = |at: usize| words.get(at).map_or("", |(word, _)| word.as_str());
        let mut found = Vec::new();
        let mut inner: Vec<usize> = Vec::new();
        let mut depth = 0usize;
        let mut at = 0;
        while at < words.len() {
            match word(at) {
                "{" => {
                    depth += 1;
                    if at >= 2 && word(at - 2) == "mod" {
                        inner.push(depth);
                    }
                }
                "}" => {
                    if inner.last() == Some(&depth) {
                        inner.pop();
                    }
                    depth = depth.saturating_sub(1);
                }
                "crate" if word(at + 1) == "::" => found.extend(heads(&words, at + 2)),
                "super" if word(at + 1) == "::" && (at == 0 || word(at - 1) != "::") => {
                    let line = words[at].1;
                    let mut up = 1;
                    while word(at + 2) == "super" && word(at + 3) == "::" {
                        up += 1;
                        at += 2;
                    }
                    // Where the path lands; a depth of nothing is the crate's root.
                    let landed = (self.module.len() + inner.len()).saturating_sub(up);
                    if landed == 0 {
                        found.extend(heads(&words, at + 2));
                    } else if let Some(room) = self.module.first() {
                        found.push((room.clone(), line));
                    }
                }
                _ => {}
            }
            at += 1;
        }
        let mut once: Vec<(String, usize)> = Vec::new();
        for (name, line) in found {
            if !once.iter().any(|(known, _)| *known == name) {
                once.push((name, line));
            }
        }
        once
    }

    /// Words that begin a path or a `use`, with their lines.
    fn crates_named(&self) -> Vec<(String, usize)> {
        let words = words(&self.text);
        let word = |at: usize| words.get(at).map_or("", |(word, _)| word.as_str());
        let mut found = Vec::new();
        for (at, (name, line)) in words.iter().enumerate() {
            let begins = at == 0 || word(at - 1) != "::" || (at >= 2 && !is_word(word(at - 2)));
            let path = word(at + 1) == "::" || (at > 0 && word(at - 1) == "use");
            if begins && path && is_word(name) && !matches!(word(at.wrapping_sub(1)), "::") {
                found.push((name.clone(), *line));
            }
        }
        found
    }
}

fn is_word(word: &str) -> bool {
    word.chars().next().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// The name at `at`, or the first names of each branch of the group that opens there.
fn heads(words: &[(String, usize)], at: usize) -> Vec<(String, usize)> {
    let Some((first, line)) = words.get(at) else { return Vec::new() };
    if first != "{" {
        return vec![(first.clone(), *line)];
    }
    let mut found = Vec::new();
    let mut depth = 0usize;
    let mut fresh = true;
    for (word, line) in words.iter().skip(at) {
        match word.as_str() {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            "," if depth == 1 => fresh = true,
            _ if fresh && depth == 1 => {
                found.push((word.clone(), *line));
                fresh = false;
            }
            _ => {}
        }
    }
    found
}

/// The words, `::` and braces of a Rust text with their lines, without comments and literals.
fn words(text: &str) -> Vec<(String, usize)> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut found = Vec::new();
    let (mut i, mut line) = (0, 1);
    while i < chars.len() {
        let start = i;
        match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && at(i) != '\n' {
                    i += 1;
                }
            }
            '/' if at(i + 1) == '*' => {
                let mut nested = 0;
                loop {
                    if at(i) == '/' && at(i + 1) == '*' {
                        nested += 1;
                        i += 2;
                    } else if at(i) == '*' && at(i + 1) == '/' {
                        nested -= 1;
                        i += 2;
                    } else {
                        i += 1;
                    }
                    if nested == 0 || i >= chars.len() {
                        break;
                    }
                }
            }
            'r' if (at(i + 1) == '"' || (at(i + 1) == '#' && matches!(at(i + 2), '"' | '#'))) && !joined(&chars, i) => {
                i += 1;
                let mut hashes = 0;
                while at(i) == '#' {
                    hashes += 1;
                    i += 1;
                }
                i += 1;
                while i < chars.len() && !(at(i) == '"' && (1..=hashes).all(|k| at(i + k) == '#')) {
                    i += 1;
                }
                i += hashes + 1;
            }
            '"' => {
                i += 1;
                while i < chars.len() && at(i) != '"' {
                    i += if at(i) == '\\' { 2 } else { 1 };
                }
                i += 1;
            }
            // A character, or a lifetime.
            '\'' if at(i + 1) == '\\' => {
                i += 3;
                while i < chars.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
            }
            '\'' if at(i + 2) == '\'' => i += 3,
            ':' if at(i + 1) == ':' => {
                found.push(("::".to_owned(), line));
                i += 2;
            }
            c if c.is_alphanumeric() || c == '_' => {
                while at(i).is_alphanumeric() || at(i) == '_' {
                    i += 1;
                }
                found.push((chars[start..i].iter().collect(), line));
            }
            c => {
                if !c.is_whitespace() {
                    found.push((c.to_string(), line));
                }
                i += 1;
            }
        }
        line += chars[start..i.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    found
}

/// Whether the character at `i` belongs to a longer word (a byte-string prefix `b` aside).
fn joined(chars: &[char], i: usize) -> bool {
    let before = i.checked_sub(1).and_then(|k| chars.get(k)).copied().unwrap_or(' ');
    before != 'b' && (before.is_alphanumeric() || before == '_')
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Each Rust file under a folder; an absent folder has none.
fn sources(folder: &str) -> Vec<Source> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).expect("a file of UTF-8");
                files.insert(path, text);
            }
        }
    }
    let top = root().join(folder);
    let module = |path: &Path| -> Vec<String> {
        let mut names: Vec<String> = path
            .strip_prefix(&top)
            .expect("under the folder")
            .with_extension("")
            .components()
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        if names.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
            names.pop();
        }
        names
    };
    files
        .into_iter()
        .map(|(path, text)| Source {
            module: module(&path),
            path: path.strip_prefix(root()).unwrap_or(&path).to_path_buf(),
            text,
        })
        .collect()
}
