//! Who sees scripts, and where they appear beside their own methods: blobs, the session, the vendor
//! property, pushes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::sharing::SharingFixture;
use super::super::{call, error};
use super::{Fixture, KEEP, id_of};
use crate::jmap::{CAPABILITIES, Caller, Context, ObservedAccount, PushState, run, session};
use crate::model::{AccountId, ScriptError, SieveScript, UtcMillis};
use crate::wire::jmap::{CORE, SIEVE, parse};
use crate::{filter, store};

#[test]
fn source_of_a_script_is_a_blob() {
    let bed = Fixture::new();
    let source = format!("# {}\r\n\tkeep;\n# é \r\n\n", "x".repeat(200_000));
    let (id, twin) = (bed.store("long", &source), bed.store("twin", &source));
    let blob = bed.blob_id(&id);
    let account = bed.context.accessible_account(bed.account()).unwrap();
    let parsed = blob.parse().unwrap();
    let found = bed.context.blob(&account, &parsed).unwrap().unwrap();
    assert_eq!(found.media_type(), Some("application/sieve"));
    assert_eq!(found.size(&bed.context.store).unwrap(), source.len() as u64);
    let bytes = bed.context.blob_bytes(&account, &parsed, u64::MAX).unwrap();
    assert_eq!(bytes.as_deref(), Some(source.as_bytes()));
    // From the LF of the first line to that of the second.
    let part =
        json!({"ids": [blob], "properties": ["data:asText"], "offset": 200_003, "length": 8});
    assert_eq!(bed.ask("Blob/get", part)["list"][0]["data:asText"], &source[200_003..200_011]);
    let lookup = json!({"ids": [blob], "typeNames": ["SieveScript", "Email"]});
    let matched = &bed.ask("Blob/lookup", lookup)["list"][0]["matchedIds"];
    assert_eq!(*matched, json!({"SieveScript": [id, twin], "Email": []}));
    // The blob can be copied, and be the source of another script.
    let bob = bed.context.directory.find_account("bob@example.org").unwrap().unwrap().0;
    let copy = json!({"fromAccountId": bed.ann, "accountId": bob.to_string(), "blobIds": [blob]});
    let copied = call(&bed.context, "Blob/copy", &copy).1;
    assert_eq!(copied["copied"], json!({&blob: blob}), "{copied}");
    let third = bed.set(json!({"create": {"t": {"name": "third", "blobId": blob}}}));
    assert_eq!(third["created"]["t"], json!({"id": id_of(&third, "t"), "isActive": false}));

    // A reader of a source that is replaced meanwhile fails. The blob stays, since the script
    // `twin` has the same source.
    let mut reader = found.reader(0..u64::MAX);
    assert!(reader.next(&bed.context.store).unwrap().is_some());
    bed.set(json!({"update": {&id: {"blobId": bed.upload(KEEP)}}}));
    assert!(reader.next(&bed.context.store).is_err());
    assert_eq!(bed.blob_id(&twin), blob);
    assert!(bed.context.blob_bytes(&account, &parsed, u64::MAX).unwrap().is_some());
}

#[test]
fn guest_has_no_scripts_and_no_blobs_of_scripts() {
    let bed = SharingFixture::new();
    bed.open(&bed.inbox, &["mayReadItems", "mayAddItems"]);
    let ann: AccountId = bed.ann.parse().unwrap();
    let commit = |txn: &mut store::Txn<'_>| txn.create_script("own", KEEP.as_bytes());
    let (id, ticket) = bed.context.store.commit(ann, commit).unwrap();
    ticket.wait_blocking().unwrap();
    let (owner, guest) = (bed.asks(&bed.ann), bed.asks(&bed.bob));
    let got = call(&owner, "SieveScript/get", &json!({"accountId": bed.ann})).1;
    let blob = &got["list"][0]["blobId"];
    let calls = [
        ("SieveScript/get", json!({"accountId": bed.ann})),
        ("SieveScript/set", json!({"accountId": bed.ann, "destroy": [id.to_string()]})),
        ("SieveScript/query", json!({"accountId": bed.ann})),
        ("SieveScript/validate", json!({"accountId": bed.ann, "blobId": blob})),
    ];
    for (method, arguments) in &calls {
        assert_eq!(error(&guest, method, arguments), "accountNotSupportedByMethod", "{method}");
    }
    let stranger = json!({"accountId": bed.bob});
    assert_eq!(error(&owner, "SieveScript/get", &stranger), "accountNotFound");
    let found = call(&guest, "Blob/get", &json!({"accountId": bed.ann, "ids": [blob]})).1;
    assert_eq!(found["notFound"], json!([blob]));
    let capabilities = |context: &Context| {
        let session = session(context).unwrap().json();
        session["accounts"][&bed.ann]["accountCapabilities"].clone()
    };
    assert!(capabilities(&owner).get(SIEVE).is_some());
    assert!(capabilities(&guest).get(SIEVE).is_none());
}

#[test]
fn session_has_the_limits_and_extensions_of_the_site() {
    let spam = Some(filter::SpamHeader { name: "X-Spam-Score".into(), full_score: 15_000 });
    let bed = Fixture::with(filter::Settings {
        max_scripts: 7,
        max_script_bytes: 1000,
        max_redirects: 2,
        spam,
        ..filter::Settings::default()
    });
    let login = |context: &Context| {
        let caller = Caller { account: Some(bed.account()), ..Caller::default() };
        session(&Context { caller, ..context.clone() }).unwrap().json()
    };
    let shown = login(&bed.context);
    let implementation = shown["capabilities"][SIEVE]["implementation"].as_str().unwrap();
    assert!(implementation.starts_with("Restante "), "{implementation}");
    assert_eq!(shown["primaryAccounts"][SIEVE], bed.ann);
    let mut of_account = shown["accounts"][&bed.ann]["accountCapabilities"][SIEVE].clone();
    let extensions = of_account.as_object_mut().unwrap().remove("sieveExtensions").unwrap();
    assert_eq!(
        of_account,
        json!({
            // 128 characters of up to 4 bytes each.
            "maxSizeScriptName": 512,
            "maxSizeScript": 1000,
            "maxNumberScripts": 7,
            "maxNumberRedirects": 2,
            "notificationMethods": ["mailto"],
            "externalLists": null,
        })
    );
    let has = |name: &str| extensions.as_array().unwrap().contains(&json!(name));
    assert!(has("fileinto") && has("spamtest") && has("enotify") && !has("extlists"));
    // The state of the session changes with the settings.
    for settings in [
        filter::Settings { max_scripts: 8, ..(*bed.context.filter).clone() },
        filter::Settings { max_script_bytes: 8, ..(*bed.context.filter).clone() },
        filter::Settings { max_redirects: 8, ..(*bed.context.filter).clone() },
        filter::Settings { spam: None, ..(*bed.context.filter).clone() },
    ] {
        let other = Context { filter: Arc::new(settings), ..bed.context.clone() };
        assert_ne!(login(&other)["state"], shown["state"]);
    }
}

#[test]
fn last_failed_runs_of_a_script_are_a_vendor_property() {
    let bed = Fixture::new();
    let (one, two) = (bed.store("one", KEEP), bed.store("two", KEEP));
    let state = bed.get()["state"].clone();
    // The name of the script, the line (0 for none) and the message of each failed run, oldest
    // first.
    let errors = [("one", 3, "too many actions"), ("site:a.sieve", 1, "x"), ("one", 0, "fuel")];
    for (second, (script, line, message)) in (0..).zip(errors) {
        let at = UtcMillis(1_795_251_600_000 + second * 1000);
        let (script, message) = (script.to_owned(), message.to_owned());
        let error = ScriptError { at, script, line, message, email: None };
        let commit = |txn: &mut store::Txn<'_>| txn.add_script_error(&error);
        bed.context.store.commit(bed.account(), commit).unwrap().1.wait_blocking().unwrap();
    }
    let got = bed.ask("SieveScript/get", json!({"ids": [one, two], "properties": ["lastErrors"]}));
    let at = UtcMillis(1_795_251_600_000).rfc3339();
    let later = UtcMillis(1_795_251_602_000).rfc3339();
    assert_eq!(
        got["list"],
        json!([
            {"id": one, "lastErrors": [
                {"at": later, "line": null, "message": "fuel", "emailId": null},
                {"at": at, "line": 3, "message": "too many actions", "emailId": null},
            ]},
            {"id": two, "lastErrors": []},
        ])
    );
    assert_eq!(got["state"], state);
    // Without the vendor capability there is no such property.
    let plain = |arguments: Value| {
        let request =
            json!({"using": [CORE, SIEVE], "methodCalls": [["SieveScript/get", arguments, "c"]]});
        let request = parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
        run(&bed.context, request).unwrap().json()["methodResponses"][0][1].clone()
    };
    let got = plain(json!({"accountId": bed.ann}));
    let names: Vec<&String> = got["list"][0].as_object().unwrap().keys().collect();
    assert_eq!(names.len(), 4, "only the properties of RFC 9661 §2.1: {names:?}");
    let refused = plain(json!({"accountId": bed.ann, "properties": ["lastErrors"]}));
    assert_eq!(refused["type"], "invalidArguments");
}

#[test]
fn changes_of_scripts_are_pushed() {
    let bed = Fixture::new();
    let observed = [ObservedAccount::of_owner(bed.account())];
    let mut known = PushState::now(&bed.context.store, &observed).unwrap();
    let mut pushed = || {
        let change = known.catch_up(&bed.context.store, None).unwrap();
        change.map(|change| change["changed"][&bed.ann].clone())
    };
    let made = bed.set(json!({"create": {"s": {"blobId": bed.upload(KEEP)}}}));
    assert_eq!(pushed(), Some(json!({"SieveScript": made["newState"]})));
    let done = bed.set(json!({"onSuccessActivateScript": id_of(&made, "s")}));
    assert_eq!(pushed(), Some(json!({"SieveScript": done["newState"]})));
    bed.ask("SieveScript/validate", json!({"blobId": bed.upload("stop;")}));
    assert_eq!(pushed(), None);
    let scripts = bed.context.store.snapshot().objects::<SieveScript>(bed.account()).unwrap();
    assert_eq!(scripts.len(), 1);
}
