//! Plans the notifications by mail that scripts ask for (RFC 5435, RFC 5436).
//!
//! - A message that says in Auto-Submitted that a program sent it causes none, so that there is no
//!   loop (RFC 5436 §2.7). For this the header counts as it was received; what is shown of the
//!   message is read from the header as edited (RFC 5293 §7).
//! - The subject is the text of `:message`, or else that of the URI, or else that of the message.
//! - The body is that of the URI, or else the text of `:message`, or else names From and Subject of
//!   the message. With `:message` and a body of the URI nothing of the message is shown.
//! - A step of the decision says why a notification is not sent.

use super::job::{PlannedCopy, ScriptWrites};
use super::scripts::{Planner, add_step};
use crate::filter::{Importance, Notification};
use crate::message::auto::auto_submitted;
use crate::message::compose::{self, Draft};
use crate::message::header::Header;
use crate::message::parse;
use crate::message::words::cut;
use crate::model::{ActionKind, Address, EmailAddress};
use crate::outbox::NoticeAction;

/// The context of the key of `Planner::owner_token`.
const OWNER_TOKEN: &str = "restante 2026 owner-token of notifications";
/// The subject, or the body, of a notification about a message that lacks what it would show.
const NEW_MESSAGE: &str = "New message";
/// Longer values of header fields are cut in a notification, and so is a longer subject.
const MAX_VALUE_BYTES: usize = 1000;
/// A longer body, from the URI or `:message`, is cut (RFC 5436 §2.6): a script could repeat the
/// message in it.
const MAX_TEXT_BYTES: usize = 16 << 10;

impl Planner<'_> {
    /// Plans a notification, with the copy that `:fcc` asks for (RFC 8580).
    pub(super) fn notify(&self, notification: &Notification, writes: &mut ScriptWrites) {
        let context = self.context;
        if let Some(evidence) = auto_submitted(context.header) {
            let why = format!("no notification: the message is automatic ({evidence})");
            add_step(writes, String::new(), 0, why);
            return;
        }
        let edited = notification.message.as_ref().map(|message| Header::split(&message.0));
        let header = edited.as_ref().unwrap_or(context.header);
        let subject = match &notification.subject {
            Some(subject) => cut(subject, MAX_VALUE_BYTES).to_owned(),
            None => shown(header, "Subject").unwrap_or_else(|| NEW_MESSAGE.to_owned()),
        };
        let text = match &notification.text {
            Some(text) => cut(text, MAX_TEXT_BYTES).to_owned(),
            None => default_text(header),
        };
        let from = self.author(notification);
        let importance = match notification.importance {
            Importance::High => Some(("Importance", "high".into())),
            Importance::Normal => None,
            Importance::Low => Some(("Importance", "low".into())),
        };
        let fields = [("Auto-Submitted", self.auto_notified().into())];
        let fields: Vec<_> = fields.into_iter().chain(importance).collect();
        let mut fcc = notification.fcc.clone();
        for to in &notification.to {
            if !self.charge(to, writes) {
                let why = format!("no notification to {to}: too many in an hour");
                add_step(writes, String::new(), 0, why);
                continue;
            }
            let message_id = self.own_id('n', writes);
            // If the message has several recipients in the account, an equal notification to `to`
            // is queued once for all of them.
            let mut about = blake3::Hasher::new_keyed(context.hash);
            about.update(&(subject.len() as u64).to_be_bytes());
            about.update(subject.as_bytes()).update(text.as_bytes());
            let message = compose::build(&Draft {
                from: from.clone(),
                to: EmailAddress { name: None, email: to.to_string() },
                subject: subject.clone(),
                date: context.now,
                message_id: message_id.clone(),
                fields: fields.clone(),
                text: text.clone(),
                ..Draft::default()
            });
            // One copy, however many are notified.
            let copy = fcc.take().map(|fcc| {
                let rows = self.deliverer.encode_copy(&message, &[]);
                PlannedCopy { message: message.clone(), rows, fcc }
            });
            let notice = NoticeAction {
                kind: ActionKind::Notify,
                recipient: to.clone(),
                email: None,
                message_id,
                message,
                about: Some(about.finalize().as_bytes().to_vec()),
            };
            writes.add_action(notice.into_action(context.now), copy);
        }
    }

    /// Returns name and address of `:from` if the address is the owner's, or else those of the
    /// recipient.
    fn author(&self, notification: &Notification) -> EmailAddress {
        let identity = self.owner.identity;
        let given = notification.from.as_deref().and_then(|from| {
            let from = parse::addresses(from.as_bytes()).into_iter().next()?;
            Address::parse(&from.email).ok().filter(|one| identity.is_me(one)).map(|_| from)
        });
        given.unwrap_or_else(|| EmailAddress {
            name: identity.name.clone(),
            email: self.owner.target.address.to_string(),
        })
    }

    /// Returns the value of Auto-Submitted, which names the owner of the script (RFC 5436 §2.7.1).
    fn auto_notified(&self) -> String {
        let owner = self.owner.identity.primary.to_string();
        match owner.is_ascii() {
            true => format!("auto-notified; owner-email=\"{}\"", owner.replace('"', "\\\"")),
            // A token takes the place of an address that cannot be written.
            false => format!("auto-notified; owner-token={}", self.owner_token()),
        }
    }

    /// Returns the token by which the site finds the owner of the script (RFC 5436 §2.7.1), the
    /// same one in all notifications: the id of the account, and a keyed hash of it, which nobody
    /// else can make.
    fn owner_token(&self) -> String {
        let account = self.owner.target.account;
        let key = blake3::derive_key(OWNER_TOKEN, &self.deliverer.store.secrets().told);
        let hash = blake3::keyed_hash(&key, &account.0.to_be_bytes()).to_hex();
        format!("{account}-{}", hash.get(..16).unwrap_or_default())
    }
}

/// Returns the beginning of a field, as people read it. `None` if the field is missing or empty.
fn shown(header: &Header<'_>, name: &str) -> Option<String> {
    let value = header.first(name)?.decoded();
    (!value.is_empty()).then(|| cut(&value, MAX_VALUE_BYTES).to_owned())
}

/// Returns the body of a notification for which neither the URI nor `:message` gives one: From and
/// Subject of the message (RFC 5435 §3.6).
fn default_text(header: &Header<'_>) -> String {
    let line = |name| Some(format!("{name}: {}\n", shown(header, name)?));
    let lines: String = ["From", "Subject"].into_iter().filter_map(line).collect();
    if lines.is_empty() { NEW_MESSAGE.to_owned() } else { lines }
}
