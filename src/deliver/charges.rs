//! Tells which charges of a delivery were used: those for what a commit has queued, or has found
//! queued already.

use std::collections::BTreeMap;

use super::job::AccountJob;
use super::outcome::FiledAccount;
use super::rates::RateCharges;
use crate::model::AccountId;
use crate::store::Error;
use crate::vacation::ReplyDecision;

/// An account, its job, and the result of its commit; `None` if there was no commit.
type JobOutcome<'a> =
    (AccountId, &'a Result<AccountJob, Error>, Option<&'a Result<FiledAccount, Error>>);

/// Splits the charges of the jobs. Returns the used ones of each account first, then those to
/// refund. A job that could not be planned has none: `plan_account` has refunded them.
pub(super) fn sort_charges<'a>(
    jobs: impl Iterator<Item = JobOutcome<'a>>,
) -> (BTreeMap<AccountId, RateCharges>, RateCharges) {
    let (mut all_used, mut unused) = (BTreeMap::new(), RateCharges::default());
    for (account, job, result) in jobs {
        let Ok(job) = job else { continue };
        let mut used = RateCharges::default();
        let filed = result.and_then(|result| result.as_ref().ok());
        if let ReplyDecision::Reply(planned) = &job.answer.decision {
            let is_sent = filed.is_some_and(|filed| filed.is_answered);
            if is_sent { &mut used } else { &mut unused }.replies.push(planned.charge.clone());
        }
        for (index, recipient) in job.recipients.iter().enumerate() {
            let Some(work) = &recipient.work else { continue };
            let is_served = filed.is_some_and(|filed| filed.served.contains(&index));
            if is_served { &mut used } else { &mut unused }.add(&work.writes.charges);
        }
        if let Some(notification) = &job.notification {
            let is_sent = filed.is_some_and(|filed| filed.is_notified);
            let charges = if is_sent { &mut used } else { &mut unused };
            charges.notifications.push(notification.charge.clone());
        }
        if !used.is_empty() {
            all_used.insert(account, used);
        }
    }
    (all_used, unused)
}
