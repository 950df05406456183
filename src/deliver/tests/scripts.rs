//! Tests of deliveries through Sieve scripts: what is stored, sent on, refused, answered and
//! recorded.

use super::*;
use crate::filter::{Settings as FilterSettings, SiteScript};
use crate::model::{Action, ActionKind, FilterStep};

mod limits;
mod notifications;
mod recipients;
mod refusals;
mod steps;
mod transactions;
mod versions;

const BOB: &str = "bob@example.net";
const ANN: &str = "ann@example.org";

const LETTER: &str = "From: bob@example.net\nTo: ann@example.org\nSubject: Hello\n\
                      Message-ID: <1@example.net>\nX-Spam-Score: 12\n\nHi\n";

/// Returns a path with more levels than a mailbox may have (`limits::MAX_MAILBOX_DEPTH`).
fn deep_path() -> String {
    vec!["deep"; crate::model::limits::MAX_MAILBOX_DEPTH + 2].join("/")
}

impl Fixture {
    /// Stores a script as `main`, in place of the former one, and makes it the active one.
    pub(super) fn activate(&self, source: &str) {
        let committed = self.store.commit(self.ann, |txn| {
            let known = txn.snapshot().script_by_name(self.ann, "main")?;
            let id = match known {
                Some((id, _)) => txn.replace_script(id, source.as_bytes()).map(|_| id)?,
                None => txn.create_script("main", source.as_bytes())?,
            };
            txn.activate_script(Some(id))
        });
        committed.unwrap().1.wait_blocking().unwrap();
    }

    fn set_filter(&self, filter: FilterSettings) {
        let settings = Settings { filter: Arc::new(filter), ..(*self.settings.get()).clone() };
        self.settings.set(settings);
    }

    fn deliver_letter(&self) -> String {
        self.clock.advance(Duration::from_millis(1));
        self.send(BOB, &[ANN], LETTER).remove(0)
    }

    /// Returns for each email, newest first, the names of its mailboxes and its keywords, such as
    /// `Inbox $seen`.
    fn stored(&self) -> Vec<String> {
        let snapshot = self.store.snapshot();
        let names = |email: &crate::model::EmailMetadata| {
            let names = email
                .mailboxes
                .iter()
                .map(|uid| snapshot.mailbox(self.ann, *uid).unwrap().unwrap().name);
            names.chain(email.keywords.iter().cloned()).collect::<Vec<_>>().join(" ")
        };
        let emails = snapshot.emails(self.ann, None, 99).unwrap();
        emails.iter().map(|(_, email)| names(email)).collect()
    }

    fn queued(&self) -> Vec<Action> {
        self.store.snapshot().outbox(self.ann).unwrap()
    }

    /// Returns the steps of the last decision, such as `main:3 fileinto Archive`.
    fn last_steps(&self) -> Vec<String> {
        let decision = self.store.snapshot().decisions(self.ann, 1).unwrap().remove(0);
        let text =
            |FilterStep { script, line, action }: FilterStep| format!("{script}:{line} {action}");
        decision.steps.into_iter().map(text).collect()
    }

    /// Returns the errors of scripts, newest first: the line and the message of each.
    fn errors(&self) -> Vec<(u32, String)> {
        let errors = self.store.snapshot().script_errors(self.ann).unwrap();
        errors.into_iter().map(|error| (error.line, error.message)).collect()
    }
}

#[test]
fn mailboxes_flags_and_steps_follow_the_script() {
    let fixture = fixture();
    fixture.activate(
        "require [\"fileinto\", \"imap4flags\", \"mailbox\", \"copy\"];\n\
         if header :contains \"subject\" \"hello\" {\n\
           fileinto :copy :flags \"\\\\Seen\" \"Archive\";\n\
           fileinto :create \"Lists/rust\";\n\
         }\n",
    );
    assert!(fixture.deliver_letter().starts_with("250 filed as"));
    assert_eq!(fixture.stored(), ["Archive rust $seen"]);
    assert!(fixture.store.snapshot().find_mailbox(fixture.ann, "Lists/rust").unwrap().is_some());
    assert_eq!(fixture.last_steps(), ["main:3 fileinto Archive", "main:4 fileinto Lists/rust"]);
    assert!(fixture.deliver_letter().starts_with("250 already filed as"), "a retry");
    assert_eq!(fixture.stored().len(), 1);
    fixture.assert_clean();
}

#[test]
fn mailbox_is_found_by_its_special_use_and_the_inbox_replaces_a_missing_one() {
    let fixture = fixture();
    fixture.activate(
        "require [\"fileinto\", \"special-use\", \"mailbox\"];\n\
         fileinto :specialuse \"\\\\Junk\" \"Nowhere\";",
    );
    fixture.deliver_letter();
    assert_eq!(fixture.stored(), ["Junk"]);
    fixture.activate("require \"fileinto\"; fileinto \"Nowhere\";");
    fixture.send("eve@example.net", &[ANN], LETTER);
    assert_eq!(fixture.stored().len(), 2);
    assert!(fixture.stored().contains(&"Inbox".to_owned()), "{:?}", fixture.stored());
}

#[test]
fn discarded_message_is_stored_nowhere_and_recorded() {
    let fixture = fixture();
    fixture.enable_response("Away");
    fixture.activate("discard;");
    assert_eq!(fixture.deliver_letter(), "250 delivered");
    assert_eq!(fixture.deliver_letter(), "250 already delivered");
    assert_eq!((fixture.stored(), fixture.queued()), (vec![], vec![]));
    assert_eq!(
        (fixture.last_reason().as_str(), fixture.last_steps()),
        ("script", vec!["main:1 discard".to_owned()])
    );
    fixture.assert_clean();
}

#[test]
fn message_is_redirected_once_with_its_sender_and_trace_fields() {
    let fixture = fixture();
    fixture.activate("require \"copy\"; redirect :copy \"eve@example.com\";");
    fixture.deliver_letter();
    fixture.deliver_letter();
    let [action] = <[Action; 1]>::try_from(fixture.queued()).unwrap();
    assert_eq!(
        (action.kind, action.sender.as_ref().map(ToString::to_string).as_deref()),
        (ActionKind::Redirect, Some(BOB))
    );
    assert_eq!(action.recipients[0].address.to_string(), "eve@example.com");
    let message = String::from_utf8(fixture.action_message(&action)).unwrap();
    assert!(message.starts_with("Delivered-To: ann@example.org\r\nReceived: "), "{message}");
    assert!(message.ends_with(&LETTER.replace('\n', "\r\n")), "{message}");
    assert_eq!(fixture.stored(), ["Inbox"]);
    fixture.assert_clean();
}

/// RFC 5228 §4.2, RFC 6009 §6.1.
#[test]
fn reports_of_a_redirect_go_to_the_owner_if_the_script_asks_for_them() {
    for (tags, sender, expected) in [
        ("", BOB, Some(BOB)),
        ("", "", None),
        (":notify \"FAILURE\" ", BOB, Some(ANN)),
        (":ret \"HDRS\" ", BOB, Some(ANN)),
        (":notify \"FAILURE\" ", "", None),
    ] {
        let fixture = fixture();
        let source = format!("require \"redirect-dsn\"; redirect {tags}\"eve@example.com\";");
        fixture.activate(&source);
        fixture.send(sender, &[ANN], LETTER);
        let [action] = <[Action; 1]>::try_from(fixture.queued()).unwrap();
        let sender = action.sender.as_ref().map(ToString::to_string);
        assert_eq!(sender.as_deref(), expected, "{tags}");
        assert_eq!(action.ret.is_some(), tags.contains("ret"), "{tags}");
        assert_eq!(action.recipients[0].notify.is_some(), tags.contains("notify"), "{tags}");
    }
}

#[test]
fn redirected_message_that_comes_back_is_kept() {
    let fixture = fixture();
    fixture.activate("redirect \"eve@example.com\";");
    fixture.deliver_letter();
    assert_eq!((fixture.stored(), fixture.queued().len()), (vec![], 1));
    let looped = format!("Delivered-To: Ann@example.org\n{LETTER}");
    assert!(fixture.send(BOB, &[ANN], &looped)[0].starts_with("250 filed"));
    assert_eq!((fixture.stored(), fixture.queued().len()), (vec!["Inbox".to_owned()], 1));
    fixture.assert_clean();
}

#[test]
fn edited_header_is_stored_and_redirected() {
    let fixture = fixture();
    fixture.activate(
        "require [\"editheader\", \"copy\"];\n\
         redirect :copy \"one@example.com\";\n\
         deleteheader \"X-Spam-Score\"; addheader \"X-Seen\" \"ja ü\";\n\
         redirect :copy \"two@example.com\"; keep;",
    );
    assert!(fixture.deliver_letter().starts_with("250 filed"));
    let snapshot = fixture.store.snapshot();
    let (id, _) = snapshot.emails(fixture.ann, None, 9).unwrap().remove(0);
    let stored = String::from_utf8(snapshot.message(fixture.ann, id).unwrap().unwrap()).unwrap();
    assert!(
        stored.contains("X-Seen: ")
            && !stored.contains("X-Spam-Score")
            && stored.ends_with("Hi\r\n"),
        "{stored}"
    );
    let queued = fixture.queued();
    let sent = |to: &str| {
        let is_for = |action: &&Action| action.recipients[0].address.to_string() == to;
        let action = queued.iter().find(is_for).unwrap();
        String::from_utf8(fixture.action_message(action)).unwrap()
    };
    let (one, two) = (sent("one@example.com"), sent("two@example.com"));
    assert!(one.contains("X-Spam-Score: 12") && !one.contains("X-Seen: "), "{one}");
    assert!(two.contains("X-Seen: ") && !two.contains("X-Spam-Score"), "{two}");
    for text in [one, two] {
        assert!(text.starts_with("Delivered-To: ann@example.org\r\nReceived: "), "{text}");
        assert!(text.ends_with("\r\n\r\nHi\r\n"), "{text}");
    }
    // An action has the hash of its version, whose bytes are stored as a message.
    assert_eq!(queued.len(), 2);
    assert!(queued.iter().all(|action| action.blob.is_some()));
    fixture.assert_clean();
}

#[test]
fn failed_run_keeps_the_message_and_is_recorded() {
    let fixture = fixture();
    for (source, line, what) in [
        ("require \"ihave\";\n\nerror \"out of luck\";", 3, "out of luck"),
        (
            "require [\"reject\", \"vacation\"];\n\
             if size :over 1 { vacation \"a\"; }\n\
             if size :over 2 { reject \"b\"; }",
            3,
            "reject",
        ),
        // The script could not be compiled, so no line of it ran.
        ("keep;\nkeeep;", 0, "line 2"),
    ] {
        fixture.activate(source);
        let sender = format!("{}@example.net", source.len());
        fixture.clock.advance(Duration::from_millis(1));
        assert!(fixture.send(&sender, &[ANN], LETTER)[0].starts_with("250 filed"), "{source}");
        let (found, message) = fixture.errors().remove(0);
        assert_eq!(found, line, "{source}: {message}");
        assert!(message.contains(what), "{source}: {message}");
        let step = fixture.last_steps().pop().unwrap();
        assert!(step.starts_with(&format!("main:{line} failed: ")), "{source}: {step}");
        assert!(step.contains(what), "{source}: {step}");
    }
    assert_eq!(fixture.stored(), ["Inbox", "Inbox", "Inbox"]);
    assert_eq!((fixture.errors().len(), fixture.queued()), (3, vec![]));
    fixture.assert_clean();
}

#[test]
fn script_answers_in_place_of_the_response() {
    let fixture = fixture();
    fixture.enable_response("The response");
    fixture.activate("require \"vacation\"; vacation :days 3 :subject \"Away\" \"The script\";");
    fixture.deliver_letter();
    assert_eq!(fixture.last_reason(), "answered");
    let reply = fixture.queued().remove(0);
    let text = String::from_utf8(fixture.action_message(&reply)).unwrap();
    assert!(text.contains("The script") && text.contains("Subject: Away"), "{text}");
    let again = LETTER.replace("<1@", "<2@");
    fixture.clock.advance(Duration::from_secs(2 * 86_400));
    fixture.send(BOB, &[ANN], &again);
    assert_eq!((fixture.last_reason().as_str(), fixture.queued().len()), ("already-told", 1));
    fixture.clock.advance(Duration::from_secs(2 * 86_400));
    fixture.send(BOB, &[ANN], &LETTER.replace("<1@", "<3@"));
    assert_eq!((fixture.last_reason().as_str(), fixture.queued().len()), ("answered", 2));
    fixture.assert_clean();
}

#[test]
fn response_answers_unless_scripts_discard_or_refuse_the_message_or_file_it_in_junk() {
    for (source, reason) in [
        ("keep;", "answered"),
        ("require [\"fileinto\"]; fileinto \"Archive\";", "answered"),
        ("require [\"fileinto\"]; fileinto \"Junk\";", "spam"),
        ("require [\"fileinto\", \"copy\"]; fileinto :copy \"Junk\";", "answered"),
        ("redirect \"eve@example.com\";", "answered"),
        ("discard;", "script"),
        ("require \"reject\"; reject \"no\";", "script"),
    ] {
        let fixture = fixture();
        fixture.enable_response("Away");
        fixture.activate(source);
        fixture.deliver_letter();
        assert_eq!(fixture.last_reason(), reason, "{source}");
        fixture.assert_clean();
    }
}

#[test]
fn later_message_with_the_same_id_is_a_duplicate_for_a_week() {
    let fixture = fixture();
    fixture.activate("require [\"duplicate\"]; if duplicate { discard; }");
    assert!(fixture.deliver_letter().starts_with("250 filed"));
    assert_eq!(fixture.send("list@example.net", &[ANN], LETTER), ["250 delivered"]);
    // A message is remembered for a week.
    fixture.clock.advance(Duration::from_secs(8 * 86_400));
    assert!(fixture.send("late@example.net", &[ANN], LETTER)[0].starts_with("250 filed"));
    assert_eq!(fixture.stored().len(), 2);
    fixture.assert_clean();
}

#[test]
fn owner_is_notified_by_mail_but_not_of_a_notification() {
    let fixture = fixture();
    fixture.activate(
        "require [\"enotify\", \"variables\"]; set \"to\" \"pager@example.com\";\n\
         notify :importance \"1\" :message \"You have mail\" \"mailto:${to}?body=Look\";",
    );
    fixture.deliver_letter();
    let notice = fixture.queued().remove(0);
    assert_eq!((notice.kind, notice.sender.clone()), (ActionKind::Notify, None));
    let text = String::from_utf8(fixture.action_message(&notice)).unwrap();
    for part in [
        "Subject: You have mail",
        "Auto-Submitted: auto-notified; owner-email=\"ann@example.org\"",
        "Importance: high",
        "From: <ann@example.org>",
        "Look",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    fixture.send(BOB, &[ANN], &format!("Auto-Submitted: auto-notified; x=y\n{LETTER}"));
    assert_eq!((fixture.queued().len(), fixture.stored().len()), (1, 2));
    fixture.assert_clean();
}

/// RFC 5436 §2.7.1: by the token, the site of the owner finds the owner.
#[test]
fn token_of_an_owner_without_an_ascii_address_cannot_be_guessed() {
    let tokens = || {
        let fixture = fixture();
        let owner = Address::parse("j\u{fc}rgen@example.org").unwrap();
        let account = fixture.directory.add(&NewAccount::at(owner)).unwrap();
        let source = "require \"enotify\"; notify \"mailto:pager@example.com\";";
        let script = fixture.store.commit(account, |txn| {
            let id = txn.create_script("main", source.as_bytes())?;
            txn.activate_script(Some(id))
        });
        script.unwrap().1.wait_blocking().unwrap();
        let snapshot = || fixture.store.snapshot();
        for sender in [BOB, "eve@example.net"] {
            let replies = fixture.send(sender, &["j\u{fc}rgen@example.org"], LETTER);
            assert!(replies[0].starts_with("250"), "{replies:?}");
        }
        let queued = snapshot().outbox(account).unwrap();
        let token = |action: &Action| {
            let text = snapshot().action_message(account, action).unwrap();
            let text = String::from_utf8(text).unwrap();
            let (_, token) = text.split_once("auto-notified; owner-token=").expect(&text);
            let token = token.lines().next().unwrap().to_owned();
            assert!(token.starts_with(&format!("{account}-")), "{token}");
            token
        };
        queued.iter().map(token).collect::<Vec<_>>()
    };
    let (one, other) = (tokens(), tokens());
    assert_eq!(one.len(), 2, "{one:?}");
    // The same for all messages of the owner, and another one in a store with other secrets.
    assert_eq!(one[0], one[1]);
    assert_ne!(one[0], other[0]);
}

#[test]
fn copy_of_a_notification_is_filed_once_where_fcc_says() {
    let fixture = fixture();
    fixture.activate(
        "require [\"enotify\", \"fcc\", \"mailbox\", \"imap4flags\"];\n\
         notify :fcc \"Told\" :create :flags \"\\\\Seen\" :message \"You have mail\"\n\
         \"mailto:pager@example.com,phone@example.com\";",
    );
    fixture.deliver_letter();
    let queued = fixture.queued();
    assert_eq!(queued.len(), 2, "{queued:?}");
    let mut stored = fixture.stored();
    stored.sort();
    assert_eq!(stored, ["Inbox", "Told $seen"]);
    fixture.assert_clean();
}

#[test]
fn site_scripts_run_before_and_after_until_one_ends_the_sequence() {
    let fixture = fixture();
    let script = |name: &str, source: &str| SiteScript::new(name, source.as_bytes());
    fixture.set_filter(FilterSettings {
        before: vec![script(
            "b",
            "require [\"editheader\", \"imap4flags\"]; addheader \"X-Site\" \"1\"; \
             addflag \"\\\\Flagged\"; keep;",
        )],
        after: vec![script(
            "a",
            "require [\"fileinto\", \"mailbox\"];\n\
             if header \"X-Site\" \"1\" { fileinto :create \"Site\"; }",
        )],
        ..FilterSettings::default()
    });
    fixture.deliver_letter();
    assert_eq!(fixture.stored(), ["Site"]);
    assert_eq!(fixture.last_steps(), ["site:b:1 keep", "site:a:2 fileinto Site"]);
    fixture.activate("require \"fileinto\"; if header \"X-Site\" \"1\" { fileinto \"Archive\"; }");
    fixture.send("eve@example.net", &[ANN], LETTER);
    assert!(fixture.stored().contains(&"Archive".to_owned()), "{:?}", fixture.stored());
    fixture.activate("keep;");
    fixture.send("own@example.net", &[ANN], LETTER);
    assert_eq!(fixture.stored().iter().filter(|name| *name == "Site").count(), 2);
    fixture.set_filter(FilterSettings { is_on: false, ..FilterSettings::default() });
    fixture.activate("discard;");
    fixture.send("off@example.net", &[ANN], LETTER);
    assert!(fixture.stored().contains(&"Inbox".to_owned()));
    fixture.assert_clean();
}

#[test]
fn scripts_of_the_account_can_be_included() {
    let fixture = fixture();
    let source = b"require \"fileinto\";\n\nfileinto \"Archive\";";
    let part = fixture.store.commit(fixture.ann, |txn| txn.create_script("part", source));
    part.unwrap().1.wait_blocking().unwrap();
    fixture.activate("require \"include\"; include \"part\";");
    fixture.deliver_letter();
    assert_eq!(fixture.stored(), ["Archive"]);
    assert_eq!(fixture.last_steps(), ["part:3 fileinto Archive"]);
    fixture.activate("require \"include\"; include \"none\";");
    fixture.send("eve@example.net", &[ANN], LETTER);
    assert!(fixture.errors()[0].1.contains("no script `none`"), "{:?}", fixture.errors());
    fixture.assert_clean();
}

#[test]
fn rules_that_fire_are_counted_once_for_each_message() {
    let fixture = fixture();
    let hits = |name: &str| -> Vec<(u32, u64)> {
        let snapshot = fixture.store.snapshot();
        let (id, _) = snapshot.script_by_name(fixture.ann, name).unwrap().unwrap();
        let hits = snapshot.script_hits(fixture.ann, id).unwrap();
        hits.into_iter().map(|(rule, row)| (rule, row.hits)).collect()
    };
    let included = "if header :contains \"subject\" \"hello\" { keep; }";
    let made = fixture
        .store
        .commit(fixture.ann, |txn| txn.create_script("part", included.as_bytes()).map(drop));
    made.unwrap().1.wait_blocking().unwrap();
    let source = "require [\"fileinto\", \"copy\", \"include\", \"variables\"];\n\
                  if header \"subject\" \"never\" { discard; }\n\
                  elsif true { fileinto :copy \"Archive\"; fileinto :copy \"Junk\"; }\n\
                  include \"part\";\n";
    fixture.activate(source);
    let at = |text: &str| u32::try_from(source.find(text).unwrap()).unwrap();
    assert!(hits("main").is_empty());
    fixture.deliver_letter();
    fixture.deliver_letter();
    assert_eq!((hits("main"), hits("part")), (vec![(at("true"), 1)], vec![(0, 1)]), "a retry");
    fixture.send("eve@example.net", &[ANN], LETTER);
    assert_eq!((hits("main"), hits("part")), (vec![(at("true"), 2)], vec![(0, 2)]));

    // A new source has no hits. A run that fails counts nothing (`b` is no address), nor does one
    // in which no rule fires.
    fixture.activate("require [\"variables\"]; set \"a\" \"b\"; redirect \"${a}\";");
    assert!(hits("main").is_empty());
    fixture.send("eve@example.com", &[ANN], LETTER);
    assert_eq!((hits("main"), fixture.errors().len()), (vec![], 1));
    fixture.activate("if false { discard; }");
    fixture.send("bob@example.com", &[ANN], LETTER);
    assert!(hits("main").is_empty());
    fixture.assert_clean();
}

/// Counters must cost nothing where no rule fires: not without scripts, nor with one.
#[test]
fn delivery_without_a_rule_that_fires_writes_no_row_of_hits() {
    let engine = Arc::new(MemoryEngine::new());
    let fixture = fixture_over(engine.clone());
    fixture.deliver_letter();
    fixture.activate("if header \"subject\" \"never\" { discard; }");
    fixture.send("eve@example.net", &[ANN], LETTER);
    assert_eq!(engine.rows(Table::ScriptHits), []);
    fixture.activate("keep;");
    fixture.send("eve@example.com", &[ANN], LETTER);
    assert_eq!(engine.rows(Table::ScriptHits).len(), 1);
}
