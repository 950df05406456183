//! One email under examination: its facts, and what must be fetched to decide a condition, each at
//! most once.

use smallvec::SmallVec;

use crate::message::header::{body_offset, has_whole_header};
use crate::model::{AccountId, EmailContent, EmailId, EmailMetadata, ModSeq};
use crate::query::matching::evaluate::Matcher;
use crate::query::matching::threads::{KeywordShare, Threads};
use crate::query::search::hits::Hits;
use crate::query::{Allowance, Error, QuerySpec};
use crate::store::Snapshot;

/// Bytes of a message that cost about as much as a row of an email.
const ROW_BYTES: usize = 1024;

/// Where candidates read.
#[derive(Debug)]
pub(in crate::query) struct CandidateSource<'v> {
    pub(in crate::query) snapshot: &'v Snapshot<'v>,
    pub(in crate::query) account: AccountId,
    pub(in crate::query) threads: Threads<'v>,
    /// What may be read of messages.
    pub(in crate::query) reads: Allowance,
    /// What the search index says, by the number of the matcher's needle.
    hits: Vec<TermHits<'v>>,
    /// Of each alternative of the matcher: from where it was sought last, and where it may match
    /// next.
    ahead: Vec<Option<(EmailId, Option<EmailId>)>>,
}

/// What the search index says of an email, as `CandidateSource::told` has it.
pub(in crate::query) type IndexAnswer = SmallVec<[Option<ModSeq>; 2]>;

/// Two walks over the hits of a needle. Where several needles must meet, the one that leads goes
/// far beyond an email that another alternative names: what is said of that is said by the one that
/// follows. Of emails that are asked for from newer to older neither begins again.
#[derive(Debug)]
struct TermHits<'v> {
    leading: Hits<'v>,
    trailing: Option<Hits<'v>>,
}

impl<'v> CandidateSource<'v> {
    /// For a matcher of these results.
    pub(in crate::query) fn new(
        snapshot: &'v Snapshot<'v>,
        results: &'v QuerySpec,
        matcher: &Matcher,
    ) -> Self {
        let account = results.account;
        let asked = |term| TermHits {
            leading: Hits::new(snapshot, account, term, &results.reads),
            trailing: None,
        };
        let hits = matcher.terms().iter().map(asked).collect();
        Self {
            snapshot,
            account,
            threads: Threads::new(snapshot, account, results.scope.as_ref(), results.reads.clone()),
            reads: results.reads.clone(),
            hits,
            ahead: vec![None; matcher.alternatives()],
        }
    }

    /// What the search index says of an email, by the number of the needle: whether it may have it,
    /// and then that no email made later is meant.
    pub(in crate::query) fn index_answer(&mut self, id: EmailId) -> Result<IndexAnswer, Error> {
        (0..self.hits.len()).map(|term| self.fold_modseq(term, id)).collect()
    }

    /// Returns what the search index says of an email for one needle.
    fn fold_modseq(&mut self, term: usize, id: EmailId) -> Result<Option<ModSeq>, Error> {
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

    /// The first email not before `from` that may have a needle of the matcher.
    pub(in crate::query) fn next_hit(
        &mut self,
        term: usize,
        from: EmailId,
    ) -> Result<Option<EmailId>, Error> {
        Ok(self.hits.get_mut(term).map_or(Ok(Some(from)), |hits| hits.leading.seek(from))?)
    }

    /// The first email not before `from` at which an alternative may match, where that is known.
    pub(in crate::query) fn next_known(
        &self,
        alternative: usize,
        from: EmailId,
    ) -> Option<Option<EmailId>> {
        let (asked, found) = self.ahead.get(alternative).copied().flatten()?;
        (asked <= from && found.is_none_or(|found| found >= from)).then_some(found)
    }

    /// Takes note of it.
    pub(in crate::query) fn remember_next(
        &mut self,
        alternative: usize,
        from: EmailId,
        found: Option<EmailId>,
    ) {
        if let Some(ahead) = self.ahead.get_mut(alternative) {
            *ahead = Some((from, found));
        }
    }
}

/// What was fetched of an email.
#[derive(Debug, Default)]
pub(in crate::query) struct FetchedEmail {
    content: Option<Option<(Vec<u8>, EmailContent)>>,
    /// The message as it was received.
    pub(in crate::query) received: Option<Option<Vec<u8>>>,
    /// The beginning of the message, with its header.
    header: Option<Option<Vec<u8>>>,
    /// As `CandidateSource::told` has it.
    index_answer: Option<IndexAnswer>,
}

impl FetchedEmail {
    /// Of which the search index told this.
    pub(in crate::query) fn of(index_answer: IndexAnswer) -> Self {
        Self { index_answer: Some(index_answer), ..Self::default() }
    }
}

/// The trace fields of an email's delivery, and the beginning of its message with its own fields.
type HeaderBytes<'h> = (&'h [u8], &'h [u8]);

/// An email, or the tombstone of one.
#[derive(Debug)]
pub(in crate::query) struct Candidate<'s, 'v> {
    source: &'s mut CandidateSource<'v>,
    pub(in crate::query) id: EmailId,
    pub(in crate::query) metadata: &'s EmailMetadata,
    fetched: FetchedEmail,
    /// Messages may be read for it.
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

    /// Of which something is known already.
    pub(in crate::query) fn with_fetched(self, fetched: FetchedEmail) -> Self {
        Self { fetched, ..self }
    }

    /// For which no message is read: what takes one is not known.
    pub(in crate::query) fn without_reading(self) -> Self {
        Self { may_read: false, ..self }
    }

    /// What is known of it by now.
    pub(in crate::query) fn into_fetched(self) -> FetchedEmail {
        self.fetched
    }

    /// What a list shows of it.
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

    /// Whether it may have a needle of the matcher: not known of what is destroyed.
    pub(in crate::query) fn may_contain(&mut self, term: usize) -> Result<Option<bool>, Error> {
        if self.metadata.deleted.is_some() {
            return Ok(None);
        }
        let index_answer = match &self.fetched.index_answer {
            Some(index_answer) => index_answer.get(term).copied().flatten(),
            None => self.source.fold_modseq(term, self.id)?,
        };
        Ok(Some(index_answer.is_some_and(|made| made >= self.metadata.created)))
    }

    /// The message as it was received; none of what is destroyed.
    pub(in crate::query) fn received(&mut self) -> Result<Option<&[u8]>, Error> {
        if self.fetched.received.is_none() && self.may_read {
            let live = self.metadata.deleted.is_none();
            let snapshot = self.source.snapshot;
            if live {
                self.source.reads.charge_bytes(self.metadata.size)?;
            }
            self.fetched.received =
                Some(if live { snapshot.raw_message(&self.metadata.blob)? } else { None });
        }
        Ok(self.fetched.received.as_ref().and_then(Option::as_deref))
    }

    /// Its header: the trace fields of its delivery, and the beginning of the message with its own
    /// fields. None of what is destroyed.
    pub(in crate::query) fn header(&mut self) -> Result<Option<HeaderBytes<'_>>, Error> {
        if self.fetched.received.is_none() && self.fetched.header.is_none() && self.may_read {
            let live = self.metadata.deleted.is_none();
            let snapshot = self.source.snapshot;
            let mut read = if live {
                snapshot.raw_message_until(&self.metadata.blob, &has_whole_header)?
            } else {
                None
            };
            // A message comes in whole frames: they are counted among the rows, by their size, and
            // the bytes are those of the header, which alone are looked at and kept.
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

    /// Which emails of its thread have a keyword.
    pub(in crate::query) fn thread_share(&mut self, word: &str) -> Result<KeywordShare, Error> {
        self.source.threads.share(self.metadata.thread, word)
    }
}
