//! Tests that a client which knows an old state catches up by /changes alone, over random
//! histories. `RESTANTE_CASES` sets their number.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::model::{DataType, EmailId, MailboxUid, ModSeq, ThreadId};
use crate::query::tests::config;
use crate::query::tests::driver::{ACCOUNT, TestDriver, ops};
use crate::query::tests::naive;
use crate::store::{Changes, ClientState};

/// The objects that a client knows, by id.
type KnownStates<Id, What> = BTreeMap<Id, What>;

fn emails_of(
    account: &naive::NaiveAccount,
) -> KnownStates<EmailId, (BTreeSet<MailboxUid>, BTreeSet<String>)> {
    account
        .mails
        .iter()
        .map(|mail| (mail.id, (mail.mailboxes.clone(), mail.keywords.clone())))
        .collect()
}

fn threads_of(account: &naive::NaiveAccount) -> KnownStates<ThreadId, BTreeSet<EmailId>> {
    let mut out: KnownStates<ThreadId, BTreeSet<EmailId>> = BTreeMap::new();
    for mail in &account.mails {
        out.entry(mail.thread).or_default().insert(mail.id);
    }
    out
}

/// A client that applies answers of /changes and reads the named objects. It checks that no unknown
/// object is reported as updated, that no object reported before is reported as created, and that
/// no destroyed object is reported again (RFC 8620 §5.2).
#[derive(Debug)]
struct Follower<Id, What> {
    known: KnownStates<Id, What>,
    state: ClientState,
    /// The objects reported since the client was last up to date, and whether as destroyed.
    said: BTreeMap<Id, (bool, bool)>,
}

impl<Id: Ord + Copy + std::fmt::Debug, What: Clone + PartialEq + std::fmt::Debug>
    Follower<Id, What>
{
    fn new(known: KnownStates<Id, What>, since: ModSeq) -> Self {
        Self { known, state: ClientState::at(since), said: BTreeMap::new() }
    }

    /// Applies one answer of at most `most` objects. Returns whether there is more.
    fn take(&mut self, told: &Changes<Id>, most: usize, now: &KnownStates<Id, What>) -> bool {
        let count = told.created.len() + told.updated.len() + told.destroyed.len();
        assert!(
            count <= most && (count > 0 || !told.has_more || told.state.mark > self.state.mark),
            "{told:?} {self:?}"
        );
        for id in &told.created {
            let before = self.said.insert(*id, (true, false));
            assert!(
                before.is_none_or(|(created, over)| created && !over),
                "{id:?} of {told:?} {self:?}"
            );
        }
        for id in &told.updated {
            assert!(self.known.contains_key(id), "{id:?} of {told:?} {self:?}");
            let before = self.said.insert(*id, (false, false));
            assert!(before.is_none_or(|(_, over)| !over), "{id:?} of {told:?} {self:?}");
        }
        for id in &told.destroyed {
            self.said.insert(*id, (false, true));
            self.known.remove(id);
        }
        for id in told.created.iter().chain(&told.updated) {
            self.known.insert(*id, now[id].clone());
        }
        self.state = told.state;
        if !told.has_more {
            // What it was told of puts right all that it had.
            assert_eq!(&self.known, now, "{told:?}");
            self.said.clear();
        }
        told.has_more
    }
}

/// Catches up from a state in steps of `most`. Returns whether the changes could be calculated.
fn catch_up<Id: Ord + Copy + std::fmt::Debug, What: Clone + PartialEq + std::fmt::Debug>(
    old: KnownStates<Id, What>,
    since: ModSeq,
    most: usize,
    now: &KnownStates<Id, What>,
    ask: impl Fn(ClientState, usize) -> Option<Changes<Id>>,
) -> bool {
    let mut client = Follower::new(old, since);
    loop {
        let Some(told) = ask(client.state, most) else { return false };
        if !client.take(&told, most, now) {
            return true;
        }
    }
}

/// Catches up from every past state.
pub(super) fn check_catching_up(drive: &TestDriver, most: usize) {
    let snapshot = drive.store.snapshot();
    let marks = snapshot.account_state(ACCOUNT).unwrap();
    assert!(marks.low_mark(DataType::Thread) <= marks.low_mark(DataType::Email));
    let (emails, threads) = (emails_of(&drive.now), threads_of(&drive.now));
    for (since, past) in &drive.past {
        let told = catch_up(emails_of(past), *since, most, &emails, |since, most| {
            snapshot.email_changes(ACCOUNT, since, most).unwrap()
        });
        assert_eq!(told, *since >= drive.low, "emails since {since}");
        let told = catch_up(threads_of(past), *since, most, &threads, |since, most| {
            snapshot.thread_changes(ACCOUNT, since, most).unwrap()
        });
        assert_eq!(told, *since >= marks.low_mark(DataType::Thread), "threads since {since}");
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn changes_from_every_past_state_are_told_or_refused_and_never_wrong(
        ops in ops(40),
        most in 1usize..5,
    ) {
        let mut drive = TestDriver::new();
        drive.run(&ops);
        check_catching_up(&drive, most);
    }

    #[test]
    fn clients_catch_up_in_small_steps_while_the_account_goes_on(
        ops in ops(40),
        steps in proptest::collection::vec((any::<bool>(), 1usize..4), 40),
    ) {
        let mut drive = TestDriver::new();
        let first = drive.state();
        let mut of_emails = Follower::new(emails_of(&drive.now), first);
        let mut of_threads = Follower::new(threads_of(&drive.now), first);
        let follow = |drive: &TestDriver,
                      of_emails: &mut Follower<_, _>,
                      of_threads: &mut Follower<_, _>,
                      most| {
            let snapshot = drive.store.snapshot();
            let (emails, threads) = (emails_of(&drive.now), threads_of(&drive.now));
            let more = match snapshot.email_changes(ACCOUNT, of_emails.state, most).unwrap() {
                Some(told) => of_emails.take(&told, most, &emails),
                None => {
                    *of_emails = Follower::new(emails, drive.state());
                    false
                }
            };
            more | match snapshot.thread_changes(ACCOUNT, of_threads.state, most).unwrap() {
                Some(told) => of_threads.take(&told, most, &threads),
                None => {
                    let state = snapshot.state(ACCOUNT, DataType::Thread).unwrap();
                    *of_threads = Follower::new(threads, state);
                    false
                }
            }
        };
        for (op, (asks, most)) in ops.iter().zip(steps) {
            drive.apply(op);
            if asks {
                follow(&drive, &mut of_emails, &mut of_threads, most);
            }
        }
        while follow(&drive, &mut of_emails, &mut of_threads, 2) {}
    }
}
