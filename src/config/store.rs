//! `[store]`: where the data are, and what the store may take of memory and cores.

use std::path::PathBuf;

use serde::Deserialize;

use super::ByteSize;
use crate::model::limits;
use crate::store::Options;

/// `[store]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct StoreSection {
    /// The data directory.
    pub path: PathBuf,
    /// The largest block cache.
    pub cache: ByteSize,
    /// The most memory for rows that are not in a table file yet.
    pub write_buffers: ByteSize,
    /// Flushes and compactions at once; `None` is by the machine's cores.
    pub jobs: Option<u32>,
}

impl Default for StoreSection {
    fn default() -> Self {
        let options = Options::default();
        Self {
            path: PathBuf::from("/var/lib/restante"),
            cache: ByteSize(octets(options.cache_bytes)),
            write_buffers: ByteSize(octets(options.total_memtable_bytes)),
            jobs: None,
        }
    }
}

fn octets(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// What the values of `[store]` mean.
pub(super) fn check(store: &StoreSection, fault: &mut dyn FnMut(&str, &str, String, &str)) {
    if store.cache.0 < limits::MIN_STORE_CACHE_BYTES {
        let problem = "too small: what one question reads would not stay for the next".into();
        fault("store", "cache", problem, "write at least \"8 MiB\"");
    }
    if store.write_buffers.0 < limits::MIN_STORE_WRITE_BUFFER_BYTES {
        let problem = "too small: every few messages would be a file of their own".into();
        fault("store", "write-buffers", problem, "write at least \"16 MiB\"");
    }
    if store
        .jobs
        .is_some_and(|jobs| !(limits::MIN_STORE_JOBS..=limits::MAX_STORE_JOBS).contains(&jobs))
    {
        let (least, most) = (limits::MIN_STORE_JOBS, limits::MAX_STORE_JOBS);
        let problem =
            "a flush would wait behind a compaction, or they would crowd out everything else"
                .into();
        fault(
            "store",
            "jobs",
            problem,
            &format!("write from {least} to {most}, or leave the key out"),
        );
    }
}
