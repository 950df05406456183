//! STARTTLS over a real socket (RFC 3207), with rustls as the client.
//!
//! `tests/tls` has the key pairs `one` and `two` for these and other tests. (`localhost` is for the
//! tests with clients of other authors.) The certificates expire in 2126. The pair `one` was made
//! as follows, and `two` with `two` in place of `one`:
//! `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj
//! /CN=one.test.example -addext subjectAltName=DNS:mda.test.example -addext
//! basicConstraints=critical,CA:FALSE -keyout … -out …`

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::bed::TestBed;
use crate::mail::{Client, letter};

/// The configuration of LMTP with the key pair `name` of `tests/tls`.
pub(crate) fn keys(name: &str) -> String {
    let folder = crate::root().join("tests/tls");
    let file = |kind: &str| folder.join(format!("{name}.{kind}.pem")).display().to_string();
    format!("lmtp.tls-certificate = {:?}\nlmtp.tls-key = {:?}\n", file("cert"), file("key"))
}

/// Sends LHLO, then STARTTLS and `pipelined` in one write, and begins TLS. Only the certificate
/// `name` of `tests/tls` is trusted.
pub(crate) fn begin(bed: &TestBed, name: &str, pipelined: &str) -> std::io::Result<Client> {
    let stream = UnixStream::connect(bed.lmtp())?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let mut read_line = || lines.next().unwrap_or(Ok(String::new()));
    assert!(read_line()?.starts_with("220 "));
    (&stream).write_all(b"LHLO client.example\r\n")?;
    let mut offers = Vec::new();
    while offers.last().is_none_or(|line: &String| line.starts_with("250-")) {
        offers.push(read_line()?);
    }
    assert!(offers.iter().any(|line| line.ends_with("STARTTLS")), "{offers:?}");
    (&stream).write_all(format!("STARTTLS\r\n{pipelined}").as_bytes())?;
    let go = read_line()?;
    assert!(go.starts_with("220 2.0.0"), "{go}");

    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let mut roots = RootCertStore::empty();
    let file = crate::root().join(format!("tests/tls/{name}.cert.pem"));
    roots.add(CertificateDer::from_pem_file(file).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let server = ServerName::try_from("mda.test.example").unwrap();
    let mut tls =
        StreamOwned::new(ClientConnection::new(Arc::new(config), server).unwrap(), stream);
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock)?;
    }
    Ok(Client::secured(tls))
}

#[test]
fn starttls_delivers_mail_and_discards_earlier_commands() {
    let mut bed = TestBed::new(&keys("one"));
    bed.start();
    bed.add_account("ann@example.org", &[]);
    // Commands pipelined after STARTTLS came in clear text, and must not be executed within TLS
    // (RFC 3207 §6).
    let injected = "MAIL FROM:<eve@example.net>\r\nRCPT TO:<ann@example.org>\r\nNOOP\r\n";
    let mut client = begin(&bed, "one", injected).unwrap();
    // The first reply within TLS belongs to the first command within TLS. The LHLO before TLS does
    // not count (RFC 3207 §4.2).
    let reply = client.command("MAIL FROM:<zoe@example.net>").unwrap();
    assert_eq!((reply.code, reply.enhanced()), (503, "5.5.1"), "{reply:?}");
    let offers = client.command("LHLO client.example").unwrap();
    assert!(offers.code == 250 && !offers.text.contains("STARTTLS"), "{offers:?}");
    assert_eq!(client.command("STARTTLS").unwrap().code, 502);
    let message = letter("zoe@example.net", "ann@example.org", "secured", "By TLS.");
    let replies = client.deliver("zoe@example.net", &["ann@example.org"], &message).unwrap();
    assert_eq!(replies[0].code, 250, "{replies:?}");
    assert_eq!(client.command("QUIT").unwrap().code, 221);

    let mail = bed.list_mail("ann@example.org");
    assert_eq!(mail.len(), 1, "{mail:?}");
    let stored = String::from_utf8(bed.show_message("ann@example.org", &mail[0].id)).unwrap();
    assert!(
        stored.starts_with("Return-Path: <zoe@example.net>") && stored.contains(" with LMTPS id "),
        "{stored}"
    );
    bed.finish();
}

#[test]
fn failed_tls_handshake_ends_only_that_session() {
    let mut bed = TestBed::new(&keys("one"));
    bed.start();
    assert!(begin(&bed, "two", "").is_err());
    // Clear text in place of a TLS handshake ends only that session.
    let mut stream = UnixStream::connect(bed.lmtp()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"LHLO x\r\nSTARTTLS\r\n").unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("220 2.0.0")));
    stream.write_all(b"MAIL FROM:<x@example.net>\r\n").unwrap();
    let mut rest = Vec::new();
    // The service sends an alert or resets the connection, but sends no SMTP reply in clear text.
    stream.read_to_end(&mut rest).ok();
    assert!(!String::from_utf8_lossy(&rest).contains("250 "), "{rest:?}");
    begin(&bed, "one", "").unwrap();
    bed.finish();
}

#[test]
fn key_of_another_certificate_is_refused_before_start() {
    // The error must not wait until a reload finds it.
    let bed = TestBed::new(&keys("one").replace("one.key", "two.key"));
    for command in [["config", "check"].as_slice(), &["serve"]] {
        let done = bed.run(command);
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(78), "{errors}");
        assert!(errors.contains("tls-key"), "{errors}");
    }
    bed.remove();
}
