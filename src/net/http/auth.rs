//! Authenticates requests on the public listeners by a password (Basic, RFC 7617) or a token
//! (Bearer, RFC 6750).
//!
//! - Every request is authenticated by itself.
//! - A password that was recently verified is found in a cache. Any other is hashed, a few at a
//!   time. If the source or the account has had too many failures, it is not hashed, and the
//!   request is refused with 429.
//! - The log names the network address of a failed login but not the user name, because people type
//!   passwords into the wrong field.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::Backend;
use super::origin::{ConnectionInfo, RequestSource, request_source};
use super::problem::Problem;
use super::request_context::RequestContext;
use crate::account::Login;
use crate::jmap::Caller;
use crate::net::passwords::NotChecked;
use crate::wire::http::{Credentials, credentials};

enum AuthFailure {
    /// Answered with 401.
    NoValidCredentials {
        /// Whether the request has a token, which is not valid.
        has_token: bool,
    },
    /// The credentials were not checked, or the token is wrong and too many were before.
    Problem(Problem),
}

impl<T: Into<Problem>> From<T> for AuthFailure {
    fn from(problem: T) -> Self {
        Self::Problem(problem.into())
    }
}

/// Passes a request on with its authenticated caller.
pub(super) async fn authenticate(
    State(backend): State<Arc<Backend>>,
    mut request: Request,
    next: Next,
) -> Response {
    let connection = request.extensions().get::<ConnectionInfo>().cloned();
    let Some(connection) = connection else {
        return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "no connection").into_response();
    };
    let settings = backend.http.get();
    let source = match request_source(&settings, &connection, request.uri(), request.headers()) {
        Ok(source) => source,
        Err(problem) => return problem.into_response(),
    };
    // More than one Authorization field counts as none.
    let mut fields = request.headers().get_all("authorization").iter();
    let credentials = match (fields.next(), fields.next()) {
        (Some(field), None) => credentials(field.as_bytes()),
        _ => None,
    };
    match log_in(&backend, &source, credentials).await {
        Ok(login) => {
            let (account, credential) = (Some(login.account), Some(login.credential));
            let caller = Caller { account, credential, ..Caller::default() };
            request.extensions_mut().insert(RequestContext { caller, base: source.base.into() });
            next.run(request).await
        }
        Err(AuthFailure::NoValidCredentials { has_token }) => {
            let mut response =
                Problem::new(StatusCode::UNAUTHORIZED, "log in with a password or a token")
                    .into_response();
            let basic = HeaderValue::from_static("Basic realm=\"JMAP\", charset=\"UTF-8\"");
            // RFC 6750 §3.1: the error is only for requests that have a token.
            let bearer = if has_token {
                "Bearer realm=\"JMAP\", error=\"invalid_token\""
            } else {
                "Bearer realm=\"JMAP\""
            };
            response.headers_mut().append("www-authenticate", basic);
            response.headers_mut().append("www-authenticate", HeaderValue::from_static(bearer));
            response
        }
        Err(AuthFailure::Problem(problem)) => problem.into_response(),
    }
}

/// Checks the credentials, and counts a failure. `credentials` is `None` if the request has none
/// that can be read.
async fn log_in(
    backend: &Arc<Backend>,
    source: &RequestSource,
    credentials: Option<Credentials>,
) -> Result<Login, AuthFailure> {
    let logins = backend.logins.clone();
    let too_many = |wait: crate::account::TooManyFailures| {
        tracing::warn!(from = ?source.address, "too many failed logins");
        AuthFailure::Problem(
            Problem::new(StatusCode::TOO_MANY_REQUESTS, wait.to_string()).with_retry_after(wait.0),
        )
    };
    match credentials {
        None => Err(AuthFailure::NoValidCredentials { has_token: false }),
        Some(Credentials::Bearer(token)) => match logins.log_in_with_token(&token)? {
            Some(login) => Ok(login),
            None => {
                logins.count_invalid_token(source.login_source).map_err(too_many)?;
                tracing::info!(from = ?source.address, "invalid token");
                Err(AuthFailure::NoValidCredentials { has_token: true })
            }
        },
        Some(Credentials::Basic { name, password }) => {
            if let Some(login) = logins.log_in_from_cache(&name, &password)? {
                return Ok(login);
            }
            let attempt = logins.attempt(source.login_source, &name).map_err(too_many)?;
            match backend.passwords.check(name, password).await {
                Ok(Some(login)) => {
                    attempt.cancel_charge();
                    Ok(login)
                }
                Ok(None) => {
                    // The attempt stays charged.
                    tracing::info!(from = ?source.address, "login failed");
                    Err(AuthFailure::NoValidCredentials { has_token: false })
                }
                Err(reason) => {
                    attempt.withdraw();
                    Err(AuthFailure::Problem(reason.into()))
                }
            }
        }
    }
}

impl From<NotChecked> for Problem {
    fn from(reason: NotChecked) -> Self {
        match reason {
            NotChecked::Busy => Self::busy("too many logins at once"),
            NotChecked::Panicked => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the login failed")
            }
            NotChecked::Store(error) => error.into(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::account::{Directory, LoginSource, Logins, NewAccount, Settings, hash_password};
    use crate::model::clock::FixedClock;
    use crate::model::{Address, LiveValue, UtcMillis};
    use crate::net::http::ControlSettings;
    use crate::net::stop::switch;
    use crate::store::engine::memory::MemoryEngine;
    use crate::store::{Options, Store};

    /// A backend with the account ann@example.org, whose password is `s3cret`.
    pub(in crate::net::http) fn backend() -> Arc<Backend> {
        let clock = Arc::new(FixedClock::at(UtcMillis(1_795_251_600_000)));
        let store =
            Store::open_engine(Arc::new(MemoryEngine::new()), &Options::small(), clock).unwrap();
        let directory = Directory::new(store.clone(), Settings::default());
        let ann =
            directory.add(&NewAccount::at(Address::parse("ann@example.org").unwrap())).unwrap();
        let hash = hash_password("s3cret").unwrap();
        directory.update(ann, |row| row.passwords = vec![("phone".into(), hash.clone())]).unwrap();
        let settings = LiveValue::new(ControlSettings {
            vacation: crate::vacation::Settings::default(),
            filter: Arc::default(),
            hostname: "localhost".into(),
            restore: Duration::ZERO,
            administrators: Vec::new(),
            max_request: 0,
            max_message: 0,
            body_in_memory: 0,
            spill_dir: "/nonexistent".into(),
        });
        let http = LiveValue::default();
        let deliver = Arc::new(|_, _, _| Vec::new());
        let logins = Logins::new(directory.clone(), Arc::clone(store.clock())).unwrap();
        let stop = switch().1;
        Arc::new(Backend::new(store, directory, deliver, settings, http, logins, stop))
    }

    fn source(address: &str) -> RequestSource {
        let address: std::net::IpAddr = address.parse().unwrap();
        let base = "https://mail.example.org".into();
        RequestSource { login_source: LoginSource::from(address), address: Some(address), base }
    }

    /// Logs in, and returns the status of the refusal; 200 if there is none.
    fn log_in_status(
        backend: &Arc<Backend>,
        address: &str,
        credentials: Credentials,
    ) -> StatusCode {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        match runtime.block_on(log_in(backend, &source(address), Some(credentials))) {
            Ok(_) => StatusCode::OK,
            Err(AuthFailure::NoValidCredentials { .. }) => StatusCode::UNAUTHORIZED,
            Err(AuthFailure::Problem(problem)) => problem.status(),
        }
    }

    /// A source may fail 20 times without a wait (`account::login::failures`).
    #[test]
    fn invalid_tokens_of_others_cost_a_source_nothing() {
        let backend = backend();
        let status = |address: &str| {
            log_in_status(&backend, address, Credentials::Bearer("restante_x".into()))
        };
        for n in 0..200 {
            assert_eq!(status(&format!("198.51.100.{n}")), StatusCode::UNAUTHORIZED, "{n}");
        }
        for _ in 0..20 {
            assert_eq!(status("192.0.2.9"), StatusCode::UNAUTHORIZED);
        }
        assert_eq!(status("192.0.2.9"), StatusCode::TOO_MANY_REQUESTS);
    }

    #[test]
    fn login_that_was_not_checked_is_not_counted_as_a_failure() {
        let backend = backend();
        // No password is checked any more.
        backend.passwords.close();
        let (name, password) = ("ann@example.org".to_owned(), "s3cret".to_owned());
        let status = || {
            let credentials = Credentials::Basic { name: name.clone(), password: password.clone() };
            log_in_status(&backend, "192.0.2.9", credentials)
        };
        for n in 0..200 {
            assert_eq!(status(), StatusCode::SERVICE_UNAVAILABLE, "{n}");
        }
    }
}
