//! Tests of the limits of scripts, of scripts that cannot run, and of the ids of notifications.

use super::*;

impl Fixture {
    fn set_site_script(&self, before: &str) {
        let before = vec![SiteScript::new("before", before.as_bytes())];
        self.set_filter(FilterSettings { before, ..FilterSettings::default() });
    }
}

#[test]
fn message_beyond_the_hourly_limit_of_redirects_is_kept() {
    let fixture = fixture();
    fixture.set_filter(FilterSettings { redirects_per_hour: 2, ..FilterSettings::default() });
    fixture.activate("redirect \"eve@example.com\";");
    for sender in ["one@example.net", "one@example.net", "two@example.net"] {
        fixture.clock.advance(Duration::from_millis(1));
        assert!(fixture.send(sender, &[ANN], LETTER)[0].starts_with("250"));
    }
    assert_eq!((fixture.stored(), fixture.queued().len()), (vec![], 2), "a retry is free");
    fixture.clock.advance(Duration::from_millis(1));
    assert!(fixture.send("three@example.net", &[ANN], LETTER)[0].starts_with("250 filed"));
    assert_eq!((fixture.stored(), fixture.queued().len()), (vec!["Inbox".to_owned()], 2));
    let steps = fixture.last_steps().join("\n");
    assert!(steps.contains("no redirect to eve@example.com: too many"), "{steps}");
    fixture.clock.advance(Duration::from_secs(3601));
    fixture.send("four@example.net", &[ANN], LETTER);
    assert_eq!((fixture.stored().len(), fixture.queued().len()), (1, 3));
    fixture.assert_clean();
}

#[test]
fn scripts_of_one_message_share_its_limits() {
    let fixture = fixture();
    // By default 4 redirects of a message are allowed: 3 by the script of the site, 1 by Ann's.
    let redirects = |names: &[&str]| {
        let one = |name: &&str| format!("redirect :copy \"{name}@example.com\";");
        format!("require \"copy\"; {}", names.iter().map(one).collect::<String>())
    };
    fixture.set_site_script(&redirects(&["a", "b", "c"]));
    fixture.activate(&redirects(&["d"]));
    fixture.deliver_letter();
    assert_eq!((fixture.queued().len(), fixture.errors().len()), (4, 0));
    fixture.activate(&redirects(&["d", "e"]));
    fixture.send("more@example.net", &[ANN], LETTER);
    let (_, error) = fixture.errors().remove(0);
    assert!(error.contains("redirect"), "{error}");
    // Ann's script fails: only the 3 redirects of the site are added, and the message is kept.
    assert_eq!((fixture.queued().len(), fixture.stored().len()), (7, 2));
    fixture.assert_clean();
}

/// A run may make 4 versions.
#[test]
fn run_that_makes_more_than_4_versions_fails() {
    let fixture = fixture();
    let edits = |count: usize| {
        let one = |n: usize| format!("addheader \"X-N\" \"{n}\"; fileinto :create \"A{n}\";");
        let edits: String = (0..count).map(one).collect();
        format!("require [\"editheader\", \"fileinto\", \"mailbox\"]; {edits}")
    };
    fixture.activate(&edits(4));
    fixture.deliver_letter();
    assert_eq!((fixture.stored().len(), fixture.errors().len()), (4, 0));
    fixture.activate(&edits(5));
    fixture.send("more@example.net", &[ANN], LETTER);
    assert_eq!((fixture.stored().len(), fixture.errors().len()), (5, 1), "kept as received");
    fixture.assert_clean();
}

#[test]
fn email_has_no_more_keywords_than_it_may() {
    let fixture = fixture();
    let flags: String = (0..150).map(|n| format!("\"flag{n}\", ")).collect();
    fixture.activate(&format!(
        "require [\"imap4flags\", \"fileinto\"]; fileinto :flags [{flags} \"z\"] \"Archive\";"
    ));
    fixture.deliver_letter();
    let emails = fixture.store.snapshot().emails(fixture.ann, None, 9).unwrap();
    assert_eq!(emails[0].1.keywords.len(), crate::model::limits::MAX_KEYWORDS);
    fixture.assert_clean();
}

/// There are two versions, as received and edited: both are filed and the redirect is queued, or
/// nothing is done.
#[test]
fn quota_counts_all_versions() {
    let fixture = fixture();
    fixture.directory.update(fixture.ann, |row| row.quota_emails = Some(1)).unwrap();
    fixture.activate(
        "require [\"editheader\", \"fileinto\", \"copy\"];\n\
         fileinto :copy \"Archive\"; redirect :copy \"eve@example.com\";\n\
         addheader \"X-Tag\" \"1\";",
    );
    for _ in 0..2 {
        let reply = fixture.deliver_letter();
        assert!(reply.starts_with("452") && reply.contains("full"), "{reply}");
        assert_eq!((fixture.stored(), fixture.queued()), (vec![], vec![]));
    }
    fixture.directory.update(fixture.ann, |row| row.quota_emails = Some(2)).unwrap();
    assert!(fixture.deliver_letter().starts_with("250 filed"));
    assert_eq!((fixture.stored().len(), fixture.queued().len()), (2, 1));
    fixture.assert_clean();
}

#[test]
fn script_whose_source_is_lost_or_damaged_keeps_the_message() {
    for damaged in [None, Some(vec![99])] {
        let engine = Arc::new(MemoryEngine::new());
        let fixture = fixture_over(engine.clone());
        fixture.activate("discard;");
        let rows = engine.rows(Table::ScriptSources).into_iter();
        let puts: Vec<Put> = rows
            .map(|(key, _)| Put { table: Table::ScriptSources, key, value: damaged.clone() })
            .collect();
        assert_eq!(puts.len(), 1);
        engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
        assert!(fixture.deliver_letter().starts_with("250 filed"), "{damaged:?}");
        assert_eq!((fixture.stored(), fixture.errors().len()), (vec!["Inbox".to_owned()], 1));
    }
}

#[test]
fn notifications_of_one_message_differ_in_their_ids() {
    let fixture = fixture();
    fixture.activate(
        "require \"enotify\";\n\
         notify :message \"one\" \"mailto:pager@example.com\";\n\
         notify :message \"two\" \"mailto:pager@example.com,eve@example.com\";",
    );
    fixture.deliver_letter();
    let ids: BTreeSet<String> =
        fixture.queued().iter().map(|action| action.message_id.clone()).collect();
    assert_eq!((fixture.queued().len(), ids.len()), (3, 3), "{ids:?}");
    fixture.assert_clean();
}

#[test]
fn redirect_beyond_the_limit_adds_no_copy_of_a_stored_message() {
    let limited = |limit: u32, source: &str| {
        let fixture = fixture();
        let limits = FilterSettings { redirects_per_hour: limit, ..FilterSettings::default() };
        fixture.set_filter(limits);
        fixture.activate(&format!("require [\"fileinto\", \"copy\"]; {source}"));
        assert!(fixture.deliver_letter().starts_with("250"), "{source}");
        let steps = fixture.last_steps().join("\n");
        assert!(steps.contains("no redirect to"), "{source}: {steps}");
        fixture.assert_clean();
        (fixture.stored().join(","), fixture.queued().len())
    };
    for (limit, source, stored, queued) in [
        (0, "fileinto \"Archive\"; redirect :copy \"eve@example.com\";", "Archive", 0),
        (0, "redirect :copy \"eve@example.com\"; discard;", "Inbox", 0),
        (0, "redirect \"eve@example.com\"; redirect \"bob@example.com\";", "Inbox", 0),
        (1, "redirect \"eve@example.com\"; redirect \"bob@example.com\";", "", 1),
        (1, "redirect \"eve@example.com\"; redirect :copy \"x@example.com\"; keep;", "Inbox", 1),
    ] {
        assert_eq!(limited(limit, source), (stored.to_owned(), queued), "{source}");
    }
}

const THREE_VERSIONS: &str = "addheader \"X-N\" \"1\"; fileinto :create \"A1\";\n\
                              addheader \"X-N\" \"2\"; fileinto :create \"A2\";\n\
                              addheader \"X-N\" \"3\"; fileinto :create \"A3\";\n";

/// Returns a fixture in which all edited versions of a message together may have as many bytes as
/// `count` edited letters, but at least as two of them, and the account of another owner, Cy.
fn fixture_with_room(count: usize) -> (Fixture, AccountId) {
    let mut fixture = fixture();
    let letter = LETTER.replace('\n', "\r\n").len();
    // The X-N fields of `THREE_VERSIONS` add 8, 16 and 24 bytes: less than 20 on average.
    Arc::get_mut(&mut fixture.deliver).unwrap().max_edited_bytes = count * (letter + 20);
    let cy = NewAccount::at(Address::parse(CY).unwrap());
    let cy = fixture.directory.add(&cy).unwrap();
    (fixture, cy)
}

const CY: &str = "cy@example.org";

#[test]
fn versions_of_one_account_leave_room_for_another() {
    let header = "require [\"editheader\", \"fileinto\", \"mailbox\"];\n";
    // Ann's script makes as many versions as there is room for in all, and Cy's makes one.
    let (fixture, cy) = fixture_with_room(3);
    fixture.activate(&format!("{header}{THREE_VERSIONS}"));
    let edit = format!("{header}addheader \"X-Cy\" \"1\";");
    let script = fixture.store.commit(cy, |txn| {
        let id = txn.create_script("main", edit.as_bytes())?;
        txn.activate_script(Some(id))
    });
    script.unwrap().1.wait_blocking().unwrap();
    for to in [[ANN, CY], [CY, ANN]] {
        let sender = format!("{}@example.net", to[0].replace('@', "-"));
        let replies = fixture.send(&sender, &to, LETTER);
        assert!(replies.iter().all(|reply| reply.starts_with("250")), "{replies:?}");
    }
    let snapshot = fixture.store.snapshot();
    let emails = snapshot.emails(cy, None, 9).unwrap();
    assert_eq!((emails.len(), snapshot.script_errors(cy).unwrap().len()), (2, 0));
    for (id, _) in emails {
        let text = String::from_utf8(snapshot.message(cy, id).unwrap().unwrap()).unwrap();
        assert!(text.contains("X-Cy: 1"), "{text}");
    }
    fixture.assert_clean();
}

#[test]
fn versions_that_equal_those_of_another_recipient_take_no_room() {
    let header = "require [\"editheader\", \"fileinto\", \"mailbox\", \"envelope\"];\n";
    let (fixture, _) = fixture_with_room(3);
    fixture.activate(&format!("{header}{THREE_VERSIONS}"));
    let to = [ANN, "ann+a@example.org", "lee@example.org"];
    let replies = fixture.send(BOB, &to, LETTER);
    assert!(replies.iter().all(|reply| reply.starts_with("250 filed")), "{replies:?}");
    assert_eq!((fixture.stored().len(), fixture.errors()), (3, vec![]));
    // The versions for Lee differ from the known ones. There is no room for them: this run fails.
    fixture.activate(&format!(
        "{header}if envelope \"to\" \"lee@example.org\" {{ addheader \"X-Lee\" \"1\"; }}\n\
         {THREE_VERSIONS}"
    ));
    let replies = fixture.send("eve@example.net", &to, LETTER);
    assert!(replies.iter().all(|reply| reply.starts_with("250 filed")), "{replies:?}");
    assert_eq!((fixture.stored().len(), fixture.errors().len()), (7, 1), "kept as received");
    fixture.assert_clean();
}

#[test]
fn two_versions_have_room_even_if_they_exceed_the_bytes_for_versions() {
    let header = "require [\"editheader\", \"fileinto\", \"mailbox\"];\n";
    let (fixture, _) = fixture_with_room(0);
    let two = THREE_VERSIONS.lines().take(2).collect::<String>();
    fixture.activate(&format!("{header}{two}discard;"));
    assert!(fixture.deliver_letter().starts_with("250"));
    assert_eq!((fixture.stored().len(), fixture.errors()), (2, vec![]));
    fixture.activate(&format!("{header}{THREE_VERSIONS}"));
    fixture.send("eve@example.net", &[ANN], LETTER);
    assert_eq!((fixture.stored().len(), fixture.errors().len()), (3, 1), "kept as received");
    fixture.assert_clean();
}
