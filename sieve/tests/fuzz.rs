//! Runs the fuzz bodies on stable Rust: on the empty input, on every seed of `fuzz/corpus` of the
//! repository, on scripts and messages of some conformance cases, and on mutations of both.
//!
//! - In the environment, `RESTANTE_FUZZ` is the number of mutations of each seed, and
//!   `RESTANTE_SEED` the seed of the random numbers, which also chooses among the cases.
//! - An input that fails is printed, escaped.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a panic fails the test"
)]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use restante_sieve::fuzzing::{BODIES, FuzzBody};

/// Every fifth conformance case is a seed, so that a run stays short.
const CASE_STEP: usize = 5;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns a number from the environment, `None` if it is not set.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Returns the paths of what is in a folder, sorted. Empty if it is no folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Returns the seeds of a corpus. There are none if the package stands without the repository.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = root().join("../fuzz/corpus").join(name);
    files(&folder).iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Returns the scripts of the conformance cases as inputs, each with the message of its case.
fn cases() -> Vec<Vec<u8>> {
    let paths = files(&root().join("tests/cases")).into_iter().flat_map(|folder| files(&folder));
    let texts = paths.filter_map(|path| fs::read_to_string(path).ok());
    texts.filter_map(|text| seed_of(&text)).collect()
}

/// Makes an input of a case: its script, or else one with the tests of its first `true` section, or
/// of its first `false` section, and its first message after a line `===`. `None` if it has neither
/// a script nor tests after a setup.
fn seed_of(text: &str) -> Option<Vec<u8>> {
    let section = |name: &str| {
        let (_, rest) = text.split_once(&format!("\n=== {name}\n"))?;
        let end = rest.find("\n===").map_or(rest.len(), |end| end + 1);
        rest.get(..end)
    };
    let script = match section("script") {
        Some(script) => script.to_owned(),
        None => {
            let tests: Vec<_> = section("true").or_else(|| section("false"))?.lines().collect();
            format!("{}if anyof ({}) {{ keep; }}\n", section("setup")?, tests.join(",\n"))
        }
    };
    let message = section("message").map(|message| format!("===\n{message}"));
    Some(format!("{script}{}", message.unwrap_or_default()).into_bytes())
}

/// A xorshift generator.
struct Random(u64);

impl Random {
    /// Returns a number from 0 to `max`, inclusive.
    fn upto(&mut self, max: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (max as u64 + 1)).unwrap()
    }
}

/// Runs a body on an input. If it panics, prints the input and panics again.
fn run(name: &str, body: FuzzBody, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(input))) {
        eprintln!("{name} fails for {} bytes, b\"{}\"", input.len(), input.escape_ascii());
        resume_unwind(panic);
    }
}

/// Runs the body of a target on the empty input, on its seeds and on their mutations: `default` for
/// each seed, if the environment does not say.
fn replay(name: &str, default: u64) {
    let (_, body) = BODIES.iter().find(|(other, _)| *other == name).expect("a body");
    let mut seeds = corpus(name);
    // The cases are scripts. This body takes addresses.
    if name != "sieve_addresses" {
        let offset = usize::try_from(setting("RESTANTE_SEED").unwrap_or(0)).unwrap();
        seeds.extend(cases().into_iter().skip(offset % CASE_STEP).step_by(CASE_STEP));
    }
    run(name, *body, b"");
    seeds.iter().for_each(|seed| run(name, *body, seed));
    // The state must not be 0.
    let mut random = Random(setting("RESTANTE_SEED").unwrap_or(0).wrapping_mul(2) | 1);
    // The first numbers are passed over: those of neighbouring `RESTANTE_SEED`s are alike.
    for _ in 0..20 {
        random.upto(1);
    }
    for seed in &seeds {
        for _ in 0..setting("RESTANTE_FUZZ").unwrap_or(default) {
            let mut input = seed.clone();
            for _ in 0..=random.upto(4) {
                mutate(&mut input, &seeds, &mut random);
            }
            run(name, *body, &input);
        }
    }
}

/// Changes an input at one place.
fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    // If a message follows the script, at least half of the changes are in the message.
    let message = input.windows(5).position(|window| window == b"\n===\n");
    let first = message.filter(|_| random.upto(1) == 0).map_or(0, |at| at + 5);
    let at = first + random.upto(input.len() - first);
    let end = (at + random.upto(16)).min(input.len());
    match random.upto(7) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.upto(7);
            }
        }
        1 => input.insert(at, u8::try_from(random.upto(255)).unwrap()),
        2 => drop(input.drain(at..end)),
        3 => {
            let part = input[at..end].repeat(1 + random.upto(3));
            drop(input.splice(at..at, part));
        }
        4 => {
            let other = &seeds[random.upto(seeds.len() - 1)];
            let from = random.upto(other.len());
            let to = (from + random.upto(64)).min(other.len());
            drop(input.splice(at..end, other[from..to].iter().copied()));
        }
        5 | 6 => {
            let words: [&[u8]; 24] = [
                b"\r\n",
                b"\n",
                b".",
                b"\0",
                b"\xff",
                b"\"",
                b"\\",
                b"${1}",
                b"${a}",
                b"${hex:41}",
                b"*",
                b"?",
                b":matches",
                b":regex",
                b":index 1 ",
                b":last ",
                b":mime ",
                b"{",
                b"}",
                b"(",
                b"not ",
                b"text:\n.\n",
                b"99999999999999999999",
                b"\xc3\xbc",
            ];
            let word = words[random.upto(words.len() - 1)];
            drop(input.splice(at..at, word.iter().copied()));
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
        fn every_body_has_a_test_a_target_and_seeds() {
            let names: Vec<&str> = BODIES.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
            // The package may stand without the repository.
            let manifest = fs::read_to_string(root().join("../fuzz/Cargo.toml"));
            let Ok(manifest) = manifest else { return };
            for name in names {
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
                let path = root().join(format!("../fuzz/fuzz_targets/{name}.rs"));
                let target = fs::read_to_string(path).unwrap();
                let body = name.trim_start_matches("sieve_");
                assert!(target.contains(&format!("restante_sieve::fuzzing::{body}(data)")));
                assert!(!corpus(name).is_empty(), "no seeds of {name}");
            }
        }
    };
}

replays! {
    sieve_addresses: 300,
    sieve_check: 20,
    sieve_edits: 20,
    sieve_run: 20,
}
