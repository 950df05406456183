//! Tests of imports and exports of files, without a service.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder::Folder;
use super::layout::{ExportStatus, ExportTarget, Layout};
use super::lock::{Lock, left_behind};
use super::read::{ImportEntry, ImportMessage, read};
use super::survey::{Survey, survey};
use super::*;
use crate::cli::control::pool::ControlPool;
use crate::cli::control::{CommandContext, client::ControlClient};
use crate::cli::exit::{self, Failure};
use crate::cli::service::Service;
use crate::cli::service::serve::runtime;
use crate::config::{Config, ListenValue};
use crate::model::{EmailId, Role, UtcMillis, clock};
use crate::transfer::ledger::Ledger;
use crate::transfer::{MailboxPath, name, normalize_line_ends};

mod mbox;
mod scripts;
mod service;

const MAX_BYTES: u64 = 10 << 20;
const FORMATS: [Format; 3] = [Format::Maildir, Format::Mbox, Format::Eml];

fn set(words: &str) -> BTreeSet<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

fn place(path: &[&str]) -> MailboxPath {
    MailboxPath::of(path.iter().map(|name| (*name).to_owned()).collect())
}

/// Keywords and bytes, by mailbox and date.
type MailboxContents = BTreeMap<(MailboxPath, i64), (BTreeSet<String>, Vec<u8>)>;

/// Returns ordinary and malformed messages, in mailboxes of every kind.
fn mail() -> MailboxContents {
    let mut messages: Vec<Vec<u8>> = [
        "Subject: a\r\n\r\nFrom here\r\n>From there\r\n",
        "",
        "\r\n",
        "\n",
        "no end",
        "bare\nlf\r\nand\rcr\0",
        "From x@y Mon Jan  1 00:00:00 2001\r\nSubject: b\r\n\r\n\r\n\r\n",
        "Status: RO\nX-Restante: 1 e0000000000000 5\n\nlf alone\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    messages.extend(corpus());
    let long = "ü".repeat(120);
    let places = [
        (place(&["INBOX"]), "$seen $flagged"),
        (place(&["Lists", "rust"]), "$answered work $forwarded"),
        (place(&["inbox", "..", "a.b/c"]), "$draft"),
        (MailboxPath { inbox: false, names: vec!["Inbox".into(), "~".into()] }, ""),
        (place(&[&long, &long, &long]), "x"),
    ];
    let mut mail = MailboxContents::new();
    for (at, message) in (1_700_000_000_123i64..).step_by(999).zip(messages) {
        let (place, words) = &places[usize::try_from(at).unwrap() % places.len()];
        // With the corpus, these are more keywords than a Maildir has letters for.
        mail.insert((place.clone(), at), (set(&format!("{words} k{}", at % 31)), message));
    }
    mail
}

/// Returns the messages of the corpus as they are, and then with CRLF; none if it is missing.
fn corpus() -> Vec<Vec<u8>> {
    let Some(dir) = crate::needs::corpus() else { return Vec::new() };
    let files = fs::read_dir(dir)
        .unwrap()
        .filter_map(|folder| fs::read_dir(folder.unwrap().path()).ok())
        .flatten();
    let files = files
        .map(|file| file.unwrap().path())
        .filter(|file| file.extension().is_some_and(|kind| kind == "eml"));
    let messages: Vec<Vec<u8>> = files.map(|file| fs::read(file).unwrap()).collect();
    assert!(messages.len() > 500, "a corpus of {}", messages.len());
    messages
        .iter()
        .cloned()
        .chain(messages.iter().map(|raw| normalize_line_ends(raw).into_owned()))
        .collect()
}

/// Writes the messages that are not there. Returns how many were written, and how many got other
/// keywords.
fn write(dir: &Path, format: Format, mail: &MailboxContents) -> (usize, usize) {
    let root = Folder::create(dir).unwrap();
    let (mut written, mut updated) = (0, 0);
    let places: BTreeSet<&MailboxPath> = mail.keys().map(|(place, _)| place).collect();
    for place in places {
        let target = ExportTarget::open(&root, format, place, None).unwrap();
        let mut layout = target.layout(format).unwrap();
        for ((_, at), (keywords, message)) in mail.iter().filter(|((other, _), _)| other == place) {
            let id = EmailId::new(UtcMillis(*at), 7);
            match layout.find_and_update(id, message.len() as u64, keywords).unwrap() {
                ExportStatus::Missing => {
                    written += usize::from(layout.put(id, keywords, message).unwrap());
                }
                status => updated += usize::from(status == ExportStatus::Updated),
            }
        }
    }
    (written, updated)
}

fn survey_folder(dir: &Path, format: Option<Format>) -> Survey {
    let mut found = Survey::default();
    survey(dir, format, &mut found).unwrap();
    found
}

fn read_messages(found: &Survey) -> Vec<(MailboxPath, ImportMessage)> {
    let mut messages = Vec::new();
    for source in &found.sources {
        read(source, MAX_BYTES, &mut |name, _, found| {
            match found {
                ImportEntry::Message(message) => {
                    messages.push((source.mailbox_path.clone(), message));
                }
                ImportEntry::Failed(error) => panic!("{name}: {error}"),
            }
            true
        })
        .unwrap();
    }
    messages
}

fn read_back(dir: &Path, format: Option<Format>) -> MailboxContents {
    let found = survey_folder(dir, format);
    assert!(found.skipped.is_empty(), "{:?}", found.skipped);
    let entry = |(place, message): (MailboxPath, ImportMessage)| {
        assert!(message.id.is_some());
        ((place, message.received_at.0), (message.flags.keywords, message.bytes))
    };
    read_messages(&found).into_iter().map(entry).collect()
}

#[test]
fn an_export_is_imported_byte_for_byte() {
    let mail = mail();
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(write(dir.path(), format, &mail), (mail.len(), 0));
        for format_option in [None, Some(format)] {
            let read = read_back(dir.path(), format_option);
            assert_eq!(read.len(), mail.len(), "{format:?}");
            for (key, expected) in &mail {
                assert!(
                    read.get(key) == Some(expected),
                    "{format:?} {key:?}: {:?}",
                    read.get(key).map(|(words, _)| words)
                );
            }
        }
        assert_eq!(write(dir.path(), format, &mail), (0, 0), "{format:?}");
    }
}

#[test]
fn a_second_export_updates_keywords() {
    let mail = mail();
    let mut later = mail.clone();
    later.values_mut().take(5).for_each(|(keywords, _)| *keywords = set("$seen new"));
    for format in [Format::Maildir, Format::Eml] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), format, &mail);
        assert_eq!(write(dir.path(), format, &later), (0, 5), "{format:?}");
        assert!(read_back(dir.path(), Some(format)) == later, "{format:?}");
    }
}

#[test]
fn keyword_that_only_the_ledger_has_counts_as_updated() {
    let with = |word: &str| {
        let letters: Vec<String> = (0..26).map(|n| format!("k{n}")).collect();
        let first = (set(&letters.join(" ")), b"first".to_vec());
        let second = (set(word), b"second".to_vec());
        MailboxContents::from([((place(&["Box"]), 1), first), ((place(&["Box"]), 2), second)])
    };
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(write(dir.path(), Format::Maildir, &with("one")), (2, 0));
    // All letters are taken, so the name of the file stays.
    assert_eq!(write(dir.path(), Format::Maildir, &with("two")), (0, 1));
    assert!(read_back(dir.path(), None) == with("two"));
    assert_eq!(write(dir.path(), Format::Maildir, &with("two")), (0, 0));
}

#[test]
fn truncated_files_are_written_again() {
    let mail: MailboxContents = mail().into_iter().step_by(7).collect();
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), format, &mail);
        let mut files = Vec::new();
        walk(dir.path(), &mut files);
        // 10 to 16 bytes are cut off at the end of each message file of more than 20 bytes.
        let mut cut = 0;
        for file in files
            .iter()
            .filter(|file| !file.file_name().unwrap().to_string_lossy().contains("restante-"))
        {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let size = fs::metadata(file).unwrap().len();
            if size > 20
                && (name.contains(".restante,")
                    || name.ends_with(".mbox")
                    || name.ends_with(".eml"))
            {
                fs::File::options()
                    .write(true)
                    .open(file)
                    .unwrap()
                    .set_len(size - 10 - size % 7)
                    .unwrap();
                cut += 1;
            }
        }
        // The last line of a ledger is cut, too.
        let ledger = dir.path().join("Lists/rust/.restante-keywords");
        if format == Format::Eml {
            let content = fs::read(&ledger).unwrap();
            fs::write(&ledger, &content[..content.len() - 3]).unwrap();
        }
        let (written, _) = write(dir.path(), format, &mail);
        assert!(written >= cut && cut > 3, "{format:?}: {written} of {cut}");
        assert!(read_back(dir.path(), Some(format)) == mail, "{format:?}");
    }
}

/// An export that is killed while it writes a line of the ledger leaves the line without its end.
#[test]
fn cut_line_of_the_ledger_does_not_count_after_the_next_export() {
    let dir = tempfile::tempdir().unwrap();
    let root = Folder::open(dir.path()).unwrap();
    let target = ExportTarget::open(&root, Format::Eml, &place(&["Lists"]), None).unwrap();
    let (first, second) = (EmailId::new(UtcMillis(1000), 1), EmailId::new(UtcMillis(2000), 2));
    let open = || target.layout(Format::Eml).unwrap();
    open().put(first, &set("old"), b"Subject: 1\r\n\r\n").unwrap();
    let ledger = dir.path().join("Lists/.restante-keywords");
    let whole = fs::read_to_string(&ledger).unwrap();
    for cut in ["x", "x\tne"] {
        let name = name::eml(first);
        fs::write(&ledger, format!("{whole}{}", cut.replace('x', &name))).unwrap();
        open().put(second, &set("other"), b"Subject: 2\r\n\r\n").unwrap();
        let found = Ledger::parse(&fs::read(&ledger).unwrap());
        assert_eq!(found.of(name.as_bytes()), Some(&set("old")), "{cut}");
        assert_eq!(found.of(name::eml(second).as_bytes()), Some(&set("other")));
    }
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, files) } else { files.push(path) }
    }
}

#[test]
fn symbolic_links_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (outside, maildir) = (dir.path().join("outside"), dir.path().join("Maildir"));
    for sub in ["cur", "new", "tmp"] {
        fs::create_dir_all(outside.join(sub)).unwrap();
        fs::create_dir_all(maildir.join(sub)).unwrap();
    }
    fs::write(outside.join("cur/1.a.b:2,"), "Subject: secret\n\n").unwrap();
    fs::write(outside.join("x.eml"), "Subject: secret\n\n").unwrap();
    fs::write(maildir.join("new/2.a.b"), "Subject: mine\n\n").unwrap();
    symlink(outside.join("cur/1.a.b:2,"), maildir.join("cur/1.a.b:2,")).unwrap();
    symlink(&outside, maildir.join(".Out")).unwrap();
    symlink(&outside, maildir.join("Out")).unwrap();
    let found = survey_folder(&maildir, None);
    assert_eq!(found.skipped.len(), 3, "{:?}", found.skipped);
    let messages = read_messages(&found);
    assert_eq!(
        (messages.len(), messages[0].1.bytes.as_slice()),
        (1, &b"Subject: mine\r\n\r\n"[..])
    );
    // A folder that becomes a link after it was found.
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("a")).unwrap();
    fs::write(tree.join("a/x.eml"), "Subject: mine\n\n").unwrap();
    let found = survey_folder(&tree, None);
    fs::remove_dir_all(tree.join("a")).unwrap();
    symlink(&outside, tree.join("a")).unwrap();
    assert!(read(&found.sources[0], MAX_BYTES, &mut |_, _, _| panic!("read")).is_err());
    for (format, name) in FORMATS.into_iter().zip([".Lists", "Lists", "Lists"]) {
        let to = dir.path().join(format!("{format:?}"));
        fs::create_dir_all(&to).unwrap();
        symlink(&outside, to.join(name)).unwrap();
        let root = Folder::open(&to).unwrap();
        let linked =
            if format == Format::Mbox { place(&["Lists", "rust"]) } else { place(&["Lists"]) };
        assert!(ExportTarget::open(&root, format, &linked, None).is_err(), "{format:?}");
    }
    // Still only the three folders of the Maildir and `x.eml`.
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 4);
    let to = dir.path().join("file");
    fs::create_dir_all(&to).unwrap();
    symlink(outside.join("new.mbox"), to.join("Lists.mbox")).unwrap();
    let target =
        ExportTarget::open(&Folder::open(&to).unwrap(), Format::Mbox, &place(&["Lists"]), None)
            .unwrap();
    assert!(target.layout(Format::Mbox).is_err() && !outside.join("new.mbox").exists());
}

#[test]
fn pipes_and_folders_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("x.eml")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.path().join("y.eml"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let found = survey_folder(dir.path(), None);
    assert!(found.sources.is_empty() && found.skipped.is_empty());
    let folder = Folder::open(dir.path()).unwrap();
    assert!(folder.file(b"y.eml").unwrap().is_none() && folder.file(b"x.eml").unwrap().is_none());
}

#[test]
fn bad_names_create_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    // `..` exists already, so it is no error, and nothing is created.
    for bad in [&b".."[..], b"a/b", b"a\0"] {
        assert!(folder.create_new(bad, b"").is_err() || bad == b"..", "{}", bad.escape_ascii());
    }
}

#[test]
fn locks_are_created_and_those_of_ended_processes_removed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    let file = folder.file_to_write("m").unwrap();
    let lock = Lock::take(&folder, b"m", &file, true).unwrap();
    let content = fs::read_to_string(dir.path().join("m.lock")).unwrap();
    assert!(content.starts_with(&format!("{}:", std::process::id())), "{content}");
    drop(lock);
    assert!(!dir.path().join("m.lock").exists());
    // A lock of a process of this machine that has ended.
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let host = content.split_once(':').unwrap().1;
    fs::write(dir.path().join("m.lock"), format!("{}:{host}", child.id())).unwrap();
    drop(Lock::take(&folder, b"m", &file, true).unwrap());
    assert!(!dir.path().join("m.lock").exists());
}

/// Two programs find the lock of a process that has ended.
#[test]
fn lock_that_another_program_has_replaced_stays() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    let file = folder.file_to_write("m").unwrap();
    let path = dir.path().join("m.lock");
    let replace_lock = || {
        fs::remove_file(&path).unwrap();
        fs::write(&path, "1:elsewhere").unwrap();
    };
    let assert_stays = || {
        assert_eq!(fs::read_to_string(&path).unwrap(), "1:elsewhere");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    };

    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let host = rustix::system::uname();
    let host = host.nodename().to_str().unwrap();
    fs::write(&path, format!("{}:{host}", child.id())).unwrap();
    let found = left_behind(&folder, b"m.lock").unwrap().unwrap();
    replace_lock();
    folder.remove_if_same(b"m.lock", &found).unwrap();
    assert_stays();
    assert!(left_behind(&folder, b"m.lock").unwrap().is_none());

    // Some programs remove old locks, even of a process that runs.
    fs::remove_file(&path).unwrap();
    let lock = Lock::take(&folder, b"m", &file, true).unwrap();
    replace_lock();
    drop(lock);
    assert_stays();
}

#[test]
fn an_mbox_file_of_another_program_is_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("Lists.mbox");
    let foreign = "From x Mon Jan  1 00:00:00 2001\nSubject: x\n\nhello\n";
    fs::write(&file, foreign).unwrap();
    let target = ExportTarget::open(
        &Folder::open(dir.path()).unwrap(),
        Format::Mbox,
        &place(&["Lists"]),
        None,
    )
    .unwrap();
    let error = target.layout(Format::Mbox).map(|_: Layout<'_>| ()).unwrap_err();
    assert!(error.to_string().contains("no export wrote"), "{error}");
    assert_eq!(fs::read_to_string(file).unwrap(), foreign);
}

#[test]
fn roles_are_exported_and_imported() {
    let dir = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let to = dir.path().join(format!("{format:?}"));
        let root = Folder::create(&to).unwrap();
        ExportTarget::open(&root, format, &place(&["Abgelegt"]), Some(Role::Archive))
            .unwrap()
            .layout(format)
            .unwrap();
        let found = survey_folder(&to, None);
        let source =
            found.sources.iter().find(|source| source.mailbox_path.path() == "Abgelegt").unwrap();
        assert_eq!(source.role, Some(Role::Archive), "{format:?}");
    }
}
