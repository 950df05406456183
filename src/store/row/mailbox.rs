//! Mailboxes.

use super::{Bad, Reader, Row, Writer};
use crate::model::{Counts, Mailbox, MailboxUid, ModSeq, Role};
use crate::store::engine::Table;

impl Row for Mailbox {
    const TABLE: Table = Table::Mailboxes;

    fn write(&self, out: &mut Writer) {
        out.text(&self.name);
        out.option(self.parent.as_ref(), |out, uid| out.num(uid.0));
        out.option(self.role.as_ref(), |out, role| out.num(role.number()));
        out.num(self.sort_order);
        out.num(self.rights);
        out.bool(self.subscribed);
        let counts = &self.counts;
        for count in [counts.total_emails, counts.unread_emails, counts.total_threads, counts.unread_threads] {
            out.num(count);
        }
        for mark in [self.created, self.updated, self.updated_not_counts] {
            out.num(mark.0);
        }
        out.bool(self.deleted);
    }

    fn read(input: &mut Reader<'_>, _version: u8) -> Result<Self, Bad> {
        Ok(Self {
            name: input.text()?,
            parent: input.option(|input| Ok(MailboxUid(input.num32()?)))?,
            role: input.option(|input| {
                let number = u8::try_from(input.num()?).ok();
                number.and_then(Role::from_number).ok_or(Bad("unknown role"))
            })?,
            sort_order: input.num32()?,
            rights: u16::try_from(input.num()?).map_err(|_| Bad("unknown rights"))?,
            subscribed: input.bool()?,
            counts: Counts {
                total_emails: input.num()?,
                unread_emails: input.num()?,
                total_threads: input.num()?,
                unread_threads: input.num()?,
            },
            created: ModSeq(input.num()?),
            updated: ModSeq(input.num()?),
            updated_not_counts: ModSeq(input.num()?),
            deleted: input.bool()?,
        })
    }
}
