//! Tests of notifications by mail (RFC 5435, RFC 5436): what they say, and when none is sent.

use super::*;
use crate::message::header::Header;

impl Fixture {
    /// Delivers `mail` to a script that notifies with these arguments, and returns Subject and body
    /// of the notification; `None` if there is none.
    fn notify(&self, arguments: &str, mail: &str) -> Option<(String, String)> {
        let before = self.queued().len();
        self.activate(&format!("require \"enotify\";\nnotify {arguments};"));
        self.clock.advance(Duration::from_millis(1));
        // With the same sender, the same mail would be a retry.
        let sender = format!("bob{}@example.net", self.stored().len());
        assert!(self.send(&sender, &[ANN], mail)[0].starts_with("250"), "{arguments}");
        let notice = self.queued().into_iter().nth(before)?;
        assert_eq!(notice.kind, ActionKind::Notify);
        let text = String::from_utf8(self.action_message(&notice)).unwrap();
        let subject = Header::split(text.as_bytes()).first("Subject").unwrap().decoded();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        let body = body.replace("=\r\n", "").replace("=3D", "=");
        Some((subject, body))
    }

    fn set_max_notifications(&self, max_notifications: u16) {
        self.set_filter(FilterSettings { max_notifications, ..FilterSettings::default() });
    }
}

/// RFC 5436 §2.6, RFC 5435 §3.1, §3.8: nothing of the mail is shown that the script does not name.
#[test]
fn message_of_the_script_is_subject_and_body_of_its_notification() {
    let fixture = fixture();
    for uri in ["mailto:pager@example.com", "mailto:pager@example.com?subject=Other"] {
        let (subject, body) = fixture
            .notify(&format!(":message \"You have mail.\nRead it.\" \"{uri}\""), LETTER)
            .unwrap();
        assert_eq!(subject, "You have mail. Read it.", "{uri}");
        assert_eq!(body.trim_end(), "You have mail.\r\nRead it.", "{uri}");
    }
    // The body of the URI stays.
    let (subject, body) = fixture
        .notify(
            ":message \"You have mail\" \"mailto:pager@example.com?subject=x&body=Look\"",
            LETTER,
        )
        .unwrap();
    assert_eq!((subject.as_str(), body.trim_end()), ("You have mail", "Look"));
    // The body has all of a text that is too long for a subject (`MAX_SUBJECT_BYTES`, 400).
    let long = ["word"; 200].join(" ");
    let arguments = format!(":message \"{long}\" \"mailto:pager@example.com\"");
    let (subject, body) = fixture.notify(&arguments, LETTER).unwrap();
    assert!(subject.len() <= 400 && subject.starts_with("word word"), "{subject}");
    assert_eq!(body.trim_end(), long);
    fixture.assert_clean();
}

/// RFC 5436 §2.7 (subject), RFC 5435 §3.6 (body).
#[test]
fn notification_without_a_message_names_sender_and_subject_of_the_mail() {
    let fixture = fixture();
    let about_mail = "From: bob@example.net\r\nSubject: Hello";
    for (uri, subject, body) in [
        ("mailto:pager@example.com", "Hello", about_mail),
        ("mailto:pager@example.com?subject=Look", "Look", about_mail),
        ("mailto:pager@example.com?body=Look", "Hello", "Look"),
        ("mailto:pager@example.com?subject=Look&body=Now", "Look", "Now"),
    ] {
        let found = fixture.notify(&format!("\"{uri}\""), LETTER).unwrap();
        assert_eq!((found.0.as_str(), found.1.trim_end()), (subject, body), "{uri}");
    }
    let mails =
        ["From: Bob <bob@example.net>\n\nHi\n", "From: Bob <bob@example.net>\nSubject:\n\nHi\n"];
    for mail in mails {
        let (subject, body) = fixture.notify("\"mailto:pager@example.com\"", mail).unwrap();
        assert_eq!(subject, "New message", "{mail}");
        assert_eq!(body.trim_end(), "From: Bob <bob@example.net>", "{mail}");
    }
    let huge =
        format!("From: {}@example.net\nSubject: {}\n\nHi\n", "a".repeat(9000), "b ".repeat(9000));
    let (_, body) = fixture.notify("\"mailto:pager@example.com\"", &huge).unwrap();
    assert!(body.len() < 3000, "{}", body.len());
    fixture.assert_clean();
}

/// RFC 5293 §7, RFC 5436 §2.6.
#[test]
fn notification_shows_the_edited_header_and_is_bounded() {
    let fixture = fixture();
    fixture.activate(
        "require [\"editheader\", \"enotify\", \"variables\"];\n\
         deleteheader \"Subject\"; addheader \"Subject\" \"Ticket 7\";\n\
         notify \"mailto:pager@example.com\";\n\
         set \"a\" \"0123456789abcdef\"; set \"a\" \"${a}${a}${a}${a}${a}${a}${a}${a}\";\n\
         set \"a\" \"${a}${a}${a}${a}${a}${a}${a}${a}${a}${a}${a}${a}${a}${a}${a}${a}\";\n\
         notify :message \"${a}${a}${a}${a}${a}${a}${a}${a}${a}${a}\" \"mailto:eve@example.com\";",
    );
    fixture.deliver_letter();
    let texts: Vec<String> = fixture
        .queued()
        .iter()
        .map(|action| String::from_utf8(fixture.action_message(action)).unwrap())
        .collect();
    assert_eq!(texts.len(), 2);
    assert!(texts[0].contains("Subject: Ticket 7\r\n"), "{}", texts[0]);
    assert!((16 << 10..20 << 10).contains(&texts[1].len()), "{}", texts[1].len());
}

/// RFC 5436 §2.7.
#[test]
fn automatic_mail_causes_no_notification_and_a_step_says_why() {
    let fixture = fixture();
    let uri = "\"mailto:pager@example.com\"";
    for value in
        ["auto-notified; owner-email=\"x@example.net\"", "auto-replied", "Auto-Generated (cron)"]
    {
        let mail = format!("Auto-Submitted: {value}\n{LETTER}");
        assert_eq!(fixture.notify(uri, &mail), None, "{value}");
        let steps = fixture.last_steps().join("\n");
        let why = format!("no notification: the message is automatic (Auto-Submitted: {value})");
        assert!(steps.contains(&why), "{steps}");
    }
    for value in ["no", "No (by hand)", "no; x=auto-replied"] {
        let mail = format!("Auto-Submitted: {value}\n{LETTER}");
        assert!(fixture.notify(uri, &mail).is_some(), "{value}");
    }
    fixture.assert_clean();
}

#[test]
fn notification_beyond_the_hourly_limit_is_left_out_and_a_step_says_so() {
    let fixture = fixture();
    let mut settings = (*fixture.settings.get()).clone();
    settings.vacation.rate.account = 1;
    fixture.settings.set(settings);
    let uri = "\"mailto:pager@example.com\"";
    assert!(fixture.notify(uri, LETTER).is_some());
    assert_eq!(fixture.notify(uri, &LETTER.replace("Hello", "Hello again")), None);
    let steps = fixture.last_steps().join("\n");
    assert!(steps.contains("no notification to pager@example.com: too many in an hour"), "{steps}");
    fixture.assert_clean();
}

/// RFC 5435 §8 (2).
#[test]
fn site_limits_the_notifications_of_a_message() {
    let fixture = fixture();
    let notify = |n: u32| format!("notify \"mailto:pager{n}@example.com\";\n");
    fixture.set_max_notifications(1);
    fixture.activate(&format!("require \"enotify\";\n{}", notify(1)));
    fixture.deliver_letter();
    assert_eq!((fixture.queued().len(), fixture.errors().len()), (1, 0));
    fixture.activate(&format!("require \"enotify\";\n{}{}", notify(1), notify(2)));
    fixture.send("more@example.net", &[ANN], LETTER);
    let errors = fixture.errors();
    assert_eq!((fixture.queued().len(), errors.len()), (1, 1));
    assert!(errors[0].1.contains("notifications"), "{errors:?}");
    // Without notifications there is no `enotify` either.
    fixture.set_max_notifications(0);
    let source = b"require \"enotify\"; keep;";
    let filter = Arc::clone(&fixture.settings.get().filter);
    assert!(filter.check(source).script.is_none());
    assert!(FilterSettings::default().check(source).script.is_some());
    fixture.assert_clean();
}

/// The limits of redirects and notifications hold as they are configured. Of their sum, there is no
/// limit but `max_actions`.
#[test]
fn script_may_send_as_much_as_each_limit_allows() {
    let fixture = fixture();
    fixture.set_filter(FilterSettings { max_redirects: 9, ..FilterSettings::default() });
    let of = |count: u32, text: &str| {
        (0..count).map(|n| text.replace('#', &n.to_string())).collect::<String>()
    };
    let redirects = of(9, "redirect :copy \"a#@example.com\";\n");
    let notifications = of(4, "notify \"mailto:b#@example.com\";\n");
    fixture.activate(&format!("require [\"copy\", \"enotify\"];\n{redirects}{notifications}"));
    fixture.deliver_letter();
    assert_eq!((fixture.queued().len(), fixture.errors().len()), (13, 0));
    fixture.assert_clean();
}

/// RFC 5436 §2.2, RFC 8580 §6.1.
#[test]
fn script_can_ask_what_notifications_by_mail_can_do() {
    let fixture = fixture();
    let tests = [
        ("\"mailto:a@example.com\" \"online\" \"maybe\"", true),
        ("\"mailto:a@example.com\" \"online\" \"yes\"", false),
        ("\"mailto:\" \"online\" \"maybe\"", false),
        ("\"mailto:\" \"fcc\" \"yes\"", true),
        ("\"MAILTO:\" \"fcc\" \"yes\"", true),
        ("\"mailto:a\" \"fcc\" \"yes\"", false),
        ("\"xmpp:\" \"fcc\" \"yes\"", false),
    ];
    for (n, (test, is_true)) in tests.into_iter().enumerate() {
        let before = fixture.stored().len();
        fixture.activate(&format!(
            "require [\"enotify\", \"fcc\"]; if notify_method_capability {test} {{ discard; }}"
        ));
        fixture.send(&format!("bob{n}@example.net"), &[ANN], LETTER);
        assert_eq!(fixture.stored().len() == before, is_true, "{test}");
    }
}
