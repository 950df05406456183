//! Tests of `body`, `foreverypart`, `:mime` and `extracttext` (RFC 5173, RFC 5703).

use restante_sieve::ir::{
    BodyTransform, CommandKind, ExtractText, MatchType, MimeOption, MimeScope, Modifier, Relation,
    TestKind,
};
use restante_sieve::{Outcome, Place, Trace};

use crate::build::{
    A, B, body, commands, header_test, mime_header, numeric, probe, script, set, string, texts,
    when,
};
use crate::support::{TestInput, TestWorld};

/// The message of RFC 5173 §5.2, to which an HTML entity and a file name were added. It has six
/// parts: the message itself, `alternative`, `plain`, `html`, `rfc822`, and the message inside
/// `rfc822`, which has no Content-Type.
pub const NESTED: &str = "From: Whomever\r\n\
    To: Someone\r\n\
    Subject: whatever\r\n\
    Content-Type: multipart/mixed; boundary=outer\r\n\
    \r\n\
    This is a multi-part message in MIME format.\r\n\
    \r\n\
    --outer\r\n\
    Content-Type: multipart/alternative; boundary=inner\r\n\
    \r\n\
    This is a nested multi-part message in MIME format.\r\n\
    \r\n\
    --inner\r\n\
    Content-Type: text/plain; charset=\"us-ascii\"\r\n\
    Content-Transfer-Encoding: base64\r\n\
    \r\n\
    SGVsbG8=\r\n\
    --inner\r\n\
    Content-Type: text/html; charset=\"us-ascii\"\r\n\
    Content-Disposition: attachment; filename*=utf-8''%c3%a4.html\r\n\
    \r\n\
    <html><body>Hello &amp; bye</body></html>\r\n\
    --inner--\r\n\
    \r\n\
    This is the end of the inner MIME multipart.\r\n\
    \r\n\
    --outer\r\n\
    Content-Type: message/rfc822\r\n\
    \r\n\
    From: Someone Else\r\n\
    Subject: hello request\r\n\
    \r\n\
    Please say Hello\r\n\
    --outer--\r\n\
    \r\n\
    This is the end of the outer MIME multipart.\r\n";

/// Returns whether a test is true for [`NESTED`].
fn holds(kind: TestKind) -> bool {
    let outcome = TestInput::new(NESTED).run(&probe(kind), &TestWorld::default());
    assert_eq!(outcome.error, None);
    outcome.plan.implicit_keep.is_none()
}

/// Returns whether `body :content` of a type contains a text.
fn content(media: &str, key: &str) -> bool {
    holds(body(BodyTransform::Content(texts(&[media])), MatchType::Contains, key))
}

#[test]
fn raw_is_the_body_without_decoding() {
    let raw = |key| holds(body(BodyTransform::Raw, MatchType::Contains, key));
    assert!(raw("this is a multi-part"));
    assert!(raw("SGVsbG8=") && raw("Content-Type: text/html"));
    assert!(!raw("whatever"));
}

#[test]
fn content_is_that_of_the_parts_of_a_type() {
    assert!(content("text/plain", "hello") && content("text/plain", "please say"));
    assert!(content("text/html", "<body>hello"));
    assert!(!content("text/plain", "<body>"));
    assert!(content("text", "<body>") && content("", "<body>"));
    assert!(content("message/rfc822", "subject: hello request"));
    assert!(!content("message/rfc822", "please"));
    assert!(!content("image", ""));
    assert!(!content("text/", "hello"));
}

#[test]
fn a_multipart_is_its_prologue_and_its_epilogue() {
    for key in ["this is a multi", "this is a nested", "end of the inner", "end of the outer"] {
        assert!(content("multipart", key), "{key}");
    }
    assert!(!content("multipart", "hello") && !content("multipart", "--inner"));
    let count = |number| TestKind::Body {
        transform: BodyTransform::Content(texts(&["multipart"])),
        comparison: numeric(MatchType::Count(Relation::Eq), &[number]),
    };
    // A prologue and an epilogue of each of the two multiparts.
    assert!(holds(count("4")));
}

#[test]
fn text_is_what_a_reader_sees() {
    let text = |key| holds(body(BodyTransform::Text, MatchType::Contains, key));
    assert!(text("hello & bye") && text("please say"));
    assert!(!text("<body>") && !text("nested"));
}

#[test]
fn body_sets_no_match_variables() {
    let test = body(BodyTransform::Text, MatchType::Matches, "*");
    let unset = string("<$0>", MatchType::Is, "<>");
    assert!(holds(TestKind::AllOf(vec![crate::build::test(test), crate::build::test(unset)])));
}

#[test]
fn mime_fields_of_parts_are_compared() {
    let any = |field, option, key| holds(mime_header(field, option, MimeScope::AnyChild, key));
    assert!(any("Content-Type", MimeOption::Type, "text"));
    assert!(any("Content-Type", MimeOption::Subtype, "html"));
    assert!(any("Content-Type", MimeOption::ContentType, "multipart/alternative"));
    assert!(any("Content-Disposition", MimeOption::Type, "attachment"));
    assert!(any("Content-Disposition", MimeOption::Subtype, ""));
    assert!(any("Subject", MimeOption::Type, ""));
    assert!(any("Content-Type", MimeOption::Param(texts(&["x", "Boundary"])), "inner"));
    assert!(any("Content-Disposition", MimeOption::Param(texts(&["filename"])), "\u{e4}.html"));
    assert!(any("Subject", MimeOption::Value, "hello request"));
    let root = |key| holds(mime_header("Content-Type", MimeOption::Subtype, MimeScope::Part, key));
    assert!(root("mixed") && !root("html"));
    let plain =
        header_test(&["Subject"], crate::build::comparison(MatchType::Is, &["hello request"]));
    assert!(!holds(TestKind::Header(Box::new(plain))));
}

#[test]
fn exists_looks_into_parts() {
    let exists =
        |mime| holds(TestKind::Exists { fields: texts(&["Content-Disposition", "Subject"]), mime });
    assert!(exists(Some(MimeScope::AnyChild)) && !exists(Some(MimeScope::Part)) && !exists(None));
}

/// Collects the values of the variable `a`.
#[derive(Default)]
struct Values(Vec<String>);

impl Trace for Values {
    fn assignment(&mut self, _: &Place, name: &str, value: &str) {
        if name == "a" {
            self.0.push(value.to_owned());
        }
    }
}

/// Runs commands on [`NESTED`]. Returns the outcome, and the values that `a` had, in order.
fn run(list: Vec<CommandKind>) -> (Outcome, Vec<String>) {
    let mut values = Values::default();
    let input = TestInput::new(NESTED);
    let outcome = input.run_traced(&script(list), &TestWorld::default(), Some(&mut values));
    assert_eq!(outcome.error, None);
    (outcome, values.0)
}

/// Makes a `foreverypart`.
fn each(block: Vec<CommandKind>) -> CommandKind {
    CommandKind::ForEveryPart { block: commands(block) }
}

/// Sets `a` to the subtype of the current part, if it has a Content-Type.
fn note_type() -> CommandKind {
    let mut test =
        header_test(&["Content-Type"], crate::build::comparison(MatchType::Matches, &["*"]));
    test.mime = Some(MimeScope::Part);
    test.option = MimeOption::Subtype;
    when(TestKind::Header(Box::new(test)), vec![set(A, "$0")])
}

#[test]
fn loops_run_over_all_parts_depth_first() {
    let (_, values) = run(vec![each(vec![note_type()])]);
    assert_eq!(values, ["mixed", "alternative", "plain", "html", "rfc822"]);
}

#[test]
fn inner_loops_run_over_the_parts_inside() {
    let is_inner = mime_header("Content-Type", MimeOption::Subtype, MimeScope::Part, "alternative");
    let inner = when(is_inner, vec![each(vec![note_type()])]);
    assert_eq!(run(vec![each(vec![inner])]).1, ["plain", "html"]);
    let is_html = mime_header("Content-Type", MimeOption::Subtype, MimeScope::Part, "html");
    let inner = when(is_html, vec![each(vec![set(A, "no")])]);
    assert_eq!(run(vec![each(vec![inner])]).1, [""; 0]);
}

#[test]
fn an_included_script_sees_the_current_part_as_the_message() {
    use restante_sieve::ir::SizeLimit;
    let is_html = mime_header("Content-Type", MimeOption::Subtype, MimeScope::Part, "html");
    let raw = |key| crate::build::test(body(BodyTransform::Raw, MatchType::Contains, key));
    let header = |name| TestKind::Exists { fields: texts(&[name]), mime: None };
    let seen = TestKind::AllOf(vec![
        crate::build::test(header("Content-Disposition")),
        crate::build::test(crate::build::not(header("Subject"))),
        crate::build::test(TestKind::Size(SizeLimit::Under(200))),
        raw("bye"),
        crate::build::test(crate::build::not(body(BodyTransform::Raw, MatchType::Contains, "end"))),
    ]);
    let inner = vec![when(seen, vec![crate::build::create("seen")]), each(vec![note_type()])];
    let mut world = TestWorld::default();
    let key = (restante_sieve::ir::Location::Personal, "x".to_owned());
    world.scripts.insert(key, std::sync::Arc::new(script(inner)));
    let include = CommandKind::Include(crate::build::include("x"));
    let commands = vec![each(vec![when(is_html, vec![include])])];
    let mut values = Values::default();
    let outcome = TestInput::new(NESTED).run_traced(&script(commands), &world, Some(&mut values));
    assert_eq!((outcome.error, outcome.plan.actions.len()), (None, 1));
    assert_eq!(values.0, ["html"]);
}

#[test]
fn break_leaves_loops() {
    // Of the 6 parts, 3 have parts in them: the message, `alternative` and `rfc822`. Only in these
    // the inner loop runs at all.
    let leave =
        |loops| each(vec![each(vec![set(A, "1"), CommandKind::Break { loops }]), set(A, "2")]);
    assert_eq!(run(vec![leave(2), set(A, "3")]).1, ["1", "3"]);
    let one = run(vec![leave(1), set(A, "3")]).1;
    assert_eq!(one.iter().filter(|value| *value == "1").count(), 3);
    assert_eq!(one.iter().filter(|value| *value == "2").count(), 6);
}

#[test]
fn text_of_parts_is_extracted() {
    let extract = |first, modifiers: &[Modifier]| {
        CommandKind::ExtractText(Box::new(ExtractText {
            variable: A,
            modifiers: modifiers.to_vec(),
            first,
        }))
    };
    // The parts in order: multipart, multipart, text, HTML, message, and the text in that.
    let (_, values) = run(vec![each(vec![extract(Some(5), &[Modifier::Upper])])]);
    assert_eq!(values, ["", "", "HELLO", "HELLO", "", "PLEAS"]);
    // Outside of a loop there is no current part.
    assert_eq!(run(vec![extract(None, &[])]).1, [""]);
    let (_, values) = run(vec![each(vec![extract(None, &[])]), set(B, "x")]);
    assert_eq!(values[3].trim(), "Hello & bye");
}
