//! The messages of a mailbox in files, one after another, each with its marks and its date.

use std::collections::BTreeSet;
use std::io::{self, BufReader};

use super::folder::{FileContent, FileInfo, Folder};
use super::lock::Lock;
use super::metadata_files;
use super::survey::{Files, SourceMailbox};
use crate::model::{EmailId, UtcMillis};
use crate::transfer::flags::{Letters, MAX_TABLE_BYTES, MessageFlags};
use crate::transfer::ledger::{self, Ledger};
use crate::transfer::mbox::{MboxEntry, MboxReader};
use crate::transfer::{as_mail, date, name};

/// A message to be imported.
#[derive(Debug)]
pub(super) struct ImportMessage {
    pub(super) octets: Vec<u8>,
    pub(super) marks: MessageFlags,
    pub(super) received_at: UtcMillis,
    /// The email that it is a file of, where we wrote it.
    pub(super) id: Option<EmailId>,
}

/// What came next.
#[derive(Debug)]
pub(super) enum ImportEntry {
    Letter(ImportMessage),
    /// It cannot be imported.
    Failed(String),
}

/// Reads a mailbox: `each` gets what it is called, how many octets of the files it stands for, and
/// what it is, and says whether to go on.
///
/// # Errors
/// The folder or the mailbox file cannot be read.
pub(super) fn read(
    source: &SourceMailbox,
    most: u64,
    each: &mut dyn FnMut(String, u64, ImportEntry) -> bool,
) -> io::Result<()> {
    let gone = || io::Error::new(io::ErrorKind::NotFound, "it is no longer there");
    let folder = source.root.at(&source.way)?.ok_or_else(gone)?;
    match &source.files {
        Files::Maildir(files) => maildir(&folder, &source.shown, files, most, each),
        Files::Eml(files) => eml(&folder, &source.shown, files, most, each),
        Files::Mbox(file, _) => mbox(&folder, &source.shown, file, most, each),
    }
}

fn too_large(most: u64) -> ImportEntry {
    ImportEntry::Failed(format!("larger than {most} octets (limits.message)"))
}

fn maildir(
    folder: &Folder,
    shown: &str,
    files: &[(&'static str, Vec<u8>, u64)],
    most: u64,
    each: &mut dyn FnMut(String, u64, ImportEntry) -> bool,
) -> io::Result<()> {
    let letters =
        Letters::parse(&folder.note(metadata_files::DOVECOT_KEYWORDS, MAX_TABLE_BYTES as u64)?);
    let ledger = Ledger::parse(&folder.note(metadata_files::LEDGER, ledger::MAX_LEDGER_BYTES)?);
    // A mail program that reads meanwhile renames what it has seen: those are looked for once more
    // at the end.
    let mut moved: Vec<(&[u8], u64)> = Vec::new();
    let mut one = |inner: &Folder, sub: &str, file: &[u8], size: u64| -> io::Result<Option<bool>> {
        let own = name::MaildirName::of(file);
        let found = match inner.read(file, most) {
            Ok(FileContent::Absent) => return Ok(None),
            Ok(FileContent::TooLarge) => too_large(most),
            Ok(FileContent::Whole(octets, facts)) => {
                let mut marks = own.marks(&letters);
                marks.keywords.extend(ledger.of(own.base).into_iter().flatten().cloned());
                ImportEntry::Letter(letter(octets, marks, own.id, |_| Some(facts.modified)))
            }
            Err(error) => ImportEntry::Failed(error.to_string()),
        };
        Ok(Some(each(format!("{shown}/{sub}/{}", String::from_utf8_lossy(file)), size, found)))
    };
    for sub in ["new", "cur"] {
        let Some(inner) = folder.sub(sub.as_bytes())? else { continue };
        for (_, file, size) in files.iter().filter(|(of, ..)| *of == sub) {
            match one(&inner, sub, file, *size)? {
                Some(true) => {}
                Some(false) => return Ok(()),
                None => moved.push((name::MaildirName::of(file).base, *size)),
            }
        }
    }
    if moved.is_empty() {
        return Ok(());
    }
    let Some(cur) = folder.sub(b"cur")? else { return Ok(()) };
    for entry in cur.entries()? {
        let base = name::MaildirName::of(&entry.name).base;
        let Some((_, size)) = moved.iter().find(|(known, _)| *known == base) else { continue };
        if one(&cur, "cur", &entry.name, *size)? == Some(false) {
            break;
        }
    }
    Ok(())
}

fn eml(
    folder: &Folder,
    shown: &str,
    files: &[(Vec<u8>, u64)],
    most: u64,
    each: &mut dyn FnMut(String, u64, ImportEntry) -> bool,
) -> io::Result<()> {
    let ledger =
        Ledger::parse(&folder.note(metadata_files::TREE_LEDGER, ledger::MAX_LEDGER_BYTES)?);
    for (file, size) in files {
        let found = match folder.read(file, most) {
            Ok(FileContent::Absent) => continue,
            Ok(FileContent::TooLarge) => too_large(most),
            Ok(FileContent::Whole(octets, facts)) => {
                let keywords = ledger.of(file).cloned().unwrap_or_default();
                let marks = MessageFlags { keywords, deleted: false };
                ImportEntry::Letter(letter(octets, marks, name::of_eml(file), |raw| {
                    of_file(raw, facts)
                }))
            }
            Err(error) => ImportEntry::Failed(error.to_string()),
        };
        // A single file is shown by its own path.
        let file = String::from_utf8_lossy(file);
        let shown =
            if shown.ends_with(&*file) { shown.to_owned() } else { format!("{shown}/{file}") };
        if !each(shown, *size, found) {
            break;
        }
    }
    Ok(())
}

fn mbox(
    folder: &Folder,
    shown: &str,
    name: &[u8],
    most: u64,
    each: &mut dyn FnMut(String, u64, ImportEntry) -> bool,
) -> io::Result<()> {
    let Some((file, _)) = folder.file(name)? else {
        return Err(io::Error::other("no file any more"));
    };
    let _lock = Lock::take(folder, name, &file, false)?;
    let mut reader = MboxReader::new(
        BufReader::with_capacity(256 * 1024, &file),
        usize::try_from(most).unwrap_or(usize::MAX),
    );
    let (mut number, mut end) = (0u64, 0u64);
    while let Some(entry) = reader.read()? {
        number += 1;
        let shown = format!("{shown}, message {number}");
        let goes_on = match entry {
            MboxEntry::Internal => true,
            MboxEntry::TooLarge(_) => each(shown, 0, too_large(most)),
            MboxEntry::Mail(mail) if mail.begun => true,
            MboxEntry::Mail(mail) => {
                let size = mail.end.saturating_sub(end);
                end = mail.end;
                let from = mail.from_date;
                let dated = |raw: &[u8]| date::received(raw).or(from).or_else(|| date::sent(raw));
                each(
                    shown,
                    size,
                    ImportEntry::Letter(ImportMessage {
                        received_at: mail.id.map_or_else(
                            || dated(&mail.octets).unwrap_or_default(),
                            EmailId::received_at,
                        ),
                        octets: mail.octets,
                        marks: mail.marks,
                        id: mail.id,
                    }),
                )
            }
        };
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// The date of a message in a file of its own: of the last hop, else of its sender, else of the
/// file.
fn of_file(raw: &[u8], facts: FileInfo) -> Option<UtcMillis> {
    date::received(raw).or_else(|| date::sent(raw)).or(Some(facts.modified))
}

/// A message of a file: of ours as it is, of others as mail.
fn letter(
    octets: Vec<u8>,
    marks: MessageFlags,
    id: Option<EmailId>,
    dated: impl FnOnce(&[u8]) -> Option<UtcMillis>,
) -> ImportMessage {
    let octets = if id.is_some() { octets } else { as_mail(&octets).into_owned() };
    let received_at = id.map(EmailId::received_at).or_else(|| dated(&octets)).unwrap_or_default();
    ImportMessage { octets, marks, received_at, id }
}

/// Keywords between spaces, as the service takes them.
pub(super) fn words(keywords: &BTreeSet<String>) -> String {
    keywords.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}
