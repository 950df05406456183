//! What decides every derived row of an account, small: some 40 octets an email, and its mailboxes.

use std::collections::{BTreeMap, HashMap};

use crate::model::{
    DataType, EmailId, EmailMetadata, ListingFilter, Mailbox, MailboxUid, ModSeq, ThreadId,
    UtcMillis, keyword,
};
use crate::store::row::Thread;

/// An email, as far as lists and counts hang on it.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct CensusEmail {
    pub(in crate::store) id: EmailId,
    pub(in crate::store) thread: ThreadId,
    pub(in crate::store) created: u64,
    pub(in crate::store) updated: u64,
    /// Which of the sets of mailboxes it is in.
    boxes: u32,
    marks: u8,
}

const LIVE: u8 = 1;
const SEEN: u8 = 2;
const FLAGGED: u8 = 4;
const UNREAD: u8 = 8;

impl CensusEmail {
    pub(in crate::store) fn is_live(self) -> bool {
        self.marks & LIVE != 0
    }

    pub(in crate::store) fn is_unread(self) -> bool {
        self.marks & UNREAD != 0
    }

    /// Whether, by itself, it matches an email view of a mailbox that it is in.
    pub(in crate::store) fn shows(self, filter: ListingFilter) -> bool {
        self.is_live()
            && match filter {
                ListingFilter::Every => true,
                ListingFilter::Unseen => self.marks & SEEN == 0,
                ListingFilter::Flagged => self.marks & FLAGGED != 0,
                ListingFilter::ThreadUnseen
                | ListingFilter::ThreadFlagged
                | ListingFilter::ThreadUntouched => false,
            }
    }
}

/// An account in short.
#[derive(Debug, Default)]
pub(in crate::store) struct Census {
    /// All emails that can be read, tombstones among them, newest first.
    pub(in crate::store) mails: Vec<CensusEmail>,
    sets: Vec<Vec<MailboxUid>>,
    known: HashMap<Vec<MailboxUid>, u32>,
    /// Tombstones by time.
    pub(in crate::store) dead: Vec<(UtcMillis, EmailId)>,
    /// Octets of live emails.
    pub(in crate::store) octets: u64,
    /// Live emails.
    pub(in crate::store) live: u64,
    /// The mailboxes, as they should be as far as is known.
    pub(in crate::store) mailboxes: BTreeMap<MailboxUid, Mailbox>,
    pub(in crate::store) trash: MailboxUid,
    pub(in crate::store) inbox: MailboxUid,
    /// The highest change number in use.
    pub(in crate::store) high: u64,
    /// The highest of emails, threads and mailboxes.
    pub(in crate::store) newest: [u64; 3],
    /// Changes of other types.
    pub(in crate::store) marks: Vec<(DataType, ModSeq)>,
    pub(in crate::store) last_thread: u64,
    pub(in crate::store) last_action: u64,
    pub(in crate::store) told: u64,
    /// Actions.
    pub(in crate::store) queued: u64,
    /// Token rows.
    pub(in crate::store) unfolded: u64,
    /// Positions in `mails`, by thread, newest first in each.
    pub(in crate::store) by_thread: Vec<u32>,
    /// Of each email in `mails`, which thread of `threads` it is in.
    pub(in crate::store) thread_of: Vec<u32>,
    /// Of each thread, in which thread views it is, a bit each.
    pub(in crate::store) threads: Vec<u8>,
    /// Of each live mailbox and email, positions in `mails`, newest first.
    pub(in crate::store) members: BTreeMap<MailboxUid, Vec<u32>>,
    /// What the views of all mail hold.
    pub(in crate::store) listings: Vec<crate::model::MaintainedListing>,
}

impl Census {
    /// The next email, in the order of ids.
    pub(in crate::store) fn add(&mut self, id: EmailId, email: &EmailMetadata) {
        let live = email.deleted.is_none();
        let marks = [
            (live, LIVE),
            (email.has(keyword::SEEN), SEEN),
            (email.has(keyword::FLAGGED), FLAGGED),
            (email.is_unread(), UNREAD),
        ];
        let marks = marks
            .into_iter()
            .filter(|(applies, _)| *applies)
            .fold(0, |marks, (_, mark)| marks | mark);
        let set: Vec<MailboxUid> = email.mailboxes.iter().copied().collect();
        let boxes = match self.known.get(&set) {
            Some(known) => *known,
            None => {
                let next = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
                self.sets.push(set.clone());
                self.known.insert(set, next);
                next
            }
        };
        match email.deleted {
            None => {
                self.octets = self.octets.saturating_add(email.size);
                self.live = self.live.saturating_add(1);
                let at = u32::try_from(self.mails.len()).unwrap_or(u32::MAX);
                for uid in &email.mailboxes {
                    self.members.entry(*uid).or_default().push(at);
                }
            }
            Some(at) => self.dead.push((at, id)),
        }
        self.newest[0] = self.newest[0].max(email.updated.0);
        self.high = self.high.max(email.updated.0).max(email.created.0);
        self.last_thread = self.last_thread.max(email.thread.0);
        let (created, updated) = (email.created.0, email.updated.0);
        self.mails.push(CensusEmail { id, thread: email.thread, created, updated, boxes, marks });
    }

    pub(in crate::store) fn mail(&self, at: u32) -> Option<CensusEmail> {
        self.mails.get(usize::try_from(at).ok()?).copied()
    }

    pub(in crate::store) fn boxes(&self, mail: CensusEmail) -> &[MailboxUid] {
        usize::try_from(mail.boxes).ok().and_then(|at| self.sets.get(at)).map_or(&[], Vec::as_slice)
    }

    pub(in crate::store) fn knows(&self, id: EmailId) -> bool {
        self.mails.binary_search_by_key(&id, |mail| mail.id).is_ok()
    }

    /// Adds a live email to the counters of its thread.
    pub(in crate::store) fn count(&self, mail: CensusEmail, thread: &mut Thread) {
        let has = |mark: u8| mail.marks & mark != 0;
        thread.tally(self.boxes(mail), [has(SEEN), has(FLAGGED), has(UNREAD)], self.trash, true);
    }
}
