//! Stores a Sieve script of an import. Whether it has errors is not checked here
//! (`filter::Settings::adapt` did that).
//!
//! - Storing a script again under the same name changes nothing. A script of this name with
//!   another source stays as it is: its owner may have changed it after an earlier import.
//! - A script is activated only by the import that stores it, in the same commit, and only if no
//!   other script of the account is active.

use unicode_normalization::UnicodeNormalization as _;

use crate::model::{AccountId, ObjectId, is_script_name};
use crate::store::{Error, ScriptFault, Snapshot, Store};

#[derive(Debug, Clone, Copy)]
pub struct ScriptAppendRequest<'a> {
    pub name: &'a str,
    /// The source to store.
    pub source: &'a [u8],
    /// The source as it was on the other server: equal to `source`, unless the import had to change
    /// it. A stored script with this source counts as the same script, too.
    pub original: &'a [u8],
    /// Whether to activate the script if it is added and no other one is active.
    pub activate: bool,
    /// The most scripts of an account.
    pub max_scripts: usize,
    /// Whether only to find out what would be done.
    pub dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptAppendOutcome {
    Added,
    /// The account had the script already.
    There,
    /// The account has another script of this name, which was not changed.
    Differs,
}

impl ScriptAppendOutcome {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::There => "there",
            Self::Differs => "differs",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendedScript {
    pub outcome: ScriptAppendOutcome,
    /// The name of the active script of the account afterwards; `None` if there is none.
    pub active: Option<String>,
}

/// Stores a script, and waits until it is durable. The name is stored in Unicode normalization
/// form C.
///
/// # Errors
/// `NotFound` (account); `Script` if the name is not allowed, the source is too large, or the
/// account has as many scripts as it may have; those of the store.
pub fn append_script(
    store: &Store,
    account: AccountId,
    new: &ScriptAppendRequest<'_>,
) -> Result<AppendedScript, Error> {
    let name: String = new.name.nfc().collect();
    if !is_script_name(&name) {
        return Err(Error::Script(ScriptFault::Name));
    }
    let plan = plan(&store.snapshot(), account, &name, new)?;
    if new.dry_run || plan.outcome != ScriptAppendOutcome::Added {
        return Ok(plan);
    }
    let (done, ticket) = store.commit(account, |txn| {
        let done = self::plan(&txn.snapshot(), account, &name, new)?;
        if done.outcome == ScriptAppendOutcome::Added {
            let id = txn.create_script(&name, new.source)?;
            if done.active.as_deref() == Some(name.as_str()) {
                txn.activate_script(Some(id))?;
            }
        }
        Ok(done)
    })?;
    ticket.wait_blocking()?;
    Ok(done)
}

/// Returns what storing a script would do. This is asked before the commit, and again in it.
fn plan(
    snapshot: &Snapshot<'_>,
    account: AccountId,
    name: &str,
    new: &ScriptAppendRequest<'_>,
) -> Result<AppendedScript, Error> {
    let scripts = snapshot.scripts(account)?;
    let active = snapshot.active_script(account)?;
    let name_of = |id: ObjectId| {
        scripts.iter().find(|(other, _)| *other == id).map(|(_, script)| script.name.clone())
    };
    let active = active.and_then(name_of);
    if let Some((id, _)) = scripts.iter().find(|(_, script)| script.name == name) {
        let source = snapshot.script_source(account, *id)?;
        let is_same = source.is_some_and(|source| source == new.source || source == new.original);
        let outcome =
            if is_same { ScriptAppendOutcome::There } else { ScriptAppendOutcome::Differs };
        return Ok(AppendedScript { outcome, active });
    }
    if scripts.len() >= new.max_scripts {
        return Err(Error::Script(ScriptFault::TooMany));
    }
    let active = active.or_else(|| new.activate.then(|| name.to_owned()));
    Ok(AppendedScript { outcome: ScriptAppendOutcome::Added, active })
}
