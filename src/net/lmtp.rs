//! Pumps octets between a socket and an LMTP session, and does what its steps say.
//!
//! A body is collected in memory within the budget of all connections, above a size in a file that
//! has no name. Every wait is bounded: for input by the idle time, for the whole session by its
//! own. All replies that a batch of pipelined commands gave go out in one write.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until, timeout};

use super::ceiling::{Ceiling, ConnectionPermit, MemoryPermit};
use super::collect::BodyBuffer;
use super::listen::{BoundListener, ByteStream, Peer};
use super::receive;
use super::stop::StopSignal;
use crate::deliver::DeliveryService;
use crate::model::{LiveValue, limits};
use crate::proof;
use crate::trace::count;
use crate::wire::lmtp::{Session, Settings as Grammar, Step};
use crate::wire::smtp::Reply;

/// What a site sets.
#[derive(Debug, Clone)]
pub struct LmtpSettings {
    /// The name in the greeting.
    pub hostname: String,
    /// Octets of the largest message.
    pub max_message: u64,
    /// Recipients a transaction.
    pub max_recipients: usize,
    /// Peers that may say XFORWARD and XCLIENT.
    pub trusted: Vec<IpAddr>,
    /// Whether those of a Unix socket may, too: its directory says who opens it.
    pub trust_unix: bool,
    /// Idle time of a session.
    pub idle: Duration,
    /// Whole time of a session.
    pub session: Duration,
    /// Bodies of more bytes are collected in a file.
    pub body_in_memory: usize,
    /// Where such files are.
    pub spill: PathBuf,
    /// Whose verdicts about senders are believed.
    pub proof: proof::Settings,
    /// Certificate and key for STARTTLS.
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
            spill: std::env::temp_dir(),
            proof: proof::Settings::default(),
            tls: None,
        }
    }
}

/// Serves one listener until the end; each connection is a task of its own, and keeps the settings
/// that it began with.
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
        tokio::spawn(driver.run(stream, ceiling.connection()));
    }
}

struct Driver<D: DeliveryService> {
    settings: Arc<LmtpSettings>,
    ceiling: Ceiling,
    deliver: Arc<D>,
    stop: StopSignal,
    peer: Peer,
}

/// How a conversation ended.
enum SessionEnd {
    Closed,
    StartTls,
}

impl<D: DeliveryService> Driver<D> {
    async fn run(mut self, mut stream: Box<dyn ByteStream>, place: Option<ConnectionPermit>) {
        let Some(_place) = place else {
            count::turned_away();
            let mut out = Vec::new();
            Reply::new(421, [4, 3, 2], "too many connections: try again later").write(&mut out);
            drop(timeout(Duration::from_secs(5), stream.write_all(&out)).await);
            return;
        };
        let _counted = count::SessionGauge::begin();
        let grammar = self.grammar();
        let whole = self.settings.session;
        let talk = async {
            match self.talk(&mut *stream, Session::new(grammar.clone())).await? {
                SessionEnd::Closed => Ok(()),
                SessionEnd::StartTls => match &self.settings.tls {
                    Some(config) => {
                        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(config));
                        let mut stream =
                            timeout(self.settings.idle, acceptor.accept(stream)).await??;
                        self.talk(&mut stream, Session::after_starttls(grammar)).await.map(drop)
                    }
                    None => Ok(()),
                },
            }
        };
        match timeout(whole, talk).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(peer = %self.peer, %error, "connection lost"),
            Err(_) => tracing::info!(peer = %self.peer, "session took too long"),
        }
    }

    fn grammar(&self) -> Grammar {
        let trusted = match self.peer {
            Peer::Unix(_) => self.settings.trust_unix,
            Peer::Tcp(address) => self.settings.trusted.contains(&address),
        };
        Grammar {
            hostname: self.settings.hostname.clone(),
            max_message: self.settings.max_message,
            max_recipients: self.settings.max_recipients,
            trusted,
            starttls: self.settings.tls.is_some(),
            ..Grammar::default()
        }
    }

    async fn talk(
        &mut self,
        stream: &mut (impl ByteStream + ?Sized),
        mut session: Session,
    ) -> io::Result<SessionEnd> {
        let mut input = Buffer::new();
        let mut body = IncomingBody::new(self.ceiling.share(), &self.settings);
        let mut transaction = D::Session::default();
        loop {
            let (taken, step) = session.step(input.left());
            input.take(taken);
            match step {
                Step::NeedInput if taken == 0 => {
                    flush(stream, session.output()).await?;
                    if !self.more(stream, &mut session, &mut input).await? {
                        return Ok(SessionEnd::Closed);
                    }
                }
                Step::NeedInput => {}
                Step::Begin | Step::Reset => {
                    body.clear();
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
                    if let Err(reply) = body.add(bytes) {
                        session.refuse_body(reply);
                        body.clear();
                    }
                }
                Step::End(envelope) => {
                    let replies = match body.finish() {
                        Ok(bytes) => {
                            let (transaction, proof) =
                                (std::mem::take(&mut transaction), &self.settings.proof);
                            receive::deliver(&self.deliver, transaction, *envelope, bytes, proof)
                                .await
                        }
                        Err(reply) => vec![reply; envelope.recipients.len()],
                    };
                    session.delivered(&replies);
                    body.clear();
                    if self.stop.is_stopping() {
                        session.shut([4, 3, 2], "closing down");
                    }
                }
                Step::StartTls => {
                    flush(stream, session.output()).await?;
                    // What was pipelined behind STARTTLS was said in the clear: it is thrown away
                    // (RFC 3207 §6).
                    return Ok(SessionEnd::StartTls);
                }
                Step::Close => {
                    flush(stream, session.output()).await?;
                    return Ok(SessionEnd::Closed);
                }
            }
        }
    }

    /// Reads more; `false` where the session is over.
    async fn more(
        &mut self,
        stream: &mut (impl ByteStream + ?Sized),
        session: &mut Session,
        input: &mut Buffer,
    ) -> io::Result<bool> {
        let idle = Instant::now() + self.settings.idle;
        let waiting = session.in_message();
        let read = tokio::select! {
            biased;
            read = input.read(stream) => Some(read?),
            () = self.stop.wait(), if !waiting => None,
            () = sleep_until(idle) => {
                session.shut([4, 4, 2], "idle for too long");
                flush(stream, session.output()).await?;
                return Ok(false);
            }
        };
        if read.is_none() {
            session.shut([4, 3, 2], "closing down");
            flush(stream, session.output()).await?;
            return Ok(false);
        }
        Ok(read != Some(0))
    }
}

async fn flush(stream: &mut (impl ByteStream + ?Sized), out: &mut Vec<u8>) -> io::Result<()> {
    if !out.is_empty() {
        timeout(Duration::from_secs(300), stream.write_all(out)).await??;
        stream.flush().await?;
        out.clear();
    }
    Ok(())
}

/// What was read and not yet taken.
struct Buffer {
    octets: Vec<u8>,
    at: usize,
}

impl Buffer {
    fn new() -> Self {
        Self { octets: Vec::with_capacity(16 << 10), at: 0 }
    }

    fn left(&self) -> &[u8] {
        self.octets.get(self.at..).unwrap_or_default()
    }

    fn take(&mut self, taken: usize) {
        self.at += taken;
        if self.at >= self.octets.len() {
            self.octets.clear();
            self.at = 0;
        }
    }

    async fn read(&mut self, stream: &mut (impl ByteStream + ?Sized)) -> io::Result<usize> {
        if self.at > 0 {
            self.octets.drain(..self.at);
            self.at = 0;
        }
        self.octets.reserve(16 << 10);
        stream.read_buf(&mut self.octets).await
    }
}

/// The body of a message while it comes in, and its share of what all may hold.
struct IncomingBody {
    collected: BodyBuffer,
    share: MemoryPermit,
}

impl IncomingBody {
    fn new(share: MemoryPermit, settings: &LmtpSettings) -> Self {
        Self { collected: BodyBuffer::new(settings.body_in_memory, &settings.spill), share }
    }

    fn clear(&mut self) {
        self.collected.clear();
        self.share.clear();
    }

    fn add(&mut self, octets: &[u8]) -> Result<(), Reply> {
        if !self.share.grow(octets.len()) {
            return Err(Reply::new(452, [4, 3, 1], "too much mail at once: try again later"));
        }
        self.collected.add(octets).map_err(|error| no_file(&error))
    }

    fn finish(&mut self) -> Result<Vec<u8>, Reply> {
        // On its way into the store it is there as a row, and in the batch that is written.
        if !self.share.grow(self.collected.size().saturating_mul(limits::FILING_COPIES)) {
            return Err(Reply::new(452, [4, 3, 1], "too much mail at once: try again later"));
        }
        self.collected.finish().map_err(|error| no_file(&error))
    }
}

fn no_file(error: &io::Error) -> Reply {
    tracing::warn!(%error, "cannot collect a large message");
    Reply::new(452, [4, 3, 1], "no space for a message of this size: try again later")
}

#[cfg(test)]
mod tests;
