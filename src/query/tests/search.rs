//! Compares searches with a plain reading of the texts, after random folding, merging, destroying,
//! kills and failed writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use crate::message::{rows, tokens};
use crate::model::clock::FixedClock;
use crate::model::{
    AccountId, AccountRow, Address, EmailId, EmailMetadata, ModSeq, Role, UtcMillis,
};
use crate::query::matching::candidate::{Candidate, CandidateSource, FetchedEmail};
use crate::query::matching::evaluate::Matcher;
use crate::query::search::term::WORD_FIELDS;
use crate::query::tests::small_batches;
use crate::query::{Condition, Filter, Query, QuerySpec, Start, Window, query};
use crate::store::engine::fault::FaultyEngine;
use crate::store::engine::memory::MemoryEngine;
use crate::store::{EncodedMessage, Error, FoldSizes, NewEmail, NewMailbox, Options, Store};

mod allowance;
mod words;

const ACCOUNT: AccountId = AccountId(1);

/// A store with one account, and what it was given.
struct Fixture {
    engine: Arc<FaultyEngine<MemoryEngine>>,
    store: Store,
    texts: BTreeMap<EmailId, TestMail>,
}

#[derive(Debug, Clone)]
struct TestMail {
    name: String,
    domain: String,
    subject: String,
    body: String,
}

impl TestMail {
    fn raw(&self) -> Vec<u8> {
        let Self { name, domain, subject, body } = self;
        let head = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
                    Content-Transfer-Encoding: 8bit";
        format!("From: {name} <ann@{domain}>\r\nSubject: {subject}\r\n{head}\r\n\r\n{body}\r\n")
            .into_bytes()
    }
}

fn open(engine: &Arc<FaultyEngine<MemoryEngine>>) -> Store {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    Store::open_engine(engine.clone(), &Options::small(), clock).unwrap()
}

/// Makes the account and its inbox.
pub(super) fn prepare(store: &Store) {
    let row = AccountRow::new("ann", Address::from_parts("ann", "example.org"), UtcMillis(0));
    let made = store.commit(ACCOUNT, |txn| {
        txn.register(&row);
        let inbox = NewMailbox {
            name: "Inbox".into(),
            parent: None,
            role: Some(Role::Inbox),
            sort_order: 0,
        };
        txn.create_mailbox(&inbox)
    });
    made.unwrap().1.wait_blocking().unwrap();
}

pub(super) fn file(store: &Store, raw: &[u8], at: i64) -> EmailId {
    let message = EncodedMessage::new(&rows(raw, store.secrets()));
    let (mut results, ticket) = store.commit_message(&[ACCOUNT], &message, raw, |txn| {
        let mailboxes = BTreeSet::from([txn.state().inbox]);
        let (prefix, keywords) = (&b"Delivered-To: ann@example.org\r\n"[..], BTreeSet::new());
        txn.create_email(&NewEmail {
            message: &message,
            prefix,
            mailboxes,
            keywords,
            received_at: UtcMillis(at),
        })
    });
    let (id, _) = results.pop().unwrap().1.unwrap();
    ticket.wait_blocking().unwrap();
    id
}

/// One piece of folding; false where there is none to do.
pub(super) fn step(store: &Store, sizes: &FoldSizes) -> Result<bool, Error> {
    let Some(piece) = store.snapshot().next_fold_piece(ACCOUNT, sizes)? else { return Ok(false) };
    let (written, ticket) = store.commit(ACCOUNT, |txn| txn.write_folds(&piece))?;
    ticket.wait_blocking()?;
    assert!(written, "nobody else changes the account");
    Ok(true)
}

pub(super) fn ask(store: &Store, filter: Filter, limit: Option<usize>) -> Vec<EmailId> {
    let results = QuerySpec { account: ACCOUNT, filter, ..small_batches() };
    let asked = Query { results, window: Window { start: Start::default(), limit }, total: false };
    query(&store.snapshot(), store.secrets(), &asked).unwrap().answer.ids
}

impl Fixture {
    fn new() -> Self {
        let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
        let store = open(&engine);
        prepare(&store);
        Self { engine, store, texts: BTreeMap::new() }
    }

    fn deliver(&mut self, mail: &TestMail, at: i64) -> EmailId {
        let id = self.file(&mail.raw(), at);
        self.texts.insert(id, mail.clone());
        id
    }

    fn file(&self, raw: &[u8], at: i64) -> EmailId {
        file(&self.store, raw, at)
    }

    fn destroy(&mut self, which: usize) {
        let Some(id) = self.texts.keys().nth(which % self.texts.len().max(1)).copied() else {
            return;
        };
        self.texts.remove(&id);
        self.store.commit(ACCOUNT, |txn| txn.destroy_email(id)).unwrap().1.wait_blocking().unwrap();
    }

    fn step(&self, sizes: &FoldSizes) -> Result<bool, Error> {
        step(&self.store, sizes)
    }

    fn assert_clean(&self) {
        let remake = |raw: &[u8]| rows(raw, self.store.secrets());
        let breaches = self.store.check_deep(Some(&remake), &mut |_| true).unwrap().breaches;
        assert!(
            breaches.is_empty(),
            "{}",
            breaches.iter().map(|b| format!("{b}\n")).collect::<String>()
        );
    }

    fn ask(&self, filter: Filter, limit: Option<usize>) -> Vec<EmailId> {
        ask(&self.store, filter, limit)
    }

    fn found(&self, text: &str, fields: u16) -> Vec<EmailId> {
        self.ask(filter(text, fields), None)
    }

    /// Each text: all that have it, the newest of them, and all that have it not.
    fn assert_answers(&self) {
        for (text, fields) in terms() {
            let (has, lacks): (Vec<_>, Vec<_>) =
                self.texts.iter().partition(|(_, mail)| naive(mail, text, fields));
            let ids = |some: Vec<(&EmailId, &TestMail)>| {
                some.into_iter().map(|(id, _)| *id).collect::<Vec<_>>()
            };
            let (has, lacks) = (ids(has), ids(lacks));
            assert_eq!(self.found(text, fields), has, "{text} in {fields}");
            assert_eq!(
                self.ask(filter(text, fields), Some(2)),
                has[..has.len().min(2)],
                "the newest of {text}"
            );
            assert_eq!(
                self.ask(Filter::Not(vec![filter(text, fields)]), None),
                lacks,
                "all but {text} in {fields}"
            );
        }
        let both = |a: Vec<EmailId>, b: &[EmailId]| {
            a.into_iter().filter(|id| b.contains(id)).collect::<Vec<_>>()
        };
        let (lunch, big) = (self.found("lunch", WORD_FIELDS), self.found("big", tokens::SUBJECT));
        let parts = vec![filter("lunch", WORD_FIELDS), filter("big", tokens::SUBJECT)];
        assert_eq!(self.ask(Filter::And(parts.clone()), None), both(lunch.clone(), &big));
        let either: BTreeSet<EmailId> = lunch.into_iter().chain(big).collect();
        assert_eq!(self.ask(Filter::Or(parts), None), either.into_iter().collect::<Vec<_>>());
    }
}

fn filter(text: &str, fields: u16) -> Filter {
    let text = text.to_owned();
    Filter::Is(match fields {
        tokens::SUBJECT => Condition::Subject(text),
        tokens::BODY => Condition::Body(text),
        tokens::FROM => Condition::From(text),
        _ => Condition::Text(text),
    })
}

fn terms() -> Vec<(&'static str, u16)> {
    let mut out = Vec::new();
    for text in [
        "lunch",
        "BIG lunch",
        "'big lunch'",
        "\"lunch big big\"",
        "日",
        "本語",
        "日本語",
        "'語 日'",
        "lunch 本",
        "noon",
        "big-lunch",
    ] {
        for fields in [WORD_FIELDS, tokens::SUBJECT, tokens::BODY, tokens::FROM] {
            out.push((text, fields));
        }
    }
    out.push(("@example.org", tokens::FROM));
    out.push(("@b.example.org", tokens::FROM));
    out.push(("ann@b.example.org", tokens::FROM));
    out.push(("@example.org lunch", WORD_FIELDS));
    out
}

/// The words of a text and the characters of its Han runs, each with whether it follows the one
/// before at once.
fn atoms(text: &str) -> Vec<(String, bool)> {
    let mut out: Vec<(String, bool)> = Vec::new();
    let mut before = ' ';
    for c in text.to_lowercase().chars() {
        if c.is_ascii_alphanumeric() && before.is_ascii_alphanumeric() {
            out.last_mut().unwrap().0.push(c);
        } else if c.is_alphanumeric() {
            out.push((c.to_string(), !c.is_ascii() && !before.is_ascii()));
        }
        before = c;
    }
    out
}

fn contains(text: &str, phrase: &str) -> bool {
    let (text, phrase) = (atoms(text), atoms(phrase));
    text.windows(phrase.len()).any(|window| {
        let mut pairs = window.iter().zip(&phrase).enumerate();
        pairs.all(|(n, (here, sought))| here.0 == sought.0 && (n == 0 || here.1 || !sought.1))
    })
}

fn naive(mail: &TestMail, text: &str, fields: u16) -> bool {
    crate::query::search::term::pieces(text).iter().all(|piece| {
        let domain = piece.strip_prefix('@');
        let from = match domain {
            Some(domain) => mail.domain == domain || mail.domain.ends_with(&format!(".{domain}")),
            None => contains(&mail.name, piece) || contains(&format!("ann@{}", mail.domain), piece),
        };
        (fields & tokens::FROM != 0 && from)
            || (fields & tokens::SUBJECT != 0 && contains(&mail.subject, piece))
            || (fields & tokens::BODY != 0 && contains(&mail.body, piece))
    })
}

#[derive(Debug, Clone)]
enum SearchOp {
    Deliver(TestMail, i64),
    Destroy(usize),
    Steps(usize),
    /// The disk refuses the n-th write of some steps.
    Refuse(i64),
    Reopen,
}

fn mail() -> impl Strategy<Value = TestMail> {
    let words = prop_oneof![
        Just("lunch"),
        Just("big"),
        Just("Noon,"),
        Just("日本"),
        Just("語"),
        Just("日本語、日")
    ];
    let text = || {
        proptest::collection::vec((words.clone(), prop_oneof![Just(" "), Just("")]), 0..5).prop_map(
            |words| {
                // ASCII words that touch would be one; the naive reading knows no script boundary
                // between others.
                words
                    .into_iter()
                    .map(|(word, gap)| format!("{word}{}", if word.is_ascii() { " " } else { gap }))
                    .collect()
            },
        )
    };
    let domain = prop_oneof![
        Just("example.org"),
        Just("b.example.org"),
        Just("example.org.uk"),
        Just("b.example")
    ];
    (text(), domain, text(), text()).prop_map(
        |(name, domain, subject, body): (String, _, String, String)| TestMail {
            name: name.replace([',', '、'], "").trim().to_owned(),
            domain: domain.to_owned(),
            subject: subject.trim().to_owned(),
            body,
        },
    )
}

fn ops() -> impl Strategy<Value = Vec<SearchOp>> {
    let op = prop_oneof![
        6 => (mail(), 0i64..40).prop_map(|(mail, at)| SearchOp::Deliver(mail, at)),
        1 => (0usize..30).prop_map(SearchOp::Destroy),
        3 => (1usize..6).prop_map(SearchOp::Steps),
        1 => (0i64..3).prop_map(SearchOp::Refuse),
        1 => Just(SearchOp::Reopen),
    ];
    proptest::collection::vec(op, 1..60)
}

fn sizes() -> impl Strategy<Value = FoldSizes> {
    (1usize..5, 8usize..200, 2usize..4, 1usize..300, 0u8..4).prop_map(
        |(rows, block, fan, piece, last_level)| FoldSizes {
            rows,
            row_octets: 1 << 20,
            block,
            fan,
            piece,
            last_level,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_folded_account_answers_as_its_texts_do(ops in ops(), sizes in sizes()) {
        let mut bed = Fixture::new();
        for op in &ops {
            match op {
                SearchOp::Deliver(mail, at) => drop(bed.deliver(mail, *at)),
                SearchOp::Destroy(which) => bed.destroy(*which),
                SearchOp::Steps(steps) => {
                    for _ in 0..*steps {
                        bed.step(&sizes).unwrap();
                    }
                }
                SearchOp::Refuse(after) => {
                    bed.engine.fail_after(*after, Error::Full);
                    let steps = (0..4).map(|_| bed.step(&sizes)).take_while(Result::is_ok).count();
                    bed.engine.heal();
                    prop_assert!(steps <= 4);
                }
                SearchOp::Reopen => {
                    let Fixture { engine, store, texts } = bed;
                    drop(store);
                    bed = Fixture { store: open(&engine), engine, texts };
                }
            }
        }
        bed.assert_clean();
        bed.assert_answers();
        // And when all that there is to do is done; no step may ask for another for ever.
        let most = 2000 + 40 * ops.len();
        let steps = (0..most).take_while(|_| bed.step(&sizes).unwrap()).count();
        prop_assert!(steps < most);
        bed.assert_clean();
        bed.assert_answers();
        let unfolded = bed.store.snapshot().account_state(ACCOUNT).unwrap().unfolded;
        prop_assert!(unfolded < sizes.rows as u64);
    }
}

fn plain(subject: &str, body: &str) -> TestMail {
    TestMail {
        name: "Ann".into(),
        domain: "example.org".into(),
        subject: subject.into(),
        body: body.into(),
    }
}

#[test]
fn many_emails_merge_in_pieces_and_every_stop_between_answers_alike() {
    let mut bed = Fixture::new();
    for n in 0..64 {
        let often = "lunch big lunch ".repeat(n % 7 * 40);
        bed.deliver(
            &plain(&format!("number {n}"), &format!("{often} 日本語 w{} noon", n % 5)),
            i64::try_from(n).unwrap(),
        );
    }
    let sizes =
        FoldSizes { rows: 8, row_octets: 1 << 20, block: 256, fan: 4, piece: 1024, last_level: 2 };
    let mut steps = 0;
    while bed.step(&sizes).unwrap() {
        steps += 1;
        if steps % 16 == 0 {
            bed.assert_clean();
            assert_eq!(bed.found("w3", tokens::BODY).len(), 13);
            assert_eq!(bed.found("'big lunch big'", tokens::BODY).len(), 0);
        }
    }
    assert!(steps > 40, "{steps} pieces");
    let folds = bed.store.snapshot().folds(ACCOUNT).unwrap();
    let levels: Vec<(u8, u32)> =
        folds.live.iter().map(|fold| (fold.id.level, fold.emails)).collect();
    assert_eq!(
        (levels.as_slice(), folds.merges.len(), folds.dropped.len()),
        (&[(1, 32), (1, 32)][..], 0, 0)
    );
    bed.assert_clean();
    bed.assert_answers();
}

#[test]
fn what_was_destroyed_goes_with_the_next_merge_and_an_empty_account_has_no_rows() {
    let mut bed = Fixture::new();
    for n in 0..8 {
        bed.deliver(&plain("lunch", "noon"), n);
    }
    let sizes = FoldSizes { rows: 2, fan: 2, last_level: 3, ..FoldSizes::default() };
    for _ in 0..4 {
        bed.step(&sizes).unwrap();
    }
    for _ in 0..8 {
        bed.destroy(0);
    }
    assert_eq!(bed.found("lunch", WORD_FIELDS), []);
    bed.assert_clean();
    while bed.step(&sizes).unwrap() {}
    assert_eq!(bed.store.snapshot().folds(ACCOUNT).unwrap().live, []);
    bed.assert_clean();
}

#[test]
fn a_piece_made_of_what_has_changed_is_not_written() {
    let mut bed = Fixture::new();
    for n in 0..4 {
        bed.deliver(&plain("lunch", "noon"), n);
    }
    let sizes = FoldSizes { rows: 2, ..FoldSizes::default() };
    let piece = || bed.store.snapshot().next_fold_piece(ACCOUNT, &sizes).unwrap().unwrap();
    let (first, second) = (piece(), piece());
    let write = |piece| {
        let (written, ticket) = bed.store.commit(ACCOUNT, |txn| txn.write_folds(&piece)).unwrap();
        ticket.wait_blocking().unwrap();
        written
    };
    assert!(write(first) && !write(second));
    let third = piece();
    bed.destroy(3);
    let (written, _) = bed.store.commit(ACCOUNT, |txn| txn.write_folds(&third)).unwrap();
    assert!(!written);
    bed.assert_clean();
    bed.assert_answers();
}

#[test]
fn imported_mail_of_any_date_comes_in_its_place() {
    let mut bed = Fixture::new();
    let sizes = FoldSizes { rows: 2, fan: 99, ..FoldSizes::default() };
    let ids: Vec<EmailId> = [50, 90, 10, 70, 5, 60]
        .into_iter()
        .map(|at| {
            let id = bed.deliver(&plain("lunch", "noon"), at);
            bed.step(&sizes).unwrap();
            id
        })
        .collect();
    let wanted: Vec<EmailId> = [1, 3, 5, 0, 2, 4].into_iter().map(|at: usize| ids[at]).collect();
    assert_eq!(bed.found("lunch", WORD_FIELDS), wanted);
    assert_eq!(bed.store.snapshot().folds(ACCOUNT).unwrap().live.len(), 3);
}

#[test]
fn a_fold_tells_nothing_of_an_email_that_is_younger_than_it() {
    let store = open(&Arc::new(FaultyEngine::new(MemoryEngine::new())));
    prepare(&store);
    let id = file(&store, b"Subject: s\r\n\r\nlunch\r\n", 1);
    while step(&store, &FoldSizes { rows: 1, ..FoldSizes::default() }).unwrap() {}
    let snapshot = store.snapshot();
    let email = snapshot.email(ACCOUNT, id).unwrap().unwrap();
    let (created, made) = (email.created, snapshot.folds(ACCOUNT).unwrap().live[0].made);
    assert!(snapshot.is_current_in_fold(ACCOUNT, made, id).unwrap());
    assert!(!snapshot.is_current_in_fold(ACCOUNT, ModSeq(created.0 - 1), id).unwrap());
    let matcher = Matcher::new(&Filter::Is(Condition::Body("lunch".into())), store.secrets());
    let results = QuerySpec { account: ACCOUNT, ..small_batches() };
    let mut source = CandidateSource::new(&snapshot, &results, &matcher);
    let told = source.index_answer(id).unwrap();
    for (created, wanted) in [(created, true), (made, true), (made.next(), false)] {
        let email = EmailMetadata { created, ..email.clone() };
        assert_eq!(Candidate::new(&mut source, id, &email).may_contain(0).unwrap(), Some(wanted));
        let mut known =
            Candidate::new(&mut source, id, &email).with_fetched(FetchedEmail::of(told.clone()));
        assert_eq!(known.may_contain(0).unwrap(), Some(wanted));
    }
}

#[test]
fn words_of_one_hash_are_told_apart_by_the_message() {
    let store = open(&Arc::new(FaultyEngine::new(MemoryEngine::new())));
    prepare(&store);
    let hash = tokens::WordHash::new(store.secrets());
    let mut known = BTreeMap::new();
    let (one, other) = (0u32..)
        .find_map(|n| {
            let word = format!("word{n}");
            known.insert(hash.of(&word), word.clone()).map(|known| (known, word))
        })
        .unwrap();
    let id = file(&store, format!("Subject: s\r\n\r\n{one}\r\n").as_bytes(), 1);
    let found = |word: &String| ask(&store, Filter::Is(Condition::Body(word.clone())), None);
    assert_eq!((found(&one), found(&other)), (vec![id], vec![]));
}
