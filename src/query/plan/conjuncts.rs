//! Finds the conditions that every match of a filter must meet, however the filter is written.

use std::collections::BTreeSet;

use crate::model::{ListingFilter, MailboxUid, keyword};
use crate::query::filter::{Condition, Filter};
use crate::query::id_range::IdRange;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::query) struct Conjuncts {
    /// Every match is in each of these, and meets each of `listing_filters`.
    pub(in crate::query) mailboxes: Vec<MailboxUid>,
    /// Every match is in at least one mailbox of each set. Each set also counts in
    /// `other_conditions`.
    pub(in crate::query) among: Vec<Vec<MailboxUid>>,
    pub(in crate::query) listing_filters: Vec<ListingFilter>,
    /// The times between which every match was received, as a range of ids.
    pub(in crate::query) range: IdRange,
    /// How many conditions without a listing filter hold for all emails of a thread or for none.
    pub(in crate::query) thread_conditions: usize,
    /// How many other conditions there are, each set of `among` included.
    pub(in crate::query) other_conditions: usize,
}

pub(in crate::query) fn conjuncts(filter: &Filter) -> Conjuncts {
    let mut conjuncts = Conjuncts {
        mailboxes: Vec::new(),
        among: Vec::new(),
        listing_filters: Vec::new(),
        range: IdRange::ALL,
        thread_conditions: 0,
        other_conditions: 0,
    };
    conjuncts.add_filter(filter, true);
    conjuncts
}

impl Conjuncts {
    /// Returns the conjuncts without the listing filters of threads, which count as
    /// `thread_conditions` instead.
    pub(in crate::query) fn without_thread_filters(mut self) -> Self {
        let before = self.listing_filters.len();
        self.listing_filters.retain(|filter| filter.is_email_filter());
        self.thread_conditions += before - self.listing_filters.len();
        self
    }

    /// Adds the conditions that must hold for `filter` to be `wanted`.
    fn add_filter(&mut self, filter: &Filter, wanted: bool) {
        match (filter, wanted) {
            (Filter::And(parts), true) => parts.iter().for_each(|part| self.add_filter(part, true)),
            (Filter::Not(parts), true) | (Filter::Or(parts), false) => {
                parts.iter().for_each(|part| self.add_filter(part, false));
            }
            (Filter::Or(parts), true)
            | (Filter::Not(parts), false)
            | (Filter::And(parts), false)
                if parts.len() == 1 =>
            {
                // A false `And` has a false part; a true `Or` and a false `Not` have a true one.
                let wanted = !matches!(filter, Filter::And(_));
                parts.iter().for_each(|part| self.add_filter(part, wanted));
            }
            (Filter::Is(condition), _) => self.add_condition(condition, wanted),
            (other, _) if is_thread_condition(other) => self.thread_conditions += 1,
            (Filter::Or(parts), true) => {
                self.other_conditions += 1;
                self.among.extend(alternative_mailboxes(parts));
            }
            _ => self.other_conditions += 1,
        }
    }

    fn add_condition(&mut self, condition: &Condition, wanted: bool) {
        let is = |word: &str, known: &str| word == known;
        match (condition, wanted) {
            (Condition::InMailbox(uid), true) if *uid != MailboxUid::ALL => {
                if !self.mailboxes.contains(uid) {
                    self.mailboxes.push(*uid);
                }
            }
            (Condition::Before(at), true) | (Condition::After(at), false) => {
                self.range = self.range.before(*at);
            }
            (Condition::After(at), true) | (Condition::Before(at), false) => {
                self.range = self.range.after(*at);
            }
            (Condition::NotKeyword(word), true) | (Condition::HasKeyword(word), false)
                if is(word, keyword::SEEN) =>
            {
                self.add_listing_filter(ListingFilter::Unseen);
            }
            (Condition::HasKeyword(word), true) | (Condition::NotKeyword(word), false)
                if is(word, keyword::FLAGGED) =>
            {
                self.add_listing_filter(ListingFilter::Flagged);
            }
            (Condition::AllInThreadHaveKeyword(word), false) if is(word, keyword::SEEN) => {
                self.add_listing_filter(ListingFilter::ThreadUnseen);
            }
            (Condition::SomeInThreadHaveKeyword(word), true)
            | (Condition::NoneInThreadHaveKeyword(word), false)
                if is(word, keyword::FLAGGED) =>
            {
                self.add_listing_filter(ListingFilter::ThreadFlagged);
            }
            (Condition::NoneInThreadHaveKeyword(word), true)
            | (Condition::SomeInThreadHaveKeyword(word), false)
                if is(word, keyword::SEEN) =>
            {
                self.add_listing_filter(ListingFilter::ThreadUntouched);
            }
            (
                Condition::AllInThreadHaveKeyword(_)
                | Condition::SomeInThreadHaveKeyword(_)
                | Condition::NoneInThreadHaveKeyword(_),
                _,
            ) => self.thread_conditions += 1,
            _ => self.other_conditions += 1,
        }
    }

    fn add_listing_filter(&mut self, filter: ListingFilter) {
        if !self.listing_filters.contains(&filter) {
            self.listing_filters.push(filter);
        }
    }
}

/// Returns the mailboxes that these filters name, or `None` if one of them is not just a mailbox.
fn alternative_mailboxes(parts: &[Filter]) -> Option<Vec<MailboxUid>> {
    let uid = |part: &Filter| match part {
        Filter::Is(Condition::InMailbox(uid)) if *uid != MailboxUid::ALL => Some(*uid),
        _ => None,
    };
    let uids: Option<BTreeSet<MailboxUid>> = parts.iter().map(uid).collect();
    uids.map(|uids| uids.into_iter().collect())
}

fn is_thread_condition(filter: &Filter) -> bool {
    match filter {
        Filter::And(parts) | Filter::Or(parts) | Filter::Not(parts) => {
            parts.iter().all(is_thread_condition)
        }
        Filter::Is(condition) => matches!(
            condition,
            Condition::AllInThreadHaveKeyword(_)
                | Condition::SomeInThreadHaveKeyword(_)
                | Condition::NoneInThreadHaveKeyword(_)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::UtcMillis;

    #[test]
    fn equivalent_filters_have_the_same_conjuncts() {
        let is = Filter::Is;
        let seen = || keyword::SEEN.to_owned();
        let inbox = || is(Condition::InMailbox(MailboxUid(1)));
        let unseen = || is(Condition::NotKeyword(seen()));
        let has_seen = || is(Condition::HasKeyword(seen()));
        let wanted = conjuncts(&Filter::And(vec![inbox(), unseen()]));
        assert_eq!(
            (wanted.mailboxes.as_slice(), wanted.listing_filters.as_slice()),
            (&[MailboxUid(1)][..], &[ListingFilter::Unseen][..])
        );
        assert_eq!(
            (wanted.thread_conditions, wanted.other_conditions, wanted.range),
            (0, 0, IdRange::ALL)
        );
        for spelling in [
            Filter::And(vec![Filter::And(vec![inbox()]), inbox(), Filter::Not(vec![has_seen()])]),
            Filter::And(vec![inbox(), Filter::Not(vec![Filter::Or(vec![has_seen(), has_seen()])])]),
            Filter::And(vec![
                Filter::Or(vec![inbox()]),
                Filter::Not(vec![Filter::Not(vec![unseen()])]),
            ]),
            Filter::And(vec![inbox(), Filter::Not(vec![Filter::And(vec![has_seen()])])]),
        ] {
            assert_eq!(conjuncts(&spelling), wanted, "{spelling:?}");
        }
        for other in [
            Filter::Or(vec![inbox(), unseen()]),
            Filter::Or(Vec::new()),
            Filter::Not(vec![inbox()]),
            is(Condition::InMailbox(MailboxUid::ALL)),
            Filter::Not(vec![Filter::And(vec![inbox(), unseen()])]),
            Filter::Not(vec![Filter::And(Vec::new())]),
            Filter::Not(vec![Filter::Not(vec![inbox(), unseen()])]),
            is(Condition::HasKeyword("$draft".into())),
        ] {
            // Each counts as one other condition, or as one on threads: an operator without parts
            // has the same value for all emails, and so for all emails of a thread.
            let conjuncts = conjuncts(&other);
            assert_eq!(conjuncts.other_conditions + conjuncts.thread_conditions, 1, "{other:?}");
        }
    }

    #[test]
    fn thread_filters_and_times_are_recognised() {
        let is = Filter::Is;
        let not = |condition| Filter::Not(vec![Filter::Is(condition)]);
        let word = |word: &str| word.to_owned();
        for (filter, listing_filter) in [
            (not(Condition::AllInThreadHaveKeyword(word("$seen"))), ListingFilter::ThreadUnseen),
            (
                is(Condition::SomeInThreadHaveKeyword(word("$flagged"))),
                ListingFilter::ThreadFlagged,
            ),
            (
                not(Condition::NoneInThreadHaveKeyword(word("$flagged"))),
                ListingFilter::ThreadFlagged,
            ),
            (is(Condition::NoneInThreadHaveKeyword(word("$seen"))), ListingFilter::ThreadUntouched),
            (not(Condition::NotKeyword(word("$flagged"))), ListingFilter::Flagged),
        ] {
            assert_eq!(conjuncts(&filter).listing_filters, [listing_filter], "{filter:?}");
        }
        let draft = || is(Condition::SomeInThreadHaveKeyword(word("$draft")));
        assert_eq!(
            conjuncts(&Filter::And(vec![draft(), Filter::Or(vec![draft(), draft()])]))
                .thread_conditions,
            2
        );
        let at = UtcMillis(5);
        let span =
            Filter::And(vec![not(Condition::Before(at)), is(Condition::Before(UtcMillis(9)))]);
        assert_eq!(conjuncts(&span).range, IdRange::ALL.after(at).before(UtcMillis(9)));
        assert_eq!(conjuncts(&span).other_conditions, 0);
    }
}
