//! An SMTP server that stands for the relay and stores the messages that it gets.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A message that the sink accepted.
#[derive(Debug, Clone)]
pub(crate) struct SinkMessage {
    /// The address of MAIL; empty for the null sender.
    pub(crate) sender: String,
    /// The addresses of RCPT that were not refused.
    pub(crate) recipients: Vec<String>,
    /// The message, without dot-stuffing.
    pub(crate) text: String,
}

impl SinkMessage {
    /// The value of the first header field of this name, unfolded.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let head = self.text.split("\r\n\r\n").next()?.replace("\r\n ", " ").replace("\r\n\t", " ");
        head.split("\r\n")
            .filter_map(|line| line.split_once(':'))
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_owned())
    }
}

/// The server. It stops with the test's process.
#[derive(Debug, Clone)]
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    messages: Arc<Mutex<Vec<SinkMessage>>>,
}

impl Sink {
    /// Starts a server with SMTPUTF8.
    pub(crate) fn start() -> Self {
        Self::with_smtputf8(true)
    }

    /// Starts a server with or without SMTPUTF8 (RFC 6531). Without it, commands must be ASCII.
    pub(crate) fn with_smtputf8(utf8: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sink = Self { address: listener.local_addr().unwrap(), messages: Arc::default() };
        let messages = Arc::clone(&sink.messages);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let messages = Arc::clone(&messages);
                // Errors are ignored: a test may kill the client.
                std::thread::spawn(move || serve(&stream, utf8, &messages));
            }
        });
        sink
    }

    /// The messages so far, in the order of their arrival.
    pub(crate) fn messages(&self) -> Vec<SinkMessage> {
        self.messages.lock().unwrap().clone()
    }
}

/// Serves a session until it ends. Recipients whose address begins with `bad@` are refused.
fn serve(stream: &TcpStream, utf8: bool, messages: &Mutex<Vec<SinkMessage>>) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().ok()?);
    let mut output = stream.try_clone().ok()?;
    let mut say = move |text: &str| output.write_all(text.as_bytes()).ok();
    let (mut sender, mut recipients) = (String::new(), Vec::new());
    say("220 sink.example ESMTP\r\n")?;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        let verb = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
        let path = || {
            line.split_once('<')
                .and_then(|(_, rest)| rest.split_once('>'))
                .map_or("", |(path, _)| path)
        };
        match verb.as_str() {
            _ if !utf8 && !line.is_ascii() => say("500 5.5.2 not ASCII\r\n")?,
            "EHLO" if !utf8 => say("250-sink.example\r\n250-8BITMIME\r\n250 DSN\r\n")?,
            "RCPT" if path().starts_with("bad@") => say("550 5.7.1 not that one\r\n")?,
            "EHLO" => say("250-sink.example\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-DSN\r\n\
                 250 SIZE 100000000\r\n")?,
            "MAIL" => {
                sender = path().to_owned();
                recipients.clear();
                say("250 2.1.0 ok\r\n")?;
            }
            "RCPT" => {
                recipients.push(path().to_owned());
                say("250 2.1.5 ok\r\n")?;
            }
            "DATA" => {
                say("354 go on\r\n")?;
                let mut text = Vec::new();
                loop {
                    let start = text.len();
                    if input.read_until(b'\n', &mut text).ok()? == 0 {
                        return None;
                    }
                    if &text[start..] == b".\r\n" {
                        text.truncate(start);
                        break;
                    }
                    if text[start] == b'.' {
                        text.remove(start);
                    }
                }
                let text = String::from_utf8_lossy(&text).into_owned();
                let message = SinkMessage {
                    sender: sender.clone(),
                    recipients: std::mem::take(&mut recipients),
                    text,
                };
                messages.lock().ok()?.push(message);
                say("250 2.0.0 kept\r\n")?;
            }
            "QUIT" => {
                say("221 2.0.0 bye\r\n")?;
                return None;
            }
            _ => say("250 2.0.0 ok\r\n")?,
        }
    }
}
