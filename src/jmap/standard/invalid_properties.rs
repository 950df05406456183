//! Collects the invalid properties of an object, so that one error names them together (RFC 8620
//! §5.3 `properties`).

use crate::model::limits;
use crate::wire::jmap::SetError;

/// The invalid properties so far.
#[derive(Debug, Default)]
pub(in crate::jmap) struct InvalidProperties {
    properties: Vec<String>,
    /// The reason for the first property; `None` if there is no property.
    why: Option<String>,
}

impl InvalidProperties {
    /// Adds a property. Only the reason for the first one is reported, and only the first
    /// `limits::MAX_NAMED_PROPERTIES` are named.
    pub(in crate::jmap) fn add(&mut self, property: impl Into<String>, why: &str) {
        let property = property.into();
        self.why.get_or_insert_with(|| format!("{property}: {why}"));
        if self.properties.len() < limits::MAX_NAMED_PROPERTIES
            && !self.properties.contains(&property)
        {
            self.properties.push(property);
        }
    }

    /// Returns the value. For an `InvalidProperties` error, adds its properties and returns `None`.
    ///
    /// # Errors
    /// Any other error.
    pub(in crate::jmap) fn note<T>(
        &mut self,
        result: Result<T, SetError>,
    ) -> Result<Option<T>, SetError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(SetError::InvalidProperties(properties, why)) => {
                properties.into_iter().for_each(|property| self.add(property, &why));
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    pub(in crate::jmap) fn is_empty(&self) -> bool {
        self.why.is_none()
    }

    /// Ends the collection.
    ///
    /// # Errors
    /// `InvalidProperties` with what was collected, if anything was.
    pub(in crate::jmap) fn finish(self) -> Result<(), SetError> {
        match self.why {
            Some(why) => Err(SetError::InvalidProperties(self.properties, why)),
            None => Ok(()),
        }
    }
}
