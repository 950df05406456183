//! Tests which queries listings answer, and that their answers are right, over random histories,
//! while listings are made and dropped. `RESTANTE_CASES` sets the number of histories.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use crate::model::{
    EmailId, Listing, ListingFilter, MailboxUid, ModSeq, Shape, UtcMillis, VacationResponse,
};
use crate::query::matching::evaluate::Matcher;
use crate::query::plan::access_paths;
use crate::query::sort::SortPin;
use crate::query::tests::driver::{ACCOUNT, EPOCH, Op, TIMES, TestDriver, ops};
use crate::query::tests::naive::NaiveDraft;
use crate::query::tests::{
    Begin, check_changes, check_query, comparator, condition, config, keyword, small_batches,
    window,
};
use crate::query::*;
use crate::store::engine::memory::MemoryEngine;

#[derive(Debug, Clone)]
pub(super) struct ListingQuery {
    /// `None` for all mail.
    uid: Option<MailboxUid>,
    filter: ListingFilter,
    /// Selects one of several equivalent filters: if the listing filter can be written with and
    /// without a NOT, odd numbers have the NOT. From 4 on the conditions are nested in AND and OR.
    spelling: u8,
    /// Milliseconds after `EPOCH`, as in `after`.
    before: Option<i64>,
    after: Option<i64>,
    /// One more condition.
    other: Option<Condition>,
    sort: Vec<Comparator>,
    collapse: bool,
}

fn spelled(filter: ListingFilter, spelling: u8) -> Filter {
    let word = |word: &str| word.to_owned();
    let (seen, flagged) = (word("$seen"), word("$flagged"));
    let not = |condition| Filter::Not(vec![Filter::Is(condition)]);
    let plain = spelling.is_multiple_of(2);
    match filter {
        ListingFilter::Every => Filter::default(),
        ListingFilter::Unseen if plain => Filter::Is(Condition::NotKeyword(seen)),
        ListingFilter::Unseen => not(Condition::HasKeyword(seen)),
        ListingFilter::Flagged if plain => Filter::Is(Condition::HasKeyword(flagged)),
        ListingFilter::Flagged => not(Condition::NotKeyword(flagged)),
        ListingFilter::ThreadUnseen => not(Condition::AllInThreadHaveKeyword(seen)),
        ListingFilter::ThreadFlagged if plain => {
            Filter::Is(Condition::SomeInThreadHaveKeyword(flagged))
        }
        ListingFilter::ThreadFlagged => not(Condition::NoneInThreadHaveKeyword(flagged)),
        ListingFilter::ThreadUntouched if plain => {
            Filter::Is(Condition::NoneInThreadHaveKeyword(seen))
        }
        ListingFilter::ThreadUntouched => not(Condition::SomeInThreadHaveKeyword(seen)),
    }
}

impl ListingQuery {
    pub(super) fn sorted_by(self, sort: Vec<Comparator>) -> Self {
        Self { sort, ..self }
    }

    pub(super) fn spec(&self) -> QuerySpec {
        let at = |at: i64| UtcMillis(EPOCH + at);
        let mut parts = vec![spelled(self.filter, self.spelling)];
        parts.extend(self.uid.map(|uid| Filter::Is(Condition::InMailbox(uid))));
        parts.extend(self.before.map(|before| Filter::Is(Condition::Before(at(before)))));
        parts.extend(self.after.map(|after| Filter::Is(Condition::After(at(after)))));
        parts.extend(self.other.clone().map(Filter::Is));
        let filter = if self.spelling > 3 {
            let (first, second) = parts.split_at(parts.len() / 2);
            Filter::And(vec![
                Filter::And(first.to_vec()),
                Filter::Or(vec![Filter::And(second.to_vec())]),
            ])
        } else {
            Filter::And(parts)
        };
        let sort = self.sort.clone();
        QuerySpec { account: ACCOUNT, filter, sort, collapse: self.collapse, ..small_batches() }
    }

    /// Returns the path that answers the query if its listings are maintained; `None` if no
    /// listings have the answer, for the reasons that `query::plan::listings` gives.
    pub(super) fn path(&self) -> Option<AccessPath> {
        let uid = self.uid.unwrap_or(MailboxUid::ALL);
        let (pin, receipt) = match self.sort.as_slice() {
            [] => (None, None),
            [only] => (pin(only), Some(only).filter(|only| pin(only).is_none())),
            [first, last] => (Some(pin(first)?), Some(last)),
            _ => return None,
        };
        if self.other.is_some()
            || receipt.is_some_and(|last| last.property != SortProperty::ReceivedAt)
        {
            return None;
        }
        // The pin orders nothing if it is the same for every email that matches the filter.
        let pin = pin.filter(|pin| pin.filter != self.filter);
        let is_oldest_first = receipt.is_some_and(|last| last.ascending);
        let is_span = self.before.is_some() || self.after.is_some();
        let of_threads =
            !self.filter.is_email_filter() || pin.is_some_and(|pin| !pin.filter.is_email_filter());
        if (self.collapse && self.before.is_some()) || (!self.collapse && of_threads) {
            return None;
        }
        let shape = if self.collapse { Shape::Threads } else { Shape::Emails };
        match pin {
            Some(pin) => {
                let by_thread = self.collapse && pin.filter.is_email_filter();
                let fits = self.filter == ListingFilter::Every
                    && !(self.collapse && is_oldest_first)
                    && !(by_thread && (is_span || !pin.first));
                fits.then_some(AccessPath::Pinned(
                    Listing { uid, filter: ListingFilter::Every, shape },
                    pin,
                ))
            }
            None if self.collapse && is_oldest_first => {
                let fits = self.filter.is_email_filter() && !is_span;
                fits.then_some(AccessPath::Listing(Listing {
                    uid,
                    filter: self.filter,
                    shape: Shape::Emails,
                }))
            }
            None => Some(AccessPath::Listing(Listing { uid, filter: self.filter, shape })),
        }
    }

    fn listing_filters(&self) -> Vec<ListingFilter> {
        match self.path() {
            Some(AccessPath::Pinned(listing, pin)) => vec![listing.filter, pin.filter],
            Some(AccessPath::Listing(listing)) => vec![listing.filter],
            _ => Vec::new(),
        }
    }
}

/// Returns the listing filter of a comparator, and whether its emails come first; `None` if there
/// is no such filter.
fn pin(comparator: &Comparator) -> Option<SortPin> {
    let ascending = comparator.ascending;
    let pin = |filter, first| Some(SortPin { filter, first });
    match &comparator.property {
        SortProperty::HasKeyword(word) if word == "$flagged" => {
            pin(ListingFilter::Flagged, !ascending)
        }
        SortProperty::HasKeyword(word) if word == "$seen" => pin(ListingFilter::Unseen, ascending),
        SortProperty::SomeInThreadHaveKeyword(word) if word == "$flagged" => {
            pin(ListingFilter::ThreadFlagged, !ascending)
        }
        SortProperty::SomeInThreadHaveKeyword(word) if word == "$seen" => {
            pin(ListingFilter::ThreadUntouched, ascending)
        }
        SortProperty::AllInThreadHaveKeyword(word) if word == "$seen" => {
            pin(ListingFilter::ThreadUnseen, ascending)
        }
        _ => None,
    }
}

pub(super) fn by(property: SortProperty, ascending: bool) -> Comparator {
    Comparator { property, ascending, collation: Collation::UnicodeCasemap }
}

fn pinned() -> impl Strategy<Value = Comparator> {
    let property = prop_oneof![
        3 => Just(SortProperty::HasKeyword("$flagged".into())),
        2 => Just(SortProperty::HasKeyword("$seen".into())),
        2 => Just(SortProperty::SomeInThreadHaveKeyword("$flagged".into())),
        1 => Just(SortProperty::SomeInThreadHaveKeyword("$seen".into())),
        1 => Just(SortProperty::AllInThreadHaveKeyword("$seen".into())),
    ];
    (property, any::<bool>()).prop_map(|(property, ascending)| by(property, ascending))
}

pub(super) fn listing_query() -> impl Strategy<Value = ListingQuery> {
    let receipt = || any::<bool>().prop_map(|ascending| by(SortProperty::ReceivedAt, ascending));
    let sort = prop_oneof![
        4 => Just(Vec::new()),
        3 => receipt().prop_map(|receipt| vec![receipt]),
        2 => pinned().prop_map(|pinned| vec![pinned]),
        4 => (pinned(), receipt()).prop_map(|(pinned, receipt)| vec![pinned, receipt]),
        1 => comparator().prop_map(|other| vec![other]),
    ];
    let other = prop_oneof![
        6 => Just(None),
        1 => keyword().prop_map(|word| Some(Condition::SomeInThreadHaveKeyword(word))),
        1 => keyword().prop_map(|word| Some(Condition::NotKeyword(word))),
        1 => condition().prop_map(Some),
    ];
    let time = || proptest::option::weighted(0.2, -1..=TIMES);
    let uid = proptest::option::weighted(0.8, (1u32..4).prop_map(MailboxUid));
    let filter = prop_oneof![
        1 => Just(ListingFilter::Every),
        1 => proptest::sample::select(ListingFilter::ALL.to_vec()),
    ];
    (uid, filter, 0u8..6, time(), time(), other, sort, any::<bool>()).prop_map(
        |(uid, filter, spelling, before, after, other, sort, collapse)| ListingQuery {
            uid,
            filter,
            spelling,
            before,
            after,
            other,
            sort,
            collapse,
        },
    )
}

/// Checks that a listing path is chosen if it applies and its listings exist, and only then.
pub(super) fn check_access_path(driver: &TestDriver, listing_query: &ListingQuery) {
    let snapshot = driver.store.snapshot();
    let plan = explain(&snapshot, &listing_query.spec()).unwrap();
    let uid = listing_query.uid.unwrap_or(MailboxUid::ALL);
    let is_maintained = |filter: &ListingFilter| {
        snapshot.maintained_listing(ACCOUNT, uid, *filter).unwrap().is_some()
    };
    match listing_query.path() {
        Some(path) if listing_query.listing_filters().iter().all(is_maintained) => {
            assert_eq!(plan.path, path, "{listing_query:?}");
            let filters = listing_query.listing_filters().into_iter();
            let on_demand = filters.filter(|filter| !filter.is_permanent(uid));
            assert_eq!(
                plan.used_listings,
                on_demand.map(|filter| (uid, filter)).collect::<Vec<_>>()
            );
        }
        // The other condition may be a listing filter by chance.
        _ if listing_query.other.is_some() => {}
        _ => assert!(
            !matches!(plan.path, AccessPath::Listing(_) | AccessPath::Pinned(..)),
            "{plan:?} for {listing_query:?}"
        ),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn access_paths_agree_while_listings_are_made_and_dropped(
        ops in ops(40),
        queries in proptest::collection::vec((listing_query(), window(), any::<bool>()), 1..10),
        ranked in proptest::option::of(0u64..3),
    ) {
        let mut driver = TestDriver::over(Arc::new(MemoryEngine::new()), ranked);
        for chunk in ops.chunks(8) {
            driver.run(chunk);
            for (listing_query, window, total) in &queries {
                check_access_path(&driver, listing_query);
                check_query(&driver, &listing_query.spec(), window, *total);
            }
        }
    }

    #[test]
    fn changes_of_listings_are_minimal_from_every_state(
        ops in ops(24),
        queries in proptest::collection::vec(listing_query(), 1..4),
        ranked in proptest::option::of(0u64..3),
    ) {
        let mut driver = TestDriver::over(Arc::new(MemoryEngine::new()), ranked);
        // Listings that are made before the first email have the whole history.
        for listing_query in queries.iter().take(2) {
            let uid = listing_query.uid.unwrap_or(MailboxUid::ALL);
            for filter in listing_query.listing_filters() {
                make_listing(&mut driver, uid, filter);
            }
        }
        driver.run(&ops);
        for listing_query in &queries {
            check_access_path(&driver, listing_query);
            check_changes(&driver, &listing_query.spec());
        }
    }
}

pub(super) fn make_listing(driver: &mut TestDriver, uid: MailboxUid, filter: ListingFilter) {
    driver.apply(&Op::ExtendListing { uid, filter, limit: 1000 });
}

pub(super) fn simple_query(uid: u32, filter: ListingFilter, collapse: bool) -> ListingQuery {
    let uid = (uid > 0).then_some(MailboxUid(uid));
    ListingQuery {
        uid,
        filter,
        spelling: 0,
        before: None,
        after: None,
        other: None,
        sort: Vec::new(),
        collapse,
    }
}

pub(super) fn create(draft: NaiveDraft, uids: &[u32], at: i64) -> Op {
    let mailboxes = uids.iter().copied().map(MailboxUid).collect();
    Op::Create { draft, mailboxes, keywords: BTreeSet::new(), at: UtcMillis(EPOCH + at) }
}

#[test]
fn missing_listing_is_requested_and_answers_once_complete() {
    let mut driver = TestDriver::over(Arc::new(MemoryEngine::new()), Some(64));
    for n in 0..300 {
        driver.apply(&create(NaiveDraft::default(), &[1], n));
    }
    for (uid, filter, collapse) in [
        (1, ListingFilter::Unseen, false),
        (1, ListingFilter::ThreadUnseen, true),
        (0, ListingFilter::Every, true),
    ] {
        let listing_query = simple_query(uid, filter, collapse);
        let plan =
            |driver: &TestDriver| explain(&driver.store.snapshot(), &listing_query.spec()).unwrap();
        let before = plan(&driver);
        let wanted = (MailboxUid(uid), filter);
        assert_eq!(
            (before.wanted_listing, before.path, before.used_listings.len()),
            (Some(wanted), AccessPath::Generic, 0),
            "{before}"
        );
        assert!(before.to_string().contains("not listing: "), "{before}");
        driver.apply(&Op::ExtendListing { uid: wanted.0, filter, limit: 100 });
        let filling = plan(&driver);
        assert_eq!((filling.wanted_listing, filling.path), (Some(wanted), AccessPath::Generic));
        assert!(filling.to_string().contains("being made"), "{filling}");
        let state = driver.state();
        // Clients have the state of emails, which a change of another data type does not raise.
        let vacation = VacationResponse { enabled: true, ..VacationResponse::default() };
        driver
            .store
            .commit(ACCOUNT, |txn| txn.set_vacation(&vacation))
            .unwrap()
            .1
            .wait_blocking()
            .unwrap();
        make_listing(&mut driver, wanted.0, filter);
        let complete = plan(&driver);
        assert!(matches!(complete.path, AccessPath::Listing(_)) && complete.ranked, "{complete}");
        assert_eq!(
            (complete.wanted_listing, complete.used_listings.as_slice(), complete.length),
            (None, &[wanted][..], 300)
        );
        let secrets = driver.store.secrets().clone();
        let request =
            |since| QueryChanges { spec: listing_query.spec(), since, ..QueryChanges::default() };
        let found = changes(&driver.store.snapshot(), &secrets, &request(state)).unwrap();
        assert!(matches!(found.plan.path, AccessPath::Listing(_)), "{}", found.plan);
        let older =
            changes(&driver.store.snapshot(), &secrets, &request(ModSeq(state.0 - 1))).unwrap();
        assert!(matches!(older.plan.path, AccessPath::Filtered(_)), "{}", older.plan);
        assert!(older.plan.to_string().contains("older than its history"), "{}", older.plan);
        check_query(&driver, &listing_query.spec(), &(Begin::Position(150), Some(10)), true);
        check_query(&driver, &listing_query.spec(), &(Begin::Anchor(7, -3), Some(10)), true);
    }
}

#[test]
fn small_mailbox_requests_no_listing() {
    let mut driver = TestDriver::new();
    driver.apply(&create(NaiveDraft::default(), &[1], 0));
    for (uid, filter) in
        [(1, ListingFilter::Unseen), (7, ListingFilter::Every), (0, ListingFilter::Unseen)]
    {
        let plan =
            explain(&driver.store.snapshot(), &simple_query(uid, filter, false).spec()).unwrap();
        assert_eq!((plan.wanted_listing, plan.path), (None, AccessPath::Generic), "{plan}");
    }
}

#[test]
fn all_mail_needs_no_listing_and_deep_windows_are_recognised() {
    let mut driver = TestDriver::new();
    for n in 0..3 {
        driver.apply(&create(NaiveDraft::default(), &[1], n));
    }
    let spec = simple_query(0, ListingFilter::Every, false).spec();
    let snapshot = driver.store.snapshot();
    assert_eq!(explain(&snapshot, &spec).unwrap().path, AccessPath::AllMail);
    assert!(!Window::default().is_deep());
    for start in
        [Start::Position(-1), Start::Position(10_000), Start::Anchor { id: EmailId(0), offset: 0 }]
    {
        assert!(Window { start, limit: None }.is_deep());
    }
    check_changes(&driver, &spec);
}

#[test]
fn cheaper_of_listing_and_full_scan_is_chosen() {
    let mut driver = TestDriver::new();
    for n in 0..20 {
        driver.apply(&create(NaiveDraft::default(), &[if n < 4 { 1 } else { 3 }], n));
    }
    let plan = |uid| {
        let mut listing_query = simple_query(uid, ListingFilter::Every, false);
        listing_query.other = Some(Condition::MinSize(1));
        explain(&driver.store.snapshot(), &listing_query.spec()).unwrap()
    };
    let small = Listing { uid: MailboxUid(1), filter: ListingFilter::Every, shape: Shape::Emails };
    assert_eq!((plan(1).path, plan(1).length), (AccessPath::Filtered(small), 4));
    // To look up 16 emails costs as much as to read 64 (`LOOKUP_COST`), and the account has 20.
    assert_eq!(plan(3).path, AccessPath::Generic);
    assert!(plan(3).to_string().contains("not filtered listing: to find 16 emails"), "{}", plan(3));
}

#[test]
fn changes_with_too_many_events_are_refused() {
    let mut driver = TestDriver::new();
    let first = driver.state();
    for n in 0..4 {
        driver.apply(&create(NaiveDraft::default(), &[1], n));
    }
    let (snapshot, secrets) = (driver.store.snapshot(), driver.store.secrets());
    let spec = simple_query(1, ListingFilter::Every, false).spec();
    let plan = explain(&snapshot, &spec).unwrap();
    let request = QueryChanges { spec: spec.clone(), since: first, ..QueryChanges::default() };
    let matcher = Matcher::new(&spec.filter, secrets);
    assert_eq!(
        changes_by(&snapshot, &matcher, &request, plan.clone(), 3),
        Err(Error::CannotCalculateChanges)
    );
    assert_eq!(changes_by(&snapshot, &matcher, &request, plan, 4).unwrap().answer.added.len(), 4);
    // The listing, the filtered listing and the generic path.
    assert_eq!(access_paths(&snapshot, &spec, &matcher).unwrap().candidates.len(), 3);
}
