//! What there is to import: every mailbox below the named paths, with its files and their sizes,
//! before one of them is read.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::folder::{FileKind, Folder, FolderEntry, MAX_FOLDER_DEPTH};
use super::{Format, metadata_files};
use crate::model::Role;
use crate::transfer::MailboxPath;
use crate::transfer::folder::MAX_CARD_BYTES;

/// A mailbox to be imported.
#[derive(Debug)]
pub(super) struct SourceMailbox {
    pub(super) root: Arc<Folder>,
    /// From the root to the folder that its files are in.
    pub(super) way: Vec<Vec<u8>>,
    /// What people call it.
    pub(super) shown: String,
    pub(super) files: Files,
    pub(super) place: MailboxPath,
    pub(super) role: Option<Role>,
}

/// The files of a mailbox, with their octets.
#[derive(Debug)]
pub(super) enum Files {
    /// In `new` and `cur`.
    Maildir(Vec<(&'static str, Vec<u8>, u64)>),
    Eml(Vec<(Vec<u8>, u64)>),
    Mbox(Vec<u8>, u64),
}

impl SourceMailbox {
    pub(super) fn octets(&self) -> u64 {
        match &self.files {
            Files::Maildir(files) => files.iter().map(|(.., size)| size).sum(),
            Files::Eml(files) => files.iter().map(|(_, size)| size).sum(),
            Files::Mbox(_, size) => *size,
        }
    }
}

/// All that was found, and what was not looked at, with the reason.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) sources: Vec<SourceMailbox>,
    pub(super) passed_over: Vec<(String, String)>,
}

/// Looks at a path.
///
/// # Errors
/// It cannot be read, or what it is cannot be told.
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
    let Some(facts) = root.facts(&name)?.filter(|facts| facts.kind == FileKind::File) else {
        return Err(io::Error::other("neither a file nor a folder"));
    };
    let files = match format {
        Some(Format::Eml) => Files::Eml(vec![(name, facts.size)]),
        Some(Format::Mbox) => Files::Mbox(name, facts.size),
        Some(Format::Maildir) => return Err(io::Error::other("a file: a Maildir is a folder")),
        None if is_mbox(&root, &name)? => Files::Mbox(name, facts.size),
        None if ends(&name, b".eml") => Files::Eml(vec![(name, facts.size)]),
        None => return Err(io::Error::other("what is it? Say --format")),
    };
    let shown = path.display().to_string();
    out.sources.push(SourceMailbox {
        root,
        way: Vec::new(),
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

    fn shown(&self, way: &[Vec<u8>], name: &[u8]) -> String {
        let names = way.iter().map(Vec::as_slice).chain([name]).filter(|name| !name.is_empty());
        let names = names.map(|name| format!("/{}", String::from_utf8_lossy(name)));
        format!("{}{}", self.shown, names.collect::<String>())
    }

    fn pass_over(&mut self, way: &[Vec<u8>], name: &[u8], why: &str) {
        let shown = self.shown(way, name);
        self.out.passed_over.push((shown, why.to_owned()));
    }

    fn folder(&mut self, way: &[Vec<u8>]) -> io::Result<()> {
        let Some(folder) = self.root.at(way)? else { return Ok(()) };
        if way.len() > MAX_FOLDER_DEPTH {
            self.pass_over(way, b"", "too many folders in one another");
            return Ok(());
        }
        let entries = folder.entries()?;
        let is =
            |entry: &FolderEntry, name: &[u8]| entry.kind == FileKind::Folder && entry.name == name;
        let maildir = entries.iter().any(|entry| is(entry, b"cur") || is(entry, b"new"));
        if maildir && self.wants(Format::Maildir) {
            let place = place_of(way, None);
            self.maildir(&folder, way, place)?;
        } else if !maildir {
            self.tree(&folder, &entries, way)?;
        }
        for entry in &entries {
            let below = || [way, std::slice::from_ref(&entry.name)].concat();
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
                    self.pass_over(way, &entry.name, "a symbolic link, which is not followed")
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn maildir(
        &mut self,
        folder: &Folder,
        way: &[Vec<u8>],
        place: Option<MailboxPath>,
    ) -> io::Result<()> {
        let mut files = Vec::new();
        let mut is_one = false;
        for sub in ["new", "cur"] {
            let Some(inner) = folder.sub(sub.as_bytes())? else { continue };
            is_one = true;
            for entry in inner.entries()?.into_iter().filter(|entry| !entry.name.starts_with(b"."))
            {
                match (entry.kind, inner.facts(&entry.name)?) {
                    (FileKind::File, Some(facts)) => files.push((sub, entry.name, facts.size)),
                    (FileKind::Link, _) => self.pass_over(
                        &[way, &[sub.as_bytes().to_vec()]].concat(),
                        &entry.name,
                        "a symbolic link, which is not followed",
                    ),
                    _ => {}
                }
            }
        }
        let card = folder.note(metadata_files::CARD, MAX_CARD_BYTES as u64)?;
        if is_one {
            self.found(way, b"", Files::Maildir(files), &card, place);
        }
        Ok(())
    }

    fn tree(
        &mut self,
        folder: &Folder,
        entries: &[FolderEntry],
        way: &[Vec<u8>],
    ) -> io::Result<()> {
        let mut messages = Vec::new();
        for entry in entries
            .iter()
            .filter(|entry| entry.kind == FileKind::File && !entry.name.starts_with(b"."))
        {
            let size = folder.facts(&entry.name)?.map_or(0, |facts| facts.size);
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
                    let card = folder.note(
                        &metadata_files::mbox_card(&String::from_utf8_lossy(stem)),
                        MAX_CARD_BYTES as u64,
                    )?;
                    self.found(
                        way,
                        &entry.name,
                        Files::Mbox(entry.name.clone(), size),
                        &card,
                        place_of(way, Some(stem)),
                    );
                } else if named {
                    self.pass_over(
                        way,
                        &entry.name,
                        "no mailbox file: it does not begin with a line \"From \"",
                    );
                }
            }
        }
        let card = folder.note(metadata_files::TREE_CARD, MAX_CARD_BYTES as u64)?;
        if self.wants(Format::Eml) && (!messages.is_empty() || !card.is_empty()) {
            self.found(way, b"", Files::Eml(messages), &card, place_of(way, None));
        }
        Ok(())
    }

    fn found(
        &mut self,
        way: &[Vec<u8>],
        name: &[u8],
        files: Files,
        card: &[u8],
        place: Option<MailboxPath>,
    ) {
        let (place, role) = match (MailboxPath::of_card(card), place) {
            (Some((place, role)), _) => (place, role),
            (None, Some(place)) => (place, None),
            (None, None) => {
                return self.pass_over(
                    way,
                    name,
                    "its name is no mailbox's: import it with --mailbox",
                );
            }
        };
        let shown = self.shown(way, name);
        self.out.sources.push(SourceMailbox {
            root: Arc::clone(&self.root),
            way: way.to_vec(),
            shown,
            files,
            place,
            role,
        });
    }
}

/// The mailbox that folders lead to, and a file in them; the Inbox where they lead nowhere.
fn place_of(way: &[Vec<u8>], stem: Option<&[u8]>) -> Option<MailboxPath> {
    // Thunderbird keeps what lies below a mailbox in a folder of its name and `.sbd`.
    let folders = way.iter().map(|name| name.strip_suffix(b".sbd").unwrap_or(name));
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
