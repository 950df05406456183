//! What is wrong with an object, property by property: a client is told of all at once (RFC 8620
//! §5.3 `properties`).

use crate::model::limits;
use crate::wire::jmap::SetError;

/// What is wrong.
#[derive(Debug, Default)]
pub(in crate::jmap) struct InvalidProperties {
    properties: Vec<String>,
    why: Option<String>,
}

impl InvalidProperties {
    /// One more property, and what is wrong with it. What is said of the first is said of all;
    /// beyond `limits::MAX_NAMED_PROPERTIES` they are not named.
    pub(in crate::jmap) fn add(&mut self, property: impl Into<String>, why: &str) {
        let property = property.into();
        self.why.get_or_insert_with(|| format!("{property}: {why}"));
        if self.properties.len() < limits::MAX_NAMED_PROPERTIES
            && !self.properties.contains(&property)
        {
            self.properties.push(property);
        }
    }

    /// Takes note of the properties that an error names.
    ///
    /// # Errors
    /// Any other error, as it is.
    pub(in crate::jmap) fn note<T>(
        &mut self,
        done: Result<T, SetError>,
    ) -> Result<Option<T>, SetError> {
        match done {
            Ok(made) => Ok(Some(made)),
            Err(SetError::InvalidProperties(properties, why)) => {
                properties.into_iter().for_each(|property| self.add(property, &why));
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    /// Whether nothing is.
    pub(in crate::jmap) fn is_empty(&self) -> bool {
        self.why.is_none()
    }

    /// The end.
    ///
    /// # Errors
    /// `invalidProperties` where something is wrong.
    pub(in crate::jmap) fn finish(self) -> Result<(), SetError> {
        match self.why {
            Some(why) => Err(SetError::InvalidProperties(self.properties, why)),
            None => Ok(()),
        }
    }
}
