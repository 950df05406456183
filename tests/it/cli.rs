//! The command line against a running service, as an administrator and a script meet it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::bed::{Bed, PROGRAM, feed};
use crate::lacking;
use crate::mail::{Client, letter};
use crate::systemd::folder_mode;

#[test]
fn an_account_from_first_to_last() {
    let mut bed = Bed::new("");
    bed.start();
    bed.account("ann@example.org", &["--alias", "a@example.org", "--zone", "Europe/Berlin"]);
    let accounts = bed.rows(&["account", "list"]);
    assert_eq!(accounts.len(), 1, "{accounts:?}");
    let shown = bed.json(&["account", "show", "a@example.org"]).to_string();
    assert!(shown.contains("ann@example.org") && shown.contains("Europe/Berlin"), "{shown}");

    // The same address for a second account, and an account that is not there.
    assert!(!bed.run(&["account", "add", "a@example.org"]).status.success());
    assert_eq!(bed.run(&["account", "show", "nobody@example.org"]).status.code(), Some(67));

    bed.ok(&["account", "alias", "ann@example.org", "a@example.org", "--remove"]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let refused =
        client.deliver("zoe@example.net", &["a@example.org"], b"Subject: x\r\n\r\n").unwrap();
    assert_eq!(refused[0].code, 550);
    bed.ok(&["account", "remove", "ann@example.org", "--yes"]);
    assert!(bed.rows(&["account", "list"]).is_empty());
    bed.finish();
}

#[test]
fn a_catch_all_is_shown_and_leads_no_command_astray() {
    let mut bed = Bed::new("");
    bed.start();
    bed.account("ann@example.org", &["--alias", "a@example.org"]);
    bed.account("bob@example.org", &[]);
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
        let said = String::from_utf8(bed.ok(words)).unwrap();
        assert!(said.contains("@shop.example"), "{words:?}: {said}");
    }

    // A name that nobody has is nobody's, whoever gets its mail.
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

    // Nobody loses an address by a command about somebody else.
    bed.ok(&["account", "domain", "example.com", "example.org"]);
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
fn a_vacation_says_what_it_would_do() {
    let mut bed = Bed::new("");
    bed.start();
    bed.account("ann@example.org", &[]);
    let letters = bed.dir.join("letter.eml");
    fs::write(
        &letters,
        letter("zoe@example.net", "ann@example.org", "when?", "When are you back?"),
    )
    .unwrap();
    let test = ["vacation", "test", "-a", "ann@example.org", letters.to_str().unwrap()];
    assert!(bed.json(&test).to_string().contains("disabled"));
    bed.ok(&[
        "vacation",
        "set",
        "-a",
        "ann@example.org",
        "--text",
        "Back on Monday.",
        "--until",
        "+2w",
    ]);
    let says = String::from_utf8(bed.ok(&test)).unwrap();
    assert!(says.contains("Back on Monday.") && says.contains("Auto-Submitted"), "{says}");
    // A test tells nobody and files nothing.
    assert!(bed.mail("ann@example.org").is_empty());
    assert!(bed.rows(&["queue", "list"]).is_empty());
    bed.ok(&["vacation", "off", "-a", "ann@example.org"]);
    assert!(bed.json(&test).to_string().contains("disabled"));
    bed.finish();
}

#[test]
fn pipe_transport_reads_the_exit_code() {
    let mut bed = Bed::new("limits.message = \"20 KiB\"\ndirectory.over-quota = \"refuse\"\n");
    bed.start();
    for (account, more) in [("ann", &[][..]), ("off", &[]), ("full", &["--quota", "1 KiB"])] {
        bed.account(&format!("{account}@example.org"), more);
    }
    bed.ok(&["account", "set", "off@example.org", "--inactive"]);
    let message = letter("zoe@example.net", "ann@example.org", "piped", "By a pipe.");
    let large =
        letter("zoe@example.net", "ann@example.org", "large", &"A long line of it.\n".repeat(1200));
    let medium = letter(
        "zoe@example.net",
        "full@example.org",
        "medium",
        &"A long line of it.\n".repeat(100),
    );
    let looping = ["Received: from a by b\r\n".repeat(100).as_bytes(), &message].concat();
    let unix = String::from_utf8(message.clone()).unwrap().replace("\r\n", "\n").into_bytes();
    let deliver = |message: &[u8], words: &[&str]| {
        feed(&mut bed.command(&[&["deliver"], words].concat()), message).status.code()
    };
    let from = ["-f", "zoe@example.net"];
    for (what, message, to, code) in [
        ("served", &message, &["ann@example.org"][..], 0),
        ("the retry", &message, &["ann@example.org"], 0),
        ("lines as Unix has them", &unix, &["--", "ann@example.org"], 0),
        ("nobody", &message, &["nobody@example.org"], 67),
        ("nobody at all", &message, &["nobody@example.org", "none@example.org"], 67),
        ("some served", &message, &["ann@example.org", "nobody@example.org"], 75),
        ("disabled", &message, &["off@example.org"], 69),
        ("disabled, and nobody", &message, &["off@example.org", "nobody@example.org"], 69),
        ("over quota for good", &medium, &["full@example.org"], 69),
        ("too large", &large, &["ann@example.org"], 69),
        ("round in circles", &looping, &["ann@example.org"], 69),
        ("no address", &message, &["ann"], 75),
        ("nobody named", &message, &[], 75),
        ("no such option", &message, &["--recipient", "ann@example.org"], 75),
    ] {
        assert_eq!(deliver(message, &[&from, to].concat()), Some(code), "{what}");
    }
    assert_eq!(bed.mail("ann@example.org").len(), 1, "a retry made a second copy");
    for null in ["", "<>", "MAILER-DAEMON"] {
        assert_eq!(deliver(&message, &["-f", null, "ann@example.org"]), Some(0), "{null}");
    }
    assert_eq!(bed.mail("ann@example.org").len(), 2, "the null sender has more than one name");

    // What is wrong with us is no reason to bounce.
    bed.configure("lmtp.lisen = 1\n");
    let ann = [&from[..], &["ann@example.org"]].concat();
    assert_eq!(deliver(&message, &ann), Some(75), "a broken configuration");
    fs::remove_file(bed.config()).unwrap();
    assert_eq!(deliver(&message, &ann), Some(75), "no configuration");
    bed.configure("");
    bed.stop();
    let deliver = |to: &str| {
        feed(&mut bed.command(&["deliver", "-f", "zoe@example.net", to]), &message).status.code()
    };
    assert_eq!(deliver("ann@example.org"), Some(75), "without the service Postfix must try again");
    bed.finish();
}

#[test]
fn a_unix_user_manages_his_own_account_and_no_other() {
    if !rustix::process::getuid().is_root() {
        return lacking("the right to become another Unix user");
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let nobody = passwd
        .lines()
        .find_map(|line| line.strip_prefix("nobody:")?.split(':').nth(1)?.parse::<u32>().ok());
    let Some(nobody) = nobody else { return lacking("a Unix user named nobody") };
    let mut bed = Bed::new("");
    // The configuration as it is installed, and a program that is not hidden in somebody's home.
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
    bed.account("ann@example.org", &["--unix-user", "nobody"]);
    bed.account("bob@example.org", &[]);
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
        (&["account", "set", "ann@example.org", "--quota", ""], "", 77),
        (&["account", "list"], "", 77),
        (&["check"], "", 77),
        // What he may not do must not bounce mail.
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
fn port_25_is_not_for_lmtp() {
    let bed = Bed::new("");
    fs::write(bed.config(), "lmtp.listen = [\"tcp:127.0.0.1:25\"]\n").unwrap();
    let done = bed.run(&["config", "check"]);
    assert_eq!(done.status.code(), Some(78), "{done:?}");
    assert!(String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).contains("25"));
    fs::write(bed.config(), "[lmtp]\nlisen = []\n").unwrap();
    let done = bed.run(&["config", "check"]);
    assert_eq!(done.status.code(), Some(78));
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(
        said.contains("listen") && said.contains('2'),
        "neither the nearest name nor the line: {said}"
    );
    fs::remove_dir_all(&bed.dir).unwrap();
}

#[test]
fn config_check_reads_the_files_of_the_relay() {
    let bed = Bed::new("");
    let missing = bed.dir.join("missing");
    let empty = bed.dir.join("empty");
    fs::write(&empty, "").unwrap();
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o600)).unwrap();
    for (settings, key, file) in [
        (format!("tls-ca = {missing:?}"), "tls-ca", &missing),
        (format!("tls-ca = {empty:?}"), "tls-ca", &empty),
        (format!("user = \"us\"\npassword-file = {missing:?}"), "password-file", &missing),
        (format!("user = \"us\"\npassword-file = {empty:?}"), "password-file", &empty),
    ] {
        bed.configure(&format!("[relay]\n{settings}\n"));
        let done = bed.run(&["config", "check"]);
        assert_eq!(done.status.code(), Some(78), "{settings}: {done:?}");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(
            said.contains(key) && said.contains(&file.display().to_string()),
            "{settings}: {said}"
        );
    }
    fs::remove_dir_all(&bed.dir).unwrap();
}

#[test]
fn an_account_is_changed_where_it_is_named_and_stays_elsewhere() {
    let mut bed = Bed::new("");
    bed.start();
    bed.account(
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
    assert_eq!(bed.mail("ann@example.org").len(), 1, "what is there stays");
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
fn a_domain_stands_for_another() {
    let mut bed = Bed::new("");
    bed.start();
    bed.account("ann@example.org", &[]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let mut code = || {
        client.deliver("z@example.net", &["ann@example.com"], b"Subject: x\r\n\r\n").unwrap()[0]
            .code
    };
    assert_eq!(code(), 550);
    bed.ok(&["account", "domain", "Example.com", "example.org"]);
    assert_eq!(code(), 250);
    let list = bed.rows(&["account", "domain"]);
    assert_eq!(list, [serde_json::json!({"domain": "example.com", "target": "example.org"})]);
    assert!(String::from_utf8(bed.ok(&["account", "domain"])).unwrap().contains("example.com"));
    // The account is known by it, as it is by an alias.
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
    bed.ok(&["account", "domain", "example.com", "--remove"]);
    assert_eq!(code(), 550);
    assert!(bed.rows(&["account", "domain"]).is_empty());
    bed.finish();
}

#[test]
fn mail_is_listed_page_by_page() {
    let mut bed = Bed::new("");
    bed.start();
    bed.account("ann@example.org", &[]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    for number in 0..5 {
        let message =
            letter("zoe@example.net", "ann@example.org", &format!("number {number}"), "x");
        assert!(client.deliver("zoe@example.net", &["ann@example.org"], &message).unwrap()[0].ok());
    }
    let all: Vec<String> = bed.mail("ann@example.org").into_iter().map(|mail| mail.id).collect();
    let list = ["mail", "list", "-a", "ann@example.org", "--limit", "2"];
    for more in [&[][..], &["--threads"]] {
        let (mut paged, mut page) = (Vec::new(), bed.rows(&[&list, more].concat()));
        while let Some(last) = page.last() {
            assert!(page.len() <= 2);
            let after = last["id"].as_str().unwrap().to_owned();
            paged.extend(page.iter().map(|row| row["id"].as_str().unwrap().to_owned()));
            page = bed.rows(&[&list, more, &["--after", &after]].concat());
        }
        assert_eq!(paged, all, "{more:?}");
    }
    assert_eq!(bed.run(&[&list[..], &["--after", "nonsense"]].concat()).status.code(), Some(64));
    // More than one answer holds is refused, not cut off without a word.
    for words in [["mail", "list"], ["vacation", "log"]] {
        for (limit, code) in [("10000", 0), ("10001", 64), ("0", 64)] {
            let done =
                bed.run(&[&words[..], &["-a", "ann@example.org", "--limit", limit]].concat());
            assert_eq!(done.status.code(), Some(code), "{words:?} --limit {limit}");
        }
    }
    bed.finish();
}

#[test]
fn a_reader_that_has_seen_enough_is_no_fault() {
    let mut bed = Bed::new("");
    bed.start();
    bed.account("ann@example.org", &[]);
    let long = "a long line of a long message\n".repeat(20_000);
    let message = letter("zoe@example.net", "ann@example.org", "long", &long);
    let replies = Client::lmtp(&bed.lmtp())
        .unwrap()
        .deliver("zoe@example.net", &["ann@example.org"], &message)
        .unwrap();
    assert!(replies[0].ok());
    let id = bed.mail("ann@example.org")[0].id.clone();
    let file = bed.dir.join("letter.eml");
    fs::write(&file, &message).unwrap();
    bed.ok(&["vacation", "set", "-a", "ann@example.org", "--text", "Away."]);
    let ann = ["-a", "ann@example.org"];
    let of =
        |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    for words in [
        of(&["completions", "bash"]),
        of(&["completions", "zsh"]),
        of(&["manual"]),
        of(&["--help"]),
        of(&["--version"]),
        of(&["config", "example"]),
        of(&["config", "check"]),
        of(&["account", "list"]),
        of(&["account", "show", "ann@example.org"]),
        of(&["account", "domain"]),
        of(&["--json", "account", "list"]),
        of(&[&["vacation", "show"], &ann[..]].concat()),
        of(&[&["vacation", "log"], &ann[..]].concat()),
        of(&[&["vacation", "told"], &ann[..]].concat()),
        of(&[&["vacation", "test"], &ann[..], &[file.to_str().unwrap()]].concat()),
        of(&[&["mail", "list"], &ann[..]].concat()),
        of(&[&["mail", "show"], &ann[..], &[&id]].concat()),
        of(&["queue", "list"]),
        of(&["check"]),
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (reader, writer) = std::io::pipe().unwrap();
        // Gone before the first octet: every write meets a closed pipe.
        drop(reader);
        let done = bed
            .command(&words)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success() && said.is_empty(), "{words:?}: {}\n{said}", done.status);
    }
    // Complaints that nobody reads end with their code, too.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut nobody = bed.command(&["account", "show", "nobody@example.org"]);
    assert_eq!(nobody.stdin(Stdio::null()).stderr(writer).status().unwrap().code(), Some(67));
    // A disk that is full is a fault: half a message must not pass for a whole one.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut show = bed.command(&["mail", "show", "-a", "ann@example.org", &id]);
    assert_eq!(show.stdin(Stdio::null()).stdout(full).status().unwrap().code(), Some(75));
    bed.finish();
}

#[test]
fn completions_and_manual_know_every_command() {
    let bed = Bed::new("");
    let text = |words: &[&str]| String::from_utf8(bed.ok(words)).unwrap();
    let manual = text(&["manual"]);
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = text(&["completions", shell]);
        for word in ["vacation", "forget", "domain", "completions", "except", "detail-files"] {
            assert!(script.contains(word), "{shell} lacks {word}");
            assert!(manual.contains(word), "the manual lacks {word}");
        }
    }
    // A shell takes it for a script.
    let file = bed.dir.join("completions.bash");
    fs::write(&file, text(&["completions", "bash"])).unwrap();
    let probe = format!("set -e; . {}; complete -p restante", file.display());
    let bash = Command::new("bash").args(["--norc", "-c", &probe]).output().unwrap();
    assert!(bash.status.success(), "{}", String::from_utf8_lossy(&bash.stderr));
    assert_eq!(bed.run(&["completions", "tcsh"]).status.code(), Some(64));
    fs::remove_dir_all(&bed.dir).unwrap();
}
