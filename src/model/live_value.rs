//! A value that can be replaced while it is in use, such as settings that are reloaded. Code that
//! calls `get` only once sees no mix of old and new settings.

use std::sync::Arc;

use parking_lot::RwLock;

/// A replaceable value, shared by all clones.
#[derive(Debug)]
pub struct LiveValue<T>(Arc<RwLock<Arc<T>>>);

impl<T> LiveValue<T> {
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(value))))
    }

    /// Returns the current value, which a later `set` does not change.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read())
    }

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
