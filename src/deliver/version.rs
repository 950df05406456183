//! The versions of the message that scripts made (RFC 5293).

use std::cell::RefCell;
use std::rc::Rc;

use crate::filter::EditedMessage;
use crate::message::rows_of_any;
use crate::model::{Secrets, ThreadKey};
use crate::store::EncodedMessage;

/// The most bytes of edited versions of one message, for all its recipients. They are twice the
/// largest message, so a version that all recipients share leaves room for another.
const MAX_EDITED_BYTES: usize = 128 << 20;

/// A version of the message that a script made, with its rows.
pub(super) struct EditedVersion {
    pub(super) message: EditedMessage,
    pub(super) rows: EncodedMessage,
}

/// The versions of one message, which its recipients share.
#[derive(Default)]
pub(super) struct EditedVersions(RefCell<Vec<Rc<EditedVersion>>>);

impl EditedVersions {
    /// Returns how many further versions of a message of `size` bytes may be made.
    pub(super) fn left(&self, size: usize) -> u16 {
        let used: usize = self.0.borrow().iter().map(|one| one.message.0.len()).sum();
        u16::try_from(MAX_EDITED_BYTES.saturating_sub(used) / size.max(1)).unwrap_or(u16::MAX)
    }

    /// Adds a version, unless there is an equal one, and returns it. It gets the thread keys of the
    /// message as received: whatever was edited, the email stays in the thread of the message.
    pub(super) fn add(
        &self,
        message: EditedMessage,
        thread_keys: &[ThreadKey],
        secrets: &Secrets,
    ) -> Rc<EditedVersion> {
        if let Some(known) = self.0.borrow().iter().find(|known| known.message == message) {
            return Rc::clone(known);
        }
        let mut rows = rows_of_any(&message.0, secrets);
        for key in thread_keys {
            if !rows.thread_keys.contains(key) {
                rows.thread_keys.push(*key);
            }
        }
        let made = Rc::new(EditedVersion { rows: EncodedMessage::new(&rows), message });
        self.0.borrow_mut().push(Rc::clone(&made));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_versions_are_shared_and_bytes_are_bounded() {
        let (versions, secrets) = (EditedVersions::default(), Secrets::default());
        let version = |byte: u8| EditedMessage(vec![byte; MAX_EDITED_BYTES / 2].into());
        assert_eq!(versions.left(MAX_EDITED_BYTES / 2), 2);
        let first = versions.add(version(b'a'), &[], &secrets);
        assert!(Rc::ptr_eq(&first, &versions.add(version(b'a'), &[], &secrets)));
        assert_eq!(versions.left(MAX_EDITED_BYTES / 2), 1);
        versions.add(version(b'b'), &[], &secrets);
        assert_eq!((versions.left(MAX_EDITED_BYTES / 2), versions.left(0)), (0, 0));
    }
}
