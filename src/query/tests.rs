//! Compares the answers of queries with those of the naive account, over random histories.
//! `RESTANTE_CASES` sets their number.

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
mod pinned_cost;
mod repair;
mod scope;
mod search;
mod search_cost;

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::message::rows_or_bare;
use crate::model::{DataType, EmailId, MailboxUid, ModSeq, ThreadId, UtcMillis};
use crate::query::matching::evaluate::Matcher;
use crate::query::plan::access_paths;
use crate::query::tests::driver::{ACCOUNT, EPOCH, Op, TIMES, TestDriver, ops};
use crate::query::tests::naive::{KEYWORDS, NaiveDraft, splice};
use crate::query::*;

/// Returns a query of every email, with batches so small that a few emails need several.
fn small_batches() -> QuerySpec {
    QuerySpec { options: QueryOptions::small(), ..QuerySpec::default() }
}

fn config() -> ProptestConfig {
    let cases = std::env::var("RESTANTE_CASES").ok().and_then(|cases| cases.parse().ok());
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

fn results() -> impl Strategy<Value = QuerySpec> {
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

/// Where a window begins, as long as there are no ids.
#[derive(Debug, Clone)]
enum Begin {
    Position(i64),
    Anchor(usize, i64),
}

fn window() -> impl Strategy<Value = (Begin, Option<usize>)> {
    let begin = prop_oneof![
        (-12i64..12).prop_map(Begin::Position),
        (0usize..20, -6i64..6).prop_map(|(which, offset)| Begin::Anchor(which, offset)),
    ];
    (begin, proptest::option::of(0usize..8))
}

/// Checks that every access path that applies gives the answer of the naive account.
fn check_query(
    drive: &TestDriver,
    results: &QuerySpec,
    (begin, limit): &(Begin, Option<usize>),
    total: bool,
) {
    let start = match begin {
        Begin::Position(position) => Start::Position(*position),
        Begin::Anchor(which, offset) => match which.checked_rem(drive.ids.len()) {
            Some(at) => Start::Anchor { id: drive.ids[at], offset: *offset },
            None => Start::Position(0),
        },
    };
    let asked = Query { results: results.clone(), window: Window { start, limit: *limit }, total };
    let (snapshot, secrets) = (drive.store.snapshot(), drive.store.secrets());
    let wanted =
        drive.now.page(&asked).ok_or(Error::AnchorNotFound).map(|(ids, position)| QueryAnswer {
            ids,
            position,
            total: total.then(|| drive.now.list(results).len()),
            state: drive.state(),
            can_calculate: true,
        });
    assert_eq!(query(&snapshot, secrets, &asked).map(|found| found.answer), wanted, "{asked:?}");
    let matcher = Matcher::new(&results.filter, secrets);
    for plan in access_paths(&snapshot, results, &matcher).unwrap().candidates {
        assert_eq!(
            query_by(&snapshot, &matcher, &asked, &plan),
            wanted,
            "{:?} for {asked:?}",
            plan.path
        );
    }
}

/// Checks the changes from every past state by every access path: applied to the old results they
/// must give the new ones, and applied to the first part of the old results they must give a
/// correct first part. A listing must report no more than the minimum.
fn check_changes(drive: &TestDriver, results: &QuerySpec) {
    let snapshot = drive.store.snapshot();
    let new = drive.now.list(results);
    let matcher = Matcher::new(&results.filter, drive.store.secrets());
    for plan in access_paths(&snapshot, results, &matcher).unwrap().candidates {
        for (since, past) in &drive.past {
            check_changes_by(drive, &snapshot, results, &plan, (*since, past), &new);
        }
    }
}

/// Whether this access path must report the minimum of changes.
fn is_exact(path: AccessPath) -> bool {
    matches!(path, AccessPath::Listing(_) | AccessPath::Pinned(..) | AccessPath::AllMail)
}

/// Returns the minimum of changes. `upToId` is honoured if the order of the results never changes.
fn least_by(
    plan: &QueryPlan,
    results: &QuerySpec,
    (past, old): (&naive::NaiveAccount, &[EmailId]),
    (now, new): (&naive::NaiveAccount, &[EmailId]),
    up_to: Option<EmailId>,
) -> (std::collections::BTreeSet<EmailId>, Vec<(usize, EmailId)>) {
    let is_oldest_of_threads = results.collapse && plan.direction == sort::Direction::OldestFirst;
    let is_honoured = !matches!(plan.path, AccessPath::Pinned(..)) && !is_oldest_of_threads;
    let moved = |id| past.keys(&results.sort, id) != now.keys(&results.sort, id);
    naive::least(old, new, up_to.filter(|_| is_honoured), moved)
}

fn check_changes_by(
    drive: &TestDriver,
    snapshot: &Snapshot<'_>,
    results: &QuerySpec,
    plan: &QueryPlan,
    (since, past): (ModSeq, &naive::NaiveAccount),
    new: &[EmailId],
) {
    let old = past.list(results);
    let old = old.as_slice();
    let matcher = Matcher::new(&results.filter, drive.store.secrets());
    let run = |asked: &QueryChanges| {
        changes_by(snapshot, &matcher, asked, plan.clone(), limits::MAX_QUERY_EVENTS)
    };
    let mut asked =
        QueryChanges { results: results.clone(), since, total: true, ..QueryChanges::default() };
    let first = run(&asked);
    let has_history = match plan.path {
        AccessPath::Listing(listing) | AccessPath::Pinned(listing, _) => plan
            .listing
            .iter()
            .chain(&plan.pin_listing)
            .all(|kept| since >= kept.stats(listing.shape).low),
        _ => false,
    };
    if since < drive.low && !has_history {
        assert_eq!(
            first,
            Err(Error::CannotCalculateChanges),
            "{since} is from before {}",
            drive.low
        );
        return;
    }
    let AnswerWithPlan { answer: found, plan: taken } = first.unwrap();
    let exact = is_exact(taken.path);
    let least = |part: &QueryChangesAnswer, up_to: Option<EmailId>| {
        let named = (part.removed.iter().copied().collect(), part.added.clone());
        let wanted = least_by(&taken, results, (past, old), (&drive.now, new), up_to);
        assert_eq!(named, wanted, "{old:?} to {new:?} up to {up_to:?} for {asked:?}");
        assert!(part.removed.is_sorted() && part.added.is_sorted());
    };
    if exact {
        least(&found, None);
    }
    let cached: Vec<Option<EmailId>> = old.iter().copied().map(Some).collect();
    let wanted: Vec<Option<EmailId>> = new.iter().copied().map(Some).collect();
    assert_eq!(
        splice(&cached, &found, new.len()),
        wanted,
        "{old:?} to {new:?} by {found:?} for {asked:?}"
    );
    assert_eq!((found.total, found.state), (Some(new.len()), drive.state()));
    let depends = results.filter.dependencies();
    if !depends.mutable && results.sort.is_empty() && !results.collapse {
        let gone = |ids: &[EmailId], other: &[EmailId]| {
            ids.iter().copied().filter(|id| !other.contains(id)).collect::<Vec<_>>()
        };
        // Destroyed emails may be reported although they were not in the old results.
        let (live, dead): (Vec<EmailId>, Vec<EmailId>) =
            found.removed.iter().partition(|id| drive.now.mails.iter().any(|mail| mail.id == **id));
        assert_eq!(live, [], "{asked:?}");
        assert!(gone(old, new).iter().all(|id| dead.contains(id)), "{asked:?}");
        assert_eq!(
            found.added.iter().map(|(_, id)| *id).collect::<Vec<_>>(),
            gone(new, old),
            "{asked:?}"
        );
    }
    let count = found.removed.len() + found.added.len();
    let asked_most = |most| QueryChanges { max_changes: Some(most), ..asked.clone() };
    assert_eq!(run(&asked_most(count)).unwrap().answer, found);
    if let Some(fewer) = count.checked_sub(1) {
        assert_eq!(run(&asked_most(fewer)), Err(Error::TooManyChanges));
    }
    for (at, up_to) in old.iter().enumerate() {
        let part = run(&QueryChanges { up_to: Some(*up_to), ..asked.clone() }).unwrap().answer;
        if exact {
            least(&part, Some(*up_to));
        }
        assert!(part.removed.len() <= found.removed.len() && part.added.len() <= found.added.len());
        let mut cached = cached.clone();
        cached[at + 1..].fill(None);
        let replayed = splice(&cached, &part, new.len());
        let is_true =
            replayed.iter().zip(&wanted).all(|(known, id)| known.is_none() || known == id);
        assert!(is_true, "{old:?} to {new:?} by {part:?} gave {replayed:?} for {asked:?}");
        // The client's results up to this email are correct, if the email stayed in its position.
        if new.contains(up_to) && !found.removed.contains(up_to) {
            let known = replayed.iter().take_while(|known| known.is_some()).count();
            assert!(
                new.iter().position(|id| id == up_to).unwrap() < known,
                "{replayed:?} for {asked:?}"
            );
        }
    }
    if exact {
        // An id that was not in the old results cuts off nothing.
        for id in drive.ids.iter().filter(|id| !old.contains(id)) {
            least(
                &run(&QueryChanges { up_to: Some(*id), ..asked.clone() }).unwrap().answer,
                Some(*id),
            );
        }
    }
    asked.total = false;
    assert_eq!(run(&asked).unwrap().answer, QueryChangesAnswer { total: None, ..found });
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_query_answers_as_the_naive_account_does(
        ops in ops(30),
        asked in proptest::collection::vec((results(), window(), any::<bool>()), 1..12),
    ) {
        let mut drive = TestDriver::new();
        for chunk in ops.chunks(8) {
            drive.run(chunk);
            for (results, window, total) in &asked {
                check_query(&drive, results, window, *total);
            }
        }
    }

    #[test]
    fn query_changes_from_every_past_state_give_the_new_list(
        ops in ops(20),
        asked in proptest::collection::vec(results(), 1..5),
    ) {
        let mut drive = TestDriver::new();
        drive.run(&ops);
        for results in &asked {
            check_changes(&drive, results);
        }
    }

    #[test]
    fn counts_states_and_the_checker_agree_with_the_naive_account(ops in ops(40)) {
        let mut drive = TestDriver::new();
        drive.run(&ops);
        check_account(&drive);
    }
}

/// Compares the contents and counts of the store with the naive account, and runs the checker.
fn check_account(drive: &TestDriver) {
    check_facts(drive);
    let remake = |raw: &[u8]| rows_or_bare(raw, drive.store.secrets());
    let found = drive.store.check_deep(Some(&remake), &mut |_| true).unwrap();
    assert_eq!(found.breaches, Vec::new());
}

/// Compares counts, marks, emails with their bytes, threads and quota.
fn check_facts(drive: &TestDriver) {
    let snapshot = drive.store.snapshot();
    let boxes = snapshot.mailboxes(ACCOUNT).unwrap();
    assert_eq!(boxes.len(), 3);
    for (uid, mailbox) in boxes {
        assert_eq!(mailbox.counts, drive.now.counts(uid), "{uid}");
    }
    let marks = snapshot.account_state(ACCOUNT).unwrap();
    assert_eq!(marks.low_mark(DataType::Email), drive.low);
    for (since, _) in &drive.past {
        let mut wanted: Vec<_> = drive.now.changed.iter().map(|(id, at)| (*at, *id)).collect();
        wanted.retain(|(at, _)| at > since);
        wanted.sort_unstable();
        assert_eq!(snapshot.emails_since(ACCOUNT, *since, wanted.len()).unwrap(), Some(wanted));
    }
    let mut threads: BTreeMap<ThreadId, Vec<&naive::NaiveMail>> = BTreeMap::new();
    for mail in &drive.now.mails {
        let found = snapshot.email(ACCOUNT, mail.id).unwrap().unwrap();
        assert_eq!((&found.mailboxes, &found.keywords), (&mail.mailboxes, &mail.keywords));
        assert_eq!(
            (found.thread, found.size, found.received_at),
            (mail.thread, mail.size(), mail.received_at)
        );
        let octets = [mail.draft.prefix().as_bytes(), mail.draft.raw().as_bytes()].concat();
        assert_eq!(snapshot.message(ACCOUNT, mail.id).unwrap().as_ref(), Some(&octets));
        let (seam, end) = (mail.draft.prefix().len(), octets.len());
        for (from, to) in [
            (0, 3),
            (seam.saturating_sub(1), seam + 1),
            (seam, seam),
            (end - 2, end + 9),
            (end + 1, end + 9),
        ] {
            let part = snapshot.message_part(ACCOUNT, mail.id, from as u64..to as u64).unwrap();
            assert_eq!(
                part.as_deref(),
                Some(octets.get(from..to.min(end)).unwrap_or_default()),
                "{from}..{to} of {end}"
            );
        }
        threads.entry(mail.thread).or_default().push(mail);
    }
    for id in drive.ids.iter().filter(|id| !drive.now.mails.iter().any(|mail| mail.id == **id)) {
        assert_eq!(
            (snapshot.email(ACCOUNT, *id), snapshot.message(ACCOUNT, *id)),
            (Ok(None), Ok(None))
        );
    }
    let octets: u64 = drive.now.mails.iter().map(naive::NaiveMail::size).sum();
    assert_eq!((marks.emails, marks.bytes), (drive.now.mails.len() as u64, octets));
    assert_eq!(
        snapshot.threads(ACCOUNT, 1000).unwrap(),
        threads.keys().copied().collect::<Vec<_>>()
    );
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
            let here =
                mails.iter().filter(|mail| mail.mailboxes.contains(&uid)).map(|mail| mail.id);
            assert_eq!(
                snapshot.thread_emails_in_mailbox(ACCOUNT, uid, thread).unwrap(),
                here.collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn a_state_of_the_future_is_refused_and_bounds_are_checked_first() {
    let drive = TestDriver::new();
    let (snapshot, secrets) = (drive.store.snapshot(), drive.store.secrets());
    let results = QuerySpec { account: ACCOUNT, ..small_batches() };
    let ahead =
        QueryChanges { results: results.clone(), since: ModSeq(1_000), ..QueryChanges::default() };
    assert_eq!(changes(&snapshot, secrets, &ahead), Err(Error::CannotCalculateChanges));
    let keyword = SortProperty::HasKeyword("$Seen".into());
    let sort = vec![Comparator { property: keyword, ascending: true, collation: Collation::Octet }];
    let wrong = Query { results: QuerySpec { sort, ..results.clone() }, ..Query::default() };
    assert!(matches!(query(&snapshot, secrets, &wrong), Err(Error::Unsupported(_))));
    let by_size =
        Comparator { property: SortProperty::Size, ascending: true, collation: Collation::Octet };
    let sort = vec![by_size; limits::MAX_SORT_COMPARATORS + 1];
    let wrong = QueryChanges { results: QuerySpec { sort, ..results }, ..QueryChanges::default() };
    assert!(matches!(changes(&snapshot, secrets, &wrong), Err(Error::Unsupported(_))));
}

#[test]
fn windows_at_their_ends() {
    let mut drive = TestDriver::new();
    let draft = NaiveDraft::default();
    // Enough emails that the walk reads several batches.
    for n in 0..270 {
        let boxes = [MailboxUid(1)].into();
        drive.apply(&Op::Create {
            draft: draft.clone(),
            mailboxes: boxes,
            keywords: [].into(),
            at: UtcMillis(EPOCH + n),
        });
    }
    let results = QuerySpec { account: ACCOUNT, ..small_batches() };
    for position in [0, 1, 255, 256, 257, 269, 270, 271, -1, -270, -271, i64::MAX, i64::MIN] {
        for limit in [None, Some(0), Some(1), Some(256), Some(usize::MAX)] {
            for total in [false, true] {
                if position != i64::MAX && position != i64::MIN {
                    check_query(&drive, &results, &(Begin::Position(position), limit), total);
                }
                let window = Window { start: Start::Position(position), limit };
                let asked = Query { results: results.clone(), window, total };
                assert!(query(&drive.store.snapshot(), drive.store.secrets(), &asked).is_ok());
            }
        }
    }
    let anchor = Start::Anchor { id: drive.ids[0], offset: i64::MIN };
    let asked = Query { results, window: Window { start: anchor, limit: Some(1) }, total: false };
    assert_eq!(
        query(&drive.store.snapshot(), drive.store.secrets(), &asked).unwrap().answer.position,
        0
    );
}
