//! ManageSieve clients of other authors against the real service: sieve-connect (Debian), and the
//! Python packages managesieve and sievelib. Also what ManageSieve has in common with HTTP.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::bed::{TestBed, feed};
use crate::http::{basic, exchange, password};
use crate::mail::{Client, letter};
use crate::mta::free_port;
use crate::{program, report_missing, root};

const ANN: &str = "ann@example.org";
const PASSWORD: &str = "s3cret";

/// A service with the account of Ann, which offers STARTTLS on a port.
fn service() -> (TestBed, u16) {
    let (bed, port) = service_with("");
    bed.add_account(ANN, &[]);
    password(&bed, ANN, PASSWORD);
    (bed, port)
}

/// A service that offers STARTTLS on a port. `more` are further settings.
pub(crate) fn service_with(more: &str) -> (TestBed, u16) {
    let port = free_port();
    let tls = root().join("tests/tls");
    let mut bed = TestBed::new(&format!(
        "managesieve.listen = [\"tcp:127.0.0.1:{port}\"]\n\
         managesieve.tls-certificate = {:?}\nmanagesieve.tls-key = {:?}\n{more}",
        tls.join("localhost.cert.pem"),
        tls.join("localhost.key.pem"),
    ));
    bed.start();
    (bed, port)
}

pub(crate) fn certificate() -> PathBuf {
    root().join("tests/tls/localhost.cert.pem")
}

/// A Python that can import the packages managesieve and sievelib: that of the virtual environment
/// `RESTANTE_SIEVE_CLIENTS`, or one of the machine.
pub(crate) fn python_with_clients() -> Option<PathBuf> {
    let mut candidates = vec![PathBuf::from("/usr/bin/python3"), PathBuf::from("python3")];
    if let Some(venv) = std::env::var_os("RESTANTE_SIEVE_CLIENTS") {
        candidates.insert(0, PathBuf::from(venv).join("bin/python3"));
    }
    candidates.into_iter().find(|python| {
        let found = Command::new(python).args(["-c", "import managesieve, sievelib"]).output();
        found.is_ok_and(|done| done.status.success())
    })
}

#[test]
fn python_clients_can_manage_scripts() {
    let Some(python) = python_with_clients() else {
        return report_missing("managesieve and sievelib for Python");
    };
    let (bed, port) = service();
    let token = bed.json(&["account", "token", "add", ANN, "--name", "sieve"]);
    // Scripts in the shape that these clients generate. That of Proton is left out: it needs
    // `spamtest`, which the test bed does not configure.
    let folder = root().join("sieve/tests/clients");
    let scripts = ["nextcloud", "roundcube", "snappymail"].map(|name| folder.join(name));
    let scripts = scripts.map(|script| script.with_extension("sieve"));
    let done = Command::new(python)
        .arg(root().join("tests/it/clients/managesieve_session.py"))
        .args([&port.to_string(), ANN, PASSWORD, token["token"].as_str().unwrap()])
        .args(scripts)
        .env("SSL_CERT_FILE", certificate())
        .output()
        .unwrap();
    let (output, failed) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{output}\n{failed}\n{}", bed.log());
    assert_eq!(output.lines().last(), Some("all is well"), "{output}");
    bed.finish();
}

/// Runs sieve-connect, which begins TLS and logs in.
fn sieve_connect(program: &Path, port: u16, secret: &str, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(program);
    command
        .args(["--server", "localhost", "--4", "--port", &port.to_string(), "--user", ANN])
        .args(["--passwordfd", "0", "--tlscafile"])
        .arg(certificate())
        .args(arguments);
    let done = feed(&mut command, format!("{secret}\n").as_bytes());
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn sieve_connect_can_manage_scripts_which_then_filter() {
    let Some(program) = program("sieve-connect") else { return report_missing("sieve-connect") };
    let (bed, port) = service();
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let script = "require \"fileinto\";\r\n# gr\u{fc}\u{df}e\nfileinto \"Archive\";";
    let (good, bad) = (file("good.sieve", script), file("bad.sieve", "keep;\nkeeep;\n"));
    let run = |arguments: &[&str]| sieve_connect(&program, port, PASSWORD, arguments);
    let run_ok = |arguments: &[&str]| {
        let (is_ok, text) = run(arguments);
        assert!(is_ok, "{arguments:?}: {text}\n{}", bed.log());
        text
    };

    let (is_ok, text) = sieve_connect(&program, port, "wrong", &["--list"]);
    assert!(!is_ok, "{text}");
    assert_eq!(run_ok(&["--list"]).trim(), "");
    run_ok(&["--upload", "--localsieve", &good, "--remotesieve", "main"]);
    let (_, text) = run(&["--upload", "--localsieve", &bad, "--remotesieve", "main"]);
    assert!(text.contains("line 2, column 1: "), "{text}");
    let (_, text) = run(&["--checkscript", "--localsieve", &bad]);
    assert!(text.contains("line 2, column 1: "), "{text}");
    run_ok(&["--activate", "--remotesieve", "main"]);
    let listed = run_ok(&["--list"]);
    assert!(listed.contains("\"main\" ACTIVE"), "{listed}");
    let copy = dir.path().join("copy.sieve").display().to_string();
    run_ok(&["--download", "--remotesieve", "main", "--localsieve", &copy]);
    assert_eq!(fs::read_to_string(&copy).unwrap().trim_end(), script);

    // The script that the client activated filters mail.
    let mut lmtp = Client::lmtp(&bed.lmtp()).unwrap();
    let message = letter("bob@example.net", ANN, "filed", "hello");
    let replies = lmtp.deliver("bob@example.net", &[ANN], &message).unwrap();
    assert_eq!(replies[0].code, 250, "{replies:?}");
    bed.wait_until("the mail is in the archive", Duration::from_secs(30), || {
        let rows = bed.rows(&["mailbox", "list", "-a", ANN]);
        rows.iter().any(|row| row["name"] == "Archive" && row["totalEmails"] == 1)
    });

    // The active script is not deleted.
    let (_, text) = run(&["--delete", "--remotesieve", "main"]);
    assert!(run_ok(&["--list"]).contains("main"), "{text}");
    run_ok(&["--deactivate"]);
    run_ok(&["--delete", "--remotesieve", "main"]);
    assert_eq!(run_ok(&["--list"]).trim(), "");
    bed.finish();
}

/// Sends one command to a new session, and returns the first line of the answer to it.
fn ask(port: u16, command: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("OK ")), "no greeting");
    lines.next().unwrap_or_default()
}

#[test]
fn failed_logins_of_managesieve_and_http_are_counted_together() {
    let (sieve, http) = (free_port(), free_port());
    let mut bed = TestBed::new(&format!(
        "managesieve.listen = [\"tcp:127.0.0.1:{sieve}\"]\n\
         http.listen = [\"tcp:127.0.0.1:{http}\"]\n"
    ));
    bed.start();
    bed.add_account(ANN, &[]);
    password(&bed, ANN, PASSWORD);
    let over_http = |name: &str, password: &str| {
        let stream = TcpStream::connect(("127.0.0.1", http)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let authorization = basic(name, password);
        exchange(stream, "GET", "/jmap/session", &[("Authorization", &authorization)], b"").status
    };
    let over_sieve = |name: &str, password: &str| {
        let response = STANDARD.encode(format!("\0{name}\0{password}"));
        ask(sieve, &format!("AUTHENTICATE \"PLAIN\" \"{response}\""))
    };
    assert_eq!(over_http("nobody", "guess"), 401);
    // Twenty guesses are allowed, one of which was over HTTP. A guess is forgotten after 15
    // seconds, so on a slow machine some more fail before logins are refused.
    let guesses = (0..60).map(|n| over_sieve(&format!("user{n}@example.org"), "guess"));
    let failed = guesses.take_while(|answer| answer.starts_with("NO \"the login failed")).count();
    assert!((19..60).contains(&failed), "{failed} guesses");
    // HTTP itself had one guess, so it refuses because of those over ManageSieve. Some of these may
    // be forgotten by now, so a few more may fail over HTTP before it refuses.
    let is_refused = (0..5).any(|_| over_http("nobody", "guess") == 429);
    assert!(is_refused, "HTTP does not count the failures over ManageSieve");
    assert_eq!(over_http(ANN, PASSWORD), 429);
    assert!(over_sieve(ANN, PASSWORD).starts_with("NO (TRYLATER) "));
    bed.finish();
}
