//! L4: one message in, as many outcomes out as it has recipients.
//!
//! The way of a message: `admit` at each RCPT; then, in `deliver`, parse once, plan for each
//! account (pure: what it needs was read before), and apply all plans in one commit. A 250 is given
//! only when the commit's ticket is redeemed: filing, thread, decision, told row and reply are
//! durable together, or none of them is.

mod admit;
mod apply;
mod context;
mod copy;
mod outcome;
mod plan;
mod rates;
mod reports;

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::account::{Directory, ResolvedAddress};
use crate::message::header::IncomingMessage;
use crate::message::{auto::AutoReplyFacts, catch_parser_panic};
use crate::model::{Envelope, LiveValue, Recipient};
use crate::store::Store;
use crate::vacation;
use crate::wire::smtp::Reply;
use rates::RateLimiters;

/// What a driver of a protocol needs of deliveries.
pub trait DeliveryService: Send + Sync + 'static {
    /// What one transaction has reserved so far.
    type Session: Send + Default;

    /// Whether a recipient is taken: a positive reply accepts it.
    fn admit(
        &self,
        session: &mut Self::Session,
        envelope: &Envelope,
        recipient: &Recipient,
    ) -> Reply;

    /// Whether somebody may be answered, or told of the delivery, so that it is worth while to find
    /// out who sent the message.
    fn may_answer(
        &self,
        session: &Self::Session,
        envelope: &Envelope,
        message: &IncomingMessage,
    ) -> bool;

    /// Delivers a message to the accepted recipients: one reply for each, in order.
    fn deliver(
        self: Arc<Self>,
        session: Self::Session,
        envelope: Envelope,
        message: IncomingMessage,
    ) -> impl Future<Output = Vec<Reply>> + Send;
}

/// What a site sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The name in Received fields.
    pub hostname: String,
    /// Whether over quota is for good (552 5.2.2) or for now (452 4.2.2).
    pub quota_is_permanent: bool,
    pub vacation: vacation::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hostname: "localhost".into(),
            quota_is_permanent: false,
            vacation: vacation::Settings::default(),
        }
    }
}

/// Delivers into a store.
#[derive(Debug)]
pub struct Deliverer {
    store: Store,
    directory: Directory,
    settings: LiveValue<Settings>,
    rates: Mutex<RateLimiters>,
}

/// What a transaction's accepted recipients lead to, and the settings that held when it began.
#[derive(Debug, Default)]
pub struct DeliveryTransaction {
    settings: Option<Arc<Settings>>,
    targets: Vec<ResolvedAddress>,
}

impl Deliverer {
    /// Deliveries into a store, for the accounts of a directory. A transaction keeps the settings
    /// that it began with.
    #[must_use]
    pub fn new(store: Store, directory: Directory, settings: LiveValue<Settings>) -> Self {
        Self { store, directory, settings, rates: Mutex::default() }
    }
}

impl DeliveryService for Deliverer {
    type Session = DeliveryTransaction;

    fn admit(
        &self,
        session: &mut DeliveryTransaction,
        envelope: &Envelope,
        recipient: &Recipient,
    ) -> Reply {
        self.admit_one(session, envelope, recipient)
    }

    /// A response is on, and nothing in the header forbids an answer (RFC 3834 §2): lists and
    /// machines cost no questions, unless they asked for a notification of the delivery. Scripts
    /// will answer, too (RFC 5230): then an account with one counts as one with a response.
    fn may_answer(
        &self,
        session: &DeliveryTransaction,
        envelope: &Envelope,
        message: &IncomingMessage,
    ) -> bool {
        let snapshot = self.store.snapshot();
        let on = |target: &ResolvedAddress| {
            snapshot.vacation(target.account).is_ok_and(|response| response.enabled)
        };
        let is_person = || {
            catch_parser_panic("a header", || AutoReplyFacts::of_header(&message.header()))
                .is_some_and(|facts| !facts.is_automatic())
        };
        let is_asked = || envelope.recipients.iter().any(|recipient| recipient.notify.success);
        envelope.sender.is_some() && (is_asked() || (session.targets.iter().any(on) && is_person()))
    }

    async fn deliver(
        self: Arc<Self>,
        session: DeliveryTransaction,
        envelope: Envelope,
        message: IncomingMessage,
    ) -> Vec<Reply> {
        let prepared = if message.size() > crate::model::limits::MAX_BODY_BYTES_IN_MEMORY {
            // Parsing megabytes takes long: other sessions go on meanwhile.
            let (own, count) = (Arc::clone(&self), session.targets.len());
            let done =
                tokio::task::spawn_blocking(move || own.apply(&session, &envelope, &message)).await;
            match done {
                Ok(prepared) => prepared,
                Err(_) => return vec![outcome::trouble(); count],
            }
        } else {
            self.apply(&session, &envelope, &message)
        };
        self.replies(prepared).await
    }
}

#[cfg(test)]
mod format_tests;
#[cfg(test)]
mod tests;
