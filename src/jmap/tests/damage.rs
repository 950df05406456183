//! The answers of methods while a row is damaged or missing.

use super::*;
use crate::model::{AccountId, BlobHash, ObjectKind};
use crate::store::engine::{Batch, Put, Table};
use crate::store::repair::RepairScope;
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::ObjectKey;

/// Ann's account with an alias and a catch-all, over an engine whose rows the test can damage.
struct Bed {
    engine: Arc<MemoryEngine>,
    context: Context,
    ann: String,
}

impl Bed {
    fn new() -> Self {
        let engine = Arc::new(MemoryEngine::new());
        let context = context_over(engine.clone());
        let ann = account_of(&context);
        for address in ["lee@example.org", "@shop.example"] {
            call(&context, "Account/alias", &json!({"account": ann, "address": address}));
        }
        Self { engine, context, ann }
    }

    /// Writes a row directly to the engine, or deletes it, and opens the directory again. The tests
    /// write the row `[99]`, whose version does not exist.
    fn write(&mut self, table: Table, key: &[u8], value: Option<Vec<u8>>) {
        let puts = vec![Put { table, key: key.to_vec(), value }];
        self.engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
        self.context.directory = Directory::new(self.context.store.clone(), Settings::default());
    }

    fn repair(&self) {
        let store = &self.context.store;
        let done = store
            .repair(RepairScope::Repair, None, &|raw| rows(raw, store.secrets()), &mut |_| true)
            .unwrap();
        assert_eq!(done.unrepaired_count, 0);
    }

    fn ask(&self, name: &str, mut arguments: Value) -> Value {
        arguments["accountId"] = self.ann.clone().into();
        let (kind, answer) = call(&self.context, name, &arguments);
        assert_eq!(kind, name, "{answer}");
        answer
    }

    /// Files a letter from lee@example.org to bob@example.net in the Inbox. Returns the id of the
    /// email, and the hash of the message.
    fn file_letter(&self) -> (String, BlobHash) {
        let raw = "From: lee@example.org\nTo: bob@example.net\nDate: Sat, 21 Nov 2026 10:00:00 \
            +0000\n\
            Message-ID: <1@example.org>\nSubject: lunch\n\nAt noon?\n";
        let raw = raw.replace('\n', "\r\n").into_bytes();
        let store = &self.context.store;
        let message = EncodedMessage::new(&rows(&raw, store.secrets()));
        let account: AccountId = self.ann.parse().unwrap();
        let (mut made, ticket) = store.commit_message(&[account], &message, &raw, |txn| {
            let (mailboxes, received_at) = ([txn.state().inbox].into(), txn.now());
            txn.create_email(&NewEmail {
                message: &message,
                prefix: b"",
                mailboxes,
                keywords: [].into(),
                received_at,
            })
        });
        ticket.wait_blocking().unwrap();
        (made.pop().unwrap().1.unwrap().0.to_string(), message.blob)
    }

    /// The identities, sorted by id.
    fn identities(&self) -> Vec<Value> {
        let mut list = self.ask("Identity/get", json!({}))["list"].as_array().unwrap().clone();
        list.sort_by_key(|one| one["id"].to_string());
        list
    }
}

#[test]
fn damaged_row_of_an_own_address_is_server_fail() {
    for damaged in [None, Some(vec![99])] {
        let mut bed = Bed::new();
        let of_lee = bed
            .identities()
            .into_iter()
            .find(|one| one["email"] == "lee@example.org")
            .unwrap()["id"]
            .clone();
        let (email, _) = bed.file_letter();
        bed.write(Table::Addresses, b"lee@example.org", damaged.clone());
        bed.write(Table::Addresses, b"@shop.example", damaged.clone());
        let submission = || {
            let create = json!({"s": {"identityId": of_lee, "emailId": email}});
            bed.ask("EmailSubmission/set", json!({"create": create}))
        };
        let identity = || {
            let create =
                json!({"a": {"email": "lee+x@example.org"}, "d": {"email": "*@shop.example"}});
            bed.ask("Identity/set", json!({"create": create}))
        };
        let vacation = || {
            let from = json!({"name": null, "email": "lee@example.org"});
            bed.ask("Vacation/set", json!({"update": {"singleton": {"from": from}}}))
        };
        assert_eq!(identity()["notCreated"]["a"]["type"], "serverFail", "{}", identity());
        assert_eq!(identity()["notCreated"]["d"]["type"], "serverFail", "{}", identity());
        assert_eq!(vacation()["notUpdated"]["singleton"]["type"], "serverFail", "{}", vacation());
        let refused = submission();
        assert_eq!(refused["notCreated"]["s"]["type"], "serverFail", "{refused}");
        bed.repair();
        assert_eq!(vacation()["notUpdated"], Value::Null, "{}", vacation());
        assert_eq!(identity()["notCreated"], Value::Null);
        assert_eq!(submission()["notCreated"], Value::Null);
    }
}

#[test]
fn email_whose_message_is_lost_is_not_submitted() {
    let mut bed = Bed::new();
    let (email, blob) = bed.file_letter();
    bed.write(Table::Blobs, &blob.0, None);
    let identity = bed.identities()[0]["id"].clone();
    let create = json!({"s": {"identityId": identity, "emailId": email}});
    let refused = bed.ask("EmailSubmission/set", json!({"create": create}));
    assert_eq!(refused["notCreated"]["s"]["type"], "serverFail", "{refused}");
}

#[test]
fn identities_survive_a_damaged_address_row() {
    for key in ["ann@example.org", "lee@example.org"] {
        for (damaged, signed) in
            [(None, true), (None, false), (Some(vec![99]), true), (Some(vec![99]), false)]
        {
            let mut bed = Bed::new();
            let of_key = bed.identities().into_iter().find(|one| one["email"] == key).unwrap();
            let id = of_key["id"].as_str().unwrap();
            if signed {
                bed.ask("Identity/set", json!({"update": {id: {"textSignature": "-- \nAnn"}}}));
            }
            let before = bed.identities();
            bed.write(Table::Addresses, key.as_bytes(), damaged);
            assert_eq!(bed.identities(), before, "{key} while it is damaged");
            bed.repair();
            assert_eq!(bed.identities(), before, "{key} after the repair");
            // An identity that was not edited is destroyed with its address.
            if key == "lee@example.org" && !signed {
                let gone = json!({"account": bed.ann, "address": key, "remove": true});
                call(&bed.context, "Account/alias", &gone);
                assert_eq!(bed.identities().len(), before.len() - 1);
            }
        }
    }
}

/// An account that cannot be read is not reported as missing.
#[test]
fn sharing_with_a_damaged_account_is_server_fail() {
    let mut bed = Bed::new();
    let bob = bed.context.directory.find_account("bob@example.org").unwrap().unwrap().0;
    let inbox = bed.ask("Mailbox/query", json!({"filter": {"role": "inbox"}}))["ids"][0].clone();
    let share = |bed: &Bed, with: AccountId| {
        let update = json!({inbox.as_str().unwrap(): {"shareWith": {
            with.to_string(): {"mayReadItems": true},
        }}});
        let answer = bed.ask("Mailbox/set", json!({"update": update}));
        answer["notUpdated"][inbox.as_str().unwrap()]["type"].clone()
    };
    assert_eq!(share(&bed, AccountId(999)), "invalidProperties");
    bed.write(Table::Accounts, &bob.0.to_be_bytes(), Some(vec![99]));
    assert_eq!(share(&bed, bob), "serverFail");
}

#[test]
fn damaged_account_can_be_named_for_its_repair() {
    let id = |bed: &Bed| bed.ann.parse::<AccountId>().unwrap().0.to_be_bytes();
    for damaged in [None, Some(vec![99])] {
        let mut bed = Bed::new();
        let key = id(&bed);
        bed.write(Table::Accounts, &key, damaged.clone());
        for name in [bed.ann.as_str(), "ann@example.org", "lee@example.org"] {
            let (kind, answer) =
                call(&bed.context, "Store/repair", &json!({"scope": "repair", "accounts": [name]}));
            assert_eq!(
                (kind.as_str(), answer["job"].is_number()),
                ("Store/repair", true),
                "{name}: {answer}"
            );
            while call(&bed.context, "Job/get", &json!({"job": answer["job"]})).1["done"] != true {
                std::thread::yield_now();
            }
        }
        assert_eq!(
            call(&bed.context, "Account/get", &json!({"account": "ann@example.org"})).1["id"],
            bed.ann
        );
        // An address whose row is damaged is found in the row of its account.
        bed.write(Table::Addresses, b"lee@example.org", damaged);
        let named = json!({"scope": "repair", "accounts": ["lee@example.org"]});
        assert_eq!(call(&bed.context, "Store/repair", &named).0, "Store/repair");
        let nobody = json!({"scope": "repair", "accounts": ["nobody@example.org"]});
        assert_eq!(error(&bed.context, "Store/repair", &nobody), "accountNotFound");
    }
}

#[test]
fn damaged_script_is_not_said_to_be_missing() {
    let bed = Bed::new();
    let account: AccountId = bed.ann.parse().unwrap();
    let created = bed.context.store.commit(account, |txn| txn.create_script("main", b"keep;"));
    let (object, ticket) = created.unwrap();
    ticket.wait_blocking().unwrap();
    let key = ObjectKey { account, kind: ObjectKind::SieveScript, object }.encode();
    let puts = vec![Put { table: Table::Objects, key, value: Some(vec![99]) }];
    bed.engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
    for method in ["Sieve/activate", "Sieve/get", "Sieve/remove"] {
        let arguments = json!({"account": bed.ann, "name": "main"});
        assert_eq!(error(&bed.context, method, &arguments), "serverFail", "{method}");
    }
}

/// A repair cannot bring a vacation response back.
#[test]
fn damaged_vacation_response_is_shown_as_off_and_can_be_set_anew() {
    let mut bed = Bed::new();
    let set = |bed: &Bed| {
        let on = json!({"isEnabled": true, "textBody": "Away"});
        bed.ask("VacationResponse/set", json!({"update": {"singleton": on}}))
    };
    assert_eq!(set(&bed)["notUpdated"], Value::Null);
    let key = bed.ann.parse::<AccountId>().unwrap().0.to_be_bytes();
    bed.write(Table::Vacation, &key, Some(vec![99]));
    let shown = |bed: &Bed| {
        let list = bed.ask("VacationResponse/get", json!({}))["list"].clone();
        (list[0]["isEnabled"].clone(), list[0]["textBody"].clone())
    };
    assert_eq!(shown(&bed), (json!(false), Value::Null));
    assert_eq!(set(&bed)["notUpdated"], Value::Null);
    assert_eq!(shown(&bed), (json!(true), json!("Away")));
    assert_eq!(bed.context.store.check().unwrap(), []);
}
