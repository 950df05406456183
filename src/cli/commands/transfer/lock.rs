//! The locks of an mbox file, as mail programs take them: a file `NAME.lock` beside it, and
//! fcntl(2) on itself. While they are held, nobody delivers into it.
//!
//! Where no `NAME.lock` may be made, a reader does without it. One that a program left behind when
//! it was killed is taken away where it names a process of this machine that is no more.

use std::fs::File;
use std::io;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::process::{Pid, test_kill_process};

use super::folder::{FileContent, Folder};
use crate::model::clock::Stopwatch;

/// How long somebody else may hold it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Octets of a lock that are looked at.
const MAX_LOCK_FILE_BYTES: u64 = 1024;

/// A locked mailbox file; dropped, it is free. The locks on the file itself go with the file.
#[derive(Debug)]
pub(super) struct Lock<'a> {
    metadata_files: Option<(&'a Folder, Vec<u8>)>,
}

impl<'a> Lock<'a> {
    /// Locks a file in a folder, to read it or to write into it; waits for others up to 30 seconds.
    ///
    /// # Errors
    /// Those of the system, and `WouldBlock` where somebody holds it.
    pub(super) fn take(
        folder: &'a Folder,
        name: &[u8],
        file: &File,
        to_write: bool,
    ) -> io::Result<Self> {
        let watch = Stopwatch::start();
        let metadata_files = [name, b".lock"].concat();
        let says = format!("{}:{}", std::process::id(), host());
        let held = || {
            let what = format!("{} is locked by another program", String::from_utf8_lossy(name));
            io::Error::new(io::ErrorKind::WouldBlock, what)
        };
        let mut lock = Self { metadata_files: None };
        loop {
            match folder.claim(&metadata_files, says.as_bytes()) {
                Ok(true) => {
                    lock.metadata_files = Some((folder, metadata_files));
                    break;
                }
                Ok(false) if is_left_behind(folder, &metadata_files)? => {
                    folder.remove(&metadata_files)?
                }
                Ok(false) if watch.elapsed() < LOCK_TIMEOUT => {
                    std::thread::sleep(LOCK_POLL_INTERVAL)
                }
                Ok(false) => return Err(held()),
                Err(error) if !to_write && no_right(&error) => break,
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
        if let Some((folder, name)) = &self.metadata_files {
            // It names a process that will be no more: the next one takes it away.
            drop(folder.remove(name));
        }
    }
}

fn no_right(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Whether it names a process of this machine that is no more.
fn is_left_behind(folder: &Folder, name: &[u8]) -> io::Result<bool> {
    let FileContent::Whole(says, _) = folder.read(name, MAX_LOCK_FILE_BYTES)? else {
        return Ok(false);
    };
    let says = String::from_utf8_lossy(&says);
    let Some((pid, at)) = says.trim().split_once(':') else { return Ok(false) };
    let pid = pid.parse().ok().and_then(Pid::from_raw);
    let gone = pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH));
    Ok(gone && at == host())
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
