//! The rows of an email's content and of its search tokens. Each has a part that all recipients of
//! the message share.

use std::borrow::Cow;

use super::account::{read_address, write_address};
use super::words::{read_wanted_words, read_words, write_words};
use super::{FieldReader, FieldWriter, RowError, decode_with};
use crate::model::{
    Address, BlobHash, DeliveredTo, EmailAddress, EmailContent, MessageRows, PartOffsets, SentAt,
    ThreadKey, Tokens, UtcMillis, WantedTokens, field,
};
use crate::store::engine::Table;
use crate::store::error::Error;

/// The version of `email_content` rows, whose layout never changed. It says by which rules this row
/// and the email's tokens were made:
/// - 2 has better rules than 1 for charsets, addresses, transfer encodings, and where a header
///   begins;
/// - 3 has the address of the delivery in the tokens, and reads an address on behalf of another as
///   one mailbox.
const CONTENT_VERSION: u8 = 3;
/// The newest version whose rules changed the content, and not only the tokens.
const CONTENT_RULES_VERSION: u8 = 3;
/// The version of `email_tokens` rows:
/// - 2 has the address of this email's delivery before the shared part;
/// - 3 has an index of the words, by which a search finds one.
const TOKENS_VERSION: u8 = 3;
/// The first version of `email_tokens` rows that has the address of the delivery.
const DELIVERY_VERSION: u8 = 2;

/// The encoded parts of a message's rows that all recipients share, without its bytes.
#[derive(Debug, Clone)]
pub struct EncodedMessage {
    /// The hash of the message as received.
    pub blob: BlobHash,
    /// The number of bytes of the message as received.
    pub size: u64,
    pub thread_keys: Vec<ThreadKey>,
    /// The shared part for `encode_content`.
    pub content: Vec<u8>,
    /// The shared part for `encode_tokens`.
    pub tokens: Vec<u8>,
}

impl EncodedMessage {
    #[must_use]
    pub fn new(rows: &MessageRows) -> Self {
        let mut content = FieldWriter(Vec::with_capacity(512));
        write_content(&mut content, &rows.content);
        let mut tokens = FieldWriter(Vec::with_capacity(4096));
        write_words(&mut tokens, &rows.tokens.words);
        write_texts(&mut tokens, &rows.tokens.texts);
        Self {
            blob: rows.blob,
            size: rows.size,
            thread_keys: rows.thread_keys.clone(),
            content: content.0,
            tokens: tokens.0,
        }
    }
}

/// Returns a row of `email_content`: the version, this email's trace prefix, the shared part.
#[must_use]
pub fn encode_content(prefix: &[u8], shared: &[u8]) -> Vec<u8> {
    let mut out = FieldWriter::new(CONTENT_VERSION);
    out.bytes(prefix);
    out.fixed(shared);
    out.0
}

/// Returns a row of `email_tokens`: the version, the address to which this email was delivered, by
/// its trace prefix, and the shared part.
#[must_use]
pub fn encode_tokens(prefix: &[u8], shared: &[u8]) -> Vec<u8> {
    let mut out = FieldWriter::new(TOKENS_VERSION);
    out.maybe_text(DeliveredTo::parse(prefix).search_text().as_ref());
    out.fixed(shared);
    out.0
}

/// Returns the trace prefix and the content.
///
/// # Errors
/// `Corrupt`.
pub fn decode_content(key: &[u8], bytes: &[u8]) -> Result<(Vec<u8>, EmailContent), Error> {
    decode_with(Table::EmailContent, key, bytes, CONTENT_VERSION, |input, _| {
        Ok((input.bytes()?.to_vec(), read_content(input)?))
    })
}

/// Returns the trace prefix of an `email_content` row, even if the rest cannot be decoded; `None`
/// if the prefix or the version cannot be read.
#[must_use]
pub fn content_prefix(bytes: &[u8]) -> Option<Vec<u8>> {
    let (version, rest) = bytes.split_first()?;
    let prefix = FieldReader(rest).bytes().ok();
    prefix.filter(|_| (1..=CONTENT_VERSION).contains(version)).map(<[u8]>::to_vec)
}

/// Whether an `email_content` row was made by older rules for the content than this version has.
#[must_use]
pub fn is_content_outdated(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|version| (1..CONTENT_RULES_VERSION).contains(version))
}

/// Whether the tokens of an email with this `email_content` row may have been made by older rules
/// than this version has.
#[must_use]
pub fn are_tokens_outdated(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|version| (1..CONTENT_VERSION).contains(version))
}

/// Returns the tokens of a row. The words ascend by hash, and the texts by their bytes. A row of
/// version 1 lacks the address of the delivery, so its texts say that the address is unclear.
pub fn decode_tokens(key: &[u8], bytes: &[u8]) -> Result<Tokens, Error> {
    decode_with(Table::EmailTokens, key, bytes, TOKENS_VERSION, |input, version| {
        let delivered_to = read_delivered_to(input, version)?;
        let words = read_words(input, version)?;
        Ok(Tokens { words, texts: read_texts(input, delivered_to)? })
    })
}

/// Returns those tokens of a row that a search asks for. The rest of the row is hardly read, so
/// damage there is not noticed: see `decode_tokens`, which folding and checks use.
pub fn decode_wanted_tokens(
    key: &[u8],
    bytes: &[u8],
    wanted: &WantedTokens,
) -> Result<Tokens, Error> {
    decode_with(Table::EmailTokens, key, bytes, TOKENS_VERSION, |input, version| {
        let delivered_to = read_delivered_to(input, version)?;
        let words = read_wanted_words(input, version, &wanted.words)?;
        let texts = if wanted.texts { read_texts(input, delivered_to)? } else { Vec::new() };
        input.0 = &[];
        Ok(Tokens { words, texts })
    })
}

pub(super) fn write_people(out: &mut FieldWriter, people: &[EmailAddress]) {
    out.list(people.iter(), write_person);
}

pub(super) fn write_person(out: &mut FieldWriter, person: &EmailAddress) {
    out.maybe_text(person.name.as_ref());
    out.text(&person.email);
}

pub(super) fn read_person(input: &mut FieldReader<'_>) -> Result<EmailAddress, RowError> {
    Ok(EmailAddress { name: input.option(FieldReader::text)?, email: input.text()? })
}

pub(super) fn read_people(input: &mut FieldReader<'_>) -> Result<Vec<EmailAddress>, RowError> {
    input.list(read_person)
}

pub(super) fn write_addresses(out: &mut FieldWriter, addresses: &[Address]) {
    out.list(addresses.iter(), write_address);
}

pub(super) fn read_addresses(input: &mut FieldReader<'_>) -> Result<Vec<Address>, RowError> {
    input.list(read_address)
}

fn write_content(out: &mut FieldWriter, content: &EmailContent) {
    for people in
        [&content.from, &content.to, &content.cc, &content.bcc, &content.sender, &content.reply_to]
    {
        write_people(out, people);
    }
    out.num(content.empty_fields);
    out.maybe_text(content.subject.as_ref());
    out.option(content.sent_at.as_ref(), |out, sent| {
        out.signed(sent.at.0);
        out.signed(i64::from(sent.offset_minutes));
    });
    for ids in [&content.message_id, &content.in_reply_to, &content.references] {
        out.list(ids.iter(), |out, id| out.text(id));
    }
    out.text(&content.preview);
    out.bool(content.has_attachment);
    out.list(content.parts.iter(), |out, part| {
        out.num(part.header);
        out.num(part.body.saturating_sub(part.header));
        out.num(part.end.saturating_sub(part.body));
        out.num(part.encoding);
    });
}

fn read_content(input: &mut FieldReader<'_>) -> Result<EmailContent, RowError> {
    let ids = |input: &mut FieldReader<'_>| input.list(FieldReader::text);
    Ok(EmailContent {
        from: read_people(input)?,
        to: read_people(input)?,
        cc: read_people(input)?,
        bcc: read_people(input)?,
        sender: read_people(input)?,
        reply_to: read_people(input)?,
        empty_fields: u8::try_from(input.num()?).map_err(|_| RowError("unknown fields"))?,
        subject: input.option(FieldReader::text)?,
        sent_at: input.option(|input| {
            let at = UtcMillis(input.signed()?);
            let offset =
                i16::try_from(input.signed()?).map_err(|_| RowError("time zone too large"))?;
            Ok(SentAt { at, offset_minutes: offset })
        })?,
        message_id: ids(input)?,
        in_reply_to: ids(input)?,
        references: ids(input)?,
        preview: input.text()?,
        has_attachment: input.bool()?,
        parts: input.list(|input| {
            let header = input.num32()?;
            let body = header.checked_add(input.num32()?).ok_or(RowError("part too long"))?;
            let end = body.checked_add(input.num32()?).ok_or(RowError("part too long"))?;
            let encoding = u8::try_from(input.num()?).map_err(|_| RowError("unknown encoding"))?;
            Ok(PartOffsets { header, body, end, encoding })
        })?,
    })
}

fn write_texts(out: &mut FieldWriter, texts: &[(String, u16)]) {
    out.list(texts.iter(), |out, (text, fields)| {
        out.text(text);
        out.num(*fields);
    });
}

/// Reads the text of the address of the delivery, if the row has one.
fn read_delivered_to<'a>(
    input: &mut FieldReader<'a>,
    version: u8,
) -> Result<Option<Cow<'a, str>>, RowError> {
    if version < DELIVERY_VERSION {
        return Ok(DeliveredTo::Unclear.search_text().map(Cow::Owned));
    }
    let text = input.option(FieldReader::bytes)?.map(std::str::from_utf8).transpose();
    Ok(text.map_err(|_| RowError("text is not UTF-8"))?.map(Cow::Borrowed))
}

/// Reads the texts, and adds that of the address of the delivery.
fn read_texts(
    input: &mut FieldReader<'_>,
    delivered_to: Option<Cow<'_, str>>,
) -> Result<Vec<(String, u16)>, RowError> {
    let fields = |input: &mut FieldReader<'_>| {
        u16::try_from(input.num()?).map_err(|_| RowError("unknown fields"))
    };
    let mut texts: Vec<(String, u16)> = input.list(|input| Ok((input.text()?, fields(input)?)))?;
    if let Some(text) = delivered_to {
        let at = texts.partition_point(|(other, _)| **other < *text);
        match texts.get_mut(at).filter(|(other, _)| **other == *text) {
            Some((_, fields)) => *fields |= field::DELIVERED_HERE,
            None => texts.insert(at, (text.into_owned(), field::DELIVERED_HERE)),
        }
    }
    Ok(texts)
}
