//! The vendor methods that list, show and deliver mail.

use super::{AdminMethod, charge_row, mailboxes};
use crate::jmap::context::{Context, parse_address};
use crate::jmap::method::Call;
use crate::jmap::thread::summary;
use crate::message::Message;
use crate::model::{
    AccountId, Address, EmailAddress, EmailContent, EmailId, EmailMetadata, Listing, ListingFilter,
    Shape, ThreadId, limits,
};
use crate::store::Snapshot;
use crate::wire::jmap::admin::OfAccount;
use crate::wire::jmap::admin::mail::{
    AttachmentFacts, EmailFacts, EmailRow, ListedMailbox, MailDeliver, MailDeliverAnswer,
    MailDeliverArguments, MailList, MailListAnswer, MailListArguments, MailShow, MailShowAnswer,
    MailShowArguments, NamedAddress, RecipientReply, ThreadFacts,
};
use crate::wire::jmap::{MethodError, With, from_base64, to_base64};

impl AdminMethod for MailList {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<MailListArguments>,
    ) -> Result<MailListAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let snapshot = context.store.snapshot();
        let name = args.mailbox.unwrap_or_else(|| "inbox".into());
        let (uid, mailbox) = mailboxes::find(context, account, &name)?;
        let shape = if args.collapse_threads { Shape::Threads } else { Shape::Emails };
        let (limit, after) = (row_count(args.limit)?, email_id("after", args.after.as_deref())?);
        let listing = Listing { uid, filter: ListingFilter::Every, shape };
        let mut list = Vec::new();
        for (id, thread) in snapshot.listing(account, listing, after, limit)? {
            list.push(charge_row(context, row(&snapshot, account, (id, thread), shape)?)?);
        }
        let mailbox = ListedMailbox {
            id: uid.to_string(),
            name: mailbox.name,
            role: mailbox.role.map(|role| role.name().to_owned()),
            totals: mailboxes::totals(mailbox.counts),
        };
        Ok(MailListAnswer { mailbox, list })
    }
}

/// Returns the number of rows for the argument `limit`: 50 if it is missing.
///
/// # Errors
/// `InvalidArguments` if it is more than `limits::MAX_LISTED_ROWS`.
pub(super) fn row_count(limit: Option<u64>) -> Result<usize, MethodError> {
    match limit.map(usize::try_from) {
        None => Ok(50),
        Some(Ok(limit)) if limit <= limits::MAX_LISTED_ROWS => Ok(limit),
        Some(_) => Err(MethodError::InvalidArguments(format!(
            "limit: at most {} is allowed",
            limits::MAX_LISTED_ROWS
        ))),
    }
}

/// Reads an argument that has the id of an email. `name` is the argument's, for the error.
pub(super) fn email_id(name: &str, text: Option<&str>) -> Result<Option<EmailId>, MethodError> {
    let id = text.map(str::parse).transpose();
    id.map_err(|_| MethodError::InvalidArguments(format!("{name}: an email id is expected")))
}

/// Returns the row of an email in a list. In a list of threads it has the facts of the thread, too.
pub(super) fn row(
    snapshot: &Snapshot<'_>,
    account: AccountId,
    (id, thread): (EmailId, ThreadId),
    shape: Shape,
) -> Result<EmailRow, MethodError> {
    let email = describe(snapshot, account, id, thread)?;
    let thread = match shape {
        Shape::Emails => None,
        Shape::Threads => {
            let emails = snapshot.thread_emails(account, thread)?;
            Some(ThreadFacts {
                emails: emails.len() as u64,
                summary: summary(snapshot, account, &emails)?,
            })
        }
    };
    Ok(EmailRow { email, thread, snippet: None })
}

/// Reads an email, and returns its facts.
///
/// # Errors
/// `ServerFail` if the email, which a listing has, does not exist; those of reading.
fn describe(
    snapshot: &Snapshot<'_>,
    account: AccountId,
    id: EmailId,
    thread: ThreadId,
) -> Result<EmailFacts, MethodError> {
    let email = snapshot.email(account, id)?;
    let content = snapshot.content(account, id)?;
    let (Some(email), Some((_, content))) = (email, content) else {
        return Err(MethodError::ServerFail(format!(
            "{id} is listed but does not exist: run `restante check`"
        )));
    };
    Ok(facts(id, thread, email, content))
}

/// Makes the facts of an email or of a tombstone from what is stored of it.
pub(super) fn facts(
    id: EmailId,
    thread: ThreadId,
    email: EmailMetadata,
    content: EmailContent,
) -> EmailFacts {
    let addresses = |all: Vec<EmailAddress>| {
        all.into_iter().map(|EmailAddress { name, email }| NamedAddress { name, email }).collect()
    };
    EmailFacts {
        id: id.to_string(),
        thread_id: thread.to_string(),
        received_at: email.received_at.rfc3339(),
        from: addresses(content.from),
        to: addresses(content.to),
        subject: content.subject,
        keywords: email.keywords,
        preview: content.preview,
        has_attachment: content.has_attachment,
        size: email.size,
        message_id: content.message_id,
    }
}

/// Charges a message of `size` bytes that will be read and returned in base64: the bytes to be
/// read, and the longer text as a part of the answer.
///
/// # Errors
/// `RequestTooLarge` if the request may not read so much, or its answer not grow so much.
pub(super) fn charge_message(context: &Context, size: u64) -> Result<(), MethodError> {
    let encoded = size.div_ceil(3).saturating_mul(4);
    context.budget.add_bytes_to_answer(usize::try_from(encoded).unwrap_or(usize::MAX))?;
    context.budget.charge_read(size)
}

impl AdminMethod for MailShow {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<MailShowArguments>,
    ) -> Result<MailShowAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let snapshot = context.store.snapshot();
        let missing = || MethodError::NotFound(format!("there is no email {}", args.id));
        let id: EmailId = args.id.parse().map_err(|_| missing())?;
        let email = snapshot.email(account, id)?.ok_or_else(missing)?;
        charge_message(context, email.size)?;
        let message = snapshot.message(account, id)?.ok_or_else(missing)?;
        let attachments = Message::parse(&message).attachments().into_iter().map(|part| {
            AttachmentFacts { name: part.name, media_type: part.media_type, size: part.size as u64 }
        });
        let attachments = attachments.collect();
        let email = describe(&snapshot, account, id, email.thread)?;
        Ok(MailShowAnswer { email, message: to_base64(&message), attachments })
    }
}

impl AdminMethod for MailDeliver {
    const ADMIN_ONLY: bool = true;

    fn call(
        &Call { context, .. }: &Call<'_>,
        args: MailDeliverArguments,
    ) -> Result<MailDeliverAnswer, MethodError> {
        let sender = args.sender.map(|text| parse_address(&text)).transpose()?;
        let recipients: Result<Vec<Address>, MethodError> =
            args.recipients.iter().map(|text| parse_address(text)).collect();
        let message = from_base64(&args.message)?;
        let outcomes = (context.deliver)(sender, recipients?, message).into_iter().map(
            |(recipient, reply)| {
                let mut line = Vec::new();
                reply.write(&mut line);
                let reply = String::from_utf8_lossy(&line).trim_end().to_owned();
                RecipientReply { recipient: recipient.to_string(), reply }
            },
        );
        Ok(MailDeliverAnswer { outcomes: outcomes.collect() })
    }
}
