//! Follows the changes of the accounts that the user of one connection may access.
//!
//! - Each `catch_up` determines the accounts anew, because shares may begin and end. A new share
//!   wakes the connection, because the user's own account gets a `ShareNotification`.
//! - `begin` and `catch_up` read the store on the task that calls them.

use std::sync::Arc;

use serde_json::Value;

use super::Backend;
use super::hub::HubWaiter;
use super::request_context::RequestContext;
use crate::jmap::{ObservedAccount, PushState};
use crate::wire::jmap::MethodError;

pub(super) struct ChangeFollower {
    backend: Arc<Backend>,
    context: RequestContext,
    accounts: Vec<ObservedAccount>,
    /// The states that the client knows.
    state: PushState,
    waiter: HubWaiter,
}

impl ChangeFollower {
    /// Begins at the state that the client sent (`PushState::text`), or else at the present state.
    ///
    /// # Errors
    /// The accounts or their states cannot be read.
    pub(super) fn begin(
        backend: &Arc<Backend>,
        context: &RequestContext,
        client_state: Option<&str>,
    ) -> Result<Self, MethodError> {
        let accounts = accounts(backend, context)?;
        // Waiting begins before the states are read, so that no change is missed in between.
        let waiter = watch(backend, &accounts);
        let client_state =
            client_state.and_then(|text| PushState::parse(text, &backend.store, &accounts));
        let state = match client_state {
            Some(state) => state,
            None => PushState::now(&backend.store, &accounts)?,
        };
        Ok(Self { backend: Arc::clone(backend), context: context.clone(), accounts, state, waiter })
    }

    /// Returns the changes that the client does not know as a `StateChange`; `None` if there are
    /// none.
    ///
    /// # Errors
    /// The accounts or their states cannot be read.
    pub(super) fn catch_up(
        &mut self,
        types: Option<&[String]>,
    ) -> Result<Option<Value>, MethodError> {
        let accounts = accounts(&self.backend, &self.context)?;
        if accounts != self.accounts {
            self.waiter = watch(&self.backend, &accounts);
            self.state.set_accounts(&accounts);
            self.accounts = accounts;
        }
        Ok(self.state.catch_up(&self.backend.store, types)?)
    }

    /// Returns the states that the client knows as a text, for `begin` when it reconnects.
    pub(super) fn text(&self) -> String {
        self.state.text()
    }

    /// Waits until one of the accounts has changed since the last wait, or since it was first
    /// followed.
    pub(super) async fn wait_for_change(&self) {
        self.waiter.wait_for_change().await;
    }
}

fn accounts(
    backend: &Backend,
    context: &RequestContext,
) -> Result<Vec<ObservedAccount>, MethodError> {
    let context = backend.context(&backend.settings.get(), context);
    Ok(context.accessible_accounts()?.iter().map(ObservedAccount::from).collect())
}

fn watch(backend: &Backend, accounts: &[ObservedAccount]) -> HubWaiter {
    backend.hub.watch(accounts.iter().map(|one| one.account).collect())
}
