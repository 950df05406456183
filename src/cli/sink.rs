//! A small SMTP server that keeps what it is given: the relay of `demo` and of tests. Loopback
//! only; not for real mail.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// The largest message that it keeps.
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// The longest line that it reads.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// A message that came in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SinkMessage {
    /// The argument of MAIL FROM.
    pub sender: String,
    /// The arguments of RCPT TO.
    pub recipients: Vec<String>,
    /// The message, CRLF lines.
    pub message: Vec<u8>,
}

/// The server. It ends with its last clone's task being aborted or the runtime's end.
#[derive(Debug, Clone)]
pub struct Sink {
    port: u16,
    caught: Arc<Mutex<Vec<SinkMessage>>>,
    arrived: Arc<Notify>,
}

impl Sink {
    /// Starts one on a free loopback port.
    ///
    /// # Errors
    /// Those of binding.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let sink = Self {
            port: listener.local_addr()?.port(),
            caught: Arc::default(),
            arrived: Arc::default(),
        };
        let server = sink.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move {
                    // A client that breaks off leaves nothing behind.
                    drop(server.talk(stream).await);
                });
            }
        });
        Ok(sink)
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it has caught.
    #[must_use]
    pub fn caught(&self) -> Vec<SinkMessage> {
        self.caught.lock().clone()
    }

    /// Waits until it has caught this many.
    pub async fn wait_for(&self, many: usize) {
        loop {
            let arrived = self.arrived.notified();
            if self.caught.lock().len() >= many {
                return;
            }
            arrived.await;
        }
    }

    async fn talk(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        stream.write_all(b"220 sink.example ESMTP\r\n").await?;
        let mut mail = SinkMessage::default();
        loop {
            let line = line(&mut stream).await?;
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            let upper = text.to_ascii_uppercase();
            let answer = if upper.is_empty() {
                return Ok(());
            } else if upper.starts_with("EHLO") {
                "250-sink.example\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-DSN\r\n250 PIPELINING\r\n"
            } else if upper.starts_with("MAIL FROM:") {
                mail = SinkMessage {
                    sender: text.get(10..).unwrap_or_default().to_owned(),
                    ..SinkMessage::default()
                };
                "250 2.1.0 ok\r\n"
            } else if upper.starts_with("RCPT TO:") {
                mail.recipients.push(text.get(8..).unwrap_or_default().to_owned());
                "250 2.1.5 ok\r\n"
            } else if upper == "DATA" {
                stream.write_all(b"354 go on\r\n").await?;
                mail.message = body(&mut stream).await?;
                self.caught.lock().push(std::mem::take(&mut mail));
                self.arrived.notify_waiters();
                "250 2.0.0 caught\r\n"
            } else if upper == "QUIT" {
                return stream.write_all(b"221 2.0.0 bye\r\n").await;
            } else {
                "250 2.0.0 ok\r\n"
            };
            stream.write_all(answer.as_bytes()).await?;
        }
    }
}

async fn line(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    stream.take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await?;
    Ok(line)
}

/// The message up to the final dot, its dots unstuffed (RFC 5321 §4.5.2).
async fn body(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        let line = line(stream).await?;
        if line.is_empty() || message.len() > MAX_MESSAGE_BYTES {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line == b".\r\n" {
            return Ok(message);
        }
        message.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
    }
}
