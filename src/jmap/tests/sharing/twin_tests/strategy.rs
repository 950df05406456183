//! Strategies of proptest for the changes of the two accounts, and for the queries of their guest.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    GuestQuery, KEYWORDS, PEOPLE, PrivateChange, SharedChange, TOPICS, TestMessage, WORDS,
};

fn keywords() -> impl Strategy<Value = BTreeSet<String>> {
    proptest::collection::btree_set(
        proptest::sample::select(&KEYWORDS[..]).prop_map(str::to_owned),
        0..3,
    )
}

fn letter() -> impl Strategy<Value = TestMessage> {
    (0..WORDS.len(), 0..PEOPLE.len(), any::<bool>(), keywords(), 0u8..8).prop_map(
        |(word, from, long, keywords, boxes)| TestMessage { word, from, long, keywords, boxes },
    )
}

pub(super) fn shared_change() -> impl Strategy<Value = SharedChange> {
    let which = || 0usize..6;
    prop_oneof![
        4 => (letter(), proptest::option::of(0..TOPICS)).prop_map(|(letter, topic)|
            SharedChange::Create { letter, topic }),
        2 => (proptest::option::of(0..TOPICS), 1usize..4).prop_map(|(topic, guess)|
            SharedChange::Draft { topic, guess }),
        3 => (which(), 0u8..16).prop_map(|(which, boxes)| SharedChange::Refile { which, boxes }),
        2 => (which(), keywords()).prop_map(|(which, keywords)|
            SharedChange::Mark { which, keywords }),
        1 => which().prop_map(|which| SharedChange::Destroy { which }),
    ]
}

pub(super) fn private_changes() -> impl Strategy<Value = Vec<PrivateChange>> {
    let which = || 0usize..6;
    let one = prop_oneof![
        5 => (letter(), proptest::option::of(0..TOPICS), 0usize..6)
            .prop_map(|(letter, topic, reply_to)| PrivateChange::Create { letter, topic,
                reply_to }),
        2 => (which(), 0u8..8).prop_map(|(which, boxes)| PrivateChange::Refile { which, boxes }),
        3 => (which(), keywords()).prop_map(|(which, keywords)|
            PrivateChange::Mark { which, keywords }),
        2 => which().prop_map(|which| PrivateChange::Destroy { which }),
        1 => any::<u8>().prop_map(|to| PrivateChange::Rename { to }),
    ];
    proptest::collection::vec(one, 0..4)
}

/// A filter condition. It gives mailboxes by name: `with_ids` replaces the names by ids.
fn condition() -> impl Strategy<Value = Value> {
    let word = || proptest::sample::select(&WORDS[..]);
    let keyword = || proptest::sample::select(&KEYWORDS[..]);
    let mailbox = || proptest::sample::select(vec!["plans", "inbox"]);
    prop_oneof![
        1 => Just(json!({})),
        2 => word().prop_map(|word| json!({"text": word})),
        1 => word().prop_map(|word| json!({"body": word})),
        1 => Just(json!({"subject": "topic"})),
        1 => proptest::sample::select(&PEOPLE[..]).prop_map(|from| json!({"from": from})),
        1 => word().prop_map(|word| json!({"header": ["X-Mark", word]})),
        1 => Just(json!({"minSize": 500})),
        1 => mailbox().prop_map(|name| json!({"inMailbox": name})),
        1 => mailbox().prop_map(|name| json!({"inMailboxOtherThan": [name]})),
        1 => keyword().prop_map(|word| json!({"hasKeyword": word})),
        2 => keyword().prop_map(|word| json!({"someInThreadHaveKeyword": word})),
        1 => keyword().prop_map(|word| json!({"allInThreadHaveKeyword": word})),
        1 => keyword().prop_map(|word| json!({"noneInThreadHaveKeyword": word})),
    ]
}

pub(super) fn guest_query() -> impl Strategy<Value = GuestQuery> {
    let filter = (proptest::collection::vec(condition(), 1..3), 0u8..4).prop_map(|(parts, of)| {
        let operator = ["AND", "OR", "NOT"].get(usize::from(of));
        match operator {
            Some(operator) => json!({"operator": operator, "conditions": parts}),
            None => parts[0].clone(),
        }
    });
    let by = |property: &'static str| json!([{"property": property, "isAscending": true}]);
    let by_keyword = |property: &'static str, word: &'static str| {
        let comparator = json!({"property": property, "keyword": word});
        json!([comparator])
    };
    let sort = proptest::sample::select(vec![
        Value::Null,
        Value::Null,
        by("receivedAt"),
        by("size"),
        by("from"),
        by_keyword("hasKeyword", "$flagged"),
        by_keyword("someInThreadHaveKeyword", "$seen"),
        by_keyword("allInThreadHaveKeyword", "$flagged"),
    ]);
    (filter, sort, any::<bool>(), proptest::option::of(0usize..8))
        .prop_map(|(filter, sort, collapse, up_to)| GuestQuery { filter, sort, collapse, up_to })
}
