//! The body of an email (RFC 8621 §4.1.4): its structure, the three lists, and the texts that are
//! asked for.

use std::cell::Cell;
use std::collections::BTreeSet;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::property::{
    MessageProperty, NamedHeader, RequestedProperties, add, add_header, all_fields, shown,
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
    /// What is told of a part (RFC 8621 §4.1.4).
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

/// What is given of a part where nothing is asked for (RFC 8621 §4.2).
const USUAL_FIELDS: [PartField; 10] = [
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

/// A property of a part.
#[derive(Debug)]
enum PartProperty {
    Field(PartField),
    Header(NamedHeader),
}

impl<'de> Deserialize<'de> for PartProperty {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        if NamedHeader::is_named(&name) {
            return name.parse().map(Self::Header).map_err(D::Error::custom);
        }
        let field = PartField::from_name(&name).map(Self::Field);
        field.ok_or_else(|| D::Error::custom(format_args!("{name} is no property")))
    }
}

/// The arguments about bodies that Email/get and Email/parse have (RFC 8621 §4.2, §4.9).
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

/// What is asked for of bodies.
#[derive(Debug)]
pub(in crate::jmap::email) struct Bodies {
    fields: Vec<PartField>,
    headers: Vec<NamedHeader>,
    text: bool,
    html: bool,
    all: bool,
    most: usize,
    /// Bytes of the object under construction that are charged when it is finished.
    grown: Cell<usize>,
    budget: Budget,
}

/// A message as it is shown: what was put before it, and itself.
#[derive(Debug, Clone, Copy)]
pub(in crate::jmap::email) struct TracedMessage<'m> {
    /// The trace fields of its delivery.
    pub(in crate::jmap::email) prefix: &'m [u8],
    /// The message as received.
    pub(in crate::jmap::email) raw: &'m [u8],
    /// The blob id of both.
    pub(in crate::jmap::email) blob: &'m BlobId,
}

impl Bodies {
    /// What the arguments ask for.
    ///
    /// # Errors
    /// `requestTooLarge` for more `header:` properties than one call may ask for.
    pub(in crate::jmap::email) fn of(
        context: &Context,
        args: BodyArgs,
    ) -> Result<Self, MethodError> {
        let mut bodies = Self {
            text: args.fetch_text_body_values,
            html: args.fetch_html_body_values,
            all: args.fetch_all_body_values,
            most: args
                .max_body_value_bytes
                .map_or(0, |UnsignedInt(most)| usize::try_from(most).unwrap_or(usize::MAX)),
            ..Self::usual(context)
        };
        if let Some(asked) = args.body_properties {
            bodies.fields.clear();
            for property in asked {
                match property {
                    PartProperty::Field(field) => add(&mut bodies.fields, field),
                    PartProperty::Header(header) => add_header(&mut bodies.headers, header)?,
                }
            }
        }
        Ok(bodies)
    }

    /// What is given where nothing is asked for.
    pub(in crate::jmap::email) fn usual(context: &Context) -> Self {
        Self {
            fields: USUAL_FIELDS.to_vec(),
            headers: Vec::new(),
            text: false,
            html: false,
            all: false,
            most: 0,
            grown: Cell::new(0),
            budget: context.budget.clone(),
        }
    }

    /// Notes that the object under construction grew. The message may make it far larger than the
    /// request was.
    fn grow(&self, value: &Value) -> Result<(), MethodError> {
        self.grown.set(self.grown.get().saturating_add(weight(value)));
        self.budget.check_answer_room(self.grown.get())
    }

    /// What a message's header says of all that is wanted and in no row.
    ///
    /// # Errors
    /// `requestTooLarge` where the answer has no room for it.
    pub(in crate::jmap::email) fn show_header(
        &self,
        wanted: &RequestedProperties,
        whole: TracedMessage<'_>,
        object: &mut Map<String, Value>,
    ) -> Result<(), MethodError> {
        self.grown.set(0);
        wanted.of_header(&JoinedFields::new(whole.prefix, whole.raw), object, &|value| {
            self.grow(value)
        })
    }

    /// What a message says of all that is wanted and in no row.
    ///
    /// # Errors
    /// `requestTooLarge` where the answer has no room for it.
    pub(in crate::jmap::email) fn show(
        &self,
        wanted: &RequestedProperties,
        whole: TracedMessage<'_>,
        object: &mut Map<String, Value>,
    ) -> Result<(), MethodError> {
        let read = catch_parser_panic("a message", || {
            self.show_header(wanted, whole, object)?;
            let message = Message::parse(whole.raw);
            let structure = message.structure();
            let listed = |numbers: &[u32]| -> Result<Value, MethodError> {
                let parts = listed(&structure, numbers).map(|part| self.part(part, whole, false));
                parts.collect::<Result<_, _>>().map(Value::Array)
            };
            for property in wanted.of_body() {
                let value = match property {
                    MessageProperty::BodyStructure => self.part(&structure.root, whole, true)?,
                    MessageProperty::BodyValues => self.values(&message, &structure)?,
                    MessageProperty::TextBody => listed(&structure.text)?,
                    MessageProperty::HtmlBody => listed(&structure.html)?,
                    MessageProperty::Attachments => listed(&structure.attachments)?,
                    // Shown with the header.
                    MessageProperty::Headers => continue,
                };
                object.insert(property.as_str().to_owned(), value);
            }
            Ok(())
        });
        read.unwrap_or_else(|| {
            Err(MethodError::ServerFail("a message cannot be read: a fault of the program".into()))
        })
    }

    fn values(
        &self,
        message: &Message<'_>,
        structure: &Structure<'_>,
    ) -> Result<Value, MethodError> {
        let mut numbers: BTreeSet<u32> = BTreeSet::new();
        if self.text {
            numbers.extend(&structure.text);
        }
        if self.html {
            numbers.extend(&structure.html);
        }
        if self.all {
            numbers.extend(structure.root.flat().iter().map(|part| part.number));
        }
        let mut values = Map::new();
        for number in numbers {
            let Some(value) = message.body_value(number, self.most) else { continue };
            let value = json!({
                "value": value.value, "isEncodingProblem": value.is_encoding_problem, "isTruncated": value.is_truncated,
            });
            self.grow(&value)?;
            values.insert(number.to_string(), value);
        }
        Ok(Value::Object(values))
    }

    /// `EmailBodyPart`. Within bodyStructure a multipart shows its parts, whether that is asked for
    /// or not: without them it would be no structure.
    fn part(
        &self,
        part: &Part<'_>,
        whole: TracedMessage<'_>,
        deep: bool,
    ) -> Result<Value, MethodError> {
        let prefix = if part.number == 0 { whole.prefix } else { &[] };
        let header = JoinedFields::new(prefix, part.header);
        let mut object = Map::new();
        shown(&self.headers, &header, &mut object, &|value| self.grow(value))?;
        let leaf = |value: Value| if part.is_multipart { Value::Null } else { value };
        for field in &self.fields {
            let value = match field {
                PartField::PartId => leaf(part.number.to_string().into()),
                PartField::BlobId => {
                    leaf(json!(whole.blob.part(part.number).map(|id| id.to_string())))
                }
                PartField::Size => part.size.into(),
                PartField::Name => json!(part.name),
                PartField::Type => json!(part.media_type),
                PartField::Charset => json!(part.charset),
                PartField::Disposition => json!(part.disposition),
                PartField::Cid => json!(part.cid),
                PartField::Language => json!(part.language),
                PartField::Location => json!(part.location),
                PartField::Headers => all_fields(header.clone(), &|value| self.grow(value))?,
                // Below.
                PartField::SubParts => Value::Null,
            };
            object.insert(field.as_str().to_owned(), value);
        }
        let own = Value::Object(object);
        self.grow(&own)?;
        let mut object = members(own);
        if part.is_multipart && deep {
            let parts = part.children.iter().map(|child| self.part(child, whole, true));
            object.insert("subParts".into(), Value::Array(parts.collect::<Result<_, _>>()?));
        }
        Ok(Value::Object(object))
    }
}

fn listed<'s, 'm>(
    structure: &'s Structure<'m>,
    numbers: &'s [u32],
) -> impl Iterator<Item = &'s Part<'m>> {
    let all = structure.root.flat();
    numbers.iter().filter_map(move |number| all.iter().find(|part| part.number == *number).copied())
}

/// The fields of two headers, one after the other, the second within `limits::MAX_HEADER_BYTES`.
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
    fn texts_fit_the_answer_or_the_call_is_refused() {
        let given = members(json!({"fetchAllBodyValues": true}));
        let mut context = context();
        context.budget = Budget::with(0, 0, 1000);
        let bodies = Bodies::of(&context, arguments::read("Email/get", given).unwrap()).unwrap();
        let wanted =
            RequestedProperties::of([EmailProperty::Message(MessageProperty::BodyValues)]).unwrap();
        let blob = BlobId::email(EmailId(1));
        let of = |raw: &[u8]| {
            bodies.show(&wanted, TracedMessage { prefix: &[], raw, blob: &blob }, &mut Map::new())
        };
        assert_eq!(of(b"Subject: x\r\n\r\n1234567"), Ok(()));
        let long = format!("Subject: x\r\n\r\n{}", "x".repeat(1000));
        assert!(matches!(of(long.as_bytes()), Err(MethodError::RequestTooLarge(_))));
        // What was refused takes nothing.
        assert_eq!(of(b"Subject: x\r\n\r\n123"), Ok(()));
    }
}
