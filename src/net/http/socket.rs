//! JMAP over WebSocket (RFC 8887): concurrent requests, answered in any order, and pushed changes.
//!
//! - The connection is closed when the client's password or token is removed or has expired. This
//!   is checked with each message, and every `ACCESS_CHECK_INTERVAL`.
//! - Nothing is read while as many requests are active as a caller may have.
//! - The connection is closed if the client does not read, or sends a message too slowly.
//! - A message that is too large, or for which there is no memory, is refused; then the connection
//!   is closed.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::body_pace::BodyPace;
use super::change_follower::ChangeFollower;
use super::events::{ACCESS_CHECK_INTERVAL, MIN_EVENT_INTERVAL};
use super::handshake::Handshake;
use super::in_flight::Reservation;
use super::origin::ConnectionInfo;
use super::problem::Problem;
use super::request_context::RequestContext;
use super::websocket::{ClientMessage, ReceiveError, Socket};
use super::{Backend, api};
use crate::jmap::CAPABILITIES;
use crate::model::limits;
use crate::net::concurrency::ConcurrencyPermit;
use crate::wire::jmap::socket::{PROTOCOL, SocketMessage, change, read, refusal, response};
use crate::wire::jmap::{Request, RequestError, json};

/// Status codes of close frames (RFC 6455 §7.4.1 and its registry).
mod code {
    pub(super) const AWAY: u16 = 1001;
    pub(super) const UNSUPPORTED: u16 = 1003;
    pub(super) const POLICY: u16 = 1008;
    pub(super) const TOO_LARGE: u16 = 1009;
    pub(super) const ERROR: u16 = 1011;
    pub(super) const TRY_AGAIN_LATER: u16 = 1013;
}

pub(super) async fn open(
    State(backend): State<Arc<Backend>>,
    Extension(context): Extension<RequestContext>,
    mut request: HttpRequest,
) -> Response {
    let handshake = match Handshake::parse(&mut request) {
        Ok(handshake) => handshake,
        Err(problem) => return problem.into_response(),
    };
    if !handshake.offers(PROTOCOL) {
        // RFC 8887 §4.1 requires the subprotocol of both sides.
        return Problem::new(StatusCode::BAD_REQUEST, "the subprotocol must be jmap")
            .into_response();
    }
    let Some(permit) = backend.streams.enter(context.key()) else {
        return Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many streams at once")
            .into_response();
    };
    let connection = request.extensions_mut().remove::<ConnectionInfo>();
    let reservation = backend.request_bytes.reservation(&context);
    handshake.accept(PROTOCOL, reservation, move |socket| async move {
        let _connection = connection;
        WebSocketSession {
            backend,
            context,
            socket,
            requests: JoinSet::new(),
            push: None,
            _permit: permit,
        }
        .run()
        .await;
    })
}

struct WebSocketSession {
    backend: Arc<Backend>,
    context: RequestContext,
    socket: Socket,
    /// The active requests. Each returns its permits, which are kept until the response is sent.
    requests: JoinSet<WrittenResponse>,
    /// `None` while the client does not want pushes.
    push: Option<PushFeed>,
    _permit: ConcurrencyPermit,
}

/// A message to the client, and the permits of its request. A refused request has none.
type WrittenResponse = (Vec<u8>, Option<(ConcurrencyPermit, Reservation)>);

/// What is pushed to the client.
struct PushFeed {
    /// `None` is all types.
    types: Option<Vec<String>>,
    follower: ChangeFollower,
}

enum CloseReason {
    /// The client disconnected or does not read.
    Gone,
    /// A code and a reason (RFC 6455 §7.4.1).
    Close(u16, &'static str),
}

impl WebSocketSession {
    /// Serves the connection to its end, and sends the close frame if the client may read it.
    async fn run(mut self) {
        if let Err(CloseReason::Close(code, reason)) = self.serve().await {
            self.socket.close(code, reason, &self.backend.stop).await;
        }
    }

    /// Serves the connection. Ends only with an error.
    async fn serve(&mut self) -> Result<(), CloseReason> {
        let mut stop = self.backend.stop.clone();
        let pace = BodyPace::within(limits::REQUEST_TIMEOUT);
        let mut access_check =
            interval_at(Instant::now() + ACCESS_CHECK_INTERVAL, ACCESS_CHECK_INTERVAL);
        let mut pace_check = interval_at(Instant::now() + pace.window / 4, pace.window / 4);
        for interval in [&mut access_check, &mut pace_check] {
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            self.send_changes().await?;
            let may_read = self.requests.len() < limits::MAX_CONCURRENT_REQUESTS;
            tokio::select! {
                () = stop.wait() => return Err(CloseReason::Close(code::AWAY, "the service stops")),
                Some(done) = self.requests.join_next() => if let Ok((response, _permits)) = done {
                    self.send(response).await?;
                },
                () = wait_for_change(self.push.as_ref()) => {}
                _ = access_check.tick() => {
                    if !self.backend.is_still_logged_in(&self.context) {
                        return Err(CloseReason::Close(code::POLICY, "log in again"));
                    }
                    // Sending fails if the client is gone.
                    if !self.socket.ping().await {
                        return Err(CloseReason::Gone);
                    }
                }
                _ = pace_check.tick() => if self.socket.is_slow(pace, may_read) {
                    let reason = "the message was sent too slowly";
                    return Err(CloseReason::Close(code::POLICY, reason));
                },
                received = self.socket.receive(), if may_read => match received {
                    Ok(ClientMessage::Text(text, reservation)) => {
                        self.handle_message(text.as_bytes(), reservation).await?;
                    }
                    Ok(ClientMessage::Bytes) => {
                        let reason = "messages must be text";
                        return Err(CloseReason::Close(code::UNSUPPORTED, reason));
                    }
                    Ok(ClientMessage::Control) => {}
                    Err(error) => return Err(self.refuse(error).await?),
                },
            }
        }
    }

    /// Answers a message that could not be received, and returns why the session must end. Returns
    /// an error if the client is gone, so that there is no answer.
    async fn refuse(&mut self, error: ReceiveError) -> Result<CloseReason, CloseReason> {
        let (problem, reason) = match error {
            ReceiveError::Gone => return Err(CloseReason::Gone),
            ReceiveError::TooLarge => {
                let problem = RequestError::Limit("maxSizeRequest").problem();
                (problem, CloseReason::Close(code::TOO_LARGE, "the message is too large"))
            }
            ReceiveError::NoMemory(error) => (
                Problem::from(error).body().clone(),
                CloseReason::Close(code::TRY_AGAIN_LATER, "too many bytes in flight"),
            ),
        };
        // The id of the request is unknown, because it is in the message.
        self.send_json(&refusal(&problem, None)).await?;
        Ok(reason)
    }

    /// Begins a request, begins or ends pushes, or refuses a message that cannot be read.
    async fn handle_message(
        &mut self,
        text: &[u8],
        reservation: Reservation,
    ) -> Result<(), CloseReason> {
        if !self.backend.is_still_logged_in(&self.context) {
            return Err(CloseReason::Close(code::POLICY, "log in again"));
        }
        match read(text, CAPABILITIES) {
            Ok(SocketMessage::Request(request, id)) => {
                let (backend, context) = (Arc::clone(&self.backend), self.context.clone());
                self.requests.spawn(async move {
                    answer_request(&backend, &context, request, id, reservation).await
                });
                Ok(())
            }
            Ok(SocketMessage::PushEnable(types, state)) => {
                let failed = |_| CloseReason::Close(code::ERROR, "changes cannot be read");
                let follower =
                    ChangeFollower::begin(&self.backend, &self.context, state.as_deref())
                        .map_err(failed)?;
                self.push = Some(PushFeed { types, follower });
                Ok(())
            }
            Ok(SocketMessage::PushDisable) => {
                self.push = None;
                Ok(())
            }
            Err(refusal) => self.send_json(&refusal).await,
        }
    }

    /// Sends the changes that the client wants and does not know, and then waits a little, so that
    /// further changes are sent together.
    async fn send_changes(&mut self) -> Result<(), CloseReason> {
        let Some(push) = &mut self.push else { return Ok(()) };
        match push.follower.catch_up(push.types.as_deref()) {
            Ok(None) => Ok(()),
            Ok(Some(changed)) => {
                let message = change(changed, &push.follower.text());
                self.send_json(&message).await?;
                sleep(MIN_EVENT_INTERVAL).await;
                self.socket.pause_reading(MIN_EVENT_INTERVAL);
                Ok(())
            }
            Err(error) => {
                tracing::warn!(?error, "a WebSocket is closed: cannot read the changes");
                Err(CloseReason::Close(code::ERROR, "changes cannot be read"))
            }
        }
    }

    async fn send_json(&mut self, value: &Value) -> Result<(), CloseReason> {
        self.send(json::write(value)).await
    }

    async fn send(&mut self, json: Vec<u8>) -> Result<(), CloseReason> {
        let text = String::from_utf8(json).unwrap_or_default();
        let (backend, context) = (&self.backend, &self.context);
        // A large response may take long.
        let may_continue = || !backend.stop.is_stopping() && backend.is_still_logged_in(context);
        if self.socket.send_text(text, may_continue).await {
            Ok(())
        } else {
            Err(CloseReason::Gone)
        }
    }
}

/// Waits for a change; forever if there are no pushes.
async fn wait_for_change(push: Option<&PushFeed>) {
    match push {
        Some(push) => push.follower.wait_for_change().await,
        None => std::future::pending().await,
    }
}

/// Runs a request, or refuses it if the caller has too many at a time.
async fn answer_request(
    backend: &Arc<Backend>,
    context: &RequestContext,
    request: Request,
    id: Option<String>,
    reservation: Reservation,
) -> WrittenResponse {
    let result = match backend.requests.enter(context.key()) {
        Some(permit) => {
            let (held, id) = ((permit, reservation), id.clone());
            api::run(backend, context, request, held, move |done| response(done, id.as_deref()))
                .await
        }
        None => Err(Problem::limit("maxConcurrentRequests")),
    };
    match result {
        Ok((json, permits)) => (json, Some(permits)),
        Err(problem) => (json::write(&refusal(problem.body(), id.as_deref())), None),
    }
}
