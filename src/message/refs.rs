//! Reads message ids, and makes the keys by which threads are found
//! (`docs/storage.md`, "Thread assignment").

use std::collections::VecDeque;

use super::header::Header;
use super::subject::thread_subject;
use crate::model::{Secrets, ThreadKey, limits};

/// Longest id that is written: with the name of its field, it fits into a line of 998 bytes.
const MAX_WRITTEN_BYTES: usize = 900;

/// Returns the ids in the value of a field, in order, without angle brackets.
///
/// - Of more than `limits::MAX_FIELD_ADDRESSES` ids, or in a value of more than
///   `limits::MAX_FIELD_BYTES`, those in the middle are left out.
/// - Text outside of `<...>` is skipped. A value without any bracket counts as an id if it is one
///   word with an `@`, and has none of `( ) , ; "`.
/// - Controls, and blanks outside of quotes, are removed.
/// - An id that is empty or longer than `limits::MAX_MESSAGE_ID_BYTES` is skipped.
#[must_use]
pub fn message_ids(value: &[u8]) -> Vec<String> {
    let mut found = Ends::new(limits::MAX_FIELD_ADDRESSES);
    let half = limits::MAX_FIELD_BYTES / 2;
    if value.len() > limits::MAX_FIELD_BYTES {
        let tail = value.get(value.len().saturating_sub(half)..).unwrap_or_default();
        let tail = tail.get(memchr::memchr(b'<', tail).unwrap_or(tail.len())..).unwrap_or_default();
        bracketed(&String::from_utf8_lossy(value.get(..half).unwrap_or_default()), &mut found);
        bracketed(&String::from_utf8_lossy(tail), &mut found);
        return found.finish();
    }
    let text = String::from_utf8_lossy(value);
    bracketed(&text, &mut found);
    let mut out = found.finish();
    let bare = text.trim();
    if out.is_empty() && !bare.is_empty() && bare.len() <= limits::MAX_MESSAGE_ID_BYTES {
        let word =
            !bare.contains(|c: char| c.is_whitespace() || c.is_control() || "<>(),;\"".contains(c));
        if word && bare.contains('@') {
            out.push(bare.to_owned());
        }
    }
    out
}

fn bracketed(text: &str, found: &mut Ends) {
    let (mut rest, mut attempts) = (text, limits::MAX_UNCLOSED_QUOTES);
    while let Some((_, after)) = rest.split_once('<') {
        let Some((id, behind)) = quoted_id(after, &mut attempts).or_else(|| unquoted_id(after))
        else {
            break;
        };
        rest = behind;
        if !id.is_empty() && id.len() <= limits::MAX_MESSAGE_ID_BYTES {
            found.push(id);
        }
    }
}

/// Reads an id after its opening bracket; returns it with the text after it. If several brackets
/// are open, the id begins at the last one.
fn unquoted_id(text: &str) -> Option<(String, &str)> {
    let (id, behind) = text.split_once('>')?;
    let id = id.rsplit('<').next().unwrap_or(id);
    Some((id.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect(), behind))
}

/// As `unquoted_id`, for an id with a quoted string (RFC 5322 §4.5.4 obs-id-left), which may hold
/// blanks and brackets. `None` if the id has no quotes, or no attempts are left. The end of the id
/// is looked for in twice the bytes of the longest id. If it is not there, the result is `None`,
/// and this uses up one of the attempts, since the next may walk over the same bytes again.
fn quoted_id<'t>(text: &'t str, attempts: &mut usize) -> Option<(String, &'t str)> {
    let near = text.get(..text.floor_char_boundary(2 * limits::MAX_MESSAGE_ID_BYTES))?;
    if *attempts == 0 || !near.split('>').next()?.contains('"') {
        return None;
    }
    let (mut id, mut is_quoted) = (String::new(), false);
    let mut chars = near.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if is_quoted => id.extend([c].into_iter().chain(chars.next().map(|(_, c)| c))),
            '>' if !is_quoted => return Some((id, text.get(at.saturating_add(1)..)?)),
            '<' if !is_quoted => id.clear(),
            c if c.is_control() || (c.is_whitespace() && !is_quoted) => {}
            c => {
                is_quoted ^= c == '"';
                id.push(c);
            }
        }
    }
    *attempts = attempts.saturating_sub(1);
    None
}

/// Whether an id can be written between angle brackets as RFC 5322 §3.6.4 has it, and in a line of
/// 998 bytes (§2.1.1).
pub(super) fn is_writable(id: &str) -> bool {
    (1..=MAX_WRITTEN_BYTES).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>".contains(&byte))
}

/// Returns those ids of other messages that can be written into In-Reply-To or References. Left out
/// are ids that `message_ids` returns although they cannot be written: ids that are not ASCII (RFC
/// 6532 §3.3), too long, or have blanks or brackets in quotes (RFC 5322 §4.5.4). Of more than
/// `limits::MAX_FIELD_ADDRESSES`, those in the middle are left out. Texts that are no ids stay.
#[must_use]
pub fn writable(ids: Vec<String>) -> Vec<String> {
    let mut kept = Ends::new(limits::MAX_FIELD_ADDRESSES);
    let was_read = |id: &str| message_ids(format!("<{id}>").as_bytes()) == [id];
    ids.into_iter().filter(|id| is_writable(id) || !was_read(id)).for_each(|id| kept.push(id));
    kept.finish()
}

/// Returns the ids of Message-ID, In-Reply-To and References, each once; of more than
/// `limits::MAX_THREADING_IDS` the first and the last.
#[must_use]
pub fn ids(header: &Header<'_>) -> Vec<String> {
    let mut all = Ends::new(limits::MAX_THREADING_IDS);
    for field in header.fields() {
        if field.is("Message-ID") || field.is("In-Reply-To") || field.is("References") {
            for id in message_ids(field.value) {
                if !all.contains(&id) {
                    all.push(id);
                }
            }
        }
    }
    all.finish()
}

/// The first and the last items of a list, at most `max` in all.
struct Ends {
    half: usize,
    first: Vec<String>,
    last: VecDeque<String>,
}

impl Ends {
    fn new(max: usize) -> Self {
        Self { half: max / 2, first: Vec::new(), last: VecDeque::new() }
    }

    fn contains(&self, id: &String) -> bool {
        self.first.contains(id) || self.last.contains(id)
    }

    fn push(&mut self, id: String) {
        if self.first.len() < self.half {
            self.first.push(id);
            return;
        }
        if self.last.len() >= self.half {
            self.last.pop_front();
        }
        self.last.push_back(id);
    }

    fn finish(mut self) -> Vec<String> {
        self.first.extend(self.last);
        self.first
    }
}

/// Returns a key for each id together with the subject: 16 bytes of the keyed hash of the id, and
/// 16 of that of the `thread_subject`. Equal keys are returned once.
#[must_use]
pub fn thread_keys(ids: &[String], subject: &str, secrets: &Secrets) -> Vec<ThreadKey> {
    let subject = keyed(&secrets.threads, b"subject", thread_subject(subject).as_bytes());
    let mut keys = Vec::with_capacity(ids.len());
    for id in ids {
        let mut key = [0u8; 32];
        let parts =
            keyed(&secrets.threads, b"message id", id.as_bytes()).into_iter().chain(subject);
        key.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        if !keys.contains(&ThreadKey(key)) {
            keys.push(ThreadKey(key));
        }
    }
    keys
}

fn keyed(key: &[u8; 32], context: &[u8], value: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(context);
    hasher.update(&[0]);
    hasher.update(value);
    let mut out = [0u8; 16];
    hasher.finalize_xof().fill(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn message_ids_are_parsed_in_every_form() {
        for (value, wanted) in [
            ("<a@b>", vec!["a@b"]),
            (" <a@b>\r\n\t<c@d>junk<e@f>\r\n", vec!["a@b", "c@d", "e@f"]),
            ("<a@\r\n b>", vec!["a@b"]),
            ("a@b", vec!["a@b"]),
            ("message of Tue from \"x\"", vec![]),
            ("<broken <a@b>", vec!["a@b"]),
            ("<\"a b\"@x> <\"c>\\\"d\" @\r\n x> <e@x>", vec!["\"a b\"@x", "\"c>\\\"d\"@x", "e@x"]),
            ("<\"open@x> <b@x>", vec!["\"open@x", "b@x"]),
            ("<>", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(message_ids(value.as_bytes()), wanted, "{value}");
        }
        assert!(message_ids(format!("<{}>", "x".repeat(2000)).as_bytes()).is_empty());
    }

    #[test]
    fn long_list_of_ids_is_cut_in_the_middle() {
        let many: String = (0..500).map(|n| format!("<{n}@x> ")).collect();
        let ids = ids(&Header::split(
            format!("Message-ID: <own@x>\r\nReferences: {many}\r\n\r\n").as_bytes(),
        ));
        assert_eq!(ids.len(), limits::MAX_THREADING_IDS);
        assert_eq!((ids[0].as_str(), ids.last().map(String::as_str)), ("own@x", Some("499@x")));
    }

    /// If the work grew with the square of the ids, this header would take minutes.
    #[test]
    fn many_ids_take_linear_time() {
        let many: String = (0..300_000).map(|n| format!("<{n}>")).collect();
        let raw = format!("References: {many}\r\nReferences: {many}\r\n\r\n");
        assert_eq!(ids(&Header::split(raw.as_bytes())).len(), limits::MAX_THREADING_IDS);
        let found = message_ids(many.as_bytes());
        assert_eq!(
            (found.len(), found.last().map(String::as_str)),
            (limits::MAX_FIELD_ADDRESSES, Some("299999"))
        );
        for part in ["<", "<\"", "<\"a> ", "<a\\", "<\"\\\">"] {
            assert!(
                message_ids(part.repeat(100_000).as_bytes()).len() <= limits::MAX_FIELD_ADDRESSES
            );
        }
    }

    /// Regression test: each bracket walked over the next 1,996 bytes to find the end of its
    /// quotes.
    #[test]
    fn unclosed_quotes_are_tried_a_bounded_number_of_times() {
        // Each unit is an id whose quotes do not close. Once all attempts are used up, the blank in
        // the quotes of the last id is removed.
        let unit = "<\"\\\">";
        for (count, last) in [
            (limits::MAX_UNCLOSED_QUOTES - 1, "\"a b\"@x"),
            (limits::MAX_UNCLOSED_QUOTES, "\"ab\"@x"),
        ] {
            let value = format!("{} <\"a b\"@x>", unit.repeat(count));
            let ids = message_ids(value.as_bytes());
            assert_eq!((ids.len(), ids.last().map(String::as_str)), (count + 1, Some(last)));
        }
        let mut attempts = 3;
        assert!(quoted_id("\"open@x> <b@x>", &mut attempts).is_none() && attempts == 2);
        assert!(quoted_id("b@x>", &mut attempts).is_none() && attempts == 2);
        assert!(quoted_id("\"b\"@x>", &mut attempts).is_some() && attempts == 2);
    }

    #[test]
    fn thread_key_depends_on_id_subject_and_secret() {
        let ids = vec!["a@b".to_owned()];
        let (secrets, other_secrets) =
            (Secrets::default(), Secrets { threads: [1; 32], ..Secrets::default() });
        let key = thread_keys(&ids, "Re: Lunch", &secrets);
        assert_eq!(key, thread_keys(&ids, "lunch", &secrets));
        assert_ne!(key, thread_keys(&ids, "Dinner", &secrets));
        assert_ne!(key, thread_keys(&ids, "lunch", &other_secrets));
        assert!(thread_keys(&[], "lunch", &secrets).is_empty());
    }

    #[test]
    fn texts_that_are_no_ids_are_not_left_out() {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<String>>();
        let long = "x".repeat(limits::MAX_MESSAGE_ID_BYTES);
        let left_out = ids(&["j\u{fc}rgen@x", "caf\u{fffd}@x", "\"a b\"@x", "\"a>b\"@x", &long]);
        assert!(writable(left_out).is_empty());
        let kept = ids(&["a@x", "a b@x", "<b@x>", "", "a@x\r\nBcc: b", &format!("{long}x")]);
        assert_eq!(writable(kept.clone()), kept);
    }

    proptest! {
        /// A client may give the ids back that it was given.
        #[test]
        fn any_ids_that_are_read_can_be_written_or_are_left_out(
            value in "([<> a@x\"\\\\]|\u{fc}|\t|\u{85}|<a@x>|<\"| b\"@x>|x{901}){0,40}",
        ) {
            let kept = writable(message_ids(value.as_bytes()));
            prop_assert!(kept.iter().all(|id| is_writable(id)), "{:?}", kept);
        }
    }
}
