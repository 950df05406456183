//! Reads and writes files relative to an open folder.
//!
//! Each call, except `Folder::open` and `Folder::create`, resolves names in an open folder and does
//! not follow symbolic links. So a user who can change the folders cannot make the command read or
//! write outside of them.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Timespec, Timestamps};

use crate::model::UtcMillis;

/// A survey (`survey.rs`) skips folders that are deeper below its root.
pub(super) const MAX_FOLDER_DEPTH: usize = 64;

#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileInfo {
    pub(super) kind: FileKind,
    pub(super) size: u64,
    pub(super) modified: UtcMillis,
}

/// What `Folder::read` finds.
#[derive(Debug)]
pub(super) enum FileContent {
    /// There is no regular file of that name.
    Absent,
    /// The file has more bytes than the caller allows.
    TooLarge,
    Whole(Vec<u8>, FileInfo),
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Folder {
    /// Opens the folder that the user of the command named. Symbolic links are followed here.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(CWD, path, FOLDER, Mode::empty())?))
    }

    /// As `open`, but creates the folder and its parents if they do not exist.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Self::open(path)
    }

    /// Opens the folder of this name in this one; `None` if there is none.
    pub(super) fn sub(&self, name: &[u8]) -> io::Result<Option<Self>> {
        match rustix::fs::openat(&self.0, name, FOLDER.union(OFlags::NOFOLLOW), Mode::empty()) {
            Ok(fd) => Ok(Some(Self(fd))),
            Err(error) => absent(error),
        }
    }

    /// Opens the folder at a path below this one; `None` if a part of the path is no folder.
    pub(super) fn at(&self, path: &[Vec<u8>]) -> io::Result<Option<Self>> {
        let mut folder = Self(self.0.try_clone()?);
        for name in path {
            match folder.sub(name)? {
                Some(below) => folder = below,
                None => return Ok(None),
            }
        }
        Ok(Some(folder))
    }

    /// Opens the folder of this name in this one, and creates it if it is missing.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is that of something else.
    pub(super) fn create_sub(&self, name: &str) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.0, name, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        self.sub(name.as_bytes())?.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{name} exists and is not a folder"),
            )
        })
    }

    /// Returns the entries of the folder, sorted by name.
    pub(super) fn entries(&self) -> io::Result<Vec<FolderEntry>> {
        let mut all = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes().to_vec();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => self.info(&name)?.map_or(FileKind::Other, |info| info.kind),
                known => kind(known),
            };
            all.push(FolderEntry { name, kind });
        }
        all.sort();
        Ok(all)
    }

    /// Returns the properties of a file or folder; `None` if there is none of that name. Of a link,
    /// they are those of the link itself.
    pub(super) fn info(&self, name: &[u8]) -> io::Result<Option<FileInfo>> {
        match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(info(&stat))),
            Err(error) => absent(error),
        }
    }

    /// Returns the path that a symbolic link has, without following it; `None` if there is no link
    /// of that name.
    pub(super) fn link(&self, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
        match rustix::fs::readlinkat(&self.0, name, Vec::new()) {
            Ok(path) => Ok(Some(path.into_bytes())),
            Err(rustix::io::Errno::INVAL) => Ok(None),
            Err(error) => absent(error),
        }
    }

    /// Opens a regular file for reading; `None` if there is none of that name.
    pub(super) fn file(&self, name: &[u8]) -> io::Result<Option<(File, FileInfo)>> {
        // Without NONBLOCK, opening a named pipe would wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        self.regular(name, flags)
    }

    /// Opens a regular file, and creates it if it is missing. Its contents are kept.
    pub(super) fn file_to_write(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = self.regular(name.as_bytes(), flags)?;
        file.map(|(file, _)| file)
            .ok_or_else(|| io::Error::other(format!("{name} is not a regular file")))
    }

    fn regular(&self, name: &[u8], flags: OFlags) -> io::Result<Option<(File, FileInfo)>> {
        let fd = match rustix::fs::openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => fd,
            Err(error) => return absent(error),
        };
        let info = info(&rustix::fs::fstat(&fd)?);
        Ok((info.kind == FileKind::File).then(|| (File::from(fd), info)))
    }

    /// Reads a regular file, unless it has more than `max` bytes.
    pub(super) fn read(&self, name: &[u8], max: u64) -> io::Result<FileContent> {
        let Some((file, info)) = self.file(name)? else { return Ok(FileContent::Absent) };
        if info.size > max {
            return Ok(FileContent::TooLarge);
        }
        let mut bytes =
            Vec::with_capacity(usize::try_from(info.size).unwrap_or(0).saturating_add(1));
        file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(if bytes.len() as u64 <= max {
            FileContent::Whole(bytes, info)
        } else {
            FileContent::TooLarge
        })
    }

    /// Returns the bytes of a regular file; none if there is no such file, or if it has more than
    /// `max` bytes.
    pub(super) fn read_metadata(&self, name: &str, max: u64) -> io::Result<Vec<u8>> {
        match self.read(name.as_bytes(), max)? {
            FileContent::Whole(bytes, _) => Ok(bytes),
            FileContent::Absent | FileContent::TooLarge => Ok(Vec::new()),
        }
    }

    /// Writes a new file, with this time of its last change. An old file, which an interrupted
    /// command left behind, is removed first.
    pub(super) fn write(
        &self,
        name: &str,
        bytes: &[u8],
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
        file.write_all(bytes)?;
        if let Some(at) = modified {
            let at = Timespec {
                tv_sec: at.0.div_euclid(1000),
                tv_nsec: at.0.rem_euclid(1000) * 1_000_000,
            };
            rustix::fs::futimens(&file, &Timestamps { last_access: at, last_modification: at })?;
        }
        Ok(())
    }

    /// Writes a file under another name (`NAME.part`), and renames it over the old file.
    pub(super) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let part = format!("{name}.part");
        self.write(&part, bytes, None)?;
        self.rename(part.as_bytes(), self, name.as_bytes())
    }

    /// Renames a file of this folder, and moves it into `folder`. It replaces a file of that name.
    pub(super) fn rename(&self, from: &[u8], folder: &Self, to: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &folder.0, to)?)
    }

    /// Removes a file. It is no error if the file does not exist.
    pub(super) fn remove(&self, name: &[u8]) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a file, unless another file has the name by now. The file is moved aside (to
    /// `NAME.PID`) and looked at there: after a look at `name` itself, another program could still
    /// replace the file. Another file gets its name back. While `file` is open, no other file can
    /// have its inode.
    pub(super) fn remove_if_same(&self, name: &[u8], file: &File) -> io::Result<()> {
        let aside = [name, format!(".{}", std::process::id()).as_bytes()].concat();
        match rustix::fs::renameat(&self.0, name, &self.0, &*aside) {
            Ok(()) => {}
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let moved = rustix::fs::statat(&self.0, &*aside, AtFlags::SYMLINK_NOFOLLOW)?;
        let expected = rustix::fs::fstat(file)?;
        if (moved.st_dev, moved.st_ino) != (expected.st_dev, expected.st_ino) {
            match rustix::fs::linkat(&self.0, &*aside, &self.0, name, AtFlags::empty()) {
                // A third program has created the next file already.
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.remove(&aside)
    }

    /// Creates a file with the mode 0644 less the umask. Returns `None`, and changes nothing, if
    /// the file exists.
    pub(super) fn create_new(&self, name: &[u8], content: &[u8]) -> io::Result<Option<File>> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(
            &self.0,
            name,
            flags,
            Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH,
        ) {
            Ok(fd) => {
                let mut file = File::from(fd);
                file.write_all(content)?;
                Ok(Some(file))
            }
            Err(rustix::io::Errno::EXIST) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes all changes of the folder's file system to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

/// Converts the errors that say that there is no such file or folder to `None`. There may be a link
/// or a file of another kind with that name.
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

fn info(stat: &rustix::fs::Stat) -> FileInfo {
    let millis = i64::try_from(stat.st_mtime_nsec / 1_000_000).unwrap_or(0);
    FileInfo {
        kind: kind(FileType::from_raw_mode(stat.st_mode)),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: UtcMillis(stat.st_mtime.saturating_mul(1000).saturating_add(millis)),
    }
}
