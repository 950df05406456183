use std::path::PathBuf;
use std::thread::ThreadId;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::sleep;

use super::*;
use crate::message::header::IncomingMessage;
use crate::model::{Envelope, Recipient};
use crate::net::listen::{Access, ListenAddress};
use crate::net::managesieve::tests::{connect_tls, tls_settings};
use crate::net::stop::{Switch, switch};

#[derive(Default)]
struct RecordingService {
    messages: parking_lot::Mutex<Vec<Vec<u8>>>,
    /// The directory in which large bodies are begun, or the error of beginning one. `None` keeps
    /// them in memory.
    bodies: parking_lot::Mutex<Option<Result<PathBuf, Error>>>,
    /// The threads on which large bodies were begun.
    threads: parking_lot::Mutex<Vec<ThreadId>>,
}

impl DeliveryService for RecordingService {
    type Session = ();

    fn admit(&self, (): &mut (), _: &Envelope, recipient: &Recipient) -> Reply {
        match recipient.address.local() {
            "unknown" => Reply::new(550, [5, 1, 1], "no"),
            _ => Reply::new(250, [2, 1, 5], "yes"),
        }
    }

    fn begin_body(&self) -> Result<Option<StreamedValue>, Error> {
        self.threads.lock().push(std::thread::current().id());
        let dir = self.bodies.lock().clone().transpose()?;
        dir.map(|dir| StreamedValue::begin_in(&dir)).transpose()
    }

    fn may_answer(&self, (): &mut (), _: &Envelope, _: &IncomingMessage) -> bool {
        true
    }

    async fn deliver(
        self: Arc<Self>,
        (): (),
        envelope: Envelope,
        message: IncomingMessage,
        streamed: Option<StreamedValue>,
    ) -> Vec<Reply> {
        // Tests that set `bodies` send only large messages.
        assert_eq!(streamed.is_some(), matches!(*self.bodies.lock(), Some(Ok(_))));
        // A delivery takes a while.
        sleep(Duration::from_millis(20)).await;
        let text = format!("{} bytes", message.size());
        self.messages.lock().push(message.header().raw().to_vec());
        vec![Reply::new(250, [2, 0, 0], text); envelope.recipients.len()]
    }
}

struct Server {
    dir: tempfile::TempDir,
    port: u16,
    service: Arc<RecordingService>,
    switch: Switch,
}

/// A server whose messages above 1000 bytes are large.
async fn server(edit: impl FnOnce(&mut LmtpSettings), ceiling: Ceiling) -> Server {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = LmtpSettings { body_in_memory: 1000, ..LmtpSettings::default() };
    edit(&mut settings);
    let (settings, service, (switch, stop)) =
        (LiveValue::new(settings), Arc::new(RecordingService::default()), switch());
    let mut port = 0;
    for listen in
        [ListenAddress::Unix(dir.path().join("s")), ListenAddress::Tcp("127.0.0.1".into(), 0)]
    {
        for bound in BoundListener::bind(&listen, &Access::Everybody).await.unwrap() {
            port = bound.port().unwrap_or(port);
            tokio::spawn(serve(
                bound,
                settings.clone(),
                ceiling.clone(),
                service.clone(),
                stop.clone(),
            ));
        }
    }
    Server { dir, port, service, switch }
}

/// Sends all commands at once, as a pipelining client may, and returns the lines of the replies
/// until the server closes the connection.
async fn converse(stream: impl ByteStream + 'static, commands: &[u8]) -> Vec<String> {
    let (read, mut write) = tokio::io::split(stream);
    let commands = commands.to_vec();
    let writer = tokio::spawn(async move {
        let sent = write.write_all(&commands).await;
        // Returned, so that this half of the connection stays open.
        (sent.is_ok(), write)
    });
    let mut lines = BufReader::new(read).lines();
    let mut replies = Vec::new();
    while let Ok(Some(line)) = lines.next_line().await {
        replies.push(line);
    }
    drop(writer);
    replies
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receives_bodies_of_every_size_over_unix_and_tcp_sockets() {
    let server = server(|_| {}, Ceiling::new(10, 1 << 20)).await;
    // With its line end, a line of 998 bytes is the longest message that is not large.
    for size in [0, 10, 998, 999, 300_000] {
        let line = "x".repeat(size);
        let commands = format!(
            "LHLO c\r\nMAIL FROM:<>\r\nRCPT TO:<a@b>\r\nRCPT TO:<unknown@b>\r\nRCPT TO:<c@b>\r\n\
             DATA\r\n{line}\r\n.\r\nQUIT\r\n"
        );
        let unix = converse(
            UnixStream::connect(server.dir.path().join("s")).await.unwrap(),
            commands.as_bytes(),
        )
        .await;
        let tcp = converse(
            TcpStream::connect(("127.0.0.1", server.port)).await.unwrap(),
            commands.as_bytes(),
        )
        .await;
        let expected = format!("250 2.0.0 {} bytes", size + 2);
        let accepted = |lines: &[String]| lines.iter().filter(|line| **line == expected).count();
        assert_eq!((accepted(&unix), accepted(&tcp)), (2, 2), "{unix:?}");
        // A Unix client is trusted with XFORWARD; a TCP client is not unless it is configured.
        assert!(
            unix.iter().any(|line| line.contains("XFORWARD"))
                && !tcp.iter().any(|line| line.contains("XFORWARD"))
        );
    }
    assert_eq!(server.service.messages.lock().len(), 10);
}

#[tokio::test]
async fn refuses_messages_and_connections_beyond_the_limits() {
    let server = server(|_| {}, Ceiling::new(1, 5000)).await;
    let connect = || UnixStream::connect(server.dir.path().join("s"));
    let commands = format!(
        "LHLO c\r\nMAIL FROM:<>\r\nRCPT TO:<a@b>\r\nDATA\r\n{}\r\n.\r\nNOOP\r\nQUIT\r\n",
        "x".repeat(6000)
    );
    let replies = converse(connect().await.unwrap(), commands.as_bytes()).await;
    // The replies to the message, NOOP and QUIT.
    assert!(replies[replies.len() - 3].starts_with("452 4.3.1"), "{replies:?}");
    assert!(replies[replies.len() - 2].starts_with("250 2.0.0"));
    // Time for the server to end this connection, and then to take the next one.
    sleep(Duration::from_millis(20)).await;
    let first = connect().await.unwrap();
    sleep(Duration::from_millis(20)).await;
    let second = converse(connect().await.unwrap(), b"").await;
    assert!(second[0].starts_with("421 4.3.2"), "{second:?}");
    drop(first);
}

#[tokio::test]
async fn ends_an_idle_session() {
    let server =
        server(|settings| settings.idle = Duration::from_millis(50), Ceiling::new(9, 5000)).await;
    let replies =
        converse(UnixStream::connect(server.dir.path().join("s")).await.unwrap(), b"LHLO c\r\n")
            .await;
    assert!(replies.last().unwrap().starts_with("421 4.4.2"));
}

#[tokio::test]
async fn stop_ends_idle_sessions_and_lets_a_message_finish() {
    let server = server(|_| {}, Ceiling::new(9, 5000)).await;
    let path = server.dir.path().join("s");
    let mut busy = UnixStream::connect(&path).await.unwrap();
    busy.write_all(b"LHLO c\r\nMAIL FROM:<>\r\nRCPT TO:<a@b>\r\nDATA\r\nhalf").await.unwrap();
    let idle = tokio::spawn(converse(UnixStream::connect(&path).await.unwrap(), b"LHLO c\r\n"));
    // Time for both sessions to wait for input.
    sleep(Duration::from_millis(50)).await;
    server.switch.stop();
    assert!(idle.await.unwrap().last().unwrap().starts_with("421 4.3.2"));
    assert!(!server.switch.wait_until_drained(Instant::now() + Duration::from_millis(50)).await);
    let replies = tokio::spawn(converse(busy, b" done\r\n.\r\n"));
    let replies = replies.await.unwrap();
    assert!(replies[replies.len() - 2].starts_with("250 2.0.0 11 bytes"), "{replies:?}");
    assert!(replies[replies.len() - 1].starts_with("421"));
    assert!(server.switch.wait_until_drained(Instant::now() + Duration::from_secs(5)).await);
    assert!(UnixStream::connect(&path).await.is_err());
}

#[tokio::test]
async fn client_that_does_not_read_does_not_delay_a_stop() {
    let server = server(|_| {}, Ceiling::new(9, 5000)).await;
    let mut client = UnixStream::connect(server.dir.path().join("s")).await.unwrap();
    client.write_all("LHLO c\r\n".repeat(5000).as_bytes()).await.unwrap();
    // Time for the replies to fill the buffers of the connection.
    sleep(Duration::from_millis(300)).await;
    server.switch.stop();
    let until = Instant::now() + CLOSING_TIMEOUT + Duration::from_secs(5);
    assert!(server.switch.wait_until_drained(until).await);
    drop(client);
}

const BEGIN: &str = "LHLO c\r\nMAIL FROM:<>\r\nRCPT TO:<a@b>\r\nDATA\r\n";

/// Sends a message with a line of this length. Returns the reply to the message.
async fn send_line(server: &Server, length: usize) -> String {
    let commands = format!("{BEGIN}{}\r\n.\r\nQUIT\r\n", "x".repeat(length));
    let stream = UnixStream::connect(server.dir.path().join("s")).await.unwrap();
    let mut replies = converse(stream, commands.as_bytes()).await;
    replies.remove(replies.len() - 2)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reply_to_a_large_message_says_whether_space_or_something_else_is_missing() {
    let server = server(|_| {}, Ceiling::new(10, 1 << 22)).await;
    let files = server.dir.path().join("files");
    for (bodies, expected) in [
        (Err(Error::Full), "452 4.3.1 no space"),
        (Err(Error::Io("too many open files".into())), "451 4.3.0 the message cannot be"),
        (Ok(files.clone()), "250 2.0.0 900002 bytes"),
    ] {
        *server.service.bodies.lock() = Some(bodies);
        let reply = send_line(&server, 900_000).await;
        assert!(reply.starts_with(expected), "{reply}");
    }
    let message = server.service.messages.lock().pop().unwrap();
    assert!(message.strip_suffix(b"\r\n").unwrap().iter().all(|byte| *byte == b'x'));
    assert_eq!(std::fs::read_dir(&files).unwrap().count(), 0);
}

#[tokio::test]
async fn files_of_large_messages_are_begun_on_no_thread_of_the_async_runtime() {
    let server = server(|_| {}, Ceiling::new(10, 1 << 20)).await;
    *server.service.bodies.lock() = Some(Ok(server.dir.path().join("files")));
    assert_eq!(send_line(&server, 100_000).await, "250 2.0.0 100002 bytes");
    let threads = std::mem::take(&mut *server.service.threads.lock());
    assert_eq!(threads.len(), 1);
    assert_ne!(threads[0], std::thread::current().id());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_too_large_frees_its_memory_and_file_before_it_ends() {
    let ceiling = Ceiling::new(10, 1 << 20);
    let server = server(|settings| settings.max_message = 200_000, ceiling.clone()).await;
    let files = server.dir.path().join("files");
    *server.service.bodies.lock() = Some(Ok(files.clone()));
    let count = || std::fs::read_dir(&files).map_or(0, Iterator::count);
    let path = server.dir.path().join("s");
    // Lines that have 150,000 bytes together are sent twice. The chunk of BDAT has 10 bytes more.
    for begin in [BEGIN.to_owned(), BEGIN.replace("DATA", "BDAT 300010 LAST")] {
        let is_data = begin == BEGIN;
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let lines = format!("{}\r\n", "x".repeat(98)).repeat(1500);
        stream.write_all(format!("{begin}{lines}").as_bytes()).await.unwrap();
        let until = async |wanted: &dyn Fn() -> bool| {
            for _ in 0..500 {
                if wanted() {
                    return true;
                }
                sleep(Duration::from_millis(10)).await;
            }
            false
        };
        assert!(until(&|| count() == 1).await, "the body is streamed");
        stream.write_all(lines.as_bytes()).await.unwrap();
        let is_free = || count() == 0 && ceiling.memory_permit().grow(1 << 20);
        assert!(until(&is_free).await, "memory and file are free before the message ends");
        let end = if is_data { "\r\n.\r\n" } else { "0123456789" };
        let end = format!("{end}NOOP\r\nQUIT\r\n");
        let replies = converse(stream, end.as_bytes()).await;
        assert!(replies[replies.len() - 3].starts_with("552 5.3.4"), "{replies:?}");
        assert!(replies[replies.len() - 2].starts_with("250 2.0.0"), "{replies:?}");
    }
    assert!(server.service.messages.lock().is_empty());
}

/// A server with TLS, and a client that may begin TLS now.
async fn after_starttls() -> (Server, BufReader<UnixStream>) {
    let server =
        server(|settings| settings.tls = Some(tls_settings()), Ceiling::new(9, 5000)).await;
    let stream = UnixStream::connect(server.dir.path().join("s")).await.unwrap();
    let mut stream = BufReader::new(stream);
    stream.get_mut().write_all(b"LHLO c\r\nSTARTTLS\r\n").await.unwrap();
    let mut line = String::new();
    while !line.contains("220 2.0.0") {
        line.clear();
        assert_ne!(stream.read_line(&mut line).await.unwrap(), 0);
    }
    (server, stream)
}

#[tokio::test]
async fn tls_ends_with_close_notify() {
    let (_server, stream) = after_starttls().await;
    let mut stream = connect_tls(stream.into_inner()).await;
    stream.write_all(b"QUIT\r\n").await.unwrap();
    let mut answer = String::new();
    // Without `close_notify` (RFC 8446 §6.1) this is the error `UnexpectedEof`.
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("221 "), "{answer}");
}

#[tokio::test]
async fn stop_ends_a_connection_whose_tls_has_not_begun() {
    let (server, _stream) = after_starttls().await;
    server.switch.stop();
    assert!(server.switch.wait_until_drained(Instant::now() + Duration::from_secs(20)).await);
}
