//! The WebSocket (RFC 8887): requests, several at once, their answers in whatever order they come;
//! and changes, where they are asked for.
//!
//! It logs in as every request does, and is closed when what it logged in with is taken away. Of a
//! client that sends faster than it is answered no more is read; one that does not read is left. A
//! message that is too large, or for which there is no room, is answered with `limit` and ends the
//! connection, as does one that comes too slowly.

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
use super::concurrency::ConcurrencyPermit;
use super::events::{ACCESS_CHECK_INTERVAL, MIN_EVENT_INTERVAL};
use super::in_flight::Reservation;
use super::origin::ConnectionInfo;
use super::problem::Problem;
use super::request_context::RequestContext;
use super::websocket::{ClientMessage, Handshake, ReceiveError, Socket};
use super::{Backend, api};
use crate::jmap::CAPABILITIES;
use crate::model::limits;
use crate::wire::jmap::socket::{PROTOCOL, SocketMessage, change, read, refusal, response};
use crate::wire::jmap::{Request, RequestError, json};

/// Why a connection is closed (RFC 6455 §7.4.1 and its registry).
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
    Extension(who): Extension<RequestContext>,
    mut request: HttpRequest,
) -> Response {
    let handshake = match Handshake::of(&mut request) {
        Ok(handshake) => handshake,
        Err(problem) => return problem.into_response(),
    };
    if !handshake.offers(PROTOCOL) {
        // RFC 8887 §4.1: both must speak of JMAP.
        return Problem::new(StatusCode::BAD_REQUEST, "the subprotocol is jmap").into_response();
    }
    let Some(counted) = backend.streams.enter(who.key()) else {
        return Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many streams at once")
            .into_response();
    };
    let connection = request.extensions_mut().remove::<ConnectionInfo>();
    let room = backend.held.room(who.key(), api::bounds(&who));
    handshake.accept(PROTOCOL, room, move |socket| async move {
        let _connection = connection;
        WebSocketSession {
            backend,
            who,
            socket,
            under_way: JoinSet::new(),
            push: None,
            _counted: counted,
        }
        .run()
        .await;
    })
}

struct WebSocketSession {
    backend: Arc<Backend>,
    who: RequestContext,
    socket: Socket,
    /// Requests at work; each comes back with what counts it, which is held until the answer is
    /// sent.
    under_way: JoinSet<(Value, Option<(ConcurrencyPermit, Reservation)>)>,
    push: Option<PushFeed>,
    _counted: ConcurrencyPermit,
}

/// What a client hears of.
struct PushFeed {
    types: Option<Vec<String>>,
    follow: ChangeFollower,
}

/// Why a conversation ends.
enum CloseReason {
    /// The other side went, or does not read.
    Gone,
    /// We end it, for this reason (RFC 6455 §7.4.1).
    Close(u16, &'static str),
}

impl WebSocketSession {
    async fn run(mut self) {
        if let Err(CloseReason::Close(code, reason)) = self.talk().await {
            self.socket.close(code, reason, &self.backend.stop).await;
        }
    }

    async fn talk(&mut self) -> Result<(), CloseReason> {
        let mut stop = self.backend.stop.clone();
        let pace = BodyPace::within(limits::REQUEST_TIMEOUT);
        let mut tick = interval_at(Instant::now() + ACCESS_CHECK_INTERVAL, ACCESS_CHECK_INTERVAL);
        let mut look = interval_at(Instant::now() + pace.window / 4, pace.window / 4);
        for interval in [&mut tick, &mut look] {
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            self.send_changes().await?;
            let has_room = self.under_way.len() < limits::MAX_CONCURRENT_REQUESTS;
            tokio::select! {
                () = stop.wait() => return Err(CloseReason::Close(code::AWAY, "the service stops")),
                Some(done) = self.under_way.join_next() => if let Ok((answer, _held)) = done {
                    self.send_json(&answer).await?;
                },
                () = wait_for_change(self.push.as_ref()) => {}
                _ = tick.tick() => {
                    if !self.backend.is_still_logged_in(&self.who) {
                        return Err(CloseReason::Close(code::POLICY, "log in again"));
                    }
                    if !self.socket.ping().await {
                        return Err(CloseReason::Gone);
                    }
                }
                _ = look.tick() => if self.socket.is_slow(pace, has_room) {
                    return Err(CloseReason::Close(code::POLICY, "the message comes too slowly"));
                },
                heard = self.socket.receive(), if has_room => match heard {
                    Ok(ClientMessage::Text(text, room)) => self.handle_message(text.as_bytes(), room).await?,
                    Ok(ClientMessage::Bytes) => return Err(CloseReason::Close(code::UNSUPPORTED, "messages are texts")),
                    Ok(ClientMessage::Control) => {}
                    Err(unheard) => return Err(self.refuse(unheard).await?),
                },
            }
        }
    }

    /// Says why a message is refused that was not heard to its end. Nothing can follow it.
    async fn refuse(&mut self, unheard: ReceiveError) -> Result<CloseReason, CloseReason> {
        let (problem, end) = match unheard {
            ReceiveError::Gone => return Err(CloseReason::Gone),
            ReceiveError::TooLarge => {
                let problem = RequestError::Limit("maxSizeRequest").problem();
                (problem, CloseReason::Close(code::TOO_LARGE, "the message is too large"))
            }
            ReceiveError::Full(full) => (
                Problem::from(full).body().clone(),
                CloseReason::Close(code::TRY_AGAIN_LATER, "too much at once"),
            ),
        };
        // Which request it was is not known: its id was in it.
        self.send_json(&refusal(&problem, None)).await?;
        Ok(end)
    }

    async fn handle_message(&mut self, text: &[u8], room: Reservation) -> Result<(), CloseReason> {
        if !self.backend.is_still_logged_in(&self.who) {
            return Err(CloseReason::Close(code::POLICY, "log in again"));
        }
        match read(text, CAPABILITIES) {
            Ok(SocketMessage::Request(request, id)) => {
                let (backend, who) = (Arc::clone(&self.backend), self.who.clone());
                self.under_way
                    .spawn(async move { answer_request(&backend, &who, request, id, room).await });
                Ok(())
            }
            Ok(SocketMessage::PushEnable(types, state)) => {
                let unread = |_| CloseReason::Close(code::ERROR, "changes cannot be read");
                let follow = ChangeFollower::begin(&self.backend, &self.who, state.as_deref())
                    .map_err(unread)?;
                self.push = Some(PushFeed { types, follow });
                Ok(())
            }
            Ok(SocketMessage::PushDisable) => {
                self.push = None;
                Ok(())
            }
            Err(refused) => self.send_json(&refused).await,
        }
    }

    /// Tells what changed, where that is wanted.
    async fn send_changes(&mut self) -> Result<(), CloseReason> {
        let Some(push) = &mut self.push else { return Ok(()) };
        match push.follow.catch_up(push.types.as_deref()) {
            Ok(None) => Ok(()),
            Ok(Some(changed)) => {
                let told = change(changed, &push.follow.text());
                self.send_json(&told).await?;
                sleep(MIN_EVENT_INTERVAL).await;
                self.socket.pause_reading(MIN_EVENT_INTERVAL);
                Ok(())
            }
            Err(error) => {
                tracing::warn!(?error, "changes cannot be read");
                Err(CloseReason::Close(code::ERROR, "changes cannot be read"))
            }
        }
    }

    async fn send_json(&mut self, value: &Value) -> Result<(), CloseReason> {
        let text = String::from_utf8(json::write(value)).unwrap_or_default();
        let (backend, who) = (&self.backend, &self.who);
        // A large answer may take long; the service need not wait for it, nor a log-in that was
        // taken back.
        let goes_on = || !backend.stop.is_stopping() && backend.is_still_logged_in(who);
        if self.socket.send_text(text, goes_on).await { Ok(()) } else { Err(CloseReason::Gone) }
    }
}

async fn wait_for_change(push: Option<&PushFeed>) {
    match push {
        Some(push) => push.follow.wait_for_change().await,
        None => std::future::pending().await,
    }
}

async fn answer_request(
    backend: &Arc<Backend>,
    who: &RequestContext,
    request: Request,
    id: Option<String>,
    room: Reservation,
) -> (Value, Option<(ConcurrencyPermit, Reservation)>) {
    let ran = match backend.requests.enter(who.key()) {
        Some(counted) => api::run(backend, who, request, (counted, room)).await,
        None => Err(Problem::limit("maxConcurrentRequests")),
    };
    match ran {
        Ok((whole, held)) => (response(whole, id.as_deref()), Some(held)),
        Err(problem) => (refusal(problem.body(), id.as_deref()), None),
    }
}
