//! What a guest may learn along a thread: only what stands in emails that are open to the guest.

use std::sync::Arc;

use serde_json::{Value, json};

use super::SharingFixture;
use crate::jmap::CAPABILITIES;
use crate::jmap::budget::Budget;
use crate::jmap::dispatch::run_within;
use crate::jmap::tests::{call, context_over, serve_listing_requests};
use crate::message::rows;
use crate::model::{ListingFilter, UtcMillis, limits};
use crate::store::engine::watched::CountingEngine;
use crate::store::{EncodedMessage, NewEmail};
use crate::wire::jmap::parse;

/// Files a message into a mailbox of Ann's; gives the ids of the email and its thread.
fn file(bed: &SharingFixture, mailbox: &str, raw: &str, keywords: &[&str]) -> (String, String) {
    file_at(bed, mailbox, raw, keywords, UtcMillis(1_795_000_000_000))
}

fn file_at(
    bed: &SharingFixture,
    mailbox: &str,
    raw: &str,
    keywords: &[&str],
    received_at: UtcMillis,
) -> (String, String) {
    let (store, account) = (&bed.context.store, bed.ann.parse().unwrap());
    let message = EncodedMessage::new(&rows(raw.as_bytes(), store.secrets()));
    let (mut made, ticket) = store.commit_message(&[account], &message, raw.as_bytes(), |txn| {
        txn.create_email(&NewEmail {
            message: &message,
            prefix: b"",
            mailboxes: [mailbox.parse().unwrap()].into(),
            keywords: keywords.iter().map(|word| (*word).to_owned()).collect(),
            received_at,
        })
    });
    ticket.wait_blocking().unwrap();
    let (email, thread) = made.pop().unwrap().1.unwrap();
    (email.to_string(), thread.to_string())
}

fn letter(id: &str, references: &str, subject: &str) -> String {
    format!(
        "From: x@example.net\r\nSubject: {subject}\r\nMessage-ID: <{id}@x>\r\nReferences: {references}\r\n\r\nhi\r\n"
    )
}

#[test]
fn thread_counts_and_conditions_tell_a_guest_nothing_of_unshared_mail() {
    let bed = SharingFixture::new();
    bed.open(&bed.plans, &["mayReadItems"]);
    let (shown, thread) = file(&bed, &bed.plans, &letter("a", "<r@x>", "talk"), &["$seen"]);
    let (hidden, same) = file(&bed, &bed.inbox, &letter("b", "<a@x>", "Re: talk"), &["$seen"]);
    assert_eq!(thread, same);
    let tells = || {
        let filter = |name: &str, word: &str| json!({"filter": {name: word}, "sort": null});
        let mut told = Vec::new();
        for word in ["$seen", "$flagged", "work"] {
            for name in
                ["someInThreadHaveKeyword", "allInThreadHaveKeyword", "noneInThreadHaveKeyword"]
            {
                told.push(bed.bob("Email/query", filter(name, word))["ids"].clone());
                let mut collapsed = filter(name, word);
                collapsed["collapseThreads"] = true.into();
                told.push(bed.bob("Email/query", collapsed)["ids"].clone());
            }
            for name in ["someInThreadHaveKeyword", "allInThreadHaveKeyword"] {
                let sort = json!([{"property": name, "keyword": word}]);
                told.push(bed.bob("Email/query", json!({"sort": sort}))["ids"].clone());
            }
        }
        let mut threads = bed.bob("Thread/get", json!({"ids": [thread]}));
        let mut boxes = bed.bob("Mailbox/get", json!({}));
        for answer in [&mut threads, &mut boxes] {
            answer.as_object_mut().unwrap().remove("state");
        }
        told.extend([threads, boxes]);
        told
    };
    let before = tells();
    let threads = &before[before.len() - 2]["list"][0];
    assert_eq!((&threads["emailIds"], &threads["unreadEmails"]), (&json!([shown]), &json!(0)));
    assert_eq!(
        (&threads["latestEmailId"], &threads["latestReceivedAt"]),
        (&json!(shown), &json!("2026-11-18T11:06:40Z"))
    );
    let since = bed.bob("Mailbox/get", json!({}))["state"].clone();
    for keywords in [
        json!({"$flagged": true, "work": true}),
        json!({}),
        json!({"$seen": true, "$flagged": true}),
    ] {
        let update = json!({&hidden: {"keywords": keywords}});
        call(&bed.context, "Email/set", &json!({"accountId": bed.ann, "update": update}));
        assert_eq!(tells(), before, "{keywords}");
        let changes = bed.bob("Mailbox/changes", json!({"sinceState": since}));
        assert_eq!(
            (&changes["updated"], &changes["updatedProperties"]),
            (&json!([]), &Value::Null),
            "{changes}"
        );
    }
    // The owner is told of all of it; the guest, of what becomes unread in sight.
    let all = call(&bed.context, "Thread/get", &json!({"accountId": bed.ann, "ids": [thread]})).1;
    assert_eq!(all["list"][0]["emailIds"].as_array().unwrap().len(), 2);
    let unread = |boxes: &Value| boxes["list"][1]["unreadThreads"].clone();
    let was = unread(&before[before.len() - 1]).as_u64().unwrap();
    let update = json!({&shown: {"keywords": {}}});
    call(&bed.context, "Email/set", &json!({"accountId": bed.ann, "update": update}));
    assert_eq!(unread(&bed.bob("Mailbox/get", json!({}))), json!(was + 1));
    assert_eq!(
        bed.bob("Mailbox/changes", json!({"sinceState": since}))["updated"],
        json!([bed.plans])
    );
    assert_eq!(bed.bob("Thread/get", json!({"ids": [thread]}))["list"][0]["unreadEmails"], 1);
}

/// Counting reads emails: Mailbox/get does it where it is asked for, and what holds the account's
/// lock does not.
#[test]
fn unread_threads_of_a_guest_are_counted_only_where_an_answer_tells_them() {
    let rows_read = |letters: usize| {
        let engine = Arc::new(CountingEngine::default());
        let bed = SharingFixture::over(context_over(engine.clone()));
        bed.open(&bed.plans, &["mayReadItems", "mayRename"]);
        file_at(
            &bed,
            &bed.plans,
            &letter("old", "<o@x>", "old"),
            &[],
            UtcMillis(1_790_000_000_000),
        );
        for at in 0..letters {
            file(
                &bed,
                &bed.plans,
                &letter(&format!("m{at}"), "<r@x>", &format!("s{at}")),
                &["$seen"],
            );
        }
        let state = bed.bob("Mailbox/get", json!({"ids": []}))["state"].clone();
        let made_up: Vec<String> = (900..950).map(|uid| format!("m{uid}")).collect();
        let patches: Value = made_up
            .iter()
            .map(|id| (id.clone(), json!({"name": "x", "unreadThreads": 1})))
            .collect();
        let mut calls = vec![
            ("Mailbox/set", json!({"update": patches, "destroy": ["m950"]})),
            ("Mailbox/set", json!({"update": {&bed.plans: {"name": "Plans"}}})),
            ("Mailbox/query", json!({})),
            ("Mailbox/queryChanges", json!({"sinceQueryState": state})),
            ("Mailbox/changes", json!({"sinceState": state})),
            ("Mailbox/get", json!({"ids": made_up})),
            ("Mailbox/get", json!({"properties": ["name", "totalThreads", "unreadEmails"]})),
        ];
        let cheap = calls.len();
        // These count: the first asks for a listing of unread emails where there is much to read,
        // and the last reads it.
        let told = json!({"ids": [&bed.plans], "properties": ["unreadThreads"]});
        calls.extend([("Mailbox/get", told.clone()), ("Mailbox/get", told)]);
        let uid = bed.plans.parse().unwrap();
        let mut rows = Vec::new();
        for (at, (name, arguments)) in calls.into_iter().enumerate() {
            engine.read();
            let answer = bed.bob(name, arguments);
            rows.push(engine.read());
            if at >= cheap {
                assert_eq!(answer["list"][0]["unreadThreads"], 3, "{answer}");
            }
            serve_listing_requests(&bed.context, &bed.ann);
            let (store, ann) = (&bed.context.store, bed.ann.parse().unwrap());
            let is_kept = store
                .snapshot()
                .maintained_listing(ann, uid, ListingFilter::Unseen)
                .unwrap()
                .is_some();
            assert_eq!(is_kept, at >= cheap && letters > 256, "{name} with {letters}");
        }
        // What was told may be said again, and nothing else.
        let say = |unread: u64| {
            let update = json!({&bed.plans: {"name": "Plans", "unreadThreads": unread}});
            bed.bob("Mailbox/set", json!({"update": update}))["updated"].get(&bed.plans).is_some()
        };
        assert_eq!((say(3), say(0), say(4)), (true, false, false));
        rows
    };
    let (few, many) = (rows_read(2), rows_read(300));
    let counted = few.len() - 2;
    for (at, (few, many)) in few.iter().zip(&many).enumerate() {
        assert_eq!(*many > few + 250, at == counted, "call {at}: {few} rows, then {many}");
    }
}

#[test]
fn a_thread_that_left_the_sight_of_a_guest_is_told_as_destroyed() {
    let bed = SharingFixture::new();
    bed.open(&bed.plans, &["mayReadItems"]);
    let (lone, gone) = file(&bed, &bed.plans, &letter("a", "<r@x>", "one"), &[]);
    let (first, stays) = file(&bed, &bed.plans, &letter("b", "<s@x>", "two"), &[]);
    assert_eq!(file(&bed, &bed.plans, &letter("c", "<s@x>", "two"), &[]).1, stays);
    let (moved, hidden) = file(&bed, &bed.plans, &letter("d", "<t@x>", "three"), &[]);
    let state = bed.bob("Thread/get", json!({"ids": []}))["state"].clone();
    let update = json!({&moved: {"mailboxIds": {&bed.inbox: true}}});
    let changes = json!({"accountId": bed.ann, "destroy": [lone, first], "update": update});
    call(&bed.context, "Email/set", &changes);
    let (_, fresh) = file(&bed, &bed.plans, &letter("e", "<u@x>", "four"), &[]);
    let told = bed.bob("Thread/changes", json!({"sinceState": state}));
    let told = ["created", "updated", "destroyed"].map(|name| told[name].clone());
    assert_eq!(told, [json!([fresh]), json!([stays]), json!([gone, hidden])]);
}

/// A guest's unread threads are counted from emails: the request bounds how often.
#[test]
fn counts_of_unread_threads_for_a_guest_are_bounded_by_the_request() {
    let bed = SharingFixture::new();
    bed.open(&bed.plans, &["mayReadItems", "maySetSeen", "mayRename"]);
    for n in 0..20 {
        file(&bed, &bed.plans, &letter(&format!("m{n}"), "<r@x>", &format!("no. {n}")), &[]);
    }
    let get = json!(["Mailbox/get", {"accountId": bed.ann}, "g"]);
    let names = json!(["Mailbox/get", {"accountId": bed.ann, "properties": ["name"]}, "n"]);
    let said = json!({&bed.plans: {"unreadThreads": 22}});
    let set = json!(["Mailbox/set", {"accountId": bed.ann, "update": said}, "s"]);
    let kinds = |who: &str, call: &Value, rows: u64| -> Vec<String> {
        let request = json!({"using": CAPABILITIES, "methodCalls": vec![call; 8]});
        let request = parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
        let budget = Budget::with_searches(limits::MAX_SEARCHED_BYTES_PER_REQUEST, rows);
        let answers = run_within(&bed.asks(who), budget, request).unwrap().json();
        let kind = |answer: &Value| {
            if answer[0] == "error" { answer[1]["type"].clone() } else { answer[0].clone() }
        };
        let answers = answers["methodResponses"].as_array().unwrap();
        answers.iter().map(|answer| kind(answer).as_str().unwrap().to_owned()).collect()
    };
    for (call, name) in [(&get, "Mailbox/get"), (&set, "Mailbox/set")] {
        // 22 unread emails, each of a thread of its own.
        let told = kinds(&bed.bob, call, 3 * 44);
        assert_eq!(told, [vec![name; 3], vec!["requestTooLarge"; 5]].concat());
        assert_eq!(kinds(&bed.ann, call, 1), [name; 8], "the owner's are known");
    }
    assert_eq!(kinds(&bed.bob, &names, 1), ["Mailbox/get"; 8]);
}

/// Else the thread's id would tell which Message-IDs the account holds.
#[test]
fn what_a_guest_files_joins_no_thread_of_unshared_mail() {
    let bed = SharingFixture::new();
    bed.open(&bed.plans, &["mayReadItems", "mayAddItems"]);
    let (_, hidden) = file(&bed, &bed.inbox, &letter("p", "<q@x>", "talk"), &[]);
    let (_, shown) = file(&bed, &bed.plans, &letter("s", "<t@x>", "talk"), &[]);
    assert_ne!(hidden, shown);
    let bob = bed.asks(&bed.bob);
    let import = |raw: &str| {
        let data = json!({"b": {"data": [{"data:asText": raw}]}});
        let blob = bed.bob("Blob/upload", json!({"create": data}))["created"]["b"]["id"].clone();
        let emails = json!({"i": {"blobId": blob, "mailboxIds": {&bed.plans: true}}});
        bed.bob("Email/import", json!({"emails": emails}))["created"]["i"]["threadId"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let set = |id: &str| {
        let create = json!({"c": {"mailboxIds": {&bed.plans: true}, "subject": "Re: talk", "references": [id]}});
        bed.bob("Email/set", json!({"create": create}))["created"]["c"]["threadId"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let copy = |id: &str| {
        let own = call(
            &bob,
            "Mailbox/query",
            &json!({"accountId": bed.bob, "filter": {"role": "inbox"}}),
        )
        .1;
        let own = own["ids"][0].as_str().unwrap();
        let create =
            json!({"c": {"mailboxIds": {own: true}, "subject": "Re: talk", "references": [id]}});
        let made = call(&bob, "Email/set", &json!({"accountId": bed.bob, "create": create})).1;
        let create =
            json!({"c": {"id": made["created"]["c"]["id"], "mailboxIds": {&bed.plans: true}}});
        let arguments = json!({"fromAccountId": bed.bob, "accountId": bed.ann, "create": create});
        let copied = call(&bob, "Email/copy", &arguments).1;
        copied["created"]["c"]["threadId"].as_str().unwrap().to_owned()
    };
    // What is in sight is joined in every way.
    assert_eq!(import(&letter("g1", "<s@x>", "Re: talk")), shown);
    assert_eq!((set("s@x"), copy("s@x")), (shown.clone(), shown.clone()));
    // What is not is as if it were not there: a new thread at first, and from then on that one,
    // whichever id is guessed.
    let (there, nowhere) = (
        import(&letter("g2", "<p@x>", "Re: talk")),
        import(&letter("g3", "<nowhere@x>", "Re: talk")),
    );
    assert!(
        there != hidden && there != shown && there != nowhere,
        "{hidden} {shown} {there} {nowhere}"
    );
    assert_eq!((set("p@x"), set("nowhere@x")), (there.clone(), nowhere.clone()));
    assert_eq!((copy("p@x"), copy("nowhere@x")), (there.clone(), nowhere));
    assert_ne!(set("q@x"), there, "two ids of one hidden thread do not meet");
    assert_eq!(bed.bob("Thread/get", json!({"ids": [hidden]}))["notFound"], json!([hidden]));
    // What is delivered joins what it joined before: the guest's thread took no id away from the
    // owner's.
    let (_, reply) = file(&bed, &bed.inbox, &letter("r", "<p@x>", "Re: talk"), &[]);
    assert_eq!(reply, hidden);
    assert_eq!(set("p@x"), there);
    // What its owner files joins the oldest that there is.
    let (_, joined) = file(&bed, &bed.inbox, &letter("own", "<s@x> <p@x>", "Re: talk"), &[]);
    assert_eq!(joined, hidden);
    let remake = |raw: &[u8]| crate::message::rows_or_bare(raw, bed.context.store.secrets());
    assert_eq!(bed.context.store.check_deep(Some(&remake), &mut |_| true).unwrap().breaches, []);
}
