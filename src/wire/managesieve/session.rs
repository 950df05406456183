//! One ManageSieve session as a state machine that consumes bytes.
//!
//! - A client that is not logged in can only log in, begin TLS, and send CAPABILITY, NOOP and
//!   LOGOUT (RFC 5804 §2).
//! - The session closes with BYE after too many refused commands, failed logins, or commands
//!   without a login, and if it cannot find the end of a command.
//! - The output is bounded, however many commands are pipelined (`Step::Flush`).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::command::{Command, CommandError, parse};
use super::reader::{CommandToken, Event, ReadError, Reader};
use super::response::{Code, capability, literal, ok_with, status, string};
use super::step::{Answer, Rejection, Request, Settings, Step};
use crate::wire::sasl::{self, AccountKeys, Exchange, MAX_RESPONSE_BYTES, Mechanism, SaslFailure};

/// Largest literal that is no script and no response of a login: a name or a tag. It is as long as
/// a quoted string may be. The longest name has 128 characters of up to 4 bytes.
const MAX_NAME_BYTES: usize = 1024;
/// Longest response of a login, in base64.
const MAX_ENCODED_BYTES: usize = MAX_RESPONSE_BYTES.div_ceil(3) * 4;
/// The name and the version of the program (RFC 5804 §1.7, RFC 9661 §1.2.1).
pub const IMPLEMENTATION: &str = concat!("Restante ", env!("CARGO_PKG_VERSION"));
/// With this many bytes of output or more, the session asks for it to be sent before it reads the
/// next command. So the output exceeds this number by one answer at most.
pub(super) const MAX_PENDING_OUTPUT: usize = 64 << 10;
/// The answer to a failed login with SCRAM. It is the same for every name that a client gives, so
/// it does not tell whether an account has the name.
const SCRAM_FAILED: &str = "the login failed; SCRAM accepts the name of the account and no other \
                            address of it, and a password from before this server knew SCRAM only \
                            after it was set again; PLAIN accepts both";

/// One session. Its driver gives it input with `step`, carries out the step that is returned, and
/// sends `output`.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    /// The nonces of logins are made of this and of `nonces`.
    seed: [u8; 32],
    /// How many nonces were made.
    nonces: u64,
    reader: Reader,
    out: Vec<u8>,
    login: LoginState,
    is_closed: bool,
    /// The commands that this session refused.
    errors: u32,
    /// Commands and blank lines without a login. A login sets it to 0.
    early_commands: u32,
    /// Logins that failed or were not checked.
    failed_logins: u32,
}

#[derive(Debug)]
enum LoginState {
    No,
    /// The client has to answer a challenge, or the driver a question.
    Begun(Box<Exchange>),
    /// With the name of the account.
    Done(String),
}

impl Session {
    /// Begins a session, with the greeting in the output. `seed` must be random.
    #[must_use]
    pub fn new(settings: Settings, seed: [u8; 32]) -> Self {
        let mut session = Self {
            settings,
            seed,
            nonces: 0,
            reader: Reader::default(),
            out: Vec::new(),
            login: LoginState::No,
            is_closed: false,
            errors: 0,
            early_commands: 0,
            failed_logins: 0,
        };
        session.capabilities("Restante is ready");
        session
    }

    /// Begins a session after STARTTLS, with the capabilities in the output. Nothing of the session
    /// before is carried over (RFC 5804 §2.2). STARTTLS is not offered again, whatever `settings`
    /// say of it. `seed` must be another random one.
    #[must_use]
    pub fn after_starttls(settings: Settings, seed: [u8; 32]) -> Self {
        Self::new(Settings { starttls: false, ..settings }, seed)
    }

    /// Returns the responses that are to be sent. The driver clears the output after writing it.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    #[must_use]
    pub fn is_logged_in(&self) -> bool {
        matches!(self.login, LoginState::Done(_))
    }

    /// Writes BYE to the output. All further steps are `Step::Close`.
    pub fn shut(&mut self, code: Option<Code>, text: &str) {
        status(&mut self.out, "BYE", code, text);
        self.is_closed = true;
    }

    /// Consumes input up to the first command that needs a step of the driver, or until there is
    /// much output. Answers the commands before that in the output. Returns the number of consumed
    /// bytes, and the step.
    pub fn step(&mut self, input: &[u8]) -> (usize, Step) {
        let mut consumed = 0_usize;
        while !self.is_closed {
            if self.out.len() >= MAX_PENDING_OUTPUT {
                return (consumed, Step::Flush);
            }
            let rest = input.get(consumed..).unwrap_or_default();
            let max_literal =
                |tokens: &[CommandToken]| max_literal(&self.login, &self.settings, tokens);
            let (count, event) = self.reader.read(rest, max_literal);
            consumed = consumed.saturating_add(count);
            let step = match event {
                Event::NeedInput => return (consumed, Step::NeedInput),
                Event::Command(tokens) => self.command(tokens),
                Event::Refused(error, tokens) => self.refuse_unread(error, &tokens),
                Event::Lost(tokens) => {
                    let code = size_code(&tokens);
                    self.shut(code, "the length of the string is too large");
                    None
                }
            };
            if let Some(step) = step {
                return (consumed, step);
            }
        }
        (consumed, Step::Close)
    }

    /// Answers `Question::Keys` of a login: the client gets a challenge.
    pub fn found_keys(&mut self, keys: AccountKeys) {
        drop(self.continue_login(|exchange| exchange.challenge_with(keys), ""));
    }

    /// Answers a question other than `Question::Keys`: the client may log in. `owner` is the name
    /// of the account.
    pub fn accept(&mut self, owner: &str) {
        drop(self.continue_login(Exchange::accept, owner));
    }

    /// Answers any question of a login: the client may not log in.
    pub fn reject(&mut self, rejection: Rejection) {
        match rejection {
            Rejection::Credentials => drop(self.continue_login(Exchange::reject, "")),
            Rejection::NotChecked(text) => {
                self.login = LoginState::No;
                // This counts like a failed login. Otherwise a client could go on without end.
                if self.count_failed_login() {
                    return self.shut(Some(Code::TryLater), &text);
                }
                status(&mut self.out, "NO", Some(Code::TryLater), &text);
            }
        }
    }

    /// Answers the request of `Step::Do`.
    pub fn done(&mut self, answer: Answer) {
        match answer {
            Answer::Done => self.ok(""),
            Answer::Warnings(text) => status(&mut self.out, "OK", Some(Code::Warnings), &text),
            Answer::Scripts(scripts) => {
                for (name, is_active) in scripts {
                    string(&mut self.out, name.as_bytes());
                    self.out.extend_from_slice(if is_active { b" ACTIVE\r\n" } else { b"\r\n" });
                }
                self.ok("");
            }
            Answer::Script(script) => {
                literal(&mut self.out, &script);
                self.out.extend_from_slice(b"\r\n");
                self.ok("");
            }
            Answer::Refused(code, text) => status(&mut self.out, "NO", code, &text),
        }
    }

    fn ok(&mut self, text: &str) {
        status(&mut self.out, "OK", None, text);
    }

    /// Counts an error, and answers NO, or BYE if there are too many. Always returns `None`.
    fn refuse(&mut self, code: Option<Code>, text: &str) -> Option<Step> {
        self.errors = self.errors.saturating_add(1);
        if self.errors > self.settings.max_errors {
            self.shut(None, "too many errors in this session");
        } else {
            status(&mut self.out, "NO", code, text);
        }
        None
    }

    fn command(&mut self, tokens: Vec<CommandToken>) -> Option<Step> {
        if matches!(self.login, LoginState::Begun(_)) {
            return self.login_response(&tokens);
        }
        if !self.is_logged_in() {
            self.early_commands = self.early_commands.saturating_add(1);
            if self.early_commands > self.settings.max_errors {
                self.shut(None, "too many commands without a login");
                return None;
            }
        }
        // A blank line is no command.
        if tokens.is_empty() {
            return None;
        }
        match parse(tokens) {
            Ok(Command::Authenticate { mechanism, initial }) => {
                self.authenticate(&mechanism, initial)
            }
            Ok(Command::StartTls) => self.starttls(),
            Ok(Command::Logout) => {
                self.ok("goodbye");
                self.is_closed = true;
                None
            }
            Ok(Command::Capability) => {
                self.capabilities("");
                None
            }
            Ok(Command::Noop(None)) => {
                self.ok("done");
                None
            }
            Ok(Command::Noop(Some(tag))) => {
                ok_with(&mut self.out, "TAG", &tag, "done");
                None
            }
            Ok(Command::Unauthenticate) if self.is_logged_in() => {
                self.login = LoginState::No;
                self.ok("");
                None
            }
            Ok(Command::Scripts(request)) if self.is_logged_in() => self.request(request),
            Ok(Command::Unauthenticate | Command::Scripts(_)) => self.refuse(None, LOG_IN_FIRST),
            Err(CommandError::Unknown) => self.refuse(None, "unknown command"),
            Err(CommandError::Arguments(expected)) => self.refuse(None, expected),
            Err(CommandError::ScriptName) => self.refuse(
                None,
                "the name of a script has 1 to 128 characters, without control characters and \
                 line separators",
            ),
        }
    }

    /// Passes a request on to the driver, unless it can be refused without one.
    fn request(&mut self, request: Request) -> Option<Step> {
        let max = self.settings.max_script;
        let is_empty = match &request {
            Request::HaveSpace { size, .. } => *size == 0,
            Request::Put { script, .. } => script.is_empty(),
            _ => false,
        };
        match &request {
            _ if is_empty => self.refuse(None, "the script is empty"),
            Request::HaveSpace { size, .. } if *size > max as u64 => {
                self.refuse_size(Some(Code::MaxSize))
            }
            _ => Some(Step::Do(request)),
        }
    }

    /// Refuses a script that is too large, or would be.
    fn refuse_size(&mut self, code: Option<Code>) -> Option<Step> {
        let text = format!("a script may have up to {} bytes", self.settings.max_script);
        self.refuse(code, &text)
    }

    /// Answers a command that the reader refused. If it is a response of a login, the login fails.
    fn refuse_unread(&mut self, error: ReadError, tokens: &[CommandToken]) -> Option<Step> {
        if matches!(self.login, LoginState::Begun(_)) {
            self.login = LoginState::No;
            self.login_failed(SaslFailure::Malformed, false);
            return None;
        }
        match error {
            // Without a login, a literal of a script may only be as large as a name.
            _ if takes_script(tokens) && !self.is_logged_in() => self.refuse(None, LOG_IN_FIRST),
            ReadError::LargeLiteral if takes_script(tokens) => self.refuse_size(size_code(tokens)),
            ReadError::LargeLiteral | ReadError::LongQuoted => {
                self.refuse(None, "a string of the command is too long")
            }
            ReadError::LongLine => self.refuse(None, "the line is too long"),
            ReadError::Syntax => self.refuse(None, "the command is malformed"),
        }
    }

    fn starttls(&mut self) -> Option<Step> {
        if self.is_logged_in() {
            return self.refuse(None, "TLS must begin before the login");
        }
        if !self.settings.starttls {
            return self.refuse(None, "TLS is in use, or this server has no certificate");
        }
        self.ok("begin TLS now");
        Some(Step::StartTls)
    }

    fn authenticate(&mut self, mechanism: &str, initial: Option<Vec<u8>>) -> Option<Step> {
        if self.is_logged_in() {
            return self.refuse(None, "you are logged in already");
        }
        if !self.settings.login {
            return self.refuse(Some(Code::EncryptNeeded), "use STARTTLS before the login");
        }
        let binding = self.settings.binding.as_ref();
        let mechanism = Mechanism::named(mechanism)
            .filter(|named| Mechanism::offered(binding).any(|offered| offered == *named));
        let Some(mechanism) = mechanism else {
            return self.refuse(None, "this server does not know the mechanism");
        };
        let initial = match initial.map(|text| STANDARD.decode(text)).transpose() {
            Ok(initial) => initial,
            Err(_) => return self.refuse(None, "the response is not base64"),
        };
        let exchange = Exchange::new(mechanism, self.nonce(), self.settings.binding.clone());
        self.login = LoginState::Begun(Box::new(exchange));
        self.continue_login(|exchange| exchange.begin(initial.as_deref()), "")
    }

    /// Returns a nonce that was not used before, of 18 bytes in base64.
    fn nonce(&mut self) -> String {
        self.nonces = self.nonces.saturating_add(1);
        let hash = blake3::keyed_hash(&self.seed, &self.nonces.to_be_bytes());
        let (nonce, _) = hash.as_bytes().split_at(18);
        URL_SAFE_NO_PAD.encode(nonce)
    }

    /// Continues a login with the response of the client: one string in base64. `*` cancels the
    /// login, and anything else fails it.
    fn login_response(&mut self, tokens: &[CommandToken]) -> Option<Step> {
        let response = match tokens {
            [CommandToken::Text(text)] if text == b"*" => {
                self.login = LoginState::No;
                return self.refuse(None, "the login was cancelled");
            }
            [CommandToken::Text(text)] => STANDARD.decode(text).ok(),
            _ => None,
        };
        if let Some(response) = response {
            return self.continue_login(|exchange| exchange.respond(&response), "");
        }
        self.login = LoginState::No;
        self.login_failed(SaslFailure::Malformed, false);
        None
    }

    /// Calls `next` with the exchange, and writes its challenge or the outcome; a question is the
    /// step that is returned. Does nothing if no login has begun. `owner` is the name of the
    /// account; only `accept` needs it.
    fn continue_login(
        &mut self,
        next: impl FnOnce(&mut Exchange) -> sasl::Step,
        owner: &str,
    ) -> Option<Step> {
        let LoginState::Begun(exchange) = &mut self.login else { return None };
        match next(exchange) {
            sasl::Step::Challenge(challenge) => {
                string(&mut self.out, STANDARD.encode(challenge).as_bytes());
                self.out.extend_from_slice(b"\r\n");
                None
            }
            sasl::Step::Ask(question) => Some(Step::Ask(question)),
            sasl::Step::Success(message) => {
                self.login = LoginState::Done(owner.to_owned());
                self.early_commands = 0;
                match message {
                    Some(message) => {
                        let message = STANDARD.encode(message);
                        ok_with(&mut self.out, "SASL", message.as_bytes(), "");
                    }
                    None => self.ok(""),
                }
                None
            }
            sasl::Step::Failure(failure) => {
                let is_scram = exchange.is_scram();
                self.login = LoginState::No;
                self.login_failed(failure, is_scram);
                None
            }
        }
    }

    /// Counts a login that is refused. Returns whether the session must close.
    fn count_failed_login(&mut self) -> bool {
        self.failed_logins = self.failed_logins.saturating_add(1);
        self.failed_logins >= self.settings.max_failed_logins
    }

    fn login_failed(&mut self, failure: SaslFailure, is_scram: bool) {
        if self.count_failed_login() {
            return self.shut(None, "too many logins that failed");
        }
        let text = match failure {
            SaslFailure::Malformed => "the response is malformed",
            SaslFailure::ChannelBinding => "the login is not bound to this connection as offered",
            SaslFailure::Credentials if is_scram => SCRAM_FAILED,
            SaslFailure::Credentials => "the login failed",
        };
        status(&mut self.out, "NO", None, text);
    }

    /// Writes the capabilities, and OK with the text, as for the greeting and CAPABILITY.
    fn capabilities(&mut self, text: &str) {
        let mechanisms = if self.settings.login {
            let offered = Mechanism::offered(self.settings.binding.as_ref());
            offered.map(Mechanism::name).collect::<Vec<_>>().join(" ")
        } else {
            String::new()
        };
        let out = &mut self.out;
        capability(out, "IMPLEMENTATION", Some(IMPLEMENTATION));
        capability(out, "VERSION", Some("1.0"));
        capability(out, "SASL", Some(&mechanisms));
        capability(out, "SIEVE", Some(&self.settings.extensions));
        if let Some(notify) = &self.settings.notify {
            capability(out, "NOTIFY", Some(notify));
        }
        if let Some(max) = self.settings.max_redirects {
            capability(out, "MAXREDIRECTS", Some(&max.to_string()));
        }
        capability(out, "LANGUAGE", Some("en"));
        capability(out, "UNAUTHENTICATE", None);
        match &self.login {
            LoginState::Done(owner) => capability(out, "OWNER", Some(owner)),
            _ if self.settings.starttls => capability(out, "STARTTLS", None),
            _ => {}
        }
        self.ok(text);
    }
}

const LOG_IN_FIRST: &str = "log in first";

/// Whether the next token of the command after these ones is a script.
fn takes_script(tokens: &[CommandToken]) -> bool {
    match tokens {
        [CommandToken::Atom(verb)] => verb.eq_ignore_ascii_case("CHECKSCRIPT"),
        [CommandToken::Atom(verb), _] => verb.eq_ignore_ascii_case("PUTSCRIPT"),
        _ => false,
    }
}

/// Returns the code for a literal after these tokens that is too large. The size of a script is a
/// quota (RFC 5804 §1.3) where the script is to be stored. CHECKSCRIPT must not look at quotas
/// (§2.12): to it, the script is one that the server cannot read.
fn size_code(tokens: &[CommandToken]) -> Option<Code> {
    let [CommandToken::Atom(verb), _] = tokens else { return None };
    verb.eq_ignore_ascii_case("PUTSCRIPT").then_some(Code::MaxSize)
}

/// Returns the most bytes of a literal that follows these tokens of a command.
fn max_literal(login: &LoginState, settings: &Settings, tokens: &[CommandToken]) -> usize {
    match (login, tokens) {
        (LoginState::Begun(_), _) => MAX_ENCODED_BYTES,
        (LoginState::No, [CommandToken::Atom(verb), ..])
            if verb.eq_ignore_ascii_case("AUTHENTICATE") =>
        {
            MAX_ENCODED_BYTES
        }
        (LoginState::Done(_), tokens) if takes_script(tokens) => settings.max_script,
        _ => MAX_NAME_BYTES,
    }
}
