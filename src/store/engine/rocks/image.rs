//! Copies the files of an open store, for tests of what a kill leaves.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Copies the files of a store as they are at one moment, without its lock. `to` must be empty or
/// not exist. Nothing may be committed meanwhile. RocksDB may work in the background: if it changed
/// a file during the copying, all is copied again.
///
/// # Panics
/// If files changed during each of a thousand tries, as when something is committed all the time.
pub(crate) fn copy_store(from: &Path, to: &Path) {
    for _ in 0..1000 {
        let before = files_below(from);
        let copied = before.iter().all(|(path, ..)| {
            let to = to.join(path.strip_prefix(from).unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(path, to).is_ok()
        });
        // RocksDB may have created, changed or deleted a file meanwhile.
        if copied && files_below(from) == before {
            return;
        }
        fs::remove_dir_all(to).unwrap();
    }
    panic!("the files change while they are copied");
}

/// Reads a segment without the zeros at its end, which may have been written ahead.
pub(crate) fn read_without_zeros(segment: &Path) -> Vec<u8> {
    let mut bytes = fs::read(segment).unwrap();
    bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1);
    bytes
}

/// Returns the files below a directory, except its lock, with their lengths and times, sorted.
fn files_below(dir: &Path) -> Vec<(PathBuf, u64, SystemTime)> {
    let (mut all, mut dirs) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for file in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            match file.metadata() {
                Ok(found) if found.is_dir() => dirs.push(file.path()),
                Ok(found) if file.file_name() != "LOCK" => {
                    all.push((file.path(), found.len(), found.modified().unwrap()));
                }
                // The lock, or a file that was deleted meanwhile.
                _ => {}
            }
        }
    }
    all.sort();
    all
}
