//! One exchange of challenges and responses as a state machine.
//!
//! The caller begins with [`Exchange::begin`], carries out the step that is returned, and gives the
//! exchange what came of it, until a step is a success or a failure. [`Exchange::respond`],
//! [`Exchange::challenge_with`] and [`Exchange::accept`] end the exchange with
//! `SaslFailure::Malformed` if they do not fit the last step.

use super::oauth;
use super::scram::{AccountKeys, Challenged, ChannelBinding, ClientFirst, FirstError, Proven};
use super::{MAX_RESPONSE_BYTES, Mechanism};
use crate::model::ScramKeys;

/// The login of one client, from the choice of a mechanism to its success or failure.
pub struct Exchange {
    mechanism: Mechanism,
    /// The server's part of the nonce of SCRAM; not used by other mechanisms.
    nonce: String,
    binding: Option<ChannelBinding>,
    state: ExchangeState,
}

enum ExchangeState {
    /// The first response of the client is expected.
    Initial,
    /// LOGIN: the password is expected.
    LoginPassword {
        name: String,
    },
    /// The answer to `Question::Keys` is expected.
    ScramKeys(ClientFirst),
    /// The client's proof of the password is expected.
    ScramProof(Box<Challenged>),
    /// The caller checks the credentials. Success has this last message of the server.
    Checking(Option<Vec<u8>>),
    /// The token was refused by a challenge. Any response of the client now gets the failure.
    TokenRefused,
    Over,
}

/// What the caller does next. `Debug` does not show the credentials.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends a challenge, and gives the response to [`Exchange::respond`].
    Challenge(Vec<u8>),
    /// Answers the question.
    Ask(Question),
    /// The login succeeded. SCRAM has a last message to the client.
    Success(Option<Vec<u8>>),
    /// The login failed, and the exchange is over.
    Failure(SaslFailure),
}

/// What an exchange must know. `name` is the name with which the client logs in. `authorization` is
/// the name of the account that the client wants to act as, if the client named one; the caller
/// must check that the client may.
#[derive(PartialEq, Eq)]
pub enum Question {
    /// Whether the password is right. Answered by `accept` or `reject`.
    Password { authorization: Option<String>, name: String, password: String },
    /// Whether the access token is valid. Answered by `accept` or `reject`.
    Token { authorization: Option<String>, token: String },
    /// The keys of the account with this name; for a name that no account has, none, with a salt
    /// that looks like any other. Answered by `challenge_with`, or by `reject`.
    Keys { name: String },
    /// Whether the account may log in. The client proved that it has the password with these keys,
    /// which are among those that were given. Answered by `accept` or `reject`.
    Proof { authorization: Option<String>, name: String, keys: ScramKeys },
}

impl std::fmt::Debug for Question {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Password { .. } => "Password(..)",
            Self::Token { .. } => "Token(..)",
            Self::Keys { .. } => "Keys(..)",
            Self::Proof { .. } => "Proof(..)",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslFailure {
    /// The response is not UTF-8, is not one of the mechanism, is longer than
    /// [`MAX_RESPONSE_BYTES`], or came when none was expected.
    Malformed,
    /// The client does not use channel binding as this server offers it.
    ChannelBinding,
    /// The credentials are wrong. A client's last message of SCRAM counts as wrong, too, if its
    /// syntax is invalid or it is bound to another connection.
    Credentials,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Exchange").field("mechanism", &self.mechanism).finish_non_exhaustive()
    }
}

impl Exchange {
    /// `nonce` must be random, and printable ASCII without a comma. `binding` is the connection's
    /// channel binding. Without one, SCRAM-SHA-256-PLUS fails with `SaslFailure::ChannelBinding`.
    #[must_use]
    pub fn new(mechanism: Mechanism, nonce: String, binding: Option<ChannelBinding>) -> Self {
        Self { mechanism, nonce, binding, state: ExchangeState::Initial }
    }

    #[must_use]
    pub fn is_scram(&self) -> bool {
        matches!(self.mechanism, Mechanism::ScramSha256 | Mechanism::ScramSha256Plus)
    }

    /// Begins with the response that the client sent with its choice of a mechanism. If it sent
    /// none, returns the challenge that asks for it.
    pub fn begin(&mut self, initial: Option<&[u8]>) -> Step {
        match (initial, self.mechanism) {
            // LOGIN begins with a challenge, so there is no initial response (RFC 4422 §5).
            (Some(_), Mechanism::Login) => self.fail(SaslFailure::Malformed),
            (Some(response), _) => self.respond(response),
            (None, Mechanism::Login) => Step::Challenge(b"Username:".to_vec()),
            (None, _) => Step::Challenge(Vec::new()),
        }
    }

    /// Continues with the client's response to a challenge.
    pub fn respond(&mut self, response: &[u8]) -> Step {
        let state = std::mem::replace(&mut self.state, ExchangeState::Over);
        if let ExchangeState::TokenRefused = state {
            return Step::Failure(SaslFailure::Credentials);
        }
        let Some(text) = text(response) else { return self.fail(SaslFailure::Malformed) };
        match (state, self.mechanism) {
            (ExchangeState::Initial, Mechanism::Plain) => self.plain(text),
            (ExchangeState::Initial, Mechanism::Login) if is_credential(text) => {
                self.state = ExchangeState::LoginPassword { name: text.to_owned() };
                Step::Challenge(b"Password:".to_vec())
            }
            (ExchangeState::LoginPassword { name }, _) if is_credential(text) => {
                let password = text.to_owned();
                self.ask(None, Question::Password { authorization: None, name, password })
            }
            (ExchangeState::Initial, Mechanism::OAuthBearer) => self.bearer(text),
            (ExchangeState::Initial, Mechanism::ScramSha256 | Mechanism::ScramSha256Plus) => {
                self.client_first(text)
            }
            (ExchangeState::ScramProof(challenged), _) => match challenged.prove(text) {
                Some(Proven { name, authorization, keys, server_final }) => {
                    self.ask(Some(server_final), Question::Proof { authorization, name, keys })
                }
                None => self.fail(SaslFailure::Credentials),
            },
            _ => self.fail(SaslFailure::Malformed),
        }
    }

    /// Answers `Question::Keys` with the keys. Returns the challenge.
    pub fn challenge_with(&mut self, keys: AccountKeys) -> Step {
        let state = std::mem::replace(&mut self.state, ExchangeState::Over);
        let ExchangeState::ScramKeys(first) = state else {
            return self.fail(SaslFailure::Malformed);
        };
        let challenged = Challenged::new(first, &self.nonce, keys, self.binding.clone());
        let message = challenged.message();
        self.state = ExchangeState::ScramProof(Box::new(challenged));
        Step::Challenge(message)
    }

    /// Answers a question other than `Question::Keys`: the client may log in.
    pub fn accept(&mut self) -> Step {
        match std::mem::replace(&mut self.state, ExchangeState::Over) {
            ExchangeState::Checking(message) => Step::Success(message),
            _ => Step::Failure(SaslFailure::Malformed),
        }
    }

    /// Answers any question: the client may not log in. With OAUTHBEARER this returns a challenge
    /// that says so, and the client's response to it gets the failure.
    pub fn reject(&mut self) -> Step {
        if self.mechanism == Mechanism::OAuthBearer {
            self.state = ExchangeState::TokenRefused;
            return Step::Challenge(oauth::INVALID_TOKEN.to_vec());
        }
        self.fail(SaslFailure::Credentials)
    }

    fn fail(&mut self, failure: SaslFailure) -> Step {
        self.state = ExchangeState::Over;
        Step::Failure(failure)
    }

    /// Asks about credentials. `last_message` is sent to the client with a success.
    fn ask(&mut self, last_message: Option<Vec<u8>>, question: Question) -> Step {
        self.state = ExchangeState::Checking(last_message);
        Step::Ask(question)
    }

    /// RFC 4616 §2: `[authzid] NUL authcid NUL passwd`.
    fn plain(&mut self, text: &str) -> Step {
        let mut fields = text.split('\0');
        let (authorization, name, password) = (fields.next(), fields.next(), fields.next());
        match (authorization, name, password, fields.next()) {
            (Some(authorization), Some(name), Some(password), None)
                if is_credential(name) && is_credential(password) =>
            {
                let authorization = (!authorization.is_empty()).then(|| authorization.to_owned());
                let (name, password) = (name.to_owned(), password.to_owned());
                self.ask(None, Question::Password { authorization, name, password })
            }
            _ => self.fail(SaslFailure::Malformed),
        }
    }

    fn bearer(&mut self, text: &str) -> Step {
        let Some(response) = oauth::parse(text) else { return self.fail(SaslFailure::Malformed) };
        match response.token {
            Some(token) => {
                let authorization = response.authorization;
                self.ask(None, Question::Token { authorization, token })
            }
            // The client asks how to get a token; the challenge tells.
            None => self.reject(),
        }
    }

    fn client_first(&mut self, text: &str) -> Step {
        let is_plus = self.mechanism == Mechanism::ScramSha256Plus;
        match ClientFirst::parse(text, self.binding.as_ref(), is_plus) {
            Ok(first) => {
                let name = first.name.clone();
                self.state = ExchangeState::ScramKeys(first);
                Step::Ask(Question::Keys { name })
            }
            Err(FirstError::Syntax) => self.fail(SaslFailure::Malformed),
            Err(FirstError::Binding) => self.fail(SaslFailure::ChannelBinding),
        }
    }
}

fn text(response: &[u8]) -> Option<&str> {
    (response.len() <= MAX_RESPONSE_BYTES).then_some(())?;
    std::str::from_utf8(response).ok()
}

fn is_credential(text: &str) -> bool {
    !text.is_empty() && !text.contains('\0')
}
