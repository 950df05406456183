//! Fuzz bodies of protocols: LMTP sessions, dot-stuffing, addresses, commands, JMAP requests.

use super::{InputRng, bounded};
use crate::model::{Address, Envelope, limits};
use crate::wire::jmap::session::SessionState;
use crate::wire::jmap::text::ResponseArguments;
use crate::wire::jmap::{
    CORE, Invocation, MethodError, Response, VACATION, parse as parse_request, reference,
};
use crate::wire::lmtp::{Session, Settings, Step};
use crate::wire::smtp::command::{Command, parse as parse_command};
use crate::wire::smtp::dot::stuff;
use crate::wire::smtp::path::{parameters, path, utf8_addr, xtext};
use crate::wire::smtp::{DotUnstuffer, Reply};

/// Runs an LMTP session with any bytes from the client. The session keeps its limits, and does not
/// depend on how the bytes are split.
pub fn lmtp(data: &[u8]) {
    let data = bounded(data);
    let plain = Settings {
        hostname: "mx.example".into(),
        max_message: 300,
        max_recipients: 3,
        max_commands: 40,
        max_errors: 6,
        ..Settings::default()
    };
    let trusted = Settings { trusted: true, starttls: true, ..plain.clone() };
    let mut rng = InputRng::of(data);
    for settings in [plain, trusted] {
        let whole = run_session(&[data], &settings);
        // With more bytes, this would take too long.
        if data.len() <= 8 * 1024 {
            let single: Vec<&[u8]> = data.chunks(1).collect();
            assert_eq!(run_session(&single, &settings), whole, "byte by byte");
        }
        for about in [2, 30, 500] {
            let pieces = rng.pieces(data, about);
            assert_eq!(run_session(&pieces, &settings), whole, "in {} pieces", pieces.len());
        }
    }
}

/// What a session sent to the client, and the messages that it passed to its driver.
#[derive(PartialEq, Eq)]
struct LmtpTranscript {
    replies: Vec<u8>,
    messages: Vec<(Envelope, Vec<u8>)>,
    /// Whether the session ended because TLS begins.
    starttls: bool,
}

impl std::fmt::Debug for LmtpTranscript {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(out, "\n{}", self.replies.escape_ascii().to_string().replace("\\r\\n", "\n"))?;
        self.messages
            .iter()
            .try_for_each(|(envelope, body)| writeln!(out, "{envelope:?} {}", body.escape_ascii()))
    }
}

/// Runs a session. As its driver, refuses each recipient `unknown@`, and answers 452 for `full@` at
/// the end of a message.
fn run_session(pieces: &[&[u8]], settings: &Settings) -> LmtpTranscript {
    let mut session = Session::new(settings.clone());
    let mut transcript =
        LmtpTranscript { replies: Vec::new(), messages: Vec::new(), starttls: false };
    transcript.replies.append(session.output());
    let (mut input, mut body) = (Vec::new(), Vec::new());
    let all: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut steps = 0;
    'all: for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            // Far more steps than a session needs for its input.
            steps += 1;
            assert!(steps <= 4 * all + pieces.len() + 16, "the session makes no progress");
            let (taken, step) = session.step(&input);
            input.drain(..taken);
            match step {
                Step::NeedInput if taken == 0 => {
                    assert!(
                        input.len() < limits::MAX_COMMAND_BYTES,
                        "{} bytes wait for a line's end",
                        input.len()
                    );
                    transcript.replies.append(session.output());
                    break;
                }
                // The session goes on with the input that it has left.
                Step::NeedInput => {}
                Step::Begin | Step::Reset => body.clear(),
                Step::Rcpt(question) => {
                    let known = question.recipient().address.local() != "unknown";
                    question.answer(&if known {
                        Reply::new(250, [2, 1, 5], "taken")
                    } else {
                        Reply::new(550, [5, 1, 1], "unknown")
                    });
                }
                Step::Body(bytes) => {
                    assert!(!bytes.is_empty());
                    body.extend_from_slice(bytes);
                    assert!(
                        body.len() as u64 <= settings.max_message,
                        "the message is over the limit"
                    );
                }
                Step::End(envelope) => {
                    let count = envelope.recipients.len();
                    assert!((1..=settings.max_recipients).contains(&count), "{count} recipients");
                    check_envelope(&envelope);
                    let replies: Vec<Reply> = envelope
                        .recipients
                        .iter()
                        .map(|to| match to.address.local() {
                            "full" => Reply::new(452, [4, 2, 2], "full"),
                            _ => Reply::new(250, [2, 0, 0], "filed"),
                        })
                        .collect();
                    session.delivered(&replies);
                    transcript.messages.push((*envelope, std::mem::take(&mut body)));
                }
                Step::StartTls => {
                    // Pipelined input after STARTTLS is discarded, so what follows depends on the
                    // split.
                    transcript.replies.append(session.output());
                    transcript.starttls = true;
                    assert!(settings.starttls);
                    break 'all;
                }
                Step::Close => {
                    transcript.replies.append(session.output());
                    assert_eq!(session.step(&input), (0, Step::Close), "a closed session goes on");
                    break 'all;
                }
            }
            transcript.replies.append(session.output());
        }
    }
    check_replies(&transcript.replies, settings);
    transcript
}

/// Checks that no text of an envelope has control characters.
fn check_envelope(envelope: &Envelope) {
    let client = &envelope.client;
    let values = [
        &client.name,
        &client.addr,
        &client.helo,
        &client.proto,
        &client.ident,
        &client.source,
        &client.login,
    ];
    let texts = values.into_iter().flatten().chain(&envelope.envid).chain([&envelope.lhlo]);
    let clean = |text: &str| !text.chars().any(char::is_control);
    assert!(texts.into_iter().all(|text| clean(text)), "{envelope:?}");
    let originals = envelope.recipients.iter().filter_map(|recipient| recipient.original.as_ref());
    for original in originals {
        assert!(clean(&original.kind) && clean(&original.address), "{envelope:?}");
    }
    let paths =
        envelope.recipients.iter().map(|recipient| &recipient.address).chain(&envelope.sender);
    assert!(paths.into_iter().all(|path| clean(&path.to_string())), "{envelope:?}");
}

/// Checks the lines of replies (RFC 5321 §4.2), and that there are no more replies than the limits
/// of commands and recipients allow (RFC 2033 §4.2).
fn check_replies(replies: &[u8], settings: &Settings) {
    let text = std::str::from_utf8(replies).expect("replies are text");
    assert!(text.ends_with("\r\n"));
    let mut count = 0;
    for line in text.split_terminator("\r\n") {
        // 512 bytes with CRLF (RFC 5321 §4.5.3.1.5).
        assert!(line.len() <= 510 && !line.chars().any(char::is_control), "{line:?}");
        let (code, rest) = line.split_at_checked(3).expect("a code");
        assert!(
            code.bytes().all(|digit| digit.is_ascii_digit()) && rest.starts_with([' ', '-']),
            "{line:?}"
        );
        count += usize::from(rest.starts_with(' '));
    }
    let (commands, errors) = (settings.max_commands as usize, settings.max_errors as usize);
    // The 3 leave room for the greeting and for replies at the end of the session.
    assert!(count <= 3 + errors + commands * settings.max_recipients, "{count} replies");
}

/// Stuffs and unstuffs any bytes as a message. It comes back unchanged, apart from a CRLF that is
/// added if the last line has none, and unstuffing does not depend on how the bytes are split.
pub fn dot(data: &[u8]) {
    let data = bounded(data);
    let mut message = data.to_vec();
    if !message.is_empty() && !message.ends_with(b"\r\n") {
        message.extend_from_slice(b"\r\n");
    }
    let wire = [stuff(data), b"NOOP\r\n".to_vec()].concat();
    let mut rng = InputRng::of(data);
    let every: Vec<usize> = match wire.len() {
        0..=200 => (0..=wire.len()).collect(),
        length => (0..20).map(|_| rng.upto(length)).collect(),
    };
    for cut in every {
        let (first, second) = wire.split_at(cut);
        let (out, taken, done) = unstuff(&[first, second]);
        // The 6 bytes of NOOP are left.
        assert!(done && taken == wire.len() - 6, "cut at {cut}: the message ends at {taken}");
        assert_eq!(
            out.escape_ascii().to_string(),
            message.escape_ascii().to_string(),
            "cut at {cut}"
        );
    }
    let whole = unstuff(&[data]);
    assert!(whole.0.len() <= whole.1, "more bytes come out than went in");
    assert_eq!(unstuff(&data.chunks(1).collect::<Vec<_>>()), whole);
    assert_eq!(unstuff(&rng.pieces(data, 5)), whole);
}

/// Returns the message, the number of bytes that were taken, and whether its end was found.
fn unstuff(pieces: &[&[u8]]) -> (Vec<u8>, usize, bool) {
    let (mut state, mut out, mut all) = (DotUnstuffer::default(), Vec::new(), 0);
    for piece in pieces {
        let (taken, done) = state.feed(piece, &mut out);
        all += taken;
        if done {
            return (out, all, true);
        }
        assert_eq!(taken, piece.len(), "bytes before the end of the message are left");
    }
    (out, all, false)
}

/// Parses any bytes as an address, a path, parameters, xtext and a utf-8-addr. Addresses and paths
/// read the same after they are written.
pub fn address(data: &[u8]) {
    let data = bounded(data);
    let text = String::from_utf8_lossy(data);
    if let Ok(address) = Address::parse(&text) {
        let written = address.to_string();
        assert_eq!(Address::parse(&written).as_ref(), Ok(&address), "{written}");
        check_folding(&address);
    }
    if let Ok((found, rest)) = path(data) {
        assert!(data.ends_with(rest));
        let written = found.as_ref().map(ToString::to_string).unwrap_or_default();
        let again = format!("<{written}>");
        assert_eq!(path(again.as_bytes()), Ok((found.clone(), &b""[..])), "{again}");
        // A local part, each byte of which may be escaped, two quotes, `@`, and a domain.
        assert!(written.len() <= 2 * 256 + 255 + 3, "{} bytes", written.len());
        if let Some(address) = found {
            check_folding(&address);
        }
    }
    if let Ok(all) = parameters(data) {
        assert!(all.iter().all(|(keyword, _)| !keyword.is_empty() && keyword.is_ascii()));
    }
    for decoded in [xtext(&text), utf8_addr(&text)].into_iter().flatten() {
        assert!(
            decoded.len() <= text.len() && !decoded.chars().any(char::is_control),
            "{decoded:?}"
        );
    }
}

/// Checks that folding twice changes nothing more, that the detail can be split off, and that the
/// form with the reversed domain ends with the local part.
fn check_folding(address: &Address) {
    let folded = address.folded();
    assert_eq!(folded.folded(), folded, "folded twice");
    let (base, detail) = address.split_detail('+');
    match detail {
        Some(detail) => assert_eq!(format!("{}+{detail}", base.local()), address.local()),
        None => assert_eq!(&base, address),
    }
    assert!(address.reversed_domain().ends_with(folded.local()));
}

/// Parses any lines as SMTP commands. The case of the verb does not matter, texts have no control
/// characters, and the path and parameters of a MAIL or RCPT read the same after they are written
/// as a MAIL.
pub fn command(data: &[u8]) {
    for line in bounded(data).split(|byte| *byte == b'\n').take(200) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let read = parse_command(line);
        let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let (verb, rest) = line.split_at(end);
        assert_eq!(parse_command(&[&verb.to_ascii_lowercase(), rest].concat()), read);
        let (address, parameters) = match read {
            Ok(Command::Mail(address, parameters)) => (address, parameters),
            Ok(Command::Rcpt(address, parameters)) => (Some(address), parameters),
            Ok(Command::Lhlo(name)) => {
                assert!(
                    (1..=255).contains(&name.len()) && !name.chars().any(char::is_control),
                    "{name:?}"
                );
                continue;
            }
            Ok(Command::XForward(attributes) | Command::XClient(attributes)) => {
                assert!(
                    attributes
                        .iter()
                        .flat_map(|(_, value)| value)
                        .all(|value| !value.chars().any(char::is_control))
                );
                continue;
            }
            _ => continue,
        };
        let written = address.as_ref().map(ToString::to_string).unwrap_or_default();
        let mut again = format!("MAIL FROM:<{written}>");
        for (keyword, value) in &parameters {
            again.push_str(&if value.is_empty() {
                format!(" {keyword}")
            } else {
                format!(" {keyword}={value}")
            });
        }
        assert_eq!(
            parse_command(again.as_bytes()),
            Ok(Command::Mail(address, parameters)),
            "{again}"
        );
    }
}

/// Parses any bytes as a JMAP request and resolves its result references as if every method were
/// `Core/echo`. The depth of the arguments and the size of the response are bounded.
pub fn jmap(data: &[u8]) {
    let data = bounded(data);
    let request = match parse_request(data, &[CORE, VACATION]) {
        Ok(request) => request,
        Err(error) => {
            assert_eq!(
                error.problem().get("status").and_then(serde_json::Value::as_u64),
                Some(400)
            );
            return;
        }
    };
    assert!(request.calls.len() <= limits::MAX_REQUEST_CALLS);
    for call in &request.calls {
        assert!(
            call.arguments.values().all(|value| depth(value) <= limits::MAX_JSON_DEPTH),
            "nested deeper than is read"
        );
    }
    let mut answers: Vec<Invocation<ResponseArguments>> = Vec::new();
    for mut call in request.calls {
        let name = match reference::resolve(&mut call.arguments, &answers) {
            Ok(()) => {
                assert!(
                    !call.arguments.keys().any(|name| name.starts_with('#')),
                    "a reference is left"
                );
                call.name
            }
            Err(MethodError::InvalidArguments(_) | MethodError::InvalidResultReference(_)) => {
                "error".into()
            }
            Err(other) => panic!("{other:?}"),
        };
        let arguments = call.arguments.into();
        answers.push(Invocation { name, arguments, id: call.id });
    }
    let calls = answers.len();
    let response = Response {
        responses: answers,
        created_ids: request.created_ids,
        session_state: SessionState(0),
    };
    let size = response.json().to_string().len();
    // A byte of a JSON text may be written as six.
    let max = 6 * (data.len() + calls * limits::MAX_REFERENCED_BYTES) + 100;
    assert!(size <= max, "{size} bytes of response to {} of request", data.len());
}

/// Returns how deep arrays and objects are nested in a value, itself included; 0 for any other.
fn depth(value: &serde_json::Value) -> usize {
    let inner = match value {
        serde_json::Value::Array(items) => items.iter().map(depth).max(),
        serde_json::Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}
