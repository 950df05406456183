//! Delivers one message that came over LMTP or the control socket.
//!
//! - The header is parsed here, once; later readers use the result.
//! - The sender is checked for forgery only if the sender may get a reply, a delivery notification
//!   or a report of a refusal, because the check may ask name servers.

use std::sync::Arc;

use crate::deliver::DeliveryService;
use crate::message::header::IncomingMessage;
use crate::model::Envelope;
use crate::proof;
use crate::store::StreamedValue;
use crate::wire::smtp::Reply;

/// Delivers a message to the recipients of `envelope`, who were all admitted in `transaction`.
/// Returns one reply for each recipient, in order. If `bytes` are on the disk already, `streamed`
/// is their value there, which may lack what comes before the header; otherwise it is `None`.
pub(super) async fn deliver<D: DeliveryService>(
    service: &Arc<D>,
    mut transaction: D::Session,
    mut envelope: Envelope,
    bytes: Vec<u8>,
    streamed: Option<StreamedValue>,
    settings: &proof::Settings,
) -> Vec<Reply> {
    let message = IncomingMessage::new(bytes);
    let recipients = envelope.recipients.len();
    if service.may_answer(&mut transaction, &envelope, &message) {
        envelope.forged = proof::examine(&message.header(), &envelope, settings).await;
    }
    let mut replies = Arc::clone(service).deliver(transaction, envelope, message, streamed).await;
    replies.resize(recipients, no_answer());
    replies
}

/// Returns the temporary refusal for a recipient for whom the delivery returned no reply.
pub(super) fn no_answer() -> Reply {
    Reply::new(451, [4, 3, 0], "the delivery gave no result: try again later")
}

#[cfg(test)]
mod tests;
