//! What relays want: TLS, passwords, LMTP, Unix sockets, few recipients, seven bits; and
//! connections that are used again.

use super::*;
use crate::model::ActionKind;
use crate::queue::relay::RelayCredentials;

/// The one submission; reports of its failures are beside it.
fn only(store: &Store) -> Action {
    let mut all = left(store);
    all.retain(|action| action.kind == ActionKind::Submission);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_recipients_go_in_as_many_goes_as_the_relay_wants() {
    // One that says so, and one that we know not to take more.
    for (most, ours) in [(10, 100), (100, 7)] {
        let (store, rogue) = (
            store(),
            ScriptedRelay::of(ScriptedRelaySettings { most, ..ScriptedRelaySettings::default() }),
        );
        let (port, _server) = rogue.start().await;
        let names: Vec<String> = (0..25).map(|n| format!("u{n}")).collect();
        queue(&store, &submission(&store, &names.iter().map(String::as_str).collect::<Vec<_>>()));
        let mut settings = settings(port);
        settings.relay.recipients = ours;
        let working = Working::start(&store, settings);
        until("sent", || only(&store).state == ActionState::Sent).await;
        working.stop().await;
        for name in &names {
            assert_eq!(rogue.to(name), 1, "{name}");
        }
        assert_eq!(rogue.seen.lock().len(), 25usize.div_ceil(most.min(ours)));
        assert!(
            only(&store).recipients.iter().all(|one| matches!(one.state, RecipientState::Sent(_)))
        );
        clean(&store);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_ascii_goes_as_seven_bit_text_where_it_must() {
    let raw = "Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
               Content-Transfer-Encoding: 8bit\r\n\r\nGr\u{fc}\u{df}e\r\n";
    for (manners, goes) in [
        (ScriptedRelaySettings::default(), 1),
        (ScriptedRelaySettings { offers: vec![], ..ScriptedRelaySettings::default() }, 1),
        (ScriptedRelaySettings { seven_bit: true, ..ScriptedRelaySettings::default() }, 2),
    ] {
        let (store, rogue) = (store(), ScriptedRelay::of(manners.clone()));
        let (port, _server) = rogue.start().await;
        let (_, blob) = file(&store, raw.as_bytes());
        let queued = submission(&store, &["bob"]);
        queue(
            &store,
            &NewAction { action: Action { blob: Some(blob), ..queued.action }, ..queued },
        );
        let working = Working::start(&store, settings(port));
        until("sent", || only(&store).state == ActionState::Sent).await;
        working.stop().await;
        let seen = rogue.seen.lock().clone();
        assert_eq!(seen.len(), goes);
        let last = seen.last().unwrap();
        if goes == 1 && !manners.offers.is_empty() {
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
async fn an_address_that_is_not_ascii_needs_smtputf8() {
    for (offers, sent) in [(vec!["8BITMIME"], false), (vec!["8BITMIME", "SMTPUTF8"], true)] {
        let (store, rogue) = (
            store(),
            ScriptedRelay::of(ScriptedRelaySettings { offers, ..ScriptedRelaySettings::default() }),
        );
        let (port, _server) = rogue.start().await;
        queue(&store, &submission(&store, &["jürgen", "bob"]));
        let working = Working::start(&store, settings(port));
        until("done", || !only(&store).state.is_open()).await;
        working.stop().await;
        assert_eq!(only(&store).state == ActionState::Sent, sent);
        assert_eq!((rogue.to("jürgen"), rogue.to("bob")), (usize::from(sent), 1));
        assert_eq!(rogue.seen.lock()[0].mail.contains(" SMTPUTF8"), sent);
    }
}

/// RFC 2033 §4.2: an answer for each recipient, and those that came count where the conversation
/// breaks off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_lmtp_each_recipient_is_answered() {
    let (store, rogue) = (
        store(),
        ScriptedRelay::of(ScriptedRelaySettings { lmtp: true, ..ScriptedRelaySettings::default() }),
    );
    let (port, _server) = rogue.start().await;
    queue(&store, &submission(&store, &["bob", "refused", "bad", "defer"]));
    let mut settings = settings(port);
    settings.relay.protocol = Protocol::Lmtp;
    let working = Working::start(&store, settings.clone());
    until("tried", || only(&store).attempts == 1).await;
    working.stop().await;
    let fate = |name: &str| {
        only(&store).recipients.into_iter().find(|one| one.address.local() == name).unwrap().state
    };
    assert!(
        matches!(fate("bob"), RecipientState::Sent(_))
            && matches!(fate("defer"), RecipientState::Waiting)
    );
    assert!(matches!(fate("refused"), RecipientState::Failed { status: [5, 6, 0], .. }));
    assert!(matches!(fate("bad"), RecipientState::Failed { status: [5, 1, 1], .. }));
    clean(&store);

    // The first of three is answered, and then the line is cut: the others are sent again, and the
    // first is not.
    let (store, rogue) = (
        super::store(),
        ScriptedRelay::of(ScriptedRelaySettings { lmtp: true, ..ScriptedRelaySettings::default() }),
    );
    let (port, _server) = rogue.start().await;
    queue(&store, &submission(&store, &["first", "cut", "third"]));
    settings.relay.place = RelayAddress::Tcp { host: "127.0.0.1".into(), port };
    let working = Working::start(&store, settings);
    until("tried", || only(&store).attempts == 1).await;
    working.stop().await;
    let waits: Vec<(String, bool)> = only(&store)
        .recipients
        .iter()
        .map(|one| (one.address.local().to_owned(), one.waits()))
        .collect();
    assert_eq!(waits, [("first".into(), false), ("cut".into(), true), ("third".into(), true)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_may_be_a_unix_socket() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("smtp");
    let _server = rogue.serve_unix(tokio::net::UnixListener::bind(&path).unwrap());
    queue_reply(&store, "bob", ActionState::Waiting);
    let mut settings = settings(1);
    settings.relay.place = RelayAddress::Unix(path);
    let working = Working::start(&store, settings);
    until("sent", || left(&store).is_empty()).await;
    assert_eq!(rogue.to("bob"), 1);
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_carries_many_messages_and_no_more_than_it_may() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    for n in 0..60 {
        queue_reply(&store, &format!("u{n}"), ActionState::Waiting);
    }
    let mut settings = Settings { concurrency: 2, ..settings(port) };
    settings.relay.messages = 20;
    let working = Working::start(&store, settings);
    until("sent", || left(&store).is_empty()).await;
    let connections = rogue.connections.load(Ordering::SeqCst);
    assert!((3..=6).contains(&connections), "{connections} connections for 60 messages");
    let mut of_each = std::collections::BTreeMap::<usize, usize>::new();
    rogue.seen.lock().iter().for_each(|seen| *of_each.entry(seen.connection).or_default() += 1);
    assert!(of_each.values().all(|count| *count <= 20), "{of_each:?}");
    // What lies idle is said goodbye to.
    until("goodbye", || rogue.heard("QUIT") == connections).await;
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_says_more_than_it_was_asked_is_not_believed() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    queue_reply(&store, "twice", ActionState::Waiting);
    let working = Working::start(&store, settings(port));
    until("tried", || left(&store).iter().any(|action| action.attempts == 1)).await;
    assert_eq!(rogue.seen.lock().len(), 0);
    working.stop().await;
}

/// RFC 5321 §4.5.2: a message that begins with a dot does not end there, nor does anything of it
/// become a command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_message_ends_before_its_end() {
    let raw = ".\r\nRSET\r\nMAIL FROM:<evil@example.com>\r\n.\n.\r.\r\n..\r\n";
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    let queued = reply("bob", store.clock().now());
    queue(&store, &NewAction { octets: raw.as_bytes().to_vec(), ..queued });
    let working = Working::start(&store, settings(port));
    until("sent", || left(&store).is_empty()).await;
    working.stop().await;
    assert_eq!((rogue.seen.lock().len(), rogue.heard("MAIL FROM:<evil")), (1, 0));
    assert!(rogue.seen.lock()[0].message.starts_with(".\r\nRSET\r\n"));
}

/// RFC 4954, RFC 4616.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_said_where_it_may_be() {
    let login = |in_the_clear| {
        Some(RelayCredentials { user: "ann".into(), password: "s3cret".into(), in_the_clear })
    };
    for (offer, auth, works) in [
        ("AUTH LOGIN PLAIN CRAM-MD5", "235 2.7.0 fine\r\n", true),
        ("AUTH CRAM-MD5 LOGIN", "235 2.7.0 fine\r\n", true),
        ("AUTH PLAIN", "535 5.7.8 wrong\r\n", false),
        ("AUTH CRAM-MD5", "235 2.7.0 fine\r\n", false),
    ] {
        let (store, rogue) = (
            store(),
            ScriptedRelay::of(ScriptedRelaySettings {
                offers: vec![offer],
                auth,
                ..ScriptedRelaySettings::default()
            }),
        );
        let (port, _server) = rogue.start().await;
        queue_reply(&store, "bob", ActionState::Waiting);
        let mut settings = settings(port);
        settings.relay.login = login(false);
        let working = Working::start(&store, settings);
        if works {
            until("sent", || left(&store).is_empty()).await;
            let plain = rogue.heard("AUTH PLAIN AGFubgBzM2NyZXQ=");
            let by_login = rogue.heard("YW5u") + rogue.heard("czNjcmV0");
            assert_eq!((plain, by_login), if offer.contains("PLAIN") { (1, 0) } else { (0, 2) });
        } else {
            tokio::time::sleep(Duration::from_millis(150)).await;
            // It concerns us: no attempt is counted, and nothing is lost.
            assert_eq!((left(&store)[0].attempts, rogue.seen.lock().len()), (0, 0));
        }
        working.stop().await;
    }
    assert!(!format!("{:?}", login(true)).contains("s3cret"));
}

/// RFC 3207, RFC 8314 §3.3: with the certificate of `tests/tls` and no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_holds_where_it_must() {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let place = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls");
    let certificate =
        |name: &str| CertificateDer::from_pem_file(place.join(format!("{name}.cert.pem"))).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate("one")],
            PrivateKeyDer::from_pem_file(place.join("one.key.pem")).unwrap(),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    for (tls, believed, name, works) in [
        (Tls::Implicit, "one", "mda.test.example", true),
        (Tls::Implicit, "two", "mda.test.example", false),
        (Tls::Implicit, "one", "other.test.example", false),
    ] {
        let (store, rogue) = (store(), ScriptedRelay::default());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (own, secure) = (rogue.clone(), acceptor.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(stream) = secure.accept(stream).await {
                    tokio::spawn(own.clone().talk(stream));
                }
            }
        });
        queue_reply(&store, "bob", ActionState::Waiting);
        let mut settings = settings(port);
        settings.relay.tls = tls;
        settings.relay.authorities = vec![certificate(believed).to_vec()];
        settings.relay.tls_name = Some(name.into());
        let working = Working::start(&store, settings);
        if works {
            until("sent", || left(&store).is_empty()).await;
        } else {
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(
                (left(&store).len(), left(&store)[0].attempts, rogue.heard("MAIL")),
                (1, 0, 0),
                "{believed} {name}"
            );
        }
        working.stop().await;
    }
    // Where TLS is wanted and not offered nothing is sent.
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    queue_reply(&store, "bob", ActionState::Waiting);
    let mut settings = settings(port);
    settings.relay.tls = Tls::Required;
    let working = Working::start(&store, settings);
    until("asked", || rogue.heard("EHLO") > 0).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!((left(&store).len(), rogue.heard("MAIL")), (1, 0));
    working.stop().await;
}
