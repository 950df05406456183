//! Messages that are written while they come in: stored once, not moved if they are large, and
//! whole or gone after a kill.

use super::*;

#[test]
fn a_streamed_message_is_stored_once_and_only_if_it_is_the_message() {
    let dir = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(dir.path(), &options());
    bed.deliver_streamed(1, 90_000);
    let count = || segment_files(dir.path()).len();
    let before = count();
    // The same message again, streamed and not.
    for n in [2, 3] {
        let raw = raw(1, 90_000);
        let streamed = (n == 2).then(|| stream(&bed.store, &raw));
        let id = file_streamed(&bed.store, n, &raw, streamed);
        bed.mail.insert(id, raw);
    }
    assert_eq!(count(), before, "the second file is deleted");
    // What was streamed has bytes before the header that are no part of the message. So it is
    // deleted, and the message is stored like one that was not streamed.
    let raw_4 = raw(4, 20_000);
    let other = stream(&bed.store, &[b"\r\n", &raw_4[..]].concat());
    let id = file_streamed(&bed.store, 4, &raw_4, Some(other));
    bed.mail.insert(id, raw_4);
    // A message of fewer bytes than `min_segment_value` belongs into its row.
    bed.deliver_streamed(5, 100);
    assert_eq!(count(), before);
    assert_has(&bed.store, &bed.mail);
    bed.reopen(dir.path(), &options());
}

#[test]
fn streamed_messages_stay_where_they_are_until_they_are_dead() {
    let dir = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(dir.path(), &options());
    let large: Vec<EmailId> = (0..12).map(|n| bed.deliver_streamed(n, 70_000)).collect();
    // With full segments of 4 MiB, all of these are short. Messages in many short segments are
    // moved together, but not one that has a segment of its own and is large.
    let mut bed = bed.reopen(dir.path(), &Options { segment_bytes: 4 << 20, ..options() });
    bed.deliver(99, 2000);
    let before = segment_files(dir.path());
    assert_eq!(bed.reclaim(|_| false).moved, 0);
    // The 12 files of streamed messages, and the segment of message 99.
    assert!(before.iter().filter(|path| path.exists()).count() >= 13);
    // Dead ones are deleted, and nothing is written again.
    large.iter().take(7).for_each(|id| bed.delete(*id));
    let done = bed.reclaim(|_| false);
    assert!(done.deleted_bytes > 7 * 70_000 && done.moved == 0, "{done:?}");
    assert_has(&bed.store, &bed.mail);
    bed.reopen(dir.path(), &options());
}

#[test]
fn space_of_messages_that_no_change_refers_to_is_reclaimed() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path(), &options());
    // Ends the cycle with which a process begins, so that the next one is due to these messages.
    assert_eq!(bed.reclaim(|_| false), ReclaimStep::default());
    for n in 0..60 {
        let raw = raw(n, 3000);
        let rows = MessageRows {
            blob: BlobHash(*blake3::hash(&raw).as_bytes()),
            size: raw.len() as u64,
            ..MessageRows::default()
        };
        let encoded = EncodedMessage::new(&rows);
        // As a delivery whose scripts discard the message.
        let (results, ticket) = bed.store.commit_message(&[ACCOUNT], &encoded, &raw, |txn| {
            txn.remember_delivery(&[u8::try_from(n).unwrap(); 32], &[], [])
        });
        assert!(results.iter().all(|(_, result)| result.is_ok()));
        ticket.wait_blocking().unwrap();
    }
    let step = bed.reclaim(|_| false);
    assert!(step.deleted_bytes > 100_000, "{step:?}");
    bed.reopen(dir.path(), &options());
}

#[test]
fn a_kill_at_any_step_of_a_streamed_message_loses_nothing_and_leaves_no_file() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("store");
    let mut bed = Bed::open(&dir, &options());
    bed.deliver_streamed(1, 70_000);
    let message = raw(2, 300_000);
    let hash = BlobHash(*blake3::hash(&message).as_bytes());
    let mut images = 0;
    // Copies the store as a kill would leave it, checks the copy, and returns the number of its
    // unfinished files.
    let mut image = |has_message: bool, mail: &Mail| {
        images += 1;
        let image = root.path().join(format!("image-{images}"));
        copy_store(&dir, &image);
        // Opening a stopped store for reading changes nothing.
        let reader = engine::rocks::open_read_only(&image, &options()).unwrap();
        drop(reader);
        let begun = |image: &Path| {
            let unfinished = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "begun");
            segment_files(image).iter().filter(|path| unfinished(path)).count()
        };
        let left = begun(&image);
        let again = Bed::open(&image, &options());
        assert_eq!(begun(&image), 0);
        assert_has(&again.store, mail);
        let stored = again.store.snapshot().raw_message(&hash).unwrap();
        assert_eq!(stored.is_some(), has_message);
        left
    };
    let mut streamed = bed.store.begin_message().unwrap().unwrap();
    assert_eq!(image(false, &bed.mail), 1);
    for piece in message.chunks(100_000) {
        streamed.write(piece).unwrap();
        assert_eq!(image(false, &bed.mail), 1);
    }
    // The message is in a segment, and no row names it yet.
    let extent = bed.segments().add(streamed).unwrap();
    assert_eq!(image(false, &bed.mail), 0);
    // Deletes that segment, so that the next delivery streams and stores the message again.
    bed.segments().retire(&[extent.segment]);
    bed.store.0.engine.delete_segments(&[extent.segment]).unwrap();
    let id = file_streamed(&bed.store, 2, &message, Some(stream(&bed.store, &message)));
    bed.mail.insert(id, message);
    assert_eq!(image(true, &bed.mail), 0);
    // A message without a row is space that the next cycle gives back.
    let lost = raw(3, 80_000);
    let extent = bed.segments().add(stream(&bed.store, &lost)).unwrap();
    assert!(bed.reclaim(|_| false).deleted_bytes > 80_000);
    assert!(!bed.segments().contains(&extent));
    assert_has(&bed.store, &bed.mail);
}
