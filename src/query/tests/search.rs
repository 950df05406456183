//! Compares searches with a plain reading of the texts, while the search index is folded and
//! merged, emails are destroyed, writes fail and the store is reopened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use crate::message::{rows, tokens};
use crate::model::clock::FixedClock;
use crate::model::{
    AccountId, AccountRow, Address, EmailId, EmailMetadata, ModSeq, Role, UtcMillis,
};
use crate::query::matching::evaluate::Matcher;
use crate::query::search::term::WORD_FIELDS;
use crate::query::tests::small_batches;
use crate::query::{Condition, Filter, Query, QuerySpec, Start, Window, query};
use crate::store::engine::fault::FaultyEngine;
use crate::store::engine::memory::MemoryEngine;
use crate::store::{
    EncodedMessage, Error, FoldPiece, FoldSizes, NewEmail, NewMailbox, Options, Store,
};

mod allowance;
mod folding;
mod words;

const ACCOUNT: AccountId = AccountId(1);

struct Fixture {
    engine: Arc<FaultyEngine<MemoryEngine>>,
    store: Store,
    mails: BTreeMap<EmailId, TestMail>,
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

pub(super) fn create_account(store: &Store) {
    let row = AccountRow::new("ann", Address::from_parts("ann", "example.org"), UtcMillis(0));
    let setup = store.commit(ACCOUNT, |txn| {
        txn.register(&row);
        let inbox = NewMailbox {
            name: "Inbox".into(),
            parent: None,
            role: Some(Role::Inbox),
            sort_order: 0,
        };
        txn.create_mailbox(&inbox)
    });
    setup.unwrap().1.wait_blocking().unwrap();
}

/// Files a message in the Inbox as if it was delivered at `at` milliseconds.
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

/// Writes the next piece of a fold or merge. Returns `false` if there is nothing to fold.
pub(super) fn fold_step(store: &Store, sizes: &FoldSizes) -> Result<bool, Error> {
    let Some(piece) = store.snapshot().next_fold_piece(ACCOUNT, sizes)? else { return Ok(false) };
    for part in piece.parts(sizes.piece) {
        assert!(write_piece(store, &part)?, "nobody else changes the account");
    }
    Ok(true)
}

fn write_piece(store: &Store, piece: &FoldPiece) -> Result<bool, Error> {
    let (written, ticket) = store.commit(ACCOUNT, |txn| txn.write_folds(piece))?;
    ticket.wait_blocking()?;
    Ok(written)
}

pub(super) fn search(store: &Store, filter: Filter, limit: Option<usize>) -> Vec<EmailId> {
    let spec = QuerySpec { account: ACCOUNT, filter, ..small_batches() };
    let request = Query { spec, window: Window { start: Start::default(), limit }, total: false };
    query(&store.snapshot(), store.secrets(), &request).unwrap().answer.ids
}

impl Fixture {
    fn new() -> Self {
        let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
        let store = open(&engine);
        create_account(&store);
        Self { engine, store, mails: BTreeMap::new() }
    }

    fn deliver(&mut self, mail: &TestMail, at: i64) -> EmailId {
        let id = self.file(&mail.raw(), at);
        self.mails.insert(id, mail.clone());
        id
    }

    fn file(&self, raw: &[u8], at: i64) -> EmailId {
        file(&self.store, raw, at)
    }

    fn destroy(&mut self, which: usize) {
        let Some(id) = self.mails.keys().nth(which % self.mails.len().max(1)).copied() else {
            return;
        };
        self.mails.remove(&id);
        self.store.commit(ACCOUNT, |txn| txn.destroy_email(id)).unwrap().1.wait_blocking().unwrap();
    }

    fn fold_step(&self, sizes: &FoldSizes) -> Result<bool, Error> {
        fold_step(&self.store, sizes)
    }

    fn next_piece(&self, sizes: &FoldSizes) -> FoldPiece {
        self.store.snapshot().next_fold_piece(ACCOUNT, sizes).unwrap().unwrap()
    }

    fn write_piece(&self, piece: &FoldPiece) -> bool {
        write_piece(&self.store, piece).unwrap()
    }

    fn assert_sound(&self) {
        let make_rows = |raw: &[u8]| rows(raw, self.store.secrets());
        let breaches = self.store.check_deep(Some(&make_rows), &mut |_| true).unwrap().breaches;
        assert!(
            breaches.is_empty(),
            "{}",
            breaches.iter().map(|b| format!("{b}\n")).collect::<String>()
        );
    }

    fn search(&self, filter: Filter, limit: Option<usize>) -> Vec<EmailId> {
        search(&self.store, filter, limit)
    }

    fn find(&self, text: &str, fields: u16) -> Vec<EmailId> {
        self.search(filter(text, fields), None)
    }

    /// For each search term, checks the emails that have it and those that do not.
    fn assert_answers(&self) {
        // Ids ascend from the newest email to the oldest.
        for (text, fields) in terms() {
            let (matching, others): (Vec<_>, Vec<_>) =
                self.mails.iter().partition(|(_, mail)| is_match(mail, text, fields));
            let ids = |mails: Vec<(&EmailId, &TestMail)>| {
                mails.into_iter().map(|(id, _)| *id).collect::<Vec<_>>()
            };
            let (matching, others) = (ids(matching), ids(others));
            assert_eq!(self.find(text, fields), matching, "{text} in {fields}");
            assert_eq!(
                self.search(filter(text, fields), Some(2)),
                matching[..matching.len().min(2)],
                "the newest of {text}"
            );
            assert_eq!(
                self.search(Filter::Not(vec![filter(text, fields)]), None),
                others,
                "all but {text} in {fields}"
            );
        }
        let both = |a: Vec<EmailId>, b: &[EmailId]| {
            a.into_iter().filter(|id| b.contains(id)).collect::<Vec<_>>()
        };
        let (lunch, big) = (self.find("lunch", WORD_FIELDS), self.find("big", tokens::SUBJECT));
        let parts = vec![filter("lunch", WORD_FIELDS), filter("big", tokens::SUBJECT)];
        assert_eq!(self.search(Filter::And(parts.clone()), None), both(lunch.clone(), &big));
        let either: BTreeSet<EmailId> = lunch.into_iter().chain(big).collect();
        assert_eq!(self.search(Filter::Or(parts), None), either.into_iter().collect::<Vec<_>>());
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

/// Splits a text into atoms: runs of ASCII letters and digits, and single other letters and digits.
/// The flag of an atom is set if it is not ASCII, and the character before it is not ASCII either.
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

/// Whether a text contains the atoms of a phrase in their order, one right after the other. An atom
/// after the first whose flag is set in the phrase needs the flag in the text, too.
fn contains(text: &str, phrase: &str) -> bool {
    let (text, phrase) = (atoms(text), atoms(phrase));
    text.windows(phrase.len()).any(|window| {
        let mut pairs = window.iter().zip(&phrase).enumerate();
        pairs.all(|(n, (found, wanted))| found.0 == wanted.0 && (n == 0 || found.1 || !wanted.1))
    })
}

fn is_match(mail: &TestMail, text: &str, fields: u16) -> bool {
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
    Fold(usize),
    /// Folds while every write after this number of writes fails.
    FailWrite(i64),
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
                // ASCII words are separated, because two that touch would be one word.
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
        3 => (1usize..6).prop_map(SearchOp::Fold),
        1 => (0i64..3).prop_map(SearchOp::FailWrite),
        1 => Just(SearchOp::Reopen),
    ];
    proptest::collection::vec(op, 1..60)
}

fn sizes() -> impl Strategy<Value = FoldSizes> {
    (1usize..5, 8usize..200, 2usize..4, 1usize..300, 0u8..4).prop_map(
        |(rows, block, fan, piece, last_level)| FoldSizes {
            rows,
            row_bytes: 1 << 20,
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
    fn searches_find_what_a_plain_reading_of_the_texts_finds(ops in ops(), sizes in sizes()) {
        let mut fixture = Fixture::new();
        for op in &ops {
            match op {
                SearchOp::Deliver(mail, at) => drop(fixture.deliver(mail, *at)),
                SearchOp::Destroy(which) => fixture.destroy(*which),
                SearchOp::Fold(steps) => {
                    for _ in 0..*steps {
                        fixture.fold_step(&sizes).unwrap();
                    }
                }
                SearchOp::FailWrite(after) => {
                    fixture.engine.fail_after(*after, Error::Full);
                    // Up to four steps, until a write of one fails.
                    let failed = (0..4).find_map(|_| fixture.fold_step(&sizes).err());
                    fixture.engine.heal();
                    prop_assert!(failed.is_none_or(|error| error == Error::Full));
                }
                SearchOp::Reopen => {
                    let Fixture { engine, store, mails } = fixture;
                    drop(store);
                    fixture = Fixture { store: open(&engine), engine, mails };
                }
            }
        }
        fixture.assert_sound();
        fixture.assert_answers();
        // Folding must come to an end; the bound is far above the pieces that it takes.
        let max_steps = 2000 + 40 * ops.len();
        let steps = (0..max_steps).take_while(|_| fixture.fold_step(&sizes).unwrap()).count();
        prop_assert!(steps < max_steps);
        fixture.assert_sound();
        fixture.assert_answers();
        let unfolded = fixture.store.snapshot().account_state(ACCOUNT).unwrap().unfolded;
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
fn words_with_the_same_hash_are_distinguished_by_the_message() {
    let store = open(&Arc::new(FaultyEngine::new(MemoryEngine::new())));
    create_account(&store);
    let hash = tokens::WordHash::new(store.secrets());
    let mut words = BTreeMap::new();
    let (one, other) = (0u32..)
        .find_map(|n| {
            let word = format!("word{n}");
            words.insert(hash.of(&word), word.clone()).map(|earlier| (earlier, word))
        })
        .unwrap();
    let id = file(&store, format!("Subject: s\r\n\r\n{one}\r\n").as_bytes(), 1);
    let found = |word: &String| search(&store, Filter::Is(Condition::Body(word.clone())), None);
    assert_eq!((found(&one), found(&other)), (vec![id], vec![]));
}
