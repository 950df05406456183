//! Updates and destructions of Email/set, Email/import and Email/copy.

use serde_json::{Value, json};

use crate::jmap::email::read::tests::filed;
use crate::jmap::email::write::commits::Commits;
use crate::jmap::failure::SetFailure;
use crate::jmap::tests::{account_of, call, context, error};
use crate::jmap::{CAPABILITIES, Context, run};
use crate::wire::jmap::{MethodError, parse};

fn mailbox(context: &Context, account: &str, name: &str) -> String {
    let (_, answer) = call(
        context,
        "Mailbox/set",
        &json!({"accountId": account, "create": {"m": {"name": name}}}),
    );
    answer["created"]["m"]["id"].as_str().unwrap().to_owned()
}

fn set(context: &Context, account: &str, mut arguments: Value) -> Value {
    arguments["accountId"] = account.into();
    let (name, answer) = call(context, "Email/set", &arguments);
    assert_eq!(name, "Email/set", "{answer}");
    answer
}

fn get(context: &Context, account: &str, id: &str, name: &str) -> Value {
    let (_, answer) = call(
        context,
        "Email/get",
        &json!({"accountId": account, "ids": [id], "properties": [name]}),
    );
    answer["list"][0][name].clone()
}

#[test]
fn keywords_and_mailboxes_change_by_patch() {
    let context = context();
    let (account, id) = (account_of(&context), filed(&context, b"Subject: x\r\n\r\ny"));
    let other = mailbox(&context, &account, "Other");
    let inbox = get(&context, &account, &id, "mailboxIds")
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    let update = |patch: Value| {
        let answer = set(&context, &account, json!({"update": {&id: patch}}));
        match answer["updated"].get(&id) {
            Some(also) => Ok(also.clone()),
            None => Err(answer["notUpdated"][&id]["type"].as_str().unwrap().to_owned()),
        }
    };
    let keywords = || get(&context, &account, &id, "keywords");
    assert_eq!(update(json!({"keywords/$flagged": true, "keywords/$seen": null})), Ok(Value::Null));
    assert_eq!(keywords(), json!({"$flagged": true}));
    assert_eq!(
        update(json!({"keywords": {"Work": true}})),
        Ok(json!({"keywords": {"work": true}}))
    );
    assert_eq!(update(json!({"keywords": null})), Ok(Value::Null));
    assert_eq!(keywords(), json!({}));
    assert_eq!(update(json!({format!("mailboxIds/{other}"): true})), Ok(Value::Null));
    assert_eq!(get(&context, &account, &id, "mailboxIds"), json!({&inbox: true, &other: true}));
    assert_eq!(update(json!({"mailboxIds": {&other: true}})), Ok(Value::Null));
    // An immutable property may be sent with its present value.
    assert_eq!(
        update(json!({"subject": "x", "size": get(&context, &account, &id, "size"),
                "keywords/a": true})),
        Ok(Value::Null)
    );
    for (patch, wanted) in [
        (json!({format!("mailboxIds/{other}"): null}), "invalidProperties"),
        (json!({"mailboxIds": null}), "invalidProperties"),
        (json!({"mailboxIds/m7vvvvvg": true}), "invalidProperties"),
        (json!({"mailboxIds": {&other: 1}}), "invalidProperties"),
        (json!({"keywords/a b": true}), "invalidProperties"),
        (json!({"keywords/b": false}), "invalidProperties"),
        (json!({"keywords/a": true, "keywords": {}}), "invalidPatch"),
        (json!({"subject": "y"}), "invalidProperties"),
        (json!({"from/0": {}}), "invalidPatch"),
        (json!({"nothing": 1}), "invalidProperties"),
        (json!({"receivedAt": "2020-01-01T00:00:00Z"}), "invalidProperties"),
    ] {
        assert_eq!(update(patch.clone()), Err(wanted.to_owned()), "{patch}");
    }
    assert_eq!(keywords(), json!({"a": true}));
    let many: Value =
        (0..101).map(|n| (format!("k{n}"), json!(true))).collect::<serde_json::Map<_, _>>().into();
    assert_eq!(update(json!({"keywords": many})), Err("tooManyKeywords".to_owned()));
    let none = set(&context, &account, json!({"update": {"e0000000000000": {}, "x": {}}}));
    assert_eq!(
        none["notUpdated"],
        json!({"e0000000000000": {"type": "notFound"}, "x": {"type": "notFound"}})
    );
}

#[test]
fn email_set_reports_the_states_before_and_after() {
    let context = context();
    let (account, id) = (account_of(&context), filed(&context, b"Subject: x\r\n\r\ny"));
    let second = filed(&context, b"Subject: y\r\n\r\ny");
    let state = |context: &Context| {
        call(context, "Email/get", &json!({"accountId": account, "ids": []})).1["state"].clone()
    };
    let before = state(&context);
    let idle = set(&context, &account, json!({"ifInState": before}));
    assert_eq!(
        (&idle["oldState"], &idle["newState"], &idle["updated"]),
        (&before, &before, &Value::Null)
    );
    let inbox = get(&context, &account, &id, "mailboxIds");
    let all = json!({
        "ifInState": before, "create": {"a": {"mailboxIds": inbox},
            "b": {"mailboxIds": inbox, "keywords": {"$draft": true}}},
        "update": {&id: {"keywords/x": true}, "#a": {"keywords/made": true}},
        "destroy": [second, "none"],
    });
    let done = set(&context, &account, all.clone());
    assert_eq!((&done["oldState"], &done["newState"]), (&before, &state(&context)));
    assert_eq!(done["notDestroyed"], json!({"none": {"type": "notFound"}}));
    assert_eq!((&done["destroyed"], &done["notCreated"]), (&json!([second]), &Value::Null));
    let made = done["created"]["a"]["id"].as_str().unwrap();
    assert_eq!(done["updated"], json!({&id: null, made: null}));
    assert_eq!(get(&context, &account, made, "keywords"), json!({"made": true}));
    let (_, changes) =
        call(&context, "Email/changes", &json!({"accountId": account, "sinceState": before}));
    let count = |name: &str| changes[name].as_array().unwrap().len();
    assert_eq!((count("created"), count("updated"), count("destroyed")), (2, 1, 1));
    // Nothing is changed if `ifInState` is an older state.
    for stale in [
        all,
        json!({"ifInState": before, "update": {&id: {"keywords/y": true}}}),
        json!({"ifInState": before, "destroy": [id]}),
        json!({"ifInState": before}),
    ] {
        let mut stale = stale;
        stale["accountId"] = account.clone().into();
        assert_eq!(error(&context, "Email/set", &stale), "stateMismatch", "{stale}");
    }
    assert_eq!(state(&context), done["newState"]);
    assert!(context.store.check().unwrap().is_empty());
}

#[test]
fn blob_is_imported_only_once() {
    let context = context();
    let account = account_of(&context);
    let inner = "From: i@x.example\r\nReceived: from a by b; Sat, 21 Nov 2020 10:00:00 +0000\r\n\
        Subject: inner\r\n\r\nz";
    let raw = format!(
        "Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\ntext\r\n--b\r\n\
            Content-Type: message/rfc822\r\n\r\n{inner}\r\n--b--\r\n"
    );
    let id = filed(&context, raw.as_bytes());
    let inbox = get(&context, &account, &id, "mailboxIds");
    let blob = format!("o{}-2", &id[1..]);
    let import = |emails: Value| {
        call(&context, "Email/import", &json!({"accountId": account, "emails": emails})).1
    };
    let done = import(json!({
        "a": {"blobId": blob, "mailboxIds": inbox, "keywords": {"$seen": true}},
        "text": {"blobId": format!("o{}-1", &id[1..]), "mailboxIds": inbox},
        "gone": {"blobId": "o0000000000000", "mailboxIds": inbox},
        "nowhere": {"blobId": blob, "mailboxIds": {}},
        "odd": {"blobId": blob, "mailboxIds": inbox, "subject": "x"},
    }));
    let made = done["created"]["a"].clone();
    assert_eq!(
        made.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["blobId", "id", "size", "threadId"]
    );
    assert_eq!(made["size"], inner.len());
    let made = made["id"].as_str().unwrap();
    assert_eq!(get(&context, &account, made, "subject"), "inner");
    assert_eq!(get(&context, &account, made, "receivedAt"), "2020-11-21T10:00:00Z");
    let kind = |name: &str| done["notCreated"][name]["type"].clone();
    assert_eq!(
        [kind("text"), kind("gone"), kind("nowhere"), kind("odd")],
        ["invalidEmail", "invalidProperties", "invalidProperties", "invalidProperties"]
    );
    assert_eq!(done["notCreated"]["gone"]["properties"], json!(["blobId"]));
    let all =
        import(json!({"a": {"keywords": {"a b": true}, "receivedAt": "today", "colour": "red"}}));
    let mut named = all["notCreated"]["a"]["properties"].as_array().unwrap().clone();
    named.sort_by_key(ToString::to_string);
    assert_eq!(named, ["blobId", "colour", "keywords", "mailboxIds", "receivedAt"]);
    assert_ne!(done["oldState"], done["newState"]);
    let again = import(json!({"a": {"blobId": blob, "mailboxIds": inbox}}));
    assert_eq!(again["notCreated"]["a"], json!({"type": "alreadyExists", "existingId": made}));
    assert_eq!((&again["created"], &again["newState"]), (&Value::Null, &done["newState"]));
    let stale = json!({"accountId": account, "ifInState": done["oldState"],
        "emails": {"b": {"blobId": blob, "mailboxIds": inbox}}});
    assert_eq!(error(&context, "Email/import", &stale), "stateMismatch");
    assert_eq!(error(&context, "Email/import", &json!({"accountId": account})), "invalidArguments");
    assert!(context.store.check().unwrap().is_empty());
}

#[test]
fn bytes_before_a_header_are_skipped_by_import_filing_and_parse() {
    let context = context();
    let account = account_of(&context);
    let inner = "From: i@x.example\r\nSubject: inner\r\n\r\nnothing above";
    for before in ["\r\n", "  \t\r\n", "\u{feff}", ">From i@x Sat Jan  1\r\n", "From i@x\r\n\r\n"] {
        let odd = format!("{before}{inner}");
        let raw = format!(
            "Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\ntext\r\n\
                --b\r\nContent-Type: message/rfc822\r\n\r\n{odd}\r\n--b--\r\n"
        );
        let id = filed(&context, raw.as_bytes());
        let blob = format!("o{}-2", &id[1..]);
        let inbox = get(&context, &account, &id, "mailboxIds");
        let emails = json!({"a": {"blobId": blob, "mailboxIds": inbox}});
        let (_, done) =
            call(&context, "Email/import", &json!({"accountId": account, "emails": emails}));
        let imported = done["created"]["a"]["id"]
            .as_str()
            .unwrap_or_else(|| panic!("{before:?}: {done}"))
            .to_owned();
        // With the dot, it is another message than the imported one.
        for id in [imported, filed(&context, format!("{odd}.").as_bytes())] {
            assert_eq!(get(&context, &account, &id, "subject"), "inner", "{before:?}");
            assert!(
                get(&context, &account, &id, "preview")
                    .as_str()
                    .unwrap()
                    .starts_with("nothing above"),
                "{before:?}"
            );
        }
        let ask =
            json!({"accountId": account, "blobIds": [blob], "properties": ["subject", "preview"]});
        let (_, parsed) = call(&context, "Email/parse", &ask);
        assert_eq!(
            parsed["parsed"][&blob],
            json!({"subject": "inner", "preview": "nothing above"}),
            "{before:?}"
        );
    }
}

#[test]
fn email_is_copied_and_the_original_destroyed() {
    let context = context();
    let (ann, id) = (account_of(&context), filed(&context, b"Subject: x\r\n\r\ny"));
    let bob = context.directory.find_account("bob@example.org").unwrap().unwrap().0.to_string();
    let (_, boxes) = call(&context, "Mailbox/get", &json!({"accountId": bob}));
    let inbox =
        boxes["list"].as_array().unwrap().iter().find(|one| one["role"] == "inbox").unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned();
    let copy = |more: Value| {
        let mut arguments = json!({"fromAccountId": ann, "accountId": bob});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let request =
            json!({"using": CAPABILITIES, "methodCalls": [["Email/copy", arguments, "c"]]});
        run(&context, parse(request.to_string().as_bytes(), CAPABILITIES).unwrap()).unwrap().json()
            ["methodResponses"]
            .clone()
    };
    let done = copy(json!({"create": {
        "k": {"id": id, "mailboxIds": {&inbox: true}}, "none": {"id": "e0000000000000",
            "mailboxIds": {&inbox: true}},
        "nowhere": {"id": id}, "odd": {"id": id, "mailboxIds": {&inbox: true}, "subject": "y"},
    }}));
    assert_eq!(done.as_array().unwrap().len(), 1, "{done}");
    let made = done[0][1]["created"]["k"]["id"].as_str().unwrap().to_owned();
    // The copy has the keywords, the time and the trace prefix of the original.
    for name in ["keywords", "receivedAt", "size", "header:Return-Path", "subject"] {
        assert_eq!(get(&context, &bob, &made, name), get(&context, &ann, &id, name), "{name}");
    }
    let kind = |name: &str| done[0][1]["notCreated"][name]["type"].clone();
    assert_eq!(
        [kind("none"), kind("nowhere"), kind("odd")],
        ["notFound", "invalidProperties", "invalidProperties"]
    );
    assert_eq!(
        (&done[0][1]["fromAccountId"], &done[0][1]["accountId"]),
        (&json!(ann), &json!(bob))
    );
    let again = json!({"create": {"k": {"id": id, "mailboxIds": {&inbox: true}}},
        "onSuccessDestroyOriginal": true});
    let again = copy(again);
    assert_eq!(
        again[0][1]["notCreated"]["k"],
        json!({"type": "alreadyExists", "existingId": made})
    );
    // Nothing was copied, so no original is destroyed.
    assert_eq!(again.as_array().unwrap().len(), 1);
    let second = filed(&context, b"Subject: z\r\n\r\ny");
    let moved =
        copy(json!({"create": {"k": {"id": second, "mailboxIds": {&inbox: true}, "keywords": {}}},
            "onSuccessDestroyOriginal": true}));
    assert_eq!(
        (&moved[1][0], &moved[1][2], &moved[1][1]["destroyed"]),
        (&json!("Email/set"), &json!("c"), &json!([second]))
    );
    assert_eq!(moved[1][1]["accountId"], json!(ann));
    for (more, wanted) in [
        (json!({"fromAccountId": "a7vvvvvg", "create": {}}), "fromAccountNotFound"),
        (json!({"accountId": "a7vvvvvg", "create": {}}), "accountNotFound"),
        (json!({"accountId": ann, "create": {}}), "invalidArguments"),
        (json!({}), "invalidArguments"),
        (json!({"create": {}, "ifFromInState": "0-0"}), "stateMismatch"),
        (json!({"create": {}, "ifInState": "0-0"}), "stateMismatch"),
    ] {
        assert_eq!(copy(more.clone())[0][1]["type"], wanted, "{more}");
    }
    // With another state in `destroyFromIfInState` no original is destroyed, and the copies stay.
    let third = filed(&context, b"Subject: w\r\n\r\ny");
    let moved = copy(json!({
        "create": {"k": {"id": third, "mailboxIds": {&inbox: true}}},
        "onSuccessDestroyOriginal": true,
        "destroyFromIfInState": "0-0",
    }));
    assert!(moved[0][1]["created"]["k"]["id"].is_string(), "{moved}");
    assert_eq!(
        (&moved[1][0], &moved[1][1]["type"], &moved[1][2]),
        (&json!("error"), &json!("stateMismatch"), &json!("c"))
    );
    assert_eq!(get(&context, &ann, &third, "subject"), "w");
    assert!(context.store.check().unwrap().is_empty());
}

/// RFC 8620 §3.6.2: an error of the whole call would say that nothing was changed.
#[test]
fn error_after_a_commit_concerns_only_the_object() {
    let context = context();
    let (ann, _) = context.directory.find_account("ann@example.org").unwrap().unwrap();
    let unread = || SetFailure::Call(MethodError::ServerFail("it cannot be read".into()));
    let mut commits = Commits::default();
    assert_eq!(
        commits.object_failure(unread()).object().unwrap_err(),
        MethodError::ServerFail("it cannot be read".into())
    );
    let done = commits.run(
        |_| true,
        |begin| {
            context.store.commit(ann, |txn| {
                begin(txn)?;
                txn.update_mailbox(txn.state().inbox, |row| row.sort_order = 9).map(drop)
            })
        },
    );
    assert_eq!(done, Ok(()));
    let one = commits.object_failure(unread()).object().unwrap();
    assert_eq!(one.object(), json!({"type": "serverFail", "description": "it cannot be read"}));
}

/// RFC 8620 §6: a call may use a blob of an email that it destroys.
#[test]
fn blob_is_usable_in_the_call_that_destroys_its_email() {
    let context = context();
    let (account, id) = (account_of(&context), filed(&context, b"Subject: x\r\n\r\nthe text"));
    let inbox = get(&context, &account, &id, "mailboxIds");
    let email = json!({"mailboxIds": inbox,
        "attachments": [{"blobId": format!("o{}-0", &id[1..]), "type": "text/plain"}]});
    let done = set(&context, &account, json!({"create": {"k": email}, "destroy": [id]}));
    assert_eq!((&done["destroyed"], &done["notCreated"]), (&json!([id]), &Value::Null));
    let made = done["created"]["k"]["id"].as_str().unwrap();
    assert_eq!(get(&context, &account, made, "attachments")[0]["size"], 8);
    let again = set(&context, &account, json!({"create": {"k": email}}));
    assert_eq!(again["notCreated"]["k"]["type"], "blobNotFound");
}

/// RFC 8621 §4.8, §4.9: messages whose headers are in UTF-8 (RFC 6532).
#[test]
fn headers_in_utf_8_are_imported_and_parsed() {
    let context = context();
    let account = account_of(&context);
    let raw = "From: J\u{fc}rgen <j\u{fc}rgen@b\u{fc}cher.example>\r\n\
        To: \u{7528}\u{6237}@\u{4f8b}\u{5b50}.example\r\n\
        Subject: Gr\u{fc}\u{df}e \u{1f600}\r\nX-\u{dc}: no name\r\n\
        Message-ID: <1@b\u{fc}cher.example>\r\n\r\nhi\r\n";
    let upload = context
        .keep_upload(account.parse().unwrap(), raw.as_bytes(), "message/rfc822")
        .unwrap()
        .to_string();
    let names = ["from", "to", "subject", "messageId", "header:Subject"];
    let wanted = json!({
        "from": [{"name": "J\u{fc}rgen", "email": "j\u{fc}rgen@b\u{fc}cher.example"}],
        "to": [{"name": null, "email": "\u{7528}\u{6237}@\u{4f8b}\u{5b50}.example"}],
        "subject": "Gr\u{fc}\u{df}e \u{1f600}", "messageId": ["1@b\u{fc}cher.example"],
        "header:Subject": " Gr\u{fc}\u{df}e \u{1f600}",
    });
    let (_, parsed) = call(
        &context,
        "Email/parse",
        &json!({"accountId": account, "blobIds": [upload], "properties": names}),
    );
    assert_eq!(parsed["parsed"][&upload], wanted, "{parsed}");
    let (_, boxes) = call(
        &context,
        "Mailbox/query",
        &json!({"accountId": account, "filter": {"role": "inbox"}}),
    );
    let emails =
        json!({"k": {"blobId": upload, "mailboxIds": {boxes["ids"][0].as_str().unwrap(): true}}});
    let (_, made) =
        call(&context, "Email/import", &json!({"accountId": account, "emails": emails}));
    let id = made["created"]["k"]["id"].as_str().unwrap();
    for name in names {
        assert_eq!(get(&context, &account, id, name), wanted[name], "{name}");
    }
}

/// RFC 8621 §4.1.1: keywords are the same in any case.
#[test]
fn patch_finds_keywords_in_any_case() {
    let context = context();
    let (account, id) = (account_of(&context), filed(&context, b"Subject: x\r\n\r\ny"));
    let update = |patch: Value| {
        let answer = set(&context, &account, json!({"update": {&id: patch}}));
        match answer["updated"].get(&id) {
            Some(also) => Ok(also.clone()),
            None => Err(answer["notUpdated"][&id]["type"].as_str().unwrap().to_owned()),
        }
    };
    let keywords = || get(&context, &account, &id, "keywords");
    assert_eq!(update(json!({"keywords": {"$seen": true, "a/b": true}})), Ok(Value::Null));
    // The answer has the keywords that the email has now. The client may know `$seen` and `$Seen`
    // as two keywords.
    let without_seen = json!({"keywords": {"a/b": true}});
    assert_eq!(update(json!({"keywords/$Seen": null})), Ok(without_seen.clone()));
    assert_eq!(keywords(), without_seen["keywords"]);
    assert_eq!(update(json!({"keywords/A~1B": null})), Ok(json!({"keywords": {}})));
    assert_eq!(keywords(), json!({}));
    let flagged = json!({"keywords": {"$flagged": true}});
    assert_eq!(update(json!({"keywords/$Flagged": true})), Ok(flagged.clone()));
    assert_eq!(update(json!({"keywords/$flagged": true})), Ok(Value::Null));
    // Two pointers to one keyword overlap (RFC 8620 §5.3).
    let both = json!({"keywords/$Flagged": null, "keywords/$flagged": true});
    assert_eq!(update(both), Err("invalidPatch".to_owned()));
    assert_eq!(keywords(), flagged["keywords"]);
}
