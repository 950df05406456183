//! Applies random changes to a store and to the naive account (`naive`: vectors and full scans),
//! and records every state.
//!
//! - Each change is applied to both. The change number of the store must rise by one, or for
//!   several emails by one for each that changes. It must stay if nothing changes.
//! - Every state is recorded, so that tests can ask for the changes since each of them.
//! - Upkeep purges emails and history; `low` is then the state since which changes can be reported.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::message::rows;
use crate::model::clock::FixedClock;
use crate::model::{
    AccountId, AccountRow, Address, Clock as _, DataType, EmailId, MailboxUid, ModSeq, Role,
    UtcMillis,
};
use crate::query::tests::naive::{self, NaiveDraft, NaiveMail};
pub(super) use crate::query::tests::operations::{EmailPlacement, Op, ops};
use crate::store::engine::Engine;
use crate::store::engine::memory::MemoryEngine;
#[cfg(feature = "rocksdb")]
use crate::store::engine::rocks::image::copy_store;
use crate::store::{
    EncodedMessage, Error, FoldSizes, NewEmail, NewMailbox, Options, Store, Ticket, Txn,
};

/// The account of all tests.
pub(super) const ACCOUNT: AccountId = AccountId(1);
/// The earliest time of receipt, in milliseconds since 1970.
pub(super) const EPOCH: i64 = 1_790_000_000_000;
/// The number of different times of receipt: the milliseconds from `EPOCH` on.
pub(super) const TIMES: i64 = 6;
/// The number of days for which a destroyed email can be restored.
const RESTORABLE_DAYS: u32 = 4;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A destroyed email.
#[derive(Debug, Clone)]
struct DestroyedMail {
    mail: NaiveMail,
    at: UtcMillis,
    restored: bool,
}

/// A store, and the naive account with the same emails.
pub(super) struct TestDriver {
    pub(super) store: Store,
    pub(super) now: naive::NaiveAccount,
    /// Every past state and the present one, each with its change number.
    pub(super) past: Vec<(ModSeq, naive::NaiveAccount)>,
    /// Every email that ever existed.
    pub(super) ids: Vec<EmailId>,
    /// The newest change of a purged email.
    pub(super) low: ModSeq,
    /// Whether history of listings may have been purged.
    history_cut: bool,
    options: Options,
    clock: Arc<FixedClock>,
    destroyed: Vec<DestroyedMail>,
    /// Opens the store again. It may own the directory of the store, so it must be dropped after
    /// `store`.
    opener: Box<StoreOpener>,
}

/// Opens a store. Called again, it opens the same data while the earlier store still exists, which
/// does no more work.
type StoreOpener = dyn FnMut(&Options, Arc<FixedClock>) -> Store;

impl std::fmt::Debug for TestDriver {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("TestDriver").field("now", &self.now).finish_non_exhaustive()
    }
}

impl TestDriver {
    /// Returns a driver over the memory engine.
    pub(super) fn new() -> Self {
        Self::over(Arc::new(MemoryEngine::new()), None)
    }

    /// Returns a driver over an empty engine. Listings of more emails than `ranked_above` have
    /// ranks.
    pub(super) fn over(engine: Arc<dyn Engine>, ranked_above: Option<u64>) -> Self {
        let opener = move |options: &Options, clock: Arc<FixedClock>| {
            Store::open_engine(Arc::clone(&engine), options, clock).unwrap()
        };
        Self::begin(Box::new(opener), ranked_above)
    }

    /// Returns a driver over RocksDB. Each reopening opens a copy of the files that is made while
    /// the store is open, as if the power had failed: nothing is flushed or closed.
    #[cfg(feature = "rocksdb")]
    pub(super) fn on_disk(ranked_above: Option<u64>) -> Self {
        let mut dirs = vec![tempfile::tempdir().unwrap()];
        let mut was_opened = false;
        let opener = move |options: &Options, clock: Arc<FixedClock>| {
            if std::mem::replace(&mut was_opened, true) {
                let copy = tempfile::tempdir().unwrap();
                copy_store(dirs.last().unwrap().path(), copy.path());
                dirs.push(copy);
            }
            Store::open(dirs.last().unwrap().path(), options, clock).unwrap()
        };
        Self::begin(Box::new(opener), ranked_above)
    }

    fn begin(mut opener: Box<StoreOpener>, ranked_above: Option<u64>) -> Self {
        let clock = Arc::new(FixedClock::at(UtcMillis(EPOCH)));
        let options = Options { ranked_above, ..Options::small() };
        let store = opener(&options, Arc::clone(&clock));
        let row = AccountRow::new("me", Address::from_parts("me", "a.example"), UtcMillis(0));
        let setup = store.commit(ACCOUNT, |txn| {
            txn.register(&row);
            for (name, role) in
                [("Inbox", Role::Inbox), ("Trash", Role::Trash), ("Archive", Role::Archive)]
            {
                txn.create_mailbox(&NewMailbox {
                    name: name.into(),
                    parent: None,
                    role: Some(role),
                    sort_order: 0,
                })?;
            }
            Ok(())
        });
        setup.unwrap().1.wait_blocking().unwrap();
        let (now, past, ids, destroyed) =
            (naive::NaiveAccount::default(), Vec::new(), Vec::new(), Vec::new());
        let (low, history_cut) = (ModSeq(0), false);
        let mut driver =
            Self { store, now, past, ids, low, history_cut, options, clock, destroyed, opener };
        driver.past.push((driver.state(), naive::NaiveAccount::default()));
        driver
    }

    /// Returns the store's state of emails.
    pub(super) fn state(&self) -> ModSeq {
        self.store.snapshot().state(ACCOUNT, DataType::Email).unwrap()
    }

    pub(super) fn run(&mut self, ops: &[Op]) {
        for op in ops {
            self.apply(op);
        }
    }

    /// Applies one change to the store and to the naive account, and checks the change number.
    pub(super) fn apply(&mut self, op: &Op) {
        if let Op::Several { changes, queued } = op {
            return self.apply_several(changes, *queued);
        }
        let before = self.modseq();
        let changed = match op {
            Op::Several { .. } => None,
            Op::Create { draft, mailboxes, keywords, at } => {
                Some(self.create(draft, mailboxes, keywords, *at))
            }
            Op::Update { which, mailboxes, keywords } => self.index_of(*which).and_then(|at| {
                let mail = &mut self.now.mails[at];
                let is_same = mail.mailboxes == *mailboxes && mail.keywords == *keywords;
                mail.mailboxes.clone_from(mailboxes);
                mail.keywords.clone_from(keywords);
                let id = mail.id;
                let done = self.store.commit(ACCOUNT, |txn| {
                    txn.update_email(id, mailboxes.clone(), keywords.clone())
                });
                done.unwrap().1.wait_blocking().unwrap();
                (!is_same).then_some(id)
            }),
            Op::Destroy { which } => self.index_of(*which).map(|at| {
                let mail = self.now.mails.remove(at);
                let id = mail.id;
                self.commit(ACCOUNT, |txn| txn.destroy_email(id)).unwrap();
                self.destroyed.push(DestroyedMail { mail, at: self.clock.now(), restored: false });
                id
            }),
            Op::Copy { which, mailboxes, keywords, at } => self.index_of(*which).map(|source| {
                let draft = self.now.mails[source].draft.clone();
                self.create(&draft, mailboxes, keywords, *at)
            }),
            Op::Restore { which } => {
                which.checked_rem(self.destroyed.len()).and_then(|at| self.restore(at))
            }
            Op::Wait { days } => {
                self.clock.advance(DAY * *days);
                None
            }
            Op::Upkeep { kinds, limit } => {
                self.run_upkeep(*kinds, *limit);
                None
            }
            Op::ExtendListing { uid, filter, limit } => {
                self.commit(ACCOUNT, |txn| txn.extend_listing(*uid, *filter, *limit)).unwrap();
                None
            }
            Op::DropListing { uid, filter, .. } if filter.is_permanent(*uid) => None,
            Op::DropListing { uid, filter, limit } => {
                self.commit(ACCOUNT, |txn| txn.drop_listing(*uid, *filter, *limit)).unwrap();
                None
            }
            Op::Fold { steps, rows } => {
                self.fold(
                    *steps,
                    &FoldSizes {
                        rows: *rows,
                        row_bytes: 1 << 20,
                        block: 200,
                        fan: 2,
                        piece: 400,
                        last_level: 2,
                    },
                );
                None
            }
            Op::Reopen => {
                self.store = (self.opener)(&self.options, Arc::clone(&self.clock));
                None
            }
        };
        assert_eq!(self.modseq().0, before.0 + u64::from(changed.is_some()));
        if let Some(id) = changed {
            self.now.changed.insert(id, self.modseq());
            assert_eq!(self.state(), self.modseq());
            self.past.push((self.modseq(), self.now.clone()));
        }
    }

    fn apply_several(&mut self, changes: &[(usize, Option<EmailPlacement>)], queued: bool) {
        let (mut modseq, mut by_id) = (self.modseq(), Vec::new());
        for (which, placement) in changes {
            let Some(at) = self.index_of(*which) else { continue };
            let id = self.now.mails[at].id;
            by_id.push((id, placement.clone()));
            if let Some((mailboxes, keywords)) = placement {
                let mail = &mut self.now.mails[at];
                if mail.mailboxes == *mailboxes && mail.keywords == *keywords {
                    continue;
                }
                (mail.mailboxes, mail.keywords) = (mailboxes.clone(), keywords.clone());
            } else {
                let mail = self.now.mails.remove(at);
                self.destroyed.push(DestroyedMail { mail, at: self.clock.now(), restored: false });
            }
            modseq = modseq.next();
            self.now.changed.insert(id, modseq);
            self.past.push((modseq, self.now.clone()));
        }
        let apply = |txn: &mut Txn<'_>, (id, placement): &(EmailId, Option<EmailPlacement>)| {
            match placement.clone() {
                Some((mailboxes, keywords)) => txn.update_email(*id, mailboxes, keywords).map(drop),
                None => txn.destroy_email(*id),
            }
        };
        if queued {
            let commits = by_id
                .iter()
                .map(|change| self.store.commit(ACCOUNT, |txn| apply(txn, change)).unwrap().1);
            let tickets: Vec<Ticket> = commits.collect();
            tickets.into_iter().for_each(|ticket| ticket.wait_blocking().unwrap());
        } else {
            self.commit(ACCOUNT, |txn| by_id.iter().try_for_each(|change| apply(txn, change)))
                .unwrap();
        }
        assert_eq!(self.modseq(), modseq);
    }

    fn create(
        &mut self,
        draft: &NaiveDraft,
        mailboxes: &BTreeSet<MailboxUid>,
        keywords: &BTreeSet<String>,
        received_at: UtcMillis,
    ) -> EmailId {
        let raw = draft.raw();
        let message = EncodedMessage::new(&rows(raw.as_bytes(), self.store.secrets()));
        let (mut results, ticket) =
            self.store.commit_message(&[ACCOUNT], &message, raw.as_bytes(), |txn| {
                txn.create_email(&NewEmail {
                    message: &message,
                    prefix: draft.prefix().as_bytes(),
                    mailboxes: mailboxes.clone(),
                    keywords: keywords.clone(),
                    received_at,
                })
            });
        let (id, thread) = results.pop().unwrap().1.unwrap();
        ticket.wait_blocking().unwrap();
        assert_eq!(id.received_at(), received_at);
        assert!(!self.ids.contains(&id), "an id is used once");
        assert_eq!(thread, self.now.thread_for(draft));
        self.ids.push(id);
        let (mailboxes, keywords) = (mailboxes.clone(), keywords.clone());
        self.now.mails.push(NaiveMail {
            id,
            thread,
            mailboxes,
            keywords,
            received_at,
            draft: draft.clone(),
        });
        id
    }

    /// Restores a destroyed email. It must come back with a new id and a thread found anew. A
    /// second restore, or one after `RESTORABLE_DAYS`, must be refused.
    fn restore(&mut self, at: usize) -> Option<EmailId> {
        let DestroyedMail { mail, at: destroyed_at, restored } = self.destroyed[at].clone();
        let raw = mail.draft.raw();
        let message = EncodedMessage::new(&rows(raw.as_bytes(), self.store.secrets()));
        let result =
            self.commit(ACCOUNT, |txn| txn.restore_email(mail.id, &message, DAY * RESTORABLE_DAYS));
        if restored || self.clock.now() >= destroyed_at.after(DAY * RESTORABLE_DAYS) {
            assert!(matches!(result, Err(Error::Conflict(_))), "{result:?}");
            return None;
        }
        let (id, thread) = result.unwrap();
        assert!(!self.ids.contains(&id), "an id is used once");
        assert_eq!(
            (id.received_at(), thread),
            (mail.received_at, self.now.thread_for(&mail.draft))
        );
        self.ids.push(id);
        self.destroyed[at].restored = true;
        self.now.mails.push(NaiveMail { id, thread, ..mail });
        Some(id)
    }

    /// Runs the kinds of upkeep that the bits of `kinds` select (`Op::Upkeep`), in steps of `limit`
    /// rows, until nothing is left. The store must pass the checker after each step.
    fn run_upkeep(&mut self, kinds: u8, limit: usize) {
        let now = self.clock.now();
        let (purge_before, yesterday) = (now.before(DAY * RESTORABLE_DAYS), now.before(DAY));
        let mut has_more = true;
        while has_more {
            has_more = false;
            if kinds & 1 != 0 {
                has_more |= self
                    .commit(ACCOUNT, |txn| txn.purge_emails(purge_before, limit))
                    .unwrap()
                    .has_more;
            }
            if kinds & 2 != 0 {
                self.history_cut = true;
                self.commit(ACCOUNT, |txn| txn.note_history(DAY)).unwrap();
                has_more |=
                    self.commit(ACCOUNT, |txn| txn.purge_history(purge_before, limit)).unwrap();
            }
            if kinds & 4 != 0 {
                // With time 0, only the references of threads without emails are removed.
                let swept =
                    self.commit(ACCOUNT, |txn| txn.sweep_thread_refs(UtcMillis(0), DAY, limit));
                has_more |= swept.unwrap().1;
            }
            if kinds & 8 != 0 {
                has_more |= self
                    .commit(AccountId::SITE, |txn| txn.collect_blobs(yesterday, limit))
                    .unwrap()
                    .has_more;
                has_more |=
                    self.commit(AccountId::SITE, |txn| txn.sweep_blobs(DAY, limit)).unwrap();
            }
            assert_eq!(self.store.check().unwrap(), []);
        }
        if kinds & 1 != 0 {
            for DestroyedMail { mail, .. } in
                self.destroyed.extract_if(.., |mail| mail.at <= purge_before)
            {
                let changed = self.now.changed.remove(&mail.id).unwrap();
                self.low = self.low.max(changed);
            }
        }
    }

    fn commit<T>(
        &self,
        account: AccountId,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (value, ticket) = self.store.commit(account, change)?;
        ticket.wait_blocking()?;
        Ok(value)
    }

    fn fold(&self, steps: usize, sizes: &FoldSizes) {
        for _ in 0..steps {
            let Some(piece) = self.store.snapshot().next_fold_piece(ACCOUNT, sizes).unwrap() else {
                return;
            };
            for part in piece.parts(sizes.piece) {
                let (written, ticket) =
                    self.store.commit(ACCOUNT, |txn| txn.write_folds(&part)).unwrap();
                ticket.wait_blocking().unwrap();
                assert!(written, "nobody else changes the account");
            }
        }
    }

    /// Changes the naive account as a repair must change the store, given the emails whose rows
    /// were lost: keywords that no other row has are gone, and threads may have been made. Then all
    /// emails must be the same in both. Other rows have `$seen` and `$flagged`, and the number of
    /// unread emails, which tells whether an unseen email is a draft.
    pub(super) fn follow_repair(&mut self, ids: &BTreeSet<EmailId>) {
        for mail in self.now.mails.iter_mut().filter(|mail| ids.contains(&mail.id)) {
            let is_seen = mail.keywords.contains("$seen");
            mail.keywords.retain(|word| {
                ["$seen", "$flagged"].contains(&word.as_str()) || (word == "$draft" && !is_seen)
            });
        }
        let snapshot = self.store.snapshot();
        // An email of an unknown thread is given a new one.
        self.now.last_thread = snapshot.account_state(ACCOUNT).unwrap().last_thread;
        for DestroyedMail { mail, .. } in
            self.destroyed.iter_mut().filter(|destroyed| ids.contains(&destroyed.mail.id))
        {
            let row = snapshot.email_or_tombstone(ACCOUNT, mail.id).unwrap().unwrap();
            // Only the history of listings has the mailboxes of a destroyed email, and whether it
            // was flagged.
            let is_complete = row.mailboxes == mail.mailboxes;
            assert!(
                is_complete || (self.history_cut && row.mailboxes.is_subset(&mail.mailboxes)),
                "{row:?} {mail:?}"
            );
            mail.mailboxes.clone_from(&row.mailboxes);
            assert!(row.keywords.is_subset(&mail.keywords), "{row:?}");
            assert!(
                self.history_cut || row.has("$flagged") == mail.keywords.contains("$flagged"),
                "{row:?} {mail:?}"
            );
            mail.keywords = row.keywords;
        }
        for mail in &self.now.mails {
            let row = snapshot.email(ACCOUNT, mail.id).unwrap().unwrap();
            assert_eq!((&row.mailboxes, &row.keywords), (&mail.mailboxes, &mail.keywords));
        }
    }

    fn index_of(&self, which: usize) -> Option<usize> {
        which.checked_rem(self.now.mails.len())
    }

    fn modseq(&self) -> ModSeq {
        self.store.snapshot().account_state(ACCOUNT).unwrap().modseq
    }
}
