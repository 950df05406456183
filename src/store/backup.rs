//! Makes, lists and verifies backups of the whole store, and restores a store from one.
//!
//! - A directory holds many backups. Each adds only the files that earlier ones do not have.
//! - The directory has a mark that identifies its store.
//! - A restored store has a new epoch, so that states that clients got after the backup are
//!   refused.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::Store;
pub use super::engine::Backup;
use super::error::Error;

/// The file that marks a directory of backups. It has the identity of their store.
const MARK: &str = "RESTANTE-BACKUP";

impl Store {
    /// Makes a backup, and deletes those older than the newest `keep` whole ones, this one counted
    /// (`None`: deletes none). Only the sizes of the tables' files are verified: see `verify`.
    /// `on_progress` gets the bytes written so far, on a thread of its own; its result is ignored.
    ///
    /// # Errors
    /// `Conflict` if `keep` is 0, or if the directory cannot be used; `Full`; `Io`.
    pub fn backup(
        &self,
        dir: &Path,
        keep: Option<usize>,
        on_progress: &mut (dyn FnMut(u64) -> bool + Send),
    ) -> Result<Backup, Error> {
        if keep == Some(0) {
            return Err(Error::Conflict("at least one backup must be kept".into()));
        }
        self.prepare_directory(dir)?;
        let _lock = lock(dir)?;
        let before = bytes_in(dir);
        let is_done = std::sync::atomic::AtomicBool::new(false);
        let backup = std::thread::scope(|scope| {
            // RocksDB reports no progress, so the files in the directory are measured.
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    std::thread::sleep(std::time::Duration::from_millis(200));
                    let _ignored = on_progress(bytes_in(dir).saturating_sub(before));
                }
            });
            let backup = self.0.engine.backup(dir);
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
            backup
        })?;
        let written = bytes_in(dir).saturating_sub(before);
        if let Some(keep) = keep {
            self.0.engine.drop_backups(dir, keep)?;
        }
        Ok(Backup { written, ..backup })
    }

    /// The identity of the store for the mark. A restore does not change it.
    fn identity(&self) -> String {
        let secrets = self.secrets();
        let mut hasher = blake3::Hasher::new_derive_key("restante 2026-11 identity of a store");
        for secret in
            [&secrets.threads[..], &secrets.told[..], &secrets.words[..], &secrets.ranks[..]]
        {
            hasher.update(secret);
        }
        hasher.finalize().to_hex().chars().take(32).collect()
    }

    /// Checks that a directory can be used for backups of this store. Creates and marks it if
    /// needed.
    fn prepare_directory(&self, dir: &Path) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::Conflict(unusable(dir, &error));
        let refused = |why: &str| Err(Error::Conflict(format!("{}: {why}", dir.display())));
        // The data directory is the parent of the store's directory.
        if let Some(store_dir) = self.0.engine.directory() {
            let data_dir =
                fs::canonicalize(store_dir.parent().unwrap_or(&store_dir)).map_err(failed)?;
            // The directory may not exist yet.
            let existing = dir.ancestors().find_map(|above| fs::canonicalize(above).ok());
            if existing.is_some_and(|existing| existing.starts_with(&data_dir)) {
                return refused("it lies in the data directory, whose loss a backup must survive");
            }
        }
        let own = format!("{}\n", self.identity());
        match fs::read_to_string(dir.join(MARK)) {
            Ok(mark) if mark == own => return Ok(()),
            Ok(_) => return refused("it holds the backups of another store"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        if dir.try_exists().map_err(failed)? {
            if fs::read_dir(dir).map_err(failed)?.next().is_some() {
                return refused("it is not empty, and holds no backups of this store");
            }
        } else {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        }
        fs::write(dir.join(MARK), own).map_err(failed)
    }
}

/// Locks the mark of a directory until the result is dropped: a store and its restored copy may use
/// the same directory, but not at the same time.
fn lock(dir: &Path) -> Result<fs::File, Error> {
    let failed = |error: std::io::Error| Error::Conflict(unusable(dir, &error));
    let mark = fs::File::open(dir.join(MARK)).map_err(failed)?;
    match mark.try_lock() {
        Err(fs::TryLockError::WouldBlock) => {
            let dir = dir.display();
            Err(Error::Conflict(format!("{dir}: another backup is being made in it")))
        }
        // Some file systems have no locks.
        Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(mark),
    }
}

/// Says why a directory cannot be used for backups. Under systemd, a directory that the unit does
/// not name gives `ReadOnlyFilesystem`.
fn unusable(dir: &Path, error: &std::io::Error) -> String {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let dir = dir.display();
    match error.kind() {
        PermissionDenied | ReadOnlyFilesystem => format!(
            "the service may not write to {dir}: give {dir} to its user, and see ReadWritePaths \
             in docs/operate.md"
        ),
        _ => format!("{dir}: {error}"),
    }
}

/// The total size in bytes of the files below a directory. What cannot be read counts as 0.
fn bytes_in(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Returns the backups in a directory, oldest first. One that is not whole, or lacks a file of the
/// tables, is left out.
///
/// # Errors
/// `Conflict` if it is not a directory of backups; `Io`.
pub fn list(dir: &Path) -> Result<Vec<Backup>, Error> {
    check_mark(dir)?;
    engine_backups::list(dir)
}

/// Returns the ids of the backups that `list` leaves out, ascending.
///
/// # Errors
/// `Conflict` if it is not a directory of backups; `Io`.
pub fn list_incomplete(dir: &Path) -> Result<Vec<u32>, Error> {
    check_mark(dir)?;
    engine_backups::list_incomplete(dir)
}

/// Verifies a backup: every file is there, and has the checksum with which it was written.
///
/// # Errors
/// `Conflict` if it is not a directory of backups; `NotFound` if it has no such backup; `Io` with
/// what is wrong.
pub fn verify(dir: &Path, id: u32) -> Result<(), Error> {
    check_mark(dir)?;
    engine_backups::verify(dir, id)
}

/// Verifies a backup (`None`: the newest that `list` returns) and restores it to `to`, which must
/// be empty or not exist. If the restore is interrupted, there is no store in `to`.
///
/// # Errors
/// Those of `verify`; `NotFound` if the directory has no backup; `Conflict` if `to` cannot be used;
/// `Full` or `Io` of writing; `Open` if the restored store cannot be opened.
pub fn restore(dir: &Path, id: Option<u32>, to: &Path) -> Result<Backup, Error> {
    let all = list(dir)?;
    let missing = || Error::NotFound("backup");
    let id = id.or_else(|| all.last().map(|backup| backup.id)).ok_or_else(missing)?;
    let failed = |error: std::io::Error| Error::Conflict(format!("{}: {error}", to.display()));
    let parent = to.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    if to.try_exists().map_err(failed)? && fs::read_dir(to).map_err(failed)?.next().is_some() {
        return Err(Error::Conflict(format!("{}: it is not empty", to.display())));
    }
    verify(dir, id)?;
    let backup = *all.iter().find(|backup| backup.id == id).ok_or_else(missing)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&parent).map_err(failed)?;
    let partial = partial_restore(to);
    if partial.try_exists().map_err(failed)? {
        // An earlier restore was killed.
        fs::remove_dir_all(&partial).map_err(failed)?;
    }
    fs::DirBuilder::new().mode(0o700).create(&partial).map_err(failed)?;
    restore_files(dir, backup.id, &partial)?;
    if to.try_exists().map_err(failed)? {
        fs::remove_dir(to).map_err(failed)?;
    }
    fs::rename(&partial, to).map_err(failed)?;
    fs::File::open(&parent).and_then(|parent| parent.sync_all()).map_err(failed)?;
    Ok(backup)
}

/// The directory to which a restore writes until the store is whole.
#[must_use]
pub fn partial_restore(to: &Path) -> PathBuf {
    let name = to.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    to.with_file_name(format!("{name}.restoring"))
}

fn check_mark(dir: &Path) -> Result<(), Error> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match fs::metadata(dir.join(MARK)) {
        Ok(mark) if mark.is_file() => Ok(()),
        Err(error) if !matches!(error.kind(), NotFound | NotADirectory) => {
            Err(Error::Io(format!("{}: it cannot be read: {error}", dir.display())))
        }
        _ => Err(Error::Conflict(format!("{}: it holds no backups of Restante", dir.display()))),
    }
}

#[cfg(feature = "rocksdb")]
use super::engine::rocks::backup as engine_backups;

#[cfg(feature = "rocksdb")]
fn restore_files(dir: &Path, id: u32, to: &Path) -> Result<(), Error> {
    super::version::renew_epoch(&engine_backups::restore(dir, id, to)?)
}

#[cfg(not(feature = "rocksdb"))]
use engine_backups::restore as restore_files;

/// For a program without RocksDB, which has no store on a disk.
#[cfg(not(feature = "rocksdb"))]
mod engine_backups {
    use super::{Backup, Error, Path};

    fn refuse<T>() -> Result<T, Error> {
        Err(Error::Conflict(
            "this program was built without RocksDB and cannot read a store on a disk".into(),
        ))
    }

    pub(super) fn list(_: &Path) -> Result<Vec<Backup>, Error> {
        refuse()
    }

    pub(super) fn list_incomplete(_: &Path) -> Result<Vec<u32>, Error> {
        refuse()
    }

    pub(super) fn verify(_: &Path, _: u32) -> Result<(), Error> {
        refuse()
    }

    pub(super) fn restore(_: &Path, _: u32, _: &Path) -> Result<(), Error> {
        refuse()
    }
}

#[cfg(test)]
#[cfg(feature = "rocksdb")]
mod tests;

#[cfg(test)]
mod mark_tests {
    use super::*;

    #[test]
    fn directory_that_cannot_be_read_is_not_one_without_backups() {
        let dir = tempfile::tempdir().unwrap();
        let no_backups = |path: &Path| matches!(list(path), Err(Error::Conflict(_)));
        assert!(no_backups(dir.path()) && no_backups(&dir.path().join("missing")));
        // Also root, who may read every directory, cannot follow a link to itself.
        std::os::unix::fs::symlink(MARK, dir.path().join(MARK)).unwrap();
        match list(dir.path()) {
            Err(Error::Io(text)) => assert!(text.contains("it cannot be read"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}
