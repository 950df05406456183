//! The body of an email that is made: from `bodyStructure`, or from `textBody`, `htmlBody` and
//! `attachments`.
//!
//! Of these three: text and HTML are alternatives; what is inline and has a Content-ID goes with
//! the HTML (RFC 2387), all else beside it (RFC 8621 §4.6 leaves it to the server).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{HeaderFields, is_of_body};
use crate::jmap::context::{Account, Context};
use crate::jmap::standard::InvalidProperties;
use crate::message::build::{PartContent, PartDraft};
use crate::message::forms::{Form, HeaderProperty};
use crate::message::parse::media;
use crate::model::limits;
use crate::wire::jmap::MethodError;

/// Depth of what is made: half of what is read, so that what it is put into is read, too.
const MAX_PART_DEPTH: usize = limits::MAX_MIME_DEPTH / 2;

/// What is made of an object's parts.
pub(super) struct PartBuilder<'a> {
    context: &'a Context,
    account: &'a Account,
    object: &'a Map<String, Value>,
    header: &'a HeaderFields,
    wrong: &'a mut InvalidProperties,
    values: BTreeMap<&'a str, &'a str>,
    count: usize,
    /// Blobs that are not there.
    pub(super) missing: Vec<String>,
    /// Octets of all contents.
    pub(super) octets: u64,
    /// Octets of those that are blobs.
    pub(super) attached: u64,
}

impl<'a> PartBuilder<'a> {
    pub(super) fn new(
        context: &'a Context,
        account: &'a Account,
        object: &'a Map<String, Value>,
        header: &'a HeaderFields,
        wrong: &'a mut InvalidProperties,
    ) -> Self {
        let values = BTreeMap::new();
        let mut parts = Self {
            context,
            account,
            object,
            header,
            wrong,
            values,
            count: 0,
            missing: Vec::new(),
            octets: 0,
            attached: 0,
        };
        parts.read_values();
        parts
    }

    fn given(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    fn read_values(&mut self) {
        let Some(given) = self.given("bodyValues") else { return };
        let Some(values) = given.as_object() else {
            return self.wrong.add("bodyValues", "an object is wanted");
        };
        for (id, json) in values {
            let path = format!("bodyValues/{id}");
            let Some(value) = json.get("value").and_then(Value::as_str) else {
                self.wrong.add(path, "an object with a text as value is wanted");
                continue;
            };
            for (name, json) in json.as_object().into_iter().flatten() {
                let is_false = json.is_null() || *json == Value::Bool(false);
                match name.as_str() {
                    "value" => {}
                    "isEncodingProblem" | "isTruncated" if is_false => {}
                    "isEncodingProblem" | "isTruncated" => {
                        self.wrong.add(format!("{path}/{name}"), "it must be false")
                    }
                    _ => self.wrong.add(format!("{path}/{name}"), "no such property"),
                }
            }
            self.values.insert(id, value);
        }
    }

    /// The body.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn body(&mut self) -> Result<PartDraft, MethodError> {
        let lists = ["textBody", "htmlBody", "attachments"];
        if let Some(structure) = self.given("bodyStructure") {
            for name in lists {
                if self.given(name).is_some() {
                    self.wrong.add(name, "not together with bodyStructure");
                }
            }
            let mut root = self.part(structure, "bodyStructure", "", 0)?;
            named(&mut root, "mixed", true);
            return Ok(root);
        }
        let text = self.only("textBody", "text/plain")?;
        let html = self.only("htmlBody", "text/html")?;
        let mut files = Vec::new();
        if let Some(given) = self.given("attachments") {
            for (at, json) in self.array(given, "attachments").iter().enumerate() {
                let path = format!("attachments/{at}");
                let mut file = self.part(json, &path, "", 1)?;
                if file.disposition.is_none() && json.get("disposition").is_none() {
                    file.disposition =
                        Some(if file.cid.is_some() { "inline" } else { "attachment" }.to_owned());
                }
                named(&mut file, "mixed", false);
                files.push(file);
            }
        }
        Ok(arranged(text, html, files))
    }

    fn array(&mut self, given: &'a Value, name: &str) -> &'a [Value] {
        if given.as_array().is_none() {
            self.wrong.add(name, "an array is wanted");
        }
        given.as_array().map_or(&[], Vec::as_slice)
    }

    /// The one part of a list that must have one, of one type.
    fn only(&mut self, name: &str, media_type: &str) -> Result<Option<PartDraft>, MethodError> {
        let Some(given) = self.given(name) else { return Ok(None) };
        let [json] = self.array(given, name) else {
            self.wrong.add(name, "it has exactly one part");
            return Ok(None);
        };
        let mut part = self.part(json, &format!("{name}/0"), media_type, 1)?;
        if part.media_type != media_type {
            self.wrong.add(format!("{name}/0/type"), &format!("it must be {media_type}"));
        }
        named(&mut part, "mixed", true);
        Ok(Some(part))
    }

    /// `usual` is the type where none is said; where that is empty it goes by the content.
    fn part(
        &mut self,
        json: &'a Value,
        path: &str,
        usual: &str,
        depth: usize,
    ) -> Result<PartDraft, MethodError> {
        self.count += 1;
        let Some(object) = json.as_object() else {
            self.wrong.add(path, "an object is wanted");
            return Ok(PartDraft::default());
        };
        if self.count > limits::MAX_MIME_PARTS / 2 || depth > MAX_PART_DEPTH {
            self.wrong.add(path, "too many parts, or too deep");
            return Ok(PartDraft::default());
        }
        let mut part = PartDraft::default();
        let mut said = PartProperties::default();
        for (name, value) in object.iter().filter(|(_, value)| !value.is_null()) {
            let path = format!("{path}/{name}");
            match name.as_str() {
                "partId" | "blobId" | "subParts" => {}
                // Of a blob it may be said, and nobody listens.
                "size" if object.get("partId").is_none_or(Value::is_null) && value.is_u64() => {}
                "charset" if object.get("partId").is_some_and(|id| !id.is_null()) => {
                    self.wrong.add(path, "the server chooses it where there is a partId");
                }
                "type" => {
                    said.media_type = self.text(value, &path).map(|text| text.to_ascii_lowercase())
                }
                "charset" => said.charset = self.text(value, &path),
                "name" => part.name = self.text(value, &path),
                "disposition" => {
                    part.disposition = self.text(value, &path).map(|text| text.to_ascii_lowercase())
                }
                "cid" => part.cid = self.text(value, &path),
                "location" => part.location = self.text(value, &path),
                "language" => {
                    let tags = value
                        .as_array()
                        .map(|all| all.iter().map(|tag| tag.as_str().map(str::to_owned)).collect());
                    match tags.flatten() {
                        Some(tags) => part.language = tags,
                        None => self.wrong.add(path, "an array of texts is wanted"),
                    }
                }
                name if name.starts_with("header:") => {
                    self.field(name, value, &path, depth == 0, &mut said)
                }
                _ => self.wrong.add(path, "a part that is made has no such property"),
            }
        }
        part.content = self.content(object, path, depth)?;
        let kind = match &part.content {
            PartContent::Parts(_) => "multipart/mixed",
            PartContent::Bytes(_) if usual.is_empty() => "application/octet-stream",
            _ if usual.is_empty() => "text/plain",
            _ => usual,
        };
        said.apply(&mut part, kind, object, path, self.wrong);
        if let Err((property, why)) = part.check() {
            self.wrong.add(format!("{path}/{property}"), why.0);
        }
        Ok(part)
    }

    fn lacks(&mut self, blob: &str) {
        if !self.missing.iter().any(|known| known == blob) {
            self.missing.push(blob.to_owned());
        }
    }

    fn text(&mut self, value: &Value, path: &str) -> Option<String> {
        if !value.is_string() {
            self.wrong.add(path, "a text is wanted");
        }
        value.as_str().map(str::to_owned)
    }

    fn field(
        &mut self,
        name: &str,
        value: &Value,
        path: &str,
        is_root: bool,
        said: &mut PartProperties,
    ) {
        match name.parse::<HeaderProperty>() {
            Err(error) => self.wrong.add(path, &error.to_string()),
            Ok(property) if property.name.eq_ignore_ascii_case("Content-Transfer-Encoding") => {
                self.wrong.add(path, "the server chooses it");
            }
            Ok(property)
                if is_root && !is_of_body(&property.name) && self.header.has(&property.name) =>
            {
                self.wrong.add(path, "the email has this header field already");
            }
            Ok(property) => {
                // These two are taken apart: what else is said of the part must go with them.
                let parsed = ["Content-Type", "Content-Disposition"]
                    .iter()
                    .find(|own| property.name.eq_ignore_ascii_case(own));
                let plain = matches!(property.form, Form::Raw | Form::Text) && !property.all;
                match (
                    parsed,
                    value.as_str().filter(|_| plain).and_then(|text| media(text.as_bytes())),
                ) {
                    (None, _) => said.header.set(&property, value, path, self.wrong),
                    (Some(own), Some(found)) if said.header.claim(own) => {
                        let place = if *own == "Content-Type" {
                            &mut said.kind
                        } else {
                            &mut said.disposition
                        };
                        *place = Some(found);
                    }
                    (Some(_), Some(_)) => {
                        self.wrong.add(path, "the same header field is set by two properties")
                    }
                    (Some(_), None) => self.wrong.add(path, "it cannot be read"),
                }
            }
        }
    }

    fn content(
        &mut self,
        object: &'a Map<String, Value>,
        path: &str,
        depth: usize,
    ) -> Result<PartContent, MethodError> {
        let given = |name: &str| object.get(name).filter(|value| !value.is_null());
        let empty = PartContent::Text(String::new());
        match (given("partId"), given("blobId"), given("subParts")) {
            (None, None, Some(children)) => {
                let mut parts = Vec::new();
                for (at, json) in
                    self.array(children, &format!("{path}/subParts")).iter().enumerate()
                {
                    parts.push(self.part(json, &format!("{path}/subParts/{at}"), "", depth + 1)?);
                }
                Ok(PartContent::Parts(parts))
            }
            (Some(id), None, None) => {
                let value = id.as_str().and_then(|id| self.values.get(id));
                let Some(value) = value else {
                    self.wrong.add(format!("{path}/partId"), "bodyValues has no such value");
                    return Ok(empty);
                };
                self.octets += value.len() as u64;
                Ok(PartContent::Text((*value).to_owned()))
            }
            (None, Some(id), None) => {
                let Some(id) = id.as_str() else {
                    self.wrong.add(format!("{path}/blobId"), "an id is wanted");
                    return Ok(empty);
                };
                // Of what is beyond measure, or wrong already, it is only asked what is not there.
                if self.attached > limits::MAX_ATTACHMENTS_BYTES || !self.wrong.is_empty() {
                    if !self.context.has_blob(self.account, id)? {
                        self.lacks(id);
                    }
                    return Ok(PartContent::Bytes(Vec::new()));
                }
                let Some(octets) = self.context.bytes_by_id(self.account, id)? else {
                    self.lacks(id);
                    return Ok(PartContent::Bytes(Vec::new()));
                };
                self.octets += octets.len() as u64;
                self.attached += octets.len() as u64;
                Ok(PartContent::Bytes(octets))
            }
            // A multipart of no parts.
            (None, None, None) if is_multipart(object) => Ok(PartContent::Parts(Vec::new())),
            _ => {
                self.wrong.add(
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
        .is_some_and(|kind| kind.to_ascii_lowercase().starts_with("multipart/"))
}

/// A header field's first value, and its parameters.
type ParsedField = (String, Vec<(String, String)>);

/// What is said of a part's type and disposition, by properties and by header fields.
#[derive(Default)]
struct PartProperties {
    media_type: Option<String>,
    charset: Option<String>,
    header: HeaderFields,
    kind: Option<ParsedField>,
    disposition: Option<ParsedField>,
}

impl PartProperties {
    fn apply(
        self,
        part: &mut PartDraft,
        usual: &str,
        object: &Map<String, Value>,
        path: &str,
        wrong: &mut InvalidProperties,
    ) {
        let given = |name: &str| object.get(name).is_some_and(|value| !value.is_null());
        let rules: [(&str, &[&str]); 5] = [
            ("Content-Type", &["type", "charset", "name"]),
            ("Content-Disposition", &["disposition", "name"]),
            ("Content-ID", &["cid"]),
            ("Content-Language", &["language"]),
            ("Content-Location", &["location"]),
        ];
        for (field, properties) in rules.iter().filter(|(field, _)| self.header.has(field)) {
            for property in properties.iter().filter(|property| given(property)) {
                wrong.add(
                    format!("{path}/{property}"),
                    &format!("{field} is set by another property"),
                );
            }
        }
        part.fields = self.header.fields;
        part.media_type = self.media_type.unwrap_or_else(|| usual.to_owned());
        part.params.extend(self.charset.map(|charset| ("charset".to_owned(), charset)));
        // What a text is written in, is the server's choice: another charset would be a lie.
        let lies = |charset: &str| {
            !["utf-8", "us-ascii"].iter().any(|known| charset.eq_ignore_ascii_case(known))
        };
        if let Some((kind, params)) = self.kind {
            part.media_type = kind;
            let is_text = matches!(part.content, PartContent::Text(_))
                && part.media_type.starts_with("text/");
            for (name, value) in params {
                match name.as_str() {
                    "boundary" => {}
                    "charset" if is_text && lies(&value) => {
                        wrong.add(
                            format!("{path}/header:Content-Type"),
                            "the server writes it as utf-8",
                        );
                    }
                    "charset" if is_text => {}
                    "name" => part.name = part.name.take().or(Some(value)),
                    _ => part.params.push((name, value)),
                }
            }
        }
        if let Some((kind, params)) = self.disposition {
            part.disposition = Some(kind);
            for (name, value) in params {
                match name.as_str() {
                    "filename" => part.name = Some(value),
                    _ => part.disposition_params.push((name, value)),
                }
            }
        }
    }
}

/// Gives a part with a name, and the parts within, a disposition where none is said: only that
/// field tells the name to those who follow RFC 2183. It is the one that the part is read as
/// without it (RFC 8621 §4.1.4).
fn named(part: &mut PartDraft, multipart: &str, first: bool) {
    let kind = part.media_type.as_str();
    let is_media = ["image/", "audio/", "video/"].iter().any(|known| kind.starts_with(known));
    let shown = match kind {
        "text/plain" | "text/html" => first,
        _ => is_media && (first || multipart != "related"),
    };
    if part.name.is_some() && part.disposition.is_none() {
        let inline = shown || part.cid.is_some();
        part.disposition = Some(if inline { "inline" } else { "attachment" }.to_owned());
    }
    let within = part.media_type.strip_prefix("multipart/").unwrap_or_default().to_owned();
    if let PartContent::Parts(parts) = &mut part.content {
        for (at, child) in parts.iter_mut().enumerate() {
            named(child, &within, at == 0);
        }
    }
}

fn multipart(kind: &str, parts: Vec<PartDraft>) -> PartDraft {
    PartDraft {
        media_type: format!("multipart/{kind}"),
        content: PartContent::Parts(parts),
        ..PartDraft::default()
    }
}

fn arranged(text: Option<PartDraft>, html: Option<PartDraft>, files: Vec<PartDraft>) -> PartDraft {
    let goes_with =
        |file: &PartDraft| file.cid.is_some() && file.disposition.as_deref() != Some("attachment");
    let (inline, beside): (Vec<PartDraft>, Vec<PartDraft>) =
        files.into_iter().partition(|file| html.is_some() && goes_with(file));
    let html = html.map(|html| match inline.is_empty() {
        true => html,
        false => multipart("related", [vec![html], inline].concat()),
    });
    let shown = match (text, html) {
        (Some(text), Some(html)) => Some(multipart("alternative", vec![text, html])),
        (text, html) => text.or(html),
    };
    if beside.is_empty() {
        let empty = || PartDraft { media_type: "text/plain".into(), ..PartDraft::default() };
        return shown.unwrap_or_else(empty);
    }
    multipart("mixed", shown.into_iter().chain(beside).collect())
}
