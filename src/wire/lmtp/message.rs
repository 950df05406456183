//! Receives the message of a transaction by DATA (RFC 5321 §4.1.1.4) or BDAT (RFC 3030), and
//! replies for each recipient (RFC 2033 §4.2).

use super::session::{Mode, Session, Transaction, Transition};
use crate::model::BodyType;
use crate::wire::smtp::{DotUnstuffer, Reply};

impl Session {
    /// Begins to receive the message by DATA, or refuses the command and keeps the transaction.
    pub(super) fn begin_data(&mut self) -> Transition {
        let Some(transaction) = self.transaction.take() else {
            return self.refuse(&Reply::new(503, [5, 5, 1], "send MAIL first"));
        };
        let refusal = match &transaction.envelope {
            envelope if envelope.recipients.is_empty() => Some("no recipient was accepted"),
            _ if transaction.chunked => Some("DATA cannot follow BDAT in a transaction"),
            envelope if envelope.body == BodyType::Binary => Some("BODY=BINARYMIME requires BDAT"),
            _ => None,
        };
        if let Some(text) = refusal {
            self.transaction = Some(transaction);
            return self.refuse(&Reply::new(503, [5, 5, 1], text));
        }
        self.mode = Mode::Data { transaction, unstuff: DotUnstuffer::default() };
        self.reply(&Reply::bare(354, "end the message with a dot on a line by itself"));
        Transition::NeedInput
    }

    /// Consumes input up to the final dot, and puts the bytes of the message into `Session::body`.
    pub(super) fn data(
        &mut self,
        transaction: Box<Transaction>,
        mut unstuff: DotUnstuffer,
        input: &[u8],
    ) -> (usize, Transition) {
        self.body.clear();
        let (consumed, is_done) = unstuff.feed(input, &mut self.body);
        let has_bytes = self.count(self.body.len());
        if is_done && !has_bytes {
            return (consumed, self.end(transaction));
        }
        self.mode =
            if is_done { Mode::End(transaction) } else { Mode::Data { transaction, unstuff } };
        (consumed, if has_bytes { Transition::Body } else { Transition::NeedInput })
    }

    /// Counts bytes of the message, and refuses the message if it is too large. Returns whether
    /// the driver must keep the bytes.
    fn count(&mut self, bytes: usize) -> bool {
        self.message_bytes = self.message_bytes.saturating_add(bytes as u64);
        if self.message_bytes > self.settings.max_message && self.refusal.is_none() {
            self.refusal = Some(self.too_large());
        }
        self.refusal.is_none() && bytes > 0
    }

    /// Refuses the message, if it is not refused yet: the rest of it is discarded, and each
    /// recipient gets `reply`.
    pub fn refuse_body(&mut self, reply: Reply) {
        self.refusal.get_or_insert(reply);
    }

    /// Ends the transaction, whose message is complete: the driver delivers the message, or if it
    /// is refused, each recipient gets the refusal.
    pub(super) fn end(&mut self, transaction: Box<Transaction>) -> Transition {
        let Transaction { envelope, .. } = *transaction;
        let refusal = self.refusal.take();
        self.reset();
        match refusal {
            None => Transition::End(Box::new(envelope)),
            Some(reply) => {
                self.delivered(&vec![reply; envelope.recipients.len()]);
                Transition::Reset
            }
        }
    }

    /// Answers `Step::End`: one reply for each accepted recipient, in order.
    pub fn delivered(&mut self, replies: &[Reply]) {
        for reply in replies {
            self.reply(reply);
        }
    }

    /// Begins a chunk of `left` bytes. The reply, if there is one, follows the chunk.
    pub(super) fn begin_bdat(&mut self, left: u64, last: bool) -> Transition {
        match self.transaction.take() {
            Some(mut transaction) => {
                transaction.chunked = true;
                if transaction.envelope.recipients.is_empty() {
                    self.transaction = Some(transaction);
                    self.mode = Mode::IdleBdat { left, last };
                } else {
                    self.mode = Mode::Bdat { transaction, left, last };
                }
            }
            None => self.mode = Mode::IdleBdat { left, last },
        }
        Transition::NeedInput
    }

    /// Consumes bytes of a chunk, of which `left` are still to come. The end of a chunk that is not
    /// the last gets one reply: 250, or the refusal if the message is refused.
    pub(super) fn bdat_bytes(
        &mut self,
        transaction: Box<Transaction>,
        left: u64,
        last: bool,
        input: &[u8],
    ) -> (usize, Transition) {
        let bytes = beginning(input, left);
        let left = left.saturating_sub(bytes.len() as u64);
        if self.count(bytes.len()) {
            self.body.clear();
            self.body.extend_from_slice(bytes);
            // If nothing is left, the next step ends the chunk.
            self.mode = Mode::Bdat { transaction, left, last };
            return (bytes.len(), Transition::Body);
        }
        let next = if left > 0 {
            self.mode = Mode::Bdat { transaction, left, last };
            Transition::NeedInput
        } else if last {
            self.end(transaction)
        } else {
            self.transaction = Some(transaction);
            match self.refusal.clone() {
                Some(reply) => self.reply(&reply),
                None => self.reply(&Reply::new(250, [2, 0, 0], "chunk received")),
            }
            Transition::NeedInput
        };
        (bytes.len(), next)
    }

    /// Discards a chunk that no recipient gets. The last chunk of a transaction without a recipient
    /// has no reply (RFC 2033 §4.3). Any other one is refused with 503.
    pub(super) fn idle_bdat(&mut self, left: u64, last: bool, input: &[u8]) -> (usize, Transition) {
        let consumed = beginning(input, left).len();
        let left = left.saturating_sub(consumed as u64);
        let next = if left > 0 {
            self.mode = Mode::IdleBdat { left, last };
            Transition::NeedInput
        } else if last && self.transaction.is_some() {
            self.reset();
            Transition::Reset
        } else {
            self.refuse(&Reply::new(503, [5, 5, 1], "no recipient was accepted"))
        };
        (consumed, next)
    }

    /// Discards the chunk of an invalid BDAT command. That command was refused before.
    pub(super) fn discard_chunk(&mut self, left: u64, input: &[u8]) -> (usize, Transition) {
        let consumed = beginning(input, left).len();
        let left = left.saturating_sub(consumed as u64);
        if left > 0 {
            self.mode = Mode::DiscardChunk(left);
        }
        (consumed, Transition::NeedInput)
    }
}

/// Returns the first `max` bytes, or all if there are fewer.
fn beginning(input: &[u8], max: u64) -> &[u8] {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    input.get(..max).unwrap_or(input)
}
