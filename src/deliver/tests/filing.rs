//! Where a message is filed, and that a retry files it once.

use super::*;

#[test]
fn a_retry_gets_the_same_id_and_adds_nothing() {
    let bed = bed();
    let first = bed.send("bob@example.net", &["ann@example.org"], HELLO);
    let id = first[0].rsplit(' ').next().unwrap().to_owned();
    let again = bed.send("bob@example.net", &["ann@example.org"], HELLO);
    assert_eq!(again, [format!("250 filed already as {id}")]);
    // Another envelope sender, or other octets, is another message, whatever its Message-ID says.
    assert!(
        bed.send("eve@example.net", &["ann@example.org"], HELLO)[0].starts_with("250 filed as")
    );
    assert!(
        bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}more\n"))[0]
            .starts_with("250 filed as")
    );
    assert_eq!(bed.store.snapshot().emails(bed.ann, None, 99).unwrap().len(), 3);
    bed.clean();
}

/// Behind our trace fields what stood before the header ended it, or lost its first field: whoever
/// reads the whole message saw the rest of the header as text.
#[test]
fn what_stands_before_the_header_is_not_kept_behind_the_trace_fields() {
    for before in [
        "\n",
        " \t\n\n",
        "\u{feff}",
        "From bob Sat Jan  1 00:00:00 2026\n",
        "\u{feff}\n>From bob\n",
    ] {
        let bed = bed();
        assert!(
            bed.send("bob@example.net", &["ann@example.org"], &format!("{before}{HELLO}"))[0]
                .starts_with("250")
        );
        let (id, email) = bed.store.snapshot().emails(bed.ann, None, 9).unwrap().pop().unwrap();
        let whole =
            String::from_utf8(bed.store.snapshot().message(bed.ann, id).unwrap().unwrap()).unwrap();
        let (header, text) = whole.split_once("\r\n\r\n").unwrap();
        assert_eq!(text, "Hi\r\n", "{before:?}");
        let names: Vec<&str> =
            header.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
        let own = ["From", "To", "Subject", "Message-ID"];
        assert_eq!(
            names,
            [&["Return-Path", "Delivered-To", "Received"][..], &own].concat(),
            "{before:?}"
        );
        assert_eq!(email.size, whole.len() as u64, "{before:?}");
        let again = bed.send("bob@example.net", &["ann@example.org"], &format!("{before}{HELLO}"));
        assert_eq!(again, [format!("250 filed already as {id}")]);
        bed.clean();
    }
    // A text that looks like no header is kept as it came.
    let bed = bed();
    bed.send("bob@example.net", &["ann@example.org"], "\nA text.\n");
    let (id, _) = bed.store.snapshot().emails(bed.ann, None, 9).unwrap().pop().unwrap();
    assert!(
        bed.store
            .snapshot()
            .message(bed.ann, id)
            .unwrap()
            .unwrap()
            .ends_with(b"\r\n\r\nA text.\r\n")
    );
}

#[test]
fn what_was_served_long_ago_is_no_retry_and_what_is_kept_for_a_time_goes() {
    let bed = bed();
    for n in 0..60 {
        bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}{n}\n"));
    }
    let kept = || {
        (
            bed.store.snapshot().deliveries(bed.ann).unwrap(),
            bed.store.snapshot().decisions(bed.ann, 999).unwrap(),
        )
    };
    assert_eq!((kept().0.len(), kept().1.len()), (60, 60));
    bed.clock.advance(Duration::from_secs(13 * 24 * 3600));
    assert!(
        bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}1\n"))[0]
            .contains("filed already")
    );
    bed.clock.advance(Duration::from_secs(2 * 24 * 3600));
    assert!(
        bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}1\n"))[0]
            .contains("filed as")
    );
    bed.clock.advance(Duration::from_secs(90 * 24 * 3600));
    let now = bed.clock.now();
    for n in 100..200 {
        bed.send("bob@example.net", &["ann@example.org"], &format!("{HELLO}{n}\n"));
    }
    assert!(
        kept().0.len() == 100 && kept().0.iter().all(|served| served.at >= now),
        "{}",
        kept().0.len()
    );
    assert!(
        kept().1.len() == 100 && kept().1.iter().all(|decision| decision.at >= now),
        "{}",
        kept().1.len()
    );
    bed.clean();
}

#[test]
fn two_aliases_of_one_person_get_one_copy_and_two_answers() {
    let bed = bed();
    let said = bed.send(
        "bob@example.net",
        &["ann@example.org", "lee@example.org", "ann+x@example.org"],
        HELLO,
    );
    assert_eq!(said.len(), 3);
    assert!(
        said.iter().all(|reply| *reply == said[0] && reply.starts_with("250 filed as")),
        "{said:?}"
    );
    assert_eq!(bed.store.snapshot().emails(bed.ann, None, 99).unwrap().len(), 1);
    assert_eq!(
        bed.send("bob@example.net", &["nobody@example.org"], HELLO),
        ["550 nobody here has that address"]
    );
    bed.clean();
}

#[test]
fn a_detail_files_where_the_owner_allows_it() {
    let bed = bed();
    let counts = |bed: &Fixture, name: &str| {
        bed.store.snapshot().find_mailbox(bed.ann, name).unwrap().unwrap().1.counts.total_emails
    };
    bed.send("bob@example.net", &["ann+archive@example.org"], HELLO);
    assert_eq!((counts(&bed, "inbox"), counts(&bed, "archive")), (1, 0));
    bed.directory.update(bed.ann, |row| row.detail_files = true).unwrap();
    bed.send("bob@example.net", &["ann+archive@example.org"], &format!("{HELLO}2\n"));
    bed.send("bob@example.net", &["ann+no.such@example.org"], &format!("{HELLO}3\n"));
    assert_eq!((counts(&bed, "inbox"), counts(&bed, "archive")), (2, 1));
    // A dot leads down.
    let made = bed.store.commit(bed.ann, |txn| {
        let new = |name: &str, parent| NewMailbox {
            name: name.into(),
            parent,
            role: None,
            sort_order: 0,
        };
        let lists = txn.create_mailbox(&new("Lists", None))?;
        txn.create_mailbox(&new("rust", Some(lists)))
    });
    made.unwrap().1.wait_blocking().unwrap();
    bed.send("bob@example.net", &["ann+Lists.Rust@example.org"], &format!("{HELLO}4\n"));
    assert_eq!((counts(&bed, "Lists/rust"), counts(&bed, "inbox")), (1, 2));
}

#[test]
fn mail_whose_parser_panics_is_filed_unread_and_not_answered() {
    assert!(catch_parser_panic("a test", || panic!("on purpose")).is_none());
    let bed = bed();
    let raw = b"Subject: x\r\n\r\nbody\r\n";
    let encoded = EncodedMessage::new(&bare_rows(raw));
    let (_, ticket) = bed.store.commit_message(&[bed.ann], &encoded, raw, |txn| {
        let (mailboxes, received_at) = ([txn.state().inbox].into(), txn.now());
        let new = NewEmail {
            message: &encoded,
            prefix: b"",
            mailboxes,
            keywords: [].into(),
            received_at,
        };
        txn.create_email(&new)
    });
    ticket.wait_blocking().unwrap();
    let (id, _) = bed.store.snapshot().emails(bed.ann, None, 1).unwrap().pop().unwrap();
    assert_eq!(bed.store.snapshot().message(bed.ann, id).unwrap().unwrap(), raw);
    bed.clean();
}

#[test]
fn broken_mail_is_filed_as_it_came() {
    let bed = bed();
    let broken = "\u{0}\u{1}no header\n\nContent-Type: multipart/mixed; boundary=x\n--x";
    assert!(bed.send("", &["ann@example.org"], broken)[0].starts_with("250"));
    let (id, _) = bed.store.snapshot().emails(bed.ann, None, 1).unwrap().pop().unwrap();
    let message = bed.store.snapshot().message(bed.ann, id).unwrap().unwrap();
    assert!(
        message.starts_with(b"Return-Path: <>\r\n")
            && message.ends_with(broken.replace('\n', "\r\n").as_bytes())
    );
    bed.clean();
}
