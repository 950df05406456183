//! The table `[store]`: the data directory, and the memory and background jobs of the store.

use std::path::PathBuf;

use serde::Deserialize;

use super::{ByteSize, ReportProblem};
use crate::model::limits;
use crate::store::Options;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct StoreSection {
    /// The data directory.
    pub path: PathBuf,
    /// The memory for what was read from table files.
    pub cache: ByteSize,
    /// The memory for rows that are not yet in a table file. They are flushed once they take as
    /// much, and may take a little more until that is done.
    pub write_buffers: ByteSize,
    /// The most background flushes and compactions at a time; `None`: by the number of cores.
    pub jobs: Option<u32>,
}

impl Default for StoreSection {
    fn default() -> Self {
        let options = Options::default();
        Self {
            path: PathBuf::from("/var/lib/restante"),
            cache: byte_size(options.cache_bytes),
            write_buffers: byte_size(options.total_memtable_bytes),
            jobs: None,
        }
    }
}

fn byte_size(bytes: usize) -> ByteSize {
    ByteSize(u64::try_from(bytes).unwrap_or(u64::MAX))
}

pub(super) fn check_store(store: &StoreSection, report: ReportProblem<'_>) {
    if store.cache.0 < limits::MIN_STORE_CACHE_BYTES {
        let problem = "too small: data would leave the cache before it is read again".into();
        report("store", "cache", problem, "write at least \"8 MiB\"");
    }
    if store.write_buffers.0 < limits::MIN_STORE_WRITE_BUFFER_BYTES {
        let problem = "too small: every few messages would be written to a file of their own";
        report("store", "write-buffers", problem.into(), "write at least \"16 MiB\"");
    }
    if store
        .jobs
        .is_some_and(|jobs| !(limits::MIN_STORE_JOBS..=limits::MAX_STORE_JOBS).contains(&jobs))
    {
        let (min, max) = (limits::MIN_STORE_JOBS, limits::MAX_STORE_JOBS);
        report(
            "store",
            "jobs",
            "out of range: with fewer, a flush waits for a compaction; with more, all else is slow"
                .into(),
            &format!("write from {min} to {max}, or leave the key out"),
        );
    }
}
