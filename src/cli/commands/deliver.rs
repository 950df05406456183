//! `deliver`: a message from standard input, for a pipe(8) transport.
//!
//! What must hold: 0 only when every recipient has it durably; 67 and 69 only where the service
//! itself has refused the message for good; all else is 75, a fault of ours or of the
//! administrator's too, for pipe(8) bounces whatever it does not take for temporary. A retry makes
//! no second copy. pipe(8) knows one exit code for all recipients of a message: where some have it
//! and others never will, none is true, and 75 keeps it until they are handed over one by one.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use clap::Args;

use crate::cli::control::{CommandContext, one_thread};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::input::{at_most, with_crlf};
use crate::cli::terminal::output;
use crate::config::Config;
use crate::wire::jmap::admin::mail::{MailDeliver, MailDeliverArguments, RecipientReply};
use crate::wire::jmap::octets;

/// `deliver`
#[derive(Debug, Args)]
pub struct DeliverArgs {
    /// The envelope sender; "" or <> for none.
    #[arg(short = 'f', long = "sender", value_name = "SENDER", allow_hyphen_values = true)]
    pub sender: String,
    /// Addresses of the recipients.
    #[arg(required = true, value_name = "RECIPIENT")]
    pub recipients: Vec<String>,
}

/// How pipe(8) writes the null sender, unless `null_sender` says otherwise.
const NULL_SENDER: &str = "MAILER-DAEMON";

pub(in crate::cli) fn run(
    args: &DeliverArgs,
    config: Option<&Path>,
    json: bool,
) -> Result<(), Failure> {
    let outcomes = ours_to_mend(|| hand_over(args, config, json))?;
    verdict(&outcomes, args.recipients.len())
}

/// Whatever fails here is to be tried again, also where it is a fault of the program: the code of a
/// panic bounces.
fn ours_to_mend<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|failure| Failure { code: exit::TEMPORARY, ..failure }),
        Err(_) => Err(Failure::new(
            exit::TEMPORARY,
            "a fault of the program: report it, with what stands above",
        )),
    }
}

/// Whether the words of a command line ask for a delivery, even where they make no sense otherwise.
pub(in crate::cli) fn is_meant(words: impl Iterator<Item = String>) -> bool {
    let mut words = words.skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--config" => drop(words.next()),
            option if option.starts_with('-') => {}
            command => return command == "deliver",
        }
    }
    false
}

fn hand_over(
    args: &DeliverArgs,
    config: Option<&Path>,
    json: bool,
) -> Result<Vec<RecipientReply>, Failure> {
    let context = CommandContext::new(config, json)?;
    let Some(message) = message(&context.config)? else {
        let most = context.config.limits.message.0;
        let reply = format!("552 5.3.4 the message is larger than {most} octets");
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
        message: octets(&message),
    };
    let answer = one_thread()?.block_on(context.client.call::<MailDeliver>(arguments))?;
    if context.json {
        output::json(&answer.outcomes);
    }
    Ok(answer.outcomes)
}

/// Standard input as a message; `None` where it is larger than messages may be.
fn message(config: &Config) -> Result<Option<Vec<u8>>, Failure> {
    let broken =
        |error: io::Error| Failure::new(exit::TEMPORARY, format!("standard input: {error}"));
    let most = config.limits.message.0;
    let mut stdin = io::stdin().lock();
    let Some(message) = at_most(&mut stdin, most).map_err(broken)? else {
        // pipe(8) is to read our answer, and not to stumble over a closed pipe.
        io::copy(&mut stdin, &mut io::sink()).map_err(broken)?;
        return Ok(None);
    };
    let message = with_crlf(&message);
    Ok((message.len() as u64 <= most).then_some(message))
}

/// One exit code for all recipients.
fn verdict(outcomes: &[RecipientReply], wanted: usize) -> Result<(), Failure> {
    let codes: Vec<u8> = outcomes.iter().map(|outcome| code_of(&outcome.reply)).collect();
    if codes.len() != wanted {
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
            "others have it: one exit code cannot say both, so it is put off for all of them. Set \
             TRANSPORT_destination_recipient_limit = 1 in main.cf, by the name of this transport in master.cf"
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

/// The exit code that says to pipe(8) what this reply says to LMTP. A refusal is final only where
/// it is known to be about the message or the mailbox.
fn code_of(reply: &str) -> u8 {
    let enhanced = reply.get(4..).and_then(|rest| rest.split_whitespace().next());
    match (reply.as_bytes().first(), enhanced) {
        (Some(b'2'), _) => 0,
        (Some(b'5'), Some("5.1.1")) => exit::NO_USER,
        (Some(b'5'), Some("5.2.1" | "5.2.2" | "5.3.4" | "5.4.6")) => exit::UNAVAILABLE,
        _ => exit::TEMPORARY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        for (reply, code) in [
            ("250 2.1.5 e0 delivered", 0),
            ("550 5.1.1 unknown", 67),
            ("550-5.1.1 unknown\r\n550 5.1.1 really", 67),
            ("550 5.2.1 disabled", 69),
            ("552 5.2.2 full", 69),
            ("552 5.3.4 too large", 69),
            ("554 5.4.6 loop", 69),
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
            // Neither may a sender be told that all failed, nor may a refusal go without a word.
            (&[served, unknown], Some(75)),
            (&[served], Some(75)),
            (&[], Some(75)),
        ] {
            let outcome = |reply: &&str| RecipientReply {
                recipient: "ann@example.org".into(),
                reply: (*reply).into(),
            };
            let outcomes: Vec<RecipientReply> = replies.iter().map(outcome).collect();
            assert_eq!(
                verdict(&outcomes, 2).err().map(|failure| failure.code),
                code,
                "{replies:?}"
            );
        }
    }

    #[test]
    fn no_fault_of_ours_bounces() {
        let code = |done: Result<(), Failure>| done.unwrap_err().code;
        for fault in
            [exit::CONFIG, exit::NO_PERMISSION, exit::UNAVAILABLE, exit::NO_USER, exit::USAGE]
        {
            assert_eq!(code(ours_to_mend(|| Err(Failure::new(fault, "x")))), 75, "{fault}");
        }
        assert_eq!(code(ours_to_mend(|| panic!("a fault"))), 75);
    }

    #[test]
    fn a_delivery_is_known_by_its_words() {
        for (line, meant) in [
            ("restante deliver", true),
            ("restante --config /etc/x --json deliver --frm x", true),
            ("restante --config=/etc/x deliver", true),
            ("restante --config deliver mail list", false),
            ("restante account add deliver", false),
            ("restante --json", false),
        ] {
            assert_eq!(is_meant(line.split(' ').map(str::to_owned)), meant, "{line}");
        }
    }
}
