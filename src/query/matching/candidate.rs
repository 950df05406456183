//! Reads what the conditions of a filter need of an email: its rows, its message, and the search
//! index. Each is read when a condition first needs it, unless it was fetched before
//! (`FetchedEmail`).

use smallvec::SmallVec;

use crate::message::header::{body_offset, has_whole_header};
use crate::model::{AccountId, EmailContent, EmailId, EmailMetadata, ModSeq};
use crate::query::matching::evaluate::Matcher;
use crate::query::matching::threads::{EmailsWithKeyword, Threads};
use crate::query::search::hits::Hits;
use crate::query::{Allowance, Error, QuerySpec};
use crate::store::Snapshot;

/// Reading this many bytes of a message for its header counts as reading one row.
const ROW_BYTES: usize = 1024;

/// What the candidates of one query share.
#[derive(Debug)]
pub(in crate::query) struct CandidateSource<'v> {
    pub(in crate::query) snapshot: &'v Snapshot<'v>,
    pub(in crate::query) account: AccountId,
    pub(in crate::query) threads: Threads<'v>,
    pub(in crate::query) reads: Allowance,
    /// By the number of the search term (`Matcher::terms`).
    hits: Vec<TermHits<'v>>,
    /// For each alternative of the matcher (`Matcher::alternatives`): where the last search for a
    /// possible match began, and the email that was found, if any. `None` before the first search.
    last_searches: Vec<Option<(EmailId, Option<EmailId>)>>,
}

/// What the search index tells about an email id, by the number of the search term: `None` if no
/// email with the id has the term. Otherwise an email created at or before this change may have it.
/// One created later has been given the id of a purged email, and does not have the term.
pub(in crate::query) type IndexAnswer = SmallVec<[Option<ModSeq>; 2]>;

/// Two iterators over the emails that may contain one search term. An AND advances `leading` past
/// emails that another branch of an OR still asks about; `trailing` answers for those, so that
/// neither restarts.
#[derive(Debug)]
struct TermHits<'v> {
    leading: Hits<'v>,
    trailing: Option<Hits<'v>>,
}

impl<'v> CandidateSource<'v> {
    pub(in crate::query) fn new(
        snapshot: &'v Snapshot<'v>,
        spec: &'v QuerySpec,
        matcher: &Matcher,
    ) -> Self {
        let account = spec.account;
        let hits_of = |term| TermHits {
            leading: Hits::new(snapshot, account, term, &spec.reads),
            trailing: None,
        };
        let hits = matcher.terms().iter().map(hits_of).collect();
        Self {
            snapshot,
            account,
            threads: Threads::new(snapshot, account, spec.scope.as_ref(), spec.reads.clone()),
            reads: spec.reads.clone(),
            hits,
            last_searches: vec![None; matcher.alternatives()],
        }
    }

    /// Returns the answers of the index for all search terms.
    pub(in crate::query) fn index_answer(&mut self, id: EmailId) -> Result<IndexAnswer, Error> {
        (0..self.hits.len()).map(|term| self.term_answer(term, id)).collect()
    }

    fn term_answer(&mut self, term: usize, id: EmailId) -> Result<Option<ModSeq>, Error> {
        let Some(TermHits { leading, trailing }) = self.hits.get_mut(term) else {
            return Ok(None);
        };
        let walk = if leading.is_beyond(id) {
            trailing.get_or_insert_with(|| leading.restarted())
        } else {
            leading
        };
        Ok(walk.index_answer(id)?)
    }

    /// Returns the first email at or after `from`, from newer to older, that may have a term. The
    /// email may be destroyed. Cheap only if calls go from newer to older.
    pub(in crate::query) fn next_hit(
        &mut self,
        term: usize,
        from: EmailId,
    ) -> Result<Option<EmailId>, Error> {
        Ok(self.hits.get_mut(term).map_or(Ok(Some(from)), |hits| hits.leading.seek(from))?)
    }

    /// Returns what the last search of an alternative tells about the first email at or after
    /// `from` that it may match: `Some(None)` if there is none, `None` if a new search is needed.
    pub(in crate::query) fn next_known(
        &self,
        alternative: usize,
        from: EmailId,
    ) -> Option<Option<EmailId>> {
        let (start, found) = self.last_searches.get(alternative).copied().flatten()?;
        (start <= from && found.is_none_or(|found| found >= from)).then_some(found)
    }

    /// Remembers the result of a search of an alternative from `from` on, for `next_known`.
    pub(in crate::query) fn remember_next(
        &mut self,
        alternative: usize,
        from: EmailId,
        found: Option<EmailId>,
    ) {
        if let Some(search) = self.last_searches.get_mut(alternative) {
            *search = Some((from, found));
        }
    }
}

/// What was fetched of an email. Of two nested `Option`s, the outer says whether it was fetched,
/// the inner whether it exists.
#[derive(Debug, Default)]
pub(in crate::query) struct FetchedEmail {
    content: Option<Option<(Vec<u8>, EmailContent)>>,
    pub(in crate::query) received: Option<Option<Vec<u8>>>,
    header: Option<Option<Vec<u8>>>,
    index_answer: Option<IndexAnswer>,
}

impl FetchedEmail {
    pub(in crate::query) fn of(index_answer: IndexAnswer) -> Self {
        Self { index_answer: Some(index_answer), ..Self::default() }
    }
}

/// The trace prefix, and a beginning of the message that has the whole header, or at least
/// `limits::MAX_HEADER_BYTES` of it.
type HeaderBytes<'h> = (&'h [u8], &'h [u8]);

/// An email that a filter decides or that is sorted, with what was fetched of it.
#[derive(Debug)]
pub(in crate::query) struct Candidate<'s, 'v> {
    source: &'s mut CandidateSource<'v>,
    pub(in crate::query) id: EmailId,
    pub(in crate::query) metadata: &'s EmailMetadata,
    fetched: FetchedEmail,
    /// Whether the message may be read. Rows always may.
    may_read: bool,
}

impl<'s, 'v> Candidate<'s, 'v> {
    pub(in crate::query) fn new(
        source: &'s mut CandidateSource<'v>,
        id: EmailId,
        metadata: &'s EmailMetadata,
    ) -> Self {
        Self { source, id, metadata, fetched: FetchedEmail::default(), may_read: true }
    }

    pub(in crate::query) fn with_fetched(self, fetched: FetchedEmail) -> Self {
        Self { fetched, ..self }
    }

    /// Forbids reading the message. A condition that needs it is then not known
    /// (`Matcher::decide`).
    pub(in crate::query) fn without_reading(self) -> Self {
        Self { may_read: false, ..self }
    }

    pub(in crate::query) fn into_fetched(self) -> FetchedEmail {
        self.fetched
    }

    pub(in crate::query) fn content(&mut self) -> Result<Option<&EmailContent>, Error> {
        Ok(self.content_row()?.map(|(_, content)| content))
    }

    fn content_row(&mut self) -> Result<Option<&(Vec<u8>, EmailContent)>, Error> {
        if self.fetched.content.is_none() {
            self.source.reads.count_rows(1);
            self.fetched.content =
                Some(self.source.snapshot.content(self.source.account, self.id)?);
        }
        Ok(self.fetched.content.as_ref().and_then(Option::as_ref))
    }

    /// Whether the email may have a search term, by the search index; `None` if it is destroyed,
    /// because the index forgets destroyed emails.
    pub(in crate::query) fn may_contain(&mut self, term: usize) -> Result<Option<bool>, Error> {
        if self.metadata.destroyed.is_some() {
            return Ok(None);
        }
        let index_answer = match &self.fetched.index_answer {
            Some(index_answer) => index_answer.get(term).copied().flatten(),
            None => self.source.term_answer(term, self.id)?,
        };
        Ok(Some(index_answer.is_some_and(|modseq| self.metadata.created <= modseq)))
    }

    /// Returns the message as received. `None` if the email is destroyed, the message is missing,
    /// or it was not fetched and must not be read (`without_reading`).
    pub(in crate::query) fn received(&mut self) -> Result<Option<&[u8]>, Error> {
        if self.fetched.received.is_none() && self.may_read {
            let live = self.metadata.destroyed.is_none();
            let snapshot = self.source.snapshot;
            if live {
                self.source.reads.charge_bytes(self.metadata.size)?;
            }
            self.fetched.received =
                Some(if live { snapshot.raw_message(&self.metadata.blob)? } else { None });
        }
        Ok(self.fetched.received.as_ref().and_then(Option::as_deref))
    }

    /// Returns the trace prefix, and the header of the message or the whole message. `None` in the
    /// cases of [`Self::received`], and if the email has no content row.
    pub(in crate::query) fn header(&mut self) -> Result<Option<HeaderBytes<'_>>, Error> {
        if self.fetched.received.is_none() && self.fetched.header.is_none() && self.may_read {
            let live = self.metadata.destroyed.is_none();
            let snapshot = self.source.snapshot;
            let mut read = if live {
                snapshot.raw_message_until(&self.metadata.blob, &has_whole_header)?
            } else {
                None
            };
            // The message is read in large steps until the header is whole. All bytes that were
            // read count as rows. The bytes charged are those of the header, because only these are
            // kept.
            if let Some(read) = &mut read {
                self.source.reads.count_rows(read.len() / ROW_BYTES);
                read.truncate(body_offset(read));
                self.source.reads.charge_bytes(read.len() as u64)?;
            }
            self.fetched.header = Some(read);
        }
        if !self.may_read && self.fetched.received.is_none() && self.fetched.header.is_none() {
            return Ok(None);
        }
        self.content_row()?;
        let fetched = &self.fetched;
        let prefix =
            fetched.content.as_ref().and_then(Option::as_ref).map(|(prefix, _)| prefix.as_slice());
        let beginning =
            fetched.received.as_ref().or(fetched.header.as_ref()).and_then(Option::as_deref);
        Ok(prefix.zip(beginning))
    }

    pub(in crate::query) fn emails_with_keyword(
        &mut self,
        keyword: &str,
    ) -> Result<EmailsWithKeyword, Error> {
        self.source.threads.emails_with_keyword(self.metadata.thread, keyword)
    }
}
