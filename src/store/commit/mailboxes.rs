//! Mailboxes: made, with a role where one is wanted.

use super::Txn;
use crate::model::{DataType, Kept, Mailbox, MailboxUid, ModSeq, Role, View, limits, mailbox};
use crate::store::error::Error;
use crate::store::key;

/// A mailbox to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMailbox {
    /// Its name, NFC; no other mailbox under the same parent has it.
    pub name: String,
    /// The mailbox above it.
    pub parent: Option<MailboxUid>,
    /// Its role; no other mailbox has it.
    pub role: Option<Role>,
    /// RFC 8621 §2 sortOrder.
    pub sort_order: u32,
}

impl Txn<'_> {
    /// Makes a mailbox.
    ///
    /// # Errors
    /// `Conflict` where name or role is taken or the name is empty, too long or holds control characters.
    pub fn create_mailbox(&mut self, new: &NewMailbox) -> Result<MailboxUid, Error> {
        let conflict = |what: &str| Err(Error::Conflict(format!("mailbox \"{}\": {what}", new.name)));
        if new.name.is_empty() || new.name.len() > limits::MAILBOX_NAME_OCTETS || new.name.chars().any(char::is_control)
        {
            return conflict("a name has 1 to 255 octets and no control characters");
        }
        if let Some(parent) = new.parent {
            self.live_mailbox(parent)?;
        }
        for (_, other) in self.view().mailboxes(self.account)? {
            if other.parent == new.parent && other.name == new.name {
                return conflict("there is one of that name");
            }
            if new.role.is_some() && other.role == new.role {
                return conflict("another mailbox has that role");
            }
        }
        let modseq = self.next_modseq();
        self.state.last_mailbox += 1;
        let uid = MailboxUid(self.state.last_mailbox);
        match new.role {
            Some(Role::Inbox) => self.state.inbox = uid,
            Some(Role::Trash) => self.state.trash = uid,
            _ => {}
        }
        let row = Mailbox {
            name: new.name.clone(),
            parent: new.parent,
            role: new.role,
            sort_order: new.sort_order,
            rights: mailbox::ALL_RIGHTS,
            subscribed: true,
            created: modseq,
            updated: modseq,
            updated_not_counts: modseq,
            kept: vec![Kept::whole(View::Every, ModSeq(0))],
            ..Mailbox::default()
        };
        self.put_row(key::mailbox(self.account, uid), &row);
        self.touch(DataType::Mailbox);
        Ok(uid)
    }

    pub(super) fn live_mailbox(&self, uid: MailboxUid) -> Result<Mailbox, Error> {
        let found = self.row::<Mailbox>(&key::mailbox(self.account, uid))?;
        found.filter(|mailbox| !mailbox.deleted).ok_or(Error::NotFound("mailbox"))
    }
}
