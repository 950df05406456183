//! The service behind a real Postfix: delivery over LMTP or pipe(8), the reply through Postfix, and
//! Postfix rules of the documentation.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use crate::bed::{PROGRAM, TestBed};
use crate::mail::{Client, letter};
use crate::mta::{Postfix, can_run_postfix, free_port, pipe_program};

#[test]
fn mail_through_postfix_is_stored_and_answered_once() {
    if !can_run_postfix() {
        return;
    }
    let port = free_port();
    let mut bed = TestBed::new(&format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {port}\nrelay.tls = \"none\"\n"
    ));
    bed.start();
    // Under systemd the socket belongs to the user postfix. Here every user may write to it.
    fs::set_permissions(bed.lmtp(), fs::Permissions::from_mode(0o666)).unwrap();
    bed.add_account("bob@example.org", &["--display-name", "Bob"]);
    bed.add_account("alice@example.net", &[]);
    bed.run_ok(&[
        "vacation",
        "set",
        "-a",
        "bob@example.org",
        "--subject",
        "Away",
        "--text",
        "Back on Monday.",
    ]);
    let postfix = Postfix::start(&bed.dir, port, &bed.lmtp(), "");
    let limit = Duration::from_secs(60);
    let inbox = |account: &str| bed.list_mail(account).len();

    // The first message is stored and answered, and the reply reaches the sender through Postfix.
    let hello = letter("Alice <alice@example.net>", "bob@example.org", "hello", "Are you there?");
    assert_eq!(postfix.send("alice@example.net", "bob@example.org", &hello).code, 250);
    bed.wait_until("the message is stored", limit, || inbox("bob@example.org") == 1);
    bed.wait_until("the reply has arrived", limit, || inbox("alice@example.net") == 1);
    let reply = bed.list_mail("alice@example.net").remove(0);
    assert_eq!(reply.subject, "Away");
    let text = String::from_utf8(bed.show_message("alice@example.net", &reply.id)).unwrap();
    for wanted in
        ["Return-Path: <>", "Auto-Submitted: auto-replied", "In-Reply-To: <", "Back on Monday."]
    {
        assert!(text.contains(wanted), "no {wanted:?} in\n{text}");
    }
    assert!(!text.contains("Are you there?"), "the reply quotes the original (RFC 3834 §3.2)");

    // A second message of the same sender, a list and a bounce get no reply.
    let second =
        letter("Alice <alice@example.net>", "bob@example.org", "hello again", "Still there?");
    let plain = letter("list@example.net", "bob@example.org", "news", "To all.");
    let list = [&b"List-Id: <news.example.net>\r\n"[..], &plain[..]].concat();
    let bounce =
        letter("MAILER-DAEMON@example.net", "bob@example.org", "Undelivered Mail", "It came back.");
    assert_eq!(postfix.send("alice@example.net", "bob@example.org", &second).code, 250);
    assert_eq!(postfix.send("alice@example.net", "bob@example.org", &list).code, 250);
    assert_eq!(postfix.send("", "bob@example.org", &bounce).code, 250);
    bed.wait_until("all are stored", limit, || inbox("bob@example.org") == 4);
    bed.wait_until("the queue is empty", limit, || bed.rows(&["queue", "list"]).is_empty());
    let reasons: Vec<String> = bed
        .rows(&["vacation", "log", "-a", "bob@example.org"])
        .iter()
        .map(|row| row["reason"].as_str().unwrap_or_default().to_owned())
        .collect();
    for reason in ["already-told", "list", "null-sender"] {
        assert!(reasons.iter().any(|other| other == reason), "{reason} is not among {reasons:?}");
    }
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(inbox("alice@example.net"), 1, "answered more than once");

    // Mail to an unknown recipient is refused by Postfix, and not bounced.
    let refused = postfix.send("alice@example.net", "nobody@example.org", &hello);
    assert_eq!(refused.code, 550, "{refused:?}");
    // The queue id of Postfix is in the log of the service (XFORWARD IDENT).
    let queue_id = postfix.log().lines().find_map(|line| {
        let (head, _) = line.split_once(": client=")?;
        Some(head.rsplit(' ').next()?.to_owned())
    });
    assert!(queue_id.is_some_and(|id| bed.log().contains(&id)), "no queue id in\n{}", bed.log());
    drop(postfix);
    bed.finish();
}

/// This Postfix accepts no mail without TLS (RFC 3207). The service sends nothing to a relay whose
/// certificate it does not trust.
#[test]
fn reply_is_sent_over_tls_only_to_relay_with_trusted_certificate() {
    if !can_run_postfix() {
        return;
    }
    let port = free_port();
    let pem =
        |name: &str, kind: &str| crate::root().join("tests/tls").join(format!("{name}.{kind}.pem"));
    let trusting = |name: &str| {
        format!(
            "relay.host = \"127.0.0.1\"\nrelay.port = {port}\nrelay.tls = \"required\"\n\
             relay.tls-ca = {:?}\nrelay.tls-name = \"mda.test.example\"\nrelay.pause = \"100ms\"\n",
            pem(name, "cert")
        )
    };
    let mut bed = TestBed::new(&trusting("two"));
    bed.start();
    fs::set_permissions(bed.lmtp(), fs::Permissions::from_mode(0o666)).unwrap();
    bed.add_account("bob@example.org", &[]);
    bed.add_account("alice@example.net", &[]);
    bed.run_ok(&["vacation", "set", "-a", "bob@example.org", "--text", "Back on Monday."]);
    let tls = format!(
        "smtpd_tls_security_level = encrypt\nsmtpd_tls_cert_file = {}\nsmtpd_tls_key_file = {}\n\
         smtpd_tls_loglevel = 1\n",
        pem("one", "cert").display(),
        pem("one", "key").display()
    );
    let postfix = Postfix::start(&bed.dir, port, &bed.lmtp(), &tls);
    let hello = letter("alice@example.net", "bob@example.org", "hello", "Are you there?");
    let replies = Client::lmtp(&bed.lmtp()).unwrap().deliver(
        "alice@example.net",
        &["bob@example.org"],
        &hello,
    );
    assert!(replies.unwrap()[0].ok());
    let limit = Duration::from_secs(60);
    bed.wait_until("`queue list` names the certificate", limit, || {
        let errors = String::from_utf8_lossy(&bed.run(&["queue", "list"]).stderr).to_lowercase();
        errors.contains("certificate")
    });
    assert!(!postfix.log().contains("message-id="), "mail was sent: {}", postfix.log());
    bed.stop();
    bed.configure(&trusting("one"));
    bed.start();
    fs::set_permissions(bed.lmtp(), fs::Permissions::from_mode(0o666)).unwrap();
    bed.wait_until("the reply has arrived", limit, || {
        bed.list_mail("alice@example.net").len() == 1
    });
    assert!(postfix.log().contains("TLS connection established from"), "{}", postfix.log());
    drop(postfix);
    bed.finish();
}

#[test]
fn pipe_transport_of_the_readme_delivers_defers_and_bounces() {
    if !can_run_postfix() {
        return;
    }
    let port = free_port();
    let mut bed = TestBed::new("control.administrators = [\"nobody\"]\n");
    fs::copy(PROGRAM, pipe_program(&bed.dir)).unwrap();
    bed.start();
    fs::set_permissions(bed.lmtp(), fs::Permissions::from_mode(0o666)).unwrap();
    bed.add_account("ann@pipe.example", &[]);
    bed.add_account("alice@example.net", &[]);
    let postfix = Postfix::start(&bed.dir, port, &bed.lmtp(), "");
    let limit = Duration::from_secs(60);
    let subjects = |account: &str| {
        bed.list_mail(account).into_iter().map(|mail| mail.subject).collect::<Vec<_>>()
    };

    let hello = letter("Alice <alice@example.net>", "ann@pipe.example", "hello", "Are you there?");
    assert_eq!(postfix.send("alice@example.net", "ann@pipe.example", &hello).code, 250);
    let bounce =
        letter("MAILER-DAEMON@example.net", "ann@pipe.example", "from nobody", "It came back.");
    assert_eq!(postfix.send("", "ann@pipe.example", &bounce).code, 250);
    bed.wait_until("both are stored", limit, || subjects("ann@pipe.example").len() == 2);
    let null = bed
        .list_mail("ann@pipe.example")
        .into_iter()
        .find(|mail| mail.subject == "from nobody")
        .unwrap();
    let text = String::from_utf8(bed.show_message("ann@pipe.example", &null.id)).unwrap();
    assert!(
        text.contains("Return-Path: <>\r\n") && text.contains("\r\n\r\nIt came back."),
        "{text}"
    );

    // One recipient gets the message; about the unknown one the sender gets a bounce.
    let mut client = Client::smtp(port).unwrap();
    for command in [
        "MAIL FROM:<alice@example.net>",
        "RCPT TO:<ann@pipe.example>",
        "RCPT TO:<nobody@pipe.example>",
    ] {
        assert!(client.command(command).unwrap().ok(), "{command}");
    }
    assert_eq!(client.command("DATA").unwrap().code, 354);
    client
        .send(&crate::mail::dot_stuff(&letter(
            "alice@example.net",
            "ann@pipe.example",
            "to two",
            "x",
        )))
        .unwrap();
    assert!(client.reply().unwrap().ok());
    bed.wait_until("the message to Ann is stored", limit, || {
        subjects("ann@pipe.example").iter().any(|subject| subject == "to two")
    });
    bed.wait_until("the bounce has arrived", limit, || subjects("alice@example.net").len() == 1);
    let bounce = bed.list_mail("alice@example.net").remove(0);
    let text = String::from_utf8(bed.show_message("alice@example.net", &bounce.id)).unwrap();
    assert!(text.contains("Final-Recipient: rfc822; nobody@pipe.example"), "{text}");
    assert!(
        text.contains("Status: 5.1.1") && !text.contains("Final-Recipient: rfc822; ann@"),
        "{text}"
    );

    // While the service is down, Postfix defers the mail.
    bed.stop();
    assert_eq!(
        postfix
            .send("alice@example.net", "ann@pipe.example", &letter("a@b.example", "x", "late", "x"))
            .code,
        250
    );
    bed.wait_until("the mail was deferred", limit, || postfix.log().contains("status=deferred"));
    // An exit code that pipe(8) does not know would bounce the mail with 5.3.0.
    assert!(!postfix.log().contains("dsn=5.3"), "{}", postfix.log());
    drop(postfix);
    bed.finish();
}

/// The rule of docs/operate.md with which Postfix removes Authentication-Results fields of the
/// site's authserv-id from incoming mail.
fn own_results_rule() -> String {
    let guide = fs::read_to_string(crate::root().join("docs/operate.md")).unwrap();
    let rules: Vec<&str> =
        guide.lines().filter(|line| line.starts_with("/^Authentication-Results")).collect();
    assert_eq!(rules.len(), 1, "{rules:?}");
    format!("{}\n", rules[0])
}

/// A sender cannot forge the authentication results of the site: the rule removes the forged field,
/// or the service does not trust what the rule leaves.
#[test]
fn forged_authentication_results_are_removed_or_not_trusted() {
    if !can_run_postfix() {
        return;
    }
    let port = free_port();
    let mut bed = TestBed::new(&format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {port}\nrelay.tls = \"none\"\n\
         [vacation]\ntrusted-authserv-ids = [\"mx.example.org\"]\nauthentication = \"strict\"\n"
    ));
    bed.start();
    fs::set_permissions(bed.lmtp(), fs::Permissions::from_mode(0o666)).unwrap();
    bed.add_account("ann@example.org", &[]);
    bed.add_account("zoe@example.net", &[]);
    bed.run_ok(&["vacation", "set", "-a", "ann@example.org", "--text", "Back on Monday."]);
    let rules = bed.dir.join("own-results");
    // The second rule stands for a filter of the site, which adds a field. Postfix does not check
    // this field again.
    let trusted =
        "/^Subject: found good/ PREPEND Authentication-Results: mx.example.org; spf=pass\n";
    fs::write(&rules, own_results_rule() + trusted).unwrap();
    let checks = format!("header_checks = regexp:{}\n", rules.display());
    let postfix = Postfix::start(&bed.dir, port, &bed.lmtp(), &checks);

    let blanks = |count: usize| " ".repeat(count);
    let field = |value: &str| format!("Authentication-Results: {value}; spf=pass\r\n");
    let named = |name: &str| format!("{name} mx.example.org; spf=pass\r\n");
    let mut forms = vec![
        field("mx.example.org"),
        field("MX.example.ORG 1"),
        field("mx.example.org (x) 1"),
        field("(x) mx.example.org"),
        field("(x)mx.example.org"),
        field("(x (y) \\) z)\r\n\tmx.example.org"),
        field("\"mx.example.org\""),
        field("\"mx\\.example.org\""),
        field("\"m\\x.example.org\""),
        field("mx\\.example.org"),
        field("\r\n mx.example.org"),
        field("\r\n\t\r\n \r\n mx.example.org"),
        field("mx.example.org\r\n "),
        field("mx.example\r\n .org"),
        field("mx.example.org."),
        field("ｍx.example.org"),
        field("\u{a0}mx.example.org"),
        field("\rmx.example.org"),
        field("mx.exa\rmple.org"),
        field("\u{b}mx.example.org"),
        field("\u{c}mx.example.org"),
        field("\0mx.example.org"),
        field("mx.example\0.org"),
        named("AUTHENTICATION-RESULTS:"),
        named("Authentication-Results :"),
        named("Authentication-Results \t :"),
        named("Authentication-Results:\t"),
        named("Authentication-Results\u{c}:"),
        named("Authentication-Results\r:"),
        named("Authentication-Results\0:"),
        named("Authentication-Results\r\n :"),
        named("X: y\rAuthentication-Results:"),
        named("X: y\nAuthentication-Results:"),
        named("X: y\r\r\nAuthentication-Results:"),
        // A line that is no header field ends the header for Postfix, which checks nothing below.
        named("junk\r\nAuthentication-Results:"),
        named(": x\r\nAuthentication-Results:"),
        named("\u{fc}: x\r\nAuthentication-Results:"),
        named(" \r\nAuthentication-Results:"),
        named("\t\r\nAuthentication-Results:"),
        named("\r\nAuthentication-Results:"),
        named("From eve\r\nAuthentication-Results:"),
        named(">From eve\r\nAuthentication-Results:"),
        named("X: y\r\n \r\nAuthentication-Results:"),
        // A field that the site itself could have written stands above.
        named("Received: from x by mx.example.org; date\r\nAuthentication-Results:"),
    ];
    // Fields near or over the limits of Postfix: of a line to the next hop, a line, and a header
    // field.
    forms.extend(
        [990, 2_040, 60_000, 110_000]
            .map(|count| field(&format!("{}mx.example.org", blanks(count)))),
    );
    let send = |number: usize, above: &str, subject: &str| {
        let sender = format!("sender{number}@example.net");
        let message = letter(&sender, "ann@example.org", subject, "Are you there?");
        let reply =
            postfix.send(&sender, "ann@example.org", &[above.as_bytes(), &message[..]].concat());
        assert_eq!(reply.code, 250, "{number} {above:.80?}: {reply:?}");
    };
    for (number, form) in forms.iter().enumerate() {
        send(number, form, "hello");
    }
    // The result that the site added itself is trusted.
    send(forms.len(), "", "found good");
    let limit = Duration::from_secs(120);
    let decisions = || bed.rows(&["vacation", "log", "-a", "ann@example.org", "--limit", "1000"]);
    bed.wait_until("all have a decision", limit, || decisions().len() == forms.len() + 1);
    for row in decisions() {
        let sender = row["sender"].as_str().unwrap();
        let number: usize =
            sender.trim_start_matches("sender").split('@').next().unwrap().parse().unwrap();
        match forms.get(number) {
            Some(form) => assert_eq!(row["reason"], "unauthenticated", "trusted: {form:.200?}"),
            None => assert!(row["reason"].is_null(), "not answered: {row}"),
        }
    }
    drop(postfix);
    bed.finish();
}
