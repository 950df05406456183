//! One email under examination: its facts, and what must be fetched to decide a condition, each at most once.

use super::Error;
use super::evaluate::Matcher;
use super::hits::Hits;
use super::threads::{Share, Threads};
use crate::model::{AccountId, EmailContent, EmailId, EmailMetadata};
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

    /// The first email not before `from` that may have a needle of the matcher.
    pub(super) fn next_hit(&mut self, needle: usize, from: EmailId) -> Result<Option<EmailId>, Error> {
        Ok(self.hits.get_mut(needle).map_or(Ok(Some(from)), |hits| hits.seek(from))?)
    }
}

/// An email, or the tombstone of one.
#[derive(Debug)]
pub(super) struct Candidate<'s, 'v> {
    source: &'s mut Source<'v>,
    pub(super) id: EmailId,
    pub(super) metadata: &'s EmailMetadata,
    content: Option<Option<(Vec<u8>, EmailContent)>>,
    received: Option<Option<Vec<u8>>>,
    message: Option<Option<Vec<u8>>>,
}

impl<'s, 'v> Candidate<'s, 'v> {
    pub(super) fn new(source: &'s mut Source<'v>, id: EmailId, metadata: &'s EmailMetadata) -> Self {
        Self { source, id, metadata, content: None, received: None, message: None }
    }

    /// What a list shows of it.
    pub(super) fn content(&mut self) -> Result<Option<&EmailContent>, Error> {
        if self.content.is_none() {
            self.content = Some(self.source.view.content(self.source.account, self.id)?);
        }
        Ok(self.content.as_ref().and_then(Option::as_ref).map(|(_, content)| content))
    }

    /// Whether it may have a needle of the matcher: not known of what is destroyed.
    pub(super) fn may_have(&mut self, needle: usize) -> Result<Option<bool>, Error> {
        if self.metadata.deleted.is_some() {
            return Ok(None);
        }
        let hits = self.source.hits.get_mut(needle);
        Ok(hits.map(|hits| hits.may_have(self.id, self.metadata.created)).transpose()?)
    }

    /// The message as it was received; none of what is destroyed.
    pub(super) fn received(&mut self) -> Result<Option<&[u8]>, Error> {
        if self.received.is_none() {
            let live = self.metadata.deleted.is_none();
            let view = self.source.view;
            self.received = Some(if live { view.received(&self.metadata.blob)? } else { None });
        }
        Ok(self.received.as_ref().and_then(Option::as_deref))
    }

    /// Its octets, trace prefix included; none of what is destroyed.
    pub(super) fn message(&mut self) -> Result<Option<&[u8]>, Error> {
        if self.message.is_none() {
            let live = self.metadata.deleted.is_none();
            self.message = Some(if live { self.source.view.message(self.source.account, self.id)? } else { None });
        }
        Ok(self.message.as_ref().and_then(Option::as_deref))
    }

    /// Which emails of its thread have a keyword.
    pub(super) fn thread_share(&mut self, word: &str) -> Result<Share, Error> {
        self.source.threads.share(self.metadata.thread, word)
    }
}
