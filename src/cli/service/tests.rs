//! The service in process, as `serve` starts it.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use crate::cli::commands::demo;
use crate::cli::control::client::ControlClient;
use crate::cli::exit;
use crate::cli::service::Service;
use crate::cli::service::serve::runtime;
use crate::cli::sink::Sink;
use crate::config::{Config, ListenValue, TlsValue};
use crate::model::{clock, limits};
use crate::wire::jmap::admin::accounts::{AccountAdd, AccountAddArguments};

/// Returns a configuration with all files in `dir`. `relay` is the relay's port.
fn config(dir: &std::path::Path, relay: u16) -> Config {
    let mut config = Config::default();
    config.store.path = dir.join("data");
    config.lmtp.listen = Some(vec![
        ListenValue::Tcp { host: "127.0.0.1".into(), port: 0 },
        ListenValue::Unix(dir.join("lmtp")),
    ]);
    config.control.socket = dir.join("control");
    config.relay.port = relay;
    config.relay.tls = TlsValue::None;
    config.limits.drain.0 = Duration::from_secs(5);
    config
}

#[test]
fn demo_runs_and_empties_only_what_a_demo_made() {
    let dir = tempfile::tempdir().unwrap();
    let args = demo::DemoArgs { dir: dir.path().join("demo"), once: true };
    demo::run(&args).unwrap();
    // The second run empties the directory of the first, but no directory that no demo made.
    demo::run(&args).unwrap();
    std::fs::write(dir.path().join("mine"), "x").unwrap();
    let other = demo::DemoArgs { dir: dir.path().to_owned(), once: true };
    assert_eq!(demo::run(&other).unwrap_err().code, exit::USAGE);
    assert!(dir.path().join("mine").exists());
}

#[test]
fn a_stop_lets_a_message_finish_and_takes_no_new_ones() {
    let dir = tempfile::tempdir().unwrap();
    runtime().unwrap().block_on(async {
        let sink = Sink::start().await.unwrap();
        let config = config(dir.path(), sink.port());
        let service = Service::start(config.clone(), Arc::new(clock::SystemClock)).await.unwrap();
        assert_eq!(service.lmtp_addresses().len(), 2);
        let client = ControlClient::new(&config.control.socket);
        let new = AccountAddArguments {
            address: "ann@example.org".into(),
            ..AccountAddArguments::default()
        };
        client.call::<AccountAdd>(new).await.unwrap();

        let tcp = service.lmtp_addresses().first().cloned().unwrap();
        let mut idle = UnixStream::connect(dir.path().join("lmtp")).await.unwrap();
        let mut busy = TcpStream::connect(&tcp).await.unwrap();
        busy.write_all(
            b"LHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<ann@example.org>\r\nDATA\r\nSubject: half\r\n\r\n",
        )
        .await
        .unwrap();
        let mut said = String::new();
        while !said.contains("\r\n354 ") {
            let mut buffer = [0; 4096];
            let read = busy.read(&mut buffer).await.unwrap();
            said.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
        let stop = tokio::spawn(service.stop());
        let mut rest = String::new();
        idle.read_to_string(&mut rest).await.unwrap();
        assert!(rest.contains("421 4.3.2"), "{rest}");
        busy.write_all(b"the other half\r\n.\r\n").await.unwrap();
        let mut rest = String::new();
        busy.read_to_string(&mut rest).await.unwrap();
        assert!(rest.starts_with("250 2.0.0 ") && rest.contains("421 "), "{rest}");
        stop.await.unwrap();
        assert!(TcpStream::connect(&tcp).await.is_err());
        assert!(!config.control.socket.exists() && !client.is_up().await);
    });
}

/// Sends a request, and returns the connection and the status line of the response.
async fn request(port: u16) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"GET /jmap/session HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).await.unwrap();
    (stream, String::from_utf8_lossy(&begin).into_owned())
}

#[test]
fn connections_of_one_address_are_counted_over_all_public_listeners() {
    let dir = tempfile::tempdir().unwrap();
    runtime().unwrap().block_on(async {
        // Nothing is sent, so the port of the relay does not matter.
        let mut config = config(dir.path(), 1);
        let mut ports = Vec::new();
        for _ in 0..2 {
            let free = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            ports.push((free.local_addr().unwrap().port(), free));
        }
        let ports: Vec<u16> = ports.into_iter().map(|(port, _)| port).collect();
        let listen = |port: &u16| ListenValue::Tcp { host: "127.0.0.1".into(), port: *port };
        config.http.listen = Some(ports.iter().map(listen).collect());
        // A quarter of them would be less than what one address may have in any case.
        config.http.connections = 100;
        let service = Service::start(config, Arc::new(clock::SystemClock)).await.unwrap();
        let mut open = Vec::new();
        for at in 0..limits::MIN_HTTP_CONNECTIONS_PER_ADDRESS {
            let (stream, status) = request(ports[at % 2]).await;
            assert!(!status.ends_with("503"), "{status}");
            open.push(stream);
        }
        for port in &ports {
            assert_eq!(request(*port).await.1, "HTTP/1.1 503");
        }
        drop(open);
        service.stop().await;
    });
}
