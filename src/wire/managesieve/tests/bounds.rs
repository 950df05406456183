//! Tests of the ends of sessions, refused commands and the bounds of the output.

use super::*;
use crate::wire::managesieve::session::MAX_PENDING_OUTPUT;

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
