//! The collection of messages and the expiry of other rows, each tested at the boundary of its
//! time.

use super::life::{DAY, GRACE, MS, bed, raw};
use super::*;
use crate::model::{Decision, ToldLifetime, Verdict};

#[test]
fn an_unreferenced_message_is_collected_after_its_retention() {
    let bed = bed();
    let bob = AccountId(2);
    make_account(&bed.store, bob);
    let (id, shared) = (bed.deliver(1, &[]), bed.deliver(2, &[]));
    let there = bed.deliver_to(bob, 2, &[]).unwrap();
    bed.clock.advance(DAY);
    for id in [id, shared] {
        bed.destroy(id);
        bed.done(|txn| txn.purge_email(id)).unwrap();
    }
    assert_clean(&bed.store);
    let collect = || bed.on(AccountId::SITE, |txn| txn.collect_blobs(bed.upto(DAY), 9)).unwrap();
    bed.clock.advance(DAY - MS);
    assert_eq!(collect(), CollectResult::default());
    bed.clock.advance(MS);
    let bytes = raw(1).len() as u64;
    assert_eq!(collect(), CollectResult { blobs: 1, bytes, has_more: false });
    assert_eq!((bed.rows(Table::Blobs), bed.rows(Table::BlobPurge)), (1, 0));
    assert!(bed.store.snapshot().message(bob, there).unwrap().is_some());
    // The same message may be delivered again, and then stays for its retention.
    let again = bed.deliver(1, &[]);
    bed.destroy(again);
    bed.done(|txn| txn.purge_email(again)).unwrap();
    bed.clock.advance(DAY / 2);
    let once_more = bed.deliver(1, &[]);
    bed.destroy(once_more);
    bed.clock.advance(DAY / 2);
    assert_eq!(collect(), CollectResult::default());
    assert!(bed.restore(once_more, 1).is_ok());
    assert_clean(&bed.store);
}

#[test]
fn a_long_message_is_collected_with_all_its_frames() {
    let bed = bed();
    let raw = vec![b'x'; 2 * row::FRAME_BYTES + 1];
    let rows = MessageRows {
        blob: BlobHash(*blake3::hash(&raw).as_bytes()),
        size: raw.len() as u64,
        ..MessageRows::default()
    };
    let message = EncodedMessage::new(&rows);
    let (mut results, ticket) = bed.store.commit_message(&[ACCOUNT], &message, &raw, |txn| {
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
    assert_eq!(bed.rows(Table::BlobFrames), 3);
    bed.destroy(id);
    bed.done(|txn| txn.purge_email(id)).unwrap();
    bed.clock.advance(DAY);
    let collected = bed.on(AccountId::SITE, |txn| txn.collect_blobs(bed.upto(DAY), 9)).unwrap();
    assert_eq!(collected, CollectResult { blobs: 1, bytes: raw.len() as u64, has_more: false });
    assert_eq!((bed.rows(Table::Blobs), bed.rows(Table::BlobFrames)), (0, 0));
    assert_clean(&bed.store);
}

#[test]
fn a_delivery_during_a_collection_keeps_its_message() {
    let bed = bed();
    let id = bed.deliver(1, &[]);
    bed.destroy(id);
    bed.done(|txn| txn.purge_email(id)).unwrap();
    bed.clock.advance(DAY);
    let mut filed = None;
    let collected = bed.on(AccountId::SITE, |txn| {
        let done = txn.collect_blobs(bed.upto(DAY), 9)?;
        filed = Some(bed.deliver(1, &[]));
        Ok(done)
    });
    assert!(matches!(collected, Err(Error::Overtaken(_))), "{collected:?}");
    assert!(bed.store.health().is_ok());
    assert!(bed.store.snapshot().message(ACCOUNT, filed.unwrap()).unwrap().is_some());
    assert_clean(&bed.store);
    // The next collection finds a reference to the message.
    assert_eq!(
        bed.on(AccountId::SITE, |txn| txn.collect_blobs(bed.upto(DAY), 9)).unwrap().blobs,
        0
    );
    assert_eq!(bed.rows(Table::BlobPurge), 0);
    assert_clean(&bed.store);
}

#[test]
fn a_message_is_written_only_with_a_reference_and_a_sweep_finds_unreferenced_ones() {
    let bed = bed();
    let (encoded, _) = message(1, &[]);
    let (_, ticket) = bed.store.commit_message(&[ACCOUNT], &encoded, &raw(1), |txn| {
        txn.remember_delivery(&[1; 32], None, &[]) // a retry
    });
    ticket.wait_blocking().unwrap();
    assert_eq!((bed.rows(Table::Blobs), bed.rows(Table::Deliveries)), (0, 1));
    // Writes unreferenced messages, as a fault would leave them.
    let hash = |n| BlobHash(*blake3::hash(&raw(n)).as_bytes());
    let mut puts: Vec<Put> =
        (0..5u32).flat_map(|n| row::blob_rows(&hash(n), &raw(n), bed.clock.now())).collect();
    puts.sort_by(|one, other| one.key.cmp(&other.key));
    bed.engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
    let held = bed.deliver(3, &[]);
    assert_eq!(bed.store.check().unwrap().len(), 4);
    let sweep = || bed.on(AccountId::SITE, |txn| txn.sweep_blobs(30 * DAY, 2)).unwrap();
    let mut steps = 1;
    while sweep() {
        steps += 1;
    }
    assert_eq!((steps, bed.rows(Table::BlobPurge)), (3, 4));
    assert_clean(&bed.store);
    // The next round begins a month after this one began.
    bed.clock.advance(30 * DAY - MS);
    bed.on(AccountId::SITE, |txn| txn.collect_blobs(bed.upto(DAY), 9)).unwrap();
    assert_eq!(bed.rows(Table::Blobs), 1);
    assert!(!sweep());
    bed.clock.advance(MS);
    assert!(!sweep());
    assert_eq!(bed.rows(Table::BlobPurge), 0);
    assert!(bed.store.snapshot().message(ACCOUNT, held).unwrap().is_some());
    assert_clean(&bed.store);
}

#[test]
fn an_erased_account_releases_its_messages() {
    let bed = bed();
    for n in 0..5 {
        bed.deliver(n, &[]);
    }
    bed.done(|txn| txn.note_history(DAY)).unwrap();
    bed.done(|txn| txn.sweep_thread_refs(UtcMillis(0), DAY, 9)).unwrap();
    while bed.done(|txn| txn.erase(7)).unwrap() {
        bed.done(|txn| txn.purge_emails(bed.clock.now(), 9)).unwrap();
    }
    assert_eq!(
        (bed.rows(Table::History), bed.rows(Table::Sweeps), bed.rows(Table::BlobPurge)),
        (0, 0, 5)
    );
    assert_clean(&bed.store);
    bed.clock.advance(DAY);
    bed.on(AccountId::SITE, |txn| txn.collect_blobs(bed.upto(DAY), 9)).unwrap();
    assert_eq!(bed.rows(Table::Blobs), 0);
    assert_clean(&bed.store);
}

#[test]
fn told_rows_expire_once_the_response_is_over() {
    let bed = bed();
    let end = bed.clock.now().after(2 * DAY);
    let response =
        VacationResponse { enabled: true, to_date: Some(end), ..VacationResponse::default() };
    bed.done(|txn| txn.set_vacation(&response)).unwrap();
    let generation = bed.store.snapshot().vacation(ACCOUNT).unwrap().generation;
    let memory = ToldLifetime::of(generation);
    let bob = Address::from_parts("bob", "example.net");
    for n in 0..3 {
        bed.done(|txn| txn.remember_told(&ToldKey([n; 32]), &bob, &memory)).unwrap();
    }
    let expire = || bed.done(|txn| txn.expire_told(bed.upto(DAY), 2)).unwrap();
    bed.clock.advance(2 * DAY - MS);
    assert!(!expire());
    assert_eq!(bed.rows(Table::VacationTold), 3, "as long as it lasts nobody is told twice");
    bed.clock.advance(MS);
    assert!(expire() && !expire());
    assert_eq!(bed.rows(Table::VacationTold), 0);
    // At the boundary of the retention.
    bed.done(|txn| txn.remember_told(&ToldKey([9; 32]), &bob, &memory)).unwrap();
    bed.clock.advance(DAY - MS);
    expire();
    assert_eq!(bed.rows(Table::VacationTold), 1);
    bed.clock.advance(MS);
    expire();
    assert_eq!(bed.rows(Table::ToldByTime), 0);
    assert_clean(&bed.store);
}

#[test]
fn told_rows_of_a_script_expire_at_their_own_time() {
    let bed = bed();
    let response = VacationResponse { enabled: true, ..VacationResponse::default() };
    bed.done(|txn| txn.set_vacation(&response)).unwrap();
    let generation = bed.store.snapshot().vacation(ACCOUNT).unwrap().generation;
    let bob = Address::from_parts("bob", "example.net");
    let told = |n: u8, recall: &ToldLifetime| {
        bed.store.snapshot().last_told(ACCOUNT, &ToldKey([n; 32]), recall, bed.clock.now())
    };
    let (of, week) = (ToldLifetime::of(generation), ToldLifetime::For(7 * DAY));
    for (n, recall) in [(1, of), (2, week), (3, ToldLifetime::For(Duration::ZERO))] {
        bed.done(|txn| txn.remember_told(&ToldKey([n; 32]), &bob, &recall)).unwrap();
    }
    assert_eq!(bed.rows(Table::VacationTold), 2, "who is remembered for no time is not remembered");
    assert!(told(1, &of).unwrap().is_some() && told(1, &week).unwrap().is_none());
    assert!(told(2, &week).unwrap().is_some() && told(2, &of).unwrap().is_none());
    // Senders told before this absence began are answered again.
    let later =
        ToldLifetime::Response { generation, since: Some(UtcMillis(bed.clock.now().0 + 1)) };
    assert!(told(1, &later).unwrap().is_none());
    bed.done(|txn| {
        txn.set_vacation(&VacationResponse { subject: Some("x".into()), ..response.clone() })
    })
    .unwrap();
    assert_eq!((bed.rows(Table::VacationTold), bed.rows(Table::ToldByTime)), (1, 1));
    assert_clean(&bed.store);
    bed.clock.advance(7 * DAY - MS);
    bed.done(|txn| txn.expire_told(bed.upto(DAY), 9)).unwrap();
    assert!(told(2, &week).unwrap().is_some());
    bed.clock.advance(MS);
    assert!(told(2, &week).unwrap().is_none());
    bed.done(|txn| txn.expire_told(bed.upto(DAY), 9)).unwrap();
    assert_eq!((bed.rows(Table::VacationTold), bed.rows(Table::ToldByTime)), (0, 0));
    assert_clean(&bed.store);
}

#[test]
fn the_oldest_told_row_is_deleted_when_there_are_too_many() {
    let bed = bed();
    let most = crate::model::limits::MAX_TOLD_SENDERS as u64;
    let key = |n: u64| {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&n.to_be_bytes());
        ToldKey(key)
    };
    let bob = Address::from_parts("bob", "example.net");
    for piece in 0..most / 1000 {
        bed.done(|txn| {
            (0..1000).try_for_each(|n| {
                txn.remember_told(&key(piece * 1000 + n), &bob, &ToldLifetime::of(0))
            })
        })
        .unwrap();
        bed.clock.advance(MS);
    }
    bed.done(|txn| txn.remember_told(&key(most), &bob, &ToldLifetime::of(0))).unwrap();
    let told = |n| {
        bed.store
            .snapshot()
            .last_told(ACCOUNT, &key(n), &ToldLifetime::of(0), bed.clock.now())
            .unwrap()
            .is_some()
    };
    assert!(!told(0) && told(1) && told(most - 1) && told(most));
    assert_eq!(bed.rows(Table::VacationTold) as u64, most);
}

#[test]
fn deliveries_and_decisions_of_an_account_without_mail_expire() {
    use crate::model::limits::{DECISION_RETENTION, DELIVERY_RETENTION};
    let bed = bed();
    for n in 0..3u8 {
        bed.done(|txn| {
            let verdict = Verdict::Silent { reason: "disabled".into(), detail: String::new() };
            let recipient = Address::from_parts("ann", "example.org");
            txn.add_decision(&Decision {
                at: txn.now(),
                email: EmailId(n.into()),
                sender: None,
                recipient,
                verdict,
            });
            txn.remember_delivery(&[n + 1; 32], None, &[])
        })
        .unwrap();
    }
    let expire = || while bed.done(|txn| txn.expire_deliveries_and_decisions(2)).unwrap() {};
    let rows = || {
        (bed.rows(Table::Deliveries), bed.rows(Table::DeliveryByTime), bed.rows(Table::Decisions))
    };
    bed.clock.advance(DELIVERY_RETENTION - MS);
    expire();
    assert_eq!(rows(), (3, 3, 3));
    bed.clock.advance(MS);
    expire();
    assert_eq!(rows(), (0, 0, 3));
    bed.clock.advance(DECISION_RETENTION - DELIVERY_RETENTION - MS);
    expire();
    assert_eq!(rows(), (0, 0, 3));
    bed.clock.advance(MS);
    expire();
    assert_eq!(rows(), (0, 0, 0));
}

#[test]
fn references_to_threads_are_dropped_when_old_or_dead() {
    let bed = bed();
    let ids: Vec<EmailId> = (0..5).map(|n| bed.deliver(u32::from(n), &[n, 10 + n])).collect();
    bed.destroy(ids[0]);
    assert_eq!(bed.rows(Table::ThreadRefs), 10);
    let sweep = |every| {
        let mut forgotten = 0;
        loop {
            let (gone, left) =
                bed.done(|txn| txn.sweep_thread_refs(bed.upto(GRACE), every, 3)).unwrap();
            forgotten += gone;
            if !left {
                return forgotten;
            }
        }
    };
    assert_eq!(sweep(DAY), 2, "of the dead thread");
    bed.clock.advance(GRACE - MS);
    bed.deliver(9, &[1]);
    assert_eq!(sweep(DAY), 0);
    bed.clock.advance(MS);
    assert_eq!(sweep(DAY), 0, "the last round began a millisecond ago");
    assert_eq!(sweep(MS), 7, "all but what was seen again");
    let thread = |id| bed.store.snapshot().email(ACCOUNT, id).unwrap().unwrap().thread;
    assert_eq!(thread(bed.deliver(11, &[1])), thread(ids[1]));
    assert_ne!(thread(bed.deliver(12, &[2])), thread(ids[2]));
    assert_clean(&bed.store);
}
