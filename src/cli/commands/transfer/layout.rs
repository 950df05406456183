//! One mailbox of an export on the disk: what is there already, and one message more.
//!
//! A message is written under another name and then renamed, or appended and proved by its length:
//! so whatever is there under its name is whole. What the name cannot hold is written before it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, Seek as _, Write as _};

use super::folder::Folder;
use super::lock::Lock;
use super::{Format, metadata_files};
use crate::model::{EmailId, Role};
use crate::transfer::flags::{Letters, MAX_TABLE_BYTES};
use crate::transfer::ledger::{self, Ledger};
use crate::transfer::mbox::{self, MboxEntry, MboxReader};
use crate::transfer::{MailboxPath, name};

/// Whether an email is in an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExportStatus {
    Missing,
    Same,
    /// It was there with other keywords, and has these now.
    Remarked,
}

/// Where a mailbox is written; it is begun by `ExportTarget::open`.
#[derive(Debug)]
pub(super) struct ExportTarget {
    folder: Folder,
    /// Its file, of a mailbox file.
    file: String,
}

/// A mailbox as it is written.
#[derive(Debug)]
pub(super) enum Layout<'a> {
    Maildir(MaildirWriter<'a>),
    Eml(EmlWriter<'a>),
    Mbox(MboxWriter<'a>),
}

impl ExportTarget {
    /// Makes the folders of a mailbox, and the file with its path and role.
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
                // The whole is a Maildir, whichever of its folders comes first.
                make_maildir(&folder)?;
                if let Some(name) = place.maildir() {
                    folder = folder.make(&name)?;
                    folder.claim(metadata_files::MAILDIR_FOLDER.as_bytes(), b"")?;
                    make_maildir(&folder)?;
                }
                keep(&folder, metadata_files::CARD, card.as_bytes())?;
            }
            Format::Eml => {
                for name in place.tree() {
                    folder = folder.make(&name)?;
                }
                keep(&folder, metadata_files::TREE_CARD, card.as_bytes())?;
            }
            Format::Mbox => {
                let names = place.tree();
                let Some((last, above)) = names.split_last() else {
                    return Err(io::ErrorKind::InvalidInput.into());
                };
                for name in above {
                    folder = folder.make(name)?;
                }
                keep(&folder, &metadata_files::mbox_card(last), card.as_bytes())?;
                file = format!("{last}.mbox");
            }
        }
        Ok(Self { folder, file })
    }

    /// What is there.
    pub(super) fn layout(&self, format: Format) -> io::Result<Layout<'_>> {
        Ok(match format {
            Format::Maildir => Layout::Maildir(MaildirWriter::of(&self.folder)?),
            Format::Eml => Layout::Eml(EmlWriter::of(&self.folder)?),
            Format::Mbox => Layout::Mbox(MboxWriter::of(&self.folder, &self.file)?),
        })
    }
}

fn make_maildir(folder: &Folder) -> io::Result<()> {
    ["tmp", "new", "cur"].into_iter().try_for_each(|sub| folder.make(sub).map(drop))
}

/// Writes a small file where it is not so already.
fn keep(folder: &Folder, name: &str, octets: &[u8]) -> io::Result<()> {
    if folder.note(name, octets.len() as u64)? == octets {
        Ok(())
    } else {
        folder.replace(name, octets)
    }
}

impl Layout<'_> {
    /// Whether an email is there, and whole; its keywords are made so where they differ and the
    /// format can.
    pub(super) fn have(
        &mut self,
        id: EmailId,
        size: u64,
        keywords: &BTreeSet<String>,
    ) -> io::Result<ExportStatus> {
        match self {
            Self::Maildir(maildir) => maildir.have(id, size, keywords),
            Self::Eml(eml) => eml.have(id, size, keywords),
            Self::Mbox(mbox) => Ok(if mbox.known.contains(&id) {
                ExportStatus::Same
            } else {
                ExportStatus::Missing
            }),
        }
    }

    /// Writes an email.
    pub(super) fn put(
        &mut self,
        id: EmailId,
        keywords: &BTreeSet<String>,
        octets: &[u8],
    ) -> io::Result<()> {
        match self {
            Self::Maildir(maildir) => maildir.put(id, keywords, octets),
            Self::Eml(eml) => eml.put(id, keywords, octets),
            Self::Mbox(mbox) => mbox.put(id, keywords, octets),
        }
    }
}

/// A folder of a Maildir++.
#[derive(Debug)]
pub(super) struct MaildirWriter<'a> {
    folder: &'a Folder,
    tmp: Folder,
    new: Folder,
    cur: Folder,
    letters: Letters,
    ledger: LedgerWriter<'a>,
    /// Whether it is in `cur`, and its name.
    known: HashMap<EmailId, (bool, Vec<u8>)>,
}

impl<'a> MaildirWriter<'a> {
    fn of(folder: &'a Folder) -> io::Result<Self> {
        let (tmp, new, cur) = (folder.make("tmp")?, folder.make("new")?, folder.make("cur")?);
        let mut known = HashMap::new();
        for (inner, is_cur) in [(&new, false), (&cur, true)] {
            for entry in inner.entries()? {
                if let Some(id) = name::MaildirName::of(&entry.name).id {
                    known.insert(id, (is_cur, entry.name));
                }
            }
        }
        let letters =
            Letters::parse(&folder.note(metadata_files::DOVECOT_KEYWORDS, MAX_TABLE_BYTES as u64)?);
        let ledger = LedgerWriter::of(folder, metadata_files::LEDGER)?;
        Ok(Self { folder, tmp, new, cur, letters, ledger, known })
    }

    fn have(
        &mut self,
        id: EmailId,
        size: u64,
        keywords: &BTreeSet<String>,
    ) -> io::Result<ExportStatus> {
        let Some((is_cur, old)) = self.known.get(&id).cloned() else {
            return Ok(ExportStatus::Missing);
        };
        let inner = if is_cur { &self.cur } else { &self.new };
        if inner.facts(&old)?.is_none_or(|facts| facts.size != size) {
            inner.remove(&old)?;
            self.known.remove(&id);
            return Ok(ExportStatus::Missing);
        }
        let base = name::maildir(id, size);
        let wanted = self.named(&base, keywords)?;
        if is_cur && old == wanted.as_bytes() {
            return Ok(ExportStatus::Same);
        }
        let inner = if is_cur { &self.cur } else { &self.new };
        inner.rename(&old, &self.cur, wanted.as_bytes())?;
        self.known.insert(id, (true, wanted.into_bytes()));
        Ok(ExportStatus::Remarked)
    }

    fn put(&mut self, id: EmailId, keywords: &BTreeSet<String>, octets: &[u8]) -> io::Result<()> {
        let base = name::maildir(id, octets.len() as u64);
        let wanted = self.named(&base, keywords)?;
        self.tmp.write(&base, octets, Some(id.received_at()))?;
        self.tmp.rename(base.as_bytes(), &self.cur, wanted.as_bytes())?;
        self.known.insert(id, (true, wanted.into_bytes()));
        Ok(())
    }

    /// The name with these keywords; letters and what has none are written before.
    fn named(&mut self, base: &str, keywords: &BTreeSet<String>) -> io::Result<String> {
        if self.letters.learn(keywords) {
            self.folder
                .replace(metadata_files::DOVECOT_KEYWORDS, self.letters.write().as_bytes())?;
        }
        let none = BTreeSet::new();
        self.ledger.say(base, if self.letters.cover(keywords) { &none } else { keywords })?;
        Ok(name::with_letters(base, keywords, &self.letters))
    }
}

/// A folder of .eml files.
#[derive(Debug)]
pub(super) struct EmlWriter<'a> {
    folder: &'a Folder,
    ledger: LedgerWriter<'a>,
}

impl<'a> EmlWriter<'a> {
    fn of(folder: &'a Folder) -> io::Result<Self> {
        Ok(Self { folder, ledger: LedgerWriter::of(folder, metadata_files::TREE_LEDGER)? })
    }

    fn have(
        &mut self,
        id: EmailId,
        size: u64,
        keywords: &BTreeSet<String>,
    ) -> io::Result<ExportStatus> {
        let name = name::eml(id);
        if self.folder.facts(name.as_bytes())?.is_none_or(|facts| facts.size != size) {
            return Ok(ExportStatus::Missing);
        }
        Ok(if self.ledger.say(&name, keywords)? {
            ExportStatus::Remarked
        } else {
            ExportStatus::Same
        })
    }

    fn put(&mut self, id: EmailId, keywords: &BTreeSet<String>, octets: &[u8]) -> io::Result<()> {
        let name = name::eml(id);
        let part = format!(".{name}.part");
        self.ledger.say(&name, keywords)?;
        self.folder.write(&part, octets, Some(id.received_at()))?;
        self.folder.rename(part.as_bytes(), self.folder, name.as_bytes())
    }
}

/// A ledger to which lines are added.
#[derive(Debug)]
struct LedgerWriter<'a> {
    folder: &'a Folder,
    name: &'static str,
    ledger: Ledger,
    file: Option<File>,
}

impl<'a> LedgerWriter<'a> {
    fn of(folder: &'a Folder, name: &'static str) -> io::Result<Self> {
        let ledger = Ledger::parse(&folder.note(name, ledger::MAX_LEDGER_BYTES)?);
        Ok(Self { folder, name, ledger, file: None })
    }

    /// Sees to it that the ledger says so; whether it said otherwise.
    fn say(&mut self, name: &str, keywords: &BTreeSet<String>) -> io::Result<bool> {
        let known = self.ledger.of(name.as_bytes());
        if known.map_or(keywords.is_empty(), |known| known == keywords) {
            return Ok(false);
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut file = self.folder.file_to_write(self.name)?;
                let end = file.seek(io::SeekFrom::End(0))?;
                if end > 0 {
                    // A line that was cut off is ended, and so is none.
                    file.write_all(b"\n")?;
                }
                none.insert(file)
            }
        };
        file.write_all(Ledger::line(name, keywords).as_bytes())?;
        Ok(true)
    }
}

/// A mailbox file, locked.
#[derive(Debug)]
pub(super) struct MboxWriter<'a> {
    file: File,
    known: HashSet<EmailId>,
    _lock: Lock<'a>,
}

impl<'a> MboxWriter<'a> {
    fn of(folder: &'a Folder, name: &str) -> io::Result<Self> {
        let mut file = folder.file_to_write(name)?;
        let lock = Lock::take(folder, name.as_bytes(), &file, true)?;
        let mut known = HashSet::new();
        let mut end = 0;
        let mut reader =
            MboxReader::new(BufReader::with_capacity(256 * 1024, &file), usize::MAX / 4);
        let strange = || {
            let what = format!("{name} holds mail that no export wrote: export into another place");
            io::Error::new(io::ErrorKind::AlreadyExists, what)
        };
        while let Some(entry) = reader.read()? {
            match entry {
                MboxEntry::Mail(mail) => match mail.id {
                    // What was cut off is the last, and is written again.
                    _ if mail.begun => break,
                    Some(_) if !mail.whole => break,
                    Some(id) => {
                        known.insert(id);
                        end = mail.end;
                    }
                    None => return Err(strange()),
                },
                MboxEntry::TooLarge(_) | MboxEntry::Internal => return Err(strange()),
            }
        }
        file.set_len(end)?;
        file.seek(io::SeekFrom::Start(end))?;
        Ok(Self { file, known, _lock: lock })
    }

    fn put(&mut self, id: EmailId, keywords: &BTreeSet<String>, octets: &[u8]) -> io::Result<()> {
        // In one piece: what a kill leaves is whole or shows that it is not.
        let mut whole = Vec::with_capacity(octets.len().saturating_add(1024));
        mbox::write(&mut whole, id, keywords, octets)?;
        self.file.write_all(&whole)?;
        self.known.insert(id);
        Ok(())
    }
}
