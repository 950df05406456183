//! Compares searches for Delivered-To with a plain reading of the headers. Emails are filed by this
//! version and by earlier ones, and folded and merged in random steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use crate::message::rows;
use crate::message::tokens::WordHash;
use crate::model::clock::FixedClock;
use crate::model::{AccountId, EmailId, Token, UtcMillis, delivered_to};
use crate::query::tests::config;
use crate::query::tests::search::{create_account, fold_step, search};
use crate::query::{Condition, Filter};
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine as _, Put, Table};
use crate::store::repair::RepairScope;
use crate::store::row::block::{BlockWriter, Posting, read_block};
use crate::store::row::fold::Folds;
use crate::store::row::{EncodedMessage, Row as _};
use crate::store::table::codec::Prefix as _;
use crate::store::table::folds::{FoldId, FoldKey};
use crate::store::table::{SearchFolds, decode_key};
use crate::store::{FoldSizes, NewEmail, Options, Store};

const ACCOUNT: AccountId = AccountId(1);
/// Addresses of this service: two plain ones, one that ends with another, a quoted local part, and
/// two of which the index has no text, because only a parser of headers reads them.
const ALIASES: [&str; 6] = [
    "ann@example.org",
    "shop@example.org",
    "Joann@example.org",
    "\"a  b\"@x.example",
    "jürgen@x.example",
    "=?utf-8?q?shop?=",
];
/// Addresses to which earlier hops delivered.
const HOPS: [&str; 2] = ["shop@example.org", "list@old.example"];

/// The Delivered-To fields of an email: indexes in `ALIASES` and, for an earlier hop, in `HOPS`.
type DeliveryFields = (Option<usize>, Option<usize>);

#[derive(Debug, Clone)]
enum DeliveryOp {
    Deliver(DeliveryFields),
    Destroy(usize),
    /// Writes this number of pieces of folds, each fold of so many rows.
    Fold {
        steps: usize,
        rows: usize,
    },
    /// Turns rows into those of earlier versions (`Fixture::downgrade`).
    Downgrade,
    Reindex,
    Rebuild,
}

fn ops() -> impl Strategy<Value = Vec<DeliveryOp>> {
    let fields = (
        proptest::option::weighted(0.8, 0..ALIASES.len()),
        proptest::option::weighted(0.2, 0..HOPS.len()),
    );
    let op = prop_oneof![
        12 => fields.prop_map(DeliveryOp::Deliver),
        1 => (0usize..40).prop_map(DeliveryOp::Destroy),
        4 => (1usize..6, 1usize..4).prop_map(|(steps, rows)| DeliveryOp::Fold { steps, rows }),
        1 => Just(DeliveryOp::Downgrade),
        1 => Just(DeliveryOp::Reindex),
        1 => Just(DeliveryOp::Rebuild),
    ];
    proptest::collection::vec(op, 1..40)
}

struct Fixture {
    engine: Arc<MemoryEngine>,
    store: Store,
    emails: BTreeMap<EmailId, DeliveryFields>,
}

impl Fixture {
    fn new() -> Self {
        let engine = Arc::new(MemoryEngine::new());
        let store = Store::open_engine(
            engine.clone(),
            &Options::small(),
            Arc::new(FixedClock::at(UtcMillis(0))),
        )
        .unwrap();
        create_account(&store);
        Self { engine, store, emails: BTreeMap::new() }
    }

    fn apply(&mut self, op: &DeliveryOp, at: i64) {
        match op {
            DeliveryOp::Deliver(fields) => self.deliver(*fields, at),
            DeliveryOp::Destroy(which) => {
                let Some(id) = self.emails.keys().nth(which % self.emails.len().max(1)).copied()
                else {
                    return;
                };
                self.emails.remove(&id);
                self.store
                    .commit(ACCOUNT, |txn| txn.destroy_email(id))
                    .unwrap()
                    .1
                    .wait_blocking()
                    .unwrap();
            }
            DeliveryOp::Fold { steps, rows } => {
                let sizes = FoldSizes {
                    rows: *rows,
                    row_bytes: 1 << 20,
                    block: 100,
                    fan: 2,
                    piece: 200,
                    last_level: 2,
                };
                for _ in 0..*steps {
                    fold_step(&self.store, &sizes).unwrap();
                }
            }
            DeliveryOp::Downgrade => self.downgrade(),
            DeliveryOp::Reindex => self.repair(RepairScope::Reindex),
            DeliveryOp::Rebuild => self.repair(RepairScope::Rebuild),
        }
    }

    fn deliver(&mut self, fields: DeliveryFields, at: i64) {
        let hop = fields.1.map_or_else(String::new, |at| format!("Delivered-To: {}\r\n", HOPS[at]));
        let raw =
            format!("{hop}Subject: {at}\r\nMessage-ID: <shop@example.org>\r\n\r\nshop {at}\r\n");
        let trace = fields.0.map_or_else(String::new, |at| {
            format!("Return-Path: <>\r\nDelivered-To: {}\r\n", ALIASES[at])
        });
        let message = EncodedMessage::new(&rows(raw.as_bytes(), self.store.secrets()));
        let (mut results, ticket) =
            self.store.commit_message(&[ACCOUNT], &message, raw.as_bytes(), |txn| {
                txn.create_email(&NewEmail {
                    message: &message,
                    prefix: trace.as_bytes(),
                    mailboxes: BTreeSet::from([txn.state().inbox]),
                    keywords: BTreeSet::new(),
                    // Not in the order of the deliveries.
                    received_at: UtcMillis(at * 7919 % 60),
                })
            });
        let (id, _) = results.pop().unwrap().1.unwrap();
        ticket.wait_blocking().unwrap();
        self.emails.insert(id, fields);
    }

    fn repair(&self, scope: RepairScope) {
        let make_rows = |raw: &[u8]| rows(raw, self.store.secrets());
        self.store.repair(scope, None, &make_rows, &mut |_| true).unwrap();
    }

    fn write(&self, puts: Vec<Put>) {
        self.engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
    }

    /// Turns rows of content into version 2 and rows of tokens into version 1, and removes from
    /// folds the tokens of Delivered-To, which earlier versions did not write.
    fn downgrade(&self) {
        let put = |table, key: Vec<u8>, value| Put { table, key, value: Some(value) };
        let name = WordHash::new(self.store.secrets()).of("delivered-to");
        let mut puts = Vec::new();
        for (key, mut value) in self.engine.rows(Table::EmailContent) {
            value[0] = 2;
            puts.push(put(Table::EmailContent, key, value));
        }
        for (key, value) in self.engine.rows(Table::EmailTokens) {
            if value[0] == 1 {
                continue;
            }
            // After the version comes an optional text of the delivery: a byte 0, or a byte 1, a
            // byte with the length, and the text. The word of the field name may stay: of an email
            // with a row of version 1, the header is read in any case.
            let delivery_bytes = if value[1] == 0 { 1 } else { 2 + usize::from(value[2]) };
            // Then come the number of words, in one byte, and the index of one run of them.
            let count = value[1 + delivery_bytes];
            assert!((1..=32).contains(&count), "one run of words");
            let words = &value[2 + delivery_bytes + 8..];
            puts.push(put(Table::EmailTokens, key, [&[1, count], words].concat()));
        }
        let head = FoldKey::list(ACCOUNT).encode();
        let mut folds = self.store.snapshot().folds(ACCOUNT).unwrap();
        let merged = folds.merges.iter_mut().map(|merge| &mut merge.into);
        let all: Vec<FoldId> = folds
            .live
            .iter_mut()
            .chain(merged)
            .map(|fold| {
                fold.knows_delivery = false;
                fold.id
            })
            .collect();
        for fold in all {
            let (mut postings, mut blocks) = (Vec::<Posting>::new(), BlockWriter::new(100));
            for (key, value) in self.engine.rows(Table::SearchFolds) {
                let decoded = decode_key::<SearchFolds>(&key).unwrap();
                if matches!(decoded, FoldKey::Block(_)) && decoded.fold() == Some(fold) {
                    read_block(&key, &value, |_, _| Some(true), |posting| postings.push(posting))
                        .unwrap();
                    puts.push(Put { table: Table::SearchFolds, key, value: None });
                }
            }
            postings.retain(|posting| match &posting.token {
                Token::Word(hash) => *hash != name,
                Token::Text(text) => !text.starts_with(delivered_to::SEARCH_TEXT_PREFIX),
            });
            for posting in postings {
                blocks.push(&posting.token, posting.ordinal, posting.fields, &posting.positions);
            }
            for block in blocks.finish() {
                let key =
                    FoldKey::block(ACCOUNT, fold, &block.token, block.ordinal, block.position);
                puts.push(put(Table::SearchFolds, key.encode(), block.value));
            }
        }
        if folds != Folds::default() {
            puts.push(put(Table::SearchFolds, head, folds.encode()));
        }
        self.write(puts);
    }

    /// Returns the emails with a Delivered-To field that contains `part`, or with any Delivered-To
    /// field for `None`.
    fn expected(&self, part: Option<&str>) -> Vec<EmailId> {
        let has_match = |delivery: &&DeliveryFields| {
            let fields =
                delivery.0.map(|at| ALIASES[at]).into_iter().chain(delivery.1.map(|at| HOPS[at]));
            let decoded = |text: &str| {
                text.to_lowercase().replace("=?utf-8?q?shop?=", "shop").replace("  ", " ")
            };
            fields
                .map(decoded)
                .any(|value| part.is_none_or(|part| value.contains(&part.to_lowercase())))
        };
        self.emails.iter().filter(|(_, delivery)| has_match(delivery)).map(|(id, _)| *id).collect()
    }

    fn assert_answers(&self) {
        for part in [
            None,
            Some("shop@example.org"),
            Some("ANN@example.org"),
            Some("a b"),
            Some("jürgen"),
            Some("shop"),
            Some("nobody"),
        ] {
            let text = part.map(|part| format!("'{part}'"));
            let filter = Filter::Is(Condition::Header { name: "Delivered-To".into(), text });
            let expected = self.expected(part);
            assert_eq!(search(&self.store, filter.clone(), None), expected, "{part:?}");
            let rest: Vec<EmailId> =
                self.emails.keys().copied().filter(|id| !expected.contains(id)).collect();
            assert_eq!(
                search(&self.store, Filter::Not(vec![filter.clone()]), None),
                rest,
                "not {part:?}"
            );
            let either = Filter::Or(vec![Filter::Is(Condition::Body("nowhere".into())), filter]);
            assert_eq!(
                search(&self.store, either, Some(3)),
                expected[..expected.len().min(3)],
                "{part:?} or nowhere"
            );
        }
    }
}

/// Opens stores of two earlier formats and of this one, with the options and the time of
/// `deliver::format_tests`, which made them. In each a merge has begun, and all seven emails are
/// delivered to `ALIASES[0]`.
#[test]
fn emails_of_an_earlier_version_are_found_by_delivered_to() {
    let sizes =
        FoldSizes { rows: 2, row_bytes: 1 << 20, block: 200, fan: 2, piece: 200, last_level: 2 };
    for name in ["v1.rows", "v2.rows", "written.rows"] {
        let fixture_rows = std::fs::read_to_string(format!(
            "{}/tests/fixtures/{name}",
            env!("CARGO_MANIFEST_DIR")
        ))
        .unwrap();
        let bytes = |hex: &str| -> Vec<u8> {
            (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect()
        };
        let put = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let table = *Table::ALL.iter().find(|table| table.name() == words[0]).unwrap();
            Put { table, key: bytes(words[1]), value: Some(bytes(words[2])) }
        };
        let engine = Arc::new(MemoryEngine::new());
        engine.write(&[Arc::new(Batch::of(fixture_rows.lines().map(put).collect()))]).unwrap();
        let clock = Arc::new(FixedClock::at(UtcMillis(1_795_255_200_000)));
        let store = Store::open_engine(
            engine.clone(),
            &Options { ranked_above: Some(2), ..Options::small() },
            clock,
        )
        .unwrap();
        let all: Vec<EmailId> =
            store.snapshot().emails(ACCOUNT, None, 99).unwrap().iter().map(|(id, _)| *id).collect();
        assert_eq!(all.len(), 7);
        let mut fixture = Fixture {
            engine,
            store,
            emails: all.iter().map(|id| (*id, (Some(0), None))).collect(),
        };
        fixture.assert_answers();
        fixture.deliver((Some(1), Some(1)), 50);
        for _ in 0..40 {
            fold_step(&fixture.store, &sizes).unwrap();
            fixture.assert_answers();
        }
        fixture.repair(RepairScope::Reindex);
        fixture.assert_answers();
        assert_eq!(fixture.store.check().unwrap(), []);
    }
}

fn few_cases() -> ProptestConfig {
    let usual = config();
    ProptestConfig { cases: usual.cases.div_ceil(10), ..usual }
}

proptest! {
    #![proptest_config(few_cases())]

    #[test]
    fn delivered_to_searches_find_what_the_headers_say(ops in ops()) {
        let mut fixture = Fixture::new();
        for (at, op) in (0..).zip(&ops) {
            fixture.apply(op, at);
            if !matches!(op, DeliveryOp::Deliver(_)) {
                fixture.assert_answers();
                let make_rows = |raw: &[u8]| rows(raw, fixture.store.secrets());
                let report = fixture.store.check_deep(Some(&make_rows), &mut |_| true).unwrap();
                prop_assert_eq!(report.breaches, []);
            }
        }
        fixture.assert_answers();
    }
}

proptest! {
    #![proptest_config(config())]

    /// Unless the field is unclear, `DeliveredTo::parse` must give the value with which conditions
    /// on header fields are compared.
    #[test]
    fn delivered_to_parse_gives_the_value_in_the_header(
        value in "[ -~\t]{0,12}|(=\\?utf-8\\?q\\?)?[a-zA-Zé\\\\\"@. ]{0,9}(\\?=)?",
        name in "(?i)delivered-to ?:? ?",
        before in "(Return-Path: <>\r\n|From x\r\n|\u{feff}|\r\n| x\r\n|X: 1\n){0,2}",
        after in "(\r\n| y\r\n|\nDelivered-To: z\r\n){0,3}",
    ) {
        use crate::message::header::{fields, folded};
        use crate::model::DeliveredTo;

        let trace = format!("{before}{name}{value}{after}");
        let found: Vec<String> = fields(trace.as_bytes())
            .filter(|field| field.is("Delivered-To"))
            .map(|field| folded(&field.decoded()))
            .collect();
        match DeliveredTo::parse(trace.as_bytes()) {
            DeliveredTo::Absent => prop_assert_eq!(found, Vec::<String>::new()),
            DeliveredTo::Value(value) => prop_assert_eq!(found, [value]),
            DeliveredTo::Unclear => {}
        }
    }
}
