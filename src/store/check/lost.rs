//! Emails whose own row is lost, as far as other rows still tell of them.
//!
//! An email is known to be lost by its content, its tokens or its place in `email_by_modseq`, which go only with it, or by
//! its own row where that cannot be read. It comes back where a reference says which message it holds (`blob_refs`), and is left as it is where none does.
//! What it was is read from what stands beside it: its last change from `email_by_modseq`, that it was destroyed from
//! `email_purge`, its thread from `email_by_thread`, its mailboxes, since when it is there and `$flagged` from the listings,
//! its size from message and prefix, `receivedAt` from its id. `$seen` and `$draft` are what its thread's row counts beyond
//! the thread's other emails, or what a kept listing of the unseen shows.
//!
//! No row has any other keyword, nor `$draft` of what is seen; where several emails of a thread are lost its counters may
//! leave open which were seen: then none is. Where no row says in which mailbox it was, as of a destroyed one whose history
//! was purged, it is filed into the Inbox.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::Rows;
use super::{Checker, Mend};
use crate::model::{
    AccountId, BlobHash, EmailId, EmailMetadata, Kept, MailboxUid, ModSeq, Shape, ThreadId, UtcMillis, View, keyword,
};
use crate::store::engine::{Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Blob, Row, Thread, content_prefix, decode_index, decode_list};

/// The emails that are lost and come back; gathered when the first is met.
#[derive(Debug, Default)]
pub(super) struct Lost(Option<BTreeMap<EmailId, EmailMetadata>>);

/// The three tables that are keyed by email alone, side by side, with the emails that the order of changes names.
pub(super) struct Beside<'a> {
    account: AccountId,
    metadata: Rows<'a>,
    contents: Rows<'a>,
    tokens: Rows<'a>,
    /// The first is the last in the order of keys.
    named: Vec<EmailId>,
}

/// What stands in them under one key.
pub(super) struct Stands {
    pub(super) key: Vec<u8>,
    pub(super) metadata: Option<Vec<u8>>,
    pub(super) content: Option<Vec<u8>>,
    pub(super) tokens: Option<Vec<u8>>,
}

/// What other rows say of a lost email.
#[derive(Debug, Default)]
struct Trace {
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
struct Beyond {
    unseen: u32,
    unread: u32,
}

type Traces = BTreeMap<EmailId, Trace>;

impl Beside<'_> {
    /// What stands under the next key.
    pub(super) fn next(&mut self) -> Result<Option<Stands>, Error> {
        let mut least = self.named.last().map(|id| key::email(self.account, *id));
        for rows in [&mut self.metadata, &mut self.contents, &mut self.tokens] {
            if let Some((key, _)) = rows.peek()?
                && least.as_ref().is_none_or(|least| key < least)
            {
                least = Some(key.clone());
            }
        }
        let Some(key) = least else { return Ok(None) };
        self.named.pop_if(|id| key::email(self.account, *id) == key);
        let (metadata, content, tokens) = (self.metadata.at(&key)?, self.contents.at(&key)?, self.tokens.at(&key)?);
        Ok(Some(Stands { key, metadata, content, tokens }))
    }
}

impl Stands {
    /// Which email it is of.
    pub(super) fn id(&self) -> Option<EmailId> {
        Parts::of(Table::EmailMetadata, &self.key).u64().ok().filter(|_| self.key.len() == 12).map(EmailId)
    }
}

impl<'a> Checker<'a> {
    pub(super) fn beside(&self) -> Result<Beside<'a>, Error> {
        let own = key::account(self.account);
        let rows = |table| self.rows(table, &own);
        let (mut named, mut changes) = (Vec::new(), rows(Table::EmailByModseq));
        while let Some((_, value)) = changes.next()? {
            named.extend(value.try_into().ok().map(|id| EmailId(u64::from_be_bytes(id))));
        }
        named.sort_unstable_by(|one, other| other.cmp(one));
        named.dedup();
        Ok(Beside {
            account: self.account,
            metadata: rows(Table::EmailMetadata),
            contents: rows(Table::EmailContent),
            tokens: rows(Table::EmailTokens),
            named,
        })
    }

    /// A lost email as it comes back, if it does; its row is said to be wrong.
    pub(super) fn found_again(
        &mut self,
        id: EmailId,
        wrong: &str,
        lost: &mut Lost,
    ) -> Result<Option<EmailMetadata>, Error> {
        if lost.0.is_none() {
            lost.0 = Some(self.gather()?);
        }
        let Some(email) = lost.0.as_mut().and_then(|all| all.remove(&id)) else { return Ok(None) };
        let words: Vec<&str> = email.keywords.iter().map(String::as_str).collect();
        let what = format!(
            "{wrong}: by what other rows say it was in {:?}, with [{}] and no other keyword",
            email.mailboxes,
            words.join(" ")
        );
        self.say(Table::EmailMetadata, &key::email(self.account, id), what, Mend::Put(email.encode()))?;
        Ok(Some(email))
    }

    fn gather(&mut self) -> Result<BTreeMap<EmailId, EmailMetadata>, Error> {
        let mut traces = Traces::new();
        let mut beside = self.beside()?;
        while let Some(stands) = beside.next()? {
            let read = stands.metadata.as_deref().map(|row| EmailMetadata::decode(&stands.key, row));
            if let (Some(id), None | Some(Err(_))) = (stands.id(), read) {
                let prefix = stands.content.as_deref().and_then(content_prefix).unwrap_or_default().len() as u64;
                traces.insert(id, Trace { prefix, ..Trace::default() });
            }
        }
        self.holds_of(&mut traces)?;
        self.orders_of(&mut traces)?;
        self.lists_of(&mut traces)?;
        let beyond = self.beyond(&traces)?;
        let mut out = BTreeMap::new();
        for (id, trace) in traces {
            let Some((blob, length)) = trace.blob else { continue };
            let thread = match trace.thread {
                Some(thread) => thread,
                None => self.fresh_thread()?,
            };
            let updated = match trace.updated {
                Some(updated) => updated,
                None => self.fresh(),
            };
            let is_live = trace.destroyed.is_none();
            let left = beyond.get(&thread).copied().flatten().filter(|_| is_live);
            let is_seen = !trace.unseen && (self.is_seen(&trace, updated) || left.is_some_and(|left| left.unseen == 0));
            let is_draft = !is_seen && left.is_some_and(|left| left.unread == 0);
            let words = [(is_seen, keyword::SEEN), (trace.flagged, keyword::FLAGGED), (is_draft, keyword::DRAFT)];
            let email = EmailMetadata {
                thread,
                mailboxes: if is_live { self.places(&trace.mailboxes) } else { trace.mailboxes },
                keywords: words.into_iter().filter(|(has, _)| *has).map(|(_, word)| word.to_owned()).collect(),
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

    /// Which messages they hold: by a walk over all references, for these are ordered by message. Those that hold none are
    /// let go.
    fn holds_of(&self, traces: &mut Traces) -> Result<(), Error> {
        let mut rows = Rows::new(self.read, self.run, Table::BlobRefs, &[]);
        while let Some((key, _)) = rows.next()? {
            let mut parts = Parts::of(Table::BlobRefs, &key);
            let (Ok(id), Ok(account), Ok(hash)) = (parts.u64(), parts.u32(), parts.take()) else { continue };
            let Some(trace) = traces.get_mut(&EmailId(id)).filter(|_| account == self.account.0 && key.len() == 44)
            else {
                continue;
            };
            let (hash, blob) = (BlobHash(hash), key::blob(&BlobHash(hash)));
            let row = self.read.get(Table::Blobs, &blob)?;
            let length = row.and_then(|row| Blob::decode(&blob, &row).ok().map(|blob| blob.octets.len()));
            if length.is_some() || trace.blob.is_none() {
                trace.blob = Some((hash, length.unwrap_or_default()));
            }
        }
        traces.retain(|_, trace| trace.blob.is_some());
        Ok(())
    }

    /// What the orders of emails say: by change, by thread, by the time of their end.
    fn orders_of(&self, traces: &mut Traces) -> Result<(), Error> {
        let own = key::account(self.account);
        let mut rows = self.rows(Table::EmailByModseq, &own);
        while let Some((key, value)) = rows.next()? {
            let id = value.try_into().map(|id| EmailId(u64::from_be_bytes(id)));
            if let Some(trace) = id.ok().and_then(|id| traces.get_mut(&id)) {
                trace.updated = trace.updated.max(Some(ModSeq(Parts::of(Table::EmailByModseq, &key).u64()?)));
            }
        }
        for table in [Table::EmailByThread, Table::EmailPurge] {
            let mut rows = self.rows(table, &own);
            while let Some((key, _)) = rows.next()? {
                let mut parts = Parts::of(table, &key);
                let (id, number) = (EmailId(parts.u64()?), parts.u64()?);
                let Some(trace) = traces.get_mut(&id) else { continue };
                match table {
                    Table::EmailPurge => trace.destroyed = i64::try_from(number).ok().map(UtcMillis),
                    _ => trace.thread = Some(ThreadId(number)),
                }
            }
        }
        Ok(())
    }

    /// What listings say: of a live email those that show it, of a destroyed one those that it left by its end.
    fn lists_of(&self, traces: &mut Traces) -> Result<(), Error> {
        let own = key::account(self.account);
        let mut rows = self.rows(Table::MailboxEmailIndex, &own);
        while let Some((key, value)) = rows.next()? {
            let id = EmailId(Parts::of(Table::MailboxEmailIndex, &key).u64()?);
            let (Some(trace), Some((uid, view, shape))) = (traces.get_mut(&id), place(&key)) else { continue };
            let Ok((added, thread)) = decode_index(&key, &value) else { continue };
            trace.thread.get_or_insert(thread);
            // A collapsed list shows it since a change that may be another email's.
            if shape == Shape::Emails as u8 {
                trace.shown(uid, view, added);
            }
        }
        let mut rows = self.rows(Table::MailboxThreadIndex, &own);
        while let Some((key, _)) = rows.next()? {
            let mut parts = Parts::of(Table::MailboxThreadIndex, &key);
            let (id, thread) = (EmailId(parts.u64()?), ThreadId(parts.u64()?));
            let (Some(trace), Some((uid, view, _))) = (traces.get_mut(&id), place(&key)) else { continue };
            trace.thread.get_or_insert(thread);
            trace.marked(uid, view);
        }
        let mut rows = self.rows(Table::MailboxEmailList, &own);
        while let Some((key, value)) = rows.next()? {
            let mut parts = Parts::of(Table::MailboxEmailList, &key);
            let (added, removed) = (ModSeq(parts.u64()?), ModSeq(parts.u64()?));
            let Ok((id, thread)) = decode_list(&key, &value) else { continue };
            let (Some(trace), Some((uid, view, shape))) = (traces.get_mut(&id), place(&key)) else { continue };
            trace.thread.get_or_insert(thread);
            if shape == Shape::Emails as u8 {
                trace.since = Some(trace.since.map_or(added, |since| since.min(added)));
                if trace.destroyed.is_some() && trace.updated == Some(removed) {
                    trace.marked(uid, view);
                }
            }
        }
        Ok(())
    }

    /// Of each thread of a live lost email, what its row counts beyond the others; nothing where it does not add up.
    fn beyond(&self, traces: &Traces) -> Result<BTreeMap<ThreadId, Option<Beyond>>, Error> {
        let mut lost: BTreeMap<ThreadId, u32> = BTreeMap::new();
        for thread in traces.values().filter(|trace| trace.destroyed.is_none()).filter_map(|trace| trace.thread) {
            *lost.entry(thread).or_default() += 1;
        }
        let mut out = BTreeMap::new();
        for (id, lost) in lost {
            let (key, mut known) = (key::thread(self.account, id), Thread::default());
            let mut rows = self.rows(Table::EmailByThread, &key);
            while let Some((member, _)) = rows.next()? {
                let key = key::email(self.account, EmailId(Parts::of(Table::EmailByThread, &member).u64()?));
                let row = self.read.get(Table::EmailMetadata, &key)?;
                if let Some(Ok(email)) = row.map(|row| EmailMetadata::decode(&key, &row)) {
                    known.count(&email, self.census.trash, true);
                }
            }
            let row = self.read.get(Table::Threads, &key)?.and_then(|row| Thread::decode(&key, &row).ok());
            let row = row.filter(|row| !row.deleted && row.emails == known.emails.saturating_add(lost));
            let beyond = row.map(|row| Beyond {
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
    fn is_seen(&self, trace: &Trace, updated: ModSeq) -> bool {
        let tells = |kept: &[Kept]| {
            kept.iter()
                .filter(|entry| entry.view == View::Unseen && entry.is_whole())
                .any(|entry| trace.destroyed.is_none() || entry.emails.low < updated)
        };
        let of = |uid: &MailboxUid| self.census.mailboxes.get(uid).is_some_and(|row| tells(&row.kept));
        trace.mailboxes.iter().any(of) || tells(&self.state_or_fresh().kept)
    }

    /// A thread that none had.
    fn fresh_thread(&mut self) -> Result<ThreadId, Error> {
        let own = key::account(self.account);
        let mut last = self.state_or_fresh().last_thread.max(self.census.last_thread);
        for table in [Table::Threads, Table::EmailByThread] {
            self.read.scan(table, &own, &after(&own), true, &mut |key, _| {
                let number = key.get(4..12).and_then(|number| number.try_into().ok()).map(u64::from_be_bytes);
                last = last.max(number.unwrap_or_default());
                Ok(false)
            })?;
        }
        self.census.last_thread = last.saturating_add(1);
        Ok(ThreadId(self.census.last_thread))
    }
}

impl Trace {
    fn shown(&mut self, uid: MailboxUid, view: u8, added: ModSeq) {
        self.since = Some(self.since.map_or(added, |since| since.min(added)));
        self.marked(uid, view);
    }

    fn marked(&mut self, uid: MailboxUid, view: u8) {
        match View::from_number(view) {
            Some(View::Every) if uid != MailboxUid::ALL => drop(self.mailboxes.insert(uid)),
            Some(View::Unseen) => self.unseen = true,
            Some(View::Flagged) => self.flagged = true,
            _ => {}
        }
    }
}

/// Mailbox, view and (where the table has them) shape of a listing's key.
fn place(key: &[u8]) -> Option<(MailboxUid, u8, u8)> {
    let uid = key.get(4..8)?.try_into().ok().map(u32::from_be_bytes)?;
    Some((MailboxUid(uid), *key.get(8)?, *key.get(9)?))
}
