//! JMAP for Sieve scripts (RFC 9661) over HTTP: a client of another author (Rust's jmap-client),
//! and requests whose answers are compared. ManageSieve shows the same scripts.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jmap_client::client::Client as JmapClient;
use jmap_client::sieve;
use serde_json::{Value, json};

use crate::bed::TestBed;
use crate::http::{basic, connect, exchange, get, password};
use crate::mail::{Client, letter};
use crate::mta::free_port;
use crate::root;

const ANN: &str = "ann@example.org";
const PASSWORD: &str = "s3cret";
const ARCHIVE: &str = "require \"fileinto\";\r\n# gr\u{fc}\u{df}e\nfileinto \"Archive\";";

/// A service with the account of Ann, which offers JMAP over HTTPS on the returned port and on a
/// Unix socket, and ManageSieve on another Unix socket.
fn service() -> (TestBed, u16) {
    let port = free_port();
    let tls = root().join("tests/tls");
    let mut bed = TestBed::new("");
    bed.configure(&format!(
        "http.listen = [\"tcp:127.0.0.1:{port}\", \"unix:{}\"]\n\
         http.tls-certificate = {:?}\nhttp.tls-key = {:?}\n\
         managesieve.listen = [\"unix:{}\"]\n\
         sieve.scripts = 3\nsieve.script-size = \"1 KiB\"\n",
        bed.dir.join("http").display(),
        tls.join("localhost.cert.pem"),
        tls.join("localhost.key.pem"),
        bed.dir.join("managesieve").display(),
    ));
    bed.start();
    bed.add_account(ANN, &[]);
    password(&bed, ANN, PASSWORD);
    (bed, port)
}

/// Returns the lines of LISTSCRIPTS, sorted.
fn managesieve_list(bed: &TestBed) -> Vec<String> {
    let mut stream = UnixStream::connect(bed.dir.join("managesieve")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    let mut response = || {
        let mut before: Vec<String> = Vec::new();
        loop {
            let line = lines.next().expect("a response");
            if line.starts_with("OK") {
                return before;
            }
            assert!(line.starts_with('"'), "{line}");
            before.push(line);
        }
    };
    response();
    let login = STANDARD.encode(format!("\0{ANN}\0{PASSWORD}"));
    write!(stream, "AUTHENTICATE \"PLAIN\" \"{login}\"\r\n").unwrap();
    response();
    write!(stream, "LISTSCRIPTS\r\n").unwrap();
    let mut listed = response();
    listed.sort_unstable();
    listed
}

fn deliver(bed: &TestBed, subject: &str) {
    let mut lmtp = Client::lmtp(&bed.lmtp()).unwrap();
    let message = letter("bob@example.net", ANN, subject, "hello");
    let replies = lmtp.deliver("bob@example.net", &[ANN], &message).unwrap();
    assert_eq!(replies[0].code, 250, "{replies:?}");
}

fn subjects(bed: &TestBed, mailbox: &str) -> Vec<Value> {
    let rows = bed.rows(&["mail", "list", "-a", ANN, "--mailbox", mailbox]);
    rows.iter().map(|row| row["subject"].clone()).collect()
}

#[test]
fn jmap_client_manages_scripts_which_then_filter() {
    let (bed, port) = service();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(manage(&bed, port));
    bed.finish();
}

async fn manage(bed: &TestBed, port: u16) {
    let client = JmapClient::new()
        .credentials((ANN, PASSWORD))
        .accept_invalid_certs(true)
        .follow_redirects(["localhost"]);
    let client = client.connect(&format!("https://localhost:{port}")).await.unwrap();

    // One call stores a script and activates it, and mail is filed.
    let first = client.sieve_script_create("first", ARCHIVE, true).await.unwrap().take_id();
    deliver(bed, "filed");
    assert_eq!(subjects(bed, "Archive"), ["filed"]);
    let got = client.sieve_script_get(&first, None::<Vec<_>>).await.unwrap().unwrap();
    assert!(got.is_active() && got.name() == Some("first"), "{got:?}");
    let blob = got.blob_id().unwrap();
    assert_eq!(client.download(blob).await.unwrap(), ARCHIVE.as_bytes());
    assert_eq!(managesieve_list(bed), ["\"first\" ACTIVE"]);

    // Another one takes its place.
    let second = client.sieve_script_create("second", "keep;", false).await.unwrap().take_id();
    client.sieve_script_activate(&second).await.unwrap();
    deliver(bed, "kept");
    assert_eq!(subjects(bed, "Inbox"), ["kept"]);
    let active = sieve::query::Filter::is_active(true);
    let by_name = || Some([sieve::query::Comparator::name()]);
    let found = client.sieve_script_query(Some(active), by_name()).await.unwrap().take_ids();
    assert_eq!(found, [second.as_str()]);
    // A part of the name in upper case.
    let named = sieve::query::Filter::name("IRS");
    let found = client.sieve_script_query(Some(named), by_name()).await.unwrap().take_ids();
    assert_eq!(found, [first.as_str()]);
    assert!(client.sieve_script_destroy(&second).await.is_err(), "the script is active");
    client.sieve_script_destroy(&first).await.unwrap();

    // A new source and a new name; then nothing filters any more.
    client.sieve_script_replace(&second, ARCHIVE, false).await.unwrap();
    client.sieve_script_rename(&second, "zweites", false).await.unwrap();
    assert_eq!(managesieve_list(bed), ["\"zweites\" ACTIVE"]);
    deliver(bed, "filed again");
    assert!(subjects(bed, "Archive").contains(&json!("filed again")));
    client.sieve_script_deactivate().await.unwrap();
    deliver(bed, "kept again");
    assert!(subjects(bed, "Inbox").contains(&json!("kept again")));

    client.sieve_script_validate(ARCHIVE).await.unwrap();
    assert!(client.sieve_script_validate("keeep;").await.is_err());
    client.sieve_script_destroy(&second).await.unwrap();
    assert_eq!(managesieve_list(bed), Vec::<String>::new());
}

/// Sends a request with several calls in Ann's account, and returns the arguments of the responses.
fn ask(bed: &TestBed, account: &str, calls: &[(&str, Value)]) -> Vec<Value> {
    let of_account = |(at, (name, arguments)): (usize, &(&str, Value))| {
        let mut arguments = arguments.clone();
        arguments["accountId"] = account.into();
        json!([name, arguments, at.to_string()])
    };
    let request = json!({
        "using": [
            "urn:ietf:params:jmap:core",
            "urn:ietf:params:jmap:sieve",
            "urn:ietf:params:jmap:blob",
        ],
        "methodCalls": calls.iter().enumerate().map(of_account).collect::<Vec<_>>(),
    });
    let authorization = basic(ANN, PASSWORD);
    let fields = [("Authorization", authorization.as_str()), ("Content-Type", "application/json")];
    let answer = exchange(connect(bed), "POST", "/jmap", &fields, request.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    let responses = answer.json()["methodResponses"].as_array().unwrap().clone();
    responses.iter().map(|response| response[1].clone()).collect()
}

/// The call that uploads a source; later calls of the request name its blob `#b`.
fn upload(source: &str) -> (&'static str, Value) {
    ("Blob/upload", json!({"create": {"b": {"data": [{"data:asText": source}]}}}))
}

/// The arguments that make a script of the blob `#b`, and activate it.
fn create(name: &str) -> Value {
    json!({"create": {"s": {"name": name, "blobId": "#b"}}, "onSuccessActivateScript": "#s"})
}

#[test]
fn scripts_are_replaced_refused_and_downloaded_over_http() {
    let (bed, _) = service();
    let session = get(&bed, "/jmap/session", &basic(ANN, PASSWORD)).json();
    let account = session["primaryAccounts"]["urn:ietf:params:jmap:sieve"].as_str().unwrap();
    let capability =
        &session["accounts"][account]["accountCapabilities"]["urn:ietf:params:jmap:sieve"];
    assert_eq!(
        (&capability["maxNumberScripts"], &capability["maxSizeScript"]),
        (&json!(3), &json!(1024)),
        "{capability}"
    );
    let ask = |calls: &[(&str, Value)]| ask(&bed, account, calls);
    let made = ask(&[upload(ARCHIVE), ("SieveScript/set", create("one"))]);
    let one = made[1]["created"]["s"]["id"].as_str().unwrap_or_else(|| panic!("{made:?}"));
    deliver(&bed, "filed");
    assert_eq!(subjects(&bed, "Archive"), ["filed"]);

    // The active script is replaced, and the former one destroyed by back reference.
    let reference = json!({"resultOf": "2", "name": "SieveScript/query", "path": "/ids"});
    let destroy = json!({"#destroy": reference});
    let answers = ask(&[
        upload("require \"fileinto\";\nfileinto \"Junk\";\n"),
        ("SieveScript/set", create("two")),
        ("SieveScript/query", json!({"filter": {"isActive": false}})),
        ("SieveScript/set", destroy),
    ]);
    assert_eq!(answers[1]["updated"], json!({one: {"isActive": false}}), "{answers:?}");
    assert_eq!(answers[3]["destroyed"], json!([one]), "{answers:?}");
    assert_eq!(managesieve_list(&bed), ["\"two\" ACTIVE"]);
    deliver(&bed, "junk");
    assert_eq!(subjects(&bed, "Junk"), ["junk"]);

    // Bad and large scripts change nothing.
    let source = "keep;\nkeeep;\nfileinto \"x\";\n";
    let bad = ask(&[upload(source), ("SieveScript/set", create("bad"))]);
    let error = &bad[1]["notCreated"]["s"];
    assert_eq!(error["type"], "invalidSieve", "{bad:?}");
    let lines: Vec<&str> = error["description"].as_str().unwrap().split('\n').collect();
    assert!(
        lines.len() == 2
            && lines[0].starts_with("line 2, column 1: ")
            && lines[1].starts_with("line 3, column 1: "),
        "{lines:?}"
    );
    let large = format!("#{}\n", "x".repeat(1023));
    let refused = ask(&[
        upload(&large),
        ("SieveScript/set", create("large")),
        ("SieveScript/validate", json!({"blobId": "#b"})),
    ]);
    assert_eq!(refused[1]["notCreated"]["s"]["type"], "tooLarge", "{refused:?}");
    assert_eq!(refused[2]["error"]["type"], "tooLarge", "{refused:?}");
    assert_eq!(managesieve_list(&bed), ["\"two\" ACTIVE"]);
    // The site allows three scripts, and one more is refused.
    let more = json!({"create": {
        "3": {"name": "three", "blobId": "#b"},
        "4": {"name": "four", "blobId": "#b"},
        "5": {"name": "five", "blobId": "#b"},
    }});
    let made = ask(&[upload(ARCHIVE), ("SieveScript/set", more)]);
    assert_eq!(made[1]["notCreated"]["5"]["type"], "overQuota", "{made:?}");

    // The blob of a script is downloaded byte for byte, also after a restart.
    let mut bed = bed;
    bed.kill();
    bed.start();
    let list = self::ask(&bed, account, &[("SieveScript/get", json!({}))])[0]["list"].clone();
    let three = list.as_array().unwrap().iter().find(|one| one["name"] == "three").unwrap();
    let blob = three["blobId"].as_str().unwrap();
    let path = format!("/jmap/download/{account}/{blob}/three.sieve");
    let downloaded = get(&bed, &path, &basic(ANN, PASSWORD));
    assert_eq!((downloaded.status, downloaded.body.as_slice()), (200, ARCHIVE.as_bytes()));
    bed.finish();
}
