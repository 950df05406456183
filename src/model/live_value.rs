//! A value that may be replaced while it is in use: a room's settings, when the configuration is
//! read again.
//!
//! What must hold: a session, a transaction or an attempt takes the value once, at its start, and
//! keeps it to its end; so nothing ever sees half of an old value and half of a new one.

use std::sync::Arc;

use parking_lot::RwLock;

/// A shared value; its clones are the same one.
#[derive(Debug)]
pub struct LiveValue<T>(Arc<RwLock<Arc<T>>>);

impl<T> LiveValue<T> {
    /// Holds `value` until another is put in its place.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(value))))
    }

    /// The value of this moment; it stays as it is for who holds it.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read())
    }

    /// Puts another in its place, for all who ask from now on.
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
    fn who_took_the_old_value_keeps_it() {
        let live = LiveValue::new(1);
        let (other, held) = (live.clone(), live.get());
        other.set(2);
        assert_eq!((*held, *live.get()), (1, 2));
    }
}
