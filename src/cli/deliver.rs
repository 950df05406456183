//! `deliver`: a message from standard input, for a pipe(8) transport.
//!
//! What must hold: 0 only when every recipient has it durably; whatever is not known to be final is 75, so that Postfix
//! keeps the message and tries again. A retry makes no second copy.

use std::path::Path;

use serde_json::json;

use super::args::Deliver;
use super::output::{self, text};
use super::{Context, Failure, exit, methods, vacation};
use crate::wire::jmap::octets;

pub(super) async fn run(args: Deliver, context: &Context) -> Result<(), Failure> {
    let message = vacation::read(Path::new("-")).map_err(|failure| Failure::new(exit::TEMPORARY, failure.message))?;
    let sender = args.sender.trim().trim_start_matches('<').trim_end_matches('>');
    let answer = context
        .client
        .call(
            methods::DELIVER,
            json!({
                "sender": (!sender.is_empty()).then_some(sender),
                "recipients": args.recipients,
                "message": octets(&with_crlf(&message)),
            }),
        )
        .await
        .map_err(|failure| match failure.code {
            exit::UNAVAILABLE | exit::SOFTWARE => Failure::new(exit::TEMPORARY, failure.message),
            _ => failure,
        })?;
    if context.json {
        output::json(&answer["outcomes"]);
    }
    let mut worst: Option<Failure> = None;
    for outcome in answer["outcomes"].as_array().into_iter().flatten() {
        let reply = text(&outcome["reply"]);
        let code = code_of(&reply);
        if code == 0 {
            continue;
        }
        let line = format!("{}: {reply}", text(&outcome["recipient"]));
        worst = Some(match worst {
            None => Failure::new(code, line),
            // What may still be delivered keeps the whole message in Postfix's queue.
            Some(before) => Failure::new(
                if code == exit::TEMPORARY { code } else { before.code },
                format!("{}\n{line}", before.message),
            ),
        });
    }
    worst.map_or(Ok(()), Err)
}

/// pipe(8) ends lines with LF: as mail they end with CRLF.
pub(super) fn with_crlf(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + message.len() / 32);
    let mut before = 0;
    for octet in message {
        if *octet == b'\n' && before != b'\r' {
            out.push(b'\r');
        }
        out.push(*octet);
        before = *octet;
    }
    out
}

/// The exit code that says to pipe(8) what this reply says to LMTP.
fn code_of(reply: &str) -> u8 {
    match (reply.as_bytes().first(), reply.split(' ').nth(1)) {
        (Some(b'2'), _) => 0,
        (Some(b'5'), Some("5.1.1" | "5.1.0" | "5.1.6")) => exit::NO_USER,
        (Some(b'5'), Some("5.6.0" | "5.3.4")) => exit::DATA,
        (Some(b'5'), _) => exit::UNAVAILABLE,
        _ => exit::TEMPORARY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_in_mail() {
        assert_eq!(with_crlf(b"a\nb\r\nc"), b"a\r\nb\r\nc");
    }

    #[test]
    fn codes() {
        for (reply, code) in [
            ("250 2.1.5 e0 delivered", 0),
            ("550 5.1.1 unknown", 67),
            ("452 4.2.2 full", 75),
            ("552 5.2.2 full", 69),
            ("552 5.3.4 too large", 65),
            ("451 4.3.0 trouble", 75),
            ("", 75),
        ] {
            assert_eq!(code_of(reply), code, "{reply}");
        }
    }
}
