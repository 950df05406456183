//! Tests of filing messages and scripts of an import, of line endings, and of a whole corpus in an
//! mbox file.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::model::clock::FixedClock;
use crate::model::{AccountId, AccountRow, Address, EmailId, MailboxUid, UtcMillis, limits};
use crate::store::engine::memory::MemoryEngine;
use crate::store::{EncodedMessage, Error, NewEmail, NewMailbox, Options, Store};

const ANN: AccountId = AccountId(1);
const AT: UtcMillis = UtcMillis(1_700_000_000_123);

/// Returns a store with the account `ANN`, and the mailboxes `one` and `two` of the account.
fn store() -> (Store, MailboxUid, MailboxUid) {
    let store = Store::open_engine(
        Arc::new(MemoryEngine::new()),
        &Options::small(),
        Arc::new(FixedClock::at(UtcMillis(1_795_251_600_000))),
    )
    .unwrap();
    let (uids, ticket) = store
        .commit(ANN, |txn| {
            txn.register(&row());
            let mut make = |name: &str| {
                txn.create_mailbox(&NewMailbox {
                    name: name.into(),
                    parent: None,
                    role: None,
                    sort_order: 0,
                })
            };
            Ok((make("one")?, make("two")?))
        })
        .unwrap();
    ticket.wait_blocking().unwrap();
    (store, uids.0, uids.1)
}

/// Returns an account that may have three emails.
fn row() -> AccountRow {
    AccountRow {
        quota_emails: Some(3),
        ..AccountRow::new("ann@example.org", Address::parse("ann@example.org").unwrap(), AT)
    }
}

fn put(store: &Store, new: &AppendRequest<'_>) -> Result<AppendedEmail, Error> {
    let (done, ticket) = append(store, ANN, new)?;
    ticket.wait_blocking()?;
    Ok(done)
}

fn new(raw: &[u8], mailbox: MailboxUid) -> AppendRequest<'_> {
    AppendRequest { raw, mailbox, keywords: BTreeSet::new(), received_at: AT, known_as: None }
}

#[test]
fn joined_email_has_no_more_keywords_than_the_limit() {
    let (store, one, two) = store();
    let raw = b"Subject: x\r\n\r\n";
    let words = |letter: char, count: usize| -> BTreeSet<String> {
        (0..count).map(|number| format!("{letter}{number:03}")).collect()
    };
    let first = put(&store, &AppendRequest { keywords: words('a', 60), ..new(raw, one) }).unwrap();
    let joined = put(&store, &AppendRequest { keywords: words('b', 60), ..new(raw, two) }).unwrap();
    assert_eq!((joined.outcome, joined.keywords_cut), (AppendOutcome::Joined, true));
    assert!(!first.keywords_cut);
    let email = store.snapshot().email(ANN, first.email).unwrap().unwrap();
    assert_eq!(email.keywords.len(), limits::MAX_KEYWORDS);
    assert!(words('a', 60).is_subset(&email.keywords));
}

fn set(words: &str) -> BTreeSet<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn appending_the_same_message_again_adds_nothing() {
    let (store, one, two) = store();
    let raw = b"Subject: x\r\n\r\n";
    let first = put(&store, &AppendRequest { keywords: set("$seen"), ..new(raw, one) }).unwrap();
    assert_eq!((first.outcome, first.email.received_at()), (AppendOutcome::Added, AT));
    let again = put(&store, &AppendRequest { keywords: set("$flagged"), ..new(raw, one) }).unwrap();
    assert_eq!(again, AppendedEmail { outcome: AppendOutcome::There, ..first });
    // Appending to the email's own mailbox adds no keywords; appending to another one does.
    let joined =
        put(&store, &AppendRequest { keywords: set("$flagged"), ..new(raw, two) }).unwrap();
    assert_eq!(joined, AppendedEmail { outcome: AppendOutcome::Joined, ..first });
    assert_eq!(put(&store, &new(raw, two)).unwrap().outcome, AppendOutcome::There);
    let email = store.snapshot().email(ANN, first.email).unwrap().unwrap();
    assert_eq!(
        (email.mailboxes, email.keywords),
        (BTreeSet::from([one, two]), set("$seen $flagged"))
    );
    let later =
        put(&store, &AppendRequest { received_at: UtcMillis(AT.0 + 1000), ..new(raw, one) })
            .unwrap();
    let other = put(&store, &new(b"Subject: y\r\n\r\n", one)).unwrap();
    assert_eq!((later.outcome, other.outcome), (AppendOutcome::Added, AppendOutcome::Added));
    // The account has its three emails.
    assert_eq!(put(&store, &new(b"z", one)), Err(Error::Quota));
    assert_eq!(put(&store, &new(raw, MailboxUid(99))), Err(Error::NotFound("mailbox")));
    store.commit(ANN, |txn| txn.destroy_email(first.email)).unwrap().1.wait_blocking().unwrap();
    let back = put(&store, &new(raw, one)).unwrap();
    assert!(back.outcome == AppendOutcome::Added && back.email != first.email);
    assert!(store.check().unwrap().is_empty());
}

#[test]
fn an_exported_email_is_found_by_its_id() {
    let (store, one, _) = store();
    let raw = b"Subject: x\r\n\r\n";
    let message = EncodedMessage::new(&crate::message::rows(raw, store.secrets()));
    let (mut results, ticket) = store.commit_message(&[ANN], &message, raw, |txn| {
        txn.create_email(&NewEmail {
            message: &message,
            prefix: b"Received: y\r\n",
            mailboxes: BTreeSet::from([one]),
            keywords: BTreeSet::new(),
            received_at: AT,
        })
    });
    ticket.wait_blocking().unwrap();
    let (id, _) = results.remove(0).1.unwrap();
    let whole = b"Received: y\r\nSubject: x\r\n\r\n";
    let known_as = Some(id);
    assert_eq!(
        put(&store, &AppendRequest { known_as, ..new(whole, one) }).unwrap().outcome,
        AppendOutcome::There
    );
    // The id alone is not enough: the bytes must be the same.
    assert_eq!(
        put(&store, &AppendRequest { known_as, ..new(b"Subject: z\r\n\r\n", one) })
            .unwrap()
            .outcome,
        AppendOutcome::Added
    );
    assert_eq!(
        put(&store, &AppendRequest { known_as, ..new(raw, one) }).unwrap().outcome,
        AppendOutcome::Added
    );
}

/// If there are more emails of one millisecond than ids, some get the id of a later one. Here a
/// first import stored such an email.
#[test]
fn an_email_with_a_later_id_is_found_again() {
    let (store, one, _) = store();
    let moved = UtcMillis(AT.0 + 2);
    let raw = b"Subject: x\r\n\r\n";
    let first = put(&store, &AppendRequest { received_at: moved, ..new(raw, one) }).unwrap();
    assert_eq!(
        put(&store, &new(raw, one)).unwrap(),
        AppendedEmail { outcome: AppendOutcome::There, ..first }
    );
    let early = AppendRequest { received_at: UtcMillis(AT.0 - 60_000), ..new(raw, one) };
    assert_eq!(put(&store, &early).unwrap().outcome, AppendOutcome::Added);
}

#[test]
fn concurrent_appends_add_one_email() {
    let (store, one, _) = store();
    let outcomes: Vec<AppendOutcome> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| put(&store, &new(b"Subject: x\r\n\r\n", one)).unwrap().outcome))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(
        outcomes.iter().filter(|outcome| **outcome == AppendOutcome::Added).count(),
        1,
        "{outcomes:?}"
    );
}

#[test]
fn an_email_before_1970_is_found_again() {
    let (store, one, _) = store();
    let early = AppendRequest { received_at: UtcMillis(-5), ..new(b"x", one) };
    assert_eq!(put(&store, &early).unwrap().outcome, AppendOutcome::Added);
    assert_eq!(put(&store, &early).unwrap().outcome, AppendOutcome::There);
}

#[test]
fn lf_becomes_crlf_in_files_of_unix_programs() {
    assert_eq!(&*normalize_line_ends(b"a\nb\n\nc"), b"a\r\nb\r\n\r\nc");
    assert_eq!(&*normalize_line_ends(b"a\r\nb\nc"), b"a\r\nb\nc");
    assert_eq!(&*normalize_line_ends(b"a\rb"), b"a\rb");
}

#[test]
fn the_corpus_is_written_to_mbox_and_read_again() {
    let Some(dir) = crate::needs::corpus() else { return };
    let files = std::fs::read_dir(dir)
        .unwrap()
        .filter_map(|folder| std::fs::read_dir(folder.unwrap().path()).ok())
        .flatten();
    let files = files
        .map(|file| file.unwrap().path())
        .filter(|file| file.extension().is_some_and(|kind| kind == "eml"));
    let mut messages: Vec<Vec<u8>> = files.map(|file| std::fs::read(file).unwrap()).collect();
    messages.extend(messages.clone().iter().map(|raw| normalize_line_ends(raw).into_owned()));
    assert!(messages.len() > 1000, "a corpus of {}", messages.len());
    let mut file = Vec::new();
    for (number, raw) in (0..).zip(&messages) {
        mbox::write(&mut file, EmailId::new(UtcMillis(AT.0 + number), 0), &set("$seen x"), raw)
            .unwrap();
    }
    let mut reader = mbox::MboxReader::new(file.as_slice(), 10 << 20);
    for (number, raw) in (0..).zip(&messages) {
        let Some(mbox::MboxEntry::Mail(mail)) = reader.read().unwrap() else {
            panic!("no message {number}")
        };
        assert!(
            mail.bytes == *raw && mail.whole && mail.flags.keywords == set("$seen x"),
            "message {number}"
        );
        assert_eq!(mail.id.map(EmailId::received_at), Some(UtcMillis(AT.0 + number)));
    }
    assert_eq!(reader.read().unwrap(), None);
}

fn script<'a>(name: &'a str, source: &'a str) -> ScriptAppendRequest<'a> {
    ScriptAppendRequest {
        name,
        source: source.as_bytes(),
        original: source.as_bytes(),
        activate: false,
        max_scripts: 3,
        dry_run: false,
    }
}

/// Stores a script, and returns the outcome and the name of the active script.
fn put_script(store: &Store, new: &ScriptAppendRequest<'_>) -> (&'static str, Option<String>) {
    let done = append_script(store, ANN, new).unwrap();
    (done.outcome.name(), done.active)
}

#[test]
fn script_is_stored_once_and_activated_only_then() {
    let (store, ..) = store();
    let main =
        ScriptAppendRequest { original: b"old", activate: true, ..script("gru\u{308}n", "keep;") };
    let composed = Some("gr\u{fc}n".to_owned());
    let dry = ScriptAppendRequest { dry_run: true, ..main };
    assert_eq!(put_script(&store, &dry), ("added", composed.clone()));
    assert!(store.snapshot().scripts(ANN).unwrap().is_empty());
    for outcome in ["added", "there"] {
        assert_eq!(put_script(&store, &main), (outcome, composed.clone()));
    }
    // The stored script is the original, from which an import now makes another source: it is
    // there, too.
    let changed = ScriptAppendRequest { source: b"new", original: b"keep;", ..main };
    assert_eq!(put_script(&store, &changed), ("there", composed.clone()));
    assert_eq!(put_script(&store, &script("gr\u{fc}n", "old")), ("differs", composed.clone()));
    let (id, _) = store.snapshot().script_by_name(ANN, "gr\u{fc}n").unwrap().unwrap();
    assert_eq!(store.snapshot().script_source(ANN, id).unwrap().unwrap(), b"keep;");
    // Another script does not become active instead.
    let other = ScriptAppendRequest { activate: true, ..script("other", "stop;") };
    assert_eq!(put_script(&store, &other), ("added", composed));
    // Nor does a script that its owner has deactivated.
    let deactivated = store.commit(ANN, |txn| txn.activate_script(None)).unwrap();
    deactivated.1.wait_blocking().unwrap();
    assert_eq!(put_script(&store, &main), ("there", None));
}

#[test]
fn script_of_a_bad_name_or_beyond_the_limit_is_refused() {
    use crate::store::ScriptFault;

    let (store, ..) = store();
    for dry_run in [true, false] {
        let bad = ScriptAppendRequest { dry_run, ..script("a\nb", "keep;") };
        let refused = append_script(&store, ANN, &bad).unwrap_err();
        assert!(matches!(refused, Error::Script(ScriptFault::Name)), "{refused}");
    }
    for name in ["a", "b", "c"] {
        assert_eq!(put_script(&store, &script(name, "keep;")).0, "added");
    }
    let refused = append_script(&store, ANN, &script("d", "keep;")).unwrap_err();
    assert!(matches!(refused, Error::Script(ScriptFault::TooMany)), "{refused}");
    assert_eq!(put_script(&store, &script("a", "keep;")).0, "there");
}
