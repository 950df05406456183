//! The bodies on stable: every seed of `fuzz/corpus`, mutations of the seeds, and what else the
//! tests have.
//!
//! `RESTANTE_FUZZ` is how many mutations of each seed are tried, `RESTANTE_SEED` throws the dice
//! anew; both together are a small fuzzer without coverage. An input that fails is printed,
//! escaped: it belongs into `fuzz/corpus`, and its cause into a test beside the code.

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

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = root().join("fuzz/corpus").join(name);
    let mut seeds: Vec<Vec<u8>> =
        files(&folder).iter().map(|file| fs::read(file).unwrap()).collect();
    if name == "lmtp" {
        seeds.extend(files(&root().join("tests/dialogs")).iter().map(|file| client_of(file)));
    }
    assert!(!seeds.is_empty(), "no seeds in {}", folder.display());
    seeds
}

/// The client's side of a dialog.
fn client_of(file: &Path) -> Vec<u8> {
    let text = fs::read_to_string(file).unwrap();
    let lines =
        text.lines().filter_map(|line| line.strip_prefix("C: ").map(|said| format!("{said}\r\n")));
    lines.collect::<String>().into_bytes()
}

/// Octets of a failing input that are printed.
const MAX_SHOWN_BYTES: usize = 4096;

fn run(name: &str, body: FuzzBody, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(input))) {
        let shown = input.get(..MAX_SHOWN_BYTES).unwrap_or(input);
        eprintln!("{name} fails for {} octets, b\"{}\"", input.len(), shown.escape_ascii());
        resume_unwind(panic);
    }
}

fn replay(name: &str, most: u64) {
    let (_, body) = BODIES.iter().find(|(known, _)| *known == name).expect("a body");
    let seeds = seeds(name);
    run(name, *body, b"");
    for seed in &seeds {
        run(name, *body, seed);
    }
    let mut dice = InputRng::of(&setting("RESTANTE_SEED").unwrap_or(0).to_be_bytes());
    for seed in &seeds {
        for _ in 0..setting("RESTANTE_FUZZ").unwrap_or(most) {
            let mut input = seed.clone();
            for _ in 0..=dice.upto(4) {
                mutate(&mut input, &seeds, &mut dice);
            }
            run(name, *body, &input);
        }
    }
}

/// One change: an octet, a part taken out, a part said twice, a part of another seed put in.
fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], dice: &mut InputRng) {
    let at = dice.upto(input.len());
    let end = (at + dice.upto(16)).min(input.len());
    match dice.upto(6) {
        0 => {
            if let Some(octet) = input.get_mut(at) {
                *octet ^= 1 << dice.upto(7);
            }
        }
        1 => input.insert(at, u8::try_from(dice.upto(255)).unwrap()),
        2 => drop(input.drain(at..end)),
        3 => {
            let part = input[at..end].repeat(1 + dice.upto(3));
            input.splice(at..at, part);
        }
        4 => {
            let other = &seeds[dice.upto(seeds.len() - 1)];
            let from = dice.upto(other.len());
            let to = (from + dice.upto(64)).min(other.len());
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
            input.splice(at..at, words[dice.upto(words.len() - 1)].iter().copied());
        }
        _ => input.truncate(at),
    }
}

macro_rules! replays {
    ($($name:ident: $most:literal),* $(,)?) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name), $most);
        })*

        #[test]
        fn every_body_is_replayed_and_has_its_target() {
            let names: Vec<&str> = BODIES.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
            let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
            for name in names {
                assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml lacks {name}");
                let target = fs::read_to_string(root().join(format!("fuzz/fuzz_targets/{name}.rs"))).unwrap();
                assert!(target.contains(&format!("restante::fuzzing::{name}(data)")), "{name}");
            }
        }
    };
}

replays! {
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
    mbox: 200,
    message: 200,
    reply: 200,
    report: 300,
    request: 40,
    results: 200,
    row: 300,
    search: 200,
    sign: 100,
    store: 60,
    structure: 200,
}

/// Mail that none of us wrote: every body that takes a message takes these.
#[test]
fn the_shared_corpus() {
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
