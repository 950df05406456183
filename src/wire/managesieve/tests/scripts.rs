//! Tests of the commands about scripts.

use super::*;

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
