//! The rows of the vacation response, told senders, LMTP transactions and decisions.

use super::account::{read_address, write_address};
use super::content::{read_addresses, read_person, write_addresses, write_person};
use super::script::{read_steps, write_steps};
use super::{FieldReader, FieldWriter, Row, RowError};
use crate::model::{
    Absence, ActionId, Address, Audience, BlobHash, Circle, Days, Decision, EmailId,
    ExcludedSender, UtcMillis, VacationResponse, Variant, Verdict, limits,
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
        0 => Address::parse_any_length(&input.text()?)
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
    /// When the reply was decided on, and this row written.
    pub at: UtcMillis,
    /// The envelope sender of the message that was answered.
    pub sender: Address,
    /// From when on the row is expired (`Txn::expire_told`). `None` for a reply of the response:
    /// such a row expires some time after the response ends.
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
    /// The emails that were filed, one for each version of the message, oldest first. Empty if the
    /// message was stored for none of the recipients.
    pub emails: Vec<DeliveredEmail>,
    /// The recipients of this account, in the transaction and its retries, that were accepted.
    /// Addresses are as the client wrote them, here and in `refusals`.
    pub accepted: Vec<Address>,
    /// The refusals by scripts, each text once.
    pub refusals: Vec<ScriptRefusal>,
    /// When the transaction was first served.
    pub at: UtcMillis,
}

/// An email that a transaction filed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveredEmail {
    pub email: EmailId,
    /// The version of the message that a script made; `None` is the message as received.
    pub version: Option<BlobHash>,
}

/// The recipients for whom a script refused the message with the same text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptRefusal {
    pub text: String,
    pub recipients: Vec<Address>,
}

/// What became of a message for one recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecipientOutcome<'a> {
    Accepted,
    /// A script refused the message, with this text.
    Refused(&'a str),
}

impl DeliveredEmail {
    /// An email with the message as received.
    #[must_use]
    pub fn received(email: EmailId) -> Self {
        Self { email, version: None }
    }
}

impl DeliveryRow {
    /// Whether a retry is answered from the row, and not served again.
    #[must_use]
    pub fn is_valid(&self, now: UtcMillis) -> bool {
        self.at.after(limits::DELIVERY_RETENTION) > now
    }

    /// Returns the first email that was filed; `None` if the message was stored for nobody.
    #[must_use]
    pub fn first_email(&self) -> Option<EmailId> {
        self.emails.first().map(|filed| filed.email)
    }

    /// Returns what became of a recipient; `None` if the transaction was not served for it, or the
    /// row had no room for it.
    #[must_use]
    pub fn outcome(&self, address: &Address) -> Option<RecipientOutcome<'_>> {
        if self.accepted.contains(address) {
            return Some(RecipientOutcome::Accepted);
        }
        let refusal = self.refusals.iter().find(|refusal| refusal.recipients.contains(address));
        refusal.map(|refusal| RecipientOutcome::Refused(&refusal.text))
    }

    /// Adds an email, unless the row has one with the same version, or has
    /// `limits::MAX_DELIVERY_RECIPIENTS` emails.
    pub fn add_email(&mut self, filed: DeliveredEmail) {
        let is_known = self.emails.iter().any(|known| known.version == filed.version);
        if !is_known && self.emails.len() < limits::MAX_DELIVERY_RECIPIENTS {
            self.emails.push(filed);
        }
    }

    /// Adds a recipient. Leaves it out if the row has it, if the row has
    /// `limits::MAX_DELIVERY_RECIPIENTS` recipients, or if a new text of a refusal would bring the
    /// texts over `limits::MAX_DELIVERY_REFUSAL_BYTES`.
    pub fn add_recipient(&mut self, address: &Address, outcome: RecipientOutcome<'_>) {
        let refused: usize = self.refusals.iter().map(|refusal| refusal.recipients.len()).sum();
        let count = self.accepted.len().saturating_add(refused);
        if count >= limits::MAX_DELIVERY_RECIPIENTS || self.outcome(address).is_some() {
            return;
        }
        let text = match outcome {
            RecipientOutcome::Accepted => return self.accepted.push(address.clone()),
            RecipientOutcome::Refused(text) => text,
        };
        if let Some(known) = self.refusals.iter_mut().find(|refusal| refusal.text == text) {
            return known.recipients.push(address.clone());
        }
        let bytes: usize = self.refusals.iter().map(|refusal| refusal.text.len()).sum();
        if bytes.saturating_add(text.len()) <= limits::MAX_DELIVERY_REFUSAL_BYTES {
            self.refusals
                .push(ScriptRefusal { text: text.into(), recipients: vec![address.clone()] });
        }
    }
}

impl Row for DeliveryRow {
    const TABLE: Table = Table::Deliveries;
    /// Version 2 has refusals by scripts, and several emails.
    const VERSION: u8 = 2;

    fn write(&self, out: &mut FieldWriter) {
        out.list(self.emails.iter(), |out, filed| {
            out.num(filed.email.0);
            out.option(filed.version.as_ref(), |out, blob| out.fixed(&blob.0));
        });
        out.list(self.accepted.iter(), write_address);
        out.list(self.refusals.iter(), |out, refusal| {
            out.text(&refusal.text);
            out.list(refusal.recipients.iter(), write_address);
        });
        out.signed(self.at.0);
    }

    fn read(input: &mut FieldReader<'_>, version: u8) -> Result<Self, RowError> {
        let id = |input: &mut FieldReader<'_>| Ok(EmailId(input.num()?));
        Ok(Self {
            emails: if version < 2 {
                input.option(id)?.map(DeliveredEmail::received).into_iter().collect()
            } else {
                input.list(|input| {
                    let email = id(input)?;
                    let version = input.option(|input| Ok(BlobHash(input.fixed()?)))?;
                    Ok(DeliveredEmail { email, version })
                })?
            },
            accepted: input.list(read_address)?,
            refusals: if version < 2 {
                Vec::new()
            } else {
                input.list(|input| {
                    Ok(ScriptRefusal { text: input.text()?, recipients: input.list(read_address)? })
                })?
            },
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
