//! MDN/send (RFC 9007 §2.1).
//!
//! That a notification is queued and that its email has the keyword `$mdnsent` is one commit: of
//! one message nobody is told twice, whoever asks at the same time and whatever ends between. What
//! else is to be changed of the email is the Email/set that follows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::wish::MdnObject;
use crate::jmap::context::Account;
use crate::jmap::email;
use crate::jmap::failure::{SetFailure, commit_object};
use crate::jmap::identity::{self, SenderAddresses};
use crate::jmap::method::{Call, FollowUpCall, Method};
use crate::message::catch_parser_panic;
use crate::message::report::{DispositionReport, DispositionType, SendingMode, address};
use crate::model::{
    Address, BlobHash, EmailAddress, EmailId, EmailMetadata, ObjectId, SenderIdentity, keyword,
    limits,
};
use crate::outbox::mdn::{MdnDraft, MdnRequest, notification};
use crate::outbox::{ReceiptAction, Reporter, typed};
use crate::store::Error;
use crate::wire::jmap::json::{members, or_null};
use crate::wire::jmap::{Answer, JsonObject, MethodError, SetError};

/// Octets of a message in which its header is sought.
const MAX_HEADER_BYTES: u64 = 256 * 1024;

pub(in crate::jmap) struct MdnSend;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct MdnSendArgs {
    account_id: String,
    identity_id: Option<String>,
    /// MDNs by creation id.
    send: Option<BTreeMap<String, JsonObject>>,
    /// Patches of the emails, by reference to a creation id.
    #[serde(default)]
    on_success_update_email: BTreeMap<String, JsonObject>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct MdnSendAnswer {
    account_id: String,
    /// What the client does not know of each, by creation id.
    sent: Option<JsonObject>,
    /// Errors by creation id.
    not_sent: Option<JsonObject>,
}

impl Answer for MdnSendAnswer {}

impl Method for MdnSend {
    type Args = MdnSendArgs;
    type Answer = MdnSendAnswer;

    fn call(call: &Call<'_>, args: MdnSendArgs) -> Result<MdnSendAnswer, MethodError> {
        send(call, &args)
    }
}

fn send(call: &Call<'_>, args: &MdnSendArgs) -> Result<MdnSendAnswer, MethodError> {
    let context = call.context;
    let account = super::open(call, &args.account_id)?;
    let wanted = |what: &str| MethodError::InvalidArguments(format!("{what} is wanted"));
    let wishes = args.send.as_ref().ok_or_else(|| wanted("send"))?;
    let identity_id = args.identity_id.as_deref().ok_or_else(|| wanted("identityId"))?;
    let patches = &args.on_success_update_email;
    if wishes.len() > limits::MAX_OBJECTS_IN_SET || patches.len() > limits::MAX_OBJECTS_IN_SET {
        return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
    }
    identity::refresh(context, &account)?;
    let identity = identity(call, &account, identity_id)?;
    marks(wishes, patches)?;
    let senders = SenderAddresses::of(context, &account)?;
    let mut desk = MdnSender { call, account: &account, senders, identity };
    let (mut sent, mut not_sent, mut update) =
        (JsonObject::new(), JsonObject::new(), JsonObject::new());
    for (name, wish) in wishes {
        match desk.send(wish) {
            Ok((email, told)) => {
                let patch = patches.get(&format!("#{name}"));
                update.extend(patch.map(|patch| (email.to_string(), Value::Object(patch.clone()))));
                sent.insert(name.clone(), Value::Object(told));
            }
            // An error of the whole call says that nothing was done (RFC 8620 §3.6.2).
            Err(SetFailure::Call(error)) if !sent.is_empty() => {
                let error = SetError::ServerFail(error.description());
                not_sent.insert(name.clone(), error.object());
            }
            Err(failure) => drop(not_sent.insert(name.clone(), failure.object()?.object())),
        }
    }
    let account_id = account.id.to_string();
    if !update.is_empty() {
        let mut arguments = JsonObject::new();
        arguments.insert("accountId".into(), account_id.clone().into());
        arguments.insert("update".into(), Value::Object(update));
        call.follow_with(FollowUpCall { name: "Email/set", arguments });
    }
    let some = |members: JsonObject| Some(members).filter(|members| !members.is_empty());
    Ok(MdnSendAnswer { account_id, sent: some(sent), not_sent: some(not_sent) })
}

/// The identity; one that is not there is a wrong argument.
fn identity(call: &Call<'_>, account: &Account, id: &str) -> Result<SenderIdentity, MethodError> {
    let id = call.created.resolve(id).and_then(|id| id.parse::<ObjectId>().ok());
    let snapshot = call.context.store.snapshot();
    let found = id.map(|id| snapshot.object::<SenderIdentity>(account.id, id)).transpose()?;
    found.flatten().ok_or_else(|| {
        MethodError::InvalidArguments("identityId: there is no such identity".into())
    })
}

/// Every email must get the keyword: each MDN has its patch, by a reference to its creation id,
/// that sets it (RFC 9007 §2.1).
fn marks(
    wishes: &BTreeMap<String, JsonObject>,
    patches: &BTreeMap<String, JsonObject>,
) -> Result<(), MethodError> {
    let bad = |what: String| MethodError::InvalidArguments(format!("onSuccessUpdateEmail: {what}"));
    let is_asked = |of: &str| of.strip_prefix('#').is_some_and(|of| wishes.contains_key(of));
    if let Some(other) = patches.keys().find(|of| !is_asked(of)) {
        return Err(bad(format!("{other} is no reference to what is to be sent")));
    }
    let sets = |patch: &JsonObject| {
        let within = patch.get("keywords").and_then(|keywords| keywords.get(keyword::MDN_SENT));
        let alone = patch.get(&format!("keywords/{}", keyword::MDN_SENT));
        within.or(alone) == Some(&Value::Bool(true))
    };
    let is_marked = |name: &String| patches.get(&format!("#{name}")).is_some_and(sets);
    match wishes.keys().find(|name| !is_marked(name)) {
        Some(name) => Err(bad(format!("#{name} must set keywords/{}", keyword::MDN_SENT))),
        None => Ok(()),
    }
}

/// The account that sends, and by which identity.
struct MdnSender<'a> {
    call: &'a Call<'a>,
    account: &'a Account,
    senders: SenderAddresses,
    identity: SenderIdentity,
}

impl MdnSender<'_> {
    /// Sends one; gives its email, and what the client does not know of it.
    fn send(&mut self, given: &JsonObject) -> Result<(EmailId, JsonObject), SetFailure> {
        let wish = MdnObject::read(given)?;
        let id = self.call.created.resolve(&wish.email).and_then(|id| id.parse::<EmailId>().ok());
        let id = id.ok_or(SetError::NotFound)?;
        let (email, request) = self.asked(id)?;
        if email.keywords.contains(keyword::MDN_SENT) {
            return Err(already_sent().into());
        }
        if let Some(why) = request.reason_not_to_send(wish.sending) {
            return Err(SetError::Forbidden(why).into());
        }
        let person = self.person(&wish, &request)?;
        let original = if wish.with_original { Some(self.original(&email)?) } else { None };
        let made = made(&wish, &request, &self.identity, &person, original);
        let told = told(given, &wish, &made, &request);
        self.queue(id, made)?;
        Ok((id, told))
    }

    /// The email, and what its sender asked for. One that asks for nothing is not there (RFC 9007
    /// §2.1).
    fn asked(&self, id: EmailId) -> Result<(EmailMetadata, MdnRequest), SetFailure> {
        let snapshot = self.call.context.store.snapshot();
        let email = snapshot.email(self.account.id, id)?.ok_or(SetError::NotFound)?;
        self.call.context.budget.charge_read(MAX_HEADER_BYTES.min(email.size))?;
        let head = snapshot
            .message_part(self.account.id, id, 0..MAX_HEADER_BYTES)?
            .ok_or(SetError::NotFound)?;
        let request = catch_parser_panic("a header", || MdnRequest::of(&head)).flatten();
        let nobody =
            || SetError::Of("notFound", note("it has no valid Disposition-Notification-To field"));
        Ok((email, request.ok_or_else(nobody)?))
    }

    /// The address for which the notification is sent: the one that the client names, if it belongs
    /// to the account; else that of the identity. An identity for a whole domain gives the address
    /// of that domain to which the message came.
    fn person(&self, wish: &MdnObject, request: &MdnRequest) -> Result<Address, SetError> {
        if !self.senders.may_use(&self.identity)? {
            let gone = format!("{} is no more the account's address", self.identity.email);
            return Err(SetError::of("forbiddenFrom", &gone));
        }
        if let Some(given) = &wish.final_recipient {
            let found =
                if given.contains(';') { address(given) } else { Address::parse(given).ok() };
            let found = found.ok_or_else(|| {
                SetError::property("finalRecipient", "rfc822; user@domain is wanted")
            })?;
            let is_own = self.senders.may_send_from(&found)?;
            let foreign = || {
                SetError::of(
                    "forbiddenFrom",
                    &format!("{found} is none of the account's addresses"),
                )
            };
            return if is_own { Ok(found) } else { Err(foreign()) };
        }
        let Some(domain) = self.identity.email.strip_prefix("*@") else {
            let broken = |_| {
                SetError::property("finalRecipient", "the identity has no address: say for whom")
            };
            return Address::parse(&self.identity.email).map_err(broken);
        };
        for to in request.destinations() {
            if to.folded().domain() == domain.to_lowercase() && self.senders.may_send_from(to)? {
                return Ok(to.clone());
            }
        }
        Err(SetError::property("finalRecipient", "the identity is a whole domain: say for whom"))
    }

    /// The message as it was received.
    fn original(&mut self, email: &EmailMetadata) -> Result<Vec<u8>, SetFailure> {
        if email.size > limits::MAX_MESSAGE_BYTES {
            return Err(too_large().into());
        }
        self.call.context.budget.charge_read(email.size)?;
        let raw = self.call.context.store.snapshot().raw_message(&email.blob)?;
        Ok(raw.ok_or(SetError::NotFound)?)
    }

    /// The notification and the keyword, in one commit.
    fn queue(&mut self, id: EmailId, made: MdnDraft) -> Result<(), SetFailure> {
        let (context, account) = (self.call.context, self.account);
        let (message_id, _) = email::new_message_id(account).map_err(SetFailure::Call)?;
        let recipients = made.to.iter().filter_map(|to| Address::parse(&to.email).ok()).collect();
        let now = context.store.clock().now();
        let raw = notification(made, &Reporter { hostname: "", message_id: &message_id, now });
        if raw.len() as u64 > limits::MAX_MESSAGE_BYTES {
            return Err(too_large().into());
        }
        context.budget.charge_stored(raw.len() as u64)?;
        let blob = BlobHash(*blake3::hash(&raw).as_bytes());
        let action = ReceiptAction { recipients, email: id, message_id, blob }.queue(now);
        commit_object(&context.store, account.id, |txn| {
            let email = txn.snapshot().email(account.id, id)?;
            let email = email.ok_or(SetError::NotFound)?;
            if email.keywords.contains(keyword::MDN_SENT) {
                return Err(already_sent().into());
            }
            match txn.queue_message(action.clone(), &blob, &raw) {
                Err(error @ Error::QueueFull(_)) => {
                    return Err(SetError::OverQuota(error.to_string()).into());
                }
                queued => drop(queued?),
            }
            let mut keywords = email.keywords;
            keywords.insert(keyword::MDN_SENT.into());
            // The notification is queued in this commit: a failure here must undo that.
            txn.update_email(id, email.mailboxes, keywords).map(drop).map_err(SetFailure::Call)
        })
    }
}

fn note(description: &str) -> JsonObject {
    let mut more = JsonObject::new();
    more.insert("description".into(), description.into());
    more
}

fn already_sent() -> SetError {
    SetError::of("mdnAlreadySent", "the email has the keyword $mdnsent")
}

fn too_large() -> SetError {
    SetError::TooLarge(format!("a message of more than {} octets", limits::MAX_MESSAGE_BYTES))
}

/// The notification that is wished for.
fn made(
    wish: &MdnObject,
    request: &MdnRequest,
    identity: &SenderIdentity,
    person: &Address,
    original: Option<Vec<u8>>,
) -> MdnDraft {
    let disposition = DispositionReport {
        reporting_ua: wish.reporting_ua.clone(),
        gateway: None,
        original_recipient: request.original_recipient.clone(),
        final_recipient: typed(person),
        original_message_id: request.message_id.clone(),
        action: wish.action,
        sending: wish.sending,
        kind: wish.kind,
        errors: Vec::new(),
        extensions: wish.extensions.clone(),
    };
    let (title, said) = words(wish.kind);
    let about = request.subject.as_deref().unwrap_or("(no subject)");
    let text = || {
        let by = if wish.sending == SendingMode::Automatic {
            "\r\nNobody was asked for this notification.\r\n"
        } else {
            ""
        };
        format!(
            "The message to {person} with the subject \"{about}\" {said}.\r\n{GUARANTEE}\r\n{by}"
        )
    };
    let name = Some(identity.name.clone()).filter(|name| !name.is_empty());
    let email =
        if identity.email.starts_with('*') { person.to_string() } else { identity.email.clone() };
    MdnDraft {
        from: EmailAddress { name, email },
        to: request.to.clone(),
        subject: wish.subject.clone().unwrap_or_else(|| format!("{title}: {about}")),
        text: wish.text.clone().unwrap_or_else(text),
        disposition,
        original,
    }
}

/// RFC 8098 §2.1: what it does not say.
const GUARANTEE: &str = "This is no guarantee that it has been read or understood.";

/// What people read of what was done.
fn words(kind: DispositionType) -> (&'static str, &'static str) {
    match kind {
        DispositionType::Deleted => ("Deleted", "has been deleted"),
        DispositionType::Dispatched => ("Passed on", "has been passed on"),
        DispositionType::Displayed => ("Displayed", "has been displayed"),
        DispositionType::Processed => ("Processed", "has been processed"),
    }
}

/// What the client did not say of it.
fn told(given: &JsonObject, wish: &MdnObject, made: &MdnDraft, request: &MdnRequest) -> JsonObject {
    let extensions: JsonObject =
        wish.extensions.iter().map(|(name, text)| (name.clone(), text.clone().into())).collect();
    let mut told = members(json!({
        "subject": made.subject, "textBody": made.text, "includeOriginalMessage": wish.with_original,
        "reportingUA": wish.reporting_ua, "mdnGateway": null, "originalRecipient": request.original_recipient,
        "finalRecipient": made.disposition.final_recipient, "originalMessageId": request.message_id, "error": null,
        "extensionFields": or_null(extensions),
    }));
    told.retain(|name, value| given.get(name) != Some(value));
    told
}
