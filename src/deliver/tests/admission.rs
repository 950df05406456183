//! What is accepted at RCPT, put off or refused.

use super::*;

/// Mail for somebody whose row is damaged or lost waits, and nobody else's does.
#[test]
fn a_damaged_row_of_the_directory_bounces_nothing() {
    let later = "451 trouble with the mail store: try again later";
    for (table, key) in
        [(Table::Addresses, &b"lee@example.org"[..]), (Table::Accounts, &[0, 0, 0, 1])]
    {
        for damaged in [None, Some(vec![99])] {
            let engine = Arc::new(MemoryEngine::new());
            let bed = bed_over(engine.clone());
            let eve = bed
                .directory
                .add(&NewAccount::at(Address::parse("eve@example.org").unwrap()))
                .unwrap();
            let sent = |to: &str| bed.send("bob@example.net", &[to], HELLO)[0].clone();
            let puts = vec![Put { table, key: key.to_vec(), value: damaged }];
            engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
            // First as the directory in memory has it, then as it is read anew.
            if table == Table::Accounts {
                assert_eq!(sent("lee@example.org"), later);
            }
            bed.directory.update(eve, |row| row.active = true).unwrap();
            assert_eq!(
                (sent("lee@example.org"), sent("lee+x@example.org")),
                (later.to_owned(), later.to_owned())
            );
            assert_eq!(sent("nobody@example.org"), "550 nobody here has that address");
            assert!(sent("eve@example.org").starts_with("250 filed as"));
            assert_eq!(sent("ann@example.org") == later, table == Table::Accounts);
        }
    }
}

#[test]
fn where_nobody_has_an_account_mail_waits_instead_of_bouncing() {
    let bed = bed();
    assert!(bed.send("bob@example.net", &["nobody@example.org"], HELLO)[0].starts_with("550"));
    bed.directory.remove(bed.ann).unwrap();
    assert!(bed.send("bob@example.net", &["ann@example.org"], HELLO)[0].starts_with("451"));
}

#[test]
fn room_is_asked_for_when_the_size_is_announced() {
    let bed = bed();
    bed.directory.update(bed.ann, |row| row.quota_bytes = Some(1000)).unwrap();
    let ask = |size| {
        let envelope = Envelope { size, ..Envelope::default() };
        let mut session = DeliveryTransaction::default();
        let admit = |session: &mut DeliveryTransaction, who: &str| {
            bed.deliver
                .admit(session, &envelope, &Recipient::plain(Address::parse(who).unwrap()))
                .code
        };
        (admit(&mut session, "ann@example.org"), admit(&mut session, "lee@example.org"))
    };
    // The message is filed once, whichever of the two is asked.
    assert_eq!((ask(None), ask(Some(900)), ask(Some(1001))), ((250, 250), (250, 250), (452, 452)));
}

#[test]
fn mail_to_an_account_that_is_repaired_waits_and_mail_to_others_does_not() {
    let bed = bed();
    bed.directory.add(&NewAccount::at(Address::parse("ben@example.org").unwrap())).unwrap();
    bed.away("Away");
    bed.send("bob@example.net", &["ann@example.org"], HELLO);
    let remake = |raw: &[u8]| crate::message::rows_or_bare(raw, bed.store.secrets());
    let mut n = 0;
    let mut heard = Vec::new();
    let done = bed.store.repair(
        store::repair::RepairScope::Rebuild,
        Some(&[bed.ann]),
        &remake,
        &mut |_| {
            if !bed.store.accounts_under_repair().unwrap().is_empty() && n < 3 {
                n += 1;
                heard.push(bed.send(
                    "eve@example.net",
                    &["ann@example.org", "ben@example.org"],
                    &format!("{HELLO}{n}\n"),
                ));
            }
            true
        },
    );
    assert_eq!((done.unwrap().renewed, heard.len()), (vec![bed.ann], 3));
    for replies in heard {
        assert!(replies[0].starts_with("451 ") && replies[1].starts_with("250 "), "{replies:?}");
    }
    // Postfix tries again, and each is filed once and answered once.
    for n in 1..=3 {
        let message = format!("{HELLO}{n}\n");
        let replies =
            bed.send("eve@example.net", &["ann@example.org", "ben@example.org"], &message);
        assert!(
            replies[0].starts_with("250 filed as") && replies[1].starts_with("250 filed already"),
            "{replies:?}"
        );
    }
    assert_eq!(bed.store.snapshot().outbox(bed.ann).unwrap().len(), 2, "bob and eve");
    let found = bed.store.check_deep(Some(&remake), &mut |_| true).unwrap();
    assert_eq!(found.breaches, []);
}

#[test]
fn quota_and_inactive_accounts_and_loops() {
    let bed = bed();
    bed.directory.update(bed.ann, |row| row.quota_emails = Some(1)).unwrap();
    assert!(bed.send("bob@example.net", &["ann@example.org"], HELLO)[0].starts_with("250"));
    assert_eq!(
        bed.send("bob@example.net", &["ann@example.org"], "x: y\n\n"),
        ["452 the mailbox is full"]
    );
    bed.directory.update(bed.ann, |row| row.active = false).unwrap();
    assert!(
        bed.send("bob@example.net", &["ann@example.org"], HELLO)[0].starts_with("550 that mailbox")
    );
    bed.directory.update(bed.ann, |row| (row.active, row.quota_emails) = (true, None)).unwrap();
    let loops = "Received: x\n".repeat(100) + HELLO;
    assert!(bed.send("bob@example.net", &["ann@example.org"], &loops)[0].starts_with("554"));
    bed.clean();
}
