//! Tests to which account an address leads.

use super::*;

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
