//! The fuzz body of Email/query: filters, sorts and windows as JSON, evaluated on a small account.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::bounded;
use crate::jmap::email::search::filter::parse_filter;
use crate::jmap::email::search::query::SectionArgs;
use crate::jmap::email::search::sort::parse_sort;
use crate::message::rows;
use crate::model::clock::FixedClock;
use crate::model::{
    AccountId, AccountRow, Address, ListingFilter, MailboxUid, ModSeq, Role, UtcMillis, limits,
};
use crate::query::{
    Condition, Error, Filter, Finder, Query, QueryAnswer, QueryChanges, QueryOptions, QuerySpec,
    Window, changes, query,
};
use crate::store::engine::memory::MemoryEngine;
use crate::store::{EncodedMessage, NewEmail, NewMailbox, Options, Store};
use crate::wire::jmap::standard::QueryArgs;
use crate::wire::jmap::{MethodError, arguments};

const ACCOUNT: AccountId = AccountId(1);

/// Parses any JSON as the arguments of Email/query, which gives a query or an error of the right
/// type, and runs the query. Equivalent filters give the same answer, and a window gives a part of
/// all results.
pub fn filter(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bounded(data)) else { return };
    let part = |name: &str| value.get(name).filter(|part| !part.is_null());
    let (filter, sort) =
        match (parse_filter(part("filter")), parse_sort(part("sort").unwrap_or(&Value::Null))) {
            (Ok(filter), Ok(sort)) => (filter, sort),
            (
                Err(MethodError::InvalidArguments(what) | MethodError::UnsupportedFilter(what)),
                Ok(_) | Err(MethodError::InvalidArguments(_) | MethodError::UnsupportedSort(_)),
            )
            | (
                Ok(_),
                Err(MethodError::InvalidArguments(what) | MethodError::UnsupportedSort(what)),
            ) => {
                assert!(what.len() < 400, "an error text of {} bytes", what.len());
                return;
            }
            other => panic!("{other:?}"),
        };
    let mut section = Map::from_iter([("accountId".to_owned(), "a1".into())]);
    for name in ["position", "anchor", "anchorOffset", "limit"] {
        section.extend(part(name).map(|value| (name.to_owned(), value.clone())));
    }
    let args = arguments::read::<QueryArgs>("Email/query", section);
    let window = match args.and_then(|args| SectionArgs::from_query(&args).window(100)) {
        Err(MethodError::InvalidArguments(_) | MethodError::AnchorNotFound) => Window::default(),
        Ok(window) => window,
        Err(other) => panic!("{other:?}"),
    };
    for collapse in [false, true] {
        check_query(
            &QuerySpec {
                account: ACCOUNT,
                filter: filter.clone(),
                sort: sort.clone(),
                collapse,
                options: QueryOptions::small(),
                ..QuerySpec::default()
            },
            window,
        );
    }
    let finder = Finder::new(&filter, store().secrets());
    let snapshot = store().snapshot();
    for (id, _) in snapshot.emails(ACCOUNT, None, 100).expect("emails") {
        let found =
            finder.snippet(&snapshot, ACCOUNT, id).expect("a snippet").expect("of an email");
        assert!(found.preview.is_none_or(|preview| preview.len() <= limits::MAX_SNIPPET_BYTES));
    }
}

/// Runs a query, alone and in equivalent forms, and asks for its changes since the beginning.
fn check_query(spec: &QuerySpec, window: Window) {
    let (snapshot, secrets) = (store().snapshot(), store().secrets());
    let run = |filter: Filter, window: Window| -> Result<QueryAnswer, Error> {
        let spec = QuerySpec { filter, ..spec.clone() };
        query(&snapshot, secrets, &Query { spec, window, total: true }).map(|found| found.answer)
    };
    let whole = run(spec.filter.clone(), Window::default()).expect("a valid query");
    let distinct: BTreeSet<_> = whole.ids.iter().collect();
    assert!(distinct.len() == whole.ids.len() && whole.total == Some(whole.ids.len()), "{whole:?}");
    let plain = run(spec.filter.clone(), window);
    let same = || spec.filter.clone();
    let always = Filter::Is(Condition::MinSize(0));
    for other in [
        Filter::And(vec![same(), always.clone()]),
        Filter::Or(vec![same()]),
        Filter::Not(vec![Filter::Not(vec![same()])]),
        Filter::Not(vec![Filter::Not(vec![same()]), Filter::Not(vec![always])]),
    ] {
        if other.validate().is_ok() {
            assert_eq!(run(other.clone(), window), plain, "{other:?}");
        }
    }
    if let Ok(part) = plain {
        assert!(
            part.ids.iter().eq(whole.ids.iter().skip(part.position).take(part.ids.len())),
            "{part:?} of {whole:?}"
        );
    }
    // Since the beginning of the account, every result was added and none removed.
    let first = QueryChanges {
        spec: spec.clone(),
        since: ModSeq(0),
        total: true,
        ..QueryChanges::default()
    };
    let changed = changes(&snapshot, secrets, &first).expect("a valid query").answer;
    assert!(
        changed.removed.is_empty()
            && changed.added.into_iter().eq(whole.ids.into_iter().enumerate()),
        "{spec:?}"
    );
}

/// A store with an account that has two mailboxes, twelve emails in six threads, and some listings.
fn store() -> &'static Store {
    static STORE: OnceLock<Store> = OnceLock::new();
    STORE.get_or_init(|| {
        // So that even listings of twelve emails have ranks.
        let options = Options { ranked_above: Some(2), ..Options::small() };
        let clock = Arc::new(FixedClock::at(UtcMillis(1_790_000_000_000)));
        let store =
            Store::open_engine(Arc::new(MemoryEngine::new()), &options, clock).expect("a store");
        let row = AccountRow::new("me", Address::from_parts("me", "a.example"), UtcMillis(0));
        let made = store.commit(ACCOUNT, |txn| {
            txn.register(&row);
            for (name, role) in [("Inbox", Role::Inbox), ("Archive", Role::Archive)] {
                txn.create_mailbox(&NewMailbox {
                    name: name.into(),
                    parent: None,
                    role: Some(role),
                    sort_order: 0,
                })?;
            }
            for (uid, filter) in [
                (1, ListingFilter::Unseen),
                (1, ListingFilter::ThreadFlagged),
                (0, ListingFilter::Every),
            ] {
                txn.extend_listing(MailboxUid(uid), filter, 10)?;
            }
            Ok(())
        });
        made.expect("an account").1.wait_blocking().expect("an account");
        (0..12_u32).for_each(|n| create_email(&store, n));
        store
    })
}

/// Creates the email `n`. The number decides its words, thread, mailboxes, keywords and date.
fn create_email(store: &Store, n: u32) {
    let words = ["lunch", "big lunch", "日本語", "<b>&amp;</b>"];
    let word = words[usize::try_from(n).unwrap_or_default() % words.len()];
    let thread = n % 6;
    let raw = format!(
        "From: Ann <ann{thread}@a.example>\r\nTo: bob@b.example\r\nSubject: {word} {thread}\r\n\
         Message-ID: <{n}@x>\r\nReferences: <t{thread}@x>\r\n\
         Content-Type: text/plain; charset=utf-8\r\n\r\nabout {word}, {n}\r\n"
    );
    let message = EncodedMessage::new(&rows(raw.as_bytes(), store.secrets()));
    let (mut results, ticket) = store.commit_message(&[ACCOUNT], &message, raw.as_bytes(), |txn| {
        let keywords =
            ["$seen", "$flagged", "work"].iter().enumerate().filter(|(bit, _)| n >> bit & 1 == 1);
        txn.create_email(&NewEmail {
            message: &message,
            prefix: b"",
            mailboxes: if n.is_multiple_of(5) {
                [MailboxUid(1), MailboxUid(2)].into()
            } else {
                [MailboxUid(1 + n % 2)].into()
            },
            keywords: keywords.map(|(_, word)| (*word).to_owned()).collect(),
            received_at: UtcMillis(1_790_000_000_000 + i64::from(n / 2)),
        })
    });
    results.pop().expect("a result").1.expect("an email");
    ticket.wait_blocking().expect("an email");
}
