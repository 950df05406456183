//! Push subscriptions (RFC 8620 §7.2): the code first, then changes, over HTTPS to a server of the
//! test's own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::bed::TestBed;
use crate::http::{basic, call, password};
use crate::mail::{Client, letter};

/// What came to the server: the head of a request, and its body.
type Pushed = (String, Vec<u8>);

/// A server for `localhost` that answers all it gets with a status, or `None` without `openssl`,
/// which makes its key.
fn server(dir: &Path, statuses: &'static [u16]) -> Option<(u16, Receiver<Pushed>)> {
    let (key, cert) = (dir.join("push.key"), dir.join("push.cert"));
    let made = Command::new(crate::program("openssl")?)
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let chain = vec![CertificateDer::from_pem_file(&cert).unwrap()];
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(&key).unwrap())
        .unwrap();
    let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    let (into, pushed) = channel();
    std::thread::spawn(move || {
        let mut statuses = statuses.iter().copied().chain(std::iter::repeat(201));
        for stream in listener.incoming() {
            let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = BufReader::new(StreamOwned::new(tls, stream.unwrap()));
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).unwrap_or(0) <= 2 {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            if head.is_empty() || stream.read_exact(&mut body).is_err() {
                continue;
            }
            let status = statuses.next().unwrap();
            let answer =
                format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.get_mut().write_all(answer.as_bytes()).ok();
            if into.send((head, body)).is_err() {
                return;
            }
        }
    });
    Some((port, pushed))
}

fn bed(statuses: &'static [u16], more: &str) -> Option<(TestBed, u16, Receiver<Pushed>)> {
    let mut bed = TestBed::new("");
    let Some((port, pushed)) = server(&bed.dir, statuses) else {
        crate::report_missing("openssl");
        bed.remove();
        return None;
    };
    bed.env = vec![("SSL_CERT_FILE", bed.dir.join("push.cert").display().to_string())];
    bed.configure(&format!("http.listen = [\"unix:{}\"]\n{more}", bed.dir.join("http").display()));
    bed.start();
    bed.add_account("ann@example.org", &[]);
    password(&bed, "ann@example.org", "s3cret");
    Some((bed, port, pushed))
}

fn set(bed: &TestBed, arguments: &Value) -> Value {
    let answer = call(bed, &basic("ann@example.org", "s3cret"), "PushSubscription/set", arguments);
    answer["methodResponses"][0][1].clone()
}

fn deliver(bed: &TestBed, subject: &str) {
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let message = letter("zoe@example.net", "ann@example.org", subject, "Hello.");
    assert_eq!(
        client.deliver("zoe@example.net", &["ann@example.org"], &message).unwrap()[0].code,
        250
    );
}

const SOON: Duration = Duration::from_secs(20);

#[test]
fn the_code_comes_first_and_changes_when_it_was_given_back() {
    let Some((bed, port, pushed)) = bed(&[201, 201, 410], "http.push-to-private = true\n") else {
        return;
    };
    let url = format!("https://localhost:{port}/push?for=ann");
    let made = set(
        &bed,
        &json!({"create": {"s": {"deviceClientId": "d", "url": url, "types": ["EmailDelivery"]}}}),
    );
    let id = made["created"]["s"]["id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    let (head, body) = pushed.recv_timeout(SOON).unwrap();
    assert!(
        head.starts_with("POST /push?for=ann HTTP/1.1\r\n")
            && head.to_lowercase().contains("ttl: "),
        "{head}"
    );
    assert!(head.to_lowercase().contains("content-type: application/json"), "{head}");
    let code: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (&code["@type"], &code["pushSubscriptionId"]),
        (&json!("PushVerification"), &json!(id))
    );
    // Nothing else before the code is given back.
    deliver(&bed, "first");
    assert_eq!(pushed.recv_timeout(Duration::from_secs(2)), Err(RecvTimeoutError::Timeout));
    let done =
        set(&bed, &json!({"update": {id.clone(): {"verificationCode": code["verificationCode"]}}}));
    assert_eq!(done["updated"], json!({id.clone(): null}), "{done}");
    let (_, body) = pushed.recv_timeout(SOON).unwrap();
    let change: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(change["@type"], "StateChange");
    let states =
        change["changed"].as_object().unwrap().values().next().unwrap().as_object().unwrap();
    assert_eq!(states.keys().collect::<Vec<_>>(), ["EmailDelivery"]);
    // 410: there is nobody any more.
    deliver(&bed, "second");
    pushed.recv_timeout(SOON).unwrap();
    let ann = basic("ann@example.org", "s3cret");
    bed.wait_until("it is gone", SOON, || {
        let answer = call(&bed, &ann, "PushSubscription/get", &json!({"ids": null}));
        answer["methodResponses"][0][1]["list"] == json!([])
    });
    bed.finish();
}

#[test]
fn with_keys_it_is_encrypted_and_to_the_inside_nothing_goes() {
    let keys = json!({
        "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        "auth": "BTBZMqHH6r4Tts7J_aSIgg",
    });
    let Some((bed, port, pushed)) = bed(&[], "http.push-to-private = true\n") else { return };
    let url = format!("https://localhost:{port}/");
    let one = json!({"create": {"s": {"deviceClientId": "d", "url": url, "keys": keys}}});
    assert!(set(&bed, &one)["created"]["s"]["id"].is_string());
    let (head, body) = pushed.recv_timeout(SOON).unwrap();
    assert!(head.to_lowercase().contains("content-encoding: aes128gcm"), "{head}");
    assert!(head.to_lowercase().contains("content-type: application/json"), "{head}");
    // The header of RFC 8188 §2.1, and nothing that could be read.
    assert!(
        body[16..21] == [0, 0, 16, 0, 65]
            && !String::from_utf8_lossy(&body).contains("PushVerification")
    );

    bed.configure(&format!("http.listen = [\"unix:{}\"]\n", bed.dir.join("http").display()));
    bed.reload("configuration read again");
    assert!(set(&bed, &one)["created"]["s"]["id"].is_string());
    bed.wait_until("given up", SOON, || bed.log().contains("an internal address"));
    assert_eq!(pushed.recv_timeout(Duration::from_secs(1)), Err(RecvTimeoutError::Timeout));
    bed.finish();
}
