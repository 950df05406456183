//! Result references (RFC 8620 §3.7): an argument taken from the answer to an earlier call.

use serde_json::{Map, Value};

use super::error::MethodError;
use super::request::Invocation;

/// Replaces each `#name` argument by what it refers to in the answers so far.
///
/// # Errors
/// `invalidResultReference` where it leads nowhere, `invalidArguments` where `name` is there too.
pub fn resolve(arguments: &mut Map<String, Value>, answers: &[Invocation]) -> Result<(), MethodError> {
    let references: Vec<String> = arguments.keys().filter(|key| key.starts_with('#')).cloned().collect();
    for key in references {
        let name = key.trim_start_matches('#').to_owned();
        if arguments.contains_key(&name) {
            return Err(MethodError::InvalidArguments(format!("both {name} and {key}")));
        }
        let reference = arguments.remove(&key).unwrap_or_default();
        let value = follow(&reference, answers)
            .ok_or_else(|| MethodError::InvalidResultReference(format!("{key} leads nowhere")))?;
        arguments.insert(name, value);
    }
    Ok(())
}

fn follow(reference: &Value, answers: &[Invocation]) -> Option<Value> {
    let part = |name: &str| reference.get(name).and_then(Value::as_str);
    let (result_of, name, path) = (part("resultOf")?, part("name")?, part("path")?);
    let answer = answers.iter().find(|answer| answer.id == result_of).filter(|answer| answer.name == name)?;
    let steps: Vec<String> = match path.strip_prefix('/') {
        Some(path) => path.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect(),
        None if path.is_empty() => Vec::new(),
        None => return None,
    };
    pointer(&Value::Object(answer.arguments.clone()), &steps)
}

/// JSON pointer (RFC 6901) with `*`, which gathers over an array and flattens one level.
fn pointer(value: &Value, steps: &[String]) -> Option<Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value.clone()) };
    match value {
        Value::Array(items) if step == "*" => {
            let mut all = Vec::new();
            for item in items {
                match pointer(item, rest)? {
                    Value::Array(inner) => all.extend(inner),
                    one => all.push(one),
                }
            }
            Some(Value::Array(all))
        }
        Value::Array(items) => {
            let whole = step == "0" || (!step.starts_with('0') && step.bytes().all(|digit| digit.is_ascii_digit()));
            let at = whole.then(|| step.parse::<usize>().ok()).flatten()?;
            pointer(items.get(at)?, rest)
        }
        Value::Object(members) => pointer(members.get(step)?, rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references() {
        let answers = [Invocation {
            name: "Foo/get".into(),
            arguments: json!({"list": [{"id": "a", "to": ["x", "y"]}, {"id": "b", "to": []}], "a/b": 1})
                .as_object()
                .unwrap()
                .clone(),
            id: "0".into(),
        }];
        let reference = |path: &str| {
            let mut arguments = Map::new();
            arguments.insert("#ids".into(), json!({"resultOf": "0", "name": "Foo/get", "path": path}));
            resolve(&mut arguments, &answers).map(|()| arguments.remove("ids").unwrap())
        };
        assert_eq!(reference("/list/*/id"), Ok(json!(["a", "b"])));
        assert_eq!(reference("/list/*/to"), Ok(json!(["x", "y"])));
        assert_eq!(reference("/list/1/id"), Ok(json!("b")));
        assert_eq!(reference("/a~1b"), Ok(json!(1)));
        for path in ["/list/2/id", "/list/01/id", "/nothing", "list", "/list/*/no"] {
            assert!(matches!(reference(path), Err(MethodError::InvalidResultReference(_))), "{path}");
        }
        let mut both = Map::new();
        both.insert("#a".into(), json!({}));
        both.insert("a".into(), json!(1));
        assert!(matches!(resolve(&mut both, &answers), Err(MethodError::InvalidArguments(_))));
    }
}
