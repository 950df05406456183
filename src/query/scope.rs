//! What a guest may see of an account: the emails in the mailboxes that are open to the guest (RFC
//! 8621 §2 mayReadItems).
//!
//! - An answer within a scope is the one that an account would give that had no other mail: of an
//!   email the other mailboxes are not there, and of a thread the other emails.
//! - What was in the scope at an earlier state is known from the history of its mailboxes, as long
//!   as the same mailboxes were open then. Whether they were is the caller's to ask
//!   (`Snapshot::is_sharing_unchanged_since`).
//! - Not hidden is how much changed in the account: states count all changes, and what lies too
//!   many of them back cannot be told (`docs/decisions.md`).

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

/// An email that changed since a state, or came into the scope or left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopedChange {
    /// Its last change; of one that left the scope, the change by which it did.
    pub at: ModSeq,
    pub thread: ThreadId,
    /// Whether it was in the scope at the state.
    pub was_visible: bool,
    /// Whether it is now.
    pub is_visible: bool,
    /// The mailboxes of the scope that it is in, came to or left.
    pub mailboxes: BTreeSet<MailboxUid>,
    pub(super) email: EmailMetadata,
}

/// Such changes, by email.
pub type ScopedChanges = BTreeMap<EmailId, ScopedChange>;

impl Scope {
    #[must_use]
    pub fn mailboxes(&self) -> &BTreeSet<MailboxUid> {
        &self.0
    }

    /// Whether an email may be seen.
    #[must_use]
    pub fn sees(&self, email: &EmailMetadata) -> bool {
        email.mailboxes.iter().any(|uid| self.0.contains(uid))
    }

    /// The filter, for what may be seen: every match is in a mailbox of the scope, and the others
    /// are not there.
    pub(super) fn limit(&self, filter: &Filter) -> Filter {
        let filter = self.restrict(filter);
        let is_open = |filter: &Filter| matches!(filter, Filter::Is(Condition::InMailbox(_)));
        let is_bounded = match &filter {
            Filter::And(parts) => parts.iter().any(is_open),
            one => is_open(one),
        };
        // What asks for one mailbox of the scope finds nothing else.
        if is_bounded { filter } else { Filter::And(vec![self.open_mailboxes_except(&[]), filter]) }
    }

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

    /// What is in a mailbox of the scope that is none of these.
    fn open_mailboxes_except(&self, without: &[MailboxUid]) -> Filter {
        let open = self.0.iter().filter(|uid| !without.contains(uid));
        let mut parts: Vec<Filter> =
            open.map(|uid| Filter::Is(Condition::InMailbox(*uid))).collect();
        match (parts.pop(), parts.is_empty()) {
            (Some(only), true) => only,
            (last, _) => Filter::Or(parts.into_iter().chain(last).collect()),
        }
    }

    /// What changed since a state; `None` where that is not known, or where more than `most` emails
    /// of the account or events of a mailbox tell of it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn changes(
        &self,
        snapshot: &Snapshot<'_>,
        account: AccountId,
        since: ModSeq,
        most: usize,
    ) -> Result<Option<ScopedChanges>, Error> {
        let mut moved: BTreeMap<EmailId, ScopeMove> = BTreeMap::new();
        for uid in &self.0 {
            let listing = Listing { uid: *uid, filter: ListingFilter::Every, shape: Shape::Emails };
            let kept = snapshot.maintained_listing(account, *uid, ListingFilter::Every)?;
            let is_known = kept.is_some_and(|kept| kept.stats(Shape::Emails).low <= since);
            let moves = if is_known {
                snapshot.listing_moves(account, listing, since, most)?
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
        let Some(changed) = snapshot.emails_since(account, since, most)? else { return Ok(None) };
        let mut out = BTreeMap::new();
        for (at, id) in changed {
            let Some(email) = snapshot.email_or_tombstone(account, id)? else { continue };
            let moved = moved.remove(&id).unwrap_or_default();
            let is_live = email.deleted.is_none();
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

/// How an email moved among the mailboxes of a scope.
#[derive(Debug, Default)]
struct ScopeMove {
    /// Whether it was in one at the state.
    was: bool,
    came: BTreeSet<MailboxUid>,
    left: BTreeSet<MailboxUid>,
    /// When it left one last.
    at: ModSeq,
}

impl ScopeMove {
    fn leaves(&mut self, uid: MailboxUid, at: ModSeq) {
        self.left.insert(uid);
        self.at = self.at.max(at);
    }
}
