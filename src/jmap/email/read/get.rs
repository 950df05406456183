//! Email/get and Email/changes (RFC 8621 §4.2, §4.3).
//!
//! Properties that a row has are taken from the row. For the other properties the message is read
//! once: only its header, if no property of the body is requested.

use serde_json::Value;

use super::body::{BodyArgs, MessageRenderer, TracedMessage};
use super::property::{EmailProperty, RequestedProperties};
use crate::jmap::context::{Account, Context};
use crate::jmap::guest;
use crate::jmap::method::{Call, Method};
use crate::jmap::rights::Rights;
use crate::jmap::standard::{
    ChangedObjects, ObjectChanges, ObjectType, newest_state, parse_state, requested_ids,
};
use crate::message::header;
use crate::model::{BlobHash, BlobId, DataType, EmailContent, EmailId, EmailMetadata, limits};
use crate::query::{Query, QuerySpec, Window, query};
use crate::store::Snapshot;
use crate::wire::jmap::json::weight;
use crate::wire::jmap::standard::{GetAnswer, GetArgs};
use crate::wire::jmap::text::{ArrayWriter, ResponseArguments};
use crate::wire::jmap::{IntoArguments as _, JsonObject, MethodError, Property as _, With};

/// How many emails' rows are read by one lookup.
const EMAILS_PER_READ: usize = 64;
/// The bytes that suffice for the JSON of most emails, with the properties that clients show in a
/// list.
const TEXT_OF_EMAIL: usize = 768;

pub(in crate::jmap) struct EmailReader<'a> {
    context: &'a Context,
    account: &'a Account,
    snapshot: Snapshot<'a>,
}

impl ObjectType for EmailMetadata {
    type Id = EmailId;
    type Property = EmailProperty;
    type Reader<'a> = EmailReader<'a>;

    const GUESTS: bool = true;

    fn reader<'a>(call: &Call<'a>, account: &'a Account) -> Result<EmailReader<'a>, MethodError> {
        Ok(EmailReader { context: call.context, account, snapshot: call.context.store.snapshot() })
    }

    fn state(reader: &EmailReader<'_>) -> Result<String, MethodError> {
        newest_state(&reader.context.store, &reader.snapshot, reader.account.id, DataType::Email)
    }
}

impl ObjectChanges for EmailMetadata {
    fn changes(
        reader: &EmailReader<'_>,
        since: &str,
        max_changes: usize,
    ) -> Result<Option<ChangedObjects<EmailId>>, MethodError> {
        let EmailReader { context, account, snapshot } = reader;
        let since = parse_state(&context.store, since)?;
        let changes = match account.guest {
            None => snapshot.email_changes(account.id, since, max_changes)?,
            Some(_) => guest::email_changes(snapshot, account, since, max_changes)?,
        };
        Ok(changes.map(|changes| ChangedObjects::from_store(&context.store, changes)))
    }
}

/// Email/get. Not a `GetMethod`: it has further arguments, and reads the rows of many emails at
/// once.
pub(in crate::jmap) struct EmailGet;

impl Method for EmailGet {
    type Args = With<GetArgs<EmailProperty>, BodyArgs>;
    type Answer = ResponseArguments;

    fn call(
        call: &Call<'_>,
        With(args, body): Self::Args,
    ) -> Result<ResponseArguments, MethodError> {
        let (context, account) = (call.context, EmailMetadata::account(call, &args.account_id)?);
        let ids = requested_ids(call, args.ids)?;
        let properties = match args.properties {
            Some(named) => {
                RequestedProperties::new([EmailProperty::id()].into_iter().chain(named))?
            }
            None => RequestedProperties::get_defaults(),
        };
        let renderer = MessageRenderer::new(context, body)?;
        let reader = EmailMetadata::reader(call, &account)?;
        let rights = Rights::in_account(&reader.snapshot, &account)?;
        let ids: Vec<(String, Option<EmailId>)> = match ids {
            Some(ids) => ids
                .into_iter()
                .map(|text| {
                    let id = text.parse().ok();
                    (text, id)
                })
                .collect(),
            None => {
                let all = newest_emails(context, &reader.snapshot, (&account, &rights), false)?;
                if all.len() > limits::MAX_OBJECTS_IN_GET {
                    return Err(MethodError::RequestTooLarge("maxObjectsInGet"));
                }
                all.into_iter().map(|id| (id.to_string(), Some(id))).collect()
            }
        };
        let state = EmailMetadata::state(&reader)?;
        let (mut list, mut not_found) = (EmailList::new(call, ids.len()), Vec::new());
        let display = EmailDisplay {
            context,
            snapshot: &reader.snapshot,
            account: &account,
            rights: &rights,
        };
        for chunk in ids.chunks(EMAILS_PER_READ) {
            let valid_ids: Vec<EmailId> = chunk.iter().filter_map(|(_, id)| *id).collect();
            let mut emails = display.rows(&valid_ids, &properties)?.into_iter();
            // `emails` has an entry for each valid id, in the same order.
            for (text, id) in chunk {
                let email = id.and_then(|id| emails.next().flatten().map(|rows| (id, rows)));
                match email
                    .map(|(id, rows)| display.object(id, rows, (&properties, &renderer)))
                    .transpose()?
                {
                    Some(object) => {
                        let object = Value::Object(object);
                        let weight = weight(&object);
                        context.budget.add_bytes_to_answer(weight)?;
                        list.push(object, weight);
                    }
                    None => not_found.push(text.clone()),
                }
            }
        }
        let account_id = account.id.to_string();
        let (list, text) = match list {
            EmailList::Tree(list) => (list, None),
            EmailList::Text(text) => (Vec::new(), Some(text.finish())),
        };
        let answer = GetAnswer { account_id, state, list, not_found };
        let mut answer = answer.into_arguments()?;
        if let Some(text) = text {
            answer.replace_by_text("list", text);
        }
        Ok(answer)
    }
}

/// The emails of an answer. Trees of a thousand emails take long to make and to drop, so the emails
/// are written one by one if nothing but the response needs them.
enum EmailList {
    Tree(Vec<Value>),
    Text(ArrayWriter),
}

impl EmailList {
    fn new(call: &Call<'_>, emails: usize) -> Self {
        if call.is_referred_to {
            Self::Tree(Vec::with_capacity(emails))
        } else {
            // Room for the emails of the first read. Further ones extend the text.
            Self::Text(ArrayWriter::with_capacity(emails.min(EMAILS_PER_READ) * TEXT_OF_EMAIL))
        }
    }

    fn push(&mut self, object: Value, weight: usize) {
        match self {
            Self::Tree(list) => list.push(object),
            Self::Text(text) => text.push(&object, weight),
        }
    }
}

/// Returns the newest emails that the caller sees, newest first; with `collapse`, only the newest
/// of each thread. Returns at most one more than a /get may.
pub(in crate::jmap) fn newest_emails(
    context: &Context,
    snapshot: &Snapshot<'_>,
    (account, rights): (&Account, &Rights),
    collapse: bool,
) -> Result<Vec<EmailId>, MethodError> {
    let spec = QuerySpec {
        account: account.id,
        collapse,
        scope: rights.scope(),
        reads: context.budget.search_allowance(),
        ..QuerySpec::default()
    };
    let window = Window { limit: Some(limits::MAX_OBJECTS_IN_GET + 1), ..Window::default() };
    let result = query(snapshot, context.store.secrets(), &Query { spec, window, total: false });
    Ok(result?.answer.ids)
}

/// Reads the beginning of a message, and charges it to the request: at least the whole header, or
/// `limits::MAX_HEADER_BYTES` of a longer header. `None` if there is no such message.
///
/// # Errors
/// `requestTooLarge` if the request has read too much; errors of the store.
pub(in crate::jmap) fn message_head(
    context: &Context,
    snapshot: &Snapshot<'_>,
    blob: &BlobHash,
) -> Result<Option<Vec<u8>>, MethodError> {
    let head = snapshot.raw_message_until(blob, &header::has_whole_header)?;
    context.budget.charge_read(head.as_ref().map_or(0, |head| head.len() as u64))?;
    Ok(head)
}

/// Builds the objects of emails as the caller sees them.
#[derive(Clone, Copy)]
pub(in crate::jmap::email) struct EmailDisplay<'a> {
    pub(in crate::jmap::email) context: &'a Context,
    pub(in crate::jmap::email) snapshot: &'a Snapshot<'a>,
    pub(in crate::jmap::email) account: &'a Account,
    pub(in crate::jmap::email) rights: &'a Rights,
}

/// The rows of an email, with the trace prefix and content if they were needed.
type VisibleRows = (EmailMetadata, Option<(Vec<u8>, EmailContent)>);

impl EmailDisplay<'_> {
    /// Reads the rows of emails, in the order of `ids`; `None` for an email that the caller does
    /// not see.
    fn rows(
        &self,
        ids: &[EmailId],
        properties: &RequestedProperties,
    ) -> Result<Vec<Option<VisibleRows>>, MethodError> {
        let emails = self.snapshot.emails_at(self.account.id, ids)?;
        let emails: Vec<Option<EmailMetadata>> =
            emails.into_iter().map(|email| self.rights.visible_part(email?)).collect();
        if !properties.needs_content() && !properties.needs_message() {
            return Ok(emails.into_iter().map(|email| Some((email?, None))).collect());
        }
        let visible: Vec<EmailId> =
            ids.iter().zip(&emails).filter_map(|(id, email)| email.as_ref().map(|_| *id)).collect();
        let mut contents = self.snapshot.contents_at(self.account.id, &visible)?.into_iter();
        Ok(emails.into_iter().map(|email| Some((email?, contents.next().flatten()))).collect())
    }

    /// Returns the object of one email; `None` if the caller does not see it.
    pub(in crate::jmap::email) fn read_one(
        &self,
        id: EmailId,
        (properties, renderer): (&RequestedProperties, &MessageRenderer),
    ) -> Result<Option<JsonObject>, MethodError> {
        let rows = self.rows(&[id], properties)?.pop().flatten();
        rows.map(|rows| self.object(id, rows, (properties, renderer))).transpose()
    }

    fn object(
        &self,
        id: EmailId,
        (email, content): VisibleRows,
        (properties, renderer): (&RequestedProperties, &MessageRenderer),
    ) -> Result<JsonObject, MethodError> {
        let mut object = JsonObject::new();
        properties.add_metadata(id, &email, &mut object);
        if !properties.needs_content() && !properties.needs_message() {
            return Ok(object);
        }
        let incomplete =
            || MethodError::ServerFail(format!("rows of {id} are missing: run `restante check`"));
        let (prefix, content) = content.ok_or_else(incomplete)?;
        properties.add_content(content, &mut object);
        if !properties.needs_message() {
            return Ok(object);
        }
        let blob = BlobId::email(id);
        if properties.needs_body() {
            self.context.budget.charge_read(email.size)?;
            let raw = self.snapshot.raw_message(&email.blob)?.ok_or_else(incomplete)?;
            let message = TracedMessage { prefix: &prefix, raw: &raw, blob: &blob };
            renderer.add_message(properties, message, &mut object)?;
        } else {
            let head = message_head(self.context, self.snapshot, &email.blob)?;
            let head = head.ok_or_else(incomplete)?;
            let message = TracedMessage { prefix: &prefix, raw: &head, blob: &blob };
            renderer.add_header(properties, message, &mut object)?;
        }
        Ok(object)
    }
}
