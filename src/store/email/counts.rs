//! Updates the counts of a mailbox (RFC 8621 §2) after a change of one email.

use crate::model::{DataType, EmailMetadata, Mailbox, MailboxUid};
use crate::store::listing::write::EmailChange;
use crate::store::row::Thread;
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Updates the counts of the mailbox `uid` after a change of one email. The mailbox's modseq
    /// moves only if a count does. The caller stores `mailbox`.
    pub(in crate::store) fn write_counts(
        &mut self,
        uid: MailboxUid,
        mailbox: &mut Mailbox,
        change: &EmailChange<'_>,
    ) {
        let trash = self.state.trash;
        let counted = |thread: &Thread, email: Option<&EmailMetadata>| {
            let here = email.filter(|email| email.mailboxes.contains(&uid));
            [
                here.is_some(),
                here.is_some_and(EmailMetadata::is_unread),
                thread.members.contains_key(&uid),
                thread.unread_in(uid, trash),
            ]
        };
        self.move_counts(mailbox, counted(change.was, change.old), counted(change.now, change.new));
    }

    /// Updates the counts of emails, unread emails, threads and unread threads, in this order.
    /// `was` and `now` say whether an email and its thread counted in each before and after the
    /// change. The caller has taken a modseq, and stores `mailbox`.
    pub(in crate::store) fn move_counts(
        &mut self,
        mailbox: &mut Mailbox,
        was: [bool; 4],
        now: [bool; 4],
    ) {
        if was == now {
            return;
        }
        let counts = &mut mailbox.counts;
        let totals = [
            &mut counts.total_emails,
            &mut counts.unread_emails,
            &mut counts.total_threads,
            &mut counts.unread_threads,
        ];
        for (total, (was, now)) in totals.into_iter().zip(was.into_iter().zip(now)) {
            *total = (*total + u64::from(now)).saturating_sub(u64::from(was));
        }
        mailbox.updated = self.state.modseq;
        self.touch(DataType::Mailbox);
        self.touch(DataType::MailboxCounts);
    }
}
