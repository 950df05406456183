//! Email/set (RFC 8621 §4.6). Each email that is made is a commit of its own (`keep`); of those
//! that change or go, many share one.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::create;
use super::filing::{self, Filing};
use super::keep::{Commits, FiledEmail, NewMessage, keep};
use crate::jmap::context::{Account, Context};
use crate::jmap::creation_ids::CreationIds;
use crate::jmap::email::read::body::Bodies;
use crate::jmap::email::read::get::EmailDisplay;
use crate::jmap::email::read::property::{
    ContentProperty, EmailProperty, RequestedProperties, set_of,
};
use crate::jmap::failure::{SetFailure, TxnResult};
use crate::jmap::method::{Call, Method};
use crate::jmap::rights::Rights;
use crate::jmap::standard::{InvalidProperties, SetArguments};
use crate::message::content::content;
use crate::message::{Message as Parsed, catch_parser_panic};
use crate::model::mailbox::Right;
use crate::model::{DataType, EmailId, MailboxUid, ModSeq, SentAt};
use crate::store::{Snapshot, Txn};
use crate::wire::jmap::standard::{SetAnswer, SetArgs};
use crate::wire::jmap::{MethodError, Patch, SetError};

/// Emails of one commit.
const EMAILS_PER_COMMIT: usize = 64;

pub(in crate::jmap) struct EmailSet;

impl Method for EmailSet {
    type Args = SetArgs;
    type Answer = SetAnswer;

    fn call(call: &Call<'_>, args: SetArgs) -> Result<SetAnswer, MethodError> {
        let account = call.open(&args.account_id, true)?;
        set(call, &account, SetArguments::of(call.created, args)?)
    }
}

fn set(
    call: &Call<'_>,
    account: &Account,
    mut set: SetArguments,
) -> Result<SetAnswer, MethodError> {
    let (context, ids) = (call.context, call.created);
    let mut done = std::mem::take(&mut set.done);
    let mut commits = Commits::default();
    let is_right = |now: ModSeq| set.is_in_state(context, now);
    for (name, given) in &set.create {
        let made = made(call, account, &mut commits, is_right, given);
        done.create(ids, name, made.map_err(|error| commits.of_one(error)))?;
    }
    // What was just made may be changed in the same call.
    let updates: Vec<(String, &Value)> =
        set.update.iter().map(|(id, patch)| (call.resolve_id(id.clone()), patch)).collect();
    let destroys: Vec<String> = set.destroy.iter().map(|id| call.resolve_id(id.clone())).collect();
    let work = EmailSetCall { context, account, ids };
    work.each(
        &mut commits,
        &is_right,
        &updates,
        &mut |txn, (id, patch)| work.update(txn, id, patch),
        &mut |(id, _), outcome| match outcome {
            Ok(also) => done.updated(id, also),
            Err(error) => done.not_updated(id, &error),
        },
    )?;
    work.each(
        &mut commits,
        &is_right,
        &destroys,
        &mut |txn, id| work.destroy(txn, id),
        &mut |id, outcome| match outcome {
            Ok(()) => done.destroyed(id),
            Err(error) => done.not_destroyed(id, &error),
        },
    )?;
    let stand = commits.stand(&context.store.snapshot(), account, is_right)?;
    Ok(done.into_answer(context, account, stand))
}

/// One that is made: what the client does not know of it.
fn made(
    call: &Call<'_>,
    account: &Account,
    commits: &mut Commits,
    is_right: impl Fn(ModSeq) -> bool,
    given: &Map<String, Value>,
) -> Result<Map<String, Value>, SetFailure> {
    let mut wrong = InvalidProperties::default();
    let context = call.context;
    let filing = Filing::read(call.created, given, &mut wrong)?;
    context.budget.charge_stored(0)?;
    let now = context.store.clock().now();
    let raw = create::message(context, account, given, now, wrong)?;
    let message = NewMessage {
        raw: &raw,
        prefix: &[],
        filing: &filing,
        keywords: BTreeSet::new(),
        received_at: now,
        once: false,
    };
    let kept: FiledEmail = keep(context, account, commits, is_right, &message)?;
    let mut object = kept.object_dated(&filing);
    let content =
        catch_parser_panic("a message", || content(&Parsed::parse(&raw))).unwrap_or_default();
    let sent_at = content.sent_at;
    let is_given = |property: &ContentProperty| {
        given.get(property.as_str()).is_some_and(|value| !value.is_null())
    };
    let own = [
        ContentProperty::HasAttachment,
        ContentProperty::Preview,
        ContentProperty::MessageId,
        ContentProperty::SentAt,
    ];
    let own = own.into_iter().filter(|property| !is_given(property)).map(EmailProperty::Content);
    RequestedProperties::of(own).map_err(SetFailure::Call)?.of_content(content, &mut object);
    // A header field holds whole seconds.
    let asked = given.get("sentAt").and_then(Value::as_str).and_then(SentAt::parse_rfc3339);
    if asked.is_some() && asked != sent_at {
        object.insert("sentAt".into(), sent_at.map(SentAt::rfc3339).into());
    }
    if filing.keywords.is_none() {
        object.insert("keywords".into(), Value::Object(Map::new()));
    }
    Ok(object)
}

struct EmailSetCall<'a> {
    context: &'a Context,
    account: &'a Account,
    ids: &'a CreationIds,
}

impl EmailSetCall<'_> {
    /// Does the same with each object, several in a commit; what fails of one is nothing to the
    /// others.
    fn each<O, T>(
        &self,
        commits: &mut Commits,
        is_right: &dyn Fn(ModSeq) -> bool,
        objects: &[O],
        change: &mut dyn FnMut(&mut Txn<'_>, &O) -> TxnResult<T>,
        tell: &mut dyn FnMut(&O, Result<T, SetError>),
    ) -> Result<(), MethodError> {
        for chunk in objects.chunks(EMAILS_PER_COMMIT) {
            let mut left = None;
            let done = commits.run(is_right, |enter| {
                self.context.store.commit(self.account.id, |txn| {
                    if enter(txn)?.is_none() {
                        return Ok(Vec::new());
                    }
                    let mut outcomes = Vec::with_capacity(chunk.len());
                    for one in chunk {
                        outcomes.push(match change(txn, one) {
                            Ok(changed) => Ok(changed),
                            Err(failure) => Err(failure.object()?),
                        });
                    }
                    left = Some(txn.state().state(DataType::Email));
                    Ok(outcomes)
                })
            });
            match done {
                Ok(outcomes) => {
                    commits.leave(left);
                    chunk.iter().zip(outcomes).for_each(|(one, outcome)| tell(one, outcome));
                }
                Err(failure) => {
                    let error = failure.object()?;
                    chunk.iter().for_each(|one| tell(one, Err(error.clone())));
                }
            }
        }
        Ok(())
    }

    /// Destroys one.
    fn destroy(&self, txn: &mut Txn<'_>, id: &str) -> TxnResult<()> {
        let id: EmailId = id.parse().map_err(|_| SetError::NotFound)?;
        let rights = Rights::of(&txn.snapshot(), self.account)?;
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

    /// Changes one; gives what else changed of it than was asked.
    fn update(&self, txn: &mut Txn<'_>, id: &str, patch: &Value) -> TxnResult<Map<String, Value>> {
        let id: EmailId = id.parse().map_err(|_| SetError::NotFound)?;
        let rights = Rights::of(&txn.snapshot(), self.account)?;
        let email =
            txn.snapshot().email(self.account.id, id)?.filter(|email| rights.may_read_email(email));
        let email = email.ok_or(SetError::NotFound)?;
        let patch = self.with_ids(patch);
        let mut wish = self.wish(&txn.snapshot(), &rights, id, &patch)?;
        let seen: BTreeSet<MailboxUid> =
            email.mailboxes.difference(&rights.unreadable_mailboxes(&email)).copied().collect();
        if !wish.mailboxes.is_subset(&seen) {
            filing::prove(&txn.snapshot(), (self.account, &rights), &wish.mailboxes)?;
        }
        wish.mailboxes.extend(rights.unreadable_mailboxes(&email));
        rights.require_for_change(&email, &wish.mailboxes, &wish.keywords)?;
        txn.update_email(id, wish.mailboxes, wish.keywords)?;
        Ok(wish.also)
    }

    /// The patch with creation ids of mailboxes replaced in its pointers.
    fn with_ids(&self, patch: &Value) -> Value {
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

    /// What the email is to be. What cannot change may be named, and must be as it is (RFC 8620
    /// §5.3).
    fn wish(
        &self,
        snapshot: &Snapshot<'_>,
        rights: &Rights,
        id: EmailId,
        patch: &Value,
    ) -> Result<EmailUpdate, SetError> {
        let patch = Patch::read(patch)?;
        let mut names: Vec<String> = patch.properties().map(str::to_owned).collect();
        names.extend(["mailboxIds", "keywords"].map(str::to_owned));
        let read = |name: &String| {
            let property = name.parse::<EmailProperty>();
            property.map_err(|_| SetError::property(name, "an email has no such property"))
        };
        let properties: Vec<EmailProperty> =
            names.iter().map(read).collect::<Result<_, SetError>>()?;
        let wrong = |error: MethodError| match error {
            MethodError::RequestTooLarge(why) => SetError::RateLimit(why.into()),
            _ => SetError::ServerFail("the email cannot be read".into()),
        };
        let wanted = RequestedProperties::of(properties).map_err(wrong)?;
        let bodies = Bodies::usual(self.context);
        let show = EmailDisplay { context: self.context, snapshot, account: self.account, rights };
        let now = show.one(id, (&wanted, &bodies)).map_err(wrong)?.ok_or(SetError::NotFound)?;
        let mut new = now.clone();
        patch.apply(&mut new)?;
        let fixed = |name: &&String| name.as_str() != "mailboxIds" && name.as_str() != "keywords";
        let changed: Vec<String> = names
            .iter()
            .filter(fixed)
            .filter(|name| now.get(*name) != new.get(*name))
            .cloned()
            .collect();
        if !changed.is_empty() {
            return Err(SetError::InvalidProperties(changed, "it cannot be changed".into()));
        }
        // Set to null they go back to what is usual: no keyword (RFC 8620 §5.3); an email without a
        // mailbox cannot be.
        let empty = Value::Object(Map::new());
        let given = new.get("keywords").filter(|keywords| !keywords.is_null()).unwrap_or(&empty);
        let keywords = filing::keywords(given)?;
        let mut also = Map::new();
        let as_given =
            given.as_object().is_some_and(|given| given.keys().all(|word| keywords.contains(word)));
        if !as_given {
            also.insert("keywords".into(), set_of(keywords.iter().cloned()));
        }
        let mailboxes = filing::mailboxes(self.ids, new.get("mailboxIds").unwrap_or(&Value::Null))?;
        Ok(EmailUpdate { mailboxes, keywords, also })
    }
}

/// What an email is to be.
struct EmailUpdate {
    mailboxes: BTreeSet<MailboxUid>,
    keywords: BTreeSet<String>,
    also: Map<String, Value>,
}
