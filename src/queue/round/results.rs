//! Applies the results of attempts to the relay's trouble, the destinations and the wake-ups.

use std::time::Duration;

use tokio::task::Id;
use tokio::time::timeout;

use super::{Scheduler, action_key};
use crate::model::RelayTrouble;
use crate::outbox::{RetrySchedule, SendPermission};
use crate::queue::attempt::{AttemptResult, DestinationHealth, RelayHealth};

impl Scheduler {
    /// Waits for an attempt to end, and applies its result. Waits for ever if none is under way.
    /// The wait may be cancelled without loss.
    pub(in crate::queue) async fn wait_for_attempt(&mut self) {
        match self.under_way.join_next_with_id().await {
            None => std::future::pending().await,
            Some(Ok((id, result))) => self.apply_result(id, result),
            Some(Err(error)) => {
                tracing::error!(%error, "an attempt ended badly");
                self.apply_result(error.id(), AttemptResult::Unrecorded);
            }
        }
    }

    /// Notes what an attempt says of the relay and the destinations. Its wake-up leaves the window
    /// if the attempt was `Recorded`. Otherwise it stays there: it is ready again, rests, or is
    /// held back by earlier mail.
    fn apply_result(&mut self, id: Id, result: AttemptResult) {
        let Some(wakeup) = self.wakeups_by_task.remove(&id) else { return };
        self.busy_lanes.remove(&wakeup.lane);
        let now = self.store.clock().steady();
        // A byte of the lane's digest serves as jitter: it differs between lanes.
        let (retry, jitter) = (self.settings.retry, wakeup.lane[0]);
        // The pauses of the relay double, up to 64 times the first.
        let relay_retry = RetrySchedule {
            first: self.settings.relay_pause,
            longest: self.settings.relay_pause.saturating_mul(64),
            ..retry
        };
        self.relay_trouble.end_probe();
        self.destinations.end_probe(wakeup.domain);
        match result {
            AttemptResult::Recorded(destinations, relay) => {
                self.in_window.remove(&action_key(&wakeup));
                // The action may be due again. A read during the attempt passed over it, because it
                // was in the window.
                self.may_have_more = true;
                for (domain, health) in destinations {
                    match health {
                        DestinationHealth::Well => self.destinations.record_success(domain),
                        DestinationHealth::RefusedRecipient => {
                            self.destinations.record_recipient_refusal(domain, now, &retry, jitter);
                        }
                        DestinationHealth::Refused => {
                            self.destinations.record_refusal(domain, now, &retry, jitter);
                        }
                    }
                }
                match relay {
                    RelayHealth::Unknown => {}
                    RelayHealth::Well => self.clear_relay_trouble(),
                    RelayHealth::Refused => self.relay_trouble.record_refusal(now, &relay_retry, 0),
                }
            }
            AttemptResult::RelayDown(error) => {
                self.make_ready(wakeup);
                self.relay_trouble.record_refusal(now, &relay_retry, 0);
                if let SendPermission::NotBefore(until) = self.relay_trouble.permission(now) {
                    self.published_trouble.set(Some(RelayTrouble { error, until }));
                }
            }
            AttemptResult::Rests => self.set_to_rest(wakeup, now),
            AttemptResult::AfterEarlier(until) => {
                self.held_back.push((until, wakeup));
            }
            AttemptResult::Unrecorded => {
                // If the store refuses all commits, every action would be begun in vain. So
                // everything rests, as if the relay were down.
                self.relay_trouble.record_refusal(
                    now,
                    &RetrySchedule { longest: self.settings.relay_pause, ..relay_retry },
                    0,
                );
                self.set_to_rest(wakeup, now);
            }
        }
    }

    /// Waits for the attempts under way, at most for `Relay::timeout`, breaks off the others, and
    /// closes the idle connections.
    pub(in crate::queue) async fn finish(mut self) {
        let bound = self.settings.relay.timeout;
        if timeout(bound, async { while self.under_way.join_next().await.is_some() {} })
            .await
            .is_err()
        {
            tracing::warn!(
                "some actions were under way at the end: a reply whose attempt is recorded counts \
                 as sent"
            );
        }
        self.pool.expire(Duration::ZERO).await;
    }
}
