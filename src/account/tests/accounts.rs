//! Tests of adding, finding and removing accounts.

use super::*;
use crate::store::engine::fault::FaultyEngine;

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
