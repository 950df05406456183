//! Tests of RFC 5228: control, tests of fields, addresses and the envelope, comparators and match
//! types. And of `:count`, `:index` and `:regex`.

use restante_sieve::ir::{
    AddressPart, CommandKind, Comparison, EnvelopePart, EnvelopeTest, FieldIndex, MatchType,
    Relation, SizeLimit, TestKind,
};
use restante_sieve::{Comparator, Plan, RuntimeErrorKind, Script};

use crate::build::{
    A, address, comparison, create, fileinto, header, header_test, keep, known, not, numeric,
    probe, script, set, string, test, text, texts, when, when_else,
};
use crate::support::{TestInput, TestWorld};

pub const MESSAGE: &str = "From: \"Coyote, W.\" <Coyote@Desert.example>\r\n\
    To: team: ken+sieve@example.org, b@example.com;, c@example.net\r\n\
    Cc: not an address\r\n\
    Subject: =?utf-8?q?Caf=C3=A9?=\r\n =?utf-8?q?_now?=  \r\n\
    X-Empty:\r\n\
    X-Many: one\r\n\
    X-Many: two\r\n\
    X-Many: three\r\n\
    \r\n\
    Hello\r\n";

/// Returns whether a script cancels the implicit keep of [`MESSAGE`]. A script of [`probe`]
/// does so if its test is true.
pub fn is_filed(script: &Script) -> bool {
    let outcome = TestInput::new(MESSAGE).run(script, &TestWorld::default());
    assert_eq!(outcome.error, None);
    outcome.plan.implicit_keep.is_none()
}

/// Returns whether a test is true for [`MESSAGE`].
fn holds(kind: TestKind) -> bool {
    is_filed(&probe(kind))
}

#[test]
fn an_empty_script_keeps_the_message() {
    let outcome = TestInput::new(MESSAGE).run(&script(vec![]), &TestWorld::default());
    assert_eq!(outcome.plan, Plan::keep_only());
    assert_eq!(outcome.error, None);
}

#[test]
fn else_runs_if_the_test_is_false() {
    let no = when_else(TestKind::False, vec![create("a")], Some(vec![create("b")]));
    let outcome = TestInput::new(MESSAGE).run(&script(vec![no]), &TestWorld::default());
    assert!(format!("{:?}", outcome.plan).contains("\"b\""));
    assert_eq!(outcome.plan.actions.len(), 1);
}

#[test]
fn stop_ends_the_script() {
    let commands = vec![when(TestKind::True, vec![CommandKind::Stop]), create("a")];
    let outcome = TestInput::new(MESSAGE).run(&script(commands), &TestWorld::default());
    assert_eq!(outcome.plan, Plan::keep_only());
}

#[test]
fn values_are_decoded_unfolded_and_trimmed() {
    assert!(holds(header("subject", MatchType::Is, "caf\u{e9} now")));
    assert!(holds(header("Subject", MatchType::Contains, "\u{e9} N")));
    assert!(!holds(header("Subject", MatchType::Is, "CAF\u{c9} NOW")));
    assert!(holds(header("X-Empty", MatchType::Is, "")));
    assert!(holds(header("X-Empty", MatchType::Contains, "")));
    assert!(holds(header("X-Empty", MatchType::Matches, "*")));
    assert!(!holds(header("X-None", MatchType::Contains, "")));
    assert!(!holds(header("X-None", MatchType::Is, "")));
}

#[test]
fn unicode_casemap_ignores_case_beyond_ascii() {
    let mut test = header_test(&["Subject"], comparison(MatchType::Is, &["CAF\u{c9} NOW"]));
    test.comparison.comparator = Comparator::UnicodeCasemap;
    assert!(holds(TestKind::Header(Box::new(test.clone()))));
    test.comparison.comparator = Comparator::Octet;
    assert!(!holds(TestKind::Header(Box::new(test))));
}

#[test]
fn exists_needs_every_field() {
    let exists = |fields: &[&str]| TestKind::Exists { fields: texts(fields), mime: None };
    assert!(holds(exists(&["from", "X-EMPTY"])));
    assert!(!holds(exists(&["From", "X-None"])));
}

#[test]
fn addresses_are_found_in_groups_and_other_texts_are_left_out() {
    let is = MatchType::Is;
    assert!(holds(address("From", AddressPart::All, is, "coyote@desert.example")));
    assert!(holds(address("To", AddressPart::Domain, is, "example.com")));
    assert!(holds(address("To", AddressPart::LocalPart, is, "ken+sieve")));
    assert!(holds(address("To", AddressPart::User, is, "ken")));
    assert!(holds(address("To", AddressPart::Detail, is, "sieve")));
    // An address without a detail has no value, not even the empty one (RFC 5233 §4).
    assert!(!holds(address("To", AddressPart::Detail, is, "")));
    assert!(!holds(address("To", AddressPart::All, is, "team")));
    assert!(!holds(address("Cc", AddressPart::All, MatchType::Contains, "")));
}

#[test]
fn size_is_compared_strictly() {
    let size = MESSAGE.len() as u64;
    assert!(holds(TestKind::Size(SizeLimit::Over(size - 1))));
    assert!(!holds(TestKind::Size(SizeLimit::Over(size))));
    assert!(!holds(TestKind::Size(SizeLimit::Under(size))));
    assert!(holds(TestKind::Size(SizeLimit::Under(size + 1))));
}

#[test]
fn tests_are_evaluated_from_left_to_right_and_only_while_they_matter() {
    // The match variable `$1` shows which of the tests has matched last.
    let matched = |key| test(header("X-Many", MatchType::Matches, key));
    let check = |first: TestKind, expected: &str| {
        let file = when(string("$1", MatchType::Is, expected), vec![create("yes")]);
        assert!(is_filed(&script(vec![when(first, vec![]), file])), "{expected}");
    };
    check(TestKind::AllOf(vec![matched("o*"), matched("t*")]), "wo");
    check(TestKind::AllOf(vec![matched("o*"), matched("z*"), matched("t*")]), "ne");
    check(TestKind::AnyOf(vec![matched("z*"), matched("o*"), matched("t*")]), "ne");
    assert!(holds(TestKind::AllOf(vec![])) && !holds(TestKind::AnyOf(vec![])));
    assert!(holds(not(TestKind::False)));
}

fn envelope(part: EnvelopePart, address_part: AddressPart, comparison: Comparison) -> TestKind {
    TestKind::Envelope(Box::new(EnvelopeTest {
        parts: vec![known(part)],
        zone: None,
        address_part,
        comparison,
    }))
}

#[test]
fn the_envelope_has_one_sender_and_one_recipient() {
    // `TestInput` has the envelope sender you@example.com and the recipient me@example.org.
    let is = |key| comparison(MatchType::Is, &[key]);
    assert!(holds(envelope(EnvelopePart::From, AddressPart::Domain, is("example.com"))));
    assert!(holds(envelope(EnvelopePart::To, AddressPart::All, is("me@example.org"))));
    assert!(!holds(envelope(EnvelopePart::Auth, AddressPart::All, is(""))));
    for part in [EnvelopePart::From, EnvelopePart::To] {
        let one = numeric(MatchType::Count(Relation::Eq), &["1"]);
        assert!(holds(envelope(part, AddressPart::All, one)));
    }
}

#[test]
fn the_null_sender_is_the_empty_string_and_no_address() {
    let mut input = TestInput::new(MESSAGE);
    input.envelope.from = "";
    let filed = |comparison| {
        let probe = probe(envelope(EnvelopePart::From, AddressPart::Domain, comparison));
        input.run(&probe, &TestWorld::default()).plan.implicit_keep.is_none()
    };
    assert!(filed(comparison(MatchType::Is, &[""])));
    assert!(filed(numeric(MatchType::Count(Relation::Eq), &["0"])));
}

#[test]
fn count_counts_fields_and_addresses() {
    let count = |fields: &[&str], number| {
        let comparison = numeric(MatchType::Count(Relation::Eq), &[number]);
        TestKind::Header(Box::new(header_test(fields, comparison)))
    };
    assert!(holds(count(&["X-Many", "Subject", "X-None"], "4")));
    assert!(holds(count(&["X-None"], "0")));
    let mut test = address("To", AddressPart::All, MatchType::Count(Relation::Eq), "3");
    if let TestKind::Address(test) = &mut test {
        test.comparison.comparator = Comparator::AsciiNumeric;
    }
    assert!(holds(test));
}

#[test]
fn index_counts_the_fields_of_all_names_in_their_order() {
    let value = |names: &[&str], number, from_end, key: &str| {
        let mut test = header_test(names, comparison(MatchType::Is, &[key]));
        test.index = Some(FieldIndex { number, from_end });
        holds(TestKind::Header(Box::new(test)))
    };
    assert!(value(&["X-Many"], 2, false, "two"));
    assert!(!value(&["X-Many"], 2, false, "one"));
    assert!(value(&["X-Many"], 1, true, "three"));
    assert!(value(&["X-Many"], 3, true, "one"));
    assert!(!value(&["X-Many"], 4, true, "one"));
    assert!(!value(&["X-Many"], 0, false, "one"));
    assert!(value(&["X-Empty", "X-Many"], 2, false, "one"));
    assert!(value(&["X-Many", "X-Empty"], 1, true, ""));
}

#[test]
fn regex_captures_groups() {
    let regex = header("X-Many", MatchType::Regex, "^(t)(x)?(.*)o$");
    let file = when(string("$1-$2-$3", MatchType::Is, "t--w"), vec![create("yes")]);
    assert!(is_filed(&script(vec![when(regex, vec![file])])));
    assert!(holds(header("X-Many", MatchType::Regex, "^TWO$")));
}

#[test]
fn a_bad_regex_of_variables_is_an_error() {
    let commands =
        vec![set(A, "("), when(header("X-Many", MatchType::Regex, "$a"), vec![fileinto("x")])];
    let outcome = TestInput::new(MESSAGE).run(&script(commands), &TestWorld::default());
    let error = outcome.error.unwrap();
    assert!(matches!(error.kind, RuntimeErrorKind::BadRegex { .. }), "{error}");
    // The span of every test begins at 100.
    assert_eq!(error.place.span.start, 100);
    assert_eq!(outcome.plan, Plan::keep_only());
}

#[test]
fn an_error_drops_what_was_decided() {
    let error = CommandKind::Error { message: text("no") };
    let commands = vec![create("x"), keep(), error];
    let outcome = TestInput::new(MESSAGE).run(&script(commands), &TestWorld::default());
    assert_eq!(outcome.plan, Plan::keep_only());
    // The span of a command begins at its index.
    let error = outcome.error.unwrap();
    assert_eq!((error.to_string().as_str(), error.place.span.start), ("no", 2));
}
