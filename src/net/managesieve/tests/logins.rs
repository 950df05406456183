//! Tests of logins, and of failed ones.

use super::*;
use crate::account::new_token;
use crate::model::AccessToken;

#[tokio::test]
async fn clients_log_in_with_password_token_and_scram() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let (token, hash) = new_token().unwrap();
    let token_row = AccessToken { name: "t".into(), hash, created: NOW, expires: None };
    let (directory, account) = (server.shared.directory.clone(), server.ann);
    let add = move || directory.update(account, |row| row.tokens.push(token_row.clone()));
    blocking(add).await.unwrap();
    let bearer = |token: &str| {
        let text = format!("n,a=ann@example.org,\u{1}auth=Bearer {token}\u{1}\u{1}");
        format!("AUTHENTICATE \"OAUTHBEARER\" \"{}\"", STANDARD.encode(text))
    };
    let mut ann = Client::greeted(&server).await;
    assert_eq!(ann.say(&bearer(&token)).await, "OK\r\n");
    assert_eq!(ann.say("UNAUTHENTICATE").await, "OK\r\n");
    assert!(ann.say(&bearer("wrong")).await.starts_with('"'));
    assert!(ann.say("\"AQ==\"").await.starts_with("NO \"the login failed"));
    assert_eq!(ann.say(&plain("ANN@example.org", "ann@example.org", "s3cret")).await, "OK\r\n");
    assert_eq!(ann.say("UNAUTHENTICATE").await, "OK\r\n");
    // Nobody may act as another.
    let other = ann.say(&plain("bob@example.org", "ann@example.org", "s3cret")).await;
    assert!(other.starts_with("NO \"the login failed"), "{other}");

    let client = crate::wire::sasl::client::Client::new("ann@example.org", "s3cret");
    let first = format!("AUTHENTICATE \"SCRAM-SHA-256\" \"{}\"", STANDARD.encode(client.first()));
    let challenge = ann.say(&first).await;
    let challenge = STANDARD.decode(challenge.trim().trim_matches('"')).unwrap();
    let last = STANDARD.encode(client.last(&challenge));
    let answer = ann.say(&format!("\"{last}\"")).await;
    assert!(answer.starts_with("OK (SASL \""), "{answer}");
    assert!(ann.say("CAPABILITY").await.contains("\"OWNER\" \"ann@example.org\"\r\n"));
}

#[tokio::test]
async fn failed_logins_are_counted_by_source() {
    let server = server(ManageSieveSettings::default(), 99).await;
    for n in 0..MAX_FAILURES_OF_SOURCE {
        let mut eve = Client::greeted(&server).await;
        let answer = eve.say(&plain("", &format!("name {n}"), "wrong")).await;
        assert!(answer.starts_with("NO \"the login failed"), "{n}: {answer}");
    }
    let mut eve = Client::greeted(&server).await;
    let answer = eve.say(&plain("", "ann@example.org", "s3cret")).await;
    assert!(answer.starts_with("NO (TRYLATER) \"too many logins that failed"), "{answer}");
    let client = crate::wire::sasl::client::Client::new("ann@example.org", "s3cret");
    let first = format!("AUTHENTICATE \"SCRAM-SHA-256\" \"{}\"", STANDARD.encode(client.first()));
    assert!(eve.say(&first).await.starts_with("NO (TRYLATER) "));
    // The connection has had two refusals. The fifth closes it (`max_failed_logins`).
    for answer in ["NO", "NO", "BYE"] {
        let refused = eve.say(&plain("", "ann@example.org", "s3cret")).await;
        assert!(refused.starts_with(&format!("{answer} (TRYLATER) ")), "{refused}");
    }
    assert!(eve.is_closed().await);
}

/// A login counts as failed when it begins, and the proof takes that back: otherwise a client could
/// ask for challenges without end.
#[tokio::test]
async fn unfinished_scram_login_counts_as_failed() {
    let server = server(ManageSieveSettings::default(), 99).await;
    let client = crate::wire::sasl::client::Client::new("nobody@example.org", "guess");
    let first = format!("AUTHENTICATE \"SCRAM-SHA-256\" \"{}\"", STANDARD.encode(client.first()));
    for n in 0..MAX_FAILURES_OF_SOURCE {
        let mut eve = Client::greeted(&server).await;
        let challenge = eve.say(&first).await;
        assert!(challenge.starts_with('"'), "{n}: {challenge}");
    }
    let mut eve = Client::greeted(&server).await;
    assert!(eve.say(&first).await.starts_with("NO (TRYLATER) "));
}

/// The row of the account is damaged when the client begins to log in, or only when it proves that
/// it has the password.
#[tokio::test]
async fn scram_login_that_cannot_be_checked_is_not_counted_as_failed() {
    let server = server(ManageSieveSettings::default(), 99).await;
    let [(key, row)] = <[_; 1]>::try_from(server.engine.rows(Table::Accounts)).unwrap();
    let damaged = || (key.clone(), vec![99]);
    let client = crate::wire::sasl::client::Client::new("ann@example.org", "s3cret");
    let first = format!("AUTHENTICATE \"SCRAM-SHA-256\" \"{}\"", STANDARD.encode(client.first()));
    let proof = |challenge: &str| {
        let challenge = STANDARD.decode(challenge.trim().trim_matches('"')).unwrap();
        format!("\"{}\"", STANDARD.encode(client.last(&challenge)))
    };
    server.write_account_row(damaged()).await;
    for n in 0..=MAX_FAILURES_OF_SOURCE {
        let mut ann = Client::greeted(&server).await;
        let answer = ann.say(&first).await;
        assert!(answer.contains("could not be checked"), "{n}: {answer}");
    }
    for n in 0..=MAX_FAILURES_OF_SOURCE {
        server.write_account_row((key.clone(), row.clone())).await;
        let mut ann = Client::greeted(&server).await;
        let challenge = ann.say(&first).await;
        assert!(challenge.starts_with('"'), "{n}: {challenge}");
        server.write_account_row(damaged()).await;
        let answer = ann.say(&proof(&challenge)).await;
        assert!(answer.contains("could not be checked"), "{n}: {answer}");
    }
    server.write_account_row((key.clone(), row.clone())).await;
    let mut ann = Client::greeted(&server).await;
    let challenge = ann.say(&first).await;
    assert!(ann.say(&proof(&challenge)).await.starts_with("OK "));
}

#[tokio::test]
async fn login_ends_when_its_password_is_removed() {
    let server = server(ManageSieveSettings::default(), 9).await;
    let mut ann = Client::logged_in(&server).await;
    assert_eq!(ann.say("LISTSCRIPTS").await, "OK\r\n");
    let (directory, account) = (server.shared.directory.clone(), server.ann);
    let remove = move || directory.update(account, |row| row.set_password("phone", None, None));
    blocking(remove).await.unwrap();
    assert!(ann.say("LISTSCRIPTS").await.starts_with("BYE "));
    assert!(ann.is_closed().await);
}
