//! Recovers emails whose row in `email_metadata` is lost, from their other rows.
//!
//! - An email is lost if its row in `email_metadata` is damaged, or is missing although the email
//!   has a content row, a token row or a row in `email_by_modseq`. It can be recovered if
//!   `blob_refs` says which message it holds.
//! - `$seen` follows from a listing of unseen emails, or from the difference between the counters
//!   of its thread's row and the thread's other emails; `$draft` follows from this difference, and
//!   `$flagged` from listings. Other keywords are lost.
//! - If no row names a mailbox of a live email, it is filed into the Inbox (`existing_mailboxes`).

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    AccountId, BlobHash, EmailId, EmailMetadata, ListingFilter, MailboxUid, MaintainedListing,
    ModSeq, Shape, ThreadId, UtcMillis, keyword,
};
use crate::store::engine::typed::TypedRead as _;
use crate::store::engine::{Table, after};
use crate::store::error::Error;
use crate::store::repair::check::rows::RowCursor;
use crate::store::repair::check::{Checker, RowFix};
use crate::store::row::{BlobRow, RowFormat as _, Thread, content_prefix};
use crate::store::table::codec::{KeyPart as _, Prefix as _};
use crate::store::table::keys::{AccountKey, BlobKey, EmailKey, ThreadIdKey};
use crate::store::table::{
    self, BlobRefs, Blobs, EmailByModseq, EmailByThread, EmailContent, EmailPurge, EmailTokens,
    MailboxEmailIndex, MailboxEmailList, MailboxThreadIndex, Threads, decode_key,
};

/// The lost emails that can be recovered and are not recovered yet. `None` until the check meets
/// the first lost email, for which all are gathered.
#[derive(Debug, Default)]
pub(in crate::store) struct LostEmails(Option<BTreeMap<EmailId, EmailMetadata>>);

/// Cursors over the tables that are keyed by email, and the emails that `email_by_modseq` names.
pub(in crate::store) struct EmailTables<'a> {
    account: AccountId,
    metadata: RowCursor<'a, table::EmailMetadata>,
    contents: RowCursor<'a, EmailContent>,
    tokens: RowCursor<'a, EmailTokens>,
    /// The emails that `email_by_modseq` names and `next` has not reached, in descending order:
    /// `next` takes the last.
    named: Vec<EmailId>,
}

/// The rows of one email; `None` where a row is missing.
pub(in crate::store) struct EmailRows {
    /// The key that all three rows have.
    pub(in crate::store) key: Vec<u8>,
    pub(in crate::store) metadata: Option<Vec<u8>>,
    pub(in crate::store) content: Option<Vec<u8>>,
    pub(in crate::store) tokens: Option<Vec<u8>>,
}

/// What other rows say of a lost email.
#[derive(Debug, Default)]
struct LostEmailTrace {
    /// Bytes of its trace prefix; 0 if its content row is lost.
    prefix: u64,
    /// Its message and the length of the message, which is 0 if the row in `blobs` is lost. `None`
    /// if no reference names the email.
    blob: Option<(BlobHash, u64)>,
    /// `None` if no row tells.
    thread: Option<ThreadId>,
    /// Its last change; `None` if `email_by_modseq` does not name the email.
    updated: Option<ModSeq>,
    /// The first change at which a listing showed it; `None` if none is known to have done so.
    since: Option<ModSeq>,
    /// When it was destroyed; `None` if `email_purge` does not name the email, which then is live.
    destroyed: Option<UtcMillis>,
    /// The mailboxes whose listings show it, or showed it until it was destroyed.
    mailboxes: BTreeSet<MailboxUid>,
    /// Whether a listing of unseen emails shows it, or showed it until it was destroyed.
    unseen: bool,
    /// Whether a listing of flagged emails shows it, or showed it until it was destroyed.
    flagged: bool,
}

/// The difference between the counters of a thread's row and those of its readable emails: what its
/// lost emails count together.
#[derive(Debug, Clone, Copy)]
struct ThreadSurplus {
    unseen: u32,
    unread: u32,
}

type LostEmailTraces = BTreeMap<EmailId, LostEmailTrace>;

impl EmailTables<'_> {
    /// Returns the rows of the email with the next key that any of the tables has or that
    /// `email_by_modseq` names; `None` at the end.
    pub(in crate::store) fn next(&mut self) -> Result<Option<EmailRows>, Error> {
        let account = self.account;
        let key_of = |id: &EmailId| EmailKey { account, email: *id }.encode();
        let mut lowest = self.named.last().map(key_of);
        for rows in [&mut self.metadata.raw, &mut self.contents.raw, &mut self.tokens.raw] {
            if let Some((key, _)) = rows.peek()?
                && lowest.as_ref().is_none_or(|lowest| key < lowest)
            {
                lowest = Some(key.clone());
            }
        }
        let Some(key) = lowest else { return Ok(None) };
        self.named.pop_if(|id| key_of(id) == key);
        let (metadata, content, tokens) =
            (self.metadata.raw.at(&key)?, self.contents.raw.at(&key)?, self.tokens.raw.at(&key)?);
        Ok(Some(EmailRows { key, metadata, content, tokens }))
    }
}

impl EmailRows {
    /// Decodes a row of `email_metadata` under this key.
    pub(in crate::store) fn email(&self, row: &[u8]) -> Result<EmailMetadata, Error> {
        EmailMetadata::from_bytes(Table::EmailMetadata, &self.key, row)
    }

    /// `None` if the key is damaged.
    pub(in crate::store) fn id(&self) -> Option<EmailId> {
        decode_key::<table::EmailMetadata>(&self.key).ok().map(|key| key.email)
    }
}

impl<'a> Checker<'a> {
    /// Begins at the account's first email.
    pub(in crate::store) fn email_tables(&self) -> Result<EmailTables<'a>, Error> {
        let (mut named, mut changes) = (Vec::new(), self.rows::<EmailByModseq>());
        while let Some(found) = changes.next()? {
            named.extend(found.row().ok());
        }
        named.sort_unstable_by(|one, other| other.cmp(one));
        named.dedup();
        Ok(EmailTables {
            account: self.account,
            metadata: self.rows(),
            contents: self.rows(),
            tokens: self.rows(),
            named,
        })
    }

    /// Returns the metadata of a lost email as other rows tell it, and reports `problem` with this
    /// as the fix. `None` if the email cannot be recovered; then reports nothing.
    pub(in crate::store) fn recover_email(
        &mut self,
        id: EmailId,
        problem: &str,
        lost: &mut LostEmails,
    ) -> Result<Option<EmailMetadata>, Error> {
        if lost.0.is_none() {
            lost.0 = Some(self.gather_lost_emails()?);
        }
        let Some(email) = lost.0.as_mut().and_then(|all| all.remove(&id)) else { return Ok(None) };
        let keywords: Vec<&str> = email.keywords.iter().map(String::as_str).collect();
        let what = format!(
            "{problem}: other rows say that it was in {:?}, with the keywords [{}]; others are \
             lost",
            email.mailboxes,
            keywords.join(" ")
        );
        let key = EmailKey { account: self.account, email: id }.encode();
        self.report(Table::EmailMetadata, &key, what, RowFix::Put(email.to_bytes()))?;
        Ok(Some(email))
    }

    /// Finds all lost emails of the account that can be recovered.
    fn gather_lost_emails(&mut self) -> Result<BTreeMap<EmailId, EmailMetadata>, Error> {
        let mut traces = LostEmailTraces::new();
        let mut tables = self.email_tables()?;
        while let Some(rows) = tables.next()? {
            let read = rows.metadata.as_deref().map(|row| rows.email(row));
            if let (Some(id), None | Some(Err(_))) = (rows.id(), read) {
                let prefix =
                    rows.content.as_deref().and_then(content_prefix).unwrap_or_default().len()
                        as u64;
                traces.insert(id, LostEmailTrace { prefix, ..LostEmailTrace::default() });
            }
        }
        self.trace_blobs(&mut traces)?;
        self.trace_orders(&mut traces)?;
        self.trace_listings(&mut traces)?;
        let surpluses = self.thread_surpluses(&traces)?;
        let mut out = BTreeMap::new();
        for (id, trace) in traces {
            let Some((blob, length)) = trace.blob else { continue };
            let thread = match trace.thread {
                Some(thread) => thread,
                None => self.fresh_thread()?,
            };
            let updated = match trace.updated {
                Some(updated) => updated,
                None => self.fresh_modseq(),
            };
            let is_live = trace.destroyed.is_none();
            let surplus = surpluses.get(&thread).copied().flatten().filter(|_| is_live);
            let is_seen = !trace.unseen
                && (self.would_be_listed_if_unseen(&trace, updated)
                    || surplus.is_some_and(|surplus| surplus.unseen == 0));
            // What is neither seen nor a draft counts as unread.
            let is_draft = !is_seen && surplus.is_some_and(|surplus| surplus.unread == 0);
            let keywords = [
                (is_seen, keyword::SEEN),
                (trace.flagged, keyword::FLAGGED),
                (is_draft, keyword::DRAFT),
            ];
            let email = EmailMetadata {
                thread,
                mailboxes: if is_live {
                    self.existing_mailboxes(&trace.mailboxes)
                } else {
                    trace.mailboxes
                },
                keywords: keywords
                    .into_iter()
                    .filter(|(has, _)| *has)
                    .map(|(_, keyword)| keyword.to_owned())
                    .collect(),
                received_at: id.received_at(),
                blob,
                size: trace.prefix.saturating_add(length),
                created: trace.since.map_or(updated, |since| since.min(updated)),
                updated,
                destroyed: trace.destroyed,
            };
            out.insert(id, email);
        }
        Ok(out)
    }

    /// Finds the messages of the emails, by a scan of all of `blob_refs`. If several rows name one
    /// email, a message that exists is preferred. Drops the emails that no row names.
    fn trace_blobs(&self, traces: &mut LostEmailTraces) -> Result<(), Error> {
        let mut rows = RowCursor::<BlobRefs>::of_table(self.read, self.run);
        while let Some(found) = rows.next()? {
            let Some(key) = found.id().filter(|key| key.account == self.account) else { continue };
            let Some(trace) = traces.get_mut(&key.email) else { continue };
            let length =
                self.read.row_with::<Blobs, _>(&BlobKey { blob: key.blob }, |key, row| {
                    Ok(BlobRow::decode(key, row).ok().map(|blob| blob.bytes.len()))
                })?;
            let length = length.flatten();
            if length.is_some() || trace.blob.is_none() {
                trace.blob = Some((key.blob, length.unwrap_or_default()));
            }
        }
        traces.retain(|_, trace| trace.blob.is_some());
        Ok(())
    }

    /// Finds the last change of each email, the thread of a live one, and when a destroyed one was
    /// destroyed, in the tables that order emails by these.
    fn trace_orders(&self, traces: &mut LostEmailTraces) -> Result<(), Error> {
        let mut rows = self.rows::<EmailByModseq>();
        while let Some(found) = rows.next()? {
            let (Some(key), Ok(id)) = (found.id(), found.row()) else { continue };
            if let Some(trace) = traces.get_mut(&id) {
                trace.updated = trace.updated.max(Some(key.modseq));
            }
        }
        let mut rows = self.rows::<EmailByThread>();
        while let Some(found) = rows.next()? {
            let Some(key) = found.id() else { continue };
            if let Some(trace) = traces.get_mut(&key.email) {
                trace.thread = Some(key.thread);
            }
        }
        let mut rows = self.rows::<EmailPurge>();
        while let Some(found) = rows.next()? {
            let Some(key) = found.id() else { continue };
            if let Some(trace) = traces.get_mut(&key.email) {
                trace.destroyed = Some(key.at.into());
            }
        }
        Ok(())
    }

    /// Reads the listings: for a live email those that show it, for a destroyed one those from
    /// which its destruction removed it. A listing that is being dropped no longer follows changes:
    /// of what it shows, only the thread is read.
    fn trace_listings(&self, traces: &mut LostEmailTraces) -> Result<(), Error> {
        let dropped = self.dropped_listings();
        let mut rows = self.rows::<MailboxEmailIndex>();
        while let Some(found) = rows.next()? {
            let (Some(key), Ok((added, thread))) = (found.id(), found.row()) else { continue };
            let Some(trace) = traces.get_mut(&key.email) else { continue };
            trace.thread.get_or_insert(thread);
            // In a collapsed listing, `added` may be the change of another email.
            if key.listing.shape == Shape::Emails
                && !dropped.contains(&(key.listing.uid, key.listing.filter))
            {
                trace.note_listed(key.listing.uid, key.listing.filter, added);
            }
        }
        let mut rows = self.rows::<MailboxThreadIndex>();
        while let Some(found) = rows.next()? {
            let Some(key) = found.id() else { continue };
            let Some(trace) = traces.get_mut(&key.email) else { continue };
            trace.thread.get_or_insert(key.thread);
            if !dropped.contains(&(key.mailbox, key.filter)) {
                trace.note_filter(key.mailbox, key.filter);
            }
        }
        let mut rows = self.rows::<MailboxEmailList>();
        while let Some(found) = rows.next()? {
            let (Some(key), Ok((id, thread))) = (found.id(), found.row()) else { continue };
            let Some(trace) = traces.get_mut(&id) else { continue };
            trace.thread.get_or_insert(thread);
            if key.listing.shape == Shape::Emails {
                trace.since = Some(trace.since.map_or(key.added, |since| since.min(key.added)));
                if trace.destroyed.is_some() && trace.updated == Some(key.removed) {
                    trace.note_filter(key.listing.uid, key.listing.filter);
                }
            }
        }
        Ok(())
    }

    /// Returns the listings that are being dropped: those without a frontier.
    fn dropped_listings(&self) -> BTreeSet<(MailboxUid, ListingFilter)> {
        let state = self.state_or_fresh();
        let of_mailboxes = self.census.mailboxes.iter().map(|(uid, row)| (*uid, &row.listings));
        let mut dropped = BTreeSet::new();
        for (uid, listings) in of_mailboxes.chain([(MailboxUid::ALL, &state.listings)]) {
            let no_longer_follow = listings.iter().filter(|entry| entry.frontier().is_none());
            dropped.extend(no_longer_follow.map(|entry| (uid, entry.filter)));
        }
        dropped
    }

    /// Returns the surplus of each thread with a live lost email. It is `None` if the thread's row
    /// cannot be read, or does not count exactly the lost emails besides the others.
    fn thread_surpluses(
        &self,
        traces: &LostEmailTraces,
    ) -> Result<BTreeMap<ThreadId, Option<ThreadSurplus>>, Error> {
        let mut lost: BTreeMap<ThreadId, u32> = BTreeMap::new();
        for thread in traces
            .values()
            .filter(|trace| trace.destroyed.is_none())
            .filter_map(|trace| trace.thread)
        {
            *lost.entry(thread).or_default() += 1;
        }
        let mut out = BTreeMap::new();
        for (id, lost) in lost {
            let mut readable = Thread::default();
            let mut rows =
                RowCursor::<EmailByThread>::under(self.read, self.run, &(self.account, id));
            while let Some(found) = rows.next()? {
                let Some(key) = found.id() else { continue };
                let key = EmailKey { account: self.account, email: key.email };
                if let Some(email) = self.readable::<table::EmailMetadata>(&key)? {
                    readable.count(&email, self.census.trash, true);
                }
            }
            let row =
                self.readable::<Threads>(&ThreadIdKey { account: self.account, thread: id })?;
            let row = row
                .filter(|row| !row.destroyed && row.emails == readable.emails.saturating_add(lost));
            let surplus = row.map(|row| ThreadSurplus {
                unseen: row.unseen.saturating_sub(readable.unseen),
                unread: row
                    .unread_outside_trash
                    .saturating_sub(readable.unread_outside_trash)
                    .saturating_add(row.unread_in_trash.saturating_sub(readable.unread_in_trash)),
            });
            out.insert(id, surplus);
        }
        Ok(out)
    }

    /// Whether a complete listing of unseen emails would show the email if it were unseen. For a
    /// destroyed email: whether the history of such a listing would still show its removal.
    fn would_be_listed_if_unseen(&self, trace: &LostEmailTrace, updated: ModSeq) -> bool {
        let has_listing = |listings: &[MaintainedListing]| {
            listings
                .iter()
                .filter(|entry| entry.filter == ListingFilter::Unseen && entry.is_complete())
                .any(|entry| trace.destroyed.is_none() || entry.emails.low < updated)
        };
        let of_mailbox = |uid: &MailboxUid| {
            self.census.mailboxes.get(uid).is_some_and(|row| has_listing(&row.listings))
        };
        trace.mailboxes.iter().any(of_mailbox) || has_listing(&self.state_or_fresh().listings)
    }

    /// Returns an id above those of all threads that the account is known to have had.
    fn fresh_thread(&mut self) -> Result<ThreadId, Error> {
        let own = AccountKey { account: self.account }.encode();
        let mut last = self.state_or_fresh().last_thread.max(self.census.last_thread);
        for table in [Table::Threads, Table::EmailByThread] {
            self.read.scan(table, &own, &after(&own), true, &mut |key, _| {
                // What follows in the key may be damaged.
                last = last.max(ThreadIdKey::read(&mut { key }).map_or(0, |key| key.thread.0));
                Ok(false)
            })?;
        }
        self.census.last_thread = last.saturating_add(1);
        Ok(ThreadId(self.census.last_thread))
    }
}

impl LostEmailTrace {
    /// Notes that a listing of a filter shows the email since the change `added`.
    fn note_listed(&mut self, uid: MailboxUid, filter: ListingFilter, added: ModSeq) {
        self.since = Some(self.since.map_or(added, |since| since.min(added)));
        self.note_filter(uid, filter);
    }

    /// Notes what follows if a listing of a filter shows the email.
    fn note_filter(&mut self, uid: MailboxUid, filter: ListingFilter) {
        match filter {
            ListingFilter::Every if uid != MailboxUid::ALL => drop(self.mailboxes.insert(uid)),
            ListingFilter::Unseen => self.unseen = true,
            ListingFilter::Flagged => self.flagged = true,
            _ => {}
        }
    }
}
