//! Rows of accounts and addresses that are lost or damaged: noticed, made again, and nobody else's
//! trouble.

use super::*;
use crate::store::engine::watched::CountingEngine;

struct Bed {
    engine: Arc<MemoryEngine>,
    store: Store,
    directory: Directory,
    ann: AccountId,
    bob: AccountId,
}

/// Ann with an alias, Bob with an alias and a catch-all, and a domain that stands for theirs.
fn bed() -> Bed {
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
    let bed = Bed { engine, store, directory, ann, bob };
    assert_eq!(bed.named(), Vec::<String>::new());
    bed
}

fn open(engine: Arc<MemoryEngine>) -> Store {
    Store::open_engine(
        engine,
        &Options::small(),
        Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000))),
    )
    .unwrap()
}

impl Bed {
    /// Writes a row behind the store's back; the directory reads all anew.
    fn write(&self, table: Table, key: &[u8], value: Option<Vec<u8>>) {
        let puts = vec![Put { table, key: key.to_vec(), value }];
        self.engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
        *self.directory.0.known.write() = None;
    }

    fn change(&self, account: AccountId, edit: impl FnOnce(&mut AccountRow)) {
        let mut row = self.store.snapshot().account(account).unwrap().unwrap();
        edit(&mut row);
        let done = self.store.commit(account, |txn| {
            txn.set_account(&row);
            Ok(())
        });
        done.unwrap().1.wait_blocking().unwrap();
    }

    fn addresses(&self, account: AccountId) -> Option<Vec<String>> {
        let named = self.store.snapshot().account(account).unwrap().unwrap().addresses;
        named.map(|named| named.into_iter().collect())
    }

    fn named(&self) -> Vec<String> {
        self.store
            .check()
            .unwrap()
            .into_iter()
            .map(|breach| format!("{} {}", breach.table, breach.what))
            .collect()
    }

    fn repair(&self) -> u64 {
        let done = self
            .store
            .repair(RepairScope::Repair, None, &|_| MessageRows::default(), &mut |_| true)
            .unwrap();
        assert_eq!(self.named(), Vec::<String>::new());
        done.left_count
    }

    /// Where mail for an address goes: to an account, back (550), or nowhere yet (451).
    fn mail(&self, to: &str) -> &'static str {
        match self.directory.resolve(&address(to)) {
            Ok(Some(found)) if found.account == self.ann => "ann",
            Ok(Some(found)) if found.account == self.bob => "bob",
            Ok(None) => "nobody",
            Err(error @ Error::Corrupt { .. }) if error.is_temporary() => "later",
            other => panic!("{to}: {other:?}"),
        }
    }

    fn mails(&self, wanted: &[(&str, &str)]) {
        let said: Vec<(&str, &str)> = wanted.iter().map(|(to, _)| (*to, self.mail(to))).collect();
        assert_eq!(said, wanted);
    }
}

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
fn a_lost_alias_or_catch_all_is_noticed_and_made_again() {
    for (key, to) in [
        ("lee@example.org", "lee+x@example.org"),
        ("b.o.b@example.org", "b.o.b@example.org"),
        ("rob@shop.example", "rob@shop.example"),
        ("@shop.example", "any@shop.example"),
        ("ann@example.org", "ann@example.org"),
    ] {
        for damaged in [None, Some(vec![99])] {
            let bed = bed();
            bed.write(Table::Addresses, key.as_bytes(), damaged);
            let named = bed.named();
            assert!(
                named.iter().any(|said| said.starts_with("addresses ") && said.contains(key)),
                "{named:?}"
            );
            // Nobody is told that there is no such address.
            assert_eq!(bed.mail(to), "later");
            assert_eq!(bed.repair(), 0);
            bed.mails(&ALL);
        }
    }
}

#[test]
fn an_address_that_its_account_does_not_name_is_noticed_and_named() {
    let bed = bed();
    bed.change(bed.bob, |row| row.addresses = Some(["b.o.b@example.org".to_owned()].into()));
    let named = bed.named();
    assert!(named.len() == 1 && named[0].contains("@shop.example, rob@shop.example"), "{named:?}");
    assert_eq!(bed.repair(), 0);
    assert_eq!(
        bed.addresses(bed.bob).unwrap(),
        ["@shop.example", "b.o.b@example.org", "rob@shop.example"]
    );
    // What two accounts name is for people to decide.
    bed.change(bed.ann, |row| {
        row.addresses = Some(["lee@example.org".to_owned(), "rob@shop.example".into()].into())
    });
    let named = bed.named();
    assert!(named.len() == 1 && named[0].contains("leads elsewhere"), "{named:?}");
    assert_eq!(bed.mail("rob@shop.example"), "bob");
}

#[test]
fn a_lost_account_names_its_addresses_when_it_is_back() {
    for damaged in [None, Some(vec![99])] {
        let bed = bed();
        bed.write(Table::Accounts, &bed.bob.0.to_be_bytes(), damaged);
        assert_eq!(bed.repair(), 0);
        bed.mails(&ALL);
        assert_eq!(
            bed.addresses(bed.bob).unwrap(),
            ["@shop.example", "b.o.b@example.org", "rob@shop.example"]
        );
    }
}

#[test]
fn what_is_removed_is_not_missed() {
    let bed = bed();
    bed.directory.remove_alias(bed.bob, &address("B.o.b@example.org")).unwrap();
    bed.directory.remove_catch_all(bed.bob, "shop.example").unwrap();
    assert_eq!(
        (bed.named(), bed.addresses(bed.bob).unwrap()),
        (vec![], vec!["rob@shop.example".to_owned()])
    );
    bed.mails(&[
        ("b.o.b@example.org", "nobody"),
        ("any@shop.example", "nobody"),
        ("rob@shop.example", "bob"),
    ]);
    bed.directory.remove(bed.bob).unwrap();
    assert_eq!(bed.named(), Vec::<String>::new());
    bed.mails(&[
        ("rob@shop.example", "nobody"),
        ("bob@example.org", "nobody"),
        ("ann@example.org", "ann"),
    ]);
    // A lost or damaged alias can be taken away, too.
    for damaged in [None, Some(vec![99])] {
        bed.write(Table::Addresses, b"lee@example.org", damaged);
        bed.directory.remove_alias(bed.ann, &address("lee@example.org")).unwrap();
        assert_eq!((bed.named(), bed.mail("lee@example.org")), (vec![], "nobody"));
        bed.directory.add_alias(bed.ann, &address("lee@example.org")).unwrap();
    }
}

/// Rows that an earlier version wrote name no aliases.
#[test]
fn of_earlier_rows_nothing_is_missed_and_each_change_completes_one() {
    let bed = bed();
    let complete =
        ["@shop.example", "b.o.b@example.org", "rob@shop.example"].map(str::to_owned).to_vec();
    let earlier = || bed.change(bed.bob, |row| row.addresses = None);
    earlier();
    assert_eq!((bed.named(), bed.addresses(bed.bob)), (vec![], None));
    bed.mails(&ALL);
    bed.directory.update(bed.bob, |row| row.quota_emails = Some(7)).unwrap();
    assert_eq!((bed.named(), bed.addresses(bed.bob)), (vec![], Some(complete.clone())));
    earlier();
    bed.directory.add_alias(bed.bob, &address("bert@example.org")).unwrap();
    assert_eq!((bed.named(), bed.addresses(bed.bob).unwrap().len()), (vec![], 4));
    earlier();
    bed.directory.remove_alias(bed.bob, &address("bert@example.org")).unwrap();
    assert_eq!((bed.named(), bed.addresses(bed.bob)), (vec![], Some(complete.clone())));
    earlier();
    let before = bed.store.snapshot().account_state(bed.bob).unwrap();
    assert_eq!((bed.directory.name_addresses(), bed.directory.name_addresses()), (Ok(1), Ok(0)));
    assert_eq!((bed.named(), bed.addresses(bed.bob)), (vec![], Some(complete)));
    assert_eq!(
        bed.store.snapshot().account_state(bed.bob).unwrap(),
        before,
        "clients notice nothing"
    );
}

#[test]
fn one_damaged_account_is_no_other_ones_trouble() {
    for damaged in [None, Some(vec![99])] {
        let bed = bed();
        let (text, hash) = new_token().unwrap();
        let token = crate::model::AccessToken {
            name: "t".into(),
            hash,
            created: UtcMillis(0),
            expires: None,
        };
        bed.change(bed.ann, |row| row.tokens.push(token));
        let unknown = token_hash("restante_x");
        let find =
            |name: &str| bed.directory.find_account(name).map(|found| found.map(|(id, _)| id));
        assert_eq!(
            (find("nobody"), bed.directory.account_of_token(&unknown, UtcMillis(0))),
            (Ok(None), Ok(None))
        );
        bed.write(Table::Accounts, &bed.bob.0.to_be_bytes(), damaged.clone());
        let later = |to| (to, "later");
        bed.mails(
            &[
                "bob@example.org",
                "b.o.b@example.org",
                "rob@shop.example",
                "any@shop.example",
                "bob+x@example.net",
            ]
            .map(later),
        );
        bed.mails(&[
            ("ann@example.org", "ann"),
            ("lee@example.net", "ann"),
            ("nobody@example.org", "nobody"),
        ]);
        assert_eq!((find("ann"), find("lee@example.org")), (Ok(Some(bed.ann)), Ok(Some(bed.ann))));
        assert_eq!(
            (find(&AccountId(77).to_string()), find("nobody@example.org")),
            (Ok(None), Ok(None))
        );
        assert_eq!(
            bed.directory.account_of_token(&token_hash(&text), UtcMillis(0)),
            Ok(Some(bed.ann))
        );
        assert_eq!((bed.directory.list().unwrap().len(), bed.directory.is_empty()), (1, Ok(false)));
        // Whatever may be its name or its token is not called wrong.
        let told = [find(&bed.bob.to_string()), find("bob@example.org"), find("bob")];
        assert!(told.iter().all(|told| matches!(told, Err(Error::Corrupt { .. }))), "{told:?}");
        assert!(matches!(
            bed.directory.account_of_token(&unknown, UtcMillis(0)),
            Err(Error::Corrupt { .. })
        ));
        assert!(matches!(bed.directory.identity(bed.bob), Err(Error::Corrupt { .. })));
        bed.directory.update(bed.ann, |row| row.active = true).unwrap();
        bed.repair();
        bed.mails(&ALL);
    }
}

#[test]
fn one_damaged_address_puts_off_what_may_be_its_own_alone() {
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
        let bed = bed();
        bed.write(Table::Addresses, key.as_bytes(), Some(vec![99]));
        assert!(later.iter().all(|to| bed.mail(to) == "later"), "{key}");
        assert!(others.iter().all(|to| ["ann", "bob"].contains(&bed.mail(to))), "{key}");
        assert_eq!(bed.mail("nobody@example.org"), "nobody", "{key}");
        let own = bed.directory.own_addresses(bed.ann).unwrap();
        assert_eq!(own.has(&address("lee@example.org")), Ok(true));
        // Of what cannot be told nobody says that it is not the account's.
        assert!(
            later.iter().all(|to| matches!(own.has(&address(to)), Err(Error::Corrupt { .. }))),
            "{key}"
        );
        let whole = bed.directory.own_addresses(bed.bob).unwrap().has_domain("shop.example");
        assert_eq!(whole.is_err(), key == "@shop.example", "{key}: {whole:?}");
    }
}

#[test]
fn an_address_that_cannot_be_read_can_be_given_again() {
    let bed = bed();
    // Of an account that an earlier version wrote: nothing tells whose it was.
    bed.change(bed.bob, |row| {
        row.addresses = Some(["@shop.example".to_owned(), "rob@shop.example".into()].into())
    });
    for key in ["b.o.b@example.org", "rob@shop.example", "@@example.net"] {
        bed.write(Table::Addresses, key.as_bytes(), Some(vec![99]));
    }
    assert!(matches!(
        bed.directory.add_alias(bed.ann, &address("rob@shop.example")),
        Err(Error::Corrupt { .. })
    ));
    assert_eq!(bed.repair_leaves(), ["@@example.net", "b.o.b@example.org"]);
    bed.directory.add_alias(bed.bob, &address("b.o.b@example.org")).unwrap();
    bed.directory.add_alias_domain("example.net", "example.org").unwrap();
    assert_eq!(bed.named(), Vec::<String>::new());
    bed.mails(&ALL);
}

impl Bed {
    /// The addresses that are wrong after a repair.
    fn repair_leaves(&self) -> Vec<String> {
        self.store
            .repair(RepairScope::Repair, None, &|_| MessageRows::default(), &mut |_| true)
            .unwrap();
        let left = self.store.check().unwrap().into_iter().map(|breach| {
            let octets = (0..breach.key.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&breach.key[at..at + 2], 16));
            String::from_utf8(octets.map(Result::unwrap).collect()).unwrap()
        });
        left.collect()
    }
}

#[test]
fn damage_is_reported_once_until_it_is_mended() {
    let bed = bed();
    let reported = || bed.directory.0.reported.lock().len();
    bed.write(Table::Addresses, b"lee@example.org", None);
    for _ in 0..3 {
        bed.directory.update(bed.bob, |row| row.active = true).unwrap();
        assert_eq!((bed.mail("lee@example.org"), reported()), ("later", 1));
    }
    bed.repair();
    assert_eq!((bed.mail("lee@example.org"), reported()), ("ann", 0));
}

/// A check and a repair read the table of addresses a fixed number of times, however many accounts
/// there are.
#[test]
fn addresses_are_compared_in_one_walk() {
    let rows = |accounts: usize| {
        let engine = Arc::new(CountingEngine::default());
        let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
        let store = Store::open_engine(engine.clone(), &Options::small(), clock).unwrap();
        let directory =
            Directory::new(store.clone(), Settings { all_mailboxes: false, ..Settings::default() });
        for n in 0..accounts {
            let aliases = vec![address(&format!("b{n}@example.org"))];
            directory
                .add(&NewAccount {
                    aliases,
                    ..NewAccount::at(address(&format!("a{n}@example.org")))
                })
                .unwrap();
        }
        engine.read();
        assert_eq!(store.check().unwrap(), []);
        engine.read()
    };
    let (few, many) = (rows(4), rows(32));
    assert!(many < few * 10, "{few} rows, then {many}");
}
