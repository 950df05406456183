//! Tests of the worker over a store, against scripted relays on real sockets; and of the bytes that
//! it sends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::send::RelayExtensions;
use super::*;
use crate::account::{Directory, Settings as Addresses};
use crate::model::clock::{FixedClock, SystemClock};
use crate::model::{
    AccountId, AccountRow, Action, ActionId, ActionState, Address, BlobHash, Clock, DsnNotify,
    EmailId, LiveValue, MessageRows, RecipientState, Target, ToldKey, ToldLifetime, UtcMillis,
};
use crate::outbox::{
    NewAction, RedirectAction, ReplyAction, RetrySchedule, SubmissionAction, by_hand,
};
use crate::proof::{Algorithm, Signer, SigningKey, generate};
use crate::store::engine::Engine;
use crate::store::engine::fault::FaultyEngine;
use crate::store::engine::memory::MemoryEngine;
use crate::store::{EncodedMessage, Error, NewEmail, NewMailbox, Options, QueueMark, Store, Txn};

mod drain;
mod entitled;
mod lives;
mod order;
mod relays;
mod scripted_relay;
mod submissions;

use scripted_relay::{RelayBehaviour, ScriptedRelay};

pub(super) const ANN: AccountId = AccountId(1);

pub(super) fn directory(store: &Store) -> Directory {
    Directory::new(store.clone(), Addresses::default())
}

fn store() -> Store {
    store_over(Arc::new(MemoryEngine::new()), Arc::new(SystemClock))
}

pub(super) fn store_over(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>) -> Store {
    let store = Store::open_engine(engine, &Options::small(), clock).unwrap();
    let row = AccountRow::new("ann", Address::from_parts("ann", "example.org"), UtcMillis(0));
    commit(&store, |txn| {
        txn.register(&row);
        Ok(())
    });
    store
}

pub(super) fn commit<T>(store: &Store, change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>) -> T {
    let (result, ticket) = store.commit(ANN, change).unwrap();
    // In a thread of its own, because an asynchronous task must not call `wait_blocking`.
    std::thread::scope(|scope| scope.spawn(|| ticket.wait_blocking().unwrap()).join().unwrap());
    result
}

fn at_example_net(local: &str) -> Address {
    Address::from_parts(local, "example.net")
}

fn told_key(to: &str) -> ToldKey {
    let mut key = [0; 32];
    key[..to.len().min(32)].copy_from_slice(&to.as_bytes()[..to.len().min(32)]);
    ToldKey(key)
}

fn reply(to: &str, now: UtcMillis) -> NewAction {
    let reply = ReplyAction {
        recipient: at_example_net(to),
        email: Some(EmailId(1)),
        told: Some(told_key(to)),
        until: None,
        message_id: format!("{to}@example.org"),
        message: b"Subject: x\r\n\r\n.dot\r\n".to_vec(),
    };
    reply.into_action(now)
}

/// Queues a reply to a local part at example.net, with its told row.
pub(super) fn queue_reply(store: &Store, to: &str, state: ActionState) -> ActionId {
    let NewAction { action, bytes } = reply(to, store.clock().now());
    commit(store, |txn| {
        txn.remember_told(&told_key(to), &at_example_net(to), &ToldLifetime::of(0))?;
        txn.queue_action(Action { state, ..action.clone() }, &bytes)
    })
}

/// Files an email for ann, which actions may send.
fn file(store: &Store, raw: &[u8]) -> (EmailId, BlobHash) {
    let blob = BlobHash(*blake3::hash(raw).as_bytes());
    let rows = MessageRows { blob, size: raw.len() as u64, ..MessageRows::default() };
    let encoded = EncodedMessage::new(&rows);
    let (mut results, ticket) = store.commit_message(&[ANN], &encoded, raw, |txn| {
        if txn.state().inbox.0 == 0 {
            let role = Some(crate::model::Role::Inbox);
            txn.create_mailbox(&NewMailbox {
                name: "Inbox".into(),
                parent: None,
                role,
                sort_order: 0,
            })?;
        }
        txn.create_email(&NewEmail {
            message: &encoded,
            prefix: b"",
            mailboxes: [txn.state().inbox].into(),
            keywords: Default::default(),
            received_at: txn.now(),
        })
    });
    let created = results.pop().unwrap().1.unwrap();
    std::thread::scope(|scope| scope.spawn(|| ticket.wait_blocking().unwrap()).join().unwrap());
    (created.0, blob)
}

/// Files a message, and makes the action that submits it to local parts at example.net. The action
/// is not queued.
fn submission(store: &Store, to: &[&str]) -> NewAction {
    let (email, blob) =
        file(store, format!("Subject: to {to:?}\r\nMessage-ID: <s@x>\r\n\r\nhello\r\n").as_bytes());
    let submission = SubmissionAction {
        sender: Some(Address::from_parts("ann", "example.org")),
        recipients: to.iter().map(|name| Target::plain(at_example_net(name))).collect(),
        ret: None,
        envid: None,
        email,
        not_before: None,
        after: None,
        message_id: "s@x".into(),
        prefix: Vec::new(),
        blob,
    };
    submission.into_action(store.clock().now())
}

fn queue(store: &Store, queued: &NewAction) -> ActionId {
    commit(store, |txn| txn.queue_action(queued.action.clone(), &queued.bytes))
}

pub(super) fn settings(port: u16) -> Settings {
    Settings {
        relay: Relay {
            address: RelayAddress::Tcp { host: "127.0.0.1".into(), port },
            protocol: Protocol::Smtp,
            tls: Tls::Opportunistic,
            authorities: Vec::new(),
            tls_name: None,
            login: None,
            hostname: "mx.example".into(),
            timeout: Duration::from_secs(5),
            max_recipients: 100,
            max_messages: 100,
            idle_timeout: Duration::from_millis(200),
        },
        concurrency: 4,
        relay_pause: Duration::from_millis(20),
        retry: RetrySchedule::default(),
        signer: None,
    }
}

struct RunningWorker {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    waker: QueueWaker,
    /// The most actions that the scheduler has had in memory at once.
    max_in_window: Arc<std::sync::atomic::AtomicUsize>,
}

impl RunningWorker {
    fn start(store: &Store, settings: Settings) -> Self {
        let (stop, stopped) = oneshot::channel();
        let queue = QueueWorker::new(store.clone(), directory(store), LiveValue::new(settings));
        let (waker, max_in_window) = (queue.waker(), queue.max_in_window());
        let task = tokio::spawn(queue.run(async { drop(stopped.await) }));
        Self { stop: Some(stop), task, waker, max_in_window }
    }

    async fn stop(mut self) {
        drop(self.stop.take());
        self.task.await.unwrap();
    }
}

/// Waits until a condition holds, for at most 15 seconds.
async fn until(what: &str, mut is_reached: impl FnMut() -> bool) {
    for _ in 0..1500 {
        if is_reached() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain: {what}");
}

fn queued_actions(store: &Store) -> Vec<Action> {
    store.snapshot().outbox(ANN).unwrap()
}

fn is_told(store: &Store, to: &str) -> bool {
    store
        .snapshot()
        .last_told(ANN, &told_key(to), &ToldLifetime::of(0), UtcMillis(0))
        .unwrap()
        .is_some()
}

fn assert_store_is_clean(store: &Store) {
    assert_eq!(store.check().unwrap(), []);
    assert_eq!(store.snapshot().audit_queue(&[]).unwrap().problems, Vec::<String>::new());
}

/// An imported draft may have a blank line, a byte order mark or the From line of an mbox before
/// its header.
#[test]
fn bytes_before_the_header_are_neither_sent_nor_signed() {
    let action = submission(&store(), &["bob"]).action;
    let pem = generate(Algorithm::Ed25519, 0).unwrap();
    let signer = Signer::new(vec![SigningKey::new("example.org", "s", pem.as_bytes()).unwrap()]);
    let signing = Settings { signer: Some(Arc::new(signer)), ..settings(1) };
    for subject in ["lunch", "Gr\u{fc}\u{df}e"] {
        let header = format!("From: ann@example.org\r\nSubject: {subject}\r\n\r\nAt noon?\r\n");
        let extensions = RelayExtensions { eight_bit: true, ..RelayExtensions::default() };
        for before in ["", "\r\n", "\u{feff}", "From ann Sat Nov 21 10:00:00 2026\r\n"] {
            let raw = format!("{before}{header}");
            let prepare = |settings: &Settings| {
                let prepared = send::prepare(settings, &action, raw.as_bytes(), extensions);
                String::from_utf8(prepared.unwrap_or_default()).unwrap()
            };
            assert_eq!(prepare(&settings(1)), header, "{before:?}");
            let signed = prepare(&signing);
            assert!(
                signed.starts_with("DKIM-Signature:") && signed.ends_with(&format!("\r\n{header}")),
                "{signed}"
            );
        }
    }
}
