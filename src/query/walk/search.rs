//! The walk over the hits of the search index, newest first. Lookups in the store are batched.

use std::collections::HashSet;

use crate::model::{AccountId, BlobHash, EmailId, EmailMetadata, Listing, ThreadId};
use crate::query::id_range::IdRange;
use crate::query::matching::candidate::{Candidate, CandidateSource, FetchedEmail, IndexAnswer};
use crate::query::matching::evaluate::Matcher;
use crate::query::{Allowance, Error, QueryOptions, QuerySpec};
use crate::store::Snapshot;

/// The largest value of `SearchWalk::min_batch`.
const MAX_SEARCH_BATCH: usize = 256;

#[derive(Debug)]
pub(in crate::query) struct SearchWalk<'v> {
    snapshot: &'v Snapshot<'v>,
    account: AccountId,
    options: QueryOptions,
    /// The listing that contains every match; `None` for all mail.
    listing: Option<Listing>,
    range: IdRange,
    /// Where the next batch begins; `None` at the end.
    from: Option<EmailId>,
    /// The least size of the next batch. It doubles with each batch, up to `MAX_SEARCH_BATCH`.
    min_batch: usize,
    /// How many of 1,000 emails were hits, in the last batch that was taken from the listing; 1,000
    /// before the first. The next batch is taken from the listing unless
    /// `index_hits_per_thousand` is higher.
    listing_hits_per_thousand: usize,
    /// How many of 1,000 hits were in the listing, in the last batch that was taken from the index.
    index_hits_per_thousand: usize,
}

fn per_thousand(some: usize, all: usize) -> usize {
    some.saturating_mul(1000).checked_div(all).unwrap_or(0)
}

fn next_id(id: EmailId) -> Option<EmailId> {
    id.0.checked_add(1).map(EmailId)
}

#[derive(Debug)]
pub(in crate::query) struct Hit {
    pub(in crate::query) id: EmailId,
    pub(in crate::query) metadata: EmailMetadata,
    pub(in crate::query) fetched: FetchedEmail,
    /// Whether the email is known to match.
    pub(in crate::query) is_certain: bool,
}

impl<'v> SearchWalk<'v> {
    pub(in crate::query) fn new(
        snapshot: &'v Snapshot<'v>,
        spec: &QuerySpec,
        listing: Option<Listing>,
        range: IdRange,
    ) -> Self {
        let (account, options) = (spec.account, spec.options);
        let from = Some(range.first);
        Self {
            snapshot,
            account,
            options,
            listing,
            range,
            from,
            min_batch: 1,
            listing_hits_per_thousand: 1000,
            index_hits_per_thousand: 1000,
        }
    }

    /// Returns the next batch of hits, which may be empty, or `None` at the end. `room` is the
    /// number of results still wanted. Hits are left out if it is known, without reading the
    /// message, that they do not match. So are hits of the threads `shown`.
    pub(in crate::query) fn hits(
        &mut self,
        matcher: &Matcher,
        source: &mut CandidateSource<'v>,
        room: usize,
        shown: Option<&HashSet<ThreadId>>,
    ) -> Result<Option<Vec<Hit>>, Error> {
        let Some(from) = self.from.filter(|from| *from <= self.range.last) else { return Ok(None) };
        let most = room.min(self.options.search_batch).max(self.min_batch);
        self.min_batch = self.min_batch.saturating_mul(2).min(MAX_SEARCH_BATCH);
        let answers = match self.listing {
            Some(listing) if self.listing_hits_per_thousand >= self.index_hits_per_thousand => {
                self.of_listing(listing, matcher, source, from, most)?
            }
            listing => self.of_index(listing, matcher, source, from, most)?,
        };
        let ids: Vec<EmailId> = answers.iter().map(|(id, _)| *id).collect();
        source.reads.count_rows(ids.len());
        let (mut hits, mut undecided, mut threads_with_hit) =
            (Vec::with_capacity(ids.len()), Vec::new(), HashSet::new());
        for ((id, answer), metadata) in
            answers.into_iter().zip(self.snapshot.emails_at(self.account, &ids)?)
        {
            let Some(metadata) =
                metadata.filter(|email| !shown.is_some_and(|shown| shown.contains(&email.thread)))
            else {
                continue;
            };
            let mut email = Candidate::new(source, id, &metadata)
                .with_fetched(FetchedEmail::of(answer))
                .without_reading();
            let known = matcher.decide(&mut email)?;
            let fetched = email.into_fetched();
            if known == Some(false) {
                continue;
            }
            // With `shown`, a thread gives one result, so only its first hit is prefetched.
            if (shown.is_none() || threads_with_hit.insert(metadata.thread)) && known.is_none() {
                undecided.push(hits.len());
            }
            hits.push(Hit { id, metadata, fetched, is_certain: known == Some(true) });
        }
        self.prefetch(&mut hits, &undecided, &source.reads)?;
        Ok(Some(hits))
    }

    /// Takes the next batch from the index, up to `most` hits from the email `from` on. If there is
    /// a listing, keeps the hits that are in it.
    fn of_index(
        &mut self,
        listing: Option<Listing>,
        matcher: &Matcher,
        source: &mut CandidateSource<'v>,
        from: EmailId,
        most: usize,
    ) -> Result<Vec<(EmailId, IndexAnswer)>, Error> {
        let mut answers = Vec::new();
        let mut next = Some(from);
        while let Some(from) = next
            && answers.len() < most
        {
            let hit = matcher.next(source, from)?.filter(|at| *at <= self.range.last);
            if let Some(id) = hit {
                answers.push((id, source.index_answer(id)?));
            }
            next = hit.and_then(next_id);
        }
        self.from = next;
        if let Some(listing) = listing {
            let (ids, all): (Vec<EmailId>, usize) =
                (answers.iter().map(|(id, _)| *id).collect(), answers.len());
            let mut listed =
                self.snapshot.emails_in_listing(self.account, listing, &ids)?.into_iter();
            source.reads.count_rows(all);
            answers.retain(|_| listed.next().unwrap_or(false));
            self.index_hits_per_thousand = per_thousand(answers.len(), all);
        }
        Ok(answers)
    }

    /// Takes the next batch from the listing, up to `most` emails from the email `from` on, and
    /// keeps those that the index names.
    fn of_listing(
        &mut self,
        listing: Listing,
        matcher: &Matcher,
        source: &mut CandidateSource<'v>,
        from: EmailId,
        most: usize,
    ) -> Result<Vec<(EmailId, IndexAnswer)>, Error> {
        let mut answers = Vec::new();
        let page = self.snapshot.listing(
            self.account,
            listing,
            from.0.checked_sub(1).map(EmailId),
            most,
        )?;
        source.reads.count_rows(page.len());
        // Where the page after this one begins; `None` if there is none.
        let next_page = page.last().filter(|_| page.len() == most).and_then(|(id, _)| next_id(*id));
        // What the last look-up found: the first email at or after its id that the index names, or
        // `None` if there is none. At first `from`, as if the index named it.
        let mut next = Some(from);
        for (id, _) in &page {
            if next.is_none_or(|next| next > *id) || *id > self.range.last {
                continue;
            }
            next = matcher.next(source, *id)?;
            if next == Some(*id) {
                answers.push((*id, source.index_answer(*id)?));
            }
        }
        self.listing_hits_per_thousand = per_thousand(answers.len(), page.len());
        self.from = next.zip(next_page).map(|(next, page)| next.max(page));
        Ok(answers)
    }

    /// Prefetches the messages of the hits at these indexes, and charges their bytes. A message is
    /// left out if it does not fit in what the earlier ones left of `prefetch_bytes`.
    fn prefetch(
        &self,
        hits: &mut [Hit],
        undecided: &[usize],
        reads: &Allowance,
    ) -> Result<(), Error> {
        let (mut left, mut blobs): (u64, Vec<(usize, BlobHash)>) =
            (self.options.prefetch_bytes, Vec::new());
        for at in undecided {
            let Some(hit) = hits.get(*at) else { continue };
            if let Some(rest) = left.checked_sub(hit.metadata.size) {
                left = rest;
                blobs.push((*at, hit.metadata.blob));
            }
        }
        reads.charge_bytes(self.options.prefetch_bytes.saturating_sub(left))?;
        let hashes: Vec<BlobHash> = blobs.iter().map(|(_, blob)| *blob).collect();
        for ((at, _), raw) in blobs.iter().zip(self.snapshot.raw_messages(&hashes)?) {
            if let Some(hit) = hits.get_mut(*at) {
                hit.fetched.received = Some(raw);
            }
        }
        Ok(())
    }
}
