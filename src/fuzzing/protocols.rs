//! What comes over a socket: LMTP sessions, dot-stuffing, addresses, commands, JMAP requests.

use super::{InputRng, bounded};
use crate::model::{Address, Envelope, limits};
use crate::wire::jmap::session::SessionState;
use crate::wire::jmap::{
    CORE, Invocation, MethodError, Response, VACATION, parse as parse_request, reference,
};
use crate::wire::lmtp::{Session, Settings, Step};
use crate::wire::smtp::command::{Command, parse as parse_command};
use crate::wire::smtp::dot::stuff;
use crate::wire::smtp::path::{parameters, path, utf8_addr, xtext};
use crate::wire::smtp::{DotUnstuffer, Reply};

/// A client's octets: in whatever pieces they come the session is the same, within its limits.
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
    let mut dice = InputRng::of(data);
    for settings in [plain, trusted] {
        let whole = talk(&[data], &settings);
        if data.len() <= 8 * 1024 {
            let octets: Vec<&[u8]> = data.chunks(1).collect();
            assert_eq!(talk(&octets, &settings), whole, "octet by octet");
        }
        for about in [2, 30, 500] {
            let pieces = dice.pieces(data, about);
            assert_eq!(talk(&pieces, &settings), whole, "in {} pieces", pieces.len());
        }
    }
}

/// What a session said, and the messages that came through it.
#[derive(PartialEq, Eq)]
struct LmtpTranscript {
    said: Vec<u8>,
    messages: Vec<(Envelope, Vec<u8>)>,
    starttls: bool,
}

impl std::fmt::Debug for LmtpTranscript {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(out, "\n{}", self.said.escape_ascii().to_string().replace("\\r\\n", "\n"))?;
        self.messages
            .iter()
            .try_for_each(|(envelope, body)| writeln!(out, "{envelope:?} {}", body.escape_ascii()))
    }
}

/// A driver: `unknown@` is refused, `full@` is over quota at the end, and a third of a message may
/// be refused on its way.
fn talk(pieces: &[&[u8]], settings: &Settings) -> LmtpTranscript {
    let mut session = Session::new(settings.clone());
    let mut talk = LmtpTranscript { said: Vec::new(), messages: Vec::new(), starttls: false };
    talk.said.append(session.output());
    let (mut input, mut body) = (Vec::new(), Vec::new());
    let all: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut steps = 0;
    'all: for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            steps += 1;
            assert!(steps <= 4 * all + pieces.len() + 16, "a session that does not move on");
            let (taken, step) = session.step(&input);
            input.drain(..taken);
            match step {
                Step::NeedInput if taken == 0 => {
                    assert!(
                        input.len() < limits::MAX_COMMAND_BYTES,
                        "{} octets wait for a line's end",
                        input.len()
                    );
                    talk.said.append(session.output());
                    break;
                }
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
                        "more of a message than there may be"
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
                    talk.messages.push((*envelope, std::mem::take(&mut body)));
                }
                Step::StartTls => {
                    // What is pipelined behind it is discarded, so that nothing after it can be the
                    // same.
                    talk.said.append(session.output());
                    talk.starttls = true;
                    assert!(settings.starttls);
                    break 'all;
                }
                Step::Close => {
                    talk.said.append(session.output());
                    assert_eq!(session.step(&input), (0, Step::Close), "closed is closed");
                    break 'all;
                }
            }
            talk.said.append(session.output());
        }
    }
    check_replies(&talk.said, settings);
    talk
}

/// Nothing in it can break a line of whatever is made of it.
fn check_envelope(envelope: &Envelope) {
    let client = &envelope.client;
    let said = [
        &client.name,
        &client.addr,
        &client.helo,
        &client.proto,
        &client.ident,
        &client.source,
        &client.login,
    ];
    let texts = said.into_iter().flatten().chain(&envelope.envid).chain([&envelope.lhlo]);
    let clean = |text: &str| !text.chars().any(char::is_control);
    assert!(texts.into_iter().all(|text| clean(text)), "{envelope:?}");
    let paths =
        envelope.recipients.iter().map(|recipient| &recipient.address).chain(&envelope.sender);
    assert!(paths.into_iter().all(|path| clean(&path.to_string())), "{envelope:?}");
}

/// Well-formed lines, and no more replies than commands and recipients allow (RFC 5321 §4.2, RFC
/// 2033 §4.2).
fn check_replies(said: &[u8], settings: &Settings) {
    let said = std::str::from_utf8(said).expect("replies are text");
    assert!(said.ends_with("\r\n"));
    let mut replies = 0;
    for line in said.split_terminator("\r\n") {
        assert!(line.len() <= 510 && !line.chars().any(char::is_control), "{line:?}");
        let (code, rest) = line.split_at_checked(3).expect("a code");
        assert!(
            code.bytes().all(|digit| digit.is_ascii_digit()) && rest.starts_with([' ', '-']),
            "{line:?}"
        );
        replies += usize::from(rest.starts_with(' '));
    }
    let (commands, errors) = (settings.max_commands as usize, settings.max_errors as usize);
    assert!(replies <= 3 + errors + commands * settings.max_recipients, "{replies} replies");
}

/// Stuffing and unstuffing undo each other at every split; whatever comes, a split changes nothing.
pub fn dot(data: &[u8]) {
    let data = bounded(data);
    let mut message = data.to_vec();
    if !message.is_empty() && !message.ends_with(b"\r\n") {
        message.extend_from_slice(b"\r\n");
    }
    let wire = [stuff(data), b"NOOP\r\n".to_vec()].concat();
    let mut dice = InputRng::of(data);
    let every: Vec<usize> = match wire.len() {
        0..=200 => (0..=wire.len()).collect(),
        most => (0..20).map(|_| dice.upto(most)).collect(),
    };
    for cut in every {
        let (first, second) = wire.split_at(cut);
        let (out, taken, done) = unstuff(&[first, second]);
        assert!(done && taken == wire.len() - 6, "cut at {cut}: the message ends at {taken}");
        assert_eq!(
            out.escape_ascii().to_string(),
            message.escape_ascii().to_string(),
            "cut at {cut}"
        );
    }
    let whole = unstuff(&[data]);
    assert!(whole.0.len() <= whole.1, "more comes out than went in");
    assert_eq!(unstuff(&data.chunks(1).collect::<Vec<_>>()), whole);
    assert_eq!(unstuff(&dice.pieces(data, 5)), whole);
}

fn unstuff(pieces: &[&[u8]]) -> (Vec<u8>, usize, bool) {
    let (mut state, mut out, mut all) = (DotUnstuffer::default(), Vec::new(), 0);
    for piece in pieces {
        let (taken, done) = state.feed(piece, &mut out);
        all += taken;
        if done {
            return (out, all, true);
        }
        assert_eq!(taken, piece.len(), "octets of an open message are left");
    }
    (out, all, false)
}

/// Addresses and paths: what is read can be written and read again, and folding is done once.
pub fn address(data: &[u8]) {
    let data = bounded(data);
    let text = String::from_utf8_lossy(data);
    if let Ok(address) = Address::parse(&text) {
        let written = address.to_string();
        assert_eq!(Address::parse(&written).as_ref(), Ok(&address), "{written}");
        folding(&address);
    }
    if let Ok((found, rest)) = path(data) {
        assert!(data.ends_with(rest));
        let written = found.as_ref().map(ToString::to_string).unwrap_or_default();
        let again = format!("<{written}>");
        assert_eq!(path(again.as_bytes()), Ok((found.clone(), &b""[..])), "{again}");
        assert!(written.len() <= 2 * 256 + 255 + 3, "{} octets", written.len());
        if let Some(address) = found {
            folding(&address);
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

fn folding(address: &Address) {
    let folded = address.folded();
    assert_eq!(folded.folded(), folded, "folded twice");
    let (base, detail) = address.split_detail('+');
    match detail {
        Some(detail) => assert_eq!(format!("{}+{detail}", base.local()), address.local()),
        None => assert_eq!(&base, address),
    }
    assert!(address.reversed_domain().ends_with(folded.local()));
}

/// Command lines: any octets are a command or refused; case does not matter, and paths hold what
/// they should.
pub fn command(data: &[u8]) {
    for line in bounded(data).split(|octet| *octet == b'\n').take(200) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let read = parse_command(line);
        let end = line.iter().position(|octet| *octet == b' ').unwrap_or(line.len());
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
            Ok(Command::XForward(said) | Command::XClient(said)) => {
                assert!(
                    said.iter()
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

/// JMAP requests: any octets are one or an error; references between calls neither nest without end
/// nor grow without end.
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
    let mut answers: Vec<Invocation> = Vec::new();
    for mut call in request.calls {
        // Every method is an echo: what it is given is what it answers.
        let answer = match reference::resolve(&mut call.arguments, &answers) {
            Ok(()) => {
                assert!(
                    !call.arguments.keys().any(|name| name.starts_with('#')),
                    "a reference is left"
                );
                call
            }
            Err(MethodError::InvalidArguments(_) | MethodError::InvalidResultReference(_)) => {
                Invocation { name: "error".into(), ..call }
            }
            Err(other) => panic!("{other:?}"),
        };
        answers.push(answer);
    }
    let calls = answers.len();
    let response = Response {
        responses: answers,
        created_ids: request.created_ids,
        session_state: SessionState(0),
    };
    let octets = response.json().to_string().len();
    // An octet of a JSON text may be written as six.
    let most = 6 * (data.len() + calls * limits::MAX_REFERENCED_BYTES) + 100;
    assert!(octets <= most, "{octets} octets of answers to {} of a request", data.len());
}

fn depth(value: &serde_json::Value) -> usize {
    let inner = match value {
        serde_json::Value::Array(items) => items.iter().map(depth).max(),
        serde_json::Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}
