//! What each right of a guest permits.

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::threads::{file, letter};
use super::{RIGHTS, SharingFixture, ids};
use crate::jmap::tests::call;
use crate::model::{AccountId, MailboxUid};

/// Tries what each right but mayReadItems and maySubmit permits, on Plans or on an email that is
/// only in Plans. Returns for which rights the action succeeded.
///
/// `round` makes the names new. Keywords are set in even rounds and removed in odd ones.
fn try_actions(bed: &SharingFixture, round: usize) -> [(&'static str, bool); 7] {
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
        let refused =
            answer[format!("not{}{}", done[..1].to_uppercase(), &done[1..])][name]["type"].clone();
        assert!(!answer[done].is_null() || refused == "forbidden", "{answer}");
        !answer[done].is_null()
    };
    let plans = &bed.plans;
    let upload = bed.bob(
        "Blob/upload",
        json!({"create": {"u": {"data": [{"data:asText": format!("Subject: {round}\n\nx")}]}}}),
    );
    let import = json!({"emails": {"i": {"blobId": upload["created"]["u"]["id"],
        "mailboxIds": {plans: true}}}});
    let import = bed.bob("Email/import", import);
    assert!(
        !import["created"].is_null() || import["notCreated"]["i"]["type"] == "forbidden",
        "{import}"
    );
    let create = json!({"c": {"mailboxIds": {plans: true}, "subject": "new"}});
    let create = bed.bob("Email/set", json!({"create": create}));
    let adds = !import["created"].is_null();
    assert_eq!(adds, !create["created"].is_null(), "{create}");
    let child = json!({"create": {"c": {"name": format!("child {round}"), "parentId": plans}}});
    let removes = match import["created"]["i"]["id"].as_str() {
        Some(id) => {
            let gone = bed.bob("Email/set", json!({"destroy": [id]}));
            let refused = &gone["notDestroyed"][id]["type"];
            // Without mayReadItems the error does not reveal whether the email exists.
            assert!(
                !gone["destroyed"].is_null() || refused == "forbidden" || refused == "notFound",
                "{gone}"
            );
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
        (
            "mayRename",
            mailbox(
                json!({"update": {plans: {"name": format!("Plans {round}")}}}),
                "updated",
                plans,
            ),
        ),
        (
            "mayDelete",
            mailbox(json!({"destroy": [plans], "onDestroyRemoveEmails": true}), "destroyed", plans),
        ),
    ]
}

#[test]
fn each_right_permits_its_own_action_and_no_other() {
    let bed = SharingFixture::new();
    // In each round mayDelete and one other right are missing. Without mayReadItems there is
    // nothing to act on, and mayDelete is tried at the end.
    for (round, missing) in RIGHTS.iter().enumerate() {
        if *missing == "mayReadItems" || *missing == "mayDelete" {
            continue;
        }
        let rights: Vec<&str> =
            RIGHTS.iter().copied().filter(|one| one != missing && *one != "mayDelete").collect();
        bed.open(&bed.plans, &rights);
        for (right, done) in try_actions(&bed, round) {
            // The removal uses the email that was added.
            let expected = rights.contains(&right)
                && !(right == "mayRemoveItems" && *missing == "mayAddItems");
            assert_eq!(done, expected, "{right} without {missing}");
        }
    }
    // With only mayReadItems every action fails. Destroying a mailbox with emails needs both
    // mayDelete and mayRemoveItems.
    bed.open(&bed.plans, &["mayReadItems"]);
    assert!(try_actions(&bed, 21).iter().all(|(_, done)| !done));
    bed.open(&bed.plans, &["mayReadItems", "mayDelete"]);
    let destroy = json!({"destroy": [bed.plans], "onDestroyRemoveEmails": true});
    // The owner destroys the children that the guest created, which would prevent it.
    let all = bed.bob("Mailbox/get", json!({}))["list"].as_array().unwrap().clone();
    for child in all.iter().filter(|one| one["parentId"] == json!(bed.plans)) {
        let done = call(
            &bed.context,
            "Mailbox/set",
            &json!({"accountId": bed.ann, "destroy": [child["id"]]}),
        )
        .1;
        assert!(!done["destroyed"].is_null(), "{done}");
    }
    assert_eq!(
        bed.bob("Mailbox/set", destroy.clone())["notDestroyed"][&bed.plans]["type"],
        "forbidden"
    );
    bed.open(&bed.plans, &["mayReadItems", "mayRemoveItems", "mayDelete"]);
    assert_eq!(bed.bob("Mailbox/set", destroy)["destroyed"], json!([bed.plans]));
    // An email that is also in another mailbox is not destroyed.
    let left = call(&bed.context, "Email/get", &json!({"accountId": bed.ann, "ids": bed.emails})).1;
    assert_eq!(ids(&left), [bed.emails[0].clone(), bed.emails[2].clone()]);
    assert_eq!(bed.context.store.check().unwrap(), []);
}

#[test]
fn email_change_needs_the_right_in_all_mailboxes_of_the_email() {
    let bed = SharingFixture::new();
    bed.open(&bed.plans, &["mayReadItems", "mayRemoveItems", "maySetSeen", "maySetKeywords"]);
    let twofold = &bed.emails[2];
    for patch in [
        json!({"keywords/$seen": true}),
        json!({"keywords/work": true}),
        json!({"keywords": {"$seen": true}}),
    ] {
        let answer = bed.bob("Email/set", json!({"update": {twofold: patch}}));
        assert_eq!(answer["notUpdated"][twofold]["type"], "forbidden", "{answer}");
    }
    assert_eq!(
        bed.bob("Email/set", json!({"destroy": [twofold]}))["notDestroyed"][twofold]["type"],
        "forbidden"
    );
    // An update of the visible mailboxes leaves the others unchanged.
    let here = json!({"update": {twofold: {"mailboxIds": {&bed.plans: true}}}});
    assert_eq!(bed.bob("Email/set", here)["updated"], json!({twofold: null}));
    let of = json!({"accountId": bed.ann, "ids": [twofold], "properties": ["mailboxIds"]});
    let now = call(&bed.context, "Email/get", &of).1;
    assert_eq!(now["list"][0]["mailboxIds"], json!({&bed.plans: true, &bed.inbox: true}));
    let there = json!({"update": {twofold: {format!("mailboxIds/{}", bed.inbox): true}}});
    let refused =
        |id: &str, there: Value| bed.bob("Email/set", there)["notUpdated"][id]["type"].clone();
    assert_eq!(
        refused(twofold, there),
        "invalidProperties",
        "the error does not reveal that the mailbox exists"
    );
    let planned = &bed.emails[1];
    let there = json!({"update": {planned: {format!("mailboxIds/{}", bed.inbox): true}}});
    assert_eq!(refused(planned, there.clone()), "invalidProperties");
    // With both mailboxes shared, the right is needed in both.
    bed.open(&bed.inbox, &["maySetSeen"]);
    assert_eq!(refused(planned, there), "forbidden");
    assert_eq!(
        bed.bob("Email/set", json!({"update": {twofold: {"keywords/$seen": true}}}))["updated"],
        json!({twofold: null})
    );
    // RFC 8621 §2 mayReadItems: `mailboxIds` omits mailboxes that the guest may not read.
    let visible = bed.bob("Email/get", json!({"ids": [twofold], "properties": ["mailboxIds"]}));
    assert_eq!(visible["list"][0]["mailboxIds"], json!({&bed.plans: true}));
}

#[test]
fn guest_sets_only_the_own_subscription() {
    let bed = SharingFixture::new();
    bed.open(&bed.plans, &["mayReadItems", "mayRename"]);
    let plans = &bed.plans;
    let set = |patch: Value| bed.bob("Mailbox/set", json!({"update": {plans: patch}}));
    assert_eq!(set(json!({"isSubscribed": true}))["updated"], json!({plans: null}));
    assert_eq!(bed.bob("Mailbox/get", json!({"ids": [plans]}))["list"][0]["isSubscribed"], true);
    let of = json!({"accountId": bed.ann, "ids": [plans], "properties": ["isSubscribed"]});
    call(
        &bed.context,
        "Mailbox/set",
        &json!({"accountId": bed.ann, "update": {plans: {"isSubscribed": false}}}),
    );
    assert_eq!(call(&bed.context, "Mailbox/get", &of).1["list"][0]["isSubscribed"], false);
    assert_eq!(
        bed.bob("Mailbox/query", json!({"filter": {"isSubscribed": true}}))["ids"],
        json!([plans])
    );
    for patch in [
        json!({"role": "archive"}),
        json!({"sortOrder": 7}),
        json!({"shareWith": {&bed.bob: {"mayDelete": true}}}),
        json!({"parentId": null}),
    ] {
        assert_eq!(set(patch.clone())["notUpdated"][plans]["type"], "forbidden", "{patch}");
    }
    // The guest knows the names of ancestors, but cannot change them.
    let above = bed.bob("Mailbox/set", json!({"update": {&bed.work: {"isSubscribed": true}}}));
    assert_eq!(above["notUpdated"][&bed.work]["type"], "forbidden");
    assert_eq!(
        bed.bob("Mailbox/set", json!({"update": {&bed.inbox: {"name": "x"}}}))["notUpdated"]
            [&bed.inbox]["type"],
        "notFound"
    );
}

#[test]
fn mailbox_created_by_a_guest_has_the_shares_of_its_parent() {
    let bed = SharingFixture::new();
    bed.open(&bed.plans, &["mayReadItems", "mayCreateChild", "mayRename"]);
    let plans = &bed.plans;
    let made = bed.bob(
        "Mailbox/set",
        json!({"create": {"c": {"name": "Mine", "parentId": plans, "isSubscribed": true}}}),
    );
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
fn guest_whose_share_ends_destroys_no_further_emails() {
    let bed = SharingFixture::new();
    bed.open(&bed.plans, &["mayReadItems", "mayRemoveItems", "mayDelete"]);
    // More than are destroyed in one commit.
    for n in 0..150 {
        file(&bed, &bed.plans, &letter(&format!("m{n}"), "<r@x>", &format!("no. {n}")), &[]);
    }
    let (ann, plans): (AccountId, MailboxUid) =
        (bed.ann.parse().unwrap(), bed.plans.parse().unwrap());
    let total = |bed: &SharingFixture| {
        bed.context.store.snapshot().mailbox(ann, plans).unwrap().unwrap().counts.total_emails
    };
    let (before, store) = (total(&bed), Mutex::new(Some(bed.context.store.clone())));
    // The share ends after the first commit that destroys some of the emails.
    bed.context.store.on_change(move |_| {
        if let Some(store) = store.lock().take() {
            let ended =
                store.commit(ann, |txn| txn.update_mailbox(plans, |row| row.shares.clear()));
            drop(ended.unwrap());
        }
    });
    let destroy = json!({"destroy": [bed.plans], "onDestroyRemoveEmails": true});
    let refused = &bed.bob("Mailbox/set", destroy)["notDestroyed"][&bed.plans];
    assert_eq!(refused["type"], "notFound");
    assert!((1..before).contains(&total(&bed)), "{} of {before}", total(&bed));
}
