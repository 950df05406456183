//! The message of a transaction: DATA (RFC 5321 §4.1.1.4) and BDAT (RFC 3030), and a reply for each recipient (RFC 2033 §4.2).

use super::session::{Mode, Session};
use super::step::Step;
use crate::model::BodyType;
use crate::wire::smtp::{DotUnstuffer, Reply};

impl Session {
    pub(super) fn begin_data(&mut self) -> Step {
        let refusal = match &self.transaction {
            None => Some("say MAIL first"),
            Some(open) if open.envelope.recipients.is_empty() => Some("no recipient was accepted"),
            Some(open) if open.chunked => Some("go on with BDAT"),
            Some(open) if open.envelope.body == BodyType::Binary => Some("BINARYMIME needs BDAT"),
            Some(_) => None,
        };
        if let Some(why) = refusal {
            return self.refuse(&Reply::new(503, [5, 5, 1], why));
        }
        self.mode = Mode::Data(DotUnstuffer::default());
        self.reply(&Reply::bare(354, "go ahead, and end with a dot on a line of its own"));
        Step::NeedInput
    }

    pub(super) fn data(&mut self, mut unstuff: DotUnstuffer, input: &[u8]) -> (usize, Step) {
        if input.is_empty() {
            return (0, Step::NeedInput);
        }
        self.chunk.clear();
        let (taken, done) = unstuff.feed(input, &mut self.chunk);
        self.mode = if done { Mode::Delivering } else { Mode::Data(unstuff) };
        let kept = self.count(self.chunk.len());
        match (kept, done) {
            (true, _) => (taken, Step::Body),
            (false, true) => (taken, self.end()),
            (false, false) => (taken, Step::NeedInput),
        }
    }

    /// Counts octets of the message: whether they are to be kept.
    fn count(&mut self, octets: usize) -> bool {
        let too_large = self.too_large();
        let Some(open) = &mut self.transaction else { return false };
        open.octets = open.octets.saturating_add(octets as u64);
        if open.octets > self.settings.max_message && open.refusal.is_none() {
            open.refusal = Some(too_large);
        }
        open.refusal.is_none() && octets > 0
    }

    /// The message cannot be kept: the rest of it is swallowed, and this is said once for each recipient.
    pub fn refuse_body(&mut self, reply: Reply) {
        if let Some(open) = &mut self.transaction {
            open.refusal.get_or_insert(reply);
        }
    }

    /// The end of the message has been read.
    pub(super) fn end(&mut self) -> Step {
        let refusal = self.transaction.as_ref().and_then(|open| open.refusal.clone());
        match refusal {
            None => {
                self.mode = Mode::Delivering;
                Step::End
            }
            Some(reply) => {
                let count = self.transaction.as_ref().map_or(0, |open| open.envelope.recipients.len());
                self.delivered(&vec![reply; count]);
                Step::Reset
            }
        }
    }

    /// Answers `Step::End`: one reply for each accepted recipient, in order.
    pub fn delivered(&mut self, replies: &[Reply]) {
        for reply in replies {
            self.reply(reply);
        }
        self.forget();
    }

    pub(super) fn begin_bdat(&mut self, octets: u64, last: bool) -> Step {
        let recipients = self.transaction.as_ref().map_or(0, |open| open.envelope.recipients.len());
        let keep = recipients > 0;
        if let Some(open) = &mut self.transaction {
            open.chunked = true;
        }
        self.mode = Mode::Bdat { left: octets, last, keep };
        if octets == 0 { self.bdat_done(last, keep) } else { Step::NeedInput }
    }

    pub(super) fn bdat_octets(&mut self, left: u64, last: bool, keep: bool, input: &[u8]) -> (usize, Step) {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
        if most == 0 {
            return if left == 0 { (0, self.bdat_done(last, keep)) } else { (0, Step::NeedInput) };
        }
        let octets = input.get(..most).unwrap_or_default();
        let left = left.saturating_sub(most as u64);
        self.mode = Mode::Bdat { left, last, keep };
        if keep && self.count(octets.len()) {
            self.chunk.clear();
            self.chunk.extend_from_slice(octets);
            return (most, Step::Body); // the next step, with nothing left, ends the chunk
        }
        (most, if left == 0 { self.bdat_done(last, keep) } else { Step::NeedInput })
    }

    /// A chunk has been read whole.
    fn bdat_done(&mut self, last: bool, keep: bool) -> Step {
        self.mode = Mode::Command;
        if !keep {
            // RFC 2033 §4.3: the last chunk of a transaction without a recipient has nobody to answer for. One without a
            // transaction is a command out of order, and has a reply as any other.
            if last && self.transaction.take().is_some() {
                return Step::Reset;
            }
            return self.refuse(&Reply::new(503, [5, 5, 1], "no recipient was accepted"));
        }
        if last {
            return self.end();
        }
        let refusal = self.transaction.as_ref().and_then(|open| open.refusal.clone());
        match refusal {
            Some(reply) => self.reply(&reply),
            None => self.reply(&Reply::new(250, [2, 0, 0], "chunk read")),
        }
        Step::NeedInput
    }
    pub(super) fn swallow(&mut self, left: u64, input: &[u8]) -> (usize, Step) {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
        let left = left.saturating_sub(most as u64);
        self.mode = if left == 0 { Mode::Command } else { Mode::Swallow(left) };
        (most, Step::NeedInput)
    }
}
