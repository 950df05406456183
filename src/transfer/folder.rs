//! Names of folders: a mailbox's place to a name on a disk, and back.
//!
//! What must hold, for any place: the name is one component of a path (no `/`, no NUL, neither `.`
//! nor `..`), prints, fits into 255 octets, and no other place of the account has it. A name that
//! would be too long is cut and ends in `~` and a hash; its place stands in the card beside it, as
//! every place and role do. From outside come any octets.
//!
//! In Maildir++ all folders lie in one: `.Lists.rust`, in modified UTF-7, the Inbox being the
//! whole; `\` and two hex digits stand for what a name may not hold there (Dovecot's listescape).
//! In trees, folders lie in folders, `%` being the escape.

use serde_json::{Value, json};
use unicode_normalization::UnicodeNormalization as _;

use super::utf7;
use crate::model::hex::hex_byte;
use crate::model::{Role, limits};

/// Octets of a name on a disk before it is cut: 255, less what else is written before and behind
/// it.
const MAX_NAME_BYTES: usize = 220;
/// What the Inbox is called, in any case (RFC 9051 §5.1).
const INBOX: &str = "inbox";
/// Octets of a card.
pub const MAX_CARD_BYTES: usize = 64 * 1024;

/// A mailbox by its way from the top, or from the Inbox: the Inbox itself is the empty way from the
/// Inbox.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MailboxPath {
    /// Whether it is the Inbox, or lies under it.
    pub inbox: bool,
    /// The names, outermost first.
    pub names: Vec<String>,
}

impl MailboxPath {
    #[must_use]
    pub fn inbox() -> Self {
        Self { inbox: true, names: Vec::new() }
    }

    /// The place that names lead to; the first may be the Inbox.
    #[must_use]
    pub fn of(names: Vec<String>) -> Self {
        let inbox = names.first().is_some_and(|name| name.eq_ignore_ascii_case(INBOX));
        Self { inbox, names: names.into_iter().skip(usize::from(inbox)).collect() }
    }

    /// The place below this one that another is below the top; the Inbox of that other is this one.
    #[must_use]
    pub fn with(&self, below: &Self) -> Self {
        Self { inbox: self.inbox, names: self.names.iter().chain(&below.names).cloned().collect() }
    }

    /// As people read it.
    #[must_use]
    pub fn path(&self) -> String {
        let inbox = self.inbox.then_some("Inbox");
        inbox.into_iter().chain(self.names.iter().map(String::as_str)).collect::<Vec<_>>().join("/")
    }

    /// Its folder in a Maildir++; `None` is the Maildir itself.
    #[must_use]
    pub fn maildir(&self) -> Option<String> {
        let head = self.inbox.then(|| "INBOX".to_owned());
        let names = self.names.iter().enumerate().map(|(at, name)| {
            let special = |c: char| matches!(c, '.' | '/' | '\\' | '~');
            utf7::encode(&escape(name, '\\', self.is_no_inbox(at, name), special))
        });
        let whole: String =
            head.into_iter().chain(names).flat_map(|name| [".".to_owned(), name]).collect();
        (!self.names.is_empty()).then(|| cut(&whole, self))
    }

    /// The place of a Maildir++ folder, whose name begins with a dot; `None` where it is none.
    #[must_use]
    pub fn of_maildir(folder: &[u8]) -> Option<Self> {
        let names = folder.strip_prefix(b".")?.split(|octet| *octet == b'.');
        let text = |octets| {
            utf7::decode(octets).unwrap_or_else(|| String::from_utf8_lossy(octets).into_owned())
        };
        Self::unescaped(&names.map(text).collect::<Vec<String>>(), '\\')
    }

    /// Its folders in a tree, outermost first.
    #[must_use]
    pub fn tree(&self) -> Vec<String> {
        let head = self.inbox.then(|| "Inbox".to_owned());
        let names = self.names.iter().enumerate().map(|(at, name)| {
            let special = |c: char| matches!(c, '/' | '\\' | '%' | '~' | ':') || c.is_control();
            let first = self.is_no_inbox(at, name) || name.starts_with('.');
            let upto = Self {
                inbox: self.inbox,
                names: self.names.iter().take(at + 1).cloned().collect(),
            };
            // No folder of ours ends like those of others, which are read otherwise.
            let name = escape(name, '%', first, special);
            let kin = [".mbox", ".sbd", ".eml"]
                .iter()
                .any(|end| name.to_ascii_lowercase().ends_with(end));
            cut(&if kin { name.replace('.', "%2E") } else { name }, &upto)
        });
        head.into_iter().chain(names).collect()
    }

    /// The place of folders in a tree; `None` where a name is none.
    #[must_use]
    pub fn of_tree(folders: &[Vec<u8>]) -> Option<Self> {
        let names = folders.iter().map(|octets| String::from_utf8_lossy(octets).into_owned());
        Self::unescaped(&names.collect::<Vec<String>>(), '%')
    }

    /// The place of names as they stand on a disk: a name that was escaped is not the Inbox.
    fn unescaped(written: &[String], mark: char) -> Option<Self> {
        let inbox = written.first().is_some_and(|name| name.eq_ignore_ascii_case(INBOX));
        let names =
            written.iter().skip(usize::from(inbox)).map(|name| sound(&unescape(name, mark)));
        names.collect::<Option<Vec<String>>>().map(|names| Self { inbox, names })
    }

    /// What lies beside the mail of a mailbox, so that place and role come back exactly.
    #[must_use]
    pub fn card(&self, role: Option<Role>) -> String {
        json!({"inbox": self.inbox, "mailbox": self.names, "role": role.map(Role::name)})
            .to_string()
            + "\n"
    }

    /// Place and role of a card; `None` where it is none.
    #[must_use]
    pub fn of_card(octets: &[u8]) -> Option<(Self, Option<Role>)> {
        let octets = octets.get(..MAX_CARD_BYTES).map_or(octets, |_| &[]);
        let card: Value = serde_json::from_slice(octets).ok()?;
        let names = card.get("mailbox")?.as_array()?.iter();
        let names = names.map(|name| sound(name.as_str()?)).collect::<Option<Vec<String>>>()?;
        let place = Self { inbox: card.get("inbox")?.as_bool()?, names };
        let known = place.inbox || !place.names.is_empty();
        known.then(|| (place, card.get("role").and_then(Value::as_str).and_then(Role::from_name)))
    }

    /// Whether the name at that depth would be taken for the Inbox, and is not.
    fn is_no_inbox(&self, at: usize, name: &str) -> bool {
        at == 0 && !self.inbox && name.eq_ignore_ascii_case(INBOX)
    }
}

/// A name as a mailbox may have it: NFC, without controls; `None` where nothing is left, or too
/// much.
fn sound(name: &str) -> Option<String> {
    let name: String = name.nfc().map(|c| if c.is_control() { '_' } else { c }).collect();
    (1..=limits::MAX_MAILBOX_NAME_BYTES).contains(&name.len()).then_some(name)
}

/// Writes what is special as the mark and two hex digits; where `first`, the first character too.
fn escape(name: &str, mark: char, first: bool, special: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(name.len());
    for (at, c) in name.chars().enumerate() {
        match u8::try_from(c) {
            Ok(octet) if octet.is_ascii() && (special(c) || (first && at == 0)) => {
                out.push_str(&format!("{mark}{octet:02x}"));
            }
            // Controls beyond ASCII are none of the two digits: no mailbox has them.
            _ if c.is_control() => out.push('_'),
            _ => out.push(c),
        }
    }
    out
}

/// And back; a mark without two hex digits of a printing character stands for itself.
fn unescape(text: &str, mark: char) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(mark) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let digits = after.as_bytes().get(1..).and_then(|rest| rest.first_chunk::<2>());
        let octet = digits.and_then(|digits| hex_byte(*digits));
        match octet.filter(|octet| matches!(octet, 0x20..=0x7e)) {
            Some(octet) => {
                out.push(char::from(octet));
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

/// A name that fits: its beginning, `~`, which stands in no other, and what tells it from its like.
fn cut(name: &str, place: &MailboxPath) -> String {
    if name.len() <= MAX_NAME_BYTES {
        return name.to_owned();
    }
    let hash = blake3::hash(place.card(None).as_bytes()).to_hex();
    let keep = MAX_NAME_BYTES - 33;
    let end = (0..=keep).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
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
    fn folders_as_dovecot_has_them() {
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
        // Names of others: raw UTF-8, octets that are none, a mark that escapes nothing.
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
    fn places_below_others() {
        assert_eq!(place(&["Old"]).with(&place(&["a", "b"])).path(), "Old/a/b");
        assert_eq!(place(&["Old"]).with(&MailboxPath::inbox()).path(), "Old");
        assert_eq!(MailboxPath::inbox().with(&place(&["a"])).path(), "Inbox/a");
    }

    #[test]
    fn cards_are_bounded() {
        let (known, role) =
            MailboxPath::of_card(place(&["A", "b"]).card(Some(Role::Archive)).as_bytes()).unwrap();
        assert_eq!((known.path().as_str(), role), ("A/b", Some(Role::Archive)));
        let large = format!("{{\"inbox\":true,\"mailbox\":[]}}{}", " ".repeat(MAX_CARD_BYTES));
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

    /// Whether it is one component of a path, and nothing else.
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
            name.prop_filter_map("a mailbox's name", |name| sound(&name)),
            1..6,
        );
        (any::<bool>(), names).prop_map(|(inbox, names)| MailboxPath { inbox, names })
    }

    proptest! {
        #[test]
        fn no_name_leads_out_and_every_place_comes_back(one in hostile(), other in hostile()) {
            let maildir = one.maildir().unwrap();
            prop_assert!(is_safe(&maildir) && maildir.starts_with('.') && maildir.is_ascii(), "{maildir}");
            if !maildir.contains('~') {
                prop_assert_eq!(MailboxPath::of_maildir(maildir.as_bytes()).map(|place| place.names), Some(one.names.clone()));
                prop_assert_eq!(MailboxPath::of_maildir(maildir.as_bytes()).map(|place| place.inbox), Some(one.inbox));
            }
            let tree = one.tree();
            prop_assert!(tree.iter().all(|name| is_safe(name) && !name.starts_with('.')), "{tree:?}");
            if !tree.iter().any(|name| name.contains('~')) {
                let octets: Vec<Vec<u8>> = tree.iter().map(|name| name.clone().into_bytes()).collect();
                prop_assert_eq!(MailboxPath::of_tree(&octets).map(|place| place.names), Some(one.names.clone()));
            }
            prop_assert_eq!(MailboxPath::of_card(one.card(None).as_bytes()), Some((one.clone(), None)));
            if one != other {
                prop_assert_ne!(one.maildir(), other.maildir());
                prop_assert_ne!(one.tree(), other.tree());
            }
        }

        #[test]
        fn any_folder_is_a_place_or_none(octets in proptest::collection::vec(any::<u8>(), 0..40)) {
            for place in MailboxPath::of_maildir(&octets).into_iter().chain(MailboxPath::of_tree(&[octets])) {
                prop_assert!(place.names.iter().all(|name| sound(name).as_ref() == Some(name)), "{place:?}");
            }
        }
    }
}
