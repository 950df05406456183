//! Tests of passwords, and of the wait after failed logins.

use super::*;

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
