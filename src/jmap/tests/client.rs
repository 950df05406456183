//! A client that only asks for changes (RFC 8620 §5.2, §5.6) ends up with the same objects and
//! lists as a client that fetches everything, whatever others change meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{account_of, call, context, letters};
use crate::jmap::{Caller, Context};
use crate::model::AccountId;
use crate::store::Txn;

/// A change by somebody other than the client. A `usize` is the index of an email or mailbox, taken
/// modulo their number.
#[derive(Debug, Clone)]
enum ForeignChange {
    /// Delivers this many messages.
    Deliver(u32),
    /// Sets (true) or removes a keyword of an email.
    Flag(usize, &'static str, bool),
    /// Moves an email to a mailbox; with true, it also stays where it is.
    Move(usize, usize, bool),
    Destroy(usize),
    /// Makes a mailbox; the number is part of the name.
    Make(u8),
    Rename(usize, u8),
    /// Puts the first mailbox under the second.
    Nest(usize, usize),
    /// Destroys a mailbox with its emails.
    Remove(usize),
    /// Gives the guest these rights (bits of `Right`) in a mailbox; 0 ends the share.
    Share(usize, u16),
}

fn foreign_change() -> impl Strategy<Value = ForeignChange> {
    let word = prop::sample::select(vec!["$seen", "$flagged", "$draft", "work"]);
    prop_oneof![
        3 => (1u32..3).prop_map(ForeignChange::Deliver),
        4 => (0usize..9, word, any::<bool>()).prop_map(|(at, word, on)|
            ForeignChange::Flag(at, word, on)),
        3 => (0usize..9, 0usize..6, any::<bool>()).prop_map(|(at, to, also)|
            ForeignChange::Move(at, to, also)),
        2 => (0usize..9).prop_map(ForeignChange::Destroy),
        1 => (0u8..4).prop_map(ForeignChange::Make),
        1 => (0usize..6, 0u8..4).prop_map(|(at, name)| ForeignChange::Rename(at, name)),
        1 => (0usize..6, 0usize..6).prop_map(|(at, under)| ForeignChange::Nest(at, under)),
        1 => (0usize..6).prop_map(ForeignChange::Remove),
    ]
}

/// Also shares mailboxes other than the Inbox, and ends the shares.
fn foreign_change_with_sharing() -> impl Strategy<Value = ForeignChange> {
    // 1 is mayReadItems, 2 mayAddItems, 9 mayReadItems and maySetSeen.
    let share = (0usize..6, prop::sample::select(vec![0, 1, 1, 2, 9]))
        .prop_map(|(at, rights)| ForeignChange::Share(at, rights));
    prop_oneof![9 => foreign_change(), 1 => share]
}

/// An account, as the client and as the others use it.
struct WatchedAccount {
    /// The context of the others, who make the changes.
    context: Context,
    account: String,
    /// The context of the client, which is the owner or a guest.
    client: Context,
    guest: Option<AccountId>,
}

impl WatchedAccount {
    fn ask(&self, name: &str, arguments: Value) -> (String, Value) {
        let mut arguments = arguments;
        arguments["accountId"] = self.account.clone().into();
        call(&self.context, name, &arguments)
    }

    fn ask_as_client(&self, name: &str, mut arguments: Value) -> (String, Value) {
        arguments["accountId"] = self.account.clone().into();
        call(&self.client, name, &arguments)
    }

    fn ids(&self, method: &str) -> Vec<String> {
        let (_, answer) = self.ask(method, json!({}));
        answer["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    }

    /// Does nothing if the change is impossible.
    fn apply(&self, change: &ForeignChange) {
        let (emails, boxes) = (self.ids("Email/query"), self.ids("Mailbox/query"));
        let email = |at: usize| emails.get(at % emails.len().max(1)).cloned();
        let mailbox = |at: usize| boxes[at % boxes.len()].clone();
        let set = |arguments: Value| drop(self.ask("Mailbox/set", arguments));
        match change {
            ForeignChange::Deliver(count) => drop(letters(&self.context, *count)),
            ForeignChange::Flag(at, word, on) => {
                let Some(id) = email(*at) else { return };
                let which = if *on { "add" } else { "remove" };
                self.ask("Mail/flag", json!({"ids": [id], which: [word]}));
            }
            ForeignChange::Move(at, to, also) => {
                let Some(id) = email(*at) else { return };
                self.ask("Mail/move", json!({"ids": [id], "mailbox": mailbox(*to), "also": also}));
            }
            ForeignChange::Destroy(at) => {
                let Some(id) = email(*at) else { return };
                self.ask("Mail/destroy", json!({"ids": [id]}));
            }
            ForeignChange::Make(name) => {
                set(json!({"create": {"x": {"name": format!("box {name}")}}}));
            }
            ForeignChange::Rename(at, name) => {
                set(json!({"update": {mailbox(*at): {"name": format!("box {name}")}}}));
            }
            ForeignChange::Nest(at, under) => {
                set(json!({"update": {mailbox(*at): {"parentId": mailbox(*under)}}}));
            }
            ForeignChange::Share(at, rights) => {
                let (account, uid) =
                    (self.account.parse::<AccountId>().unwrap(), mailbox(*at).parse().unwrap());
                let guest = self.guest.unwrap();
                let done = self.context.store.commit(account, |txn| {
                    if txn.state().inbox == uid {
                        return Ok(false);
                    }
                    let shares =
                        [(guest, *rights)].into_iter().filter(|(_, rights)| *rights != 0).collect();
                    txn.update_mailbox(uid, |row| row.shares = shares)
                });
                done.unwrap().1.wait_blocking().unwrap();
            }
            ForeignChange::Remove(at) => {
                set(json!({"destroy": [mailbox(*at)], "onDestroyRemoveEmails": true}));
            }
        }
    }

    fn get(&self, kind: &str, arguments: Value) -> (BTreeMap<String, Value>, Value) {
        let (name, answer) = self.ask_as_client(&format!("{kind}/get"), arguments);
        assert_eq!(name, format!("{kind}/get"), "{answer}");
        let list = answer["list"].as_array().unwrap();
        let list =
            list.iter().map(|one| (one["id"].as_str().unwrap().to_owned(), one.clone())).collect();
        (list, answer["state"].clone())
    }
}

const KINDS: [(&str, &[&str]); 3] = [
    (
        "Mailbox",
        &[
            "name",
            "parentId",
            "role",
            "totalEmails",
            "unreadEmails",
            "totalThreads",
            "unreadThreads",
        ],
    ),
    ("Thread", &["emailIds"]),
    ("Email", &["mailboxIds", "keywords", "threadId"]),
];

fn queries() -> Vec<(&'static str, Value)> {
    let newest = json!([{"property": "receivedAt", "isAscending": false}]);
    vec![
        ("Email", json!({"sort": newest})),
        ("Email", json!({"sort": newest, "collapseThreads": true})),
        (
            "Email",
            json!({"filter": {"notKeyword": "$seen"}, "sort": newest, "collapseThreads": true}),
        ),
        ("Email", json!({"filter": {"hasKeyword": "work"}, "sort": [{"property": "subject"}]})),
        (
            "Mailbox",
            json!({"sort": [{"property": "name"}], "sortAsTree": true, "filterAsTree": true}),
        ),
    ]
}

/// The objects and the state of each type, and the list and the state of each query.
struct ModelClient {
    objects: BTreeMap<&'static str, (BTreeMap<String, Value>, Value)>,
    lists: Vec<(Vec<Value>, Value)>,
}

impl ModelClient {
    fn fetch(world: &WatchedAccount) -> Self {
        let fetch = |(kind, properties): (&'static str, &[&str])| {
            (kind, world.get(kind, json!({"properties": properties})))
        };
        let list = |(kind, query): &(&str, Value)| {
            let (_, answer) = world.ask_as_client(&format!("{kind}/query"), query.clone());
            (answer["ids"].as_array().unwrap().clone(), answer["queryState"].clone())
        };
        Self {
            objects: KINDS.into_iter().map(fetch).collect(),
            lists: queries().iter().map(list).collect(),
        }
    }

    /// Fetches the changes, at most `max_changes` at a time. With `may_fail` the server may answer
    /// `cannotCalculateChanges`; for a guest's mailboxes it always may, because the store does not
    /// keep the earlier tree of a guest. Then the client fetches everything again.
    fn sync(&mut self, world: &WatchedAccount, max_changes: Option<u64>, may_fail: bool) {
        let may_fail = |kind: &str| may_fail || (kind == "Mailbox" && world.guest.is_some());
        for (kind, properties) in KINDS {
            let (objects, state) = self.objects.get_mut(kind).unwrap();
            loop {
                // A guest gets all changes of emails and threads at once, so only the changes of
                // mailboxes are bounded.
                let max = if kind == "Mailbox" && world.guest.is_some() {
                    json!(1)
                } else {
                    json!(max_changes)
                };
                let (name, changes) = world.ask_as_client(
                    &format!("{kind}/changes"),
                    json!({"sinceState": *state, "maxChanges": max}),
                );
                if name == "error" && may_fail(kind) {
                    assert_eq!(changes["type"], "cannotCalculateChanges", "{kind}: {changes}");
                    (*objects, *state) = world.get(kind, json!({"properties": properties}));
                    break;
                }
                assert_eq!(name, format!("{kind}/changes"), "{changes}");
                let ids = |which: &str| -> BTreeSet<String> {
                    changes[which]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|id| id.as_str().unwrap().to_owned())
                        .collect()
                };
                let (created, updated) = (ids("created"), ids("updated"));
                let count = created.len() + updated.len() + ids("destroyed").len();
                assert!(max.as_u64().is_none_or(|max| count as u64 <= max), "{changes}");
                assert!(
                    updated.iter().all(|id| objects.contains_key(id)),
                    "an unknown {kind} is updated: {changes}"
                );
                for id in ids("destroyed") {
                    objects.remove(&id);
                }
                let only = changes["updatedProperties"].as_array().cloned();
                let whole: Vec<Value> = properties.iter().map(|name| (*name).into()).collect();
                for (ids, wanted) in [(created, whole.clone()), (updated, only.unwrap_or(whole))] {
                    for (id, now) in world.get(kind, json!({"ids": ids, "properties": wanted})).0 {
                        let known = objects.entry(id).or_insert_with(|| json!({}));
                        known.as_object_mut().unwrap().extend(now.as_object().unwrap().clone());
                    }
                }
                *state = changes["newState"].clone();
                if changes["hasMoreChanges"] == false {
                    break;
                }
            }
        }
        for ((kind, query), (list, state)) in queries().iter().zip(&mut self.lists) {
            let mut arguments = query.clone();
            arguments["sinceQueryState"] = state.clone();
            let (name, changes) = world.ask_as_client(&format!("{kind}/queryChanges"), arguments);
            if name == "error" {
                assert_eq!(changes["type"], "cannotCalculateChanges", "{query} {changes}");
                assert!(may_fail(kind), "{query}");
                let (_, answer) = world.ask_as_client(&format!("{kind}/query"), query.clone());
                (*list, *state) =
                    (answer["ids"].as_array().unwrap().clone(), answer["queryState"].clone());
                continue;
            }
            list.retain(|id| !changes["removed"].as_array().unwrap().contains(id));
            for added in changes["added"].as_array().unwrap() {
                list.insert(
                    usize::try_from(added["index"].as_u64().unwrap()).unwrap(),
                    added["id"].clone(),
                );
            }
            *state = changes["newQueryState"].clone();
        }
    }

    fn compare(&self, world: &WatchedAccount) {
        let fresh = Self::fetch(world);
        for (kind, (objects, state)) in &self.objects {
            assert_eq!(objects, &fresh.objects[kind].0, "{kind}");
            // A client that is up to date gets no changes.
            let (_, none) =
                world.ask_as_client(&format!("{kind}/changes"), json!({"sinceState": state}));
            let empty =
                ["created", "updated", "destroyed"].iter().all(|which| none[*which] == json!([]));
            assert!(empty, "{kind}: {none}");
        }
        for ((query, (list, _)), (now, _)) in queries().iter().zip(&self.lists).zip(&fresh.lists) {
            assert_eq!(list, now, "{query:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn client_that_syncs_by_changes_matches_a_fresh_client(
        steps in prop::collection::vec((prop::collection::vec(foreign_change(), 0..8), 1u64..4),
            1..8),
    ) {
        let context = context();
        let world = WatchedAccount {
            account: account_of(&context), client: context.clone(), context, guest: None,
        };
        letters(&world.context, 2);
        let mut client = ModelClient::fetch(&world);
        for (changes, max_changes) in steps {
            changes.iter().for_each(|change| world.apply(change));
            // Nothing is purged, so all changes can be calculated.
            client.sync(&world, Some(max_changes), false);
            client.compare(&world);
        }
    }

    #[test]
    fn guest_that_syncs_by_changes_matches_a_fresh_client(
        steps in prop::collection::vec(prop::collection::vec(foreign_change_with_sharing(), 0..8),
            1..8),
    ) {
        let context = context();
        let account = account_of(&context);
        let guest = context.directory.find_account("bob@example.org").unwrap().unwrap().0;
        let open = |txn: &mut Txn<'_>| {
            let inbox = txn.state().inbox;
            txn.update_mailbox(inbox, |row| row.shares = [(guest, 1)].into())
        };
        context.store.commit(account.parse().unwrap(), open).unwrap().1.wait_blocking().unwrap();
        let client = Context { caller: Caller { account: Some(guest), ..Caller::default() },
            ..context.clone() };
        let world = WatchedAccount { account, client, context, guest: Some(guest) };
        letters(&world.context, 2);
        let mut client = ModelClient::fetch(&world);
        for changes in steps {
            changes.iter().for_each(|change| world.apply(change));
            // Removing a mailbox also ends its share.
            let shares = changes.iter().any(|change| matches!(change, ForeignChange::Share(..) |
                ForeignChange::Remove(_)));
            client.sync(&world, None, shares);
            client.compare(&world);
        }
    }
}
