//! The rows of emails and threads.

use std::collections::{BTreeMap, BTreeSet};

use super::{FieldReader, FieldWriter, Row, RowError};
use crate::model::{
    BlobHash, EmailId, EmailMetadata, ListingFilter, MailboxUid, ModSeq, ThreadId, UtcMillis,
    keyword,
};
use crate::store::engine::Table;

/// Frequent keywords, which are written as their position in this list, counted from 1. New ones
/// may only be added at the end.
const COMMON_KEYWORDS: [&str; 8] = [
    keyword::SEEN,
    keyword::FLAGGED,
    keyword::DRAFT,
    "$answered",
    "$forwarded",
    keyword::JUNK,
    "$notjunk",
    "$phishing",
];

impl Row for EmailMetadata {
    const TABLE: Table = Table::EmailMetadata;

    fn write(&self, out: &mut FieldWriter) {
        out.num(self.thread.0);
        out.list(self.mailboxes.iter(), |out, uid| out.num(uid.0));
        out.list(self.keywords.iter(), |out, word| {
            match COMMON_KEYWORDS
                .iter()
                .position(|common| common == word)
                .and_then(|at| u64::try_from(at).ok())
            {
                Some(at) => out.num(at.saturating_add(1)),
                None => {
                    out.num(0u8);
                    out.text(word);
                }
            }
        });
        out.signed(self.received_at.0);
        out.fixed(&self.blob.0);
        out.num(self.size);
        out.num(self.created.0);
        out.num(self.updated.0);
        out.option(self.destroyed.as_ref(), |out, at| out.signed(at.0));
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        Ok(Self {
            thread: ThreadId(input.num()?),
            mailboxes: input.list(|input| Ok(MailboxUid(input.num32()?)))?,
            keywords: input.list::<_, BTreeSet<String>>(|input| match input.num()? {
                0 => input.text(),
                at => usize::try_from(at.saturating_sub(1))
                    .ok()
                    .and_then(|at| COMMON_KEYWORDS.get(at))
                    .map(|word| (*word).to_owned())
                    .ok_or(RowError("unknown keyword number")),
            })?,
            received_at: UtcMillis(input.signed()?),
            blob: BlobHash(input.fixed()?),
            size: input.num()?,
            created: ModSeq(input.num()?),
            updated: ModSeq(input.num()?),
            destroyed: input.option(|input| Ok(UtcMillis(input.signed()?)))?,
        })
    }
}

/// The counters of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Thread {
    pub created: ModSeq,
    /// The last change that added or removed an email.
    pub updated: ModSeq,
    /// Whether the thread lost its last email. The row stays as a tombstone.
    pub destroyed: bool,
    /// The number of emails that are not destroyed. The counters below count only these, too.
    pub emails: u32,
    pub unseen: u32,
    pub flagged: u32,
    /// Unread emails (`EmailMetadata::is_unread`) that are not only in the Trash.
    pub unread_outside_trash: u32,
    /// Unread emails in the Trash, whether or not they are in other mailboxes.
    pub unread_in_trash: u32,
    /// The number of emails in each mailbox. A mailbox without any has no entry.
    pub members: BTreeMap<MailboxUid, u32>,
    /// The newest email; meaningless if the thread is destroyed.
    pub latest: EmailId,
}

impl Thread {
    /// Adds an email to the counters and `members`, or subtracts it. `trash` is 0 if there is none.
    /// Changes no other field.
    pub(in crate::store) fn count(&mut self, email: &EmailMetadata, trash: MailboxUid, add: bool) {
        let boxes: smallvec::SmallVec<[MailboxUid; 4]> = email.mailboxes.iter().copied().collect();
        let flags = [email.has(keyword::SEEN), email.has(keyword::FLAGGED), email.is_unread()];
        self.tally(&boxes, flags, trash, add);
    }

    /// Does as `count` for an email with these mailboxes, each once, and these flags.
    pub(in crate::store) fn tally(
        &mut self,
        boxes: &[MailboxUid],
        [seen, flagged, unread]: [bool; 3],
        trash: MailboxUid,
        add: bool,
    ) {
        let shift = |total: &mut u32, applies: bool| {
            let by = u32::from(applies);
            *total = if add { total.saturating_add(by) } else { total.saturating_sub(by) };
        };
        for uid in boxes {
            let count = self.members.entry(*uid).or_default();
            shift(count, true);
            if *count == 0 {
                self.members.remove(uid);
            }
        }
        let in_trash = trash.0 != 0 && boxes.contains(&trash);
        let only_in_trash = in_trash && boxes.len() == 1;
        shift(&mut self.emails, true);
        shift(&mut self.unseen, !seen);
        shift(&mut self.flagged, flagged);
        shift(&mut self.unread_outside_trash, unread && !only_in_trash);
        shift(&mut self.unread_in_trash, unread && in_trash);
    }

    /// Whether the thread matches a listing filter on threads; `false` for a filter on emails.
    #[must_use]
    pub fn shows(&self, filter: ListingFilter) -> bool {
        self.emails > 0
            && match filter {
                ListingFilter::ThreadUnseen => self.unseen > 0,
                ListingFilter::ThreadFlagged => self.flagged > 0,
                ListingFilter::ThreadUntouched => self.unseen == self.emails,
                ListingFilter::Every | ListingFilter::Unseen | ListingFilter::Flagged => false,
            }
    }

    /// The newest email, if the thread has any.
    #[must_use]
    pub fn newest(&self) -> Option<EmailId> {
        (self.emails > 0).then_some(self.latest)
    }

    /// Whether the thread counts as unread in this mailbox (RFC 8621 §2, unreadThreads).
    #[must_use]
    pub fn unread_in(&self, uid: MailboxUid, trash: MailboxUid) -> bool {
        let unread = if uid == trash { self.unread_in_trash } else { self.unread_outside_trash };
        self.members.contains_key(&uid) && unread > 0
    }
}

impl Row for Thread {
    const TABLE: Table = Table::Threads;

    fn write(&self, out: &mut FieldWriter) {
        out.num(self.created.0);
        out.num(self.updated.0);
        out.bool(self.destroyed);
        for total in [
            self.emails,
            self.unseen,
            self.flagged,
            self.unread_outside_trash,
            self.unread_in_trash,
        ] {
            out.num(total);
        }
        out.list(self.members.iter(), |out, (uid, count)| {
            out.num(uid.0);
            out.num(*count);
        });
        out.fixed(&self.latest.0.to_be_bytes());
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        Ok(Self {
            created: ModSeq(input.num()?),
            updated: ModSeq(input.num()?),
            destroyed: input.bool()?,
            emails: input.num32()?,
            unseen: input.num32()?,
            flagged: input.num32()?,
            unread_outside_trash: input.num32()?,
            unread_in_trash: input.num32()?,
            members: input.list(|input| Ok((MailboxUid(input.num32()?), input.num32()?)))?,
            latest: EmailId(u64::from_be_bytes(input.fixed()?)),
        })
    }
}
