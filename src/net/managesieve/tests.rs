use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::TcpStream;

use super::*;
use crate::account::{Logins, NewAccount, hash_password, new_token};
use crate::model::clock::FixedClock;
use crate::model::{AccessToken, AccountId, Address, UtcMillis};
use crate::net::listen::{Access, ListenAddress};
use crate::net::stop::{Switch, switch};
use crate::store::Options;
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine as _, Put, Table};

const NOW: UtcMillis = UtcMillis(1_795_251_600_000);
/// How many logins of one source may fail without a wait (`account::login::failures`).
const MAX_FAILURES_OF_SOURCE: usize = 20;

/// A server with the account `ann@example.org`, whose password is `s3cret`.
struct Server {
    port: u16,
    engine: Arc<MemoryEngine>,
    shared: Arc<Shared>,
    ann: AccountId,
    switch: Switch,
}

/// Changes of the directory wait for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn directory_with_ann(store: Store) -> (Directory, AccountId) {
    let directory = Directory::new(store, crate::account::Settings::default());
    let ann = directory.add(&NewAccount::at(Address::parse("ann@example.org").unwrap())).unwrap();
    let hash = hash_password("s3cret").unwrap();
    let keys = directory.scram_keys(ann, "phone", "s3cret").unwrap();
    directory
        .update(ann, |row| row.set_password("phone", Some(hash.clone()), Some(keys.clone())))
        .unwrap();
    (directory, ann)
}

async fn server(settings: ManageSieveSettings, max_connections: usize) -> Server {
    let clock = Arc::new(FixedClock::at(NOW));
    let engine = Arc::new(MemoryEngine::new());
    let store = Store::open_engine(engine.clone(), &Options::small(), clock.clone()).unwrap();
    let for_directory = store.clone();
    let (directory, ann) = blocking(move || directory_with_ann(for_directory)).await;
    let filter = Arc::new(filter::Settings { max_scripts: 2, ..filter::Settings::default() });
    let deliver = deliver::Settings { filter, ..deliver::Settings::default() };
    let logins = Logins::new(directory.clone(), clock).unwrap();
    let shared = Arc::new(Shared {
        settings: LiveValue::new(settings),
        deliver: LiveValue::new(deliver),
        store,
        directory,
        passwords: PasswordChecks::new(logins),
        ceiling: Ceiling::new(max_connections, u64::MAX),
        bounds: ManageSieveBounds::default(),
    });
    let listen = ListenAddress::Tcp("127.0.0.1".into(), 0);
    let bound = BoundListener::bind(&listen, &Access::Everybody).await.unwrap().remove(0);
    let port = bound.port().unwrap();
    let (switch, stop) = switch();
    tokio::spawn(serve(bound, Arc::clone(&shared), stop));
    Server { port, engine, shared, ann, switch }
}

impl Server {
    /// Writes this row of the account, and has the directory read its rows anew.
    async fn write_account_row(&self, (key, value): (Vec<u8>, Vec<u8>)) {
        let put = Put { table: Table::Accounts, key, value: Some(value) };
        self.engine.write(&[Arc::new(Batch::of(vec![put]))]).unwrap();
        let directory = self.shared.directory.clone();
        // Every change of an account does.
        let change = move || {
            let bob = directory.find_account("bob@example.org")?;
            let new = || directory.add(&NewAccount::at(Address::from_parts("bob", "example.org")));
            let bob = bob.map_or_else(new, |(bob, _)| Ok(bob))?;
            directory.update(bob, |row| row.active = !row.active)
        };
        blocking(change).await.unwrap();
    }
}

struct Client<S = TcpStream>(BufReader<S>);

impl Client {
    async fn connect(server: &Server) -> Self {
        Self(BufReader::new(TcpStream::connect(("127.0.0.1", server.port)).await.unwrap()))
    }

    /// Connects, and reads the greeting.
    async fn greeted(server: &Server) -> Self {
        let mut client = Self::connect(server).await;
        let greeting = client.response().await;
        assert!(greeting.ends_with("OK \"Restante is ready\"\r\n"), "{greeting}");
        client
    }

    async fn logged_in(server: &Server) -> Self {
        let mut client = Self::greeted(server).await;
        let answer = client.say(&plain("", "ann@example.org", "s3cret")).await;
        assert_eq!(answer, "OK\r\n");
        client
    }
}

impl<S: ByteStream> Client<S> {
    /// Reads lines up to one that ends a response.
    async fn response(&mut self) -> String {
        self.response_or_challenge(false).await
    }

    async fn response_or_challenge(&mut self, may_be_challenge: bool) -> String {
        let mut text = String::new();
        loop {
            let start = text.len();
            if self.0.read_line(&mut text).await.unwrap() == 0 {
                return text;
            }
            let line = &text[start..];
            let is_end = ["OK", "NO", "BYE"].iter().any(|status| line.starts_with(status));
            let is_challenge = may_be_challenge && line.starts_with('"');
            if is_challenge || is_end && !line.ends_with("}\r\n") {
                return text;
            }
            if is_end {
                // The text of the answer is a literal.
                let size = line.rsplit('{').next().unwrap().trim_end_matches("}\r\n");
                let mut literal = vec![0; size.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut literal).await.unwrap();
                text.push_str(std::str::from_utf8(&literal).unwrap());
                return text;
            }
        }
    }

    async fn say(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
        let is_login = command.starts_with("AUTHENTICATE") || command.starts_with('"');
        self.response_or_challenge(is_login).await
    }

    async fn is_closed(&mut self) -> bool {
        matches!(self.0.read_u8().await, Err(error) if error.kind() == io::ErrorKind::UnexpectedEof)
    }
}

fn plain(authorization: &str, name: &str, password: &str) -> String {
    let response = STANDARD.encode(format!("{authorization}\0{name}\0{password}"));
    format!("AUTHENTICATE \"PLAIN\" \"{response}\"")
}

#[tokio::test]
async fn scripts_are_checked_stored_and_given_back() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let mut ann = Client::logged_in(&server).await;
    assert!(ann.say("CAPABILITY").await.contains("\"OWNER\" \"ann@example.org\"\r\n"));
    let script = "require \"fileinto\";\r\n# \u{fc} \"rule:[x]\"\nfileinto \"Junk\";";
    let put = |name: &str| format!("PUTSCRIPT \"{name}\" {{{}+}}\r\n{script}", script.len());
    assert_eq!(ann.say(&put("one")).await, "OK\r\n");
    let wrong = ann.say("PUTSCRIPT \"one\" \"keeep; fileinto \\\"x\\\";\"").await;
    assert!(wrong.starts_with("NO {") && wrong.lines().count() > 2, "{wrong}");
    let got = ann.say("GETSCRIPT \"one\"").await;
    assert_eq!(got, format!("{{{}}}\r\n{script}\r\nOK\r\n", script.len()));
    assert_eq!(ann.say("HAVESPACE \"two\" 10").await, "OK\r\n");
    assert_eq!(ann.say("PUTSCRIPT \"u\u{308}\" \"keep;\"").await, "OK\r\n");
    for command in ["HAVESPACE \"three\" 10", "PUTSCRIPT \"three\" \"keep;\""] {
        let answer = ann.say(command).await;
        assert_eq!(answer, "NO (QUOTA/MAXSCRIPTS) \"an account may have up to 2 scripts\"\r\n");
    }
    assert_eq!(ann.say("SETACTIVE \"one\"").await, "OK\r\n");
    assert!(ann.say("DELETESCRIPT \"one\"").await.starts_with("NO (ACTIVE) "));
    for name in ["\u{fc}", "one"] {
        let answer = ann.say(&format!("RENAMESCRIPT \"one\" \"{name}\"")).await;
        assert!(answer.starts_with("NO (ALREADYEXISTS) "), "{name}: {answer}");
    }
    assert_eq!(ann.say("RENAMESCRIPT \"one\" \"main\"").await, "OK\r\n");
    assert_eq!(ann.say("LISTSCRIPTS").await, "\"main\" ACTIVE\r\n\"\u{fc}\"\r\nOK\r\n");
    for command in ["GETSCRIPT", "DELETESCRIPT", "SETACTIVE"] {
        let answer = ann.say(&format!("{command} \"one\"")).await;
        assert!(answer.starts_with("NO (NONEXISTENT) "), "{command}: {answer}");
    }
    assert_eq!(ann.say("SETACTIVE \"\"").await, "OK\r\n");
    assert_eq!(ann.say("DELETESCRIPT \"main\"").await, "OK\r\n");
    assert!(ann.say("CHECKSCRIPT \"require \\\"nothing\\\";\"").await.starts_with("NO "));
    assert_eq!(ann.say("CHECKSCRIPT \"stop;\"").await, "OK\r\n");
    for command in ["CHECKSCRIPT", "PUTSCRIPT \"odd\""] {
        let script = "require \"fileinto\";\r\nstop;\r\nkeep;";
        let warned = ann.say(&format!("{command} {{{}+}}\r\n{script}", script.len())).await;
        let (status, text) = warned.split_at(14);
        assert_eq!(status, "OK (WARNINGS) ", "{command}: {warned}");
        assert!(
            text.contains("line 1, column ") && text.contains("line 3, column 1: "),
            "{warned}"
        );
        assert_eq!(text.matches("warning: ").count(), 2, "{command}: {warned}");
    }
    assert_eq!(ann.say("LISTSCRIPTS").await, "\"\u{fc}\"\r\n\"odd\"\r\nOK\r\n");
    assert_eq!(ann.say("LOGOUT").await, "OK \"goodbye\"\r\n");
    assert!(ann.is_closed().await);
}

/// A client of JMAP may store a name that is not in NFC.
#[tokio::test]
async fn names_that_are_alike_in_nfc_are_one_name() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let (store, account) = (server.shared.store.clone(), server.ann);
    let create = move || {
        let (_, ticket) =
            store.commit(account, |txn| txn.create_script("u\u{308}", b"keep;")).unwrap();
        ticket.wait_blocking().unwrap();
    };
    blocking(create).await;
    let mut ann = Client::logged_in(&server).await;
    assert_eq!(ann.say("PUTSCRIPT \"a\" \"stop;\"").await, "OK\r\n");
    let list = "\"u\u{308}\"\r\n\"a\"\r\nOK\r\n";
    for (from, to) in [("a", "\u{fc}"), ("a", "u\u{308}"), ("\u{fc}", "\u{fc}")] {
        let answer = ann.say(&format!("RENAMESCRIPT \"{from}\" \"{to}\"")).await;
        assert!(answer.starts_with("NO (ALREADYEXISTS) "), "{from} {to}: {answer}");
        assert_eq!(ann.say("LISTSCRIPTS").await, list);
    }
    assert_eq!(ann.say("PUTSCRIPT \"\u{fc}\" \"discard;\"").await, "OK\r\n");
    assert_eq!(ann.say("LISTSCRIPTS").await, list);
    assert_eq!(ann.say("GETSCRIPT \"\u{fc}\"").await, "{8}\r\ndiscard;\r\nOK\r\n");
}

#[tokio::test]
async fn change_of_one_client_is_seen_by_another_that_was_connected_before() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let mut laptop = Client::logged_in(&server).await;
    let mut phone = Client::logged_in(&server).await;
    assert_eq!(laptop.say("PUTSCRIPT \"a\" \"keep;\"").await, "OK\r\n");
    assert_eq!(phone.say("LISTSCRIPTS").await, "\"a\"\r\nOK\r\n");
    assert_eq!(phone.say("PUTSCRIPT \"a\" \"stop;\"").await, "OK\r\n");
    assert_eq!(laptop.say("GETSCRIPT \"a\"").await, "{5}\r\nstop;\r\nOK\r\n");
    assert_eq!(laptop.say("SETACTIVE \"a\"").await, "OK\r\n");
    assert!(phone.say("DELETESCRIPT \"a\"").await.starts_with("NO (ACTIVE) "));
    assert_eq!(phone.say("SETACTIVE \"\"").await, "OK\r\n");
    assert_eq!(phone.say("RENAMESCRIPT \"a\" \"b\"").await, "OK\r\n");
    assert!(laptop.say("GETSCRIPT \"a\"").await.starts_with("NO (NONEXISTENT) "));
    assert_eq!(laptop.say("LISTSCRIPTS").await, "\"b\"\r\nOK\r\n");
    assert_eq!(laptop.say("DELETESCRIPT \"b\"").await, "OK\r\n");
    assert_eq!(phone.say("LISTSCRIPTS").await, "OK\r\n");
}

#[tokio::test]
async fn clients_log_in_with_password_token_and_scram() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let (token, hash) = new_token().unwrap();
    let token_row = AccessToken { name: "t".into(), hash, created: NOW, expires: None };
    let (directory, account) = (server.shared.directory.clone(), server.ann);
    let add = move || directory.update(account, |row| row.tokens.push(token_row.clone()));
    blocking(add).await.unwrap();
    let bearer = |token: &str| {
        let text = format!("n,a=ann@example.org,\u{1}auth=Bearer {token}\u{1}\u{1}");
        format!("AUTHENTICATE \"OAUTHBEARER\" \"{}\"", STANDARD.encode(text))
    };
    let mut ann = Client::greeted(&server).await;
    assert_eq!(ann.say(&bearer(&token)).await, "OK\r\n");
    assert_eq!(ann.say("UNAUTHENTICATE").await, "OK\r\n");
    assert!(ann.say(&bearer("wrong")).await.starts_with('"'));
    assert!(ann.say("\"AQ==\"").await.starts_with("NO \"the login failed"));
    assert_eq!(ann.say(&plain("ANN@example.org", "ann@example.org", "s3cret")).await, "OK\r\n");
    assert_eq!(ann.say("UNAUTHENTICATE").await, "OK\r\n");
    // Nobody may act as another.
    let other = ann.say(&plain("bob@example.org", "ann@example.org", "s3cret")).await;
    assert!(other.starts_with("NO \"the login failed"), "{other}");

    let client = crate::wire::sasl::client::Client::new("ann@example.org", "s3cret");
    let first = format!("AUTHENTICATE \"SCRAM-SHA-256\" \"{}\"", STANDARD.encode(client.first()));
    let challenge = ann.say(&first).await;
    let challenge = STANDARD.decode(challenge.trim().trim_matches('"')).unwrap();
    let last = STANDARD.encode(client.last(&challenge));
    let answer = ann.say(&format!("\"{last}\"")).await;
    assert!(answer.starts_with("OK (SASL \""), "{answer}");
    assert!(ann.say("CAPABILITY").await.contains("\"OWNER\" \"ann@example.org\"\r\n"));
}

#[tokio::test]
async fn failed_logins_are_counted_by_source() {
    let server = server(ManageSieveSettings::default(), 99).await;
    for n in 0..MAX_FAILURES_OF_SOURCE {
        let mut eve = Client::greeted(&server).await;
        let answer = eve.say(&plain("", &format!("name {n}"), "wrong")).await;
        assert!(answer.starts_with("NO \"the login failed"), "{n}: {answer}");
    }
    let mut eve = Client::greeted(&server).await;
    let answer = eve.say(&plain("", "ann@example.org", "s3cret")).await;
    assert!(answer.starts_with("NO (TRYLATER) \"too many logins that failed"), "{answer}");
    let client = crate::wire::sasl::client::Client::new("ann@example.org", "s3cret");
    let first = format!("AUTHENTICATE \"SCRAM-SHA-256\" \"{}\"", STANDARD.encode(client.first()));
    assert!(eve.say(&first).await.starts_with("NO (TRYLATER) "));
    // The connection has had two refusals. The fifth closes it (`max_failed_logins`).
    for answer in ["NO", "NO", "BYE"] {
        let refused = eve.say(&plain("", "ann@example.org", "s3cret")).await;
        assert!(refused.starts_with(&format!("{answer} (TRYLATER) ")), "{refused}");
    }
    assert!(eve.is_closed().await);
}

#[tokio::test]
async fn unfinished_scram_login_counts_as_failed() {
    let server = server(ManageSieveSettings::default(), 99).await;
    let client = crate::wire::sasl::client::Client::new("nobody@example.org", "guess");
    let first = format!("AUTHENTICATE \"SCRAM-SHA-256\" \"{}\"", STANDARD.encode(client.first()));
    for n in 0..MAX_FAILURES_OF_SOURCE {
        let mut eve = Client::greeted(&server).await;
        let challenge = eve.say(&first).await;
        assert!(challenge.starts_with('"'), "{n}: {challenge}");
    }
    let mut eve = Client::greeted(&server).await;
    assert!(eve.say(&first).await.starts_with("NO (TRYLATER) "));
}

/// The row of the account is damaged when the client begins to log in, or only when it proves that
/// it has the password.
#[tokio::test]
async fn scram_login_that_cannot_be_checked_is_not_counted_as_failed() {
    let server = server(ManageSieveSettings::default(), 99).await;
    let [(key, row)] = <[_; 1]>::try_from(server.engine.rows(Table::Accounts)).unwrap();
    let damaged = || (key.clone(), vec![99]);
    let client = crate::wire::sasl::client::Client::new("ann@example.org", "s3cret");
    let first = format!("AUTHENTICATE \"SCRAM-SHA-256\" \"{}\"", STANDARD.encode(client.first()));
    let proof = |challenge: &str| {
        let challenge = STANDARD.decode(challenge.trim().trim_matches('"')).unwrap();
        format!("\"{}\"", STANDARD.encode(client.last(&challenge)))
    };
    server.write_account_row(damaged()).await;
    for n in 0..=MAX_FAILURES_OF_SOURCE {
        let mut ann = Client::greeted(&server).await;
        let answer = ann.say(&first).await;
        assert!(answer.contains("could not be checked"), "{n}: {answer}");
    }
    for n in 0..=MAX_FAILURES_OF_SOURCE {
        server.write_account_row((key.clone(), row.clone())).await;
        let mut ann = Client::greeted(&server).await;
        let challenge = ann.say(&first).await;
        assert!(challenge.starts_with('"'), "{n}: {challenge}");
        server.write_account_row(damaged()).await;
        let answer = ann.say(&proof(&challenge)).await;
        assert!(answer.contains("could not be checked"), "{n}: {answer}");
    }
    server.write_account_row((key.clone(), row.clone())).await;
    let mut ann = Client::greeted(&server).await;
    let challenge = ann.say(&first).await;
    assert!(ann.say(&proof(&challenge)).await.starts_with("OK "));
}

#[tokio::test]
async fn login_ends_when_its_password_is_removed() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let mut ann = Client::logged_in(&server).await;
    assert_eq!(ann.say("LISTSCRIPTS").await, "OK\r\n");
    let (directory, account) = (server.shared.directory.clone(), server.ann);
    let remove = move || directory.update(account, |row| row.set_password("phone", None, None));
    blocking(remove).await.unwrap();
    assert!(ann.say("LISTSCRIPTS").await.starts_with("BYE "));
    assert!(ann.is_closed().await);
}

#[tokio::test]
async fn silent_clients_surplus_connections_and_a_stop_end_with_bye() {
    let settings =
        ManageSieveSettings { login: Duration::from_millis(300), ..ManageSieveSettings::default() };
    let server = server(settings, 1).await;
    let mut silent = Client::greeted(&server).await;
    let mut surplus = Client::connect(&server).await;
    assert!(surplus.response().await.starts_with("BYE (TRYLATER) "));
    let bye = silent.response().await;
    assert_eq!(bye, "BYE (TRYLATER) \"the client did not log in in time\"\r\n");
    assert!(silent.is_closed().await);
    // Time for the server to count one connection less.
    sleep(Duration::from_millis(50)).await;
    // A client that is logged in may be silent for longer.
    let mut ann = Client::logged_in(&server).await;
    sleep(Duration::from_millis(500)).await;
    assert_eq!(ann.say("NOOP").await, "OK \"done\"\r\n");
    server.switch.stop();
    assert_eq!(ann.response().await, "BYE (TRYLATER) \"the service is shutting down\"\r\n");
}

#[tokio::test]
async fn client_that_sends_without_a_pause_ends_like_a_silent_one() {
    let login = Duration::from_secs(1);
    let server = server(ManageSieveSettings { login, ..ManageSieveSettings::default() }, 9).await;
    let send_without_end = |client: Client, text: &'static [u8]| {
        let (read, mut write) = client.0.into_inner().into_split();
        // Writing fails when the server has closed the connection.
        let sender =
            tokio::spawn(async move { while write.write_all(&text.repeat(1000)).await.is_ok() {} });
        (BufReader::new(read), sender)
    };
    let ann = Client::logged_in(&server).await;
    // A line without an end is no command, and is not counted.
    for (text, bye) in [
        (b"x".as_slice(), "BYE (TRYLATER) \"the client did not log in in time\"\r\n"),
        (b"\r\n", "BYE \"too many commands without a login\"\r\n"),
    ] {
        let client = Client::greeted(&server).await;
        let (mut read, sender) = send_without_end(client, text);
        let mut line = String::new();
        let end = timeout(Duration::from_secs(20), read.read_line(&mut line)).await;
        assert!(end.is_ok(), "the session does not end");
        assert_eq!(line, bye);
        timeout(Duration::from_secs(20), sender).await.unwrap().unwrap();
    }
    // A client that is logged in may go on, until the service stops.
    let (mut read, sender) = send_without_end(ann, b"x");
    sleep(Duration::from_millis(500)).await;
    assert!(!sender.is_finished());
    server.switch.stop();
    let mut line = String::new();
    timeout(Duration::from_secs(20), read.read_line(&mut line)).await.unwrap().unwrap();
    assert_eq!(line, "BYE (TRYLATER) \"the service is shutting down\"\r\n");
    timeout(Duration::from_secs(20), sender).await.unwrap().unwrap();
}

#[tokio::test]
async fn client_that_pipelines_and_reads_late_gets_all_answers() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let mut ann = Client::logged_in(&server).await;
    let script = "#".repeat(200_000);
    let put = format!("PUTSCRIPT \"a\" {{{}+}}\r\n{script}", script.len());
    assert_eq!(ann.say(&put).await, "OK\r\n");
    let commands = "GETSCRIPT \"a\"\r\n".repeat(200) + "LOGOUT\r\n";
    ann.0.get_mut().write_all(commands.as_bytes()).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    let mut answers = String::new();
    ann.0.read_to_string(&mut answers).await.unwrap();
    let answer = format!("{{{}}}\r\n{script}\r\nOK\r\n", script.len());
    assert_eq!(answers.len(), 200 * answer.len() + "OK \"goodbye\"\r\n".len());
    assert!(answers.starts_with(&answer) && answers.ends_with("OK\r\nOK \"goodbye\"\r\n"));
}

#[tokio::test]
async fn client_that_does_not_read_does_not_delay_a_stop() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let mut ann = Client::logged_in(&server).await;
    let script = "#".repeat(200_000);
    let put = format!("PUTSCRIPT \"a\" {{{}+}}\r\n{script}", script.len());
    assert_eq!(ann.say(&put).await, "OK\r\n");
    let commands = "GETSCRIPT \"a\"\r\n".repeat(1000);
    ann.0.get_mut().write_all(commands.as_bytes()).await.unwrap();
    // Time for the answers to fill the buffers of the connection.
    sleep(Duration::from_millis(300)).await;
    server.switch.stop();
    let until = Instant::now() + CLOSING_TIMEOUT + Duration::from_secs(5);
    assert!(server.switch.wait_until_drained(until).await);
    drop(ann);
}

#[tokio::test]
async fn one_address_has_a_part_of_all_connections() {
    let server = server(ManageSieveSettings::default(), 40).await;
    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(Client::greeted(&server).await);
    }
    let mut surplus = Client::connect(&server).await;
    assert!(surplus.response().await.starts_with("BYE (TRYLATER) "));
    let unix = || server.shared.connection_permit(Peer::Unix(None)).is_some();
    assert!(unix() && server.shared.connection_permit(Peer::Tcp([192, 0, 2, 1].into())).is_some());
}

#[tokio::test]
async fn commands_of_one_account_at_a_time_are_bounded() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let mut ann = Client::logged_in(&server).await;
    let enter = || server.shared.bounds.commands.enter(server.ann.to_string()).unwrap();
    let mut others: Vec<ConcurrencyPermit> =
        (1..limits::MAX_CONCURRENT_REQUESTS).map(|_| enter()).collect();
    assert_eq!(ann.say("CHECKSCRIPT \"keep;\"").await, "OK\r\n");
    others.push(enter());
    for command in ["CHECKSCRIPT \"keep;\"", "PUTSCRIPT \"a\" \"keep;\"", "LISTSCRIPTS"] {
        let answer = ann.say(command).await;
        let expected = "NO (TRYLATER) \"too many commands of this account at once\"\r\n";
        assert_eq!(answer, expected, "{command}");
    }
    others.pop();
    assert_eq!(ann.say("LISTSCRIPTS").await, "OK\r\n");
}

fn tls_file(name: &str) -> String {
    format!("{}/tests/tls/localhost.{name}.pem", env!("CARGO_MANIFEST_DIR"))
}

fn certificate() -> CertificateDer<'static> {
    CertificateDer::from_pem_file(tls_file("cert")).unwrap()
}

/// Returns the TLS of a server `localhost`.
pub(in crate::net) fn tls_settings() -> Arc<rustls::ServerConfig> {
    let key = PrivateKeyDer::from_pem_file(tls_file("key")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate()], key)
        .unwrap();
    Arc::new(config)
}

#[tokio::test]
async fn client_that_does_not_go_on_after_starttls_is_disconnected() {
    let (tls, login) = (Some(tls_settings()), Duration::from_secs(4));
    let server = server(ManageSieveSettings { tls, login, ..ManageSieveSettings::default() }, 9);
    let server = server.await;
    let begin = Instant::now();
    let mut client = Client::connect(&server).await;
    client.response().await;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(client.say("STARTTLS").await, "OK \"begin TLS now\"\r\n");
    // The time to log in did not begin anew.
    assert!(client.is_closed().await);
    let taken = begin.elapsed();
    assert!(taken < Duration::from_millis(6500), "{taken:?}");
}

#[tokio::test]
async fn stop_ends_a_connection_whose_tls_has_not_begun() {
    let tls = Some(tls_settings());
    let server = server(ManageSieveSettings { tls, ..ManageSieveSettings::default() }, 9).await;
    let mut client = Client::connect(&server).await;
    client.response().await;
    assert_eq!(client.say("STARTTLS").await, "OK \"begin TLS now\"\r\n");
    server.switch.stop();
    assert!(timeout(Duration::from_secs(20), client.is_closed()).await.unwrap());
    assert!(server.switch.wait_until_drained(Instant::now() + Duration::from_secs(20)).await);
}

/// RFC 5804 §2.2, RFC 9266: what came before TLS is forgotten, and SCRAM is bound to TLS.
#[tokio::test]
async fn client_begins_tls_and_binds_its_login_to_it() {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate()).unwrap();
    let tls = Some(tls_settings());
    let server = server(ManageSieveSettings { tls, ..ManageSieveSettings::default() }, 9).await;

    let mut client = Client::connect(&server).await;
    let greeting = client.response().await;
    assert!(greeting.contains("\"SASL\" \"\"\r\n\"SIEVE\""), "{greeting}");
    assert!(greeting.contains("\"STARTTLS\"\r\n"), "{greeting}");
    let early = client.say(&plain("", "ann@example.org", "s3cret")).await;
    assert!(early.starts_with("NO (ENCRYPT-NEEDED) "), "{early}");
    assert_eq!(client.say("STARTTLS\r\nNOOP \"injected\"").await, "OK \"begin TLS now\"\r\n");

    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, client.0.into_inner()).await.unwrap();
    let exported =
        stream.get_ref().1.export_keying_material([0; 32], b"EXPORTER-Channel-Binding", Some(b""));
    let mut client = Client(BufReader::new(stream));
    let greeting = client.response().await;
    assert!(greeting.contains("\"SASL\" \"SCRAM-SHA-256-PLUS SCRAM-SHA-256 "), "{greeting}");
    assert!(!greeting.contains("STARTTLS") && !greeting.contains("injected"), "{greeting}");

    let exported: [u8; 32] = exported.unwrap();
    // `dj` is the beginning of `v=` in base64.
    for (binding, expected) in [([0; 32], "NO \"the login failed; "), (exported, "OK (SASL \"dj")] {
        let scram =
            crate::wire::sasl::client::Client::with_exporter(&binding, "ann@example.org", "s3cret");
        let first = STANDARD.encode(scram.first());
        let line = format!("AUTHENTICATE \"SCRAM-SHA-256-PLUS\" \"{first}\"");
        let challenge = client.say(&line).await;
        let challenge = STANDARD.decode(challenge.trim().trim_matches('"')).unwrap();
        let last = STANDARD.encode(scram.last(&challenge));
        let answer = client.say(&format!("\"{last}\"")).await;
        assert!(answer.starts_with(expected), "{answer}");
    }
    assert_eq!(client.say("LISTSCRIPTS").await, "OK\r\n");
}

#[tokio::test]
async fn stored_script_with_errors_cannot_be_activated() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let (store, ann) = (server.shared.store.clone(), server.ann);
    // An import stores scripts with errors, too.
    let stored = blocking(move || {
        let (_, ticket) = store.commit(ann, |txn| txn.create_script("old", b"keeep;\nstop;"))?;
        ticket.wait_blocking()
    });
    stored.await.unwrap();
    let mut client = Client::logged_in(&server).await;
    let answer = client.say("SETACTIVE \"old\"").await;
    assert!(answer.starts_with("NO ") && answer.contains("line 1, column 1: error"), "{answer}");
    assert_eq!(client.say("LISTSCRIPTS").await, "\"old\"\r\nOK\r\n");
    assert!(client.say("SETACTIVE \"missing\"").await.starts_with("NO (NONEXISTENT)"));
    assert_eq!(client.say("SETACTIVE \"\"").await, "OK\r\n");
}
