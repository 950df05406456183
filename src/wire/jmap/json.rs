//! Reads and writes I-JSON (RFC 7493), which JMAP requires (RFC 8620 §1.5).
//!
//! - `read` refuses repeated names, noncharacters, lone surrogates, whole numbers beyond ±(2^53-1),
//!   and text that is not UTF-8. `write` replaces noncharacters and refuses nothing.
//! - The depth of a text is checked before its value is built, and the number of values while it is
//!   built: a value may need ten times the memory of its text.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::text::write_value;
use crate::model::limits;

/// The largest `UnsignedInt`, and the largest absolute value of an `Int` (RFC 8620 §1.3).
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The text says why it is not I-JSON.
    #[error("{0}")]
    NotJson(String),
    #[error("nested deeper than {}", limits::MAX_JSON_DEPTH)]
    TooDeep,
    #[error("more than {} values", limits::MAX_JSON_VALUES)]
    TooManyValues,
}

/// Parses one JSON value, after which only blanks may follow.
///
/// # Errors
/// `TooDeep` above `limits::MAX_JSON_DEPTH`, `TooManyValues` above `limits::MAX_JSON_VALUES`, and
/// `NotJson` for anything else that is not I-JSON.
pub fn read(text: &[u8]) -> Result<Value, JsonError> {
    if deeper_than(text, limits::MAX_JSON_DEPTH) {
        return Err(JsonError::TooDeep);
    }
    let mut values_left = ValuesLeft { count: limits::MAX_JSON_VALUES, is_exceeded: false };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = StrictValue(&mut values_left)
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| {
        if values_left.is_exceeded {
            JsonError::TooManyValues
        } else {
            JsonError::NotJson(error.to_string())
        }
    })
}

/// Writes a value without blanks. Noncharacters, which mail may contain, are replaced by U+FFFD.
#[must_use]
pub fn write(value: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    write_value(&mut text, value);
    without_noncharacters(text)
}

/// Replaces noncharacters in a text by U+FFFD.
pub(super) fn without_noncharacters(text: Vec<u8>) -> Vec<u8> {
    // In UTF-8 every noncharacter begins with a byte from 0xef on. These are rare. The largest byte
    // of a chunk is found without a branch for each byte.
    let is_suspect = |chunk: &[u8]| chunk.iter().fold(0, |max, byte| (*byte).max(max)) >= 0xef;
    if !text.chunks(256).any(is_suspect) {
        return text;
    }
    match std::str::from_utf8(&text) {
        Ok(valid) if valid.contains(is_noncharacter) => {
            valid.replace(is_noncharacter, "\u{fffd}").into_bytes()
        }
        _ => text,
    }
}

/// The bytes of a node of a `serde_json::Map`, which has room for 11 members.
const NODE_BYTES: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 16;
/// The usual number of members in a node.
const NODE_MEMBERS: usize = 8;

/// Returns about how many bytes of memory a value takes.
#[must_use]
pub fn weight(value: &Value) -> usize {
    weight_within(value, usize::MAX).unwrap_or(usize::MAX)
}

/// Returns the weight of an object with these members.
#[must_use]
pub(super) fn members_weight(members: &Map<String, Value>) -> usize {
    let mut bytes_left = usize::MAX;
    weigh_members(members, &mut bytes_left)
        .map_or(usize::MAX, |()| usize::MAX.saturating_sub(bytes_left))
}

/// Returns the same estimate as `weight`, or `None` above `max`.
#[must_use]
pub fn weight_within(value: &Value, max: usize) -> Option<usize> {
    let mut bytes_left = max;
    weigh(value, &mut bytes_left).map(|()| max.saturating_sub(bytes_left))
}

fn weigh(value: &Value, bytes_left: &mut usize) -> Option<()> {
    let own = match value {
        Value::Object(members) => return weigh_members(members, bytes_left),
        Value::String(text) => text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => 0,
    };
    *bytes_left = bytes_left.checked_sub(own.saturating_add(size_of::<Value>()))?;
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| weigh(item, bytes_left)),
        _ => Some(()),
    }
}

fn weigh_members(members: &Map<String, Value>, bytes_left: &mut usize) -> Option<()> {
    let names: usize = members.keys().map(String::len).sum();
    let nodes = members.len().div_ceil(NODE_MEMBERS).saturating_mul(NODE_BYTES);
    let own = nodes.saturating_add(names).saturating_add(size_of::<Value>());
    *bytes_left = bytes_left.checked_sub(own)?;
    members.values().try_for_each(|value| weigh(value, bytes_left))
}

/// Returns the members of an object, and no members for any other value.
#[must_use]
pub fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Returns an object of the members, or null if there are none (RFC 8620 §5.3).
#[must_use]
pub fn or_null(members: Map<String, Value>) -> Value {
    if members.is_empty() { Value::Null } else { Value::Object(members) }
}

/// Whether this is a noncharacter (Unicode §23.7): U+FDD0 to U+FDEF, or one of the last two code
/// points of a plane.
fn is_noncharacter(c: char) -> bool {
    let code = u32::from(c);
    (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe
}

/// Whether arrays and objects in a JSON text are nested deeper than `max`. Of a text that is not
/// JSON, the answer may be either.
fn deeper_than(text: &[u8], max: usize) -> bool {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth = depth.saturating_add(1);
                if depth > max {
                    return true;
                }
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// How many values may still be read.
struct ValuesLeft {
    count: usize,
    /// Whether there was one more value than `count` allowed.
    is_exceeded: bool,
}

/// Reads one value.
struct StrictValue<'r>(&'r mut ValuesLeft);

impl<'de> DeserializeSeed<'de> for StrictValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        let Some(left) = self.0.count.checked_sub(1) else {
            self.0.is_exceeded = true;
            return Err(D::Error::custom("too many values"));
        };
        self.0.count = left;
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("I-JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        if value > MAX_SAFE_INTEGER { Err(too_large()) } else { Ok(value.into()) }
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        if value.unsigned_abs() > MAX_SAFE_INTEGER { Err(too_large()) } else { Ok(value.into()) }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        // A whole number beyond 64 bits arrives here, too. The bound is `MAX_SAFE_INTEGER`.
        let is_too_large = value.fract() == 0.0 && value.abs() > 9_007_199_254_740_991.0;
        Number::from_f64(value).filter(|_| !is_too_large).map(Value::Number).ok_or_else(too_large)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        check_text(value).map(|()| Value::String(value.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Value, E> {
        check_text(&value).map(|()| Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element_seed(StrictValue(self.0))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            check_text::<A::Error>(&name)?;
            let value = from.next_value_seed(StrictValue(self.0))?;
            if members.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the name {name:?} occurs twice")));
            }
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

fn too_large<E: serde::de::Error>() -> E {
    E::custom("a whole number beyond 2^53-1 or -(2^53-1)")
}

fn check_text<E: serde::de::Error>(value: &str) -> Result<(), E> {
    if !value.is_ascii() && value.contains(is_noncharacter) {
        Err(E::custom("a Unicode noncharacter"))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// RFC 7493 §2.
    #[test]
    fn reads_i_json_and_refuses_all_else() {
        for (text, expected) in [
            (
                "{\"a\":[1,-2,1.5,true,null,\"é\\ud83d\\ude00\"]}",
                json!({"a": [1, -2, 1.5, true, null, "é😀"]}),
            ),
            ("9007199254740991", json!(9_007_199_254_740_991_u64)),
            (" -9007199254740991 ", json!(-9_007_199_254_740_991_i64)),
            ("{\"a\":{\"a\":1},\"b\":{\"a\":1}}", json!({"a": {"a": 1}, "b": {"a": 1}})),
        ] {
            assert_eq!(read(text.as_bytes()), Ok(expected), "{text}");
        }
        for text in [
            "",
            "{",
            "nul",
            "{\"a\":1,\"a\":1}",
            "{\"x\":{\"a\":1,\"\\u0061\":2}}",
            "9007199254740992",
            "-9007199254740992",
            "18446744073709551616",
            "1e999",
            "\"\\ud800\"",
            "\"\u{fffe}\"",
            "\"\\ufdd0\"",
            "{\"\u{1ffff}\":1}",
            "1 2",
            "01",
            "[1,]",
            "\"\t\"",
            "NaN",
        ] {
            assert!(matches!(read(text.as_bytes()), Err(JsonError::NotJson(_))), "{text}");
        }
        assert!(matches!(read(b"\"\xff\""), Err(JsonError::NotJson(_))));
        let deep = format!("{}1{}", "[".repeat(65), "]".repeat(65));
        assert_eq!(read(deep.as_bytes()), Err(JsonError::TooDeep));
        let many = format!("[{}1]", "1,".repeat(limits::MAX_JSON_VALUES));
        assert_eq!(read(many.as_bytes()), Err(JsonError::TooManyValues));
        // Just as many values as may be, the array included: in a valid text, in one that is cut,
        // and in one that something follows.
        let ones = "1,".repeat(limits::MAX_JSON_VALUES - 2);
        assert!(read(format!("[{ones}1]").as_bytes()).is_ok());
        for text in [format!("[{ones}1"), format!("[{ones}1,"), format!("[{ones}1] x")] {
            assert!(matches!(read(text.as_bytes()), Err(JsonError::NotJson(_))));
        }
    }

    #[test]
    fn writes_no_noncharacters() {
        let written = write(&json!({"a": "x\u{fffe}y\u{fdd0}\u{10ffff}😀\u{feff}"}));
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "{\"a\":\"x\u{fffd}y\u{fffd}\u{fffd}😀\u{feff}\"}"
        );
    }

    proptest! {
        #[test]
        fn written_values_are_read_back(
            text in ".{0,20}",
            number in any::<i16>(),
            integer in any::<u32>(),
        ) {
            let number = f64::from(number) / 64.0;
            let negative = i64::from(integer).wrapping_neg();
            let value = json!({"text": text, "numbers": [number, integer, negative]});
            let read = read(&write(&value)).unwrap();
            prop_assert_eq!(&read["numbers"], &value["numbers"]);
            let clean = text.replace(is_noncharacter, "\u{fffd}");
            prop_assert_eq!(read["text"].as_str().unwrap(), clean);
        }
    }
}
