//! What surrounds the delivery of one message, whether it came over LMTP or the control socket.
//!
//! - The header is split here, once; whatever is read of it afterwards is read by that.
//! - Who sent the message is found out only where somebody may be answered, or be told of the
//!   delivery: it may cost questions to name servers.
//! - There is one reply for each accepted recipient, whatever happens.

use std::sync::Arc;

use crate::deliver::DeliveryService;
use crate::message::header::IncomingMessage;
use crate::model::Envelope;
use crate::proof;
use crate::wire::smtp::Reply;

/// Delivers a message to the recipients of its envelope, which were all admitted in `transaction`:
/// one reply for each, in order.
pub(super) async fn deliver<D: DeliveryService>(
    service: &Arc<D>,
    transaction: D::Session,
    mut envelope: Envelope,
    bytes: Vec<u8>,
    settings: &proof::Settings,
) -> Vec<Reply> {
    let message = IncomingMessage::new(bytes);
    let recipients = envelope.recipients.len();
    if service.may_answer(&transaction, &envelope, &message) {
        envelope.forged = proof::examine(&message.header(), &envelope, settings).await;
    }
    let mut replies = Arc::clone(service).deliver(transaction, envelope, message).await;
    replies.resize(recipients, no_answer());
    replies
}

/// What is said to a recipient of whom the store said nothing.
pub(super) fn no_answer() -> Reply {
    Reply::new(451, [4, 3, 0], "no answer from the mail store")
}

#[cfg(test)]
mod tests;
