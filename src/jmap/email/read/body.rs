//! Renders the properties of Email/get and Email/parse that are read from a message: `header:`
//! properties, the parts and their values (RFC 8621 §4.1.3, §4.1.4).

use std::cell::Cell;
use std::collections::BTreeSet;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::property::{
    MessageProperty, NamedHeader, RequestedProperties, add_header_properties, add_unique,
    add_unique_header, email_headers,
};
use crate::jmap::budget::Budget;
use crate::jmap::context::Context;
use crate::message::header::{Field, fields};
use crate::message::{Message, Part, Structure, catch_parser_panic};
use crate::model::{BlobId, limits};
use crate::wire::jmap::json::{members, weight};
use crate::wire::jmap::primitive::UnsignedInt;
use crate::wire::jmap::{MethodError, names};

names! {
    /// The properties of a body part (RFC 8621 §4.1.4), apart from `header:` properties.
    enum PartField {
        PartId = "partId",
        BlobId = "blobId",
        Size = "size",
        Name = "name",
        Type = "type",
        Charset = "charset",
        Disposition = "disposition",
        Cid = "cid",
        Language = "language",
        Location = "location",
        Headers = "headers",
        SubParts = "subParts",
    }
}

/// The default of `bodyProperties` (RFC 8621 §4.2).
const DEFAULT_FIELDS: [PartField; 10] = [
    PartField::PartId,
    PartField::BlobId,
    PartField::Size,
    PartField::Name,
    PartField::Type,
    PartField::Charset,
    PartField::Disposition,
    PartField::Cid,
    PartField::Language,
    PartField::Location,
];

#[derive(Debug)]
enum PartProperty {
    Field(PartField),
    Header(NamedHeader),
}

impl<'de> Deserialize<'de> for PartProperty {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        if NamedHeader::matches_name(&name) {
            return name.parse().map(Self::Header).map_err(D::Error::custom);
        }
        let field = PartField::from_name(&name).map(Self::Field);
        field.ok_or_else(|| D::Error::custom(format_args!("there is no property {name}")))
    }
}

/// The arguments of Email/get and Email/parse about the body (RFC 8621 §4.2, §4.9).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct BodyArgs {
    body_properties: Option<Vec<PartProperty>>,
    #[serde(default)]
    fetch_text_body_values: bool,
    #[serde(default, rename = "fetchHTMLBodyValues")]
    fetch_html_body_values: bool,
    #[serde(default)]
    fetch_all_body_values: bool,
    max_body_value_bytes: Option<UnsignedInt>,
}

/// Adds the properties that are read from messages to the objects of an answer.
#[derive(Debug)]
pub(in crate::jmap::email) struct MessageRenderer {
    fields: Vec<PartField>,
    headers: Vec<NamedHeader>,
    fetch_text: bool,
    fetch_html: bool,
    fetch_all: bool,
    /// Zero for no limit.
    max_value_bytes: usize,
    /// The size in bytes of the object under construction. Email/get and Email/parse charge the
    /// finished object.
    object_bytes: Cell<usize>,
    budget: Budget,
}

#[derive(Debug, Clone, Copy)]
pub(in crate::jmap::email) struct TracedMessage<'m> {
    /// The trace prefix.
    pub(in crate::jmap::email) prefix: &'m [u8],
    /// The raw message. For `MessageRenderer::add_header`, its beginning is enough.
    pub(in crate::jmap::email) raw: &'m [u8],
    /// The blob id of the message, from which those of its parts are made.
    pub(in crate::jmap::email) blob: &'m BlobId,
}

impl MessageRenderer {
    /// Makes a renderer for the arguments of a call about the body.
    ///
    /// # Errors
    /// `requestTooLarge` for more `header:` properties than one call may ask for.
    pub(in crate::jmap::email) fn new(
        context: &Context,
        args: BodyArgs,
    ) -> Result<Self, MethodError> {
        let mut renderer = Self {
            fetch_text: args.fetch_text_body_values,
            fetch_html: args.fetch_html_body_values,
            fetch_all: args.fetch_all_body_values,
            max_value_bytes: args
                .max_body_value_bytes
                .map_or(0, |UnsignedInt(max)| usize::try_from(max).unwrap_or(usize::MAX)),
            ..Self::with_defaults(context)
        };
        if let Some(properties) = args.body_properties {
            renderer.fields.clear();
            for property in properties {
                match property {
                    PartProperty::Field(field) => add_unique(&mut renderer.fields, field),
                    PartProperty::Header(header) => {
                        add_unique_header(&mut renderer.headers, header)?;
                    }
                }
            }
        }
        Ok(renderer)
    }

    /// Makes a renderer for a call without arguments about the body.
    pub(in crate::jmap::email) fn with_defaults(context: &Context) -> Self {
        Self {
            fields: DEFAULT_FIELDS.to_vec(),
            headers: Vec::new(),
            fetch_text: false,
            fetch_html: false,
            fetch_all: false,
            max_value_bytes: 0,
            object_bytes: Cell::new(0),
            budget: context.budget.clone(),
        }
    }

    /// Adds the size of a value to that of the object under construction, and checks that the
    /// answer has room for it.
    fn count(&self, value: &Value) -> Result<(), MethodError> {
        self.object_bytes.set(self.object_bytes.get().saturating_add(weight(value)));
        self.budget.check_answer_room(self.object_bytes.get())
    }

    /// Adds the requested properties that no row has and that are read from the header of a
    /// message.
    ///
    /// # Errors
    /// `requestTooLarge` if the answer has no room for them.
    pub(in crate::jmap::email) fn add_header(
        &self,
        properties: &RequestedProperties,
        message: TracedMessage<'_>,
        object: &mut Map<String, Value>,
    ) -> Result<(), MethodError> {
        self.object_bytes.set(0);
        let fields = JoinedFields::new(message.prefix, message.raw);
        properties.add_header_values(&fields, object, &|value| self.count(value))
    }

    /// Adds the requested properties that no row has: those of `add_header`, and those that are
    /// read from the whole message.
    ///
    /// # Errors
    /// `requestTooLarge` if the answer has no room for them; `serverFail` if the parser panicked.
    pub(in crate::jmap::email) fn add_message(
        &self,
        properties: &RequestedProperties,
        message: TracedMessage<'_>,
        object: &mut Map<String, Value>,
    ) -> Result<(), MethodError> {
        let result = catch_parser_panic("a message", || {
            self.add_header(properties, message, object)?;
            let parsed = Message::parse(message.raw);
            let structure = parsed.structure();
            let list = |numbers: &[u32]| -> Result<Value, MethodError> {
                let parts = parts_by_number(&structure, numbers)
                    .map(|part| self.part(part, message, false));
                parts.collect::<Result<_, _>>().map(Value::Array)
            };
            for property in properties.message_properties() {
                let value = match property {
                    MessageProperty::BodyStructure => self.part(&structure.root, message, true)?,
                    MessageProperty::BodyValues => self.body_values(&parsed, &structure)?,
                    MessageProperty::TextBody => list(&structure.text)?,
                    MessageProperty::HtmlBody => list(&structure.html)?,
                    MessageProperty::Attachments => list(&structure.attachments)?,
                    // `add_header` has added them.
                    MessageProperty::Headers => continue,
                };
                object.insert(property.as_str().to_owned(), value);
            }
            Ok(())
        });
        result.unwrap_or_else(|| {
            Err(MethodError::ServerFail(
                "a message cannot be parsed because of a bug in the server".into(),
            ))
        })
    }

    /// Returns `bodyValues`. A part that is no text has none.
    fn body_values(
        &self,
        message: &Message<'_>,
        structure: &Structure<'_>,
    ) -> Result<Value, MethodError> {
        let mut numbers: BTreeSet<u32> = BTreeSet::new();
        if self.fetch_text {
            numbers.extend(&structure.text);
        }
        if self.fetch_html {
            numbers.extend(&structure.html);
        }
        if self.fetch_all {
            numbers.extend(structure.root.flat().iter().map(|part| part.number));
        }
        let mut values = Map::new();
        for number in numbers {
            let Some(value) = message.body_value(number, self.max_value_bytes) else { continue };
            let value = json!({
                "value": value.value,
                "isEncodingProblem": value.is_encoding_problem,
                "isTruncated": value.is_truncated,
            });
            self.count(&value)?;
            values.insert(number.to_string(), value);
        }
        Ok(Value::Object(values))
    }

    /// Returns an `EmailBodyPart`. With `deep`, as in `bodyStructure`, a multipart has `subParts`
    /// even if the client did not ask for them.
    fn part(
        &self,
        part: &Part<'_>,
        message: TracedMessage<'_>,
        deep: bool,
    ) -> Result<Value, MethodError> {
        // Part 0 is the root: its header is that of the message, after the trace prefix.
        let prefix = if part.number == 0 { message.prefix } else { &[] };
        let header = JoinedFields::new(prefix, part.header);
        let bytes_before = self.object_bytes.get();
        let mut object = Map::new();
        add_header_properties(&self.headers, &header, &mut object, &|value| self.count(value))?;
        let leaf = |value: Value| if part.is_multipart { Value::Null } else { value };
        for field in &self.fields {
            let value = match field {
                PartField::PartId => leaf(part.number.to_string().into()),
                PartField::BlobId => {
                    leaf(json!(message.blob.part(part.number).map(|id| id.to_string())))
                }
                PartField::Size => part.size.into(),
                PartField::Name => json!(part.name),
                PartField::Type => json!(part.media_type),
                PartField::Charset => json!(part.charset),
                PartField::Disposition => json!(part.disposition),
                PartField::Cid => json!(part.cid),
                PartField::Language => json!(part.language),
                PartField::Location => json!(part.location),
                PartField::Headers => email_headers(header.clone(), &|value| self.count(value))?,
                PartField::SubParts => Value::Null,
            };
            object.insert(field.as_str().to_owned(), value);
        }
        let without_children = Value::Object(object);
        // The values of header fields were counted one by one, each before the next one was made.
        // Now the whole object is counted, so these counts are taken back.
        self.object_bytes.set(bytes_before);
        self.count(&without_children)?;
        let mut object = members(without_children);
        if part.is_multipart && deep {
            let parts = part.children.iter().map(|child| self.part(child, message, true));
            object.insert("subParts".into(), Value::Array(parts.collect::<Result<_, _>>()?));
        }
        Ok(Value::Object(object))
    }
}

fn parts_by_number<'s, 'm>(
    structure: &'s Structure<'m>,
    numbers: &'s [u32],
) -> impl Iterator<Item = &'s Part<'m>> {
    let all = structure.root.flat();
    numbers.iter().filter_map(move |number| all.iter().find(|part| part.number == *number).copied())
}

/// The fields of a trace prefix and then of a header, which is read up to
/// `limits::MAX_HEADER_BYTES`.
#[derive(Clone)]
pub(in crate::jmap::email) struct JoinedFields<'m> {
    rest: std::vec::IntoIter<Field<'m>>,
}

impl<'m> JoinedFields<'m> {
    pub(in crate::jmap::email) fn new(prefix: &'m [u8], raw: &'m [u8]) -> Self {
        let raw = raw.get(..limits::MAX_HEADER_BYTES).unwrap_or(raw);
        Self { rest: fields(prefix).chain(fields(raw)).collect::<Vec<_>>().into_iter() }
    }
}

impl<'m> Iterator for JoinedFields<'m> {
    type Item = Field<'m>;

    fn next(&mut self) -> Option<Field<'m>> {
        self.rest.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jmap::email::read::property::EmailProperty;
    use crate::jmap::tests::context;
    use crate::model::EmailId;
    use crate::wire::jmap::arguments;

    #[test]
    fn body_value_too_large_for_the_answer_is_refused() {
        let given = members(json!({"fetchAllBodyValues": true}));
        let mut context = context();
        context.budget = Budget::with(0, 0, 1000);
        let renderer =
            MessageRenderer::new(&context, arguments::read("Email/get", given).unwrap()).unwrap();
        let properties =
            RequestedProperties::new([EmailProperty::Message(MessageProperty::BodyValues)])
                .unwrap();
        let blob = BlobId::email(EmailId(1));
        let render = |raw: &[u8]| {
            let message = TracedMessage { prefix: &[], raw, blob: &blob };
            renderer.add_message(&properties, message, &mut Map::new())
        };
        assert_eq!(render(b"Subject: x\r\n\r\n1234567"), Ok(()));
        let long = format!("Subject: x\r\n\r\n{}", "x".repeat(1000));
        assert!(matches!(render(long.as_bytes()), Err(MethodError::RequestTooLarge(_))));
        assert_eq!(render(b"Subject: x\r\n\r\n123"), Ok(()));
    }

    /// Values of header fields are counted while the part is made, and then with the part.
    #[test]
    fn headers_of_parts_take_room_once() {
        let given = members(json!({"bodyProperties": ["headers", "header:X"]}));
        let mut context = context();
        let properties =
            RequestedProperties::new([EmailProperty::Message(MessageProperty::BodyStructure)])
                .unwrap();
        let blob = BlobId::email(EmailId(1));
        let part = format!("--b\r\nX: {}\r\n\r\ny\r\n", "x".repeat(1000));
        let raw = format!(
            "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n{}--b--\r\n",
            part.repeat(3)
        );
        let message = TracedMessage { prefix: &[], raw: raw.as_bytes(), blob: &blob };
        let mut render = |room: usize| {
            context.budget = Budget::with(0, 0, room);
            let args = arguments::read("Email/get", given.clone()).unwrap();
            let renderer = MessageRenderer::new(&context, args).unwrap();
            let mut object = Map::new();
            renderer.add_message(&properties, message, &mut object).map(|()| object)
        };
        let whole = weight(&render(usize::MAX).unwrap()["bodyStructure"]);
        assert!(render(whole + whole / 10).is_ok());
        assert!(matches!(render(whole * 9 / 10), Err(MethodError::RequestTooLarge(_))));
    }
}
