//! Damage of rows of each table: what a check reports of it, what a repair fixes, and what goes on
//! in spite of it.

use super::*;
use crate::model::{Change, ObjectKind};
use crate::store::WakeCondition;
use crate::store::row::{BlobBytes, BlobRow, RowFormat as _};
use crate::store::table::keys::BlobPurgeKey;
use crate::store::txn::Txn;

/// What is done to one row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Delete,
    /// One byte is added to the end of its value.
    Alter,
    /// It is copied to another key.
    Add,
}

/// Whether a repair can fix this damage of a table.
fn is_repairable(table: Table, damage: Damage) -> bool {
    match table {
        // No other row says what these rows say, except that the sweep over all messages adds
        // lost candidates (`BlobPurge`) again.
        Table::Outbox
        | Table::OutboxMessages
        | Table::Vacation
        | Table::Blobs
        | Table::BlobFrames
        | Table::BlobPurge => false,
        // No other row names a decision: only one that cannot be read is deleted.
        Table::Decisions => damage == Damage::Alter,
        // Nothing says whose mail an added mailbox would have, which message an added email would
        // hold, or which of two primary addresses is right.
        Table::Mailboxes | Table::EmailMetadata | Table::Addresses => damage != Damage::Add,
        // An added told row or record of a delivery is accepted, and gets its row by time.
        _ => true,
    }
}

/// Whether a check cannot notice this damage of a table.
fn is_unnoticed(table: Table, damage: Damage) -> bool {
    match table {
        Table::Decisions
        | Table::History
        | Table::Sweeps
        | Table::ActiveScript
        | Table::ScriptErrors => damage != Damage::Alter,
        Table::BlobPurge => damage != Damage::Delete,
        // The subscriber of an added row is above the newest account id of the site. A rule that
        // never fired has no row.
        Table::Subscriptions | Table::ScriptHits => damage == Damage::Delete,
        Table::ThreadRefs => damage == Damage::Add,
        _ => false,
    }
}

#[test]
fn damage_that_another_row_shows_is_reported_and_derived_rows_are_repaired() {
    let (engine, store) = loop {
        let engine = Arc::new(MemoryEngine::new());
        let store = open(engine.clone());
        fill(&store);
        // Which emails are boundaries depends on a random secret. Sometimes none is.
        if !rows_of(&engine, Table::MailboxRank, ANN).is_empty() {
            break (engine, store);
        }
    };
    assert_eq!(deep(&store), []);
    drop(store);
    type Whole = (Table, Vec<(Vec<u8>, Vec<u8>)>);
    let all: Vec<Whole> = Table::ALL.iter().map(|table| (*table, engine.rows(*table))).collect();
    for table in Table::ALL {
        assert!(!rows_of(&engine, *table, ANN).is_empty(), "{} has no row", table.name());
        for damage in [Damage::Delete, Damage::Alter, Damage::Add] {
            let copy = Arc::new(MemoryEngine::new());
            let put = |(table, rows): &Whole| {
                let put = |(key, value): &(Vec<u8>, Vec<u8>)| Put {
                    table: *table,
                    key: key.clone(),
                    value: Some(value.clone()),
                };
                rows.iter().map(put).collect::<Vec<_>>()
            };
            let puts = all.iter().flat_map(put).collect();
            copy.write(&[Arc::new(Batch::of(puts))]).unwrap();
            let rows = rows_of(&copy, *table, ANN);
            // In `search_folds` the last row, which is part of a fold; in other tables the first.
            let at = if *table == Table::SearchFolds { rows.len() - 1 } else { 0 };
            let (key, value) = rows[at].clone();
            match damage {
                Damage::Delete => write(&*copy, *table, &key, None),
                Damage::Alter => write(&*copy, *table, &key, Some([&value[..], &[7]].concat())),
                Damage::Add => {
                    let mut key = key;
                    if let Some(last) = key.last_mut() {
                        *last = last.wrapping_add(101);
                    }
                    // In these tables, the copy would be the row of another account.
                    if matches!(
                        table,
                        Table::Accounts
                            | Table::AccountState
                            | Table::Vacation
                            | Table::ActiveScript
                            | Table::ScriptErrors
                    ) {
                        continue;
                    }
                    write(&*copy, *table, &key, Some(value));
                }
            }
            // No check reads the first row of this table, the mark of the queue.
            if *table == Table::Site {
                continue;
            }
            let store = open(copy.clone());
            let named = deep(&store);
            let what = format!("{} {damage:?}: {named:?}", table.name());
            if is_unnoticed(*table, damage) {
                assert!(named.is_empty(), "{what}");
                continue;
            }
            // Damage of these tables is reported for the rows that depend on them.
            let is_reported_elsewhere = matches!(
                table,
                Table::EmailMetadata
                    | Table::Deliveries
                    | Table::VacationTold
                    | Table::Outbox
                    | Table::Mailboxes
                    | Table::Vacation
                    | Table::BlobPurge
                    | Table::BlobFrames
                    | Table::SearchFolds
                    | Table::Uploads
                    | Table::Objects
                    | Table::ScriptSources
                    | Table::Duplicates
            ) || (*table, damage)
                == (Table::Subscriptions, Damage::Add);
            assert!(
                is_reported_elsewhere || named.iter().any(|breach| breach.table == table.name()),
                "{what}"
            );
            assert!(!named.is_empty(), "{what}");
            let done = repair(&store, RepairScope::Repair);
            let left = deep(&store);
            if is_repairable(*table, damage) {
                assert_eq!((left, done.unrepaired_count), (Vec::new(), 0), "{what}, then {done:?}");
                // Only the damaged account was written; a row of `shared` belongs to two.
                assert!(
                    *table == Table::Shared || done.repaired.iter().all(|account| *account == ANN),
                    "{done:?}"
                );
                // Deliveries go on.
                deliver(&store, ANN, 200).unwrap();
                assert_eq!(deep(&store), [], "{what}");
                assert_eq!(repair(&store, RepairScope::Repair).written, 0);
            }
        }
    }
}

#[test]
fn a_repair_of_listings_refuses_states_and_one_of_the_search_index_does_not() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    let state = |store: &Store| store.snapshot().account_state(ANN).unwrap();
    let before = state(&store);
    let (key, _) = rows_of(&engine, Table::EmailTokens, ANN).remove(2);
    write(&*engine, Table::EmailTokens, &key, None);
    let done = repair(&store, RepairScope::Reindex);
    assert_eq!((done.repaired, done.history_restarted), (vec![ANN], vec![]));
    assert!(
        done.written > 0 && rows_of(&engine, Table::SearchFolds, ANN).len() == 1,
        "only the list of folds is left"
    );
    assert_eq!(AccountStateRow { unfolded: before.unfolded, ..state(&store) }, before);
    assert_eq!(deep(&store), []);

    let (key, _) = rows_of(&engine, Table::MailboxEmailIndex, ANN).remove(2);
    write(&*engine, Table::MailboxEmailIndex, &key, None);
    assert_eq!(repair(&store, RepairScope::Reindex).written, 0, "a reindex leaves listings alone");
    let done = repair(&store, RepairScope::Repair);
    assert_eq!((done.repaired, done.history_restarted), (vec![ANN], vec![ANN]));
    let after = state(&store);
    for data in [DataType::Email, DataType::Thread, DataType::Mailbox] {
        assert!(
            after.low_mark(data) > before.modseq && after.high_mark(data) == after.modseq,
            "{data:?}"
        );
    }
    let snapshot = store.snapshot();
    assert_eq!(
        snapshot
            .email_changes(ANN, ClientState::at(before.high_mark(DataType::Email)), 99)
            .unwrap(),
        None
    );
    assert_eq!(
        snapshot
            .thread_changes(ANN, ClientState::at(before.high_mark(DataType::Thread)), 99)
            .unwrap(),
        None
    );
    assert_eq!(
        snapshot
            .mailbox_changes(ANN, ClientState::at(before.high_mark(DataType::Mailbox)), 99)
            .unwrap(),
        None
    );
    let now = snapshot
        .email_changes(ANN, ClientState::at(after.high_mark(DataType::Email)), 99)
        .unwrap()
        .unwrap();
    assert!(now.created.is_empty() && now.updated.is_empty() && now.destroyed.is_empty());
    let kept =
        snapshot.maintained_listing(ANN, MailboxUid(1), ListingFilter::Every).unwrap().unwrap();
    assert_eq!((kept.emails.low, kept.threads.low), (after.modseq, after.modseq));
    drop(snapshot);
    // A rebuild restarts history even without faults, but only of the named account.
    let bob = store.snapshot().account_state(BOB).unwrap();
    let done = store.repair(RepairScope::Rebuild, Some(&[ANN]), &make_rows, &mut |_| true).unwrap();
    assert_eq!(done.history_restarted, [ANN]);
    assert!(state(&store).low_mark(DataType::Email) > after.modseq);
    assert_eq!(store.snapshot().account_state(BOB).unwrap(), bob);
    assert_eq!(deep(&store), []);
    assert_eq!(
        store.repair(RepairScope::Repair, Some(&[AccountId(77)]), &make_rows, &mut |_| true),
        Err(Error::NotFound("account"))
    );
}

/// Adds a row with a damaged key to tables that are read for all accounts at once.
#[test]
fn damaged_key_does_not_stop_what_reads_all_accounts() {
    for table in [
        Table::Accounts,
        Table::AccountState,
        Table::Vacation,
        Table::Outbox,
        Table::OutboxDue,
        Table::OutboxBlobs,
        Table::BlobRefs,
        Table::UploadBlobs,
        Table::Shared,
        Table::ActiveScript,
        Table::ScriptErrors,
        Table::BlobPurge,
    ] {
        let engine = Arc::new(MemoryEngine::new());
        let store = open(engine.clone());
        fill(&store);
        let wakeups = |store: &Store| {
            store.snapshot().wakeups(WakeCondition::Due(UtcMillis(0)), 1000).unwrap()
        };
        let (before, ids) = (wakeups(&store), store.snapshot().account_ids().unwrap());
        assert!(!before.is_empty());
        let (key, value) = rows_of(&engine, table, ANN)[0].clone();
        let long = [key.as_slice(), &[1]].concat();
        write(&*engine, table, &long, Some(value));
        let snapshot = store.snapshot();
        assert_eq!(snapshot.account_ids().unwrap(), ids, "{table}");
        assert_eq!(wakeups(&store), before, "{table}");
        assert!(snapshot.queue_counts().is_ok() && snapshot.directory().is_ok(), "{table}");
        assert!(snapshot.pending_absence_reports().is_ok(), "{table}");
        let problems = snapshot.audit_queue(&[]).unwrap().problems;
        // Of these keys, the audit of the queue reports only that of an action.
        assert_eq!(problems.is_empty(), table != Table::Outbox, "{table}: {problems:?}");
        drop(snapshot);
        let named = deep(&store);
        assert!(named.iter().any(|breach| breach.table == table.name()), "{table}: {named:?}");
        repair(&store, RepairScope::Repair);
        // Actions and vacation responses stand nowhere else: a person must decide.
        if !matches!(table, Table::Outbox | Table::Vacation) {
            assert_eq!(deep(&store), [], "{table}");
        }
        deliver(&store, BOB, 200).unwrap();
    }
}

/// The sweep over all messages, and the collection of those that nobody holds, serve all accounts.
/// So one damaged row must not end them.
#[test]
fn damaged_rows_do_not_stop_the_collection_of_messages() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    let row = BlobRow { at: UtcMillis(0), bytes: BlobBytes::Inline(b"nobody's") }.encode();
    let unheld = [1; 32];
    write(&*engine, Table::Blobs, &unheld, Some(row.clone()));
    // A key that is too short, a row that cannot be read, and a candidate without a hash.
    write(&*engine, Table::Blobs, &[0], Some(row));
    write(&*engine, Table::Blobs, &[0; 32], Some(vec![99]));
    write(&*engine, Table::BlobPurge, &[0; 9], Some(vec![1]));
    // The sweep adds no candidate for a message whose row cannot be read. But an email that gave
    // the message up may have left one.
    let unreadable = BlobPurgeKey { at: UtcMillis(0).into(), blob: BlobHash([0; 32]) }.encode();
    write(&*engine, Table::BlobPurge, &unreadable, Some(vec![1]));
    let site = |change: &dyn Fn(&mut Txn<'_>) -> Result<bool, Error>| {
        let (value, ticket) = store.commit(AccountId::SITE, |txn| change(txn)).unwrap();
        ticket.wait_blocking().unwrap();
        value
    };
    while site(&|txn| txn.sweep_blobs(std::time::Duration::from_secs(3600), 5)) {}
    while site(&|txn| txn.collect_blobs(UtcMillis(1), 1).map(|done| done.has_more)) {}
    assert_eq!(engine.get(Table::Blobs, &unheld).unwrap(), None);
    assert_eq!(engine.get(Table::BlobPurge, &[0; 9]).unwrap(), None);
    assert_eq!(engine.get(Table::BlobPurge, &unreadable).unwrap(), None);
    // A person can still look at what is damaged.
    assert!(engine.get(Table::Blobs, &[0]).unwrap().is_some());
    assert!(engine.get(Table::Blobs, &[0; 32]).unwrap().is_some());
}

/// The index of an email whose message is lost or damaged cannot be made again, and is no fault.
#[test]
fn a_message_that_cannot_be_read_does_not_make_every_repair_write_the_search_index() {
    type DamageFn = fn(Vec<u8>) -> Option<Vec<u8>>;
    let damages: [(&str, DamageFn); 3] = [
        ("lost", |_| None),
        ("unreadable", |_| Some(vec![99])),
        ("altered", |row| Some([&row[..], &[7]].concat())),
    ];
    for (name, damage) in damages {
        let engine = Arc::new(MemoryEngine::new());
        let store = open(engine.clone());
        fill(&store);
        let tokens = |id: EmailId| {
            let key = EmailKey { account: ANN, email: id }.encode();
            engine.get(Table::EmailTokens, &key).unwrap()
        };
        // A short message in a fold, and not the one that an action names.
        let emails = store.snapshot().emails(ANN, None, 99).unwrap();
        let (id, email) = emails
            .into_iter()
            .find(|(id, email)| {
                tokens(*id).is_none() && email.size < 1000 && id.received_at() > UtcMillis(0)
            })
            .unwrap();
        let row = engine.get(Table::Blobs, &email.blob.0).unwrap().unwrap();
        write(&*engine, Table::Blobs, &email.blob.0, damage(row));
        let is_known = || deep(&store).iter().all(|breach| breach.table == Table::Blobs.name());
        assert!(is_known(), "{name}: {:?}", deep(&store));
        assert_eq!(repair(&store, RepairScope::Repair).written, 0, "{name}");
        // A repair of the index deletes the fold: the email keeps a row there, without its words.
        let (key, _) = rows_of(&engine, Table::EmailTokens, ANN).remove(2);
        write(&*engine, Table::EmailTokens, &key, None);
        assert!(repair(&store, RepairScope::Repair).written > 0, "{name}");
        assert!(tokens(id).is_some(), "{name}");
        assert!(is_known(), "{name}: {:?}", deep(&store));
        assert_eq!(repair(&store, RepairScope::Repair).written, 0, "{name}");
        // The row stays as it is from then on.
        let (before, (key, _)) = (tokens(id), rows_of(&engine, Table::EmailTokens, ANN).remove(2));
        write(&*engine, Table::EmailTokens, &key, None);
        repair(&store, RepairScope::Reindex);
        assert_eq!(tokens(id), before, "{name}");
        assert!(is_known(), "{name}: {:?}", deep(&store));
    }
}

/// A repair deletes an object whose row is lost or damaged. Clients must learn of it.
#[test]
fn a_repair_refuses_the_states_of_all_kinds_of_objects() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    let state = || store.snapshot().account_state(ANN).unwrap();
    let before = state();
    let (key, _) = rows_of(&engine, Table::MailboxEmailIndex, ANN).remove(2);
    write(&*engine, Table::MailboxEmailIndex, &key, None);
    assert_eq!(repair(&store, RepairScope::Repair).history_restarted, [ANN]);
    for data in ObjectKind::ALL.into_iter().filter_map(ObjectKind::data_type) {
        assert!(state().low_mark(data) > before.modseq, "{data:?}");
        assert_eq!(state().high_mark(data), state().modseq, "{data:?}");
    }
}

/// The row of the account's state, which a check makes from the stored one, comes with the row of
/// the directory in one batch, or behind it.
#[test]
fn a_repair_of_the_directory_and_of_the_totals_tells_the_listeners() {
    for repair_rows in [256, 1] {
        let engine = Arc::new(MemoryEngine::new());
        let thresholds = Thresholds { repair_rows, ..Thresholds::default() };
        let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
        let options = Options { ranked_above: Some(0), thresholds, ..Options::small() };
        let store = Store::open_engine(engine.clone(), &options, clock).unwrap();
        fill(&store);
        let (key, _) = engine
            .rows(Table::Addresses)
            .into_iter()
            .find(|(key, _)| key.starts_with(b"ann@"))
            .unwrap();
        write(&*engine, Table::Addresses, &key, None);
        let (key, row) = rows_of(&engine, Table::AccountState, ANN).remove(0);
        let found = AccountStateRow::decode(&key, &row).unwrap();
        let wrong = AccountStateRow { told: found.told + 1, ..found.clone() };
        write(&*engine, Table::AccountState, &key, Some(wrong.to_bytes()));
        let told = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let listener_told = Arc::clone(&told);
        store.on_change(move |change: &Change| {
            let types = change.types.iter().filter(|(data, _)| *data == DataType::Account);
            listener_told.fetch_add(types.count(), std::sync::atomic::Ordering::Relaxed);
        });
        repair(&store, RepairScope::Repair);
        assert_eq!(told.load(std::sync::atomic::Ordering::Relaxed), 1, "{repair_rows}");
        assert!(store.snapshot().account_state(ANN).unwrap().modseq > found.modseq);
        assert_eq!(deep(&store), []);
    }
}
