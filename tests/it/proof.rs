//! Verification of senders (SPF, DKIM, DMARC) and DKIM signatures of replies, from the LMTP client
//! to the relay, with a name server on loopback; and the commands `dkim keygen` and `dkim show`.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use restante::internals::proof::{Algorithm, Signer, SigningKey, generate};
use serde_json::Value;

use crate::bed::{TestBed, feed};
use crate::dns::Dns;
use crate::mail::{Client, crlf};
use crate::sink::{Sink, SinkMessage};

const ANN: &str = "ann@example.org";

/// Makes a DKIM key in the file SELECTOR.pem of the bed, and returns what the command prints.
fn keygen(bed: &TestBed, selector: &str, algorithm: &str) -> Value {
    let file = bed.dir.join(format!("{selector}.pem"));
    let file = file.to_str().unwrap();
    let words = [
        "dkim",
        "keygen",
        "--domain",
        "Example.ORG",
        "--selector",
        selector,
        "--algorithm",
        algorithm,
        "--file",
        file,
    ];
    bed.json(&words)
}

/// The configuration of the keys with these selectors.
fn key_config(bed: &TestBed, selectors: &[&str]) -> String {
    let keys = selectors.iter().map(|selector| {
        let file = bed.dir.join(format!("{selector}.pem"));
        format!(
            "[[dkim.keys]]\ndomain = \"example.org\"\nselector = \"{selector}\"\nfile = {file:?}\n"
        )
    });
    keys.collect()
}

#[test]
fn dkim_keys_can_be_generated_and_shown_and_must_be_private() {
    let bed = TestBed::new("");
    let made = keygen(&bed, "r1", "rsa");
    assert_eq!(made["name"], "r1._domainkey.example.org");
    assert!(made["record"].as_str().unwrap().starts_with("v=DKIM1; k=rsa; p=MIIB"), "{made}");
    let file = bed.dir.join("r1.pem");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o007, 0);
    // An existing file is not overwritten; invalid domains, selectors and sizes are refused.
    let old = fs::read(&file).unwrap();
    let again = |arguments: &[&str]| {
        let name = file.to_str().unwrap();
        bed.run(&[&["dkim", "keygen", "--file", name], arguments].concat()).status.code()
    };
    assert_eq!(again(&["--domain", "example.org", "--selector", "r1"]), Some(66));
    assert_eq!(again(&["--domain", "a..b", "--selector", "r1"]), Some(64));
    assert_eq!(again(&["--domain", "example.org", "--selector", "a b"]), Some(64));
    assert_eq!(again(&["--domain", "example.org", "--selector", "r1", "--bits", "1024"]), Some(64));
    assert_eq!(fs::read(&file).unwrap(), old);
    // The printed TOML can be copied into the configuration. The record is printed for the zone, in
    // strings of at most 255 bytes.
    let file = bed.dir.join("e1.pem");
    let output = bed.run_ok(&[
        "dkim",
        "keygen",
        "--domain",
        "example.org",
        "--selector",
        "e1",
        "--algorithm",
        "ed25519",
        "--file",
        file.to_str().unwrap(),
    ]);
    let output = String::from_utf8(output).unwrap();
    let (_, toml) = output.split_once("[[dkim.keys]]").unwrap();
    bed.configure(&format!("{}[[dkim.keys]]{toml}", key_config(&bed, &["r1"])));
    bed.run_ok(&["config", "check"]);
    let shown = String::from_utf8(bed.run_ok(&["dkim", "show"])).unwrap();
    assert!(
        shown.contains("r1._domainkey.example.org. IN TXT (\n    \"v=DKIM1; k=rsa; p="),
        "{shown}"
    );
    assert!(
        shown.contains("e1._domainkey.example.org. IN TXT (\n    \"v=DKIM1; k=ed25519; p="),
        "{shown}"
    );
    let strings: Vec<&str> = shown.split('"').skip(1).step_by(2).collect();
    assert_eq!(strings.iter().map(|part| part.len()).max(), Some(255), "{shown}");
    assert_eq!(strings[..2].concat(), made["record"].as_str().unwrap());
    assert_eq!(bed.rows(&["dkim", "show", "--domain", "example.org"]).len(), 2);
    assert!(bed.rows(&["dkim", "show", "--domain", "example.com"]).is_empty());
    // Every command that uses a key refuses one that everybody may read.
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    for words in [&["config", "check"][..], &["dkim", "show"], &["serve"]] {
        let done = bed.run(words);
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(78), "{words:?}: {text}");
        assert!(text.contains("e1.pem: everybody may use this private key (mode 0644)"), "{text}");
        assert!(text.contains("chmod 0640"), "{text}");
    }
    bed.remove();
}

/// Starts a service that verifies senders and signs replies with the keys `r1` and `e1`, with the
/// account of Ann. The key `r2` is made, too, for a later configuration.
fn start_service(dns: &Dns, relay: &Sink) -> TestBed {
    let mut bed = TestBed::new("");
    let (nameserver, port) = (dns.address, relay.address.port());
    for (selector, algorithm) in [("r1", "rsa"), ("e1", "ed25519"), ("r2", "rsa")] {
        let made = keygen(&bed, selector, algorithm);
        dns.txt(made["name"].as_str().unwrap(), made["record"].as_str().unwrap());
    }
    bed.configure(&format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {port}\nrelay.tls = \"none\"\n\
         [verify]\non = true\nnameservers = [\"{nameserver}\"]\n{}",
        key_config(&bed, &["r1", "e1"])
    ));
    bed.start();
    bed.add_account(ANN, &["--display-name", "Ann"]);
    bed
}

/// Delivers a message as Postfix does for a client at `address`. Returns the reason and the detail
/// of the vacation decision; the reason is null if a reply was queued.
fn deliver(bed: &TestBed, address: &str, sender: &str, message: &[u8]) -> (Value, Value) {
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    assert!(
        client
            .command(&format!("XFORWARD ADDR={address} HELO=out.example.net SOURCE=REMOTE"))
            .unwrap()
            .ok()
    );
    assert!(client.deliver(sender, &[ANN], message).unwrap()[0].ok());
    let row = bed.rows(&["vacation", "log", "-a", ANN, "--limit", "1"]).remove(0);
    (row["reason"].clone(), row["detail"].clone())
}

fn letter(from: &str, subject: &str) -> Vec<u8> {
    crlf(
        format!(
            "From: {from}\nTo: {ANN}\nSubject: {subject}\nMessage-ID: <{subject}@x>\n\n\
             Are you there?\n"
        )
        .as_bytes(),
    )
}

/// Puts the signature before the message.
fn sign(signer: &Signer, message: &[u8]) -> Vec<u8> {
    [signer.sign(message).unwrap().unwrap(), message.to_vec()].concat()
}

#[test]
fn forged_mail_gets_no_reply_and_verified_mail_a_signed_one() {
    let (dns, relay) = (Dns::start(), Sink::start());
    dns.txt("example.net", "v=spf1 ip4:192.0.2.0/24 -all")
        .txt("_dmarc.example.net", "v=DMARC1; p=reject");
    let key =
        SigningKey::new("example.net", "bob", generate(Algorithm::Rsa, 2048).unwrap().as_bytes())
            .unwrap();
    dns.txt(&key.name(), &key.record());
    let bob = Signer::new(vec![key]);
    let bed = start_service(&dns, &relay);
    let assert_unanswered = |address: &str, sender: &str, message: &[u8]| {
        let (reason, detail) = deliver(&bed, address, sender, message);
        assert_eq!(reason, "unauthenticated", "{detail}");
        detail.as_str().unwrap().to_owned()
    };

    // Without a vacation response, and for mail that is not answered anyway, nothing is verified.
    assert_eq!(
        deliver(&bed, "203.0.113.66", "bob@example.net", &letter("bob@example.net", "before")).0,
        "disabled"
    );
    assert!(dns.queries().is_empty(), "{:?}", dns.queries());
    bed.run_ok(&["vacation", "set", "-a", ANN, "--text", "Back on Monday."]);
    let list = [b"List-Id: <x>\r\n", &*letter("bob@example.net", "list")].concat();
    assert_eq!(deliver(&bed, "203.0.113.66", "bob@example.net", &list).0, "list");
    assert!(dns.queries().is_empty(), "{:?}", dns.queries());

    // Forged: a client that Bob's SPF record does not name; a signature of another body; Bob's name
    // in the header with an envelope sender of another domain.
    let plain = letter("Bob <bob@example.net>", "forged");
    assert!(
        assert_unanswered("203.0.113.66", "bob@example.net", &plain)
            .contains("dmarc=fail header.from=example.net")
    );
    let tampered = [sign(&bob, &plain), b"Buy this.\r\n".to_vec()].concat();
    assert_unanswered("203.0.113.66", "bob@example.net", &tampered);
    dns.txt("evil.example", "v=spf1 ip4:203.0.113.0/24 -all");
    assert!(
        assert_unanswered("203.0.113.66", "eve@evil.example", &plain)
            .contains("header.from=example.net")
    );

    // Genuine mail from Bob through a forwarder that left the signature intact.
    let genuine = sign(&bob, &letter("Bob <bob@example.net>", "true"));
    assert_eq!(deliver(&bed, "203.0.113.66", "bob@example.net", &genuine).0, Value::Null);
    bed.wait_until("the reply", Duration::from_secs(20), || relay.messages().len() == 1);
    let reply = relay.messages().remove(0);
    assert_eq!(reply.recipients, ["bob@example.net"]);
    assert_eq!(
        verify_with_mail_auth(&dns, &reply),
        ["ed25519-sha256 e1 pass", "rsa-sha256 r1 pass"],
        "{}",
        reply.text
    );
    verify_with_dkimpy(&dns, &bed, &reply);

    // SIGHUP loads another key; the next message comes directly from the sender's server.
    let text = fs::read_to_string(bed.config()).unwrap();
    let (before, _) = text.split_once("[[dkim.keys]]").unwrap();
    fs::write(bed.config(), format!("{before}{}", key_config(&bed, &["r2"]))).unwrap();
    bed.reload("configuration read again");
    assert_eq!(
        deliver(&bed, "192.0.2.7", "dora@example.net", &letter("dora@example.net", "dora")).0,
        Value::Null
    );
    bed.wait_until("the second reply", Duration::from_secs(20), || relay.messages().len() == 2);
    assert_eq!(verify_with_mail_auth(&dns, &relay.messages().remove(1)), ["rsa-sha256 r2 pass"]);
    // If the key file is missing at a reload, the old key stays in use.
    fs::remove_file(bed.dir.join("r2.pem")).unwrap();
    let log = bed.reload("the old one stays in force");
    assert!(log.contains("r2.pem"), "{log}");
    assert_eq!(
        deliver(&bed, "192.0.2.8", "emil@example.net", &letter("emil@example.net", "emil")).0,
        Value::Null
    );
    bed.wait_until("the third reply", Duration::from_secs(20), || relay.messages().len() == 3);
    assert_eq!(verify_with_mail_auth(&dns, &relay.messages().remove(2)), ["rsa-sha256 r2 pass"]);
    // The check in `finish` reads the configuration, whose key file must exist.
    fs::write(bed.config(), text).unwrap();
    bed.finish();
}

#[test]
fn silent_name_server_delays_delivery_only_until_timeout() {
    let (dns, relay) = (Dns::start(), Sink::start());
    let bed = start_service(&dns, &relay);
    let text = fs::read_to_string(bed.config()).unwrap();
    fs::write(bed.config(), text.replace("on = true", "on = true\ntimeout = \"1s\"")).unwrap();
    bed.reload("configuration read again");
    bed.run_ok(&["vacation", "set", "-a", ANN, "--text", "Back on Monday."]);
    let begun = std::time::Instant::now();
    let message = letter("bob@silent.example", "hello");
    assert_eq!(deliver(&bed, "192.0.2.7", "bob@silent.example", &message).0, Value::Null);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    bed.wait_until("the reply", Duration::from_secs(20), || relay.messages().len() == 1);
    assert!(bed.log().contains("could not be verified for now"), "{}", bed.log());
    bed.finish();
}

/// The result of mail-auth for each signature: algorithm, selector and result, sorted.
fn verify_with_mail_auth(dns: &Dns, reply: &SinkMessage) -> Vec<String> {
    use mail_auth::hickory_resolver::config::{
        ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let message = mail_auth::AuthenticatedMessage::parse(reply.text.as_bytes()).unwrap();
    let found = runtime.block_on(async {
        let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
        connections.iter_mut().for_each(|connection| connection.port = dns.address.port());
        let server = NameServerConfig::new(dns.address.ip(), true, connections);
        let config = ResolverConfig::from_parts(None, vec![], vec![server]);
        let verifier =
            mail_auth::MessageAuthenticator::new(config, ResolverOpts::default()).unwrap();
        verifier.verify_dkim(&message).await
    });
    let mut shown: Vec<String> = found
        .iter()
        .map(|one| {
            one.signature()
                .map(|made| format!("{} {} {}", made.a.name(), made.s, one.result()))
                .unwrap_or_default()
        })
        .collect();
    shown.sort();
    shown
}

/// A Python script that verifies the first two signatures of a message with dkimpy.
const VERIFY: &str = r#"
import dkim, json, sys
records = json.load(open(sys.argv[1]))
message = sys.stdin.buffer.read()
def ask(name, timeout=5):
    return records[(name.decode() if isinstance(name, bytes) else name).rstrip('.')].encode()
for at in range(2):
    print(at, dkim.DKIM(message).verify(idx=at, dnsfunc=ask))
"#;

/// A Python interpreter that can import dkimpy.
fn python_with_dkimpy() -> Option<PathBuf> {
    [Path::new("/usr/bin/python3").to_owned(), PathBuf::from("python3")].into_iter().find(
        |python| {
            let probe = Command::new(python)
                .args(["-c", "import dkim, nacl"])
                .stderr(Stdio::null())
                .status();
            probe.is_ok_and(|status| status.success())
        },
    )
}

/// Fails unless dkimpy, where it is installed, verifies both signatures of a reply.
fn verify_with_dkimpy(dns: &Dns, bed: &TestBed, reply: &SinkMessage) {
    let Some(python) = python_with_dkimpy() else {
        return crate::report_missing("dkimpy for Python (python3-dkim, python3-nacl)");
    };
    let records = bed.dir.join("records.json");
    let mut file = fs::File::create(&records).unwrap();
    file.write_all(serde_json::to_string(&dns.txt_records()).unwrap().as_bytes()).unwrap();
    let mut command = Command::new(python);
    let done = feed(command.arg("-c").arg(VERIFY).arg(&records), reply.text.as_bytes());
    let output = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(output, "0 True\n1 True\n", "{}", String::from_utf8_lossy(&done.stderr));
}
