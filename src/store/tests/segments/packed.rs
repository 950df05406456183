//! Tests of messages that upkeep has compressed.

use super::*;
use crate::store::engine::typed::TypedRead as _;
use crate::store::row::{BlobBytes, BlobRow, FRAME_BYTES};
use crate::store::table::Blobs;
use crate::store::table::keys::BlobKey;

/// Returns where the bytes of a message are, and how many they are there.
fn place(bed: &Bed, raw: &[u8]) -> (bool, Extent) {
    let key = BlobKey { blob: BlobHash(*blake3::hash(raw).as_bytes()) };
    let row = bed.engine.snapshot().bytes::<Blobs>(&key).unwrap().unwrap();
    match BlobRow::decode(&key.encode(), &row).unwrap().bytes {
        BlobBytes::Packed { extent, length } => {
            assert_eq!(length, raw.len() as u64);
            (true, extent)
        }
        BlobBytes::Located(extent) => (false, extent),
        other => panic!("{other:?}"),
    }
}

/// Delivers messages, and has those that are not deleted moved. Returns the first of them.
fn moved(bed: &mut Bed, length: usize) -> EmailId {
    let ids: Vec<_> = (0..40).map(|n| bed.deliver(n, length)).collect();
    for id in &ids[1..30] {
        bed.delete(*id);
    }
    assert!(bed.reclaim(|_| false).moved > 0);
    ids[0]
}

#[test]
fn moved_messages_are_compressed_and_read_as_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(dir.path(), &options());
    let first = moved(&mut bed, 3000);
    let raw = bed.mail[&first].clone();
    let (is_packed, extent) = place(&bed, &raw);
    assert!(is_packed && extent.length < 2000, "{extent:?}");
    let snapshot = bed.store.snapshot();
    for range in [0..10, 7..2999, 2990..5000, 3000..3000, 9000..9001] {
        let part = snapshot.message_part(ACCOUNT, first, range.clone()).unwrap().unwrap();
        let clamp = |at: u64| usize::try_from(at).unwrap().min(raw.len());
        assert_eq!(part, raw[clamp(range.start)..clamp(range.end)], "{range:?}");
    }
    let blob = BlobHash(*blake3::hash(&raw).as_bytes());
    let beginning = snapshot.raw_message_until(&blob, &|found| found.len() > 5).unwrap();
    assert_eq!(beginning.as_ref(), Some(&raw));
    drop(snapshot);
    // The same message again is the one that is there.
    let again = file(&bed.store, 99, &raw);
    bed.mail.insert(again, raw.clone());
    assert_eq!(place(&bed, &raw), (true, extent));
    let mut bed = bed.reopen(dir.path(), &options());
    // When the others are gone, it is moved once more.
    let others: Vec<_> =
        bed.mail.keys().copied().filter(|id| *id != first && *id != again).collect();
    others.into_iter().for_each(|id| bed.delete(id));
    assert!(bed.reclaim(|_| false).moved > 0);
    let (is_packed, moved) = place(&bed, &raw);
    assert!(is_packed && moved.segment > extent.segment, "{moved:?}");
    assert_has(&bed.store, &bed.mail);
    bed.reopen(dir.path(), &options());
}

#[test]
fn long_messages_and_those_that_hardly_get_shorter_stay_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 1 << 20, ..options() };
    let mut bed = Bed::open(dir.path(), &options);
    let kept: Vec<_> = [(1, 3000), (2, FRAME_BYTES), (4, 3000)]
        .map(|(n, length)| (n, bed.deliver(n, length)))
        .to_vec();
    let deleted: Vec<_> = (10..20).map(|n| bed.deliver(n, 120_000)).collect();
    deleted.into_iter().for_each(|id| bed.delete(id));
    assert_eq!(bed.reclaim(|_| false).moved, 3);
    for (n, id) in kept {
        assert_eq!(place(&bed, &bed.mail[&id]).0, n == 4, "{n}");
    }
    assert_has(&bed.store, &bed.mail);
}

#[test]
fn damaged_compressed_message_is_reported_and_stored_anew_when_it_comes_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(dir.path(), &options());
    let first = moved(&mut bed, 3000);
    let raw = bed.mail[&first].clone();
    let (_, extent) = place(&bed, &raw);
    let files = segment_files(dir.path());
    let name = format!("{:08x}-", extent.segment);
    let is_its_file = |file: &&PathBuf| {
        file.file_name().is_some_and(|found| found.to_string_lossy().starts_with(&name))
    };
    let file_name = files.iter().find(is_its_file).unwrap();
    let mut bytes = fs::read(file_name).unwrap();
    bytes[usize::try_from(extent.offset).unwrap() + 60] ^= 1;
    fs::write(file_name, bytes).unwrap();
    assert!(matches!(bed.store.snapshot().message(ACCOUNT, first), Err(Error::Corrupt { .. })));
    let found = bed.store.check_deep(Some(&|_| MessageRows::default()), &mut |_| true).unwrap();
    assert!(!found.breaches.is_empty());
    let again = file(&bed.store, 99, &raw);
    bed.mail.insert(again, raw.clone());
    assert!(!place(&bed, &raw).0);
    assert_has(&bed.store, &bed.mail);
}
