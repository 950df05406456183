//! Compares queries and their changes with those of the naive account (`naive`: vectors and full
//! scans), over random histories. `RESTANTE_CASES` sets the number of histories of a test; some
//! tests run only a fraction of that number.

mod client;
mod delivered;
mod delivered_cost;
#[cfg(feature = "rocksdb")]
mod disk;
mod driver;
mod listings;
mod merge;
mod naive;
mod operations;
mod paths;
mod pinned_cost;
mod repair;
mod scope;
mod search;
mod search_cost;
mod short_histories;
mod windows;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::message::rows_of_any;
use crate::model::{DataType, EmailId, MailboxUid, ModSeq, ThreadId, UtcMillis};
use crate::query::matching::evaluate::Matcher;
use crate::query::plan::access_paths;
use crate::query::tests::driver::{ACCOUNT, EPOCH, TIMES, TestDriver};
use crate::query::tests::naive::{KEYWORDS, apply_changes};
use crate::query::*;

/// Returns a query of every email, with small batches of index hits. The account must be set.
fn small_batches() -> QuerySpec {
    QuerySpec { options: QueryOptions::small(), ..QuerySpec::default() }
}

fn config() -> ProptestConfig {
    let cases = std::env::var("RESTANTE_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(400),
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

fn keyword() -> impl Strategy<Value = String> {
    proptest::sample::select(&KEYWORDS[..]).prop_map(str::to_owned)
}

fn condition() -> impl Strategy<Value = Condition> {
    let uid = || (0u32..5).prop_map(MailboxUid);
    let at = || (-1..=TIMES).prop_map(|at| UtcMillis(EPOCH + at));
    let text = || {
        let texts = [
            "alpha",
            "beta",
            "big lunch",
            "\"big lunch\"",
            "'lunch big'",
            "ann",
            "ANN lee",
            "'Lee Ann'",
            "a.example",
            "ann@a.example",
            "plan",
            "plan.txt",
            "'alpha beta'",
            "bob \"lunch\"",
            "dinner",
            "",
            "-",
            "'alpha big' ann",
        ];
        proptest::sample::select(texts.to_vec()).prop_map(str::to_owned)
    };
    let name = proptest::sample::select(vec![
        "X-Mark",
        "subject",
        "FROM",
        "Delivered-To",
        "DELIVERED-to",
        "X-None",
        "References",
        "message-id",
    ]);
    let value = proptest::sample::select(vec![
        "one",
        "one two",
        "\"one two\"",
        "5.",
        "lee",
        "lunch big",
        "shop@a.example",
        "\"ME\" a.example",
        "jürgen@a.example",
        "r1@x",
        "<r1@x>",
        "<r2@x> <R1@X>",
        "<>",
        "",
    ]);
    let header = (name, proptest::option::of(value)).prop_map(|(name, text)| Condition::Header {
        name: name.into(),
        text: text.map(str::to_owned),
    });
    prop_oneof![
        4 => uid().prop_map(Condition::InMailbox),
        2 => proptest::collection::vec(uid(), 0..3).prop_map(Condition::InMailboxOtherThan),
        1 => at().prop_map(Condition::Before),
        1 => at().prop_map(Condition::After),
        1 => (0u64..500).prop_map(Condition::MinSize),
        1 => (0u64..500).prop_map(Condition::MaxSize),
        2 => keyword().prop_map(Condition::AllInThreadHaveKeyword),
        2 => keyword().prop_map(Condition::SomeInThreadHaveKeyword),
        2 => keyword().prop_map(Condition::NoneInThreadHaveKeyword),
        2 => keyword().prop_map(Condition::HasKeyword),
        2 => keyword().prop_map(Condition::NotKeyword),
        1 => any::<bool>().prop_map(Condition::HasAttachment),
        2 => text().prop_map(Condition::Text),
        1 => text().prop_map(Condition::From),
        1 => text().prop_map(Condition::To),
        1 => text().prop_map(Condition::Cc),
        1 => text().prop_map(Condition::Bcc),
        2 => text().prop_map(Condition::Subject),
        2 => text().prop_map(Condition::Body),
        1 => text().prop_map(Condition::AttachmentName),
        1 => proptest::sample::select(
            vec!["application/pdf", "application/", "application", "text", "application/p"],
        )
        .prop_map(|kind| Condition::AttachmentType(kind.into())),
        2 => header,
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    let leaf = prop_oneof![8 => condition().prop_map(Filter::Is), 1 => Just(Filter::default())];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let parts = proptest::collection::vec(inner, 0..4);
        (parts, 0u8..3).prop_map(|(parts, operator)| match operator {
            0 => Filter::And(parts),
            1 => Filter::Or(parts),
            _ => Filter::Not(parts),
        })
    })
}

fn comparator() -> impl Strategy<Value = Comparator> {
    let property = prop_oneof![
        3 => Just(SortProperty::ReceivedAt),
        1 => Just(SortProperty::SentAt),
        1 => Just(SortProperty::Size),
        1 => Just(SortProperty::From),
        1 => Just(SortProperty::To),
        1 => Just(SortProperty::Subject),
        1 => keyword().prop_map(SortProperty::HasKeyword),
        1 => keyword().prop_map(SortProperty::AllInThreadHaveKeyword),
        1 => keyword().prop_map(SortProperty::SomeInThreadHaveKeyword),
    ];
    (property, any::<bool>(), proptest::sample::select(Collation::ALL.to_vec()))
        .prop_map(|(property, ascending, collation)| Comparator { property, ascending, collation })
}

fn query_spec() -> impl Strategy<Value = QuerySpec> {
    (filter(), proptest::collection::vec(comparator(), 0..3), any::<bool>()).prop_map(
        |(filter, sort, collapse)| QuerySpec {
            account: ACCOUNT,
            filter,
            sort,
            collapse,
            ..small_batches()
        },
    )
}

/// Where a window begins. `Anchor` has the index of an email in `TestDriver::ids` and the offset.
#[derive(Debug, Clone)]
enum Begin {
    Position(i64),
    Anchor(usize, i64),
}

fn window() -> impl Strategy<Value = (Begin, Option<usize>)> {
    let begin = prop_oneof![
        (-12i64..12).prop_map(Begin::Position),
        (0usize..20, -6i64..6).prop_map(|(index, offset)| Begin::Anchor(index, offset)),
    ];
    (begin, proptest::option::of(0usize..8))
}

/// Checks that every access path that applies gives the answer of the naive account.
fn check_query(
    driver: &TestDriver,
    spec: &QuerySpec,
    (begin, limit): &(Begin, Option<usize>),
    total: bool,
) {
    let start = match begin {
        Begin::Position(position) => Start::Position(*position),
        Begin::Anchor(index, offset) => match index.checked_rem(driver.ids.len()) {
            Some(at) => Start::Anchor { id: driver.ids[at], offset: *offset },
            None => Start::Position(0),
        },
    };
    let request = Query { spec: spec.clone(), window: Window { start, limit: *limit }, total };
    let (snapshot, secrets) = (driver.store.snapshot(), driver.store.secrets());
    let expected =
        driver.now.page(&request).ok_or(Error::AnchorNotFound).map(|(ids, position)| QueryAnswer {
            ids,
            position,
            total: total.then(|| driver.now.list(spec).len()),
            state: driver.state(),
            can_calculate: true,
        });
    assert_eq!(
        query(&snapshot, secrets, &request).map(|found| found.answer),
        expected,
        "{request:?}"
    );
    let matcher = Matcher::new(&spec.filter, secrets);
    for plan in access_paths(&snapshot, spec, &matcher).unwrap().candidates {
        assert_eq!(
            query_by(&snapshot, &matcher, &request, &plan),
            expected,
            "{:?} for {request:?}",
            plan.path
        );
    }
}

/// Checks the changes from every past state by every access path.
///
/// - Applied to the old results, they must give the new results.
/// - Applied to the first part of the old results, they must give no wrong id.
/// - If `reports_minimum` holds for the path, they must be the minimum of changes.
fn check_changes(driver: &TestDriver, spec: &QuerySpec) {
    let snapshot = driver.store.snapshot();
    let new = driver.now.list(spec);
    let matcher = Matcher::new(&spec.filter, driver.store.secrets());
    for plan in access_paths(&snapshot, spec, &matcher).unwrap().candidates {
        for (since, past) in &driver.past {
            check_changes_by(driver, &snapshot, spec, &plan, (*since, past), &new);
        }
    }
}

fn reports_minimum(path: AccessPath) -> bool {
    matches!(path, AccessPath::Listing(_) | AccessPath::Pinned(..) | AccessPath::AllMail)
}

/// Returns the minimum of changes that a plan must report. A plan honours `upToId`, unless it is
/// pinned or shows the oldest email of each thread.
fn minimal_changes_of(
    plan: &QueryPlan,
    spec: &QuerySpec,
    (past, old): (&naive::NaiveAccount, &[EmailId]),
    (now, new): (&naive::NaiveAccount, &[EmailId]),
    up_to: Option<EmailId>,
) -> (BTreeSet<EmailId>, Vec<(usize, EmailId)>) {
    let is_oldest_of_threads = spec.collapse && plan.direction == sort::Direction::OldestFirst;
    let is_honoured = !matches!(plan.path, AccessPath::Pinned(..)) && !is_oldest_of_threads;
    let moved = |id| past.keys(&spec.sort, id) != now.keys(&spec.sort, id);
    naive::minimal_changes(old, new, up_to.filter(|_| is_honoured), moved)
}

fn check_changes_by(
    driver: &TestDriver,
    snapshot: &Snapshot<'_>,
    spec: &QuerySpec,
    plan: &QueryPlan,
    (since, past): (ModSeq, &naive::NaiveAccount),
    new: &[EmailId],
) {
    let old = past.list(spec);
    let old = old.as_slice();
    let matcher = Matcher::new(&spec.filter, driver.store.secrets());
    let run = |request: &QueryChanges| {
        changes_by(snapshot, &matcher, request, plan.clone(), limits::MAX_QUERY_EVENTS)
    };
    let mut request =
        QueryChanges { spec: spec.clone(), since, total: true, ..QueryChanges::default() };
    let first = run(&request);
    let has_history = match plan.path {
        AccessPath::Listing(listing) | AccessPath::Pinned(listing, _) => plan
            .listing
            .iter()
            .chain(&plan.pin_listing)
            .all(|maintained| since >= maintained.stats(listing.shape).low),
        _ => false,
    };
    if since < driver.low && !has_history {
        assert_eq!(
            first,
            Err(Error::CannotCalculateChanges),
            "state {since} is older than the low mark {}",
            driver.low
        );
        return;
    }
    // If the history of the listing does not go back so far, another path is used.
    let AnswerWithPlan { answer: found, plan: used_plan } = first.unwrap();
    let is_minimal = reports_minimum(used_plan.path);
    let assert_minimal = |part: &QueryChangesAnswer, up_to: Option<EmailId>| {
        let reported = (part.removed.iter().copied().collect(), part.added.clone());
        let expected = minimal_changes_of(&used_plan, spec, (past, old), (&driver.now, new), up_to);
        assert_eq!(reported, expected, "{old:?} to {new:?} up to {up_to:?} for {request:?}");
        assert!(part.removed.is_sorted() && part.added.is_sorted());
    };
    if is_minimal {
        assert_minimal(&found, None);
    }
    let cached: Vec<Option<EmailId>> = old.iter().copied().map(Some).collect();
    let expected: Vec<Option<EmailId>> = new.iter().copied().map(Some).collect();
    assert_eq!(
        apply_changes(&cached, &found, new.len()),
        expected,
        "{old:?} to {new:?} by {found:?} for {request:?}"
    );
    assert_eq!((found.total, found.state), (Some(new.len()), driver.state()));
    // With an immutable filter, and in the order of ids, emails only come and go.
    if !spec.filter.dependencies().mutable && spec.sort.is_empty() && !spec.collapse {
        let difference = |ids: &[EmailId], other: &[EmailId]| {
            ids.iter().copied().filter(|id| !other.contains(id)).collect::<Vec<_>>()
        };
        // Destroyed emails may be reported although they were not in the old results.
        let (live, destroyed): (Vec<EmailId>, Vec<EmailId>) = found
            .removed
            .iter()
            .partition(|id| driver.now.mails.iter().any(|mail| mail.id == **id));
        assert_eq!(live, [], "{request:?}");
        assert!(difference(old, new).iter().all(|id| destroyed.contains(id)), "{request:?}");
        assert_eq!(
            found.added.iter().map(|(_, id)| *id).collect::<Vec<_>>(),
            difference(new, old),
            "{request:?}"
        );
    }
    let count = found.removed.len() + found.added.len();
    let at_most = |limit| QueryChanges { max_changes: Some(limit), ..request.clone() };
    assert_eq!(run(&at_most(count)).unwrap().answer, found);
    if let Some(fewer) = count.checked_sub(1) {
        assert_eq!(run(&at_most(fewer)), Err(Error::TooManyChanges));
    }
    for (at, up_to) in old.iter().enumerate() {
        let part = run(&QueryChanges { up_to: Some(*up_to), ..request.clone() }).unwrap().answer;
        if is_minimal {
            assert_minimal(&part, Some(*up_to));
        }
        assert!(part.removed.len() <= found.removed.len() && part.added.len() <= found.added.len());
        let mut cached = cached.clone();
        cached[at + 1..].fill(None);
        let patched = apply_changes(&cached, &part, new.len());
        let is_correct =
            patched.iter().zip(&expected).all(|(cached, id)| cached.is_none() || cached == id);
        assert!(is_correct, "{old:?} to {new:?} by {part:?} gave {patched:?} for {request:?}");
        if new.contains(up_to) && !found.removed.contains(up_to) {
            let complete = patched.iter().take_while(|cached| cached.is_some()).count();
            assert!(
                new.iter().position(|id| id == up_to).unwrap() < complete,
                "{patched:?} for {request:?}"
            );
        }
    }
    if is_minimal {
        // An `upToId` that was not in the old results omits no removal.
        for id in driver.ids.iter().filter(|id| !old.contains(id)) {
            assert_minimal(
                &run(&QueryChanges { up_to: Some(*id), ..request.clone() }).unwrap().answer,
                Some(*id),
            );
        }
    }
    request.total = false;
    assert_eq!(run(&request).unwrap().answer, QueryChangesAnswer { total: None, ..found });
}

fn check_account(driver: &TestDriver) {
    check_rows(driver);
    let make_rows = |raw: &[u8]| rows_of_any(raw, driver.store.secrets());
    let found = driver.store.check_deep(Some(&make_rows), &mut |_| true).unwrap();
    assert_eq!(found.breaches, Vec::new());
}

fn check_rows(driver: &TestDriver) {
    let snapshot = driver.store.snapshot();
    let mailboxes = snapshot.mailboxes(ACCOUNT).unwrap();
    assert_eq!(mailboxes.len(), 3);
    for (uid, mailbox) in mailboxes {
        assert_eq!(mailbox.counts, driver.now.counts(uid), "{uid}");
    }
    let account = snapshot.account_state(ACCOUNT).unwrap();
    assert_eq!(account.low_mark(DataType::Email), driver.low);
    for (since, _) in &driver.past {
        let mut expected: Vec<_> = driver.now.changed.iter().map(|(id, at)| (*at, *id)).collect();
        expected.retain(|(at, _)| at > since);
        expected.sort_unstable();
        assert_eq!(snapshot.emails_since(ACCOUNT, *since, expected.len()).unwrap(), Some(expected));
    }
    let mut threads: BTreeMap<ThreadId, Vec<&naive::NaiveMail>> = BTreeMap::new();
    for mail in &driver.now.mails {
        let found = snapshot.email(ACCOUNT, mail.id).unwrap().unwrap();
        assert_eq!((&found.mailboxes, &found.keywords), (&mail.mailboxes, &mail.keywords));
        assert_eq!(
            (found.thread, found.size, found.received_at),
            (mail.thread, mail.size(), mail.received_at)
        );
        let bytes = [mail.draft.prefix().as_bytes(), mail.draft.raw().as_bytes()].concat();
        assert_eq!(snapshot.message(ACCOUNT, mail.id).unwrap().as_ref(), Some(&bytes));
        let (prefix, end) = (mail.draft.prefix().len(), bytes.len());
        for (from, to) in [
            (0, 3),
            (prefix.saturating_sub(1), prefix + 1),
            (prefix, prefix),
            (end - 2, end + 9),
            (end + 1, end + 9),
        ] {
            let part = snapshot.message_part(ACCOUNT, mail.id, from as u64..to as u64).unwrap();
            assert_eq!(
                part.as_deref(),
                Some(bytes.get(from..to.min(end)).unwrap_or_default()),
                "{from}..{to} of {end}"
            );
        }
        threads.entry(mail.thread).or_default().push(mail);
    }
    for id in driver.ids.iter().filter(|id| !driver.now.mails.iter().any(|mail| mail.id == **id)) {
        assert_eq!(
            (snapshot.email(ACCOUNT, *id), snapshot.message(ACCOUNT, *id)),
            (Ok(None), Ok(None))
        );
    }
    let bytes: u64 = driver.now.mails.iter().map(naive::NaiveMail::size).sum();
    assert_eq!((account.emails, account.bytes), (driver.now.mails.len() as u64, bytes));
    assert_eq!(
        snapshot.threads(ACCOUNT, 1000).unwrap(),
        threads.keys().copied().collect::<Vec<_>>()
    );
    // Every second thread, and some that do not exist.
    let some: BTreeSet<ThreadId> = threads.keys().copied().step_by(2).collect();
    let some = some.into_iter().chain([ThreadId(0), ThreadId(u64::MAX)]).collect();
    for wanted in [&BTreeSet::new(), &some, &threads.keys().copied().collect()] {
        let emails = snapshot.emails_of_threads(ACCOUNT, wanted).unwrap();
        assert!(emails.keys().eq(wanted));
        for (thread, emails) in emails {
            assert_eq!(emails, snapshot.thread_emails(ACCOUNT, thread).unwrap(), "{thread}");
        }
    }
    for (thread, mut mails) in threads {
        mails.sort_by_key(|mail| mail.id);
        let ids: Vec<EmailId> = mails.iter().map(|mail| mail.id).collect();
        assert_eq!(snapshot.thread_emails(ACCOUNT, thread).unwrap(), ids);
        let row = snapshot.thread(ACCOUNT, thread).unwrap().unwrap();
        let unseen = mails.iter().filter(|mail| !mail.keywords.contains("$seen")).count();
        assert_eq!(
            (row.emails as usize, row.unseen as usize, row.latest),
            (ids.len(), unseen, ids[0])
        );
        for uid in (1..4).map(MailboxUid) {
            let in_mailbox =
                mails.iter().filter(|mail| mail.mailboxes.contains(&uid)).map(|mail| mail.id);
            assert_eq!(
                snapshot.thread_emails_in_mailbox(ACCOUNT, uid, thread).unwrap(),
                in_mailbox.collect::<Vec<_>>()
            );
        }
    }
}
