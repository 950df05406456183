//! Sends one action to the relay by SMTP or LMTP.
//!
//! - The dialogue is driven command by command, so that the attempt can be recorded durably right
//!   before the message goes out.
//! - Every wait is bounded, and so is the number of answers that are read.

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

trait RelayStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> RelayStream for T {}

pub(super) struct RelayConnection {
    client: SmtpClient<Box<dyn RelayStream>>,
    protocol: Protocol,
    extensions: RelayExtensions,
    /// Messages that the connection has carried, also those that were refused.
    pub(super) carried: u32,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RelayExtensions {
    pub(super) dsn: bool,
    pub(super) utf8: bool,
    pub(super) eight_bit: bool,
    pub(super) pipelining: bool,
    pub(super) size: bool,
}

pub(super) type RecordResult = Result<(), StoreError>;

pub(super) enum SendResult {
    Finished {
        /// The outcomes for the outstanding recipients, in order. Recipients beyond the last one
        /// were not tried.
        outcomes: Vec<AttemptOutcome>,
        /// `None` if the connection cannot carry another message.
        connection: Option<RelayConnection>,
    },
    /// The idle connection was closed by the relay. Nothing was tried, so the caller tries again
    /// with a new connection.
    Stale,
    /// The attempt could not be recorded. Nothing of the message went out.
    Unrecorded(StoreError),
}

impl RelayConnection {
    /// Opens a connection to the relay: TLS and login included.
    ///
    /// # Errors
    /// If no connection can be opened. The reason concerns no single message.
    pub(super) async fn open(relay: &Relay) -> Result<Self, String> {
        open::open(relay).await
    }

    /// Hands a message over to the first `max_recipients` of the action's outstanding recipients,
    /// but to at least one and to no more than the relay's `max_recipients`.
    ///
    /// `prepare` makes the final bytes, or fails with an outcome for all these recipients. `record`
    /// is awaited right before the message goes out, so not if no recipient is accepted; if it
    /// fails, nothing of the message is sent.
    pub(super) async fn hand_over<F: Future<Output = RecordResult>>(
        mut self,
        relay: &Relay,
        (action, max_recipients): (&Action, usize),
        prepare: impl FnOnce(RelayExtensions) -> Result<Vec<u8>, AttemptOutcome>,
        record: impl FnOnce() -> F,
    ) -> SendResult {
        self.client.timeout = relay.timeout;
        let outstanding: Vec<&Target> =
            action.recipients.iter().filter(|target| target.is_outstanding()).collect();
        let count = relay.max_recipients.min(max_recipients).max(1);
        let recipients = outstanding.get(..count).unwrap_or(&outstanding);
        let message = match prepare(self.extensions) {
            Ok(message) => message,
            Err(outcome) => {
                let outcomes = vec![outcome; recipients.len()];
                return SendResult::Finished { outcomes, connection: Some(self) };
            }
        };
        let mut transaction = RelayTransaction::new(action, recipients, &message, self.extensions);
        match self.transact(&mut transaction, record).await {
            Ok(()) | Err(TransactionEnd::Idle) => self.into_result(transaction.outcomes, true),
            Err(TransactionEnd::Open) => {
                self.carried = self.carried.saturating_add(1);
                let is_reset = self.send_commands(&["RSET\r\n".to_owned()]).await;
                let is_alive =
                    is_reset.is_ok_and(|replies| replies.iter().all(|reply| reply.code == 250));
                self.into_result(transaction.outcomes, is_alive)
            }
            Err(TransactionEnd::Broken) => self.into_result(transaction.outcomes, false),
            Err(TransactionEnd::Stale) => SendResult::Stale,
            Err(TransactionEnd::Unrecorded(error)) => SendResult::Unrecorded(error),
        }
    }

    /// Runs the transaction up to the answers for the message. The outcomes are in `transaction`.
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
        // If this fails, nothing of the message went out: the connection is dropped in the middle
        // of DATA.
        record().await.map_err(TransactionEnd::Unrecorded)?;
        let is_alive =
            self.send_message(transaction.message, &accepted, &mut transaction.outcomes).await;
        self.carried = self.carried.saturating_add(1);
        if is_alive { Ok(()) } else { Err(TransactionEnd::Broken) }
    }

    /// Sends MAIL, and RCPT for each recipient that has no outcome yet. Returns the indices of the
    /// recipients that were accepted.
    async fn send_envelope(
        &mut self,
        transaction: &mut RelayTransaction<'_>,
    ) -> Result<Vec<usize>, TransactionEnd> {
        let (commands, indices) = transaction.envelope_commands(self.extensions);
        let replies = match self.send_commands(&commands).await {
            Ok(replies) => replies,
            // A used connection that breaks before any answer went stale while it was idle.
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
        for (index, reply) in indices.iter().zip(replies) {
            // A 452 may mean that there are too many, but only after some were accepted.
            match classify(SmtpStage::Recipient(accepted.len()), reply) {
                AttemptOutcome::Sent(_) => accepted.push(*index),
                outcome => set_outcome(&mut transaction.outcomes, *index, outcome),
            }
        }
        if !accepted.is_empty() {
            return Ok(accepted);
        }
        let is_broken = transaction.outcomes.iter().flatten().any(is_relay_refusal);
        fill_undecided(&mut transaction.outcomes, &AttemptOutcome::TooMany);
        Err(if is_broken { TransactionEnd::Broken } else { TransactionEnd::Open })
    }

    /// Sends DATA. After `Ok` the relay expects the message.
    async fn begin_data(
        &mut self,
        transaction: &mut RelayTransaction<'_>,
    ) -> Result<(), TransactionEnd> {
        let reply = match self.send_commands(&["DATA\r\n".to_owned()]).await {
            Ok(replies) => replies.into_iter().next(),
            Err(BrokenConversation { text, .. }) => return Err(transaction.break_off(text)),
        };
        let Some(reply) = reply.filter(|reply| reply.code != 354) else { return Ok(()) };
        let outcome = match classify(SmtpStage::Data, &reply) {
            AttemptOutcome::Sent(text) => {
                AttemptOutcome::Temporary { text, scope: RefusalScope::Message }
            }
            outcome => outcome,
        };
        let end = transaction.refuse(&outcome);
        // After a 2yz or 3yz other than 354, it is unclear what the relay expects.
        Err(if reply.code < 400 { TransactionEnd::Broken } else { end })
    }

    /// Sends the message and reads the answers: one, or over LMTP one for each accepted recipient
    /// (RFC 2033 §4.2). Returns whether the connection can carry another message.
    async fn send_message(
        &mut self,
        message: &[u8],
        accepted: &[usize],
        outcomes: &mut [Option<AttemptOutcome>],
    ) -> bool {
        // RFC 5321 §4.5.3.2 allows ten minutes here.
        let limit = self.client.timeout.saturating_mul(10);
        let answers = if self.protocol == Protocol::Lmtp { accepted.len() } else { 1 };
        let mut replies = Vec::new();
        let answered = timeout(limit, async {
            use tokio::io::AsyncWriteExt as _;
            // mail-send stuffs the dot of every line but the first (RFC 5321 §4.5.2).
            if message.starts_with(b".") {
                self.client.stream.write_all(b".").await.map_err(|error| error.to_string())?;
            }
            // mail-send ends the message with a CRLF of its own.
            self.client
                .write_message(message.strip_suffix(b"\r\n").unwrap_or(message))
                .await
                .map_err(|e| e.to_string())?;
            read_answers(&mut self.client.stream, answers, &mut replies).await
        });
        let error = match answered.await {
            Ok(Ok(())) => None,
            Ok(Err(text)) => Some(text),
            Err(_) => Some("no answer in time".to_owned()),
        };
        let unknown =
            || AttemptOutcome::Unknown(error.clone().unwrap_or_else(|| "no answer".into()));
        let mut is_alive = error.is_none();
        for (position, index) in accepted.iter().enumerate() {
            let reply = replies.get(if answers == 1 { 0 } else { position });
            let outcome = reply.map_or_else(unknown, |reply| classify(SmtpStage::End, reply));
            is_alive &= !is_relay_refusal(&outcome);
            set_outcome(outcomes, *index, outcome);
        }
        is_alive
    }

    /// Sends commands, all at once if the relay allows it (RFC 2920).
    async fn send_commands(
        &mut self,
        commands: &[String],
    ) -> Result<Vec<RelayAnswer>, BrokenConversation> {
        let (mut replies, limit) = (Vec::with_capacity(commands.len()), self.client.timeout);
        let batches: Vec<&[String]> =
            if self.extensions.pipelining { vec![commands] } else { commands.chunks(1).collect() };
        for batch in batches {
            let stream = &mut self.client.stream;
            let exchange = timeout(limit, async {
                use tokio::io::AsyncWriteExt as _;
                stream
                    .write_all(batch.concat().as_bytes())
                    .await
                    .map_err(|error| error.to_string())?;
                stream.flush().await.map_err(|error| error.to_string())?;
                read_answers(stream, batch.len(), &mut replies).await
            });
            let result = exchange.await.unwrap_or_else(|_| Err("no answer in time".into()));
            if let Err(text) = result {
                return Err(BrokenConversation { text, answered: replies.len() });
            }
        }
        Ok(replies)
    }

    /// Makes the result. A recipient without an outcome was not tried, which is `TooMany`.
    fn into_result(self, outcomes: Vec<Option<AttemptOutcome>>, is_alive: bool) -> SendResult {
        let outcomes = outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or(AttemptOutcome::TooMany))
            .collect();
        SendResult::Finished { outcomes, connection: is_alive.then_some(self) }
    }

    pub(super) async fn quit(mut self) {
        self.client.timeout = Duration::from_secs(5);
        let end: Result<_, Error> = self.client.cmd(b"QUIT\r\n").await;
        if let Err(error) = end {
            tracing::debug!(%error, "the relay did not say goodbye");
        }
    }
}

struct RelayTransaction<'a> {
    action: &'a Action,
    recipients: &'a [&'a Target],
    message: &'a [u8],
    /// One for each of `recipients`, in order; `None` while nothing is known.
    outcomes: Vec<Option<AttemptOutcome>>,
}

enum TransactionEnd {
    /// No command was sent: every recipient had an outcome before.
    Idle,
    /// The transaction must be reset before the connection can carry another message.
    Open,
    /// The connection cannot carry another message.
    Broken,
    /// The idle connection was closed by the relay. Nothing was tried.
    Stale,
    Unrecorded(StoreError),
}

impl<'a> RelayTransaction<'a> {
    /// Recipients that need SMTPUTF8 have an outcome from the start if the relay lacks it.
    fn new(
        action: &'a Action,
        recipients: &'a [&'a Target],
        message: &'a [u8],
        extensions: RelayExtensions,
    ) -> Self {
        let mut transaction = Self { action, recipients, message, outcomes: Vec::new() };
        let refusal = |target: &&Target| {
            (transaction.needs_utf8(target) && !extensions.utf8)
                .then_some(AttemptOutcome::NoSmtpUtf8)
        };
        transaction.outcomes = recipients.iter().map(refusal).collect();
        transaction
    }

    /// Whether the sender or this recipient can only be named with SMTPUTF8.
    fn needs_utf8(&self, target: &Target) -> bool {
        self.action.sender.as_ref().is_some_and(Address::needs_smtputf8)
            || target.address.needs_smtputf8()
    }

    /// Returns MAIL and a RCPT for each recipient without an outcome, and the indices of these
    /// recipients.
    fn envelope_commands(&self, extensions: RelayExtensions) -> (Vec<String>, Vec<usize>) {
        let undecided: Vec<(usize, &Target)> = self
            .recipients
            .iter()
            .zip(&self.outcomes)
            .enumerate()
            .filter(|(_, (_, outcome))| outcome.is_none())
            .map(|(index, (target, _))| (index, *target))
            .collect();
        // A header that is not ASCII needs SMTPUTF8 (RFC 6531 §3.6). Unlike an address, it is sent
        // all the same if the relay does not offer that.
        let header = self.message.get(..body_offset(self.message)).unwrap_or(self.message);
        let utf8 = (extensions.utf8 && !header.is_ascii())
            || undecided.iter().any(|(_, target)| self.needs_utf8(target));
        let mut commands = vec![mail_command(self.action, extensions, utf8, self.message)];
        commands.extend(undecided.iter().map(|(_, target)| rcpt_command(target, extensions)));
        (commands, undecided.into_iter().map(|(index, _)| index).collect())
    }

    /// Ends a dialogue that broke off: recipients without an outcome are tried again.
    fn break_off(&mut self, text: String) -> TransactionEnd {
        fill_undecided(
            &mut self.outcomes,
            &AttemptOutcome::Temporary { text, scope: RefusalScope::Message },
        );
        TransactionEnd::Broken
    }

    /// Ends a transaction whose whole message the relay refused.
    fn refuse(&mut self, refusal: &AttemptOutcome) -> TransactionEnd {
        fill_undecided(&mut self.outcomes, refusal);
        if is_relay_refusal(refusal) { TransactionEnd::Broken } else { TransactionEnd::Open }
    }
}

/// Why commands were not all answered.
struct BrokenConversation {
    text: String,
    /// How many of them were answered before.
    answered: usize,
}

/// Appends `count` answers to `answers`. If the connection breaks, appends those that came before.
///
/// Bytes beyond the last answer are an error: the next read would take them for its own answer.
async fn read_answers(
    stream: &mut Box<dyn RelayStream>,
    count: usize,
    answers: &mut Vec<RelayAnswer>,
) -> Result<(), String> {
    let wanted = answers.len().saturating_add(count);
    let (mut buffer, mut parser) = ([0u8; 1024], ResponseReceiver::default());
    while answers.len() < wanted {
        let length = stream.read(&mut buffer).await.map_err(|error| error.to_string())?;
        if length == 0 {
            return Err("the relay hung up".into());
        }
        let mut bytes = buffer.get(..length).unwrap_or_default().iter();
        while !bytes.as_slice().is_empty() {
            if answers.len() >= wanted {
                return Err("the relay answered more than it was asked".into());
            }
            match parser.parse(&mut bytes) {
                Ok(reply) => {
                    answers.push(to_answer(&reply));
                    parser = ResponseReceiver::default();
                }
                Err(smtp_proto::Error::NeedsMoreData { .. }) => break,
                Err(_) => return Err("the relay's answer cannot be understood".into()),
            }
        }
    }
    Ok(())
}

fn to_answer(reply: &Response<String>) -> RelayAnswer {
    RelayAnswer { code: reply.code, status: reply.esc, text: reply.message.clone() }
}

fn is_relay_refusal(outcome: &AttemptOutcome) -> bool {
    matches!(outcome, AttemptOutcome::Temporary { scope: RefusalScope::Relay, .. })
}

fn set_outcome(outcomes: &mut [Option<AttemptOutcome>], index: usize, outcome: AttemptOutcome) {
    if let Some(entry) = outcomes.get_mut(index) {
        *entry = Some(outcome);
    }
}

fn fill_undecided(outcomes: &mut [Option<AttemptOutcome>], outcome: &AttemptOutcome) {
    for entry in outcomes.iter_mut().filter(|entry| entry.is_none()) {
        *entry = Some(outcome.clone());
    }
}

/// Returns `MAIL` (RFC 5321 §3.3) with the parameters that the relay offers: SIZE (RFC 1870),
/// 8BITMIME (RFC 6152), SMTPUTF8 (RFC 6531) and DSN (RFC 3461).
fn mail_command(
    action: &Action,
    extensions: RelayExtensions,
    utf8: bool,
    message: &[u8],
) -> String {
    let sender =
        action.sender.as_ref().map(|sender| sender.wire_form().to_string()).unwrap_or_default();
    let mut line = format!("MAIL FROM:<{sender}>");
    if extensions.size {
        line.push_str(&format!(" SIZE={}", message.len()));
    }
    if extensions.eight_bit && !message.is_ascii() {
        line.push_str(" BODY=8BITMIME");
    }
    if utf8 {
        line.push_str(" SMTPUTF8");
    }
    if extensions.dsn {
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

/// Returns `RCPT`, with the parameters of DSN (RFC 3461) if the relay offers that.
fn rcpt_command(target: &Target, extensions: RelayExtensions) -> String {
    let mut line = format!("RCPT TO:<{}>", target.address.wire_form());
    if extensions.dsn {
        if let Some(notify) = &target.notify {
            line.push_str(&notify_parameter(notify));
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

/// Returns the parameter NOTIFY with a blank before it, or nothing if no word of it is set.
fn notify_parameter(notify: &DsnNotify) -> String {
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
