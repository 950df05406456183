//! One action over SMTP to the relay; the one place that knows mail-send.
//!
//! The conversation is driven command by command, so that the attempt can be recorded durably at the last moment before the
//! message goes out. Every wait is bounded.

use std::future::Future;
use std::time::Duration;

use mail_send::smtp::tls::build_tls_connector;
use mail_send::{Error, SmtpClient};
use smtp_proto::{EXT_DSN, EXT_SMTP_UTF8, EXT_START_TLS, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::model::{Action, Address};
use crate::outbox::Outcome;

/// The way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// TLS or not.
    pub tls: Tls,
    /// The name that we give in EHLO.
    pub hostname: String,
    /// Longest wait for one answer.
    pub patience: Duration,
}

/// TLS to the relay (RFC 3207).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// None.
    None,
    /// Where it is offered, whatever the certificate says.
    Opportunistic,
    /// With a certificate that holds, or nothing is sent.
    Required,
}

/// Whether the attempt could be recorded.
pub(super) type Recorded = Result<(), String>;

/// Why the conversation came to nothing before the message was begun.
enum Failed {
    /// It concerns us or the relay: to be tried again, and other actions too.
    Relay(String),
    /// It concerns this message.
    Message(Outcome),
    /// The attempt could not be recorded, and was not made.
    Record(String),
}

/// What came of handing an action over.
pub(super) enum Attempt {
    /// It was tried, with this outcome.
    Made(Outcome),
    /// It was not tried: the relay is out of order.
    RelayDown(String),
    /// It was not tried: that it would be could not be recorded.
    Unrecorded(String),
}

/// Hands an action to the relay. `record` is awaited right before the message goes out; if it fails nothing goes.
pub(super) async fn send<F: Future<Output = Recorded>>(
    relay: &Relay,
    action: &Action,
    record: impl FnOnce() -> F,
) -> Attempt {
    match converse(relay, action, record).await {
        Ok(outcome) | Err(Failed::Message(outcome)) => Attempt::Made(outcome),
        Err(Failed::Relay(text)) => Attempt::RelayDown(text),
        Err(Failed::Record(text)) => Attempt::Unrecorded(text),
    }
}

async fn converse<F: Future<Output = Recorded>>(
    relay: &Relay,
    action: &Action,
    record: impl FnOnce() -> F,
) -> Result<Outcome, Failed> {
    let place = format!("{}:{}", relay.host, relay.port);
    let unreachable = |what: &str| Failed::Relay(format!("{place}: {what}"));
    let stream = timeout(relay.patience, TcpStream::connect((relay.host.as_str(), relay.port)))
        .await
        .map_err(|_| unreachable("no connection in time"))?
        .map_err(|error| unreachable(&error.to_string()))?;
    let mut client = SmtpClient { stream, timeout: relay.patience };
    let greeting = timeout(relay.patience, client.read()).await.map_err(|_| unreachable("no greeting in time"))?;
    let greeting = greeting.map_err(|error| unreachable(&error.to_string()))?;
    if greeting.code != 220 {
        return Err(unreachable(&said(&greeting)));
    }
    let offers = client.ehlo(&relay.hostname).await.map_err(|error| unreachable(&error.to_string()))?.capabilities;
    let offered = offers & EXT_START_TLS != 0;
    match relay.tls {
        Tls::Required if !offered => Err(unreachable("offers no TLS")),
        Tls::Opportunistic | Tls::Required if offered => {
            let connector =
                build_tls_connector(relay.tls == Tls::Opportunistic).map_err(|error| unreachable(&error))?;
            let secured = client.start_tls(&connector, &relay.host).await;
            let mut client = secured.map_err(|error| unreachable(&error.to_string()))?;
            let offers = client.ehlo(&relay.hostname).await.map_err(|error| unreachable(&error.to_string()))?;
            hand_over(&mut client, offers.capabilities, action, record).await
        }
        _ => hand_over(&mut client, offers, action, record).await,
    }
}

async fn hand_over<T: AsyncRead + AsyncWrite + Unpin, F: Future<Output = Recorded>>(
    client: &mut SmtpClient<T>,
    offers: u32,
    action: &Action,
    record: impl FnOnce() -> F,
) -> Result<Outcome, Failed> {
    let utf8 = action.recipient.needs_smtputf8() || action.sender.as_ref().is_some_and(Address::needs_smtputf8);
    if utf8 && offers & EXT_SMTP_UTF8 == 0 {
        quit(client).await;
        return Err(Failed::Message(Outcome::NoSmtpUtf8));
    }
    let sender = action.sender.as_ref().map(|sender| sender.travelling().to_string()).unwrap_or_default();
    let smtputf8 = if utf8 { " SMTPUTF8" } else { "" };
    let never = if action.notify_never && offers & EXT_DSN != 0 { " NOTIFY=NEVER" } else { "" };
    for (command, wanted) in [
        (format!("MAIL FROM:<{sender}>{smtputf8}\r\n"), 250..=250),
        (format!("RCPT TO:<{}>{never}\r\n", action.recipient.travelling()), 250..=251),
        ("DATA\r\n".to_owned(), 354..=354),
    ] {
        // The relay was well a moment ago: what it breaks off over is this message, and others shall not wait for it.
        let broken = |error: Error| Failed::Message(Outcome::Temporary(error.to_string()));
        let reply = client.cmd(command.as_bytes()).await.map_err(broken)?;
        if !wanted.contains(&reply.code) {
            quit(client).await;
            return Err(Failed::Message(refused(&reply)));
        }
    }
    if let Err(error) = record().await {
        // Nothing of the message went out: the connection is dropped in the middle of DATA, and the relay forgets it.
        return Err(Failed::Record(error));
    }
    // mail-send ends the message with CRLF of its own.
    let message = action.message.strip_suffix(b"\r\n").unwrap_or(&action.message);
    // RFC 5321 §4.5.3.2: minutes for a command, ten for the answer to a message, which may be scanned first.
    client.timeout = client.timeout.saturating_mul(10);
    let patience = client.timeout;
    let answered = timeout(patience, async {
        client.write_message(message).await?;
        client.read().await
    });
    let reply = match answered.await {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => return Ok(Outcome::Unknown(error.to_string())),
        Err(_) => return Ok(Outcome::Unknown("no answer in time".into())),
    };
    quit(client).await;
    Ok(if (200..300).contains(&reply.code) { Outcome::Sent } else { refused(&reply) })
}

/// A refusal of this message; authentication and TLS demands concern us, and pass.
fn refused(reply: &Response<String>) -> Outcome {
    let ours = matches!(reply.code, 421 | 530 | 534 | 535 | 538) || reply.esc == [5, 7, 0];
    if (500..600).contains(&reply.code) && !ours {
        let [class, subject, _] = reply.esc;
        return Outcome::Permanent { text: said(reply), bad_address: (class, subject) == (5, 1) };
    }
    Outcome::Temporary(said(reply))
}

fn said(reply: &Response<String>) -> String {
    let [class, subject, detail] = reply.esc;
    let text: String = reply.message.chars().filter(|c| !c.is_control()).take(200).collect();
    if class == 0 {
        format!("{} {text}", reply.code)
    } else {
        format!("{} {class}.{subject}.{detail} {text}", reply.code)
    }
}

async fn quit<T: AsyncRead + AsyncWrite + Unpin>(client: &mut SmtpClient<T>) {
    client.timeout = Duration::from_secs(5);
    let end: Result<_, Error> = client.cmd(b"QUIT\r\n").await;
    if let Err(error) = end {
        tracing::debug!(%error, "the relay did not say goodbye");
    }
}
