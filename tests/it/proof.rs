//! Who sent it, and that it was us: own verification and our own signatures, from the LMTP client
//! to the relay, with a name server on loopback; and what the keys of `[dkim]` are made and looked
//! at with.

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

fn lines(bed: &TestBed, selectors: &[&str]) -> String {
    let keys = selectors.iter().map(|selector| {
        let file = bed.dir.join(format!("{selector}.pem"));
        format!(
            "[[dkim.keys]]\ndomain = \"example.org\"\nselector = \"{selector}\"\nfile = {file:?}\n"
        )
    });
    keys.collect()
}

#[test]
fn keys_are_made_and_shown_and_kept_private() {
    let bed = TestBed::new("");
    let made = keygen(&bed, "r1", "rsa");
    assert_eq!(made["name"], "r1._domainkey.example.org");
    assert!(made["record"].as_str().unwrap().starts_with("v=DKIM1; k=rsa; p=MIIB"), "{made}");
    let file = bed.dir.join("r1.pem");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o007, 0);
    // Never over one that is there, and nothing that is no domain or selector.
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
    // What it says goes into the configuration as it is; the record goes into the zone in strings
    // of 255 octets.
    let file = bed.dir.join("e1.pem");
    let said = bed.run_ok(&[
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
    let said = String::from_utf8(said).unwrap();
    let (_, toml) = said.split_once("[[dkim.keys]]").unwrap();
    bed.configure(&format!("{}[[dkim.keys]]{toml}", lines(&bed, &["r1"])));
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
    // Open to everybody it is refused, by all who would use it.
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

/// A service that verifies and signs, and ann, who is away.
fn service(dns: &Dns, relay: &Sink) -> TestBed {
    let mut bed = TestBed::new("");
    let (nameserver, port) = (dns.address, relay.address.port());
    for (selector, algorithm) in [("r1", "rsa"), ("e1", "ed25519"), ("r2", "rsa")] {
        let made = keygen(&bed, selector, algorithm);
        dns.txt(made["name"].as_str().unwrap(), made["record"].as_str().unwrap());
    }
    bed.configure(&format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {port}\nrelay.tls = \"none\"\n[verify]\non = true\nnameservers = \
         [\"{nameserver}\"]\n{}",
        lines(&bed, &["r1", "e1"])
    ));
    bed.start();
    bed.add_account(ANN, &["--display-name", "Ann"]);
    bed
}

/// Hands over a message as Postfix does, from a client at `address`; why it was not answered, and
/// what gave rise to it.
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
        format!("From: {from}\nTo: {ANN}\nSubject: {subject}\nMessage-ID: <{subject}@x>\n\nAre you there?\n")
            .as_bytes(),
    )
}

fn signed(signer: &Signer, message: &[u8]) -> Vec<u8> {
    [signer.sign(message).unwrap().unwrap(), message.to_vec()].concat()
}

#[test]
fn a_forger_gets_no_reply_and_a_true_sender_gets_one_that_is_signed() {
    let (dns, relay) = (Dns::start(), Sink::start());
    dns.txt("example.net", "v=spf1 ip4:192.0.2.0/24 -all")
        .txt("_dmarc.example.net", "v=DMARC1; p=reject");
    let key =
        SigningKey::new("example.net", "bob", generate(Algorithm::Rsa, 2048).unwrap().as_bytes())
            .unwrap();
    dns.txt(&key.name(), &key.record());
    let bob = Signer::new(vec![key]);
    let bed = service(&dns, &relay);
    let silent = |address: &str, sender: &str, message: &[u8]| {
        let (reason, detail) = deliver(&bed, address, sender, message);
        assert_eq!(reason, "unauthenticated", "{detail}");
        detail.as_str().unwrap().to_owned()
    };

    // Nobody is away: nobody is asked.
    assert_eq!(
        deliver(&bed, "203.0.113.66", "bob@example.net", &letter("bob@example.net", "before")).0,
        "disabled"
    );
    assert!(dns.queries().is_empty(), "{:?}", dns.queries());
    bed.run_ok(&["vacation", "set", "-a", ANN, "--text", "Back on Monday."]);
    let list = [b"List-Id: <x>\r\n", &*letter("bob@example.net", "list")].concat();
    assert_eq!(deliver(&bed, "203.0.113.66", "bob@example.net", &list).0, "list");
    assert!(dns.queries().is_empty(), "a list is not answered anyway: {:?}", dns.queries());

    // A stranger's machine under bob's name; a signature that does not fit; a bank's name over a
    // stranger's envelope.
    let plain = letter("Bob <bob@example.net>", "forged");
    assert!(
        silent("203.0.113.66", "bob@example.net", &plain)
            .contains("dmarc=fail header.from=example.net")
    );
    let tampered = [signed(&bob, &plain), b"Buy this.\r\n".to_vec()].concat();
    silent("203.0.113.66", "bob@example.net", &tampered);
    dns.txt("evil.example", "v=spf1 ip4:203.0.113.0/24 -all");
    assert!(silent("203.0.113.66", "eve@evil.example", &plain).contains("header.from=example.net"));

    // Bob himself: over a forwarder that kept his signature.
    let true_one = signed(&bob, &letter("Bob <bob@example.net>", "true"));
    assert_eq!(deliver(&bed, "203.0.113.66", "bob@example.net", &true_one).0, Value::Null);
    bed.wait_until("the reply", Duration::from_secs(20), || relay.messages().len() == 1);
    let reply = relay.messages().remove(0);
    assert_eq!(reply.recipients, ["bob@example.net"]);
    assert_eq!(
        verified(&dns, &reply),
        ["ed25519-sha256 e1 pass", "rsa-sha256 r1 pass"],
        "{}",
        reply.text
    );
    python(&dns, &bed, &reply);

    // Another key by SIGHUP, and another person, straight from his own server.
    let text = fs::read_to_string(bed.config()).unwrap();
    let (before, _) = text.split_once("[[dkim.keys]]").unwrap();
    fs::write(bed.config(), format!("{before}{}", lines(&bed, &["r2"]))).unwrap();
    bed.reload("configuration read again");
    assert_eq!(
        deliver(&bed, "192.0.2.7", "dora@example.net", &letter("dora@example.net", "dora")).0,
        Value::Null
    );
    bed.wait_until("the second reply", Duration::from_secs(20), || relay.messages().len() == 2);
    assert_eq!(verified(&dns, &relay.messages().remove(1)), ["rsa-sha256 r2 pass"]);
    // A key that is gone leaves the old one in force.
    fs::remove_file(bed.dir.join("r2.pem")).unwrap();
    let log = bed.reload("the old one stays in force");
    assert!(log.contains("r2.pem"), "{log}");
    assert_eq!(
        deliver(&bed, "192.0.2.8", "emil@example.net", &letter("emil@example.net", "emil")).0,
        Value::Null
    );
    bed.wait_until("the third reply", Duration::from_secs(20), || relay.messages().len() == 3);
    assert_eq!(verified(&dns, &relay.messages().remove(2)), ["rsa-sha256 r2 pass"]);
    fs::write(bed.config(), text).unwrap();
    bed.finish();
}

#[test]
fn a_name_server_that_is_silent_holds_nobody_up_for_long() {
    let (dns, relay) = (Dns::start(), Sink::start());
    let bed = service(&dns, &relay);
    let text = fs::read_to_string(bed.config()).unwrap();
    fs::write(bed.config(), text.replace("on = true", "on = true\ntimeout = \"1s\"")).unwrap();
    bed.reload("configuration read again");
    bed.run_ok(&["vacation", "set", "-a", ANN, "--text", "Back on Monday."]);
    let begun = std::time::Instant::now();
    let message = letter("bob@silent.example", "hello");
    assert_eq!(deliver(&bed, "192.0.2.7", "bob@silent.example", &message).0, Value::Null);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    bed.wait_until("the reply", Duration::from_secs(20), || relay.messages().len() == 1);
    assert!(bed.log().contains("could not be verified in time"), "{}", bed.log());
    bed.finish();
}

/// Each signature as mail-auth sees it, by the name server: algorithm, selector, result.
fn verified(dns: &Dns, caught: &SinkMessage) -> Vec<String> {
    use mail_auth::hickory_resolver::config::{
        ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let message = mail_auth::AuthenticatedMessage::parse(caught.text.as_bytes()).unwrap();
    let found = runtime.block_on(async {
        let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
        connections.iter_mut().for_each(|connection| connection.port = dns.address.port());
        let server = NameServerConfig::new(dns.address.ip(), true, connections);
        let config = ResolverConfig::from_parts(None, vec![], vec![server]);
        let asks = mail_auth::MessageAuthenticator::new(config, ResolverOpts::default()).unwrap();
        asks.verify_dkim(&message).await
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

const VERIFY: &str = r#"
import dkim, json, sys
records = json.load(open(sys.argv[1]))
message = sys.stdin.buffer.read()
def ask(name, timeout=5):
    return records[(name.decode() if isinstance(name, bytes) else name).rstrip('.')].encode()
for at in range(2):
    print(at, dkim.DKIM(message).verify(idx=at, dnsfunc=ask))
"#;

/// An interpreter that has dkimpy, where there is one.
fn interpreter() -> Option<PathBuf> {
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

/// The same by dkimpy, which nobody of us wrote.
fn python(dns: &Dns, bed: &TestBed, caught: &SinkMessage) {
    let Some(python) = interpreter() else {
        return crate::report_missing("dkimpy for Python (python3-dkim, python3-nacl)");
    };
    let records = bed.dir.join("records.json");
    let mut file = fs::File::create(&records).unwrap();
    file.write_all(serde_json::to_string(&dns.txt_records()).unwrap().as_bytes()).unwrap();
    let mut command = Command::new(python);
    let done = feed(command.arg("-c").arg(VERIFY).arg(&records), caught.text.as_bytes());
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(said, "0 True\n1 True\n", "{}", String::from_utf8_lossy(&done.stderr));
}
