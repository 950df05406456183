//! Answers requests for events (RFC 8620 §7.3) with a `text/event-stream` of `StateChange`s.
//!
//! - A client that reconnects with `Last-Event-ID` gets the changes since then.
//! - A stream ends after `MAX_STREAM_LIFETIME`, when the service stops, when the changes cannot be
//!   read, when the client disconnects or does not read, and after one change if the client asks
//!   for that. It also ends when the client's password or token is removed or has expired, which is
//!   checked every `ACCESS_CHECK_INTERVAL` and before each ping.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until};

use super::Backend;
use super::change_follower::ChangeFollower;
use super::problem::Problem;
use super::request_context::RequestContext;
use super::streamed_body::{BodySender, streamed_body};
use crate::net::stop::StopSignal;
use crate::wire::query;

const MAX_STREAM_LIFETIME: Duration = Duration::from_secs(3600);
/// The shortest time between two events of changes. Changes in between are sent together.
pub(super) const MIN_EVENT_INTERVAL: Duration = Duration::from_millis(50);
const MIN_PING_SECONDS: u64 = 5;
const MAX_PING_SECONDS: u64 = 3600;
/// How often it is checked that the client's password or token is still valid.
pub(super) const ACCESS_CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The most names in `types`.
const MAX_TYPES: usize = 64;

/// RFC 8620 §7.3.
#[derive(Debug, PartialEq, Eq)]
struct EventOptions {
    /// `None` is all types.
    types: Option<Vec<String>>,
    /// Whether the stream ends after the first change.
    close_after_state: bool,
    /// How long after the last event a ping is sent; `None` is no pings. Values of the client are
    /// raised or lowered to the nearest that is allowed.
    ping: Option<Duration>,
}

impl EventOptions {
    fn parse(uri: &Uri) -> Result<Self, Problem> {
        let bad_request = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, detail);
        let pairs = query::read(uri.query().unwrap_or_default())
            .map_err(|_| bad_request("the query of the URL is malformed"))?;
        let text =
            |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let types = match text("types").unwrap_or("*") {
            "*" => None,
            names => Some(names.split(',').map(str::to_owned).collect::<Vec<String>>()),
        };
        if types
            .as_ref()
            .is_some_and(|types| types.len() > MAX_TYPES || types.iter().any(String::is_empty))
        {
            let detail =
                format!("types: write \"*\", or up to {MAX_TYPES} names separated by commas");
            return Err(bad_request(&detail));
        }
        let close_after_state = match text("closeafter").unwrap_or("no") {
            "no" => false,
            "state" => true,
            _ => return Err(bad_request("closeafter: write \"state\" or \"no\"")),
        };
        let ping = match text("ping").unwrap_or("0").parse::<u64>() {
            Ok(0) => None,
            Ok(seconds) => {
                Some(Duration::from_secs(seconds.clamp(MIN_PING_SECONDS, MAX_PING_SECONDS)))
            }
            Err(_) => return Err(bad_request("ping: write a whole number of seconds")),
        };
        Ok(Self { types, close_after_state, ping })
    }
}

pub(super) async fn open(
    State(backend): State<Arc<Backend>>,
    Extension(context): Extension<RequestContext>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    match try_open(&backend, context, &uri, &headers) {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

fn try_open(
    backend: &Arc<Backend>,
    context: RequestContext,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let options = EventOptions::parse(uri)?;
    let permit = backend.streams.enter(context.key());
    let permit = permit
        .ok_or_else(|| Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many streams at once"))?;
    let last_event = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let follower = ChangeFollower::begin(backend, &context, last_event)?;
    let (sender, body) = streamed_body(permit);
    let (stop, backend) = (backend.stop.clone(), Arc::clone(backend));
    tokio::spawn(EventStream { backend, context, options, follower, sender }.run(stop));
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
    context: RequestContext,
    options: EventOptions,
    follower: ChangeFollower,
    sender: BodySender,
}

impl EventStream {
    async fn run(mut self, mut stop: StopSignal) {
        let end = Instant::now() + MAX_STREAM_LIFETIME;
        let mut access_check =
            interval_at(Instant::now() + ACCESS_CHECK_INTERVAL, ACCESS_CHECK_INTERVAL);
        access_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_sent = Instant::now();
        loop {
            match self.follower.catch_up(self.options.types.as_deref()) {
                Ok(None) => {}
                Ok(Some(change)) => {
                    let event =
                        format!("event: state\nid: {}\ndata: {change}\n\n", self.follower.text());
                    if !self.sender.send(event).await || self.options.close_after_state {
                        return;
                    }
                    last_sent = Instant::now();
                    sleep(MIN_EVENT_INTERVAL).await;
                }
                Err(error) => {
                    tracing::warn!(?error, "an event stream ends: cannot read the changes");
                    return;
                }
            }
            tokio::select! {
                () = self.follower.wait_for_change() => {}
                () = self.sender.wait_until_closed() => return,
                () = stop.wait() => return,
                () = sleep_until(end) => return,
                ping = wait_for_ping(self.options.ping, last_sent) => {
                    let event =
                        format!("event: ping\ndata: {{\"interval\":{}}}\n\n", ping.as_secs());
                    if !self.backend.is_still_logged_in(&self.context)
                        || !self.sender.send(event).await
                    {
                        return;
                    }
                    last_sent = Instant::now();
                }
                _ = access_check.tick() => {
                    if !self.backend.is_still_logged_in(&self.context) {
                        return;
                    }
                }
            }
        }
    }
}

/// Waits until a ping is due, and returns the interval of pings. Waits forever if the client wants
/// no pings.
async fn wait_for_ping(ping: Option<Duration>, last_sent: Instant) -> Duration {
    match ping {
        Some(ping) => {
            sleep_until(last_sent + ping).await;
            ping
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Option<EventOptions> {
        EventOptions::parse(&format!("/jmap/events?{query}").parse().unwrap()).ok()
    }

    #[test]
    fn reads_types_closeafter_and_ping() {
        let options = |types: Option<&[&str]>, close_after_state, ping: Option<u64>| {
            let types = types.map(|types| types.iter().map(|name| (*name).to_owned()).collect());
            let ping = ping.map(Duration::from_secs);
            Some(EventOptions { types, close_after_state, ping })
        };
        assert_eq!(parse("types=*&closeafter=no&ping=0"), options(None, false, None));
        assert_eq!(parse(""), options(None, false, None));
        assert_eq!(
            parse("types=Email,Mailbox&closeafter=state&ping=300"),
            options(Some(&["Email", "Mailbox"]), true, Some(300))
        );
        assert_eq!(
            parse("types=Email%2CThread&ping=1"),
            options(Some(&["Email", "Thread"]), false, Some(5))
        );
        assert_eq!(parse("ping=99999999"), options(None, false, Some(3600)));
        for invalid in
            ["closeafter=yes", "ping=x", "ping=-1", "types=", "types=Email,,", "types=%ff"]
        {
            assert_eq!(parse(invalid), None, "{invalid}");
        }
        assert_eq!(parse(&format!("types={}", vec!["x"; MAX_TYPES + 1].join(","))), None);
    }

    #[tokio::test]
    async fn ping_is_due_an_interval_after_the_last_event() {
        let (last_sent, ping) = (Instant::now(), Duration::from_millis(40));
        assert_eq!(wait_for_ping(Some(ping), last_sent).await, ping);
        assert!(last_sent.elapsed() >= ping);
        assert!(tokio::time::timeout(ping, wait_for_ping(None, last_sent)).await.is_err());
    }
}
