//! Runs the fuzz bodies of this package on stable Rust with their seeds in `fuzz/corpus` and with
//! mutations of the seeds, and some of them with the corpus of real mail. Those of the Sieve engine
//! are run by `sieve/tests/fuzz.rs`.
//!
//! - `RESTANTE_FUZZ` is the number of mutations of each seed (default: the number beside the name
//!   of the body, below). `RESTANTE_SEED` chooses the random numbers (default: 0).
//! - The beginning of an input that fails is printed, escaped.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use super::*;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// Returns the seeds of a body. Those of `lmtp` include the dialogs.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = root().join("fuzz/corpus").join(name);
    let mut seeds: Vec<Vec<u8>> =
        files(&folder).iter().map(|file| fs::read(file).unwrap()).collect();
    if name == "lmtp" {
        seeds.extend(files(&root().join("tests/dialogs")).iter().map(|file| client_lines(file)));
    }
    assert!(!seeds.is_empty(), "no seeds in {}", folder.display());
    seeds
}

/// Returns the lines `C:` of a dialog of `tests/dialogs`, which the client sends with CRLF. Lines
/// `c:` are left out.
fn client_lines(file: &Path) -> Vec<u8> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("C:"));
    let sent = lines.map(|line| format!("{}\r\n", line.strip_prefix(' ').unwrap_or(line)));
    sent.collect::<String>().into_bytes()
}

const MAX_SHOWN_BYTES: usize = 4096;

/// Runs a body, and prints the beginning of the input if the body fails.
fn run(name: &str, body: FuzzBody, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(input))) {
        let shown = input.get(..MAX_SHOWN_BYTES).unwrap_or(input);
        eprintln!("{name} fails for {} bytes, b\"{}\"", input.len(), shown.escape_ascii());
        resume_unwind(panic);
    }
}

/// Runs a body with no input, with each seed, and with mutations of each seed.
fn replay(name: &str, default: u64) {
    let (_, body) = BODIES.iter().find(|(other, _)| *other == name).expect("a body");
    let seeds = seeds(name);
    run(name, *body, b"");
    for seed in &seeds {
        run(name, *body, seed);
    }
    let mut rng = InputRng::of(&setting("RESTANTE_SEED").unwrap_or(0).to_be_bytes());
    for seed in &seeds {
        for _ in 0..setting("RESTANTE_FUZZ").unwrap_or(default) {
            let mut input = seed.clone();
            for _ in 0..=rng.upto(4) {
                mutate(&mut input, &seeds, &mut rng);
            }
            run(name, *body, &input);
        }
    }
}

/// Changes an input at a random place in one of seven ways.
fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut InputRng) {
    let at = rng.upto(input.len());
    let end = (at + rng.upto(16)).min(input.len());
    match rng.upto(6) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << rng.upto(7);
            }
        }
        1 => input.insert(at, u8::try_from(rng.upto(255)).unwrap()),
        2 => drop(input.drain(at..end)),
        3 => {
            let part = input[at..end].repeat(1 + rng.upto(3));
            input.splice(at..at, part);
        }
        4 => {
            let other = &seeds[rng.upto(seeds.len() - 1)];
            let from = rng.upto(other.len());
            let to = (from + rng.upto(64)).min(other.len());
            input.splice(at..end, other[from..to].iter().copied());
        }
        5 => {
            let words: [&[u8]; 12] = [
                b"\r\n",
                b"\n",
                b"\r",
                b".",
                b"\0",
                b"\xff\xff\xff\xff\xff\xff\xff\xff",
                b"\"",
                b"\\",
                b"(",
                b"<",
                b"\xc2\x85",
                b"99999999999999999999",
            ];
            input.splice(at..at, words[rng.upto(words.len() - 1)].iter().copied());
        }
        _ => input.truncate(at),
    }
}

macro_rules! replays {
    ($($name:ident: $mutations:literal),* $(,)?) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name), $mutations);
        })*

        #[test]
        fn every_body_has_a_test_and_a_target() {
            let names: Vec<&str> = BODIES.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
            let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
            for name in names {
                assert!(
                    manifest.contains(&format!("name = \"{name}\"")),
                    "fuzz/Cargo.toml lacks {name}"
                );
                let path = root().join(format!("fuzz/fuzz_targets/{name}.rs"));
                let target = fs::read_to_string(path).unwrap();
                assert!(target.contains(&format!("restante::fuzzing::{name}(data)")), "{name}");
            }
        }
    };
}

replays! {
    adapt: 300,
    address: 300,
    command: 300,
    config: 200,
    damage: 100,
    date: 200,
    decode: 300,
    dot: 100,
    draft: 100,
    filter: 100,
    fold: 300,
    folder: 200,
    http: 300,
    jmap: 300,
    key: 200,
    lmtp: 60,
    managesieve: 200,
    mbox: 200,
    message: 200,
    reply: 200,
    report: 300,
    request: 40,
    results: 200,
    row: 300,
    sasl: 300,
    search: 200,
    sign: 100,
    store: 60,
    structure: 200,
    view: 200,
}

#[test]
fn bodies_accept_the_corpus_of_real_mail() {
    let Some(folder) = crate::needs::corpus() else { return };
    let mut count = 0;
    for entry in fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
    {
        for file in files(&entry)
            .into_iter()
            .filter(|file| file.extension().is_some_and(|kind| kind == "eml"))
        {
            let raw = fs::read(&file).unwrap();
            for (name, body) in BODIES.iter().filter(|(name, _)| {
                [
                    "decode",
                    "message",
                    "reply",
                    "report",
                    "results",
                    "search",
                    "dot",
                    "mbox",
                    "structure",
                    "view",
                ]
                .contains(name)
            }) {
                run(&format!("{name} ({})", file.display()), *body, &raw);
            }
            count += 1;
        }
    }
    assert!(count > 500, "a corpus of {count}");
}

#[test]
fn postings_with_another_text_ordinal_or_field_have_other_entries() {
    use super::rows::entries_of;
    use crate::model::{Positions, Token};
    use crate::store::row::block::Posting;
    let posting = |text: &str, ordinal, fields| {
        let (token, positions) = (Token::Text(text.into()), Positions::default());
        Posting { token, ordinal, fields, positions }
    };
    let one = entries_of(&[posting("org.example@ann", 3, 1)]);
    assert_ne!(one, entries_of(&[]));
    for other in [
        posting("org.example@bob", 3, 1),
        posting("org.example@ann", 4, 1),
        posting("org.example@ann", 3, 2),
    ] {
        assert_ne!(one, entries_of(&[other]));
    }
}
