//! Tests of what relays require: TLS, passwords, LMTP, Unix sockets, few recipients, 7-bit text,
//! ASCII addresses; of reused connections, surplus answers, and lines with dots.

use super::*;
use crate::model::ActionKind;
use crate::queue::relay::RelayCredentials;

fn only_submission(store: &Store) -> Action {
    let mut actions = queued_actions(store);
    actions.retain(|action| action.kind == ActionKind::Submission);
    assert_eq!(actions.len(), 1);
    actions.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_recipients_are_split_over_as_many_transactions_as_needed() {
    for (max_recipients, configured) in [(10, 100), (100, 7)] {
        let (store, relay) = (
            store(),
            ScriptedRelay::of(RelayBehaviour { max_recipients, ..RelayBehaviour::default() }),
        );
        let (port, _server) = relay.start().await;
        let names: Vec<String> = (0..25).map(|n| format!("u{n}")).collect();
        queue(&store, &submission(&store, &names.iter().map(String::as_str).collect::<Vec<_>>()));
        let mut settings = settings(port);
        settings.relay.max_recipients = configured;
        let worker = RunningWorker::start(&store, settings);
        until("sent", || only_submission(&store).state == ActionState::Sent).await;
        worker.stop().await;
        for name in &names {
            assert_eq!(relay.to(name), 1, "{name}");
        }
        assert_eq!(relay.received.lock().len(), 25usize.div_ceil(max_recipients.min(configured)));
        assert!(
            only_submission(&store)
                .recipients
                .iter()
                .all(|one| matches!(one.state, RecipientState::Sent(_)))
        );
        assert_store_is_clean(&store);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_ascii_message_is_converted_for_a_relay_that_needs_7_bit_text() {
    let raw = "Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
               Content-Transfer-Encoding: 8bit\r\n\r\nGr\u{fc}\u{df}e\r\n";
    // How the relay behaves, and how often the message goes out.
    for (behaviour, goes) in [
        (RelayBehaviour::default(), 1),
        (RelayBehaviour { offers: vec![], ..RelayBehaviour::default() }, 1),
        // Offers 8BITMIME, but refuses the message as it is.
        (RelayBehaviour { seven_bit: true, ..RelayBehaviour::default() }, 2),
    ] {
        let (store, relay) = (store(), ScriptedRelay::of(behaviour.clone()));
        let (port, _server) = relay.start().await;
        let (_, blob) = file(&store, raw.as_bytes());
        let queued = submission(&store, &["bob"]);
        queue(
            &store,
            &NewAction { action: Action { blob: Some(blob), ..queued.action }, ..queued },
        );
        let worker = RunningWorker::start(&store, settings(port));
        until("sent", || only_submission(&store).state == ActionState::Sent).await;
        worker.stop().await;
        let received = relay.received.lock().clone();
        assert_eq!(received.len(), goes);
        let last = received.last().unwrap();
        if goes == 1 && !behaviour.offers.is_empty() {
            assert!(last.message == raw && last.mail.contains(" BODY=8BITMIME"), "{last:?}");
        } else {
            assert!(
                last.message.contains("quoted-printable")
                    && last.message.contains("Gr=C3=BC=C3=9Fe"),
                "{last:?}"
            );
            assert!(!last.mail.contains("8BITMIME"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_ascii_address_needs_smtputf8() {
    for (offers, sent) in [(vec!["8BITMIME"], false), (vec!["8BITMIME", "SMTPUTF8"], true)] {
        let (store, relay) =
            (store(), ScriptedRelay::of(RelayBehaviour { offers, ..RelayBehaviour::default() }));
        let (port, _server) = relay.start().await;
        queue(&store, &submission(&store, &["jürgen", "bob"]));
        let worker = RunningWorker::start(&store, settings(port));
        until("done", || !only_submission(&store).state.is_open()).await;
        worker.stop().await;
        assert_eq!(only_submission(&store).state == ActionState::Sent, sent);
        assert_eq!((relay.to("jürgen"), relay.to("bob")), (usize::from(sent), 1));
        assert_eq!(relay.received.lock()[0].mail.contains(" SMTPUTF8"), sent);
    }
}

/// RFC 2033 §4.2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_lmtp_each_recipient_has_its_own_answer() {
    let (store, relay) =
        (store(), ScriptedRelay::of(RelayBehaviour { lmtp: true, ..RelayBehaviour::default() }));
    let (port, _server) = relay.start().await;
    queue(&store, &submission(&store, &["bob", "refused", "bad", "defer"]));
    let mut settings = settings(port);
    settings.relay.protocol = Protocol::Lmtp;
    let worker = RunningWorker::start(&store, settings.clone());
    until("tried", || only_submission(&store).attempts == 1).await;
    worker.stop().await;
    let fate = |name: &str| {
        only_submission(&store)
            .recipients
            .into_iter()
            .find(|one| one.address.local() == name)
            .unwrap()
            .state
    };
    assert!(
        matches!(fate("bob"), RecipientState::Sent(_))
            && matches!(fate("defer"), RecipientState::Waiting)
    );
    assert!(matches!(fate("refused"), RecipientState::Failed { status: [5, 6, 0], .. }));
    assert!(matches!(fate("bad"), RecipientState::Failed { status: [5, 1, 1], .. }));
    assert_store_is_clean(&store);

    // The connection is cut after the answer for the first of three recipients: only the other two
    // are tried again.
    let (store, relay) = (
        super::store(),
        ScriptedRelay::of(RelayBehaviour { lmtp: true, ..RelayBehaviour::default() }),
    );
    let (port, _server) = relay.start().await;
    queue(&store, &submission(&store, &["first", "cut", "third"]));
    settings.relay.address = RelayAddress::Tcp { host: "127.0.0.1".into(), port };
    let worker = RunningWorker::start(&store, settings);
    until("tried", || only_submission(&store).attempts == 1).await;
    worker.stop().await;
    let waits: Vec<(String, bool)> = only_submission(&store)
        .recipients
        .iter()
        .map(|one| (one.address.local().to_owned(), one.is_outstanding()))
        .collect();
    assert_eq!(waits, [("first".into(), false), ("cut".into(), true), ("third".into(), true)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_can_be_a_unix_socket() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("smtp");
    let _server = relay.serve_unix(tokio::net::UnixListener::bind(&path).unwrap());
    queue_reply(&store, "bob", ActionState::Waiting);
    let mut settings = settings(1);
    settings.relay.address = RelayAddress::Unix(path);
    let worker = RunningWorker::start(&store, settings);
    until("sent", || queued_actions(&store).is_empty()).await;
    assert_eq!(relay.to("bob"), 1);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_carries_many_messages_up_to_its_limit() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    for n in 0..60 {
        queue_reply(&store, &format!("u{n}"), ActionState::Waiting);
    }
    let mut settings = Settings { concurrency: 2, ..settings(port) };
    settings.relay.max_messages = 20;
    let worker = RunningWorker::start(&store, settings);
    until("sent", || queued_actions(&store).is_empty()).await;
    let connections = relay.connections.load(Ordering::SeqCst);
    // Three are needed for 60 messages. Two are used side by side, and an idle one may be closed
    // early, so there may be some more.
    assert!((3..=6).contains(&connections), "{connections} connections for 60 messages");
    let mut counts = std::collections::BTreeMap::<usize, usize>::new();
    relay.received.lock().iter().for_each(|mail| *counts.entry(mail.connection).or_default() += 1);
    assert!(counts.values().all(|count| *count <= 20), "{counts:?}");
    until("goodbye", || relay.count_commands("QUIT") == connections).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn surplus_answer_of_the_relay_is_an_error() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    queue_reply(&store, "twice", ActionState::Waiting);
    let worker = RunningWorker::start(&store, settings(port));
    until("tried", || queued_actions(&store).iter().any(|action| action.attempts == 1)).await;
    assert_eq!(relay.received.lock().len(), 0);
    worker.stop().await;
}

/// RFC 5321 §4.5.2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_with_dots_neither_end_a_message_nor_become_commands() {
    let raw = ".\r\nRSET\r\nMAIL FROM:<evil@example.com>\r\n.\n.\r.\r\n..\r\n";
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    let queued = reply("bob", store.clock().now());
    queue(&store, &NewAction { bytes: raw.as_bytes().to_vec(), ..queued });
    let worker = RunningWorker::start(&store, settings(port));
    until("sent", || queued_actions(&store).is_empty()).await;
    worker.stop().await;
    assert_eq!((relay.received.lock().len(), relay.count_commands("MAIL FROM:<evil")), (1, 0));
    assert!(relay.received.lock()[0].message.starts_with(".\r\nRSET\r\n"));
}

/// RFC 4954 (AUTH) and RFC 4616 (PLAIN).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_uses_plain_or_login_and_its_failure_costs_no_attempts() {
    let login = |in_the_clear| {
        Some(RelayCredentials { user: "ann".into(), password: "s3cret".into(), in_the_clear })
    };
    for (offer, auth, works) in [
        ("AUTH LOGIN PLAIN CRAM-MD5", "235 2.7.0 fine\r\n", true),
        ("AUTH CRAM-MD5 LOGIN", "235 2.7.0 fine\r\n", true),
        ("AUTH PLAIN", "535 5.7.8 wrong\r\n", false),
        ("AUTH CRAM-MD5", "235 2.7.0 fine\r\n", false),
    ] {
        let (store, relay) = (
            store(),
            ScriptedRelay::of(RelayBehaviour {
                offers: vec![offer],
                auth,
                ..RelayBehaviour::default()
            }),
        );
        let (port, _server) = relay.start().await;
        queue_reply(&store, "bob", ActionState::Waiting);
        let mut settings = settings(port);
        settings.relay.login = login(false);
        let worker = RunningWorker::start(&store, settings);
        if works {
            until("sent", || queued_actions(&store).is_empty()).await;
            // In Base64: both words with a NUL before each, `ann`, and `s3cret`.
            let plain = relay.count_commands("AUTH PLAIN AGFubgBzM2NyZXQ=");
            let by_login = relay.count_commands("YW5u") + relay.count_commands("czNjcmV0");
            assert_eq!((plain, by_login), if offer.contains("PLAIN") { (1, 0) } else { (0, 2) });
        } else {
            tokio::time::sleep(Duration::from_millis(150)).await;
            // The failure concerns all messages: no attempt is counted, and nothing is lost.
            assert_eq!((queued_actions(&store)[0].attempts, relay.received.lock().len()), (0, 0));
        }
        worker.stop().await;
    }
    assert!(!format!("{:?}", login(true)).contains("s3cret"));
}

/// RFC 3207, RFC 8314 §3.3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn implicit_tls_verifies_the_certificate_and_required_tls_needs_an_offer() {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls");
    let certificate =
        |name: &str| CertificateDer::from_pem_file(dir.join(format!("{name}.cert.pem"))).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate("one")],
            PrivateKeyDer::from_pem_file(dir.join("one.key.pem")).unwrap(),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    for (trusted, name, works) in [
        ("one", "mda.test.example", true),
        ("two", "mda.test.example", false),
        ("one", "other.test.example", false),
    ] {
        let (store, relay) = (store(), ScriptedRelay::default());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (own, acceptor) = (relay.clone(), acceptor.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(stream) = acceptor.accept(stream).await {
                    tokio::spawn(own.clone().talk(stream));
                }
            }
        });
        queue_reply(&store, "bob", ActionState::Waiting);
        let mut settings = settings(port);
        settings.relay.tls = Tls::Implicit;
        settings.relay.authorities = vec![certificate(trusted).to_vec()];
        settings.relay.tls_name = Some(name.into());
        let worker = RunningWorker::start(&store, settings);
        if works {
            until("sent", || queued_actions(&store).is_empty()).await;
        } else {
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(
                (
                    queued_actions(&store).len(),
                    queued_actions(&store)[0].attempts,
                    relay.count_commands("MAIL")
                ),
                (1, 0, 0),
                "{trusted} {name}"
            );
        }
        worker.stop().await;
    }
    // This relay offers no STARTTLS.
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    queue_reply(&store, "bob", ActionState::Waiting);
    let mut settings = settings(port);
    settings.relay.tls = Tls::Required;
    let worker = RunningWorker::start(&store, settings);
    until("asked", || relay.count_commands("EHLO") > 0).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!((queued_actions(&store).len(), relay.count_commands("MAIL")), (1, 0));
    worker.stop().await;
}
