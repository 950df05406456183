//! Damage of every kind in every table: named by the check, mended by the repair, and told to clients honestly.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::model::clock::FixedClock;
use crate::model::{
    AccountRow, Action, Address, AddressRow, BlobHash, DataType, Decision, EmailId, ListingFilter, Mailbox, MailboxUid,
    MessageRows, Role, SenderIdentity, ThreadKey, ToldKey, ToldLifetime, UtcMillis, VacationResponse, Verdict,
};
use crate::store::engine::fault::FaultyEngine;
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine, Put};
use crate::store::row::{Object as _, Row as _};
use crate::store::table::codec::Prefix;
use crate::store::table::keys::{AccountKey, EmailKey, MailboxKey, ObjectKey};
use crate::store::tests::action;
use crate::store::{AccountStateRow, ClientState, EncodedMessage, FoldSizes, NewEmail, NewMailbox, Options};

mod beside;
mod lost;
mod refs;

const ANN: AccountId = AccountId(1);
const BOB: AccountId = AccountId(2);

/// The rows of a message of these tests: its subject is its only word.
fn remake(raw: &[u8]) -> MessageRows {
    let text = String::from_utf8_lossy(raw);
    let mut rows = MessageRows {
        blob: BlobHash(*blake3::hash(raw).as_bytes()),
        size: raw.len() as u64,
        thread_keys: vec![ThreadKey([u8::try_from(raw.len() % 7).unwrap(); 32])],
        ..MessageRows::default()
    };
    rows.content.subject = Some(text.chars().take(40).collect());
    rows.tokens.texts = vec![(text.chars().take(20).collect(), 1)];
    rows
}

fn open(engine: Arc<dyn Engine>) -> Store {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    Store::open_engine(engine, &Options { ranked_above: Some(0), ..Options::small() }, clock).unwrap()
}

fn done<T>(store: &Store, account: AccountId, change: impl FnMut(&mut crate::store::Txn<'_>) -> Result<T, Error>) -> T {
    let (value, ticket) = store.commit(account, change).unwrap();
    ticket.wait_blocking().unwrap();
    value
}

fn make(store: &Store, account: AccountId, name: &str) {
    let primary = Address::from_parts(name, "example.org");
    done(store, AccountId::SITE, |txn| {
        txn.set_address(&primary.to_string(), Some(&AddressRow::Primary(account)));
        Ok(())
    });
    done(store, account, |txn| {
        txn.set_account(&AccountRow::new(name, primary.clone(), UtcMillis(0)));
        for (name, role) in [("Inbox", Role::Inbox), ("Trash", Role::Trash), ("Archive", Role::Archive)] {
            txn.create_mailbox(&NewMailbox { name: name.into(), parent: None, role: Some(role), sort_order: 0 })?;
        }
        Ok(())
    });
}

fn deliver(store: &Store, account: AccountId, n: u32) -> Result<EmailId, Error> {
    // One is long enough to lie in frames.
    let body = "long ".repeat(if n == 7 { 30_000 } else { 1 });
    let raw = format!("Subject: letter {}\r\n\r\n{body}{n}\r\n", "x".repeat(n as usize % 11)).into_bytes();
    let encoded = EncodedMessage::new(&remake(&raw));
    let (mut results, ticket) = store.commit_message(&[account], &encoded, &raw, |txn| {
        let id = txn.create_email(&NewEmail {
            message: &encoded,
            prefix: b"Delivered-To: ann@example.org\r\n",
            mailboxes: BTreeSet::from([MailboxUid(1 + n % 3)]),
            keywords: [["$seen"], ["$flagged"], ["$draft"]][n as usize % 3].iter().map(|word| (*word).into()).collect(),
            received_at: UtcMillis(i64::from(n) * 1000),
        })?;
        txn.remember_delivery(&[u8::try_from(n).unwrap(); 32], Some(id.0), &[])?;
        Ok(id.0)
    });
    let id = results.pop().unwrap().1?;
    ticket.wait_blocking()?;
    Ok(id)
}

/// Two accounts with a row in every table.
fn life(store: &Store) {
    make(store, ANN, "ann");
    make(store, BOB, "bob");
    for (account, other) in [(ANN, BOB), (BOB, ANN)] {
        let ids: Vec<EmailId> = (0..40).map(|n| deliver(store, account, n).unwrap()).collect();
        done(store, account, |txn| {
            for id in ids.iter().step_by(7) {
                let email = txn.snapshot().email(account, *id)?.unwrap();
                txn.update_email(*id, email.mailboxes.clone(), ["$flagged".to_owned()].into())?;
            }
            txn.subscribe(MailboxUid(1), other, true)?;
            txn.update_mailbox(MailboxUid(1), |row| row.shares = [(other, 3)].into())?;
            txn.destroy_email(ids[3])?;
            txn.destroy_email(ids[4])?;
            txn.destroy_email(ids[5])?;
            txn.purge_email(ids[5])?;
            txn.note_history(std::time::Duration::ZERO)?;
            txn.sweep_thread_refs(UtcMillis(0), std::time::Duration::ZERO, 1)?;
            while !txn.extend_listing(MailboxUid(1), ListingFilter::Unseen, 9)? {}
            while !txn.extend_listing(MailboxUid(0), ListingFilter::ThreadFlagged, 9)? {}
            txn.set_vacation(&VacationResponse { enabled: true, ..VacationResponse::default() })?;
            let generation = txn.snapshot().vacation(account)?.generation;
            let bob = Address::from_parts("bob", "example.net");
            txn.remember_told(&ToldKey([1; 32]), &bob, &ToldLifetime::of(generation))?;
            let now = txn.now();
            let blob = txn.snapshot().email(account, ids[0])?.map(|email| email.blob);
            let action = txn.queue_action(Action { blob, same: Some([9; 16]), ..action() }, b"Subject: x\r\n\r\n")?;
            txn.create_object(&SenderIdentity::default())?;
            txn.create_object(&crate::model::EmailSubmission::default())?;
            txn.create_object(&crate::model::PushSubscription::default())?;
            txn.put_upload(account, &BlobHash(*blake3::hash(b"uploaded").as_bytes()), b"uploaded", "text/plain", 99)?;
            txn.add_decision(&Decision {
                at: now,
                email: ids[0],
                sender: None,
                recipient: bob,
                verdict: Verdict::Answered(action),
            });
            Ok(())
        });
        fold(store, account);
    }
}

/// A first fold of some of the account's emails.
fn fold(store: &Store, account: AccountId) {
    let sizes = FoldSizes { rows: 6, row_octets: 1 << 16, block: 256, fan: 4, piece: 1 << 12, last_level: 1 };
    let piece = store.snapshot().next_fold_piece(account, &sizes).unwrap().unwrap();
    assert!(done(store, account, |txn| txn.write_folds(&piece)));
}

fn write(engine: &dyn Engine, table: Table, key: &[u8], value: Option<Vec<u8>>) {
    let puts = vec![Put { table, key: key.to_vec(), value }];
    engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
}

fn rows_of(engine: &MemoryEngine, table: Table, account: AccountId) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = engine.rows(table);
    let at = match table {
        Table::BlobRefs | Table::OutboxBlobs | Table::UploadBlobs => 32,
        Table::Shared => 4,
        Table::OutboxDue => 9,
        Table::Site | Table::Addresses | Table::Blobs | Table::BlobFrames | Table::BlobPurge => {
            return rows;
        }
        _ => 0,
    };
    rows.retain(|(key, _)| key[at..at + 4] == account.0.to_be_bytes());
    rows
}

fn deep(store: &Store) -> Vec<Breach> {
    store.check_deep(Some(&remake), &mut |_| true).unwrap().breaches
}

fn repair(store: &Store, scope: RepairScope) -> RepairReport {
    store.repair(scope, None, &remake, &mut |_| true).unwrap()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Delete,
    Alter,
    Add,
}

/// Whether a repair makes good what was done to a table; what is the owner's word it cannot.
fn is_made_good(table: Table, damage: Damage) -> bool {
    match table {
        // Of messages that nobody holds the round over all messages takes care.
        Table::Site
        | Table::Outbox
        | Table::OutboxMessages
        | Table::Vacation
        | Table::Blobs
        | Table::BlobFrames
        | Table::BlobPurge => false,
        // Of a row that is deleted nothing tells.
        Table::Decisions => damage == Damage::Alter,
        // Whose mail it would be nothing tells, nor which message an email that never was would hold, nor which of two
        // primary addresses is one.
        Table::Mailboxes | Table::EmailMetadata | Table::Addresses => damage != Damage::Add,
        // Who was told, and which transaction was served, is believed.
        _ => true,
    }
}

/// What is not seen: that it is not there, where nothing else tells of it.
fn is_silent(table: Table, damage: Damage) -> bool {
    match table {
        Table::Site => true,
        Table::Decisions | Table::Subscriptions | Table::History | Table::Sweeps => damage != Damage::Alter,
        Table::BlobPurge => damage != Damage::Delete,
        Table::Accounts | Table::AccountState | Table::ThreadRefs => damage == Damage::Add,
        _ => false,
    }
}

#[test]
fn every_damage_in_every_table_is_named_and_what_is_derived_is_mended() {
    let (engine, store) = loop {
        let engine = Arc::new(MemoryEngine::new());
        let store = open(engine.clone());
        life(&store);
        // Which emails are boundaries hangs on secrets that are drawn: now and then none is.
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
            // One that is shown now, of the list; of the rest any.
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
                    if matches!(table, Table::Accounts | Table::AccountState | Table::Vacation) {
                        continue;
                    }
                    write(&*copy, *table, &key, Some(value));
                }
            }
            if *table == Table::Site {
                continue;
            }
            let store = open(copy.clone());
            let named = deep(&store);
            let what = format!("{} {damage:?}: {named:?}", table.name());
            if is_silent(*table, damage) {
                assert!(named.is_empty(), "{what}");
                continue;
            }
            // What only others tell of is named where they are.
            let told_by_others = matches!(
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
            );
            assert!(told_by_others || named.iter().any(|breach| breach.table == table.name()), "{what}");
            assert!(!named.is_empty(), "{what}");
            let done = repair(&store, RepairScope::Repair);
            let left = deep(&store);
            if is_made_good(*table, damage) {
                assert_eq!((left, done.left_count), (Vec::new(), 0), "{what}, then {done:?}");
                // Only the account that was hurt was touched.
                // (A row of who shares with whom is of two.)
                assert!(*table == Table::Shared || done.mended.iter().all(|account| *account == ANN), "{done:?}");
                // And it goes on.
                deliver(&store, ANN, 200).unwrap();
                assert_eq!(deep(&store), [], "{what}");
                assert_eq!(repair(&store, RepairScope::Repair).written, 0);
            }
        }
    }
}

#[test]
fn what_searches_use_is_mended_without_a_word_to_clients_and_lists_with_one() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    life(&store);
    let state = |store: &Store| store.snapshot().account_state(ANN).unwrap();
    let before = state(&store);
    let (key, _) = rows_of(&engine, Table::EmailTokens, ANN).remove(2);
    write(&*engine, Table::EmailTokens, &key, None);
    let done = repair(&store, RepairScope::Reindex);
    assert_eq!((done.mended, done.renewed), (vec![ANN], vec![]));
    assert!(done.written > 0 && rows_of(&engine, Table::SearchFolds, ANN).len() == 1, "its folds are let go");
    assert_eq!(AccountStateRow { unfolded: before.unfolded, ..state(&store) }, before);
    assert_eq!(deep(&store), []);

    let (key, _) = rows_of(&engine, Table::MailboxEmailIndex, ANN).remove(2);
    write(&*engine, Table::MailboxEmailIndex, &key, None);
    assert_eq!(repair(&store, RepairScope::Reindex).written, 0, "not its business");
    let done = repair(&store, RepairScope::Repair);
    assert_eq!((done.mended, done.renewed), (vec![ANN], vec![ANN]));
    let after = state(&store);
    for data in [DataType::Email, DataType::Thread, DataType::Mailbox] {
        assert!(after.low_mark(data) > before.modseq && after.state(data) == after.modseq, "{data:?}");
    }
    let snapshot = store.snapshot();
    assert_eq!(snapshot.email_changes(ANN, ClientState::at(before.state(DataType::Email)), 99).unwrap(), None);
    assert_eq!(snapshot.thread_changes(ANN, ClientState::at(before.state(DataType::Thread)), 99).unwrap(), None);
    assert_eq!(snapshot.mailbox_changes(ANN, ClientState::at(before.state(DataType::Mailbox)), 99).unwrap(), None);
    let now = snapshot.email_changes(ANN, ClientState::at(after.state(DataType::Email)), 99).unwrap().unwrap();
    assert!(now.created.is_empty() && now.updated.is_empty() && now.destroyed.is_empty());
    let kept = snapshot.maintained_listing(ANN, MailboxUid(1), ListingFilter::Every).unwrap().unwrap();
    assert_eq!((kept.emails.low, kept.threads.low), (after.modseq, after.modseq));
    drop(snapshot);
    // A rebuild begins anew whether anything was wrong or not; the other account only when it is named.
    let bob = store.snapshot().account_state(BOB).unwrap();
    let done = store.repair(RepairScope::Rebuild, Some(&[ANN]), &remake, &mut |_| true).unwrap();
    assert_eq!(done.renewed, [ANN]);
    assert!(state(&store).low_mark(DataType::Email) > after.modseq);
    assert_eq!(store.snapshot().account_state(BOB).unwrap(), bob);
    assert_eq!(deep(&store), []);
    assert_eq!(
        store.repair(RepairScope::Repair, Some(&[AccountId(77)]), &remake, &mut |_| true),
        Err(Error::NotFound("account"))
    );
}

#[test]
fn a_lost_mailbox_and_a_lost_state_come_back_with_their_mail() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    life(&store);
    let snapshot = store.snapshot();
    let (emails, before) = (snapshot.emails(ANN, None, 99).unwrap(), snapshot.account_state(ANN).unwrap());
    drop(snapshot);
    for uid in [1, 3] {
        write(&*engine, Table::Mailboxes, &MailboxKey { account: ANN, mailbox: MailboxUid(uid) }.encode(), None);
    }
    write(&*engine, Table::AccountState, &AccountKey { account: ANN }.encode(), None);
    drop(store);
    let store = open(engine.clone());
    assert!(repair(&store, RepairScope::Repair).renewed.contains(&ANN));
    assert_eq!(deep(&store), []);
    let snapshot = store.snapshot();
    let now = snapshot.emails(ANN, None, 99).unwrap();
    assert_eq!(
        now.iter().map(|(id, email)| (*id, &email.mailboxes)).collect::<Vec<_>>(),
        emails.iter().map(|(id, email)| (*id, &email.mailboxes)).collect::<Vec<_>>()
    );
    let names: Vec<String> = snapshot.mailboxes(ANN).unwrap().into_iter().map(|(_, row)| row.name).collect();
    assert_eq!(names, [format!("Recovered {}", MailboxUid(1)), "Trash".into(), format!("Recovered {}", MailboxUid(3))]);
    let after = snapshot.account_state(ANN).unwrap();
    assert!(after.modseq.0 > before.modseq.0 + (1 << 31) && after.last_thread > before.last_thread);
    assert!(after.last_mailbox > before.last_mailbox && after.last_action > before.last_action);
}

#[test]
fn an_email_whose_trace_fields_are_lost_has_the_size_of_its_message() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    life(&store);
    let (id, email) = store.snapshot().emails(ANN, None, 1).unwrap().remove(0);
    write(&*engine, Table::EmailContent, &EmailKey { account: ANN, email: id }.encode(), None);
    assert_eq!(store.snapshot().message(ANN, id).unwrap(), None);
    repair(&store, RepairScope::Repair);
    let snapshot = store.snapshot();
    let message = snapshot.message(ANN, id).unwrap().unwrap();
    let size = snapshot.email(ANN, id).unwrap().unwrap().size;
    assert_eq!((size, email.size - size), (message.len() as u64, b"Delivered-To: ann@example.org\r\n".len() as u64));
    assert_eq!(deep(&store), []);
}

/// Damages much of Ann's.
fn hurt(engine: &dyn Engine, memory: &MemoryEngine) {
    for table in
        [Table::EmailByModseq, Table::MailboxEmailIndex, Table::Threads, Table::EmailTokens, Table::MailboxRank]
    {
        for (key, _) in rows_of(memory, table, ANN).into_iter().step_by(3) {
            write(engine, table, &key, None);
        }
    }
    let (key, row) = rows_of(memory, Table::Mailboxes, ANN).remove(0);
    let mut row = Mailbox::decode(&key, &row).unwrap();
    row.counts.total_emails += 5;
    write(engine, Table::Mailboxes, &key, Some(row.encode()));
}

#[test]
fn killed_at_any_write_the_mark_stays_and_the_next_repair_ends_it() {
    for full in 0..200 {
        let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
        let store = open(engine.clone());
        life(&store);
        hurt(&*engine, engine.inner());
        engine.fail_after(full, Error::Full);
        let done = store.repair(RepairScope::Repair, None, &remake, &mut |_| true);
        engine.heal();
        if done.is_ok() {
            assert!(full >= 4, "hardly any write");
            return;
        }
        assert_eq!(done, Err(Error::Full));
        // As after a restart.
        drop(store);
        let store = open(engine.clone());
        let marked = store.accounts_under_repair().unwrap();
        if !marked.is_empty() {
            assert_eq!(marked[0].0, ANN);
            assert_eq!(deliver(&store, ANN, 201), Err(Error::Rebuilding(ANN)));
            assert_eq!(store.snapshot().emails(ANN, None, 9), Err(Error::Rebuilding(ANN)));
            assert!(deep(&store).iter().any(|breach| breach.what.contains("not finished")));
        }
        deliver(&store, BOB, 201).unwrap();
        repair(&store, RepairScope::Repair);
        assert_eq!((deep(&store), store.accounts_under_repair().unwrap()), (vec![], vec![]), "after {full}");
        deliver(&store, ANN, 202).unwrap();
        assert_eq!(store.snapshot().emails(ANN, None, 99).unwrap().len(), 38);
    }
    panic!("it never ends");
}

#[test]
fn stopped_it_stays_marked_and_who_wrote_before_the_mark_is_seen() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    life(&store);
    hurt(&*engine, &engine);
    let mut seen = Vec::new();
    let stopped = store.repair(RepairScope::Repair, None, &remake, &mut |at| {
        if store.accounts_under_repair().unwrap().is_empty() {
            return true;
        }
        seen.push((
            deliver(&store, ANN, 99),
            deliver(&store, BOB, 100 + u32::try_from(at.rows % 100).unwrap()).map(drop),
        ));
        seen.len() < 3
    });
    assert_eq!(stopped, Err(Error::Stopped));
    assert!(seen.iter().all(|(ann, bob)| *ann == Err(Error::Rebuilding(ANN)) && bob.is_ok()), "{seen:?}");
    assert_eq!(store.accounts_under_repair().unwrap(), [(ANN, RepairScope::Rebuild)]);
    assert!(store.snapshot().account(ANN).unwrap().is_some(), "who it is stays to be seen");
    repair(&store, RepairScope::Repair);
    assert_eq!(deep(&store), []);
    deliver(&store, ANN, 99).unwrap();
}

#[test]
fn a_check_tells_how_far_it_is_and_stops_when_it_is_told() {
    let store = open(Arc::new(MemoryEngine::new()));
    life(&store);
    let mut all = Vec::new();
    let report = store.check_deep(None, &mut |at| {
        all.push(*at);
        true
    });
    let report = report.unwrap();
    assert_eq!((report.accounts, report.count), (2, 0));
    assert!(all.iter().any(|at| (at.number, at.account, at.table) == (2, BOB, "threads")), "{all:?}");
    assert!(all.windows(2).all(|two| two[0].rows < two[1].rows) && report.rows >= all.last().unwrap().rows);
    assert_eq!(store.check_deep(None, &mut |at| at.number < 2), Err(Error::Stopped));
}

#[test]
fn a_repair_tells_which_account_it_is_at_however_often_it_looks() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    life(&store);
    hurt(&*engine, &engine);
    let mut all = BTreeSet::new();
    let done = store.repair(RepairScope::Repair, None, &remake, &mut |at| {
        all.insert((at.number, at.account));
        true
    });
    assert_eq!(done.unwrap().mended, [ANN]);
    assert_eq!(all, [(1, ANN), (2, BOB), (3, AccountId::SITE)].into());
}

/// A row of an index that is damaged, or names another object than the one that changed, is no answer: whoever asks what
/// changed hears of the damage, and not of an object 0 or of nothing.
#[test]
fn damaged_indexes_of_changes_are_never_guessed() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    life(&store);
    deliver(&store, ANN, 41).unwrap();
    done(&store, ANN, |txn| txn.create_object(&SenderIdentity::default()));
    let state = store.snapshot().account_state(ANN).unwrap();
    let from = |data| ClientState::at(state.low_mark(data));
    let ask = |table: Table| match table {
        Table::EmailByModseq => {
            store.snapshot().email_changes(ANN, from(DataType::Email), 99).map(|all| assert!(all.is_some()))
        }
        Table::ThreadByModseq => {
            store.snapshot().thread_changes(ANN, from(DataType::Thread), 99).map(|all| assert!(all.is_some()))
        }
        _ => store.snapshot().object_changes::<SenderIdentity>(ANN, from(DataType::Identity), 99).map(drop),
    };
    for table in [Table::EmailByModseq, Table::ThreadByModseq, Table::ObjectByModseq] {
        assert_eq!(ask(table), Ok(()), "{}", table.name());
        let kind = Prefix::<ObjectKey>::encode(&(ANN, SenderIdentity::KIND));
        let mut rows = rows_of(&engine, table, ANN);
        rows.retain(|(key, _)| table != Table::ObjectByModseq || key.starts_with(&kind));
        let (key, value) = rows.pop().unwrap();
        let mut other = value.clone();
        other[7] ^= 1;
        for damaged in [vec![], value[..7].to_vec(), [&value[..], &[0]].concat(), other] {
            write(&*engine, table, &key, Some(damaged.clone()));
            let told = ask(table);
            assert!(matches!(told, Err(Error::Corrupt { .. })), "{} {damaged:?}: {told:?}", table.name());
            if table == Table::EmailByModseq && damaged.len() != 8 {
                let told = store.snapshot().emails_since(ANN, from(DataType::Email).mark, 99);
                assert!(matches!(told, Err(Error::Corrupt { .. })), "{damaged:?}: {told:?}");
            }
        }
        write(&*engine, table, &key, Some(value));
    }
    assert_eq!(deep(&store), []);
}
