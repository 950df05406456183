//! Delivers the messages of `Mail/deliver` within the configured limits of LMTP.

use std::sync::Arc;

use crate::deliver::DeliveryService;
use crate::jmap::DeliverFn;
use crate::model::{Address, Envelope, LiveValue, Recipient};
use crate::net::lmtp::LmtpSettings;
use crate::net::receive;
use crate::wire::smtp::Reply;

/// Returns the function that delivers a message for `Mail/deliver`. The returned function blocks
/// until the message is delivered, so no asynchronous task may call it. It returns a reply for each
/// recipient, in order.
///
/// # Panics
/// If there is no Tokio runtime: deliveries run on the runtime in which `deliver_fn` is called.
pub fn deliver_fn<D: DeliveryService>(
    deliver: Arc<D>,
    settings: LiveValue<LmtpSettings>,
) -> Arc<DeliverFn> {
    let runtime = tokio::runtime::Handle::current();
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
        } else {
            runtime.block_on(receive::deliver(
                &deliver,
                session,
                envelope,
                message,
                None,
                &settings.proof,
            ))
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
