//! The way in for `Mail/deliver`: a message as LMTP would have brought it.

use std::sync::Arc;

use crate::deliver::DeliveryService;
use crate::jmap::DeliverFn;
use crate::model::{Address, Envelope, LiveValue, Recipient};
use crate::net::lmtp::LmtpSettings;
use crate::proof;
use crate::wire::smtp::Reply;

/// The way in for `Mail/deliver`, over the same deliveries and by the same bounds as LMTP. To be called from a thread that
/// may wait.
pub fn taken<D: DeliveryService>(deliver: Arc<D>, settings: LiveValue<LmtpSettings>) -> Arc<DeliverFn> {
    let runtime = tokio::runtime::Handle::current();
    Arc::new(move |sender: Option<Address>, recipients: Vec<Address>, message: Vec<u8>| {
        let settings = settings.get();
        let mut session = D::Session::default();
        let size = Some(message.len() as u64);
        let mut envelope = Envelope { sender, size, lhlo: "localhost".into(), ..Envelope::default() };
        let mut replies: Vec<(Address, Option<Reply>)> = Vec::new();
        for recipient in recipients.into_iter().map(Recipient::plain) {
            let reply = if size > Some(settings.max_message) {
                Reply::new(552, [5, 3, 4], format!("the message is larger than {} octets", settings.max_message))
            } else if envelope.recipients.len() >= settings.max_recipients {
                Reply::new(452, [4, 5, 3], "too many recipients at once")
            } else {
                deliver.admit(&mut session, &envelope, &recipient)
            };
            let refusal = (!reply.is_positive()).then_some(reply);
            replies.push((recipient.address.clone(), refusal));
            if replies.last().is_some_and(|(_, refusal)| refusal.is_none()) {
                envelope.recipients.push(recipient);
            }
        }
        let taken = if envelope.recipients.is_empty() {
            Vec::new()
        } else {
            runtime.block_on(async {
                if deliver.may_answer(&session, &envelope, &message) {
                    envelope.forged = proof::examine(&message, &envelope, &settings.proof).await;
                }
                Arc::clone(&deliver).deliver(session, envelope, message).await
            })
        };
        let mut taken = taken.into_iter();
        let lost = || Reply::new(451, [4, 3, 0], "no answer from the mail store");
        replies
            .into_iter()
            .map(|(address, refusal)| (address, refusal.or_else(|| taken.next()).unwrap_or_else(lost)))
            .collect()
    })
}
