//! The emails that may contain a search term, newest first, from the unfolded token rows and the
//! folds.
//!
//! - An email that is not a hit does not have the term. A hit may lack it, because words are
//!   hashes: `SearchTerm::confirms` checks the message. Hits of a term of `SearchTerm::of_delivery`
//!   are certain.
//! - Each source is read only as far as needed. A phrase costs about as much as its rarest word.
//! - A fold may have emails that are gone, and ids that were used again after a purge
//!   (`index_answer`). An ordinal is the number of an email within a fold, newest first.

use std::collections::{BTreeSet, VecDeque};

use crate::model::{AccountId, EmailId, ModSeq, Token, WantedTokens};
use crate::query::Allowance;
use crate::query::search::term::{SearchTerm, TermPiece, TextRemainder};
use crate::store::{Error, Fold, Ordinals, Postings, Snapshot};

/// The most hits that one scan of the token rows collects.
const MAX_SCAN_HITS: usize = 64;

#[derive(Debug)]
pub(in crate::query) struct Hits<'v> {
    snapshot: &'v Snapshot<'v>,
    account: AccountId,
    term: SearchTerm,
    reads: Allowance,
    /// `None` before the first seek.
    sources: Option<Vec<HitSource<'v>>>,
    /// The position of each source that may have more hits, with the index of the source in
    /// `sources`. At the same email a known hit sorts first, because then the other source need not
    /// be read.
    ahead: BTreeSet<(EmailId, SourcePosition, usize)>,
    /// The email of the last seek. Hits before it are no longer known.
    last_seek: EmailId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SourcePosition {
    /// The email of the position is the next hit of the source.
    Hit,
    /// The next hit of the source is the email of the position or an older one.
    Before,
}

impl<'v> Hits<'v> {
    pub(in crate::query) fn new(
        snapshot: &'v Snapshot<'v>,
        account: AccountId,
        term: &SearchTerm,
        reads: &Allowance,
    ) -> Self {
        let (term, reads) = (term.clone(), reads.clone());
        Self {
            snapshot,
            account,
            term,
            reads,
            sources: None,
            ahead: BTreeSet::new(),
            last_seek: EmailId(0),
        }
    }

    pub(in crate::query) fn restarted(&self) -> Self {
        Self::new(self.snapshot, self.account, &self.term, &self.reads)
    }

    /// Whether a seek to `id` would restart.
    pub(in crate::query) fn is_beyond(&self, id: EmailId) -> bool {
        self.sources.is_some() && id < self.last_seek
    }

    /// Returns the first hit at or after `from`. A seek from older to newer emails restarts.
    pub(in crate::query) fn seek(&mut self, from: EmailId) -> Result<Option<EmailId>, Error> {
        self.open(from)?;
        while let Some((at, position, _)) = self.ahead.first() {
            if *position == SourcePosition::Hit && *at >= from {
                return Ok(Some(*at));
            }
            self.advance(from)?;
        }
        Ok(None)
    }

    /// Returns `None` if the email `id` does not have the term. Otherwise the email may have it, if
    /// it was created at or before the returned change; an email that was created later has the id
    /// of a purged one.
    pub(in crate::query) fn index_answer(&mut self, id: EmailId) -> Result<Option<ModSeq>, Error> {
        self.open(id)?;
        // First the sources whose position is before the email are advanced, then those that may
        // have the email as their next hit.
        while self.ahead.first().is_some_and(|(at, ..)| *at < id) {
            self.advance(id)?;
        }
        let unsure = self
            .ahead
            .range((id, SourcePosition::Before, 0)..=(id, SourcePosition::Before, usize::MAX));
        for place in unsure.copied().collect::<Vec<_>>() {
            self.advance_one(place, id)?;
        }
        let hits =
            self.ahead.range((id, SourcePosition::Hit, 0)..=(id, SourcePosition::Hit, usize::MAX));
        let sources = self.sources.as_deref().unwrap_or_default();
        Ok(hits.filter_map(|(.., number)| sources.get(*number)).map(HitSource::created_upto).max())
    }

    /// Opens the sources before the first seek, and anew for a seek backwards.
    fn open(&mut self, from: EmailId) -> Result<(), Error> {
        if self.sources.is_none() || self.is_beyond(from) {
            let folds = self.snapshot.folds(self.account)?.live;
            let left = self.snapshot.account_state(self.account)?.unfolded;
            self.ahead.clear();
            // Source 0 are the rows, and the folds follow. The rows may begin with any email.
            self.ahead.insert((EmailId(0), SourcePosition::Before, 0));
            self.ahead.extend(
                (1..)
                    .zip(&folds)
                    .map(|(number, fold)| (fold.newest, SourcePosition::Before, number)),
            );
            let wanted = self.term.tokens();
            let rows = HitSource::Rows { wanted, left, ahead: VecDeque::new(), batch: 1 };
            let folds = folds.into_iter().map(|fold| HitSource::Fold { fold, walk: None });
            self.sources = Some(std::iter::once(rows).chain(folds).collect());
        }
        self.last_seek = from;
        Ok(())
    }

    fn advance(&mut self, from: EmailId) -> Result<(), Error> {
        self.ahead.first().copied().map_or(Ok(()), |place| self.advance_one(place, from))
    }

    /// Advances the source of an entry of `ahead` to its first hit at or after `from`. A source
    /// without further hits leaves `ahead`.
    fn advance_one(
        &mut self,
        place: (EmailId, SourcePosition, usize),
        from: EmailId,
    ) -> Result<(), Error> {
        let (at, _, number) = place;
        self.ahead.remove(&place);
        let source = self.sources.as_deref_mut().and_then(|sources| sources.get_mut(number));
        let found = source.map_or(Ok(None), |source| {
            source.seek(self.snapshot, self.account, (&self.term, &self.reads), at.max(from))
        })?;
        self.ahead.extend(found.map(|id| (id, SourcePosition::Hit, number)));
        Ok(())
    }
}

#[derive(Debug)]
enum HitSource<'v> {
    /// The unfolded token rows.
    Rows {
        wanted: WantedTokens,
        /// The number of rows still to be read. A scan beyond them might have to skip many deleted
        /// rows.
        left: u64,
        /// The hits that were read and not passed yet.
        ahead: VecDeque<EmailId>,
        /// The most hits that the next scan collects.
        batch: usize,
    },
    Fold {
        fold: Fold,
        /// `None` before the fold is first read.
        walk: Option<(FoldWalk<'v>, Ordinals<'v>)>,
    },
}

impl<'v> HitSource<'v> {
    /// Returns the change at or before which all emails of the source were created.
    fn created_upto(&self) -> ModSeq {
        match self {
            Self::Rows { .. } => ModSeq(u64::MAX),
            Self::Fold { fold, .. } => fold.created_upto,
        }
    }

    /// Returns the first hit of the source at or after `from`. Later calls must not go back.
    fn seek(
        &mut self,
        snapshot: &'v Snapshot<'v>,
        account: AccountId,
        (term, reads): (&SearchTerm, &Allowance),
        from: EmailId,
    ) -> Result<Option<EmailId>, Error> {
        match self {
            Self::Rows { wanted, left, ahead, batch } => {
                ahead.retain(|id| *id >= from);
                if ahead.is_empty() && *left > 0 {
                    snapshot.scan_unfolded_tokens(account, from, wanted, |id, tokens| {
                        *left = left.saturating_sub(1);
                        ahead.extend(term.matches(&tokens).then_some(id));
                        Ok(ahead.len() < *batch && *left > 0)
                    })?;
                    // The scan came to the end of the rows.
                    if ahead.len() < *batch {
                        *left = 0;
                    }
                    *batch = batch.saturating_mul(4).min(MAX_SCAN_HITS);
                }
                Ok(ahead.front().copied())
            }
            Self::Fold { fold, .. } if from > fold.oldest => Ok(None),
            Self::Fold { fold, walk } => {
                let (walk, emails) = walk.get_or_insert_with(|| {
                    (
                        FoldWalk::new(snapshot, account, *fold, term, reads),
                        snapshot.fold_ordinals(account, *fold),
                    )
                });
                let first = if from <= fold.newest { Some(0) } else { emails.seek(from)? };
                match first.map_or(Ok(None), |first| walk.seek(first))? {
                    Some(ordinal) => Ok(emails.email(ordinal)?),
                    None => Ok(None),
                }
            }
        }
    }
}

/// The ordinals in a fold that are hits of all pieces of a term.
#[derive(Debug)]
struct FoldWalk<'v>(Vec<PieceWalk<'v>>);

impl<'v> FoldWalk<'v> {
    fn new(
        snapshot: &'v Snapshot<'v>,
        account: AccountId,
        fold: Fold,
        term: &SearchTerm,
        reads: &Allowance,
    ) -> Self {
        let piece = |piece: &TermPiece| PieceWalk {
            snapshot,
            account,
            fold,
            words: piece
                .phrase
                .iter()
                .filter(|_| piece.fields != 0)
                .map(|word| snapshot.postings(account, fold.id, Token::Word(word.hash)))
                .collect(),
            texts: None,
            piece: piece.clone(),
            reads: reads.clone(),
        };
        Self(term.pieces.iter().map(piece).collect())
    }

    fn seek(&mut self, ordinal: u32) -> Result<Option<u32>, Error> {
        let mut at = ordinal;
        loop {
            let before = at;
            for piece in &mut self.0 {
                match piece.seek(at)? {
                    Some(found) => at = found,
                    None => return Ok(None),
                }
            }
            if at == before {
                return Ok(Some(at));
            }
        }
    }
}

/// The ordinals in a fold that are hits of one piece, by its texts or by its phrase.
#[derive(Debug)]
struct PieceWalk<'v> {
    snapshot: &'v Snapshot<'v>,
    account: AccountId,
    fold: Fold,
    piece: TermPiece,
    reads: Allowance,
    /// The postings of each word of the phrase; empty if only texts can match.
    words: Vec<Postings<'v>>,
    /// The ordinals of the emails that have one of the texts, ascending; `None` before the first
    /// seek.
    texts: Option<Vec<u32>>,
}

impl PieceWalk<'_> {
    fn seek(&mut self, ordinal: u32) -> Result<Option<u32>, Error> {
        // An old fold lacks the tokens of Delivered-To, so each of its emails may have the field.
        if self.piece.matches_old_folds && !self.fold.knows_delivery {
            return Ok(Some(ordinal).filter(|ordinal| *ordinal < self.fold.emails));
        }
        let text = self.text_from(ordinal)?;
        let phrase = self.phrase_from(ordinal)?;
        Ok(text.into_iter().chain(phrase).min())
    }

    fn text_from(&mut self, ordinal: u32) -> Result<Option<u32>, Error> {
        if self.piece.texts.is_empty() || self.piece.text_fields == 0 {
            return Ok(None);
        }
        if self.texts.is_none() {
            let mut all = Vec::new();
            let (account, fold) = (self.account, self.fold.id);
            for text in &self.piece.texts {
                let found = match text.rest {
                    TextRemainder::Nothing => {
                        self.snapshot.postings_of_text(account, fold, &text.prefix)?
                    }
                    TextRemainder::Anything => {
                        self.snapshot.postings_of_texts(account, fold, &text.prefix)?
                    }
                    TextRemainder::Parts(_) => {
                        let (mut found, known) =
                            (Vec::new(), self.snapshot.texts(account, fold, &text.prefix)?);
                        self.reads.count_rows(known.len());
                        for one in known.iter().filter(|one| text.matches(one)) {
                            self.reads.count_rows(1);
                            found.extend(self.snapshot.postings_of_text(account, fold, one)?);
                        }
                        found
                    }
                };
                let fields = self.piece.text_fields;
                all.extend(
                    found
                        .into_iter()
                        .filter(|(_, of)| of & fields != 0)
                        .map(|(ordinal, _)| ordinal),
                );
            }
            all.sort_unstable();
            self.texts = Some(all);
        }
        let all = self.texts.as_deref().unwrap_or_default();
        Ok(all.get(all.partition_point(|known| *known < ordinal)).copied())
    }

    fn phrase_from(&mut self, ordinal: u32) -> Result<Option<u32>, Error> {
        if self.words.is_empty() {
            return Ok(None);
        }
        let mut at = ordinal;
        loop {
            let before = at;
            for word in &mut self.words {
                match word.seek(at)? {
                    Some(posting) => at = posting.ordinal,
                    None => return Ok(None),
                }
            }
            if at != before {
                continue;
            }
            let all: Vec<&[u32]> = self
                .words
                .iter()
                .map(|word| word.current().map_or(&[][..], |posting| &posting.positions))
                .collect();
            if self.piece.is_at(&all) {
                return Ok(Some(at));
            }
            match at.checked_add(1) {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
    }
}
