//! Runs the scripts for one recipient, and turns their decisions into what the commit writes.

use super::Deliverer;
use super::context::{DeliveryContext, RecipientContext, nonce};
use super::job::{PlannedEmail, RecipientWork, ScriptWrites};
use super::rates::redirect_limits;
use super::version::EditedVersion;
use crate::filter::{
    AccountScripts, EditedMessage, FilterAction, FilterRequest, FilterResult, Keep, StoreTarget,
};
use crate::message::catch_parser_panic;
use crate::model::{AccountId, Address, BlobHash, DsnNotify, DsnReturn, FilterStep, Role, limits};
use crate::outbox::{NewAction, RedirectAction};
use crate::store::{Error, Snapshot};
use crate::vacation;

/// Who answers the sender.
pub(super) enum ScriptAnswer {
    /// The response of the account, if it is on.
    Response,
    /// A script, in place of the response. It answers an edited version of the message, if there
    /// is one here.
    Script(Box<vacation::Script>, Option<EditedMessage>),
    /// Nobody, for this reason.
    Nobody(&'static str),
}

impl Deliverer {
    /// Runs the scripts for a recipient, and plans what they decided. `kept_in` is where a message
    /// goes that scripts keep.
    pub(super) fn plan_scripts(
        &self,
        context: &DeliveryContext<'_>,
        scripts: &AccountScripts,
        owner: RecipientContext<'_>,
        kept_in: StoreTarget,
    ) -> (RecipientWork, ScriptAnswer) {
        let account = owner.target.account;
        let left = context.versions.left(context.header.raw().len());
        let run = |max_versions: u16| self.run_scripts(context, scripts, owner, max_versions);
        // A version that equals one of an earlier recipient takes no room, but only a run shows
        // whether it does. So the first run may make as many versions as have room, and in addition
        // as many as were made so far. If more are new than have room, the script is run again
        // with the room as its limit, and fails where it exceeds that.
        let mut result = run(left.saturating_add(context.versions.count()));
        if context.versions.count_new(edited_messages(&result)) > usize::from(left) {
            result = run(left);
        }
        if let Some((script, line, what)) = &result.error {
            tracing::warn!(
                %account,
                script,
                line,
                error = what,
                "a script failed: the message is kept"
            );
        }
        Planner { deliverer: self, context, owner, emails: Vec::new() }.plan(result, kept_in)
    }

    fn run_scripts(
        &self,
        context: &DeliveryContext<'_>,
        scripts: &AccountScripts,
        owner: RecipientContext<'_>,
        max_versions: u16,
    ) -> FilterResult {
        let request = FilterRequest {
            settings: &context.settings.filter,
            snapshot: owner.snapshot,
            account: owner.target.account,
            identity: owner.identity,
            header: context.header,
            envelope: context.envelope,
            recipient: owner.recipient,
            hostname: &context.settings.hostname,
            now: context.now,
            is_stored: false,
            max_versions,
        };
        let result = catch_parser_panic("a script", || scripts.run(&self.scripts, &request));
        result.unwrap_or_else(|| FilterResult {
            keep: Some(Keep::default()),
            error: Some((String::new(), 0, "the run panicked: this is a bug".into())),
            ..FilterResult::default()
        })
    }
}

/// Returns the versions of the message that scripts store, keep or send on.
fn edited_messages(result: &FilterResult) -> impl Iterator<Item = &EditedMessage> {
    let of_actions = result.actions.iter().filter_map(|action| match action {
        FilterAction::Store { message, .. } | FilterAction::Redirect { message, .. } => {
            message.as_ref()
        }
        _ => None,
    });
    of_actions.chain(result.keep.iter().filter_map(|keep| keep.message.as_ref()))
}

/// Plans what the scripts decided for one recipient. `emails` are those planned so far.
pub(super) struct Planner<'a> {
    pub(super) deliverer: &'a Deliverer,
    pub(super) context: &'a DeliveryContext<'a>,
    pub(super) owner: RecipientContext<'a>,
    pub(super) emails: Vec<PlannedEmail>,
}

impl Planner<'_> {
    fn plan(mut self, result: FilterResult, kept_in: StoreTarget) -> (RecipientWork, ScriptAnswer) {
        let mut writes = ScriptWrites {
            steps: result.steps,
            fired: result.fired,
            errors: result.error.into_iter().collect(),
            ..ScriptWrites::default()
        };
        add_failure(&mut writes);
        writes.errors.extend(result.redirect_loops);
        let (mut response, mut rejection) = (None, None);
        let has_redirect =
            result.actions.iter().any(|one| matches!(one, FilterAction::Redirect { .. }));
        let is_loop = has_redirect && self.was_here();
        let (mut keep, mut is_unsent, mut is_loop_reported) = (result.keep, false, false);
        for action in result.actions {
            match action {
                FilterAction::Store { to, keywords, message } => self.store(to, keywords, message),
                FilterAction::Redirect { to, notify, ret, message } => {
                    let why = match is_loop {
                        true => Some("the message was here before"),
                        false if !self.charge_redirect(&to, &mut writes) => {
                            Some("too many redirects in an hour")
                        }
                        false => None,
                    };
                    if let Some(why) = why {
                        is_unsent = true;
                        add_unsent(&mut writes, &to, why, is_loop && !is_loop_reported);
                        is_loop_reported |= is_loop;
                        continue;
                    }
                    let new = self.redirect(to, (notify, ret), message, &mut writes);
                    writes.add_action(new, None);
                }
                FilterAction::Reject { in_protocol, reason } => {
                    rejection = Some((in_protocol, reason));
                }
                FilterAction::Vacation { script, message } => response = Some((script, message)),
                FilterAction::Notify(notification) => self.notify(&notification, &mut writes),
                FilterAction::MarkDuplicate { hash, until } => {
                    writes.duplicates.push((hash, until));
                }
            }
        }
        // A message that is not sent on stays here, if nothing else became of it. A refusal says
        // to its sender what became of it (RFC 5429 §2.4).
        let is_lost = self.emails.is_empty() && !writes.has_redirect() && rejection.is_none();
        if is_unsent && is_lost {
            keep.get_or_insert_default();
        }
        if let Some(keep) = keep {
            self.store(kept_in, keep.keywords, keep.message);
        }
        let answer = match (response, rejection) {
            (_, Some((in_protocol, reason))) => {
                self.reject(in_protocol, &reason, &mut writes);
                ScriptAnswer::Nobody("a script refused the message")
            }
            (Some((script, message)), None) => ScriptAnswer::Script(script, message),
            (None, None) if self.emails.is_empty() && !writes.has_redirect() => {
                ScriptAnswer::Nobody("a script discarded the message")
            }
            (None, None) => ScriptAnswer::Response,
        };
        (RecipientWork { is_scripted: true, emails: self.emails, writes }, answer)
    }

    pub(super) fn version(&self, message: EditedMessage) -> std::rc::Rc<EditedVersion> {
        let secrets = self.deliverer.store.secrets();
        self.context.versions.add(message, self.context.thread_keys, secrets)
    }

    /// Whether the message was delivered to this address before, and came back.
    fn was_here(&self) -> bool {
        let own = self.owner.identity.canonical(&self.owner.target.address);
        self.context.header.fields().filter(|field| field.is("Delivered-To")).any(|field| {
            Address::parse(field.unfolded().trim())
                .is_ok_and(|address| self.owner.identity.canonical(&address) == own)
        })
    }

    /// Plans a redirect. The envelope sender stays, and the trace fields of this delivery go on top
    /// (RFC 5228 §4.2, §10); Delivered-To among them ends a loop (`was_here`). If the script says
    /// which reports are wanted, they are for the owner, who becomes the envelope sender in place
    /// of a sender other than `<>` (RFC 6009 §6.1).
    fn redirect(
        &self,
        to: Address,
        (notify, ret): (Option<DsnNotify>, Option<DsnReturn>),
        edited: Option<EditedMessage>,
        writes: &mut ScriptWrites,
    ) -> NewAction {
        let context = self.context;
        let message_id = context.header.first("Message-ID").map(|field| field.unfolded());
        let message_id = message_id.map(|id| id.trim().trim_matches(['<', '>']).to_owned());
        let blob = match edited.map(|message| self.version(message)) {
            Some(version) => {
                let blob: BlobHash = version.rows.blob;
                writes.versions.push(version);
                blob
            }
            None => context.blob,
        };
        let is_for_owner = notify.is_some() || ret.is_some();
        let own = || self.owner.target.address.clone();
        let sender = context.envelope.sender.clone();
        let redirect = RedirectAction {
            sender: sender.map(|sender| if is_for_owner { own() } else { sender }),
            recipients: vec![to],
            email: None,
            message_id: message_id.unwrap_or_else(|| self.own_id('f', writes)),
            prefix: without_return_path(self.owner.prefix).to_vec(),
            blob,
        };
        let NewAction { mut action, bytes } = redirect.into_action(context.now);
        for target in &mut action.recipients {
            target.notify = notify;
        }
        action.ret = ret;
        NewAction { action, bytes }
    }

    /// Charges a redirect to the rate of the account. Returns false if there were too many.
    fn charge_redirect(&self, to: &Address, writes: &mut ScriptWrites) -> bool {
        let (account, context) = (self.owner.target.account, self.context);
        let limits = redirect_limits(&context.settings.filter);
        let charged = self.deliverer.rates.lock().redirects.charge(
            context.monotonic_now,
            account,
            to.domain(),
            &limits,
        );
        match charged {
            Ok(charge) => writes.charges.redirects.push(charge),
            Err(why) => {
                tracing::warn!(%account, %to, why, "not redirected");
                return false;
            }
        }
        true
    }

    /// Charges a notification or a report that goes to `to`. Returns false if there were too many.
    pub(super) fn charge(&self, to: &Address, writes: &mut ScriptWrites) -> bool {
        let (account, context) = (self.owner.target.account, self.context);
        let limits = &context.settings.vacation.rate;
        let charged = self.deliverer.rates.lock().notifications.charge(
            context.monotonic_now,
            account,
            to.domain(),
            limits,
        );
        match charged {
            Ok(charge) => writes.charges.notifications.push(charge),
            Err(why) => {
                tracing::info!(%account, %to, why, "a script sends nothing: too much in an hour");
                return false;
            }
        }
        true
    }

    /// Returns a Message-ID for the next action. A retry of the delivery gets the same one.
    pub(super) fn own_id(&self, kind: char, writes: &ScriptWrites) -> String {
        let owner = &self.owner;
        let number = nonce(self.context.hash, owner.target.account, &owner.recipient.address);
        let index = writes.actions.len();
        format!("s{kind}{index}.{number:016x}@{}", self.context.settings.hostname)
    }
}

/// Writes a step, and if `is_error` also an error, which say that a redirect is not sent. Their
/// place is that of the step of the redirect.
fn add_unsent(writes: &mut ScriptWrites, to: &Address, why: &str, is_error: bool) {
    let (redirect, text) = (format!("redirect {to}"), format!("no redirect to {to}: {why}"));
    let found = writes.steps.iter().find(|step| step.action == redirect);
    let (script, line) =
        found.map_or_else(|| (String::new(), 0), |step| (step.script.clone(), step.line));
    if is_error {
        writes.errors.push((script.clone(), line, text.clone()));
    }
    add_step(writes, script, line, text);
}

/// Writes the error of a failed run as a step, so that the decision shows it.
fn add_failure(writes: &mut ScriptWrites) {
    if let Some((script, line, what)) = writes.errors.first().cloned() {
        writes.steps.truncate(limits::MAX_FILTER_STEPS - 1);
        add_step(writes, script, line, format!("failed: {what}"));
    }
}

/// Adds a step to the decision, unless it has as many as it may.
pub(super) fn add_step(writes: &mut ScriptWrites, script: String, line: u32, mut action: String) {
    if writes.steps.len() < limits::MAX_FILTER_STEPS {
        action.truncate(action.floor_char_boundary(limits::MAX_FILTER_STEP_BYTES));
        writes.steps.push(FilterStep { script, line, action });
    }
}

/// Whether all mailboxes in which the emails are stored are for junk, and there is any.
pub(super) fn is_junk(
    snapshot: &Snapshot<'_>,
    account: AccountId,
    emails: &[PlannedEmail],
) -> Result<bool, Error> {
    let mut targets = emails.iter().flat_map(|email| &email.targets).peekable();
    if targets.peek().is_none() {
        return Ok(false);
    }
    for target in targets {
        let role = match target {
            StoreTarget::Inbox => None,
            StoreTarget::Create { role, .. } => *role,
            StoreTarget::Mailbox(uid) => {
                snapshot.mailbox(account, *uid)?.and_then(|mailbox| mailbox.role)
            }
        };
        if role != Some(Role::Junk) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A message on its way has no Return-Path (RFC 5321 §4.4).
fn without_return_path(prefix: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'\n', prefix).map_or(0, |end| end.saturating_add(1));
    if prefix.starts_with(b"Return-Path:") { prefix.get(end..).unwrap_or_default() } else { prefix }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn return_path_is_removed() {
        assert_eq!(without_return_path(b"Return-Path: <a@b>\r\nX: 1\r\n"), b"X: 1\r\n");
        assert_eq!(without_return_path(b"X: 1\r\n"), b"X: 1\r\n");
    }
}
