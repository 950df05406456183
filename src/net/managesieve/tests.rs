use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::account::{Logins, NewAccount, hash_password};
use crate::model::clock::FixedClock;
use crate::model::{AccountId, Address, UtcMillis};
use crate::net::listen::{Access, ListenAddress};
use crate::net::stop::{Switch, switch};
use crate::store::Options;
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine as _, Put, Table};

mod connections;
mod logins;
mod scripts;
mod tls;

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

/// Begins TLS with a server `localhost`.
pub(in crate::net) async fn connect_tls<S: ByteStream>(stream: S) -> TlsStream<S> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.unwrap()
}
