//! Tests of requests: whose account a call may use, errors of calls, and references.

use super::*;

#[test]
fn method_without_account_uses_the_account_of_the_caller() {
    let mut context = context();
    assert_eq!(error(&context, "Account/get", &json!({})), "invalidArguments");
    context.caller = Caller { user: Some("ann".into()), ..Caller::default() };
    assert_eq!(call(&context, "Account/get", &json!({})).1["address"], "ann@example.org");
    let both = json!({"account": "ann@example.org", "accountId": "a1"});
    assert_eq!(error(&context, "Account/get", &both), "invalidArguments");
    let second = NewAccount {
        unix_user: Some("ann".into()),
        ..NewAccount::at(Address::parse("desk@example.org").unwrap())
    };
    context.directory.add(&second).unwrap();
    assert_eq!(error(&context, "Vacation/get", &json!({})), "invalidArguments");
    for user in [None, Some("eve".to_owned())] {
        context.caller = Caller { user, ..Caller::default() };
        assert_eq!(error(&context, "Vacation/get", &json!({})), "invalidArguments");
    }
}

#[test]
fn unix_user_manages_only_the_own_account() {
    let mut context = context();
    context.caller = Caller { user: Some("ann".into()), ..Caller::default() };
    assert_eq!(
        call(&context, "Account/get", &json!({"account": "ann@example.org"})).1["unixUser"],
        "ann"
    );
    assert_eq!(error(&context, "Account/get", &json!({"account": "bob@example.org"})), "forbidden");
    assert_eq!(
        error(&context, "Account/get", &json!({"account": "nobody@example.org"})),
        "forbidden"
    );
    for method in [
        "Account/list",
        "Account/add",
        "Store/check",
        "Store/repair",
        "Store/backup",
        "Job/get",
        "Queue/list",
    ] {
        assert_eq!(
            error(&context, method, &json!({"address": "x@example.org"})),
            "forbidden",
            "{method}"
        );
    }
    // A caller of whom nothing is known.
    context.caller = Caller::default();
    assert_eq!(error(&context, "Account/get", &json!({"account": "bob@example.org"})), "forbidden");
}

#[test]
fn logged_in_account_reaches_only_itself_and_is_no_administrator() {
    let mut context = context();
    let ann = context.directory.find_account("ann@example.org").unwrap().unwrap().0;
    context.caller = Caller { account: Some(ann), ..Caller::default() };
    for arguments in
        [json!({}), json!({"account": "ann@example.org"}), json!({"accountId": ann.to_string()})]
    {
        assert_eq!(call(&context, "Account/get", &arguments).1["id"], ann.to_string());
    }
    // The error does not reveal whether another account exists.
    for other in ["bob@example.org", "nobody@example.org", "0"] {
        assert_eq!(
            error(&context, "Account/get", &json!({"account": other})),
            "accountNotFound",
            "{other}"
        );
    }
    for method in ["Account/list", "Account/add", "Store/check", "Job/get", "Queue/list"] {
        assert_eq!(
            error(&context, method, &json!({"address": "x@example.org"})),
            "forbidden",
            "{method}"
        );
    }
}

#[test]
fn invalid_call_gets_its_error_type() {
    let context = context();
    assert_eq!(error(&context, "No/such", &json!({})), "unknownMethod");
    assert_eq!(error(&context, "Mail/list", &json!({})), "invalidArguments");
    assert_eq!(error(&context, "Mail/list", &json!({"accountId": "zzz"})), "accountNotFound");
    for method in ["Mail/list", "Decision/list"] {
        let too_many = json!({"account": "ann@example.org", "limit": 10_001});
        assert_eq!(error(&context, method, &too_many), "invalidArguments");
    }
    assert_eq!(
        error(&context, "Mail/list", &json!({"account": "ann@example.org", "mailbox": "nowhere"})),
        "notFound"
    );
    assert_eq!(error(&context, "Account/add", &json!({"address": "ann@example.org"})), "conflict");
    assert_eq!(error(&context, "Account/add", &json!({"address": "x y"})), "invalidArguments");
    assert_eq!(
        error(&context, "Queue/remove", &json!({"account": "ann@example.org", "id": "q0"})),
        "notFound"
    );
    let ann = account_of(&context);
    let stale =
        json!({"accountId": ann, "ifInState": "0-0", "update": {"singleton": {"isEnabled": true}}});
    assert_eq!(error(&context, "VacationResponse/set", &stale), "stateMismatch");
    let (_, now) = call(&context, "VacationResponse/get", &json!({"accountId": ann}));
    assert_eq!(now["list"][0]["isEnabled"], false);
    // A method of a capability that the request does not use is unknown.
    let request =
        json!({"using": ["urn:ietf:params:jmap:core"], "methodCalls": [["Store/check", {}, "0"]]});
    let request = parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
    assert_eq!(
        run(&context, request).unwrap().json()["methodResponses"][0][1]["type"],
        "unknownMethod"
    );
    assert_eq!(
        call(&context, "Mail/list", &json!({"account": "ann@example.org"})).1["list"],
        json!([])
    );
}

#[test]
fn creation_id_resolves_in_later_calls_and_requests() {
    let context = context();
    let ann = account_of(&context);
    let ask = |calls: Value, known: Value| {
        let request = json!({"using": CAPABILITIES, "methodCalls": calls, "createdIds": known});
        run(&context, parse(request.to_string().as_bytes(), CAPABILITIES).unwrap()).unwrap().json()
    };
    let made = ask(
        json!([
            ["Mailbox/set", {"accountId": ann, "create": {"a": {"name": "A"}}}, "0"],
            ["Mailbox/set", {"accountId": ann, "create": {"b": {"name": "B", "parentId": "#a"}}},
                "1"],
            ["Mailbox/get", {"accountId": ann, "ids": ["#a", "#none", "#b"],
                "properties": ["parentId"]}, "2"],
            ["Mailbox/set", {"accountId": ann, "update": {"#b": {"name": "C"}},
                "destroy": ["#none"]}, "3"],
        ]),
        json!({}),
    );
    let (a, b) = (made["createdIds"]["a"].clone(), made["createdIds"]["b"].clone());
    assert_eq!(
        made["methodResponses"][2][1]["list"],
        json!([{"id": a, "parentId": null}, {"id": b, "parentId": a}])
    );
    assert_eq!(made["methodResponses"][2][1]["notFound"], json!(["#none"]));
    assert_eq!(made["methodResponses"][3][1]["updated"], json!({b.as_str().unwrap(): null}));
    assert_eq!(
        made["methodResponses"][3][1]["notDestroyed"],
        json!({"#none": {"type": "notFound"}})
    );
    // A name in `createdIds` of the request stands for its id, too. The child `b` is destroyed
    // before its parent.
    let known = json!({"x": a});
    let gone = ask(
        json!([["Mailbox/set", {"accountId": ann, "destroy": ["#x", b, "#x"]}, "0"]]),
        known.clone(),
    );
    assert_eq!(gone["methodResponses"][0][1]["destroyed"], json!([b, a]));
    assert_eq!(gone["createdIds"], known);
}

#[test]
fn result_reference_reads_an_earlier_answer() {
    let context = context();
    let request = json!({"using": CAPABILITIES, "methodCalls": [
        ["Account/get", {"account": "bob@example.org"}, "0"],
        ["VacationResponse/get",
            {"#accountId": {"resultOf": "0", "name": "Account/get", "path": "/id"}}, "1"],
        ["VacationResponse/get",
            {"#accountId": {"resultOf": "9", "name": "Account/get", "path": "/id"}}, "2"],
    ]});
    let answer =
        run(&context, parse(request.to_string().as_bytes(), CAPABILITIES).unwrap()).unwrap().json();
    assert_eq!(answer["methodResponses"][1][1]["list"][0]["id"], "singleton");
    assert_eq!(answer["methodResponses"][2][1]["type"], "invalidResultReference");
}
