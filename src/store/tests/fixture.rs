//! A store over an engine whose writes can fail, with a clock that the test sets.

use super::super::engine::fault::FaultyEngine;
use super::*;
use crate::model::{DataType, ModSeq};

pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long a destroyed email can be restored (`Fixture::restore`).
pub(super) const GRACE: Duration = Duration::from_secs(60 * 24 * 3600);
pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const PREFIX: &[u8] = b"Delivered-To: ann@example.org\r\n";

pub(super) struct Fixture {
    pub(super) engine: Arc<FaultyEngine<MemoryEngine>>,
    pub(super) clock: Arc<FixedClock>,
    pub(super) store: Store,
}

pub(super) fn fixture() -> Fixture {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let options = Options { ranked_above: Some(2), ..Options::small() };
    let store = Store::open_engine(engine.clone(), &options, clock.clone()).unwrap();
    make_account(&store, ACCOUNT);
    Fixture { engine, clock, store }
}

impl Fixture {
    /// Commits a change of an account, and waits until it is durable.
    pub(super) fn on<T>(
        &self,
        account: AccountId,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (value, ticket) = self.store.commit(account, change)?;
        ticket.wait_blocking()?;
        Ok(value)
    }

    /// Commits a change of `ACCOUNT`, and waits until it is durable.
    pub(super) fn done<T>(
        &self,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.on(ACCOUNT, change)
    }

    /// Delivers message `n` to the Inbox, as received at `n` milliseconds.
    pub(super) fn deliver(&self, n: u32, keys: &[u8]) -> EmailId {
        self.deliver_to(ACCOUNT, n, keys).unwrap()
    }

    /// Does as `deliver` for any account.
    pub(super) fn deliver_to(
        &self,
        account: AccountId,
        n: u32,
        keys: &[u8],
    ) -> Result<EmailId, Error> {
        let (message, _) = message(n, keys);
        let (mut results, ticket) =
            self.store.commit_message(&[account], &message, &raw(n), |txn| {
                txn.create_email(&NewEmail {
                    message: &message,
                    prefix: PREFIX,
                    mailboxes: BTreeSet::from([txn.state().inbox]),
                    keywords: BTreeSet::new(),
                    received_at: UtcMillis(i64::from(n)),
                })
            });
        let (id, _) = results.pop().unwrap().1?;
        ticket.wait_blocking()?;
        Ok(id)
    }

    pub(super) fn destroy(&self, id: EmailId) {
        self.done(|txn| txn.destroy_email(id)).unwrap();
    }

    /// Restores a destroyed email, whose message is message `n`.
    pub(super) fn restore(&self, id: EmailId, n: u32) -> Result<EmailId, Error> {
        self.done(|txn| txn.restore_email(id, &message(n, &[]).0, GRACE)).map(|(id, _)| id)
    }

    /// Returns the time that was `retention` ago: rows of then or earlier have expired.
    pub(super) fn upto(&self, retention: Duration) -> UtcMillis {
        self.clock.now().before(retention)
    }

    /// Writes a row directly into the engine.
    pub(super) fn write<K: table::codec::Key>(&self, table: Table, key: &K, value: &[u8]) {
        let put = Put { table, key: key.encode(), value: Some(value.to_vec()) };
        self.engine.write(&[Arc::new(Batch::of(vec![put]))]).unwrap();
    }

    /// Returns the number of rows of a table, of all accounts.
    pub(super) fn rows(&self, table: Table) -> usize {
        self.engine.inner().rows(table).len()
    }

    pub(super) fn low(&self, data: DataType) -> ModSeq {
        self.store.snapshot().account_state(ACCOUNT).unwrap().low_mark(data)
    }

    /// Runs the steps of upkeep that purge, expire and collect, until nothing is left to do.
    pub(super) fn upkeep(&self, retention: Duration) -> Result<(), Error> {
        let upto = self.upto(retention);
        while self.done(|txn| txn.purge_emails(upto, 2))?.has_more {}
        self.done(|txn| txn.note_history(DAY))?;
        while self.done(|txn| txn.purge_history(upto, 2))? {}
        while self.done(|txn| txn.clear_destroyed_mailboxes(2))? {}
        while self.done(|txn| txn.expire_deliveries_and_decisions(2))? {}
        while self.done(|txn| txn.expire_told(upto, 2))? {}
        while self.done(|txn| txn.expire_uploads(upto, 2))? {}
        while self.done(|txn| txn.expire_objects(upto, 2))? {}
        while self.done(|txn| txn.sweep_thread_refs(upto, MS, 2))?.1 {}
        while self.on(AccountId::SITE, |txn| txn.collect_blobs(upto, 2))?.has_more {}
        while self.on(AccountId::SITE, |txn| txn.sweep_blobs(MS, 2))? {}
        Ok(())
    }
}

/// Returns the bytes of message `n` (`message`).
pub(super) fn raw(n: u32) -> Vec<u8> {
    format!("Subject: {n}\r\n\r\n{n}\r\n").into_bytes()
}
