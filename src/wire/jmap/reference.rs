//! Resolves result references (RFC 8620 §3.7): arguments that are copied from an earlier response.
//!
//! The copies are bounded: calls that each refer twice to the one before would double the response
//! with each call.

use serde_json::{Map, Value};

use super::error::MethodError;
use super::json::weight_within;
use super::patch::decode_token;
use super::request::Invocation;
use super::text::ResponseArguments;
use crate::model::limits;

/// Whether arguments that are not resolved yet refer to the response to the call `id`.
#[must_use]
pub fn refers_to(arguments: &Map<String, Value>, id: &str) -> bool {
    let mut references = arguments.iter().filter(|(name, _)| name.starts_with('#'));
    references.any(|(_, reference)| reference.get("resultOf").is_some_and(|of| of == id))
}

/// Replaces each argument `#name` by the value to which it refers. If several responses have the id
/// of one call, only the first can be referred to. After an error some arguments may be replaced
/// already.
///
/// # Errors
/// - `invalidResultReference`: there is no such value, or all referenced values of the call exceed
///   `limits::MAX_REFERENCED_BYTES`.
/// - `invalidArguments`: the call has both `name` and `#name`.
pub fn resolve(
    arguments: &mut Map<String, Value>,
    answers: &[Invocation<ResponseArguments>],
) -> Result<(), MethodError> {
    let references: Vec<String> =
        arguments.keys().filter(|key| key.starts_with('#')).cloned().collect();
    let mut bytes_left = limits::MAX_REFERENCED_BYTES;
    for key in references {
        let name = key.strip_prefix('#').unwrap_or_default().to_owned();
        if arguments.contains_key(&name) {
            return Err(MethodError::InvalidArguments(format!(
                "both {name} and {key} are present"
            )));
        }
        let reference = arguments.remove(&key).unwrap_or_default();
        let value = resolve_one(&reference, answers, &mut bytes_left)
            .map_err(|why| MethodError::InvalidResultReference(format!("{key}: {why}")))?;
        arguments.insert(name, value);
    }
    Ok(())
}

type ReferenceError = &'static str;
const NOT_FOUND: ReferenceError = "no earlier response has such a value";
const TOO_LARGE: ReferenceError = "the referenced values of one call are too large";

fn resolve_one(
    reference: &Value,
    answers: &[Invocation<ResponseArguments>],
    bytes_left: &mut usize,
) -> Result<Value, ReferenceError> {
    let part = |name: &str| reference.get(name).and_then(Value::as_str).ok_or(NOT_FOUND);
    let (result_of, name, path) = (part("resultOf")?, part("name")?, part("path")?);
    let mut same_id = answers.iter().filter(|answer| answer.id == result_of);
    let answer = same_id.next().filter(|answer| answer.name == name).ok_or(NOT_FOUND)?;
    let steps: Vec<String> = match path.strip_prefix('/') {
        Some(path) => path.split('/').map(decode_token).collect::<Option<_>>().ok_or(NOT_FOUND)?,
        None if path.is_empty() => Vec::new(),
        None => return Err(NOT_FOUND),
    };
    let members = &answer.arguments.members;
    match steps.split_first() {
        Some((step, rest)) => pointer(members.get(step).ok_or(NOT_FOUND)?, rest, bytes_left),
        None => {
            members.iter().try_for_each(|(name, value)| {
                subtract(name.len(), bytes_left).and_then(|()| weigh(value, bytes_left))
            })?;
            Ok(Value::Object(members.clone()))
        }
    }
}

/// Follows a JSON pointer (RFC 6901), in which `*` stands for all items of an array. If the result
/// for an item is an array, its items are added instead of the array (RFC 8620 §3.7).
fn pointer(
    value: &Value,
    steps: &[String],
    bytes_left: &mut usize,
) -> Result<Value, ReferenceError> {
    let Some((step, rest)) = steps.split_first() else {
        weigh(value, bytes_left)?;
        return Ok(value.clone());
    };
    match value {
        Value::Array(items) if step == "*" => {
            let mut results = Vec::new();
            for item in items {
                match pointer(item, rest, bytes_left)? {
                    Value::Array(inner) => results.extend(inner),
                    one => results.push(one),
                }
            }
            Ok(Value::Array(results))
        }
        Value::Array(items) => {
            let is_index = step == "0"
                || (!step.starts_with('0') && step.bytes().all(|digit| digit.is_ascii_digit()));
            let index = is_index.then(|| step.parse::<usize>().ok()).flatten().ok_or(NOT_FOUND)?;
            pointer(items.get(index).ok_or(NOT_FOUND)?, rest, bytes_left)
        }
        Value::Object(members) => pointer(members.get(step).ok_or(NOT_FOUND)?, rest, bytes_left),
        _ => Err(NOT_FOUND),
    }
}

fn weigh(value: &Value, bytes_left: &mut usize) -> Result<(), ReferenceError> {
    subtract(weight_within(value, *bytes_left).ok_or(TOO_LARGE)?, bytes_left)
}

fn subtract(bytes: usize, bytes_left: &mut usize) -> Result<(), ReferenceError> {
    *bytes_left = bytes_left.checked_sub(bytes).ok_or(TOO_LARGE)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reference_is_replaced_by_the_value_in_the_response() {
        let answers = [Invocation {
            name: "Foo/get".into(),
            arguments:
                json!({"list": [{"id": "a", "to": ["x", "y"]}, {"id": "b", "to": []}], "a/b": 1})
                    .into(),
            id: "0".into(),
        }];
        let reference = |path: &str| {
            let mut arguments = Map::new();
            arguments
                .insert("#ids".into(), json!({"resultOf": "0", "name": "Foo/get", "path": path}));
            resolve(&mut arguments, &answers).map(|()| arguments.remove("ids").unwrap())
        };
        assert_eq!(reference("/list/*/id"), Ok(json!(["a", "b"])));
        assert_eq!(reference("/list/*/to"), Ok(json!(["x", "y"])));
        assert_eq!(reference("/list/1/id"), Ok(json!("b")));
        assert_eq!(reference("/a~1b"), Ok(json!(1)));
        for path in
            ["/list/2/id", "/list/01/id", "/nothing", "list", "/list/*/no", "/a~2b", "/list/-"]
        {
            assert!(
                matches!(reference(path), Err(MethodError::InvalidResultReference(_))),
                "{path}"
            );
        }
        assert_eq!(reference(""), Ok(Value::Object(answers[0].arguments.members.clone())));
        let mut both = Map::new();
        both.insert("#a".into(), json!({}));
        both.insert("a".into(), json!(1));
        assert!(matches!(resolve(&mut both, &answers), Err(MethodError::InvalidArguments(_))));
        // Only the first `#` marks the reference. The rest is the name.
        let mut twice = Map::new();
        twice.insert("##a".into(), json!({"resultOf": "0", "name": "Foo/get", "path": "/a~1b"}));
        assert_eq!((resolve(&mut twice, &answers), twice.get("#a")), (Ok(()), Some(&json!(1))));
    }

    #[test]
    fn referenced_values_of_a_call_are_bounded() {
        let mut answers = Vec::<Invocation<ResponseArguments>>::new();
        for n in 0..40_usize {
            let mut arguments = Map::new();
            for name in ["#a", "#b"] {
                let before = n.saturating_sub(1).to_string();
                arguments.insert(
                    name.into(),
                    json!({"resultOf": before, "name": "Core/echo", "path": ""}),
                );
            }
            if n == 0 {
                arguments = json!({"a": "x".repeat(1000)}).as_object().unwrap().clone();
            }
            let done = resolve(&mut arguments, &answers);
            // With the memory for its members, each response takes more than twice as much as the
            // one before. The tenth exceeds the bound of 1 MiB.
            assert_eq!(done.is_ok(), n < 9, "call {n}: {done:?}");
            if done.is_err() {
                break;
            }
            let arguments = arguments.into();
            answers.push(Invocation { name: "Core/echo".into(), arguments, id: n.to_string() });
        }
        assert_eq!(answers.len(), 9);
    }
}
