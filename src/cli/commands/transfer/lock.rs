//! Locks an mbox file as mail programs do: with a file `NAME.lock` beside it, and with fcntl(2).
//!
//! - While both are held, no other mail program that honours them writes into the file.
//! - A reader that may not create `NAME.lock` does without it.
//! - A `NAME.lock` that a killed program left behind is removed if it names a process of this
//!   machine that does not exist any more.

use std::fs::File;
use std::io::{self, Read as _};
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::process::{Pid, test_kill_process};

use super::folder::Folder;
use crate::model::clock::Stopwatch;

/// For both locks together.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A lock file of more bytes never counts as left behind.
const MAX_LOCK_FILE_BYTES: u64 = 1024;

/// Dropping the lock removes `NAME.lock`, unless another program has replaced it; the fcntl lock
/// ends when the file is closed.
#[derive(Debug)]
pub(super) struct Lock<'a> {
    /// The folder, the name and the file; `None` if a reader may not create the file.
    lock_file: Option<(&'a Folder, Vec<u8>, File)>,
}

impl<'a> Lock<'a> {
    /// Takes the lock, whose part by fcntl(2) is exclusive to write, or else shared. Waits up to
    /// `LOCK_TIMEOUT` for other programs.
    ///
    /// # Errors
    /// `WouldBlock` if another program still holds the lock, and those of the system.
    pub(super) fn take(
        folder: &'a Folder,
        name: &[u8],
        file: &File,
        to_write: bool,
    ) -> io::Result<Self> {
        let watch = Stopwatch::start();
        let lock_file = [name, b".lock"].concat();
        let content = format!("{}:{}", std::process::id(), host());
        let held = || {
            let text = format!("{} is locked by another program", String::from_utf8_lossy(name));
            io::Error::new(io::ErrorKind::WouldBlock, text)
        };
        let mut lock = Self { lock_file: None };
        loop {
            match folder.create_new(&lock_file, content.as_bytes()) {
                Ok(Some(created)) => {
                    lock.lock_file = Some((folder, lock_file, created));
                    break;
                }
                Ok(None) => {
                    if let Some(found) = left_behind(folder, &lock_file)? {
                        folder.remove_if_same(&lock_file, &found)?;
                    } else if watch.elapsed() < LOCK_TIMEOUT {
                        std::thread::sleep(LOCK_POLL_INTERVAL);
                    } else {
                        return Err(held());
                    }
                }
                Err(error) if !to_write && is_permission_error(&error) => break,
                Err(error) => return Err(error),
            }
        }
        let operation = if to_write {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        loop {
            match rustix::fs::fcntl_lock(file, operation) {
                Ok(()) => return Ok(lock),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS)
                    if watch.elapsed() < LOCK_TIMEOUT =>
                {
                    std::thread::sleep(LOCK_POLL_INTERVAL);
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => return Err(held()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        if let Some((folder, name, created)) = &self.lock_file {
            // If this fails, a later command removes the file.
            drop(folder.remove_if_same(name, created));
        }
    }
}

fn is_permission_error(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Opens a lock file if it names a process of this machine that does not exist any more.
pub(super) fn left_behind(folder: &Folder, name: &[u8]) -> io::Result<Option<File>> {
    let Some((file, info)) = folder.file(name)? else { return Ok(None) };
    let mut content = Vec::new();
    (&file).take(MAX_LOCK_FILE_BYTES).read_to_end(&mut content)?;
    let content = String::from_utf8_lossy(&content);
    let Some((pid, machine)) = content.trim().split_once(':') else { return Ok(None) };
    let pid = pid.parse().ok().and_then(Pid::from_raw);
    let has_ended = pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH));
    let is_left_behind = info.size <= MAX_LOCK_FILE_BYTES && has_ended && machine == host();
    Ok(is_left_behind.then_some(file))
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
