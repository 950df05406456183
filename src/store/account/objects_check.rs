//! Checks the small objects of an account, and their rows in `object_by_modseq`.

use std::collections::BTreeMap;

use crate::model::{ModSeq, ObjectId, ObjectKind};
use crate::store::engine::Table;
use crate::store::engine::typed::TypedRead as _;
use crate::store::error::Error;
use crate::store::repair::check::{Checker, RowFix};
use crate::store::row::{RowFormat as _, is_live_object, object_marks};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{ObjectKey, ObjectModSeqKey};
use crate::store::table::{ObjectByModseq, Objects};

impl Checker<'_> {
    /// Checks `objects` and `object_by_modseq`, and the scripts. A repair deletes:
    ///
    /// - an object that cannot be read, or whose modseqs are impossible;
    /// - of two objects of a kind with the same modseq, the one that `object_by_modseq` does not
    ///   name (if it names neither, the younger one);
    /// - a script whose source is lost. (A script whose source was altered stays, but must not be
    ///   active.)
    pub(in crate::store) fn check_objects(&mut self) -> Result<(), Error> {
        let account = self.account;
        let newest = self.found_state.as_ref().map_or(ModSeq(u64::MAX), |state| state.modseq);
        // What `object_by_modseq` should have.
        let mut by_modseq: BTreeMap<ObjectModSeqKey, ObjectId> = BTreeMap::new();
        // The scripts that stay, and those of them whose source was altered.
        let (mut scripts, mut altered): (Vec<ObjectId>, Vec<ObjectId>) = (Vec::new(), Vec::new());
        let mut rows = self.rows::<Objects>();
        while let Some(found) = rows.next()? {
            let key = found.key.as_slice();
            let Some(ObjectKey { kind, object: id, .. }) = found.id() else {
                self.report_extra(Table::Objects, key)?;
                continue;
            };
            let row = match object_marks(kind, key, &found.value) {
                Ok(row) if row.created <= row.updated && row.updated <= newest => row,
                Ok(_) => {
                    self.report(
                        Table::Objects,
                        key,
                        "changed before it was made, or in the future",
                        RowFix::Delete,
                    )?;
                    continue;
                }
                Err(error) => {
                    self.report(
                        Table::Objects,
                        key,
                        format!("{error}: the object must be created again"),
                        RowFix::Delete,
                    )?;
                    continue;
                }
            };
            let is_script = kind == ObjectKind::SieveScript && is_live_object(&found.value);
            if is_script && let Some((what, fix)) = self.script_fault(id, key, &found.value)? {
                let is_lost = fix == RowFix::Delete;
                self.report(Table::Objects, key, what, fix)?;
                if is_lost {
                    continue;
                }
                altered.push(id);
            }
            let Some(data) = kind.data_type() else {
                self.note_change(row.updated);
                continue;
            };
            let order = ObjectModSeqKey { account, kind, modseq: row.updated };
            let is_named = self.read.bytes::<ObjectByModseq>(&order)? == Some(id.to_bytes());
            if let Some(other) = by_modseq.get(&order).copied() {
                let object = if is_named { other } else { id };
                let loser = ObjectKey { account, kind, object }.encode();
                self.report(
                    Table::Objects,
                    &loser,
                    "has the change number of another",
                    RowFix::Delete,
                )?;
                if !is_named {
                    continue;
                }
                scripts.retain(|script| *script != other);
            }
            if is_script {
                scripts.push(id);
            }
            by_modseq.insert(order, id);
            self.note_change(row.updated);
            self.census.marks.push((data, row.updated));
        }
        self.expect_rows::<ObjectByModseq>(by_modseq.into_iter())?;
        self.check_scripts(&scripts, &altered)
    }

    /// Notes a modseq as in use.
    fn note_change(&mut self, at: ModSeq) {
        self.census.high = self.census.high.max(at.0);
    }
}
