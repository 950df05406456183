//! Sieve/dryRun and Sieve/apply: run a script over stored mail, a step at a time.
//!
//! - A step reads the next emails of a mailbox, newest first, and runs the script over each on one
//!   snapshot. Sieve/dryRun ends there.
//! - Sieve/apply then changes the emails of the step in one commit. An email that has changed since
//!   the snapshot is left alone. So a step that is repeated, also after a kill, changes nothing
//!   twice.
//! - Only the given script is run, without those of the site. Nothing is sent, no rule is counted,
//!   and the `duplicate` test remembers nothing.

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

const EMAILS_PER_STEP: usize = 64;
/// A step ends before the email with which its messages would have more bytes, but has at least
/// one.
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
            let change = |change: &PlannedChange| {
                Ok((change.id.to_string(), apply_change(txn, mailbox, change)?))
            };
            changes.iter().map(change).collect::<Result<BTreeMap<String, bool>, Error>>()
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
    answer: StoredFilterAnswer,
    mailbox: MailboxUid,
    changes: Vec<PlannedChange>,
}

/// What is to become of an email.
struct PlannedChange {
    id: EmailId,
    /// The last change of the email when the script ran.
    seen: ModSeq,
    plan: StoredPlan,
}

/// Returns the name by which steps name the script, and its source.
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

fn plan_step(
    context: &Context,
    account: AccountId,
    args: &StoredFilterArguments,
) -> Result<PlannedStep, MethodError> {
    let snapshot = context.store.snapshot();
    let (name, source) = script(context, &snapshot, account, args)?;
    let mailbox_name = args.mailbox.as_deref().unwrap_or("inbox");
    let (mailbox, row) = mailboxes::find(context, account, mailbox_name)?;
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
    let (mut bytes, mut last, mut is_cut) = (0_u64, None, page.len() >= limit);
    for (id, _) in page {
        let Some(email) = snapshot.email(account, id)? else {
            last = Some(id);
            continue;
        };
        bytes = bytes.saturating_add(email.size);
        if last.is_some() && bytes > BYTES_PER_STEP {
            is_cut = true;
            break;
        }
        context.budget.charge_read(email.size)?;
        let (row, change) = run.plan(id, &email)?;
        list.push(charge_row(context, row)?);
        changes.extend(change);
        last = Some(id);
    }
    let after = last.filter(|_| is_cut).map(|id| id.to_string());
    let answer = StoredFilterAnswer { total: row.counts.total_emails, after, list };
    Ok(PlannedStep { answer, mailbox, changes })
}

/// The runs of a script over the emails of one step.
struct ScriptRun<'a> {
    context: &'a Context,
    snapshot: &'a Snapshot<'a>,
    account: AccountId,
    /// The mailbox that is filtered.
    mailbox: MailboxUid,
    mailboxes: Vec<(MailboxUid, Mailbox)>,
    name: &'a str,
    source: &'a Arc<[u8]>,
    cache: ScriptCache,
}

impl ScriptRun<'_> {
    /// Runs the script over an email. Returns what to tell of it, and its change if there is one.
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
            // What the script would have done when the message came.
            now: email.received_at,
            is_stored: true,
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

    fn outcome(&self, email: &EmailMetadata, plan: &StoredPlan, has_failed: bool) -> FilterOutcome {
        let is_there = |target: &StoreTarget| match target {
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

    fn path(&self, target: &StoreTarget) -> String {
        match target {
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

/// Changes an email. Returns false, and changes nothing, if somebody else changed it since the
/// script ran, or if none of its mailboxes exists or can be created.
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
