//! Builds the body of an email that a client creates, from `bodyStructure`, or from `textBody`,
//! `htmlBody` and `attachments`.
//!
//! RFC 8621 §4.6 leaves the arrangement of these three lists to the server:
//!
//! - The text and the HTML become a multipart/alternative.
//! - If there is HTML, it and the attachments with a `cid` become a multipart/related (RFC 2387),
//!   except attachments whose disposition is `attachment`.
//! - The other attachments follow in a multipart/mixed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{HeaderFields, is_content_field};
use crate::jmap::context::{Account, Context};
use crate::jmap::standard::InvalidProperties;
use crate::message::build::{PartContent, PartDraft};
use crate::message::forms::{Form, HeaderProperty};
use crate::message::parse::media;
use crate::model::limits;
use crate::wire::jmap::MethodError;

/// The depth of a body that is created: half of what is read, so that a message that embeds the
/// created one can be read, too.
const MAX_PART_DEPTH: usize = limits::MAX_MIME_DEPTH / 2;

pub(super) struct PartBuilder<'a> {
    context: &'a Context,
    account: &'a Account,
    object: &'a Map<String, Value>,
    header: &'a HeaderFields,
    problems: &'a mut InvalidProperties,
    /// The texts of `bodyValues`, by part id.
    values: BTreeMap<&'a str, &'a str>,
    part_count: usize,
    pub(super) missing_blobs: Vec<String>,
    /// The bytes of all contents. Texts beyond the largest message are not copied.
    pub(super) total_bytes: u64,
    /// The bytes of the contents that are blobs.
    pub(super) blob_bytes: u64,
}

impl<'a> PartBuilder<'a> {
    pub(super) fn new(
        context: &'a Context,
        account: &'a Account,
        object: &'a Map<String, Value>,
        header: &'a HeaderFields,
        problems: &'a mut InvalidProperties,
    ) -> Self {
        let values = BTreeMap::new();
        let mut parts = Self {
            context,
            account,
            object,
            header,
            problems,
            values,
            part_count: 0,
            missing_blobs: Vec::new(),
            total_bytes: 0,
            blob_bytes: 0,
        };
        parts.read_values();
        parts
    }

    /// Returns `None` for null, too.
    fn property(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    fn read_values(&mut self) {
        let Some(json) = self.property("bodyValues") else { return };
        let Some(values) = json.as_object() else {
            return self.problems.add("bodyValues", "an object is expected");
        };
        for (id, json) in values {
            let path = format!("bodyValues/{id}");
            let Some(value) = json.get("value").and_then(Value::as_str) else {
                self.problems.add(path, "an object with a text as value is expected");
                continue;
            };
            for (name, json) in json.as_object().into_iter().flatten() {
                let is_false = json.is_null() || *json == Value::Bool(false);
                match name.as_str() {
                    "value" => {}
                    "isEncodingProblem" | "isTruncated" if is_false => {}
                    "isEncodingProblem" | "isTruncated" => {
                        self.problems.add(format!("{path}/{name}"), "it must be false");
                    }
                    _ => self.problems.add(format!("{path}/{name}"), "no such property"),
                }
            }
            self.values.insert(id, value);
        }
    }

    /// Builds the body, and collects invalid properties and missing blobs.
    pub(super) fn body(&mut self) -> Result<PartDraft, MethodError> {
        let lists = ["textBody", "htmlBody", "attachments"];
        if let Some(structure) = self.property("bodyStructure") {
            for name in lists {
                if self.property(name).is_some() {
                    self.problems.add(name, "it cannot be combined with bodyStructure");
                }
            }
            let mut root = self.part(structure, "bodyStructure", "", 0)?;
            set_missing_dispositions(&mut root, "mixed", true);
            return Ok(root);
        }
        let text = self.single_part("textBody", "text/plain")?;
        let html = self.single_part("htmlBody", "text/html")?;
        let mut files = Vec::new();
        if let Some(json) = self.property("attachments") {
            for (index, json) in self.array(json, "attachments").iter().enumerate() {
                let path = format!("attachments/{index}");
                let mut file = self.part(json, &path, "", 1)?;
                // With null, only a file with a name gets a disposition (below).
                if file.disposition.is_none() && json.get("disposition").is_none() {
                    file.disposition =
                        Some(if file.cid.is_some() { "inline" } else { "attachment" }.to_owned());
                }
                set_missing_dispositions(&mut file, "mixed", false);
                files.push(file);
            }
        }
        Ok(arrange(text, html, files))
    }

    fn array(&mut self, json: &'a Value, name: &str) -> &'a [Value] {
        if json.as_array().is_none() {
            self.problems.add(name, "an array is expected");
        }
        json.as_array().map_or(&[], Vec::as_slice)
    }

    /// Builds the only part of `textBody` or `htmlBody`.
    fn single_part(
        &mut self,
        name: &str,
        media_type: &str,
    ) -> Result<Option<PartDraft>, MethodError> {
        let Some(json) = self.property(name) else { return Ok(None) };
        let [json] = self.array(json, name) else {
            self.problems.add(name, "it must have exactly one part");
            return Ok(None);
        };
        let mut part = self.part(json, &format!("{name}/0"), media_type, 1)?;
        if part.media_type != media_type {
            self.problems.add(format!("{name}/0/type"), &format!("it must be {media_type}"));
        }
        set_missing_dispositions(&mut part, "mixed", true);
        Ok(Some(part))
    }

    /// Builds a part and the parts within. `path` names the part in errors. The root of a
    /// `bodyStructure` has depth 0, a part of a list depth 1. With an empty `default_type`, the
    /// default follows from the content.
    fn part(
        &mut self,
        json: &'a Value,
        path: &str,
        default_type: &str,
        depth: usize,
    ) -> Result<PartDraft, MethodError> {
        self.part_count += 1;
        let Some(object) = json.as_object() else {
            self.problems.add(path, "an object is expected");
            return Ok(PartDraft::default());
        };
        // Half of the parts that are read, for the reason that `MAX_PART_DEPTH` gives.
        if self.part_count > limits::MAX_MIME_PARTS / 2 || depth > MAX_PART_DEPTH {
            self.problems.add(path, "there are too many parts, or they are nested too deep");
            return Ok(PartDraft::default());
        }
        let mut part = PartDraft::default();
        let mut declared = PartProperties::default();
        for (name, value) in object.iter().filter(|(_, value)| !value.is_null()) {
            let path = format!("{path}/{name}");
            match name.as_str() {
                "partId" | "blobId" | "subParts" => {}
                // The size of a blob, which a client may send back, is ignored.
                "size" if object.get("partId").is_none_or(Value::is_null) && value.is_u64() => {}
                "charset" if object.get("partId").is_some_and(|id| !id.is_null()) => {
                    self.problems.add(path, "the server chooses it for a part with a partId");
                }
                "type" => {
                    declared.media_type =
                        self.text(value, &path).map(|text| text.to_ascii_lowercase());
                }
                "charset" => declared.charset = self.text(value, &path),
                "name" => part.name = self.text(value, &path),
                "disposition" => {
                    part.disposition =
                        self.text(value, &path).map(|text| text.to_ascii_lowercase());
                }
                "cid" => part.cid = self.text(value, &path),
                "location" => part.location = self.text(value, &path),
                "language" => {
                    let tags = value
                        .as_array()
                        .map(|all| all.iter().map(|tag| tag.as_str().map(str::to_owned)).collect());
                    match tags.flatten() {
                        Some(tags) => part.language = tags,
                        None => self.problems.add(path, "an array of texts is expected"),
                    }
                }
                name if name.starts_with("header:") => {
                    self.header_field(name, value, &path, depth == 0, &mut declared);
                }
                _ => self.problems.add(path, "a part cannot be created with this property"),
            }
        }
        part.content = self.content(object, path, depth)?;
        let default_type = match &part.content {
            PartContent::Parts(_) => "multipart/mixed",
            PartContent::Bytes(_) if default_type.is_empty() => "application/octet-stream",
            _ if default_type.is_empty() => "text/plain",
            _ => default_type,
        };
        declared.apply(&mut part, default_type, object, path, self.problems);
        if let Err((property, why)) = part.check() {
            self.problems.add(format!("{path}/{property}"), why.0);
        }
        Ok(part)
    }

    fn add_missing_blob(&mut self, blob: &str) {
        if !self.missing_blobs.iter().any(|missing| missing == blob) {
            self.missing_blobs.push(blob.to_owned());
        }
    }

    fn text(&mut self, value: &Value, path: &str) -> Option<String> {
        if !value.is_string() {
            self.problems.add(path, "a text is expected");
        }
        value.as_str().map(str::to_owned)
    }

    /// Reads a `header:` property of a part, and adds its fields to `declared`. The root shares the
    /// header of the message, so it may not set a field that the email sets.
    fn header_field(
        &mut self,
        name: &str,
        value: &Value,
        path: &str,
        is_root: bool,
        declared: &mut PartProperties,
    ) {
        match name.parse::<HeaderProperty>() {
            Err(error) => self.problems.add(path, &error.to_string()),
            Ok(property) if property.name.eq_ignore_ascii_case("Content-Transfer-Encoding") => {
                self.problems.add(path, "the server chooses it");
            }
            Ok(property)
                if is_root
                    && !is_content_field(&property.name)
                    && self.header.has(&property.name) =>
            {
                self.problems.add(path, "the email has this header field already");
            }
            Ok(property) => {
                // Content-Type and Content-Disposition are merged with other properties of the
                // part.
                let parsed_name = ["Content-Type", "Content-Disposition"]
                    .iter()
                    .find(|own| property.name.eq_ignore_ascii_case(own));
                let is_text = matches!(property.form, Form::Raw | Form::Text) && !property.all;
                match (
                    parsed_name,
                    value.as_str().filter(|_| is_text).and_then(|text| media(text.as_bytes())),
                ) {
                    (None, _) => declared.header.set(&property, value, path, self.problems),
                    (Some(name), Some(parsed)) if declared.header.claim(name) => {
                        if *name == "Content-Type" {
                            declared.type_field = Some(parsed);
                        } else {
                            declared.disposition_field = Some(parsed);
                        }
                    }
                    (Some(_), Some(_)) => {
                        self.problems.add(path, "the same header field is set by two properties");
                    }
                    (Some(_), None) => {
                        self.problems.add(path, "the value of this header field is invalid");
                    }
                }
            }
        }
    }

    /// Builds the content of a part: the text of its `partId`, the bytes of its `blobId`, or its
    /// `subParts`. If that is invalid, adds a problem or a missing blob, and returns an empty
    /// content.
    fn content(
        &mut self,
        object: &'a Map<String, Value>,
        path: &str,
        depth: usize,
    ) -> Result<PartContent, MethodError> {
        let property = |name: &str| object.get(name).filter(|value| !value.is_null());
        let empty = PartContent::Text(String::new());
        match (property("partId"), property("blobId"), property("subParts")) {
            (None, None, Some(children)) => {
                let mut parts = Vec::new();
                let path = format!("{path}/subParts");
                for (index, json) in self.array(children, &path).iter().enumerate() {
                    parts.push(self.part(json, &format!("{path}/{index}"), "", depth + 1)?);
                }
                Ok(PartContent::Parts(parts))
            }
            (Some(id), None, None) => {
                let value = id.as_str().and_then(|id| self.values.get(id));
                let Some(value) = value else {
                    self.problems.add(format!("{path}/partId"), "bodyValues has no such value");
                    return Ok(empty);
                };
                self.total_bytes += value.len() as u64;
                let fits = self.total_bytes <= limits::MAX_MESSAGE_BYTES;
                Ok(if fits { PartContent::Text((*value).to_owned()) } else { empty })
            }
            (None, Some(id), None) => {
                let Some(id) = id.as_str() else {
                    self.problems.add(format!("{path}/blobId"), "an id is expected");
                    return Ok(empty);
                };
                // If the email is refused anyway, only missing blobs are noted.
                if self.blob_bytes > limits::MAX_ATTACHMENTS_BYTES || !self.problems.is_empty() {
                    if !self.context.has_blob(self.account, id)? {
                        self.add_missing_blob(id);
                    }
                    return Ok(PartContent::Bytes(Vec::new()));
                }
                let Some(bytes) = self.context.bytes_by_id(self.account, id)? else {
                    self.add_missing_blob(id);
                    return Ok(PartContent::Bytes(Vec::new()));
                };
                self.total_bytes += bytes.len() as u64;
                self.blob_bytes += bytes.len() as u64;
                Ok(PartContent::Bytes(bytes))
            }
            (None, None, None) if is_multipart(object) => Ok(PartContent::Parts(Vec::new())),
            _ => {
                self.problems.add(
                    path,
                    "a part has either a partId or a blobId, or is a multipart with subParts",
                );
                Ok(empty)
            }
        }
    }
}

fn is_multipart(object: &Map<String, Value>) -> bool {
    object
        .get("type")
        .and_then(Value::as_str)
        .is_some_and(|media_type| media_type.to_ascii_lowercase().starts_with("multipart/"))
}

/// The value before its parameters, and the parameters.
type ParsedField = (String, Vec<(String, String)>);

/// What a part says of its type and its header fields, before it is checked for contradictions.
#[derive(Default)]
struct PartProperties {
    /// The property `type`.
    media_type: Option<String>,
    /// The property `charset`.
    charset: Option<String>,
    /// The fields of `header:` properties. Of Content-Type and Content-Disposition it has only the
    /// names.
    header: HeaderFields,
    /// The property `header:Content-Type`.
    type_field: Option<ParsedField>,
    /// The property `header:Content-Disposition`.
    disposition_field: Option<ParsedField>,
}

impl PartProperties {
    /// Sets the type, the parameters and the header fields of a part. Adds a problem for each
    /// property whose field a `header:` property sets, too, and for a wrong charset.
    fn apply(
        self,
        part: &mut PartDraft,
        default_type: &str,
        object: &Map<String, Value>,
        path: &str,
        problems: &mut InvalidProperties,
    ) {
        let is_set = |name: &str| object.get(name).is_some_and(|value| !value.is_null());
        let properties_of_fields: [(&str, &[&str]); 5] = [
            ("Content-Type", &["type", "charset", "name"]),
            ("Content-Disposition", &["disposition", "name"]),
            ("Content-ID", &["cid"]),
            ("Content-Language", &["language"]),
            ("Content-Location", &["location"]),
        ];
        let fields_set = properties_of_fields.iter().filter(|(field, _)| self.header.has(field));
        for (field, properties) in fields_set {
            for property in properties.iter().filter(|property| is_set(property)) {
                problems.add(
                    format!("{path}/{property}"),
                    &format!("{field} is set by another property"),
                );
            }
        }
        part.fields = self.header.fields;
        part.media_type = self.media_type.unwrap_or_else(|| default_type.to_owned());
        part.params.extend(self.charset.map(|charset| ("charset".to_owned(), charset)));
        // The server writes a text as UTF-8, so another charset would be wrong.
        let is_other_charset = |charset: &str| {
            !["utf-8", "us-ascii"].iter().any(|own| charset.eq_ignore_ascii_case(own))
        };
        if let Some((media_type, params)) = self.type_field {
            part.media_type = media_type;
            let is_text = matches!(part.content, PartContent::Text(_))
                && part.media_type.starts_with("text/");
            for (name, value) in params {
                match name.as_str() {
                    "boundary" => {}
                    "charset" if is_text && is_other_charset(&value) => {
                        problems.add(
                            format!("{path}/header:Content-Type"),
                            "the server writes the text as utf-8",
                        );
                    }
                    "charset" if is_text => {}
                    "name" => part.name = part.name.take().or(Some(value)),
                    _ => part.params.push((name, value)),
                }
            }
        }
        if let Some((disposition, params)) = self.disposition_field {
            part.disposition = Some(disposition);
            for (name, value) in params {
                match name.as_str() {
                    "filename" => part.name = Some(value),
                    _ => part.disposition_params.push((name, value)),
                }
            }
        }
    }
}

/// Gives a disposition to each part that has a name but no disposition, because a reader that
/// follows RFC 2183 looks for the name there. The disposition is what RFC 8621 §4.1.4 would make of
/// the part. `multipart` is the subtype of the parent, and `is_first` is whether the part counts as
/// the first in it: the root, the text and the HTML do, a part of `attachments` does not.
fn set_missing_dispositions(part: &mut PartDraft, multipart: &str, is_first: bool) {
    let media_type = part.media_type.as_str();
    let is_media = ["image/", "audio/", "video/"].iter().any(|top| media_type.starts_with(top));
    let is_displayed = match media_type {
        "text/plain" | "text/html" => is_first,
        _ => is_media && (is_first || multipart != "related"),
    };
    if part.name.is_some() && part.disposition.is_none() {
        let is_inline = is_displayed || part.cid.is_some();
        part.disposition = Some(if is_inline { "inline" } else { "attachment" }.to_owned());
    }
    let subtype = part.media_type.strip_prefix("multipart/").unwrap_or_default().to_owned();
    if let PartContent::Parts(parts) = &mut part.content {
        for (index, child) in parts.iter_mut().enumerate() {
            set_missing_dispositions(child, &subtype, index == 0);
        }
    }
}

fn multipart(subtype: &str, parts: Vec<PartDraft>) -> PartDraft {
    PartDraft {
        media_type: format!("multipart/{subtype}"),
        content: PartContent::Parts(parts),
        ..PartDraft::default()
    }
}

/// Arranges text, HTML and attachments as the head of this file says. Without any, the body is an
/// empty text.
fn arrange(text: Option<PartDraft>, html: Option<PartDraft>, files: Vec<PartDraft>) -> PartDraft {
    let belongs_to_html =
        |file: &PartDraft| file.cid.is_some() && file.disposition.as_deref() != Some("attachment");
    let (related, mixed): (Vec<PartDraft>, Vec<PartDraft>) =
        files.into_iter().partition(|file| html.is_some() && belongs_to_html(file));
    let html = html.map(|html| match related.is_empty() {
        true => html,
        false => multipart("related", [vec![html], related].concat()),
    });
    let body = match (text, html) {
        (Some(text), Some(html)) => Some(multipart("alternative", vec![text, html])),
        (text, html) => text.or(html),
    };
    if mixed.is_empty() {
        let empty = || PartDraft { media_type: "text/plain".into(), ..PartDraft::default() };
        return body.unwrap_or_else(empty);
    }
    multipart("mixed", body.into_iter().chain(mixed).collect())
}
