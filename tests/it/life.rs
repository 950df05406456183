//! The `mail` and `mailbox` commands that change stored mail: move, flag, destroy, restore and
//! purge, and changes of mailboxes.

use std::process::Output;
use std::time::Duration;

use crate::bed::TestBed;
use crate::mail::{Client, letter};

const ANN: &str = "ann@example.org";

fn code(done: &Output) -> i32 {
    done.status.code().unwrap()
}

#[test]
fn mail_and_mailbox_commands_change_mail_and_report_each_result() {
    let mut bed = TestBed::new("");
    bed.start();
    // The first round comes at the start and the next one after an hour, so none disturbs the test.
    bed.wait_until("a round of upkeep", Duration::from_secs(20), || bed.log().contains("upkeep"));
    bed.add_account(ANN, &[]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    for n in 0..3 {
        let message = letter("zoe@example.net", ANN, &format!("no. {n}"), "text");
        assert!(client.deliver("zoe@example.net", &[ANN], &message).unwrap()[0].ok());
    }
    drop(client);
    let mail = bed.list_mail(ANN);
    let (one, two) = (mail[0].id.as_str(), mail[1].id.as_str());
    bed.run_ok(&["mailbox", "create", "-a", ANN, "Work"]);
    bed.run_ok(&["mailbox", "create", "-a", ANN, "Work/2026", "--role", "important"]);
    assert_eq!(code(&bed.run(&["mailbox", "create", "-a", ANN, "Work"])), 64);
    assert_eq!(code(&bed.run(&["mail", "move", "-a", ANN, "Nowhere", one])), 67);
    let moved = bed.run(&["mail", "move", "-a", ANN, "important", one, "nonsense"]);
    assert_eq!(code(&moved), 67, "one of the emails does not exist");
    assert_eq!(String::from_utf8_lossy(&moved.stdout), format!("{one} moved\n"));
    assert!(String::from_utf8_lossy(&moved.stderr).contains("nonsense not moved"));
    let flagged = bed.json(&["mail", "flag", "-a", ANN, "--add", "$Seen", "--add", "todo", one]);
    assert_eq!(flagged["flagged"][one], serde_json::json!(["$seen", "todo"]));
    assert_eq!(code(&bed.run(&["mail", "flag", "-a", ANN, one])), 64, "no keyword");

    bed.run_ok(&["mailbox", "rename", "-a", ANN, "Work/2026", "2027"]);
    bed.run_ok(&["mailbox", "move", "-a", ANN, "Work/2027", ""]);
    bed.run_ok(&["mailbox", "role", "-a", ANN, "2027", ""]);
    bed.run_ok(&["mailbox", "subscribe", "-a", ANN, "2027", "--off"]);
    bed.run_ok(&["mailbox", "set", "-a", ANN, "2027", "color", "#1e90ff"]);
    bed.run_ok(&["mailbox", "set", "-a", ANN, "2027", "note", "soon"]);
    bed.run_ok(&["mailbox", "set", "-a", ANN, "2027", "note", ""]);
    assert_eq!(code(&bed.run(&["mailbox", "set", "-a", ANN, "2027", "color", "blue"])), 64);
    let shown = String::from_utf8(bed.run_ok(&["mailbox", "list", "-a", ANN])).unwrap();
    assert!(
        shown.lines().any(|line| line.contains("2027") && line.ends_with("color=#1e90ff")),
        "{shown}"
    );
    let boxes = bed.rows(&["mailbox", "list", "-a", ANN]);
    let renamed = boxes.iter().find(|row| row["path"] == "2027").unwrap();
    assert_eq!((&renamed["totalEmails"], &renamed["isSubscribed"]), (&1.into(), &false.into()));
    assert_eq!(code(&bed.run(&["mailbox", "remove", "-a", ANN, "2027"])), 64, "no terminal");
    assert_eq!(
        code(&bed.run(&["mailbox", "remove", "-a", ANN, "2027", "--yes"])),
        64,
        "the mailbox has emails"
    );
    bed.run_ok(&["mailbox", "remove", "-a", ANN, "2027", "--yes", "--emails"]);

    bed.run_ok(&["mail", "destroy", "-a", ANN, two]);
    let listed = bed.rows(&["mail", "purge", "-a", ANN]);
    assert_eq!(listed.len(), 2);
    let table = String::from_utf8(bed.run_ok(&["mail", "purge", "-a", ANN])).unwrap();
    assert!(
        table.contains("RESTORABLE UNTIL") && table.contains(one) && table.contains("no. 2"),
        "{table}"
    );
    let restored = bed.json(&["mail", "restore", "-a", ANN, one]);
    let new = restored["restored"][one].as_str().unwrap();
    // The mailbox of the email was removed, so the email is restored to the Inbox.
    assert!(bed.list_mail(ANN).iter().any(|mail| mail.id == new));
    assert!(String::from_utf8(bed.show_message(ANN, new)).unwrap().contains("Subject: no. 2\r\n"));
    assert_eq!(code(&bed.run(&["mail", "restore", "-a", ANN, one])), 64, "not twice");
    assert_eq!(code(&bed.run(&["mail", "purge", "-a", ANN, "--now"])), 64, "no terminal");
    let purged = bed.run_ok(&["mail", "purge", "-a", ANN, "--now", "--yes", two]);
    assert_eq!(String::from_utf8(purged).unwrap(), format!("{two} purged\n"));
    assert_eq!(code(&bed.run(&["mail", "restore", "-a", ANN, two])), 67);
    assert_eq!(bed.json(&["mail", "purge", "-a", ANN, "--now", "--yes"])["count"], 1);
    assert_eq!(bed.list_mail(ANN).len(), 2);
    bed.finish();
}
