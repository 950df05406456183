//! What a run decides: actions as data.
//!
//! - The host carries out the whole plan in one transaction, or nothing of it.
//! - Mailboxes are resolved: a target is the Inbox, a mailbox that exists, or one to create.
//! - No two stores go to one mailbox: of several, the flags and the version of the last one count
//!   (RFC 5232 §3), also if the message was edited between them (RFC 5293 §7).
//! - A plan has at most one response or refusal, and a refusal stands beside no store and no
//!   redirect (RFC 5429 §2.4).
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
    /// In the order in which the script took them.
    pub actions: Vec<Action>,
    /// The implicit keep (RFC 5228 §2.10.2), if nothing cancelled it: the message is stored in the
    /// Inbox. An explicit keep is an action.
    pub implicit_keep: Option<ImplicitKeep>,
    /// The edited versions of the message that actions name.
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
    /// Refuses the message (RFC 5429). It answers the message as it was received.
    Reject {
        kind: RejectKind,
        reason: String,
    },
    /// Discards the message. It has no effect; it says why nothing else happens.
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
    /// §5). If it exists by then, it is used.
    Create {
        name: String,
        special_use: Option<String>,
    },
}

/// Which version of the message an action uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Version {
    #[default]
    Original,
    /// An index into [`Plan::versions`].
    Edited(u16),
}

/// How a version differs from the message as received. The header and the parts do not depend on
/// each other; the enclosure contains the message with both.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageEdits {
    pub parts: Vec<PartReplacement>,
    pub header: HeaderEdits,
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

/// A new field. The value is one line without controls. The host folds it, and encodes what is not
/// ASCII (RFC 2047); encoded words that it contains already stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderField {
    pub name: String,
    pub value: String,
}

/// A part with new content (RFC 5703 §5). The host writes the MIME fields of the content; those of
/// the old part are gone. Of the message, the header edits delete them and hold the fields that
/// `:subject` and `:from` make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartReplacement {
    /// A [`PartId`](crate::PartId); 0 is the message. Parts inside it are gone.
    pub part: u32,
    /// `:mime`: the content is a MIME entity with header fields. Otherwise it is plain text.
    pub mime: bool,
    pub content: String,
}

/// A new `multipart/mixed` message with a text and the message as an attachment (RFC 5703 §6). The
/// host writes its MIME fields, and Date and From if `then` adds none. Its Subject and the fields
/// that `:headers` names are among those that `then` adds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Enclosure {
    pub text: String,
    /// The header of the new message, and what was done to it afterwards. `deleted` is empty. Of
    /// its parts only part 0, the new message, can be replaced.
    pub then: MessageEdits,
}

/// A message to send on (RFC 5228 §4.2). The sender of the envelope stays; the null sender stays
/// null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedirectIntent {
    pub to: RedirectTarget,
    /// `:copy`. For receipts: the plan says already what else happens.
    pub copy: bool,
    pub notify: Option<DsnNotify>,
    pub ret: Option<DsnReturn>,
    pub deliver_by: Option<DeliverByIntent>,
    pub message: Version,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RedirectTarget {
    Address(AddressSpec),
    /// The addresses of an external list (RFC 6134 §2.3), which the host looks up.
    List(String),
}

/// Parameters of Deliver By (RFC 2852).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliverByIntent {
    pub deadline: Timestamp,
    pub mode: DeliverByMode,
    pub trace: bool,
}

/// A vacation response that the script asks for (RFC 5230). The host decides whether it is sent:
/// it knows who was answered, and which messages are never answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VacationIntent {
    pub handle: VacationHandle,
    /// The text of `:handle` as written.
    pub handle_name: Option<String>,
    pub period: Period,
    /// Without one, the host makes it from the Subject of the message.
    pub subject: Option<String>,
    /// A mailbox as written, which may have a display name and encoded words. The host checks that
    /// the owner may use it.
    pub from: Option<String>,
    /// As `from`. A text that is no address is to be ignored.
    pub addresses: Vec<String>,
    pub body: VacationBody,
    pub fcc: Option<FccIntent>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VacationBody {
    Text(String),
    /// A MIME entity: header fields, an empty line, and content (RFC 5230 §4.8).
    Mime(String),
}

/// A notification (RFC 5435).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotifyIntent {
    /// The URI of the method.
    pub method: String,
    pub from: Option<String>,
    pub importance: Importance,
    /// Names and values.
    pub options: Vec<(String, String)>,
    pub message: Option<String>,
    pub fcc: Option<FccIntent>,
}

/// Where a copy of a sent message is stored (RFC 8580).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FccIntent {
    pub to: Target,
    pub flags: FlagSet,
}

/// Identifies a message in the records of the `duplicate` test (RFC 7352): a hash over the handle
/// and the value. Where the value comes from does not count (RFC 7352 §3.2).
///
/// Serialised as hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DupKey(String);

impl DupKey {
    /// Returns the key of a value. Both are compared with regard to case. A test without `:handle`
    /// has none, which is not the empty one.
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

    /// Returns the broken laws of a plan, for tests: none for a plan of the engine.
    #[must_use]
    pub fn violations(&self) -> Vec<&'static str> {
        let mut broken = Vec::new();
        let mut stores: Vec<&Target> = self.implicit_keep.iter().map(|_| &Target::Inbox).collect();
        let mut answers = 0_usize;
        let mut is_refused = false;
        let mut others = usize::from(self.implicit_keep.is_some());
        let mut named = Vec::new();
        for action in &self.actions {
            match action {
                Action::Store { to, message, .. } => {
                    others += 1;
                    named.push(*message);
                    if stores.contains(&to) {
                        broken.push("two stores go to one mailbox");
                    }
                    stores.push(to);
                }
                Action::Redirect(redirect) => {
                    others += 1;
                    named.push(redirect.message);
                }
                Action::Vacation(_) => answers += 1,
                Action::Reject { .. } => {
                    answers += 1;
                    is_refused = true;
                }
                Action::Notify(_) | Action::Discard | Action::MarkDuplicate { .. } => {}
            }
        }
        named.extend(self.implicit_keep.iter().map(|keep| keep.message));
        let exists = |version: &Version| match version {
            Version::Original => true,
            Version::Edited(index) => usize::from(*index) < self.versions.len(),
        };
        if answers > 1 {
            broken.push("more than one response or refusal");
        }
        if is_refused && others > 0 {
            broken.push("a refusal beside a delivery");
        }
        if !named.iter().all(exists) {
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
