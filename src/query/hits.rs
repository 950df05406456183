//! What the search index says of one text: which emails may have it, newest first, from the token rows that are not folded
//! and from the folds.
//!
//! - An email that is not a hit surely has not the text; one that is very likely has it (words are hashes of 28 bits), and
//!   `Needle::confirms` makes sure by the message.
//! - Every source is walked only as far as it is asked: a fold whose emails are all older than what is wanted, or all
//!   newer, is not opened, and of a word's postings only those blocks are read that the other words leave, so that a
//!   phrase costs what its rarest word does.
//! - A fold may name emails that are gone, and an id that came again after a purge: `may_have` asks when the email was made.

use super::text::{Needle, Piece};
use crate::model::{AccountId, EmailId, ModSeq, Token};
use crate::store::{Error, Fold, Ordinals, Postings, View};

/// A walk over the emails that may have a needle.
#[derive(Debug)]
pub(super) struct Hits<'v> {
    view: &'v View<'v>,
    account: AccountId,
    needle: Needle,
    /// None before the first question.
    sources: Option<Vec<Source<'v>>>,
    /// The last question; what comes before it is not known any more.
    asked: EmailId,
}

impl<'v> Hits<'v> {
    pub(super) fn new(view: &'v View<'v>, account: AccountId, needle: &Needle) -> Self {
        Self { view, account, needle: needle.clone(), sources: None, asked: EmailId(0) }
    }

    /// The first hit not before an email. Questions run from newer to older emails, else the walk begins again.
    pub(super) fn seek(&mut self, from: EmailId) -> Result<Option<EmailId>, Error> {
        self.open(from)?;
        let sources = self.sources.as_deref_mut().unwrap_or_default();
        loop {
            let ahead = sources.iter_mut().filter_map(|source| source.bound(from).map(|bound| (bound, source)));
            // Of two at one place the hit: the other need not be looked into.
            let Some((bound, source)) = ahead.min_by_key(|(bound, source)| (*bound, !source.is_hit)) else {
                return Ok(None);
            };
            if source.is_at(bound) {
                return Ok(Some(bound));
            }
            source.advance(self.view, self.account, &self.needle, bound)?;
        }
    }

    /// Whether a live email that was made at `created` may have the needle.
    pub(super) fn may_have(&mut self, id: EmailId, created: ModSeq) -> Result<bool, Error> {
        self.open(id)?;
        for source in self.sources.as_deref_mut().unwrap_or_default() {
            if source.bound(id) == Some(id) && !source.is_at(id) {
                source.advance(self.view, self.account, &self.needle, id)?;
            }
            if source.is_at(id) && source.made() >= created {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn open(&mut self, from: EmailId) -> Result<(), Error> {
        if self.sources.is_none() || from < self.asked {
            let folds = self.view.folds(self.account)?.live.into_iter().map(|fold| Source {
                from: Some(fold.newest),
                is_hit: false,
                kind: Kind::Fold { fold, walk: None },
            });
            let left = self.view.account_state(self.account)?.unfolded;
            let rows = Source { from: Some(EmailId(0)), is_hit: false, kind: Kind::Rows { left } };
            self.sources = Some(std::iter::once(rows).chain(folds).collect());
        }
        self.asked = from;
        Ok(())
    }
}

/// Where emails are found.
#[derive(Debug)]
struct Source<'v> {
    /// The next hit is not before this email; none where there is no more.
    from: Option<EmailId>,
    /// It is this email.
    is_hit: bool,
    kind: Kind<'v>,
}

#[derive(Debug)]
enum Kind<'v> {
    /// No more than `left` of them are still to be read: behind the last an engine may have the remains of thousands that
    /// were folded, and would walk over them for nothing.
    Rows {
        left: u64,
    },
    Fold {
        fold: Fold,
        walk: Option<(Walk<'v>, Ordinals<'v>)>,
    },
}

impl<'v> Source<'v> {
    /// Its next hit from an email on is not before this one; none where there is no more.
    fn bound(&self, from: EmailId) -> Option<EmailId> {
        self.from.map(|known| known.max(from))
    }

    fn is_at(&self, id: EmailId) -> bool {
        self.is_hit && self.from == Some(id)
    }

    /// No email that it tells of is younger.
    fn made(&self) -> ModSeq {
        match &self.kind {
            Kind::Rows { .. } => ModSeq(u64::MAX),
            Kind::Fold { fold, .. } => fold.made,
        }
    }

    /// Finds the next hit from an email on.
    fn advance(&mut self, view: &'v View<'v>, account: AccountId, needle: &Needle, from: EmailId) -> Result<(), Error> {
        let mut found = None;
        match &mut self.kind {
            Kind::Rows { left: 0 } => {}
            Kind::Rows { left } => view.unfolded(account, from, |id, tokens| {
                *left = left.saturating_sub(1);
                found = needle.matches(&tokens).then_some(id);
                Ok(found.is_none() && *left > 0)
            })?,
            Kind::Fold { fold, .. } if from > fold.oldest => {}
            Kind::Fold { fold, walk } => {
                let (walk, emails) = walk.get_or_insert_with(|| {
                    (Walk::new(view, account, *fold, needle), view.fold_ordinals(account, *fold))
                });
                let first = if from <= fold.newest { Some(0) } else { emails.seek(from)? };
                if let Some(ordinal) = first.map_or(Ok(None), |first| walk.seek(first))? {
                    found = emails.email(ordinal)?;
                }
            }
        }
        (self.from, self.is_hit) = (found, found.is_some());
        Ok(())
    }
}

/// A needle in a fold: all its pieces.
#[derive(Debug)]
struct Walk<'v>(Vec<PieceWalk<'v>>);

impl<'v> Walk<'v> {
    fn new(view: &'v View<'v>, account: AccountId, fold: Fold, needle: &Needle) -> Self {
        let piece = |piece: &Piece| PieceWalk {
            view,
            account,
            fold,
            words: piece
                .phrase
                .iter()
                .filter(|_| piece.fields != 0)
                .map(|sought| view.postings(account, fold.id, Token::Word(sought.hash)))
                .collect(),
            texts: None,
            piece: piece.clone(),
        };
        Self(needle.pieces.iter().map(piece).collect())
    }

    /// The first email not before `ordinal` that has every piece.
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

/// A piece in a fold.
#[derive(Debug)]
struct PieceWalk<'v> {
    view: &'v View<'v>,
    account: AccountId,
    fold: Fold,
    piece: Piece,
    words: Vec<Postings<'v>>,
    /// Emails that have one of the texts, ascending; read when they are first asked for.
    texts: Option<Vec<u32>>,
}

impl PieceWalk<'_> {
    fn seek(&mut self, ordinal: u32) -> Result<Option<u32>, Error> {
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
            for text in &self.piece.texts {
                let found = if text.whole {
                    self.view.postings_of_text(self.account, self.fold.id, &text.begins)?
                } else {
                    self.view.postings_of_texts(self.account, self.fold.id, &text.begins)?
                };
                let fields = self.piece.text_fields;
                all.extend(found.into_iter().filter(|(_, of)| of & fields != 0).map(|(ordinal, _)| ordinal));
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
            let all: Vec<&[u32]> =
                self.words.iter().map(|word| word.current().map_or(&[][..], |posting| &posting.positions)).collect();
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
