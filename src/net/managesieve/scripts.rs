//! Does what a ManageSieve client asks for with the scripts of its account.
//!
//! A change is answered when it is durable. The functions may wait for the disk, so they are called
//! on a thread that may block.

use crate::filter::{self, find_script};
use crate::model::{AccountId, ObjectId};
use crate::store::{Error, ScriptFault, Snapshot, Store, Txn};
use crate::wire::managesieve::{Answer, Code, Request};

pub(super) fn answer(
    store: &Store,
    settings: &filter::Settings,
    account: AccountId,
    request: Request,
) -> Answer {
    match try_answer(store, settings, account, request) {
        Ok(answer) => answer,
        Err(error) => refusal(&error, settings),
    }
}

fn try_answer(
    store: &Store,
    settings: &filter::Settings,
    account: AccountId,
    request: Request,
) -> Result<Answer, Error> {
    match request {
        // The session has compared the size with the limit. The account's quota of bytes is not
        // looked at, because scripts do not count towards it.
        Request::HaveSpace { name, .. } => {
            let scripts = store.snapshot().scripts(account)?;
            let fits =
                find_script(&scripts, &name).is_some() || scripts.len() < settings.max_scripts;
            Ok(if fits { Answer::Done } else { too_many(settings) })
        }
        Request::Put { name, script } => {
            let check = settings.check_script(&script);
            let valid = match check.valid(settings) {
                Ok(valid) => valid,
                Err(text) => {
                    let code = check.is_too_large().then_some(Code::MaxSize);
                    return Ok(Answer::Refused(code, text));
                }
            };
            commit(store, account, |txn| valid.put(txn, &name))?;
            Ok(checked(check.report()))
        }
        Request::Check(script) => {
            let report = settings.report(&script);
            Ok(if report.is_valid { checked(report) } else { Answer::Refused(None, report.text) })
        }
        Request::List => {
            let snapshot = store.snapshot();
            let active = snapshot.active_script(account)?;
            let scripts = snapshot.scripts(account)?.into_iter();
            Ok(Answer::Scripts(
                scripts.map(|(id, script)| (script.name, active == Some(id))).collect(),
            ))
        }
        Request::SetActive(Some(name)) => {
            // An import may have stored a script with errors, or the site offers less than before.
            let report = settings.report(&source(store, account, &name)?);
            if !report.is_valid {
                return Ok(Answer::Refused(None, report.text));
            }
            change(store, account, |txn| {
                let id = existing(&txn.snapshot(), account, &name)?;
                txn.activate_script(Some(id)).map(drop)
            })
        }
        Request::SetActive(None) => {
            change(store, account, |txn| txn.activate_script(None).map(drop))
        }
        Request::Get(name) => source(store, account, &name).map(Answer::Script),
        Request::Delete(name) => change(store, account, |txn| {
            let id = existing(&txn.snapshot(), account, &name)?;
            txn.destroy_script(id).map(drop)
        }),
        Request::Rename { from, to } => change(store, account, |txn| {
            let scripts = txn.snapshot().scripts(account)?;
            let id = find_script(&scripts, &from).ok_or(Error::NotFound("script"))?;
            // RFC 5804 §2.11: the name is taken, too, if this script has it already.
            if let Some(other) = find_script(&scripts, &to) {
                return Err(Error::Script(ScriptFault::NameTaken(other)));
            }
            txn.rename_script(id, &to).map(drop)
        }),
    }
}

/// Makes a change, and waits until it is durable.
fn commit<T>(
    store: &Store,
    account: AccountId,
    change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let (result, ticket) = store.commit(account, change)?;
    ticket.wait_blocking()?;
    Ok(result)
}

/// Makes a change that has no result. The answer is `Done`.
fn change(
    store: &Store,
    account: AccountId,
    change: impl FnMut(&mut Txn<'_>) -> Result<(), Error>,
) -> Result<Answer, Error> {
    commit(store, account, change).map(|()| Answer::Done)
}

/// Returns the id of the script with this name, or `Error::NotFound`.
fn existing(snapshot: &Snapshot<'_>, account: AccountId, name: &str) -> Result<ObjectId, Error> {
    find_script(&snapshot.scripts(account)?, name).ok_or(Error::NotFound("script"))
}

/// Returns the source of the script with this name, or `Error::NotFound`.
fn source(store: &Store, account: AccountId, name: &str) -> Result<Vec<u8>, Error> {
    let snapshot = store.snapshot();
    let id = existing(&snapshot, account, name)?;
    snapshot.script_source(account, id)?.ok_or(Error::NotFound("script"))
}

fn checked(report: filter::ScriptReport) -> Answer {
    if report.text.is_empty() { Answer::Done } else { Answer::Warnings(report.text) }
}

fn too_many(settings: &filter::Settings) -> Answer {
    let text = format!("an account may have up to {} scripts", settings.max_scripts);
    Answer::Refused(Some(Code::MaxScripts), text)
}

fn refusal(error: &Error, settings: &filter::Settings) -> Answer {
    let (code, text) = match error {
        Error::NotFound(_) => (Some(Code::NonExistent), "there is no script of that name"),
        Error::Script(ScriptFault::Name) => (None, "the name is not allowed"),
        Error::Script(ScriptFault::NameTaken(_)) => {
            (Some(Code::AlreadyExists), "there is a script of that name")
        }
        Error::Script(ScriptFault::TooLarge(_)) => (Some(Code::MaxSize), "the script is too large"),
        Error::Script(ScriptFault::TooMany) => return too_many(settings),
        Error::Script(ScriptFault::Active) => {
            (Some(Code::Active), "the active script cannot be deleted: activate another one first")
        }
        Error::Quota => (Some(Code::Quota), "there is no space for the script"),
        // QUOTA is for the quota of a user (RFC 5804 §1.3); a full disk is the site's matter.
        Error::Full => (Some(Code::TryLater), "the disk is full: try again later"),
        error => {
            tracing::error!(%error, "a ManageSieve command failed");
            (Some(Code::TryLater), "a temporary fault of the service: try again later")
        }
    };
    Answer::Refused(code, text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_no_quota() {
        let code = |error| match refusal(&error, &filter::Settings::default()) {
            Answer::Refused(code, _) => code,
            _ => None,
        };
        assert_eq!(
            (code(Error::Quota), code(Error::Full)),
            (Some(Code::Quota), Some(Code::TryLater))
        );
    }
}
