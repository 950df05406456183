//! The WebSocket (RFC 8887): requests, several at once, their answers in whatever order they come; and changes, where they
//! are asked for.
//!
//! It logs in as every request does, and is closed when what it logged in with is taken away. Of a client that sends
//! faster than it is answered no more is read; one that does not read is left.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use super::events::{GAP, LOOK};
use super::follow::Follow;
use super::origin::Connection;
use super::problem::Problem;
use super::tally::Counted;
use super::who::Who;
use super::{Backend, api};
use crate::jmap::CAPABILITIES;
use crate::model::limits;
use crate::wire::jmap::socket::{Message as Asked, PROTOCOL, change, read, refusal, response};
use crate::wire::jmap::{Request, json};

/// The longest wait for a client to read.
const UNREAD: Duration = Duration::from_secs(60);

pub(super) async fn open(
    State(backend): State<Arc<Backend>>,
    Extension(who): Extension<Who>,
    connection: Option<Extension<Connection>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let offered = upgrade.requested_protocols().any(|name| name.as_bytes() == PROTOCOL.as_bytes());
    if !offered {
        // RFC 8887 §4.1: both must speak of JMAP.
        return Problem::new(StatusCode::BAD_REQUEST, "the subprotocol is jmap").into_response();
    }
    let Some(counted) = backend.streams.enter(who.key()) else {
        return Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many streams at once").into_response();
    };
    upgrade
        .protocols([PROTOCOL])
        .max_message_size(limits::REQUEST_OCTETS)
        .max_frame_size(limits::REQUEST_OCTETS)
        .on_upgrade(move |socket| async move {
            let _place = connection;
            Talk { backend, who, socket, under_way: JoinSet::new(), push: None, _counted: counted }.run().await;
        })
}

struct Talk {
    backend: Arc<Backend>,
    who: Who,
    socket: WebSocket,
    under_way: JoinSet<Value>,
    push: Option<Push>,
    _counted: Counted,
}

/// What a client hears of.
struct Push {
    types: Option<Vec<String>>,
    follow: Follow,
}

/// Why a conversation ends.
enum End {
    /// The other side went, or does not read.
    Gone,
    /// We end it, for this reason (RFC 6455 §7.4.1).
    Close(u16, &'static str),
}

impl Talk {
    async fn run(mut self) {
        if let Err(End::Close(code, reason)) = self.talk().await {
            let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
            drop(timeout(UNREAD, self.socket.send(Message::Close(Some(frame)))).await);
        }
    }

    async fn talk(&mut self) -> Result<(), End> {
        let mut stop = self.backend.stop.clone();
        let mut tick = interval_at(Instant::now() + LOOK, LOOK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.tell().await?;
            let has_room = self.under_way.len() < limits::CONCURRENT_REQUESTS;
            tokio::select! {
                () = stop.pulled() => return Err(End::Close(close_code::AWAY, "the service stops")),
                Some(done) = self.under_way.join_next() => if let Ok(answer) = done {
                    self.say(&answer).await?;
                },
                () = changed(self.push.as_ref()) => {}
                _ = tick.tick() => {
                    if !self.backend.may_stay(&self.who) {
                        return Err(End::Close(close_code::POLICY, "log in again"));
                    }
                    self.send(Message::Ping(Vec::new().into())).await?;
                }
                message = self.socket.recv(), if has_room => match message {
                    Some(Ok(Message::Text(text))) => self.heard(text.as_bytes()).await?,
                    Some(Ok(Message::Binary(_))) => {
                        return Err(End::Close(close_code::UNSUPPORTED, "messages are texts"));
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(End::Gone),
                },
            }
        }
    }

    async fn heard(&mut self, text: &[u8]) -> Result<(), End> {
        if !self.backend.may_stay(&self.who) {
            return Err(End::Close(close_code::POLICY, "log in again"));
        }
        match read(text, CAPABILITIES) {
            Ok(Asked::Request(request, id)) => {
                let (backend, who) = (Arc::clone(&self.backend), self.who.clone());
                self.under_way.spawn(async move { answered(&backend, &who, request, id).await });
                Ok(())
            }
            Ok(Asked::PushEnable(types, state)) => {
                let unread = |_| End::Close(close_code::ERROR, "changes cannot be read");
                let follow = Follow::begin(&self.backend, &self.who, state.as_deref()).map_err(unread)?;
                self.push = Some(Push { types, follow });
                Ok(())
            }
            Ok(Asked::PushDisable) => {
                self.push = None;
                Ok(())
            }
            Err(refused) => self.say(&refused).await,
        }
    }

    /// Tells what changed, where that is wanted.
    async fn tell(&mut self) -> Result<(), End> {
        let Some(push) = &mut self.push else { return Ok(()) };
        match push.follow.catch_up(push.types.as_deref()) {
            Ok(None) => Ok(()),
            Ok(Some(changed)) => {
                let told = change(changed, &push.follow.text());
                self.say(&told).await?;
                sleep(GAP).await;
                Ok(())
            }
            Err(error) => {
                tracing::warn!(?error, "changes cannot be read");
                Err(End::Close(close_code::ERROR, "changes cannot be read"))
            }
        }
    }

    async fn say(&mut self, value: &Value) -> Result<(), End> {
        let text = String::from_utf8(json::write(value)).unwrap_or_default();
        self.send(Message::Text(text.into())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), End> {
        match timeout(UNREAD, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(End::Gone),
        }
    }
}

async fn changed(push: Option<&Push>) {
    match push {
        Some(push) => push.follow.changed().await,
        None => std::future::pending().await,
    }
}

async fn answered(backend: &Arc<Backend>, who: &Who, request: Request, id: Option<String>) -> Value {
    let counted = backend.requests.enter(who.key());
    let ran = match counted {
        Some(_counted) => api::run(backend, who, request).await,
        None => Err(Problem::limit("maxConcurrentRequests")),
    };
    match ran {
        Ok(whole) => response(whole, id.as_deref()),
        Err(problem) => refusal(problem.body(), id.as_deref()),
    }
}
