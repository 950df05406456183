//! A relay for tests: it answers, and misbehaves, as its settings and the local part of a recipient
//! tell it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

/// A message that went out to it, whether or not it said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RelayedMail {
    /// The MAIL line.
    pub(super) mail: String,
    /// The RCPT lines that it took.
    pub(super) rcpt: Vec<String>,
    /// The message, its dots unstuffed.
    pub(super) message: String,
    /// Which connection it came by.
    pub(super) connection: usize,
    /// Whether it was taken, and said so.
    pub(super) taken: bool,
}

/// How it behaves towards all.
#[derive(Debug, Clone)]
pub(super) struct ScriptedRelaySettings {
    pub(super) greeting: &'static str,
    pub(super) offers: Vec<&'static str>,
    /// Recipients that it takes of one message.
    pub(super) most: usize,
    /// What it says to RCPT of this domain.
    pub(super) refuses: Option<(&'static str, &'static str)>,
    /// What it says to MAIL.
    pub(super) sender: &'static str,
    /// What it says to AUTH, at its end.
    pub(super) auth: &'static str,
    pub(super) lmtp: bool,
    /// Whether it has trouble with octets beyond ASCII.
    pub(super) seven_bit: bool,
}

impl Default for ScriptedRelaySettings {
    fn default() -> Self {
        Self {
            greeting: "220 rogue\r\n",
            offers: vec!["DSN", "8BITMIME", "PIPELINING", "SIZE 10000000"],
            most: 100,
            refuses: None,
            sender: "250 2.1.0 fine\r\n",
            auth: "235 2.7.0 fine\r\n",
            lmtp: false,
            seven_bit: false,
        }
    }
}

/// How long it waits where it is slow.
const SLOW_RELAY_PAUSE: std::time::Duration = std::time::Duration::from_millis(400);

#[derive(Debug, Clone)]
pub(super) struct ScriptedRelay {
    pub(super) manners: Arc<Mutex<ScriptedRelaySettings>>,
    pub(super) seen: Arc<Mutex<Vec<RelayedMail>>>,
    /// Every command line.
    pub(super) heard: Arc<Mutex<Vec<String>>>,
    pub(super) connections: Arc<AtomicUsize>,
    /// Messages that it took.
    pub(super) taken: Arc<AtomicUsize>,
    /// Whether it keeps what it sees and hears.
    pub(super) keeps: Arc<Mutex<bool>>,
}

impl Default for ScriptedRelay {
    fn default() -> Self {
        Self::of(ScriptedRelaySettings::default())
    }
}

impl ScriptedRelay {
    pub(super) fn of(manners: ScriptedRelaySettings) -> Self {
        Self {
            manners: Arc::new(Mutex::new(manners)),
            seen: Arc::default(),
            heard: Arc::default(),
            connections: Arc::default(),
            taken: Arc::default(),
            keeps: Arc::new(Mutex::new(true)),
        }
    }

    pub(super) async fn start(&self) -> (u16, JoinHandle<()>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (port, self.serve(listener))
    }

    pub(super) fn serve(&self, listener: TcpListener) -> JoinHandle<()> {
        let rogue = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // It answers each of several commands by itself: without this the second waits for
                // the other side's ACK.
                drop(stream.set_nodelay(true));
                tokio::spawn(rogue.clone().talk(stream));
            }
        })
    }

    pub(super) fn serve_unix(&self, listener: UnixListener) -> JoinHandle<()> {
        let rogue = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(rogue.clone().talk(stream));
            }
        })
    }

    /// The messages to this local part, taken or perhaps taken.
    pub(super) fn to(&self, local: &str) -> usize {
        let mark = format!("<{local}@");
        self.seen
            .lock()
            .iter()
            .filter(|seen| seen.rcpt.iter().any(|line| line.contains(&mark)))
            .count()
    }

    pub(super) fn heard(&self, begin: &str) -> usize {
        self.heard.lock().iter().filter(|line| line.starts_with(begin)).count()
    }

    pub(super) async fn talk(self, stream: impl AsyncRead + AsyncWrite + Send) {
        let connection = self.connections.fetch_add(1, Ordering::SeqCst);
        let (read, write) = tokio::io::split(stream);
        let mut write = Box::pin(write);
        let mut input = Box::pin(BufReader::new(read));
        let greeting = self.manners.lock().greeting;
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
            let keeps = *self.keeps.lock();
            if keeps {
                self.heard.lock().push(line.clone());
            }
            let manners = self.manners.lock().clone();
            let local = line
                .split_once('<')
                .and_then(|(_, rest)| rest.split(['@', '>']).next())
                .unwrap_or_default();
            let answer: String = match line.split(' ').next().unwrap_or_default() {
                "EHLO" | "LHLO" if manners.lmtp == line.starts_with("LHLO") => {
                    let mut all = String::from("250-rogue\r\n");
                    manners
                        .offers
                        .iter()
                        .for_each(|offer| all.push_str(&format!("250-{offer}\r\n")));
                    all + "250 HELP\r\n"
                }
                "MAIL" => {
                    (mail, rcpt) = (line.clone(), Vec::new());
                    manners.sender.into()
                }
                "RCPT" => {
                    let refused =
                        manners.refuses.filter(|(domain, _)| line.contains(&format!("@{domain}>")));
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
                        _ if rcpt.len() >= manners.most => "452 4.5.3 too many\r\n".into(),
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
                    let Some(message) = body(&mut input).await else { return };
                    if rcpt.iter().any(|line| line.contains("<slow@")) {
                        tokio::time::sleep(SLOW_RELAY_PAUSE).await;
                    }
                    let (answer, goes_on) = after(&manners, &rcpt, &message);
                    let taken = answer.starts_with("250");
                    let seen = RelayedMail {
                        mail: mail.clone(),
                        rcpt: rcpt.clone(),
                        message,
                        connection,
                        taken,
                    };
                    self.taken.fetch_add(usize::from(taken), Ordering::SeqCst);
                    if keeps {
                        self.seen.lock().push(seen);
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
                        self.heard
                            .lock()
                            .push(String::from_utf8_lossy(&word).trim_end().to_owned());
                    }
                    manners.auth.into()
                }
                "AUTH" => manners.auth.into(),
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

/// What it says after the dot, and whether it goes on.
fn after(manners: &ScriptedRelaySettings, rcpt: &[String], message: &str) -> (String, bool) {
    let to = |name: &str| rcpt.iter().any(|line| line.contains(&format!("<{name}@")));
    if manners.seven_bit && !message.is_ascii() {
        return ("554 5.6.3 eight bits\r\n".into(), true);
    }
    if to("lost") {
        return (String::new(), false);
    }
    if to("torn") {
        return ("250 2.0".into(), false);
    }
    let one = |line: &String| {
        if line.contains("<refused@") {
            "554 5.6.0 I do not like it\r\n"
        } else if line.contains("<defer@") {
            "451 4.3.0 not now\r\n"
        } else {
            "250 2.0.0 taken\r\n"
        }
    };
    if manners.lmtp {
        let all: Vec<&str> = rcpt.iter().map(one).collect();
        if to("cut") {
            return (all.first().map(|first| (*first).to_owned()).unwrap_or_default(), false);
        }
        return (all.concat(), true);
    }
    (rcpt.first().map_or("250 2.0.0 taken\r\n", one).to_owned(), true)
}

async fn body(input: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
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
