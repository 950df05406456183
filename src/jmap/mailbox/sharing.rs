//! What Mailbox/set does for guests, and to let others in (RFC 9670 §4).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::{MailboxSetCall, MailboxSetError};
use super::{MailboxProperty, VisibleMailboxes, mine};
use crate::jmap::principal;
use crate::jmap::standard::value::flag;
use crate::model::mailbox::Right;
use crate::model::{AccountId, Mailbox, MailboxUid, limits};
use crate::store::Txn;
use crate::wire::jmap::{Property as _, SetError};

impl MailboxSetCall<'_> {
    /// Whether a guest may destroy a mailbox, and what is in it.
    pub(super) fn prove_destroy(
        &self,
        txn: &Txn<'_>,
        uid: MailboxUid,
    ) -> Result<(), MailboxSetError> {
        let snapshot = txn.snapshot();
        let seen = VisibleMailboxes::one(&snapshot, self.account, uid)
            .map_err(MailboxSetError::Whole)?
            .ok_or(SetError::NotFound)?;
        let whole = snapshot.mailbox(self.account.id, uid).map_err(MailboxSetError::Whole)?;
        let empty = whole.is_none_or(|row| row.counts.total_emails == 0);
        let wanted = if empty {
            Right::Delete.bit()
        } else {
            Right::Delete.bit() | Right::RemoveItems.bit()
        };
        if mine(&seen) & wanted == wanted { Ok(()) } else { Err(forbidden("destroy it")) }
    }

    /// Whether a guest may change a property of a mailbox.
    pub(super) fn prove_property(
        &self,
        seen: &Mailbox,
        property: &str,
    ) -> Result<(), MailboxSetError> {
        let may = match MailboxProperty::from_name(property) {
            _ if self.account.guest.is_none() => true,
            Some(MailboxProperty::IsSubscribed) => seen.rights != 0,
            Some(MailboxProperty::Name | MailboxProperty::ParentId) => {
                seen.rights & Right::Rename.bit() != 0
            }
            _ => false,
        };
        if may { Ok(()) } else { Err(forbidden(&format!("change {property}"))) }
    }

    /// The mailbox under which a guest may put one.
    pub(super) fn prove_parent(
        &self,
        txn: &Txn<'_>,
        parent: Option<MailboxUid>,
    ) -> Result<Mailbox, MailboxSetError> {
        let Some(uid) = parent else { return Err(forbidden("put a mailbox at the top")) };
        let snapshot = txn.snapshot();
        let seen =
            VisibleMailboxes::one(&snapshot, self.account, uid).map_err(MailboxSetError::Whole)?;
        let whole = snapshot.mailbox(self.account.id, uid).map_err(MailboxSetError::Whole)?;
        let (Some(seen), Some(whole)) = (seen, whole) else {
            return Err(SetError::property("parentId", "there is no such mailbox").into());
        };
        if seen.rights & Right::CreateChild.bit() == 0 {
            return Err(forbidden("put a mailbox there"));
        }
        Ok(whole)
    }

    /// With whom a mailbox is to be shared (RFC 9670 §4): principals with their rights; a principal
    /// without any right is left out.
    pub(super) fn shares(
        &self,
        row: &Mailbox,
        value: &Value,
    ) -> Result<BTreeMap<AccountId, u16>, SetError> {
        let bad = |what: &str| SetError::property(MailboxProperty::ShareWith.name(), what);
        let empty = Map::new();
        let given = if value.is_null() {
            &empty
        } else {
            value.as_object().ok_or_else(|| bad("an object is wanted"))?
        };
        let mut shares = BTreeMap::new();
        for (id, rights) in given {
            let stranger = || bad(&format!("{id}: there is no such principal to share with"));
            let with = id.parse::<AccountId>().map_err(|_| stranger())?;
            let is_known = row.shares.contains_key(&with)
                || principal::may_share_with(self.call.context, self.account.id, with)
                    .map_err(|error| SetError::ServerFail(error.to_string()))?;
            if with == self.account.id || !is_known {
                return Err(stranger());
            }
            let mut bits = 0;
            for (name, has) in
                rights.as_object().ok_or_else(|| bad("an object of rights is wanted"))?
            {
                let right = Right::from_name(name)
                    .ok_or_else(|| bad(&format!("there is no right {name}")))?;
                if flag(MailboxProperty::ShareWith.name(), has)
                    .map_err(|_| bad("a right is true or false"))?
                {
                    bits |= right.bit();
                }
            }
            if bits != 0 {
                shares.insert(with, bits);
            }
        }
        if shares.len() > limits::MAX_SHARES {
            return Err(bad(&format!("it is shared with {} at most", limits::MAX_SHARES)));
        }
        Ok(shares)
    }
}

fn forbidden(what: &str) -> MailboxSetError {
    SetError::Forbidden(format!("the account's owner did not let you {what}")).into()
}
