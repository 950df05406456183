//! What one user does must not stop the others: each resource is taken up here by one, and then
//! somebody else asks.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use serde_json::{Value, json};

use crate::bed::Bed;
use crate::http::{basic, bed, connect, exchange, get, password};
use crate::mail::{Client, letter};
use crate::push::Socket;

const ECHO: &[u8] =
    br#"{"using":["urn:ietf:params:jmap:core"],"methodCalls":[["Core/echo",{},"0"]]}"#;

/// A bed with Ann, who takes what she can, and Bob.
fn two(more: &str) -> Bed {
    let bed = bed(more);
    bed.account("bob@example.org", &[]);
    password(&bed, "bob@example.org", "s3cret");
    // From now on their passwords are remembered: nothing waits for their hashes.
    for name in ["ann@example.org", "bob@example.org"] {
        assert_eq!(get(&bed, "/jmap/session", &basic(name, "s3cret")).status, 200);
    }
    bed
}

/// Bob is answered, and does not wait until a time is over.
fn bob_is_answered(bed: &Bed) {
    let stream = connect(bed);
    stream.set_read_timeout(Some(Duration::from_secs(25))).unwrap();
    let bob = basic("bob@example.org", "s3cret");
    let fields = [("Authorization", bob.as_str()), ("Content-Type", "application/json")];
    assert_eq!(exchange(stream, "POST", "/jmap", &fields, ECHO).status, 200);
}

/// A request of Ann's that announces so many bytes and sends a few.
fn unfinished(bed: &Bed, path: &str, kind: &str, announced: usize, sent: &[u8]) -> UnixStream {
    let mut stream = connect(bed);
    let ann = basic("ann@example.org", "s3cret");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {ann}\r\nContent-Type: {kind}\r\nContent-Length: {announced}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(sent).unwrap();
    stream
}

#[test]
fn idle_uploads_and_requests_keep_nobody_waiting() {
    let bed = two("");
    let account =
        bed.json(&["account", "show", "ann@example.org"])["id"].as_str().unwrap().to_owned();
    let upload = format!("/jmap/upload/{account}/");
    let held: Vec<UnixStream> = (0..4)
        .map(|_| unfinished(&bed, &upload, "application/octet-stream", 50 << 20, b"x"))
        .chain((0..8).map(|_| unfinished(&bed, "/jmap", "application/json", 9_999_999, b"{")))
        .collect();
    bob_is_answered(&bed);
    drop(held);
    bed.finish();
}

#[test]
fn one_account_has_a_share_of_the_room_for_requests() {
    let bed = two("");
    // Eight are allowed at once, but no more than 64 MiB of them: the last ones are refused while
    // they come.
    let nearly = vec![b' '; 9_990_000];
    let held: Vec<UnixStream> =
        (0..8).map(|_| unfinished(&bed, "/jmap", "application/json", 9_999_999, &nearly)).collect();
    let refused = held.iter().filter(|stream| {
        let mut first = [0; 12];
        let mut stream: &UnixStream = stream;
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        stream.read_exact(&mut first).is_ok() && &first == b"HTTP/1.1 429"
    });
    assert_eq!(refused.count(), 2);
    bob_is_answered(&bed);
    drop(held);
    bed.finish();
}

#[test]
fn idle_connections_to_the_control_socket_do_not_stop_the_mail() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    if getrlimit(Resource::Nofile).current.is_some_and(|most| most < 2000) {
        return crate::lacking("the right to 2,000 open files");
    }
    let bed = two("");
    let files = || std::fs::read_dir(format!("/proc/{}/fd", bed.pid())).unwrap().count() as u64;
    let most = Some(files() + 800);
    let pid = Pid::from_raw(i32::try_from(bed.pid()).unwrap());
    prlimit(pid, Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
    let mut held: Vec<UnixStream> =
        (0..900).map(|_| UnixStream::connect(bed.dir.join("control")).unwrap()).collect();
    let mut before = 0;
    bed.eventually("all are accepted or turned away", Duration::from_secs(60), || {
        std::thread::sleep(Duration::from_millis(500));
        std::mem::replace(&mut before, files()) == before
    });
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let message = letter("zoe@example.net", "ann@example.org", "still there", "Hello.");
    assert!(client.deliver("zoe@example.net", &["ann@example.org"], &message).unwrap()[0].ok());
    bob_is_answered(&bed);
    // Those who found no place were told so.
    let mut answer = Vec::new();
    held.pop().unwrap().read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 503 "), "{answer:?}");
    drop(held);
    bed.eventually("places again", Duration::from_secs(20), || {
        bed.run(&["account", "list"]).status.success()
    });
    bed.finish();
}

fn refusal(socket: &mut Socket, limit: &str, code: u16) {
    let refused = socket.heard();
    assert_eq!((&refused["@type"], &refused["requestId"]), (&json!("RequestError"), &Value::Null));
    assert_eq!(refused["type"], "urn:ietf:params:jmap:error:limit");
    assert_eq!(refused["limit"], limit);
    let (opcode, closing) = socket.next();
    assert_eq!((opcode, &closing[..2]), (8, &code.to_be_bytes()[..]));
}

#[test]
fn unfinished_messages_of_websockets_take_a_share_of_the_room() {
    let bed = two("");
    let mut sockets: Vec<Socket> =
        (0..12).map(|_| Socket::open(&bed, "Sec-WebSocket-Protocol: jmap\r\n").unwrap()).collect();
    let part = vec![b' '; 9_000_000];
    for socket in &mut sockets {
        socket.begin(0x81, 9_999_999, &part);
    }
    // 64 MiB, and the first bytes of each: seven of them.
    let refused = sockets.iter_mut().filter_map(|socket| socket.is_told().then_some(socket));
    let refused: Vec<&mut Socket> = refused.collect();
    assert_eq!(refused.len(), 5);
    for socket in refused {
        refusal(socket, "maxConcurrentRequests", 1013);
    }
    bob_is_answered(&bed);
    drop(sockets);
    bed.finish();
}

#[test]
fn a_message_over_the_limit_is_answered_before_the_websocket_closes() {
    let bed = two("");
    let open = || Socket::open(&bed, "Sec-WebSocket-Protocol: jmap\r\n").unwrap();
    let mut socket = open();
    socket.frame(0x81, &vec![b' '; 20_000_000]);
    refusal(&mut socket, "maxSizeRequest", 1009);
    // In fragments, none of which is too large alone.
    let mut socket = open();
    socket.frame(0x01, &vec![b' '; 6_000_000]);
    socket.frame(0x80, &vec![b' '; 6_000_000]);
    refusal(&mut socket, "maxSizeRequest", 1009);
    // One that may be so large is answered.
    let mut socket = open();
    let text =
        json!({"@type": "Request", "using": ["urn:ietf:params:jmap:core"], "methodCalls": []})
            .to_string();
    socket.frame(0x81, format!("{text}{}", " ".repeat(9_000_000)).as_bytes());
    assert_eq!(socket.heard()["@type"], "Response");
    bed.finish();
}
