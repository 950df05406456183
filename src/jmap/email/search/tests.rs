//! Reading the filter, the sort and the section of a query, and the errors of invalid ones (RFC
//! 8621 §4.4, RFC 8620 §5.5).

use proptest::prelude::*;
use serde_json::{Value, json};

use super::query::SectionArgs;
use super::sort::parse_sort;
use crate::model::{EmailId, MailboxUid, UtcMillis, limits};
use crate::query::{Collation, Comparator, Condition, Filter, SortProperty, Start, Window};
use crate::wire::jmap::MethodError;
use crate::wire::jmap::arguments::read as read_arguments;
use crate::wire::jmap::standard::QueryArgs;

fn kind<T: std::fmt::Debug>(result: Result<T, MethodError>) -> String {
    result.unwrap_err().arguments()["type"].as_str().unwrap().to_owned()
}

fn filter(value: &Value) -> Result<Filter, MethodError> {
    super::filter::parse_filter(Some(value).filter(|value| !value.is_null()))
}

/// The section that these arguments select, with at most 100 results.
fn window(mut arguments: Value) -> Result<Window, MethodError> {
    arguments["accountId"] = "a1".into();
    let args: QueryArgs = read_arguments("Email/query", arguments.as_object().unwrap().clone())?;
    SectionArgs::from_query(&args).window(100)
}

#[test]
fn every_condition_is_read() {
    let is = Filter::Is;
    let word = |word: &str| word.to_owned();
    let box_id = MailboxUid(3).to_string();
    let at = UtcMillis::parse_rfc3339("2026-12-24T09:00:00Z").unwrap();
    for (json, wanted) in [
        (json!({"inMailbox": box_id}), Condition::InMailbox(MailboxUid(3))),
        (
            json!({"inMailboxOtherThan": [box_id, "nothing"]}),
            Condition::InMailboxOtherThan(vec![MailboxUid(3)]),
        ),
        (json!({"before": "2026-12-24T09:00:00Z"}), Condition::Before(at)),
        (json!({"after": "2026-12-24T09:00:00.000Z"}), Condition::After(at)),
        (json!({"minSize": 5}), Condition::MinSize(5)),
        (json!({"maxSize": 9_007_199_254_740_991_u64}), Condition::MaxSize((1 << 53) - 1)),
        (
            json!({"allInThreadHaveKeyword": "$Seen"}),
            Condition::AllInThreadHaveKeyword(word("$seen")),
        ),
        (
            json!({"someInThreadHaveKeyword": "work"}),
            Condition::SomeInThreadHaveKeyword(word("work")),
        ),
        (
            json!({"noneInThreadHaveKeyword": "work"}),
            Condition::NoneInThreadHaveKeyword(word("work")),
        ),
        (json!({"hasKeyword": "WORK"}), Condition::HasKeyword(word("work"))),
        (json!({"notKeyword": "$seen"}), Condition::NotKeyword(word("$seen"))),
        (json!({"hasAttachment": true}), Condition::HasAttachment(true)),
        (json!({"text": "a 'b c'"}), Condition::Text(word("a 'b c'"))),
        (json!({"from": ""}), Condition::From(word(""))),
        (json!({"to": "x"}), Condition::To(word("x"))),
        (json!({"cc": "x"}), Condition::Cc(word("x"))),
        (json!({"bcc": "x"}), Condition::Bcc(word("x"))),
        (json!({"subject": "日本"}), Condition::Subject(word("日本"))),
        (json!({"body": "x"}), Condition::Body(word("x"))),
        (json!({"header": ["List-Id"]}), Condition::Header { name: word("List-Id"), text: None }),
        (
            json!({"header": ["X-Y", "z"]}),
            Condition::Header { name: word("X-Y"), text: Some(word("z")) },
        ),
        (json!({"attachmentName": "x"}), Condition::AttachmentName(word("x"))),
        (json!({"attachmentType": "x"}), Condition::AttachmentType(word("x"))),
    ] {
        assert_eq!(filter(&json), Ok(is(wanted)), "{json}");
    }
}

#[test]
fn conditions_are_combined_by_operators() {
    let is = Filter::Is;
    let (small, big) = (is(Condition::MaxSize(9)), is(Condition::MinSize(1)));
    assert_eq!(filter(&Value::Null), Ok(Filter::default()));
    assert_eq!(filter(&json!({})), Ok(Filter::default()));
    assert_eq!(
        filter(&json!({"maxSize": 9, "minSize": 1})),
        Ok(Filter::And(vec![small.clone(), big.clone()]))
    );
    let parts = json!([{"maxSize": 9}, {"operator": "NOT", "conditions": [{"minSize": 1}, {}]}]);
    let inner = Filter::Not(vec![big, Filter::default()]);
    for (name, wanted) in [
        ("AND", Filter::And(vec![small.clone(), inner.clone()])),
        ("OR", Filter::Or(vec![small.clone(), inner.clone()])),
        ("NOT", Filter::Not(vec![small.clone(), inner.clone()])),
    ] {
        assert_eq!(filter(&json!({"operator": name, "conditions": parts})), Ok(wanted));
    }
    assert_eq!(filter(&json!({"operator": "OR", "conditions": []})), Ok(Filter::Or(Vec::new())));
    assert_eq!(filter(&json!({"inMailbox": "no-such_box"})), Ok(Filter::Or(Vec::new())));
}

#[test]
fn invalid_filter_gets_its_error_type() {
    for invalid in [
        json!("text"),
        json!([]),
        json!(true),
        json!({"inMailbox": 3}),
        json!({"inMailbox": ""}),
        json!({"inMailbox": "a b"}),
        json!({"inMailbox": "x".repeat(256)}),
        json!({"inMailboxOtherThan": "m"}),
        json!({"inMailboxOtherThan": [1]}),
        json!({"before": "2026-12-24"}),
        json!({"before": "2026-12-24T09:00:00"}),
        json!({"before": "2026-12-24 09:00:00Z"}),
        json!({"after": 5}),
        json!({"minSize": -1}),
        json!({"minSize": 1.5}),
        json!({"maxSize": 9_007_199_254_740_992_u64}),
        json!({"hasAttachment": "true"}),
        json!({"hasKeyword": ["a"]}),
        json!({"text": 5}),
        json!({"header": []}),
        json!({"header": ["a", "b", "c"]}),
        json!({"header": "Subject"}),
        json!({"header": ["a:"]}),
        json!({"header": ["ä"]}),
        json!({"operator": "AND"}),
        json!({"operator": 1, "conditions": []}),
        json!({"operator": "XOR", "conditions": []}),
        json!({"operator": "and", "conditions": []}),
        json!({"operator": "AND", "conditions": {}}),
        json!({"operator": "AND", "conditions": [], "text": "x"}),
        json!({"operator": "AND", "conditions": [null]}),
        json!({"operator": "AND", "conditions": ["x"]}),
    ] {
        assert_eq!(kind(filter(&invalid)), "invalidArguments", "{invalid}");
    }
    let many =
        |count: usize| json!({"operator": "OR", "conditions": vec![json!({"minSize": 1}); count]});
    let deep = |depth: usize| {
        (0..depth).fold(
            json!({"minSize": 1}),
            |inner, _| json!({"operator": "NOT", "conditions": [inner]}),
        )
    };
    assert!(
        filter(&many(limits::MAX_FILTER_CONDITIONS)).is_ok()
            && filter(&deep(limits::MAX_FILTER_DEPTH)).is_ok()
    );
    for unknown in [
        json!({"colour": "red"}),
        json!({"Text": "x"}),
        json!({"hasKeyword": "a b"}),
        json!({"hasKeyword": ""}),
        json!({"text": "x".repeat(limits::MAX_FILTER_TEXT_BYTES + 1)}),
        json!({"header": ["X", "x".repeat(limits::MAX_FILTER_TEXT_BYTES + 1)]}),
        json!({"inMailboxOtherThan": vec![
            MailboxUid(1).to_string(); limits::MAX_FILTER_CONDITIONS + 1]}),
        many(limits::MAX_FILTER_CONDITIONS + 1),
        deep(limits::MAX_FILTER_DEPTH + 1),
    ] {
        assert_eq!(
            kind(filter(&unknown)),
            "unsupportedFilter",
            "{}",
            unknown.to_string().get(..80).unwrap_or_default()
        );
    }
}

#[test]
fn sort_is_read_or_gets_its_error_type() {
    let newest = Comparator {
        property: SortProperty::ReceivedAt,
        ascending: false,
        collation: Collation::UnicodeCasemap,
    };
    let by_word = Comparator {
        property: SortProperty::HasKeyword("$seen".into()),
        ascending: true,
        collation: Collation::Octet,
    };
    let both = json!([
        {"property": "receivedAt", "isAscending": false},
        {"property": "hasKeyword", "keyword": "$Seen", "collation": "i;octet"},
    ]);
    let by_word_again = by_word.clone();
    assert_eq!(parse_sort(&both), Ok(vec![newest, by_word]));
    assert_eq!(parse_sort(&Value::Null), Ok(Vec::new()));
    for (name, wanted) in [
        ("sentAt", SortProperty::SentAt),
        ("size", SortProperty::Size),
        ("from", SortProperty::From),
        ("to", SortProperty::To),
        ("subject", SortProperty::Subject),
    ] {
        assert_eq!(parse_sort(&json!([{"property": name}])).unwrap()[0].property, wanted);
    }
    assert!(parse_sort(&json!([{"property": "size", "position": 0}])).is_ok());
    // aerc sends only the keyword, and dates with the offset of its zone.
    assert_eq!(
        parse_sort(&json!([{"keyword": "$Seen", "collation": "i;octet"}])),
        Ok(vec![by_word_again])
    );
    let at = |date: &str| filter(&json!({"after": date}));
    assert_eq!(at("2026-12-24T09:00:00+01:00"), at("2026-12-24T08:00:00Z"));
    assert!(at("2026-12-24T09:00:00+01:00").is_ok());
    for of in ["allInThreadHaveKeyword", "someInThreadHaveKeyword"] {
        assert!(parse_sort(&json!([{"property": of, "keyword": "x"}])).is_ok());
        assert_eq!(kind(parse_sort(&json!([{"property": of}]))), "invalidArguments");
    }
    for invalid in [
        json!({"property": "size"}),
        json!(["size"]),
        json!([{}]),
        json!([{"property": 1}]),
        json!([{"property": "size", "isAscending": "no"}]),
        json!([{"property": "size", "keyword": "x"}]),
        json!([{"property": "size", "collation": 5}]),
        json!([["size", true, null, null]]),
    ] {
        assert_eq!(kind(parse_sort(&invalid)), "invalidArguments", "{invalid}");
    }
    for unknown in [
        json!([{"property": "colour"}]),
        json!([{"property": "size", "collation": "i;unknown"}]),
        json!([{"property": "hasKeyword", "keyword": "a b"}]),
        Value::from(vec![json!({"property": "size"}); limits::MAX_SORT_COMPARATORS + 1]),
    ] {
        assert_eq!(kind(parse_sort(&unknown)), "unsupportedSort", "{unknown}");
    }
}

#[test]
fn section_is_read_or_gets_its_error_type() {
    let (start, limit) =
        (|value| window(value).unwrap().start, |value| window(value).unwrap().limit);
    assert_eq!((start(json!({})), limit(json!({}))), (Start::Position(0), Some(100)));
    assert_eq!(start(json!({"position": -5, "limit": null})), Start::Position(-5));
    assert_eq!(limit(json!({"limit": 7})), Some(7));
    assert_eq!(limit(json!({"limit": 1000})), Some(100));
    let id = EmailId(7);
    let anchored = json!({"anchor": id.to_string(), "anchorOffset": -2, "position": 9});
    assert_eq!(start(anchored), Start::Anchor { id, offset: -2 });
    for invalid in [
        json!({"position": "1"}),
        json!({"position": 1.5}),
        json!({"position": -9_007_199_254_740_992_i64}),
        json!({"anchorOffset": true}),
        json!({"anchor": 5}),
        json!({"anchor": ""}),
        json!({"limit": -1}),
    ] {
        assert_eq!(kind(window(invalid.clone())), "invalidArguments", "{invalid}");
    }
    assert_eq!(kind(window(json!({"anchor": "unknown"}))), "anchorNotFound");
}

fn any_json() -> impl Strategy<Value = Value> {
    let words = [
        "operator",
        "conditions",
        "AND",
        "NOT",
        "inMailbox",
        "text",
        "header",
        "before",
        "property",
        "keyword",
    ];
    let word = proptest::sample::select(words.to_vec()).prop_map(str::to_owned);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        ".{0,9}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let members = proptest::collection::btree_map(word.clone(), inner.clone(), 0..4);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_is_a_filter_or_an_error(value in any_json()) {
        if let Ok(filter) = filter(&value) {
            prop_assert_eq!(filter.validate(), Ok(()));
        }
        if let Ok(sort) = parse_sort(&value) {
            prop_assert!(sort.len() <= limits::MAX_SORT_COMPARATORS);
        }
    }
}

/// meli sends null for properties that it leaves to the server.
#[test]
fn null_in_sort_and_filter_is_the_default() {
    let plain = parse_sort(&json!([{"property": "receivedAt"}]));
    let nulls = json!([{"property": "receivedAt", "isAscending": null, "collation": null,
        "keyword": null}]);
    assert_eq!(parse_sort(&nulls), plain);
    assert!(plain.is_ok());
    assert_eq!(
        filter(&json!({"inMailbox": null, "text": "lunch", "minSize": null})),
        filter(&json!({"text": "lunch"}))
    );
    // The same holds for the sort of other types, such as Mailbox.
    let context = crate::jmap::tests::context();
    let query = |sort| {
        let arguments = json!({"accountId": crate::jmap::tests::account_of(&context),
            "sort": sort});
        crate::jmap::tests::call(&context, "Mailbox/query", &arguments)
    };
    let nulls = json!([{"property": "name", "isAscending": null, "collation": null}]);
    assert_eq!(query(nulls), query(json!([{"property": "name"}])));
}
