//! Tests from which addresses an account may send.

use super::*;

/// RFC 8621 §7, §9.6: one address of From is of the identity, the others are of the account, and
/// the sender of a derived envelope is of the identity.
#[test]
fn message_must_be_from_an_address_of_the_identity() {
    let fixture = Fixture::new();
    let ann = &fixture.account;
    call(
        &fixture.context,
        "Account/alias",
        &json!({"account": ann, "address": "fixture@example.org"}),
    );
    call(&fixture.context, "Account/alias", &json!({"account": ann, "address": "@example.com"}));
    let made = fixture.ask("Identity/set", json!({"create": {"all": {"email": "*@example.com"}}}));
    let all = made["created"]["all"]["id"].clone();
    let list = fixture.ask("Identity/get", json!({}))["list"].as_array().unwrap().clone();
    let of = |email: &str| list.iter().find(|one| one["email"] == email).unwrap()["id"].clone();
    let (own, other) = (of("ann@example.org"), of("fixture@example.org"));
    let sender = |from: &str, more: &str, identity: &Value| {
        let raw = DRAFT.replace("From: Ann <ann@example.org>\n", &format!("From: {from}\n{more}"));
        let answer = fixture.send(&fixture.file(&raw), &json!({"identityId": identity}));
        let made =
            answer["created"]["s"]["envelope"]["mailFrom"]["email"].as_str().map(str::to_owned);
        made.unwrap_or_else(|| answer["notCreated"]["s"]["type"].as_str().unwrap().to_owned())
    };
    assert_eq!(sender("ANN@example.org", "", &own), "ANN@example.org");
    assert_eq!(sender("ann@example.org", "Sender: fixture@example.org\n", &own), "ann@example.org");
    assert_eq!(sender("fixture@example.org", "", &own), "forbiddenFrom");
    assert_eq!(sender("fixture@example.org", "", &other), "fixture@example.org");
    assert_eq!(sender("any@example.com", "", &all), "any@example.com");
    assert_eq!(sender("any@example.com", "Sender: fixture@example.org\n", &all), "any@example.com");
    assert_eq!(sender("ann@example.org", "", &all), "forbiddenFrom");
    assert_eq!(
        sender("ann@example.org, any@example.com", "Sender: any@example.com\n", &all),
        "any@example.com"
    );
    assert_eq!(
        sender("ann@example.org, eve@example.net", "Sender: ann@example.org\n", &own),
        "forbiddenFrom"
    );
}

/// A domain that leads to one account may have addresses of other accounts in it. Such an address
/// may be added even after an identity was created for it.
#[test]
fn account_cannot_send_from_an_address_of_another_account() {
    let fixture = Fixture::new();
    let alias = |account: &Value, address: &str, remove: bool| {
        call(
            &fixture.context,
            "Account/alias",
            &json!({"account": account, "address": address, "remove": remove}),
        )
    };
    let (ann, bob) = (json!(fixture.account), json!("bob@example.org"));
    alias(&ann, "@example.com", false);
    let create =
        json!({"all": {"email": "*@example.com"}, "sales": {"email": "sales@example.com"}});
    let made = fixture.ask("Identity/set", json!({ "create": create }))["created"].clone();
    let outcome = |identity: &Value, from: &str, more: &str, envelope: Option<&str>| {
        let raw = DRAFT.replace("From: Ann <ann@example.org>\n", &format!("From: {from}\n{more}"));
        let mut object = json!({ "identityId": identity });
        if let Some(sender) = envelope {
            object["envelope"] =
                json!({"mailFrom": {"email": sender}, "rcptTo": [{"email": "x@example.net"}]});
        }
        let answer = fixture.send(&fixture.file(&raw), &object);
        let refused = answer["notCreated"]["s"]["type"].as_str().map(str::to_owned);
        refused.unwrap_or_else(|| {
            answer["created"]["s"]["envelope"]["mailFrom"]["email"].as_str().unwrap().to_owned()
        })
    };
    let (own, all, sales) = (&json!(fixture.identity), &made["all"]["id"], &made["sales"]["id"]);
    assert_eq!(outcome(all, "boss@example.com", "", None), "boss@example.com");
    assert_eq!(outcome(sales, "sales@example.com", "", None), "sales@example.com");
    alias(&bob, "boss@example.com", false);
    alias(&bob, "sales@example.com", false);
    assert_eq!(outcome(all, "boss@example.com", "", None), "forbiddenFrom");
    assert_eq!(outcome(all, "boss+x@example.com", "", None), "forbiddenFrom");
    assert_eq!(
        outcome(all, "any@example.com", "Sender: boss@example.com\n", None),
        "forbiddenFrom"
    );
    assert_eq!(
        outcome(all, "any@example.com, boss@example.com", "Sender: any@example.com\n", None),
        "forbiddenFrom"
    );
    assert_eq!(outcome(all, "any@example.com", "", Some("boss@example.com")), "forbiddenMailFrom");
    assert_eq!(outcome(own, "ann@example.org", "", Some("boss@example.com")), "forbiddenMailFrom");
    assert_eq!(outcome(all, "any@example.com", "", Some("any@example.com")), "any@example.com");
    // The identity was created while the address was still the account's.
    assert_eq!(outcome(sales, "sales@example.com", "", None), "forbiddenFrom");
    assert_eq!(outcome(sales, "any@example.com", "", None), "forbiddenFrom");
    alias(&ann, "@example.com", true);
    assert_eq!(outcome(all, "any@example.com", "", None), "forbiddenFrom");
    assert_eq!(outcome(own, "ann@example.org", "", None), "ann@example.org");
}

/// If local parts are case-sensitive, an account sends only from its addresses as they are written.
#[test]
fn account_sends_from_case_sensitive_address_as_written() {
    let fixture = Fixture::new();
    let settings =
        crate::account::Settings { case_sensitive: true, ..crate::account::Settings::default() };
    fixture.context.directory.settings().set(settings);
    let alias = |account: &str, address: &str| {
        call(&fixture.context, "Account/alias", &json!({"account": account, "address": address}));
    };
    alias(&fixture.account, "Boss@example.org");
    alias("bob@example.org", "boss@example.org");
    let list = fixture.ask("Identity/get", json!({}))["list"].as_array().unwrap().clone();
    let boss = list.iter().find(|one| one["email"] == "Boss@example.org").unwrap()["id"].clone();
    for (from, kind) in
        [("Boss@Example.org", Value::Null), ("boss@example.org", json!("forbiddenFrom"))]
    {
        let email = fixture.file(&DRAFT.replace("ann@example.org", from));
        let answer = fixture.send(&email, &json!({"identityId": boss}));
        assert_eq!(answer["notCreated"]["s"]["type"], kind, "{answer}");
    }
}

/// A second author may stand within a From field, or after the last field that is examined. So a
/// message with more fields than are examined is refused, whatever the further ones are.
#[test]
fn message_with_a_hidden_author_is_refused() {
    let fixture = Fixture::new();
    let junk = "junk\n".repeat(crate::model::limits::MAX_HEADER_FIELDS);
    for field in ["From: eve@example.net", "Bcc: eve@example.net", "X-Other: x"] {
        let raw = DRAFT.replace("Subject: lunch\n", &format!("{junk}{field}\n"));
        let error = fixture.refused(&fixture.file(&raw), &json!({}));
        assert_eq!(
            (&error["type"], &error["properties"]),
            (&json!("invalidEmail"), &json!(["headers"])),
            "{field}"
        );
    }
    let with = |from: &str| fixture.file(&DRAFT.replace("Ann <ann@example.org>", from));
    for from in [
        "Ann <ann@example.org> <eve@example.net>",
        "<ann@example.org><eve@example.net>",
        "<ann@example.org> \"eve\"@example.net",
        "ann@example.org eve@example.net",
        "<ann@example.org> eve@[192.0.2.1]",
        "<ann@example.org> \"x <eve@example.net>",
    ] {
        let error = fixture.refused(&with(from), &json!({}));
        assert!(
            ["invalidEmail", "forbiddenFrom"].map(Value::from).contains(&error["type"]),
            "{from}: {error}"
        );
    }
    for from in [
        "\"eve@example.net\" <Ann@example.org>",
        "ann@example.org (eve@example.net)",
        "=?utf-8?q?eve@example.net?= <ann+x@example.org>",
        "\"a \\\" <eve@example.net>\" <ann@example.org>",
        "ann@example.org <ann@example.org>",
    ] {
        let answer = fixture.send(&with(from), &json!({}));
        assert_eq!(answer["notCreated"]["s"], Value::Null, "{from}");
    }
    let long =
        format!("{}ann@example.org", "(x) ".repeat(crate::model::limits::MAX_FIELD_BYTES / 4));
    assert_eq!(fixture.refused(&with(&long), &json!({}))["type"], "invalidEmail");
}
