//! The subject as threads see it.

use caseless::default_case_fold_str;
use unicode_normalization::UnicodeNormalization;

/// What is left of a subject when everything in square brackets, every leading word before a colon, and all white space
/// are gone; NFKC and case folded first, so that `Ré :`, a fullwidth colon and `回复：` go too.
#[must_use]
pub fn thread_subject(subject: &str) -> String {
    let folded: String = default_case_fold_str(&subject.nfkc().collect::<String>()).nfkc().collect();
    let plain = without_brackets(&folded);
    let mut rest = plain.as_str();
    loop {
        match rest.trim_start().split_once(':') {
            // A leading word: no white space inside, though some mailers put a blank before the colon.
            Some((word, after)) if !word.trim_end().contains(char::is_whitespace) => rest = after,
            _ => break,
        }
    }
    rest.chars().filter(|c| !c.is_whitespace()).collect()
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
    fn replies_and_forwards_have_the_subject_of_what_they_answer() {
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
        // With a copy for each word, this takes minutes.
        assert_eq!(thread_subject(&format!("{}x", "a:".repeat(1_000_000))), "x");
    }
}
