//! Tests of idle clients, slow readers, a stop, and the number of connections.

use super::*;

#[tokio::test]
async fn silent_clients_surplus_connections_and_a_stop_end_with_bye() {
    let settings =
        ManageSieveSettings { login: Duration::from_millis(300), ..ManageSieveSettings::default() };
    let server = server(settings, 1).await;
    let mut silent = Client::greeted(&server).await;
    let mut surplus = Client::connect(&server).await;
    assert!(surplus.response().await.starts_with("BYE (TRYLATER) "));
    let bye = silent.response().await;
    assert_eq!(bye, "BYE (TRYLATER) \"the client did not log in in time\"\r\n");
    assert!(silent.is_closed().await);
    // Time for the server to count one connection less.
    sleep(Duration::from_millis(50)).await;
    // A client that is logged in may be silent for longer.
    let mut ann = Client::logged_in(&server).await;
    sleep(Duration::from_millis(500)).await;
    assert_eq!(ann.say("NOOP").await, "OK \"done\"\r\n");
    server.switch.stop();
    assert_eq!(ann.response().await, "BYE (TRYLATER) \"the service is shutting down\"\r\n");
}

#[tokio::test]
async fn client_that_sends_without_a_pause_ends_like_a_silent_one() {
    let login = Duration::from_secs(1);
    let server = server(ManageSieveSettings { login, ..ManageSieveSettings::default() }, 9).await;
    let send_without_end = |client: Client, text: &'static [u8]| {
        let (read, mut write) = client.0.into_inner().into_split();
        // Writing fails when the server has closed the connection.
        let sender =
            tokio::spawn(async move { while write.write_all(&text.repeat(1000)).await.is_ok() {} });
        (BufReader::new(read), sender)
    };
    let ann = Client::logged_in(&server).await;
    // A line without an end is no command, and is not counted.
    for (text, bye) in [
        (b"x".as_slice(), "BYE (TRYLATER) \"the client did not log in in time\"\r\n"),
        (b"\r\n", "BYE \"too many commands without a login\"\r\n"),
    ] {
        let client = Client::greeted(&server).await;
        let (mut read, sender) = send_without_end(client, text);
        let mut line = String::new();
        let end = timeout(Duration::from_secs(20), read.read_line(&mut line)).await;
        assert!(end.is_ok(), "the session does not end");
        assert_eq!(line, bye);
        timeout(Duration::from_secs(20), sender).await.unwrap().unwrap();
    }
    // A client that is logged in may go on, until the service stops.
    let (mut read, sender) = send_without_end(ann, b"x");
    sleep(Duration::from_millis(500)).await;
    assert!(!sender.is_finished());
    server.switch.stop();
    let mut line = String::new();
    timeout(Duration::from_secs(20), read.read_line(&mut line)).await.unwrap().unwrap();
    assert_eq!(line, "BYE (TRYLATER) \"the service is shutting down\"\r\n");
    timeout(Duration::from_secs(20), sender).await.unwrap().unwrap();
}

#[tokio::test]
async fn client_that_pipelines_and_reads_late_gets_all_answers() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let mut ann = Client::logged_in(&server).await;
    let script = "#".repeat(200_000);
    let put = format!("PUTSCRIPT \"a\" {{{}+}}\r\n{script}", script.len());
    assert_eq!(ann.say(&put).await, "OK\r\n");
    let commands = "GETSCRIPT \"a\"\r\n".repeat(200) + "LOGOUT\r\n";
    ann.0.get_mut().write_all(commands.as_bytes()).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    let mut answers = String::new();
    ann.0.read_to_string(&mut answers).await.unwrap();
    let answer = format!("{{{}}}\r\n{script}\r\nOK\r\n", script.len());
    assert_eq!(answers.len(), 200 * answer.len() + "OK \"goodbye\"\r\n".len());
    assert!(answers.starts_with(&answer) && answers.ends_with("OK\r\nOK \"goodbye\"\r\n"));
}

#[tokio::test]
async fn client_that_does_not_read_does_not_delay_a_stop() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let mut ann = Client::logged_in(&server).await;
    let script = "#".repeat(200_000);
    let put = format!("PUTSCRIPT \"a\" {{{}+}}\r\n{script}", script.len());
    assert_eq!(ann.say(&put).await, "OK\r\n");
    let commands = "GETSCRIPT \"a\"\r\n".repeat(1000);
    ann.0.get_mut().write_all(commands.as_bytes()).await.unwrap();
    // Time for the answers to fill the buffers of the connection.
    sleep(Duration::from_millis(300)).await;
    server.switch.stop();
    let until = Instant::now() + CLOSING_TIMEOUT + Duration::from_secs(5);
    assert!(server.switch.wait_until_drained(until).await);
    drop(ann);
}

#[tokio::test]
async fn one_address_has_a_part_of_all_connections() {
    let server = server(ManageSieveSettings::default(), 40).await;
    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(Client::greeted(&server).await);
    }
    let mut surplus = Client::connect(&server).await;
    assert!(surplus.response().await.starts_with("BYE (TRYLATER) "));
    let unix = || server.shared.connection_permit(Peer::Unix(None)).is_some();
    assert!(unix() && server.shared.connection_permit(Peer::Tcp([192, 0, 2, 1].into())).is_some());
}

#[tokio::test]
async fn commands_of_one_account_at_a_time_are_bounded() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let mut ann = Client::logged_in(&server).await;
    let enter = || server.shared.bounds.commands.enter(server.ann.to_string()).unwrap();
    let mut others: Vec<ConcurrencyPermit> =
        (1..limits::MAX_CONCURRENT_REQUESTS).map(|_| enter()).collect();
    assert_eq!(ann.say("CHECKSCRIPT \"keep;\"").await, "OK\r\n");
    others.push(enter());
    for command in ["CHECKSCRIPT \"keep;\"", "PUTSCRIPT \"a\" \"keep;\"", "LISTSCRIPTS"] {
        let answer = ann.say(command).await;
        let expected = "NO (TRYLATER) \"too many commands of this account at once\"\r\n";
        assert_eq!(answer, expected, "{command}");
    }
    others.pop();
    assert_eq!(ann.say("LISTSCRIPTS").await, "OK\r\n");
}
