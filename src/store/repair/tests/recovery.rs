//! Repairs of lost mailboxes, states, trace prefixes and accounts, and of wrong rows of mailboxes
//! and decisions; damaged change indexes.

use super::*;

#[test]
fn a_lost_mailbox_and_a_lost_state_are_recovered_with_their_mail() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    let snapshot = store.snapshot();
    let (emails, before) =
        (snapshot.emails(ANN, None, 99).unwrap(), snapshot.account_state(ANN).unwrap());
    drop(snapshot);
    for uid in [1, 3] {
        write(
            &*engine,
            Table::Mailboxes,
            &MailboxKey { account: ANN, mailbox: MailboxUid(uid) }.encode(),
            None,
        );
    }
    write(&*engine, Table::AccountState, &AccountKey { account: ANN }.encode(), None);
    drop(store);
    let store = open(engine.clone());
    assert!(repair(&store, RepairScope::Repair).history_restarted.contains(&ANN));
    assert_eq!(deep(&store), []);
    let snapshot = store.snapshot();
    let now = snapshot.emails(ANN, None, 99).unwrap();
    assert_eq!(
        now.iter().map(|(id, email)| (*id, &email.mailboxes)).collect::<Vec<_>>(),
        emails.iter().map(|(id, email)| (*id, &email.mailboxes)).collect::<Vec<_>>()
    );
    let names: Vec<String> =
        snapshot.mailboxes(ANN).unwrap().into_iter().map(|(_, row)| row.name).collect();
    assert_eq!(
        names,
        [
            format!("Recovered {}", MailboxUid(1)),
            "Trash".into(),
            format!("Recovered {}", MailboxUid(3))
        ]
    );
    let after = snapshot.account_state(ANN).unwrap();
    // The numbers go on far above those in use, as clients may know higher ones.
    assert!(after.modseq.0 > before.modseq.0 + (1 << 31) && after.last_thread > before.last_thread);
    assert!(after.last_mailbox > before.last_mailbox && after.last_action > before.last_action);
}

#[test]
fn an_email_whose_trace_fields_are_lost_has_the_size_of_its_message() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    let (id, email) = store.snapshot().emails(ANN, None, 1).unwrap().remove(0);
    write(&*engine, Table::EmailContent, &EmailKey { account: ANN, email: id }.encode(), None);
    assert_eq!(store.snapshot().message(ANN, id).unwrap(), None);
    repair(&store, RepairScope::Repair);
    let snapshot = store.snapshot();
    let message = snapshot.message(ANN, id).unwrap().unwrap();
    let size = snapshot.email(ANN, id).unwrap().unwrap().size;
    assert_eq!(
        (size, email.size - size),
        (message.len() as u64, b"Delivered-To: ann@example.org\r\n".len() as u64)
    );
    assert_eq!(deep(&store), []);
}

/// A change index whose row is damaged or names another object makes `/changes` fail.
#[test]
fn a_damaged_change_index_is_reported_as_corrupt() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    deliver(&store, ANN, 41).unwrap();
    done(&store, ANN, |txn| txn.create_object(&SenderIdentity::default()));
    let state = store.snapshot().account_state(ANN).unwrap();
    let from = |data| ClientState::at(state.low_mark(data));
    let ask = |table: Table| match table {
        Table::EmailByModseq => store
            .snapshot()
            .email_changes(ANN, from(DataType::Email), 99)
            .map(|all| assert!(all.is_some())),
        Table::ThreadByModseq => store
            .snapshot()
            .thread_changes(ANN, from(DataType::Thread), 99)
            .map(|all| assert!(all.is_some())),
        _ => store
            .snapshot()
            .object_changes::<SenderIdentity>(ANN, from(DataType::Identity), 99)
            .map(drop),
    };
    for table in [Table::EmailByModseq, Table::ThreadByModseq, Table::ObjectByModseq] {
        assert_eq!(ask(table), Ok(()), "{}", table.name());
        let kind = Prefix::<ObjectKey>::encode(&(ANN, SenderIdentity::KIND));
        let mut rows = rows_of(&engine, table, ANN);
        rows.retain(|(key, _)| table != Table::ObjectByModseq || key.starts_with(&kind));
        let (key, value) = rows.pop().unwrap();
        // The id of another object or of none: rows of these tables are bare ids of 8 bytes.
        let mut other = value.clone();
        other[7] ^= 1;
        for damaged in [vec![], value[..7].to_vec(), [&value[..], &[0]].concat(), other] {
            write(&*engine, table, &key, Some(damaged.clone()));
            let answer = ask(table);
            assert!(
                matches!(answer, Err(Error::Corrupt { .. })),
                "{} {damaged:?}: {answer:?}",
                table.name()
            );
            // `emails_since` does not read the emails, so it cannot notice another id.
            if table == Table::EmailByModseq && damaged.len() != 8 {
                let answer = store.snapshot().emails_since(ANN, from(DataType::Email).mark, 99);
                assert!(matches!(answer, Err(Error::Corrupt { .. })), "{damaged:?}: {answer:?}");
            }
        }
        write(&*engine, table, &key, Some(value));
    }
    assert_eq!(deep(&store), []);
}

#[test]
fn recovered_account_is_as_old_as_its_oldest_email() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    make(&store, ANN, "ann");
    for n in [5, 9, 3, 8] {
        deliver(&store, ANN, n).unwrap();
    }
    write(&*engine, Table::Accounts, &AccountKey { account: ANN }.encode(), None);
    repair(&store, RepairScope::Repair);
    assert_eq!(deep(&store), []);
    // `deliver` gives message `n` the time of `n` seconds.
    let created = store.snapshot().account(ANN).unwrap().unwrap().created;
    assert_eq!(created, UtcMillis(3000));
}

#[test]
fn mailbox_that_was_created_after_its_last_change_is_reported_and_repaired() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    let (key, row) = rows_of(&engine, Table::Mailboxes, ANN).remove(0);
    let mut row = Mailbox::decode(&key, &row).unwrap();
    row.created = row.updated.next();
    write(&*engine, Table::Mailboxes, &key, Some(row.encode()));
    let [breach] = <[Breach; 1]>::try_from(deep(&store)).unwrap();
    assert!(breach.what.contains("created"), "{breach}");
    repair(&store, RepairScope::Repair);
    assert_eq!(deep(&store), []);
}

/// A decision under a damaged key would make the whole log unreadable.
#[test]
fn decision_under_a_damaged_key_is_reported_and_deleted() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    let (key, row) = rows_of(&engine, Table::Decisions, ANN).remove(0);
    write(&*engine, Table::Decisions, &[&key[..], &[1]].concat(), Some(row));
    assert!(deep(&store).iter().any(|breach| breach.table == "decisions"));
    repair(&store, RepairScope::Repair);
    assert_eq!(deep(&store), []);
    assert_eq!(store.snapshot().decisions(ANN, 9).unwrap().len(), 1);
}
