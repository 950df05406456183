//! Tests of scripts that cannot do all that they say: where the message goes then, and what the
//! owner learns by the steps of the decision and by the errors of scripts.

use super::*;
use crate::model::limits;

/// RFC 5228 §2.10.6.
#[test]
fn warnings_of_a_run_are_steps_of_the_decision() {
    let fixture = fixture();
    fixture.activate(
        "require [\"fileinto\", \"imap4flags\"];\n\
         addflag \"\\\\Nonsense\";\n\
         fileinto \"Nowhere\";",
    );
    fixture.deliver_letter();
    assert_eq!(
        fixture.last_steps(),
        [
            "main:2 warning: `\\Nonsense` is no flag: it is ignored",
            "main:3 warning: there is no mailbox `Nowhere`: the Inbox takes its place",
            "main:3 keep",
        ]
    );
    assert_eq!((fixture.stored(), fixture.errors()), (vec!["Inbox".to_owned()], vec![]));
    // Equal warnings are one step, even if their texts are cut. However many warnings there are,
    // the actions have steps, too.
    let flags = |n: u32| format!("addflag \"\\\\a{n}\";");
    let many: String = (0..80).map(flags).collect();
    let long = format!("addflag \"\\\\{}\";", "b".repeat(limits::MAX_FILTER_STEP_BYTES));
    let equal = flags(0).repeat(9) + &long.repeat(9);
    fixture.activate(&format!("require \"imap4flags\"; {equal}{many} keep;"));
    fixture.clock.advance(Duration::from_millis(1));
    fixture.send("eve@example.net", &[ANN], LETTER);
    let steps = fixture.last_steps();
    assert!(steps.contains(&"main:1 keep".to_owned()), "{steps:?}");
    for flag in ["`\\a0`", "`\\bbb"] {
        assert_eq!(steps.iter().filter(|step| step.contains(flag)).count(), 1, "{steps:?}");
    }
}

/// RFC 5228 §4.2: a redirect that is left out keeps the message.
#[test]
fn owner_learns_of_a_redirect_that_is_left_out_because_of_a_loop() {
    let looped = format!("Delivered-To: Ann@example.org\n{LETTER}");
    // Scripts redirect no message with more than 50 Received fields (`RunLimits::received`).
    let received = format!("{}{LETTER}", "Received: from a\n".repeat(60));
    for (message, what) in [(looped, "here before"), (received, "redirected too often")] {
        let fixture = fixture();
        fixture.activate("\nredirect \"eve@example.com\";");
        fixture.send(BOB, &[ANN], &message);
        assert_eq!((fixture.stored(), fixture.queued()), (vec!["Inbox".to_owned()], vec![]));
        let [(line, text)] = <[(u32, String); 1]>::try_from(fixture.errors()).unwrap();
        assert!(line == 2 && text.contains(what), "{line} {text}");
        let steps = fixture.last_steps();
        assert!(steps.iter().any(|step| step.contains(what)), "{steps:?}");
    }
}

/// RFC 5490 §3.2.
#[test]
fn owner_learns_of_a_mailbox_that_cannot_be_created() {
    let fixture = fixture();
    let path = deep_path();
    let source = format!("require [\"fileinto\", \"mailbox\"];\nfileinto :create \"{path}\";");
    fixture.activate(&source);
    assert!(fixture.deliver_letter().starts_with("250 filed"));
    assert_eq!(fixture.stored(), ["Inbox"]);
    let [(line, text)] = <[(u32, String); 1]>::try_from(fixture.errors()).unwrap();
    assert_eq!((line, text.contains("could not be created")), (2, true), "{text}");
    let steps = fixture.last_steps();
    let is_warning =
        |step: &String| step.starts_with("main:2 ") && step.contains("could not be created");
    assert!(steps.iter().any(is_warning), "{steps:?}");
    fixture.assert_clean();
}

#[test]
fn owner_learns_if_the_mailbox_of_a_copy_cannot_be_created() {
    let path = deep_path();
    for (extension, command) in [("vacation", "vacation"), ("enotify", "notify :message \"Mail\"")]
    {
        let fixture = fixture();
        let argument = if extension == "vacation" { "Away" } else { "mailto:pager@example.com" };
        fixture.activate(&format!(
            "require [\"{extension}\", \"fcc\", \"mailbox\"];\n\
             {command} :fcc \"{path}\" :create \"{argument}\";"
        ));
        fixture.deliver_letter();
        let mut stored = fixture.stored();
        stored.sort();
        assert_eq!((stored, fixture.queued().len()), (vec!["Inbox".into(), "Sent".into()], 1));
        let [(line, text)] = <[(u32, String); 1]>::try_from(fixture.errors()).unwrap();
        assert_eq!((line, text.contains("could not be created")), (2, true), "{text}");
        let steps = fixture.last_steps();
        assert!(steps.iter().any(|step| step.contains("could not be created")), "{steps:?}");
        fixture.assert_clean();
    }
}

/// The quota has room for the message, and for no copy.
#[test]
fn owner_learns_that_a_copy_is_not_filed_if_its_mailbox_cannot_be_created_and_the_quota_is_full() {
    let fixture = fixture();
    let path = deep_path();
    fixture.activate(&format!(
        "require [\"vacation\", \"fcc\", \"mailbox\"];\n\
         vacation :fcc \"{path}\" :create \"Away\";"
    ));
    fixture.directory.update(fixture.ann, |row| row.quota_emails = Some(1)).unwrap();
    fixture.deliver_letter();
    assert_eq!((fixture.stored(), fixture.queued().len()), (vec!["Inbox".to_owned()], 1));
    let [(line, text)] = <[(u32, String); 1]>::try_from(fixture.errors()).unwrap();
    assert_eq!((line, text.ends_with(": no copy is filed")), (2, true), "{text}");
    fixture.assert_clean();
}

/// RFC 5429 §2.4. The redirect is not sent, since the message was here before.
#[test]
fn message_whose_redirect_is_not_sent_is_kept_unless_it_is_refused() {
    let looped = format!("Delivered-To: Ann@example.org\n{LETTER}");
    for (before, own, reply, is_kept) in [
        ("redirect :copy \"eve@example.com\";", "discard;", "250 filed", true),
        ("redirect :copy \"eve@example.com\";", "reject \"No.\";", "550 No.", false),
        ("redirect \"eve@example.com\"; keep;", "reject \"No.\";", "550 No.", false),
        ("redirect \"eve@example.com\"; keep;", "discard;", "250 filed", true),
        ("redirect :copy \"eve@example.com\"; redirect \"eve@example.com\";", "", "250", true),
        ("redirect :copy \"eve@example.com\";", "redirect \"eve@example.com\";", "250", true),
        ("redirect \"eve@example.com\";", "", "250 filed", true),
    ] {
        let fixture = fixture();
        let before = format!("require \"copy\"; {before}");
        fixture.set_filter(FilterSettings {
            before: vec![SiteScript::new("before", before.as_bytes())],
            ..FilterSettings::default()
        });
        fixture.activate(&format!("require \"reject\"; {own}"));
        let replies = fixture.send(BOB, &[ANN], &looped);
        assert!(replies[0].starts_with(reply), "{before} {own}: {replies:?}");
        assert_eq!(fixture.stored().len(), usize::from(is_kept), "{before} {own}");
        assert_eq!(fixture.queued(), []);
        fixture.assert_clean();
    }
}
