//! The properties of an email (RFC 8621 §4.1): which are asked for, and what a row or a header says
//! of each.

use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::message::forms::{FormValue, HeaderProperty, PropertyValue, raw};
use crate::message::header::Field;
use crate::message::parse::Group;
use crate::model::{BlobId, EmailAddress, EmailContent, EmailId, EmailMetadata, SentAt, limits};
use crate::wire::jmap::{JsonObject, MethodError, Property, names};

names! {
    /// What the server keeps of an email.
    pub(in crate::jmap) enum MetadataProperty {
        Id = "id",
        BlobId = "blobId",
        ThreadId = "threadId",
        MailboxIds = "mailboxIds",
        Keywords = "keywords",
        Size = "size",
        ReceivedAt = "receivedAt",
    }
}

names! {
    /// What stands in the content row.
    pub(in crate::jmap) enum ContentProperty {
        MessageId = "messageId",
        InReplyTo = "inReplyTo",
        References = "references",
        Sender = "sender",
        From = "from",
        To = "to",
        Cc = "cc",
        Bcc = "bcc",
        ReplyTo = "replyTo",
        Subject = "subject",
        SentAt = "sentAt",
        HasAttachment = "hasAttachment",
        Preview = "preview",
    }
}

names! {
    /// What is in the message alone.
    pub(in crate::jmap) enum MessageProperty {
        Headers = "headers",
        BodyStructure = "bodyStructure",
        BodyValues = "bodyValues",
        TextBody = "textBody",
        HtmlBody = "htmlBody",
        Attachments = "attachments",
    }
}

/// Of the message, what is given where nothing is asked for (RFC 8621 §4.2, §4.9).
const USUAL_OF_MESSAGE: [MessageProperty; 4] = [
    MessageProperty::BodyValues,
    MessageProperty::TextBody,
    MessageProperty::HtmlBody,
    MessageProperty::Attachments,
];

/// A property `header:Name:asForm:all` (RFC 8621 §4.1.3), and the text by which it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::jmap) struct NamedHeader {
    name: String,
    property: HeaderProperty,
}

/// A property of an email.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::jmap) enum EmailProperty {
    Metadata(MetadataProperty),
    Content(ContentProperty),
    Message(MessageProperty),
    Header(NamedHeader),
}

impl NamedHeader {
    /// Whether a name is that of a header field.
    pub(in crate::jmap::email) fn is_named(name: &str) -> bool {
        name.starts_with("header:")
    }
}

impl FromStr for NamedHeader {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let property = name.parse().map_err(|error| format!("{name}: {error}"))?;
        Ok(Self { name: name.to_owned(), property })
    }
}

impl FromStr for EmailProperty {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if NamedHeader::is_named(name) {
            return name.parse().map(Self::Header);
        }
        let of_metadata = || MetadataProperty::from_name(name).map(Self::Metadata);
        let of_content = || ContentProperty::from_name(name).map(Self::Content);
        let of_message = || MessageProperty::from_name(name).map(Self::Message);
        let known = of_metadata().or_else(of_content).or_else(of_message);
        known.ok_or_else(|| format!("{name} is no property"))
    }
}

impl<'de> Deserialize<'de> for EmailProperty {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl Property for EmailProperty {
    fn id() -> Self {
        Self::Metadata(MetadataProperty::Id)
    }

    fn name(&self) -> &str {
        match self {
            Self::Metadata(property) => property.as_str(),
            Self::Content(property) => property.as_str(),
            Self::Message(property) => property.as_str(),
            Self::Header(header) => &header.name,
        }
    }
}

/// The properties that are asked for, each once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::jmap::email) struct RequestedProperties {
    pub(in crate::jmap::email) metadata: Vec<MetadataProperty>,
    pub(in crate::jmap::email) content: Vec<ContentProperty>,
    message: Vec<MessageProperty>,
    headers: Vec<NamedHeader>,
}

impl RequestedProperties {
    /// Sorts properties by where they are read.
    ///
    /// # Errors
    /// `requestTooLarge` for more `header:` properties than one call may ask for.
    pub(in crate::jmap::email) fn of(
        properties: impl IntoIterator<Item = EmailProperty>,
    ) -> Result<Self, MethodError> {
        let mut wanted = Self::default();
        for property in properties {
            match property {
                EmailProperty::Metadata(property) => add(&mut wanted.metadata, property),
                EmailProperty::Content(property) => add(&mut wanted.content, property),
                EmailProperty::Message(property) => add(&mut wanted.message, property),
                EmailProperty::Header(header) => add_header(&mut wanted.headers, header)?,
            }
        }
        Ok(wanted)
    }

    /// What Email/get gives where nothing is asked for (RFC 8621 §4.2).
    pub(in crate::jmap::email) fn usual() -> Self {
        Self { metadata: MetadataProperty::ALL.to_vec(), ..Self::usual_of_message() }
    }

    /// What Email/parse gives where nothing is asked for (RFC 8621 §4.9).
    pub(in crate::jmap::email) fn usual_of_message() -> Self {
        let (content, message) = (ContentProperty::ALL.to_vec(), USUAL_OF_MESSAGE.to_vec());
        Self { content, message, ..Self::default() }
    }

    /// What of the message is asked for.
    pub(in crate::jmap::email) fn of_body(&self) -> &[MessageProperty] {
        &self.message
    }

    /// Whether the content row is needed.
    pub(in crate::jmap::email) fn needs_content(&self) -> bool {
        !self.content.is_empty()
    }

    /// Whether the message or its header must be read.
    pub(in crate::jmap::email) fn needs_message(&self) -> bool {
        !self.message.is_empty() || !self.headers.is_empty()
    }

    /// Whether more of the message must be read than its header.
    pub(in crate::jmap::email) fn needs_body(&self) -> bool {
        self.message.iter().any(|property| *property != MessageProperty::Headers)
    }

    /// What the metadata says.
    pub(in crate::jmap::email) fn of_metadata(
        &self,
        id: EmailId,
        email: &EmailMetadata,
        object: &mut JsonObject,
    ) {
        for property in &self.metadata {
            let value = match property {
                MetadataProperty::Id => id.to_string().into(),
                MetadataProperty::BlobId => BlobId::email(id).to_string().into(),
                MetadataProperty::ThreadId => email.thread.to_string().into(),
                MetadataProperty::MailboxIds => {
                    set_of(email.mailboxes.iter().map(ToString::to_string))
                }
                MetadataProperty::Keywords => set_of(email.keywords.iter().cloned()),
                MetadataProperty::Size => email.size.into(),
                MetadataProperty::ReceivedAt => email.received_at.rfc3339().into(),
            };
            object.insert(property.as_str().to_owned(), value);
        }
    }

    /// What the content row says.
    pub(in crate::jmap::email) fn of_content(
        &self,
        mut content: EmailContent,
        object: &mut JsonObject,
    ) {
        let ids = |ids: &mut Vec<String>| {
            if ids.is_empty() { Value::Null } else { std::mem::take(ids).into() }
        };
        let blank = content.empty_fields;
        let with = |bit: u8, all: &mut Vec<EmailAddress>| {
            if all.is_empty() && blank >> bit & 1 == 0 {
                Value::Null
            } else {
                people(std::mem::take(all))
            }
        };
        for property in &self.content {
            let value = match property {
                ContentProperty::MessageId => ids(&mut content.message_id),
                ContentProperty::InReplyTo => ids(&mut content.in_reply_to),
                ContentProperty::References => ids(&mut content.references),
                ContentProperty::From => with(0, &mut content.from),
                ContentProperty::To => with(1, &mut content.to),
                ContentProperty::Cc => with(2, &mut content.cc),
                ContentProperty::Bcc => with(3, &mut content.bcc),
                ContentProperty::Sender => with(4, &mut content.sender),
                ContentProperty::ReplyTo => with(5, &mut content.reply_to),
                ContentProperty::Subject => content.subject.take().into(),
                ContentProperty::SentAt => content.sent_at.map(SentAt::rfc3339).into(),
                ContentProperty::HasAttachment => content.has_attachment.into(),
                ContentProperty::Preview => std::mem::take(&mut content.preview).into(),
            };
            object.insert(property.as_str().to_owned(), value);
        }
    }

    /// What `header:` properties and `headers` show of a header.
    pub(in crate::jmap::email) fn of_header<'f>(
        &self,
        header: &(impl Iterator<Item = Field<'f>> + Clone),
        object: &mut JsonObject,
        grow: &ValueCheck<'_>,
    ) -> Result<(), MethodError> {
        shown(&self.headers, header, object, grow)?;
        if self.message.contains(&MessageProperty::Headers) {
            object.insert(
                MessageProperty::Headers.as_str().to_owned(),
                all_fields(header.clone(), grow)?,
            );
        }
        Ok(())
    }
}

/// Adds what is not there.
pub(in crate::jmap::email) fn add<P: PartialEq>(properties: &mut Vec<P>, property: P) {
    if !properties.contains(&property) {
        properties.push(property);
    }
}

/// Adds a `header:` property that is not there.
///
/// # Errors
/// `requestTooLarge` for more of them than one call may ask for.
pub(in crate::jmap::email) fn add_header(
    headers: &mut Vec<NamedHeader>,
    header: NamedHeader,
) -> Result<(), MethodError> {
    add(headers, header);
    if headers.len() > limits::MAX_HEADER_PROPERTIES {
        return Err(MethodError::RequestTooLarge(
            "more header: properties than one call may ask for",
        ));
    }
    Ok(())
}

/// Told of each value before it becomes part of the answer; an error ends the call.
pub(in crate::jmap::email) type ValueCheck<'a> = dyn Fn(&Value) -> Result<(), MethodError> + 'a;

/// What properties `header:…` show of a header.
pub(in crate::jmap::email) fn shown<'f>(
    headers: &[NamedHeader],
    header: &(impl Iterator<Item = Field<'f>> + Clone),
    object: &mut JsonObject,
    grow: &ValueCheck<'_>,
) -> Result<(), MethodError> {
    for NamedHeader { name, property } in headers {
        let value = match property.evaluate(header.clone()) {
            PropertyValue::Last(value) => value.map_or(Value::Null, in_json),
            PropertyValue::All(values) => values.into_iter().map(in_json).collect(),
        };
        grow(&value)?;
        object.insert(name.clone(), value);
    }
    Ok(())
}

/// `EmailHeader[]` (RFC 8621 §4.1.3).
pub(in crate::jmap::email) fn all_fields<'f>(
    header: impl Iterator<Item = Field<'f>>,
    grow: &ValueCheck<'_>,
) -> Result<Value, MethodError> {
    let all = header.map(|field| {
        let field = json!({"name": String::from_utf8_lossy(field.name), "value": raw(&field)});
        grow(&field).map(|()| field)
    });
    all.collect::<Result<_, _>>().map(Value::Array)
}

fn in_json(value: FormValue) -> Value {
    match value {
        FormValue::Text(text) => text.into(),
        FormValue::Addresses(all) => people(all),
        FormValue::Groups(groups) => groups.into_iter().map(group).collect(),
        FormValue::Strings(list) => list.into(),
        FormValue::Date(at) => at.map(SentAt::rfc3339).into(),
    }
}

fn group(group: Group) -> Value {
    let mut object = JsonObject::new();
    object.insert("name".into(), group.name.into());
    object.insert("addresses".into(), people(group.addresses));
    Value::Object(object)
}

fn people(all: Vec<EmailAddress>) -> Value {
    let one = |one: EmailAddress| {
        let mut object = JsonObject::new();
        object.insert("name".into(), one.name.into());
        object.insert("email".into(), one.email.into());
        Value::Object(object)
    };
    all.into_iter().map(one).collect()
}

/// `{name: true}`.
pub(in crate::jmap::email) fn set_of(names: impl Iterator<Item = String>) -> Value {
    Value::Object(names.map(|name| (name, Value::Bool(true))).collect())
}
