//! Checks the rows of mailboxes and the account's state.
//!
//! The steps of a check call these functions in turn: `check_mailboxes` first, `expect_mailbox` for
//! each mailbox once its counts and listings are known, and `check_state` last. Each step adds to
//! the census (`Checker::census`), which has the account's data as the rows should have them.

use crate::model::{
    DataType, ListingFilter, Mailbox, MailboxUid, MaintainedListing, ModSeq, Role, mailbox,
};
use crate::store::engine::Table;
use crate::store::engine::typed::TypedRead as _;
use crate::store::error::Error;
use crate::store::repair::check::{Checker, RowFix};
use crate::store::row::{AccountStateRow, RowFormat as _};
use crate::store::table::Mailboxes;
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{AccountKey, MailboxKey};

/// If the account's state row is lost, modseqs go on this far above the highest in use: clients may
/// know higher modseqs than any row has.
pub(in crate::store) const MODSEQ_LEAP: u64 = 1 << 32;
/// How far the ids of threads and actions then go on above the highest in use.
const ID_LEAP: u64 = 1 << 16;
/// How far the uids of mailboxes, which have only 32 bits, then go on above the highest in use.
const MAILBOX_LEAP: u32 = 1 << 10;

impl Checker<'_> {
    /// Reads the mailboxes into the census. For each mailbox whose row cannot be read, and for a
    /// lost Inbox or Trash if no other mailbox has the role, the census gets a recovered mailbox.
    /// Reports rows whose keys are damaged or name all mail.
    pub(in crate::store) fn check_mailboxes(&mut self) -> Result<(), Error> {
        let mut rows = self.rows::<Mailboxes>();
        // Mailboxes whose rows cannot be read.
        let mut broken = Vec::new();
        while let Some(found) = rows.next()? {
            let uid = found.id().map(|key| key.mailbox);
            let Some(uid) = uid.filter(|uid| *uid != MailboxUid::ALL) else {
                self.report_extra(Table::Mailboxes, &found.key)?;
                continue;
            };
            match found.row() {
                Ok(row) => {
                    self.census.newest_mailbox = self.census.newest_mailbox.max(row.updated);
                    self.census.high = self.census.high.max(row.updated.0);
                    drop(self.census.mailboxes.insert(uid, row));
                }
                Err(_) => broken.push(uid),
            }
        }
        let role_of = |checker: &Self, role| {
            let mut all = checker.census.mailboxes.iter().filter(|(_, row)| !row.destroyed);
            all.find(|(_, row)| row.role == Some(role)).map(|(uid, _)| *uid)
        };
        let state = self.state_or_fresh();
        // The account's state says which mailbox was the Inbox, and which the Trash.
        for (uid, role) in [(state.inbox, Role::Inbox), (state.trash, Role::Trash)] {
            let is_gone = uid != MailboxUid(0) && !self.census.mailboxes.contains_key(&uid);
            if is_gone && role_of(self, role).is_none() {
                broken.retain(|other| *other != uid);
                self.recover_mailbox(uid, Some(role));
            }
        }
        for uid in broken {
            self.recover_mailbox(uid, None);
        }
        self.census.inbox = role_of(self, Role::Inbox).unwrap_or(MailboxUid(0));
        self.census.trash = role_of(self, Role::Trash).unwrap_or(MailboxUid(0));
        Ok(())
    }

    /// Puts a live mailbox into the census in place of one whose row is lost, cannot be read, or is
    /// a tombstone although emails are in the mailbox. The live mailbox has no parent, a name that
    /// no other mailbox without a parent has, and `role` or its earlier role, unless another
    /// mailbox has this role.
    pub(in crate::store) fn recover_mailbox(&mut self, uid: MailboxUid, role: Option<Role>) {
        let state = self.state_or_fresh();
        let old = self.census.mailboxes.get(&uid).cloned();
        let old_name = match (&old, role) {
            (Some(old), _) => old.name.clone(),
            (None, Some(Role::Inbox)) => "Inbox".to_owned(),
            (None, Some(Role::Trash)) => "Trash".to_owned(),
            (None, _) => format!("Recovered {uid}"),
        };
        let others =
            || self.census.mailboxes.iter().filter(|(other, row)| **other != uid && !row.destroyed);
        let is_taken =
            |name: &str| others().any(|(_, row)| row.parent.is_none() && row.name == name);
        let mut name = old_name.clone();
        while is_taken(&name) {
            name = format!("{name} (recovered)");
        }
        let role = role.or(old.as_ref().and_then(|old| old.role));
        let role = role.filter(|role| !others().any(|(_, row)| row.role == Some(*role)));
        let base = old.unwrap_or_else(|| Mailbox {
            rights: mailbox::ALL_RIGHTS,
            subscribed: true,
            created: state.modseq,
            updated: state.modseq,
            updated_not_counts: state.modseq,
            ..Mailbox::default()
        });
        let listings = vec![MaintainedListing::empty(ListingFilter::Every, state.modseq)];
        let row = Mailbox { name, parent: None, role, destroyed: false, listings, ..base };
        self.census.mailboxes.insert(uid, row);
    }

    /// Reports it if the row of a mailbox is missing or differs from `wanted`.
    pub(in crate::store) fn expect_mailbox(
        &self,
        uid: MailboxUid,
        wanted: &Mailbox,
    ) -> Result<(), Error> {
        let key = MailboxKey { account: self.account, mailbox: uid };
        let what = match self.read.row_if_any::<Mailboxes>(&key)? {
            Some(Ok(row)) if row == *wanted => return Ok(()),
            Some(Ok(row)) => differences(&row, wanted),
            Some(Err(error)) => format!("{error}: the mailbox is recovered as \"{}\"", wanted.name),
            None => "the row is missing".to_owned(),
        };
        self.report_fault(
            Table::Mailboxes,
            &key.encode(),
            what,
            RowFix::Put(wanted.to_bytes()),
            true,
        )
    }

    /// Compares the account's state with the census, which all other steps have filled. Wrong
    /// totals are a fault that clients have not seen; wrong ids, marks or listings are a second
    /// fault, and its fix has the right totals, too.
    pub(in crate::store) fn check_state(&self) -> Result<(), Error> {
        let (own, census) = (AccountKey { account: self.account }.encode(), &self.census);
        let Some(found) = &self.found_state else {
            let what = "the account's row is missing or cannot be read: its numbers go on far \
                        above those in use";
            return self.report_fault(
                Table::AccountState,
                &own,
                what,
                RowFix::Put(self.recovered_state().to_bytes()),
                true,
            );
        };
        let (bytes, emails, told, unfolded) =
            (census.bytes, census.live, census.told, census.unfolded);
        let totals = AccountStateRow {
            bytes,
            emails,
            told,
            unfolded,
            queued: census.queued,
            ..found.clone()
        };
        let sums = |state: &AccountStateRow| {
            (state.bytes, state.emails, state.told, state.unfolded, state.queued)
        };
        if sums(found) != sums(&totals) {
            let (counted, stored) = (sums(&totals), sums(found));
            let what = format!(
                "holds {counted:?} bytes, emails, told senders, token rows and actions, but says \
                 {stored:?}"
            );
            self.report_fault(
                Table::AccountState,
                &own,
                what,
                RowFix::Put(totals.to_bytes()),
                false,
            )?;
        }
        let mut wanted = AccountStateRow {
            last_thread: totals.last_thread.max(census.last_thread),
            last_mailbox: totals.last_mailbox.max(self.last_mailbox()),
            last_action: totals.last_action.max(census.last_action),
            inbox: census.inbox,
            trash: census.trash,
            listings: census.listings.clone(),
            ..totals.clone()
        };
        let mail = [
            (DataType::Email, census.newest_email),
            (DataType::Thread, census.newest_thread),
            (DataType::Mailbox, census.newest_mailbox),
        ];
        for (data, newest) in mail.into_iter().chain(census.marks.iter().copied()) {
            if let Some(mark) = wanted.high.get_mut(data as usize) {
                *mark = (*mark).max(newest);
            }
        }
        let marks = wanted.high.iter().chain(&wanted.low).max().copied().unwrap_or_default();
        wanted.modseq = wanted.modseq.max(ModSeq(census.high)).max(marks);
        if wanted != totals {
            let what = format!("reads {totals:?}, should read {wanted:?}");
            self.report_fault(
                Table::AccountState,
                &own,
                what,
                RowFix::Put(wanted.to_bytes()),
                true,
            )?;
        }
        Ok(())
    }

    /// The highest uid of a mailbox; 0 if there is none.
    fn last_mailbox(&self) -> u32 {
        self.census.mailboxes.keys().next_back().map_or(0, |uid| uid.0)
    }

    /// The state of an account whose state row is lost. Clients may hold any earlier state, so the
    /// low marks refuse all.
    fn recovered_state(&self) -> AccountStateRow {
        let census = &self.census;
        let modseq = ModSeq(census.high.saturating_add(MODSEQ_LEAP));
        AccountStateRow {
            modseq,
            last_thread: census.last_thread.saturating_add(ID_LEAP),
            last_mailbox: self.last_mailbox().saturating_add(MAILBOX_LEAP),
            last_action: census.last_action.saturating_add(ID_LEAP),
            high: [modseq; DataType::ALL.len()],
            low: [modseq; DataType::ALL.len()],
            bytes: census.bytes,
            emails: census.live,
            told: census.told,
            queued: census.queued,
            unfolded: census.unfolded,
            inbox: census.inbox,
            trash: census.trash,
            listings: census.listings.clone(),
            ..AccountStateRow::fresh()
        }
    }
}

/// Says in which of the fields that a check corrects two rows of a mailbox differ.
fn differences(found: &Mailbox, wanted: &Mailbox) -> String {
    let mut out = Vec::new();
    if found.counts != wanted.counts {
        out.push(format!("reads {:?}, should read {:?}", found.counts, wanted.counts));
    }
    if found.listings != wanted.listings {
        out.push(format!("maintains {:?}, should maintain {:?}", found.listings, wanted.listings));
    }
    if found.destroyed != wanted.destroyed {
        out.push("says that the mailbox was destroyed, but emails are in it".to_owned());
    }
    if (found.updated, found.updated_not_counts) != (wanted.updated, wanted.updated_not_counts) {
        out.push("change numbers in the wrong order".to_owned());
    }
    if found.created != wanted.created {
        out.push("was created by a later change than its last one".to_owned());
    }
    out.join("; ")
}
