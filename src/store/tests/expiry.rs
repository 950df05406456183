//! The collection of messages and the expiry of other rows, at the boundaries of their times; what
//! damaged rows do not stop, and the correction of decisions.

use super::fixture::{DAY, GRACE, MS, fixture, raw};
use super::*;
use crate::model::{Decision, ToldLifetime, Verdict};
use crate::store::table::keys::{DeliveryKey, DeliveryTimeKey, ToldTimeKey, VacationToldKey};

#[test]
fn an_unreferenced_message_is_collected_after_its_retention() {
    let fixture = fixture();
    let bob = AccountId(2);
    make_account(&fixture.store, bob);
    let (id, shared) = (fixture.deliver(1, &[]), fixture.deliver(2, &[]));
    let there = fixture.deliver_to(bob, 2, &[]).unwrap();
    // The retention counts from the purge of the emails, not from their delivery.
    fixture.clock.advance(DAY);
    for id in [id, shared] {
        fixture.destroy(id);
        fixture.done(|txn| txn.purge_email(id)).unwrap();
    }
    assert_clean(&fixture.store);
    let collect =
        || fixture.on(AccountId::SITE, |txn| txn.collect_blobs(fixture.upto(DAY), 9)).unwrap();
    fixture.clock.advance(DAY - MS);
    assert_eq!(collect(), CollectResult::default());
    fixture.clock.advance(MS);
    let bytes = raw(1).len() as u64;
    // Bob's email refers to the shared message, which is no candidate any more.
    assert_eq!(collect(), CollectResult { blobs: 1, bytes, segment_bytes: 0, has_more: false });
    assert_eq!((fixture.rows(Table::Blobs), fixture.rows(Table::BlobPurge)), (1, 0));
    assert!(fixture.store.snapshot().message(bob, there).unwrap().is_some());
    // A message that is delivered again while it waits for its collection stays: the new email, or
    // its tombstone, refers to it.
    let again = fixture.deliver(1, &[]);
    fixture.destroy(again);
    fixture.done(|txn| txn.purge_email(again)).unwrap();
    fixture.clock.advance(DAY / 2);
    let once_more = fixture.deliver(1, &[]);
    fixture.destroy(once_more);
    fixture.clock.advance(DAY / 2);
    assert_eq!(collect(), CollectResult::default());
    assert!(fixture.restore(once_more, 1).is_ok());
    assert_clean(&fixture.store);
}

#[test]
fn a_long_message_is_collected_with_all_its_frames() {
    let fixture = fixture();
    let raw = vec![b'x'; 2 * row::FRAME_BYTES + 1];
    let rows = MessageRows {
        blob: BlobHash(*blake3::hash(&raw).as_bytes()),
        size: raw.len() as u64,
        ..MessageRows::default()
    };
    let message = EncodedMessage::new(&rows);
    let (mut results, ticket) = fixture.store.commit_message(&[ACCOUNT], &message, &raw, |txn| {
        let mailboxes = BTreeSet::from([txn.state().inbox]);
        let (keywords, received_at) = (BTreeSet::new(), UtcMillis(1));
        txn.create_email(&NewEmail {
            message: &message,
            prefix: b"",
            mailboxes,
            keywords,
            received_at,
        })
    });
    ticket.wait_blocking().unwrap();
    let (id, _) = results.pop().unwrap().1.unwrap();
    assert_eq!(fixture.rows(Table::BlobFrames), 3);
    fixture.destroy(id);
    fixture.done(|txn| txn.purge_email(id)).unwrap();
    fixture.clock.advance(DAY);
    let collected =
        fixture.on(AccountId::SITE, |txn| txn.collect_blobs(fixture.upto(DAY), 9)).unwrap();
    assert_eq!(
        collected,
        CollectResult { blobs: 1, bytes: raw.len() as u64, ..CollectResult::default() }
    );
    assert_eq!((fixture.rows(Table::Blobs), fixture.rows(Table::BlobFrames)), (0, 0));
    assert_clean(&fixture.store);
}

#[test]
fn a_delivery_during_a_collection_keeps_its_message() {
    let fixture = fixture();
    let id = fixture.deliver(1, &[]);
    fixture.destroy(id);
    fixture.done(|txn| txn.purge_email(id)).unwrap();
    fixture.clock.advance(DAY);
    let mut filed = None;
    let collected = fixture.on(AccountId::SITE, |txn| {
        let done = txn.collect_blobs(fixture.upto(DAY), 9)?;
        filed = Some(fixture.deliver(1, &[]));
        Ok(done)
    });
    assert!(matches!(collected, Err(Error::Overtaken(_))), "{collected:?}");
    assert!(fixture.store.health().is_ok());
    assert!(fixture.store.snapshot().message(ACCOUNT, filed.unwrap()).unwrap().is_some());
    assert_clean(&fixture.store);
    // The next collection finds a reference to the message.
    assert_eq!(
        fixture.on(AccountId::SITE, |txn| txn.collect_blobs(fixture.upto(DAY), 9)).unwrap().blobs,
        0
    );
    assert_eq!(fixture.rows(Table::BlobPurge), 0);
    assert_clean(&fixture.store);
}

#[test]
fn a_message_is_written_only_with_a_reference_and_a_sweep_finds_unreferenced_ones() {
    let fixture = fixture();
    let (encoded, _) = message(1, &[]);
    let (_, ticket) = fixture.store.commit_message(&[ACCOUNT], &encoded, &raw(1), |txn| {
        txn.remember_delivery(&[1; 32], &[], []) // as for a message that was not filed
    });
    ticket.wait_blocking().unwrap();
    assert_eq!((fixture.rows(Table::Blobs), fixture.rows(Table::Deliveries)), (0, 1));
    // Writes unreferenced messages, as a fault would leave them.
    let hash = |n| BlobHash(*blake3::hash(&raw(n)).as_bytes());
    let rows = |n| {
        blob::write::blob_rows(&*fixture.engine, &hash(n), &raw(n), None, fixture.clock.now())
            .unwrap()
    };
    let mut puts: Vec<Put> = (0..5u32).flat_map(rows).collect();
    puts.sort_by(|one, other| one.key.cmp(&other.key));
    fixture.engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
    let held = fixture.deliver(3, &[]);
    // Of the five messages, an email refers to one.
    assert_eq!(fixture.store.check().unwrap().len(), 4);
    let sweep = || fixture.on(AccountId::SITE, |txn| txn.sweep_blobs(30 * DAY, 2)).unwrap();
    let mut steps = 1;
    while sweep() {
        steps += 1;
    }
    assert_eq!((steps, fixture.rows(Table::BlobPurge)), (3, 4));
    assert_clean(&fixture.store);
    // The next sweep begins a month after the first, and finds nothing more.
    fixture.clock.advance(30 * DAY - MS);
    fixture.on(AccountId::SITE, |txn| txn.collect_blobs(fixture.upto(DAY), 9)).unwrap();
    assert_eq!(fixture.rows(Table::Blobs), 1);
    assert!(!sweep());
    fixture.clock.advance(MS);
    assert!(!sweep());
    assert_eq!(fixture.rows(Table::BlobPurge), 0);
    assert!(fixture.store.snapshot().message(ACCOUNT, held).unwrap().is_some());
    assert_clean(&fixture.store);
}

#[test]
fn an_erased_account_releases_its_messages() {
    let fixture = fixture();
    for n in 0..5 {
        fixture.deliver(n, &[]);
    }
    fixture.done(|txn| txn.note_history(DAY)).unwrap();
    fixture.done(|txn| txn.sweep_thread_refs(UtcMillis(0), DAY, 9)).unwrap();
    // Upkeep may run between the steps.
    while fixture.done(|txn| txn.erase(7)).unwrap() {
        fixture.done(|txn| txn.purge_emails(fixture.clock.now(), 9)).unwrap();
    }
    assert_eq!(
        (fixture.rows(Table::History), fixture.rows(Table::Sweeps), fixture.rows(Table::BlobPurge)),
        (0, 0, 5)
    );
    assert_clean(&fixture.store);
    fixture.clock.advance(DAY);
    fixture.on(AccountId::SITE, |txn| txn.collect_blobs(fixture.upto(DAY), 9)).unwrap();
    assert_eq!(fixture.rows(Table::Blobs), 0);
    assert_clean(&fixture.store);
}

#[test]
fn told_rows_expire_once_the_response_is_over() {
    let fixture = fixture();
    let end = fixture.clock.now().after(2 * DAY);
    let response =
        VacationResponse { enabled: true, to_date: Some(end), ..VacationResponse::default() };
    fixture.done(|txn| txn.set_vacation(&response)).unwrap();
    let generation = fixture.store.snapshot().vacation(ACCOUNT).unwrap().generation;
    let memory = ToldLifetime::of(generation);
    let bob = Address::from_parts("bob", "example.net");
    for n in 0..3 {
        fixture.done(|txn| txn.remember_told(&ToldKey([n; 32]), &bob, &memory)).unwrap();
    }
    let expire = || fixture.done(|txn| txn.expire_told(fixture.upto(DAY), 2)).unwrap();
    fixture.clock.advance(2 * DAY - MS);
    assert!(!expire());
    assert_eq!(fixture.rows(Table::VacationTold), 3, "the rows stay while the response lasts");
    fixture.clock.advance(MS);
    // Three rows, of which a call deletes two at most.
    assert!(expire() && !expire());
    assert_eq!(fixture.rows(Table::VacationTold), 0);
    // A row that is written after the end is kept for the retention.
    fixture.done(|txn| txn.remember_told(&ToldKey([9; 32]), &bob, &memory)).unwrap();
    fixture.clock.advance(DAY - MS);
    expire();
    assert_eq!(fixture.rows(Table::VacationTold), 1);
    fixture.clock.advance(MS);
    expire();
    assert_eq!(fixture.rows(Table::ToldByTime), 0);
    assert_clean(&fixture.store);
}

#[test]
fn told_rows_of_a_script_expire_at_their_own_time() {
    let fixture = fixture();
    let response = VacationResponse { enabled: true, ..VacationResponse::default() };
    fixture.done(|txn| txn.set_vacation(&response)).unwrap();
    let generation = fixture.store.snapshot().vacation(ACCOUNT).unwrap().generation;
    let bob = Address::from_parts("bob", "example.net");
    let told = |n: u8, recall: &ToldLifetime| {
        fixture.store.snapshot().last_told(ACCOUNT, &ToldKey([n; 32]), recall, fixture.clock.now())
    };
    let (of, week) = (ToldLifetime::of(generation), ToldLifetime::For(7 * DAY));
    for (n, recall) in [(1, of), (2, week), (3, ToldLifetime::For(Duration::ZERO))] {
        fixture.done(|txn| txn.remember_told(&ToldKey([n; 32]), &bob, &recall)).unwrap();
    }
    assert_eq!(fixture.rows(Table::VacationTold), 2, "a lifetime of zero writes no row");
    assert!(told(1, &of).unwrap().is_some() && told(1, &week).unwrap().is_none());
    assert!(told(2, &week).unwrap().is_some() && told(2, &of).unwrap().is_none());
    // Senders told before this absence began are answered again.
    let later =
        ToldLifetime::Response { generation, since: Some(UtcMillis(fixture.clock.now().0 + 1)) };
    assert!(told(1, &later).unwrap().is_none());
    fixture
        .done(|txn| {
            txn.set_vacation(&VacationResponse { subject: Some("x".into()), ..response.clone() })
        })
        .unwrap();
    // A new generation deletes the row of the response, and leaves that of the script.
    assert_eq!((fixture.rows(Table::VacationTold), fixture.rows(Table::ToldByTime)), (1, 1));
    assert_clean(&fixture.store);
    fixture.clock.advance(7 * DAY - MS);
    fixture.done(|txn| txn.expire_told(fixture.upto(DAY), 9)).unwrap();
    assert!(told(2, &week).unwrap().is_some());
    fixture.clock.advance(MS);
    assert!(told(2, &week).unwrap().is_none());
    fixture.done(|txn| txn.expire_told(fixture.upto(DAY), 9)).unwrap();
    assert_eq!((fixture.rows(Table::VacationTold), fixture.rows(Table::ToldByTime)), (0, 0));
    assert_clean(&fixture.store);
}

#[test]
fn the_oldest_told_row_is_deleted_when_there_are_too_many() {
    let fixture = fixture();
    let limit = crate::model::limits::MAX_TOLD_SENDERS as u64;
    let key = |n: u64| {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&n.to_be_bytes());
        ToldKey(key)
    };
    let bob = Address::from_parts("bob", "example.net");
    for piece in 0..limit / 1000 {
        fixture
            .done(|txn| {
                (0..1000).try_for_each(|n| {
                    txn.remember_told(&key(piece * 1000 + n), &bob, &ToldLifetime::of(0))
                })
            })
            .unwrap();
        fixture.clock.advance(MS);
    }
    fixture.done(|txn| txn.remember_told(&key(limit), &bob, &ToldLifetime::of(0))).unwrap();
    let told = |n| {
        fixture
            .store
            .snapshot()
            .last_told(ACCOUNT, &key(n), &ToldLifetime::of(0), fixture.clock.now())
            .unwrap()
            .is_some()
    };
    // The oldest thousand have the same time, and of these the lowest key comes first.
    assert!(!told(0) && told(1) && told(limit - 1) && told(limit));
    assert_eq!(fixture.rows(Table::VacationTold) as u64, limit);
    // A damaged row that is the oldest is deleted like another one.
    fixture.write(Table::VacationTold, &VacationToldKey { account: ACCOUNT, told: key(1) }, &[99]);
    fixture.done(|txn| txn.remember_told(&key(limit + 1), &bob, &ToldLifetime::of(0))).unwrap();
    assert!(!told(1) && told(2) && told(limit + 1));
    assert_eq!(fixture.rows(Table::VacationTold) as u64, limit);
    assert_clean(&fixture.store);
}

#[test]
fn damaged_told_row_stops_neither_answers_nor_expiry() {
    let fixture = fixture();
    let bob = Address::from_parts("bob", "example.net");
    let week = ToldLifetime::For(7 * DAY);
    let tell = |n: u8| fixture.done(|txn| txn.remember_told(&ToldKey([n; 32]), &bob, &week));
    let damage = |n: u8| {
        let key = VacationToldKey { account: ACCOUNT, told: ToldKey([n; 32]) };
        fixture.write(Table::VacationTold, &key, &[99]);
    };
    let told = |n: u8| {
        let snapshot = fixture.store.snapshot();
        snapshot.last_told(ACCOUNT, &ToldKey([n; 32]), &week, fixture.clock.now())
    };
    for n in 1..=4 {
        tell(n).unwrap();
        fixture.clock.advance(MS);
    }
    // The sender is answered again, as after a repair.
    damage(1);
    assert_eq!(told(1), Ok(None));
    tell(1).unwrap();
    assert!(told(1).unwrap().is_some());
    assert_clean(&fixture.store);
    damage(2);
    assert_eq!(fixture.done(|txn| txn.remove_told(&ToldKey([2; 32]))), Ok(true));
    assert_clean(&fixture.store);
    damage(3);
    let key = ToldTimeKey { account: ACCOUNT, at: UtcMillis(0).into(), told: ToldKey([8; 32]) };
    let long = [&key.encode()[..], &[1]].concat();
    let put = |value| Put { table: Table::ToldByTime, key: long.clone(), value };
    let write = |put| fixture.engine.write(&[Arc::new(Batch::of(vec![put]))]).unwrap();
    write(put(Some(vec![1])));
    fixture.clock.advance(7 * DAY - MS);
    // Row 4 has expired. Nothing tells when row 3 would expire, so it goes after the retention.
    fixture.done(|txn| txn.expire_told(fixture.upto(30 * DAY), 9)).unwrap();
    assert_eq!(fixture.rows(Table::VacationTold), 2);
    fixture.done(|txn| txn.expire_told(fixture.upto(DAY), 9)).unwrap();
    assert_eq!(fixture.rows(Table::VacationTold), 1);
    // A damaged key does not keep the owner from changing the response.
    let response = VacationResponse { enabled: true, ..VacationResponse::default() };
    fixture.done(|txn| txn.set_vacation(&response)).unwrap();
    assert_eq!(fixture.rows(Table::ToldByTime), 1);
    assert_clean(&fixture.store);
}

#[test]
fn deliveries_and_decisions_of_an_account_without_mail_expire() {
    use crate::model::limits::{DECISION_RETENTION, DELIVERY_RETENTION};
    let fixture = fixture();
    for n in 0..3u8 {
        fixture
            .done(|txn| {
                let verdict = Verdict::Silent { reason: "disabled".into(), detail: String::new() };
                let recipient = Address::from_parts("ann", "example.org");
                txn.add_decision(&Decision {
                    at: txn.now(),
                    email: Some(EmailId(n.into())),
                    sender: None,
                    recipient,
                    verdict,
                    steps: Vec::new(),
                })?;
                // If the hash began with 0, `remember_delivery` would delete expired records.
                txn.remember_delivery(&[n + 1; 32], &[], [])
            })
            .unwrap();
    }
    let expire = || while fixture.done(|txn| txn.expire_deliveries_and_decisions(2)).unwrap() {};
    let rows = || {
        (
            fixture.rows(Table::Deliveries),
            fixture.rows(Table::DeliveryByTime),
            fixture.rows(Table::Decisions),
        )
    };
    fixture.clock.advance(DELIVERY_RETENTION - MS);
    expire();
    assert_eq!(rows(), (3, 3, 3));
    fixture.clock.advance(MS);
    expire();
    assert_eq!(rows(), (0, 0, 3));
    fixture.clock.advance(DECISION_RETENTION - DELIVERY_RETENTION - MS);
    expire();
    assert_eq!(rows(), (0, 0, 3));
    fixture.clock.advance(MS);
    expire();
    assert_eq!(rows(), (0, 0, 0));
}

#[test]
fn damaged_records_of_deliveries_expire_with_the_others() {
    use crate::model::limits::DELIVERY_RETENTION;
    let fixture = fixture();
    for n in [1, 2] {
        fixture.done(|txn| txn.remember_delivery(&[n; 32], &[], [])).unwrap();
    }
    let key = DeliveryKey { account: ACCOUNT, hash: [1; 32] };
    fixture.write(Table::Deliveries, &key, &[99]);
    let at = UtcMillis(0).into();
    let key = DeliveryTimeKey { account: ACCOUNT, at, hash: [3; 32] }.encode();
    let (key, value) = ([&key[..], &[1]].concat(), Some(vec![1]));
    let put = Put { table: Table::DeliveryByTime, key, value };
    fixture.engine.write(&[Arc::new(Batch::of(vec![put]))]).unwrap();
    fixture.clock.advance(DELIVERY_RETENTION);
    assert_eq!(fixture.done(|txn| txn.expire_deliveries_and_decisions(9)), Ok(false));
    assert_eq!((fixture.rows(Table::Deliveries), fixture.rows(Table::DeliveryByTime)), (0, 0));
}

#[test]
fn references_to_threads_are_dropped_when_old_or_dead() {
    let fixture = fixture();
    let ids: Vec<EmailId> = (0..5).map(|n| fixture.deliver(u32::from(n), &[n, 10 + n])).collect();
    fixture.destroy(ids[0]);
    assert_eq!(fixture.rows(Table::ThreadRefs), 10);
    let sweep = |every| {
        let mut forgotten = 0;
        loop {
            let (gone, left) =
                fixture.done(|txn| txn.sweep_thread_refs(fixture.upto(GRACE), every, 3)).unwrap();
            forgotten += gone;
            if !left {
                return forgotten;
            }
        }
    };
    assert_eq!(sweep(DAY), 2, "of the dead thread");
    fixture.clock.advance(GRACE - MS);
    fixture.deliver(9, &[1]);
    assert_eq!(sweep(DAY), 0);
    fixture.clock.advance(MS);
    assert_eq!(sweep(DAY), 0, "the last round began a millisecond ago");
    assert_eq!(sweep(MS), 7, "all but what was seen again");
    let thread = |id| fixture.store.snapshot().email(ACCOUNT, id).unwrap().unwrap().thread;
    assert_eq!(thread(fixture.deliver(11, &[1])), thread(ids[1]));
    assert_ne!(thread(fixture.deliver(12, &[2])), thread(ids[2]));
    assert_clean(&fixture.store);
}

#[test]
fn decision_on_an_unsent_reply_is_corrected_whether_or_not_the_message_was_stored() {
    let fixture = fixture();
    let recipient = Address::from_parts("ann", "example.org");
    // Two of the decisions have the same time and no email, and differ in their keys all the same.
    for email in [None, Some(EmailId(7)), None] {
        let reply = fixture
            .done(|txn| {
                let reply =
                    Action { kind: ActionKind::Reply, email, created: txn.now(), ..action() };
                let id = txn.queue_action(reply, b"Subject: x\r\n\r\n")?;
                txn.add_decision(&Decision {
                    at: txn.now(),
                    email,
                    sender: None,
                    recipient: recipient.clone(),
                    verdict: Verdict::Answered(id),
                    steps: Vec::new(),
                })?;
                txn.action(id)
            })
            .unwrap();
        fixture.done(|txn| txn.take_back_answer(&reply, "not-sent", "refused")).unwrap();
        let log = fixture.store.snapshot().decisions(ACCOUNT, 9).unwrap();
        let is_silent = |decision: &Decision| matches!(decision.verdict, Verdict::Silent { .. });
        assert!(log.iter().all(is_silent), "{log:?}");
    }
    assert_eq!(fixture.store.snapshot().decisions(ACCOUNT, 9).unwrap().len(), 3);
}

#[test]
fn damaged_response_can_be_set_anew() {
    let fixture = fixture();
    let response = VacationResponse { enabled: true, ..VacationResponse::default() };
    fixture.done(|txn| txn.set_vacation(&response)).unwrap();
    let week = ToldLifetime::For(7 * DAY);
    let bob = Address::from_parts("bob", "example.net");
    for (n, memory) in [(1, ToldLifetime::of(1)), (2, week)] {
        fixture.done(|txn| txn.remember_told(&ToldKey([n; 32]), &bob, &memory)).unwrap();
    }
    fixture.write(Table::Vacation, &AccountKey { account: ACCOUNT }, &[99]);
    assert!(fixture.store.snapshot().vacation(ACCOUNT).is_err());
    assert_eq!(fixture.done(|txn| txn.set_vacation(&response)), Ok(true));
    let stored = fixture.store.snapshot().vacation(ACCOUNT).unwrap();
    assert!(stored.enabled && stored.absence.began.is_some());
    // Whom the response told is forgotten; what scripts remember stays.
    assert_eq!(fixture.rows(Table::VacationTold), 1);
    assert_clean(&fixture.store);
}
