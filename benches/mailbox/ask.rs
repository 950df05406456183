//! Measures reads: pages, anchors, changes, searches.

use restante::internals::model::{EmailId, ModSeq};
use restante::internals::query::{
    Condition, Filter, Query, QueryChanges, QuerySpec, Start, Window, changes, query,
};
use restante::internals::store::{ClientState, Store};

use crate::Options;
use crate::change::flag;
use crate::grow::{Account, INBOX, PHRASE, RARE};
use crate::report::{measure, measure_after, measure_against};

const PAGE: usize = 50;

fn inbox(account: &Account, collapse: bool, more: &[Condition]) -> QuerySpec {
    let parts = [Condition::InMailbox(INBOX)].iter().chain(more).cloned().map(Filter::Is).collect();
    QuerySpec { account: account.id, filter: Filter::And(parts), collapse, ..QuerySpec::default() }
}

fn page(store: &Store, spec: QuerySpec, start: Start, total: bool) -> Vec<EmailId> {
    let asked = Query { spec, window: Window { start, limit: Some(PAGE) }, total };
    query(&store.snapshot(), store.secrets(), &asked).unwrap().answer.ids
}

pub(crate) fn all(store: &Store, accounts: &[Account], options: &Options) {
    let unseen = [Condition::NotKeyword("$seen".into())];
    // One email in ten is unseen.
    for (name, collapse, more, one_in) in [
        ("", false, [].as_slice(), 1),
        (", collapsed", true, &[], 1),
        (", unseen", false, unseen.as_slice(), 10),
    ] {
        let spec = |account: &Account| inbox(account, collapse, more);
        let part = |account: &Account, of: u64| {
            Start::Position(i64::try_from(account.size / one_in / of).unwrap())
        };
        measure(options, accounts, &format!("first page{name}"), |account, _| {
            assert_eq!(page(store, spec(account), Start::Position(0), false).len(), PAGE);
        });
        measure(options, accounts, &format!("first page with total{name}"), |account, _| {
            assert_eq!(page(store, spec(account), Start::Position(0), true).len(), PAGE);
        });
        for (place, of) in [("behind the newest twentieth", 20), ("in the middle", 2)] {
            measure(options, accounts, &format!("page {place}{name}"), |account, _| {
                assert_eq!(page(store, spec(account), part(account, of), false).len(), PAGE);
            });
        }
        measure(options, accounts, &format!("last page{name}"), |account, _| {
            let ids =
                page(store, spec(account), Start::Position(-i64::try_from(PAGE).unwrap()), false);
            assert_eq!(ids.len(), PAGE);
        });
        measure_after(
            options,
            accounts,
            &format!("page by anchor{name}"),
            |account, _| *page(store, spec(account), part(account, 20), false).first().unwrap(),
            |account, _, id| {
                assert_eq!(
                    page(store, spec(account), Start::Anchor { id, offset: -10 }, false).len(),
                    PAGE
                );
            },
        );
        measure_after(
            options,
            accounts,
            &format!("queryChanges after 10 changes{name}"),
            |account, round| ten_changes(store, account, round),
            |account, _, since| {
                let asked = QueryChanges { spec: spec(account), since, ..QueryChanges::default() };
                changes(&store.snapshot(), store.secrets(), &asked).unwrap();
            },
        );
    }
    measure_after(
        options,
        accounts,
        "changes after 10 changes",
        |account, round| ten_changes(store, account, round),
        |account, _, since| {
            let found = store
                .snapshot()
                .email_changes(account.id, ClientState::at(since), 100)
                .unwrap()
                .unwrap();
            assert_eq!(found.updated.len(), 10);
        },
    );
    measure(options, accounts, "first page of what is larger than a byte", |account, _| {
        let larger = [Condition::MinSize(2)];
        assert_eq!(
            page(store, inbox(account, false, &larger), Start::Position(0), false).len(),
            PAGE
        );
    });
    searches(store, accounts, options);
}

/// Measures the first page again, after `background` destroyed the newest emails of the largest
/// account.
pub(crate) fn again(store: &Store, accounts: &[Account], options: &Options) {
    for (name, collapse) in [
        ("first page behind the destroyed", false),
        ("first page behind the destroyed, collapsed", true),
    ] {
        measure(options, accounts, name, |account, _| {
            assert_eq!(
                page(store, inbox(account, collapse, &[]), Start::Position(0), false).len(),
                PAGE
            );
        });
    }
}

fn searches(store: &Store, accounts: &[Account], options: &Options) {
    for (name, text) in [
        ("search: 50 newest with a frequent word", "harbour"),
        ("search: 50 newest with two frequent words", "harbour kitchen"),
        ("search: a rare word", RARE),
        ("search: a phrase of two rare words", PHRASE),
        ("search: what nobody wrote", "zyzzyva"),
    ] {
        let spec = |account: &Account| QuerySpec {
            account: account.id,
            filter: Filter::Is(Condition::Text(text.into())),
            ..QuerySpec::default()
        };
        measure_against(
            options,
            accounts,
            (name, "a first page asked before each"),
            |account| drop(page(store, inbox(account, false, &[]), Start::Position(0), false)),
            |account| drop(page(store, spec(account), Start::Position(0), false)),
        );
    }
}

/// Turns a keyword of ten of the 50 newest emails in the Inbox on or off, and returns the modseq
/// before. In even rounds it is `$seen`, which changes what the filter `unseen` of [`all`] matches;
/// in odd rounds it is `$flagged`, which does not.
fn ten_changes(store: &Store, account: &Account, round: u64) -> ModSeq {
    let since = store.snapshot().account_state(account.id).unwrap().modseq;
    let ids = page(store, inbox(account, false, &[]), Start::Position(0), false);
    for id in ids.iter().step_by(5) {
        flag(store, account, *id, if round.is_multiple_of(2) { "$seen" } else { "$flagged" });
    }
    since
}
