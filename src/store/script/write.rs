//! Writes the Sieve scripts of an account (RFC 5804, RFC 9661).
//!
//! - A script is an object (`SieveScript`) and a row with its source. The source is stored as it
//!   was given, also with errors. Callers check it before (`filter::check`), except an import.
//! - One row names the active script; an account without it has none. The change numbers of the
//!   scripts that become active or inactive rise.
//! - No two scripts of an account have the same name. Names are compared byte by byte; it is for
//!   callers to normalize them.

use crate::model::{
    BlobHash, DataType, ObjectId, ScriptError, SieveScript, is_script_name, limits,
};
use crate::store::engine::typed::TypedRead as _;
use crate::store::error::{Error, ScriptFault};
use crate::store::row::{ScriptErrorsRow, ScriptSource};
use crate::store::table::keys::ScriptKey;
use crate::store::table::{ActiveScript, ScriptErrors, ScriptSources};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Stores a new script, which is not active, and returns its id.
    ///
    /// # Errors
    /// `Script`: the name is not allowed or taken, the source is too large, or the account has
    /// `limits::MAX_SCRIPTS` scripts.
    pub fn create_script(&mut self, name: &str, source: &[u8]) -> Result<ObjectId, Error> {
        self.check_script_name(None, name)?;
        check_script_size(source)?;
        let script = SieveScript {
            name: name.to_owned(),
            size: source.len() as u64,
            hash: script_hash(source),
            created: self.now(),
            stored: self.now(),
        };
        let id = self.create_object(&script).map_err(|error| match error {
            Error::Quota => Error::Script(ScriptFault::TooMany),
            other => other,
        })?;
        self.put::<ScriptSources>(&self.script_key(id), &ScriptSource(source.to_vec()));
        Ok(id)
    }

    /// Replaces the source of a script, and forgets the hits of its rules. An active script stays
    /// active. If the script has this source already, changes nothing and returns `false`.
    ///
    /// # Errors
    /// `NotFound`; `Script` if the source is too large.
    pub fn replace_script(&mut self, id: ObjectId, source: &[u8]) -> Result<bool, Error> {
        check_script_size(source)?;
        let (hash, now) = (script_hash(source), self.now());
        let is_changed = self.update_object(id, |script: &mut SieveScript| {
            if script.hash != hash {
                (script.hash, script.size, script.stored) = (hash, source.len() as u64, now);
            }
        })?;
        if is_changed {
            self.forget_script_hits(id)?;
            self.put::<ScriptSources>(&self.script_key(id), &ScriptSource(source.to_vec()));
        }
        Ok(is_changed)
    }

    /// Gives a script another name. Returns `false` if the script has this name already.
    ///
    /// # Errors
    /// `NotFound`; `Script` if the name is not allowed or taken.
    pub fn rename_script(&mut self, id: ObjectId, name: &str) -> Result<bool, Error> {
        self.check_script_name(Some(id), name)?;
        self.update_object(id, |script: &mut SieveScript| name.clone_into(&mut script.name))
    }

    /// Makes a script the active one; with `None`, no script is active. Returns `false`, and
    /// changes nothing, if that was so already.
    ///
    /// # Errors
    /// `NotFound` if the script to activate does not exist.
    pub fn activate_script(&mut self, id: Option<ObjectId>) -> Result<bool, Error> {
        let key = self.account_key();
        let before = self.row::<ActiveScript>(&key)?;
        if before == id {
            return Ok(false);
        }
        if let Some(id) = id {
            self.renumber_object::<SieveScript>(id)?;
        }
        match before.map(|before| self.renumber_object::<SieveScript>(before)) {
            // In a damaged store, the row may name a script that does not exist.
            None | Some(Ok(()) | Err(Error::NotFound(_))) => {}
            Some(Err(error)) => return Err(error),
        }
        match id {
            Some(id) => self.put::<ActiveScript>(&key, &id),
            None => self.delete::<ActiveScript>(&key),
        }
        self.touch(DataType::SieveScript);
        Ok(true)
    }

    /// Destroys a script, and returns it as it was.
    ///
    /// # Errors
    /// `NotFound`; `Script` if the script is active.
    pub fn destroy_script(&mut self, id: ObjectId) -> Result<SieveScript, Error> {
        if self.row::<ActiveScript>(&self.account_key())? == Some(id) {
            return Err(Error::Script(ScriptFault::Active));
        }
        let script = self.destroy_object::<SieveScript>(id)?;
        self.forget_script_hits(id)?;
        self.delete::<ScriptSources>(&self.script_key(id));
        Ok(script)
    }

    /// Records that a run failed, or that something it decided was not done. Keeps the newest
    /// `limits::MAX_SCRIPT_ERRORS` records, and cuts the message off after
    /// `limits::MAX_SCRIPT_ERROR_BYTES`. A record replaces one with the same script, line and
    /// message, so that many messages with one fault do not drive out other faults.
    pub fn add_script_error(&mut self, error: &ScriptError) -> Result<(), Error> {
        let key = self.account_key();
        // A damaged row must not keep mail from being delivered: it is replaced.
        let row = self.row_if_any::<ScriptErrors>(&key)?;
        let ScriptErrorsRow(mut errors) = row.and_then(Result::ok).unwrap_or_default();
        let mut message = error.message.clone();
        message.truncate(message.floor_char_boundary(limits::MAX_SCRIPT_ERROR_BYTES));
        errors.retain(|known| {
            (&known.script, known.line, &known.message) != (&error.script, error.line, &message)
        });
        let surplus = (errors.len() + 1).saturating_sub(limits::MAX_SCRIPT_ERRORS);
        errors.drain(..surplus);
        errors.push(ScriptError { message, ..error.clone() });
        self.put::<ScriptErrors>(&key, &ScriptErrorsRow(errors));
        Ok(())
    }

    fn script_key(&self, script: ObjectId) -> ScriptKey {
        ScriptKey { account: self.account(), script }
    }

    /// Checks a name for the script `own`, which may have it already, or for a new script (`None`).
    fn check_script_name(&self, own: Option<ObjectId>, name: &str) -> Result<(), Error> {
        if !is_script_name(name) {
            return Err(Error::Script(ScriptFault::Name));
        }
        match self.snapshot().script_by_name(self.account(), name)? {
            Some((id, _)) if Some(id) != own => Err(Error::Script(ScriptFault::NameTaken(id))),
            _ => Ok(()),
        }
    }
}

fn check_script_size(source: &[u8]) -> Result<(), Error> {
    if source.len() > limits::MAX_SCRIPT_BYTES {
        return Err(Error::Script(ScriptFault::TooLarge(limits::MAX_SCRIPT_BYTES)));
    }
    Ok(())
}

pub(in crate::store) fn script_hash(source: &[u8]) -> BlobHash {
    BlobHash(*blake3::hash(source).as_bytes())
}
