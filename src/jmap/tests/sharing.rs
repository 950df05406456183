//! One's mailboxes, opened to another (RFC 9670, RFC 8621 §2 `MailboxRights`).

use serde_json::{Map, Value, json};

use super::{call, context, error, filed};
use crate::jmap::{CAPABILITIES, Caller, Context, Followed, Known, Reached, run, session};
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

/// Ann, who opens mailboxes, Bob, to whom, and what is in them.
struct Bed {
    context: Context,
    ann: String,
    bob: String,
    /// Ann's: Inbox, and Work with Plans under it.
    inbox: String,
    work: String,
    plans: String,
    /// In the Inbox, in Plans, in both.
    emails: [String; 3],
}

impl Bed {
    fn new() -> Self {
        let context = context();
        let (ann, emails) = filed(&context, &["alone", "planned", "twofold"]);
        let bob = context.directory.find("bob@example.org").unwrap().unwrap().0.to_string();
        let boxes = call(&context, "Mailbox/get", &json!({"accountId": ann, "properties": ["role"]})).1;
        let boxes = boxes["list"].as_array().unwrap().clone();
        let inbox = boxes.iter().find(|one| one["role"] == "inbox").unwrap()["id"].as_str().unwrap().to_owned();
        let create = json!({"w": {"name": "Work"}, "p": {"name": "Plans", "parentId": "#w"}});
        let made = call(&context, "Mailbox/set", &json!({"accountId": ann, "create": create})).1;
        let id = |name: &str| made["created"][name]["id"].as_str().unwrap().to_owned();
        let (work, plans) = (id("w"), id("p"));
        let update = json!({
            &emails[1]: {"mailboxIds": {&plans: true}}, &emails[2]: {format!("mailboxIds/{plans}"): true},
        });
        call(&context, "Email/set", &json!({"accountId": ann, "update": update}));
        let emails = <[String; 3]>::try_from(emails).unwrap();
        Self { context, ann, bob, inbox, work, plans, emails }
    }

    /// The same service, asked by one who logged in.
    fn asks(&self, who: &str) -> Context {
        let account: AccountId = who.parse().unwrap();
        Context { caller: Caller { account: Some(account), ..Caller::default() }, ..self.context.clone() }
    }

    /// Asked by Bob of Ann's account.
    fn bob(&self, name: &str, mut arguments: Value) -> Value {
        arguments["accountId"] = self.ann.clone().into();
        let (kind, answer) = call(&self.asks(&self.bob), name, &arguments);
        assert_eq!(kind, name, "{answer}");
        answer
    }

    fn bob_fails(&self, name: &str, mut arguments: Value) -> String {
        arguments["accountId"] = self.ann.clone().into();
        error(&self.asks(&self.bob), name, &arguments)
    }

    /// Ann opens a mailbox to Bob with these rights and no others.
    fn open(&self, mailbox: &str, rights: &[&str]) {
        let rights: Map<String, Value> = rights.iter().map(|name| ((*name).to_owned(), true.into())).collect();
        let update = json!({mailbox: {format!("shareWith/{}", self.bob): rights}});
        // The first of all: there is nothing to descend through.
        let first = json!({mailbox: {"shareWith": {&self.bob: rights}}});
        let of = json!({"accountId": self.ann, "ids": [mailbox], "properties": ["shareWith"]});
        let shared = call(&self.asks(&self.ann), "Mailbox/get", &of).1["list"][0]["shareWith"].clone();
        let update = if shared.is_null() { first } else { update };
        let done = call(&self.asks(&self.ann), "Mailbox/set", &json!({"accountId": self.ann, "update": update})).1;
        assert!(done["updated"].get(mailbox).is_some(), "{done}");
    }

    fn close(&self, mailbox: &str) {
        let update = json!({mailbox: {"shareWith": null}});
        let done = call(&self.asks(&self.ann), "Mailbox/set", &json!({"accountId": self.ann, "update": update})).1;
        assert_eq!(done["updated"], json!({mailbox: null}), "{done}");
    }

    fn session(&self, who: &str) -> Value {
        let reached = Reached { base: "https://mail.example.org", max_upload: 1000 };
        session(&self.asks(who), reached).unwrap().json()
    }
}

fn ids(answer: &Value) -> Vec<String> {
    answer["list"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_opened_stands_in_the_guests_session() {
    let bed = Bed::new();
    assert_eq!(bed.bob_fails("Mailbox/get", json!({})), "accountNotFound");
    let before = bed.session(&bed.bob);
    assert!(before["accounts"].get(&bed.ann).is_none());
    bed.open(&bed.plans, &["mayReadItems"]);
    let after = bed.session(&bed.bob);
    assert_ne!(before["state"], after["state"]);
    let shared = &after["accounts"][&bed.ann];
    assert_eq!((&shared["isPersonal"], &shared["name"]), (&json!(false), &json!("ann@example.org")));
    let capabilities = shared["accountCapabilities"].as_object().unwrap();
    let names: Vec<&str> = capabilities.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["urn:ietf:params:jmap:blob", "urn:ietf:params:jmap:mail", "urn:ietf:params:jmap:principals:owner"]
    );
    assert_eq!(capabilities["urn:ietf:params:jmap:mail"]["mayCreateTopLevelMailbox"], false);
    // Whose it is, he finds among the principals of his own account (RFC 9670 §1.5.2).
    let owner = &capabilities["urn:ietf:params:jmap:principals:owner"];
    assert_eq!(*owner, json!({"accountIdForPrincipal": bed.bob, "principalId": bed.ann}));
    let primary: Vec<&Value> = after["primaryAccounts"].as_object().unwrap().values().collect();
    assert!(primary.iter().all(|id| **id == json!(bed.bob)), "{primary:?}");
    // There is nothing of these for a guest.
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
fn a_guest_sees_what_is_open_to_him_and_nothing_else() {
    let bed = Bed::new();
    bed.open(&bed.plans, &["mayReadItems"]);
    let [alone, planned, twofold] = &bed.emails;
    let boxes = bed.bob("Mailbox/get", json!({}));
    assert_eq!(ids(&boxes), [bed.work.clone(), bed.plans.clone()], "with what is above it");
    let [work, plans] = [&boxes["list"][0], &boxes["list"][1]];
    assert!(work["myRights"].as_object().unwrap().values().all(|has| *has == json!(false)));
    assert_eq!((&plans["myRights"]["mayReadItems"], &plans["myRights"]["maySetSeen"]), (&json!(true), &json!(false)));
    assert_eq!(
        (&plans["totalEmails"], &plans["shareWith"], &plans["isSubscribed"]),
        (&json!(2), &Value::Null, &json!(false))
    );
    assert_eq!(bed.bob("Mailbox/query", json!({}))["ids"].as_array().unwrap().len(), 2);

    let emails =
        bed.bob("Email/get", json!({"ids": bed.emails, "properties": ["mailboxIds", "subject", "bodyValues"]}));
    assert_eq!(ids(&emails), [planned.clone(), twofold.clone()]);
    assert_eq!(emails["notFound"], json!([alone]));
    assert_eq!(emails["list"][1]["mailboxIds"], json!({&bed.plans: true}));
    assert_eq!(bed.bob("Email/get", json!({"ids": null}))["list"].as_array().unwrap().len(), 2);
    assert_eq!(bed.bob("Thread/get", json!({"ids": null}))["list"].as_array().unwrap().len(), 2);
    let threads = call(&bed.context, "Email/get", &json!({"accountId": bed.ann, "ids": bed.emails})).1;
    let threads: Vec<&str> =
        threads["list"].as_array().unwrap().iter().map(|one| one["threadId"].as_str().unwrap()).collect();
    assert_eq!(bed.bob("Thread/get", json!({"ids": threads}))["notFound"], json!([threads[0]]));

    let found = |filter: Value| {
        let answer = bed.bob("Email/query", json!({"filter": filter, "calculateTotal": true}));
        let mut ids: Vec<String> =
            answer["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
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
        (json!({"operator": "OR", "conditions": [{"inMailbox": plans}, {"inMailbox": inbox}]}), both),
    ] {
        assert_eq!(found(filter.clone()), wanted, "{filter}");
    }
    let snippets = bed.bob("SearchSnippet/get", json!({"filter": {"text": "hi"}, "emailIds": bed.emails}));
    assert_eq!((snippets["list"].as_array().unwrap().len(), &snippets["notFound"]), (2, &json!([alone])));

    // Blobs are what one may read.
    let blob = |id: &str| {
        let of = json!({"accountId": bed.ann, "ids": [id], "properties": ["blobId"]});
        call(&bed.context, "Email/get", &of).1["list"][0]["blobId"].as_str().unwrap().to_owned()
    };
    let blobs = [blob(alone), blob(planned)];
    let get = json!({"ids": blobs});
    let lookup = json!({"ids": blobs, "typeNames": ["Mailbox", "Email"]});
    for (method, arguments) in [("Blob/get", get), ("Blob/lookup", lookup)] {
        let answer = bed.bob(method, arguments);
        assert_eq!((ids(&answer), &answer["notFound"]), (vec![blobs[1].clone()], &json!([blobs[0]])), "{method}");
    }
    let parsed = bed.bob("Email/parse", json!({"blobIds": blobs}));
    assert_eq!((&parsed["notFound"], parsed["parsed"].as_object().unwrap().len()), (&json!([blobs[0]]), 1));
    let made = json!({"a": {"data": [{"blobId": blobs[0]}]}, "b": {"data": [{"blobId": blobs[1]}]}});
    let made = bed.bob("Blob/upload", json!({"create": made}));
    assert_eq!(made["notCreated"]["a"]["type"], "blobNotFound", "{made}");
    assert!(made["created"].get("b").is_some());

    // A box that one may only drop things in shows nothing.
    bed.open(&bed.plans, &["mayAddItems"]);
    assert_eq!(found(Value::Null), Vec::<String>::new());
    assert_eq!(bed.bob("Mailbox/get", json!({"ids": [plans]}))["list"][0]["totalEmails"], 0);
    assert_eq!(bed.bob("Email/get", json!({"ids": bed.emails}))["list"], json!([]));
}

/// The deed of each right, on Plans or the email in it: what is done, and whether it was.
fn deeds(bed: &Bed, round: usize) -> [(&'static str, bool); 7] {
    let planned = &bed.emails[1];
    let email = |patch: Value| {
        let answer = bed.bob("Email/set", json!({"update": {planned: patch}}));
        let refused = &answer["notUpdated"][planned]["type"];
        assert!(answer["updated"].get(planned).is_some() || refused == "forbidden", "{answer}");
        answer["updated"].get(planned).is_some()
    };
    let toggle = |yes: bool| if yes { json!(true) } else { Value::Null };
    let mailbox = |arguments: Value, done: &str, name: &str| {
        let answer = bed.bob("Mailbox/set", arguments);
        let refused = answer[format!("not{}{}", done[..1].to_uppercase(), &done[1..])][name]["type"].clone();
        assert!(!answer[done].is_null() || refused == "forbidden", "{answer}");
        !answer[done].is_null()
    };
    let plans = &bed.plans;
    let upload =
        bed.bob("Blob/upload", json!({"create": {"u": {"data": [{"data:asText": format!("Subject: {round}\n\nx")}]}}}));
    let import = json!({"emails": {"i": {"blobId": upload["created"]["u"]["id"], "mailboxIds": {plans: true}}}});
    let import = bed.bob("Email/import", import);
    assert!(!import["created"].is_null() || import["notCreated"]["i"]["type"] == "forbidden", "{import}");
    let create = json!({"c": {"mailboxIds": {plans: true}, "subject": "new"}});
    let create = bed.bob("Email/set", json!({"create": create}));
    let adds = !import["created"].is_null();
    assert_eq!(adds, !create["created"].is_null(), "{create}");
    let child = json!({"create": {"c": {"name": format!("child {round}"), "parentId": plans}}});
    let removes = match import["created"]["i"]["id"].as_str() {
        Some(id) => {
            let gone = bed.bob("Email/set", json!({"destroy": [id]}));
            let refused = &gone["notDestroyed"][id]["type"];
            // Of what he may not read he does not learn whether it is there.
            assert!(!gone["destroyed"].is_null() || refused == "forbidden" || refused == "notFound", "{gone}");
            !gone["destroyed"].is_null()
        }
        None => false,
    };
    [
        ("mayAddItems", adds),
        ("mayRemoveItems", removes),
        ("maySetSeen", email(json!({"keywords/$seen": toggle(round.is_multiple_of(2))}))),
        ("maySetKeywords", email(json!({"keywords/work": toggle(round.is_multiple_of(2))}))),
        ("mayCreateChild", mailbox(child, "created", "c")),
        ("mayRename", mailbox(json!({"update": {plans: {"name": format!("Plans {round}")}}}), "updated", plans)),
        ("mayDelete", mailbox(json!({"destroy": [plans], "onDestroyRemoveEmails": true}), "destroyed", plans)),
    ]
}

#[test]
fn each_right_is_needed_for_its_deed_and_for_no_other() {
    let bed = Bed::new();
    for (round, missing) in RIGHTS.iter().enumerate() {
        if *missing == "mayReadItems" || *missing == "mayDelete" {
            continue;
        }
        let rights: Vec<&str> = RIGHTS.iter().copied().filter(|one| one != missing && *one != "mayDelete").collect();
        bed.open(&bed.plans, &rights);
        for (right, done) in deeds(&bed, round) {
            // What was not filed cannot be taken out.
            let expected = rights.contains(&right) && !(right == "mayRemoveItems" && *missing == "mayAddItems");
            assert_eq!(done, expected, "{right} without {missing}");
        }
    }
    // With none but that of reading nothing is done; and to destroy a mailbox with emails takes both rights.
    bed.open(&bed.plans, &["mayReadItems"]);
    assert!(deeds(&bed, 21).iter().all(|(_, done)| !done));
    bed.open(&bed.plans, &["mayReadItems", "mayDelete"]);
    let destroy = json!({"destroy": [bed.plans], "onDestroyRemoveEmails": true});
    let all = bed.bob("Mailbox/get", json!({}))["list"].as_array().unwrap().clone();
    for child in all.iter().filter(|one| one["parentId"] == json!(bed.plans)) {
        let done = call(&bed.context, "Mailbox/set", &json!({"accountId": bed.ann, "destroy": [child["id"]]})).1;
        assert!(!done["destroyed"].is_null(), "{done}");
    }
    assert_eq!(bed.bob("Mailbox/set", destroy.clone())["notDestroyed"][&bed.plans]["type"], "forbidden");
    bed.open(&bed.plans, &["mayReadItems", "mayRemoveItems", "mayDelete"]);
    assert_eq!(bed.bob("Mailbox/set", destroy)["destroyed"], json!([bed.plans]));
    // What was in another mailbox, too, is still there.
    let left = call(&bed.context, "Email/get", &json!({"accountId": bed.ann, "ids": bed.emails})).1;
    assert_eq!(ids(&left), [bed.emails[0].clone(), bed.emails[2].clone()]);
    assert_eq!(bed.context.store.check().unwrap(), []);
}

#[test]
fn what_an_email_needs_it_needs_in_all_its_mailboxes() {
    let bed = Bed::new();
    bed.open(&bed.plans, &["mayReadItems", "mayRemoveItems", "maySetSeen", "maySetKeywords"]);
    let twofold = &bed.emails[2];
    for patch in [json!({"keywords/$seen": true}), json!({"keywords/work": true}), json!({"keywords": {"$seen": true}})]
    {
        let answer = bed.bob("Email/set", json!({"update": {twofold: patch}}));
        assert_eq!(answer["notUpdated"][twofold]["type"], "forbidden", "{answer}");
    }
    assert_eq!(bed.bob("Email/set", json!({"destroy": [twofold]}))["notDestroyed"][twofold]["type"], "forbidden");
    // What he says of the mailboxes that he sees leaves the others as they are.
    let here = json!({"update": {twofold: {"mailboxIds": {&bed.plans: true}}}});
    assert_eq!(bed.bob("Email/set", here)["updated"], json!({twofold: null}));
    let of = json!({"accountId": bed.ann, "ids": [twofold], "properties": ["mailboxIds"]});
    let now = call(&bed.context, "Email/get", &of).1;
    assert_eq!(now["list"][0]["mailboxIds"], json!({&bed.plans: true, &bed.inbox: true}));
    let there = json!({"update": {twofold: {format!("mailboxIds/{}", bed.inbox): true}}});
    assert_eq!(bed.bob("Email/set", there)["updated"], json!({twofold: null}), "it is there: nothing changes");
    let planned = &bed.emails[1];
    let there = json!({"update": {planned: {format!("mailboxIds/{}", bed.inbox): true}}});
    assert_eq!(bed.bob("Email/set", there)["notUpdated"][planned]["type"], "forbidden");
    // Both open, both rights.
    bed.open(&bed.inbox, &["maySetSeen"]);
    assert_eq!(
        bed.bob("Email/set", json!({"update": {twofold: {"keywords/$seen": true}}}))["updated"],
        json!({twofold: null})
    );
}

#[test]
fn a_guest_subscribes_for_himself_and_sets_nothing_else() {
    let bed = Bed::new();
    bed.open(&bed.plans, &["mayReadItems", "mayCreateChild", "mayRename"]);
    let plans = &bed.plans;
    let set = |patch: Value| bed.bob("Mailbox/set", json!({"update": {plans: patch}}));
    assert_eq!(set(json!({"isSubscribed": true}))["updated"], json!({plans: null}));
    assert_eq!(bed.bob("Mailbox/get", json!({"ids": [plans]}))["list"][0]["isSubscribed"], true);
    let of = json!({"accountId": bed.ann, "ids": [plans], "properties": ["isSubscribed"]});
    call(&bed.context, "Mailbox/set", &json!({"accountId": bed.ann, "update": {plans: {"isSubscribed": false}}}));
    assert_eq!(call(&bed.context, "Mailbox/get", &of).1["list"][0]["isSubscribed"], false);
    assert_eq!(bed.bob("Mailbox/query", json!({"filter": {"isSubscribed": true}}))["ids"], json!([plans]));
    for patch in [
        json!({"role": "archive"}),
        json!({"sortOrder": 7}),
        json!({"shareWith": {&bed.bob: {"mayDelete": true}}}),
        json!({"parentId": null}),
    ] {
        assert_eq!(set(patch.clone())["notUpdated"][plans]["type"], "forbidden", "{patch}");
    }
    // Of what is above it he knows the name, and may do nothing with it.
    let above = bed.bob("Mailbox/set", json!({"update": {&bed.work: {"isSubscribed": true}}}));
    assert_eq!(above["notUpdated"][&bed.work]["type"], "forbidden");
    assert_eq!(
        bed.bob("Mailbox/set", json!({"update": {&bed.inbox: {"name": "x"}}}))["notUpdated"][&bed.inbox]["type"],
        "notFound"
    );
    // What he makes is open to the same people, with the same rights.
    let made =
        bed.bob("Mailbox/set", json!({"create": {"c": {"name": "Mine", "parentId": plans, "isSubscribed": true}}}));
    let mine = made["created"]["c"]["id"].as_str().unwrap();
    assert_eq!(
        (&made["created"]["c"]["myRights"]["mayRename"], made["created"]["c"].get("isSubscribed")),
        (&json!(true), None)
    );
    let of = json!({"accountId": bed.ann, "ids": [mine], "properties": ["shareWith"]});
    let shared = call(&bed.asks(&bed.ann), "Mailbox/get", &of).1;
    assert_eq!(shared["list"][0]["shareWith"][&bed.bob]["mayRename"], true);
    for (create, kind) in [
        (json!({"name": "Top"}), "forbidden"),
        (json!({"name": "In", "parentId": bed.inbox}), "invalidProperties"),
        (json!({"name": "In", "parentId": bed.work}), "forbidden"),
        (json!({"name": "R", "parentId": plans, "role": "archive"}), "forbidden"),
    ] {
        let refused = bed.bob("Mailbox/set", json!({"create": {"c": create}}));
        assert_eq!(refused["notCreated"]["c"]["type"], kind, "{create}");
    }
}

#[test]
fn changes_are_told_to_a_guest_where_they_can_be() {
    let bed = Bed::new();
    bed.open(&bed.plans, &["mayReadItems"]);
    let since = bed.bob("Mailbox/get", json!({}))["state"].clone();
    let state = |of: &str| bed.bob(of, json!({"ids": []}))["state"].clone();
    let (emails, threads) = (state("Email/get"), state("Thread/get"));
    let query = bed.bob("Email/query", json!({"filter": {"inMailbox": bed.plans}}))["queryState"].clone();
    let update = json!({&bed.emails[0]: {format!("mailboxIds/{}", bed.plans): true}});
    call(&bed.context, "Email/set", &json!({"accountId": bed.ann, "update": update}));
    let changes = bed.bob("Mailbox/changes", json!({"sinceState": since}));
    assert_eq!(changes["updated"], json!([bed.plans]), "{changes}");
    let asked = json!({"filter": {"inMailbox": bed.plans}, "sinceQueryState": query});
    let moved = bed.bob("Email/queryChanges", asked.clone());
    assert_eq!(moved["added"][0]["id"], bed.emails[0], "{moved}");
    let told = |method: &str, since: &Value| {
        let answer = bed.bob(method, json!({"sinceState": since}));
        assert_eq!(answer["newState"], state(&method.replace("changes", "get")));
        ["created", "updated", "destroyed"].map(|kind| answer[kind].clone())
    };
    let [alone, planned, twofold] = &bed.emails;
    assert_eq!(told("Email/changes", &emails), [json!([alone]), json!([]), json!([])], "it came into sight");
    let [created, ..] = told("Thread/changes", &threads);
    assert_eq!(created.as_array().unwrap().len(), 1);
    let (emails, threads) = (state("Email/get"), state("Thread/get"));
    // One changes in his sight, one leaves it, one goes for good, and of what he never saw he hears nothing.
    let (_, hidden) = filed(&bed.context, &["hidden"]);
    let update = json!({
        planned: {"keywords/$flagged": true}, alone: {"mailboxIds": {&bed.inbox: true}}, &hidden[0]: {"keywords/a": true},
    });
    call(&bed.context, "Email/set", &json!({"accountId": bed.ann, "update": update, "destroy": [twofold]}));
    let mut gone = [alone.clone(), twofold.clone()];
    gone.sort();
    assert_eq!(told("Email/changes", &emails), [json!([]), json!([planned]), json!(gone)]);
    let [created, updated, destroyed] = told("Thread/changes", &threads);
    assert_eq!((created, updated, destroyed.as_array().unwrap().len()), (json!([]), json!([]), 2));
    assert_eq!(told("Email/changes", &state("Email/get")), [json!([]), json!([]), json!([])]);
    assert_eq!(
        bed.bob_fails("Email/changes", json!({"sinceState": emails, "maxChanges": 2})),
        "cannotCalculateChanges"
    );
    // What was opened and closed meanwhile is not kept.
    bed.open(&bed.plans, &["mayReadItems", "maySetSeen"]);
    assert_eq!(bed.bob_fails("Mailbox/changes", json!({"sinceState": since})), "cannotCalculateChanges");
    assert_eq!(bed.bob_fails("Email/queryChanges", asked), "cannotCalculateChanges");
    assert_eq!(bed.bob_fails("Thread/changes", json!({"sinceState": since})), "cannotCalculateChanges");
    assert_ne!(state("Email/get"), emails, "with what is open changes what there is");
}

#[test]
fn emails_and_blobs_are_copied_across() {
    let bed = Bed::new();
    bed.open(&bed.plans, &["mayReadItems", "mayAddItems"]);
    let bob = bed.asks(&bed.bob);
    let own = call(&bob, "Mailbox/query", &json!({"accountId": bed.bob, "filter": {"role": "inbox"}})).1;
    let own = own["ids"][0].as_str().unwrap();
    let [alone, planned, _] = &bed.emails;
    let copy = |destroy: bool| {
        let request = json!({"using": CAPABILITIES, "methodCalls": [["Email/copy", {
            "fromAccountId": bed.ann, "accountId": bed.bob, "onSuccessDestroyOriginal": destroy,
            "create": {"a": {"id": alone, "mailboxIds": {own: true}}, "p": {"id": planned, "mailboxIds": {own: true}}},
        }, "0"]]});
        run(&bob, parse(request.to_string().as_bytes(), CAPABILITIES).unwrap()).json()["methodResponses"].clone()
    };
    let done = copy(true);
    assert_eq!(done[0][1]["notCreated"]["a"]["type"], "notFound", "{done}");
    let made = done[0][1]["created"]["p"]["id"].as_str().unwrap();
    assert_eq!(done[1][1]["notDestroyed"][planned]["type"], "forbidden", "{done}");
    let there = call(&bob, "Email/get", &json!({"accountId": bed.bob, "ids": [made], "properties": ["subject"]})).1;
    assert_eq!(there["list"][0]["subject"], "planned");
    // And back, to where he may add; with the right to remove the original goes.
    call(&bob, "Email/set", &json!({"accountId": bed.bob, "destroy": [made]}));
    bed.open(&bed.plans, &["mayReadItems", "mayRemoveItems"]);
    let done = copy(true);
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
    let octets = call(&bob, "Blob/get", &json!({"accountId": bed.bob, "ids": [new]})).1;
    assert!(octets["list"][0]["data:asText"].as_str().unwrap().contains("Subject: twofold"), "{octets}");
}

#[test]
fn one_shares_with_principals_that_one_may_know_of() {
    let bed = Bed::new();
    let far = crate::account::NewAccount::at(crate::model::Address::parse("far@example.net").unwrap());
    let far = bed.context.directory.add(&far).unwrap().to_string();
    let ann = bed.asks(&bed.ann);
    let ask = |name: &str, mut arguments: Value| {
        arguments["accountId"] = bed.ann.clone().into();
        call(&ann, name, &arguments)
    };
    let all = ask("Principal/get", json!({})).1;
    assert_eq!(ids(&all), [bed.ann.clone(), bed.bob.clone()], "not those of other domains");
    let (me, other) = (&all["list"][0], &all["list"][1]);
    assert_eq!(
        (&other["type"], &other["email"], &other["accounts"]),
        (&json!("individual"), &json!("bob@example.org"), &Value::Null)
    );
    assert_eq!(me["accounts"][&bed.ann]["isPersonal"], true);
    assert_eq!(ask("Principal/get", json!({"ids": [far]})).1["notFound"], json!([far]));
    for (filter, count) in [
        (json!({"email": "BOB@"}), 1),
        (json!({"text": "example.org"}), 2),
        (json!({"name": "ann"}), 1),
        (json!({"type": "group"}), 0),
        (json!({"accountIds": [bed.ann]}), 1),
        (json!({"accountIds": [bed.bob]}), 0),
        (json!({"timeZone": "Europe/Vienna"}), 0),
    ] {
        let found = ask("Principal/query", json!({"filter": filter})).1;
        assert_eq!(found["ids"].as_array().unwrap().len(), count, "{filter}");
        assert_eq!(found["canCalculateChanges"], false);
    }
    let set =
        json!({"create": {"x": {"name": "x"}}, "update": {&bed.bob: {"name": "x"}, &far: {}}, "destroy": [bed.ann]});
    let refused = ask("Principal/set", set).1;
    assert_eq!(
        (&refused["notCreated"]["x"]["type"], &refused["notUpdated"][&bed.bob]["type"]),
        (&json!("forbidden"), &json!("forbidden"))
    );
    assert_eq!(
        (&refused["notUpdated"][&far]["type"], &refused["notDestroyed"][&bed.ann]["type"]),
        (&json!("notFound"), &json!("forbidden"))
    );
    let state = &all["state"];
    assert_eq!(ask("Principal/changes", json!({"sinceState": state})).1["updated"], json!([]));
    bed.context.directory.update(bed.bob.parse().unwrap(), |row| row.display_name = Some("Robert".into())).unwrap();
    assert_eq!(ask("Principal/changes", json!({"sinceState": state})).1["type"], "cannotCalculateChanges");

    let share = |with: Value| ask("Mailbox/set", json!({"update": {&bed.plans: {"shareWith": with}}})).1;
    for wrong in [
        json!({&bed.ann: {"mayReadItems": true}}),
        json!({&far: {"mayReadItems": true}}),
        json!({"nobody": {"mayReadItems": true}}),
        json!({&bed.bob: {"mayFly": true}}),
        json!({&bed.bob: {"mayReadItems": 1}}),
        json!({&bed.bob: true}),
        json!([]),
    ] {
        let refused = &share(wrong.clone())["notUpdated"][&bed.plans];
        assert_eq!(
            (&refused["type"], &refused["properties"]),
            (&json!("invalidProperties"), &json!(["shareWith"])),
            "{wrong}"
        );
    }
    // Who is given no right is not there; what is kept is told where it is not what was said.
    let told = share(json!({&bed.bob: {"mayReadItems": false}}));
    assert_eq!(told["updated"], json!({&bed.plans: {"shareWith": null}}));
    let told = share(json!({&bed.bob: {"mayReadItems": true}}));
    assert_eq!(told["updated"][&bed.plans]["shareWith"][&bed.bob]["maySubmit"], false);
    let patch = json!({format!("shareWith/{}/maySetSeen", bed.bob): true});
    assert_eq!(ask("Mailbox/set", json!({"update": {&bed.plans: patch}})).1["updated"], json!({&bed.plans: null}));
    assert_eq!(bed.bob("Mailbox/get", json!({"ids": [bed.plans]}))["list"][0]["myRights"]["maySetSeen"], true);
    assert!(ask("Principal/get", json!({})).1["list"][1]["accounts"].is_null(), "Bob shares nothing with Ann");
    // Who does not use the capability is told nothing of it (RFC 8620 §3.3).
    let using = ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"];
    let request = json!({"using": using, "methodCalls": [
        ["Mailbox/get", {"accountId": bed.ann}, "0"], ["Mailbox/get", {"accountId": bed.ann, "properties": ["shareWith"]}, "1"],
        ["Mailbox/set", {"accountId": bed.ann, "update": {&bed.plans: {"shareWith": null}}, "create": {"c": {"name": "c"}}}, "2"],
    ]});
    let answer = run(&ann, parse(request.to_string().as_bytes(), CAPABILITIES).unwrap()).json();
    let answer = &answer["methodResponses"];
    assert!(answer[0][1]["list"][0].get("shareWith").is_none() && answer[0][1]["list"][0].get("name").is_some());
    assert_eq!(answer[1][1]["type"], "invalidArguments");
    assert_eq!(answer[2][1]["notUpdated"][&bed.plans]["type"], "invalidProperties");
    assert!(answer[2][1]["created"]["c"].get("shareWith").is_none());
}

#[test]
fn who_is_concerned_is_told_once() {
    let bed = Bed::new();
    let bob = bed.asks(&bed.bob);
    let ask = |name: &str, mut arguments: Value| {
        arguments["accountId"] = bed.bob.clone().into();
        let (kind, answer) = call(&bob, name, &arguments);
        assert_eq!(kind, name, "{answer}");
        answer
    };
    let told = || ask("ShareNotification/get", json!({}));
    let state = told()["state"].clone();
    bed.open(&bed.plans, &["mayReadItems"]);
    let all = told();
    let one = &all["list"][0];
    assert_eq!(
        one["changedBy"],
        json!({"name": "ann@example.org", "email": "ann@example.org", "principalId": bed.ann})
    );
    assert_eq!(
        (&one["objectType"], &one["objectAccountId"], &one["objectId"]),
        (&json!("Mailbox"), &json!(bed.ann), &json!(bed.plans))
    );
    assert_eq!(
        (&one["name"], &one["oldRights"], &one["newRights"]["mayReadItems"]),
        (&json!("Plans"), &Value::Null, &json!(true))
    );
    assert_eq!(one["created"], "2026-11-21T09:00:00Z");
    assert_eq!(ask("ShareNotification/changes", json!({"sinceState": state}))["created"], json!(ids(&all)));
    // A further change takes its place; both that come to nothing leave nothing.
    bed.open(&bed.plans, &["mayReadItems", "maySetSeen"]);
    let next = told();
    let next = next["list"].as_array().unwrap();
    assert_eq!(
        (next.len(), &next[0]["oldRights"], &next[0]["newRights"]["maySetSeen"]),
        (1, &Value::Null, &json!(true))
    );
    bed.close(&bed.plans);
    assert_eq!(told()["list"], json!([]));
    // What was dismissed is not part of it.
    bed.open(&bed.work, &["mayReadItems", "mayDelete"]);
    let first = ids(&told())[0].clone();
    let refused =
        ask("ShareNotification/set", json!({"create": {"c": {}}, "update": {&first: {"name": "x"}, "o1": {}}}));
    assert_eq!(refused["notCreated"]["c"]["type"], "forbidden");
    assert_eq!(
        (&refused["notUpdated"][&first]["type"], &refused["notUpdated"]["o1"]["type"]),
        (&json!("forbidden"), &json!("notFound"))
    );
    let query = ask("ShareNotification/query", json!({"sort": [{"property": "created"}]}));
    assert_eq!(query["ids"], json!([first]));
    assert_eq!(ask("ShareNotification/set", json!({"destroy": [first, "o1"]}))["destroyed"], json!([first]));
    let moved = ask("ShareNotification/queryChanges", json!({"sinceQueryState": query["queryState"]}));
    assert_eq!(moved["removed"], json!([first]));
    // By the command line, with rights by name; who did it has no account.
    let change =
        json!({"account": bed.ann, "mailbox": "Work", "shareWith": {"bob@example.org": "mayReadItems,maySetSeen"}});
    let done = call(&bed.context, "Mailbox/change", &change).1;
    assert_eq!(done["shareWith"], json!({"bob@example.org": ["mayReadItems", "maySetSeen"]}), "{done}");
    let last = told()["list"][0].clone();
    assert_eq!(last["changedBy"], json!({"name": "root", "email": null, "principalId": null}));
    assert_eq!((&last["oldRights"]["mayDelete"], &last["newRights"]["mayDelete"]), (&json!(true), &json!(false)));
    for (filter, count) in [
        (json!({"objectType": "Mailbox", "objectAccountId": bed.ann}), 1),
        (json!({"objectAccountId": bed.bob}), 0),
        (json!({"objectType": "Calendar"}), 0),
        (json!({"after": "2026-11-21T09:00:00Z", "before": null}), 1),
        (json!({"before": "2026-11-21T09:00:00Z"}), 0),
    ] {
        let found = ask("ShareNotification/query", json!({"filter": filter}));
        assert_eq!(found["ids"].as_array().unwrap().len(), count, "{filter}");
    }
    for wrong in [
        json!({"nobody": "mayReadItems"}),
        json!({"bob@example.org": "mayFly"}),
        json!({"ann@example.org": "mayReadItems"}),
    ] {
        let change = json!({"account": bed.ann, "mailbox": "Work", "shareWith": wrong});
        assert_eq!(error(&bed.context, "Mailbox/change", &change), "invalidArguments", "{wrong}");
    }
    // With the mailbox its shares end.
    call(
        &bed.context,
        "Mailbox/set",
        &json!({"accountId": bed.ann, "destroy": [bed.plans], "onDestroyRemoveEmails": true}),
    );
    let gone = call(&bed.context, "Mailbox/set", &json!({"accountId": bed.ann, "destroy": [bed.work]})).1;
    assert_eq!(gone["destroyed"], json!([bed.work]), "{gone}");
    let last = told()["list"][0].clone();
    assert_eq!(
        (&last["name"], &last["newRights"], &last["oldRights"]["mayDelete"]),
        (&json!("Work"), &Value::Null, &json!(true))
    );
    // What is remembered has a bound: the oldest go.
    let account: AccountId = bed.bob.parse().unwrap();
    let made: Vec<String> = (0..510)
        .map(|n| {
            let told = crate::model::ShareNotification {
                mailbox: crate::model::MailboxUid(1000 + n),
                new: 1,
                ..Default::default()
            };
            bed.context.store.commit(account, |txn| txn.tell_share(&told)).unwrap().1.wait_blocking().unwrap();
            crate::model::MailboxUid(1000 + n).to_string()
        })
        .collect();
    let all = told();
    let all: Vec<&str> = all["list"].as_array().unwrap().iter().map(|one| one["objectId"].as_str().unwrap()).collect();
    assert_eq!((all.len(), all.last()), (500, made.last().map(String::as_str).as_ref()));
    assert!(!all.contains(&made[0].as_str()) && all.contains(&made[10].as_str()));
    assert_eq!(bed.context.store.check().unwrap(), []);
}

#[test]
fn a_guest_is_pushed_what_concerns_him() {
    let bed = Bed::new();
    let followed = || -> Vec<Followed> { bed.asks(&bed.bob).reachable().unwrap().iter().map(Followed::from).collect() };
    let store = &bed.context.store;
    let mut known = Known::now(store, &followed()).unwrap();
    bed.open(&bed.plans, &["mayReadItems"]);
    known.follow(&followed());
    let change = known.catch_up(store, None).unwrap().unwrap();
    let names = |change: &Value, account: &str| -> Vec<String> {
        change["changed"][account].as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default()
    };
    assert_eq!(names(&change, &bed.bob), ["ShareNotification"]);
    assert_eq!(names(&change, &bed.ann), ["Email", "Mailbox", "Thread"], "what is new to him is told");
    let vacation = json!({"accountId": bed.ann, "update": {"singleton": {"isEnabled": true}}});
    call(&bed.context, "VacationResponse/set", &vacation);
    assert_eq!(known.catch_up(store, None).unwrap(), None, "that is the owner's alone");
    filed(&bed.context, &["more"]);
    let change = known.catch_up(store, None).unwrap().unwrap();
    for (name, method) in [("Email", "Email/get"), ("Thread", "Thread/get"), ("Mailbox", "Mailbox/get")] {
        let now = bed.bob(method, json!({"ids": []}))["state"].clone();
        assert_eq!(change["changed"][&bed.ann][name], now, "{name}");
    }
    bed.close(&bed.plans);
    known.follow(&followed());
    let change = known.catch_up(store, None).unwrap().unwrap();
    assert_eq!((names(&change, &bed.ann).len(), names(&change, &bed.bob).len()), (0, 1));
}
