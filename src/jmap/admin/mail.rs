//! A look at the mail, and the way in.

use serde_json::{Value, json};

use crate::jmap::context::{Args, Context, address, date};
use crate::jmap::thread::summary;
use crate::message::Message;
use crate::model::{
    AccountId, Address, EmailAddress, EmailContent, EmailId, EmailMetadata, Listing, ListingFilter, Shape, ThreadId,
    limits,
};
use crate::store::Snapshot;
use crate::wire::jmap::{MethodError, octets, of_octets};

pub(super) fn list(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let snapshot = context.store.snapshot();
    let name = arguments.maybe_text("mailbox")?.unwrap_or_else(|| "inbox".into());
    let found = snapshot.find_mailbox(account, &name)?;
    let (uid, mailbox) = found.ok_or_else(|| MethodError::NotFound(format!("no mailbox {name}")))?;
    let shape = if arguments.flag("collapseThreads")? { Shape::Threads } else { Shape::Emails };
    let limit = rows(arguments)?;
    let after = arguments.maybe_text("after")?.map(|id| id.parse::<EmailId>()).transpose();
    let after = after.map_err(|_| MethodError::InvalidArguments("after: an email id is wanted".into()))?;
    let listing = Listing { uid, view: ListingFilter::Every, shape };
    let page = snapshot.listing(account, listing, after, limit)?;
    let row = |(email, thread)| {
        let row = describe(&snapshot, account, email, thread)?;
        let row = if shape == Shape::Threads { with_thread(&snapshot, account, thread, row)? } else { row };
        context.budget.tell(&row).map(|()| row)
    };
    let rows: Result<Vec<Value>, MethodError> = page.into_iter().map(row).collect();
    let counts = mailbox.counts;
    Ok(json!({
        "mailbox": {
            "id": uid.to_string(), "name": mailbox.name, "role": mailbox.role.map(crate::model::Role::name),
            "totalEmails": counts.total_emails, "unreadEmails": counts.unread_emails,
            "totalThreads": counts.total_threads, "unreadThreads": counts.unread_threads,
        },
        "list": rows?,
    }))
}

/// How many rows are wanted.
pub(super) fn rows(arguments: &Args<'_>) -> Result<usize, MethodError> {
    match arguments.number("limit")?.map(usize::try_from) {
        None => Ok(50),
        Some(Ok(limit)) if limit <= limits::MAX_LISTED_ROWS => Ok(limit),
        Some(_) => Err(MethodError::InvalidArguments(format!("limit: {} at most", limits::MAX_LISTED_ROWS))),
    }
}

pub(super) fn describe(
    snapshot: &Snapshot<'_>,
    account: AccountId,
    id: EmailId,
    thread: ThreadId,
) -> Result<Value, MethodError> {
    let email = snapshot.email(account, id)?;
    let content = snapshot.content(account, id)?;
    let (Some(email), Some((_, content))) = (email, content) else {
        return Err(MethodError::ServerFail(format!("{id} is listed and not there: run `restante check`")));
    };
    Ok(facts(id, thread, &email, &content))
}

/// A row of a list of threads: what is said of the email that stands for the thread, and what of the thread.
pub(super) fn with_thread(
    snapshot: &Snapshot<'_>,
    account: AccountId,
    thread: ThreadId,
    mut row: Value,
) -> Result<Value, MethodError> {
    let emails = snapshot.thread_emails(account, thread)?;
    let mut told = summary(snapshot, account, &emails)?;
    told.insert("emails".into(), emails.len().into());
    row["thread"] = Value::Object(told);
    Ok(row)
}

/// What is said of an email, live or not.
pub(super) fn facts(id: EmailId, thread: ThreadId, email: &EmailMetadata, content: &EmailContent) -> Value {
    let people = |all: &[EmailAddress]| {
        all.iter().map(|one| json!({"name": one.name, "email": one.email})).collect::<Vec<Value>>()
    };
    json!({
        "id": id.to_string(), "threadId": thread.to_string(), "receivedAt": date(Some(email.received_at)),
        "from": people(&content.from), "to": people(&content.to), "subject": content.subject,
        "keywords": email.keywords, "preview": content.preview, "hasAttachment": content.has_attachment,
        "size": email.size, "messageId": content.message_id,
    })
}

/// Charges a message that is about to be read, and given in base64.
pub(super) fn charge(context: &Context, size: u64) -> Result<(), MethodError> {
    let told = size.div_ceil(3).saturating_mul(4);
    context.budget.tell_bytes(usize::try_from(told).unwrap_or(usize::MAX))?;
    context.budget.read(size)
}

pub(super) fn show(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let snapshot = context.store.snapshot();
    let missing = || MethodError::NotFound("no such email".into());
    let id: EmailId = arguments.text("id")?.parse().map_err(|_| missing())?;
    let email = snapshot.email(account, id)?.ok_or_else(missing)?;
    charge(context, email.size)?;
    let message = snapshot.message(account, id)?.ok_or_else(missing)?;
    let attachments: Vec<Value> = Message::parse(&message)
        .attachments()
        .into_iter()
        .map(|part| json!({"name": part.name, "type": part.media_type, "size": part.size}))
        .collect();
    let mut answer = describe(&snapshot, account, id, email.thread)?;
    if let Some(members) = answer.as_object_mut() {
        members.insert("message".into(), octets(&message).into());
        members.insert("attachments".into(), attachments.into());
    }
    Ok(answer)
}

pub(super) fn deliver(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    context.admin_only()?;
    let sender = arguments.maybe_text("sender")?.map(|text| address(&text)).transpose()?;
    let recipients: Result<Vec<Address>, MethodError> =
        arguments.texts("recipients")?.iter().map(|text| address(text)).collect();
    let message = of_octets(&arguments.text("message")?)?;
    let outcomes = (context.deliver)(sender, recipients?, message);
    let outcomes: Vec<Value> = outcomes
        .into_iter()
        .map(|(recipient, reply)| {
            let mut line = Vec::new();
            reply.write(&mut line);
            json!({"recipient": recipient.to_string(), "reply": String::from_utf8_lossy(&line).trim_end()})
        })
        .collect();
    Ok(json!({ "outcomes": outcomes }))
}
