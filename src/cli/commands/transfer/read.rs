//! Reads the messages of one mailbox of an import, with their flags and dates.

use std::collections::BTreeSet;
use std::io::{self, BufReader};

use super::folder::{FileContent, FileInfo, Folder};
use super::lock::Lock;
use super::metadata_files;
use super::survey::{Files, SourceMailbox};
use crate::model::{EmailId, UtcMillis};
use crate::transfer::flags::{Letters, MAX_KEYWORDS_FILE_BYTES, MessageFlags};
use crate::transfer::ledger::{self, Ledger};
use crate::transfer::mbox::{MboxEntry, MboxReader};
use crate::transfer::{date, name, normalize_line_ends};

#[derive(Debug)]
pub(super) struct ImportMessage {
    pub(super) bytes: Vec<u8>,
    pub(super) flags: MessageFlags,
    pub(super) received_at: UtcMillis,
    /// The id of the email, if an export of this server wrote the file.
    pub(super) id: Option<EmailId>,
}

#[derive(Debug)]
pub(super) enum ImportEntry {
    Message(ImportMessage),
    /// Why a message cannot be imported.
    Failed(String),
}

/// Reads a mailbox, and calls `each` with the name of each entry, its size in the files, and the
/// entry itself. Stops if `each` returns false.
///
/// # Errors
/// The folder or the mbox file cannot be read.
pub(super) fn read(
    source: &SourceMailbox,
    max_bytes: u64,
    each: &mut dyn FnMut(String, u64, ImportEntry) -> bool,
) -> io::Result<()> {
    let removed = || io::Error::new(io::ErrorKind::NotFound, "the folder does not exist any more");
    let folder = source.root.at(&source.path)?.ok_or_else(removed)?;
    match &source.files {
        Files::Maildir(files) => maildir(&folder, &source.full_path, files, max_bytes, each),
        Files::Eml(files) => eml(&folder, &source.full_path, files, max_bytes, each),
        Files::Mbox(file, _) => mbox(&folder, &source.full_path, file, max_bytes, each),
    }
}

fn too_large(max_bytes: u64) -> ImportEntry {
    ImportEntry::Failed(format!("larger than {max_bytes} bytes (limits.message)"))
}

/// Reads the files of a Maildir that the survey found: subfolder, name and size. `shown` is the
/// path of the folder, for messages.
fn maildir(
    folder: &Folder,
    shown: &str,
    files: &[(&'static str, Vec<u8>, u64)],
    max_bytes: u64,
    each: &mut dyn FnMut(String, u64, ImportEntry) -> bool,
) -> io::Result<()> {
    let keywords_file =
        folder.read_metadata(metadata_files::DOVECOT_KEYWORDS, MAX_KEYWORDS_FILE_BYTES as u64)?;
    let letters = Letters::parse(&keywords_file);
    let ledger = folder.read_metadata(metadata_files::LEDGER, ledger::MAX_LEDGER_BYTES)?;
    let ledger = Ledger::parse(&ledger);
    // A mail program may rename files meanwhile. They are looked for in `cur` at the end.
    let mut moved: Vec<(&[u8], u64)> = Vec::new();
    // `None`: the file is not there; false: stop.
    let mut read_file =
        |inner: &Folder, sub: &str, file: &[u8], size: u64| -> io::Result<Option<bool>> {
            let parsed = name::MaildirName::of(file);
            let found = match inner.read(file, max_bytes) {
                Ok(FileContent::Absent) => return Ok(None),
                Ok(FileContent::TooLarge) => too_large(max_bytes),
                Ok(FileContent::Whole(bytes, info)) => {
                    let mut flags = parsed.flags(&letters);
                    ledger.of(parsed.base).into_iter().flatten().for_each(|word| flags.set(word));
                    ImportEntry::Message(message(bytes, flags, parsed.id, |_| Some(info.modified)))
                }
                Err(error) => ImportEntry::Failed(error.to_string()),
            };
            Ok(Some(each(format!("{shown}/{sub}/{}", String::from_utf8_lossy(file)), size, found)))
        };
    for sub in ["new", "cur"] {
        let Some(inner) = folder.sub(sub.as_bytes())? else { continue };
        for (_, file, size) in files.iter().filter(|(of, ..)| *of == sub) {
            match read_file(&inner, sub, file, *size)? {
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
        if read_file(&cur, "cur", &entry.name, *size)? == Some(false) {
            break;
        }
    }
    Ok(())
}

/// Reads the .eml files that the survey found: name and size. `shown` is the path of the folder, or
/// of a single file.
fn eml(
    folder: &Folder,
    shown: &str,
    files: &[(Vec<u8>, u64)],
    max_bytes: u64,
    each: &mut dyn FnMut(String, u64, ImportEntry) -> bool,
) -> io::Result<()> {
    let ledger = folder.read_metadata(metadata_files::TREE_LEDGER, ledger::MAX_LEDGER_BYTES)?;
    let ledger = Ledger::parse(&ledger);
    for (file, size) in files {
        let found = match folder.read(file, max_bytes) {
            Ok(FileContent::Absent) => continue,
            Ok(FileContent::TooLarge) => too_large(max_bytes),
            Ok(FileContent::Whole(bytes, info)) => {
                let mut flags = MessageFlags::default();
                ledger.of(file).into_iter().flatten().for_each(|word| flags.set(word));
                ImportEntry::Message(message(bytes, flags, name::of_eml(file), |raw| {
                    file_date(raw, info)
                }))
            }
            Err(error) => ImportEntry::Failed(error.to_string()),
        };
        let file = String::from_utf8_lossy(file);
        // Of a single file, `shown` is already the path of the file.
        let shown =
            if shown.ends_with(&*file) { shown.to_owned() } else { format!("{shown}/{file}") };
        if !each(shown, *size, found) {
            break;
        }
    }
    Ok(())
}

/// Reads an mbox file, while its lock is held. `shown` is its path, for messages.
fn mbox(
    folder: &Folder,
    shown: &str,
    name: &[u8],
    max_bytes: u64,
    each: &mut dyn FnMut(String, u64, ImportEntry) -> bool,
) -> io::Result<()> {
    let Some((file, _)) = folder.file(name)? else {
        return Err(io::Error::other("the file does not exist any more"));
    };
    let _lock = Lock::take(folder, name, &file, false)?;
    let mut reader = MboxReader::new(
        BufReader::with_capacity(256 * 1024, &file),
        usize::try_from(max_bytes).unwrap_or(usize::MAX),
    );
    let (mut number, mut end) = (0u64, 0u64);
    while let Some(entry) = reader.read()? {
        number += 1;
        let shown = format!("{shown}, message {number}");
        let go_on = match entry {
            MboxEntry::Internal => true,
            // Its bytes are counted with those of the next message.
            MboxEntry::TooLarge(_) => each(shown, 0, too_large(max_bytes)),
            // An export was interrupted before it wrote the message itself.
            MboxEntry::Mail(mail) if mail.begun => true,
            MboxEntry::Mail(mail) => {
                let size = mail.end.saturating_sub(end);
                end = mail.end;
                let from = mail.from_date;
                let date_of = |raw: &[u8]| date::received(raw).or(from).or_else(|| date::sent(raw));
                each(
                    shown,
                    size,
                    ImportEntry::Message(ImportMessage {
                        received_at: mail.id.map_or_else(
                            || date_of(&mail.bytes).unwrap_or_default(),
                            EmailId::received_at,
                        ),
                        bytes: mail.bytes,
                        flags: mail.flags,
                        id: mail.id,
                    }),
                )
            }
        };
        if !go_on {
            break;
        }
    }
    Ok(())
}

/// Returns the date of the first Received field, which the last server wrote, else the sender's
/// Date, else the time of the file's last change.
fn file_date(raw: &[u8], info: FileInfo) -> Option<UtcMillis> {
    date::received(raw).or_else(|| date::sent(raw)).or(Some(info.modified))
}

/// Makes a message of the bytes of a file. Those that an export of this server wrote (with an id)
/// stay unchanged, and their date is that of the id. Others are converted by `normalize_line_ends`,
/// and their date is that of `date_of`.
fn message(
    bytes: Vec<u8>,
    flags: MessageFlags,
    id: Option<EmailId>,
    date_of: impl FnOnce(&[u8]) -> Option<UtcMillis>,
) -> ImportMessage {
    let bytes = if id.is_some() { bytes } else { normalize_line_ends(&bytes).into_owned() };
    let received_at = id.map(EmailId::received_at).or_else(|| date_of(&bytes)).unwrap_or_default();
    ImportMessage { bytes, flags, received_at, id }
}

/// Joins keywords as `/append` expects them.
pub(super) fn join_keywords(keywords: &BTreeSet<String>) -> String {
    keywords.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}
