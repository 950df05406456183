//! One action over SMTP or LMTP to the relay; the one place that knows mail-send.
//!
//! The conversation is driven command by command, so that the attempt can be recorded durably at
//! the last moment before the message goes out. Every wait is bounded, and so is every answer. A
//! connection carries many messages.

mod open;
mod outgoing;

use std::future::Future;
use std::time::Duration;

use mail_send::{Error, SmtpClient};
use smtp_proto::Response;
use smtp_proto::response::parser::ResponseReceiver;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::time::timeout;

use super::relay::{Protocol, Relay};
use crate::message::header::body_offset;
use crate::model::hex::xtext;
use crate::model::{Action, Address, DsnNotify, DsnReturn, Target};
use crate::outbox::{AttemptOutcome, RefusalScope, RelayAnswer, SmtpStage, classify};
use crate::store::Error as StoreError;

pub(super) use outgoing::prepare;

/// Octets both ways.
trait RelayStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> RelayStream for T {}

/// An open connection, ready for a message.
pub(super) struct RelayConnection {
    client: SmtpClient<Box<dyn RelayStream>>,
    protocol: Protocol,
    offers: RelayExtensions,
    /// Messages that it carried.
    pub(super) carried: u32,
}

/// What the relay offers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RelayExtensions {
    pub(super) dsn: bool,
    pub(super) utf8: bool,
    pub(super) eight_bit: bool,
    pub(super) pipelining: bool,
    pub(super) size: bool,
}

/// Whether the attempt could be recorded.
pub(super) type RecordResult = Result<(), StoreError>;

/// What came of handing a message over.
pub(super) enum SendResult {
    /// Of each recipient that waits, in order, what came of it; those behind the last were not
    /// asked.
    Made {
        /// What came of it.
        outcomes: Vec<AttemptOutcome>,
        /// The connection, where it may carry another message.
        connection: Option<RelayConnection>,
    },
    /// The connection was over when it was taken up again; nothing was asked.
    Stale,
    /// It was not tried: that it would be could not be recorded.
    Unrecorded(StoreError),
}

impl RelayConnection {
    /// Opens one.
    ///
    /// # Errors
    /// Why there is none: that concerns us, and no message.
    pub(super) async fn open(relay: &Relay) -> Result<Self, String> {
        open::open(relay).await
    }

    /// Hands a message over, to the first `most` of the action's recipients that wait. `prepare`
    /// makes its final bytes for what the relay offers, or says that it cannot; `record` is awaited
    /// right before the message goes out, and if it fails nothing goes.
    pub(super) async fn hand_over<F: Future<Output = RecordResult>>(
        mut self,
        relay: &Relay,
        (action, most): (&Action, usize),
        prepare: impl FnOnce(RelayExtensions) -> Result<Vec<u8>, AttemptOutcome>,
        record: impl FnOnce() -> F,
    ) -> SendResult {
        self.client.timeout = relay.patience;
        let waiting: Vec<&Target> =
            action.recipients.iter().filter(|target| target.waits()).collect();
        let asked = waiting.get(..relay.recipients.min(most).max(1)).unwrap_or(&waiting);
        let octets = match prepare(self.offers) {
            Ok(octets) => octets,
            Err(outcome) => {
                let outcomes = vec![outcome; asked.len()];
                return SendResult::Made { outcomes, connection: Some(self) };
            }
        };
        let mut transaction = RelayTransaction::new(action, asked, &octets, self.offers);
        match self.transact(&mut transaction, record).await {
            Ok(()) | Err(TransactionEnd::Idle) => self.into_result(transaction.outcomes, true),
            Err(TransactionEnd::Open) => {
                self.carried = self.carried.saturating_add(1);
                let is_reset = self.send_commands(&["RSET\r\n".to_owned()]).await;
                let is_alive = is_reset.is_ok_and(|all| all.iter().all(|reply| reply.code == 250));
                self.into_result(transaction.outcomes, is_alive)
            }
            Err(TransactionEnd::Broken) => self.into_result(transaction.outcomes, false),
            Err(TransactionEnd::Stale) => SendResult::Stale,
            Err(TransactionEnd::Unrecorded(error)) => SendResult::Unrecorded(error),
        }
    }

    /// One transaction, from MAIL to the answers to the message.
    async fn transact<F: Future<Output = RecordResult>>(
        &mut self,
        transaction: &mut RelayTransaction<'_>,
        record: impl FnOnce() -> F,
    ) -> Result<(), TransactionEnd> {
        if transaction.outcomes.iter().all(Option::is_some) {
            return Err(TransactionEnd::Idle);
        }
        let accepted = self.send_envelope(transaction).await?;
        self.begin_data(transaction).await?;
        // Where it fails nothing of the message went out: the connection is dropped in the middle
        // of DATA, and the relay forgets it.
        record().await.map_err(TransactionEnd::Unrecorded)?;
        let is_alive =
            self.send_message(transaction.octets, &accepted, &mut transaction.outcomes).await;
        self.carried = self.carried.saturating_add(1);
        if is_alive { Ok(()) } else { Err(TransactionEnd::Broken) }
    }

    /// MAIL, and RCPT for each recipient that has no outcome yet. Returns those that were accepted.
    async fn send_envelope(
        &mut self,
        transaction: &mut RelayTransaction<'_>,
    ) -> Result<Vec<usize>, TransactionEnd> {
        let (commands, going) = transaction.envelope_commands(self.offers);
        let replies = match self.send_commands(&commands).await {
            Ok(replies) => replies,
            // It was well a moment ago. What it breaks off over is this message, unless it had been
            // lying idle.
            Err(BrokenConversation { answered: 0, .. }) if self.carried > 0 => {
                return Err(TransactionEnd::Stale);
            }
            Err(BrokenConversation { text, .. }) => return Err(transaction.break_off(text)),
        };
        let mut replies = replies.iter();
        let first = replies.next().map(|reply| classify(SmtpStage::Sender, reply));
        if let Some(refusal) = first.filter(|outcome| !matches!(outcome, AttemptOutcome::Sent(_))) {
            return Err(transaction.refuse(&refusal));
        }
        let mut accepted: Vec<usize> = Vec::new();
        for (at, reply) in going.iter().zip(replies) {
            match classify(SmtpStage::Recipient(accepted.len()), reply) {
                AttemptOutcome::Sent(_) => accepted.push(*at),
                outcome => set_outcome(&mut transaction.outcomes, *at, outcome),
            }
        }
        if !accepted.is_empty() {
            return Ok(accepted);
        }
        let is_broken = transaction.outcomes.iter().flatten().any(is_relay_refusal);
        fill_undecided(&mut transaction.outcomes, &AttemptOutcome::TooMany);
        Err(if is_broken { TransactionEnd::Broken } else { TransactionEnd::Open })
    }

    async fn begin_data(
        &mut self,
        transaction: &mut RelayTransaction<'_>,
    ) -> Result<(), TransactionEnd> {
        let reply = match self.send_commands(&["DATA\r\n".to_owned()]).await {
            Ok(replies) => replies.into_iter().next(),
            Err(BrokenConversation { text, .. }) => return Err(transaction.break_off(text)),
        };
        let Some(reply) = reply.filter(|reply| reply.code != 354) else { return Ok(()) };
        // A plain yes to DATA is no answer that anything can be done with.
        let outcome = match classify(SmtpStage::Data, &reply) {
            AttemptOutcome::Sent(text) => {
                AttemptOutcome::Temporary { text, scope: RefusalScope::Message }
            }
            outcome => outcome,
        };
        let end = transaction.refuse(&outcome);
        Err(if reply.code < 400 { TransactionEnd::Broken } else { end })
    }

    /// The message, and its answers: one, or one for each recipient that was taken (RFC 2033 §4.2).
    /// Says whether the connection is good for more.
    async fn send_message(
        &mut self,
        octets: &[u8],
        taken: &[usize],
        outcomes: &mut [Option<AttemptOutcome>],
    ) -> bool {
        // RFC 5321 §4.5.3.2: minutes for a command, ten for the answer to a message, which may be
        // scanned first.
        let patience = self.client.timeout.saturating_mul(10);
        let answers = if self.protocol == Protocol::Lmtp { taken.len() } else { 1 };
        let mut replies = Vec::new();
        let answered = timeout(patience, async {
            use tokio::io::AsyncWriteExt as _;
            // mail-send stuffs every dot but the one that a message begins with: that would end it
            // (RFC 5321 §4.5.2).
            if octets.starts_with(b".") {
                self.client.stream.write_all(b".").await.map_err(|error| error.to_string())?;
            }
            // It ends the message with CRLF of its own.
            self.client
                .write_message(octets.strip_suffix(b"\r\n").unwrap_or(octets))
                .await
                .map_err(|e| e.to_string())?;
            read(&mut self.client.stream, answers, &mut replies).await
        });
        let broken = match answered.await {
            Ok(Ok(())) => None,
            Ok(Err(text)) => Some(text),
            Err(_) => Some("no answer in time".to_owned()),
        };
        let unknown =
            || AttemptOutcome::Unknown(broken.clone().unwrap_or_else(|| "no answer".into()));
        let mut alive = broken.is_none();
        for (place, at) in taken.iter().enumerate() {
            let reply = replies.get(if answers == 1 { 0 } else { place });
            let outcome = reply.map_or_else(unknown, |reply| classify(SmtpStage::End, reply));
            alive &= !is_relay_refusal(&outcome);
            set_outcome(outcomes, *at, outcome);
        }
        alive
    }

    /// Commands, all at once where the relay allows it (RFC 2920), and their answers.
    async fn send_commands(
        &mut self,
        commands: &[String],
    ) -> Result<Vec<RelayAnswer>, BrokenConversation> {
        let (mut replies, patience) = (Vec::with_capacity(commands.len()), self.client.timeout);
        let batches: Vec<&[String]> =
            if self.offers.pipelining { vec![commands] } else { commands.chunks(1).collect() };
        for batch in batches {
            let stream = &mut self.client.stream;
            let exchange = timeout(patience, async {
                use tokio::io::AsyncWriteExt as _;
                stream
                    .write_all(batch.concat().as_bytes())
                    .await
                    .map_err(|error| error.to_string())?;
                stream.flush().await.map_err(|error| error.to_string())?;
                read(stream, batch.len(), &mut replies).await
            });
            let done = exchange.await.unwrap_or_else(|_| Err("no answer in time".into()));
            if let Err(text) = done {
                return Err(BrokenConversation { text, answered: replies.len() });
            }
        }
        Ok(replies)
    }

    fn into_result(self, outcomes: Vec<Option<AttemptOutcome>>, alive: bool) -> SendResult {
        let outcomes = outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or(AttemptOutcome::TooMany))
            .collect();
        SendResult::Made { outcomes, connection: alive.then_some(self) }
    }

    pub(super) async fn quit(mut self) {
        self.client.timeout = Duration::from_secs(5);
        let end: Result<_, Error> = self.client.cmd(b"QUIT\r\n").await;
        if let Err(error) = end {
            tracing::debug!(%error, "the relay did not say goodbye");
        }
    }
}

/// What is handed over, and what came of it for each recipient.
struct RelayTransaction<'a> {
    action: &'a Action,
    asked: &'a [&'a Target],
    octets: &'a [u8],
    /// One for each recipient, in order; `None` is still to be asked.
    outcomes: Vec<Option<AttemptOutcome>>,
}

/// How a transaction ended whose message was not sent, or not answered.
enum TransactionEnd {
    /// Nothing was asked.
    Idle,
    /// It is still open: it must be reset before the connection carries another message.
    Open,
    /// The connection carries no other message.
    Broken,
    /// The connection was over when it was taken up again; nothing was asked.
    Stale,
    /// The attempt could not be recorded.
    Unrecorded(StoreError),
}

impl<'a> RelayTransaction<'a> {
    fn new(
        action: &'a Action,
        asked: &'a [&'a Target],
        octets: &'a [u8],
        offers: RelayExtensions,
    ) -> Self {
        let mut transaction = Self { action, asked, octets, outcomes: Vec::new() };
        let refused = |target: &&Target| {
            (transaction.needs_utf8(target) && !offers.utf8).then_some(AttemptOutcome::NoSmtpUtf8)
        };
        transaction.outcomes = asked.iter().map(refused).collect();
        transaction
    }

    /// Whether the address of a recipient, or the sender's, can be named by SMTPUTF8 alone.
    fn needs_utf8(&self, target: &Target) -> bool {
        self.action.sender.as_ref().is_some_and(Address::needs_smtputf8)
            || target.address.needs_smtputf8()
    }

    /// MAIL and RCPT, and the places of the recipients that these name.
    fn envelope_commands(&self, offers: RelayExtensions) -> (Vec<String>, Vec<usize>) {
        let going: Vec<(usize, &Target)> = self
            .asked
            .iter()
            .zip(&self.outcomes)
            .enumerate()
            .filter(|(_, (_, outcome))| outcome.is_none())
            .map(|(at, (target, _))| (at, *target))
            .collect();
        // A header that is not ASCII is said to be so (RFC 6531 §3.6), where that can be said.
        let header = self.octets.get(..body_offset(self.octets)).unwrap_or(self.octets);
        let utf8 = offers.utf8 && !header.is_ascii()
            || going.iter().any(|(_, target)| self.needs_utf8(target));
        let mut commands = vec![mail(self.action, offers, utf8, self.octets)];
        commands.extend(going.iter().map(|(_, target)| rcpt(target, offers)));
        (commands, going.into_iter().map(|(at, _)| at).collect())
    }

    /// The conversation broke off: recipients without an outcome are tried again.
    fn break_off(&mut self, text: String) -> TransactionEnd {
        fill_undecided(
            &mut self.outcomes,
            &AttemptOutcome::Temporary { text, scope: RefusalScope::Message },
        );
        TransactionEnd::Broken
    }

    /// The relay refused the whole message.
    fn refuse(&mut self, refusal: &AttemptOutcome) -> TransactionEnd {
        fill_undecided(&mut self.outcomes, refusal);
        if is_relay_refusal(refusal) { TransactionEnd::Broken } else { TransactionEnd::Open }
    }
}

/// A conversation that broke off.
struct BrokenConversation {
    text: String,
    /// Answers that came before.
    answered: usize,
}

/// Reads one answer for each command, and keeps those that came where the connection breaks off.
/// What comes beyond them belongs to nobody: the next reader would take it for its own answer, so
/// it is an error.
async fn read(
    stream: &mut Box<dyn RelayStream>,
    many: usize,
    out: &mut Vec<RelayAnswer>,
) -> Result<(), String> {
    let wanted = out.len().saturating_add(many);
    let (mut buffer, mut parser) = ([0u8; 1024], ResponseReceiver::default());
    while out.len() < wanted {
        let count = stream.read(&mut buffer).await.map_err(|error| error.to_string())?;
        if count == 0 {
            return Err("the relay hung up".into());
        }
        let mut octets = buffer.get(..count).unwrap_or_default().iter();
        while !octets.as_slice().is_empty() {
            if out.len() >= wanted {
                return Err("the relay answered more than it was asked".into());
            }
            match parser.parse(&mut octets) {
                Ok(reply) => {
                    out.push(answer(&reply));
                    parser = ResponseReceiver::default();
                }
                Err(smtp_proto::Error::NeedsMoreData { .. }) => break,
                Err(_) => return Err("the relay's answer cannot be understood".into()),
            }
        }
    }
    Ok(())
}

fn answer(reply: &Response<String>) -> RelayAnswer {
    RelayAnswer { code: reply.code, status: reply.esc, text: reply.message.clone() }
}

fn is_relay_refusal(outcome: &AttemptOutcome) -> bool {
    matches!(outcome, AttemptOutcome::Temporary { scope: RefusalScope::Relay, .. })
}

fn set_outcome(outcomes: &mut [Option<AttemptOutcome>], at: usize, outcome: AttemptOutcome) {
    if let Some(place) = outcomes.get_mut(at) {
        *place = Some(outcome);
    }
}

/// All that were not decided.
fn fill_undecided(outcomes: &mut [Option<AttemptOutcome>], outcome: &AttemptOutcome) {
    for place in outcomes.iter_mut().filter(|place| place.is_none()) {
        *place = Some(outcome.clone());
    }
}

/// `MAIL` (RFC 5321 §3.3) with what the relay offers of SIZE (RFC 1870), 8BITMIME (RFC 6152),
/// SMTPUTF8 (RFC 6531) and DSN (RFC 3461).
fn mail(action: &Action, offers: RelayExtensions, utf8: bool, octets: &[u8]) -> String {
    let sender =
        action.sender.as_ref().map(|sender| sender.wire_form().to_string()).unwrap_or_default();
    let mut line = format!("MAIL FROM:<{sender}>");
    if offers.size {
        line.push_str(&format!(" SIZE={}", octets.len()));
    }
    if offers.eight_bit && !octets.is_ascii() {
        line.push_str(" BODY=8BITMIME");
    }
    if utf8 {
        line.push_str(" SMTPUTF8");
    }
    if offers.dsn {
        line.push_str(match action.ret {
            Some(DsnReturn::Full) => " RET=FULL",
            Some(DsnReturn::Headers) => " RET=HDRS",
            None => "",
        });
        if let Some(envid) = &action.envid {
            line.push_str(&format!(" ENVID={}", xtext(envid)));
        }
    }
    line + "\r\n"
}

fn rcpt(target: &Target, offers: RelayExtensions) -> String {
    let mut line = format!("RCPT TO:<{}>", target.address.wire_form());
    if offers.dsn {
        if let Some(notify) = &target.notify {
            line.push_str(&notify_words(notify));
        }
        if let Some(original) = &target.original {
            line.push_str(&format!(
                " ORCPT={};{}",
                xtext(&original.kind),
                xtext(&original.address)
            ));
        }
    }
    line + "\r\n"
}

fn notify_words(notify: &DsnNotify) -> String {
    let words = [(notify.success, "SUCCESS"), (notify.failure, "FAILURE"), (notify.delay, "DELAY")];
    let words: Vec<&str> =
        words.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| *word).collect();
    match (notify.never, words.is_empty()) {
        (true, _) => " NOTIFY=NEVER".into(),
        (false, true) => String::new(),
        (false, false) => format!(" NOTIFY={}", words.join(",")),
    }
}

#[cfg(test)]
mod tests;
