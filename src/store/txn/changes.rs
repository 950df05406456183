//! What changed since a state: emails, threads (RFC 8620 §5.2), mailboxes (RFC 8621 §2.2).
//!
//! Every object has one row in the order of its last change, so changes cost the changes. An
//! intermediate state says how far has been told (`mark`) and where the client stood when it began
//! (`base`): what was created after `base` is created, even if it moved along the index since; what
//! was destroyed is left out only if it was created after `mark`, for before that it may have been
//! told of.

use std::fmt::Display;

use crate::model::{AccountId, DataType, EmailId, MailboxUid, ModSeq, ThreadId};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::{Error, hex};
use crate::store::row::RowFormat;
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{EmailKey, ModSeqKey, ThreadIdKey};
use crate::store::table::{self, EmailByModseq, Mailboxes, Table, ThreadByModseq, Threads};
use crate::store::txn::snapshot::Snapshot;

/// How far a client has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientState {
    /// Everything up to here.
    pub mark: ModSeq,
    /// Where it stood when it began to catch up; below `mark` only while there is more.
    pub base: ModSeq,
    /// Of several mailboxes that `mark` changed, the last that was told; `u32::MAX` where all were.
    pub last: u32,
}

impl ClientState {
    /// Of a client that is catching up with nothing.
    #[must_use]
    pub fn at(mark: ModSeq) -> Self {
        Self { mark, base: mark, last: u32::MAX }
    }

    /// Whether an object with this number, last changed at `at`, is still to be told.
    #[must_use]
    pub fn is_before(&self, at: ModSeq, number: u32) -> bool {
        (self.mark, self.last) < (at, number)
    }
}

/// By which changes an object was made, and changed last.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct ChangeMarks {
    pub(in crate::store) created: ModSeq,
    pub(in crate::store) updated: ModSeq,
}

/// An index of objects by their last change, from the first change that is to be told.
pub(in crate::store) struct ChangeIndex<T: Table> {
    pub(in crate::store) data: DataType,
    pub(in crate::store) range: KeyRange<T>,
    /// The change that a key of the index names.
    pub(in crate::store) modseq: fn(&T::Key) -> ModSeq,
}

/// The answer of a `/changes` method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes<Id> {
    /// Made since.
    pub created: Vec<Id>,
    /// Changed since.
    pub updated: Vec<Id>,
    /// Gone since.
    pub destroyed: Vec<Id>,
    /// Where the client is now.
    pub state: ClientState,
    /// Whether there is more.
    pub has_more: bool,
}

/// The answer of Mailbox/changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxChanges {
    /// The mailboxes.
    pub changes: Changes<MailboxUid>,
    /// Whether of those updated only the counts changed (`updatedProperties`).
    pub only_counts: bool,
}

impl Snapshot<'_> {
    /// Email/changes: `most` objects at most; `None` where the state is from before what was
    /// purged, or from the future.
    ///
    /// # Errors
    /// Those of reading; so for every function here.
    pub fn email_changes(
        &self,
        account: AccountId,
        since: ClientState,
        most: usize,
    ) -> Result<Option<Changes<EmailId>>, Error> {
        let range = KeyRange::from(&(account,), &ModSeqKey { account, modseq: since.mark.next() });
        let index =
            ChangeIndex::<EmailByModseq> { data: DataType::Email, range, modseq: |key| key.modseq };
        self.changes(account, index, since, most, |email| {
            let row = self.read.row::<table::EmailMetadata>(&EmailKey { account, email })?;
            Ok(row.map(|row| {
                (ChangeMarks { created: row.created, updated: row.updated }, row.deleted.is_some())
            }))
        })
    }

    /// Thread/changes.
    ///
    /// # Errors
    /// Those of reading.
    pub fn thread_changes(
        &self,
        account: AccountId,
        since: ClientState,
        most: usize,
    ) -> Result<Option<Changes<ThreadId>>, Error> {
        let range = KeyRange::from(&(account,), &ModSeqKey { account, modseq: since.mark.next() });
        let index = ChangeIndex::<ThreadByModseq> {
            data: DataType::Thread,
            range,
            modseq: |key| key.modseq,
        };
        self.changes(account, index, since, most, |thread| {
            let row = self.read.row::<Threads>(&ThreadIdKey { account, thread })?;
            Ok(row.map(|row| {
                (ChangeMarks { created: row.created, updated: row.updated }, row.deleted)
            }))
        })
    }

    /// The objects that an index names behind a state; `object` says when one was made and changed
    /// last, and whether it is destroyed.
    pub(in crate::store) fn changes<T: Table<Row: RowFormat + Copy + Display>>(
        &self,
        account: AccountId,
        index: ChangeIndex<T>,
        since: ClientState,
        most: usize,
        object: impl Fn(T::Row) -> Result<Option<(ChangeMarks, bool)>, Error>,
    ) -> Result<Option<Changes<T::Row>>, Error> {
        let ChangeIndex { data, range, modseq } = index;
        let Some(high) = self.within(account, data, since)? else { return Ok(None) };
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
            if out.created.len() + out.updated.len() + out.destroyed.len() >= most {
                out.has_more = true;
                return Ok(false);
            }
            mark = modseq(&key);
            // A row that names another object than the one that changed then is damaged. Going on
            // would miss a change.
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

    /// The newest state of a type, if changes since a state can be told.
    fn within(
        &self,
        account: AccountId,
        data: DataType,
        since: ClientState,
    ) -> Result<Option<ModSeq>, Error> {
        let state = self.account_state(account)?;
        let (high, low) = (state.state(data), state.low_mark(data));
        Ok((since.mark <= state.modseq && since.mark >= low && since.base <= since.mark)
            .then_some(high.max(since.mark)))
    }

    /// Mailbox/changes: `most` mailboxes at most, in the order of their last changes. One change of
    /// an email may change several mailboxes: those it changed are told in the order of their uids.
    ///
    /// # Errors
    /// Those of reading.
    pub fn mailbox_changes(
        &self,
        account: AccountId,
        since: ClientState,
        most: usize,
    ) -> Result<Option<MailboxChanges>, Error> {
        let Some(high) = self.within(account, DataType::Mailbox, since)? else { return Ok(None) };
        let mut changed = Vec::new();
        self.read.rows::<Mailboxes>(&KeyRange::under(&(account,)), |key, mailbox| {
            if since.is_before(mailbox.updated, key.mailbox.0) {
                changed.push((key.mailbox, mailbox));
            }
            Ok(true)
        })?;
        changed.sort_unstable_by_key(|(uid, mailbox)| (mailbox.updated, *uid));
        let more = changed.len() > most;
        changed.truncate(most);
        let state = match changed.last().filter(|_| more) {
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
            has_more: more,
        };
        let mut only_counts = true;
        for (uid, mailbox) in changed {
            match (mailbox.deleted, mailbox.created > since.base) {
                (true, _) if mailbox.created <= since.mark => changes.destroyed.push(uid),
                (true, _) => {}
                (false, true) => changes.created.push(uid),
                (false, false) => {
                    // What was told between `base` and `mark` is not kept: only what is older than
                    // both is known.
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
