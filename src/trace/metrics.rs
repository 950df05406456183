//! All metrics, with their names.
//!
//! - Counters begin at zero when the process starts.
//! - `net::http` serves them in the Prometheus text format.
//! - No address and no account may become a label.

use std::sync::LazyLock;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The outcome of a delivery to one recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    Filed,
    /// The message was filed before; this was a retry.
    Duplicate,
    /// Refused temporarily (4yz).
    Deferred,
    /// Refused permanently (5yz).
    Refused,
}

impl DeliveryOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Filed => "filed",
            Self::Duplicate => "again",
            Self::Deferred => "deferred",
            Self::Refused => "refused",
        }
    }
}

/// Label names with their values. All are static, so counting allocates nothing.
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
            "Deliveries to recipients, by outcome",
            new.deliveries.clone(),
        );
        registry.register(
            "delivery_seconds",
            "Seconds from the end of a message to its replies, the disk included",
            new.delivery_seconds.clone(),
        );
        registry.register(
            "vacation_decisions",
            "Delivered messages by decision of the vacation responder: answered, or why not",
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
            "Connections refused because there were too many",
            new.turned_away.clone(),
        );
        registry.register(
            "store",
            "Work of the storage engine: syncs, bytes of log and of tables",
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
        registry.register("build", "The version of the program", new.build.clone());
        new.build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        // Prometheus sees the first delivery as a change only if the counter was there before.
        for result in [
            DeliveryOutcome::Filed,
            DeliveryOutcome::Duplicate,
            DeliveryOutcome::Deferred,
            DeliveryOutcome::Refused,
        ] {
            drop(new.deliveries.get_or_create(&[("result", result.name())]));
        }
        new
    }
}

/// Counts a delivery to one recipient.
pub fn count_delivery(result: DeliveryOutcome) {
    COUNTS.deliveries.get_or_create(&[("result", result.name())]).inc();
}

/// Records the time from the end of a message to its replies.
pub fn record_delivery_time(time: Duration) {
    COUNTS.delivery_seconds.observe(time.as_secs_f64());
}

/// Counts a decision of the vacation responder: `answered`, or the code of the reason why not.
pub fn count_decision(reason: &'static str) {
    COUNTS.decisions.get_or_create(&[("reason", reason)]).inc();
}

/// Counts an attempt to send an action, by the kind of the action and the result.
pub fn count_attempt(kind: &'static str, result: &'static str) {
    COUNTS.attempts.get_or_create(&[("kind", kind), ("result", result)]).inc();
}

/// Counts an open LMTP session until it is dropped.
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

/// Counts a connection that was refused because there were too many.
pub fn count_refused_connection() {
    COUNTS.turned_away.inc();
}

/// Sets the value of an engine statistic since the start.
pub fn set_engine_statistic(what: &'static str, value: u64) {
    COUNTS.store.get_or_create(&[("of", what)]).set(i64::try_from(value).unwrap_or(i64::MAX));
}

/// Sets the number of actions of a kind in a state.
pub fn set_queued_actions(kind: &'static str, state: &'static str, actions: u64) {
    COUNTS
        .queued
        .get_or_create(&[("kind", kind), ("state", state)])
        .set(i64::try_from(actions).unwrap_or(i64::MAX));
}

/// Sets whether the whole queue is held.
pub fn set_queue_held(is_held: bool) {
    COUNTS.held.set(i64::from(is_held));
}

/// Returns all metrics in the Prometheus text format.
#[must_use]
pub fn openmetrics_text() -> String {
    let mut out = String::new();
    match encode(&mut out, &COUNTS.registry) {
        Ok(()) => out,
        // Writing to a `String` cannot fail.
        Err(std::fmt::Error) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_appears_in_the_text() {
        let count = |text: &str, name: &str| {
            let line = text
                .lines()
                .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        };
        let before = openmetrics_text();
        count_delivery(DeliveryOutcome::Duplicate);
        record_delivery_time(Duration::from_millis(7));
        count_decision("already-told");
        count_attempt("reply", "sent");
        count_refused_connection();
        set_engine_statistic("syncs", 5);
        set_queued_actions("reply", "waiting", 7);
        let (session, after) = (SessionGauge::begin(), openmetrics_text());
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
