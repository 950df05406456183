//! What one connection follows: the changes of the accounts that its user may reach. Which those
//! are is asked each time, for mailboxes may be shared with the user, or no longer be, while the
//! connection lasts.

use std::sync::Arc;

use serde_json::Value;

use super::Backend;
use super::hub::HubWaiter;
use super::request_context::RequestContext;
use crate::jmap::{ObservedAccount, PushState};
use crate::wire::jmap::MethodError;

/// A connection's changes.
pub(super) struct ChangeFollower {
    backend: Arc<Backend>,
    who: RequestContext,
    accounts: Vec<ObservedAccount>,
    known: PushState,
    watch: HubWaiter,
}

impl ChangeFollower {
    /// From what the client says that it knows (`PushState::text`), or from now on.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn begin(
        backend: &Arc<Backend>,
        who: &RequestContext,
        said: Option<&str>,
    ) -> Result<Self, MethodError> {
        let accounts = accounts(backend, who)?;
        // Before it is looked what there is, so that nothing falls between.
        let watch = watch(backend, &accounts);
        let known = match said.and_then(|said| PushState::parse(said, &backend.store, &accounts)) {
            Some(known) => known,
            None => PushState::now(&backend.store, &accounts)?,
        };
        Ok(Self { backend: Arc::clone(backend), who: who.clone(), accounts, known, watch })
    }

    /// What changed since the last time, as a `StateChange`; of these types alone, if any are
    /// named.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn catch_up(
        &mut self,
        types: Option<&[String]>,
    ) -> Result<Option<Value>, MethodError> {
        let accounts = accounts(&self.backend, &self.who)?;
        if accounts != self.accounts {
            self.watch = watch(&self.backend, &accounts);
            self.known.set_accounts(&accounts);
            self.accounts = accounts;
        }
        Ok(self.known.catch_up(&self.backend.store, types)?)
    }

    /// What the client knows then, to come back with.
    pub(super) fn text(&self) -> String {
        self.known.text()
    }

    /// Until something changed, since the last time or since the beginning.
    pub(super) async fn wait_for_change(&self) {
        self.watch.wait_for_change().await;
    }
}

fn accounts(backend: &Backend, who: &RequestContext) -> Result<Vec<ObservedAccount>, MethodError> {
    let context = backend.context(&backend.settings.get(), who);
    Ok(context.accessible_accounts()?.iter().map(ObservedAccount::from).collect())
}

fn watch(backend: &Backend, accounts: &[ObservedAccount]) -> HubWaiter {
    backend.hub.watch(accounts.iter().map(|one| one.account).collect())
}
