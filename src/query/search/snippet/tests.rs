//! Tests snippets of ordinary, hostile and real mail (RFC 8621 §5).

use std::fs;

use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization as _;

use super::*;
use crate::message::content::content;

impl Finder {
    /// Returns the snippet of a message that is in no store.
    fn of_raw(&self, raw: &[u8]) -> Snippet {
        let message = Message::parse(raw);
        let subject =
            content(&message).subject.as_deref().and_then(|subject| self.of_subject(subject));
        Snippet { subject, preview: self.of_texts(&message) }
    }
}

fn text(term: &str) -> Filter {
    Filter::Is(Condition::Text(term.into()))
}

fn snippet(filter: &Filter, raw: &str) -> Snippet {
    Finder::new(filter, &Secrets::default()).of_raw(raw.as_bytes())
}

fn subject(term: &str, subject: &str) -> Option<String> {
    let raw = format!("Subject: {subject}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\r\n");
    let found = snippet(&text(term), &raw);
    assert_eq!(found.preview, None);
    found.subject
}

fn body(term: &str, body: &str) -> Option<String> {
    let head = "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit";
    snippet(&Filter::Is(Condition::Body(term.into())), &format!("{head}\r\n\r\n{body}\r\n")).preview
}

/// Returns the text that a reader sees, without tags and with entities resolved.
fn plain(html: &str) -> String {
    let text = html.replace(OPEN, "").replace(CLOSE, "");
    assert!(!text.contains(['<', '>', '"', '\'']), "{html}");
    for part in text.split('&').skip(1) {
        assert!(
            ["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|entity| part.starts_with(entity)),
            "{html}"
        );
    }
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'");
    text.replace("&amp;", "&")
}

/// Returns the marked texts. Checks that marks come in pairs and are not empty.
fn marks(html: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = html;
    while let Some((before, after)) = rest.split_once(OPEN) {
        assert!(!before.contains(CLOSE), "{html}");
        let (inside, after) = after.split_once(CLOSE).expect("a closing tag");
        assert!(!inside.is_empty() && !inside.contains(OPEN), "{html}");
        out.push(plain(inside));
        rest = after;
    }
    assert!(!rest.contains(CLOSE), "{html}");
    out
}

#[test]
fn words_and_phrases_that_match_are_marked() {
    for (term, given, expected) in [
        ("lunch", "Lunch at noon, LUNCH!", Some("<mark>Lunch</mark> at noon, <mark>LUNCH</mark>!")),
        ("\"big lunch\"", "a big lunch, lunch big", Some("a <mark>big lunch</mark>, lunch big")),
        ("'big lunch' noon", "noon: big-lunch", Some("<mark>noon</mark>: <mark>big-lunch</mark>")),
        ("strasse", "Straße & STRASSE", Some("<mark>Straße</mark> &amp; <mark>STRASSE</mark>")),
        (
            "cafe",
            "Cafe\u{301}s Cafe\u{301} café",
            Some("Cafe\u{301}s <mark>Cafe\u{301}</mark> <mark>café</mark>"),
        ),
        ("日本語", "新しい日本語の本", Some("新しい<mark>日本語</mark>の本")),
        ("日", "日本と日", Some("<mark>日</mark>本と<mark>日</mark>")),
        ("本日", "日本語", None),
        ("lun", "lunch", None),
        ("한국", "한국어", Some("<mark>한국</mark>어")),
        ("ann@a.example", "to ann@a.example now", Some("to <mark>ann@a.example</mark> now")),
        ("a.example a", "a.example", Some("<mark>a.example</mark>")),
        ("-", "a - b", None),
        ("", "anything", None),
    ] {
        // The subject is shown composed, in its Text form (RFC 8621 §4.1.2.2), the body as it is.
        let composed = expected.map(|expected| expected.nfc().collect::<String>());
        assert_eq!(subject(term, given), composed, "{term} in {given}");
        assert_eq!(body(term, given).as_deref(), expected, "{term} in {given}");
    }
}

#[test]
fn hostile_text_is_escaped() {
    for (given, expected) in [
        (
            "<script>alert('lunch')</script>",
            "&lt;script&gt;alert(&#39;<mark>lunch</mark>&#39;)&lt;/script&gt;",
        ),
        ("</mark>lunch<mark>", "&lt;/mark&gt;<mark>lunch</mark>&lt;mark&gt;"),
        (
            "lunch</mark><b onclick=\"x\">",
            "<mark>lunch</mark>&lt;/mark&gt;&lt;b onclick=&quot;x&quot;&gt;",
        ),
        ("&lt;lunch&gt; &", "&amp;lt;<mark>lunch</mark>&amp;gt; &amp;"),
        (
            "lu\u{200b}nch \u{1f600}lunch\u{1f600}",
            "<mark>lu\u{200b}nch</mark> \u{1f600}<mark>lunch</mark>\u{1f600}",
        ),
    ] {
        assert_eq!(subject("lunch", given).as_deref(), Some(expected), "{given}");
        assert_eq!(body("lunch", given).as_deref(), Some(expected), "{given}");
    }
    assert_eq!(
        body("lunch", "a\u{1b}[2J\u{0} lunch \t\r\n\r\n b").as_deref(),
        Some("a [2J <mark>lunch</mark> b")
    );
    assert_eq!(subject("mark", "<mark>"), Some("&lt;<mark>mark</mark>&gt;".into()));
    let with_surrogate = subject("lunch", "=?utf-16be?b?2AA=?= lunch").unwrap();
    assert_eq!(marks(&with_surrogate), ["lunch"]);
}

#[test]
fn snippet_is_null_without_a_match_or_a_search_text() {
    let raw = "Subject: lunch\r\nFrom: lunch@x.example\r\n\r\nlunch now\r\n";
    let is = Filter::Is;
    let found = |filter: Filter| {
        let found = snippet(&filter, raw);
        (found.subject.is_some(), found.preview.is_some())
    };
    assert_eq!(found(text("lunch")), (true, true));
    assert_eq!(found(is(Condition::Subject("lunch".into()))), (true, false));
    assert_eq!(found(is(Condition::Body("lunch".into()))), (false, true));
    assert_eq!(found(is(Condition::From("lunch".into()))), (false, false));
    assert_eq!(found(Filter::Not(vec![text("lunch")])), (false, false));
    assert_eq!(
        found(Filter::Or(vec![text("dinner"), Filter::And(vec![text("now")])])),
        (false, true)
    );
    assert_eq!(found(is(Condition::HasKeyword("$seen".into()))), (false, false));
    // The term with `@` matches addresses, which have no snippet; in other texts it is a phrase.
    assert_eq!(found(text("@x.example")), (false, false));
    assert_eq!(
        subject("@x.example", "write to x.example"),
        Some("write to <mark>x.example</mark>".into())
    );
}

#[test]
fn html_is_shown_as_its_text() {
    let raw = "Content-Type: text/html\r\n\r\n\
               <p title=lunch>Come &lt;b&gt; to <b>lunch</b></p><script>lunch</script>\r\n";
    assert_eq!(
        snippet(&text("lunch"), raw).preview.as_deref(),
        Some("Come &lt;b&gt; to <mark>lunch</mark>")
    );
}

#[test]
fn snippet_of_a_long_text_shows_the_match_and_is_bounded() {
    for filler in
        ["word ", "& ", "日本", "<>", "e\u{301}", "\u{1f469}\u{200d}\u{1f680}", "x", " \r\n"]
    {
        for before in [0, 1, 3, 20, 60, 500] {
            let given = format!("{} lunch {}", filler.repeat(before), filler.repeat(500));
            let found = body("lunch", &given).unwrap();
            assert!(found.len() <= limits::MAX_SNIPPET_BYTES, "{} bytes: {found}", found.len());
            assert_eq!(marks(&found), ["lunch"], "{filler:?} {before}");
            let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(squeezed(&given).contains(plain(&found).trim()), "{found}");
        }
    }
    // A match that is longer than the bound is shortened, and the mark is closed.
    let long = format!("'{}'", "lunch ".repeat(100));
    let found = body(&long, &"lunch ".repeat(300)).unwrap();
    assert!(found.len() <= limits::MAX_SNIPPET_BYTES && marks(&found).len() == 1, "{found}");
    // A character with many combining marks does not hide the match.
    let found = body("lunch", &format!("e{} lunch", "\u{301}".repeat(500))).unwrap();
    assert_eq!(marks(&found), ["lunch"]);
    let whole = "word ".repeat(200) + "lunch";
    assert_eq!(plain(&subject("lunch", &whole).unwrap()), whole);
    let huge = subject("lunch", &format!("{} lunch", "word ".repeat(5000))).unwrap();
    assert!(huge.len() <= limits::MAX_SNIPPET_SUBJECT_BYTES && marks(&huge) == ["lunch"]);
}

proptest! {
    #[test]
    fn any_text_is_escaped_marked_and_bounded(given in "(?s).{0,400}", term in "\\PC{1,12}") {
        let found = body(&term, &given);
        if let Some(html) = &found {
            prop_assert!(html.len() <= limits::MAX_SNIPPET_BYTES);
            prop_assert!(!marks(html).is_empty());
            plain(html);
        }
        let search_term = SearchTerm::new(&term, tokens::BODY, &Secrets::default());
        let head = "Content-Type: text/plain; charset=utf-8\r\n\
                    Content-Transfer-Encoding: 8bit\r\n\r\n";
        let raw = format!("{head}{given}\r\n");
        if !search_term.is_empty() && search_term.matches_raw(raw.as_bytes()) {
            prop_assert!(found.is_some(), "{:?} in {:?}", term, given);
        }
    }
}

/// A word of real mail must be marked in the snippet if the filter finds it.
#[test]
fn words_of_the_shared_corpus_are_shown_in_snippets() {
    let Some(folder) = crate::needs::corpus() else { return };
    let entries = fs::read_dir(folder).unwrap();
    let (mut subjects, mut previews) = (0, 0);
    for folder in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|file| file.extension().is_some_and(|kind| kind == "eml")) {
            let raw = fs::read(&file).unwrap();
            let message = Message::parse(&raw);
            let words = |text: &str| {
                let mut words = Vec::new();
                each_word(text, |found| {
                    if !found.in_pair && found.word.chars().count() > 1 {
                        words.push(found.word.to_owned());
                    }
                });
                words
            };
            // The second word of the subject, and the 21st of the texts.
            let of_subject =
                words(&content(&message).subject.unwrap_or_default()).into_iter().nth(1);
            let of_body = message
                .texts(limits::MAX_INDEXED_BYTES)
                .iter()
                .flat_map(|text| words(text))
                .nth(20);
            for (word, field) in [(of_subject, tokens::SUBJECT), (of_body, tokens::BODY)] {
                let Some(word) = word else { continue };
                let found = Finder::new(&text(&word), &Secrets::default()).of_raw(&raw);
                let matches =
                    |field| SearchTerm::new(&word, field, &Secrets::default()).matches_raw(&raw);
                assert_eq!(
                    found.subject.is_some(),
                    matches(tokens::SUBJECT),
                    "{word} in {}",
                    file.display()
                );
                assert_eq!(
                    found.preview.is_some(),
                    matches(tokens::BODY),
                    "{word} in {}",
                    file.display()
                );
                let shown = if field == tokens::SUBJECT { found.subject } else { found.preview };
                let shown = shown.unwrap_or_else(|| panic!("{word} in {}", file.display()));
                assert!(field == tokens::SUBJECT || shown.len() <= limits::MAX_SNIPPET_BYTES);
                for marked in marks(&shown) {
                    assert!(
                        words(&marked).contains(&word),
                        "{marked} for {word} in {}",
                        file.display()
                    );
                }
                if field == tokens::SUBJECT { subjects += 1 } else { previews += 1 }
            }
        }
    }
    // Enough files of the corpus must have such words, or the test would show little.
    assert!(subjects > 300 && previews > 290, "{subjects} subjects, {previews} previews");
}
