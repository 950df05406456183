//! A view of a message for tests. [`PlainMessage`] finds the parts and fields; mail-parser decodes
//! them.

use std::borrow::Cow;

use mail_parser::{Charset, Encoding, HeaderForm, html_to_text};
use restante_sieve::plain::PlainMessage;
use restante_sieve::{Field, MessageView, ParameterisedValue, Part, PartId};

/// A parsed message.
#[derive(Debug, Clone)]
pub struct TestMessage(PlainMessage);

impl TestMessage {
    /// Parses a message. Lines may end in LF or CR LF, and stay as they are.
    pub fn new(raw: impl Into<Vec<u8>>) -> Self {
        Self(PlainMessage::new(raw))
    }

    /// Returns the charset that a part names, in lower case, `None` if it names none.
    fn charset(&self, part: PartId) -> Option<String> {
        let (_, _, parameters) = parameterised(self.0.first_value(part, "Content-Type")?)?;
        let charset = parameters.into_iter().find(|(name, _)| name == "charset")?;
        Some(charset.1.to_ascii_lowercase())
    }

    /// Returns the transfer encoding that a part names, in lower case, empty if it names none.
    fn encoding(&self, part: PartId) -> Vec<u8> {
        let value = self.0.first_value(part, "Content-Transfer-Encoding");
        value.unwrap_or_default().trim_ascii().to_ascii_lowercase()
    }
}

impl MessageView for TestMessage {
    fn raw(&self) -> &[u8] {
        self.0.raw()
    }

    fn parts(&self) -> &[Part] {
        self.0.parts()
    }

    fn fields(&self, part: PartId) -> &[Field] {
        self.0.fields(part)
    }

    fn content(&self, part: PartId) -> Cow<'_, [u8]> {
        let content = self.0.content(part);
        match self.encoding(part).as_slice() {
            b"quoted-printable" => {
                Cow::Owned(Encoding::QuotedPrintable.decode(&content).into_owned())
            }
            b"base64" => Cow::Owned(Encoding::Base64.decode(&content).into_owned()),
            _ => content,
        }
    }

    fn text(&self, part: PartId) -> Option<Cow<'_, str>> {
        if self.parts().get(part.0 as usize)?.main_type != "text" {
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
        Some(match self.parts().get(part.0 as usize)?.subtype.as_str() {
            "html" => Cow::Owned(html_to_text(&text)),
            _ => text,
        })
    }

    fn decode_text<'a>(&self, value: &'a [u8]) -> Cow<'a, str> {
        let unfolded: Vec<u8> = value.iter().copied().filter(|c| !b"\r\n".contains(c)).collect();
        let parsed = HeaderForm::Text.parse(&unfolded);
        Cow::Owned(parsed.value().as_text().unwrap_or_default().trim().to_owned())
    }

    fn parse_parameters(&self, value: &[u8]) -> Option<ParameterisedValue> {
        let (main, subtype, parameters) = parameterised(value)?;
        let value = subtype.map_or(main.clone(), |subtype| format!("{main}/{subtype}"));
        Some(ParameterisedValue { value, parameters })
    }
}

type Parameters = Vec<(String, String)>;

/// Reads a value as a type, a subtype if there is one, and parameters.
fn parameterised(value: &[u8]) -> Option<(String, Option<String>, Parameters)> {
    let parsed = HeaderForm::ContentType.parse(value);
    let kind = parsed.value().as_content_type()?;
    let parameters =
        kind.attributes().map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    let subtype = kind.subtype().map(str::to_owned);
    Some((kind.ctype().to_owned(), subtype, parameters.collect()))
}
