use std::path::Path;

use axum::http::StatusCode;
use axum::routing::{get, post};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::*;
use crate::net::listen::{Access, ListenAddress, User};
use crate::net::stop::{Switch, switch};

/// Far longer than any of these connections may be idle.
const LONG: Duration = Duration::from_secs(20);

/// A listener on a Unix socket with short times; it serves until the switch is dropped.
async fn listening(router: Router, idle: Duration) -> (TempDir, Switch) {
    listening_with(router, Times { idle, unread: LONG }).await
}

async fn listening_with(router: Router, times: Times) -> (TempDir, Switch) {
    let dir = tempfile::tempdir().unwrap();
    let bound = BoundListener::bind(&ListenAddress::Unix(dir.path().join("s")), &Access::Everybody)
        .await
        .unwrap()
        .pop()
        .unwrap();
    let places = HttpLimits::new(Ceiling::new(100, 0));
    let (switch, stop) = switch();
    tokio::spawn(
        HttpListener { router, place: move |_| places.permit(), tls: |_| None, times }
            .serve(bound, stop),
    );
    (dir, switch)
}

async fn connect(dir: &Path) -> UnixStream {
    UnixStream::connect(dir.join("s")).await.unwrap()
}

/// Reads until the other end closes.
async fn all(stream: &mut UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    timeout(LONG, stream.read_to_end(&mut all)).await.expect("the connection stays open").ok();
    all
}

#[tokio::test]
async fn connections_without_a_request_are_closed() {
    let router = Router::new().route("/", get(|| async { "here" }));
    let (dir, _switch) = listening(router, Duration::from_millis(200)).await;
    let preface = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    for said in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n", &preface]
    {
        let mut stream = connect(dir.path()).await;
        stream.write_all(said).await.unwrap();
        all(&mut stream).await;
    }
    // After an answer, too.
    let mut stream = connect(dir.path()).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(all(&mut stream).await.ends_with(b"here"));
}

#[tokio::test]
async fn a_request_under_way_is_waited_for() {
    let idle = Duration::from_millis(100);
    let slow = move || async move {
        tokio::time::sleep(idle * 10).await;
        "late"
    };
    let (dir, _switch) = listening(Router::new().route("/", get(slow)), idle).await;
    let mut stream = connect(dir.path()).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(all(&mut stream).await.ends_with(b"late"));
}

#[tokio::test]
async fn a_client_sees_the_answer_to_a_body_that_nobody_read() {
    let router =
        Router::new().route("/", post(|| async { (StatusCode::PAYLOAD_TOO_LARGE, "too large") }));
    let (dir, _switch) = listening(router, LONG).await;
    let mut stream = connect(dir.path()).await;
    let length = 8 << 20;
    let head = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // All of it is written before anything is read, as simple clients do.
    timeout(LONG, stream.write_all(&vec![b'x'; length]))
        .await
        .unwrap()
        .expect("the connection was reset");
    let answer = all(&mut stream).await;
    assert!(answer.starts_with(b"HTTP/1.1 413 ") && answer.ends_with(b"too large"), "{answer:?}");

    // A client that waits for leave to send is answered without it.
    let mut stream = connect(dir.path()).await;
    stream
        .write_all(head.replace("Connection: close", "Expect: 100-continue").as_bytes())
        .await
        .unwrap();
    assert!(all(&mut stream).await.starts_with(b"HTTP/1.1 413 "));
}

#[tokio::test]
async fn without_a_place_a_client_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let bound = BoundListener::bind(&ListenAddress::Unix(dir.path().join("s")), &Access::Everybody)
        .await
        .unwrap()
        .pop()
        .unwrap();
    let (_switch, stop) = switch();
    let times = Times::default();
    tokio::spawn(
        HttpListener { router: Router::new(), place: |_| None, tls: |_| None, times }
            .serve(bound, stop),
    );
    let answer = all(&mut connect(dir.path()).await).await;
    assert!(
        answer.starts_with(b"HTTP/1.1 503 ") && answer.ends_with(b"try again later\"}"),
        "{answer:?}"
    );
}

#[test]
fn nobody_takes_all_places_of_the_control_socket() {
    let place = super::super::control::control_permits(HttpLimits::new(Ceiling::new(
        limits::MAX_CONTROL_CONNECTIONS,
        0,
    )));
    let of = |uid| place(Peer::Unix(Some(User { uid, gid: 0 })));
    // Of one user, until one of theirs goes.
    let mut held: Vec<_> =
        (0..limits::MAX_CONTROL_CONNECTIONS_PER_USER).map(|_| of(70_000).unwrap()).collect();
    assert!(of(70_000).is_none() && of(70_001).is_some());
    held.pop();
    assert!(of(70_000).is_some());
    // Of many users together; root is not kept out by them.
    let more: Vec<_> = (70_001..).map_while(of).collect();
    assert!(more.len() < limits::MAX_CONTROL_CONNECTIONS, "{}", more.len());
    assert!(of(80_000).is_none() && place(Peer::Unix(None)).is_none() && of(0).is_some());
    let own: Vec<_> = std::iter::from_fn(|| of(0)).collect();
    assert_eq!(own.len(), limits::MAX_CONTROL_CONNECTIONS);
}

#[tokio::test]
async fn an_answer_is_under_way_until_it_is_read() {
    let body = vec![b'x'; 4 << 20];
    let whole = body.clone();
    let router = Router::new().route("/", get(move || async move { body }));
    let (dir, _switch) = listening(router, Duration::from_millis(200)).await;
    let mut stream = connect(dir.path()).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    // Longer than a connection without a request may stay, twice.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let answer = all(&mut stream).await;
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer[..answer.len().min(80)])
    );
    assert!(answer.ends_with(&whole), "{} bytes of the answer came", answer.len());
}

/// Of HTTP/2 a client may read the connection and take nothing of an answer, by giving it no window
/// (RFC 9113 §5.2).
#[tokio::test]
async fn an_answer_of_which_nothing_is_taken_ends_its_connection() {
    let router = Router::new().route("/", get(|| async { "here" }));
    let times = Times { idle: Duration::from_millis(400), unread: Duration::from_millis(200) };
    let (dir, _switch) = listening_with(router, times).await;
    // SETTINGS_INITIAL_WINDOW_SIZE is 0; then GET / in HPACK's static table, to the authority "x".
    let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];
    let headers = [0, 0, 6, 1, 5, 0, 0, 0, 1, 0x82, 0x84, 0x86, 0x41, 1, b'x'];
    let mut stream = connect(dir.path()).await;
    stream
        .write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &headers].concat())
        .await
        .unwrap();
    let answer = all(&mut stream).await;
    // HEADERS came, and no DATA.
    let (mut rest, mut kinds) = (&answer[..], Vec::new());
    while let [a, b, c, kind, ..] = *rest {
        kinds.push(kind);
        rest = rest.get(9 + u32::from_be_bytes([0, a, b, c]) as usize..).unwrap_or_default();
    }
    assert!(kinds.contains(&1) && !kinds.contains(&0), "{answer:?}");
}
