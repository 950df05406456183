//! Tests of the greeting, and of logins.

use super::*;
use crate::wire::sasl::AccountKeys;

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
