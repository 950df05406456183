//! A name server on loopback, over UDP and TCP (RFC 1035), which answers from a table.
//!
//! - An answer over 512 bytes is truncated over UDP (the TC bit, RFC 1035 §4.2.1). The client then
//!   asks again over TCP.
//! - A name that begins with `servfail.` is answered with SERVFAIL.
//! - A name that begins with `silent.` gets no answer, nor does one that a test silenced.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};

const A: u16 = 1;
const MX: u16 = 15;
const TXT: u16 = 16;

/// The RDATA of the records, by name (lower case, without a final dot) and type.
type Table = BTreeMap<(String, u16), Vec<Vec<u8>>>;

/// The server. It stops with the test's process.
#[derive(Debug, Clone)]
pub(crate) struct Dns {
    pub(crate) address: SocketAddr,
    table: Arc<Mutex<Table>>,
    /// Names that get no answer.
    silent: Arc<Mutex<BTreeSet<String>>>,
    queries: Arc<Mutex<Vec<String>>>,
}

impl Dns {
    pub(crate) fn start() -> Self {
        // UDP and TCP need the same port; the port that UDP got may be in use for TCP.
        let (udp, tcp) = (0..100)
            .find_map(|_| {
                let udp = UdpSocket::bind("127.0.0.1:0").ok()?;
                let tcp = TcpListener::bind(udp.local_addr().ok()?).ok()?;
                Some((udp, tcp))
            })
            .unwrap();
        let address = udp.local_addr().unwrap();
        let dns = Self {
            address,
            table: Arc::default(),
            silent: Arc::default(),
            queries: Arc::default(),
        };
        let (own, other) = (dns.clone(), dns.clone());
        std::thread::spawn(move || {
            let mut buffer = [0u8; 4096];
            while let Ok((length, peer)) = udp.recv_from(&mut buffer) {
                if let Some(answer) = own.answer(&buffer[..length], 512) {
                    udp.send_to(&answer, peer).ok();
                }
            }
        });
        std::thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                let own = other.clone();
                std::thread::spawn(move || own.over_tcp(stream));
            }
        });
        dns
    }

    /// Adds a TXT record, in strings of at most 255 bytes.
    pub(crate) fn txt(&self, name: &str, text: &str) -> &Self {
        let strings = text.as_bytes().chunks(255);
        self.add(
            name,
            TXT,
            strings
                .flat_map(|part| [&[u8::try_from(part.len()).unwrap()], part].concat())
                .collect(),
        )
    }

    pub(crate) fn a(&self, name: &str, address: Ipv4Addr) -> &Self {
        self.add(name, A, address.octets().to_vec())
    }

    pub(crate) fn mx(&self, name: &str, exchange: &str) -> &Self {
        self.add(name, MX, [&[0, 10], &*encode_name(exchange)].concat())
    }

    /// Answers no more queries for this name.
    pub(crate) fn silence(&self, name: &str) -> &Self {
        self.silent.lock().unwrap().insert(name.to_lowercase());
        self
    }

    /// The first TXT record of each name.
    pub(crate) fn txt_records(&self) -> BTreeMap<String, String> {
        let table = self.table.lock().unwrap();
        let texts = table.iter().filter(|((_, kind), _)| *kind == TXT);
        texts.map(|((name, _), records)| (name.clone(), join_strings(&records[0]))).collect()
    }

    /// The queries so far, in order: the name, a space, and the number of the type.
    pub(crate) fn queries(&self) -> Vec<String> {
        self.queries.lock().unwrap().clone()
    }

    fn add(&self, name: &str, kind: u16, data: Vec<u8>) -> &Self {
        self.table.lock().unwrap().entry((name.to_lowercase(), kind)).or_default().push(data);
        self
    }

    /// Answers queries, each with its length before it (RFC 1035 §4.2.2), until the stream ends or
    /// a query gets no answer.
    fn over_tcp(&self, mut stream: TcpStream) -> Option<()> {
        loop {
            let mut length = [0u8; 2];
            stream.read_exact(&mut length).ok()?;
            let mut query = vec![0u8; usize::from(u16::from_be_bytes(length))];
            stream.read_exact(&mut query).ok()?;
            let answer = self.answer(&query, 65_535)?;
            stream.write_all(&u16::try_from(answer.len()).ok()?.to_be_bytes()).ok()?;
            stream.write_all(&answer).ok()?;
        }
    }

    /// The answer to one query (RFC 1035 §4.1) in at most `max_size` bytes. `None` for a malformed
    /// query, and for a name that gets no answer.
    fn answer(&self, query: &[u8], max_size: usize) -> Option<Vec<u8>> {
        let mut labels = Vec::new();
        let mut at = 12;
        loop {
            let length = usize::from(*query.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_lowercase());
            at += length;
        }
        let kind = u16::from_be_bytes([*query.get(at)?, *query.get(at + 1)?]);
        let question = query.get(12..at + 4)?;
        let name = labels.join(".");
        self.queries.lock().unwrap().push(format!("{name} {kind}"));
        if self.silent.lock().unwrap().contains(&name) {
            return None;
        }
        let table = self.table.lock().unwrap();
        let found = table.get(&(name.clone(), kind)).cloned().unwrap_or_default();
        let exists =
            table.keys().any(|(other, _)| *other == name || other.ends_with(&format!(".{name}")));
        let code = match labels.first().map(String::as_str) {
            Some("silent") => return None,
            Some("servfail") => 2,
            _ if exists => 0,
            _ => 3,
        };
        let write = |records: &[Vec<u8>], is_truncated: bool| {
            let mut out = query[..2].to_vec();
            // Flags: an authoritative answer, RD as in the query, RA set.
            out.push(0x84 | (query[2] & 1) | (u8::from(is_truncated) << 1));
            out.push(0x80 | code);
            out.extend([0, 1]);
            out.extend(u16::try_from(records.len()).unwrap_or(0).to_be_bytes());
            out.extend([0, 0, 0, 0]);
            out.extend(question);
            for data in records {
                // A pointer to the name of the question; then the type, the class IN, and 60 s.
                out.extend([0xc0, 12]);
                out.extend(kind.to_be_bytes());
                out.extend([0, 1, 0, 0, 0, 60]);
                out.extend(u16::try_from(data.len()).unwrap_or(0).to_be_bytes());
                out.extend(data);
            }
            out
        };
        let whole = write(&found, false);
        Some(if whole.len() > max_size { write(&[], true) } else { whole })
    }
}

/// The strings of a TXT record, joined.
fn join_strings(data: &[u8]) -> String {
    let (mut rest, mut text) = (data, Vec::new());
    while let Some((length, more)) = rest.split_first() {
        let (part, after) = more.split_at(usize::from(*length));
        text.extend(part);
        rest = after;
    }
    String::from_utf8(text).unwrap()
}

fn encode_name(name: &str) -> Vec<u8> {
    let labels = name
        .split('.')
        .flat_map(|label| [&[u8::try_from(label.len()).unwrap()], label.as_bytes()].concat());
    labels.chain([0]).collect()
}
