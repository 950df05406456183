//! Compares the rows of the listings with rows made from the census.
//!
//! - The change since which an email is shown cannot be recomputed: it is accepted if index and
//!   list agree on it.
//! - If history begins anew (`CheckOptions::restart_history`), emails are shown since the change
//!   that created them, and rows of intervals that have ended are deleted.

use std::collections::{BTreeMap, HashSet};

use crate::model::{
    EmailId, Listing, ListingFilter, ListingStage, MailboxUid, MaintainedListing, ModSeq, Shape,
    ThreadId,
};
use crate::store::engine::Table;
use crate::store::error::Error;
use crate::store::listing::rank;
use crate::store::repair::check::rows::{Found, RawRows, RowCursor};
use crate::store::repair::check::{Checker, RowFix};
use crate::store::row::{RankCount, RowFormat};
use crate::store::table::codec::{KeyPart as _, Prefix};
use crate::store::table::keys::{ListingEmailKey, ListingHistoryKey, MailboxKey, ThreadIndexKey};
use crate::store::table::{
    MailboxEmailIndex, MailboxEmailList, MailboxRank, MailboxThreadIndex, Present, Table as _,
};

/// The filters on threads, in the order of the bits in `Census::threads`.
pub(in crate::store) const THREAD_FILTERS: [ListingFilter; 3] =
    [ListingFilter::ThreadUnseen, ListingFilter::ThreadFlagged, ListingFilter::ThreadUntouched];

/// Cursors over the account's rows in the tables of listings. All move on together: they stand
/// behind the listings that were checked.
struct Tables<'a> {
    list: RowCursor<'a, MailboxEmailList>,
    index: RowCursor<'a, MailboxEmailIndex>,
    members: RowCursor<'a, MailboxThreadIndex>,
    ranks: RowCursor<'a, MailboxRank>,
    /// For each thread of the census, the last round of `newest_of_threads` that met it.
    seen: Vec<u32>,
    /// The number of the last round.
    round: u32,
}

impl<'a> Tables<'a> {
    fn all(&mut self) -> [&mut RawRows<'a>; 4] {
        [&mut self.list.raw, &mut self.index.raw, &mut self.members.raw, &mut self.ranks.raw]
    }
}

impl Checker<'_> {
    /// Checks the listings of all mail and of each mailbox that is not destroyed, and the row of
    /// each mailbox, which has the statistics of its listings.
    pub(in crate::store) fn check_listings(&mut self) -> Result<(), Error> {
        let mut tables = Tables {
            list: self.rows(),
            index: self.rows(),
            members: self.rows(),
            ranks: self.rows(),
            seen: vec![0; self.census.threads.len()],
            round: 0,
        };
        let listings = self.state_or_fresh().listings;
        self.census.listings =
            self.check_mailbox_listings(MailboxUid::ALL, listings, &mut tables)?;
        let uids: Vec<MailboxUid> = self.census.mailboxes.keys().copied().collect();
        for uid in uids {
            let Some(mut mailbox) = self.census.mailboxes.get(&uid).cloned() else { continue };
            if !mailbox.destroyed {
                mailbox.listings =
                    self.check_mailbox_listings(uid, mailbox.listings, &mut tables)?;
            }
            // No change of a mailbox is later than its last one.
            if mailbox.updated_not_counts > mailbox.updated || mailbox.created > mailbox.updated {
                mailbox.updated_not_counts = mailbox.updated_not_counts.min(mailbox.updated);
                mailbox.created = mailbox.created.min(mailbox.updated);
            }
            self.expect_mailbox(uid, &mailbox)?;
        }
        for rows in tables.all() {
            while let Some((key, _)) = rows.next()? {
                self.report_stray(rows.table, &key)?;
            }
        }
        Ok(())
    }

    /// Checks the rows of a mailbox's listings, in the order of the keys. Returns its maintained
    /// listings as they should be.
    fn check_mailbox_listings(
        &self,
        uid: MailboxUid,
        found: Vec<MaintainedListing>,
        tables: &mut Tables<'_>,
    ) -> Result<Vec<MaintainedListing>, Error> {
        let mut listings = self.wanted_listings(uid, found);
        let mut order: Vec<usize> = (0..listings.len()).collect();
        order.sort_by_key(|at| listings.get(*at).map(|entry| entry.filter));
        for at in order {
            let Some(entry) = listings.get_mut(at) else { continue };
            let prefix = Prefix::<ThreadIndexKey>::encode(&(self.account, uid, entry.filter));
            for rows in tables.all() {
                while let Some((key, _)) = rows.below(&prefix)? {
                    self.report_stray(rows.table, &key)?;
                }
            }
            match entry.frontier() {
                Some(frontier) => self.check_listing_rows(uid, entry, frontier, tables)?,
                // A listing that is being dropped may have any rows.
                None => {
                    for rows in tables.all() {
                        while rows.within(&prefix)?.is_some() {}
                    }
                }
            }
        }
        Ok(listings)
    }

    /// Returns the listings that a mailbox should maintain: those that were found, but only one for
    /// each filter, and the permanent ones, which are always whole. If history begins anew, other
    /// listings that are not whole are dropped.
    fn wanted_listings(
        &self,
        uid: MailboxUid,
        mut listings: Vec<MaintainedListing>,
    ) -> Vec<MaintainedListing> {
        let mut filters = HashSet::new();
        listings.retain(|entry| filters.insert(entry.filter));
        // A low mark of the future is wrong.
        if let Some(state) = &self.found_state {
            for low in listings
                .iter_mut()
                .flat_map(|entry| [&mut entry.emails.low, &mut entry.threads.low])
            {
                *low = state.modseq.min(*low);
            }
        }
        if self.options.restart_history {
            listings.retain(|entry| entry.is_complete() || entry.filter.is_permanent(uid));
        }
        for filter in ListingFilter::ALL.into_iter().filter(|filter| filter.is_permanent(uid)) {
            match listings.iter_mut().find(|entry| entry.filter == filter) {
                Some(entry) => entry.stage = ListingStage::Complete,
                None => {
                    listings.push(MaintainedListing::empty(filter, self.state_or_fresh().modseq));
                }
            }
        }
        listings
    }

    /// Checks the rows of one maintained listing, up to its frontier, and corrects its statistics.
    fn check_listing_rows(
        &self,
        uid: MailboxUid,
        entry: &mut MaintainedListing,
        frontier: EmailId,
        tables: &mut Tables<'_>,
    ) -> Result<(), Error> {
        let (account, filter) = (self.account, entry.filter);
        // A listing of a filter on threads shows, of each thread that matches, the newest email.
        let base = if filter.is_email_filter() { filter } else { ListingFilter::Every };
        let all_mail: Vec<u32>;
        let members: &[u32] = if uid == MailboxUid::ALL {
            all_mail = (0..u32::try_from(self.census.mails.len()).unwrap_or(u32::MAX)).collect();
            &all_mail
        } else {
            self.census.members.get(&uid).map_or(&[], Vec::as_slice)
        };
        let shows = |at: &u32| self.census.mail(*at).is_some_and(|mail| mail.matches(base));
        let shown: Vec<u32> = members.iter().copied().filter(shows).collect();
        let mut collapsed = self.newest_of_threads(&shown, tables);
        if !filter.is_email_filter() {
            collapsed.retain(|at| self.thread_matches(*at, filter));
        }
        let within = |at: &u32| self.census.mail(*at).is_some_and(|mail| mail.id <= frontier);
        let mut thread_index: Vec<(ThreadId, EmailId)> = Vec::new();
        // `email_by_thread` serves the listing of every email of all mail.
        if filter.is_email_filter() && (uid != MailboxUid::ALL || filter != ListingFilter::Every) {
            let mails = shown.iter().copied().filter(within).filter_map(|at| self.census.mail(at));
            thread_index.extend(mails.map(|mail| (mail.thread, mail.id)));
            thread_index.sort_unstable();
        }
        let rows = thread_index.into_iter().map(|(thread, email)| {
            (ThreadIndexKey { account, mailbox: uid, filter, thread, email }, Present)
        });
        self.expect_rows_under(&mut tables.members, &(account, uid, filter), rows)?;
        for shape in entry.shapes() {
            let listing = Listing { uid, filter, shape: *shape };
            let shown = if *shape == Shape::Emails { &shown } else { &collapsed };
            let shown: Vec<u32> = shown.iter().copied().filter(within).collect();
            self.check_index_and_list(listing, &shown, tables)?;
            let stats = entry.stats_mut(*shape);
            stats.total = shown.len() as u64;
            // Whether a listing of a length between `below` and `above` has ranks depends on its
            // past. The stored answer is accepted; if history begins anew, only at such a length.
            let is_ranked = match (self.options.restart_history, stats.is_ranked()) {
                (true, was) => {
                    stats.total > self.options.ranking.above
                        || (was && stats.total >= self.options.ranking.below)
                }
                (false, is) => is,
            };
            let mut rows = BTreeMap::new();
            stats.front = None;
            if is_ranked {
                let ids: Vec<EmailId> = shown
                    .iter()
                    .filter_map(|at| self.census.mail(*at))
                    .map(|mail| mail.id)
                    .collect();
                stats.front = Some(rank::front_of(self.options.ranking, &ids));
                rows = rank::rows_of(self.options.ranking, account, listing, &ids);
            }
            let rows = rows.into_iter().map(|(key, count)| (key, RankCount(count)));
            self.expect_rows_under(&mut tables.ranks, &(account, listing), rows)?;
        }
        Ok(())
    }

    /// Returns, for each thread, the newest of these emails, which come newest first.
    fn newest_of_threads(&self, shown: &[u32], tables: &mut Tables<'_>) -> Vec<u32> {
        tables.round = tables.round.wrapping_add(1);
        let round = tables.round;
        let mut first = |at: &u32| {
            let thread = usize::try_from(*at).ok().and_then(|at| self.census.thread_of.get(at));
            let slot =
                thread.and_then(|thread| tables.seen.get_mut(usize::try_from(*thread).ok()?));
            slot.is_some_and(|slot| std::mem::replace(slot, round) != round)
        };
        shown.iter().copied().filter(|at| first(at)).collect()
    }

    /// Whether the thread of the email at this position of the census matches a filter on threads.
    fn thread_matches(&self, at: u32, filter: ListingFilter) -> bool {
        let thread = usize::try_from(at).ok().and_then(|at| self.census.thread_of.get(at));
        let bits =
            thread.and_then(|thread| self.census.threads.get(usize::try_from(*thread).ok()?));
        let bit = THREAD_FILTERS.iter().position(|other| *other == filter);
        bits.zip(bit).is_some_and(|(bits, bit)| bits >> bit & 1 == 1)
    }

    /// Checks the index and the list of a listing that should show the emails `shown`, newest
    /// first.
    fn check_index_and_list(
        &self,
        listing: Listing,
        shown: &[u32],
        tables: &mut Tables<'_>,
    ) -> Result<(), Error> {
        let account = self.account;
        let prefix = Prefix::<ListingEmailKey>::encode(&(account, listing));
        let mut since: Vec<(u64, u32)> = Vec::with_capacity(shown.len());
        // Emails whose index row cannot be read: their live list rows cannot be compared.
        let mut unknown: HashSet<EmailId> = HashSet::new();
        for (at, mail) in shown.iter().filter_map(|at| Some((*at, self.census.mail(*at)?))) {
            let key = ListingEmailKey { account, listing, email: mail.id }.encode();
            while let Some(extra) = tables.index.below(&key)? {
                self.report_extra(Table::MailboxEmailIndex, &extra.key)?;
            }
            let row = tables.index.raw.at(&key)?;
            let read =
                |row| <(ModSeq, ThreadId)>::from_bytes(MailboxEmailIndex::ID, &key, row).ok();
            let found = row.as_deref().and_then(read).map(|(added, _)| added.0);
            let added = if self.options.restart_history { Some(mail.created) } else { found };
            match added {
                Some(added) => since.push((added, at)),
                None => drop(unknown.insert(mail.id)),
            }
            let wanted = (ModSeq(added.unwrap_or(mail.created)), mail.thread).to_bytes();
            self.expect(Table::MailboxEmailIndex, &key, row.as_deref(), wanted)?;
        }
        while let Some(extra) = tables.index.within(&prefix)? {
            self.report_extra(Table::MailboxEmailIndex, &extra.key)?;
        }
        since.sort_unstable();
        for (added, at) in since {
            let Some(mail) = self.census.mail(at) else { continue };
            let key =
                ListingHistoryKey { account, listing, removed: ModSeq(0), added: ModSeq(added) }
                    .encode();
            while let Some(extra) = tables.list.below(&key)? {
                self.check_left_row(&extra, &unknown)?;
            }
            let row = tables.list.raw.at(&key)?;
            self.expect(
                Table::MailboxEmailList,
                &key,
                row.as_deref(),
                (mail.id, mail.thread).to_bytes(),
            )?;
        }
        while let Some(extra) = tables.list.within(&prefix)? {
            self.check_left_row(&extra, &unknown)?;
        }
        Ok(())
    }

    /// Checks a list row that was not expected. A row whose interval has ended is right if the
    /// interval is possible and history does not begin anew. A live row, with `removed` 0, is right
    /// only if its email is one of `unknown`.
    fn check_left_row(
        &self,
        found: &Found<MailboxEmailList>,
        unknown: &HashSet<EmailId>,
    ) -> Result<(), Error> {
        let newest = self.found_state.as_ref().map_or(ModSeq(u64::MAX), |state| state.modseq);
        let key = found.key.as_slice();
        let (Some(ListingHistoryKey { removed, added, .. }), Ok((email, _))) =
            (found.id(), found.row())
        else {
            return self.report_extra(Table::MailboxEmailList, key);
        };
        if removed == ModSeq(0) {
            return if unknown.contains(&email) {
                Ok(())
            } else {
                self.report_extra(Table::MailboxEmailList, key)
            };
        }
        if removed <= added || removed > newest {
            let what = "an interval that does not end after it begins, or ends in the future";
            return self.report(Table::MailboxEmailList, key, what, RowFix::Delete);
        }
        if self.options.restart_history {
            return self.report(
                Table::MailboxEmailList,
                key,
                "history begins anew",
                RowFix::Delete,
            );
        }
        Ok(())
    }

    /// Reports a row of no maintained listing, unless its mailbox is destroyed: the rows of such a
    /// mailbox are deleted in steps.
    fn report_stray(&self, table: Table, key: &[u8]) -> Result<(), Error> {
        // What follows the mailbox in the key may be damaged.
        let uid = MailboxKey::read(&mut { key }).map(|key| key.mailbox).ok();
        let is_destroyed = uid
            .and_then(|uid| self.census.mailboxes.get(&uid))
            .is_some_and(|mailbox| mailbox.destroyed);
        if is_destroyed { Ok(()) } else { self.report_extra(table, key) }
    }
}
