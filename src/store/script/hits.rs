//! Counts how often each rule of a script fired.
//!
//! - A rule is known by the byte of the source at which it begins, counted from 0. The caller says
//!   which parts of a script are rules.
//! - The rows belong to one source: `destroy_script` deletes them, and `replace_script` if the new
//!   source differs.

use std::collections::BTreeMap;

use crate::model::{AccountId, BlobHash, ObjectId, RuleHits, SieveScript};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::table::ScriptHits;
use crate::store::table::keys::ScriptHitsKey;
use crate::store::txn::Txn;
use crate::store::txn::snapshot::Snapshot;

impl Txn<'_> {
    /// Counts a message for each of the `rules`, which must not name a rule twice. `source` is the
    /// hash of the source that was run. Counts nothing if the script has another source by now, is
    /// gone, or its row is damaged.
    ///
    /// # Errors
    /// Those of reading. A damaged count begins anew at 1: it must not keep mail from being
    /// delivered.
    pub fn count_script_hits(
        &mut self,
        script: ObjectId,
        source: &BlobHash,
        rules: &[u32],
    ) -> Result<(), Error> {
        if rules.is_empty() {
            return Ok(());
        }
        match self.snapshot().object::<SieveScript>(self.account(), script) {
            Ok(Some(stored)) if stored.hash == *source => {}
            Ok(_) | Err(Error::Corrupt { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        for rule in rules {
            let key = ScriptHitsKey { account: self.account(), script, rule: *rule };
            let before = self.row_if_any::<ScriptHits>(&key)?.and_then(Result::ok);
            let hits = before.unwrap_or_default().hits.saturating_add(1);
            self.put::<ScriptHits>(&key, &RuleHits { hits, last: self.now() });
        }
        Ok(())
    }

    /// Forgets the hits of all rules of a script.
    pub(in crate::store) fn forget_script_hits(&mut self, script: ObjectId) -> Result<(), Error> {
        let rows = KeyRange::<ScriptHits>::under(&(self.account(), script));
        self.delete_range(&rows, usize::MAX).map(drop)
    }
}

impl Snapshot<'_> {
    /// Returns the hits of the rules of a script, by the byte at which each rule begins. Rules that
    /// never fired are left out.
    pub fn script_hits(
        &self,
        account: AccountId,
        script: ObjectId,
    ) -> Result<BTreeMap<u32, RuleHits>, Error> {
        let mut hits = BTreeMap::new();
        let rows = KeyRange::<ScriptHits>::under(&(account, script));
        self.read.rows::<ScriptHits>(&rows, |key, row| {
            hits.insert(key.rule, row);
            Ok(true)
        })?;
        Ok(hits)
    }
}
