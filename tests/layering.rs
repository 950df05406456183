//! Checks the architecture: which rooms a room may name, which files may name one another, which
//! modules own a foreign crate, how long a file may be, that the tree in `src/lib.rs` has every
//! room and folder, and that a type name has one meaning.
//!
//! Comments and strings are skipped, so links in comments may point anywhere. A new room needs a
//! row in [`ROOMS`].
#![allow(clippy::panic, clippy::expect_used, reason = "test code")]

#[path = "layering/scanner.rs"]
mod scanner;
#[path = "layering/store.rs"]
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use scanner::{Source, heads, root, sources, words};

/// Each room, its layer, and the rooms that it may name. `*` is every lower layer. Every room above
/// layer 0 may also name `trace`.
const ROOMS: &[(&str, u8, &[&str])] = &[
    ("model", 0, &[]),
    ("trace", 0, &[]),
    ("wire", 1, &["model"]),
    ("message", 1, &["model"]),
    ("store", 2, &["model"]),
    ("vacation", 2, &["model", "message"]),
    ("outbox", 2, &["model", "message"]),
    ("proof", 2, &["model", "message"]),
    ("account", 3, &["model", "wire", "vacation", "store"]),
    ("filter", 3, &["model", "message", "vacation", "store"]),
    ("query", 3, &["model", "message", "store"]),
    ("upkeep", 3, &["model", "message", "store"]),
    (
        "deliver",
        4,
        &["model", "wire", "message", "vacation", "outbox", "store", "account", "filter"],
    ),
    ("queue", 4, &["model", "message", "outbox", "proof", "store", "account"]),
    (
        "jmap",
        4,
        &["model", "wire", "message", "vacation", "outbox", "store", "account", "filter", "query"],
    ),
    ("transfer", 4, &["model", "message", "store"]),
    ("net", 5, &["*"]),
    ("config", 6, &["*"]),
    ("cli", 7, &["*"]),
    // The bodies of the fuzz targets. No room may name them, because no layer is above.
    ("fuzzing", 8, &["*"]),
];

/// Foreign crates with owners: only these modules, and those below them, may name the crate.
const OWNERS: &[(&str, &[&str])] = &[
    ("mail_parser", &["message::parse"]),
    ("mail_builder", &["message::compose"]),
    ("mail_send", &["queue::send"]),
    ("mail_auth", &["proof"]),
    ("aws_lc_rs", &["proof::sign", "jmap::blob::management", "net::push::encrypt", "wire::sasl"]),
    ("psl", &["proof::domain"]),
    ("encodify", &["message::decode", "model::hex"]),
    ("rocksdb", &["store::engine::rocks"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("comfy_table", &["cli"]),
    ("indicatif", &["cli"]),
    // `filter` gives the Sieve engine its times as types of `jiff`.
    ("jiff", &["model::clock", "cli", "filter"]),
    ("restante_sieve", &["filter", "fuzzing"]),
    ("axum", &["net"]),
    ("tower_http", &["net"]),
    ("zstd_safe", &["net", "store"]),
    ("rustls_native_certs", &["net::push"]),
    ("tokio_tungstenite", &["net::http::handshake", "net::http::websocket"]),
    ("hyper", &["net", "cli"]),
    ("hyper_util", &["net", "cli"]),
    ("toml", &["config"]),
    ("prometheus_client", &["trace::metrics"]),
    // Below the rooms that speak with the outside, asynchronous code waits for the committer's
    // ticket and for name servers, and `deliver` parses long messages on another thread.
    (
        "tokio",
        &[
            "net",
            "queue",
            "cli",
            "deliver",
            "store::txn::committer",
            "store::tests::alone",
            "proof::verify",
            "proof::sign::tests",
        ],
    ),
];

/// Files that name one another in a circle, and the reason.
type ListedCircle = (&'static [&'static str], &'static str);

/// Rooms whose files may not name one another in a circle (`second_level`), and the circles that
/// remain, each with its reason. `layering/store.rs` checks the store.
const CIRCLES: &[(&str, &[ListedCircle])] = &[
    ("model", &[]),
    ("trace", &[]),
    ("wire", &[]),
    (
        "message",
        &[(
            &["header", "parse"],
            "a field is read by parse; parse finds the fields of a part by header",
        )],
    ),
    ("vacation", &[]),
    ("outbox", &[]),
    ("proof", &[]),
    ("account", &[]),
    ("filter", &[]),
    ("upkeep", &[]),
    ("deliver", &[]),
    ("queue", &[]),
    ("jmap", &[]),
    ("transfer", &[]),
    ("net", &[]),
    ("cli", &[]),
    (
        "config",
        &[
            (
                &["check", "load"],
                "loading ends with the check, which reports its problems as the loader does",
            ),
            (
                &["convert", "http", "managesieve"],
                "`[http]` and `[managesieve]` are converted beside their sections, with the \
                 helpers of the other sections",
            ),
        ],
    ),
    ("query", &[]),
];

/// The most lines of a file. Files of unit tests (`tests.rs`, `*_tests.rs`) are exempt.
const MAX_LINES: usize = 500;

#[test]
fn rooms_name_only_rooms_below() {
    let mut wrong = Vec::new();
    for source in sources("src") {
        let Some(room) = source.module.first() else { continue };
        let Some((_, layer, allowed)) = ROOMS.iter().find(|(name, ..)| name == room) else {
            wrong.push(format!("{}: the room `{room}` is not in the table", source.path.display()));
            continue;
        };
        for (named, line) in source.rooms_named() {
            let Some((_, other, _)) = ROOMS.iter().find(|(name, ..)| *name == named) else {
                continue;
            };
            let fine = named == *room
                || (named == "trace" && *layer > 0)
                || allowed.contains(&named.as_str())
                || (allowed.contains(&"*") && other < layer);
            if !fine {
                wrong.push(format!("{}:{line}: `{room}` names `{named}`", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "against the table of layers:\n{}", wrong.join("\n"));
}

#[test]
fn files_of_a_room_name_each_other_in_no_circle() {
    let all = sources("src");
    for (room, listed) in CIRCLES {
        let found = circles(&second_level(room, &all));
        let mut known: Vec<BTreeSet<&str>> =
            listed.iter().map(|(files, _)| files.iter().copied().collect()).collect();
        known.sort();
        let found: Vec<BTreeSet<&str>> =
            found.iter().map(|circle| circle.iter().map(String::as_str).collect()).collect();
        assert_eq!(found, known, "circles between the files of `{room}`, found and listed");
        assert!(
            listed.iter().all(|(_, reason)| !reason.is_empty()),
            "a circle of `{room}` has no reason"
        );
    }
}

/// Returns which files or folders of a room name which others. Tests are left out, and so is the
/// file that declares the room's modules: a name that it re-exports counts as a name of the module
/// that defines it.
fn second_level(room: &str, all: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let of_room =
        || all.iter().filter(|source| source.module.first().is_some_and(|first| first == room));
    let declared: Vec<(String, usize)> = of_room()
        .filter(|source| source.module.len() == 1)
        .flat_map(|source| words(&source.text))
        .collect();
    let word = |at: usize| declared.get(at).map_or("", |(word, _)| word.as_str());
    let (mut modules, mut exports) = (BTreeSet::new(), BTreeMap::new());
    for at in 0..declared.len() {
        // The seven words of `#[cfg(test)]` stand before the module.
        let is_test = at >= 7 && (at - 7..at).any(|near| word(near) == "test");
        match word(at) {
            "mod" if word(at + 2) == ";" && !is_test => {
                modules.insert(word(at + 1).to_owned());
            }
            "use" if word(at + 2) == "::" => {
                exports.extend(
                    heads(&declared, at + 3)
                        .into_iter()
                        .map(|(name, _)| (name, word(at + 1).to_owned())),
                );
            }
            _ => {}
        }
    }
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in of_room() {
        let is_test = source.module.iter().any(|part| part == "tests" || part.ends_with("_tests"));
        let Some(own) = source.module.get(1).filter(|own| modules.contains(*own) && !is_test)
        else {
            continue;
        };
        let text = source.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let outside = Source {
            path: source.path.clone(),
            module: source.module.clone(),
            text: text.to_owned(),
        };
        for (name, _) in outside.siblings_named() {
            let other = exports.get(&name).unwrap_or(&name);
            if other != own && modules.contains(other) {
                named.entry(own.clone()).or_default().insert(other.clone());
            }
        }
    }
    named
}

/// Returns the largest sets of nodes in which each node leads to every other one.
fn circles(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<BTreeSet<String>> {
    let reached = |from: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(node) = next.pop() {
            for other in edges.get(&node).into_iter().flatten() {
                if seen.insert(other.clone()) {
                    next.push(other.clone());
                }
            }
        }
        seen
    };
    let all: BTreeMap<&String, BTreeSet<String>> =
        edges.keys().map(|node| (node, reached(node))).collect();
    let mut found: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for (node, reach) in all.iter().filter(|(node, reach)| reach.contains(**node)) {
        let circle =
            reach.iter().filter(|other| all.get(other).is_some_and(|back| back.contains(*node)));
        found.insert(circle.cloned().collect());
    }
    found.into_iter().collect()
}

#[test]
fn circles_are_found() {
    let edges = |pairs: &[(&str, &str)]| {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in pairs {
            edges.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        edges
    };
    assert!(circles(&edges(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    let found = circles(&edges(&[
        ("a", "b"),
        ("b", "c"),
        ("c", "b"),
        ("c", "d"),
        ("e", "f"),
        ("f", "g"),
        ("g", "e"),
    ]));
    let found: Vec<Vec<&str>> =
        found.iter().map(|circle| circle.iter().map(String::as_str).collect()).collect();
    assert_eq!(found, [vec!["b", "c"], vec!["e", "f", "g"]]);
    let text = "//! x\nmod a; pub mod b;\n#[cfg(test)]\nmod tests;\npub use b::{Bee, Sea as C};";
    let source = |module: &[&str], text: &str| Source {
        path: PathBuf::new(),
        module: module.iter().map(|part| (*part).to_owned()).collect(),
        text: text.to_owned(),
    };
    let room = [
        source(&["queue"], text),
        source(
            &["queue", "a"],
            "use super::Bee;\n#[cfg(test)]\nmod tests { use super::super::b; }",
        ),
        source(&["queue", "b", "inner"], "fn f() { crate::queue::a::g(); super::own(); }"),
        source(&["queue", "tests"], "use super::a;"),
    ];
    assert_eq!(second_level("queue", &room), edges(&[("a", "b"), ("b", "a")]));
}

#[test]
fn main_rs_is_short() {
    let main = fs::read_to_string(root().join("src/main.rs")).expect("src/main.rs");
    assert!(
        main.lines().count() < 60,
        "src/main.rs is long: only the call of the library belongs there"
    );
}

#[test]
fn foreign_crates_are_named_only_by_their_owners() {
    let mut wrong = Vec::new();
    for source in sources("src") {
        if source.module.is_empty() {
            continue;
        }
        let module = source.module.join("::");
        for (name, line) in source.crates_named() {
            let Some((_, owners)) = OWNERS.iter().find(|(owned, _)| *owned == name) else {
                continue;
            };
            if !owners
                .iter()
                .any(|owner| module == *owner || module.starts_with(&format!("{owner}::")))
            {
                let owners = owners.join("`, `");
                wrong.push(format!(
                    "{}:{line}: `{name}` belongs to `{owners}`",
                    source.path.display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "foreign crates outside of their rooms:\n{}", wrong.join("\n"));
}

#[test]
fn every_room_is_declared_in_lib_rs_and_private() {
    let library = fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs");
    for (room, ..) in ROOMS {
        // The fuzz targets are separate crates.
        let reach = if *room == "fuzzing" { "pub" } else { "pub(crate)" };
        let line = format!("\n{reach} mod {room};\n");
        assert!(library.contains(&line), "src/lib.rs lacks `{}`", line.trim());
    }
}

/// The tree in `src/lib.rs` has one line for each room but `fuzzing`, and for each folder of a
/// room, except for folders of tests. The name of a room begins at byte 13 of its line, that of a
/// folder at byte 15.
#[test]
fn the_tree_in_lib_rs_has_every_room_and_folder() {
    let library = fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs");
    let tree = library.split("```text\n").nth(1).and_then(|rest| rest.split("//! ```").next());
    let mut described = BTreeSet::new();
    let mut room = "";
    for line in tree.expect("a tree in src/lib.rs").lines() {
        let name = |from: usize| line.get(from..).and_then(|rest| rest.split(' ').next());
        match (name(13).filter(|name| !name.is_empty()), name(15)) {
            (Some(name), _) => {
                room = name;
                described.insert(name.to_owned());
            }
            (None, Some(folder)) => {
                described.insert(format!("{room}/{folder}"));
            }
            (None, None) => {}
        }
    }
    let mut expected: BTreeSet<String> =
        ROOMS.iter().map(|(room, ..)| (*room).to_owned()).collect();
    // The text below the tree describes `fuzzing`.
    expected.remove("fuzzing");
    for source in sources("src") {
        let is_test = source.module.iter().any(|part| part == "tests" || part.ends_with("_tests"));
        if let [room, folder, _, ..] = source.module.as_slice()
            && expected.contains(room)
            && !is_test
        {
            expected.insert(format!("{room}/{folder}"));
        }
    }
    assert_eq!(described, expected, "the tree in src/lib.rs and the folders of src/");
}

#[test]
fn files_have_at_most_500_lines() {
    let mut wrong = Vec::new();
    for folder in ["src", "tests", "benches"] {
        for source in sources(folder) {
            let name =
                source.path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
            let lines = source.text.lines().count();
            if lines > MAX_LINES && name != "tests.rs" && !name.ends_with("_tests.rs") {
                wrong.push(format!("{}: {lines} lines", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "longer than {MAX_LINES} lines:\n{}", wrong.join("\n"));
}

/// Type names that several rooms may define. Other rooms name them with their room.
const SHARED_NAMES: &[&str] = &["Settings", "Error", "Inner", "Command"];

/// A type name has one meaning in the whole crate (docs/glossary.md). Names that tests define for
/// themselves, and the tables of the store, which `table!` names as they are called on disk, are
/// not looked at.
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
            let (Some("struct" | "enum" | "trait" | "type" | "union"), Some(name)) =
                (words.next(), words.next())
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
fn scanner_finds_named_rooms_and_crates_but_not_in_comments_and_strings() {
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
    // `super::own` in `inner` stays in `deliver`.
    assert_eq!(named, ["model", "store", "wire", "message", "outbox", "proof", "deliver"]);
    let crates: Vec<String> = source.crates_named().into_iter().map(|(name, _)| name).collect();
    // `my::clap` is another module.
    assert_eq!(crates.iter().filter(|name| *name == "clap").count(), 1);
}

#[test]
fn raw_strings_of_every_kind_are_no_code() {
    for string in ["r\"a\"", "br\"a\"", "r#\"a\"b\"#", "br#\"a\"b\"#", "cr##\"a\"#b\"##"] {
        let found: Vec<String> =
            words(&format!("x = {string}; r#y")).into_iter().map(|(word, _)| word).collect();
        assert_eq!(found, ["x", "=", ";", "r", "#", "y"], "{string}");
    }
}
