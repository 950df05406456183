//! Creates the mailboxes of a path.

use crate::model::{MailboxUid, Role};
use crate::store::account::mailboxes::NewMailbox;
use crate::store::error::Error;
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Creates those mailboxes of a path that `find_mailbox` does not find, and returns the last
    /// mailbox of the path. In `path`, `/` separates the names. If the last mailbox is created, it
    /// gets `role`, unless another mailbox has that role. If it exists, its role does not change.
    ///
    /// Returns `None` if a mailbox is refused (`MailboxFault`), for example because of its name or
    /// because there are too many. The mailboxes that were created before stay staged.
    ///
    /// # Errors
    /// Those of reading.
    pub fn create_mailbox_path(
        &mut self,
        path: &str,
        role: Option<Role>,
    ) -> Result<Option<MailboxUid>, Error> {
        let account = self.account();
        let role_is_taken = |txn: &Self, role: Role| -> Result<bool, Error> {
            let all = txn.snapshot().mailboxes(account)?;
            Ok(all.iter().any(|(_, mailbox)| mailbox.role == Some(role)))
        };
        let (mut last, mut path_so_far) = (None, String::new());
        let mut names = path.split('/').peekable();
        while let Some(name) = names.next() {
            let role = match role.filter(|_| names.peek().is_none()) {
                Some(role) if !role_is_taken(self, role)? => Some(role),
                _ => None,
            };
            if !path_so_far.is_empty() {
                path_so_far.push('/');
            }
            path_so_far.push_str(name);
            let existing = match path_so_far.as_str() {
                // The path begins with `/`: the empty name is refused below.
                "" => None,
                path => self.snapshot().find_mailbox(account, path)?,
            };
            last = match existing {
                Some((existing, _)) => Some(existing),
                None => match self.create_mailbox(&NewMailbox {
                    name: name.into(),
                    parent: last,
                    role,
                    sort_order: 0,
                }) {
                    Ok(created) => Some(created),
                    Err(Error::Mailbox { .. } | Error::NotFound(_) | Error::Quota) => {
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                },
            };
        }
        Ok(last)
    }
}
