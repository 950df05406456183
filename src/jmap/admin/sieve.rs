//! The vendor methods that store, show, list, activate, remove and try the Sieve scripts of an
//! account. The commands for scripts in files use only `check_facts` and `test_answer`.
//!
//! A script is named by its name. Names that differ only in how letters are composed are one name.

use super::{AdminMethod, charge_row};
use crate::filter::{self, ScriptCheck, TrialAccount, TrialRequest, find_script};
use crate::jmap::context::{Context, parse_address};
use crate::jmap::method::Call;
use crate::message::auto::AutoReplyFacts;
use crate::model::{AccountId, Envelope, ObjectId, Recipient, ScriptError, SieveScript};
use crate::store::{Error, ScriptFault, Snapshot, Txn};
use crate::wire::jmap::admin::sieve::{
    CheckFacts, ScriptErrorFacts, ScriptFacts, SieveActivate, SieveActivateAnswer,
    SieveActivateArguments, SieveGet, SieveGetAnswer, SieveList, SieveListAnswer,
    SieveNameArguments, SievePut, SievePutAnswer, SievePutArguments, SieveRemove,
    SieveRemoveAnswer, SieveTest, SieveTestAnswer, SieveTestArguments, TraceLineFacts,
    TrialErrorFacts, TrialFacts,
};
use crate::wire::jmap::admin::{AccountRef, OfAccount};
use crate::wire::jmap::{MethodError, With, from_base64, to_base64};

/// Makes a change, and waits until it is durable. `name` is the script's, for texts of errors.
fn commit<T>(
    context: &Context,
    account: AccountId,
    name: &str,
    change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
) -> Result<T, MethodError> {
    let done = context.store.commit(account, change);
    let (result, ticket) = done.map_err(|error| refusal(context, name, &error))?;
    ticket.wait_blocking()?;
    Ok(result)
}

/// Converts an error of the store. `name` is the name of the script, for the text of the error.
fn refusal(context: &Context, name: &str, error: &Error) -> MethodError {
    match error {
        Error::NotFound("script") => missing(name),
        Error::Script(ScriptFault::Active) => MethodError::Conflict(format!(
            "{name} is the active script and cannot be removed: activate another one first, or none"
        )),
        Error::Script(ScriptFault::TooMany) => {
            let most = context.filter.max_scripts;
            MethodError::Conflict(format!("an account may have up to {most} scripts"))
        }
        other => other.into(),
    }
}

fn missing(name: &str) -> MethodError {
    MethodError::NotFound(format!("there is no script {name}"))
}

fn existing(snapshot: &Snapshot<'_>, account: AccountId, name: &str) -> Result<ObjectId, Error> {
    find_script(&snapshot.scripts(account)?, name).ok_or(Error::NotFound("script"))
}

fn script_facts(script: SieveScript, is_active: bool) -> ScriptFacts {
    ScriptFacts {
        name: script.name,
        is_active,
        size: script.size,
        created: script.created.rfc3339(),
        stored: script.stored.rfc3339(),
    }
}

fn error_facts(error: ScriptError) -> ScriptErrorFacts {
    ScriptErrorFacts {
        at: error.at.rfc3339(),
        script: error.script,
        line: error.line,
        message: error.message,
        email_id: error.email.map(|email| email.to_string()),
    }
}

/// Returns the errors and the warnings of a checked script. Their text calls the script `name`.
///
/// # Errors
/// The engine's JSON cannot be read.
pub fn check_facts(check: &ScriptCheck<'_>, name: &str) -> serde_json::Result<CheckFacts> {
    CheckFacts::read(check.text(name), &check.json())
}

impl AdminMethod for SievePut {
    /// Stores a script, and activates it if the arguments say so. The answer has the errors and
    /// warnings of the script. With errors it is neither stored nor activated. An empty one is
    /// refused.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<SievePutArguments>,
    ) -> Result<SievePutAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let SievePutArguments { name, source, activate } = args;
        let source = from_base64(&source)?;
        let checked = context.filter.check_script(&source);
        let check = check_facts(&checked, &name)?;
        let valid = match checked.valid(&context.filter) {
            Ok(valid) => valid,
            // The engine reports nothing of an empty script.
            Err(why) if checked.is_valid() => return Err(MethodError::InvalidArguments(why)),
            Err(_) => {
                let (is_stored, is_new, is_active) = (false, false, false);
                return Ok(SievePutAnswer { is_stored, is_new, is_active, check });
            }
        };
        let (is_new, is_active) = commit(context, account, &name, |txn| {
            let stored = valid.put(txn, &name)?;
            if activate {
                txn.activate_script(Some(stored.id))?;
            }
            let active = txn.snapshot().active_script(account)?;
            Ok((stored.is_new, activate || active == Some(stored.id)))
        })?;
        Ok(SievePutAnswer { is_stored: true, is_new, is_active, check })
    }
}

impl AdminMethod for SieveGet {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<SieveNameArguments>,
    ) -> Result<SieveGetAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let snapshot = context.store.snapshot();
        let id = existing(&snapshot, account, &args.name)
            .map_err(|error| refusal(context, &args.name, &error))?;
        let script = snapshot.object::<SieveScript>(account, id)?;
        let source = snapshot.script_source(account, id)?;
        let (script, source) = script.zip(source).ok_or_else(|| missing(&args.name))?;
        let is_active = snapshot.active_script(account)? == Some(id);
        let source = charge_row(context, to_base64(&source))?;
        Ok(SieveGetAnswer { script: script_facts(script, is_active), source })
    }
}

impl AdminMethod for SieveList {
    fn call(
        &Call { context, .. }: &Call<'_>,
        account_ref: AccountRef,
    ) -> Result<SieveListAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let snapshot = context.store.snapshot();
        let active = snapshot.active_script(account)?;
        let scripts = snapshot.scripts(account)?.into_iter();
        let list = scripts
            .map(|(id, script)| charge_row(context, script_facts(script, active == Some(id))))
            .collect::<Result<_, _>>()?;
        let errors = snapshot.script_errors(account)?.into_iter();
        let errors = errors
            .map(|error| charge_row(context, error_facts(error)))
            .collect::<Result<_, _>>()?;
        Ok(SieveListAnswer { list, errors })
    }
}

impl AdminMethod for SieveActivate {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<SieveActivateArguments>,
    ) -> Result<SieveActivateAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let SieveActivateArguments { name } = args;
        if let Some(name) = &name {
            // A stored script may have errors: an import stores such scripts, too, and the site may
            // no longer offer an extension that the script requires.
            let snapshot = context.store.snapshot();
            let id = existing(&snapshot, account, name)
                .map_err(|error| refusal(context, name, &error))?;
            let source = snapshot.script_source(account, id)?.ok_or_else(|| missing(name))?;
            let report = context.filter.report(&source);
            if !report.is_valid {
                let text = report.text.trim_end();
                let text = format!("{name} has errors and cannot be active:\n{text}");
                return Err(MethodError::InvalidArguments(text));
            }
        }
        let changed = commit(context, account, name.as_deref().unwrap_or_default(), |txn| {
            let id = name.as_deref().map(|name| existing(&txn.snapshot(), account, name));
            txn.activate_script(id.transpose()?)
        })?;
        Ok(SieveActivateAnswer { active: name, changed })
    }
}

impl AdminMethod for SieveRemove {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<SieveNameArguments>,
    ) -> Result<SieveRemoveAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let removed = commit(context, account, &args.name, |txn| {
            let id = existing(&txn.snapshot(), account, &args.name)?;
            txn.destroy_script(id).map(|script| script.name)
        })?;
        Ok(SieveRemoveAnswer { removed })
    }
}

impl AdminMethod for SieveTest {
    /// Runs a script over a message as if it were the active script of the account, without the
    /// scripts of the site. Delivers nothing.
    ///
    /// If the arguments have no sender, the sender is that of the message
    /// (`AutoReplyFacts::probable_sender`). If they have no recipient, the recipient is the first
    /// address of the message's header that belongs to the account, or else the primary address.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<SieveTestArguments>,
    ) -> Result<SieveTestAnswer, MethodError> {
        let (account, row) = context.account_of(&account_ref)?;
        let SieveTestArguments { name, source, message, sender, recipient } = args;
        let (source, message) = (from_base64(&source)?, from_base64(&message)?);
        let facts = AutoReplyFacts::of(&message);
        let sender = match sender.as_deref() {
            Some("") => None,
            Some(text) => Some(parse_address(text)?),
            None => facts.probable_sender(&message),
        };
        let recipient = match recipient {
            Some(text) => parse_address(&text)?,
            None => {
                let own = context.directory.own_addresses(account)?;
                let mut found = row.primary;
                for address in facts.destinations {
                    if own.has(&address)? {
                        found = address;
                        break;
                    }
                }
                found
            }
        };
        let (snapshot, identity) = (context.store.snapshot(), context.directory.identity(account)?);
        let checked = context.filter.check_script(&source);
        let request = TrialRequest {
            settings: &context.filter,
            message: &message,
            envelope: &Envelope { sender, ..Envelope::default() },
            recipient: &Recipient::plain(recipient),
            identity: &identity,
            hostname: &context.hostname,
            now: context.store.clock().now(),
            account: Some(TrialAccount { snapshot: &snapshot, id: account }),
        };
        charge_row(context, test_answer(&checked, &name, &request)?)
    }
}

/// Runs a checked script over a message. Returns what `check_facts` does, and what the script would
/// do, which is `None` if the script has errors.
///
/// # Errors
/// The engine's JSON cannot be read.
pub fn test_answer(
    check: &ScriptCheck<'_>,
    name: &str,
    request: &TrialRequest<'_>,
) -> serde_json::Result<SieveTestAnswer> {
    let outcome = check.run(request).map(|tried| TrialFacts {
        sender: request.envelope.sender.as_ref().map(ToString::to_string).unwrap_or_default(),
        recipient: request.recipient.address.to_string(),
        actions: tried.actions,
        plan: tried.plan,
        error: tried.error.map(|error| TrialErrorFacts {
            script: error.script,
            line: error.line,
            message: error.message,
        }),
        trace: tried.trace.into_iter().map(trace_facts).collect(),
        is_trace_cut: tried.is_trace_cut,
        unknown: tried.unknown,
    });
    Ok(SieveTestAnswer { check: check_facts(check, name)?, outcome })
}

fn trace_facts(line: filter::TraceLine) -> TraceLineFacts {
    let (event, result) = match line.event {
        filter::TraceEvent::Command => ("command", None),
        filter::TraceEvent::Test(result) => ("test", Some(result)),
        filter::TraceEvent::Assignment => ("assignment", None),
        filter::TraceEvent::Action => ("action", None),
        filter::TraceEvent::Warning => ("warning", None),
    };
    TraceLineFacts {
        script: line.script,
        line: line.line,
        event: event.to_owned(),
        result,
        text: line.text,
    }
}
