//! A relay for tests. Its settings, and the local part of a recipient, say how it answers or
//! misbehaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RelayedMail {
    /// The command MAIL.
    pub(super) mail: String,
    /// The commands RCPT that were accepted.
    pub(super) rcpt: Vec<String>,
    /// The message, without the dots that SMTP adds.
    pub(super) message: String,
    /// The number of the connection, from 0.
    pub(super) connection: usize,
    /// Whether the answer to the message began with 250.
    pub(super) is_accepted: bool,
}

#[derive(Debug, Clone)]
pub(super) struct RelayBehaviour {
    /// After a greeting that does not begin with 220, the relay hangs up.
    pub(super) greeting: &'static str,
    /// The extensions in the answer to EHLO or LHLO.
    pub(super) offers: Vec<&'static str>,
    /// Further recipients of a transaction get 452.
    pub(super) max_recipients: usize,
    /// A domain, and the answer to RCPT for it, in place of that for the local part.
    pub(super) refuses: Option<(&'static str, &'static str)>,
    /// The answer to MAIL.
    pub(super) sender: &'static str,
    /// The answer to the credentials of a login.
    pub(super) auth: &'static str,
    /// Whether the relay speaks LMTP, and not SMTP.
    pub(super) lmtp: bool,
    /// Whether messages that are not ASCII are refused.
    pub(super) seven_bit: bool,
}

impl Default for RelayBehaviour {
    fn default() -> Self {
        Self {
            greeting: "220 relay\r\n",
            offers: vec!["DSN", "8BITMIME", "PIPELINING", "SIZE 10000000"],
            max_recipients: 100,
            refuses: None,
            sender: "250 2.1.0 fine\r\n",
            auth: "235 2.7.0 fine\r\n",
            lmtp: false,
            seven_bit: false,
        }
    }
}

const SLOW_RELAY_PAUSE: std::time::Duration = std::time::Duration::from_millis(400);

/// Clones share everything.
#[derive(Debug, Clone)]
pub(super) struct ScriptedRelay {
    pub(super) behaviour: Arc<Mutex<RelayBehaviour>>,
    pub(super) received: Arc<Mutex<Vec<RelayedMail>>>,
    pub(super) commands: Arc<Mutex<Vec<String>>>,
    /// The number of connections.
    pub(super) connections: Arc<AtomicUsize>,
    /// The number of accepted messages.
    pub(super) accepted: Arc<AtomicUsize>,
    /// Whether messages are added to `received`, and commands to `commands`. The user name and the
    /// password of AUTH LOGIN are always added to `commands`.
    pub(super) is_recording: Arc<Mutex<bool>>,
}

impl Default for ScriptedRelay {
    fn default() -> Self {
        Self::of(RelayBehaviour::default())
    }
}

impl ScriptedRelay {
    pub(super) fn of(behaviour: RelayBehaviour) -> Self {
        Self {
            behaviour: Arc::new(Mutex::new(behaviour)),
            received: Arc::default(),
            commands: Arc::default(),
            connections: Arc::default(),
            accepted: Arc::default(),
            is_recording: Arc::new(Mutex::new(true)),
        }
    }

    /// Listens on a free port of loopback, and returns the port.
    pub(super) async fn start(&self) -> (u16, JoinHandle<()>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (port, self.serve(listener))
    }

    pub(super) fn serve(&self, listener: TcpListener) -> JoinHandle<()> {
        let relay = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Without this, the second of several answers would wait for the ACK of the first.
                drop(stream.set_nodelay(true));
                tokio::spawn(relay.clone().talk(stream));
            }
        })
    }

    pub(super) fn serve_unix(&self, listener: UnixListener) -> JoinHandle<()> {
        let relay = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(relay.clone().talk(stream));
            }
        })
    }

    /// Counts the received messages to a recipient, also those that the relay then refused.
    pub(super) fn to(&self, local: &str) -> usize {
        let path_start = format!("<{local}@");
        self.received
            .lock()
            .iter()
            .filter(|mail| mail.rcpt.iter().any(|line| line.contains(&path_start)))
            .count()
    }

    pub(super) fn count_commands(&self, begin: &str) -> usize {
        self.commands.lock().iter().filter(|line| line.starts_with(begin)).count()
    }

    pub(super) async fn talk(self, stream: impl AsyncRead + AsyncWrite + Send) {
        let connection = self.connections.fetch_add(1, Ordering::SeqCst);
        let (read, write) = tokio::io::split(stream);
        let mut write = Box::pin(write);
        let mut input = Box::pin(BufReader::new(read));
        let greeting = self.behaviour.lock().greeting;
        if write.write_all(greeting.as_bytes()).await.is_err() || !greeting.starts_with("220") {
            return;
        }
        let (mut mail, mut rcpt) = (String::new(), Vec::<String>::new());
        loop {
            let mut line = Vec::new();
            if !matches!(input.read_until(b'\n', &mut line).await, Ok(1..)) {
                return;
            }
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            let is_recording = *self.is_recording.lock();
            if is_recording {
                self.commands.lock().push(line.clone());
            }
            let behaviour = self.behaviour.lock().clone();
            let local = line
                .split_once('<')
                .and_then(|(_, rest)| rest.split(['@', '>']).next())
                .unwrap_or_default();
            let answer: String = match line.split(' ').next().unwrap_or_default() {
                "EHLO" | "LHLO" if behaviour.lmtp == line.starts_with("LHLO") => {
                    let mut answer = String::from("250-relay\r\n");
                    behaviour
                        .offers
                        .iter()
                        .for_each(|offer| answer.push_str(&format!("250-{offer}\r\n")));
                    answer + "250 HELP\r\n"
                }
                "MAIL" => {
                    (mail, rcpt) = (line.clone(), Vec::new());
                    behaviour.sender.into()
                }
                "RCPT" => {
                    let refused = behaviour
                        .refuses
                        .filter(|(domain, _)| line.contains(&format!("@{domain}>")));
                    match local {
                        _ if refused.is_some() => refused.map_or("", |(_, answer)| answer).into(),
                        "bad" => "550 5.1.1 no such user\r\n".into(),
                        "never" => "554 5.7.1 not here\r\n".into(),
                        "later" => "451 4.7.1 later\r\n".into(),
                        "busy" => "421 4.3.2 going down\r\n".into(),
                        "tarpit" => return,
                        "stall" => return std::future::pending().await,
                        "garbage" => "hello, world\r\n".into(),
                        "half" => {
                            drop(write.write_all(b"250-2.1.5 fi").await);
                            return;
                        }
                        "twice" => "250 2.1.5 fine\r\n250 2.1.5 fine\r\n".into(),
                        "utf8" => "553 5.6.7 not so\r\n".into(),
                        "lazy" => {
                            tokio::time::sleep(SLOW_RELAY_PAUSE).await;
                            rcpt.push(line.clone());
                            "250 2.1.5 fine\r\n".into()
                        }
                        "lazyno" => {
                            tokio::time::sleep(SLOW_RELAY_PAUSE).await;
                            "451 4.7.1 later\r\n".into()
                        }
                        _ if rcpt.len() >= behaviour.max_recipients => {
                            "452 4.5.3 too many\r\n".into()
                        }
                        _ => {
                            rcpt.push(line.clone());
                            "250 2.1.5 fine\r\n".into()
                        }
                    }
                }
                "DATA" => {
                    if write.write_all(b"354 go on\r\n").await.is_err() {
                        return;
                    }
                    let Some(message) = read_message(&mut input).await else { return };
                    if rcpt.iter().any(|line| line.contains("<slow@")) {
                        tokio::time::sleep(SLOW_RELAY_PAUSE).await;
                    }
                    let (answer, goes_on) = answer_to_message(&behaviour, &rcpt, &message);
                    let accepted = answer.starts_with("250");
                    let received = RelayedMail {
                        mail: mail.clone(),
                        rcpt: rcpt.clone(),
                        message,
                        connection,
                        is_accepted: accepted,
                    };
                    self.accepted.fetch_add(usize::from(accepted), Ordering::SeqCst);
                    if is_recording {
                        self.received.lock().push(received);
                    }
                    if !goes_on {
                        drop(write.write_all(answer.as_bytes()).await);
                        return;
                    }
                    answer
                }
                "AUTH" if line.starts_with("AUTH LOGIN") => {
                    for _ in 0..2 {
                        drop(write.write_all(b"334 VXNlcm5hbWU6\r\n").await);
                        let mut word = Vec::new();
                        drop(input.read_until(b'\n', &mut word).await);
                        self.commands
                            .lock()
                            .push(String::from_utf8_lossy(&word).trim_end().to_owned());
                    }
                    behaviour.auth.into()
                }
                "AUTH" => behaviour.auth.into(),
                "QUIT" => {
                    drop(write.write_all(b"221 2.0.0 bye\r\n").await);
                    return;
                }
                "RSET" | "NOOP" => "250 2.0.0 fine\r\n".into(),
                _ => "500 5.5.1 what?\r\n".into(),
            };
            if write.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// Returns the answer after the final dot, and whether the connection goes on.
fn answer_to_message(behaviour: &RelayBehaviour, rcpt: &[String], message: &str) -> (String, bool) {
    let to = |name: &str| rcpt.iter().any(|line| line.contains(&format!("<{name}@")));
    if behaviour.seven_bit && !message.is_ascii() {
        return ("554 5.6.3 eight bits\r\n".into(), true);
    }
    if to("lost") {
        return (String::new(), false);
    }
    if to("torn") {
        return ("250 2.0".into(), false);
    }
    let answer_to = |line: &String| {
        if line.contains("<refused@") {
            "554 5.6.0 I do not like it\r\n"
        } else if line.contains("<defer@") {
            "451 4.3.0 not now\r\n"
        } else {
            "250 2.0.0 taken\r\n"
        }
    };
    if behaviour.lmtp {
        let answers: Vec<&str> = rcpt.iter().map(answer_to).collect();
        if to("cut") {
            return (answers.first().map(|first| (*first).to_owned()).unwrap_or_default(), false);
        }
        return (answers.concat(), true);
    }
    (rcpt.first().map_or("250 2.0.0 taken\r\n", answer_to).to_owned(), true)
}

async fn read_message(input: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
    let mut message = Vec::new();
    loop {
        let mut line = Vec::new();
        if !matches!(input.read_until(b'\n', &mut line).await, Ok(1..)) {
            return None;
        }
        if line == b".\r\n" {
            return Some(String::from_utf8_lossy(&message).into_owned());
        }
        message.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
    }
}
