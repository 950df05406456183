//! Scripts are stored byte for byte, one of them is active, and clients learn of each change. Also
//! failed runs, hits of rules, and what the `duplicate` test remembers.

use super::fixture::{DAY, Fixture, MS, fixture};
use super::*;
use crate::model::{BlobHash, DataType, ModSeq, ObjectId, ScriptError, SieveScript, limits};
use crate::store::ScriptFault;
use crate::store::row::{DuplicateRow, Row as _};
use crate::store::table::keys::{DuplicateKey, DuplicateTimeKey};

fn fault<T: std::fmt::Debug>(result: Result<T, Error>) -> ScriptFault {
    match result {
        Err(Error::Script(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

/// Returns the ids that /changes reports since a state: created, updated, destroyed, each in the
/// order of the last changes.
fn changes(fixture: &Fixture, since: ModSeq) -> [Vec<ObjectId>; 3] {
    let snapshot = fixture.store.snapshot();
    let changes = snapshot
        .object_changes::<SieveScript>(ACCOUNT, ClientState::at(since), 99)
        .unwrap()
        .unwrap();
    [changes.created, changes.updated, changes.destroyed]
}

fn state(fixture: &Fixture) -> ModSeq {
    fixture.store.snapshot().state(ACCOUNT, DataType::SieveScript).unwrap()
}

#[test]
fn script_is_created_replaced_renamed_activated_and_destroyed() {
    let fixture = fixture();
    let start = state(&fixture);
    let source = b"# \xff not UTF-8\r\nkeep;\0";
    let first = fixture.done(|txn| txn.create_script("Büro", source)).unwrap();
    let second = fixture.done(|txn| txn.create_script("b", b"")).unwrap();
    let read = |id| fixture.store.snapshot().script_source(ACCOUNT, id).unwrap();
    assert_eq!(read(first).as_deref(), Some(&source[..]));
    assert_eq!(changes(&fixture, start), [vec![first, second], vec![], vec![]]);

    let before = state(&fixture);
    assert_eq!(fixture.done(|txn| txn.activate_script(Some(first))), Ok(true));
    assert_eq!(fixture.done(|txn| txn.activate_script(Some(first))), Ok(false));
    assert_eq!(fixture.store.snapshot().active_script(ACCOUNT), Ok(Some(first)));
    assert_eq!(changes(&fixture, before), [vec![], vec![first], vec![]]);

    let before = state(&fixture);
    assert_eq!(fixture.done(|txn| txn.activate_script(Some(second))), Ok(true));
    assert_eq!(changes(&fixture, before), [vec![], vec![second, first], vec![]]);
    assert_eq!(fault(fixture.done(|txn| txn.destroy_script(second))), ScriptFault::Active);

    fixture.clock.advance(DAY);
    assert_eq!(fixture.done(|txn| txn.replace_script(second, b"discard;")), Ok(true));
    assert_eq!(fixture.done(|txn| txn.replace_script(second, b"discard;")), Ok(false));
    assert_eq!(fixture.done(|txn| txn.rename_script(second, "c")), Ok(true));
    assert_eq!(fixture.done(|txn| txn.rename_script(second, "c")), Ok(false));
    let (id, script) = fixture.store.snapshot().script_by_name(ACCOUNT, "c").unwrap().unwrap();
    assert_eq!((id, script.size, script.created.after(DAY)), (second, 8, script.stored));
    assert_eq!(fixture.store.snapshot().active_script(ACCOUNT), Ok(Some(second)));

    let before = state(&fixture);
    assert_eq!(fixture.done(|txn| txn.activate_script(None)), Ok(true));
    assert_eq!(fixture.done(|txn| txn.destroy_script(second)).unwrap().name, "c");
    assert_eq!(changes(&fixture, before), [vec![], vec![], vec![second]]);
    assert_eq!((read(second), read(first).is_some()), (None, true));
    assert_eq!(fixture.done(|txn| txn.destroy_script(second)), Err(Error::NotFound("object")));
    assert!(fixture.done(|txn| txn.activate_script(Some(second))).is_err());
    assert!(fixture.store.check().unwrap().is_empty());
}

#[test]
fn refused_scripts_change_nothing() {
    let fixture = fixture();
    let first = fixture.done(|txn| txn.create_script("a", b"keep;")).unwrap();
    let second = fixture.done(|txn| txn.create_script("b", b"keep;")).unwrap();
    let before = state(&fixture);
    let large = vec![b'#'; limits::MAX_SCRIPT_BYTES + 1];
    let taken = ScriptFault::NameTaken(first);
    assert_eq!(fault(fixture.done(|txn| txn.create_script("a", b""))), taken);
    assert_eq!(fault(fixture.done(|txn| txn.rename_script(second, "a"))), taken);
    assert_eq!(fault(fixture.done(|txn| txn.create_script("", b""))), ScriptFault::Name);
    assert_eq!(fault(fixture.done(|txn| txn.rename_script(first, "\n"))), ScriptFault::Name);
    let too_large = ScriptFault::TooLarge(limits::MAX_SCRIPT_BYTES);
    assert_eq!(fault(fixture.done(|txn| txn.create_script("c", &large))), too_large);
    assert_eq!(fault(fixture.done(|txn| txn.replace_script(first, &large))), too_large);
    fixture.done(|txn| txn.create_script("c", &large[1..])).unwrap();
    assert_eq!(changes(&fixture, before).map(|ids| ids.len()), [1, 0, 0]);
    let full = fixture.done(|txn| {
        (0..limits::MAX_SCRIPTS).try_for_each(|n| txn.create_script(&format!("{n}"), b"").map(drop))
    });
    assert_eq!(fault(full), ScriptFault::TooMany);
    assert_eq!(fixture.store.snapshot().scripts(ACCOUNT).unwrap().len(), 3);
}

#[test]
fn newest_failed_runs_are_kept() {
    let fixture = fixture();
    let error = |n: u32| ScriptError {
        at: UtcMillis(i64::from(n)),
        script: "main".into(),
        line: n,
        message: "ü".repeat(limits::MAX_SCRIPT_ERROR_BYTES),
        email: None,
    };
    for n in 0..60 {
        fixture.done(|txn| txn.add_script_error(&error(n))).unwrap();
    }
    let errors = fixture.store.snapshot().script_errors(ACCOUNT).unwrap();
    let lines: Vec<u32> = errors.iter().map(|error| error.line).collect();
    // The newest `limits::MAX_SCRIPT_ERRORS`, which are 50.
    assert_eq!(lines, (10..60).rev().collect::<Vec<u32>>());
    assert!(errors.iter().all(|error| error.message.len() == limits::MAX_SCRIPT_ERROR_BYTES));
    // One that repeats another replaces it, as the newest.
    for at in 60..200 {
        let again = ScriptError { at: UtcMillis(at), ..error(10) };
        fixture.done(|txn| txn.add_script_error(&again)).unwrap();
    }
    let errors = fixture.store.snapshot().script_errors(ACCOUNT).unwrap();
    assert_eq!((errors.len(), errors[0].line, errors[0].at), (50, 10, UtcMillis(199)));
    assert_eq!(errors[49].line, 11);
}

#[test]
fn duplicates_are_remembered_until_their_time() {
    let fixture = fixture();
    let now = fixture.clock.now();
    let seen = |n: u8| {
        fixture.store.snapshot().is_duplicate(ACCOUNT, &[n; 32], fixture.clock.now()).unwrap()
    };
    let remember =
        |n: u8, until| fixture.done(|txn| txn.remember_duplicate(&[n; 32], until)).unwrap();
    remember(1, now.after(DAY));
    remember(2, now.after(MS));
    remember(3, now);
    assert_eq!([seen(1), seen(2), seen(3)], [true, true, false]);
    remember(1, now.after(2 * DAY));
    fixture.clock.advance(DAY);
    assert_eq!([seen(1), seen(2)], [true, false]);
    assert!(fixture.store.check().unwrap().is_empty());
    fixture.clock.advance(DAY);
    assert!(!seen(1));
    // Records 1 and 2 are left.
    assert_eq!(fixture.done(|txn| txn.expire_duplicates(1)), Ok(true));
    assert_eq!(fixture.done(|txn| txn.expire_duplicates(1)), Ok(true));
    assert_eq!(fixture.done(|txn| txn.expire_duplicates(1)), Ok(false));
    let rows = [Table::Duplicates, Table::DuplicateByTime].map(|t| fixture.engine.inner().rows(t));
    assert_eq!(rows, [vec![], vec![]]);
}

/// RFC 7352 §6.
#[test]
fn number_of_duplicates_is_bounded_and_those_that_expire_first_make_room() {
    let fixture = fixture();
    let now = fixture.clock.now();
    // The first byte is that of the group.
    let hash = |group: u8, n: u8| [&[group, n][..], &[0; 30]].concat().try_into().unwrap();
    let until = |n: u8| now.after(DAY + u32::from(n) * MS);
    let remember = |group: u8, n: u8| {
        fixture.done(|txn| txn.remember_duplicate(&hash(group, n), until(n))).unwrap();
    };
    let seen = |group: u8| -> Vec<u8> {
        let snapshot = fixture.store.snapshot();
        let is_seen = |n: &u8| snapshot.is_duplicate(ACCOUNT, &hash(group, *n), now).unwrap();
        (0..=u8::MAX).filter(is_seen).collect()
    };
    let share = u8::try_from(limits::MAX_DUPLICATES / 256).unwrap();
    // In the opposite order, so that the oldest record is not the one that expires first.
    (0..share).rev().for_each(|n| remember(u8::MAX, n));
    remember(0, 1);
    assert_eq!(seen(u8::MAX), (0..share).collect::<Vec<_>>());
    remember(u8::MAX, 9);
    remember(u8::MAX, share);
    assert_eq!((seen(u8::MAX), seen(0)), ((1..=share).collect(), vec![1]));
    // A record that expires before all others has room, too: the next one takes its place.
    remember(u8::MAX, 0);
    assert_eq!(seen(u8::MAX), [0].into_iter().chain(2..=share).collect::<Vec<_>>());
    // An earlier version wrote more. They become fewer with each record.
    for n in share + 1..share + 11 {
        let (hash, until) = (hash(u8::MAX, n), until(n));
        let key = DuplicateKey { account: ACCOUNT, hash };
        fixture.write(Table::Duplicates, &key, &DuplicateRow { until }.encode());
        let key = DuplicateTimeKey { account: ACCOUNT, until: until.into(), hash };
        fixture.write(Table::DuplicateByTime, &key, &[1]);
    }
    (share + 11..share + 14).for_each(|n| remember(u8::MAX, n));
    assert_eq!(seen(u8::MAX), (14..share + 14).collect::<Vec<_>>());
    assert!(fixture.store.check().unwrap().is_empty());
}

#[test]
fn hits_are_counted_for_the_source_that_ran_and_go_with_it() {
    let fixture = fixture();
    let hash = |source: &[u8]| BlobHash(*blake3::hash(source).as_bytes());
    let (old, new) = (b"keep; discard;", b"discard; keep;");
    let id = fixture.done(|txn| txn.create_script("main", old)).unwrap();
    let other = fixture.done(|txn| txn.create_script("other", old)).unwrap();
    let count = |script, source: &[u8], rules: &[u32]| {
        fixture.done(|txn| txn.count_script_hits(script, &hash(source), rules)).unwrap();
    };
    let hits = |script| -> Vec<(u32, u64, UtcMillis)> {
        let all = fixture.store.snapshot().script_hits(ACCOUNT, script).unwrap();
        all.into_iter().map(|(rule, row)| (rule, row.hits, row.last)).collect()
    };
    let first = fixture.clock.now();
    count(id, old, &[0, 6]);
    fixture.clock.advance(DAY);
    count(id, old, &[6]);
    count(other, old, &[0]);
    let second = fixture.clock.now();
    assert_eq!(hits(id), [(0, 1, first), (6, 2, second)]);

    // Nothing is written for another source, for an empty list of rules, or for a script that does
    // not exist.
    let rows = || fixture.engine.inner().rows(Table::ScriptHits).len();
    count(id, new, &[0]);
    count(id, old, &[]);
    count(ObjectId(99), old, &[0]);
    assert_eq!(rows(), 3);
    assert!(fixture.store.check().unwrap().is_empty());

    fixture.done(|txn| txn.rename_script(id, "renamed")).unwrap();
    fixture.done(|txn| txn.replace_script(id, old)).unwrap();
    assert_eq!(hits(id).len(), 2);
    fixture.done(|txn| txn.replace_script(id, new)).unwrap();
    assert_eq!((hits(id), hits(other).len()), (vec![], 1));
    // A delivery that ran the former source commits later.
    count(id, old, &[6]);
    assert_eq!(hits(id), []);
    fixture.done(|txn| txn.destroy_script(other)).unwrap();
    assert_eq!(rows(), 0);
    assert!(fixture.store.check().unwrap().is_empty());
}

#[test]
fn a_row_of_hits_has_few_bytes() {
    let fixture = fixture();
    let source = b"keep;";
    let id = fixture.done(|txn| txn.create_script("main", source)).unwrap();
    let hash = BlobHash(*blake3::hash(source).as_bytes());
    fixture.done(|txn| txn.count_script_hits(id, &hash, &[0])).unwrap();
    let rows = fixture.engine.inner().rows(Table::ScriptHits);
    let [(key, value)] = <[(Vec<u8>, Vec<u8>); 1]>::try_from(rows).unwrap();
    // The key: account (4), script (8), rule (4). The row: version (1), hits (1), time (6).
    assert_eq!((key.len(), value.len()), (16, 8));
}

#[test]
fn damaged_duplicate_does_not_keep_mail_from_being_delivered() {
    let fixture = fixture();
    let (day, week) = (fixture.clock.now().after(DAY), fixture.clock.now().after(7 * DAY));
    let hash = [1; 32];
    let remember = |until| fixture.done(|txn| txn.remember_duplicate(&hash, until));
    let seen = || fixture.store.snapshot().is_duplicate(ACCOUNT, &hash, fixture.clock.now());
    remember(day).unwrap();
    fixture.write(Table::Duplicates, &DuplicateKey { account: ACCOUNT, hash }, &[99]);
    assert_eq!(seen(), Ok(false), "as after a repair");
    remember(week).unwrap();
    assert_eq!(seen(), Ok(true));
    assert!(fixture.store.check().unwrap().is_empty());
    // The time of the damaged record does not end the new one.
    fixture.clock.advance(2 * DAY);
    assert_eq!(fixture.done(|txn| txn.expire_duplicates(9)), Ok(false));
    assert_eq!(seen(), Ok(true));
    // A damaged key in the index by time keeps no record from being written.
    let key = DuplicateTimeKey { account: ACCOUNT, until: UtcMillis(0).into(), hash };
    let long = [&key.encode()[..], &[1]].concat();
    let put = Put { table: Table::DuplicateByTime, key: long, value: Some(vec![1]) };
    fixture.engine.write(&[Arc::new(Batch::of(vec![put]))]).unwrap();
    remember(week.after(DAY)).unwrap();
    assert_eq!(seen(), Ok(true));
    assert!(fixture.store.check().unwrap().is_empty());
}
