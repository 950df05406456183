//! Clients that none of us wrote, over HTTPS against the real service, with a real Postfix behind
//! it: Python's jmapc, and Rust's jmap-client. Each logs in, lists, searches, sets flags, moves,
//! writes a draft, sends it, sees it arrive, sets the vacation, and is told of changes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use jmap_client::client::Client;
use jmap_client::client_ws::WebSocketMessage;
use jmap_client::core::set::SetObject as _;
use jmap_client::email_submission::UndoStatus;
use jmap_client::event_source::PushNotification;
use jmap_client::mailbox::{self, Role};
use jmap_client::{DataType, PushObject, email};

use crate::bed::Bed;
use crate::http::password;
use crate::mail::letter;
use crate::mta::{Postfix, free_port, is_here};

/// A site that its users reach by HTTPS, with mail in it.
struct Site {
    bed: Bed,
    postfix: Postfix,
    port: u16,
}

impl Site {
    fn start() -> Self {
        let (relay, port) = (free_port(), free_port());
        let tls = crate::root().join("tests/tls");
        let mut bed = Bed::new(&format!(
            "relay.host = \"127.0.0.1\"\nrelay.port = {relay}\nrelay.tls = \"none\"\n\
             http.listen = [\"tcp:127.0.0.1:{port}\"]\nhttp.tls-certificate = {:?}\nhttp.tls-key = {:?}\n",
            tls.join("localhost.cert.pem"),
            tls.join("localhost.key.pem"),
        ));
        bed.start();
        // Under systemd the socket is postfix's own.
        fs::set_permissions(bed.lmtp(), fs::Permissions::from_mode(0o666)).unwrap();
        for (address, name) in [("ann@example.org", "Ann"), ("bob@example.net", "Bob")] {
            bed.account(address, &["--display-name", name]);
            password(&bed, address, "s3cret");
        }
        let postfix = Postfix::start(&bed.dir, relay, &bed.lmtp(), "");
        for (subject, text) in [
            ("lunch", "At noon?"),
            ("minutes", "Of the zyzzyva committee."),
            ("party", "On Friday."),
        ] {
            let letter = letter("Bob <bob@example.net>", "ann@example.org", subject, text);
            assert_eq!(postfix.send("bob@example.net", "ann@example.org", &letter).code, 250);
        }
        bed.eventually("the mail is there", Duration::from_secs(60), || {
            bed.mail("ann@example.org").len() == 3
        });
        Self { bed, postfix, port }
    }

    fn finish(self) {
        drop(self.postfix);
        self.bed.finish();
    }
}

/// An interpreter that has jmapc, where there is one.
fn interpreter() -> Option<PathBuf> {
    let mut known = vec![PathBuf::from("/usr/bin/python3"), PathBuf::from("python3")];
    if let Some(venv) = std::env::var_os("RESTANTE_JMAPC") {
        known.insert(0, PathBuf::from(venv).join("bin/python3"));
    }
    known.into_iter().find(|python| {
        let found = Command::new(python).args(["-c", "import jmapc"]).output();
        found.is_ok_and(|done| done.status.success())
    })
}

#[test]
fn jmapc_reads_writes_and_sends() {
    if !is_here() {
        return;
    }
    let Some(python) = interpreter() else { return crate::lacking("jmapc for Python") };
    let site = Site::start();
    let done = Command::new(python)
        .arg(crate::root().join("tests/it/clients/jmapc_session.py"))
        .args([&format!("localhost:{}", site.port), "ann@example.org", "bob@example.net", "s3cret"])
        .env("REQUESTS_CA_BUNDLE", crate::root().join("tests/tls/localhost.cert.pem"))
        .output()
        .unwrap();
    let (said, failed) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{said}\n{failed}\n{}", site.bed.log());
    println!("{said}");
    assert_eq!(said.lines().last(), Some("all is well"), "{said}");
    site.finish();
}

/// jmap-client: over HTTP, then by events and over a WebSocket (RFC 8887).
#[test]
fn jmap_client_reads_writes_and_sends() {
    if !is_here() {
        return;
    }
    let site = Site::start();
    let url = format!("https://localhost:{}", site.port);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(session(&url));
    site.finish();
}

async fn login(url: &str, user: &str) -> Client {
    let client = Client::new()
        .credentials((user, "s3cret"))
        .accept_invalid_certs(true)
        .follow_redirects(["localhost"]);
    client.connect(url).await.unwrap()
}

async fn mailbox(client: &Client, role: Role) -> String {
    let found =
        client.mailbox_query(mailbox::query::Filter::role(role).into(), None::<Vec<_>>).await;
    found.unwrap().take_ids().pop().unwrap()
}

async fn session(url: &str) {
    use email::query::Filter as Is;
    let most = Duration::from_secs(60);
    let (ann, bob) = (login(url, "ann@example.org").await, login(url, "bob@example.net").await);
    let (inbox, archive, sent) = (
        mailbox(&ann, Role::Inbox).await,
        mailbox(&ann, Role::Archive).await,
        mailbox(&ann, Role::Sent).await,
    );

    // Listed, searched.
    let newest = || [email::query::Comparator::received_at().descending()];
    let listed =
        ann.email_query(Is::in_mailbox(&inbox).into(), newest().into()).await.unwrap().take_ids();
    assert_eq!(listed.len(), 3);
    let found =
        ann.email_query(Is::text("zyzzyva").into(), newest().into()).await.unwrap().take_ids();
    let one = found[0].clone();
    assert_eq!(found.len(), 1);
    let properties =
        [email::Property::Subject, email::Property::Preview, email::Property::Keywords];
    let shown = ann.email_get(&one, properties.into()).await.unwrap().unwrap();
    assert_eq!(
        (shown.subject(), shown.preview()),
        (Some("minutes"), Some("Of the zyzzyva committee."))
    );

    // Events and a WebSocket tell of what follows.
    let mut events = ann.event_source(None::<Vec<_>>, false, Some(30), None).await.unwrap();
    let mut socket = ann.connect_ws().await.unwrap();
    ann.enable_push_ws(None::<Vec<_>>, None::<&str>).await.unwrap();

    // Flags, and moves.
    ann.email_set_keywords(&one, ["$seen", "work"]).await.unwrap();
    ann.email_set_mailboxes(&one, [&archive]).await.unwrap();
    let properties = [email::Property::Keywords, email::Property::MailboxIds];
    let moved = ann.email_get(&one, properties.into()).await.unwrap().unwrap();
    let mut keywords = moved.keywords();
    keywords.sort_unstable();
    assert_eq!((keywords, moved.mailbox_ids()), (vec!["$seen", "work"], vec![archive.as_str()]));
    let heard = tokio::time::timeout(most, events.next()).await.unwrap().unwrap().unwrap();
    let PushNotification::StateChange(heard) = heard else { panic!("{heard:?}") };
    assert!(heard.has_type(DataType::Email), "{heard:?}");
    let heard = tokio::time::timeout(most, socket.next()).await.unwrap().unwrap().unwrap();
    assert!(
        matches!(heard, WebSocketMessage::PushNotification(PushObject::StateChange { .. })),
        "{heard:?}"
    );

    // A request over the WebSocket.
    let mut request = ann.build();
    let name = request.set_mailbox().create().name("Projects").create_id().unwrap();
    let id = request.send_ws().await.unwrap();
    let made = loop {
        match tokio::time::timeout(most, socket.next()).await.unwrap().unwrap().unwrap() {
            WebSocketMessage::PushNotification(_) => {}
            WebSocketMessage::Response(mut response) => {
                assert_eq!(response.request_id(), Some(id.as_str()));
                let answer = response.pop_method_response().unwrap().unwrap_set_mailbox();
                break answer.unwrap().created(&name).unwrap().take_id();
            }
        }
    };
    ann.mailbox_rename(&made, "Plans").await.unwrap();
    ann.mailbox_move(&made, Some(archive.as_str())).await.unwrap();
    let plans = ann.mailbox_get(&made, None::<Vec<_>>).await.unwrap().unwrap();
    assert_eq!((plans.name(), plans.parent_id()), (Some("Plans"), Some(archive.as_str())));
    assert!(plans.my_rights().unwrap().may_delete());

    // A message is imported as a draft, sent, and arrives through Postfix.
    let raw = b"From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nBcc: ann@example.org\r\n\
        Date: Sat, 21 Nov 2026 10:00:00 +0000\r\nMessage-ID: <plans@example.org>\r\nSubject: plans\r\n\r\nSee you.\r\n";
    let draft =
        ann.email_import(raw.to_vec(), [&sent], ["$seen"].into(), None).await.unwrap().take_id();
    let identities = {
        let mut request = ann.build();
        request.get_identity();
        request.send_get_identity().await.unwrap().take_list()
    };
    let identity = identities.iter().find(|one| one.email() == Some("ann@example.org")).unwrap();
    let sending =
        ann.email_submission_create(&draft, identity.id().unwrap()).await.unwrap().take_id();
    let arrived = |client: Client, subject: &'static str| async move {
        let until = Instant::now() + most;
        loop {
            let found = client
                .email_query(Is::subject(subject).into(), None::<Vec<_>>)
                .await
                .unwrap()
                .take_ids();
            if let Some(id) = found.first() {
                return client.email_get(id, None::<Vec<_>>).await.unwrap().unwrap();
            }
            assert!(Instant::now() < until, "{subject} does not arrive");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let mail = arrived(bob, "plans").await;
    assert_eq!(mail.from().unwrap()[0].email(), "ann@example.org");
    assert!(mail.bcc().is_none_or(<[_]>::is_empty), "Bcc was sent: {mail:?}");
    let until = Instant::now() + most;
    loop {
        let now = ann.email_submission_get(&sending, None).await.unwrap().unwrap();
        if now.undo_status() == Some(&UndoStatus::Final) {
            break;
        }
        assert!(Instant::now() < until, "{now:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    // The vacation.
    ann.vacation_response_enable("Away", Some("In Rome."), None::<&str>).await.unwrap();
    let response = ann.vacation_response_get(None::<Vec<_>>).await.unwrap().unwrap();
    assert!(response.is_enabled() && response.text_body() == Some("In Rome."), "{response:?}");
    ann.vacation_response_disable().await.unwrap();

    // Up, down, and away.
    let octets: Vec<u8> = (0..200_000u32).map(|n| n.to_be_bytes()[3]).collect();
    let blob = ann.upload(None, octets.clone(), Some("application/octet-stream")).await.unwrap();
    assert_eq!(ann.download(blob.blob_id()).await.unwrap(), octets);
    ann.email_destroy(&one).await.unwrap();
    assert!(ann.email_get(&one, None::<Vec<_>>).await.unwrap().is_none());
    ann.mailbox_destroy(&made, true).await.unwrap();
}
