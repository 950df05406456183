//! The rows of mailboxes, and lists of maintained listings.

use super::{FieldReader, FieldWriter, Row, RowError};
use crate::model::{
    AccountId, EmailId, ListingFilter, ListingStage, ListingStats, Mailbox, MailboxCounts,
    MailboxUid, MaintainedListing, ModSeq, Role, UtcMillis,
};
use crate::store::engine::Table;

impl Row for Mailbox {
    const TABLE: Table = Table::Mailboxes;

    fn write(&self, out: &mut FieldWriter) {
        out.text(&self.name);
        out.option(self.parent.as_ref(), |out, uid| out.num(uid.0));
        out.option(self.role.as_ref(), |out, role| out.num(role.number()));
        out.num(self.sort_order);
        out.num(self.rights);
        out.bool(self.subscribed);
        out.list(self.attributes.iter(), |out, (name, value)| {
            out.text(name);
            out.text(value);
        });
        out.list(self.shares.iter(), |out, (with, rights)| {
            out.num(with.0);
            out.num(*rights);
        });
        let counts = &self.counts;
        for count in
            [counts.total_emails, counts.unread_emails, counts.total_threads, counts.unread_threads]
        {
            out.num(count);
        }
        for mark in [self.created, self.updated, self.updated_not_counts, self.updated_shares] {
            out.num(mark.0);
        }
        out.bool(self.destroyed);
        write_listings(out, &self.listings);
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        Ok(Self {
            name: input.text()?,
            parent: input.option(|input| Ok(MailboxUid(input.num32()?)))?,
            role: input.option(|input| {
                let number = u8::try_from(input.num()?).ok();
                number.and_then(Role::from_number).ok_or(RowError("unknown role"))
            })?,
            sort_order: input.num32()?,
            rights: u16::try_from(input.num()?).map_err(|_| RowError("unknown rights"))?,
            subscribed: input.bool()?,
            attributes: input.list(|input| Ok((input.text()?, input.text()?)))?,
            shares: input.list(|input| {
                let with = AccountId(input.num32()?);
                Ok((with, u16::try_from(input.num()?).map_err(|_| RowError("unknown rights"))?))
            })?,
            counts: MailboxCounts {
                total_emails: input.num()?,
                unread_emails: input.num()?,
                total_threads: input.num()?,
                unread_threads: input.num()?,
            },
            created: ModSeq(input.num()?),
            updated: ModSeq(input.num()?),
            updated_not_counts: ModSeq(input.num()?),
            updated_shares: ModSeq(input.num()?),
            destroyed: input.bool()?,
            listings: read_listings(input)?,
        })
    }
}

/// Writes maintained listings: those of a mailbox into its row, those of all mail into the state
/// row of the account.
pub(super) fn write_listings(out: &mut FieldWriter, listings: &[MaintainedListing]) {
    out.list(listings.iter(), |out, listing| {
        out.num(listing.filter as u8);
        let (stage, upto) = match listing.stage {
            ListingStage::Complete => (0u8, 0),
            ListingStage::Filling(EmailId(upto)) => (1, upto),
            ListingStage::Dropping => (2, 0),
        };
        out.num(stage);
        out.num(upto);
        out.signed(listing.last_used.0);
        for stats in [listing.emails, listing.threads] {
            out.num(stats.total);
            out.bool(stats.is_ranked());
            out.num(stats.front.unwrap_or(EmailId(0)).0);
            out.num(stats.low.0);
        }
    });
}

pub(super) fn read_listings(
    input: &mut FieldReader<'_>,
) -> Result<Vec<MaintainedListing>, RowError> {
    let stats = |input: &mut FieldReader<'_>| {
        let (total, ranked, front) = (input.num()?, input.bool()?, EmailId(input.num()?));
        let front = match (ranked, front) {
            (true, front) => Some(front),
            (false, EmailId(0)) => None,
            (false, _) => return Err(RowError("the front of ranks that do not exist")),
        };
        Ok(ListingStats { total, front, low: ModSeq(input.num()?) })
    };
    input.list(|input| {
        Ok(MaintainedListing {
            filter: u8::try_from(input.num()?)
                .ok()
                .and_then(ListingFilter::from_number)
                .ok_or(RowError("unknown listing filter"))?,
            stage: match (input.num()?, EmailId(input.num()?)) {
                (0, EmailId(0)) => ListingStage::Complete,
                (1, upto) => ListingStage::Filling(upto),
                (2, EmailId(0)) => ListingStage::Dropping,
                _ => return Err(RowError("unknown stage of a listing")),
            },
            last_used: UtcMillis(input.signed()?),
            emails: stats(input)?,
            threads: stats(input)?,
        })
    })
}
