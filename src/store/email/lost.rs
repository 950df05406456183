//! Emails whose own row is lost, as far as other rows still tell of them.
//!
//! An email is known to be lost by its content, its tokens or its place in `email_by_modseq`, which
//! go only with it, or by its own row where that cannot be read. It comes back where a reference
//! says which message it holds (`blob_refs`), and is left as it is where none does. What it was is
//! read from what stands beside it: its last change from `email_by_modseq`, that it was destroyed
//! from `email_purge`, its thread from `email_by_thread`, its mailboxes, since when it is there and
//! `$flagged` from the listings, its size from message and prefix, `receivedAt` from its id.
//! `$seen` and `$draft` are what its thread's row counts beyond the thread's other emails, or what
//! a kept listing of the unseen shows.
//!
//! No row has any other keyword, nor `$draft` of what is seen; where several emails of a thread are
//! lost its counters may leave open which were seen: then none is. Where no row says in which
//! mailbox it was, as of a destroyed one whose history was purged, it is filed into the Inbox.

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

/// The emails that are lost and come back; gathered when the first is met.
#[derive(Debug, Default)]
pub(in crate::store) struct LostEmails(Option<BTreeMap<EmailId, EmailMetadata>>);

/// The three tables that are keyed by email alone, side by side, with the emails that the order of
/// changes names.
pub(in crate::store) struct EmailTables<'a> {
    account: AccountId,
    metadata: RowCursor<'a, table::EmailMetadata>,
    contents: RowCursor<'a, EmailContent>,
    tokens: RowCursor<'a, EmailTokens>,
    /// The first is the last in the order of keys.
    named: Vec<EmailId>,
}

/// What stands in them under one key.
pub(in crate::store) struct EmailRows {
    pub(in crate::store) key: Vec<u8>,
    pub(in crate::store) metadata: Option<Vec<u8>>,
    pub(in crate::store) content: Option<Vec<u8>>,
    pub(in crate::store) tokens: Option<Vec<u8>>,
}

/// What other rows say of a lost email.
#[derive(Debug, Default)]
struct LostEmailTrace {
    prefix: u64,
    /// Its message, and how long that is.
    blob: Option<(BlobHash, u64)>,
    thread: Option<ThreadId>,
    updated: Option<ModSeq>,
    /// The first change by which any list showed it.
    since: Option<ModSeq>,
    destroyed: Option<UtcMillis>,
    mailboxes: BTreeSet<MailboxUid>,
    unseen: bool,
    flagged: bool,
}

/// What a thread's row counts beyond the emails that can be read.
#[derive(Debug, Clone, Copy)]
struct ThreadSurplus {
    unseen: u32,
    unread: u32,
}

type LostEmailTraces = BTreeMap<EmailId, LostEmailTrace>;

impl EmailTables<'_> {
    /// What stands under the next key.
    pub(in crate::store) fn next(&mut self) -> Result<Option<EmailRows>, Error> {
        let account = self.account;
        let key_of = |id: &EmailId| EmailKey { account, email: *id }.encode();
        let mut least = self.named.last().map(key_of);
        for rows in [&mut self.metadata.raw, &mut self.contents.raw, &mut self.tokens.raw] {
            if let Some((key, _)) = rows.peek()?
                && least.as_ref().is_none_or(|least| key < least)
            {
                least = Some(key.clone());
            }
        }
        let Some(key) = least else { return Ok(None) };
        self.named.pop_if(|id| key_of(id) == key);
        let (metadata, content, tokens) =
            (self.metadata.raw.at(&key)?, self.contents.raw.at(&key)?, self.tokens.raw.at(&key)?);
        Ok(Some(EmailRows { key, metadata, content, tokens }))
    }
}

impl EmailRows {
    /// What a row of `email_metadata` that stands there says.
    pub(in crate::store) fn email(&self, row: &[u8]) -> Result<EmailMetadata, Error> {
        EmailMetadata::from_bytes(Table::EmailMetadata, &self.key, row)
    }

    /// Which email it is of.
    pub(in crate::store) fn id(&self) -> Option<EmailId> {
        decode_key::<table::EmailMetadata>(&self.key).ok().map(|key| key.email)
    }
}

impl<'a> Checker<'a> {
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

    /// A lost email as it comes back, if it does; its row is said to be wrong.
    pub(in crate::store) fn recover_email(
        &mut self,
        id: EmailId,
        wrong: &str,
        lost: &mut LostEmails,
    ) -> Result<Option<EmailMetadata>, Error> {
        if lost.0.is_none() {
            lost.0 = Some(self.gather_lost_emails()?);
        }
        let Some(email) = lost.0.as_mut().and_then(|all| all.remove(&id)) else { return Ok(None) };
        let words: Vec<&str> = email.keywords.iter().map(String::as_str).collect();
        let what = format!(
            "{wrong}: by what other rows say it was in {:?}, with [{}] and no other keyword",
            email.mailboxes,
            words.join(" ")
        );
        let key = EmailKey { account: self.account, email: id }.encode();
        self.report(Table::EmailMetadata, &key, what, RowFix::Put(email.to_bytes()))?;
        Ok(Some(email))
    }

    fn gather_lost_emails(&mut self) -> Result<BTreeMap<EmailId, EmailMetadata>, Error> {
        let mut traces = LostEmailTraces::new();
        let mut beside = self.email_tables()?;
        while let Some(stands) = beside.next()? {
            let read = stands.metadata.as_deref().map(|row| stands.email(row));
            if let (Some(id), None | Some(Err(_))) = (stands.id(), read) {
                let prefix =
                    stands.content.as_deref().and_then(content_prefix).unwrap_or_default().len()
                        as u64;
                traces.insert(id, LostEmailTrace { prefix, ..LostEmailTrace::default() });
            }
        }
        self.trace_blobs(&mut traces)?;
        self.trace_orders(&mut traces)?;
        self.trace_listings(&mut traces)?;
        let beyond = self.thread_surpluses(&traces)?;
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
            let left = beyond.get(&thread).copied().flatten().filter(|_| is_live);
            let is_seen = !trace.unseen
                && (self.is_seen(&trace, updated) || left.is_some_and(|left| left.unseen == 0));
            let is_draft = !is_seen && left.is_some_and(|left| left.unread == 0);
            let words = [
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
                keywords: words
                    .into_iter()
                    .filter(|(has, _)| *has)
                    .map(|(_, word)| word.to_owned())
                    .collect(),
                received_at: id.received_at(),
                blob,
                size: trace.prefix.saturating_add(length),
                created: trace.since.map_or(updated, |since| since.min(updated)),
                updated,
                deleted: trace.destroyed,
            };
            out.insert(id, email);
        }
        Ok(out)
    }

    /// Which messages they hold: by a walk over all references, for these are ordered by message.
    /// Those that hold none are let go.
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

    /// What the orders of emails say: by change, by thread, by the time of their end.
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

    /// What listings say: of a live email those that show it, of a destroyed one those that it left
    /// by its end.
    fn trace_listings(&self, traces: &mut LostEmailTraces) -> Result<(), Error> {
        let mut rows = self.rows::<MailboxEmailIndex>();
        while let Some(found) = rows.next()? {
            let (Some(key), Ok((added, thread))) = (found.id(), found.row()) else { continue };
            let Some(trace) = traces.get_mut(&key.email) else { continue };
            trace.thread.get_or_insert(thread);
            // A collapsed list shows it since a change that may be another email's.
            if key.listing.shape == Shape::Emails {
                trace.note_listed(key.listing.uid, key.listing.filter, added);
            }
        }
        let mut rows = self.rows::<MailboxThreadIndex>();
        while let Some(found) = rows.next()? {
            let Some(key) = found.id() else { continue };
            let Some(trace) = traces.get_mut(&key.email) else { continue };
            trace.thread.get_or_insert(key.thread);
            trace.note_filter(key.mailbox, key.filter);
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

    /// Of each thread of a live lost email, what its row counts beyond the others; nothing where it
    /// does not add up.
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
            let mut known = Thread::default();
            let mut rows =
                RowCursor::<EmailByThread>::under(self.read, self.run, &(self.account, id));
            while let Some(found) = rows.next()? {
                let Some(key) = found.id() else { continue };
                let key = EmailKey { account: self.account, email: key.email };
                if let Some(email) = self.readable::<table::EmailMetadata>(&key)? {
                    known.count(&email, self.census.trash, true);
                }
            }
            let row =
                self.readable::<Threads>(&ThreadIdKey { account: self.account, thread: id })?;
            let row =
                row.filter(|row| !row.deleted && row.emails == known.emails.saturating_add(lost));
            let beyond = row.map(|row| ThreadSurplus {
                unseen: row.unseen.saturating_sub(known.unseen),
                unread: row
                    .unread_outside_trash
                    .saturating_sub(known.unread_outside_trash)
                    .saturating_add(row.unread_in_trash.saturating_sub(known.unread_in_trash)),
            });
            out.insert(id, beyond);
        }
        Ok(out)
    }

    /// Whether a kept listing of the unseen would have shown it, were it unseen.
    fn is_seen(&self, trace: &LostEmailTrace, updated: ModSeq) -> bool {
        let tells = |listings: &[MaintainedListing]| {
            listings
                .iter()
                .filter(|entry| entry.filter == ListingFilter::Unseen && entry.is_complete())
                .any(|entry| trace.destroyed.is_none() || entry.emails.low < updated)
        };
        let of = |uid: &MailboxUid| {
            self.census.mailboxes.get(uid).is_some_and(|row| tells(&row.listings))
        };
        trace.mailboxes.iter().any(of) || tells(&self.state_or_fresh().listings)
    }

    /// Returns the id of a new thread, above every one that a row still names.
    fn fresh_thread(&mut self) -> Result<ThreadId, Error> {
        let own = AccountKey { account: self.account }.encode();
        let mut last = self.state_or_fresh().last_thread.max(self.census.last_thread);
        // Of a thread its own row may be lost, and of a dead one it is all that is left. The other
        // tables that name threads are sorted by something else first, and would have to be read
        // whole.
        for table in [Table::Threads, Table::EmailByThread] {
            self.read.scan(table, &own, &after(&own), true, &mut |key, _| {
                // The keys of both tables begin as those of threads do, and what follows may be
                // damaged.
                last = last.max(ThreadIdKey::read(&mut { key }).map_or(0, |key| key.thread.0));
                Ok(false)
            })?;
        }
        self.census.last_thread = last.saturating_add(1);
        Ok(ThreadId(self.census.last_thread))
    }
}

impl LostEmailTrace {
    fn note_listed(&mut self, uid: MailboxUid, filter: ListingFilter, added: ModSeq) {
        self.since = Some(self.since.map_or(added, |since| since.min(added)));
        self.note_filter(uid, filter);
    }

    fn note_filter(&mut self, uid: MailboxUid, filter: ListingFilter) {
        match filter {
            ListingFilter::Every if uid != MailboxUid::ALL => drop(self.mailboxes.insert(uid)),
            ListingFilter::Unseen => self.unseen = true,
            ListingFilter::Flagged => self.flagged = true,
            _ => {}
        }
    }
}
