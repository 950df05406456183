//! Tests of edited messages (RFC 5293 §7): an edited message is the same message, and `vacation`
//! sees the header as it is then.

use super::*;

impl Fixture {
    /// Returns the bytes of all emails of the account.
    fn texts(&self) -> Vec<String> {
        let snapshot = self.store.snapshot();
        let ids = snapshot.emails(self.ann, None, 99).unwrap().into_iter().map(|(id, _)| id);
        ids.map(|id| {
            let raw = snapshot.message(self.ann, id).unwrap().unwrap();
            String::from_utf8(raw).unwrap()
        })
        .collect()
    }
}

#[test]
fn mailbox_gets_one_version_of_the_message_whichever_scripts_store_it() {
    let fixture = fixture();
    fixture.set_filter(FilterSettings {
        before: vec![SiteScript::new(
            "before",
            &b"require [\"fileinto\", \"copy\", \"imap4flags\"];\n\
               fileinto :copy :flags \"\\\\Flagged\" \"Archive\"; fileinto :copy \"Drafts\";"[..],
        )],
        ..FilterSettings::default()
    });
    fixture.activate(
        "require [\"fileinto\", \"editheader\", \"imap4flags\"];\n\
         addheader \"X-Flavor\" \"vanilla\"; fileinto :flags \"\\\\Seen\" \"Archive\";",
    );
    fixture.deliver_letter();
    let mut stored = fixture.stored();
    stored.sort();
    // The last version, with the flags of both scripts.
    assert_eq!(stored, ["Archive $flagged $seen", "Drafts"]);
    assert_eq!(fixture.texts().iter().filter(|text| text.contains("X-Flavor")).count(), 1);
    fixture.assert_clean();
}

#[test]
fn mailbox_of_an_address_detail_gets_one_version_of_the_message() {
    let fixture = fixture();
    fixture.directory.update(fixture.ann, |row| row.detail_files = true).unwrap();
    fixture.activate(
        "require [\"fileinto\", \"editheader\", \"copy\"];\n\
         fileinto :copy \"Archive\"; addheader \"X-Flavor\" \"vanilla\";",
    );
    fixture.send(BOB, &["ann+archive@example.org"], LETTER);
    assert_eq!(fixture.stored(), ["Archive"]);
    assert!(fixture.texts()[0].contains("X-Flavor"));
    // Another mailbox keeps its version.
    fixture.activate(
        "require [\"fileinto\", \"editheader\", \"copy\"];\n\
         fileinto :copy \"Archive\"; fileinto :copy \"Drafts\"; addheader \"X-Flavor\" \"lemon\";",
    );
    fixture.send("eve@example.net", &["ann+archive@example.org"], LETTER);
    let mut stored = fixture.stored();
    stored.sort();
    assert_eq!(stored, ["Archive", "Archive", "Drafts"]);
    fixture.assert_clean();
}

/// The mailbox does not exist yet, and its names differ in case only.
#[test]
fn mailbox_that_is_created_gets_one_version_of_the_message() {
    let fixture = fixture();
    let require = "require [\"fileinto\", \"mailbox\", \"copy\", \"editheader\"];";
    let before = format!("{require} fileinto :copy :create \"New\";");
    fixture.set_filter(FilterSettings {
        before: vec![SiteScript::new("before", before.as_bytes())],
        ..FilterSettings::default()
    });
    fixture.activate(&format!("{require} addheader \"X-A\" \"1\"; fileinto :create \"new\";"));
    fixture.deliver_letter();
    assert_eq!(fixture.stored().len(), 1, "{:?}", fixture.stored());
    assert!(fixture.texts()[0].contains("X-A"));
    fixture.assert_clean();
}

/// RFC 5228 §2.10.3. The Inbox takes the place of a mailbox that cannot be created.
#[test]
fn inbox_gets_one_version_of_the_message_in_place_of_mailboxes() {
    let (one, two) = (deep_path(), format!("{}/two", deep_path()));
    let require = "require [\"fileinto\", \"mailbox\", \"copy\", \"editheader\", \"imap4flags\"];";
    let edit = "addheader \"X-A\" \"1\";";
    for (commands, stored, is_edited) in [
        // The version that is kept is stored, with the flags of the other one.
        (
            format!("fileinto :copy :flags \"\\\\Seen\" :create \"{one}\"; {edit} keep;"),
            &["Inbox $seen"][..],
            true,
        ),
        (format!("keep; {edit} fileinto :create \"{one}\";"), &["Inbox"], false),
        // Of several others, the last one.
        (
            format!("fileinto :create \"{one}\"; {edit} fileinto :create \"{two}\";"),
            &["Inbox"],
            true,
        ),
        // A version that has a mailbox stays there.
        (
            format!(
                "fileinto \"Archive\"; fileinto :create \"{one}\"; {edit} \
                 fileinto :create \"{two}\";"
            ),
            &["Archive", "Inbox"],
            true,
        ),
    ] {
        let fixture = fixture();
        fixture.activate(&format!("{require}\n{commands}"));
        assert!(fixture.deliver_letter().starts_with("250 filed"));
        let mut found = fixture.stored();
        found.sort();
        assert_eq!(found, stored, "{commands}");
        let edited = fixture.texts().iter().filter(|text| text.contains("X-A")).count();
        assert_eq!(edited, usize::from(is_edited), "{commands}");
        fixture.assert_clean();
    }
}

/// Runs `edits` before `vacation`, and another edit after it. Returns the reply's text and the
/// reason for none.
fn answer(edits: &str, message: &str) -> (Option<String>, String) {
    let fixture = fixture();
    fixture.activate(&format!(
        "require [\"vacation\", \"editheader\"];\n{edits} vacation \"Away\";\n\
         deleteheader \"Subject\"; addheader \"Subject\" \"later\";"
    ));
    fixture.send(BOB, &[ANN], message);
    let reply = fixture.queued().first().map(|reply| fixture.action_message(reply));
    (reply.map(|reply| String::from_utf8(reply).unwrap()), fixture.last_reason())
}

#[test]
fn vacation_answers_the_message_as_edited_so_far() {
    let (reply, _) = answer("", LETTER);
    assert!(reply.unwrap().contains("\r\nSubject: Auto: Hello\r\n"));
    let edits = "deleteheader \"Subject\"; addheader \"Subject\" \"Ticket 7\";";
    let (reply, _) = answer(edits, LETTER);
    let reply = reply.unwrap();
    assert!(reply.contains("\r\nSubject: Auto: Ticket 7\r\n"), "{reply}");
    assert!(reply.contains("\r\nIn-Reply-To: <1@example.net>\r\n"), "{reply}");
}

#[test]
fn fields_that_a_script_adds_silence_vacation() {
    for (field, value, reason) in [
        ("Precedence", "bulk", "precedence"),
        ("List-Id", "<l.example.net>", "list"),
        ("X-Autoreply", "yes", "suppress-asked"),
        ("X-Spam-Flag", "YES", "spam"),
    ] {
        let (reply, found) = answer(&format!("addheader \"{field}\" \"{value}\";"), LETTER);
        assert_eq!((reply, found.as_str()), (None, reason));
    }
    let (reply, found) = answer("deleteheader \"To\";", LETTER);
    assert_eq!((reply, found.as_str()), (None, "not-addressed"));
}

/// Lists and machines get no answer, whatever a script does to the header (RFC 5230 §4.6).
#[test]
fn fields_that_a_script_deletes_still_silence_vacation() {
    for (field, value, reason) in [
        ("Precedence", "bulk", "precedence"),
        ("List-Id", "<l.example.net>", "list"),
        ("X-Auto-Response-Suppress", "All", "suppress-asked"),
        ("X-Spam-Flag", "YES", "spam"),
    ] {
        let message = format!("{field}: {value}\n{LETTER}");
        let (reply, found) = answer(&format!("deleteheader \"{field}\";"), &message);
        assert_eq!((reply, found.as_str()), (None, reason));
    }
    let elsewhere = LETTER.replace("To: ann@", "To: team@");
    let (reply, found) = answer("addheader \"To\" \"ann@example.org\";", &elsewhere);
    assert_eq!((reply, found.as_str()), (None, "not-addressed"));
}

/// The message answers one of our own replies, which only In-Reply-To shows.
#[test]
fn answer_to_an_own_reply_is_not_answered_if_a_script_deletes_its_references() {
    let fixture = fixture();
    fixture.activate(
        "require [\"vacation\", \"editheader\"];\n\
         deleteheader \"In-Reply-To\"; deleteheader \"References\"; vacation :days 1 \"Away\";",
    );
    fixture.deliver_letter();
    let reply = fixture.queued().remove(0);
    let reply = String::from_utf8(fixture.action_message(&reply)).unwrap();
    let id = reply.lines().find_map(|line| line.strip_prefix("Message-ID: ")).unwrap();
    fixture.clock.advance(Duration::from_secs(3 * 86_400));
    let message = format!("In-Reply-To: {id}\n{}", LETTER.replace("<1@", "<2@"));
    fixture.send(BOB, &[ANN], &message);
    assert_eq!((fixture.last_reason().as_str(), fixture.queued().len()), ("our-own-reply", 1));
}
