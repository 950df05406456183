//! A name server on loopback, over UDP and TCP (RFC 1035): what it knows is a table, and it can be
//! slow, dumb or out of order where a test wants that.
//!
//! An answer that does not fit into 512 octets is cut off over UDP (the TC bit, RFC 1035 §4.2.1),
//! and asked for anew over TCP. A name that begins with `servfail.` is answered by SERVFAIL, one
//! that begins with `silent.` not at all, nor one that a test silences.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};

const A: u16 = 1;
const MX: u16 = 15;
const TXT: u16 = 16;

/// Records by name (lower case, without the root's dot) and type; each is its RDATA.
type Table = BTreeMap<(String, u16), Vec<Vec<u8>>>;

/// The server; it stops with the test's process.
#[derive(Debug, Clone)]
pub(crate) struct Dns {
    pub(crate) address: SocketAddr,
    table: Arc<Mutex<Table>>,
    /// Names about which no question is answered.
    silent: Arc<Mutex<BTreeSet<String>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Dns {
    pub(crate) fn start() -> Self {
        // The same port for both: what UDP was given may be taken for TCP.
        let (udp, tcp) = (0..100)
            .find_map(|_| {
                let udp = UdpSocket::bind("127.0.0.1:0").ok()?;
                let tcp = TcpListener::bind(udp.local_addr().ok()?).ok()?;
                Some((udp, tcp))
            })
            .unwrap();
        let address = udp.local_addr().unwrap();
        let dns =
            Self { address, table: Arc::default(), silent: Arc::default(), asked: Arc::default() };
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

    /// A TXT record, in strings of at most 255 octets.
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
        self.add(name, MX, [&[0, 10], &*encoded(exchange)].concat())
    }

    /// Answers no question about this name from now on.
    pub(crate) fn silence(&self, name: &str) -> &Self {
        self.silent.lock().unwrap().insert(name.to_lowercase());
        self
    }

    /// The texts that it knows, by name.
    pub(crate) fn texts(&self) -> BTreeMap<String, String> {
        let table = self.table.lock().unwrap();
        let texts = table.iter().filter(|((_, kind), _)| *kind == TXT);
        texts.map(|((name, _), records)| (name.clone(), joined(&records[0]))).collect()
    }

    /// The names that were asked for, in order, with their types.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn add(&self, name: &str, kind: u16, data: Vec<u8>) -> &Self {
        self.table.lock().unwrap().entry((name.to_lowercase(), kind)).or_default().push(data);
        self
    }

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

    /// The answer to one question (RFC 1035 §4.1); none at all where the name is to be met with
    /// silence.
    fn answer(&self, query: &[u8], most: usize) -> Option<Vec<u8>> {
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
        self.asked.lock().unwrap().push(format!("{name} {kind}"));
        if self.silent.lock().unwrap().contains(&name) {
            return None;
        }
        let table = self.table.lock().unwrap();
        let found = table.get(&(name.clone(), kind)).cloned().unwrap_or_default();
        let exists =
            table.keys().any(|(known, _)| *known == name || known.ends_with(&format!(".{name}")));
        let code = match labels.first().map(String::as_str) {
            Some("silent") => return None,
            Some("servfail") => 2,
            _ if exists => 0,
            _ => 3,
        };
        let write = |records: &[Vec<u8>], cut: bool| {
            let mut out = query[..2].to_vec();
            // An answer, with authority; recursion as it was asked for, and to be had.
            out.push(0x84 | (query[2] & 1) | (u8::from(cut) << 1));
            out.push(0x80 | code);
            out.extend([0, 1]);
            out.extend(u16::try_from(records.len()).unwrap_or(0).to_be_bytes());
            out.extend([0, 0, 0, 0]);
            out.extend(question);
            for data in records {
                out.extend([0xc0, 12]);
                out.extend(kind.to_be_bytes());
                out.extend([0, 1, 0, 0, 0, 60]);
                out.extend(u16::try_from(data.len()).unwrap_or(0).to_be_bytes());
                out.extend(data);
            }
            out
        };
        let whole = write(&found, false);
        Some(if whole.len() > most { write(&[], true) } else { whole })
    }
}

/// The strings of a TXT record, joined.
fn joined(data: &[u8]) -> String {
    let (mut rest, mut text) = (data, Vec::new());
    while let Some((length, more)) = rest.split_first() {
        let (part, after) = more.split_at(usize::from(*length));
        text.extend(part);
        rest = after;
    }
    String::from_utf8(text).unwrap()
}

fn encoded(name: &str) -> Vec<u8> {
    let labels = name
        .split('.')
        .flat_map(|label| [&[u8::try_from(label.len()).unwrap()], label.as_bytes()].concat());
    labels.chain([0]).collect()
}
