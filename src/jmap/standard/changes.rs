//! /changes (RFC 8620 §5.2).

use std::fmt::Display;

use serde_json::{Map, Value};

use super::state;
use crate::jmap::context::{Args, Context};
use crate::model::{AccountId, limits};
use crate::store::{Changes, ClientState};
use crate::wire::jmap::MethodError;

/// What a /changes asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::jmap) struct ChangesArguments {
    /// As the client wrote it.
    old: String,
    /// From where on.
    pub(in crate::jmap) since: ClientState,
    /// How many ids at most.
    pub(in crate::jmap) most: usize,
}

impl ChangesArguments {
    /// Reads the arguments.
    ///
    /// # Errors
    /// `invalidArguments`; `cannotCalculateChanges` for a state that was never given.
    pub(in crate::jmap) fn read(context: &Context, arguments: &Args<'_>) -> Result<Self, MethodError> {
        let old = arguments.text("sinceState")?;
        let most = arguments.max_changes()?.and_then(|most| usize::try_from(most).ok());
        let most = most.map_or(limits::CHANGES, |most| most.min(limits::CHANGES));
        let since = state::since(&context.store, &old).ok_or(MethodError::CannotCalculateChanges)?;
        Ok(Self { old, since, most })
    }
}

/// The answer.
///
/// # Errors
/// `cannotCalculateChanges` where there are none to be told.
pub(in crate::jmap) fn changes<Id: Display>(
    context: &Context,
    account: AccountId,
    asked: &ChangesArguments,
    changes: Option<Changes<Id>>,
) -> Result<Map<String, Value>, MethodError> {
    let changes = changes.ok_or(MethodError::CannotCalculateChanges)?;
    let ids = |ids: Vec<Id>| Value::Array(ids.iter().map(|id| id.to_string().into()).collect());
    let mut answer = Map::new();
    answer.insert("accountId".into(), account.to_string().into());
    answer.insert("oldState".into(), asked.old.clone().into());
    answer.insert("newState".into(), state::at(&context.store, changes.state).into());
    answer.insert("hasMoreChanges".into(), changes.more.into());
    answer.insert("created".into(), ids(changes.created));
    answer.insert("updated".into(), ids(changes.updated));
    answer.insert("destroyed".into(), ids(changes.destroyed));
    Ok(answer)
}
