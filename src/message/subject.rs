//! Reduces a subject to what threads compare, and to what a list is sorted by, and tells whether it
//! is that of a reply or of a forwarded message.

use caseless::default_case_fold_str;
use unicode_normalization::UnicodeNormalization;

/// Returns the form in which threads compare subjects: in NFKC and case-folded, without white
/// space, text in square brackets, and words before a colon at the beginning (`Re:`, of any
/// language). A bracket that is not closed stays.
#[must_use]
pub fn thread_subject(subject: &str) -> String {
    let folded: String = if subject.is_ascii() {
        subject.to_ascii_lowercase()
    } else {
        default_case_fold_str(&subject.nfkc().collect::<String>()).nfkc().collect()
    };
    let plain = without_brackets(&folded);
    let mut rest = plain.as_str();
    loop {
        match rest.trim_start().split_once(':') {
            // Some mailers put a blank before the colon.
            Some((word, after)) if !word.trim_end().contains(char::is_whitespace) => rest = after,
            _ => break,
        }
    }
    rest.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Returns the base subject (RFC 5256 §2.1), in NFKC with single spaces, in its own case. Leaders
/// of other languages than English stay, unlike in [`thread_subject`]. Lists are sorted by it.
#[must_use]
pub fn base_subject(subject: &str) -> String {
    reduce(subject).0
}

/// Whether a subject is that of a reply or of a forwarded message, by RFC 5256 §2.1: `base_subject`
/// drops `Re:`, `Fw:`, `Fwd:`, `(fwd)` or `[Fwd: ...]`, and not only other words in square
/// brackets.
#[must_use]
pub fn is_reply_or_forward(subject: &str) -> bool {
    reduce(subject).1
}

/// Returns the base subject, and whether the subject is that of a reply or forwarded message.
fn reduce(subject: &str) -> (String, bool) {
    let wide: String = subject.nfkc().collect();
    let spaced: String = wide.split_whitespace().collect::<Vec<_>>().join(" ");
    let (mut rest, mut is_answer) = (spaced.as_str(), false);
    loop {
        rest = without_trailers(rest, &mut is_answer);
        rest = without_leaders(rest, &mut is_answer);
        match after_word(rest, "[fwd:").and_then(|inner| inner.strip_suffix(']')) {
            Some(inner) => (rest, is_answer) = (inner, true),
            None => return (rest.to_owned(), is_answer),
        }
    }
}

/// Step 2 of RFC 5256 §2.1. Sets `is_answer` if it drops a `(fwd)`.
fn without_trailers<'a>(mut rest: &'a str, is_answer: &mut bool) -> &'a str {
    loop {
        rest = rest.trim_end();
        let start = rest.len().saturating_sub("(fwd)".len());
        match rest.split_at_checked(start) {
            Some((before, last)) if last.eq_ignore_ascii_case("(fwd)") => {
                (rest, *is_answer) = (before, true);
            }
            _ => return rest,
        }
    }
}

/// Steps 3 to 5 of RFC 5256 §2.1, which calls a word in square brackets a blob. Sets `is_answer` if
/// it drops a `Re:`, `Fw:` or `Fwd:`.
fn without_leaders<'a>(mut rest: &'a str, is_answer: &mut bool) -> &'a str {
    loop {
        rest = rest.trim_start();
        // Blobs before a `Re:` are dropped with it, and otherwise as long as a text is left. One
        // walk over the blobs serves both rules, so that many of them take linear time.
        let mut after_last_blob = rest;
        let mut ahead = rest;
        while let Some(next) = after_blob(ahead) {
            if !next.is_empty() {
                after_last_blob = next;
            }
            ahead = next;
        }
        if let Some(next) = after_reply(ahead) {
            (rest, *is_answer) = (next, true);
        } else if after_last_blob.len() < rest.len() {
            rest = after_last_blob;
        } else {
            return rest;
        }
    }
}

/// Returns what follows the blob at the beginning of a text, without white space before it.
fn after_blob(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('[')?;
    let end = inner.find(['[', ']'])?;
    let (_, behind) = inner.split_at_checked(end)?;
    behind.strip_prefix(']').map(str::trim_start)
}

/// Returns what follows a `Re:`, `Fw:` or `Fwd:` at the beginning of a text.
fn after_reply(text: &str) -> Option<&str> {
    let word =
        ["re", "fwd", "fw"].into_iter().find_map(|word| after_word(text, word))?.trim_start();
    after_blob(word).unwrap_or(word).strip_prefix(':')
}

fn after_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, tail) = text.split_at_checked(word.len())?;
    head.eq_ignore_ascii_case(word).then_some(tail)
}

fn without_brackets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        match after.split_once(']') {
            Some((_, behind)) => rest = behind,
            None => {
                out.push('[');
                rest = after;
                break;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_and_forwards_have_the_thread_subject_of_the_original() {
        for subject in [
            "Lunch on Friday",
            "Re: Lunch on Friday",
            "RE: Fwd: lunch  ON friday",
            "[team] Re: [x] Lunch on Friday",
            "Réf : Lunch on Friday",
            "回复：Lunch on Friday",
            "AW:Lunch on\tFriday",
            "Re[2]: Lunch on Friday",
        ] {
            assert_eq!(thread_subject(subject), "lunchonfriday", "{subject}");
        }
        assert_eq!(thread_subject("A note: on: things"), "anote:on:things");
        assert_eq!(thread_subject("Re: "), "");
        assert_eq!(thread_subject("open [bracket"), "open[bracket");
        // If each word cost a copy of the rest, this would take minutes.
        assert_eq!(thread_subject(&format!("{}x", "a:".repeat(1_000_000))), "x");
    }

    #[test]
    fn base_subject_has_no_leaders_trailers_or_blobs() {
        for (subject, wanted) in [
            ("", ""),
            ("Lunch", "Lunch"),
            ("  Lunch \t on\r\n Friday ", "Lunch on Friday"),
            ("Re: Lunch", "Lunch"),
            ("RE:Lunch", "Lunch"),
            ("re : Lunch", "Lunch"),
            ("Fw: Lunch", "Lunch"),
            ("FWD: Lunch", "Lunch"),
            ("Fwd:Re: fw: Lunch", "Lunch"),
            ("Re[2]: Lunch", "Lunch"),
            ("Re [list] : Lunch", "Lunch"),
            ("Re:", ""),
            ("Re: ", ""),
            ("Re", "Re"),
            ("Re Lunch", "Re Lunch"),
            ("Reply: Lunch", "Reply: Lunch"),
            ("Aw: Lunch", "Aw: Lunch"),
            ("Ré: Lunch", "Ré: Lunch"),
            ("Re：Lunch", "Lunch"),
            ("[team] Lunch", "Lunch"),
            ("[team][x] Re: [y] Lunch", "Lunch"),
            ("[team] Re: Lunch", "Lunch"),
            ("Re: [team] Lunch", "Lunch"),
            ("[team]", "[team]"),
            ("[a] [b]", "[b]"),
            ("Re: [a] [b]", "[b]"),
            ("[a] [b] Re:", ""),
            ("[] Lunch", "Lunch"),
            ("[open Lunch", "[open Lunch"),
            ("[a [b] Lunch", "[a [b] Lunch"),
            ("[a] b] Lunch", "b] Lunch"),
            ("Lunch (fwd)", "Lunch"),
            ("Lunch (FWD) (Fwd)  ", "Lunch"),
            ("Lunch(fwd)", "Lunch"),
            ("(fwd)", ""),
            ("Lunch (fwd) now", "Lunch (fwd) now"),
            ("[Fwd: Lunch]", "Lunch"),
            ("[fwd: Re: [team] Lunch (fwd)]", "Lunch"),
            ("[Fwd: [Fwd: Re: Lunch]]", "Lunch"),
            ("Re: [Fwd: [x] Lunch] (fwd)", "Lunch"),
            ("[fwd: Lunch", "[fwd: Lunch"),
            ("Fwd: [Re: Lunch]", "[Re: Lunch]"),
            ("日本語: Re: x", "日本語: Re: x"),
            ("Re: 日本語 (fwd)", "日本語"),
            ("ﬁne", "fine"),
        ] {
            assert_eq!(base_subject(subject), wanted, "{subject}");
        }
    }

    #[test]
    fn base_subject_of_a_hostile_text_takes_linear_time() {
        for (part, end) in [
            ("Re: ", "x"),
            ("[a]", "x"),
            ("[a] Re:", "x"),
            ("[fwd:", "]"),
            ("[", "x"),
            ("[a]", "[b"),
        ] {
            let _base = base_subject(&format!("{}{end}", part.repeat(50_000)));
        }
        assert_eq!(base_subject(&format!("x{}", "(fwd) ".repeat(50_000))), "x");
        assert_eq!(
            base_subject(&format!("{}x{}", "[fwd:".repeat(50_000), "]".repeat(50_000))),
            "x"
        );
    }
}
