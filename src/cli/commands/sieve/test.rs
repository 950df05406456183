//! The command `sieve test`.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::control::CommandContext;
use crate::cli::control::selected_account::find_account;
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::input::{read, with_crlf};
use crate::cli::terminal::output;
use crate::filter::TrialRequest;
use crate::jmap::admin::sieve::test_answer;
use crate::message::auto::AutoReplyFacts;
use crate::model::clock::{Clock as _, SystemClock};
use crate::model::{Address, Envelope, Identity, Recipient};
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::sieve::{
    SieveTest, SieveTestAnswer, SieveTestArguments, TraceLineFacts, TrialFacts,
};
use crate::wire::jmap::{With, to_base64};

#[derive(Debug, Args)]
pub struct TestArgs {
    /// The file with the script; "-" is standard input.
    pub file: PathBuf,
    /// The file with the message; "-" is standard input.
    #[arg(long, value_name = "FILE")]
    pub message: PathBuf,
    /// The sender of the envelope; "" for none, as of a bounce [default: that of the message].
    #[arg(long, value_name = "ADDRESS")]
    pub from: Option<String>,
    /// The recipient of the envelope [default: that of the message].
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<String>,
    /// Run it as for this account: its name or any of its addresses.
    #[arg(long, short)]
    pub account: Option<String>,
}

pub(super) async fn run(args: TestArgs, context: &CommandContext) -> Result<(), Failure> {
    if args.file == Path::new("-") && args.message == args.file {
        let text = "script and message cannot both be standard input: name a file for one";
        return Err(Failure::new(exit::USAGE, text));
    }
    let source = read(&args.file)?;
    let message = with_crlf(&read(&args.message)?);
    let name = args.file.display().to_string();
    let answer = match args.account {
        Some(account) => {
            let account = find_account(&account, context).await?;
            let arguments = SieveTestArguments {
                name,
                source: to_base64(&source),
                message: to_base64(&message),
                sender: args.from,
                recipient: args.to,
            };
            let arguments = With(AccountRef::by_id(&account.id), arguments);
            context.client.call::<SieveTest>(arguments).await?
        }
        None => {
            let (from, to) = (args.from.as_deref(), args.to.as_deref());
            run_here(&source, &message, &name, (from, to), context)?
        }
    };
    if context.json {
        output::json(&answer);
    } else {
        output::lines(&text(&answer));
    }
    match &answer.outcome {
        None => Err(Failure::new(exit::DATA, "the script has errors")),
        Some(TrialFacts { error: Some(error), .. }) => {
            let place = place(error.script.as_deref(), error.line);
            let text = format!("the run failed: {place}{}", error.message);
            Err(Failure::new(exit::DATA, text))
        }
        Some(_) => Ok(()),
    }
}

/// Runs the script without the service. `from` and `to` are the values of `--from` and `--to`.
fn run_here(
    source: &[u8],
    message: &[u8],
    name: &str,
    (from, to): (Option<&str>, Option<&str>),
    context: &CommandContext,
) -> Result<SieveTestAnswer, Failure> {
    let address = |option: &str, text: &str| {
        Address::parse(text)
            .map_err(|error| Failure::new(exit::USAGE, format!("{option}: {text}: {error}")))
    };
    let facts = AutoReplyFacts::of(message);
    let sender = match from {
        Some("") => None,
        Some(text) => Some(address("--from", text)?),
        None => facts.probable_sender(message),
    };
    let recipient = match to {
        Some(text) => address("--to", text)?,
        None => facts.destinations.first().cloned().ok_or_else(|| {
            Failure::new(exit::USAGE, "the message names no recipient: add --to ADDRESS")
        })?,
    };
    let delimiter = context.config.directory.delimiter.chars().next();
    let identity = Identity {
        primary: recipient.clone(),
        name: None,
        addresses: vec![recipient.clone()],
        alias_domains: Vec::new(),
        delimiter,
        zone: context.config.directory.zone.clone(),
    };
    let settings = context.config.script_settings();
    let request = TrialRequest {
        settings: &settings,
        message,
        envelope: &Envelope { sender, ..Envelope::default() },
        recipient: &Recipient::plain(recipient),
        identity: &identity,
        hostname: &context.config.hostname(),
        now: SystemClock.now(),
        account: None,
    };
    test_answer(&settings.check_script(source), name, &request)
        .map_err(|error| Failure::new(exit::SOFTWARE, error.to_string()))
}

/// Returns where something happened, as the beginning of a line. `script` is an included script,
/// and `None` the script itself. `line` is 0 if it is not known.
fn place(script: Option<&str>, line: u32) -> String {
    match (script, line) {
        (None, 0) => String::new(),
        (None, line) => format!("line {line}: "),
        (Some(script), 0) => format!("{script}: "),
        (Some(script), line) => format!("{script}, line {line}: "),
    }
}

/// Returns what is printed without `--json`: diagnostics, the trace, the actions, and what the run
/// needed but is not known here.
fn text(answer: &SieveTestAnswer) -> String {
    let mut lines: Vec<String> = answer.check.text.lines().map(str::to_owned).collect();
    let Some(outcome) = &answer.outcome else { return lines.join("\n") };
    let sender = if outcome.sender.is_empty() { "<>" } else { &outcome.sender };
    lines.push(format!("a message from {sender} to {}", outcome.recipient));
    lines.push("trace:".to_owned());
    lines.extend(outcome.trace.iter().map(|line| format!("  {}", trace_text(line))));
    if outcome.is_trace_cut {
        lines.push("  (the trace is longer)".to_owned());
    }
    lines.push("actions:".to_owned());
    lines.extend(outcome.actions.iter().map(|action| format!("  {action}")));
    if outcome.actions.is_empty() {
        lines.push("  none: the message is dropped".to_owned());
    }
    if !outcome.unknown.is_empty() {
        lines.push("not known here:".to_owned());
        lines.extend(outcome.unknown.iter().map(|unknown| format!("  {unknown}")));
    }
    lines.join("\n")
}

/// Returns a line of the trace: the place, and the test with its result or what was done there.
fn trace_text(line: &TraceLineFacts) -> String {
    let place = place(line.script.as_deref(), line.line);
    match (line.event.as_str(), line.result) {
        (_, Some(result)) => format!("{place}{} is {result}", line.text),
        ("command", None) => format!("{place}{}", line.text),
        ("action", None) => format!("{place}→ {}", line.text),
        (event, None) => format!("{place}{event}: {}", line.text),
    }
}
