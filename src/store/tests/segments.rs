//! Messages in segments, on RocksDB: space is reclaimed, and no message that was acknowledged is
//! lost by a kill or a power failure at any step.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::store::blob::reclaim::ReclaimStep;
use crate::store::engine::RowReader as _;
use crate::store::engine::rocks::RocksEngine;
use crate::store::engine::rocks::image::copy_store;
use crate::store::engine::segments::{Extent, Segments};

mod packed;
mod rows;
mod streamed;

/// The raw bytes of each email that was acknowledged and not destroyed.
type Mail = BTreeMap<EmailId, Vec<u8>>;

const DAY: i64 = 24 * 3600 * 1000;

struct Bed {
    store: Store,
    engine: Arc<RocksEngine>,
    clock: Arc<FixedClock>,
    mail: Mail,
}

impl Bed {
    fn open(dir: &Path, options: &Options) -> Self {
        let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
        let engine = Arc::new(RocksEngine::open(dir, options).unwrap());
        let store =
            Store::open_engine(Arc::clone(&engine) as _, options, Arc::clone(&clock) as _).unwrap();
        if store.snapshot().account(ACCOUNT).unwrap().is_none() {
            make_account(&store, ACCOUNT);
        }
        Self { store, engine, clock, mail: Mail::new() }
    }

    /// Ends the process, opens the store again, and finds all mail in it.
    fn reopen(self, dir: &Path, options: &Options) -> Self {
        let Self { store, engine, mail, .. } = self;
        drop((store, engine));
        let again = Self { mail, ..Self::open(dir, options) };
        assert_has(&again.store, &again.mail);
        again
    }

    fn segments(&self) -> &Segments {
        self.store.0.engine.segments().unwrap()
    }

    /// Delivers a message of about this length.
    fn deliver(&mut self, n: u32, length: usize) -> EmailId {
        let raw = raw(n, length);
        let id = file(&self.store, n, &raw);
        self.mail.insert(id, raw);
        id
    }

    /// Delivers a message of about this length that was written while it came in.
    fn deliver_streamed(&mut self, n: u32, length: usize) -> EmailId {
        let raw = raw(n, length);
        let id = file_streamed(&self.store, n, &raw, Some(stream(&self.store, &raw)));
        self.mail.insert(id, raw);
        id
    }

    /// Deletes an email, and its message if nothing else refers to it.
    fn delete(&mut self, id: EmailId) {
        self.mail.remove(&id);
        for destroys in [true, false] {
            let change = |txn: &mut Txn<'_>| {
                if destroys {
                    txn.destroy_email(id).map(drop)
                } else {
                    txn.purge_email(id).map(drop)
                }
            };
            self.store.commit(ACCOUNT, change).unwrap().1.wait_blocking().unwrap();
        }
        self.clock.advance(Duration::from_secs(2 * 24 * 3600));
        let upto = UtcMillis(self.clock.now().0 - DAY);
        let collected = self.store.commit(AccountId::SITE, |txn| txn.collect_blobs(upto, 99));
        let (collected, ticket) = collected.unwrap();
        ticket.wait_blocking().unwrap();
        self.store.note_deleted_messages(collected.segment_bytes);
    }

    /// Runs steps until none is due at once, or until `until` returns `true` for a step. Returns
    /// the sum of the steps. A process begins with a cycle, which some tests end first, so that the
    /// next one has its own reason. If a step waits for readers, only another call ends the cycle.
    fn reclaim(&self, mut until: impl FnMut(&ReclaimStep) -> bool) -> ReclaimStep {
        let mut all = ReclaimStep::default();
        loop {
            let step = self.store.reclaim_segments().unwrap();
            all.moved += step.moved;
            all.deleted_bytes += step.deleted_bytes;
            if !step.has_more || until(&step) {
                return all;
            }
        }
    }
}

/// Returns a message with a random body of this length. For an even `n` it is text, which can be
/// compressed.
fn raw(n: u32, length: usize) -> Vec<u8> {
    let mut body = vec![0; length];
    blake3::Hasher::new().update(&n.to_be_bytes()).finalize_xof().fill(&mut body);
    if n.is_multiple_of(2) {
        body.iter_mut().for_each(|byte| *byte = b'a' + *byte % 16);
    }
    [format!("Subject: {n}\r\n\r\n").into_bytes(), body].concat()
}

/// Files a message, and waits until it is durable.
fn file(store: &Store, n: u32, raw: &[u8]) -> EmailId {
    file_streamed(store, n, raw, None)
}

/// Begins a message in the store, and writes all of it.
fn stream(store: &Store, raw: &[u8]) -> StreamedValue {
    let mut streamed = store.begin_message().unwrap().unwrap();
    raw.chunks(1000).for_each(|piece| streamed.write(piece).unwrap());
    streamed
}

fn file_streamed(store: &Store, n: u32, raw: &[u8], streamed: Option<StreamedValue>) -> EmailId {
    let rows = MessageRows {
        blob: BlobHash(*blake3::hash(raw).as_bytes()),
        size: raw.len() as u64,
        ..MessageRows::default()
    };
    let encoded = EncodedMessage::new(&rows);
    let (mut results, ticket) = store.commit_streamed(&[ACCOUNT], &encoded, raw, streamed, |txn| {
        txn.create_email(&NewEmail {
            message: &encoded,
            prefix: b"",
            mailboxes: BTreeSet::from([txn.state().inbox]),
            keywords: BTreeSet::new(),
            received_at: UtcMillis(i64::from(n)),
        })
    });
    ticket.wait_blocking().unwrap();
    results.pop().unwrap().1.unwrap().0
}

fn assert_has(store: &Store, mail: &Mail) {
    let snapshot = store.snapshot();
    let found: BTreeSet<EmailId> =
        snapshot.emails(ACCOUNT, None, 1000).unwrap().into_iter().map(|(id, _)| id).collect();
    assert_eq!(found, mail.keys().copied().collect());
    for (id, raw) in mail {
        assert_eq!(snapshot.message(ACCOUNT, *id).unwrap().as_ref(), Some(raw), "{id}");
    }
    let rows = |raw: &[u8]| MessageRows {
        blob: BlobHash(*blake3::hash(raw).as_bytes()),
        size: raw.len() as u64,
        ..MessageRows::default()
    };
    assert_eq!(store.check_deep(Some(&rows), &mut |_| true).unwrap().breaches, []);
}

/// Returns the files of the segments, in the order of their numbers.
fn segment_files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("segments")).into_iter().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn options() -> Options {
    Options { segment_bytes: 40_000, ..Options::small() }
}

#[test]
fn the_same_message_again_is_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(dir.path(), &options());
    bed.deliver(1, 5000);
    let bytes = |bed: &Bed| bed.segments().usage().iter().map(|one| one.bytes).sum::<u64>();
    let before = bytes(&bed);
    let raw = raw(1, 5000);
    let again = file(&bed.store, 2, &raw);
    bed.mail.insert(again, raw);
    assert!(bytes(&bed) - before < 2000, "only the journal grows");
    assert_has(&bed.store, &bed.mail);
}

#[test]
fn space_of_deleted_messages_is_reclaimed_and_the_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(dir.path(), &options());
    assert_eq!(bed.reclaim(|_| false), ReclaimStep::default());
    let ids: Vec<_> = (0..60).map(|n| bed.deliver(n, 3000)).collect();
    let before = segment_files(dir.path()).len();
    assert!(before >= 5);
    for (id, n) in ids.iter().zip(0..) {
        if n % 4 != 0 {
            bed.delete(*id);
        }
    }
    assert!(bed.reclaim(|step| step.moved > 0).moved > 0);
    // A snapshot that was made before the last message was moved reads all of them.
    let reader = bed.store.clone();
    let snapshot = reader.snapshot();
    let step = bed.reclaim(|_| false);
    assert!(step.moved > 0 && step.deleted_bytes == 0, "the snapshot holds the segments: {step:?}");
    for (id, raw) in &bed.mail {
        assert_eq!(snapshot.message(ACCOUNT, *id).unwrap().as_ref(), Some(raw));
    }
    drop(snapshot);
    drop(reader);
    let step = bed.reclaim(|_| false);
    assert!(step.deleted_bytes > 100_000, "{step:?}");
    assert!(segment_files(dir.path()).len() < before);
    assert_has(&bed.store, &bed.mail);
    bed.reopen(dir.path(), &options());
}

#[test]
fn space_of_the_journal_is_reclaimed_although_nothing_was_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(dir.path(), &options());
    assert_eq!(bed.reclaim(|_| false), ReclaimStep::default());
    let bytes = |bed: &Bed| bed.segments().usage().iter().map(|one| one.bytes).sum::<u64>();
    for n in 0..60 {
        bed.deliver(n, 1100);
        for name in ["one", "two"] {
            rename(&bed.store, ACCOUNT, &name.repeat(200)).wait_blocking().unwrap();
        }
    }
    let (before, messages) = (bytes(&bed), 60 * 1100);
    assert!(before > 2 * messages, "most is the journal: {before}");
    let step = bed.reclaim(|_| false);
    assert!(step.moved > 50 && step.deleted_bytes > messages, "{step:?}");
    assert!(bytes(&bed) < before * 2 / 3, "{} of {before}", bytes(&bed));
    // What is left of the journal is too little for another cycle.
    assert_eq!(bed.reclaim(|_| false), ReclaimStep::default());
    assert_has(&bed.store, &bed.mail);
    bed.reopen(dir.path(), &options());
}

#[test]
fn a_message_that_cannot_be_read_keeps_its_segment() {
    let dir = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(dir.path(), &options());
    let ids: Vec<_> = (0..30).map(|n| bed.deliver(n, 3000)).collect();
    for (id, n) in ids.iter().zip(0..) {
        if n % 4 != 0 {
            bed.delete(*id);
        }
    }
    // The first message is damaged.
    let files = segment_files(dir.path());
    let mut bytes = fs::read(&files[0]).unwrap();
    let first = raw(0, 3000);
    let at = bytes.windows(first.len()).position(|bytes| bytes == first).unwrap();
    bytes[at + 100] ^= 1;
    fs::write(&files[0], bytes).unwrap();
    bed.reclaim(|_| false);
    bed.reclaim(|_| false);
    assert!(files[0].exists() && !files[1].exists());
    assert!(bed.store.snapshot().message(ACCOUNT, ids[0]).is_err());
    for (id, raw) in bed.mail.iter().filter(|(id, _)| **id != ids[0]) {
        assert_eq!(bed.store.snapshot().message(ACCOUNT, *id).unwrap().as_ref(), Some(raw));
    }
    let breaches = bed.store.check_deep(Some(&|_| MessageRows::default()), &mut |_| true).unwrap();
    assert!(!breaches.breaches.is_empty());
    // The same message again is stored anew, so the email can be read again.
    let raw = raw(0, 3000);
    let again = file(&bed.store, 99, &raw);
    bed.mail.insert(again, raw);
    assert_has(&bed.store, &bed.mail);
}

#[test]
fn a_kill_after_any_step_of_reclaiming_loses_nothing() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("store");
    let in_rows = Options { min_segment_value: usize::MAX, ..options() };
    let mut bed = Bed::open(&dir, &in_rows);
    for n in 0..5 {
        bed.deliver(n, 3000);
    }
    let mut bed = bed.reopen(&dir, &options());
    let ids: Vec<_> = (10..90).map(|n| bed.deliver(n, 3000)).collect();
    for (id, n) in ids.iter().zip(0..) {
        if n % 3 != 0 {
            bed.delete(*id);
        }
    }
    let mut images = 0;
    let mut n = 1000;
    loop {
        let step = bed.store.reclaim_segments().unwrap();
        let image = root.path().join(format!("image-{images}"));
        copy_store(&dir, &image);
        let again = Bed::open(&image, &options());
        assert_has(&again.store, &bed.mail);
        // The next process reclaims what this one did not.
        again.reclaim(|_| false);
        assert_has(&again.store, &bed.mail);
        drop(again);
        fs::remove_dir_all(&image).unwrap();
        images += 1;
        if !step.has_more {
            break;
        }
        // Deliveries go on meanwhile, also of a message that is being moved.
        bed.deliver(n, 2000);
        let (_, raw) = bed.mail.iter().next().map(|(id, raw)| (*id, raw.clone())).unwrap();
        n += 1;
        let again = file(&bed.store, n, &raw);
        bed.mail.insert(again, raw);
        n += 1;
    }
    assert!(images > 8, "{images}");
    assert_has(&bed.store, &bed.mail);
}

/// Deterministic random numbers.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }
}

/// Copies a store as a power failure leaves it. What was not synced of a segment is whole, missing
/// or zero, sector by sector; the file of an unfinished message as a whole.
fn power_cut(dir: &Path, to: &Path, synced: &[(PathBuf, u64)], rng: &mut Rng) {
    const SECTOR: usize = 512;
    copy_store(dir, to);
    for path in segment_files(to) {
        let name = path.file_name().unwrap();
        let durable = synced.iter().find(|(path, _)| path.file_name() == Some(name));
        let mut bytes = fs::read(&path).unwrap();
        if path.extension().is_some_and(|kind| kind == "begun") {
            // Neither the name nor any byte of an unfinished message need be on the disk.
            match rng.below(3) {
                0 => fs::remove_file(&path).unwrap(),
                1 => fs::write(&path, vec![0; bytes.len()]).unwrap(),
                _ => {}
            }
            continue;
        }
        // Of a segment that was begun after the last sync, the header is durable.
        let durable = durable.map_or(24, |(_, durable)| *durable);
        let durable = usize::try_from(durable).unwrap().min(bytes.len());
        let mut at = durable;
        // Of one file in four, nothing is missing. Of the others, each run of up to 8 sectors is
        // whole or zero, or the file ends before it.
        let is_whole = rng.below(4) == 0;
        while at < bytes.len() {
            let sectors = usize::try_from(1 + rng.below(8)).unwrap();
            let end = bytes.len().min((at / SECTOR + sectors) * SECTOR);
            match rng.below(3) {
                _ if is_whole => {}
                0 => {}
                1 => bytes[at..end].fill(0),
                _ => {
                    bytes.truncate(at);
                    break;
                }
            }
            at = end;
        }
        fs::write(&path, bytes).unwrap();
    }
}

/// The names of the files of tables.
fn table_files(dir: &Path) -> BTreeSet<std::ffi::OsString> {
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let tables = files.filter(|path| path.extension().is_some_and(|kind| kind == "sst"));
    tables.filter_map(|path| path.file_name().map(ToOwned::to_owned)).collect()
}

#[test]
fn a_power_failure_loses_nothing_that_was_acknowledged() {
    let root = tempfile::tempdir().unwrap();
    let mut rng = Rng(7);
    let (mut dir, mut bed) = (root.path().join("store-0"), None::<Bed>);
    let mut mail = Mail::new();
    let (mut survivors, mut losses) = (0, 0);
    let mut n = 0;
    for case in 0..cases(40) {
        let mut now = bed.take().unwrap_or_else(|| {
            let mut opened = Bed::open(&dir, &options());
            opened.mail = std::mem::take(&mut mail);
            assert_has(&opened.store, &opened.mail);
            opened
        });
        for _ in 0..=rng.below(3) {
            n += 1;
            let length = usize::try_from(100 + rng.below(9000)).unwrap();
            if rng.below(3) == 0 {
                now.deliver_streamed(n, length)
            } else {
                now.deliver(n, length)
            };
        }
        if rng.below(3) == 0 {
            let victim = now.mail.keys().nth(usize::try_from(rng.below(2)).unwrap()).copied();
            victim.into_iter().for_each(|id| now.delete(id));
        }
        while now.mail.len() > 40 {
            let victim = now.mail.keys().next().copied();
            victim.into_iter().for_each(|id| now.delete(id));
        }
        let steps = rng.below(4);
        for _ in 0..steps {
            now.store.reclaim_segments().unwrap();
        }
        // What was acknowledged so far is on the disk. The power failure is taken to happen now: of
        // what is written from here on, any part may be lost.
        let (mut synced, tables) = (now.segments().synced(), table_files(&dir));
        let acknowledged = now.mail.clone();
        for _ in 0..rng.below(3) {
            let raw = raw(0, usize::try_from(rng.below(20_000)).unwrap());
            now.segments().append(&[0; 32], &raw).unwrap();
        }
        let _under_way = stream(&now.store, &raw(0, usize::try_from(rng.below(9000)).unwrap()));
        let uncertain = (rng.below(2) == 0).then(|| {
            n += 1;
            let length = usize::try_from(100 + rng.below(9000)).unwrap();
            let id = if rng.below(2) == 0 {
                now.deliver_streamed(n, length)
            } else {
                now.deliver(n, length)
            };
            (id, raw(n, length))
        });
        // A streamed message is durable before its row is written. Its segment has the header of 24
        // bytes and only this message.
        if let Some((_, raw)) = &uncertain {
            let length = raw.len() as u64;
            let alone = Extent { segment: 0, offset: 0, length }.stored_bytes() + 24;
            let all = now.segments().synced().into_iter();
            synced.extend(all.filter(|(_, end)| *end == alone));
        }
        // If the engine wrote a file of tables meanwhile, the case is left out, because `power_cut`
        // models only segments.
        if table_files(&dir) != tables {
            mail = std::mem::take(&mut now.mail);
            drop(now);
            continue;
        }
        let image = root.path().join(format!("store-{}", case + 1));
        power_cut(&dir, &image, &synced, &mut rng);
        drop(now);
        fs::remove_dir_all(&dir).unwrap();
        dir = image;
        let mut again = Bed::open(&dir, &options());
        again.mail = acknowledged;
        // The uncertain message may have reached the disk whole.
        if let Some((id, raw)) = uncertain {
            let emails = again.store.snapshot().emails(ACCOUNT, None, 1000).unwrap();
            if emails.iter().any(|(found, _)| *found == id) {
                survivors += 1;
                again.mail.insert(id, raw);
            } else {
                losses += 1;
            }
        }
        assert_has(&again.store, &again.mail);
        bed = Some(again);
    }
    if cases(40) >= 40 {
        assert!(survivors > 0 && losses > 0, "{survivors} survivors, {losses} losses");
    }
}
