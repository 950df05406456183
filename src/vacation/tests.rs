//! Tests of decisions besides the table (`table_tests`), and of the fields and the text of replies.

use super::reply::VacationReply;
use super::*;
use crate::message::auto::AutoReplyFacts;
use crate::model::{
    Address, EmailAddress, Identity, ToldKey, ToldLifetime, UtcMillis, VacationResponse,
};

const SECRET: [u8; 32] = [5; 32];
const NOW: UtcMillis = UtcMillis(1_795_251_600_000); // 2026-11-21T09:00:00Z

fn identity() -> Identity {
    Identity {
        primary: Address::from_parts("ann", "example.org"),
        name: Some("Ann Lee".into()),
        addresses: vec![
            Address::from_parts("ann", "example.org"),
            Address::from_parts("a.lee", "example.org"),
        ],
        alias_domains: vec![("example.com".into(), "example.org".into())],
        delimiter: Some('+'),
        zone: Some("America/New_York".into()),
    }
}

fn response() -> VacationResponse {
    VacationResponse {
        enabled: true,
        text_body: Some("Away.".into()),
        generation: 1,
        ..VacationResponse::default()
    }
}

pub(super) struct TestLookup<F> {
    pub(super) own: F,
    pub(super) told: Option<UtcMillis>,
    pub(super) knows: bool,
}

impl<F: Fn(&Address) -> bool> AccountLookup for TestLookup<F> {
    type Error = std::convert::Infallible;

    fn is_own(&self, address: &Address) -> Result<bool, Self::Error> {
        Ok((self.own)(address))
    }

    fn told(&self, _: &ToldKey, _: &ToldLifetime) -> Result<Option<UtcMillis>, Self::Error> {
        Ok(self.told)
    }

    fn knows(&self, _: &Address) -> Result<bool, Self::Error> {
        Ok(self.knows)
    }
}

pub(super) fn decide_with<F: Fn(&Address) -> bool>(
    input: &Input<'_>,
    lookup: &TestLookup<F>,
) -> ReplyDecision<()> {
    match decide(input, lookup) {
        Ok(ReplyDecision::Reply(_)) => ReplyDecision::Reply(()),
        Ok(ReplyDecision::Silent(silence)) => ReplyDecision::Silent(silence),
        Err(error) => match error {},
    }
}

struct Case {
    sender: &'static str,
    recipient: &'static str,
    header: &'static str,
}

fn decide_case(
    case: &Case,
    edit: impl FnOnce(&mut VacationResponse),
    told: Option<UtcMillis>,
    forged: Option<&str>,
) -> ReplyDecision<()> {
    let mut response = response();
    edit(&mut response);
    let sender = Address::parse(case.sender).ok();
    let recipient = Address::parse(case.recipient).unwrap();
    let facts = AutoReplyFacts::of(format!("{}\r\n\r\nHello\r\n", case.header).as_bytes());
    let identity = identity();
    let input = Input {
        now: NOW,
        sender: sender.as_ref(),
        recipient: &recipient,
        known_as: None,
        identity: &identity,
        notice: &Notice::of_response(&response, &identity, sender.as_ref(), &facts, NOW),
        facts: &facts,
        forged,
        junk: false,
        secret: &SECRET,
        settings: &Settings::default(),
        nonce: 7,
    };
    let lookup =
        TestLookup { own: |address: &Address| identity.is_me(address), told, knows: false };
    decide_with(&input, &lookup)
}

fn code(sender: &'static str, header: &'static str) -> &'static str {
    match decide_case(&Case { sender, recipient: "ann@example.org", header }, |_| {}, None, None) {
        ReplyDecision::Reply(()) => "answer",
        ReplyDecision::Silent(silence) => silence.reason.code(),
    }
}

#[test]
fn window_excludes_its_end_and_told_forged_or_own_senders_are_not_answered() {
    let case = Case {
        sender: "bob@example.net",
        recipient: "ann@example.org",
        header: "To: ann@example.org",
    };
    let reason = |edit: fn(&mut VacationResponse), told, forged| match decide_case(
        &case, edit, told, forged,
    ) {
        ReplyDecision::Reply(()) => "answer",
        ReplyDecision::Silent(silence) => silence.reason.code(),
    };
    assert_eq!(reason(|r| r.enabled = false, None, None), "disabled");
    assert_eq!(reason(|r| r.from_date = Some(NOW), None, None), "answer");
    assert_eq!(reason(|r| r.from_date = Some(UtcMillis(NOW.0 + 1)), None, None), "outside-window");
    assert_eq!(reason(|r| r.to_date = Some(NOW), None, None), "outside-window");
    assert_eq!(reason(|r| r.to_date = Some(UtcMillis(NOW.0 + 1)), None, None), "answer");
    assert_eq!(reason(|_| {}, Some(NOW), None), "already-told");
    assert_eq!(reason(|_| {}, None, Some("dmarc=fail")), "unauthenticated");
    assert_eq!(
        reason(|r| r.addresses = vec![Address::from_parts("bob", "example.net")], None, None),
        "own-address"
    );
}

/// RFC 5230 §4.5: an address that is listed in an alias domain counts in the real domain, too.
#[test]
fn listed_address_in_an_alias_domain_is_known_in_both_domains() {
    let listed = Script { addresses: vec!["Info@Example.com".into()], ..Script::default() };
    let (identity, notice) = (identity(), Notice::of_script(&listed));
    for text in ["info@example.com", "INFO@example.org"] {
        assert!(notice.is_me(&identity, &Address::parse(text).unwrap()), "{text}");
    }
    assert!(!notice.is_me(&identity, &Address::parse("other@example.com").unwrap()));
    let case = Case {
        sender: "bob@example.net",
        recipient: "ann@example.org",
        header: "To: info@example.com",
    };
    let list = |response: &mut VacationResponse| {
        response.addresses = vec![Address::from_parts("info", "example.com")];
    };
    assert_eq!(decide_case(&case, list, None, None), ReplyDecision::Reply(()));
}

#[test]
fn message_to_a_catch_all_recipient_is_answered() {
    let case = Case {
        sender: "bob@example.net",
        recipient: "any@shop.example",
        header: "To: any@shop.example",
    };
    assert_eq!(decide_case(&case, |_| {}, None, None), ReplyDecision::Reply(()));
}

fn reply_to_header(
    header: &str,
    edit: impl FnOnce(&mut VacationResponse),
) -> (VacationReply, String) {
    let mut response = response();
    edit(&mut response);
    let facts = AutoReplyFacts::of(format!("{header}\r\n\r\nx").as_bytes());
    let (identity, bob) = (identity(), Address::from_parts("bob", "example.net"));
    let notice = Notice::of_response(&response, &identity, Some(&bob), &facts, NOW);
    let input = Input {
        now: NOW,
        sender: Some(&bob),
        recipient: &identity.primary,
        known_as: None,
        identity: &identity,
        notice: &notice,
        facts: &facts,
        forged: None,
        junk: false,
        secret: &SECRET,
        settings: &Settings::default(),
        nonce: 7,
    };
    let reply = reply(&input, &bob, |address| identity.is_me(address));
    let text = String::from_utf8(reply.message.clone()).unwrap();
    (reply, text)
}

#[test]
fn reply_has_the_fields_of_rfc_3834() {
    let (reply, text) = reply_to_header(
        "From: Bob B <bob@example.net>\r\nTo: a.lee@example.org\r\nSubject: Lunch?\r\n\
         Message-ID: <3@example.net>\r\n\
         References: <1@example.net> <2@example.net>",
        |response| response.text_body = Some("About \"{subject}\": away. {unknown} {".into()),
    );
    for line in [
        "From: \"Ann Lee\" <a.lee@example.org>",
        "To: \"Bob B\" <bob@example.net>",
        "Subject: Auto: Lunch?",
        "Date: Sat, 21 Nov 2026 ",
        "In-Reply-To: <3@example.net>",
        "Auto-Submitted: auto-replied (vacation)",
        "X-Auto-Response-Suppress: All",
        "Precedence: bulk",
        "MIME-Version: 1.0",
        "About \"Lunch?\": away. {unknown} {",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line}\n---\n{text}");
    }
    let unfolded = text.replace("\r\n ", " ").replace("\r\n\t", " ");
    assert!(
        unfolded.contains("References: <1@example.net> <2@example.net> <3@example.net>"),
        "{text}"
    );
    assert!(is_own_id(&reply.message_id, &SECRET));
    assert!(
        !is_own_id(&reply.message_id, &[6; 32]) && !is_own_id("r.0000000000000007.0@x", &SECRET)
    );
    // An answer to the reply is not answered, even if nothing else marks it as automatic.
    let back = format!("To: ann@example.org\r\nIn-Reply-To: <{}>", reply.message_id);
    assert_eq!(code("bob@example.net", Box::leak(back.into_boxed_str())), "our-own-reply");
    // Neither is the reply itself.
    let facts = AutoReplyFacts::of(&reply.message);
    assert!(
        facts.auto_submitted.is_some() && facts.precedence.is_some() && facts.suppress.is_some()
    );
}

#[test]
fn subject_of_the_original_is_marked_decoded_and_cut() {
    let subject = |header: &str| {
        let (_, text) = reply_to_header(header, |_| {});
        crate::message::header::first(text.as_bytes(), "Subject").unwrap().decoded()
    };
    assert_eq!(subject("To: ann@example.org"), "Automated reply");
    assert_eq!(subject("Subject: auto: again"), "auto: again");
    assert_eq!(
        subject("Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe=0D=0ABcc:_x@y?="),
        "Auto: GrüßeBcc: x@y"
    );
    assert!(subject(&format!("Subject: {}", "x".repeat(5000))).len() < 500);
}

#[test]
fn missing_text_comes_from_the_html_or_is_a_default() {
    let (_, both) = reply_to_header("To: ann@example.org", |response| {
        response.text_body = None;
        response.html_body = Some("<p>Out of <b>office</b></p>".into());
    });
    assert!(
        both.contains("multipart/alternative")
            && both.contains("Out of office")
            && both.contains("<b>office</b>")
    );
    let (_, without) = reply_to_header("To: ann@example.org", |response| response.text_body = None);
    assert!(without.contains("I am away"));
}

#[test]
fn reply_has_the_from_reply_to_and_subject_of_the_response() {
    let (_, with_fields) = reply_to_header("To: ann@example.org", |response| {
        response.from = Some(EmailAddress {
            name: Some("Desk".into()),
            email: "a.lee+desk@example.org".into(),
        });
        response.reply_to = Some(EmailAddress { name: None, email: "help@example.org".into() });
        response.subject = Some("Out".into());
    });
    assert!(
        with_fields.contains("From: \"Desk\" <a.lee+desk@example.org>")
            && with_fields.contains("Reply-To: <help@example.org>")
    );
    assert!(with_fields.contains("\r\nSubject: Out\r\n"));
}

#[test]
fn excepted_sender_is_not_answered() {
    let reason = |sender: &'static str, except: &[&str]| {
        let case = Case { sender, recipient: "ann@example.org", header: "To: ann@example.org" };
        let except: Vec<_> = except.iter().map(|text| text.parse().unwrap()).collect();
        // Every sender was told: a sender who is not excepted is silenced by the later rule.
        match decide_case(&case, |response| response.except = except, Some(NOW), None) {
            ReplyDecision::Reply(()) => "answer".to_owned(),
            ReplyDecision::Silent(Silence { reason, detail }) => {
                format!("{} {detail}", reason.code())
            }
        }
    };
    let except = ["boss@example.com", "example.net"];
    assert_eq!(reason("Bob@EXAMPLE.net", &except), "not-in-audience excepted: example.net");
    assert_eq!(reason("boss@example.com", &except), "not-in-audience excepted: boss@example.com");
    // The same person under a changing tag (BATV).
    assert_eq!(
        reason("prvs=1234567890=boss@example.com", &except),
        "not-in-audience excepted: boss@example.com"
    );
    assert!(reason("eve@example.com", &except).starts_with("already-told"));
    assert!(reason("bob@sub.example.net", &except).starts_with("already-told"));
}

#[test]
fn values_of_placeholders_are_escaped_and_not_expanded_again() {
    let header = concat!(
        "From: bob@example.net\r\nTo: ann@example.org\r\n",
        "Subject: =?utf-8?q?=3Cb=3E_=7Bfrom=7D_=7Buntil=7D=0D=0A",
        "Bcc:_x@example.net_&_\"q\"?=",
    );
    let (_, text) = reply_to_header(header, |response| {
        response.subject = Some("Re: {subject}".into());
        response.text_body = Some("{subject}|{from}|{until}|{x}|{sub{from}|{".into());
        response.html_body = Some("<p>{subject}</p>".into());
        response.to_date = UtcMillis::parse_rfc3339("2026-12-25T05:00:00Z");
    });
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(!head.contains("\nBcc:"), "{head}");
    let subject = crate::message::header::first(text.as_bytes(), "Subject").unwrap().decoded();
    assert_eq!(subject, "Re: <b> {from} {until}Bcc: x@example.net & \"q\"");
    let body = body.replace("=\r\n", "").replace("=3D", "=");
    // The end is exclusive, at midnight in the owner's zone: the last day is the 24th.
    let wanted = concat!(
        "<b> {from} {until}Bcc: x@example.net & \"q\"",
        "|bob@example.net|2026-12-24|{x}|{subbob@example.net|{",
    );
    assert!(body.contains(wanted), "{body}");
    assert!(
        body.contains("<p>&lt;b&gt; {from} {until}Bcc: x@example.net &amp; &quot;q&quot;</p>"),
        "{body}"
    );
    // Without an end `{until}` stays, and a long subject is cut in each place.
    let (_, text) = reply_to_header(&format!("Subject: {}", "x".repeat(5000)), |response| {
        response.text_body = Some("{until} {subject}{subject}".into());
    });
    assert!(text.contains("{until} x") && text.len() < 2000, "{text}");
}
