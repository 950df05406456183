//! Tests of sessions, many as transcripts: what the client sends and what the server answers, line
//! by line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::*;
use crate::wire::sasl::Question;

mod bounds;
mod logins;
mod scripts;

const SEED: [u8; 32] = [7; 32];

fn settings() -> Settings {
    Settings {
        extensions: "fileinto vacation".into(),
        max_redirects: Some(4),
        notify: Some("mailto".into()),
        max_script: 200,
        login: true,
        max_errors: 100,
        ..Settings::default()
    }
}

/// Answers requests like an account that has no scripts at first and the password `secret`.
#[derive(Default)]
struct Driver {
    requests: Vec<Request>,
    scripts: Vec<(String, Vec<u8>)>,
    active: Option<String>,
    has_begun_tls: bool,
    largest_output: usize,
}

impl Driver {
    fn find(&self, name: &str) -> Option<usize> {
        self.scripts.iter().position(|(other, _)| other == name)
    }

    fn answer(&mut self, request: Request) -> Answer {
        self.requests.push(request.clone());
        let missing = || Answer::Refused(Some(Code::NonExistent), "there is no such script".into());
        match request {
            Request::Put { script, .. } | Request::Check(script) if script.starts_with(b"bad") => {
                Answer::Refused(None, "line 1:1: one\nline 2:3: two\n".into())
            }
            Request::Put { name, script } => {
                match self.find(&name) {
                    Some(at) => self.scripts[at].1 = script,
                    None => self.scripts.push((name, script)),
                }
                Answer::Done
            }
            Request::Check(script) if script.starts_with(b"odd") => {
                Answer::Warnings("line 1:1: odd".into())
            }
            Request::HaveSpace { .. } | Request::Check(_) => Answer::Done,
            Request::List => Answer::Scripts(
                self.scripts
                    .iter()
                    .map(|(name, _)| (name.clone(), self.active.as_ref() == Some(name)))
                    .collect(),
            ),
            Request::SetActive(name) => {
                if name.as_ref().is_some_and(|name| self.find(name).is_none()) {
                    return missing();
                }
                self.active = name;
                Answer::Done
            }
            Request::Get(name) => match self.find(&name) {
                Some(at) => Answer::Script(self.scripts[at].1.clone()),
                None => missing(),
            },
            Request::Delete(name) if self.active.as_ref() == Some(&name) => {
                Answer::Refused(Some(Code::Active), "the script is active".into())
            }
            Request::Delete(name) => match self.find(&name) {
                Some(at) => {
                    self.scripts.remove(at);
                    Answer::Done
                }
                None => missing(),
            },
            Request::Rename { from, to } => match (self.find(&from), self.find(&to)) {
                (None, _) => missing(),
                (Some(_), Some(_)) => {
                    Answer::Refused(Some(Code::AlreadyExists), "the name is taken".into())
                }
                (Some(at), None) => {
                    self.scripts[at].0 = to;
                    Answer::Done
                }
            },
        }
    }

    /// Gives the session the pieces one after the other, and returns what it sends.
    fn run(&mut self, session: &mut Session, pieces: &[&[u8]]) -> String {
        let mut sent = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            loop {
                let (consumed, step) = session.step(rest);
                rest = &rest[consumed..];
                self.largest_output = self.largest_output.max(session.output().len());
                match step {
                    Step::Flush => sent.append(session.output()),
                    Step::NeedInput if consumed == 0 => break,
                    Step::NeedInput => {}
                    Step::Ask(Question::Password { name, password, .. }) => {
                        if password == "secret" {
                            session.accept(&name);
                        } else {
                            session.reject(Rejection::Credentials);
                        }
                    }
                    Step::Ask(Question::Token { .. }) => session.reject(Rejection::Credentials),
                    Step::Ask(question) => panic!("{question:?}"),
                    Step::Do(request) => {
                        let answer = self.answer(request);
                        session.done(answer);
                    }
                    Step::StartTls => {
                        self.has_begun_tls = true;
                        break;
                    }
                    Step::Close => break,
                }
            }
            sent.append(session.output());
        }
        String::from_utf8(sent).unwrap()
    }
}

/// Returns a session that is logged in, with the greeting and the answer to the login taken off.
fn logged_in(settings: Settings) -> (Session, Driver) {
    let (mut session, mut driver) = (Session::new(settings, SEED), Driver::default());
    session.output().clear();
    assert_eq!(driver.run(&mut session, &[&plain("ann", "secret")]), "OK\r\n");
    assert!(session.is_logged_in());
    (session, driver)
}

fn plain(name: &str, password: &str) -> Vec<u8> {
    let response = STANDARD.encode(format!("\0{name}\0{password}"));
    format!("AUTHENTICATE \"PLAIN\" \"{response}\"\r\n").into_bytes()
}

/// Sends lines with `C:` that follow one another, and compares all that the session answers with
/// the lines with `S:` after them; then the next such group.
fn transcript(text: &str) {
    let (mut session, mut driver) = logged_in(settings());
    check(&mut session, &mut driver, text);
}

fn check(session: &mut Session, driver: &mut Driver, text: &str) {
    let mut lines = text.trim().lines().map(str::trim_start).peekable();
    while lines.peek().is_some() {
        let mut take = |mark: &str| {
            let mut out = String::new();
            while let Some(line) = lines.next_if(|line| line.starts_with(mark)) {
                out.push_str(line[mark.len()..].strip_prefix(' ').unwrap_or_default());
                out.push_str("\r\n");
            }
            out
        };
        let (client, server) = (take("C:"), take("S:"));
        assert!(!(client.is_empty() && server.is_empty()), "neither client nor server");
        let sent = driver.run(session, &[client.as_bytes()]);
        assert_eq!(sent, server, "after {client}");
    }
}
