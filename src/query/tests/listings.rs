//! Tests that the listing paths are chosen where they apply, and give the same answers as the
//! generic path and the naive account, while listings are made and dropped, with ranks and without.
//! `RESTANTE_CASES` sets the number of histories.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use crate::model::{
    EmailId, Listing, ListingFilter, MailboxUid, ModSeq, Shape, UtcMillis, VacationResponse,
};
use crate::query::matching::evaluate::Matcher;
use crate::query::plan::access_paths;
use crate::query::sort::SortPin;
use crate::query::tests::client::check_catching_up;
use crate::query::tests::driver::{ACCOUNT, EPOCH, Op, TIMES, TestDriver, ops};
use crate::query::tests::naive::NaiveDraft;
use crate::query::tests::{
    Begin, check_changes, check_facts, check_query, comparator, condition, config, is_exact,
    keyword, least_by, small_batches, window,
};
use crate::query::*;
use crate::store::engine::memory::MemoryEngine;

/// A query that a listing may answer.
#[derive(Debug, Clone)]
pub(super) struct ListingQuery {
    uid: Option<MailboxUid>,
    filter: ListingFilter,
    spelling: u8,
    before: Option<i64>,
    after: Option<i64>,
    more: Option<Condition>,
    sort: Vec<Comparator>,
    collapse: bool,
}

fn shows(filter: ListingFilter, spelling: u8) -> Filter {
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
    pub(super) fn results(&self) -> QuerySpec {
        let at = |at: i64| UtcMillis(EPOCH + at);
        let mut parts = vec![shows(self.filter, self.spelling)];
        parts.extend(self.uid.map(|uid| Filter::Is(Condition::InMailbox(uid))));
        parts.extend(self.before.map(|before| Filter::Is(Condition::Before(at(before)))));
        parts.extend(self.after.map(|after| Filter::Is(Condition::After(at(after)))));
        parts.extend(self.more.clone().map(Filter::Is));
        let filter = if self.spelling > 3 {
            let (some, rest) = parts.split_at(parts.len() / 2);
            Filter::And(vec![
                Filter::And(some.to_vec()),
                Filter::Or(vec![Filter::And(rest.to_vec())]),
            ])
        } else {
            Filter::And(parts)
        };
        let sort = self.sort.clone();
        QuerySpec { account: ACCOUNT, filter, sort, collapse: self.collapse, ..small_batches() }
    }

    /// Returns the path that answers the query, if its listings are maintained.
    fn path(&self) -> Option<AccessPath> {
        let uid = self.uid.unwrap_or(MailboxUid::ALL);
        let (pin, receipt) = match self.sort.as_slice() {
            [] => (None, None),
            [only] => (pin(only), Some(only).filter(|only| pin(only).is_none())),
            [first, last] => (Some(pin(first)?), Some(last)),
            _ => return None,
        };
        if self.more.is_some()
            || receipt.is_some_and(|last| last.property != SortProperty::ReceivedAt)
        {
            return None;
        }
        // What is the same for all that the filter leaves is no order.
        let pin = pin.filter(|pin| pin.filter != self.filter);
        let backwards = receipt.is_some_and(|last| last.ascending);
        let is_span = self.before.is_some() || self.after.is_some();
        let of_threads =
            !self.filter.is_email_filter() || pin.is_some_and(|pin| !pin.filter.is_email_filter());
        if self.collapse && self.before.is_some() || !self.collapse && of_threads {
            return None;
        }
        let shape = if self.collapse { Shape::Threads } else { Shape::Emails };
        match pin {
            Some(pin) => {
                let by_thread = self.collapse && pin.filter.is_email_filter();
                let fits = self.filter == ListingFilter::Every
                    && !(self.collapse && backwards)
                    && !(by_thread && (is_span || !pin.first));
                fits.then_some(AccessPath::Pinned(
                    Listing { uid, filter: ListingFilter::Every, shape },
                    pin,
                ))
            }
            None if self.collapse && backwards => {
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

    /// Returns the listing filters that the path needs.
    fn views(&self) -> Vec<ListingFilter> {
        match self.path() {
            Some(AccessPath::Pinned(listing, pin)) => vec![listing.filter, pin.filter],
            Some(AccessPath::Listing(listing)) => vec![listing.filter],
            _ => Vec::new(),
        }
    }
}

/// Returns the emails that come first by a comparator: with `isAscending` those for which the
/// property is false (RFC 8621 §4.4.2).
fn pin(comparator: &Comparator) -> Option<SortPin> {
    let up = comparator.ascending;
    let of = |filter, first| Some(SortPin { filter, first });
    match &comparator.property {
        SortProperty::HasKeyword(word) if word == "$flagged" => of(ListingFilter::Flagged, !up),
        SortProperty::HasKeyword(word) if word == "$seen" => of(ListingFilter::Unseen, up),
        SortProperty::SomeInThreadHaveKeyword(word) if word == "$flagged" => {
            of(ListingFilter::ThreadFlagged, !up)
        }
        SortProperty::SomeInThreadHaveKeyword(word) if word == "$seen" => {
            of(ListingFilter::ThreadUntouched, up)
        }
        SortProperty::AllInThreadHaveKeyword(word) if word == "$seen" => {
            of(ListingFilter::ThreadUnseen, up)
        }
        _ => None,
    }
}

fn by(property: SortProperty, ascending: bool) -> Comparator {
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

pub(super) fn question() -> impl Strategy<Value = ListingQuery> {
    let receipt = || any::<bool>().prop_map(|ascending| by(SortProperty::ReceivedAt, ascending));
    let sort = prop_oneof![
        4 => Just(Vec::new()),
        3 => receipt().prop_map(|receipt| vec![receipt]),
        2 => pinned().prop_map(|pinned| vec![pinned]),
        4 => (pinned(), receipt()).prop_map(|(pinned, receipt)| vec![pinned, receipt]),
        1 => comparator().prop_map(|other| vec![other]),
    ];
    let more = prop_oneof![
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
    (uid, filter, 0u8..6, time(), time(), more, sort, any::<bool>()).prop_map(
        |(uid, filter, spelling, before, after, more, sort, collapse)| ListingQuery {
            uid,
            filter,
            spelling,
            before,
            after,
            more,
            sort,
            collapse,
        },
    )
}

/// Where listings answer whole they are what is taken, and where none does nothing says so.
pub(super) fn check_way(drive: &TestDriver, question: &ListingQuery) {
    let snapshot = drive.store.snapshot();
    let plan = explain(&snapshot, &question.results()).unwrap();
    let uid = question.uid.unwrap_or(MailboxUid::ALL);
    let is_kept = |shown: &ListingFilter| {
        snapshot.maintained_listing(ACCOUNT, uid, *shown).unwrap().is_some()
    };
    match question.path() {
        Some(path) if question.views().iter().all(is_kept) => {
            assert_eq!(plan.path, path, "{question:?}");
            let on_demand = question.views().into_iter().filter(|shown| !shown.is_permanent(uid));
            assert_eq!(plan.used_listings, on_demand.map(|shown| (uid, shown)).collect::<Vec<_>>());
        }
        // One more condition may happen to be a listing filter's.
        _ if question.more.is_some() => {}
        _ => assert!(
            !matches!(plan.path, AccessPath::Listing(_) | AccessPath::Pinned(..)),
            "{plan:?} for {question:?}"
        ),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_way_answers_alike_while_views_come_and_go(
        ops in ops(40),
        asked in proptest::collection::vec((question(), window(), any::<bool>()), 1..10),
        ranked in proptest::option::of(0u64..3),
    ) {
        let mut drive = TestDriver::over(Arc::new(MemoryEngine::new()), ranked);
        for chunk in ops.chunks(8) {
            drive.run(chunk);
            for (question, window, total) in &asked {
                check_way(&drive, question);
                check_query(&drive, &question.results(), window, *total);
            }
        }
    }

    #[test]
    fn changes_of_listings_are_the_least_from_every_state(
        ops in ops(24),
        asked in proptest::collection::vec(question(), 1..4),
        ranked in proptest::option::of(0u64..3),
    ) {
        let mut drive = TestDriver::over(Arc::new(MemoryEngine::new()), ranked);
        // Views that are whole from the start have the whole history.
        for question in asked.iter().take(2) {
            let uid = question.uid.unwrap_or(MailboxUid::ALL);
            question.views().into_iter().for_each(|filter| keep(&mut drive, uid, filter));
        }
        drive.run(&ops);
        for question in &asked {
            check_way(&drive, question);
            check_changes(&drive, &question.results());
        }
    }
}

fn keep(drive: &mut TestDriver, uid: MailboxUid, filter: ListingFilter) {
    drive.apply(&Op::Make { uid, filter, most: 1000 });
}

fn mailbox(uid: u32, filter: ListingFilter, collapse: bool) -> ListingQuery {
    let uid = (uid > 0).then_some(MailboxUid(uid));
    ListingQuery {
        uid,
        filter,
        spelling: 0,
        before: None,
        after: None,
        more: None,
        sort: Vec::new(),
        collapse,
    }
}

fn create(draft: NaiveDraft, uids: &[u32], at: i64) -> Op {
    let mailboxes = uids.iter().copied().map(MailboxUid).collect();
    Op::Create { draft, mailboxes, keywords: BTreeSet::new(), at: UtcMillis(EPOCH + at) }
}

/// All histories of up to three changes of two emails, in one thread or in two, either one the
/// newer, in the Inbox, in the Trash, or in both; of more by `RESTANTE_EXHAUSTIVE`. Every list from
/// every state, counts, threads and changes.
#[test]
fn every_short_history_of_two_emails_in_one_thread() {
    every_short_history(true, 0);
}

#[test]
fn every_short_history_of_two_emails_in_one_thread_the_second_newer() {
    every_short_history(true, 1);
}

#[test]
fn every_short_history_of_two_emails_in_two_threads() {
    every_short_history(false, 0);
}

fn every_short_history(same_thread: bool, newer: usize) {
    let mut acts: Vec<PlacementChange> = Vec::new();
    for email in 0..2 {
        acts.push((email, None));
        acts.extend(["", "$seen", "$flagged"].map(|word| (email, Some((INBOX, word)))));
        acts.extend([&[2][..], &[1, 2]].map(|uids| (email, Some((uids, "")))));
    }
    let mut histories: Vec<Vec<PlacementChange>> = vec![Vec::new()];
    let mut checked = 0;
    let longest =
        std::env::var("RESTANTE_EXHAUSTIVE").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for _ in 0..longest {
        let longer = histories
            .iter()
            .flat_map(|history| acts.iter().map(|act| [&history[..], &[*act]].concat()));
        histories = longer.filter(|history| is_possible(history)).collect();
        for history in &histories {
            let mut drive = TestDriver::over(Arc::new(MemoryEngine::new()), Some(0));
            for uid in 0..3 {
                ListingFilter::ALL
                    .into_iter()
                    .for_each(|filter| keep(&mut drive, MailboxUid(uid), filter));
            }
            let mut ids: [Option<EmailId>; 2] = [None; 2];
            for (email, to) in history {
                live(&mut drive, &mut ids, *email, *to, same_thread, newer);
            }
            check_facts(&drive);
            check_catching_up(&drive, 1);
            for uid in 0..3 {
                for (filter, collapse) in ListingFilter::ALL
                    .into_iter()
                    .flat_map(|filter| [(filter, false), (filter, true)])
                {
                    let question = mailbox(uid, filter, collapse);
                    if question.path().is_some() {
                        check_least(&drive, &question.results());
                        checked += 1;
                    }
                }
                // Of the Trash, which is a mailbox like the Inbox, no other order is tried.
                for (collapse, sort) in sorts().into_iter().filter(|_| uid < 2) {
                    let question =
                        ListingQuery { sort, ..mailbox(uid, ListingFilter::Every, collapse) };
                    assert!(question.path().is_some(), "{question:?}");
                    check_least(&drive, &question.results());
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 5_000, "{checked}");
}

/// Orders other than newest first that listings have; collapsed or not.
fn sorts() -> Vec<(bool, Vec<Comparator>)> {
    let flagged = || by(SortProperty::HasKeyword("$flagged".into()), false);
    let unseen = by(SortProperty::HasKeyword("$seen".into()), true);
    let of_thread = by(SortProperty::SomeInThreadHaveKeyword("$flagged".into()), false);
    let oldest = || by(SortProperty::ReceivedAt, true);
    vec![
        (false, vec![oldest()]),
        (false, vec![flagged()]),
        (false, vec![unseen, oldest()]),
        (true, vec![oldest()]),
        (true, vec![flagged()]),
        (true, vec![of_thread]),
    ]
}

/// In which mailboxes an email is and with which keyword; nothing: it is destroyed.
type PlacementChange = (usize, Option<(&'static [u32], &'static str)>);

const INBOX: &[u32] = &[1];

/// Whether each act finds its email as it must be: not the same as before, and destroyed only once
/// it is there.
fn is_possible(history: &[PlacementChange]) -> bool {
    let Some(((email, to), before)) = history.split_last() else { return true };
    let known = before.iter().rev().find(|(other, _)| other == email).map(|(_, to)| *to);
    // Whoever comes first is the first; and none comes back.
    let first = !before.is_empty() || *email == 0;
    first && if known == Some(None) { false } else { known.unwrap_or_default() != *to }
}

fn live(
    drive: &mut TestDriver,
    ids: &mut [Option<EmailId>; 2],
    email: usize,
    to: Option<(&[u32], &str)>,
    same_thread: bool,
    newer: usize,
) {
    let at = |id: EmailId, drive: &TestDriver| {
        drive.now.mails.iter().position(|mail| mail.id == id).unwrap()
    };
    match (ids[email], to) {
        (None, Some((uids, word))) => {
            let message_id = Some(if same_thread { 0 } else { u8::try_from(email).unwrap() });
            let draft = NaiveDraft { message_id, subject: Some(0), ..NaiveDraft::default() };
            let mut op = create(draft, uids, i64::from(email == newer));
            if let Op::Create { keywords, .. } = &mut op {
                keywords.extend((!word.is_empty()).then(|| word.to_owned()));
            }
            drive.apply(&op);
            ids[email] = drive.ids.last().copied();
        }
        (Some(id), Some((uids, word))) => drive.apply(&Op::Update {
            which: at(id, drive),
            mailboxes: uids.iter().copied().map(MailboxUid).collect(),
            keywords: (!word.is_empty()).then(|| word.to_owned()).into_iter().collect(),
        }),
        (Some(id), None) => drive.apply(&Op::Destroy { which: at(id, drive) }),
        (None, None) => panic!("not possible"),
    }
}

/// The way taken, from every past state and up to every id, tells the least.
fn check_least(drive: &TestDriver, results: &QuerySpec) {
    let (snapshot, secrets) = (drive.store.snapshot(), drive.store.secrets());
    let new = drive.now.list(results);
    let page = query(
        &snapshot,
        secrets,
        &Query { results: results.clone(), total: true, ..Query::default() },
    )
    .unwrap();
    assert_eq!((page.answer.ids.as_slice(), page.answer.total), (new.as_slice(), Some(new.len())));
    for (since, past) in &drive.past {
        let old = past.list(results);
        for up_to in drive.ids.iter().copied().map(Some).chain([None]) {
            let asked = QueryChanges {
                results: results.clone(),
                since: *since,
                up_to,
                max_changes: None,
                total: true,
            };
            let found = changes(&snapshot, secrets, &asked).unwrap();
            // Of all mail, oldest first is no listing's either.
            assert!(is_exact(found.plan.path), "{:?}", found.plan);
            let named = (found.answer.removed.into_iter().collect(), found.answer.added);
            let wanted = least_by(&found.plan, results, (past, &old), (&drive.now, &new), up_to);
            assert_eq!(named, wanted, "{old:?} to {new:?} for {asked:?}");
            assert_eq!(found.answer.total, Some(new.len()));
        }
    }
}

#[test]
fn a_view_is_wanted_then_made_and_then_serves() {
    let mut drive = TestDriver::over(Arc::new(MemoryEngine::new()), Some(64));
    for n in 0..300 {
        drive.apply(&create(NaiveDraft::default(), &[1], n));
    }
    for (uid, filter, collapse) in [
        (1, ListingFilter::Unseen, false),
        (1, ListingFilter::ThreadUnseen, true),
        (0, ListingFilter::Every, true),
    ] {
        let question = mailbox(uid, filter, collapse);
        let plan =
            |drive: &TestDriver| explain(&drive.store.snapshot(), &question.results()).unwrap();
        let before = plan(&drive);
        let wanted = (MailboxUid(uid), filter);
        assert_eq!(
            (before.wanted_listing, before.path, before.used_listings.len()),
            (Some(wanted), AccessPath::Generic, 0),
            "{before}"
        );
        assert!(before.to_string().contains("not listing: "), "{before}");
        drive.apply(&Op::Make { uid: wanted.0, filter, most: 100 });
        let making = plan(&drive);
        assert_eq!((making.wanted_listing, making.path), (Some(wanted), AccessPath::Generic));
        assert!(making.to_string().contains("being made"), "{making}");
        let state = drive.state();
        // The state of emails is what a client holds, whatever else of the account changes.
        let other = VacationResponse { enabled: true, ..VacationResponse::default() };
        drive
            .store
            .commit(ACCOUNT, |txn| txn.set_vacation(&other))
            .unwrap()
            .1
            .wait_blocking()
            .unwrap();
        keep(&mut drive, wanted.0, filter);
        let kept = plan(&drive);
        assert!(matches!(kept.path, AccessPath::Listing(_)) && kept.ranked, "{kept}");
        assert_eq!(
            (kept.wanted_listing, kept.used_listings.as_slice(), kept.length),
            (None, &[wanted][..], 300)
        );
        let secrets = drive.store.secrets().clone();
        let asked =
            |since| QueryChanges { results: question.results(), since, ..QueryChanges::default() };
        let found = changes(&drive.store.snapshot(), &secrets, &asked(state)).unwrap();
        assert!(matches!(found.plan.path, AccessPath::Listing(_)), "{}", found.plan);
        let older =
            changes(&drive.store.snapshot(), &secrets, &asked(ModSeq(state.0 - 1))).unwrap();
        assert!(matches!(older.plan.path, AccessPath::Filtered(_)), "{}", older.plan);
        assert!(older.plan.to_string().contains("older than its history"), "{}", older.plan);
        check_query(&drive, &question.results(), &(Begin::Position(150), Some(10)), true);
        check_query(&drive, &question.results(), &(Begin::Anchor(7, -3), Some(10)), true);
    }
}

#[test]
fn of_few_emails_no_view_is_wanted() {
    let mut drive = TestDriver::new();
    drive.apply(&create(NaiveDraft::default(), &[1], 0));
    for (uid, filter) in
        [(1, ListingFilter::Unseen), (7, ListingFilter::Every), (0, ListingFilter::Unseen)]
    {
        let plan =
            explain(&drive.store.snapshot(), &mailbox(uid, filter, false).results()).unwrap();
        assert_eq!((plan.wanted_listing, plan.path), (None, AccessPath::Generic), "{plan}");
    }
}

#[test]
fn all_mail_is_walked_and_its_depths_want_ranks() {
    let mut drive = TestDriver::new();
    for n in 0..3 {
        drive.apply(&create(NaiveDraft::default(), &[1], n));
    }
    let results = mailbox(0, ListingFilter::Every, false).results();
    let snapshot = drive.store.snapshot();
    assert_eq!(explain(&snapshot, &results).unwrap().path, AccessPath::AllMail);
    assert!(!Window::default().is_deep());
    for start in
        [Start::Position(-1), Start::Position(10_000), Start::Anchor { id: EmailId(0), offset: 0 }]
    {
        assert!(Window { start, limit: None }.is_deep());
    }
    check_changes(&drive, &results);
}

#[test]
fn the_cheaper_of_two_walks_is_taken() {
    let mut drive = TestDriver::new();
    for n in 0..20 {
        drive.apply(&create(NaiveDraft::default(), &[if n < 4 { 1 } else { 3 }], n));
    }
    let path = |uid| {
        let mut question = mailbox(uid, ListingFilter::Every, false);
        question.more = Some(Condition::MinSize(1));
        explain(&drive.store.snapshot(), &question.results()).unwrap()
    };
    let small = Listing { uid: MailboxUid(1), filter: ListingFilter::Every, shape: Shape::Emails };
    assert_eq!((path(1).path, path(1).length), (AccessPath::Filtered(small), 4));
    assert_eq!(path(3).path, AccessPath::Generic);
    assert!(path(3).to_string().contains("not filtered listing: to find 16 emails"), "{}", path(3));
}

#[test]
fn more_events_than_are_looked_at_are_refused() {
    let mut drive = TestDriver::new();
    let first = drive.state();
    for n in 0..4 {
        drive.apply(&create(NaiveDraft::default(), &[1], n));
    }
    let (snapshot, secrets) = (drive.store.snapshot(), drive.store.secrets());
    let results = mailbox(1, ListingFilter::Every, false).results();
    let plan = explain(&snapshot, &results).unwrap();
    let asked = QueryChanges { results: results.clone(), since: first, ..QueryChanges::default() };
    let matcher = Matcher::new(&results.filter, secrets);
    assert_eq!(
        changes_by(&snapshot, &matcher, &asked, plan.clone(), 3),
        Err(Error::CannotCalculateChanges)
    );
    assert_eq!(changes_by(&snapshot, &matcher, &asked, plan, 4).unwrap().answer.added.len(), 4);
    assert_eq!(access_paths(&snapshot, &results, &matcher).unwrap().candidates.len(), 3);
}
