//! Merges folds: first writes the emails of the new fold, so that their ordinals are fixed, then
//! its postings, each in pieces.
//!
//! If two source folds name the same email id, one email was purged, and another got its id: the
//! newer fold has the live email.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::model::{AccountId, EmailId, ModSeq, Token, delivered_to, field};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::block::{BlockReader, BlockWriter, EncodedPosting};
use crate::store::row::fold::{Fold, FoldMerge, Folds, MergePosition};
use crate::store::search::folding::{FoldPiece, FoldSizes, yield_thread};
use crate::store::table::SearchFolds;
use crate::store::table::codec::Prefix as _;
use crate::store::table::folds::{FoldId, FoldKey, FoldRows};
use crate::store::txn::snapshot::Snapshot;

/// The most rows of emails that a piece writes.
const EMAIL_ROWS: usize = 8;

impl Snapshot<'_> {
    /// Makes the first piece of a merge of the oldest free folds of a level.
    pub(in crate::store) fn merge_begin(
        &self,
        account: AccountId,
        folds: &Folds,
        level: u8,
        sizes: &FoldSizes,
    ) -> Result<FoldPiece, Error> {
        let mut piece = FoldPiece::of(folds);
        let sources: Vec<Fold> = folds.free(level).into_iter().take(sizes.fan).collect();
        piece.after.last += 1;
        let id = FoldId { level: level.saturating_add(1), number: piece.after.last };
        let created_upto = sources.iter().map(|fold| fold.created_upto).max().unwrap_or_default();
        let (newest, oldest) = (EmailId(0), EmailId(0));
        let into = Fold { id, created_upto, emails: 0, newest, oldest, knows_delivery: true };
        let sources = sources.into_iter().map(|fold| fold.id).collect();
        let merge = FoldMerge { sources, into, next: MergePosition::FIRST_EMAIL };
        self.merge_emails(account, &mut piece, &merge, EmailId(0), sizes)?;
        Ok(piece)
    }

    /// Makes the next piece of the merge at position `at` of `Folds::merges`.
    pub(in crate::store) fn merge_on(
        &self,
        account: AccountId,
        folds: &Folds,
        at: usize,
        sizes: &FoldSizes,
    ) -> Result<FoldPiece, Error> {
        let mut piece = FoldPiece::of(folds);
        let merge = piece.after.merges.remove(at);
        match &merge.next {
            MergePosition::Email(from) => {
                self.merge_emails(account, &mut piece, &merge, *from, sizes)?;
            }
            MergePosition::Posting(token, ordinal, position) => {
                let from = (token.clone(), *ordinal, *position);
                self.merge_postings(account, &mut piece, &merge, &from, sizes)?;
            }
        }
        Ok(piece)
    }

    /// Adds the next live emails to a piece, from the id `from` on.
    fn merge_emails(
        &self,
        account: AccountId,
        piece: &mut FoldPiece,
        merge: &FoldMerge,
        from: EmailId,
        sizes: &FoldSizes,
    ) -> Result<(), Error> {
        let mut all: Vec<(EmailId, ModSeq)> = Vec::new();
        for source in &merge.sources {
            let created_upto = piece
                .before
                .live
                .iter()
                .find(|fold| fold.id == *source)
                .map(|fold| fold.created_upto);
            let ids = self.fold_emails(account, *source)?.into_iter().filter(|id| *id >= from);
            all.extend(ids.map(|id| (id, created_upto.unwrap_or_default())));
        }
        all.sort_unstable_by_key(|(id, created_upto)| (*id, Reverse(*created_upto)));
        all.dedup_by_key(|(id, _)| *id);
        let emails_of_row = sizes.emails_of_row();
        let (now, later) =
            all.split_at_checked(emails_of_row.saturating_mul(EMAIL_ROWS)).unwrap_or((&all, &[]));
        let mut ids: Vec<EmailId> = Vec::with_capacity(now.len());
        for (id, created_upto) in now {
            if self.is_current_in_fold(account, *created_upto, *id)? {
                ids.push(*id);
            }
        }
        let mut merge = merge.clone();
        for row in ids.chunks(emails_of_row) {
            piece.put_emails(account, merge.into.id, merge.into.emails, row);
            if merge.into.emails == 0 {
                merge.into.newest = row.first().copied().unwrap_or_default();
            }
            merge.into.oldest = row.last().copied().unwrap_or_default();
            merge.into.emails =
                merge.into.emails.saturating_add(u32::try_from(row.len()).unwrap_or(u32::MAX));
        }
        merge.next =
            later.first().map_or(MergePosition::FIRST_POSTING, |(id, _)| MergePosition::Email(*id));
        piece.after.merges.push(merge);
        Ok(())
    }

    /// Adds the next postings to a piece, from the place `from` on: a token, an ordinal in the new
    /// fold, and a position in the text. After the last posting, the new fold replaces its sources.
    fn merge_postings(
        &self,
        account: AccountId,
        piece: &mut FoldPiece,
        merge: &FoldMerge,
        from: &(Token, u32, u32),
        sizes: &FoldSizes,
    ) -> Result<(), Error> {
        let mut streams = self.streams(account, &piece.before, merge, from)?;
        let mut heap = BinaryHeap::new();
        for (at, stream) in streams.iter_mut().enumerate() {
            if let Some(posting) = stream.next(self, from)? {
                heap.push(Reverse(NextPosting { posting, stream: at }));
            }
        }
        let mut blocks = BlockWriter::new(sizes.block);
        let mut next = None;
        while let Some(mut first) = heap.peek_mut() {
            let Reverse(NextPosting { posting, stream }) = &mut *first;
            if blocks.byte_len() >= sizes.piece {
                let (token, ordinal, position) = posting.sort_key();
                next = Some(MergePosition::Posting(token.clone(), ordinal, position));
                break;
            }
            blocks.push_encoded(posting);
            let following =
                streams.get_mut(*stream).map_or(Ok(None), |stream| stream.next(self, from))?;
            match following {
                Some(following) => *posting = following,
                None => drop(PeekMut::pop(first)),
            }
        }
        piece.put_blocks(account, merge.into.id, blocks.finish());
        if let Some(next) = next {
            piece.after.merges.push(FoldMerge { next, ..merge.clone() });
            return Ok(());
        }
        piece.after.live.retain(|fold| !merge.sources.contains(&fold.id));
        piece.after.dropped.extend(&merge.sources);
        if merge.into.emails > 0 {
            piece.after.live.push(merge.into);
        }
        Ok(())
    }

    /// Returns streams of the postings of each source fold, from the place `from` on.
    fn streams(
        &self,
        account: AccountId,
        folds: &Folds,
        merge: &FoldMerge,
        from: &(Token, u32, u32),
    ) -> Result<Vec<PostingStream>, Error> {
        let target = self.fold_emails(account, merge.into.id)?;
        // Sources come newest first, so an id that two of them have is that of the newer one.
        let mut is_assigned = vec![false; target.len()];
        let mut sources = merge.sources.clone();
        sources.sort_unstable_by_key(|source| Reverse(source.number));
        let mut out = Vec::with_capacity(sources.len());
        for source in sources {
            let mut ordinals = Vec::new();
            for id in self.fold_emails(account, source)? {
                let at = target
                    .binary_search(&id)
                    .ok()
                    .filter(|at| is_assigned.get(*at) == Some(&false));
                if let Some(is_assigned) = at.and_then(|at| is_assigned.get_mut(at)) {
                    *is_assigned = true;
                }
                ordinals.push(at.and_then(|at| u32::try_from(at).ok()));
            }
            let first = ordinals
                .iter()
                .position(|to| to.is_some_and(|to| to >= from.1))
                .unwrap_or(ordinals.len());
            // If the last piece ended before this email, all its positions are still to be merged.
            let is_same = ordinals.get(first).copied().flatten() == Some(from.1);
            let position = if is_same { from.2 } else { 0 };
            let first = u32::try_from(first).unwrap_or(u32::MAX);
            // The last block that begins at or before the place, and all that follow.
            let target = FoldKey::block(account, source, &from.0, first, position);
            let blocks = (account, source, FoldRows::Words);
            let start = self
                .read
                .first_key(&KeyRange::<SearchFolds>::through(&blocks, &target).reversed())?;
            let rest = match start {
                Some(start) => KeyRange::from(&(account, source), &start),
                None => KeyRange::from(&(account, source), &blocks),
            };
            let knows_delivery =
                folds.live.iter().any(|fold| fold.id == source && fold.knows_delivery);
            if merge.into.knows_delivery && !knows_delivery {
                out.push(PostingStream::of_unknown_delivery(&ordinals, from));
            }
            let fold = (account, source);
            out.push(PostingStream::Blocks { fold, ordinals, rest, block: None });
        }
        Ok(out)
    }
}

/// The postings of a source fold whose emails are live, with their new ordinals.
enum PostingStream {
    /// Postings in memory, the last one first.
    Listed(Vec<EncodedPosting>),
    /// Postings that are read from the blocks of a fold.
    Blocks {
        fold: (AccountId, FoldId),
        /// For each ordinal of the source fold, the email's ordinal in the new fold; `None` if the
        /// email is not in it, or is there from a newer source.
        ordinals: Vec<Option<u32>>,
        /// The blocks that were not begun yet.
        rest: KeyRange<SearchFolds>,
        /// The encoded key of a block that was begun, and the block.
        block: Option<(Vec<u8>, BlockReader<Vec<u8>>)>,
    },
}

impl PostingStream {
    /// Postings for a source fold of an earlier version, which does not say to which address its
    /// emails were delivered. They tell a search to read the header.
    fn of_unknown_delivery(ordinals: &[Option<u32>], from: &(Token, u32, u32)) -> Self {
        let posting = |ordinal: &u32| {
            let text = delivered_to::SEARCH_TEXT_PREFIX;
            EncodedPosting::of_text(text, *ordinal, field::DELIVERED_HERE)
        };
        let all = ordinals.iter().flatten().map(posting);
        let mut listed: Vec<EncodedPosting> =
            all.filter(|posting| posting.sort_key() >= (&from.0, from.1, from.2)).collect();
        listed.reverse();
        Self::Listed(listed)
    }

    /// Returns the next posting that is not before `from`.
    fn next(
        &mut self,
        snapshot: &Snapshot<'_>,
        from: &(Token, u32, u32),
    ) -> Result<Option<EncodedPosting>, Error> {
        let (fold, ordinals, rest, block) = match self {
            Self::Listed(listed) => return Ok(listed.pop()),
            Self::Blocks { fold, ordinals, rest, block } => (&*fold, &*ordinals, rest, block),
        };
        let new_ordinal = |ordinal: u32| {
            usize::try_from(ordinal).ok().and_then(|at| ordinals.get(at)).copied().flatten()
        };
        let is_wanted = |token: &Token, ordinal: u32| {
            new_ordinal(ordinal).is_some_and(|ordinal| (token, ordinal) >= (&from.0, from.1))
        };
        loop {
            while let Some((key, reader)) = block {
                let wanted = |token: &Token, ordinal| Some(is_wanted(token, ordinal));
                let Some(posting) = reader.next_encoded(key, wanted)? else { break };
                let Some(ordinal) = new_ordinal(posting.ordinal) else { continue };
                let posting = EncodedPosting { ordinal, ..posting };
                if posting.sort_key() >= (&from.0, from.1, from.2) {
                    return Ok(Some(posting));
                }
            }
            *block = None;
            yield_thread();
            let mut begun = None;
            snapshot.read.keys(rest, |key, value| {
                let encoded = key.encode();
                let reader = BlockReader::new(&encoded, value.to_vec())?;
                *block = Some((encoded, reader));
                begun = Some(key);
                Ok(false)
            })?;
            let Some(begun) = begun else { return Ok(None) };
            *rest = KeyRange::behind(fold, &begun);
        }
    }
}

/// The next posting of a stream, ordered by token, ordinal and position, then by stream.
struct NextPosting {
    posting: EncodedPosting,
    /// The position of its stream in the list of all.
    stream: usize,
}

impl Ord for NextPosting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.posting.sort_key(), self.stream).cmp(&(other.posting.sort_key(), other.stream))
    }
}

impl PartialOrd for NextPosting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for NextPosting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for NextPosting {}
