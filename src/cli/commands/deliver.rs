//! The command `deliver`, for a pipe(8) transport of Postfix: delivers a message from standard
//! input.
//!
//! - Exit code 0: every recipient has the message, durably. 67: the service knows none of the
//!   recipients. 69: it refused the message permanently for all recipients, not only because they
//!   are unknown; or the message is larger than `limits.message`.
//! - 75: everything else, including errors of the program and of the configuration, because pipe(8)
//!   bounces the message on any other code.
//! - If some recipients have the message and others were refused permanently, the code is 75, so
//!   that Postfix keeps the message until it delivers to each recipient alone.
//! - Addresses are arguments, and may look like options. What follows `--`, or the first recipient,
//!   is a recipient. If an address before that is read as `--help`, the exit code is 75.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use clap::Args;

use crate::cli::control::{CommandContext, single_threaded_runtime};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::input::{read_at_most, with_crlf};
use crate::cli::terminal::output;
use crate::config::Config;
use crate::wire::jmap::admin::mail::{MailDeliver, MailDeliverArguments, RecipientReply};
use crate::wire::jmap::to_base64;

#[derive(Debug, Args)]
pub struct DeliverArgs {
    /// The envelope sender; "" or <> for the null sender.
    #[arg(short = 'f', long = "sender", value_name = "SENDER", allow_hyphen_values = true)]
    pub sender: String,
    /// The addresses of the recipients.
    ///
    /// All that follows the first one is a recipient. Write `--` before them: an address may look
    /// like an option.
    #[arg(required = true, value_name = "RECIPIENT", trailing_var_arg = true)]
    pub recipients: Vec<String>,
}

/// The null sender as pipe(8) writes it, unless its attribute `null_sender` says otherwise.
const NULL_SENDER: &str = "MAILER-DAEMON";

pub(in crate::cli) fn run(
    args: &DeliverArgs,
    config: Option<&Path>,
    json: bool,
) -> Result<(), Failure> {
    let outcomes = with_temporary_failures(|| deliver(args, config, json))?;
    exit_code(&outcomes, args.recipients.len())
}

/// Makes every failure of `work` temporary, even a panic: its own exit code would bounce the
/// message.
fn with_temporary_failures<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|failure| Failure { code: exit::TEMPORARY, ..failure }),
        Err(_) => {
            Err(Failure::new(exit::TEMPORARY, "an internal error: report it, with the lines above"))
        }
    }
}

/// How the command line calls `deliver`, even if its arguments are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum DeliverCall {
    /// It calls another command, or none.
    No,
    /// It only asks for help: a person reads it, and there is no message.
    Help,
    /// It may have come with a message. An exit code of 0 would lose the message, and one for wrong
    /// usage would bounce it.
    Delivery,
}

impl DeliverCall {
    /// Reads all arguments, of which the first is the name of the program.
    pub(in crate::cli) fn of(words: impl Iterator<Item = String>) -> Self {
        let mut words = words.skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--config" => drop(words.next()),
                option if option.starts_with('-') => {}
                "deliver" => {
                    let rest: Vec<String> = words.collect();
                    let is_help =
                        matches!(rest.as_slice(), [word] if word == "--help" || word == "-h");
                    return if is_help { Self::Help } else { Self::Delivery };
                }
                _ => return Self::No,
            }
        }
        Self::No
    }
}

/// Passes the message to the service, and returns its reply for each recipient. A message that is
/// too large is not passed on: each recipient gets a refusal in place of the reply.
fn deliver(
    args: &DeliverArgs,
    config: Option<&Path>,
    json: bool,
) -> Result<Vec<RecipientReply>, Failure> {
    let context = CommandContext::new(config, json)?;
    let Some(message) = read_message(&context.config)? else {
        let max = context.config.limits.message.0;
        let reply = format!("552 5.3.4 the message is larger than {max} bytes");
        let outcome = |recipient: &String| RecipientReply {
            recipient: recipient.clone(),
            reply: reply.clone(),
        };
        return Ok(args.recipients.iter().map(outcome).collect());
    };
    let sender = args.sender.trim().trim_start_matches('<').trim_end_matches('>');
    let arguments = MailDeliverArguments {
        sender: Some(sender)
            .filter(|sender| !sender.is_empty() && *sender != NULL_SENDER)
            .map(str::to_owned),
        recipients: args.recipients.clone(),
        message: to_base64(&message),
    };
    let answer =
        single_threaded_runtime()?.block_on(context.client.call::<MailDeliver>(arguments))?;
    if context.json {
        output::json(&answer.outcomes);
    }
    Ok(answer.outcomes)
}

/// Reads the message from standard input, and returns it with CRLF line endings; `None` if it
/// exceeds `limits.message`.
fn read_message(config: &Config) -> Result<Option<Vec<u8>>, Failure> {
    let broken =
        |error: io::Error| Failure::new(exit::TEMPORARY, format!("standard input: {error}"));
    let max = config.limits.message.0;
    let mut stdin = io::stdin().lock();
    let Some(message) = read_at_most(&mut stdin, max).map_err(broken)? else {
        // So that pipe(8) does not fail with a closed pipe.
        io::copy(&mut stdin, &mut io::sink()).map_err(broken)?;
        return Ok(None);
    };
    let message = with_crlf(&message);
    Ok((message.len() as u64 <= max).then_some(message))
}

/// Returns a failure with the exit code for all recipients together, unless each has the message.
/// `recipients` is their number.
fn exit_code(outcomes: &[RecipientReply], recipients: usize) -> Result<(), Failure> {
    let codes: Vec<u8> = outcomes.iter().map(|outcome| code_of(&outcome.reply)).collect();
    if codes.len() != recipients {
        return Err(Failure::new(
            exit::TEMPORARY,
            "the service did not answer for every recipient",
        ));
    }
    if codes.iter().all(|code| *code == 0) {
        return Ok(());
    }
    let refused = outcomes.iter().zip(&codes).filter(|(_, code)| **code != 0);
    let mut lines: Vec<String> =
        refused.map(|(outcome, _)| format!("{}: {}", outcome.recipient, outcome.reply)).collect();
    let code = if codes.contains(&exit::TEMPORARY) {
        exit::TEMPORARY
    } else if codes.contains(&0) {
        lines.push(
            "the other recipients have the message. One exit code cannot say both, so delivery is \
             deferred for all of them. Set TRANSPORT_destination_recipient_limit = 1 in main.cf, \
             where TRANSPORT is the name of this transport in master.cf"
                .into(),
        );
        exit::TEMPORARY
    } else if codes.iter().all(|code| *code == exit::NO_USER) {
        exit::NO_USER
    } else {
        exit::UNAVAILABLE
    };
    Err(Failure::new(code, lines.join("\n")))
}

/// Returns the exit code for a reply. A refusal is permanent only if its code is about the address,
/// the mailbox or the message, or is that of a refusal by a script (5.7.1).
fn code_of(reply: &str) -> u8 {
    let enhanced = reply.get(4..).and_then(|rest| rest.split_whitespace().next());
    match (reply.as_bytes().first(), enhanced) {
        (Some(b'2'), _) => 0,
        (Some(b'5'), Some("5.1.1")) => exit::NO_USER,
        (Some(b'5'), Some("5.2.1" | "5.2.2" | "5.3.4" | "5.4.6" | "5.7.1")) => exit::UNAVAILABLE,
        _ => exit::TEMPORARY,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::{Cli, Command};

    #[test]
    fn replies_have_the_exit_codes_of_pipe() {
        for (reply, code) in [
            ("250 2.1.5 e0 delivered", 0),
            ("550 5.1.1 unknown", 67),
            ("550-5.1.1 unknown\r\n550 5.1.1 really", 67),
            ("550 5.2.1 disabled", 69),
            ("552 5.2.2 full", 69),
            ("552 5.3.4 too large", 69),
            ("554 5.4.6 loop", 69),
            ("550 5.7.1 refused by a script", 69),
            ("452 4.2.2 full", 75),
            ("451 4.3.0 trouble", 75),
            ("501 5.5.4 what", 75),
            ("550", 75),
            ("", 75),
        ] {
            assert_eq!(code_of(reply), code, "{reply}");
        }
    }

    #[test]
    fn one_code_for_all_recipients() {
        let (served, unknown, full, later) =
            ("250 2.0.0 x", "550 5.1.1 x", "552 5.2.2 x", "452 4.3.1 x");
        for (replies, code) in [
            (&[served, served][..], None),
            (&[unknown, unknown], Some(67)),
            (&[unknown, full], Some(69)),
            (&[full, full], Some(69)),
            (&[unknown, later], Some(75)),
            (&[served, later], Some(75)),
            // A bounce would be wrong for one recipient, and success for the other.
            (&[served, unknown], Some(75)),
            // Fewer replies than the two recipients.
            (&[served], Some(75)),
            (&[], Some(75)),
        ] {
            let outcome = |reply: &&str| RecipientReply {
                recipient: "ann@example.org".into(),
                reply: (*reply).into(),
            };
            let outcomes: Vec<RecipientReply> = replies.iter().map(outcome).collect();
            assert_eq!(
                exit_code(&outcomes, 2).err().map(|failure| failure.code),
                code,
                "{replies:?}"
            );
        }
    }

    #[test]
    fn every_failure_of_the_program_is_temporary() {
        let code = |done: Result<(), Failure>| done.unwrap_err().code;
        for fault in
            [exit::CONFIG, exit::NO_PERMISSION, exit::UNAVAILABLE, exit::NO_USER, exit::USAGE]
        {
            let failure = with_temporary_failures(|| Err(Failure::new(fault, "x")));
            assert_eq!(code(failure), 75, "{fault}");
        }
        assert_eq!(code(with_temporary_failures(|| panic!("a fault"))), 75);
    }

    #[test]
    fn deliver_is_recognised_in_wrong_arguments() {
        use DeliverCall::{Delivery, Help, No};
        for (line, expected) in [
            ("restante deliver", Delivery),
            ("restante --config /etc/x --json deliver --frm x", Delivery),
            ("restante --config=/etc/x deliver", Delivery),
            ("restante --config deliver mail list", No),
            ("restante account add deliver", No),
            ("restante --json", No),
            ("restante --help", No),
            ("restante help deliver", No),
            ("restante deliver --help", Help),
            ("restante --config /etc/x deliver -h", Help),
            ("restante deliver -f zoe@example.net --help", Delivery),
            ("restante deliver --help ann@example.org", Delivery),
            ("restante deliver -hans@example.org", Delivery),
            ("restante --version deliver", Delivery),
        ] {
            assert_eq!(DeliverCall::of(line.split(' ').map(str::to_owned)), expected, "{line}");
        }
    }

    /// Addresses that look like options are recipients or an error, but never help or an option.
    #[test]
    fn words_after_the_first_recipient_are_recipients() {
        let recipients = |words: &[&str]| {
            let words = [&["restante", "deliver", "-f", "zoe@example.net"], words].concat();
            match Cli::try_parse_from(words)?.command {
                Command::Deliver(args) => Ok(args.recipients),
                other => panic!("{other:?}"),
            }
        };
        let odd =
            ["-hans@example.org", "--help", "--json", "--config=x@example.org", "-fx@y", "--"];
        for word in odd {
            for before in [&["--", "ann@example.org"][..], &["ann@example.org"]] {
                let parsed: Result<_, clap::Error> = recipients(&[before, &[word]].concat());
                assert_eq!(parsed.unwrap(), ["ann@example.org", word], "{before:?}");
            }
            assert_eq!(recipients(&["--", word]).unwrap(), [word]);
            let words = ["restante", "deliver", "-f", word, "--", "ann@example.org"];
            let Command::Deliver(args) = Cli::try_parse_from(words).unwrap().command else {
                panic!("{word}");
            };
            assert_eq!((args.sender.as_str(), args.recipients.len()), (word, 1));
        }
    }
}
