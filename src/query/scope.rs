//! The scope of a guest: the emails in the mailboxes that are shared with the guest (RFC 8621 §2
//! mayReadItems).
//!
//! - An answer within a scope is the answer of an account that has only these mailboxes. An email
//!   has no other mailboxes, and a thread has no emails outside the scope.
//! - The history of the mailboxes tells what was in the scope at an earlier state, if the same
//!   mailboxes were shared then. The caller must check that
//!   (`Snapshot::is_sharing_unchanged_since`).
//! - The number of changes in the account is not hidden (`docs/decisions.md`).

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    AccountId, EmailId, EmailMetadata, Listing, ListingFilter, MailboxUid, ModSeq, Shape, ThreadId,
};
use crate::query::filter::{Condition, Filter};
use crate::store::{Error, Snapshot};

/// The mailboxes whose emails may be seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope(BTreeSet<MailboxUid>);

impl FromIterator<MailboxUid> for Scope {
    fn from_iter<I: IntoIterator<Item = MailboxUid>>(uids: I) -> Self {
        Self(uids.into_iter().collect())
    }
}

/// How an email changed within a scope since an earlier state, the old state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopedChange {
    /// The last change of the email, or the change by which it left the scope.
    pub at: ModSeq,
    pub thread: ThreadId,
    /// Whether the email was in the scope at the old state.
    pub was_visible: bool,
    /// Whether the email is in the scope now. If both are false, it entered and left the scope
    /// since.
    pub is_visible: bool,
    /// The mailboxes of the scope that the email is in, or that it left since the state.
    pub mailboxes: BTreeSet<MailboxUid>,
    pub(super) email: EmailMetadata,
}

pub type ScopedChanges = BTreeMap<EmailId, ScopedChange>;

impl Scope {
    #[must_use]
    pub fn mailboxes(&self) -> &BTreeSet<MailboxUid> {
        &self.0
    }

    #[must_use]
    pub fn sees(&self, email: &EmailMetadata) -> bool {
        email.mailboxes.iter().any(|uid| self.0.contains(uid))
    }

    /// Returns a filter that matches only emails in the scope, and treats all other mailboxes as
    /// nonexistent.
    pub(super) fn limit(&self, filter: &Filter) -> Filter {
        let filter = self.restrict(filter);
        let is_open = |filter: &Filter| matches!(filter, Filter::Is(Condition::InMailbox(_)));
        let is_bounded = match &filter {
            Filter::And(parts) => parts.iter().any(is_open),
            one => is_open(one),
        };
        // A filter that requires a mailbox of the scope matches nothing outside it.
        if is_bounded { filter } else { Filter::And(vec![self.open_mailboxes_except(&[]), filter]) }
    }

    /// Returns a filter that treats mailboxes outside the scope as nonexistent.
    fn restrict(&self, filter: &Filter) -> Filter {
        let each = |parts: &[Filter]| parts.iter().map(|part| self.restrict(part)).collect();
        match filter {
            Filter::And(parts) => Filter::And(each(parts)),
            Filter::Or(parts) => Filter::Or(each(parts)),
            Filter::Not(parts) => Filter::Not(each(parts)),
            Filter::Is(Condition::InMailbox(uid)) if !self.0.contains(uid) => {
                Filter::Or(Vec::new())
            }
            Filter::Is(Condition::InMailboxOtherThan(uids)) => self.open_mailboxes_except(uids),
            Filter::Is(other) => Filter::Is(other.clone()),
        }
    }

    /// Returns a filter for emails in a mailbox of the scope that is not in `without`.
    fn open_mailboxes_except(&self, without: &[MailboxUid]) -> Filter {
        let open = self.0.iter().filter(|uid| !without.contains(uid));
        let mut parts: Vec<Filter> =
            open.map(|uid| Filter::Is(Condition::InMailbox(*uid))).collect();
        match (parts.pop(), parts.is_empty()) {
            (Some(only), true) => only,
            (last, _) => Filter::Or(parts.into_iter().chain(last).collect()),
        }
    }

    /// Returns what changed in the scope after `since`, which must not be below the low mark of
    /// `Email`. `None` if that is not known: a mailbox has no history that far back, or more than
    /// `max_changes` emails of the account or events of one mailbox would have to be read. An email
    /// that has neither a row nor a tombstone is left out.
    pub fn changes(
        &self,
        snapshot: &Snapshot<'_>,
        account: AccountId,
        since: ModSeq,
        max_changes: usize,
    ) -> Result<Option<ScopedChanges>, Error> {
        let mut moved: BTreeMap<EmailId, ScopeMove> = BTreeMap::new();
        for uid in &self.0 {
            let listing = Listing { uid: *uid, filter: ListingFilter::Every, shape: Shape::Emails };
            let maintained = snapshot.maintained_listing(account, *uid, ListingFilter::Every)?;
            let has_history =
                maintained.is_some_and(|listing| listing.stats(Shape::Emails).low <= since);
            let moves = if has_history {
                snapshot.listing_moves(account, listing, since, max_changes)?
            } else {
                None
            };
            let Some(moves) = moves else { return Ok(None) };
            for (id, ..) in moves.came {
                moved.entry(id).or_default().came.insert(*uid);
            }
            for (id, _, left) in moves.gone {
                let moved = moved.entry(id).or_default();
                moved.was = true;
                moved.leaves(*uid, left);
            }
            for (id, _, left) in moves.passed {
                moved.entry(id).or_default().leaves(*uid, left);
            }
        }
        let Some(changed) = snapshot.emails_since(account, since, max_changes)? else {
            return Ok(None);
        };
        let mut out = BTreeMap::new();
        for (at, id) in changed {
            let Some(email) = snapshot.email_or_tombstone(account, id)? else { continue };
            let moved = moved.remove(&id).unwrap_or_default();
            let is_live = email.destroyed.is_none();
            let here =
                email.mailboxes.iter().copied().filter(|uid| is_live && self.0.contains(uid));
            let here: BTreeSet<MailboxUid> = here.collect();
            let (was, is) = (moved.was || !here.is_subset(&moved.came), !here.is_empty());
            let mailboxes: BTreeSet<MailboxUid> = here.union(&moved.left).copied().collect();
            if !mailboxes.is_empty() {
                let at = if is { at } else { moved.at };
                out.insert(
                    id,
                    ScopedChange {
                        at,
                        thread: email.thread,
                        was_visible: was,
                        is_visible: is,
                        mailboxes,
                        email,
                    },
                );
            }
        }
        Ok(Some(out))
    }
}

/// How one email moved among the mailboxes of the scope since the old state.
#[derive(Debug, Default)]
struct ScopeMove {
    /// Whether the email was, at the old state, in a mailbox that it left since.
    was: bool,
    /// The mailboxes that the email is in by a change after the old state.
    came: BTreeSet<MailboxUid>,
    /// The mailboxes that the email left since, also those that it entered after the old state.
    left: BTreeSet<MailboxUid>,
    /// The change by which the email last left a mailbox; 0 if it left none.
    at: ModSeq,
}

impl ScopeMove {
    fn leaves(&mut self, uid: MailboxUid, at: ModSeq) {
        self.left.insert(uid);
        self.at = self.at.max(at);
    }
}
