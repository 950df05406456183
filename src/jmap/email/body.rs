//! The body of an email (RFC 8621 §4.1.4): its structure, the three lists, and the texts that are asked for.

use std::cell::Cell;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::property::{RequestedProperties, all_fields, header, prove_headers, shown};
use crate::jmap::budget::Budget;
use crate::jmap::context::{Args, Context};
use crate::message::forms::HeaderProperty;
use crate::message::header::{Field, fields};
use crate::message::{Message, Part, Structure, catch_parser_panic};
use crate::model::{BlobId, limits};
use crate::wire::jmap::MethodError;
use crate::wire::jmap::json::{MAX_SAFE_INTEGER, members, weight};

/// What is given of a part where nothing is asked for (RFC 8621 §4.2).
const DEFAULT_LIMIT: [&str; 10] =
    ["partId", "blobId", "size", "name", "type", "charset", "disposition", "cid", "language", "location"];

/// What is asked for of bodies.
#[derive(Debug)]
pub(super) struct Bodies {
    names: Vec<String>,
    headers: Vec<(String, HeaderProperty)>,
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
pub(super) struct TracedMessage<'m> {
    /// The trace fields of its delivery.
    pub(super) prefix: &'m [u8],
    /// The message as received.
    pub(super) raw: &'m [u8],
    /// The blob id of both.
    pub(super) blob: &'m BlobId,
}

impl Bodies {
    /// Reads the arguments that Email/get and Email/parse have for it.
    ///
    /// # Errors
    /// `invalidArguments`.
    pub(super) fn read(context: &Context, arguments: &Args<'_>) -> Result<Self, MethodError> {
        let asked = match arguments.get("bodyProperties") {
            Some(_) => arguments.distinct("bodyProperties")?,
            None => DEFAULT_LIMIT.iter().map(|name| (*name).to_owned()).collect(),
        };
        let (mut names, mut headers) = (Vec::new(), Vec::new());
        for name in asked {
            if name.starts_with("header:") {
                headers.push((name.clone(), header(&name)?));
            } else if DEFAULT_LIMIT.contains(&name.as_str()) || name == "headers" || name == "subParts" {
                names.push(name);
            } else {
                return Err(MethodError::InvalidArguments(format!("bodyProperties: {name} is no property")));
            }
        }
        prove_headers(&headers)?;
        let most = arguments.number("maxBodyValueBytes")?.unwrap_or(0);
        if most > MAX_SAFE_INTEGER {
            return Err(MethodError::InvalidArguments("maxBodyValueBytes: a whole number is wanted".into()));
        }
        Ok(Self {
            names,
            headers,
            text: arguments.flag("fetchTextBodyValues")?,
            html: arguments.flag("fetchHTMLBodyValues")?,
            all: arguments.flag("fetchAllBodyValues")?,
            most: usize::try_from(most).unwrap_or(usize::MAX),
            grown: Cell::new(0),
            budget: context.budget.clone(),
        })
    }

    /// What is given where nothing is asked for.
    pub(super) fn usual(context: &Context) -> Self {
        let names = DEFAULT_LIMIT.iter().map(|name| (*name).to_owned()).collect();
        let budget = context.budget.clone();
        Self { names, headers: Vec::new(), text: false, html: false, all: false, most: 0, grown: Cell::new(0), budget }
    }

    /// Notes that the object under construction grew. The message may make it far larger than the
    /// request was.
    fn grow(&self, value: &Value) -> Result<(), MethodError> {
        self.grown.set(self.grown.get().saturating_add(weight(value)));
        self.budget.fits(self.grown.get())
    }

    /// What a message's header says of all that is wanted and in no row.
    ///
    /// # Errors
    /// `requestTooLarge` where the answer has no room for it.
    pub(super) fn of_header(
        &self,
        wanted: &RequestedProperties,
        whole: TracedMessage<'_>,
        object: &mut Map<String, Value>,
    ) -> Result<(), MethodError> {
        self.grown.set(0);
        wanted.of_header(&JoinedFields::new(whole.prefix, whole.raw), object, &|value| self.grow(value))
    }

    /// What a message says of all that is wanted and in no row.
    ///
    /// # Errors
    /// `requestTooLarge` where the answer has no room for it.
    pub(super) fn of(
        &self,
        wanted: &RequestedProperties,
        whole: TracedMessage<'_>,
        object: &mut Map<String, Value>,
    ) -> Result<(), MethodError> {
        let read = catch_parser_panic("a message", || {
            self.of_header(wanted, whole, object)?;
            let message = Message::parse(whole.raw);
            let structure = message.structure();
            if wanted.has("bodyStructure") {
                object.insert("bodyStructure".into(), self.part(&structure.root, whole, true)?);
            }
            for (name, numbers) in
                [("textBody", &structure.text), ("htmlBody", &structure.html), ("attachments", &structure.attachments)]
            {
                if wanted.has(name) {
                    let parts = listed(&structure, numbers).map(|part| self.part(part, whole, false));
                    object.insert(name.into(), Value::Array(parts.collect::<Result<_, _>>()?));
                }
            }
            if wanted.has("bodyValues") {
                object.insert("bodyValues".into(), self.values(&message, &structure)?);
            }
            Ok(())
        });
        read.unwrap_or_else(|| Err(MethodError::ServerFail("a message cannot be read: a fault of the program".into())))
    }

    fn values(&self, message: &Message<'_>, structure: &Structure<'_>) -> Result<Value, MethodError> {
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

    /// `EmailBodyPart`. Within bodyStructure a multipart shows its parts, whether that is asked for or not: without them
    /// it would be no structure.
    fn part(&self, part: &Part<'_>, whole: TracedMessage<'_>, deep: bool) -> Result<Value, MethodError> {
        let prefix = if part.number == 0 { whole.prefix } else { &[] };
        let header = JoinedFields::new(prefix, part.header);
        let mut object = Map::new();
        shown(&self.headers, &header, &mut object, &|value| self.grow(value))?;
        let leaf = |value: Value| if part.is_multipart { Value::Null } else { value };
        for name in &self.names {
            let value = match name.as_str() {
                "partId" => leaf(part.number.to_string().into()),
                "blobId" => leaf(json!(whole.blob.part(part.number).map(|id| id.to_string()))),
                "size" => part.size.into(),
                "name" => json!(part.name),
                "type" => json!(part.media_type),
                "charset" => json!(part.charset),
                "disposition" => json!(part.disposition),
                "cid" => json!(part.cid),
                "language" => json!(part.language),
                "location" => json!(part.location),
                "headers" => all_fields(header.clone(), &|value| self.grow(value))?,
                // Below.
                _ => Value::Null,
            };
            object.insert(name.clone(), value);
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

fn listed<'s, 'm>(structure: &'s Structure<'m>, numbers: &'s [u32]) -> impl Iterator<Item = &'s Part<'m>> {
    let all = structure.root.flat();
    numbers.iter().filter_map(move |number| all.iter().find(|part| part.number == *number).copied())
}

/// The fields of two headers, one after the other, the second within `limits::HEADER_BYTES`.
#[derive(Clone)]
pub(super) struct JoinedFields<'m> {
    rest: std::vec::IntoIter<Field<'m>>,
}

impl<'m> JoinedFields<'m> {
    pub(super) fn new(prefix: &'m [u8], raw: &'m [u8]) -> Self {
        let raw = raw.get(..limits::HEADER_BYTES).unwrap_or(raw);
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
    use crate::jmap::standard::CreationIds;
    use crate::jmap::tests::context;
    use crate::model::EmailId;

    #[test]
    fn texts_fit_the_answer_or_the_call_is_refused() {
        let arguments = json!({"fetchAllBodyValues": true});
        let created = CreationIds::default();
        let mut context = context();
        context.budget = Budget::with(0, 0, 1000);
        let bodies = Bodies::read(&context, &Args(arguments.as_object().unwrap(), &created)).unwrap();
        let wanted = RequestedProperties::read(&["bodyValues".to_owned()]).unwrap();
        let blob = BlobId::email(EmailId(1));
        let of = |raw: &[u8]| bodies.of(&wanted, TracedMessage { prefix: &[], raw, blob: &blob }, &mut Map::new());
        assert_eq!(of(b"Subject: x\r\n\r\n1234567"), Ok(()));
        let long = format!("Subject: x\r\n\r\n{}", "x".repeat(1000));
        assert!(matches!(of(long.as_bytes()), Err(MethodError::RequestTooLarge(_))));
        // What was refused takes nothing.
        assert_eq!(of(b"Subject: x\r\n\r\n123"), Ok(()));
    }
}
