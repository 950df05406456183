//! Tests of which mail is accepted, deferred or refused.

use super::*;

#[test]
fn mail_is_deferred_only_for_the_addresses_of_a_damaged_directory_row() {
    let later = "451 error in the mail store: try again later";
    for (table, key) in
        [(Table::Addresses, &b"lee@example.org"[..]), (Table::Accounts, &[0, 0, 0, 1])]
    {
        for damaged in [None, Some(vec![99])] {
            let engine = Arc::new(MemoryEngine::new());
            let fixture = fixture_over(engine.clone());
            let eve = fixture
                .directory
                .add(&NewAccount::at(Address::parse("eve@example.org").unwrap()))
                .unwrap();
            let sent = |to: &str| fixture.send("bob@example.net", &[to], HELLO)[0].clone();
            let puts = vec![Put { table, key: key.to_vec(), value: damaged }];
            engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
            // A damaged account row counts at once. Addresses are in memory until the directory is
            // read anew, which any change of an account brings about.
            if table == Table::Accounts {
                assert_eq!(sent("lee@example.org"), later);
            }
            fixture.directory.update(eve, |row| row.active = true).unwrap();
            assert_eq!(
                (sent("lee@example.org"), sent("lee+x@example.org")),
                (later.to_owned(), later.to_owned())
            );
            assert_eq!(sent("nobody@example.org"), "550 no account has this address");
            assert!(sent("eve@example.org").starts_with("250 filed as"));
            // The row of `ann@` is intact, so only a damaged account row defers its mail.
            assert_eq!(sent("ann@example.org") == later, table == Table::Accounts);
        }
    }
}

#[test]
fn without_any_account_mail_is_deferred_and_not_refused() {
    let fixture = fixture();
    assert!(fixture.send("bob@example.net", &["nobody@example.org"], HELLO)[0].starts_with("550"));
    fixture.directory.remove(fixture.ann).unwrap();
    assert!(fixture.send("bob@example.net", &["ann@example.org"], HELLO)[0].starts_with("451"));
}

#[test]
fn announced_size_is_checked_against_the_quota() {
    let fixture = fixture();
    fixture.directory.update(fixture.ann, |row| row.quota_bytes = Some(1000)).unwrap();
    let ask = |size| {
        let envelope = Envelope { size, ..Envelope::default() };
        let mut session = DeliveryTransaction::default();
        let admit = |session: &mut DeliveryTransaction, to: &str| {
            fixture
                .deliver
                .admit(session, &envelope, &Recipient::plain(Address::parse(to).unwrap()))
                .code
        };
        (admit(&mut session, "ann@example.org"), admit(&mut session, "lee@example.org"))
    };
    // Both recipients belong to Ann, for whom the message is filed once: 900 bytes count once.
    assert_eq!((ask(None), ask(Some(900)), ask(Some(1001))), ((250, 250), (250, 250), (452, 452)));
}

#[test]
fn mail_is_deferred_only_for_the_account_under_repair() {
    let fixture = fixture();
    fixture.directory.add(&NewAccount::at(Address::parse("ben@example.org").unwrap())).unwrap();
    fixture.enable_response("Away");
    fixture.send("bob@example.net", &["ann@example.org"], HELLO);
    let make_rows = |raw: &[u8]| crate::message::rows_of_any(raw, fixture.store.secrets());
    // While the repair of Ann's account runs, three messages come for Ann and Ben.
    let mut n = 0;
    let mut all_replies = Vec::new();
    let done = fixture.store.repair(
        store::repair::RepairScope::Rebuild,
        Some(&[fixture.ann]),
        &make_rows,
        &mut |_| {
            if !fixture.store.accounts_under_repair().unwrap().is_empty() && n < 3 {
                n += 1;
                all_replies.push(fixture.send(
                    "eve@example.net",
                    &["ann@example.org", "ben@example.org"],
                    &format!("{HELLO}{n}\n"),
                ));
            }
            true
        },
    );
    assert_eq!((done.unwrap().history_restarted, all_replies.len()), (vec![fixture.ann], 3));
    for replies in all_replies {
        assert!(replies[0].starts_with("451 ") && replies[1].starts_with("250 "), "{replies:?}");
    }
    // The client sends the deferred messages again.
    for n in 1..=3 {
        let message = format!("{HELLO}{n}\n");
        let replies =
            fixture.send("eve@example.net", &["ann@example.org", "ben@example.org"], &message);
        assert!(
            replies[0].starts_with("250 filed as") && replies[1].starts_with("250 already filed"),
            "{replies:?}"
        );
    }
    let actions = fixture.store.snapshot().outbox(fixture.ann).unwrap().len();
    assert_eq!(actions, 2, "the replies to Bob and, once, to Eve");
    let found = fixture.store.check_deep(Some(&make_rows), &mut |_| true).unwrap();
    assert_eq!(found.breaches, []);
}

#[test]
fn mail_over_quota_is_deferred_and_mail_to_an_inactive_account_or_in_a_loop_refused() {
    let fixture = fixture();
    fixture.directory.update(fixture.ann, |row| row.quota_emails = Some(1)).unwrap();
    assert!(fixture.send("bob@example.net", &["ann@example.org"], HELLO)[0].starts_with("250"));
    assert_eq!(
        fixture.send("bob@example.net", &["ann@example.org"], "x: y\n\n"),
        ["452 the mailbox is full"]
    );
    fixture.directory.update(fixture.ann, |row| row.active = false).unwrap();
    assert!(
        fixture.send("bob@example.net", &["ann@example.org"], HELLO)[0]
            .starts_with("550 this account")
    );
    fixture
        .directory
        .update(fixture.ann, |row| (row.active, row.quota_emails) = (true, None))
        .unwrap();
    // `limits::MAX_RECEIVED_FIELDS`
    let loops = "Received: x\n".repeat(100) + HELLO;
    assert!(fixture.send("bob@example.net", &["ann@example.org"], &loops)[0].starts_with("554"));
    fixture.assert_clean();
}
