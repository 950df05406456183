//! Segments: appending and reading, damaged files, guards and deletion, syncs, backups, and the
//! log.

use std::os::unix::fs::FileExt as _;

use super::file::CHUNK_BYTES;
use super::log::{LogKind, LogPlace};
use super::*;

mod stream;

/// With 1 for `max_bytes`, a segment is full after one value.
fn options(max_bytes: u64) -> Options {
    Options { segment_bytes: max_bytes, ..Options::small() }
}

fn open(dir: &Path) -> Segments {
    Segments::open(dir, &options(1 << 20), false).unwrap()
}

/// Returns bytes that differ with the seed.
fn value(length: usize, seed: u8) -> Vec<u8> {
    (0..=u8::MAX).cycle().map(|byte| byte.wrapping_mul(31) ^ seed).take(length).collect()
}

fn read(segments: &Segments, extent: &Extent, range: Range<u64>) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    segments.read(extent, &range, &mut out).map(|()| out)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(dir.join(DIRECTORY)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn parts_of_values_are_read_also_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let lengths = [0, 1, 4096, 65_536, 131_071, 131_072, 131_073, 400_000];
    let segments = open(dir.path());
    let values: Vec<_> =
        lengths.iter().zip(0..).map(|(length, seed)| value(*length, seed)).collect();
    let extents: Vec<_> =
        values.iter().map(|value| segments.append(&[7; 32], value).unwrap()).collect();
    segments.sync().unwrap();
    let check = |segments: &Segments| {
        for (value, extent) in values.iter().zip(&extents) {
            let length = value.len();
            for range in [0..length, 0..1, 1..length, length / 2..length, 131_060..131_090, 5..5] {
                let wanted =
                    value.get(range.start.min(length)..range.end.min(length)).unwrap_or_default();
                let range = range.start as u64..range.end as u64;
                assert_eq!(read(segments, extent, range).unwrap(), wanted);
            }
            assert_eq!(read(segments, extent, 0..u64::MAX).unwrap(), *value);
            assert!(segments.contains(extent));
        }
    };
    check(&segments);
    drop(segments);
    let again = open(dir.path());
    check(&again);
    // A new process appends to a new segment.
    let new = again.append(&[8; 32], b"new").unwrap();
    assert!(extents.iter().all(|extent| extent.segment < new.segment));
    assert_eq!(read(&again, &new, 0..9).unwrap(), b"new");
}

#[test]
fn a_frame_of_any_length_is_read_as_it_was_written() {
    let file = tempfile::tempfile().unwrap();
    let chunk = usize::try_from(CHUNK_BYTES).unwrap();
    for length in [0, 1, chunk - 1, chunk, chunk + 1, 5 * chunk + 7] {
        let value = value(length, 3);
        write_frame(&file, 7, &[9; 32], &value).unwrap();
        let mut read = Vec::new();
        read_frame(&file, 7, length as u64, &(0..u64::MAX), &mut read).unwrap();
        assert!(read == value, "{length}");
        assert!(file.metadata().unwrap().len() >= 7 + frame_length(length as u64));
    }
}

#[test]
fn a_full_segment_is_followed_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let segments = Segments::open(dir.path(), &options(10_000), false).unwrap();
    let extents: Vec<_> =
        (0..40).map(|seed| segments.append(&[0; 32], &value(1000, seed)).unwrap()).collect();
    segments.sync().unwrap();
    // A value takes 1,048 bytes with its frame, so a segment is full after ten values.
    assert_eq!(files(dir.path()).len(), 4);
    assert_eq!(segments.usage().iter().filter(|one| !one.is_sealed).count(), 1);
    for (extent, seed) in extents.iter().zip(0..) {
        assert_eq!(read(&segments, extent, 0..9999).unwrap(), value(1000, seed));
    }
    // A value that is longer than a segment gets its place, too.
    let large = segments.append(&[0; 32], &value(50_000, 1)).unwrap();
    assert_eq!(read(&segments, &large, 0..99_999).unwrap(), value(50_000, 1));
}

#[test]
fn threads_append_at_the_same_time_without_touching_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let segments = Segments::open(dir.path(), &options(100_000), false).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let segments = &segments;
            scope.spawn(move || {
                let extents: Vec<_> = (0..50)
                    .map(|n| segments.append(&[0; 32], &value(n * 37, thread)).unwrap())
                    .collect();
                segments.sync().unwrap();
                for (extent, n) in extents.iter().zip(0..) {
                    assert_eq!(read(segments, extent, 0..9999).unwrap(), value(n * 37, thread));
                }
            });
        }
    });
}

#[test]
fn damage_is_noticed_wherever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let segments = open(dir.path());
    let raw = value(200_000, 3);
    let extent = segments.append(&[7; 32], &raw).unwrap();
    segments.sync().unwrap();
    let path = files(dir.path()).pop().unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let end = file.metadata().unwrap().len();
    // In the header: its checksum, the length, the name. Then the two chunks, and the checksum of
    // the second.
    for at in [extent.offset, extent.offset + 5, extent.offset + 40, 1000, 131_200, end - 1] {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        assert!(read(&segments, &extent, 0..u64::MAX).is_err(), "{at}");
        file.write_all_at(&byte, at).unwrap();
    }
    assert_eq!(read(&segments, &extent, 0..u64::MAX).unwrap(), raw);
    // A row that names another place does not get other bytes.
    for wrong in [
        Extent { offset: extent.offset + 1, ..extent },
        Extent { length: extent.length - 1, ..extent },
        Extent { segment: 99, ..extent },
    ] {
        assert!(read(&segments, &wrong, 0..10).is_err(), "{wrong:?}");
    }
    file.set_len(end - 1).unwrap();
    assert!(read(&segments, &extent, 0..u64::MAX).is_err());
    assert!(!open(dir.path()).contains(&extent), "the file is shorter than the row says");
}

#[test]
fn a_read_only_store_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let segments = Segments::open(dir.path(), &options(1000), true).unwrap();
    assert!(matches!(segments.append(&[0; 32], b"value"), Err(Error::Io(_))));
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
}

#[test]
fn earlier_guards_are_those_taken_before_the_call() {
    let dir = tempfile::tempdir().unwrap();
    let segments = open(dir.path());
    let before = segments.guard();
    let first = segments.earlier_guards();
    let between = segments.guard();
    let second = segments.earlier_guards();
    let after = segments.guard();
    assert!(!first.are_dropped() && !second.are_dropped());
    drop(before);
    assert!(first.are_dropped() && !second.are_dropped());
    drop(between);
    assert!(second.are_dropped());
    drop(after);
    // A copy of a guard counts, also after the guard itself is dropped.
    let copy = segments.guard().clone();
    let third = segments.earlier_guards();
    assert!(!third.are_dropped());
    drop(copy);
    assert!(third.are_dropped());
}

#[test]
fn a_retired_segment_is_read_but_not_named_again_until_it_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let segments = Segments::open(dir.path(), &options(1), false).unwrap();
    let extents: Vec<_> =
        (0..3).map(|seed| segments.append(&[0; 32], &value(100, seed)).unwrap()).collect();
    segments.sync().unwrap();
    let retired = extents[0].segment;
    segments.retire(&[retired]);
    assert!(!segments.may_name(&extents[0]) && segments.may_name(&extents[1]));
    assert!(segments.usage().iter().all(|one| one.segment != retired));
    assert_eq!(read(&segments, &extents[0], 0..999).unwrap(), value(100, 0));
    segments.unretire(retired);
    assert!(segments.may_name(&extents[0]));
    segments.retire(&[retired]);
    assert!(segments.delete(&[retired, extents[1].segment]).unwrap().unwrap() > 100);
    assert!(read(&segments, &extents[0], 0..999).is_err());
    assert!(!segments.contains(&extents[0]));
    assert_eq!(files(dir.path()).len(), 2);
    // Its number is not given to another segment.
    let next = segments.append(&[0; 32], b"value").unwrap();
    assert!(next.segment > extents[2].segment);
}

#[test]
fn the_format_of_a_segment_is_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let id = SegmentId { id: 5, random: 0x0123_4567_89ab_cdef };
    assert_eq!(id.file_name(), "00000005-0123456789abcdef.segment");
    assert_eq!(SegmentId::of_file_name("00000005-0123456789abcdef.segment"), Some(id));
    for wrong in ["5-0123456789abcdef.segment", "00000005-0123456789ABCDEF.segment", "x.segment"] {
        assert_eq!(SegmentId::of_file_name(wrong), None, "{wrong}");
    }
    assert_eq!(
        crate::model::hex::hex(&id.header()),
        "5253545345470001000000050123456789abcdefb40b264c"
    );
    let path = dir.path().join("frame");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    write_frame(&file, 0, &[0x11; 32], b"message").unwrap();
    assert_eq!(
        crate::model::hex::hex(&fs::read(path).unwrap()),
        "cc72ba1d0000000000000007\
         1111111111111111111111111111111111111111111111111111111111111111\
         6d657373616765\
         b6bd307f"
    );
}

#[test]
fn nothing_behind_an_unfinished_value_counts_as_synced() {
    let dir = tempfile::tempdir().unwrap();
    let segments = open(dir.path());
    segments.append(&[0; 32], b"first").unwrap();
    let (segment, file) = segments.state.read().active.clone().unwrap();
    let place = segment.reserve(frame_length(5), 1 << 20).unwrap();
    let behind = segments.append(&[0; 32], b"behind").unwrap();
    segments.sync().unwrap();
    assert!(behind.offset > place);
    assert_eq!(segments.synced()[0].1, place, "the first unfinished value ends it");
    write_frame(&file, place, &[0; 32], b"value").unwrap();
    segment.places.lock().unfinished.remove(&place);
    segments.append(&[0; 32], b"last").unwrap();
    segments.sync().unwrap();
    assert_eq!(segments.synced()[0].1, segment.end());
}

#[test]
fn zeros_are_ahead_while_syncs_are_small_and_are_cut_off_at_the_end() {
    let (dir, crashed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let segments = open(dir.path());
    let length = || fs::metadata(&files(dir.path())[0]).unwrap().len();
    let zeros = |segments: &Segments| length() - segments.log_end().offset;
    let mut places = vec![segments.log_end()];
    let mut append = |number: u64, bytes: usize| {
        places.push(segments.append_log(LogKind::Rows, number, &value(bytes, 3)).unwrap());
        segments.sync().unwrap();
    };
    for number in 1..8 {
        append(number, 1000);
        assert_eq!(zeros(&segments), 0, "seven small syncs may be chance");
    }
    append(8, 1000);
    assert_eq!(zeros(&segments), 256 << 10);
    // Further frames are written over the zeros, and new zeros come before the old ones end.
    for number in 9..400 {
        append(number, 1000);
        assert!(zeros(&segments) > 8 << 10, "{number}");
    }
    // Many bytes at once do not end in zeros.
    for number in 400..420 {
        append(number, 20_000);
    }
    assert_eq!(zeros(&segments), 0);
    for number in 420..430 {
        append(number, 1000);
    }
    assert!(zeros(&segments) > 0);
    // A process that is killed leaves the zeros.
    fs::create_dir(crashed.path().join(DIRECTORY)).unwrap();
    let file = files(dir.path())[0].clone();
    fs::copy(&file, crashed.path().join(DIRECTORY).join(file.file_name().unwrap())).unwrap();
    let end = segments.log_end().offset;
    drop(segments);
    assert_eq!(length(), end);
    for dir in [&dir, &crashed] {
        let found = log_frames(&open(dir.path()), places[0]).unwrap();
        assert_eq!(found.len(), 429);
        assert!(found.iter().zip(1..).all(|((number, _), wanted)| *number == wanted));
    }
}

#[test]
fn no_sync_succeeds_after_a_failed_one() {
    let dir = tempfile::tempdir().unwrap();
    let segments = open(dir.path());
    segments.append(&[0; 32], b"value").unwrap();
    // A pipe cannot be synced.
    let (_reader, writer) = io::pipe().unwrap();
    let writer = Arc::new(File::from(std::os::fd::OwnedFd::from(writer)));
    segments.unsynced.lock().segments[0].1 = writer;
    assert!(segments.sync().is_err());
    segments.append(&[0; 32], b"value").unwrap();
    assert!(segments.sync().is_err(), "it is not known whether the first value is durable");
}

#[test]
fn the_number_of_a_deleted_segment_is_not_given_again() {
    let dir = tempfile::tempdir().unwrap();
    // The first segment of a store has the number 1.
    open(dir.path()).append(&[0; 32], b"value").unwrap();
    let segments = open(dir.path());
    segments.retire(&[1]);
    segments.delete(&[1]).unwrap();
    let new = segments.append(&[0; 32], b"value").unwrap();
    assert_eq!(new.segment, 2);
    // A deletion that is repeated does not touch what is not retired.
    assert_eq!(segments.delete(&[1, 2]).unwrap(), Some(0));
    assert!(segments.contains(&new));
    // While a backup runs, nothing is deleted.
    let _backup = segments.prevent_deletion();
    assert_eq!(segments.delete(&[1]).unwrap(), None);
}

#[test]
fn a_backup_has_a_value_behind_one_that_is_still_being_written() {
    let (dir, backups) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let segments = open(dir.path());
    segments.append(&[7; 32], &value(10, 0)).unwrap();
    let (segment, file) = segments.state.read().active.clone().unwrap();
    // One thread has its place and is slow; another's value behind it is synced and named by a row.
    let slow = value(300, 1);
    let length = frame_length(slow.len() as u64);
    let offset = segment.reserve(length, u64::MAX).unwrap();
    let late = Extent { segment: segment.id.id, offset, length: slow.len() as u64 };
    let named = segments.append(&[8; 32], &value(400, 2)).unwrap();
    segments.sync().unwrap();
    backup::prepare(backups.path(), &[]).unwrap();
    std::thread::scope(|scope| {
        let backup = scope.spawn(|| Segments::back_up(backups.path(), 1, &[], &segments.ends()));
        std::thread::sleep(std::time::Duration::from_millis(20));
        write_frame(&file, offset, &[9; 32], &slow).unwrap();
        segment.places.lock().unfinished.remove(&offset);
        backup.join().unwrap().unwrap();
    });
    let restored = tempfile::tempdir().unwrap();
    backup::restore(backups.path(), 1, restored.path()).unwrap();
    let restored = open(restored.path());
    assert_eq!(read(&restored, &named, 0..u64::MAX).unwrap(), value(400, 2));
    assert_eq!(read(&restored, &late, 0..u64::MAX).unwrap(), slow);
}

/// The numbers and rows of the frames of the log that begin at or behind a place.
fn log_frames(segments: &Segments, from: LogPlace) -> Result<Vec<(u64, Vec<u8>)>, Error> {
    let mut found = Vec::new();
    segments.read_log(from, &mut |frame| {
        found.push((frame.number, frame.rows));
        Ok(())
    })?;
    Ok(found)
}

#[test]
fn frames_of_the_log_are_found_among_values_and_unfinished_places() {
    let dir = tempfile::tempdir().unwrap();
    let segments = Segments::open(dir.path(), &options(5_000), false).unwrap();
    let mut places = vec![segments.log_end()];
    let mut written = Vec::new();
    for number in 1..40u64 {
        segments.append(&[7; 32], &value(300, 1)).unwrap();
        if number % 3 == 0 {
            // A place that is never written.
            let (segment, _) = segments.state.read().active.clone().unwrap();
            segment.reserve(500, u64::MAX).unwrap();
        }
        let rows = value(usize::try_from(number).unwrap() * 5, 2);
        places.push(segments.append_log(LogKind::Rows, number, &rows).unwrap());
        written.push((number, rows));
    }
    assert!(files(dir.path()).len() > 3);
    for (place, at) in places.iter().zip(0..) {
        assert_eq!(log_frames(&segments, *place).unwrap(), written[at..]);
        assert_eq!(log_frames(&open(dir.path()), *place).unwrap(), written[at..]);
    }
}

#[test]
fn a_value_cannot_pretend_to_be_a_frame_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let segments = open(dir.path());
    segments.append_log(LogKind::Rows, 1, b"rows").unwrap();
    segments.sync().unwrap();
    // The frame as it is in another store, in a value behind a place that is never written.
    let forged = fs::read(&files(dir.path())[0]).unwrap();
    let other = tempfile::tempdir().unwrap();
    let segments = open(other.path());
    segments.append(&[7; 32], &forged).unwrap();
    let (segment, _) = segments.state.read().active.clone().unwrap();
    segment.reserve(100, u64::MAX).unwrap();
    segments.append(&[7; 32], &forged).unwrap();
    segments.append_log(LogKind::Rows, 1, b"own").unwrap();
    let start = LogPlace::default();
    assert_eq!(log_frames(&segments, start).unwrap(), [(1, b"own".to_vec())]);
}

#[test]
fn a_last_frame_of_the_log_that_is_cut_is_ignored_and_a_changed_one_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let segments = open(dir.path());
    let before = segments.append_log(LogKind::Rows, 1, &value(2000, 1)).unwrap();
    segments.append_log(LogKind::Rows, 2, &value(2000, 2)).unwrap();
    segments.sync().unwrap();
    let path = files(dir.path()).pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let found = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        log_frames(&open(dir.path()), LogPlace::default()).map(|frames| frames.len())
    };
    let begin = usize::try_from(before.offset).unwrap();
    for cut in [begin, begin + 1, begin + 44, begin + 1000, whole.len() - 1] {
        assert_eq!(found(&whole[..cut]).unwrap(), 1, "{cut}");
        // The length of the file was made durable before its last sectors, which are zeros. Zeros
        // that begin in the first frame are not tried: the first frame would be damaged.
        let mut zeros = whole.clone();
        zeros[cut / 512 * 512..].fill(0);
        if cut / 512 * 512 >= begin {
            assert_eq!(found(&zeros).unwrap(), 1, "{cut}");
        }
    }
    for at in (begin..begin + 50).chain([begin + 1500, whole.len() - 1]) {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        let refused = found(&changed).unwrap_err().to_string();
        assert!(refused.contains("damaged") && refused.contains("backup"), "{refused}");
    }
    assert_eq!(found(&whole).unwrap(), 2);
}

#[test]
fn a_segment_is_read_while_another_is_slow_to_open() {
    let dir = tempfile::tempdir().unwrap();
    let segments = Segments::open(dir.path(), &options(1), false).unwrap();
    let slow = segments.append(&[0; 32], b"slow").unwrap();
    let quick = segments.append(&[0; 32], b"quick").unwrap();
    // To open a pipe for reading waits until somebody opens it for writing.
    let path = segments.state.read().segments[&slow.segment].path.clone();
    fs::remove_file(&path).unwrap();
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| read(&segments, &slow, 0..4));
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (sender, receiver) = std::sync::mpsc::channel();
        let (segments, quick) = (&segments, &quick);
        scope.spawn(move || sender.send(read(segments, quick, 0..5)));
        let found = receiver.recv_timeout(std::time::Duration::from_secs(5));
        drop(File::options().write(true).open(&path).unwrap());
        assert_eq!(found.unwrap().unwrap(), b"quick");
        assert!(waiting.join().unwrap().is_err(), "a pipe is no segment");
    });
}
