//! Tests of submissions from an address that does not belong to the account any more, or whose row
//! is damaged.

use super::super::attempt::{AttemptContext, AttemptResult};
use super::*;
use crate::model::ActionKind;
use crate::store::engine::{Batch, Put, Table};
use crate::store::repair::RepairScope;

const BEA: AccountId = AccountId(2);

/// Queues a held submission by ann with this envelope sender (empty for none) and From, to the
/// local part `to` at example.net.
fn queue_held_submission(store: &Store, sender: &str, from: &str, to: &str) -> ActionId {
    let raw = format!("From: {from}\r\nSubject: {to}\r\nMessage-ID: <{to}@x>\r\n\r\nhello\r\n");
    let (email, blob) = file(store, raw.as_bytes());
    let submission = SubmissionAction {
        sender: Address::parse(sender).ok(),
        recipients: vec![Target::plain(at_example_net(to))],
        ret: None,
        envid: None,
        email,
        not_before: None,
        after: None,
        message_id: format!("{to}@x"),
        prefix: Vec::new(),
        blob,
    };
    let NewAction { action, bytes } = submission.into_action(store.clock().now());
    commit(store, |txn| {
        txn.queue_action(Action { state: ActionState::Held, ..action.clone() }, &bytes)
    })
}

/// Runs a change in a thread that may wait for the disk.
fn in_thread(change: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(change).join().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_submission_is_not_sent_from_an_address_of_another_account() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    let (directory, boss) = (directory(&store), Address::parse("boss@example.org").unwrap());
    in_thread(|| directory.add_alias(ANN, &boss).unwrap());
    let from_own =
        queue_held_submission(&store, "ann@example.org", "Ann <ann+x@example.org>", "bob");
    let from_foreign = [
        queue_held_submission(&store, "boss@example.org", "ann@example.org", "cy"),
        queue_held_submission(&store, "ann@example.org", "The boss <boss@example.org>", "dan"),
        queue_held_submission(&store, "", "ann@example.org, boss@example.org", "eve"),
        queue_held_submission(
            &store,
            "ann@example.org",
            "ann@example.org\r\nSender: boss@example.org",
            "fay",
        ),
    ];
    let bea = AccountRow::new("bea", Address::from_parts("bea", "example.org"), UtcMillis(0));
    in_thread(|| {
        let registered = store.commit(BEA, |txn| {
            txn.register(&bea);
            Ok(())
        });
        registered.unwrap().1.wait_blocking().unwrap();
        directory.remove_alias(ANN, &boss).unwrap();
        directory.add_alias(BEA, &boss).unwrap();
    });
    for id in from_foreign.into_iter().chain([from_own]) {
        let action = store.snapshot().action(ANN, id).unwrap().unwrap();
        commit(&store, |txn| {
            txn.update_action(&action, &by_hand::release_action(&action, txn.now()).unwrap())
        });
    }
    let worker = RunningWorker::start(&store, settings(port));
    let state = |id: ActionId| store.snapshot().action(ANN, id).unwrap().unwrap().state;
    until("all are settled", || {
        !from_foreign.iter().chain([&from_own]).any(|id| state(*id).is_open())
    })
    .await;
    worker.stop().await;
    assert_eq!((state(from_own), relay.to("bob")), (ActionState::Sent, 1));
    for (id, to) in from_foreign.into_iter().zip(["cy", "dan", "eve", "fay"]) {
        assert_eq!(
            (state(id), relay.count_commands(&format!("RCPT TO:<{to}@"))),
            (ActionState::Failed, 0),
            "{to}"
        );
        let action = store.snapshot().action(ANN, id).unwrap().unwrap();
        assert_eq!(
            action.last_error.as_deref(),
            Some("boss@example.org is no more an address of the account")
        );
    }
    // No report of the failures was sent: it would go to the new owner of the address.
    assert!(queued_actions(&store).iter().all(|action| action.kind == ActionKind::Submission));
    assert_eq!(relay.received.lock().len(), 1);
    assert_store_is_clean(&store);
}

/// A damaged or lost row of the directory is no proof that an address belongs to another account.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submission_waits_until_the_damaged_row_of_its_address_is_repaired() {
    let account = ANN.0.to_be_bytes();
    // Each row is deleted (`None`), or replaced by bytes that are no row.
    let rows = [
        (Table::Addresses, &b"ann@example.org"[..], None),
        (Table::Addresses, b"ann@example.org", Some(vec![99])),
        (Table::Accounts, &account, None),
        (Table::Accounts, &account, Some(vec![99])),
        // The row of the alias domain.
        (Table::Addresses, b"@@example.com", Some(vec![99])),
    ];
    for (table, key, value) in rows {
        let engine = Arc::new(MemoryEngine::new());
        let (store, relay) =
            (store_over(engine.clone(), Arc::new(SystemClock)), ScriptedRelay::default());
        let (port, _server) = relay.start().await;
        let settings = Arc::new(settings(port));
        let alias = || {
            in_thread(|| directory(&store).add_alias_domain("example.com", "example.org").unwrap());
        };
        alias();
        let id = queue_held_submission(&store, "ann@example.org", "ann@example.com", "bob");
        let action = store.snapshot().action(ANN, id).unwrap().unwrap();
        commit(&store, |txn| {
            txn.update_action(&action, &by_hand::release_action(&action, txn.now()).unwrap())
        });
        let puts = vec![Put { table, key: key.to_vec(), value }];
        engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
        let context = AttemptContext {
            store: store.clone(),
            directory: directory(&store),
            settings: settings.clone(),
            pool: Arc::default(),
            order: Arc::default(),
        };
        let state = || store.snapshot().action(ANN, id).unwrap().unwrap().state;
        let result = context.clone().carry_out((ANN, id)).await;
        assert!(matches!(result, AttemptResult::Rests), "{key:?}: {result:?}");
        assert_eq!((state(), relay.to("bob")), (ActionState::Waiting, 0));
        in_thread(|| {
            drop(
                store
                    .repair(RepairScope::Repair, None, &|_| MessageRows::default(), &mut |_| true)
                    .unwrap(),
            );
        });
        // A repair does not know the domain for which an alias domain stood.
        if key.starts_with(b"@@") {
            alias();
        }
        // Another directory, which has cached nothing of the damage.
        let result =
            AttemptContext { directory: directory(&store), ..context }.carry_out((ANN, id)).await;
        assert!(matches!(result, AttemptResult::Recorded(..)), "{key:?}: {result:?}");
        assert_eq!((state(), relay.to("bob")), (ActionState::Sent, 1));
    }
}
