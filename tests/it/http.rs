//! JMAP over HTTP in public: logins, the session, requests; over Unix sockets and over TLS.

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

use crate::bed::{Bed, feed};
use crate::starttls::keys;

/// An answer.
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

    /// The values of a field, one after another.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let values: Vec<&str> = self
            .head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect();
        (!values.is_empty()).then(|| values.join(" | "))
    }
}

/// Sends a request of HTTP/1.1 and reads the answer to the end.
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
    // A refusal may come, and the connection end, before all is written.
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
    if chunked { Answer { body: dechunked(&answer.body), ..answer } } else { answer }
}

fn dechunked(mut rest: &[u8]) -> Vec<u8> {
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

pub(crate) fn basic(name: &str, password: &str) -> String {
    format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(format!("{name}:{password}"))
    )
}

/// A bed that serves JMAP on a Unix socket, with an account that has a password.
pub(crate) fn bed(more: &str) -> Bed {
    let mut bed = Bed::new("");
    bed.configure(&format!("http.listen = [\"unix:{}\"]\n{more}", bed.dir.join("http").display()));
    bed.start();
    bed.account("ann@example.org", &["--alias", "annie@example.org"]);
    password(&bed, "ann@example.org", "s3cret");
    bed
}

pub(crate) fn password(bed: &Bed, account: &str, password: &str) {
    let done = feed(&mut bed.command(&["account", "password", account]), password.as_bytes());
    assert!(done.status.success(), "{done:?}");
}

pub(crate) fn connect(bed: &Bed) -> UnixStream {
    let stream = UnixStream::connect(bed.dir.join("http")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

pub(crate) fn get(bed: &Bed, path: &str, authorization: &str) -> Answer {
    exchange(connect(bed), "GET", path, &[("Authorization", authorization)], b"")
}

/// One method call of Ann; its response.
pub(crate) fn call(bed: &Bed, authorization: &str, method: &str, arguments: &Value) -> Value {
    let request = json!({
        "using": ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:vacationresponse", "urn:restante:jmap:admin"],
        "methodCalls": [[method, arguments, "0"]],
    });
    let fields = [("Authorization", authorization), ("Content-Type", "application/json")];
    let answer = exchange(connect(bed), "POST", "/jmap", &fields, request.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[test]
fn who_logs_in_gets_his_session_and_nobody_else_does() {
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

    // By name and by alias, again and again: the second time it is remembered.
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

    // An account is no administrator, and sees itself alone.
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

    // A password that is taken away opens nothing, though it was remembered. Mail refused is not
    // login refused.
    bed.ok(&["account", "set", "ann@example.org", "--inactive"]);
    assert_eq!(get(&bed, "/jmap/session", &ann).status, 200);
    bed.ok(&["account", "password", "ann@example.org", "--remove"]);
    assert_eq!(get(&bed, "/jmap/session", &ann).status, 401);
    bed.finish();
}

#[test]
fn a_token_opens_until_it_is_taken_away() {
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
    bed.ok(&["account", "token", "remove", "ann@example.org", "phone"]);
    let refused = get(&bed, "/jmap/session", &bearer);
    assert_eq!(refused.status, 401);
    assert!(
        refused.field("www-authenticate").unwrap().contains("error=\"invalid_token\""),
        "{refused:?}"
    );
    bed.finish();
}

#[test]
fn whoever_guesses_must_wait_and_who_was_right_of_late_need_not() {
    let bed = bed("");
    let right = basic("ann@example.org", "s3cret");
    assert_eq!(get(&bed, "/jmap/session", &right).status, 200);
    let guess =
        |n: usize| get(&bed, "/jmap/session", &basic(&format!("user{n}@example.org"), "guess"));
    let refused = (0..40).map(guess).find(|answer| answer.status != 401).expect("a wait");
    assert_eq!(refused.status, 429);
    assert!(refused.field("retry-after").unwrap().parse::<u32>().unwrap() > 0);
    assert_eq!(guess(40).status, 429);
    // Ann logged in from here before: guesses at others do not hold her up, and those at her have a
    // bound of their own.
    let at_ann = |_| get(&bed, "/jmap/session", &basic("ann@example.org", "guess")).status;
    let answers: Vec<u16> = (0..40).map(at_ann).collect();
    assert_eq!(answers[0], 401);
    assert_eq!(answers.iter().find(|status| **status != 401), Some(&429));
    assert_eq!(get(&bed, "/jmap/session", &right).status, 200);
    bed.finish();
}

#[test]
fn requests_that_are_none_are_refused_with_problem_details() {
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
fn what_is_not_there_or_takes_another_method_is_told_by_problem_details() {
    let bed = bed("");
    let ann = basic("ann@example.org", "s3cret");
    for door in ["http", "control"] {
        let ask = |method: &str, path: &str| {
            let stream = UnixStream::connect(bed.dir.join(door)).unwrap();
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
        assert_eq!(ask("GET", "/jmap/ws").status, 426);
        let wrong = ask("PUT", "/jmap");
        assert_eq!((wrong.status, wrong.field("allow").as_deref()), (405, Some("POST")));
        assert_eq!(ask("DELETE", "/jmap/session").field("allow").as_deref(), Some("GET,HEAD"));
    }
    bed.finish();
}

#[test]
fn long_answers_are_compressed_for_who_takes_that() {
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

#[test]
fn scripts_of_named_pages_may_ask() {
    let bed = bed("http.origins = [\"https://webmail.example.org\"]\n");
    let ann = basic("ann@example.org", "s3cret");
    let ask = |method: &str, origin: &str, more: (&str, &str)| {
        exchange(connect(&bed), method, "/jmap/session", &[("Origin", origin), more], b"")
    };
    let first =
        ask("OPTIONS", "https://webmail.example.org", ("Access-Control-Request-Method", "POST"));
    assert_eq!(first.status, 204, "{first:?}");
    assert_eq!(
        first.field("access-control-allow-origin").as_deref(),
        Some("https://webmail.example.org")
    );
    assert!(first.field("access-control-allow-headers").unwrap().contains("authorization"));
    let then = ask("GET", "https://webmail.example.org", ("Authorization", &ann));
    assert_eq!(
        (then.status, then.field("access-control-allow-origin").as_deref()),
        (200, Some("https://webmail.example.org"))
    );
    let other = ask("OPTIONS", "https://evil.example", ("Access-Control-Request-Method", "POST"));
    assert!(
        other.status != 204 && other.field("access-control-allow-origin").is_none(),
        "{other:?}"
    );
    let other = ask("GET", "https://evil.example", ("Authorization", &ann));
    assert_eq!((other.status, other.field("access-control-allow-origin")), (403, None));
    bed.finish();
}

/// A browser adds the login that it remembers to what any page sends.
#[test]
fn what_pages_of_other_origins_send_is_refused() {
    let bed = bed("http.origins = [\"https://webmail.example.org\"]\n");
    let ann = basic("ann@example.org", "s3cret");
    let account =
        bed.json(&["account", "show", "ann@example.org"])["id"].as_str().unwrap().to_owned();
    let upload = format!("/jmap/upload/{account}/");
    let echo = r#"{"using":["urn:ietf:params:jmap:core"],"methodCalls":[["Core/echo",{},"0"]]}"#;
    let ask = |method: &str, path: &str, kind: &str, more: (&str, &str)| {
        let fields = [("Authorization", ann.as_str()), ("Content-Type", kind), more];
        let answer = exchange(
            connect(&bed),
            method,
            path,
            &fields,
            if method == "POST" { echo.as_bytes() } else { b"" },
        );
        if answer.status >= 400 {
            assert_eq!(
                answer.field("content-type").as_deref(),
                Some("application/problem+json"),
                "{answer:?}"
            );
        }
        answer.status
    };
    let (evil, form) = (("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site"));
    for path in [upload.as_str(), "/jmap"] {
        for (kind, foreign) in [
            ("text/plain", evil),
            ("application/json", form),
            ("application/json", ("Origin", "null")),
        ] {
            assert_eq!(ask("POST", path, kind, foreign), 403, "{path} {foreign:?}");
        }
        for own in [
            ("Origin", "https://webmail.example.org"),
            ("Origin", "http://mail.example.org"),
            ("X-Y", "z"),
        ] {
            assert_eq!(ask("POST", path, "application/json", own), 200, "{path} {own:?}");
        }
    }
    // What an old browser posts, which says nothing of the page; and what simple clients send.
    let page = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    for (kind, simple) in [
        ("multipart/form-data; boundary=x", 415),
        ("application/x-www-form-urlencoded", 200),
        ("text/plain", 200),
    ] {
        assert_eq!(ask("POST", &upload, kind, page), 415, "{kind}");
        assert_eq!(ask("POST", &upload, kind, ("Accept", "*/*")), simple, "{kind}");
    }
    for path in
        ["/jmap/events?types=*&closeafter=state&ping=0", "/jmap/session", "/jmap/download/a/b/c"]
    {
        assert_eq!(ask("GET", path, "text/plain", evil), 403, "{path}");
        assert_eq!(ask("GET", path, "text/plain", form), 403, "{path}");
    }
    // A link that somebody follows to a download.
    let follow = [("Authorization", ann.as_str()), form, ("Sec-Fetch-Mode", "navigate")];
    assert_eq!(exchange(connect(&bed), "GET", "/jmap/session", &follow, b"").status, 200);
    // What a page sends with a token it was given the token for.
    let token = bed.json(&["account", "token", "add", "ann@example.org", "--name", "page"]);
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    let fields = [("Authorization", bearer.as_str()), evil];
    assert_eq!(exchange(connect(&bed), "GET", "/jmap/session", &fields, b"").status, 200);
    bed.finish();
}

/// TLS with the certificate of `tests/tls` of that name and no other; the protocol that was agreed
/// upon.
fn secured(
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
    let agreed = String::from_utf8_lossy(tls.conn.alpn_protocol().unwrap_or_default()).into_owned();
    Ok((tls, agreed))
}

#[test]
fn over_tls_and_with_another_certificate_after_a_reload() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = |name: &str| {
        format!(
            "http.listen = [\"tcp:127.0.0.1:{port}\"]\n{}",
            keys(name).replace("lmtp.tls", "http.tls")
        )
    };
    let mut bed = Bed::new(&config("one"));
    bed.start();
    bed.account("ann@example.org", &[]);
    password(&bed, "ann@example.org", "s3cret");
    let ann = basic("ann@example.org", "s3cret");
    let session = |name: &str| {
        let (stream, agreed) = secured(port, name, &["http/1.1"])?;
        assert_eq!(agreed, "http/1.1");
        Ok::<_, std::io::Error>(
            exchange(stream, "GET", "/jmap/session", &[("Authorization", &ann)], b"").json(),
        )
    };
    let before = session("one").unwrap();
    assert_eq!(before["apiUrl"], "https://mail.example.org/jmap");
    assert_eq!(secured(port, "one", &["h2", "http/1.1"]).unwrap().1, "h2");
    assert!(session("two").is_err());
    bed.configure(&config("two"));
    bed.reload("configuration read again");
    assert!(session("one").is_err());
    assert_eq!(session("two").unwrap()["state"], before["state"]);
    bed.finish();
}
