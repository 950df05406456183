//! The metrics of the process: one function for each value that is counted or set.
//!
//! - `net::http::control` sets the gauges of the store and the queue before it serves the metrics.
//! - Every value of a label is a constant of the program, and not an address or an account. So the
//!   number of time series is bounded.

use std::sync::LazyLock;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The outcome of a message for one of its recipients.
///
/// Each recipient of a message that reached the delivery counts, even if the delivery refuses the
/// message as a whole, as for a mail loop. What LMTP itself refuses does not count: a recipient
/// (RCPT), or a message that is too large or incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// Accepted: stored, or left to scripts that stored it nowhere.
    Filed,
    /// The message had been filed before: this is a retry of the sender. Its label is `again`.
    Duplicate,
    /// Refused temporarily (4yz).
    Deferred,
    /// Refused permanently (5yz).
    Refused,
}

impl DeliveryOutcome {
    fn label(self) -> &'static str {
        match self {
            Self::Filed => "filed",
            Self::Duplicate => "again",
            Self::Deferred => "deferred",
            Self::Refused => "refused",
        }
    }
}

/// `N` names of labels with their values.
type Labels<const N: usize> = [(&'static str, &'static str); N];

struct MetricsRegistry {
    registry: Registry,
    deliveries: Family<Labels<1>, Counter>,
    delivery_seconds: Histogram,
    vacation_decisions: Family<Labels<1>, Counter>,
    outbox_attempts: Family<Labels<2>, Counter>,
    lmtp_sessions: Gauge,
    refused_connections: Counter,
    engine_statistics: Family<Labels<1>, Gauge>,
    queued_actions: Family<Labels<2>, Gauge>,
    queue_held: Gauge,
    build: Family<Labels<1>, Gauge>,
}

static METRICS: LazyLock<MetricsRegistry> = LazyLock::new(MetricsRegistry::new);

impl MetricsRegistry {
    fn new() -> Self {
        let bucket_bounds =
            [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
        let mut new = Self {
            registry: Registry::with_prefix("restante"),
            deliveries: Family::default(),
            delivery_seconds: Histogram::new(bucket_bounds),
            vacation_decisions: Family::default(),
            outbox_attempts: Family::default(),
            lmtp_sessions: Gauge::default(),
            refused_connections: Counter::default(),
            engine_statistics: Family::default(),
            queued_actions: Family::default(),
            queue_held: Gauge::default(),
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
            "Seconds from the parsing of a message to its replies, including the write to disk",
            new.delivery_seconds.clone(),
        );
        registry.register(
            "vacation_decisions",
            "Recipients of filed mail by decision of the vacation responder: answered, or why not",
            new.vacation_decisions.clone(),
        );
        registry.register(
            "outbox_attempts",
            "Attempts at queued actions, by kind and result",
            new.outbox_attempts.clone(),
        );
        registry.register(
            "lmtp_sessions",
            "LMTP sessions that are open",
            new.lmtp_sessions.clone(),
        );
        registry.register(
            "lmtp_turned_away",
            "LMTP connections that were refused because there were too many",
            new.refused_connections.clone(),
        );
        registry.register(
            "store",
            "Work of the storage engine since the start, and the memory that it holds now",
            new.engine_statistics.clone(),
        );
        registry.register(
            "outbox_actions",
            "Actions in the queue, by kind and state",
            new.queued_actions.clone(),
        );
        registry.register(
            "outbox_held",
            "1 while nothing is sent until an administrator accepts the queue, else 0",
            new.queue_held.clone(),
        );
        registry.register("build", "The version of the program", new.build.clone());
        new.build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        // Prometheus sees the first delivery as an increase only if the counter was there before.
        for result in [
            DeliveryOutcome::Filed,
            DeliveryOutcome::Duplicate,
            DeliveryOutcome::Deferred,
            DeliveryOutcome::Refused,
        ] {
            drop(new.deliveries.get_or_create(&[("result", result.label())]));
        }
        new
    }
}

pub fn count_delivery(result: DeliveryOutcome) {
    METRICS.deliveries.get_or_create(&[("result", result.label())]).inc();
}

/// Records the time from the parsing of a message to its replies, once for all its recipients: the
/// check of its sender and the wait for a permit come before. Not called for a message that is
/// refused as a whole: its recipients are counted (`DeliveryOutcome`), but nothing was committed
/// for them.
pub fn record_delivery_time(time: Duration) {
    METRICS.delivery_seconds.observe(time.as_secs_f64());
}

/// Counts once for each recipient with the outcome `Filed`. `code` is `ReplyDecision::code`.
pub fn count_decision(code: &'static str) {
    METRICS.vacation_decisions.get_or_create(&[("reason", code)]).inc();
}

/// Counts the result of an attempt to send an action. The recovery of an action whose attempt was
/// interrupted counts as one, and so does giving an action up without another attempt. `kind` is
/// `ActionKind::name`, and `result` is `sent`, `again`, `failed` or `unknown`.
pub fn count_attempt(kind: &'static str, result: &'static str) {
    METRICS.outbox_attempts.get_or_create(&[("kind", kind), ("result", result)]).inc();
}

/// Counts as an open LMTP session until dropped.
#[derive(Debug)]
#[must_use]
pub struct SessionGauge(());

impl SessionGauge {
    pub fn begin() -> Self {
        METRICS.lmtp_sessions.inc();
        Self(())
    }
}

impl Drop for SessionGauge {
    fn drop(&mut self) {
        METRICS.lmtp_sessions.dec();
    }
}

/// Counts an LMTP connection that was refused because there are too many.
pub fn count_refused_connection() {
    METRICS.refused_connections.inc();
}

/// Sets what the engine tells of itself: a total since the start, or bytes of memory held now.
pub fn set_engine_statistic(name: &'static str, value: u64) {
    METRICS
        .engine_statistics
        .get_or_create(&[("of", name)])
        .set(i64::try_from(value).unwrap_or(i64::MAX));
}

/// Sets the number of queued actions of a kind in a state. The number stays until it is set again,
/// so the caller sets it for every kind and state, also to 0.
pub fn set_queued_actions(kind: &'static str, state: &'static str, actions: u64) {
    METRICS
        .queued_actions
        .get_or_create(&[("kind", kind), ("state", state)])
        .set(i64::try_from(actions).unwrap_or(i64::MAX));
}

/// Sets whether nothing is sent until an administrator accepts the queue (`QueueMark`).
pub fn set_queue_held(is_held: bool) {
    METRICS.queue_held.set(i64::from(is_held));
}

/// Returns all metrics in the text format of `OpenMetrics`.
#[must_use]
pub fn openmetrics_text() -> String {
    let mut out = String::new();
    match encode(&mut out, &METRICS.registry) {
        Ok(()) => out,
        Err(std::fmt::Error) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_or_set_appears_in_the_text() {
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
