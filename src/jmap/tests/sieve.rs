//! Tests of JMAP for Sieve scripts (RFC 9661).

use std::sync::Arc;

use serde_json::{Value, json};

use super::{account_of, call, context, error};
use crate::jmap::{CAPABILITIES, Context, run};
use crate::model::AccountId;
use crate::wire::jmap::parse;
use crate::{filter, store};

mod access;
mod names;

const KEEP: &str = "keep;\r\n";

struct Fixture {
    context: Context,
    ann: String,
}

impl Fixture {
    fn new() -> Self {
        Self::with(filter::Settings::default())
    }

    fn with(settings: filter::Settings) -> Self {
        let context = Context { filter: Arc::new(settings), ..context() };
        let ann = account_of(&context);
        Self { context, ann }
    }

    fn account(&self) -> AccountId {
        self.ann.parse().unwrap()
    }

    /// Calls a method for Ann's account, which must succeed. Returns the arguments of the response.
    fn ask(&self, name: &str, mut arguments: Value) -> Value {
        arguments["accountId"] = self.ann.clone().into();
        let (kind, answer) = call(&self.context, name, &arguments);
        assert_eq!(kind, name, "{answer}");
        answer
    }

    /// Calls a method for Ann's account, which must fail. Returns the type of the error.
    fn fails(&self, name: &str, mut arguments: Value) -> String {
        arguments["accountId"] = self.ann.clone().into();
        error(&self.context, name, &arguments)
    }

    /// Runs several calls as one request, and returns the arguments of the responses.
    fn request(&self, calls: &[(&str, Value)]) -> Vec<Value> {
        let of_ann = |(at, (name, arguments)): (usize, &(&str, Value))| {
            let mut arguments = arguments.clone();
            arguments["accountId"] = self.ann.clone().into();
            json!([name, arguments, at.to_string()])
        };
        let calls: Vec<Value> = calls.iter().enumerate().map(of_ann).collect();
        let request = json!({"using": CAPABILITIES, "methodCalls": calls}).to_string();
        let request = parse(request.as_bytes(), CAPABILITIES).unwrap();
        let answer = run(&self.context, request).unwrap().json();
        let responses = answer["methodResponses"].as_array().unwrap();
        responses.iter().map(|response| response[1].clone()).collect()
    }

    fn set(&self, arguments: Value) -> Value {
        self.ask("SieveScript/set", arguments)
    }

    fn get(&self) -> Value {
        self.ask("SieveScript/get", json!({"ids": null}))
    }

    /// Returns the names of all scripts, sorted, and of the active one.
    fn names(&self) -> (Vec<String>, Option<String>) {
        let list = self.get()["list"].as_array().unwrap().clone();
        let name = |one: &Value| one["name"].as_str().unwrap().to_owned();
        let mut names: Vec<String> = list.iter().map(name).collect();
        names.sort_unstable();
        (names, list.iter().find(|one| one["isActive"] == true).map(name))
    }

    fn upload(&self, source: impl AsRef<[u8]>) -> String {
        let stored = self.context.keep_upload(self.account(), source.as_ref(), "text/plain");
        stored.unwrap().to_string()
    }

    /// Stores a script without an upload and without a check.
    fn store(&self, name: &str, source: &str) -> String {
        let commit = |txn: &mut store::Txn<'_>| txn.create_script(name, source.as_bytes());
        let (id, ticket) = self.context.store.commit(self.account(), commit).unwrap();
        ticket.wait_blocking().unwrap();
        id.to_string()
    }

    fn blob_id(&self, id: &str) -> String {
        let got = self.ask("SieveScript/get", json!({"ids": [id]}));
        got["list"][0]["blobId"].as_str().unwrap().to_owned()
    }

    /// Returns the text of a blob.
    fn data(&self, blob: &str) -> Value {
        let got = self.ask("Blob/get", json!({"ids": [blob], "properties": ["data:asText"]}));
        got["list"][0]["data:asText"].clone()
    }
}

/// Returns the id of the object that was created as `name`.
fn id_of(answer: &Value, name: &str) -> String {
    answer["created"][name]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn script_is_created_and_activated_by_one_call_and_replaced_by_the_next() {
    let bed = Fixture::new();
    let before = bed.get();
    assert_eq!((&before["list"], &before["notFound"]), (&json!([]), &json!([])));
    let upload = json!({"create": {"b": {"data": [{"data:asText": KEEP}]}}});
    let create = json!({
        "create": {"s": {"name": "first", "blobId": "#b"}},
        "onSuccessActivateScript": "#s",
    });
    let answers = bed.request(&[("Blob/upload", upload), ("SieveScript/set", create)]);
    let (blob, made) = (&answers[0]["created"]["b"]["id"], &answers[1]);
    let first = id_of(made, "s");
    // The id of the blob is returned because the client wrote a creation id.
    assert_eq!(
        made["created"]["s"],
        json!({"id": first, "isActive": true, "blobId": blob}),
        "{made}"
    );
    assert_eq!((&made["oldState"], &made["updated"]), (&before["state"], &Value::Null));
    let now = bed.get();
    assert_eq!(now["state"], made["newState"]);
    assert_eq!(
        now["list"],
        json!([{
            "id": first, "name": "first", "blobId": blob, "isActive": true, "lastErrors": [],
        }])
    );

    // RFC 9661 §2.4: the other script is active before the former one is destroyed.
    let other = bed.upload("discard;\r\n");
    let replace = json!({
        "create": {"t": {"name": "second", "blobId": other}},
        "onSuccessActivateScript": "#t",
    });
    let all = json!({"filter": {"isActive": false}});
    let destroy =
        json!({"#destroy": {"resultOf": "1", "name": "SieveScript/query", "path": "/ids"}});
    let answers = bed.request(&[
        ("SieveScript/set", replace),
        ("SieveScript/query", all),
        ("SieveScript/set", destroy),
    ]);
    let second = id_of(&answers[0], "t");
    assert_eq!(answers[0]["created"]["t"], json!({"id": second, "isActive": true}));
    assert_eq!(answers[0]["updated"], json!({&first: {"isActive": false}}));
    assert_eq!(answers[2]["destroyed"], json!([first]), "{answers:?}");
    assert_eq!(bed.names(), (vec!["second".into()], Some("second".into())));
    let got = bed.ask("SieveScript/get", json!({"ids": [first, second], "properties": ["name"]}));
    assert_eq!(got["list"], json!([{"id": second, "name": "second"}]));
    assert_eq!(got["notFound"], json!([first]));
}

#[test]
fn refused_script_gets_its_error_and_changes_nothing() {
    let bed = Fixture::with(filter::Settings {
        max_scripts: 3,
        max_script_bytes: 64,
        ..filter::Settings::default()
    });
    let (keep, bad) = (bed.upload(KEEP), bed.upload("keeep;\nrequire \"nothing\";\n"));
    // 65 bytes, one too many.
    let large = bed.upload(format!("#{}\n", "x".repeat(63)));
    let taken = bed.store("taken", KEEP);
    let state = bed.get()["state"].clone();
    let refused = bed.set(json!({
        "create": {
            "bad": {"name": "bad", "blobId": bad},
        },
        "update": {&taken: {"blobId": large}, "i0": {"name": "x"}, "?": {}},
        "destroy": ["i1"],
        "onSuccessActivateScript": taken,
    }));
    let error = &refused["notCreated"]["bad"];
    assert_eq!(error["type"], "invalidSieve");
    // The description has all errors of the script with their places.
    let description = error["description"].as_str().unwrap();
    let lines: Vec<&str> = description.split('\n').collect();
    assert!(
        lines[0].starts_with("line 1, column 1: error: ")
            && lines.iter().any(|line| line.starts_with("line 2, column 1: error: ")),
        "{description}"
    );
    assert_eq!(refused["notUpdated"][&taken]["type"], "tooLarge");
    for id in ["i0", "?"] {
        assert_eq!(refused["notUpdated"][id]["type"], "notFound");
    }
    assert_eq!(refused["notDestroyed"]["i1"]["type"], "notFound");
    assert_eq!((&refused["oldState"], &refused["newState"]), (&state, &state));
    assert_eq!(bed.names(), (vec!["taken".into()], None));

    for (given, kind) in [
        (json!({"name": "taken", "blobId": keep}), "alreadyExists"),
        (json!({"name": "x", "blobId": "bAAAA"}), "blobNotFound"),
        (json!({"name": "x", "blobId": "#none"}), "blobNotFound"),
        (json!({"name": "x"}), "invalidProperties"),
        (json!({"name": "x", "blobId": null}), "invalidProperties"),
        (json!({"name": "x", "blobId": 7}), "invalidProperties"),
        (json!({"name": "", "blobId": keep}), "invalidProperties"),
        (json!({"name": 7, "blobId": keep}), "invalidProperties"),
        (json!({"name": "a\u{7f}", "blobId": keep}), "invalidProperties"),
        (json!({"name": "a\u{2028}b", "blobId": keep}), "invalidProperties"),
        (json!({"name": "ü".repeat(129), "blobId": keep}), "invalidProperties"),
        (json!({"name": "x", "blobId": keep, "isActive": true}), "invalidProperties"),
        (json!({"name": "x", "blobId": keep, "id": "i9"}), "invalidProperties"),
        (json!({"name": "x", "blobId": keep, "lastErrors": []}), "invalidProperties"),
        (json!({"name": "x", "blobId": keep, "content": KEEP}), "invalidProperties"),
    ] {
        let refused = bed.set(json!({"create": {"k": given}}));
        let error = &refused["notCreated"]["k"];
        assert_eq!(error["type"], kind, "{given}: {refused}");
        if kind == "alreadyExists" {
            assert_eq!(error["existingId"], taken);
        }
        if kind == "blobNotFound" {
            assert_eq!(error["notFound"], json!([given["blobId"]]));
        }
    }
    // With `taken`, two more scripts are allowed.
    let made = bed.set(json!({"create": {
        "1": {"name": "one", "blobId": keep},
        "2": {"name": "one", "blobId": keep},
        "3": {"name": "two", "blobId": keep},
        "4": {"name": "four", "blobId": keep},
    }}));
    assert_eq!(made["notCreated"]["2"]["type"], "alreadyExists");
    assert_eq!(made["notCreated"]["4"]["type"], "overQuota", "{made}");
    assert_eq!(bed.names().0, ["one", "taken", "two"]);
    let made = bed.set(json!({"create": {"5": {"name": "five", "blobId": keep}}}));
    assert_eq!(made["notCreated"]["5"]["type"], "overQuota");
    assert_eq!(bed.fails("SieveScript/set", json!({"ifInState": "0-0"})), "stateMismatch");
}

#[test]
fn activation_follows_only_if_everything_succeeds() {
    let bed = Fixture::new();
    let (one, two) = (bed.store("one", KEEP), bed.store("two", "stop;"));
    let activate = |id: &str| bed.set(json!({"onSuccessActivateScript": id}));
    let active = || bed.names().1;
    let done = activate(&one);
    assert_eq!(done["updated"], json!({&one: {"isActive": true}}));
    assert_ne!(done["oldState"], done["newState"]);
    assert_eq!(bed.get()["state"], done["newState"]);
    // If the script is active already, nothing changes. An id of no script is ignored.
    for id in [one.as_str(), "i0", "#none", "", "?"] {
        let done = activate(id);
        assert_eq!((&done["updated"], &done["oldState"]), (&Value::Null, &done["newState"]));
        assert_eq!(active().as_deref(), Some("one"), "{id}");
    }
    let refused = bed.set(json!({
        "create": {"x": {"blobId": "b"}},
        "onSuccessActivateScript": two,
        "onSuccessDeactivateScript": true,
    }));
    assert_eq!((&refused["updated"], active().as_deref()), (&Value::Null, Some("one")));
    // The active script cannot be destroyed, even if another one is to be activated.
    let refused = bed.set(json!({"destroy": [one], "onSuccessActivateScript": two}));
    assert_eq!(refused["notDestroyed"][&one]["type"], "sieveIsActive", "{refused}");
    assert_eq!((&refused["destroyed"], active().as_deref()), (&Value::Null, Some("one")));

    // A patch and an activation of one script are one entry.
    let rename = json!({"update": {&two: {"name": "zwo"}}, "onSuccessActivateScript": two});
    let done = bed.set(rename);
    assert_eq!(
        done["updated"],
        json!({&one: {"isActive": false}, &two: {"isActive": true}}),
        "{done}"
    );
    assert_eq!(active().as_deref(), Some("zwo"));
    // Deactivation comes before activation.
    let both = json!({"onSuccessDeactivateScript": true, "onSuccessActivateScript": one});
    assert_eq!(bed.set(both)["updated"][&one], json!({"isActive": true}));
    assert_eq!(active().as_deref(), Some("one"));
    assert_eq!(bed.set(json!({"onSuccessDeactivateScript": false}))["updated"], Value::Null);
    let done = bed.set(json!({"destroy": [two], "onSuccessDeactivateScript": true}));
    assert_eq!(done["updated"], json!({&one: {"isActive": false}}));
    assert_eq!((&done["destroyed"], active()), (&json!([two]), None));
    // What a call destroys, it cannot activate.
    let done = bed.set(json!({"destroy": [one], "onSuccessActivateScript": one}));
    assert_eq!((&done["destroyed"], &done["updated"]), (&json!([one]), &Value::Null));
}

#[test]
fn query_filters_and_sorts_by_name_and_activity() {
    let bed = Fixture::new();
    let ids = ["beta", "Alpha", "gamma", "alphabet"].map(|name| bed.store(name, KEEP));
    let [beta, alpha, gamma, alphabet] = &ids;
    bed.set(json!({"onSuccessActivateScript": gamma}));
    let query = |arguments: Value| bed.ask("SieveScript/query", arguments);
    let by_name = json!([{"property": "name", "collation": "i;ascii-casemap"}]);
    let found = query(json!({"sort": by_name, "calculateTotal": true}));
    assert_eq!(found["ids"], json!([alpha, alphabet, beta, gamma]));
    assert_eq!((&found["total"], &found["canCalculateChanges"]), (&json!(4), &json!(false)));
    assert_eq!(found["queryState"], bed.get()["state"]);
    let first_active = json!([{"property": "isActive", "isAscending": false}]);
    assert_eq!(query(json!({"sort": first_active}))["ids"], json!([gamma, beta, alpha, alphabet]));
    for (filter, wanted) in [
        (json!({"name": "ALPHA"}), json!([alpha, alphabet])),
        (json!({"isActive": true}), json!([gamma])),
        (json!({"isActive": false, "name": "bet"}), json!([alphabet, beta])),
        (
            json!({"operator": "OR", "conditions": [{"isActive": true}, {"name": "lphab"}]}),
            json!([alphabet, gamma]),
        ),
        (json!({"operator": "NOT", "conditions": [{"name": "a"}]}), json!([])),
    ] {
        assert_eq!(query(json!({"filter": filter, "sort": by_name}))["ids"], wanted, "{filter}");
    }
    let section = json!({"sort": by_name, "anchor": beta, "anchorOffset": -1, "limit": 2});
    assert_eq!(query(section)["ids"], json!([alphabet, beta]));
    for (arguments, kind) in [
        (json!({"filter": {"blobId": "x"}}), "unsupportedFilter"),
        (json!({"filter": {"isActive": "yes"}}), "invalidArguments"),
        (json!({"sort": [{"property": "size"}]}), "unsupportedSort"),
        (json!({"anchor": "i0"}), "anchorNotFound"),
    ] {
        assert_eq!(bed.fails("SieveScript/query", arguments), kind);
    }
    for method in ["SieveScript/changes", "SieveScript/queryChanges"] {
        assert_eq!(bed.fails(method, json!({})), "unknownMethod");
    }
}

#[test]
fn validate_says_what_is_wrong_and_stores_nothing() {
    let bed = Fixture::with(filter::Settings { max_script_bytes: 64, ..Default::default() });
    let validate = |blob: &str| {
        let answer = bed.ask("SieveScript/validate", json!({"blobId": blob}));
        assert_eq!(answer["accountId"], bed.ann);
        answer["error"].clone()
    };
    assert_eq!(validate(&bed.upload(KEEP)), Value::Null);
    // A warning is no error.
    assert_eq!(validate(&bed.upload("require \"fileinto\"; keep;")), Value::Null);
    let error = validate(&bed.upload("fileinto \"x\";\nif true {"));
    assert_eq!(error["type"], "invalidSieve");
    assert!(error["description"].as_str().unwrap().contains("line 2, column "), "{error}");
    // What the site cannot do is an error, too.
    assert_eq!(validate(&bed.upload("require \"spamtest\";"))["type"], "invalidSieve");
    assert_eq!(validate(&bed.upload(" ".repeat(65)))["type"], "tooLarge");
    assert_eq!(validate("bx")["type"], "blobNotFound");
    // The blob of a stored script can be checked again.
    assert_eq!(validate(&bed.blob_id(&bed.store("s", "stop;"))), Value::Null);
    assert_eq!(bed.names().0, ["s"]);
    assert_eq!(bed.fails("SieveScript/validate", json!({})), "invalidArguments");
}

/// RFC 9661 §2.2.
#[test]
fn script_is_text_of_at_least_one_character() {
    let bed = Fixture::new();
    for source in [&b""[..], b"# \xff\nkeep;"] {
        let blob = bed.upload(source);
        let error = &bed.ask("SieveScript/validate", json!({"blobId": blob}))["error"];
        assert_eq!(error["type"], "invalidSieve");
        assert!(error["description"].as_str().unwrap().contains("line 1"), "{error}");
        let refused = bed.set(json!({"create": {"k": {"name": "x", "blobId": blob}}}));
        assert_eq!(refused["notCreated"]["k"]["type"], "invalidSieve");
    }
    assert!(bed.names().0.is_empty());
}

/// The command `sieve put` keeps the rule of the clients (RFC 9661 §2.2, RFC 5804 §2.6).
#[test]
fn vendor_method_stores_no_empty_script() {
    let context = context();
    let ann = account_of(&context);
    let put = |source: &str| json!({"accountId": ann, "name": "main", "source": source});
    // The script is `keep;` in base64.
    assert_eq!(call(&context, "Sieve/put", &put("a2VlcDs=")).1["isStored"], true);
    assert_eq!(error(&context, "Sieve/put", &put("")), "invalidArguments");
    let stored = call(&context, "Sieve/get", &json!({"accountId": ann, "name": "main"})).1;
    assert_eq!(stored["source"], "a2VlcDs=");
}

/// Only an import stores a script with errors. Here it is put into the store directly.
#[test]
fn stored_script_with_errors_cannot_be_activated() {
    let context = context();
    let ann = account_of(&context);
    let committed = context.store.commit(ann.parse().unwrap(), |txn| {
        txn.create_script("old", b"keeep;").map(|id| id.to_string())
    });
    let (id, ticket) = committed.unwrap();
    ticket.wait_blocking().unwrap();
    let set = json!({"accountId": ann, "onSuccessActivateScript": id});
    assert_eq!(call(&context, "SieveScript/set", &set).1["updated"], json!(null));
    let got = call(&context, "SieveScript/get", &json!({"accountId": ann, "ids": [id]})).1;
    assert_eq!(got["list"][0]["isActive"], false);
    let activated = call(&context, "Sieve/activate", &json!({"accountId": ann, "name": "old"}));
    assert_eq!(activated.0, "error");
    assert!(activated.1["description"].as_str().unwrap().contains("line 1"), "{activated:?}");
}

/// RFC 9661 §2.4: the script is activated after the other changes of the call.
#[test]
fn stored_script_with_errors_is_replaced_and_activated_by_one_call() {
    let bed = Fixture::new();
    let (old, keep) = (bed.store("old", "keeep;"), bed.upload(KEEP));
    let renamed = json!({"update": {&old: {"name": "new"}}, "onSuccessActivateScript": old});
    assert_eq!(bed.set(renamed)["updated"], json!({&old: null}));
    assert_eq!(bed.names().1, None);
    let update = json!({"update": {&old: {"blobId": keep}}, "onSuccessActivateScript": old});
    let done = bed.set(update);
    assert_eq!(done["updated"], json!({&old: {"isActive": true}}), "{done}");
    assert_eq!(bed.names().1.as_deref(), Some("new"));
}
