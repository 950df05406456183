//! Finds whether none, some or all emails of a thread have a keyword.
//!
//! For `$seen` and `$flagged` the counts in the thread's row tell. For other keywords, and within a
//! scope, the emails of the thread are read, and the answer is cached.

use std::collections::HashMap;

use crate::model::{AccountId, ThreadId, keyword};
use crate::query::{Allowance, Error, Scope};
use crate::store::Snapshot;

/// The most cached answers of one keyword. If there would be more, all of them are dropped.
const MAX_CACHED_THREADS: usize = 100_000;

/// How many emails of a thread have a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::query) enum EmailsWithKeyword {
    None,
    Some,
    All,
}

impl EmailsWithKeyword {
    fn of(with: u32, all: u32) -> Self {
        match with {
            0 => Self::None,
            _ if with >= all => Self::All,
            _ => Self::Some,
        }
    }
}

#[derive(Debug)]
pub(in crate::query) struct Threads<'v> {
    snapshot: &'v Snapshot<'v>,
    account: AccountId,
    scope: Option<&'v Scope>,
    reads: Allowance,
    /// The cached answers, by keyword.
    known: Vec<(String, HashMap<ThreadId, EmailsWithKeyword>)>,
}

impl<'v> Threads<'v> {
    pub(in crate::query) fn new(
        snapshot: &'v Snapshot<'v>,
        account: AccountId,
        scope: Option<&'v Scope>,
        reads: Allowance,
    ) -> Self {
        Self { snapshot, account, scope, reads, known: Vec::new() }
    }

    /// Returns whether none, some or all emails of a thread have a keyword, which is in normal
    /// form. Within a scope only emails in the scope count. The answer is none for a thread without
    /// emails.
    pub(in crate::query) fn emails_with_keyword(
        &mut self,
        thread: ThreadId,
        word: &str,
    ) -> Result<EmailsWithKeyword, Error> {
        if self.scope.is_none() && (word == keyword::SEEN || word == keyword::FLAGGED) {
            self.reads.count_rows(1);
            let row = self.snapshot.thread(self.account, thread)?.unwrap_or_default();
            let with = if word == keyword::FLAGGED {
                row.flagged
            } else {
                row.emails.saturating_sub(row.unseen)
            };
            return Ok(EmailsWithKeyword::of(with, row.emails));
        }
        let remembered =
            self.known.iter().find(|(known, _)| known == word).and_then(|(_, of)| of.get(&thread));
        if let Some(with_keyword) = remembered {
            return Ok(*with_keyword);
        }
        let (mut with, mut all) = (0, 0);
        for id in self.snapshot.thread_emails(self.account, thread)? {
            self.reads.count_rows(1);
            if let Some(email) = self.snapshot.email(self.account, id)?
                && self.scope.is_none_or(|scope| scope.sees(&email))
            {
                all += 1;
                with += u32::from(email.has(word));
            }
        }
        let with_keyword = EmailsWithKeyword::of(with, all);
        match self.known.iter_mut().find(|(known, _)| known == word) {
            Some((_, of)) => {
                if of.len() >= MAX_CACHED_THREADS {
                    of.clear();
                }
                of.insert(thread, with_keyword);
            }
            None => self.known.push((word.to_owned(), HashMap::from([(thread, with_keyword)]))),
        }
        Ok(with_keyword)
    }
}
