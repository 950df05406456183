//! Queued actions and served transactions: in the same commit as what gave rise to them.

use super::Txn;
use crate::model::{Action, ActionId, Address, DataType, EmailId};
use crate::store::engine::Table;
use crate::store::error::Error;
use crate::store::key;
use crate::store::row::Delivery;

impl Txn<'_> {
    /// Queues an action under a new id; the one that it has is not looked at.
    pub fn queue_action(&mut self, action: Action) -> ActionId {
        self.state.last_action += 1;
        let action = Action { id: ActionId(self.state.last_action), ..action };
        self.next_modseq();
        self.write_action(&action);
        action.id
    }

    /// Changes a queued action.
    ///
    /// # Errors
    /// `NotFound` where it was removed meanwhile.
    pub fn update_action(&mut self, action: &Action) -> Result<(), Error> {
        let old = self.action(action.id)?;
        self.delete(Table::OutboxDue, key::due(old.due, self.account, old.id));
        self.next_modseq();
        self.write_action(action);
        Ok(())
    }

    /// Removes a queued action, and gives it back.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn remove_action(&mut self, id: ActionId) -> Result<Action, Error> {
        let old = self.action(id)?;
        self.next_modseq();
        self.delete(Table::OutboxDue, key::due(old.due, self.account, id));
        self.delete(Table::Outbox, key::action(self.account, id));
        self.touch(DataType::Outbox);
        Ok(old)
    }

    /// A queued action.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn action(&self, id: ActionId) -> Result<Action, Error> {
        self.row::<Action>(&key::action(self.account, id))?.ok_or(Error::NotFound("action"))
    }

    fn write_action(&mut self, action: &Action) {
        self.put_row(key::action(self.account, action.id), action);
        self.put(Table::OutboxDue, key::due(action.due, self.account, action.id), vec![1]);
        self.touch(DataType::Outbox);
    }

    /// Whether this transaction was served before: a retry is answered, not repeated.
    ///
    /// # Errors
    /// Those of reading.
    pub fn delivery(&self, hash: &[u8; 32]) -> Result<Option<Delivery>, Error> {
        self.row::<Delivery>(&key::delivery(self.account, hash))
    }

    /// Remembers that a transaction was served for these recipients; those of an earlier serving stay.
    ///
    /// # Errors
    /// Those of reading.
    pub fn remember_delivery(
        &mut self,
        hash: &[u8; 32],
        email: Option<EmailId>,
        recipients: &[Address],
    ) -> Result<(), Error> {
        let known = self.delivery(hash)?;
        let mut row = match known.clone() {
            Some(known) => known,
            None => Delivery { email, recipients: Vec::new(), at: self.now },
        };
        for recipient in recipients {
            if !row.recipients.contains(recipient) {
                row.recipients.push(recipient.clone());
            }
        }
        if known.as_ref() != Some(&row) {
            if known.is_none() {
                self.put(Table::DeliveryByTime, key::delivery_by_time(self.account, row.at, hash), vec![1]);
            }
            self.put_row(key::delivery(self.account, hash), &row);
        }
        Ok(())
    }
}
