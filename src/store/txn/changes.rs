//! Reads what changed since a state: emails and threads (RFC 8620 §5.2), mailboxes (RFC 8621 §2.2).
//!
//! - If there are more changes than `limit`, the answer ends with an intermediate state
//!   (`ClientState`).
//! - An object that was created after `ClientState::base` is reported as created, even if it
//!   changed since.
//! - A destroyed object is left out only if it was created after `ClientState::mark`. If it was
//!   created earlier, the client may know it.

use std::fmt::Display;

use crate::model::{AccountId, DataType, EmailId, MailboxUid, ModSeq, ThreadId};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::{Error, hex};
use crate::store::row::RowFormat;
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{EmailKey, ModSeqKey, ThreadIdKey};
use crate::store::table::{self, EmailByModseq, Mailboxes, Table, ThreadByModseq, Threads};
use crate::store::txn::snapshot::Snapshot;

/// Which changes a client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientState {
    /// The client knows all changes up to this one, except as `last` says.
    pub mark: ModSeq,
    /// The mark with which the client began to catch up. Equals `mark` if it has caught up.
    pub base: ModSeq,
    /// If the change `mark` changed several mailboxes, the last one that was reported; `u32::MAX`
    /// if all were.
    pub last: u32,
}

impl ClientState {
    #[must_use]
    pub fn at(mark: ModSeq) -> Self {
        Self { mark, base: mark, last: u32::MAX }
    }

    /// Whether the last change of a mailbox is still to be reported to the client: the change `at`
    /// of the mailbox with the uid `number`.
    #[must_use]
    pub fn is_before(&self, at: ModSeq, number: u32) -> bool {
        (self.mark, self.last) < (at, number)
    }
}

/// The changes by which an object was created and last changed.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct ChangeMarks {
    pub(in crate::store) created: ModSeq,
    pub(in crate::store) updated: ModSeq,
}

/// A table that lists objects by their last change, and the range of the changes to report.
pub(in crate::store) struct ChangeIndex<T: Table> {
    pub(in crate::store) data: DataType,
    pub(in crate::store) range: KeyRange<T>,
    pub(in crate::store) modseq: fn(&T::Key) -> ModSeq,
}

/// An answer of /changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes<Id> {
    pub created: Vec<Id>,
    pub updated: Vec<Id>,
    pub destroyed: Vec<Id>,
    /// The state of the client once it has this answer.
    pub state: ClientState,
    /// Whether there are changes after `state`.
    pub has_more: bool,
}

/// An answer of Mailbox/changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxChanges {
    pub changes: Changes<MailboxUid>,
    /// Whether only counts changed in the updated mailboxes (`updatedProperties`); `false` if there
    /// are none.
    pub only_counts: bool,
}

impl Snapshot<'_> {
    /// Returns at most `limit` emails that changed since a state (Email/changes). `None` if the
    /// state is below the low mark or from the future, or if its `base` is above its `mark`.
    pub fn email_changes(
        &self,
        account: AccountId,
        since: ClientState,
        limit: usize,
    ) -> Result<Option<Changes<EmailId>>, Error> {
        let range = KeyRange::from(&(account,), &ModSeqKey { account, modseq: since.mark.next() });
        let index =
            ChangeIndex::<EmailByModseq> { data: DataType::Email, range, modseq: |key| key.modseq };
        self.changes(account, index, since, limit, |email| {
            let row = self.read.row::<table::EmailMetadata>(&EmailKey { account, email })?;
            Ok(row.map(|row| {
                (
                    ChangeMarks { created: row.created, updated: row.updated },
                    row.destroyed.is_some(),
                )
            }))
        })
    }

    /// Like `email_changes`, for threads (Thread/changes).
    pub fn thread_changes(
        &self,
        account: AccountId,
        since: ClientState,
        limit: usize,
    ) -> Result<Option<Changes<ThreadId>>, Error> {
        let range = KeyRange::from(&(account,), &ModSeqKey { account, modseq: since.mark.next() });
        let index = ChangeIndex::<ThreadByModseq> {
            data: DataType::Thread,
            range,
            modseq: |key| key.modseq,
        };
        self.changes(account, index, since, limit, |thread| {
            let row = self.read.row::<Threads>(&ThreadIdKey { account, thread })?;
            Ok(row.map(|row| {
                (ChangeMarks { created: row.created, updated: row.updated }, row.destroyed)
            }))
        })
    }

    /// Returns at most `limit` objects of an index that changed since a state; `None` as
    /// `email_changes`. `object` returns the marks of an object, and whether it is destroyed.
    ///
    /// # Errors
    /// Those of reading; `Corrupt` if a row of the index names an object that did not change then.
    pub(in crate::store) fn changes<T: Table<Row: RowFormat + Copy + Display>>(
        &self,
        account: AccountId,
        index: ChangeIndex<T>,
        since: ClientState,
        limit: usize,
        object: impl Fn(T::Row) -> Result<Option<(ChangeMarks, bool)>, Error>,
    ) -> Result<Option<Changes<T::Row>>, Error> {
        let ChangeIndex { data, range, modseq } = index;
        let Some(high) = self.high_mark_since(account, data, since)? else { return Ok(None) };
        let now = ClientState::at(high);
        let mut out = Changes {
            created: Vec::new(),
            updated: Vec::new(),
            destroyed: Vec::new(),
            state: now,
            has_more: false,
        };
        let mut mark = since.mark;
        self.read.rows(&range, |key, id| {
            if out.created.len() + out.updated.len() + out.destroyed.len() >= limit {
                out.has_more = true;
                return Ok(false);
            }
            mark = modseq(&key);
            // Skipping a row that names the wrong object would hide a change from the client.
            let Some((marks, destroyed)) = object(id)?.filter(|(marks, _)| marks.updated == mark)
            else {
                let what = format!("names {id}, which did not change then: run `restante repair`");
                return Err(Error::Corrupt { table: T::ID.name(), key: hex(&key.encode()), what });
            };
            match (destroyed, marks.created) {
                (false, created) if created > since.base => out.created.push(id),
                (false, _) => out.updated.push(id),
                (true, created) if created <= since.mark => out.destroyed.push(id),
                (true, _) => {}
            }
            Ok(true)
        })?;
        if out.has_more {
            out.state = ClientState { mark, base: since.base, last: u32::MAX };
        }
        Ok(Some(out))
    }

    /// The mark of a client that knows all changes of a data type: the high mark, but not less than
    /// `since.mark`, which may come from another data type (`jmap::guest`). `None` if changes since
    /// the state cannot be reported.
    fn high_mark_since(
        &self,
        account: AccountId,
        data: DataType,
        since: ClientState,
    ) -> Result<Option<ModSeq>, Error> {
        let state = self.account_state(account)?;
        let (high, low) = (state.high_mark(data), state.low_mark(data));
        Ok((since.mark <= state.modseq && since.mark >= low && since.base <= since.mark)
            .then_some(high.max(since.mark)))
    }

    /// Returns at most `limit` mailboxes that changed since a state (Mailbox/changes), in the order
    /// of their last changes, then of their uids; `None` as `email_changes`.
    pub fn mailbox_changes(
        &self,
        account: AccountId,
        since: ClientState,
        limit: usize,
    ) -> Result<Option<MailboxChanges>, Error> {
        let Some(high) = self.high_mark_since(account, DataType::Mailbox, since)? else {
            return Ok(None);
        };
        let mut changed = Vec::new();
        self.read.rows::<Mailboxes>(&KeyRange::under(&(account,)), |key, mailbox| {
            if since.is_before(mailbox.updated, key.mailbox.0) {
                changed.push((key.mailbox, mailbox));
            }
            Ok(true)
        })?;
        changed.sort_unstable_by_key(|(uid, mailbox)| (mailbox.updated, *uid));
        let has_more = changed.len() > limit;
        changed.truncate(limit);
        let state = match changed.last().filter(|_| has_more) {
            Some((uid, mailbox)) => {
                ClientState { mark: mailbox.updated, base: since.base, last: uid.0 }
            }
            None => ClientState::at(high),
        };
        let mut changes = Changes {
            created: Vec::new(),
            updated: Vec::new(),
            destroyed: Vec::new(),
            state,
            has_more,
        };
        let mut only_counts = true;
        for (uid, mailbox) in changed {
            match (mailbox.destroyed, mailbox.created > since.base) {
                (true, _) if mailbox.created <= since.mark => changes.destroyed.push(uid),
                (true, _) => {}
                (false, true) => changes.created.push(uid),
                (false, false) => {
                    // What was reported to the client between `base` and `mark` is not stored, so
                    // the comparison is with `base`.
                    only_counts &= mailbox.updated_not_counts <= since.base;
                    changes.updated.push(uid);
                }
            }
        }
        Ok(Some(MailboxChanges {
            only_counts: only_counts && !changes.updated.is_empty(),
            changes,
        }))
    }
}
