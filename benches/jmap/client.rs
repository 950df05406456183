//! A JMAP client with a persistent connection: the part of HTTP/1.1 that the bench needs, over a
//! Unix socket.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use base64::Engine as _;
use serde_json::Value;

use crate::fill::PASSWORD;

pub(crate) struct Client {
    stream: BufReader<UnixStream>,
    login: String,
}

impl Client {
    pub(crate) fn new(socket: &Path, user: &str) -> Self {
        let stream = BufReader::new(UnixStream::connect(socket).expect("the service"));
        let login = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{PASSWORD}"));
        Self { stream, login }
    }

    /// Returns the JMAP session. Panics if the status of the response is not 200.
    pub(crate) fn session(&mut self) -> Value {
        self.send("GET", "/jmap/session", &[]);
        serde_json::from_slice(&self.receive()).expect("a session")
    }

    /// Sends a request and returns the response, parsed. Panics as `exchange` does.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Value {
        serde_json::from_slice(&self.exchange(request)).expect("an answer")
    }

    /// Sends a request and returns the body of the response. Panics if its status is not 200.
    pub(crate) fn exchange(&mut self, request: &[u8]) -> Vec<u8> {
        self.send("POST", "/jmap", request);
        self.receive()
    }

    fn send(&mut self, method: &str, path: &str, body: &[u8]) {
        let mut bytes = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.login,
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        self.stream.get_mut().write_all(&bytes).expect("the service reads");
    }

    fn receive(&mut self) -> Vec<u8> {
        let (mut length, mut line, mut first) = (0, String::new(), String::new());
        loop {
            line.clear();
            self.stream.read_line(&mut line).expect("the service answers");
            if first.is_empty() {
                first.clone_from(&line);
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("the whole answer");
        assert!(first.contains(" 200 "), "{first}{}", String::from_utf8_lossy(&body));
        body
    }
}
