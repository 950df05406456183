//! `mail query` against a running service, with text and JSON output.

use serde_json::json;

use crate::bed::TestBed;
use crate::mail::Client;

#[test]
fn mail_query_filters_sorts_pages_and_explains() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account("ann@example.org", &["--zone", "Europe/Berlin"]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let mail = [
        ("Bob <bob@shop.example>", "Your bill", "Please pay 5 & more"),
        ("Zoe <zoe@example.net>", "Lunch <now>?", "A big lunch at noon"),
        ("Zoe <zoe@example.net>", "Re: Lunch <now>?", "Or later"),
    ];
    // Each answers message 1, but the first has another subject, and so a thread of its own.
    for (n, (from, subject, body)) in mail.iter().enumerate() {
        let message = format!(
            "From: {from}\r\nTo: ann@example.org\r\nSubject: {subject}\r\nMessage-ID: <{n}@x>\r\n\
             In-Reply-To: <1@x>\r\n\r\n{body}\r\n"
        );
        let replies =
            client.deliver("zoe@example.net", &["ann@example.org"], message.as_bytes()).unwrap();
        assert_eq!(replies[0].code, 250, "{replies:?}");
    }
    let ask =
        |more: &[&str]| bed.json(&[&["mail", "query", "-a", "ann@example.org"], more].concat());
    let subjects = |more: &[&str]| -> Vec<String> {
        let answer = ask(more);
        let list = answer["list"].as_array().unwrap();
        list.iter().map(|row| row["subject"].as_str().unwrap().to_owned()).collect()
    };
    let all = ["Re: Lunch <now>?", "Lunch <now>?", "Your bill"];
    assert_eq!(subjects(&[]), all);
    assert_eq!(subjects(&["--mailbox", "inbox", "--unseen", "--before", "tomorrow"]), all);
    assert_eq!(subjects(&["--threads", "--mailbox", "inbox"]), [all[0], all[2]]);
    assert_eq!(subjects(&["--text", "lunch", "--position", "-1"]), [all[1]]);
    assert_eq!(subjects(&["--from", "@shop.example"]), [all[2]]);
    assert_eq!(
        subjects(&[
            "--sort",
            "size:desc",
            "--sort",
            "subject",
            "--limit",
            "1",
            "--smaller",
            "1 MiB"
        ])
        .len(),
        1
    );
    assert_eq!(
        subjects(&["--filter", r#"{"operator":"NOT","conditions":[{"from":"zoe"}]}"#]),
        [all[2]]
    );
    assert_eq!(subjects(&["--flagged"]), [""; 0]);

    let found = ask(&["--body", "\"big lunch\"", "--snippets", "--total"]);
    assert_eq!(found["total"], 1);
    assert_eq!(
        found["list"][0]["snippet"],
        json!({"subject": null, "preview": "A <mark>big lunch</mark> at noon"})
    );
    let output = String::from_utf8(bed.run_ok(&[
        "mail",
        "query",
        "-a",
        "ann@example.org",
        "--text",
        "lunch",
        "--snippets",
    ]));
    let output = output.unwrap();
    assert!(
        output.contains(": *Lunch* <now>?") && output.contains(": A big *lunch* at noon"),
        "{output}"
    );

    let plan = ask(&["--mailbox", "inbox", "--explain"]);
    assert_eq!((&plan["strategy"], &plan["length"]), (&json!("listing"), &json!(3)));
    let output = String::from_utf8(bed.run_ok(&[
        "mail",
        "query",
        "-a",
        "ann@example.org",
        "--text",
        "x",
        "--explain",
    ]))
    .unwrap();
    assert!(output.contains("\nnot listing: "), "{output}");

    for wrong in [
        &["--filter", "{"][..],
        &["--filter", r#"{"colour":"red"}"#],
        &["--sort", "colour"],
        &["--anchor", "e0000000000000"],
        &["--before", "someday"],
        &["--limit", "0"],
    ] {
        let refused = bed.run(&[&["mail", "query", "-a", "ann@example.org"], wrong].concat());
        assert_eq!(refused.status.code(), Some(64), "{wrong:?}");
    }
    let found = ask(&[]);
    let second = found["ids"][1].as_str().unwrap();
    assert_eq!(subjects(&["--anchor", second, "--anchor-offset", "-1"]), all);
    bed.finish();
}

#[test]
fn mail_to_an_alias_is_found_by_recipient() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account(
        "ann@example.org",
        &["--alias", "shop@example.org", "--alias", "club@example.org"],
    );
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    for (n, (to, hop)) in [
        ("shop@example.org", ""),
        ("ann@example.org", "Delivered-To: shop@example.org\r\n"),
        ("club@example.org", ""),
        ("Shop@example.org", ""),
    ]
    .iter()
    .enumerate()
    {
        let message = format!(
            "{hop}From: zoe@example.net\r\nTo: all\r\nSubject: {n}\r\nMessage-ID: <{n}@x>\r\n\r\n\
             shop\r\n"
        );
        let replies = client.deliver("zoe@example.net", &[to], message.as_bytes()).unwrap();
        assert_eq!(replies[0].code, 250, "{replies:?}");
    }
    let subjects = |more: &[&str]| -> Vec<String> {
        let answer = bed.json(&[&["mail", "query", "-a", "ann@example.org"], more].concat());
        let list = answer["list"].as_array().unwrap();
        list.iter().map(|row| row["subject"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(subjects(&["--delivered-to", "shop@EXAMPLE.org"]), ["3", "1", "0"]);
    assert_eq!(subjects(&["--delivered-to", "club@"]), ["2"]);
    assert_eq!(subjects(&["--filter", r#"{"header": ["delivered-to"]}"#]).len(), 4);
    assert_eq!(subjects(&["--delivered-to", "nobody@example.org"]), [""; 0]);
    let explain = [
        "mail",
        "query",
        "-a",
        "ann@example.org",
        "--delivered-to",
        "club@example.org",
        "--explain",
    ];
    let output = String::from_utf8(bed.run_ok(&explain)).unwrap();
    let search = "search: the filter decides the index hits among 4 emails";
    assert!(output.starts_with(search), "{output}");
    bed.finish();
}
