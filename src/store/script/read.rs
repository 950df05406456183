//! Reads the Sieve scripts of an account and the records of their runs.

use std::ops::Range;

use crate::model::{AccountId, BlobHash, ObjectId, ScriptError, SieveScript, UtcMillis};
use crate::store::blob::read::part;
use crate::store::engine::typed::TypedRead as _;
use crate::store::error::Error;
use crate::store::row::{ScriptErrorsRow, ScriptSource};
use crate::store::table::keys::{AccountKey, DuplicateKey, ScriptKey};
use crate::store::table::{ActiveScript, Duplicates, ScriptErrors, ScriptSources};
use crate::store::txn::snapshot::Snapshot;

impl Snapshot<'_> {
    /// Returns the scripts of an account in the order of their creation. A script whose id is known
    /// is read by `Snapshot::object`.
    pub fn scripts(&self, account: AccountId) -> Result<Vec<(ObjectId, SieveScript)>, Error> {
        self.objects::<SieveScript>(account)
    }

    /// Returns the script with this name. Reads all scripts of the account, without their sources.
    pub fn script_by_name(
        &self,
        account: AccountId,
        name: &str,
    ) -> Result<Option<(ObjectId, SieveScript)>, Error> {
        Ok(self.scripts(account)?.into_iter().find(|(_, script)| script.name == name))
    }

    /// Returns the source of a script, byte for byte as it was stored; `None` if there is no such
    /// script.
    pub fn script_source(
        &self,
        account: AccountId,
        script: ObjectId,
    ) -> Result<Option<Vec<u8>>, Error> {
        let row = self.read.row::<ScriptSources>(&ScriptKey { account, script })?;
        Ok(row.map(|ScriptSource(source)| source))
    }

    /// Returns the script whose source has this hash; of several, the one that was created first.
    /// Reads all scripts of the account, without their sources.
    pub fn script_by_hash(
        &self,
        account: AccountId,
        hash: &BlobHash,
    ) -> Result<Option<(ObjectId, SieveScript)>, Error> {
        Ok(self.scripts(account)?.into_iter().find(|(_, script)| script.hash == *hash))
    }

    /// Returns the bytes of a source in a range, as far as there are any; `None` if the script does
    /// not exist, or no longer has the source with this hash.
    pub fn script_part(
        &self,
        account: AccountId,
        script: ObjectId,
        hash: &BlobHash,
        range: Range<u64>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let object = self.object::<SieveScript>(account, script)?;
        if object.is_none_or(|object| object.hash != *hash) {
            return Ok(None);
        }
        let source = self.script_source(account, script)?;
        Ok(source.map(|source| part(&source, &range).to_vec()))
    }

    /// Returns the active script of an account; `None` if no script is active.
    pub fn active_script(&self, account: AccountId) -> Result<Option<ObjectId>, Error> {
        self.read.row::<ActiveScript>(&AccountKey { account })
    }

    /// Returns the errors of scripts that are recorded, newest first (`Txn::add_script_error`).
    pub fn script_errors(&self, account: AccountId) -> Result<Vec<ScriptError>, Error> {
        let row = self.read.row::<ScriptErrors>(&AccountKey { account })?;
        let ScriptErrorsRow(mut errors) = row.unwrap_or_default();
        errors.reverse();
        Ok(errors)
    }

    /// Whether the `duplicate` test remembers a message at `now`. `hash` is that of the handle and
    /// the value of the test (`restante_sieve::DupKey`). A damaged record counts as none, as after
    /// a repair.
    pub fn is_duplicate(
        &self,
        account: AccountId,
        hash: &[u8; 32],
        now: UtcMillis,
    ) -> Result<bool, Error> {
        let row = self.read.row_if_any::<Duplicates>(&DuplicateKey { account, hash: *hash })?;
        Ok(row.and_then(Result::ok).is_some_and(|row| now < row.until))
    }
}
