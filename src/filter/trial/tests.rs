use super::*;
use crate::model::Address;

const MESSAGE: &[u8] = b"From: bob@example.net\r\nSubject: Offer\r\n\r\nhello\r\n";

fn try_script(source: &[u8]) -> TrialResult {
    let settings = Settings::default();
    let to = Address::parse("ann+work@example.org").unwrap();
    let sender = Address::parse("bob@example.net").ok();
    let identity = Identity {
        primary: Address::parse("ann@example.org").unwrap(),
        name: None,
        addresses: vec![Address::parse("ann@example.org").unwrap()],
        alias_domains: Vec::new(),
        delimiter: Some('+'),
        zone: Some("UTC".into()),
    };
    let request = TrialRequest {
        settings: &settings,
        message: MESSAGE,
        envelope: &Envelope { sender, ..Envelope::default() },
        recipient: &Recipient::plain(to),
        identity: &identity,
        hostname: "mail.example.org",
        now: UtcMillis(0),
        account: None,
    };
    settings.check_script(source).run(&request).unwrap()
}

#[test]
fn trace_names_the_line_of_each_test_and_action() {
    let tried = try_script(
        b"require [\"fileinto\", \"imap4flags\", \"subaddress\", \"envelope\"];\n\
          if header :is \"Subject\" \"None\" {\n  discard;\n}\n\
          if envelope :detail \"to\" \"work\" {\n  fileinto :flags \"\\\\Seen\" \"Work\";\n}\n",
    );
    assert_eq!(tried.actions, ["fileinto Work [\\Seen]"]);
    let lines: Vec<(u32, TraceEvent)> =
        tried.trace.iter().map(|one| (one.line, one.event)).collect();
    let expected = [
        (2, TraceEvent::Test(false)),
        (5, TraceEvent::Test(true)),
        (6, TraceEvent::Command),
        (6, TraceEvent::Action),
    ];
    assert_eq!(lines, expected);
    assert_eq!(tried.unknown, ["whether there is a mailbox `Work`"]);
    assert_eq!(tried.plan["actions"][0]["store"]["to"]["mailbox"]["name"], "Work");
}

#[test]
fn failed_run_keeps_the_message_and_names_the_line() {
    let tried = try_script(b"require \"ihave\";\ndiscard;\nerror \"no\";\n");
    assert_eq!(tried.actions, ["keep (implicit)"]);
    let error = TrialError { script: None, line: 3, message: "no".into() };
    assert_eq!(tried.error, Some(error));
}

#[test]
fn questions_without_a_true_answer_are_listed() {
    let tried = try_script(
        b"require [\"include\", \"duplicate\", \"environment\", \"vacation\"];\n\
          if anyof (duplicate :uniqueid \"1\", environment \"remote-ip\" \"x\") { stop; }\n\
          vacation \"away\";\ninclude :optional \"other\";\n",
    );
    // `duplicate`, `remote-ip`, the script `other`, and whether the sender was answered before.
    assert_eq!(tried.unknown.len(), 4, "{:?}", tried.unknown);
    assert_eq!(tried.actions.first().map(String::as_str), Some("vacation"));
}

#[test]
fn trace_has_a_bound() {
    let mut events = Events::default();
    let place = Place { script: None, span: restante_sieve::Span::at(0) };
    (0..=MAX_TRACE_LINES).for_each(|_| events.push(&place, TraceEvent::Command, None));
    assert!(events.is_cut && events.list.len() == MAX_TRACE_LINES);
    let text = shorten(&"a\n".repeat(200));
    assert!(text.chars().count() == MAX_TEXT_CHARS && text.ends_with('…'), "{text}");
}
