//! Converts the paths of mailboxes to names of folders, and back.
//!
//! - A name that is written is a single component of a path: it has no `/`, no NUL and no control
//!   characters, is neither `.` nor `..`, and fits into 255 bytes. No two mailboxes of an account
//!   have the same folder.
//! - A name that would be too long is cut, and ends in `~` and a hash. Path and role of a mailbox
//!   are also in a card, a small file in JSON, so that they can be restored exactly.
//! - Names that are read may have any bytes.
//! - In a Maildir++, the folder of each mailbox is in the Maildir, whatever its depth, and has the
//!   whole path as its name, in modified UTF-7: `.Lists.rust`. The Inbox is the Maildir itself. The
//!   escape is `\` and two hex digits (Dovecot's listescape).
//! - In trees, folders are in folders, and the escape is `%` and two hex digits.

use serde_json::{Value, json};
use unicode_normalization::UnicodeNormalization as _;

use super::utf7;
use crate::model::hex::hex_byte;
use crate::model::{Role, limits};

/// The 255 bytes of a name, less room for the extensions that an export appends, such as
/// `.mbox.part`.
const MAX_NAME_BYTES: usize = 220;
/// The name of the Inbox, in upper or lower case (RFC 9051 §5.1).
const INBOX: &str = "inbox";
/// A larger card is not read.
pub const MAX_CARD_BYTES: usize = 64 * 1024;

/// The path of a mailbox from the top or from the Inbox. The Inbox itself is the empty path from
/// the Inbox. The empty path from the top is no mailbox.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MailboxPath {
    /// Whether the mailbox is the Inbox, or below it.
    pub inbox: bool,
    /// The names, outermost first.
    pub names: Vec<String>,
}

impl MailboxPath {
    /// Returns the path of the Inbox itself.
    #[must_use]
    pub fn inbox() -> Self {
        Self { inbox: true, names: Vec::new() }
    }

    /// Returns the path with these names, the outermost first. The first may be that of the Inbox.
    #[must_use]
    pub fn of(names: Vec<String>) -> Self {
        let inbox = names.first().is_some_and(|name| name.eq_ignore_ascii_case(INBOX));
        Self { inbox, names: names.into_iter().skip(usize::from(inbox)).collect() }
    }

    /// Returns the path of a mailbox of another tree if that tree is put below this mailbox. The
    /// other tree's Inbox becomes this mailbox itself.
    #[must_use]
    pub fn join(&self, below: &Self) -> Self {
        Self { inbox: self.inbox, names: self.names.iter().chain(&below.names).cloned().collect() }
    }

    /// Returns the path with `/` between the names. A name may itself have a `/`.
    #[must_use]
    pub fn path(&self) -> String {
        let inbox = self.inbox.then_some("Inbox");
        inbox.into_iter().chain(self.names.iter().map(String::as_str)).collect::<Vec<_>>().join("/")
    }

    /// Returns the name of the folder in a Maildir++; `None` is the Maildir itself.
    #[must_use]
    pub fn maildir(&self) -> Option<String> {
        let head = self.inbox.then(|| "INBOX".to_owned());
        let names = self.names.iter().enumerate().map(|(at, name)| {
            let special = |c: char| matches!(c, '.' | '/' | '\\' | '~');
            utf7::encode(&escape(name, '\\', self.must_differ_from_inbox(at, name), special))
        });
        let whole: String =
            head.into_iter().chain(names).flat_map(|name| [".".to_owned(), name]).collect();
        (!self.names.is_empty()).then(|| cut(&whole, self))
    }

    /// Reads the name of a Maildir++ folder, with its first dot. `None` if it has no such dot, or a
    /// mailbox cannot have one of its names.
    #[must_use]
    pub fn of_maildir(folder: &[u8]) -> Option<Self> {
        let names = folder.strip_prefix(b".")?.split(|byte| *byte == b'.');
        let text = |bytes| {
            utf7::decode(bytes).unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned())
        };
        Self::unescaped(&names.map(text).collect::<Vec<String>>(), '\\')
    }

    /// Returns the names of the folders in a tree, the outermost first.
    #[must_use]
    pub fn tree(&self) -> Vec<String> {
        let head = self.inbox.then(|| "Inbox".to_owned());
        let names = self.names.iter().enumerate().map(|(at, name)| {
            let special = |c: char| matches!(c, '/' | '\\' | '%' | '~' | ':') || c.is_control();
            // Unescaped, the name would be taken for the Inbox, be hidden, or be `.` or `..`.
            let first = self.must_differ_from_inbox(at, name) || name.starts_with('.');
            let path_so_far = Self {
                inbox: self.inbox,
                names: self.names.iter().take(at + 1).cloned().collect(),
            };
            let name = escape(name, '%', first, special);
            // An import takes these extensions for those of other programs.
            let has_extension = [".mbox", ".sbd", ".eml"]
                .iter()
                .any(|end| name.to_ascii_lowercase().ends_with(end));
            cut(&if has_extension { name.replace('.', "%2E") } else { name }, &path_so_far)
        });
        head.into_iter().chain(names).collect()
    }

    /// Reads the names of folders in a tree, the outermost first; `None` if a mailbox cannot have
    /// one of them.
    #[must_use]
    pub fn of_tree(folders: &[Vec<u8>]) -> Option<Self> {
        let names = folders.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        Self::unescaped(&names.collect::<Vec<String>>(), '%')
    }

    /// Returns the path with these written names, or `None` if a mailbox cannot have one of them. A
    /// name that was escaped is not that of the Inbox.
    fn unescaped(written: &[String], mark: char) -> Option<Self> {
        let inbox = written.first().is_some_and(|name| name.eq_ignore_ascii_case(INBOX));
        let names =
            written.iter().skip(usize::from(inbox)).map(|name| valid_name(&unescape(name, mark)));
        names.collect::<Option<Vec<String>>>().map(|names| Self { inbox, names })
    }

    /// Returns the card, from which path and role can be restored exactly.
    #[must_use]
    pub fn card(&self, role: Option<Role>) -> String {
        json!({"inbox": self.inbox, "mailbox": self.names, "role": role.map(Role::name)})
            .to_string()
            + "\n"
    }

    /// Reads a card; `None` if it is malformed or too large, or names no mailbox. A role that is
    /// not known is left out.
    #[must_use]
    pub fn of_card(bytes: &[u8]) -> Option<(Self, Option<Role>)> {
        if bytes.len() > MAX_CARD_BYTES {
            return None;
        }
        let card: Value = serde_json::from_slice(bytes).ok()?;
        let names = card.get("mailbox")?.as_array()?.iter();
        let names =
            names.map(|name| valid_name(name.as_str()?)).collect::<Option<Vec<String>>>()?;
        let place = Self { inbox: card.get("inbox")?.as_bool()?, names };
        let is_valid = place.inbox || !place.names.is_empty();
        is_valid
            .then(|| (place, card.get("role").and_then(Value::as_str).and_then(Role::from_name)))
    }

    /// Whether the name at this depth is that of the Inbox, although the mailbox is another one.
    fn must_differ_from_inbox(&self, at: usize, name: &str) -> bool {
        at == 0 && !self.inbox && name.eq_ignore_ascii_case(INBOX)
    }
}

/// Converts a name to one that a mailbox can have, in NFC. Returns `None` if it is empty or too
/// long.
fn valid_name(name: &str) -> Option<String> {
    let name: String = name.nfc().map(|c| if c.is_control() { '_' } else { c }).collect();
    (1..=limits::MAX_MAILBOX_NAME_BYTES).contains(&name.len()).then_some(name)
}

/// Writes each `special` ASCII character as the mark and two hex digits; with `first`, also the
/// first character, if it is ASCII. Other control characters become `_`.
fn escape(name: &str, mark: char, first: bool, special: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(name.len());
    for (at, c) in name.chars().enumerate() {
        match u8::try_from(c) {
            Ok(byte) if byte.is_ascii() && (special(c) || (first && at == 0)) => {
                out.push_str(&format!("{mark}{byte:02x}"));
            }
            // A control character that is not special, or not ASCII.
            _ if c.is_control() => out.push('_'),
            _ => out.push(c),
        }
    }
    out
}

/// Replaces escapes. A mark without two hex digits of a printable character is unchanged.
fn unescape(text: &str, mark: char) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(mark) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let digits = after.as_bytes().get(1..).and_then(|rest| rest.first_chunk::<2>());
        let byte = digits.and_then(|digits| hex_byte(*digits));
        match byte.filter(|byte| matches!(byte, 0x20..=0x7e)) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                out.push(mark);
                rest = after.get(mark.len_utf8()..).unwrap_or_default();
            }
        }
    }
    out + rest
}

/// Cuts a name that is too long, and appends `~`, which is escaped in other names, and a hash of
/// the path.
fn cut(name: &str, place: &MailboxPath) -> String {
    if name.len() <= MAX_NAME_BYTES {
        return name.to_owned();
    }
    let hash = blake3::hash(place.card(None).as_bytes()).to_hex();
    // `~` and 32 hex digits.
    let max_kept = MAX_NAME_BYTES - 33;
    let end = (0..=max_kept).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    format!("{}~{}", name.get(..end).unwrap_or_default(), hash.get(..32).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(path: &[&str]) -> MailboxPath {
        MailboxPath::of(path.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn folders_have_the_names_of_dovecot_in_a_maildir_and_own_ones_in_a_tree() {
        for (path, maildir, tree) in [
            (&["Lists", "rust"][..], Some(".Lists.rust"), "Lists/rust"),
            (&["Entwürfe"], Some(".Entw&APw-rfe"), "Entwürfe"),
            (&["INBOX"], None, "Inbox"),
            (&["inbox", "Sub"], Some(".INBOX.Sub"), "Inbox/Sub"),
            (&["a.b/c\\"], Some(".a\\2eb\\2fc\\5c"), "a.b%2fc%5c"),
            (&["..", "."], Some(".\\2e\\2e.\\2e"), "%2e./%2e"),
            (&["~x", "100%"], Some(".\\7ex.100%"), "%7ex/100%25"),
            (&["old.mbox", "x.EML"], Some(".old\\2embox.x\\2eEML"), "old%2Embox/x%2EEML"),
        ] {
            let place = place(path);
            assert_eq!(place.maildir().as_deref(), maildir);
            assert_eq!(place.tree().join("/"), tree);
        }
        let stranger = MailboxPath { inbox: false, names: vec!["Inbox".into()] };
        assert_eq!(stranger.maildir().as_deref(), Some(".\\49nbox"));
        assert_eq!(MailboxPath::of_maildir(b".\\49nbox"), Some(stranger));
        for none in [&b"x"[..], b".", b"..", b".a..b", b".a.", b"."] {
            assert_eq!(MailboxPath::of_maildir(none), None, "{}", none.escape_ascii());
        }
        // Names that other programs wrote: raw UTF-8, invalid UTF-8, a mark that escapes nothing.
        for (folder, path) in [
            (&b".Entw\xc3\xbcrfe"[..], "Entwürfe"),
            (b".a\xff\n", "a\u{fffd}_"),
            (b".a\\x", "a\\x"),
        ] {
            assert_eq!(
                MailboxPath::of_maildir(folder).map(|place| place.path()).as_deref(),
                Some(path)
            );
        }
    }

    #[test]
    fn paths_are_joined() {
        assert_eq!(place(&["Old"]).join(&place(&["a", "b"])).path(), "Old/a/b");
        assert_eq!(place(&["Old"]).join(&MailboxPath::inbox()).path(), "Old");
        assert_eq!(MailboxPath::inbox().join(&place(&["a"])).path(), "Inbox/a");
    }

    #[test]
    fn cards_are_read_up_to_a_limit() {
        let (known, role) =
            MailboxPath::of_card(place(&["A", "b"]).card(Some(Role::Archive)).as_bytes()).unwrap();
        assert_eq!((known.path().as_str(), role), ("A/b", Some(Role::Archive)));
        // JSON may have blanks after it.
        let card_of_length = |length: usize| {
            let card = "{\"inbox\":true,\"mailbox\":[]}";
            format!("{card}{}", " ".repeat(length - card.len()))
        };
        let largest = card_of_length(MAX_CARD_BYTES);
        let (known, _) = MailboxPath::of_card(largest.as_bytes()).unwrap();
        assert_eq!(known, MailboxPath::inbox());
        let large = card_of_length(MAX_CARD_BYTES + 1);
        for none in [
            "",
            "{}",
            "[]",
            "{\"inbox\":false,\"mailbox\":[]}",
            "{\"inbox\":true,\"mailbox\":[\"\"]}",
            &large,
        ] {
            assert!(MailboxPath::of_card(none.as_bytes()).is_none(), "{none:.40}");
        }
    }

    fn is_safe(name: &str) -> bool {
        let fits = (1..=255 - ".mbox.part".len()).contains(&name.len());
        fits && name != "."
            && name != ".."
            && !name.contains('/')
            && !name.chars().any(char::is_control)
    }

    fn hostile() -> impl Strategy<Value = MailboxPath> {
        let name = prop_oneof![
            "\\PC{1,30}",
            "[./\\\\%~&: ]{1,5}",
            "[a-b.~]{1,3}",
            "(?i:inbox)",
            "\\PC{50,60}",
            Just("\u{10ffff}".repeat(60)),
            Just("..".to_owned()),
        ];
        let names = proptest::collection::vec(
            name.prop_filter_map("a mailbox's name", |name| valid_name(&name)),
            1..6,
        );
        (any::<bool>(), names).prop_map(|(inbox, names)| MailboxPath { inbox, names })
    }

    proptest! {
        #[test]
        fn names_are_single_components_and_paths_are_read_again(
            one in hostile(),
            other in hostile(),
        ) {
            let maildir = one.maildir().unwrap();
            prop_assert!(is_safe(&maildir) && maildir.starts_with('.'), "{maildir}");
            prop_assert!(maildir.is_ascii(), "{maildir}");
            if !maildir.contains('~') {
                let read = MailboxPath::of_maildir(maildir.as_bytes());
                prop_assert_eq!(read.as_ref(), Some(&one));
            }
            let tree = one.tree();
            let are_safe = tree.iter().all(|name| is_safe(name) && !name.starts_with('.'));
            prop_assert!(are_safe, "{tree:?}");
            if !tree.iter().any(|name| name.contains('~')) {
                let names = tree.iter().map(|name| name.clone().into_bytes());
                let read = MailboxPath::of_tree(&names.collect::<Vec<_>>());
                prop_assert_eq!(read.map(|place| place.names), Some(one.names.clone()));
            }
            let card = MailboxPath::of_card(one.card(None).as_bytes());
            prop_assert_eq!(card, Some((one.clone(), None)));
            if one != other {
                prop_assert_ne!(one.maildir(), other.maildir());
                prop_assert_ne!(one.tree(), other.tree());
            }
        }

        #[test]
        fn names_of_any_bytes_give_valid_paths_or_none(
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let places = [MailboxPath::of_maildir(&bytes), MailboxPath::of_tree(&[bytes])];
            for place in places.into_iter().flatten() {
                let is_valid = |name: &String| valid_name(name).as_ref() == Some(name);
                prop_assert!(place.names.iter().all(is_valid), "{place:?}");
            }
        }
    }
}
