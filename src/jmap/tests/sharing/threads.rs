//! A guest learns nothing about unshared emails from their threads. Tests also when the unread
//! threads of a guest are counted, and how often.

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

/// Files a message into a mailbox of Ann's. Returns the ids of the email and its thread.
pub(super) fn file(
    bed: &SharingFixture,
    mailbox: &str,
    raw: &str,
    keywords: &[&str],
) -> (String, String) {
    file_at(bed, mailbox, raw, keywords, UtcMillis(1_795_000_000_000))
}

/// Does what `file` does, with the given date of receipt.
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

/// Returns a message with the Message-ID `<id@x>`.
pub(super) fn letter(id: &str, references: &str, subject: &str) -> String {
    format!(
        "From: x@example.net\r\nSubject: {subject}\r\nMessage-ID: <{id}@x>\r\n\
            References: {references}\r\n\r\nhi\r\n"
    )
}

#[test]
fn thread_counts_and_conditions_reveal_no_unshared_mail() {
    let bed = SharingFixture::new();
    bed.open(&bed.plans, &["mayReadItems"]);
    let (shown, thread) = file(&bed, &bed.plans, &letter("a", "<r@x>", "talk"), &["$seen"]);
    let (hidden, same) = file(&bed, &bed.inbox, &letter("b", "<a@x>", "Re: talk"), &["$seen"]);
    assert_eq!(thread, same);
    let all_answers = || {
        let filter = |name: &str, word: &str| json!({"filter": {name: word}, "sort": null});
        let mut answers = Vec::new();
        for word in ["$seen", "$flagged", "work"] {
            for name in
                ["someInThreadHaveKeyword", "allInThreadHaveKeyword", "noneInThreadHaveKeyword"]
            {
                answers.push(bed.bob("Email/query", filter(name, word))["ids"].clone());
                let mut collapsed = filter(name, word);
                collapsed["collapseThreads"] = true.into();
                answers.push(bed.bob("Email/query", collapsed)["ids"].clone());
            }
            for name in ["someInThreadHaveKeyword", "allInThreadHaveKeyword"] {
                let sort = json!([{"property": name, "keyword": word}]);
                answers.push(bed.bob("Email/query", json!({"sort": sort}))["ids"].clone());
            }
        }
        let mut threads = bed.bob("Thread/get", json!({"ids": [thread]}));
        let mut boxes = bed.bob("Mailbox/get", json!({}));
        for answer in [&mut threads, &mut boxes] {
            answer.as_object_mut().unwrap().remove("state");
        }
        answers.extend([threads, boxes]);
        answers
    };
    let before = all_answers();
    // The last two answers are those of Thread/get and Mailbox/get.
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
        assert_eq!(all_answers(), before, "{keywords}");
        let changes = bed.bob("Mailbox/changes", json!({"sinceState": since}));
        assert_eq!(
            (&changes["updated"], &changes["updatedProperties"]),
            (&json!([]), &Value::Null),
            "{changes}"
        );
    }
    // The owner sees the whole thread. The guest gets a change when a shared email becomes unread.
    let all = call(&bed.context, "Thread/get", &json!({"accountId": bed.ann, "ids": [thread]})).1;
    assert_eq!(all["list"][0]["emailIds"].as_array().unwrap().len(), 2);
    // The second mailbox is Plans, after Work, which is above it.
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

/// Counting reads emails, so Mailbox/get counts only if the client asks for the count, and
/// Mailbox/set only if the client sends it back.
#[test]
fn guest_unread_threads_are_counted_only_for_answers_with_the_count() {
    let rows_read = |letters: usize| {
        let engine = Arc::new(CountingEngine::default());
        let bed = SharingFixture::over(context_over(engine.clone()));
        bed.open(&bed.plans, &["mayReadItems", "mayRename"]);
        // Without a listing, a count must go through all emails to find this oldest unread one.
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
        // All but the last two calls do not count: their mailboxes do not exist, or they do not
        // name the count.
        let unknown_ids: Vec<String> = (900..950).map(|uid| format!("m{uid}")).collect();
        let patches: Value = unknown_ids
            .iter()
            .map(|id| (id.clone(), json!({"name": "x", "unreadThreads": 1})))
            .collect();
        let mut calls = vec![
            ("Mailbox/set", json!({"update": patches, "destroy": ["m950"]})),
            ("Mailbox/set", json!({"update": {&bed.plans: {"name": "Plans"}}})),
            ("Mailbox/query", json!({})),
            ("Mailbox/queryChanges", json!({"sinceQueryState": state})),
            ("Mailbox/changes", json!({"sinceState": state})),
            ("Mailbox/get", json!({"ids": unknown_ids})),
            ("Mailbox/get", json!({"properties": ["name", "totalThreads", "unreadEmails"]})),
        ];
        let without_count = calls.len();
        // These two count: the first requests a listing of unread emails if there are many emails,
        // and the second reads it.
        let get = json!({"ids": [&bed.plans], "properties": ["unreadThreads"]});
        calls.extend([("Mailbox/get", get.clone()), ("Mailbox/get", get)]);
        let uid = bed.plans.parse().unwrap();
        let mut rows = Vec::new();
        for (at, (name, arguments)) in calls.into_iter().enumerate() {
            engine.read();
            let answer = bed.bob(name, arguments);
            rows.push(engine.read());
            // The unread emails are `old` and the two of the fixture.
            if at >= without_count {
                assert_eq!(answer["list"][0]["unreadThreads"], 3, "{answer}");
            }
            serve_listing_requests(&bed.context, &bed.ann);
            let (store, ann) = (&bed.context.store, bed.ann.parse().unwrap());
            let is_maintained = store
                .snapshot()
                .maintained_listing(ann, uid, ListingFilter::Unseen)
                .unwrap()
                .is_some();
            assert_eq!(
                is_maintained,
                at >= without_count && letters > 256,
                "{name} with {letters}"
            );
        }
        // A client may send back the count that it got, and no other.
        let can_send_back = |unread: u64| {
            let update = json!({&bed.plans: {"name": "Plans", "unreadThreads": unread}});
            bed.bob("Mailbox/set", json!({"update": update}))["updated"].get(&bed.plans).is_some()
        };
        assert_eq!((can_send_back(3), can_send_back(0), can_send_back(4)), (true, false, false));
        rows
    };
    // Listings are made for 256 emails or more (`query::plan::MIN_MAINTAINED_EMAILS`). Only the
    // first count reads all emails of a large mailbox.
    let (few, many) = (rows_read(2), rows_read(300));
    let counted = few.len() - 2;
    for (at, (few, many)) in few.iter().zip(&many).enumerate() {
        assert_eq!(*many > few + 250, at == counted, "call {at}: {few} rows, then {many}");
    }
}

#[test]
fn thread_without_shared_emails_is_reported_destroyed_to_the_guest() {
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
    let changes = bed.bob("Thread/changes", json!({"sinceState": state}));
    let changes = ["created", "updated", "destroyed"].map(|name| changes[name].clone());
    assert_eq!(changes, [json!([fresh]), json!([stays]), json!([gone, hidden])]);
}

/// Each count reads emails.
#[test]
fn guest_unread_thread_counts_are_bounded_per_request() {
    let bed = SharingFixture::new();
    bed.open(&bed.plans, &["mayReadItems", "maySetSeen", "mayRename"]);
    // With the two of the fixture, 22 unread emails.
    for n in 0..20 {
        file(&bed, &bed.plans, &letter(&format!("m{n}"), "<r@x>", &format!("no. {n}")), &[]);
    }
    let get = json!(["Mailbox/get", {"accountId": bed.ann}, "g"]);
    let names = json!(["Mailbox/get", {"accountId": bed.ann, "properties": ["name"]}, "n"]);
    let update = json!({&bed.plans: {"unreadThreads": 22}});
    let set = json!(["Mailbox/set", {"accountId": bed.ann, "update": update}, "s"]);
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
        // A count reads 44 rows: 22 unread emails, and the thread of each.
        let answers = kinds(&bed.bob, call, 3 * 44);
        assert_eq!(answers, [vec![name; 3], vec!["requestTooLarge"; 5]].concat());
        assert_eq!(kinds(&bed.ann, call, 1), [name; 8], "the count of the owner is stored");
    }
    assert_eq!(kinds(&bed.bob, &names, 1), ["Mailbox/get"; 8]);
}

/// If the email joined a thread that the guest does not see, the id of this thread would reveal
/// which Message-IDs the account has.
#[test]
fn email_filed_by_a_guest_joins_no_thread_of_unshared_mail() {
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
        let create = json!({"c": {"mailboxIds": {&bed.plans: true}, "subject": "Re: talk",
            "references": [id]}});
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
    // Every method joins a thread that the guest sees.
    assert_eq!(import(&letter("g1", "<s@x>", "Re: talk")), shown);
    assert_eq!((set("s@x"), copy("s@x")), (shown.clone(), shown.clone()));
    // A thread that the guest does not see counts as missing: the first email starts a new thread,
    // and later ones with the same reference join that one, whether or not the reference exists.
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
    assert_ne!(set("q@x"), there, "two references to one hidden thread start two threads");
    assert_eq!(bed.bob("Thread/get", json!({"ids": [hidden]}))["notFound"], json!([hidden]));
    // A delivery still joins the owner's thread: the guest's thread did not take over its
    // references.
    let (_, reply) = file(&bed, &bed.inbox, &letter("r", "<p@x>", "Re: talk"), &[]);
    assert_eq!(reply, hidden);
    assert_eq!(set("p@x"), there);
    // An email that the owner files joins the oldest matching thread.
    let (_, joined) = file(&bed, &bed.inbox, &letter("own", "<s@x> <p@x>", "Re: talk"), &[]);
    assert_eq!(joined, hidden);
    let make_rows = |raw: &[u8]| crate::message::rows_of_any(raw, bed.context.store.secrets());
    assert_eq!(bed.context.store.check_deep(Some(&make_rows), &mut |_| true).unwrap().breaches, []);
}
