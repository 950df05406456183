//! Tests of replies in unusual cases: what strangers put into a header, what owners and scripts ask
//! for, and which From and To a reply gets.

use super::reply::VacationReply;
use super::*;
use crate::message::auto::AutoReplyFacts;
use crate::message::header::{body_offset, fields, first};
use crate::message::{Message, parse};
use crate::model::{
    Address, Circle, EmailAddress, Identity, ToldLifetime, UtcMillis, VacationResponse, Variant,
};

const SECRET: [u8; 32] = [5; 32];
const NOW: UtcMillis = UtcMillis(1_795_251_600_000); // 2026-11-21T09:00:00Z, a Saturday

fn address(text: &str) -> Address {
    Address::parse(text).unwrap()
}

fn identity() -> Identity {
    Identity {
        primary: address("ann@example.org"),
        name: Some("Ann Lee".into()),
        addresses: vec![address("ann@example.org"), address("a.lee@example.org")],
        alias_domains: vec![("example.com".into(), "example.org".into())],
        delimiter: Some('+'),
        zone: Some("Europe/Berlin".into()),
    }
}

struct SentReply {
    reply: VacationReply,
    text: String,
}

impl SentReply {
    fn field(&self, name: &str) -> Option<String> {
        first(self.text.as_bytes(), name).map(|field| field.decoded())
    }

    fn from(&self) -> String {
        parse::addresses(first(self.text.as_bytes(), "From").unwrap().value).remove(0).email
    }

    fn body_text(&self) -> String {
        Message::parse(self.text.as_bytes()).texts(1 << 20).join("")
    }
}

/// Replies to a message by a notice, and checks what every reply must have.
fn reply_by_notice(
    notice: &Notice<'_>,
    header: &[u8],
    sender: &str,
    (recipient, known_as): (&str, Option<&str>),
) -> SentReply {
    let (identity, facts) =
        (identity(), AutoReplyFacts::of(&[header, b"\r\n\r\nhello\r\n"].concat()));
    let (sender, recipient, known_as) =
        (address(sender), address(recipient), known_as.map(address));
    let input = Input {
        now: NOW,
        sender: Some(&sender),
        recipient: &recipient,
        known_as: known_as.as_ref(),
        identity: &identity,
        notice,
        facts: &facts,
        forged: None,
        junk: false,
        secret: &SECRET,
        settings: &Settings::default(),
        nonce: 7,
    };
    // The directory resolves the account's own addresses and all of shop.example to it.
    let reply = reply(&input, &sender, |address| {
        identity.is_me(address) || address.domain() == "shop.example"
    });
    let text = String::from_utf8(reply.message.clone()).unwrap();
    assert!(!text.replace("\r\n", "").contains(['\r', '\n', '\0']), "{text}");
    assert!(text.lines().all(|line| line.len() <= 998), "{text}");
    let head = &text[..body_offset(text.as_bytes())];
    assert!(head.is_ascii(), "{head}");
    for name in [
        "From",
        "To",
        "Subject",
        "Date",
        "Message-ID",
        "MIME-Version",
        "Auto-Submitted",
        "Precedence",
    ] {
        assert_eq!(
            fields(text.as_bytes()).filter(|field| field.is(name)).count(),
            1,
            "{name}\n{text}"
        );
    }
    for name in ["Bcc", "Cc", "X-Evil"] {
        assert!(first(text.as_bytes(), name).is_none(), "{name}\n{text}");
    }
    SentReply { reply, text }
}

fn reply_by_response(response: &VacationResponse, header: &str, sender: &str) -> SentReply {
    let facts = AutoReplyFacts::of(format!("{header}\r\n\r\nx").as_bytes());
    let notice = Notice::of_response(response, &identity(), Some(&address(sender)), &facts, NOW);
    reply_by_notice(&notice, header.as_bytes(), sender, ("ann@example.org", None))
}

fn away() -> VacationResponse {
    VacationResponse {
        enabled: true,
        text_body: Some("Away.".into()),
        ..VacationResponse::default()
    }
}

#[test]
fn value_of_a_stranger_cannot_begin_a_header_field() {
    for header in [
        "Subject: =?utf-8?q?x=0D=0AX-Evil:_1=0D=0A=0D=0Abody?=",
        "Subject: =?utf-8?b?eA0KWC1FdmlsOiAx?=",
        "Subject: a\r\n X-Evil: 1",
        "Subject: a\rX-Evil: 1",
        "Subject: a\0b\u{85}X-Evil: 1\u{2028}X-Evil: 2",
        "From: =?utf-8?q?Bob=0D=0AX-Evil:_1?= <bob@example.net>",
        "From: \"Bob\\\r\nX-Evil: 1\" <bob@example.net>\r\nSubject: x",
        "Message-ID: <a\rX-Evil: 1@x>\r\nSubject: x",
        "References: <a@x\r\n\tX-Evil: 1> <b@x>\r\nMessage-ID: <c@x>\r\nSubject: x",
        "In-Reply-To: <=?utf-8?q?=0D=0AX-Evil:_1?=@x>\r\nMessage-ID: <c@x>",
    ] {
        let reply = reply_by_response(&away(), header, "bob@example.net");
        assert!(!reply.text.contains("\nX-Evil"), "{header:?}\n{}", reply.text);
    }
    // A value of the owner cannot either.
    let response = VacationResponse {
        subject: Some("Away\r\nX-Evil: 1".into()),
        from: Some(EmailAddress {
            name: Some("Ann\r\nX-Evil: 1".into()),
            email: "ann@example.org".into(),
        }),
        reply_to: Some(EmailAddress {
            name: Some("A\nX-Evil: 1".into()),
            email: "desk@example.org\r\nX-Evil:1".into(),
        }),
        language: Some("de\r\nX-Evil: 1".into()),
        ..away()
    };
    reply_by_response(&response, "Subject: x", "bob@example.net");
}

#[test]
fn long_and_non_ascii_subjects_and_names_are_encoded_and_folded() {
    let long = "Übergrößenträger ".repeat(60);
    let header = format!("Subject: {long}\r\nFrom: {long} <bob@example.net>");
    let reply = reply_by_response(&away(), &header, "bob@example.net");
    let subject = reply.field("Subject").unwrap();
    // 200 characters of at most two bytes are repeated.
    assert!(
        subject.starts_with("Auto: Übergrößenträger Übergrößenträger") && subject.len() <= 420,
        "{subject}"
    );
    // Without folding, the header would have fewer lines.
    let folded = reply.text.lines().take_while(|line| !line.is_empty());
    assert!(
        folded.clone().all(|line| line.len() <= 998) && folded.clone().count() > 12,
        "{}",
        reply.text
    );
    // Raw bytes of an unknown charset may be shown wrongly, but are never sent raw.
    let raw = b"Subject: Gr\xfc\xdfe \x80\xff\r\nTo: ann@example.org";
    let response = away();
    let notice = Notice::of_response(&response, &identity(), None, &AutoReplyFacts::default(), NOW);
    let reply = reply_by_notice(&notice, raw, "bob@example.net", ("ann@example.org", None));
    assert!(reply.field("Subject").unwrap().starts_with("Auto: Gr"), "{}", reply.text);
    // An existing `Auto:` is not repeated, and a subject of blanks counts as empty.
    for (given, wanted) in
        [("AUTO: x", "AUTO: x"), (" \t ", "Automated reply"), ("=?utf-8?q?_?=", "Automated reply")]
    {
        assert_eq!(
            reply_by_response(&away(), &format!("Subject: {given}"), "bob@example.net")
                .field("Subject")
                .unwrap(),
            wanted
        );
    }
}

#[test]
fn long_lines_and_non_ascii_characters_survive_in_the_text() {
    let text = format!("{}\nGrüße 🌴\n.\n..dots\nFrom here\n--\nAnn", "x".repeat(5000));
    let html = format!("<p>{}</p>", "Übersee ".repeat(700));
    let both = VacationResponse { text_body: Some(text.clone()), html_body: Some(html), ..away() };
    let reply = reply_by_response(&both, "Subject: x", "bob@example.net");
    assert!(reply.text.is_ascii() && reply.text.contains("multipart/alternative"));
    assert_eq!(reply.body_text().replace("\r\n", "\n").trim_end(), text);
    // A text is made from HTML alone, and there is a default text without either (RFC 8621 §8).
    let html = VacationResponse {
        text_body: None,
        html_body: Some("<p>Fort &amp; weg</p>".into()),
        ..away()
    };
    let reply = reply_by_response(&html, "Subject: x", "bob@example.net");
    assert!(
        reply.text.contains("multipart/alternative") && reply.body_text().contains("Fort & weg"),
        "{}",
        reply.text
    );
    let neither = VacationResponse { text_body: None, ..away() };
    assert!(
        reply_by_response(&neither, "Subject: x", "bob@example.net")
            .body_text()
            .contains("I am away")
    );
}

#[test]
fn references_keep_the_first_and_the_last() {
    let many: String = (0..300).map(|n| format!("<{n}@x>\r\n ")).collect();
    let header = format!("References: {many}\r\nIn-Reply-To: <299@x>\r\nMessage-ID: <own@x>");
    let reply = reply_by_response(&away(), &header, "bob@example.net");
    let ids = crate::message::refs::message_ids(
        first(reply.text.as_bytes(), "References").unwrap().value,
    );
    assert_eq!(
        (ids.len(), ids[0].as_str(), ids[18].as_str(), ids[19].as_str()),
        (20, "0@x", "299@x", "own@x")
    );
    assert_eq!(reply.field("In-Reply-To").unwrap(), "<own@x>");
    let references =
        |header: &str| reply_by_response(&away(), header, "bob@example.net").field("References");
    assert_eq!(references("In-Reply-To: <1@x>\r\nMessage-ID: <2@x>").unwrap(), "<1@x> <2@x>");
    assert_eq!(references("In-Reply-To: <0@x> <1@x>\r\nMessage-ID: <2@x>").unwrap(), "<2@x>");
    assert_eq!(references("References: <1@x>"), None);
    // An id that does not fit into a line is left out.
    let long = format!("Message-ID: <{}@x>\r\nSubject: x", "y".repeat(985));
    assert_eq!(
        (
            references(&long),
            reply_by_response(&away(), &long, "bob@example.net").field("In-Reply-To")
        ),
        (None, None)
    );
}

#[test]
fn reply_is_from_the_own_address_that_the_sender_used() {
    let response = away();
    let notice = Notice::of_response(&response, &identity(), None, &AutoReplyFacts::default(), NOW);
    let from = |header: &str, recipient: &str, known_as| {
        reply_by_notice(&notice, header.as_bytes(), "bob@example.net", (recipient, known_as)).from()
    };
    assert_eq!(
        from("To: x@example.net\r\nCc: A.Lee@Example.Org", "ann@example.org", None),
        "A.Lee@Example.Org"
    );
    assert_eq!(
        from("To: ann+shop@example.com", "ann+shop@example.com", None),
        "ann+shop@example.com"
    );
    // A catch-all, and a Bcc to an address that the directory resolves to the account.
    assert_eq!(from("To: any@shop.example", "any@shop.example", None), "any@shop.example");
    assert_eq!(from("Subject: x", "ann@example.org", Some("old@shop.example")), "old@shop.example");
    // An address of somebody else in To is never used.
    assert_eq!(from("To: boss@example.net", "ann@example.org", None), "ann@example.org");
    let mut set = away();
    for (from, wanted) in
        [("desk@shop.example", "desk@shop.example"), ("desk@example.net", "a.lee@example.org")]
    {
        set.from = Some(EmailAddress { name: Some("Desk".into()), email: from.into() });
        assert_eq!(
            reply_by_response(&set, "To: a.lee@example.org", "bob@example.net").from(),
            wanted
        );
    }
}

#[test]
fn reply_is_to_the_envelope_sender_with_the_name_in_from() {
    let header = "From: Bob B. <bob@example.net>\r\nReply-To: eve@example.com\r\n\
                  Sender: eve@example.com\r\nSubject: x";
    for (sender, to) in [
        ("bob@example.net", "\"Bob B.\" <bob@example.net>"),
        ("prvs=0123456789=bob@example.net", "\"Bob B.\" <prvs=0123456789=bob@example.net>"),
        ("other@example.net", "<other@example.net>"),
        // An address within a tag of another domain is not the sender's.
        (
            "SRS0=ab12=XY=example.net=bob@attacker.example",
            "<SRS0=ab12=XY=example.net=bob@attacker.example>",
        ),
        ("bob@b\u{fc}cher.example", "<bob@xn--bcher-kva.example>"),
    ] {
        let reply = reply_by_response(&away(), header, sender);
        assert_eq!(reply.field("To").unwrap(), to);
        assert_eq!(reply.reply.recipient, address(sender));
    }
}

#[test]
fn text_of_a_reply_is_chosen_by_circle_and_language() {
    let variant = |language: Option<&str>, circle, text: &str| Variant {
        language: language.map(str::to_owned),
        circle,
        text_body: Some(text.into()),
        ..Variant::default()
    };
    let mut response = VacationResponse { language: Some("en".into()), ..away() };
    response.variants = vec![
        variant(Some("de"), None, "Weg."),
        variant(None, Some(Circle::Organisation), "In Rome, ask Bob, extension 7."),
    ];
    let reply = reply_by_response(
        &response,
        "Accept-Language: de-AT, en;q=0.5\r\nSubject: x",
        "bob@example.net",
    );
    assert_eq!(
        (reply.body_text().trim_end(), reply.field("Content-Language").as_deref()),
        ("Weg.", Some("de"))
    );
    let reply =
        reply_by_response(&response, "Accept-Language: de\r\nSubject: x", "bob@example.com");
    assert!(reply.body_text().starts_with("In Rome") && reply.field("Content-Language").is_none());
    // The reply goes to the outermost domain (RFC 3834 §6), and a forwarder sends it on to the
    // address within. So each must be of the organisation.
    for (sender, is_inside) in [
        ("prvs=0123456789=bob@example.org", true),
        ("SRS0=ab12=XY=example.com=bob@example.org", true),
        ("SRS0=ab12=XY=example.org=boss@attacker.example", false),
        ("SRS0=ab12=XY=attacker.example=boss@example.org", false),
        ("SRS1=zz=example.org==ab12=XY=example.org=boss@attacker.example", false),
        ("SRS0=ab12=XY=example.org=prvs=0123=boss@attacker.example", false),
        ("prvs=0123456789=boss=example.org@attacker.example", false),
        ("boss+example.org=x@attacker.example", false),
    ] {
        assert_eq!(
            reply_by_response(&response, "Subject: x", sender).body_text().starts_with("In Rome"),
            is_inside,
            "{sender}"
        );
    }
    assert_eq!(
        reply_by_response(&response, "Subject: x", "bob@example.net")
            .field("Content-Language")
            .as_deref(),
        Some("en")
    );
}

#[test]
fn recurring_days_bound_the_reply_and_the_told_row() {
    let response = VacationResponse {
        days: vec!["saturday".parse().unwrap()],
        text_body: Some("Back after {until}.".into()),
        generation: 3,
        ..away()
    };
    let reply = reply_by_response(&response, "Subject: x", "bob@example.net");
    assert_eq!(reply.body_text().trim_end(), "Back after 2026-11-21.");
    assert_eq!(reply.reply.until, UtcMillis::parse_rfc3339("2026-11-21T23:00:00Z"));
    let notice = Notice::of_response(&response, &identity(), None, &AutoReplyFacts::default(), NOW);
    let since = UtcMillis::parse_rfc3339("2026-11-20T23:00:00Z");
    assert_eq!(notice.memory, ToldLifetime::Response { generation: 3, since });
}

fn script(reason: &str) -> Script {
    Script {
        reason: reason.into(),
        unexpanded: ScriptArguments { reason: reason.into(), ..ScriptArguments::default() },
        ..Script::default()
    }
}

#[test]
fn reply_of_a_script_has_the_arguments_of_its_action() {
    let reply = |script: &Script| {
        reply_by_notice(
            &Notice::of_script(script),
            b"To: ann@example.org\r\nSubject: x",
            "bob@example.net",
            ("ann@example.org", None),
        )
    };
    // Braces in the text of a script are no placeholders: scripts have variables (RFC 5229).
    let plain = reply(&script("Away, {from}: {until}"));
    assert_eq!(
        (plain.body_text().trim_end(), plain.field("Subject").unwrap().as_str()),
        ("Away, {from}: {until}", "Auto: x")
    );
    // `:from` is ignored unless it is an own address (RFC 5230 §4.3).
    let from = |from: &str| reply(&Script { from: Some(from.into()), ..script("Away") }).from();
    assert_eq!(from("Ann <a.lee@example.org>"), "a.lee@example.org");
    assert_eq!(from("boss@example.net"), "ann@example.org");
    assert_eq!(from("no address"), "ann@example.org");
    let mut named = script("Away");
    (named.from, named.addresses) =
        (Some("old@example.net".into()), vec!["old@example.net".into(), "nonsense".into()]);
    assert_eq!(
        reply(&named).from(),
        "ann@example.org",
        "`:addresses` does not make an address the account's own"
    );
    // `:mime` (RFC 5230 §4.4).
    let mime = Script {
        mime: true,
        ..script(
            "Content-Type: text/html; charset=utf-8\r\nX-Evil: 1\r\n\r\n\
             <p>Fort: Gr\u{fc}\u{df}e</p>",
        )
    };
    let mime = reply(&mime);
    assert!(
        mime.text.contains("Content-Type: text/html; charset=utf-8\r\n") && mime.text.is_ascii(),
        "{}",
        mime.text
    );
    assert!(mime.body_text().contains("Fort: Gr\u{fc}\u{df}e"), "{}", mime.text);
    // The reply names where its copy is filed (RFC 8580).
    let fcc = Fcc { mailbox: "Answers".into(), keywords: vec!["$seen".into()], ..Fcc::default() };
    assert_eq!(reply(&Script { fcc: Some(fcc.clone()), ..script("Away") }).reply.fcc, Some(fcc));
}

#[test]
fn reply_of_a_script_is_remembered_by_handle_or_else_by_arguments() {
    let bob = address("bob@example.net");
    let key = |script: &Script| told_key(&SECRET, &Notice::of_script(script).handle, &bob);
    let away = script("Away");
    assert_eq!(
        key(&away),
        key(&Script { reason: "Away, Bob".into(), ..away.clone() }),
        "an action is the same whatever its variables expand to"
    );
    let mut others = vec![away.clone(), script("Gone"), Script { mime: true, ..away.clone() }];
    // The last two differ only in where `from` ends and `subject` begins.
    for (from, subject) in [
        (None, Some("a")),
        (Some("a"), None),
        (None, Some("")),
        (Some("ab"), Some("c")),
        (Some("a"), Some("bc")),
    ] {
        let unexpanded = ScriptArguments {
            from: from.map(str::to_owned),
            subject: subject.map(str::to_owned),
            reason: "Away".into(),
        };
        others.push(Script { unexpanded, ..away.clone() });
    }
    for handle in ["", "a", "account"] {
        others.push(Script { handle: Some(handle.into()), ..away.clone() });
    }
    let keys: std::collections::BTreeSet<_> = others.iter().map(|script| key(script).0).collect();
    assert_eq!(keys.len(), others.len());
    assert!(!keys.contains(&told_key(&SECRET, &Handle::Response, &bob).0));
    let key_by_handle = |reason: &str| key(&Script { handle: Some("h".into()), ..script(reason) });
    assert_eq!(
        key_by_handle("Away"),
        key_by_handle("Gone"),
        "with a handle, the arguments do not count"
    );
}

#[test]
fn period_of_a_script_is_bounded() {
    let memory = |period| Notice::of_script(&Script { period, ..script("Away") }).memory;
    let days = |days: u64| ToldLifetime::For(std::time::Duration::from_secs(days * 24 * 3600));
    assert_eq!(memory(Period::Unset), days(7));
    assert_eq!(memory(Period::Days(0)), days(1));
    assert_eq!(memory(Period::Days(30)), days(30));
    assert_eq!(memory(Period::Days(u64::MAX)), days(365));
    assert_eq!(memory(Period::Seconds(0)), ToldLifetime::For(std::time::Duration::ZERO));
    assert_eq!(memory(Period::Seconds(90)), ToldLifetime::For(std::time::Duration::from_secs(90)));
}
