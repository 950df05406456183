//! The minimal cost of durable delivery: an LMTP server that appends each message to one file, and
//! syncs the file once for all waiting sessions. It has no accounts and no index.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

#[derive(Debug, Default)]
struct State {
    /// Bytes that are not in the file yet.
    waiting: Vec<u8>,
    /// How often bytes were added to `waiting` so far: once for each message.
    added: u64,
    /// How many of these additions are on the disk.
    synced: u64,
}

#[derive(Debug, Default)]
struct Log {
    state: Mutex<State>,
    /// Notified when bytes were added.
    news: Condvar,
    /// Notified when bytes are on the disk.
    durable: Condvar,
}

impl Log {
    /// Appends bytes, at least one, and returns when they are on the disk.
    fn append(&self, bytes: &[u8]) {
        let mut state = self.state.lock().expect("the log");
        state.waiting.extend_from_slice(bytes);
        state.added += 1;
        let mine = state.added;
        self.news.notify_one();
        while state.synced < mine {
            state = self.durable.wait(state).expect("the log");
        }
    }

    /// Writes and syncs what waits, again and again.
    fn commit(&self, mut file: File) {
        let mut state = self.state.lock().expect("the log");
        loop {
            while state.waiting.is_empty() {
                state = self.news.wait(state).expect("the log");
            }
            let (bytes, upto) = (std::mem::take(&mut state.waiting), state.added);
            drop(state);
            file.write_all(&bytes).expect("the file");
            file.sync_data().expect("the file");
            state = self.state.lock().expect("the log");
            state.synced = upto;
            self.durable.notify_all();
        }
    }
}

/// Serves LMTP on a new socket, and writes the messages to a new file, until the process is killed.
/// `Service` runs it in a process of its own.
pub(crate) fn serve(socket: &Path, file: &Path) {
    let listener = UnixListener::bind(socket).expect("the socket");
    let log = Arc::new(Log::default());
    let file = File::create(file).expect("the file");
    let committer = Arc::clone(&log);
    std::thread::spawn(move || committer.commit(file));
    for stream in listener.incoming().flatten() {
        let log = Arc::clone(&log);
        std::thread::spawn(move || session(&stream, &log));
    }
}

/// Serves one connection until it ends. The result has no meaning; it allows `?`.
fn session(stream: &UnixStream, log: &Log) -> Option<()> {
    let mut input = BufReader::with_capacity(64 * 1024, stream.try_clone().ok()?);
    let mut output = stream.try_clone().ok()?;
    let mut recipients = 0;
    output.write_all(b"220 sink LMTP\r\n").ok()?;
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        match line.get(..4)? {
            b"LHLO" => output.write_all(b"250-sink\r\n250-PIPELINING\r\n250 SIZE\r\n").ok()?,
            b"RCPT" => {
                recipients += 1;
                output.write_all(b"250 2.1.5 ok\r\n").ok()?;
            }
            b"DATA" => {
                output.write_all(b"354 go on\r\n").ok()?;
                let mut message = Vec::with_capacity(8192);
                loop {
                    let start = message.len();
                    if input.read_until(b'\n', &mut message).ok()? == 0 {
                        return None;
                    }
                    if message.get(start..) == Some(b".\r\n") {
                        break;
                    }
                }
                // Writes a copy for each recipient.
                log.append(&message.repeat(recipients));
                output.write_all("250 2.0.0 kept\r\n".repeat(recipients).as_bytes()).ok()?;
                recipients = 0;
            }
            b"QUIT" => return None,
            _ => output.write_all(b"250 2.0.0 ok\r\n").ok()?,
        }
    }
}
