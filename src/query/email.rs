//! One email under examination: its facts, and what must be fetched to decide a condition, each at most once.

use super::Error;
use super::evaluate::Matcher;
use super::hits::Hits;
use super::threads::{Share, Threads};
use crate::model::{AccountId, EmailContent, EmailId, EmailMetadata, ModSeq};
use crate::store::View;

/// Where candidates read.
#[derive(Debug)]
pub(super) struct Source<'v> {
    pub(super) view: &'v View<'v>,
    pub(super) account: AccountId,
    pub(super) threads: Threads<'v>,
    /// What the search index says, by the number of the matcher's needle.
    hits: Vec<Hits<'v>>,
}

impl<'v> Source<'v> {
    /// For a matcher.
    pub(super) fn new(view: &'v View<'v>, account: AccountId, matcher: &Matcher) -> Self {
        let hits = matcher.needles().iter().map(|needle| Hits::new(view, account, needle)).collect();
        Self { view, account, threads: Threads::new(view, account), hits }
    }

    /// What the search index says of an email, by the number of the needle: whether it may have it, and then that no email
    /// made later is meant.
    pub(super) fn told(&mut self, id: EmailId) -> Result<Vec<Option<ModSeq>>, Error> {
        self.hits.iter_mut().map(|hits| Ok(hits.told(id)?)).collect()
    }

    /// The first email not before `from` that may have a needle of the matcher.
    pub(super) fn next_hit(&mut self, needle: usize, from: EmailId) -> Result<Option<EmailId>, Error> {
        Ok(self.hits.get_mut(needle).map_or(Ok(Some(from)), |hits| hits.seek(from))?)
    }
}

/// What was fetched of an email.
#[derive(Debug, Default)]
pub(super) struct Facts {
    content: Option<Option<(Vec<u8>, EmailContent)>>,
    /// The message as it was received.
    pub(super) received: Option<Option<Vec<u8>>>,
    message: Option<Option<Vec<u8>>>,
    /// As `Source::told` has it.
    told: Option<Vec<Option<ModSeq>>>,
}

impl Facts {
    /// Of which the search index told this.
    pub(super) fn of(told: Vec<Option<ModSeq>>) -> Self {
        Self { told: Some(told), ..Self::default() }
    }
}

/// An email, or the tombstone of one.
#[derive(Debug)]
pub(super) struct Candidate<'s, 'v> {
    source: &'s mut Source<'v>,
    pub(super) id: EmailId,
    pub(super) metadata: &'s EmailMetadata,
    facts: Facts,
    /// Messages may be read for it.
    reads: bool,
}

impl<'s, 'v> Candidate<'s, 'v> {
    pub(super) fn new(source: &'s mut Source<'v>, id: EmailId, metadata: &'s EmailMetadata) -> Self {
        Self { source, id, metadata, facts: Facts::default(), reads: true }
    }

    /// Of which something is known already.
    pub(super) fn knowing(self, facts: Facts) -> Self {
        Self { facts, ..self }
    }

    /// For which no message is read: what takes one is not known.
    pub(super) fn unread(self) -> Self {
        Self { reads: false, ..self }
    }

    /// What is known of it by now.
    pub(super) fn into_facts(self) -> Facts {
        self.facts
    }

    /// What a list shows of it.
    pub(super) fn content(&mut self) -> Result<Option<&EmailContent>, Error> {
        Ok(self.wide_row()?.map(|(_, content)| content))
    }

    fn wide_row(&mut self) -> Result<Option<&(Vec<u8>, EmailContent)>, Error> {
        if self.facts.content.is_none() {
            self.facts.content = Some(self.source.view.content(self.source.account, self.id)?);
        }
        Ok(self.facts.content.as_ref().and_then(Option::as_ref))
    }

    /// Whether it may have a needle of the matcher: not known of what is destroyed.
    pub(super) fn may_have(&mut self, needle: usize) -> Result<Option<bool>, Error> {
        if self.metadata.deleted.is_some() {
            return Ok(None);
        }
        let told = match &self.facts.told {
            Some(told) => told.get(needle).copied().flatten(),
            None => self.source.hits.get_mut(needle).map_or(Ok(None), |hits| hits.told(self.id))?,
        };
        Ok(Some(told.is_some_and(|made| made >= self.metadata.created)))
    }

    /// The message as it was received; none of what is destroyed.
    pub(super) fn received(&mut self) -> Result<Option<&[u8]>, Error> {
        if self.facts.received.is_none() && self.reads {
            let live = self.metadata.deleted.is_none();
            let view = self.source.view;
            self.facts.received = Some(if live { view.received(&self.metadata.blob)? } else { None });
        }
        Ok(self.facts.received.as_ref().and_then(Option::as_deref))
    }

    /// Its octets, trace prefix included; none of what is destroyed.
    pub(super) fn message(&mut self) -> Result<Option<&[u8]>, Error> {
        if self.facts.message.is_none() && self.reads {
            let prefix = self.wide_row()?.map(|(prefix, _)| prefix.clone());
            let whole = prefix.zip(self.received()?).map(|(prefix, received)| [&prefix, received].concat());
            self.facts.message = Some(whole);
        }
        Ok(self.facts.message.as_ref().and_then(Option::as_deref))
    }

    /// Which emails of its thread have a keyword.
    pub(super) fn thread_share(&mut self, word: &str) -> Result<Share, Error> {
        self.source.threads.share(self.metadata.thread, word)
    }
}
