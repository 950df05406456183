//! Writes JSON as text, byte for byte as `serde_json` does, only faster.
//!
//! - An array of many large objects need not be a tree: each object can be written, and dropped,
//!   before the next one is made (`ArrayWriter`).
//! - A `JsonText` knows the weight of the tree that it replaces, so that a limit on answers does
//!   not depend on their form.
//! - Noncharacters are left in the text: they are replaced when a response is complete
//!   (`json::without_noncharacters`).

use serde_json::{Map, Value};

use super::json::{members_weight, weight};

/// The text of a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonText {
    bytes: Vec<u8>,
    /// The weight of the value as a tree (`json::weight`).
    weight: usize,
}

impl JsonText {
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Writes an array item by item.
#[derive(Debug)]
pub struct ArrayWriter {
    bytes: Vec<u8>,
    weight: usize,
}

impl ArrayWriter {
    /// Begins an array, with room for a text of `bytes` bytes, which may become longer.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        let mut text = Vec::with_capacity(bytes);
        text.push(b'[');
        Self { bytes: text, weight: size_of::<Value>() }
    }

    /// Adds an item. `weight` is that of the item (`json::weight`).
    pub fn push(&mut self, item: &Value, weight: usize) {
        if self.bytes.len() > 1 {
            self.bytes.push(b',');
        }
        write_value(&mut self.bytes, item);
        self.weight = self.weight.saturating_add(weight);
    }

    #[must_use]
    pub fn finish(mut self) -> JsonText {
        self.bytes.push(b']');
        JsonText { bytes: self.bytes, weight: self.weight }
    }
}

/// The arguments of a method response.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResponseArguments {
    pub members: Map<String, Value>,
    /// The text that is written for one of the members. No later call may refer to the response
    /// (`reference::refers_to`), because the member itself is null.
    pub text: Option<(&'static str, JsonText)>,
}

impl From<Map<String, Value>> for ResponseArguments {
    fn from(members: Map<String, Value>) -> Self {
        Self { members, text: None }
    }
}

/// A value that is not an object has no members.
impl From<Value> for ResponseArguments {
    fn from(value: Value) -> Self {
        super::json::members(value).into()
    }
}

impl ResponseArguments {
    /// Sets the text that is written in place of the value of a member. The member is added if it
    /// is missing. Only one member has a text: the last one for which this was called.
    pub fn replace_by_text(&mut self, name: &'static str, text: JsonText) {
        self.members.insert(name.to_owned(), Value::Null);
        self.text = Some((name, text));
    }

    /// Returns the weight of the arguments as one tree.
    #[must_use]
    pub fn weight(&self) -> usize {
        let text = self.text.as_ref();
        let beyond_null =
            text.map_or(0, |(_, text)| text.weight.saturating_sub(weight(&Value::Null)));
        members_weight(&self.members).saturating_add(beyond_null)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let text_of = |name: &str| self.text.as_ref().filter(|(own, _)| *own == name);
        write_object(out, &self.members, |out, name, value| match text_of(name) {
            Some((_, text)) => out.extend_from_slice(&text.bytes),
            None => write_value(out, value),
        });
    }
}

pub(super) fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        // Writing into memory does not fail.
        Value::Number(number) => drop(serde_json::to_writer(out, number)),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push(b'[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                write_value(out, item);
            }
            out.push(b']');
        }
        Value::Object(members) => write_members(out, members),
    }
}

/// Writes an object.
pub(super) fn write_members(out: &mut Vec<u8>, members: &Map<String, Value>) {
    write_object(out, members, |out, _, value| write_value(out, value));
}

/// Writes an object whose values `write` writes.
fn write_object(
    out: &mut Vec<u8>,
    members: &Map<String, Value>,
    mut write: impl FnMut(&mut Vec<u8>, &str, &Value),
) {
    out.push(b'{');
    for (number, (name, value)) in members.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        write_string(out, name);
        out.push(b':');
        write(out, name, value);
    }
    out.push(b'}');
}

/// Writes a string in quotes, with the escapes that `serde_json` uses.
pub(super) fn write_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut rest = text.as_bytes();
    out.push(b'"');
    loop {
        let (plain, special) = rest.split_at(plain_length(rest));
        out.extend_from_slice(plain);
        let Some((byte, behind)) = special.split_first() else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x09 => out.extend_from_slice(b"\\t"),
            0x0a => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            0x0d => out.extend_from_slice(b"\\r"),
            other => {
                // Another control character, below 0x20, as two hexadecimal digits.
                out.extend_from_slice(b"\\u00");
                for digit in [other >> 4, other & 15] {
                    out.extend(HEX.get(usize::from(digit)));
                }
            }
        }
        rest = behind;
    }
    out.push(b'"');
}

/// Returns how many bytes at the beginning of a text are written as they are.
fn plain_length(bytes: &[u8]) -> usize {
    let is_special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    // Without a branch for each byte, so that the compiler compares 16 bytes at once.
    let chunks = bytes.as_chunks::<32>().0;
    let is_plain =
        |chunk: &&[u8; 32]| !chunk.iter().fold(false, |any, byte| any | is_special(byte));
    let plain = chunks.iter().take_while(is_plain).count().saturating_mul(32);
    let rest = bytes.get(plain..).unwrap_or_default();
    plain.saturating_add(rest.iter().position(is_special).unwrap_or(rest.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::wire::jmap::json::weight;

    /// Any JSON. Texts are long enough for several chunks, and full of what is escaped.
    fn any_json() -> impl Strategy<Value = Value> {
        let text = || {
            let piece = prop_oneof![
                "[ -~]{0,40}",
                "[\\x00-\\x7f]{0,8}",
                "[\"\\\\/\\r\\n\\t]{0,3}",
                "\\PC{0,8}"
            ];
            proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
        };
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 12, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
                proptest::collection::btree_map(text(), inner, 0..12)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn text_is_that_of_serde(value in any_json()) {
            let mut written = Vec::new();
            write_value(&mut written, &value);
            prop_assert_eq!(String::from_utf8(written).unwrap(), value.to_string());
        }

        #[test]
        fn text_member_is_written_and_weighed_as_the_tree(
            members in proptest::collection::btree_map("[a-z]{0,6}", any_json(), 0..12),
            list in proptest::collection::vec(any_json(), 0..6),
        ) {
            let mut members: Map<String, Value> = members.into_iter().collect();
            let mut items = ArrayWriter::with_capacity(0);
            list.iter().for_each(|item| items.push(item, weight(item)));
            let mut arguments = ResponseArguments::from(members.clone());
            arguments.replace_by_text("list", items.finish());
            members.insert("list".into(), list.into());
            let tree = Value::Object(members);
            let mut written = Vec::new();
            arguments.write(&mut written);
            prop_assert_eq!(String::from_utf8(written).unwrap(), tree.to_string());
            prop_assert_eq!(arguments.weight(), weight(&tree));
            prop_assert_eq!(ResponseArguments::from(tree.clone()).weight(), weight(&tree));
        }
    }

    #[test]
    fn every_ascii_character_is_written_as_serde_does() {
        let text: String = (0..128_u8).map(char::from).collect();
        for begin in 0..text.len() {
            let value = json!(text[begin..]);
            let mut written = Vec::new();
            write_value(&mut written, &value);
            assert_eq!(String::from_utf8(written).unwrap(), value.to_string());
        }
    }
}
