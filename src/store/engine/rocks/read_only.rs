//! A store that is opened for reading only: no file is created or changed. The rows that only the
//! journal has are kept in memory.

use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocksdb::DB;

use super::journal::unflushed_rows;
use super::{family, io, open_error, read_options, scan, tuning};
use crate::store::Options;
use crate::store::engine::overlay::{Overlay, StagedRows, scan_merged};
use crate::store::engine::segments::Segments;
use crate::store::engine::{Batch, Engine, RowFn, RowReader, Statistics, Table};
use crate::store::error::Error;

/// Opens the store in a directory for reading, without creating or changing a file.
///
/// # Errors
/// `Open`, also while another process has the store open for writing.
pub(in crate::store) fn open_read_only(
    dir: &Path,
    settings: &Options,
) -> Result<Arc<dyn Engine>, Error> {
    let lock = match File::open(dir.join("LOCK")) {
        Ok(file) => {
            // RocksDB takes an exclusive lock of the same kind on this file.
            rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockShared)
                .map_err(|error| open_error(&format!("While lock file: {error}")))?;
            Some(file)
        }
        // There is no store, as RocksDB then says, or it is a copy without the lock.
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(open_error(&error)),
    };
    let (options, families) = tuning::database_options(settings);
    let db = DB::open_cf_descriptors_read_only(&options, dir, families, false)
        .map_err(|error| open_error(&error))?;
    let segments = Segments::open(dir, settings, true)?;
    let unflushed = unflushed_rows(&db, &segments)?;
    Ok(Arc::new(ReadOnlyEngine { tables: Tables { db, segments }, unflushed, _lock: lock }))
}

/// An open store that does not change.
struct ReadOnlyEngine {
    tables: Tables,
    /// Rows that are in the journal and not in the tables; `None` for a deleted one.
    unflushed: StagedRows,
    /// Keeps writers out: RocksDB takes no lock for a store that is opened for reading. `None` if
    /// the store has no lock file.
    _lock: Option<File>,
}

/// The rows in the tables' files.
struct Tables {
    db: DB,
    segments: Segments,
}

impl fmt::Debug for ReadOnlyEngine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ReadOnlyEngine")
            .field("path", &self.tables.db.path())
            .finish_non_exhaustive()
    }
}

impl RowReader for Tables {
    fn segments(&self) -> Option<&Segments> {
        Some(&self.segments)
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.db.get_cf(family(&self.db, table.name())?, key).map_err(|error| io(&error))
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error> {
        if from >= to {
            return Ok(());
        }
        let family = family(&self.db, table.name())?;
        let rows = self.db.raw_iterator_cf_opt(family, read_options(from, to));
        scan(rows, [from, to], reverse, each)
    }
}

impl RowReader for ReadOnlyEngine {
    fn segments(&self) -> Option<&Segments> {
        self.tables.segments()
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        match self.unflushed.get(&(table, key.to_vec())) {
            Some(row) => Ok(row.clone()),
            None => self.tables.get(table, key),
        }
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error> {
        if from >= to {
            return Ok(());
        }
        let overlay = Overlay::of(&[], &self.unflushed, table, [from, to], reverse);
        scan_merged(&self.tables, overlay, table, [from, to], each)
    }
}

impl Engine for ReadOnlyEngine {
    fn snapshot(&self) -> Box<dyn RowReader + '_> {
        // The store does not change.
        Box::new(self)
    }

    fn write(&self, _batches: &[Arc<Batch>]) -> Result<Vec<usize>, Error> {
        Err(Error::Io("the store is open for reading only".into()))
    }

    fn directory(&self) -> Option<PathBuf> {
        Some(self.tables.db.path().to_path_buf())
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }

    #[cfg(any(test, feature = "internals"))]
    fn usage(&self, _table: Table) -> crate::store::engine::Usage {
        crate::store::engine::Usage::default()
    }
}
