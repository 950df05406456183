//! Compares mailboxes with a naive tree: which changes are allowed, the counts of RFC 8621 §2 with
//! any mailbox as the Trash, and Mailbox/changes from every past state.

use std::collections::BTreeMap;

use super::*;
use crate::model::{DataType, MailboxCounts, ModSeq, ThreadId};

#[derive(Debug, Clone, PartialEq, Eq)]
struct MailboxSettings {
    name: &'static str,
    parent: Option<MailboxUid>,
    role: Option<Role>,
    sort_order: u32,
    subscribed: bool,
}

/// `which` and `parent` are the position of a mailbox or an email, by uid or id. The bits of
/// `boxes` stand for mailboxes (`TreeWorld::some`), those of `keywords` for $seen and $draft.
#[derive(Debug, Clone)]
enum TreeAct {
    Create { name: &'static str, parent: Option<usize>, role: Option<Role> },
    Rename { which: usize, name: &'static str },
    Move { which: usize, parent: Option<usize> },
    Role { which: usize, role: Option<Role> },
    Sort { which: usize, order: u32, subscribed: bool },
    Remove { which: usize },
    Deliver { keys: Vec<u8>, boxes: u8, seen: bool },
    Update { which: usize, boxes: u8, keywords: u8 },
    Destroy { which: usize },
    Purge { limit: usize },
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn acts() -> impl Strategy<Value = Vec<TreeAct>> {
    let name = || proptest::sample::select(&NAMES[..]);
    let parent = || proptest::option::of(0usize..7);
    let role = || {
        proptest::sample::select(vec![
            None,
            Some(Role::Trash),
            Some(Role::Archive),
            Some(Role::Inbox),
        ])
    };
    let act = prop_oneof![
        3 => (name(), parent(), role())
            .prop_map(|(name, parent, role)| TreeAct::Create { name, parent, role }),
        2 => (0usize..7, name()).prop_map(|(which, name)| TreeAct::Rename { which, name }),
        2 => (0usize..7, parent()).prop_map(|(which, parent)| TreeAct::Move { which, parent }),
        3 => (0usize..7, role()).prop_map(|(which, role)| TreeAct::Role { which, role }),
        1 => (0usize..7, 0u32..2, any::<bool>())
            .prop_map(|(which, order, subscribed)| TreeAct::Sort { which, order, subscribed }),
        2 => (0usize..7).prop_map(|which| TreeAct::Remove { which }),
        4 => (proptest::collection::vec(0u8..3, 0..2), 1u8..32, any::<bool>())
            .prop_map(|(keys, boxes, seen)| TreeAct::Deliver { keys, boxes, seen }),
        4 => (0usize..9, 1u8..32, 0u8..4)
            .prop_map(|(which, boxes, keywords)| TreeAct::Update { which, boxes, keywords }),
        2 => (0usize..9).prop_map(|which| TreeAct::Destroy { which }),
        1 => (1usize..5).prop_map(|limit| TreeAct::Purge { limit }),
    ];
    proptest::collection::vec(act, 1..40)
}

#[derive(Debug, Clone)]
struct TreeMail {
    thread: ThreadId,
    boxes: BTreeSet<MailboxUid>,
    unread: bool,
}

type MailboxStates = BTreeMap<MailboxUid, (MailboxSettings, MailboxCounts)>;

struct TreeWorld {
    store: Store,
    boxes: BTreeMap<MailboxUid, MailboxSettings>,
    mails: BTreeMap<EmailId, TreeMail>,
    delivered: u32,
    /// The mailboxes after each act, with the change number of the account.
    past: Vec<(ModSeq, MailboxStates)>,
    /// The changes of mailboxes, and whether more than counts changed.
    changed: Vec<(ModSeq, MailboxUid, bool)>,
    /// The changes of the Trash. These recount all mailboxes, and counts may stay the same.
    recounted: Vec<ModSeq>,
    /// When each destroyed mailbox that is not purged yet was destroyed.
    ended: Vec<ModSeq>,
    /// The low mark of mailboxes that the account should have.
    low: ModSeq,
}

fn done<T>(
    store: &Store,
    change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let (value, ticket) = store.commit(ACCOUNT, change)?;
    ticket.wait_blocking()?;
    Ok(value)
}

impl TreeWorld {
    fn new(store: Store) -> Self {
        let row = AccountRow::new("ann", Address::from_parts("ann", "example.org"), UtcMillis(0));
        done(&store, |txn| {
            txn.register(&row);
            Ok(())
        })
        .unwrap();
        let low = ModSeq(0);
        let (boxes, mails, past) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let (changed, recounted, ended) = (Vec::new(), Vec::new(), Vec::new());
        let mut world =
            Self { store, boxes, mails, delivered: 0, past, changed, recounted, ended, low };
        world.past.push((world.modseq(), MailboxStates::new()));
        world
    }

    fn modseq(&self) -> ModSeq {
        self.store.snapshot().account_state(ACCOUNT).unwrap().modseq
    }

    fn at(&self, which: usize) -> Option<MailboxUid> {
        self.boxes.keys().nth(which).copied()
    }

    fn trash(&self) -> Option<MailboxUid> {
        self.boxes.iter().find(|(_, one)| one.role == Some(Role::Trash)).map(|(uid, _)| *uid)
    }

    /// Whether a mailbox (`None`: a new one) may have these settings.
    fn may(&self, uid: Option<MailboxUid>, settings: &MailboxSettings) -> bool {
        let mut others = self.boxes.iter().filter(|(other, _)| Some(**other) != uid);
        if others.any(|(_, one)| {
            (one.name == settings.name && one.parent == settings.parent)
                || (settings.role.is_some() && one.role == settings.role)
        }) {
            return false;
        }
        let mut above = settings.parent;
        while let Some(at) = above {
            if Some(at) == uid || !self.boxes.contains_key(&at) {
                return false;
            }
            above = self.boxes[&at].parent;
        }
        true
    }

    /// Changes one mailbox. The change must be refused if the result is not allowed.
    fn change(&mut self, which: usize, change: impl Fn(&mut MailboxSettings)) {
        let Some(uid) = self.at(which) else { return };
        let mut settings = self.boxes[&uid].clone();
        change(&mut settings);
        let made = done(&self.store, |txn| {
            let settings = settings.clone();
            txn.update_mailbox(uid, |row| {
                (row.name, row.parent, row.role) =
                    (settings.name.into(), settings.parent, settings.role);
                (row.sort_order, row.subscribed) = (settings.sort_order, settings.subscribed);
            })
        });
        if self.may(Some(uid), &settings) {
            assert_eq!(made, Ok(settings != self.boxes[&uid]));
            if (self.trash() == Some(uid)) != (settings.role == Some(Role::Trash)) {
                self.recounted.push(self.modseq());
            }
            self.boxes.insert(uid, settings);
        } else {
            assert!(
                matches!(made, Err(Error::Mailbox { .. })),
                "{made:?} for {settings:?} among {:?}",
                self.boxes
            );
        }
    }

    /// Returns the mailboxes whose bit is set. From the sixth on, they share the bits of the first.
    fn some(&self, bits: u8) -> BTreeSet<MailboxUid> {
        self.boxes
            .keys()
            .enumerate()
            .filter(|(at, _)| bits >> (at % 5) & 1 == 1)
            .map(|(_, uid)| *uid)
            .collect()
    }

    fn act(&mut self, act: &TreeAct) {
        match act {
            TreeAct::Create { name, parent, role } if self.boxes.len() < 6 => {
                // A number beyond the mailboxes means one that never existed.
                let parent = parent.map(|at| self.at(at).unwrap_or(MailboxUid(999)));
                let settings =
                    MailboxSettings { name, parent, role: *role, sort_order: 0, subscribed: true };
                let new = NewMailbox { name: (*name).into(), parent, role: *role, sort_order: 0 };
                let made = done(&self.store, |txn| txn.create_mailbox(&new));
                if self.may(None, &settings) {
                    assert_eq!(
                        self.boxes.insert(made.unwrap(), settings),
                        None,
                        "a uid is given once"
                    );
                } else {
                    assert!(matches!(made, Err(Error::Mailbox { .. })), "{made:?} {settings:?}");
                }
            }
            TreeAct::Rename { which, name } => {
                self.change(*which, |settings| settings.name = *name);
            }
            TreeAct::Move { which, parent } => {
                let parent = parent.map(|at| self.at(at).unwrap_or(MailboxUid(999)));
                self.change(*which, |settings| settings.parent = parent);
            }
            TreeAct::Role { which, role } => self.change(*which, |settings| settings.role = *role),
            TreeAct::Sort { which, order, subscribed } => {
                self.change(*which, |settings| {
                    (settings.sort_order, settings.subscribed) = (*order, *subscribed);
                });
            }
            TreeAct::Remove { which } => {
                let Some(uid) = self.at(*which) else { return };
                let made = done(&self.store, |txn| txn.destroy_mailbox(uid));
                let is_held = self.mails.values().any(|mail| mail.boxes.contains(&uid))
                    || self.boxes.values().any(|one| one.parent == Some(uid));
                if is_held || self.boxes[&uid].role == Some(Role::Inbox) {
                    assert!(matches!(made, Err(Error::Mailbox { .. })), "{made:?}");
                } else {
                    made.unwrap();
                    self.boxes.remove(&uid);
                    self.ended.push(self.modseq());
                }
            }
            TreeAct::Deliver { keys, boxes, seen } => {
                let boxes = self.some(*boxes);
                if boxes.is_empty() || self.mails.len() > 8 {
                    return;
                }
                self.delivered += 1;
                let (message, raw) = message(self.delivered, keys);
                let keywords: BTreeSet<String> =
                    seen.then(|| "$seen".to_owned()).into_iter().collect();
                let (mut results, ticket) =
                    self.store.commit_message(&[ACCOUNT], &message, &raw, |txn| {
                        txn.create_email(&NewEmail {
                            message: &message,
                            prefix: b"",
                            mailboxes: boxes.clone(),
                            keywords: keywords.clone(),
                            received_at: UtcMillis(i64::from(self.delivered % 4)),
                        })
                    });
                let (id, thread) = results.pop().unwrap().1.unwrap();
                ticket.wait_blocking().unwrap();
                self.mails.insert(id, TreeMail { thread, boxes, unread: !seen });
            }
            TreeAct::Update { which, boxes, keywords } => {
                let (boxes, Some(id)) = (self.some(*boxes), self.mails.keys().nth(*which).copied())
                else {
                    return;
                };
                if boxes.is_empty() {
                    return;
                }
                let words = ["$seen", "$draft"]
                    .iter()
                    .enumerate()
                    .filter(|(bit, _)| keywords >> bit & 1 == 1);
                let words: BTreeSet<String> = words.map(|(_, word)| (*word).to_owned()).collect();
                done(&self.store, |txn| txn.update_email(id, boxes.clone(), words.clone()))
                    .unwrap();
                let mail = self.mails.get_mut(&id).unwrap();
                (mail.boxes, mail.unread) = (boxes, *keywords == 0);
            }
            TreeAct::Destroy { which } => {
                let Some(id) = self.mails.keys().nth(*which).copied() else { return };
                done(&self.store, |txn| txn.destroy_email(id)).unwrap();
                self.mails.remove(&id);
            }
            TreeAct::Purge { limit } => {
                done(&self.store, |txn| txn.note_history(Duration::ZERO)).unwrap();
                while done(&self.store, |txn| txn.purge_history(txn.now(), *limit)).unwrap() {
                    assert_clean(&self.store);
                }
                self.low = self.ended.drain(..).max().unwrap_or(self.low);
            }
            TreeAct::Create { .. } => {}
        }
    }

    /// Returns the counts of a mailbox (RFC 8621 §2). An unread email that is only in the Trash
    /// does not make its thread unread elsewhere. In the Trash, only emails of the Trash count.
    fn counts(&self, uid: MailboxUid) -> MailboxCounts {
        let trash = self.trash();
        let here: Vec<&TreeMail> =
            self.mails.values().filter(|mail| mail.boxes.contains(&uid)).collect();
        let threads: BTreeSet<ThreadId> = here.iter().map(|mail| mail.thread).collect();
        let weighs = |mail: &&TreeMail| match trash {
            Some(trash) if trash == uid => mail.boxes.contains(&trash),
            Some(trash) => mail.boxes != BTreeSet::from([trash]),
            None => true,
        };
        let is_unread = |thread: &&ThreadId| {
            self.mails
                .values()
                .filter(|mail| mail.thread == **thread)
                .filter(weighs)
                .any(|mail| mail.unread)
        };
        MailboxCounts {
            total_emails: here.len() as u64,
            unread_emails: here.iter().filter(|mail| mail.unread).count() as u64,
            total_threads: threads.len() as u64,
            unread_threads: threads.iter().filter(is_unread).count() as u64,
        }
    }

    fn compare(&mut self) {
        let now: MailboxStates = self
            .boxes
            .iter()
            .map(|(uid, settings)| (*uid, (settings.clone(), self.counts(*uid))))
            .collect();
        let (modseq, before) = (self.modseq(), &self.past.last().unwrap().1);
        for (uid, (settings, counts)) in &now {
            if let Some((old, then)) = before.get(uid)
                && (old, then) != (settings, counts)
            {
                self.changed.push((modseq, *uid, old != settings));
            }
        }
        let snapshot = self.store.snapshot();
        let found = snapshot.mailboxes(ACCOUNT).unwrap();
        assert_eq!(found.len(), now.len());
        for (uid, row) in found {
            let (settings, counts) = &now[&uid];
            assert_eq!(
                (row.name.as_str(), row.parent, row.role),
                (settings.name, settings.parent, settings.role)
            );
            assert_eq!(
                (row.sort_order, row.subscribed, row.counts),
                (settings.sort_order, settings.subscribed, *counts),
                "{uid}"
            );
        }
        assert_eq!(snapshot.account_state(ACCOUNT).unwrap().low_mark(DataType::Mailbox), self.low);
        self.past.push((modseq, now));
        let new = &self.past.last().unwrap().1;
        for (since, old) in &self.past {
            let answer =
                snapshot.mailbox_changes(ACCOUNT, ClientState::at(*since), usize::MAX).unwrap();
            let Some(answer) = answer else {
                assert!(*since < self.low, "{since} is not from before {}", self.low);
                continue;
            };
            assert!(*since >= self.low);
            let stayed = |uid: &MailboxUid| old.contains_key(uid) && new.contains_key(uid);
            let later = || self.changed.iter().filter(|(at, uid, _)| at > since && stayed(uid));
            let uids = |some: Vec<MailboxUid>| some.into_iter().collect::<BTreeSet<MailboxUid>>();
            let updated: BTreeSet<MailboxUid> = later().map(|(_, uid, _)| *uid).collect();
            let (only_counts, changes) = (answer.only_counts, answer.changes);
            let whole = changes.clone();
            let not_in = |other: &MailboxStates| {
                let other = other.clone();
                move |uid: &MailboxUid| !other.contains_key(uid)
            };
            assert_eq!(
                uids(changes.created),
                new.keys().copied().filter(not_in(old)).collect::<BTreeSet<_>>()
            );
            assert_eq!(
                uids(changes.destroyed),
                old.keys().copied().filter(not_in(new)).collect::<BTreeSet<_>>()
            );
            let reported = uids(changes.updated);
            if self.recounted.iter().any(|at| at > since) {
                assert!(
                    reported.is_superset(&updated),
                    "{reported:?} and not {updated:?} since {since}"
                );
            } else {
                assert_eq!(reported, updated, "since {since}");
            }
            assert_eq!(
                only_counts,
                !reported.is_empty() && !later().any(|(_, _, more)| *more),
                "since {since}"
            );
            // Answers with one mailbox each report the same mailboxes as the whole answer, none
            // twice, and maybe some that were created and destroyed since.
            let (mut at, mut stepwise) = (ClientState::at(*since), Vec::new());
            loop {
                let step = snapshot.mailbox_changes(ACCOUNT, at, 1).unwrap().unwrap().changes;
                assert!(step.created.len() + step.updated.len() + step.destroyed.len() <= 1);
                assert!((step.state.mark, step.state.last) > (at.mark, at.last) || !step.has_more);
                stepwise.extend(
                    step.created.iter().chain(&step.updated).chain(&step.destroyed).copied(),
                );
                at = step.state;
                if !step.has_more {
                    break;
                }
            }
            assert_eq!(at, ClientState::at(modseq_of_mailboxes(&snapshot).max(*since)));
            let count = stepwise.len();
            let stepwise = uids(stepwise);
            assert_eq!(stepwise.len(), count, "since {since}");
            let known = |uid: &&MailboxUid| old.contains_key(uid) || new.contains_key(uid);
            let wanted = uids(
                whole.created.into_iter().chain(whole.updated).chain(whole.destroyed).collect(),
            );
            assert_eq!(
                stepwise.iter().filter(known).copied().collect::<BTreeSet<_>>(),
                wanted,
                "since {since}"
            );
        }
        assert_clean(&self.store);
    }
}

fn modseq_of_mailboxes(snapshot: &Snapshot<'_>) -> ModSeq {
    snapshot.state(ACCOUNT, DataType::Mailbox).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(120), ..ProptestConfig::default() })]

    #[test]
    fn mailboxes_agree_with_a_naive_tree(acts in acts()) {
        let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
        let engine = Arc::new(MemoryEngine::new());
        let store = Store::open_engine(engine, &Options::small(), clock).unwrap();
        let mut world = TreeWorld::new(store);
        for act in &acts {
            world.act(act);
            world.compare();
        }
    }
}
