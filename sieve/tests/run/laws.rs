//! Checks laws of every outcome, on scripts and messages made at random: two runs are equal, also
//! after the script was serialised; a run keeps within its fuel; a failed run only keeps the
//! message; no plan stores twice into one mailbox; and a serialised plan is read back.

use proptest::prelude::*;
use restante_sieve::ir::{
    BodyTransform, CommandKind, DeleteHeader, Enclose, FlagOperation, MatchType, MimeOption,
    MimeScope, Replace, TestKind,
};
use restante_sieve::{Action, Plan, RunLimits, Script, Target};

use crate::build::{
    A, add_header, address, answer, body, commands, copy_to, create, fileinto, header, keep,
    mime_header, not, redirect, reject, script, set, string, text, texts, when,
};
use crate::messages::NESTED;
use crate::support::{TestInput, TestWorld};

/// Texts, some with variables and some with wildcards.
fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("Lists".to_owned()),
        Just("INBOX".to_owned()),
        Just("$1".to_owned()),
        Just("$a/$2".to_owned()),
        "[a-c*?. ]{0,4}",
    ]
}

fn match_types() -> impl Strategy<Value = MatchType> {
    prop_oneof![
        Just(MatchType::Is),
        Just(MatchType::Contains),
        Just(MatchType::Matches),
        Just(MatchType::Regex),
    ]
}

/// Tests, with others in them at most three levels deep.
fn tests() -> impl Strategy<Value = TestKind> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(|value| if value { TestKind::True } else { TestKind::False }),
        (match_types(), words()).prop_map(|(kind, key)| header("Subject", kind, &key)),
        (match_types(), words()).prop_map(|(kind, key)| string("$a", kind, &key)),
        (match_types(), words()).prop_map(|(kind, key)| body(BodyTransform::Text, kind, &key)),
        (match_types(), words()).prop_map(|(kind, key)| {
            address("From", restante_sieve::ir::AddressPart::LocalPart, kind, &key)
        }),
        words().prop_map(|key| {
            mime_header("Content-Type", MimeOption::Type, MimeScope::AnyChild, &key)
        }),
    ];
    leaf.prop_recursive(3, 6, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(not),
            proptest::collection::vec(inner, 0..3).prop_map(|tests| {
                TestKind::AllOf(tests.into_iter().map(crate::build::test).collect())
            }),
        ]
    })
}

/// `setflag`, `addflag` and `removeflag`.
fn flags() -> impl Strategy<Value = CommandKind> {
    let operation = prop_oneof![
        Just(FlagOperation::Set),
        Just(FlagOperation::Add),
        Just(FlagOperation::Remove)
    ];
    (operation, "(\\\\Seen|a|b| ){0,3}").prop_map(|(operation, flags)| CommandKind::Flags {
        operation,
        variable: None,
        flags: texts(&[&flags]),
    })
}

/// Commands that edit the message.
fn edits() -> impl Strategy<Value = CommandKind> {
    prop_oneof![
        words().prop_map(|value| add_header("X-A", &value)),
        "(X-A|Subject|Received|Content-Type)".prop_map(|name| {
            let name = text(&name);
            CommandKind::DeleteHeader(Box::new(DeleteHeader {
                name,
                index: None,
                comparison: None,
            }))
        }),
        words().prop_map(|word| CommandKind::Replace(Box::new(Replace {
            mime: false,
            subject: Some(text(&word)),
            from: None,
            replacement: text(&word),
        }))),
        words().prop_map(|word| CommandKind::Enclose(Box::new(Enclose {
            subject: None,
            headers: texts(&["From"]),
            text: text(&word),
        }))),
    ]
}

/// Commands of many kinds, the more usual ones more often.
fn all_commands() -> impl Strategy<Value = CommandKind> {
    let leaf = prop_oneof![
        4 => prop_oneof![Just(keep()), Just(CommandKind::Discard), Just(CommandKind::Stop)],
        4 => prop_oneof![
            words().prop_map(|name| fileinto(&name)),
            words().prop_map(|name| copy_to(&name)),
            words().prop_map(|name| create(&name)),
        ],
        2 => "[a-b]@example.org".prop_map(|to| redirect(&to)),
        1 => Just(reject("no")),
        1 => Just(answer("away")),
        3 => words().prop_map(|value| set(A, &value)),
        3 => flags(),
        3 => edits(),
        1 => Just(CommandKind::Error { message: text("$a") }),
        1 => Just(CommandKind::Break { loops: 1 }),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let block = proptest::collection::vec(inner, 0..4);
        prop_oneof![
            (tests(), block.clone()).prop_map(|(test, block)| when(test, block)),
            block.prop_map(|block| CommandKind::ForEveryPart { block: commands(block) }),
        ]
    })
}

fn scripts() -> impl Strategy<Value = Script> {
    proptest::collection::vec(all_commands(), 0..6).prop_map(script)
}

/// A message with parts, any bytes, or a short message with one field.
fn messages() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(NESTED.as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..200),
        "(Subject|From|Content-Type): [ -~]{0,20}\r\n( [ -~]{0,9}\r\n)?\r\n[ -~\r\n]{0,40}"
            .prop_map(String::into_bytes),
    ]
}

/// Returns a text for the mailbox of a target. Targets of one mailbox have the same text.
fn target_name(target: &Target) -> String {
    match target {
        Target::Inbox => "Inbox".to_owned(),
        Target::Mailbox { id, .. } => format!("id {id}"),
        Target::Create { name, .. } => format!("name {name}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_outcome_keeps_the_laws(
        script in scripts(),
        message in messages(),
        fuel in 0_u64..5000,
    ) {
        let limits = RunLimits { fuel, ..RunLimits::default() };
        let input = TestInput { limits, ..TestInput::new(message) };
        let world = TestWorld::with_mailboxes(&["Lists"]);
        let outcome = input.run(&script, &world);
        prop_assert_eq!(&input.run(&script, &world), &outcome);
        prop_assert!(outcome.fuel_used <= fuel);
        prop_assert_eq!(outcome.plan.violations(), Vec::<&str>::new());
        if outcome.error.is_some() {
            prop_assert_eq!(&outcome.plan, &Plan::keep_only());
        }
        let mut targets: Vec<String> = outcome
            .plan
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Store { to, .. } => Some(target_name(to)),
                _ => None,
            })
            .collect();
        targets.extend(outcome.plan.implicit_keep.iter().map(|_| target_name(&Target::Inbox)));
        let count = targets.len();
        targets.sort();
        targets.dedup();
        prop_assert_eq!(targets.len(), count);
        let json = serde_json::to_string(&script).unwrap();
        let read: Script = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(&input.run(&read, &world), &outcome);
        let plan = serde_json::to_string(&outcome.plan).unwrap();
        prop_assert_eq!(serde_json::from_str::<Plan>(&plan).unwrap(), outcome.plan);
    }
}
