//! Sieve/dryRun and Sieve/apply: run a script over stored mail. Each call does one *step*, which is
//! a limited number of emails. (The `steps` of an email are something else: what the script did.)
//!
//! - A step goes through a mailbox from newest to oldest. It begins with the email that follows
//!   `after`, or without `after` with the newest. It runs the script over each email, on one
//!   snapshot. Sieve/dryRun ends there.
//! - Sieve/apply then changes the emails of the step in one commit. It leaves alone an email that
//!   somebody changed since the snapshot.
//! - A step only moves and copies emails, adds keywords, and creates mailboxes. So a step can be
//!   repeated, also after a kill: the script runs over the mailbox as it is then, and does nothing
//!   a second time.
//! - Only the given script is run, without those of the site. Nothing is sent, and no rule is
//!   counted. The `duplicate` test is false, and nothing is remembered for later `duplicate` tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::mail::email_id;
use super::stored_envelope::StoredEnvelope;
use super::{AdminMethod, charge_row, mailboxes};
use crate::filter::{
    self, FilterRequest, FilterResult, ScriptCache, StoreTarget, StoredPlan, find_script,
};
use crate::jmap::context::Context;
use crate::jmap::method::Call;
use crate::message::catch_parser_panic;
use crate::message::header::Header;
use crate::model::{
    AccountId, EmailAddress, EmailId, EmailMetadata, Listing, ListingFilter, Mailbox, MailboxUid,
    ModSeq, Role, Shape, limits,
};
use crate::store::{Error, Snapshot, Txn};
use crate::wire::jmap::admin::OfAccount;
use crate::wire::jmap::admin::decisions::FilterStepFacts;
use crate::wire::jmap::admin::mail::NamedAddress;
use crate::wire::jmap::admin::sieve_stored::{
    FilterFailure, FilterOutcome, FilteredEmail, SieveApply, SieveDryRun, StoredFilterAnswer,
    StoredFilterArguments,
};
use crate::wire::jmap::{MethodError, With, from_base64};

/// The most emails of a step.
const EMAILS_PER_STEP: usize = 64;
/// The most bytes of the messages of a step. Its first message alone may have more.
const BYTES_PER_STEP: u64 = 16 << 20;

impl AdminMethod for SieveDryRun {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<StoredFilterArguments>,
    ) -> Result<StoredFilterAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        Ok(plan_step(context, account, &args)?.answer)
    }
}

impl AdminMethod for SieveApply {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<StoredFilterArguments>,
    ) -> Result<StoredFilterAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let PlannedStep { mut answer, mailbox, changes } = plan_step(context, account, &args)?;
        if changes.is_empty() {
            return Ok(answer);
        }
        let committed = context.store.commit(account, |txn| {
            let apply = |change: &PlannedChange| {
                Ok((change.id.to_string(), apply_change(txn, mailbox, change)?))
            };
            changes.iter().map(apply).collect::<Result<BTreeMap<String, bool>, Error>>()
        });
        let (done, ticket) = committed?;
        ticket.wait_blocking()?;
        for email in &mut answer.list {
            email.is_done = done.get(&email.id).copied();
        }
        Ok(answer)
    }
}

/// What one step found.
struct PlannedStep {
    /// Has every email of the step, with `is_done` not set.
    answer: StoredFilterAnswer,
    /// The mailbox that is filtered.
    mailbox: MailboxUid,
    /// Only the emails that the script changes.
    changes: Vec<PlannedChange>,
}

/// What is to become of an email.
struct PlannedChange {
    id: EmailId,
    /// The last change of the email when the script ran.
    seen: ModSeq,
    plan: StoredPlan,
}

/// Returns the name and the source of the script that the arguments name or contain. A script that
/// they contain has the name "".
///
/// # Errors
/// `NotFound` if the account has no script of the name. `InvalidArguments` if the arguments do not
/// have exactly one of name and script, or if the script has errors.
fn script(
    context: &Context,
    snapshot: &Snapshot<'_>,
    account: AccountId,
    args: &StoredFilterArguments,
) -> Result<(String, Arc<[u8]>), MethodError> {
    let (name, source) = match (&args.name, &args.script) {
        (Some(name), None) => {
            let missing = || MethodError::NotFound(format!("there is no script {name}"));
            let id = find_script(&snapshot.scripts(account)?, name).ok_or_else(missing)?;
            (name.clone(), snapshot.script_source(account, id)?.ok_or_else(missing)?)
        }
        (None, Some(source)) => (String::new(), from_base64(source)?),
        _ => {
            let text = "either name or script is expected";
            return Err(MethodError::InvalidArguments(text.into()));
        }
    };
    let report = context.filter.report(&source);
    if !report.is_valid {
        let text = format!("the script has errors:\n{}", report.text.trim_end());
        return Err(MethodError::InvalidArguments(text));
    }
    Ok((name, source.into()))
}

/// Runs the script over the emails of one step. Writes nothing. A `limit` of 0 counts as 1, and one
/// beyond `EMAILS_PER_STEP` counts as `EMAILS_PER_STEP`.
fn plan_step(
    context: &Context,
    account: AccountId,
    args: &StoredFilterArguments,
) -> Result<PlannedStep, MethodError> {
    let snapshot = context.store.snapshot();
    let (name, source) = script(context, &snapshot, account, args)?;
    let mailbox_name = args.mailbox.as_deref().unwrap_or("inbox");
    let (mailbox, mailbox_row) = mailboxes::find(context, account, mailbox_name)?;
    let after = email_id("after", args.after.as_deref())?;
    let limit = args.limit.map_or(EMAILS_PER_STEP, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX).clamp(1, EMAILS_PER_STEP)
    });
    let listing = Listing { uid: mailbox, filter: ListingFilter::Every, shape: Shape::Emails };
    let page = snapshot.listing(account, listing, after, limit)?;
    let run = ScriptRun {
        context,
        snapshot: &snapshot,
        account,
        mailbox,
        mailboxes: snapshot.mailboxes(account)?,
        name: &name,
        source: &source,
        cache: ScriptCache::default(),
    };
    let (mut list, mut changes) = (Vec::with_capacity(page.len()), Vec::new());
    // After a full page there may be older emails. If there are none, the next step has no emails.
    let (mut bytes, mut last, mut has_more) = (0_u64, None, page.len() >= limit);
    for (id, _) in page {
        let Some(email) = snapshot.email(account, id)? else {
            // Listed, but missing: the store is damaged.
            last = Some(id);
            continue;
        };
        bytes = bytes.saturating_add(email.size);
        if last.is_some() && bytes > BYTES_PER_STEP {
            has_more = true;
            break;
        }
        context.budget.charge_read(email.size)?;
        let (row, change) = run.plan(id, &email)?;
        list.push(charge_row(context, row)?);
        changes.extend(change);
        last = Some(id);
    }
    let after = last.filter(|_| has_more).map(|id| id.to_string());
    let answer = StoredFilterAnswer { total: mailbox_row.counts.total_emails, after, list };
    Ok(PlannedStep { answer, mailbox, changes })
}

/// The runs of a script over the emails of one step.
struct ScriptRun<'a> {
    context: &'a Context,
    snapshot: &'a Snapshot<'a>,
    account: AccountId,
    /// The mailbox that is filtered.
    mailbox: MailboxUid,
    /// All mailboxes of the account.
    mailboxes: Vec<(MailboxUid, Mailbox)>,
    /// The name of the script; "" if the arguments contain the script.
    name: &'a str,
    source: &'a Arc<[u8]>,
    cache: ScriptCache,
}

impl ScriptRun<'_> {
    /// Runs the script over an email. Returns the row of the answer, and the change of the email.
    /// There is no change if the script leaves the email as it is, or fails.
    fn plan(
        &self,
        id: EmailId,
        email: &EmailMetadata,
    ) -> Result<(FilteredEmail, Option<PlannedChange>), MethodError> {
        let (prefix, content) = self.snapshot.content(self.account, id)?.unwrap_or_default();
        let raw = self.snapshot.raw_message(&email.blob)?;
        let header = Header::split(raw.as_deref().unwrap_or_default());
        let identity = self.context.directory.identity(self.account)?;
        let decision = self.snapshot.decision(self.account, id)?;
        let envelope = StoredEnvelope::of(decision.as_ref(), &prefix, &header, &identity);
        let request = FilterRequest {
            settings: &self.context.filter,
            snapshot: self.snapshot,
            account: self.account,
            identity: &identity,
            header: &header,
            envelope: &envelope.envelope,
            recipient: &envelope.recipient,
            hostname: &self.context.hostname,
            // Tests of the time have the results that they had when the message was delivered.
            now: email.received_at,
            is_stored: true,
            // Adds no limit to that of the site: edited versions are not stored here.
            max_versions: u16::MAX,
        };
        let run = || filter::run_alone(&self.cache, &request, self.name, self.source);
        let failed = |what: &str| FilterResult {
            error: Some((self.name.to_owned(), 0, what.to_owned())),
            ..FilterResult::default()
        };
        let result = match &raw {
            None => failed("the message cannot be read"),
            Some(_) => catch_parser_panic("a script", run)
                .unwrap_or_else(|| failed("the message cannot be parsed")),
        };
        let plan = StoredPlan::new(&result);
        let outcome = self.outcome(email, &plan, result.error.is_some());
        let from = content.from.into_iter();
        let error = result.error.map(|(_, line, message)| FilterFailure { line, message });
        let steps = result.steps.into_iter();
        let row = FilteredEmail {
            id: id.to_string(),
            received_at: email.received_at.rfc3339(),
            from: from.map(|EmailAddress { name, email }| NamedAddress { name, email }).collect(),
            subject: content.subject,
            outcome,
            mailboxes: plan.targets.iter().map(|target| self.path(target)).collect(),
            keywords: plan.keywords.difference(&email.keywords).cloned().collect(),
            left_out: plan.left_out.iter().map(|left| left.name().to_owned()).collect(),
            steps: steps
                .map(|step| FilterStepFacts {
                    script: step.script,
                    line: step.line,
                    action: step.action,
                })
                .collect(),
            error,
            sender: envelope.envelope.sender.as_ref().map(ToString::to_string),
            recipient: envelope.recipient.address.to_string(),
            envelope: envelope.origin,
            is_done: None,
        };
        let is_change = !matches!(outcome, FilterOutcome::None | FilterOutcome::Failed);
        let change = is_change.then_some(PlannedChange { id, seen: email.updated, plan });
        Ok((row, change))
    }

    /// Returns what becomes of an email. An email in Trash that a script discards stays there.
    fn outcome(&self, email: &EmailMetadata, plan: &StoredPlan, has_failed: bool) -> FilterOutcome {
        let is_there = |target: &StoreTarget| match target {
            // Never in a `StoredPlan`, which has `stays` in its place.
            StoreTarget::Inbox => true,
            StoreTarget::Mailbox(uid) => email.mailboxes.contains(uid),
            StoreTarget::Create { .. } => false,
        };
        if has_failed {
            FilterOutcome::Failed
        } else if plan.is_discarded() {
            let is_trash = |(uid, mailbox): &(MailboxUid, Mailbox)| {
                *uid == self.mailbox && mailbox.role == Some(Role::Trash)
            };
            match self.mailboxes.iter().any(is_trash) {
                true => FilterOutcome::None,
                false => FilterOutcome::Discard,
            }
        } else if !plan.stays && !plan.targets.contains(&StoreTarget::Mailbox(self.mailbox)) {
            FilterOutcome::Move
        } else if !plan.targets.iter().all(is_there) {
            FilterOutcome::Copy
        } else if !plan.keywords.is_subset(&email.keywords) {
            FilterOutcome::Flag
        } else {
            FilterOutcome::None
        }
    }

    /// Returns the path of a mailbox; its id if it does not exist.
    fn path(&self, target: &StoreTarget) -> String {
        match target {
            // Never in a `StoredPlan`, as in `outcome`.
            StoreTarget::Inbox => "Inbox".to_owned(),
            StoreTarget::Create { path, .. } => path.clone(),
            StoreTarget::Mailbox(uid) => {
                let found = self.mailboxes.iter().find(|(other, _)| other == uid);
                found.map_or_else(
                    || uid.to_string(),
                    |(_, mailbox)| mailboxes::path(&self.mailboxes, mailbox),
                )
            }
        }
    }
}

/// Changes an email as the plan says. Returns whether the email was changed.
///
/// - It stays unchanged if somebody changed or destroyed it since the script ran.
/// - It stays unchanged, too, if the plan has targets and none of them exists or can be created.
/// - If it would be in no mailbox, it goes to Trash, which is created if it is missing. It stays
///   unchanged if Trash cannot be created.
/// - It gets no new keyword if it would then have more than `limits::MAX_KEYWORDS`.
fn apply_change(
    txn: &mut Txn<'_>,
    mailbox: MailboxUid,
    change: &PlannedChange,
) -> Result<bool, Error> {
    let (account, plan) = (txn.account(), &change.plan);
    let Some(email) = txn.snapshot().email(account, change.id)? else { return Ok(false) };
    if email.updated != change.seen {
        return Ok(false);
    }
    let mut targets = BTreeSet::new();
    for target in &plan.targets {
        targets.extend(match target {
            // Never in a `StoredPlan`.
            StoreTarget::Inbox => None,
            StoreTarget::Mailbox(uid) => live_mailbox(txn, *uid)?,
            StoreTarget::Create { path, role } => txn.create_mailbox_path(path, *role)?,
        });
    }
    if targets.is_empty() && !plan.targets.is_empty() {
        return Ok(false);
    }
    let mut mailboxes: BTreeSet<MailboxUid> = email.mailboxes.union(&targets).copied().collect();
    if !plan.stays && !targets.contains(&mailbox) {
        mailboxes.remove(&mailbox);
    }
    if mailboxes.is_empty() {
        mailboxes.extend(txn.create_mailbox_path("Trash", Some(Role::Trash))?);
    }
    if mailboxes.is_empty() {
        return Ok(false);
    }
    let mut keywords: BTreeSet<String> = email.keywords.union(&plan.keywords).cloned().collect();
    if keywords.len() > limits::MAX_KEYWORDS {
        keywords = email.keywords;
    }
    txn.update_email(change.id, mailboxes, keywords)
}

fn live_mailbox(txn: &Txn<'_>, uid: MailboxUid) -> Result<Option<MailboxUid>, Error> {
    let found = txn.snapshot().mailbox(txn.account(), uid)?;
    Ok(found.filter(|mailbox| !mailbox.destroyed).map(|_| uid))
}

#[cfg(test)]
#[cfg(feature = "rocksdb")]
mod tests;
