//! `VacationResponse` (RFC 8621 §8), the vendor's Vacation, forgetting told senders, the log of
//! decisions, and the report.

use serde_json::{Value, json};

use super::{account_of, call, context, error, filed};
use crate::model::{
    ActionId, Address, Decision, ToldKey, ToldLifetime, UtcMillis, VacationResponse, Verdict,
};
use crate::wire::jmap::to_base64;

#[test]
fn vacation_response_is_patched_and_read_back() {
    let context = context();
    let (_, account) = call(&context, "Account/get", &json!({"account": "ann@example.org"}));
    let id = account["id"].as_str().unwrap();
    let (_, before) = call(&context, "VacationResponse/get", &json!({"accountId": id}));
    assert_eq!(before["list"][0]["isEnabled"], false);
    let patch = json!({"isEnabled": true, "textBody": "Away", "toDate": "2027-01-01T00:00:00Z"});
    let set = |patch: &Value| {
        call(
            &context,
            "VacationResponse/set",
            &json!({"accountId": id, "update": {"singleton": patch}}),
        )
        .1
    };
    let done = set(&patch);
    assert_eq!(
        (&done["updated"], &done["oldState"]),
        (&json!({"singleton": null}), &before["state"])
    );
    assert_ne!(done["newState"], done["oldState"]);
    // Setting the same values again does not change the state.
    assert_eq!(set(&patch)["newState"], done["newState"]);
    let (_, after) = call(
        &context,
        "VacationResponse/get",
        &json!({"accountId": id, "ids": ["singleton", "x"], "properties": ["textBody"]}),
    );
    assert_eq!(after["list"], json!([{"id": "singleton", "textBody": "Away"}]));
    assert_eq!(after["notFound"], json!(["x"]));
    for (patch, property) in [
        (json!({"isEnabled": 1}), "isEnabled"),
        (json!({"fromDate": "2026-01-01"}), "fromDate"),
        (json!({"fromDate": "2026-01-01t00:00:00Z"}), "fromDate"),
        (json!({"fromDate": "2026-01-01T00:00:00+00:00"}), "fromDate"),
        // After the `toDate` that is set.
        (json!({"fromDate": "2028-01-01T00:00:00Z"}), "fromDate"),
        (json!({"colour": "red"}), "colour"),
        // The standard object has only the properties of RFC 8621 §8.
        (json!({"from": {"email": "x@example.org"}}), "from"),
        (json!({"audience": "known"}), "audience"),
    ] {
        let refused = &set(&patch)["notUpdated"]["singleton"];
        assert_eq!(
            (&refused["type"], &refused["properties"][0]),
            (&json!("invalidProperties"), &json!(property)),
            "{patch}"
        );
    }
    let refused = call(
        &context,
        "VacationResponse/set",
        &json!({"accountId": id, "create": {"k": {}}, "destroy": ["singleton"]}),
    )
    .1;
    assert_eq!(
        (&refused["notCreated"]["k"]["type"], &refused["notDestroyed"]["singleton"]["type"]),
        (&json!("singleton"), &json!("singleton"))
    );
    let message =
        to_base64(b"From: x@example.net\r\nTo: ann@example.org\r\nSubject: hi\r\n\r\nhi\r\n");
    let (_, would) = call(&context, "Vacation/test", &json!({"accountId": id, "message": message}));
    assert!(would["reply"].as_str().unwrap().contains("Subject: Auto: hi"), "{would}");
    let (_, none) = call(
        &context,
        "Vacation/test",
        &json!({"accountId": id, "message": message, "sender": ""}),
    );
    assert_eq!(none["reason"], "null-sender");
}

#[test]
fn vendor_properties_are_in_vacation_and_not_in_vacation_response() {
    let context = context();
    let ann = account_of(&context);
    let ask = |name: &str, mut arguments: Value| {
        arguments["accountId"] = ann.clone().into();
        call(&context, name, &arguments).1
    };
    let names = |object: &Value| {
        object.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>()
    };
    let standard = names(&ask("VacationResponse/get", json!({}))["list"][0]);
    assert_eq!(
        standard.iter().map(String::as_str).collect::<Vec<_>>(),
        ["fromDate", "htmlBody", "id", "isEnabled", "subject", "textBody", "toDate"]
    );
    assert_eq!(
        ask("VacationResponse/get", json!({"properties": ["except"]}))["type"],
        "invalidArguments"
    );
    let patch = json!({
        "isEnabled": true, "from": {"name": "Ann", "email": "ann@example.org"},
        "except": ["@Boss.example"],
        "audience": "organisation", "organisation": ["Partner.example"], "language": "EN",
        "days": ["Fri", "24-31"],
        "variants": [{"language": "de", "circle": null, "textBody": "Weg"},
            {"circle": "outside", "textBody": "Out"}],
        "copies": true, "report": true,
    });
    let set = |patch: Value| ask("Vacation/set", json!({"update": {"singleton": patch}}));
    assert_eq!(set(patch)["updated"], json!({"singleton": null}));
    let whole = ask("Vacation/get", json!({}))["list"][0].clone();
    assert!(names(&whole).is_superset(&standard));
    for (property, value) in [
        ("except", json!(["boss.example"])),
        ("audience", json!("organisation")),
        ("organisation", json!(["partner.example"])),
        ("language", json!("en")),
        ("days", json!(["friday", "24-31"])),
        ("copies", json!(true)),
        ("report", json!(true)),
        ("began", json!("2026-11-21T09:00:00Z")),
        ("ended", json!(null)),
        ("reported", json!(false)),
    ] {
        assert_eq!(whole[property], value, "{property}");
    }
    assert_eq!(whole["variants"][1]["circle"], "outside");
    // Setting the standard object leaves the variants unchanged.
    ask("VacationResponse/set", json!({"update": {"singleton": {"textBody": "x"}}}));
    assert_eq!(ask("Vacation/get", json!({}))["list"][0]["variants"], whole["variants"]);
    for (patch, property) in [
        (json!({"audience": "all"}), "audience"),
        (json!({"days": ["someday"]}), "days"),
        (json!({"organisation": ["a b"]}), "organisation"),
        (json!({"language": "d e"}), "language"),
        (json!({"variants": [{"textBody": "for nobody"}]}), "variants"),
        (json!({"variants": [{"language": "de"}, {"language": "DE"}]}), "variants"),
        (json!({"variants": [{"language": "de", "colour": "red"}]}), "variants"),
        (json!({"began": "2026-11-22T09:00:00Z"}), "began"),
        (json!({"from": {"email": "x"}}), "from"),
        (json!({"from": {"name": 5, "email": "ann@example.org"}}), "from"),
        (json!({"replyTo": {"email": "ann@example.org", "colour": 1}}), "replyTo"),
    ] {
        let refused = &set(patch.clone())["notUpdated"]["singleton"];
        assert_eq!(refused["properties"][0], property, "{patch}");
    }
    // Vacation/test shows the reply that each sender would get.
    let test = |from: &str, more: &str| {
        let message =
            format!("From: {from}\r\nTo: ann@example.org\r\nSubject: hi\r\n{more}\r\nhi\r\n");
        ask("Vacation/test", json!({"message": to_base64(message.as_bytes())}))
    };
    set(json!({"days": []}));
    assert!(
        test("bob@example.org", "Accept-Language: de\r\n")["reply"]
            .as_str()
            .unwrap()
            .contains("\r\nWeg")
    );
    assert_eq!(test("bob@example.net", "")["reason"], "not-in-audience");
    set(json!({"audience": "everyone"}));
    let reply = test("bob@example.net", "Accept-Language: de\r\n");
    assert!(
        reply["reply"].as_str().unwrap().contains("\r\nOut")
            && reply["recipient"] == "bob@example.net"
    );
}

#[test]
fn vacation_reply_comes_only_from_an_address_of_the_account() {
    let context = context();
    let ann = account_of(&context);
    let alias = |account: &str, address: &str| {
        call(&context, "Account/alias", &json!({"account": account, "address": address}));
    };
    let set = |email: &str| {
        let patch = json!({"isEnabled": true, "from": {"email": email}});
        call(&context, "Vacation/set", &json!({"accountId": ann, "update": {"singleton": patch}})).1
    };
    let from = || {
        let message =
            to_base64(b"From: x@example.net\r\nTo: ann@example.org\r\nSubject: hi\r\n\r\nhi\r\n");
        let would =
            call(&context, "Vacation/test", &json!({"accountId": ann, "message": message})).1;
        let reply = would["reply"].as_str().unwrap().to_owned();
        reply.lines().find_map(|line| line.strip_prefix("From: ")).unwrap().to_owned()
    };
    alias(&ann, "@example.com");
    for email in ["bob@example.org", "eve@example.net", "x"] {
        let refused = &set(email)["notUpdated"]["singleton"];
        assert_eq!(
            (&refused["type"], &refused["properties"][0]),
            (&json!("invalidProperties"), &json!("from"))
        );
    }
    assert_eq!(set("desk@example.com")["updated"], json!({"singleton": null}));
    assert_eq!(from(), "<desk@example.com>");
    // If the directory gives the address to somebody else, the reply comes from the primary address
    // of the account, and the address cannot be set again.
    alias("bob@example.org", "desk@example.com");
    assert_eq!(from(), "<ann@example.org>");
    assert_eq!(set("Desk@example.com")["notUpdated"]["singleton"]["properties"][0], "from");
    assert_eq!(set("ann+holiday@example.org")["updated"], json!({"singleton": null}));
}

#[test]
fn senders_told_by_a_script_are_not_counted_as_forgotten() {
    let context = context();
    let ann = account_of(&context);
    let done = context.store.commit(ann.parse().unwrap(), |txn| {
        txn.set_vacation(&VacationResponse { enabled: true, ..VacationResponse::default() })?;
        let generation = txn.snapshot().vacation(txn.account())?.generation;
        let week = ToldLifetime::For(std::time::Duration::from_secs(7 * 24 * 3600));
        let bob = Address::parse("bob@example.net").unwrap();
        // The vacation response told the first sender, Sieve scripts the others.
        for (n, memory) in [(1, ToldLifetime::of(generation)), (2, week), (3, week)] {
            txn.remember_told(&ToldKey([n; 32]), &bob, &memory)?;
        }
        Ok(())
    });
    done.unwrap().1.wait_blocking().unwrap();
    let forget = || call(&context, "Told/forget", &json!({"account": ann, "all": true})).1;
    assert_eq!(forget(), json!({"forgotten": 1}));
    assert_eq!(forget(), json!({"forgotten": 0}));
    let told = call(&context, "Told/list", &json!({"account": ann})).1;
    assert_eq!(told["list"].as_array().unwrap().len(), 2);
}

#[test]
fn decisions_are_filtered_and_summarised_in_a_report() {
    let context = context();
    let (ann, ids) = filed(&context, &["one", "two", "three"]);
    let account: crate::model::AccountId = ann.parse().unwrap();
    let id = |n: usize| ids[n].parse().unwrap();
    let silent = |reason: &str| Verdict::Silent { reason: reason.into(), detail: String::new() };
    let all = [
        (0, "2026-11-20T09:00:00Z", "zoe@example.net", silent("disabled")),
        (1, "2026-11-21T10:00:00Z", "bob@example.net", Verdict::Answered(ActionId(1))),
        (2, "2026-11-21T11:00:00Z", "news@lists.example", silent("list")),
    ];
    let away = VacationResponse { enabled: true, ..VacationResponse::default() };
    let done = context.store.commit(account, |txn| {
        txn.set_vacation(&away)?;
        for (n, at, sender, verdict) in &all {
            let at = UtcMillis::parse_rfc3339(at).unwrap();
            let (sender, recipient) =
                (Address::parse(sender).ok(), Address::parse("ann@example.org").unwrap());
            txn.add_decision(&Decision {
                at,
                email: Some(id(*n)),
                sender,
                recipient,
                verdict: verdict.clone(),
                steps: Vec::new(),
            })?;
        }
        Ok(())
    });
    done.unwrap().1.wait_blocking().unwrap();
    let list = |mut arguments: Value| {
        arguments["accountId"] = ann.clone().into();
        let answer = call(&context, "Decision/list", &arguments).1;
        let list = answer["list"].as_array().map_or(&[][..], Vec::as_slice).iter();
        list.map(|row| row["sender"].as_str().unwrap().split('@').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(list(json!({})), ["news", "bob", "zoe"]);
    assert_eq!(list(json!({"limit": 1})), ["news"]);
    assert_eq!(list(json!({"since": "2026-11-21T10:00:00Z"})), ["news", "bob"]);
    assert_eq!(list(json!({"until": "2026-11-21T11:00:00Z"})), ["bob", "zoe"]);
    assert_eq!(list(json!({"answered": true})), ["bob"]);
    assert_eq!(list(json!({"answered": false})), ["news", "zoe"]);
    assert_eq!(list(json!({"reason": "list"})), ["news"]);
    assert_eq!(list(json!({"sender": "EXAMPLE.net", "limit": 1})), ["bob"]);
    for invalid in [
        json!({"accountId": ann, "reason": "colour"}),
        json!({"accountId": ann, "since": "yesterday"}),
    ] {
        assert_eq!(error(&context, "Decision/list", &invalid), "invalidArguments", "{invalid}");
    }

    let report = call(&context, "Vacation/report", &json!({"accountId": ann})).1;
    assert_eq!(
        (&report["messages"], &report["answered"], &report["silent"]),
        (&json!(2), &json!(1), &json!({"list": 1}))
    );
    assert_eq!(
        (&report["began"], &report["ended"]),
        (&json!("2026-11-21T09:00:00Z"), &json!(null))
    );
    assert!(report["text"].as_str().unwrap().contains("two (2026-11-21"), "{report}");
    assert!(report["html"].as_str().unwrap().starts_with("<!DOCTYPE html>"));
    let earlier =
        json!({"accountId": ann, "since": "2026-11-20T00:00:00Z", "until": "2026-11-21T00:00:00Z"});
    assert_eq!(call(&context, "Vacation/report", &earlier).1["silent"], json!({"disabled": 1}));
}
