//! Scripts over stored mail, in a store on the disk.

use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::account::{Directory, Settings};
use crate::jmap::tests::{call, context_over, error};
use crate::message::rows_of_any;
use crate::model::clock::FixedClock;
use crate::model::{Address, DataType, Decision, UtcMillis, Verdict};
use crate::store::engine::rocks::RocksEngine;
use crate::store::{EncodedMessage, NewEmail, Options, Store};
use crate::wire::jmap::to_base64;

const ANN: AccountId = AccountId(1);

/// Line 1 requires extensions. Each further line is one rule: line 2 tests `duplicate`, which is
/// false for stored mail, and each other line is for one subject of `EXPECTED`.
const SCRIPT: &str = concat!(
    r#"require ["fileinto", "imap4flags", "mailbox", "copy", "duplicate", "vacation", "#,
    r#""enotify", "editheader", "envelope", "variables", "reject", "environment"];"#,
    "\n",
    r#"if duplicate { discard; stop; }"#,
    "\n",
    r#"if header "subject" "list" { fileinto :create "Lists/rust"; redirect :copy "#,
    r#""eve@example.com"; stop; }"#,
    "\n",
    r#"if header "subject" "junk" { discard; stop; }"#,
    "\n",
    r#"if header "subject" "flag" { addflag "\\Flagged"; keep; stop; }"#,
    "\n",
    r#"if header "subject" "copy" { fileinto :copy :flags "\\Seen" "Archive"; stop; }"#,
    "\n",
    r#"if header "subject" "onward" { redirect "eve@example.com"; stop; }"#,
    "\n",
    r#"if header "subject" "away" { vacation "Away."; notify "mailto:eve@example.com"; "#,
    r#"stop; }"#,
    "\n",
    r#"if header "subject" "bad" { set "who" "eve"; redirect "${who}"; stop; }"#,
    "\n",
    r#"if envelope "from" "boss@example.net" { fileinto "Archive"; stop; }"#,
    "\n",
    r#"if header "subject" "no" { reject "No."; stop; }"#,
    "\n",
    r#"if header "subject" "edit" { addheader "X-A" "b"; stop; }"#,
    "\n",
    r#"if allof (header "subject" "where", environment "phase" "post", envelope "to" "#,
    r#""shop@example.org") { fileinto "Junk"; }"#,
    "\n",
);

/// The subjects, oldest first. Each has its outcome, the line of `SCRIPT` of each of its steps, and
/// what is left out. The step of an implicit keep, which has line 0, is not among them.
const EXPECTED: [(&str, &str, &[u64], &[&str]); 12] = [
    ("keep", "none", &[], &[]),
    ("list", "move", &[3, 3], &["redirect"]),
    ("junk", "discard", &[4], &[]),
    ("flag", "flag", &[5], &[]),
    ("copy", "copy", &[6], &[]),
    ("onward", "none", &[7], &["redirect"]),
    ("away", "none", &[8, 8], &["vacation", "notify"]),
    ("bad", "failed", &[], &[]),
    ("boss", "move", &[10], &[]),
    ("no", "none", &[11], &["reject"]),
    ("edit", "none", &[], &["editheader"]),
    ("where", "move", &[13], &[]),
];

fn open(dir: &Path) -> Context {
    context_over(Arc::new(RocksEngine::open(dir, &Options::small()).unwrap()))
}

/// Files a message for each subject in the Inbox, as deliveries do. Only the message `where` gets
/// a decision in the log, which names shop@example.org as its recipient.
fn fill(context: &Context) {
    for (number, (subject, ..)) in EXPECTED.iter().enumerate() {
        let sender = if *subject == "boss" { "boss@example.net" } else { "bob@example.net" };
        let raw = format!("From: Bob <bob@example.net>\r\nSubject: {subject}\r\n\r\nHi\r\n");
        let encoded = EncodedMessage::new(&rows_of_any(raw.as_bytes(), context.store.secrets()));
        let number = i64::try_from(number).unwrap();
        let (results, ticket) =
            context.store.commit_message(&[ANN], &encoded, raw.as_bytes(), |txn| {
                let (id, _) = txn.create_email(&NewEmail {
                    message: &encoded,
                    prefix: format!("Return-Path: <{sender}>\r\n").as_bytes(),
                    mailboxes: [txn.state().inbox].into(),
                    keywords: BTreeSet::new(),
                    received_at: UtcMillis(1_795_000_000_000 + number),
                })?;
                if *subject == "where" {
                    txn.add_decision(&Decision {
                        at: id.received_at(),
                        email: Some(id),
                        sender: None,
                        recipient: Address::from_parts("shop", "example.org"),
                        verdict: Verdict::Silent {
                            reason: "disabled".into(),
                            detail: String::new(),
                        },
                        steps: Vec::new(),
                    })?;
                }
                Ok(())
            });
        assert!(results.iter().all(|(_, result)| result.is_ok()), "{results:?}");
        ticket.wait_blocking().unwrap();
    }
}

fn run(context: &Context, method: &str, more: &Value) -> Value {
    let mut arguments = json!({
        "account": "ann@example.org", "script": to_base64(SCRIPT.as_bytes()),
    });
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (name, answer) = call(context, method, &arguments);
    assert_eq!(name, method, "{answer}");
    answer
}

/// Returns a line for each mailbox that has emails, such as `Inbox: a b $flagged`. A line has the
/// subjects, from the oldest email to the newest, each followed by the keywords of the email.
fn stored(context: &Context) -> Vec<String> {
    let snapshot = context.store.snapshot();
    let all = snapshot.mailboxes(ANN).unwrap();
    let mut lines = Vec::new();
    for (uid, mailbox) in &all {
        let mut subjects = Vec::new();
        for (id, email) in snapshot.emails_from_end(ANN, None, 99).unwrap() {
            if email.mailboxes.contains(uid) {
                let (_, content) = snapshot.content(ANN, id).unwrap().unwrap();
                subjects.push(content.subject.unwrap());
                subjects.extend(email.keywords);
            }
        }
        if !subjects.is_empty() {
            lines.push(format!("{}: {}", mailboxes::path(&all, mailbox), subjects.join(" ")));
        }
    }
    lines.sort();
    lines
}

/// What `stored` returns after the script was applied to all emails of the Inbox.
const FILTERED: [&str; 5] = [
    "Archive: copy $seen boss",
    "Inbox: keep flag $flagged copy $seen onward away bad no edit",
    "Junk: where",
    "Lists/rust: list",
    "Trash: junk",
];

fn assert_nothing_is_sent_or_counted(context: &Context) {
    let snapshot = context.store.snapshot();
    assert!(snapshot.outbox(ANN).unwrap().is_empty());
    // The one that `fill` adds.
    assert_eq!(snapshot.decisions(ANN, 9).unwrap().len(), 1);
    for (id, _) in snapshot.scripts(ANN).unwrap() {
        assert!(snapshot.script_hits(ANN, id).unwrap().is_empty());
    }
    assert!(snapshot.script_errors(ANN).unwrap().is_empty());
    assert!(context.store.check().unwrap().is_empty());
}

#[test]
fn dry_run_says_what_would_happen_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let context = open(dir.path());
    fill(&context);
    let before = (stored(&context), context.store.snapshot().state(ANN, DataType::Mailbox));
    let answer = run(&context, "Sieve/dryRun", &json!({}));
    assert_eq!((&answer["total"], &answer["after"]), (&json!(12), &Value::Null));
    let rows = answer["list"].as_array().unwrap();
    assert_eq!(rows.len(), EXPECTED.len());
    for ((subject, outcome, lines, left_out), row) in EXPECTED.iter().zip(rows.iter().rev()) {
        assert_eq!((&row["subject"], &row["outcome"]), (&json!(subject), &json!(outcome)), "{row}");
        let steps = row["steps"].as_array().unwrap().iter().map(|step| step["line"].as_u64());
        let steps: Vec<u64> = steps.flatten().filter(|line| *line > 0).collect();
        assert_eq!(steps, *lines, "{row}");
        assert_eq!(row["leftOut"], json!(left_out), "{row}");
        assert_eq!(row["isDone"], Value::Null);
    }
    let row = |subject: &str| rows.iter().find(|row| row["subject"] == subject).unwrap();
    assert_eq!(row("list")["mailboxes"], json!(["Lists/rust"]));
    assert_eq!(row("copy")["keywords"], json!(["$seen"]));
    assert_eq!(row("bad")["error"]["line"], 9);
    assert_eq!(row("boss")["sender"], "boss@example.net");
    assert_eq!(
        (&row("boss")["envelope"], &row("where")["envelope"]),
        (&json!("header"), &json!("delivery"))
    );
    let after = (stored(&context), context.store.snapshot().state(ANN, DataType::Mailbox));
    assert_eq!(after, before);
    assert_nothing_is_sent_or_counted(&context);
}

#[test]
fn apply_can_be_interrupted_and_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let context = open(dir.path());
    fill(&context);
    let first = run(&context, "Sieve/apply", &json!({"limit": 5}));
    assert_eq!(first["list"].as_array().unwrap().len(), 5);
    assert!(first["after"].is_string(), "{first}");
    drop(context);
    // A client that was killed begins again, with `after` null.
    let engine = Arc::new(RocksEngine::open(dir.path(), &Options::small()).unwrap());
    let clock = Arc::new(FixedClock::at(UtcMillis(1_795_251_700_000)));
    let store = Store::open_engine(engine, &Options::small(), clock).unwrap();
    let directory = Directory::new(store.clone(), Settings::default());
    let context = Context { store, directory, ..crate::jmap::tests::context() };
    let mut after = Value::Null;
    let mut outcomes = BTreeMap::new();
    // Ten emails are left in the Inbox, which are three steps.
    for _ in 0..4 {
        let step = run(&context, "Sieve/apply", &json!({"limit": 4, "after": after}));
        for row in step["list"].as_array().unwrap() {
            let subject = row["subject"].as_str().unwrap().to_owned();
            outcomes.insert(subject, row["outcome"].as_str().unwrap().to_owned());
            let is_change = !["none", "failed"].contains(&row["outcome"].as_str().unwrap());
            assert_eq!(row["isDone"], if is_change { json!(true) } else { Value::Null }, "{row}");
        }
        after = step["after"].clone();
        if after.is_null() {
            break;
        }
    }
    assert_eq!(after, Value::Null);
    // The first step moved these two out of the Inbox.
    assert!(!outcomes.contains_key("where") && !outcomes.contains_key("boss"), "{outcomes:?}");
    assert_eq!(stored(&context), FILTERED);
    let state = context.store.snapshot().state(ANN, DataType::Email);
    let again = run(&context, "Sieve/apply", &json!({}));
    let rows = again["list"].as_array().unwrap();
    assert!(rows.iter().all(|row| ["none", "failed"].contains(&row["outcome"].as_str().unwrap())));
    assert_eq!(context.store.snapshot().state(ANN, DataType::Email), state);
    assert_nothing_is_sent_or_counted(&context);
}

#[test]
fn email_that_somebody_changed_meanwhile_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let context = open(dir.path());
    fill(&context);
    let (id, email) = context.store.snapshot().emails(ANN, None, 1).unwrap().remove(0);
    let inbox = *email.mailboxes.first().unwrap();
    let apply = |id, seen, targets: BTreeSet<StoreTarget>| {
        // Without targets, this is the plan of a script that discards the message.
        let plan = StoredPlan { targets, ..StoredPlan::default() };
        let change = PlannedChange { id, seen, plan };
        let done = context.store.commit(ANN, |txn| apply_change(txn, inbox, &change));
        let (is_done, ticket) = done.unwrap();
        ticket.wait_blocking().unwrap();
        is_done
    };
    let before = stored(&context);
    assert!(!apply(id, ModSeq(email.updated.0 - 1), BTreeSet::new()));
    assert!(!apply(EmailId(7), email.updated, BTreeSet::new()), "no such email");
    let gone = [StoreTarget::Mailbox(MailboxUid(999))].into();
    assert!(!apply(id, email.updated, gone), "no such mailbox");
    assert_eq!(stored(&context), before);
    assert!(apply(id, email.updated, BTreeSet::new()));
    assert!(stored(&context).contains(&"Trash: where".to_owned()));
    assert!(!apply(id, email.updated, BTreeSet::new()), "it has changed since");
}

#[test]
fn script_is_named_or_given_and_must_be_valid_and_stats_return_its_hits() {
    let dir = tempfile::tempdir().unwrap();
    let context = open(dir.path());
    let refused = |method: &str, arguments: Value| error(&context, method, &arguments);
    let with = |more: Value| {
        let mut all = json!({"account": "ann@example.org"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    for method in ["Sieve/dryRun", "Sieve/apply"] {
        assert_eq!(refused(method, with(json!({}))), "invalidArguments");
        let both = with(json!({"name": "main", "script": ""}));
        assert_eq!(refused(method, both), "invalidArguments");
        assert_eq!(refused(method, with(json!({"name": "main"}))), "notFound");
        let broken = with(json!({"script": to_base64(b"keeep;")}));
        assert_eq!(refused(method, broken), "invalidArguments");
        let nowhere = with(json!({"script": to_base64(b"keep;"), "mailbox": "Nowhere"}));
        assert_eq!(refused(method, nowhere), "notFound");
    }
    assert_eq!(refused("Sieve/stats", with(json!({"name": "main"}))), "notFound");
    let made = context.store.commit(ANN, |txn| {
        let source = b"# rule:[all]\r\nkeep;\r\n";
        let id = txn.create_script("main", source)?;
        let hash = crate::model::BlobHash(*blake3::hash(source).as_bytes());
        // Hits are counted by the byte at which a rule begins: here `keep`.
        let start = u32::try_from("# rule:[all]\r\n".len()).unwrap_or_default();
        txn.count_script_hits(id, &hash, &[start])?;
        txn.activate_script(Some(id))
    });
    made.unwrap().1.wait_blocking().unwrap();
    let named = with(json!({"name": "main"}));
    assert_eq!(call(&context, "Sieve/dryRun", &named).1["list"], json!([]));
    let (_, answer) = call(&context, "Sieve/stats", &named);
    let script = &answer["list"][0];
    assert_eq!((&script["name"], &script["isActive"]), (&json!("main"), &json!(true)));
    let rule = &script["rules"][0];
    assert_eq!(
        (&rule["line"], &rule["name"], &rule["hits"]),
        (&2.into(), &"all".into(), &1.into())
    );
    assert!(rule["last"].is_string(), "{answer}");
}
