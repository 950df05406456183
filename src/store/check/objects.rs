//! Small objects: each can be read, and those with a state stand once in the order of their last changes.

use std::collections::BTreeMap;

use super::rows::Pair;
use super::{Checker, Mend};
use crate::model::{ModSeq, ObjectId, ObjectKind};
use crate::store::engine::Table;
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::object_marks;

impl Checker<'_> {
    /// What cannot be read is the owner's word, and gone. Of two that say that one change was theirs, the one that the
    /// order does not name is dropped: nothing but damage makes such a one.
    pub(super) fn objects(&mut self) -> Result<(), Error> {
        let account = self.account;
        let newest = self.found.as_ref().map_or(ModSeq(u64::MAX), |state| state.modseq);
        let mut by_modseq: BTreeMap<Vec<u8>, ObjectId> = BTreeMap::new();
        let mut rows = self.rows(Table::Objects, &key::account(account));
        while let Some((key, value)) = rows.next()? {
            let Some((kind, id)) = which(&key) else {
                self.extra(Table::Objects, &key)?;
                continue;
            };
            let row = match object_marks(kind, &key, &value) {
                Ok(row) if row.created <= row.updated && row.updated <= newest => row,
                Ok(_) => {
                    self.say(Table::Objects, &key, "changed before it was made, or in the future", Mend::Delete)?;
                    continue;
                }
                Err(error) => {
                    self.say(Table::Objects, &key, format!("{error}: it must be made again"), Mend::Delete)?;
                    continue;
                }
            };
            let Some(data) = kind.data() else {
                self.note_change(row.updated);
                continue;
            };
            let order = key::object_by_modseq(account, kind, row.updated);
            let named = self.read.get(Table::ObjectByModseq, &order)?;
            let is_named = named.as_deref() == Some(&id.0.to_be_bytes()[..]);
            if let Some(other) = by_modseq.get(&order).copied() {
                let loser = if is_named { key::object(account, kind, other) } else { key.clone() };
                self.say(Table::Objects, &loser, "has the change number of another", Mend::Delete)?;
                if !is_named {
                    continue;
                }
            }
            by_modseq.insert(order, id);
            self.note_change(row.updated);
            self.census.marks.push((data, row.updated));
        }
        let wanted = by_modseq.into_iter().map(|(key, id)| (key, id.0.to_be_bytes().to_vec()) as Pair);
        self.compare(Table::ObjectByModseq, wanted)
    }

    fn note_change(&mut self, at: ModSeq) {
        self.census.high = self.census.high.max(at.0);
    }
}

fn which(key: &[u8]) -> Option<(ObjectKind, ObjectId)> {
    let mut parts = Parts::of(Table::Objects, key);
    let (id, [kind]) = (parts.u64().ok()?, parts.take().ok()?);
    (key.len() == 13).then_some((ObjectKind::of(kind)?, ObjectId(id)))
}
