//! Email/copy (RFC 8621 §4.7, RFC 8620 §5.4).

use serde_json::Value;

use super::commits::{Commits, NewMessage, file_message};
use super::filing::Filing;
use crate::jmap::context::Account;
use crate::jmap::failure::SetFailure;
use crate::jmap::method::{Call, FollowUpCall, Method};
use crate::jmap::rights::Rights;
use crate::jmap::standard::{SetResponse, newest_state, state};
use crate::model::{DataType, EmailId, ModSeq, limits};
use crate::wire::jmap::standard::{CopyAnswer, CopyArgs};
use crate::wire::jmap::{JsonObject, MethodError, SetError};

pub(in crate::jmap) struct EmailCopy;

impl Method for EmailCopy {
    type Args = CopyArgs;
    type Answer = CopyAnswer;

    fn call(call: &Call<'_>, args: CopyArgs) -> Result<CopyAnswer, MethodError> {
        let context = call.context;
        let from = call.account(&args.from_account_id).map_err(|error| match error {
            MethodError::AccountNotFound => MethodError::FromAccountNotFound,
            other => other,
        })?;
        let account = call.account(&args.account_id)?;
        if from.id == account.id {
            let why = "accountId: it must differ from fromAccountId";
            return Err(MethodError::InvalidArguments(why.into()));
        }
        if args.create.len() > limits::MAX_OBJECTS_IN_SET {
            return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
        }
        if let Some(expected) = args.if_from_in_state {
            let now =
                newest_state(&context.store, &context.store.snapshot(), from.id, DataType::Email)?;
            if now != expected {
                return Err(MethodError::StateMismatch);
            }
        }
        let expected = args.if_in_state;
        let is_expected =
            |now| expected.as_ref().is_none_or(|expected| *expected == state(&context.store, now));
        let (mut commits, mut response, mut copied) =
            (Commits::default(), SetResponse::default(), Vec::new());
        for (name, object) in &args.create {
            match copy_email(call, (&from, &account), &mut commits, is_expected, object) {
                Ok((original, server_set)) => {
                    response.created(call.created, name, server_set);
                    copied.push(Value::from(original.to_string()));
                }
                Err(failure) => {
                    response.not_created(name, &commits.object_failure(failure).object()?);
                }
            }
        }
        let states = commits.into_states(&context.store.snapshot(), &account, is_expected)?;
        let answer = response.into_answer(context, &account, states);
        if args.on_success_destroy_original && !copied.is_empty() {
            let mut arguments = JsonObject::new();
            arguments.insert("accountId".into(), from.id.to_string().into());
            arguments.insert("ifInState".into(), args.destroy_from_if_in_state.into());
            arguments.insert("destroy".into(), copied.into());
            call.follow_with(FollowUpCall { name: "Email/set", arguments });
        }
        Ok(CopyAnswer {
            from_account_id: from.id.to_string(),
            account_id: answer.account_id,
            old_state: answer.old_state,
            new_state: answer.new_state,
            created: answer.created,
            not_created: answer.not_created,
        })
    }
}

/// Copies an email. Returns the id of the original, and the properties of the copy that the client
/// does not know.
fn copy_email(
    call: &Call<'_>,
    (from, account): (&Account, &Account),
    commits: &mut Commits,
    is_expected: impl Fn(ModSeq) -> bool,
    object: &JsonObject,
) -> Result<(EmailId, JsonObject), SetFailure> {
    let context = call.context;
    let (id, filing) =
        Filing::with_source(call.created, object, "id", "a copy has the value of the original")?;
    // Refuses the email before it is read if nothing more may be stored.
    context.budget.charge_stored(0)?;
    let id = call
        .created
        .resolve(id)
        .and_then(|id| id.parse::<EmailId>().ok())
        .ok_or(SetError::NotFound)?;
    let (email, prefix, raw) = {
        let snapshot = context.store.snapshot();
        let rights = Rights::in_account(&snapshot, from)?;
        let email = snapshot.email(from.id, id)?.filter(|email| rights.may_read_email(email));
        let email = email.ok_or(SetError::NotFound)?;
        let (prefix, _) = snapshot.content(from.id, id)?.ok_or(SetError::NotFound)?;
        context.budget.charge_read(email.size)?;
        let raw = snapshot.raw_message(&email.blob)?.ok_or(SetError::NotFound)?;
        (email, prefix, raw)
    };
    let message = NewMessage {
        raw: &raw,
        prefix: &prefix,
        filing: &filing,
        keywords: email.keywords,
        received_at: email.received_at,
        refuse_duplicate: true,
    };
    let copy = file_message(context, account, commits, is_expected, &message)?;
    Ok((id, copy.object_with_changed_date(&filing)))
}
