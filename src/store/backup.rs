//! Backups: copies of the whole store in a directory that holds many of them, each of which takes
//! only what the ones before it have not; and a store made of one of them.
//!
//! A directory of backups has a mark that names its store, and is refused where it has none and is
//! not empty, where it is another store's, or where it lies in the store. Each backup is proved
//! when it is made, and whole or not there: a process that is killed meanwhile leaves the older
//! ones as they are. A store that was restored has another epoch: clients whose states are of the
//! line of history that was left are refused, and begin anew.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::Store;
pub use super::engine::Backup;
use super::error::Error;

/// In a directory of backups: whose it is.
const MARK: &str = "RESTANTE-BACKUP";

impl Store {
    /// Makes a backup, proves it, and lets go of all but the newest `keep`. Deliveries go on.
    /// `tell` hears the octets that were written so far, and cannot stop it.
    ///
    /// # Errors
    /// `Conflict` for a directory that does not serve, with the reason; `Io`.
    pub fn backup(
        &self,
        dir: &Path,
        keep: Option<usize>,
        tell: &mut (dyn FnMut(u64) -> bool + Send),
    ) -> Result<Backup, Error> {
        if keep == Some(0) {
            return Err(Error::Conflict("at least one backup must be kept".into()));
        }
        self.check_directory(dir)?;
        let before = octets_in(dir);
        let over = std::sync::atomic::AtomicBool::new(false);
        let made = std::thread::scope(|scope| {
            // RocksDB says nothing while it copies: what is there already is counted.
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    std::thread::sleep(std::time::Duration::from_millis(200));
                    let _heard = tell(octets_in(dir).saturating_sub(before));
                }
            });
            let made = self.0.engine.backup(dir);
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            made
        })?;
        let written = octets_in(dir).saturating_sub(before);
        if let Some(keep) = keep {
            self.0.engine.drop_backups(dir, keep)?;
        }
        Ok(Backup { written, ..made })
    }

    /// Whose backups they are: the store's secrets stay what they are when it is restored.
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

    fn check_directory(&self, dir: &Path) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::Conflict(format!("{}: {error}", dir.display()));
        let refused = |why: &str| Err(Error::Conflict(format!("{}: {why}", dir.display())));
        if let Some(store) = self.0.engine.directory() {
            let data = fs::canonicalize(store.parent().unwrap_or(&store)).map_err(failed)?;
            // What is not there yet lies where the part of it lies that is.
            let there = dir.ancestors().find_map(|above| fs::canonicalize(above).ok());
            if there.is_some_and(|there| there.starts_with(&data)) {
                return refused("it lies in the data directory: a backup must survive that");
            }
        }
        let own = format!("{}\n", self.identity());
        match fs::read_to_string(dir.join(MARK)) {
            Ok(known) if known == own => return Ok(()),
            Ok(_) => return refused("it holds the backups of another store"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        if dir.try_exists().map_err(failed)? {
            if fs::read_dir(dir).map_err(failed)?.next().is_some() {
                return refused("it is not empty, and holds no backups of ours");
            }
        } else {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        }
        fs::write(dir.join(MARK), own).map_err(failed)
    }
}

/// Octets of the files under a directory.
fn octets_in(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => octets_in(&entry.path()),
            Ok(about) => about.len(),
            Err(_) => 0,
        })
        .sum()
}

/// The backups in a directory, oldest first.
///
/// # Errors
/// `Conflict` where it is no directory of backups; `Io`.
pub fn list(dir: &Path) -> Result<Vec<Backup>, Error> {
    marked(dir)?;
    disk::list(dir)
}

/// Proves that a backup is whole: every file is there, and every octet of it as it was written.
///
/// # Errors
/// `Conflict` where it is no directory of backups; `NotFound`; `Io` with what is wrong.
pub fn verify(dir: &Path, id: u32) -> Result<(), Error> {
    marked(dir)?;
    disk::verify(dir, id)
}

/// Makes a store of a backup (`None`: the newest) in `to`, which must be empty or not there, with
/// an epoch of its own; says of which backup. The store is there whole or not at all.
///
/// # Errors
/// As for `verify`; `Conflict` where `to` does not serve.
pub fn restore(dir: &Path, id: Option<u32>, to: &Path) -> Result<Backup, Error> {
    let all = list(dir)?;
    let backup = match id {
        Some(id) => all.iter().find(|backup| backup.id == id),
        None => all.last(),
    };
    let backup = *backup.ok_or(Error::NotFound("backup"))?;
    let failed = |error: std::io::Error| Error::Conflict(format!("{}: {error}", to.display()));
    let parent = to.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    if to.try_exists().map_err(failed)? && fs::read_dir(to).map_err(failed)?.next().is_some() {
        return Err(Error::Conflict(format!("{}: it is not empty", to.display())));
    }
    verify(dir, backup.id)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&parent).map_err(failed)?;
    let half = partial_restore(to);
    if half.try_exists().map_err(failed)? {
        // Of an earlier attempt that was killed.
        fs::remove_dir_all(&half).map_err(failed)?;
    }
    fs::DirBuilder::new().mode(0o700).create(&half).map_err(failed)?;
    make(dir, backup.id, &half)?;
    if to.try_exists().map_err(failed)? {
        fs::remove_dir(to).map_err(failed)?;
    }
    fs::rename(&half, to).map_err(failed)?;
    fs::File::open(&parent).and_then(|parent| parent.sync_all()).map_err(failed)?;
    Ok(backup)
}

/// Where a store of a backup is made before it is whole: what lies there is of a restore that was
/// killed.
#[must_use]
pub fn partial_restore(to: &Path) -> PathBuf {
    let name = to.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    to.with_file_name(format!("{name}.restoring"))
}

fn marked(dir: &Path) -> Result<(), Error> {
    if dir.join(MARK).is_file() {
        Ok(())
    } else {
        Err(Error::Conflict(format!("{}: no backups of a store of ours are there", dir.display())))
    }
}

#[cfg(feature = "rocksdb")]
use super::engine::rocks::backup as disk;

/// A store of a backup, with another epoch.
#[cfg(feature = "rocksdb")]
fn make(dir: &Path, id: u32, to: &Path) -> Result<(), Error> {
    super::version::renew_epoch(&disk::restore(dir, id, to)?)
}

#[cfg(not(feature = "rocksdb"))]
use disk::restore as make;

/// Without RocksDB no store has a disk.
#[cfg(not(feature = "rocksdb"))]
mod disk {
    use super::{Backup, Error, Path};

    fn none<T>() -> Result<T, Error> {
        Err(Error::Conflict(
            "this program was built without RocksDB: it knows no store on a disk".into(),
        ))
    }

    pub(super) fn list(_: &Path) -> Result<Vec<Backup>, Error> {
        none()
    }

    pub(super) fn verify(_: &Path, _: u32) -> Result<(), Error> {
        none()
    }

    pub(super) fn restore(_: &Path, _: u32, _: &Path) -> Result<(), Error> {
        none()
    }
}

#[cfg(test)]
#[cfg(feature = "rocksdb")]
mod tests;
