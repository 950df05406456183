//! The requests of the clients meli and aerc, replayed over HTTP against the real service: they
//! list, read, search, file and send.
//!
//! - meli 0.9.0: recorded from a session of meli with this service. Ids, states and the message are
//!   replaced by those of the test.
//! - aerc 0.20: written from its source (`worker/jmap/*.go`, and the JSON of go-jmap's structs),
//!   because this version could not be run. The JSON has exactly the members that Go would write.

use serde_json::{Map, Value, json};

use crate::bed::TestBed;
use crate::http::{Answer, basic, bed, connect, exchange, get};
use crate::mail::{Client, letter};
use crate::push::Events;
use crate::sink::Sink;

/// A client that logged in as Ann, with the data that it fetched.
struct ReplayedClient {
    bed: TestBed,
    sink: Sink,
    session: Value,
    account: String,
    using: Vec<&'static str>,
    /// Mailboxes by role.
    roles: Map<String, Value>,
    /// The ids of Ann's emails, newest first.
    mail: Vec<String>,
}

fn ann() -> String {
    basic("ann@example.org", "s3cret")
}

impl ReplayedClient {
    /// Starts a service with three emails, logs in and fetches the session and the mailboxes.
    /// `using` is sent with each request.
    fn begin(using: &[&'static str]) -> Self {
        let sink = Sink::start();
        let port = sink.address.port();
        let bed = bed(&format!(
            "relay.host = \"127.0.0.1\"\nrelay.port = {port}\nrelay.tls = \"none\"\n"
        ));
        for n in 1..=3 {
            let message = letter(
                "Bob <bob@example.net>",
                "ann@example.org",
                &format!("lunch {n}"),
                &format!("zyzzyva{n}"),
            );
            let replies = Client::lmtp(&bed.lmtp()).unwrap().deliver(
                "bob@example.net",
                &["ann@example.org"],
                &message,
            );
            assert_eq!(replies.unwrap()[0].code, 250);
        }
        let mail = bed.list_mail("ann@example.org").into_iter().map(|one| one.id).collect();
        let session = get(&bed, "/.well-known/jmap", &ann()).json();
        let account =
            session["primaryAccounts"]["urn:ietf:params:jmap:mail"].as_str().unwrap().to_owned();
        let mut replayed =
            Self { bed, sink, session, account, using: using.to_vec(), roles: Map::new(), mail };
        let boxes = replayed.one("Mailbox/get", json!({}));
        let role = |row: &Value| Some((row["role"].as_str()?.to_owned(), row["id"].clone()));
        replayed.roles = boxes["list"].as_array().unwrap().iter().filter_map(role).collect();
        replayed
    }

    fn role(&self, role: &str) -> &str {
        self.roles[role].as_str().unwrap()
    }

    fn post(&self, path: &str, kind: &str, body: &[u8]) -> Answer {
        exchange(
            connect(&self.bed),
            "POST",
            path,
            &[("Authorization", &ann()), ("Content-Type", kind)],
            body,
        )
    }

    /// Sends a request with these calls, and adds the account to each. Returns the arguments of the
    /// responses, and fails if a call failed.
    fn ask(&self, calls: &[(&str, Value)]) -> Vec<Value> {
        let call = |(at, (name, arguments)): (usize, &(&str, Value))| {
            let mut arguments = arguments.clone();
            arguments["accountId"] = self.account.clone().into();
            json!([name, arguments, format!("{at:x}")])
        };
        let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
        let request = json!({"using": self.using, "methodCalls": calls});
        let answer = self.post("/jmap", "application/json", request.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        let answers = answer.json()["methodResponses"].as_array().unwrap().clone();
        for (call, answer) in calls.iter().zip(&answers) {
            assert_eq!(call[0], answer[0], "{call} {answer}");
        }
        answers.into_iter().map(|answer| answer[1].clone()).collect()
    }

    /// Sends a request with one call, and returns the arguments of its response.
    fn one(&self, name: &str, arguments: Value) -> Value {
        self.ask(&[(name, arguments)]).remove(0)
    }

    /// Uploads a message with the content type that both clients use.
    fn upload(&self, raw: &str) -> Value {
        let url = self.session["uploadUrl"].as_str().unwrap().replace("{accountId}", &self.account);
        let path = url.split_once("mail.example.org").unwrap().1;
        let uploaded = self.post(path, "application/json", raw.as_bytes());
        assert_eq!(uploaded.status, 200, "aerc treats any other status as a failure");
        uploaded.json()["blobId"].clone()
    }

    fn download(&self, blob: &Value, name: &str) -> String {
        let url =
            self.session["downloadUrl"].as_str().unwrap().replace("{accountId}", &self.account);
        let url = url.replace("{blobId}", blob.as_str().unwrap()).replace("{name}", name);
        let url = url.replace("{type}", "application/octet-stream");
        let found = get(&self.bed, url.split_once("mail.example.org").unwrap().1, &ann());
        assert_eq!(found.status, 200, "{found:?}");
        String::from_utf8(found.body).unwrap()
    }

    /// The keywords and the mailboxes of an email.
    fn filed(&self, id: &str) -> (Vec<String>, Vec<String>) {
        let shown =
            self.one("Email/get", json!({"ids": [id], "properties": ["keywords", "mailboxIds"]}));
        let names = |of: &str| shown["list"][0][of].as_object().unwrap().keys().cloned().collect();
        (names("keywords"), names("mailboxIds"))
    }

    /// Fails unless the message arrived at the relay without Bcc, and its email `sent` is in Sent
    /// only. Then stops the service.
    fn finish(self, sent: &str) {
        let limit = std::time::Duration::from_secs(60);
        self.bed.wait_until("the message is sent", limit, || !self.sink.messages().is_empty());
        let message = self.sink.messages().remove(0);
        assert_eq!(
            (message.sender.as_str(), message.recipients),
            ("ann@example.org", vec!["bob@example.net".to_owned()])
        );
        assert!(
            message.text.contains("See you at noon.") && !message.text.contains("Bcc"),
            "{}",
            message.text
        );
        assert_eq!(
            self.filed(sent),
            (vec!["$seen".to_owned()], vec![self.role("sent").to_owned()])
        );
        self.bed.finish();
    }
}

/// The message that both clients send.
fn draft() -> String {
    "Date: Sun, 22 Nov 2026 12:00:00 +0000\r\nFrom: Ann <ann@example.org>\r\n\
     To: bob@example.net\r\nCc: \r\nBcc: \r\nSubject: plans\r\n\
     Message-ID: <tox1c1.2wf1kwd199ow5@example.org>\r\nMIME-Version: 1.0\r\n\
     Content-Transfer-Encoding: 8bit\r\n\
     Content-Type: text/plain; charset=\"utf-8\"; format=flowed\r\n\r\n\
     See you at noon.\r\n"
        .into()
}

#[test]
fn meli_can_list_read_search_file_and_send() {
    let core = "urn:ietf:params:jmap:core";
    let meli = ReplayedClient::begin(&[
        core,
        "urn:ietf:params:jmap:mail",
        "urn:ietf:params:jmap:submission",
    ]);
    let identity = meli.one("Identity/get", json!({}))["list"][0]["id"].clone();
    let (inbox, archive, drafts, sent) =
        (meli.role("inbox"), meli.role("archive"), meli.role("drafts"), meli.role("sent"));
    let newest = json!([{"collation": null, "isAscending": false, "property": "receivedAt"}]);
    let page = |position: usize| {
        json!({
            "calculateTotal": false, "collapseThreads": false, "filter": {"inMailbox": inbox},
            "limit": 500, "position": position, "sort": newest,
        })
    };
    let no_values = json!({
        "fetchAllBodyValues": false, "fetchHTMLBodyValues": false, "fetchTextBodyValues": false,
    });
    let with = |more: Value| {
        let mut all = no_values.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let ids_of = |call: &str, name: &str, path: &str| {
        let reference = json!({"name": name, "path": path, "resultOf": call});
        json!({"#ids": reference})
    };
    let get = with(ids_of("0", "Email/query", "/ids"));
    let listed = meli.ask(&[("Email/query", page(0)), ("Email/get", get)]);
    assert_eq!(listed[0]["ids"], json!(meli.mail));
    let email = &listed[1]["list"][2];
    assert_eq!((&email["subject"], &email["preview"]), (&json!("lunch 1"), &json!("zyzzyva1")));
    assert_eq!(meli.one("Email/query", page(500))["ids"], json!([]));

    // The download URLs of meli have an empty name.
    assert!(meli.download(&email["blobId"], "").contains("zyzzyva1"));
    let id = email["id"].as_str().unwrap();
    let mut state = listed[1]["state"].clone();
    for keyword in ["$seen", "$flagged", "work"] {
        let update =
            json!({"ifInState": state, "update": {id: {format!("keywords/{keyword}"): true}}});
        let shown = with(json!({"ids": [id], "properties": ["keywords", "mailboxIds"]}));
        let done = meli.ask(&[("Email/set", update), ("Email/get", shown)]);
        assert_eq!(
            (&done[0]["updated"], &done[1]["list"][0]["keywords"][keyword]),
            (&json!({id: null}), &json!(true))
        );
        state = done[0]["newState"].clone();
    }
    for patch in [
        json!({format!("mailboxIds/{archive}"): true}),
        json!({format!("mailboxIds/{inbox}"): null, format!("mailboxIds/{archive}"): true}),
    ] {
        let done = meli.one("Email/set", json!({"ifInState": state, "update": {id: patch}}));
        assert_eq!(done["updated"], json!({id: null}), "{done}");
        state = done["newState"].clone();
    }
    assert_eq!(meli.filed(id).1, [archive]);
    let changes = [
        ("Mailbox/changes", json!({"sinceState": listed[1]["state"]})),
        ("Mailbox/get", ids_of("0", "Mailbox/changes", "/created")),
        ("Mailbox/get", ids_of("0", "Mailbox/changes", "/updated")),
    ];
    assert_eq!(meli.ask(&changes)[2]["list"].as_array().unwrap().len(), 2);

    let search = json!({
        "calculateTotal": false, "collapseThreads": false, "position": 0, "sort": newest,
        "filter": {"conditions": [{"inMailbox": inbox}, {"body": "zyzzyva2"}], "operator": "AND"},
    });
    assert_eq!(meli.one("Email/query", search)["ids"], json!([meli.mail[1]]));

    let import = |name: &str, mailbox: &str, keywords: Value| {
        let blob = meli.upload(&draft());
        let import = json!({
            "blobId": blob, "keywords": keywords, "mailboxIds": {mailbox: true}, "receivedAt": null,
        });
        meli.one("Email/import", json!({"emails": {name: import}}))
    };
    let made = import("newid", drafts, json!({"$draft": true, "$seen": true}))["created"]["newid"]
        ["id"]
        .clone();
    let submission =
        json!({"emailId": made, "envelope": null, "identityId": identity, "undoStatus": "final"});
    let patch = json!({
        "keywords/$draft": null, format!("mailboxIds/{drafts}"): null,
        format!("mailboxIds/{sent}"): true,
    });
    let set = json!({
        "create": {"k1490": submission}, "onSuccessDestroyEmail": null,
        "onSuccessUpdateEmail": {"#k1490": patch},
    });
    assert!(meli.one("EmailSubmission/set", set)["created"]["k1490"]["id"].is_string());
    // By default, meli then imports the sent message a second time (RFC 8621 §4.8).
    let again = import("1", sent, json!({}))["notCreated"]["1"].clone();
    assert_eq!(again, json!({"type": "alreadyExists", "existingId": made}));
    meli.finish(made.as_str().unwrap());
}

#[test]
fn aerc_can_list_read_search_file_and_send() {
    let mut aerc = ReplayedClient::begin(&["urn:ietf:params:jmap:mail"]);
    // go-jmap lists the capabilities of all calls of a request: identity.Get and
    // emailsubmission.Set need this one.
    aerc.using.push("urn:ietf:params:jmap:submission");
    let identity = aerc.one("Identity/get", json!({}))["list"][0].clone();
    assert_eq!(identity["email"], "ann@example.org");
    // push.EventSource: all types, in a query whose values are escaped.
    let mut events = Events::open(&aerc.bed, &ann(), "closeafter=no&ping=30&types=%2A", None);

    // directories.go lists a folder and reads the threads of its emails.
    let inbox = json!({"inMailbox": aerc.role("inbox")});
    let query = |filter: &Value, sort: Value| json!({"filter": filter, "sort": sort});
    let arrival = json!([{"property": "receivedAt", "isAscending": true}]);
    let listed = aerc.one("Email/query", query(&inbox, arrival.clone()));
    let oldest_first: Vec<&String> = aerc.mail.iter().rev().collect();
    assert_eq!(
        (&listed["ids"], &listed["canCalculateChanges"]),
        (&json!(oldest_first), &json!(true))
    );
    let properties = json!([
        "id",
        "blobId",
        "threadId",
        "mailboxIds",
        "keywords",
        "size",
        "receivedAt",
        "headers",
        "messageId",
        "inReplyTo",
        "references",
        "from",
        "to",
        "cc",
        "bcc",
        "replyTo",
        "subject",
        "bodyStructure",
    ]);
    let parts = json!([
        "blobId",
        "charset",
        "cid",
        "disposition",
        "language",
        "location",
        "name",
        "partId",
        "size",
        "subParts",
        "type",
    ]);
    let get = |ids: Value| {
        let mut get = json!({"properties": properties, "bodyProperties": parts});
        get.as_object_mut().unwrap().extend(ids.as_object().unwrap().clone());
        get
    };
    let fetched = aerc.one("Email/get", get(json!({"ids": listed["ids"]})));
    let (email, state) = (&fetched["list"][0], &fetched["state"]);
    let ids_of = |call: &str, name: &str, path: &str| {
        let reference = json!({"resultOf": call, "name": name, "path": path});
        json!({"#ids": reference})
    };
    let threads = aerc.ask(&[
        ("Thread/get", json!({"ids": [email["threadId"]]})),
        ("Email/get", get(ids_of("0", "Thread/get", "/list/*/emailIds"))),
    ]);
    assert_eq!(&threads[1]["list"][0], email);

    // fetch.go downloads a part, then the whole message, always with the name "filename".
    assert_eq!(aerc.download(&email["bodyStructure"]["blobId"], "filename").trim_end(), "zyzzyva1");
    assert!(aerc.download(&email["blobId"], "filename").contains("Subject: lunch 1\r\n"));

    // search.go sends dates in the zone of the client. Its sort by read has a keyword but no
    // property.
    let search = json!({"operator": "AND", "conditions": [
        {"inMailbox": aerc.role("inbox"), "after": "2026-01-01T00:00:00+01:00", "text": "zyzzyva2"},
        {"notKeyword": "$seen"},
        {"operator": "OR", "conditions": [{"from": "bob"}, {"to": "nobody"}]},
        {"operator": "AND", "conditions": [{"header": ["Subject", "lunch"]}]},
    ]});
    let by_read = json!([{"keyword": "$seen", "isAscending": true}]);
    assert_eq!(aerc.one("Email/query", query(&search, by_read))["ids"], json!([aerc.mail[1]]));

    // set.go sets keywords, copies, moves, and creates a folder with its path as creation id.
    let id = email["id"].as_str().unwrap();
    let set =
        |patch: Value| aerc.one("Email/set", json!({"update": {id: patch}}))["updated"].clone();
    assert_eq!(set(json!({"keywords/$seen": true, "keywords/$answered": true})), json!({id: null}));
    let (archive, trash) = (aerc.role("archive"), aerc.role("trash"));
    assert_eq!(set(json!({format!("mailboxIds/{archive}"): true})), json!({id: null}));
    let inbox_patch = format!("mailboxIds/{}", aerc.role("inbox"));
    let moved = json!({format!("mailboxIds/{trash}"): true, inbox_patch: null});
    assert_eq!(set(moved), json!({id: null}));
    let mut both = vec![archive.to_owned(), trash.to_owned()];
    both.sort();
    assert_eq!(aerc.filed(id), (vec!["$answered".into(), "$seen".into()], both));
    let create =
        json!({"create": {"Archive/Work in 2026": {"name": "Work in 2026", "parentId": archive}}});
    let made = aerc.one("Mailbox/set", create)["created"]["Archive/Work in 2026"]["id"].clone();
    assert!(made.is_string());

    // push.go fetches the changes, with the changed objects by reference.
    let (_, _, change) = events.next().unwrap();
    assert!(change["changed"][&aerc.account].get("Email").is_some(), "{change}");
    let changed = aerc.ask(&[
        ("Mailbox/changes", json!({"sinceState": state})),
        ("Mailbox/get", ids_of("0", "Mailbox/changes", "/created")),
        ("Mailbox/get", ids_of("0", "Mailbox/changes", "/updated")),
        ("Email/changes", json!({"sinceState": state})),
        ("Email/get", get(ids_of("3", "Email/changes", "/updated"))),
        ("Email/get", get(ids_of("3", "Email/changes", "/created"))),
    ]);
    assert_eq!((&changed[1]["list"][0]["id"], &changed[4]["list"][0]["id"]), (&made, &json!(id)));
    let since = json!({"filter": inbox, "sort": arrival, "sinceQueryState": listed["queryState"]});
    assert_eq!(aerc.one("Email/queryChanges", since)["removed"], json!([id]));

    // set.go appends a message, here the draft with another Message-ID. send.go imports a draft and
    // submits it in the same request, with the members of go-jmap's structs: `mailfrom`, and a time
    // that Go cannot omit.
    let into =
        json!({"blobId": aerc.upload(&draft().replace("tox", "x")), "mailboxIds": {archive: true}});
    assert!(
        aerc.one("Email/import", json!({"emails": {"aerc": into}}))["created"]["aerc"]["id"]
            .is_string()
    );
    let (drafts, sent) = (aerc.role("drafts"), aerc.role("sent"));
    let keywords = json!({"$draft": true, "$seen": true});
    let blob = aerc.upload(&draft());
    let import = json!({"blobId": blob, "mailboxIds": {drafts: true}, "keywords": keywords});
    let envelope =
        json!({"mailfrom": {"email": "ann@example.org"}, "rcptTo": [{"email": "bob@example.net"}]});
    let submission = json!({
        "identityId": identity["id"], "emailId": "#aerc", "envelope": envelope,
        "sendAt": "0001-01-01T00:00:00Z",
    });
    let patch = json!({
        "keywords/$draft": null, format!("mailboxIds/{sent}"): true,
        format!("mailboxIds/{drafts}"): null,
    });
    let done = aerc.ask(&[
        ("Email/import", json!({"emails": {"aerc": import}})),
        (
            "EmailSubmission/set",
            json!({"create": {"sub": submission}, "onSuccessUpdateEmail": {"#sub": patch}}),
        ),
    ]);
    assert!(done[1]["created"]["sub"]["id"].is_string(), "{done:?}");
    let made = done[0]["created"]["aerc"]["id"].as_str().unwrap();
    aerc.finish(made);
}
