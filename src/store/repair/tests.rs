//! The store that the tests of repairs damage, and functions that damage it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::model::clock::FixedClock;
use crate::model::{
    AccountRow, Action, Address, AddressRow, BlobHash, DataType, Decision, EmailId, FilterStep,
    ListingFilter, Mailbox, MailboxUid, MessageRows, Role, ScriptError, SenderIdentity, ThreadKey,
    ToldKey, ToldLifetime, UtcMillis, VacationResponse, Verdict,
};
use crate::store::engine::fault::FaultyEngine;
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine, Put};
use crate::store::row::{Object as _, Row as _};
use crate::store::table::codec::Prefix;
use crate::store::table::keys::{AccountKey, EmailKey, MailboxKey, ObjectKey};
use crate::store::tests::action;
use crate::store::{
    AccountStateRow, ClientState, DeliveredEmail, EncodedMessage, FoldSizes, NewEmail, NewMailbox,
    Options,
};

mod beside;
mod damage;
mod interruption;
mod lost;
mod progress;
mod recovery;
mod refs;
mod scripts;
mod site;

const ANN: AccountId = AccountId(1);
const BOB: AccountId = AccountId(2);

/// Makes the rows of a message. Its only token is its first 20 characters, and its thread key
/// follows from its length.
fn make_rows(raw: &[u8]) -> MessageRows {
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

/// Opens a store in which every listing that is not empty has ranks.
fn open(engine: Arc<dyn Engine>) -> Store {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    Store::open_engine(engine, &Options { ranked_above: Some(0), ..Options::small() }, clock)
        .unwrap()
}

/// Commits a change, and waits until it is durable.
fn done<T>(
    store: &Store,
    account: AccountId,
    change: impl FnMut(&mut crate::store::Txn<'_>) -> Result<T, Error>,
) -> T {
    let (value, ticket) = store.commit(account, change).unwrap();
    ticket.wait_blocking().unwrap();
    value
}

/// Makes an account with Inbox (mailbox 1), Trash (2) and Archive (3).
fn make(store: &Store, account: AccountId, name: &str) {
    let primary = Address::from_parts(name, "example.org");
    done(store, AccountId::SITE, |txn| {
        while txn.state().last_account < account.0 {
            txn.next_account()?;
        }
        txn.set_address(&primary.to_string(), Some(&AddressRow::Primary(account)));
        Ok(())
    });
    done(store, account, |txn| {
        txn.set_account(&AccountRow::new(name, primary.clone(), UtcMillis(0)));
        for (name, role) in
            [("Inbox", Role::Inbox), ("Trash", Role::Trash), ("Archive", Role::Archive)]
        {
            txn.create_mailbox(&NewMailbox {
                name: name.into(),
                parent: None,
                role: Some(role),
                sort_order: 0,
            })?;
        }
        Ok(())
    });
}

/// Delivers message `n`, below 256, to mailbox 1, 2 or 3.
fn deliver(store: &Store, account: AccountId, n: u32) -> Result<EmailId, Error> {
    // Message 7 is long enough to have rows in `blob_frames`.
    let body = "long ".repeat(if n == 7 { 30_000 } else { 1 });
    let raw = format!("Subject: letter {}\r\n\r\n{body}{n}\r\n", "x".repeat(n as usize % 11))
        .into_bytes();
    let encoded = EncodedMessage::new(&make_rows(&raw));
    let (mut results, ticket) = store.commit_message(&[account], &encoded, &raw, |txn| {
        let id = txn.create_email(&NewEmail {
            message: &encoded,
            prefix: b"Delivered-To: ann@example.org\r\n",
            mailboxes: BTreeSet::from([MailboxUid(1 + n % 3)]),
            keywords: [["$seen"], ["$flagged"], ["$draft"]][n as usize % 3]
                .iter()
                .map(|word| (*word).into())
                .collect(),
            received_at: UtcMillis(i64::from(n) * 1000),
        })?;
        let filed = DeliveredEmail::received(id.0);
        txn.remember_delivery(&[u8::try_from(n).unwrap(); 32], &[filed], [])?;
        Ok(id.0)
    });
    let id = results.pop().unwrap().1?;
    ticket.wait_blocking()?;
    Ok(id)
}

/// Makes two accounts with rows in every table. Each gets 40 emails; then three are destroyed, and
/// one of the three is purged.
fn fill(store: &Store) {
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
            let action = txn.queue_action(
                Action { blob, duplicate_key: Some([9; 16]), ..action() },
                b"Subject: x\r\n\r\n",
            )?;
            txn.create_object(&SenderIdentity::default())?;
            txn.create_object(&crate::model::EmailSubmission::default())?;
            txn.create_object(&crate::model::PushSubscription::default())?;
            txn.put_upload(
                account,
                &BlobHash(*blake3::hash(b"uploaded").as_bytes()),
                b"uploaded",
                "text/plain",
                99,
            )?;
            txn.add_decision(&Decision {
                at: now,
                email: Some(ids[0]),
                sender: None,
                recipient: bob,
                verdict: Verdict::Answered(action),
                steps: vec![FilterStep { script: "main".into(), line: 3, action: "keep".into() }],
            })?;
            let script = txn.create_script("main", b"keep;")?;
            txn.create_script("other", b"discard;")?;
            txn.activate_script(Some(script))?;
            txn.count_script_hits(script, &BlobHash(*blake3::hash(b"keep;").as_bytes()), &[0])?;
            txn.remember_duplicate(&[8; 32], now.after(std::time::Duration::from_secs(60)))?;
            txn.add_script_error(&ScriptError {
                at: now,
                script: "main".into(),
                line: 1,
                message: "too much work".into(),
                email: Some(ids[0]),
            })?;
            Ok(())
        });
        fold(store, account);
    }
}

/// Folds the token rows once.
fn fold(store: &Store, account: AccountId) {
    let sizes = FoldSizes {
        rows: 6,
        row_bytes: 1 << 16,
        block: 256,
        fan: 4,
        piece: 1 << 12,
        last_level: 1,
    };
    let piece = store.snapshot().next_fold_piece(account, &sizes).unwrap().unwrap();
    assert!(done(store, account, |txn| txn.write_folds(&piece)));
}

/// Sets or deletes a row in the engine, past the store.
fn write(engine: &dyn Engine, table: Table, key: &[u8], value: Option<Vec<u8>>) {
    let puts = vec![Put { table, key: key.to_vec(), value }];
    engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
}

/// Returns the rows that an account has in a table, or all rows if the keys name no account.
fn rows_of(engine: &MemoryEngine, table: Table, account: AccountId) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = engine.rows(table);
    // Where the id of the account begins in the key.
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

/// Returns the breaches that a deep check finds.
fn deep(store: &Store) -> Vec<Breach> {
    store.check_deep(Some(&make_rows), &mut |_| true).unwrap().breaches
}

fn repair(store: &Store, scope: RepairScope) -> RepairReport {
    store.repair(scope, None, &make_rows, &mut |_| true).unwrap()
}

/// Deletes every third row of some tables of Ann, and alters a count of a mailbox.
fn damage_ann(engine: &dyn Engine, memory: &MemoryEngine) {
    for table in [
        Table::EmailByModseq,
        Table::MailboxEmailIndex,
        Table::Threads,
        Table::EmailTokens,
        Table::MailboxRank,
    ] {
        for (key, _) in rows_of(memory, table, ANN).into_iter().step_by(3) {
            write(engine, table, &key, None);
        }
    }
    let (key, row) = rows_of(memory, Table::Mailboxes, ANN).remove(0);
    let mut row = Mailbox::decode(&key, &row).unwrap();
    row.counts.total_emails += 5;
    write(engine, Table::Mailboxes, &key, Some(row.encode()));
}
