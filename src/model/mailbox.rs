//! Mailboxes, with their rights, roles, attributes and counts (RFC 8621 §2).

use std::collections::BTreeMap;

use super::id::{AccountId, MailboxUid, ModSeq};
use super::limits;
use super::listing::MaintainedListing;

/// A mailbox as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mailbox {
    /// The name. Mailbox/set brings it to NFC; other writers do not check that.
    pub name: String,
    /// `None` for a mailbox at the top.
    pub parent: Option<MailboxUid>,
    /// At most one mailbox of an account has each role.
    pub role: Option<Role>,
    pub sort_order: u32,
    /// The owner's rights, one bit each (`Right::bit`).
    pub rights: u16,
    /// Of the owner; the subscriptions of guests are rows of their own.
    pub subscribed: bool,
    /// The rights of each guest, in the same bits. A guest without rights has no entry.
    pub shares: BTreeMap<AccountId, u16>,
    /// By name; see `check_attribute`.
    pub attributes: BTreeMap<String, String>,
    pub counts: MailboxCounts,
    pub created: ModSeq,
    pub updated: ModSeq,
    /// The newest change of anything but the counts.
    pub updated_not_counts: ModSeq,
    /// The newest change of the shares.
    pub updated_shares: ModSeq,
    /// Whether the row is a tombstone.
    pub destroyed: bool,
    pub listings: Vec<MaintainedListing>,
}

/// The bits of all nine rights.
pub const ALL_RIGHTS: u16 = (1 << 9) - 1;

/// A right in a mailbox (RFC 8621 §2 `MailboxRights`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    ReadItems,
    AddItems,
    RemoveItems,
    SetSeen,
    /// Change keywords other than `$seen`.
    SetKeywords,
    CreateChild,
    /// Rename or move the mailbox.
    Rename,
    Delete,
    /// Send messages to the mailbox.
    Submit,
}

/// In the order of their bits.
const RIGHTS: [(Right, &str); 9] = [
    (Right::ReadItems, "mayReadItems"),
    (Right::AddItems, "mayAddItems"),
    (Right::RemoveItems, "mayRemoveItems"),
    (Right::SetSeen, "maySetSeen"),
    (Right::SetKeywords, "maySetKeywords"),
    (Right::CreateChild, "mayCreateChild"),
    (Right::Rename, "mayRename"),
    (Right::Delete, "mayDelete"),
    (Right::Submit, "maySubmit"),
];

impl Right {
    pub fn all() -> impl Iterator<Item = Self> {
        RIGHTS.iter().map(|(right, _)| *right)
    }

    #[must_use]
    pub const fn bit(self) -> u16 {
        1 << self as u16
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        RIGHTS.iter().find(|(right, _)| *right == self).map_or("", |(_, name)| name)
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        RIGHTS.iter().find(|(_, known)| *known == name).map(|(right, _)| *right)
    }
}

impl Mailbox {
    /// Returns the rights of a user in this mailbox of `account`. A tombstone gives none.
    #[must_use]
    pub fn rights_of(&self, account: AccountId, user: AccountId) -> u16 {
        match (self.destroyed, user == account) {
            (true, _) => 0,
            (false, true) => self.rights,
            (false, false) => self.shares.get(&user).copied().unwrap_or_default(),
        }
    }
}

/// The attribute with the colour in which clients show the mailbox.
pub const COLOR: &str = "color";

/// Checks the name and value of an attribute.
///
/// - A name is a lower-case letter, followed by lower-case letters, digits, `.`, `-` and `_`.
/// - A value has no control characters, and is not empty.
/// - Both have a limit (`limits::MAX_ATTRIBUTE_NAME_BYTES`, `limits::MAX_ATTRIBUTE_VALUE_BYTES`).
/// - The value of `color` is `#` and six hexadecimal digits.
///
/// # Errors
/// The rule that is broken, as a text.
pub fn check_attribute(name: &str, value: &str) -> Result<(), &'static str> {
    let is_word =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | '_');
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !begins || !name.chars().all(is_word) || name.len() > limits::MAX_ATTRIBUTE_NAME_BYTES {
        return Err("a name is a lower-case letter and then up to 31 such letters, digits, \
             \".\", \"-\" and \"_\"");
    }
    if value.is_empty()
        || value.len() > limits::MAX_ATTRIBUTE_VALUE_BYTES
        || value.chars().any(char::is_control)
    {
        return Err("a value has 1 to 255 bytes and no control characters");
    }
    let is_color =
        |digits: &str| digits.len() == 6 && digits.chars().all(|c| c.is_ascii_hexdigit());
    if name == COLOR && !value.strip_prefix('#').is_some_and(is_color) {
        return Err("a color is # and six hexadecimal digits");
    }
    Ok(())
}

/// Checks each attribute of a mailbox, their number, and their bytes in all.
///
/// # Errors
/// The rule that is broken, as a text.
pub fn check_attributes(attributes: &BTreeMap<String, String>) -> Result<(), &'static str> {
    attributes.iter().try_for_each(|(name, value)| check_attribute(name, value))?;
    let bytes: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
    if attributes.len() > limits::MAX_ATTRIBUTES || bytes > limits::MAX_ATTRIBUTES_BYTES {
        return Err("a mailbox has at most 16 attributes, of 1,024 bytes in all");
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MailboxCounts {
    pub total_emails: u64,
    pub unread_emails: u64,
    /// Threads with an email in the mailbox.
    pub total_threads: u64,
    /// Those with an unread email, which may be in another mailbox. The Trash is treated apart: for
    /// the Trash, only unread emails in the Trash count; for another mailbox, only those that are
    /// in a mailbox other than the Trash.
    pub unread_threads: u64,
}

/// The role of a mailbox (RFC 8621 §2; IANA's registry of IMAP mailbox name attributes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    Inbox,
    Drafts,
    Sent,
    Junk,
    Trash,
    Archive,
    Important,
    All,
    Flagged,
    Subscribed,
    /// Mail that waits to be sent at a set time.
    Scheduled,
    /// Mail that is hidden until a later time.
    Snoozed,
    Memos,
}

/// The index is the stored number, so new roles are only added at the end.
const ROLES: [(Role, &str); 13] = [
    (Role::Inbox, "inbox"),
    (Role::Drafts, "drafts"),
    (Role::Sent, "sent"),
    (Role::Junk, "junk"),
    (Role::Trash, "trash"),
    (Role::Archive, "archive"),
    (Role::Important, "important"),
    (Role::All, "all"),
    (Role::Flagged, "flagged"),
    (Role::Subscribed, "subscribed"),
    (Role::Scheduled, "scheduled"),
    (Role::Snoozed, "snoozed"),
    (Role::Memos, "memos"),
];

impl Role {
    #[must_use]
    pub fn name(self) -> &'static str {
        ROLES.iter().find(|(role, _)| *role == self).map_or("", |(_, name)| name)
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        ROLES.iter().find(|(_, known)| *known == name).map(|(role, _)| *role)
    }

    #[must_use]
    pub fn number(self) -> u8 {
        ROLES
            .iter()
            .position(|(role, _)| *role == self)
            .and_then(|at| u8::try_from(at).ok())
            .unwrap_or(u8::MAX)
    }

    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        ROLES.get(usize::from(number)).map(|(role, _)| *role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_right_has_a_bit_and_a_name() {
        let bits = Right::all().fold(0, |bits, right| {
            assert_eq!(bits & right.bit(), 0, "{right:?}");
            assert_eq!(Right::from_name(right.name()), Some(right));
            bits | right.bit()
        });
        assert_eq!((bits, Right::from_name("mayFly")), (ALL_RIGHTS, None));
    }
}
