//! The vacation response, who was told, what was decided, and which transactions were served.

use super::account::{read_address, write_address};
use super::content::{read_addresses, read_person, write_addresses, write_person};
use super::{Bad, Reader, Row, Writer};
use crate::model::{ActionId, Address, Decision, EmailId, Except, UtcMillis, VacationResponse, Verdict};
use crate::store::engine::Table;

impl Row for VacationResponse {
    const TABLE: Table = Table::Vacation;
    /// 2 has who is never answered.
    const VERSION: u8 = 2;

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
        out.list(self.except.iter(), |out, except| {
            let (kind, text) = match except {
                Except::Address(address) => (0u8, address.to_string()),
                Except::Domain(domain) => (1, domain.clone()),
            };
            out.num(kind);
            out.text(&text);
        });
    }

    fn read(input: &mut Reader<'_>, version: u8) -> Result<Self, Bad> {
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
            except: if version >= 2 { input.list(read_except)? } else { Vec::new() },
        })
    }
}

fn read_except(input: &mut Reader<'_>) -> Result<Except, Bad> {
    match input.num()? {
        0 => Address::parse(&input.text()?).map(Except::Address).map_err(|_| Bad("no address")),
        1 => Ok(Except::Domain(input.text()?)),
        _ => Err(Bad("unknown kind of exception")),
    }
}

/// `vacation_told`: in which generation of the response, when, and who.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Generation of the response.
    pub generation: u32,
    /// When.
    pub at: UtcMillis,
    /// Who, as the envelope had it; rows of version 1 did not keep it.
    pub sender: Option<Address>,
}

impl Row for Told {
    const TABLE: Table = Table::VacationTold;
    /// 2 has the sender.
    const VERSION: u8 = 2;

    fn write(&self, out: &mut Writer) {
        out.num(self.generation);
        out.signed(self.at.0);
        out.option(self.sender.as_ref(), write_address);
    }

    fn read(input: &mut Reader<'_>, version: u8) -> Result<Self, Bad> {
        Ok(Self {
            generation: input.num32()?,
            at: UtcMillis(input.signed()?),
            sender: if version >= 2 { input.option(read_address)? } else { None },
        })
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
