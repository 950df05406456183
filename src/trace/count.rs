//! What is counted, and under which names: the whole list stands here. Counters are the process's
//! own and begin at zero with it; `net::http` gives them out as Prometheus reads it. No address and
//! no account ever becomes a label.

use std::sync::LazyLock;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// How a message for a recipient ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    Filed,
    /// It was there: a retry.
    Again,
    /// Refused for now (4yz).
    Deferred,
    /// Refused for good (5yz).
    Refused,
}

impl DeliveryOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Filed => "filed",
            Self::Again => "again",
            Self::Deferred => "deferred",
            Self::Refused => "refused",
        }
    }
}

/// Labels: names with their values. All values are known beforehand, so that nothing is made for a
/// count.
type Labels<const N: usize> = [(&'static str, &'static str); N];

struct MetricsRegistry {
    registry: Registry,
    deliveries: Family<Labels<1>, Counter>,
    delivery_seconds: Histogram,
    decisions: Family<Labels<1>, Counter>,
    attempts: Family<Labels<2>, Counter>,
    sessions: Gauge,
    turned_away: Counter,
    store: Family<Labels<1>, Gauge>,
    queued: Family<Labels<2>, Gauge>,
    held: Gauge,
    build: Family<Labels<1>, Gauge>,
}

static COUNTS: LazyLock<MetricsRegistry> = LazyLock::new(MetricsRegistry::new);

impl MetricsRegistry {
    fn new() -> Self {
        let seconds =
            [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
        let mut new = Self {
            registry: Registry::with_prefix("restante"),
            deliveries: Family::default(),
            delivery_seconds: Histogram::new(seconds),
            decisions: Family::default(),
            attempts: Family::default(),
            sessions: Gauge::default(),
            turned_away: Counter::default(),
            store: Family::default(),
            queued: Family::default(),
            held: Gauge::default(),
            build: Family::default(),
        };
        let registry = &mut new.registry;
        registry.register(
            "deliveries",
            "Recipients of messages, by how it ended",
            new.deliveries.clone(),
        );
        registry.register(
            "delivery_seconds",
            "Seconds from the end of a message to its replies, the disk included",
            new.delivery_seconds.clone(),
        );
        registry.register(
            "vacation_decisions",
            "Delivered messages by what the responder decided: answered, or why not",
            new.decisions.clone(),
        );
        registry.register(
            "outbox_attempts",
            "Attempts at queued actions, by kind and result",
            new.attempts.clone(),
        );
        registry.register("lmtp_sessions", "LMTP sessions that are open", new.sessions.clone());
        registry.register(
            "lmtp_turned_away",
            "Connections that were one too many",
            new.turned_away.clone(),
        );
        registry.register(
            "store",
            "What the engine has done: syncs, octets of log and of tables",
            new.store.clone(),
        );
        registry.register(
            "outbox_actions",
            "Actions in the queue, by kind and state",
            new.queued.clone(),
        );
        registry.register(
            "outbox_held",
            "1 while the whole queue is held until it is accepted, else 0",
            new.held.clone(),
        );
        registry.register("build", "The version", new.build.clone());
        new.build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        // Each is there from the start, so that the first of its kind is seen as a change.
        for result in [
            DeliveryOutcome::Filed,
            DeliveryOutcome::Again,
            DeliveryOutcome::Deferred,
            DeliveryOutcome::Refused,
        ] {
            drop(new.deliveries.get_or_create(&[("result", result.name())]));
        }
        new
    }
}

/// A message for a recipient has its answer.
pub fn delivered(result: DeliveryOutcome) {
    COUNTS.deliveries.get_or_create(&[("result", result.name())]).inc();
}

/// A message has its answers, so long after its end.
pub fn delivery_took(time: Duration) {
    COUNTS.delivery_seconds.observe(time.as_secs_f64());
}

/// The responder decided: `answered`, or the code of the reason why not.
pub fn decided(reason: &'static str) {
    COUNTS.decisions.get_or_create(&[("reason", reason)]).inc();
}

/// An attempt at a queued action, by its kind and what came of it.
pub fn attempted(kind: &'static str, result: &'static str) {
    COUNTS.attempts.get_or_create(&[("kind", kind), ("result", result)]).inc();
}

/// An LMTP session; over when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct SessionGauge(());

impl SessionGauge {
    pub fn begin() -> Self {
        COUNTS.sessions.inc();
        Self(())
    }
}

impl Drop for SessionGauge {
    fn drop(&mut self) {
        COUNTS.sessions.dec();
    }
}

/// A connection was turned away.
pub fn turned_away() {
    COUNTS.turned_away.inc();
}

/// What the engine has done since the start, under a name.
pub fn store(what: &'static str, value: u64) {
    COUNTS.store.get_or_create(&[("of", what)]).set(i64::try_from(value).unwrap_or(i64::MAX));
}

/// How many actions of a kind are in a state.
pub fn queued(kind: &'static str, state: &'static str, actions: u64) {
    COUNTS
        .queued
        .get_or_create(&[("kind", kind), ("state", state)])
        .set(i64::try_from(actions).unwrap_or(i64::MAX));
}

/// Whether the whole queue is held.
pub fn held(is_held: bool) {
    COUNTS.held.set(i64::from(is_held));
}

/// All of it, as Prometheus reads it.
#[must_use]
pub fn text() -> String {
    let mut out = String::new();
    match encode(&mut out, &COUNTS.registry) {
        Ok(()) => out,
        // A `String` takes everything.
        Err(std::fmt::Error) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_in_the_text() {
        let count = |text: &str, name: &str| {
            let line = text
                .lines()
                .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        };
        let before = text();
        delivered(DeliveryOutcome::Again);
        delivery_took(Duration::from_millis(7));
        decided("already-told");
        attempted("reply", "sent");
        turned_away();
        store("syncs", 5);
        queued("reply", "waiting", 7);
        let (session, after) = (SessionGauge::begin(), text());
        for name in [
            "restante_deliveries_total{result=\"again\"}",
            "restante_delivery_seconds_count",
            "restante_delivery_seconds_bucket{le=\"0.01\"}",
            "restante_vacation_decisions_total{reason=\"already-told\"}",
            "restante_outbox_attempts_total{kind=\"reply\",result=\"sent\"}",
            "restante_lmtp_turned_away_total",
        ] {
            let [was, now] = [&before, &after].map(|text| count(text, name).unwrap_or_default());
            assert!(now > was, "{name}: {was} {now}\n{after}");
        }
        assert_eq!(count(&after, "restante_store{of=\"syncs\"}"), Some(5.0));
        assert_eq!(
            count(&after, "restante_outbox_actions{kind=\"reply\",state=\"waiting\"}"),
            Some(7.0)
        );
        assert!(count(&after, "restante_lmtp_sessions").unwrap() >= 1.0);
        assert!(after.ends_with("# EOF\n"));
        drop(session);
    }
}
