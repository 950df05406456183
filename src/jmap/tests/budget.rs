//! One budget bounds all calls of a request together.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{account_of, call, context, letters};
use crate::jmap::budget::Budget;
use crate::jmap::dispatch::{names, run_within};
use crate::jmap::email::read::tests::filed;
use crate::jmap::{CAPABILITIES, Caller, Context, run};
use crate::model::limits;
use crate::wire::jmap::parse;

/// Runs the calls as one request, with the given budget or the caller's own.
fn ask(context: &Context, budget: Option<Budget>, calls: &Value) -> Vec<Value> {
    let request = json!({"using": CAPABILITIES, "methodCalls": calls});
    let request = parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
    let response = match budget {
        Some(budget) => run_within(context, budget, request),
        None => run(context, request),
    };
    response.unwrap().json()["methodResponses"].as_array().unwrap().clone()
}

/// Returns a message with a text of about `text` bytes.
fn message(text: usize) -> String {
    let lines = "Sphinx of black quartz, judge my vow.\r\n".repeat(text / 39);
    format!(
        "From: bob@example.net\r\nTo: ann@example.org\r\nSubject: s\r\nMessage-ID: <1@x>\r\n\r\n\
            {lines}"
    )
}

/// Arguments of MDN/send that include the original message.
fn mdn(email: &str) -> Value {
    let disposition = json!({"actionMode": "manual-action", "sendingMode": "mdn-sent-manually",
        "type": "displayed"});
    let send =
        json!({"forEmailId": email, "includeOriginalMessage": true, "disposition": disposition});
    json!({"send": {"k": send}, "onSuccessUpdateEmail": {"#k": {"keywords/$mdnsent": true}}})
}

#[test]
fn answers_of_all_calls_together_are_bounded() {
    let mut context = context();
    let (ann, id) = (account_of(&context), filed(&context, message(4_000_000).as_bytes()));
    let administrator = context.clone();
    context.caller = Caller { account: Some(ann.parse().unwrap()), ..Caller::default() };
    let get = |n: usize| {
        json!(["Email/get", {
            "accountId": ann, "ids": [id], "properties": ["bodyValues"], "fetchAllBodyValues": true,
        }, n.to_string()])
    };
    let answers = ask(&context, None, &(0..24).map(get).collect());
    let text = |answer: &Value| {
        answer[1]["list"][0]["bodyValues"]["0"]["value"].as_str().map_or(0, str::len)
    };
    let given: usize = answers.iter().map(text).sum();
    assert!(given > limits::MAX_ANSWER_BYTES / 2 && given < limits::MAX_ANSWER_BYTES, "{given}");
    assert_eq!((&answers[0][0], &answers[23][0]), (&json!("Email/get"), &json!("error")));
    assert_eq!(answers[23][1]["type"], "requestTooLarge");
    // Each answer of Mail/show has 5.3 MB of base64, so 14 of them fit into the 72 MiB of
    // `MAX_ANSWER_BYTES`.
    let show = |n: usize| json!(["Mail/show", {"accountId": ann, "id": id}, n.to_string()]);
    let shown = |context: &Context| {
        let answers = ask(context, None, &(0..24).map(show).collect());
        answers.iter().filter(|answer| answer[0] == "Mail/show").count()
    };
    // An administrator, who uses the control socket, may get larger answers.
    assert_eq!((shown(&context), shown(&administrator)), (14, 24));
}

/// Everyone can be shown the largest message. An administrator can also be shown a list of 10,000
/// long rows, and restore as many of the largest messages.
#[test]
fn largest_answers_of_the_command_line_fit() {
    let largest = usize::try_from(limits::MAX_MESSAGE_BYTES.div_ceil(3) * 4).unwrap() + 100_000;
    assert_eq!(Budget::default().check_answer_room(largest), Ok(()));
    let administrator = Budget::for_administrator();
    assert_eq!(administrator.check_answer_room(limits::MAX_LISTED_ROWS * 100_000), Ok(()));
    assert!(administrator.check_answer_room(2 * limits::MAX_ADMINISTRATOR_ANSWER_BYTES).is_err());
    let restored = limits::MAX_LISTED_ROWS as u64 * limits::MAX_MESSAGE_BYTES;
    assert_eq!(
        (administrator.charge_read(restored), administrator.charge_stored(restored)),
        (Ok(()), Ok(()))
    );
}

/// A list of a vendor method is refused if it is too large, a report of changes never.
#[test]
fn vendor_lists_are_bounded_but_reports_of_changes_are_not() {
    let context = context();
    let ann = account_of(&context);
    letters(&context, 40);
    let answer = |method: &str, more: &Value, max_bytes: usize| {
        let mut arguments = json!({"accountId": ann});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let budget = Budget::with(
            limits::MAX_READ_BYTES_PER_REQUEST,
            limits::MAX_FILED_BYTES_PER_REQUEST,
            max_bytes,
        );
        ask(&context, Some(budget), &json!([[method, arguments, "c"]]))[0].clone()
    };
    let listed = answer("Mail/list", &json!({}), limits::MAX_ANSWER_BYTES);
    let ids: Vec<&Value> =
        listed[1]["list"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
    assert_eq!(ids.len(), 40);
    let destroyed = answer("Mail/destroy", &json!({"ids": ids[..20]}), 0);
    assert_eq!(destroyed[1]["destroyed"].as_object().unwrap().len(), 20, "{destroyed}");
    for method in ["Mail/list", "Mail/query", "Mail/index", "Mail/destroyed", "Mailbox/list"] {
        let rows = answer(method, &json!({}), limits::MAX_ANSWER_BYTES)[1]["list"]
            .as_array()
            .map_or(0, Vec::len);
        assert!(rows > 0, "{method}");
        let refused = answer(method, &json!({}), 300);
        assert_eq!(
            (&refused[0], &refused[1]["type"]),
            (&json!("error"), &json!("requestTooLarge")),
            "{method}"
        );
    }
}

#[test]
fn header_fields_and_parts_count_towards_the_answer() {
    let context = context();
    let ann = account_of(&context);
    let fields =
        "X-Long: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(2000);
    let parts = "--b\r\nContent-Type: text/x\r\n\r\nx\r\n".repeat(500);
    let raw = format!(
        "{fields}Subject: s\r\nFrom: bob@example.net\r\nContent-Type: multipart/mixed; \
            boundary=b\r\n\r\n{parts}--b--\r\n"
    );
    let id = filed(&context, raw.as_bytes());
    let headers: Vec<String> = (0..200).map(|n| format!("header:X-{n}")).collect();
    // Answers of 100,000 bytes are too small for these properties; the given number suffices.
    for (what, fits) in [
        (json!({"properties": ["headers"]}), 3_000_000),
        (json!({"properties": ["header:X-Long:asText:all"]}), 1_000_000),
        (json!({"properties": ["bodyStructure"]}), 2_000_000),
        (json!({"properties": ["bodyStructure"], "bodyProperties": headers}), 50_000_000),
    ] {
        let mut arguments = json!({"accountId": ann, "ids": [id]});
        arguments.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        let kind = |answer: usize| {
            let budget = Budget::with(limits::MAX_READ_BYTES_PER_REQUEST, 0, answer);
            ask(&context, Some(budget), &json!([["Email/get", arguments, "c"]]))[0][0].clone()
        };
        assert_eq!((kind(100_000), kind(fits)), (json!("error"), json!("Email/get")), "{what}");
    }
    // One more than `limits::MAX_HEADER_PROPERTIES`.
    let many: Vec<String> = (0..251).map(|n| format!("header:X-{n}")).collect();
    for what in [
        json!({"properties": many}),
        json!({"bodyProperties": many, "properties": ["bodyStructure"]}),
    ] {
        let mut arguments = json!({"accountId": ann, "ids": [id]});
        arguments.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        assert_eq!(call(&context, "Email/get", &arguments).1["type"], "requestTooLarge");
    }
}

/// The methods that the next test does not try: most read no messages or uploads. Email/query and
/// Email/queryChanges have an allowance of their own for searches. EmailSubmission/set is charged
/// for a header after reading it. Mail/deliver, Sieve/test and Vacation/test get the message in the
/// request.
const NOT_TRIED: &str = "
    Core/echo PushSubscription/get PushSubscription/set Mailbox/get Mailbox/changes Mailbox/query
    Mailbox/queryChanges Mailbox/set Thread/get Thread/changes Email/changes Email/query
    Email/queryChanges Identity/get Identity/changes Identity/set EmailSubmission/get
    EmailSubmission/changes EmailSubmission/query EmailSubmission/queryChanges EmailSubmission/set
    VacationResponse/get VacationResponse/set SieveScript/get SieveScript/query
    ShareNotification/get ShareNotification/changes
    ShareNotification/set ShareNotification/query ShareNotification/queryChanges Principal/get
    Principal/changes Principal/set Principal/query Principal/queryChanges Quota/get Quota/changes
    Quota/query Quota/queryChanges
    Account/add Account/list Account/get Account/set Account/remove Account/alias
    Account/aliasDomain Account/aliasDomains Account/password Account/tokenAdd Account/tokenList
    Account/tokenRemove Mail/list Mail/destroy Mail/destroyed Mail/purge Mail/move Mail/flag
    Mailbox/list Mailbox/add Mailbox/ensure Mailbox/change Mailbox/remove Mail/deliver Mail/index
    Decision/list Told/list Told/forget Vacation/get Vacation/set Vacation/test Vacation/report
    Sieve/put Sieve/get Sieve/list Sieve/activate Sieve/remove Sieve/test Sieve/stats
    Queue/list Queue/retry Queue/hold Queue/release Queue/remove Queue/acceptLoss Store/check
    Store/repair Store/backup Job/get Service/status";

#[test]
fn methods_that_read_messages_are_charged() {
    let context = context();
    // Every email and upload has other bytes, so that each is a blob of its own.
    let (ann, id) = (account_of(&context), filed(&context, message(300_000).as_bytes()));
    let bob = context.directory.find_account("bob@example.org").unwrap().unwrap().0.to_string();
    let asking = "Disposition-Notification-To: bob@example.net\r\n";
    let asking = filed(&context, format!("{asking}{}", message(300_000)).as_bytes());
    let destroyed = filed(&context, message(300_100).as_bytes());
    assert!(
        call(&context, "Mail/destroy",
            &json!({"accountId": ann, "ids": [destroyed]})).1["destroyed"][&destroyed]
            .is_null()
    );
    let identity =
        call(&context, "Identity/get", &json!({"accountId": ann})).1["list"][0]["id"].clone();
    let queued = {
        let raw = message(300_200)
            .replace("Message-ID", "Disposition-Notification-To: bob@example.net\r\nMessage-ID");
        let mut send = mdn(&filed(&context, raw.as_bytes()));
        (send["accountId"], send["identityId"]) = (ann.clone().into(), identity.clone());
        let sent = call(&context, "MDN/send", &send).1;
        assert!(sent["sent"]["k"].is_object(), "{sent}");
        call(&context, "Queue/list", &json!({"accountId": ann})).1["list"][0]["id"].clone()
    };
    let blob = format!("o{}", &id[1..]);
    let upload = |n: usize| {
        let raw = format!("X-N: {n}\r\n{}", message(300_000)).into_bytes();
        context.keep_upload(ann.parse().unwrap(), &raw, "message/rfc822").unwrap().to_string()
    };
    let uploads: Vec<String> = (0..6).map(upload).collect();
    let inbox =
        call(&context, "Mailbox/query", &json!({"accountId": ann, "filter": {"role": "inbox"}})).1
            ["ids"][0]
            .as_str()
            .unwrap()
            .to_owned();
    let others =
        call(&context, "Mailbox/query", &json!({"accountId": bob, "filter": {"role": "inbox"}})).1
            ["ids"][0]
            .as_str()
            .unwrap()
            .to_owned();
    let of = |account: &str, more: Value| {
        let mut arguments = json!({"accountId": account});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let mut sending = of(&ann, mdn(&asking));
    sending["identityId"] = identity;
    let script = |n: usize| {
        let source = format!("# {n}{}\nkeep;\n", "x".repeat(5000));
        context.keep_upload(ann.parse().unwrap(), source.as_bytes(), "text/plain").unwrap()
    };
    let scripts = [script(0).to_string(), script(1).to_string()];
    let calls = [
        ("Email/get", of(&ann, json!({"ids": [id], "properties": ["bodyStructure"]}))),
        ("SieveScript/set", of(&ann, json!({"create": {"k": {"blobId": scripts[0]}}}))),
        ("SieveScript/validate", of(&ann, json!({"blobId": scripts[1]}))),
        ("Email/parse", of(&ann, json!({"blobIds": [uploads[0]]}))),
        ("SearchSnippet/get", of(&ann, json!({"emailIds": [id], "filter": {"body": "quartz"}}))),
        ("Blob/get", of(&ann, json!({"ids": [blob], "properties": ["data"]}))),
        (
            "Blob/get",
            of(&ann, json!({"ids": [format!("{}-0", uploads[1])], "properties": ["size"]})),
        ),
        (
            "Blob/lookup",
            of(&ann, json!({"ids": [format!("{}-0", uploads[1])], "typeNames": ["Email"]})),
        ),
        ("Blob/upload", of(&ann, json!({"create": {"k": {"data": [{"blobId": blob}]}}}))),
        ("Blob/copy", of(&bob, json!({"fromAccountId": ann, "blobIds": [blob]}))),
        ("MDN/parse", of(&ann, json!({"blobIds": [uploads[2]]}))),
        (
            "Email/import",
            of(
                &ann,
                json!({"emails": {"k": {"blobId": uploads[3], "mailboxIds": {&inbox: true}}}}),
            ),
        ),
        (
            "Email/copy",
            of(
                &bob,
                json!({"fromAccountId": ann,
                    "create": {"k": {"id": id, "mailboxIds": {&others: true}}}}),
            ),
        ),
        (
            "Email/set",
            of(
                &ann,
                json!({"create": {"k": {"mailboxIds": {&inbox: true},
                    "attachments": [{"blobId": uploads[4]}]}}}),
            ),
        ),
        ("Email/set", of(&ann, json!({"update": {&id: {"htmlBody": []}}}))),
        ("MDN/send", sending),
        // The script is `keep;` in base64.
        ("Sieve/dryRun", of(&ann, json!({"script": "a2VlcDs="}))),
        ("Sieve/apply", of(&ann, json!({"script": "a2VlcDs="}))),
        ("Mail/show", of(&ann, json!({"id": id}))),
        ("Mail/query", of(&ann, json!({"filter": {"text": "quartz"}, "snippets": true}))),
        ("Mail/restore", of(&ann, json!({"ids": [destroyed]}))),
        ("Queue/show", of(&ann, json!({"id": queued, "withMessage": true}))),
    ];
    // Every method is in one of the two lists.
    let mut known: BTreeSet<&str> = calls.iter().map(|(method, _)| *method).collect();
    known.extend(NOT_TRIED.split_whitespace());
    assert_eq!(known, names().map(|(name, _)| name).collect());
    for (method, arguments) in calls {
        let answer = |read: u64| {
            let budget =
                Budget::with(read, limits::MAX_FILED_BYTES_PER_REQUEST, limits::MAX_ANSWER_BYTES);
            ask(&context, Some(budget), &json!([[method, arguments, "c"]]))[0][1].to_string()
        };
        let (poor, rich) = (answer(1000), answer(limits::MAX_READ_BYTES_PER_REQUEST));
        let is_refused =
            |answer: &str| answer.contains("requestTooLarge") || answer.contains("rateLimit");
        assert!(is_refused(&poor) && !is_refused(&rich), "{method} {arguments}: {poor}");
    }
}

#[test]
fn bytes_stored_by_all_calls_together_are_bounded() {
    let context = context();
    let ann = account_of(&context);
    let upload = |n: usize| {
        json!(["Blob/upload", {
            "accountId": ann, "create": {
                "k": {"data": [{"data:asText": n.to_string().repeat(400)}]}},
        }, n.to_string()])
    };
    // Each upload has 400 bytes, of 1000 in all.
    let budget = Budget::with(limits::MAX_READ_BYTES_PER_REQUEST, 1000, limits::MAX_ANSWER_BYTES);
    let answers = ask(&context, Some(budget), &(0..4).map(upload).collect());
    let made: Vec<bool> =
        answers.iter().map(|answer| answer[1]["created"]["k"].is_object()).collect();
    assert_eq!(made, [true, true, false, false]);
    assert_eq!(answers[3][1]["notCreated"]["k"]["type"], "rateLimit");
}

/// An answer about changes is returned even if it is too large. It uses up the budget, so a later
/// answer that may be refused is refused.
#[test]
fn answers_about_changes_are_returned_whatever_their_size() {
    let context = context();
    let ann = account_of(&context);
    let create: Value =
        (0..50).map(|n| (format!("k{n}"), json!({"name": format!("Box {n}")}))).collect();
    let calls = json!([
        ["Mailbox/set", {"accountId": ann, "create": create}, "0"],
        ["Mailbox/get", {"accountId": ann}, "1"],
        ["Mailbox/set", {"accountId": ann, "create": {"z": {"name": "One more"}}}, "2"],
    ]);
    let answers = ask(&context, Some(Budget::with(0, 0, 2000)), &calls);
    let kinds: Vec<&str> = answers.iter().map(|answer| answer[0].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Mailbox/set", "error", "Mailbox/set"]);
    assert_eq!(answers[0][1]["created"].as_object().unwrap().len(), 50);
}

#[test]
fn many_repeated_properties_and_ids_are_accepted() {
    let context = context();
    let (ann, id) = (account_of(&context), filed(&context, message(1000).as_bytes()));
    let names = |name: &str| Value::from(vec![name; 20_000]);
    let get = json!({"accountId": ann, "ids": [id], "properties": names("subject"),
        "bodyProperties": names("size")});
    assert_eq!(call(&context, "Email/get", &get).1["list"][0], json!({"id": id, "subject": "s"}));
    let blob = format!("o{}", &id[1..]);
    let digests = json!({"accountId": ann, "ids": [blob], "properties": names("digest:sha-512")});
    assert!(call(&context, "Blob/get", &digests).1["list"][0]["digest:sha-512"].is_string());
    let destroy: Vec<String> = (0..20_000).map(|n| format!("m{}", n % 3)).collect();
    assert_eq!(
        call(&context, "Email/set", &json!({"accountId": ann, "destroy": destroy})).0,
        "Email/set"
    );
}

/// A long body is not read whole, however long the header is.
#[test]
fn header_properties_read_only_the_header() {
    let context = context();
    let ann = account_of(&context);
    let long = format!(
        "X-Long: {}\r\n{}",
        "y".repeat(900),
        format!(" {}\r\n", "z".repeat(900)).repeat(400)
    );
    let body = "Sphinx of black quartz, judge my vow.\r\n".repeat(40_000);
    let mut ids = Vec::new();
    for header in ["", &long] {
        let raw =
            format!("{header}X-Last: seen\r\nSubject: s\r\nFrom: bob@example.net\r\n\r\n{body}");
        ids.push(filed(&context, raw.as_bytes()));
    }
    let properties = json!(["header:X-Last", "header:Subject:asText"]);
    let ask = |id: &str, properties: &Value, read: u64| {
        let budget = Budget::with(read, 0, limits::MAX_ANSWER_BYTES);
        let get =
            json!([["Email/get", {"accountId": ann, "ids": [id], "properties": properties}, "c"]]);
        ask(&context, Some(budget), &get)[0].clone()
    };
    // Budgets that suffice for a short header, and for one of 361,000 bytes: a message is read in
    // steps of 128 KiB, until the whole header was read.
    for (id, read) in [(&ids[0], 140_000), (&ids[1], 540_000)] {
        let shown = ask(id, &properties, read);
        assert_eq!(shown[1]["list"][0]["header:X-Last"], " seen", "{shown}");
        assert_eq!(shown[1]["list"][0]["header:Subject:asText"], "s");
        assert_eq!(ask(id, &json!(["headers"]), read)[0], "Email/get");
        // The body alone is larger than the budget.
        assert_eq!(
            ask(id, &json!(["header:X-Last", "textBody"]), read)[1]["type"],
            "requestTooLarge"
        );
    }
    assert_eq!(ask(&ids[1], &properties, 1000)[1]["type"], "requestTooLarge");
}

/// Every email that is read counts. Each lookup reads three, and begins while fewer emails than the
/// bound were read.
#[test]
fn emails_that_blob_lookup_reads_count_towards_the_walks() {
    let context = context();
    let ann = account_of(&context);
    let same = message(100);
    (0..3).for_each(|_| drop(filed(&context, same.as_bytes())));
    let account = ann.parse().unwrap();
    let upload = context.keep_upload(account, same.as_bytes(), "message/rfc822").unwrap();
    let lookup = json!([
        "Blob/lookup",
        {"accountId": ann, "typeNames": ["Email"], "ids": [upload.to_string()]},
        "c",
    ]);
    let answered = |rows: u64| {
        let budget = Budget::with_searches(limits::MAX_SEARCHED_BYTES_PER_REQUEST, rows);
        let answers = ask(&context, Some(budget), &vec![lookup.clone(); 8].into());
        let given = answers.iter().take_while(|answer| answer[0] == "Blob/lookup").count();
        assert!(answers[given..].iter().all(|answer| answer[1]["type"] == "requestTooLarge"));
        given
    };
    assert_eq!((answered(1), answered(3), answered(4), answered(1000)), (1, 1, 2, 8));
}

/// No walk begins after too many rows, but a walk that has begun is finished.
#[test]
fn walks_of_all_calls_together_are_bounded() {
    let context = context();
    let ann = account_of(&context);
    letters(&context, 40);
    let state = call(&context, "Email/query", &json!({"accountId": ann})).1["queryState"].clone();
    letters(&context, 40);
    let of = |more: Value| {
        let mut arguments = json!({"accountId": ann});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let sorted = json!([{"property": "subject"}]);
    let later = of(json!({"sinceQueryState": state, "sort": sorted}));
    // The number of rows that each call reads: the metadata of 80 emails, the rows that the sort or
    // filter needs, and for changes the emails that changed. Each thread has two emails.
    for (method, arguments, rows) in [
        ("Email/query", of(json!({"sort": sorted})), 160),
        ("Email/query", of(json!({"sort": [{"property": "size"}]})), 80),
        ("Email/query", of(json!({"filter": {"someInThreadHaveKeyword": "work"}})), 160),
        ("Email/query", of(json!({"position": 79})), 80),
        ("Email/get", of(json!({"ids": null, "properties": ["id"]})), 80),
        ("Email/queryChanges", later, 200),
    ] {
        let answered = |rows: u64| {
            let budget = Budget::with_searches(limits::MAX_SEARCHED_BYTES_PER_REQUEST, rows);
            let calls: Value = (0..64).map(|n| json!([method, arguments, n.to_string()])).collect();
            let answers = ask(&context, Some(budget), &calls);
            let given = answers.iter().take_while(|answer| answer[0] == method).count();
            assert!(
                answers[given..].iter().all(|answer| answer[1]["type"] == "requestTooLarge"),
                "{answers:?}"
            );
            given
        };
        assert_eq!((answered(1), answered(rows * 10)), (1, 10), "{method} {arguments}");
        assert_eq!(answered(rows * 10 + 1), 11, "{method} {arguments}");
    }
}
