//! One user cannot exhaust a resource for the others: Ann, or a local client, occupies as much of a
//! resource as the limits allow, then Bob sends a request. The last test has the errors of a
//! WebSocket message over the limit.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use serde_json::{Value, json};

use crate::bed::TestBed;
use crate::http::{basic, bed, connect, exchange, get, password};
use crate::mail::{Client, letter};
use crate::push::Socket;

const ECHO: &[u8] =
    br#"{"using":["urn:ietf:params:jmap:core"],"methodCalls":[["Core/echo",{},"0"]]}"#;

/// A test bed with the accounts of Ann and Bob, both of whom have a password.
fn two_accounts(more: &str) -> TestBed {
    let bed = bed(more);
    bed.add_account("bob@example.org", &[]);
    password(&bed, "bob@example.org", "s3cret");
    // The service caches verified passwords, so no later request waits for a password hash.
    for name in ["ann@example.org", "bob@example.org"] {
        assert_eq!(get(&bed, "/jmap/session", &basic(name, "s3cret")).status, 200);
    }
    bed
}

/// Fails unless a request of Bob's is answered within 25 s, before any timeout ends.
fn assert_bob_is_answered(bed: &TestBed) {
    let stream = connect(bed);
    stream.set_read_timeout(Some(Duration::from_secs(25))).unwrap();
    let bob = basic("bob@example.org", "s3cret");
    let fields = [("Authorization", bob.as_str()), ("Content-Type", "application/json")];
    assert_eq!(exchange(stream, "POST", "/jmap", &fields, ECHO).status, 200);
}

/// Begins a request of Ann's that announces `announced` bytes of body and sends only `sent`.
fn begin_request(
    bed: &TestBed,
    path: &str,
    kind: &str,
    announced: usize,
    sent: &[u8],
) -> UnixStream {
    let mut stream = connect(bed);
    let ann = basic("ann@example.org", "s3cret");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {ann}\r\nContent-Type: {kind}\r\n\
         Content-Length: {announced}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(sent).unwrap();
    stream
}

#[test]
fn unfinished_uploads_and_requests_do_not_delay_other_users() {
    let bed = two_accounts("");
    let account =
        bed.json(&["account", "show", "ann@example.org"])["id"].as_str().unwrap().to_owned();
    let upload = format!("/jmap/upload/{account}/");
    let held: Vec<UnixStream> = (0..4)
        .map(|_| begin_request(&bed, &upload, "application/octet-stream", 50 << 20, b"x"))
        .chain((0..8).map(|_| begin_request(&bed, "/jmap", "application/json", 9_999_999, b"{")))
        .collect();
    assert_bob_is_answered(&bed);
    drop(held);
    bed.finish();
}

#[test]
fn requests_of_one_account_are_limited_in_number_and_size() {
    let bed = two_accounts("");
    // Eight requests are allowed at once, but no more than 64 MiB of request bodies: two are
    // refused while they arrive.
    let nearly = vec![b' '; 9_990_000];
    let held: Vec<UnixStream> = (0..8)
        .map(|_| begin_request(&bed, "/jmap", "application/json", 9_999_999, &nearly))
        .collect();
    let refused = held.iter().filter(|stream| {
        let mut first = [0; 12];
        let mut stream: &UnixStream = stream;
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        stream.read_exact(&mut first).is_ok() && &first == b"HTTP/1.1 429"
    });
    assert_eq!(refused.count(), 2);
    assert_bob_is_answered(&bed);
    drop(held);
    bed.finish();
}

#[test]
fn idle_control_connections_do_not_stop_delivery() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    if getrlimit(Resource::Nofile).current.is_some_and(|most| most < 2000) {
        return crate::report_missing("the right to 2,000 open files");
    }
    let bed = two_accounts("");
    let files = || std::fs::read_dir(format!("/proc/{}/fd", bed.pid())).unwrap().count() as u64;
    // The service may open 800 more files, fewer than the connections that follow.
    let most = Some(files() + 800);
    let pid = Pid::from_raw(i32::try_from(bed.pid()).unwrap());
    prlimit(pid, Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
    let mut held: Vec<UnixStream> =
        (0..900).map(|_| UnixStream::connect(bed.dir.join("control")).unwrap()).collect();
    let mut before = 0;
    bed.wait_until("all are accepted or refused", Duration::from_secs(60), || {
        std::thread::sleep(Duration::from_millis(500));
        std::mem::replace(&mut before, files()) == before
    });
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let message = letter("zoe@example.net", "ann@example.org", "still there", "Hello.");
    assert!(client.deliver("zoe@example.net", &["ann@example.org"], &message).unwrap()[0].ok());
    assert_bob_is_answered(&bed);
    // Connections over the limit got a response.
    let mut answer = Vec::new();
    held.pop().unwrap().read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 503 "), "{answer:?}");
    drop(held);
    bed.wait_until("connections are accepted again", Duration::from_secs(20), || {
        bed.run(&["account", "list"]).status.success()
    });
    bed.finish();
}

/// Reads the error about `limit`, and the close frame with `code` after it.
fn assert_refused(socket: &mut Socket, limit: &str, code: u16) {
    let refused = socket.receive_json();
    assert_eq!((&refused["@type"], &refused["requestId"]), (&json!("RequestError"), &Value::Null));
    assert_eq!(refused["type"], "urn:ietf:params:jmap:error:limit");
    assert_eq!(refused["limit"], limit);
    let (opcode, closing) = socket.next();
    assert_eq!((opcode, &closing[..2]), (8, &code.to_be_bytes()[..]));
}

#[test]
fn unfinished_websocket_messages_count_as_requests_of_the_account() {
    let bed = two_accounts("");
    let mut sockets: Vec<Socket> =
        (0..12).map(|_| Socket::open(&bed, "Sec-WebSocket-Protocol: jmap\r\n").unwrap()).collect();
    let part = vec![b' '; 9_000_000];
    for socket in &mut sockets {
        // The head of a whole message of text.
        socket.begin(0x81, 9_999_999, &part);
    }
    // 64 MiB hold seven of these parts.
    let refused = sockets.iter_mut().filter_map(|socket| socket.has_data().then_some(socket));
    let refused: Vec<&mut Socket> = refused.collect();
    assert_eq!(refused.len(), 5);
    for socket in refused {
        assert_refused(socket, "maxConcurrentRequests", 1013);
    }
    assert_bob_is_answered(&bed);
    drop(sockets);
    bed.finish();
}

#[test]
fn websocket_message_over_the_limit_gets_an_error_before_the_close() {
    let bed = two_accounts("");
    let open = || Socket::open(&bed, "Sec-WebSocket-Protocol: jmap\r\n").unwrap();
    let mut socket = open();
    socket.frame(0x81, &vec![b' '; 20_000_000]);
    assert_refused(&mut socket, "maxSizeRequest", 1009);
    // Fragments count together: one that begins a message of text, and its last one.
    let mut socket = open();
    socket.frame(0x01, &vec![b' '; 6_000_000]);
    socket.frame(0x80, &vec![b' '; 6_000_000]);
    assert_refused(&mut socket, "maxSizeRequest", 1009);
    // A message below the limit is answered.
    let mut socket = open();
    let text =
        json!({"@type": "Request", "using": ["urn:ietf:params:jmap:core"], "methodCalls": []})
            .to_string();
    socket.frame(0x81, format!("{text}{}", " ".repeat(9_000_000)).as_bytes());
    assert_eq!(socket.receive_json()["@type"], "Response");
    bed.finish();
}
