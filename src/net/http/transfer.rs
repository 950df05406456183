//! Imports and exports messages and imports Sieve scripts, as bytes, on the control socket.
//!
//! ```text
//! POST /append?account=&mailbox=&keywords=&receivedAt=&known=
//!      body: the message; response: {emailId, threadId, outcome, keywordsCut}
//! POST /append-script?account=&name=&activate=&dryRun=
//!      body: the script; response: {outcome, valid, active, changes, diagnostics, notes}
//! GET  /octets?account=&email=
//!      response: the message, with the trace prefix
//! ```
//!
//! - `account` is an id, a name or an address; `mailbox` and `email` are ids; `keywords` are
//!   separated by spaces; `receivedAt` is a date (RFC 3339); `known` is the email from which an
//!   export of the account wrote the message.
//! - A message that is imported again with the same `receivedAt` or `known` adds no second email.
//!   If the second import names another mailbox, the email is added to that mailbox, and has the
//!   keywords of both imports; `keywordsCut` says whether keywords were left out because they were
//!   too many.
//! - `activate` and `dryRun` are `true` or `false`, and false if they are missing. With `dryRun`
//!   nothing is stored, and the response says what would be. A script with errors is stored and not
//!   activated (`valid`). `active` is the name of the active script afterwards, or null.
//! - The script is adapted to this site before it is stored: `changes` says how, `diagnostics` what
//!   is wrong with the result, and `notes` which scripts and mailboxes that it uses do not exist
//!   (with `dryRun`, only which scripts).
//! - A refusal has problem details (RFC 7807) of a type `urn:restante:problem:…`.

mod script;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Waker, Poll};

use axum::Extension;
use axum::body::{Body, HttpBody as _};
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Bytes, Frame, SizeHint};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::body_pace::PacedBody;
use super::problem::Problem;
use super::request_context::RequestContext;
use super::{Backend, json_response, upload};
use crate::model::{AccountId, EmailId, MailboxUid, UtcMillis, keyword, limits};
use crate::store::Error;
use crate::transfer::{AppendRequest, append};
use crate::wire::jmap::MethodError;
use crate::wire::query;

pub(super) use script::import_script;

/// The status, the last part of the problem's type, and the detail.
struct Refusal(StatusCode, &'static str, String);

impl Refusal {
    fn bad_request(detail: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, "invalidArguments", detail.into())
    }

    fn response(self) -> Response {
        let Self(status, kind, detail) = self;
        let problem = json!({
            "type": format!("urn:restante:problem:{kind}"),
            "status": status.as_u16(),
            "detail": detail,
        });
        json_response(status, "application/problem+json", &problem)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let (status, kind) = match &error {
            Error::NotFound("account") => (StatusCode::NOT_FOUND, "accountNotFound"),
            Error::NotFound(_) => (StatusCode::NOT_FOUND, "notFound"),
            Error::Conflict(_) | Error::Mailbox { .. } | Error::Script(_) => {
                (StatusCode::CONFLICT, "conflict")
            }
            Error::Quota => (StatusCode::INSUFFICIENT_STORAGE, "overQuota"),
            Error::Full => (StatusCode::INSUFFICIENT_STORAGE, "full"),
            Error::QueueFull(_) => (StatusCode::SERVICE_UNAVAILABLE, "queueFull"),
            Error::Overtaken(_) => (StatusCode::SERVICE_UNAVAILABLE, "overtaken"),
            Error::Away(_) => (StatusCode::SERVICE_UNAVAILABLE, "away"),
            Error::Rebuilding(_) | Error::Stopped => {
                (StatusCode::SERVICE_UNAVAILABLE, "rebuilding")
            }
            Error::Poisoned(_) => (StatusCode::SERVICE_UNAVAILABLE, "poisoned"),
            Error::Corrupt { .. } | Error::Open(_) | Error::Io(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "serverFail")
            }
        };
        Self(status, kind, error.to_string())
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        let kind = match problem.status() {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => "busy",
            StatusCode::INSUFFICIENT_STORAGE => "full",
            status if status.is_client_error() => "invalidArguments",
            _ => "serverFail",
        };
        Self(problem.status(), kind, problem.detail().to_owned())
    }
}

impl From<MethodError> for Refusal {
    fn from(error: MethodError) -> Self {
        match error {
            MethodError::Forbidden(detail) => Self(StatusCode::FORBIDDEN, "forbidden", detail),
            MethodError::AccountNotFound => Self::from(Error::NotFound("account")),
            MethodError::ServerUnavailable(detail) => Self::from(Problem::busy(&detail)),
            other => Self(StatusCode::INTERNAL_SERVER_ERROR, "serverFail", other.description()),
        }
    }
}

fn busy() -> Refusal {
    Refusal(
        StatusCode::SERVICE_UNAVAILABLE,
        "busy",
        "too many messages are being sent: try again later".into(),
    )
}

/// Answers `POST /append`.
pub(super) async fn import_message(
    State(backend): State<Arc<Backend>>,
    Extension(request_context): Extension<RequestContext>,
    uri: Uri,
    body: Body,
) -> Response {
    match try_import(&backend, &request_context, &uri, body).await {
        Ok(response) => response,
        Err(refusal) => refusal.response(),
    }
}

async fn try_import(
    backend: &Backend,
    request_context: &RequestContext,
    uri: &Uri,
    body: Body,
) -> Result<Response, Refusal> {
    let arguments = Arguments::parse(uri)?;
    let account = open_account(backend, request_context, arguments.required("account")?)?;
    let mailbox = arguments
        .required("mailbox")?
        .parse::<MailboxUid>()
        .map_err(|_| Refusal::bad_request("mailbox: not an id"))?;
    let keywords = parse_keywords(arguments.optional("keywords").unwrap_or_default())?;
    let received_at = match arguments.optional("receivedAt") {
        Some(text) => UtcMillis::parse_rfc3339(text)
            .ok_or_else(|| Refusal::bad_request("receivedAt: not a date (RFC 3339)"))?,
        None => backend.store.clock().now(),
    };
    let known_as = arguments.optional("known").map(str::parse::<EmailId>).transpose();
    let known_as = known_as.map_err(|_| Refusal::bad_request("known: not an id"))?;

    let max_message = backend.settings.get().max_message;
    let max = usize::try_from(max_message).unwrap_or(usize::MAX);
    let too_large = || {
        let detail = format!("the message is larger than {max_message} bytes");
        Refusal(StatusCode::PAYLOAD_TOO_LARGE, "tooLarge", detail)
    };
    if body.size_hint().lower() > max_message {
        return Err(too_large());
    }
    let paced = PacedBody::of_request(body, limits::UPLOAD_TIMEOUT, &backend.stop);
    let (collected, reservation) =
        upload::collect(backend, request_context, paced, max).await?.ok_or_else(too_large)?;
    let store = backend.store.clone();
    let appended = upload::store(backend, collected, move |raw| {
        append(
            &store,
            account,
            &AppendRequest { raw: &raw, mailbox, keywords, received_at, known_as },
        )
    });
    let (result, ticket) = appended.await??;
    ticket.wait().await?;
    drop(reservation);
    let outcome = result.outcome.name();
    tracing::debug!(%account, email = %result.email, outcome, "imported a message");
    let response = json!({
        "emailId": result.email.to_string(),
        "threadId": result.thread.to_string(),
        "outcome": outcome,
        "keywordsCut": result.keywords_cut,
    });
    Ok(json_response(StatusCode::OK, "application/json", &response))
}

/// Answers `GET /octets`.
pub(super) async fn export_message(
    State(backend): State<Arc<Backend>>,
    Extension(request_context): Extension<RequestContext>,
    uri: Uri,
) -> Response {
    match try_export(&backend, &request_context, &uri).await {
        Ok(response) => response,
        Err(refusal) => refusal.response(),
    }
}

async fn try_export(
    backend: &Backend,
    request_context: &RequestContext,
    uri: &Uri,
) -> Result<Response, Refusal> {
    let arguments = Arguments::parse(uri)?;
    let account = open_account(backend, request_context, arguments.required("account")?)?;
    let missing = || Refusal::from(Error::NotFound("email"));
    let id = arguments.required("email")?.parse::<EmailId>().map_err(|_| missing())?;
    let email = backend.store.snapshot().email(account, id)?.ok_or_else(missing)?;
    let size = usize::try_from(email.size).unwrap_or(usize::MAX);
    // Imports take `storing_memory`, so a client that reads slowly does not delay them.
    let memory = backend.outgoing_memory.acquire(size).await.ok_or_else(busy)?;
    let store = backend.store.clone();
    let read = tokio::task::spawn_blocking(move || store.snapshot().message(account, id));
    let bytes = read.await.map_err(|error| Error::Io(error.to_string()))??.ok_or_else(missing)?;
    let body = Body::new(OutgoingMessage { bytes: Some(bytes.into()), _memory: memory });
    Ok(([("content-type", "message/rfc822")], body).into_response())
}

/// Finds an account that the caller may manage.
fn open_account(
    backend: &Backend,
    request_context: &RequestContext,
    account: &str,
) -> Result<AccountId, Refusal> {
    let context = backend.context(&backend.settings.get(), request_context);
    Ok(context.managed_account(account)?.0)
}

fn parse_keywords(text: &str) -> Result<BTreeSet<String>, Refusal> {
    let invalid = |word: &str| {
        Refusal::bad_request(format!("keywords: {word} is not a keyword (RFC 8621 §4.1.1)"))
    };
    let keywords: Result<BTreeSet<String>, Refusal> = text
        .split(' ')
        .filter(|word| !word.is_empty())
        .map(|word| keyword::normalize(word).ok_or_else(|| invalid(word)))
        .collect();
    keywords.and_then(|keywords| {
        if keywords.len() <= limits::MAX_KEYWORDS {
            Ok(keywords)
        } else {
            let most = limits::MAX_KEYWORDS;
            Err(Refusal::bad_request(format!("keywords: an email may have {most} at most")))
        }
    })
}

/// The query of a request.
struct Arguments(Vec<(String, String)>);

impl Arguments {
    fn parse(uri: &Uri) -> Result<Self, Refusal> {
        query::read(uri.query().unwrap_or_default())
            .map(Self)
            .map_err(|error| Refusal::bad_request(error.to_string()))
    }

    fn optional(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// False if the argument is missing.
    fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.optional(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Refusal::bad_request(format!("{name}: neither true nor false"))),
        }
    }

    fn required(&self, name: &str) -> Result<&str, Refusal> {
        self.optional(name).ok_or_else(|| Refusal::bad_request(format!("{name} is missing")))
    }
}

/// A response body that holds its memory permit until it is dropped.
struct OutgoingMessage {
    bytes: Option<Bytes>,
    _memory: OwnedSemaphorePermit,
}

impl hyper::body::Body for OutgoingMessage {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Waker<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_of_a_failed_method_has_its_description_and_may_be_tried_again() {
        let refusal = |error: MethodError| {
            let Refusal(status, kind, detail) = Refusal::from(error);
            (status.as_u16(), kind, detail)
        };
        let fail = MethodError::ServerFail("a row".into());
        assert_eq!(refusal(fail), (500, "serverFail", "a row".into()));
        let later = MethodError::ServerUnavailable("later".into());
        assert_eq!(refusal(later), (503, "busy", "later".into()));
    }
}
