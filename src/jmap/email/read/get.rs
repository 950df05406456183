//! Email/get and Email/changes (RFC 8621 §4.2, §4.3). What a list shows comes from the rows; the
//! message itself is read once, and only for what is in it alone.

use serde_json::Value;

use super::body::{Bodies, BodyArgs, TracedMessage};
use super::property::{EmailProperty, RequestedProperties};
use crate::jmap::context::{Account, Context};
use crate::jmap::guest;
use crate::jmap::method::{Call, Method};
use crate::jmap::rights::Rights;
use crate::jmap::standard::{
    ChangedObjects, ObjectChanges, ObjectType, client_state, newest_state, requested_ids,
};
use crate::message::header;
use crate::model::{BlobHash, BlobId, DataType, EmailContent, EmailId, EmailMetadata, limits};
use crate::query::{Query, QuerySpec, Window, query};
use crate::store::Snapshot;
use crate::wire::jmap::standard::{GetAnswer, GetArgs};
use crate::wire::jmap::{JsonObject, MethodError, Property as _, With};

/// Emails whose rows are read at once: one lookup of many costs less than many of one, and their
/// rows are in memory together.
const EMAILS_PER_READ: usize = 64;

/// The emails of an account at one moment, as the caller sees them.
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
        most: usize,
    ) -> Result<Option<ChangedObjects<EmailId>>, MethodError> {
        let EmailReader { context, account, snapshot } = reader;
        let since = client_state(&context.store, since)?;
        let found = match account.guest {
            None => snapshot.email_changes(account.id, since, most)?,
            Some(_) => guest::email_changes(snapshot, account, since, most)?,
        };
        Ok(found.map(|found| ChangedObjects::of(&context.store, found)))
    }
}

/// Email/get. It has arguments beside the standard's, and reads the rows of many emails at once.
pub(in crate::jmap) struct EmailGet;

impl Method for EmailGet {
    type Args = With<GetArgs<EmailProperty>, BodyArgs>;
    type Answer = GetAnswer;

    fn call(call: &Call<'_>, With(args, body): Self::Args) -> Result<GetAnswer, MethodError> {
        let (context, account) =
            (call.context, call.open(&args.account_id, EmailMetadata::GUESTS)?);
        let ids = requested_ids(call, args.ids)?;
        let wanted = match args.properties {
            Some(named) => RequestedProperties::of([EmailProperty::id()].into_iter().chain(named))?,
            None => RequestedProperties::usual(),
        };
        let bodies = Bodies::of(context, body)?;
        let reader = EmailMetadata::reader(call, &account)?;
        let rights = Rights::of(&reader.snapshot, &account)?;
        let ids: Vec<(String, Option<EmailId>)> = match ids {
            Some(ids) => ids
                .into_iter()
                .map(|text| (text.parse().ok(), text))
                .map(|(id, text)| (text, id))
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
        let (mut list, mut not_found) = (Vec::with_capacity(ids.len()), Vec::new());
        let show = EmailDisplay {
            context,
            snapshot: &reader.snapshot,
            account: &account,
            rights: &rights,
        };
        for chunk in ids.chunks(EMAILS_PER_READ) {
            let known: Vec<EmailId> = chunk.iter().filter_map(|(_, id)| *id).collect();
            let mut objects = show.rows(&known, &wanted)?.into_iter();
            for (text, id) in chunk {
                let found = id.and_then(|id| objects.next().flatten().map(|rows| (id, rows)));
                match found
                    .map(|(id, rows)| show.object(id, rows, (&wanted, &bodies)))
                    .transpose()?
                {
                    Some(object) => {
                        let object = Value::Object(object);
                        context.budget.add_to_answer(&object)?;
                        list.push(object);
                    }
                    None => not_found.push(text.clone()),
                }
            }
        }
        Ok(GetAnswer { account_id: account.id.to_string(), state, list, not_found })
    }
}

/// The newest emails that the caller sees, or the newest of each thread: one more than a /get may
/// give, if there are so many.
///
/// # Errors
/// Those of reading.
pub(in crate::jmap) fn newest_emails(
    context: &Context,
    snapshot: &Snapshot<'_>,
    (account, rights): (&Account, &Rights),
    collapse: bool,
) -> Result<Vec<EmailId>, MethodError> {
    let results =
        QuerySpec { account: account.id, collapse, scope: rights.scope(), ..QuerySpec::default() };
    let window = Window { limit: Some(limits::MAX_OBJECTS_IN_GET + 1), ..Window::default() };
    let found = query(snapshot, context.store.secrets(), &Query { results, window, total: false });
    Ok(found?.answer.ids)
}

/// The beginning of a message with its whole header, or the first `limits::MAX_HEADER_BYTES` of it.
/// Charged to the request.
///
/// # Errors
/// Those of reading; `requestTooLarge`.
pub(in crate::jmap) fn head(
    context: &Context,
    snapshot: &Snapshot<'_>,
    blob: &BlobHash,
) -> Result<Option<Vec<u8>>, MethodError> {
    let head = snapshot.raw_message_until(blob, &header::has_whole_header)?;
    context.budget.charge_read(head.as_ref().map_or(0, |head| head.len() as u64))?;
    Ok(head)
}

/// Shows emails to the caller.
#[derive(Clone, Copy)]
pub(in crate::jmap::email) struct EmailDisplay<'a> {
    pub(in crate::jmap::email) context: &'a Context,
    pub(in crate::jmap::email) snapshot: &'a Snapshot<'a>,
    pub(in crate::jmap::email) account: &'a Account,
    pub(in crate::jmap::email) rights: &'a Rights,
}

/// The rows of an email that the caller sees: the second, trace prefix and content, where it is
/// needed.
type VisibleRows = (EmailMetadata, Option<(Vec<u8>, EmailContent)>);

impl EmailDisplay<'_> {
    /// The rows of emails; `None` for one that is not there for the caller.
    fn rows(
        &self,
        ids: &[EmailId],
        wanted: &RequestedProperties,
    ) -> Result<Vec<Option<VisibleRows>>, MethodError> {
        let emails = self.snapshot.emails_at(self.account.id, ids)?;
        let emails: Vec<Option<EmailMetadata>> =
            emails.into_iter().map(|email| self.rights.visible_part(email?)).collect();
        if !wanted.needs_content() && !wanted.needs_message() {
            return Ok(emails.into_iter().map(|email| Some((email?, None))).collect());
        }
        let seen: Vec<EmailId> =
            ids.iter().zip(&emails).filter_map(|(id, email)| email.as_ref().map(|_| *id)).collect();
        let mut contents = self.snapshot.contents_at(self.account.id, &seen)?.into_iter();
        Ok(emails.into_iter().map(|email| Some((email?, contents.next().flatten()))).collect())
    }

    /// The properties of one email, which is read for itself.
    pub(in crate::jmap::email) fn one(
        &self,
        id: EmailId,
        (wanted, bodies): (&RequestedProperties, &Bodies),
    ) -> Result<Option<JsonObject>, MethodError> {
        let rows = self.rows(&[id], wanted)?.pop().flatten();
        rows.map(|rows| self.object(id, rows, (wanted, bodies))).transpose()
    }

    /// The properties of one email.
    fn object(
        &self,
        id: EmailId,
        (email, content): VisibleRows,
        (wanted, bodies): (&RequestedProperties, &Bodies),
    ) -> Result<JsonObject, MethodError> {
        let mut object = JsonObject::new();
        wanted.of_metadata(id, &email, &mut object);
        if !wanted.needs_content() && !wanted.needs_message() {
            return Ok(object);
        }
        let lost = || MethodError::ServerFail(format!("{id} is not whole: run `restante check`"));
        let (prefix, content) = content.ok_or_else(lost)?;
        wanted.of_content(content, &mut object);
        if !wanted.needs_message() {
            return Ok(object);
        }
        let blob = BlobId::email(id);
        if wanted.needs_body() {
            self.context.budget.charge_read(email.size)?;
            let raw = self.snapshot.raw_message(&email.blob)?.ok_or_else(lost)?;
            bodies.show(
                wanted,
                TracedMessage { prefix: &prefix, raw: &raw, blob: &blob },
                &mut object,
            )?;
        } else {
            let head = head(self.context, self.snapshot, &email.blob)?.ok_or_else(lost)?;
            bodies.show_header(
                wanted,
                TracedMessage { prefix: &prefix, raw: &head, blob: &blob },
                &mut object,
            )?;
        }
        Ok(object)
    }
}
