//! Tests of the format on disk: that this version writes the rows of the fixture, reads stores of
//! earlier versions, and makes derived rows of an earlier parser anew.
//!
//! - `tests/fixtures/written.rows` is a store of this version as text. Each line is a row: table,
//!   key, value. Rows of messages that the server composes are not compared, as its wording may
//!   change.
//! - A change of that file is a change of the format: either a mistake, or a new row version, and
//!   then the old version must still be read. `RESTANTE_FIXTURE=write` writes the file anew.
//! - `v1.rows`, `v2.rows`, `v4.rows`, `v5.rows` and `v6.rows` are stores that programs of format 1,
//!   2, 4, 5 and 6 wrote. They never change. Format 3 is about segments, which the engine of these
//!   tests does not have.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::account::{NewAccount, Settings as Addresses};
use crate::message::header::IncomingMessage;
use crate::model::clock::FixedClock;
use crate::model::{
    AccountRow, ActionId, Address, BlobHash, ChangedBy, Circle, Days, DeliveryState,
    DeliveryStatus, DerivedScramKeys, EmailAddress, EmailSubmission, EnvelopeAddress,
    ExcludedSender, Listing, ListingFilter, MailboxUid, PushKeys, PushSubscription, ScramKeys,
    ScriptError, SearchWords, SenderIdentity, Shape, ShareNotification, SubmissionRecipient,
    ToldKey, ToldLifetime, UndoStatus, UtcMillis, VacationResponse, Variant,
};
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine, Put, RowReader as _, Table};
use crate::store::{DeliveredEmail, FoldSizes, Options, RecipientOutcome};

const START: UtcMillis = UtcMillis(1_795_251_600_000);

const FIRST: &str = "v1.rows";
const SECOND: &str = "v2.rows";
const FOURTH: &str = "v4.rows";
const FIFTH: &str = "v5.rows";
const SIXTH: &str = "v6.rows";
const WRITTEN: &str = "written.rows";

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn store_of(name: &str) -> Store {
    let text = std::fs::read_to_string(file(name)).unwrap();
    let clock = Arc::new(FixedClock::at(START.after(Duration::from_secs(3600))));
    let options = Options { ranked_above: Some(2), ..Options::small() };
    Store::open_engine(engine(text.lines().map(str::to_owned)), &options, clock).unwrap()
}

/// Whether a row depends on the wording of a message that the server composes.
fn depends_on_wording(line: &str) -> bool {
    line.starts_with("outbox ") || line.starts_with("outbox_messages ")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn dump(engine: &MemoryEngine) -> Vec<String> {
    let lines_of = |table: &Table| {
        let rows = engine.rows(*table).into_iter();
        rows.map(|(key, value)| format!("{} {} {}", table.name(), hex(&key), hex(&value)))
            .collect::<Vec<_>>()
    };
    Table::ALL.iter().flat_map(lines_of).collect()
}

fn engine(lines: impl Iterator<Item = String>) -> Arc<MemoryEngine> {
    let engine = Arc::new(MemoryEngine::new());
    let puts = lines.map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let table =
            *Table::ALL.iter().find(|table| table.name() == words[0]).expect("a known table");
        Put { table, key: unhex(words[1]), value: Some(unhex(words[2])) }
    });
    engine.write(&[Arc::new(Batch::of(puts.collect()))]).unwrap();
    engine
}

/// Writes rows of nearly every table. The bounds are small, so that a few emails have ranks and
/// folds.
fn fill_store(engine: Arc<MemoryEngine>) {
    let clock = Arc::new(FixedClock::at(START));
    let options = Options { ranked_above: Some(2), ..Options::small() };
    let store = Store::open_engine(engine, &options, clock.clone()).unwrap();
    let directory = Directory::new(store.clone(), Addresses::default());
    let address = |text: &str| Address::parse(text).unwrap();
    let ann = NewAccount {
        name: Some("ann".into()),
        display_name: Some("Ann Lee".into()),
        quota_bytes: Some(1 << 30),
        zone: Some("Europe/Berlin".into()),
        detail_files: true,
        unix_user: Some("ann".into()),
        aliases: vec![address("a.lee@example.org")],
        ..NewAccount::at(address("ann@example.org"))
    };
    let ann = directory.add(&ann).unwrap();
    let bob = directory.add(&NewAccount::at(address("jürgen@bücher.example"))).unwrap();
    let keys = ScramKeys { stored_key: [1; 32], server_key: [2; 32] };
    let keys = DerivedScramKeys { salt: [3; 16], iterations: 4096, keys };
    let set_password = |row: &mut AccountRow| {
        row.set_password("phone", Some("$argon2id$".into()), Some(keys.clone()));
    };
    directory.update(bob, set_password).unwrap();
    directory.add_catch_all(bob, "example.net").unwrap();
    directory.add_alias_domain("example.com", "example.org").unwrap();
    let response = VacationResponse {
        enabled: true,
        from_date: Some(START),
        to_date: Some(START.after(Duration::from_secs(86_400))),
        subject: Some("Away".into()),
        text_body: Some("Back on {until}.".into()),
        except: vec!["boss@example.net".parse::<ExcludedSender>().unwrap()],
        organisation: vec!["example.com".into()],
        language: Some("en".into()),
        variants: vec![Variant {
            language: Some("de".into()),
            circle: Some(Circle::Outside),
            text_body: Some("Bis {until}.".into()),
            ..Variant::default()
        }],
        days: vec![Days::Weekday(6), Days::Monthdays(21, 22)],
        report: true,
        ..VacationResponse::default()
    };
    let told = ToldKey([7; 32]);
    let set = store.commit(ann, |txn| {
        txn.set_vacation(&response)?;
        txn.remember_told(
            &told,
            &address("zoe@example.net"),
            &ToldLifetime::For(Duration::from_secs(604_800)),
        )
    });
    set.unwrap().1.wait_blocking().unwrap();
    let deliver = Arc::new(Deliverer::new(store.clone(), directory, LiveValue::default()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for n in 0..8u64 {
        clock.advance(Duration::from_millis(1500 * n));
        let text = format!(
            "From: Eve <eve{}@example.net>\r\nTo: ann@example.org\r\nSubject: Grüße {}\r\n\
             Message-ID: <{n}@x>\r\nReferences: <{}@x>\r\n{}\
             Date: Sat, 21 Nov 2026 09:00:00 +0100\r\n\r\nWörter und words {n}\r\n",
            n % 3,
            n % 2,
            n / 2,
            if n == 5 { "List-Id: <l.example>\r\n" } else { "" }
        );
        let mut envelope =
            Envelope { sender: Some(address("eve@example.net")), ..Envelope::default() };
        let mut session = DeliveryTransaction::default();
        for to in ["ann@example.org", "ann+archive@example.com", "x@example.net"]
            .iter()
            .skip(usize::from(n > 3))
        {
            let recipient = Recipient::plain(address(to));
            assert!(deliver.admit(&mut session, &envelope, &recipient).is_positive());
            envelope.recipients.push(recipient);
        }
        let replies = runtime.block_on(Arc::clone(&deliver).deliver(
            session,
            envelope,
            IncomingMessage::new(text.into_bytes()),
            None,
        ));
        assert!(replies.iter().all(Reply::is_positive));
    }
    let sizes = FoldSizes { rows: 2, fan: 2, ..FoldSizes::default() };
    // Two folds of token rows; then a merge of both, since there are fewer than 99 further rows.
    for rows in [2, 2, 99] {
        let piece =
            store.snapshot().next_fold_piece(ann, &FoldSizes { rows, ..sizes }).unwrap().unwrap();
        let (written, ticket) = store.commit(ann, |txn| txn.write_folds(&piece)).unwrap();
        ticket.wait_blocking().unwrap();
        assert!(written);
    }
    let emails = store.snapshot().emails(ann, None, 99).unwrap();
    let (_, ticket) = store
        .commit(ann, |txn| {
            let (id, email) = &emails[1];
            txn.update_email(
                *id,
                email.mailboxes.clone(),
                ["$seen".to_owned(), "$flagged".to_owned()].into(),
            )?;
            txn.extend_listing(MailboxUid(1), ListingFilter::Unseen, 99)?;
            txn.update_mailbox(MailboxUid(1), |row| {
                drop(row.attributes.insert("color".into(), "#1e90ff".into()));
            })?;
            txn.subscribe(MailboxUid(1), bob, true)?;
            txn.update_mailbox(MailboxUid(1), |row| row.shares = [(bob, 3)].into())?;
            txn.update_own_identities(&[address("ann@example.org")], "Ann Lee")?;
            let identity = txn.create_object(&SenderIdentity {
                name: "Ann".into(),
                email: "*@example.org".into(),
                reply_to: Some(vec![EmailAddress { name: None, email: "lee@example.org".into() }]),
                text_signature: "-- \r\nAnn".into(),
                ..SenderIdentity::default()
            })?;
            let parameters = Some(
                [("NOTIFY".to_owned(), Some("NEVER".to_owned())), ("X".to_owned(), None)].into(),
            );
            txn.create_object(&EmailSubmission {
                identity,
                email: emails[1].0,
                thread: emails[1].1.thread,
                message_id: "1@example.org".into(),
                mail_from: EnvelopeAddress { email: "ann@example.org".into(), parameters: None },
                rcpt_to: vec![SubmissionRecipient {
                    path: EnvelopeAddress { email: "eve@example.net".into(), parameters },
                    status: DeliveryStatus {
                        smtp_reply: "250 2.0.0 Ok".into(),
                        delivered: DeliveryState::Unknown,
                        displayed: false,
                    },
                }],
                send_at: START,
                undo: UndoStatus::Final,
                ended: Some(START),
                action: Some(ActionId(9)),
                dsn: vec![emails[2].0],
                mdn: Vec::new(),
            })?;
            txn.create_object(&PushSubscription {
                device_client_id: "a device".into(),
                url: "https://push.example.net/1".into(),
                keys: Some(PushKeys { p256dh: vec![4; 65], auth: vec![1; 16] }),
                code: "0123".into(),
                is_verified: true,
                expires: START.after(Duration::from_secs(604_800)),
                types: Some(vec!["Email".into()]),
                credential: Some("phone".into()),
            })?;
            let script = txn.create_script("main", b"keep;\r\n")?;
            txn.create_script("Büro", b"# \xff")?;
            txn.activate_script(Some(script))?;
            let source = BlobHash(*blake3::hash(b"keep;\r\n").as_bytes());
            txn.count_script_hits(script, &source, &[0])?;
            txn.count_script_hits(script, &source, &[0])?;
            txn.add_script_error(&ScriptError {
                at: START,
                script: "main".into(),
                line: 1,
                message: "more than 4 redirects".into(),
                email: Some(emails[1].0),
            })?;
            let (yes, no) = (address("ann@example.org"), address("ann+no@example.org"));
            txn.remember_delivery(
                &[8; 32],
                &[
                    DeliveredEmail::received(emails[0].0),
                    DeliveredEmail { email: emails[1].0, version: Some(BlobHash([8; 32])) },
                ],
                [(&yes, RecipientOutcome::Accepted), (&no, RecipientOutcome::Refused("No."))],
            )?;
            txn.remember_duplicate(&[9; 32], START.after(Duration::from_secs(604_800)))?;
            let short_lived = txn.create_object(&SenderIdentity::default())?;
            txn.destroy_object::<SenderIdentity>(short_lived)?;
            txn.add_share_notification(&ShareNotification {
                created: START,
                by: ChangedBy {
                    name: "Bob".into(),
                    email: Some("bob@example.org".into()),
                    account: Some(bob),
                },
                account: bob,
                mailbox: MailboxUid(1),
                name: "Inbox".into(),
                old: 0,
                new: 3,
            })?;
            txn.put_upload(
                bob,
                &BlobHash(*blake3::hash(b"uploaded").as_bytes()),
                b"uploaded",
                "text/plain",
                99,
            )?;
            txn.destroy_email(emails[3].0)
        })
        .unwrap();
    ticket.wait_blocking().unwrap();
    let last = store.snapshot().emails(bob, None, 1).unwrap()[0].0;
    let ends = store.commit(bob, |txn| {
        txn.destroy_email(last)?;
        txn.purge_email(last)?;
        txn.note_history(Duration::from_secs(86_400))?;
        txn.sweep_thread_refs(UtcMillis(0), Duration::from_secs(1), 2)
    });
    ends.unwrap().1.wait_blocking().unwrap();
    assert!(store.check().unwrap().is_empty());
}

#[test]
fn this_version_writes_the_rows_of_the_fixture() {
    let first = std::fs::read_to_string(file(FIRST)).unwrap();
    // The secrets are random, so their row (`store`, in hex) is taken from the first fixture.
    let engine = engine(
        first.lines().filter(|line| line.starts_with("site 73746f7265 ")).map(str::to_owned),
    );
    fill_store(Arc::clone(&engine));
    let written = dump(&engine);
    if std::env::var_os("RESTANTE_FIXTURE").is_some() {
        std::fs::write(file(WRITTEN), written.join("\n") + "\n").unwrap();
        return;
    }
    let fixture = std::fs::read_to_string(file(WRITTEN)).unwrap();
    let fixture: Vec<&str> = fixture.lines().collect();
    let rows = written.iter().zip(&fixture).filter(|(ours, _)| !depends_on_wording(ours));
    for (ours, expected) in rows {
        assert_eq!(ours.as_str(), *expected, "the format has changed");
    }
    assert_eq!(written.len(), fixture.len());
    let tables: BTreeSet<&str> = fixture.iter().filter_map(|line| line.split(' ').next()).collect();
    assert!(tables.len() >= 45, "only {} tables: {tables:?}", tables.len());
}

#[test]
fn stores_of_this_and_earlier_formats_can_be_read_and_changed() {
    for name in [FIRST, SECOND, FOURTH, FIFTH, SIXTH, WRITTEN] {
        read_and_write_on(&store_of(name));
    }
}

#[test]
fn first_format_is_raised_and_a_later_one_is_refused() {
    let lines = std::fs::read_to_string(file(FIRST)).unwrap();
    let format = |engine: &MemoryEngine| engine.get(Table::Site, b"store").unwrap().unwrap()[0];
    let options = Options { ranked_above: Some(2), ..Options::small() };
    let open = |engine: &Arc<MemoryEngine>| {
        Store::open_engine(engine.clone(), &options, Arc::new(FixedClock::at(START)))
    };
    let first = engine(lines.lines().map(str::to_owned));
    assert_eq!(format(&first), 1);
    let secrets = open(&first).unwrap().secrets().clone();
    assert_eq!(format(&first), 7);
    assert_eq!(open(&first).unwrap().secrets().threads, secrets.threads, "the secrets stay");
    // An earlier program refuses format 7 as this one refuses format 8.
    let mut row = first.get(Table::Site, b"store").unwrap().unwrap();
    row[0] = 8;
    let puts = vec![Put { table: Table::Site, key: b"store".to_vec(), value: Some(row) }];
    first.write(&[Arc::new(Batch::of(puts))]).unwrap();
    let refused = open(&first).unwrap_err().to_string();
    assert!(
        refused.contains("the store has format 8") && refused.contains("use a newer version"),
        "{refused}"
    );
}

/// In the first version the row of an account names only its primary address.
#[test]
fn accounts_of_format_1_name_their_addresses_when_the_service_starts() {
    for (name, completed) in [(FIRST, 2), (WRITTEN, 0)] {
        let store = store_of(name);
        let rows =
            || store.snapshot().accounts().unwrap().into_iter().map(|(_, row)| row.addresses);
        assert!(rows().all(|addresses| addresses.is_some() == (name == WRITTEN)), "{name}");
        let directory = Directory::new(store.clone(), Addresses::default());
        assert_eq!(directory.complete_address_lists().unwrap(), completed, "{name}");
        assert_eq!(directory.complete_address_lists().unwrap(), 0, "{name}: again");
        let named: Vec<Vec<String>> =
            rows().map(|addresses| addresses.unwrap().into_iter().collect()).collect();
        assert_eq!(named, [["a.lee@example.org"], ["@example.net"]]);
        assert_eq!(store.check().unwrap(), []);
    }
}

fn read_and_write_on(store: &Store) {
    assert_eq!(store.check().unwrap(), []);
    let snapshot = store.snapshot();
    let (ann, row) =
        snapshot.accounts().unwrap().into_iter().find(|(_, row)| row.name == "ann").unwrap();
    assert_eq!(
        (row.display_name.as_deref(), row.zone.as_deref()),
        (Some("Ann Lee"), Some("Europe/Berlin"))
    );
    let emails = snapshot.emails(ann, None, 99).unwrap();
    assert_eq!(emails.len(), 7, "8 were delivered, and one was destroyed");
    let text = snapshot.message(ann, emails[0].0).unwrap().unwrap();
    assert!(String::from_utf8(text).unwrap().ends_with("Wörter und words 7\r\n"));
    assert_eq!(
        snapshot.content(ann, emails[0].0).unwrap().unwrap().1.subject.as_deref(),
        Some("Grüße 1")
    );
    let inbox = Listing { uid: MailboxUid(1), filter: ListingFilter::Every, shape: Shape::Threads };
    assert!(!snapshot.listing(ann, inbox, None, 99).unwrap().is_empty());
    assert_eq!(
        snapshot.told_rows(ann, 9).unwrap().len(),
        2,
        "the response told one, a script another"
    );
    let response = snapshot.vacation(ann).unwrap();
    assert_eq!((response.except.len(), response.variants.len(), response.days.len()), (1, 1, 2));
    assert_eq!(snapshot.outbox(ann).unwrap().len(), 1);
    let bob = snapshot.accounts().unwrap().into_iter().find(|(id, _)| *id != ann).unwrap().0;
    assert_eq!(
        (
            snapshot.accounts_shared_with(bob).unwrap(),
            snapshot.mailbox(ann, MailboxUid(1)).unwrap().unwrap().rights_of(ann, bob)
        ),
        (vec![ann], 3)
    );
    assert_eq!(snapshot.objects::<SenderIdentity>(ann).unwrap().len(), 2);
    let told = snapshot.objects::<ShareNotification>(ann).unwrap().remove(0).1;
    assert_eq!((told.by.account, told.name.as_str(), told.new), (Some(bob), "Inbox", 3));
    let sent = snapshot.objects::<EmailSubmission>(ann).unwrap().remove(0).1;
    assert_eq!(
        (sent.undo, sent.rcpt_to[0].status.delivered),
        (UndoStatus::Final, DeliveryState::Unknown)
    );
    assert_eq!(
        snapshot.objects::<PushSubscription>(ann).unwrap()[0].1.keys.as_ref().unwrap().auth,
        [1; 16]
    );
    drop(snapshot);
    let directory = Directory::new(store.clone(), Addresses::default());
    assert!(
        directory
            .resolve(&Address::parse("whoever@example.net").unwrap())
            .unwrap()
            .unwrap()
            .row
            .active
    );
    store.commit(ann, |txn| txn.destroy_email(emails[0].0)).unwrap().1.wait_blocking().unwrap();
    assert_eq!(store.check().unwrap(), []);
}

/// Rows that an earlier parser made differently are no damage. A rebuild makes them all with one
/// parser, so after it a difference is damage.
#[test]
fn rows_of_an_earlier_parser_are_not_reported() {
    let store = store_of(FIRST);
    let secrets = store.secrets().clone();
    let make_rows = |raw: &[u8]| {
        let mut rows = crate::message::rows(raw, &secrets);
        rows.content.preview.push('!');
        rows.tokens.texts.clear();
        rows.thread_keys.truncate(1);
        rows
    };
    let count_breaches = |make_rows: &crate::store::check::MakeRowsFn<'_>| {
        store.check_deep(Some(make_rows), &mut |_| true).unwrap().breaches.len()
    };
    assert_eq!(count_breaches(&make_rows), 0);
    store
        .repair(crate::store::repair::RepairScope::Rebuild, None, &make_rows, &mut |_| true)
        .unwrap();
    assert_eq!(count_breaches(&make_rows), 0);
    assert!(count_breaches(&|raw: &[u8]| crate::message::rows(raw, &secrets)) > 0);
}

#[test]
fn reindex_makes_the_tokens_of_an_earlier_parser_anew() {
    let store = store_of(FIRST);
    let secrets = store.secrets().clone();
    let make_rows = |raw: &[u8]| {
        let mut rows = crate::message::rows(raw, &secrets);
        let mut words = SearchWords::default();
        for word in rows.tokens.words.iter().take(3) {
            words.push_word(word.hash, word.positions.iter().copied());
        }
        rows.tokens.words = words;
        rows
    };
    let reindex = || {
        store
            .repair(crate::store::repair::RepairScope::Reindex, None, &make_rows, &mut |_| true)
            .unwrap()
    };
    let done = reindex();
    assert_eq!(
        (done.repaired.len(), done.history_restarted.len(), done.unrepaired_count),
        (2, 0, 0),
        "{done:?}"
    );
    for account in done.repaired {
        let snapshot = store.snapshot();
        let live = snapshot.emails(account, None, 99).unwrap();
        assert!(
            live.iter().all(|(id, _)| snapshot
                .tokens(account, *id)
                .unwrap()
                .unwrap()
                .words
                .iter()
                .len()
                == 3)
        );
    }
    assert_eq!(reindex().written, 0);
}
