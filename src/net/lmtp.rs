//! The LMTP server: moves bytes between a socket and the session of `wire::lmtp`, and does what the
//! steps of the session say.
//!
//! - The bytes of messages that are being received are bounded, over all connections together.
//! - Every wait for input or for the client to read is bounded, and so is the whole session.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until, timeout};

use super::ceiling::{Ceiling, ConnectionPermit, MemoryPermit};
use super::listen::{BoundListener, ByteStream, Peer};
use super::output::{CLOSING_TIMEOUT, flush};
use super::receive;
use super::stop::StopSignal;
use crate::deliver::DeliveryService;
use crate::message::header;
use crate::model::{LiveValue, limits};
use crate::proof;
use crate::store::{Error, StreamedValue};
use crate::trace::metrics;
use crate::wire::lmtp::{Session, Settings as SessionSettings, Step};
use crate::wire::smtp::Reply;

#[derive(Debug, Clone)]
pub struct LmtpSettings {
    pub hostname: String,
    /// The largest message, in bytes.
    pub max_message: u64,
    /// The most recipients of one transaction.
    pub max_recipients: usize,
    /// TCP clients that may use XFORWARD and XCLIENT.
    pub trusted: Vec<IpAddr>,
    /// Whether clients of a Unix socket may use XFORWARD and XCLIENT.
    pub trust_unix: bool,
    /// The longest wait for input.
    pub idle: Duration,
    /// The longest time that a session may take.
    pub session: Duration,
    /// Bodies of more bytes are written to the store while they come in.
    pub body_in_memory: usize,
    pub proof: proof::Settings,
    /// With the certificate for STARTTLS; `None` if STARTTLS is not offered.
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

impl Default for LmtpSettings {
    fn default() -> Self {
        Self {
            hostname: "localhost".into(),
            max_message: limits::MAX_MESSAGE_BYTES,
            max_recipients: limits::MAX_RECIPIENTS,
            trusted: Vec::new(),
            trust_unix: true,
            idle: limits::LMTP_IDLE_TIMEOUT,
            session: limits::LMTP_SESSION_TIMEOUT,
            body_in_memory: limits::MAX_BODY_BYTES_IN_MEMORY,
            proof: proof::Settings::default(),
            tls: None,
        }
    }
}

/// How long a client may take to read the output.
const WRITE_TIMEOUT: Duration = Duration::from_secs(300);
/// The least free space of the input buffer when it is read into.
const READ_BYTES: usize = 16 << 10;
/// As `READ_BYTES`, within a message of which `LARGE_BYTES` have come.
const LARGE_READ_BYTES: usize = 64 << 10;
/// If the announced size is above `body_in_memory`, a message is written to the store from this
/// length on, or from `body_in_memory` on if that is less.
const LARGE_BYTES: usize = 64 << 10;
/// Further bytes of a streamed message are collected, and written to the store when they are this
/// many.
const WRITE_BYTES: usize = 128 << 10;

/// Serves LMTP on a listener until the service stops. Each connection keeps the settings with which
/// it began.
pub async fn serve<D: DeliveryService>(
    listener: BoundListener,
    settings: LiveValue<LmtpSettings>,
    ceiling: Ceiling,
    deliver: Arc<D>,
    mut stop: StopSignal,
) {
    while let Some((stream, peer)) = listener.next(&mut stop).await {
        let driver = Driver {
            settings: settings.get(),
            ceiling: ceiling.clone(),
            deliver: Arc::clone(&deliver),
            stop: stop.clone(),
            peer,
        };
        tokio::spawn(driver.run(stream, ceiling.connection_permit()));
    }
}

struct Driver<D: DeliveryService> {
    settings: Arc<LmtpSettings>,
    ceiling: Ceiling,
    deliver: Arc<D>,
    stop: StopSignal,
    peer: Peer,
}

enum SessionEnd {
    Closed,
    StartTls,
}

impl<D: DeliveryService> Driver<D> {
    /// Serves the connection, or refuses it with 421 if there is no permit.
    async fn run(mut self, mut stream: Box<dyn ByteStream>, permit: Option<ConnectionPermit>) {
        let Some(_permit) = permit else {
            metrics::count_refused_connection();
            let mut out = Vec::new();
            Reply::new(421, [4, 3, 2], "too many connections: try again later").write(&mut out);
            drop(timeout(CLOSING_TIMEOUT, stream.write_all(&out)).await);
            return;
        };
        let _gauge = metrics::SessionGauge::begin();
        let session_settings = self.session_settings();
        let session_timeout = self.settings.session;
        let session = async {
            match self.run_session(&mut *stream, Session::new(session_settings.clone())).await? {
                SessionEnd::Closed => Ok(()),
                SessionEnd::StartTls => match &self.settings.tls {
                    Some(config) => {
                        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(config));
                        let mut stream = tokio::select! {
                            biased;
                            () = self.stop.wait() => return Ok(()),
                            accepted = timeout(self.settings.idle, acceptor.accept(stream)) => {
                                accepted??
                            }
                        };
                        self.run_session(&mut stream, Session::after_starttls(session_settings))
                            .await?;
                        // Sends `close_notify` (RFC 8446 §6.1).
                        timeout(CLOSING_TIMEOUT, stream.shutdown()).await?
                    }
                    None => Ok(()),
                },
            }
        };
        match timeout(session_timeout, session).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(peer = %self.peer, %error, "connection lost"),
            Err(_) => tracing::info!(peer = %self.peer, "session took too long"),
        }
    }

    fn session_settings(&self) -> SessionSettings {
        let trusted = match self.peer {
            Peer::Unix(_) => self.settings.trust_unix,
            Peer::Tcp(address) => self.settings.trusted.contains(&address),
        };
        SessionSettings {
            hostname: self.settings.hostname.clone(),
            max_message: self.settings.max_message,
            max_recipients: self.settings.max_recipients,
            trusted,
            starttls: self.settings.tls.is_some(),
            ..SessionSettings::default()
        }
    }

    async fn run_session(
        &mut self,
        stream: &mut (impl ByteStream + ?Sized),
        mut session: Session,
    ) -> io::Result<SessionEnd> {
        let mut input = Buffer::new();
        let mut body = IncomingBody::new(self.ceiling.memory_permit(), &self.settings);
        let mut transaction = D::Session::default();
        loop {
            if session.is_body_refused() {
                body.clear();
            }
            let announced = session.announced_size();
            let (consumed, step) = session.step(input.unread());
            input.consume(consumed);
            match step {
                Step::NeedInput if consumed == 0 => {
                    flush(stream, session.output(), WRITE_TIMEOUT, &mut self.stop).await?;
                    let wanted =
                        if body.size() < LARGE_BYTES { READ_BYTES } else { LARGE_READ_BYTES };
                    if !self.read_more(stream, &mut session, &mut input, wanted).await? {
                        return Ok(SessionEnd::Closed);
                    }
                }
                // The session goes on with the input that it has left.
                Step::NeedInput => {}
                Step::Begin | Step::Reset => {
                    body.clear();
                    input.shrink();
                    transaction = D::Session::default();
                }
                Step::Rcpt(question) => {
                    let reply = self.deliver.admit(
                        &mut transaction,
                        question.envelope(),
                        question.recipient(),
                    );
                    question.answer(&reply);
                }
                Step::Body(bytes) => {
                    if let Err(reply) = body.add(bytes, announced, &self.deliver).await {
                        session.refuse_body(reply);
                    }
                }
                Step::End(envelope) => {
                    let replies = match body.finish().await {
                        Ok((bytes, streamed)) => {
                            let (transaction, proof) =
                                (std::mem::take(&mut transaction), &self.settings.proof);
                            let deliver = &self.deliver;
                            receive::deliver(
                                deliver,
                                transaction,
                                *envelope,
                                bytes,
                                streamed,
                                proof,
                            )
                            .await
                        }
                        Err(reply) => vec![reply; envelope.recipients.len()],
                    };
                    session.delivered(&replies);
                    body.clear();
                    input.shrink();
                    if self.stop.is_stopping() {
                        session.shut([4, 3, 2], "the service is shutting down");
                    }
                }
                Step::StartTls => {
                    flush(stream, session.output(), WRITE_TIMEOUT, &mut self.stop).await?;
                    // Commands that were pipelined behind STARTTLS came unencrypted; they are
                    // discarded with `input` (RFC 3207 §6).
                    return Ok(SessionEnd::StartTls);
                }
                Step::Close => {
                    flush(stream, session.output(), WRITE_TIMEOUT, &mut self.stop).await?;
                    return Ok(SessionEnd::Closed);
                }
            }
        }
    }

    /// Reads input. Returns `false` if the session is over: the client closed the connection or was
    /// silent for too long, or the service stops outside a message.
    async fn read_more(
        &mut self,
        stream: &mut (impl ByteStream + ?Sized),
        session: &mut Session,
        input: &mut Buffer,
        wanted: usize,
    ) -> io::Result<bool> {
        let idle_deadline = Instant::now() + self.settings.idle;
        let in_message = session.in_message();
        // Input that has arrived is read, even if the service stops.
        let read = tokio::select! {
            biased;
            read = input.read(stream, wanted) => Some(read?),
            () = self.stop.wait(), if !in_message => None,
            () = sleep_until(idle_deadline) => {
                session.shut([4, 4, 2], "the client was idle for too long");
                flush(stream, session.output(), WRITE_TIMEOUT, &mut self.stop).await?;
                return Ok(false);
            }
        };
        if read.is_none() {
            session.shut([4, 3, 2], "the service is shutting down");
            flush(stream, session.output(), WRITE_TIMEOUT, &mut self.stop).await?;
            return Ok(false);
        }
        Ok(read != Some(0))
    }
}

/// The input of a session.
struct Buffer {
    bytes: Vec<u8>,
    /// How many bytes the session has consumed.
    start: usize,
}

impl Buffer {
    fn new() -> Self {
        Self { bytes: Vec::with_capacity(READ_BYTES), start: 0 }
    }

    fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start >= self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Gives back the memory that a large message took, if nothing is left to be read.
    fn shrink(&mut self) {
        if self.bytes.is_empty() {
            self.bytes.shrink_to(READ_BYTES);
        }
    }

    /// Reads into at least `wanted` bytes of free space.
    async fn read(
        &mut self,
        stream: &mut (impl ByteStream + ?Sized),
        wanted: usize,
    ) -> io::Result<usize> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.reserve(wanted);
        stream.read_buf(&mut self.bytes).await
    }
}

/// The body of a message that is being received: in memory or, if it is large, in the store.
///
/// Whatever may wait for a disk runs on threads for blocking work (`on_disk`).
struct IncomingBody {
    /// All bytes, or those before the header if the rest is in `streamed` and `unwritten`.
    memory: Vec<u8>,
    streamed: Option<StreamedValue>,
    /// Bytes that are still to be written to `streamed`.
    unwritten: Vec<u8>,
    /// Whether the service wants this body in memory, although it is large (`begin_body`).
    is_in_memory: bool,
    /// Bodies of more bytes are streamed.
    max_in_memory: usize,
    permit: MemoryPermit,
}

impl IncomingBody {
    fn new(permit: MemoryPermit, settings: &LmtpSettings) -> Self {
        Self {
            memory: Vec::new(),
            streamed: None,
            unwritten: Vec::new(),
            is_in_memory: false,
            max_in_memory: settings.body_in_memory,
            permit,
        }
    }

    fn size(&self) -> usize {
        let streamed = self.streamed.as_ref().map_or(0, StreamedValue::length);
        let memory = self.memory.len().saturating_add(self.unwritten.len());
        memory.saturating_add(usize::try_from(streamed).unwrap_or(usize::MAX))
    }

    fn clear(&mut self) {
        self.memory.clear();
        self.memory.shrink_to(LARGE_BYTES);
        self.unwritten = Vec::new();
        self.delete_streamed();
        self.is_in_memory = false;
        self.permit.clear();
    }

    fn delete_streamed(&mut self) {
        if let Some(streamed) = self.streamed.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn_blocking(move || drop(streamed));
        }
    }

    /// Appends bytes. `announced` is the size of the message, if the client announced it. The error
    /// of this method, and of `write` and `finish`, is the reply that refuses the message.
    async fn add<D: DeliveryService>(
        &mut self,
        bytes: &[u8],
        announced: Option<u64>,
        service: &Arc<D>,
    ) -> Result<(), Reply> {
        if !self.permit.grow(bytes.len()) {
            return Err(too_much());
        }
        if self.streamed.is_some() {
            self.unwritten.extend_from_slice(bytes);
            return if self.unwritten.len() < WRITE_BYTES { Ok(()) } else { self.write().await };
        }
        self.memory.extend_from_slice(bytes);
        let is_large = announced.is_some_and(|size| size > self.max_in_memory as u64);
        let bound = if is_large { self.max_in_memory.min(LARGE_BYTES) } else { self.max_in_memory };
        if self.memory.len() > bound && !self.is_in_memory {
            let (service, mut memory) = (Arc::clone(service), std::mem::take(&mut self.memory));
            let begin = move || {
                let Some(mut streamed) = service.begin_body()? else { return Ok((memory, None)) };
                // What comes before the header is not stored.
                let start = header::start(&memory);
                streamed.write(memory.get(start..).unwrap_or_default())?;
                memory.truncate(start);
                memory.shrink_to_fit();
                Ok((memory, Some(streamed)))
            };
            (self.memory, self.streamed) = on_disk(begin).await?;
            self.is_in_memory = self.streamed.is_none();
        }
        Ok(())
    }

    /// Writes the bytes in `unwritten` to `streamed`.
    async fn write(&mut self) -> Result<(), Reply> {
        let Some(mut streamed) = self.streamed.take() else { return Ok(()) };
        let mut unwritten = std::mem::take(&mut self.unwritten);
        let write = move || {
            streamed.write(&unwritten)?;
            unwritten.clear();
            Ok((unwritten, Some(streamed)))
        };
        (self.unwritten, self.streamed) = on_disk(write).await?;
        Ok(())
    }

    /// Returns all bytes, and the streamed value if the body is in the store, too.
    async fn finish(&mut self) -> Result<(Vec<u8>, Option<StreamedValue>), Reply> {
        // While a message is stored, its bytes exist several times: as a row and in the batch.
        if !self.permit.grow(self.size().saturating_mul(limits::FILING_COPIES)) {
            return Err(too_much());
        }
        let mut bytes = std::mem::take(&mut self.memory);
        let Some(mut streamed) = self.streamed.take() else { return Ok((bytes, None)) };
        let unwritten = std::mem::take(&mut self.unwritten);
        let read = move || {
            streamed.write(&unwritten)?;
            drop(unwritten);
            streamed.read(&mut bytes)?;
            Ok((bytes, Some(streamed)))
        };
        on_disk(read).await
    }
}

impl Drop for IncomingBody {
    fn drop(&mut self) {
        self.delete_streamed();
    }
}

/// Runs work that may wait for a disk on a thread for blocking work.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Reply> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::Io(error.to_string())))
        .map_err(|error| cannot_buffer(&error))
}

fn too_much() -> Reply {
    Reply::new(452, [4, 3, 1], "too much mail is being received: try again later")
}

fn cannot_buffer(error: &Error) -> Reply {
    tracing::warn!(%error, "cannot buffer a large message");
    match error {
        Error::Full => Reply::new(
            452,
            [4, 3, 1],
            "no space to receive a message of this size: try again later",
        ),
        _ => Reply::new(451, [4, 3, 0], "the message cannot be buffered: try again later"),
    }
}

#[cfg(test)]
mod tests;
