//! Small objects: a client that follows /changes has the current ones after any changes and purges;
//! their bounds and expiry; and the identities that follow the addresses.

use std::collections::BTreeMap;

use super::fixture::{DAY, Fixture, GRACE, MS, fixture};
use super::*;
use crate::model::{
    DataType, EmailSubmission, ModSeq, ObjectId, PushSubscription, SenderIdentity, UndoStatus,
    limits,
};

fn identity(n: u8) -> SenderIdentity {
    SenderIdentity {
        email: "ann@example.org".into(),
        text_signature: format!("{n}"),
        ..SenderIdentity::default()
    }
}

/// A client that knows only what /changes reported.
#[derive(Default)]
struct ObjectClient {
    since: Option<ClientState>,
    known: BTreeMap<ObjectId, SenderIdentity>,
    /// How often each destroyed object was reported.
    destroyed: BTreeMap<ObjectId, u8>,
}

impl ObjectClient {
    /// Applies one answer of /changes, or reads all objects if the changes are not known. Returns
    /// whether there are more.
    fn catch_up(&mut self, store: &Store, limit: usize) -> bool {
        let snapshot = store.snapshot();
        let changes = match self.since {
            Some(since) => {
                snapshot.object_changes::<SenderIdentity>(ACCOUNT, since, limit).unwrap()
            }
            None => None,
        };
        let Some(changes) = changes else {
            self.known = snapshot.objects(ACCOUNT).unwrap().into_iter().collect();
            self.since =
                Some(ClientState::at(snapshot.state(ACCOUNT, DataType::Identity).unwrap()));
            return false;
        };
        assert!(changes.created.len() + changes.updated.len() + changes.destroyed.len() <= limit);
        // A known object is reported as created only while the client catches up: until then,
        // `base` stays at the mark with which it began.
        for id in &changes.created {
            assert!(
                !self.known.contains_key(id)
                    || self.since.is_some_and(|since| since.base < since.mark)
            );
        }
        for id in changes.created.iter().chain(&changes.updated) {
            match snapshot.object(ACCOUNT, *id).unwrap() {
                Some(object) => drop(self.known.insert(*id, object)),
                None => panic!("{id} was reported and is not there"),
            }
        }
        for id in &changes.destroyed {
            self.known.remove(id);
            *self.destroyed.entry(*id).or_default() += 1;
        }
        self.since = Some(changes.state);
        changes.has_more
    }
}

#[derive(Debug, Clone)]
enum ObjectOp {
    Make(u8),
    Change(usize, u8),
    Destroy(usize),
    /// Creates an object of another kind, which the client does not follow.
    Submit,
    CatchUp(usize),
    Purge,
}

fn ops() -> impl Strategy<Value = Vec<ObjectOp>> {
    let op = prop_oneof![
        3 => (0u8..3).prop_map(ObjectOp::Make),
        3 => (0usize..9, 0u8..3).prop_map(|(which, n)| ObjectOp::Change(which, n)),
        3 => (0usize..9).prop_map(ObjectOp::Destroy),
        1 => Just(ObjectOp::Submit),
        2 => (1usize..4).prop_map(ObjectOp::CatchUp),
        1 => Just(ObjectOp::Purge),
    ];
    proptest::collection::vec(op, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(100), ..ProptestConfig::default() })]
    #[test]
    fn a_client_that_follows_changes_has_the_current_objects(ops in ops()) {
        let fixture = fixture();
        let mut model = BTreeMap::new();
        let (mut eager, mut late) = (ObjectClient::default(), ObjectClient::default());
        for op in ops {
            let ids: Vec<ObjectId> = model.keys().copied().collect();
            match op {
                ObjectOp::Make(n) => {
                    let id = fixture.done(|txn| txn.create_object(&identity(n))).unwrap();
                    prop_assert!(model.insert(id, identity(n)).is_none());
                }
                ObjectOp::Change(which, n) if !ids.is_empty() => {
                    let id = ids[which % ids.len()];
                    let before = fixture.store.snapshot().account_state(ACCOUNT).unwrap().modseq;
                    let changed = fixture
                        .done(|txn| txn.update_object(id, |one| *one = identity(n)))
                        .unwrap();
                    let after = fixture.store.snapshot().account_state(ACCOUNT).unwrap().modseq;
                    prop_assert_eq!(changed, model.insert(id, identity(n)) != Some(identity(n)));
                    prop_assert_eq!(after.0 - before.0, u64::from(changed));
                }
                ObjectOp::Destroy(which) if !ids.is_empty() => {
                    let id = ids[which % ids.len()];
                    let destroyed =
                        fixture.done(|txn| txn.destroy_object::<SenderIdentity>(id)).unwrap();
                    prop_assert_eq!(Some(destroyed), model.remove(&id));
                    let again = fixture.done(|txn| txn.destroy_object::<SenderIdentity>(id));
                    prop_assert_eq!(again, Err(Error::NotFound("object")));
                }
                ObjectOp::Submit => {
                    fixture.done(|txn| txn.create_object(&EmailSubmission::default())).unwrap();
                }
                ObjectOp::CatchUp(limit) => drop(late.catch_up(&fixture.store, limit)),
                ObjectOp::Purge => {
                    fixture.done(|txn| txn.note_history(MS)).unwrap();
                    fixture.clock.advance(GRACE);
                    while fixture.done(|txn| txn.purge_history(fixture.upto(GRACE), 1)).unwrap() {}
                }
                ObjectOp::Change(..) | ObjectOp::Destroy(_) => {}
            }
            while eager.catch_up(&fixture.store, 2) {}
            prop_assert_eq!(&eager.known, &model);
        }
        while late.catch_up(&fixture.store, 1) {}
        prop_assert_eq!(&late.known, &model);
        let mut times = eager.destroyed.values().chain(late.destroyed.values());
        prop_assert!(times.all(|times| *times == 1));
        let stored: BTreeMap<ObjectId, SenderIdentity> =
            fixture.store.snapshot().objects(ACCOUNT).unwrap().into_iter().collect();
        prop_assert_eq!(stored, model);
        assert_clean(&fixture.store);
    }
}

#[test]
fn states_before_the_purge_are_refused_and_the_low_mark_itself_is_answered() {
    let fixture = fixture();
    let id = fixture.done(|txn| txn.create_object(&identity(1))).unwrap();
    let other = fixture.done(|txn| txn.create_object(&identity(2))).unwrap();
    let before = fixture.store.snapshot().state(ACCOUNT, DataType::Identity).unwrap();
    fixture.done(|txn| txn.destroy_object::<SenderIdentity>(id)).unwrap();
    let after = fixture.store.snapshot().state(ACCOUNT, DataType::Identity).unwrap();
    let changes = |since| {
        fixture
            .store
            .snapshot()
            .object_changes::<SenderIdentity>(ACCOUNT, ClientState::at(since), 9)
            .unwrap()
    };
    assert_eq!(changes(before).unwrap().destroyed, [id]);
    fixture.done(|txn| txn.note_history(MS)).unwrap();
    fixture.clock.advance(GRACE);
    assert!(!fixture.done(|txn| txn.purge_history(fixture.upto(GRACE), 9)).unwrap());
    assert_eq!((changes(before), fixture.low(DataType::Identity)), (None, after));
    assert_eq!(changes(after).unwrap().state, ClientState::at(after));
    assert_eq!(fixture.low(DataType::EmailSubmission), ModSeq(0));
    assert_eq!(
        (fixture.rows(Table::Objects), fixture.store.snapshot().objects(ACCOUNT).unwrap()),
        (1, vec![(other, identity(2))])
    );
    assert_clean(&fixture.store);
}

#[test]
fn objects_are_bounded_in_number_and_size_and_expire() {
    let fixture = fixture();
    let push = |fixture: &Fixture, expires| {
        fixture.done(|txn| {
            txn.create_object(&PushSubscription { expires, ..PushSubscription::default() })
        })
    };
    let now = fixture.clock.now();
    for _ in 0..limits::MAX_PUSH_SUBSCRIPTIONS {
        push(&fixture, now.after(DAY)).unwrap();
    }
    assert_eq!(push(&fixture, now.after(DAY)), Err(Error::Quota));
    let large =
        SenderIdentity { html_signature: "x".repeat(limits::MAX_OBJECT_BYTES), ..identity(1) };
    assert!(matches!(fixture.done(|txn| txn.create_object(&large)), Err(Error::Conflict(_))));
    let small = fixture.done(|txn| txn.create_object(&identity(1))).unwrap();
    let replaced = fixture.done(|txn| txn.replace_object(small, large.clone()));
    assert!(matches!(replaced, Err(Error::Conflict(_))), "{replaced:?}");
    fixture.done(|txn| txn.destroy_object::<SenderIdentity>(small)).unwrap();
    let submission = |undo, ended| {
        let one = EmailSubmission { undo, ended, ..EmailSubmission::default() };
        fixture.done(|txn| txn.create_object(&one)).unwrap()
    };
    let pending = submission(UndoStatus::Pending, None);
    let (sent, canceled) =
        (submission(UndoStatus::Final, Some(now)), submission(UndoStatus::Canceled, Some(now)));
    let late = submission(UndoStatus::Final, Some(now.after(MS)));
    let submissions = || {
        let all = fixture.store.snapshot().objects::<EmailSubmission>(ACCOUNT).unwrap();
        all.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    let expire = || while fixture.done(|txn| txn.expire_objects(fixture.upto(DAY), 1)).unwrap() {};
    fixture.clock.advance(DAY - MS);
    expire();
    assert_eq!(submissions(), [pending, sent, canceled, late]);
    fixture.clock.advance(MS);
    expire();
    assert_eq!(submissions(), [pending, late]);
    assert!(fixture.store.snapshot().objects::<PushSubscription>(ACCOUNT).unwrap().is_empty());
    assert_clean(&fixture.store);
    // Push subscriptions have no state and leave no tombstone.
    assert_eq!(
        fixture.rows(Table::Objects),
        5,
        "two submissions, and the tombstones of three objects"
    );
    assert!(!fixture.done(|txn| txn.erase(999)).unwrap());
    assert_eq!((fixture.rows(Table::Objects), fixture.rows(Table::ObjectByModseq)), (0, 0));
}

#[test]
fn own_identities_follow_the_addresses_and_move_the_state() {
    let fixture = fixture();
    let addresses =
        ["ann@example.org", "lee@example.org"].map(|text| Address::parse(text).unwrap());
    assert!(fixture.done(|txn| txn.update_own_identities(&addresses, "Ann")).unwrap());
    assert!(!fixture.done(|txn| txn.update_own_identities(&addresses, "Ann")).unwrap());
    let since =
        ClientState::at(fixture.store.snapshot().state(ACCOUNT, DataType::Identity).unwrap());
    let all = || fixture.store.snapshot().objects::<SenderIdentity>(ACCOUNT).unwrap();
    let ids: Vec<ObjectId> = all().into_iter().map(|(id, _)| id).collect();
    fixture
        .done(|txn| {
            txn.update_object(ids[1], |one: &mut SenderIdentity| one.text_signature = "x".into())
        })
        .unwrap();
    assert!(fixture.done(|txn| txn.update_own_identities(&addresses[..1], "Ann Lee")).unwrap());
    let changes = fixture
        .store
        .snapshot()
        .object_changes::<SenderIdentity>(ACCOUNT, since, 9)
        .unwrap()
        .unwrap();
    assert_eq!((changes.created, changes.updated.len(), changes.destroyed), (vec![], 2, vec![]));
    // The identity of the removed address stays, as the user changed it. It is the user's own now.
    let found: Vec<(String, bool)> =
        all().into_iter().map(|(_, one)| (one.name.clone(), one.may_delete())).collect();
    assert_eq!(found, [("Ann Lee".into(), false), ("Ann".into(), true)]);
    assert!(fixture.done(|txn| txn.update_own_identities(&[], "Ann Lee")).unwrap());
    assert_eq!(all().len(), 1);
    assert_clean(&fixture.store);
}
