//! Delivers the messages of `Mail/deliver` within the configured limits of LMTP, and a bounded
//! number at a time.
//!
//! Each delivery keeps a thread for blocking work, and may need another one to end. If deliveries
//! could have all these threads, none of them would ever end. So one beyond the bound is refused;
//! if it waited, it would keep its thread as well.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::deliver::DeliveryService;
use crate::jmap::DeliverFn;
use crate::model::{Address, Envelope, LiveValue, Recipient};
use crate::net::lmtp::LmtpSettings;
use crate::net::receive;
use crate::wire::smtp::Reply;

/// The most deliveries at a time: a quarter of the threads for blocking work that Tokio has at most
/// unless it is told otherwise.
const MAX_CONCURRENT_DELIVERIES: usize = 128;

/// Returns the function that delivers a message for `Mail/deliver`. The returned function blocks
/// until the message is delivered, so no asynchronous task may call it. It returns a reply for each
/// recipient, in order: 451 for an admitted one if `MAX_CONCURRENT_DELIVERIES` other deliveries are
/// in progress.
///
/// # Panics
/// If there is no Tokio runtime: deliveries run on the runtime in which `deliver_fn` is called.
pub fn deliver_fn<D: DeliveryService>(
    deliver: Arc<D>,
    settings: LiveValue<LmtpSettings>,
) -> Arc<DeliverFn> {
    deliver_fn_within(MAX_CONCURRENT_DELIVERIES, deliver, settings)
}

/// Does what `deliver_fn` does, with at most `max` deliveries at a time.
fn deliver_fn_within<D: DeliveryService>(
    max: usize,
    deliver: Arc<D>,
    settings: LiveValue<LmtpSettings>,
) -> Arc<DeliverFn> {
    let runtime = tokio::runtime::Handle::current();
    let permits = Semaphore::new(max);
    Arc::new(move |sender: Option<Address>, recipients: Vec<Address>, message: Vec<u8>| {
        let settings = settings.get();
        let mut session = D::Session::default();
        let size = Some(message.len() as u64);
        let mut envelope =
            Envelope { sender, size, lhlo: "localhost".into(), ..Envelope::default() };
        let mut refusals: Vec<(Address, Option<Reply>)> = Vec::new();
        for recipient in recipients.into_iter().map(Recipient::plain) {
            let reply = if size > Some(settings.max_message) {
                Reply::new(
                    552,
                    [5, 3, 4],
                    format!("the message is larger than {} bytes", settings.max_message),
                )
            } else if envelope.recipients.len() >= settings.max_recipients {
                Reply::new(452, [4, 5, 3], "too many recipients in one transaction")
            } else {
                deliver.admit(&mut session, &envelope, &recipient)
            };
            let refusal = (!reply.is_positive()).then_some(reply);
            refusals.push((recipient.address.clone(), refusal));
            if refusals.last().is_some_and(|(_, refusal)| refusal.is_none()) {
                envelope.recipients.push(recipient);
            }
        }
        let replies = if envelope.recipients.is_empty() {
            Vec::new()
        } else if let Ok(_permit) = permits.try_acquire() {
            runtime.block_on(receive::deliver(
                &deliver,
                session,
                envelope,
                message,
                None,
                &settings.proof,
            ))
        } else {
            let busy = Reply::new(451, [4, 3, 2], "too many deliveries at once: try again later");
            vec![busy; envelope.recipients.len()]
        };
        // The delivery replied for the admitted recipients only.
        let mut replies = replies.into_iter();
        refusals
            .into_iter()
            .map(|(address, refusal)| {
                (address, refusal.or_else(|| replies.next()).unwrap_or_else(receive::no_answer))
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::Notify;
    use tokio::task::spawn_blocking;
    use tokio::time::timeout;

    use super::*;
    use crate::message::header::IncomingMessage;
    use crate::store::StreamedValue;

    /// A delivery needs a thread for blocking work, once `may_end` has a permit.
    struct WaitingService {
        has_begun: Notify,
        may_end: Semaphore,
    }

    impl DeliveryService for WaitingService {
        type Session = ();

        fn admit(&self, (): &mut (), _: &Envelope, _: &Recipient) -> Reply {
            Reply::new(250, [2, 1, 5], "yes")
        }

        fn may_answer(&self, (): &mut (), _: &Envelope, _: &IncomingMessage) -> bool {
            false
        }

        async fn deliver(
            self: Arc<Self>,
            (): (),
            envelope: Envelope,
            _: IncomingMessage,
            _: Option<StreamedValue>,
        ) -> Vec<Reply> {
            self.has_begun.notify_one();
            let permit = self.may_end.acquire().await;
            spawn_blocking(|| {}).await.unwrap();
            drop(permit);
            vec![Reply::new(250, [2, 0, 0], "filed"); envelope.recipients.len()]
        }
    }

    #[test]
    fn delivery_beyond_the_bound_is_refused_so_that_threads_are_left_for_the_others() {
        const LONG: Duration = Duration::from_secs(20);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let codes = runtime.block_on(async {
            let service =
                Arc::new(WaitingService { has_begun: Notify::new(), may_end: Semaphore::new(0) });
            let deliver = deliver_fn_within(1, Arc::clone(&service), LiveValue::default());
            let begin = || {
                let deliver = Arc::clone(&deliver);
                let recipient = Address::parse("ann@example.org").unwrap();
                spawn_blocking(move || deliver(None, vec![recipient], b"Subject: x".to_vec()))
            };
            let first = begin();
            service.has_begun.notified().await;
            let second = begin();
            let refused = timeout(LONG, second).await.map(Result::unwrap);
            service.may_end.add_permits(1);
            let delivered = timeout(LONG, first).await.map(Result::unwrap);
            [delivered, refused].map(|replies| replies.map(|replies| replies[0].1.code))
        });
        runtime.shutdown_background();
        assert_eq!(codes, [Ok(250), Ok(451)]);
    }
}
