//! One LMTP session as a state machine over octets.
//!
//! `step` takes octets and says what the driver must do. What must hold: exactly one reply for each command but the last of
//! a message, which gets one for each accepted recipient; no octet of a message is ever read as a command.

use super::extensions;
use super::step::{Settings, Step};
use crate::model::{Body, Client, Envelope, Recipient, limits};
use crate::wire::smtp::command::{Command, Refused, parse};
use crate::wire::smtp::path::Bad;
use crate::wire::smtp::{Reply, Unstuff};

/// A session. The driver feeds it and obeys its steps.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    out: Vec<u8>,
    mode: Mode,
    lhlo: Option<String>,
    client: Client,
    transaction: Option<Transaction>,
    asked: Option<Recipient>,
    chunk: Vec<u8>,
    commands: u32,
    errors: u32,
}

#[derive(Debug)]
struct Transaction {
    envelope: Envelope,
    octets: u64,
    chunked: bool,
    refusal: Option<Reply>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Command,
    /// A command line that is too long is thrown away up to its end.
    LongLine,
    Data(Unstuff),
    Bdat {
        left: u64,
        last: bool,
        keep: bool,
    },
    /// The driver owes `delivered`.
    Delivering,
    Closed,
}

impl Session {
    /// A session that has greeted: the greeting is in the output.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let greeting = Reply::bare(220, format!("{} LMTP Restante", settings.hostname));
        let mut session = Self::silent(settings);
        session.reply(&greeting);
        session
    }

    /// A session after STARTTLS: nothing is carried over, and no greeting is sent (RFC 3207 §4.2).
    #[must_use]
    pub fn after_starttls(settings: Settings) -> Self {
        Self::silent(Settings { tls: true, starttls: false, ..settings })
    }

    fn silent(settings: Settings) -> Self {
        Self {
            settings,
            out: Vec::new(),
            mode: Mode::Command,
            lhlo: None,
            client: Client::default(),
            transaction: None,
            asked: None,
            chunk: Vec::new(),
            commands: 0,
            errors: 0,
        }
    }

    /// What is to be written to the client; the driver clears it when it has.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// The next octets of the message, after `Step::Body`.
    #[must_use]
    pub fn chunk(&self) -> &[u8] {
        &self.chunk
    }

    /// The envelope so far.
    #[must_use]
    pub fn envelope(&self) -> Option<&Envelope> {
        self.transaction.as_ref().map(|transaction| &transaction.envelope)
    }

    /// The recipient that `Step::Rcpt` asks about.
    #[must_use]
    pub fn recipient(&self) -> Option<&Recipient> {
        self.asked.as_ref()
    }

    /// Whether a message is under way: then a drain waits for it.
    #[must_use]
    pub fn in_message(&self) -> bool {
        self.transaction.as_ref().is_some_and(|open| open.octets > 0)
            || !matches!(self.mode, Mode::Command | Mode::LongLine | Mode::Closed)
    }

    /// Ends the session with 421.
    pub fn shut(&mut self, detail: [u16; 3], why: &str) {
        self.reply(&Reply::new(421, detail, why));
        self.mode = Mode::Closed;
    }

    /// Takes octets: how many were taken, and what is to be done next. Where it takes none and says `NeedInput`, only more
    /// octets help.
    pub fn step(&mut self, input: &[u8]) -> (usize, Step) {
        loop {
            let before = self.mode;
            let (taken, step) = match self.mode {
                Mode::Command => self.command_line(input),
                Mode::LongLine => self.long_line(input),
                Mode::Data(unstuff) => self.data(unstuff, input),
                Mode::Bdat { left, last, keep } => self.bdat_octets(left, last, keep, input),
                Mode::Delivering => (0, self.end()),
                Mode::Closed => (0, Step::Close),
            };
            if taken > 0 || step != Step::NeedInput || self.mode == before {
                return (taken, step);
            }
        }
    }

    fn reply(&mut self, reply: &Reply) {
        reply.write(&mut self.out);
    }

    fn refuse(&mut self, reply: &Reply) -> Step {
        self.reply(reply);
        self.errors = self.errors.saturating_add(1);
        if self.errors > self.settings.max_errors {
            self.shut([4, 7, 0], "too many errors");
        }
        self.carry_on()
    }

    fn carry_on(&self) -> Step {
        if self.mode == Mode::Closed { Step::Close } else { Step::NeedInput }
    }

    // --- commands ---------------------------------------------------------------------------------------------------

    fn command_line(&mut self, input: &[u8]) -> (usize, Step) {
        let Some(at) = memchr::memmem::find(input, b"\r\n") else {
            if input.len() >= limits::COMMAND_OCTETS {
                self.mode = Mode::LongLine;
                // A CR at the end may be half of the line's end.
                let kept = usize::from(input.last() == Some(&b'\r'));
                return (input.len().saturating_sub(kept), Step::NeedInput);
            }
            return (0, Step::NeedInput);
        };
        let taken = at.saturating_add(2);
        if taken > limits::COMMAND_OCTETS {
            return (taken, self.refuse(&Reply::new(500, [5, 5, 2], "line too long")));
        }
        self.commands = self.commands.saturating_add(1);
        if self.commands > self.settings.max_commands {
            self.shut([4, 7, 0], "too many commands");
            return (taken, Step::Close);
        }
        let line = input.get(..at).unwrap_or_default();
        let step = match parse(line) {
            Ok(command) => self.command(command),
            Err(Refused::Unknown) => self.refuse(&Reply::new(500, [5, 5, 1], "command not known")),
            Err(Refused::Arguments) => self.refuse(&Reply::new(501, [5, 5, 4], "wrong arguments")),
            Err(Refused::Path(bad)) => {
                let sender = line.first().is_some_and(|octet| octet.eq_ignore_ascii_case(&b'M'));
                let detail = if sender { [5, 1, 7] } else { [5, 1, 3] };
                let what = match bad {
                    Bad::Syntax => "the address is not well formed",
                    Bad::Long => "the address is too long",
                    Bad::Octets => "the address holds octets that it must not",
                };
                self.refuse(&Reply::new(501, detail, what))
            }
        };
        (taken, step)
    }

    fn long_line(&mut self, input: &[u8]) -> (usize, Step) {
        match memchr::memmem::find(input, b"\r\n") {
            Some(at) => {
                self.mode = Mode::Command;
                (at.saturating_add(2), self.refuse(&Reply::new(500, [5, 5, 2], "line too long")))
            }
            None => {
                let kept = usize::from(input.last() == Some(&b'\r'));
                (input.len().saturating_sub(kept), Step::NeedInput)
            }
        }
    }

    fn command(&mut self, command: Command) -> Step {
        match command {
            Command::Lhlo(name) => self.lhlo(name),
            Command::Helo => self.refuse(&Reply::new(500, [5, 5, 1], "this is LMTP: say LHLO")),
            Command::Mail(sender, parameters) => self.mail(Envelope { sender, ..Envelope::default() }, &parameters),
            Command::Rcpt(address, parameters) => self.rcpt(Recipient::plain(address), &parameters),
            Command::Data => self.begin_data(),
            Command::Bdat(octets, last) => self.begin_bdat(octets, last),
            Command::Rset => {
                self.transaction = None;
                self.reply(&Reply::new(250, [2, 0, 0], "forgotten"));
                Step::Reset
            }
            Command::Noop => self.fine(250, [2, 0, 0], "still here"),
            Command::Vrfy => self.fine(252, [2, 1, 5], "ask by RCPT"),
            Command::Help => self.fine(214, [2, 0, 0], "RFC 2033; see the manual of Restante"),
            Command::Quit => {
                self.reply(&Reply::new(221, [2, 0, 0], "bye"));
                self.mode = Mode::Closed;
                Step::Close
            }
            Command::StartTls => self.starttls(),
            Command::XForward(attributes) => self.xforward(attributes),
            Command::XClient(attributes) => self.xclient(attributes),
        }
    }

    fn fine(&mut self, code: u16, enhanced: [u16; 3], text: &str) -> Step {
        self.reply(&Reply::new(code, enhanced, text));
        Step::NeedInput
    }

    fn lhlo(&mut self, name: String) -> Step {
        let mut text = format!(
            "{}\nPIPELINING\nENHANCEDSTATUSCODES\n8BITMIME\nSMTPUTF8\nSIZE {}\nCHUNKING\nBINARYMIME\nDSN",
            self.settings.hostname, self.settings.max_message
        );
        if self.settings.starttls {
            text.push_str("\nSTARTTLS");
        }
        if self.settings.trusted {
            text.push_str("\nXFORWARD NAME ADDR PORT PROTO HELO IDENT SOURCE");
            text.push_str("\nXCLIENT NAME ADDR PORT PROTO HELO LOGIN DESTADDR DESTPORT");
        }
        self.lhlo = Some(name);
        self.transaction = None;
        self.reply(&Reply::bare(250, text));
        Step::Reset
    }

    fn starttls(&mut self) -> Step {
        if !self.settings.starttls {
            return self.refuse(&Reply::new(502, [5, 5, 1], "no TLS here"));
        }
        if self.transaction.is_some() {
            return self.refuse(&Reply::new(503, [5, 5, 1], "not within a transaction"));
        }
        self.reply(&Reply::new(220, [2, 0, 0], "ready for TLS"));
        Step::StartTls
    }

    fn xforward(&mut self, attributes: Vec<(String, Option<String>)>) -> Step {
        if !self.settings.trusted {
            return self.refuse(&Reply::new(550, [5, 7, 1], "not from you"));
        }
        if self.transaction.is_some() {
            return self.refuse(&Reply::new(503, [5, 5, 1], "not within a transaction"));
        }
        match extensions::client(&mut self.client, attributes) {
            Ok(()) => self.fine(250, [2, 0, 0], "noted"),
            Err(reply) => self.refuse(&reply),
        }
    }

    fn xclient(&mut self, attributes: Vec<(String, Option<String>)>) -> Step {
        let before = self.client.clone();
        let step = self.xforward(attributes);
        if self.client != before {
            // As at the start of a session (Postfix's XCLIENT): the reply is a greeting.
            self.out.truncate(self.out.len().saturating_sub("250 2.0.0 noted\r\n".len()));
            self.lhlo = None;
            self.reply(&Reply::bare(220, format!("{} LMTP Restante", self.settings.hostname)));
        }
        step
    }

    fn mail(&mut self, mut envelope: Envelope, parameters: &[(String, String)]) -> Step {
        let Some(lhlo) = self.lhlo.clone() else {
            return self.refuse(&Reply::new(503, [5, 5, 1], "say LHLO first"));
        };
        if self.transaction.is_some() {
            return self.refuse(&Reply::new(503, [5, 5, 1], "one sender at a time"));
        }
        if let Err(reply) = extensions::mail(&mut envelope, parameters) {
            return self.refuse(&reply);
        }
        if !envelope.smtputf8 && envelope.sender.as_ref().is_some_and(|sender| !sender.to_string().is_ascii()) {
            return self.refuse(&Reply::new(553, [5, 6, 7], "such an address needs SMTPUTF8"));
        }
        if envelope.size.is_some_and(|size| size > self.settings.max_message) {
            return self.refuse(&self.too_large());
        }
        (envelope.lhlo, envelope.tls, envelope.client) = (lhlo, self.settings.tls, self.client.clone());
        self.transaction = Some(Transaction { envelope, octets: 0, chunked: false, refusal: None });
        self.reply(&Reply::new(250, [2, 1, 0], "sender noted"));
        Step::Begin
    }

    fn too_large(&self) -> Reply {
        Reply::new(552, [5, 3, 4], format!("the message is larger than {} octets", self.settings.max_message))
    }

    fn rcpt(&mut self, mut recipient: Recipient, parameters: &[(String, String)]) -> Step {
        let Some(transaction) = &self.transaction else {
            return self.refuse(&Reply::new(503, [5, 5, 1], "say MAIL first"));
        };
        if transaction.chunked {
            return self.refuse(&Reply::new(503, [5, 5, 1], "the message has begun"));
        }
        if let Err(reply) = extensions::rcpt(&mut recipient, parameters) {
            return self.refuse(&reply);
        }
        if !transaction.envelope.smtputf8 && !recipient.address.to_string().is_ascii() {
            return self.refuse(&Reply::new(553, [5, 6, 7], "such an address needs SMTPUTF8"));
        }
        if transaction.envelope.recipients.len() >= self.settings.max_recipients {
            self.reply(&Reply::new(452, [4, 5, 3], "too many recipients: send the rest in another transaction"));
            return Step::NeedInput;
        }
        self.asked = Some(recipient);
        Step::Rcpt
    }

    /// Answers `Step::Rcpt`. A refusal does not count as an error: a sender's typing mistake is not the peer's.
    pub fn rcpt_verdict(&mut self, reply: &Reply) {
        let recipient = self.asked.take();
        if reply.is_positive()
            && let (Some(recipient), Some(transaction)) = (recipient, &mut self.transaction)
        {
            transaction.envelope.recipients.push(recipient);
        }
        self.reply(reply);
    }

    // --- the message ------------------------------------------------------------------------------------------------

    fn begin_data(&mut self) -> Step {
        let refusal = match &self.transaction {
            None => Some("say MAIL first"),
            Some(open) if open.envelope.recipients.is_empty() => Some("no recipient was accepted"),
            Some(open) if open.chunked => Some("go on with BDAT"),
            Some(open) if open.envelope.body == Body::Binary => Some("BINARYMIME needs BDAT"),
            Some(_) => None,
        };
        if let Some(why) = refusal {
            return self.refuse(&Reply::new(503, [5, 5, 1], why));
        }
        self.mode = Mode::Data(Unstuff::default());
        self.reply(&Reply::bare(354, "go ahead, and end with a dot on a line of its own"));
        Step::NeedInput
    }

    fn data(&mut self, mut unstuff: Unstuff, input: &[u8]) -> (usize, Step) {
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
    fn end(&mut self) -> Step {
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
        self.transaction = None;
        self.client = Client { login: self.client.login.take(), ..Client::default() };
        self.mode = Mode::Command;
    }

    fn begin_bdat(&mut self, octets: u64, last: bool) -> Step {
        let recipients = self.transaction.as_ref().map_or(0, |open| open.envelope.recipients.len());
        let keep = recipients > 0;
        if let Some(open) = &mut self.transaction {
            open.chunked |= keep;
        }
        self.mode = Mode::Bdat { left: octets, last, keep };
        if octets == 0 { self.bdat_done(last, keep) } else { Step::NeedInput }
    }

    fn bdat_octets(&mut self, left: u64, last: bool, keep: bool, input: &[u8]) -> (usize, Step) {
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
            // RFC 2033 §4.3: the last chunk of a message for nobody has nobody to answer for.
            if last {
                self.transaction = None;
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
}
