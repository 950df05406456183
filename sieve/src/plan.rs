//! What a run decides: actions as data.
//!
//! - The host carries out the whole plan in one transaction, or nothing of it.
//! - Mailboxes are resolved: a target is the Inbox, a mailbox that exists, or one to create.
//! - No two stores go to one mailbox. If a script stores several times into one, the flags and the
//!   version of the last time count (RFC 5232 §3), also if the message was edited in between (RFC
//!   5293 §7).
//! - A plan has at most one of these: a vacation response, a refusal. With a refusal it has no
//!   store and no redirect (RFC 5429 §2.4).
//! - The plan of a failed run is [`Plan::keep_only`].

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::address::AddressSpec;
use crate::flag::FlagSet;
use crate::ir::{DeliverByMode, DsnNotify, DsnReturn, Importance, RejectKind};
use crate::vacation::{Period, VacationHandle};

/// The decisions of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// In the order in which the script took them. A later store into the same mailbox changes the
    /// earlier one in its place. Every `MarkDuplicate` comes last.
    pub actions: Vec<Action>,
    /// The implicit keep (RFC 5228 §2.10.2): the message is stored in the Inbox. `None` if an
    /// action stores into the Inbox already, or if an action cancelled the implicit keep; but a
    /// message that is not redirected, because it goes round in a loop, is kept unless an action
    /// stores it. An explicit `keep` is an action.
    pub implicit_keep: Option<ImplicitKeep>,
    /// The edited versions of the message that actions and the implicit keep use.
    pub versions: Vec<MessageEdits>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImplicitKeep {
    pub flags: FlagSet,
    pub message: Version,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Stores the message.
    Store {
        to: Target,
        flags: FlagSet,
        message: Version,
    },
    Redirect(RedirectIntent),
    /// Refuses the message (RFC 5429). A notification of the refusal is about the message as it was
    /// received, without edits.
    Reject {
        kind: RejectKind,
        reason: String,
    },
    /// The script ran `discard`, which cancelled the implicit keep. There is nothing to do: the
    /// action shows the owner what the script did.
    Discard,
    Vacation(Box<VacationIntent>),
    Notify(Box<NotifyIntent>),
    /// Records a message for the `duplicate` test until a time (RFC 7352 §3).
    MarkDuplicate {
        key: DupKey,
        until: Timestamp,
    },
}

/// Where a message is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    Inbox,
    /// A mailbox that the host named by [`MailboxRef::id`](crate::MailboxRef::id). If it is gone
    /// when the plan is carried out, the Inbox takes its place.
    Mailbox {
        id: String,
        name: String,
    },
    /// A mailbox to create (RFC 5490 §3.2), with a special use if the script gave one (RFC 8579
    /// §4.1). If it exists when the plan is carried out, it is used.
    Create {
        name: String,
        special_use: Option<String>,
    },
}

/// Which version of the message an action uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Version {
    /// The message as received.
    #[default]
    Original,
    /// An index into [`Plan::versions`].
    Edited(u16),
}

/// How a version differs from the message as received. The edits of parts and of the header are
/// independent of each other.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageEdits {
    pub parts: Vec<PartReplacement>,
    pub header: HeaderEdits,
    /// If it is there, the version is a new message, and the message with the edits of `parts` and
    /// `header` is its attachment.
    pub enclosure: Option<Box<Enclosure>>,
}

/// The changes of a header (RFC 5293). The new header is `prepended`, then the fields of the old
/// one that are not `deleted`, then `appended`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderEdits {
    /// In the order in which they stand in the header: the field added last comes first.
    pub prepended: Vec<HeaderField>,
    /// Positions among all fields of the header as received, from 0, ascending.
    pub deleted: Vec<u32>,
    /// In the order in which they stand in the header.
    pub appended: Vec<HeaderField>,
}

impl HeaderEdits {
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.prepended.is_empty() && self.deleted.is_empty() && self.appended.is_empty()
    }
}

/// A new field. The value is one line without control characters. The host folds it and encodes
/// what is not ASCII (RFC 2047). Encoded words that the value contains already stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderField {
    pub name: String,
    pub value: String,
}

/// A part with new content (RFC 5703 §5). The host writes the MIME fields of the new content in
/// place of those of the old part. If the part is the message itself, [`MessageEdits::header`]
/// deletes its old MIME fields, and adds the fields that `:subject` and `:from` make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartReplacement {
    /// A [`PartId`](crate::PartId); 0 is the message. The parts inside it are gone.
    pub part: u32,
    /// `:mime`: the content is a MIME entity with header fields. Otherwise it is plain text.
    pub mime: bool,
    pub content: String,
}

/// A new `multipart/mixed` message with a text and the message as an attachment (RFC 5703 §6). The
/// host writes its MIME fields, and its Date and From if [`Self::then`] adds none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Enclosure {
    pub text: String,
    /// The edits of the new message. They add its Subject and the fields that `:headers` names, but
    /// for MIME fields, and what the script added after `enclose`. They delete no field, since the
    /// new message has none before. They replace at most part 0, which is the new message.
    pub then: MessageEdits,
}

/// A message to send on (RFC 5228 §4.2). The sender of the envelope stays; the null sender stays
/// null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedirectIntent {
    pub to: RedirectTarget,
    /// Whether the script gave `:copy`. It only serves to show what the script did. Whether the
    /// message is kept too, the other actions and the implicit keep say.
    pub copy: bool,
    /// `None` if the script does not say when the sender is notified.
    pub notify: Option<DsnNotify>,
    /// `None` if the script does not say how much of the message is returned.
    pub ret: Option<DsnReturn>,
    /// `None` if the script names no deadline.
    pub deliver_by: Option<DeliverByIntent>,
    /// Without an enclosure (RFC 5703 §6).
    pub message: Version,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RedirectTarget {
    Address(AddressSpec),
    /// The addresses of the external list with this URI, which the host looks up (RFC 6134 §2.3).
    List(String),
}

/// Parameters of Deliver By (RFC 2852).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliverByIntent {
    pub deadline: Timestamp,
    pub mode: DeliverByMode,
    /// Whether servers on the way shall report the message (`:bytrace`).
    pub trace: bool,
}

/// A vacation response that the script asks for (RFC 5230). The host decides whether it is sent:
/// it knows who was answered, and which messages are never answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VacationIntent {
    pub handle: VacationHandle,
    /// The text of `:handle` as written, `None` without `:handle`.
    pub handle_name: Option<String>,
    pub period: Period,
    /// `None` without `:subject`: the host makes one from the Subject of the message.
    pub subject: Option<String>,
    /// The mailbox of `:from` as written, which may have a display name and encoded words. `None`
    /// if the script gives none, or a text that is no mailbox. The host checks that the owner may
    /// use it.
    pub from: Option<String>,
    /// The mailboxes of `:addresses`, in the form of `from`. Texts that are no mailbox are left
    /// out.
    pub addresses: Vec<String>,
    pub body: VacationBody,
    pub fcc: Option<FccIntent>,
    /// The message that is answered, as it was edited when the action was executed (RFC 5293 §7),
    /// without an enclosure.
    pub message: Version,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VacationBody {
    Text(String),
    /// A MIME entity: header fields, an empty line, and content (RFC 5230 §4.4).
    Mime(String),
}

/// A notification (RFC 5435).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotifyIntent {
    /// The URI of the method.
    pub method: String,
    /// The mailbox of `:from` as written. `None` if the script gives none, or a text that is no
    /// mailbox.
    pub from: Option<String>,
    pub importance: Importance,
    /// Names and values.
    pub options: Vec<(String, String)>,
    /// The text of `:message`. `None` without it: the host writes one.
    pub message: Option<String>,
    pub fcc: Option<FccIntent>,
    /// The message that the notification is about, as it was edited when the action was executed
    /// (RFC 5293 §7), without an enclosure.
    pub version: Version,
}

/// Where a copy of a sent message is stored (RFC 8580).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FccIntent {
    pub to: Target,
    pub flags: FlagSet,
}

/// Identifies a message in the records of the `duplicate` test (RFC 7352): a hash over the handle
/// and the value. Whether the value comes from a header field or from `:uniqueid` does not count
/// (RFC 7352 §3.2).
///
/// Serialised as 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DupKey(String);

impl DupKey {
    /// Returns the key of a value. The case of letters in handle and value counts. `handle` is
    /// `None` for a test without `:handle`, which differs from one with an empty handle.
    #[must_use]
    pub fn new(handle: Option<&str>, value: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("restante-sieve 2026-11 duplicate key");
        hasher.update(&[u8::from(handle.is_some())]);
        for field in [handle.unwrap_or_default(), value] {
            hasher.update(&(field.len() as u64).to_be_bytes());
            hasher.update(field.as_bytes());
        }
        Self(hasher.finalize().to_hex().to_string())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Plan {
    /// Returns the plan that only keeps the message, without flags: that of a failed run.
    #[must_use]
    pub fn keep_only() -> Self {
        Self { implicit_keep: Some(ImplicitKeep::default()), ..Self::default() }
    }

    /// Returns whether the message is stored somewhere.
    #[must_use]
    pub fn stores(&self) -> bool {
        let is_store = |action: &Action| matches!(action, Action::Store { .. });
        self.implicit_keep.is_some() || self.actions.iter().any(is_store)
    }

    /// Returns which laws of the module's documentation the plan breaks, and whether it uses a
    /// version that does not exist, for tests. A plan of the engine breaks none.
    #[must_use]
    pub fn violations(&self) -> Vec<&'static str> {
        let mut broken = Vec::new();
        let mut stores: Vec<&Target> = self.implicit_keep.iter().map(|_| &Target::Inbox).collect();
        let mut answers = 0_usize;
        let mut is_refused = false;
        let mut deliveries = usize::from(self.implicit_keep.is_some());
        let mut used_versions = Vec::new();
        for action in &self.actions {
            match action {
                Action::Store { to, message, .. } => {
                    deliveries += 1;
                    used_versions.push(*message);
                    if stores.contains(&to) {
                        broken.push("two stores go to one mailbox");
                    }
                    stores.push(to);
                }
                Action::Redirect(redirect) => {
                    deliveries += 1;
                    used_versions.push(redirect.message);
                }
                Action::Vacation(vacation) => {
                    answers += 1;
                    used_versions.push(vacation.message);
                }
                Action::Reject { .. } => {
                    answers += 1;
                    is_refused = true;
                }
                Action::Notify(notify) => used_versions.push(notify.version),
                Action::Discard | Action::MarkDuplicate { .. } => {}
            }
        }
        used_versions.extend(self.implicit_keep.iter().map(|keep| keep.message));
        let exists = |version: &Version| match version {
            Version::Original => true,
            Version::Edited(index) => usize::from(*index) < self.versions.len(),
        };
        if answers > 1 {
            broken.push("more than one response or refusal");
        }
        if is_refused && deliveries > 0 {
            broken.push("a refusal beside a delivery");
        }
        if !used_versions.iter().all(exists) {
            broken.push("a version that does not exist");
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(to: Target) -> Action {
        Action::Store { to, flags: FlagSet::new(), message: Version::Original }
    }

    #[test]
    fn keys_separate_handle_and_value() {
        let keys = [
            DupKey::new(None, "<a@b>"),
            DupKey::new(None, "<A@b>"),
            DupKey::new(Some(""), "<a@b>"),
            DupKey::new(Some("<a@b>"), ""),
            DupKey::new(Some("h"), "<a@b>"),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{index}");
        }
        assert_eq!(keys[0].as_str().len(), 64);
    }

    #[test]
    fn broken_laws_are_found() {
        assert!(Plan::keep_only().violations().is_empty() && Plan::keep_only().stores());
        let reject = Action::Reject { kind: RejectKind::Reject, reason: "no".into() };
        let mut plan = Plan { actions: vec![reject.clone()], ..Plan::default() };
        assert!(plan.violations().is_empty() && !plan.stores());
        plan.actions.push(store(Target::Inbox));
        assert_eq!(plan.violations(), ["a refusal beside a delivery"]);
        plan.actions = vec![reject.clone(), reject];
        assert_eq!(plan.violations(), ["more than one response or refusal"]);
        plan = Plan { actions: vec![store(Target::Inbox)], ..Plan::keep_only() };
        assert_eq!(plan.violations(), ["two stores go to one mailbox"]);
        plan = Plan::keep_only();
        plan.implicit_keep =
            Some(ImplicitKeep { message: Version::Edited(0), ..Default::default() });
        assert_eq!(plan.violations(), ["a version that does not exist"]);
    }

    #[test]
    fn a_plan_is_readable_json_and_is_read_back() {
        let mut plan = Plan::keep_only();
        plan.actions = vec![
            store(Target::Create { name: "Lists".into(), special_use: None }),
            Action::Redirect(RedirectIntent {
                to: RedirectTarget::Address(AddressSpec::parse("a@example.org").unwrap()),
                copy: true,
                notify: Some(DsnNotify::Never),
                ret: None,
                deliver_by: None,
                message: Version::Edited(0),
            }),
            Action::MarkDuplicate { key: DupKey::new(None, "x"), until: Timestamp::UNIX_EPOCH },
        ];
        plan.versions.push(MessageEdits {
            header: HeaderEdits { deleted: vec![3], ..HeaderEdits::default() },
            ..MessageEdits::default()
        });
        assert!(plan.violations().is_empty());
        let value = serde_json::to_value(&plan).unwrap();
        assert_eq!(value["actions"][0]["store"]["to"]["create"]["name"], "Lists");
        assert_eq!(value["actions"][1]["redirect"]["to"]["address"], "a@example.org");
        assert_eq!(value["actions"][1]["redirect"]["message"]["edited"], 0);
        assert_eq!(value["implicitKeep"]["message"], "original");
        assert_eq!(serde_json::from_value::<Plan>(value).unwrap(), plan);
    }
}
