//! Measures what a delivery computes for one message before it commits: the split of the header,
//! the parse, what a list shows, the search tokens, and the encoding of the rows. RocksDB is not
//! needed.
//!
//! `cargo bench --ignore-rust-version --no-default-features --features internals --bench rows --`
//! - `--size 4096 --messages 64 --rounds 200` sets the bytes of a message, the number of messages,
//!   and how often each step is measured. These are the defaults.
//! - `--step NAME --count N` only does the step with this name in the printed table, N times.
//!   Instructions are counted by running this under `valgrind --tool=callgrind` with two counts.
//! - `--latin` turns each `o` after a blank into a letter outside ASCII.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a bench"
)]

mod words;

use std::hint::black_box;
use std::time::Instant;

use restante::internals::message::{IncomingMessage, Message, content, rows_of, tokens};
use restante::internals::model::Secrets;
use restante::internals::store::EncodedMessage;

/// A step of a delivery, on a received message, with the secrets of the store. Each step includes
/// the earlier ones that it needs, other than `header`.
type Step = fn(&IncomingMessage, &Secrets);

const STEPS: [(&str, Step); 6] = [
    ("header", |incoming, _| {
        black_box(IncomingMessage::new(incoming.header().raw().to_vec()));
    }),
    ("parse", |incoming, _| {
        black_box(Message::with_header(incoming.trimmed_header()));
    }),
    ("content", |incoming, _| {
        black_box(content(&Message::with_header(incoming.trimmed_header())));
    }),
    ("tokens", |incoming, secrets| {
        let message = Message::with_header(incoming.trimmed_header());
        black_box(tokens(&message, &content(&message), secrets));
    }),
    ("rows", |incoming, secrets| {
        black_box(rows_of(&Message::with_header(incoming.trimmed_header()), secrets));
    }),
    ("encoded", |incoming, secrets| {
        let rows = rows_of(&Message::with_header(incoming.trimmed_header()), secrets);
        black_box(EncodedMessage::new(&rows));
    }),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let number = |name: &str, or: usize| value(name).map_or(or, |text| text.parse().unwrap());
    let (size, messages) = (number("--size", 4096), number("--messages", 64));
    let mut words = words::Words::new(7);
    let secrets = Secrets { words: [7; 16], ..Secrets::default() };
    let incoming: Vec<IncomingMessage> = (0..messages)
        .map(|number| {
            let mut raw = words.message(number as u64, "ann@example.org", size);
            if arguments.iter().any(|argument| argument == "--latin") {
                raw = String::from_utf8(raw).unwrap().replace(" o", " \u{f6}").into_bytes();
            }
            IncomingMessage::new(raw)
        })
        .collect();
    if let Some(wanted) = value("--step") {
        let (_, step) = STEPS.iter().find(|(name, _)| *name == wanted).expect("a known step");
        for round in 0..number("--count", 1) {
            step(&incoming[round % messages], &secrets);
        }
        return;
    }
    println!("| step | us, median | us, fastest tenth |\n|---|---:|---:|");
    for (name, step) in STEPS {
        let mut times: Vec<f64> = Vec::new();
        for _ in 0..number("--rounds", 200) {
            let begin = Instant::now();
            incoming.iter().for_each(|message| step(message, &secrets));
            times.push(begin.elapsed().as_nanos() as f64 / 1000.0 / messages as f64);
        }
        times.sort_by(f64::total_cmp);
        println!("| {name} | {:.2} | {:.2} |", times[times.len() / 2], times[times.len() / 10]);
    }
}
