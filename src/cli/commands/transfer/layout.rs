//! Writes the messages of one mailbox into an export, and finds those that are there already.
//!
//! - A message is written under a temporary name and then renamed, or appended to an mbox file with
//!   its length. So only the last message of an mbox file may be incomplete after an interrupted
//!   export. The next export replaces it, once it has the whole message.
//! - Other programs change messages of an mbox file: they write flags anew. A message that was
//!   changed counts as present. It stays as it is, and so does what follows it.
//! - What the last message of an mbox file has stays even if the email was destroyed meanwhile.
//! - In a Maildir or a tree of .eml files, keywords that have no place in the name of the file are
//!   written into the ledger (`transfer::ledger`), before the message. An mbox file has the
//!   keywords beside the message.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, Write as _};
use std::ops::Range;

use super::folder::Folder;
use super::lock::Lock;
use super::{Format, metadata_files};
use crate::model::{EmailId, Role};
use crate::transfer::flags::{Letters, MAX_KEYWORDS_FILE_BYTES};
use crate::transfer::ledger::{self, Ledger};
use crate::transfer::mbox::{self, MboxEntry, MboxReader};
use crate::transfer::{MailboxPath, name};

/// What `Layout::find_and_update` found of an email.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExportStatus {
    Missing,
    Same,
    /// The email is there, and its file was renamed or its line in the ledger updated.
    Updated,
}

/// The place of one mailbox in an export.
#[derive(Debug)]
pub(super) struct ExportTarget {
    folder: Folder,
    /// The name of the mbox file; empty in other formats.
    file: String,
}

/// The messages of one mailbox in an export, in one of the formats.
#[derive(Debug)]
pub(super) enum Layout<'a> {
    Maildir(MaildirWriter<'a>),
    Eml(EmlWriter<'a>),
    Mbox(MboxWriter<'a>),
}

impl ExportTarget {
    /// Creates the folders of a mailbox, and the file with its path and role.
    pub(super) fn open(
        root: &Folder,
        format: Format,
        place: &MailboxPath,
        role: Option<Role>,
    ) -> io::Result<Self> {
        let card = place.card(role);
        let mut folder = root.at(&[])?.ok_or(io::ErrorKind::NotFound)?;
        let mut file = String::new();
        match format {
            Format::Maildir => {
                // The top folder is a Maildir even if the Inbox is not written first.
                create_maildir(&folder)?;
                if let Some(name) = place.maildir() {
                    folder = folder.create_sub(&name)?;
                    folder.create_new(metadata_files::MAILDIR_FOLDER.as_bytes(), b"")?;
                    create_maildir(&folder)?;
                }
                update(&folder, metadata_files::CARD, card.as_bytes())?;
            }
            Format::Eml => {
                for name in place.tree() {
                    folder = folder.create_sub(&name)?;
                }
                update(&folder, metadata_files::TREE_CARD, card.as_bytes())?;
            }
            Format::Mbox => {
                let names = place.tree();
                let Some((last, above)) = names.split_last() else {
                    return Err(io::ErrorKind::InvalidInput.into());
                };
                for name in above {
                    folder = folder.create_sub(name)?;
                }
                update(&folder, &metadata_files::mbox_card(last), card.as_bytes())?;
                file = format!("{last}.mbox");
            }
        }
        Ok(Self { folder, file })
    }

    /// Finds the messages that are there already, and prepares to write others. `format` is that of
    /// `open`.
    ///
    /// # Errors
    /// `AlreadyExists` if the mbox file has mail that no export wrote, `WouldBlock` if another
    /// program locks it, and those of the system.
    pub(super) fn layout(&self, format: Format) -> io::Result<Layout<'_>> {
        Ok(match format {
            Format::Maildir => Layout::Maildir(MaildirWriter::of(&self.folder)?),
            Format::Eml => Layout::Eml(EmlWriter::of(&self.folder)?),
            Format::Mbox => Layout::Mbox(MboxWriter::of(&self.folder, &self.file)?),
        })
    }
}

fn create_maildir(folder: &Folder) -> io::Result<()> {
    ["tmp", "new", "cur"].into_iter().try_for_each(|sub| folder.create_sub(sub).map(drop))
}

/// Replaces a file, unless it has this content already.
fn update(folder: &Folder, name: &str, content: &[u8]) -> io::Result<()> {
    if folder.read_metadata(name, content.len() as u64)? == content {
        Ok(())
    } else {
        folder.replace(name, content)
    }
}

impl Layout<'_> {
    /// Finds out whether an email is there with its whole size. Updates its keywords if they
    /// differ; an mbox file keeps the old ones. A Maildir file of another size is removed, and the
    /// email counts as missing. One in `new` is moved to `cur` and counts as updated. A message of
    /// an mbox file that is shorter than it was counts as missing; `put` compares it.
    pub(super) fn find_and_update(
        &mut self,
        id: EmailId,
        size: u64,
        keywords: &BTreeSet<String>,
    ) -> io::Result<ExportStatus> {
        match self {
            Self::Maildir(maildir) => maildir.find_and_update(id, size, keywords),
            Self::Eml(eml) => eml.find_and_update(id, size, keywords),
            Self::Mbox(mbox) => Ok(if mbox.present.contains(&id) {
                ExportStatus::Same
            } else {
                ExportStatus::Missing
            }),
        }
    }

    /// Returns the email to write before all others, if it is among them: the last message of an
    /// mbox file may be its beginning, which can be replaced as long as nothing follows it.
    pub(super) fn first_to_write(&self) -> Option<EmailId> {
        match self {
            Self::Maildir(_) | Self::Eml(_) => None,
            Self::Mbox(mbox) => mbox.last_short,
        }
    }

    /// Writes an email for which `find_and_update` returned `Missing`. Returns whether it was
    /// written: not if an mbox file has it, changed by another program.
    pub(super) fn put(
        &mut self,
        id: EmailId,
        keywords: &BTreeSet<String>,
        message: &[u8],
    ) -> io::Result<bool> {
        match self {
            Self::Maildir(maildir) => maildir.put(id, keywords, message).map(|()| true),
            Self::Eml(eml) => eml.put(id, keywords, message).map(|()| true),
            Self::Mbox(mbox) => mbox.put(id, keywords, message),
        }
    }
}

#[derive(Debug)]
pub(super) struct MaildirWriter<'a> {
    folder: &'a Folder,
    tmp: Folder,
    new: Folder,
    cur: Folder,
    letters: Letters,
    ledger: LedgerWriter<'a>,
    /// The emails that are there: whether the file is in `cur`, and its name.
    present: HashMap<EmailId, (bool, Vec<u8>)>,
}

impl<'a> MaildirWriter<'a> {
    fn of(folder: &'a Folder) -> io::Result<Self> {
        let tmp = folder.create_sub("tmp")?;
        let (new, cur) = (folder.create_sub("new")?, folder.create_sub("cur")?);
        let mut present = HashMap::new();
        for (inner, is_cur) in [(&new, false), (&cur, true)] {
            for entry in inner.entries()? {
                if let Some(id) = name::MaildirName::of(&entry.name).id {
                    present.insert(id, (is_cur, entry.name));
                }
            }
        }
        let keywords_file = folder
            .read_metadata(metadata_files::DOVECOT_KEYWORDS, MAX_KEYWORDS_FILE_BYTES as u64)?;
        let letters = Letters::parse(&keywords_file);
        let ledger = LedgerWriter::of(folder, metadata_files::LEDGER)?;
        Ok(Self { folder, tmp, new, cur, letters, ledger, present })
    }

    fn find_and_update(
        &mut self,
        id: EmailId,
        size: u64,
        keywords: &BTreeSet<String>,
    ) -> io::Result<ExportStatus> {
        let Some((is_cur, old_name)) = self.present.get(&id).cloned() else {
            return Ok(ExportStatus::Missing);
        };
        let inner = if is_cur { &self.cur } else { &self.new };
        if inner.info(&old_name)?.is_none_or(|info| info.size != size) {
            inner.remove(&old_name)?;
            self.present.remove(&id);
            return Ok(ExportStatus::Missing);
        }
        let base = name::maildir(id, size);
        let (new_name, is_ledger_updated) = self.name_with_keywords(&base, keywords)?;
        if is_cur && old_name == new_name.as_bytes() {
            return Ok(match is_ledger_updated {
                true => ExportStatus::Updated,
                false => ExportStatus::Same,
            });
        }
        let inner = if is_cur { &self.cur } else { &self.new };
        inner.rename(&old_name, &self.cur, new_name.as_bytes())?;
        self.present.insert(id, (true, new_name.into_bytes()));
        Ok(ExportStatus::Updated)
    }

    fn put(&mut self, id: EmailId, keywords: &BTreeSet<String>, message: &[u8]) -> io::Result<()> {
        let base = name::maildir(id, message.len() as u64);
        let (name, _) = self.name_with_keywords(&base, keywords)?;
        self.tmp.write(&base, message, Some(id.received_at()))?;
        self.tmp.rename(base.as_bytes(), &self.cur, name.as_bytes())?;
        self.present.insert(id, (true, name.into_bytes()));
        Ok(())
    }

    /// Returns the name of a file with the letters of its keywords. Writes new letters into
    /// `dovecot-keywords`, and the keywords into the ledger if some of them have no letter; the
    /// second value says whether the ledger was changed.
    fn name_with_keywords(
        &mut self,
        base: &str,
        keywords: &BTreeSet<String>,
    ) -> io::Result<(String, bool)> {
        if self.letters.assign(keywords) {
            self.folder
                .replace(metadata_files::DOVECOT_KEYWORDS, self.letters.write().as_bytes())?;
        }
        let none = BTreeSet::new();
        let for_ledger = if self.letters.cover(keywords) { &none } else { keywords };
        let is_ledger_updated = self.ledger.set(base, for_ledger)?;
        Ok((name::with_letters(base, keywords, &self.letters), is_ledger_updated))
    }
}

#[derive(Debug)]
pub(super) struct EmlWriter<'a> {
    folder: &'a Folder,
    ledger: LedgerWriter<'a>,
}

impl<'a> EmlWriter<'a> {
    fn of(folder: &'a Folder) -> io::Result<Self> {
        Ok(Self { folder, ledger: LedgerWriter::of(folder, metadata_files::TREE_LEDGER)? })
    }

    fn find_and_update(
        &mut self,
        id: EmailId,
        size: u64,
        keywords: &BTreeSet<String>,
    ) -> io::Result<ExportStatus> {
        let name = name::eml(id);
        if self.folder.info(name.as_bytes())?.is_none_or(|info| info.size != size) {
            return Ok(ExportStatus::Missing);
        }
        Ok(if self.ledger.set(&name, keywords)? {
            ExportStatus::Updated
        } else {
            ExportStatus::Same
        })
    }

    fn put(&mut self, id: EmailId, keywords: &BTreeSet<String>, message: &[u8]) -> io::Result<()> {
        let name = name::eml(id);
        let part = format!(".{name}.part");
        self.ledger.set(&name, keywords)?;
        self.folder.write(&part, message, Some(id.received_at()))?;
        self.folder.rename(part.as_bytes(), self.folder, name.as_bytes())
    }
}

/// Appends lines to a `Ledger` file.
#[derive(Debug)]
struct LedgerWriter<'a> {
    folder: &'a Folder,
    name: &'static str,
    ledger: Ledger,
    /// If the file ends in a line without LF: where the line begins, and where the file ends.
    cut_line: Option<(u64, u64)>,
    /// `None` until a line is written.
    file: Option<File>,
}

impl<'a> LedgerWriter<'a> {
    fn of(folder: &'a Folder, name: &'static str) -> io::Result<Self> {
        let file = folder.read_metadata(name, ledger::MAX_LEDGER_BYTES)?;
        let (begin, end) = (Ledger::whole_lines(&file).len() as u64, file.len() as u64);
        let cut_line = (begin < end).then_some((begin, end));
        Ok(Self { folder, name, ledger: Ledger::parse(&file), cut_line, file: None })
    }

    /// Records the keywords of a file, unless they are those that the ledger had at first (none, if
    /// it has no line of the file). Returns whether a line was written. Called once for each file.
    fn set(&mut self, name: &str, keywords: &BTreeSet<String>) -> io::Result<bool> {
        let old = self.ledger.of(name.as_bytes());
        if old.map_or(keywords.is_empty(), |old| old == keywords) {
            return Ok(false);
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut file = self.folder.file_to_write(self.name)?;
                let end = file.seek(io::SeekFrom::End(0))?;
                if let Some((begin, _)) = self.cut_line.filter(|(_, known)| *known == end) {
                    // An interrupted export left this line incomplete. Together with the next one
                    // it would be one wrong line. A file that has grown since is left as it is.
                    file.set_len(begin)?;
                    file.seek(io::SeekFrom::Start(begin))?;
                }
                none.insert(file)
            }
        };
        file.write_all(Ledger::line(name, keywords).as_bytes())?;
        Ok(true)
    }
}

#[derive(Debug)]
pub(super) struct MboxWriter<'a> {
    file: File,
    present: HashSet<EmailId>,
    /// Where messages are that have fewer bytes than they were exported with. `put` finds out
    /// whether they are incomplete.
    short: HashMap<EmailId, Range<u64>>,
    /// The email of the last message of the file, if it is in `short`.
    last_short: Option<EmailId>,
    /// What the file needs before another message: the end of its last line, and an empty line.
    missing_end: &'static [u8],
    _lock: Lock<'a>,
}

impl<'a> MboxWriter<'a> {
    /// Locks the file and finds its emails. A last message of which the file has nothing but added
    /// fields, or a part of the `From ` line, is cut off.
    fn of(folder: &'a Folder, name: &str) -> io::Result<Self> {
        let mut file = folder.file_to_write(name)?;
        let lock = Lock::take(folder, name.as_bytes(), &file, true)?;
        let (mut present, mut short) = (HashSet::new(), HashMap::new());
        let (mut last_short, mut last_changed, mut cut_at) = (None, None, None);
        // No message is too large for this bound.
        let mut reader =
            MboxReader::new(BufReader::with_capacity(256 * 1024, &file), usize::MAX / 4);
        let foreign = || {
            let text = format!("{name} has mail that no export wrote: export into another folder");
            io::Error::new(io::ErrorKind::AlreadyExists, text)
        };
        while let Some(entry) = reader.read()? {
            match entry {
                MboxEntry::Mail(mail) if mail.begun => cut_at = Some(mail.at),
                MboxEntry::Mail(mail) => {
                    let id = mail.id.ok_or_else(foreign)?;
                    last_short = mail.short.then_some(id);
                    last_changed = None;
                    if mail.short {
                        short.insert(id, mail.at..mail.end);
                    } else if present.insert(id) && !mail.whole {
                        last_changed = Some(id);
                    }
                }
                MboxEntry::TooLarge(_) | MboxEntry::Internal => return Err(foreign()),
            }
        }
        if let Some(at) = cut_at {
            file.set_len(at)?;
        }
        let missing_end = missing_end(&mut file)?;
        // Another program was interrupted while it wrote the message.
        if let Some(id) = last_changed.filter(|_| missing_end == b"\n\n") {
            present.remove(&id);
        }
        short.retain(|id, _| !present.contains(id));
        last_short = last_short.filter(|id| short.contains_key(id));
        Ok(Self { file, present, short, last_short, missing_end, _lock: lock })
    }

    /// Writes a message, unless the file has it, changed by another program. Returns whether it was
    /// written. If the last message of the file is the beginning of this one, it is replaced.
    fn put(
        &mut self,
        id: EmailId,
        keywords: &BTreeSet<String>,
        message: &[u8],
    ) -> io::Result<bool> {
        // In one write, so that only the last message of the file can be incomplete.
        let mut entry = Vec::with_capacity(message.len().saturating_add(1024));
        mbox::write(&mut entry, id, keywords, message)?;
        if let Some(found) = self.short.remove(&id) {
            let mut stored = Vec::new();
            self.file.seek(io::SeekFrom::Start(found.start))?;
            (&self.file).take(found.end.saturating_sub(found.start)).read_to_end(&mut stored)?;
            let end = self.file.seek(io::SeekFrom::End(0))?;
            let is_incomplete = mbox::is_beginning(&stored, &entry);
            if is_incomplete && found.end == end {
                self.file.set_len(found.start)?;
                self.file.seek(io::SeekFrom::Start(found.start))?;
                self.missing_end = b"";
            } else if !is_incomplete && stored.ends_with(b"\n") {
                self.present.insert(id);
                return Ok(false);
            }
        }
        self.file.write_all(std::mem::take(&mut self.missing_end))?;
        self.file.write_all(&entry)?;
        self.present.insert(id);
        Ok(true)
    }
}

/// Returns what an mbox file needs at its end before another message, and moves to its end.
fn missing_end(file: &mut File) -> io::Result<&'static [u8]> {
    let size = file.seek(io::SeekFrom::End(0))?;
    file.seek(io::SeekFrom::Start(size.saturating_sub(3)))?;
    let mut last = Vec::new();
    file.read_to_end(&mut last)?;
    let missing: &'static [u8] = match last.as_slice() {
        [] | b"\n" | b"\r\n" | [.., b'\n', b'\n'] | b"\n\r\n" => b"",
        [.., b'\n'] => b"\n",
        _ => b"\n\n",
    };
    Ok(missing)
}
