//! Messages as octets, beside JMAP on the control socket: one way in, one way out.
//!
//! ```text
//! POST /append?account=&mailbox=&keywords=&receivedAt=&known=   body: the message; answer: {emailId, threadId, outcome}
//! GET  /octets?account=&email=                                  answer: the message, our trace fields on top
//! ```
//!
//! `account` is an id, a name or an address, `mailbox` and `email` are ids, `keywords` stand
//! between spaces, `receivedAt` is a date of RFC 3339, `known` the email that an export of the
//! account wrote the file of. Administrators may do it for every account, others for the one that
//! is mapped to their Unix user. What is sent again is not added again. A refusal is problem
//! details (RFC 7807) of a type `urn:restante:problem:…`.

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

use super::body_pace::{BodyPace, PacedBody};
use super::problem::Problem;
use super::request_context::RequestContext;
use super::{Backend, answer, upload};
use crate::model::{AccountId, EmailId, MailboxUid, UtcMillis, keyword, limits};
use crate::store::Error;
use crate::transfer::{AppendRequest, append};
use crate::wire::jmap::MethodError;
use crate::wire::query;

/// Keywords that an email is filed with.
const MAX_KEYWORDS: usize = 1000;

/// Why nothing came of it: the problem's type, and words.
struct Refusal(StatusCode, &'static str, String);

impl Refusal {
    fn bad_request(detail: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, "invalidArguments", detail.into())
    }

    fn response(self) -> Response {
        let Self(status, kind, detail) = self;
        let problem = json!({
            "type": format!("urn:restante:problem:{kind}"), "status": status.as_u16(), "detail": detail,
        });
        answer(status, "application/problem+json", &problem)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let (status, kind) = match &error {
            Error::NotFound("account") => (StatusCode::NOT_FOUND, "accountNotFound"),
            Error::NotFound(_) => (StatusCode::NOT_FOUND, "notFound"),
            Error::Conflict(_) | Error::Mailbox { .. } => (StatusCode::CONFLICT, "conflict"),
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
            other => {
                Self(StatusCode::INTERNAL_SERVER_ERROR, "serverFail", other.arguments().to_string())
            }
        }
    }
}

/// Which room there was none for.
fn busy() -> Refusal {
    Refusal(StatusCode::SERVICE_UNAVAILABLE, "busy", "too much at once: try again".into())
}

pub(super) async fn import_message(
    State(backend): State<Arc<Backend>>,
    Extension(who): Extension<RequestContext>,
    uri: Uri,
    body: Body,
) -> Response {
    match try_import(&backend, &who, &uri, body).await {
        Ok(response) => response,
        Err(refusal) => refusal.response(),
    }
}

async fn try_import(
    backend: &Backend,
    who: &RequestContext,
    uri: &Uri,
    body: Body,
) -> Result<Response, Refusal> {
    let wish = Arguments::of(uri)?;
    let account = open_account(backend, who, wish.text("account")?)?;
    let mailbox = wish
        .text("mailbox")?
        .parse::<MailboxUid>()
        .map_err(|_| Refusal::bad_request("mailbox: no id"))?;
    let keywords = keywords(wish.optional("keywords").unwrap_or_default())?;
    let received_at = match wish.optional("receivedAt") {
        Some(text) => UtcMillis::parse_rfc3339(text)
            .ok_or_else(|| Refusal::bad_request("receivedAt: no date"))?,
        None => backend.store.clock().now(),
    };
    let known = wish.optional("known").map(str::parse::<EmailId>).transpose();
    let known_as = known.map_err(|_| Refusal::bad_request("known: no id"))?;

    let max_message = backend.settings.get().max_message;
    let most = usize::try_from(max_message).unwrap_or(usize::MAX);
    let too_large = || {
        let detail = format!("the message is larger than {max_message} octets");
        Refusal(StatusCode::PAYLOAD_TOO_LARGE, "tooLarge", detail)
    };
    if body.size_hint().lower() > max_message {
        return Err(too_large());
    }
    let paced = PacedBody::new(body, BodyPace::within(limits::UPLOAD_TIMEOUT));
    let (collected, room) =
        upload::collect(backend, who, paced, most).await?.ok_or_else(too_large)?;
    let into = backend.store.clone();
    let appended = upload::store(backend, collected, move |raw| {
        append(
            &into,
            account,
            &AppendRequest { raw: &raw, mailbox, keywords, received_at, known_as },
        )
    });
    let (done, ticket) = appended.await??;
    ticket.wait().await?;
    drop(room);
    tracing::debug!(%account, email = %done.email, outcome = done.outcome.name(), "appended");
    let done = json!({
        "emailId": done.email.to_string(), "threadId": done.thread.to_string(), "outcome": done.outcome.name(),
    });
    Ok(answer(StatusCode::OK, "application/json", &done))
}

pub(super) async fn export_message(
    State(backend): State<Arc<Backend>>,
    Extension(who): Extension<RequestContext>,
    uri: Uri,
) -> Response {
    match try_export(&backend, &who, &uri).await {
        Ok(response) => response,
        Err(refusal) => refusal.response(),
    }
}

async fn try_export(
    backend: &Backend,
    who: &RequestContext,
    uri: &Uri,
) -> Result<Response, Refusal> {
    let wish = Arguments::of(uri)?;
    let account = open_account(backend, who, wish.text("account")?)?;
    let missing = || Refusal::from(Error::NotFound("email"));
    let id = wish.text("email")?.parse::<EmailId>().map_err(|_| missing())?;
    let email = backend.store.snapshot().email(account, id)?.ok_or_else(missing)?;
    let octets = usize::try_from(email.size).unwrap_or(usize::MAX);
    // Who reads slowly keeps others from reading, and nobody from writing.
    let held = backend.out_flight.take(octets).await.ok_or_else(busy)?;
    let store = backend.store.clone();
    let read = tokio::task::spawn_blocking(move || store.snapshot().message(account, id));
    let octets = read.await.map_err(|error| Error::Io(error.to_string()))??.ok_or_else(missing)?;
    let body = Body::new(OutgoingMessage { octets: Some(octets.into()), _room: held });
    Ok(([("content-type", "message/rfc822")], body).into_response())
}

fn open_account(
    backend: &Backend,
    who: &RequestContext,
    account: &str,
) -> Result<AccountId, Refusal> {
    let settings = backend.settings.get();
    let context = backend.context(&settings, who);
    Ok(context.managed_account(account)?.0)
}

fn keywords(words: &str) -> Result<BTreeSet<String>, Refusal> {
    let wrong =
        |word: &str| Refusal::bad_request(format!("keywords: {word} is none (RFC 8621 §4.1.1)"));
    let words: Result<BTreeSet<String>, Refusal> = words
        .split(' ')
        .filter(|word| !word.is_empty())
        .map(|word| keyword::normalize(word).ok_or_else(|| wrong(word)))
        .collect();
    words.and_then(|words| {
        if words.len() <= MAX_KEYWORDS {
            Ok(words)
        } else {
            Err(Refusal::bad_request("keywords: too many"))
        }
    })
}

/// What a query says.
struct Arguments(Vec<(String, String)>);

impl Arguments {
    fn of(uri: &Uri) -> Result<Self, Refusal> {
        query::read(uri.query().unwrap_or_default())
            .map(Self)
            .map_err(|error| Refusal::bad_request(error.to_string()))
    }

    fn optional(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn text(&self, name: &str) -> Result<&str, Refusal> {
        self.optional(name).ok_or_else(|| Refusal::bad_request(format!("{name} is wanted")))
    }
}

/// A message on its way out, which takes its room until it is gone.
struct OutgoingMessage {
    octets: Option<Bytes>,
    _room: OwnedSemaphorePermit,
}

impl hyper::body::Body for OutgoingMessage {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Waker<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.octets.take().map(|octets| Ok(Frame::data(octets))))
    }

    fn is_end_stream(&self) -> bool {
        self.octets.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.octets.as_ref().map_or(0, |octets| octets.len() as u64))
    }
}
