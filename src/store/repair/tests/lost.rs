//! Emails whose metadata row is lost are recovered as they were, as far as other rows say.

use super::*;
use crate::model::{EmailMetadata, ThreadId};
use crate::store::row::RowFormat as _;
use crate::store::table::keys::{BlobRefKey, ModSeqKey, ThreadEmailKey};
use crate::store::table::{self, decode_key};

fn copy_of(engine: &MemoryEngine) -> Arc<MemoryEngine> {
    let copy = Arc::new(MemoryEngine::new());
    let rows = |table: &Table| {
        let table = *table;
        engine.rows(table).into_iter().map(move |(key, value)| Put {
            table,
            key,
            value: Some(value),
        })
    };
    let puts = Table::ALL.iter().flat_map(rows).collect();
    copy.write(&[Arc::new(Batch::of(puts))]).unwrap();
    copy
}

fn emails(engine: &MemoryEngine) -> Vec<(Vec<u8>, EmailMetadata)> {
    let rows = rows_of(engine, Table::EmailMetadata, ANN).into_iter();
    rows.map(|(key, row)| (key.clone(), EmailMetadata::decode(&key, &row).unwrap())).collect()
}

/// Takes away all keywords but `$flagged`, the only one that is always recovered: by the listing of
/// flagged emails of all mail. The counters of a thread tell whether a lost email was seen or a
/// draft, but not if the email is destroyed, or if too many emails of the thread are lost.
fn only_flagged(email: &EmailMetadata) -> EmailMetadata {
    let keywords = email.keywords.iter().filter(|word| *word == "$flagged").cloned().collect();
    EmailMetadata { keywords, ..email.clone() }
}

#[test]
fn a_lost_email_is_recovered_as_it_was() {
    let engine = Arc::new(MemoryEngine::new());
    fill(&open(engine.clone()));
    let before = emails(&engine);
    assert!(before.iter().any(|(_, email)| email.destroyed.is_some()));
    for (at, (key, email)) in before.iter().enumerate() {
        let copy = copy_of(&engine);
        // The rows of every other email are deleted. The others get a value that cannot be read.
        let broken = (at % 2 == 1).then(|| b"\x01?".to_vec());
        write(&*copy, Table::EmailMetadata, key, broken);
        let store = open(copy.clone());
        let named = deep(&store);
        let says = |what: &str| {
            named
                .iter()
                .any(|breach| breach.table == "email_metadata" && breach.what.contains(what))
        };
        assert!(says("others are lost"), "{named:?}");
        let done = repair(&store, RepairScope::Repair);
        assert_eq!(
            (deep(&store), done.unrepaired_count, done.history_restarted),
            (Vec::new(), 0, vec![ANN])
        );
        let mut wanted = before.clone();
        if email.destroyed.is_some() {
            wanted[at].1 = only_flagged(email);
        }
        assert_eq!(emails(&copy), wanted);
        deliver(&store, ANN, 200).unwrap();
        assert_eq!(deep(&store), []);
    }
}

/// The rows that are left of a listing that is being dropped tell what was true before the email
/// changed.
#[test]
fn a_listing_that_is_being_dropped_tells_nothing_of_a_lost_email() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    let trash = MailboxUid(2);
    let is_left = done(&store, ANN, |txn| {
        while !txn.extend_listing(trash, ListingFilter::Unseen, 9)? {}
        txn.drop_listing(trash, ListingFilter::Unseen, 1)
    });
    assert!(is_left, "some of its rows are left");
    let unseen: Vec<_> = emails(&engine)
        .into_iter()
        .filter(|(_, email)| email.mailboxes.contains(&trash) && email.destroyed.is_none())
        .filter(|(_, email)| !email.keywords.contains("$seen"))
        .collect();
    assert!(unseen.len() > 2);
    for (key, email) in unseen {
        let id = decode_key::<table::EmailMetadata>(&key).unwrap().email;
        let (archive, seen) = (BTreeSet::from([MailboxUid(3)]), ["$seen".to_owned()]);
        done(&store, ANN, |txn| txn.update_email(id, archive.clone(), seen.clone().into()));
        write(&*engine, Table::EmailMetadata, &key, None);
        repair(&store, RepairScope::Repair);
        let back = store.snapshot().email(ANN, id).unwrap().unwrap();
        assert_eq!((back.mailboxes, back.keywords), (archive, seen.into()), "{email:?}");
    }
}

#[test]
fn an_email_without_its_content_is_recovered_without_its_trace_fields() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    let before = emails(&engine);
    for (key, _) in &before {
        for table in [Table::EmailMetadata, Table::EmailContent, Table::EmailTokens] {
            write(&*engine, table, key, None);
        }
    }
    let done = repair(&store, RepairScope::Repair);
    assert_eq!((deep(&store), done.unrepaired_count), (Vec::new(), 0));
    let prefix = b"Delivered-To: ann@example.org\r\n".len() as u64;
    let short = |(key, email): &(Vec<u8>, EmailMetadata)| {
        (key.clone(), EmailMetadata { size: email.size - prefix, ..only_flagged(email) })
    };
    let after: Vec<_> =
        emails(&engine).into_iter().map(|(key, email)| (key, only_flagged(&email))).collect();
    assert_eq!(after, before.iter().map(short).collect::<Vec<_>>());
}

#[test]
fn all_lost_emails_of_an_account_are_recovered() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    let before = emails(&engine);
    for (key, _) in &before {
        write(&*engine, Table::EmailMetadata, key, None);
    }
    let done = repair(&store, RepairScope::Repair);
    assert_eq!((deep(&store), done.unrepaired_count), (Vec::new(), 0));
    let flags = |all: &[(Vec<u8>, EmailMetadata)]| -> Vec<_> {
        all.iter().map(|(key, email)| (key.clone(), only_flagged(email))).collect()
    };
    assert_eq!(flags(&emails(&engine)), flags(&before));
    // No unseen email becomes seen. In mailbox 1, which has a listing of unseen emails, `$seen` is
    // as it was.
    let snapshot = store.snapshot();
    for (_, email) in before.iter().filter(|(_, email)| email.destroyed.is_none()) {
        let id =
            snapshot.emails_of_blob(ANN, &email.blob, UtcMillis(0), UtcMillis(1 << 40)).unwrap();
        let back = snapshot.email(ANN, id[0]).unwrap().unwrap();
        let was_seen = email.keywords.contains("$seen");
        assert!(
            was_seen || !back.keywords.contains("$seen"),
            "an unseen email must stay unseen: {email:?}"
        );
        assert!(
            !email.mailboxes.contains(&MailboxUid(1))
                || was_seen == back.keywords.contains("$seen"),
            "{email:?}"
        );
    }
}

#[test]
fn a_lost_email_that_no_mailbox_names_is_recovered_into_the_inbox() {
    for all_mailboxes_lost in [false, true] {
        let engine = Arc::new(MemoryEngine::new());
        let store = open(engine.clone());
        fill(&store);
        let archived = |email: &EmailMetadata| {
            email.destroyed.is_none() && email.mailboxes.contains(&MailboxUid(3))
        };
        let (key, email) = emails(&engine).into_iter().find(|(_, email)| archived(email)).unwrap();
        let id = EmailId(u64::from_be_bytes(key[4..].try_into().unwrap()));
        let text = store.snapshot().message(ANN, id).unwrap();
        let mut gone = vec![
            (Table::EmailMetadata, key),
            (Table::EmailByModseq, ModSeqKey { account: ANN, modseq: email.updated }.encode()),
            (
                Table::EmailByThread,
                ThreadEmailKey { account: ANN, thread: email.thread, email: id }.encode(),
            ),
        ];
        for table in [Table::MailboxEmailIndex, Table::MailboxThreadIndex, Table::MailboxEmailList]
        {
            let rows = rows_of(&engine, table, ANN).into_iter();
            let of = |(key, value): &(Vec<u8>, Vec<u8>)| match table {
                Table::MailboxEmailList => {
                    <(EmailId, ThreadId)>::from_bytes(table, key, value).unwrap().0 == id
                }
                _ => key.ends_with(&id.0.to_be_bytes()),
            };
            gone.extend(rows.filter(of).map(|(key, _)| (table, key)));
        }
        if all_mailboxes_lost {
            gone.extend(
                rows_of(&engine, Table::Mailboxes, ANN)
                    .into_iter()
                    .map(|(key, _)| (Table::Mailboxes, key)),
            );
            gone.push((Table::AccountState, AccountKey { account: ANN }.encode()));
            for (key, _) in emails(&engine) {
                gone.push((Table::EmailMetadata, key));
            }
            for table in
                [Table::MailboxEmailIndex, Table::MailboxThreadIndex, Table::MailboxEmailList]
            {
                gone.extend(rows_of(&engine, table, ANN).into_iter().map(|(key, _)| (table, key)));
            }
        }
        for (table, key) in gone {
            write(&*engine, table, &key, None);
        }
        drop(store);
        let store = open(engine.clone());
        repair(&store, RepairScope::Repair);
        assert_eq!(deep(&store), []);
        let snapshot = store.snapshot();
        let back = snapshot.email(ANN, id).unwrap().unwrap();
        let inbox = snapshot.account_state(ANN).unwrap().inbox;
        assert_eq!(
            (back.mailboxes, snapshot.message(ANN, id).unwrap()),
            (BTreeSet::from([inbox]), text)
        );
        // If all mailboxes were lost, only the Inbox is made again.
        assert_eq!(snapshot.mailboxes(ANN).unwrap().len(), if all_mailboxes_lost { 1 } else { 3 });
        drop(snapshot);
        deliver(&store, BOB, 200).unwrap();
        assert_eq!(deep(&store), []);
    }
}

#[test]
fn a_lost_email_without_a_message_reference_is_reported_and_its_rows_are_deleted() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    let (key, email) = emails(&engine).remove(0);
    let id = EmailId(u64::from_be_bytes(key[4..].try_into().unwrap()));
    write(&*engine, Table::EmailMetadata, &key, None);
    write(
        &*engine,
        Table::BlobRefs,
        &BlobRefKey { blob: email.blob, account: ANN, email: id }.encode(),
        None,
    );
    assert!(deep(&store).iter().any(|breach| breach.table == "email_content"));
    repair(&store, RepairScope::Repair);
    assert_eq!(store.snapshot().email(ANN, id), Ok(None));
    // The message is reported as unreferenced, until the sweep over all messages finds it. And the
    // record of its delivery names an email that does not exist.
    let left = deep(&store);
    assert!(
        left.iter()
            .all(|breach| breach.what.contains("nobody holds")
                || breach.what.contains("does not exist")),
        "{left:?}"
    );
}
