//! LMTP over a real Unix socket: the replies, and what is stored.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bed::{TestBed, email_id};
use crate::http::{self, basic, connect, exchange, get};
use crate::mail::{Client, letter};

#[test]
fn two_aliases_get_one_copy_and_an_lmtp_reply_each() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account("ann@example.org", &["--alias", "a.lias@example.org"]);
    let message =
        letter("zoe@example.net", "ann@example.org, a.lias@example.org", "twice", "one copy");
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let replies = client
        .deliver("zoe@example.net", &["ann@example.org", "a.lias@example.org"], &message)
        .unwrap();
    assert_eq!(replies.iter().map(|r| r.code).collect::<Vec<_>>(), [250, 250], "{replies:?}");
    assert_eq!(email_id(&replies[0]), email_id(&replies[1]));
    assert_eq!(bed.list_mail("ann@example.org").len(), 1);

    // Postfix sends one RCPT twice with different ORCPT for two aliases of one person
    // (RFC 3461 §4.2).
    let other = letter("zoe@example.net", "ann@example.org", "orcpt", "one copy again");
    assert!(client.command("MAIL FROM:<zoe@example.net> BODY=8BITMIME").unwrap().ok());
    let twice = [
        "<ann@example.org> ORCPT=rfc822;ann@example.org",
        "<ann@example.org> ORCPT=rfc822;a.lias@example.org",
    ];
    let replies = client.transact(twice.into_iter().map(str::to_owned), &other).unwrap();
    assert_eq!(replies.iter().map(|r| r.code).collect::<Vec<_>>(), [250, 250], "{replies:?}");
    assert_eq!(bed.list_mail("ann@example.org").len(), 2);
    bed.finish();
}

#[test]
fn repeated_delivery_gets_the_same_id_even_after_restart() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account("ann@example.org", &[]);
    let message = letter("zoe@example.net", "ann@example.org", "again", "the same bytes");
    let deliver = |bed: &TestBed, sender: &str| {
        let replies = Client::lmtp(&bed.lmtp())
            .unwrap()
            .deliver(sender, &["ann@example.org"], &message)
            .unwrap();
        assert_eq!(replies[0].code, 250, "{replies:?}");
        email_id(&replies[0]).expect("an id in the reply")
    };
    let first = deliver(&bed, "zoe@example.net");
    assert_eq!(deliver(&bed, "zoe@example.net"), first);
    bed.stop();
    bed.start();
    assert_eq!(deliver(&bed, "zoe@example.net"), first);
    // The same bytes from another sender are another message.
    assert_ne!(deliver(&bed, "yve@example.net"), first);
    assert_eq!(bed.list_mail("ann@example.org").len(), 2);
    assert!(bed.show_message("ann@example.org", &first).ends_with(&message));
    bed.finish();
}

/// A message beyond `limits.body-in-memory` is written to a file of its own while it comes in.
#[test]
fn large_message_is_written_once_and_nothing_is_left_of_a_broken_one() {
    let mut bed = TestBed::new("limits.body-in-memory = \"64 KiB\"\n");
    bed.start();
    bed.add_account("ann@example.org", &[]);
    bed.add_account("bob@example.org", &[]);
    let files = || {
        let entries = fs::read_dir(bed.dir.join("data/store/segments")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let (segments, others): (Vec<_>, Vec<_>) =
            names.partition(|name| name.ends_with(".segment"));
        (segments.len(), others)
    };
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let mut deliver = |to: &str, message: &[u8]| {
        let reply = client.deliver("zoe@example.net", &[to], message).unwrap().remove(0);
        email_id(&reply).unwrap()
    };
    deliver("ann@example.org", &letter("zoe@example.net", "ann@example.org", "small", "one\n"));
    let (before, _) = files();

    // Each line begins with a dot. The blank line before the header is not stored, so it does not
    // make another message.
    let own = letter("zoe@example.net", "ann@example.org", "large", &".plum\n".repeat(50_000));
    let first = deliver("ann@example.org", &[b"\r\n", &own[..]].concat());
    assert_eq!(files(), (before + 1, vec![]));
    let second = deliver("bob@example.org", &own);
    assert_eq!(files(), (before + 1, vec![]), "the same message was written again");

    let mut broken = Client::lmtp(&bed.lmtp()).unwrap();
    for line in ["MAIL FROM:<zoe@example.net>", "RCPT TO:<ann@example.org>", "DATA"] {
        assert!(broken.command(line).unwrap().code < 400);
    }
    broken.send(&b"a line of a message that never ends\r\n".repeat(10_000)).unwrap();
    bed.wait_until("the file of a begun message", Duration::from_secs(20), || {
        !files().1.is_empty()
    });
    drop(broken);
    bed.wait_until("the deletion of that file", Duration::from_secs(20), || files().1.is_empty());

    for (account, id) in [("ann@example.org", first), ("bob@example.org", second)] {
        assert!(bed.show_message(account, &id).ends_with(&own), "{account}");
    }
    bed.finish();
}

#[test]
fn refused_delivery_gets_reply_code_of_the_reason() {
    let mut bed = TestBed::new("limits.message = \"64 KiB\"\n");
    bed.start();
    bed.add_account("ann@example.org", &[]);
    bed.add_account("small@example.org", &["--quota", "8 KiB"]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let mut deliver = |to: &[&str], size: usize| {
        let line = "all work and no play\n";
        let body = line.repeat(size / line.len());
        let message = letter("zoe@example.net", to[0], "size", &body);
        let replies = client.deliver("zoe@example.net", to, &message).unwrap();
        replies.iter().map(|r| format!("{} {}", r.code, r.enhanced())).collect::<Vec<_>>()
    };
    assert_eq!(deliver(&["nobody@example.org"], 100), ["550 5.1.1"]);
    assert_eq!(deliver(&["small@example.org"], 20_000), ["452 4.2.2"]);
    // A message over the limit of the site gets a reply for each recipient, and the session stays
    // synchronised (RFC 2033 §4.2).
    assert_eq!(
        deliver(&["ann@example.org", "small@example.org"], 100_000),
        ["552 5.3.4", "552 5.3.4"]
    );
    assert_eq!(deliver(&["ann@example.org", "nobody@example.org"], 100)[1], "550 5.1.1");
    assert_eq!(bed.list_mail("ann@example.org").len(), 1);
    assert_eq!(bed.list_mail("small@example.org").len(), 0);
    bed.finish();
}

#[test]
fn smuggled_message_is_not_delivered_as_second_message() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account("ann@example.org", &[]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    assert!(client.command("MAIL FROM:<zoe@example.net>").unwrap().ok());
    assert!(client.command("RCPT TO:<ann@example.org>").unwrap().ok());
    assert_eq!(client.command("DATA").unwrap().code, 354);
    client
        .send(
            b"Subject: one\r\n\r\ntext\n.\nMAIL FROM:<eve@example.net>\r\n.\n\
              RCPT TO:<ann@example.org>\n.\r\nDATA\r\n\r\n.\r\n",
        )
        .unwrap();
    // The message may be stored or refused (RFC 5321 §4.1.1.4). Either way there is one reply, and
    // at most one email.
    let answer = client.reply().unwrap();
    assert_eq!(client.command("NOOP").unwrap().code, 250, "{answer:?}");
    assert!(bed.list_mail("ann@example.org").len() <= 1);
    bed.finish();
}

/// Every reader of the stored message finds the header below the trace prefix, although a blank
/// line preceded the header when it was delivered.
#[test]
fn header_after_leading_blank_line_is_found_by_every_reader() {
    let bed = http::bed("");
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let own = "From: zoe@example.net\r\nTo: ann@example.org\r\nSubject: greengage\r\n\
               Message-ID: <1@example.net>\r\n\
               Disposition-Notification-To: zoe@example.net\r\nMIME-Version: 1.0\r\n\
               Content-Type: multipart/mixed; boundary=b\r\n\r\n\
               --b\r\n\r\nquince and medlar\r\n--b\r\nContent-Type: image/png; name=p.png\r\n\
               Content-Disposition: attachment\r\n\r\nPNG\r\n--b--\r\n";
    let reply = client
        .deliver("zoe@example.net", &["ann@example.org"], format!("\r\n{own}").as_bytes())
        .unwrap();
    let id = email_id(&reply[0]).unwrap();
    let account =
        bed.json(&["account", "show", "ann@example.org"])["id"].as_str().unwrap().to_owned();
    let ann = basic("ann@example.org", "s3cret");
    let ask = |method: &str, arguments: Value| {
        let using = ["core", "mail", "submission", "mdn"]
            .map(|name| format!("urn:ietf:params:jmap:{name}"));
        let request =
            json!({"using": using, "methodCalls": [[method, arguments, "0"]]}).to_string();
        let fields = [("Authorization", ann.as_str()), ("Content-Type", "application/json")];
        let answer = exchange(connect(&bed), "POST", "/jmap", &fields, request.as_bytes()).json();
        answer["methodResponses"][0][1].clone()
    };
    let download = |blob: &Value| {
        get(&bed, &format!("/jmap/download/{account}/{}/x", blob.as_str().unwrap()), &ann).body
    };

    let properties = ["size", "subject", "blobId", "attachments", "preview"];
    let found =
        ask("Email/get", json!({"accountId": account, "ids": [id], "properties": properties}));
    let email = &found["list"][0];
    assert_eq!(
        (&email["subject"], &email["preview"]),
        (&json!("greengage"), &json!("quince and medlar")),
        "{email}"
    );
    let whole = download(&email["blobId"]);
    assert_eq!(email["size"], whole.len(), "{email}");
    let text = String::from_utf8(whole.clone()).unwrap();
    let trace = text.strip_suffix(own).unwrap();
    assert!(
        trace.starts_with("Return-Path: <zoe@example.net>\r\n") && !trace.contains("\r\n\r\n"),
        "{trace}"
    );
    assert_eq!(download(&email["attachments"][0]["blobId"]), b"PNG");

    let filter = json!({"body": "medlar"});
    let snippets =
        ask("SearchSnippet/get", json!({"accountId": account, "emailIds": [id], "filter": filter}));
    assert_eq!(snippets["list"][0]["preview"], "quince and <mark>medlar</mark>", "{snippets}");
    assert_eq!(bed.show_message("ann@example.org", &id), whole);
    let shown = bed.json(&["mail", "show", "-a", "ann@example.org", &id]);
    assert_eq!(shown["attachments"][0]["name"], "p.png", "{shown}");
    let to = bed.dir.join("out");
    bed.run_ok(&[
        "mail",
        "export",
        "-a",
        "ann@example.org",
        "--format",
        "eml",
        to.to_str().unwrap(),
    ]);
    let files: Vec<_> =
        fs::read_dir(&to).unwrap().flat_map(|one| walk(&one.unwrap().path())).collect();
    assert!(files.iter().any(|file| fs::read(file).unwrap().ends_with(&whole)), "{files:?}");

    let identities = ask("Identity/get", json!({"accountId": account}));
    let disposition = json!({
        "actionMode": "manual-action", "sendingMode": "mdn-sent-manually", "type": "displayed",
    });
    let sent = ask(
        "MDN/send",
        json!({
            "accountId": account, "identityId": identities["list"][0]["id"],
            "send": {"k": {"forEmailId": id, "disposition": disposition}},
            "onSuccessUpdateEmail": {"#k": {"keywords/$mdnsent": true}},
        }),
    );
    assert_eq!(sent["sent"]["k"]["originalMessageId"], "<1@example.net>", "{sent}");
    bed.finish();
}

/// All files below a path; the path itself if it is a file.
fn walk(path: &std::path::Path) -> Vec<std::path::PathBuf> {
    match fs::read_dir(path) {
        Ok(all) => all.flat_map(|one| walk(&one.unwrap().path())).collect(),
        Err(_) => vec![path.to_owned()],
    }
}
