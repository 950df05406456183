//! Measures the check and the formatting of a script of 1,000 rules, the reading of a message of
//! 50 KB, and runs of a script of 50 rules on it. No rule matches, so that the tests of all rules
//! are evaluated.
//!
//! `cargo bench -p restante-sieve --bench engine --ignore-rust-version -- OPTIONS`: `--rounds 100`
//! sets how often each step is measured, and is the default; `--only run` selects the steps with
//! that text in their names.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a bench"
)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use restante_sieve::plain::{PlainMessage, PlainWorld};
use restante_sieve::{
    AddressSpec, CompileLimits, CompileOptions, Envelope, HostError, Identity, Input, MailboxRef,
    MailboxSelector, PatternCache, RunLimits, Script, World, check, format, run,
};

const REQUIRE: &str = "require [\"fileinto\", \"imap4flags\", \"body\", \"variables\", \"regex\", \
    \"relational\", \"comparator-i;ascii-numeric\", \"mailbox\"];\n";

/// Writes a script of `count` rules in the forms that clients generate, after the rule `first`,
/// which may be empty.
fn rules(first: &str, count: usize) -> String {
    let mut out = format!("{REQUIRE}{first}");
    for number in 0..count {
        let _ = write!(out, "# rule:[{number}]\nif ");
        let _ = match number % 5 {
            0 => write!(out, "header :contains \"Subject\" \"offer {number}\""),
            1 => write!(
                out,
                "anyof (address :is [\"From\", \"Sender\"] \"a{number}@example.com\", \
                 address :domain \"To\" [\"x{number}.example\", \"y{number}.example\"])"
            ),
            2 => write!(out, "header :matches \"List-Id\" \"*<dev{number}.*>\""),
            3 => write!(out, "allof (size :over 10K, not exists \"X-{number}\", false)"),
            _ => write!(out, "header :regex \"Subject\" \"^\\\\[bug {number}[0-9]+\\\\]\""),
        };
        let _ = writeln!(out, " {{\n    fileinto :create \"F{number}\";\n    stop;\n}}");
    }
    out
}

/// Returns a message of about `size` bytes.
fn message(size: usize) -> String {
    let mut out =
        "Received: from a.example by b.example; Tue, 13 Jan 2026 12:00:00 +0000\r\n".repeat(8);
    out.push_str(
        "From: \"Sender, A\" <sender@example.com>\r\nTo: Me <me@example.org>, b@example.org\r\n\
         Subject: [bug tracker] a report of the week\r\nMessage-ID: <1@example.com>\r\n\
         List-Id: Developers <list.example.com>\r\nDate: Tue, 13 Jan 2026 12:00:00 +0000\r\n\r\n",
    );
    while out.len() < size {
        out.push_str(
            "The quick brown fox jumps over the lazy dog, and goes on to the next line.\r\n",
        );
    }
    out
}

/// Checks a script that has no errors.
fn compiled(source: &str) -> Script {
    check(source.as_bytes(), &CompileOptions::default()).script.expect("no errors")
}

/// A host that keeps compiled patterns, as one that delivers mail does.
struct Host {
    plain: PlainWorld,
    patterns: PatternCache,
}

impl World for Host {
    fn now(&self) -> jiff::Timestamp {
        self.plain.now()
    }

    fn zone(&self) -> jiff::tz::TimeZone {
        self.plain.zone()
    }

    fn mailbox(&self, selector: MailboxSelector<'_>) -> Result<Option<MailboxRef>, HostError> {
        self.plain.mailbox(selector)
    }

    fn patterns(&self) -> Option<&PatternCache> {
        Some(&self.patterns)
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1))
    };
    let rounds = value("--rounds").map_or(100, |text| text.parse().unwrap());
    let only = value("--only").map_or("", String::as_str);
    let many = rules("", 1000);
    let script = compiled(&rules("", 50));
    let body_rule = "if body :contains [\"unsubscribe\", \"invoice\"] { stop; }\n";
    let with_body = compiled(&rules(body_rule, 50));
    let raw = message(50_000);
    let view = PlainMessage::new(raw.as_str());
    let now = "2026-12-24T12:00:00Z".parse().unwrap();
    let plain = PlainWorld { now, mailboxes: Vec::new() };
    let world = Host { plain, patterns: PatternCache::new(1 << 20) };
    let envelope =
        Envelope { from: "sender@example.com", to: "me@example.org", ..Envelope::default() };
    let addresses = [AddressSpec::new("me", "example.org")];
    let identity = Identity { addresses: &addresses, display_name: None, separators: "+" };
    let input = Input { message: &view, envelope: &envelope, identity: &identity };
    let limits = RunLimits::default();
    let options = CompileOptions {
        limits: CompileLimits { commands: 100_000, ..CompileLimits::default() },
        ..CompileOptions::default()
    };
    let steps: [(&str, &dyn Fn()); 5] = [
        ("check, 1,000 rules", &|| {
            black_box(check(many.as_bytes(), &options));
        }),
        ("format, 1,000 rules", &|| {
            drop(black_box(format(many.as_bytes())));
        }),
        ("view of the message", &|| {
            black_box(PlainMessage::new(raw.as_str()));
        }),
        ("run, 50 rules", &|| {
            black_box(run(&script, &input, &world, &limits, None));
        }),
        ("run with a test of the body", &|| {
            black_box(run(&with_body, &input, &world, &limits, None));
        }),
    ];
    let errors = check(many.as_bytes(), &options).diagnostics;
    assert!(errors.iter().all(|one| !one.is_error()), "{errors:?}");
    let outcome = run(&script, &input, &world, &limits, None);
    assert!(outcome.error.is_none() && outcome.plan.actions.is_empty(), "{outcome:?}");
    println!("{} bytes of script, {} bytes of message, fuel {}", many.len(), raw.len(), {
        outcome.fuel_used
    });
    println!("| step | us, median | us, fastest tenth |\n|---|---:|---:|");
    for (name, step) in steps.into_iter().filter(|(name, _)| name.contains(only)) {
        let mut times: Vec<f64> = (0..rounds)
            .map(|_| {
                let begin = Instant::now();
                step();
                begin.elapsed().as_nanos() as f64 / 1000.0
            })
            .collect();
        times.sort_by(f64::total_cmp);
        println!("| {name} | {:.1} | {:.1} |", times[times.len() / 2], times[times.len() / 10]);
    }
}
