//! Makes of what scripts decided what the commit of a delivery writes.

use super::Deliverer;
use super::context::{DeliveryContext, nonce};
use super::job::{EditedEmail, PlannedCopy, PlannedEmail, ScriptWrites};
use crate::account::ResolvedAddress;
use crate::filter::{
    self, EditedMessage, FilterAction, FilterRequest, FilterResult, Importance, Notification,
    StoreTarget,
};
use crate::message::compose::{self, Draft};
use crate::message::{catch_parser_panic, parse, rows_of_any};
use crate::model::{
    AccountId, ActionKind, Address, BlobHash, DsnNotify, EmailAddress, FilterStep, Identity,
    Recipient, Role,
};
use crate::outbox::dsn::compose_rejected;
use crate::outbox::mdn::compose_rejection;
use crate::outbox::{NewAction, NoticeAction, RedirectAction, Reporter};
use crate::store::{EncodedMessage, Error, Snapshot};
use crate::vacation;

/// The longest text of a refusal in the protocol.
const MAX_REFUSAL_BYTES: usize = 400;

/// What follows from the scripts for one account.
pub(super) struct ScriptPlan {
    pub(super) emails: Vec<PlannedEmail>,
    pub(super) writes: ScriptWrites,
    pub(super) answer: ScriptAnswer,
}

/// Who answers the sender.
pub(super) enum ScriptAnswer {
    /// The response of the account, if it is on.
    Response,
    /// A script, in place of the response.
    Script(Box<vacation::Script>),
    /// Nobody, for this reason.
    Nobody(&'static str),
}

/// One recipient, and what is known of the account.
#[derive(Clone, Copy)]
pub(super) struct ScriptOwner<'a> {
    pub(super) recipient: &'a Recipient,
    pub(super) target: &'a ResolvedAddress,
    pub(super) identity: &'a Identity,
    /// The trace prefix of the delivery.
    pub(super) prefix: &'a [u8],
}

impl Deliverer {
    /// Runs the scripts for an account, and plans what they decided. `kept_in` is where a message
    /// goes that no script files.
    pub(super) fn plan_scripts(
        &self,
        context: &DeliveryContext<'_>,
        snapshot: &Snapshot<'_>,
        owner: ScriptOwner<'_>,
        kept_in: StoreTarget,
    ) -> Result<ScriptPlan, Error> {
        let request = FilterRequest {
            settings: &context.settings.filter,
            snapshot,
            account: owner.target.account,
            identity: owner.identity,
            header: context.header,
            envelope: context.envelope,
            recipient: owner.recipient,
            hostname: &context.settings.hostname,
            now: context.now,
            is_stored: false,
        };
        let result = catch_parser_panic("a script", || filter::run(&self.scripts, &request));
        let Some(result) = result.flatten() else {
            return Ok(ScriptPlan {
                emails: vec![PlannedEmail::plain(kept_in)],
                writes: ScriptWrites::default(),
                answer: ScriptAnswer::Response,
            });
        };
        let is_new = snapshot.delivery(owner.target.account, context.hash)?.is_none();
        let mut plan = Planner { deliverer: self, context, owner, is_new, emails: Vec::new() };
        Ok(plan.plan(result, kept_in))
    }
}

struct Planner<'a> {
    deliverer: &'a Deliverer,
    context: &'a DeliveryContext<'a>,
    owner: ScriptOwner<'a>,
    /// Whether the transaction was not served before. A retry is not charged again.
    is_new: bool,
    emails: Vec<PlannedEmail>,
}

impl Planner<'_> {
    fn plan(&mut self, result: FilterResult, kept_in: StoreTarget) -> ScriptPlan {
        let mut writes = ScriptWrites {
            steps: result.steps,
            fired: result.fired,
            error: result.error,
            ..ScriptWrites::default()
        };
        let (mut response, mut rejection) = (None, None);
        let has_redirect =
            result.actions.iter().any(|one| matches!(one, FilterAction::Redirect { .. }));
        let is_loop = has_redirect && self.was_here();
        let mut keep = result.keep;
        for action in result.actions {
            match action {
                FilterAction::Store { to, keywords, message } => self.store(to, keywords, message),
                FilterAction::Redirect { to, .. } if is_loop => {
                    // The message came back: it stays here instead of going round.
                    keep = Some(keep.unwrap_or_default());
                    let action = format!("no redirect to {to}: the message was here before");
                    writes.steps.push(FilterStep { script: String::new(), line: 0, action });
                }
                FilterAction::Redirect { to, notify, ret, message } => {
                    let action = self.redirect(to, notify, message.as_ref());
                    let action = NewAction {
                        action: crate::model::Action { ret, ..action.action },
                        ..action
                    };
                    writes.actions.push(action);
                }
                FilterAction::Reject { in_protocol, reason } => {
                    rejection = Some((in_protocol, reason));
                }
                FilterAction::Vacation(script) => response = Some(script),
                FilterAction::Notify(notification) => self.notify(&notification, &mut writes),
                FilterAction::MarkDuplicate { hash, until } => {
                    writes.duplicates.push((hash, until));
                }
            }
        }
        if let Some(keep) = keep {
            self.store(kept_in, keep.keywords, keep.message);
        }
        let answer = match (response, rejection) {
            (_, Some((in_protocol, reason))) => {
                self.reject(in_protocol, &reason, &mut writes);
                ScriptAnswer::Nobody("a script refused the message")
            }
            (Some(script), None) => ScriptAnswer::Script(script),
            (None, None) if self.emails.is_empty() => {
                ScriptAnswer::Nobody("scripts stored the message nowhere")
            }
            (None, None) => ScriptAnswer::Response,
        };
        ScriptPlan { emails: std::mem::take(&mut self.emails), writes, answer }
    }

    /// Adds a mailbox and keywords to the email with this version of the message.
    fn store(
        &mut self,
        to: StoreTarget,
        keywords: std::collections::BTreeSet<String>,
        message: Option<EditedMessage>,
    ) {
        let is_same = |email: &&mut PlannedEmail| {
            email.edited.as_ref().map(|edited| &edited.message) == message.as_ref()
        };
        if let Some(email) = self.emails.iter_mut().find(is_same) {
            email.targets.insert(to);
            email.keywords.extend(keywords);
            return;
        }
        let secrets = self.deliverer.store.secrets();
        let edited = message.map(|message| {
            let mut rows = rows_of_any(&message.0, secrets);
            // Whatever was edited, the email stays in the thread of the message.
            for key in self.context.thread_keys {
                if !rows.thread_keys.contains(key) {
                    rows.thread_keys.push(*key);
                }
            }
            EditedEmail { rows: EncodedMessage::new(&rows), message }
        });
        self.emails.push(PlannedEmail { targets: [to].into(), keywords, edited });
    }

    /// Whether the message was delivered to this account before, and came back.
    fn was_here(&self) -> bool {
        let own = self.owner.identity.canonical(&self.owner.target.address);
        self.context.header.fields().filter(|field| field.is("Delivered-To")).any(|field| {
            Address::parse(field.unfolded().trim())
                .is_ok_and(|address| self.owner.identity.canonical(&address) == own)
        })
    }

    /// The envelope sender stays, and the trace fields of this delivery go on top (RFC 5228 §4.2,
    /// §10). Delivered-To ends a loop (`was_here`).
    fn redirect(
        &self,
        to: Address,
        notify: Option<DsnNotify>,
        edited: Option<&EditedMessage>,
    ) -> NewAction {
        let context = self.context;
        let message_id = context.header.first("Message-ID").map(|field| field.unfolded());
        let message_id = message_id.map(|id| id.trim().trim_matches(['<', '>']).to_owned());
        let redirect = RedirectAction {
            sender: context.envelope.sender.clone(),
            recipients: vec![to],
            email: None,
            message_id: message_id.unwrap_or_else(|| self.own_id('f')),
            prefix: without_return_path(self.owner.prefix).to_vec(),
            blob: match edited {
                Some(edited) => BlobHash(*blake3::hash(&edited.0).as_bytes()),
                None => context.blob,
            },
        };
        let NewAction { mut action, mut bytes } = redirect.into_action(context.now);
        for target in &mut action.recipients {
            target.notify = notify;
        }
        if let Some(edited) = edited {
            bytes.extend_from_slice(&edited.0);
            action.blob = None;
        }
        NewAction { action, bytes }
    }

    /// Refuses the message in the protocol if nothing else became of it. Otherwise a report goes to
    /// the sender: as a person reads it for `reject`, or as servers read it for `ereject` (RFC 5429
    /// §2.1, §2.2). A reason that the protocol cannot carry makes a report of `reject`, and is left
    /// out by `ereject`.
    fn reject(&self, in_protocol: bool, reason: &str, writes: &mut ScriptWrites) {
        let is_sent_on = writes.actions.iter().any(|one| one.action.kind == ActionKind::Redirect);
        let is_first = self.emails.is_empty() && !is_sent_on;
        if is_first && (in_protocol || reason.is_ascii()) {
            writes.refusal = Some(refusal_text(reason));
            return;
        }
        let context = self.context;
        let (Some(sender), None) = (&context.envelope.sender, &context.envelope.forged) else {
            return;
        };
        if !self.charge(sender, writes) {
            return;
        }
        let id = self.own_id('j');
        let hostname = &context.settings.hostname;
        let reporter = Reporter { hostname, message_id: &id, now: context.now };
        let (envelope, recipient, raw) =
            (context.envelope, self.owner.recipient, context.header.raw());
        writes.actions.extend(if in_protocol {
            compose_rejected(envelope, recipient, reason, raw, None, &reporter)
        } else {
            let own = &recipient.address;
            compose_rejection(envelope, recipient, own, reason, raw, None, &reporter)
        });
    }

    /// Notifies by mail (RFC 5436), and keeps the copy that `:fcc` wants (RFC 8580). A notification
    /// of a notification would not end (§2.7).
    fn notify(&self, notification: &Notification, writes: &mut ScriptWrites) {
        let context = self.context;
        let is_notification = context.header.first("Auto-Submitted").is_some_and(|field| {
            field.without_comments().trim().to_ascii_lowercase().starts_with("auto-notified")
        });
        if is_notification {
            return;
        }
        let identity = self.owner.identity;
        let own = EmailAddress {
            name: identity.name.clone(),
            email: self.owner.target.address.to_string(),
        };
        let given = notification.from.as_deref().and_then(|from| {
            let from = parse::addresses(from.as_bytes()).into_iter().next()?;
            Address::parse(&from.email).ok().filter(|one| identity.is_me(one)).map(|_| from)
        });
        let from = given.unwrap_or(own);
        let subject = || {
            let subject = context.header.first("Subject").map(|field| field.decoded());
            format!("New message: {}", subject.unwrap_or_default())
        };
        let importance = match notification.importance {
            Importance::High => Some(("Importance", "high".into())),
            Importance::Normal => None,
            Importance::Low => Some(("Importance", "low".into())),
        };
        let owner = identity.primary.to_string();
        let automatic = match owner.is_ascii() {
            true => format!("auto-notified; owner-email=\"{}\"", owner.replace('"', "\\\"")),
            false => "auto-notified".to_owned(),
        };
        let mut fcc = notification.fcc.clone();
        for (number, to) in notification.to.iter().enumerate() {
            if !self.charge(to, writes) {
                continue;
            }
            let kind = char::from(b'a'.saturating_add(u8::try_from(number).unwrap_or(25).min(25)));
            let message_id = self.own_id(kind);
            let fields = [("Auto-Submitted", automatic.clone().into())];
            let message = compose::build(&Draft {
                from: from.clone(),
                to: EmailAddress { name: None, email: to.to_string() },
                subject: notification.subject.clone().unwrap_or_else(subject),
                date: context.now,
                message_id: message_id.clone(),
                fields: fields.into_iter().chain(importance.clone()).collect(),
                text: notification.text.clone().unwrap_or_else(subject),
                ..Draft::default()
            });
            // One copy, however many are notified.
            if let Some(fcc) = fcc.take() {
                let rows = self.deliverer.encode_copy(&message, &[]);
                writes.copies.push(PlannedCopy { message: message.clone(), rows, fcc });
            }
            let notice = NoticeAction {
                kind: ActionKind::Notify,
                recipient: to.clone(),
                email: None,
                message_id,
                message,
                about: None,
            };
            writes.actions.push(notice.into_action(context.now));
        }
    }

    /// Charges a message to somebody to the rate. Returns false if there were too many.
    fn charge(&self, to: &Address, writes: &mut ScriptWrites) -> bool {
        if !self.is_new {
            return true;
        }
        let (account, context) = (self.owner.target.account, self.context);
        let limits = &context.settings.vacation.rate;
        let charged = self.deliverer.rates.lock().notifications.charge(
            context.monotonic_now,
            account,
            to.domain(),
            limits,
        );
        match charged {
            Ok(charge) => writes.charges.push(charge),
            Err(why) => {
                tracing::info!(%account, %to, why, "a script sends nothing: too much in an hour");
                return false;
            }
        }
        true
    }

    /// Returns a Message-ID that a retry of the delivery gives again.
    fn own_id(&self, kind: char) -> String {
        let number = nonce(self.context.hash, self.owner.target.account);
        format!("s{kind}.{number:016x}@{}", self.context.settings.hostname)
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

/// Returns a reason as one line of ASCII.
fn refusal_text(reason: &str) -> String {
    let text = crate::message::line::one_line(reason);
    let text = text.trim();
    if text.is_empty() || !text.is_ascii() {
        return "the recipient refuses this message".to_owned();
    }
    text.get(..MAX_REFUSAL_BYTES).unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn return_path_is_removed_and_refusals_are_lines() {
        assert_eq!(without_return_path(b"Return-Path: <a@b>\r\nX: 1\r\n"), b"X: 1\r\n");
        assert_eq!(without_return_path(b"X: 1\r\n"), b"X: 1\r\n");
        assert_eq!(refusal_text("no\r\n250 ok "), "no 250 ok");
        assert_eq!(refusal_text("\u{fc}"), "the recipient refuses this message");
        assert_eq!(refusal_text(&"x".repeat(999)).len(), MAX_REFUSAL_BYTES);
    }
}
