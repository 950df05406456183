//! A summary of an account, from which a check computes the rows that should exist.

use std::collections::{BTreeMap, HashMap};

use crate::model::{
    DataType, EmailId, EmailMetadata, ListingFilter, Mailbox, MailboxUid, ModSeq, ThreadId,
    UtcMillis, keyword,
};
use crate::store::row::Thread;

/// What a check keeps in memory of an email or a tombstone.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct CensusEmail {
    pub(in crate::store) id: EmailId,
    pub(in crate::store) thread: ThreadId,
    /// The number of the change that created the email.
    pub(in crate::store) created: u64,
    /// The number of its last change.
    pub(in crate::store) updated: u64,
    /// The position in `Census::sets` of the set of its mailboxes.
    mailbox_set: u32,
    /// The sum of those of the constants below that apply.
    bits: u8,
}

const LIVE: u8 = 1;
const SEEN: u8 = 2;
const FLAGGED: u8 = 4;
const UNREAD: u8 = 8;

impl CensusEmail {
    pub(in crate::store) fn is_live(self) -> bool {
        self.bits & LIVE != 0
    }

    pub(in crate::store) fn is_unread(self) -> bool {
        self.bits & UNREAD != 0
    }

    /// Whether the email matches a filter, in a mailbox that it is in. False for a tombstone, and
    /// for the filters on threads, which `Census::threads` answers.
    pub(in crate::store) fn matches(self, filter: ListingFilter) -> bool {
        self.is_live()
            && match filter {
                ListingFilter::Every => true,
                ListingFilter::Unseen => self.bits & SEEN == 0,
                ListingFilter::Flagged => self.bits & FLAGGED != 0,
                ListingFilter::ThreadUnseen
                | ListingFilter::ThreadFlagged
                | ListingFilter::ThreadUntouched => false,
            }
    }
}

#[derive(Debug, Default)]
pub(in crate::store) struct Census {
    /// All emails and tombstones that can be read or recovered, newest first.
    pub(in crate::store) mails: Vec<CensusEmail>,
    /// Each set of mailboxes that an email is in.
    sets: Vec<Vec<MailboxUid>>,
    /// The position of each set in `sets`.
    set_positions: HashMap<Vec<MailboxUid>, u32>,
    /// The tombstones, in the order of `mails`, with the time of destruction.
    pub(in crate::store) dead: Vec<(UtcMillis, EmailId)>,
    /// Bytes of the live emails.
    pub(in crate::store) bytes: u64,
    /// The number of live emails.
    pub(in crate::store) live: u64,
    /// The mailboxes as they should be, as far as the check has come.
    pub(in crate::store) mailboxes: BTreeMap<MailboxUid, Mailbox>,
    /// 0 if there is none.
    pub(in crate::store) trash: MailboxUid,
    /// 0 if there is none.
    pub(in crate::store) inbox: MailboxUid,
    /// The highest change number in use, as far as the check has come.
    pub(in crate::store) high: u64,
    /// The number of the last change of an email; `newest_thread` and `newest_mailbox` likewise.
    pub(in crate::store) newest_email: ModSeq,
    pub(in crate::store) newest_thread: ModSeq,
    pub(in crate::store) newest_mailbox: ModSeq,
    /// The last change of each small object that has a data type.
    pub(in crate::store) marks: Vec<(DataType, ModSeq)>,
    /// The highest id of a thread in use.
    pub(in crate::store) last_thread: u64,
    /// The highest id of an action that a row names (`Checker::note_action`).
    pub(in crate::store) last_action: u64,
    /// The number of told rows.
    pub(in crate::store) told: u64,
    /// The number of queued actions.
    pub(in crate::store) queued: u64,
    /// The number of token rows.
    pub(in crate::store) unfolded: u64,
    /// Positions in `mails`, grouped by thread; newest first in each thread.
    pub(in crate::store) by_thread: Vec<u32>,
    /// For each email of `mails`, the position of its thread in `threads`.
    pub(in crate::store) thread_of: Vec<u32>,
    /// For each thread, one bit for each filter on threads that it matches (`THREAD_FILTERS`).
    pub(in crate::store) threads: Vec<u8>,
    /// For each mailbox, the positions of its live emails in `mails`, newest first.
    pub(in crate::store) members: BTreeMap<MailboxUid, Vec<u32>>,
    /// The maintained listings of all mail, as they should be.
    pub(in crate::store) listings: Vec<crate::model::MaintainedListing>,
}

impl Census {
    /// Adds an email or a tombstone. Must be called in ascending order of ids: newest first.
    pub(in crate::store) fn add(&mut self, id: EmailId, email: &EmailMetadata) {
        let live = email.destroyed.is_none();
        let bits = [
            (live, LIVE),
            (email.has(keyword::SEEN), SEEN),
            (email.has(keyword::FLAGGED), FLAGGED),
            (email.is_unread(), UNREAD),
        ];
        let bits =
            bits.into_iter().filter(|(applies, _)| *applies).fold(0, |bits, (_, bit)| bits | bit);
        let set: Vec<MailboxUid> = email.mailboxes.iter().copied().collect();
        let mailbox_set = match self.set_positions.get(&set) {
            Some(position) => *position,
            None => {
                let next = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
                self.sets.push(set.clone());
                self.set_positions.insert(set, next);
                next
            }
        };
        match email.destroyed {
            None => {
                self.bytes = self.bytes.saturating_add(email.size);
                self.live = self.live.saturating_add(1);
                let at = u32::try_from(self.mails.len()).unwrap_or(u32::MAX);
                for uid in &email.mailboxes {
                    self.members.entry(*uid).or_default().push(at);
                }
            }
            Some(at) => self.dead.push((at, id)),
        }
        self.newest_email = self.newest_email.max(email.updated);
        self.high = self.high.max(email.updated.0).max(email.created.0);
        self.last_thread = self.last_thread.max(email.thread.0);
        let (created, updated) = (email.created.0, email.updated.0);
        self.mails.push(CensusEmail {
            id,
            thread: email.thread,
            created,
            updated,
            mailbox_set,
            bits,
        });
    }

    /// Returns the email at a position in `mails`.
    pub(in crate::store) fn mail(&self, at: u32) -> Option<CensusEmail> {
        self.mails.get(usize::try_from(at).ok()?).copied()
    }

    pub(in crate::store) fn mailboxes_of(&self, mail: CensusEmail) -> &[MailboxUid] {
        usize::try_from(mail.mailbox_set)
            .ok()
            .and_then(|at| self.sets.get(at))
            .map_or(&[], Vec::as_slice)
    }

    /// Whether there is an email with this id, or its tombstone.
    pub(in crate::store) fn has_email(&self, id: EmailId) -> bool {
        self.mails.binary_search_by_key(&id, |mail| mail.id).is_ok()
    }

    /// Adds a live email to the counters of its thread.
    pub(in crate::store) fn count(&self, mail: CensusEmail, thread: &mut Thread) {
        let has = |bit: u8| mail.bits & bit != 0;
        thread.tally(
            self.mailboxes_of(mail),
            [has(SEEN), has(FLAGGED), has(UNREAD)],
            self.trash,
            true,
        );
    }
}
