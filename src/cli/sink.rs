//! A small SMTP server on loopback that keeps in memory what it receives and checks nothing: the
//! relay of `demo` and of tests.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// A session with a larger message is broken off.
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// A longer line is read as several.
const MAX_LINE_BYTES: u64 = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SinkMessage {
    /// What follows `MAIL FROM:`, with angle brackets and parameters. `recipients` have what
    /// follows each `RCPT TO:`.
    pub sender: String,
    pub recipients: Vec<String>,
    /// As it was received, but without dot-stuffing.
    pub message: Vec<u8>,
}

/// The server runs as long as the runtime.
#[derive(Debug, Clone)]
pub struct Sink {
    port: u16,
    messages: Arc<Mutex<Vec<SinkMessage>>>,
    arrived: Arc<Notify>,
}

impl Sink {
    /// Starts a server on a free loopback port.
    ///
    /// # Errors
    /// The port cannot be bound.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let sink = Self {
            port: listener.local_addr()?.port(),
            messages: Arc::default(),
            arrived: Arc::default(),
        };
        let server = sink.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move {
                    // A session that breaks off is forgotten, with its message.
                    drop(server.serve(stream).await);
                });
            }
        });
        Ok(sink)
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the messages that have been received so far, in the order of their arrival.
    #[must_use]
    pub fn messages(&self) -> Vec<SinkMessage> {
        self.messages.lock().clone()
    }

    /// Waits until at least `count` messages have been received.
    pub async fn wait_for(&self, count: usize) {
        loop {
            let arrived = self.arrived.notified();
            if self.messages.lock().len() >= count {
                return;
            }
            arrived.await;
        }
    }

    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
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
                self.messages.lock().push(std::mem::take(&mut mail));
                self.arrived.notify_waiters();
                "250 2.0.0 stored\r\n"
            } else if upper == "QUIT" {
                return stream.write_all(b"221 2.0.0 bye\r\n").await;
            } else {
                "250 2.0.0 ok\r\n"
            };
            stream.write_all(answer.as_bytes()).await?;
        }
    }
}

/// Reads a line with its end; empty at the end of the stream.
async fn line(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    stream.take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await?;
    Ok(line)
}

/// Reads a message up to the final dot, without dot-stuffing (RFC 5321 §4.5.2).
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
