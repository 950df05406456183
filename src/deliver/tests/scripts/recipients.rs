//! Tests of messages to several recipients of one account, in one LMTP transaction and in several:
//! the scripts decide for each recipient by itself.

use super::*;

/// A script that does another thing for each detail in the recipient's address. Without a detail,
/// the message is kept.
const BY_DETAIL: &str = r#"require ["envelope", "subaddress", "fileinto", "mailbox", "reject",
    "copy", "enotify", "vacation"];
if envelope :detail "to" "trap" { discard; }
elsif envelope :detail "to" "no" { reject "No."; }
elsif envelope :detail "to" "away" { vacation "Away."; }
elsif envelope :detail "to" "on" { redirect "eve@example.com"; }
elsif envelope :detail "to" "tell" { notify "mailto:pager@example.com"; }
elsif envelope :detail "to" "a" { fileinto :create "A"; }
elsif envelope :detail "to" "b" { fileinto :create "B"; }
"#;

const TRAP: &str = "ann+trap@example.org";
const NO: &str = "ann+no@example.org";
const AWAY: &str = "ann+away@example.org";
const ON: &str = "ann+on@example.org";
const A: &str = "ann+a@example.org";
const B: &str = "ann+b@example.org";

/// Sends the letter to recipients in one transaction, and returns the replies without the ids of
/// emails.
fn send(fixture: &Fixture, to: &[&str]) -> Vec<String> {
    fixture.clock.advance(Duration::from_millis(1));
    let plain = |reply: String| match reply.split_once(" as ") {
        Some((text, _)) => text.to_owned(),
        None => reply,
    };
    fixture.send(BOB, to, LETTER).into_iter().map(plain).collect()
}

fn by_detail() -> Fixture {
    let fixture = fixture();
    fixture.activate(BY_DETAIL);
    fixture
}

#[test]
fn discard_or_refusal_for_one_recipient_covers_no_other_one() {
    for (first, reply, again) in
        [(TRAP, "250 delivered", "250 already filed"), (NO, "550 No.", "550 No.")]
    {
        let expect = |to: &str, of_ann: &str, of_first: &str| {
            if to == ANN { of_ann.to_owned() } else { of_first.to_owned() }
        };
        for to in [[first, ANN], [ANN, first]] {
            let fixture = by_detail();
            assert_eq!(send(&fixture, &to), to.map(|to| expect(to, "250 filed", reply)), "{to:?}");
            let repeated = to.map(|to| expect(to, "250 already filed", again));
            assert_eq!(send(&fixture, &to), repeated, "a retry of {to:?}");
            assert_eq!(fixture.stored(), ["Inbox"], "{to:?}");
            fixture.assert_clean();

            // Each in a transaction of its own.
            let fixture = by_detail();
            for one in to {
                assert_eq!(send(&fixture, &[one]), [expect(one, "250 filed", reply)], "{to:?}");
            }
            for one in to {
                let repeated = expect(one, "250 already filed", again);
                assert_eq!(send(&fixture, &[one]), [repeated], "a retry of {to:?}");
            }
            assert_eq!(fixture.stored(), ["Inbox"], "{to:?}");
            fixture.assert_clean();
        }
    }
}

#[test]
fn mailboxes_of_all_recipients_are_joined_in_one_email() {
    let fixture = by_detail();
    assert_eq!(send(&fixture, &[A, TRAP, B]), ["250 filed", "250 delivered", "250 filed"]);
    assert_eq!(fixture.stored(), ["A B"]);
    fixture.assert_clean();

    let fixture = by_detail();
    assert_eq!(send(&fixture, &[A]), ["250 filed"]);
    assert_eq!(send(&fixture, &[A, B]), ["250 already filed", "250 already filed"]);
    assert_eq!(fixture.stored(), ["A B"]);
    // What the owner has destroyed does not come back.
    let id = fixture.store.snapshot().emails(fixture.ann, None, 9).unwrap()[0].0;
    let destroyed = fixture.store.commit(fixture.ann, |txn| txn.destroy_email(id));
    destroyed.unwrap().1.wait_blocking().unwrap();
    assert_eq!(send(&fixture, &[ANN]), ["250 already filed"]);
    assert_eq!(fixture.stored(), Vec::<String>::new());
    fixture.assert_clean();
}

#[test]
fn each_version_is_an_email_that_recipients_share() {
    let fixture = fixture();
    fixture.activate(
        "require [\"envelope\", \"subaddress\", \"editheader\"];\n\
         if envelope :detail \"to\" [\"a\", \"b\"] { addheader \"X-Tag\" \"1\"; }",
    );
    assert_eq!(send(&fixture, &[ANN, A, B]), ["250 filed"; 3]);
    assert_eq!(fixture.stored(), ["Inbox", "Inbox"]);
    assert_eq!(send(&fixture, &[ANN, A]), ["250 already filed"; 2]);
    assert_eq!(fixture.stored().len(), 2);
    fixture.assert_clean();
}

#[test]
fn actions_of_a_further_recipient_are_done_once() {
    let fixture = by_detail();
    assert_eq!(send(&fixture, &[ANN]), ["250 filed"]);
    for _ in 0..2 {
        send(&fixture, &[ON, "ann+tell@example.org", "lee+tell@example.org"]);
    }
    let kinds: Vec<ActionKind> = fixture.queued().iter().map(|action| action.kind).collect();
    assert_eq!(kinds, [ActionKind::Redirect, ActionKind::Notify]);
    assert_eq!(fixture.stored(), ["Inbox"]);
    // The redirect, and once for both recipients with `tell`: the notification and the keep.
    assert_eq!(fixture.last_steps().len(), 3, "{:?}", fixture.last_steps());
    fixture.assert_clean();
}

#[test]
fn sender_gets_one_answer_for_all_recipients() {
    let replies = |fixture: &Fixture| {
        fixture.queued().iter().filter(|action| action.kind == ActionKind::Reply).count()
    };
    // The answer of a script goes before the response.
    for to in [[ANN, AWAY], [AWAY, ANN]] {
        let fixture = by_detail();
        fixture.enable_response("The response");
        send(&fixture, &to);
        assert_eq!(replies(&fixture), 1);
        let text = String::from_utf8(fixture.action_message(&fixture.queued()[0])).unwrap();
        assert!(text.contains("Away.") && !text.contains("The response"), "{text}");
        send(&fixture, &to);
        assert_eq!(replies(&fixture), 1);
        fixture.assert_clean();
    }
    // A discarded copy does not silence the response to the one that is kept.
    let fixture = by_detail();
    fixture.enable_response("The response");
    send(&fixture, &[TRAP]);
    assert_eq!((replies(&fixture), fixture.last_reason().as_str()), (0, "script"));
    send(&fixture, &[ANN]);
    assert_eq!((replies(&fixture), fixture.last_reason().as_str()), (1, "answered"));
    // The message was filed before, for Ann without a detail.
    send(&fixture, &[B]);
    assert_eq!((replies(&fixture), fixture.last_reason().as_str()), (1, "script"));
    fixture.assert_clean();
}

/// The client, which gets an error for each recipient, sends everything again.
#[test]
fn delivery_that_is_not_durable_is_done_whole_by_the_retry() {
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let fixture = fixture_over(engine.clone());
    fixture.activate(BY_DETAIL);
    engine.fail_after(0, Error::Full);
    let replies = send(&fixture, &[NO, ON, A]);
    assert!(replies.iter().all(|reply| reply.starts_with("452")), "{replies:?}");
    engine.heal();
    assert_eq!((fixture.stored(), fixture.queued()), (vec![], vec![]));
    assert_eq!(send(&fixture, &[NO, ON, A]), ["550 No.", "250 delivered", "250 filed"]);
    assert_eq!((fixture.stored(), fixture.queued().len()), (vec!["A".to_owned()], 1));
    fixture.assert_clean();
}

/// An equal notification for several recipients is one, and so is its copy.
#[test]
fn copy_of_a_notification_for_several_recipients_is_filed_once() {
    let fixture = fixture();
    fixture.activate(
        "require [\"enotify\", \"fcc\", \"mailbox\"];\n\
         notify :fcc \"Told\" :create :message \"You have mail\" \"mailto:pager@example.com\";",
    );
    let told = |fixture: &Fixture| {
        fixture.stored().iter().filter(|mailboxes| *mailboxes == "Told").count()
    };
    for to in [&[ANN, A, B][..], &[ANN, A], &["lee@example.org"]] {
        send(&fixture, to);
        assert_eq!((fixture.queued().len(), told(&fixture)), (1, 1), "{to:?}");
    }
    // The message and the copy, which is the message that is sent.
    assert_eq!(fixture.stored().len(), 2);
    let message_id = fixture.queued().remove(0).message_id;
    let snapshot = fixture.store.snapshot();
    let emails = snapshot.emails(fixture.ann, None, 9).unwrap();
    let has_id = |id| {
        let bytes = snapshot.message(fixture.ann, id).unwrap().unwrap();
        String::from_utf8(bytes).unwrap().contains(&message_id)
    };
    assert_eq!(emails.iter().filter(|(id, _)| has_id(*id)).count(), 1);
    // A text for each of two recipients: two more notifications, with a copy each.
    fixture.activate(
        "require [\"enotify\", \"fcc\", \"envelope\", \"variables\"];\n\
         if envelope :matches \"to\" \"*\" { set \"to\" \"${1}\"; }\n\
         notify :fcc \"Told\" :message \"For ${to}\" \"mailto:pager@example.com\";",
    );
    fixture.send("eve@example.net", &[ANN, A], LETTER);
    assert_eq!((fixture.queued().len(), told(&fixture)), (3, 3));
    fixture.assert_clean();
}

#[test]
fn rule_is_counted_once_for_all_recipients() {
    let fixture = fixture();
    fixture.activate(
        "require [\"envelope\", \"subaddress\", \"fileinto\"];\n\
         if true { fileinto \"Archive\"; }\n\
         if envelope :detail \"to\" \"a\" { keep; }\n\
         if envelope :detail \"to\" \"b\" { keep; }\n",
    );
    send(&fixture, &[ANN, A, B]);
    let snapshot = fixture.store.snapshot();
    let (id, _) = snapshot.script_by_name(fixture.ann, "main").unwrap().unwrap();
    let hits = snapshot.script_hits(fixture.ann, id).unwrap();
    let hits: Vec<u64> = hits.into_values().map(|row| row.hits).collect();
    assert_eq!(hits, [1, 1, 1]);
    fixture.assert_clean();
}
