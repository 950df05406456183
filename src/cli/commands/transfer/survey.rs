//! Finds the mailboxes to import at and below the given paths. Each given folder may be the home of
//! a user, so scripts are looked for in it. Messages are not read.
//!
//! Path and role are those of the mailbox's card (`MailboxPath::of_card`). Without a valid card,
//! the names of the folders give the path. A Maildir with one of the usual names right in a home
//! (`HOME_MAILDIRS`) is not named after its folder: its own messages are those of the Inbox.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::folder::{FileKind, Folder, FolderEntry, MAX_FOLDER_DEPTH};
use super::scripts::{self, ScriptSurvey};
use super::{Format, metadata_files};
use crate::model::Role;
use crate::transfer::MailboxPath;
use crate::transfer::folder::MAX_CARD_BYTES;

/// The usual names of the Maildir in the home of a Dovecot user.
const HOME_MAILDIRS: [&[u8]; 2] = [b"Maildir", b"mail"];

/// A mailbox to import, with the files of its messages.
#[derive(Debug)]
pub(super) struct SourceMailbox {
    pub(super) root: Arc<Folder>,
    /// The names of the folders from the root to the one with the files.
    pub(super) path: Vec<Vec<u8>>,
    /// The full path of the folder, or of the mbox file or single file, for messages.
    pub(super) full_path: String,
    pub(super) files: Files,
    /// The mailbox to import into; `--mailbox` puts it below the mailbox that the option names.
    pub(super) mailbox_path: MailboxPath,
    /// The role that the card gives it, if any.
    pub(super) role: Option<Role>,
}

/// Names and sizes in bytes.
#[derive(Debug)]
pub(super) enum Files {
    /// The first value of each file is `new` or `cur`.
    Maildir(Vec<(&'static str, Vec<u8>, u64)>),
    Eml(Vec<(Vec<u8>, u64)>),
    Mbox(Vec<u8>, u64),
}

impl SourceMailbox {
    pub(super) fn size(&self) -> u64 {
        match &self.files {
            Files::Maildir(files) => files.iter().map(|(.., size)| size).sum(),
            Files::Eml(files) => files.iter().map(|(_, size)| size).sum(),
            Files::Mbox(_, size) => *size,
        }
    }
}

/// What was found at and below the given paths.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) sources: Vec<SourceMailbox>,
    pub(super) scripts: ScriptSurvey,
    /// Each path that was skipped, and why.
    pub(super) skipped: Vec<(String, String)>,
}

/// Adds the mailboxes at and below a path: those of one format, or (`None`) of all. Of a folder,
/// adds the scripts, too.
///
/// # Errors
/// The path cannot be read, or a single file is of an unknown format or cannot be of this one.
pub(super) fn survey(path: &Path, format: Option<Format>, out: &mut Survey) -> io::Result<()> {
    let path = path.canonicalize()?;
    if path.is_dir() {
        let root = Arc::new(Folder::open(&path)?);
        let root_path = path.display().to_string();
        let found = scripts::survey(&root, &root_path)?;
        out.scripts.scripts.extend(found.scripts);
        out.scripts.skipped.extend(found.skipped);
        return SurveyWalk { root, root_path, has_scripts: true, format, out }.add_folder(&[]);
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
        // An empty `.mbox` file is a mailbox without messages.
        None if is_mbox(&root, &name)? || (info.size == 0 && ends_with(&name, b".mbox")) => {
            Files::Mbox(name, info.size)
        }
        None if ends_with(&name, b".eml") => Files::Eml(vec![(name, info.size)]),
        None => {
            let text = "unknown kind of file: say --format mbox or eml";
            return Err(io::Error::other(text));
        }
    };
    let full_path = path.display().to_string();
    out.sources.push(SourceMailbox {
        root,
        path: Vec::new(),
        full_path,
        files,
        mailbox_path: MailboxPath::inbox(),
        role: None,
    });
    Ok(())
}

/// A walk through the folders below `root`.
struct SurveyWalk<'a> {
    root: Arc<Folder>,
    root_path: String,
    /// Whether `scripts::survey` looks for scripts in the root.
    has_scripts: bool,
    /// The format of the mailboxes that are added; `None` for all formats.
    format: Option<Format>,
    out: &'a mut Survey,
}

impl SurveyWalk<'_> {
    fn wants(&self, format: Format) -> bool {
        self.format.is_none_or(|wanted| wanted == format)
    }

    /// Returns the full path of an entry of a folder, or of the folder itself (empty `name`).
    fn full_path(&self, path: &[Vec<u8>], name: &[u8]) -> String {
        let names = path.iter().map(Vec::as_slice).chain([name]).filter(|name| !name.is_empty());
        let names = names.map(|name| format!("/{}", String::from_utf8_lossy(name)));
        format!("{}{}", self.root_path, names.collect::<String>())
    }

    fn skip(&mut self, path: &[Vec<u8>], name: &[u8], reason: &str) {
        let full_path = self.full_path(path, name);
        self.out.skipped.push((full_path, reason.to_owned()));
    }

    /// Adds the mailboxes of the folder at a path below the root, and of the folders in it.
    fn add_folder(&mut self, path: &[Vec<u8>]) -> io::Result<()> {
        let Some(folder) = self.root.at(path)? else { return Ok(()) };
        if path.len() > MAX_FOLDER_DEPTH {
            self.skip(path, b"", "too many folders inside one another");
            return Ok(());
        }
        let entries = folder.entries()?;
        let is_maildir = is_maildir(&entries);
        let is_root = path.is_empty();
        if is_maildir && self.wants(Format::Maildir) {
            let mailbox_path = mailbox_path_of(path, None);
            self.add_maildir(&folder, path, mailbox_path)?;
        } else if !is_maildir {
            self.add_tree(&folder, &entries, path)?;
        }
        for entry in &entries {
            let below = || [path, std::slice::from_ref(&entry.name)].concat();
            match entry.kind {
                // `scripts::survey` has read this link.
                FileKind::Link
                    if is_root && self.has_scripts && entry.name == scripts::ACTIVE.as_bytes() => {}
                FileKind::Folder
                    if is_root && !is_maildir && HOME_MAILDIRS.contains(&entry.name.as_slice()) =>
                {
                    self.add_home_maildir(&folder, &entry.name)?;
                }
                FileKind::Folder
                    if is_maildir
                        && [&b"cur"[..], b"new", b"tmp"].contains(&entry.name.as_slice()) => {}
                FileKind::Folder if is_maildir && entry.name.starts_with(b".") => {
                    if self.wants(Format::Maildir)
                        && let Some(folder) = folder.sub(&entry.name)?
                    {
                        self.add_maildir(&folder, &below(), MailboxPath::of_maildir(&entry.name))?;
                    }
                }
                FileKind::Folder if !entry.name.starts_with(b".") => self.add_folder(&below())?,
                FileKind::Link => {
                    self.skip(path, &entry.name, "a symbolic link, which is not followed");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the mailboxes of a folder in a home. If the folder is no Maildir, the mailboxes are
    /// named after it, as elsewhere.
    fn add_home_maildir(&mut self, home: &Folder, name: &[u8]) -> io::Result<()> {
        let Some(folder) = home.sub(name)? else { return Ok(()) };
        if !is_maildir(&folder.entries()?) {
            return self.add_folder(&[name.to_vec()]);
        }
        let root_path = self.full_path(&[], name);
        let (format, out) = (self.format, &mut *self.out);
        SurveyWalk { root: Arc::new(folder), root_path, has_scripts: false, format, out }
            .add_folder(&[])
    }

    /// Adds a folder with `new` or `cur` as a mailbox, as [`Self::add`] does. Another folder is
    /// passed over.
    fn add_maildir(
        &mut self,
        folder: &Folder,
        path: &[Vec<u8>],
        mailbox_path: Option<MailboxPath>,
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
            self.add(path, b"", Files::Maildir(files), &card, mailbox_path);
        }
        Ok(())
    }

    /// Adds the .eml files of a folder as one mailbox, and each mbox file in it as another.
    fn add_tree(
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
            if ends_with(&entry.name, b".eml") {
                messages.push((entry.name.clone(), size));
            } else if self.wants(Format::Mbox) {
                let has_extension = ends_with(&entry.name, b".mbox");
                let is_mbox =
                    (has_extension || self.format.is_some()) && is_mbox(folder, &entry.name)?;
                if is_mbox || (has_extension && size == 0) {
                    let stem = if has_extension {
                        entry.name.get(..entry.name.len() - b".mbox".len())
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
                        mailbox_path_of(path, Some(stem)),
                    );
                } else if has_extension {
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
            self.add(path, b"", Files::Eml(messages), &card, mailbox_path_of(path, None));
        }
        Ok(())
    }

    /// Adds a mailbox with the path and role of its card, or else at `mailbox_path`. If it has
    /// neither a valid card nor a `mailbox_path`, it is skipped.
    fn add(
        &mut self,
        path: &[Vec<u8>],
        name: &[u8],
        files: Files,
        card: &[u8],
        mailbox_path: Option<MailboxPath>,
    ) {
        let (mailbox_path, role) = match (MailboxPath::of_card(card), mailbox_path) {
            (Some((mailbox_path, role)), _) => (mailbox_path, role),
            (None, Some(mailbox_path)) => (mailbox_path, None),
            (None, None) => {
                return self.skip(
                    path,
                    name,
                    "a mailbox cannot have this name: import it with --mailbox",
                );
            }
        };
        let full_path = self.full_path(path, name);
        self.out.sources.push(SourceMailbox {
            root: Arc::clone(&self.root),
            path: path.to_vec(),
            full_path,
            files,
            mailbox_path,
            role,
        });
    }
}

/// Returns the mailbox path that folders and the stem of an mbox file name. It is the Inbox if
/// there are no names, and `None` if a mailbox cannot have these names.
fn mailbox_path_of(path: &[Vec<u8>], stem: Option<&[u8]>) -> Option<MailboxPath> {
    // Thunderbird keeps the children of a mailbox in a folder with the mailbox's name and `.sbd`.
    let folders = path.iter().map(|name| name.strip_suffix(b".sbd").unwrap_or(name));
    let names: Vec<Vec<u8>> = folders.chain(stem).map(<[u8]>::to_vec).collect();
    if names.is_empty() { Some(MailboxPath::inbox()) } else { MailboxPath::of_tree(&names) }
}

/// Whether a folder has a folder `cur` or `new`.
fn is_maildir(entries: &[FolderEntry]) -> bool {
    let is_inner = |entry: &FolderEntry| [&b"cur"[..], b"new"].contains(&entry.name.as_slice());
    entries.iter().any(|entry| entry.kind == FileKind::Folder && is_inner(entry))
}

/// Whether a name ends with `end`, in upper or lower case, and has something before it.
fn ends_with(name: &[u8], end: &[u8]) -> bool {
    name.len() > end.len()
        && name.get(name.len() - end.len()..).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
}

/// Whether the first 16 bytes of a file begin with `From `, after any white space.
fn is_mbox(folder: &Folder, name: &[u8]) -> io::Result<bool> {
    use std::io::Read as _;
    let Some((file, _)) = folder.file(name)? else { return Ok(false) };
    let mut head = Vec::new();
    file.take(16).read_to_end(&mut head)?;
    Ok(head.trim_ascii_start().starts_with(b"From "))
}
