//! Creates and updates one mailbox.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization as _;

use super::super::{MailboxProperty, VisibleMailboxes, object, value};
use super::{MailboxSetCall, OperationError, operation_error};
use crate::jmap::standard::InvalidProperties;
use crate::jmap::standard::value::{flag, text, unsigned};
use crate::model::mailbox::{Right, check_attributes};
use crate::model::{AccountId, Mailbox, MailboxUid, Role};
use crate::store::{Error, NewMailbox, Txn};
use crate::wire::jmap::{ADMIN, MethodError, PRINCIPALS, Patch, Property as _, SetError};

/// An update of a mailbox that was checked, except for what the store checks.
pub(super) struct MailboxUpdate {
    pub(super) uid: MailboxUid,
    /// The row to be stored.
    pub(super) row: Mailbox,
    /// The guest and the guest's own subscription; `None` for the owner, whose subscription is in
    /// the row.
    subscription: Option<(AccountId, bool)>,
    /// The properties that get another value than the client sent.
    server_set: Map<String, Value>,
}

impl MailboxSetCall<'_> {
    pub(super) fn create(
        &mut self,
        txn: &mut Txn<'_>,
        name: &str,
        properties: &Map<String, Value>,
    ) -> Result<(), OperationError> {
        // RFC 8621 §2: the creator is subscribed by default. The right to rename lets a guest set
        // the name, the parent and the subscription (`require_property_right`).
        let mut row =
            Mailbox { subscribed: true, rights: Right::Rename.bit(), ..Mailbox::default() };
        let mut problems = InvalidProperties::default();
        for (property, value) in properties {
            self.require_property_right(&row, property)?;
            problems.note(self.apply(&mut row, property, value))?;
        }
        if !properties.contains_key("name") {
            problems.add("name", "a mailbox has a name");
        }
        problems.finish()?;
        // Without the shares of the parent, the guest would not see the new mailbox.
        if self.account.guest.is_some() {
            row.shares = self.require_parent_right(txn, row.parent)?.shares;
        }
        let Mailbox {
            name: label, parent, role, sort_order, subscribed, shares, attributes, ..
        } = row;
        let new = NewMailbox { name: label, parent, role, sort_order };
        // `MailboxUid::ALL` stands for the new mailbox, which has no id if it is refused.
        let uid = match txn.create_mailbox(&new) {
            Ok(uid) => uid,
            Err(error) => return Err(self.refusal(txn, MailboxUid::ALL, error)),
        };
        let user = self.account.guest.unwrap_or(self.account.id);
        // The mailbox is in the transaction now, so an error from here on must fail the call.
        txn.update_mailbox(uid, |row| (row.shares, row.attributes) = (shares, attributes))
            .map_err(OperationError::Call)?;
        txn.subscribe(uid, user, subscribed).map_err(OperationError::Call)?;
        let mailbox = VisibleMailboxes::read_one(&txn.snapshot(), self.account, uid)
            .map_err(OperationError::Call)?;
        let available = MailboxProperty::available(self.call);
        let mut server_set = mailbox.map(|row| object(uid, &row, &available)).unwrap_or_default();
        server_set.retain(|property, value| properties.get(property) != Some(value));
        self.changed.push(uid);
        self.response.created(self.call.created, name, server_set);
        Ok(())
    }

    pub(super) fn update(
        &mut self,
        txn: &mut Txn<'_>,
        id: &str,
        patch: &Value,
    ) -> Result<(), OperationError> {
        let update = self.plan_update(txn, id, patch)?;
        let (uid, new_row) = (update.uid, update.row.clone());
        if let Err(error) = txn.update_mailbox(uid, |row| *row = new_row) {
            return Err(self.refusal(txn, uid, error));
        }
        self.finish_update(txn, id, update).map_err(OperationError::Call)
    }

    /// Converts an error of the store about the mailbox `uid`. A guest learns the id of another
    /// mailbox with the same name only with a right in that mailbox.
    fn refusal(&self, txn: &Txn<'_>, uid: MailboxUid, error: Error) -> OperationError {
        let may_know = |other| {
            let Some(guest) = self.account.guest else { return true };
            let row = txn.snapshot().mailbox(self.account.id, other);
            row.is_ok_and(|row| row.is_some_and(|row| row.rights_of(self.account.id, guest) != 0))
        };
        operation_error(error, uid, may_know)
    }

    /// Writes the subscription, and records the update in the answer.
    pub(super) fn finish_update(
        &mut self,
        txn: &mut Txn<'_>,
        id: &str,
        update: MailboxUpdate,
    ) -> Result<(), Error> {
        if let Some((guest, is_subscribed)) = update.subscription {
            txn.subscribe(update.uid, guest, is_subscribed)?;
        }
        self.changed.push(update.uid);
        self.response.updated(id, update.server_set);
        Ok(())
    }

    /// Checks a patch, and returns the mailbox with the patch applied. Of a guest's patch, only
    /// name and parent are in the row.
    pub(super) fn plan_update(
        &self,
        txn: &Txn<'_>,
        id: &str,
        patch: &Value,
    ) -> Result<MailboxUpdate, OperationError> {
        let uid = self.resolve(id)?;
        let mut old = VisibleMailboxes::read_one(&txn.snapshot(), self.account, uid)
            .map_err(OperationError::Call)?
            .ok_or(SetError::NotFound)?;
        // `read_one` leaves the unread threads of a guest 0, but a client may send them back.
        if let Some(unread) = self.unread_threads.get(&uid) {
            old.counts.unread_threads = *unread;
        }
        let before = object(uid, &old, MailboxProperty::ALL);
        let (mut row, mut server_set, mut problems) =
            (old.clone(), Map::new(), InvalidProperties::default());
        for (property, new) in Patch::new_values(patch, &before)? {
            // A client may send back a value that the server set (RFC 8620 §5.3).
            if before.get(&property) != Some(&new) {
                self.require_property_right(&old, &property)?;
                problems.note(self.apply(&mut row, &property, &new))?;
            }
            if property == "name" && new.as_str().is_some_and(|name| name != row.name) {
                server_set.insert("name".into(), row.name.clone().into());
            }
            if property == MailboxProperty::ShareWith.name() {
                let shares = value(uid, &row, MailboxProperty::ShareWith);
                if new != shares {
                    server_set.insert(property, shares);
                }
            }
        }
        if old.role == Some(Role::Inbox) && row.role != old.role {
            problems.add("role", "the inbox keeps its role: mail is delivered to it");
        }
        problems.finish()?;
        let Some(guest) = self.account.guest else {
            return Ok(MailboxUpdate { uid, row, subscription: None, server_set });
        };
        if row.parent != old.parent {
            self.require_parent_right(txn, row.parent)?;
        }
        let subscription = Some((guest, row.subscribed));
        let stored = txn
            .snapshot()
            .mailbox(self.account.id, uid)
            .map_err(OperationError::Call)?
            .ok_or(SetError::NotFound)?;
        let row = Mailbox { name: row.name, parent: row.parent, ..stored };
        Ok(MailboxUpdate { uid, row, subscription, server_set })
    }

    fn apply(&self, row: &mut Mailbox, property: &str, value: &Value) -> Result<(), SetError> {
        let invalid = |error: MethodError| SetError::property(property, description(error));
        match MailboxProperty::from_name(property) {
            // RFC 5198 §3: Net-Unicode is in NFC.
            Some(MailboxProperty::Name) => {
                row.name = text("name", value).map_err(invalid)?.nfc().collect();
            }
            Some(MailboxProperty::ParentId) if value.is_null() => row.parent = None,
            Some(MailboxProperty::ParentId) => {
                let id = text("parentId", value).map_err(invalid)?;
                let uid = self.call.created.resolve(id).and_then(|id| id.parse().ok());
                row.parent =
                    Some(uid.ok_or_else(|| {
                        SetError::property("parentId", "there is no such mailbox")
                    })?);
            }
            Some(MailboxProperty::Role) if value.is_null() => row.role = None,
            Some(MailboxProperty::Role) => {
                let role = Role::from_name(text("role", value).map_err(invalid)?);
                row.role =
                    Some(role.ok_or_else(|| SetError::property("role", "there is no such role"))?);
            }
            // Null sets the default (RFC 8620 §5.3).
            Some(MailboxProperty::SortOrder) if value.is_null() => row.sort_order = 0,
            Some(MailboxProperty::SortOrder) => {
                let order = unsigned("sortOrder", value).map_err(invalid)?;
                // RFC 8621 §2.
                let order = u32::try_from(order).ok().filter(|order| *order < 1 << 31);
                row.sort_order = order
                    .ok_or_else(|| SetError::property("sortOrder", "less than 2^31 is expected"))?;
            }
            Some(MailboxProperty::IsSubscribed) => {
                row.subscribed = flag("isSubscribed", value).map_err(invalid)?;
            }
            Some(MailboxProperty::Attributes) if self.call.uses(ADMIN) => {
                row.attributes = attributes(value)?;
            }
            Some(MailboxProperty::ShareWith) if self.call.uses(PRINCIPALS) => {
                row.shares = self.shares(row, value)?;
            }
            _ => return Err(SetError::property(property, "it cannot be set")),
        }
        Ok(())
    }
}

/// Reads the property `attributes`: texts by name. Null stands for no attributes.
fn attributes(value: &Value) -> Result<BTreeMap<String, String>, SetError> {
    let invalid =
        || SetError::property(MailboxProperty::Attributes.name(), "an object of texts is expected");
    if value.is_null() {
        return Ok(BTreeMap::new());
    }
    let one = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    let attributes: BTreeMap<String, String> =
        value.as_object().and_then(|all| all.iter().map(one).collect()).ok_or_else(invalid)?;
    check_attributes(&attributes)
        .map_err(|what| SetError::property(MailboxProperty::Attributes.name(), what))?;
    Ok(attributes)
}

fn description(error: MethodError) -> String {
    match error {
        MethodError::InvalidArguments(what) => what,
        _ => String::new(),
    }
}
