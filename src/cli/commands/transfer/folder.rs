//! A folder that is held open, and what is done below it: always one name at a time, and never
//! through a symbolic link.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Timespec, Timestamps};

use crate::model::UtcMillis;

/// Folders above one another that are looked into.
pub(super) const MAX_FOLDER_DEPTH: usize = 64;

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

/// What stands in a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FolderEntry {
    pub(super) name: Vec<u8>,
    pub(super) kind: FileKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileKind {
    Folder,
    File,
    Link,
    Other,
}

/// What is known of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileInfo {
    pub(super) kind: FileKind,
    pub(super) size: u64,
    pub(super) modified: UtcMillis,
}

/// What a name holds.
#[derive(Debug)]
pub(super) enum FileContent {
    /// No file.
    Absent,
    /// More than was asked for.
    TooLarge,
    /// All of it.
    Whole(Vec<u8>, FileInfo),
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Folder {
    /// Opens the folder that the user named: symbolic links of that user are followed.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(CWD, path, FOLDER, Mode::empty())?))
    }

    /// The same, made with those above it where it is not there.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Self::open(path)
    }

    /// A folder in it; `None` where there is none of that name.
    pub(super) fn sub(&self, name: &[u8]) -> io::Result<Option<Self>> {
        match rustix::fs::openat(&self.0, name, FOLDER.union(OFlags::NOFOLLOW), Mode::empty()) {
            Ok(fd) => Ok(Some(Self(fd))),
            Err(error) => absent(error),
        }
    }

    /// The folder at the end of a way; `None` where there is none.
    pub(super) fn at(&self, way: &[Vec<u8>]) -> io::Result<Option<Self>> {
        let mut folder = Self(self.0.try_clone()?);
        for name in way {
            match folder.sub(name)? {
                Some(below) => folder = below,
                None => return Ok(None),
            }
        }
        Ok(Some(folder))
    }

    /// A folder in it, made where it is not there.
    pub(super) fn make(&self, name: &str) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.0, name, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        self.sub(name.as_bytes())?.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{name} is there, and is no folder"),
            )
        })
    }

    /// What stands in it, by name.
    pub(super) fn entries(&self) -> io::Result<Vec<FolderEntry>> {
        let mut all = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes().to_vec();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => self.facts(&name)?.map_or(FileKind::Other, |facts| facts.kind),
                known => kind(known),
            };
            all.push(FolderEntry { name, kind });
        }
        all.sort();
        Ok(all)
    }

    /// What is known of a name; `None` where it is not there. A link is a link.
    pub(super) fn facts(&self, name: &[u8]) -> io::Result<Option<FileInfo>> {
        match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(facts(&stat))),
            Err(error) => absent(error),
        }
    }

    /// A file in it, to be read; `None` where there is none of that name, or it is anything else.
    pub(super) fn file(&self, name: &[u8]) -> io::Result<Option<(File, FileInfo)>> {
        // A pipe would wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        self.regular(name, flags)
    }

    /// A file in it, to be read and written, made where it is not there.
    pub(super) fn file_to_write(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = self.regular(name.as_bytes(), flags)?;
        file.map(|(file, _)| file).ok_or_else(|| io::Error::other(format!("{name} is no file")))
    }

    fn regular(&self, name: &[u8], flags: OFlags) -> io::Result<Option<(File, FileInfo)>> {
        let fd = match rustix::fs::openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => fd,
            Err(error) => return absent(error),
        };
        let facts = facts(&rustix::fs::fstat(&fd)?);
        Ok((facts.kind == FileKind::File).then(|| (File::from(fd), facts)))
    }

    /// A file's octets, `most` at most.
    pub(super) fn read(&self, name: &[u8], most: u64) -> io::Result<FileContent> {
        let Some((file, facts)) = self.file(name)? else { return Ok(FileContent::Absent) };
        if facts.size > most {
            return Ok(FileContent::TooLarge);
        }
        let mut octets =
            Vec::with_capacity(usize::try_from(facts.size).unwrap_or(0).saturating_add(1));
        file.take(most.saturating_add(1)).read_to_end(&mut octets)?;
        Ok(if octets.len() as u64 <= most {
            FileContent::Whole(octets, facts)
        } else {
            FileContent::TooLarge
        })
    }

    /// Reads a small file of metadata; empty if there is no such file, or it is too large.
    pub(super) fn note(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        match self.read(name.as_bytes(), most)? {
            FileContent::Whole(octets, _) => Ok(octets),
            FileContent::Absent | FileContent::TooLarge => Ok(Vec::new()),
        }
    }

    /// Writes a new file, in place of an old one that is a remainder.
    pub(super) fn write(
        &self,
        name: &str,
        octets: &[u8],
        modified: Option<UtcMillis>,
    ) -> io::Result<()> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR);
        let fd = match open() {
            Err(rustix::io::Errno::EXIST) => {
                self.remove(name.as_bytes())?;
                open()?
            }
            fd => fd?,
        };
        let mut file = File::from(fd);
        file.write_all(octets)?;
        if let Some(at) = modified {
            let at = Timespec {
                tv_sec: at.0.div_euclid(1000),
                tv_nsec: at.0.rem_euclid(1000) * 1_000_000,
            };
            rustix::fs::futimens(&file, &Timestamps { last_access: at, last_modification: at })?;
        }
        Ok(())
    }

    /// Puts a whole file in the place of another at once.
    pub(super) fn replace(&self, name: &str, octets: &[u8]) -> io::Result<()> {
        let part = format!("{name}.part");
        self.write(&part, octets, None)?;
        self.rename(part.as_bytes(), self, name.as_bytes())
    }

    /// Moves a file into another folder.
    pub(super) fn rename(&self, from: &[u8], folder: &Self, to: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &folder.0, to)?)
    }

    /// Removes a file; one that is not there is no error.
    pub(super) fn remove(&self, name: &[u8]) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a file that must not be there yet; whether it was made.
    pub(super) fn claim(&self, name: &[u8], says: &[u8]) -> io::Result<bool> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(
            &self.0,
            name,
            flags,
            Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH,
        ) {
            Ok(fd) => File::from(fd).write_all(says).map(|()| true),
            Err(rustix::io::Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until all that was written on its file system is on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

/// Nothing of that kind is there: no name, a link, or something else than was asked for.
fn absent<T>(error: rustix::io::Errno) -> io::Result<Option<T>> {
    use rustix::io::Errno;
    if matches!(error, Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::ISDIR) {
        Ok(None)
    } else {
        Err(error.into())
    }
}

fn kind(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Folder,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Other,
    }
}

fn facts(stat: &rustix::fs::Stat) -> FileInfo {
    let millis = i64::try_from(stat.st_mtime_nsec / 1_000_000).unwrap_or(0);
    FileInfo {
        kind: kind(FileType::from_raw_mode(stat.st_mode)),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: UtcMillis(stat.st_mtime.saturating_mul(1000).saturating_add(millis)),
    }
}
