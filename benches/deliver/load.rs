//! The LMTP clients: sessions that each wait for the replies to a message before they send the next
//! one, as Postfix does.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::service::Service;
use crate::words::Words;

/// About how many commands a client sends over one connection. The service ends a session after
/// 100,000.
const COMMANDS_PER_CONNECTION: usize = 50_000;

/// What the clients send.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) sessions: usize,
    /// The size of a message in bytes.
    pub(crate) size: usize,
    /// The number of recipients of each message, each in another account.
    pub(crate) recipients: usize,
    /// How long to send, if there is no `count`.
    pub(crate) time: Duration,
    /// How many messages to send, in all sessions together.
    pub(crate) count: Option<u64>,
    /// The most messages to begin in a second, in all sessions together.
    pub(crate) rate: Option<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// How many messages were accepted, counted once for each recipient.
    pub(crate) deliveries: u64,
    /// How many messages were refused, counted once for each recipient.
    pub(crate) refused: u64,
    pub(crate) took: Duration,
    /// The latencies of the transactions in microseconds, in ascending order.
    latencies: Vec<u32>,
    /// The numbers of the acknowledged messages, by account.
    pub(crate) acknowledged: BTreeMap<usize, Vec<u64>>,
}

impl Measured {
    pub(crate) fn rate(&self) -> f64 {
        self.deliveries as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// The quantile `part` (0 to 1) of the latencies in milliseconds. A latency is the time from
    /// the first command of a transaction to its last reply.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let at = ((self.latencies.len().max(1) - 1) as f64 * part).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index below the length"
        )]
        self.latencies.get(at as usize).map_or(0.0, |micros| f64::from(*micros) / 1000.0)
    }
}

/// The address of an account, by its number from 0 on. Each session has accounts of its own.
pub(crate) fn address(account: usize) -> String {
    format!("user{account}@example.org")
}

impl Load {
    /// Sends messages with the numbers from `first` on. Numbers of two runs must not overlap. The
    /// service must have an account for each recipient of each session. With a `count`, prints
    /// every two seconds how far the run is.
    pub(crate) fn run(&self, service: &Service, first: u64) -> Measured {
        let next = AtomicU64::new(first);
        let over = AtomicBool::new(false);
        let begin = Instant::now();
        let mut all = Measured::default();
        std::thread::scope(|scope| {
            let sessions: Vec<_> = (0..self.sessions)
                .map(|session| {
                    let (next, over) = (&next, &over);
                    scope.spawn(move || {
                        self.session(&service.socket, session, first, begin, next, over)
                    })
                })
                .collect();
            let mut reports = 0;
            while self.count.map_or(begin.elapsed() < self.time, |_| {
                !sessions.iter().all(std::thread::ScopedJoinHandle::is_finished)
            }) {
                std::thread::sleep(Duration::from_millis(50));
                if self.count.is_some() && begin.elapsed().as_secs() / 2 > reports {
                    reports = begin.elapsed().as_secs() / 2;
                    let done = next.load(Ordering::Relaxed) - first;
                    println!(
                        "{:>5} s {done:>8} begun, resident {:.0} MB",
                        reports * 2,
                        service.usage().resident as f64 / 1e6
                    );
                }
            }
            over.store(true, Ordering::Relaxed);
            for session in sessions {
                let part = session.join().expect("a session");
                all.deliveries += part.deliveries;
                all.refused += part.refused;
                all.latencies.extend(part.latencies);
                for (account, mut numbers) in part.acknowledged {
                    all.acknowledged.entry(account).or_default().append(&mut numbers);
                }
            }
        });
        all.took = begin.elapsed();
        all.latencies.sort_unstable();
        all
    }

    fn session(
        &self,
        socket: &Path,
        session: usize,
        first: u64,
        begin: Instant,
        next: &AtomicU64,
        over: &AtomicBool,
    ) -> Measured {
        let mut measured = Measured::default();
        let mut words = Words::new(session as u64 + first);
        let mut connection = Connection::open(socket);
        let accounts: Vec<usize> =
            (0..self.recipients).map(|k| session * self.recipients.max(1) + k).collect();
        while !over.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if self.count.is_some_and(|count| number - first >= count) {
                break;
            }
            if let Some(rate) = self.rate {
                let due = Duration::from_secs_f64((number - first) as f64 / f64::from(rate));
                std::thread::sleep(due.saturating_sub(begin.elapsed()));
            }
            if connection.commands >= COMMANDS_PER_CONNECTION {
                connection.output.write_all(b"QUIT\r\n").ok();
                connection = Connection::open(socket);
            }
            // MAIL, RCPT and DATA.
            connection.commands += self.recipients + 2;
            let to: Vec<String> = accounts.iter().map(|account| address(*account)).collect();
            let message = words.message(number, &to.join(",\r\n "), self.size);
            let size = if connection.takes_size {
                format!(" SIZE={}", message.len())
            } else {
                String::new()
            };
            let mut envelope = format!("MAIL FROM:<sender{session}@example.net>{size}\r\n");
            for one in &to {
                envelope.push_str(&format!("RCPT TO:<{one}>\r\n"));
            }
            envelope.push_str("DATA\r\n");
            let sent = Instant::now();
            connection.output.write_all(envelope.as_bytes()).expect("the socket");
            for _ in 0..=to.len() {
                assert_eq!(connection.reply(), 250, "MAIL or RCPT");
            }
            assert_eq!(connection.reply(), 354, "DATA");
            connection.output.write_all(&message).expect("the socket");
            connection.output.write_all(b".\r\n").expect("the socket");
            for account in &accounts {
                if connection.reply() == 250 {
                    measured.deliveries += 1;
                    measured.acknowledged.entry(*account).or_default().push(number);
                } else {
                    measured.refused += 1;
                }
            }
            measured.latencies.push(u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
        connection.output.write_all(b"QUIT\r\n").ok();
        measured
    }
}

struct Connection {
    input: BufReader<UnixStream>,
    output: UnixStream,
    /// Whether the server takes the size of a message in MAIL (RFC 1870).
    takes_size: bool,
    /// How many commands were sent.
    commands: usize,
}

impl Connection {
    fn open(socket: &Path) -> Self {
        let output = UnixStream::connect(socket).expect("the socket");
        let input = BufReader::new(output.try_clone().expect("the socket"));
        let mut connection = Self { input, output, takes_size: false, commands: 0 };
        assert_eq!(connection.reply(), 220);
        connection.output.write_all(b"LHLO bench.example\r\n").expect("the socket");
        let mut extensions = String::new();
        assert_eq!(connection.reply_lines(&mut extensions), 250);
        connection.takes_size = extensions.lines().any(|line| line.get(4..8) == Some("SIZE"));
        connection
    }

    fn reply(&mut self) -> u16 {
        self.reply_lines(&mut String::new())
    }

    /// Reads a reply, appends its lines to `lines`, and returns its code.
    fn reply_lines(&mut self, lines: &mut String) -> u16 {
        loop {
            let start = lines.len();
            assert!(self.input.read_line(lines).expect("an answer") > 0, "the service has gone");
            let line = &lines[start..];
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.get(..3).and_then(|code| code.parse().ok()).expect("a code");
            }
        }
    }
}
