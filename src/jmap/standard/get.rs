//! /get (RFC 8620 §5.1).

use serde_json::{Map, Value, json};

use crate::jmap::context::{Args, Context, distinct};
use crate::model::{AccountId, limits};
use crate::wire::jmap::MethodError;

/// What a /get asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::jmap) struct GetArguments {
    /// The ids, each once, creation ids replaced; `None` is all there are.
    pub(in crate::jmap) ids: Option<Vec<String>>,
    /// The properties, `id` among them; `None` is the usual.
    pub(in crate::jmap) properties: Option<Vec<String>>,
}

impl GetArguments {
    /// Reads the arguments.
    ///
    /// # Errors
    /// `invalidArguments`, `requestTooLarge`.
    pub(in crate::jmap) fn read(arguments: &Args<'_>) -> Result<Self, MethodError> {
        let ids = match arguments.get("ids") {
            None => None,
            Some(_) => {
                let ids = arguments.texts("ids")?.into_iter();
                Some(distinct(ids.map(|id| arguments.created().resolve(&id).unwrap_or(id))))
            }
        };
        if ids.as_ref().is_some_and(|ids| ids.len() > limits::OBJECTS_IN_GET) {
            return Err(MethodError::RequestTooLarge("maxObjectsInGet"));
        }
        let mut properties = match arguments.get("properties") {
            None => None,
            Some(_) => Some(arguments.distinct("properties")?),
        };
        if let Some(properties) = properties.as_mut().filter(|names| !names.iter().any(|name| name == "id")) {
            properties.insert(0, "id".into());
        }
        Ok(Self { ids, properties })
    }

    /// Refuses to give all there are where that is more than one call may give.
    ///
    /// # Errors
    /// `requestTooLarge`.
    pub(in crate::jmap) fn prove_all(&self, count: u64) -> Result<(), MethodError> {
        if self.ids.is_none() && count > limits::OBJECTS_IN_GET as u64 {
            return Err(MethodError::RequestTooLarge("maxObjectsInGet"));
        }
        Ok(())
    }

    /// The answer: of each object what `object` gives, in the order asked; `all` are the ids where none were named.
    ///
    /// # Errors
    /// Those of `object`; `requestTooLarge` where the request has no room for so large an answer.
    pub(in crate::jmap) fn answer(
        self,
        context: &Context,
        account: AccountId,
        state: &str,
        all: impl FnOnce() -> Vec<String>,
        mut object: impl FnMut(&str) -> Result<Option<Map<String, Value>>, MethodError>,
    ) -> Result<Value, MethodError> {
        let (mut list, mut not_found) = (Vec::new(), Vec::new());
        for id in self.ids.unwrap_or_else(all) {
            match object(&id)? {
                Some(found) => {
                    let object = Value::Object(only(found, self.properties.as_deref()));
                    context.budget.tell(&object)?;
                    list.push(object);
                }
                None => not_found.push(id),
            }
        }
        Ok(json!({"accountId": account.to_string(), "state": state, "list": list, "notFound": not_found}))
    }
}

/// The properties of an object that were asked for.
pub(in crate::jmap) fn only(mut object: Map<String, Value>, wanted: Option<&[String]>) -> Map<String, Value> {
    if let Some(wanted) = wanted {
        object.retain(|name, _| wanted.iter().any(|wanted| wanted == name));
    }
    object
}
