//! One LMTP session as a state machine that consumes bytes.
//!
//! - A command has one reply. Only the end of a message (the final dot, or the chunk of BDAT LAST)
//!   has one for each accepted recipient instead, which may be none with BDAT. 421, which ends the
//!   session, may come in addition or in place of a reply.
//! - No byte of a message is read as a command.

use std::mem::discriminant;

use super::extensions;
use super::step::{RcptQuestion, Settings, Step};
use crate::model::{ClientInfo, Envelope, Recipient, limits};
use crate::wire::smtp::command::{Command, CommandError, parse};
use crate::wire::smtp::path::PathError;
use crate::wire::smtp::{DotUnstuffer, Reply};

/// One session. Its driver gives it input with `step`, carries out the step that is returned, and
/// sends `output`.
#[derive(Debug)]
pub struct Session {
    pub(super) settings: Settings,
    pub(super) out: Vec<u8>,
    pub(super) mode: Mode,
    /// The name that the client gave with LHLO; `None` before LHLO, and after XCLIENT.
    lhlo: Option<String>,
    /// The attributes of XCLIENT, for the whole session.
    peer: ClientInfo,
    /// The attributes of XCLIENT, and of the XFORWARD commands for the next transaction.
    pub(super) client: ClientInfo,
    /// The transaction, from MAIL on. `None` also while DATA or a chunk is being received and not
    /// discarded: then `mode` has it.
    pub(super) transaction: Option<Box<Transaction>>,
    /// The bytes of the message that have come so far, refused ones included.
    pub(super) message_bytes: u64,
    /// The reply for each recipient, if the message that is being received is refused.
    pub(super) refusal: Option<Reply>,
    /// The bytes of the last `Step::Body`.
    pub(super) body: Vec<u8>,
    /// The commands of this session, without lines that are too long.
    commands: u32,
    /// The commands that this session refused.
    errors: u32,
}

#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) envelope: Envelope,
    /// Whether BDAT was used. Then no recipient may follow.
    pub(super) chunked: bool,
}

#[derive(Debug)]
pub(super) enum Mode {
    Command,
    /// Discards a command line that is too long.
    LongLine,
    Data {
        transaction: Box<Transaction>,
        unstuff: DotUnstuffer,
    },
    Bdat {
        transaction: Box<Transaction>,
        left: u64,
        last: bool,
    },
    /// Discards a chunk without an accepted recipient or outside a transaction. The reply, if there
    /// is one, follows the chunk.
    IdleBdat {
        left: u64,
        last: bool,
    },
    /// Discards the chunk of an invalid BDAT command, which was refused before.
    DiscardChunk(u64),
    /// The final dot has come together with the last bytes of the message, which the last step
    /// returned. The next step ends the transaction.
    End(Box<Transaction>),
    Closed,
}

/// A `Step` without references to the session.
#[derive(Debug)]
pub(super) enum Transition {
    NeedInput,
    Begin,
    Reset,
    Rcpt(Box<Transaction>, Recipient),
    Body,
    End(Box<Envelope>),
    StartTls,
    Close,
}

impl Session {
    /// Begins a session, with the greeting in the output.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let greeting = Reply::bare(220, format!("{} LMTP Restante", settings.hostname));
        let mut session = Self::without_greeting(settings);
        session.reply(&greeting);
        session
    }

    /// Begins a session after STARTTLS, without a greeting. Nothing of the session before is
    /// carried over (RFC 3207 §4.2). STARTTLS is not offered again, whatever `settings` say of it.
    #[must_use]
    pub fn after_starttls(settings: Settings) -> Self {
        Self::without_greeting(Settings { tls: true, starttls: false, ..settings })
    }

    fn without_greeting(settings: Settings) -> Self {
        Self {
            settings,
            out: Vec::new(),
            mode: Mode::Command,
            lhlo: None,
            peer: ClientInfo::default(),
            client: ClientInfo::default(),
            transaction: None,
            message_bytes: 0,
            refusal: None,
            body: Vec::new(),
            commands: 0,
            errors: 0,
        }
    }

    /// Returns the replies that are to be sent. The driver clears the output after writing it.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Returns the size of the message that is being received, if the client announced it
    /// (RFC 1870); `None` between two chunks of it.
    #[must_use]
    pub fn announced_size(&self) -> Option<u64> {
        match &self.mode {
            Mode::Data { transaction, .. }
            | Mode::Bdat { transaction, .. }
            | Mode::End(transaction) => transaction.envelope.size,
            _ => None,
        }
    }

    /// Whether a message is being received: also between two chunks of it, once bytes of it have
    /// come, and while a chunk is discarded.
    #[must_use]
    pub fn in_message(&self) -> bool {
        self.message_bytes > 0
            || !matches!(self.mode, Mode::Command | Mode::LongLine | Mode::Closed)
    }

    /// Whether the message that is being received is refused. Its bytes are not needed then.
    #[must_use]
    pub fn is_body_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// Ends the session with 421. All further steps are `Step::Close`.
    pub fn shut(&mut self, enhanced: [u16; 3], text: &str) {
        self.reply(&Reply::new(421, enhanced, text));
        self.mode = Mode::Closed;
    }

    /// Consumes input: one command at most, or a part of a message. Commands may be pipelined
    /// (RFC 2920). Returns the number of consumed bytes, and the next step.
    pub fn step(&mut self, input: &[u8]) -> (usize, Step<'_>) {
        let (consumed, next) = self.advance(input);
        let step = match next {
            Transition::NeedInput => Step::NeedInput,
            Transition::Begin => Step::Begin,
            Transition::Reset => Step::Reset,
            Transition::Rcpt(transaction, recipient) => Step::Rcpt(RcptQuestion {
                envelope: &mut self.transaction.insert(transaction).envelope,
                recipient,
                out: &mut self.out,
            }),
            Transition::Body => Step::Body(&self.body),
            Transition::End(envelope) => Step::End(envelope),
            Transition::StartTls => Step::StartTls,
            Transition::Close => Step::Close,
        };
        (consumed, step)
    }

    /// Runs the handler of the mode, until one consumes input, or has a step for the driver, or
    /// leaves the mode as it was.
    fn advance(&mut self, input: &[u8]) -> (usize, Transition) {
        loop {
            let mode = std::mem::replace(&mut self.mode, Mode::Command);
            let before = discriminant(&mode);
            let (consumed, next) = match mode {
                Mode::Command => self.command_line(input),
                Mode::LongLine => self.long_line(input),
                Mode::Data { transaction, unstuff } => self.data(transaction, unstuff, input),
                Mode::Bdat { transaction, left, last } => {
                    self.bdat_bytes(transaction, left, last, input)
                }
                Mode::IdleBdat { left, last } => self.idle_bdat(left, last, input),
                Mode::DiscardChunk(left) => self.discard_chunk(left, input),
                Mode::End(transaction) => (0, self.end(transaction)),
                Mode::Closed => {
                    self.mode = Mode::Closed;
                    (0, Transition::Close)
                }
            };
            // A handler that consumes nothing may change the mode. Then the handler of the new mode
            // runs.
            let is_done = consumed > 0 || !matches!(next, Transition::NeedInput);
            if is_done || discriminant(&self.mode) == before {
                return (consumed, next);
            }
        }
    }

    pub(super) fn reply(&mut self, reply: &Reply) {
        reply.write(&mut self.out);
    }

    /// Replies with a refusal, and counts it as an error of the client. After too many errors 421
    /// follows.
    pub(super) fn refuse(&mut self, reply: &Reply) -> Transition {
        self.reply(reply);
        self.errors = self.errors.saturating_add(1);
        if self.errors > self.settings.max_errors {
            self.shut([4, 7, 0], "too many errors in this session");
        }
        self.close_or_need_input()
    }

    fn close_or_need_input(&self) -> Transition {
        if matches!(self.mode, Mode::Closed) { Transition::Close } else { Transition::NeedInput }
    }

    fn command_line(&mut self, input: &[u8]) -> (usize, Transition) {
        let Some(at) = memchr::memmem::find(input, b"\r\n") else {
            if input.len() >= limits::MAX_COMMAND_BYTES {
                self.mode = Mode::LongLine;
                // A CR at the end may be the first byte of the CRLF.
                let unread = usize::from(input.last() == Some(&b'\r'));
                return (input.len().saturating_sub(unread), Transition::NeedInput);
            }
            return (0, Transition::NeedInput);
        };
        let consumed = at.saturating_add(2);
        if consumed > limits::MAX_COMMAND_BYTES {
            return (consumed, self.refuse(&Reply::new(500, [5, 5, 2], "command line too long")));
        }
        self.commands = self.commands.saturating_add(1);
        if self.commands > self.settings.max_commands {
            self.shut([4, 7, 0], "too many commands in this session");
            return (consumed, Transition::Close);
        }
        let line = input.get(..at).unwrap_or_default();
        let transition = match parse(line) {
            Ok(command) => self.command(command),
            Err(CommandError::Unknown) => {
                self.refuse(&Reply::new(500, [5, 5, 1], "unknown command"))
            }
            Err(CommandError::Arguments) => {
                self.refuse(&Reply::new(501, [5, 5, 4], "invalid arguments"))
            }
            Err(CommandError::Chunk(size)) => {
                let refusal = self.refuse(&Reply::new(501, [5, 5, 4], "invalid arguments"));
                match (refusal, size) {
                    (Transition::NeedInput, Some(size)) => self.mode = Mode::DiscardChunk(size),
                    // Without the size, the end of the chunk cannot be found.
                    (Transition::NeedInput, None) => {
                        self.shut([4, 7, 0], "the size of the chunk is invalid");
                    }
                    _ => {}
                }
                self.close_or_need_input()
            }
            Err(CommandError::Path(error)) => {
                // Only MAIL and RCPT have a path.
                let is_mail = line.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&b'M'));
                let enhanced = if is_mail { [5, 1, 7] } else { [5, 1, 3] };
                let text = match error {
                    PathError::Syntax => "the address is not well formed",
                    PathError::Long => "the address is too long",
                    PathError::Characters => "the address contains invalid characters",
                };
                self.refuse(&Reply::new(501, enhanced, text))
            }
        };
        (consumed, transition)
    }

    fn long_line(&mut self, input: &[u8]) -> (usize, Transition) {
        match memchr::memmem::find(input, b"\r\n") {
            Some(at) => (
                at.saturating_add(2),
                self.refuse(&Reply::new(500, [5, 5, 2], "command line too long")),
            ),
            None => {
                self.mode = Mode::LongLine;
                let unread = usize::from(input.last() == Some(&b'\r'));
                (input.len().saturating_sub(unread), Transition::NeedInput)
            }
        }
    }

    fn command(&mut self, command: Command) -> Transition {
        match command {
            Command::Lhlo(name) => self.lhlo(name),
            Command::Helo => self.refuse(&Reply::new(500, [5, 5, 1], "this is LMTP: send LHLO")),
            Command::Mail(sender, parameters) => {
                self.mail(Envelope { sender, ..Envelope::default() }, &parameters)
            }
            Command::Rcpt(address, parameters) => self.rcpt(Recipient::plain(address), &parameters),
            Command::Data => self.begin_data(),
            Command::Bdat(size, last) => self.begin_bdat(size, last),
            Command::Rset => {
                self.reset();
                self.reply(&Reply::new(250, [2, 0, 0], "transaction reset"));
                Transition::Reset
            }
            Command::Noop => self.accept(250, [2, 0, 0], "OK"),
            Command::Vrfy => self.accept(252, [2, 1, 5], "cannot verify addresses: use RCPT"),
            Command::Help => {
                self.accept(214, [2, 0, 0], "LMTP (RFC 2033); see the manual of Restante")
            }
            Command::Quit => {
                self.reply(&Reply::new(221, [2, 0, 0], "bye"));
                self.mode = Mode::Closed;
                Transition::Close
            }
            Command::StartTls => self.starttls(),
            Command::XForward(attributes) => self.xforward(attributes),
            Command::XClient(attributes) => self.xclient(attributes),
        }
    }

    /// Drops the transaction with its message, and the attributes of XFORWARD.
    pub(super) fn reset(&mut self) {
        self.transaction = None;
        (self.message_bytes, self.refusal) = (0, None);
        self.client = self.peer.clone();
    }

    fn accept(&mut self, code: u16, enhanced: [u16; 3], text: &str) -> Transition {
        self.reply(&Reply::new(code, enhanced, text));
        Transition::NeedInput
    }

    fn lhlo(&mut self, name: String) -> Transition {
        let mut text = format!(
            "{}\nPIPELINING\nENHANCEDSTATUSCODES\n8BITMIME\nSMTPUTF8\nSIZE {}\nCHUNKING\n\
             BINARYMIME\nDSN",
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
        self.reset();
        self.reply(&Reply::bare(250, text));
        Transition::Reset
    }

    fn starttls(&mut self) -> Transition {
        if !self.settings.starttls {
            return self.refuse(&Reply::new(502, [5, 5, 1], "STARTTLS is not available"));
        }
        if self.transaction.is_some() {
            return self.refuse(&Reply::new(503, [5, 5, 1], "not allowed within a transaction"));
        }
        self.reply(&Reply::new(220, [2, 0, 0], "ready for TLS"));
        Transition::StartTls
    }

    fn xforward(&mut self, attributes: Vec<(String, Option<String>)>) -> Transition {
        match self.with_attributes(&self.client, attributes) {
            Ok(client) => {
                self.client = client;
                self.accept(250, [2, 0, 0], "attributes accepted")
            }
            Err(reply) => self.refuse(&reply),
        }
    }

    /// Takes the session back to the time before LHLO: the reply is a greeting (Postfix's XCLIENT).
    /// The attributes of earlier XCLIENT commands stay, and those of XFORWARD go. What counts
    /// towards `max_commands` and `max_errors` stays, too.
    fn xclient(&mut self, attributes: Vec<(String, Option<String>)>) -> Transition {
        match self.with_attributes(&self.peer, attributes) {
            Ok(client) => {
                (self.peer, self.lhlo) = (client, None);
                self.reset();
                self.reply(&Reply::bare(220, format!("{} LMTP Restante", self.settings.hostname)));
                Transition::Reset
            }
            Err(reply) => self.refuse(&reply),
        }
    }

    /// Returns what is known of the client after a command XFORWARD or XCLIENT with these
    /// attributes, if `known` was known before; or the refusal of the command.
    fn with_attributes(
        &self,
        known: &ClientInfo,
        attributes: Vec<(String, Option<String>)>,
    ) -> Result<ClientInfo, Reply> {
        if !self.settings.trusted {
            return Err(Reply::new(
                550,
                [5, 7, 1],
                "XFORWARD and XCLIENT are only for trusted clients",
            ));
        }
        if self.transaction.is_some() {
            return Err(Reply::new(503, [5, 5, 1], "not allowed within a transaction"));
        }
        let mut client = known.clone();
        extensions::client(&mut client, attributes)?;
        Ok(client)
    }

    fn mail(&mut self, mut envelope: Envelope, parameters: &[(String, String)]) -> Transition {
        let Some(lhlo) = self.lhlo.clone() else {
            return self.refuse(&Reply::new(503, [5, 5, 1], "send LHLO first"));
        };
        if self.transaction.is_some() {
            return self.refuse(&Reply::new(503, [5, 5, 1], "a transaction has already begun"));
        }
        if let Err(reply) = extensions::mail(&mut envelope, parameters) {
            return self.refuse(&reply);
        }
        if !envelope.smtputf8
            && envelope.sender.as_ref().is_some_and(|sender| !sender.to_string().is_ascii())
        {
            return self.refuse(&Reply::new(
                553,
                [5, 6, 7],
                "an address that is not ASCII requires SMTPUTF8",
            ));
        }
        if envelope.size.is_some_and(|size| size > self.settings.max_message) {
            return self.refuse(&self.too_large());
        }
        (envelope.lhlo, envelope.tls, envelope.client) =
            (lhlo, self.settings.tls, self.client.clone());
        self.transaction = Some(Box::new(Transaction { envelope, chunked: false }));
        self.reply(&Reply::new(250, [2, 1, 0], "sender accepted"));
        Transition::Begin
    }

    pub(super) fn too_large(&self) -> Reply {
        Reply::new(
            552,
            [5, 3, 4],
            format!("the message is larger than {} bytes", self.settings.max_message),
        )
    }

    fn rcpt(&mut self, mut recipient: Recipient, parameters: &[(String, String)]) -> Transition {
        let Some(transaction) = self.transaction.take() else {
            return self.refuse(&Reply::new(503, [5, 5, 1], "send MAIL first"));
        };
        let refusal = if transaction.chunked {
            Err(Reply::new(503, [5, 5, 1], "RCPT cannot follow BDAT in a transaction"))
        } else {
            extensions::rcpt(&mut recipient, parameters)
        };
        let needs_utf8 =
            !transaction.envelope.smtputf8 && !recipient.address.to_string().is_ascii();
        let is_full = transaction.envelope.recipients.len() >= self.settings.max_recipients;
        let next = match refusal {
            Err(reply) => self.refuse(&reply),
            Ok(()) if needs_utf8 => self.refuse(&Reply::new(
                553,
                [5, 6, 7],
                "an address that is not ASCII requires SMTPUTF8",
            )),
            // This does not count as an error of the client.
            Ok(()) if is_full => self.accept(
                452,
                [4, 5, 3],
                "too many recipients: send the rest in another transaction",
            ),
            // `step` puts the transaction back.
            Ok(()) => return Transition::Rcpt(transaction, recipient),
        };
        self.transaction = Some(transaction);
        next
    }
}
