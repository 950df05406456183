//! Checks the sources of Sieve scripts, the active script, and what runs of scripts leave.

use crate::model::{ObjectId, SieveScript};
use crate::store::engine::Table;
use crate::store::engine::typed::TypedRead as _;
use crate::store::error::Error;
use crate::store::repair::check::{Checker, RowFix};
use crate::store::row::{ObjectRow, Row as _, ScriptSource};
use crate::store::script::write::script_hash;
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{AccountKey, DuplicateTimeKey, ScriptKey};
use crate::store::table::{
    ActiveScript, DuplicateByTime, Duplicates, Present, ScriptErrors, ScriptHits, ScriptSources,
};

impl Checker<'_> {
    /// Compares a script with its source. `key` and `row` are those of the script in `objects`.
    /// Returns what is wrong, and what to do with that row; `None` if nothing is wrong, or the
    /// script is destroyed. A source that was altered is kept for its owner: the script gets the
    /// hash and the size that the source has now.
    pub(in crate::store) fn script_fault(
        &self,
        script: ObjectId,
        key: &[u8],
        row: &[u8],
    ) -> Result<Option<(&'static str, RowFix)>, Error> {
        let row = ObjectRow::<SieveScript>::decode(key, row)?;
        let Some(object) = row.object else { return Ok(None) };
        let source = ScriptKey { account: self.account, script };
        Ok(match self.readable::<ScriptSources>(&source)? {
            None => {
                Some(("its source cannot be read: the script must be stored again", RowFix::Delete))
            }
            Some(ScriptSource(source)) if script_hash(&source) != object.hash => {
                let (hash, size) = (script_hash(&source), source.len() as u64);
                let object = Some(SieveScript { hash, size, ..object });
                Some((
                    "its source is not the one that was stored: the script is no longer active, \
                     and its owner must look at it",
                    RowFix::Put(ObjectRow { object, ..row }.encode()),
                ))
            }
            Some(_) => None,
        })
    }

    /// Checks the rows of scripts that are not in `objects`: sources, the active script, failed
    /// runs, hits and duplicates. `scripts` are those that exist, ascending. `altered` are those
    /// whose source was altered: they must not be active.
    pub(in crate::store) fn check_scripts(
        &self,
        scripts: &[ObjectId],
        altered: &[ObjectId],
    ) -> Result<(), Error> {
        let exists = |id: &ObjectId| scripts.binary_search(id).is_ok();
        let mut sources = self.rows::<ScriptSources>();
        while let Some(found) = sources.next()? {
            if !found.id().is_some_and(|key| exists(&key.script)) {
                self.report_extra(Table::ScriptSources, &found.key)?;
            }
        }
        let own = AccountKey { account: self.account };
        let active = self.read.row_if_any::<ActiveScript>(&own)?;
        let is_usable = |id: ObjectId| exists(&id) && !altered.contains(&id);
        if active.is_some_and(|row| !row.is_ok_and(is_usable)) {
            let what = "names no script that can be active: no script is active";
            self.report(Table::ActiveScript, &own.encode(), what, RowFix::Delete)?;
        }
        if let Some(Err(error)) = self.read.row_if_any::<ScriptErrors>(&own)? {
            let what = error.to_string();
            self.report(Table::ScriptErrors, &own.encode(), what, RowFix::Delete)?;
        }
        self.check_script_hits(&exists)?;
        self.check_duplicates()
    }

    fn check_script_hits(&self, exists: &dyn Fn(&ObjectId) -> bool) -> Result<(), Error> {
        let mut rows = self.rows::<ScriptHits>();
        // The script of the previous row, and the length of its source (0: it cannot be read).
        let mut source: Option<(ObjectId, usize)> = None;
        while let Some(found) = rows.next()? {
            let Some(key) = found.id().filter(|key| exists(&key.script)) else {
                self.report_extra(Table::ScriptHits, &found.key)?;
                continue;
            };
            let length = match source {
                Some((script, length)) if script == key.script => length,
                _ => {
                    let at = ScriptKey { account: self.account, script: key.script };
                    self.readable::<ScriptSources>(&at)?.map_or(0, |source| source.0.len())
                }
            };
            source = Some((key.script, length));
            let begins_inside = usize::try_from(key.rule).is_ok_and(|rule| rule < length);
            if !begins_inside || !found.row().is_ok_and(|row| row.hits > 0) {
                let what = "counts no rule of the script, or cannot be read: it counts from 0";
                self.report(Table::ScriptHits, &found.key, what, RowFix::Delete)?;
            }
        }
        Ok(())
    }

    fn check_duplicates(&self) -> Result<(), Error> {
        let account = self.account;
        let mut by_time = Vec::new();
        let mut rows = self.rows::<Duplicates>();
        while let Some(found) = rows.next()? {
            let (Some(key), Ok(row)) = (found.id(), found.row()) else {
                let what = "cannot be read: the message may be taken for a new one";
                self.report(Table::Duplicates, &found.key, what, RowFix::Delete)?;
                continue;
            };
            by_time.push(DuplicateTimeKey { account, until: row.until.into(), hash: key.hash });
        }
        by_time.sort_unstable();
        self.expect_rows::<DuplicateByTime>(by_time.into_iter().map(|key| (key, Present)))
    }
}
