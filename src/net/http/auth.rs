//! Logins over HTTP: a password (Basic, RFC 7617) or a token (Bearer, RFC 6750), looked at on every
//! request.
//!
//! A password that was right of late costs nothing; any other is hashed on a thread that may wait,
//! few at once, after the source and the account were found not to have guessed too often. What the
//! log says of a failure is where it came from, never the name: people type passwords into the
//! wrong field.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::time::timeout;

use super::Backend;
use super::blocking::blocking;
use super::origin::{ConnectionInfo, RequestSource, origin};
use super::problem::Problem;
use super::request_context::RequestContext;
use crate::account::Login;
use crate::jmap::Caller;
use crate::wire::http::{Credentials, credentials};

/// The longest wait for a turn at hashing.
const HASHING_TIMEOUT: Duration = Duration::from_secs(10);

/// Why nobody was let in.
enum AuthFailure {
    /// Nobody, or not known. Whether a token was shown.
    Unknown {
        token: bool,
    },
    Problem(Problem),
}

impl<T: Into<Problem>> From<T> for AuthFailure {
    fn from(problem: T) -> Self {
        Self::Problem(problem.into())
    }
}

/// Passes a request on with its authenticated caller, or answers how to log in.
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
    let origin = match origin(&settings, &connection, request.uri(), request.headers()) {
        Ok(origin) => origin,
        Err(problem) => return problem.into_response(),
    };
    let mut fields = request.headers().get_all("authorization").iter();
    let shown = match (fields.next(), fields.next()) {
        (Some(field), None) => credentials(field.as_bytes()),
        _ => None,
    };
    match log_in(&backend, &origin, shown).await {
        Ok(login) => {
            let (account, credential) = (Some(login.account), Some(login.credential));
            let caller = Caller { account, credential, ..Caller::default() };
            request.extensions_mut().insert(RequestContext { caller, base: origin.base.into() });
            next.run(request).await
        }
        Err(AuthFailure::Unknown { token }) => {
            let mut response =
                Problem::new(StatusCode::UNAUTHORIZED, "log in with a password or a token")
                    .into_response();
            let basic = HeaderValue::from_static("Basic realm=\"JMAP\", charset=\"UTF-8\"");
            // RFC 6750 §3.1: what was wrong is said of a token alone.
            let bearer = if token {
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

async fn log_in(
    backend: &Arc<Backend>,
    origin: &RequestSource,
    shown: Option<Credentials>,
) -> Result<Login, AuthFailure> {
    let logins = backend.logins.clone();
    let too_many = |wait: crate::account::TooManyFailures| {
        tracing::warn!(from = ?origin.address, "too many logins that failed");
        AuthFailure::Problem(
            Problem::new(StatusCode::TOO_MANY_REQUESTS, wait.to_string()).after(wait.0),
        )
    };
    match shown {
        None => Err(AuthFailure::Unknown { token: false }),
        Some(Credentials::Bearer(token)) => match logins.log_in_with_token(&token)? {
            Some(login) => Ok(login),
            None => {
                drop(logins.attempt(origin.source, "").map_err(too_many)?);
                tracing::info!(from = ?origin.address, "a token that is none");
                Err(AuthFailure::Unknown { token: true })
            }
        },
        Some(Credentials::Basic { name, password }) => {
            if let Some(login) = logins.log_in_from_cache(&name, &password)? {
                return Ok(login);
            }
            let attempt = logins.attempt(origin.source, &name).map_err(too_many)?;
            let turn = timeout(HASHING_TIMEOUT, Arc::clone(&backend.hashing).acquire_owned()).await;
            let Ok(Ok(turn)) = turn else {
                return Err(Problem::busy("too many log in at once").into());
            };
            let (hashing, name) = (logins.clone(), name.clone());
            let verified = blocking(turn, move || hashing.verify(&name, &password)).await;
            let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "a login failed");
            match verified.map_err(failed)?.0? {
                Some(login) => {
                    attempt.cancel_charge();
                    Ok(login)
                }
                None => {
                    tracing::info!(from = ?origin.address, "a login that failed");
                    Err(AuthFailure::Unknown { token: false })
                }
            }
        }
    }
}
