//! A mail client for tests: LMTP or SMTP over a Unix socket, TCP or TLS.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A reply: its code, and its lines without the codes, joined with LF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn ok(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The enhanced status code (RFC 3463), or an empty string.
    pub(crate) fn enhanced(&self) -> &str {
        self.text.split_whitespace().next().filter(|word| word.contains('.')).unwrap_or("")
    }
}

trait Stream: Read + Write + Send {}
impl Stream for UnixStream {}
impl Stream for TcpStream {}
impl Stream for rustls::StreamOwned<rustls::ClientConnection, UnixStream> {}

/// An open session.
pub(crate) struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

impl Client {
    /// Connects to a Unix socket and sends LHLO.
    pub(crate) fn lmtp(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Self::greet(Box::new(stream), "LHLO")
    }

    /// Connects to a port on loopback and sends EHLO.
    pub(crate) fn smtp(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Self::greet(Box::new(stream), "EHLO")
    }

    /// Continues a session within TLS, where the server sends no second greeting (RFC 3207
    /// §4.2). The caller sends LHLO again.
    pub(crate) fn secured(
        stream: rustls::StreamOwned<rustls::ClientConnection, UnixStream>,
    ) -> Self {
        Self { stream: BufReader::new(Box::new(stream)) }
    }

    /// Reads the greeting, and sends `hello` (LHLO or EHLO).
    fn greet(stream: Box<dyn Stream>, hello: &str) -> Result<Self> {
        let mut client = Self { stream: BufReader::new(stream) };
        let banner = client.reply()?;
        if banner.code != 220 {
            return Err(Error::other(format!("{banner:?}")));
        }
        let hello = client.command(&format!("{hello} client.example"))?;
        if hello.code != 250 {
            return Err(Error::other(format!("{hello:?}")));
        }
        Ok(client)
    }

    /// Sends one command and reads its reply.
    pub(crate) fn command(&mut self, line: &str) -> Result<Reply> {
        self.send(format!("{line}\r\n").as_bytes())?;
        self.reply()
    }

    /// Sends bytes as they are, and reads no reply.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes)?;
        self.stream.get_mut().flush()
    }

    /// Reads one reply, which may have several lines.
    pub(crate) fn reply(&mut self) -> Result<Reply> {
        let (mut text, mut code) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            let (digits, rest) = line.split_at_checked(3).unwrap_or((line, ""));
            code = digits.parse().map_err(|_| Error::other(format!("no reply: {line}"))).inspect(
                |now| {
                    assert!(code == 0 || code == *now, "codes differ within a reply: {line}");
                },
            )?;
            text.push_str(rest.get(1..).unwrap_or(""));
            if !rest.starts_with('-') {
                return Ok(Reply { code, text });
            }
            text.push('\n');
        }
    }

    /// Runs an LMTP transaction. Returns a reply for each recipient: that to the command that
    /// refused it (MAIL, RCPT or DATA), otherwise that to the message.
    pub(crate) fn deliver(
        &mut self,
        sender: &str,
        recipients: &[&str],
        message: &[u8],
    ) -> Result<Vec<Reply>> {
        let mail = self.command(&format!("MAIL FROM:<{sender}>"))?;
        if !mail.ok() {
            return Ok(vec![mail; recipients.len()]);
        }
        self.transact(recipients.iter().map(|one| format!("<{one}>")), message)
    }

    /// Runs the part of an LMTP transaction that follows MAIL, and returns what `deliver` returns.
    /// `recipients` are the arguments of RCPT TO, with brackets and parameters.
    pub(crate) fn transact(
        &mut self,
        recipients: impl Iterator<Item = String>,
        message: &[u8],
    ) -> Result<Vec<Reply>> {
        let mut replies = Vec::new();
        for recipient in recipients {
            replies.push(self.command(&format!("RCPT TO:{recipient}"))?);
        }
        if !replies.iter().any(Reply::ok) {
            self.command("RSET")?;
            return Ok(replies);
        }
        let go = self.command("DATA")?;
        if go.code != 354 {
            self.command("RSET")?;
            return Ok(replies
                .into_iter()
                .map(|reply| if reply.ok() { go.clone() } else { reply })
                .collect());
        }
        self.send(&dot_stuff(message))?;
        for accepted in replies.iter_mut().filter(|reply| reply.ok()) {
            *accepted = self.reply()?;
        }
        Ok(replies)
    }
}

/// Dot-stuffs a message and appends the final dot (RFC 5321 §4.5.2). Lines must end in CRLF.
pub(crate) fn dot_stuff(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 64);
    let mut at_line_start = true;
    for byte in message {
        if at_line_start && *byte == b'.' {
            out.push(b'.');
        }
        out.push(*byte);
        at_line_start = *byte == b'\n';
    }
    if !at_line_start {
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b".\r\n");
    out
}

/// Converts line ends from LF to CRLF, as SMTP needs them.
pub(crate) fn crlf(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 32);
    let mut last = 0;
    for byte in text {
        if *byte == b'\n' && last != b'\r' {
            out.push(b'\r');
        }
        out.push(*byte);
        last = *byte;
    }
    out
}

/// Composes a plain text message, whose Message-ID depends on all arguments.
pub(crate) fn letter(from: &str, to: &str, subject: &str, body: &str) -> Vec<u8> {
    let id = format!("<{:016x}@test.example>", hash(&[from, to, subject, body]));
    crlf(
        format!(
            "From: {from}\nTo: {to}\nSubject: {subject}\nMessage-ID: {id}\n\
             Date: Fri, 20 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\n\
             Content-Type: text/plain; charset=utf-8\n\n{body}\n"
        )
        .as_bytes(),
    )
}

fn hash(parts: &[&str]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn dot_stuff_doubles_leading_dots_and_crlf_converts_bare_lf() {
    assert_eq!(dot_stuff(b"a\r\n.b\r\n"), b"a\r\n..b\r\n.\r\n");
    assert_eq!(crlf(b"a\nb\r\nc"), b"a\r\nb\r\nc");
}
