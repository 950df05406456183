//! Tests of sessions, many as transcripts: what the client sends and what the server answers, line
//! by line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::session::MAX_PENDING_OUTPUT;
use super::*;
use crate::wire::sasl::{AccountKeys, Question};

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

#[test]
fn greeting_names_the_capabilities() {
    let mut session = Session::new(settings(), SEED);
    let greeting = String::from_utf8(session.output().clone()).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "\"IMPLEMENTATION\" \"Restante {version}\"\r\n\"VERSION\" \"1.0\"\r\n\
         \"SASL\" \"SCRAM-SHA-256 OAUTHBEARER PLAIN LOGIN\"\r\n\"SIEVE\" \"fileinto vacation\"\r\n\
         \"NOTIFY\" \"mailto\"\r\n\"MAXREDIRECTS\" \"4\"\r\n\"LANGUAGE\" \"en\"\r\n\
         \"UNAUTHENTICATE\"\r\nOK \"Restante is ready\"\r\n"
    );
    assert_eq!(greeting, expected);
    let (mut session, mut driver) = logged_in(settings());
    let sent = driver.run(&mut session, &[b"capability\r\n"]);
    let expected = expected.replace("OK \"Restante is ready\"", "\"OWNER\" \"ann\"\r\nOK");
    assert_eq!(sent, expected);
}

/// RFC 5804 §2.2: no login is allowed before TLS, and what follows STARTTLS is not answered.
#[test]
fn unencrypted_connection_offers_tls_and_no_login() {
    let unencrypted = Settings { starttls: true, login: false, ..settings() };
    let mut session = Session::new(unencrypted.clone(), SEED);
    let greeting = String::from_utf8(std::mem::take(session.output())).unwrap();
    assert!(greeting.contains("\"SASL\" \"\"\r\n") && greeting.contains("\r\n\"STARTTLS\"\r\n"));
    let mut driver = Driver::default();
    let sent = driver.run(&mut session, &[&plain("ann", "secret")]);
    assert_eq!(sent, "NO (ENCRYPT-NEEDED) \"use STARTTLS before the login\"\r\n");
    let sent = driver.run(&mut session, &[b"StartTls\r\nNOOP \"injected\"\r\n"]);
    assert_eq!(sent, "OK \"begin TLS now\"\r\n");
    assert!(driver.has_begun_tls);
    let mut session = Session::after_starttls(Settings { login: true, ..unencrypted }, SEED);
    let again = String::from_utf8(std::mem::take(session.output())).unwrap();
    assert!(!again.contains("STARTTLS") && again.contains("PLAIN"), "{again}");
    let sent = driver.run(&mut session, &[b"STARTTLS\r\n"]);
    assert!(sent.starts_with("NO "), "{sent}");
}

#[test]
fn only_some_commands_work_before_the_login() {
    let mut session = Session::new(settings(), SEED);
    session.output().clear();
    let mut driver = Driver::default();
    check(
        &mut session,
        &mut driver,
        r#"
        C: LISTSCRIPTS
        S: NO "log in first"
        C: PUTSCRIPT "a" {13+}
        C: LOGOUT
        C: NOOP
        S: NO "log in first"
        C: PUTSCRIPT "a" {1030+}
        "#,
    );
    // The literal is larger than a name may be (1024 bytes), and is discarded.
    let script = b"LOGOUT\r\n".repeat(129);
    let sent = driver.run(&mut session, &[&script[..1030], b"\r\nUNAUTHENTICATE\r\nNOOP\r\n"]);
    assert_eq!(sent, "NO \"log in first\"\r\nNO \"log in first\"\r\nOK \"done\"\r\n");
    assert!(driver.requests.is_empty());
}

/// RFC 5804 §2.5 to §2.9.
#[test]
fn scripts_are_stored_listed_activated_and_given_back() {
    transcript(
        r#"
        C: LISTSCRIPTS
        S: OK
        C: HAVESPACE "foobar" 35
        S: OK
        C: HaveSpace "foobar" 201
        S: NO (QUOTA/MAXSIZE) "a script may have up to 200 bytes"
        C: HAVESPACE "foobar" 0
        S: NO "the script is empty"
        C: Putscript "mysievescript" {17+}
        C: #comment
        C: keep;
        C:
        S: OK
        C: PUTSCRIPT {5}
        C: a"b\c {0}
        C:
        S: NO "the script is empty"
        C: PutScript {3+}
        C: two"keep;"
        S: NO "the command is malformed"
        C: PutScript {3+}
        C: two "keep;"
        S: OK
        C: SETACTIVE "mysievescript"
        C: listscripts
        S: OK
        S: "mysievescript" ACTIVE
        S: "two"
        S: OK
        C: GETSCRIPT "mysievescript"
        S: {17}
        S: #comment
        S: keep;
        S:
        S: OK
        "#,
    );
}

#[test]
fn refusals_of_the_driver_are_sent_with_their_codes() {
    transcript(
        r#"
        C: PUTSCRIPT "a" "keep;"
        C: PUTSCRIPT "b" "stop;"
        S: OK
        S: OK
        C: SETACTIVE "none"
        S: NO (NONEXISTENT) "there is no such script"
        C: SETACTIVE "a"
        S: OK
        C: DELETESCRIPT "a"
        S: NO (ACTIVE) "the script is active"
        C: RENAMESCRIPT "a" "b"
        S: NO (ALREADYEXISTS) "the name is taken"
        C: RENAMESCRIPT "c" "d"
        S: NO (NONEXISTENT) "there is no such script"
        C: SETACTIVE ""
        C: SETACTIVE ""
        C: DELETESCRIPT "a"
        C: GETSCRIPT "a"
        S: OK
        S: OK
        S: OK
        S: NO (NONEXISTENT) "there is no such script"
        C: LOGOUT
        C: LISTSCRIPTS
        S: OK "goodbye"
        "#,
    );
}

/// RFC 5804 §2.6, §2.12: errors are a text of several lines (see `Driver`); warnings come with OK.
#[test]
fn errors_and_warnings_of_a_script_are_sent() {
    transcript(
        r#"
        C: CHECKSCRIPT "keep;"
        S: OK
        C: CheckScript {3+}
        C: bad
        S: NO {28}
        S: line 1:1: one
        S: line 2:3: two
        C: CHECKSCRIPT "odd"
        S: OK (WARNINGS) "line 1:1: odd"
        "#,
    );
}

/// RFC 5804 §2.13, §2.14.1.
#[test]
fn noop_echoes_its_tag_and_unauthenticate_ends_the_login() {
    transcript(
        r#"
        C: NOOP
        S: OK "done"
        C: NOOP "STARTTLS-SYNC-42"
        S: OK (TAG "STARTTLS-SYNC-42") "done"
        C: noop {3+}
        C: a
        C:
        S: OK (TAG {3}
        S: a
        S: ) "done"
        C: AUTHENTICATE "PLAIN" "AGFubgBzZWNyZXQ="
        S: NO "you are logged in already"
        C: UNAUTHENTICATE
        S: OK
        C: UNAUTHENTICATE
        S: NO "log in first"
        C: AUTHENTICATE "PLAIN" "AGFubgBzZWNyZXQ="
        S: OK
        "#,
    );
}

/// In base64 are `Username:`, `Password:`, `ann`, `secret`, and `\0ann\0wrong` for PLAIN.
#[test]
fn login_in_several_lines() {
    let mut session = Session::new(settings(), SEED);
    session.output().clear();
    let mut driver = Driver::default();
    check(
        &mut session,
        &mut driver,
        r#"
        C: AUTHENTICATE "PLAIN"
        S: ""
        C: {16+}
        C: AGFubgB3cm9uZw==
        S: NO "the login failed"
        C: authenticate "login"
        S: "VXNlcm5hbWU6"
        C: "*"
        S: NO "the login was cancelled"
        C: AUTHENTICATE "PLAIN" "!"
        S: NO "the response is not base64"
        C: AUTHENTICATE "DIGEST-MD5"
        S: NO "this server does not know the mechanism"
        C: AUTHENTICATE "SCRAM-SHA-256-PLUS"
        S: NO "this server does not know the mechanism"
        C: AUTHENTICATE "LOGIN" "YW5u"
        S: NO "the response is malformed"
        C: AUTHENTICATE "LOGIN"
        S: "VXNlcm5hbWU6"
        C: "YW5u"
        S: "UGFzc3dvcmQ6"
        C: {8+}
        C: c2VjcmV0
        S: OK
        "#,
    );
    assert!(session.is_logged_in());
}

/// The client guesses a password of an account that has no keys, or of a name that nobody has.
#[test]
fn refused_scram_login_tells_when_a_password_must_be_set_again() {
    let mut session = Session::new(settings(), SEED);
    session.output().clear();
    let client = crate::wire::sasl::client::Client::new("ann", "guess");
    let first = STANDARD.encode(client.first());
    let line = format!("AUTHENTICATE \"SCRAM-SHA-256\" \"{first}\"\r\n");
    let (_, step) = session.step(line.as_bytes());
    assert_eq!(step, Step::Ask(Question::Keys { name: "ann".into() }));
    session.found_keys(AccountKeys { salt: b"salt".to_vec(), iterations: 4096, keys: Vec::new() });
    let challenge = String::from_utf8(std::mem::take(session.output())).unwrap();
    let challenge = STANDARD.decode(challenge.trim().trim_matches('"')).unwrap();
    let last = STANDARD.encode(client.last(&challenge));
    let (_, step) = session.step(format!("\"{last}\"\r\n").as_bytes());
    assert_eq!(step, Step::NeedInput);
    let text = String::from_utf8(std::mem::take(session.output())).unwrap();
    assert!(text.starts_with("NO \"the login failed; ") && text.contains("set again"), "{text}");
    assert!(text.contains("the name of the account") && text.contains("PLAIN"), "{text}");
}

#[test]
fn refused_token_is_answered_by_a_challenge() {
    let mut session = Session::new(settings(), SEED);
    session.output().clear();
    let mut driver = Driver::default();
    let response = STANDARD.encode("n,,\u{1}auth=Bearer x\u{1}\u{1}");
    let line = format!("AUTHENTICATE \"OAUTHBEARER\" \"{response}\"\r\n");
    let sent = driver.run(&mut session, &[line.as_bytes()]);
    let error = STANDARD.decode(sent.trim().trim_matches('"')).unwrap();
    assert!(error.starts_with(b"{\"status\":\"invalid_token\""));
    let sent = driver.run(&mut session, &[b"\"AQ==\"\r\n"]);
    assert!(sent.starts_with("NO \"the login failed"), "{sent}");
}

#[test]
fn session_closes_after_too_many_failed_logins_or_errors() {
    let mut session = Session::new(Settings { max_failed_logins: 2, ..settings() }, SEED);
    session.output().clear();
    let wrong = plain("ann", "wrong").repeat(3);
    let sent = Driver::default().run(&mut session, &[&wrong]);
    assert!(
        sent.starts_with("NO ") && sent.ends_with("\r\nBYE \"too many logins that failed\"\r\n")
    );
    let (mut session, mut driver) = logged_in(Settings { max_errors: 2, ..settings() });
    let sent = driver.run(&mut session, &[b"X\r\nY\r\nZ\r\nNOOP\r\n"]);
    let no = "NO \"unknown command\"\r\n";
    assert_eq!(sent, format!("{no}{no}BYE \"too many errors in this session\"\r\n"));
    assert_eq!(session.step(b"NOOP\r\n"), (0, Step::Close));
    // Without a login, each command and each blank line counts, from UNAUTHENTICATE on.
    let (mut session, mut driver) = logged_in(Settings { max_errors: 2, ..settings() });
    let sent = driver.run(&mut session, &[b"NOOP\r\n\r\nNOOP\r\nNOOP\r\nUNAUTHENTICATE\r\n"]);
    assert_eq!(sent, "OK \"done\"\r\n".repeat(3) + "OK\r\n");
    let sent = driver.run(&mut session, &[b"NOOP\r\n\r\nNOOP\r\n"]);
    assert_eq!(sent, "OK \"done\"\r\nBYE \"too many commands without a login\"\r\n");
}

#[test]
fn output_of_pipelined_commands_is_bounded() {
    let max_script = 1 << 20;
    let (mut session, mut driver) = logged_in(Settings { max_script, ..settings() });
    driver.scripts.push(("a".into(), vec![b'x'; max_script]));
    let sent = driver.run(&mut session, &[&b"GETSCRIPT \"a\"\r\n".repeat(20)]);
    assert!(sent.len() > 20 * max_script && sent.ends_with("x\r\nOK\r\n"));
    // One answer with its head and its end.
    let largest = MAX_PENDING_OUTPUT + max_script + 100;
    assert!(driver.largest_output < largest, "{}", driver.largest_output);

    // Commands that the session answers by itself, before a login. The greeting is one answer more.
    let mut session = Session::new(Settings { max_errors: 10_000, ..settings() }, SEED);
    let mut driver = Driver::default();
    let sent = driver.run(&mut session, &[&b"CAPABILITY\r\n".repeat(2000)]);
    assert_eq!(sent.matches("IMPLEMENTATION").count(), 2001);
    assert!(driver.largest_output < MAX_PENDING_OUTPUT + 1000, "{}", driver.largest_output);
}

#[test]
fn refused_commands_are_read_to_their_end() {
    let (mut session, mut driver) = logged_in(settings());
    let long = format!("GETSCRIPT \"{}\" {{6+}}\r\nNOOP\r\n\r\n", "x".repeat(5000));
    let quoted = format!("GETSCRIPT \"{}\"\r\n", "x".repeat(1025));
    let large =
        format!("PUTSCRIPT \"a\" {{201+}}\r\n{}\r\n", "NOOP\r\nNO\"".repeat(23)[..201].to_owned());
    let mut run = |text: &str| driver.run(&mut session, &[text.as_bytes()]);
    assert_eq!(run(&long), "NO \"the line is too long\"\r\n");
    assert_eq!(run(&quoted), "NO \"a string of the command is too long\"\r\n");
    let refused = "NO (QUOTA/MAXSIZE) \"a script may have up to 200 bytes\"\r\n";
    assert_eq!(run(&large), refused);
    let malformed = "NO \"the command is malformed\"\r\n";
    for command in [
        "GETSCRIPT \"a {6+}\r\nNOOP\r\n\r\n",
        "GETSCRIPT \"a\"{6+}\r\nNOOP\r\n\r\n",
        "GETSCRIPT \"a\\x\"\r\n",
        "GETSCRIPT  \"a\" \"b\" \"c\" \"d\" {6+}\r\nNOOP\r\n {6+}\r\nNOOP\r\n\r\n",
        " NOOP\r\n",
        "NOOP\t\"x\"\r\n",
        "GETSCRIPT \"a\0b\"\r\n",
        "HAVESPACE \"a\" 4294967296\r\n",
        "NO{OP\r\n",
    ] {
        assert_eq!(run(command), malformed, "{command}");
    }
    for (command, answer) in [
        ("HAVESPACE \"a\" \"1\"\r\n", "NO \"a name and a number are expected\"\r\n"),
        ("HAVESPACE \"a\"\r\n", "NO \"a name and a number are expected\"\r\n"),
        ("GETSCRIPT a\r\n", "NO \"a name is expected\"\r\n"),
        ("NOOP 1\r\n", "NO \"no argument or one string is expected\"\r\n"),
        ("LOGOUT \"x\"\r\n", "NO \"no arguments are expected\"\r\n"),
        ("AUTHENTICATE\r\n", "NO \"a mechanism is expected, and perhaps an initial response\"\r\n"),
        ("\r\n\nNOOP\n", "OK \"done\"\r\n"),
    ] {
        assert_eq!(run(command), answer, "{command}");
    }
    let sent = run("PUTSCRIPT \"a\" {4294967295+}\r\nx");
    assert_eq!(sent, "BYE (QUOTA/MAXSIZE) \"the length of the string is too large\"\r\n");
    let bye = "BYE \"the length of the string is too large\"\r\n";

    // The marker is too long, but its literal must not be read as a command. The input is cut
    // nowhere, in the marker, within its CRLF, or after that.
    for length in ["00000000000000000006+", "000000000000006", "00000000000006+"] {
        let long = format!("GETSCRIPT \"{}\" ", "x".repeat(5000));
        for start in ["GETSCRIPT ", "GETSCRIPT \"a\"", "GETSCRIPT \"", long.as_str()] {
            let command = format!("{start}{{{length}}}\r\nLOGOUT\r\n");
            for cut in [0, command.len() - 12, command.len() - 9, command.len() - 8] {
                let (mut session, mut driver) = logged_in(settings());
                let (head, tail) = command.as_bytes().split_at(cut);
                assert_eq!(driver.run(&mut session, &[head, tail]), bye, "{command} at {cut}");
                assert_eq!(session.step(b"NOOP\r\n"), (0, Step::Close));
            }
        }
    }
    // The longest markers that are read.
    for length in ["00000000000006", "0000000000006+"] {
        let (mut session, mut driver) = logged_in(settings());
        let command = format!("GETSCRIPT \"a\"{{{length}}}\r\nLOGOUT\r\nNOOP\r\n");
        let sent = driver.run(&mut session, &[command.as_bytes()]);
        assert_eq!(sent, format!("{malformed}OK \"done\"\r\n"));
    }
}

/// RFC 5804 §2.12: CHECKSCRIPT looks at no quota. The size of a script is one (§1.3).
#[test]
fn checkscript_of_a_script_that_is_too_large_names_no_quota() {
    let (mut session, mut driver) = logged_in(settings());
    let mut run = |text: &str| driver.run(&mut session, &[text.as_bytes()]);
    let large = format!("{{201+}}\r\n{}\r\n", "x".repeat(201));
    let text = "\"a script may have up to 200 bytes\"\r\n";
    assert_eq!(run(&format!("CheckScript {large}")), format!("NO {text}"));
    assert_eq!(run(&format!("PUTSCRIPT \"a\" {large}")), format!("NO (QUOTA/MAXSIZE) {text}"));
    let sent = run("CHECKSCRIPT {4294967295+}\r\nx");
    assert_eq!(sent, "BYE \"the length of the string is too large\"\r\n");
}

/// RFC 5804 §1.6.
#[test]
fn names_of_scripts_are_checked_and_composed() {
    let (mut session, mut driver) = logged_in(settings());
    for name in ["", "a\tb", "\u{7f}", "\u{85}", "\u{2028}", "\u{2029}", &"x".repeat(129)] {
        let line = format!("GETSCRIPT \"{name}\"\r\n");
        let sent = driver.run(&mut session, &[line.as_bytes()]);
        assert!(sent.starts_with("NO \"the name of a script"), "{name:?}: {sent}");
    }
    for name in [b"GETSCRIPT {2+}\r\n\xff\xfe\r\n".as_slice(), b"GETSCRIPT {3+}\r\na\nb\r\n"] {
        let sent = driver.run(&mut session, &[name]);
        assert!(sent.starts_with("NO \"the name of a script"), "{sent}");
    }
    assert!(driver.requests.is_empty());
    let longest = "\u{1f600}".repeat(128);
    for (name, stored) in [(longest.as_str(), longest.as_str()), ("u\u{308}", "\u{fc}")] {
        drop(driver.run(&mut session, &[format!("GETSCRIPT \"{name}\"\r\n").as_bytes()]));
        assert_eq!(driver.requests.pop(), Some(Request::Get(stored.into())));
    }
}

#[test]
fn login_may_be_refused_without_a_check() {
    let mut session = Session::new(Settings { max_failed_logins: 3, ..settings() }, SEED);
    session.output().clear();
    for answer in ["NO", "NO", "BYE"] {
        let (_, step) = session.step(&plain("ann", "secret"));
        assert!(matches!(step, Step::Ask(Question::Password { .. })));
        session.reject(Rejection::NotChecked("wait".into()));
        let sent = String::from_utf8(std::mem::take(session.output())).unwrap();
        assert_eq!(sent, format!("{answer} (TRYLATER) \"wait\"\r\n"));
    }
    assert_eq!(session.step(b"NOOP\r\n"), (0, Step::Close));

    let mut session = Session::new(settings(), SEED);
    session.output().clear();
    session.shut(None, "idle");
    assert_eq!(
        (session.step(b""), session.output().as_slice()),
        ((0, Step::Close), b"BYE \"idle\"\r\n".as_slice())
    );
}

proptest! {
    #[test]
    fn any_script_comes_back_byte_for_byte(
        script in proptest::collection::vec(any::<u8>(), 1..200),
        cut in 0usize..300,
    ) {
        let (mut session, mut driver) = logged_in(settings());
        let length = script.len();
        let command = format!("PUTSCRIPT \"a\" {{{length}+}}\r\n");
        let put = [command.as_bytes(), &script, b"\r\n"].concat();
        let (head, tail) = put.split_at(cut.min(put.len()));
        let expected = if script.starts_with(b"bad") { "NO" } else { "OK" };
        let sent = driver.run(&mut session, &[head, tail]);
        prop_assert!(sent.starts_with(expected));
        let request = Request::Put { name: "a".into(), script: script.clone() };
        prop_assert_eq!(driver.requests.pop(), Some(request));
        session.done(Answer::Script(script.clone()));
        let got = std::mem::take(session.output());
        let size = format!("{{{length}}}\r\n");
        let expected = [size.as_bytes(), &script, b"\r\nOK\r\n"].concat();
        prop_assert_eq!(got, expected);
    }
}
