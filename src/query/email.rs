//! One email under examination: its facts, and what must be fetched to decide a condition, each at most once.

use super::Error;
use super::threads::{Share, Threads};
use crate::model::{AccountId, EmailContent, EmailId, EmailMetadata, Tokens};
use crate::store::View;

/// Where candidates read.
#[derive(Debug)]
pub(super) struct Source<'v> {
    pub(super) view: &'v View<'v>,
    pub(super) account: AccountId,
    pub(super) threads: Threads<'v>,
}

impl<'v> Source<'v> {
    pub(super) fn new(view: &'v View<'v>, account: AccountId) -> Self {
        Self { view, account, threads: Threads::new(view, account) }
    }
}

/// An email, or the tombstone of one.
#[derive(Debug)]
pub(super) struct Candidate<'s, 'v> {
    source: &'s mut Source<'v>,
    pub(super) id: EmailId,
    pub(super) metadata: &'s EmailMetadata,
    content: Option<Option<(Vec<u8>, EmailContent)>>,
    tokens: Option<Option<Tokens>>,
    message: Option<Option<Vec<u8>>>,
}

impl<'s, 'v> Candidate<'s, 'v> {
    pub(super) fn new(source: &'s mut Source<'v>, id: EmailId, metadata: &'s EmailMetadata) -> Self {
        Self { source, id, metadata, content: None, tokens: None, message: None }
    }

    /// What a list shows of it.
    pub(super) fn content(&mut self) -> Result<Option<&EmailContent>, Error> {
        if self.content.is_none() {
            self.content = Some(self.source.view.content(self.source.account, self.id)?);
        }
        Ok(self.content.as_ref().and_then(Option::as_ref).map(|(_, content)| content))
    }

    /// Its search tokens.
    pub(super) fn tokens(&mut self) -> Result<Option<&Tokens>, Error> {
        if self.tokens.is_none() {
            self.tokens = Some(self.source.view.tokens(self.source.account, self.id)?);
        }
        Ok(self.tokens.as_ref().and_then(Option::as_ref))
    }

    /// Its octets, trace prefix included.
    pub(super) fn message(&mut self) -> Result<Option<&[u8]>, Error> {
        if self.message.is_none() {
            self.message = Some(self.source.view.message(self.source.account, self.id)?);
        }
        Ok(self.message.as_ref().and_then(Option::as_deref))
    }

    /// Which emails of its thread have a keyword.
    pub(super) fn thread_share(&mut self, word: &str) -> Result<Share, Error> {
        self.source.threads.share(self.metadata.thread, word)
    }
}
