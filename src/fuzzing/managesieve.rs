//! The fuzz body of ManageSieve sessions.

use super::{InputRng, bounded};
use crate::wire::managesieve::{Answer, Code, Rejection, Request, Session, Settings, Step};
use crate::wire::sasl::{AccountKeys, Question};

/// Runs a ManageSieve session with any bytes from the client, once before a login and once after
/// it. The session keeps its limits, and does not depend on how the bytes are split.
pub fn managesieve(data: &[u8]) {
    let data = bounded(data);
    let mut rng = InputRng::of(data);
    // The login of the user `u` with the password `p`.
    let logged_in = [b"AUTHENTICATE \"PLAIN\" \"AHUAcA==\"\r\n", data].concat();
    for data in [data, &logged_in] {
        let whole = run_session(&[data]);
        // With more bytes, this would take too long.
        if data.len() <= 8 * 1024 {
            let single: Vec<&[u8]> = data.chunks(1).collect();
            assert_eq!(run_session(&single), whole, "byte by byte");
        }
        for about in [2, 30, 500] {
            let pieces = rng.pieces(data, about);
            assert_eq!(run_session(&pieces), whole, "in {} pieces", pieces.len());
        }
    }
}

/// Small, so that inputs exceed it.
const MAX_SCRIPT_BYTES: usize = 300;
/// A session asks for its output to be sent once it has 64 KiB. One answer may come on top.
const MAX_OUTPUT_BYTES: usize = 68 << 10;

#[derive(Debug, PartialEq, Eq)]
struct Transcript {
    /// The output of the session, as escaped text.
    sent: String,
    /// The requests that the session handed to its driver.
    requests: Vec<Request>,
    /// Whether the session ended because TLS begins.
    has_begun_tls: bool,
}

/// Runs a session with a driver that accepts the user `u` with the password `p`, and cannot check
/// the password of the user `later`.
fn run_session(pieces: &[&[u8]]) -> Transcript {
    let settings = Settings {
        extensions: "fileinto".into(),
        max_script: MAX_SCRIPT_BYTES,
        starttls: true,
        login: true,
        max_errors: 20,
        ..Settings::default()
    };
    let mut session = Session::new(settings, [7; 32]);
    let mut sent = std::mem::take(session.output());
    let (mut requests, mut has_begun_tls) = (Vec::new(), false);
    let mut send = |out: &mut Vec<u8>| {
        assert!(out.len() <= MAX_OUTPUT_BYTES, "{} bytes of output", out.len());
        sent.append(out);
    };
    'all: for piece in pieces {
        let mut rest = *piece;
        loop {
            let (consumed, step) = session.step(rest);
            rest = &rest[consumed..];
            match step {
                Step::NeedInput if consumed == 0 => {
                    assert!(rest.is_empty(), "input is left");
                    break;
                }
                // The next call shows whether input is left.
                Step::NeedInput => {}
                Step::Flush => send(session.output()),
                Step::Ask(Question::Keys { .. }) => session.found_keys(AccountKeys {
                    salt: b"salt".to_vec(),
                    iterations: 4096,
                    keys: Vec::new(),
                }),
                Step::Ask(Question::Password { name, password, .. }) => {
                    match (name.as_str(), password.as_str()) {
                        ("u", "p") => session.accept("u"),
                        ("later", _) => session.reject(Rejection::NotChecked("later".into())),
                        _ => session.reject(Rejection::Credentials),
                    }
                }
                Step::Ask(_) => session.reject(Rejection::Credentials),
                Step::Do(request) => {
                    assert!(session.is_logged_in(), "{request:?} before the login");
                    session.done(answer(&request));
                    requests.push(request);
                }
                Step::StartTls => {
                    assert!(!session.is_logged_in());
                    has_begun_tls = true;
                    break 'all;
                }
                Step::Close => break 'all,
            }
        }
        send(session.output());
    }
    send(session.output());
    Transcript { sent: sent.escape_ascii().to_string(), requests, has_begun_tls }
}

/// Checks a request, and answers it in place of the store.
fn answer(request: &Request) -> Answer {
    let check_name = |name: &String| {
        let length = name.chars().count();
        assert!((1..=128).contains(&length), "a name of {length} characters");
        assert!(!name.contains(char::is_control), "{name:?}");
    };
    match request {
        Request::Put { name, script } => {
            check_name(name);
            assert!((1..=MAX_SCRIPT_BYTES).contains(&script.len()), "{} bytes", script.len());
            Answer::Warnings("line 1\nline 2".into())
        }
        Request::Check(script) => {
            assert!(script.len() <= MAX_SCRIPT_BYTES, "{} bytes", script.len());
            Answer::Refused(None, String::from_utf8_lossy(script).into_owned())
        }
        Request::HaveSpace { name, size } => {
            check_name(name);
            assert!(*size <= MAX_SCRIPT_BYTES as u64);
            Answer::Done
        }
        Request::List => Answer::Scripts(vec![("a\"b".into(), true), ("c".into(), false)]),
        Request::SetActive(name) => {
            name.iter().for_each(check_name);
            Answer::Done
        }
        Request::Get(name) => {
            check_name(name);
            Answer::Script(name.clone().into_bytes())
        }
        Request::Delete(name) => {
            check_name(name);
            Answer::Refused(Some(Code::Active), name.clone())
        }
        Request::Rename { from, to } => {
            check_name(from);
            check_name(to);
            Answer::Done
        }
    }
}
