//! Tests that a client catches up by /changes alone (RFC 8620 §5.2) from any old state that is not
//! refused, over random histories.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::model::{DataType, EmailId, MailboxUid, ModSeq, ThreadId};
use crate::query::tests::config;
use crate::query::tests::driver::{ACCOUNT, TestDriver, ops};
use crate::query::tests::naive;
use crate::store::{Changes, ClientState};

fn emails_of(
    account: &naive::NaiveAccount,
) -> BTreeMap<EmailId, (BTreeSet<MailboxUid>, BTreeSet<String>)> {
    account
        .mails
        .iter()
        .map(|mail| (mail.id, (mail.mailboxes.clone(), mail.keywords.clone())))
        .collect()
}

fn threads_of(account: &naive::NaiveAccount) -> BTreeMap<ThreadId, BTreeSet<EmailId>> {
    let mut out: BTreeMap<ThreadId, BTreeSet<EmailId>> = BTreeMap::new();
    for mail in &account.mails {
        out.entry(mail.thread).or_default().insert(mail.id);
    }
    out
}

/// A client that applies answers of /changes and reads the named objects (RFC 8620 §5.2).
///
/// While it catches up, no answer may report an object as updated that the client does not have, or
/// one as created that was reported as updated or destroyed before.
#[derive(Debug)]
struct ChangesClient<Id, Object> {
    objects: BTreeMap<Id, Object>,
    state: ClientState,
    /// The last report about each object since the client began to catch up.
    reported: BTreeMap<Id, Report>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Report {
    Created,
    Updated,
    Destroyed,
}

impl<Id: Ord + Copy + std::fmt::Debug, Object: Clone + PartialEq + std::fmt::Debug>
    ChangesClient<Id, Object>
{
    fn new(objects: BTreeMap<Id, Object>, since: ModSeq) -> Self {
        Self { objects, state: ClientState::at(since), reported: BTreeMap::new() }
    }

    /// Applies one answer of at most `limit` objects. `now` are the objects that exist now. Returns
    /// whether there are more changes. If there are none, the client must have exactly `now`; if
    /// there are, the answer must name an object or advance the state.
    fn apply(&mut self, answer: &Changes<Id>, limit: usize, now: &BTreeMap<Id, Object>) -> bool {
        let count = answer.created.len() + answer.updated.len() + answer.destroyed.len();
        assert!(
            count <= limit
                && (count > 0 || !answer.has_more || answer.state.mark > self.state.mark),
            "{answer:?} {self:?}"
        );
        for id in &answer.created {
            let before = self.reported.insert(*id, Report::Created);
            assert!(
                before.is_none_or(|before| before == Report::Created),
                "{id:?} of {answer:?} {self:?}"
            );
        }
        for id in &answer.updated {
            assert!(self.objects.contains_key(id), "{id:?} of {answer:?} {self:?}");
            let before = self.reported.insert(*id, Report::Updated);
            assert!(before != Some(Report::Destroyed), "{id:?} of {answer:?} {self:?}");
        }
        for id in &answer.destroyed {
            self.reported.insert(*id, Report::Destroyed);
            self.objects.remove(id);
        }
        for id in answer.created.iter().chain(&answer.updated) {
            self.objects.insert(*id, now[id].clone());
        }
        self.state = answer.state;
        if !answer.has_more {
            assert_eq!(&self.objects, now, "{answer:?}");
            self.reported.clear();
        }
        answer.has_more
    }
}

/// Catches up by answers of at most `limit` objects. Returns whether the changes could be
/// calculated.
fn catch_up<Id: Ord + Copy + std::fmt::Debug, Object: Clone + PartialEq + std::fmt::Debug>(
    old: BTreeMap<Id, Object>,
    since: ModSeq,
    limit: usize,
    now: &BTreeMap<Id, Object>,
    changes: impl Fn(ClientState, usize) -> Option<Changes<Id>>,
) -> bool {
    let mut client = ChangesClient::new(old, since);
    loop {
        let Some(answer) = changes(client.state, limit) else { return false };
        if !client.apply(&answer, limit, now) {
            return true;
        }
    }
}

/// Catches up from every past state, and checks that exactly the states since the low mark are
/// answered.
pub(super) fn check_catching_up(driver: &TestDriver, limit: usize) {
    let snapshot = driver.store.snapshot();
    let account = snapshot.account_state(ACCOUNT).unwrap();
    assert!(account.low_mark(DataType::Thread) <= account.low_mark(DataType::Email));
    let (emails, threads) = (emails_of(&driver.now), threads_of(&driver.now));
    for (since, past) in &driver.past {
        let was_answered = catch_up(emails_of(past), *since, limit, &emails, |since, limit| {
            snapshot.email_changes(ACCOUNT, since, limit).unwrap()
        });
        assert_eq!(was_answered, *since >= driver.low, "emails since {since}");
        let was_answered = catch_up(threads_of(past), *since, limit, &threads, |since, limit| {
            snapshot.thread_changes(ACCOUNT, since, limit).unwrap()
        });
        assert_eq!(
            was_answered,
            *since >= account.low_mark(DataType::Thread),
            "threads since {since}"
        );
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn changes_from_every_past_state_are_correct_or_refused(
        ops in ops(40),
        limit in 1usize..5,
    ) {
        let mut driver = TestDriver::new();
        driver.run(&ops);
        check_catching_up(&driver, limit);
    }

    #[test]
    fn clients_catch_up_in_small_steps_while_the_account_changes(
        ops in ops(40),
        steps in proptest::collection::vec((any::<bool>(), 1usize..4), 40),
    ) {
        let mut driver = TestDriver::new();
        let first = driver.state();
        let mut emails_client = ChangesClient::new(emails_of(&driver.now), first);
        let mut threads_client = ChangesClient::new(threads_of(&driver.now), first);
        let follow = |driver: &TestDriver,
                      emails_client: &mut ChangesClient<_, _>,
                      threads_client: &mut ChangesClient<_, _>,
                      limit| {
            let snapshot = driver.store.snapshot();
            let (emails, threads) = (emails_of(&driver.now), threads_of(&driver.now));
            let more = match snapshot.email_changes(ACCOUNT, emails_client.state, limit).unwrap() {
                Some(answer) => emails_client.apply(&answer, limit, &emails),
                None => {
                    *emails_client = ChangesClient::new(emails, driver.state());
                    false
                }
            };
            // Not `||`: both clients follow.
            more | match snapshot.thread_changes(ACCOUNT, threads_client.state, limit).unwrap() {
                Some(answer) => threads_client.apply(&answer, limit, &threads),
                None => {
                    let state = snapshot.state(ACCOUNT, DataType::Thread).unwrap();
                    *threads_client = ChangesClient::new(threads, state);
                    false
                }
            }
        };
        for (op, (follows, limit)) in ops.iter().zip(steps) {
            driver.apply(op);
            if follows {
                follow(&driver, &mut emails_client, &mut threads_client, limit);
            }
        }
        while follow(&driver, &mut emails_client, &mut threads_client, 2) {}
    }
}
