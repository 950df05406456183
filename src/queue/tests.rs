//! The worker over a store, against a relay on a real socket.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::*;
use crate::model::clock::System;
use crate::model::{
    AccountId, AccountRow, Action, ActionId, ActionKind, ActionState, Address, Clock as _, Live, Recall, ToldKey,
    UtcMillis,
};
use crate::store::engine::Engine;
use crate::store::engine::fault::Fault;
use crate::store::engine::memory::Memory;
use crate::store::{Error, Options, Store};

const ANN: AccountId = AccountId(1);

/// A relay that answers RCPT by the local part: `bad` 550 5.1.1, `later` 451; hangs up at once for `tarpit`, and after the
/// dot for `lost`.
async fn relay(listener: TcpListener, caught: Arc<Mutex<Vec<String>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let caught = Arc::clone(&caught);
        tokio::spawn(async move {
            let (read, mut write) = stream.into_split();
            let mut lines = BufReader::new(read).lines();
            let (mut talk, mut in_data) = (String::new(), false);
            drop(write.write_all(b"220 relay\r\n").await);
            while let Ok(Some(line)) = lines.next_line().await {
                talk.push_str(&line);
                talk.push('\n');
                let answer: &[u8] = match line.as_str() {
                    "." if in_data && talk.contains("<lost@") => {
                        caught.lock().push(talk);
                        return;
                    }
                    "." if in_data => {
                        in_data = false;
                        caught.lock().push(std::mem::take(&mut talk));
                        b"250 2.0.0 queued\r\n"
                    }
                    _ if in_data => continue,
                    _ if line.starts_with("EHLO") => b"250-relay\r\n250 DSN\r\n",
                    _ if line.starts_with("RCPT TO:<bad@") => b"550 5.1.1 no such user\r\n",
                    _ if line.starts_with("RCPT TO:<tarpit@") => return,
                    _ if line.starts_with("RCPT TO:<later@") => b"451 4.3.0 later\r\n",
                    "DATA" => {
                        in_data = true;
                        b"354 go\r\n"
                    }
                    "QUIT" => b"221 bye\r\n",
                    _ => b"250 2.0.0 fine\r\n",
                };
                if write.write_all(answer).await.is_err() {
                    return;
                }
            }
        });
    }
}

fn store() -> Store {
    store_over(Arc::new(Memory::new()))
}

fn store_over(engine: Arc<dyn Engine>) -> Store {
    let store = Store::over(engine, &Options::small(), Arc::new(System)).unwrap();
    let row = AccountRow::new("ann", Address::from_parts("ann", "example.org"), UtcMillis(0));
    let (_, ticket) = store
        .commit(ANN, |txn| {
            txn.set_account(&row);
            Ok(())
        })
        .unwrap();
    ticket.wait_blocking().unwrap();
    store
}

fn key_of(to: &str) -> ToldKey {
    ToldKey([u8::try_from(to.len()).unwrap(); 32])
}

async fn queue_reply(store: &Store, to: &str, state: ActionState) {
    let now = System.now();
    let action = Action {
        id: ActionId(0),
        kind: ActionKind::Reply,
        state,
        created: now,
        due: now,
        expires: now.after(Duration::from_secs(3600)),
        attempts: 0,
        last_error: None,
        sender: None,
        recipient: Address::from_parts(to, "example.net"),
        notify_never: true,
        email: None,
        told: Some(key_of(to)),
        message_id: format!("{to}@example.org"),
        message: b"Subject: x\r\n\r\n.dot\r\n".to_vec(),
    };
    let (told, recipient) = (action.told.unwrap(), action.recipient.clone());
    let done = store.commit(ANN, |txn| {
        txn.queue_action(action);
        txn.remember_told(&told, &recipient, &Recall::of(0))
    });
    done.unwrap().1.wait().await.unwrap();
}

fn start(store: &Store, port: u16) -> (oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let relay = Relay {
        host: "127.0.0.1".into(),
        port,
        tls: Tls::Opportunistic,
        hostname: "mx.example".into(),
        patience: Duration::from_secs(5),
    };
    let settings = Settings { relay, concurrency: 4, signer: None, relay_pause: Duration::from_millis(20) };
    let (stop, stopped) = oneshot::channel();
    let queue = Queue::new(store.clone(), Live::new(settings));
    (stop, tokio::spawn(queue.run(async { drop(stopped.await) })))
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not come to pass");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_go_out_once_and_failures_are_told_apart() {
    let store = tokio::task::spawn_blocking(store).await.unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let caught: Arc<Mutex<Vec<String>>> = Arc::default();
    let server = tokio::spawn(relay(listener, Arc::clone(&caught)));
    // An attempt that an earlier run recorded counts as sent: it is not sent again.
    queue_reply(&store, "interrupted", ActionState::Attempting).await;
    for to in ["bob", "bad", "later", "lost"] {
        queue_reply(&store, to, ActionState::Waiting).await;
    }
    let (stop, worker) = start(&store, port);
    until("all attempts", || {
        let left = store.view().outbox(ANN).unwrap();
        left.len() == 1 && left[0].last_error.is_some()
    })
    .await;
    let left = store.view().outbox(ANN).unwrap();
    assert_eq!((left[0].recipient.local(), left[0].attempts, left[0].state), ("later", 1, ActionState::Waiting));
    let told = |to: &str| store.view().told_at(ANN, &key_of(to), &Recall::of(0), UtcMillis(0)).unwrap().is_some();
    assert!(told("interrupted") && told("later"));
    drop(stop);
    worker.await.unwrap();
    let caught = caught.lock().clone();
    assert_eq!(caught.len(), 2, "{caught:?}");
    let bob = caught.iter().find(|talk| talk.contains("<bob@")).unwrap();
    assert!(bob.contains("MAIL FROM:<>\nRCPT TO:<bob@example.net> NOTIFY=NEVER\n"), "{bob}");
    assert!(bob.ends_with("Subject: x\n\n..dot\n.\n"), "{bob}");
    assert!(store.check().unwrap().is_empty());
    server.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_is_down_is_waited_for_and_costs_no_attempts() {
    let store = tokio::task::spawn_blocking(store).await.unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for to in ["a", "bb", "ccc"] {
        queue_reply(&store, to, ActionState::Waiting).await;
    }
    let (stop, worker) = start(&store, port);
    tokio::time::sleep(Duration::from_millis(150)).await;
    drop(stop);
    worker.await.unwrap();
    // Also over a restart meanwhile.
    let (stop, worker) = start(&store, port);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(store.view().outbox(ANN).unwrap().iter().all(|action| action.attempts == 0));
    let caught: Arc<Mutex<Vec<String>>> = Arc::default();
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let server = tokio::spawn(relay(listener, Arc::clone(&caught)));
    until("all sent", || store.view().outbox(ANN).unwrap().is_empty()).await;
    assert_eq!(caught.lock().len(), 3);
    drop(stop);
    worker.await.unwrap();
    server.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_recipient_that_the_relay_breaks_off_over_does_not_keep_the_others_waiting() {
    let store = tokio::task::spawn_blocking(store).await.unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let caught: Arc<Mutex<Vec<String>>> = Arc::default();
    let server = tokio::spawn(relay(listener, Arc::clone(&caught)));
    for to in ["tarpit", "bob", "eve"] {
        queue_reply(&store, to, ActionState::Waiting).await;
    }
    let (stop, worker) = start(&store, port);
    until("the others sent, and this one tried again later", || {
        let left = store.view().outbox(ANN).unwrap();
        left.len() == 1 && left[0].recipient.local() == "tarpit" && left[0].attempts == 1
    })
    .await;
    assert_eq!(caught.lock().len(), 2);
    drop(stop);
    worker.await.unwrap();
    server.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_takes_no_record_is_waited_for_and_nothing_goes_out_twice() {
    let engine = Arc::new(Fault::new(Memory::new()));
    let over: Arc<dyn Engine> = engine.clone();
    let store = tokio::task::spawn_blocking(move || store_over(over)).await.unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let caught: Arc<Mutex<Vec<String>>> = Arc::default();
    let server = tokio::spawn(relay(listener, Arc::clone(&caught)));
    for to in ["bob", "eve"] {
        queue_reply(&store, to, ActionState::Waiting).await;
    }
    // The first record is made; that it went out, and everything after, is not.
    engine.fail_after(1, Error::Full);
    let (stop, worker) = start(&store, port);
    until("one sent", || !caught.lock().is_empty()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Some twenty pauses of 20 ms: neither a busy loop, nor an attempt after each.
    let writes = engine.refused();
    assert!((1..40).contains(&writes), "{writes} writes in vain");
    assert_eq!(caught.lock().len(), 1);
    engine.heal();
    until("all recorded", || store.view().outbox(ANN).unwrap().is_empty()).await;
    assert_eq!(caught.lock().len(), 2);
    drop(stop);
    worker.await.unwrap();
    server.abort();
}
