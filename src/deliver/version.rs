//! The versions of one message that scripts made (RFC 5293), and how many each account may make.
//! All accounts of the transaction use one `EditedVersions`. `plan_account` calls `begin_account`
//! for each account.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::filter::EditedMessage;
use crate::message::rows_of_any;
use crate::model::{Secrets, ThreadKey};
use crate::store::EncodedMessage;

/// The most bytes of edited versions of one message, for all its recipients. They are more than
/// twice the largest message by default (`limits::MAX_MESSAGE_BYTES`): a version for all
/// recipients leaves room for another one. For a larger message, `EditedVersions::new` raises them.
pub(super) const MAX_EDITED_BYTES: usize = 128 << 20;

/// A version of the message that a script made, with its rows.
pub(super) struct EditedVersion {
    pub(super) message: EditedMessage,
    pub(super) rows: EncodedMessage,
}

/// The versions of one message, for all its recipients.
///
/// - All versions together have at most `max_bytes`, or a little more: before a version is made, it
///   counts as large as the message as received (`left`).
/// - Each account gets an equal share of the bytes that the accounts before it left, so that the
///   scripts of one account do not take all. If its share is less than one version, an account may
///   still make one, as long as all bytes that are left suffice for it.
/// - A version that equals one of an earlier recipient takes no bytes.
pub(super) struct EditedVersions {
    max_bytes: usize,
    made: RefCell<Vec<Rc<EditedVersion>>>,
    share: Cell<Share>,
}

/// The share of the account that is being planned. Before the first account it is empty.
#[derive(Clone, Copy)]
struct Share {
    /// How many accounts are planned after this one.
    later_accounts: usize,
    /// The bytes of all versions when this account began.
    begin: usize,
    /// The most bytes that all versions may have when this account is done.
    end: usize,
}

impl EditedVersions {
    /// `accounts` is the number of accounts that get the message, which has `size` bytes. If two
    /// versions of it would have more than `max_bytes`, there is room for two nevertheless: a site
    /// that accepts large messages lets its scripts edit them.
    pub(super) fn new(max_bytes: usize, size: usize, accounts: usize) -> Self {
        // The half is for the fields that scripts add.
        let max_bytes = max_bytes.max(size.saturating_mul(2).saturating_add(size / 2));
        let share = Share { later_accounts: accounts, begin: 0, end: 0 };
        Self { max_bytes, made: RefCell::default(), share: Cell::new(share) }
    }

    /// Begins the share of the next account. Must be called before the scripts of each account run.
    pub(super) fn begin_account(&self) {
        let (begin, accounts) = (self.used(), self.share.get().later_accounts.max(1));
        let end = begin.saturating_add(self.max_bytes.saturating_sub(begin) / accounts);
        self.share.set(Share { later_accounts: accounts - 1, begin, end });
    }

    /// Returns the bytes of all versions so far.
    fn used(&self) -> usize {
        self.made.borrow().iter().map(|one| one.message.0.len()).sum()
    }

    /// Returns the number of all versions so far.
    pub(super) fn count(&self) -> u16 {
        u16::try_from(self.made.borrow().len()).unwrap_or(u16::MAX)
    }

    /// Returns how many further versions of a message of `size` bytes the account may make, as if
    /// a version had as many bytes as the message.
    pub(super) fn left(&self, size: usize) -> u16 {
        let (used, share, size) = (self.used(), self.share.get(), size.max(1));
        let of_share = share.end.saturating_sub(used) / size;
        let of_all = self.max_bytes.saturating_sub(used) / size;
        let has_made_none = used == share.begin;
        let left = if has_made_none { of_share.max(of_all.min(1)) } else { of_share };
        u16::try_from(left).unwrap_or(u16::MAX)
    }

    /// Returns how many of these versions were not added yet. Equal ones count as one.
    pub(super) fn count_new<'a>(&self, messages: impl Iterator<Item = &'a EditedMessage>) -> usize {
        let made = self.made.borrow();
        let mut new: Vec<&EditedMessage> = Vec::new();
        for message in messages {
            if !made.iter().any(|known| known.message == *message) && !new.contains(&message) {
                new.push(message);
            }
        }
        new.len()
    }

    /// Adds a version, or finds the equal one that was added before, and returns it. A new one gets
    /// the thread keys of the message as received: whatever was edited, the email stays in the
    /// thread of the message. Limits are not checked here (`left`).
    pub(super) fn add(
        &self,
        message: EditedMessage,
        thread_keys: &[ThreadKey],
        secrets: &Secrets,
    ) -> Rc<EditedVersion> {
        if let Some(known) = self.made.borrow().iter().find(|known| known.message == message) {
            return Rc::clone(known);
        }
        let mut rows = rows_of_any(&message.0, secrets);
        for key in thread_keys {
            if !rows.thread_keys.contains(key) {
                rows.thread_keys.push(*key);
            }
        }
        let made = Rc::new(EditedVersion { rows: EncodedMessage::new(&rows), message });
        self.made.borrow_mut().push(Rc::clone(&made));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 10;

    fn version(byte: u8) -> EditedMessage {
        EditedMessage(vec![byte; SIZE].into())
    }

    #[test]
    fn equal_versions_are_shared_and_bytes_are_bounded() {
        let (versions, secrets) = (EditedVersions::new(2 * SIZE, 0, 1), Secrets::default());
        versions.begin_account();
        assert_eq!(versions.left(SIZE), 2);
        let first = versions.add(version(b'a'), &[], &secrets);
        assert!(Rc::ptr_eq(&first, &versions.add(version(b'a'), &[], &secrets)));
        assert_eq!((versions.left(SIZE), versions.count()), (1, 1));
        let made = [version(b'a'), version(b'b'), version(b'b')];
        assert_eq!(versions.count_new(made.iter()), 1);
        versions.add(version(b'b'), &[], &secrets);
        assert_eq!((versions.left(SIZE), versions.left(0)), (0, 0));
    }

    #[test]
    fn each_account_has_a_share() {
        let (versions, secrets) = (EditedVersions::new(6 * SIZE, 0, 3), Secrets::default());
        let mut shares = Vec::new();
        for made in [2, 0, 4] {
            versions.begin_account();
            shares.push(versions.left(SIZE));
            for byte in 0..made {
                versions.add(version(byte), &[], &secrets);
            }
        }
        // A third of 6, half of the 4 that are left, and all 4: the second account made none.
        assert_eq!(shares, [2, 2, 4]);
        // A third of 2 is less than one version: each account may make one, while any are left.
        let versions = EditedVersions::new(2 * SIZE, 0, 3);
        let mut shares = Vec::new();
        for byte in 0..3 {
            versions.begin_account();
            shares.push(versions.left(SIZE));
            versions.add(version(byte), &[], &secrets);
            assert_eq!(versions.left(SIZE), 0);
        }
        assert_eq!(shares, [1, 1, 0]);
    }
}
