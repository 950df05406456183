//! What a guest may do by Mailbox/set, and how an owner shares a mailbox (RFC 9670 §4).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::{MailboxSetCall, OperationError};
use super::{MailboxProperty, VisibleMailboxes, caller_rights};
use crate::jmap::principal;
use crate::jmap::standard::value::flag;
use crate::model::mailbox::Right;
use crate::model::{AccountId, Mailbox, MailboxUid, limits};
use crate::store::Txn;
use crate::wire::jmap::{Property as _, SetError};

impl MailboxSetCall<'_> {
    /// Checks that a guest may destroy a mailbox: with `mayDelete`, and if it has emails, also with
    /// `mayRemoveItems`.
    pub(super) fn require_destroy_right(
        &self,
        txn: &Txn<'_>,
        uid: MailboxUid,
    ) -> Result<(), OperationError> {
        let snapshot = txn.snapshot();
        let visible = VisibleMailboxes::read_one(&snapshot, self.account, uid)
            .map_err(OperationError::Call)?
            .ok_or(SetError::NotFound)?;
        // A mailbox that the guest may not read has no counts in `visible`.
        let stored = snapshot.mailbox(self.account.id, uid).map_err(OperationError::Call)?;
        let is_empty = stored.is_none_or(|row| row.counts.total_emails == 0);
        let needed = if is_empty {
            Right::Delete.bit()
        } else {
            Right::Delete.bit() | Right::RemoveItems.bit()
        };
        if caller_rights(&visible) & needed == needed {
            Ok(())
        } else {
            Err(forbidden("destroy it"))
        }
    }

    /// Checks that the caller may set a property of a mailbox. A guest may set `isSubscribed` with
    /// any right, `name` and `parentId` with `mayRename`, and nothing else.
    pub(super) fn require_property_right(
        &self,
        visible: &Mailbox,
        property: &str,
    ) -> Result<(), OperationError> {
        let may = match MailboxProperty::from_name(property) {
            _ if self.account.guest.is_none() => true,
            Some(MailboxProperty::IsSubscribed) => visible.rights != 0,
            Some(MailboxProperty::Name | MailboxProperty::ParentId) => {
                visible.rights & Right::Rename.bit() != 0
            }
            _ => false,
        };
        if may { Ok(()) } else { Err(forbidden(&format!("change {property}"))) }
    }

    /// Returns the parent of a mailbox that a guest creates or moves, if the guest may create
    /// children in it.
    ///
    /// # Errors
    /// `invalidProperties` if the guest sees no such mailbox; `forbidden` without `mayCreateChild`
    /// in it, and for a mailbox without a parent; errors of the store.
    pub(super) fn require_parent_right(
        &self,
        txn: &Txn<'_>,
        parent: Option<MailboxUid>,
    ) -> Result<Mailbox, OperationError> {
        let Some(uid) = parent else { return Err(forbidden("put a mailbox at the top")) };
        let snapshot = txn.snapshot();
        let visible = VisibleMailboxes::read_one(&snapshot, self.account, uid)
            .map_err(OperationError::Call)?;
        let stored = snapshot.mailbox(self.account.id, uid).map_err(OperationError::Call)?;
        let (Some(visible), Some(stored)) = (visible, stored) else {
            return Err(SetError::property("parentId", "there is no such mailbox").into());
        };
        if visible.rights & Right::CreateChild.bit() == 0 {
            return Err(forbidden("put a mailbox there"));
        }
        Ok(stored)
    }

    /// Reads `shareWith` (RFC 9670 §4), as bits of [`Right`]. Leaves out the principals that get no
    /// right. `row` is the mailbox so far: a principal with a share in it may always be named.
    ///
    /// # Errors
    /// `invalidProperties`, also if more than `limits::MAX_SHARES` principals get a right;
    /// `serverFail` if an account cannot be read.
    pub(super) fn shares(
        &self,
        row: &Mailbox,
        value: &Value,
    ) -> Result<BTreeMap<AccountId, u16>, SetError> {
        let invalid = |what: &str| SetError::property(MailboxProperty::ShareWith.name(), what);
        let empty = Map::new();
        let given = if value.is_null() {
            &empty
        } else {
            value.as_object().ok_or_else(|| invalid("an object is expected"))?
        };
        let mut shares = BTreeMap::new();
        for (id, rights) in given {
            let unknown = || invalid(&format!("{id}: there is no such principal to share with"));
            let with = id.parse::<AccountId>().map_err(|_| unknown())?;
            let may_be_named = row.shares.contains_key(&with)
                || principal::may_share_with(self.call.context, self.account.id, with)
                    .map_err(|error| SetError::ServerFail(error.to_string()))?;
            if with == self.account.id || !may_be_named {
                return Err(unknown());
            }
            let mut bits = 0;
            for (name, has) in
                rights.as_object().ok_or_else(|| invalid("an object of rights is expected"))?
            {
                let right = Right::from_name(name)
                    .ok_or_else(|| invalid(&format!("there is no right {name}")))?;
                if flag(MailboxProperty::ShareWith.name(), has)
                    .map_err(|_| invalid("a right is true or false"))?
                {
                    bits |= right.bit();
                }
            }
            if bits != 0 {
                shares.insert(with, bits);
            }
        }
        if shares.len() > limits::MAX_SHARES {
            return Err(invalid(&format!(
                "it can be shared with at most {} principals",
                limits::MAX_SHARES
            )));
        }
        Ok(shares)
    }
}

fn forbidden(what: &str) -> OperationError {
    SetError::Forbidden(format!("the account's owner did not let you {what}")).into()
}
