//! JMAP over HTTP: an HTTP client for tests, logins, the session resource, malformed requests,
//! compression and TLS.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

use crate::bed::{TestBed, feed};
use crate::starttls::keys;

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The values of a header field, joined with ` | `; `None` if there is no such field.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let values: Vec<&str> = self
            .head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect();
        (!values.is_empty()).then(|| values.join(" | "))
    }
}

/// Sends an HTTP/1.1 request and reads the response until the connection ends. The body is without
/// its chunked coding, but still compressed if it was.
pub(crate) fn exchange(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nHost: mail.example.org\r\nConnection: close\r\n");
    for (name, value) in fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || method == "POST" {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    // The service may refuse the request and close the connection before the body is written.
    stream.write_all(body).ok();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).ok();
    let end = all
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {all:?}"));
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let answer = Answer { status, head, body: all[end + 4..].to_vec() };
    let chunked = answer.field("transfer-encoding").is_some();
    if chunked { Answer { body: decode_chunks(&answer.body), ..answer } } else { answer }
}

/// Removes the chunked coding from a body.
fn decode_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        whole.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 4 + length..];
        if length == 0 {
            break;
        }
    }
    whole
}

/// The value of the field Authorization for a login with a password.
pub(crate) fn basic(name: &str, password: &str) -> String {
    format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(format!("{name}:{password}"))
    )
}

/// A test bed that serves JMAP on a Unix socket and has the account `ann@example.org`, with the
/// alias `annie@example.org` and the password `s3cret`.
pub(crate) fn bed(more: &str) -> TestBed {
    let mut bed = TestBed::new("");
    bed.configure(&format!("http.listen = [\"unix:{}\"]\n{more}", bed.dir.join("http").display()));
    bed.start();
    bed.add_account("ann@example.org", &["--alias", "annie@example.org"]);
    password(&bed, "ann@example.org", "s3cret");
    bed
}

/// Sets the password of an account.
pub(crate) fn password(bed: &TestBed, account: &str, password: &str) {
    let done = feed(&mut bed.command(&["account", "password", account]), password.as_bytes());
    assert!(done.status.success(), "{done:?}");
}

/// Connects to the Unix socket for JMAP of a [`bed`].
pub(crate) fn connect(bed: &TestBed) -> UnixStream {
    let stream = UnixStream::connect(bed.dir.join("http")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

pub(crate) fn get(bed: &TestBed, path: &str, authorization: &str) -> Answer {
    exchange(connect(bed), "GET", path, &[("Authorization", authorization)], b"")
}

/// Sends a request with one method call, and returns the whole response.
pub(crate) fn call(bed: &TestBed, authorization: &str, method: &str, arguments: &Value) -> Value {
    let request = json!({
        "using": [
            "urn:ietf:params:jmap:core",
            "urn:ietf:params:jmap:vacationresponse",
            "urn:restante:jmap:admin",
        ],
        "methodCalls": [[method, arguments, "0"]],
    });
    let fields = [("Authorization", authorization), ("Content-Type", "application/json")];
    let answer = exchange(connect(bed), "POST", "/jmap", &fields, request.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[test]
fn session_is_served_to_logged_in_user_only() {
    let bed = bed("");
    let nobody = get(&bed, "/.well-known/jmap", "");
    assert_eq!(nobody.status, 401);
    let challenges = nobody.field("www-authenticate").unwrap();
    assert!(
        challenges.contains("Basic realm=\"JMAP\", charset=\"UTF-8\"")
            && challenges.contains("Bearer realm"),
        "{challenges}"
    );
    assert_eq!(nobody.field("content-type").as_deref(), Some("application/problem+json"));
    assert_eq!(get(&bed, "/jmap/session", &basic("ann@example.org", "wrong")).status, 401);
    assert_eq!(get(&bed, "/jmap/session", &basic("bob@example.org", "s3cret")).status, 401);
    assert_eq!(get(&bed, "/nowhere", &basic("ann@example.org", "s3cret")).status, 404);

    // The login may be the name or an alias, and is cached after the first time.
    for name in ["ann@example.org", "ANNIE@example.org", "ann@example.org"] {
        let answer = get(&bed, "/.well-known/jmap", &basic(name, "s3cret"));
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(
            answer.field("cache-control").as_deref(),
            Some("no-cache, no-store, must-revalidate")
        );
        let session = answer.json();
        let ann =
            bed.json(&["account", "show", "ann@example.org"])["id"].as_str().unwrap().to_owned();
        assert_eq!(session["username"], "ann@example.org");
        assert_eq!(session["apiUrl"], "http://mail.example.org/jmap");
        assert_eq!(session["accounts"][&ann]["isPersonal"], true, "{session}");
        assert_eq!(
            session["primaryAccounts"]["urn:ietf:params:jmap:vacationresponse"],
            ann.as_str()
        );
        assert_eq!(
            session["capabilities"]["urn:ietf:params:jmap:core"]["maxSizeRequest"],
            10_000_000
        );
        let echoed = call(&bed, &basic(name, "s3cret"), "Core/echo", &json!({"a": [1, null]}));
        assert_eq!(echoed["methodResponses"], json!([["Core/echo", {"a": [1, null]}, "0"]]));
        assert_eq!(echoed["sessionState"], session["state"]);
    }

    // A user is no administrator, and sees only the own account.
    bed.add_account("bob@example.org", &[]);
    let ann = basic("ann@example.org", "s3cret");
    for (method, arguments, kind) in [
        ("Account/list", json!({}), "forbidden"),
        ("Account/get", json!({"account": "bob@example.org"}), "accountNotFound"),
        ("Account/password", json!({"password": "mine"}), "forbidden"),
        ("Account/tokenAdd", json!({"name": "x"}), "forbidden"),
    ] {
        let response = call(&bed, &ann, method, &arguments);
        assert_eq!(response["methodResponses"][0][1]["type"], kind, "{method}: {response}");
    }

    // The user of an inactive account can log in. A removed password no longer works, although the
    // login was cached.
    bed.run_ok(&["account", "set", "ann@example.org", "--inactive"]);
    assert_eq!(get(&bed, "/jmap/session", &ann).status, 200);
    bed.run_ok(&["account", "password", "ann@example.org", "--remove"]);
    assert_eq!(get(&bed, "/jmap/session", &ann).status, 401);
    bed.finish();
}

#[test]
fn token_logs_in_until_it_is_removed() {
    let bed = bed("");
    let token = bed.json(&["account", "token", "add", "ann@example.org", "--name", "phone"]);
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    assert_eq!(get(&bed, "/jmap/session", &bearer).json()["username"], "ann@example.org");
    let list = bed.rows(&["account", "token", "list", "ann@example.org"]);
    assert!(
        list.len() == 1 && list[0]["name"] == "phone" && list[0].get("token").is_none(),
        "{list:?}"
    );
    assert!(
        !bed.run(&["account", "token", "add", "ann@example.org", "--name", "phone"])
            .status
            .success()
    );
    assert!(
        !bed.run(&[
            "account",
            "token",
            "add",
            "ann@example.org",
            "--name",
            "old",
            "--until",
            "2020-01-01"
        ])
        .status
        .success()
    );
    bed.run_ok(&["account", "token", "remove", "ann@example.org", "phone"]);
    let refused = get(&bed, "/jmap/session", &bearer);
    assert_eq!(refused.status, 401);
    assert!(
        refused.field("www-authenticate").unwrap().contains("error=\"invalid_token\""),
        "{refused:?}"
    );
    bed.finish();
}

#[test]
fn password_guesses_are_delayed_but_not_recent_logins() {
    let bed = bed("");
    let right = basic("ann@example.org", "s3cret");
    assert_eq!(get(&bed, "/jmap/session", &right).status, 200);
    let guess =
        |n: usize| get(&bed, "/jmap/session", &basic(&format!("user{n}@example.org"), "guess"));
    let refused = (0..40).map(guess).find(|answer| answer.status != 401).expect("a wait");
    assert_eq!(refused.status, 429);
    assert!(refused.field("retry-after").unwrap().parse::<u32>().unwrap() > 0);
    assert_eq!(guess(40).status, 429);
    // Ann has logged in from this address, so guesses at other names do not delay a login as Ann.
    // Guesses at this name have their own limit.
    let at_ann = |_| get(&bed, "/jmap/session", &basic("ann@example.org", "guess")).status;
    let answers: Vec<u16> = (0..40).map(at_ann).collect();
    assert_eq!(answers[0], 401);
    assert_eq!(answers.iter().find(|status| **status != 401), Some(&429));
    // Ann's own password was verified before, so it is found in a cache and accepted all the same.
    assert_eq!(get(&bed, "/jmap/session", &right).status, 200);
    bed.finish();
}

#[test]
fn malformed_requests_get_problem_details() {
    let bed = bed("");
    let ann = basic("ann@example.org", "s3cret");
    let post = |kind: &str, body: &str| {
        let fields = [("Authorization", ann.as_str()), ("Content-Type", kind)];
        let answer = exchange(connect(&bed), "POST", "/jmap", &fields, body.as_bytes());
        assert_eq!(
            answer.field("content-type").as_deref(),
            Some("application/problem+json"),
            "{answer:?}"
        );
        (
            answer.status,
            answer.json()["type"].as_str().unwrap().rsplit(':').next().unwrap().to_owned(),
        )
    };
    let echo = r#"{"using":["urn:ietf:params:jmap:core"],"methodCalls":[["Core/echo",{},"0"]]}"#;
    assert_eq!(post("text/plain", echo), (400, "notJSON".into()));
    assert_eq!(post("application/json", "{"), (400, "notJSON".into()));
    assert_eq!(post("application/json; charset=utf-8", "{}"), (400, "notRequest".into()));
    assert_eq!(
        post("application/json", &echo.replace(":core", ":none")),
        (400, "unknownCapability".into())
    );
    let large = format!("{echo}{}", " ".repeat(10_000_000));
    assert_eq!(post("application/json", &large), (400, "limit".into()));
    bed.finish();
}

#[test]
fn unknown_path_and_wrong_method_get_problem_details() {
    let bed = bed("");
    let ann = basic("ann@example.org", "s3cret");
    for socket in ["http", "control"] {
        let ask = |method: &str, path: &str| {
            let stream = UnixStream::connect(bed.dir.join(socket)).unwrap();
            let answer = exchange(stream, method, path, &[("Authorization", ann.as_str())], b"");
            assert_eq!(
                answer.field("content-type").as_deref(),
                Some("application/problem+json"),
                "{answer:?}"
            );
            assert_eq!(answer.json()["status"], answer.status);
            answer
        };
        assert_eq!(ask("GET", "/nowhere").status, 404);
        assert_eq!(ask("GET", "/jmap/download/a/%ff/x").status, 400);
        let plain = ask("GET", "/jmap/ws");
        assert_eq!(
            (plain.status, plain.field("upgrade"), plain.field("sec-websocket-version")),
            (426, Some("websocket".into()), Some("13".into()))
        );
        let wrong = ask("PUT", "/jmap");
        assert_eq!((wrong.status, wrong.field("allow").as_deref()), (405, Some("POST")));
        assert_eq!(ask("DELETE", "/jmap/session").field("allow").as_deref(), Some("GET,HEAD"));
    }
    bed.finish();
}

#[test]
fn long_responses_are_compressed_with_an_accepted_coding() {
    let bed = bed("");
    let ann = basic("ann@example.org", "s3cret");
    let ask = |coding: &str| {
        let fields = [("Authorization", ann.as_str()), ("Accept-Encoding", coding)];
        exchange(connect(&bed), "GET", "/jmap/session", &fields, b"")
    };
    let plain = ask("identity");
    assert!(
        plain.field("content-encoding").is_none() && plain.json()["username"] == "ann@example.org"
    );
    let zstd = [0x28, 0xb5, 0x2f, 0xfd];
    for (accepted, coding, magic) in [
        ("gzip", "gzip", &[0x1f, 0x8b][..]),
        ("br", "br", &[]),
        ("zstd", "zstd", &zstd),
        ("gzip, deflate, br, zstd", "zstd", &zstd),
        ("gzip, zstd;q=0.5", "gzip", &[0x1f, 0x8b]),
    ] {
        let answer = ask(accepted);
        assert_eq!(answer.field("content-encoding").as_deref(), Some(coding), "{accepted}");
        assert!(answer.body.len() < plain.body.len() && answer.body.starts_with(magic), "{coding}");
    }
    bed.finish();
}

/// Connects over TLS, trusting only the certificate `name` of `tests/tls`. Returns the stream and
/// the protocol that ALPN chose.
fn connect_tls(
    port: u16,
    name: &str,
    protocols: &[&str],
) -> std::io::Result<(StreamOwned<ClientConnection, TcpStream>, String)> {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let mut roots = RootCertStore::empty();
    let file = crate::root().join(Path::new("tests/tls").join(format!("{name}.cert.pem")));
    roots.add(CertificateDer::from_pem_file(file).unwrap()).unwrap();
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let server = ServerName::try_from("mda.test.example").unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut tls =
        StreamOwned::new(ClientConnection::new(Arc::new(config), server).unwrap(), stream);
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock)?;
    }
    let protocol =
        String::from_utf8_lossy(tls.conn.alpn_protocol().unwrap_or_default()).into_owned();
    Ok((tls, protocol))
}

#[test]
fn tls_uses_new_certificate_after_reload() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = |name: &str| {
        format!(
            "http.listen = [\"tcp:127.0.0.1:{port}\"]\n{}",
            keys(name).replace("lmtp.tls", "http.tls")
        )
    };
    let mut bed = TestBed::new(&config("one"));
    bed.start();
    bed.add_account("ann@example.org", &[]);
    password(&bed, "ann@example.org", "s3cret");
    let ann = basic("ann@example.org", "s3cret");
    let session = |name: &str| {
        let (stream, protocol) = connect_tls(port, name, &["http/1.1"])?;
        assert_eq!(protocol, "http/1.1");
        Ok::<_, std::io::Error>(
            exchange(stream, "GET", "/jmap/session", &[("Authorization", &ann)], b"").json(),
        )
    };
    let before = session("one").unwrap();
    assert_eq!(before["apiUrl"], "https://mail.example.org/jmap");
    assert_eq!(connect_tls(port, "one", &["h2", "http/1.1"]).unwrap().1, "h2");
    assert!(session("two").is_err());
    bed.configure(&config("two"));
    bed.reload("configuration read again");
    assert!(session("one").is_err());
    assert_eq!(session("two").unwrap()["state"], before["state"]);
    bed.finish();
}
