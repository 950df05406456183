//! The options of RocksDB for the database and for each table.

use rocksdb::statistics::StatsLevel;
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ColumnFamilyDescriptor, DBCompressionType,
    DBRecoveryMode, DataBlockIndexType,
};

use super::journal;
use crate::store::Options;
use crate::store::engine::Table;
use crate::store::table::Tuning;

const MIB: usize = 1 << 20;
/// How long RocksDB waits before it writes a file again only to leave out sequence numbers.
const REWRITE_DELAY_SECONDS: u32 = 24 * 60 * 60;

/// Returns the options of the database, and a column family for each table and for the position of
/// the journal.
pub(super) fn database_options(
    settings: &Options,
) -> (rocksdb::Options, Vec<ColumnFamilyDescriptor>) {
    // The journal has what is not flushed when the database is closed.
    let mut options = default_options_with("avoid_flush_during_shutdown=true");
    // RocksDB's own log has only what an earlier version or `journal::begin` wrote. Its last record
    // may be torn. But if the log is missing, or shorter than what was synced, it is damaged.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_paranoid_checks(true);
    // Files must have every row up to the position that is in files (`journal`).
    options.set_atomic_flush(true);
    // Only one thread writes at a time, under the lock of the journal.
    options.set_allow_concurrent_memtable_write(false);
    options.set_db_write_buffer_size(settings.total_memtable_bytes);
    options.set_max_background_jobs(i32::try_from(settings.jobs).unwrap_or(i32::MAX));
    options.set_bytes_per_sync(1 << 20);
    options.set_keep_log_file_num(4);
    options.set_max_open_files(512);
    options.enable_statistics();
    options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    let cache = Cache::new_lru_cache(settings.cache_bytes);
    let families = Table::ALL.iter().map(|table| {
        ColumnFamilyDescriptor::new(table.name(), table_options(*table, settings, &cache))
    });
    let journal = ColumnFamilyDescriptor::new(journal::FAMILY, rocksdb::Options::default());
    (options, families.chain([journal]).collect())
}

/// Returns the options of one table, by what its declaration says of its rows.
fn table_options(table: Table, settings: &Options, cache: &Cache) -> rocksdb::Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_size(16 << 10);
    blocks.set_bloom_filter(10.0, false);
    blocks.set_block_cache(cache);
    // Indexes and filters are partitioned, and each partition is cached by itself: the filter of a
    // whole file of small rows is larger than a shard of the cache, so megabytes would be read
    // again for every lookup.
    blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    blocks.set_partition_filters(true);
    blocks.set_pin_top_level_index_and_filter(true);
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    if table.has_tuning(Tuning::LargeValues) {
        // A block has about twenty small messages. With a restart point at every second one, a
        // lookup decodes at most one other message.
        blocks.set_block_restart_interval(2);
    }
    if table.has_tuning(Tuning::ByKey) {
        blocks.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    }
    let mut options = special_options(table);
    options.set_block_based_table_factory(&blocks);
    options.set_write_buffer_size(settings.memtable_bytes);
    options.set_max_write_buffer_number(4);
    // Until they are merged, a scan looks into each of the files of level 0. With more of them a
    // row is written again less often.
    let seldom_scanned = table.has_tuning(Tuning::SeldomScanned);
    options.set_level_zero_file_num_compaction_trigger(if seldom_scanned { 8 } else { 4 });
    options.set_level_zero_slowdown_writes_trigger(40);
    options.set_level_zero_stop_writes_trigger(60);
    // Merging the files of level 0 rewrites most of the level below. So it must not be many times
    // as large as they are together, which is 4 to 40 MB. Files of lower levels are larger, so that
    // a large table has fewer of them.
    let (level_mib, file_mib) =
        if table.has_tuning(Tuning::MostBytes) { (256, 64) } else { (64, 16) };
    options.set_max_bytes_for_level_base((level_mib * MIB) as u64);
    options.set_target_file_size_base((file_mib * MIB) as u64);
    options.set_target_file_size_multiplier(2);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_bottommost_compression_type(DBCompressionType::Zstd);
    // Level 1 of Zstd. The other numbers are RocksDB's defaults.
    options.set_bottommost_compression_options(-14, 1, 0, 0, true);
    if table.has_tuning(Tuning::OftenMissing) {
        options.set_memtable_prefix_bloom_ratio(0.02);
        options.set_memtable_whole_key_filtering(true);
    }
    if table.has_tuning(Tuning::Queue) {
        // Rows are deleted in the order in which they were added, so a reader of the first row
        // would step over all deleted ones. A file is compacted if 512 of 1,024 neighbouring
        // entries, or half of all, are deletions.
        options.add_compact_on_deletion_collector_factory(1024, 512, 0.5);
    }
    if table.has_tuning(Tuning::NewestFirst) {
        // A file is compacted for its deletions only if 3,900 of 4,096 neighbouring entries are
        // deletions: new emails in threads leave some, which do not justify rewriting a file.
        options.add_compact_on_deletion_collector_factory(4096, 3900, 0.0);
    }
    if table.has_tuning(Tuning::Incompressible) {
        // Hashes do not compress, and folds replace these rows soon.
        options.set_compression_type(DBCompressionType::None);
        options.set_bottommost_compression_type(DBCompressionType::None);
    }
    if table.has_tuning(Tuning::Messages) {
        // Longer messages in rows, which earlier versions wrote, are in RocksDB's blob files, so
        // that compaction does not write them again.
        options.set_enable_blob_files(true);
        options.set_min_blob_size(1024);
        options.set_blob_file_size(256 * MIB as u64);
        options.set_blob_compression_type(DBCompressionType::Lz4);
        options.set_enable_blob_gc(true);
    }
    options
}

/// Returns options of a table that the binding has no functions for.
///
/// - If rows come in order, there are hints for insertions into the table in memory: RocksDB then
///   begins to look for the place of a row where the one before it was inserted. Each different
///   beginning of a key takes about 200 bytes in the table in memory.
/// - RocksDB writes a file again as soon as no snapshot needs its sequence numbers any more, to
///   leave them out. With a delay, most files are merged for other reasons before that. Otherwise
///   it would write each flushed file of a new store twice.
fn special_options(table: Table) -> rocksdb::Options {
    let mut text = format!("bottommost_file_compaction_delay={REWRITE_DELAY_SECONDS}");
    let prefix = table.tunings().iter().find_map(|tuning| match tuning {
        Tuning::OrderedAfter(bytes) => Some(*bytes),
        _ => None,
    });
    if let Some(bytes) = prefix {
        text += &format!(";memtable_insert_with_hint_prefix_extractor=rocksdb.FixedPrefix.{bytes}");
    }
    default_options_with(&text)
}

/// Returns the default options with some that the binding has no functions for. They must be such
/// that without them everything is the same but slower.
fn default_options_with(option: &str) -> rocksdb::Options {
    let mut options = rocksdb::Options::default();
    match options.get_options_from_string(option) {
        Ok(changed) => changed,
        Err(error) => {
            tracing::warn!(option, %error, "options of RocksDB are not set");
            options
        }
    }
}
