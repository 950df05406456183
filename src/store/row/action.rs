//! Queued actions.

use super::account::{read_address, write_address};
use super::{Bad, Reader, Row, Writer};
use crate::model::{Action, ActionId, ActionKind, ActionState, EmailId, ToldKey, UtcMillis};
use crate::store::engine::Table;

impl Row for Action {
    const TABLE: Table = Table::Outbox;

    fn write(&self, out: &mut Writer) {
        out.num(self.id.0);
        out.num(match self.kind {
            ActionKind::Reply => 0u8,
            ActionKind::Notification => 1,
        });
        out.num(match self.state {
            ActionState::Waiting => 0u8,
            ActionState::Attempting => 1,
            ActionState::Held => 2,
        });
        for at in [self.created, self.due, self.expires] {
            out.signed(at.0);
        }
        out.num(self.attempts);
        out.maybe_text(self.last_error.as_ref());
        out.option(self.sender.as_ref(), write_address);
        write_address(out, &self.recipient);
        out.bool(self.notify_never);
        out.option(self.email.as_ref(), |out, email| out.num(email.0));
        out.option(self.told.as_ref(), |out, key| out.fixed(&key.0));
        out.text(&self.message_id);
        out.bytes(&self.message);
    }

    fn read(input: &mut Reader<'_>, _version: u8) -> Result<Self, Bad> {
        let at = |input: &mut Reader<'_>| Ok(UtcMillis(input.signed()?));
        Ok(Self {
            id: ActionId(input.num()?),
            kind: match input.num()? {
                0 => ActionKind::Reply,
                1 => ActionKind::Notification,
                _ => return Err(Bad("unknown kind of action")),
            },
            state: match input.num()? {
                0 => ActionState::Waiting,
                1 => ActionState::Attempting,
                2 => ActionState::Held,
                _ => return Err(Bad("unknown state of an action")),
            },
            created: at(input)?,
            due: at(input)?,
            expires: at(input)?,
            attempts: input.num32()?,
            last_error: input.option(Reader::text)?,
            sender: input.option(read_address)?,
            recipient: read_address(input)?,
            notify_never: input.bool()?,
            email: input.option(|input| Ok(EmailId(input.num()?)))?,
            told: input.option(|input| Ok(ToldKey(input.fixed()?)))?,
            message_id: input.text()?,
            message: input.bytes()?.to_vec(),
        })
    }
}
