//! The `account` commands against a running service: accounts, aliases, catch-alls, alias domains,
//! the rights of a Unix user, and the JSON that changes print.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::bed::{PROGRAM, TestBed, feed};
use crate::mail::{Client, letter};
use crate::report_missing;
use crate::systemd::folder_mode;

#[test]
fn account_can_be_added_shown_and_removed() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account("ann@example.org", &["--alias", "a@example.org", "--zone", "Europe/Berlin"]);
    let accounts = bed.rows(&["account", "list"]);
    assert_eq!(accounts.len(), 1, "{accounts:?}");
    let shown = bed.json(&["account", "show", "a@example.org"]).to_string();
    assert!(shown.contains("ann@example.org") && shown.contains("Europe/Berlin"), "{shown}");

    // An address of another account is refused, and an unknown account is not found.
    assert!(!bed.run(&["account", "add", "a@example.org"]).status.success());
    assert_eq!(bed.run(&["account", "show", "nobody@example.org"]).status.code(), Some(67));

    bed.run_ok(&["account", "alias", "ann@example.org", "a@example.org", "--remove"]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let refused =
        client.deliver("zoe@example.net", &["a@example.org"], b"Subject: x\r\n\r\n").unwrap();
    assert_eq!(refused[0].code, 550);
    bed.run_ok(&["account", "remove", "ann@example.org", "--yes"]);
    assert!(bed.rows(&["account", "list"]).is_empty());
    bed.finish();
}

#[test]
fn catch_all_is_shown_but_names_no_account_in_commands() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account("ann@example.org", &["--alias", "a@example.org"]);
    bed.add_account("bob@example.org", &[]);
    let alias = |more: &[&str]| bed.run(&[&["account", "alias"], more].concat());
    for wrong in ["@", "@a b", "@-x", "@@example.net", "@[192.0.2.1]"] {
        assert_eq!(alias(&["bob@example.org", wrong]).status.code(), Some(64), "{wrong}");
    }
    assert!(alias(&["bob@example.org", "@Shop.example"]).status.success());
    assert_eq!(
        bed.json(&["account", "show", "bob@example.org"])["catchAlls"],
        serde_json::json!(["@shop.example"])
    );
    for words in [&["account", "show", "bob@example.org"][..], &["account", "list"]] {
        let output = String::from_utf8(bed.run_ok(words)).unwrap();
        assert!(output.contains("@shop.example"), "{words:?}: {output}");
    }

    // An address that only a catch-all or a subaddress delivers names no account.
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let mut code =
        |to: &str| client.deliver("zoe@example.net", &[to], b"Subject: x\r\n\r\n").unwrap()[0].code;
    assert_eq!((code("old@shop.example"), code("ann+lists@example.org")), (250, 250));
    for name in ["old@shop.example", "ann+lists@example.org"] {
        for words in [
            &["account", "remove", "--yes", name][..],
            &["account", "set", name, "--inactive"],
            &["account", "show", name],
            &["vacation", "set", "-a", name, "--text", "Away."],
            &["vacation", "off", "-a", name],
        ] {
            assert_eq!(bed.run(words).status.code(), Some(67), "{words:?}");
        }
    }
    assert_eq!(bed.rows(&["account", "list"]).len(), 2);

    // A command about one account removes no address of another, and no alias domain, whose row
    // has the key `@@domain`.
    bed.run_ok(&["account", "domain", "example.com", "example.org"]);
    for (address, code) in [
        ("a@example.org", 64),
        ("@shop.example", 0),
        ("@@example.com", 64),
        ("x@example.org", 67),
        ("bob@example.org", 64),
    ] {
        let done = alias(&["bob@example.org", address, "--remove"]);
        assert_eq!(done.status.code(), Some(code), "{address}: {done:?}");
    }
    assert_eq!(alias(&["ann@example.org", "@shop.example", "--remove"]).status.code(), Some(67));
    assert_eq!(
        (code("a@example.org"), code("a@example.com"), code("old@shop.example")),
        (250, 250, 550)
    );
    bed.finish();
}

#[test]
fn unix_user_can_manage_only_the_own_account() {
    if !rustix::process::getuid().is_root() {
        return report_missing("the right to become another Unix user");
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let nobody = passwd
        .lines()
        .find_map(|line| line.strip_prefix("nobody:")?.split(':').nth(1)?.parse::<u32>().ok());
    let Some(nobody) = nobody else { return report_missing("a Unix user named nobody") };
    let mut bed = TestBed::new("");
    // The configuration has the permissions of the package, and the program is in a directory that
    // every user can enter.
    let etc = bed.dir.join("etc");
    fs::create_dir(&etc).unwrap();
    let mode = u32::from_str_radix(&folder_mode("/etc/restante"), 8).unwrap();
    fs::set_permissions(&etc, fs::Permissions::from_mode(mode)).unwrap();
    let config = etc.join("restante.toml");
    fs::copy(bed.config(), &config).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
    let program = bed.dir.join("program");
    fs::copy(PROGRAM, &program).unwrap();
    bed.start();
    bed.add_account("ann@example.org", &["--unix-user", "nobody"]);
    bed.add_account("bob@example.org", &[]);
    let file = bed.dir.join("old.eml");
    fs::write(&file, letter("zoe@example.net", "ann@example.org", "old", "Kept in a file."))
        .unwrap();
    let run = |words: &[&str], input: &[u8]| {
        let mut command = Command::new(&program);
        command.uid(nobody).gid(nobody).current_dir("/").arg("--config").arg(&config).args(words);
        feed(&mut command, input)
    };
    for (words, input, code) in [
        (&["account", "show", "ann@example.org"][..], "", 0),
        (&["vacation", "set", "-a", "ann@example.org", "--text", "Away."], "", 0),
        (&["account", "password", "ann@example.org"], "secret of ann\n", 0),
        (&["mail", "list", "-a", "ann@example.org"], "", 0),
        (&["mail", "import", "-a", "ann@example.org", file.to_str().unwrap()], "", 0),
        (&["mail", "import", "-a", "bob@example.org", file.to_str().unwrap()], "", 77),
        (&["account", "show", "bob@example.org"], "", 77),
        (&["vacation", "set", "-a", "bob@example.org", "--text", "Away."], "", 77),
        (&["account", "password", "bob@example.org"], "secret of bob\n", 77),
        // Only an administrator may set a quota.
        (&["account", "set", "ann@example.org", "--quota", ""], "", 77),
        (&["account", "list"], "", 77),
        (&["check"], "", 77),
        // `deliver` without the right to do so must not bounce the mail.
        (&["deliver", "-f", "zoe@example.net", "ann@example.org"], "Subject: x\n\n", 75),
    ] {
        let done = run(words, input.as_bytes());
        assert_eq!(
            done.status.code(),
            Some(code),
            "{words:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    assert_eq!(bed.json(&["vacation", "show", "-a", "ann@example.org"])["textBody"], "Away.");
    assert_eq!(bed.json(&["vacation", "show", "-a", "bob@example.org"])["isEnabled"], false);
    bed.finish();
}

#[test]
fn account_set_changes_only_the_named_properties() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account(
        "ann@example.org",
        &["--display-name", "Ann", "--zone", "Europe/Berlin", "--quota", "1 GiB"],
    );
    let set = |more: &[&str]| bed.run(&[&["account", "set", "ann@example.org"], more].concat());
    let shown = || bed.json(&["account", "show", "ann@example.org"]);

    assert!(set(&["--quota", "2 KiB", "--unix-user", "ann", "--detail-files"]).status.success());
    let now = shown();
    assert_eq!(
        (&now["quotaOctets"], &now["unixUser"], &now["detailFiles"]),
        (&2048.into(), &"ann".into(), &true.into())
    );
    assert_eq!((&now["displayName"], &now["zone"]), (&"Ann".into(), &"Europe/Berlin".into()));
    let more =
        ["--display-name", "", "--zone", "", "--quota", "", "--unix-user", "", "--no-detail-files"];
    assert!(set(&more).status.success());
    let now = shown();
    for key in ["displayName", "zone", "quotaOctets", "unixUser"] {
        assert!(now[key].is_null(), "{key}: {now}");
    }
    assert_eq!(now["detailFiles"], false);

    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let mut code = || {
        let replies =
            client.deliver("zoe@example.net", &["ann@example.org"], b"Subject: x\r\n\r\n").unwrap();
        format!("{} {}", replies[0].code, replies[0].enhanced())
    };
    assert_eq!(code(), "250 2.0.0");
    assert!(set(&["--inactive"]).status.success());
    assert_eq!(code(), "550 5.2.1");
    assert_eq!(bed.list_mail("ann@example.org").len(), 1, "the stored email is kept");
    assert!(set(&["--active", "--quota-emails", "1"]).status.success());
    assert_eq!(code(), "452 4.2.2");

    for (wrong, code) in [
        (&[][..], 64),
        (&["--active", "--inactive"], 64),
        (&["--zone", "Mars/Olympus"], 64),
        (&["--quota", "much"], 64),
        (&["--quota-emails", "few"], 64),
    ] {
        assert_eq!(set(wrong).status.code(), Some(code), "{wrong:?}");
    }
    assert_eq!(
        bed.run(&["account", "set", "nobody@example.org", "--active"]).status.code(),
        Some(67)
    );
    bed.finish();
}

#[test]
fn changes_of_accounts_print_json() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account("ann@example.org", &[]);
    let ann = bed.json(&["account", "show", "ann@example.org"])["id"].clone();

    let changed = bed.json(&["account", "alias", "ann@example.org", "lee@example.org"]);
    assert_eq!(
        (&changed["id"], &changed["addresses"]),
        (&ann, &serde_json::json!(["ann@example.org", "lee@example.org"]))
    );
    // The account is named by the address that it loses.
    let changed = bed.json(&["account", "alias", "lee@example.org", "lee@example.org", "--remove"]);
    assert_eq!(
        (&changed["id"], &changed["addresses"]),
        (&ann, &serde_json::json!(["ann@example.org"]))
    );

    let password = ["--json", "account", "password", "ann@example.org", "--label", "phone"];
    let changed = feed(&mut bed.command(&password), b"correct horse battery\n");
    let changed: serde_json::Value = serde_json::from_slice(&changed.stdout).unwrap();
    assert_eq!((&changed["id"], &changed["passwords"]), (&ann, &serde_json::json!(["phone"])));
    let changed = bed.json(&[&password[1..], &["--remove"]].concat());
    assert_eq!((&changed["id"], &changed["passwords"]), (&ann, &serde_json::json!([])));

    assert_eq!(
        bed.json(&["account", "domain", "example.com", "example.org"]),
        serde_json::json!({"domain": "example.com", "target": "example.org"})
    );
    assert_eq!(
        bed.json(&["account", "domain", "example.com", "--remove"]),
        serde_json::json!({"removed": "example.com"})
    );

    bed.run_ok(&["account", "token", "add", "ann@example.org", "--name", "phone"]);
    assert_eq!(
        bed.json(&["account", "token", "remove", "ann@example.org", "phone"]),
        serde_json::json!({"removed": "phone"})
    );

    bed.run_ok(&["vacation", "set", "-a", "ann@example.org", "--text", "Away."]);
    let off = bed.json(&["vacation", "off", "-a", "ann@example.org"]);
    assert_eq!((&off["isEnabled"], &off["textBody"]), (&false.into(), &"Away.".into()));

    assert_eq!(
        bed.json(&["account", "remove", "ann@example.org", "--yes"]),
        serde_json::json!({"removed": "ann@example.org"})
    );
    bed.finish();
}

#[test]
fn alias_domain_delivers_to_accounts_of_target_domain() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account("ann@example.org", &[]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let mut code = || {
        client.deliver("z@example.net", &["ann@example.com"], b"Subject: x\r\n\r\n").unwrap()[0]
            .code
    };
    assert_eq!(code(), 550);
    bed.run_ok(&["account", "domain", "Example.com", "example.org"]);
    assert_eq!(code(), 250);
    let list = bed.rows(&["account", "domain"]);
    assert_eq!(list, [serde_json::json!({"domain": "example.com", "target": "example.org"})]);
    assert!(String::from_utf8(bed.run_ok(&["account", "domain"])).unwrap().contains("example.com"));
    // The account can be named by an address of the alias domain.
    assert!(
        bed.json(&["account", "show", "ann@example.com"]).to_string().contains("ann@example.org")
    );
    for (wrong, code) in [
        (&["example.com", "example.org"][..], 64),
        (&["example.com"], 64),
        (&["--remove"], 64),
        (&["a b", "example.org"], 64),
        (&["other.example", "--remove"], 67),
    ] {
        assert_eq!(
            bed.run(&[&["account", "domain"], wrong].concat()).status.code(),
            Some(code),
            "{wrong:?}"
        );
    }
    bed.run_ok(&["account", "domain", "example.com", "--remove"]);
    assert_eq!(code(), 550);
    assert!(bed.rows(&["account", "domain"]).is_empty());
    bed.finish();
}
