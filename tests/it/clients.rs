//! JMAP clients of other authors (Python's jmapc, Rust's jmap-client) over HTTPS against the real
//! service, with a real Postfix behind it.
//!
//! Each client logs in, lists, searches, sets keywords, moves, creates a message, sends it, sees it
//! arrive, sets the vacation response and is notified of changes.

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

use crate::bed::TestBed;
use crate::http::password;
use crate::mail::letter;
use crate::mta::{Postfix, can_run_postfix, free_port};

/// A service with two accounts and some mail, which its users reach by HTTPS.
struct Site {
    bed: TestBed,
    postfix: Postfix,
    port: u16,
}

impl Site {
    fn start() -> Self {
        let (relay, port) = (free_port(), free_port());
        let tls = crate::root().join("tests/tls");
        let mut bed = TestBed::new(&format!(
            "relay.host = \"127.0.0.1\"\nrelay.port = {relay}\nrelay.tls = \"none\"\n\
             http.listen = [\"tcp:127.0.0.1:{port}\"]\nhttp.tls-certificate = {:?}\n\
             http.tls-key = {:?}\n",
            tls.join("localhost.cert.pem"),
            tls.join("localhost.key.pem"),
        ));
        bed.start();
        // Under systemd the socket belongs to the user postfix. Here every user may write to it.
        fs::set_permissions(bed.lmtp(), fs::Permissions::from_mode(0o666)).unwrap();
        for (address, name) in [("ann@example.org", "Ann"), ("bob@example.net", "Bob")] {
            bed.add_account(address, &["--display-name", name]);
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
        bed.wait_until("the mail has arrived", Duration::from_secs(60), || {
            bed.list_mail("ann@example.org").len() == 3
        });
        Self { bed, postfix, port }
    }

    fn finish(self) {
        drop(self.postfix);
        self.bed.finish();
    }
}

/// A Python that can import jmapc: that of the virtual environment `RESTANTE_JMAPC`, or one of the
/// machine.
fn python_with_jmapc() -> Option<PathBuf> {
    let mut candidates = vec![PathBuf::from("/usr/bin/python3"), PathBuf::from("python3")];
    if let Some(venv) = std::env::var_os("RESTANTE_JMAPC") {
        candidates.insert(0, PathBuf::from(venv).join("bin/python3"));
    }
    candidates.into_iter().find(|python| {
        let found = Command::new(python).args(["-c", "import jmapc"]).output();
        found.is_ok_and(|done| done.status.success())
    })
}

#[test]
fn jmapc_can_read_write_and_send() {
    if !can_run_postfix() {
        return;
    }
    let Some(python) = python_with_jmapc() else {
        return crate::report_missing("jmapc for Python");
    };
    let site = Site::start();
    let done = Command::new(python)
        .arg(crate::root().join("tests/it/clients/jmapc_session.py"))
        .args([&format!("localhost:{}", site.port), "ann@example.org", "bob@example.net", "s3cret"])
        .env("REQUESTS_CA_BUNDLE", crate::root().join("tests/tls/localhost.cert.pem"))
        .output()
        .unwrap();
    let (output, failed) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{output}\n{failed}\n{}", site.bed.log());
    println!("{output}");
    assert_eq!(output.lines().last(), Some("all is well"), "{output}");
    site.finish();
}

/// jmap-client uses HTTP, the event stream and a WebSocket (RFC 8887).
#[test]
fn jmap_client_can_read_write_and_send() {
    if !can_run_postfix() {
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

/// What Ann and Bob do by jmap-client.
async fn session(url: &str) {
    use email::query::Filter as EmailFilter;
    let limit = Duration::from_secs(60);
    let (ann, bob) = (login(url, "ann@example.org").await, login(url, "bob@example.net").await);
    let (inbox, archive, sent) = (
        mailbox(&ann, Role::Inbox).await,
        mailbox(&ann, Role::Archive).await,
        mailbox(&ann, Role::Sent).await,
    );

    // The Inbox is listed, and a word is searched.
    let newest = || [email::query::Comparator::received_at().descending()];
    let listed = ann
        .email_query(EmailFilter::in_mailbox(&inbox).into(), newest().into())
        .await
        .unwrap()
        .take_ids();
    assert_eq!(listed.len(), 3);
    let found = ann
        .email_query(EmailFilter::text("zyzzyva").into(), newest().into())
        .await
        .unwrap()
        .take_ids();
    let one = found[0].clone();
    assert_eq!(found.len(), 1);
    let properties =
        [email::Property::Subject, email::Property::Preview, email::Property::Keywords];
    let shown = ann.email_get(&one, properties.into()).await.unwrap().unwrap();
    assert_eq!(
        (shown.subject(), shown.preview()),
        (Some("minutes"), Some("Of the zyzzyva committee."))
    );

    // From here on the event stream and a WebSocket report changes.
    let mut events = ann.event_source(None::<Vec<_>>, false, Some(30), None).await.unwrap();
    let mut socket = ann.connect_ws().await.unwrap();
    ann.enable_push_ws(None::<Vec<_>>, None::<&str>).await.unwrap();

    // An email gets keywords, and is moved.
    ann.email_set_keywords(&one, ["$seen", "work"]).await.unwrap();
    ann.email_set_mailboxes(&one, [&archive]).await.unwrap();
    let properties = [email::Property::Keywords, email::Property::MailboxIds];
    let moved = ann.email_get(&one, properties.into()).await.unwrap().unwrap();
    let mut keywords = moved.keywords();
    keywords.sort_unstable();
    assert_eq!((keywords, moved.mailbox_ids()), (vec!["$seen", "work"], vec![archive.as_str()]));
    let event = tokio::time::timeout(limit, events.next()).await.unwrap().unwrap().unwrap();
    let PushNotification::StateChange(event) = event else { panic!("{event:?}") };
    assert!(event.has_type(DataType::Email), "{event:?}");
    let event = tokio::time::timeout(limit, socket.next()).await.unwrap().unwrap().unwrap();
    assert!(
        matches!(event, WebSocketMessage::PushNotification(PushObject::StateChange { .. })),
        "{event:?}"
    );

    // A request over the WebSocket.
    let mut request = ann.build();
    let name = request.set_mailbox().create().name("Projects").create_id().unwrap();
    let id = request.send_ws().await.unwrap();
    let made = loop {
        match tokio::time::timeout(limit, socket.next()).await.unwrap().unwrap().unwrap() {
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

    // A message is imported, sent, and arrives through Postfix.
    let raw = b"From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nBcc: ann@example.org\r\n\
        Date: Sat, 21 Nov 2026 10:00:00 +0000\r\nMessage-ID: <plans@example.org>\r\n\
        Subject: plans\r\n\r\nSee you.\r\n";
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
        let until = Instant::now() + limit;
        loop {
            let found = client
                .email_query(EmailFilter::subject(subject).into(), None::<Vec<_>>)
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
    let until = Instant::now() + limit;
    loop {
        let now = ann.email_submission_get(&sending, None).await.unwrap().unwrap();
        if now.undo_status() == Some(&UndoStatus::Final) {
            break;
        }
        assert!(Instant::now() < until, "{now:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    // The vacation response is set and unset.
    ann.vacation_response_enable("Away", Some("In Rome."), None::<&str>).await.unwrap();
    let response = ann.vacation_response_get(None::<Vec<_>>).await.unwrap().unwrap();
    assert!(response.is_enabled() && response.text_body() == Some("In Rome."), "{response:?}");
    ann.vacation_response_disable().await.unwrap();

    // A blob is uploaded and downloaded; an email and a mailbox are destroyed.
    let bytes: Vec<u8> = (0..200_000u32).map(|n| n.to_be_bytes()[3]).collect();
    let blob = ann.upload(None, bytes.clone(), Some("application/octet-stream")).await.unwrap();
    assert_eq!(ann.download(blob.blob_id()).await.unwrap(), bytes);
    ann.email_destroy(&one).await.unwrap();
    assert!(ann.email_get(&one, None::<Vec<_>>).await.unwrap().is_none());
    ann.mailbox_destroy(&made, true).await.unwrap();
}
