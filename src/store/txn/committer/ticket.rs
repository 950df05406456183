//! The ticket of a commit.

use tokio::sync::oneshot;

use crate::model::AccountId;
use crate::store::error::Error;

/// The accounts whose changes were overtaken and not written.
pub(super) type WriteResult = Result<Vec<AccountId>, Error>;

/// Becomes ready when a commit is durable and visible, or has failed. If a ticket is dropped, its
/// commit is written all the same.
#[derive(Debug)]
#[must_use = "nothing may be promised before the ticket is redeemed"]
pub struct Ticket(TicketState);

#[derive(Debug)]
enum TicketState {
    Ended(WriteResult),
    Waiting(oneshot::Receiver<WriteResult>),
}

impl Ticket {
    pub(super) fn ended(result: WriteResult) -> Self {
        Self(TicketState::Ended(result))
    }

    pub(in crate::store) fn of_nothing() -> Self {
        Self::ended(Ok(Vec::new()))
    }

    pub(super) fn waiting(receiver: oneshot::Receiver<WriteResult>) -> Self {
        Self(TicketState::Waiting(receiver))
    }

    /// Waits until the commit is durable and visible.
    ///
    /// # Errors
    /// - `Overtaken`: nothing was written of at least one of the accounts.
    /// - `Full`, `Away` or `Poisoned`: nothing of the commit was written. But if other processes
    ///   share the engine, an earlier run of the change may have been written for some accounts.
    /// - `Io` or another error of the engine, `Io` also if the store was closed or the committer
    ///   panicked: the commit may be written.
    pub async fn wait(self) -> Result<(), Error> {
        all_written(self.overtaken_accounts().await)
    }

    /// Waits until the commit is durable and visible. Returns the accounts whose changes were not
    /// written, because another change came first or an earlier one failed.
    ///
    /// # Errors
    /// Those of `wait`, except `Overtaken`.
    pub async fn overtaken_accounts(self) -> WriteResult {
        match self.0 {
            TicketState::Ended(result) => result,
            TicketState::Waiting(receiver) => receiver.await.unwrap_or_else(|_| Err(closed())),
        }
    }

    /// Does as `wait`, but blocks the thread. Must not be called from an asynchronous task.
    ///
    /// # Errors
    /// Those of `wait`.
    pub fn wait_blocking(self) -> Result<(), Error> {
        all_written(self.overtaken_accounts_blocking())
    }

    pub(super) fn overtaken_accounts_blocking(self) -> WriteResult {
        match self.0 {
            TicketState::Ended(result) => result,
            TicketState::Waiting(receiver) => {
                receiver.blocking_recv().unwrap_or_else(|_| Err(closed()))
            }
        }
    }
}

fn all_written(result: WriteResult) -> Result<(), Error> {
    result?.first().map_or(Ok(()), |account| Err(Error::Overtaken(*account)))
}

fn closed() -> Error {
    Error::Io("the store was closed".into())
}
