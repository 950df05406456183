//! The Session resource and its state (RFC 8620 §2, §3.4).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::sharing::SharingFixture;
use super::{account_of, call, context, context_over, letters};
use crate::account::{Directory, NewAccount, Settings};
use crate::filter;
use crate::jmap::{CAPABILITIES, Caller, Context, UploadSettings, run, session};
use crate::model::clock::FixedClock;
use crate::model::{Address, UtcMillis};
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::watched::CountingEngine;
use crate::store::{Options, Store};
use crate::wire::jmap::{ADMIN, parse};

/// The session of a caller without its state and the unread totals, and the state.
fn session_and_state(context: &Context) -> (Value, String) {
    let mut whole = session(context).unwrap().json();
    let state = whole.as_object_mut().unwrap().remove("state").unwrap();
    for account in whole["accounts"].as_object_mut().unwrap().values_mut() {
        account["accountCapabilities"].as_object_mut().unwrap().remove(ADMIN);
    }
    (whole, state.as_str().unwrap().to_owned())
}

/// The `sessionState` of a response to this caller.
fn response_state(context: &Context) -> String {
    let request = json!({"using": CAPABILITIES, "methodCalls": [["Core/echo", {}, "0"]]});
    let response =
        run(context, parse(request.to_string().as_bytes(), CAPABILITIES).unwrap()).unwrap().json();
    response["sessionState"].as_str().unwrap().to_owned()
}

#[test]
fn session_state_changes_with_caller_accounts_and_settings() {
    let mut bed = SharingFixture::new();
    let mut states = BTreeSet::new();
    let mut assert_new = |context: &Context, what: &str| {
        let (whole, state) = session_and_state(context);
        assert_eq!(response_state(context), state, "{what}");
        assert!(states.insert(state), "the state did not move: {what}");
        whole
    };
    let mut sessions = vec![
        assert_new(&bed.asks(&bed.bob), "first session"),
        assert_new(&bed.asks(&bed.ann), "session of another account"),
    ];
    bed.open(&bed.plans, &["mayReadItems"]);
    sessions.push(assert_new(&bed.asks(&bed.bob), "an account was shared"));
    for account in [&bed.bob, &bed.ann] {
        let id = account.parse().unwrap();
        bed.context
            .directory
            .update(id, |row| row.name = format!("new name of {account}"))
            .unwrap();
        sessions.push(assert_new(&bed.asks(&bed.bob), "an account was renamed"));
    }
    bed.context.base_url = "https://other.example.org".into();
    sessions.push(assert_new(&bed.asks(&bed.bob), "another base URL"));
    bed.context.uploads = Arc::new(UploadSettings { max: 1000, ..UploadSettings::default() });
    sessions.push(assert_new(&bed.asks(&bed.bob), "another limit of uploads"));
    bed.context.filter = Arc::new(filter::Settings { max_scripts: 7, ..Default::default() });
    sessions.push(assert_new(&bed.asks(&bed.bob), "another limit of scripts"));
    bed.context.caller = Caller { user: Some("ann".into()), ..Caller::default() };
    sessions.push(assert_new(&bed.context, "a Unix user"));
    let desk = Address::parse("desk@example.org").unwrap();
    let second = NewAccount { unix_user: Some("ann".into()), ..NewAccount::at(desk) };
    bed.context.directory.add(&second).unwrap();
    sessions.push(assert_new(&bed.context, "one more account"));
    bed.context.caller.user = Some("bob".into());
    sessions.push(assert_new(&bed.context, "a Unix user without an account"));
    // Each change of this test can be seen in the session.
    for (at, one) in sessions.iter().enumerate() {
        assert!(sessions.iter().skip(at + 1).all(|other| other != one), "{one}");
    }
}

#[test]
fn session_state_returns_with_the_earlier_session() {
    let bed = SharingFixture::new();
    let before = session_and_state(&bed.asks(&bed.bob));
    bed.open(&bed.plans, &["mayReadItems"]);
    let shared = session_and_state(&bed.asks(&bed.bob));
    assert_ne!(shared, before);
    bed.open(&bed.work, &["mayReadItems", "mayAddItems"]);
    assert_eq!(
        session_and_state(&bed.asks(&bed.bob)),
        shared,
        "rights are properties of the mailboxes"
    );
    bed.close(&bed.plans);
    bed.close(&bed.work);
    assert_eq!(session_and_state(&bed.asks(&bed.bob)), before);
}

#[test]
fn session_state_does_not_change_with_mail_vacation_or_passwords() {
    let bed = SharingFixture::new();
    bed.open(&bed.inbox, &["mayReadItems"]);
    let states = || [&bed.ann, &bed.bob].map(|who| response_state(&bed.asks(who)));
    let (before, ann) = (states(), bed.asks(&bed.ann));
    letters(&bed.context, 2);
    let update = json!({&bed.emails[0]: {"keywords/$seen": true}});
    call(
        &ann,
        "Email/set",
        &json!({"accountId": bed.ann, "update": update, "destroy": [bed.emails[1]]}),
    );
    call(&ann, "Mailbox/set", &json!({"accountId": bed.ann, "create": {"m": {"name": "New"}}}));
    let update = json!({"singleton": {"isEnabled": true}});
    call(&ann, "VacationResponse/set", &json!({"accountId": bed.ann, "update": update}));
    let hashed = ("phone".to_owned(), "$argon2id$".to_owned());
    bed.context
        .directory
        .update(ann.caller.account.unwrap(), |row| row.passwords.push(hashed.clone()))
        .unwrap();
    assert_eq!(states(), before);
}

/// RFC 8620 §3.4: clients fetch the session again when the state moves, so a restart alone must not
/// move it.
#[test]
fn session_state_is_the_same_after_a_restart() {
    let engine = Arc::new(MemoryEngine::new());
    let bed = SharingFixture::over(context_over(engine.clone()));
    bed.open(&bed.plans, &["mayReadItems"]);
    let clock = Arc::new(FixedClock::at(UtcMillis(1_795_999_999_999)));
    let store = Store::open_engine(engine, &Options::small(), clock).unwrap();
    let directory = Directory::new(store.clone(), Settings::default());
    for who in [&bed.ann, &bed.bob] {
        let first = bed.asks(who);
        let second =
            Context { store: store.clone(), directory: directory.clone(), ..first.clone() };
        assert_eq!(response_state(&second), response_state(&first));
        assert_eq!(session_and_state(&second), session_and_state(&first));
    }
}

/// Every response contains the state, so it must cost less than the session.
#[test]
fn session_state_costs_one_read_for_each_shared_account() {
    let engine = Arc::new(CountingEngine::default());
    let bed = SharingFixture::over(context_over(engine.clone()));
    let bob = bed.asks(&bed.bob);
    for shared in 0..2 {
        // The first call reads the accounts into the cache of the directory, and is not counted:
        // `read` sets the count to 0.
        response_state(&bob);
        engine.read();
        response_state(&bob);
        assert_eq!(engine.read(), shared);
        session(&bob).unwrap();
        assert_eq!(
            engine.read(),
            shared + 2,
            "the state of the account and its inbox, for the unread totals"
        );
        bed.open(&bed.plans, &["mayReadItems"]);
    }
}

/// RFC 8621 §1.3, §1.4; RFC 9404 §3.1; RFC 9425 §2.
#[test]
fn session_lists_the_capabilities_of_an_account() {
    let mut context = context();
    let ann = account_of(&context);
    context.caller = Caller { account: Some(ann.parse().unwrap()), ..Caller::default() };
    context.uploads = Arc::new(UploadSettings { max: 7, ..UploadSettings::default() });
    let session = session(&context).unwrap().json();
    let of = |name: &str| {
        session["accounts"][&ann]["accountCapabilities"][format!("urn:ietf:params:jmap:{name}")]
            .clone()
    };
    let fields =
        |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(
        fields(&of("mail")),
        "emailQuerySortOptions maxMailboxDepth maxMailboxesPerEmail maxSizeAttachmentsPerEmail \
            maxSizeMailboxName \
            mayCreateTopLevelMailbox"
    );
    assert!(of("mail")["maxSizeMailboxName"].as_u64().unwrap() >= 100);
    assert_eq!(fields(&of("submission")), "maxDelayedSend submissionExtensions");
    assert!(of("submission")["submissionExtensions"]["FUTURERELEASE"].is_array());
    assert_eq!((of("vacationresponse"), of("quota")), (json!({}), json!({})));
    assert_eq!(
        fields(&of("blob")),
        "maxDataSources maxSizeBlobSet supportedDigestAlgorithms supportedTypeNames"
    );
    assert!(of("blob")["maxDataSources"].as_u64().unwrap() >= 64);
    for name in ["mail", "submission", "vacationresponse", "quota", "blob"] {
        assert_eq!(
            session["capabilities"][format!("urn:ietf:params:jmap:{name}")],
            json!({}),
            "{name}"
        );
        assert_eq!(
            session["primaryAccounts"][format!("urn:ietf:params:jmap:{name}")],
            ann.as_str(),
            "{name}"
        );
    }
    assert_eq!((of("core"), of("websocket")), (Value::Null, Value::Null));
    assert_eq!(session["primaryAccounts"].get("urn:ietf:params:jmap:core"), None);
    // The eight members of RFC 8620 §2.
    let core = &session["capabilities"]["urn:ietf:params:jmap:core"];
    assert_eq!((core.as_object().unwrap().len(), &core["maxSizeUpload"]), (8, &json!(7)));
}

/// Clients show these totals next to the name of an account, before they fetch mailboxes.
#[test]
fn session_and_account_show_the_unread_totals_of_the_inbox() {
    let context = context();
    let account = letters(&context, 3);
    let ann = Context {
        caller: Caller { account: Some(account.parse().unwrap()), ..Caller::default() },
        ..context.clone()
    };
    let session = || session(&ann).unwrap().json();
    let totals =
        |session: &Value| session["accounts"][&account]["accountCapabilities"][ADMIN].clone();
    let before = session();
    assert_eq!(totals(&before), json!({"inboxUnreadEmails": 3, "inboxUnreadThreads": 3}));
    let newest =
        call(&ann, "Email/query", &json!({"accountId": account, "limit": 1})).1["ids"][0].clone();
    let update = json!({newest.as_str().unwrap(): {"keywords/$seen": true}});
    call(&ann, "Email/set", &json!({"accountId": account, "update": update}));
    let after = session();
    assert_eq!(totals(&after), json!({"inboxUnreadEmails": 2, "inboxUnreadThreads": 2}));
    assert_eq!(
        after["state"], before["state"],
        "mail alone makes no client fetch the session again"
    );
    let shown = call(&context, "Account/get", &json!({"account": "ann@example.org"})).1;
    assert_eq!((&shown["inboxUnreadEmails"], &shown["inboxUnreadThreads"]), (&json!(2), &json!(2)));
}
