//! Reads and applies a `PatchObject` (RFC 8620 §5.3), which sets values of an object by JSON
//! pointers without the leading slash.

use serde_json::{Map, Value};

use super::error::SetError;

/// Pointers, each as its steps, with their values, sorted by the steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch<'p>(Vec<(Vec<String>, &'p Value)>);

impl<'p> Patch<'p> {
    /// Reads a well-formed patch.
    ///
    /// # Errors
    /// `invalidPatch`: the patch is not an object, a pointer is invalid, or a pointer begins with
    /// all steps of another.
    pub fn read(patch: &'p Value) -> Result<Self, SetError> {
        let invalid = |description: &str| SetError::InvalidPatch(description.to_owned());
        let members = patch.as_object().ok_or_else(|| invalid("a patch must be an object"))?;
        let mut changes = Vec::with_capacity(members.len());
        for (pointer, value) in members {
            let steps = pointer.split('/').map(decode_token).collect::<Option<Vec<String>>>();
            changes.push((
                steps.ok_or_else(|| invalid(&format!("{pointer} is not a JSON pointer")))?,
                value,
            ));
        }
        changes.sort_by(|(one, _): &(Vec<String>, &Value), (other, _)| one.cmp(other));
        // After sorting, a pointer that begins with another follows it.
        for pair in changes.windows(2) {
            if let [(one, _), (other, _)] = pair
                && other.starts_with(one)
            {
                return Err(invalid(&format!("{} and {} overlap", one.join("/"), other.join("/"))));
            }
        }
        Ok(Self(changes))
    }

    /// Reads a patch, and returns the properties that it names, with their values in `object` after
    /// the patch. Does not change `object`.
    ///
    /// # Errors
    /// `invalidPatch`.
    pub fn new_values(
        patch: &'p Value,
        object: &Map<String, Value>,
    ) -> Result<Vec<(String, Value)>, SetError> {
        let (patch, mut patched) = (Self::read(patch)?, object.clone());
        patch.apply(&mut patched)?;
        let new_values = patch
            .properties()
            .map(|name| (name.to_owned(), patched.get(name).cloned().unwrap_or_default()));
        Ok(new_values.collect())
    }

    /// Returns the properties that the patch names, sorted, each once.
    pub fn properties(&self) -> impl Iterator<Item = &str> {
        // Pointers that begin with the same property follow one another.
        let mut last = None;
        self.0.iter().filter_map(move |(steps, _)| {
            let first = steps.first()?.as_str();
            (last.replace(first) != Some(first)).then_some(first)
        })
    }

    /// Applies the patch to an object, which must have each property that a pointer leads through.
    ///
    /// A property that is set to null is null in the result. Below a property, null removes a
    /// member. A property that the object does not have is added. After an error the object may be
    /// partly changed.
    ///
    /// # Errors
    /// `invalidPatch`: a pointer leads through a value that does not exist or is not an object.
    /// Arrays cannot be patched.
    pub fn apply(&self, object: &mut Map<String, Value>) -> Result<(), SetError> {
        for (steps, value) in &self.0 {
            let invalid = || {
                let pointer = steps.join("/");
                SetError::InvalidPatch(format!("{pointer}: no object has this member"))
            };
            let Some((last, parents)) = steps.split_last() else { return Err(invalid()) };
            let mut target = &mut *object;
            for step in parents {
                target = target.get_mut(step).and_then(Value::as_object_mut).ok_or_else(invalid)?;
            }
            if value.is_null() && !parents.is_empty() {
                target.remove(last);
            } else {
                target.insert(last.clone(), (*value).clone());
            }
        }
        Ok(())
    }
}

/// Decodes a reference token (RFC 6901 §3, §4).
pub(super) fn decode_token(token: &str) -> Option<String> {
    let mut out = String::with_capacity(token.len());
    let mut rest = token.chars();
    while let Some(c) = rest.next() {
        match c {
            '~' => out.push(match rest.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            }),
            c => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "name": "x",
            "keywords": {"$seen": true, "a/b": true},
            "list": [1, {"a": 1}],
            "none": null,
        })
    }

    fn patched(patch: &Value) -> Result<Value, String> {
        let mut object = object().as_object().unwrap().clone();
        let kind = |error: SetError| error.object()["type"].as_str().unwrap().to_owned();
        Patch::read(patch).and_then(|read| read.apply(&mut object)).map_err(kind)?;
        Ok(Value::Object(object))
    }

    #[test]
    fn patch_sets_and_removes_values() {
        let original = object();
        assert_eq!(patched(&json!({})), Ok(original.clone()));
        let mut expected = original.clone();
        expected["keywords"] = json!({"$seen": true, "x~y": true});
        expected["name"] = json!(null);
        expected["new"] = json!({"a": 1});
        let patch = json!({
            "keywords/a~1b": null,
            "keywords/x~0y": true,
            "name": null,
            "new": {"a": 1},
            "keywords/not": null,
        });
        assert_eq!(patched(&patch), Ok(expected));
        let read = json!({"keywords/b": true, "name": "y", "keywords/a": true, "keyword": 1});
        assert_eq!(
            Patch::read(&read).unwrap().properties().collect::<Vec<_>>(),
            ["keyword", "keywords", "name"]
        );
    }

    #[test]
    fn invalid_patches_are_refused() {
        for invalid in [
            json!([]),
            json!({"keywords": {}, "keywords/a": true}),
            json!({"keywords/a": true, "keywords/a/b": true}),
            json!({"list/0": 2}),
            json!({"list/1/a": 2}),
            json!({"none/a": true}),
            json!({"missing/a": true}),
            json!({"name/a": true}),
            json!({"keywords/$seen/x": true}),
            json!({"a~2b": 1}),
            json!({"a~": 1}),
        ] {
            assert_eq!(patched(&invalid), Err("invalidPatch".into()), "{invalid}");
        }
        // A name that only begins with another name is not within it.
        assert!(patched(&json!({"keywords/a": true, "keywords/ab": true, "keywordsx": 1})).is_ok());
    }
}
