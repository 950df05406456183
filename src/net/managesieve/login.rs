//! Answers the questions of a login, and remembers who is logged in.

use crate::account::{Directory, Login, LoginAttempt, LoginSource, TooManyFailures};
use crate::model::AccountId;
use crate::net::listen::Peer;
use crate::net::passwords::{NotChecked, PasswordChecks};
use crate::store::Error;
use crate::wire::managesieve::{Rejection, Session};
use crate::wire::sasl::Question;

/// The logins of one connection.
pub(super) struct LoginDriver<'a> {
    passwords: &'a PasswordChecks,
    directory: &'a Directory,
    source: LoginSource,
    peer: Peer,
    /// The attempt of the last login with SCRAM, if the client has not proven the password.
    attempt: Option<LoginAttempt<'a>>,
    /// The last login that succeeded; the session may have ended it by UNAUTHENTICATE.
    login: Option<Login>,
}

/// Why a login is refused.
enum Refused {
    /// The credentials are wrong, which was counted as a failure. Or they are right, but the client
    /// may not act as the account that it named, or its account is gone; that is not counted.
    Wrong,
    /// It is not known whether the client may log in, because of an error of the store, or it may
    /// not try now because of too many failures. The text tells the client why.
    NotChecked(String),
}

impl From<TooManyFailures> for Refused {
    fn from(wait: TooManyFailures) -> Self {
        let seconds = wait.0.as_secs().saturating_add(1);
        Self::NotChecked(format!("{wait}: try again in {seconds} seconds"))
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        tracing::error!(%error, "a login could not be checked");
        Self::NotChecked("the login could not be checked: try again later".into())
    }
}

impl From<NotChecked> for Refused {
    fn from(reason: NotChecked) -> Self {
        match reason {
            NotChecked::Busy => Self::NotChecked("too many logins at once".into()),
            NotChecked::Panicked => Self::NotChecked("the login failed".into()),
            NotChecked::Store(error) => error.into(),
        }
    }
}

impl<'a> LoginDriver<'a> {
    pub(super) fn new(
        passwords: &'a PasswordChecks,
        directory: &'a Directory,
        source: LoginSource,
        peer: Peer,
    ) -> Self {
        Self { passwords, directory, source, peer, attempt: None, login: None }
    }

    /// Returns the account of the client that is logged in; `None` if its password or token is not
    /// valid any more. Called only while the session is logged in.
    pub(super) fn account(&self) -> Option<AccountId> {
        let login = self.login.as_ref()?;
        let is_valid = self.passwords.logins().is_valid(login.account, &login.credential);
        is_valid.then_some(login.account)
    }

    /// Answers a question of the session: with the keys for SCRAM, or whether the client may log
    /// in.
    pub(super) async fn answer(&mut self, question: Question, session: &mut Session) {
        let logged_in = match question {
            Question::Keys { name } => match self.begin_scram(&name) {
                Ok(keys) => return session.found_keys(keys),
                Err(refused) => Err(refused),
            },
            Question::Proof { authorization, name, keys } => {
                let login = self.passwords.logins().log_in_with_scram(&name, &keys);
                match (self.attempt.take(), &login) {
                    (Some(attempt), Ok(Some(_))) => attempt.cancel_charge(),
                    (Some(attempt), Err(_)) => attempt.withdraw(),
                    // The attempt stays charged.
                    _ => {}
                }
                login.map_err(Refused::from).and_then(|login| self.authorize(login, authorization))
            }
            Question::Password { authorization, name, password } => self
                .check_password(name, password)
                .await
                .and_then(|login| self.authorize(login, authorization)),
            Question::Token { authorization, token } => {
                self.check_token(&token).and_then(|login| self.authorize(login, authorization))
            }
        };
        match logged_in {
            Ok((login, owner)) => {
                self.login = Some(login);
                session.accept(&owner);
            }
            Err(Refused::Wrong) => {
                // People type passwords into the wrong field, so the name is not logged.
                tracing::info!(from = %self.peer, "login failed");
                session.reject(Rejection::Credentials);
            }
            Err(Refused::NotChecked(text)) => {
                tracing::warn!(from = %self.peer, text, "login refused");
                session.reject(Rejection::NotChecked(text));
            }
        }
    }

    /// Returns the keys for a name. Counts the login as failed; a proof of the password takes that
    /// back.
    fn begin_scram(&mut self, name: &str) -> Result<crate::wire::sasl::AccountKeys, Refused> {
        let attempt = self.passwords.logins().attempt(self.source, name)?;
        match self.passwords.logins().scram_keys(name) {
            Ok(keys) => {
                self.attempt = Some(attempt);
                Ok(keys)
            }
            Err(error) => {
                attempt.withdraw();
                Err(error.into())
            }
        }
    }

    /// Returns the login, or `None` if the password is wrong or nobody has the name; only `None` is
    /// counted as a failure.
    async fn check_password(
        &self,
        name: String,
        password: String,
    ) -> Result<Option<Login>, Refused> {
        let logins = self.passwords.logins();
        if let Some(login) = logins.log_in_from_cache(&name, &password)? {
            return Ok(Some(login));
        }
        let attempt = logins.attempt(self.source, &name)?;
        match self.passwords.check(name, password).await {
            Ok(Some(login)) => {
                attempt.cancel_charge();
                Ok(Some(login))
            }
            // The attempt stays charged.
            Ok(None) => Ok(None),
            Err(reason) => {
                attempt.withdraw();
                Err(reason.into())
            }
        }
    }

    /// Returns the login, or `None` if the token is not valid; only `None` is counted as a failure,
    /// of the source.
    fn check_token(&self, token: &str) -> Result<Option<Login>, Refused> {
        let logins = self.passwords.logins();
        let login = logins.log_in_with_token(token)?;
        if login.is_none() {
            logins.count_invalid_token(self.source)?;
        }
        Ok(login)
    }

    /// Returns the login and the name of its account. `authorization` is the account as which the
    /// client wants to act, which must be its own.
    ///
    /// # Errors
    /// `Wrong` if there is no login, if it is for another account, or if the account is gone;
    /// `NotChecked` if the store cannot be read.
    fn authorize(
        &self,
        login: Option<Login>,
        authorization: Option<String>,
    ) -> Result<(Login, String), Refused> {
        let login = login.ok_or(Refused::Wrong)?;
        if let Some(name) = authorization
            && !self.passwords.logins().may_act_as(&login, &name)?
        {
            return Err(Refused::Wrong);
        }
        let account = self.directory.find_account(&login.account.to_string())?;
        let (_, row) = account.ok_or(Refused::Wrong)?;
        Ok((login, row.name))
    }
}
