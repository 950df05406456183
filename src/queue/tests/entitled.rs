//! What was submitted from an address that is the account's no more.

use super::super::attempt::{AttemptContext, AttemptResult};
use super::*;
use crate::model::ActionKind;
use crate::store::engine::{Batch, Put, Table};
use crate::store::repair::RepairScope;

const BEA: AccountId = AccountId(2);

/// Holds a message that ann submitted, with this envelope sender and From.
fn held(store: &Store, sender: &str, from: &str, to: &str) -> ActionId {
    let raw = format!("From: {from}\r\nSubject: {to}\r\nMessage-ID: <{to}@x>\r\n\r\nhello\r\n");
    let (email, blob) = file(store, raw.as_bytes());
    let submission = SubmissionAction {
        sender: Address::parse(sender).ok(),
        recipients: vec![Target::plain(at_home(to))],
        ret: None,
        envid: None,
        email,
        not_before: None,
        after: None,
        message_id: format!("{to}@x"),
        prefix: Vec::new(),
        blob,
    };
    let NewAction { action, octets } = submission.queue(store.clock().now());
    commit(store, |txn| {
        txn.queue_action(Action { state: ActionState::Held, ..action.clone() }, &octets)
    })
}

/// In a thread that may wait for the disk.
fn apart(change: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(change).join().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_submission_is_not_sent_from_an_address_that_became_another_s() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    let (directory, boss) = (directory(&store), Address::parse("boss@example.org").unwrap());
    apart(|| directory.add_alias(ANN, &boss).unwrap());
    let kept = held(&store, "ann@example.org", "Ann <ann+x@example.org>", "bob");
    let lost = [
        held(&store, "boss@example.org", "ann@example.org", "cy"),
        held(&store, "ann@example.org", "The boss <boss@example.org>", "dan"),
        held(&store, "", "ann@example.org, boss@example.org", "eve"),
        held(&store, "ann@example.org", "ann@example.org\r\nSender: boss@example.org", "fay"),
    ];
    let bea = AccountRow::new("bea", Address::from_parts("bea", "example.org"), UtcMillis(0));
    apart(|| {
        let registered = store.commit(BEA, |txn| {
            txn.register(&bea);
            Ok(())
        });
        registered.unwrap().1.wait_blocking().unwrap();
        directory.remove_alias(ANN, &boss).unwrap();
        directory.add_alias(BEA, &boss).unwrap();
    });
    for id in lost.into_iter().chain([kept]) {
        let action = store.snapshot().action(ANN, id).unwrap().unwrap();
        commit(&store, |txn| {
            txn.update_action(&action, &by_hand::release_action(&action, txn.now()).unwrap())
        });
    }
    let working = Working::start(&store, settings(port));
    let state = |id: ActionId| store.snapshot().action(ANN, id).unwrap().unwrap().state;
    until("all are settled", || !lost.iter().chain([&kept]).any(|id| state(*id).is_open())).await;
    working.stop().await;
    assert_eq!((state(kept), rogue.to("bob")), (ActionState::Sent, 1));
    for (id, to) in lost.into_iter().zip(["cy", "dan", "eve", "fay"]) {
        assert_eq!(
            (state(id), rogue.heard(&format!("RCPT TO:<{to}@"))),
            (ActionState::Failed, 0),
            "{to}"
        );
        let action = store.snapshot().action(ANN, id).unwrap().unwrap();
        assert_eq!(
            action.last_error.as_deref(),
            Some("boss@example.org is no more an address of the account")
        );
    }
    // A report would go to whoever has the address now.
    assert!(left(&store).iter().all(|action| action.kind == ActionKind::Submission));
    clean(&store);
}

/// A row of the directory that is damaged or lost does not say that an address is another's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submission_waits_until_the_damaged_row_of_its_address_is_repaired() {
    let account = ANN.0.to_be_bytes();
    let rows = [
        (Table::Addresses, &b"ann@example.org"[..], None),
        (Table::Addresses, b"ann@example.org", Some(vec![99])),
        (Table::Accounts, &account, None),
        (Table::Accounts, &account, Some(vec![99])),
        (Table::Addresses, b"@@example.com", Some(vec![99])),
    ];
    for (table, key, value) in rows {
        let engine = Arc::new(MemoryEngine::new());
        let (store, rogue) =
            (store_over(engine.clone(), Arc::new(SystemClock)), ScriptedRelay::default());
        let (port, _server) = rogue.start().await;
        let settings = Arc::new(settings(port));
        let alias =
            || apart(|| directory(&store).add_alias_domain("example.com", "example.org").unwrap());
        alias();
        let id = held(&store, "ann@example.org", "ann@example.com", "bob");
        let action = store.snapshot().action(ANN, id).unwrap().unwrap();
        commit(&store, |txn| {
            txn.update_action(&action, &by_hand::release_action(&action, txn.now()).unwrap())
        });
        let puts = vec![Put { table, key: key.to_vec(), value }];
        engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
        let office = AttemptContext {
            store: store.clone(),
            directory: directory(&store),
            settings: settings.clone(),
            pool: Arc::default(),
            order: Arc::default(),
        };
        let state = || store.snapshot().action(ANN, id).unwrap().unwrap().state;
        let came = office.clone().carry_out((ANN, id)).await;
        assert!(matches!(came, AttemptResult::Rests), "{key:?}: {came:?}");
        assert_eq!((state(), rogue.to("bob")), (ActionState::Waiting, 0));
        apart(|| {
            drop(
                store
                    .repair(RepairScope::Repair, None, &|_| MessageRows::default(), &mut |_| true)
                    .unwrap(),
            )
        });
        if key.starts_with(b"@@") {
            alias();
        }
        let came =
            AttemptContext { directory: directory(&store), ..office }.carry_out((ANN, id)).await;
        assert!(matches!(came, AttemptResult::Recorded(..)), "{key:?}: {came:?}");
        assert_eq!((state(), rogue.to("bob")), (ActionState::Sent, 1));
    }
}
