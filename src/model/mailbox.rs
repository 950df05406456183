//! Mailboxes (RFC 8621 §2).

use std::collections::BTreeMap;

use super::id::{AccountId, MailboxUid, ModSeq};
use super::limits;
use super::listing::MaintainedListing;

/// A mailbox as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mailbox {
    /// The name that the owner sees, NFC.
    pub name: String,
    /// The mailbox above it.
    pub parent: Option<MailboxUid>,
    /// What it is for; at most one mailbox of an account has each role.
    pub role: Option<Role>,
    /// RFC 8621 §2 sortOrder.
    pub sort_order: u32,
    /// The owner's rights, one bit each (`Right::bit`).
    pub rights: u16,
    /// RFC 8621 §2 isSubscribed, of the owner. Of others it stands in rows of their own.
    pub subscribed: bool,
    /// Who else has which rights in it, in the same bits; nobody has none.
    pub shares: BTreeMap<AccountId, u16>,
    /// What the owner chose for it, by name: see `check_attribute`.
    pub attributes: BTreeMap<String, String>,
    /// The four counts.
    pub counts: MailboxCounts,
    /// When it was made.
    pub created: ModSeq,
    /// When anything of it changed last.
    pub updated: ModSeq,
    /// When anything but the counts changed last.
    pub updated_not_counts: ModSeq,
    /// When it was last shared with somebody, otherwise, or no longer.
    pub updated_shares: ModSeq,
    /// Whether it is a tombstone.
    pub deleted: bool,
    /// The views of it that are kept as listings.
    pub listings: Vec<MaintainedListing>,
}

/// Every right of RFC 8621 §2.
pub const ALL_RIGHTS: u16 = (1 << 9) - 1;

/// A right in a mailbox (RFC 8621 §2 `MailboxRights`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// To read the emails in it.
    ReadItems,
    /// To file emails in it.
    AddItems,
    /// To take emails out of it.
    RemoveItems,
    /// To change `$seen` of the emails in it.
    SetSeen,
    /// To change all other keywords.
    SetKeywords,
    /// To make a mailbox under it.
    CreateChild,
    /// To rename it, and to put it elsewhere.
    Rename,
    /// To destroy it.
    Delete,
    /// To submit mail to it.
    Submit,
}

/// The rights with their names on the wire, in the order of their bits.
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
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        RIGHTS.iter().map(|(right, _)| *right)
    }

    /// Its bit in a set of rights.
    #[must_use]
    pub const fn bit(self) -> u16 {
        1 << self as u16
    }

    /// Its name in JMAP.
    #[must_use]
    pub fn name(self) -> &'static str {
        RIGHTS.iter().find(|(right, _)| *right == self).map_or("", |(_, name)| name)
    }

    /// The right of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        RIGHTS.iter().find(|(_, known)| *known == name).map(|(right, _)| *right)
    }
}

impl Mailbox {
    /// The rights of a user in this mailbox of an account; none where it is gone.
    #[must_use]
    pub fn rights_of(&self, account: AccountId, user: AccountId) -> u16 {
        match (self.deleted, user == account) {
            (true, _) => 0,
            (false, true) => self.rights,
            (false, false) => self.shares.get(&user).copied().unwrap_or_default(),
        }
    }
}

/// The attribute that says in which colour a mailbox is shown.
pub const COLOR: &str = "color";

/// Whether a mailbox may have an attribute of this name and value; if not, what is wanted. A name
/// is a lower-case letter and then such letters, digits, `.`, `-` and `_`; a value is a text of one
/// line. `color` is `#` and six hexadecimal digits; of other names the values mean nothing to the
/// server.
///
/// # Errors
/// What is wanted.
pub fn check_attribute(name: &str, value: &str) -> Result<(), &'static str> {
    let is_word =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | '_');
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !begins || !name.chars().all(is_word) || name.len() > limits::MAX_ATTRIBUTE_NAME_BYTES {
        return Err(
            "a name is a lower-case letter and then up to 31 such letters, digits, \".\", \"-\" and \"_\"",
        );
    }
    if value.is_empty()
        || value.len() > limits::MAX_ATTRIBUTE_VALUE_BYTES
        || value.chars().any(char::is_control)
    {
        return Err("a value has 1 to 255 octets and no control characters");
    }
    let is_color =
        |digits: &str| digits.len() == 6 && digits.chars().all(|c| c.is_ascii_hexdigit());
    if name == COLOR && !value.strip_prefix('#').is_some_and(is_color) {
        return Err("a color is # and six hexadecimal digits");
    }
    Ok(())
}

/// Whether a mailbox may have these attributes together.
///
/// # Errors
/// What is wanted.
pub fn check_attributes(attributes: &BTreeMap<String, String>) -> Result<(), &'static str> {
    attributes.iter().try_for_each(|(name, value)| check_attribute(name, value))?;
    let octets: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
    if attributes.len() > limits::MAX_ATTRIBUTES || octets > limits::MAX_ATTRIBUTES_BYTES {
        return Err("there are 16 of 1,024 octets in all, and no more");
    }
    Ok(())
}

/// The counts of RFC 8621 §2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MailboxCounts {
    /// Emails in it.
    pub total_emails: u64,
    /// Of these neither `$seen` nor `$draft`.
    pub unread_emails: u64,
    /// Threads with an email in it.
    pub total_threads: u64,
    /// Of these unread, by the rule about the Trash.
    pub unread_threads: u64,
}

/// Role of a mailbox (RFC 8621 §2; IANA's registry of IMAP mailbox name attributes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Where mail arrives.
    Inbox,
    /// Unfinished messages.
    Drafts,
    /// What the owner sent.
    Sent,
    Junk,
    /// What is to be destroyed.
    Trash,
    /// What is kept out of sight.
    Archive,
    /// Marked important.
    Important,
    /// All mail.
    All,
    Flagged,
    /// Subscribed.
    Subscribed,
    /// Waiting to be sent at a set time.
    Scheduled,
    /// Put away until later.
    Snoozed,
    Memos,
}

/// The roles with their names on the wire; the position is the stored number, so rows are only ever
/// added at the end.
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
    /// Its name in JMAP.
    #[must_use]
    pub fn name(self) -> &'static str {
        ROLES.iter().find(|(role, _)| *role == self).map_or("", |(_, name)| name)
    }

    /// The role of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        ROLES.iter().find(|(_, known)| *known == name).map(|(role, _)| *role)
    }

    /// Its stored number.
    #[must_use]
    pub fn number(self) -> u8 {
        ROLES
            .iter()
            .position(|(role, _)| *role == self)
            .and_then(|at| u8::try_from(at).ok())
            .unwrap_or(u8::MAX)
    }

    /// The role with that stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        ROLES.get(usize::from(number)).map(|(role, _)| *role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_right_has_its_bit_and_its_name() {
        let bits = Right::all().fold(0, |bits, right| {
            assert_eq!(bits & right.bit(), 0, "{right:?}");
            assert_eq!(Right::from_name(right.name()), Some(right));
            bits | right.bit()
        });
        assert_eq!((bits, Right::from_name("mayFly")), (ALL_RIGHTS, None));
    }
}
