//! The ManageSieve server (RFC 5804): moves bytes between a socket and the session of
//! `wire::managesieve`, logs clients in, and does what the session asks for.
//!
//! - Clients log in over TLS. Without TLS only two kinds of clients may log in: those on Unix
//!   sockets, and those on this machine if there is no certificate. Other clients of a server
//!   without a certificate are closed with BYE.
//! - Failed logins are counted with those over HTTP, by source and by account.
//! - A client must log in within two minutes, whatever it sends meanwhile. A client that is logged
//!   in may be silent for half an hour (RFC 5804 §1.2).
//! - One IPv4 address or IPv6 /64 network may have only a part of all connections.
//! - One account may have only some commands about scripts in work at a time, over all connections.
//! - Before each command about scripts, the password or token of the login must still be valid.
//!   Otherwise the session closes.

mod login;
mod scripts;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::ceiling::{Ceiling, ConnectionPermit};
use super::concurrency::{ConcurrencyLimit, ConcurrencyPermit};
use super::listen::{BoundListener, ByteStream, Peer};
use super::output::{self, CLOSING_TIMEOUT};
use super::passwords::PasswordChecks;
use super::stop::StopSignal;
use crate::account::{Directory, LoginSource};
use crate::deliver;
use crate::filter;
use crate::model::{AccountId, LiveValue, limits};
use crate::store::Store;
use crate::wire::managesieve::{Answer, Code, Request, Session, Settings as SessionSettings, Step};
use crate::wire::sasl::ChannelBinding;
use login::LoginDriver;

#[derive(Debug, Clone)]
pub struct ManageSieveSettings {
    /// The longest wait for input of a client that is logged in; at least half an hour, except
    /// in tests.
    pub idle: Duration,
    /// How long a client may take to log in, STARTTLS included; counted from the beginning of the
    /// connection, or from UNAUTHENTICATE.
    pub login: Duration,
    /// With the certificate for STARTTLS; `None` if there is no certificate.
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

impl Default for ManageSieveSettings {
    fn default() -> Self {
        Self {
            idle: limits::MANAGESIEVE_IDLE_TIMEOUT,
            login: limits::MANAGESIEVE_LOGIN_TIMEOUT,
            tls: None,
        }
    }
}

/// What the sessions of all listeners share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Each connection keeps the settings with which it began.
    pub settings: LiveValue<ManageSieveSettings>,
    /// Has the settings of scripts, which are read again for each command about scripts.
    pub deliver: LiveValue<deliver::Settings>,
    pub store: Store,
    pub directory: Directory,
    pub passwords: PasswordChecks,
    pub ceiling: Ceiling,
    pub bounds: ManageSieveBounds,
}

/// Bounds what each source and each account may have at a time, for all listeners together.
#[derive(Debug, Clone)]
pub struct ManageSieveBounds {
    /// The connections of each source, which `Shared::connection_permit` bounds.
    sources: ConcurrencyLimit,
    /// The commands about scripts that are in work, of each account.
    commands: ConcurrencyLimit,
}

impl Default for ManageSieveBounds {
    fn default() -> Self {
        Self {
            // The bound depends on the ceiling, and is given with each connection.
            sources: ConcurrencyLimit::new(usize::MAX),
            commands: ConcurrencyLimit::new(limits::MAX_CONCURRENT_REQUESTS),
        }
    }
}

type Permit = (ConnectionPermit, Option<ConcurrencyPermit>);

impl Shared {
    /// Returns `None` if there are too many connections, in all or from the same source. Unix
    /// sockets have no limit of their own, because a proxy may have the connections of many users.
    fn connection_permit(&self, peer: Peer) -> Option<Permit> {
        let max = (self.ceiling.max_connections() / limits::MANAGESIEVE_ADDRESS_DIVISOR)
            .max(limits::MIN_MANAGESIEVE_CONNECTIONS_PER_ADDRESS);
        let of_source = match peer {
            Peer::Unix(_) => None,
            Peer::Tcp(_) => {
                Some(self.bounds.sources.enter_within(format!("{:?}", source(peer)), max)?)
            }
        };
        Some((self.ceiling.connection_permit()?, of_source))
    }
}

/// Returns the source under which failed logins and connections of a client are counted.
fn source(peer: Peer) -> LoginSource {
    match peer {
        Peer::Unix(_) => LoginSource::LOCAL,
        Peer::Tcp(address) => LoginSource::from(address),
    }
}

/// How long a client may take to read the output.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
const STOPPING: &str = "the service is shutting down";
/// The least room for input before a read, and the most memory that empty output keeps.
const READ_BYTES: usize = 16 << 10;

/// Serves ManageSieve on a listener until the service stops.
pub async fn serve(listener: BoundListener, shared: Arc<Shared>, mut stop: StopSignal) {
    while let Some((stream, peer)) = listener.next(&mut stop).await {
        let permit = shared.connection_permit(peer);
        let driver = Driver {
            settings: shared.settings.get(),
            shared: Arc::clone(&shared),
            stop: stop.clone(),
            peer,
        };
        tokio::spawn(driver.run(stream, permit));
    }
}

/// Serves one connection.
struct Driver {
    settings: Arc<ManageSieveSettings>,
    shared: Arc<Shared>,
    stop: StopSignal,
    peer: Peer,
}

enum SessionEnd {
    Closed,
    StartTls,
}

impl Driver {
    /// Serves the connection, or closes it with BYE if it has no permit.
    async fn run(mut self, mut stream: Box<dyn ByteStream>, permit: Option<Permit>) {
        let Some(_permit) = permit else {
            let text = b"BYE (TRYLATER) \"too many connections: try again later\"\r\n";
            drop(timeout(CLOSING_TIMEOUT, stream.write_all(text)).await);
            return;
        };
        if let Err(error) = self.run_connection(stream).await {
            tracing::debug!(peer = %self.peer, %error, "ManageSieve connection lost");
        }
    }

    /// Runs the session, and after STARTTLS a second one over TLS.
    async fn run_connection(&mut self, mut stream: Box<dyn ByteStream>) -> io::Result<()> {
        let login_deadline = Instant::now() + self.settings.login;
        let is_local = match self.peer {
            Peer::Unix(_) => true,
            Peer::Tcp(address) => self.settings.tls.is_none() && address.is_loopback(),
        };
        let tls = self.settings.tls.clone();
        let session =
            SessionSettings { starttls: tls.is_some(), login: is_local, ..self.session_settings() };
        let mut session = Session::new(session, seed()?);
        if !is_local && tls.is_none() {
            // BYE takes the place of the greeting.
            session.output().clear();
            session.shut(None, "this server has no certificate: logins would be unencrypted");
        }
        let end = self.run_session(&mut *stream, session, login_deadline).await?;
        let (SessionEnd::StartTls, Some(config)) = (end, tls) else { return Ok(()) };
        let acceptor = tokio_rustls::TlsAcceptor::from(config);
        let mut stream = tokio::select! {
            biased;
            () = self.stop.wait() => return Ok(()),
            accepted = timeout_at(login_deadline, acceptor.accept(stream)) => accepted??,
        };
        let binding = channel_binding(stream.get_ref().1);
        let session = SessionSettings { login: true, binding, ..self.session_settings() };
        let session = Session::after_starttls(session, seed()?);
        self.run_session(&mut stream, session, login_deadline).await?;
        // Sends `close_notify` (RFC 8446 §6.1).
        timeout(CLOSING_TIMEOUT, stream.shutdown()).await?
    }

    /// Returns the present settings of scripts.
    fn filter(&self) -> Arc<filter::Settings> {
        Arc::clone(&self.shared.deliver.get().filter)
    }

    fn session_settings(&self) -> SessionSettings {
        let filter = self.filter();
        SessionSettings {
            extensions: filter.extension_names(),
            max_redirects: Some(u32::from(filter.max_redirects)),
            notify: filter.notification_schemes(),
            max_script: filter.max_script_bytes,
            ..SessionSettings::default()
        }
    }

    /// Runs a session to its end. If the client is not logged in at `login_deadline`, the session
    /// closes; UNAUTHENTICATE sets another deadline.
    async fn run_session(
        &mut self,
        stream: &mut (impl ByteStream + ?Sized),
        mut session: Session,
        mut login_deadline: Instant,
    ) -> io::Result<SessionEnd> {
        let mut input: Vec<u8> = Vec::with_capacity(READ_BYTES);
        let passwords = self.shared.passwords.clone();
        let source = source(self.peer);
        let directory = &self.shared.directory.clone();
        let mut login = LoginDriver::new(&passwords, directory, source, self.peer);
        loop {
            let was_logged_in = session.is_logged_in();
            let (consumed, step) = session.step(&input);
            input.drain(..consumed);
            // The client sent UNAUTHENTICATE.
            if was_logged_in && !session.is_logged_in() {
                login_deadline = Instant::now() + self.settings.login;
            }
            match step {
                Step::Flush | Step::Ask(_) | Step::Do(_) if self.stop.is_stopping() => {
                    session.shut(Some(Code::TryLater), STOPPING);
                }
                Step::Flush => self.flush(stream, session.output()).await?,
                Step::NeedInput if consumed == 0 => {
                    self.flush(stream, session.output()).await?;
                    let deadline = if session.is_logged_in() {
                        Instant::now() + self.settings.idle
                    } else {
                        login_deadline
                    };
                    if !self.read_more(stream, &mut session, &mut input, deadline).await? {
                        return Ok(SessionEnd::Closed);
                    }
                }
                // Input is read only after a call that consumed nothing. The next call usually is
                // one.
                Step::NeedInput => {}
                Step::Ask(question) => login.answer(question, &mut session).await,
                Step::Do(request) => match login.account() {
                    Some(account) => session.done(self.answer(account, request).await),
                    None => session.shut(None, "the password or token is not valid any more"),
                },
                Step::StartTls => {
                    self.flush(stream, session.output()).await?;
                    // Commands that were pipelined behind STARTTLS came unencrypted; they are
                    // discarded with `input`.
                    return Ok(SessionEnd::StartTls);
                }
                Step::Close => {
                    self.flush(stream, session.output()).await?;
                    return Ok(SessionEnd::Closed);
                }
            }
        }
    }

    /// Carries out a request on a thread that may block, unless the account has too many in work.
    async fn answer(&self, account: AccountId, request: Request) -> Answer {
        let later = |text: &str| Answer::Refused(Some(Code::TryLater), text.into());
        let Some(permit) = self.shared.bounds.commands.enter(account.to_string()) else {
            return later("too many commands of this account at once");
        };
        let (store, filter) = (self.shared.store.clone(), self.filter());
        let work = move || {
            let answer = scripts::answer(&store, &filter, account, request);
            drop(permit);
            answer
        };
        let answer = tokio::task::spawn_blocking(work).await;
        answer.unwrap_or_else(|_| later("a fault of the service"))
    }

    /// Reads input. Returns `false` if the session is over: the client closed the connection,
    /// `deadline` has passed, or the service stops. In the last two cases the client is sent BYE.
    async fn read_more(
        &mut self,
        stream: &mut (impl ByteStream + ?Sized),
        session: &mut Session,
        input: &mut Vec<u8>,
        deadline: Instant,
    ) -> io::Result<bool> {
        input.reserve(READ_BYTES);
        // A client that sends without a pause must not escape the stop and the deadline.
        let text = tokio::select! {
            biased;
            () = self.stop.wait() => STOPPING,
            () = sleep_until(deadline) => match session.is_logged_in() {
                true => "the client was idle for too long",
                false => "the client did not log in in time",
            },
            read = stream.read_buf(input) => return Ok(read? != 0),
        };
        session.shut(Some(Code::TryLater), text);
        self.flush(stream, session.output()).await?;
        Ok(false)
    }

    async fn flush(
        &mut self,
        stream: &mut (impl ByteStream + ?Sized),
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        output::flush(stream, out, WRITE_TIMEOUT, &mut self.stop).await?;
        out.shrink_to(READ_BYTES);
        Ok(())
    }
}

fn seed() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(seed)
}

/// Returns the channel binding `tls-exporter` (RFC 9266 §3); `None` with TLS before 1.3, where it
/// is not always safe.
fn channel_binding(tls: &rustls::ServerConnection) -> Option<ChannelBinding> {
    if tls.protocol_version() != Some(rustls::ProtocolVersion::TLSv1_3) {
        return None;
    }
    let exported = tls.export_keying_material([0; 32], b"EXPORTER-Channel-Binding", Some(b""));
    exported.ok().map(ChannelBinding)
}

#[cfg(test)]
pub(super) mod tests;
