//! Email/set (RFC 8621 §4.6): the creations, then the updates, then the destructions. Each creation
//! is a commit of its own. Up to `EMAILS_PER_COMMIT` updates share a commit, and so do as many
//! destructions.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::commits::{Commits, FiledEmail, NewMessage, file_message};
use super::create;
use super::filing::{self, Filing};
use crate::jmap::context::{Account, Context};
use crate::jmap::creation_ids::CreationIds;
use crate::jmap::email::read::body::MessageRenderer;
use crate::jmap::email::read::get::EmailDisplay;
use crate::jmap::email::read::property::{
    ContentProperty, EmailProperty, RequestedProperties, json_set,
};
use crate::jmap::failure::{SetFailure, TxnResult};
use crate::jmap::method::{Call, Method};
use crate::jmap::rights::Rights;
use crate::jmap::standard::{InvalidProperties, SetArguments};
use crate::message::content::content;
use crate::message::{Message as Parsed, catch_parser_panic};
use crate::model::mailbox::Right;
use crate::model::{DataType, EmailContent, EmailId, MailboxUid, ModSeq, SentAt};
use crate::store::{Snapshot, Txn};
use crate::wire::jmap::standard::{SetAnswer, SetArgs};
use crate::wire::jmap::{MethodError, Patch, SetError};

const EMAILS_PER_COMMIT: usize = 64;

pub(in crate::jmap) struct EmailSet;

impl Method for EmailSet {
    type Args = SetArgs;
    type Answer = SetAnswer;

    fn call(call: &Call<'_>, args: SetArgs) -> Result<SetAnswer, MethodError> {
        let account = call.account(&args.account_id)?;
        set(call, &account, SetArguments::read(call.created, args)?)
    }
}

fn set(
    call: &Call<'_>,
    account: &Account,
    mut set: SetArguments,
) -> Result<SetAnswer, MethodError> {
    let (context, ids) = (call.context, call.created);
    let mut response = std::mem::take(&mut set.done);
    let mut commits = Commits::default();
    let is_expected = |now: ModSeq| set.is_in_state(context, now);
    for (name, object) in &set.create {
        let created = create_email(call, account, &mut commits, is_expected, object);
        response.create(ids, name, created.map_err(|error| commits.object_failure(error)))?;
    }
    let updates: Vec<(String, &Value)> =
        set.update.iter().map(|(id, patch)| (call.resolve_id(id.clone()), patch)).collect();
    let destroys: Vec<String> = set.destroy.iter().map(|id| call.resolve_id(id.clone())).collect();
    let work = EmailSetCall { context, account, ids };
    work.change_each(
        &mut commits,
        &is_expected,
        &updates,
        &mut |txn, (id, patch)| work.update(txn, id, patch),
        &mut |(id, _), outcome| match outcome {
            Ok(server_set) => response.updated(id, server_set),
            Err(error) => response.not_updated(id, &error),
        },
    )?;
    work.change_each(
        &mut commits,
        &is_expected,
        &destroys,
        &mut |txn, id| work.destroy(txn, id),
        &mut |id, outcome| match outcome {
            Ok(()) => response.destroyed(id),
            Err(error) => response.not_destroyed(id, &error),
        },
    )?;
    let states = commits.into_states(&context.store.snapshot(), account, is_expected)?;
    Ok(response.into_answer(context, account, states))
}

/// Creates an email. Returns the properties that the client does not know.
fn create_email(
    call: &Call<'_>,
    account: &Account,
    commits: &mut Commits,
    is_expected: impl Fn(ModSeq) -> bool,
    object: &Map<String, Value>,
) -> Result<Map<String, Value>, SetFailure> {
    let mut problems = InvalidProperties::default();
    let context = call.context;
    let filing = Filing::read(call.created, object, &mut problems)?;
    // Refuses the email before its message is built if nothing more may be stored.
    context.budget.charge_stored(0)?;
    let now = context.store.clock().now();
    let raw = create::build_message(context, account, object, now, problems)?;
    let message = NewMessage {
        raw: &raw,
        prefix: &[],
        filing: &filing,
        keywords: BTreeSet::new(),
        received_at: now,
        refuse_duplicate: false,
    };
    let email: FiledEmail = file_message(context, account, commits, is_expected, &message)?;
    let mut server_set = email.object_with_date(&filing);
    let content =
        catch_parser_panic("a message", || content(&Parsed::parse(&raw))).unwrap_or_default();
    let sent_at = content.sent_at;
    let derived = derived_properties(object, &content).into_iter().map(EmailProperty::Content);
    let derived = RequestedProperties::new(derived).map_err(SetFailure::Call)?;
    derived.add_content(content, &mut server_set);
    // A Date field has whole seconds, so a date with a fraction of a second becomes another one.
    let given_date = object.get("sentAt").and_then(Value::as_str).and_then(SentAt::parse_rfc3339);
    if given_date.is_some() && given_date != sent_at {
        server_set.insert("sentAt".into(), sent_at.map(SentAt::rfc3339).into());
    }
    if filing.keywords.is_none() {
        server_set.insert("keywords".into(), Value::Object(Map::new()));
    }
    Ok(server_set)
}

/// The properties of a created email that the server makes because the client did not give them,
/// and those from which ids were left out.
fn derived_properties(object: &Map<String, Value>, content: &EmailContent) -> Vec<ContentProperty> {
    let given =
        |property: &ContentProperty| object.get(property.as_str()).filter(|value| !value.is_null());
    let is_given =
        |property: &ContentProperty| given(property).is_some_and(|value| *value != json!([]));
    // Ids that cannot be written are left out of these two (`refs::writable`).
    let is_cut = |property: &ContentProperty, kept: &[String]| {
        let given = given(property).and_then(Value::as_array);
        given.is_some_and(|given| given.len() != kept.len())
    };
    let ids = [
        (ContentProperty::InReplyTo, &content.in_reply_to),
        (ContentProperty::References, &content.references),
    ];
    let cut = ids.into_iter().filter(|(property, kept)| is_cut(property, kept));
    [
        ContentProperty::HasAttachment,
        ContentProperty::Preview,
        ContentProperty::MessageId,
        ContentProperty::SentAt,
    ]
    .into_iter()
    .filter(|property| !is_given(property))
    .chain(cut.map(|(property, _)| property))
    .collect()
}

struct EmailSetCall<'a> {
    context: &'a Context,
    account: &'a Account,
    ids: &'a CreationIds,
}

impl EmailSetCall<'_> {
    /// Runs `change` for each object, up to [`EMAILS_PER_COMMIT`] of them in one commit, and passes
    /// the outcomes to `record`. `change` may be run more than once, and must refuse an object
    /// before it writes.
    ///
    /// # Errors
    /// Those of the first commit of the call. If a later one fails, its objects are refused.
    fn change_each<O, T>(
        &self,
        commits: &mut Commits,
        is_expected: &dyn Fn(ModSeq) -> bool,
        objects: &[O],
        change: &mut dyn FnMut(&mut Txn<'_>, &O) -> TxnResult<T>,
        record: &mut dyn FnMut(&O, Result<T, SetError>),
    ) -> Result<(), MethodError> {
        for chunk in objects.chunks(EMAILS_PER_COMMIT) {
            let mut state_after = None;
            let result = commits.run(is_expected, |begin| {
                self.context.store.commit(self.account.id, |txn| {
                    if begin(txn)?.is_none() {
                        return Ok(Vec::new());
                    }
                    let mut outcomes = Vec::with_capacity(chunk.len());
                    for object in chunk {
                        outcomes.push(match change(txn, object) {
                            Ok(changed) => Ok(changed),
                            Err(failure) => Err(failure.object()?),
                        });
                    }
                    state_after = Some(txn.state().high_mark(DataType::Email));
                    Ok(outcomes)
                })
            });
            match result {
                Ok(outcomes) => {
                    commits.end(state_after);
                    chunk
                        .iter()
                        .zip(outcomes)
                        .for_each(|(object, outcome)| record(object, outcome));
                }
                Err(failure) => {
                    let error = failure.object()?;
                    chunk.iter().for_each(|object| record(object, Err(error.clone())));
                }
            }
        }
        Ok(())
    }

    /// Destroys an email. A guest must see it, and have `mayRemoveItems` in all of its mailboxes.
    fn destroy(&self, txn: &mut Txn<'_>, id: &str) -> TxnResult<()> {
        let id: EmailId = id.parse().map_err(|_| SetError::NotFound)?;
        let rights = Rights::in_account(&txn.snapshot(), self.account)?;
        if rights != Rights::Owner {
            let email = txn
                .snapshot()
                .email(self.account.id, id)?
                .filter(|email| rights.may_read_email(email));
            let email = email.ok_or(SetError::NotFound)?;
            rights.require(&email.mailboxes, Right::RemoveItems)?;
        }
        Ok(txn.destroy_email(id)?)
    }

    /// Updates an email. Returns the properties that got another value than the client sent.
    fn update(&self, txn: &mut Txn<'_>, id: &str, patch: &Value) -> TxnResult<Map<String, Value>> {
        let id: EmailId = id.parse().map_err(|_| SetError::NotFound)?;
        let rights = Rights::in_account(&txn.snapshot(), self.account)?;
        let email =
            txn.snapshot().email(self.account.id, id)?.filter(|email| rights.may_read_email(email));
        let email = email.ok_or(SetError::NotFound)?;
        let patch = self.resolve_mailbox_ids(patch);
        let mut update = self.plan_update(&txn.snapshot(), &rights, id, &patch)?;
        let visible: BTreeSet<MailboxUid> =
            email.mailboxes.difference(&rights.unreadable_mailboxes(&email)).copied().collect();
        // Mailboxes that the email is in already need no check.
        if !update.mailboxes.is_subset(&visible) {
            filing::require_mailboxes(&txn.snapshot(), (self.account, &rights), &update.mailboxes)?;
        }
        update.mailboxes.extend(rights.unreadable_mailboxes(&email));
        rights.require_for_change(&email, &update.mailboxes, &update.keywords)?;
        txn.update_email(id, update.mailboxes, update.keywords)?;
        Ok(update.server_set)
    }

    /// Resolves the creation ids of mailboxes in the pointers of a patch.
    fn resolve_mailbox_ids(&self, patch: &Value) -> Value {
        let Some(members) = patch.as_object() else {
            return patch.clone();
        };
        let pointer = |name: &String| match name.strip_prefix("mailboxIds/#") {
            Some(id) => {
                let id = format!("#{id}");
                format!("mailboxIds/{}", self.ids.resolve(&id).unwrap_or(id))
            }
            None => name.clone(),
        };
        Value::Object(members.iter().map(|(name, value)| (pointer(name), value.clone())).collect())
    }

    /// Returns the mailboxes and keywords that an email has after a patch, which may contain other
    /// properties with their present values (RFC 8620 §5.3). If the patch has a keyword in another
    /// form than the normal one, all keywords are among the properties of `server_set`.
    fn plan_update(
        &self,
        snapshot: &Snapshot<'_>,
        rights: &Rights,
        id: EmailId,
        given_patch: &Value,
    ) -> Result<EmailUpdate, SetError> {
        let normal_patch = with_normal_keywords(given_patch)?;
        let patch = Patch::read(&normal_patch)?;
        let mut names: Vec<String> = patch.properties().map(str::to_owned).collect();
        names.extend(["mailboxIds", "keywords"].map(str::to_owned));
        let read = |name: &String| {
            let property = name.parse::<EmailProperty>();
            property.map_err(|_| SetError::property(name, "an email has no such property"))
        };
        let properties: Vec<EmailProperty> =
            names.iter().map(read).collect::<Result<_, SetError>>()?;
        let object_error = |error: MethodError| match error {
            MethodError::RequestTooLarge(why) => SetError::RateLimit(why.into()),
            _ => SetError::ServerFail("the email cannot be read".into()),
        };
        let properties = RequestedProperties::new(properties).map_err(object_error)?;
        let renderer = MessageRenderer::with_defaults(self.context);
        let display =
            EmailDisplay { context: self.context, snapshot, account: self.account, rights };
        let old = display.read_one(id, (&properties, &renderer)).map_err(object_error)?;
        let old = old.ok_or(SetError::NotFound)?;
        let mut new = old.clone();
        patch.apply(&mut new)?;
        let is_immutable =
            |name: &&String| name.as_str() != "mailboxIds" && name.as_str() != "keywords";
        let changed: Vec<String> = names
            .iter()
            .filter(is_immutable)
            .filter(|name| old.get(*name) != new.get(*name))
            .cloned()
            .collect();
        if !changed.is_empty() {
            return Err(SetError::InvalidProperties(changed, "it cannot be changed".into()));
        }
        // Null resets keywords to none (RFC 8620 §5.3), and is refused for mailboxes.
        let empty = Value::Object(Map::new());
        let given = new.get("keywords").filter(|keywords| !keywords.is_null()).unwrap_or(&empty);
        let keywords = filing::keywords(given)?;
        let mut server_set = Map::new();
        let is_as_given =
            given.as_object().is_some_and(|given| given.keys().all(|word| keywords.contains(word)));
        if !is_as_given || normal_patch != *given_patch {
            server_set.insert("keywords".into(), json_set(keywords.iter().cloned()));
        }
        let mailboxes = filing::mailboxes(self.ids, new.get("mailboxIds").unwrap_or(&Value::Null))?;
        Ok(EmailUpdate { mailboxes, keywords, server_set })
    }
}

/// Returns a patch in which pointers to keywords have them in lower case, as emails have them.
///
/// # Errors
/// `invalidPatch` if two pointers lead to one keyword.
fn with_normal_keywords(patch: &Value) -> Result<Value, SetError> {
    let Some(members) = patch.as_object() else { return Ok(patch.clone()) };
    let mut normal = Map::new();
    for (pointer, value) in members {
        let normal_pointer = match pointer.strip_prefix("keywords/") {
            Some(word) => format!("keywords/{}", word.to_ascii_lowercase()),
            None => pointer.clone(),
        };
        if normal.insert(normal_pointer, value.clone()).is_some() {
            let description = format!("{pointer}: another pointer leads to this keyword");
            return Err(SetError::InvalidPatch(description));
        }
    }
    Ok(Value::Object(normal))
}

/// What a patch makes of an email.
struct EmailUpdate {
    mailboxes: BTreeSet<MailboxUid>,
    keywords: BTreeSet<String>,
    /// The properties that get another value than the client sent.
    server_set: Map<String, Value>,
}
