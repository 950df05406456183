//! The vacation response, who was told, what was decided, and which transactions were served.

use super::account::{read_address, write_address};
use super::content::{read_addresses, read_person, write_addresses, write_person};
use super::{Bad, Reader, Row, Writer};
use crate::model::{ActionId, Address, Decision, EmailId, UtcMillis, VacationResponse, Verdict};
use crate::store::engine::Table;

impl Row for VacationResponse {
    const TABLE: Table = Table::Vacation;

    fn write(&self, out: &mut Writer) {
        out.bool(self.enabled);
        out.option(self.from_date.as_ref(), |out, at| out.signed(at.0));
        out.option(self.to_date.as_ref(), |out, at| out.signed(at.0));
        out.maybe_text(self.subject.as_ref());
        out.maybe_text(self.text_body.as_ref());
        out.maybe_text(self.html_body.as_ref());
        out.option(self.from.as_ref(), write_person);
        out.option(self.reply_to.as_ref(), write_person);
        write_addresses(out, &self.addresses);
        out.num(self.generation);
    }

    fn read(input: &mut Reader<'_>, _version: u8) -> Result<Self, Bad> {
        let at = |input: &mut Reader<'_>| Ok(UtcMillis(input.signed()?));
        Ok(Self {
            enabled: input.bool()?,
            from_date: input.option(at)?,
            to_date: input.option(at)?,
            subject: input.option(Reader::text)?,
            text_body: input.option(Reader::text)?,
            html_body: input.option(Reader::text)?,
            from: input.option(read_person)?,
            reply_to: input.option(read_person)?,
            addresses: read_addresses(input)?,
            generation: input.num32()?,
        })
    }
}

/// `vacation_told`: in which generation of the response, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// Generation of the response.
    pub generation: u32,
    /// When.
    pub at: UtcMillis,
}

impl Row for Told {
    const TABLE: Table = Table::VacationTold;

    fn write(&self, out: &mut Writer) {
        out.num(self.generation);
        out.signed(self.at.0);
    }

    fn read(input: &mut Reader<'_>, _version: u8) -> Result<Self, Bad> {
        Ok(Self { generation: input.num32()?, at: UtcMillis(input.signed()?) })
    }
}

/// `deliveries`: a transaction that was served for this account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The email that it made; `None` where it was discarded.
    pub email: Option<EmailId>,
    /// The recipients, as addressed, that it was served for.
    pub recipients: Vec<Address>,
    /// When.
    pub at: UtcMillis,
}

impl Row for Delivery {
    const TABLE: Table = Table::Deliveries;

    fn write(&self, out: &mut Writer) {
        out.option(self.email.as_ref(), |out, email| out.num(email.0));
        write_addresses(out, &self.recipients);
        out.signed(self.at.0);
    }

    fn read(input: &mut Reader<'_>, _version: u8) -> Result<Self, Bad> {
        Ok(Self {
            email: input.option(|input| Ok(EmailId(input.num()?)))?,
            recipients: read_addresses(input)?,
            at: UtcMillis(input.signed()?),
        })
    }
}

impl Row for Decision {
    const TABLE: Table = Table::Decisions;

    fn write(&self, out: &mut Writer) {
        out.signed(self.at.0);
        out.num(self.email.0);
        out.option(self.sender.as_ref(), write_address);
        write_address(out, &self.recipient);
        match &self.verdict {
            Verdict::Answered(action) => {
                out.bool(true);
                out.num(action.0);
            }
            Verdict::Silent { reason, detail } => {
                out.bool(false);
                out.text(reason);
                out.text(detail);
            }
        }
    }

    fn read(input: &mut Reader<'_>, _version: u8) -> Result<Self, Bad> {
        Ok(Self {
            at: UtcMillis(input.signed()?),
            email: EmailId(input.num()?),
            sender: input.option(read_address)?,
            recipient: read_address(input)?,
            verdict: if input.bool()? {
                Verdict::Answered(ActionId(input.num()?))
            } else {
                Verdict::Silent { reason: input.text()?, detail: input.text()? }
            },
        })
    }
}
