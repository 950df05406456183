//! Values that are written while they come in: the layout is that of appended ones, nothing is left
//! of those that are not added, backups have only added ones, and damage is noticed.

use super::*;

/// Begins a value and writes it in pieces of this length.
fn stream(segments: &Segments, value: &[u8], piece: usize) -> StreamedValue {
    let mut streamed = segments.begin_value().unwrap();
    value.chunks(piece).for_each(|piece| streamed.write(piece).unwrap());
    streamed
}

#[test]
fn a_streamed_value_is_read_like_any_other_also_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let segments = open(dir.path());
    let lengths = [0, 1, 5_000, 131_071, 131_072, 131_073, 262_144, 400_000];
    let mut stored = Vec::new();
    for (length, piece) in lengths.into_iter().zip([1, 7, 16_384, 65_536, 131_072, 200_000, 9, 999])
    {
        let value = value(length, 5);
        let streamed = stream(&segments, &value, piece);
        let mut found = b"before".to_vec();
        streamed.read(&mut found).unwrap();
        assert_eq!(found, [b"before", &value[..]].concat());
        assert_eq!(streamed.hash(), *blake3::hash(&value).as_bytes());
        // Meanwhile a segment for the log may be begun, which takes a number of its own.
        segments.append_log(LogKind::Rows, length as u64, b"rows").unwrap();
        let extent = segments.add(streamed).unwrap();
        // The layout is that of a value that was appended.
        let path = &segments.state.read().segments[&extent.segment].path.clone();
        let mut appended =
            SegmentId::of_file_name(path.file_name().unwrap().to_str().unwrap()).unwrap().header();
        let frame = dir.path().join("frame");
        let file = File::create(&frame).unwrap();
        write_frame(&file, 0, blake3::hash(&value).as_bytes(), &value).unwrap();
        appended.extend(fs::read(&frame).unwrap());
        assert!(fs::read(path).unwrap() == appended, "{length}");
        stored.push((extent, value));
    }
    segments.sync().unwrap();
    let frames = log_frames(&segments, LogPlace::default()).unwrap();
    for segments in [segments, open(dir.path())] {
        for (extent, value) in &stored {
            assert!(segments.contains(extent) && segments.may_name(extent));
            assert_eq!(read(&segments, extent, 0..u64::MAX).unwrap(), *value);
            let usage = segments.usage();
            let usage = usage.iter().find(|one| one.segment == extent.segment).unwrap();
            assert!(usage.is_sealed && usage.has_only(extent.stored_bytes()));
        }
        assert_eq!(log_frames(&segments, LogPlace::default()).unwrap(), frames);
        assert_eq!(frames.len(), lengths.len());
    }
}

#[test]
fn a_streamed_value_that_is_not_added_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let segments = open(dir.path());
    let streamed = stream(&segments, &value(300_000, 1), 4096);
    assert_eq!(files(dir.path()).len(), 1);
    assert!(segments.usage().is_empty(), "a backup would copy it");
    drop(streamed);
    assert!(files(dir.path()).is_empty());
    // A kill leaves the file. Only a process that writes deletes it.
    let killed = stream(&segments, &value(300_000, 1), 4096);
    std::mem::forget(killed);
    let kept = segments.add(stream(&segments, &value(9, 1), 9)).unwrap();
    drop(Segments::open(dir.path(), &options(1 << 20), true).unwrap());
    assert_eq!(files(dir.path()).len(), 2);
    let again = open(dir.path());
    assert_eq!(files(dir.path()).len(), 1);
    assert_eq!(read(&again, &kept, 0..99).unwrap(), value(9, 1));
    let reader = Segments::open(dir.path(), &options(1 << 20), true).unwrap();
    assert!(reader.begin_value().is_err());
}

#[test]
fn a_streamed_value_is_not_added_after_a_failure_of_its_file_or_of_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let segments = open(dir.path());
    // `/dev/full` has no space: at the first byte, at the checksum, and at the headers.
    let full = || File::options().read(true).write(true).open("/dev/full").unwrap();
    let mut streamed = segments.begin_value().unwrap();
    streamed.replace_file(full());
    assert_eq!(streamed.write(b"value"), Err(Error::Full));
    drop(streamed);
    for length in [5, 131_072] {
        let mut streamed = stream(&segments, &value(length, 1), 4096);
        streamed.replace_file(full());
        assert_eq!(segments.add(streamed), Err(Error::Full));
    }
    assert!(files(dir.path()).is_empty() && segments.usage().is_empty());
    // The directory is missing when the file is to be renamed.
    let streamed = stream(&segments, &value(500, 1), 100);
    let away = dir.path().join("away");
    fs::rename(dir.path().join(DIRECTORY), &away).unwrap();
    assert!(matches!(segments.add(streamed), Err(Error::Io(_))));
    fs::rename(&away, dir.path().join(DIRECTORY)).unwrap();
    assert!(segments.usage().is_empty());
    // After a failed sync of the directory it is not known which names are durable.
    let streamed = stream(&segments, &value(500, 1), 100);
    segments.file_names.fail();
    assert!(matches!(segments.add(streamed), Err(Error::Io(_))));
    assert!(segments.usage().is_empty());
    assert!(!files(dir.path()).iter().any(|path| path.extension().unwrap() == "segment"));
}

#[test]
fn values_are_streamed_by_several_threads_at_the_same_time() {
    let dir = tempfile::tempdir().unwrap();
    let segments = open(dir.path());
    std::thread::scope(|scope| {
        for thread in 0..6u8 {
            let segments = &segments;
            scope.spawn(move || {
                for n in 0..8 {
                    let value = value(140_000 + n, thread);
                    let extent = segments.add(stream(segments, &value, 50_000)).unwrap();
                    segments.append(&[0; 32], &value).unwrap();
                    assert_eq!(read(segments, &extent, 0..u64::MAX).unwrap(), value);
                }
            });
        }
    });
    // Appended values share segments of 1 MiB. Each of the 48 streamed ones has its own segment.
    let alone = segments.usage().iter().filter(|one| one.bytes < 200_000).count();
    assert!(alone >= 48);
}

#[test]
fn a_backup_has_added_values_and_not_those_under_way() {
    let (dir, backups) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let segments = open(dir.path());
    let first = segments.add(stream(&segments, &value(200_000, 1), 5000)).unwrap();
    let under_way = stream(&segments, &value(200_000, 2), 5000);
    backup::prepare(backups.path(), &[]).unwrap();
    Segments::back_up(backups.path(), 1, &[], &segments.ends()).unwrap();
    let second = segments.add(under_way).unwrap();
    Segments::back_up(backups.path(), 2, &[1], &segments.ends()).unwrap();
    for (id, wanted) in
        [(1, vec![value(200_000, 1)]), (2, vec![value(200_000, 1), value(200_000, 2)])]
    {
        backup::verify(backups.path(), id).unwrap();
        let restored = tempfile::tempdir().unwrap();
        backup::restore(backups.path(), id, restored.path()).unwrap();
        assert_eq!(files(restored.path()).len(), wanted.len());
        let restored = open(restored.path());
        for (extent, value) in [first, second].iter().zip(&wanted) {
            assert_eq!(read(&restored, extent, 0..u64::MAX).unwrap(), *value);
        }
    }
}

#[test]
fn the_names_of_streamed_values_are_synced_again_after_the_directory_could_not_be_opened() {
    let dir = tempfile::tempdir().unwrap();
    let names = FileNames::new();
    assert!(names.sync(&dir.path().join("missing")).is_err());
    names.sync(dir.path()).unwrap();
    // A sync that failed says nothing about what is durable, and is not tried again.
    names.fail();
    assert!(names.sync(dir.path()).is_err());
}

#[test]
fn a_streamed_value_that_the_disk_changed_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let segments = open(dir.path());
    let streamed = stream(&segments, &value(300_000, 1), 4096);
    let path = files(dir.path()).pop().unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let end = file.metadata().unwrap().len();
    // The value begins at 68, and its second chunk at 131,144, behind the checksum of the first.
    for at in [68, 100_000, 131_141, 131_200, 200_000, end - 1] {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        assert!(matches!(streamed.read(&mut Vec::new()), Err(Error::Io(_))), "{at}");
        file.write_all_at(&byte, at).unwrap();
    }
    let mut found = Vec::new();
    streamed.read(&mut found).unwrap();
    assert_eq!(found, value(300_000, 1));
}
