//! Tests of what scripts read from the store (other scripts, mailboxes) and in `:addresses`, and of
//! what they cannot do: lose a message by a bad address, keep a loop going, or cost a delivery too
//! much.

use super::*;
use crate::filter::Settings as FilterSettings;

const BOB: &str = "bob@example.net";
const ANN: &str = "ann@example.org";

const LETTER: &str = "From: bob@example.net\nTo: ann@example.org\nSubject: Hello\n\
                      Message-ID: <1@example.net>\n\nHi\n";

impl Fixture {
    /// Stores a script, and makes it the active one if `is_active`.
    fn put_script(&self, name: &str, source: &str, is_active: bool) {
        let committed = self.store.commit(self.ann, |txn| {
            let id = txn.create_script(name, source.as_bytes())?;
            if is_active { txn.activate_script(Some(id)) } else { Ok(false) }
        });
        committed.unwrap().1.wait_blocking().unwrap();
    }

    fn count_emails(&self) -> usize {
        self.store.snapshot().emails(self.ann, None, 99).unwrap().len()
    }

    fn last_script_error(&self) -> Option<String> {
        let errors = self.store.snapshot().script_errors(self.ann).unwrap();
        errors.into_iter().next().map(|error| error.message)
    }
}

/// RFC 5228 §4.2: a redirect that cannot be done must not lose the message.
#[test]
fn message_is_kept_if_mail_cannot_be_sent_to_the_address_of_a_redirect() {
    let fixture = fixture();
    let source = "require \"variables\"; set \"domain\" \"-x.example\";\n\
                  redirect \"bob@${domain}\";";
    fixture.put_script("main", source, true);
    fixture.send(BOB, &[ANN], LETTER);
    assert_eq!(fixture.count_emails(), 1);
    let error = fixture.last_script_error().unwrap();
    assert!(error.contains("bob@-x.example"), "{error}");
    // The crate `restante_sieve` accepts this address. It does not know IDNA, which makes a dot of
    // the last character, so that the last label is empty.
    let ideographic = "redirect \"bob@example.org\u{3002}\";";
    fixture.put_script("dot", ideographic, true);
    fixture.send("eve@example.net", &[ANN], LETTER);
    assert_eq!(fixture.count_emails(), 2);
    // A constant address to which no mail can be sent is an error of the script.
    let refused = FilterSettings::default().check(b"redirect \"bob@example-.org\";");
    assert!(refused.script.is_none());
}

/// RFC 6609 §3.2: only a script that does not exist is optional.
#[test]
fn optional_script_with_errors_is_not_skipped() {
    let fixture = fixture();
    let source = "require [\"include\", \"fileinto\"];\n\
                  include :optional \"rules\"; discard;";
    fixture.put_script("main", source, true);
    fixture.send(BOB, &[ANN], LETTER);
    // There is no script `rules` yet: the include is skipped, and the message discarded.
    assert_eq!((fixture.count_emails(), fixture.last_script_error()), (0, None));
    fixture.put_script("rules", "fileinto;", false);
    fixture.send("eve@example.net", &[ANN], LETTER);
    assert_eq!(fixture.count_emails(), 1);
    let error = fixture.last_script_error().unwrap();
    assert!(error.contains("`rules`: the script has errors: line 1"), "{error}");
}

#[test]
fn loop_ends_even_if_a_script_deletes_delivered_to() {
    let fixture = fixture();
    let source = "require \"editheader\"; deleteheader \"Delivered-To\";\n\
                  redirect \"carol@example.com\";";
    fixture.put_script("main", source, true);
    let returned = format!("Delivered-To: {ANN}\n{LETTER}");
    fixture.send(BOB, &[ANN], &returned);
    let queued = fixture.store.snapshot().outbox(fixture.ann).unwrap();
    // A message that was delivered to Ann before is kept, and not redirected again.
    assert_eq!((fixture.count_emails(), queued.len()), (1, 0));
}

#[test]
fn mailbox_below_the_inbox_is_found_by_inbox_in_any_case() {
    let fixture = fixture();
    let created = fixture.store.commit(fixture.ann, |txn| {
        let inbox = txn.state().inbox;
        txn.create_mailbox(&NewMailbox {
            name: "Lists".into(),
            parent: Some(inbox),
            role: None,
            sort_order: 0,
        })
    });
    let lists = created.unwrap().0;
    fixture.put_script("main", "require \"fileinto\"; fileinto \"inBOX/Lists\";", true);
    fixture.send(BOB, &[ANN], LETTER);
    let emails = fixture.store.snapshot().emails(fixture.ann, None, 9).unwrap();
    let mailboxes: Vec<_> = emails.iter().flat_map(|(_, email)| email.mailboxes.clone()).collect();
    assert_eq!(mailboxes, [lists]);
}

/// Clients write display names in `:addresses` (RFC 5228 §2.4.2.3). The message is addressed only
/// to the address that has one there, so it is answered only if that address is understood.
#[test]
fn addresses_of_a_reply_may_have_display_names() {
    let fixture = fixture();
    let source = "require \"vacation\";\n\
                  vacation :addresses [\"Ann Other <other@example.com>\"] \"Away\";";
    fixture.put_script("main", source, true);
    fixture.send(BOB, &[ANN], &LETTER.replace("To: ann@example.org", "To: other@example.com"));
    assert_eq!(fixture.store.snapshot().outbox(fixture.ann).unwrap().len(), 1);
}

/// All recipients of an account share its fuel, so that one message cannot cost a full run for each
/// of them. It is that of four full runs (`RUNS_PER_ACCOUNT`), less than 60 runs take here. Those
/// for whom too little is left get the message in the Inbox.
#[test]
fn recipients_of_an_account_share_the_fuel() {
    let fixture = fixture();
    let source = "require \"regex\";\n\
                  if header :regex \"X-Long\" \"^(a+)[a-z]{0,100}$\" { discard; }";
    fixture.put_script("main", source, true);
    let recipients: Vec<String> = (0..60).map(|n| format!("ann+{n}@example.org")).collect();
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    let long = format!("X-Long: {}\n{LETTER}", "a".repeat(10_000));
    fixture.send(BOB, &recipients[..1], &long);
    assert_eq!((fixture.count_emails(), fixture.last_script_error()), (0, None));
    let answers = fixture.send("eve@example.net", &recipients, &long);
    assert!(answers.iter().all(|answer| answer.starts_with("250")), "{answers:?}");
    let error = fixture.last_script_error().unwrap();
    assert!(error.contains("too many recipients"), "{error}");
    // The message was discarded for the first recipients, and kept in one email for all others.
    assert_eq!(fixture.count_emails(), 1);
}
