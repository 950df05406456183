//! Tests of lost or damaged rows of accounts and addresses, and of the check that notices them.

use super::*;
use crate::store::engine::RowReader as _;

struct Fixture {
    engine: Arc<MemoryEngine>,
    store: Store,
    directory: Directory,
    ann: AccountId,
    bob: AccountId,
}

/// Ann with an alias, Bob with two aliases and a catch-all, and an alias domain.
fn fixture() -> Fixture {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    let directory = Directory::new(store.clone(), Settings::default());
    let add = |name: &str, alias: &str| {
        let at = NewAccount::at(address(&format!("{name}@example.org")));
        directory
            .add(&NewAccount { name: Some(name.into()), aliases: vec![address(alias)], ..at })
            .unwrap()
    };
    let (ann, bob) = (add("ann", "lee@example.org"), add("bob", "b.o.b@example.org"));
    directory.add_alias(bob, &address("rob@shop.example")).unwrap();
    directory.add_catch_all(bob, "shop.example").unwrap();
    directory.add_alias_domain("example.net", "example.org").unwrap();
    let fixture = Fixture { engine, store, directory, ann, bob };
    assert_eq!(fixture.breaches(), Vec::<String>::new());
    fixture
}

fn open(engine: Arc<MemoryEngine>) -> Store {
    Store::open_engine(
        engine,
        &Options::small(),
        Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000))),
    )
    .unwrap()
}

impl Fixture {
    /// Writes a row directly into the engine, or deletes it (`None`), and has the directory read
    /// again. The tests write `[99]` as bytes that are no row.
    fn write(&self, table: Table, key: &[u8], value: Option<Vec<u8>>) {
        let puts = vec![Put { table, key: key.to_vec(), value }];
        self.engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
        *self.directory.0.cache.write() = None;
    }

    fn change(&self, account: AccountId, edit: impl FnOnce(&mut AccountRow)) {
        let mut row = self.store.snapshot().account(account).unwrap().unwrap();
        edit(&mut row);
        let committed = self.store.commit(account, |txn| {
            txn.set_account(&row);
            Ok(())
        });
        committed.unwrap().1.wait_blocking().unwrap();
    }

    fn addresses(&self, account: AccountId) -> Option<Vec<String>> {
        let list = self.store.snapshot().account(account).unwrap().unwrap().addresses;
        list.map(|addresses| addresses.into_iter().collect())
    }

    fn breaches(&self) -> Vec<String> {
        self.store
            .check()
            .unwrap()
            .into_iter()
            .map(|breach| format!("{} {}", breach.table, breach.what))
            .collect()
    }

    /// Repairs all that is wrong, and asserts that a check then finds nothing. Returns how many
    /// faults the repair counted as not repairable.
    fn repair(&self) -> u64 {
        let done = self
            .store
            .repair(RepairScope::Repair, None, &|_| MessageRows::default(), &mut |_| true)
            .unwrap();
        assert_eq!(self.breaches(), Vec::<String>::new());
        done.unrepaired_count
    }

    /// Returns who gets mail to an address: an account, "nobody" (550), or "later" (451).
    fn mail(&self, to: &str) -> &'static str {
        match self.directory.resolve(&address(to)) {
            Ok(Some(found)) if found.account == self.ann => "ann",
            Ok(Some(found)) if found.account == self.bob => "bob",
            Ok(None) => "nobody",
            Err(error @ Error::Corrupt { .. }) if error.is_temporary() => "later",
            other => panic!("{to}: {other:?}"),
        }
    }

    fn assert_mail(&self, wanted: &[(&str, &str)]) {
        let actual: Vec<(&str, &str)> = wanted.iter().map(|(to, _)| (*to, self.mail(to))).collect();
        assert_eq!(actual, wanted);
    }
}

/// Who gets mail if nothing is damaged.
const ALL: [(&str, &str); 8] = [
    ("ann@example.org", "ann"),
    ("ann+x@example.net", "ann"),
    ("lee@example.org", "ann"),
    ("bob@example.org", "bob"),
    ("b.o.b@example.org", "bob"),
    ("rob@shop.example", "bob"),
    ("any@shop.example", "bob"),
    ("nobody@example.org", "nobody"),
];

#[test]
fn lost_or_damaged_address_row_is_noticed_and_repaired() {
    for (key, to) in [
        ("lee@example.org", "lee+x@example.org"),
        ("b.o.b@example.org", "b.o.b@example.org"),
        ("rob@shop.example", "rob@shop.example"),
        ("@shop.example", "any@shop.example"),
        ("ann@example.org", "ann@example.org"),
    ] {
        for damaged in [None, Some(vec![99])] {
            let fixture = fixture();
            fixture.write(Table::Addresses, key.as_bytes(), damaged);
            let named = fixture.breaches();
            assert!(
                named.iter().any(|breach| breach.starts_with("addresses ") && breach.contains(key)),
                "{named:?}"
            );
            // The address is not refused as unknown.
            assert_eq!(fixture.mail(to), "later");
            assert_eq!(fixture.repair(), 0);
            fixture.assert_mail(&ALL);
        }
    }
}

#[test]
fn address_that_its_account_does_not_name_is_noticed_and_repaired() {
    let fixture = fixture();
    fixture
        .change(fixture.bob, |row| row.addresses = Some(["b.o.b@example.org".to_owned()].into()));
    let named = fixture.breaches();
    assert!(named.len() == 1 && named[0].contains("@shop.example, rob@shop.example"), "{named:?}");
    assert_eq!(fixture.repair(), 0);
    assert_eq!(
        fixture.addresses(fixture.bob).unwrap(),
        ["@shop.example", "b.o.b@example.org", "rob@shop.example"]
    );
    // An address that two accounts name is left for a person to decide.
    fixture.change(fixture.ann, |row| {
        row.addresses = Some(["lee@example.org".to_owned(), "rob@shop.example".into()].into());
    });
    let named = fixture.breaches();
    assert!(named.len() == 1 && named[0].contains("leads elsewhere"), "{named:?}");
    assert_eq!(fixture.mail("rob@shop.example"), "bob");
}

#[test]
fn repaired_account_names_its_addresses() {
    for damaged in [None, Some(vec![99])] {
        let fixture = fixture();
        fixture.write(Table::Accounts, &fixture.bob.0.to_be_bytes(), damaged);
        assert_eq!(fixture.repair(), 0);
        fixture.assert_mail(&ALL);
        assert_eq!(
            fixture.addresses(fixture.bob).unwrap(),
            ["@shop.example", "b.o.b@example.org", "rob@shop.example"]
        );
    }
}

#[test]
fn removed_addresses_and_accounts_are_not_reported_as_lost() {
    let fixture = fixture();
    fixture.directory.remove_alias(fixture.bob, &address("B.o.b@example.org")).unwrap();
    fixture.directory.remove_catch_all(fixture.bob, "shop.example").unwrap();
    assert_eq!(
        (fixture.breaches(), fixture.addresses(fixture.bob).unwrap()),
        (vec![], vec!["rob@shop.example".to_owned()])
    );
    fixture.assert_mail(&[
        ("b.o.b@example.org", "nobody"),
        ("any@shop.example", "nobody"),
        ("rob@shop.example", "bob"),
    ]);
    fixture.directory.remove(fixture.bob).unwrap();
    assert_eq!(fixture.breaches(), Vec::<String>::new());
    fixture.assert_mail(&[
        ("rob@shop.example", "nobody"),
        ("bob@example.org", "nobody"),
        ("ann@example.org", "ann"),
    ]);
    // A lost or damaged alias can be removed, too.
    for damaged in [None, Some(vec![99])] {
        fixture.write(Table::Addresses, b"lee@example.org", damaged);
        fixture.directory.remove_alias(fixture.ann, &address("lee@example.org")).unwrap();
        assert_eq!((fixture.breaches(), fixture.mail("lee@example.org")), (vec![], "nobody"));
        fixture.directory.add_alias(fixture.ann, &address("lee@example.org")).unwrap();
    }
}

/// Rows that an earlier version wrote name no aliases.
#[test]
fn account_rows_of_an_earlier_version_are_valid_and_completed_by_each_change() {
    let fixture = fixture();
    let complete =
        ["@shop.example", "b.o.b@example.org", "rob@shop.example"].map(str::to_owned).to_vec();
    let earlier = || fixture.change(fixture.bob, |row| row.addresses = None);
    earlier();
    assert_eq!((fixture.breaches(), fixture.addresses(fixture.bob)), (vec![], None));
    fixture.assert_mail(&ALL);
    fixture.directory.update(fixture.bob, |row| row.quota_emails = Some(7)).unwrap();
    assert_eq!(
        (fixture.breaches(), fixture.addresses(fixture.bob)),
        (vec![], Some(complete.clone()))
    );
    earlier();
    fixture.directory.add_alias(fixture.bob, &address("bert@example.org")).unwrap();
    assert_eq!((fixture.breaches(), fixture.addresses(fixture.bob).unwrap().len()), (vec![], 4));
    earlier();
    fixture.directory.remove_alias(fixture.bob, &address("bert@example.org")).unwrap();
    assert_eq!(
        (fixture.breaches(), fixture.addresses(fixture.bob)),
        (vec![], Some(complete.clone()))
    );
    earlier();
    let before = fixture.store.snapshot().account_state(fixture.bob).unwrap();
    assert_eq!(
        (fixture.directory.complete_address_lists(), fixture.directory.complete_address_lists()),
        (Ok(1), Ok(0))
    );
    assert_eq!((fixture.breaches(), fixture.addresses(fixture.bob)), (vec![], Some(complete)));
    assert_eq!(
        fixture.store.snapshot().account_state(fixture.bob).unwrap(),
        before,
        "clients notice nothing"
    );
}

#[test]
fn damaged_account_does_not_affect_others() {
    for damaged in [None, Some(vec![99])] {
        let fixture = fixture();
        let (text, hash) = new_token().unwrap();
        let token = crate::model::AccessToken {
            name: "t".into(),
            hash,
            created: UtcMillis(0),
            expires: None,
        };
        fixture.change(fixture.ann, |row| row.tokens.push(token));
        let unknown = token_hash("restante_x");
        let find =
            |name: &str| fixture.directory.find_account(name).map(|found| found.map(|(id, _)| id));
        assert_eq!(
            (find("nobody"), fixture.directory.account_of_token(&unknown, UtcMillis(0))),
            (Ok(None), Ok(None))
        );
        fixture.write(Table::Accounts, &fixture.bob.0.to_be_bytes(), damaged.clone());
        let later = |to| (to, "later");
        fixture.assert_mail(
            &[
                "bob@example.org",
                "b.o.b@example.org",
                "rob@shop.example",
                "any@shop.example",
                "bob+x@example.net",
            ]
            .map(later),
        );
        fixture.assert_mail(&[
            ("ann@example.org", "ann"),
            ("lee@example.net", "ann"),
            ("nobody@example.org", "nobody"),
        ]);
        assert_eq!(
            (find("ann"), find("lee@example.org")),
            (Ok(Some(fixture.ann)), Ok(Some(fixture.ann)))
        );
        assert_eq!(
            (find(&AccountId(77).to_string()), find("nobody@example.org")),
            (Ok(None), Ok(None))
        );
        assert_eq!(
            fixture.directory.account_of_token(&token_hash(&text), UtcMillis(0)),
            Ok(Some(fixture.ann))
        );
        assert_eq!(
            (fixture.directory.list().unwrap().len(), fixture.directory.is_empty()),
            (1, Ok(false))
        );
        // A name or token that may belong to the damaged account is not refused as unknown.
        let results = [find(&fixture.bob.to_string()), find("bob@example.org"), find("bob")];
        let is_corrupt = |result: &Result<_, _>| matches!(result, Err(Error::Corrupt { .. }));
        assert!(results.iter().all(is_corrupt), "{results:?}");
        assert!(matches!(
            fixture.directory.account_of_token(&unknown, UtcMillis(0)),
            Err(Error::Corrupt { .. })
        ));
        assert!(matches!(fixture.directory.identity(fixture.bob), Err(Error::Corrupt { .. })));
        // Other accounts and their addresses can be changed.
        fixture.directory.update(fixture.ann, |row| row.active = true).unwrap();
        let new = address("new@example.org");
        fixture.directory.add_alias(fixture.ann, &new).unwrap();
        fixture.directory.remove_alias(fixture.ann, &new).unwrap();
        fixture.directory.add_alias_domain("new.example", "example.org").unwrap();
        let zoe = NewAccount::at(address("zoe@example.org"));
        fixture.directory.add(&zoe).unwrap();
        fixture.repair();
        fixture.assert_mail(&ALL);
    }
}

#[test]
fn damaged_address_defers_only_mail_that_may_be_its_own() {
    for (key, later, others) in [
        (
            "ann@example.org",
            &["ann@example.org", "ann+x@example.net"][..],
            &["lee@example.org"][..],
        ),
        (
            "rob@shop.example",
            &["rob@shop.example", "rob+x@shop.example"],
            &["any@shop.example", "bob@example.org"],
        ),
        ("@shop.example", &["any@shop.example"], &["rob@shop.example", "rob+x@shop.example"]),
        ("@@example.net", &["ann@example.net", "nobody@example.net"], &["ann@example.org"]),
    ] {
        let fixture = fixture();
        fixture.write(Table::Addresses, key.as_bytes(), Some(vec![99]));
        assert!(later.iter().all(|to| fixture.mail(to) == "later"), "{key}");
        assert!(others.iter().all(|to| ["ann", "bob"].contains(&fixture.mail(to))), "{key}");
        assert_eq!(fixture.mail("nobody@example.org"), "nobody", "{key}");
        let own = fixture.directory.own_addresses(fixture.ann).unwrap();
        assert_eq!(own.has(&address("lee@example.org")), Ok(true));
        // If it cannot be told whether an address is the account's own, that is an error.
        assert!(
            later.iter().all(|to| matches!(own.has(&address(to)), Err(Error::Corrupt { .. }))),
            "{key}"
        );
        let has_catch_all =
            fixture.directory.own_addresses(fixture.bob).unwrap().has_catch_all("shop.example");
        assert_eq!(has_catch_all.is_err(), key == "@shop.example", "{key}: {has_catch_all:?}");
    }
}

#[test]
fn address_with_an_unreadable_row_can_be_added_again() {
    let fixture = fixture();
    // Bob's row does not name `b.o.b@`, so nothing tells whose that address was.
    fixture.change(fixture.bob, |row| {
        row.addresses = Some(["@shop.example".to_owned(), "rob@shop.example".into()].into());
    });
    for key in ["b.o.b@example.org", "rob@shop.example", "@@example.net"] {
        fixture.write(Table::Addresses, key.as_bytes(), Some(vec![99]));
    }
    assert!(matches!(
        fixture.directory.add_alias(fixture.ann, &address("rob@shop.example")),
        Err(Error::Corrupt { .. })
    ));
    assert_eq!(fixture.addresses_wrong_after_repair(), ["@@example.net", "b.o.b@example.org"]);
    fixture.directory.add_alias(fixture.bob, &address("b.o.b@example.org")).unwrap();
    fixture.directory.add_alias_domain("example.net", "example.org").unwrap();
    assert_eq!(fixture.breaches(), Vec::<String>::new());
    fixture.assert_mail(&ALL);
}

impl Fixture {
    /// Repairs, and returns the addresses that are still wrong.
    fn addresses_wrong_after_repair(&self) -> Vec<String> {
        self.store
            .repair(RepairScope::Repair, None, &|_| MessageRows::default(), &mut |_| true)
            .unwrap();
        // A breach has the key of its row in hex, and the key is the address.
        let left = self.store.check().unwrap().into_iter().map(|breach| {
            let bytes = (0..breach.key.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&breach.key[at..at + 2], 16));
            String::from_utf8(bytes.map(Result::unwrap).collect()).unwrap()
        });
        left.collect()
    }
}

#[test]
fn account_is_added_although_the_state_of_the_site_is_lost() {
    let fixture = fixture();
    fixture.write(Table::AccountState, &AccountId::SITE.0.to_be_bytes(), None);
    let add = |name: &str| fixture.directory.add(&NewAccount::at(address(name))).unwrap();
    let added = [add("eve@example.org"), add("fay@example.org")];
    assert_eq!(added, [AccountId(fixture.bob.0 + 1), AccountId(fixture.bob.0 + 2)]);
    assert_eq!(fixture.breaches(), Vec::<String>::new());
    assert_eq!(fixture.mail("ann@example.org"), "ann");
}

#[test]
fn damage_counts_as_logged_until_it_is_repaired() {
    let fixture = fixture();
    let reported = || fixture.directory.0.reported.lock().len();
    fixture.write(Table::Addresses, b"lee@example.org", None);
    for _ in 0..3 {
        // After a change the directory is read again, with the damage.
        fixture.directory.update(fixture.bob, |row| row.active = true).unwrap();
        assert_eq!((fixture.mail("lee@example.org"), reported()), ("later", 1));
    }
    fixture.repair();
    assert_eq!((fixture.mail("lee@example.org"), reported()), ("ann", 0));
}

/// An account's row under a key that is no account id affects only the account whose row it was.
#[test]
fn damaged_key_of_an_account_row_does_not_affect_others() {
    let fixture = fixture();
    let own = fixture.bob.0.to_be_bytes();
    fixture.change(fixture.bob, |row| row.name = "boss@example.org".into());
    let row = fixture.engine.get(Table::Accounts, &own).unwrap().unwrap();
    let before = fixture.store.snapshot().account(fixture.bob).unwrap();
    // Bob's row has moved to a key that is too long.
    let moved = [&own[..], &[9]].concat();
    fixture.write(Table::Accounts, &moved, Some(row));
    fixture.write(Table::Accounts, &own, None);
    fixture.assert_mail(&[
        ("ann@example.org", "ann"),
        ("ann+x@example.net", "ann"),
        ("nobody@example.org", "nobody"),
        ("bob@example.org", "later"),
        ("any@shop.example", "later"),
    ]);
    let found = |name: &str| fixture.directory.find_account(name).map(|found| found.map(|f| f.0));
    assert_eq!(found("ann"), Ok(Some(fixture.ann)));
    // The name of an unknown account may be in the row that has no place.
    assert!(matches!(found("bob"), Err(Error::Corrupt { .. })));
    assert_eq!(fixture.store.snapshot().account_ids().unwrap(), [fixture.ann]);
    // A repair will bring the name back, so no other account may get it as an address.
    let taken = fixture.directory.add_alias(fixture.ann, &address("boss@example.org"));
    assert!(matches!(taken, Err(Error::Conflict(_))), "{taken:?}");
    let other = address("new@example.org");
    fixture.directory.add_alias(fixture.ann, &other).unwrap();
    fixture.directory.remove_alias(fixture.ann, &other).unwrap();
    let named = fixture.breaches();
    assert!(named.iter().any(|breach| breach.starts_with("accounts the key")), "{named:?}");
    // A repair puts the row back to where the addresses say, and nothing of it is lost.
    assert_eq!(fixture.repair(), 0);
    assert_eq!(fixture.store.snapshot().account(fixture.bob).unwrap(), before);
    assert_eq!(fixture.engine.get(Table::Accounts, &moved).unwrap(), None);
    *fixture.directory.0.cache.write() = None;
    fixture.assert_mail(&ALL);
    assert_eq!(found("boss@example.org"), Ok(Some(fixture.bob)));
}

#[test]
fn account_row_under_a_damaged_key_is_deleted_only_if_it_is_of_no_use() {
    let fixture = fixture();
    let own = fixture.bob.0.to_be_bytes();
    let row = fixture.engine.get(Table::Accounts, &own).unwrap().unwrap();
    let stranger = AccountRow::new("zoe", address("zoe@example.org"), UtcMillis(0));
    // A copy, bytes that are no row, and the row of an account that nothing else knows.
    for (key, value) in [
        (&[0, 0, 0, 9, 1][..], row),
        (&[0, 0][..], vec![99]),
        (&[7; 9][..], crate::store::row::Row::encode(&stranger)),
    ] {
        fixture.write(Table::Accounts, key, Some(value));
    }
    assert_eq!(fixture.breaches().len(), 3);
    fixture
        .store
        .repair(RepairScope::Repair, None, &|_| MessageRows::default(), &mut |_| true)
        .unwrap();
    *fixture.directory.0.cache.write() = None;
    let left = fixture.breaches();
    assert!(left.len() == 1 && left[0].contains("zoe"), "{left:?}");
    fixture.assert_mail(&ALL);
}
