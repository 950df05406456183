//! Notification of changes over the event stream (RFC 8620 §7.3) and the WebSocket (RFC 8887).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bed::TestBed;
use crate::http::{basic, bed, connect, exchange, get, password};
use crate::mail::{Client, letter};

fn ann() -> String {
    basic("ann@example.org", "s3cret")
}

/// A client of the event stream.
#[derive(Debug)]
pub(crate) struct Events(BufReader<UnixStream>);

impl Events {
    /// Opens a stream. `query` is that of the URL, and `last` the Last-Event-ID.
    pub(crate) fn open(
        bed: &TestBed,
        authorization: &str,
        query: &str,
        last: Option<&str>,
    ) -> Self {
        let mut stream = connect(bed);
        let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
        let head = format!(
            "GET /jmap/events?{query} HTTP/1.1\r\nHost: x\r\n\
             Authorization: {authorization}\r\n{last}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut events = Self(BufReader::new(stream));
        assert!(events.line().contains(" 200 "), "no stream");
        let mut kind = String::new();
        while let line = events.line()
            && !line.is_empty()
        {
            if let Some(value) = line.strip_prefix("content-type: ") {
                kind = value.to_owned();
            }
        }
        assert_eq!(kind, "text/event-stream");
        events
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end_matches(['\r', '\n']).to_owned()
    }

    /// Reads the next event: its name, its id and its data. `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<(String, String, Value)> {
        let (mut name, mut id) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(value) = line.strip_prefix("event: ") {
                name = value.to_owned();
            } else if let Some(value) = line.strip_prefix("id: ") {
                id = value.to_owned();
            } else if let Some(value) = line.strip_prefix("data: ") {
                return Some((name, id, serde_json::from_str(value).unwrap()));
            } else if line == "0" {
                // The last chunk of the response.
                return None;
            }
        }
    }
}

fn deliver(bed: &TestBed, subject: &str) {
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let message = letter("zoe@example.net", "ann@example.org", subject, "Hello.");
    let replies = client.deliver("zoe@example.net", &["ann@example.org"], &message).unwrap();
    assert_eq!(replies[0].code, 250, "{replies:?}");
}

#[test]
fn delivery_is_pushed_at_once_and_missed_changes_on_reconnection() {
    let bed = bed("");
    let account =
        bed.json(&["account", "show", "ann@example.org"])["id"].as_str().unwrap().to_owned();
    let mut all = Events::open(&bed, &ann(), "types=*&closeafter=no&ping=0", None);
    let mut once = Events::open(&bed, &ann(), "types=EmailDelivery&closeafter=state&ping=0", None);
    let mut other = Events::open(&bed, &ann(), "types=VacationResponse&closeafter=no&ping=5", None);
    deliver(&bed, "first");
    let began = Instant::now();
    let (name, first, change) = all.next().unwrap();
    let took = began.elapsed();
    println!("notified {took:?} after the 250");
    assert!(took < Duration::from_millis(100), "{took:?}");
    assert_eq!((name.as_str(), &change["@type"]), ("state", &json!("StateChange")));
    let states = change["changed"][&account].as_object().unwrap();
    for name in ["Email", "EmailDelivery", "Thread", "Mailbox"] {
        assert!(states.contains_key(name), "{change}");
    }
    let (_, _, delivery) = once.next().unwrap();
    assert_eq!(
        delivery["changed"][&account].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["EmailDelivery"]
    );
    assert!(once.next().is_none(), "closeafter=state");
    // A changed keyword is no delivery.
    let email = bed.list_mail("ann@example.org")[0].id.clone();
    bed.run_ok(&["mail", "flag", "-a", "ann@example.org", &email, "--add", "$seen"]);
    let (_, second, change) = all.next().unwrap();
    assert!(change["changed"][&account].get("EmailDelivery").is_none(), "{change}");
    assert!(change["changed"][&account].get("Email").is_some(), "{change}");
    // A client that reconnects gets the changes since its last event id, if there are any.
    let mut back = Events::open(&bed, &ann(), "types=*&closeafter=no&ping=0", Some(&first));
    let (_, id, missed) = back.next().unwrap();
    assert_eq!((&missed, &id), (&change, &second));
    let mut nothing = Events::open(&bed, &ann(), "types=*&closeafter=no&ping=5", Some(&second));
    let (name, _, ping) = nothing.next().unwrap();
    assert_eq!((name.as_str(), ping), ("ping", json!({"interval": 5})));
    // A stream reports only the types that the client asked for.
    assert_eq!(other.next().unwrap().0, "ping");
    assert_eq!(get(&bed, "/jmap/events?ping=x", &ann()).status, 400);
    drop((all, back, nothing, other));
    bed.finish();
}

#[test]
fn streams_end_at_service_stop_and_password_removal() {
    let bed = bed("");
    let mut stream = Events::open(&bed, &ann(), "types=*&closeafter=no&ping=5", None);
    bed.run_ok(&["account", "password", "ann@example.org", "--remove"]);
    // JMAP has no data type for this change of the account, so the stream ends at the next ping.
    let began = Instant::now();
    assert!(stream.next().is_none());
    assert!(began.elapsed() < Duration::from_secs(10));
    password(&bed, "ann@example.org", "s3cret");
    let mut stream = Events::open(&bed, &ann(), "types=*&closeafter=no&ping=0", None);
    let mut bed = bed;
    bed.stop();
    assert!(stream.next().is_none());
    bed.finish();
}

/// The resident memory of a process in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn idle_event_streams_need_little_memory() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    if getrlimit(Resource::Nofile).current.is_some_and(|most| most < 3000) {
        return crate::report_missing("the right to 3,000 open files");
    }
    let bed = bed("");
    for n in 0..10 {
        bed.add_account(&format!("user{n}@example.org"), &[]);
        password(&bed, &format!("user{n}@example.org"), "s3cret");
    }
    let open = |n: usize| {
        Events::open(
            &bed,
            &basic(&format!("user{}@example.org", n % 10), "s3cret"),
            "types=*",
            None,
        )
    };
    // The first streams of each user pay for what is allocated once.
    let mut held: Vec<Events> = (0..20).map(open).collect();
    let before = resident(bed.pid());
    held.extend((20..1000).map(open));
    // The service may also have returned memory meanwhile: then the difference counts as 0.
    let each = resident(bed.pid()).saturating_sub(before) * 1024 / 980;
    println!("an idle stream: {each} bytes");
    assert!(each < 64 * 1024, "{each}");
    assert_eq!(get(&bed, "/jmap/session", &ann()).status, 200);
    drop(held);
    bed.finish();
}

/// A WebSocket client (RFC 6455) that sends frames of any length, masked with zeros.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: UnixStream,
    /// The byte that [`Socket::has_data`] read.
    peeked: Option<u8>,
}

impl Socket {
    /// Opens a WebSocket as Ann. `protocol` is the header field that names the protocol, and may
    /// have further fields, each with its CRLF.
    ///
    /// # Errors
    /// The head of the response in lower case, if the service refuses.
    pub(crate) fn open(bed: &TestBed, protocol: &str) -> Result<Self, String> {
        let mut stream = connect(bed);
        let head = format!(
            "GET /jmap/ws HTTP/1.1\r\nHost: mail.example.org\r\nAuthorization: {}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{protocol}\r\n",
            ann()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut one = [0; 1];
            stream.read_exact(&mut one).unwrap();
            head.push(one[0]);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        // The answer to the key above (RFC 6455 §1.3), in lower case.
        let is_accepted = head.contains(" 101 ")
            && head.contains("s3pplmbitxaq9kygzzhzrbk+xoo=")
            && head.contains("sec-websocket-protocol: jmap");
        if is_accepted { Ok(Self { stream, peeked: None }) } else { Err(head) }
    }

    fn send_json(&mut self, value: &Value) {
        self.frame(0x81, value.to_string().as_bytes());
    }

    /// Sends a frame. Its byte `first` has the FIN bit and the opcode.
    pub(crate) fn frame(&mut self, first: u8, bytes: &[u8]) {
        self.begin(first, bytes.len(), bytes);
    }

    /// Sends the head of a frame of `length` bytes, and the first bytes of its content.
    pub(crate) fn begin(&mut self, first: u8, length: usize, bytes: &[u8]) {
        let mut frame = vec![first];
        match length {
            short @ 0..=125 => frame.push(0x80 | short as u8),
            long @ 126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend((long as u16).to_be_bytes());
            }
            longer => {
                frame.push(0x80 | 127);
                frame.extend((longer as u64).to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(bytes);
        self.stream.write_all(&frame).unwrap();
    }

    /// Whether anything arrives within two seconds. Nothing is lost for the next read.
    pub(crate) fn has_data(&mut self) -> bool {
        let mut first = [0];
        self.stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        self.peeked = self.stream.read_exact(&mut first).is_ok().then_some(first[0]);
        self.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        self.peeked.is_some()
    }

    /// Fills the buffer. Its first byte is the one that [`Socket::has_data`] read, if any.
    fn read(&mut self, into: &mut [u8]) {
        let offset = usize::from(self.peeked.is_some());
        if let Some(peeked) = self.peeked.take() {
            into[0] = peeked;
        }
        self.stream.read_exact(&mut into[offset..]).unwrap();
    }

    /// Reads the next frame that is no ping: its opcode and its content. The content must be
    /// shorter than 64 KiB.
    pub(crate) fn next(&mut self) -> (u8, Vec<u8>) {
        loop {
            let mut head = [0; 2];
            self.read(&mut head);
            let length = match head[1] {
                126 => {
                    let mut length = [0; 2];
                    self.read(&mut length);
                    u16::from_be_bytes(length) as usize
                }
                short => short as usize,
            };
            let mut bytes = vec![0; length];
            self.stream.read_exact(&mut bytes).unwrap();
            if head[0] & 15 != 9 {
                return (head[0] & 15, bytes);
            }
        }
    }

    /// Reads the next message, which must be text, as JSON.
    pub(crate) fn receive_json(&mut self) -> Value {
        let (opcode, bytes) = self.next();
        assert_eq!(opcode, 1);
        serde_json::from_slice(&bytes).unwrap()
    }
}

#[test]
fn websocket_answers_requests_and_pushes_changes() {
    let bed = bed("");
    let account =
        bed.json(&["account", "show", "ann@example.org"])["id"].as_str().unwrap().to_owned();
    let session = get(&bed, "/jmap/session", &ann()).json();
    let capability = &session["capabilities"]["urn:ietf:params:jmap:websocket"];
    assert_eq!(capability, &json!({"url": "ws://mail.example.org/jmap/ws", "supportsPush": true}));
    assert!(Socket::open(&bed, "").unwrap_err().contains(" 400 "));
    assert!(Socket::open(&bed, "Sec-WebSocket-Protocol: chat\r\n").unwrap_err().contains(" 400 "));
    let from = |origin: &str| {
        Socket::open(&bed, &format!("Sec-WebSocket-Protocol: jmap\r\nOrigin: {origin}\r\n"))
    };
    for foreign in ["https://evil.example", "null", "http://mail.example.org.evil.example"] {
        assert!(from(foreign).unwrap_err().contains(" 403 "), "{foreign}");
    }
    assert!(from("http://mail.example.org").is_ok());
    let mut socket = Socket::open(&bed, "Sec-WebSocket-Protocol: chat, jmap\r\n").unwrap();
    let echo = |id: &str| {
        json!({
            "@type": "Request", "id": id, "using": ["urn:ietf:params:jmap:core"],
            "methodCalls": [["Core/echo", {"id": id}, "0"]],
        })
    };
    for id in ["R1", "R2", "R3"] {
        socket.send_json(&echo(id));
    }
    let mut answered: Vec<String> = (0..3)
        .map(|_| {
            let answer = socket.receive_json();
            assert_eq!(
                (&answer["@type"], &answer["sessionState"]),
                (&json!("Response"), &session["state"])
            );
            assert_eq!(answer["methodResponses"][0][1]["id"], answer["requestId"]);
            answer["requestId"].as_str().unwrap().to_owned()
        })
        .collect();
    answered.sort();
    assert_eq!(answered, ["R1", "R2", "R3"]);
    socket.frame(0x81, b"{");
    let refused = socket.receive_json();
    assert_eq!((&refused["@type"], &refused["requestId"]), (&json!("RequestError"), &Value::Null));
    assert_eq!(refused["type"], "urn:ietf:params:jmap:error:notJSON");

    // Changes are pushed once the client enables them, of the types that it names.
    deliver(&bed, "before");
    socket.send_json(
        &json!({"@type": "WebSocketPushEnable", "dataTypes": ["Mailbox", "EmailDelivery"]}),
    );
    socket.send_json(&echo("R4"));
    assert_eq!(socket.receive_json()["requestId"], "R4");
    deliver(&bed, "after");
    let change = socket.receive_json();
    assert_eq!(change["@type"], "StateChange");
    let names: Vec<&String> = change["changed"][&account].as_object().unwrap().keys().collect();
    assert_eq!(names, ["EmailDelivery", "Mailbox"]);
    let state = change["pushState"].as_str().unwrap().to_owned();
    socket.send_json(&json!({"@type": "WebSocketPushDisable"}));
    socket.send_json(&echo("R5"));
    assert_eq!(socket.receive_json()["requestId"], "R5");
    deliver(&bed, "unheard");
    socket.send_json(&echo("R6"));
    assert_eq!(socket.receive_json()["requestId"], "R6");
    // With the push state of the client, missed changes are pushed.
    socket
        .send_json(&json!({"@type": "WebSocketPushEnable", "dataTypes": null, "pushState": state}));
    assert!(socket.receive_json()["changed"][&account].get("Email").is_some());
    socket.frame(0x82, b"octets");
    assert_eq!(
        socket.next(),
        (8, [&1003_u16.to_be_bytes()[..], b"messages must be text"].concat())
    );
    bed.finish();
}

#[test]
fn event_stream_and_websocket_need_a_login() {
    let bed = bed("");
    for path in ["/jmap/events?types=*", "/jmap/ws"] {
        assert_eq!(exchange(connect(&bed), "GET", path, &[], b"").status, 401);
    }
    bed.finish();
}
