//! Mailboxes that an owner shares with a guest (RFC 9670, RFC 8621 §2 `MailboxRights`).

use serde_json::{Map, Value, json};

use super::{call, context, error, filed};
use crate::jmap::{CAPABILITIES, Caller, Context, run, session};
use crate::model::AccountId;
use crate::wire::jmap::parse;

const RIGHTS: [&str; 9] = [
    "mayReadItems",
    "mayAddItems",
    "mayRemoveItems",
    "maySetSeen",
    "maySetKeywords",
    "mayCreateChild",
    "mayRename",
    "mayDelete",
    "maySubmit",
];

mod damage;
mod people;
mod rights;
mod threads;
mod twin_tests;

pub(super) struct SharingFixture {
    pub(super) context: Context,
    pub(super) ann: String,
    pub(super) bob: String,
    /// Ann's mailboxes: Inbox, and Work with the child Plans.
    pub(super) inbox: String,
    pub(super) work: String,
    pub(super) plans: String,
    /// One email in the Inbox, one in Plans, and one in both.
    pub(super) emails: [String; 3],
}

impl SharingFixture {
    pub(super) fn new() -> Self {
        Self::over(context())
    }

    pub(super) fn over(context: Context) -> Self {
        let (ann, emails) = filed(&context, &["alone", "planned", "twofold"]);
        let bob = context.directory.find_account("bob@example.org").unwrap().unwrap().0.to_string();
        let boxes =
            call(&context, "Mailbox/get", &json!({"accountId": ann, "properties": ["role"]})).1;
        let boxes = boxes["list"].as_array().unwrap().clone();
        let inbox = boxes.iter().find(|one| one["role"] == "inbox").unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let create = json!({"w": {"name": "Work"}, "p": {"name": "Plans", "parentId": "#w"}});
        let made = call(&context, "Mailbox/set", &json!({"accountId": ann, "create": create})).1;
        let id = |name: &str| made["created"][name]["id"].as_str().unwrap().to_owned();
        let (work, plans) = (id("w"), id("p"));
        let update = json!({
            &emails[1]: {"mailboxIds": {&plans: true}},
            &emails[2]: {format!("mailboxIds/{plans}"): true},
        });
        call(&context, "Email/set", &json!({"accountId": ann, "update": update}));
        let emails = <[String; 3]>::try_from(emails).unwrap();
        Self { context, ann, bob, inbox, work, plans, emails }
    }

    /// Returns the context of a user who logged in to the account `who`, to call methods with.
    pub(super) fn asks(&self, who: &str) -> Context {
        let account: AccountId = who.parse().unwrap();
        Context {
            caller: Caller { account: Some(account), ..Caller::default() },
            ..self.context.clone()
        }
    }

    /// Calls a method for Ann's account as Bob.
    fn bob(&self, name: &str, mut arguments: Value) -> Value {
        arguments["accountId"] = self.ann.clone().into();
        let (kind, answer) = call(&self.asks(&self.bob), name, &arguments);
        assert_eq!(kind, name, "{answer}");
        answer
    }

    /// Calls a method for Ann's account as Bob, which must fail. Returns the type of the error.
    fn bob_fails(&self, name: &str, mut arguments: Value) -> String {
        arguments["accountId"] = self.ann.clone().into();
        error(&self.asks(&self.bob), name, &arguments)
    }

    /// Shares a mailbox of Ann's with Bob, who gets exactly these rights.
    pub(super) fn open(&self, mailbox: &str, rights: &[&str]) {
        let rights: Map<String, Value> =
            rights.iter().map(|name| ((*name).to_owned(), true.into())).collect();
        let update = json!({mailbox: {format!("shareWith/{}", self.bob): rights}});
        // A patch cannot descend into `shareWith` while it is null.
        let first = json!({mailbox: {"shareWith": {&self.bob: rights}}});
        let of = json!({"accountId": self.ann, "ids": [mailbox], "properties": ["shareWith"]});
        let shared =
            call(&self.asks(&self.ann), "Mailbox/get", &of).1["list"][0]["shareWith"].clone();
        let update = if shared.is_null() { first } else { update };
        let done = call(
            &self.asks(&self.ann),
            "Mailbox/set",
            &json!({"accountId": self.ann, "update": update}),
        )
        .1;
        assert!(done["updated"].get(mailbox).is_some(), "{done}");
    }

    /// Ends all shares of a mailbox of Ann's.
    pub(super) fn close(&self, mailbox: &str) {
        let update = json!({mailbox: {"shareWith": null}});
        let done = call(
            &self.asks(&self.ann),
            "Mailbox/set",
            &json!({"accountId": self.ann, "update": update}),
        )
        .1;
        assert_eq!(done["updated"], json!({mailbox: null}), "{done}");
    }

    fn session(&self, who: &str) -> Value {
        session(&self.asks(who)).unwrap().json()
    }
}

/// Returns the ids of the objects in the answer of a /get.
fn ids(answer: &Value) -> Vec<String> {
    answer["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn shared_account_appears_in_the_session_of_the_guest() {
    let bed = SharingFixture::new();
    assert_eq!(bed.bob_fails("Mailbox/get", json!({})), "accountNotFound");
    let before = bed.session(&bed.bob);
    assert!(before["accounts"].get(&bed.ann).is_none());
    bed.open(&bed.plans, &["mayReadItems"]);
    let after = bed.session(&bed.bob);
    assert_ne!(before["state"], after["state"]);
    let shared = &after["accounts"][&bed.ann];
    assert_eq!(
        (&shared["isPersonal"], &shared["name"]),
        (&json!(false), &json!("ann@example.org"))
    );
    let capabilities = shared["accountCapabilities"].as_object().unwrap();
    let names: Vec<&str> = capabilities.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "urn:ietf:params:jmap:blob",
            "urn:ietf:params:jmap:mail",
            "urn:ietf:params:jmap:principals:owner"
        ]
    );
    assert_eq!(capabilities["urn:ietf:params:jmap:mail"]["mayCreateTopLevelMailbox"], false);
    // The owner is named by a principal of the guest's own account (RFC 9670 §1.5.2).
    let owner = &capabilities["urn:ietf:params:jmap:principals:owner"];
    assert_eq!(*owner, json!({"accountIdForPrincipal": bed.bob, "principalId": bed.ann}));
    let primary: Vec<&Value> = after["primaryAccounts"].as_object().unwrap().values().collect();
    assert!(primary.iter().all(|id| **id == json!(bed.bob)), "{primary:?}");
    // A guest cannot use these methods.
    for method in [
        "Identity/get",
        "EmailSubmission/get",
        "VacationResponse/get",
        "Quota/get",
        "MDN/send",
        "MDN/parse",
        "Principal/get",
    ] {
        assert_eq!(bed.bob_fails(method, json!({})), "accountNotSupportedByMethod", "{method}");
    }
    for method in ["Account/get", "Mail/list", "Mailbox/list"] {
        assert_eq!(bed.bob_fails(method, json!({})), "accountNotFound", "{method}");
    }
    bed.close(&bed.plans);
    assert_eq!(bed.session(&bed.bob)["state"], before["state"]);
    assert_eq!(bed.bob_fails("Mailbox/get", json!({})), "accountNotFound");
}

#[test]
fn guest_sees_only_shared_mail() {
    let bed = SharingFixture::new();
    bed.open(&bed.plans, &["mayReadItems"]);
    let [alone, planned, twofold] = &bed.emails;
    let boxes = bed.bob("Mailbox/get", json!({}));
    assert_eq!(ids(&boxes), [bed.work.clone(), bed.plans.clone()], "Plans with its ancestors");
    let [work, plans] = [&boxes["list"][0], &boxes["list"][1]];
    assert!(work["myRights"].as_object().unwrap().values().all(|has| *has == json!(false)));
    assert_eq!(
        (&plans["myRights"]["mayReadItems"], &plans["myRights"]["maySetSeen"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(
        (&plans["totalEmails"], &plans["shareWith"], &plans["isSubscribed"]),
        (&json!(2), &Value::Null, &json!(false))
    );
    assert_eq!(bed.bob("Mailbox/query", json!({}))["ids"].as_array().unwrap().len(), 2);

    let emails = bed.bob(
        "Email/get",
        json!({"ids": bed.emails, "properties": ["mailboxIds", "subject", "bodyValues"]}),
    );
    assert_eq!(ids(&emails), [planned.clone(), twofold.clone()]);
    assert_eq!(emails["notFound"], json!([alone]));
    assert_eq!(emails["list"][1]["mailboxIds"], json!({&bed.plans: true}));
    assert_eq!(bed.bob("Email/get", json!({"ids": null}))["list"].as_array().unwrap().len(), 2);
    assert_eq!(bed.bob("Thread/get", json!({"ids": null}))["list"].as_array().unwrap().len(), 2);
    let threads =
        call(&bed.context, "Email/get", &json!({"accountId": bed.ann, "ids": bed.emails})).1;
    let threads: Vec<&str> = threads["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["threadId"].as_str().unwrap())
        .collect();
    assert_eq!(bed.bob("Thread/get", json!({"ids": threads}))["notFound"], json!([threads[0]]));

    let found = |filter: Value| {
        let answer = bed.bob("Email/query", json!({"filter": filter, "calculateTotal": true}));
        let mut ids: Vec<String> = answer["ids"]
            .as_array()
            .unwrap()
            .iter()
            .map(|id| id.as_str().unwrap().to_owned())
            .collect();
        assert_eq!(answer["total"], ids.len());
        ids.sort();
        ids
    };
    let mut both = vec![planned.clone(), twofold.clone()];
    both.sort();
    let (plans, inbox) = (&bed.plans, &bed.inbox);
    for (filter, wanted) in [
        (Value::Null, both.clone()),
        (json!({"inMailbox": plans}), both.clone()),
        (json!({"inMailbox": inbox}), vec![]),
        (json!({"operator": "NOT", "conditions": [{"inMailbox": inbox}]}), both.clone()),
        (json!({"inMailboxOtherThan": [plans]}), vec![]),
        (json!({"inMailboxOtherThan": [inbox]}), both.clone()),
        (json!({"subject": "alone"}), vec![]),
        (json!({"subject": "twofold"}), vec![twofold.clone()]),
        (
            json!({"operator": "OR", "conditions": [{"subject": "alone"}, {"subject": "planned"}]}),
            vec![planned.clone()],
        ),
        (
            json!({"operator": "OR", "conditions": [{"inMailbox": plans}, {"inMailbox": inbox}]}),
            both,
        ),
    ] {
        assert_eq!(found(filter.clone()), wanted, "{filter}");
    }
    let snippets =
        bed.bob("SearchSnippet/get", json!({"filter": {"text": "hi"}, "emailIds": bed.emails}));
    assert_eq!(
        (snippets["list"].as_array().unwrap().len(), &snippets["notFound"]),
        (2, &json!([alone]))
    );

    // The guest may read the blobs of shared emails only.
    let blob = |id: &str| {
        let of = json!({"accountId": bed.ann, "ids": [id], "properties": ["blobId"]});
        call(&bed.context, "Email/get", &of).1["list"][0]["blobId"].as_str().unwrap().to_owned()
    };
    let blobs = [blob(alone), blob(planned)];
    let get = json!({"ids": blobs});
    let lookup = json!({"ids": blobs, "typeNames": ["Mailbox", "Email"]});
    for (method, arguments) in [("Blob/get", get), ("Blob/lookup", lookup)] {
        let answer = bed.bob(method, arguments);
        assert_eq!(
            (ids(&answer), &answer["notFound"]),
            (vec![blobs[1].clone()], &json!([blobs[0]])),
            "{method}"
        );
    }
    let parsed = bed.bob("Email/parse", json!({"blobIds": blobs}));
    assert_eq!(
        (&parsed["notFound"], parsed["parsed"].as_object().unwrap().len()),
        (&json!([blobs[0]]), 1)
    );
    let made =
        json!({"a": {"data": [{"blobId": blobs[0]}]}, "b": {"data": [{"blobId": blobs[1]}]}});
    let made = bed.bob("Blob/upload", json!({"create": made}));
    assert_eq!(made["notCreated"]["a"]["type"], "blobNotFound", "{made}");
    assert!(made["created"].get("b").is_some());

    // A mailbox with only mayAddItems shows nothing.
    bed.open(&bed.plans, &["mayAddItems"]);
    assert_eq!(found(Value::Null), Vec::<String>::new());
    assert_eq!(bed.bob("Mailbox/get", json!({"ids": [plans]}))["list"][0]["totalEmails"], 0);
    assert_eq!(bed.bob("Email/get", json!({"ids": bed.emails}))["list"], json!([]));
}

#[test]
fn guest_gets_the_changes_of_shared_mail() {
    let bed = SharingFixture::new();
    bed.open(&bed.plans, &["mayReadItems"]);
    let since = bed.bob("Mailbox/get", json!({}))["state"].clone();
    let state = |of: &str| bed.bob(of, json!({"ids": []}))["state"].clone();
    let (emails, threads) = (state("Email/get"), state("Thread/get"));
    let query =
        bed.bob("Email/query", json!({"filter": {"inMailbox": bed.plans}}))["queryState"].clone();
    let update = json!({&bed.emails[0]: {format!("mailboxIds/{}", bed.plans): true}});
    call(&bed.context, "Email/set", &json!({"accountId": bed.ann, "update": update}));
    let changes = bed.bob("Mailbox/changes", json!({"sinceState": since}));
    assert_eq!(changes["updated"], json!([bed.plans]), "{changes}");
    let since_query = json!({"filter": {"inMailbox": bed.plans}, "sinceQueryState": query});
    let moved = bed.bob("Email/queryChanges", since_query.clone());
    assert_eq!(moved["added"][0]["id"], bed.emails[0], "{moved}");
    let changed = |method: &str, since: &Value| {
        let answer = bed.bob(method, json!({"sinceState": since}));
        assert_eq!(answer["newState"], state(&method.replace("changes", "get")));
        ["created", "updated", "destroyed"].map(|kind| answer[kind].clone())
    };
    let [alone, planned, twofold] = &bed.emails;
    assert_eq!(
        changed("Email/changes", &emails),
        [json!([alone]), json!([]), json!([])],
        "the email is new to the guest"
    );
    let [created, ..] = changed("Thread/changes", &threads);
    assert_eq!(created.as_array().unwrap().len(), 1);
    let (emails, threads) = (state("Email/get"), state("Thread/get"));
    // One shared email changes, one leaves the shared mailbox, one is destroyed. A change of an
    // email that was never shared is not reported.
    let (_, hidden) = filed(&bed.context, &["hidden"]);
    let update = json!({
        planned: {"keywords/$flagged": true}, alone: {"mailboxIds": {&bed.inbox: true}},
        &hidden[0]: {"keywords/a": true},
    });
    call(
        &bed.context,
        "Email/set",
        &json!({"accountId": bed.ann, "update": update, "destroy": [twofold]}),
    );
    let mut gone = [alone.clone(), twofold.clone()];
    gone.sort();
    assert_eq!(changed("Email/changes", &emails), [json!([]), json!([planned]), json!(gone)]);
    let [created, updated, destroyed] = changed("Thread/changes", &threads);
    assert_eq!((created, updated, destroyed.as_array().unwrap().len()), (json!([]), json!([]), 2));
    assert_eq!(changed("Email/changes", &state("Email/get")), [json!([]), json!([]), json!([])]);
    assert_eq!(
        bed.bob_fails("Email/changes", json!({"sinceState": emails, "maxChanges": 2})),
        "cannotCalculateChanges"
    );
    // The store does not keep earlier shares.
    bed.open(&bed.plans, &["mayReadItems", "maySetSeen"]);
    assert_eq!(
        bed.bob_fails("Mailbox/changes", json!({"sinceState": since})),
        "cannotCalculateChanges"
    );
    assert_eq!(bed.bob_fails("Email/queryChanges", since_query), "cannotCalculateChanges");
    assert_eq!(
        bed.bob_fails("Thread/changes", json!({"sinceState": since})),
        "cannotCalculateChanges"
    );
    assert_ne!(state("Email/get"), emails, "a change of the shares changes the state");
}

#[test]
fn emails_and_blobs_are_copied_between_owner_and_guest() {
    let bed = SharingFixture::new();
    bed.open(&bed.plans, &["mayReadItems", "mayAddItems"]);
    let bob = bed.asks(&bed.bob);
    let own =
        call(&bob, "Mailbox/query", &json!({"accountId": bed.bob, "filter": {"role": "inbox"}})).1;
    let own = own["ids"][0].as_str().unwrap();
    let [alone, planned, _] = &bed.emails;
    let copy_and_destroy = || {
        let request = json!({"using": CAPABILITIES, "methodCalls": [["Email/copy", {
            "fromAccountId": bed.ann, "accountId": bed.bob, "onSuccessDestroyOriginal": true,
            "create": {"a": {"id": alone, "mailboxIds": {own: true}},
                "p": {"id": planned, "mailboxIds": {own: true}}},
        }, "0"]]});
        run(&bob, parse(request.to_string().as_bytes(),
            CAPABILITIES).unwrap()).unwrap().json()["methodResponses"]
            .clone()
    };
    let done = copy_and_destroy();
    assert_eq!(done[0][1]["notCreated"]["a"]["type"], "notFound", "{done}");
    let made = done[0][1]["created"]["p"]["id"].as_str().unwrap();
    assert_eq!(done[1][1]["notDestroyed"][planned]["type"], "forbidden", "{done}");
    let there = call(
        &bob,
        "Email/get",
        &json!({"accountId": bed.bob, "ids": [made], "properties": ["subject"]}),
    )
    .1;
    assert_eq!(there["list"][0]["subject"], "planned");
    // With mayRemoveItems the original is destroyed. A copy back to Ann needs mayAddItems.
    call(&bob, "Email/set", &json!({"accountId": bed.bob, "destroy": [made]}));
    bed.open(&bed.plans, &["mayReadItems", "mayRemoveItems"]);
    let done = copy_and_destroy();
    assert_eq!(done[1][1]["destroyed"], json!([planned]), "{done}");
    let made = done[0][1]["created"]["p"]["id"].as_str().unwrap();
    let back = |rights: &[&str]| {
        bed.open(&bed.plans, rights);
        let create = json!({"b": {"id": made, "mailboxIds": {&bed.plans: true}}});
        let arguments = json!({"fromAccountId": bed.bob, "accountId": bed.ann, "create": create});
        call(&bob, "Email/copy", &arguments).1
    };
    assert_eq!(back(&["mayReadItems"])["notCreated"]["b"]["type"], "forbidden");
    assert!(back(&["mayAddItems"])["created"].get("b").is_some());

    bed.open(&bed.plans, &["mayReadItems"]);
    let blob = |id: &str| {
        let of = json!({"accountId": bed.ann, "ids": [id], "properties": ["blobId"]});
        call(&bed.context, "Email/get", &of).1["list"][0]["blobId"].clone()
    };
    let blobs = json!([blob(alone), blob(&bed.emails[2])]);
    let arguments = json!({"fromAccountId": bed.ann, "accountId": bed.bob, "blobIds": blobs});
    let copied = call(&bob, "Blob/copy", &arguments).1;
    assert_eq!(copied["notCopied"][blobs[0].as_str().unwrap()]["type"], "notFound", "{copied}");
    let new = copied["copied"][blobs[1].as_str().unwrap()].as_str().unwrap();
    let copy = call(&bob, "Blob/get", &json!({"accountId": bed.bob, "ids": [new]})).1;
    assert!(
        copy["list"][0]["data:asText"].as_str().unwrap().contains("Subject: twofold"),
        "{copy}"
    );
}
