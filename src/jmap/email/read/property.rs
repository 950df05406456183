//! The properties of an email (RFC 8621 §4.1), by where they are read.

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
    /// The properties that the metadata row and its key give.
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
    /// The properties in the content row.
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
    /// The properties that no row has. They are read from the message.
    pub(in crate::jmap) enum MessageProperty {
        Headers = "headers",
        BodyStructure = "bodyStructure",
        BodyValues = "bodyValues",
        TextBody = "textBody",
        HtmlBody = "htmlBody",
        Attachments = "attachments",
    }
}

/// The properties of the message that Email/get and Email/parse return by default (RFC 8621 §4.2,
/// §4.9).
const DEFAULT_MESSAGE_PROPERTIES: [MessageProperty; 4] = [
    MessageProperty::BodyValues,
    MessageProperty::TextBody,
    MessageProperty::HtmlBody,
    MessageProperty::Attachments,
];

/// A property `header:Name:asForm:all` (RFC 8621 §4.1.3), with its name as the client wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::jmap) struct NamedHeader {
    name: String,
    property: HeaderProperty,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::jmap) enum EmailProperty {
    Metadata(MetadataProperty),
    Content(ContentProperty),
    Message(MessageProperty),
    Header(NamedHeader),
}

impl NamedHeader {
    pub(in crate::jmap::email) fn matches_name(name: &str) -> bool {
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
        if NamedHeader::matches_name(name) {
            return name.parse().map(Self::Header);
        }
        let metadata = || MetadataProperty::from_name(name).map(Self::Metadata);
        let content = || ContentProperty::from_name(name).map(Self::Content);
        let message = || MessageProperty::from_name(name).map(Self::Message);
        let property = metadata().or_else(content).or_else(message);
        property.ok_or_else(|| format!("there is no property {name}"))
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

/// The properties that a call asks for, by where they are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::jmap::email) struct RequestedProperties {
    pub(in crate::jmap::email) metadata: Vec<MetadataProperty>,
    pub(in crate::jmap::email) content: Vec<ContentProperty>,
    message: Vec<MessageProperty>,
    headers: Vec<NamedHeader>,
}

impl RequestedProperties {
    /// Sorts properties by where they are read, and drops repetitions.
    ///
    /// # Errors
    /// `requestTooLarge` for more `header:` properties than one call may ask for.
    pub(in crate::jmap::email) fn new(
        properties: impl IntoIterator<Item = EmailProperty>,
    ) -> Result<Self, MethodError> {
        let mut requested = Self::default();
        for property in properties {
            match property {
                EmailProperty::Metadata(property) => add_unique(&mut requested.metadata, property),
                EmailProperty::Content(property) => add_unique(&mut requested.content, property),
                EmailProperty::Message(property) => add_unique(&mut requested.message, property),
                EmailProperty::Header(header) => add_unique_header(&mut requested.headers, header)?,
            }
        }
        Ok(requested)
    }

    /// Returns the properties of Email/get if the client names none (RFC 8621 §4.2).
    pub(in crate::jmap::email) fn get_defaults() -> Self {
        Self { metadata: MetadataProperty::ALL.to_vec(), ..Self::parse_defaults() }
    }

    /// Returns the properties of Email/parse if the client names none (RFC 8621 §4.9).
    pub(in crate::jmap::email) fn parse_defaults() -> Self {
        let (content, message) =
            (ContentProperty::ALL.to_vec(), DEFAULT_MESSAGE_PROPERTIES.to_vec());
        Self { content, message, ..Self::default() }
    }

    /// Does not include the `header:` properties.
    pub(in crate::jmap::email) fn message_properties(&self) -> &[MessageProperty] {
        &self.message
    }

    pub(in crate::jmap::email) fn needs_content(&self) -> bool {
        !self.content.is_empty()
    }

    /// Whether the message or its header must be read.
    pub(in crate::jmap::email) fn needs_message(&self) -> bool {
        !self.message.is_empty() || !self.headers.is_empty()
    }

    /// Whether more of the message than its header must be read.
    pub(in crate::jmap::email) fn needs_body(&self) -> bool {
        self.message.iter().any(|property| *property != MessageProperty::Headers)
    }

    pub(in crate::jmap::email) fn add_metadata(
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
                    json_set(email.mailboxes.iter().map(ToString::to_string))
                }
                MetadataProperty::Keywords => json_set(email.keywords.iter().cloned()),
                MetadataProperty::Size => email.size.into(),
                MetadataProperty::ReceivedAt => email.received_at.rfc3339().into(),
            };
            object.insert(property.as_str().to_owned(), value);
        }
    }

    pub(in crate::jmap::email) fn add_content(
        &self,
        mut content: EmailContent,
        object: &mut JsonObject,
    ) {
        let ids = |ids: &mut Vec<String>| {
            if ids.is_empty() { Value::Null } else { std::mem::take(ids).into() }
        };
        // A set bit of `empty_fields`, numbered from the lowest one, says that the header has the
        // field, but without an address: the property is an empty list. If the header does not have
        // the field, it is null.
        let empty_fields = content.empty_fields;
        let addresses = |bit: u8, all: &mut Vec<EmailAddress>| {
            if all.is_empty() && (empty_fields >> bit) & 1 == 0 {
                Value::Null
            } else {
                addresses_json(std::mem::take(all))
            }
        };
        for property in &self.content {
            let value = match property {
                ContentProperty::MessageId => ids(&mut content.message_id),
                ContentProperty::InReplyTo => ids(&mut content.in_reply_to),
                ContentProperty::References => ids(&mut content.references),
                ContentProperty::From => addresses(0, &mut content.from),
                ContentProperty::To => addresses(1, &mut content.to),
                ContentProperty::Cc => addresses(2, &mut content.cc),
                ContentProperty::Bcc => addresses(3, &mut content.bcc),
                ContentProperty::Sender => addresses(4, &mut content.sender),
                ContentProperty::ReplyTo => addresses(5, &mut content.reply_to),
                ContentProperty::Subject => content.subject.take().into(),
                ContentProperty::SentAt => content.sent_at.map(SentAt::rfc3339).into(),
                ContentProperty::HasAttachment => content.has_attachment.into(),
                ContentProperty::Preview => std::mem::take(&mut content.preview).into(),
            };
            object.insert(property.as_str().to_owned(), value);
        }
    }

    /// Adds the `header:` properties and `headers`. `header` yields the fields of the message.
    pub(in crate::jmap::email) fn add_header_values<'f>(
        &self,
        header: &(impl Iterator<Item = Field<'f>> + Clone),
        object: &mut JsonObject,
        check: &ValueCheck<'_>,
    ) -> Result<(), MethodError> {
        add_header_properties(&self.headers, header, object, check)?;
        if self.message.contains(&MessageProperty::Headers) {
            object.insert(
                MessageProperty::Headers.as_str().to_owned(),
                email_headers(header.clone(), check)?,
            );
        }
        Ok(())
    }
}

pub(in crate::jmap::email) fn add_unique<P: PartialEq>(properties: &mut Vec<P>, property: P) {
    if !properties.contains(&property) {
        properties.push(property);
    }
}

/// Adds a `header:` property to a list, unless the list has it.
///
/// # Errors
/// `requestTooLarge` for more `header:` properties than one call may ask for.
pub(in crate::jmap::email) fn add_unique_header(
    headers: &mut Vec<NamedHeader>,
    header: NamedHeader,
) -> Result<(), MethodError> {
    add_unique(headers, header);
    if headers.len() > limits::MAX_HEADER_PROPERTIES {
        return Err(MethodError::RequestTooLarge(
            "more header: properties than one call may ask for",
        ));
    }
    Ok(())
}

/// Checks a value before it becomes part of the answer: whether there is room for it. An error ends
/// the method call.
pub(in crate::jmap::email) type ValueCheck<'a> = dyn Fn(&Value) -> Result<(), MethodError> + 'a;

/// Adds `header:` properties, whose values are found in the fields of `header`.
pub(in crate::jmap::email) fn add_header_properties<'f>(
    headers: &[NamedHeader],
    header: &(impl Iterator<Item = Field<'f>> + Clone),
    object: &mut JsonObject,
    check: &ValueCheck<'_>,
) -> Result<(), MethodError> {
    for NamedHeader { name, property } in headers {
        let value = match property.evaluate(header.clone()) {
            PropertyValue::Last(value) => value.map_or(Value::Null, form_json),
            PropertyValue::All(values) => values.into_iter().map(form_json).collect(),
        };
        check(&value)?;
        object.insert(name.clone(), value);
    }
    Ok(())
}

/// Returns `EmailHeader[]` (RFC 8621 §4.1.3).
pub(in crate::jmap::email) fn email_headers<'f>(
    header: impl Iterator<Item = Field<'f>>,
    check: &ValueCheck<'_>,
) -> Result<Value, MethodError> {
    let all = header.map(|field| {
        let field = json!({"name": String::from_utf8_lossy(field.name), "value": raw(&field)});
        check(&field).map(|()| field)
    });
    all.collect::<Result<_, _>>().map(Value::Array)
}

fn form_json(value: FormValue) -> Value {
    match value {
        FormValue::Text(text) => text.into(),
        FormValue::Addresses(all) => addresses_json(all),
        FormValue::Groups(groups) => groups.into_iter().map(group_json).collect(),
        FormValue::Strings(list) => list.into(),
        FormValue::Date(at) => at.map(SentAt::rfc3339).into(),
    }
}

fn group_json(group: Group) -> Value {
    let mut object = JsonObject::new();
    object.insert("name".into(), group.name.into());
    object.insert("addresses".into(), addresses_json(group.addresses));
    Value::Object(object)
}

fn addresses_json(addresses: Vec<EmailAddress>) -> Value {
    let address_json = |address: EmailAddress| {
        let mut object = JsonObject::new();
        object.insert("name".into(), address.name.into());
        object.insert("email".into(), address.email.into());
        Value::Object(object)
    };
    addresses.into_iter().map(address_json).collect()
}

/// Returns `{name: true}`.
pub(in crate::jmap::email) fn json_set(names: impl Iterator<Item = String>) -> Value {
    Value::Object(names.map(|name| (name, Value::Bool(true))).collect())
}
