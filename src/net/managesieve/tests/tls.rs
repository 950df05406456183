//! Tests of STARTTLS (RFC 5804 §2.2).

use super::*;

#[tokio::test]
async fn client_that_does_not_go_on_after_starttls_is_disconnected() {
    let (tls, login) = (Some(tls_settings()), Duration::from_secs(4));
    let server = server(ManageSieveSettings { tls, login, ..ManageSieveSettings::default() }, 9);
    let server = server.await;
    let begin = Instant::now();
    let mut client = Client::connect(&server).await;
    client.response().await;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(client.say("STARTTLS").await, "OK \"begin TLS now\"\r\n");
    // The time to log in did not begin anew.
    assert!(client.is_closed().await);
    let taken = begin.elapsed();
    assert!(taken < Duration::from_millis(6500), "{taken:?}");
}

#[tokio::test]
async fn stop_ends_a_connection_whose_tls_has_not_begun() {
    let tls = Some(tls_settings());
    let server = server(ManageSieveSettings { tls, ..ManageSieveSettings::default() }, 9).await;
    let mut client = Client::connect(&server).await;
    client.response().await;
    assert_eq!(client.say("STARTTLS").await, "OK \"begin TLS now\"\r\n");
    server.switch.stop();
    assert!(timeout(Duration::from_secs(20), client.is_closed()).await.unwrap());
    assert!(server.switch.wait_until_drained(Instant::now() + Duration::from_secs(20)).await);
}

/// RFC 5804 §2.2, RFC 9266: what came before TLS is forgotten, and SCRAM is bound to TLS.
#[tokio::test]
async fn client_begins_tls_and_binds_its_login_to_it() {
    let tls = Some(tls_settings());
    let server = server(ManageSieveSettings { tls, ..ManageSieveSettings::default() }, 9).await;

    let mut client = Client::connect(&server).await;
    let greeting = client.response().await;
    assert!(greeting.contains("\"SASL\" \"\"\r\n\"SIEVE\""), "{greeting}");
    assert!(greeting.contains("\"STARTTLS\"\r\n"), "{greeting}");
    let early = client.say(&plain("", "ann@example.org", "s3cret")).await;
    assert!(early.starts_with("NO (ENCRYPT-NEEDED) "), "{early}");
    assert_eq!(client.say("STARTTLS\r\nNOOP \"injected\"").await, "OK \"begin TLS now\"\r\n");

    let stream = connect_tls(client.0.into_inner()).await;
    let exported =
        stream.get_ref().1.export_keying_material([0; 32], b"EXPORTER-Channel-Binding", Some(b""));
    let mut client = Client(BufReader::new(stream));
    let greeting = client.response().await;
    assert!(greeting.contains("\"SASL\" \"SCRAM-SHA-256-PLUS SCRAM-SHA-256 "), "{greeting}");
    assert!(!greeting.contains("STARTTLS") && !greeting.contains("injected"), "{greeting}");

    let exported: [u8; 32] = exported.unwrap();
    // `dj` is the beginning of `v=` in base64.
    for (binding, expected) in [([0; 32], "NO \"the login failed; "), (exported, "OK (SASL \"dj")] {
        let scram =
            crate::wire::sasl::client::Client::with_exporter(&binding, "ann@example.org", "s3cret");
        let first = STANDARD.encode(scram.first());
        let line = format!("AUTHENTICATE \"SCRAM-SHA-256-PLUS\" \"{first}\"");
        let challenge = client.say(&line).await;
        let challenge = STANDARD.decode(challenge.trim().trim_matches('"')).unwrap();
        let last = STANDARD.encode(scram.last(&challenge));
        let answer = client.say(&format!("\"{last}\"")).await;
        assert!(answer.starts_with(expected), "{answer}");
    }
    assert_eq!(client.say("LISTSCRIPTS").await, "OK\r\n");
    assert_eq!(client.say("LOGOUT").await, "OK \"goodbye\"\r\n");
    // Without `close_notify` (RFC 8446 §6.1) this is the error `UnexpectedEof`.
    assert_eq!(client.0.read(&mut [0]).await.unwrap(), 0);
}
