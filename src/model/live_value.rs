//! A value that can be replaced while it is in use, such as settings when the configuration is
//! reloaded.
//!
//! A session, a transaction or an attempt gets the value once, at its start, and uses it to its
//! end. So none of them sees a mix of old and new settings.

use std::sync::Arc;

use parking_lot::RwLock;

/// A shared, replaceable value. Clones share the value.
#[derive(Debug)]
pub struct LiveValue<T>(Arc<RwLock<Arc<T>>>);

impl<T> LiveValue<T> {
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(value))))
    }

    /// Returns the current value. A later `set` does not change what was returned.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read())
    }

    /// Replaces the value for all later calls of `get`.
    pub fn set(&self, value: T) {
        *self.0.write() = Arc::new(value);
    }
}

impl<T> Clone for LiveValue<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Default> Default for LiveValue<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_does_not_change_a_value_already_returned() {
        let live = LiveValue::new(1);
        let (other, held) = (live.clone(), live.get());
        other.set(2);
        assert_eq!((*held, *live.get()), (1, 2));
    }
}
