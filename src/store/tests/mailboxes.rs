//! Attributes and subscriptions of mailboxes, and paths that begin with a role.

use super::fixture::{Fixture, fixture};
use super::*;
use crate::model::{DataType, Mailbox};

const BOB: AccountId = AccountId(2);
const INBOX: MailboxUid = MailboxUid(1);

#[test]
fn attributes_are_stored_bounded_and_reported_as_a_change_of_the_mailbox() {
    let fixture = fixture();
    let set = |pairs: Vec<(String, String)>| {
        fixture.done(|txn| {
            txn.update_mailbox(INBOX, |row| row.attributes = pairs.iter().cloned().collect())
        })
    };
    let pairs = |all: &[(&str, &str)]| {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let before = fixture.store.snapshot().account_state(ACCOUNT).unwrap().modseq;
    assert_eq!(set(pairs(&[("color", "#1E90ff"), ("x.note", "of Ann's")])), Ok(true));
    assert_eq!(
        set(pairs(&[("color", "#1E90ff"), ("x.note", "of Ann's")])),
        Ok(false),
        "setting the same values again is no change"
    );
    let answer = fixture
        .store
        .snapshot()
        .mailbox_changes(ACCOUNT, ClientState::at(before), 99)
        .unwrap()
        .unwrap();
    assert_eq!((answer.changes.updated, answer.only_counts), (vec![INBOX], false));
    // A delivery writes the mailbox's row and keeps the attributes.
    fixture.deliver(1, &[]);
    let known = || fixture.store.snapshot().mailboxes(ACCOUNT).unwrap()[0].1.attributes.clone();
    assert_eq!(known().len(), 2);
    for (name, value) in [
        ("color", "blue"),
        ("color", "#12345"),
        ("color", "#12345g"),
        ("Color", "#123456"),
        ("", "x"),
        ("-x", "x"),
        ("x y", "x"),
        ("note", ""),
        ("note", "two\nlines"),
        ("n".repeat(33).as_str(), "x"),
        ("note", "v".repeat(256).as_str()),
    ] {
        assert!(
            matches!(set(pairs(&[(name, value)])), Err(Error::Mailbox { .. })),
            "{name}={value}"
        );
    }
    let many = |count: u32, bytes: usize| {
        (0..count).map(|n| (format!("a{n:02}"), "v".repeat(bytes))).collect()
    };
    // More than 16 attributes, and more than 1,024 bytes together.
    assert!(set(many(17, 1)).is_err() && set(many(5, 255)).is_err());
    assert_eq!(known().len(), 2);
    assert_eq!(set(many(16, 61)), Ok(true), "1,024 bytes with the names");
    assert_eq!(set(Vec::new()), Ok(true));
    assert_clean(&fixture.store);
}

#[test]
fn each_user_has_an_own_subscription() {
    let fixture = fixture();
    make_account(&fixture.store, BOB);
    let subscribed = |who| fixture.store.snapshot().subscribed_mailboxes(ACCOUNT, who).unwrap();
    let all: BTreeSet<MailboxUid> = (1..4).map(MailboxUid).collect();
    assert_eq!((subscribed(ACCOUNT), subscribed(BOB)), (all.clone(), BTreeSet::new()));
    let before = fixture.store.snapshot().account_state(ACCOUNT).unwrap().modseq;
    let subscribe = |uid, who, on| fixture.done(|txn| txn.subscribe(uid, who, on));
    assert_eq!(subscribe(INBOX, BOB, true), Ok(true));
    let marks = fixture.store.snapshot().account_state(ACCOUNT).unwrap();
    assert_eq!((marks.high_mark(DataType::Mailbox), marks.modseq.0), (marks.modseq, before.0 + 1));
    assert_eq!(subscribe(INBOX, BOB, true), Ok(false));
    assert_eq!(subscribe(MailboxUid(3), BOB, true), Ok(true));
    assert_eq!(subscribe(INBOX, ACCOUNT, false), Ok(true));
    assert_eq!(subscribe(INBOX, AccountId(9), true), Err(Error::NotFound("account")));
    assert_eq!(subscribe(MailboxUid(9), BOB, true), Err(Error::NotFound("mailbox")));
    assert_eq!(subscribed(ACCOUNT), all.iter().copied().filter(|uid| *uid != INBOX).collect());
    assert_eq!(subscribed(BOB), BTreeSet::from([INBOX, MailboxUid(3)]));
    let answer = fixture
        .store
        .snapshot()
        .mailbox_changes(ACCOUNT, ClientState::at(before), 99)
        .unwrap()
        .unwrap();
    assert_eq!((answer.changes.updated.len(), answer.only_counts), (2, false));
    assert_eq!(
        fixture.store.snapshot().subscribers(ACCOUNT, INBOX, AccountId(0), 9).unwrap(),
        [BOB]
    );
    assert_eq!(fixture.store.snapshot().subscribers(ACCOUNT, INBOX, AccountId(3), 9).unwrap(), []);
    assert_eq!(subscribe(INBOX, BOB, false), Ok(true));
    assert_eq!(subscribed(BOB), BTreeSet::from([MailboxUid(3)]));
    // A destroyed mailbox has no subscribers, and upkeep deletes their rows.
    fixture.done(|txn| txn.destroy_mailbox(MailboxUid(3))).unwrap();
    assert_eq!(subscribed(BOB), BTreeSet::new());
    assert_clean(&fixture.store);
    assert_eq!(fixture.rows(Table::Subscriptions), 1);
    while fixture.done(|txn| txn.clear_destroyed_mailboxes(2)).unwrap() {}
    assert_eq!(fixture.rows(Table::Subscriptions), 0);
    assert_clean(&fixture.store);
}

#[test]
fn path_that_begins_with_a_role_leads_below_the_mailbox_of_that_role() {
    let fixture = fixture();
    let trash = MailboxUid(2);
    fixture.done(|txn| txn.update_mailbox(trash, |row| row.name = "Papierkorb".into())).unwrap();
    let create = |path| fixture.done(|txn| txn.create_mailbox_path(path, None)).unwrap();
    let find = |path: &str| {
        let found = fixture.store.snapshot().find_mailbox(ACCOUNT, path).unwrap();
        found.map(|(uid, _)| uid)
    };
    assert_eq!(find("trash/2026"), None);
    let year = create("trash/2026");
    assert!(year.is_some());
    // The second call finds what the first one made.
    assert_eq!((create("trash/2026"), find("Trash/2026")), (year, year));
    assert_eq!(find("Papierkorb/2026"), year);
    let month = create("trash/2026/11");
    assert_eq!((create("Trash/2026/11"), find("papierkorb/2026/11")), (month, month));
    let parent = |uid| {
        let snapshot = fixture.store.snapshot();
        snapshot.mailbox(ACCOUNT, uid).unwrap().unwrap().parent
    };
    assert_eq!((parent(month.unwrap()), parent(year.unwrap())), (year, Some(trash)));
    // A mailbox that has the path itself goes before the one that the role leads to.
    let own = create_named(&fixture, "trash");
    assert_eq!((find("trash"), find("trash/2026")), (Some(own), year));
    let below = create("trash/2027");
    assert_eq!((parent(below.unwrap()), find("trash/2027")), (Some(own), below));
    assert_clean(&fixture.store);
}

#[test]
fn change_of_a_mailbox_sees_the_earlier_changes_of_its_transaction() {
    let fixture = fixture();
    let new =
        |name: &str, parent| NewMailbox { name: name.into(), parent, role: None, sort_order: 0 };
    let fault = |result: Result<MailboxUid, Error>| match result {
        Err(Error::Mailbox { fault, .. }) => fault,
        other => panic!("{other:?}"),
    };
    fixture
        .done(|txn| {
            let one = txn.create_mailbox(&new("one", None))?;
            let two = txn.create_mailbox(&new("two", None))?;
            let below = txn.create_mailbox(&new("below", Some(one)))?;
            let row = |txn: &Txn<'_>, uid| txn.snapshot().mailbox(ACCOUNT, uid).unwrap().unwrap();
            // They exchange their names.
            let named = |txn: &Txn<'_>, uid, name: &str| {
                (uid, Mailbox { name: name.into(), ..row(txn, uid) })
            };
            let exchanged = [named(txn, one, "two"), named(txn, two, "one")];
            txn.update_mailboxes(&exchanged).unwrap();
            let taken = txn.create_mailbox(&new("one", None));
            assert_eq!(fault(taken), MailboxFault::NameTaken(two));
            // Of changes that are refused together, none is done.
            let refused = [named(txn, one, "free"), named(txn, two, "Inbox")];
            assert!(txn.update_mailboxes(&refused).is_err());
            assert_eq!(fault(txn.create_mailbox(&new("two", None))), MailboxFault::NameTaken(one));
            let has_child = txn.destroy_mailbox(one).map(|()| one);
            assert_eq!(fault(has_child), MailboxFault::HasChildren);
            txn.update_mailbox(below, |row| row.parent = Some(two))?;
            txn.destroy_mailbox(one)?;
            assert_eq!(fault(txn.create_mailbox(&new("below", Some(one)))), MailboxFault::NoParent);
            txn.create_mailbox(&new("two", None))?;
            Ok(())
        })
        .unwrap();
    assert_clean(&fixture.store);
}

fn create_named(fixture: &Fixture, name: &str) -> MailboxUid {
    let new = NewMailbox { name: name.into(), parent: None, role: None, sort_order: 0 };
    fixture.done(|txn| txn.create_mailbox(&new)).unwrap()
}
