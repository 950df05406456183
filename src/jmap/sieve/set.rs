//! SieveScript/set (RFC 9661 §2.4).
//!
//! - Sources are read and checked before the commit, which makes all changes: it destroys, updates
//!   and creates scripts, and then changes which one is active. So a script may get the name of one
//!   that the call destroys or renames, and scripts may exchange their names.
//! - If any object is refused, no script is activated or deactivated.
//! - The script that was active is reported in `updated`, too.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

use super::source::checked_source;
use super::{ScriptProperty, object};
use crate::filter::{self, ValidScript};
use crate::jmap::context::Account;
use crate::jmap::failure::{SetFailure, TxnResult};
use crate::jmap::method::{Call, Method};
use crate::jmap::standard::{InvalidProperties, SetArguments, SetResponse};
use crate::model::{BlobId, DataType, ObjectId, SieveScript, is_script_name};
use crate::store::{Error, ScriptFault, Snapshot, Txn};
use crate::wire::jmap::standard::{SetAnswer, SetArgs};
use crate::wire::jmap::{JsonObject, MethodError, Patch, SetError, With};

pub(in crate::jmap) struct ScriptSet;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct ActivationArgs {
    /// An id, or `#` and a creation id; `None`: no other script is to be activated.
    on_success_activate_script: Option<String>,
    #[serde(default)]
    on_success_deactivate_script: bool,
}

impl Method for ScriptSet {
    type Args = With<SetArgs, ActivationArgs>;
    type Answer = SetAnswer;

    fn call(call: &Call<'_>, With(args, activation): Self::Args) -> Result<SetAnswer, MethodError> {
        let (context, account) = (call.context, call.managed_account(&args.account_id)?);
        let set = SetArguments::read(call.created, args)?;
        let new = new_scripts(call, &account, &set)?;
        let sources = new_sources(call, &account, &set)?;
        let activation = activation.without_invalid(call, &account, &set, &sources)?;
        let checkpoint = call.created.checkpoint();
        let (done, states, ()) =
            set.commit_each(context, &account, DataType::SieveScript, |txn, done| {
                call.created.restore(&checkpoint);
                for id in &set.destroy {
                    done.destroy(id, destroy(txn, id))?;
                }
                update_all(txn, call, &set, &sources, done)?;
                for ((name, given), new) in set.create.iter().zip(&new) {
                    let new = new.as_ref().map_err(|error| SetFailure::Object(error.clone()));
                    let created = new.and_then(|new| new.create(txn, &context.filter, given));
                    done.create(call.created, name, created)?;
                }
                if !done.has_refusals() {
                    activation.apply(txn, call, done)?;
                }
                Ok(())
            })?;
        Ok(done.into_answer(context, &account, states))
    }
}

/// What the commit needs for an object, or the error with which the object is refused.
type Prepared<T> = Result<T, SetError>;

/// The new source that an update names; `None` if it names none.
type NewSource = Option<Prepared<ValidScript<'static>>>;

/// Takes the refusal of an object as a value, so that the call goes on. An error of the whole call
/// stays an error.
fn prepared<T>(result: Result<T, SetFailure>) -> Result<Prepared<T>, MethodError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(failure) => Ok(Err(failure.object()?)),
    }
}

/// Reads the objects of `create`, in their order. Those beyond the number of scripts that an
/// account may have are refused before their sources are read.
fn new_scripts(
    call: &Call<'_>,
    account: &Account,
    set: &SetArguments,
) -> Result<Vec<Prepared<NewScript>>, MethodError> {
    let settings = &call.context.filter;
    let read = |(index, (_, given)): (usize, &(String, JsonObject))| {
        if index >= settings.max_scripts {
            return Ok(Err(too_many(settings)));
        }
        prepared(NewScript::read(call, account, given))
    };
    set.create.iter().enumerate().map(read).collect()
}

/// Reads the new sources of `update`, in its order; `None` where the source stays as it is, or the
/// commit will refuse the update for another reason.
fn new_sources(
    call: &Call<'_>,
    account: &Account,
    set: &SetArguments,
) -> Result<Vec<NewSource>, MethodError> {
    let snapshot = call.context.store.snapshot();
    let mut sources = Vec::with_capacity(set.update.len());
    for (id, patch) in &set.update {
        let script = match id.parse() {
            Ok(id) => snapshot.object::<SieveScript>(account.id, id)?,
            Err(_) => None,
        };
        let blob = patch.get("blobId").and_then(Value::as_str);
        let source = match (script, blob) {
            (Some(script), Some(blob)) if call.resolve_id(blob.to_owned()) != blob_id(&script) => {
                Some(prepared(checked_source(call, account, blob))?)
            }
            _ => None,
        };
        sources.push(source);
    }
    Ok(sources)
}

fn blob_id(script: &SieveScript) -> String {
    BlobId::upload(script.hash).to_string()
}

fn too_many(settings: &filter::Settings) -> SetError {
    SetError::OverQuota(format!("an account may have up to {} scripts", settings.max_scripts))
}

struct NewScript {
    /// `None`: the service chooses a name.
    name: Option<String>,
    script: ValidScript<'static>,
}

impl NewScript {
    fn read(call: &Call<'_>, account: &Account, given: &JsonObject) -> Result<Self, SetFailure> {
        let (mut name, mut blob) = (None, None);
        let mut problems = InvalidProperties::default();
        for (property, value) in given {
            match ScriptProperty::from_name(property) {
                Some(ScriptProperty::Name) => name = problems.note(read_name(value))?.flatten(),
                Some(ScriptProperty::BlobId) => blob = value.as_str(),
                _ => problems.add(property, "this property cannot be set"),
            }
        }
        if blob.is_none() {
            problems.add("blobId", "the id of a blob is expected");
        }
        problems.finish()?;
        let script = checked_source(call, account, blob.unwrap_or_default())?;
        Ok(Self { name, script })
    }

    /// Creates the script. Returns its properties, without those that have the value that the
    /// client gave.
    fn create(
        &self,
        txn: &mut Txn<'_>,
        settings: &filter::Settings,
        given: &JsonObject,
    ) -> TxnResult<JsonObject> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => unused_name(&txn.snapshot().scripts(txn.account())?),
        };
        let id = self.script.create(txn, &name).map_err(|error| match error {
            Error::Script(ScriptFault::TooMany) => too_many(settings).into(),
            other => SetFailure::from(other),
        })?;
        let (script, is_active) = existing(&txn.snapshot(), txn, id)?;
        let mut created = object(id, &script, is_active, &ScriptProperty::STANDARD);
        created.retain(|property, value| given.get(property) != Some(value));
        Ok(created)
    }
}

/// Reads the name of a script in Unicode normalization form C; `None` if the service is to choose
/// one.
fn read_name(value: &Value) -> Result<Option<String>, SetError> {
    let invalid = |what: &str| SetError::property("name", what);
    if value.is_null() {
        return Ok(None);
    }
    let name = value.as_str().ok_or_else(|| invalid("a text is expected"))?;
    let name: String = name.nfc().collect();
    if !is_script_name(&name) {
        return Err(invalid(&ScriptFault::Name.to_string()));
    }
    Ok(Some(name))
}

/// Returns the first of `Script 1`, `Script 2` and so on that is the name of no script.
fn unused_name(scripts: &[(ObjectId, SieveScript)]) -> String {
    let mut numbers = 1..=scripts.len().saturating_add(1);
    let number = numbers.find(|number| {
        let name = format!("Script {number}");
        scripts.iter().all(|(_, script)| script.name != name)
    });
    format!("Script {}", number.unwrap_or_default())
}

/// Returns a script, and whether it is active.
fn existing(
    snapshot: &Snapshot<'_>,
    txn: &Txn<'_>,
    id: ObjectId,
) -> Result<(SieveScript, bool), Error> {
    let script = snapshot.object::<SieveScript>(txn.account(), id)?;
    let is_active = snapshot.active_script(txn.account())? == Some(id);
    Ok((script.ok_or(Error::NotFound("script"))?, is_active))
}

/// Updates the scripts of `set.update`, with their `sources`. Those whose names are taken are tried
/// again after the others. Before that, those that can get their names together, since they take
/// them from each other or take free ones, get other names for the time being (RFC 8620 §5.3).
fn update_all(
    txn: &mut Txn<'_>,
    call: &Call<'_>,
    set: &SetArguments,
    sources: &[NewSource],
    done: &mut SetResponse,
) -> Result<(), Error> {
    let mut refused = Vec::new();
    for one in set.update.iter().zip(sources) {
        let ((id, patch), source) = one;
        match update(txn, call, id, patch, source.as_ref()) {
            Err(SetFailure::Object(SetError::AlreadyExists(_))) => refused.push(one),
            outcome => done.update(id, outcome)?,
        }
    }
    let renames = refused.iter().filter_map(|((id, patch), _)| {
        let name = read_name(patch.get("name")?).ok().flatten()?;
        Some((id.parse::<ObjectId>().ok()?, name))
    });
    free_names(txn, renames.collect())?;
    for ((id, patch), source) in refused {
        done.update(id, update(txn, call, id, patch, source.as_ref()))?;
    }
    Ok(())
}

/// Gives other names to those scripts of `renames` that can get their new names together. They must
/// get these afterwards.
fn free_names(txn: &mut Txn<'_>, mut renames: Vec<(ObjectId, String)>) -> Result<(), Error> {
    if renames.is_empty() {
        return Ok(());
    }
    let mut names: HashMap<String, ObjectId> = HashMap::new();
    for (id, script) in txn.snapshot().scripts(txn.account())? {
        names.insert(script.name, id);
    }
    loop {
        let before = renames.len();
        let ids: HashSet<ObjectId> = renames.iter().map(|(id, _)| *id).collect();
        let mut wanted = HashSet::new();
        renames.retain(|(_, name)| {
            names.get(name).is_none_or(|holder| ids.contains(holder)) && wanted.insert(name.clone())
        });
        if renames.len() == before {
            break;
        }
    }
    let mut numbers = 1_u64..;
    for (id, _) in &renames {
        let unused = numbers.by_ref().map(|number| format!("Renamed {number}")).find(|name| {
            !names.contains_key(name) && renames.iter().all(|(_, wanted)| wanted != name)
        });
        if let Some(unused) = unused {
            txn.rename_script(*id, &unused)?;
        }
    }
    Ok(())
}

/// Updates a script. Returns the properties that changed and do not have the value that the patch
/// gave. `source` is the new source that the patch names; `None` if it names none.
fn update(
    txn: &mut Txn<'_>,
    call: &Call<'_>,
    id: &str,
    patch: &Value,
    source: Option<&Prepared<ValidScript<'_>>>,
) -> TxnResult<JsonObject> {
    let id = id.parse::<ObjectId>().map_err(|_| SetError::NotFound)?;
    let (script, is_active) = existing(&txn.snapshot(), txn, id)?;
    let before = object(id, &script, is_active, &ScriptProperty::STANDARD);
    let (mut name, mut blob) = (None, None);
    let mut problems = InvalidProperties::default();
    for (property, value) in Patch::new_values(patch, &before)? {
        if before.get(&property) == Some(&value) {
            continue;
        }
        match ScriptProperty::from_name(&property) {
            Some(ScriptProperty::Name) => name = problems.note(read_name(&value))?,
            Some(ScriptProperty::BlobId) => match value.as_str() {
                Some(text) => blob = Some(call.resolve_id(text.to_owned())),
                None => problems.add("blobId", "the id of a blob is expected"),
            },
            _ => problems.add(property, "this property cannot be set"),
        }
    }
    problems.finish()?;
    let source = match blob.filter(|blob| *blob != blob_id(&script)) {
        None => None,
        Some(_) => {
            // There is no source if the patch named the blob of the script when the sources were
            // read, and the script was given another one since.
            let changed = || SetError::ServerFail("the script has changed meanwhile".into());
            Some(source.ok_or_else(changed)?.as_ref().map_err(Clone::clone)?)
        }
    };
    if let Some(name) = name {
        let scripts = txn.snapshot().scripts(txn.account())?;
        txn.rename_script(id, &name.unwrap_or_else(|| unused_name(&scripts)))?;
    }
    if let Some(source) = source {
        source.replace(txn, id)?;
    }
    let (script, is_active) = existing(&txn.snapshot(), txn, id)?;
    let mut changed = object(id, &script, is_active, &ScriptProperty::STANDARD);
    changed.retain(|property, value| {
        before.get(property) != Some(value) && patch.get(property) != Some(value)
    });
    Ok(changed)
}

fn destroy(txn: &mut Txn<'_>, id: &str) -> TxnResult<()> {
    let id = id.parse::<ObjectId>().map_err(|_| SetError::NotFound)?;
    txn.destroy_script(id)?;
    Ok(())
}

impl ActivationArgs {
    /// Drops the id of a script with errors, so that no script is activated, as for an id that
    /// names no script. An import may have stored such a script, or the site no longer offers an
    /// extension that the script requires. A source that this call stores was checked already.
    /// `sources` are those of the updates of `set`, in its order.
    fn without_invalid(
        self,
        call: &Call<'_>,
        account: &Account,
        set: &SetArguments,
        sources: &[NewSource],
    ) -> Result<Self, MethodError> {
        let named = self.on_success_activate_script.as_deref().map(str::parse::<ObjectId>);
        let Some(Ok(id)) = named else { return Ok(self) };
        let mut updates = set.update.iter().zip(sources);
        if updates.any(|((updated, _), new)| new.is_some() && updated.parse() == Ok(id)) {
            return Ok(self);
        }
        let source = call.context.store.snapshot().script_source(account.id, id)?;
        let is_invalid = source.is_some_and(|source| !call.context.filter.report(&source).is_valid);
        let kept = self.on_success_activate_script.filter(|_| !is_invalid);
        Ok(Self { on_success_activate_script: kept, ..self })
    }

    /// Deactivates the active script, and then activates another one, if the call asks for that. An
    /// id that names no script is ignored.
    fn apply(
        &self,
        txn: &mut Txn<'_>,
        call: &Call<'_>,
        done: &mut SetResponse,
    ) -> Result<(), Error> {
        let exists = |snapshot: &Snapshot<'_>, id: ObjectId| {
            snapshot.object::<SieveScript>(txn.account(), id).map(|script| script.is_some())
        };
        let snapshot = txn.snapshot();
        let before = snapshot.active_script(txn.account())?;
        let named = self.on_success_activate_script.clone();
        let named = named.and_then(|id| call.resolve_id(id).parse::<ObjectId>().ok());
        let mut after = if self.on_success_deactivate_script { None } else { before };
        if let Some(id) = named
            && exists(&snapshot, id)?
        {
            after = Some(id);
        }
        // In a damaged store, the active script may be one that does not exist. `updated` must not
        // name such a script.
        let is_reported = match before {
            Some(id) => exists(&snapshot, id)?,
            None => false,
        };
        drop(snapshot);
        if !txn.activate_script(after)? {
            return Ok(());
        }
        for (id, is_active) in [(before.filter(|_| is_reported), false), (after, true)] {
            if let Some(id) = id {
                done.also_changed(&id.to_string(), "isActive", is_active.into());
            }
        }
        Ok(())
    }
}
