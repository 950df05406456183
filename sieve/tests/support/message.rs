//! A view of a message over its bytes. mail-parser reads values and decodes; the parts are found
//! here.

use std::borrow::Cow;
use std::ops::Range;

use mail_parser::{Charset, Encoding, HeaderForm, html_to_text};
use restante_sieve::{
    AddressEntry, Field, MessageView, ParameterisedValue, Part, PartId, parse_address_list,
};

/// Levels of parts that are found.
const MAX_DEPTH: usize = 20;

/// A parsed message.
#[derive(Debug, Clone)]
pub struct TestMessage {
    raw: Vec<u8>,
    parts: Vec<Part>,
    fields: Vec<Vec<Field>>,
}

impl TestMessage {
    /// Parses a message. Lines may end in LF or CR LF, and stay as they are.
    pub fn new(raw: impl Into<Vec<u8>>) -> Self {
        let mut message = Self { raw: raw.into(), parts: Vec::new(), fields: Vec::new() };
        message.add_part(None, 0..message.raw.len(), ("text", "plain"), 0);
        message
    }

    fn add_part(
        &mut self,
        parent: Option<PartId>,
        range: Range<usize>,
        default: (&str, &str),
        depth: usize,
    ) {
        let (fields, body) = self.header(range.clone());
        let end = fields.last().map_or(range.start, |field| field.whole.end);
        let media = self.value_of(&fields, "content-type").and_then(media);
        let (main_type, subtype, parameters) =
            media.unwrap_or_else(|| (default.0.to_owned(), default.1.to_owned(), Vec::new()));
        let id = PartId(u32::try_from(self.parts.len()).unwrap());
        let part = Part {
            parent,
            main_type,
            subtype,
            header: range.start..end,
            body: body..range.end.max(body),
        };
        let (is_message, is_multipart) = (part.is_message(), part.is_multipart());
        let inner = part.body.clone();
        let default =
            if part.subtype == "digest" { ("message", "rfc822") } else { ("text", "plain") };
        self.parts.push(part);
        self.fields.push(fields);
        if depth >= MAX_DEPTH {
            return;
        }
        if is_message {
            self.add_part(Some(id), inner, ("text", "plain"), depth + 1);
        } else if is_multipart {
            let boundary = parameters.iter().find(|(name, _)| name == "boundary");
            let boundary = boundary.map(|(_, value)| value.clone()).unwrap_or_default();
            for child in self.children(inner, &boundary) {
                self.add_part(Some(id), child, default, depth + 1);
            }
        }
    }

    /// Finds the fields of a header. Returns where the body begins.
    fn header(&self, range: Range<usize>) -> (Vec<Field>, usize) {
        let mut fields: Vec<Field> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let end = self.line_end(at, range.end);
            let line = &self.raw[at..end];
            let text = trim_line_end(line);
            if text.is_empty() {
                return (fields, end);
            }
            match (text.first(), fields.last_mut(), memchr(b':', text)) {
                (Some(b' ' | b'\t'), Some(last), _) => {
                    last.value.end = at + text.len();
                    last.whole.end = end;
                }
                (_, _, Some(colon)) => {
                    let name = text[..colon].trim_ascii_end().len();
                    fields.push(Field {
                        name: at..at + name,
                        value: at + colon + 1..at + text.len(),
                        whole: at..end,
                    });
                }
                _ => return (fields, at),
            }
            at = end;
        }
        (fields, range.end)
    }

    /// Finds the parts between the delimiter lines of a multipart.
    fn children(&self, body: Range<usize>, boundary: &str) -> Vec<Range<usize>> {
        let mut children = Vec::new();
        let mut start: Option<usize> = None;
        let mut at = body.start;
        while at < body.end && !boundary.is_empty() {
            let end = self.line_end(at, body.end);
            let line = self.raw[at..end].trim_ascii_end();
            let rest =
                line.strip_prefix(b"--").and_then(|line| line.strip_prefix(boundary.as_bytes()));
            if let Some(rest) = rest.filter(|rest| rest.is_empty() || *rest == b"--") {
                if let Some(start) = start {
                    children.push(start..self.before_line_end(start, at));
                }
                start = Some(end);
                if rest == b"--" {
                    return children;
                }
            }
            at = end;
        }
        if let Some(start) = start {
            children.push(start..body.end);
        }
        children
    }

    /// The line end before a delimiter belongs to the delimiter (RFC 2046 §5.1.1).
    fn before_line_end(&self, start: usize, at: usize) -> usize {
        start + trim_line_end(&self.raw[start..at.max(start)]).len()
    }

    fn line_end(&self, at: usize, limit: usize) -> usize {
        memchr(b'\n', &self.raw[at..limit]).map_or(limit, |end| at + end + 1)
    }

    /// Returns the charset of a part in lower case.
    fn charset(&self, part: PartId) -> Option<String> {
        let media = self.value_of(self.fields(part), "content-type").and_then(media);
        let (_, _, parameters) = media?;
        let charset = parameters.into_iter().find(|(name, _)| name == "charset")?;
        Some(charset.1.to_ascii_lowercase())
    }

    /// Returns the transfer encoding of a part in lower case.
    fn encoding(&self, part: PartId) -> Vec<u8> {
        let value = self.value_of(self.fields(part), "content-transfer-encoding");
        value.unwrap_or_default().trim_ascii().to_ascii_lowercase()
    }

    fn value_of(&self, fields: &[Field], name: &str) -> Option<&[u8]> {
        let is_named =
            |field: &&Field| self.raw[field.name.clone()].eq_ignore_ascii_case(name.as_bytes());
        fields.iter().find(is_named).map(|field| &self.raw[field.value.clone()])
    }
}

impl MessageView for TestMessage {
    fn raw(&self) -> &[u8] {
        &self.raw
    }

    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn fields(&self, part: PartId) -> &[Field] {
        self.fields.get(part.0 as usize).map(Vec::as_slice).unwrap_or_default()
    }

    fn content(&self, part: PartId) -> Cow<'_, [u8]> {
        let Some(body) = self.parts.get(part.0 as usize).map(|part| part.body.clone()) else {
            return Cow::Borrowed(&[]);
        };
        match self.encoding(part).as_slice() {
            b"quoted-printable" => Encoding::QuotedPrintable.decode(&self.raw[body]),
            b"base64" => Encoding::Base64.decode(&self.raw[body]),
            _ => Cow::Borrowed(&self.raw[body]),
        }
    }

    fn text(&self, part: PartId) -> Option<Cow<'_, str>> {
        if self.parts.get(part.0 as usize)?.main_type != "text" {
            return None;
        }
        let charset = self.charset(part).and_then(|name| Charset::from_label(name.as_bytes()));
        let content = self.content(part);
        Some(match charset {
            Some(charset) => Cow::Owned(charset.decode_owned(content.into_owned())),
            None => Cow::Owned(String::from_utf8_lossy(&content).into_owned()),
        })
    }

    fn plain_text(&self, part: PartId) -> Option<Cow<'_, str>> {
        let text = self.text(part)?;
        let is_known = |name: &str| Charset::from_label(name.as_bytes()).is_some();
        let has_charset = self.charset(part).is_none_or(|name| is_known(&name));
        let encodings: [&[u8]; 6] =
            [b"", b"7bit", b"8bit", b"binary", b"quoted-printable", b"base64"];
        if !has_charset || !encodings.contains(&self.encoding(part).as_slice()) {
            return None;
        }
        Some(match self.parts.get(part.0 as usize)?.subtype.as_str() {
            "html" => Cow::Owned(html_to_text(&text)),
            _ => text,
        })
    }

    fn decode_text<'a>(&self, value: &'a [u8]) -> Cow<'a, str> {
        let unfolded: Vec<u8> = value.iter().copied().filter(|c| !b"\r\n".contains(c)).collect();
        let parsed = HeaderForm::Text.parse(&unfolded);
        Cow::Owned(parsed.value().as_text().unwrap_or_default().trim().to_owned())
    }

    fn parse_addresses(&self, value: &[u8]) -> Vec<AddressEntry> {
        parse_address_list(value, |name| self.decode_text(name.as_bytes()).into_owned())
    }

    fn parse_parameters(&self, value: &[u8]) -> Option<ParameterisedValue> {
        let (main, subtype, parameters) = parameterised(value)?;
        let value = subtype.map_or(main.clone(), |subtype| format!("{main}/{subtype}"));
        Some(ParameterisedValue { value, parameters })
    }
}

type Parameters = Vec<(String, String)>;

/// Returns the type and the subtype in lower case, and the parameters. `None` if they are not
/// valid.
fn media(value: &[u8]) -> Option<(String, String, Parameters)> {
    let (main, subtype, parameters) = parameterised(value)?;
    Some((main.to_ascii_lowercase(), subtype?.to_ascii_lowercase(), parameters))
}

fn parameterised(value: &[u8]) -> Option<(String, Option<String>, Parameters)> {
    let parsed = HeaderForm::ContentType.parse(value);
    let kind = parsed.value().as_content_type()?;
    let parameters =
        kind.attributes().map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    let subtype = kind.subtype().map(str::to_owned);
    Some((kind.ctype().to_owned(), subtype, parameters.collect()))
}

fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn memchr(byte: u8, text: &[u8]) -> Option<usize> {
    text.iter().position(|one| *one == byte)
}
