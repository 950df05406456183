use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::sleep;

use super::*;
use crate::message::header::IncomingMessage;
use crate::model::{Envelope, Recipient};
use crate::net::listen::{Access, ListenAddress};
use crate::net::stop::{Switch, switch};

/// Takes everything and remembers it.
#[derive(Default)]
struct RecordingService(parking_lot::Mutex<Vec<Vec<u8>>>);

impl DeliveryService for RecordingService {
    type Session = ();

    fn admit(&self, (): &mut (), _: &Envelope, recipient: &Recipient) -> Reply {
        match recipient.address.local() {
            "unknown" => Reply::new(550, [5, 1, 1], "no"),
            _ => Reply::new(250, [2, 1, 5], "yes"),
        }
    }

    fn may_answer(&self, (): &(), _: &Envelope, _: &IncomingMessage) -> bool {
        true
    }

    async fn deliver(
        self: Arc<Self>,
        (): (),
        envelope: Envelope,
        message: IncomingMessage,
    ) -> Vec<Reply> {
        sleep(Duration::from_millis(20)).await;
        let text = format!("{} octets", message.size());
        self.0.lock().push(message.header().raw().to_vec());
        vec![Reply::new(250, [2, 0, 0], text); envelope.recipients.len()]
    }
}

struct Server {
    dir: tempfile::TempDir,
    port: u16,
    kept: Arc<RecordingService>,
    switch: Switch,
}

async fn server(edit: impl FnOnce(&mut LmtpSettings), ceiling: Ceiling) -> Server {
    let dir = tempfile::tempdir().unwrap();
    let mut settings =
        LmtpSettings { spill: dir.path().into(), body_in_memory: 1000, ..LmtpSettings::default() };
    edit(&mut settings);
    let (settings, kept, (switch, stop)) =
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
                kept.clone(),
                stop.clone(),
            ));
        }
    }
    Server { dir, port, kept, switch }
}

/// Sends all at once, as a pipelining client may, and reads until `QUIT`'s reply or the end.
async fn converse(stream: impl ByteStream + 'static, talk: &[u8]) -> Vec<String> {
    let (read, mut write) = tokio::io::split(stream);
    let talk = talk.to_vec();
    let writer = tokio::spawn(async move {
        let sent = write.write_all(&talk).await;
        (sent.is_ok(), write)
    });
    let mut lines = BufReader::new(read).lines();
    let mut said = Vec::new();
    while let Ok(Some(line)) = lines.next_line().await {
        said.push(line);
    }
    drop(writer);
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_kinds_of_sockets_and_bodies_of_every_size() {
    let server = server(|_| {}, Ceiling::new(10, 1 << 20)).await;
    for size in [0, 10, 999, 1001, 300_000] {
        let line = "x".repeat(size);
        let talk = format!(
            "LHLO c\r\nMAIL FROM:<>\r\nRCPT TO:<a@b>\r\nRCPT TO:<unknown@b>\r\nRCPT TO:<c@b>\r\nDATA\r\n{line}\r\n.\r\nQUIT\r\n"
        );
        let unix = converse(
            UnixStream::connect(server.dir.path().join("s")).await.unwrap(),
            talk.as_bytes(),
        )
        .await;
        let tcp = converse(
            TcpStream::connect(("127.0.0.1", server.port)).await.unwrap(),
            talk.as_bytes(),
        )
        .await;
        let wanted = format!("250 2.0.0 {} octets", size + 2);
        let answers = |said: &[String]| said.iter().filter(|line| **line == wanted).count();
        assert_eq!((answers(&unix), answers(&tcp)), (2, 2), "{unix:?}");
        // A Unix peer is trusted with XFORWARD, a TCP one is not unless it is named.
        assert!(
            unix.iter().any(|line| line.contains("XFORWARD"))
                && !tcp.iter().any(|line| line.contains("XFORWARD"))
        );
    }
    assert_eq!(server.kept.0.lock().len(), 10);
    assert!(std::fs::read_dir(server.dir.path()).unwrap().count() <= 1, "a spill file has no name");
}

#[tokio::test]
async fn beyond_the_ceilings_is_said_and_nothing_breaks() {
    let server = server(|_| {}, Ceiling::new(1, 5000)).await;
    let connect = || UnixStream::connect(server.dir.path().join("s"));
    let talk = format!(
        "LHLO c\r\nMAIL FROM:<>\r\nRCPT TO:<a@b>\r\nDATA\r\n{}\r\n.\r\nNOOP\r\nQUIT\r\n",
        "x".repeat(6000)
    );
    let said = converse(connect().await.unwrap(), talk.as_bytes()).await;
    assert!(said[said.len() - 3].starts_with("452 4.3.1"), "{said:?}");
    assert!(said[said.len() - 2].starts_with("250 2.0.0"));
    sleep(Duration::from_millis(20)).await;
    let first = connect().await.unwrap();
    sleep(Duration::from_millis(20)).await;
    let second = converse(connect().await.unwrap(), b"").await;
    assert!(second[0].starts_with("421 4.3.2"), "{second:?}");
    drop(first);
}

#[tokio::test]
async fn an_idle_session_is_ended() {
    let server =
        server(|settings| settings.idle = Duration::from_millis(50), Ceiling::new(9, 5000)).await;
    let said =
        converse(UnixStream::connect(server.dir.path().join("s")).await.unwrap(), b"LHLO c\r\n")
            .await;
    assert!(said.last().unwrap().starts_with("421 4.4.2"));
}

#[tokio::test]
async fn a_drain_ends_idle_sessions_and_lets_a_message_finish() {
    let server = server(|_| {}, Ceiling::new(9, 5000)).await;
    let path = server.dir.path().join("s");
    let mut busy = UnixStream::connect(&path).await.unwrap();
    busy.write_all(b"LHLO c\r\nMAIL FROM:<>\r\nRCPT TO:<a@b>\r\nDATA\r\nhalf").await.unwrap();
    let idle = tokio::spawn(converse(UnixStream::connect(&path).await.unwrap(), b"LHLO c\r\n"));
    sleep(Duration::from_millis(50)).await;
    server.switch.stop();
    assert!(idle.await.unwrap().last().unwrap().starts_with("421 4.3.2"));
    assert!(!server.switch.wait_until_drained(Instant::now() + Duration::from_millis(50)).await);
    let said = tokio::spawn(converse(busy, b" done\r\n.\r\n"));
    let said = said.await.unwrap();
    assert!(said[said.len() - 2].starts_with("250 2.0.0 11 octets"), "{said:?}");
    assert!(said[said.len() - 1].starts_with("421"));
    assert!(server.switch.wait_until_drained(Instant::now() + Duration::from_secs(5)).await);
    assert!(UnixStream::connect(&path).await.is_err());
}
