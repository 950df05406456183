//! Tests of vendor methods about mail, mailboxes and jobs.

use super::*;
use crate::store::NewMailbox;
use crate::wire::jmap::admin::store::{JobStage, StoreProgress};

#[test]
fn mail_query_returns_rows_snippets_and_the_plan() {
    let context = context();
    let id = letters(&context, 300);
    let ask = |more: Value| {
        let mut arguments = json!({"accountId": id});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call(&context, "Mail/query", &arguments).1
    };
    let subjects = |answer: &Value| -> Vec<String> {
        let list = answer["list"].as_array().unwrap();
        list.iter().map(|row| row["subject"].as_str().unwrap().to_owned()).collect()
    };
    let all = ask(json!({"limit": 2, "calculateTotal": true}));
    assert_eq!(subjects(&all), ["no. 299 <b>", "no. 298 <b>"]);
    assert_eq!(
        (&all["total"], &all["position"], &all["plan"]["strategy"]),
        (&json!(300), &json!(0), &json!("all mail"))
    );
    assert_eq!(all["ids"][1], all["list"][1]["id"]);
    let inbox = ask(json!({"mailbox": "inbox", "position": -1, "collapseThreads": true}));
    assert_eq!(subjects(&inbox), ["no. 0 <b>"]);
    assert_eq!((&inbox["plan"]["strategy"], &inbox["position"]), (&json!("listing"), &json!(299)));
    assert_eq!(inbox["plan"]["listing"]["collapsed"], true);
    let anchored =
        ask(json!({"mailbox": "Inbox", "anchor": all["ids"][1], "anchorOffset": -1, "limit": 3}));
    assert_eq!(subjects(&anchored), ["no. 299 <b>", "no. 298 <b>", "no. 297 <b>"]);
    assert_eq!(ask(json!({})).as_object().unwrap()["list"].as_array().unwrap().len(), 50);

    let sorted = json!({
        "filter": {"operator": "AND", "conditions": [{"body": "7"}, {"hasKeyword": "Work"}]},
        "sort": [{"property": "receivedAt"}], "snippets": true,
    });
    let found = ask(sorted);
    assert_eq!(subjects(&found), ["no. 7 <b>"]);
    let snippet = json!({"subject": null, "preview": "lunch <mark>7</mark> &amp; more"});
    assert_eq!(found["list"][0]["snippet"], snippet);
    let both = ask(json!({"filter": {"text": "no. 7"}, "snippets": true}));
    assert_eq!(both["list"][0]["snippet"]["subject"], "<mark>no</mark>. <mark>7</mark> &lt;b&gt;");
}

#[test]
fn invalid_mail_query_gets_its_error_type() {
    let context = context();
    let id = letters(&context, 1);
    for (invalid, kind) in [
        (json!({"filter": {"colour": "red"}}), "unsupportedFilter"),
        (json!({"filter": {"text": 5}}), "invalidArguments"),
        (json!({"sort": [{"property": "colour"}]}), "unsupportedSort"),
        (json!({"anchor": "e0000000000000"}), "anchorNotFound"),
        (json!({"position": "first"}), "invalidArguments"),
        (json!({"limit": -1}), "invalidArguments"),
        (json!({"mailbox": "nowhere"}), "notFound"),
    ] {
        let mut arguments = json!({"accountId": id});
        arguments.as_object_mut().unwrap().extend(invalid.as_object().unwrap().clone());
        assert_eq!(error(&context, "Mail/query", &arguments), kind, "{invalid}");
    }
    assert_eq!(error(&context, "Mail/query", &json!({"accountId": "a0000000"})), "accountNotFound");
}

#[test]
fn mail_methods_report_the_outcome_of_each_email() {
    let context = context();
    let (ann, ids) = filed(&context, &["one", "two", "three"]);
    let ask = |name: &str, mut arguments: Value| {
        arguments["accountId"] = ann.clone().into();
        call(&context, name, &arguments).1
    };
    let count = |mailbox: &str| {
        ask("Mail/list", json!({"mailbox": mailbox}))["list"].as_array().unwrap().len()
    };
    let moved = ask("Mail/move", json!({"ids": [ids[0], "nonsense"], "mailbox": "archive"}));
    assert_eq!(
        (&moved["moved"], &moved["notMoved"]["nonsense"]["type"]),
        (&json!({&ids[0]: null}), &json!("notFound"))
    );
    ask("Mail/move", json!({"ids": [ids[1]], "mailbox": "Archive", "also": true}));
    assert_eq!((count("inbox"), count("archive")), (2, 2));
    let flagged = ask(
        "Mail/flag",
        json!({"ids": [ids[1]], "add": ["$Seen", "work"], "remove": ["$flagged"]}),
    );
    assert_eq!(flagged["flagged"][&ids[1]], json!(["$seen", "work"]));
    assert_eq!(
        ask("Mail/flag", json!({"ids": [ids[1]], "add": ["a b"]}))["type"],
        "invalidArguments"
    );
    let gone = ask("Mail/destroy", json!({"ids": [ids[0], ids[1], "e0"]}));
    assert_eq!(
        (gone["destroyed"].as_object().unwrap().len(), &gone["notDestroyed"]["e0"]["type"]),
        (2, &json!("notFound"))
    );
    let listed = ask("Mail/destroyed", json!({}));
    assert_eq!(listed["list"].as_array().unwrap().len(), 2);
    // 60 days (`DESTROYED_EMAIL_RETENTION`) after the time of `context`.
    assert_eq!(listed["list"][0]["restorableUntil"], "2027-01-20T09:00:00Z");
    let back = ask("Mail/restore", json!({"ids": [ids[1], ids[2]]}));
    let new = back["restored"][&ids[1]].as_str().unwrap();
    assert_eq!(back["notRestored"][&ids[2]]["type"], "conflict");
    let shown = ask("Mail/show", json!({"id": new}));
    assert_eq!((&shown["subject"], &shown["keywords"]), (&json!("two"), &json!(["$seen", "work"])));
    assert_eq!((count("inbox"), count("archive")), (2, 1));
    assert_eq!(
        ask("Mail/restore", json!({"ids": [ids[1]]}))["notRestored"][&ids[1]]["type"],
        "conflict"
    );
    // Purge by ids, and purge everything.
    assert_eq!(ask("Mail/purge", json!({}))["type"], "invalidArguments");
    let purged = ask("Mail/purge", json!({"ids": [ids[0], ids[2]]}));
    assert_eq!(
        (&purged["purged"], &purged["notPurged"][&ids[2]]["type"]),
        (&json!({&ids[0]: null}), &json!("notFound"))
    );
    ask("Mail/destroy", json!({"ids": [new]}));
    assert_eq!(
        ask("Mail/purge", json!({"all": true})),
        json!({"count": 2}),
        "the restored email left a tombstone under its old id"
    );
    assert_eq!(ask("Mail/destroyed", json!({}))["list"], json!([]));
    let too_many: Vec<String> = (0..10_001).map(|n| n.to_string()).collect();
    assert_eq!(ask("Mail/destroy", json!({"ids": too_many}))["type"], "invalidArguments");
}

#[test]
fn mailboxes_are_added_changed_and_removed_by_path() {
    let context = context();
    let (ann, _) = filed(&context, &["one"]);
    let ask = |name: &str, mut arguments: Value| {
        arguments["accountId"] = ann.clone().into();
        call(&context, name, &arguments).1
    };
    let paths = || {
        let answer = ask("Mailbox/list", json!({}));
        answer["list"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["path"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let default_paths = paths();
    assert_eq!(default_paths, ["Archive", "Drafts", "Inbox", "Junk", "Sent", "Trash"]);
    assert_eq!(ask("Mailbox/add", json!({"path": "Work/2026"}))["type"], "notFound");
    // RFC 8621 §2.
    let large = ask("Mailbox/add", json!({"path": "Work", "sortOrder": 1u32 << 31}));
    assert_eq!(large["type"], "invalidArguments");
    ask("Mailbox/add", json!({"path": "Work", "sortOrder": 7}));
    let made = ask("Mailbox/add", json!({"path": "Work/2026"}));
    assert_eq!(
        (&made["path"], &made["name"], &made["totalEmails"]),
        (&json!("Work/2026"), &json!("2026"), &json!(0))
    );
    assert_eq!(ask("Mailbox/add", json!({"path": "Work/2026"}))["type"], "conflict");
    let change = |arguments: Value| ask("Mailbox/change", arguments);
    assert_eq!(change(json!({"mailbox": "work/2026", "name": "2027"}))["path"], "Work/2027");
    assert_eq!(change(json!({"mailbox": made["id"], "name": "a/b"}))["type"], "invalidArguments");
    assert_eq!(change(json!({"mailbox": made["id"], "parent": ""}))["path"], "2027");
    assert_eq!(change(json!({"mailbox": "2027", "parent": "Work"}))["path"], "Work/2027");
    assert_eq!(change(json!({"mailbox": "Work", "parent": "Work/2027"}))["type"], "conflict");
    assert_eq!(change(json!({"mailbox": "Work/2027", "role": "important"}))["role"], "important");
    assert_eq!(change(json!({"mailbox": "important", "role": ""}))["role"], json!(null));
    assert_eq!(change(json!({"mailbox": "Work", "role": "boss"}))["type"], "invalidArguments");
    assert_eq!(
        change(json!({"mailbox": "Work", "isSubscribed": false, "sortOrder": 9}))["isSubscribed"],
        false
    );
    let attributes = |patch: Value| change(json!({"mailbox": "Work", "attributes": patch}));
    assert_eq!(
        attributes(json!({"color": "#1e90ff", "note": "x"}))["attributes"],
        json!({"color": "#1e90ff", "note": "x"})
    );
    assert_eq!(attributes(json!({"note": null}))["attributes"], json!({"color": "#1e90ff"}));
    assert_eq!(attributes(json!({"color": "blue"}))["type"], "conflict");
    assert_eq!(attributes(json!({"color": 1}))["type"], "invalidArguments");
    assert_eq!(
        ask("Mailbox/add", json!({"path": "Play", "attributes": {"A": "x"}}))["type"],
        "conflict"
    );
    assert!(
        !paths().contains(&"Play".to_owned()),
        "a mailbox with invalid attributes is not created"
    );
    // A mailbox with emails is removed only with `emails`, one with children and the Inbox never.
    let inbox = ask("Mail/list", json!({}))["list"][0]["id"].clone();
    ask("Mail/move", json!({"ids": [inbox], "mailbox": "Work/2027"}));
    let remove = |arguments: Value| ask("Mailbox/remove", arguments);
    assert_eq!(remove(json!({"mailbox": "Work", "emails": true}))["type"], "conflict");
    assert_eq!(remove(json!({"mailbox": "Work/2027"}))["type"], "conflict");
    assert_eq!(remove(json!({"mailbox": "Inbox", "emails": true}))["type"], "conflict");
    assert_eq!(remove(json!({"mailbox": "Work/2027", "emails": true})), json!({"emails": 1}));
    assert_eq!(remove(json!({"mailbox": "Work"})), json!({"emails": 0}));
    assert_eq!(paths(), default_paths);
    // The email of a removed mailbox can be restored, into the Inbox.
    let destroyed = ask("Mail/destroyed", json!({}))["list"][0]["id"].clone();
    ask("Mail/restore", json!({"ids": [destroyed]}));
    assert_eq!(ask("Mail/list", json!({"mailbox": "inbox"}))["list"].as_array().unwrap().len(), 1);
}

/// Each step removes 64 emails. The child is made after the first, and there would be three.
#[test]
fn mailbox_that_gets_a_child_while_it_is_emptied_keeps_its_other_emails() {
    let context = context();
    let subjects: Vec<String> = (0..134).map(|n| n.to_string()).collect();
    let (ann, ids) = filed(&context, &subjects.iter().map(String::as_str).collect::<Vec<_>>());
    let ask = |name: &str, mut arguments: Value| {
        arguments["accountId"] = ann.clone().into();
        call(&context, name, &arguments).1
    };
    let work = ask("Mailbox/add", json!({"path": "Work"}))["id"].clone();
    ask("Mail/move", json!({"ids": ids, "mailbox": "Work"}));
    let child = NewMailbox {
        name: "child".into(),
        parent: Some(work.as_str().unwrap().parse().unwrap()),
        role: None,
        sort_order: 0,
    };
    let store = parking_lot::Mutex::new(Some(context.store.clone()));
    context.store.on_change(move |change| {
        if let Some(store) = store.lock().take() {
            drop(store.commit(change.account, |txn| txn.create_mailbox(&child)).unwrap());
        }
    });
    let removed = ask("Mailbox/remove", json!({"mailbox": "Work", "emails": true}));
    assert_eq!(removed["type"], "conflict", "{removed}");
    let listed = ask("Mail/list", json!({"mailbox": "Work", "limit": 100}));
    assert_eq!(listed["list"].as_array().unwrap().len(), 70);
}

#[test]
fn index_without_emails_has_the_mailboxes() {
    let context = context();
    let (ann, _) = filed(&context, &["one"]);
    let index = |limit: u64| {
        let (_, answer) = call(&context, "Mail/index", &json!({"accountId": ann, "limit": limit}));
        ["list", "mailboxes"].map(|rows| answer[rows].as_array().unwrap().len())
    };
    assert_eq!((index(0), index(1)), ([0, 6], [1, 6]));
}

#[test]
fn jobs_report_progress_and_run_one_at_a_time() {
    let context = context();
    let result = |job: &Value| loop {
        let (_, now) = call(&context, "Job/get", &json!({"job": job["job"]}));
        if now["done"] == true {
            break now["result"].clone();
        }
        std::thread::yield_now();
    };
    assert_eq!(error(&context, "Job/get", &json!({"job": 1})), "notFound");
    let first = call(&context, "Store/check", &json!({"blobs": true})).1;
    assert_eq!(result(&first)["breaches"], json!([]));
    let second = call(
        &context,
        "Store/repair",
        &json!({"scope": "rebuild", "accounts": ["bob@example.org"]}),
    )
    .1;
    let done = result(&second);
    assert_eq!(
        (&done["accounts"], done["renewed"].as_array().map(Vec::len)),
        (&json!(1), Some(1)),
        "{done}"
    );
    assert_eq!(error(&context, "Job/get", &first), "notFound", "only the last job is known");
    assert_eq!(
        error(&context, "Store/repair", &json!({"scope": "everything"})),
        "invalidArguments"
    );
    assert_eq!(
        error(&context, "Store/repair", &json!({"scope": "repair", "accounts": ["x@y"]})),
        "accountNotFound"
    );
    assert_eq!(error(&context, "Store/backup", &json!({"dir": "here"})), "invalidArguments");
    // A store in memory cannot be backed up.
    let dir = tempfile::tempdir().unwrap();
    let backup = call(&context, "Store/backup", &json!({"dir": dir.path().join("b")})).1;
    while call(&context, "Job/get", &backup).1["done"] == false {}
    assert_eq!(error(&context, "Job/get", &backup), "conflict");
    // While a job runs, no other can start. `stop` ends the job.
    let (begun, wait) = std::sync::mpsc::channel();
    let slow = context.jobs.start("test", move |progress| {
        begun.send(()).unwrap();
        while progress
            .report(JobStage::Store(StoreProgress { rows: 7, ..StoreProgress::default() }))
        {
            std::thread::yield_now();
        }
        Err(Error::Stopped)
    });
    wait.recv().unwrap();
    assert_eq!(error(&context, "Store/check", &json!({})), "conflict");
    let slow = json!(slow.unwrap());
    while call(&context, "Job/get", &slow).1["progress"]["rows"] != 7 {}
    context.jobs.stop(std::time::Duration::from_secs(20));
    assert_eq!(error(&context, "Job/get", &slow), "serverUnavailable");
    assert_eq!(error(&context, "Store/check", &json!({})), "serverUnavailable");
}
