//! Tests of the directory: addresses, accounts and their names, logins, and repairs of its rows.

use super::*;
use crate::model::clock::{Clock as _, FixedClock};
use crate::model::{MessageRows, UtcMillis};
use crate::store::Options;
use crate::store::engine::fault::FaultyEngine;
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine as _, Put, Table};
use crate::store::repair::RepairScope;

mod damage;

fn directory(settings: Settings) -> Directory {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    Directory::new(
        Store::open_engine(Arc::new(MemoryEngine::new()), &Options::small(), clock).unwrap(),
        settings,
    )
}

fn address(text: &str) -> Address {
    Address::parse(text).unwrap()
}

/// The account and the detail to which an address resolves.
fn resolve(directory: &Directory, text: &str) -> Option<(AccountId, Option<String>)> {
    directory.resolve(&address(text)).unwrap().map(|target| (target.account, target.detail))
}

#[test]
fn address_resolves_by_itself_or_without_its_detail_or_by_a_catch_all() {
    let directory = directory(Settings::default());
    let ann = directory.add(&NewAccount::at(address("Ann@Example.org"))).unwrap();
    let bob = directory
        .add(&NewAccount {
            aliases: vec![address("b.o.b@example.org")],
            ..NewAccount::at(address("bob@example.org"))
        })
        .unwrap();
    directory.add_alias(ann, &address("ann+exact@example.org")).unwrap();
    directory.add_catch_all(bob, "Shop.example").unwrap();
    directory.add_alias_domain("example.net", "example.org").unwrap();
    for (text, wanted) in [
        ("ann@example.org", Some((ann, None))),
        ("ANN@EXAMPLE.ORG", Some((ann, None))),
        ("ann+Lists.rust@example.org", Some((ann, Some("lists.rust".to_owned())))),
        ("ann+exact@example.org", Some((ann, None))),
        ("b.o.b@example.org", Some((bob, None))),
        ("bob@example.net", Some((bob, None))),
        ("anything@shop.example", Some((bob, None))),
        ("nobody@example.org", None),
        ("ann@example.com", None),
    ] {
        assert_eq!(resolve(&directory, text), wanted, "{text}");
    }
    assert_eq!(directory.identity(bob).unwrap().addresses[0], address("bob@example.org"));
    assert!(directory.identity(ann).unwrap().is_me(&address("Ann+x@example.net")));
    assert_eq!(directory.find_account("bob@example.org").unwrap().unwrap().0, bob);
}

#[test]
fn address_that_is_taken_cannot_be_given_again() {
    let directory = directory(Settings::default());
    directory.add(&NewAccount::at(address("ann@example.org"))).unwrap();
    let bob = directory.add(&NewAccount::at(address("bob@example.org"))).unwrap();
    assert!(matches!(
        directory.add(&NewAccount::at(address("ann@example.org"))),
        Err(Error::Conflict(_))
    ));
    assert!(matches!(
        directory.add_alias(bob, &address("ann@example.org")),
        Err(Error::Conflict(_))
    ));
}

#[test]
fn own_addresses_are_those_that_resolve_to_the_account() {
    let directory = directory(Settings::default());
    let ann = directory.add(&NewAccount::at(address("ann@example.org"))).unwrap();
    let bob = directory.add(&NewAccount::at(address("bob@example.org"))).unwrap();
    directory.add_catch_all(ann, "shop.example").unwrap();
    directory.add_alias(bob, &address("boss@shop.example")).unwrap();
    directory.add_alias(bob, &address("ann+bob@example.org")).unwrap();
    directory.add_alias_domain("example.net", "example.org").unwrap();
    let own = directory.own_addresses(ann).unwrap();
    for (text, is_own) in [
        ("Ann@EXAMPLE.org", true),
        ("ann+x@example.net", true),
        ("any@Shop.example", true),
        ("boss@shop.example", false),
        ("boss+x@shop.example", false),
        ("ann+bob@example.net", false),
        ("bob@example.org", false),
        ("nobody@example.org", false),
        ("ann@sub.example.org", false),
    ] {
        assert_eq!(own.has(&address(text)), Ok(is_own), "{text}");
    }
}

#[test]
fn own_addresses_keep_their_case_if_it_counts() {
    let directory = directory(Settings { case_sensitive: true, ..Settings::default() });
    let ann = directory.add(&NewAccount::at(address("Ann@Example.org"))).unwrap();
    // Names are compared without case, so the second account cannot have its address as its name.
    let bob = NewAccount { name: Some("bob".into()), ..NewAccount::at(address("ann@example.org")) };
    let bob = directory.add(&bob).unwrap();
    directory.add_alias(ann, &address("\"Odd one\"@example.org")).unwrap();
    for (account, wanted) in
        [(ann, &["Ann@example.org", "\"Odd one\"@example.org"][..]), (bob, &["ann@example.org"])]
    {
        let (me, own) =
            (directory.identity(account).unwrap(), directory.own_addresses(account).unwrap());
        assert_eq!(me.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), wanted);
        assert!(me.addresses.iter().all(|address| own.has(address).unwrap() && me.is_me(address)));
    }
    assert_eq!(directory.own_addresses(ann).unwrap().has(&address("ann@example.org")), Ok(false));
}

#[test]
fn postmaster_without_a_domain_resolves_as_the_settings_say() {
    let settings = Settings { postmaster: Some(address("ann@example.org")), ..Settings::default() };
    let directory = directory(settings);
    let postmaster = Address::from_parts("Postmaster", "");
    assert_eq!(directory.resolve(&postmaster).unwrap(), None);
    let ann = directory.add(&NewAccount::at(address("ann@example.org"))).unwrap();
    assert_eq!(directory.resolve(&postmaster).unwrap().map(|found| found.account), Some(ann));
}

#[test]
fn removed_account_loses_its_addresses_and_its_id_is_not_reused() {
    let directory = directory(Settings { standard_mailboxes: false, ..Settings::default() });
    let ann = directory.add(&NewAccount::at(address("ann@example.org"))).unwrap();
    // Only the Inbox, as the settings say.
    assert_eq!(directory.0.store.snapshot().mailboxes(ann).unwrap().len(), 1);
    // An inactive account keeps its addresses.
    directory.update(ann, |row| row.active = false).unwrap();
    assert!(!directory.resolve(&address("ann@example.org")).unwrap().unwrap().row.active);
    directory.remove(ann).unwrap();
    assert_eq!(resolve(&directory, "ann@example.org"), None);
    assert!(matches!(directory.remove(ann), Err(Error::NotFound(_))));
    assert!(directory.add(&NewAccount::at(address("ann@example.org"))).unwrap() > ann);
}

#[test]
fn passwords_are_stored_as_phc_strings() {
    let hash = hash_password("correct horse").unwrap();
    assert!(hash.starts_with("$argon2id$"));
    assert!(verify_password("correct horse", &hash));
    assert!(!verify_password("wrong horse", &hash));
    assert!(!verify_password("correct horse", "junk"));
    assert!(hash_password("").is_err());
}

#[test]
fn alias_domain_has_no_addresses_and_no_aliases_of_its_own() {
    let directory = directory(Settings::default());
    let ann = directory.add(&NewAccount::at(address("ann@example.org"))).unwrap();
    directory.add_alias(ann, &address("ann@busy.example")).unwrap();
    directory.add_alias_domain("BÜCHER.example", "Example.org").unwrap();
    let conflict = |result: Result<(), Error>| match result {
        Err(Error::Conflict(why)) => why,
        other => panic!("{other:?}"),
    };
    for (alias, real, why) in [
        ("bücher.example", "example.com", "is taken"),
        ("example.org", "example.com", "stands for example.org"),
        ("x.example", "bücher.example", "stands for another"),
        ("busy.example", "example.org", "ann@busy.example"),
        ("x.example", "X.example", "itself"),
    ] {
        let error = conflict(directory.add_alias_domain(alias, real));
        assert!(error.contains(why), "{alias} {real}: {error}");
    }
    assert!(
        conflict(directory.add_alias(ann, &address("b@bücher.example")))
            .contains("give the address there")
    );
    assert!(
        conflict(directory.add_catch_all(ann, "bücher.example")).contains("give the address there")
    );
    assert!(directory.add(&NewAccount::at(address("bob@bücher.example"))).is_err());
    assert_eq!(
        directory.alias_domains().unwrap(),
        [("xn--bcher-kva.example".into(), "example.org".into())]
    );
    assert_eq!(resolve(&directory, "ann@bücher.example"), Some((ann, None)));
    directory.remove_alias_domain("Bücher.example").unwrap();
    assert_eq!(resolve(&directory, "ann@bücher.example"), None);
}

#[test]
fn account_is_found_only_by_an_exact_name_or_address() {
    let directory = directory(Settings::default());
    let ann = NewAccount { name: Some("ann".into()), ..NewAccount::at(address("ann@example.org")) };
    let ann = directory.add(&ann).unwrap();
    let bob = directory.add(&NewAccount::at(address("bob@example.org"))).unwrap();
    directory.add_alias(bob, &address("b.o.b@example.org")).unwrap();
    directory.add_catch_all(bob, "shop.example").unwrap();
    directory.add_catch_all(bob, "example.org").unwrap();
    directory.add_alias_domain("example.net", "example.org").unwrap();
    for (name, wanted) in [
        ("ANN", Some(ann)),
        ("Ann@Example.org", Some(ann)),
        ("ann@example.net", Some(ann)),
        ("B.O.B@example.net", Some(bob)),
        ("ann+lists@example.org", None),
        ("old@shop.example", None),
        ("an@example.org", None),
        ("an@example.net", None),
        ("@shop.example", None),
        ("@@example.net", None),
    ] {
        assert_eq!(directory.find_account(name).unwrap().map(|(id, _)| id), wanted, "{name}");
    }
    // Mail to this address is for bob, but it does not name bob's account.
    assert_eq!(resolve(&directory, "old@shop.example"), Some((bob, None)));
}

#[test]
fn address_can_be_removed_only_from_its_own_account() {
    let directory = directory(Settings::default());
    let ann = directory.add(&NewAccount::at(address("ann@example.org"))).unwrap();
    let bob = directory.add(&NewAccount::at(address("bob@example.org"))).unwrap();
    directory.add_alias(bob, &address("b.o.b@example.org")).unwrap();
    directory.add_catch_all(bob, "Shop.example").unwrap();
    let conflict = |result: Result<(), Error>, why: &str| match result {
        Err(Error::Conflict(error)) => assert!(error.contains(why), "{error}"),
        other => panic!("{other:?}"),
    };
    conflict(directory.remove_alias(ann, &address("B.o.b@example.org")), "another account");
    conflict(directory.remove_alias(ann, &address("bob@example.org")), "another account");
    conflict(directory.remove_alias(bob, &address("bob@example.org")), "primary");
    conflict(directory.remove_catch_all(ann, "shop.example"), "another account");
    assert!(matches!(
        directory.remove_alias(ann, &address("x@shop.example")),
        Err(Error::NotFound(_))
    ));
    assert!(matches!(directory.remove_catch_all(ann, "example.org"), Err(Error::NotFound(_))));
    assert_eq!(resolve(&directory, "b.o.b@example.org"), Some((bob, None)));
    assert_eq!(directory.catch_alls(bob).unwrap(), ["@shop.example"]);
    assert!(directory.catch_alls(ann).unwrap().is_empty());
    directory.remove_alias(bob, &address("B.o.b@example.org")).unwrap();
    directory.remove_catch_all(bob, "shop.EXAMPLE").unwrap();
    assert_eq!(resolve(&directory, "b.o.b@example.org"), None);
    assert_eq!(resolve(&directory, "x@shop.example"), None);
    assert!(directory.catch_alls(bob).unwrap().is_empty());
}

#[test]
fn failed_login_costs_the_same_work_for_every_account() {
    let directory = directory(Settings::default());
    let add = |name: &str, passwords: usize, active: bool| {
        let account =
            directory.add(&NewAccount::at(address(&format!("{name}@example.org")))).unwrap();
        let hashed = |n: usize| (n.to_string(), hash_password(&format!("{name} {n}")).unwrap());
        let change = |row: &mut AccountRow| {
            row.passwords = (0..passwords).map(hashed).collect();
            row.active = active;
        };
        directory.update(account, change).unwrap();
    };
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let logins = Logins::new(directory.clone(), clock).unwrap();
    let work = |name: &str, password: &str| {
        let before = logins.hashes();
        assert_eq!(logins.verify(name, password).unwrap(), None, "{name}");
        logins.hashes() - before
    };
    assert_eq!(work("nobody@example.org", "wrong"), 1);
    add("none", 0, true);
    add("one", 1, true);
    assert_eq!((work("nobody@example.org", "wrong"), work("none@example.org", "wrong")), (1, 1));
    add("many", 16, true);
    add("inactive", 3, false);
    for name in ["nobody", "none", "one", "many", "inactive"] {
        assert_eq!(work(&format!("{name}@example.org"), "wrong"), 16, "{name}");
    }
    // The hash that replaces a missing password logs nobody in.
    assert_eq!(work("none@example.org", "nobody's"), 16);
    assert_eq!(work("no address", "nobody's"), 16);
    // An inactive account gets no new mail, but its owner can log in.
    for (name, password) in [("one", "one 0"), ("many", "many 15"), ("inactive", "inactive 1")] {
        assert!(
            logins.verify(&format!("{name}@example.org"), password).unwrap().is_some(),
            "{password}"
        );
    }
}

#[test]
fn owner_can_log_in_from_a_known_source_while_strangers_guess() {
    let directory = directory(Settings::default());
    for name in ["ann", "bob"] {
        let account =
            directory.add(&NewAccount::at(address(&format!("{name}@example.org")))).unwrap();
        let hash = hash_password(name).unwrap();
        directory
            .update(account, |row| row.passwords = vec![("phone".into(), hash.clone())])
            .unwrap();
    }
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let logins = Logins::new(directory, clock.clone()).unwrap();
    let from = |n: u32| LoginSource::from(std::net::IpAddr::from(n.to_be_bytes()));
    let (home, cafe) = (from(0xc000_0201), from(0xc000_0202));
    let log_in = |source: LoginSource, password: &str| {
        let attempt = logins.attempt(source, "ann@example.org")?;
        let is_right = logins.verify("ann@example.org", password).unwrap().is_some();
        if is_right {
            attempt.cancel_charge();
        }
        Ok::<bool, TooManyFailures>(is_right)
    };
    assert_eq!(log_in(home, "ann"), Ok(true));
    // Many wrong guesses from many sources.
    let guesses = (0..2000)
        .filter(|n| logins.attempt(from(0x0a00_0000 + n), "ANN@example.org").is_ok())
        .count();
    assert_eq!(guesses, 100, "guesses from many addresses are bounded");
    assert!(log_in(from(0x0a00_ffff), "ann").is_err(), "an address from which nobody logged in");
    assert_eq!(log_in(home, "ann"), Ok(true));
    assert!(logins.attempt(cafe, "bob@example.org").is_ok(), "other accounts are not held up");
    // Guesses at another account from the owner's source do not hold the owner up either.
    while logins.attempt(home, "bob@example.org").is_ok() {}
    assert_eq!(log_in(home, "ann"), Ok(true));
    // From the owner's source there are no more guesses than from any other.
    let guesses = (0..100).filter(|_| logins.attempt(home, "ann@example.org").is_ok()).count();
    assert_eq!(guesses, 20, "`SOURCE_FAILURES`");
    assert!(log_in(home, "ann").is_err());
    clock.advance(std::time::Duration::from_secs(15));
    assert_eq!(log_in(home, "ann"), Ok(true));
}

#[test]
fn setting_the_clock_does_not_change_the_wait_after_failed_logins() {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let store = Store::open_engine(Arc::new(MemoryEngine::new()), &Options::small(), clock.clone())
        .unwrap();
    let logins = Logins::new(Directory::new(store, Settings::default()), clock.clone()).unwrap();
    let hours = |hours: u64| std::time::Duration::from_secs(hours * 3600);
    let eve = LoginSource::from("192.0.2.9".parse::<std::net::IpAddr>().unwrap());
    while logins.attempt(eve, "ann@example.org").is_ok() {}
    for set in [clock.now().before(hours(2)), clock.now().after(hours(87_600))] {
        clock.set(set);
        assert!(logins.attempt(eve, "ann@example.org").is_err(), "no time has passed");
        clock.advance(std::time::Duration::from_secs(15));
        drop(logins.attempt(eve, "ann@example.org").unwrap());
    }
}

/// Nine accounts that want the same name or address are added at once. One gets it, and nothing is
/// left of the others.
#[test]
fn of_several_accounts_added_at_once_one_gets_the_name() {
    let directory = directory(Settings::default());
    let add = |n: usize| {
        // By name, by address, and by an alias that is another's name.
        let new = match n % 3 {
            0 => NewAccount {
                name: Some("team@example.org".into()),
                ..NewAccount::at(address(&format!("a{n}@example.net")))
            },
            1 => NewAccount {
                name: Some(format!("n{n}")),
                ..NewAccount::at(address("Team@example.org"))
            },
            _ => NewAccount {
                aliases: vec![address("team@example.org")],
                ..NewAccount::at(address(&format!("b{n}@example.net")))
            },
        };
        directory.add(&new)
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..9).map(|n| scope.spawn(move || add(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let ids: Vec<AccountId> =
        results.iter().filter_map(|result| result.as_ref().ok().copied()).collect();
    assert_eq!(ids.len(), 1, "{results:?}");
    let is_expected = |result: &Result<_, _>| matches!(result, Ok(_) | Err(Error::Conflict(_)));
    assert!(results.iter().all(is_expected), "{results:?}");
    assert_eq!(directory.list().unwrap().len(), 1);
    assert_eq!(directory.find_account("team@example.org").unwrap().unwrap().0, ids[0]);
    assert_eq!(directory.0.store.check().unwrap(), []);
}

/// The commit that assigns the id fails, then the one that writes the rows; a third try succeeds.
#[test]
fn account_that_could_not_be_created_leaves_nothing() {
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let store = Store::open_engine(engine.clone(), &Options::small(), clock).unwrap();
    let directory = Directory::new(store.clone(), Settings::default());
    let new = NewAccount {
        aliases: vec![address("b@example.org")],
        ..NewAccount::at(address("ann@example.org"))
    };
    for after in 0..2 {
        engine.fail_after(after, Error::Full);
        assert_eq!(directory.add(&new), Err(Error::Full), "{after}");
        engine.heal();
        assert_eq!(
            (directory.list().unwrap().len(), resolve(&directory, "ann@example.org")),
            (0, None)
        );
        assert_eq!(store.check().unwrap(), []);
    }
    let ann = directory.add(&new).unwrap();
    assert_eq!(resolve(&directory, "b@example.org"), Some((ann, None)));
}

/// A name that two accounts had, one of them as address or id, could find the wrong one.
#[test]
fn name_of_an_account_is_no_name_address_or_id_of_another() {
    let directory = directory(Settings::default());
    let ann = directory.add(&NewAccount::at(address("ann@example.org"))).unwrap();
    let named = |name: &str| NewAccount {
        name: Some(name.into()),
        ..NewAccount::at(address("bob@example.org"))
    };
    let id = ann.to_string();
    directory.add_alias(ann, &address("a.b@example.org")).unwrap();
    for name in ["Ann@Example.org", "a.b@example.org", id.as_str(), " "] {
        assert!(matches!(directory.add(&named(name)), Err(Error::Conflict(_))), "{name}");
    }
    let bob = directory.add(&named("info@shop.example")).unwrap();
    assert!(matches!(
        directory.add_alias(ann, &address("Info@shop.example")),
        Err(Error::Conflict(_))
    ));
    directory.add_alias(bob, &address("info@shop.example")).unwrap();
    assert!(matches!(
        directory.update(bob, |row| row.name = "ANN@example.org".into()),
        Err(Error::Conflict(_))
    ));
    directory.update(bob, |row| row.name = "Info@Shop.example".into()).unwrap();
    directory.update(bob, |row| row.name = "carl@old.example".into()).unwrap();
    directory.add_alias(ann, &address("carl@new.example")).unwrap();
    assert!(matches!(
        directory.add_alias_domain("old.example", "new.example"),
        Err(Error::Conflict(_))
    ));
    // The same in the opposite order: the alias domain stands already.
    directory.add_alias_domain("alias.example", "real.example").unwrap();
    directory.update(bob, |row| row.name = "Carl@alias.example".into()).unwrap();
    let real = address("carl@real.example");
    assert!(matches!(directory.add_alias(ann, &real), Err(Error::Conflict(_))));
    assert!(matches!(directory.add(&NewAccount::at(real.clone())), Err(Error::Conflict(_))));
    let dan =
        NewAccount { aliases: vec![real.clone()], ..NewAccount::at(address("dan@example.org")) };
    assert!(matches!(directory.add(&dan), Err(Error::Conflict(_))));
    directory.add_alias(bob, &real).unwrap();
    assert!(matches!(
        directory.update(ann, |row| row.name = "CARL@alias.example".into()),
        Err(Error::Conflict(_))
    ));
    assert_eq!(directory.0.store.check().unwrap(), []);
}

/// A lost or damaged row of either table is noticed, and made anew from the other table.
#[test]
fn accounts_and_addresses_are_compared_both_ways_and_repaired() {
    for table in [Table::Addresses, Table::Accounts] {
        for damaged in [None, Some(vec![99])] {
            let engine = Arc::new(MemoryEngine::new());
            let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
            let store = Store::open_engine(engine.clone(), &Options::small(), clock).unwrap();
            let directory = Directory::new(store.clone(), Settings::default());
            let new = NewAccount {
                name: Some("ann".into()),
                ..NewAccount::at(address("ann@example.org"))
            };
            let ann = directory.add(&new).unwrap();
            directory.add_catch_all(ann, "shop.example").unwrap();
            assert_eq!(store.check().unwrap(), []);
            let key = if table == Table::Accounts {
                ann.0.to_be_bytes().to_vec()
            } else {
                b"ann@example.org".to_vec()
            };
            let puts = vec![Put { table, key, value: damaged.clone() }];
            engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
            let named: Vec<String> =
                store.check().unwrap().into_iter().map(|breach| breach.to_string()).collect();
            assert!(named.iter().any(|breach| breach.contains(table.name())), "{named:?}");
            store
                .repair(RepairScope::Repair, None, &|_| MessageRows::default(), &mut |_| true)
                .unwrap();
            assert_eq!(store.check().unwrap(), []);
            assert_eq!(resolve(&directory, "ann@example.org"), Some((ann, None)));
            assert_eq!(resolve(&directory, "any@shop.example"), Some((ann, None)));
            // A recovered account has its address as its name.
            let name = if table == Table::Accounts { "ann@example.org" } else { "ann" };
            assert_eq!(directory.find_account("ann@example.org").unwrap().unwrap().1.name, name);
        }
    }
}

/// The check reports the account as being removed.
#[test]
fn interrupted_removal_is_not_undone_by_a_repair() {
    let directory = directory(Settings::default());
    let ann = directory.add(&NewAccount::at(address("ann@example.org"))).unwrap();
    let store = &directory.0.store;
    let cut = store.commit(ann, |txn| {
        let row = txn.snapshot().account(ann)?.unwrap();
        txn.set_account(&AccountRow { active: false, primary: Address::from_parts("", ""), ..row });
        Ok(())
    });
    cut.unwrap().1.wait_blocking().unwrap();
    let cut = store.commit(AccountId::SITE, |txn| {
        txn.set_address("ann@example.org", None);
        Ok(())
    });
    cut.unwrap().1.wait_blocking().unwrap();
    let named = store.check().unwrap();
    assert!(named.len() == 1 && named[0].what.contains("is being removed"), "{named:?}");
    store.repair(RepairScope::Repair, None, &|_| MessageRows::default(), &mut |_| true).unwrap();
    assert_eq!((resolve(&directory, "ann@example.org"), store.check().unwrap()), (None, named));
    directory.remove(ann).unwrap();
    assert_eq!(store.check().unwrap(), []);
}

#[test]
fn password_that_is_set_can_be_proven_and_no_other() {
    let directory = directory(Settings::default());
    let add = |name: &str| {
        directory.add(&NewAccount::at(address(&format!("{name}@example.org")))).unwrap()
    };
    let (ann, old) = (add("ann"), add("old"));
    let set = |name: &str, password: Option<&str>| {
        let hash = password.map(|password| hash_password(password).unwrap());
        let keys = password.map(|password| directory.scram_keys(ann, name, password).unwrap());
        directory.update(ann, |row| row.set_password(name, hash.clone(), keys.clone())).unwrap();
    };
    set("phone", Some("one"));
    set("laptop", Some("two"));
    let hash = hash_password("three").unwrap();
    directory.update(old, |row| row.set_password("phone", Some(hash.clone()), None)).unwrap();

    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let logins = Logins::new(directory.clone(), clock).unwrap();
    let keys = logins.scram_keys("ANN@example.org").unwrap();
    // The password name "" is not used, so the keys are derived with the stored salt.
    let derived = |password| directory.scram_keys(ann, "", password).unwrap().keys;
    let (one, two) = (derived("one"), derived("two"));
    assert_eq!(keys.keys, [one.clone(), two.clone()]);
    let log_in = |keys| logins.log_in_with_scram("ann@example.org", keys).unwrap();
    let login = log_in(&two).unwrap();
    assert_eq!(login.account, ann);
    assert!(logins.is_valid(ann, &login.credential));
    assert!(logins.may_act_as(&login, "Ann@example.org").unwrap());
    assert!(!logins.may_act_as(&login, "old@example.org").unwrap());
    assert!(!logins.may_act_as(&login, "nobody@example.org").unwrap());

    // An account without keys is answered like a name that nobody has.
    for name in ["old@example.org", "nobody@example.org", "nobody"] {
        let other = logins.scram_keys(name).unwrap();
        assert_eq!((other.keys.len(), other.iterations), (0, keys.iterations), "{name}");
        assert!(other.salt.len() == keys.salt.len() && other.salt != keys.salt, "{name}");
        assert_eq!(other, logins.scram_keys(&name.to_uppercase()).unwrap(), "{name}");
        assert_eq!(logins.log_in_with_scram(name, &one).unwrap(), None, "{name}");
    }

    set("laptop", Some("four"));
    assert_eq!(log_in(&two), None);
    assert!(!logins.is_valid(ann, &login.credential));
    set("laptop", None);
    set("phone", None);
    assert_eq!(directory.find_account("ann@example.org").unwrap().unwrap().1.scram, None);
    assert_eq!(log_in(&one), None);
}

#[test]
fn salts_do_not_tell_which_names_exist() {
    let directory = directory(Settings::default());
    let set = |account, name: &str, password: &str| {
        let hash = hash_password(password).unwrap();
        let keys = directory.scram_keys(account, name, password).unwrap();
        let edit = |row: &mut AccountRow| {
            row.set_password(name, Some(hash.clone()), Some(keys.clone()));
        };
        directory.update(account, edit).unwrap();
    };
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let logins = Logins::new(directory.clone(), clock).unwrap();
    let asked = |name: &str| logins.scram_keys(name).unwrap();
    let unknown = asked("ann@example.org");
    assert!(unknown.keys.is_empty());

    let alias = address("lee@example.org");
    let new = NewAccount { aliases: vec![alias], ..NewAccount::at(address("ann@example.org")) };
    let ann = directory.add(&new).unwrap();
    directory.add_alias_domain("example.com", "example.org").unwrap();
    assert_eq!(asked("ann@example.org"), unknown, "an account without a password");
    set(ann, "phone", "one");
    let known = asked("ANN@example.org");
    assert_eq!((known.keys.len(), known.iterations), (1, unknown.iterations));
    assert_eq!(known.salt, unknown.salt, "the salt is that from before the account existed");

    // All other texts that lead to the account are answered like names that nobody has.
    let id = ann.to_string();
    let mut salts = vec![known.salt.clone()];
    for text in [&id, "lee@example.org", "ann@example.com", "lee@example.com", "nobody"] {
        let other = asked(text);
        assert!(other.keys.is_empty() && other.iterations == known.iterations, "{text}");
        assert!(!salts.contains(&other.salt), "{text} has the salt of another text");
        assert_eq!(other, asked(&text.to_ascii_uppercase()), "{text}");
        assert_eq!(logins.log_in_with_scram(text, &known.keys[0]).unwrap(), None, "{text}");
        salts.push(other.salt);
    }
    // Only ASCII letters are folded, in a name that somebody has and in one that nobody has.
    directory.add(&NewAccount::at(address("j\u{fc}rgen@example.org"))).unwrap();
    for name in ["rgen@example.org", "rgen@nowhere.example"] {
        let (small, capital) = (format!("j\u{fc}{name}"), format!("j\u{dc}{name}"));
        assert_ne!(asked(&small).salt, asked(&capital).salt, "{name}");
        assert_eq!(asked(&small), asked(&small.to_ascii_uppercase()), "{name}");
    }

    // Keys stay valid under another name of the account, and a further password gets their salt.
    let salt_of_lee = asked("lee").salt;
    directory.update(ann, |row| row.name = "lee".into()).unwrap();
    assert_eq!(asked("lee"), known);
    assert!(asked("ann@example.org").keys.is_empty());
    assert!(logins.log_in_with_scram("Lee", &known.keys[0]).unwrap().is_some());
    set(ann, "laptop", "two");
    assert_eq!((asked("lee").salt, asked("lee").keys.len()), (known.salt.clone(), 2));
    // When no earlier key is left, the salt is that of the name.
    directory.update(ann, |row| row.set_password("laptop", None, None)).unwrap();
    set(ann, "phone", "three");
    assert_ne!(known.salt, salt_of_lee);
    assert_eq!(asked("lee").salt, salt_of_lee);
}

#[test]
fn unknown_zone_of_an_account_counts_as_none() {
    let settings = Settings { zone: Some("Pacific/Chatham".into()), ..Settings::default() };
    let directory = directory(settings);
    let ann = directory.add(&NewAccount::at(address("ann@example.org"))).unwrap();
    for (own, expected) in [
        (None, "Pacific/Chatham"),
        (Some("Europe/Berlin"), "Europe/Berlin"),
        (Some("Mars/Olympus"), "Pacific/Chatham"),
    ] {
        directory.update(ann, |row| row.zone = own.map(str::to_owned)).unwrap();
        assert_eq!(directory.identity(ann).unwrap().zone.as_deref(), Some(expected), "{own:?}");
    }
}
