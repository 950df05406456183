//! The rows of the vacation response and of what deliveries leave.

use super::account::{read_address, write_address};
use super::content::{read_addresses, read_person, write_addresses, write_person};
use super::script::{read_steps, write_steps};
use super::{FieldReader, FieldWriter, Row, RowError};
use crate::model::{
    Absence, ActionId, Address, Audience, Circle, Days, Decision, EmailId, ExcludedSender,
    UtcMillis, VacationResponse, Variant, Verdict, limits,
};
use crate::store::engine::Table;

impl Row for VacationResponse {
    const TABLE: Table = Table::Vacation;

    fn write(&self, out: &mut FieldWriter) {
        out.bool(self.enabled);
        write_time(out, self.from_date);
        write_time(out, self.to_date);
        out.maybe_text(self.subject.as_ref());
        out.maybe_text(self.text_body.as_ref());
        out.maybe_text(self.html_body.as_ref());
        out.option(self.from.as_ref(), write_person);
        out.option(self.reply_to.as_ref(), write_person);
        write_addresses(out, &self.addresses);
        out.num(self.generation);
        out.list(self.except.iter(), |out, excluded| {
            let (kind, text) = match excluded {
                ExcludedSender::Address(address) => (0u8, address.to_string()),
                ExcludedSender::Domain(domain) => (1, domain.clone()),
            };
            out.num(kind);
            out.text(&text);
        });
        out.num(match self.audience {
            Audience::Everyone => 0u8,
            Audience::Known => 1,
            Audience::Organisation => 2,
        });
        out.list(self.organisation.iter(), |out, domain| out.text(domain));
        out.maybe_text(self.language.as_ref());
        out.list(self.variants.iter(), write_variant);
        out.list(self.days.iter(), |out, days| match days {
            Days::Weekday(day) => out.fixed(&[0, *day, 0]),
            Days::Monthdays(first, last) => out.fixed(&[1, *first, *last]),
        });
        out.bool(self.copies);
        out.bool(self.report);
        write_time(out, self.absence.began);
        write_time(out, self.absence.ended);
        out.bool(self.absence.reported);
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        Ok(Self {
            enabled: input.bool()?,
            from_date: read_time(input)?,
            to_date: read_time(input)?,
            subject: input.option(FieldReader::text)?,
            text_body: input.option(FieldReader::text)?,
            html_body: input.option(FieldReader::text)?,
            from: input.option(read_person)?,
            reply_to: input.option(read_person)?,
            addresses: read_addresses(input)?,
            generation: input.num32()?,
            except: input.list(read_excluded_sender)?,
            audience: match input.num()? {
                0 => Audience::Everyone,
                1 => Audience::Known,
                2 => Audience::Organisation,
                _ => return Err(RowError("unknown audience")),
            },
            organisation: input.list(FieldReader::text)?,
            language: input.option(FieldReader::text)?,
            variants: input.list(read_variant)?,
            days: input.list(|input| match input.fixed()? {
                [0, day, 0] => Ok(Days::Weekday(day)),
                [1, first, last] => Ok(Days::Monthdays(first, last)),
                _ => Err(RowError("unknown kind of days")),
            })?,
            copies: input.bool()?,
            report: input.bool()?,
            absence: Absence {
                began: read_time(input)?,
                ended: read_time(input)?,
                reported: input.bool()?,
            },
        })
    }
}

fn write_time(out: &mut FieldWriter, at: Option<UtcMillis>) {
    out.option(at.as_ref(), |out, at| out.signed(at.0));
}

fn read_time(input: &mut FieldReader<'_>) -> Result<Option<UtcMillis>, RowError> {
    input.option(|input| Ok(UtcMillis(input.signed()?)))
}

fn write_variant(out: &mut FieldWriter, variant: &Variant) {
    out.maybe_text(variant.language.as_ref());
    out.num(match variant.circle {
        None => 0u8,
        Some(Circle::Organisation) => 1,
        Some(Circle::Outside) => 2,
    });
    for text in [&variant.subject, &variant.text_body, &variant.html_body] {
        out.maybe_text(text.as_ref());
    }
}

fn read_variant(input: &mut FieldReader<'_>) -> Result<Variant, RowError> {
    Ok(Variant {
        language: input.option(FieldReader::text)?,
        circle: match input.num()? {
            0 => None,
            1 => Some(Circle::Organisation),
            2 => Some(Circle::Outside),
            _ => return Err(RowError("unknown circle")),
        },
        subject: input.option(FieldReader::text)?,
        text_body: input.option(FieldReader::text)?,
        html_body: input.option(FieldReader::text)?,
    })
}

fn read_excluded_sender(input: &mut FieldReader<'_>) -> Result<ExcludedSender, RowError> {
    match input.num()? {
        0 => Address::parse(&input.text()?)
            .map(ExcludedSender::Address)
            .map_err(|_| RowError("invalid address of an excluded sender")),
        1 => Ok(ExcludedSender::Domain(input.text()?)),
        _ => Err(RowError("unknown kind of excluded sender")),
    }
}

/// A row of `vacation_told`: a sender who was sent a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldRow {
    /// The generation of the response; `None` if a Sieve script sent the reply.
    pub generation: Option<u32>,
    pub at: UtcMillis,
    /// The envelope sender of the message that was answered.
    pub sender: Address,
    /// When the row expires (`Txn::expire_told`). `None` for a reply of the response: such a row
    /// expires after the response ends.
    pub until: Option<UtcMillis>,
}

impl Row for ToldRow {
    const TABLE: Table = Table::VacationTold;

    fn write(&self, out: &mut FieldWriter) {
        out.option(self.generation.as_ref(), |out, generation| out.num(*generation));
        out.signed(self.at.0);
        write_address(out, &self.sender);
        write_time(out, self.until);
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        Ok(Self {
            generation: input.option(FieldReader::num32)?,
            at: UtcMillis(input.signed()?),
            sender: read_address(input)?,
            until: read_time(input)?,
        })
    }
}

/// A row of `deliveries`: an LMTP transaction that was served for this account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    /// The first email that was filed; `None` if none was, for any of the recipients.
    pub email: Option<EmailId>,
    /// The recipients of this account in the transaction and its retries.
    pub recipients: Vec<ServedRecipient>,
    /// When the transaction was first served.
    pub at: UtcMillis,
}

/// A recipient for whom a transaction was served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedRecipient {
    /// The address as the client wrote it.
    pub address: Address,
    /// The text with which a script refused the message; `None` if it was accepted.
    pub refusal: Option<String>,
}

impl DeliveryRow {
    /// Whether a retry is answered from the row, and not served again.
    #[must_use]
    pub fn is_valid(&self, now: UtcMillis) -> bool {
        self.at.after(limits::DELIVERY_RETENTION) > now
    }

    /// Returns what became of a recipient; `None` if the transaction was not served for it.
    #[must_use]
    pub fn recipient(&self, address: &Address) -> Option<&ServedRecipient> {
        self.recipients.iter().find(|served| served.address == *address)
    }
}

impl Row for DeliveryRow {
    const TABLE: Table = Table::Deliveries;
    /// Version 2 has refusals by scripts.
    const VERSION: u8 = 2;

    fn write(&self, out: &mut FieldWriter) {
        out.option(self.email.as_ref(), |out, email| out.num(email.0));
        out.list(self.recipients.iter(), |out, served| {
            write_address(out, &served.address);
            out.maybe_text(served.refusal.as_ref());
        });
        out.signed(self.at.0);
    }

    fn read(input: &mut FieldReader<'_>, version: u8) -> Result<Self, RowError> {
        Ok(Self {
            email: input.option(|input| Ok(EmailId(input.num()?)))?,
            recipients: input.list(|input| {
                Ok(ServedRecipient {
                    address: read_address(input)?,
                    refusal: if version < 2 { None } else { input.option(FieldReader::text)? },
                })
            })?,
            at: UtcMillis(input.signed()?),
        })
    }
}

impl Row for Decision {
    const TABLE: Table = Table::Decisions;
    /// Version 2 has decisions without an email, and what scripts did.
    const VERSION: u8 = 2;

    fn write(&self, out: &mut FieldWriter) {
        out.signed(self.at.0);
        out.option(self.email.as_ref(), |out, email| out.num(email.0));
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
        write_steps(out, &self.steps);
    }

    fn read(input: &mut FieldReader<'_>, version: u8) -> Result<Self, RowError> {
        let email = |input: &mut FieldReader<'_>| Ok(EmailId(input.num()?));
        Ok(Self {
            at: UtcMillis(input.signed()?),
            email: if version < 2 { Some(email(input)?) } else { input.option(email)? },
            sender: input.option(read_address)?,
            recipient: read_address(input)?,
            verdict: if input.bool()? {
                Verdict::Answered(ActionId(input.num()?))
            } else {
                Verdict::Silent { reason: input.text()?, detail: input.text()? }
            },
            steps: if version < 2 { Vec::new() } else { read_steps(input)? },
        })
    }
}
