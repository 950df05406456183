use std::path::Path;

use axum::http::StatusCode;
use axum::routing::{get, post};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::*;
use crate::net::listen::{Access, ListenAddress, User};
use crate::net::managesieve::tests::tls_settings;
use crate::net::stop::{Switch, switch};

/// Far longer than each of these tests takes.
const LONG: Duration = Duration::from_secs(20);
const STOPPING: Duration = Duration::from_millis(300);

async fn listen(router: Router, idle: Duration) -> (TempDir, Switch) {
    listen_with(router, Timeouts { idle, unread: LONG, stopping: STOPPING }).await
}

async fn listen_with(router: Router, timeouts: Timeouts) -> (TempDir, Switch) {
    let dir = tempfile::tempdir().unwrap();
    let bound = BoundListener::bind(&ListenAddress::Unix(dir.path().join("s")), &Access::Everybody)
        .await
        .unwrap()
        .pop()
        .unwrap();
    let limits = HttpLimits::new(Ceiling::new(100, 0));
    let (switch, stop) = switch();
    tokio::spawn(
        HttpListener { router, permit: move |_| limits.permit(), tls: |_| None, timeouts }
            .serve(bound, stop),
    );
    (dir, switch)
}

#[tokio::test]
async fn stop_ends_a_connection_whose_tls_has_not_begun() {
    let dir = tempfile::tempdir().unwrap();
    let place = ListenAddress::Unix(dir.path().join("s"));
    let bound = BoundListener::bind(&place, &Access::Everybody).await.unwrap().remove(0);
    let limits = HttpLimits::new(Ceiling::new(100, 0));
    let listener = HttpListener {
        router: Router::new(),
        permit: move |_| limits.permit(),
        tls: |_| Some(tls_settings()),
        timeouts: Timeouts { idle: LONG, unread: LONG, stopping: STOPPING },
    };
    let (switch, stop) = switch();
    tokio::spawn(listener.serve(bound, stop));
    let _client = connect(dir.path()).await;
    // Time for the listener to take the connection and wait for TLS.
    tokio::time::sleep(Duration::from_millis(100)).await;
    switch.stop();
    assert!(switch.wait_until_drained(Instant::now() + TLS_HANDSHAKE_TIMEOUT / 2).await);
}

/// A client that has fallen silent does not delay a stop, wherever it fell silent.
#[tokio::test]
async fn stop_ends_connections_whose_client_says_nothing_more() {
    let router = Router::new().route("/", get(|| async { "here" }));
    let (dir, switch) = listen(router, LONG).await;
    let mut clients = Vec::new();
    for sent in [b"GET / HTTP/1.1\r\nHost: x\r\n", &http2_preface()[..]] {
        let mut stream = connect(dir.path()).await;
        stream.write_all(sent).await.unwrap();
        clients.push(stream);
    }
    // Time for the listener to take the connections.
    tokio::time::sleep(Duration::from_millis(100)).await;
    switch.stop();
    assert!(switch.wait_until_drained(Instant::now() + LONG / 2).await);
}

/// The response begins long after the stop.
#[tokio::test]
async fn stop_waits_for_a_response() {
    const RESPONSE_BYTES: usize = 600 << 10;
    let (begun, mut begins) = tokio::sync::mpsc::channel(1);
    let answer = async move || {
        begun.send(()).await.unwrap();
        tokio::time::sleep(STOPPING * 3).await;
        vec![b'x'; RESPONSE_BYTES]
    };
    let (dir, switch) = listen(Router::new().route("/", get(answer)), LONG).await;
    let mut stream = connect(dir.path()).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    begins.recv().await.unwrap();
    switch.stop();
    let bytes = read_all(&mut stream).await;
    assert!(bytes.len() > RESPONSE_BYTES, "{} bytes", bytes.len());
    assert!(switch.wait_until_drained(Instant::now() + LONG).await);
}

/// What a client of HTTP/2 sends first, with an empty SETTINGS frame (type 4).
fn http2_preface() -> Vec<u8> {
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat()
}

async fn connect(dir: &Path) -> UnixStream {
    UnixStream::connect(dir.join("s")).await.unwrap()
}

async fn read_all(stream: &mut UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    timeout(LONG, stream.read_to_end(&mut bytes)).await.expect("the connection stays open").ok();
    bytes
}

#[tokio::test]
async fn closes_connections_without_a_request() {
    let router = Router::new().route("/", get(|| async { "here" }));
    let (dir, _switch) = listen(router, Duration::from_millis(200)).await;
    let preface = http2_preface();
    for sent in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n", &preface]
    {
        let mut stream = connect(dir.path()).await;
        stream.write_all(sent).await.unwrap();
        read_all(&mut stream).await;
    }
    let mut stream = connect(dir.path()).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(read_all(&mut stream).await.ends_with(b"here"));
}

#[tokio::test]
async fn waits_for_an_active_request() {
    let idle = Duration::from_millis(100);
    let slow = move || async move {
        tokio::time::sleep(idle * 10).await;
        "late"
    };
    let (dir, _switch) = listen(Router::new().route("/", get(slow)), idle).await;
    let mut stream = connect(dir.path()).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(read_all(&mut stream).await.ends_with(b"late"));
}

#[tokio::test]
async fn client_sees_the_response_to_a_body_that_was_not_read() {
    let router =
        Router::new().route("/", post(|| async { (StatusCode::PAYLOAD_TOO_LARGE, "too large") }));
    let (dir, _switch) = listen(router, LONG).await;
    let mut stream = connect(dir.path()).await;
    let length = 8 << 20;
    let head = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // Simple clients write the whole body before they read.
    timeout(LONG, stream.write_all(&vec![b'x'; length]))
        .await
        .unwrap()
        .expect("the connection was reset");
    let answer = read_all(&mut stream).await;
    assert!(answer.starts_with(b"HTTP/1.1 413 ") && answer.ends_with(b"too large"), "{answer:?}");

    // A client that expects 100 Continue gets the response at once.
    let mut stream = connect(dir.path()).await;
    stream
        .write_all(head.replace("Connection: close", "Expect: 100-continue").as_bytes())
        .await
        .unwrap();
    assert!(read_all(&mut stream).await.starts_with(b"HTTP/1.1 413 "));
}

#[tokio::test]
async fn refused_connection_gets_503() {
    let dir = tempfile::tempdir().unwrap();
    let bound = BoundListener::bind(&ListenAddress::Unix(dir.path().join("s")), &Access::Everybody)
        .await
        .unwrap()
        .pop()
        .unwrap();
    let (_switch, stop) = switch();
    let timeouts = Timeouts::default();
    tokio::spawn(
        HttpListener { router: Router::new(), permit: |_| None, tls: |_| None, timeouts }
            .serve(bound, stop),
    );
    let answer = read_all(&mut connect(dir.path()).await).await;
    assert!(
        answer.starts_with(b"HTTP/1.1 503 ") && answer.ends_with(b"try again later\"}"),
        "{answer:?}"
    );
}

#[test]
fn no_user_can_use_up_the_connections_of_the_control_socket() {
    let permit = super::super::control::control_permits(HttpLimits::new(Ceiling::new(
        limits::MAX_CONTROL_CONNECTIONS,
        0,
    )));
    let permit_of = |uid| permit(Peer::Unix(Some(User { uid, gid: 0 })));
    let mut of_one_user: Vec<_> =
        (0..limits::MAX_CONTROL_CONNECTIONS_PER_USER).map(|_| permit_of(70_000).unwrap()).collect();
    assert!(permit_of(70_000).is_none() && permit_of(70_001).is_some());
    of_one_user.pop();
    assert!(permit_of(70_000).is_some());
    let of_others: Vec<_> = (70_001..).map_while(permit_of).collect();
    assert!(of_others.len() < limits::MAX_CONTROL_CONNECTIONS, "{}", of_others.len());
    assert!(permit_of(80_000).is_none() && permit(Peer::Unix(None)).is_none());
    assert!(permit_of(0).is_some());
    let of_root: Vec<_> = std::iter::from_fn(|| permit_of(0)).collect();
    assert_eq!(of_root.len(), limits::MAX_CONTROL_CONNECTIONS);
}

#[tokio::test]
async fn request_is_active_until_its_response_is_read() {
    let body = vec![b'x'; 4 << 20];
    let expected = body.clone();
    let router = Router::new().route("/", get(move || async move { body }));
    let (dir, _switch) = listen(router, Duration::from_millis(200)).await;
    let mut stream = connect(dir.path()).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    // Longer than a connection without a request may stay open.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let answer = read_all(&mut stream).await;
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer[..answer.len().min(80)])
    );
    assert!(answer.ends_with(&expected), "{} bytes of the answer came", answer.len());
}

/// An HTTP/2 client can read the connection but no response, with a flow-control window of 0
/// (RFC 9113 §5.2).
#[tokio::test]
async fn closes_a_connection_whose_response_is_not_read() {
    let router = Router::new().route("/", get(|| async { "here" }));
    let timeouts = Timeouts {
        idle: Duration::from_millis(400),
        unread: Duration::from_millis(200),
        stopping: STOPPING,
    };
    let (dir, _switch) = listen_with(router, timeouts).await;
    // Two frames after 9 bytes of head each: SETTINGS_INITIAL_WINDOW_SIZE is 0; then GET / from
    // HPACK's static table, with authority "x".
    let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];
    let headers = [0, 0, 6, 1, 5, 0, 0, 0, 1, 0x82, 0x84, 0x86, 0x41, 1, b'x'];
    let mut stream = connect(dir.path()).await;
    stream
        .write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &headers].concat())
        .await
        .unwrap();
    let answer = read_all(&mut stream).await;
    // The server sent HEADERS (1) and no DATA (0).
    let (mut rest, mut kinds) = (&answer[..], Vec::new());
    while let [a, b, c, kind, ..] = *rest {
        kinds.push(kind);
        rest = rest.get(9 + u32::from_be_bytes([0, a, b, c]) as usize..).unwrap_or_default();
    }
    assert!(kinds.contains(&1) && !kinds.contains(&0), "{answer:?}");
}
