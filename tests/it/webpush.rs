//! Push subscriptions (RFC 8620 §7.2): verification, then changes, over HTTPS to a server that the
//! test runs.

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

/// A request that arrived at the push server: its head and its body.
type PushRequest = (String, Vec<u8>);

/// Starts a push server on `localhost` that answers its requests with `statuses` in turn, then with
/// 201. `None` if `openssl`, which makes its certificate, is missing.
fn start_server(dir: &Path, statuses: &'static [u16]) -> Option<(u16, Receiver<PushRequest>)> {
    let (key, cert) = (dir.join("push.key"), dir.join("push.cert"));
    let created = Command::new(crate::program("openssl")?)
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
    assert!(created.status.success(), "{created:?}");
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let chain = vec![CertificateDer::from_pem_file(&cert).unwrap()];
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(&key).unwrap())
        .unwrap();
    let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    let (sender, pushed) = channel();
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
            if sender.send((head, body)).is_err() {
                return;
            }
        }
    });
    Some((port, pushed))
}

/// A test bed with a push server; see [`start_server`]. The service trusts its certificate.
fn bed(statuses: &'static [u16], more: &str) -> Option<(TestBed, u16, Receiver<PushRequest>)> {
    let mut bed = TestBed::new("");
    let Some((port, pushed)) = start_server(&bed.dir, statuses) else {
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

/// Calls PushSubscription/set as Ann, and returns the arguments of the response.
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

const MAX_WAIT: Duration = Duration::from_secs(20);

#[test]
fn push_sends_changes_after_verification_until_server_says_gone() {
    let Some((bed, port, pushed)) = bed(&[201, 201, 410], "http.push-to-private = true\n") else {
        return;
    };
    let url = format!("https://localhost:{port}/push?for=ann");
    let made = set(
        &bed,
        &json!({"create": {"s": {"deviceClientId": "d", "url": url, "types": ["EmailDelivery"]}}}),
    );
    let id = made["created"]["s"]["id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    let (head, body) = pushed.recv_timeout(MAX_WAIT).unwrap();
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
    // Without the verification code, no change is pushed.
    deliver(&bed, "first");
    assert_eq!(pushed.recv_timeout(Duration::from_secs(2)), Err(RecvTimeoutError::Timeout));
    let done =
        set(&bed, &json!({"update": {id.clone(): {"verificationCode": code["verificationCode"]}}}));
    assert_eq!(done["updated"], json!({id.clone(): null}), "{done}");
    let (_, body) = pushed.recv_timeout(MAX_WAIT).unwrap();
    let change: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(change["@type"], "StateChange");
    let states =
        change["changed"].as_object().unwrap().values().next().unwrap().as_object().unwrap();
    assert_eq!(states.keys().collect::<Vec<_>>(), ["EmailDelivery"]);
    // The status 410 ends the subscription.
    deliver(&bed, "second");
    pushed.recv_timeout(MAX_WAIT).unwrap();
    let ann = basic("ann@example.org", "s3cret");
    bed.wait_until("the subscription is gone", MAX_WAIT, || {
        let answer = call(&bed, &ann, "PushSubscription/get", &json!({"ids": null}));
        answer["methodResponses"][0][1]["list"] == json!([])
    });
    bed.finish();
}

#[test]
fn push_with_keys_is_encrypted_and_internal_addresses_get_none() {
    let keys = json!({
        "p256dh": concat!(
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcx",
            "aOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        ),
        "auth": "BTBZMqHH6r4Tts7J_aSIgg",
    });
    let Some((bed, port, pushed)) = bed(&[], "http.push-to-private = true\n") else { return };
    let url = format!("https://localhost:{port}/");
    let one = json!({"create": {"s": {"deviceClientId": "d", "url": url, "keys": keys}}});
    assert!(set(&bed, &one)["created"]["s"]["id"].is_string());
    let (head, body) = pushed.recv_timeout(MAX_WAIT).unwrap();
    assert!(head.to_lowercase().contains("content-encoding: aes128gcm"), "{head}");
    assert!(head.to_lowercase().contains("content-type: application/json"), "{head}");
    // The body begins with the header of RFC 8188 §2.1, and is encrypted. After 16 bytes of salt
    // come the size of a record (4096) and the length of the key (65).
    assert!(
        body[16..21] == [0, 0, 16, 0, 65]
            && !String::from_utf8_lossy(&body).contains("PushVerification")
    );

    // Without `push-to-private`, nothing is sent to this server on loopback.
    bed.configure(&format!("http.listen = [\"unix:{}\"]\n", bed.dir.join("http").display()));
    bed.reload("configuration read again");
    assert!(set(&bed, &one)["created"]["s"]["id"].is_string());
    bed.wait_until("the push is refused", MAX_WAIT, || bed.log().contains("an internal address"));
    assert_eq!(pushed.recv_timeout(Duration::from_secs(1)), Err(RecvTimeoutError::Timeout));
    bed.finish();
}
