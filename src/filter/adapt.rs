//! Adapts scripts of other servers, which are imported.
//!
//! - A script without errors stays as it is, byte for byte.
//! - Three kinds of errors are removed: a missing `require` is added at the top; the obsolete
//!   extension `imapflags` becomes `imap4flags` (RFC 5232), and its commands `mark` and `unmark`
//!   become `addflag` and `removeflag`; a byte order mark is removed.
//! - A script that has any other error stays as it is, byte for byte.

use std::borrow::Cow;
use std::collections::BTreeSet;

use restante_sieve::diagnostic::managesieve;
use restante_sieve::ir::{self, CommandKind, Location, Node};
use restante_sieve::{
    Checked, Code, CompileOptions, Extension, LineIndex, MissingRequire, Script, Span,
};

use super::settings::Settings;
use super::world::{AccountMailboxes, MailboxesByUid};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The commands of `imapflags` that `imap4flags` lacks, each with what takes its place.
const OBSOLETE_COMMANDS: [(&[u8], &[u8]); 2] =
    [(b"mark", br#"addflag "\\Flagged""#), (b"unmark", br#"removeflag "\\Flagged""#)];

/// A script of another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdaptedScript<'a> {
    /// The script to store: changed, or as it was given.
    pub source: Cow<'a, [u8]>,
    /// Whether `source` has no errors.
    pub is_valid: bool,
    /// What was changed, each a sentence for people; empty if nothing was.
    pub changes: Vec<String>,
    /// The errors and then the warnings of `source`, each a line with its place.
    pub diagnostics: Vec<String>,
    /// The names of `include :global` without `:optional`. Those scripts are on the other site, so
    /// no run finds them. Empty if `source` has errors.
    missing_includes: Vec<String>,
    /// The names of the mailboxes into which the script files without `:create`. Names with
    /// variables are left out. Empty if `source` has errors.
    mailboxes: BTreeSet<String>,
}

impl Settings {
    /// Adapts a script of another server. If errors are left, nothing is changed.
    #[must_use]
    pub fn adapt<'a>(&self, source: &'a [u8]) -> AdaptedScript<'a> {
        let checked = self.check(source);
        if checked.script.is_none()
            && let Some((adapted, changes)) = self.remove_errors(source)
        {
            let checked = self.check(&adapted);
            if checked.script.is_some() {
                return AdaptedScript::new(Cow::Owned(adapted), &checked, changes);
            }
        }
        AdaptedScript::new(Cow::Borrowed(source), &checked, Vec::new())
    }

    /// Returns a script without the errors that can be removed, and what was changed. `None` if
    /// the script has another error, or nothing to change.
    fn remove_errors(&self, source: &[u8]) -> Option<(Vec<u8>, Vec<String>)> {
        let mut changes = Vec::new();
        let text = source.strip_prefix(BYTE_ORDER_MARK).unwrap_or(source);
        if text.len() < source.len() {
            changes.push("the byte order mark was removed".to_owned());
        }
        let options =
            CompileOptions { missing_require: MissingRequire::Warning, ..self.compile_options() };
        let checked = restante_sieve::check(text, &options);
        let is_obsolete = checked.diagnostics.iter().any(|one| {
            one.code == Code::ObsoleteExtension && one.extension == Some(Extension::Imap4Flags)
        });
        let mut edits: Vec<(Span, &[u8])> = Vec::new();
        let mut missing = BTreeSet::new();
        for one in &checked.diagnostics {
            match (one.code, one.extension) {
                (Code::ObsoleteExtension, Some(Extension::Imap4Flags)) => {
                    edits.push((one.span, br#""imap4flags""#));
                }
                (Code::MissingRequire, Some(extension)) => {
                    missing.insert(extension.name());
                }
                (Code::UnknownCommand, _) if is_obsolete => {
                    let name = one.span.of(text);
                    let mut known = OBSOLETE_COMMANDS.into_iter();
                    let (_, new) = known.find(|(old, _)| name.eq_ignore_ascii_case(old))?;
                    edits.push((one.span, new));
                }
                _ if one.is_error() => return None,
                // A warning.
                _ => {}
            }
        }
        if is_obsolete {
            changes.push("`imapflags` became `imap4flags`".to_owned());
        }
        let mut adapted = Vec::with_capacity(text.len().saturating_add(256));
        if !missing.is_empty() {
            let names: Vec<String> = missing.iter().map(|name| format!("\"{name}\"")).collect();
            let require = format!("require [{}];", names.join(", "));
            let end = if memchr::memmem::find(text, b"\r\n").is_some() { "\r\n" } else { "\n" };
            adapted.extend_from_slice(require.as_bytes());
            adapted.extend_from_slice(end.as_bytes());
            changes.push(format!("`{require}` was added at the top"));
        }
        edits.sort_by_key(|(span, _)| span.start);
        let mut rest = Span::new(0, u32::try_from(text.len()).ok()?);
        for (span, new) in edits {
            adapted.extend_from_slice(Span::new(rest.start, span.start).of(text));
            adapted.extend_from_slice(new);
            rest.start = span.end;
        }
        adapted.extend_from_slice(rest.of(text));
        (!changes.is_empty()).then_some((adapted, changes))
    }
}

impl<'a> AdaptedScript<'a> {
    /// Returns notes for people, each a sentence, on a script without errors: on each script of the
    /// other site that it includes (`missing_includes`), and on each mailbox that does not exist
    /// here and into which it files. `mailboxes` are those of the account; with `None`, there are
    /// no notes on mailboxes.
    #[must_use]
    pub fn notes(&self, mailboxes: Option<MailboxesByUid>) -> Vec<String> {
        let includes = self.missing_includes.iter().map(|name| {
            format!(
                "includes `{name}` of the other site, which is not here: mail that reaches this \
                 command stays in the Inbox"
            )
        });
        let mailboxes = mailboxes.map(AccountMailboxes::new);
        let names = self.mailboxes.iter();
        let missing = names.filter_map(|name| mailbox_note(name, mailboxes.as_ref()?));
        includes.chain(missing).collect()
    }

    fn new(source: Cow<'a, [u8]>, checked: &Checked, changes: Vec<String>) -> Self {
        let text = managesieve(&checked.diagnostics, &LineIndex::new(&source));
        let script = checked.script.as_ref();
        Self {
            is_valid: script.is_some(),
            diagnostics: text.lines().map(str::to_owned).collect(),
            missing_includes: script.map(missing_includes).unwrap_or_default(),
            mailboxes: script.map(mailboxes).unwrap_or_default(),
            source,
            changes,
        }
    }
}

/// Returns the value of `AdaptedScript::missing_includes` for a script.
fn missing_includes(script: &Script) -> Vec<String> {
    let includes = script.includes().into_iter();
    let missing = includes.filter(|one| one.location == Location::Global && !one.optional);
    missing.map(|one| one.name.clone()).collect()
}

/// Returns the value of `AdaptedScript::mailboxes` for a script.
fn mailboxes(script: &Script) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    ir::walk(script.commands(), &mut |node| {
        if let Node::Command(command) = node
            && let CommandKind::FileInto(file_into) = &command.kind
            && !file_into.to.create
            && let Some(name) = file_into.to.name.as_constant()
        {
            names.insert(name.to_owned());
        }
    });
    names
}

/// Returns a note on a mailbox that a run would not find, with the name of the one that may be
/// meant. `None` if a run would find the mailbox. A site with Dovecot may separate the names of
/// mailboxes by dots, and have all of them below the Inbox: so the name is looked for without
/// `INBOX` before it, as it is and with `/` in place of its dots, and then below the Inbox.
fn mailbox_note(name: &str, mailboxes: &AccountMailboxes) -> Option<String> {
    if mailboxes.named(name).is_some() {
        return None;
    }
    let (first, rest) = name.split_once(['.', '/']).unwrap_or((name, ""));
    let plain = if first.eq_ignore_ascii_case("INBOX") { rest } else { name };
    let with_slashes = plain.replace('.', "/");
    let below_inbox = [plain, &with_slashes].map(|one| format!("INBOX/{one}"));
    let mut candidates = [plain.to_owned(), with_slashes].into_iter().chain(below_inbox);
    let here = candidates.find(|one| mailboxes.named(one).is_some());
    let here = here.map(|here| format!("; here it is called `{here}`")).unwrap_or_default();
    Some(format!("files into `{name}`, which does not exist: mail for it stays in the Inbox{here}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{Mailbox, MailboxUid, Role};

    fn adapt(source: &str) -> AdaptedScript<'_> {
        Settings::default().adapt(source.as_bytes())
    }

    #[test]
    fn script_without_errors_stays_as_it_is() {
        let source = "require \"fileinto\";\r\n# gr\u{fc}\u{df}e\r\nfileinto \"A.B\";";
        let adapted = adapt(source);
        assert!(matches!(&adapted.source, Cow::Borrowed(bytes) if *bytes == source.as_bytes()));
        assert!(adapted.is_valid && adapted.changes.is_empty() && adapted.diagnostics.is_empty());
        assert_eq!(adapted.mailboxes, BTreeSet::from(["A.B".to_owned()]));
    }

    #[test]
    fn missing_require_and_imapflags_are_mended_in_place() {
        let crlf = |text: &str| text.replace('\n', "\r\n");
        let source = crlf(
            r#"require ["imapflags"]; # old
if header :value "ge" "X" "1" {
  MARK;
  setflag "\\Seen";
  unmark;
  fileinto "A";
}
"#,
        );
        let source = format!("\u{feff}{source}");
        let adapted = adapt(&source);
        let expected = crlf(
            r#"require ["fileinto", "relational"];
require ["imap4flags"]; # old
if header :value "ge" "X" "1" {
  addflag "\\Flagged";
  setflag "\\Seen";
  removeflag "\\Flagged";
  fileinto "A";
}
"#,
        );
        assert_eq!(String::from_utf8_lossy(&adapted.source), expected);
        assert!(adapted.is_valid, "{adapted:?}");
        assert_eq!(
            adapted.changes,
            [
                "the byte order mark was removed",
                "`imapflags` became `imap4flags`",
                "`require [\"fileinto\", \"relational\"];` was added at the top"
            ]
        );
    }

    #[test]
    fn script_with_other_errors_is_kept_whole_with_all_of_them() {
        let source =
            "require [\"fileinto\", \"vnd.dovecot.pipe\"];\npipe \"x\";\nkeeep;\nreject \"a\";\n";
        let adapted = adapt(source);
        assert_eq!(&*adapted.source, source.as_bytes());
        assert!(!adapted.is_valid && adapted.changes.is_empty());
        let places = ["line 1, ", "line 2, ", "line 3, ", "line 4, "];
        for place in places {
            assert!(adapted.diagnostics.iter().any(|line| line.starts_with(place)), "{adapted:?}");
        }
        assert!(adapted.diagnostics[0].contains("vnd.dovecot.pipe"), "{adapted:?}");
        // Without `require "imapflags"`, `mark` is an unknown command.
        assert!(!adapt("mark;").is_valid);
        assert!(!Settings::default().adapt(b"keep; # \xff").is_valid);
    }

    #[test]
    fn included_scripts_of_the_other_site_are_named() {
        let adapted = adapt(
            "require \"include\";\ninclude :global \"spam\";\ninclude :global :optional \"b\";\n\
             include \"own\";\n",
        );
        assert!(adapted.is_valid, "{adapted:?}");
        let notes = adapted.notes(None);
        assert_eq!(notes.len(), 1);
        assert!(notes[0].starts_with("includes `spam` of the other site"), "{notes:?}");
    }

    #[test]
    fn mailboxes_that_do_not_exist_are_named_as_they_are_called_here() {
        let mailbox = |name: &str, parent: Option<u32>| Mailbox {
            name: name.to_owned(),
            parent: parent.map(MailboxUid),
            ..Mailbox::default()
        };
        let mailboxes = AccountMailboxes::new(BTreeMap::from([
            (MailboxUid(1), Mailbox { role: Some(Role::Inbox), ..mailbox("Inbox", None) }),
            (MailboxUid(2), mailbox("Lists", None)),
            (MailboxUid(3), mailbox("rust", Some(2))),
            (MailboxUid(4), mailbox("a.b", None)),
        ]));
        for (name, here) in [
            ("Lists.rust", Some("Lists/rust")),
            ("INBOX.Lists.rust", Some("Lists/rust")),
            ("inbox/Lists", Some("Lists")),
            ("INBOX.a.b", Some("a.b")),
            ("Lists.go", None),
        ] {
            let note = mailbox_note(name, &mailboxes).unwrap();
            assert!(note.starts_with(&format!("files into `{name}`, ")), "{note}");
            let called = note.split_once("called `").map(|(_, rest)| rest.trim_end_matches('`'));
            assert_eq!(called, here, "{note}");
        }
        for name in ["inbox", "Lists/rust", "a.b"] {
            assert_eq!(mailbox_note(name, &mailboxes), None);
        }
        let adapted = adapt("require \"fileinto\"; fileinto \"A.B\";");
        assert!(adapted.notes(None).is_empty());
        assert_eq!(adapted.notes(Some(BTreeMap::new())).len(), 1);
    }

    #[test]
    fn mailbox_below_the_inbox_is_found_as_a_run_finds_it() {
        let mailbox = |name: &str, parent: Option<u32>, role: Option<Role>| Mailbox {
            name: name.to_owned(),
            parent: parent.map(MailboxUid),
            role,
            ..Mailbox::default()
        };
        let mailboxes = BTreeMap::from([
            (MailboxUid(1), mailbox("Posteingang", None, Some(Role::Inbox))),
            (MailboxUid(2), mailbox("Lists", Some(1), None)),
            (MailboxUid(3), mailbox("rust", Some(2), None)),
        ]);
        let notes = |name: &str| {
            let source = format!("require \"fileinto\"; fileinto \"{name}\";");
            adapt(&source).notes(Some(mailboxes.clone()))
        };
        let found =
            ["INBOX/Lists", "inbox/Lists/rust", "Posteingang/Lists", "INBOX", "Posteingang"];
        for name in found {
            assert_eq!(notes(name), Vec::<String>::new(), "{name}");
        }
        for (name, here) in
            [("INBOX.Lists.rust", "INBOX/Lists/rust"), ("Lists.rust", "INBOX/Lists/rust")]
        {
            let notes = notes(name);
            assert!(notes[0].ends_with(&format!("; here it is called `{here}`")), "{notes:?}");
        }
    }
}
