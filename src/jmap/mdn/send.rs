//! MDN/send (RFC 9007 §2.1): queues notifications about emails.
//!
//! - One commit queues a notification and sets the keyword `$mdnsent` of its email, which forbids a
//!   second one.
//! - An Email/set that follows the call makes the other changes of the email.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::object::MdnObject;
use crate::jmap::context::Account;
use crate::jmap::email;
use crate::jmap::failure::{SetFailure, commit_object};
use crate::jmap::identity::{self, SenderAddresses};
use crate::jmap::method::{Call, FollowUpCall, Method};
use crate::message::catch_parser_panic;
use crate::message::report::{DispositionReport, DispositionType, SendingMode, address};
use crate::model::address::fold_domain;
use crate::model::{
    Address, BlobHash, EmailAddress, EmailId, EmailMetadata, ObjectId, SenderIdentity, keyword,
    limits,
};
use crate::outbox::mdn::{MdnDraft, MdnRequest, compose_notification};
use crate::outbox::{ReceiptAction, Reporter, address_with_type};
use crate::store::Error;
use crate::wire::jmap::json::{members, or_null};
use crate::wire::jmap::{Answer, JsonObject, MethodError, SetError};

pub(in crate::jmap) struct MdnSend;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct MdnSendArgs {
    account_id: String,
    identity_id: Option<String>,
    /// The MDN objects, by creation id.
    send: Option<BTreeMap<String, JsonObject>>,
    /// Patches of the emails, by `#` and the creation id of the MDN.
    #[serde(default)]
    on_success_update_email: BTreeMap<String, JsonObject>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct MdnSendAnswer {
    account_id: String,
    /// What `properties_not_given` returned, by creation id.
    sent: Option<JsonObject>,
    /// The errors, by creation id.
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
    let account = super::managed_account(call, &args.account_id)?;
    let missing = |name: &str| MethodError::InvalidArguments(format!("{name} is required"));
    let mdns = args.send.as_ref().ok_or_else(|| missing("send"))?;
    let identity_id = args.identity_id.as_deref().ok_or_else(|| missing("identityId"))?;
    let patches = &args.on_success_update_email;
    if mdns.len() > limits::MAX_OBJECTS_IN_SET || patches.len() > limits::MAX_OBJECTS_IN_SET {
        return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
    }
    identity::refresh(context, &account)?;
    let identity = identity(call, &account, identity_id)?;
    require_sent_keyword(mdns, patches)?;
    let senders = SenderAddresses::read(context, &account)?;
    let mut sender = MdnSender { call, account: &account, senders, identity };
    let (mut sent, mut not_sent, mut update) =
        (JsonObject::new(), JsonObject::new(), JsonObject::new());
    for (name, mdn) in mdns {
        match sender.send(mdn) {
            Ok((email, not_given)) => {
                let patch = patches.get(&format!("#{name}"));
                update.extend(patch.map(|patch| (email.to_string(), Value::Object(patch.clone()))));
                sent.insert(name.clone(), Value::Object(not_given));
            }
            // An error of the whole call would say that nothing was sent (RFC 8620 §3.6.2).
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
    let none_if_empty = |members: JsonObject| Some(members).filter(|members| !members.is_empty());
    Ok(MdnSendAnswer { account_id, sent: none_if_empty(sent), not_sent: none_if_empty(not_sent) })
}

/// Finds an identity by its id or creation id.
///
/// # Errors
/// `InvalidArguments` if there is no such identity; those of reading.
fn identity(call: &Call<'_>, account: &Account, id: &str) -> Result<SenderIdentity, MethodError> {
    let id = call.created.resolve(id).and_then(|id| id.parse::<ObjectId>().ok());
    let snapshot = call.context.store.snapshot();
    let found = id.map(|id| snapshot.object::<SenderIdentity>(account.id, id)).transpose()?;
    found.flatten().ok_or_else(|| {
        MethodError::InvalidArguments("identityId: there is no such identity".into())
    })
}

/// Checks that there is a patch for each MDN and for nothing else, and that it sets the keyword
/// `$mdnsent` (RFC 9007 §2.1).
fn require_sent_keyword(
    mdns: &BTreeMap<String, JsonObject>,
    patches: &BTreeMap<String, JsonObject>,
) -> Result<(), MethodError> {
    let invalid =
        |what: String| MethodError::InvalidArguments(format!("onSuccessUpdateEmail: {what}"));
    let is_sent = |key: &str| key.strip_prefix('#').is_some_and(|name| mdns.contains_key(name));
    if let Some(other) = patches.keys().find(|key| !is_sent(key)) {
        return Err(invalid(format!("{other} does not refer to an MDN of this call")));
    }
    let is_sent_keyword = |word: &str, value: &Value| {
        word.eq_ignore_ascii_case(keyword::MDN_SENT) && *value == Value::Bool(true)
    };
    let sets_keyword = |patch: &JsonObject| {
        let words = patch.get("keywords").and_then(Value::as_object);
        let mut paths = patch.iter().filter_map(|(pointer, value)| {
            pointer.strip_prefix("keywords/").map(|word| (word, value))
        });
        words.is_some_and(|words| words.iter().any(|(word, value)| is_sent_keyword(word, value)))
            || paths.any(|(word, value)| is_sent_keyword(word, value))
    };
    let is_marked = |name: &String| patches.get(&format!("#{name}")).is_some_and(sets_keyword);
    match mdns.keys().find(|name| !is_marked(name)) {
        Some(name) => Err(invalid(format!("#{name} must set keywords/{}", keyword::MDN_SENT))),
        None => Ok(()),
    }
}

struct MdnSender<'a> {
    call: &'a Call<'a>,
    account: &'a Account,
    senders: SenderAddresses,
    identity: SenderIdentity,
}

impl MdnSender<'_> {
    /// Queues a notification. Returns the email that the notification is about, and
    /// `properties_not_given`.
    fn send(&mut self, given: &JsonObject) -> Result<(EmailId, JsonObject), SetFailure> {
        let mdn = MdnObject::read(given)?;
        let id = self.call.created.resolve(&mdn.email).and_then(|id| id.parse::<EmailId>().ok());
        let id = id.ok_or(SetError::NotFound)?;
        let (email, request) = self.email_and_request(id)?;
        if email.keywords.contains(keyword::MDN_SENT) {
            return Err(already_sent().into());
        }
        if let Some(why) = request.reason_not_to_send(mdn.sending) {
            return Err(SetError::Forbidden(why).into());
        }
        let recipient = self.final_recipient(&mdn, &request)?;
        let original = if mdn.with_original { Some(self.original(&email)?) } else { None };
        let draft = draft(&mdn, &request, &self.identity, &recipient, original);
        let not_given = properties_not_given(given, &mdn, &draft, &request);
        self.queue(id, draft)?;
        Ok((id, not_given))
    }

    /// Reads an email and its request for a notification.
    ///
    /// # Errors
    /// `notFound` if there is no such email, or no request in it (RFC 9007 §2.1); `rateLimit` if
    /// the JMAP request reads too much; errors of the store.
    fn email_and_request(&self, id: EmailId) -> Result<(EmailMetadata, MdnRequest), SetFailure> {
        let snapshot = self.call.context.store.snapshot();
        let email = snapshot.email(self.account.id, id)?.ok_or(SetError::NotFound)?;
        let longest = limits::MAX_HEADER_BYTES as u64;
        self.call.context.budget.charge_read(longest.min(email.size))?;
        let head =
            snapshot.message_part(self.account.id, id, 0..longest)?.ok_or(SetError::NotFound)?;
        let request = catch_parser_panic("a header", || MdnRequest::of(&head)).flatten();
        let no_request = || {
            SetError::Other(
                "notFound",
                description("the email has no valid Disposition-Notification-To field"),
            )
        };
        Ok((email, request.ok_or_else(no_request)?))
    }

    /// Returns the address for which the notification is sent: the one that the client names, or
    /// that of the identity. For an identity `*@domain`, it is the address of that domain to which
    /// the message was sent.
    ///
    /// # Errors
    /// `forbiddenFrom` if the address of the identity, or the one that the client names, is not the
    /// account's. `invalidProperties` if the client names something that is no address, or names
    /// none and none is found. `serverFail` if the directory cannot be read.
    fn final_recipient(&self, mdn: &MdnObject, request: &MdnRequest) -> Result<Address, SetError> {
        if !self.senders.may_use(&self.identity)? {
            let not_own = format!("{} is no longer an address of the account", self.identity.email);
            return Err(SetError::other("forbiddenFrom", &not_own));
        }
        if let Some(given) = &mdn.final_recipient {
            let found =
                if given.contains(';') { address(given) } else { Address::parse(given).ok() };
            let found = found.ok_or_else(|| {
                SetError::property("finalRecipient", "rfc822; user@domain is expected")
            })?;
            let is_own = self.senders.may_send_from(&found)?;
            let not_own = || {
                SetError::other(
                    "forbiddenFrom",
                    &format!("{found} is not an address of the account"),
                )
            };
            return if is_own { Ok(found) } else { Err(not_own()) };
        }
        let Some(domain) = self.identity.email.strip_prefix("*@") else {
            let no_address = |_| {
                SetError::property(
                    "finalRecipient",
                    "the identity has no address: name the recipient",
                )
            };
            return Address::parse(&self.identity.email).map_err(no_address);
        };
        let domain = fold_domain(domain);
        for to in request.destinations() {
            if fold_domain(to.domain()) == domain && self.senders.may_send_from(to)? {
                return Ok(to.clone());
            }
        }
        Err(SetError::property(
            "finalRecipient",
            "the identity is for a whole domain: name the recipient",
        ))
    }

    fn original(&mut self, email: &EmailMetadata) -> Result<Vec<u8>, SetFailure> {
        if email.size > limits::MAX_MESSAGE_BYTES {
            return Err(too_large().into());
        }
        self.call.context.budget.charge_read(email.size)?;
        let raw = self.call.context.store.snapshot().raw_message(&email.blob)?;
        Ok(raw.ok_or(SetError::NotFound)?)
    }

    /// Queues the notification and sets the keyword of its email, in one commit.
    ///
    /// # Errors
    /// `mdnAlreadySent` if the email got the keyword meanwhile, `notFound` if it was destroyed;
    /// `tooLarge`; `rateLimit` if the JMAP request has stored too much; `overQuota` if the queue is
    /// full; errors of the store.
    fn queue(&mut self, id: EmailId, draft: MdnDraft) -> Result<(), SetFailure> {
        let (context, account) = (self.call.context, self.account);
        let (message_id, _) = email::new_message_id(account).map_err(SetFailure::Call)?;
        let recipients = draft.to.iter().filter_map(|to| Address::parse(&to.email).ok()).collect();
        let now = context.store.clock().now();
        // There is no host name, because the client names the reporting program.
        let raw =
            compose_notification(draft, &Reporter { hostname: "", message_id: &message_id, now });
        if raw.len() as u64 > limits::MAX_MESSAGE_BYTES {
            return Err(too_large().into());
        }
        context.budget.charge_stored(raw.len() as u64)?;
        let blob = BlobHash(*blake3::hash(&raw).as_bytes());
        let action = ReceiptAction { recipients, email: id, message_id, blob }.into_action(now);
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
            // An error here fails the whole commit, so that the notification is not queued either.
            txn.update_email(id, email.mailboxes, keywords).map(drop).map_err(SetFailure::Call)
        })
    }
}

fn description(text: &str) -> JsonObject {
    let mut more = JsonObject::new();
    more.insert("description".into(), text.into());
    more
}

fn already_sent() -> SetError {
    SetError::other("mdnAlreadySent", "the email has the keyword $mdnsent")
}

fn too_large() -> SetError {
    SetError::TooLarge(format!("the message is larger than {} bytes", limits::MAX_MESSAGE_BYTES))
}

fn draft(
    mdn: &MdnObject,
    request: &MdnRequest,
    identity: &SenderIdentity,
    recipient: &Address,
    original: Option<Vec<u8>>,
) -> MdnDraft {
    let disposition = DispositionReport {
        reporting_ua: mdn.reporting_ua.clone(),
        gateway: None,
        original_recipient: request.original_recipient.clone(),
        final_recipient: address_with_type(recipient),
        original_message_id: request.message_id.clone(),
        action: mdn.action,
        sending: mdn.sending,
        kind: mdn.kind,
        errors: Vec::new(),
        extensions: mdn.extensions.clone(),
    };
    let (title, phrase) = describe(mdn.kind);
    let about = request.subject.as_deref().unwrap_or("(no subject)");
    let text = || {
        let by = if mdn.sending == SendingMode::Automatic {
            "\r\nNobody was asked for this notification.\r\n"
        } else {
            ""
        };
        format!(
            "The message to {recipient} with the subject \"{about}\" {phrase}.\r\n\
             {GUARANTEE}\r\n{by}"
        )
    };
    let name = Some(identity.name.clone()).filter(|name| !name.is_empty());
    let email = if identity.email.starts_with('*') {
        recipient.to_string()
    } else {
        identity.email.clone()
    };
    MdnDraft {
        from: EmailAddress { name, email },
        to: request.to.clone(),
        subject: mdn.subject.clone().unwrap_or_else(|| format!("{title}: {about}")),
        text: mdn.text.clone().unwrap_or_else(text),
        disposition,
        original,
    }
}

/// RFC 8098 §2.1: a notification does not prove that anybody read the message.
const GUARANTEE: &str = "This is no guarantee that it has been read or understood.";

/// Returns what the subject begins with, and what the text says of the message.
fn describe(kind: DispositionType) -> (&'static str, &'static str) {
    match kind {
        DispositionType::Deleted => ("Deleted", "has been deleted"),
        DispositionType::Dispatched => ("Passed on", "has been passed on"),
        DispositionType::Displayed => ("Displayed", "has been displayed"),
        DispositionType::Processed => ("Processed", "has been processed"),
    }
}

/// Returns the properties of the notification that the client did not give, or gave with another
/// value.
fn properties_not_given(
    given: &JsonObject,
    mdn: &MdnObject,
    draft: &MdnDraft,
    request: &MdnRequest,
) -> JsonObject {
    let extensions: JsonObject =
        mdn.extensions.iter().map(|(name, text)| (name.clone(), text.clone().into())).collect();
    let mut properties = members(json!({
        "subject": draft.subject,
        "textBody": draft.text,
        "includeOriginalMessage": mdn.with_original,
        "reportingUA": mdn.reporting_ua,
        "mdnGateway": null,
        "originalRecipient": request.original_recipient,
        "finalRecipient": draft.disposition.final_recipient,
        "originalMessageId": request.message_id,
        "error": null,
        "extensionFields": or_null(extensions),
    }));
    properties.retain(|name, value| given.get(name) != Some(value));
    properties
}
