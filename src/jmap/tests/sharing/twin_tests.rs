//! Two accounts that differ only in mail that is not shared give a guest the same answers.
//!
//! - Both accounts get the same changes of mail that is shared at some time. In between, each gets
//!   changes of its own of mail that is never shared. A guest sends both the same calls.
//! - Ids are compared by the objects that they name. State strings are not compared:
//!   `docs/decisions.md` says what they reveal.

mod strategy;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use self::strategy::{guest_query, private_changes, shared_change};
use super::SharingFixture;
use crate::jmap::tests::call;
use crate::message::rows;
use crate::model::{AccountId, BlobId, EmailId, MailboxUid, UtcMillis};
use crate::store::{EncodedMessage, Error, NewEmail, Txn};

const WORDS: [&str; 3] = ["alpha", "swordfish", "beta"];
const PEOPLE: [&str; 2] = ["cam@example.net", "dee@example.com"];
const KEYWORDS: [&str; 4] = ["$seen", "$flagged", "$draft", "work"];
const TOPICS: usize = 2;
/// The beginning of hour 0, in milliseconds.
const HOUR_0: i64 = 1_795_000_000_000;

#[derive(Debug, Clone)]
struct TestMessage {
    /// An index of `WORDS`.
    word: usize,
    /// An index of `PEOPLE`.
    from: usize,
    long: bool,
    keywords: BTreeSet<String>,
    /// The mailboxes, as bits (`TwinAccount::mailboxes`), as in the changes below.
    boxes: u8,
}

/// A change of mail that is shared, or may be later. `which` is an index in `TwinAccount::live`,
/// taken modulo its length.
#[derive(Debug, Clone)]
enum SharedChange {
    Create {
        letter: TestMessage,
        topic: Option<usize>,
    },
    /// The guest creates a draft, with a guessed Message-ID as reference.
    Draft {
        topic: Option<usize>,
        guess: usize,
    },
    Refile {
        which: usize,
        boxes: u8,
    },
    Mark {
        which: usize,
        keywords: BTreeSet<String>,
    },
    Destroy {
        which: usize,
    },
}

/// A change of mail that is never shared. `which` is an index in `TwinAccount::live_hidden`, and
/// `reply_to` one in `singles`, each taken modulo the length.
#[derive(Debug, Clone)]
enum PrivateChange {
    /// Belongs to the thread of a topic, or else replies to one of `singles`, if there is one.
    Create {
        letter: TestMessage,
        topic: Option<usize>,
        reply_to: usize,
    },
    Refile {
        which: usize,
        boxes: u8,
    },
    Mark {
        which: usize,
        keywords: BTreeSet<String>,
    },
    Destroy {
        which: usize,
    },
    Rename {
        to: u8,
    },
}

#[derive(Debug, Clone)]
struct GuestQuery {
    filter: Value,
    sort: Value,
    collapse: bool,
    /// An index in `TwinAccount::shared`, taken modulo its length.
    up_to: Option<usize>,
}

/// An account with its guest, and names for every object that the guest may ever see.
struct TwinAccount {
    bed: SharingFixture,
    ann: AccountId,
    /// Plans, Trash, Inbox and Hidden. The first `open` of them are shared with the guest.
    boxes: Vec<MailboxUid>,
    open: usize,
    shared: Vec<EmailId>,
    /// The indexes in `shared` of the emails that changes may hit: those that are neither destroyed
    /// nor the first of a topic.
    live: Vec<usize>,
    hidden: Vec<EmailId>,
    /// Those of `hidden` that changes may hit: all but the first and those that are destroyed.
    live_hidden: Vec<EmailId>,
    /// Names of emails, blobs and threads, by id.
    names: BTreeMap<String, String>,
    /// The indexes in `shared` of the emails that `SharedChange::Create` made without a topic.
    singles: Vec<usize>,
    /// Hours after `HOUR_0`. Each change of shared mail advances it by one.
    hour: i64,
    /// The states of Email, Thread, Mailbox and Mailbox/query before each change.
    states: Vec<[Value; 4]>,
}

impl TwinAccount {
    fn new(open: usize) -> Self {
        let bed = SharingFixture::new();
        let ann: AccountId = bed.ann.parse().unwrap();
        let made = json!({"accountId": bed.ann, "create": {"h": {"name": "Hidden"}}});
        let made = call(&bed.context, "Mailbox/set", &made).1;
        let hidden: MailboxUid = made["created"]["h"]["id"].as_str().unwrap().parse().unwrap();
        let trash = bed.context.store.snapshot().account_state(ann).unwrap().trash;
        let boxes = vec![bed.plans.parse().unwrap(), trash, bed.inbox.parse().unwrap(), hidden];
        bed.open(&bed.plans, &["mayReadItems", "mayAddItems"]);
        if open > 1 {
            bed.open(&trash.to_string(), &["mayReadItems"]);
        }
        let mut world = Self {
            ann,
            boxes,
            open,
            shared: Vec::new(),
            live: Vec::new(),
            hidden: vec![bed.emails[0].parse().unwrap()],
            live_hidden: Vec::new(),
            names: BTreeMap::new(),
            singles: Vec::new(),
            hour: 0,
            states: Vec::new(),
            bed,
        };
        for (email, name) in
            world.bed.emails.clone().iter().zip(["alone", "planned", "twofold"]).skip(1)
        {
            world.names.insert(email.clone(), name.to_owned());
            let id: EmailId = email.parse().unwrap();
            world.names.insert(BlobId::email(id).to_string(), format!("blob of {name}"));
            let thread = world.bed.context.store.snapshot().email(ann, id).unwrap().unwrap().thread;
            world.names.insert(thread.to_string(), format!("thread of {name}"));
        }
        // Every topic has an email that is never destroyed, so that its thread stays.
        for topic in 0..TOPICS {
            let letter =
                TestMessage { word: 0, from: 0, long: false, keywords: [].into(), boxes: 1 };
            world.change(&SharedChange::Create { letter, topic: Some(topic) });
            world.live.clear();
        }
        world
    }

    fn commit<T>(&self, change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>) -> T {
        let (made, ticket) = self.bed.context.store.commit(self.ann, change).unwrap();
        ticket.wait_blocking().unwrap();
        made
    }

    /// The mailboxes whose bits are set; the first mailbox if no bit is set.
    fn mailboxes(of: &[MailboxUid], bits: u8) -> BTreeSet<MailboxUid> {
        let named: BTreeSet<MailboxUid> = of
            .iter()
            .enumerate()
            .filter(|(at, _)| (bits >> at) & 1 == 1)
            .map(|(_, uid)| *uid)
            .collect();
        if named.is_empty() { of.iter().take(1).copied().collect() } else { named }
    }

    fn unshared_mailboxes(&self, bits: u8) -> BTreeSet<MailboxUid> {
        Self::mailboxes(&self.boxes[self.open..], bits)
    }

    fn file(
        &self,
        letter: &TestMessage,
        fields: &str,
        boxes: &BTreeSet<MailboxUid>,
        at: i64,
    ) -> EmailId {
        let padding = if letter.long { "x".repeat(700) } else { String::new() };
        let raw = format!(
            "From: {}\r\nX-Mark: {}\r\n{fields}\r\nthe {} word {padding}\r\n",
            PEOPLE[letter.from], WORDS[letter.word], WORDS[letter.word]
        );
        let message = EncodedMessage::new(&rows(raw.as_bytes(), self.bed.context.store.secrets()));
        let (mut made, ticket) =
            self.bed.context.store.commit_message(&[self.ann], &message, raw.as_bytes(), |txn| {
                let (mailboxes, keywords) = (boxes.clone(), letter.keywords.clone());
                let received_at = UtcMillis(HOUR_0 + at);
                txn.create_email(&NewEmail {
                    message: &message,
                    prefix: b"",
                    mailboxes,
                    keywords,
                    received_at,
                })
            });
        ticket.wait_blocking().unwrap();
        made.pop().unwrap().1.unwrap().0
    }

    fn change(&mut self, change: &SharedChange) {
        self.hour += 1;
        let at = |which: &usize| which.checked_rem(self.live.len());
        match change {
            SharedChange::Create { letter, topic } => {
                let number = self.shared.len();
                let fields = match topic {
                    Some(topic) => {
                        format!("Subject: topic {topic}\r\nReferences: <root{topic}@x>\r\n")
                    }
                    None => format!("Subject: single {number}\r\n"),
                };
                let fields = format!("{fields}Message-ID: <s{number}@x>\r\n");
                let boxes = Self::mailboxes(&self.boxes[..3], letter.boxes);
                let id = self.file(letter, &fields, &boxes, self.hour * 3_600_000);
                self.name(id);
                if topic.is_none() {
                    self.singles.push(number);
                }
            }
            SharedChange::Draft { topic, guess } => {
                let subject =
                    topic.map_or("secret".to_owned(), |topic| format!("Re: topic {topic}"));
                let root = topic.map(|topic| format!("root{topic}@x"));
                let references: Vec<String> =
                    root.into_iter().chain([format!("h{guess}@x")]).collect();
                let create = json!({"d": {
                    "mailboxIds": {&self.bed.plans: true}, "subject": subject,
                    "references": references,
                    "receivedAt": UtcMillis(HOUR_0 + self.hour * 3_600_000).rfc3339(),
                    "keywords": {},
                }});
                let hidden = self.hidden_threads();
                let made =
                    self.bed.bob("Email/set", json!({"create": create}))["created"]["d"].clone();
                let thread = made["threadId"].as_str().unwrap().to_owned();
                assert!(!hidden.contains(&thread), "the guest's reply to h{guess} joined {thread}");
                self.name(made["id"].as_str().unwrap().parse().unwrap());
            }
            SharedChange::Refile { which, boxes } => {
                let Some(at) = at(which) else { return };
                let id = self.shared[self.live[at]];
                let boxes = Self::mailboxes(&self.boxes, *boxes);
                self.commit(|txn| {
                    let keywords = txn.snapshot().email(self.ann, id)?.unwrap().keywords;
                    txn.update_email(id, boxes.clone(), keywords)
                });
            }
            SharedChange::Mark { which, keywords } => {
                let Some(at) = at(which) else { return };
                let id = self.shared[self.live[at]];
                self.commit(|txn| {
                    let boxes = txn.snapshot().email(self.ann, id)?.unwrap().mailboxes;
                    txn.update_email(id, boxes, keywords.clone())
                });
            }
            SharedChange::Destroy { which } => {
                let Some(at) = at(which) else { return };
                let id = self.shared[self.live.remove(at)];
                self.commit(|txn| txn.destroy_email(id));
            }
        }
    }

    /// Gives an email that is shared, or may be, a name that is the same in both accounts.
    fn name(&mut self, id: EmailId) {
        let number = self.shared.len();
        let thread = self.bed.context.store.snapshot().email(self.ann, id).unwrap().unwrap().thread;
        self.names.insert(id.to_string(), format!("email {number}"));
        self.names.insert(BlobId::email(id).to_string(), format!("blob of {number}"));
        self.names.entry(thread.to_string()).or_insert(format!("thread of {number}"));
        self.live.push(number);
        self.shared.push(id);
    }

    /// The threads that the guest does not see.
    fn hidden_threads(&self) -> BTreeSet<String> {
        let snapshot = self.bed.context.store.snapshot();
        let threads = snapshot.threads(self.ann, usize::MAX).unwrap();
        let shown = self.bed.bob("Thread/get", json!({"ids": null}))["list"].clone();
        let shown: BTreeSet<&str> =
            shown.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
        threads.iter().map(ToString::to_string).filter(|id| !shown.contains(id.as_str())).collect()
    }

    fn change_unshared(&mut self, change: &PrivateChange) {
        let at = |which: &usize| which.checked_rem(self.live_hidden.len());
        match change {
            PrivateChange::Create { letter, topic, reply_to } => {
                let number = self.hidden.len();
                let single = reply_to.checked_rem(self.singles.len()).map(|at| self.singles[at]);
                let fields = match (topic, single) {
                    (Some(topic), _) => {
                        format!("Subject: Re: topic {topic}\r\nReferences: <root{topic}@x>\r\n")
                    }
                    (None, Some(single)) => {
                        format!("Subject: Re: single {single}\r\nReferences: <s{single}@x>\r\n")
                    }
                    (None, None) => "Subject: secret\r\n".to_owned(),
                };
                let fields = format!("{fields}Message-ID: <h{number}@x>\r\n");
                let at = self.hour * 3_600_000 + 1000 * i64::try_from(number).unwrap();
                let id = self.file(letter, &fields, &self.unshared_mailboxes(letter.boxes), at);
                self.hidden.push(id);
                self.live_hidden.push(id);
            }
            PrivateChange::Refile { which, boxes } => {
                let Some(id) = at(which).map(|at| self.live_hidden[at]) else { return };
                let boxes = self.unshared_mailboxes(*boxes);
                self.commit(|txn| {
                    let keywords = txn.snapshot().email(self.ann, id)?.unwrap().keywords;
                    txn.update_email(id, boxes.clone(), keywords)
                });
            }
            PrivateChange::Mark { which, keywords } => {
                let Some(id) = at(which).map(|at| self.live_hidden[at]) else { return };
                self.commit(|txn| {
                    let boxes = txn.snapshot().email(self.ann, id)?.unwrap().mailboxes;
                    txn.update_email(id, boxes, keywords.clone())
                });
            }
            PrivateChange::Destroy { which } => {
                let Some(at) = at(which) else { return };
                let id = self.live_hidden.remove(at);
                self.commit(|txn| txn.destroy_email(id));
            }
            PrivateChange::Rename { to } => {
                let update = json!({self.boxes[3].to_string(): {"name": format!("Hidden {to}")}});
                call(
                    &self.bed.context,
                    "Mailbox/set",
                    &json!({"accountId": self.bed.ann, "update": update}),
                );
            }
        }
    }

    /// Returns the answer with names for ids, and the answer itself. Checks that it contains no id
    /// of an unshared email.
    fn ask(&self, name: &str, mut arguments: Value) -> (Value, Value) {
        arguments["accountId"] = self.bed.ann.clone().into();
        let (kind, answer) = call(&self.bed.asks(&self.bed.bob), name, &arguments);
        let text = answer.to_string();
        for id in &self.hidden {
            assert!(!text.contains(&id.to_string()), "{name} {arguments} names {id}: {text}");
        }
        let shown = if kind == "error" {
            json!({"error": answer["type"]})
        } else {
            self.with_names(&answer)
        };
        (shown, answer)
    }

    /// Replaces ids by names, and drops states.
    fn with_names(&self, value: &Value) -> Value {
        let name = |id: &String| self.names.get(id).unwrap_or(id).clone();
        match value {
            Value::String(text) => name(text).into(),
            Value::Array(all) => all.iter().map(|one| self.with_names(one)).collect(),
            Value::Object(members) => {
                let is_state = |name: &String| name == "state" || name.ends_with("State");
                let all = members.iter().filter(|(name, _)| !is_state(name));
                Value::Object(
                    all.map(|(key, value)| (name(key), self.with_names(value)))
                        .collect::<Map<_, _>>(),
                )
            }
            other => other.clone(),
        }
    }

    /// Records the states that the guest has now.
    fn record_states(&mut self) {
        let state = |method: &str| self.ask(method, json!({"ids": []})).1["state"].clone();
        let query = self.ask("Mailbox/query", json!({})).1["queryState"].clone();
        let states = [state("Email/get"), state("Thread/get"), state("Mailbox/get"), query];
        self.states.push(states);
    }

    /// Returns each call with its answer.
    fn answers(&self, queries: &[GuestQuery]) -> Vec<(String, Value)> {
        let mut answers = Vec::new();
        let mut ask = |name: &str, arguments: Value| {
            let shown = self.ask(name, arguments.clone()).0;
            answers.push((format!("{name} {}", self.with_names(&arguments)), shown));
        };
        let ids: Vec<String> = self.shared.iter().map(ToString::to_string).collect();
        let properties = [
            "threadId",
            "mailboxIds",
            "keywords",
            "size",
            "receivedAt",
            "subject",
            "preview",
            "blobId",
        ];
        for method in ["Email/get", "Thread/get", "Mailbox/get"] {
            let properties = if method == "Email/get" { json!(properties) } else { Value::Null };
            ask(method, json!({"ids": null, "properties": properties}));
        }
        ask("Email/get", json!({"ids": ids, "properties": properties}));
        let blobs: Vec<String> =
            self.shared.iter().map(|id| BlobId::email(*id).to_string()).collect();
        ask("Blob/lookup", json!({"ids": blobs, "typeNames": ["Email", "Thread", "Mailbox"]}));
        ask("Mailbox/query", json!({"sort": [{"property": "name"}]}));
        for query in queries {
            let GuestQuery { filter, sort, collapse, up_to } = query;
            let of = json!({"filter": filter, "sort": sort, "collapseThreads": collapse,
                "calculateTotal": true});
            ask("Email/query", of.clone());
            ask("SearchSnippet/get", json!({"filter": filter, "emailIds": ids}));
            let up_to = up_to.and_then(|at| at.checked_rem(ids.len())).map(|at| &ids[at]);
            for [since, ..] in &self.states {
                let mut changes = of.clone();
                changes["sinceQueryState"] = since.clone();
                ask("Email/queryChanges", changes.clone());
                changes["upToId"] = json!(up_to);
                changes["maxChanges"] = 3.into();
                ask("Email/queryChanges", changes);
            }
        }
        for [emails, threads, mailboxes, query] in &self.states {
            for max in [Value::Null, 1.into()] {
                ask("Email/changes", json!({"sinceState": emails, "maxChanges": max}));
                ask("Thread/changes", json!({"sinceState": threads, "maxChanges": max}));
                ask("Mailbox/changes", json!({"sinceState": mailboxes, "maxChanges": max}));
            }
            ask("Mailbox/queryChanges", json!({"sinceQueryState": query, "calculateTotal": true}));
        }
        answers
    }
}

/// Replaces the names of mailboxes in a filter by their ids, which are the same in both accounts.
fn with_ids(value: &Value, bed: &SharingFixture) -> Value {
    match value {
        Value::String(text) if text == "plans" => bed.plans.clone().into(),
        Value::String(text) if text == "inbox" => bed.inbox.clone().into(),
        Value::Array(all) => all.iter().map(|one| with_ids(one, bed)).collect(),
        Value::Object(all) => Value::Object(
            all.iter().map(|(key, value)| (key.clone(), with_ids(value, bed))).collect(),
        ),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 400,
        ..ProptestConfig::default() })]

    #[test]
    fn guest_answers_do_not_depend_on_unshared_mail(
        changes in proptest::collection::vec(
            (shared_change(), private_changes(), private_changes()),
            1..12,
        ),
        queries in proptest::collection::vec(guest_query(), 1..6),
        open in 1usize..3,
    ) {
        let (mut one, mut other) = (TwinAccount::new(open), TwinAccount::new(open));
        let queries: Vec<GuestQuery> = queries
            .into_iter()
            .map(|query| GuestQuery { filter: with_ids(&query.filter, &one.bed), ..query })
            .collect();
        for (change, here, there) in &changes {
            for (world, hidden) in [(&mut one, here), (&mut other, there)] {
                world.record_states();
                hidden.iter().for_each(|change| world.change_unshared(change));
                world.change(change);
            }
        }
        let answers = one.answers(&queries).into_iter().zip(other.answers(&queries));
        for ((call, one), (_, other)) in answers {
            prop_assert_eq!(one, other, "{}", call);
        }
    }
}
