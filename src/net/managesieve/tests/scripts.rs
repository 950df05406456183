//! Tests of scripts that clients store.

use super::*;

#[tokio::test]
async fn scripts_are_checked_stored_and_given_back() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let mut ann = Client::logged_in(&server).await;
    assert!(ann.say("CAPABILITY").await.contains("\"OWNER\" \"ann@example.org\"\r\n"));
    let script = "require \"fileinto\";\r\n# \u{fc} \"rule:[x]\"\nfileinto \"Junk\";";
    let put = |name: &str| format!("PUTSCRIPT \"{name}\" {{{}+}}\r\n{script}", script.len());
    assert_eq!(ann.say(&put("one")).await, "OK\r\n");
    let wrong = ann.say("PUTSCRIPT \"one\" \"keeep; fileinto \\\"x\\\";\"").await;
    assert!(wrong.starts_with("NO {") && wrong.lines().count() > 2, "{wrong}");
    let got = ann.say("GETSCRIPT \"one\"").await;
    assert_eq!(got, format!("{{{}}}\r\n{script}\r\nOK\r\n", script.len()));
    assert_eq!(ann.say("HAVESPACE \"two\" 10").await, "OK\r\n");
    assert_eq!(ann.say("PUTSCRIPT \"u\u{308}\" \"keep;\"").await, "OK\r\n");
    for command in ["HAVESPACE \"three\" 10", "PUTSCRIPT \"three\" \"keep;\""] {
        let answer = ann.say(command).await;
        assert_eq!(answer, "NO (QUOTA/MAXSCRIPTS) \"an account may have up to 2 scripts\"\r\n");
    }
    assert_eq!(ann.say("SETACTIVE \"one\"").await, "OK\r\n");
    assert!(ann.say("DELETESCRIPT \"one\"").await.starts_with("NO (ACTIVE) "));
    for name in ["\u{fc}", "one"] {
        let answer = ann.say(&format!("RENAMESCRIPT \"one\" \"{name}\"")).await;
        assert!(answer.starts_with("NO (ALREADYEXISTS) "), "{name}: {answer}");
    }
    assert_eq!(ann.say("RENAMESCRIPT \"one\" \"main\"").await, "OK\r\n");
    assert_eq!(ann.say("LISTSCRIPTS").await, "\"main\" ACTIVE\r\n\"\u{fc}\"\r\nOK\r\n");
    for command in ["GETSCRIPT", "DELETESCRIPT", "SETACTIVE"] {
        let answer = ann.say(&format!("{command} \"one\"")).await;
        assert!(answer.starts_with("NO (NONEXISTENT) "), "{command}: {answer}");
    }
    assert_eq!(ann.say("SETACTIVE \"\"").await, "OK\r\n");
    assert_eq!(ann.say("DELETESCRIPT \"main\"").await, "OK\r\n");
    assert!(ann.say("CHECKSCRIPT \"require \\\"nothing\\\";\"").await.starts_with("NO "));
    assert_eq!(ann.say("CHECKSCRIPT \"stop;\"").await, "OK\r\n");
    for command in ["CHECKSCRIPT", "PUTSCRIPT \"odd\""] {
        let script = "require \"fileinto\";\r\nstop;\r\nkeep;";
        let warned = ann.say(&format!("{command} {{{}+}}\r\n{script}", script.len())).await;
        let (status, text) = warned.split_at(14);
        assert_eq!(status, "OK (WARNINGS) ", "{command}: {warned}");
        assert!(
            text.contains("line 1, column ") && text.contains("line 3, column 1: "),
            "{warned}"
        );
        assert_eq!(text.matches("warning: ").count(), 2, "{command}: {warned}");
    }
    assert_eq!(ann.say("LISTSCRIPTS").await, "\"\u{fc}\"\r\n\"odd\"\r\nOK\r\n");
    assert_eq!(ann.say("LOGOUT").await, "OK \"goodbye\"\r\n");
    assert!(ann.is_closed().await);
}

/// A client of JMAP may store a name that is not in NFC.
#[tokio::test]
async fn names_that_are_alike_in_nfc_are_one_name() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let (store, account) = (server.shared.store.clone(), server.ann);
    let create = move || {
        let (_, ticket) =
            store.commit(account, |txn| txn.create_script("u\u{308}", b"keep;")).unwrap();
        ticket.wait_blocking().unwrap();
    };
    blocking(create).await;
    let mut ann = Client::logged_in(&server).await;
    assert_eq!(ann.say("PUTSCRIPT \"a\" \"stop;\"").await, "OK\r\n");
    let list = "\"u\u{308}\"\r\n\"a\"\r\nOK\r\n";
    for (from, to) in [("a", "\u{fc}"), ("a", "u\u{308}"), ("\u{fc}", "\u{fc}")] {
        let answer = ann.say(&format!("RENAMESCRIPT \"{from}\" \"{to}\"")).await;
        assert!(answer.starts_with("NO (ALREADYEXISTS) "), "{from} {to}: {answer}");
        assert_eq!(ann.say("LISTSCRIPTS").await, list);
    }
    assert_eq!(ann.say("PUTSCRIPT \"\u{fc}\" \"discard;\"").await, "OK\r\n");
    assert_eq!(ann.say("LISTSCRIPTS").await, list);
    assert_eq!(ann.say("GETSCRIPT \"\u{fc}\"").await, "{8}\r\ndiscard;\r\nOK\r\n");
}

#[tokio::test]
async fn change_of_one_client_is_seen_by_another_that_was_connected_before() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let mut laptop = Client::logged_in(&server).await;
    let mut phone = Client::logged_in(&server).await;
    assert_eq!(laptop.say("PUTSCRIPT \"a\" \"keep;\"").await, "OK\r\n");
    assert_eq!(phone.say("LISTSCRIPTS").await, "\"a\"\r\nOK\r\n");
    assert_eq!(phone.say("PUTSCRIPT \"a\" \"stop;\"").await, "OK\r\n");
    assert_eq!(laptop.say("GETSCRIPT \"a\"").await, "{5}\r\nstop;\r\nOK\r\n");
    assert_eq!(laptop.say("SETACTIVE \"a\"").await, "OK\r\n");
    assert!(phone.say("DELETESCRIPT \"a\"").await.starts_with("NO (ACTIVE) "));
    assert_eq!(phone.say("SETACTIVE \"\"").await, "OK\r\n");
    assert_eq!(phone.say("RENAMESCRIPT \"a\" \"b\"").await, "OK\r\n");
    assert!(laptop.say("GETSCRIPT \"a\"").await.starts_with("NO (NONEXISTENT) "));
    assert_eq!(laptop.say("LISTSCRIPTS").await, "\"b\"\r\nOK\r\n");
    assert_eq!(laptop.say("DELETESCRIPT \"b\"").await, "OK\r\n");
    assert_eq!(phone.say("LISTSCRIPTS").await, "OK\r\n");
}

#[tokio::test]
async fn stored_script_with_errors_cannot_be_activated() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let (store, ann) = (server.shared.store.clone(), server.ann);
    // An import stores scripts with errors, too.
    let stored = blocking(move || {
        let (_, ticket) = store.commit(ann, |txn| txn.create_script("old", b"keeep;\nstop;"))?;
        ticket.wait_blocking()
    });
    stored.await.unwrap();
    let mut client = Client::logged_in(&server).await;
    let answer = client.say("SETACTIVE \"old\"").await;
    assert!(answer.starts_with("NO ") && answer.contains("line 1, column 1: error"), "{answer}");
    assert_eq!(client.say("LISTSCRIPTS").await, "\"old\"\r\nOK\r\n");
    assert!(client.say("SETACTIVE \"missing\"").await.starts_with("NO (NONEXISTENT)"));
    assert_eq!(client.say("SETACTIVE \"\"").await, "OK\r\n");
}
