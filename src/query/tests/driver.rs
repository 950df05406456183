//! Applies random changes to a store and to the naive account, and records every state.
//!
//! Upkeep purges the store, and removes the recorded states from which changes can no longer be
//! reported.

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
use crate::store::{
    EncodedMessage, Error, FoldSizes, NewEmail, NewMailbox, Options, Store, Ticket, Txn,
};

/// The account of all tests.
pub(super) const ACCOUNT: AccountId = AccountId(1);
/// When the earliest email is received; the others in the milliseconds after.
pub(super) const EPOCH: i64 = 1_790_000_000_000;
/// Different times of receipt.
pub(super) const TIMES: i64 = 6;
/// Days in which what was destroyed can be restored.
const GRACE: u32 = 4;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A destroyed email.
#[derive(Debug, Clone)]
struct DestroyedMail {
    mail: NaiveMail,
    at: UtcMillis,
    restored: bool,
}

/// A store and the naive account beside it.
pub(super) struct TestDriver {
    pub(super) store: Store,
    pub(super) now: naive::NaiveAccount,
    /// Every past state and the present one, with its change number.
    pub(super) past: Vec<(ModSeq, naive::NaiveAccount)>,
    /// Every email that ever existed.
    pub(super) ids: Vec<EmailId>,
    /// The newest change of a purged email.
    pub(super) low: ModSeq,
    /// Whether history of listings may have been purged.
    history_cut: bool,
    options: Options,
    clock: Arc<FixedClock>,
    dead: Vec<DestroyedMail>,
    /// Opens the store anew; after `store`, for it may hold the directory that it lies in.
    opens: Box<StoreOpener>,
}

/// Opens a store, or again what the one before it left; that is still there then, and does nothing
/// more.
type StoreOpener = dyn FnMut(&Options, Arc<FixedClock>) -> Store;

impl std::fmt::Debug for TestDriver {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("TestDriver").field("now", &self.now).finish_non_exhaustive()
    }
}

/// A copy of a store's files as they were at one moment; nothing where RocksDB made, changed or
/// deleted one meanwhile.
#[cfg(feature = "rocksdb")]
fn copied(dir: &std::path::Path) -> Option<tempfile::TempDir> {
    let files = || -> Option<Vec<_>> {
        let mut all = Vec::new();
        for file in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let facts = file.metadata().ok()?;
            if facts.is_file() && file.file_name() != "LOCK" {
                all.push((file.path(), facts.len(), facts.modified().unwrap()));
            }
        }
        all.sort();
        Some(all)
    };
    let (before, copy) = (files()?, tempfile::tempdir().unwrap());
    for (path, _, _) in &before {
        std::fs::copy(path, copy.path().join(path.file_name().unwrap())).ok()?;
    }
    (files()? == before).then_some(copy)
}

impl TestDriver {
    /// Over the memory engine.
    pub(super) fn new() -> Self {
        Self::over(Arc::new(MemoryEngine::new()), None)
    }

    /// Over an empty engine; listings of more emails than `ranked_above` have ranks.
    pub(super) fn over(engine: Arc<dyn Engine>, ranked_above: Option<u64>) -> Self {
        let opens = move |options: &Options, clock: Arc<FixedClock>| {
            Store::open_engine(Arc::clone(&engine), options, clock).unwrap()
        };
        Self::begin(Box::new(opens), ranked_above)
    }

    /// On a disk. Opened anew it is what a copy of the files holds that was made while the store
    /// was open: nothing was flushed or closed.
    #[cfg(feature = "rocksdb")]
    pub(super) fn on_disk(ranked_above: Option<u64>) -> Self {
        let mut dirs = vec![tempfile::tempdir().unwrap()];
        let mut used = false;
        let opens = move |options: &Options, clock: Arc<FixedClock>| {
            if std::mem::replace(&mut used, true) {
                let copy = (0..1000).find_map(|_| copied(dirs.last().unwrap().path()));
                dirs.push(copy.expect("files that stay while they are copied"));
            }
            Store::open(dirs.last().unwrap().path(), options, clock).unwrap()
        };
        Self::begin(Box::new(opens), ranked_above)
    }

    fn begin(mut opens: Box<StoreOpener>, ranked_above: Option<u64>) -> Self {
        let clock = Arc::new(FixedClock::at(UtcMillis(EPOCH)));
        let options = Options { ranked_above, ..Options::small() };
        let store = opens(&options, Arc::clone(&clock));
        let row = AccountRow::new("me", Address::from_parts("me", "a.example"), UtcMillis(0));
        let made = store.commit(ACCOUNT, |txn| {
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
        made.unwrap().1.wait_blocking().unwrap();
        let (now, past, ids, dead) =
            (naive::NaiveAccount::default(), Vec::new(), Vec::new(), Vec::new());
        let (low, history_cut) = (ModSeq(0), false);
        let mut drive =
            Self { store, now, past, ids, low, history_cut, options, clock, dead, opens };
        drive.past.push((drive.state(), naive::NaiveAccount::default()));
        drive
    }

    /// The store's state of emails.
    pub(super) fn state(&self) -> ModSeq {
        self.store.snapshot().state(ACCOUNT, DataType::Email).unwrap()
    }

    pub(super) fn run(&mut self, ops: &[Op]) {
        for op in ops {
            self.apply(op);
        }
    }

    /// Applies one change to both. A change of nothing takes no change number, any other exactly
    /// one.
    pub(super) fn apply(&mut self, op: &Op) {
        if let Op::Several { acts, queued } = op {
            return self.several(acts, *queued);
        }
        let before = self.modseq();
        let changed = match op {
            Op::Several { .. } => None,
            Op::Create { draft, mailboxes, keywords, at } => {
                Some(self.create(draft, mailboxes, keywords, *at))
            }
            Op::Update { which, mailboxes, keywords } => self.at(*which).and_then(|at| {
                let mail = &mut self.now.mails[at];
                let same = mail.mailboxes == *mailboxes && mail.keywords == *keywords;
                mail.mailboxes.clone_from(mailboxes);
                mail.keywords.clone_from(keywords);
                let id = mail.id;
                let done = self.store.commit(ACCOUNT, |txn| {
                    txn.update_email(id, mailboxes.clone(), keywords.clone())
                });
                done.unwrap().1.wait_blocking().unwrap();
                (!same).then_some(id)
            }),
            Op::Destroy { which } => self.at(*which).map(|at| {
                let mail = self.now.mails.remove(at);
                let id = mail.id;
                self.done(ACCOUNT, |txn| txn.destroy_email(id)).unwrap();
                self.dead.push(DestroyedMail { mail, at: self.clock.now(), restored: false });
                id
            }),
            Op::Copy { which, mailboxes, keywords, at } => self.at(*which).map(|source| {
                let draft = self.now.mails[source].draft.clone();
                self.create(&draft, mailboxes, keywords, *at)
            }),
            Op::Restore { which } => {
                which.checked_rem(self.dead.len()).and_then(|at| self.restore(at))
            }
            Op::Wait { days } => {
                self.clock.advance(DAY * *days);
                None
            }
            Op::Keep { what, most } => {
                self.keep(*what, *most);
                None
            }
            Op::Make { uid, filter, most } => {
                self.done(ACCOUNT, |txn| txn.extend_listing(*uid, *filter, *most)).unwrap();
                None
            }
            Op::Drop { uid, filter, .. } if filter.is_permanent(*uid) => None,
            Op::Drop { uid, filter, most } => {
                self.done(ACCOUNT, |txn| txn.drop_listing(*uid, *filter, *most)).unwrap();
                None
            }
            Op::Fold { steps, rows } => {
                self.fold(
                    *steps,
                    &FoldSizes {
                        rows: *rows,
                        row_octets: 1 << 20,
                        block: 200,
                        fan: 2,
                        piece: 400,
                        last_level: 2,
                    },
                );
                None
            }
            Op::Reopen => {
                self.store = (self.opens)(&self.options, Arc::clone(&self.clock));
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

    fn several(&mut self, acts: &[(usize, Option<EmailPlacement>)], queued: bool) {
        let (mut modseq, mut wishes) = (self.modseq(), Vec::new());
        for (which, filed) in acts {
            let Some(at) = self.at(*which) else { continue };
            let id = self.now.mails[at].id;
            wishes.push((id, filed.clone()));
            if let Some((mailboxes, keywords)) = filed {
                let mail = &mut self.now.mails[at];
                if mail.mailboxes == *mailboxes && mail.keywords == *keywords {
                    continue;
                }
                (mail.mailboxes, mail.keywords) = (mailboxes.clone(), keywords.clone());
            } else {
                let mail = self.now.mails.remove(at);
                self.dead.push(DestroyedMail { mail, at: self.clock.now(), restored: false });
            }
            modseq = modseq.next();
            self.now.changed.insert(id, modseq);
            self.past.push((modseq, self.now.clone()));
        }
        let one = |txn: &mut Txn<'_>, (id, filed): &(EmailId, Option<EmailPlacement>)| match filed
            .clone()
        {
            Some((mailboxes, keywords)) => txn.update_email(*id, mailboxes, keywords).map(drop),
            None => txn.destroy_email(*id),
        };
        if queued {
            let commits = wishes
                .iter()
                .map(|wish| self.store.commit(ACCOUNT, |txn| one(txn, wish)).unwrap().1);
            let tickets: Vec<Ticket> = commits.collect();
            tickets.into_iter().for_each(|ticket| ticket.wait_blocking().unwrap());
        } else {
            self.done(ACCOUNT, |txn| wishes.iter().try_for_each(|wish| one(txn, wish))).unwrap();
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

    /// A second time, or too late, it is refused; else it comes back with all but its id and its
    /// thread.
    fn restore(&mut self, at: usize) -> Option<EmailId> {
        let DestroyedMail { mail, at: end, restored } = self.dead[at].clone();
        let raw = mail.draft.raw();
        let message = EncodedMessage::new(&rows(raw.as_bytes(), self.store.secrets()));
        let made = self.done(ACCOUNT, |txn| txn.restore_email(mail.id, &message, DAY * GRACE));
        if restored || self.clock.now() >= end.after(DAY * GRACE) {
            assert!(matches!(made, Err(Error::Conflict(_))), "{made:?}");
            return None;
        }
        let (id, thread) = made.unwrap();
        assert!(!self.ids.contains(&id), "an id is used once");
        assert_eq!(
            (id.received_at(), thread),
            (mail.received_at, self.now.thread_for(&mail.draft))
        );
        self.ids.push(id);
        self.dead[at].restored = true;
        self.now.mails.push(NaiveMail { id, thread, ..mail });
        Some(id)
    }

    /// Takes nothing that is asked for within its time, and leaves the store in order after each
    /// step.
    fn keep(&mut self, what: u8, most: usize) {
        let now = self.clock.now();
        let (upto, yesterday) = (now.before(DAY * GRACE), now.before(DAY));
        let mut left = true;
        while left {
            left = false;
            if what & 1 != 0 {
                left |= self.done(ACCOUNT, |txn| txn.purge_emails(upto, most)).unwrap().left;
            }
            if what & 2 != 0 {
                self.history_cut = true;
                self.done(ACCOUNT, |txn| txn.note_history(DAY)).unwrap();
                left |= self.done(ACCOUNT, |txn| txn.purge_history(upto, most)).unwrap();
            }
            if what & 4 != 0 {
                // Those of dead threads alone: no time is long ago enough.
                let swept =
                    self.done(ACCOUNT, |txn| txn.sweep_thread_refs(UtcMillis(0), DAY, most));
                left |= swept.unwrap().1;
            }
            if what & 8 != 0 {
                left |= self
                    .done(AccountId::SITE, |txn| txn.collect_blobs(yesterday, most))
                    .unwrap()
                    .left;
                left |= self.done(AccountId::SITE, |txn| txn.sweep_blobs(DAY, most)).unwrap();
            }
            assert_eq!(self.store.check().unwrap(), []);
        }
        if what & 1 != 0 {
            for DestroyedMail { mail, .. } in self.dead.extract_if(.., |dead| dead.at <= upto) {
                let changed = self.now.changed.remove(&mail.id).unwrap();
                self.low = self.low.max(changed);
            }
        }
    }

    fn done<T>(
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
            let (written, ticket) =
                self.store.commit(ACCOUNT, |txn| txn.write_folds(&piece)).unwrap();
            ticket.wait_blocking().unwrap();
            assert!(written, "nobody else changes the account");
        }
    }

    /// Of these emails the store lost all keywords that no other row has: so does the naive
    /// account.
    pub(super) fn forget_keywords(&mut self, ids: &BTreeSet<EmailId>) {
        for mail in self.now.mails.iter_mut().filter(|mail| ids.contains(&mail.id)) {
            let is_seen = mail.keywords.contains("$seen");
            mail.keywords.retain(|word| {
                ["$seen", "$flagged"].contains(&word.as_str()) || word == "$draft" && !is_seen
            });
        }
        let snapshot = self.store.snapshot();
        for DestroyedMail { mail, .. } in
            self.dead.iter_mut().filter(|dead| ids.contains(&dead.mail.id))
        {
            let row = snapshot.email_or_tombstone(ACCOUNT, mail.id).unwrap().unwrap();
            // Where a destroyed email was, and whether flagged, is told by the history of listings
            // alone.
            let is_told = row.mailboxes == mail.mailboxes;
            assert!(
                is_told || self.history_cut && row.mailboxes.is_subset(&mail.mailboxes),
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
    }

    fn at(&self, which: usize) -> Option<usize> {
        which.checked_rem(self.now.mails.len())
    }

    fn modseq(&self) -> ModSeq {
        self.store.snapshot().account_state(ACCOUNT).unwrap().modseq
    }
}
