//! Finds the mailboxes to import below the given paths, with their files and sizes. Messages are
//! not read.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::folder::{FileKind, Folder, FolderEntry, MAX_FOLDER_DEPTH};
use super::{Format, metadata_files};
use crate::model::Role;
use crate::transfer::MailboxPath;
use crate::transfer::folder::MAX_CARD_BYTES;

/// A mailbox to import.
#[derive(Debug)]
pub(super) struct SourceMailbox {
    pub(super) root: Arc<Folder>,
    /// The path from the root to the folder of the files.
    pub(super) path: Vec<Vec<u8>>,
    /// The path as it is printed.
    pub(super) shown: String,
    pub(super) files: Files,
    pub(super) place: MailboxPath,
    pub(super) role: Option<Role>,
}

/// The files of a mailbox: their names and sizes in bytes.
#[derive(Debug)]
pub(super) enum Files {
    /// The first value of each file is `new` or `cur`.
    Maildir(Vec<(&'static str, Vec<u8>, u64)>),
    Eml(Vec<(Vec<u8>, u64)>),
    Mbox(Vec<u8>, u64),
}

impl SourceMailbox {
    /// Returns the size of all files together.
    pub(super) fn size(&self) -> u64 {
        match &self.files {
            Files::Maildir(files) => files.iter().map(|(.., size)| size).sum(),
            Files::Eml(files) => files.iter().map(|(_, size)| size).sum(),
            Files::Mbox(_, size) => *size,
        }
    }
}

/// The mailboxes that were found, and the paths that were skipped, each with the reason.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) sources: Vec<SourceMailbox>,
    pub(super) skipped: Vec<(String, String)>,
}

/// Adds the mailboxes at and below a path to the survey.
///
/// # Errors
/// The path cannot be read, or the format of a single file is unknown.
pub(super) fn survey(path: &Path, format: Option<Format>, out: &mut Survey) -> io::Result<()> {
    let path = path.canonicalize()?;
    if path.is_dir() {
        let root = Arc::new(Folder::open(&path)?);
        return SurveyWalk { root, shown: path.display().to_string(), format, out }.folder(&[]);
    }
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let root = Arc::new(Folder::open(above)?);
    let name = std::os::unix::ffi::OsStrExt::as_bytes(name).to_vec();
    let Some(info) = root.info(&name)?.filter(|info| info.kind == FileKind::File) else {
        return Err(io::Error::other("neither a file nor a folder"));
    };
    let files = match format {
        Some(Format::Eml) => Files::Eml(vec![(name, info.size)]),
        Some(Format::Mbox) => Files::Mbox(name, info.size),
        Some(Format::Maildir) => {
            return Err(io::Error::other("this is a file, but a Maildir is a folder"));
        }
        None if is_mbox(&root, &name)? => Files::Mbox(name, info.size),
        None if ends(&name, b".eml") => Files::Eml(vec![(name, info.size)]),
        None => {
            let text = "unknown kind of file: say --format maildir, mbox or eml";
            return Err(io::Error::other(text));
        }
    };
    let shown = path.display().to_string();
    out.sources.push(SourceMailbox {
        root,
        path: Vec::new(),
        shown,
        files,
        place: MailboxPath::inbox(),
        role: None,
    });
    Ok(())
}

struct SurveyWalk<'a> {
    root: Arc<Folder>,
    shown: String,
    format: Option<Format>,
    out: &'a mut Survey,
}

impl SurveyWalk<'_> {
    fn wants(&self, format: Format) -> bool {
        self.format.is_none_or(|wanted| wanted == format)
    }

    fn shown(&self, path: &[Vec<u8>], name: &[u8]) -> String {
        let names = path.iter().map(Vec::as_slice).chain([name]).filter(|name| !name.is_empty());
        let names = names.map(|name| format!("/{}", String::from_utf8_lossy(name)));
        format!("{}{}", self.shown, names.collect::<String>())
    }

    fn skip(&mut self, path: &[Vec<u8>], name: &[u8], reason: &str) {
        let shown = self.shown(path, name);
        self.out.skipped.push((shown, reason.to_owned()));
    }

    /// Adds the mailboxes of a folder and of those below it.
    fn folder(&mut self, path: &[Vec<u8>]) -> io::Result<()> {
        let Some(folder) = self.root.at(path)? else { return Ok(()) };
        if path.len() > MAX_FOLDER_DEPTH {
            self.skip(path, b"", "too many folders inside one another");
            return Ok(());
        }
        let entries = folder.entries()?;
        let is =
            |entry: &FolderEntry, name: &[u8]| entry.kind == FileKind::Folder && entry.name == name;
        let maildir = entries.iter().any(|entry| is(entry, b"cur") || is(entry, b"new"));
        if maildir && self.wants(Format::Maildir) {
            let place = place_of(path, None);
            self.maildir(&folder, path, place)?;
        } else if !maildir {
            self.tree(&folder, &entries, path)?;
        }
        for entry in &entries {
            let below = || [path, std::slice::from_ref(&entry.name)].concat();
            match entry.kind {
                FileKind::Folder
                    if maildir
                        && [&b"cur"[..], b"new", b"tmp"].contains(&entry.name.as_slice()) => {}
                FileKind::Folder if maildir && entry.name.starts_with(b".") => {
                    if self.wants(Format::Maildir)
                        && let Some(folder) = folder.sub(&entry.name)?
                    {
                        self.maildir(&folder, &below(), MailboxPath::of_maildir(&entry.name))?;
                    }
                }
                FileKind::Folder if !entry.name.starts_with(b".") => self.folder(&below())?,
                FileKind::Link => {
                    self.skip(path, &entry.name, "a symbolic link, which is not followed");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds a folder with `new` or `cur` in it.
    fn maildir(
        &mut self,
        folder: &Folder,
        path: &[Vec<u8>],
        place: Option<MailboxPath>,
    ) -> io::Result<()> {
        let mut files = Vec::new();
        let mut is_maildir = false;
        for sub in ["new", "cur"] {
            let Some(inner) = folder.sub(sub.as_bytes())? else { continue };
            is_maildir = true;
            for entry in inner.entries()?.into_iter().filter(|entry| !entry.name.starts_with(b"."))
            {
                match (entry.kind, inner.info(&entry.name)?) {
                    (FileKind::File, Some(info)) => files.push((sub, entry.name, info.size)),
                    (FileKind::Link, _) => self.skip(
                        &[path, &[sub.as_bytes().to_vec()]].concat(),
                        &entry.name,
                        "a symbolic link, which is not followed",
                    ),
                    _ => {}
                }
            }
        }
        let card = folder.read_metadata(metadata_files::CARD, MAX_CARD_BYTES as u64)?;
        if is_maildir {
            self.add(path, b"", Files::Maildir(files), &card, place);
        }
        Ok(())
    }

    /// Adds the mbox files and the .eml files of a folder that is no Maildir.
    fn tree(
        &mut self,
        folder: &Folder,
        entries: &[FolderEntry],
        path: &[Vec<u8>],
    ) -> io::Result<()> {
        let mut messages = Vec::new();
        for entry in entries
            .iter()
            .filter(|entry| entry.kind == FileKind::File && !entry.name.starts_with(b"."))
        {
            let size = folder.info(&entry.name)?.map_or(0, |info| info.size);
            if ends(&entry.name, b".eml") {
                messages.push((entry.name.clone(), size));
            } else if self.wants(Format::Mbox) {
                let named = ends(&entry.name, b".mbox");
                let begins = (named || self.format.is_some()) && is_mbox(folder, &entry.name)?;
                if begins || (named && size == 0) {
                    let stem = if named {
                        entry.name.get(..entry.name.len() - 5)
                    } else {
                        Some(entry.name.as_slice())
                    };
                    let stem = stem.unwrap_or_default();
                    let card = folder.read_metadata(
                        &metadata_files::mbox_card(&String::from_utf8_lossy(stem)),
                        MAX_CARD_BYTES as u64,
                    )?;
                    self.add(
                        path,
                        &entry.name,
                        Files::Mbox(entry.name.clone(), size),
                        &card,
                        place_of(path, Some(stem)),
                    );
                } else if named {
                    self.skip(
                        path,
                        &entry.name,
                        "not an mbox file: it does not begin with a line \"From \"",
                    );
                }
            }
        }
        let card = folder.read_metadata(metadata_files::TREE_CARD, MAX_CARD_BYTES as u64)?;
        if self.wants(Format::Eml) && (!messages.is_empty() || !card.is_empty()) {
            self.add(path, b"", Files::Eml(messages), &card, place_of(path, None));
        }
        Ok(())
    }

    /// Adds a mailbox. The file with its path and role, if there is one, names it better than the
    /// folder.
    fn add(
        &mut self,
        path: &[Vec<u8>],
        name: &[u8],
        files: Files,
        card: &[u8],
        place: Option<MailboxPath>,
    ) {
        let (place, role) = match (MailboxPath::of_card(card), place) {
            (Some((place, role)), _) => (place, role),
            (None, Some(place)) => (place, None),
            (None, None) => {
                return self.skip(
                    path,
                    name,
                    "a mailbox cannot have this name: import it with --mailbox",
                );
            }
        };
        let shown = self.shown(path, name);
        self.out.sources.push(SourceMailbox {
            root: Arc::clone(&self.root),
            path: path.to_vec(),
            shown,
            files,
            place,
            role,
        });
    }
}

/// Returns the mailbox that the names of folders and of an mbox file give: the Inbox if there are
/// none, `None` if a mailbox cannot have these names.
fn place_of(path: &[Vec<u8>], stem: Option<&[u8]>) -> Option<MailboxPath> {
    // Thunderbird keeps the children of a mailbox in a folder with the mailbox's name and `.sbd`.
    let folders = path.iter().map(|name| name.strip_suffix(b".sbd").unwrap_or(name));
    let names: Vec<Vec<u8>> = folders.chain(stem).map(<[u8]>::to_vec).collect();
    if names.is_empty() { Some(MailboxPath::inbox()) } else { MailboxPath::of_tree(&names) }
}

fn ends(name: &[u8], end: &[u8]) -> bool {
    name.len() > end.len()
        && name.get(name.len() - end.len()..).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
}

fn is_mbox(folder: &Folder, name: &[u8]) -> io::Result<bool> {
    use std::io::Read as _;
    let Some((file, _)) = folder.file(name)? else { return Ok(false) };
    let mut head = Vec::new();
    file.take(16).read_to_end(&mut head)?;
    Ok(head.trim_ascii_start().starts_with(b"From "))
}
