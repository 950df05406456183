//! `GET` of events (RFC 8620 §7.3): a stream of `StateChange`s in the form of `text/event-stream`.
//!
//! A change is told within milliseconds; of many in a row the last states are told, some twenty
//! times a second at most. Who comes back with `Last-Event-ID` is told what changed meanwhile. A
//! stream ends after an hour, when the service stops, and when what the client logged in with is
//! taken away; it comes back by itself.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until};

use super::Backend;
use super::change_follower::ChangeFollower;
use super::piece_body::{Pieces, pieces};
use super::problem::Problem;
use super::request_context::RequestContext;
use crate::net::stop::StopSignal;
use crate::wire::query;

/// How long a stream lives.
const MAX_STREAM_LIFETIME: Duration = Duration::from_secs(3600);
/// The least time between two events: what changes meanwhile is told together.
pub(super) const MIN_EVENT_INTERVAL: Duration = Duration::from_millis(50);
/// Seconds between pings: the least and the most.
const PING_SECONDS: (u64, u64) = (5, 3600);
/// How often it is looked whether the client may still listen.
pub(super) const ACCESS_CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Types that a client names.
const MAX_TYPES: usize = 64;

/// What a client wants to hear.
#[derive(Debug, PartialEq, Eq)]
struct EventOptions {
    /// Names of types; `None` is all.
    types: Option<Vec<String>>,
    /// Whether the first change ends the stream.
    once: bool,
    /// Between pings.
    ping: Option<Duration>,
}

impl EventOptions {
    /// Reads the query of RFC 8620 §7.3. What is left out is as it would most often be.
    fn of(uri: &Uri) -> Result<Self, Problem> {
        let bad = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, detail);
        let pairs =
            query::read(uri.query().unwrap_or_default()).map_err(|_| bad("the query is none"))?;
        let text = |name: &str| {
            pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
        };
        let types = match text("types").unwrap_or("*") {
            "*" => None,
            names => Some(names.split(',').map(str::to_owned).collect::<Vec<String>>()),
        };
        if types
            .as_ref()
            .is_some_and(|types| types.len() > MAX_TYPES || types.iter().any(String::is_empty))
        {
            return Err(bad("types: \"*\", or names between commas"));
        }
        let once = match text("closeafter").unwrap_or("no") {
            "no" => false,
            "state" => true,
            _ => return Err(bad("closeafter: \"state\" or \"no\"")),
        };
        let ping = match text("ping").unwrap_or("0").parse::<u64>() {
            Ok(0) => None,
            Ok(seconds) => Some(Duration::from_secs(seconds.clamp(PING_SECONDS.0, PING_SECONDS.1))),
            Err(_) => return Err(bad("ping: a whole number of seconds")),
        };
        Ok(Self { types, once, ping })
    }
}

pub(super) async fn open(
    State(backend): State<Arc<Backend>>,
    Extension(who): Extension<RequestContext>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    match try_open(&backend, who, &uri, &headers) {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

fn try_open(
    backend: &Arc<Backend>,
    who: RequestContext,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let wish = EventOptions::of(uri)?;
    let counted = backend.streams.enter(who.key());
    let counted = counted
        .ok_or_else(|| Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many streams at once"))?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let follow = ChangeFollower::begin(backend, &who, last)?;
    let (into, body) = pieces(counted);
    let (stop, backend) = (backend.stop.clone(), Arc::clone(backend));
    tokio::spawn(EventStream { backend, who, wish, follow, into }.run(stop));
    let mut response = Response::new(body);
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-store"),
        ("x-accel-buffering", "no"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

struct EventStream {
    backend: Arc<Backend>,
    who: RequestContext,
    wish: EventOptions,
    follow: ChangeFollower,
    into: Pieces,
}

impl EventStream {
    async fn run(mut self, mut stop: StopSignal) {
        let end = Instant::now() + MAX_STREAM_LIFETIME;
        let mut look = interval_at(Instant::now() + ACCESS_CHECK_INTERVAL, ACCESS_CHECK_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = Instant::now();
        loop {
            match self.follow.catch_up(self.wish.types.as_deref()) {
                Ok(None) => {}
                Ok(Some(change)) => {
                    let event =
                        format!("event: state\nid: {}\ndata: {change}\n\n", self.follow.text());
                    if !self.into.push(event).await || self.wish.once {
                        return;
                    }
                    told = Instant::now();
                    sleep(MIN_EVENT_INTERVAL).await;
                }
                Err(error) => {
                    tracing::warn!(?error, "an event stream ends");
                    return;
                }
            }
            tokio::select! {
                () = self.follow.wait_for_change() => {}
                () = self.into.wait_until_closed() => return,
                () = stop.wait() => return,
                () = sleep_until(end) => return,
                ping = time_to_ping(self.wish.ping, told) => {
                    let event = format!("event: ping\ndata: {{\"interval\":{}}}\n\n", ping.as_secs());
                    if !self.backend.is_still_logged_in(&self.who) || !self.into.push(event).await {
                        return;
                    }
                    told = Instant::now();
                }
                _ = look.tick() => {
                    if !self.backend.is_still_logged_in(&self.who) {
                        return;
                    }
                }
            }
        }
    }
}

/// Waits until a ping is due: so long after what was told last (RFC 8620 §7.3).
async fn time_to_ping(ping: Option<Duration>, told: Instant) -> Duration {
    match ping {
        Some(ping) => {
            sleep_until(told + ping).await;
            ping
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event_request(query: &str) -> Option<EventOptions> {
        EventOptions::of(&format!("/jmap/events?{query}").parse().unwrap()).ok()
    }

    #[test]
    fn what_a_client_may_wish_for() {
        let of = |types: Option<&[&str]>, once, ping: Option<u64>| {
            let types = types.map(|types| types.iter().map(|name| (*name).to_owned()).collect());
            Some(EventOptions { types, once, ping: ping.map(Duration::from_secs) })
        };
        assert_eq!(event_request("types=*&closeafter=no&ping=0"), of(None, false, None));
        assert_eq!(event_request(""), of(None, false, None));
        assert_eq!(
            event_request("types=Email,Mailbox&closeafter=state&ping=300"),
            of(Some(&["Email", "Mailbox"]), true, Some(300))
        );
        assert_eq!(
            event_request("types=Email%2CThread&ping=1"),
            of(Some(&["Email", "Thread"]), false, Some(5))
        );
        assert_eq!(event_request("ping=99999999"), of(None, false, Some(3600)));
        for wrong in ["closeafter=yes", "ping=x", "ping=-1", "types=", "types=Email,,", "types=%ff"]
        {
            assert_eq!(event_request(wrong), None, "{wrong}");
        }
        assert_eq!(event_request(&format!("types={}", vec!["x"; MAX_TYPES + 1].join(","))), None);
    }

    #[tokio::test]
    async fn a_ping_comes_so_long_after_what_was_told_last() {
        let (told, ping) = (Instant::now(), Duration::from_millis(40));
        assert_eq!(time_to_ping(Some(ping), told).await, ping);
        assert!(told.elapsed() >= ping);
        assert!(tokio::time::timeout(ping, time_to_ping(None, told)).await.is_err());
    }
}
