//! Views that are kept on demand: what an answer asks for is begun, and what served is noted, so that it stays.
//!
//! The answer is given whatever becomes of this: it waits for no disk, and what fails is only said in the log. A view that
//! is begun is made further by each question that wants it, and by the upkeep.

use crate::model::AccountId;
use crate::query::Plan;
use crate::store::Store;

/// Emails taken up at once.
const PIECE: usize = 1000;

/// Does for the views of an account what a plan says.
pub(in crate::jmap) fn follow(store: &Store, account: AccountId, plan: &Plan) {
    let noted = plan.to_be_noted(store.clock().now());
    if plan.wants.is_none() && noted.is_empty() {
        return;
    }
    let done = store.commit(account, |txn| {
        if let Some((uid, view)) = plan.wants {
            txn.keep(uid, view, PIECE)?;
        }
        noted.iter().try_for_each(|(uid, view)| txn.asked_for(*uid, *view))
    });
    if let Err(error) = done {
        tracing::warn!(%account, %error, "a list that is often asked for is not kept");
    }
}
